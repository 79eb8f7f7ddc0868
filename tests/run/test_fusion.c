/* SPDX-License-Identifier: Apache-2.0
 * What fuses: kernel counts of chains, which never depend on sizes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "ppto/array.h"
#include "ppto/context.h"
#include "ppto/graph.h"
#include "ppto/run.h"

typedef struct fusion_case {
    const char *text;
    size_t kernels; /* at most */
    bool exact;
} fusion_case;

static ppto_context *ctx;

static void setup(void)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = "serial";
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK, "%s", ppto_error_text(NULL));
}

static void teardown(void)
{
    ppto_context_destroy(ctx);
}

TestSuite(fusion, .init = setup, .fini = teardown);

static size_t kernels_of(const char *text)
{
    ppto_graph *g = ppto_graph_create(ctx);
    size_t n = 0;
    ppto_tensor **outputs = NULL;
    char **names = NULL;
    ppto_program *p = NULL;
    ppto_stats stats = {.size = sizeof stats};
    ppto_status s = ppto_parse_program(g, text, strlen(text), NULL, NULL, NULL, &n, &outputs, &names);
    cr_assert_eq(s, PPTO_OK, "%s\n%s", text, ppto_error_text(ctx));
    s = ppto_compile(n, outputs, &p);
    cr_assert_eq(s, PPTO_OK, "%s\n%s", text, ppto_error_text(ctx));
    ppto_program_stats(p, &stats);
    ppto_program_destroy(p);
    ppto_outputs_free(n, outputs, names);
    ppto_graph_destroy(g);
    return stats.kernels;
}

static void check(const fusion_case *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = kernels_of(cases[i].text);
        cr_expect(cases[i].exact ? k == cases[i].kernels : k <= cases[i].kernels,
                  "%zu kernels, expected %s%zu: %s", k, cases[i].exact ? "" : "at most ", cases[i].kernels,
                  cases[i].text);
    }
}
#define CHECK(cases) check(cases, sizeof(cases) / sizeof(cases)[0])

#define ABC "input a: f32[N]\ninput b: f32[N]\ninput c: f32[N]\n"
#define X "input x: f32[N, C]\n"

Test(fusion, chains_of_maps_are_one_kernel)
{
    static const fusion_case cases[] = {
        {ABC "output y = (a*b + c)*a - b", 1, true},
        {ABC "output y = where(a > 0, exp(b), c * 2) + sqrt(abs(a))", 1, true},
        {X "input b: f32[C]\noutput y = (x + b) * 2", 1, true},
        {X "input y: f32[C, N]\noutput z = x * exp(y.T)", 1, true},
        {"input u: f32[H, W]\noutput y = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * "
         "u[1:-1, 1:-1]",
         1, true},
        {ABC "output p = a + b, q = (a + b) * c", 1, true},
        {ABC "output y = concat([a, b], axis=0) * 2", 1, true},
        {ABC "output y = pad(a, [[1, 2]]) + 1", 1, true},
        {X "output y = reshape(x, [N * C]) * 2 + 1", 1, true},
    };
    CHECK(cases);
}

Test(fusion, reductions_take_their_prologue_and_epilogue)
{
    static const fusion_case cases[] = {
        {X "output y = sum(exp(x))", 1, true},
        {X "output y = softmax(x)", 1, true},
        {X "output y = softmax(x, axis=0)", 1, true},
        {X "output y = log_softmax(x)", 1, true},
        {X "output y = logsumexp(x)", 1, true},
        {"input x: f32[8, 1024, 1024]\ninput r: f32[8, 1024, 1024]\ninput w: f32[1024]\ninput b: f32[1024]\n"
         "output y = layer_norm(x + r, w, b)",
         1, true},
        {X "output m = mean(x, axis=1), v = var(x, axis=1)", 1, true},
        {X "output m = mean(x, axis=0), v = var(x, axis=0)", 1, true},
        {X "output y = (x - mean(x, axis=0)) / std(x, axis=0)", 2, false},
        {"input x: f32[N, 512]\ninput y: f32[N, 256]\noutput z = sin(sum(x, axis=1)) * exp(transpose(y, [1, "
         "0]))",
         2, false},
        {X "output y = argmax(x, axis=1)", 1, true},
        {X "output y = cumulative_sum(exp(x), axis=1) * 2", 1, true},
        {X "output y = sqrt(sum(x * x))", 1, true},
    };
    CHECK(cases);
}

Test(fusion, products_take_their_prologue_and_epilogue)
{
    static const fusion_case cases[] = {
        {"input x: f32[N, K]\ninput w: f32[K, M]\ninput b: f32[M]\noutput y = relu(x @ w + b)", 1, true},
        {"input x: f32[N, K]\ninput w: f32[K, M]\noutput y = (x * 2) @ (w + 1)", 1, true},
        {"input a: f32[N, K]\ninput b: f32[K, M]\ninput c: f32[N, L]\ninput d: f32[L, M]\noutput y = a @ b + "
         "c @ d",
         3, false},
        {"input x: f32[N, K]\ninput v: f32[K]\noutput y = tanh(x @ v)", 1, true},
    };
    CHECK(cases);
}

#define QKV                                                                                                  \
    "input q: f32[B, H, T, D]\ninput k: f32[B, H, S, D]\ninput v: f32[B, H, S, E]\ninput m: f32[T, S]\n"     \
    "input w: f32[D, E]\n"

Test(fusion, products_and_row_stages_are_one_kernel)
{
    static const fusion_case cases[] = {
        {QKV "output y = softmax(q @ transpose(k, [0, 1, 3, 2]) * 0.125) @ v", 1, true},
        {QKV "output y = softmax(q @ transpose(k, [0, 1, 3, 2]) * 0.125 + m) @ v * 2", 1, true},
        {QKV "output y = transpose(softmax(q @ transpose(k, [0, 1, 3, 2])) @ v, [0, 2, 1, 3])", 1, true},
        {QKV "output y = softmax(q @ w)", 1, true},
        {QKV "output y = sum(q @ w, axis=-1), z = exp(q)", 2, true},
        {QKV "output y = layer_norm(q @ w, v[0, 0, 0], v[0, 0, 1])", 1, true},
        {QKV "output y = relu(q @ w) @ v[0, 0].T", 1, true},
        {QKV "output y = cumulative_sum(q @ w, axis=3)", 1, true},
        {QKV "output y = softmax(q) @ w", 1, true},
    };
    CHECK(cases);
}

Test(fusion, rows_that_are_not_shared_stay_apart)
{
    static const fusion_case cases[] = {
        {QKV "output y = softmax(q @ w, axis=2)", 2, true},                   /* along other rows */
        {QKV "a = q @ w\noutput y = softmax(a), z = a @ v[0, 0].T", 3, true}, /* two readers */
        {QKV "output a = q @ w, y = softmax(a)", 2, true},                    /* a result is in memory */
        {QKV "output y = q[0, 0].T @ softmax(q[0, 0] @ w)", 2, true},         /* a right factor */
    };
    CHECK(cases);
}

Test(fusion, copies_under_new_names_fuse_alike)
{
    static const char text[] =
        "op my_softmax(x: float, axis: int = -1) {\n  m = max(x, axis, keepdims=true)\n  e = exp(x - m)\n"
        "  e * (1 / sum(e, axis, keepdims=true))\n}\n";
    cr_assert_eq(ppto_define(ctx, text), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_expect_eq(kernels_of(X "output y = my_softmax(x)"), 1);
}
