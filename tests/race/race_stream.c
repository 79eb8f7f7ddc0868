/* SPDX-License-Identifier: Apache-2.0
 * Several threads, one context, three streams: programs that record and wait for each other's events are
 * started, waited for, cancelled and dropped in every state, user events are signalled from other threads,
 * callbacks are counted, streams are synced, runs of the caller mix with runs on their own under a memory
 * limit. Every run writes a cell of its stream without a lock of its own, so a lost order shows as a race.
 *
 * A plain program for ThreadSanitizer: 0 = passed. RACE_ROUNDS=N in the environment sets the rounds. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "ppto/ops.h"
#include "ppto/ppto.h"

enum { THREADS = 4, STREAMS = 3, ROUNDS = 25, ELEMENTS = 20000 };

static ppto_context *ctx;
static ppto_stream *streams[STREAMS];
static atomic_int failures, registered, called;
static int rounds = ROUNDS;
static ppto_array *cells[STREAMS]; /* read and written in place of, in the order of the stream alone */

static void complain(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, ppto_error_text(NULL));
    atomic_fetch_add(&failures, 1);
}

static void count(void *arg, ppto_status status)
{
    (void)arg, (void)status;
    atomic_fetch_add(&called, 1);
}

/* On its stream: cell = x + 1 (into the stream's own array); it waits for `before` and records `after`. */
static ppto_program *make(int on, const ppto_event *before, ppto_event *after, ppto_array *x)
{
    ppto_graph *g = ppto_graph_create(ctx);
    if (before && ppto_stream_wait(g, streams[on], *before) != PPTO_OK) complain("wait");
    ppto_tensor *in = ppto_input(g, "x", PPTO_F32, "N");
    ppto_stream_push(g, streams[on]);
    ppto_tensor *y = ppto_add(ppto_exp(ppto_mul(in, ppto_float(g, 0.0))), in);
    ppto_stream_pop(g);
    if (ppto_event_record(g, streams[on], after) != PPTO_OK) complain("record");
    ppto_program *p = NULL;
    if (ppto_compile(1, &y, &p) != PPTO_OK) complain("compile");
    ppto_graph_destroy(g);
    if (ppto_program_bind(p, 0, x) != PPTO_OK) complain("bind");
    if (ppto_program_bind_output(p, 0, cells[on]) != PPTO_OK) complain("bind an output");
    return p;
}

typedef struct signaller {
    ppto_event event;
    ppto_status status;
} signaller;

static void *signal_it(void *arg)
{
    signaller *s = arg;
    if (ppto_event_signal(s->event, s->status) != PPTO_OK) complain("signal");
    return NULL;
}

static void one_round(unsigned *seed, ppto_array *x)
{
    ppto_event gate, first, second;
    signaller who;
    pthread_t thread;
    ppto_run *a = NULL, *b = NULL;
    int on = rand_r(seed) % STREAMS, other = rand_r(seed) % STREAMS, kind = rand_r(seed) % 6;
    if (ppto_event_create_user(ctx, &gate) != PPTO_OK) complain("user event");
    who = (signaller){gate, kind == 5 ? PPTO_E_IO : PPTO_OK};
    ppto_program *p = make(on, &gate, &first, x), *q = make(other, &first, &second, x);
    for (int i = 0; i < 2; i++)
        if (ppto_event_then(i ? second : first, count, NULL) == PPTO_OK) atomic_fetch_add(&registered, 1);
    ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
    options.priority = rand_r(seed) % 3;
    options.policy = rand_r(seed) % 2 ? PPTO_KEEP_GOING : PPTO_FAIL_FAST;
    if (ppto_program_start(p, &options, &a) != PPTO_OK) complain("start");
    if (pthread_create(&thread, NULL, signal_it, &who) != 0) exit(1);
    ppto_status expected = kind == 5 ? PPTO_E_IO : PPTO_OK, status;
    if (kind == 0) {
        status = ppto_program_run(q, NULL); /* on this thread, behind the other run */
        if (status != expected) complain("run");
    } else {
        if (ppto_program_start(q, NULL, &b) != PPTO_OK) complain("start");
        if (kind == 1) ppto_run_cancel(a, "race");
        if (kind == 2) ppto_run_cancel(b, "race");
        status = ppto_run_wait(b, -1);
        if (status != expected && status != PPTO_E_CANCELLED) complain("wait for a run");
    }
    if (kind == 3) (void)ppto_sync(streams[on]);
    if (kind == 4) {
        ppto_run_release(a); /* it may still run */
        a = NULL;
    }
    pthread_join(thread, NULL);
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    if (a) status = ppto_run_wait(a, -1);
    ppto_run_release(a);
    ppto_run_release(b);
    ppto_event_release(gate);
    ppto_event_release(first);
    ppto_event_release(second);
}

static void *work(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    const int64_t shape[] = {ELEMENTS};
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, shape, "ones", "x");
    for (int i = 0; i < rounds && atomic_load(&failures) < 5; i++) one_round(&seed, x);
    ppto_array_release(x);
    return NULL;
}

static void with_executor(const char *executor, uint64_t limit)
{
    static const char *const names[STREAMS] = {"load", "compute", "store"};
    const int64_t shape[] = {ELEMENTS};
    pthread_t threads[THREADS];
    int64_t live = pp_heap_count().live;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = executor;
    o.threads = 3;
    o.memory_limit = limit;
    if (ppto_context_create(&ctx, &o) != PPTO_OK) exit(1);
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = ppto_stream_create(ctx, names[i], PPTO_STREAM_CPU);
        cells[i] = ppto_array_create(ctx, PPTO_F32, 1, shape);
    }
    for (uintptr_t t = 0; t < THREADS; t++)
        if (pthread_create(&threads[t], NULL, work, (void *)(t + 1)) != 0) exit(1);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    for (int i = 0; i < STREAMS; i++) {
        (void)ppto_sync(streams[i]);
        const float *values = ppto_array_data(cells[i]);
        for (int k = 0; k < ELEMENTS; k++)
            if (values[k] != 2.0f) {
                complain("a value is wrong");
                break;
            }
        ppto_stream_destroy(streams[i]);
    }
    for (int i = 0; i < STREAMS; i++) ppto_array_release(cells[i]);
    ppto_context_destroy(ctx); /* also calls what never ended */
    if (atomic_load(&called) != atomic_load(&registered)) complain("a callback was not called once");
    if (pp_heap_count().live != live) complain("blocks are left");
}

/* Contexts that go while their runs are in every state. */
static void destroy_in_flight(void)
{
    const int64_t shape[] = {ELEMENTS};
    for (int i = 0; i < 20; i++) {
        ppto_event gate, first, second;
        ppto_run *a = NULL, *b = NULL;
        if (ppto_context_create(&ctx, NULL) != PPTO_OK) exit(1);
        streams[0] = ppto_stream_create(ctx, "a", PPTO_STREAM_CPU);
        streams[1] = ppto_stream_create(ctx, "b", PPTO_STREAM_CPU);
        cells[0] = ppto_array_create(ctx, PPTO_F32, 1, shape);
        cells[1] = ppto_array_create(ctx, PPTO_F32, 1, shape);
        ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, shape, "ones", "x");
        ppto_event_create_user(ctx, &gate);
        ppto_program *p = make(0, &gate, &first, x), *q = make(1, &first, &second, x);
        if (ppto_program_start(p, NULL, &a) != PPTO_OK) complain("start");
        if (ppto_program_start(q, NULL, &b) != PPTO_OK) complain("start");
        if (i % 2) (void)ppto_event_signal(gate, PPTO_OK);
        ppto_program_destroy(p);
        ppto_program_destroy(q);
        ppto_array_release(x);
        ppto_array_release(cells[0]);
        ppto_array_release(cells[1]);
        if (i % 3 == 0) ppto_run_release(b);
        ppto_context_destroy(ctx);
        ppto_run_release(a);
        if (i % 3) ppto_run_release(b);
    }
}

int main(void)
{
    const char *text = getenv("RACE_ROUNDS");
    if (text) rounds = atoi(text);
    with_executor("pthread", 0);
    with_executor("pthread", 8 << 20);
    with_executor("serial", 0);
    destroy_in_flight();
    printf("%d callbacks\n", atomic_load(&called));
    return atomic_load(&failures) ? 1 : 0;
}
