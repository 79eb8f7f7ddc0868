/* SPDX-License-Identifier: Apache-2.0
 * What a step of a plan costs apart from its work, and what a context costs that has none: one JSON object
 * per line on stdout.
 *
 *   nodes-wide, nodes-chain   ns per step of 10,000 that do nothing: none needs another; each needs the one
 *                             before
 *   tiny-wide, tiny-chains, tiny-layers
 *                             ms for 10,000 steps of 0.3 microseconds with 1 and with 2 workers, in turn, and
 *                             their ratio: none needs another; 100 chains; 100 layers of 100, each of two
 *                             steps of the one before
 *   cancel                    ms from ppto_run_cancel, somewhere in a run of large arrays, to the end of the
 * run idle                      ms of processor time of a context that has worked, in 10 seconds without work
 *
 * Targets are those of serial and tbb (docs/performance.md). Exit status 1 when the library failed. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ppto/ppto.h"
#include "scheduler/dispatch.h"

enum { NODES = 10000, ROUNDS = 50, CANCELS = 40, IDLE_SECONDS = 10 };

static double clock_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void expect(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "nodes: %s: %s\n", what, ppto_error_text(NULL));
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---- steps ------------------------------------------------------------------------------------------- */

typedef ppto_status body(void *object, uint32_t phase, uint32_t task, void *scratch, pp_error *err,
                         int64_t *position); /* of a step */

static ppto_status nothing(void *object, uint32_t phase, uint32_t task, void *scratch, pp_error *err,
                           int64_t *position)
{
    (void)object, (void)phase, (void)task, (void)scratch, (void)err, (void)position;
    return PPTO_OK;
}

static ppto_status tiny(void *object, uint32_t phase, uint32_t task, void *scratch, pp_error *err,
                        int64_t *position)
{
    volatile uint32_t sum = 0;
    (void)object, (void)phase, (void)scratch, (void)err, (void)position;
    for (uint32_t i = 0; i < 700; i++) sum = sum + i * task;
    return PPTO_OK;
}

static ppto_status take(void *arg, size_t bytes, void **out, pp_error *err)
{
    (void)arg, (void)err;
    *out = bytes != 0 ? aligned_alloc(64, (bytes + 63) / 64 * 64) : NULL;
    return bytes == 0 || *out != NULL ? PPTO_OK : PPTO_E_NOMEM;
}

static void give(void *arg, void *block, size_t bytes)
{
    (void)arg, (void)bytes;
    free(block);
}

typedef enum shape { WIDE, CHAIN, CHAINS, LAYERS } shape;
enum { LAYER = 100 }; /* and the number of chains */

/* The steps that step i needs, into `needs`; how many. */
static uint32_t needs_of(shape of, uint32_t i, uint32_t *needs)
{
    uint32_t layer = i / LAYER * LAYER;
    if (of == CHAIN && i > 0) needs[0] = i - 1;
    if (of == CHAIN) return i > 0;
    if (of == WIDE || i < LAYER) return 0;
    needs[0] = i - LAYER;
    needs[1] = layer - LAYER + i * 7919u % LAYER;
    return of == CHAINS ? 1 : 1 + (needs[1] != needs[0]);
}

static pp_dispatch *make_steps(pp_executor *executor, shape of, body *run, double task_ns)
{
    pp_step *steps = calloc(NODES, sizeof *steps);
    uint32_t *first = calloc(NODES + 1, sizeof *first), *needs = calloc(2 * NODES, sizeof *needs);
    const pp_memory memory = {.take = take, .give = give};
    pp_dispatch *dispatch = NULL;
    expect(steps != NULL && first != NULL && needs != NULL, "memory");
    for (uint32_t i = 0; i < NODES; i++) {
        steps[i] = (pp_step){.run = run, .phases = 1, .tasks = {1}, .task_ns = task_ns};
        first[i + 1] = first[i] + needs_of(of, i, needs + first[i]);
    }
    expect(pp_dispatch_create(steps, NODES, first, needs, executor, &memory, &dispatch, NULL) == PPTO_OK,
           "dispatch");
    free(needs);
    free(first);
    free(steps);
    return dispatch;
}

static double run_steps(pp_dispatch *dispatch)
{
    double start = clock_of(CLOCK_MONOTONIC);
    expect(pp_dispatch_run(dispatch, NULL, NULL, NULL) == PPTO_OK, "run");
    return clock_of(CLOCK_MONOTONIC) - start;
}

static pp_executor *executor_of(const char *name, uint32_t workers)
{
    pp_executor *executor = NULL;
    expect(pp_executor_create(name, workers, 1, &executor, NULL) == PPTO_OK, "executor");
    return executor;
}

static void empty_steps(const char *name, uint32_t workers, double target)
{
    static const char *const what[] = {"nodes-wide", "nodes-chain"};
    pp_executor *executor = executor_of(name, workers);
    for (int of = WIDE; of <= CHAIN; of++) {
        double seconds[ROUNDS];
        pp_dispatch *dispatch = make_steps(executor, (shape)of, nothing, 0);
        for (int r = -3; r < ROUNDS; r++) {
            double one = run_steps(dispatch);
            if (r >= 0) seconds[r] = one;
        }
        qsort(seconds, ROUNDS, sizeof *seconds, by_value);
        printf("{\"benchmark\": \"%s\", \"executor\": \"%s\", \"workers\": %u, \"unit\": \"ns per node\", "
               "\"min\": %.4g, "
               "\"median\": %.4g, \"target\": %.4g}\n",
               what[of], name, workers, seconds[0] * 1e9 / NODES, seconds[ROUNDS / 2] * 1e9 / NODES, target);
        pp_dispatch_destroy(dispatch);
    }
    pp_executor_destroy(executor);
}

/* In turn, so that both meet the same machine. */
static void tiny_steps(const char *name, shape of, const char *what)
{
    double best[2] = {1e9, 1e9};
    pp_executor *executor[2] = {executor_of(name, 1), executor_of(name, 2)};
    pp_dispatch *dispatch[2];
    for (int i = 0; i < 2; i++) dispatch[i] = make_steps(executor[i], of, tiny, 1000);
    for (int r = 0; r < 2 * ROUNDS; r++) {
        double seconds = run_steps(dispatch[r % 2]);
        if (seconds < best[r % 2]) best[r % 2] = seconds;
    }
    printf("{\"benchmark\": \"%s\", \"executor\": \"%s\", \"ms_1\": %.4g, \"ms_2\": %.4g, \"ratio\": %.3f}\n",
           what, name, best[0] * 1e3, best[1] * 1e3, best[0] / best[1]);
    for (int i = 0; i < 2; i++) {
        pp_dispatch_destroy(dispatch[i]);
        pp_executor_destroy(executor[i]);
    }
}

/* ---- a context --------------------------------------------------------------------------------------- */

static ppto_context *make_context(void)
{
    ppto_context *ctx = NULL;
    expect(ppto_context_create(&ctx, NULL) == PPTO_OK, "context");
    return ctx;
}

/* Some 100 ms of work: two kernels over 16M elements, the second after the first. */
static ppto_program *large_program(ppto_context *ctx, ppto_graph *graph)
{
    const int64_t n[] = {1 << 24};
    ppto_program *program = NULL;
    ppto_tensor *x = ppto_input(graph, "x", PPTO_F32, "N"), *sine = ppto_sin(ppto_exp(x));
    ppto_tensor *root = ppto_div(sine, ppto_sum(sine, 0));
    expect(ppto_compile(1, &root, &program) == PPTO_OK, "compile");
    ppto_array *data = ppto_array_fill(ctx, PPTO_F32, 1, n, "uniform(0,1)", "x");
    expect(data != NULL && ppto_program_bind_name(program, "x", data) == PPTO_OK, "bind");
    ppto_array_release(data);
    ppto_array *out = NULL;
    expect(ppto_program_run(program, &out) == PPTO_OK, "run");
    ppto_array_release(out);
    return program;
}

static void cancel(ppto_context *ctx)
{
    double seconds[CANCELS];
    ppto_graph *graph = ppto_graph_create(ctx);
    ppto_program *program = large_program(ctx, graph);
    for (int i = 0; i < CANCELS; i++) {
        ppto_run *run = NULL;
        expect(ppto_program_start(program, NULL, &run) == PPTO_OK, "start");
        nanosleep(&(struct timespec){.tv_nsec = i * 1000000L}, NULL);
        double start = clock_of(CLOCK_MONOTONIC);
        ppto_run_cancel(run, NULL);
        ppto_status status = ppto_run_wait(run, -1);
        seconds[i] = clock_of(CLOCK_MONOTONIC) - start;
        expect(status == PPTO_OK || status == PPTO_E_CANCELLED, "cancel");
        ppto_run_release(run);
    }
    qsort(seconds, CANCELS, sizeof *seconds, by_value);
    printf(
        "{\"benchmark\": \"cancel\", \"unit\": \"ms\", \"median\": %.4g, \"max\": %.4g, \"target\": 100}\n",
        seconds[CANCELS / 2] * 1e3, seconds[CANCELS - 1] * 1e3);
    ppto_program_destroy(program);
    ppto_graph_destroy(graph);
}

static void idle(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* workers that look for more work give up */
    double start = clock_of(CLOCK_PROCESS_CPUTIME_ID);
    nanosleep(&(struct timespec){.tv_sec = IDLE_SECONDS}, NULL);
    printf("{\"benchmark\": \"idle\", \"unit\": \"ms in 10 s\", \"cpu\": %.4g, \"target\": 10}\n",
           (clock_of(CLOCK_PROCESS_CPUTIME_ID) - start) * 1e3);
}

int main(void)
{
    empty_steps("serial", 1, 100);
    for (size_t i = 0; pp_executor_at(i) != NULL; i++) {
        const char *name = pp_executor_at(i);
        if (name[0] == 's') continue; /* serial and sim have one worker */
        empty_steps(name, 2, 500);
        tiny_steps(name, WIDE, "tiny-wide");
        tiny_steps(name, CHAINS, "tiny-chains");
        tiny_steps(name, LAYERS, "tiny-layers");
    }
    ppto_context *ctx = make_context();
    cancel(ctx);
    idle();
    ppto_context_destroy(ctx);
    return 0;
}
