/* SPDX-License-Identifier: Apache-2.0
 * From the code of a stage to a body: steps, each one loop, in three groups by how often they run.
 *
 * interp_plan_steps.c makes the steps. Stores come last in their group, so that no load of the tile follows
 * them. Registers of the group MINOR are handed out by last use; loads that will be read in place have a pool
 * of their own, as they do not take room in the cache. A result that is only stored or kept is written where
 * it belongs at once. */
#include <string.h>

#include "devices/cpu/interp_plan.h"

/* ---- registers ------------------------------------------------------------------------------- */

/* Calls fn for every view a step reads. */
static void each_operand(pp_planner *p, const pp_step *step, uint32_t at,
                         void (*fn)(pp_planner *, uint32_t, uint32_t))
{
    uint32_t view;
    for (uint32_t i = 0; pp_plan_reads(step, i, &view); i++)
        if (view != PP_NONE) fn(p, view, at);
}

static void note_use(pp_planner *p, uint32_t view, uint32_t at)
{
    pp_plan_view *v = pp_plan_view_at(p, view);
    if (v->last < at) v->last = at;
}

static size_t view_bytes(const pp_planner *p, const pp_plan_view *v)
{
    size_t n = 1;
    if (v->level & PP_LEVEL_ROWS) n *= p->request->rows;
    if (v->level & PP_LEVEL_COLS) n *= p->request->cols;
    return (n * v->size + 63) & ~(size_t)63;
}

static void release(pp_planner *p, uint32_t view, uint32_t at)
{
    pp_plan_view *v = pp_plan_view_at(p, view);
    if (v->group != PP_GROUP_MINOR || !v->reg || v->last != at) return;
    v->last = PP_NONE; /* once */
    const pp_free_register r = {p->launch->reg[view], view_bytes(p, v), v->size};
    (void)!pp_vec_push(&p->spare[v->in_place], r); /* without memory it is only not used again */
}

static void take(pp_planner *p, uint32_t view)
{
    const pp_plan_view *v = pp_plan_view_at(p, view);
    const size_t bytes = view_bytes(p, v);
    if (!v->reg) return;
    p->launch->reg_minor[view] = v->group == PP_GROUP_MINOR ? (uint8_t)(1 + v->in_place) : 0;
    if (v->group != PP_GROUP_MINOR) {
        p->launch->reg[view] = p->launch->fixed_bytes;
        p->launch->fixed_bytes += bytes;
        return;
    }
    for (size_t i = p->spare[v->in_place].n; i-- > 0;) {
        pp_free_register *r = &p->spare[v->in_place].at[i];
        if (r->bytes != bytes || (p->runs.n > 0 && r->size != v->size)) continue;
        p->launch->reg[view] = r->offset;
        *r = p->spare[v->in_place].at[--p->spare[v->in_place].n];
        return;
    }
    p->launch->reg[view] = p->bytes[v->in_place];
    p->bytes[v->in_place] += bytes;
}

/* A loop writes where it reads only element by element: what it reads in another form is there to its end. */
static void note_runs(pp_planner *p)
{
    uint32_t view;
    for (size_t r = 0; r < p->runs.n; r++) {
        const pp_plan_run *run = &p->runs.at[r];
        for (uint32_t i = run->first; i < run->first + run->n; i++)
            for (uint32_t k = 0; pp_plan_reads(&p->steps.at[i], k, &view); k++) {
                if (view == PP_NONE) continue;
                const uint32_t source = pp_plan_source(p, view);
                const bool other = pp_plan_view_at(p, source)->level != p->all;
                note_use(p, source, other ? run->first + run->n - 1 : i);
            }
    }
}

/* A row may write over an operand whose elements lie as those of its result do: one of another size or level
 * (an element per column, used by every row) can take as many bytes and be needed longer. */
static void release_alike(pp_planner *p, uint32_t view, uint32_t at)
{
    const pp_step *step = &p->steps.at[at];
    if (step->kind > PP_STEP_ROW3 || step->out == PP_NONE) return;
    const pp_plan_view *v = pp_plan_view_at(p, view), *out = pp_plan_view_at(p, step->out);
    if (v->level == out->level && v->size == out->size) release(p, view, at);
}

static void allocate(pp_planner *p, const pp_body *body)
{
    const uint32_t end = (uint32_t)p->steps.n;
    for (uint32_t i = 0; i < p->steps.n; i++) {
        for (uint32_t k = 0; p->steps.at[i].out != PP_NONE && k < p->steps.at[i].n_out; k++)
            pp_plan_view_at(p, p->steps.at[i].out + k)->last = i;
    }
    for (uint32_t i = 0; i < p->steps.n; i++) each_operand(p, &p->steps.at[i], i, note_use);
    note_runs(p);
    for (uint32_t f = 0; f < body->n_folds; f++) {
        const pp_fold *fold = &p->program->folds[body->first_fold + f];
        for (uint32_t i = 0; fold->law == PP_LAW_FOLD && i < fold->n_inputs; i++)
            note_use(p, body->input[f][i], end);
    }
    if (body->value != PP_NONE) note_use(p, body->value, end);
    for (uint32_t i = 0; i < p->steps.n; i++) {
        const pp_step *step = &p->steps.at[i];
        each_operand(p, step, i, release_alike);
        for (uint32_t k = 0; step->out != PP_NONE && k < step->n_out; k++) take(p, step->out + k);
        each_operand(p, step, i, release);
        for (uint32_t k = 0; step->out != PP_NONE && k < step->n_out; k++) release(p, step->out + k, i);
    }
}

/* ---- results written where they belong ------------------------------------------------------- */

static bool computes(const pp_step *step)
{
    switch (step->kind) {
    case PP_STEP_ROW1:
    case PP_STEP_ROW2:
    case PP_STEP_ROW3:
    case PP_STEP_SPREAD:
    case PP_STEP_CALL:
    case PP_STEP_LOAD:
    case PP_STEP_CHOOSE: return true;
    default: return false;
    }
}

static void find_direct(pp_planner *p)
{
    for (uint32_t k = 0; k < p->steps.n; k++) {
        const pp_step *sink = &p->steps.at[k];
        if (sink->kind != PP_STEP_KEEP && sink->kind != PP_STEP_STORE) continue;
        for (uint32_t i = k; i-- > 0;) {
            pp_step *step = &p->steps.at[i];
            if (step->out != sink->a) continue;
            if (computes(step) && step->group == sink->group && step->level == sink->level &&
                (step->direct == PP_NONE || sink->kind == PP_STEP_KEEP))
                step->direct = k;
            break;
        }
    }
}

/* ---- the body -------------------------------------------------------------------------------- */

static ppto_status plan_fold_inputs(pp_planner *p, pp_body *out)
{
    const pp_stage *stage = p->request->stage;
    out->first_fold = stage->first_fold;
    out->n_folds = stage->n_folds;
    out->input = pp_arena_alloc(&p->launch->arena, (stage->n_folds + 1u) * sizeof *out->input);
    if (out->input == NULL) return PPTO_E_NOMEM;
    for (uint32_t f = 0; f < stage->n_folds; f++) {
        const uint32_t at = stage->first_fold + f;
        const pp_fold *fold = &p->program->folds[at];
        if (fold->law == PP_LAW_SCAN) {
            if (p->scan[f] == PP_NONE) PP_TRY(pp_plan_scan(p, at, &p->scan[f]));
            continue;
        }
        for (uint32_t i = 0; i < fold->n_inputs; i++)
            PP_TRY(pp_plan_vector(p, pp_plan_view_of(p, pp_plan_fold_input(p, at, i)), p->all,
                                  &out->input[f][i]));
    }
    return PPTO_OK;
}

uint32_t pp_plan_fold_input(const pp_planner *p, uint32_t fold, uint32_t i)
{
    return pp_interp_fold_input(p->program, p->launch->kernel->folds, fold, i);
}

static bool is_seen(const pp_step *step)
{
    return step->kind == PP_STEP_STORE || step->kind == PP_STEP_CHECK || step->kind == PP_STEP_KEEP ||
           step->kind == PP_STEP_SCAN;
}

/* Splits the steps by group; indices of direct sinks become those of the group. */
static ppto_status split_groups(pp_planner *p, pp_body *out)
{
    uint32_t *place = pp_arena_alloc(&p->launch->arena, (p->steps.n + 1u) * sizeof *place);
    if (place == NULL) return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < p->steps.n; i++) place[i] = out->n_steps[p->steps.at[i].group]++;
    for (uint32_t i = 0; i < p->steps.n; i++)
        if (is_seen(&p->steps.at[i]) && p->steps.at[i].group == PP_GROUP_MINOR) out->only_folds = false;
    for (unsigned g = 0; g < PP_GROUPS; g++) {
        out->steps[g] = pp_arena_alloc(&p->launch->arena, (out->n_steps[g] + 1u) * sizeof *out->steps[g]);
        if (out->steps[g] == NULL) return PPTO_E_NOMEM;
    }
    for (uint32_t i = 0; i < p->steps.n; i++) {
        pp_step step = p->steps.at[i];
        if (step.direct != PP_NONE) step.direct = place[step.direct];
        out->steps[step.group][place[i]] = step;
    }
    return pp_plan_machines(p, place, out);
}

static ppto_status plan(pp_planner *p, pp_body *out)
{
    const pp_plan_request *r = p->request;
    const uint32_t n_folds = r->stage != NULL ? r->stage->n_folds : 0;
    p->of = pp_calloc(r->count + 1u, sizeof *p->of);
    p->mask = pp_calloc(r->count + 1u, sizeof *p->mask);
    p->group = pp_calloc(r->count + 1u, sizeof *p->group);
    p->scan = pp_calloc(n_folds + 1u, sizeof *p->scan);
    p->folded = pp_calloc(r->count + 1u, sizeof *p->folded);
    if (p->of == NULL || p->mask == NULL || p->group == NULL || p->scan == NULL || p->folded == NULL)
        return PPTO_E_NOMEM;
    PP_TRY(pp_plan_find_choices(p));
    for (uint32_t f = 0; f < n_folds; f++) p->scan[f] = PP_NONE;
    for (uint32_t i = r->first; i < r->first + r->count; i++)
        if (r->variant->live[i]) PP_TRY(pp_plan_instr(p, i));
    if (r->stage != NULL) PP_TRY(plan_fold_inputs(p, out));
    if (r->value != PP_NONE) {
        PP_TRY(pp_plan_vector(p, pp_plan_view_of(p, r->value), p->all, &out->value));
        out->value_level = p->all;
    }
    for (size_t i = 0; i < p->stores.n; i++) PP_TRY(pp_vec_push(&p->steps, p->stores.at[i]));
    PP_TRY(pp_plan_find_runs(p, out));
    allocate(p, out);
    find_direct(p);
    return split_groups(p, out);
}

ppto_status pp_interp_plan(pp_launch *launch, const pp_plan_request *request, pp_body *out,
                           size_t *minor_bytes, size_t *hot_bytes)
{
    const pp_space *space = request->space;
    pp_planner p = {.launch = launch,
                    .request = request,
                    .program = request->variant->program,
                    .base = launch->n_views,
                    .pools = pp_program_pools(request->variant->program),
                    .rows_mask = space->dim[PP_DIM_ROWS].mask,
                    .cols_mask = space->dim[PP_DIM_COLS].mask};
    p.all = pp_plan_level(&p, p.rows_mask | p.cols_mask);
    p.wide = request->rows == 1 || request->cols >= PP_WIDE;
    *out = (pp_body){.space = space,
                     .value = PP_NONE,
                     .only_folds = true,
                     .level = p.all,
                     .inner = request->stage == NULL || request->stage->inner};
    ppto_status status = plan(&p, out);
    launch->n_views += (uint32_t)p.views.n;
    for (uint32_t v = 0; status == PPTO_OK && v < p.views.n; v++)
        if (launch->reg_minor[p.base + v] == 2) launch->reg[p.base + v] += p.bytes[0];
    *hot_bytes = p.bytes[0];
    *minor_bytes = p.bytes[0] + p.bytes[1];
    pp_free(p.of);
    pp_free(p.mask);
    pp_free(p.group);
    pp_free(p.scan);
    pp_free(p.folded);
    pp_vec_free(&p.views);
    pp_vec_free(&p.steps);
    pp_vec_free(&p.stores);
    pp_vec_free(&p.runs);
    pp_vec_free(&p.spare[0]);
    pp_vec_free(&p.spare[1]);
    return status;
}
