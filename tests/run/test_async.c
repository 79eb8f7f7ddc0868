/* SPDX-License-Identifier: Apache-2.0
 * Runs that go on by themselves: outputs, order on streams across runs, overlap, events, the policies, cancel
 * and deadline. Memory, callbacks and ends: test_async_life.c; streams inside one run: test_stream.c. */
#include "async_common.h"

TestSuite(async, .init = begin, .fini = end, .timeout = 120);

Test(async, a_run_gives_its_outputs)
{
    ppto_program *p = program_on(NULL, no_event, NULL);
    for (int i = 1; i <= 3; i++) {
        ppto_status status = PPTO_E_INTERNAL;
        ppto_run *run = start(p, NULL);
        expect_two(run);
        cr_expect(ppto_run_over(run, &status) && status == PPTO_OK);
        cr_expect_str_eq(ppto_run_error(run), "");
        cr_expect_eq(ppto_run_number(run), (uint64_t)i);
        cr_expect_eq(ppto_run_cancel(run, "too late"), PPTO_OK);
        cr_expect_eq(ppto_run_wait(run, 0), PPTO_OK);
        ppto_run_release(run);
    }
    ppto_program_destroy(p);
}

Test(async, a_program_in_flight_is_busy)
{
    ppto_event gate;
    ppto_event_create_user(ctx, &gate);
    ppto_program *p = program_on(s, gate, NULL);
    ppto_run *run = start(p, NULL), *second = NULL;
    ppto_array *y = NULL;
    char *text = NULL;
    ppto_stats stats = {.size = sizeof stats};
    cr_expect_eq(ppto_program_start(p, NULL, &second), PPTO_E_BUSY);
    cr_expect_null(second);
    cr_expect_eq(ppto_program_run(p, &y), PPTO_E_BUSY);
    cr_expect_eq(ppto_program_bind(p, 0, NULL), PPTO_E_BUSY);
    cr_expect_eq(ppto_program_stats(p, &stats), PPTO_E_BUSY);
    cr_expect_eq(ppto_program_task_log(p, &text), PPTO_E_BUSY);
    cr_expect_eq(ppto_run_outputs(run, &y), PPTO_E_BUSY);
    cr_expect_eq(ppto_run_wait(run, 1000000), PPTO_E_TIMEOUT);
    cr_expect(!ppto_run_over(run, NULL));
    ppto_event_signal(gate, PPTO_OK);
    expect_two(run);
    ppto_run_release(run);
    cr_expect_eq(ppto_program_run(p, &y), PPTO_OK);
    ppto_array_release(y);
    ppto_program_destroy(p);
    ppto_event_release(gate);
}

/* ---- order and overlap, read from the task logs ---- */

typedef struct span {
    long long from, to; /* of the kernel */
} span;

static span kernel_span(ppto_program *p, unsigned step)
{
    char *log = NULL;
    span found = {0, 0};
    cr_assert_eq(ppto_program_task_log(p, &log), PPTO_OK);
    for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned at, phase, task, worker;
        long long from, to;
        cr_assert_eq(sscanf(line, "%u %u %u %u %lld %lld", &at, &phase, &task, &worker, &from, &to), 6);
        if (at != step) continue;
        if (found.from == 0 || from < found.from) found.from = from;
        if (to > found.to) found.to = to;
    }
    ppto_text_free(log);
    cr_assert_neq(found.to, 0);
    return found;
}

static void bind_large(ppto_program *p)
{
    const int64_t large[] = {1 << 21};
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, large, "ones", "x");
    cr_assert_eq(ppto_program_bind(p, 0, x), PPTO_OK);
    ppto_array_release(x);
    cr_assert_eq(ppto_program_log_tasks(p, true), PPTO_OK);
}

Test(async, runs_on_one_stream_keep_their_order_and_others_overlap)
{
    enum { RUNS = 6 };
    ppto_program *on_s[RUNS], *on_t;
    ppto_run *runs[RUNS], *other;
    ppto_event gate;
    ppto_event_create_user(ctx, &gate);
    for (int i = 0; i < RUNS; i++) on_s[i] = program_on(s, i == 0 ? gate : no_event, NULL);
    on_t = program_on(t, no_event, NULL);
    for (int i = 0; i < RUNS; i++) {
        bind_large(on_s[i]);
        runs[i] = start(on_s[i], NULL);
    }
    other = start(on_t, NULL);
    expect_two(other); /* while all of s waits */
    for (int i = 0; i < RUNS; i++) cr_expect(!ppto_run_over(runs[i], NULL));
    ppto_event_signal(gate, PPTO_OK);
    cr_expect_eq(ppto_sync(s), PPTO_OK);
    for (int i = 0; i < RUNS; i++) cr_expect_eq(ppto_run_wait(runs[i], -1), PPTO_OK);
    for (int i = 1; i < RUNS; i++)
        cr_expect(kernel_span(on_s[i], 1).from >= kernel_span(on_s[i - 1], i == 1 ? 2 : 1).to, "run %d", i);
    for (int i = 0; i < RUNS; i++) {
        ppto_run_release(runs[i]);
        ppto_program_destroy(on_s[i]);
    }
    ppto_run_release(other);
    ppto_program_destroy(on_t);
    ppto_event_release(gate);
}

/* On s: x + 1, then `first` happens, then after `gate` its double. */
static ppto_program *in_two_parts(ppto_event gate, ppto_event *first)
{
    ppto_program *p = NULL;
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N");
    ppto_stream_push(g, s);
    ppto_tensor *y = ppto_add(x, ppto_float(g, 1));
    cr_assert_eq(ppto_event_record(g, s, first), PPTO_OK);
    cr_assert_eq(ppto_stream_wait(g, s, gate), PPTO_OK);
    y = ppto_mul(y, ppto_float(g, 2));
    ppto_stream_pop(g);
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK);
    ppto_graph_destroy(g);
    bind_large(p);
    return p;
}

Test(async, a_run_goes_through_while_another_is_in_its_middle)
{
    ppto_event gate, first;
    ppto_event_create_user(ctx, &gate);
    ppto_program *p = in_two_parts(gate, &first), *q = program_on(t, no_event, NULL);
    bind_large(q);
    ppto_run *a = start(p, NULL);
    cr_expect_eq(ppto_event_wait(first, -1), PPTO_OK);
    ppto_run *b = start(q, NULL);
    cr_expect_eq(ppto_run_wait(b, -1), PPTO_OK);
    cr_expect(!ppto_run_over(a, NULL));
    ppto_event_signal(gate, PPTO_OK);
    cr_expect_eq(ppto_run_wait(a, -1), PPTO_OK);
    span before = kernel_span(p, 1), after = kernel_span(p, 4), other = kernel_span(q, 1);
    cr_expect(before.to <= other.from && other.to <= after.from);
    ppto_run_release(a);
    ppto_run_release(b);
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    ppto_event_release(first);
    ppto_event_release(gate);
}

Test(async, an_event_links_two_runs)
{
    ppto_event gate, e;
    ppto_event_create_user(ctx, &gate);
    ppto_program *p = program_on(s, gate, &e), *q = program_on(t, e, NULL);
    ppto_run *early = NULL;
    cr_expect_eq(ppto_program_start(q, NULL, &early), PPTO_E_NOT_SCHEDULED);
    cr_expect_null(early);
    ppto_run *a = start(p, NULL), *b = start(q, NULL);
    cr_expect_eq(ppto_run_wait(b, 10000000), PPTO_E_TIMEOUT);
    ppto_event_signal(gate, PPTO_OK);
    expect_two(b);
    expect_two(a);
    ppto_run_release(a);
    ppto_run_release(b);
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    ppto_event_release(gate);
    ppto_event_release(e);
}

Test(async, poison_goes_from_run_to_run)
{
    ppto_event gate, e, f;
    ppto_poison poison;
    ppto_event_create_user(ctx, &gate);
    ppto_program *p = program_on(s, gate, &e), *q = program_on(t, e, &f);
    ppto_run *a = start(p, NULL), *b = start(q, NULL);
    ppto_event_signal(gate, PPTO_E_IO);
    cr_expect_eq(ppto_run_wait(a, -1), PPTO_E_IO);
    cr_expect_eq(ppto_run_wait(b, -1), PPTO_E_IO);
    cr_expect_not_null(strstr(ppto_run_error(b), "stream wait"), "%s", ppto_run_error(b));
    cr_expect_eq(ppto_event_poison(f, &poison), PPTO_OK);
    cr_expect_eq(poison.status, PPTO_E_IO);
    cr_expect_not_null(strstr(poison.text, "signalled with a failure"), "%s", poison.text);
    ppto_run_release(a);
    ppto_run_release(b);
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    ppto_event_release(gate);
    ppto_event_release(e);
    ppto_event_release(f);
}

/* ---- policies, cancel, deadline ---- */

/* Outputs: x[0] by an index that is out of range on one stream, x + 1 on another that waits for the event. */
static ppto_program *half_wrong(ppto_event gate, bool wrong)
{
    const int64_t one[] = {1}, at = wrong ? 5000 : 0;
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N"), *i = ppto_input(g, "i", PPTO_I64, "1"), *out[2];
    ppto_stream_push(g, s);
    out[0] = ppto_take(x, i);
    ppto_stream_pop(g);
    ppto_stream_wait(g, t, gate);
    ppto_stream_push(g, t);
    out[1] = ppto_add(x, ppto_float(g, 1));
    ppto_stream_pop(g);
    ppto_program *p = NULL;
    cr_assert_eq(ppto_compile(2, out, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_array *ax = ppto_array_fill(ctx, PPTO_F32, 1, small, "ones", "x");
    ppto_array *ai = ppto_array_copy_of(ctx, PPTO_I64, 1, one, &at);
    ppto_program_bind_name(p, "x", ax);
    ppto_program_bind_name(p, "i", ai);
    ppto_array_release(ax);
    ppto_array_release(ai);
    ppto_graph_destroy(g);
    return p;
}

Test(async, keep_going_finishes_what_does_not_depend_on_the_failure)
{
    ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
    for (int policy = PPTO_FAIL_FAST; policy <= PPTO_KEEP_GOING; policy++) {
        ppto_event gate;
        ppto_array *y[2];
        ppto_event_create_user(ctx, &gate);
        ppto_program *p = half_wrong(gate, true);
        options.policy = (ppto_policy)policy;
        ppto_run *run = start(p, &options);
        if (policy == PPTO_KEEP_GOING) {
            cr_expect_eq(ppto_run_wait(run, 20000000), PPTO_E_TIMEOUT);
            ppto_event_signal(gate, PPTO_OK);
        }
        cr_expect_eq(ppto_run_wait(run, -1), PPTO_E_VALUE); /* fail_fast: nobody signals */
        cr_expect_eq(ppto_run_outputs(run, y), PPTO_OK);
        cr_expect_null(y[0]);
        cr_expect_eq(y[1] != NULL, policy == PPTO_KEEP_GOING);
        if (y[1]) cr_expect_eq(*(const float *)ppto_array_data(y[1]), 2.0f);
        ppto_array_release(y[1]);
        ppto_run_release(run);
        ppto_program_destroy(p);
        ppto_event_release(gate);
    }
}

Test(async, the_error_of_a_run_that_was_stopped_tells_how_far_it_came)
{
    ppto_event gate, first;
    ppto_event_create_user(ctx, &gate);
    ppto_program *p = in_two_parts(gate, &first);
    ppto_run *run = start(p, NULL);
    cr_expect_eq(ppto_event_wait(first, -1), PPTO_OK);
    cr_expect_eq(ppto_run_cancel(run, "enough"), PPTO_OK);
    cr_expect_eq(ppto_run_wait(run, -1), PPTO_E_CANCELLED);
    const char *text = ppto_run_error(run);
    cr_expect(strncmp(text, "the run was cancelled: enough\n", 30) == 0, "%s", text);
    cr_expect_not_null(strstr(text, "\n  last completed: event record at "), "%s", text);
    cr_expect_not_null(strstr(text, "\n  first not completed: stream wait at "), "%s", text);
    ppto_run_release(run);
    ppto_program_destroy(p);
    ppto_event_release(first);
    ppto_event_release(gate);
}

Test(async, cancel_ends_a_run_in_every_state)
{
    ppto_event gate, e;
    ppto_event_create_user(ctx, &gate);
    ppto_program *p = program_on(s, gate, &e), *q = program_on(s, no_event, NULL);
    ppto_run *waits = start(p, NULL), *behind = start(q, NULL);
    pause_ms(20);
    cr_expect_eq(ppto_run_cancel(behind, NULL), PPTO_OK); /* at the gate of the stream */
    cr_expect_eq(ppto_run_wait(behind, -1), PPTO_E_CANCELLED);
    cr_expect_eq(ppto_run_cancel(waits, "the user is gone"), PPTO_OK); /* in a wait */
    cr_expect_eq(ppto_run_wait(waits, -1), PPTO_E_CANCELLED);
    cr_expect_not_null(strstr(ppto_run_error(waits), "the user is gone"), "%s", ppto_run_error(waits));
    cr_expect_eq(ppto_event_wait(e, -1), PPTO_E_CANCELLED);
    ppto_run_release(waits);
    ppto_run_release(behind);
    bind_large(q); /* in a kernel, or before it */
    for (int i = 0; i < 20; i++) {
        ppto_run *run = start(q, NULL);
        if (i % 4 != 0) nanosleep(&(struct timespec){.tv_nsec = i * 50000}, NULL);
        ppto_run_cancel(run, NULL);
        ppto_status status = ppto_run_wait(run, -1);
        cr_expect(status == PPTO_OK || status == PPTO_E_CANCELLED);
        ppto_run_release(run);
    }
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    ppto_event_release(gate);
    ppto_event_release(e);
}

Test(async, a_deadline_ends_a_run_that_waits)
{
    ppto_event gate;
    ppto_event_create_user(ctx, &gate);
    ppto_program *p = program_on(s, gate, NULL);
    ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
    options.deadline_ns = 30000000;
    int64_t from = now();
    ppto_run *run = start(p, &options);
    cr_expect_eq(ppto_run_wait(run, -1), PPTO_E_DEADLINE);
    cr_expect_geq(now() - from, 30000000);
    ppto_run_release(run);
    run = NULL;
    options.deadline_ns = -1;
    cr_expect_eq(ppto_program_start(p, &options, &run), PPTO_E_VALUE);
    options.size = 0;
    cr_expect_eq(ppto_program_start(p, &options, &run), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_start(NULL, NULL, &run), PPTO_E_VALUE);
    ppto_program_destroy(p);
    ppto_event_release(gate);
}

static void *cancel_program(void *arg)
{
    pause_ms(20);
    ppto_program_cancel(arg);
    return NULL;
}

Test(async, a_run_of_the_caller_that_waits_is_cancelled)
{
    ppto_event gate;
    ppto_array *y = NULL;
    pthread_t thread;
    ppto_event_create_user(ctx, &gate);
    ppto_program *p = program_on(s, gate, NULL);
    cr_assert_eq(pthread_create(&thread, NULL, cancel_program, p), 0);
    cr_expect_eq(ppto_program_run(p, &y), PPTO_E_CANCELLED);
    pthread_join(thread, NULL);
    ppto_event_signal(gate, PPTO_OK);
    cr_expect_eq(ppto_program_run(p, &y), PPTO_OK);
    ppto_array_release(y);
    ppto_program_destroy(p);
    ppto_event_release(gate);
}

static int64_t size_of(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return -1;
    fseek(f, 0, SEEK_END);
    int64_t n = ftell(f);
    fclose(f);
    return n;
}

/* What a run writes after its last step is there when its event is. */
Test(async, an_event_is_behind_the_file_that_its_run_writes)
{
    char path[64];
    ppto_event e;
    snprintf(path, sizeof path, "async_sink_%ld.npy", (long)getpid());
    ppto_program *p = program_on(s, no_event, &e);
    cr_assert_eq(ppto_program_bind_sink(p, 0, path), PPTO_OK);
    for (int i = 0; i < 10; i++) {
        ppto_run *run = start(p, NULL);
        cr_expect_eq(ppto_event_wait(e, -1), PPTO_OK, "%s", ppto_error_text(ctx));
        cr_expect_geq(size_of(path), 4000);
        cr_expect_eq(ppto_run_wait(run, -1), PPTO_OK);
        ppto_run_release(run);
        remove(path);
    }
    ppto_program_destroy(p);
    ppto_event_release(e);
}

/* A copy into the caller's array comes after the steps: who waits for the event reads it whole. */
Test(async, an_event_is_behind_the_copies_that_its_run_makes)
{
    const int64_t n[] = {1 << 20};
    ppto_event e;
    ppto_program *p = program_on(s, no_event, &e), *q = program_on(t, e, NULL);
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, n, "zeros", "x");
    ppto_program_bind(p, 0, x);
    ppto_program_bind_output(p, 0, x); /* its own input: computed apart, then copied */
    ppto_program_bind(q, 0, x);
    for (int i = 1; i <= 10; i++) {
        ppto_array *y = NULL;
        ppto_run *a = start(p, NULL), *b = start(q, NULL);
        cr_expect_eq(ppto_run_wait(b, -1), PPTO_OK);
        cr_expect_eq(ppto_run_outputs(b, &y), PPTO_OK);
        const float *values = ppto_array_data(y);
        for (int64_t k = 0; k < n[0]; k++) cr_assert_eq(values[k], (float)(i + 1));
        ppto_array_release(y);
        cr_expect_eq(ppto_run_wait(a, -1), PPTO_OK);
        ppto_run_release(a);
        ppto_run_release(b);
    }
    ppto_array_release(x);
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    ppto_event_release(e);
}
