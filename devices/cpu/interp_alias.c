/* SPDX-License-Identifier: Apache-2.0
 * Tensors of a launch that share memory.
 *
 * In general an output that lies over an input is written at the end of a tile, by a copy, and where there
 * are several outputs the input is copied before. Neither is needed where a body takes the input over: it
 * writes each element over the same element of the input, and from the step on that computes what is written
 * nobody looks at the input again. The steps say so, and machine code, which runs several of them at once,
 * goes element by element too. */
#include <string.h>

#include "devices/cpu/interp_alias.h"
#include "devices/cpu/interp_plan.h"

static bool overlap(const pp_tensor_at *a, const pp_tensor_at *b)
{
    const uintptr_t a0 = (uintptr_t)a->data + (uintptr_t)a->lowest,
                    b0 = (uintptr_t)b->data + (uintptr_t)b->lowest;
    return a->span > 0 && b->span > 0 && a0 < b0 + (uintptr_t)b->span && b0 < a0 + (uintptr_t)a->span;
}

/* ---- the same elements ------------------------------------------------------------------------- */

/* The only form in which the tensor is accessed, NULL if there are several or it is no plain one. */
static const pp_access_at *only_access(const pp_launch *launch, uint32_t tensor)
{
    const pp_access_at *only = NULL;
    for (uint32_t i = 0; i < launch->variant->program->n_accesses; i++) {
        const pp_access_at *at = &launch->access[i];
        if (!at->used || at->tensor != tensor) continue;
        if (at->n_guards > 0 || at->n_gathers > 0 || at->data_guard) return NULL;
        if (only != NULL &&
            (only->lin->base != at->lin->base ||
             memcmp(only->lin->coef, at->lin->coef, launch->n_axes * sizeof *at->lin->coef) != 0))
            return NULL;
        only = at;
    }
    return only;
}

static bool same_elements(const pp_launch *launch, uint32_t output, uint32_t input)
{
    const pp_access_at *to = only_access(launch, output), *from = only_access(launch, input);
    return to != NULL && from != NULL && to->size == from->size && to->lin->base == from->lin->base &&
           memcmp(to->lin->coef, from->lin->coef, launch->n_axes * sizeof *to->lin->coef) == 0;
}

/* ---- in the right order ------------------------------------------------------------------------ */

static bool touches(const pp_step *step, pp_step_kind kind, uint32_t tensor)
{
    return step->kind == kind && ((const pp_access_at *)step->data)->tensor == tensor;
}

static bool reads(const pp_step *step, uint32_t view)
{
    uint32_t read;
    for (uint32_t k = 0; pp_plan_reads(step, k, &read); k++)
        if (read == view) return true;
    return false;
}

/* The group in which the body stores the output, as a value of every axis; PP_GROUPS: in none. */
static unsigned storing_group(const pp_body *body, uint32_t output, uint32_t *view)
{
    for (unsigned g = 0; g < PP_GROUPS; g++)
        for (uint32_t i = 0; i < body->n_steps[g]; i++)
            if (touches(&body->steps[g][i], PP_STEP_STORE, output)) return *view = body->steps[g][i].a, g;
    return PP_GROUPS;
}

/* The step of the group that computes the view, element by element; PP_NONE if there is none. */
static uint32_t maker_of(const pp_body *body, unsigned group, uint32_t view)
{
    const pp_step *step = body->steps[group];
    for (uint32_t i = 0; i < body->n_steps[group]; i++)
        if (step[i].out == view && step[i].level == PP_LEVEL_FULL &&
            (step[i].kind <= PP_STEP_ROW3 || step[i].kind == PP_STEP_CALL))
            return i;
    return PP_NONE;
}

static bool feeds_fold(const pp_launch *launch, const pp_body *body, uint32_t view)
{
    for (uint32_t f = 0; f < body->n_folds; f++) {
        const pp_fold *fold = &launch->variant->program->folds[body->first_fold + f];
        for (uint32_t i = 0; fold->law == PP_LAW_FOLD && i < fold->n_inputs; i++)
            if (body->input[f][i] == view) return true;
    }
    return false;
}

/* Whether the view, loaded by step `load` of the group, is read by nothing behind step `maker`. */
static bool read_before(const pp_launch *launch, const pp_body *body, unsigned group, uint32_t load,
                        uint32_t maker)
{
    const uint32_t view = body->steps[group][load].out;
    for (unsigned g = group; g < PP_GROUPS; g++)
        for (uint32_t i = g == group ? maker + 1 : 0; i < body->n_steps[g]; i++)
            if (reads(&body->steps[g][i], view)) return false;
    return load < maker && !feeds_fold(launch, body, view);
}

/* Whether the body, which stores the output, looks at the input no more once that is computed. */
static bool leaves_before(const pp_launch *launch, const pp_body *body, uint32_t output, uint32_t input)
{
    uint32_t view = PP_NONE;
    const unsigned group = storing_group(body, output, &view);
    const uint32_t maker = maker_of(body, group, view);
    if (maker == PP_NONE) return false;
    for (unsigned g = 0; g < PP_GROUPS; g++)
        for (uint32_t i = 0; i < body->n_steps[g]; i++) {
            const pp_step *step = &body->steps[g][i];
            if (step->kind == PP_STEP_CHOOSE) return false; /* what it chooses from may lie in place */
            if (touches(step, PP_STEP_LOAD, input) &&
                (g != group || !read_before(launch, body, group, i, maker)))
                return false;
        }
    return true;
}

bool pp_interp_takes_over(const pp_launch *launch, uint32_t output, uint32_t input)
{
    bool stored = false;
    if (launch->contract != NULL || launch->bodies == NULL || !same_elements(launch, output, input))
        return false;
    for (uint32_t s = 0; s < launch->variant->program->n_stages; s++) {
        uint32_t view;
        if (storing_group(&launch->bodies[s], output, &view) == PP_GROUPS) continue;
        if (stored || !leaves_before(launch, &launch->bodies[s], output, input)) return false;
        stored = true;
    }
    return stored;
}

void pp_interp_find_aliases(pp_launch *launch)
{
    const uint32_t n = launch->kernel->plain.program->n_tensors;
    uint32_t outputs = 0;
    for (uint32_t i = 0; i < n; i++) {
        launch->tensors[i].aliased = false;
        outputs += launch->tensors[i].output;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!launch->tensors[i].output) continue;
        for (uint32_t k = 0; k < n; k++) {
            const pp_tensor_at *to = &launch->tensors[i], *from = &launch->tensors[k];
            if (from->output || !overlap(to, from)) continue;
            if (to->data == from->data && pp_interp_takes_over(launch, i, k)) continue;
            launch->tensors[i].aliased = true;
            if (outputs > 1) launch->tensors[k].aliased = true;
        }
    }
}
