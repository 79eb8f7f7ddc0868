/* SPDX-License-Identifier: Apache-2.0
 * What is bound to a program: missing, wrong, empty, overlapping, oddly strided, too large, after a fork.
 * Mistakes are found before anything runs. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ppto/ops.h"
#include "tests/support/context.h"

TestSuite(bind, .init = open_context, .fini = close_context);

static ppto_program *program(const char *text)
{
    ppto_graph *g = ppto_graph_create(ctx);
    size_t n = 0;
    ppto_tensor **outputs = NULL;
    char **names = NULL;
    ppto_program *p = NULL;
    ppto_status s = ppto_parse_program(g, text, strlen(text), NULL, NULL, NULL, &n, &outputs, &names);
    cr_assert_eq(s, PPTO_OK, "%s\n%s", text, ppto_error_text(NULL));
    s = ppto_compile(n, outputs, &p);
    cr_assert_eq(s, PPTO_OK, "%s\n%s", text, ppto_error_text(NULL));
    ppto_outputs_free(n, outputs, names);
    ppto_graph_destroy(g);
    return p;
}

static ppto_array *zeros(ppto_dtype dtype, int rank, ...)
{
    int64_t shape[PPTO_MAX_RANK];
    va_list args;
    va_start(args, rank);
    for (int i = 0; i < rank; i++) shape[i] = va_arg(args, int);
    va_end(args);
    ppto_array *a = ppto_array_create(ctx, dtype, rank, shape);
    cr_assert_not_null(a, "%s", ppto_error_text(NULL));
    return a;
}

/* Binds (and gives away) an array; fails the run with code and words. */
static void bound(ppto_program *p, const char *name, ppto_array *a)
{
    cr_expect_eq(ppto_program_bind_name(p, name, a), PPTO_OK, "%s", ppto_error_text(NULL));
    ppto_array_release(a);
}

Test(bind, inputs_must_agree_with_what_was_declared)
{
    ppto_program *p = program("input x: f32[N, 3], y: f32[N]\noutput z = sum(x, axis=1) + y");
    ppto_array *out = (ppto_array *)&p;
    EXPECT_ERROR(ppto_program_run(p, &out), PPTO_E_NAME, "not bound");
    cr_expect_null(out);
    EXPECT_ERROR(ppto_program_bind_name(p, "w", NULL), PPTO_E_NAME, "w");
    bound(p, "x", zeros(PPTO_F32, 2, 5, 3));
    EXPECT_ERROR(ppto_program_run(p, &out), PPTO_E_NAME, "y", "not bound");
    bound(p, "y", zeros(PPTO_F64, 1, 5));
    EXPECT_ERROR(ppto_program_run(p, &out), PPTO_E_DTYPE, "y", "f32[N]", "f64[5]");
    bound(p, "y", zeros(PPTO_F32, 1, 6));
    EXPECT_ERROR(ppto_program_run(p, &out), PPTO_E_SHAPE, "N is 5", "f32[6]");
    bound(p, "y", zeros(PPTO_F32, 2, 5, 1));
    EXPECT_ERROR(ppto_program_run(p, &out), PPTO_E_SHAPE, "f32[5, 1]");
    bound(p, "y", zeros(PPTO_F32, 1, 5));
    bound(p, "x", zeros(PPTO_F32, 2, 5, 4));
    EXPECT_ERROR(ppto_program_run(p, &out), PPTO_E_SHAPE, "f32[N, 3]", "f32[5, 4]");
    bound(p, "x", ppto_number(ctx, 1));
    EXPECT_ERROR(ppto_program_run(p, &out), PPTO_E_SHAPE, "x");
    bound(p, "x", zeros(PPTO_F32, 2, 5, 3));
    cr_expect_eq(ppto_program_run(p, &out), PPTO_OK, "%s", ppto_error_text(NULL));
    ppto_array_release(out);
    EXPECT_ERROR(ppto_program_run(p, NULL), PPTO_E_VALUE, "output");
    cr_expect_eq(ppto_program_bind(p, 0, NULL), PPTO_OK);
    EXPECT_ERROR(ppto_program_run(p, &out), PPTO_E_NAME, "not bound");
    ppto_program_destroy(p);
}

Test(bind, eval_names_what_is_wrong)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N"), *k = ppto_input_number(g, "k", false);
    ppto_tensor *y = ppto_mul(x, k);
    ppto_array *a = zeros(PPTO_F32, 1, 3), *n = ppto_integer(ctx, 2), *f = ppto_number(ctx, 2.5), *out = NULL;
    EXPECT_ERROR(ppto_eval(y, &out, "x", a, NULL), PPTO_E_NAME, "k", "not bound");
    EXPECT_ERROR(ppto_eval(y, &out, "x", a, "x", a, "k", n, NULL), PPTO_E_NAME, "x", "twice");
    EXPECT_ERROR(ppto_eval(y, &out, "x", a, "kk", n, NULL), PPTO_E_NAME, "kk");
    EXPECT_ERROR(ppto_eval(y, &out, "x", a, "k", f, NULL), PPTO_E_DTYPE, "k");
    EXPECT_ERROR(ppto_eval(y, &out, "x", a, "k", a, NULL), PPTO_E_SHAPE, "k");
    cr_expect_null(out);
    cr_expect_eq(ppto_eval(y, &out, "x", a, "k", n, NULL), PPTO_OK, "%s", ppto_error_text(NULL));
    ppto_array_release(out);
    ppto_array_release(a);
    ppto_array_release(n);
    ppto_array_release(f);
    ppto_graph_destroy(g);
}

Test(bind, sizes_of_arrays_are_checked)
{
    static const int64_t negative[] = {3, -1}, huge[] = {INT64_C(1) << 62, 4}, many[] = {INT64_C(1) << 40},
                         empty[] = {INT64_C(1) << 62, INT64_C(1) << 62, 0};
    int64_t ones[PPTO_MAX_RANK + 1], far[] = {INT64_MAX / 2 & ~INT64_C(7), 4}, odd[] = {6}, two[] = {2, 2},
                                     three[] = {4, 2};
    float data[4] = {0};
    for (int i = 0; i <= PPTO_MAX_RANK; i++) ones[i] = 1;
    EXPECT_ERROR((ppto_array_create(ctx, PPTO_F32, 2, negative), ppto_error_status(NULL)), PPTO_E_SHAPE,
                 "negative");
    EXPECT_ERROR((ppto_array_create(ctx, PPTO_F32, 2, huge), ppto_error_status(NULL)), PPTO_E_SIZE, "64");
    cr_expect_null(ppto_array_create(ctx, PPTO_F64, 3, empty), "its strides would overflow");
    cr_expect_null(ppto_array_create(ctx, PPTO_F64, 1, many), "a tebibyte eight times");
    cr_expect_null(ppto_array_create(ctx, PPTO_F32, PPTO_MAX_RANK + 1, ones));
    cr_expect_null(ppto_array_create(ctx, PPTO_F32, -1, ones));
    cr_expect_null(ppto_array_create(ctx, (ppto_dtype)11, 1, ones));
    cr_expect_null(ppto_array_create(ctx, (ppto_dtype)-1, 1, ones));
    EXPECT_ERROR((ppto_array_wrap(ctx, data, PPTO_F32, 2, three, far, NULL, NULL), ppto_error_status(NULL)),
                 PPTO_E_SIZE, "64");
    EXPECT_ERROR((ppto_array_wrap(ctx, data, PPTO_F32, 1, two, odd, NULL, NULL), ppto_error_status(NULL)),
                 PPTO_E_VALUE, "stride");
    EXPECT_ERROR((ppto_array_wrap(ctx, NULL, PPTO_F32, 1, two, NULL, NULL, NULL), ppto_error_status(NULL)),
                 PPTO_E_VALUE, "NULL");
    ppto_array *a = ppto_array_create(ctx, PPTO_F32, PPTO_MAX_RANK, ones);
    cr_expect_not_null(a);
    ppto_array_release(a);
}

/* Sizes that overflow only once they are known. */
Test(bind, sizes_of_results_are_checked)
{
    static const int64_t wide[] = {INT64_C(1) << 33};
    static const int64_t none[] = {0};
    static const float zero = 0;
    ppto_program *p = program("input x: f32[N], y: f32[M]\noutput z = reshape(x, [N, 1]) * y");
    ppto_array *out = NULL;
    bound(p, "x", ppto_array_wrap(ctx, (void *)(uintptr_t)&zero, PPTO_F32, 1, wide, none, NULL, NULL));
    bound(p, "y", ppto_array_wrap(ctx, (void *)(uintptr_t)&zero, PPTO_F32, 1, wide, none, NULL, NULL));
    EXPECT_ERROR(ppto_program_run(p, &out), PPTO_E_SIZE, "overflow");
    cr_expect_null(out);
    ppto_program_destroy(p);
    p = program("input x: f32[N]\noutput z = x[5:] * 2, w = x[:-4] + 1");
    ppto_array *two[2] = {NULL, NULL};
    bound(p, "x", zeros(PPTO_F32, 1, 2));
    cr_expect_eq(ppto_program_run(p, two), PPTO_OK, "%s", ppto_error_text(NULL)); /* cut to nothing */
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(ppto_array_elements(two[i]), 0);
        ppto_array_release(two[i]);
    }
    bound(p, "x", zeros(PPTO_F32, 1, 9));
    cr_expect_eq(ppto_program_run(p, two), PPTO_OK, "%s", ppto_error_text(NULL));
    ppto_array_release(two[0]);
    ppto_array_release(two[1]);
    ppto_program_destroy(p);
}

Test(bind, empty_tensors_run_everywhere)
{
    static const char *const texts[] = {
        "x * 2 + 1",
        "sum(x)",
        "sum(x, axis=0)",
        "sum(x, axis=1)",
        "softmax(x, axis=1)",
        "softmax(x, axis=0)",
        "cumulative_sum(x, axis=0)",
        "cumulative_sum(x, axis=1)",
        "x @ x.T",
        "x.T @ x",
        "concat([x, x], axis=0)",
        "concat([x, x], axis=1)",
        "reshape(x, [M, N])",
        "pad(x, [[1, 0], [0, 2]])",
        "prod(x, axis=1)",
        "sort(x, axis=0)",
        "where(x > 0, x, -x)",
        "layer_norm(x, ones_like(x[0]), ones_like(x[0]))",
    };
    static const int sizes[][2] = {{0, 3}, {3, 0}, {0, 0}};
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (size_t k = 0; k < 3; k++) {
            ppto_graph *g = ppto_graph_create(ctx);
            ppto_input(g, "x", PPTO_F32, "N, M");
            ppto_tensor *y = ppto_expr(g, texts[t]);
            ppto_array *x = zeros(PPTO_F32, 2, sizes[k][0], sizes[k][1]), *out = NULL;
            ppto_status s = y ? ppto_eval(y, &out, "x", x, NULL) : PPTO_OK; /* not every name exists */
            bool clean = s == PPTO_OK || s == PPTO_E_VALUE || s == PPTO_E_SHAPE || s == PPTO_E_UNSUPPORTED;
            cr_expect(clean, "%s of [%d, %d]: %s: %s", texts[t], sizes[k][0], sizes[k][1],
                      ppto_status_name(s), ppto_error_text(NULL));
            if (s == PPTO_OK && y && t == 1) cr_expect_eq(*(float *)ppto_array_data(out), 0.0f);
            ppto_array_release(out);
            ppto_array_release(x);
            ppto_graph_destroy(g);
        }
}

Test(bind, sixteen_axes)
{
    ppto_program *p = program("input x: f32[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2]\n"
                              "output y = sum(x * 2 + x.mT, axis=-1), s = sum(x)");
    int64_t shape[PPTO_MAX_RANK];
    for (int i = 0; i < PPTO_MAX_RANK; i++) shape[i] = 2;
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, PPTO_MAX_RANK, shape, "ones", "x"), *out[2] = {NULL, NULL};
    bound(p, "x", x);
    cr_assert_eq(ppto_program_run(p, out), PPTO_OK, "%s", ppto_error_text(NULL));
    cr_expect_eq(ppto_array_rank(out[0]), PPTO_MAX_RANK - 1);
    cr_expect_eq(((float *)ppto_array_data(out[0]))[77], 6.0f);
    cr_expect_eq(*(float *)ppto_array_data(out[1]), 65536.0f);
    ppto_array_release(out[0]);
    ppto_array_release(out[1]);
    ppto_program_destroy(p);
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *t = ppto_input(g, "x", PPTO_F32, "2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2");
    cr_expect_null(ppto_exprn(g, "$0[newaxis]", 1, &t));
    cr_expect_neq(ppto_graph_error(g), PPTO_E_INTERNAL, "%s", ppto_graph_error_text(g));
    ppto_graph_destroy(g);
}

/* ---- outputs ---- */

Test(bind, outputs_must_fit)
{
    static const int64_t shape[] = {3}, reversed[] = {-4};
    float data[3];
    ppto_program *p = program("input x: f32[N]\noutput y = x + 1, z = x * 2");
    bound(p, "x", zeros(PPTO_F32, 1, 3));
    ppto_array *small = zeros(PPTO_F32, 1, 2), *wrong = zeros(PPTO_F64, 1, 3), *good = zeros(PPTO_F32, 1, 3);
    ppto_array *view = ppto_array_wrap(ctx, data + 2, PPTO_F32, 1, shape, reversed, NULL, NULL);
    ppto_array *out[2] = {NULL, NULL};
    EXPECT_ERROR(ppto_program_bind_output(p, 0, view), PPTO_E_VALUE, "row-major");
    EXPECT_ERROR(ppto_program_bind_output(p, 2, good), PPTO_E_VALUE, "2");
    cr_expect_eq(ppto_program_bind_output(p, 0, small), PPTO_OK);
    EXPECT_ERROR(ppto_program_run(p, out), PPTO_E_SHAPE, "output 0");
    cr_expect_eq(ppto_program_bind_output(p, 0, wrong), PPTO_OK);
    EXPECT_ERROR(ppto_program_run(p, out), PPTO_E_SHAPE, "output 0");
    cr_expect_eq(ppto_program_bind_output(p, 0, good), PPTO_OK);
    EXPECT_ERROR(ppto_program_run(p, NULL), PPTO_E_VALUE, "output");
    cr_expect_eq(ppto_program_run(p, out), PPTO_OK, "%s", ppto_error_text(NULL));
    cr_expect_eq(out[0], good);
    cr_expect_eq(((float *)ppto_array_data(good))[1], 1.0f);
    ppto_array_release(out[0]);
    ppto_array_release(out[1]);
    ppto_array_release(small);
    ppto_array_release(wrong);
    ppto_array_release(good);
    ppto_array_release(view);
    ppto_program_destroy(p);
}

/* An output that lies over inputs: none is spoiled. */
Test(bind, outputs_may_overlap_inputs)
{
    enum { N = 64 };
    static const int64_t shape[] = {N}, reversed[] = {-4};
    for (int shift = -3; shift <= 3; shift++) {
        float memory[N + 8], expected[N];
        for (int i = 0; i < N + 8; i++) memory[i] = (float)i;
        for (int i = 0; i < N; i++) expected[i] = (float)(4 + N - 1 - i) * 2 + (float)(4 + i);
        ppto_program *p = program("input x: f32[N], r: f32[N]\noutput y = r * 2 + x");
        ppto_array *x = ppto_array_wrap(ctx, memory + 4, PPTO_F32, 1, shape, NULL, NULL, NULL);
        ppto_array *r = ppto_array_wrap(ctx, memory + 4 + N - 1, PPTO_F32, 1, shape, reversed, NULL, NULL);
        ppto_array *y = ppto_array_wrap(ctx, memory + 4 + shift, PPTO_F32, 1, shape, NULL, NULL, NULL);
        bound(p, "x", x);
        bound(p, "r", r);
        cr_expect_eq(ppto_program_bind_output(p, 0, y), PPTO_OK);
        ppto_array_release(y);
        cr_expect_eq(ppto_program_run(p, NULL), PPTO_OK, "%s", ppto_error_text(NULL));
        cr_expect_arr_eq(memory + 4 + shift, expected, sizeof expected, "shifted by %d", shift);
        ppto_program_destroy(p);
    }
}

/* The second would overwrite the first; those that only touch are fine, and so is changing places. */
Test(bind, outputs_may_not_overlap_each_other)
{
    static const int64_t shape[] = {4};
    float data[8];
    ppto_program *p = program("input x: f32[N]\noutput y = x + 1, z = x * 2");
    ppto_array *whole = ppto_array_wrap(ctx, data, PPTO_F32, 1, shape, NULL, NULL, NULL);
    ppto_array *part = ppto_array_wrap(ctx, data + 3, PPTO_F32, 1, shape, NULL, NULL, NULL);
    ppto_array *next = ppto_array_wrap(ctx, data + 4, PPTO_F32, 1, shape, NULL, NULL, NULL);
    bound(p, "x", zeros(PPTO_F32, 1, 4));
    cr_expect_eq(ppto_program_bind_output(p, 0, whole), PPTO_OK);
    ppto_array *const bad[] = {whole, part};
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(ppto_program_bind_output(p, 1, bad[i]), PPTO_OK);
        EXPECT_ERROR(ppto_program_run(p, NULL), PPTO_E_VALUE, "outputs 0 and 1");
    }
    for (int turn = 0; turn < 2; turn++) {
        cr_expect_eq(ppto_program_bind_output(p, turn, whole), PPTO_OK);
        cr_expect_eq(ppto_program_bind_output(p, 1 - turn, next), PPTO_OK);
        cr_expect_eq(ppto_program_run(p, NULL), PPTO_OK, "%s", ppto_error_text(NULL));
        cr_expect(data[0] == (turn == 0 ? 1 : 0) && data[7] == (turn == 0 ? 0 : 1));
    }
    ppto_array_release(whole);
    ppto_array_release(part);
    ppto_array_release(next);
    ppto_program_destroy(p);
}

Test(bind, strides_of_any_sign_and_zero)
{
    static const int64_t shape[] = {3, 4}, strides[][2] = {{16, 4}, {-16, 4},  {16, -4}, {-16, -4}, {0, 4},
                                                           {4, 12}, {-4, -12}, {0, 0},   {32, 8},   {4, 4}};
    static const char *const texts[] = {"x * 2 + sum(x, axis=0)",    "reshape(x, [-1]) + 1",   "x @ x.T",
                                        "cumulative_sum(x, axis=0)", "concat([x, x], axis=1)", "x"};
    float memory[96];
    for (int i = 0; i < 96; i++) memory[i] = (float)(i * i % 37);
    for (size_t k = 0; k < sizeof strides / sizeof *strides; k++) {
        float packed[12];
        for (int i = 0; i < 12; i++)
            packed[i] = memory[48 + (strides[k][0] * (i / 4) + strides[k][1] * (i % 4)) / 4];
        ppto_array *plain = ppto_array_copy_of(ctx, PPTO_F32, 2, shape, packed);
        ppto_array *view = ppto_array_wrap(ctx, memory + 48, PPTO_F32, 2, shape, strides[k], NULL, NULL);
        for (size_t t = 0; t < sizeof texts / sizeof *texts; t++) {
            ppto_graph *g = ppto_graph_create(ctx);
            ppto_input(g, "x", PPTO_F32, "N, M");
            ppto_tensor *y = ppto_expr(g, texts[t]);
            ppto_array *a = NULL, *b = NULL;
            ppto_comparison c = {0};
            cr_assert_eq(ppto_eval(y, &a, "x", plain, NULL), PPTO_OK, "%s", ppto_error_text(NULL));
            cr_assert_eq(ppto_eval(y, &b, "x", view, NULL), PPTO_OK, "%s", ppto_error_text(NULL));
            ppto_compare(a, b, 0, 0, &c);
            cr_expect(c.equal, "%s with strides %d, %d", texts[t], (int)strides[k][0], (int)strides[k][1]);
            ppto_array_release(a);
            ppto_array_release(b);
            ppto_graph_destroy(g);
        }
        ppto_array_release(plain);
        ppto_array_release(view);
    }
}

static void count_release(void *arg, void *data)
{
    (void)data;
    ++*(int *)arg;
}

Test(bind, a_copy_of_bools_has_zeros_and_ones)
{
    static const unsigned char bytes[] = {0, 1, 2, 128, 255};
    ppto_array *a = ppto_array_copy_of(ctx, PPTO_BOOL, 1, (const int64_t[]){5}, bytes);
    cr_assert_not_null(a, "%s", ppto_error_text(ctx));
    cr_expect_eq(memcmp(ppto_array_data(a), (const unsigned char[]){0, 1, 1, 1, 1}, 5), 0);
    ppto_array_release(a);
}

Test(bind, wrapped_memory_is_released_once)
{
    static const int64_t shape[] = {4};
    float data[4] = {1, 2, 3, 4};
    int released = 0;
    ppto_program *p = program("input x: f32[N]\noutput y = x + 1");
    ppto_array *out = NULL;
    bound(p, "x", ppto_array_wrap(ctx, data, PPTO_F32, 1, shape, NULL, count_release, &released));
    cr_expect_eq(ppto_program_run(p, &out), PPTO_OK);
    ppto_array_release(out);
    cr_expect_eq(released, 0);
    ppto_program_destroy(p);
    cr_expect_eq(released, 1);
}

/* ---- fork ---- */

/* In the child; 0 when every use is refused and a new context works. */
static int child(ppto_program *p, ppto_tensor *y)
{
    ppto_array *out = NULL;
    ppto_program *q = NULL;
    static const int64_t shape[] = {2};
    if (ppto_graph_create(ctx) || ppto_error_status(NULL) != PPTO_E_FORKED) return 1;
    if (ppto_program_run(p, &out) != PPTO_E_FORKED) return 2;
    if (ppto_compile(1, &y, &q) != PPTO_E_FORKED) return 3;
    if (ppto_array_create(ctx, PPTO_F32, 1, shape) || ppto_error_status(NULL) != PPTO_E_FORKED) return 4;
    if (ppto_define(ctx, "op f(x: num) = x\n") != PPTO_E_FORKED) return 5;
    ppto_program_destroy(p);
    ppto_context_destroy(ctx);
    if (ppto_context_create(&ctx, NULL) != PPTO_OK) return 6;
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N");
    ppto_array *a = ppto_array_create(ctx, PPTO_F32, 1, shape);
    return ppto_eval(ppto_exp(x), &out, "x", a, NULL) == PPTO_OK ? 0 : 7;
}

Test(bind, a_context_does_not_cross_a_fork)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    ppto_context *serial = ctx;
    o.executor = "pthread";
    o.threads = 2;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK);
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_exp(ppto_input(g, "x", PPTO_F32, "N"));
    ppto_program *p = NULL;
    ppto_array *out = NULL;
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK);
    bound(p, "x", zeros(PPTO_F32, 1, 100000));
    cr_assert_eq(ppto_program_run(p, &out), PPTO_OK);
    ppto_array_release(out);
    pid_t pid = fork();
    if (pid == 0) _exit(child(p, y));
    int status = -1;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %d", status);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    ppto_context_destroy(ctx);
    ctx = serial;
}
