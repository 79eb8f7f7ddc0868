/* SPDX-License-Identifier: Apache-2.0
 * What a second thread gives: two workers beside one for compute-bound work, and the same for a plain
 * multiply-add loop on plain threads, which is what the machine can give (virtual CPUs may share a core).
 *
 *   scaling [ROUNDS]          default 15
 *
 * One JSON object per line: the time with one and two threads (least of all rounds, taken in turns), their
 * ratio, and for a program its ratio over the probe's and the workers that its task log names. Exit status 1
 * when the library failed. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "ppto/ppto.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the probe ----------------------------------------------------------------------------------------- */

enum { STEPS = 2000000, CHAINS = 10 };

static volatile float sink;

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void multiply_add(void)
{
    const __m256 by = _mm256_set1_ps(0.999f), plus = _mm256_set1_ps(0.001f);
    __m256 at[CHAINS];
    for (int c = 0; c < CHAINS; c++) at[c] = _mm256_set1_ps((float)c);
    for (int i = 0; i < STEPS; i++)
        for (int c = 0; c < CHAINS; c++) at[c] = _mm256_fmadd_ps(at[c], by, plus);
    float sum = 0;
    for (int c = 0; c < CHAINS; c++) sum += _mm256_cvtss_f32(at[c]);
    sink = sum;
}
#else
static void multiply_add(void)
{
    float at[CHAINS] = {0};
    for (int i = 0; i < STEPS; i++)
        for (int c = 0; c < CHAINS; c++) at[c] = at[c] * 0.999f + 0.001f;
    float sum = 0;
    for (int c = 0; c < CHAINS; c++) sum += at[c];
    sink = sum;
}
#endif

/* Both threads do what one does alone, so the time per piece of work halves at best. */
static void *probe_thread(void *unused)
{
    multiply_add();
    return unused;
}

static double probe(int threads)
{
    pthread_t other;
    const double start = now();
    const bool two = threads == 2 && pthread_create(&other, NULL, probe_thread, NULL) == 0;
    multiply_add();
    if (two) pthread_join(other, NULL);
    return (now() - start) / threads;
}

/* ---- programs ------------------------------------------------------------------------------------------ */

typedef struct work {
    const char *name, *text;
    int64_t n; /* every input is [n, n] */
} work;

static const work works[] = {
    {"matmul-1024", "a @ b", 1024},
    {"two-products", "a @ b + b @ a", 768},
    {"row-chains", "softmax(a) + softmax(b) + layer_norm(a, b[0], b[1]) + gelu(a) + log_softmax(b)", 512},
    {"exp-chain", "exp(sin(a)) * tanh(b) + erf(a * b)", 700},
};

static void fail(ppto_context *ctx, const char *what)
{
    fprintf(stderr, "scaling: %s: %s\n", what, ppto_error_text(ctx));
    exit(1);
}

static ppto_program *prepare(ppto_context *ctx, const work *w)
{
    static const char *const names[] = {"a", "b"};
    const int64_t shape[] = {w->n, w->n};
    ppto_graph *graph = ppto_graph_create(ctx);
    for (int i = 0; i < 2; i++) ppto_input(graph, names[i], PPTO_F32, "N, N");
    ppto_tensor *y = ppto_expr(graph, w->text);
    ppto_program *program = NULL;
    if (y == NULL || ppto_compile(1, &y, &program) != PPTO_OK) fail(ctx, w->text);
    for (int i = 0; i < 2; i++) {
        ppto_array *a = ppto_array_fill(ctx, PPTO_F32, 2, shape, "uniform(-1, 1)", names[i]);
        if (a == NULL || ppto_program_bind_name(program, names[i], a) != PPTO_OK) fail(ctx, "bind");
        ppto_array_release(a);
    }
    ppto_array *out = NULL;
    if (ppto_program_run(program, &out) != PPTO_OK) fail(ctx, "first run");
    if (ppto_program_bind_output(program, 0, out) != PPTO_OK) fail(ctx, "bind the output");
    ppto_array_release(out);
    ppto_graph_destroy(graph);
    return program;
}

static double timed_run(ppto_program *program)
{
    const double start = now();
    if (ppto_program_run(program, NULL) != PPTO_OK) fail(NULL, "run");
    return now() - start;
}

/* How many workers the log of one more run names (lines: step, phase, task, worker, start, end). */
static unsigned workers_of(ppto_program *program)
{
    char *text = NULL;
    unsigned long long seen = 0;
    unsigned workers = 0;
    if (ppto_program_log_tasks(program, true) != PPTO_OK || ppto_program_run(program, NULL) != PPTO_OK ||
        ppto_program_task_log(program, &text) != PPTO_OK)
        fail(NULL, "task log");
    for (const char *line = text; line != NULL && *line; line = strchr(line, '\n'), line += line != NULL) {
        unsigned worker;
        if (sscanf(line, "%*s %*s %*s %u", &worker) == 1 && worker < 64) seen |= 1ULL << worker;
    }
    for (; seen != 0; seen &= seen - 1) workers++;
    ppto_text_free(text);
    return workers;
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

int main(int argc, char **argv)
{
    enum { WORKS = sizeof works / sizeof *works };
    const int rounds = argc > 1 ? atoi(argv[1]) : 15;
    ppto_context *ctx[2] = {NULL, NULL};
    ppto_program *program[WORKS][2];
    double time[WORKS][2], alone[2] = {1e9, 1e9};
    for (int t = 0; t < 2; t++) {
        ppto_options options = PPTO_OPTIONS_INIT;
        options.threads = t + 1;
        if (ppto_context_create(&ctx[t], &options) != PPTO_OK) fail(NULL, "context");
        for (int w = 0; w < WORKS; w++) {
            program[w][t] = prepare(ctx[t], &works[w]);
            time[w][t] = 1e9;
        }
    }
    for (int r = 0; r < rounds; r++)
        for (int t = 0; t < 2; t++) {
            alone[t] = least(alone[t], probe(t + 1));
            for (int w = 0; w < WORKS; w++) time[w][t] = least(time[w][t], timed_run(program[w][t]));
        }
    const double can = alone[0] / alone[1];
    printf("{\"benchmark\": \"fma-probe\", \"ms_1\": %.4g, \"ms_2\": %.4g, \"ratio\": %.3f}\n",
           alone[0] * 1e3, alone[1] * 1e3, can);
    for (int w = 0; w < WORKS; w++) {
        const double does = time[w][0] / time[w][1];
        printf("{\"benchmark\": \"%s\", \"ms_1\": %.4g, \"ms_2\": %.4g, \"ratio\": %.3f, \"of_probe\": %.3f, "
               "\"workers\": %u}\n",
               works[w].name, time[w][0] * 1e3, time[w][1] * 1e3, does, does / can,
               workers_of(program[w][1]));
        for (int t = 0; t < 2; t++) ppto_program_destroy(program[w][t]);
    }
    for (int t = 0; t < 2; t++) ppto_context_destroy(ctx[t]);
    return 0;
}
