/* SPDX-License-Identifier: Apache-2.0
 * What overlapping saves: batches go from file to file, once one step after the other, once on three streams.
 * The computing is made as long as the longer of loading and storing, so that three equal parts could take as
 * long as one of them, and the start-up of the first batch and the end of the last.
 *
 * overlap [BATCHES]: times of the parts, of both ways, and a timeline by the events behind every part. One
 * worker computes, so that a machine of two CPUs has one left for the files. Nothing is judged here. */
#define _POSIX_C_SOURCE 200809L
#include <ppto/ppto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 1000, COLUMNS = 1024, MOST = 64, WIDTH = 72 };
enum { LOAD, COMPUTE, STORE, PARTS };
static const char *const names[PARTS] = {"load", "compute", "store"};

typedef struct batch {
    char in[64], out[64];
    ppto_program *program;
    ppto_run *run;
    ppto_event event[PARTS]; /* the part is done */
    double when[PARTS];
} batch;

static ppto_context *ctx;
static batch batches[MOST];
static int n = 16;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(bool holds)
{
    if (holds) return;
    fprintf(stderr, "overlap: %s\n", ppto_error_text(ctx));
    exit(1);
}

static ppto_tensor *chain(ppto_tensor *x, int rounds)
{
    ppto_graph *g = ppto_tensor_graph(x);
    for (int i = 0; i < rounds; i++) x = ppto_add(ppto_sin(x), ppto_float(g, 1));
    return x;
}

/* ---- one part after the other ---- */

/* Seconds of every part over all batches. */
static void in_turn(int rounds, double seconds[PARTS])
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = chain(ppto_input(g, "x", PPTO_F32, "N, M"), rounds);
    ppto_program *program = NULL;
    must(ppto_compile(1, &y, &program) == PPTO_OK);
    memset(seconds, 0, PARTS * sizeof *seconds);
    for (int i = 0; i < n; i++) {
        double start = now(), loaded, computed;
        ppto_array *x = ppto_array_load(ctx, batches[i].in), *result = NULL;
        must(x != NULL && ppto_program_bind(program, 0, x) == PPTO_OK);
        loaded = now();
        must(ppto_program_run(program, &result) == PPTO_OK);
        computed = now();
        must(ppto_array_save(result, batches[i].out) == PPTO_OK);
        seconds[LOAD] += loaded - start;
        seconds[COMPUTE] += computed - loaded;
        seconds[STORE] += now() - computed;
        ppto_array_release(x);
        ppto_array_release(result);
    }
    ppto_program_destroy(program);
    ppto_graph_destroy(g);
}

/* ---- on three streams ---- */

static void record(batch *b, ppto_stream *const s[PARTS], int rounds)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *t = NULL;
    for (int part = 0; part < PARTS; part++) {
        ppto_stream_push(g, s[part]);
        t = part == LOAD ? ppto_open(g, b->in) : part == COMPUTE ? chain(t, rounds) : ppto_sink(g, t, b->out);
        ppto_stream_pop(g);
        must(ppto_event_record(g, s[part], &b->event[part]) == PPTO_OK);
    }
    must(ppto_compile(1, &t, &b->program) == PPTO_OK);
    ppto_graph_destroy(g);
}

static void note(void *when, ppto_status status)
{
    *(double *)when = status == PPTO_OK ? now() : 0;
}

static double overlapped(void)
{
    double start = now();
    for (int i = 0; i < n; i++) {
        must(ppto_program_start(batches[i].program, NULL, &batches[i].run) == PPTO_OK);
        for (int part = 0; part < PARTS; part++)
            must(ppto_event_then(batches[i].event[part], note, &batches[i].when[part]) == PPTO_OK);
    }
    for (int i = 0; i < n; i++) must(ppto_run_wait(batches[i].run, -1) == PPTO_OK);
    double total = now() - start;
    for (int i = 0; i < n; i++)
        for (int part = 0; part < PARTS; part++) batches[i].when[part] -= start;
    return total;
}

/* ---- what is printed ---- */

static void draw(char *line, double from, double to, double total, char letter)
{
    int first = (int)(from / total * WIDTH), last = (int)(to / total * WIDTH);
    for (int i = first < 0 ? 0 : first; i <= last && i < WIDTH; i++) line[i] = letter;
}

/* A part begins when the one before it is done, of the batch and on the stream. */
static void timeline(double total)
{
    for (int i = 0; i < n; i++) {
        char line[WIDTH + 1];
        memset(line, '.', WIDTH);
        line[WIDTH] = '\0';
        for (int part = 0; part < PARTS; part++) {
            double from = part > 0 ? batches[i].when[part - 1] : 0;
            if (i > 0 && batches[i - 1].when[part] > from) from = batches[i - 1].when[part];
            draw(line, from, batches[i].when[part], total, "lcs"[part]);
        }
        printf("%3d %s\n", i, line);
    }
}

static void report(const double part[PARTS], double total)
{
    double sum = 0, longest = 0, start_up = (part[LOAD] + part[STORE]) / n;
    for (int i = 0; i < PARTS; i++) {
        printf("%-8s %8.2f ms for %d batches\n", names[i], 1e3 * part[i], n);
        sum += part[i];
        if (part[i] > longest) longest = part[i];
    }
    printf("in turn  %8.2f ms\noverlap  %8.2f ms: %.2f of the longest part and the start-up (%.2f ms)\n",
           1e3 * sum, 1e3 * total, total / (longest + start_up), 1e3 * start_up);
}

int main(int argc, char **argv)
{
    const int64_t shape[] = {ROWS, COLUMNS};
    char folder[] = "overlap-XXXXXX";
    double part[PARTS];
    ppto_stream *s[PARTS];
    ppto_options options = PPTO_OPTIONS_INIT;
    options.threads = 1;
    if (argc > 1) n = atoi(argv[1]);
    if (n < 1 || n > MOST) return 2;
    must(ppto_context_create(&ctx, &options) == PPTO_OK && mkdtemp(folder) != NULL);
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 2, shape, "random(1)", "x");
    for (int i = 0; i < n; i++) {
        snprintf(batches[i].in, sizeof batches[i].in, "%s/in%d.npy", folder, i);
        snprintf(batches[i].out, sizeof batches[i].out, "%s/out%d.npy", folder, i);
        must(ppto_array_save(x, batches[i].in) == PPTO_OK);
    }
    ppto_array_release(x);
    in_turn(1, part); /* the first writes find no room yet */
    in_turn(1, part);
    double longer = part[LOAD] > part[STORE] ? part[LOAD] : part[STORE];
    int rounds = (int)(longer / part[COMPUTE] + 0.5);
    rounds = rounds < 1 ? 1 : rounds > 64 ? 64 : rounds;
    for (int i = 0; i < PARTS; i++)
        s[i] = ppto_stream_create(ctx, names[i], i == COMPUTE ? PPTO_STREAM_CPU : PPTO_STREAM_IO);
    for (int i = 0; i < n; i++) record(&batches[i], s, rounds);
    in_turn(rounds, part);
    double total = overlapped();
    report(part, total);
    timeline(total);
    for (int i = 0; i < n; i++) {
        ppto_run_release(batches[i].run);
        ppto_program_destroy(batches[i].program);
        for (int k = 0; k < PARTS; k++) ppto_event_release(batches[i].event[k]);
        unlink(batches[i].in);
        unlink(batches[i].out);
    }
    for (int i = 0; i < PARTS; i++) ppto_stream_destroy(s[i]);
    ppto_context_destroy(ctx);
    return rmdir(folder) == 0 ? 0 : 1;
}
