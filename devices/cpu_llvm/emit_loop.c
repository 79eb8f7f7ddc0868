/* SPDX-License-Identifier: Apache-2.0
 * The shape of the machine code of a loop.
 *
 *   for each row: what is the same in the row, once; then
 *     part    up to `limit` elements by masks, a vector at a time
 *     fast    `unroll` whole vectors at a time, while there are so many
 *     part    the rest of the row
 *
 * The first part is empty unless an output goes around the caches: then it reaches the alignment that such
 * stores need, and where that cannot be had the whole row goes by parts, with plain stores. A vector has as
 * many elements as the widest dtype of the code allows in one register. Whole vectors are taken one after the
 * other, stores and all: the processor overlaps them. */
#include "devices/cpu_llvm/emit.h"

typedef struct place { /* a stream */
    LLVMValueRef at, pitch;
    LLVMValueRef row; /* its place in this row */
} place;

typedef struct writer {
    pp_emit *e;
    const pp_loop *loop;
    pp_pools pools;
    place *in, *out;
    pp_emit_value *row;   /* per instruction: the value where it does not vary, */
    pp_emit_value *value; /* and of the vector being written */
    pp_emit_value *param; /* per input */
    bool *varies;         /* per instruction: within a row */
    bool *read;           /* per input */
    bool around;          /* some output goes around the caches */
    unsigned unroll;
    pp_emit_fold *folds;
    bool registers;             /* lanes of folds stay in registers while whole vectors are taken: */
    pp_emit_value (*state)[4];  /* [fold][vector], */
    pp_emit_value (*turned)[4]; /* and what they are at the head of the loop */
    LLVMValueRef rows, cols;
    LLVMValueRef fast_end; /* whole vectors end here, at the latest */
} writer;

static LLVMTypeRef word(const writer *w)
{
    return pp_emit_int(w->e, 64);
}

static LLVMValueRef count(const writer *w, uint64_t n)
{
    return LLVMConstInt(word(w), n, false);
}

static LLVMValueRef at_most(const writer *w, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildSelect(w->e->build, LLVMBuildICmp(w->e->build, LLVMIntULT, a, b, ""), a, b, "");
}

/* ---- what the code says -------------------------------------------------------------------------------- */

/* Long code overlaps enough by itself; branches of cold regions cut it anyway. With folds, a copy of the code
 * for every vector of lanes keeps all states in registers, where both are few enough. */
static void choose_unroll(writer *w, const pp_emit_weight *sum)
{
    enum { MOST_ROWS = 128 };
    const unsigned vectors = PP_LANES / w->e->lanes;
    w->unroll = sum->cold > 0 || sum->rows > 40 ? 1 : sum->rows > 12 ? 2 : 4;
    if (sum->states == 0) return;
    w->registers = sum->cold == 0 && sum->rows * vectors <= MOST_ROWS &&
                   sum->states * vectors <= w->e->target->registers / 2;
    if (w->registers || w->unroll > vectors) w->unroll = vectors;
}

static void find_varying(writer *w)
{
    for (uint32_t at = 0; at < w->loop->n_code; at++) {
        const pp_instr *instr = &w->loop->code[at];
        uint32_t operand[PP_MAX_OPERANDS];
        const unsigned n = pp_instr_operands(&w->pools, instr, operand);
        if (instr->op == PP_PARAM) {
            w->varies[at] = w->loop->in[instr->imm].kind == PP_STREAM_FULL;
            w->read[instr->imm] = true;
        }
        for (unsigned i = 0; i < n; i++) w->varies[at] = w->varies[at] || w->varies[operand[i]];
    }
    for (uint32_t i = 0; i < w->loop->n_folds; i++)
        if (w->loop->folds[i].fold->position) w->read[w->loop->folds[i].first] = true;
}

/* ---- one vector ---------------------------------------------------------------------------------------- */

static LLVMValueRef element_at(const writer *w, const place *p, uint8_t dtype, LLVMValueRef c)
{
    return LLVMBuildGEP2(w->e->build, pp_emit_memory(w->e, (ppto_dtype)dtype), p->row, &c, 1, "");
}

static void load_params(writer *w, LLVMValueRef c, LLVMValueRef part)
{
    for (uint32_t i = 0; i < w->loop->n_in; i++) {
        const pp_stream *stream = &w->loop->in[i];
        if (!w->read[i] || stream->kind != PP_STREAM_FULL) continue;
        const LLVMValueRef at = element_at(w, &w->in[i], stream->dtype, c);
        w->param[i].at = part != NULL ? pp_emit_load_part(w->e, (ppto_dtype)stream->dtype, at, part)
                                      : pp_emit_load(w->e, (ppto_dtype)stream->dtype, at);
    }
}

static void store_results(writer *w, LLVMValueRef c, LLVMValueRef part)
{
    for (uint32_t at = 0; at < w->loop->n_code; at++) {
        const pp_instr *instr = &w->loop->code[at];
        if (instr->op != PP_STORE) continue;
        const pp_stream *stream = &w->loop->out[instr->imm];
        const ppto_dtype dtype = (ppto_dtype)stream->dtype;
        const LLVMValueRef to = element_at(w, &w->out[instr->imm], stream->dtype, c);
        LLVMValueRef value = w->value[instr->a].at;
        if (stream->canonical) value = pp_emit_canonical(w->e, dtype, value);
        if (part != NULL)
            pp_emit_store_part(w->e, dtype, to, value, part);
        else
            pp_emit_store(w->e, dtype, to, value, stream->around && w->around);
    }
}

/* ---- folds --------------------------------------------------------------------------------------------- */

static void fold_inputs(const writer *w, const pp_loop_fold *at, LLVMValueRef c, pp_emit_value *in)
{
    for (unsigned i = 0; i < at->fold->n_inputs; i++) in[i] = w->value[at->input[i]];
    if (at->fold->position) in[at->fold->n_inputs].at = pp_emit_positions(w->e, w->param[at->first].at, c);
}

static pp_emit_value *state_of(const writer *w, uint32_t fold, unsigned vector)
{
    return w->state[fold * w->unroll + vector];
}

static void write_folds(writer *w, LLVMValueRef c, LLVMValueRef part, unsigned vector)
{
    for (uint32_t i = 0; i < w->loop->n_folds; i++) {
        pp_emit_value in[5] = {{0}};
        fold_inputs(w, w->folds[i].at, c, in);
        if (part != NULL)
            pp_emit_fold_part(w->e, &w->folds[i], c, in);
        else if (w->registers)
            pp_emit_fold_step(w->e, &w->folds[i], state_of(w, i, vector), in, state_of(w, i, vector));
        else
            pp_emit_fold_vector(w->e, &w->folds[i], c, in);
    }
}

/* All lanes between registers and stack. */
static void move_lanes(writer *w, bool load)
{
    for (uint32_t i = 0; w->registers && i < w->loop->n_folds; i++)
        for (unsigned v = 0; v < w->unroll; v++) {
            const LLVMValueRef lane = count(w, (uint64_t)v * w->e->lanes);
            if (load)
                pp_emit_fold_load(w->e, &w->folds[i], lane, state_of(w, i, v));
            else
                pp_emit_fold_store(w->e, &w->folds[i], lane, state_of(w, i, v));
        }
}

/* The registers come to the head of the loop `from` a block, the first one of which makes their names. */
static void turn_lanes(writer *w, LLVMBasicBlockRef from, bool first)
{
    for (uint32_t i = 0; w->registers && i < w->loop->n_folds; i++)
        for (unsigned v = 0; v < w->unroll; v++)
            for (unsigned s = 0; s < w->loop->folds[i].fold->n_states; s++) {
                pp_emit_value *state = &state_of(w, i, v)[s];
                LLVMValueRef *at = &w->turned[i * w->unroll + v][s].at;
                if (first) *at = LLVMBuildPhi(w->e->build, LLVMTypeOf(state->at), "");
                LLVMAddIncoming(*at, &state->at, &from, 1);
                if (first) *state = (pp_emit_value){.at = *at};
            }
}

static void end_folds(writer *w)
{
    for (uint32_t i = 0; i < w->loop->n_folds; i++) {
        const pp_loop_fold *at = w->folds[i].at;
        LLVMValueRef to[4];
        for (unsigned s = 0; s < at->fold->n_states; s++) to[s] = w->out[at->out[s]].row;
        pp_emit_fold_end(w->e, &w->folds[i], at_most(w, w->cols, count(w, PP_LANES)), to);
    }
}

/* ---- a vector with all of it --------------------------------------------------------------------------- */

/* The elements from c on: a vector, the `vector`-th of those taken together, or as many as `part` says.
 * Everything is read before anything is written. */
static void write_vector(writer *w, LLVMValueRef c, LLVMValueRef part, unsigned vector)
{
    load_params(w, c, part);
    for (uint32_t at = 0; at < w->loop->n_code; at++) {
        if (w->loop->code[at].op == PP_STORE) continue;
        w->value[at] = w->varies[at] ? pp_emit_instr(w->e, &w->pools, at, w->value, w->param) : w->row[at];
    }
    store_results(w, c, part);
    write_folds(w, c, part, vector);
}

/* ---- a row --------------------------------------------------------------------------------------------- */

typedef struct blocks {
    LLVMBasicBlockRef row, fast_head, fast, rest, part, row_end;
} blocks;

static LLVMValueRef row_of(const writer *w, const place *p, LLVMValueRef r)
{
    LLVMValueRef offset = LLVMBuildMul(w->e->build, r, p->pitch, "");
    return LLVMBuildGEP2(w->e->build, pp_emit_int(w->e, 8), p->at, &offset, 1, "");
}

static void start_row(writer *w, LLVMValueRef r)
{
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
}

/* Whether output i is aligned after `skip` elements. */
static LLVMValueRef is_aligned(const writer *w, uint32_t i, LLVMValueRef skip)
{
    const LLVMBuilderRef build = w->e->build;
    const unsigned size = pp_dtype_width((ppto_dtype)w->loop->out[i].dtype) / 8;
    const LLVMValueRef address = LLVMBuildPtrToInt(build, w->out[i].row, word(w), "");
    const LLVMValueRef start =
        LLVMBuildAdd(build, address, LLVMBuildMul(build, skip, count(w, size), ""), "");
    const LLVMValueRef over = LLVMBuildAnd(build, start, count(w, (uint64_t)size * w->e->lanes - 1), "");
    return LLVMBuildICmp(build, LLVMIntEQ, over, count(w, 0), "");
}

/* How many elements reach the alignment of the outputs that go around the caches; sets fast_end. */
static LLVMValueRef write_peel(writer *w)
{
    const LLVMBuilderRef build = w->e->build;
    LLVMValueRef skip = NULL, all = NULL;
    for (uint32_t i = 0; i < w->loop->n_out; i++) {
        if (!w->loop->out[i].around) continue;
        if (skip == NULL) {
            const unsigned size = pp_dtype_width((ppto_dtype)w->loop->out[i].dtype) / 8;
            const LLVMValueRef address = LLVMBuildPtrToInt(build, w->out[i].row, word(w), "");
            const LLVMValueRef bytes = LLVMBuildAnd(build, LLVMBuildNeg(build, address, ""),
                                                    count(w, (uint64_t)size * w->e->lanes - 1), "");
            skip = LLVMBuildUDiv(build, bytes, count(w, size), "");
        }
        const LLVMValueRef aligned = is_aligned(w, i, skip);
        all = all == NULL ? aligned : LLVMBuildAnd(build, all, aligned, "");
    }
    w->fast_end = LLVMBuildSelect(build, all, w->cols, count(w, 0), "");
    return LLVMBuildSelect(build, all, at_most(w, skip, w->cols), count(w, 0), "");
}

static LLVMValueRef is_room(const writer *w, LLVMValueRef c)
{
    const LLVMValueRef after = LLVMBuildAdd(w->e->build, c, count(w, (uint64_t)w->unroll * w->e->lanes), "");
    return LLVMBuildICmp(w->e->build, LLVMIntULE, after, w->fast_end, "");
}

static void incoming(LLVMValueRef phi, LLVMValueRef value, LLVMBasicBlockRef from)
{
    LLVMAddIncoming(phi, &value, &from, 1);
}

static LLVMValueRef phi_at(const writer *w, LLVMBasicBlockRef block)
{
    LLVMPositionBuilderAtEnd(w->e->build, block);
    return LLVMBuildPhi(w->e->build, word(w), "");
}

/* Whole vectors while there is room; gives the column after them to `rest`. */
static void write_fast(writer *w, const blocks *b, LLVMValueRef head, LLVMValueRef rest)
{
    const LLVMBuilderRef build = w->e->build;
    const LLVMBasicBlockRef enter = pp_emit_block(w->e, "enter"), leave = pp_emit_block(w->e, "leave");
    LLVMPositionBuilderAtEnd(build, b->fast_head);
    LLVMBuildCondBr(build, is_room(w, head), enter, b->rest);
    incoming(rest, head, b->fast_head);
    LLVMPositionBuilderAtEnd(build, enter);
    move_lanes(w, true);
    LLVMBuildBr(build, b->fast);
    const LLVMValueRef c = phi_at(w, b->fast);
    incoming(c, head, enter);
    turn_lanes(w, enter, true);
    LLVMValueRef at = c;
    for (unsigned u = 0; u < w->unroll; u++) {
        write_vector(w, at, NULL, u);
        at = LLVMBuildAdd(build, c, count(w, (uint64_t)(u + 1) * w->e->lanes), "");
    }
    const LLVMBasicBlockRef end = LLVMGetInsertBlock(build);
    LLVMBuildCondBr(build, is_room(w, at), b->fast, leave);
    incoming(c, at, end);
    turn_lanes(w, end, false);
    LLVMPositionBuilderAtEnd(build, leave);
    move_lanes(w, false);
    LLVMBuildBr(build, b->rest);
    incoming(rest, at, leave);
}

/* From c up to limit by masks; then the fast part, or the end of the row where the limit is that. */
static void write_part(writer *w, const blocks *b, LLVMValueRef c, LLVMValueRef limit, LLVMValueRef head)
{
    pp_emit *e = w->e;
    LLVMPositionBuilderAtEnd(e->build, b->part);
    const LLVMValueRef left = LLVMBuildSub(e->build, limit, c, ""), lanes = count(w, e->lanes);
    const LLVMValueRef whole = LLVMBuildICmp(e->build, LLVMIntULT, lanes, left, "");
    const LLVMValueRef n = LLVMBuildSelect(e->build, whole, lanes, left, "");
    e->active = pp_emit_first_lanes(e, n);
    write_vector(w, c, n, 0);
    e->active = NULL;
    const LLVMValueRef next = LLVMBuildAdd(e->build, c, n, "");
    const LLVMBasicBlockRef end = LLVMGetInsertBlock(e->build), turn = pp_emit_block(e, "turn");
    LLVMBuildCondBr(e->build, whole, b->part, turn);
    incoming(c, next, end), incoming(limit, limit, end);
    LLVMPositionBuilderAtEnd(e->build, turn);
    LLVMBuildCondBr(e->build, LLVMBuildICmp(e->build, LLVMIntEQ, limit, w->cols, ""), b->row_end,
                    b->fast_head);
    incoming(head, next, turn);
}

static void write_row(writer *w, const blocks *b, LLVMValueRef r)
{
    const LLVMBuilderRef build = w->e->build;
    const LLVMValueRef zero = count(w, 0);
    start_row(w, r);
    w->fast_end = w->cols;
    const LLVMValueRef peel = w->loop->n_folds > 0 ? at_most(w, w->cols, count(w, PP_LANES))
                              : w->around          ? write_peel(w)
                                                   : zero;
    const LLVMBasicBlockRef start = LLVMGetInsertBlock(build);
    const LLVMValueRef head = phi_at(w, b->fast_head), rest = phi_at(w, b->rest), c = phi_at(w, b->part),
                       limit = phi_at(w, b->part);
    LLVMPositionBuilderAtEnd(build, start);
    LLVMBuildCondBr(build, LLVMBuildICmp(build, LLVMIntEQ, peel, zero, ""), b->fast_head, b->part);
    incoming(head, zero, start), incoming(c, zero, start), incoming(limit, peel, start);
    write_fast(w, b, head, rest);
    LLVMPositionBuilderAtEnd(build, b->rest);
    LLVMBuildCondBr(build, LLVMBuildICmp(build, LLVMIntULT, rest, w->cols, ""), b->part, b->row_end);
    incoming(c, rest, b->rest), incoming(limit, w->cols, b->rest);
    write_part(w, b, c, limit, head);
}

/* ---- the function -------------------------------------------------------------------------------------- */

static void read_places(writer *w, place *places, uint32_t n, LLVMValueRef from)
{
    pp_emit *e = w->e;
    const LLVMTypeRef pointer = LLVMPointerTypeInContext(e->context, 0);
    for (uint32_t i = 0; i < n; i++) {
        LLVMValueRef first = count(w, 2u * i), second = count(w, 2u * i + 1);
        const LLVMValueRef at = LLVMBuildGEP2(e->build, word(w), from, &first, 1, "");
        const LLVMValueRef pitch = LLVMBuildGEP2(e->build, word(w), from, &second, 1, "");
        places[i].at = LLVMBuildLoad2(e->build, pointer, at, "");
        places[i].pitch = LLVMBuildLoad2(e->build, word(w), pitch, "");
    }
}

static void start_function(writer *w)
{
    pp_emit *e = w->e;
    const LLVMTypeRef pointer = LLVMPointerTypeInContext(e->context, 0);
    LLVMTypeRef param[4] = {word(w), word(w), pointer, pointer};
    const LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), param, 4, false);
    e->function = LLVMAddFunction(e->module, PP_EMIT_NAME, type);
    pp_emit_attributes(e, e->function);
    LLVMPositionBuilderAtEnd(e->build, pp_emit_block(e, "entry"));
    if (!e->target->masks_of_bytes)
        e->aside =
            LLVMBuildAlloca(e->build, pp_emit_vector(e, pp_emit_int(e, 8 * e->target->bytes / e->lanes)), "");
    w->rows = LLVMGetParam(e->function, 0), w->cols = LLVMGetParam(e->function, 1);
    for (uint32_t i = 0; i < w->loop->n_folds; i++) pp_emit_fold_start(e, &w->loop->folds[i], &w->folds[i]);
    read_places(w, w->in, w->loop->n_in, LLVMGetParam(e->function, 2));
    read_places(w, w->out, w->loop->n_out, LLVMGetParam(e->function, 3));
}

static void write_function(writer *w)
{
    pp_emit *e = w->e;
    start_function(w);
    const LLVMBasicBlockRef entry = LLVMGetInsertBlock(e->build);
    const blocks b = {.row = pp_emit_block(e, "row"),
                      .fast_head = pp_emit_block(e, "fast_head"),
                      .fast = pp_emit_block(e, "fast"),
                      .rest = pp_emit_block(e, "rest"),
                      .part = pp_emit_block(e, "part"),
                      .row_end = pp_emit_block(e, "row_end")};
    const LLVMBasicBlockRef end = pp_emit_block(e, "end");
    LLVMBuildBr(e->build, b.row);
    const LLVMValueRef r = phi_at(w, b.row);
    incoming(r, count(w, 0), entry);
    write_row(w, &b, r);
    LLVMPositionBuilderAtEnd(e->build, b.row_end);
    end_folds(w);
    const LLVMBasicBlockRef last = LLVMGetInsertBlock(e->build);
    const LLVMValueRef next = LLVMBuildAdd(e->build, r, count(w, 1), "");
    LLVMBuildCondBr(e->build, LLVMBuildICmp(e->build, LLVMIntULT, next, w->rows, ""), b.row, end);
    incoming(r, next, last);
    LLVMPositionBuilderAtEnd(e->build, end);
    LLVMBuildRetVoid(e->build);
}

static bool find_room(writer *w, pp_arena *arena)
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

void pp_emit_loop(pp_emit *e)
{
    writer w = {.e = e, .loop = e->loop, .pools = pp_loop_pools(e->loop)};
    pp_emit_weight sum;
    pp_arena arena = {0};
    pp_emit_weigh(e->loop, &sum);
    e->lanes = e->target->bytes / sum.widest;
    choose_unroll(&w, &sum);
    for (uint32_t i = 0; i < e->loop->n_out && e->loop->n_folds == 0; i++)
        w.around = w.around || e->loop->out[i].around;
    if (find_room(&w, &arena)) {
        find_varying(&w);
        write_function(&w);
    } else {
        pp_emit_fail(e, PPTO_E_NOMEM, "no memory");
    }
    pp_arena_free(&arena);
}
