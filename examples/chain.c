/* SPDX-License-Identifier: Apache-2.0
 * A first chain: operators only record; ppto_eval fuses, plans, runs and waits. Without arguments it makes
 * its own data: chain [X.npy Y.npy Z.npy] */
#include <ppto/ppto.h>
#include <stdio.h>

static ppto_array *data(ppto_context *ctx, const char *path, int64_t columns, const char *name)
{
    int64_t shape[2] = {300, columns};
    return path ? ppto_array_load(ctx, path) : ppto_array_fill(ctx, PPTO_F32, 2, shape, "random(7)", name);
}

int main(int argc, char **argv)
{
    ppto_context *ctx = NULL;
    if (ppto_context_create(&ctx, NULL) != PPTO_OK) { /* NULL: defaults from the environment */
        fprintf(stderr, "%s\n", ppto_error_text(NULL));
        return 1;
    }
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N, 512"); /* N is a named size */
    ppto_tensor *y = ppto_input(g, "y", PPTO_F32, "N, 256");

    /* operators only record; the graph owns the nodes, nested calls free nothing */
    ppto_tensor *z = ppto_mul(ppto_sin(ppto_sum(x, 1)), ppto_exp(ppto_transpose(y, 1, 0)));
    /* the same as text */
    ppto_tensor *same = ppto_expr(g, "sin(sum(x, axis=1)) * exp(transpose(y, [1, 0]))");

    ppto_array *ax = data(ctx, argc == 4 ? argv[1] : NULL, 512, "x");
    ppto_array *ay = data(ctx, argc == 4 ? argv[2] : NULL, 256, "y");
    ppto_array *out = NULL, *other = NULL;
    ppto_comparison c = {0};
    ppto_status status = ppto_eval(z, &out, "x", ax, "y", ay, NULL);
    if (status == PPTO_OK) status = ppto_eval(same, &other, "x", ax, "y", ay, NULL);
    if (status == PPTO_OK) status = ppto_compare(out, other, 0, 0, &c);
    if (status == PPTO_OK && argc == 4) status = ppto_array_save(out, argv[3]);
    if (status != PPTO_OK)
        fprintf(stderr, "%s\n", ppto_error_text(ctx));
    else
        printf("%s, %d elements differ from the text's\n", ppto_tensor_type(z), (int)c.different);

    ppto_array_release(ax);
    ppto_array_release(ay);
    ppto_array_release(out);
    ppto_array_release(other);
    ppto_graph_destroy(g);
    ppto_context_destroy(ctx);
    return status == PPTO_OK && c.equal ? 0 : 1;
}
