/* SPDX-License-Identifier: Apache-2.0
 * The shape of the machine code of a loop.
 *
 *   for each row: what is the same in the row, once; then
 *     part    up to `limit` elements by masks, a vector at a time
 *     fast    `unroll` whole vectors at a time, while there are so many
 *     single  one whole vector at a time, of those that are left (not with folds)
 *     part    the rest of the row
 *
 * Where a loop folds by columns, a row here is a few rows at once (emit_column.c); where it folds by lanes
 * that stay in registers, a row has a shape of its own (emit_lanes.c).
 *
 * The first part is empty unless an output goes around the caches: then it reaches the alignment that such
 * stores need, and where that cannot be had the whole row goes by parts, with plain stores. A vector has as
 * many elements as the widest dtype of the code allows in one register. Whole vectors are taken one after the
 * other, stores and all: the processor overlaps them. */
#include "base/fault.h"
#include "devices/cpu_llvm/emit_writer.h"

/* ---- a row --------------------------------------------------------------------------------------------- */

typedef struct blocks {
    LLVMBasicBlockRef fast_head, fast, single_head, rest, part, row_end;
} blocks;

static LLVMValueRef row_of(const pp_emit_writer *w, const pp_emit_place *p, LLVMValueRef r)
{
    LLVMValueRef offset = LLVMBuildMul(w->e->build, r, p->pitch, "");
    if (pp_fault(PP_FAULT_CODE_PITCH)) offset = LLVMBuildMul(w->e->build, offset, pp_emit_count(w->e, 0), "");
    return LLVMBuildGEP2(w->e->build, pp_emit_int(w->e, 8), p->at, &offset, 1, "");
}

static void start_row(pp_emit_writer *w, LLVMValueRef r)
{
    w->r = r;
    for (uint32_t i = 0; i < w->loop->n_out; i++) w->out[i].row = row_of(w, &w->out[i], r);
    for (uint32_t i = 0; i < w->loop->n_in; i++) {
        const pp_stream *stream = &w->loop->in[i];
        w->in[i].row = row_of(w, &w->in[i], r);
        if (stream->kind == PP_STREAM_ROW && w->read[i])
            w->param[i].at = pp_emit_load_one(w->e, (ppto_dtype)stream->dtype, w->in[i].row);
    }
    for (uint32_t at = 0; at < w->loop->n_code; at++)
        if (!w->varies[at] && w->loop->code[at].op != PP_STORE)
            w->row[at] = pp_emit_instr(w->e, &w->pools, at, w->row, w->param);
    pp_emit_start_scans(w);
}

void pp_emit_start_rows(pp_emit_writer *w, LLVMValueRef r)
{
    for (unsigned q = 0; q < w->down; q++)
        start_row(&w->lines[q], q == 0 ? r : LLVMBuildAdd(w->e->build, r, pp_emit_count(w->e, q), ""));
}

/* A vector of the rows that are taken at once. */
static void write_vectors(pp_emit_writer *w, LLVMValueRef c, LLVMValueRef part, unsigned vector)
{
    pp_emit_load_columns(w, c, part);
    for (unsigned q = 0; q < w->down; q++) pp_emit_write_vector(&w->lines[q], c, part, vector);
    pp_emit_store_columns(w, c, part);
}

/* Whether output i is aligned after `skip` elements. */
static LLVMValueRef is_aligned(const pp_emit_writer *w, uint32_t i, LLVMValueRef skip)
{
    const LLVMBuilderRef build = w->e->build;
    const unsigned size = pp_dtype_width((ppto_dtype)w->loop->out[i].dtype) / 8;
    const LLVMValueRef address = LLVMBuildPtrToInt(build, w->out[i].row, pp_emit_int(w->e, 64), "");
    const LLVMValueRef start =
        LLVMBuildAdd(build, address, LLVMBuildMul(build, skip, pp_emit_count(w->e, size), ""), "");
    const LLVMValueRef over =
        LLVMBuildAnd(build, start, pp_emit_count(w->e, (uint64_t)size * w->e->lanes - 1), "");
    return LLVMBuildICmp(build, LLVMIntEQ, over, pp_emit_count(w->e, 0), "");
}

/* How many elements reach the alignment of the outputs that go around the caches, `least` of them at least
 * (those of a scan's first group: then no others do); sets fast_end. */
static LLVMValueRef write_peel(pp_emit_writer *w, LLVMValueRef least)
{
    const LLVMBuilderRef build = w->e->build;
    const LLVMValueRef zero = pp_emit_count(w->e, 0);
    LLVMValueRef skip = w->scans != NULL ? least : NULL, all = NULL;
    for (uint32_t i = 0; i < w->loop->n_out; i++) {
        if (!w->loop->out[i].around) continue;
        if (skip == NULL) {
            const unsigned size = pp_dtype_width((ppto_dtype)w->loop->out[i].dtype) / 8;
            const LLVMValueRef address = LLVMBuildPtrToInt(build, w->out[i].row, pp_emit_int(w->e, 64), "");
            const LLVMValueRef bytes =
                LLVMBuildAnd(build, LLVMBuildNeg(build, address, ""),
                             pp_emit_count(w->e, (uint64_t)size * w->e->lanes - 1), "");
            skip = LLVMBuildUDiv(build, bytes, pp_emit_count(w->e, size), "");
        }
        const LLVMValueRef aligned = is_aligned(w, i, skip);
        all = all == NULL ? aligned : LLVMBuildAnd(build, all, aligned, "");
    }
    w->fast_end = LLVMBuildSelect(build, all, w->cols, zero, "");
    return LLVMBuildSelect(build, all, pp_emit_at_most(w->e, skip, w->cols), least, "");
}

static LLVMValueRef is_room(const pp_emit_writer *w, LLVMValueRef c, unsigned vectors)
{
    const LLVMValueRef after =
        LLVMBuildAdd(w->e->build, c, pp_emit_count(w->e, (uint64_t)vectors * w->e->lanes), "");
    return LLVMBuildICmp(w->e->build, LLVMIntULE, after, w->fast_end, "");
}

static void incoming(LLVMValueRef phi, LLVMValueRef value, LLVMBasicBlockRef from)
{
    LLVMAddIncoming(phi, &value, &from, 1);
}

static LLVMValueRef phi_at(const pp_emit_writer *w, LLVMBasicBlockRef block)
{
    LLVMPositionBuilderAtEnd(w->e->build, block);
    return LLVMBuildPhi(w->e->build, pp_emit_int(w->e, 64), "");
}

/* Whole vectors that are left behind those that go together: past the caches like them, where masks would
 * have the processor read what they overwrite, in every short row. Gives the column after them to `rest`. */
static void write_single(pp_emit_writer *w, const blocks *b, LLVMValueRef head, LLVMValueRef rest)
{
    const LLVMBuilderRef build = w->e->build;
    LLVMPositionBuilderAtEnd(build, b->single_head);
    incoming(rest, head, b->single_head);
    if (w->unroll == 1 || w->loop->n_folds > 0) {
        LLVMBuildBr(build, b->rest);
        return;
    }
    const LLVMBasicBlockRef single = pp_emit_block(w->e, "single");
    LLVMBuildCondBr(build, is_room(w, head, 1), single, b->rest);
    const LLVMValueRef c = phi_at(w, single);
    incoming(c, head, b->single_head);
    write_vectors(w, c, NULL, 0);
    const LLVMValueRef next = LLVMBuildAdd(build, c, pp_emit_count(w->e, w->e->lanes), "");
    const LLVMBasicBlockRef end = LLVMGetInsertBlock(build);
    LLVMBuildCondBr(build, is_room(w, next, 1), single, b->rest);
    incoming(c, next, end), incoming(rest, next, end);
}

/* Whole vectors, `unroll` of them while there is room; goes on at `after` and gives the column to its `rest`.
 */
static void write_fast(pp_emit_writer *w, const blocks *b, LLVMValueRef head, LLVMBasicBlockRef after,
                       LLVMValueRef rest)
{
    const LLVMBuilderRef build = w->e->build;
    const LLVMBasicBlockRef enter = pp_emit_block(w->e, "enter"), leave = pp_emit_block(w->e, "leave");
    LLVMPositionBuilderAtEnd(build, b->fast_head);
    LLVMBuildCondBr(build, is_room(w, head, w->unroll), enter, after);
    incoming(rest, head, b->fast_head);
    LLVMPositionBuilderAtEnd(build, enter);
    pp_emit_move_states(w, true);
    LLVMBuildBr(build, b->fast);
    const LLVMValueRef c = phi_at(w, b->fast);
    incoming(c, head, enter);
    pp_emit_turn_states(w, enter, true);
    LLVMValueRef at = c;
    for (unsigned u = 0; u < w->unroll; u++) {
        write_vectors(w, at, NULL, u);
        at = LLVMBuildAdd(build, c, pp_emit_count(w->e, (uint64_t)(u + 1) * w->e->lanes), "");
    }
    const LLVMBasicBlockRef end = LLVMGetInsertBlock(build);
    LLVMBuildCondBr(build, is_room(w, at, w->unroll), b->fast, leave);
    incoming(c, at, end);
    pp_emit_turn_states(w, end, false);
    LLVMPositionBuilderAtEnd(build, leave);
    pp_emit_move_states(w, false);
    LLVMBuildBr(build, after);
    incoming(rest, at, leave);
}

/* The vectors from c on that masks take at once, of `left` elements. */
static void write_masked(pp_emit_writer *w, LLVMValueRef c, LLVMValueRef left)
{
    pp_emit *e = w->e;
    const LLVMValueRef lanes = pp_emit_count(e, e->lanes), zero = pp_emit_count(e, 0);
    for (unsigned v = 0; v < w->together; v++) {
        const LLVMValueRef first = pp_emit_count(e, (uint64_t)v * e->lanes);
        LLVMValueRef n = LLVMBuildSub(e->build, left, first, "");
        n = LLVMBuildSelect(e->build, LLVMBuildICmp(e->build, LLVMIntSLT, n, zero, ""), zero, n, "");
        n = pp_emit_at_most(e, n, lanes);
        e->active = pp_emit_first_lanes(e, n);
        write_vectors(w, LLVMBuildAdd(e->build, c, first, ""), n, v);
        e->active = NULL;
    }
}

/* From c up to limit by masks; then the fast part, or the end of the row where the limit is that. */
static void write_part(pp_emit_writer *w, const blocks *b, LLVMValueRef c, LLVMValueRef limit,
                       LLVMValueRef head)
{
    pp_emit *e = w->e;
    LLVMPositionBuilderAtEnd(e->build, b->part);
    const LLVMValueRef left = LLVMBuildSub(e->build, limit, c, ""),
                       most = pp_emit_count(e, (uint64_t)w->together * e->lanes);
    const LLVMValueRef whole = LLVMBuildICmp(e->build, LLVMIntULT, most, left, "");
    write_masked(w, c, left);
    const LLVMValueRef next = LLVMBuildAdd(e->build, c, pp_emit_at_most(e, left, most), "");
    const LLVMBasicBlockRef end = LLVMGetInsertBlock(e->build), turn = pp_emit_block(e, "turn");
    LLVMBuildCondBr(e->build, whole, b->part, turn);
    incoming(c, next, end), incoming(limit, limit, end);
    LLVMPositionBuilderAtEnd(e->build, turn);
    LLVMBuildCondBr(e->build, LLVMBuildICmp(e->build, LLVMIntEQ, limit, w->cols, ""), b->row_end,
                    b->fast_head);
    incoming(head, next, turn);
}

void pp_emit_write_row(pp_emit_writer *w, LLVMValueRef r)
{
    const LLVMBuilderRef build = w->e->build;
    const LLVMValueRef zero = pp_emit_count(w->e, 0);
    const blocks made = {.fast_head = pp_emit_block(w->e, "fast_head"),
                         .fast = pp_emit_block(w->e, "fast"),
                         .single_head = pp_emit_block(w->e, "single_head"),
                         .rest = pp_emit_block(w->e, "rest"),
                         .part = pp_emit_block(w->e, "part"),
                         .row_end = pp_emit_block(w->e, "row_end")},
                 *b = &made;
    pp_emit_start_rows(w, r);
    w->fast_end = w->cols;
    const bool lanes = w->loop->n_folds > 0 && !w->columns;
    const uint64_t least = w->scans != NULL ? PP_SCAN_GROUP : lanes ? PP_LANES : 0;
    LLVMValueRef peel = pp_emit_at_most(w->e, w->cols, pp_emit_count(w->e, least));
    if (w->around) peel = write_peel(w, peel);
    const LLVMBasicBlockRef start = LLVMGetInsertBlock(build);
    const LLVMValueRef head = phi_at(w, b->fast_head), single = phi_at(w, b->single_head),
                       rest = phi_at(w, b->rest), c = phi_at(w, b->part), limit = phi_at(w, b->part);
    LLVMPositionBuilderAtEnd(build, start);
    LLVMBuildCondBr(build, LLVMBuildICmp(build, LLVMIntEQ, peel, zero, ""), b->fast_head, b->part);
    incoming(head, zero, start), incoming(c, zero, start), incoming(limit, peel, start);
    write_fast(w, b, head, b->single_head, single);
    write_single(w, b, single, rest);
    LLVMPositionBuilderAtEnd(build, b->rest);
    LLVMBuildCondBr(build, LLVMBuildICmp(build, LLVMIntULT, rest, w->cols, ""), b->part, b->row_end);
    incoming(c, rest, b->rest), incoming(limit, w->cols, b->rest);
    write_part(w, b, c, limit, head);
    LLVMPositionBuilderAtEnd(build, b->row_end);
}

/* ---- the function -------------------------------------------------------------------------------------- */

static void read_places(pp_emit_writer *w, pp_emit_place *places, uint32_t n, LLVMValueRef from)
{
    pp_emit *e = w->e;
    const LLVMTypeRef pointer = LLVMPointerTypeInContext(e->context, 0);
    for (uint32_t i = 0; i < n; i++) {
        LLVMValueRef first = pp_emit_count(w->e, 2u * i), second = pp_emit_count(w->e, 2u * i + 1);
        const LLVMValueRef at = LLVMBuildGEP2(e->build, pp_emit_int(w->e, 64), from, &first, 1, "");
        const LLVMValueRef pitch = LLVMBuildGEP2(e->build, pp_emit_int(w->e, 64), from, &second, 1, "");
        places[i].at = LLVMBuildLoad2(e->build, pointer, at, "");
        places[i].pitch = LLVMBuildLoad2(e->build, pp_emit_int(w->e, 64), pitch, "");
    }
}

static void start_function(pp_emit_writer *w)
{
    pp_emit *e = w->e;
    const LLVMTypeRef pointer = LLVMPointerTypeInContext(e->context, 0);
    LLVMTypeRef param[4] = {pp_emit_int(w->e, 64), pp_emit_int(w->e, 64), pointer, pointer};
    const LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), param, 4, false);
    e->function = LLVMAddFunction(e->module, PP_EMIT_NAME, type);
    pp_emit_attributes(e, e->function);
    LLVMPositionBuilderAtEnd(e->build, pp_emit_block(e, "entry"));
    if (!e->target->masks_of_bytes)
        e->aside =
            LLVMBuildAlloca(e->build, pp_emit_vector(e, pp_emit_int(e, 8 * e->target->bytes / e->lanes)), "");
    w->rows = LLVMGetParam(e->function, 0), w->cols = LLVMGetParam(e->function, 1);
    for (uint32_t i = 0; i < w->loop->n_folds; i++) {
        if (w->scans != NULL)
            pp_emit_scan_start(e, &w->loop->folds[i], &w->scans[i]);
        else
            pp_emit_fold_start(e, &w->loop->folds[i], &w->folds[i]);
    }
    read_places(w, w->in, w->loop->n_in, LLVMGetParam(e->function, 2));
    read_places(w, w->out, w->loop->n_out, LLVMGetParam(e->function, 3));
}

static void write_rows(pp_emit_writer *w)
{
    pp_emit *e = w->e;
    const LLVMBasicBlockRef entry = LLVMGetInsertBlock(e->build), row = pp_emit_block(e, "row");
    LLVMBuildBr(e->build, row);
    const LLVMValueRef r = phi_at(w, row);
    incoming(r, pp_emit_count(e, 0), entry);
    if (w->registers) {
        pp_emit_write_lanes(w, r);
    } else {
        pp_emit_write_row(w, r);
        pp_emit_end_folds(w, false);
    }
    const LLVMBasicBlockRef last = LLVMGetInsertBlock(e->build), end = pp_emit_block(e, "end");
    const LLVMValueRef next = LLVMBuildAdd(e->build, r, pp_emit_count(e, 1), "");
    LLVMBuildCondBr(e->build, LLVMBuildICmp(e->build, LLVMIntULT, next, w->rows, ""), row, end);
    incoming(r, next, last);
    LLVMPositionBuilderAtEnd(e->build, end);
}

static bool find_room(pp_emit_writer *w, pp_arena *arena)
{
    const size_t n = w->loop->n_code + 1u, n_in = w->loop->n_in + 1u, n_out = w->loop->n_out + 1u;
    const size_t n_folds = w->loop->n_folds + 1u;
    w->folds = pp_arena_alloc(arena, n_folds * sizeof *w->folds);
    w->state = pp_arena_alloc(arena, n_folds * w->unroll * sizeof *w->state);
    w->turned = pp_arena_alloc(arena, n_folds * w->unroll * sizeof *w->turned);
    w->in = pp_arena_alloc(arena, n_in * sizeof *w->in);
    w->out = pp_arena_alloc(arena, n_out * sizeof *w->out);
    w->param = pp_arena_alloc(arena, n_in * sizeof *w->param);
    w->read = pp_arena_alloc(arena, n_in * sizeof *w->read);
    w->row = pp_arena_alloc(arena, n * sizeof *w->row);
    w->value = pp_arena_alloc(arena, n * sizeof *w->value);
    w->varies = pp_arena_alloc(arena, n * sizeof *w->varies);
    return w->folds && w->state && w->turned && w->in && w->out && w->param && w->read && w->row &&
           w->value && w->varies;
}

static bool scans(const pp_loop *loop)
{
    return loop->n_folds > 0 && loop->folds[0].fold->law == PP_LAW_SCAN;
}

static void write_function(pp_emit_writer *w, pp_arena *arena)
{
    pp_emit_find_varying(w);
    start_function(w);
    if (w->columns)
        pp_emit_write_columns(w, arena);
    else
        write_rows(w);
    LLVMBuildRetVoid(w->e->build);
}

void pp_emit_loop(pp_emit *e)
{
    pp_emit_writer w = {.e = e, .loop = e->loop, .pools = pp_loop_pools(e->loop), .lines = &w, .down = 1};
    pp_emit_weight sum;
    pp_arena arena = {0};
    pp_emit_weigh(e->loop, &sum);
    e->lanes = e->target->bytes / sum.widest;
    if (scans(e->loop)) {
        if (e->lanes > PP_SCAN_GROUP) e->lanes = PP_SCAN_GROUP;
        w.scans = pp_arena_alloc(&arena, e->loop->n_folds * sizeof *w.scans);
        if (w.scans == NULL) pp_emit_fail(e, PPTO_E_NOMEM, "no memory");
    }
    w.columns = e->loop->n_folds > 0 && e->loop->folds[0].columns;
    pp_emit_choose_unroll(&w, &sum);
    for (uint32_t i = 0; i < e->loop->n_out; i++)
        w.around = w.around || (e->loop->out[i].around && (w.scans != NULL || e->loop->n_folds == 0));
    if (e->status == PPTO_OK && find_room(&w, &arena)) {
        write_function(&w, &arena);
    } else {
        pp_emit_fail(e, PPTO_E_NOMEM, "no memory");
    }
    pp_arena_free(&arena);
}
