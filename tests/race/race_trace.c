/* SPDX-License-Identifier: Apache-2.0
 * Two programs that run on their own while a third thread reads their trace over and over: it gets the whole
 * or E_BUSY; also while one of them begins to note anew. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "ppto/ops.h"
#include "ppto/ppto.h"

enum { RUNS = 60, PROGRAMS = 2 };

static ppto_context *ctx;
static ppto_trace *trace;
static atomic_bool over;
static atomic_int failures;

static void expect(bool fine, const char *what)
{
    if (fine) return;
    fprintf(stderr, "%s: %s\n", what, ppto_error_text(NULL));
    atomic_fetch_add(&failures, 1);
}

static void *read_it(void *arg)
{
    (void)arg;
    while (!atomic_load(&over)) {
        char *bytes = NULL;
        size_t n = 0;
        ppto_status status = ppto_trace_write(trace, PPTO_TRACE_PERFETTO, &bytes, &n);
        expect(status == PPTO_OK || status == PPTO_E_BUSY, "write");
        ppto_text_free(bytes);
    }
    return NULL;
}

static ppto_program *program(void)
{
    const int64_t shape[] = {60000};
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_sum(ppto_exp(ppto_input(g, "x", PPTO_F32, "N")));
    ppto_program *p = NULL;
    expect(ppto_compile(1, &y, &p) == PPTO_OK, "compile");
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, shape, "ones", "x");
    expect(ppto_program_bind(p, 0, x) == PPTO_OK, "bind");
    expect(ppto_program_trace(p, trace, NULL) == PPTO_OK, "trace");
    ppto_array_release(x);
    ppto_graph_destroy(g);
    return p;
}

int main(void)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    ppto_trace_counts counts = {.size = sizeof counts};
    pthread_t reader;
    ppto_program *p[PROGRAMS];
    o.executor = "pthread";
    o.threads = 3;
    if (ppto_context_create(&ctx, &o) != PPTO_OK) return 1;
    expect(ppto_trace_create(ctx, NULL, &trace) == PPTO_OK, "create");
    for (int i = 0; i < PROGRAMS; i++) p[i] = program();
    if (pthread_create(&reader, NULL, read_it, NULL) != 0) return 1;
    for (int i = 0; i < RUNS; i++) {
        ppto_run *runs[PROGRAMS] = {NULL};
        for (int k = 0; k < PROGRAMS; k++)
            expect(ppto_program_start(p[k], NULL, &runs[k]) == PPTO_OK, "start");
        for (int k = 0; k < PROGRAMS; k++) expect(ppto_run_wait(runs[k], -1) == PPTO_OK, "run");
        for (int k = 0; k < PROGRAMS; k++) ppto_run_release(runs[k]);
        if (i % 10 == 0) /* a new row, with how it was compiled, while the trace is read */
            expect(ppto_program_trace(p[0], trace, NULL) == PPTO_OK, "trace again");
    }
    atomic_store(&over, true);
    pthread_join(reader, NULL);
    expect(ppto_trace_count(trace, &counts) == PPTO_OK && counts.runs == RUNS * PROGRAMS, "count");
    for (int i = 0; i < PROGRAMS; i++) ppto_program_destroy(p[i]);
    ppto_trace_destroy(trace);
    ppto_context_destroy(ctx);
    return atomic_load(&failures) != 0;
}
