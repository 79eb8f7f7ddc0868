/* SPDX-License-Identifier: Apache-2.0
 * Random loops: values of every dtype, rows that take what there is, constants, look-ups, calls, cold
 * regions, folds. */
#include "loop_fuzz.h"

#include <string.h>

#include "base/base.h"

uint64_t lf_next(lf_random *random)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint32_t lf_below(lf_random *random, uint32_t n)
{
    return (uint32_t)(lf_next(random) % n);
}

static uint64_t cut(ppto_dtype dtype, uint64_t bits)
{
    const unsigned width = pp_dtype_width(dtype);
    if (dtype == PPTO_BOOL) return bits & 1;
    return width == 64 ? bits : bits & ((UINT64_C(1) << width) - 1);
}

static uint64_t special(lf_random *random, ppto_dtype dtype)
{
    const uint64_t sign = UINT64_C(1) << (pp_dtype_width(dtype) - 1), nan = pp_dtype_canonical_nan(dtype);
    switch (lf_below(random, 8)) {
    case 0: return 0;
    case 1: return sign;
    case 2: return nan != 0 ? nan : sign - 1;
    case 3: return nan != 0 ? (nan | sign | 3) : ~UINT64_C(0);
    case 4: return nan != 0 ? (nan & (nan << 1)) : 1; /* infinite */
    case 5: return nan != 0 ? (nan & (nan << 1)) | sign : 2;
    case 6: return nan != 0 ? 1 : pp_dtype_width(dtype);
    default: return nan != 0 ? (nan & (nan << 1)) - 1 : pp_dtype_width(dtype) - 1;
    }
}

uint64_t lf_element(lf_random *random, ppto_dtype dtype)
{
    const uint32_t kind = lf_below(random, 16);
    if (kind < 2) return cut(dtype, special(random, dtype));
    if (kind < 5) return cut(dtype, lf_next(random));
    if (kind < 9) /* near the bounds of some integer */
        return pp_scalar_eval(PP_CAST, PPTO_I64, dtype,
                              (UINT64_C(1) << lf_below(random, 64)) + lf_below(random, 5) - 2, 0, 0);
    const uint64_t small = lf_below(random, 200) - UINT64_C(100);
    if (!pp_dtype_is_float(dtype)) return pp_scalar_eval(PP_CAST, PPTO_I64, dtype, small, 0, 0);
    const uint64_t whole = pp_scalar_eval(PP_CAST, PPTO_I64, dtype, small, 0, 0);
    const uint64_t by = pp_scalar_eval(PP_CAST, PPTO_I64, dtype, 1 + lf_below(random, 40), 0, 0);
    return pp_scalar_eval(PP_DIV, dtype, dtype, whole, by, 0);
}

/* ---- code ---------------------------------------------------------------------------------------------- */

static uint32_t push(lf_loop *l, pp_op op, ppto_dtype dtype, uint32_t a, uint32_t b, uint32_t c, uint32_t imm)
{
    l->code[l->loop.n_code] =
        (pp_instr){.op = (uint8_t)op, .dtype = (uint8_t)dtype, .a = a, .b = b, .c = c, .imm = imm};
    return l->loop.n_code++;
}

static ppto_dtype dtype_of(const lf_loop *l, uint32_t at)
{
    return (ppto_dtype)l->code[at].dtype;
}

/* A value of the dtype, made by a cast or a constant when there is none. */
static uint32_t value_of(lf_random *random, lf_loop *l, ppto_dtype dtype)
{
    const uint32_t n = l->loop.n_code, start = n > 0 ? lf_below(random, n) : 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t at = (start + i) % n;
        if (dtype_of(l, at) == dtype) return at;
    }
    if (n > 0 && lf_below(random, 4) > 0) return push(l, PP_CAST, dtype, start, 0, 0, 0);
    l->consts[l->loop.n_consts] = lf_element(random, dtype);
    return push(l, PP_CONST, dtype, 0, 0, 0, l->loop.n_consts++);
}

static ppto_dtype some_dtype(lf_random *random, const lf_loop *l)
{
    ppto_dtype dtype = PPTO_BOOL;
    do dtype = (ppto_dtype)lf_below(random, PP_DTYPE_COUNT);
    while (pp_dtype_width(dtype) > l->widest);
    return dtype;
}

static void add_row(lf_random *random, lf_loop *l)
{
    const pp_op op = (pp_op)lf_below(random, PP_SCALAR_COUNT);
    const uint32_t first = lf_below(random, l->loop.n_code);
    ppto_dtype dtype = dtype_of(l, first);
    uint32_t a = first;
    if (op == PP_SELECT) {
        const uint32_t condition = value_of(random, l, PPTO_BOOL), other = value_of(random, l, dtype);
        push(l, op, dtype, condition, first, other, 0);
        return;
    }
    if (l->widest < 64 && !pp_scalar_accepts(op, dtype)) return;
    while (!pp_scalar_accepts(op, dtype)) dtype = some_dtype(random, l);
    if (dtype != dtype_of(l, first)) a = value_of(random, l, dtype);
    if (op == PP_CAST || op == PP_BITCAST) {
        ppto_dtype to = some_dtype(random, l);
        while (!pp_scalar_converts(op, dtype, to) && !(op == PP_BITCAST && dtype == PPTO_BOOL))
            to = some_dtype(random, l);
        if (pp_scalar_converts(op, dtype, to)) push(l, op, to, a, 0, 0, 0);
        return;
    }
    const uint32_t b = value_of(random, l, dtype), c = value_of(random, l, dtype);
    push(l, op, pp_scalar_result(op, dtype), a, b, c, 0);
}

static void add_table(lf_random *random, lf_loop *l)
{
    if (l->loop.n_tables == LF_MAX_TABLES) return;
    const uint32_t at = l->loop.n_tables++;
    pp_table *table = &l->tables[at];
    *table =
        (pp_table){(uint8_t)some_dtype(random, l), UINT32_C(1) << lf_below(random, 7), l->table_bits[at]};
    for (uint32_t i = 0; i < table->length; i++)
        l->table_bits[at][i] = lf_element(random, (ppto_dtype)table->dtype);
    ppto_dtype from = some_dtype(random, l);
    while (!pp_dtype_is_integer(from)) from = some_dtype(random, l);
    push(l, PP_TABLE, (ppto_dtype)table->dtype, value_of(random, l, from), 0, 0, at);
}

static void add_call(lf_random *random, lf_loop *l, const pp_function *f)
{
    uint32_t operand[sizeof f->param];
    const ppto_dtype dtype = (ppto_dtype)f->code[f->result[0]].dtype;
    if (f->n_results != 1) return;
    for (unsigned i = 0; i < f->n_params; i++) operand[i] = value_of(random, l, (ppto_dtype)f->param[i]);
    const uint32_t first = l->loop.n_operands, callee = l->loop.n_callees;
    memcpy(l->operands + first, operand, f->n_params * sizeof *operand);
    l->loop.n_operands += f->n_params;
    l->callees[l->loop.n_callees++] = f;
    if (lf_below(random, 3) > 0) {
        push(l, PP_CALL, dtype, first, f->n_params, 0, callee);
        return;
    }
    const uint32_t mask = value_of(random, l, PPTO_BOOL), hot = value_of(random, l, dtype);
    push(l, PP_COLD, dtype, mask, hot, first, callee);
}

/* ---- loops --------------------------------------------------------------------------------------------- */

static void add_inputs(lf_random *random, lf_loop *l)
{
    const ppto_dtype usual = some_dtype(random, l);
    l->loop.n_in = 1 + lf_below(random, 4);
    for (uint32_t i = 0; i < l->loop.n_in; i++) {
        const ppto_dtype dtype = lf_below(random, 2) ? usual : some_dtype(random, l);
        l->in[i] = (pp_stream){.dtype = (uint8_t)dtype,
                               .kind = lf_below(random, 4) ? PP_STREAM_FULL : PP_STREAM_ROW};
        if (lf_below(random, 8)) push(l, PP_PARAM, dtype, 0, 0, 0, i);
    }
}

static uint32_t add_stream(pp_stream *streams, uint32_t *n, pp_stream stream)
{
    streams[*n] = stream;
    return (*n)++;
}

/* What a scan goes on from, and its states: all are values of the loop. */
static void add_scanned(lf_loop *l, uint32_t at)
{
    pp_loop_fold *f = &l->folds[at];
    const pp_fold *fold = f->fold;
    f->first = add_stream(l->in, &l->loop.n_in, (pp_stream){.dtype = PPTO_I64, .kind = PP_STREAM_ROW});
    for (unsigned s = 0; s < fold->n_states; s++)
        f->carry[s] =
            add_stream(l->in, &l->loop.n_in, (pp_stream){.dtype = fold->state[s], .kind = PP_STREAM_ROW});
    for (unsigned s = 0; s < fold->n_states; s++)
        push(l, PP_SCANNED, (ppto_dtype)fold->state[s], s, 0, 0, at);
}

static void add_fold(lf_random *random, lf_loop *l, const pp_fold *fold)
{
    pp_loop_fold *f = &l->folds[l->loop.n_folds];
    if (l->loop.n_folds > 0 && fold->law != l->folds[0].fold->law) return;
    if (fold->law == PP_LAW_SCAN && fold->joined) return;
    l->loop.n_folds++;
    *f = (pp_loop_fold){.fold = fold, .first = PP_NONE, .columns = l->columns};
    for (unsigned i = 0; i < fold->n_inputs; i++)
        f->input[i] = value_of(random, l, (ppto_dtype)(fold->joined ? fold->state[i] : fold->lift->param[i]));
    for (unsigned s = 0; s < fold->n_states; s++)
        f->out[s] = add_stream(l->out, &l->loop.n_out,
                               (pp_stream){.dtype = fold->state[s],
                                           .kind = l->columns ? PP_STREAM_COLUMN : PP_STREAM_ROW,
                                           .canonical = !l->columns && lf_below(random, 2) != 0});
    if (l->columns)
        f->fresh = add_stream(l->in, &l->loop.n_in, (pp_stream){.dtype = PPTO_BOOL, .kind = PP_STREAM_ROW});
    if (fold->law == PP_LAW_SCAN)
        add_scanned(l, l->loop.n_folds - 1);
    else if (fold->position)
        f->first = add_stream(l->in, &l->loop.n_in, (pp_stream){.dtype = PPTO_I64, .kind = PP_STREAM_ROW});
}

static void add_outputs(lf_random *random, lf_loop *l)
{
    const uint32_t values = l->loop.n_code, most = l->loop.n_folds > 0 ? 2 : 3;
    const uint32_t first = l->loop.n_out;
    l->loop.n_out += (l->loop.n_folds > 0 ? 0 : 1) + lf_below(random, most);
    for (uint32_t i = first; i < l->loop.n_out; i++) {
        const uint32_t value = i == first ? values - 1 : lf_below(random, values);
        l->out[i] = (pp_stream){.dtype = l->code[value].dtype,
                                .canonical = lf_below(random, 2) != 0,
                                .around = lf_below(random, 4) == 0};
        push(l, PP_STORE, dtype_of(l, value), value, 0, 0, i);
    }
}

void lf_make(lf_random *random, const lf_library *library, lf_loop *l)
{
    memset(l, 0, sizeof *l);
    l->widest = 64 >> (lf_below(random, 2) ? lf_below(random, 4) : 0);
    l->loop = (pp_loop){.in = l->in,
                        .out = l->out,
                        .code = l->code,
                        .operands = l->operands,
                        .consts = l->consts,
                        .tables = l->tables,
                        .callees = l->callees,
                        .folds = l->folds};
    add_inputs(random, l);
    value_of(random, l, some_dtype(random, l));
    for (uint32_t left = 1 + lf_below(random, 16); left > 0 && l->loop.n_code < LF_MAX_CODE - 32; left--) {
        const uint32_t kind = lf_below(random, 16);
        if (kind == 0)
            add_table(random, l);
        else if (kind == 1 && library->n_functions > 0 && l->widest == 64)
            add_call(random, l, library->functions[lf_below(random, (uint32_t)library->n_functions)]);
        else
            add_row(random, l);
    }
    const uint32_t folds =
        lf_below(random, 3) == 0 && library->n_folds > 0 ? 1 + lf_below(random, LF_MAX_FOLDS) : 0;
    l->law = lf_below(random, 3) == 0 ? PP_LAW_SCAN : PP_LAW_FOLD;
    l->columns = l->law == PP_LAW_FOLD && lf_below(random, 2);
    for (uint32_t i = 0; i < folds; i++) {
        l->own[i] = library->folds[lf_below(random, (uint32_t)library->n_folds)];
        l->own[i].law = l->law;
        add_fold(random, l, &l->own[i]);
    }
    l->widest = l->law == PP_LAW_SCAN ? 64 : l->widest; /* states are what they are */
    for (uint32_t left = lf_below(random, 4); l->law == PP_LAW_SCAN && left > 0; left--) add_row(random, l);
    add_outputs(random, l);
    l->loop.hash = pp_loop_hash(&l->loop);
}
