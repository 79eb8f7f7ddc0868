/* SPDX-License-Identifier: Apache-2.0
 * The later stages of lowering as text: groups, kernel programs, plan of a run. C source: report_source.c. */
#include <inttypes.h>

#include "runtime/report.h"
#include "runtime/sync.h"

ppto_status pp_report_give(pp_text *text, char **out)
{
    pp_text_add(text, "%s", "");
    *out = text->failed ? NULL : text->at;
    if (!text->failed) return PPTO_OK;
    pp_text_free(text);
    return pp_report_new(PPTO_E_NOMEM, "out of memory");
}

static bool has_member(const pp_plan *plan, const pp_group *g, pp_prim_kind kind)
{
    for (size_t m = 0; m < g->members.n; m++)
        if (plan->flat.prims.at[g->members.at[m]].kind == kind) return true;
    return false;
}

/* Does a kernel with folds store a value at every inner point? */
static bool stores_inside(const pp_program *p)
{
    for (uint32_t s = 0; s < p->n_stages; s++)
        for (uint32_t i = 0; p->stages[s].inner && i < p->stages[s].count; i++)
            if (p->code[p->stages[s].first + i].op == PP_STORE) return true;
    return false;
}

const char *pp_report_kind(const pp_plan *plan, size_t group)
{
    const pp_group *g = &plan->fused.groups.at[group];
    const pp_program *p = plan->lowered[group].program;
    if (pp_plan_is_copy(plan, group)) return "copy";
    if (p->frame == PP_FRAME_CHAIN) return "chain";
    if (p->frame == PP_FRAME_CONTRACT) return "contract";
    if (p->frame == PP_FRAME_MAP) return has_member(plan, g, PP_P_GATHER) ? "gather" : "map";
    if (has_member(plan, g, PP_P_SCAN)) return "scan";
    return stores_inside(p) ? "row" : "reduce";
}

ppto_status pp_report_operators(const ppto_program *p, size_t group,
                                void (*visit)(void *arg, const pp_origin *origin), void *arg)
{
    const pp_plan *plan = p->plan;
    const pp_group *g = &plan->fused.groups.at[group];
    uint8_t *seen = pp_calloc(p->n_origins + 1, 1);
    if (!seen) return PPTO_E_NOMEM;
    for (size_t m = 0; m < g->members.n + g->roots.n; m++) {
        uint32_t prim = m < g->members.n ? g->members.at[m] : g->roots.at[m - g->members.n].prim;
        uint32_t origin = plan->flat.prims.at[prim].origin;
        if (origin >= p->n_origins || seen[origin]) continue;
        seen[origin] = 1;
        visit(arg, &p->origins[origin]);
    }
    pp_free(seen);
    return PPTO_OK;
}

/* ---- groups, kernels
 * --------------------------------------------------------------------------------------------- */

void pp_report_syncs(const ppto_program *program, const char *front, const char *back, pp_text *out)
{
    const pp_plan *plan = program->plan;
    for (size_t i = 0; i < plan->flat.syncs.n; i++) {
        const pp_sync *sync = &plan->flat.syncs.at[i];
        const ppto_site *site = &program->origins[sync->origin].site;
        char place[PP_SITE_ROOM];
        pp_text_add(out, "%ssync point %zu: stream %s %s", front, i, pp_program_stream(program, sync->stream),
                    sync->kind == PP_SYNC_RECORD ? "records an event" : "waits for ");
        if (sync->kind == PP_SYNC_WAIT && sync->record == PP_NONE)
            pp_text_add(out, "an event from outside");
        else if (sync->kind == PP_SYNC_WAIT)
            pp_text_add(out, "sync point %" PRIu32, sync->record);
        if (site->file) pp_text_add(out, ", recorded at %s", pp_site_text(site, place, sizeof place));
        pp_text_add(out, "%s\n", back);
    }
}

static void print_stream(const ppto_program *program, uint32_t stream, pp_text *out)
{
    if (stream != 0) pp_text_add(out, ", stream %s", pp_program_stream(program, stream));
}

static void print_list(const char *title, const uint32_t *at, size_t n, pp_text *out)
{
    pp_text_add(out, "  %s", title);
    for (size_t i = 0; i < n; i++) pp_text_add(out, " %" PRIu32, at[i]);
    pp_text_add(out, "\n");
}

static void print_missed(const ppto_program *program, pp_text *out)
{
    const pp_plan *plan = program->plan;
    for (size_t i = 0; i < plan->fused.missed.n; i++) {
        const pp_missed *m = &plan->fused.missed.at[i];
        pp_text_add(out, "not fused: %s (prim %" PRIu32 ") into %s (prim %" PRIu32 "): %s\n",
                    pp_program_origin(program, m->producer)->operator_name, m->producer,
                    pp_program_origin(program, m->consumer)->operator_name, m->consumer,
                    pp_reason_code(m->reason));
    }
}

void pp_report_fused(const ppto_program *program, pp_text *out)
{
    const pp_plan *plan = program->plan;
    static const char *const frames[] = {"map", "lanes", "rows", "contract", "chain"};
    static const char *const roles[] = {"outer", "inner", "batch", "m", "n", "k"};
    const pp_sizes *sizes = pp_types_sizes(plan->types);
    for (size_t i = 0; i < plan->fused.groups.n; i++) {
        const pp_group *g = &plan->fused.groups.at[i];
        pp_text_add(out, "group %zu: %s over", i, frames[g->frame]);
        for (uint32_t a = 0; a < g->axes.n_order; a++) {
            uint8_t axis = g->axes.order[a];
            pp_text_add(out, " %s ", roles[g->role[axis]]);
            pp_size_print(sizes, g->axes.size[axis], out);
        }
        print_stream(program, g->stream, out);
        pp_text_add(out, "\n");
        print_list("computes prims", g->members.at, g->members.n, out);
        pp_text_add(out, "  stores prims");
        for (size_t r = 0; r < g->roots.n; r++) {
            uint32_t prim = g->roots.at[r].prim;
            pp_text_add(out, " %" PRIu32 " (%s)", prim, pp_program_origin(program, prim)->operator_name);
        }
        pp_text_add(out, "\n");
        print_list("needs groups", g->needs.at, g->needs.n, out);
    }
    pp_report_syncs(program, "", "", out);
    print_missed(program, out);
}

void pp_report_kernels(const ppto_program *program, pp_text *out)
{
    const pp_plan *plan = program->plan;
    for (size_t g = 0; g < plan->fused.groups.n; g++) {
        pp_text_add(out, "%skernel %zu (%s", g ? "\n" : "", g, pp_report_kind(plan, g));
        print_stream(program, plan->fused.groups.at[g].stream, out);
        pp_text_add(out, ")\n");
        pp_program_print(plan->lowered[g].program, out);
    }
    pp_report_syncs(program, "", "", out);
}

/* ---- plan
 * ------------------------------------------------------------------------------------------------------------------
 */

static void print_bound(const pp_report_sizes *s, size_t group, uint32_t tensor, pp_text *out)
{
    const pp_plan *plan = s->program->plan;
    const pp_bound *bound = &s->instance->groups[group].bound[tensor];
    if (bound->from == PP_FROM_INPUT)
        pp_text_add(out, " %s", plan->inputs.at[bound->which].name);
    else
        pp_text_add(out, " %s%" PRIu32, bound->from == PP_FROM_OUTPUT ? "result " : "buffer ", bound->which);
}

static void print_needs(const pp_schedule *schedule, uint32_t step, pp_text *out)
{
    uint32_t first = schedule->first_need[step];
    print_list("after steps", schedule->needs.at + first, schedule->first_need[step + 1] - first, out);
}

static void print_sync_step(const pp_report_sizes *s, uint32_t step, pp_text *out)
{
    const pp_plan_step *of = &s->instance->schedule->steps.at[step];
    const char *stream = pp_program_stream(s->program, of->stream);
    if (of->kind == PP_STEP_SYNC)
        pp_text_add(out, "step %" PRIu32 ": sync point %" PRIu32 " of stream %s\n", step, of->which, stream);
    else
        pp_text_add(out, "step %" PRIu32 ": %s stream %s\n", step,
                    of->kind == PP_STEP_GATE ? "enters" : "leaves", stream);
    print_needs(s->instance->schedule, step, out);
}

static void print_file_step(const pp_report_sizes *s, uint32_t step, pp_text *out)
{
    const pp_plan_step *of = &s->instance->schedule->steps.at[step];
    if (of->kind == PP_STEP_LOAD)
        pp_text_add(out, "step %" PRIu32 ": loads %s from %s", step,
                    s->program->plan->inputs.at[of->which].name, s->inputs[of->which]->file->path);
    else
        pp_text_add(out, "step %" PRIu32 ": stores result %" PRIu32 " to %s", step, of->which,
                    s->program->sinks[of->which]);
    print_stream(s->program, of->stream, out);
    pp_text_add(out, "\n");
    print_needs(s->instance->schedule, step, out);
}

static void print_group_step(const pp_report_sizes *s, uint32_t step, pp_text *out)
{
    const pp_plan *plan = s->program->plan;
    uint32_t g = s->instance->schedule->steps.at[step].which;
    const pp_lowered *l = &plan->lowered[g];
    const pp_instance_group *group = &s->instance->groups[g];
    pp_text_add(out, "step %" PRIu32 ": %s", step, pp_report_kind(plan, g));
    print_stream(s->program, plan->fused.groups.at[g].stream, out);
    pp_text_add(out, ", tasks by phase");
    for (uint32_t p = 0; p < group->geometry.phases; p++)
        pp_text_add(out, " %" PRIu32, group->geometry.tasks[p]);
    pp_text_add(out, ", scratch %zu bytes a task\n", group->geometry.scratch_bytes);
    print_needs(s->instance->schedule, step, out);
    for (int output = 0; output < 2; output++) {
        pp_text_add(out, "  %s", output ? "writes" : "reads");
        for (uint32_t t = 0; t < l->tensors.n; t++)
            if (l->tensors.at[t].output == (output == 1)) print_bound(s, g, t, out);
        pp_text_add(out, "\n");
    }
}

static uint64_t tensor_bytes(const pp_tensor_ref *tensor, uint8_t dtype)
{
    uint64_t n = ppto_dtype_size((ppto_dtype)dtype);
    for (uint32_t d = 0; d < tensor->rank; d++) n *= (uint64_t)tensor->shape[d];
    return n;
}

static void print_buffers(const pp_report_sizes *s, pp_text *out)
{
    const pp_plan *plan = s->program->plan;
    const pp_layout *layout = &s->instance->layout;
    pp_text_add(out, "buffers: %" PRIu64 " bytes, %" PRIu32 " in place of another\n", layout->bytes,
                layout->in_place);
    for (size_t g = 0; g < plan->fused.groups.n; g++) {
        const pp_instance_group *group = &s->instance->groups[g];
        for (size_t t = 0; t < plan->lowered[g].tensors.n; t++) {
            const pp_bound *bound = &group->bound[t];
            if (!plan->lowered[g].tensors.at[t].output || bound->from != PP_FROM_SLAB) continue;
            pp_text_add(out,
                        "  buffer %" PRIu32 ": offset %" PRIu64 ", %" PRIu64
                        " bytes, written by step %" PRIu32 "\n",
                        bound->which, layout->offset[bound->which],
                        tensor_bytes(&group->tensors[t], plan->lowered[g].program->tensors[t].dtype),
                        s->instance->schedule->step_of_group[g]);
        }
        if (group->shared_buffer != UINT32_MAX)
            pp_text_add(out,
                        "  buffer %" PRIu32 ": offset %" PRIu64 ", %zu bytes, partial states of step %" PRIu32
                        "\n",
                        group->shared_buffer, layout->offset[group->shared_buffer],
                        group->geometry.shared_bytes, s->instance->schedule->step_of_group[g]);
    }
}

void pp_report_plan(const pp_report_sizes *s, pp_text *out)
{
    const pp_schedule *schedule = s->instance->schedule;
    for (uint32_t i = 0; i < schedule->steps.n; i++) switch (schedule->steps.at[i].kind) {
        case PP_STEP_GROUP: print_group_step(s, i, out); break;
        case PP_STEP_LOAD:
        case PP_STEP_STORE: print_file_step(s, i, out); break;
        default: print_sync_step(s, i, out);
        }
    pp_report_syncs(s->program, "", "", out);
    print_buffers(s, out);
    pp_text_add(out,
                "scratch of all workers: %" PRIu64 " bytes\npredicted peak %" PRIu64
                " bytes, lower bound %" PRIu64 ", serial bound %" PRIu64 "\n",
                s->instance->scratch_bytes, s->peak_bytes, s->lower_bytes, s->serial_bytes);
}
