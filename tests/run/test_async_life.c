/* SPDX-License-Identifier: Apache-2.0
 * Runs that go on by themselves: admission to memory, runs by pieces, callbacks, waits that would never end,
 * destruction in every state, idle time, fork. */
#include "async_common.h"

TestSuite(async_life, .init = begin, .fini = end, .timeout = 120);

/* ---- memory and priority ---- */

Test(async_life_own, runs_are_admitted_by_their_peaks, .timeout = 120)
{
    const int64_t n[] = {1 << 18}; /* 1 MiB an array: a run needs 2 */
    ctx = context_with("pthread", 12 << 20);
    s = t = NULL;
    ppto_program *p[8];
    ppto_run *run[8];
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, n, "ones", "x");
    for (int i = 0; i < 8; i++) {
        p[i] = program_on(NULL, no_event, NULL);
        ppto_program_bind(p[i], 0, x);
    }
    for (int round = 0; round < 20; round++) { /* results of 8 runs are 8 MiB, and a peak is 2 */
        for (int i = 0; i < 8; i++) run[i] = start(p[i], NULL);
        for (int i = 0; i < 8; i++)
            cr_expect_eq(ppto_run_wait(run[i], -1), PPTO_OK, "%s", ppto_run_error(run[i]));
        for (int i = 0; i < 8; i++) ppto_run_release(run[i]);
    }
    const int64_t large[] = {4 << 20};
    ppto_array *wide =
        ppto_array_wrap(ctx, ppto_array_data(x), PPTO_F32, 1, large, (const int64_t[]){0}, NULL, NULL);
    ppto_program_bind(p[0], 0, wide);
    run[0] = start(p[0], NULL);
    cr_expect_eq(ppto_run_wait(run[0], -1), PPTO_E_LIMIT, "what never fits fails at once");
    ppto_run_release(run[0]);
    for (int i = 0; i < 8; i++) ppto_program_destroy(p[i]);
    ppto_array_release(x);
    ppto_array_release(wide);
    ppto_context_destroy(ctx);
}

/* Runs that hold memory while they wait: the sum of peaks admitted stays within the limit. */
Test(async_life_own, a_run_waits_for_memory_and_not_before_what_it_depends_on, .timeout = 120)
{
    const int64_t n[] = {1 << 18};
    ctx = context_with("pthread", 5 << 20);
    s = ppto_stream_create(ctx, "s", PPTO_STREAM_CPU);
    t = NULL;
    ppto_event gate, e;
    ppto_event_create_user(ctx, &gate);
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, n, "ones", "x");
    ppto_program *holds = program_on(s, gate, &e), *depends = program_on(s, e, NULL);
    ppto_program *free_one = program_on(NULL, no_event, NULL);
    ppto_program_bind(holds, 0, x);
    ppto_program_bind(depends, 0, x);
    ppto_program_bind(free_one, 0, x);
    ppto_run_options first = PPTO_RUN_OPTIONS_INIT;
    first.priority = 10;
    ppto_run *a = start(holds, NULL), *b = start(depends, &first), *c = start(free_one, &first);
    pause_ms(20); /* two peaks of 2 MiB fit, three do not: c waits, whatever its priority, or a and b do */
    ppto_event_signal(gate, PPTO_OK);
    expect_two(b);
    expect_two(a);
    expect_two(c);
    ppto_run_release(a);
    ppto_run_release(b);
    ppto_run_release(c);
    ppto_program_destroy(holds);
    ppto_program_destroy(depends);
    ppto_program_destroy(free_one);
    ppto_array_release(x);
    ppto_event_release(gate);
    ppto_event_release(e);
    ppto_stream_destroy(s);
    ppto_context_destroy(ctx);
}

/* The caller's run enters the stream behind one that no driver has taken yet: it gets no memory before it. */
Test(async_life_own, a_run_of_the_caller_lets_queued_ones_pass_that_it_waits_for, .timeout = 120)
{
    const int64_t n[] = {1 << 18}; /* a peak is 2 MiB: one at a time, beside the result that is kept */
    ctx = context_with("pthread", 4 << 20);
    s = ppto_stream_create(ctx, "s", PPTO_STREAM_CPU);
    t = NULL;
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, n, "ones", "x"), *y = NULL;
    ppto_program *ahead = program_on(s, no_event, NULL), *behind = program_on(s, no_event, NULL);
    ppto_program_bind(ahead, 0, x);
    ppto_program_bind(behind, 0, x);
    for (int i = 0; i < 200; i++) {
        ppto_run *run = start(ahead, NULL);
        cr_assert_eq(ppto_program_run(behind, &y), PPTO_OK, "%s", ppto_error_text(ctx));
        cr_assert_eq(ppto_run_wait(run, -1), PPTO_OK);
        ppto_array_release(y);
        ppto_run_release(run);
    }
    ppto_program_destroy(ahead);
    ppto_program_destroy(behind);
    ppto_array_release(x);
    ppto_stream_destroy(s);
    ppto_context_destroy(ctx);
}

static ppto_program *scores(const ppto_array *x)
{
    ppto_program *p = NULL;
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_input(g, "x", PPTO_F32, "N, 64");
    ppto_tensor *y = ppto_expr(g, "softmax(x @ transpose(x)) @ x");
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(ppto_program_bind(p, 0, (ppto_array *)(uintptr_t)x), PPTO_OK);
    ppto_graph_destroy(g);
    return p;
}

static ppto_array *filled(int64_t rows)
{
    return ppto_array_fill(ctx, PPTO_F32, 2, (int64_t[]){rows, 64}, "normal", "x");
}

/* What is held beside the runs counts: an array that is kept, results that are not released yet. */
Test(async_life_own, runs_are_admitted_beside_what_is_kept, .timeout = 120)
{
    enum { ROWS = 500, BYTES = ROWS * 64 * 4 };
    ppto_stats stats = {.size = sizeof stats};
    ctx = context_with("pthread", 0);
    ppto_array *x = filled(ROWS), *y = NULL;
    ppto_program *p[2] = {scores(x)};
    cr_assert_eq(ppto_program_run(p[0], &y), PPTO_OK);
    cr_assert_eq(ppto_program_stats(p[0], &stats), PPTO_OK);
    uint64_t takes = stats.predicted_peak_bytes - BYTES;
    ppto_array_release(y);
    ppto_array_release(x);
    ppto_program_destroy(p[0]);
    ppto_context_destroy(ctx);
    /* room for what is kept, one run and a half, and results */
    int64_t rows = (int64_t)(2 * takes / (64 * 4));
    ctx = context_with("pthread", BYTES + (uint64_t)rows * 64 * 4 + takes + takes / 2 + 4 * BYTES);
    s = t = NULL;
    x = filled(ROWS);
    ppto_array *kept = filled(rows);
    cr_assert(x && kept);
    for (int i = 0; i < 2; i++) p[i] = scores(x);
    for (int round = 0; round < 30; round++) {
        ppto_run *run[2] = {start(p[0], NULL), start(p[1], NULL)};
        for (int i = 0; i < 2; i++)
            cr_expect_eq(ppto_run_wait(run[i], -1), PPTO_OK, "%s", ppto_run_error(run[i]));
        for (int i = 0; i < 2; i++) ppto_run_release(run[i]);
    }
    for (int i = 0; i < 2; i++) ppto_program_destroy(p[i]);
    ppto_array_release(kept);
    ppto_array_release(x);
    ppto_context_destroy(ctx);
}

/* A run that goes piece by piece is on its streams as a whole. */
Test(async_life_own, a_run_by_pieces_keeps_its_place_and_its_events, .timeout = 120)
{
    const int64_t n[] = {1 << 18};
    ppto_event gate, e;
    ppto_stats stats = {.size = sizeof stats};
    ppto_options o = PPTO_OPTIONS_INIT;
    o.threads = 2;
    o.chunk = 4096;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK);
    s = ppto_stream_create(ctx, "s", PPTO_STREAM_CPU);
    ppto_event_create_user(ctx, &gate);
    ppto_program *p = program_on(s, gate, &e), *q = program_on(s, e, NULL);
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, n, "ones", "x");
    ppto_program_bind(p, 0, x);
    ppto_program_bind(q, 0, x);
    ppto_run *a = start(p, NULL), *b = start(q, NULL);
    cr_expect_eq(ppto_run_wait(b, 20000000), PPTO_E_TIMEOUT);
    ppto_event_signal(gate, PPTO_OK);
    expect_two(b);
    expect_two(a);
    ppto_run_release(a);
    ppto_run_release(b);
    cr_expect_eq(ppto_program_stats(p, &stats), PPTO_OK);
    cr_expect_gt(stats.pieces, 10);
    cr_expect_eq(ppto_event_wait(e, 0), PPTO_OK);
    ppto_event_release(gate);
    ppto_event_create_user(ctx, &gate);
    ppto_program *held = program_on(s, gate, NULL);
    ppto_program_bind(held, 0, x);
    a = start(held, NULL);
    pause_ms(20);
    ppto_run_cancel(a, NULL);
    cr_expect_eq(ppto_run_wait(a, -1), PPTO_E_CANCELLED);
    ppto_run_release(a);
    ppto_array_release(x);
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    ppto_program_destroy(held);
    ppto_event_release(gate);
    ppto_event_release(e);
    ppto_stream_destroy(s);
    ppto_context_destroy(ctx);
}

/* ---- callbacks, and waits that would never end ---- */

typedef struct called {
    atomic_int times;
    int order[8];
    ppto_status status[8];
    ppto_status wait, run, sync; /* what a callback gets that waits */
    ppto_event event;
    ppto_run *of;
} called;

static called seen;

static void note(void *arg, ppto_status status)
{
    int at = atomic_load(&seen.times);
    seen.order[at] = (int)(intptr_t)arg;
    seen.status[at] = status;
    atomic_fetch_add(&seen.times, 1);
}

static void wait_inside(PP_UNUSED void *arg, PP_UNUSED ppto_status status)
{
    seen.wait = ppto_event_wait(seen.event, -1);
    seen.run = ppto_run_wait(seen.of, -1);
    seen.sync = ppto_sync(s);
    atomic_fetch_add(&seen.times, 1);
}

static void until_called(int times)
{
    for (int i = 0; i < 10000 && atomic_load(&seen.times) < times; i++) pause_ms(1);
    cr_expect_eq(atomic_load(&seen.times), times);
}

Test(async_life, then_is_called_once_in_the_order_of_ends)
{
    ppto_event a, b, e;
    ppto_event_create_user(ctx, &a);
    ppto_event_create_user(ctx, &b);
    cr_expect_eq(ppto_event_then(a, NULL, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_event_then(a, note, (void *)1), PPTO_OK);
    cr_expect_eq(ppto_event_then(b, note, (void *)2), PPTO_OK);
    ppto_event_signal(b, PPTO_OK);
    ppto_event_signal(a, PPTO_E_IO);
    cr_expect_eq(ppto_event_then(a, note, (void *)3), PPTO_OK); /* it has ended */
    until_called(3);
    cr_expect(seen.order[0] == 2 && seen.order[1] == 1 && seen.order[2] == 3);
    cr_expect(seen.status[0] == PPTO_OK && seen.status[1] == PPTO_E_IO && seen.status[2] == PPTO_E_IO);
    ppto_program *p = program_on(s, no_event, &e);
    cr_expect_eq(ppto_event_then(e, note, (void *)4), PPTO_OK); /* before any run */
    ppto_run *run = start(p, NULL);
    until_called(4);
    cr_expect_eq(ppto_run_wait(run, -1), PPTO_OK);
    ppto_run_release(run);
    cr_expect_eq(ppto_event_then(e, note, (void *)5), PPTO_OK);
    until_called(5);
    ppto_program_destroy(p);
    ppto_event_release(a);
    ppto_event_release(b);
    ppto_event_release(e);
}

Test(async_life, waiting_in_a_callback_is_an_error)
{
    ppto_event gate, e;
    ppto_event_create_user(ctx, &seen.event);
    ppto_event_create_user(ctx, &gate);
    ppto_program *p = program_on(s, gate, &e);
    seen.of = start(p, NULL);
    cr_expect_eq(ppto_event_then(gate, wait_inside, NULL), PPTO_OK);
    ppto_event_signal(gate, PPTO_OK);
    until_called(1);
    cr_expect_eq(seen.wait, PPTO_E_WOULD_DEADLOCK);
    cr_expect_eq(seen.run, PPTO_E_WOULD_DEADLOCK);
    cr_expect_eq(seen.sync, PPTO_E_WOULD_DEADLOCK);
    cr_expect_eq(ppto_run_wait(seen.of, -1), PPTO_OK);
    ppto_run_release(seen.of);
    ppto_program_destroy(p);
    ppto_event_release(seen.event);
    ppto_event_release(gate);
    ppto_event_release(e);
}

/* ---- the end of things ---- */

Test(async_life, a_run_ends_at_its_deadline_also_when_nobody_could_begin_it)
{
    enum { DRIVERS = 64 };
    ppto_program *p[DRIVERS];
    ppto_run *run[DRIVERS];
    ppto_event gate, after;
    ppto_poison poison;
    ppto_event_create_user(ctx, &gate);
    for (int i = 0; i < DRIVERS; i++) {
        p[i] = program_on(s, i == 0 ? gate : no_event, NULL);
        run[i] = start(p[i], NULL);
    }
    ppto_program *q = program_on(t, no_event, &after), *r = program_on(NULL, no_event, NULL);
    ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
    options.deadline_ns = 20000000;
    ppto_run *late = start(q, &options), *patient = start(r, NULL);
    cr_expect_eq(ppto_run_wait(late, -1), PPTO_E_DEADLINE);
    cr_expect_eq(ppto_event_poison(after, &poison), PPTO_OK);
    cr_expect_eq(poison.status, PPTO_E_DEADLINE);
    cr_expect_eq(ppto_sync(t), PPTO_E_DEADLINE);
    cr_expect(!ppto_run_over(patient, NULL));
    ppto_event_signal(gate, PPTO_OK);
    expect_two(patient);
    for (int i = 0; i < DRIVERS; i++) {
        cr_expect_eq(ppto_run_wait(run[i], -1), PPTO_OK);
        ppto_run_release(run[i]);
        ppto_program_destroy(p[i]);
    }
    ppto_run_release(late);
    ppto_run_release(patient);
    ppto_program_destroy(q);
    ppto_program_destroy(r);
    ppto_event_release(after);
    ppto_event_release(gate);
}

Test(async_life_own, everything_may_be_destroyed_in_every_state, .timeout = 120)
{
    static const char *const executors[] = {"serial", "sim", "pthread", NULL};
    for (int i = 0; executors[i]; i++) {
        int64_t live = pp_heap_count().live;
        ctx = context_with(executors[i], 0);
        s = ppto_stream_create(ctx, "s", PPTO_STREAM_CPU);
        t = ppto_stream_create(ctx, "t", PPTO_STREAM_CPU);
        ppto_event gate, e, f;
        ppto_event_create_user(ctx, &gate);
        ppto_program *p = program_on(s, gate, &e), *q = program_on(t, e, &f);
        ppto_program *done = program_on(NULL, no_event, NULL);
        ppto_run *a = start(p, NULL), *b = start(q, NULL), *c = start(done, NULL);
        memset(&seen, 0, sizeof seen);
        ppto_event_then(f, note, NULL);
        ppto_program_destroy(p); /* the runs keep them */
        ppto_program_destroy(q);
        ppto_program_destroy(done);
        ppto_event_release(e);
        ppto_event_release(f);
        ppto_stream_destroy(s);
        ppto_stream_destroy(t);
        cr_expect_eq(ppto_run_wait(c, -1), PPTO_OK);
        ppto_run_release(b); /* it goes on */
        pause_ms(i * 5);
        ppto_context_destroy(ctx);
        cr_expect_eq(ppto_run_wait(a, 0), PPTO_E_CANCELLED);
        cr_expect_not_null(strstr(ppto_run_error(a), "destroyed"), "%s", ppto_run_error(a));
        cr_expect_eq(atomic_load(&seen.times), 1);
        cr_expect_eq(seen.status[0], PPTO_E_CANCELLED);
        ppto_run_release(a);
        ppto_run_release(c);
        ppto_run_release(NULL);
        cr_expect_eq(pp_heap_count().live, live, "%s", executors[i]);
    }
}

static double cpu_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

Test(async_life, waiting_runs_and_idle_drivers_burn_no_time)
{
    ppto_event gate;
    ppto_event_create_user(ctx, &gate);
    ppto_program *p = program_on(s, gate, NULL), *q = program_on(s, no_event, NULL);
    ppto_run *a = start(p, NULL), *b = start(q, NULL);
    pause_ms(50);
    double before = cpu_seconds();
    pause_ms(300);
    cr_expect_lt(cpu_seconds() - before, 0.005);
    ppto_event_signal(gate, PPTO_OK);
    expect_two(b);
    expect_two(a);
    pause_ms(50);
    before = cpu_seconds();
    pause_ms(300);
    cr_expect_lt(cpu_seconds() - before, 0.005);
    ppto_run_release(a);
    ppto_run_release(b);
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    ppto_event_release(gate);
}

Test(async_life, a_forked_child_is_refused_everywhere)
{
    ppto_event gate, e;
    ppto_event_create_user(ctx, &gate);
    ppto_program *p = program_on(s, gate, &e), *q = program_on(t, no_event, NULL);
    ppto_run *run = start(p, NULL);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        ppto_event other;
        ppto_event_state state;
        ppto_run *more = NULL;
        ppto_array *y = NULL;
        bool ok = ppto_run_wait(run, -1) == PPTO_E_FORKED && ppto_run_cancel(run, NULL) == PPTO_E_FORKED;
        ok = ok && ppto_event_wait(e, -1) == PPTO_E_FORKED && ppto_event_query(e, &state) == PPTO_E_FORKED;
        ok = ok && ppto_event_signal(gate, PPTO_OK) == PPTO_E_FORKED && ppto_sync(s) == PPTO_E_FORKED;
        ok = ok && ppto_event_create_user(ctx, &other) == PPTO_E_FORKED;
        ok = ok && ppto_program_start(q, NULL, &more) == PPTO_E_FORKED;
        ok = ok && ppto_program_run(q, &y) == PPTO_E_FORKED && !ppto_stream_create(ctx, "x", PPTO_STREAM_CPU);
        ppto_run_release(run);
        ppto_event_release(e);
        ppto_stream_destroy(s);
        ppto_program_destroy(q);
        ppto_context_destroy(ctx);
        _exit(ok ? 0 : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ppto_event_signal(gate, PPTO_OK);
    expect_two(run);
    ppto_run_release(run);
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    ppto_event_release(gate);
    ppto_event_release(e);
}
