/* SPDX-License-Identifier: Apache-2.0
 * What overlapping saves: batches go from file to file on three streams, once one batch after the other, once
 * all started at once. A batch is a file of several blocks, out of the page cache, as a data set larger than
 * memory would be; it is added up to one block, sent through a chain, and stored several times over. So many
 * blocks are loaded and stored, and the chain is so long, that the three parts take about as long: they could
 * take as long as one of them, and the start-up of the first batch and the end of the last.
 *
 * Four ways: files through the page cache, which costs a copy on a processor each way; read around it, as
 * large data sets are, and written through it; both around it, where one disk serves both; and pipes at the
 * pace of a device (overlap_paced.h), which take no processor time.
 *
 * overlap [BATCHES [ROUNDS [WAY]]]: times of the parts, of both ways, ROUNDS times in turn, the round with
 * the median ratio, and a timeline of it by the events behind every part. The parts alone are those of the
 * same programs on the same streams and threads, each batch begun when the one before has ended. One worker
 * computes, so that a machine of two CPUs has one left for the files. Beside it, in every round: what three
 * plain threads get (overlap_plain.h), and the processor time, which the CPUs of the machine must find room
 * for. Nothing is judged here. */
#define _DEFAULT_SOURCE
#include <fcntl.h>
#include <ppto/ppto.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "overlap_paced.h"
#include "overlap_plain.h"
#include "overlap_report.h"

enum { ROWS = 256, COLUMNS = 1024, LEAST_BLOCKS = 4, MOST_BLOCKS = 64, MOST_TURNS = 32 };
enum { MOST_ROUNDS = 256 };
#define PACE 0.02 /* seconds that a pipe takes for a batch */
static const char *const names[PARTS] = {"load", "compute", "store"};

typedef struct batch {
    char in[64], out[64];
    ppto_program *program;
    ppto_run *run;
    ppto_event event[PARTS]; /* the part is done */
} batch;

/* What a batch is: blocks of 1 MiB that are loaded and stored, rounds of the chain. */
typedef struct sizes {
    int64_t loads, stores;
    int rounds;
} sizes;

/* How batches come and go. */
typedef struct way {
    const char *name, *page_cache;
    bool read_around, write_around, pipes;
} way;

static const way ways[] = {
    {"files through the page cache", "through", false, false, false},
    {"files read around the page cache", "read-around", true, false, false},
    {"files around the page cache", "around", true, true, false},
    {"pipes at a pace", "through", false, false, true},
};

static ppto_context *ctx;
static ppto_stream *streams[PARTS];
static batch batches[MOST];
static int n = 16;
static const way *by;
static bool by_pipes; /* which serve one turn */
static paced pipes;

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

/* ---- the batches -------------------------------------------------------------------------------- */

static void make_files(int64_t loads)
{
    const int64_t shape[] = {loads * ROWS, COLUMNS};
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 2, shape, "random(1)", "x");
    for (int i = 0; i < n; i++) must(ppto_array_save(x, batches[i].in) == PPTO_OK);
    ppto_array_release(x);
}

static ppto_tensor *chain(ppto_tensor *x, const sizes *of)
{
    ppto_graph *g = ppto_tensor_graph(x);
    x = ppto_sum(ppto_reshape(x, of->loads, ROWS, COLUMNS), 0);
    for (int i = 0; i < of->rounds; i++) x = ppto_add(ppto_sin(x), ppto_float(g, 1));
    return ppto_broadcast_to(x, of->stores, ROWS, COLUMNS);
}

static ppto_tensor *source(ppto_graph *g, const batch *b, const sizes *of)
{
    if (!by_pipes) return ppto_open(g, b->in);
    char path[112];
    snprintf(path, sizeof path, "%s:f32[%lld,%d]", b->in, (long long)of->loads * ROWS, COLUMNS);
    return ppto_open(g, path);
}

static void record(batch *b, const sizes *of)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *t = NULL;
    for (int part = 0; part < PARTS; part++) {
        ppto_stream_push(g, streams[part]);
        t = part == LOAD ? source(g, b, of) : part == COMPUTE ? chain(t, of) : ppto_sink(g, t, b->out);
        ppto_stream_pop(g);
        must(ppto_event_record(g, streams[part], &b->event[part]) == PPTO_OK);
    }
    must(ppto_compile(1, &t, &b->program) == PPTO_OK);
    ppto_graph_destroy(g);
}

static void record_all(const sizes *of)
{
    if (!by_pipes) make_files(of->loads);
    for (int i = 0; i < n; i++) record(&batches[i], of);
}

static void forget_all(void)
{
    for (int i = 0; i < n; i++) {
        ppto_program_destroy(batches[i].program);
        for (int part = 0; part < PARTS; part++) ppto_event_release(batches[i].event[part]);
    }
}

/* Files leave the page cache; pipes are made anew. */
static void prepare(const sizes *of)
{
    static const char *in[MOST], *out[MOST];
    if (!by_pipes) {
        cool_all();
        return;
    }
    for (int i = 0; i < n; i++) in[i] = batches[i].in, out[i] = batches[i].out;
    const size_t bytes = (size_t)of->loads * ROWS * COLUMNS * sizeof(float);
    pipes = (paced){.n = n, .in = in, .out = out, .bytes = bytes, .seconds = PACE};
    must(paced_begin(&pipes));
    record_all(of);
}

static void tidy(void)
{
    if (!by_pipes) return;
    forget_all();
    must(paced_end(&pipes));
}

/* ---- turns --------------------------------------------------------------------------------------- */

static atomic_int untold; /* events of runs that have begun */

static void note(void *when, ppto_status status)
{
    *(double *)when = status == PPTO_OK ? now() : 0;
    atomic_fetch_sub(&untold, 1);
}

static void start(batch *b, double when[PARTS])
{
    must(ppto_program_start(b->program, NULL, &b->run) == PPTO_OK);
    for (int part = 0; part < PARTS; part++) {
        atomic_fetch_add(&untold, 1);
        must(ppto_event_then(b->event[part], note, &when[part]) == PPTO_OK);
    }
}

static void finish(batch *b)
{
    must(ppto_run_wait(b->run, -1) == PPTO_OK);
    ppto_run_release(b->run);
}

static void hear_all(void)
{
    while (atomic_load(&untold) != 0) usleep(100);
}

static double processor_time(void)
{
    struct rusage used;
    must(getrusage(RUSAGE_SELF, &used) == 0);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           1e-6 * (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

/* Seconds of every part over all batches. */
static void in_turn(turn *of, const sizes *size)
{
    double ends[MOST][PARTS] = {{0}}, begins[MOST];
    prepare(size);
    of->busy = processor_time();
    for (int i = 0; i < n; i++) {
        begins[i] = now();
        start(&batches[i], ends[i]);
        finish(&batches[i]);
    }
    of->busy = processor_time() - of->busy;
    hear_all();
    tidy();
    for (int part = 0; part < PARTS; part++) {
        of->part[part] = 0;
        for (int i = 0; i < n; i++)
            of->part[part] += ends[i][part] - (part == 0 ? begins[i] : ends[i][part - 1]);
    }
}

static void overlapped(turn *of, const sizes *size)
{
    prepare(size);
    of->busy_at_once = processor_time();
    double begin = now();
    for (int i = 0; i < n; i++) start(&batches[i], of->when[i]);
    for (int i = 0; i < n; i++) finish(&batches[i]);
    of->total = now() - begin;
    of->busy_at_once = processor_time() - of->busy_at_once;
    hear_all();
    tidy();
    for (int i = 0; i < n; i++)
        for (int part = 0; part < PARTS; part++) of->when[i][part] -= begin;
}

/* ---- beside plain threads ----------------------------------------------------------------------- */

static const char *in_path(int i)
{
    return batches[i].in;
}

static const char *out_path(int i)
{
    return batches[i].out;
}

static void plain_turn(turn *of, const sizes *size)
{
    const size_t block = (size_t)ROWS * COLUMNS * sizeof(float);
    const plain_work work = {.n = n,
                             .in = in_path,
                             .out = out_path,
                             .cool = cool_all,
                             .read_bytes = (size_t)size->loads * block,
                             .write_bytes = (size_t)size->stores * block,
                             .read_around = by->read_around,
                             .write_around = by->write_around,
                             .compute_seconds = of->part[COMPUTE]};
    must(plain_measure(&work, &of->plain));
    of->alone[LOAD] = of->plain.alone[LOAD];
    of->alone[STORE] = of->plain.alone[STORE];
}

/* The parts one after the other, and each alone. */
static void part_by_part(turn *of, const sizes *size)
{
    in_turn(of, size);
    memcpy(of->alone, of->part, sizeof of->alone);
    if (!by_pipes) plain_turn(of, size);
}

/* ---- making the parts equal --------------------------------------------------------------------- */

/* The least of several turns: who else uses the machine only adds to a part. */
static void measure(const sizes *of, int turns, double part[PARTS])
{
    static turn one;
    if (!by_pipes) record_all(of);
    for (int i = 0; i <= turns; i++) { /* the first makes plans, and writes find no room yet */
        part_by_part(&one, of);
        for (int k = 0; k < PARTS; k++)
            if (i <= 1 || one.alone[k] < part[k]) part[k] = one.alone[k];
    }
    if (!by_pipes) forget_all();
}

static int64_t scaled(int64_t blocks, double to, double from)
{
    int64_t more = from > 0 ? (int64_t)((double)blocks * to / from + 0.5) : blocks;
    return more < LEAST_BLOCKS ? LEAST_BLOCKS : more > MOST_BLOCKS ? MOST_BLOCKS : more;
}

static sizes make_equal(int turns)
{
    double one[PARTS], two[PARTS];
    sizes of = {LEAST_BLOCKS, LEAST_BLOCKS, 1};
    measure(&of, turns, one);
    double to = one[LOAD] > one[STORE] ? one[LOAD] : one[STORE];
    if (!by_pipes) {
        of.loads = scaled(of.loads, to, one[LOAD]);
        of.stores = scaled(of.stores, to, one[STORE]);
        measure(&of, turns, one);
    }
    of.rounds = 9;
    measure(&of, turns, two);
    double each = (two[COMPUTE] - one[COMPUTE]) / (of.rounds - 1), other = (two[LOAD] + two[STORE]) / 2;
    int rounds = each > 0 ? 1 + (int)((other - one[COMPUTE]) / each + 0.5) : 1;
    of.rounds = rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
    return of;
}

/* ---- all of it ---------------------------------------------------------------------------------- */

static void take_turns(const sizes *of, turn *all, int turns)
{
    if (!by_pipes) record_all(of);
    in_turn(&all[0], of);
    for (int i = 0; i < turns; i++) {
        part_by_part(&all[i], of);
        overlapped(&all[i], of);
    }
    if (!by_pipes) forget_all();
}

static void compare(int turns)
{
    static turn all[MOST_TURNS];
    const sizes of = make_equal(by_pipes ? 1 : 3);
    take_turns(&of, all, turns);
    printf("\n%s: a batch loads %lld MiB, computes %d operators, stores %lld MiB; medians of %d turns\n",
           by->name, (long long)of.loads, 2 * of.rounds + 2, (long long)of.stores, turns);
    overlap_report(all, turns, n, !by_pipes);
}

static void name_all(const char *folder, const char *ending)
{
    for (int i = 0; i < n; i++) {
        snprintf(batches[i].in, sizeof batches[i].in, "%s/in%d.%s", folder, i, ending);
        snprintf(batches[i].out, sizeof batches[i].out, "%s/out%d.%s", folder, i, ending);
    }
}

static void go(const way *kind, const char *folder, int turns)
{
    ppto_options options = PPTO_OPTIONS_INIT;
    options.threads = 1;
    options.page_cache = kind->page_cache;
    by = kind;
    by_pipes = kind->pipes;
    must(ppto_context_create(&ctx, &options) == PPTO_OK);
    for (int i = 0; i < PARTS; i++)
        streams[i] = ppto_stream_create(ctx, names[i], i == COMPUTE ? PPTO_STREAM_CPU : PPTO_STREAM_IO);
    name_all(folder, kind->pipes ? "raw" : "npy");
    compare(turns);
    if (!kind->pipes) cool_all();
    for (int i = 0; i < n && !kind->pipes; i++) unlink(batches[i].in);
    for (int i = 0; i < PARTS; i++) ppto_stream_destroy(streams[i]);
    ppto_context_destroy(ctx);
}

int main(int argc, char **argv)
{
    char folder[] = "overlap-XXXXXX";
    int turns = argc > 2 ? atoi(argv[2]) : 7;
    if (argc > 1) n = atoi(argv[1]);
    if (n < 1 || n > MOST || turns < 1 || turns > MOST_TURNS) return 2;
    must(mkdtemp(folder) != NULL);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (argc < 4 || (size_t)atoi(argv[3]) == i) go(&ways[i], folder, turns);
    return rmdir(folder) == 0 ? 0 : 1;
}
