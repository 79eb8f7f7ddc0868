/* SPDX-License-Identifier: Apache-2.0
 * Several threads, one context, three streams: one program loads a file, computes and stores another; a
 * second one waits for the event behind that and loads it. Both are cancelled, and dropped while they run;
 * the loads of some come from a pipe that is written meanwhile. What the second program reads must be what
 * the first one of this round stored, although all rounds of a thread store under one name.
 *
 * A plain program for ThreadSanitizer: 0 = passed. RACE_ROUNDS=N in the environment sets the rounds. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "files/npy.h"
#include "ppto/ops.h"
#include "ppto/ppto.h"

enum { THREADS = 3, ROUNDS = 12, ELEMENTS = 20000 }; /* more than is moved at once */

static ppto_context *ctx;
static ppto_stream *load, *compute, *store;
static atomic_int failures;
static int rounds = ROUNDS;
static char folder[] = "/tmp/ppto-race-XXXXXX";
static const int64_t shape[] = {ELEMENTS};

static void complain(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, ppto_error_text(NULL));
    atomic_fetch_add(&failures, 1);
}

typedef struct worker {
    pthread_t thread;
    unsigned seed;
    char in[64], out[64], pipe[64];
} worker;

static ppto_array *filled(float value)
{
    ppto_array *a = ppto_array_create(ctx, PPTO_F32, 1, shape);
    float *at = ppto_array_data(a);
    for (int i = 0; i < ELEMENTS; i++) at[i] = value;
    return a;
}

static ppto_tensor *open_on(ppto_graph *g, ppto_stream *stream, const char *path)
{
    ppto_stream_push(g, stream);
    ppto_tensor *x = ppto_open(g, path);
    ppto_stream_pop(g);
    return x;
}

/* out = in + k, and an event behind it */
static ppto_program *storing(const worker *w, const char *in, float value, ppto_event *stored)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_program *p = NULL;
    ppto_array *k = filled(value);
    ppto_tensor *x = open_on(g, load, in);
    ppto_stream_push(g, compute);
    x = ppto_add(x, ppto_input(g, "k", PPTO_F32, "20000"));
    ppto_stream_pop(g);
    ppto_stream_push(g, store);
    x = ppto_sink(g, x, w->out);
    ppto_stream_pop(g);
    if (ppto_event_record(g, store, stored) != PPTO_OK) complain("record");
    if (ppto_compile(1, &x, &p) != PPTO_OK) complain("compile");
    if (ppto_program_bind_name(p, "k", k) != PPTO_OK) complain("bind");
    ppto_array_release(k);
    ppto_graph_destroy(g);
    return p;
}

static ppto_program *reading(const worker *w, ppto_event stored)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_program *p = NULL;
    if (ppto_stream_wait(g, load, stored) != PPTO_OK) complain("wait");
    ppto_tensor *x = ppto_neg(open_on(g, load, w->out));
    if (ppto_compile(1, &x, &p) != PPTO_OK) complain("compile");
    ppto_graph_destroy(g);
    return p;
}

static void check(ppto_run *run, float value)
{
    ppto_array *y = NULL;
    if (ppto_run_outputs(run, &y) != PPTO_OK || !y) complain("outputs");
    const float *at = y ? ppto_array_data(y) : NULL;
    for (int i = 0; at && i < ELEMENTS; i++)
        if (at[i] != -value) {
            complain("not what was stored");
            break;
        }
    ppto_array_release(y);
}

/* The pipe of a worker, its header written; -1: the round does without. */
static int make_pipe(worker *w, bool wanted)
{
    char head[PP_NPY_HEADER];
    size_t n, bytes;
    (void)unlink(w->pipe);
    if (!wanted || mkfifo(w->pipe, 0600) != 0) return -1;
    int fd = open(w->pipe, O_RDWR);
    if (pp_npy_make_header(PPTO_F32, 1, shape, head, &n, &bytes, NULL) != PPTO_OK ||
        write(fd, head, n) != (ssize_t)n)
        complain("pipe");
    return fd;
}

/* Zeros, unless the run is over. */
static void fill_pipe(int fd, ppto_run *reader)
{
    static const char zeros[4096];
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    for (size_t left = 4 * ELEMENTS; left != 0 && !ppto_run_over(reader, NULL);) {
        ssize_t n = write(fd, zeros, left < sizeof zeros ? left : sizeof zeros);
        if (n > 0) left -= (size_t)n;
        if (n < 0) usleep(100);
    }
    close(fd);
}

/* While runs are on the streams. */
static void change_streams(worker *w)
{
    ppto_stream *stream = rand_r(&w->seed) % 2 ? load : store;
    if (ppto_stream_set_depth(stream, 1 + rand_r(&w->seed) % 3) != PPTO_OK) complain("depth");
    if (ppto_stream_set_bytes(stream, rand_r(&w->seed) % 2 ? 0 : 8192) != PPTO_OK) complain("bytes");
}

static void one_round(worker *w, float value)
{
    int kind = rand_r(&w->seed) % 5, fd = make_pipe(w, rand_r(&w->seed) % 3 == 0);
    ppto_event stored;
    ppto_run *a = NULL, *b = NULL;
    ppto_program *p = storing(w, fd >= 0 ? w->pipe : w->in, value, &stored), *q = reading(w, stored);
    if (ppto_program_start(p, NULL, &a) != PPTO_OK) complain("start");
    if (ppto_program_start(q, NULL, &b) != PPTO_OK) complain("start");
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    change_streams(w);
    if (kind == 1) ppto_run_cancel(a, "race");
    if (kind == 2) ppto_run_cancel(b, "race");
    if (fd >= 0) fill_pipe(fd, a);
    if (kind == 3) ppto_run_release(a); /* it may still run */
    ppto_status status = ppto_run_wait(b, -1);
    if (status == PPTO_OK) check(b, value);
    if (status != PPTO_OK && status != PPTO_E_CANCELLED) complain("a run");
    if (kind != 3) (void)ppto_run_wait(a, -1);
    if (kind != 3) ppto_run_release(a);
    ppto_run_release(b);
    ppto_event_release(stored);
}

static void *work(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < rounds && atomic_load(&failures) < 5; i++) one_round(w, (float)(i + 1));
    return NULL;
}

static void with_executor(const char *executor)
{
    worker workers[THREADS];
    int64_t live = pp_heap_count().live;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = executor;
    o.threads = 3;
    if (ppto_context_create(&ctx, &o) != PPTO_OK) exit(1);
    load = ppto_stream_create(ctx, "load", PPTO_STREAM_IO);
    compute = ppto_stream_create(ctx, "compute", PPTO_STREAM_CPU);
    store = ppto_stream_create(ctx, "store", PPTO_STREAM_IO);
    ppto_array *zeros = filled(0);
    for (unsigned t = 0; t < THREADS; t++) {
        worker *w = &workers[t];
        w->seed = t + 1;
        snprintf(w->in, sizeof w->in, "%s/in%u.npy", folder, t);
        snprintf(w->out, sizeof w->out, "%s/out%u.npy", folder, t);
        snprintf(w->pipe, sizeof w->pipe, "%s/pipe%u.npy", folder, t);
        if (ppto_array_save(zeros, w->in) != PPTO_OK || ppto_array_save(zeros, w->out) != PPTO_OK)
            complain("save");
        if (pthread_create(&w->thread, NULL, work, w) != 0) exit(1);
    }
    for (int t = 0; t < THREADS; t++) pthread_join(workers[t].thread, NULL);
    ppto_array_release(zeros);
    ppto_stream_destroy(load);
    ppto_stream_destroy(compute);
    ppto_stream_destroy(store);
    ppto_context_destroy(ctx);
    if (pp_heap_count().live != live) complain("blocks are left");
}

int main(void)
{
    const char *text = getenv("RACE_ROUNDS");
    char command[64];
    if (text) rounds = atoi(text);
    if (!mkdtemp(folder)) return 1;
    with_executor("pthread");
    with_executor("serial");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    if (system(command) != 0) complain("rm");
    return atomic_load(&failures) ? 1 : 0;
}
