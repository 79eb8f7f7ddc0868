/* SPDX-License-Identifier: Apache-2.0
 * What the library itself costs, apart from the elements: one JSON object per line on stdout.
 *
 *   latency [THREADS [TEXT]]   THREADS: workers of the context, default all the machine allows
 *                              TEXT: of x and y, for `shapes`
 *
 * cached-chain    one run of a program that is bound already: 10 operators on 64 elements
 * anew-chain      the same chain recorded, looked up, run into a new array and given back, each time
 * first-result    record, plan, compile and run a chain of 10 operators no plan exists for, in a warm process
 * first-text      the same from the text of a chain of functions, on 4096 elements (peers get that)
 *
 * shapes          one such chain (or TEXT), recorded and compiled once, with 100 lengths, each the first of
 * its kind; no kernel may be made again
 *
 * record          one node of a chain of 10,000 operators
 *
 * context-create  a context, created and destroyed; then also with the first result of `1 + 1` in it
 *
 * Every line has the least and the median of many samples: the least is what the code costs, the median what
 * this machine made of it. Exit status 1 when the library failed or gave a wrong number. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ppto/ppto.h"

enum { ELEMENTS = 64, OPERATORS = 10, NODES = 10000, MAX_SAMPLES = 400, SHAPES = 100, TEXT_ROOM = 512 };

typedef struct samples {
    double at[MAX_SAMPLES];
    size_t n;
} samples;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void fail(ppto_context *ctx, const char *what)
{
    fprintf(stderr, "latency: %s: %s\n", what, ppto_error_text(ctx));
    exit(1);
}

static void expect(ppto_context *ctx, bool good, const char *what)
{
    if (!good) fail(ctx, what);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* One line; the times are seconds, `scale` units of them. target: in these units, 0 for none. */
static void report(const char *name, const char *unit, double scale, double target, samples *s)
{
    qsort(s->at, s->n, sizeof *s->at, by_value);
    printf("{\"benchmark\": \"%s\", \"unit\": \"%s\", \"min\": %.4g, \"median\": %.4g, ", name, unit,
           s->at[0] * scale, s->at[s->n / 2] * scale);
    if (target > 0) printf("\"target\": %.4g, ", target);
    printf("\"samples\": %zu}\n", s->n);
}

static ppto_context *new_context(int threads)
{
    ppto_options options = PPTO_OPTIONS_INIT;
    ppto_context *ctx = NULL;
    options.threads = threads;
    if (ppto_context_create(&ctx, &options) != PPTO_OK) fail(NULL, "context");
    return ctx;
}

static const char usual_text[] =
    "(((((sqrt(abs(x - 0.36 + y + y)) - y) + y) + 0.86) + 0.6) - y)"; /* ten operators */

/* ---- a cached chain ------------------------------------------------------------------------------------ */

static ppto_tensor *chain(ppto_graph *graph)
{
    ppto_tensor *x = ppto_input(graph, "x", PPTO_F32, "N"), *y = ppto_input(graph, "y", PPTO_F32, "N");
    ppto_tensor *z = ppto_sub(ppto_mul(ppto_add(ppto_mul(x, y), x), y), x);
    return ppto_abs(ppto_sub(ppto_mul(ppto_add(ppto_mul(z, y), x), y), ppto_sqrt(x)));
}

static void cached_chain(ppto_context *ctx)
{
    enum { RUNS = 500, BATCHES = 200 };
    const int64_t shape[] = {ELEMENTS};
    samples s = {.n = BATCHES};
    ppto_graph *graph = ppto_graph_create(ctx);
    ppto_tensor *root = chain(graph);
    ppto_program *program = NULL;
    expect(ctx, ppto_compile(1, &root, &program) == PPTO_OK, "compile");
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, shape, "uniform(0.1,1)", "x");
    ppto_array *y = ppto_array_fill(ctx, PPTO_F32, 1, shape, "uniform(0.1,1)", "y");
    ppto_array *out = ppto_array_create(ctx, PPTO_F32, 1, shape);
    expect(ctx, x != NULL && y != NULL && out != NULL, "arrays");
    expect(ctx, ppto_program_bind_name(program, "x", x) == PPTO_OK, "bind");
    expect(ctx, ppto_program_bind_name(program, "y", y) == PPTO_OK, "bind");
    expect(ctx, ppto_program_bind_output(program, 0, out) == PPTO_OK, "bind the output");
    for (size_t i = 0; i < BATCHES; i++) {
        const double start = now();
        for (int r = 0; r < RUNS; r++) expect(ctx, ppto_program_run(program, NULL) == PPTO_OK, "run");
        s.at[i] = (now() - start) / RUNS;
    }
    report("cached-chain", "us", 1e6, 0.5, &s);
    ppto_array_release(out);
    ppto_array_release(y);
    ppto_array_release(x);
    ppto_program_destroy(program);
    ppto_graph_destroy(graph);
}

static void one_anew(ppto_context *ctx, ppto_array *x, ppto_array *y)
{
    ppto_array *out = NULL;
    ppto_graph *graph = ppto_graph_create(ctx);
    expect(ctx, ppto_eval(chain(graph), &out, "x", x, "y", y, NULL) == PPTO_OK, "eval");
    ppto_array_release(out);
    ppto_graph_destroy(graph);
}

static void anew_chain(ppto_context *ctx)
{
    enum { RUNS = 50, BATCHES = 100 };
    const int64_t shape[] = {ELEMENTS};
    samples s = {.n = BATCHES};
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, shape, "uniform(0.1,1)", "x");
    ppto_array *y = ppto_array_fill(ctx, PPTO_F32, 1, shape, "uniform(0.1,1)", "y");
    expect(ctx, x != NULL && y != NULL, "arrays");
    for (size_t i = 0; i < BATCHES; i++) {
        const double start = now();
        for (int r = 0; r < RUNS; r++) one_anew(ctx, x, y);
        s.at[i] = (now() - start) / RUNS;
    }
    report("anew-chain", "us", 1e6, 3, &s);
    ppto_array_release(y);
    ppto_array_release(x);
}

/* ---- a first result ------------------------------------------------------------------------------------ */

/* The digits of `number` in base 4 choose the operators, so no two numbers make one chain. */
static ppto_tensor *new_chain(ppto_graph *graph, unsigned number)
{
    ppto_tensor *x = ppto_input(graph, "x", PPTO_F32, "N"), *y = ppto_input(graph, "y", PPTO_F32, "N");
    ppto_tensor *z = x;
    for (int i = 0; i < OPERATORS; i++, number /= 4) {
        switch (number % 4) {
        case 0: z = ppto_add(z, y); break;
        case 1: z = ppto_mul(z, y); break;
        case 2: z = ppto_sub(x, z); break;
        default: z = ppto_maximum(z, y); break;
        }
    }
    return z;
}

static double one_first_result(ppto_context *ctx, unsigned number, ppto_array *x, ppto_array *y)
{
    ppto_array *out = NULL;
    const double start = now();
    ppto_graph *graph = ppto_graph_create(ctx);
    ppto_tensor *root = new_chain(graph, number);
    const ppto_status status = ppto_eval(root, &out, "x", x, "y", y, NULL);
    const double seconds = now() - start;
    expect(ctx, status == PPTO_OK, "eval");
    ppto_array_release(out);
    ppto_graph_destroy(graph);
    return seconds;
}

static void first_result(ppto_context *ctx)
{
    enum { WARM = 50, SAMPLES = 300, STEP = 2654435 };
    const int64_t shape[] = {ELEMENTS};
    samples s = {.n = SAMPLES};
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, shape, "uniform(0.1,1)", "x");
    ppto_array *y = ppto_array_fill(ctx, PPTO_F32, 1, shape, "uniform(0.1,1)", "y");
    expect(ctx, x != NULL && y != NULL, "arrays");
    for (unsigned i = 0; i < WARM + SAMPLES; i++) {
        const double seconds = one_first_result(ctx, i * STEP % 1048573u, x, y);
        if (i >= WARM) s.at[i - WARM] = seconds;
    }
    report("first-result", "us", 1e6, 100, &s);
    ppto_array_release(y);
    ppto_array_release(x);
}

/* ---- texts and shapes ---------------------------------------------------------------------------------- */

/* A chain of ten operators of the kind that perf/peer_worker.py makes; `number` chooses constants and
 * functions. */
static void write_chain(unsigned number, size_t room, char *text)
{
    static const char *const forms[] = {"(%s + y)",      "(%s - %.6f)", "(%s * y)",    "(%s * %.6f)",
                                        "sqrt(abs(%s))", "sin(%s)",     "(%s + %.6f)", "(%s - y)"};
    unsigned state = number * 2654435761u + 1;
    char inner[TEXT_ROOM] = "x";
    for (int i = 0; i < OPERATORS; i++) {
        state = state * 1664525u + 1013904223u;
        snprintf(text, room, forms[state >> 29], inner, 0.1 + 0.8 * (state >> 8) / 16777216.0);
        i += (state >> 29) == 4;
        memcpy(inner, text, room);
    }
}

/* x and y of so many elements in 0.1 to 1. */
static void make_pair(ppto_context *ctx, int64_t length, ppto_array *pair[2])
{
    pair[0] = ppto_array_fill(ctx, PPTO_F32, 1, &length, "uniform(0.1,1)", "x");
    pair[1] = ppto_array_fill(ctx, PPTO_F32, 1, &length, "uniform(0.1,1)", "y");
    expect(ctx, pair[0] != NULL && pair[1] != NULL, "arrays");
}

static double one_first_text(ppto_context *ctx, const char *text, ppto_array *pair[2])
{
    ppto_array *out = NULL;
    const double start = now();
    ppto_graph *graph = ppto_graph_create(ctx);
    ppto_input(graph, "x", PPTO_F32, "N");
    ppto_input(graph, "y", PPTO_F32, "N");
    const ppto_status status = ppto_eval(ppto_expr(graph, text), &out, "x", pair[0], "y", pair[1], NULL);
    const double seconds = now() - start;
    expect(ctx, status == PPTO_OK, text);
    ppto_array_release(out);
    ppto_graph_destroy(graph);
    return seconds;
}

static void first_text(ppto_context *ctx)
{
    enum { WARM = 50, SAMPLES = 300 };
    samples s = {.n = SAMPLES};
    char text[TEXT_ROOM];
    ppto_array *pair[2];
    make_pair(ctx, 4096, pair);
    for (unsigned i = 0; i < WARM + SAMPLES; i++) {
        write_chain(i, sizeof text, text);
        const double seconds = one_first_text(ctx, text, pair);
        if (i >= WARM) s.at[i - WARM] = seconds;
    }
    report("first-text", "us", 1e6, 0, &s);
    ppto_array_release(pair[0]);
    ppto_array_release(pair[1]);
}

/* Runs it with each pair; returns how many kernels were made. */
static uint64_t run_shapes(ppto_context *ctx, const char *text, ppto_array *pairs[SHAPES][2])
{
    ppto_stats stats = {.size = sizeof stats};
    ppto_program *program = NULL;
    ppto_graph *graph = ppto_graph_create(ctx);
    ppto_input(graph, "x", PPTO_F32, "N");
    ppto_input(graph, "y", PPTO_F32, "N");
    ppto_tensor *root = ppto_expr(graph, text);
    expect(ctx, ppto_compile(1, &root, &program) == PPTO_OK, text);
    for (int i = 0; i < SHAPES; i++) {
        ppto_array *out = NULL;
        expect(ctx, ppto_program_bind_name(program, "x", pairs[i][0]) == PPTO_OK, "bind");
        expect(ctx, ppto_program_bind_name(program, "y", pairs[i][1]) == PPTO_OK, "bind");
        expect(ctx, ppto_program_run(program, &out) == PPTO_OK, "run");
        ppto_array_release(out);
    }
    expect(ctx, ppto_program_stats(program, &stats) == PPTO_OK, "statistics");
    ppto_program_destroy(program);
    ppto_graph_destroy(graph);
    return stats.kernel_misses;
}

static void one_and_one(ppto_context *ctx)
{
    ppto_graph *graph = ppto_graph_create(ctx);
    ppto_array *out = NULL;
    expect(ctx, ppto_eval(ppto_expr(graph, "1.0 + 1.0"), &out, NULL) == PPTO_OK, "1 + 1");
    ppto_array_release(out);
    ppto_graph_destroy(graph);
}

/* Each sample in a context of its own, which has seen nothing but 1 + 1. */
static void shapes(int threads, const char *text)
{
    enum { SAMPLES = 15 };
    samples s = {.n = SAMPLES};
    for (unsigned i = 0; i < SAMPLES; i++) {
        ppto_context *ctx = new_context(threads);
        ppto_array *pairs[SHAPES][2];
        one_and_one(ctx);
        for (int k = 0; k < SHAPES; k++) make_pair(ctx, 1000 + 200 * k, pairs[k]);
        const double start = now();
        const uint64_t kernels = run_shapes(ctx, text, pairs);
        s.at[i] = now() - start;
        expect(ctx, kernels == 1, "a kernel for another shape");
        for (int k = 0; k < 2 * SHAPES; k++) ppto_array_release(pairs[k / 2][k % 2]);
        ppto_context_destroy(ctx);
    }
    report("shapes", "ms", 1e3, 0, &s);
}

/* ---- recording ----------------------------------------------------------------------------------------- */

static void record(ppto_context *ctx)
{
    enum { SAMPLES = 40 };
    samples s = {.n = SAMPLES};
    for (size_t i = 0; i < SAMPLES; i++) {
        ppto_graph *graph = ppto_graph_create(ctx);
        ppto_tensor *x = ppto_input(graph, "x", PPTO_F32, "N"), *z = x;
        const double start = now();
        for (int n = 0; n < NODES; n++) z = n % 2 != 0 ? ppto_add(z, x) : ppto_mul(z, x);
        s.at[i] = (now() - start) / NODES;
        expect(ctx, ppto_graph_error(graph) == PPTO_OK && z != NULL, "record");
        ppto_graph_destroy(graph);
    }
    report("record", "ns per node", 1e9, 100, &s);
}

/* ---- contexts ------------------------------------------------------------------------------------------ */

static void contexts(int threads)
{
    enum { SAMPLES = 40 };
    samples created = {.n = SAMPLES}, used = {.n = SAMPLES};
    for (size_t i = 0; i < SAMPLES; i++) {
        const double start = now();
        ppto_context *ctx = new_context(threads);
        created.at[i] = now() - start;
        one_and_one(ctx);
        used.at[i] = now() - start;
        ppto_context_destroy(ctx);
    }
    report("context-create", "ms", 1e3, 2, &created);
    report("context-first-result", "ms", 1e3, 0, &used);
}

int main(int argc, char **argv)
{
    const int threads = argc > 1 ? atoi(argv[1]) : 0;
    ppto_context *ctx = new_context(threads);
    cached_chain(ctx);
    anew_chain(ctx);
    first_result(ctx);
    first_text(ctx);
    record(ctx);
    ppto_context_destroy(ctx);
    shapes(threads, argc > 2 ? argv[2] : usual_text);
    contexts(threads);
    return 0;
}
