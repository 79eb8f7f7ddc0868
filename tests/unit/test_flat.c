/* SPDX-License-Identifier: Apache-2.0
 * Flat graphs: types of constructors, identities that are folded, the law of reductions, verification. */
#include <criterion/criterion.h>
#include <string.h>

#include "graph/flat.h"

static pp_types *types;
static pp_flat flat;

static void set_up(void)
{
    cr_assert_eq(pp_types_create(&types), PPTO_OK);
    pp_flat_init(&flat, types);
}

static void tear_down(void)
{
    pp_flat_free(&flat);
    pp_types_destroy(types);
}

TestSuite(flat, .init = set_up, .fini = tear_down);

static uint32_t input(ppto_dtype dtype, const char *dims)
{
    pp_type type = {.dtype = (uint8_t)dtype};
    pp_prim p = {.kind = PP_P_INPUT, .number = (uint32_t)flat.prims.n, .origin = PP_NONE};
    uint32_t id = PP_NONE;
    cr_assert_eq(pp_type_parse_dims(types, dims, &type, NULL), PPTO_OK);
    cr_assert_eq(pp_type_intern(types, &type, &p.type), PPTO_OK);
    cr_assert_eq(pp_flat_add(&flat, &p, NULL, 0, &id), PPTO_OK);
    return id;
}

static void expect_type(uint32_t id, const char *want)
{
    pp_text text = {0};
    pp_type_print(types, pp_flat_type(&flat, id), &text);
    cr_expect_str_eq(text.at, want);
    pp_text_free(&text);
}

static pp_size number(int64_t value)
{
    return pp_size_const(pp_types_sizes(types), value);
}

static const pp_instr param = {.op = PP_PARAM, .dtype = PPTO_F32};
static const pp_function same = {
    .name = "same", .n_params = 1, .n_results = 1, .param = {PPTO_F32}, .code = &param, .n_code = 1};
static const pp_monoid whole = {.name = "whole",
                                .n_states = 1,
                                .n_inputs = 1,
                                .n_results = 1,
                                .state = {PPTO_F32},
                                .result = {PPTO_F32},
                                .lift = &same,
                                .join = &same,
                                .has_unit = true,
                                .unit = {7}};
static const pp_monoid joined = {.name = "joined",
                                 .n_states = 1,
                                 .n_inputs = 1,
                                 .n_results = 1,
                                 .state = {PPTO_F32},
                                 .result = {PPTO_F32},
                                 .join = &same,
                                 .joined = true,
                                 .has_unit = true,
                                 .unit = {7}};
static const pp_monoid open_fold = {.name = "open",
                                    .n_states = 1,
                                    .n_inputs = 1,
                                    .n_results = 1,
                                    .state = {PPTO_F32},
                                    .result = {PPTO_F32},
                                    .lift = &same,
                                    .join = &same};

static const pp_prim *reduced(uint32_t x, uint32_t axes, uint32_t *part)
{
    cr_assert_eq(pp_flat_reduce(&flat, &whole, &joined, &open_fold, axes, &x, 1, part), PPTO_OK);
    const pp_prim *p = pp_flat_prim(&flat, *part);
    if (p->kind == PP_P_MAP && p->op == PP_SELECT) { /* the unit where a named axis is empty */
        *part = pp_flat_operands(&flat, *part)[2];
        p = pp_flat_prim(&flat, *part);
    }
    return p->kind == PP_P_PART ? pp_flat_prim(&flat, pp_flat_operands(&flat, *part)[0]) : p;
}

Test(flat, identities_add_nothing)
{
    uint32_t x = input(PPTO_F32, "N, 4"), id;
    const uint8_t same_order[] = {0, 1};
    pp_type type = *pp_flat_type(&flat, x);
    cr_expect_eq(pp_flat_permute(&flat, x, same_order, &id), PPTO_OK);
    cr_expect_eq(id, x);
    cr_expect_eq(pp_flat_reshape(&flat, x, 2, type.dim, &id), PPTO_OK);
    cr_expect_eq(id, x);
    cr_expect_eq(pp_flat_broadcast(&flat, x, 2, type.dim, &id), PPTO_OK);
    cr_expect_eq(id, x);
    cr_expect_eq(pp_flat_slice(&flat, x, 1, PP_SIZE_0, type.dim[1], 1, &id), PPTO_OK);
    cr_expect_eq(id, x);
    cr_expect_eq(flat.prims.n, 1);
}

Test(flat, views_and_maps_have_types)
{
    uint32_t x = input(PPTO_F32, "N, 4"), y = input(PPTO_F32, "4"), id, pair[2];
    const uint8_t swap[] = {1, 0};
    pp_type type = *pp_flat_type(&flat, x);
    cr_expect_eq(pp_flat_permute(&flat, x, swap, &id), PPTO_OK);
    expect_type(id, "f32[4, N]");
    cr_expect_eq(pp_flat_broadcast(&flat, y, 2, type.dim, &id), PPTO_OK);
    expect_type(id, "f32[N, 4]");
    pair[0] = x;
    pair[1] = id;
    cr_expect_eq(pp_flat_map(&flat, PP_LT, PPTO_BOOL, pair, 2, &id), PPTO_OK);
    expect_type(id, "bool[N, 4]");
    pair[1] = y;
    cr_expect_eq(pp_flat_map(&flat, PP_ADD, PPTO_F32, pair, 2, &id), PPTO_E_INTERNAL, "another shape");
    pp_size flat_dims[1] = {pp_type_elements(types, &type)};
    cr_expect_eq(pp_flat_reshape(&flat, x, 1, flat_dims, &id), PPTO_OK);
    expect_type(id, "f32[N*4]");
    flat_dims[0] = number(3);
    cr_expect_eq(pp_flat_reshape(&flat, x, 1, flat_dims, &id), PPTO_E_INTERNAL);
    cr_expect_eq(pp_flat_slice(&flat, y, 0, number(3), number(2), -2, &id), PPTO_OK);
    expect_type(id, "f32[2]");
}

Test(flat, reductions_follow_the_law)
{
    uint32_t x = input(PPTO_F32, "A, B, C"), part;
    const pp_prim *p = reduced(x, 4, &part);
    cr_expect(p->kind == PP_P_REDUCE && !p->rows && p->u.fold.axes == 4 && p->u.fold.monoid == &whole,
              "last: lanes");
    expect_type(part, "f32[A, B]");
    p = reduced(x, 6, &part);
    cr_expect(!p->rows && p->u.fold.axes == 6, "the last two: lanes");
    p = reduced(x, 0, &part);
    cr_expect(!p->rows && p->u.fold.axes == 0, "none: lanes of one element");
    expect_type(part, "f32[A, B, C]");
    p = reduced(x, 3, &part);
    cr_expect(p->rows && p->u.fold.axes == 3 && p->u.fold.monoid == &whole, "not the last: rows");
    p = reduced(x, 5, &part);
    cr_expect(p->rows && p->u.fold.axes == 1 && p->u.fold.monoid == &joined, "rows of lane results");
    expect_type(part, "f32[B]");
    uint32_t states = flat.operands.at[p->first_operand];
    p = pp_flat_prim(&flat, pp_flat_operands(&flat, states)[0]);
    cr_expect(!p->rows && p->u.fold.axes == 4 && p->u.fold.monoid == &open_fold);
}

Test(flat, an_empty_axis_gives_the_unit)
{
    uint32_t x = input(PPTO_F32, "3, 0"), part;
    const pp_prim *p = reduced(x, 2, &part);
    cr_expect_eq(p->kind, PP_P_BROADCAST);
    expect_type(part, "f32[3]");
    cr_expect_eq(pp_flat_prim(&flat, pp_flat_operands(&flat, part)[0])->u.bits, 7);
    p = reduced(x, 1, &part);
    cr_expect_eq(p->kind, PP_P_REDUCE, "an empty axis that stays is no matter");
    x = input(PPTO_F32, "3, N");
    p = reduced(x, 2, &part);
    cr_expect_eq(p->kind, PP_P_REDUCE);
    p = pp_flat_prim(&flat, (uint32_t)flat.prims.n - 1);
    cr_expect(p->kind == PP_P_MAP && p->op == PP_SELECT, "the unit where N is 0 at the run");
    reduced(x, 1, &part);
    cr_expect_eq(pp_flat_prim(&flat, (uint32_t)flat.prims.n - 1)->kind, PP_P_PART, "3 is never 0");
}

Test(flat, scans_and_contractions)
{
    uint32_t x = input(PPTO_F32, "B, M, K"), y = input(PPTO_F32, "B, N, K"), id;
    cr_expect_eq(pp_flat_scan(&flat, &whole, 2, &x, 1, &id), PPTO_OK);
    cr_expect_eq(pp_flat_prim(&flat, pp_flat_operands(&flat, id)[0])->rows, false);
    expect_type(id, "f32[B, M, K]");
    cr_expect_eq(pp_flat_scan(&flat, &whole, 0, &x, 1, &id), PPTO_OK);
    cr_expect_eq(pp_flat_prim(&flat, pp_flat_operands(&flat, id)[0])->rows, true);
    cr_expect_eq(pp_flat_contract(&flat, x, y, 1, 1, &id), PPTO_OK);
    expect_type(id, "f32[B, M, N]");
    cr_expect_eq(pp_flat_contract(&flat, x, x, 2, 1, &id), PPTO_OK);
    expect_type(id, "f32[B, M]");
}

Test(flat, verification_finds_what_is_broken)
{
    pp_error err = {.code = PPTO_OK};
    uint32_t x = input(PPTO_F32, "N"), pair[2] = {x, x}, id;
    pp_text text = {0};
    cr_expect_eq(pp_flat_map(&flat, PP_ADD, PPTO_F32, pair, 2, &id), PPTO_OK);
    cr_expect_eq(pp_vec_push(&flat.outputs, id), PPTO_OK);
    cr_expect_eq(pp_flat_verify(&flat, &err), PPTO_OK, "%s", err.text);
    pp_flat_print(&flat, &text);
    cr_expect(strstr(text.at, "%1 = map.add %0 %0 : f32[N]") != NULL, "%s", text.at);
    pp_text_free(&text);
    flat.operands.at[0] = id;
    cr_expect_eq(pp_flat_verify(&flat, &err), PPTO_E_INTERNAL);
    cr_expect(strstr(err.text, "not earlier") != NULL, "%s", err.text);
}
