/* SPDX-License-Identifier: Apache-2.0
 * Two ways to the same values, compared: exactly, then with a tolerance. Softmax without subtracting the
 * maximum rounds differently, and overflows where the numbers are large; ppto_compare names the first and the
 * worst place. */
#include <ppto/ppto.h>
#include <stdio.h>

static ppto_status run(ppto_context *ctx, const char *text, ppto_array *x, ppto_array **out)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_input(g, "x", PPTO_F32, "M, N");
    ppto_status status = ppto_eval(ppto_expr(g, text), out, "x", x, NULL);
    ppto_graph_destroy(g);
    return status;
}

static void show(const char *how, const ppto_comparison *c)
{
    if (c->equal) {
        printf("%s: equal\n", how);
        return;
    }
    printf("%s: %lld elements differ, the first at %lld, the worst at %lld (%.9g against %.9g)\n", how,
           (long long)c->different, (long long)c->first, (long long)c->worst, c->worst_a, c->worst_b);
}

int main(void)
{
    ppto_context *ctx = NULL;
    int64_t shape[2] = {200, 300};
    ppto_array *a = NULL, *b = NULL;
    ppto_comparison exact = {0}, close = {0};
    if (ppto_context_create(&ctx, NULL) != PPTO_OK) return 1;
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 2, shape, "uniform(-5, 5, 3)", "x");
    ppto_status status = run(ctx, "softmax(x, axis=1)", x, &a);
    if (status == PPTO_OK) status = run(ctx, "exp(x) / sum(exp(x), axis=1, keepdims=true)", x, &b);
    if (status == PPTO_OK) status = ppto_compare(a, b, 0, 0, &exact);
    if (status == PPTO_OK) status = ppto_compare(a, b, 1e-5, 1e-8, &close);
    if (status != PPTO_OK)
        fprintf(stderr, "%s\n", ppto_error_text(ctx));
    else
        show("bit by bit", &exact), show("within 1e-5", &close);
    ppto_array_release(a);
    ppto_array_release(b);
    ppto_array_release(x);
    ppto_context_destroy(ctx);
    return status == PPTO_OK && close.equal && !exact.equal ? 0 : 1;
}
