/* SPDX-License-Identifier: Apache-2.0
 * For tests: kernel programs written by hand, one of every frame. */
#ifndef PP_KERNEL_HAND_H
#define PP_KERNEL_HAND_H

#include "kernel_build.h"

/* ---- a program by hand --------------------------------------------------------------------------------- */

/* Slots from 3 on are given by the tests; all programs have room for a few of everything. */
typedef struct hand {
    pp_program p;
    pp_axis axes[4];
    pp_tensor_slot tensors[4];
    pp_term terms[16];
    pp_affine affines[16];
    pp_guard guards[4];
    pp_access accesses[8];
    pp_instr code[32];
    uint32_t operands[8];
    uint64_t consts[8];
    pp_table tables[2];
    const pp_function *callees[2];
    pp_fold folds[4];
    pp_buffer buffers[2];
    pp_check checks[2];
    pp_stage stages[4];
} hand;

static inline void start(hand *h, pp_frame frame, uint32_t n_slots)
{
    memset(h, 0, sizeof *h);
    h->p = (pp_program){.frame = frame,
                        .n_slots = n_slots,
                        .axes = h->axes,
                        .tensors = h->tensors,
                        .terms = h->terms,
                        .affines = h->affines,
                        .guards = h->guards,
                        .accesses = h->accesses,
                        .code = h->code,
                        .operands = h->operands,
                        .consts = h->consts,
                        .tables = h->tables,
                        .callees = h->callees,
                        .folds = h->folds,
                        .buffers = h->buffers,
                        .checks = h->checks,
                        .stages = h->stages};
}

static inline void axis(hand *h, pp_axis_role role, pp_slot size)
{
    h->axes[h->p.n_axes++] = (pp_axis){size, (uint8_t)role};
}

static inline uint32_t tensor(hand *h, ppto_dtype dtype, uint8_t rank, bool result)
{
    h->tensors[h->p.n_tensors] = (pp_tensor_slot){(uint8_t)dtype, rank, result, result};
    return h->p.n_tensors++;
}

/* base + the axes of the mask, each with coefficient 1. */
static inline uint32_t affine(hand *h, pp_slot base, uint32_t mask)
{
    h->affines[h->p.n_affines] = (pp_affine){.base = base, .first_term = h->p.n_terms, .value = PP_NONE};
    for (uint8_t i = 0; i < 4; i++)
        if (mask >> i & 1) {
            h->terms[h->p.n_terms++] = (pp_term){i, PP_SLOT_1};
            h->affines[h->p.n_affines].n_terms++;
        }
    return h->p.n_affines++;
}

/* A rank-1 or rank-2 access: one affine per mask. */
static inline uint32_t place(hand *h, uint32_t t, uint32_t first, uint32_t second)
{
    h->accesses[h->p.n_accesses] = (pp_access){.tensor = t, .first_affine = h->p.n_affines};
    if (h->tensors[t].rank > 0) affine(h, PP_SLOT_0, first);
    if (h->tensors[t].rank > 1) affine(h, PP_SLOT_0, second);
    return h->p.n_accesses++;
}

static inline uint32_t instr(hand *h, pp_op op, ppto_dtype dtype, uint32_t a, uint32_t b, uint32_t imm)
{
    h->code[h->p.n_code] = (pp_instr){.op = (uint8_t)op, .dtype = (uint8_t)dtype, .a = a, .b = b, .imm = imm};
    return h->p.n_code++;
}

/* Everything added since the last stage. */
static inline void stage(hand *h, bool inner)
{
    pp_stage *s = &h->stages[h->p.n_stages];
    *s = (pp_stage){.inner = inner};
    if (h->p.n_stages > 0)
        s->first = s[-1].first + s[-1].count, s->first_fold = s[-1].first_fold + s[-1].n_folds;
    if (h->p.frame == PP_FRAME_CONTRACT && h->p.n_stages == 0)
        s->first = h->p.contract.b_first + h->p.contract.b_count;
    s->count = h->p.n_code - s->first;
    s->n_folds = h->p.n_folds - s->first_fold;
    h->p.n_stages++;
}

static PP_UNUSED builder ident, add, finish;

static inline void functions(void)
{
    build_identity(&ident, "ident_f32", PPTO_F32);
    build_binary(&add, "add_f32", PP_ADD, PPTO_F32);
    build_start(&finish, "plus_zero");
    uint32_t x = build_param(&finish, PPTO_F32), zero = build_f32(&finish, 0.0f);
    build_result(&finish, build_op(&finish, PP_ADD, PPTO_F32, x, zero, 0));
}

static inline uint32_t sum_fold(hand *h, uint32_t input, pp_law law)
{
    h->folds[h->p.n_folds] = (pp_fold){.n_states = 1,
                                       .n_inputs = 1,
                                       .state = {PPTO_F32},
                                       .law = (uint8_t)law,
                                       .input = {input},
                                       .lift = &ident.f,
                                       .join = &add.f};
    if (law == PP_LAW_FOLD) h->folds[h->p.n_folds].finish = &finish.f;
    return h->p.n_folds++;
}

/* y[i] = relu-like map with a guard, a check, an arg, a table and a call. */
static inline void build_map(hand *h)
{
    start(h, PP_FRAME_MAP, 6);
    axis(h, PP_AXIS_OUTER, 3);
    uint32_t x = tensor(h, PPTO_F32, 1, false), y = tensor(h, PPTO_F32, 1, true);
    h->p.n_args = 1, h->p.n_tables = 1, h->p.n_callees = 1, h->p.n_consts = 1, h->p.n_checks = 1,
    h->p.n_guards = 1;
    static const uint64_t table[4] = {1, 2, 3, 4};
    h->tables[0] = (pp_table){PPTO_U8, 4, table};
    h->callees[0] = &add.f;
    h->consts[0] = 0x40400000;
    uint32_t shifted = affine(h, 4, 1), position = affine(h, PP_SLOT_0, 1);
    h->guards[0] = (pp_guard){shifted, PP_SLOT_0, 3};
    h->accesses[0] = (pp_access){.tensor = x, .first_affine = shifted, .n_guards = 1, .fill = 0xbf800000};
    h->accesses[1] = (pp_access){.tensor = y, .first_affine = position};
    h->p.n_accesses = 2;
    h->checks[0] = (pp_check){"not {value}", position};
    uint32_t v = instr(h, PP_LOAD, PPTO_F32, 0, 0, 0), a = instr(h, PP_ARG, PPTO_F32, 0, 0, 0);
    uint32_t c = instr(h, PP_CONST, PPTO_F32, 0, 0, 0);
    uint32_t ok = instr(h, PP_LT, PPTO_BOOL, v, c, 0);
    instr(h, PP_CHECK, PPTO_F32, ok, v, 0);
    h->operands[0] = v, h->operands[1] = a, h->p.n_operands = 2;
    uint32_t s = instr(h, PP_CALL, PPTO_F32, 0, 2, 0), i = instr(h, PP_INDEX, PPTO_I64, 0, 0, position);
    uint32_t t = instr(h, PP_TABLE, PPTO_U8, i, 0, 0), f = instr(h, PP_CAST, PPTO_F32, t, 0, 0);
    uint32_t r = instr(h, PP_MUL, PPTO_F32, s, f, 0);
    uint32_t in = instr(h, PP_INSIDE, PPTO_BOOL, 1, 0, 0);
    uint32_t z = instr(h, PP_SELECT, PPTO_F32, in, r, 0);
    h->code[z].c = c;
    instr(h, PP_STORE, PPTO_F32, z, 0, 1);
    stage(h, false);
}

/* y[i] = sum over j of x[i, j]; frame LANES or ROWS. */
static inline void build_sum(hand *h, pp_frame frame)
{
    start(h, frame, 5);
    axis(h, PP_AXIS_OUTER, 3), axis(h, PP_AXIS_INNER, 4);
    uint32_t x = tensor(h, PPTO_F32, 2, false), y = tensor(h, PPTO_F32, 1, true);
    uint32_t ax = place(h, x, 1, 2), ay = place(h, y, 1, 0);
    uint32_t v = instr(h, PP_LOAD, PPTO_F32, 0, 0, ax);
    sum_fold(h, v, PP_LAW_FOLD);
    stage(h, true);
    uint32_t s = instr(h, PP_STATE, PPTO_F32, 0, 0, 0);
    instr(h, PP_STORE, PPTO_F32, s, 0, ay);
    stage(h, false);
}

/* y[i, j] = running sum of x[i, :], and w[i] = its last value minus nothing. */
static inline void build_scan(hand *h, pp_frame frame)
{
    start(h, frame, 5);
    axis(h, PP_AXIS_OUTER, 3), axis(h, PP_AXIS_INNER, 4);
    uint32_t x = tensor(h, PPTO_F32, 2, false), y = tensor(h, PPTO_F32, 2, true),
             w = tensor(h, PPTO_F32, 1, true);
    uint32_t ax = place(h, x, 1, 2), ay = place(h, y, 1, 2), aw = place(h, w, 1, 0);
    uint32_t v = instr(h, PP_LOAD, PPTO_F32, 0, 0, ax);
    uint32_t f = sum_fold(h, v, PP_LAW_SCAN);
    uint32_t run = instr(h, PP_SCANNED, PPTO_F32, 0, 0, f);
    instr(h, PP_STORE, PPTO_F32, run, 0, ay);
    stage(h, true);
    uint32_t last = instr(h, PP_STATE, PPTO_F32, 0, 0, f);
    instr(h, PP_STORE, PPTO_F32, last, 0, aw);
    stage(h, false);
}

/* y[i, j] = x[i, j] * 3 - sum of the x[i, :] * 3, with the product kept in a buffer. */
static inline void build_buffer(hand *h)
{
    start(h, PP_FRAME_LANES, 5);
    axis(h, PP_AXIS_OUTER, 3), axis(h, PP_AXIS_INNER, 4);
    h->p.n_buffers = 1, h->buffers[0].dtype = PPTO_F32;
    h->p.n_consts = 1, h->consts[0] = 0x40400000;
    uint32_t x = tensor(h, PPTO_F32, 2, false), y = tensor(h, PPTO_F32, 2, true);
    uint32_t ax = place(h, x, 1, 2), ay = place(h, y, 1, 2);
    uint32_t v = instr(h, PP_LOAD, PPTO_F32, 0, 0, ax), c = instr(h, PP_CONST, PPTO_F32, 0, 0, 0);
    uint32_t m = instr(h, PP_MUL, PPTO_F32, v, c, 0);
    instr(h, PP_KEEP, PPTO_F32, m, 0, 0);
    uint32_t f = sum_fold(h, m, PP_LAW_FOLD);
    stage(h, true);
    uint32_t b = instr(h, PP_BUFFER, PPTO_F32, 0, 0, 0), s = instr(h, PP_STATE, PPTO_F32, 0, 0, f);
    uint32_t d = instr(h, PP_SUB, PPTO_F32, b, s, 0);
    instr(h, PP_STORE, PPTO_F32, d, 0, ay);
    stage(h, true);
}

/* y[i, j] = sum over k of a[i, k] * b[k, j]. */
static inline void build_contract(hand *h)
{
    start(h, PP_FRAME_CONTRACT, 6);
    axis(h, PP_AXIS_M, 3), axis(h, PP_AXIS_N, 4), axis(h, PP_AXIS_K, 5);
    uint32_t a = tensor(h, PPTO_F32, 2, false), b = tensor(h, PPTO_F32, 2, false),
             y = tensor(h, PPTO_F32, 2, true);
    uint32_t aa = place(h, a, 1, 4), ab = place(h, b, 4, 2), ay = place(h, y, 1, 2);
    uint32_t v = instr(h, PP_LOAD, PPTO_F32, 0, 0, aa), w = instr(h, PP_LOAD, PPTO_F32, 0, 0, ab);
    h->p.contract = (pp_contract){PPTO_F32, 0, 1, v, 1, 1, w};
    uint32_t c = instr(h, PP_PRODUCT, PPTO_F32, 0, 0, 0);
    instr(h, PP_STORE, PPTO_F32, c, 0, ay);
    stage(h, false);
}

#endif
