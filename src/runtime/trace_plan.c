/* SPDX-License-Identifier: Apache-2.0
 * What the steps of a plan are called and what they touch, copied when the plan first runs. Everything is
 * taken from the plan alone and in time proportional to it: a trace must not slow down the run it is of. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/costs.h"
#include "runtime/report.h"
#include "runtime/sync.h"
#include "runtime/tracing.h"

enum { MOST_NAME = 160 }; /* bytes: enough for a dozen operators */

typedef struct naming {
    char text[MOST_NAME];
    size_t at, left_out;
    ppto_site site;
} naming;

static void add_operator(void *arg, const pp_origin *origin)
{
    naming *n = arg;
    size_t length = strlen(origin->operator_name) + (n->at != 0 ? 2 : 0);
    if (!n->site.file) n->site = origin->site;
    if (n->left_out != 0 || n->at + length + 16 > sizeof n->text) {
        n->left_out++;
        return;
    }
    n->at += (size_t)snprintf(n->text + n->at, sizeof n->text - n->at, "%s%s", n->at != 0 ? ", " : "",
                              origin->operator_name);
}

static const char *copy(pp_trace_plan *out, const char *text)
{
    return pp_arena_strndup(&out->arena, text, strlen(text));
}

/* A table in which names have the numbers they have in the plan's own, which others may be reading. */
static ppto_status open_sizes(const pp_plan *plan, pp_sizes **out)
{
    const pp_sizes *from = pp_types_sizes(plan->types);
    PP_TRY(pp_sizes_create(out));
    for (size_t i = 0; i < pp_sizes_names(from); i++) {
        const char *name = pp_sizes_name_at(from, i);
        (void)pp_size_name(*out, name, strlen(name));
    }
    return PPTO_OK;
}

static uint64_t value_of(const pp_sizes *sizes, pp_size size, const int64_t *names)
{
    int64_t value = 0;
    return pp_size_eval(sizes, size, names, &value) == PPTO_OK && value > 0 ? (uint64_t)value : 0;
}

static ppto_status name_group(const ppto_program *p, uint32_t group, const pp_costs *costs, pp_sizes *sizes,
                              pp_trace_plan *out, pp_trace_step *step)
{
    const pp_plan *plan = p->plan;
    naming n = {.at = 0};
    pp_size reads, writes;
    PP_TRY(pp_report_operators(p, group, add_operator, &n));
    if (n.left_out != 0) snprintf(n.text + n.at, sizeof n.text - n.at, ", %zu more", n.left_out);
    pp_report_bytes_formula(plan, group, sizes, &reads, &writes);
    step->name = copy(out, n.text[0] ? n.text : PP_JOINING);
    step->kind = pp_report_kind(plan, group);
    step->site = n.site;
    step->site.function = NULL;
    if (n.site.file) step->site.file = copy(out, n.site.file);
    step->reads_bytes = value_of(sizes, reads, out->names);
    step->writes_bytes = value_of(sizes, writes, out->names);
    step->predicted_ns =
        (int64_t)pp_cost_of_group(costs, p->instance, group, step->reads_bytes + step->writes_bytes);
    return step->name && (step->site.file || !n.site.file) ? PPTO_OK : PPTO_E_NOMEM;
}

/* With the place of its node in the graph. */
static ppto_status keep_name(const ppto_program *p, uint32_t s, const char *name, pp_trace_plan *out,
                             pp_trace_step *step)
{
    const pp_origin *origin = pp_step_origin(p, p->instance->schedule, s);
    step->name = copy(out, name);
    if (!step->name) return PPTO_E_NOMEM;
    if (origin && origin->site.file) {
        step->site = origin->site;
        step->site.function = NULL;
        step->site.file = copy(out, origin->site.file);
        if (!step->site.file) return PPTO_E_NOMEM;
    }
    return PPTO_OK;
}

static ppto_status name_sync(const ppto_program *p, uint32_t s, pp_trace_plan *out, pp_trace_step *step)
{
    const pp_plan_step *of = &p->instance->schedule->steps.at[s];
    step->kind = of->kind == PP_STEP_GATE ? "gate" : of->kind == PP_STEP_SYNC ? "sync" : "end";
    bool wait = of->kind == PP_STEP_SYNC && p->plan->flat.syncs.at[of->which].kind == PP_SYNC_WAIT;
    const char *what = of->kind == PP_STEP_GATE  ? "enter stream"
                       : of->kind == PP_STEP_END ? "leave stream"
                       : wait                    ? "wait for event"
                                                 : "record event";
    const char *on = !step->stream[0] ? "" : of->kind == PP_STEP_SYNC ? " on " : " ";
    char name[MOST_NAME];
    snprintf(name, sizeof name, "%s%s%s", what, on, step->stream);
    return keep_name(p, s, name, out, step);
}

/* By the name in the program: the path is in the note of the file. */
static ppto_status name_file(const ppto_program *p, uint32_t s, pp_trace_plan *out, pp_trace_step *step)
{
    const pp_plan_step *of = &p->instance->schedule->steps.at[s];
    char name[MOST_NAME];
    bool load = of->kind == PP_STEP_LOAD;
    if (load)
        snprintf(name, sizeof name, "load %.100s", p->plan->inputs.at[of->which].name);
    else
        snprintf(name, sizeof name, "store output %" PRIu32, of->which);
    step->kind = load ? "load" : "store";
    return keep_name(p, s, name, out, step);
}

static ppto_status name_steps(const ppto_program *p, pp_sizes *sizes, pp_trace_plan *out)
{
    pp_costs costs;
    pp_costs_read(p->ctx, &costs);
    for (uint32_t s = 0; s < out->n; s++) {
        const pp_plan_step *of = &p->instance->schedule->steps.at[s];
        pp_trace_step *step = &out->steps[s];
        step->stream = copy(out, pp_program_stream(p, of->stream));
        if (!step->stream) return PPTO_E_NOMEM;
        bool file = of->kind == PP_STEP_LOAD || of->kind == PP_STEP_STORE;
        PP_TRY(of->kind == PP_STEP_GROUP ? name_group(p, of->which, &costs, sizes, out, step)
               : file                    ? name_file(p, s, out, step)
                                         : name_sync(p, s, out, step));
    }
    return PPTO_OK;
}

static void *duplicate(pp_trace_plan *out, const void *from, size_t bytes)
{
    void *to = pp_arena_alloc(&out->arena, bytes + 1);
    if (to && bytes != 0) memcpy(to, from, bytes);
    return to;
}

ppto_status pp_trace_plan_make(const ppto_program *p, const int64_t *names, size_t n_names,
                               pp_trace_plan *out)
{
    const pp_plan *plan = p->plan;
    const pp_schedule *schedule = p->instance->schedule;
    size_t n = schedule->steps.n;
    pp_sizes *sizes = NULL;
    *out = (pp_trace_plan){
        .serial = plan->serial, .places = pp_program_places(p), .n_names = n_names, .n = (uint32_t)n};
    out->names = duplicate(out, names, n_names * sizeof *names);
    out->steps = pp_arena_alloc(&out->arena, (n + 1) * sizeof *out->steps);
    out->first_need = duplicate(out, schedule->first_need, (n + 1) * sizeof *out->first_need);
    out->needs = duplicate(out, schedule->needs.at, schedule->needs.n * sizeof *out->needs);
    if (!out->names || !out->steps || !out->first_need || !out->needs) return PPTO_E_NOMEM;
    ppto_status status = open_sizes(plan, &sizes);
    if (status == PPTO_OK) status = name_steps(p, sizes, out);
    pp_sizes_destroy(sizes);
    return status;
}

void pp_trace_plan_free(pp_trace_plan *plan)
{
    pp_arena_free(&plan->arena);
}

static bool same_step(const pp_trace_step *a, const pp_trace_step *b)
{
    const char *fa = a->site.file ? a->site.file : "", *fb = b->site.file ? b->site.file : "";
    return strcmp(a->name, b->name) == 0 && strcmp(a->kind, b->kind) == 0 &&
           strcmp(a->stream, b->stream) == 0 && strcmp(fa, fb) == 0 && a->site.line == b->site.line &&
           a->site.column == b->site.column && a->reads_bytes == b->reads_bytes &&
           a->writes_bytes == b->writes_bytes;
}

bool pp_trace_plan_same(const pp_trace_plan *a, const pp_trace_plan *b)
{
    if (a->n != b->n || memcmp(a->first_need, b->first_need, (a->n + 1) * sizeof *a->first_need) != 0)
        return false;
    if (memcmp(a->needs, b->needs, a->first_need[a->n] * sizeof *a->needs) != 0) return false;
    for (uint32_t s = 0; s < a->n; s++)
        if (!same_step(&a->steps[s], &b->steps[s])) return false;
    return true;
}
