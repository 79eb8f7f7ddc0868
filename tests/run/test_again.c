/* SPDX-License-Identifier: Apache-2.0
 * A program that runs again with what is bound already (src/runtime/run_again.c): it must see new contents,
 * new numbers, new bindings and everything else that changed in between, and fail as the first time. */
#include <criterion/criterion.h>
#include <string.h>

#include "ppto/ops.h"
#include "ppto/trace.h"
#include "tests/support/context.h"

enum { N = 40 };

TestSuite(again, .init = open_context, .fini = close_context);

/* input x: f32[N], k: a number; two kernels, since the mean is needed before the rest */
typedef struct bound {
    ppto_graph *graph;
    ppto_program *program;
    ppto_array *x, *k, *out;
} bound;

static ppto_array *filled(int64_t n, float first)
{
    ppto_array *a = ppto_array_create(ctx, PPTO_F32, 1, &n);
    cr_assert_not_null(a, "%s", ppto_error_text(NULL));
    float *at = ppto_array_data(a);
    for (int64_t i = 0; i < n; i++) at[i] = first + (float)i;
    return a;
}

static void fill(ppto_array *a, float first)
{
    float *at = ppto_array_data(a);
    for (int64_t i = 0; i < ppto_array_elements(a); i++) at[i] = first + (float)i;
}

static bound make(const char *text)
{
    bound b = {.graph = ppto_graph_create(ctx), .x = filled(N, 1), .out = filled(N, 0)};
    ppto_input(b.graph, "x", PPTO_F32, "N");
    ppto_input_number(b.graph, "k", true);
    ppto_tensor *root = ppto_expr(b.graph, text);
    b.k = ppto_number(ctx, 2);
    cr_assert_eq(ppto_compile(1, &root, &b.program), PPTO_OK, "%s", ppto_error_text(NULL));
    cr_assert_eq(ppto_program_bind_name(b.program, "x", b.x), PPTO_OK);
    cr_assert_eq(ppto_program_bind_name(b.program, "k", b.k), PPTO_OK);
    cr_assert_eq(ppto_program_bind_output(b.program, 0, b.out), PPTO_OK);
    return b;
}

static void drop(bound *b)
{
    ppto_array_release(b->x);
    ppto_array_release(b->k);
    ppto_array_release(b->out);
    ppto_program_destroy(b->program);
    ppto_graph_destroy(b->graph);
}

static void run(const bound *b)
{
    cr_assert_eq(ppto_program_run(b->program, NULL), PPTO_OK, "%s", ppto_error_text(NULL));
}

static float at(const ppto_array *a, size_t i)
{
    return ((const float *)ppto_array_data((ppto_array *)(uintptr_t)a))[i];
}

Test(again, new_contents_are_seen)
{
    bound b = make("x * x + 1.0");
    for (int i = 0; i < 4; i++) {
        fill(b.x, (float)i);
        run(&b);
        cr_expect_eq(at(b.out, 3), (float)((i + 3) * (i + 3) + 1), "run %d gave %g", i, (double)at(b.out, 3));
    }
    drop(&b);
}

Test(again, new_numbers_and_memory_between_kernels_are_seen)
{
    bound b = make("(x - mean(x)) * k + cumsum(x * k)");
    for (int i = 1; i < 5; i++) {
        const double k = i;
        memcpy(ppto_array_data(b.k), &k, sizeof k);
        fill(b.x, 0);
        run(&b);
        const float want = (0 - 19.5F) * (float)i;
        cr_expect_eq(at(b.out, 0), want, "run %d gave %g, not %g", i, (double)at(b.out, 0), (double)want);
    }
    ppto_stats stats = {.size = sizeof stats};
    cr_assert_eq(ppto_program_stats(b.program, &stats), PPTO_OK);
    cr_expect_eq(stats.measured_peak_bytes, stats.predicted_peak_bytes);
    drop(&b);
}

Test(again, new_bindings_are_seen)
{
    bound b = make("x + x");
    for (int i = 0; i < 3; i++) run(&b);
    ppto_array *small = filled(3, 7), *other = filled(N, 100), *to = filled(N, 0);
    ppto_program_bind_name(b.program, "x", other);
    run(&b);
    cr_expect_eq(at(b.out, 0), 200.0F);
    ppto_program_bind_output(b.program, 0, to);
    run(&b);
    cr_expect_eq(at(to, 1), 202.0F);
    ppto_program_bind_name(b.program, "x", small);
    EXPECT_ERROR(ppto_program_run(b.program, NULL), PPTO_E_SHAPE, "output 0");
    ppto_program_bind_name(b.program, "x", NULL);
    EXPECT_ERROR(ppto_program_run(b.program, NULL), PPTO_E_NAME, "not bound");
    ppto_array_release(small);
    ppto_array_release(other);
    ppto_array_release(to);
    drop(&b);
}

Test(again, results_may_be_asked_for_in_between)
{
    bound b = make("x + 1.0");
    ppto_array *own = NULL;
    run(&b);
    run(&b);
    cr_assert_eq(ppto_program_run(b.program, &own), PPTO_OK);
    cr_expect_eq(own, b.out);
    ppto_array_release(own);
    own = NULL;
    ppto_program_bind_output(b.program, 0, NULL);
    EXPECT_ERROR(ppto_program_run(b.program, NULL), PPTO_E_VALUE, "output 0");
    cr_assert_eq(ppto_program_run(b.program, &own), PPTO_OK);
    cr_expect_eq(at(own, 2), 4.0F);
    ppto_array_release(own);
    drop(&b);
}

Test(again, a_donated_input_is_taken)
{
    bound b = make("x + 1.0");
    ppto_array *own = NULL;
    run(&b);
    run(&b);
    ppto_program_bind_output(b.program, 0, NULL);
    ppto_program_donate(b.program, 0, true);
    ppto_array_release(b.x);
    b.x = NULL;
    cr_assert_eq(ppto_program_run(b.program, &own), PPTO_OK);
    cr_expect_eq(at(own, 0), 2.0F);
    EXPECT_ERROR(ppto_program_run(b.program, &own), PPTO_E_NAME, "not bound");
    drop(&b);
}

Test(again, failures_come_and_go)
{
    bound b = make("take(x, astype(x, i64))");
    fill(b.x, 0);
    run(&b);
    run(&b);
    for (int i = 0; i < 3; i++) {
        ((float *)ppto_array_data(b.x))[5] = 99;
        EXPECT_ERROR(ppto_program_run(b.program, NULL), PPTO_E_VALUE, "take", "99");
        fill(b.x, 0);
        run(&b);
        run(&b);
        cr_expect_eq(at(b.out, 5), 5.0F);
    }
    drop(&b);
}

Test(again, the_task_log_and_traces_see_every_run)
{
    bound b = make("x + 1.0");
    char *text = NULL;
    run(&b);
    run(&b);
    ppto_program_log_tasks(b.program, true);
    for (int i = 0; i < 2; i++) {
        run(&b);
        cr_assert_eq(ppto_program_task_log(b.program, &text), PPTO_OK);
        cr_expect_neq(text[0], '\0', "run %d has no task in its log", i);
        ppto_text_free(text);
    }
    ppto_program_log_tasks(b.program, false);
    run(&b);
    run(&b);
    drop(&b);
}
