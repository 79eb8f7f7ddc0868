/* SPDX-License-Identifier: Apache-2.0
 * Folds by the lane law, behind the code that makes their values: every row is one block of 64 lanes.
 *
 * The lanes of a state lie on the stack, a few vectors of them. Elements before the 64th are lifted and
 * written there by the masked code; later ones are stepped. Where a vector of lanes has its own copy of the
 * code they stay in registers, and the stack is for short rows and the ends of others (emit_lanes.c). At the
 * end of the row lanes join by halving: first whole vectors, then inside one, where lane i meets lane i + h
 * by a shuffle. Lanes that do not exist are masked out, never filled. */
#include <string.h>

#include "base/fault.h"
#include "devices/cpu_llvm/emit.h"

enum { MAX_LANES = 64 };

void pp_emit_fold_start(pp_emit *e, const pp_loop_fold *at, pp_emit_fold *out)
{
    *out = (pp_emit_fold){.at = at};
    pp_emit_state_room(e, at, PP_LANES, out->lanes);
}

/* ---- lanes on the stack -------------------------------------------------------------------------------- */

void pp_emit_fold_load(pp_emit *e, const pp_emit_fold *f, LLVMValueRef lane, pp_emit_value *out)
{
    for (unsigned s = 0; s < f->at->fold->n_states; s++)
        out[s] = (pp_emit_value){.at = pp_emit_load(e, pp_emit_state_dtype(f->at, s),
                                                    pp_emit_state_at(e, f->at, s, f->lanes[s], lane))};
}

void pp_emit_fold_store(pp_emit *e, const pp_emit_fold *f, LLVMValueRef lane, const pp_emit_value *state)
{
    for (unsigned s = 0; s < f->at->fold->n_states; s++)
        pp_emit_store(e, pp_emit_state_dtype(f->at, s), pp_emit_state_at(e, f->at, s, f->lanes[s], lane),
                      state[s].at, false);
}

static LLVMValueRef lane_of(pp_emit *e, LLVMValueRef c)
{
    return LLVMBuildAnd(e->build, c, pp_emit_constant(e, LLVMTypeOf(c), PP_LANES - 1), "");
}

void pp_emit_fold_vector(pp_emit *e, const pp_emit_fold *f, LLVMValueRef c, const pp_emit_value *in)
{
    pp_emit_value old[4], next[4];
    const LLVMValueRef lane = lane_of(e, c);
    pp_emit_fold_load(e, f, lane, old);
    pp_emit_state_step(e, f->at, old, in, next);
    pp_emit_fold_store(e, f, lane, next);
}

void pp_emit_fold_part(pp_emit *e, const pp_emit_fold *f, LLVMValueRef c, const pp_emit_value *in)
{
    pp_emit_value old[4], lifted[4], next[4];
    const LLVMValueRef lane = lane_of(e, c);
    const LLVMValueRef first =
        LLVMBuildICmp(e->build, LLVMIntULT, c, pp_emit_constant(e, LLVMTypeOf(c), PP_LANES), "");
    pp_emit_fold_load(e, f, lane, old);
    pp_emit_state_lift(e, f->at, in, lifted);
    pp_emit_state_step(e, f->at, old, in, next);
    for (unsigned s = 0; s < f->at->fold->n_states; s++) {
        next[s].at = LLVMBuildSelect(e->build, first, lifted[s].at, next[s].at, "");
        next[s].at = LLVMBuildSelect(e->build, e->active, next[s].at, old[s].at, "");
    }
    pp_emit_fold_store(e, f, lane, next);
}

/* ---- the end of a row ---------------------------------------------------------------------------------- */

/* Which lanes of the vector at `first` have a partner h further, of `lanes` that exist (an i64). NULL: all.
 */
static LLVMValueRef has_partner(pp_emit *e, unsigned first, unsigned h, LLVMValueRef lanes)
{
    if (lanes == NULL) return NULL;
    const uint64_t less = pp_fault(PP_FAULT_CODE_LANES) ? 1 : 0;
    const LLVMValueRef before = pp_emit_constant(e, LLVMTypeOf(lanes), (uint64_t)first + h - less);
    return pp_emit_first_lanes(e, LLVMBuildSub(e->build, lanes, before, ""));
}

static void join_where(pp_emit *e, const pp_emit_fold *f, LLVMValueRef where, pp_emit_value *a,
                       const pp_emit_value *b)
{
    pp_emit_value joined[4];
    pp_emit_state_join(e, f->at, a, b, joined);
    for (unsigned s = 0; s < f->at->fold->n_states; s++) {
        if (where != NULL) joined[s].at = LLVMBuildSelect(e->build, where, joined[s].at, a[s].at, "");
        a[s] = joined[s];
    }
}

/* Lane i of the result is lane i + h. */
static LLVMValueRef moved(pp_emit *e, LLVMValueRef value, unsigned h)
{
    LLVMValueRef from[MAX_LANES];
    for (unsigned i = 0; i < e->lanes; i++)
        from[i] = LLVMConstInt(pp_emit_int(e, 32), (i + h) % e->lanes, false);
    return LLVMBuildShuffleVector(e->build, value, LLVMGetPoison(LLVMTypeOf(value)),
                                  LLVMConstVector(from, e->lanes), "");
}

static void join_inside(pp_emit *e, const pp_emit_fold *f, LLVMValueRef lanes, pp_emit_value *state)
{
    for (unsigned h = e->lanes / 2; h > 0; h /= 2) {
        pp_emit_value right[4];
        for (unsigned s = 0; s < f->at->fold->n_states; s++)
            right[s] = (pp_emit_value){.at = moved(e, state[s].at, h)};
        join_where(e, f, has_partner(e, 0, h, lanes), state, right);
    }
}

/* The lanes of all vectors, `lanes` of which exist (NULL: all); the first one goes to the outputs. */
static void join_vectors(pp_emit *e, const pp_emit_fold *f, LLVMValueRef lanes, pp_emit_value (*vector)[4],
                         const LLVMValueRef *to)
{
    const unsigned vectors = PP_LANES / e->lanes;
    for (unsigned h = vectors / 2; h > 0; h /= 2)
        for (unsigned v = 0; v < h; v++)
            join_where(e, f, has_partner(e, v * e->lanes, h * e->lanes, lanes), vector[v], vector[v + h]);
    join_inside(e, f, lanes, vector[0]);
    for (unsigned s = 0; s < f->at->fold->n_states; s++)
        pp_emit_store_one(e, &e->loop->out[f->at->out[s]], to[s], vector[0][s].at);
}

void pp_emit_fold_end(pp_emit *e, const pp_emit_fold *f, LLVMValueRef lanes, const LLVMValueRef *to)
{
    pp_emit_value vector[MAX_LANES][4];
    const LLVMTypeRef word = pp_emit_int(e, 64);
    for (unsigned v = 0; v < PP_LANES / e->lanes; v++)
        pp_emit_fold_load(e, f, LLVMConstInt(word, (uint64_t)v * e->lanes, false), vector[v]);
    join_vectors(e, f, lanes, vector, to);
}

void pp_emit_fold_end_all(pp_emit *e, const pp_emit_fold *f, pp_emit_value (*state)[4],
                          const LLVMValueRef *to)
{
    pp_emit_value vector[MAX_LANES][4];
    memcpy(vector, state, PP_LANES / e->lanes * sizeof *vector);
    join_vectors(e, f, NULL, vector, to);
}
