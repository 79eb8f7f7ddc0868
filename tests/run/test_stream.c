/* SPDX-License-Identifier: Apache-2.0
 * Streams and events: what belongs to which stream, what does not fuse or merge, the order of steps in one
 * run and across runs, poison, waits that would never end. Runs that go on by themselves: test_async.c. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "ppto/ops.h"
#include "ppto/ppto.h"

static ppto_context *ctx;
static ppto_graph *g;
static const int64_t shape[] = {1000};

static void open_with(const char *executor)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = executor;
    o.threads = 2;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK);
    g = ppto_graph_create(ctx);
}

static void begin(void)
{
    open_with("pthread");
}

static void end(void)
{
    ppto_graph_destroy(g);
    ppto_context_destroy(ctx);
}

TestSuite(stream, .init = begin, .fini = end, .timeout = 60);

static ppto_stream *stream_of(const char *name)
{
    ppto_stream *s = ppto_stream_create(ctx, name, PPTO_STREAM_CPU);
    cr_assert_not_null(s, "%s", ppto_error_text(ctx));
    return s;
}

static ppto_array *ones(void)
{
    return ppto_array_fill(ctx, PPTO_F32, 1, shape, "ones", "x");
}

static ppto_program *compile(size_t n, ppto_tensor *const *outputs)
{
    ppto_program *p = NULL;
    cr_assert_eq(ppto_compile(n, outputs, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_array *x = ones();
    for (size_t i = 0; i < ppto_program_inputs(p); i++) ppto_program_bind(p, i, x);
    ppto_array_release(x);
    return p;
}

static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    while ((text = strstr(text, word)) != NULL) n++, text++;
    return n;
}

static char *explain(ppto_program *p, ppto_explain_stage stage, bool json)
{
    char *text = NULL;
    cr_assert_eq(ppto_program_explain(p, stage, json, &text), PPTO_OK, "%s", ppto_error_text(ctx));
    return text;
}

static void expect_text(ppto_program *p, ppto_explain_stage stage, bool json, const char *word, size_t n)
{
    char *text = explain(p, stage, json);
    cr_expect_eq(count(text, word), n, "%s: %zu instead of %zu in\n%s", word, count(text, word), n, text);
    ppto_text_free(text);
}

static float first_value(ppto_program *p)
{
    ppto_array *y[4] = {NULL};
    cr_assert_eq(ppto_program_run(p, y), PPTO_OK, "%s", ppto_error_text(ctx));
    float value = *(const float *)ppto_array_data(y[0]);
    for (size_t i = 0; i < ppto_program_outputs(p); i++) ppto_array_release(y[i]);
    return value;
}

/* y = exp(x * 2) with the product on one stream and the exponential on another. */
static ppto_tensor *two_streams(ppto_stream *a, ppto_stream *b)
{
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "1000");
    ppto_stream_push(g, a);
    ppto_tensor *y = ppto_mul(x, ppto_float(g, 2));
    ppto_stream_pop(g);
    ppto_stream_push(g, b);
    y = ppto_add(y, ppto_float(g, 1));
    ppto_stream_pop(g);
    return y;
}

Test(stream, operators_of_different_streams_do_not_fuse)
{
    ppto_stream *a = stream_of("load"), *b = stream_of("compute");
    ppto_tensor *y = two_streams(a, b);
    ppto_program *p = compile(1, &y);
    expect_text(p, PPTO_EXPLAIN_SUMMARY, true, "\"kernels\": 2", 1);
    expect_text(p, PPTO_EXPLAIN_SUMMARY, true, "\"code\": \"stream\"", 1);
    expect_text(p, PPTO_EXPLAIN_SUMMARY, true, "\"stream\": \"load\"", 1);
    expect_text(p, PPTO_EXPLAIN_SUMMARY, true, "\"stream\": \"compute\"", 1);
    expect_text(p, PPTO_EXPLAIN_SUMMARY, false, ", stream load", 1);
    cr_expect_eq(first_value(p), 3.0f);
    ppto_program_destroy(p);
    ppto_stream_destroy(a);
    ppto_stream_destroy(b);
}

/* x * 2, an event, then the same product again, and the sum of both. e NULL: without the event. */
static ppto_tensor *with_sync(ppto_stream *s, ppto_event *e)
{
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "1000"), *two = ppto_float(g, 2);
    ppto_stream_push(g, s);
    ppto_tensor *y = ppto_mul(x, two);
    if (e) ppto_event_record(g, s, e);
    ppto_tensor *z = ppto_add(ppto_mul(x, two), y);
    ppto_stream_pop(g);
    return z;
}

Test(stream, a_sync_point_stands_in_every_stage_and_nothing_merges_across_it)
{
    ppto_stream *s = stream_of("work");
    ppto_event e;
    ppto_tensor *y = with_sync(s, &e);
    cr_assert_eq(ppto_graph_error(g), PPTO_OK, "%s", ppto_graph_error_text(g));
    ppto_program *p = compile(1, &y);
    expect_text(p, PPTO_EXPLAIN_SUMMARY, true, "\"kernels\": 2", 1);
    expect_text(p, PPTO_EXPLAIN_SUMMARY, true, "\"code\": \"sync\"", 1);
    expect_text(p, PPTO_EXPLAIN_SUMMARY, true, "\"kind\": \"record\"", 1);
    expect_text(p, PPTO_EXPLAIN_SIMPLIFIED, false, "sync 0 = record on stream 1", 1);
    expect_text(p, PPTO_EXPLAIN_SIMPLIFIED, false, "map.mul", 2);
    for (int stage = PPTO_EXPLAIN_FUSED; stage <= PPTO_EXPLAIN_SOURCE; stage++)
        expect_text(p, (ppto_explain_stage)stage, false,
                    stage == PPTO_EXPLAIN_PLAN ? "sync point 0 of stream work" : "sync point 0: stream work",
                    1);
    cr_expect_eq(ppto_program_log_tasks(p, true), PPTO_OK);
    cr_expect_eq(first_value(p), 4.0f);
    char *log = NULL;
    cr_expect_eq(ppto_program_task_log(p, &log), PPTO_OK);
    cr_expect_eq(count(log, "\n"), 5, "enter, two kernels, the event, leave:\n%s", log);
    ppto_text_free(log);
    ppto_program_destroy(p);
    ppto_event_release(e);
    ppto_graph_destroy(g);
    g = ppto_graph_create(ctx);
    y = with_sync(s, NULL);
    p = compile(1, &y);
    expect_text(p, PPTO_EXPLAIN_SIMPLIFIED, false, "map.mul", 1);
    expect_text(p, PPTO_EXPLAIN_SUMMARY, true, "\"kernels\": 1", 1);
    ppto_program_destroy(p);
    ppto_stream_destroy(s);
}

Test(stream, a_plan_with_streams_is_not_taken_for_one_without)
{
    ppto_stream *a = stream_of("a"), *b = stream_of("b");
    ppto_stats stats = {.size = sizeof stats};
    for (int i = 0; i < 3; i++) {
        ppto_graph *other = ppto_graph_create(ctx);
        ppto_graph *keep = g;
        g = other;
        ppto_tensor *y = i == 1 ? two_streams(a, a) : two_streams(a, b);
        ppto_program *p = compile(1, &y);
        ppto_program_stats(p, &stats);
        cr_expect_eq(stats.kernels, i == 1 ? 1u : 2u);
        cr_expect_eq(stats.plan_hit, i == 2);
        cr_expect_eq(first_value(p), 3.0f);
        ppto_program_destroy(p);
        g = keep;
        ppto_graph_destroy(other);
    }
    ppto_stream_destroy(a);
    ppto_stream_destroy(b);
}

/* Eight independent kernels on one stream. */
Test(stream, steps_of_one_stream_run_in_the_order_of_recording)
{
    ppto_stream *s = stream_of("one");
    ppto_tensor *out[8];
    ppto_stream_push(g, s);
    for (int i = 0; i < 8; i++) {
        char name[8], dims[16];
        snprintf(name, sizeof name, "x%d", i);
        snprintf(dims, sizeof dims, "%d", 20000 + i);
        out[i] = ppto_exp(ppto_input(g, name, PPTO_F32, dims));
    }
    ppto_stream_pop(g);
    ppto_program *p = NULL;
    cr_assert_eq(ppto_compile(8, out, &p), PPTO_OK);
    for (int i = 0; i < 8; i++) {
        const int64_t n = 20000 + atoi(ppto_program_input_name(p, (size_t)i) + 1);
        ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, &n, "ones", "x");
        cr_assert_eq(ppto_program_bind(p, (size_t)i, x), PPTO_OK);
        ppto_array_release(x);
    }
    ppto_array *y[8];
    char *log = NULL;
    ppto_program_log_tasks(p, true);
    cr_assert_eq(ppto_program_run(p, y), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(ppto_program_task_log(p, &log), PPTO_OK);
    long long ends[16] = {0}, starts[16] = {0};
    for (char *line = strtok(log, "\n"); line; line = strtok(NULL, "\n")) {
        unsigned step, phase, task, worker;
        long long from, to;
        cr_assert_eq(sscanf(line, "%u %u %u %u %lld %lld", &step, &phase, &task, &worker, &from, &to), 6);
        if (starts[step] == 0 || from < starts[step]) starts[step] = from;
        if (to > ends[step]) ends[step] = to;
    }
    for (int i = 1; i < 10; i++) cr_expect(starts[i] >= ends[i - 1], "step %d", i);
    ppto_text_free(log);
    for (int i = 0; i < 8; i++) ppto_array_release(y[i]);
    ppto_program_destroy(p);
    ppto_stream_destroy(s);
}

/* A letter for every step as they ran: e, l for those that enter and leave a stream, s for sync points, a and
 * b for the kernels of these streams. */
static void letters_of(ppto_program *p, char *out, size_t room)
{
    char *log = NULL, *steps = explain(p, PPTO_EXPLAIN_PLAN, false);
    size_t n = 0;
    cr_assert_eq(ppto_program_task_log(p, &log), PPTO_OK);
    for (const char *line = log; *line && n + 1 < room; line = strchr(line, '\n') + 1) {
        char want[32];
        snprintf(want, sizeof want, "step %d: ", atoi(line));
        const char *what = strstr(steps, want);
        cr_assert_not_null(what);
        what += strlen(want);
        out[n++] = strncmp(what, "map, stream ", 12) == 0 ? what[12] : what[0];
    }
    out[n] = '\0';
    ppto_text_free(steps);
    ppto_text_free(log);
}

/* Two streams that have nothing to do with each other, and one worker. */
static void one_worker(const char *executor, char *letters, size_t room)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    ppto_event e;
    o.executor = executor;
    o.threads = 1;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK);
    g = ppto_graph_create(ctx);
    ppto_stream *a = stream_of("a"), *b = stream_of("b");
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "1000"), *out[2];
    ppto_array *result[2];
    ppto_stream_push(g, a);
    out[0] = ppto_mul(x, ppto_float(g, 2));
    ppto_stream_pop(g);
    cr_assert_eq(ppto_event_record(g, a, &e), PPTO_OK);
    ppto_stream_push(g, b);
    out[1] = ppto_exp(x);
    ppto_stream_pop(g);
    ppto_program *p = compile(2, out);
    ppto_program_log_tasks(p, true);
    cr_assert_eq(ppto_program_run(p, result), PPTO_OK, "%s", ppto_error_text(ctx));
    letters_of(p, letters, room);
    for (int i = 0; i < 2; i++) ppto_array_release(result[i]);
    ppto_program_destroy(p);
    ppto_event_release(e);
    ppto_stream_destroy(a);
    ppto_stream_destroy(b);
    end();
}

Test(stream_alone, what_others_wait_for_does_not_wait_for_other_streams, .timeout = 60)
{
    char letters[16];
    one_worker("serial", letters, sizeof letters);
    cr_expect_str_eq(letters, "eeaslbl");
    one_worker("pthread", letters, sizeof letters);
    cr_expect(strncmp(letters, "ee", 2) == 0 && strstr(letters, "asl"), "%s", letters);
}

/* ---- events ---- */

static ppto_event_state state_of(ppto_event e)
{
    ppto_event_state state = (ppto_event_state)-1;
    cr_expect_eq(ppto_event_query(e, &state), PPTO_OK);
    return state;
}

/* A graph that waits for the event and then computes x + 1. */
static ppto_program *waiter(ppto_stream *s, ppto_event e)
{
    ppto_graph *other = ppto_graph_create(ctx);
    cr_assert_eq(ppto_stream_wait(other, s, e), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_tensor *x = ppto_input(other, "x", PPTO_F32, "1000");
    ppto_stream_push(other, s);
    ppto_tensor *y = ppto_add(x, ppto_float(other, 1));
    ppto_stream_pop(other);
    ppto_program *p = compile(1, &y);
    ppto_graph_destroy(other);
    return p;
}

Test(stream, an_event_of_one_graph_is_waited_for_by_another)
{
    ppto_stream *s = stream_of("s"), *t = stream_of("t");
    ppto_event e;
    ppto_tensor *y = with_sync(s, &e);
    ppto_program *p = compile(1, &y), *q = waiter(t, e);
    ppto_array *out = NULL;
    cr_expect_eq(state_of(e), PPTO_EVENT_NOT_SCHEDULED);
    cr_expect_eq(ppto_program_run(q, &out), PPTO_E_NOT_SCHEDULED);
    cr_expect_not_null(strstr(ppto_error_text(ctx), "test_stream.c"), "%s", ppto_error_text(ctx));
    cr_expect_eq(ppto_event_wait(e, -1), PPTO_E_NOT_SCHEDULED);
    first_value(p);
    cr_expect_eq(state_of(e), PPTO_EVENT_DONE);
    cr_expect_eq(ppto_event_wait(e, 0), PPTO_OK);
    cr_expect_eq(first_value(q), 2.0f);
    expect_text(q, PPTO_EXPLAIN_SUMMARY, false, "waits for an event from outside", 1);
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    ppto_event_release(e);
    ppto_stream_destroy(s);
    ppto_stream_destroy(t);
}

Test(stream, an_event_belongs_to_who_computes_what_is_before_it)
{
    ppto_stream *s = stream_of("s");
    ppto_event e1, e2;
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "1000");
    ppto_stream_push(g, s);
    ppto_tensor *y = ppto_exp(x);
    ppto_event_record(g, s, &e1);
    ppto_tensor *z = ppto_sqrt(x);
    ppto_event_record(g, s, &e2);
    ppto_stream_pop(g);
    ppto_program *p = compile(1, &y), *q = compile(1, &z);
    first_value(p);
    cr_expect(state_of(e1) == PPTO_EVENT_DONE && state_of(e2) == PPTO_EVENT_NOT_SCHEDULED);
    first_value(q);
    cr_expect_eq(state_of(e2), PPTO_EVENT_DONE);
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    ppto_event_release(e1);
    ppto_event_release(e2);
    ppto_stream_destroy(s);
}

Test(stream, events_inside_a_plan_order_its_streams)
{
    ppto_stream *a = stream_of("a"), *b = stream_of("b");
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "1000");
    ppto_event e;
    ppto_stream_push(g, a);
    ppto_tensor *y = ppto_mul(x, ppto_float(g, 2));
    ppto_stream_pop(g);
    ppto_event_record(g, a, &e);
    ppto_stream_wait(g, b, e);
    ppto_stream_push(g, b);
    ppto_tensor *z = ppto_add(x, ppto_float(g, 5)); /* does not read y */
    ppto_stream_pop(g);
    ppto_program *p = compile(2, (ppto_tensor *[]){y, z});
    expect_text(p, PPTO_EXPLAIN_PLAN, false, "waits for sync point 0", 1);
    cr_expect_eq(first_value(p), 2.0f);
    ppto_event_release(e);
    ppto_program_destroy(p);
    ppto_stream_destroy(a);
    ppto_stream_destroy(b);
}

Test(stream, handles_are_checked)
{
    ppto_event e, f;
    ppto_event_state state;
    cr_expect_eq(ppto_event_create_user(ctx, &e), PPTO_OK);
    cr_expect_eq(ppto_event_retain(e), PPTO_OK);
    ppto_event_release(e);
    cr_expect_eq(state_of(e), PPTO_EVENT_PENDING);
    cr_expect_eq(ppto_event_wait(e, 1000000), PPTO_E_TIMEOUT);
    cr_expect_eq(ppto_event_signal(e, PPTO_OK), PPTO_OK);
    cr_expect_eq(ppto_event_signal(e, PPTO_OK), PPTO_E_BUSY);
    cr_expect_eq(ppto_event_wait(e, -1), PPTO_OK);
    ppto_event_release(e);
    cr_expect_eq(ppto_event_create_user(ctx, &f), PPTO_OK);
    cr_expect(f.id != e.id && (f.id >> 32) == (e.id >> 32), "the place is used again");
    cr_expect_eq(ppto_event_query(e, &state), PPTO_E_VALUE);
    cr_expect_eq(ppto_event_wait(e, 0), PPTO_E_VALUE);
    cr_expect_eq(ppto_event_signal(e, PPTO_OK), PPTO_E_VALUE);
    cr_expect_eq(ppto_event_retain(e), PPTO_E_VALUE);
    ppto_event_release(e);
    cr_expect_eq(state_of(f), PPTO_EVENT_PENDING);
    ppto_event_release(f);
    ppto_event_release((ppto_event){NULL, 0});
    cr_expect_eq(ppto_event_query((ppto_event){NULL, 0}, &state), PPTO_E_VALUE);
}

Test(stream, wrong_uses_are_errors)
{
    cr_expect_null(ppto_stream_create(ctx, "g", PPTO_STREAM_GPU));
    cr_expect_eq(ppto_error_status(ctx), PPTO_E_UNSUPPORTED);
    cr_expect_null(ppto_stream_create(ctx, "", PPTO_STREAM_CPU));
    cr_expect_null(ppto_stream_create(NULL, "a", PPTO_STREAM_CPU));
    ppto_stream_destroy(NULL);
    cr_expect_eq(ppto_sync(NULL), PPTO_E_VALUE);
    ppto_stream *s = stream_of("s");
    cr_expect_str_eq(ppto_stream_name(s), "s");
    cr_expect_eq(ppto_sync(s), PPTO_OK);
    cr_expect_eq(ppto_stream_push(NULL, s), PPTO_E_VALUE);
    cr_expect_eq(ppto_stream_pop(NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_stream_push(g, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_graph_error(g), PPTO_E_VALUE);
    ppto_graph *other = ppto_graph_create(ctx);
    ppto_event e;
    cr_expect_eq(ppto_stream_pop(other), PPTO_E_VALUE);
    cr_expect_eq(ppto_event_record(other, s, &e), PPTO_E_VALUE, "the first error stays");
    cr_expect_null(e.context);
    ppto_graph_destroy(other);
    other = ppto_graph_create(ctx);
    cr_expect_eq(ppto_event_record(other, s, &e), PPTO_OK);
    cr_expect_eq(ppto_event_signal(e, PPTO_OK), PPTO_E_VALUE);
    ppto_graph_destroy(other);
    cr_expect_eq(state_of(e), PPTO_EVENT_NOT_SCHEDULED);
    ppto_event_release(e);
    ppto_stream_destroy(s);
}

/* ---- poison ---- */

Test(stream, poison_carries_its_origin)
{
    ppto_stream *s = stream_of("s"), *t = stream_of("t");
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "1000"), *i = ppto_input(g, "i", PPTO_I64, "1");
    ppto_event e;
    ppto_stream_push(g, s);
    ppto_tensor *y = ppto_take(x, i);
    ppto_stream_pop(g);
    ppto_event_record(g, s, &e);
    ppto_program *p = NULL, *q = waiter(t, e);
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK);
    const int64_t one = 1, at = 5000;
    ppto_array *ax = ones(), *ai = ppto_array_copy_of(ctx, PPTO_I64, 1, &one, &at), *out = NULL;
    ppto_program_bind_name(p, "x", ax);
    ppto_program_bind_name(p, "i", ai);
    cr_expect_eq(ppto_program_run(p, &out), PPTO_E_VALUE);
    ppto_poison poison;
    cr_expect_eq(state_of(e), PPTO_EVENT_POISONED);
    cr_expect_eq(ppto_event_poison(e, &poison), PPTO_OK);
    cr_expect_eq(poison.status, PPTO_E_VALUE);
    cr_expect_str_eq(poison.operator_name, "take");
    cr_expect(poison.site.file && strstr(poison.site.file, "test_stream.c") && poison.run == 1);
    cr_expect_eq(ppto_event_wait(e, -1), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_run(q, &out), PPTO_E_VALUE);
    cr_expect_not_null(strstr(ppto_error_text(ctx), "take"), "%s", ppto_error_text(ctx));
    cr_expect_eq(ppto_sync(s), PPTO_E_VALUE);
    cr_expect_eq(ppto_sync(s), PPTO_OK);
    cr_expect_eq(ppto_sync(t), PPTO_E_VALUE);
    ppto_array_release(ax);
    ppto_array_release(ai);
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    ppto_event_release(e);
    ppto_stream_destroy(s);
    ppto_stream_destroy(t);
}

Test(stream, a_user_event_released_early_is_poisoned)
{
    ppto_event e;
    cr_expect_eq(ppto_event_create_user(ctx, &e), PPTO_OK);
    ppto_stream *s = stream_of("s");
    ppto_program *q = waiter(s, e);
    ppto_array *out = NULL;
    ppto_event_release(e);
    cr_expect_eq(ppto_program_run(q, &out), PPTO_E_CANCELLED);
    cr_expect_not_null(strstr(ppto_error_text(ctx), "released before it was signalled"), "%s",
                       ppto_error_text(ctx));
    ppto_program_destroy(q);
    ppto_stream_destroy(s);
}

Test(stream, a_run_that_fails_before_its_steps_ends_its_events_too)
{
    ppto_stream *s = stream_of("s");
    ppto_event e;
    ppto_tensor *y = with_sync(s, &e);
    ppto_program *p = NULL;
    ppto_array *out = NULL;
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK);
    cr_expect_eq(ppto_program_run(p, &out), PPTO_E_NAME);
    cr_expect_eq(state_of(e), PPTO_EVENT_POISONED);
    cr_expect_eq(ppto_event_wait(e, -1), PPTO_E_NAME);
    cr_expect_eq(ppto_sync(s), PPTO_E_NAME);
    ppto_program_destroy(p);
    ppto_event_release(e);
    ppto_stream_destroy(s);
}

/* The same operators with and without streams, on every executor: the same bits. */
Test(stream_own, results_do_not_depend_on_streams, .timeout = 60)
{
    static const char *const executors[] = {"serial", "sim", "pthread", NULL};
    float first[1000];
    for (int i = 0; executors[i]; i++)
        for (int streams = 0; streams < 2; streams++) {
            open_with(executors[i]);
            ppto_stream *s[2] = {stream_of("a"), stream_of("b")};
            ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "1000"), *y = x;
            for (int k = 0; k < 6; k++) {
                ppto_event e;
                if (streams) ppto_stream_push(g, s[k % 2]);
                y = k % 3 == 0   ? ppto_exp(ppto_neg(y))
                    : k % 3 == 1 ? ppto_softmax(y)
                                 : ppto_sqrt(ppto_add(y, x));
                if (!streams) continue;
                ppto_stream_pop(g);
                ppto_event_record(g, s[k % 2], &e);
                ppto_stream_wait(g, s[(k + 1) % 2], e);
                ppto_event_release(e);
            }
            ppto_array *ax = ppto_array_fill(ctx, PPTO_F32, 1, shape, "uniform(0,1)", "x"), *out = NULL;
            cr_assert_eq(ppto_eval(y, &out, "x", ax, NULL), PPTO_OK, "%s", ppto_error_text(ctx));
            if (i == 0 && !streams) memcpy(first, ppto_array_data(out), sizeof first);
            cr_expect_eq(memcmp(first, ppto_array_data(out), sizeof first), 0, "%s %d", executors[i],
                         streams);
            ppto_array_release(ax);
            ppto_array_release(out);
            for (int k = 0; k < 2; k++) ppto_stream_destroy(s[k]);
            ppto_graph_destroy(g);
            ppto_context_destroy(ctx);
        }
}
