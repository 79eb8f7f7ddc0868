/* SPDX-License-Identifier: Apache-2.0
 * Ten thousand runs of every kind in one process: of plans seen before and of new ones, by the caller and by
 * themselves, on streams with events and callbacks, cancelled and late, from file to file, piece by piece,
 * and runs that fail, in an operator, at a file that is short, at a place that cannot be written. What they
 * leave behind is nothing: after the first half the resident set grows by less than 4 MiB, and no block is
 * left.
 *
 *   soak_runs [RUNS]
 *
 * A plain program: 0 = passed. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "ppto/ops.h"
#include "ppto/ppto.h"

enum { RUNS = 10000, ELEMENTS = 3000, GROWTH_KIB = 4096 };

static const char whole[] = "soak_whole.npy", cut[] = "soak_short.npy", out_file[] = "soak_out.npy";

typedef struct place { /* what the runs of one context share */
    ppto_context *ctx;
    ppto_stream *load, *work;
    ppto_array *x, *wrong;
    atomic_int called;
    int registered;
} place;

static uint64_t state = 1;
static int failures;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static void expect(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "%s (%s)\n", what, ppto_error_text(NULL));
    failures++;
}

/* ---- kinds of runs ------------------------------------------------------------------------------- */

/* An expression of the array x; which: its structure and its numbers. */
static ppto_tensor *expression(ppto_graph *g, ppto_tensor *x, uint32_t which)
{
    ppto_tensor *y = x;
    for (uint32_t rest = which; rest != 0; rest /= 5) switch (rest % 5) {
        case 0: y = ppto_exp(ppto_neg(ppto_abs(y))); break;
        case 1: y = ppto_add(y, ppto_float(g, which)); break;
        case 2: y = ppto_mul(y, y); break;
        case 3: y = ppto_sub(y, ppto_sum(x)); break;
        default: y = ppto_cumulative_sum(y); break;
        }
    return y;
}

/* A structure that was not met lately, always of the same size. */
static uint32_t fresh(uint32_t i)
{
    enum { LEAST = 15625, COUNT = 62500 }; /* seven digits to base 5 */
    return LEAST + i * 7919u % COUNT;
}

static ppto_program *compiled(ppto_graph *g, ppto_tensor *y, ppto_array *x)
{
    ppto_program *p = NULL;
    expect(ppto_compile(1, &y, &p) == PPTO_OK, "compile");
    if (p && x) expect(ppto_program_bind_name(p, "x", x) == PPTO_OK, "bind");
    ppto_graph_destroy(g);
    return p;
}

static void by_the_caller(place *at, uint32_t which)
{
    ppto_array *y = NULL;
    ppto_graph *g = ppto_graph_create(at->ctx);
    ppto_program *p = compiled(g, expression(g, ppto_input(g, "x", PPTO_F32, "N"), which), at->x);
    for (uint32_t i = 0; i <= which % 2; i++) {
        expect(ppto_program_run(p, &y) == PPTO_OK, "run");
        ppto_array_release(y);
    }
    ppto_program_destroy(p);
}

static void count(void *arg, ppto_status status)
{
    (void)status;
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* Two runs on two streams, the second behind an event of the first; how: 1, 2 cancels, 3 is late. */
static void on_streams(place *at, uint32_t which, uint32_t how)
{
    ppto_event after;
    ppto_run *first = NULL, *second = NULL;
    ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
    ppto_graph *g = ppto_graph_create(at->ctx), *h = ppto_graph_create(at->ctx);
    ppto_stream_push(g, at->load);
    ppto_tensor *y = expression(g, ppto_input(g, "x", PPTO_F32, "N"), which);
    ppto_stream_pop(g);
    y = which == 0 ? ppto_neg(y) : y;
    expect(ppto_event_record(g, at->load, &after) == PPTO_OK, "record");
    expect(ppto_stream_wait(h, at->work, after) == PPTO_OK, "wait");
    if (ppto_event_then(after, count, &at->called) == PPTO_OK) at->registered++;
    ppto_stream_push(h, at->work);
    ppto_tensor *z = expression(h, ppto_input(h, "x", PPTO_F32, "N"), which + 1);
    ppto_stream_pop(h);
    ppto_program *p = compiled(g, y, at->x), *q = compiled(h, z, at->x);
    if (how == 3) options.deadline_ns = 1;
    options.policy = which % 2 ? PPTO_KEEP_GOING : PPTO_FAIL_FAST;
    expect(ppto_program_start(p, &options, &first) == PPTO_OK, "start");
    ppto_status status = ppto_program_start(q, NULL, &second);
    expect(status == PPTO_OK || status == PPTO_E_NOT_SCHEDULED, "start behind it");
    if (how == 1) (void)ppto_run_cancel(first, "soak");
    if (how == 2 && second) (void)ppto_run_cancel(second, NULL);
    if (second) (void)ppto_run_wait(second, -1);
    status = ppto_run_wait(first, -1);
    expect(how != 0 || status == PPTO_OK, "a run that nothing stopped");
    expect(how != 3 || status == PPTO_E_DEADLINE, "a run that was late");
    (void)ppto_sync(at->load);
    (void)ppto_sync(at->work);
    ppto_run_release(first);
    ppto_run_release(second);
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    ppto_event_release(after);
}

static void failing_operator(place *at)
{
    ppto_array *y = NULL;
    ppto_program *p = NULL;
    ppto_graph *g = ppto_graph_create(at->ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N"), *i = ppto_input(g, "i", PPTO_I64, "M");
    ppto_tensor *taken = ppto_exp(ppto_take(x, i));
    expect(ppto_compile(1, &taken, &p) == PPTO_OK, "compile");
    (void)ppto_program_bind_name(p, "x", at->x);
    (void)ppto_program_bind_name(p, "i", at->wrong);
    expect(ppto_program_run(p, &y) == PPTO_E_VALUE, "an index out of range");
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
}

/* From a file to a file; the files may be bad. */
static void files(place *at, const char *from, const char *to, bool good)
{
    ppto_array *y = NULL;
    ppto_run *run = NULL;
    ppto_graph *g = ppto_graph_create(at->ctx);
    ppto_tensor *x = ppto_open(g, from), *z = x ? ppto_sink(g, ppto_add(x, ppto_float(g, 1)), to) : NULL;
    if (z) {
        ppto_program *p = compiled(g, z, NULL);
        if (draw(2) == 0) {
            expect((ppto_program_run(p, &y) == PPTO_OK) == good, "files");
        } else {
            expect(ppto_program_start(p, NULL, &run) == PPTO_OK, "start");
            expect((ppto_run_wait(run, -1) == PPTO_OK) == good, "files, by itself");
        }
        ppto_run_release(run);
        ppto_program_destroy(p);
        return;
    }
    expect(!good, "open");
    ppto_graph_destroy(g);
}

static void one(place *at, place *pieces, uint32_t i)
{
    switch (draw(12)) {
    case 0: by_the_caller(at, 5 + i % 3); break;
    case 1: by_the_caller(at, fresh(i)); break; /* a new plan */
    case 2: on_streams(at, 7, 0); break;
    case 3: on_streams(at, fresh(i), 0); break;
    case 4: on_streams(at, 7, 1); break;
    case 5: on_streams(at, 31, 2); break;
    case 6: on_streams(at, 31, 3); break;
    case 7: failing_operator(at); break;
    case 8: files(at, whole, out_file, true); break;
    case 9: files(at, cut, out_file, false); break;
    case 10: files(at, whole, "/nowhere/soak.npy", false); break;
    default: by_the_caller(pieces, 11); break; /* piece by piece */
    }
}

/* ---- the whole ----------------------------------------------------------------------------------- */

static void open_place(place *at, const char *executor, uint32_t chunk)
{
    const int64_t shape[] = {ELEMENTS}, one_number[] = {1}, far = ELEMENTS;
    ppto_options o = PPTO_OPTIONS_INIT;
    *at = (place){.registered = 0};
    o.executor = executor;
    o.threads = 2;
    o.chunk = chunk;
    o.memory_limit = 16 << 20; /* without one the pool may keep up to 64 MiB that are free */
    if (ppto_context_create(&at->ctx, &o) != PPTO_OK) exit(1);
    at->x = ppto_array_fill(at->ctx, PPTO_F32, 1, shape, "uniform(-1, 1)", "x");
    at->wrong = ppto_array_copy_of(at->ctx, PPTO_I64, 1, one_number, &far);
    at->load = ppto_stream_create(at->ctx, "load", PPTO_STREAM_IO);
    at->work = ppto_stream_create(at->ctx, "work", PPTO_STREAM_CPU);
}

static void close_place(place *at)
{
    ppto_stream_destroy(at->load);
    ppto_stream_destroy(at->work);
    ppto_array_release(at->x);
    ppto_array_release(at->wrong);
    ppto_context_destroy(at->ctx);
    expect(atomic_load(&at->called) == at->registered, "a callback was not called once");
}

static void make_files(place *at)
{
    expect(ppto_array_save(at->x, whole) == PPTO_OK, "save");
    expect(ppto_array_save(at->x, cut) == PPTO_OK && truncate(cut, 5000) == 0, "a short file");
}

static long resident_kib(void)
{
    long all, pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (statm && fscanf(statm, "%ld %ld", &all, &pages) != 2) pages = 0;
    if (statm) fclose(statm);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char **argv)
{
    uint32_t runs = argc > 1 ? (uint32_t)atoi(argv[1]) : RUNS;
    int64_t live = pp_heap_count().live;
    place at, pieces;
    long before = 0;
    open_place(&at, NULL, 0);
    open_place(&pieces, "pthread", 64);
    make_files(&at);
    for (uint32_t i = 0; i < runs && failures < 5; i++) {
        one(&at, &pieces, i);
        if (i == runs / 2) before = resident_kib();
    }
    long grown = resident_kib() - before;
    close_place(&at);
    close_place(&pieces);
    unlink(whole);
    unlink(cut);
    unlink(out_file);
    printf("%u runs, %ld KiB more, %lld blocks left, %d failures\n", runs, grown,
           (long long)(pp_heap_count().live - live), failures);
    return failures != 0 || grown > GROWTH_KIB || pp_heap_count().live != live;
}
