/* SPDX-License-Identifier: Apache-2.0
 * Where does the time go? A trace of a few runs: a table of kernels on standard output, and the same as a
 * picture when a file is named.
 *
 * usage: timeline [FILE.svg] */
#include <ppto/ppto.h>
#include <stdio.h>

enum { RUNS = 5, ROWS = 400, COLUMNS = 300 };

static ppto_program *compile(ppto_context *ctx)
{
    const int64_t shape[] = {ROWS, COLUMNS};
    ppto_program *program = NULL;
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N, M");
    ppto_tensor *y = ppto_softmax(ppto_matmul(x, ppto_transpose(x, 1, 0)));
    ppto_array *data = ppto_array_fill(ctx, PPTO_F32, 2, shape, "random(1)", "x");
    if (ppto_compile(1, &y, &program) == PPTO_OK) ppto_program_bind(program, 0, data);
    ppto_array_release(data);
    ppto_graph_destroy(g);
    return program;
}

static ppto_status draw(ppto_trace *trace, const char *path)
{
    char *picture = NULL;
    size_t n = 0;
    ppto_status status = ppto_trace_write(trace, PPTO_TRACE_TIMELINE, &picture, &n);
    FILE *to = status == PPTO_OK ? fopen(path, "wb") : NULL;
    if (to != NULL) fwrite(picture, 1, n, to);
    if (to != NULL && fclose(to) == 0) printf("drawn to %s\n", path);
    ppto_text_free(picture);
    return status;
}

int main(int argc, char **argv)
{
    ppto_context *ctx = NULL;
    ppto_trace *trace = NULL;
    char *table = NULL;
    ppto_trace_counts counts = {.size = sizeof counts};
    if (ppto_context_create(&ctx, NULL) != PPTO_OK) return 1;
    ppto_program *program = compile(ctx);
    ppto_status status = program != NULL ? ppto_trace_create(ctx, NULL, &trace) : ppto_error_status(ctx);
    if (status == PPTO_OK) status = ppto_program_trace(program, trace, "similarities");
    for (int i = 0; status == PPTO_OK && i < RUNS; i++) {
        ppto_array *y = NULL;
        status = ppto_program_run(program, &y);
        ppto_array_release(y);
    }
    if (status == PPTO_OK) status = ppto_trace_steps(trace, false, &table);
    if (status == PPTO_OK) status = ppto_trace_count(trace, &counts);
    if (status == PPTO_OK) printf("%s", table);
    if (status == PPTO_OK && argc > 1) status = draw(trace, argv[1]);
    if (status != PPTO_OK) fprintf(stderr, "%s\n", ppto_error_text(ctx));
    ppto_text_free(table);
    ppto_program_destroy(program);
    ppto_trace_destroy(trace);
    ppto_context_destroy(ctx);
    return status == PPTO_OK && counts.runs == RUNS && counts.dropped == 0 ? 0 : 1;
}
