/* SPDX-License-Identifier: Apache-2.0
 * The steps of a plan: its groups, and where there are streams, the sync points between them.
 *
 * Every stream of a plan is a chain of steps: a gate (the earlier runs have left the stream), then its sync
 * points and groups by level, then its end (the next run may enter). Steps are numbered by level, at the same
 * level sync points before groups, groups as fusion ordered them; but what others outside wait for, recorded
 * events and ends, stands right behind the step before it on its stream, not behind the work of other
 * streams, as it would wait for that where one worker goes by the numbers. No dependence falls in level and
 * one across a sync point rises (graph/flat.h), so everything a step waits for has a lower number; check()
 * says so again. A plan without streams has its groups, as they are. */
#include <stdlib.h>

#include "runtime/sync.h"

typedef struct sorted {
    uint64_t level; /* 0: gates; then level + 1; last: ends */
    uint32_t rank;  /* at one level: sync points, then groups */
    pp_plan_step step;
} sorted;

static int by_level(const void *a, const void *b)
{
    const sorted *x = a, *y = b;
    if (x->level != y->level) return x->level < y->level ? -1 : 1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return x->step.which < y->step.which ? -1 : x->step.which > y->step.which;
}

static size_t list_steps(const pp_plan *plan, sorted *out)
{
    size_t n = 0;
    for (uint32_t s = 1; s <= plan->flat.n_streams; s++) {
        out[n++] = (sorted){0, 0, {PP_STEP_GATE, s - 1, s}};
        out[n++] = (sorted){UINT64_MAX, 0, {PP_STEP_END, s - 1, s}};
    }
    for (uint32_t i = 0; i < plan->flat.syncs.n; i++) {
        const pp_sync *sync = &plan->flat.syncs.at[i];
        out[n++] = (sorted){sync->level + 1u, 0, {PP_STEP_SYNC, i, sync->stream}};
    }
    for (uint32_t g = 0; g < plan->fused.groups.n; g++) {
        const pp_group *group = &plan->fused.groups.at[g];
        out[n++] = (sorted){group->level + 1u, 1, {PP_STEP_GROUP, g, group->stream}};
    }
    qsort(out, n, sizeof *out, by_level);
    return n;
}

static bool tells(const pp_plan *plan, const pp_plan_step *step)
{
    return step->kind == PP_STEP_END ||
           (step->kind == PP_STEP_SYNC && plan->flat.syncs.at[step->which].kind == PP_SYNC_RECORD);
}

/* next: room for n and for every stream. */
static void take_in_order(pp_plan *plan, const sorted *order, uint32_t n, uint32_t *next)
{
    uint32_t *first = next + n; /* per stream: the first step from here on */
    for (uint32_t s = 0; s <= plan->flat.n_streams; s++) first[s] = n;
    for (uint32_t i = n; i-- > 0;) {
        next[i] = first[order[i].step.stream];
        first[order[i].step.stream] = i;
    }
    for (uint32_t i = 0; i < n; i++) {
        const pp_plan_step *step = &order[i].step;
        if (tells(plan, step)) continue; /* a gate stands before it, so it was taken */
        plan->steps.at[plan->steps.n++] = *step;
        for (uint32_t k = next[i]; step->stream != 0 && k < n && tells(plan, &order[k].step); k = next[k])
            plan->steps.at[plan->steps.n++] = order[k].step;
    }
}

/* What step i waits for by data and events; chains are added apart. */
static ppto_status add_needs(pp_plan *plan, uint32_t i, const uint32_t *of_group, const uint32_t *of_sync)
{
    const pp_plan_step *step = &plan->steps.at[i];
    if (step->kind == PP_STEP_SYNC) {
        uint32_t record = plan->flat.syncs.at[step->which].record;
        return record != PP_NONE ? pp_vec_push(&plan->needs, of_sync[record]) : PPTO_OK;
    }
    if (step->kind != PP_STEP_GROUP) return PPTO_OK;
    const pp_group *group = &plan->fused.groups.at[step->which];
    for (size_t k = 0; k < group->needs.n; k++)
        if (k == 0 || group->needs.at[k] != group->needs.at[k - 1])
            PP_TRY(pp_vec_push(&plan->needs, of_group[group->needs.at[k]]));
    return PPTO_OK;
}

static ppto_status link_steps(pp_plan *plan, uint32_t *of_sync, uint32_t *last)
{
    for (uint32_t i = 0; i < plan->steps.n; i++) {
        const pp_plan_step *step = &plan->steps.at[i];
        plan->first_need[i] = (uint32_t)plan->needs.n;
        PP_TRY(add_needs(plan, i, plan->step_of_group, of_sync));
        if (step->stream != 0 && last[step->stream] != PP_NONE)
            PP_TRY(pp_vec_push(&plan->needs, last[step->stream]));
        for (size_t k = plan->first_need[i]; k < plan->needs.n; k++)
            if (plan->needs.at[k] >= i) return PPTO_E_INTERNAL;
        last[step->stream] = i;
    }
    plan->first_need[plan->steps.n] = (uint32_t)plan->needs.n;
    return PPTO_OK;
}

ppto_status pp_plan_schedule(pp_plan *plan)
{
    size_t n_groups = plan->fused.groups.n, n_syncs = plan->flat.syncs.n, n_streams = plan->flat.n_streams;
    size_t most = n_groups + n_syncs + 2 * n_streams;
    sorted *order = pp_alloc((most + 1) * sizeof *order);
    uint32_t *of_sync = pp_alloc((n_syncs + 1) * sizeof *of_sync);
    uint32_t *last = pp_alloc((most + n_streams + 1) * sizeof *last);
    plan->step_of_group = pp_alloc((n_groups + 1) * sizeof *plan->step_of_group);
    plan->first_need = pp_alloc((most + 1) * sizeof *plan->first_need);
    ppto_status status = order && of_sync && last && plan->step_of_group && plan->first_need
                             ? pp_vec_reserve(&plan->steps, most + 1)
                             : PPTO_E_NOMEM;
    if (status == PPTO_OK) {
        take_in_order(plan, order, (uint32_t)list_steps(plan, order), last);
        for (uint32_t i = 0; i < plan->steps.n; i++) {
            const pp_plan_step *step = &plan->steps.at[i];
            if (step->kind == PP_STEP_GROUP) plan->step_of_group[step->which] = i;
            if (step->kind == PP_STEP_SYNC) of_sync[step->which] = i;
        }
        for (size_t s = 0; s <= n_streams; s++) last[s] = PP_NONE;
        status = link_steps(plan, of_sync, last);
    }
    pp_free(order);
    pp_free(of_sync);
    pp_free(last);
    return status;
}

ppto_status pp_plan_needs(const pp_plan *plan, bool serial, uint32_t **first, uint32_t **needs)
{
    size_t n = plan->steps.n, at = 0;
    *first = pp_alloc((n + 1) * sizeof **first);
    *needs = pp_alloc((plan->needs.n + n + 1) * sizeof **needs);
    if (!*first || !*needs) return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) {
        bool before = false;
        (*first)[i] = (uint32_t)at;
        for (uint32_t k = plan->first_need[i]; k < plan->first_need[i + 1]; k++) {
            (*needs)[at++] = plan->needs.at[k];
            before = before || plan->needs.at[k] == i - 1;
        }
        if (serial && i > 0 && !before) (*needs)[at++] = i - 1;
    }
    (*first)[n] = (uint32_t)at;
    return PPTO_OK;
}
