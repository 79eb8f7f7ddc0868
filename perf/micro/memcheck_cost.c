/* SPDX-License-Identifier: Apache-2.0
 * Small programs that are counted with memcheck and without: perf/memcheck_cost.py.
 *
 *   memcheck_cost PROGRAM LEVEL RUNS
 *
 * Every run of these makes its results anew and gives them back, as a caller in a loop does:
 *   map      five operators on 65,536 elements        rows     softmax of 256 x 1024
 *   layers   four products of 64 x 64 with biases     tiny     ten operators on 64 elements: mostly overhead
 *   fresh    a graph recorded, compiled and run: 20 operators on 4,096 elements
 * Exit status 1 when the library failed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ppto/ppto.h"

typedef struct work {
    const char *name, *dims, *text;
    int rank;
    int64_t shape[2];
    bool fresh; /* recorded for every run */
} work;

static const work works[] = {
    {"map", "N", "exp(x * 2 + 1) * sin(x) - x", 1, {65536, 0}, false},
    {"rows", "N, M", "softmax(x)", 2, {256, 1024}, false},
    {"layers", "64, 64", "tanh(tanh(tanh(tanh(x @ x + 1) @ x + 1) @ x + 1) @ x + 1)", 2, {64, 64}, false},
    {"tiny", "N", "sqrt(abs(((((x + 1) * 2 - 3) * 4 + 5) * 6 - 7) * 8))", 1, {64, 0}, false},
    {"fresh",
     "N",
     "exp(x) + sin(x) * cos(x) - sqrt(abs(x)) / (1 + x * x) + tanh(x) * (x - 1) + log(2 + x * x)",
     1,
     {4096, 0},
     true},
};

static ppto_program *compile(ppto_context *ctx, const work *w, ppto_array *x, ppto_graph **graph)
{
    ppto_program *p = NULL;
    *graph = ppto_graph_create(ctx);
    (void)ppto_input(*graph, "x", PPTO_F32, w->dims);
    ppto_tensor *y = ppto_expr(*graph, w->text);
    if (ppto_compile(1, &y, &p) == PPTO_OK) (void)ppto_program_bind(p, 0, x);
    return p;
}

static ppto_status run(ppto_context *ctx, const work *w, ppto_array *x, long runs)
{
    ppto_graph *graph = NULL;
    ppto_program *p = w->fresh ? NULL : compile(ctx, w, x, &graph);
    ppto_status status = PPTO_OK;
    for (long i = 0; i < runs && status == PPTO_OK; i++) {
        ppto_array *y = NULL;
        if (w->fresh) p = compile(ctx, w, x, &graph);
        status = ppto_program_run(p, &y);
        ppto_array_release(y);
        if (!w->fresh) continue;
        ppto_program_destroy(p);
        ppto_graph_destroy(graph);
    }
    if (w->fresh) return status;
    ppto_program_destroy(p);
    ppto_graph_destroy(graph);
    return status;
}

int main(int argc, char **argv)
{
    const work *w = NULL;
    ppto_context *ctx;
    for (size_t i = 0; argc == 4 && i < sizeof works / sizeof works[0]; i++)
        if (strcmp(argv[1], works[i].name) == 0) w = &works[i];
    if (w == NULL) return 2;
    ppto_options options = PPTO_OPTIONS_INIT;
    options.executor = "serial";
    options.memcheck_level = atoi(argv[2]);
    if (ppto_context_create(&ctx, &options) != PPTO_OK) return 1;
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, w->rank, w->shape, "uniform(0,1)", "x");
    ppto_status status = run(ctx, w, x, atol(argv[3]));
    if (status != PPTO_OK) fprintf(stderr, "%s: %s\n", w->name, ppto_error_text(ctx));
    ppto_array_release(x);
    (void)ppto_context_destroy(ctx);
    return status != PPTO_OK;
}
