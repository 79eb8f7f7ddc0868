/* SPDX-License-Identifier: Apache-2.0
 * What overlapping saves: batches go from file to file, once one step after the other, once on three streams.
 * A batch is a file of several blocks, out of the page cache, as a data set larger than memory would be; it
 * is added up to one block, sent through a chain, and stored. So many blocks are loaded, and the chain is so
 * long, that loading and computing take about as long as storing: three equal parts could take as long as one
 * of them, and the start-up of the first batch and the end of the last.
 *
 * overlap [BATCHES [ROUNDS]]: times of the parts, of both ways, ROUNDS times in turn, the round with the
 * median ratio, and a timeline of it by the events behind every part. One worker computes, so that a machine
 * of two CPUs has one left for the files. Nothing is judged here. */
#define _POSIX_C_SOURCE 200809L
#include <fcntl.h>
#include <ppto/ppto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 1000, COLUMNS = 1024, MOST = 64, MOST_BLOCKS = 16, MOST_ROUNDS = 32, WIDTH = 72 };
enum { LOAD, COMPUTE, STORE, PARTS };
static const char *const names[PARTS] = {"load", "compute", "store"};

typedef struct batch {
    char in[64], out[64];
    ppto_program *program;
    ppto_run *run;
    ppto_event event[PARTS]; /* the part is done */
} batch;

static ppto_context *ctx;
static batch batches[MOST];
static int n = 16;
static int64_t blocks = 1; /* that a batch loads */

typedef struct turn {
    double part[PARTS], total, ratio;
    double when[MOST][PARTS];
} turn;

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

/* The file is on the disk and out of the page cache. */
static void cool(const char *path)
{
    int file = open(path, O_RDONLY);
    must(file >= 0 && fsync(file) == 0 && posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
    close(file);
}

static void cool_all(void)
{
    for (int i = 0; i < n; i++) {
        cool(batches[i].in);
        unlink(batches[i].out);
    }
}

static ppto_tensor *chain(ppto_tensor *x, int rounds)
{
    ppto_graph *g = ppto_tensor_graph(x);
    x = ppto_sum(ppto_reshape(x, blocks, ROWS, COLUMNS), 0);
    for (int i = 0; i < rounds; i++) x = ppto_add(ppto_sin(x), ppto_float(g, 1));
    return x;
}

/* ---- one part after the other ---- */

/* Seconds of every part over all batches. */
static void in_turn(int rounds, double seconds[PARTS])
{
    ppto_graph *g = ppto_graph_create(ctx);
    char shape[48];
    snprintf(shape, sizeof shape, "%lld, %d", (long long)(blocks * ROWS), COLUMNS);
    ppto_tensor *y = chain(ppto_input(g, "x", PPTO_F32, shape), rounds);
    ppto_program *program = NULL;
    must(ppto_compile(1, &y, &program) == PPTO_OK);
    memset(seconds, 0, PARTS * sizeof *seconds);
    cool_all();
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

static void forget(batch *b)
{
    ppto_run_release(b->run);
    ppto_program_destroy(b->program);
    for (int part = 0; part < PARTS; part++) ppto_event_release(b->event[part]);
}

static void note(void *when, ppto_status status)
{
    *(double *)when = status == PPTO_OK ? now() : 0;
}

static double overlapped(ppto_stream *const s[PARTS], int rounds, double when[MOST][PARTS])
{
    for (int i = 0; i < n; i++) record(&batches[i], s, rounds);
    cool_all();
    double start = now();
    for (int i = 0; i < n; i++) {
        must(ppto_program_start(batches[i].program, NULL, &batches[i].run) == PPTO_OK);
        for (int part = 0; part < PARTS; part++)
            must(ppto_event_then(batches[i].event[part], note, &when[i][part]) == PPTO_OK);
    }
    for (int i = 0; i < n; i++) must(ppto_run_wait(batches[i].run, -1) == PPTO_OK);
    double total = now() - start;
    for (int i = 0; i < n; i++) {
        forget(&batches[i]);
        for (int part = 0; part < PARTS; part++) when[i][part] -= start;
    }
    return total;
}

/* ---- what is printed ---- */

static void draw(char *line, double from, double to, double total, char letter)
{
    int first = (int)(from / total * WIDTH), last = (int)(to / total * WIDTH);
    for (int i = first < 0 ? 0 : first; i <= last && i < WIDTH; i++) line[i] = letter;
}

/* A part begins when the one before it is done, of the batch and on the stream. */
static void timeline(const turn *r)
{
    for (int i = 0; i < n; i++) {
        char line[WIDTH + 1];
        memset(line, '.', WIDTH);
        line[WIDTH] = '\0';
        for (int part = 0; part < PARTS; part++) {
            double from = part > 0 ? r->when[i][part - 1] : 0;
            if (i > 0 && r->when[i - 1][part] > from) from = r->when[i - 1][part];
            draw(line, from, r->when[i][part], r->total, "lcs"[part]);
        }
        printf("%3d %s\n", i, line);
    }
}

static double longest(const double part[PARTS])
{
    double most = 0;
    for (int i = 0; i < PARTS; i++)
        if (part[i] > most) most = part[i];
    return most;
}

static double start_up(const double part[PARTS])
{
    return (part[LOAD] + part[STORE]) / n;
}

static void report(const turn *r)
{
    double sum = 0;
    for (int i = 0; i < PARTS; i++) {
        printf("%-8s %8.2f ms for %d batches\n", names[i], 1e3 * r->part[i], n);
        sum += r->part[i];
    }
    printf("in turn  %8.2f ms\noverlap  %8.2f ms: %.2f of the longest part and the start-up (%.2f ms)\n",
           1e3 * sum, 1e3 * r->total, r->ratio, 1e3 * start_up(r->part));
}

static int by_ratio(const void *a, const void *b)
{
    double x = ((const turn *)a)->ratio, y = ((const turn *)b)->ratio;
    return (x > y) - (x < y);
}

/* ---- making the parts equal ---- */

static void make_files(void)
{
    const int64_t shape[] = {blocks * ROWS, COLUMNS};
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 2, shape, "random(1)", "x");
    for (int i = 0; i < n; i++) must(ppto_array_save(x, batches[i].in) == PPTO_OK);
    ppto_array_release(x);
}

/* The rounds of the chain; blocks is set, and the files are made. */
static int make_equal(void)
{
    double part[PARTS], one[PARTS], two[PARTS];
    make_files();
    in_turn(1, part); /* the first writes find no room yet */
    in_turn(1, part);
    blocks = (int64_t)(part[STORE] / part[LOAD] + 0.5);
    blocks = blocks < 1 ? 1 : blocks > MOST_BLOCKS ? MOST_BLOCKS : blocks;
    make_files();
    in_turn(1, one);
    in_turn(5, two);
    double each = (two[COMPUTE] - one[COMPUTE]) / 4, other = (one[STORE] + two[STORE]) / 2;
    int rounds = each > 0 ? 1 + (int)((other - one[COMPUTE]) / each + 0.5) : 1;
    return rounds < 1 ? 1 : rounds > 64 ? 64 : rounds;
}

int main(int argc, char **argv)
{
    static turn all[MOST_ROUNDS];
    char folder[] = "overlap-XXXXXX";
    ppto_stream *s[PARTS];
    ppto_options options = PPTO_OPTIONS_INIT;
    int turns = argc > 2 ? atoi(argv[2]) : 7;
    options.threads = 1;
    if (argc > 1) n = atoi(argv[1]);
    if (n < 1 || n > MOST || turns < 1 || turns > MOST_ROUNDS) return 2;
    must(ppto_context_create(&ctx, &options) == PPTO_OK && mkdtemp(folder) != NULL);
    for (int i = 0; i < n; i++) {
        snprintf(batches[i].in, sizeof batches[i].in, "%s/in%d.npy", folder, i);
        snprintf(batches[i].out, sizeof batches[i].out, "%s/out%d.npy", folder, i);
    }
    for (int i = 0; i < PARTS; i++)
        s[i] = ppto_stream_create(ctx, names[i], i == COMPUTE ? PPTO_STREAM_CPU : PPTO_STREAM_IO);
    int rounds = make_equal();
    for (int i = 0; i < turns; i++) {
        in_turn(rounds, all[i].part);
        all[i].total = overlapped(s, rounds, all[i].when);
        all[i].ratio = all[i].total / (longest(all[i].part) + start_up(all[i].part));
    }
    qsort(all, (size_t)turns, sizeof *all, by_ratio);
    printf("a batch loads %.0f MB, computes %d operators, stores %.0f MB; %d turns, ratios %.2f to %.2f, the "
           "median:\n",
           4e-6 * (double)(blocks * ROWS * COLUMNS), 2 * rounds + 1, 4e-6 * ROWS * COLUMNS, turns,
           all[0].ratio, all[turns - 1].ratio);
    report(&all[turns / 2]);
    timeline(&all[turns / 2]);
    cool_all();
    for (int i = 0; i < n; i++) unlink(batches[i].in);
    for (int i = 0; i < PARTS; i++) ppto_stream_destroy(s[i]);
    ppto_context_destroy(ctx);
    return rmdir(folder) == 0 ? 0 : 1;
}
