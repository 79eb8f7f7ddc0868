/* SPDX-License-Identifier: Apache-2.0
 * The steps of a plan: its groups, where there are streams the sync points between them, and the files that a
 * run loads and stores (runtime/file_steps.c).
 *
 * Every stream of a plan is a chain of steps: a gate (the earlier runs have left the stream), then its sync
 * points, files and groups by level, then its end (the next run may enter). Steps are numbered by level, at
 * the same level sync points before loads, loads before groups, groups as fusion ordered them, stores last;
 * but what others outside wait for, recorded events and ends, stands right behind the step before it on its
 * stream, not behind the work of other streams, as it would wait for that where one worker goes by the
 * numbers. No dependence falls in level and one across a sync point rises (graph/flat.h), so everything a
 * step waits for has a lower number; link_steps says so again. A plan without streams has its groups, as they
 * are.
 *
 * A group waits for the files that it reads and for no others, so one file is computed on while another is
 * loaded. A file that is on no stream of a plan that has some is read where its first reader stands, but when
 * all streams are the run's and the events that come from outside before have happened: an earlier run may
 * write it. What is on no stream is stored as soon as it is there. */
#include <stdlib.h>

#include "runtime/sync.h"

typedef struct sorted {
    uint64_t level; /* 0: gates; then level + 1; last: ends */
    uint32_t rank;  /* at one level: sync points, loads, groups, stores */
    pp_plan_step step;
} sorted;
enum { OF_SYNCS, OF_LOADS, OF_GROUPS, OF_STORES };

typedef struct maker {
    const pp_plan *plan;
    const int64_t *loads, *stores; /* words of pp_file_word; NULL: no files */
    pp_schedule *out;
    sorted *order;
    uint32_t *group_level, *load_level;
    uint32_t *of_sync, *of_load; /* step numbers; PP_NONE */
    uint32_t *last;              /* room for every step and stream */
} maker;

static bool loads(const maker *m, uint32_t input)
{
    return m->loads && m->loads[input] != 0;
}

static bool stores(const maker *m, uint32_t output)
{
    return m->stores && m->stores[output] != 0;
}

/* The input that tensor t of a group reads; PP_NONE: it is none. */
static uint32_t input_read(const pp_plan *plan, uint32_t g, size_t t)
{
    const pp_lowered_tensor *tensor = &plan->lowered[g].tensors.at[t];
    const pp_prim *p = &plan->flat.prims.at[tensor->prim];
    return p->kind == PP_P_INPUT && !tensor->output ? p->number : PP_NONE;
}

static uint32_t maker_of(const pp_plan *plan, uint32_t output)
{
    return plan->fused.stored_in[plan->flat.outputs.at[output]];
}

/* ---- levels ------------------------------------------------------------------------------------- */

/* The lowest level of those who read it, for a file on no stream. */
static void lower_loads(maker *m)
{
    const pp_plan *plan = m->plan;
    for (uint32_t g = 0; g < plan->fused.groups.n; g++)
        for (size_t t = 0; t < plan->lowered[g].tensors.n; t++) {
            uint32_t i = input_read(plan, g, t);
            if (i == PP_NONE || !loads(m, i) || pp_file_stream(m->loads[i]) != 0) continue;
            if (m->group_level[g] < m->load_level[i]) m->load_level[i] = m->group_level[g];
        }
}

/* A group that only copies a file to a result has no level of its own. */
static void raise_readers(maker *m)
{
    const pp_plan *plan = m->plan;
    for (uint32_t g = 0; g < plan->fused.groups.n; g++)
        for (size_t t = 0; t < plan->lowered[g].tensors.n; t++) {
            uint32_t i = input_read(plan, g, t);
            if (i == PP_NONE || !loads(m, i)) continue;
            if (m->load_level[i] > m->group_level[g]) m->group_level[g] = m->load_level[i];
        }
}

static void find_levels(maker *m)
{
    const pp_plan *plan = m->plan;
    for (uint32_t g = 0; g < plan->fused.groups.n; g++) m->group_level[g] = plan->fused.groups.at[g].level;
    if (!m->loads) return;
    for (uint32_t i = 0; i < plan->inputs.n; i++)
        m->load_level[i] = pp_file_stream(m->loads[i]) != 0 ? pp_file_level(m->loads[i]) : UINT32_MAX - 1;
    lower_loads(m);
    raise_readers(m);
}

/* ---- order -------------------------------------------------------------------------------------- */

static int by_level(const void *a, const void *b)
{
    const sorted *x = a, *y = b;
    if (x->level != y->level) return x->level < y->level ? -1 : 1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return x->step.which < y->step.which ? -1 : x->step.which > y->step.which;
}

static size_t list_files(const maker *m, size_t n)
{
    const pp_plan *plan = m->plan;
    for (uint32_t i = 0; m->loads && i < plan->inputs.n; i++) {
        if (!loads(m, i)) continue;
        const pp_plan_step step = {PP_STEP_LOAD, i, pp_file_stream(m->loads[i])};
        m->order[n++] = (sorted){m->load_level[i] + 1u, OF_LOADS, step};
    }
    for (uint32_t i = 0; m->stores && i < plan->flat.outputs.n; i++) {
        if (!stores(m, i)) continue;
        const pp_plan_step step = {PP_STEP_STORE, i, pp_file_stream(m->stores[i])};
        uint32_t level = step.stream != 0 ? pp_file_level(m->stores[i]) : m->group_level[maker_of(plan, i)];
        m->order[n++] = (sorted){level + 1u, OF_STORES, step};
    }
    return n;
}

static uint32_t list_steps(const maker *m)
{
    const pp_plan *plan = m->plan;
    size_t n = 0;
    for (uint32_t s = 1; s <= plan->flat.n_streams; s++) {
        m->order[n++] = (sorted){0, OF_SYNCS, {PP_STEP_GATE, s - 1, s}};
        m->order[n++] = (sorted){UINT64_MAX, OF_SYNCS, {PP_STEP_END, s - 1, s}};
    }
    for (uint32_t i = 0; i < plan->flat.syncs.n; i++) {
        const pp_sync *sync = &plan->flat.syncs.at[i];
        m->order[n++] = (sorted){sync->level + 1u, OF_SYNCS, {PP_STEP_SYNC, i, sync->stream}};
    }
    for (uint32_t g = 0; g < plan->fused.groups.n; g++) {
        const pp_group *group = &plan->fused.groups.at[g];
        m->order[n++] = (sorted){m->group_level[g] + 1u, OF_GROUPS, {PP_STEP_GROUP, g, group->stream}};
    }
    n = list_files(m, n);
    qsort(m->order, n, sizeof *m->order, by_level);
    return (uint32_t)n;
}

static bool tells(const pp_plan *plan, const pp_plan_step *step)
{
    return step->kind == PP_STEP_END ||
           (step->kind == PP_STEP_SYNC && plan->flat.syncs.at[step->which].kind == PP_SYNC_RECORD);
}

static void take_in_order(const maker *m, uint32_t n)
{
    const sorted *order = m->order;
    uint32_t *next = m->last, *first = next + n; /* per stream: the first step from here on */
    for (uint32_t s = 0; s <= m->plan->flat.n_streams; s++) first[s] = n;
    for (uint32_t i = n; i-- > 0;) {
        next[i] = first[order[i].step.stream];
        first[order[i].step.stream] = i;
    }
    for (uint32_t i = 0; i < n; i++) {
        const pp_plan_step *step = &order[i].step;
        if (tells(m->plan, step)) continue; /* a gate stands before it, so it was taken */
        m->out->steps.at[m->out->steps.n++] = *step;
        for (uint32_t k = next[i]; step->stream != 0 && k < n && tells(m->plan, &order[k].step); k = next[k])
            m->out->steps.at[m->out->steps.n++] = order[k].step;
    }
}

/* ---- what a step waits for ---------------------------------------------------------------------- */

static ppto_status group_needs(const maker *m, uint32_t i)
{
    const pp_plan *plan = m->plan;
    pp_schedule *out = m->out;
    uint32_t g = out->steps.at[i].which;
    const pp_group *group = &plan->fused.groups.at[g];
    for (size_t k = 0; k < group->needs.n; k++)
        if (k == 0 || group->needs.at[k] != group->needs.at[k - 1])
            PP_TRY(pp_vec_push(&out->needs, out->step_of_group[group->needs.at[k]]));
    for (size_t t = 0; m->loads && t < plan->lowered[g].tensors.n; t++) {
        uint32_t input = input_read(plan, g, t);
        bool known = input == PP_NONE || !loads(m, input);
        for (size_t k = out->first_need[i]; !known && k < out->needs.n; k++)
            known = out->needs.at[k] == m->of_load[input];
        if (!known) PP_TRY(pp_vec_push(&out->needs, m->of_load[input]));
    }
    return PPTO_OK;
}

/* A file on no stream: the run's place on all of them, and what it waits for outside. */
static ppto_status load_needs(const maker *m, uint32_t i)
{
    for (uint32_t k = 0; k < i && m->out->steps.at[i].stream == 0; k++) {
        const pp_plan_step *step = &m->out->steps.at[k];
        const pp_sync *sync = step->kind == PP_STEP_SYNC ? &m->plan->flat.syncs.at[step->which] : NULL;
        bool outside =
            step->kind == PP_STEP_GATE || (sync && sync->kind == PP_SYNC_WAIT && sync->record == PP_NONE);
        if (outside) PP_TRY(pp_vec_push(&m->out->needs, k));
    }
    return PPTO_OK;
}

/* What step i waits for by data and events; chains are added apart. */
static ppto_status add_needs(const maker *m, uint32_t i)
{
    const pp_plan_step *step = &m->out->steps.at[i];
    uint32_t record;
    switch (step->kind) {
    case PP_STEP_GROUP: return group_needs(m, i);
    case PP_STEP_LOAD: return load_needs(m, i);
    case PP_STEP_STORE:
        return pp_vec_push(&m->out->needs, m->out->step_of_group[maker_of(m->plan, step->which)]);
    case PP_STEP_SYNC:
        record = m->plan->flat.syncs.at[step->which].record;
        return record != PP_NONE ? pp_vec_push(&m->out->needs, m->of_sync[record]) : PPTO_OK;
    default: return PPTO_OK;
    }
}

static ppto_status link_steps(const maker *m)
{
    pp_schedule *out = m->out;
    uint32_t *last = m->last;
    for (size_t s = 0; s <= m->plan->flat.n_streams; s++) last[s] = PP_NONE;
    for (uint32_t i = 0; i < out->steps.n; i++) {
        const pp_plan_step *step = &out->steps.at[i];
        out->first_need[i] = (uint32_t)out->needs.n;
        PP_TRY(add_needs(m, i));
        if (step->stream != 0 && last[step->stream] != PP_NONE)
            PP_TRY(pp_vec_push(&out->needs, last[step->stream]));
        for (size_t k = out->first_need[i]; k < out->needs.n; k++)
            if (out->needs.at[k] >= i) return PPTO_E_INTERNAL;
        last[step->stream] = i;
    }
    out->first_need[out->steps.n] = (uint32_t)out->needs.n;
    return PPTO_OK;
}

/* ---- all of it ---------------------------------------------------------------------------------- */

static void number_steps(const maker *m)
{
    for (uint32_t i = 0; i < m->out->steps.n; i++) {
        const pp_plan_step *step = &m->out->steps.at[i];
        if (step->kind == PP_STEP_GROUP) m->out->step_of_group[step->which] = i;
        if (step->kind == PP_STEP_SYNC) m->of_sync[step->which] = i;
        if (step->kind == PP_STEP_LOAD) m->of_load[step->which] = i;
    }
}

static ppto_status make_room(maker *m)
{
    const pp_plan *plan = m->plan;
    size_t n_groups = plan->fused.groups.n, n_streams = plan->flat.n_streams;
    size_t most = n_groups + plan->flat.syncs.n + 2 * n_streams;
    if (m->loads) most += plan->inputs.n + plan->flat.outputs.n;
    m->order = pp_alloc((most + 1) * sizeof *m->order);
    m->group_level = pp_alloc((n_groups + 1) * sizeof *m->group_level);
    m->load_level = pp_alloc((plan->inputs.n + 1) * sizeof *m->load_level);
    m->of_sync = pp_alloc((plan->flat.syncs.n + 1) * sizeof *m->of_sync);
    m->of_load = pp_alloc((plan->inputs.n + 1) * sizeof *m->of_load);
    m->last = pp_alloc((most + n_streams + 1) * sizeof *m->last);
    m->out->step_of_group = pp_alloc((n_groups + 1) * sizeof *m->out->step_of_group);
    m->out->first_need = pp_alloc((most + 1) * sizeof *m->out->first_need);
    bool ok = m->order && m->group_level && m->load_level && m->of_sync && m->of_load && m->last &&
              m->out->step_of_group && m->out->first_need;
    return ok ? pp_vec_reserve(&m->out->steps, most + 1) : PPTO_E_NOMEM;
}

ppto_status pp_schedule_make(const pp_plan *plan, const int64_t *files, pp_schedule *out)
{
    maker m = {.plan = plan, .out = out};
    *out = (pp_schedule){.first_need = NULL};
    if (files) {
        m.loads = files;
        m.stores = files + plan->inputs.n;
    }
    ppto_status status = make_room(&m);
    if (status == PPTO_OK) {
        find_levels(&m);
        take_in_order(&m, list_steps(&m));
        number_steps(&m);
        status = link_steps(&m);
    }
    pp_free(m.order);
    pp_free(m.group_level);
    pp_free(m.load_level);
    pp_free(m.of_sync);
    pp_free(m.of_load);
    pp_free(m.last);
    return status;
}

void pp_schedule_free(pp_schedule *schedule)
{
    pp_vec_free(&schedule->steps);
    pp_vec_free(&schedule->needs);
    pp_free(schedule->first_need);
    pp_free(schedule->step_of_group);
}

/* serial: files are moved beside that order. */
ppto_status pp_schedule_needs(const pp_schedule *schedule, bool serial, uint32_t **first, uint32_t **needs)
{
    size_t n = schedule->steps.n, at = 0;
    uint32_t group = PP_NONE;
    *first = pp_alloc((n + 1) * sizeof **first);
    *needs = pp_alloc((schedule->needs.n + n + 1) * sizeof **needs);
    if (!*first || !*needs) return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) {
        bool chained = serial && schedule->steps.at[i].kind == PP_STEP_GROUP, before = group == PP_NONE;
        (*first)[i] = (uint32_t)at;
        for (uint32_t k = schedule->first_need[i]; k < schedule->first_need[i + 1]; k++) {
            (*needs)[at++] = schedule->needs.at[k];
            before = before || schedule->needs.at[k] == group;
        }
        if (chained && !before) (*needs)[at++] = group;
        if (chained) group = i;
    }
    (*first)[n] = (uint32_t)at;
    return PPTO_OK;
}
