/* SPDX-License-Identifier: Apache-2.0
 * Runs piece by piece have the bits of whole runs: maps, row stages, reductions by lanes and by rows, scans,
 * products, several passes, for many lengths of pieces and sizes that end inside a block. What cannot be cut
 * is run whole. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "ppto/ppto.h"

static ppto_context *make_limited(const char *executor, uint32_t chunk, uint64_t limit)
{
    ppto_context *ctx = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = executor;
    o.threads = 2;
    o.chunk = chunk;
    o.memory_limit = limit;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK, "%s", ppto_error_text(NULL));
    return ctx;
}

static ppto_context *make_context(const char *executor, uint32_t chunk)
{
    return make_limited(executor, chunk, 0);
}

typedef struct sizes {
    int64_t n, m;
} sizes;

/* x [N, M], y [N, M], v [N], w [M, 5], b [M], i: i64 [N], t: a number */
static ppto_status evaluate(ppto_context *ctx, const char *text, sizes of, ppto_array **out, size_t *n,
                            ppto_stats *stats)
{
    static const struct {
        const char *name, *dims, *filler;
        ppto_dtype dtype;
        int rank;
        char shape[3];
    } inputs[] = {
        {"x", "N, M", "normal(1)", PPTO_F32, 2, "NM"},     {"y", "N, M", "normal(2)", PPTO_F32, 2, "NM"},
        {"v", "N", "normal(3)", PPTO_F32, 1, "N"},         {"w", "M, 5", "normal(4)", PPTO_F32, 2, "M5"},
        {"b", "M", "normal(5)", PPTO_F32, 1, "M"},         {"i", "N", "integers(0,9)", PPTO_I64, 1, "N"},
        {"d", "N, M", "normal(6)", PPTO_F64, 2, "NM"},     {"k", "N, M", "integers(0,3)", PPTO_I32, 2, "NM"},
        {"z", "N, 3, M", "normal(7)", PPTO_F32, 3, "N3M"},
    };
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor **outputs = NULL;
    char **names = NULL;
    ppto_program *p = NULL;
    for (size_t k = 0; k < sizeof inputs / sizeof *inputs; k++)
        ppto_input(g, inputs[k].name, inputs[k].dtype, inputs[k].dims);
    ppto_status s = ppto_parse_program(g, text, strlen(text), NULL, NULL, NULL, n, &outputs, &names);
    if (s == PPTO_OK) s = ppto_compile(*n, outputs, &p);
    for (size_t k = 0; s == PPTO_OK && k < sizeof inputs / sizeof *inputs; k++) {
        int64_t shape[3];
        size_t input = 0;
        while (input < ppto_program_inputs(p) &&
               strcmp(ppto_program_input_name(p, input), inputs[k].name) != 0)
            input++;
        if (input == ppto_program_inputs(p)) continue;
        for (int d = 0; d < inputs[k].rank; d++) {
            char c = inputs[k].shape[d];
            shape[d] = c == 'N' ? of.n : c == 'M' ? of.m : c - '0';
        }
        ppto_array *a =
            ppto_array_fill(ctx, inputs[k].dtype, inputs[k].rank, shape, inputs[k].filler, inputs[k].name);
        s = a ? ppto_program_bind(p, input, a) : ppto_error_status(ctx);
        ppto_array_release(a);
    }
    if (s == PPTO_OK) s = ppto_program_run(p, out);
    stats->size = sizeof *stats;
    if (s == PPTO_OK) s = ppto_program_stats(p, stats);
    if (s == PPTO_OK && stats->pieces)
        cr_expect_eq(stats->predicted_peak_bytes, stats->measured_peak_bytes, "%s: predicted %d, measured %d",
                     text, (int)stats->predicted_peak_bytes, (int)stats->measured_peak_bytes);
    ppto_program_destroy(p);
    ppto_outputs_free(*n, outputs, names);
    ppto_graph_destroy(g);
    return s;
}

static void same(const char *text, sizes of, uint32_t chunk, bool cut)
{
    ppto_stats none = {0}, cut_into = {0};
    ppto_context *whole = make_context("serial", 0),
                 *pieces = make_context(chunk % 256 ? "serial" : "pthread", chunk);
    ppto_array *a[8] = {NULL}, *b[8] = {NULL};
    size_t n = 0, m = 0;
    cr_assert_eq(evaluate(whole, text, of, a, &n, &none), PPTO_OK, "%s: %s", text, ppto_error_text(whole));
    cr_expect_eq(evaluate(pieces, text, of, b, &m, &cut_into), PPTO_OK, "%s [%d, %d] by %u: %s", text,
                 (int)of.n, (int)of.m, chunk, ppto_error_text(pieces));
    cr_expect(none.pieces == 0 && (cut_into.pieces != 0) == cut, "%s [%d, %d] by %u: %d pieces", text,
              (int)of.n, (int)of.m, chunk, (int)cut_into.pieces);
    for (size_t i = 0; i < n && b[i]; i++) {
        ppto_comparison c = {0};
        cr_expect_eq(ppto_compare(a[i], b[i], 0, 0, &c), PPTO_OK);
        cr_expect(c.equal && c.same_dtype && c.same_shape, "%s [%d, %d] by %u: output %zu differs", text,
                  (int)of.n, (int)of.m, chunk, i);
    }
    for (size_t i = 0; i < 8; i++) {
        ppto_array_release(a[i]);
        ppto_array_release(b[i]);
    }
    ppto_context_destroy(whole);
    ppto_context_destroy(pieces);
}

static const char *const texts[] = {
    "exp(x) * 2 + y",
    "softmax(x, axis=1)",
    "layer_norm(x + y, b, b)",
    "sum(x)",
    "sum(x, axis=0)",
    "sum(x, axis=1)",
    "mean(x * y, axis=0)",
    "var(x, axis=0)",
    "std(d)",
    "max(x, axis=0)",
    "argmax(x, axis=0)",
    "argmin(x)",
    "argmax(x, axis=1)",
    "any(k == 2, axis=0)",
    "prod(k + 1, axis=0)",
    "logsumexp(x)",
    "logsumexp(x, axis=0)",
    "softmax(x, axis=0)",
    "(x - mean(x, axis=0)) / std(x, axis=0)",
    "x - mean(x)",
    "(x - max(x, axis=0)) / (max(x, axis=0) - min(x, axis=0) + 1)",
    "cumulative_sum(x, axis=0)",
    "cumulative_sum(v)",
    "cumulative_sum(x, axis=1)",
    "cumulative_prod(v * 0.01 + 1)",
    "cumulative_sum(x - mean(x, axis=0), axis=0)",
    "cumulative_sum(cumulative_sum(v))",
    "sum(cumulative_sum(x, axis=0), axis=0)",
    "x @ w",
    "relu(x @ w + 1)",
    "x.T @ y",
    "x.T @ v",
    "v @ x",
    "v @ v",
    "x @ (x.T @ y)",
    "(x.T @ x) @ w",
    "x * reshape(v, [-1, 1])",
    "x + expand_dims(v, 1) * arange(4)[0]",
    "one_hot(i, 10).T @ x",
    "take(b, i % 2) + v",
    "where(x > 0, x, y) + b",
    "concat([x, y], axis=1)",
    "stack([x, y], axis=1)",
    "pad(x, [[0, 0], [1, 2]])",
    "sum(z, axis=[0, 2])",
    "sum(z, axis=[0, 1])",
    "sum(z)",
    "max(z, axis=0)",
    "cumulative_sum(z, axis=0)",
    "cumulative_sum(z, axis=1)",
    "z @ w",
    "arange(size(v, 0)) * 1.5 + v",
    "sum(x, axis=0) + b",
    "x",
    "permute(z, [0, 2, 1]) + 1",
    "a = x * 2\noutput p = a + 1, q = sum(a, axis=0), r = max(a), s = cumulative_sum(a, axis=0)",
    "m = mean(x, axis=0)\noutput c = x - m, q = mean((x - m) ** 2, axis=0), t = m",
    "output o = x, p = x, q = x[:, ::-1]",
    "scan_pair(v)\nfold moments_of(x: float) -> (n, s) { lift = (1.0, x)\n join(a, b) = (a.n + b.n, a.s + "
    "b.s) }\n"
    "op scan_pair(x: float) = scan moments_of(x, axis=0)",
};

/* Rows of the axis that is cut are shifted, skipped, turned around, padded and joined. */
static const char *const moved[] = {
    "x[1:] - x[:-1]",
    "x[2:] - 2 * x[1:-1] + x[:-2]",
    "x[4:] + x[3:-1] * 2 + x[2:-2] * 3 + x[1:-3] * 4 + x[:-4]",
    "z[2:, 1:-1] + z[:-2, 1:-1] + z[1:-1, 2:] + z[1:-1, :-2] - 4 * z[1:-1, 1:-1]",
    "flip(x, axis=0)",
    "flip(x, axis=0) + x",
    "flip(x)",
    "x[::2]",
    "x[1::3] * 2",
    "x[::-2]",
    "x[60:][::-1][::2][1:]",
    "output p = x[::2], q = x + 1, r = x[5:]",
    "roll(x, 2, axis=0) + x",
    "roll(x, -5, axis=0)",
    "roll(softmax(x), 40, axis=0) - x",
    "pad(x, [[3, 2], [1, 0]])",
    "pad(x, [[300, 0], [0, 0]]) + 1",
    "pad(x[1:] - x[:-1], [[1, 2], [0, 0]]) * 2",
    "concat([x, y], axis=0)",
    "concat([y[-7:], x[:-7]], axis=0)",
    "concat([v, v[::-1], v[3:]], axis=0)",
    "softmax(x, axis=1)[2:] + x[:-2]",
    "mean(x[1:] * x[:-1], axis=0)",
    "sum(x[::-1], axis=0)",
    "sum(x[::3])",
    "argmax(x[3:], axis=0)",
    "output p = sum(x[7:], axis=0), q = sum(x, axis=0), r = max(x[::2], axis=0)",
    "cumulative_sum(x[1:], axis=0)",
    "cumulative_sum(x[::-1], axis=0)",
    "cumulative_sum(x, axis=0)[:-4]",
    "(arange(size(v, 0)) * v)[2:]",
    "arange(size(v, 0))[::-1] + v",
    "(arange(size(v, 0)) + v)[::-2] * 2",
    "x[1:].T @ y[:-1]",
    "x[2:] @ w",
    "(x[1:] - x[:-1]) / std(x[1:] - x[:-1], axis=0)",
    "sum(x, axis=1)[1:] - sum(x, axis=1)[:-1]",
    "var(x, axis=1)[2:] + var(x, axis=1)[:-2]",
    "cumulative_sum(x, axis=1)[3:] - x[:-3]",
    "one_hot(i, 10)[1:] - one_hot(i, 10)[:-1]",
    "take(b, i % 2)[1:] + v[:-1]",
    "where(x[1:] > x[:-1], x[1:], y[:-1])",
    "diff(x, axis=0)",
    "gradient(x, axis=0)",
    "triu(x)[1:] - tril(x)[:-1]",
    "x[:1] * 2",
    "output p = x[1:], q = x[1:], r = x[:-1]",
    ("output p = cumulative_sum(x, axis=0) - y - mean(y, axis=0), "
     "q = max(cumulative_sum(x, axis=0) - y - mean(y, axis=0))"),
};

/* The axis that is cut is transposed or looked up, or what runs along it is read out of step: run whole. */
static const char *const uncut[] = {"x.T + 1", "take(x, i % 3, axis=0) + x", "cumulative_sum(x, axis=0)[1:]",
                                    "x - cumulative_sum(x, axis=0)[90]"};

/* One row that all others use, wherever it stands in the chain. */
static const char *const of_one_row[] = {
    "x - x[0]",
    "x / x[-1] + x[7]",
    "v * v[3] - v[-2]",
    "exp(x) - exp(x)[5]",
    "softmax(x - mean(x, axis=0))[3] * x",
    "x * sum(x[50])",
    "x[0] + x[99]",
    "(x - x[0]) - (x - x[0])[77]",
    "cumulative_sum(x, axis=0) - x[80]",
    "cumulative_sum(x - x[4], axis=0)",
    "sum(x - x[17], axis=0)",
    "sum(x - x[17]) * x[3, 1]",
    "x - x[0, 1] * y[0]",
    "concat([x[0:1], x[1:] - x[:-1]], axis=0) - x[0]",
    "where(k == k[9], x, x[9])",
    "z - z[2]",
    "(x[1:] - x[:-1])[20] + x",
    "flip(x, axis=0)[1] - x",
    "x @ (w * x[3, 0]) + (x @ w)[8]",
    "argmax(x - x[0], axis=0) + k",
    "output p = x - x[0], q = x[0], r = sum(x - x[1], axis=1), s = x[0:1]",
};

static void all(sizes of, uint32_t chunk)
{
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) same(texts[i], of, chunk, true);
    for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) same(moved[i], of, chunk, true);
    for (size_t i = 0; i < sizeof of_one_row / sizeof *of_one_row; i++) same(of_one_row[i], of, chunk, true);
    for (size_t i = 0; i < sizeof uncut / sizeof *uncut; i++) same(uncut[i], of, chunk, false);
}

Test(region, narrow_rows)
{
    all((sizes){5000, 3}, 256);
}
Test(region, the_last_piece_is_short)
{
    all((sizes){1153, 8}, 128);
}
Test(region, one_piece)
{
    all((sizes){100, 6}, 128);
}
Test(region, whole_pieces)
{
    all((sizes){2048, 16}, 1024);
}
Test(region, long_pieces)
{
    all((sizes){9001, 5}, 4096);
}

/* The same answer within less memory than the whole run would take. */
/* i has numbers up to 8: where the first of more than 4 stands, as the whole run says it, and the same place
 * in its piece. */
Test(region, a_value_that_is_refused_is_found_by_its_piece)
{
    const sizes of = {40, 3};
    ppto_array *out = NULL;
    ppto_stats stats;
    size_t n = 0;
    long long whole = -1, at = -1, from = -1, to = -1;
    for (int pieces = 0; pieces < 2; pieces++) {
        ppto_context *ctx = make_context("serial", pieces ? 4 : 0);
        cr_assert_eq(evaluate(ctx, "take(w[:, 0] * 2, i)", of, &out, &n, &stats), PPTO_E_VALUE);
        const char *text = ppto_error_text(ctx), *place = strstr(text, "at position "),
                   *piece = strstr(text, "in the piece of rows ");
        cr_assert(place != NULL && (piece != NULL) == pieces, "%s", text);
        cr_expect(strstr(text, "of size M at position") && strstr(text, "; M = 3\n"), "%s", text);
        cr_expect_eq(sscanf(place, "at position %lld", pieces ? &at : &whole), 1);
        cr_expect(!pieces || sscanf(piece, "in the piece of rows %lld to %lld", &from, &to) == 2, "%s", text);
        cr_expect_eq(ppto_context_destroy(ctx), PPTO_OK);
    }
    cr_expect(whole == from + at && to == from + 3, "%lld, %lld in %lld to %lld", whole, at, from, to);
}

Test(region, a_limit_cuts_the_run)
{
    static const char *const over[] = {
        "sum(cumulative_sum(x, axis=1) @ w, axis=0)",
        "max(cumulative_sum(softmax(x @ w) @ w.T, axis=1) + y, axis=0)",
    };
    const sizes of = {60000, 8};
    for (size_t k = 0; k < 2; k++) {
        ppto_stats whole = {0}, cut = {0};
        ppto_array *a[8] = {NULL}, *b[8] = {NULL};
        ppto_comparison c = {0};
        size_t n;
        ppto_context *ctx = make_context("pthread", 0);
        cr_assert_eq(evaluate(ctx, over[k], of, a, &n, &whole), PPTO_OK, "%s", ppto_error_text(ctx));
        const uint64_t limit = whole.predicted_peak_bytes / 20 * 17;
        ppto_context *little = make_limited("pthread", 0, limit);
        cr_assert_eq(evaluate(little, over[k], of, b, &n, &cut), PPTO_OK, "%s", ppto_error_text(little));
        cr_expect_gt(cut.pieces, 1);
        cr_expect_leq(cut.measured_peak_bytes, limit);
        cr_expect_eq(ppto_compare(a[0], b[0], 0, 0, &c), PPTO_OK);
        cr_expect(c.equal, "%s", over[k]);
        ppto_array_release(a[0]);
        ppto_array_release(b[0]);
        ppto_context_destroy(ctx);
        ppto_context_destroy(little);
    }
}

Test(region, what_does_not_fit_names_who_prevents_it)
{
    const sizes of = {60000, 8};
    ppto_stats stats = {0};
    ppto_array *out[8] = {NULL};
    size_t n;
    ppto_context *ctx = make_context("serial", 0);
    cr_assert_eq(evaluate(ctx, "take(cumulative_sum(x, axis=1), i % 3, axis=0) @ w", of, out, &n, &stats),
                 PPTO_OK);
    ppto_context *little = make_limited("serial", 0, stats.predicted_peak_bytes - 1000);
    ppto_array_release(out[0]);
    out[0] = NULL;
    cr_expect_eq(evaluate(little, "take(cumulative_sum(x, axis=1), i % 3, axis=0) @ w", of, out, &n, &stats),
                 PPTO_E_LIMIT);
    const char *text = ppto_error_text(little);
    cr_expect(strstr(text, "because of take") && strstr(text, "the least limit that would do is"), "%s",
              text);
    cr_expect_null(out[0]);
    ppto_context_destroy(ctx);
    ppto_context_destroy(little);
}
