/* SPDX-License-Identifier: Apache-2.0
 * Tensor types: interning, text, dims from text, broadcasting. */
#include <criterion/criterion.h>
#include <string.h>

#include "ops/type.h"

static pp_types *types;
static pp_error err;

static void set_up(void)
{
    cr_assert_eq(pp_types_create(&types), PPTO_OK);
    pp_error_clear(&err);
}

static void tear_down(void)
{
    pp_types_destroy(types);
}

TestSuite(ops_type, .init = set_up, .fini = tear_down);

static pp_type make(ppto_dtype dtype, const char *dims)
{
    pp_type type = {.dtype = (uint8_t)dtype};
    cr_assert_eq(pp_type_parse_dims(types, dims, &type, &err), PPTO_OK, "%s", err.text);
    return type;
}

static void expect_text(const pp_type *type, const char *want)
{
    pp_text text = {0};
    pp_type_print(types, type, &text);
    cr_expect_str_eq(text.at, want, "%s, not %s", text.at, want);
    pp_text_free(&text);
}

Test(ops_type, equal_types_have_equal_ids)
{
    pp_type a = make(PPTO_F32, "N, 512"), b = make(PPTO_F32, "N,512"), c = make(PPTO_F64, "N, 512");
    pp_type_id ia, ib, ic, iw;
    b.dim[7] = 99; /* beyond the rank: no part of the type */
    cr_expect_eq(pp_type_intern(types, &a, &ia), PPTO_OK);
    const pp_type *kept = pp_type_get(types, ia);
    cr_expect_eq(pp_type_intern(types, &b, &ib), PPTO_OK);
    cr_expect_eq(pp_type_intern(types, &c, &ic), PPTO_OK);
    a.weak = true;
    cr_expect_eq(pp_type_intern(types, &a, &iw), PPTO_OK);
    cr_expect_eq(ia, ib);
    cr_expect_neq(ia, ic);
    cr_expect_neq(ia, iw);
    for (int i = 0; i < 1000; i++) {
        a.dim[1] = pp_size_const(pp_types_sizes(types), i);
        cr_assert_eq(pp_type_intern(types, &a, &ib), PPTO_OK);
    }
    cr_expect_eq(kept, pp_type_get(types, ia));
    expect_text(kept, "f32[N, 512]");
    cr_expect_eq(kept->dim[7], 0);
}

Test(ops_type, text_names_dtype_and_sizes)
{
    pp_type scalar = make(PPTO_BOOL, ""), weak = make(PPTO_I64, "3");
    expect_text(&scalar, "bool[]");
    weak.weak = true;
    expect_text(&weak, "constant i64[3]");
    weak.dim[0] = pp_size_add(pp_types_sizes(types), pp_size_name(pp_types_sizes(types), "N", 1), PP_SIZE_1);
    expect_text(&weak, "constant i64[N + 1]");
}

Test(ops_type, dims_are_names_or_numbers)
{
    static const struct {
        const char *text;
        ppto_status want;
        int rank;
    } table[] = {{"", PPTO_OK, 0},
                 {"  ", PPTO_OK, 0},
                 {"4", PPTO_OK, 1},
                 {" N ,512 ", PPTO_OK, 2},
                 {"0, _x1", PPTO_OK, 2},
                 {"1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", PPTO_OK, 16},
                 {"1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1", PPTO_E_SHAPE, 0},
                 {"-1", PPTO_E_SYNTAX, 0},
                 {"N + 1", PPTO_E_SYNTAX, 0},
                 {"N,", PPTO_E_SYNTAX, 0},
                 {",N", PPTO_E_SYNTAX, 0},
                 {"N M", PPTO_E_SYNTAX, 0},
                 {"4x", PPTO_E_SYNTAX, 0},
                 {"9223372036854775807", PPTO_OK, 1},
                 {"9223372036854775808", PPTO_E_SIZE, 0}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        pp_type type = {0};
        pp_error_clear(&err);
        ppto_status status = pp_type_parse_dims(types, table[i].text, &type, &err);
        cr_expect_eq(status, table[i].want, "'%s'", table[i].text);
        if (status == PPTO_OK)
            cr_expect_eq(type.rank, table[i].rank, "'%s'", table[i].text);
        else
            cr_expect_eq(err.code, status, "'%s'", table[i].text);
    }
}

Test(ops_type, broadcasting_is_right_aligned)
{
    static const struct {
        const char *a, *b, *want;
    } table[] = {{"3, 4", "4", "f32[3, 4]"}, {"3, 1", "4", "f32[3, 4]"},
                 {"", "2, 3", "f32[2, 3]"},  {"N", "1", "f32[N]"},
                 {"N", "N", "f32[N]"},       {"1, N", "M, 1", "f32[M, N]"},
                 {"0", "1", "f32[0]"},       {"2, 1, 4", "3, 1", "f32[2, 3, 4]"}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        pp_type a = make(PPTO_F32, table[i].a), b = make(PPTO_F32, table[i].b), out = {.dtype = PPTO_F32};
        const pp_type *shapes[] = {&a, &b};
        int axis;
        pp_size left, right;
        cr_expect_eq(pp_type_broadcast(types, shapes, 2, &out, &axis, &left, &right), PPTO_OK);
        expect_text(&out, table[i].want);
    }
}

Test(ops_type, sizes_that_disagree_are_named)
{
    static const struct {
        const char *a, *b, *c;
        int axis;
    } table[] = {{"3, 4", "5", "", -1},
                 {"3, 4", "2, 4", "1", -2},
                 {"N", "4", "", -1},
                 {"N", "M", "", -1},
                 {"4", "1", "0", -1}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        pp_type a = make(PPTO_F32, table[i].a), b = make(PPTO_F32, table[i].b),
                c = make(PPTO_F32, table[i].c), out = a;
        const pp_type *shapes[] = {&a, &b, &c};
        int axis;
        pp_size left, right;
        cr_expect_eq(pp_type_broadcast(types, shapes, 3, &out, &axis, &left, &right), PPTO_E_SHAPE);
        cr_expect_eq(axis, table[i].axis);
        cr_expect_neq(left, right);
    }
}

Test(ops_type, elements_are_the_product)
{
    pp_type type = make(PPTO_F32, "N, 4, 2"), scalar = make(PPTO_F32, "");
    pp_sizes *sizes = pp_types_sizes(types);
    pp_size want = pp_size_mul(sizes, pp_size_name(sizes, "N", 1), pp_size_const(sizes, 8));
    cr_expect_eq(pp_type_elements(types, &type), want);
    cr_expect_eq(pp_type_elements(types, &scalar), PP_SIZE_1);
}
