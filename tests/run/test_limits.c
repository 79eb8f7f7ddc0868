/* SPDX-License-Identifier: Apache-2.0
 * The least limit that a refusal names: the run keeps it to the byte, with one byte less it is refused and
 * told the same; explain names it too. Whatever the limit, the peak is the predicted one. Inputs are the
 * caller's memory, so that a limit of one byte lets them in. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ppto/ppto.h"

enum { N = 1500, M = 17, INPUTS = 9 };

typedef struct input {
    const char *name, *filler;
    ppto_dtype dtype;
    int rank;
    int64_t shape[2];
} input;

static const input inputs[INPUTS] = {
    {"x", "normal(1)", PPTO_F32, 2, {N, M}}, {"c", "normal(2)", PPTO_F32, 2, {N, M}},
    {"t", "normal(3)", PPTO_F32, 2, {M, N}}, {"v", "normal(4)", PPTO_F32, 1, {N}},
    {"b", "normal(5)", PPTO_F32, 1, {M}},    {"i", "integers(0,9)", PPTO_I64, 1, {N}},
    {"a", "normal(6)", PPTO_F32, 2, {3, M}}, {"e", "normal(7)", PPTO_F32, 1, {1}},
    {"w", "normal(8)", PPTO_F32, 2, {M, 5}},
};

static const char *const chains[] = {
    "dot(v, x) + b",
    "t @ x",
    "matmul(t, x) + 1",
    "transpose(x) + t",
    "b + c",
    "outer(v, b)",
    "vecdot(x[:, ::-1] * c, a[1])",
    "x * 2",
    "softmax(x, axis=1) + c",
    "softmax(x, axis=0)",
    "x - mean(x, axis=0)",
    "x - mean(x)",
    "(x - mean(x, axis=0)) / std(x, axis=0)",
    "x - cumulative_sum(x, axis=0) / sum(x, axis=0)",
    "cumulative_sum(x, axis=0) * sum(cumulative_sum(x, axis=0), axis=0)",
    "cumulative_sum(x - max(x, axis=0), axis=0)",
    "cumulative_sum(x, axis=1) @ w",
    "sum(x)",
    "sum(x, axis=1)",
    "logsumexp(x, axis=0)",
    "argmax(x, axis=0)",
    "argmax(x) + 0 * sum(c, axis=0)",
    "x.T @ c",
    "x @ (x.T @ c)",
    "(x.T @ x) @ w",
    "take(x, i % 3, axis=0) + c",
    "take(b, i) * v",
    "one_hot(i, 10).T @ x",
    "x[1:] - x[:-1]",
    "flip(x, axis=0) + c",
    "concat([x, c], axis=0)",
    "x - x[0]",
    "exp(e)",
    "sum(e)",
    "output p = x * 2, q = sum(c, axis=0), r = max(v)",
    "output p = x.T, q = cumulative_sum(v), r = w.T @ b",
};

static ppto_context *make_context(uint64_t limit)
{
    ppto_context *ctx = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = "pthread";
    o.threads = 2;
    o.memory_limit = limit;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK, "%s", ppto_error_text(NULL));
    return ctx;
}

/* A program over the data of another context. */
typedef struct bound {
    ppto_context *ctx;
    ppto_graph *graph;
    ppto_tensor **outputs;
    char **names;
    size_t n;
    ppto_program *program;
} bound;

static bound bind(const char *text, uint64_t limit, ppto_array *const *data)
{
    bound b = {.ctx = make_context(limit)};
    b.graph = ppto_graph_create(b.ctx);
    for (size_t k = 0; k < INPUTS; k++) {
        static const char *const dims[] = {"N, M", "N, M", "M, N", "N", "M", "N", "3, M", "1", "M, 5"};
        ppto_input(b.graph, inputs[k].name, inputs[k].dtype, dims[k]);
    }
    cr_assert_eq(
        ppto_parse_program(b.graph, text, strlen(text), NULL, NULL, NULL, &b.n, &b.outputs, &b.names),
        PPTO_OK, "%s: %s", text, ppto_error_text(b.ctx));
    cr_assert_eq(ppto_compile(b.n, b.outputs, &b.program), PPTO_OK, "%s: %s", text, ppto_error_text(b.ctx));
    for (size_t i = 0; i < ppto_program_inputs(b.program); i++) {
        size_t k = 0;
        while (strcmp(inputs[k].name, ppto_program_input_name(b.program, i)) != 0) k++;
        ppto_array *a = ppto_array_wrap(b.ctx, (void *)ppto_array_data(data[k]), inputs[k].dtype,
                                        inputs[k].rank, inputs[k].shape, NULL, NULL, NULL);
        cr_assert_eq(ppto_program_bind(b.program, i, a), PPTO_OK, "%s: %s", text, ppto_error_text(b.ctx));
        ppto_array_release(a);
    }
    return b;
}

static void unbind(bound *b)
{
    ppto_program_destroy(b->program);
    ppto_outputs_free(b->n, b->outputs, b->names);
    ppto_graph_destroy(b->graph);
    ppto_context_destroy(b->ctx);
}

static ppto_status run_within(const char *text, uint64_t limit, ppto_array *const *data, ppto_stats *stats,
                              char *message, size_t room)
{
    ppto_array *out[8] = {NULL};
    bound b = bind(text, limit, data);
    ppto_status status = ppto_program_run(b.program, out);
    stats->size = sizeof *stats;
    cr_expect_eq(ppto_program_stats(b.program, stats), PPTO_OK);
    snprintf(message, room, "%s", status == PPTO_OK ? "" : ppto_error_text(b.ctx));
    for (size_t i = 0; i < 8; i++) ppto_array_release(out[i]);
    unbind(&b);
    return status;
}

/* The number behind the words, 0 when they are not there. */
static uint64_t number_behind(const char *text, const char *words)
{
    const char *at = strstr(text, words);
    return at ? strtoull(at + strlen(words), NULL, 10) : 0;
}

static uint64_t explained(const char *text, uint64_t limit, ppto_array *const *data)
{
    char *told = NULL;
    bound b = bind(text, limit, data);
    cr_expect_eq(ppto_program_explain(b.program, PPTO_EXPLAIN_SUMMARY, false, &told), PPTO_OK, "%s: %s", text,
                 ppto_error_text(b.ctx));
    uint64_t least = told ? number_behind(told, "least limit     ") : 0;
    free(told);
    unbind(&b);
    return least;
}

static void keeps(const char *text, uint64_t limit, ppto_array *const *data, uint64_t *peak)
{
    char message[2048];
    ppto_stats stats = {0};
    cr_expect_eq(run_within(text, limit, data, &stats, message, sizeof message), PPTO_OK,
                 "%s within %llu: %s", text, (unsigned long long)limit, message);
    cr_expect_eq(stats.measured_peak_bytes, stats.predicted_peak_bytes, "%s within %llu: %llu of %llu", text,
                 (unsigned long long)limit, (unsigned long long)stats.measured_peak_bytes,
                 (unsigned long long)stats.predicted_peak_bytes);
    *peak = stats.measured_peak_bytes;
}

static void refuses(const char *text, uint64_t limit, ppto_array *const *data, uint64_t *least)
{
    char message[2048];
    ppto_stats stats = {0};
    cr_expect_eq(run_within(text, limit, data, &stats, message, sizeof message), PPTO_E_LIMIT,
                 "%s within %llu: %s", text, (unsigned long long)limit, message);
    *least = number_behind(message, "the least limit that would do is ");
    cr_expect(strstr(message, "because of ") || strstr(message, "most is for "), "%s: %s", text, message);
    cr_expect_eq(stats.predicted_peak_bytes, *least, "%s: %s; predicted %llu", text, message,
                 (unsigned long long)stats.predicted_peak_bytes);
    cr_expect_eq(explained(text, limit, data), *least, "%s: explain says another", text);
}

static void check(const char *text, ppto_array *const *data)
{
    uint64_t least, again, peak, whole;
    refuses(text, 1, data, &least);
    keeps(text, least, data, &peak);
    cr_expect_eq(peak, least, "%s: the least limit would be %llu, not %llu", text, (unsigned long long)peak,
                 (unsigned long long)least);
    if (least > 2) {
        refuses(text, least - 1, data, &again);
        cr_expect_eq(again, least, "%s: %llu, then %llu", text, (unsigned long long)least,
                     (unsigned long long)again);
    }
    keeps(text, 0, data, &whole);
    cr_expect_leq(least, whole, "%s", text);
    for (uint64_t k = 1; k < 8; k++) keeps(text, least + (whole - least) * k / 8, data, &peak);
}

Test(limits, the_least_limit_is_kept_and_no_less_would_do)
{
    ppto_context *ctx = make_context(0);
    ppto_array *data[INPUTS];
    for (size_t k = 0; k < INPUTS; k++)
        data[k] = ppto_array_fill(ctx, inputs[k].dtype, inputs[k].rank, inputs[k].shape, inputs[k].filler,
                                  inputs[k].name);
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) check(chains[i], data);
    for (size_t k = 0; k < INPUTS; k++) ppto_array_release(data[k]);
    ppto_context_destroy(ctx);
}

/* Or a run with made-up data would be refused without a number, although explain says that it fits. */
Test(limits, data_are_made_in_the_bytes_of_their_array)
{
    static const struct {
        const char *filler;
        ppto_dtype dtype;
    } made[] = {{"normal(1)", PPTO_F32},     {"normal(2)", PPTO_F64},  {"uniform(0,1)", PPTO_F32},
                {"integers(0,9)", PPTO_I64}, {"random(3)", PPTO_BOOL}, {"ones", PPTO_F64}};
    static const int64_t lengths[] = {3, 20000, 70001};
    for (size_t i = 0; i < 3 * sizeof made / sizeof *made; i++) {
        const char *filler = made[i / 3].filler;
        ppto_dtype dtype = made[i / 3].dtype;
        ppto_comparison c = {0};
        ppto_context *ctx = make_context(0),
                     *little = make_context((uint64_t)lengths[i % 3] * ppto_dtype_size(dtype));
        ppto_array *a = ppto_array_fill(ctx, dtype, 1, &lengths[i % 3], filler, "x"),
                   *b = ppto_array_fill(little, dtype, 1, &lengths[i % 3], filler, "x");
        cr_assert(a && b, "%s: %s", filler, ppto_error_text(little));
        cr_expect_eq(ppto_compare(a, b, 0, 0, &c), PPTO_OK);
        cr_expect(c.equal, "%s", filler);
        ppto_array_release(a);
        ppto_array_release(b);
        ppto_context_destroy(ctx);
        ppto_context_destroy(little);
    }
}
