/* SPDX-License-Identifier: Apache-2.0
 * Operators of one's own, as text: checked, inferred and fused like the shipped ones. A wrong call fails
 * where it is written, with the operator, the operands and the rule. */
#include <ppto/ppto.h>
#include <stdio.h>
#include <string.h>

static const char own[] = "## x moved softly into -limit … limit.\n"
                          "## Shape: that of x.\n"
                          "op soft_limit(x: float, limit: float = 1.0) = limit * tanh(x / limit)\n"
                          "## Mean and spread of every row.\n"
                          "op row_summary(x: float[m, n]) {\n"
                          "    require n > 1, \"row_summary needs at least two columns\"\n"
                          "    mean(x, 1), std(x, 1)\n"
                          "}\n";

static ppto_status use(ppto_context *ctx)
{
    int64_t shape[2] = {1000, 200};
    ppto_array *ax = ppto_array_fill(ctx, PPTO_F32, 2, shape, "uniform(-3, 3, 1)", "x"),
               *out[2] = {NULL, NULL};
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "M, 200");
    ppto_tensor *soft = ppto_op(g, "soft_limit", "limit=2", x), *summary[2];
    ppto_status status = ppto_opn_at(PPTO_HERE, g, "row_summary", NULL, 1, &soft, 2, summary);
    if (status == PPTO_OK) status = ppto_evaln(2, summary, out, 1, (const char *[]){"x"}, &ax);
    if (status == PPTO_OK) {
        float lowest = 2;
        for (int i = 0; i < 1000; i++) {
            float spread = ((const float *)ppto_array_data(out[1]))[i];
            lowest = spread < lowest ? spread : lowest;
        }
        printf("%s and %s; the least spread of a row is %.3f\n", ppto_tensor_type(summary[0]),
               ppto_tensor_type(summary[1]), (double)lowest);
        if (lowest <= 0) status = PPTO_E_VALUE;
    } else {
        fprintf(stderr, "%s\n", ppto_error_text(ctx));
    }
    ppto_array_release(out[0]);
    ppto_array_release(out[1]);
    ppto_array_release(ax);
    ppto_graph_destroy(g);
    return status;
}

/* One column is too few: the call itself fails and says so. */
static bool fails_as_it_should(ppto_context *ctx)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "M, 1"), *summary[2];
    ppto_status status = ppto_opn_at(PPTO_HERE, g, "row_summary", NULL, 1, &x, 2, summary);
    printf("a wrong call says:\n%s\n", ppto_graph_error_text(g));
    bool says = status != PPTO_OK && strstr(ppto_graph_error_text(g), "at least two columns") != NULL;
    ppto_graph_destroy(g);
    return says;
}

int main(void)
{
    ppto_context *ctx = NULL;
    if (ppto_context_create(&ctx, NULL) != PPTO_OK) return 1;
    ppto_status status = ppto_define(ctx, own);
    if (status != PPTO_OK) fprintf(stderr, "%s\n", ppto_error_text(ctx));
    bool right = status == PPTO_OK && use(ctx) == PPTO_OK && fails_as_it_should(ctx);
    ppto_context_destroy(ctx);
    return right ? 0 : 1;
}
