/* SPDX-License-Identifier: Apache-2.0
 * Scans along a row, behind the code that makes their values: every row is a block of the scan law.
 *
 * A group of 16 elements is one vector or a few. Each step joins what lies 1, 2, 4, 8 elements to the left:
 * inside a vector by a shuffle, else from the vectors of the group before it, whose values at that step are
 * kept while the group is written. What the groups before joined to goes from group to group in a register,
 * the same in all lanes; only that join waits for the one before. Parts of vectors are written as the whole
 * group with masks: what stands right of the last element reaches nothing on its left.
 *
 * Where something does not exist (a group before, a block before) its join is computed and not taken. */
#include "devices/cpu_llvm/emit.h"

#include <string.h>

enum { GROUP = 16, MAX_LANES = GROUP };

void pp_emit_scan_start(pp_emit *e, const pp_loop_fold *at, pp_emit_scan *out)
{
    *out = (pp_emit_scan){.at = at, .vectors = GROUP / e->lanes};
    pp_emit_state_room(e, at, GROUP, out->before);
    pp_emit_state_room(e, at, GROUP, out->last);
}

static void take_where(pp_emit *e, const pp_emit_scan *f, LLVMValueRef where, const pp_emit_value *yes,
                       const pp_emit_value *no, pp_emit_value *out)
{
    for (unsigned s = 0; s < f->at->fold->n_states; s++)
        out[s] = (pp_emit_value){.at = LLVMBuildSelect(e->build, where, yes[s].at, no[s].at, "")};
}

/* ---- inside a group ------------------------------------------------------------------------------------ */

/* What lies d elements to the left of vector v of the group, as it was before this step. */
static void shifted(pp_emit *e, const pp_emit_scan *f, unsigned step, unsigned v, unsigned d,
                    pp_emit_value *out)
{
    LLVMValueRef from[MAX_LANES];
    const unsigned left = v > 0 ? v - 1 : 0;
    for (unsigned i = 0; i < e->lanes; i++)
        from[i] = LLVMConstInt(pp_emit_int(e, 32), d < e->lanes ? e->lanes + i - d : i, false);
    for (unsigned s = 0; s < f->at->fold->n_states; s++) {
        const unsigned first = d < e->lanes ? left : v - d / e->lanes;
        const LLVMValueRef a = f->stage[step][first][s].at, b = f->stage[step][v][s].at;
        out[s] = (pp_emit_value){
            .at = d < e->lanes ? LLVMBuildShuffleVector(e->build, a, b, LLVMConstVector(from, e->lanes), "")
                               : a};
    }
}

/* Lanes of vector v that have an element d to their left. */
static LLVMValueRef reaches(pp_emit *e, unsigned v, unsigned d)
{
    LLVMValueRef has[MAX_LANES];
    for (unsigned i = 0; i < e->lanes; i++)
        has[i] = LLVMConstInt(pp_emit_element(e, PPTO_BOOL), v * e->lanes + i >= d, false);
    return LLVMConstVector(has, e->lanes);
}

static void prefix(pp_emit *e, pp_emit_scan *f, unsigned v)
{
    for (unsigned step = 0, d = 1; d < GROUP; step++, d *= 2) {
        const pp_emit_value *old = f->stage[step][v];
        pp_emit_value *out = f->stage[step + 1][v], left[4], joined[4];
        memcpy(out, old, sizeof left);
        if ((v + 1) * e->lanes <= d) continue;
        shifted(e, f, step, v, d, left);
        pp_emit_state_join(e, f->at, left, old, joined);
        if (v * e->lanes >= d)
            memcpy(out, joined, sizeof left);
        else
            take_where(e, f, reaches(e, v, d), joined, old, out);
    }
}

/* ---- a vector ------------------------------------------------------------------------------------------ */

static LLVMValueRef last_lane(pp_emit *e, LLVMValueRef value)
{
    LLVMValueRef from[MAX_LANES];
    for (unsigned i = 0; i < e->lanes; i++) from[i] = LLVMConstInt(pp_emit_int(e, 32), e->lanes - 1, false);
    return LLVMBuildShuffleVector(e->build, value, LLVMGetPoison(LLVMTypeOf(value)),
                                  LLVMConstVector(from, e->lanes), "");
}

/* What the groups up to this one join to. first: whether there was none before, NULL: there was. */
static void move_on(pp_emit *e, pp_emit_scan *f, LLVMValueRef first)
{
    const pp_emit_value *own = f->stage[PP_EMIT_SCAN_STEPS][f->vectors - 1];
    pp_emit_value last[4], joined[4];
    for (unsigned s = 0; s < f->at->fold->n_states; s++)
        last[s] = (pp_emit_value){.at = last_lane(e, own[s].at)};
    pp_emit_state_join(e, f->at, f->running, last, joined);
    if (first != NULL)
        take_where(e, f, first, last, joined, f->running);
    else
        memcpy(f->running, joined, sizeof joined);
}

void pp_emit_scan_vector(pp_emit *e, pp_emit_scan *f, unsigned v, LLVMValueRef first, const pp_emit_value *in)
{
    pp_emit_value whole[4], joined[4];
    pp_emit_state_lift(e, f->at, in, f->stage[0][v]);
    prefix(e, f, v);
    const pp_emit_value *own = f->stage[PP_EMIT_SCAN_STEPS][v];
    pp_emit_state_join(e, f->at, f->running, own, whole);
    if (first != NULL) take_where(e, f, first, own, whole, whole);
    if (v == f->vectors - 1) move_on(e, f, first);
    pp_emit_state_join(e, f->at, f->carry, whole, joined);
    take_where(e, f, f->alone, whole, joined, f->result);
    for (unsigned s = 0; s < f->at->fold->n_states; s++) {
        const LLVMValueRef lane = LLVMConstInt(pp_emit_int(e, 64), (uint64_t)v * e->lanes, false);
        const LLVMValueRef to = pp_emit_state_at(e, f->at, s, f->last[s], lane);
        pp_emit_store(e, pp_emit_state_dtype(f->at, s), to, f->result[s].at, false);
    }
}

/* ---- between the parts of a row ------------------------------------------------------------------------ */

void pp_emit_scan_load(pp_emit *e, pp_emit_scan *f)
{
    for (unsigned s = 0; s < f->at->fold->n_states; s++)
        f->running[s] = (pp_emit_value){.at = pp_emit_load(e, pp_emit_state_dtype(f->at, s), f->before[s])};
}

void pp_emit_scan_store(pp_emit *e, const pp_emit_scan *f)
{
    for (unsigned s = 0; s < f->at->fold->n_states; s++)
        pp_emit_store(e, pp_emit_state_dtype(f->at, s), f->before[s], f->running[s].at, false);
}

void pp_emit_scan_turn(pp_emit *e, pp_emit_scan *f, LLVMBasicBlockRef from, bool first)
{
    for (unsigned s = 0; s < f->at->fold->n_states; s++) {
        if (first) f->turned[s] = LLVMBuildPhi(e->build, LLVMTypeOf(f->running[s].at), "");
        LLVMAddIncoming(f->turned[s], &f->running[s].at, &from, 1);
        if (first) f->running[s] = (pp_emit_value){.at = f->turned[s]};
    }
}

void pp_emit_scan_end(pp_emit *e, const pp_emit_scan *f, LLVMValueRef cols, const LLVMValueRef *to)
{
    const LLVMTypeRef word = pp_emit_int(e, 64);
    const LLVMValueRef before = LLVMBuildSub(e->build, cols, LLVMConstInt(word, 1, false), "");
    const LLVMValueRef lane = LLVMBuildAnd(e->build, before, LLVMConstInt(word, GROUP - 1, false), "");
    for (unsigned s = 0; s < f->at->fold->n_states; s++) {
        const LLVMValueRef at = pp_emit_state_at(e, f->at, s, f->last[s], lane);
        pp_emit_store_one(e, &e->loop->out[f->at->out[s]], to[s],
                          pp_emit_load_one(e, pp_emit_state_dtype(f->at, s), at));
    }
}
