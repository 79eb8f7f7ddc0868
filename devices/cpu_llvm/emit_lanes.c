/* SPDX-License-Identifier: Apache-2.0
 * A row of a loop whose folds keep their 64 lanes in registers.
 *
 *   lifted   where there are 64 elements: the first ones, which the lanes begin with
 *   turn     64 more, while there are so many
 *   part     what is left, or all of a shorter row, by masks, a vector at a time; lanes are on the stack
 *
 * A row of a multiple of 64 elements never touches the stack, and joins its lanes without asking which of
 * them exist: with rows of some hundred elements that is as much work as the elements themselves. */
#include <string.h>

#include "devices/cpu_llvm/emit_writer.h"

typedef struct blocks {
    LLVMBasicBlockRef lifted, head, turn, leave, spill, part, joined, done;
} blocks;

static void incoming(LLVMValueRef phi, LLVMValueRef value, LLVMBasicBlockRef from)
{
    LLVMAddIncoming(phi, &value, &from, 1);
}

static LLVMValueRef phi_at(const pp_emit_writer *w, LLVMBasicBlockRef block)
{
    LLVMPositionBuilderAtEnd(w->e->build, block);
    return LLVMBuildPhi(w->e->build, pp_emit_int(w->e, 64), "");
}

static LLVMValueRef is_less(const pp_emit_writer *w, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildICmp(w->e->build, LLVMIntULT, a, b, "");
}

/* A vector for each vector of lanes, from column c on. */
static void write_vectors(pp_emit_writer *w, LLVMValueRef c)
{
    for (unsigned v = 0; v < w->unroll; v++) {
        const LLVMValueRef first = pp_emit_count(w->e, (uint64_t)v * w->e->lanes);
        pp_emit_write_vector(w, LLVMBuildAdd(w->e->build, c, first, ""), NULL, v);
    }
}

/* The first elements and all whole turns; gives the column after them, where the builder stands. */
static LLVMValueRef write_whole(pp_emit_writer *w, const blocks *b)
{
    const LLVMBuilderRef build = w->e->build;
    const LLVMValueRef lanes = pp_emit_count(w->e, PP_LANES);
    LLVMPositionBuilderAtEnd(build, b->lifted);
    w->lifts = true;
    write_vectors(w, pp_emit_count(w->e, 0));
    w->lifts = false;
    const LLVMBasicBlockRef begun = LLVMGetInsertBlock(build);
    LLVMBuildBr(build, b->head);
    const LLVMValueRef c = phi_at(w, b->head);
    incoming(c, lanes, begun);
    pp_emit_turn_states(w, begun, true);
    const LLVMValueRef next = LLVMBuildAdd(build, c, lanes, "");
    LLVMBuildCondBr(build, is_less(w, w->cols, next), b->leave, b->turn);
    LLVMPositionBuilderAtEnd(build, b->turn);
    write_vectors(w, c);
    const LLVMBasicBlockRef end = LLVMGetInsertBlock(build);
    LLVMBuildBr(build, b->head);
    incoming(c, next, end);
    pp_emit_turn_states(w, end, false);
    memcpy(w->state, w->turned, w->loop->n_folds * w->unroll * sizeof *w->state); /* as the head has them */
    return c;
}

/* States are joined, or go to the stack for the elements that are left. */
static void write_leave(pp_emit_writer *w, const blocks *b, LLVMValueRef after)
{
    const LLVMBuilderRef build = w->e->build;
    const LLVMBasicBlockRef whole = pp_emit_block(w->e, "whole");
    LLVMPositionBuilderAtEnd(build, b->leave);
    LLVMBuildCondBr(build, is_less(w, after, w->cols), b->spill, whole);
    LLVMPositionBuilderAtEnd(build, b->spill);
    pp_emit_spill_lanes(w);
    LLVMBuildBr(build, b->part);
    LLVMPositionBuilderAtEnd(build, whole);
    pp_emit_end_folds(w, true);
    LLVMBuildBr(build, b->done);
}

/* From c on by masks, a vector at a time, to the end of the row. */
static void write_part(pp_emit_writer *w, const blocks *b, LLVMValueRef c)
{
    pp_emit *e = w->e;
    const LLVMValueRef lanes = pp_emit_count(e, e->lanes);
    const LLVMValueRef n = pp_emit_at_most(e, LLVMBuildSub(e->build, w->cols, c, ""), lanes);
    e->active = pp_emit_first_lanes(e, n);
    pp_emit_write_vector(w, c, n, 0);
    e->active = NULL;
    const LLVMValueRef next = LLVMBuildAdd(e->build, c, lanes, "");
    incoming(c, next, LLVMGetInsertBlock(e->build));
    LLVMBuildCondBr(e->build, is_less(w, next, w->cols), b->part, b->joined);
}

void pp_emit_write_lanes(pp_emit_writer *w, LLVMValueRef r)
{
    const LLVMBuilderRef build = w->e->build;
    const blocks made = {.lifted = pp_emit_block(w->e, "lifted"),
                         .head = pp_emit_block(w->e, "head"),
                         .turn = pp_emit_block(w->e, "turn"),
                         .leave = pp_emit_block(w->e, "leave"),
                         .spill = pp_emit_block(w->e, "spill"),
                         .part = pp_emit_block(w->e, "part"),
                         .joined = pp_emit_block(w->e, "joined"),
                         .done = pp_emit_block(w->e, "done")},
                 *b = &made;
    pp_emit_start_rows(w, r);
    const LLVMBasicBlockRef start = LLVMGetInsertBlock(build);
    LLVMBuildCondBr(build, is_less(w, w->cols, pp_emit_count(w->e, PP_LANES)), b->part, b->lifted);
    const LLVMValueRef after = write_whole(w, b), c = phi_at(w, b->part);
    incoming(c, pp_emit_count(w->e, 0), start), incoming(c, after, b->spill);
    write_part(w, b, c);
    LLVMPositionBuilderAtEnd(build, b->joined);
    pp_emit_end_folds(w, false);
    LLVMBuildBr(build, b->done);
    write_leave(w, b, after);
    LLVMPositionBuilderAtEnd(build, b->done);
}
