/* SPDX-License-Identifier: Apache-2.0
 * Shared by the parts of the generator (functions_emit.c, functions_cut.c, functions_loop.c,
 * functions_fold.c). */
#ifndef PP_FUNCTIONS_CUT_H
#define PP_FUNCTIONS_CUT_H

#include "devices/cpu/functions_emit.h"
#include "kernel/render.h"

/* A function with its calls inlined (the callees of COLD stay), and where each value is computed.
 * The loop over a block is cut at every look-up and every cold region: a place is (segment << 16 | phase). A
 * segment ends where cold regions are filled in, a phase where look-ups are done. Values move between loops
 * through arrays. */
typedef struct pp_cut {
    PP_VEC(pp_instr) code;
    PP_VEC(uint32_t) operands;
    PP_VEC(uint64_t) consts;
    PP_VEC(pp_table) tables;
    PP_VEC(const pp_function *) callees;
    pp_pools pools; /* of the arrays above, once flattened */
    const pp_function *function;
    uint32_t result[4];
    uint32_t *place;     /* where it is computed */
    uint32_t *from;      /* first place where it may be used: later than place for TABLE and COLD */
    uint32_t *cost;      /* operations to compute it again from parameters and look-up indices */
    uint32_t *used;      /* the last place that reads it */
    bool *live, *stored; /* stored: kept in an array for later places */
    bool *wide;          /* its array outlives the segment */
    /* A bit cast of a float to an integer that gives canonical NaN by a variable whose value compilers do not
     * see (HIDDEN_NANS): with a constant they compute on from it in a branch of its own, and the loop grows
     * by blends. */
    bool *hidden;
    uint32_t last; /* the place where the results are written */
    bool has_table, has_cold, has_hidden;
} pp_cut;

ppto_status pp_cut_build(const pp_function *function, pp_cut *cut);
void pp_cut_free(pp_cut *cut);
/* Marks what a loop at `place` must compute or read for the values marked in `needed`; what comes from arrays
 * is marked but not followed. */
void pp_cut_need(const pp_cut *cut, uint32_t place, bool *needed);
/* Whether a loop at `place` reads the value from an array. */
bool pp_cut_is_read(const pp_cut *cut, uint32_t at, uint32_t place);

/* Whether the index of a look-up is in its value's own array (of u32), not in one made for the look-up. */
bool pp_cut_index_is_stored(const pp_cut *cut, uint32_t index);

/* ---- functions_loop.c: `void PP_NAME(pp_loop_HASH)(size_t n, void *const *out, const void *const *in)`
 * ----- */
ppto_status pp_emit_loop(pp_render *render, const pp_function *function);

/* ---- functions_position.c: folds with a position that is only compared and selected ----------------------
 */

typedef struct pp_positions {
    unsigned state;          /* which one is the position */
    ppto_dtype pass, offset; /* what stands for it inside a lane, inside a block */
} pp_positions;

/* Whether the fold is of this kind. */
bool pp_positions_find(const pp_fold *fold, pp_positions *out);
/* Whether the join only compares and selects this state. */
bool pp_positions_compared(const pp_fold *fold, unsigned state);
/* The join on narrow positions; later: of a state and an element that comes after it. */
void pp_positions_join(pp_render *render, const pp_fold *fold, const pp_positions *positions, bool later);
uint64_t pp_positions_hash(const pp_fold *fold, bool later); /* of those joins */
/* The body of the lane loop after its head, to the end of the function. */
void pp_positions_lanes(pp_text *out, const pp_fold *fold, const pp_positions *positions);

/* ---- functions_order.c --------------------------------------------------------------------------------- */

/* Whether the join picks the first of a total order, so that elements may be taken in any order: proved by
 * trying all cases there are. */
bool pp_positions_ordered(const pp_fold *fold, const pp_positions *positions);
/* Of such folds, after the lane loop: PP_NAME(pp_best_KEY) and PP_NAME(pp_turned_KEY), see pp_fold_loops. */
void pp_positions_best(pp_text *out, const pp_fold *fold, const pp_positions *positions);
void pp_positions_turned(pp_text *out, const pp_fold *fold, const pp_positions *positions);

/* ---- functions_fold.c: the loops of a fold, PP_NAME(pp_lanes_KEY) and so on -------------------------------
 */
uint64_t pp_fold_key(const pp_fold *fold);
void pp_emit_fold(pp_render *render, const pp_fold *fold);
void pp_emit_fold_entry(const pp_fold *fold, pp_text *out); /* its pp_fold_loops */
void pp_emit_fold_declarations(const pp_fold *fold, pp_text *out);

#endif
