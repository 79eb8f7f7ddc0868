/* SPDX-License-Identifier: Apache-2.0
 * Calls like one that was recorded before (pp_graph_record_known in graph/record.c): they give the same node
 * as the first time, and what is wrong with them is found all the same. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ppto/ops.h"
#include "tests/support/context.h"

static ppto_graph *graph;

static void open_graph(void)
{
    open_context();
    graph = ppto_graph_create(ctx);
    cr_assert_not_null(graph);
}

static void close_graph(void)
{
    ppto_graph_destroy(graph);
    close_context();
}

TestSuite(repeat, .init = open_graph, .fini = close_graph);

static ppto_tensor *input(const char *name, ppto_dtype dtype, const char *dims)
{
    ppto_tensor *x = ppto_input(graph, name, dtype, dims);
    cr_assert_not_null(x, "%s", ppto_error_text(NULL));
    return x;
}

/* The last call failed so. */
static void expect_failure(const ppto_tensor *t, ppto_status code, const char *word)
{
    cr_expect_null(t);
    EXPECT_ERROR(ppto_graph_error(graph), code, "");
    cr_expect(strstr(ppto_graph_error_text(graph), word), "%s is not in: %s", word,
              ppto_graph_error_text(graph));
}

Test(repeat, the_type_follows_the_operands)
{
    ppto_tensor *x = input("x", PPTO_F32, "N"), *y = input("y", PPTO_F64, "M, N");
    ppto_tensor *i = input("i", PPTO_I8, "N");
    for (int round = 0; round < 3; round++) {
        cr_expect_str_eq(ppto_tensor_type(ppto_add(x, x)), "f32[N]");
        cr_expect_str_eq(ppto_tensor_type(ppto_add(x, y)), "f64[M, N]");
        cr_expect_str_eq(ppto_tensor_type(ppto_add(i, x)), "f32[N]");
        cr_expect_str_eq(ppto_tensor_type(ppto_less(i, i)), "bool[N]");
        cr_expect_str_eq(ppto_tensor_type(ppto_sqrt(y)), "f64[M, N]");
    }
    cr_expect_eq(ppto_graph_error(graph), PPTO_OK);
}

Test(repeat, shapes_that_do_not_agree_are_found)
{
    ppto_tensor *x = input("x", PPTO_F32, "3"), *y = input("y", PPTO_F32, "4");
    cr_assert_not_null(ppto_mul(x, x));
    cr_assert_not_null(ppto_mul(y, y));
    expect_failure(ppto_mul(x, y), PPTO_E_SHAPE, "mul");
}

Test(repeat, dtypes_that_are_refused_are_found)
{
    ppto_tensor *x = input("x", PPTO_F32, "3"), *b = input("b", PPTO_BOOL, "3");
    cr_assert_not_null(ppto_sub(x, x));
    cr_assert_not_null(ppto_sub(x, x));
    expect_failure(ppto_sub(b, b), PPTO_E_DTYPE, "bool");
}

Test(repeat, numbers_that_do_not_fit_are_found)
{
    ppto_tensor *x = input("x", PPTO_U8, "3");
    for (int i = 0; i < 3; i++) cr_assert_not_null(ppto_add(x, ppto_int(graph, 200 + i)), "%d", i);
    expect_failure(ppto_add(x, ppto_int(graph, 300)), PPTO_E_VALUE, "300");
}

Test(repeat, a_missing_operand_is_found)
{
    ppto_tensor *x = input("x", PPTO_F32, "3");
    cr_assert_not_null(ppto_add(x, x));
    cr_expect_null(ppto_add(x, NULL));
    EXPECT_ERROR(ppto_error_status(NULL), PPTO_E_VALUE, "NULL");
}

Test(repeat, literals_keep_their_own_values)
{
    const int64_t shape[] = {1};
    const float one = 1;
    ppto_array *a = ppto_array_copy_of(ctx, PPTO_F32, 1, shape, &one), *out = NULL;
    ppto_tensor *x = input("x", PPTO_F32, "N"), *sum = x;
    for (int i = 1; i <= 5; i++) sum = ppto_add(ppto_mul(sum, ppto_float(graph, 2)), ppto_float(graph, i));
    cr_assert_eq(ppto_eval(sum, &out, "x", a, NULL), PPTO_OK, "%s", ppto_error_text(NULL));
    float got;
    memcpy(&got, ppto_array_data(out), sizeof got);
    cr_expect_eq(got, 89.0F, "%g", (double)got); /* 1 3 8 19 42 89 */
    ppto_array_release(out);
    ppto_array_release(a);
}

/* A divisor that is a power of two becomes a factor, also where it is computed from literals; a plan made for
 * one of them is not taken for another. */
Test(repeat, numbers_made_of_literals_keep_their_own_values)
{
    const int64_t shape[] = {1};
    const float seven = 7;
    static const double divisor[] = {64, 9, 16, 9, 64, 0.25, 1}, root[] = {8, 3, 4, 3, 8, 0.5, 1};
    ppto_array *a = ppto_array_copy_of(ctx, PPTO_F32, 1, shape, &seven);
    ppto_tensor *x = input("x", PPTO_F32, "N");
    for (size_t i = 0; i < sizeof root / sizeof *root; i++) {
        ppto_array *out = NULL;
        float got;
        ppto_tensor *y = ppto_div(x, ppto_sqrt(ppto_float(graph, divisor[i])));
        cr_assert_eq(ppto_eval(y, &out, "x", a, NULL), PPTO_OK, "%s", ppto_error_text(NULL));
        memcpy(&got, ppto_array_data(out), sizeof got);
        cr_expect_eq(got, seven / (float)root[i], "%g of %g", (double)got, divisor[i]);
        ppto_array_release(out);
    }
    ppto_array_release(a);
}
