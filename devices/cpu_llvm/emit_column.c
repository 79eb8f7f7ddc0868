/* SPDX-License-Identifier: Apache-2.0
 * Folds by columns, behind the code that makes their values.
 *
 *   for each group of rows: four, or two, or one
 *     for each vector of columns: its states to registers; the code of each row, and its step; states back
 *
 * So memory is read row by row, in the order the processor expects, and states go through the first cache
 * once for all rows of a group. The columns of a group are those of a row of any loop, whole vectors and
 * parts (emit_loop.c): each of its rows is a line, a writer with streams and values of its own. A row that
 * begins a block goes alone, and so do the last few: that code computes the lifted elements beside the states
 * that go on, and takes one of them; what it reads as states may be anything then.
 *
 * The part of a vector at the end of a row is the same columns in every row. Its states lie on the stack
 * meanwhile, as whole vectors: what a masked store wrote a load would have to wait for. */
#include "devices/cpu_llvm/emit_writer.h"

/* ---- states -------------------------------------------------------------------------------------------- */

static LLVMValueRef place_of(const pp_emit_writer *w, const pp_loop_fold *f, unsigned s, LLVMValueRef c)
{
    return pp_emit_state_at(w->e, f, s, w->out[f->out[s]].at, c);
}

void pp_emit_load_columns(pp_emit_writer *w, LLVMValueRef c, LLVMValueRef part)
{
    for (uint32_t i = 0; w->columns && i < w->loop->n_folds; i++) {
        const pp_loop_fold *f = &w->loop->folds[i];
        for (unsigned s = 0; s < f->fold->n_states; s++) {
            const LLVMValueRef at = part != NULL ? w->folds[i].lanes[s] : place_of(w, f, s, c);
            w->state[i][s] = (pp_emit_value){.at = pp_emit_load(w->e, pp_emit_state_dtype(f, s), at)};
        }
    }
}

void pp_emit_store_columns(const pp_emit_writer *w, LLVMValueRef c, LLVMValueRef part)
{
    for (uint32_t i = 0; w->columns && i < w->loop->n_folds; i++) {
        const pp_loop_fold *f = &w->loop->folds[i];
        for (unsigned s = 0; s < f->fold->n_states; s++) {
            const LLVMValueRef at = part != NULL ? w->folds[i].lanes[s] : place_of(w, f, s, c);
            pp_emit_store(w->e, pp_emit_state_dtype(f, s), at, w->state[i][s].at, false);
        }
    }
}

/* The states of the last part of a vector, between memory and stack. */
static void move_part(pp_emit_writer *w, bool load)
{
    pp_emit *e = w->e;
    const LLVMValueRef n = LLVMBuildAnd(e->build, w->cols, pp_emit_count(e, (uint64_t)e->lanes - 1), "");
    const LLVMValueRef c = LLVMBuildSub(e->build, w->cols, n, "");
    e->active = pp_emit_first_lanes(e, n);
    for (uint32_t i = 0; i < w->loop->n_folds; i++) {
        const pp_loop_fold *f = &w->loop->folds[i];
        for (unsigned s = 0; s < f->fold->n_states; s++) {
            const ppto_dtype dtype = pp_emit_state_dtype(f, s);
            const LLVMValueRef there = place_of(w, f, s, c), here = w->folds[i].lanes[s];
            if (load)
                pp_emit_store(e, dtype, here, pp_emit_load_part(e, dtype, there, n), false);
            else
                pp_emit_store_part(e, dtype, there, pp_emit_load(e, dtype, here), n);
        }
    }
    e->active = NULL;
}

void pp_emit_step_columns(pp_emit_writer *w, uint32_t fold, const pp_emit_value *in)
{
    const pp_loop_fold *f = &w->loop->folds[fold];
    pp_emit_value *state = w->state[fold], next[4], lifted[4];
    pp_emit_state_step(w->e, f, state, in, next);
    if (w->begins != NULL) pp_emit_state_lift(w->e, f, in, lifted);
    for (unsigned s = 0; s < f->fold->n_states; s++) {
        state[s] = next[s];
        if (w->begins == NULL) continue;
        const LLVMValueRef begins = w->begins[fold];
        state[s] = (pp_emit_value){.at = LLVMBuildSelect(w->e->build, begins, lifted[s].at, next[s].at, "")};
    }
}

/* ---- lines --------------------------------------------------------------------------------------------- */

/* The lines of a group: like the writer, but each with places and values of its own. */
static bool make_lines(pp_emit_writer *w, pp_arena *arena)
{
    const pp_loop *loop = w->loop;
    pp_emit_writer *lines = pp_arena_alloc(arena, w->down * sizeof *lines);
    for (unsigned q = 0; lines != NULL && q < w->down; q++) {
        lines[q] = *w;
        lines[q].in = pp_arena_copy(arena, w->in, (loop->n_in + 1u) * sizeof *w->in);
        lines[q].out = pp_arena_copy(arena, w->out, (loop->n_out + 1u) * sizeof *w->out);
        lines[q].param = pp_arena_alloc(arena, (loop->n_in + 1u) * sizeof *w->param);
        lines[q].row = pp_arena_alloc(arena, (loop->n_code + 1u) * sizeof *w->row);
        lines[q].value = pp_arena_alloc(arena, (loop->n_code + 1u) * sizeof *w->value);
        if (!lines[q].in || !lines[q].out || !lines[q].param || !lines[q].row || !lines[q].value)
            return false;
    }
    w->lines = lines;
    return lines != NULL;
}

/* ---- rows ---------------------------------------------------------------------------------------------- */

static LLVMValueRef is_first(const pp_emit_writer *w, LLVMValueRef r)
{
    return LLVMBuildICmp(w->e->build, LLVMIntEQ, r, pp_emit_count(w->e, 0), "");
}

/* Per fold whether the tile begins its block; some: whether one does. */
static void read_fresh(const pp_emit_writer *w, LLVMValueRef *fresh, LLVMValueRef *some)
{
    pp_emit *e = w->e;
    const LLVMValueRef lane = pp_emit_constant(e, pp_emit_int(e, 32), 0);
    for (uint32_t i = 0; i < w->loop->n_folds; i++) {
        fresh[i] = pp_emit_load_one(e, PPTO_BOOL, w->in[w->loop->folds[i].fresh].at);
        const LLVMValueRef one = LLVMBuildExtractElement(e->build, fresh[i], lane, "");
        *some = i == 0 ? one : LLVMBuildOr(e->build, *some, one, "");
    }
}

/* `down` rows from r on, in the block; then the head again, or the end. */
static void write_group(pp_emit_writer *w, unsigned down, LLVMValueRef *begins, LLVMValueRef r,
                        LLVMBasicBlockRef head, LLVMBasicBlockRef end)
{
    const LLVMBuilderRef build = w->e->build;
    w->down = down;
    for (unsigned q = 0; q < down; q++) w->lines[q].begins = begins;
    pp_emit_write_row(w, r);
    LLVMValueRef next = LLVMBuildAdd(build, r, pp_emit_count(w->e, down), "");
    LLVMBasicBlockRef last = LLVMGetInsertBlock(build);
    LLVMBuildCondBr(build, LLVMBuildICmp(build, LLVMIntULT, next, w->rows, ""), head, end);
    LLVMAddIncoming(r, &next, &last, 1);
}

/* Where a group of rows is taken: not where too few are left, or the first one begins a block. */
static LLVMValueRef is_group(const pp_emit_writer *w, LLVMValueRef r, LLVMValueRef some)
{
    const LLVMBuilderRef build = w->e->build;
    const LLVMValueRef after = LLVMBuildAdd(build, r, pp_emit_count(w->e, w->down), "");
    const LLVMValueRef room = LLVMBuildICmp(build, LLVMIntULE, after, w->rows, "");
    const LLVMValueRef begins = LLVMBuildAnd(build, some, is_first(w, r), "");
    return LLVMBuildAnd(build, room, LLVMBuildNot(build, begins, ""), "");
}

static void write_groups(pp_emit_writer *w, LLVMValueRef *begins, LLVMValueRef some)
{
    pp_emit *e = w->e;
    LLVMBasicBlockRef entry = LLVMGetInsertBlock(e->build);
    const LLVMBasicBlockRef head = pp_emit_block(e, "head"), group = pp_emit_block(e, "group"),
                            alone = pp_emit_block(e, "alone"), end = pp_emit_block(e, "end");
    LLVMValueRef zero = pp_emit_count(e, 0);
    LLVMBuildBr(e->build, head);
    LLVMPositionBuilderAtEnd(e->build, head);
    const LLVMValueRef r = LLVMBuildPhi(e->build, pp_emit_int(e, 64), "");
    LLVMAddIncoming(r, &zero, &entry, 1);
    LLVMBuildCondBr(e->build, is_group(w, r, some), group, alone);
    LLVMPositionBuilderAtEnd(e->build, group);
    write_group(w, w->down, NULL, r, head, end);
    LLVMPositionBuilderAtEnd(e->build, alone);
    for (uint32_t i = 0; i < w->loop->n_folds; i++)
        begins[i] = LLVMBuildAnd(e->build, begins[i], pp_emit_splat(e, is_first(w, r)), "");
    write_group(w, 1, begins, r, head, end);
    LLVMPositionBuilderAtEnd(e->build, end);
}

void pp_emit_write_columns(pp_emit_writer *w, pp_arena *arena)
{
    LLVMValueRef *begins = pp_arena_alloc(arena, w->loop->n_folds * sizeof *begins), some = NULL;
    if (begins == NULL || !make_lines(w, arena)) {
        pp_emit_fail(w->e, PPTO_E_NOMEM, "no memory");
        return;
    }
    read_fresh(w, begins, &some);
    move_part(w, true);
    write_groups(w, begins, some);
    move_part(w, false);
}
