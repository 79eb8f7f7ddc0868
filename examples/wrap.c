/* SPDX-License-Identifier: Apache-2.0
 * Memory of the caller, used where it lies: every second column of a matrix, read backwards, without a copy.
 */
#include <ppto/ppto.h>
#include <stdio.h>

enum { ROWS = 4, COLUMNS = 6 };

static void released(void *arg, void *data)
{
    (void)data;
    *(int *)arg += 1;
}

int main(void)
{
    float matrix[ROWS][COLUMNS];
    int releases = 0;
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < COLUMNS; k++) matrix[i][k] = (float)(10 * i + k);

    ppto_context *ctx = NULL;
    if (ppto_context_create(&ctx, NULL) != PPTO_OK) return 1;
    int64_t shape[2] = {ROWS, COLUMNS / 2};
    int64_t strides[2] = {sizeof matrix[0], -2 * (int64_t)sizeof(float)};
    ppto_array *view =
        ppto_array_wrap(ctx, &matrix[0][COLUMNS - 1], PPTO_F32, 2, shape, strides, released, &releases);

    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "M, N");
    ppto_array *sums = NULL;
    ppto_status status = ppto_eval(ppto_sum(x, 1), &sums, "x", view, NULL);
    bool right = status == PPTO_OK;
    for (int i = 0; right && i < ROWS; i++)
        right = ((const float *)ppto_array_data(sums))[i] == (float)(30 * i + 9);
    if (status != PPTO_OK) fprintf(stderr, "%s\n", ppto_error_text(ctx));

    ppto_array_release(sums);
    ppto_array_release(view);
    ppto_graph_destroy(g);
    ppto_context_destroy(ctx);
    printf("sums of columns 5, 3, 1: %s; released %d time\n", right ? "right" : "wrong", releases);
    return right && releases == 1 ? 0 : 1;
}
