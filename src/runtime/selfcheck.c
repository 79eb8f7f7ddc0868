/* SPDX-License-Identifier: Apache-2.0
 * ppto_selfcheck: chains on the context's device against the reference device, bit by bit. They are chosen so
 * that each frame, law and kind of access of the kernel programs is met once, with sizes that are no multiple
 * of any block. */
#include <string.h>

#include "runtime/report.h"

/* Over x: f32[37, 131], y: f32[131, 29], n: i32[37, 131], v: f32[9001]. */
static const char *const chains[] = {
    "x * 2 - 1 / (x + 3)",
    "sin(x) * exp(-x) + erf(x)",
    "where(n > 3, x, -x) ** 2",
    "n // 3 + n % 5 - (n << 2)",
    "astype(x * 100, i16) + astype(n, i64)",
    "x.T[::-1, 3:] + 1",
    "pad(x, [[2, 1], [0, 3]]) * 2",
    "concat([x, x[1:, :] * 2], axis=0)",
    "take(x, n[0, :7], axis=1)",
    "sum(x)",
    "sum(x * x, axis=0)",
    "max(x, axis=1) - mean(x, axis=1)",
    "var(v) + argmax(v)",
    "softmax(x, axis=1)",
    "softmax(x, axis=0)",
    "cumulative_sum(v)",
    "x @ y",
    "relu(x @ y - 30) * sum(y, axis=0)",
};
enum { CHAINS = sizeof chains / sizeof chains[0], INPUTS = 4 };

static const struct {
    const char *name, *dims, *filler;
    ppto_dtype dtype;
    int rank;
    int64_t shape[2];
} inputs[INPUTS] = {
    {"x", "37, 131", "uniform(-2, 2, 1)", PPTO_F32, 2, {37, 131}},
    {"y", "131, 29", "uniform(0, 1, 2)", PPTO_F32, 2, {131, 29}},
    {"n", "37, 131", "integers(0, 9, 3)", PPTO_I32, 2, {37, 131}},
    {"v", "9001", "uniform(-3, 3, 4)", PPTO_F32, 1, {9001, 0}},
};

/* The chain's value on a context, or NULL. Results are arrays of the context: released before it goes. */
static ppto_array *compute(ppto_context *ctx, const char *text)
{
    const char *names[INPUTS];
    ppto_array *array[INPUTS] = {NULL}, *out = NULL;
    ppto_graph *g = ppto_graph_create(ctx);
    bool made = g != NULL;
    for (int i = 0; made && i < INPUTS; i++) {
        names[i] = inputs[i].name;
        array[i] = ppto_array_fill(ctx, inputs[i].dtype, inputs[i].rank, inputs[i].shape, inputs[i].filler,
                                   names[i]);
        made = array[i] && ppto_input(g, names[i], inputs[i].dtype, inputs[i].dims);
    }
    ppto_tensor *z = made ? ppto_expr(g, text) : NULL;
    if (z) ppto_evaln(1, &z, &out, INPUTS, names, array);
    for (int i = 0; i < INPUTS; i++) ppto_array_release(array[i]);
    ppto_graph_destroy(g);
    return out;
}

static bool check(ppto_context *ctx, ppto_context *reference, const char *text, pp_text *out)
{
    ppto_comparison c = {0};
    ppto_array *a = compute(ctx, text), *b = a ? compute(reference, text) : NULL;
    bool same = a && b && ppto_compare(a, b, 0, 0, &c) == PPTO_OK && c.equal;
    if (same)
        pp_text_add(out, "ok      %s\n", text);
    else if (!a || !b)
        pp_text_add(out, "FAILED  %s: %s\n", text, ppto_error_text(NULL));
    else
        pp_text_add(out, "FAILED  %s: %lld elements differ, the first at %lld: %.17g, expected %.17g\n", text,
                    (long long)c.different, (long long)c.first, c.first_a, c.first_b);
    ppto_array_release(a);
    ppto_array_release(b);
    return same;
}

ppto_status ppto_selfcheck(ppto_context *ctx, char **text)
{
    pp_error err = {0};
    pp_text out = {0};
    ppto_options options = PPTO_OPTIONS_INIT;
    ppto_context *reference = NULL;
    int failed = 0;
    if (!text) return pp_report_new(PPTO_E_VALUE, "ppto_selfcheck: text is NULL");
    *text = NULL;
    if (pp_context_device(ctx, &err) != PPTO_OK) return pp_report(&err);
    options.device = "reference";
    options.executor = "serial";
    options.threads = 1;
    options.log_level = -1;
    PP_TRY(ppto_context_create(&reference, &options));
    for (int i = 0; i < CHAINS; i++) failed += !check(ctx, reference, chains[i], &out);
    ppto_context_destroy(reference);
    pp_text_add(&out, "%d of %d chains give the bits of the reference device on %s (%s)\n", CHAINS - failed,
                CHAINS, ctx->device_class->name, ctx->device_class->describe(ctx->device));
    PP_TRY(pp_report_give(&out, text));
    return failed
               ? pp_report_new(PPTO_E_DEVICE, "selfcheck: %d of %d chains differ from the reference device",
                               failed, CHAINS)
               : PPTO_OK;
}
