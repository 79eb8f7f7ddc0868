/* SPDX-License-Identifier: Apache-2.0
 * ppto_program_explain: what a plan does with the sizes bound so far, as text or as "ppto-explain/1". Every
 * number is gathered once into a list of groups; the two forms print that. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/costs.h"
#include "runtime/report.h"

typedef struct amount { /* a number, or a formula while a size is open */
    bool known;
    uint64_t value;
    pp_size formula; /* in `sizes` */
    const pp_sizes *sizes;
} amount;

typedef struct explain {
    ppto_program *program;
    const pp_plan *plan;
    pp_report_sizes sizes;
    pp_report_pieces pieces;
    pp_costs costs;
    bool json;
    pp_text *out;
    const char *comma; /* between the items of the list at hand */
} explain;

static void print_formula(const amount *a, pp_text *out)
{
    if (a->formula == PP_SIZE_0)
        pp_text_add(out, "0");
    else
        pp_size_print(a->sizes, a->formula, out);
}

/* A size that is the same for every binding is known, whatever is open. */
static amount settle(amount a)
{
    int64_t value;
    if (!a.known && pp_size_known(a.sizes, a.formula, &value)) {
        a.known = true;
        a.value = value > 0 ? (uint64_t)value : 0;
    }
    return a;
}

static void json_amount(explain *e, const char *key, amount a)
{
    a = settle(a);
    if (a.known) {
        pp_text_add(e->out, "\"%s\": %" PRIu64, key, a.value);
        return;
    }
    pp_text formula = {0};
    print_formula(&a, &formula);
    pp_text_add(e->out, "\"%s\": null, \"%s_formula\": ", key, key);
    pp_text_json(e->out, formula.at ? formula.at : "");
    pp_text_free(&formula);
}

static void text_amount(explain *e, const char *before, amount a, const char *unit)
{
    a = settle(a);
    pp_text_add(e->out, "%s", before);
    if (a.known)
        pp_text_add(e->out, "%" PRIu64, a.value);
    else
        print_formula(&a, e->out);
    pp_text_add(e->out, "%s", unit);
}

/* ---- groups
 * -----------------------------------------------------------------------------------------------------------------
 */

static ppto_status group_bytes(explain *e, size_t g, amount *reads, amount *writes)
{
    *reads = *writes = (amount){.known = e->sizes.known, .sizes = e->sizes.formulas};
    if (e->sizes.known) return pp_report_bytes(e->plan, g, e->sizes.names, &reads->value, &writes->value);
    pp_report_bytes_formula(e->plan, g, e->sizes.formulas, &reads->formula, &writes->formula);
    return PPTO_OK;
}

static ppto_status group_flops(explain *e, size_t g, amount *flops)
{
    const pp_sizes *sizes = pp_types_sizes(e->plan->types);
    int64_t value = 0;
    *flops = (amount){.known = e->sizes.known, .formula = e->plan->lowered[g].flops, .sizes = sizes};
    if (e->sizes.known) PP_TRY(pp_size_eval(sizes, flops->formula, e->sizes.names, &value));
    flops->value = value > 0 ? (uint64_t)value : 0;
    return PPTO_OK;
}

static void print_operator(void *arg, const pp_origin *origin)
{
    explain *e = arg;
    pp_text_add(e->out, "%s", e->comma);
    if (e->json)
        pp_text_json(e->out, origin->operator_name);
    else
        pp_text_add(e->out, "%s", origin->operator_name);
    e->comma = ", ";
}

static ppto_status print_operators(explain *e, size_t g)
{
    e->comma = "";
    return pp_report_operators(e->program, g, print_operator, e);
}

static void json_stream(explain *e, uint32_t stream)
{
    if (stream != 0)
        pp_text_json(e->out, pp_program_stream(e->program, stream));
    else
        pp_text_add(e->out, "null");
}

/* What of the kernel is machine code; nothing while sizes are open. */
static pp_code_count group_code(const explain *e, size_t g)
{
    pp_code_count count = {0};
    const pp_instance_group *group = e->sizes.known ? &e->sizes.instance->groups[g] : NULL;
    if (group && group->device->count_code) group->device->count_code(group->launch, &count, NULL);
    return count;
}

/* ns on the wall that a launch should take, while all sizes are known. */
static double group_ns(const explain *e, size_t g, amount reads, amount writes)
{
    return pp_cost_of_group(&e->costs, e->sizes.instance, g, reads.value + writes.value);
}

/* The same, were one worker given all of it: why it was divided, or was not. */
static double alone_ns(const explain *e, size_t g, amount reads, amount writes)
{
    return pp_cost_alone(&e->costs, e->sizes.instance, g, reads.value + writes.value);
}

/* Of the phase that has most. */
static uint32_t most_tasks(const explain *e, size_t g)
{
    const pp_geometry *geometry = &e->sizes.instance->groups[g].geometry;
    uint32_t most = 1;
    for (uint32_t i = 0; i < geometry->phases; i++)
        if (geometry->tasks[i] > most) most = geometry->tasks[i];
    return most;
}

static ppto_status json_group(explain *e, size_t g)
{
    amount reads, writes, flops;
    const pp_code_count code = group_code(e, g);
    PP_TRY(group_bytes(e, g, &reads, &writes));
    PP_TRY(group_flops(e, g, &flops));
    pp_text_add(e->out, "%s\n    {\"id\": %zu, \"kind\": \"%s\", \"ops\": [", g ? "," : "", g,
                pp_report_kind(e->plan, g));
    PP_TRY(print_operators(e, g));
    pp_text_add(e->out, "], ");
    json_amount(e, "reads_bytes", reads);
    pp_text_add(e->out, ", ");
    json_amount(e, "writes_bytes", writes);
    pp_text_add(e->out, ", ");
    json_amount(e, "flops", flops);
    if (e->plan->flat.n_streams) {
        pp_text_add(e->out, ", \"stream\": ");
        json_stream(e, e->plan->fused.groups.at[g].stream);
    }
    if (e->sizes.known)
        pp_text_add(e->out,
                    ", \"phases\": %" PRIu32 ", \"loops\": %" PRIu32 ", \"compiled_loops\": %" PRIu32
                    ", \"tasks\": %" PRIu32 ", \"predicted_ns\": %.0f, \"predicted_alone_ns\": %.0f}",
                    e->sizes.instance->groups[g].geometry.phases, code.loops, code.compiled, most_tasks(e, g),
                    group_ns(e, g, reads, writes), alone_ns(e, g, reads, writes));
    else
        pp_text_add(e->out, ", \"phases\": null, \"predicted_ns\": null}");
    return PPTO_OK;
}

static ppto_status text_group(explain *e, size_t g)
{
    amount reads, writes, flops;
    const pp_code_count code = group_code(e, g);
    PP_TRY(group_bytes(e, g, &reads, &writes));
    PP_TRY(group_flops(e, g, &flops));
    pp_text_add(e->out, "%3zu  %-8s  ", g, pp_report_kind(e->plan, g));
    PP_TRY(print_operators(e, g));
    uint32_t stream = e->plan->fused.groups.at[g].stream;
    if (stream) pp_text_add(e->out, ", stream %s", pp_program_stream(e->program, stream));
    text_amount(e, "\n     reads ", reads, " bytes");
    text_amount(e, ", writes ", writes, " bytes");
    text_amount(e, ", ", flops, " flops");
    if (e->sizes.known && e->sizes.instance->groups[g].geometry.phases > 1)
        pp_text_add(e->out, ", %" PRIu32 " phases", e->sizes.instance->groups[g].geometry.phases);
    if (code.compiled > 0) pp_text_add(e->out, ", machine code");
    if (code.compiled > 0 && code.compiled < code.loops)
        pp_text_add(e->out, " in %" PRIu32 " of %" PRIu32 " loops", code.compiled, code.loops);
    if (e->sizes.known) {
        pp_text_add(e->out, ", predicted ");
        pp_text_time(e->out, (int64_t)group_ns(e, g, reads, writes));
        if (most_tasks(e, g) > 1) {
            pp_text_add(e->out, " in %" PRIu32 " tasks, by one worker ", most_tasks(e, g));
            pp_text_time(e->out, (int64_t)alone_ns(e, g, reads, writes));
        }
    }
    pp_text_add(e->out, "\n");
    return PPTO_OK;
}

/* ---- not fused, copies
 * ------------------------------------------------------------------------------------------------------- */

static bool same_missed(const explain *e, const pp_missed *a, const pp_missed *b)
{
    const pp_prim *prims = e->plan->flat.prims.at;
    return a->reason == b->reason && prims[a->producer].origin == prims[b->producer].origin &&
           prims[a->consumer].origin == prims[b->consumer].origin;
}

typedef struct missed_key {
    const explain *e;
    const pp_missed *missed;
} missed_key;

static bool is_missed(const void *context, uint32_t value)
{
    const missed_key *key = context;
    return same_missed(key->e, key->missed, &key->e->plan->fused.missed.at[value]);
}

/* The same pair of operators for the same reason is said once. `said`: those that were. */
static bool said_before(const explain *e, size_t i, pp_map *said)
{
    const pp_missed *m = &e->plan->fused.missed.at[i];
    const pp_prim *prims = e->plan->flat.prims.at;
    missed_key key = {e, m};
    uint32_t found;
    uint64_t hash = pp_hash_mix(pp_hash_mix(m->reason, prims[m->producer].origin), prims[m->consumer].origin);
    if (pp_map_find(said, hash, is_missed, &key, &found)) return true;
    if (pp_map_insert(said, hash, (uint32_t)i) != PPTO_OK) e->out->failed = true;
    return false;
}

static void print_missed(explain *e)
{
    const char *comma = "";
    pp_map said = {0};
    for (size_t i = 0; i < e->plan->fused.missed.n; i++) {
        const pp_missed *m = &e->plan->fused.missed.at[i];
        if (said_before(e, i, &said)) continue;
        const char *producer = pp_program_origin(e->program, m->producer)->operator_name;
        const char *consumer = pp_program_origin(e->program, m->consumer)->operator_name;
        if (!e->json) {
            pp_text_add(e->out, "%s  %s into %s: %s (%s)\n", *comma ? "" : "not fused\n", producer, consumer,
                        pp_reason_text(m->reason), pp_reason_code(m->reason));
        } else {
            pp_text_add(e->out, "%s\n    {\"producer\": ", comma);
            pp_text_json(e->out, producer);
            pp_text_add(e->out, ", \"consumer\": ");
            pp_text_json(e->out, consumer);
            pp_text_add(e->out, ", \"code\": \"%s\", \"text\": ", pp_reason_code(m->reason));
            pp_text_json(e->out, pp_reason_text(m->reason));
            pp_text_add(e->out, "}");
        }
        comma = ",";
    }
    pp_map_free(&said);
}

static void print_copy(explain *e, const char *cause, amount bytes, const ppto_site *site)
{
    char place[PP_SITE_ROOM];
    bool placed = site && site->file;
    if (placed) pp_site_text(site, place, sizeof place);
    if (!e->json) {
        pp_text_add(e->out, "%s  %s: ", *e->comma ? "" : "copies\n", cause);
        text_amount(e, "", bytes, " bytes");
        pp_text_add(e->out, "%s%s\n", placed ? ", recorded at " : "", placed ? place : "");
    } else {
        pp_text_add(e->out, "%s\n    {\"cause\": ", e->comma);
        pp_text_json(e->out, cause);
        pp_text_add(e->out, ", ");
        json_amount(e, "bytes", bytes);
        pp_text_add(e->out, ", \"site\": ");
        if (placed)
            pp_text_json(e->out, place);
        else
            pp_text_add(e->out, "null");
        pp_text_add(e->out, "}");
    }
    e->comma = ",";
}

/* Inputs that a run packs, and kernels that only move data. */
static ppto_status print_copies(explain *e)
{
    char cause[200];
    e->comma = "";
    for (size_t i = 0; i < e->plan->inputs.n; i++) {
        if (!e->sizes.packed[i]) continue;
        snprintf(cause, sizeof cause, "input %.100s is not row-major and a reshape reads it so",
                 e->plan->inputs.at[i].name);
        print_copy(e, cause, (amount){.known = true, .value = e->sizes.absent[i].bytes}, NULL);
    }
    for (size_t g = 0; g < e->plan->fused.groups.n; g++) {
        amount reads, writes;
        if (!pp_plan_is_copy(e->plan, g)) continue;
        const pp_group *group = &e->plan->fused.groups.at[g];
        const pp_origin *origin = pp_program_origin(e->program, group->roots.at[0].prim);
        PP_TRY(group_bytes(e, g, &reads, &writes));
        snprintf(cause, sizeof cause, "the value of %.100s is stored as it is", origin->operator_name);
        print_copy(e, cause, writes, &origin->site);
    }
    return PPTO_OK;
}

/* ---- files --------------------------------------------------------------------------------------------- */

/* One of them: what it is called in the program, the file, the type. */
static void print_file(explain *e, const char *kind, const char *name, const char *path, pp_type_id type)
{
    pp_text type_text = {0};
    pp_type_print(e->plan->types, pp_type_get(e->plan->types, type), &type_text);
    if (!e->json) {
        bool source = *kind == 's';
        pp_text_add(e->out, "%s  %s %s %s: %s\n", *e->comma ? "" : "files\n", name, source ? "from" : "to",
                    path, type_text.at ? type_text.at : "");
    } else {
        pp_text_add(e->out, "%s\n    {\"%s\": ", e->comma, kind);
        pp_text_json(e->out, name);
        pp_text_add(e->out, ", \"path\": ");
        pp_text_json(e->out, path);
        pp_text_add(e->out, ", \"type\": ");
        pp_text_json(e->out, type_text.at ? type_text.at : "");
        pp_text_add(e->out, "}");
    }
    e->comma = ",";
    pp_text_free(&type_text);
}

static void print_sources(explain *e)
{
    for (size_t i = 0; i < e->plan->inputs.n; i++) {
        const ppto_array *a = e->program->inputs[i];
        if (a && a->file)
            print_file(e, "source", e->plan->inputs.at[i].name, a->file->path, e->plan->inputs.at[i].type);
    }
}

static void print_sinks(explain *e)
{
    for (size_t i = 0; i < e->plan->flat.outputs.n; i++) {
        char name[32];
        snprintf(name, sizeof name, "output %zu", i);
        uint32_t prim = e->plan->flat.outputs.at[i];
        if (e->program->sinks[i])
            print_file(e, "result", name, e->program->sinks[i], pp_flat_prim(&e->plan->flat, prim)->type);
    }
}

/* ---- the whole
 * ----------------------------------------------------------------------------------------------------------------
 */

static size_t count_kernels(const pp_plan *plan)
{
    size_t n = 0;
    for (size_t g = 0; g < plan->fused.groups.n; g++) n += !pp_plan_is_copy(plan, g);
    return n;
}

static amount memory(const explain *e, uint64_t value, pp_size formula)
{
    return (amount){.known = e->sizes.known, .value = value, .formula = formula, .sizes = e->sizes.formulas};
}

static void json_syncs(explain *e)
{
    const pp_flat *flat = &e->plan->flat;
    pp_text_add(e->out, "],\n  \"sync_points\": [");
    for (size_t i = 0; i < flat->syncs.n; i++) {
        const pp_sync *sync = &flat->syncs.at[i];
        const ppto_site *site = &e->program->origins[sync->origin].site;
        char place[PP_SITE_ROOM] = "?";
        if (site->file) pp_site_text(site, place, sizeof place);
        pp_text_add(e->out, "%s\n    {\"id\": %zu, \"kind\": \"%s\", \"stream\": ", i ? "," : "", i,
                    sync->kind == PP_SYNC_RECORD ? "record" : "wait");
        json_stream(e, sync->stream);
        pp_text_add(e->out, ", \"record\": ");
        if (sync->record != PP_NONE)
            pp_text_add(e->out, "%" PRIu32, sync->record);
        else
            pp_text_add(e->out, "null");
        pp_text_add(e->out, ", \"site\": ");
        pp_text_json(e->out, place);
        pp_text_add(e->out, "}");
    }
}

static ppto_status print_json(explain *e)
{
    const pp_report_sizes *s = &e->sizes;
    pp_text_add(e->out,
                "{\n  \"schema\": \"ppto-explain/1\",\n  \"recorded_ops\": %zu,\n  \"kernels\": %zu,\n  "
                "\"groups\": [",
                e->plan->recorded_ops, count_kernels(e->plan));
    for (size_t g = 0; g < e->plan->fused.groups.n; g++) PP_TRY(json_group(e, g));
    if (e->plan->flat.n_streams) json_syncs(e);
    pp_text_add(e->out, "],\n  \"not_fused\": [");
    print_missed(e);
    pp_text_add(e->out, "],\n  ");
    json_amount(e, "predicted_peak_bytes", memory(e, s->peak_bytes, s->peak));
    pp_text_add(e->out, ",\n  ");
    json_amount(e, "lower_bound_bytes", memory(e, s->lower_bytes, s->lower));
    pp_text_add(e->out, ",\n  ");
    json_amount(e, "serial_bound_bytes", memory(e, s->serial_bytes, s->serial));
    PP_TRY(pp_report_pieces_json(&e->pieces, e->out));
    pp_text_add(e->out, ",\n  \"copies\": [");
    PP_TRY(print_copies(e));
    e->comma = "";
    pp_text_add(e->out, "],\n  \"sources\": [");
    print_sources(e);
    e->comma = "";
    pp_text_add(e->out, "],\n  \"sinks\": [");
    print_sinks(e);
    pp_text_add(e->out, "]\n}\n");
    return PPTO_OK;
}

static ppto_status print_text(explain *e)
{
    const pp_report_sizes *s = &e->sizes;
    size_t kernels = count_kernels(e->plan);
    pp_text_add(e->out, "%zu operator%s recorded, %zu kernel%s\n", e->plan->recorded_ops,
                e->plan->recorded_ops == 1 ? "" : "s", kernels, kernels == 1 ? "" : "s");
    for (size_t g = 0; g < e->plan->fused.groups.n; g++) PP_TRY(text_group(e, g));
    pp_report_syncs(e->program, "", "", e->out);
    print_missed(e);
    PP_TRY(print_copies(e));
    e->comma = "";
    print_sources(e);
    print_sinks(e);
    text_amount(e, "memory\n  predicted peak  ", memory(e, s->peak_bytes, s->peak), " bytes\n");
    text_amount(e, "  lower bound     ", memory(e, s->lower_bytes, s->lower), " bytes\n");
    text_amount(e, "  serial bound    ", memory(e, s->serial_bytes, s->serial), " bytes\n");
    return pp_report_pieces_text(&e->pieces, e->out);
}

static ppto_status print_plan(explain *e, pp_error *err)
{
    if (!e->sizes.known)
        return pp_fail(err, PPTO_E_VALUE,
                       "explain: the plan of a run needs the sizes of all inputs; bind them first");
    pp_report_plan(&e->sizes, e->out);
    return PPTO_OK;
}

static ppto_status print_stage(explain *e, ppto_explain_stage stage, pp_error *err)
{
    if (e->json && stage > PPTO_EXPLAIN_SIMPLIFIED)
        return pp_fail(err, PPTO_E_UNSUPPORTED,
                       "explain: only summary, graph and simplified are there as JSON");
    switch (stage) {
    case PPTO_EXPLAIN_GRAPH:
        (e->json ? pp_report_recorded_json : pp_report_recorded)(e->program, e->out);
        return PPTO_OK;
    case PPTO_EXPLAIN_SIMPLIFIED:
        (e->json ? pp_report_simplified_json : pp_report_simplified)(e->program, e->out);
        return PPTO_OK;
    case PPTO_EXPLAIN_FUSED: pp_report_fused(e->program, e->out); return PPTO_OK;
    case PPTO_EXPLAIN_KERNEL: pp_report_kernels(e->program, e->out); return PPTO_OK;
    case PPTO_EXPLAIN_SOURCE: return pp_report_source(e->program, e->out);
    case PPTO_EXPLAIN_SUMMARY:
    case PPTO_EXPLAIN_PLAN: break;
    }
    ppto_status status = pp_report_sizes_read(e->program, &e->sizes, err);
    if (status == PPTO_OK && stage == PPTO_EXPLAIN_SUMMARY)
        status = pp_report_pieces_read(e->program, &e->sizes, &e->pieces, err);
    if (status == PPTO_OK)
        status = stage == PPTO_EXPLAIN_PLAN ? print_plan(e, err) : e->json ? print_json(e) : print_text(e);
    pp_report_pieces_free(&e->pieces);
    pp_report_sizes_free(&e->sizes);
    return status;
}

ppto_status ppto_program_explain(ppto_program *program, ppto_explain_stage stage, bool json, char **text)
{
    pp_error err = {0};
    pp_text out = {0};
    if (!program || !text) return pp_report_new(PPTO_E_VALUE, "explain: an argument is NULL");
    *text = NULL;
    PP_TRY(pp_context_refuses(program->ctx));
    explain e = {.program = program, .plan = program->plan, .json = json, .out = &out};
    pp_costs_read(program->ctx, &e.costs);
    ppto_status status = print_stage(&e, stage, &err);
    if (status == PPTO_OK) return pp_report_give(&out, text);
    pp_text_free(&out);
    pp_fail(&err, status, "explain: %s", ppto_status_text(status));
    return pp_report(&err);
}
