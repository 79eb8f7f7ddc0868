/* SPDX-License-Identifier: Apache-2.0
 * Shared by the two halves of planning: interp_plan_steps.c makes steps of instructions, interp_plan.c gives
 * registers and builds the body. */
#ifndef PP_INTERP_PLAN_H
#define PP_INTERP_PLAN_H

#include "devices/cpu/interp.h"
#include "kernel/walk.h"

typedef struct pp_plan_view {
    uint8_t level, group, dtype, size;
    bool reg, in_place;       /* has a register; only as a fallback */
    uint32_t spread[4];       /* the same value at other levels, PP_NONE */
    uint32_t origin;          /* of a spread: the view it was made of, else PP_NONE */
    const uint64_t *constant; /* of the program, NULL */
    uint32_t last;            /* MINOR: last step that reads it */
} pp_plan_view;

typedef struct pp_free_register {
    size_t offset, bytes;
    uint8_t size; /* of the elements */
} pp_free_register;

/* Steps that become one loop: `n` of them, then as many stores of what they make. */
typedef struct pp_plan_run {
    uint32_t first, n, stores;
} pp_plan_run;

typedef struct pp_planner {
    pp_launch *launch;
    const pp_plan_request *request;
    const pp_program *program;
    pp_pools pools;
    uint32_t base; /* first view of the body */
    uint32_t rows_mask, cols_mask;
    uint8_t all; /* level of a value that moves with every axis */
    bool wide;
    PP_VEC(pp_plan_view) views;
    PP_VEC(pp_step) steps;
    PP_VEC(pp_step) stores;
    PP_VEC(pp_plan_run) runs; /* of steps, in order */
    uint32_t *of;             /* per instruction of the code: its view */
    uint32_t *mask;           /* axes it moves with */
    uint8_t *group;           /* of the value, not of its steps */
    bool *folded;             /* per instruction: part of a tree of choices, without a step of its own */
    uint32_t *scan;           /* per fold of the stage: its first result view, PP_NONE */
    PP_VEC(pp_free_register) spare[2];
    size_t bytes[2];
} pp_planner;

/* Views of a body; of an instruction. */
static inline pp_plan_view *pp_plan_view_at(const pp_planner *p, uint32_t view)
{
    return &p->views.at[view - p->base];
}
static inline uint32_t pp_plan_local(const pp_planner *p, uint32_t instr)
{
    return instr - p->request->first;
}
static inline uint32_t pp_plan_view_of(const pp_planner *p, uint32_t instr)
{
    return p->of[pp_plan_local(p, instr)];
}

/* The i-th view a step reads, PP_NONE for an operand it has not; false past the last. */
static inline bool pp_plan_reads(const pp_step *step, uint32_t i, uint32_t *view)
{
    const uint32_t direct[3] = {step->a, step->b, step->c};
    *view = i < 3 ? (step->kind != PP_STEP_STATE ? direct[i] : PP_NONE) : PP_NONE;
    if (i >= 3 && i - 3 < step->n_list) *view = step->list[i - 3];
    return i < 3 + step->n_list;
}

/* interp_loops.c: orders the steps so that long runs of them can be loops, and finds those. */
ppto_status pp_plan_find_runs(pp_planner *p, const pp_body *body);
/* The view that a loop takes where a step reads `view`: before it was spread. */
static inline uint32_t pp_plan_source(const pp_planner *p, uint32_t view)
{
    while (pp_plan_view_at(p, view)->origin != PP_NONE) view = pp_plan_view_at(p, view)->origin;
    return view;
}
/* interp_loops_build.c: whether loops of the body may fold: along rows, or by columns where there are enough.
 * Few are better one long row: each row of them ends with a part of a vector, and their folds are cheap. */
bool pp_plan_folds(const pp_planner *p);
/* The machines of the body; place: of each step in its group. */
ppto_status pp_plan_machines(pp_planner *p, const uint32_t *place, pp_body *out);

/* The level of a value that moves with the axes of a mask. */
uint8_t pp_plan_level(const pp_planner *p, uint32_t mask);
/* interp_plan_choose.c: fills in `folded`; whether an instruction is a selection by guards; its step. */
ppto_status pp_plan_find_choices(pp_planner *p);
bool pp_plan_is_choice(const pp_planner *p, const pp_instr *instr);
ppto_status pp_plan_choice(pp_planner *p, uint32_t at, pp_step *step);
/* Steps for one instruction. */
ppto_status pp_plan_instr(pp_planner *p, uint32_t at);
/* All states of a scan at once, where its first value is asked for (or at the end, for the last state alone).
 */
ppto_status pp_plan_scan(pp_planner *p, uint32_t fold, uint32_t *first);
/* The value as a vector operand of a loop at `level`: rows of a full tile may all be the same row (pitch 0).
 */
ppto_status pp_plan_vector(pp_planner *p, uint32_t view, uint8_t level, uint32_t *out);

/* Which instruction is input i of a fold. */
uint32_t pp_plan_fold_input(const pp_planner *p, uint32_t fold, uint32_t i);

#endif
