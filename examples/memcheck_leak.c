/* SPDX-License-Identifier: Apache-2.0
 * Finding who holds memory. The program below runs a small model and logs some of its results; the log keeps
 * a reference that nobody gives back. Memcheck names the operator that made the results, the line it was
 * recorded at, and the function that still holds them.
 *
 * Without a change to a program the same is told by:  PPTO_MEMCHECK=report ./program */
#include <stdio.h>
#include <string.h>

#include "ppto/ppto.h"

enum { STEPS = 6, ROWS = 512 };

static ppto_array *logged[STEPS];

static void log_step(int step, ppto_array *result)
{
    logged[step] = ppto_array_retain(result); /* for later; but nobody will ever ask */
}

static ppto_tensor *attention(ppto_tensor *x)
{
    return ppto_exp(ppto_mul(x, x));
}

static int train(ppto_context *ctx)
{
    const int64_t shape[] = {ROWS, ROWS};
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = attention(ppto_input(g, "x", PPTO_F32, "512, 512"));
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 2, shape, "uniform(0,1)", "x");
    ppto_status status = PPTO_OK;
    for (int step = 0; step < STEPS && status == PPTO_OK; step++) {
        ppto_array *result;
        status = ppto_eval(y, &result, "x", x, NULL);
        if (status != PPTO_OK) break;
        log_step(step, result);
        ppto_array_release(result);
        status = ppto_memcheck_mark(ctx, NULL); /* an epoch of the program: growth is measured over these */
    }
    if (status != PPTO_OK) fprintf(stderr, "%s\n", ppto_error_text(ctx));
    ppto_array_release(x);
    ppto_graph_destroy(g);
    return status == PPTO_OK ? 0 : 1;
}

/* What the report must say. */
static int check(ppto_context *ctx)
{
    char *text;
    if (ppto_memcheck_text(ctx, PPTO_REPORT_TEXT, &text) != PPTO_OK) {
        fprintf(stderr, "%s\n", ppto_error_text(ctx));
        return 1;
    }
    fputs(text, stdout);
    static const char *const words[] = {"growing",     "exp",        "attention()",
                                        "user_handle", "log_step()", "1 growing"};
    int missing = 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(text, words[i]) == NULL) {
            fprintf(stderr, "the report does not say %s\n", words[i]);
            missing = 1;
        }
    ppto_text_free(text);
    return missing;
}

int main(void)
{
    ppto_options options = PPTO_OPTIONS_INIT;
    ppto_context *ctx;
    options.memcheck_level = 1;
    if (ppto_context_create(&ctx, &options) != PPTO_OK) return 1;
    int failed = train(ctx);
    if (failed == 0) failed = check(ctx);
    for (int i = 0; i < STEPS; i++) ppto_array_release(logged[i]); /* the mend */
    ppto_context_destroy(ctx);
    return failed;
}
