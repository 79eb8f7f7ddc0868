/* SPDX-License-Identifier: Apache-2.0
 * The system's view of memory: the growth of the process's peak resident set (VmHWM) over a run whose
 * predicted peak is 256 MiB or more lies within 5 % of it. Every case runs in a process of its own, for VmHWM
 * never falls. Where the system does not tell VmHWM the test is skipped. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ppto/ppto.h"

typedef struct scenario {
    const char *executor, *text;
    int rank;
    int64_t shape[PPTO_MAX_RANK];
} scenario;

static const scenario scenarios[] = {
    {"serial", "exp(x) * 2 + 1", 1, {40000000}},
    {"pthread", "softmax(x, axis=1)", 2, {40000, 1000}},
    {"tbb", "x.T + 1", 2, {6400, 6400}},
    {"pthread", "cumulative_sum(cumulative_sum(x, axis=0), axis=1)", 2, {8000, 4500}},
    {"serial", "(x - mean(x, axis=0)) @ x[:96].T", 2, {1000000, 96}},
    {"tbb", "sum(x * x[::-1], axis=1)", 2, {9000, 8000}},
    {"pthread", "concat([x, cumulative_sum(x, axis=1)], axis=0)", 2, {5000, 5000}},
};

/* Kibibytes of VmHWM; 0 when the system does not say. */
static uint64_t peak_resident(void)
{
    char line[256];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "VmHWM:", 6) == 0) kib = strtoull(line + 6, NULL, 10);
    if (file != NULL) fclose(file);
    return kib;
}

static int fail(const scenario *s, const char *what)
{
    printf("# %s on %s: %s: %s\n", s->text, s->executor, what, ppto_error_text(NULL));
    return 1;
}

/* A small run first: the library, the workers and their stacks, and the generator of machine code, are there
 * before the growth is measured. */
static ppto_status once(ppto_context *ctx, const scenario *s, bool small, ppto_stats *stats)
{
    int64_t shape[PPTO_MAX_RANK];
    for (int i = 0; i < s->rank; i++) shape[i] = small ? 96 : s->shape[i];
    ppto_graph *graph = ppto_graph_create(ctx);
    ppto_input(graph, "x", PPTO_F32, s->rank == 1 ? "N" : "N, M");
    ppto_tensor *y = ppto_expr(graph, s->text);
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, s->rank, shape, "uniform(-1, 1)", "x"), *out = NULL;
    ppto_program *program = NULL;
    ppto_status status = y != NULL && x != NULL ? ppto_compile(1, &y, &program) : ppto_error_status(ctx);
    if (status == PPTO_OK) status = ppto_program_bind_name(program, "x", x);
    if (status == PPTO_OK && small) status = ppto_program_prepare(program);
    if (status == PPTO_OK) status = ppto_program_run(program, &out);
    if (status == PPTO_OK) ppto_program_stats(program, stats);
    ppto_array_release(out);
    ppto_array_release(x);
    ppto_program_destroy(program);
    ppto_graph_destroy(graph);
    return status;
}

static int run(const scenario *s)
{
    ppto_context *ctx = NULL;
    ppto_options options = PPTO_OPTIONS_INIT;
    ppto_stats stats = {.size = sizeof stats};
    options.executor = s->executor;
    options.threads = 2;
    if (ppto_context_create(&ctx, &options) != PPTO_OK) return fail(s, "context");
    if (once(ctx, s, true, &stats) != PPTO_OK) return fail(s, "small run");
    const uint64_t before = peak_resident();
    if (once(ctx, s, false, &stats) != PPTO_OK) return fail(s, "run");
    const uint64_t grown = (peak_resident() - before) * 1024, peak = stats.predicted_peak_bytes;
    printf("# %s on %s: predicted %" PRIu64 ", VmHWM grew by %" PRIu64 ", ratio %.4f\n", s->text, s->executor,
           peak, grown, (double)grown / (double)peak);
    ppto_context_destroy(ctx);
    return peak >= (uint64_t)256 << 20 && (double)grown >= 0.95 * (double)peak &&
                   (double)grown <= 1.05 * (double)peak
               ? 0
               : 1;
}

int main(void)
{
    const size_t n = sizeof scenarios / sizeof *scenarios;
    int failed = 0;
    if (peak_resident() == 0) {
        printf("1..0 # SKIP the system does not tell VmHWM\n");
        return 0;
    }
    printf("1..%zu\n", n);
    for (size_t i = 0; i < n; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) exit(run(&scenarios[i]));
        int status = 1;
        if (child < 0 || waitpid(child, &status, 0) != child) status = 1;
        printf("%s %zu - %s\n", status == 0 ? "ok" : "not ok", i + 1, scenarios[i].text);
        failed += status != 0;
    }
    return failed != 0;
}
