/* SPDX-License-Identifier: Apache-2.0
 * Finds the steps that can run as one loop, each value in a register of the machine.
 *
 * A step fits when it is computed element by element at the level of all axes; loads and whatever else looks
 * at memory do not. The steps of a group are sorted by phase: what fits has the phase of its operands, and
 * what does not fit comes one phase after what it needs of the loop before it. So each phase is a few other
 * steps, then one run, and there are as few runs as can be. The order of steps says nothing about the bits:
 * they meet in views alone, and stores stay behind all loads. Stores of values that nobody else reads follow
 * the last run, and are run with it.
 *
 * All of this is plain text about steps: a run that is not compiled is run step by step. */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu/interp_plan.h"

enum {
    LEAST = 1, /* scalar steps that are worth a loop */
    MOST = 400 /* instructions of one, its functions' included: whoever ends a process waits for the one that
                  is being compiled, some tens of milliseconds */
};

typedef struct placed {
    uint32_t group, phase, index; /* index: in the order of planning */
    bool fits;
} placed;

typedef struct ordering {
    pp_planner *p;
    placed *steps;   /* per step */
    uint32_t *maker; /* per view of the body: the step, PP_NONE: another body's, or none */
    uint32_t *reads; /* per view: by steps, folds and the body */
} ordering;

/* Scans of rows of some length: short ones go all at once in the interpreter. */
static bool scans_here(const pp_planner *p, const pp_step *step)
{
    return p->program->frame == PP_FRAME_LANES && (p->all & PP_LEVEL_COLS) && step->group == PP_GROUP_MINOR &&
           !p->program->folds[step->imm].joined && step->n_list > 0;
}

static bool fits(const pp_planner *p, const pp_step *step)
{
    if (step->level != p->all || step->level == PP_LEVEL_ONE) return false;
    switch (step->kind) {
    case PP_STEP_ROW1:
    case PP_STEP_ROW2:
    case PP_STEP_ROW3:
    case PP_STEP_SPREAD:
    case PP_STEP_CALL:
    case PP_STEP_COLD:
    case PP_STEP_TABLE: return true;
    case PP_STEP_SCAN: return scans_here(p, step);
    default: return false;
    }
}

/* ---- phases ---------------------------------------------------------------------------------- */

static uint32_t phase_of(const ordering *o, uint32_t at)
{
    const pp_step *step = &o->p->steps.at[at];
    uint32_t phase = 0, view;
    if (step->kind == PP_STEP_STORE) return UINT32_MAX;
    for (uint32_t i = 0; pp_plan_reads(step, i, &view); i++) {
        const uint32_t from = view != PP_NONE ? o->maker[view - o->p->base] : PP_NONE;
        if (from == PP_NONE || o->p->steps.at[from].group != step->group) continue;
        const uint32_t least = o->steps[from].phase + (o->steps[from].fits && !o->steps[at].fits);
        if (phase < least) phase = least;
    }
    return phase;
}

static void note_phases(ordering *o)
{
    pp_planner *p = o->p;
    uint32_t view;
    for (size_t v = 0; v < p->views.n; v++) o->maker[v] = PP_NONE;
    for (uint32_t i = 0; i < p->steps.n; i++) {
        const pp_step *step = &p->steps.at[i];
        for (uint32_t k = 0; pp_plan_reads(step, k, &view); k++)
            if (view != PP_NONE) o->reads[view - p->base]++;
        for (uint32_t k = 0; step->out != PP_NONE && k < step->n_out; k++)
            o->maker[step->out - p->base + k] = i;
        o->steps[i] = (placed){.group = step->group, .index = i, .fits = fits(p, step)};
        o->steps[i].phase = phase_of(o, i);
    }
}

static int compare(const void *a, const void *b)
{
    const placed *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->phase != y->phase) return x->phase < y->phase ? -1 : 1;
    if (x->fits != y->fits) return x->fits ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Groups run one after the other, so that their steps may lie in that order. */
static ppto_status sort(ordering *o)
{
    pp_planner *p = o->p;
    const size_t n = p->steps.n;
    pp_step *moved = pp_alloc(n * sizeof *moved);
    if (moved == NULL) return PPTO_E_NOMEM;
    qsort(o->steps, n, sizeof *o->steps, compare);
    for (size_t i = 0; i < n; i++) moved[i] = p->steps.at[o->steps[i].index];
    memcpy(p->steps.at, moved, n * sizeof *moved);
    pp_free(moved);
    return PPTO_OK;
}

/* ---- runs ------------------------------------------------------------------------------------ */

static bool same_run(const placed *a, const placed *b)
{
    return a->fits && b->fits && a->group == b->group && a->phase == b->phase;
}

/* Whether a fold takes what the run makes: it may be part of the loop. */
static bool feeds_fold(const ordering *o, const pp_body *body, uint32_t first, uint32_t n)
{
    const pp_planner *p = o->p;
    for (uint32_t f = 0; f < body->n_folds && pp_plan_folds(p); f++) {
        const pp_fold *fold = &p->program->folds[body->first_fold + f];
        for (uint32_t i = 0; fold->law == PP_LAW_FOLD && i < fold->n_inputs; i++)
            for (uint32_t k = first; k < first + n; k++)
                if (p->steps.at[k].out == body->input[f][i]) return true;
    }
    return false;
}

static uint32_t instructions(const pp_function *f)
{
    uint32_t n = f != NULL ? f->n_code : 0;
    for (uint32_t i = 0; f != NULL && i < f->n_callees; i++) n += instructions(f->callees[i]);
    return n;
}

/* A scan writes its join about once a step of its law. */
static uint32_t length_of(const pp_planner *p, const pp_step *step)
{
    enum { JOINS = 6 };
    if (step->kind == PP_STEP_SCAN) {
        const pp_fold *fold = &p->program->folds[step->imm];
        return instructions(fold->lift) + JOINS * instructions(fold->join);
    }
    const bool calls = step->kind == PP_STEP_CALL || step->kind == PP_STEP_COLD;
    return calls ? instructions(pp_fcode_function(step->data)) : 1;
}

static ppto_status take_runs(ordering *o, const pp_body *body)
{
    pp_planner *p = o->p;
    for (uint32_t i = 0, n; i < p->steps.n; i += n) {
        uint32_t scalars = 0, length = 0;
        for (n = 0; i + n < p->steps.n && (n == 0 || same_run(&o->steps[i], &o->steps[i + n])); n++) {
            length += length_of(p, &p->steps.at[i + n]);
            if (n > 0 && length > MOST) break;
            const uint8_t kind = p->steps.at[i + n].kind;
            scalars += kind == PP_STEP_SCAN ? LEAST : kind != PP_STEP_SPREAD;
        }
        if (o->steps[i].fits && scalars + feeds_fold(o, body, i, n) >= LEAST)
            PP_TRY(pp_vec_push(&p->runs, ((pp_plan_run){i, n, 0})));
    }
    return PPTO_OK;
}

static bool made_in(const ordering *o, const pp_plan_run *run, uint32_t view)
{
    const uint32_t maker = o->maker[view - o->p->base];
    if (maker == PP_NONE) return false;
    for (uint32_t i = run->first; i < run->first + run->n; i++)
        if (o->steps[i].index == maker) return true;
    return false;
}

/* Whether the store is all that anyone but the run does with its value. */
static bool only_stored(const ordering *o, const pp_plan_run *run, const pp_step *store)
{
    uint32_t inside = 0, view;
    if (store->level != o->p->all || !made_in(o, run, store->a)) return false;
    for (uint32_t i = run->first; i < run->first + run->n; i++)
        for (uint32_t k = 0; pp_plan_reads(&o->p->steps.at[i], k, &view); k++) inside += view == store->a;
    return o->reads[store->a - o->p->base] == inside + 1;
}

static bool looks_at_tensors(const pp_step *step)
{
    return step->kind == PP_STEP_LOAD || step->kind == PP_STEP_CHOOSE;
}

/* Moves the stores of the last run of a group to its end, if no load comes after it. */
static void take_stores(ordering *o, pp_plan_run *run)
{
    pp_planner *p = o->p;
    const uint32_t group = p->steps.at[run->first].group;
    uint32_t to = run->first + run->n, end = to;
    for (; end < p->steps.n && p->steps.at[end].group == group; end++)
        if (looks_at_tensors(&p->steps.at[end]) || o->steps[end].fits) return;
    for (uint32_t i = to; i < end; i++) {
        const pp_step store = p->steps.at[i];
        if (store.kind != PP_STEP_STORE || !only_stored(o, run, &store)) continue;
        memmove(&p->steps.at[to + 1], &p->steps.at[to], (i - to) * sizeof store);
        p->steps.at[to++] = store;
        run->stores++;
    }
}

static void count_folds(ordering *o, const pp_body *body)
{
    pp_planner *p = o->p;
    for (uint32_t f = 0; f < body->n_folds; f++) {
        const pp_fold *fold = &p->program->folds[body->first_fold + f];
        for (uint32_t i = 0; fold->law == PP_LAW_FOLD && i < fold->n_inputs; i++)
            o->reads[body->input[f][i] - p->base]++;
    }
    if (body->value != PP_NONE) o->reads[body->value - p->base]++;
}

ppto_status pp_plan_find_runs(pp_planner *p, const pp_body *body)
{
    if (p->launch->kernel->device->tier == PP_TIER_INTERP || p->steps.n < LEAST) return PPTO_OK;
    ordering o = {.p = p,
                  .steps = pp_calloc(p->steps.n + 1, sizeof *o.steps),
                  .maker = pp_calloc(p->views.n + 1, sizeof *o.maker),
                  .reads = pp_calloc(p->views.n + 1, sizeof *o.reads)};
    ppto_status status = o.steps && o.maker && o.reads ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) {
        note_phases(&o);
        count_folds(&o, body);
        status = sort(&o);
    }
    if (status == PPTO_OK) status = take_runs(&o, body);
    for (size_t r = 0; status == PPTO_OK && r < p->runs.n; r++) take_stores(&o, &p->runs.at[r]);
    pp_free(o.steps);
    pp_free(o.maker);
    pp_free(o.reads);
    return status;
}
