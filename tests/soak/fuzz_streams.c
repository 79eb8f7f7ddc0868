/* SPDX-License-Identifier: Apache-2.0
 * Random graphs with streams, events, failures, cancels and deadlines, run by the simulator: the order of
 * tasks, completions, signals and cancels comes from the seed alone, and time is virtual.
 *
 *   fuzz_streams [--seeds N] [--seed S]
 *
 * Every seed records one graph twice, with streams and without, and runs both. Then: every task ran at most
 * once and after all its step needs; every event ended; every callback was called once; outputs that are
 * there have the bits of the run without streams, and all are there when the run says OK; pool and heap are
 * as before. 0 = passed; a seed that fails is named and can be run alone. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ppto/ops.h"
#include "runtime/sync.h"
#include "scheduler/executor.h"

enum { MOST_OPS = 14, MOST_STREAMS = 3, MOST_EVENTS = 12, MOST_OUTPUTS = 4, LOG = 65536, N = 12 };

static uint64_t state, failures_seen;
static ppto_context *simulated, *plain;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

/* ---- a case: what is recorded ---- */

typedef struct fuzz_case {
    uint64_t seed;
    ppto_stream *stream[MOST_STREAMS];
    uint32_t n_streams;
    ppto_event event[MOST_EVENTS];
    bool user[MOST_EVENTS], ended[MOST_EVENTS]; /* user events: signalled */
    ppto_status signal[MOST_EVENTS];
    uint32_t n_events;
    uint32_t n_outputs;
    bool never;            /* some user event is never signalled */
    uint32_t cancel_after; /* turns of the world; UINT32_MAX: never */
    atomic_int called;
    int registered;
    _Atomic(ppto_run *) run;
    pp_sim_world world;
} fuzz_case;

static int complain(const fuzz_case *c, const char *what)
{
    fprintf(stderr, "seed %llu: %s (%s)\n", (unsigned long long)c->seed, what, ppto_error_text(NULL));
    failures_seen++;
    return 1;
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

/* The same operators with streams and without: both draw the same numbers for them. */
static ppto_program *record(fuzz_case *c, bool streams, ppto_graph **graph)
{
    ppto_tensor *values[MOST_OPS + 2], *outputs[MOST_OUTPUTS];
    ppto_graph *g = *graph = ppto_graph_create(streams ? simulated : plain);
    ppto_tensor *index = ppto_input(g, "i", PPTO_I64, "1");
    uint32_t n = 0, ops = 2 + draw(MOST_OPS - 1);
    values[n++] = ppto_input(g, "x", PPTO_F32, "12");
    values[n++] = ppto_input(g, "y", PPTO_F32, "12");
    for (uint32_t k = 0; k < ops; k++) {
        uint64_t keep = state; /* what sync points draw is not seen by the operators */
        state ^= k * 0x9e3779b97f4a7c15u;
        sync_points(c, g, streams);
        state = keep;
        uint32_t on = draw(c->n_streams + 1), a = draw(n), b = draw(n), which = draw(60);
        if (which == 8 && draw(2) == 0) which = 0;
        if (streams && on < c->n_streams) ppto_stream_push(g, c->stream[on]);
        values[n] = operation(g, values[a], values[b], index, which < 9 ? which : which % 8);
        n++;
        if (streams && on < c->n_streams) ppto_stream_pop(g);
    }
    c->n_outputs = 1 + draw(MOST_OUTPUTS);
    for (uint32_t i = 0; i < c->n_outputs; i++) outputs[i] = values[i == 0 ? n - 1 : draw(n)];
    ppto_program *p = NULL;
    if (ppto_compile(c->n_outputs, outputs, &p) != PPTO_OK) complain(c, "compile");
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
    ppto_run *run;
    while ((run = atomic_load(&c->run)) == NULL) continue; /* being started */
    c->world.now_ns += 1000;
    if (c->cancel_after == 0) ppto_run_cancel(run, "drawn");
    if (c->cancel_after != UINT32_MAX && c->cancel_after-- == 0) {
        c->cancel_after = UINT32_MAX;
        return true;
    }
    return signal_one(c, drawn >> 8);
}

/* ---- what must be true ---- */

static void check_log(const fuzz_case *c, const ppto_program *p)
{
    static uint32_t seen[256], done_at[256];
    const pp_plan *plan = p->plan;
    if (plan->steps.n > 256) return;
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < p->log_n; i++) {
        const pp_task_record *r = &p->log.at[i];
        for (size_t k = 0; k < i; k++)
            if (p->log.at[k].step == r->step && p->log.at[k].phase == r->phase &&
                p->log.at[k].task == r->task)
                complain(c, "a task ran twice");
        for (uint32_t k = plan->first_need[r->step]; k < plan->first_need[r->step + 1]; k++)
            if (seen[plan->needs.at[k]] == 0 || done_at[plan->needs.at[k]] > i)
                complain(c, "a task ran before what it needs");
        seen[r->step]++;
        done_at[r->step] = (uint32_t)i;
    }
}

static bool is_recorded_here(const ppto_program *p, ppto_event event)
{
    for (size_t i = 0; p->sync && i < p->sync->n_syncs; i++)
        if (pp_event_id(p->sync->events[i]) == event.id && p->plan->flat.syncs.at[i].kind == PP_SYNC_RECORD)
            return true;
    return false;
}

static void check_events(const fuzz_case *c, const ppto_program *p)
{
    for (uint32_t i = 0; i < c->n_events; i++) {
        ppto_event_state at;
        ppto_poison poison;
        if (ppto_event_query(c->event[i], &at) != PPTO_OK) complain(c, "query");
        if (!c->user[i] && is_recorded_here(p, c->event[i]) && at != PPTO_EVENT_DONE &&
            at != PPTO_EVENT_POISONED)
            complain(c, "an event did not end");
        if (at == PPTO_EVENT_POISONED && (ppto_event_poison(c->event[i], &poison) != PPTO_OK ||
                                          poison.status == PPTO_OK || !poison.text[0]))
            complain(c, "a poison without origin");
    }
    for (uint32_t i = 0; i < c->n_streams; i++)
        if (c->stream[i]->first) complain(c, "a stream is still taken");
}

static bool same_bits(const ppto_array *a, const ppto_array *b)
{
    ppto_comparison difference;
    return ppto_compare(a, b, 0, 0, &difference) == PPTO_OK && difference.equal;
}

/* ---- one seed ---- */

static ppto_status run_streams(fuzz_case *c, ppto_program *p, ppto_array **outputs)
{
    ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
    ppto_run *run = NULL;
    options.policy = draw(2) == 0 ? PPTO_FAIL_FAST : PPTO_KEEP_GOING;
    if (c->never || draw(4) == 0) options.deadline_ns = INT64_C(1000000000000000);
    ppto_status status = ppto_program_start(p, &options, &run);
    atomic_store(&c->run, run);
    if (status != PPTO_OK) return status;
    status = ppto_run_wait(run, -1);
    if (ppto_run_outputs(run, outputs) != PPTO_OK) complain(c, "outputs");
    if (status != PPTO_OK && options.policy == PPTO_FAIL_FAST)
        for (uint32_t i = 0; i < c->n_outputs; i++)
            if (outputs[i]) complain(c, "an output of a run that failed");
    ppto_run_release(run);
    return status;
}

static void compare(const fuzz_case *c, ppto_status with, ppto_array **a, ppto_status without, ppto_array **b)
{
    if (without == PPTO_OK && with == PPTO_E_VALUE) complain(c, "a failure without a reason");
    if (without != PPTO_OK && with == PPTO_OK) complain(c, "a failure was lost");
    for (uint32_t i = 0; i < c->n_outputs; i++) {
        if (with == PPTO_OK && !a[i]) complain(c, "an output is missing");
        if (a[i] && b[i] && !same_bits(a[i], b[i])) complain(c, "other bits than without streams");
    }
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

/* Runs that nobody began leave their callbacks waiting; they are begun once more, without what stops them. */
static uint64_t one_seed(uint64_t seed)
{
    fuzz_case c = {.seed = seed, .cancel_after = UINT32_MAX};
    ppto_array *a[MOST_OUTPUTS] = {NULL}, *b[MOST_OUTPUTS] = {NULL};
    ppto_graph *graph, *other;
    state = seed * 0x9e3779b97f4a7c15u + 1;
    c.n_streams = 1 + draw(MOST_STREAMS);
    c.never = draw(8) == 0;
    if (draw(5) == 0) c.cancel_after = draw(12);
    bool wrong = draw(3) == 0;
    for (uint32_t i = 0; i < c.n_streams; i++)
        c.stream[i] = ppto_stream_create(simulated, "s", PPTO_STREAM_CPU);
    uint64_t keep = state;
    ppto_program *p = record(&c, true, &graph);
    state = keep;
    ppto_program *q = record(&c, false, &other);
    bind(p, wrong);
    bind(q, wrong);
    c.world = (pp_sim_world){.turn = turn, .arg = &c, .now_ns = pp_clock_ns()};
    simulated->executor->seed = seed;
    pp_executor_simulate(simulated->executor, &c.world);
    (void)ppto_program_log_tasks(p, true);
    ppto_status with = run_streams(&c, p, a), without = ppto_program_run(q, b);
    check_log(&c, p);
    if (with != PPTO_E_NOT_SCHEDULED) {
        check_events(&c, p);
        compare(&c, with, a, without, b);
    }
    tidy(&c);
    pp_executor_simulate(simulated->executor, NULL);
    for (uint32_t i = 0; i < c.n_outputs; i++) {
        ppto_array_release(a[i]);
        ppto_array_release(b[i]);
    }
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    /* an event that never began keeps its callbacks until it ends: end those of this case by hand */
    pp_syncs *syncs = simulated->syncs;
    pp_told told = {NULL, NULL};
    ppto_poison poison = {.status = PPTO_E_CANCELLED, .text = "over"};
    pthread_mutex_lock(&syncs->lock);
    for (uint32_t i = 0; i < c.n_events; i++) {
        pp_event_row *row = pp_event_row_of(syncs, c.event[i].id, NULL);
        if (row && row->waits && row->begun == 0) {
            row->begun = 1;
            pp_event_end(syncs, row, 1, PPTO_E_CANCELLED, &poison, &told);
        } else if (row && row->waits) {
            complain(&c, "somebody still waits for an event");
        }
    }
    pthread_mutex_unlock(&syncs->lock);
    for (uint32_t i = 0; i < c.n_events; i++)
        if (!c.user[i]) ppto_event_release(c.event[i]);
    ppto_graph_destroy(graph);
    ppto_graph_destroy(other);
    for (uint32_t i = 0; i < c.n_streams; i++) ppto_stream_destroy(c.stream[i]);
    for (int64_t end = pp_clock_ns() + INT64_C(5000000000); atomic_load(&c.called) != c.registered;)
        if (pp_clock_ns() > end) return complain(&c, "a callback was not called once");
    return with == PPTO_OK ? 0 : (uint64_t)1 << (unsigned)-with;
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
    if (!simulated || !plain) return 1;
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
    if (pp_heap_count().live != live) {
        fprintf(stderr, "%lld blocks are left\n", (long long)(pp_heap_count().live - live));
        failures_seen++;
    }
    printf("%llu seeds, %llu failures, kinds of ends %llx\n", (unsigned long long)seeds,
           (unsigned long long)failures_seen, (unsigned long long)kinds);
    return failures_seen != 0;
}
