/* SPDX-License-Identifier: Apache-2.0
 * Plans: record -> simplify -> fuse -> lower -> compile, once per structure. Cached in the context, found by
 * hash, and a hit compares the whole structure (and the literals whose values were used). */
#include <stdio.h>
#include <string.h>

#include "graph/simplify.h"
#include "graph/transfer.h"
#include "runtime/runtime.h"

enum { MAX_PLANS = 256 };

bool pp_plan_is_copy(const pp_plan *plan, size_t group)
{
    const pp_group *g = &plan->fused.groups.at[group];
    for (size_t m = 0; m < g->members.n; m++) {
        uint8_t kind = plan->flat.prims.at[g->members.at[m]].kind;
        if (kind >= PP_P_MAP && (kind < PP_P_PERMUTE || kind > PP_P_BROADCAST)) return false;
    }
    return true;
}

uint32_t pp_plan_culprit(const pp_plan *plan, size_t group)
{
    const pp_group *g = &plan->fused.groups.at[group];
    for (size_t m = 0; m < g->members.n; m++)
        if (plan->flat.prims.at[g->members.at[m]].kind == PP_P_CHECK) return g->members.at[m];
    return g->roots.at[g->roots.n - 1].prim;
}

static void plan_free(pp_plan *plan)
{
    while (plan->idle) {
        pp_instance *next = plan->idle->next;
        pp_instance_destroy(plan->idle);
        plan->idle = next;
    }
    for (size_t g = 0; g < plan->fused.groups.n; g++) {
        if (plan->kernel) pp_context_kernel_release(plan->ctx, plan->kernel[g]);
        if (plan->lowered) {
            plan->lowered[g].program = NULL; /* the kernel cache owns it */
            pp_lowered_free(&plan->lowered[g]);
        }
    }
    pp_free(plan->lowered);
    pp_free(plan->kernel);
    pp_fused_free(&plan->fused);
    pp_flat_free(&plan->flat);
    pp_recorded_free(&plan->recorded);
    pp_types_destroy(plan->types);
    for (size_t i = 0; i < plan->inputs.n; i++) pp_free(plan->inputs.at[i].name);
    pp_vec_free(&plan->inputs);
    pp_vec_free(&plan->numbers);
    pp_vec_free(&plan->stages);
    pp_text_free(&plan->signature);
    pp_free(plan->literal_used);
    pp_free(plan->literal_value);
    pp_free(plan->contiguous);
    pp_free(plan->readers);
    pp_schedule_free(&plan->schedule);
    pp_arena_free(&plan->arena);
    pp_free(plan);
}

void pp_plan_release(pp_plan *plan)
{
    if (!plan) return;
    pthread_mutex_lock(&plan->ctx->lock);
    bool last = --plan->refs == 0;
    pthread_mutex_unlock(&plan->ctx->lock);
    if (last) plan_free(plan);
}

/* ---- making
 * ---------------------------------------------------------------------------------------------------------
 */

/* Is name i of the plan's sizes the size of an axis of one of the plan's inputs? */
static bool name_is_given(const pp_plan *plan, size_t name)
{
    for (size_t k = 0; k < plan->inputs.n; k++) {
        const pp_type *type = pp_type_get(plan->types, plan->inputs.at[k].type);
        size_t index;
        for (uint32_t d = 0; d < type->rank; d++)
            if (pp_size_as_name(pp_types_sizes(plan->types), type->dim[d], &index) && index == name)
                return true;
    }
    return false;
}

/* Inputs whose data nobody needs, but which alone say what a named size is. */
static ppto_status keep_name_givers(pp_plan *plan, pp_graph *graph)
{
    pp_sizes *sizes = pp_types_sizes(plan->types), *from = pp_types_sizes(pp_graph_types(graph));
    for (size_t i = 0; i < pp_graph_inputs(graph); i++) {
        pp_ref ref = pp_graph_input_at(graph, i);
        const pp_type *type = pp_type_get(pp_graph_types(graph), pp_graph_type(graph, ref));
        bool gives = false;
        for (uint32_t d = 0; d < type->rank; d++) {
            size_t index;
            if (!pp_size_as_name(from, type->dim[d], &index)) continue;
            for (size_t n = 0; n < pp_sizes_names(sizes); n++)
                gives |= strcmp(pp_sizes_name_at(sizes, n), pp_sizes_name_at(from, index)) == 0 &&
                         !name_is_given(plan, n);
        }
        if (!gives) continue;
        pp_plan_input input = {.prim = PP_NONE, .graph_index = (uint32_t)i};
        const char *name = pp_graph_node(graph, ref.node).input_name;
        PP_TRY(pp_type_transfer(plan->types, pp_graph_types(graph), pp_graph_type(graph, ref), &input.type));
        PP_TRY(pp_vec_reserve(&plan->inputs, plan->inputs.n + 1)); /* then the push holds the name */
        if (!(input.name = pp_strdup(name ? name : ""))) return PPTO_E_NOMEM;
        PP_TRY(pp_vec_push(&plan->inputs, input));
    }
    return PPTO_OK;
}

static ppto_status keep_inputs(pp_plan *plan, pp_graph *graph)
{
    for (uint32_t id = 0; id < plan->flat.prims.n; id++) {
        const pp_prim *p = &plan->flat.prims.at[id];
        if (p->kind != PP_P_INPUT) continue;
        pp_node_info info = pp_graph_node(graph, pp_graph_input_at(graph, p->number).node);
        pp_plan_input input = {.type = p->type, .prim = id, .graph_index = p->number};
        PP_TRY(pp_vec_reserve(&plan->inputs, plan->inputs.n + 1)); /* then the push holds the name */
        input.name = pp_strdup(info.input_name ? info.input_name : "");
        if (!input.name) return PPTO_E_NOMEM;
        plan->flat.prims.at[id].number = (uint32_t)plan->inputs.n; /* from here on: which input of the plan */
        PP_TRY(pp_vec_push(&plan->inputs, input));
    }
    return keep_name_givers(plan, graph);
}

/* A condition's words were the graph's. */
static ppto_status keep_conditions(pp_plan *plan)
{
    for (size_t i = 0; i < plan->flat.conditions.n; i++) {
        pp_condition *c = &plan->flat.conditions.at[i];
        c->message = pp_arena_strndup(&plan->arena, c->message, strlen(c->message));
        if (!c->message) return PPTO_E_NOMEM;
    }
    return PPTO_OK;
}

/* From where the stage before ended (or *start) to now. */
static ppto_status passed(pp_plan *plan, pp_plan_stage stage, uint32_t group, pp_cache_note cache,
                          int64_t *start)
{
    pp_stage_note note = {(uint8_t)stage, (uint8_t)cache, group, *start, pp_clock_ns()};
    *start = note.end_ns;
    return pp_vec_push(&plan->stages, note);
}

static ppto_status fuse(pp_plan *plan, bool optimise)
{
    int64_t at = pp_clock_ns();
    PP_TRY(pp_fuse(&plan->flat, optimise, &plan->fused));
    PP_TRY(passed(plan, PP_PLAN_FUSE, 0, PP_CACHE_NONE, &at));
    PP_TRY(pp_schedule_make(plan, NULL, &plan->schedule));
    return passed(plan, PP_PLAN_SCHEDULE, 0, PP_CACHE_NONE, &at);
}

static ppto_status expand(pp_plan *plan, pp_graph *graph, const pp_ref *outputs, size_t n, pp_error *err)
{
    pp_flat recorded;
    int64_t at = pp_clock_ns();
    bool optimise =
        !plan->ctx->settings.o.no_optimise && strcmp(plan->ctx->settings.device, "reference") != 0;
    PP_TRY(pp_graph_expand(graph, outputs, n, &recorded, &plan->recorded_ops, err));
    if (plan->ctx->log.level >= 3 && plan->ctx->log.fn) {
        pp_text text = {0};
        pp_flat_print(&recorded, &text);
        if (text.at) pp_log_line(&plan->ctx->log, 3, "expanded\n%s", text.at);
        pp_text_free(&text);
    }
    ppto_status status = passed(plan, PP_PLAN_EXPAND, 0, PP_CACHE_NONE, &at);
    if (optimise) {
        if (status == PPTO_OK)
            status = pp_simplify(&recorded, &plan->flat, plan->literal_used, plan->n_literals);
        pp_flat_free(&recorded);
    } else {
        plan->flat = recorded;
    }
    if (status == PPTO_OK) status = pp_flat_transfer(&plan->flat, plan->types);
    if (status == PPTO_OK) status = pp_graph_recorded(graph, outputs, n, &plan->arena, &plan->recorded);
    if (status == PPTO_OK) status = keep_inputs(plan, graph);
    if (status == PPTO_OK) status = keep_conditions(plan);
    if (status == PPTO_OK) status = pp_plan_keep_operators(plan, graph, outputs, n);
    if (status == PPTO_OK) status = passed(plan, PP_PLAN_SIMPLIFY, 0, PP_CACHE_NONE, &at);
    return status == PPTO_OK ? fuse(plan, optimise) : status;
}

static ppto_status keep_numbers(pp_plan *plan)
{
    for (uint32_t id = 0; id < plan->flat.prims.n; id++)
        if (plan->fused.number[id]) PP_TRY(pp_vec_push(&plan->numbers, id));
    return PPTO_OK;
}

static ppto_status lower_all(pp_plan *plan, pp_error *err)
{
    size_t n = plan->fused.groups.n;
    plan->lowered = pp_calloc(n + 1, sizeof *plan->lowered);
    plan->kernel = pp_calloc(n + 1, sizeof *plan->kernel);
    if (!plan->lowered || !plan->kernel) return PPTO_E_NOMEM;
    for (uint32_t g = 0; g < n; g++) {
        bool hit;
        int64_t start = pp_clock_ns();
        ppto_status status = pp_lower(&plan->flat, &plan->fused, g, &plan->lowered[g], err);
        if (status == PPTO_OK && PP_PLAN_VERIFY) status = pp_program_verify(plan->lowered[g].program, err);
        if (status == PPTO_OK) status = passed(plan, PP_PLAN_LOWER, g, PP_CACHE_NONE, &start);
        if (status != PPTO_OK) {
            pp_lowered_free(&plan->lowered[g]);
            return status;
        }
        status = pp_context_kernel(plan->ctx, plan->lowered[g].program, &plan->kernel[g], &hit, err);
        plan->lowered[g].program = NULL;
        PP_TRY(status);
        plan->lowered[g].program = plan->kernel[g]->program;
        PP_TRY(passed(plan, PP_PLAN_KERNEL, g, hit ? PP_CACHE_HIT : PP_CACHE_MISS, &start));
        const pp_stage_note *note = &plan->stages.at[plan->stages.n - 1];
        plan->compile_seconds += (double)(note->end_ns - note->start_ns) * 1e-9;
        plan->kernel_hits += hit;
        plan->kernel_misses += !hit;
    }
    return PPTO_OK;
}

static ppto_status keep_readers(pp_plan *plan)
{
    plan->contiguous = pp_calloc(plan->inputs.n + 1, 1);
    plan->readers = pp_calloc(plan->inputs.n + 1, sizeof *plan->readers);
    if (!plan->contiguous || !plan->readers) return PPTO_E_NOMEM;
    for (size_t g = 0; g < plan->fused.groups.n; g++)
        for (size_t t = 0; t < plan->lowered[g].tensors.n; t++) {
            const pp_lowered_tensor *tensor = &plan->lowered[g].tensors.at[t];
            const pp_prim *p = &plan->flat.prims.at[tensor->prim];
            if (p->kind != PP_P_INPUT || tensor->output) continue;
            plan->contiguous[p->number] |= tensor->linear;
            plan->readers[p->number]++;
        }
    return PPTO_OK;
}

static ppto_status plan_make(ppto_graph *graph, const pp_ref *outputs, size_t n, const uint64_t *literals,
                             size_t n_literals, pp_plan **out, pp_error *err)
{
    int64_t start = pp_clock_ns();
    pp_plan *plan = pp_calloc(1, sizeof *plan);
    if (!plan) return PPTO_E_NOMEM;
    plan->ctx = graph->ctx;
    plan->refs = 1;
    plan->serial = atomic_fetch_add(&graph->ctx->plans_made, 1) + 1;
    plan->n_literals = n_literals;
    plan->literal_used = pp_calloc(n_literals + 1, 1);
    plan->literal_value = pp_calloc(n_literals + 1, sizeof *plan->literal_value);
    ppto_status status =
        plan->literal_used && plan->literal_value ? pp_types_create(&plan->types) : PPTO_E_NOMEM;
    if (status == PPTO_OK && n_literals) memcpy(plan->literal_value, literals, n_literals * sizeof *literals);
    if (status == PPTO_OK) status = expand(plan, graph->graph, outputs, n, err);
    if (status == PPTO_OK) status = keep_numbers(plan);
    if (status == PPTO_OK) status = lower_all(plan, err);
    if (status == PPTO_OK) status = keep_readers(plan);
    if (status != PPTO_OK) {
        plan_free(plan);
        return status;
    }
    plan->plan_seconds = (double)(pp_clock_ns() - start) * 1e-9 - plan->compile_seconds;
    *out = plan;
    return PPTO_OK;
}

/* Inputs are ports: number k of the part is input k, whether the simplified graph still reads it or not. */
static ppto_status keep_ports(pp_plan *plan, const pp_flat *flat, size_t n)
{
    PP_TRY(pp_vec_reserve(&plan->inputs, n + 1));
    for (size_t i = 0; i < n; i++) {
        pp_plan_input input = {.prim = PP_NONE, .graph_index = (uint32_t)i};
        char name[32];
        for (size_t id = 0; id < flat->prims.n; id++)
            if (flat->prims.at[id].kind == PP_P_INPUT && flat->prims.at[id].number == i)
                input.type = flat->prims.at[id].type;
        snprintf(name, sizeof name, "port %zu", i);
        if (!(input.name = pp_strdup(name))) return PPTO_E_NOMEM;
        PP_TRY(pp_vec_push(&plan->inputs, input));
    }
    return PPTO_OK;
}

static ppto_status expand_part(pp_plan *plan, const pp_plan *whole, pp_part *part)
{
    PP_TRY(keep_ports(plan, &part->flat, part->reads.n));
    if (plan->ctx->settings.o.no_optimise) {
        plan->flat = part->flat;
        part->flat = (pp_flat){0};
    } else {
        PP_TRY(pp_simplify(&part->flat, &plan->flat, plan->literal_used, 0));
    }
    for (uint32_t id = 0; id < plan->flat.prims.n; id++)
        if (plan->flat.prims.at[id].kind == PP_P_INPUT)
            plan->inputs.at[plan->flat.prims.at[id].number].prim = id;
    plan->n_origins = whole->n_origins;
    plan->operators = whole->operators;
    for (uint32_t id = 0; id < plan->flat.prims.n; id++) /* a run by pieces is on its streams as a whole */
        plan->flat.prims.at[id].stream = plan->flat.prims.at[id].level = 0;
    return fuse(plan, !plan->ctx->settings.o.no_optimise);
}

ppto_status pp_plan_of_part(pp_plan *whole, pp_part *part, pp_plan **out, pp_error *err)
{
    pp_plan *plan = pp_calloc(1, sizeof *plan);
    if (!plan) return PPTO_E_NOMEM;
    plan->ctx = whole->ctx;
    plan->refs = 1;
    plan->serial = atomic_fetch_add(&whole->ctx->plans_made, 1) + 1;
    plan->types = part->types;
    part->types = NULL;
    plan->literal_used = pp_calloc(1, 1);
    plan->literal_value = pp_calloc(1, sizeof *plan->literal_value);
    ppto_status status = plan->literal_used && plan->literal_value ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) status = expand_part(plan, whole, part);
    if (status == PPTO_OK) status = keep_numbers(plan);
    if (status == PPTO_OK) status = lower_all(plan, err);
    if (status == PPTO_OK) status = keep_readers(plan);
    if (status != PPTO_OK) {
        pp_flat_free(&part->flat); /* before its types */
        part->flat = (pp_flat){0};
        plan_free(plan);
        return pp_fail(err, status, "planning a piece: %s", ppto_status_text(status));
    }
    *out = plan;
    return PPTO_OK;
}

/* ---- the cache
 * ---------------------------------------------------------------------------------------------------------
 */

static bool same_plan(const pp_plan *plan, uint64_t hash, const pp_text *signature, const uint64_t *literals)
{
    if (plan->hash != hash || plan->signature.n != signature->n) return false;
    if (signature->n && memcmp(plan->signature.at, signature->at, signature->n) != 0) return false;
    for (size_t i = 0; i < plan->n_literals; i++)
        if (plan->literal_used[i] && plan->literal_value[i] != literals[i]) return false;
    return true;
}

static pp_plan *cached(ppto_context *ctx, uint64_t hash, const pp_text *signature, const uint64_t *literals)
{
    pp_plan *found = NULL;
    pthread_mutex_lock(&ctx->lock);
    for (size_t i = ctx->plans.n; i-- > 0 && !found;)
        if (same_plan(ctx->plans.at[i], hash, signature, literals)) found = ctx->plans.at[i];
    if (found) {
        found->refs++;
        found->last_use = ++ctx->clock;
    }
    pthread_mutex_unlock(&ctx->lock);
    return found;
}

/* Keeps a reference; the plan used longest ago goes when there are too many. */
static ppto_status remember(ppto_context *ctx, pp_plan *plan)
{
    pp_plan *dropped = NULL;
    pthread_mutex_lock(&ctx->lock);
    plan->last_use = ++ctx->clock;
    if (ctx->plans.n == MAX_PLANS) {
        size_t oldest = 0;
        for (size_t i = 1; i < ctx->plans.n; i++)
            if (ctx->plans.at[i]->last_use < ctx->plans.at[oldest]->last_use) oldest = i;
        dropped = ctx->plans.at[oldest];
        ctx->plans.at[oldest] = ctx->plans.at[--ctx->plans.n];
    }
    ppto_status status = pp_vec_push(&ctx->plans, plan);
    if (status == PPTO_OK) plan->refs++;
    pthread_mutex_unlock(&ctx->lock);
    pp_plan_release(dropped);
    return status;
}

ppto_status pp_plan_get(ppto_graph *graph, const pp_ref *outputs, size_t n, const uint64_t *literals,
                        size_t n_literals, pp_plan **out, pp_stage_note *looked_up, pp_error *err)
{
    pp_text signature = {0};
    PP_TRY(pp_context_device(graph->ctx, err));
    *looked_up = (pp_stage_note){.stage = PP_PLAN_LOOK_UP, .start_ns = pp_clock_ns()};
    uint64_t hash = pp_graph_hash(graph->graph, outputs, n);
    ppto_status status = pp_graph_signature(graph->graph, outputs, n, &signature);
    if (status == PPTO_OK && signature.failed) status = PPTO_E_NOMEM;
    /* memcheck knows plans, with the places of what is in their memory */
    if (status == PPTO_OK && graph->ctx->ledger)
        status = pp_places_sign(graph->graph, outputs, n, &signature);
    *out = status == PPTO_OK ? cached(graph->ctx, hash, &signature, literals) : NULL;
    looked_up->cache = *out ? PP_CACHE_HIT : PP_CACHE_MISS;
    looked_up->end_ns = pp_clock_ns();
    if (status == PPTO_OK && !*out) {
        status = plan_make(graph, outputs, n, literals, n_literals, out, err);
        if (status == PPTO_OK) {
            (*out)->hash = hash;
            (*out)->signature = signature;
            signature = (pp_text){0};
            status = remember(graph->ctx, *out);
            if (status != PPTO_OK) {
                pp_plan_release(*out);
                *out = NULL;
            }
        }
    }
    pp_text_free(&signature);
    return status == PPTO_OK ? status : pp_fail(err, status, "planning: %s", ppto_status_text(status));
}
