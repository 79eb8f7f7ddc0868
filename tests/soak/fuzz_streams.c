/* SPDX-License-Identifier: Apache-2.0
 * Random graphs with streams, events, sources, sinks, failures, cancels and deadlines, run by the simulator,
 * up to four at once: the order of runs, tasks, completions, reads and writes, signals and cancels comes from
 * the seed alone, and time is virtual.
 *
 *   fuzz_streams [--seeds N] [--seed S]
 *
 * Every seed records its graphs twice, with streams and without, and runs them all: with streams together,
 * waiting for one another's events. Then: every task ran at most once and after all its step needs; every
 * event ended; every callback was called once; outputs that are there have the bits of the run without
 * streams, and all are there when the run says OK; a file is the old one or has these bits, and is there when
 * the run, or the event behind it, says OK; a run that is alone takes no more memory than its plan says;
 * pool, heap, folder and descriptors are as before. 0 = passed; a seed that fails is named and can be run
 * alone. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_case.h"
#include "fuzz_files.h"
#include "ppto/ops.h"

enum { MOST_OPS = 14, MOST_FILES = 3, N = 12 };

static uint64_t state, digest; /* digest: of all draws the world saw, in order */
static ppto_context *simulated, *plain;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

static void count_call(void *arg, ppto_status status)
{
    (void)status;
    atomic_fetch_add(&((fuzz_case *)arg)->called, 1);
}

/* Event `e` of the case is there now: somebody may want to be called. */
static void new_event(fuzz_case *c, bool user)
{
    uint32_t i = c->n_events++;
    c->user[i] = user;
    c->ended[i] = false;
    c->signal[i] = draw(6) == 0 ? PPTO_E_IO : PPTO_OK;
    if (draw(3) == 0 && ppto_event_then(c->event[i], count_call, c) == PPTO_OK) c->registered++;
}

static ppto_tensor *operation(ppto_graph *g, ppto_tensor *a, ppto_tensor *b, ppto_tensor *index,
                              uint32_t which)
{
    switch (which % 9) {
    case 0: return ppto_add(a, b);
    case 1: return ppto_mul(a, b);
    case 2: return ppto_exp(ppto_neg(ppto_abs(a)));
    case 3: return ppto_softmax(a);
    case 4: return ppto_sub(a, ppto_sum(b));
    case 5: return ppto_cumulative_sum(ppto_minimum(a, b));
    case 6: return ppto_maximum(a, ppto_mul(b, ppto_float(g, 0.5)));
    case 7: return ppto_flip(a);
    default: return ppto_add(ppto_sum(ppto_take(a, index)), b); /* fails when the index is out of range */
    }
}

/* Records sync points between two operators; c NULL: only draws the same numbers. */
static void sync_points(fuzz_case *c, ppto_graph *g, bool streams)
{
    for (uint32_t k = draw(3); k > 0; k--) {
        uint32_t kind = draw(4), on = draw(c->n_streams), which = draw(MOST_EVENTS);
        if (!streams) continue;
        if (kind == 0 && c->n_events < MOST_EVENTS) {
            if (ppto_event_record(g, c->stream[on], &c->event[c->n_events]) == PPTO_OK) new_event(c, false);
        } else if (kind == 1 && c->n_events < MOST_EVENTS) {
            if (ppto_event_create_user(simulated, &c->event[c->n_events]) == PPTO_OK) new_event(c, true);
        } else if (c->n_events != 0) {
            (void)ppto_stream_wait(g, c->stream[on], c->event[which % c->n_events]);
        }
    }
}

static void push(const fuzz_case *c, ppto_graph *g, bool streams, uint32_t on)
{
    if (streams && on < c->n_streams) (void)ppto_stream_push(g, c->stream[on]);
}

static void pop(const fuzz_case *c, ppto_graph *g, bool streams, uint32_t on)
{
    if (streams && on < c->n_streams) (void)ppto_stream_pop(g);
}

static uint32_t record_sources(const fuzz_case *c, ppto_graph *g, bool streams, ppto_tensor **values)
{
    uint32_t n = draw(MOST_FILES);
    for (uint32_t k = 0; k < n; k++) {
        uint32_t which = draw(FILE_SOURCES), on = draw(c->n_streams + 1);
        push(c, g, streams, on);
        values[k] = ppto_open(g, files_source(which));
        pop(c, g, streams, on);
    }
    return n;
}

/* What the first run stores, when the event behind it has happened; without streams an input. */
static uint32_t record_relay(fuzz_case *c, ppto_graph *g, bool streams, uint32_t run, ppto_tensor **value)
{
    uint32_t wanted = draw(2), on = draw(c->n_streams);
    if (run == 0 || wanted == 0 || c->relayed == MOST_OUTPUTS) return 0;
    c->relays[run] = true;
    if (!streams) {
        *value = ppto_input(g, "r", PPTO_F32, "12");
        return 1;
    }
    if (ppto_stream_wait(g, c->stream[on], c->event[c->behind[0][c->relayed]]) != PPTO_OK)
        complain(c, "wait");
    push(c, g, true, on);
    *value = ppto_open(g, files_stored(0, c->relayed));
    pop(c, g, true, on);
    return 1;
}

/* Without streams it is an array, to compare with. */
static void record_sink(fuzz_case *c, ppto_graph *g, bool streams, uint32_t run, uint32_t i, ppto_tensor **y)
{
    bool wanted = draw(3) == 0;
    uint32_t on = draw(c->n_streams + 1), event = draw(2);
    if (!wanted || !streams) return;
    c->sink[run][i] = true;
    c->behind[run][i] = MOST_EVENTS;
    push(c, g, true, on);
    *y = ppto_sink(g, *y, files_result(run, i));
    pop(c, g, true, on);
    if (event == 0 || on == c->n_streams || c->n_events == MOST_EVENTS) return;
    uint64_t keep = state;
    c->behind[run][i] = c->n_events;
    if (run == 0) c->relayed = i;
    if (ppto_event_record(g, c->stream[on], &c->event[c->n_events]) == PPTO_OK) new_event(c, false);
    state = keep;
}

/* The same operators with streams and without: both draw the same numbers for them. */
static ppto_program *record(fuzz_case *c, bool streams, uint32_t which_run, ppto_graph **graph)
{
    ppto_tensor *values[MOST_OPS + MOST_FILES + 2], *outputs[MOST_OUTPUTS];
    ppto_graph *g = *graph = ppto_graph_create(streams ? simulated : plain);
    ppto_tensor *index = ppto_input(g, "i", PPTO_I64, "1");
    uint32_t n = 0, ops = 2 + draw(MOST_OPS - 1);
    values[n++] = ppto_input(g, "x", PPTO_F32, "12");
    values[n++] = ppto_input(g, "y", PPTO_F32, "12");
    n += record_sources(c, g, streams, values + n);
    n += record_relay(c, g, streams, which_run, values + n);
    for (uint32_t k = 0; k < ops; k++) {
        uint64_t keep = state; /* what sync points draw is not seen by the operators */
        state ^= k * 0x9e3779b97f4a7c15u;
        sync_points(c, g, streams);
        state = keep;
        uint32_t on = draw(c->n_streams + 1), a = draw(n), b = draw(n), which = draw(60);
        if (which == 8 && draw(2) == 0) which = 0;
        push(c, g, streams, on);
        values[n] = operation(g, values[a], values[b], index, which < 9 ? which : which % 8);
        n++;
        pop(c, g, streams, on);
    }
    uint32_t n_outputs = c->n_outputs[which_run] = 1 + draw(MOST_OUTPUTS);
    for (uint32_t i = 0; i < n_outputs; i++) {
        outputs[i] = values[i == 0 ? n - 1 : draw(n)];
        record_sink(c, g, streams, which_run, i, &outputs[i]);
    }
    ppto_program *p = NULL;
    if (ppto_compile(n_outputs, outputs, &p) != PPTO_OK) complain(c, "compile");
    return p;
}

static void bind(ppto_program *p, bool wrong)
{
    static const int64_t shape[] = {N}, one[] = {1};
    ppto_context *ctx = p->ctx;
    const int64_t at = wrong ? 100 : 3;
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, shape, "uniform(-1,1)", "x");
    ppto_array *y = ppto_array_fill(ctx, PPTO_F32, 1, shape, "uniform(-1,1)", "y");
    ppto_array *i = ppto_array_copy_of(ctx, PPTO_I64, 1, one, &at);
    (void)ppto_program_bind_name(p, "x", x);
    (void)ppto_program_bind_name(p, "y", y);
    (void)ppto_program_bind_name(p, "i", i);
    ppto_array_release(x);
    ppto_array_release(y);
    ppto_array_release(i);
}

/* ---- the world: user events and cancels ---- */

static bool signal_one(fuzz_case *c, uint64_t drawn)
{
    for (uint32_t i = 0; i < c->n_events; i++) {
        uint32_t at = (uint32_t)((drawn + i) % c->n_events);
        if (!c->user[at] || c->ended[at]) continue;
        if (c->never && at % 2 == 0) continue;
        c->ended[at] = true;
        if (ppto_event_signal(c->event[at], c->signal[at]) != PPTO_OK) complain(c, "signal");
        return true;
    }
    return false;
}

static bool turn(void *arg, uint64_t drawn)
{
    fuzz_case *c = arg;
    while (!atomic_load(&c->started)) continue;
    digest = pp_hash_mix(digest, drawn);
    c->world.now_ns += 1000;
    if (c->cancel_after == 0) {
        ppto_run *run = c->run[(drawn >> 4) % c->n_runs];
        if (run) ppto_run_cancel(run, "drawn");
    }
    if (c->cancel_after != UINT32_MAX && c->cancel_after-- == 0) {
        c->cancel_after = UINT32_MAX;
        return true;
    }
    if (drawn & 1 && files_move(&c->world.now_ns)) return true;
    return signal_one(c, drawn >> 8) || files_move(&c->world.now_ns);
}

/* ---- one seed ---- */

static void start(fuzz_case *c, fuzz_run *r, uint32_t i)
{
    ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
    r->policy = options.policy = draw(2) == 0 ? PPTO_FAIL_FAST : PPTO_KEEP_GOING;
    options.priority = (int)draw(3);
    if (c->never || draw(4) == 0) /* so far apart that the moments of the starts do not matter */
        options.deadline_ns = (i + 1) * INT64_C(1000000000000000);
    r->with = ppto_program_start(r->p, &options, &c->run[i]);
    if (r->with != PPTO_OK) pp_executor_left(simulated->executor); /* it is not waited for */
}

static void finish(const fuzz_case *c, fuzz_run *r, uint32_t i)
{
    if (!c->run[i]) return;
    r->with = ppto_run_wait(c->run[i], -1);
    if (ppto_run_outputs(c->run[i], r->a) != PPTO_OK) complain(c, "outputs");
    if (r->with != PPTO_OK && r->policy == PPTO_FAIL_FAST)
        for (uint32_t k = 0; k < c->n_outputs[i]; k++)
            if (r->a[k]) complain(c, "an output of a run that failed");
}

static void run_streams(fuzz_case *c, fuzz_run *runs)
{
    for (uint32_t i = 0; i < c->n_runs; i++) start(c, &runs[i], i);
    atomic_store(&c->started, true);
    for (uint32_t i = 0; i < c->n_runs; i++) finish(c, &runs[i], i);
    for (uint32_t i = 0; i < c->n_runs; i++) ppto_run_release(c->run[i]);
}

static void tidy(fuzz_case *c)
{
    for (uint32_t i = 0; i < c->n_events; i++) {
        bool open = c->user[i] && !c->ended[i];
        if (!c->user[i]) continue;
        if (open && draw(2) == 0) (void)ppto_event_signal(c->event[i], PPTO_OK);
        ppto_event_release(c->event[i]);
    }
}

static void record_all(fuzz_case *c, fuzz_run *runs)
{
    uint64_t keep = state;
    for (uint32_t i = 0; i < c->n_runs; i++) runs[i].p = record(c, true, i, &runs[i].graph);
    state = keep;
    for (uint32_t i = 0; i < c->n_runs; i++) runs[i].q = record(c, false, i, &runs[i].other);
    for (uint32_t i = 0; i < c->n_runs; i++) {
        bind(runs[i].p, runs[i].wrong);
        bind(runs[i].q, runs[i].wrong);
        (void)ppto_program_log_tasks(runs[i].p, true);
    }
}

/* Also when something fails, what does not depend on it is there to compare with. */
static ppto_status run_plain(ppto_program *q, ppto_array **outputs)
{
    ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
    ppto_run *run = NULL;
    options.policy = PPTO_KEEP_GOING;
    PP_TRY(ppto_program_start(q, &options, &run));
    ppto_status status = ppto_run_wait(run, -1);
    (void)ppto_run_outputs(run, outputs);
    ppto_run_release(run);
    return status;
}

static void bind_relay(const fuzz_case *c, const fuzz_run *runs, uint32_t i)
{
    static const int64_t shape[] = {N};
    ppto_array *there = runs[0].b[c->relayed];
    ppto_array *r = there ? ppto_array_copy_of(plain, PPTO_F32, 1, shape, ppto_array_data(there))
                          : ppto_array_fill(plain, PPTO_F32, 1, shape, "zeros", "r");
    if (ppto_program_bind_name(runs[i].q, "r", r) != PPTO_OK) complain(c, "bind");
    ppto_array_release(r);
}

/* Of a run whose file is not known nothing is. */
static void forget(ppto_array **outputs)
{
    for (int k = 0; k < MOST_OUTPUTS; k++) {
        ppto_array_release(outputs[k]);
        outputs[k] = NULL;
    }
}

static void check_all(const fuzz_case *c, fuzz_run *runs)
{
    bool fails = false;
    files_are_there(true);
    for (uint32_t i = 0; i < c->n_runs; i++) {
        if (c->relays[i]) bind_relay(c, runs, i);
        runs[i].without = run_plain(runs[i].q, runs[i].b);
        if (c->relays[i] && !runs[0].b[c->relayed]) forget(runs[i].b);
        fails = fails || runs[i].without != PPTO_OK;
    }
    for (uint32_t i = 0; i < c->n_runs; i++) {
        if (!c->run[i]) continue;
        check_log(c, runs[i].p);
        check_events(c, runs[i].p);
        compare(c, &runs[i], i, fails);
        check_files(c, &runs[i], i);
    }
}

static void drop(const fuzz_case *c, fuzz_run *runs)
{
    for (uint32_t i = 0; i < c->n_runs; i++) {
        for (uint32_t k = 0; k < c->n_outputs[i]; k++) {
            ppto_array_release(runs[i].a[k]);
            ppto_array_release(runs[i].b[k]);
        }
        ppto_program_destroy(runs[i].p);
        ppto_program_destroy(runs[i].q);
    }
}

/* An event that never began keeps its callbacks until it ends: ends those of this case by hand. */
static void end_events(const fuzz_case *c)
{
    pp_syncs *syncs = simulated->syncs;
    pp_told told = {NULL, NULL};
    ppto_poison poison = {.status = PPTO_E_CANCELLED, .text = "over"};
    pthread_mutex_lock(&syncs->lock);
    for (uint32_t i = 0; i < c->n_events; i++) {
        pp_event_row *row = pp_event_row_of(syncs, c->event[i].id, NULL);
        if (row && row->waits && row->begun == 0) {
            row->begun = 1;
            pp_event_end(syncs, row, 1, PPTO_E_CANCELLED, &poison, &told);
        } else if (row && row->waits) {
            complain(c, "somebody still waits for an event");
        }
    }
    pthread_mutex_unlock(&syncs->lock);
    for (uint32_t i = 0; i < c->n_events; i++)
        if (!c->user[i]) ppto_event_release(c->event[i]);
}

static ppto_stream *draw_stream(void)
{
    bool of_files = draw(2) != 0;
    ppto_stream *stream = ppto_stream_create(simulated, "s", of_files ? PPTO_STREAM_IO : PPTO_STREAM_CPU);
    if (of_files) (void)ppto_stream_set_depth(stream, 1 + (int)draw(3));
    if (of_files) (void)ppto_stream_set_bytes(stream, draw(2) * 4096);
    return stream;
}

static uint64_t one_seed(uint64_t seed)
{
    fuzz_case c = {.seed = seed, .cancel_after = UINT32_MAX, .relayed = MOST_OUTPUTS};
    fuzz_run runs[MOST_RUNS];
    uint64_t kinds = 0;
    memset(runs, 0, sizeof runs);
    state = seed * 0x9e3779b97f4a7c15u + 1;
    c.n_streams = 1 + draw(MOST_STREAMS);
    c.n_runs = 1 + draw(MOST_RUNS);
    c.never = draw(8) == 0;
    if (draw(5) == 0) c.cancel_after = draw(12 * c.n_runs);
    for (uint32_t i = 0; i < c.n_runs; i++) runs[i].wrong = draw(4) == 0;
    for (uint32_t i = 0; i < c.n_streams; i++) c.stream[i] = draw_stream();
    record_all(&c, runs);
    c.world = (pp_sim_world){.turn = turn, .arg = &c, .now_ns = pp_clock_ns(), .runs = c.n_runs};
    simulated->executor->seed = seed;
    pp_executor_simulate(simulated->executor, &c.world);
    if (!files_case_begin(seed, c.world.now_ns)) complain(&c, "no engine");
    run_streams(&c, runs);
    check_all(&c, runs);
    for (uint32_t i = 0; i < c.n_runs; i++)
        if (runs[i].with != PPTO_OK) kinds |= (uint64_t)1 << (unsigned)-runs[i].with;
    digest = pp_hash_mix(digest, kinds);
    tidy(&c);
    pp_executor_simulate(simulated->executor, NULL);
    files_case_end();
    drop(&c, runs);
    end_events(&c);
    for (uint32_t i = 0; i < c.n_runs; i++) {
        ppto_graph_destroy(runs[i].graph);
        ppto_graph_destroy(runs[i].other);
    }
    for (uint32_t i = 0; i < c.n_streams; i++) ppto_stream_destroy(c.stream[i]);
    if (!all_called(&c)) complain(&c, "a callback was not called once");
    return kinds;
}

static ppto_context *context_with(const char *executor)
{
    ppto_context *ctx = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = executor;
    o.threads = 3;
    return ppto_context_create(&ctx, &o) == PPTO_OK && pp_context_device(ctx, NULL) == PPTO_OK ? ctx : NULL;
}

int main(int argc, char **argv)
{
    uint64_t seeds = 5000, first = 1, kinds = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seeds") == 0) seeds = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seed") == 0) first = strtoull(argv[i + 1], NULL, 10);
    }
    int64_t live = pp_heap_count().live;
    simulated = context_with("sim");
    plain = context_with("serial");
    if (!simulated || !plain || !files_begin(simulated)) return 1;
    for (uint64_t seed = first; seed < first + seeds && failures_seen < 10; seed++) {
        kinds |= one_seed(seed);
        if (seed % 50000 == 0) {
            printf("%llu seeds\n", (unsigned long long)(seed - first));
            fflush(stdout);
        }
    }
    if (simulated->syncs->rows.n > MOST_EVENTS || simulated->syncs->streams) failures_seen++;
    ppto_context_destroy(simulated);
    ppto_context_destroy(plain);
    if (!files_end()) {
        fprintf(stderr, "files or descriptors are left\n");
        failures_seen++;
    }
    if (pp_heap_count().live != live) {
        fprintf(stderr, "%lld blocks are left\n", (long long)(pp_heap_count().live - live));
        failures_seen++;
    }
    printf("%llu seeds, %llu failures, %llu files, kinds of ends %llx, digest %llx\n",
           (unsigned long long)seeds, (unsigned long long)failures_seen, (unsigned long long)files_seen,
           (unsigned long long)kinds, (unsigned long long)digest);
    return failures_seen != 0;
}
