/* SPDX-License-Identifier: Apache-2.0
 * Batches from file to file: while one is computed, the next is loaded and the one before is written. Every
 * batch is a graph with a source, an operator and a sink on three streams. A stream does one thing after the
 * other and leaves the rest alone, so starting all batches at once is all there is to do. An event behind
 * each sink happens when its file is there.
 *
 * overlap [BATCHES [ROWS [ROUNDS]]] prints when each event happened; the files lie in a folder of its own. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <ppto/ppto.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { COLUMNS = 1024, MOST_BATCHES = 64 };

typedef struct batch {
    char in[64], out[64];
    ppto_program *program;
    ppto_run *run;
    ppto_event loaded, computed, written;
    double when[3];
} batch;

static double start_time;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9 - start_time;
}

static int fail(ppto_context *ctx, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, ppto_error_text(ctx));
    return 1;
}

static void note(void *when, ppto_status status)
{
    if (status == PPTO_OK) *(double *)when = now();
}

/* x = open(in); y = f(x), a few times over; sink(y, out) */
static ppto_status record(ppto_context *ctx, ppto_stream *const s[3], int rounds, batch *b)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_stream_push(g, s[0]);
    ppto_tensor *x = ppto_open(g, b->in);
    ppto_stream_pop(g);
    ppto_event_record(g, s[0], &b->loaded);
    ppto_stream_push(g, s[1]);
    for (int i = 0; i < rounds; i++) x = ppto_add(ppto_sin(x), ppto_float(g, 1));
    ppto_stream_pop(g);
    ppto_event_record(g, s[1], &b->computed);
    ppto_stream_push(g, s[2]);
    ppto_tensor *y = ppto_sink(g, x, b->out);
    ppto_stream_pop(g);
    ppto_event_record(g, s[2], &b->written);
    ppto_status status = ppto_compile(1, &y, &b->program);
    ppto_graph_destroy(g);
    return status;
}

static int make_batch(ppto_context *ctx, const char *folder, int i, int64_t rows, batch *b)
{
    const int64_t shape[] = {rows, COLUMNS};
    char name[32];
    snprintf(b->in, sizeof b->in, "%s/in%d.npy", folder, i);
    snprintf(b->out, sizeof b->out, "%s/out%d.npy", folder, i);
    snprintf(name, sizeof name, "x%d", i);
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 2, shape, "random(1)", name);
    ppto_status status = ppto_array_save(x, b->in);
    ppto_array_release(x);
    return status == PPTO_OK ? 0 : fail(ctx, "making a file");
}

static int run_batches(ppto_context *ctx, batch *batches, int n)
{
    start_time = 0;
    start_time = now();
    for (int i = 0; i < n; i++) {
        batch *b = &batches[i];
        ppto_event_then(b->loaded, note, &b->when[0]);
        if (ppto_program_start(b->program, NULL, &b->run) != PPTO_OK) return fail(ctx, "start");
        ppto_event_then(b->computed, note, &b->when[1]);
        ppto_event_then(b->written, note, &b->when[2]);
    }
    for (int i = 0; i < n; i++)
        if (ppto_run_wait(batches[i].run, -1) != PPTO_OK) return fail(ctx, "run");
    printf("all %d batches after %.3f s\n", n, now());
    return 0;
}

/* Each file holds what its batch alone would give. */
static int check(ppto_context *ctx, const batch *b, int rounds)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_open(g, b->in);
    for (int i = 0; i < rounds; i++) x = ppto_add(ppto_sin(x), ppto_float(g, 1));
    ppto_array *want = NULL, *got = ppto_array_load(ctx, b->out);
    ppto_comparison c = {.equal = false};
    if (got == NULL || ppto_eval(x, &want, NULL) != PPTO_OK) return fail(ctx, "checking");
    ppto_compare(got, want, 0, 0, &c);
    ppto_array_release(want);
    ppto_array_release(got);
    ppto_graph_destroy(g);
    return !c.equal;
}

static void forget(batch *b)
{
    ppto_run_release(b->run);
    ppto_program_destroy(b->program);
    ppto_event_release(b->loaded);
    ppto_event_release(b->computed);
    ppto_event_release(b->written);
    unlink(b->in);
    unlink(b->out);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"load", "compute", "store"};
    static batch batches[MOST_BATCHES];
    char folder[] = "overlap-XXXXXX";
    int n = argc > 1 ? atoi(argv[1]) : 4, rounds = argc > 3 ? atoi(argv[3]) : 2, wrong = 0;
    int64_t rows = argc > 2 ? atoll(argv[2]) : 256;
    ppto_context *ctx = NULL;
    ppto_stream *s[3];
    if (n < 1 || n > MOST_BATCHES || rows < 1 || rounds < 1) return 2;
    if (ppto_context_create(&ctx, NULL) != PPTO_OK || mkdtemp(folder) == NULL) return fail(NULL, "context");
    for (int k = 0; k < 3; k++)
        s[k] = ppto_stream_create(ctx, names[k], k == 1 ? PPTO_STREAM_CPU : PPTO_STREAM_IO);
    for (int i = 0; i < n && wrong == 0; i++) {
        wrong = make_batch(ctx, folder, i, rows, &batches[i]);
        if (wrong == 0 && record(ctx, s, rounds, &batches[i]) != PPTO_OK) wrong = fail(ctx, "recording");
    }
    if (wrong == 0) wrong = run_batches(ctx, batches, n);
    for (int i = 0; i < n && wrong == 0; i++) {
        printf("batch %d: loaded %.3f, computed %.3f, written %.3f\n", i, batches[i].when[0],
               batches[i].when[1], batches[i].when[2]);
        wrong = check(ctx, &batches[i], rounds);
    }
    for (int i = 0; i < n; i++) forget(&batches[i]);
    for (int k = 0; k < 3; k++) ppto_stream_destroy(s[k]);
    ppto_context_destroy(ctx);
    rmdir(folder);
    return wrong;
}
