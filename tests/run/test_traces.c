/* SPDX-License-Identifier: Apache-2.0
 * Traces: what is noted of runs whole, in pieces and on their own, on every executor; what is dropped; who
 * may read when. What the files look like is tests/cli/run_traces.py's. */
#include "async_common.h"

TestSuite(traces, .init = begin, .fini = end, .timeout = 120);

static ppto_trace *trace_of(uint64_t events)
{
    ppto_trace *trace = NULL;
    ppto_trace_options options = PPTO_TRACE_OPTIONS_INIT;
    options.events = events;
    cr_assert_eq(ppto_trace_create(ctx, &options, &trace), PPTO_OK, "%s", ppto_error_text(ctx));
    return trace;
}

static ppto_trace_counts counts_of(ppto_trace *trace)
{
    ppto_trace_counts counts = {.size = sizeof counts};
    cr_assert_eq(ppto_trace_count(trace, &counts), PPTO_OK);
    return counts;
}

static char *written(ppto_trace *trace, ppto_trace_format format)
{
    char *bytes = NULL;
    size_t n = 0;
    cr_assert_eq(ppto_trace_write(trace, format, &bytes, &n), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_expect(format == PPTO_TRACE_PERFETTO || strlen(bytes) == n);
    return bytes;
}

static size_t occurrences(ppto_trace *trace, ppto_trace_format format, const char *word)
{
    char *text = written(trace, format);
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word)) n++;
    ppto_text_free(text);
    return n;
}

static void run_once(ppto_program *p)
{
    ppto_array *y = NULL;
    cr_assert_eq(ppto_program_run(p, &y), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_array_release(y);
}

static ppto_program *chain_of(int64_t n)
{
    ppto_graph *g = ppto_graph_create(ctx);
    (void)ppto_input(g, "x", PPTO_F32, "N, 8");
    ppto_tensor *y = ppto_expr(g, "sum(exp(x), axis=1) * 2 + sum(softmax(x @ transpose(x, [1, 0]), axis=0))");
    ppto_program *p = NULL;
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 2, (int64_t[]){n, 8}, "random(1)", "x");
    cr_assert_eq(ppto_program_bind(p, 0, x), PPTO_OK);
    ppto_array_release(x);
    ppto_graph_destroy(g);
    return p;
}

Test(traces, a_run_is_noted_on_every_executor)
{
    static const char *const executors[] = {"serial", "sim", "pthread"};
    for (size_t e = 0; e < sizeof executors / sizeof *executors; e++) {
        ppto_context *keep = ctx;
        ctx = context_with(executors[e], 0);
        ppto_trace *trace = trace_of(0);
        ppto_program *p = chain_of(200);
        cr_assert_eq(ppto_program_trace(p, trace, "chain"), PPTO_OK);
        for (int i = 0; i < 3; i++) run_once(p);
        cr_expect_eq(counts_of(trace).runs, 3, "%s", executors[e]);
        cr_expect_eq(counts_of(trace).dropped, 0);
        cr_expect_eq(occurrences(trace, PPTO_TRACE_CHROME, "\"cat\": \"run\""), 3);
        cr_expect(occurrences(trace, PPTO_TRACE_CHROME, "\"cat\": \"contract\"") >= 3, "%s", executors[e]);
        cr_expect(occurrences(trace, PPTO_TRACE_CHROME, "\"ph\": \"f\"") >= 3, "edges");
        cr_expect(occurrences(trace, PPTO_TRACE_CHROME, "memory held") > 0);
        cr_expect(occurrences(trace, PPTO_TRACE_CHROME, "recorded_at") > 0);
        cr_expect(occurrences(trace, PPTO_TRACE_TIMELINE, "matmul") > 0);
        ppto_program_destroy(p);
        cr_expect_eq(counts_of(trace).runs, 3, "what was noted outlives the program");
        ppto_trace_destroy(trace);
        ppto_context_destroy(ctx);
        ctx = keep;
    }
}

Test(traces, a_table_says_what_ran_and_how_often)
{
    ppto_trace *trace = trace_of(0);
    ppto_program *p = program_on(NULL, no_event, NULL);
    char *text = NULL;
    cr_assert_eq(ppto_program_trace(p, trace, NULL), PPTO_OK);
    for (int i = 0; i < 5; i++) run_once(p);
    cr_assert_eq(ppto_trace_steps(trace, true, &text), PPTO_OK);
    cr_expect(strstr(text, "\"schema\": \"ppto-steps/1\", \"runs\": 5") != NULL, "%s", text);
    cr_expect(strstr(text, "{\"ops\": \"add\", \"kind\": \"map\"") != NULL, "%s", text);
    cr_expect(strstr(text, "\"launches\": 5") != NULL, "%s", text);
    cr_expect(strstr(text, "\"bytes\": 40000,") != NULL, "1,000 floats read and written, five times: %s",
              text);
    ppto_text_free(text);
    cr_assert_eq(ppto_trace_steps(trace, false, &text), PPTO_OK);
    cr_expect(strstr(text, "map      add") != NULL, "%s", text);
    cr_expect(strstr(text, "async_common.h:") != NULL, "%s", text);
    ppto_text_free(text);
    ppto_program_destroy(p);
    ppto_trace_destroy(trace);
}

Test(traces, a_small_ring_keeps_the_newest)
{
    ppto_trace *trace = trace_of(16);
    ppto_program *p = program_on(NULL, no_event, NULL);
    cr_assert_eq(ppto_program_trace(p, trace, NULL), PPTO_OK);
    for (int i = 0; i < 100; i++) run_once(p);
    ppto_trace_counts counts = counts_of(trace);
    cr_expect_eq(counts.runs, 16);
    cr_expect(counts.events <= 16 * 3, "%llu", (unsigned long long)counts.events);
    cr_expect_geq(counts.dropped, 2 * (100 - 16));
    cr_expect_eq(occurrences(trace, PPTO_TRACE_CHROME, "\"run\": 99,"), 1);
    ppto_program_destroy(p);
    ppto_trace_destroy(trace);
}

Test(traces, pieces_are_noted_with_what_they_do)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    ppto_context *keep = ctx;
    o.threads = 2;
    o.chunk = 64;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK);
    ppto_trace *trace = trace_of(0);
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_sum(ppto_exp(ppto_input(g, "x", PPTO_F32, "N")));
    ppto_program *p = NULL;
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK);
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, (int64_t[]){100000}, "random(1)", "x");
    cr_assert_eq(ppto_program_bind(p, 0, x), PPTO_OK);
    cr_assert_eq(ppto_program_trace(p, trace, NULL), PPTO_OK);
    ppto_stats stats = {.size = sizeof stats};
    for (int i = 0; i < 2; i++) run_once(p);
    cr_assert_eq(ppto_program_stats(p, &stats), PPTO_OK);
    cr_expect_gt(stats.pieces, 1);
    cr_expect_eq(counts_of(trace).runs, 2);
    cr_expect_geq(occurrences(trace, PPTO_TRACE_CHROME, "\"cat\": \"piece\""), 2 * stats.pieces);
    cr_expect_geq(occurrences(trace, PPTO_TRACE_CHROME, "\"name\": \"exp, sum\""), 2 * stats.pieces);
    ppto_array_release(x);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    ppto_trace_destroy(trace);
    ppto_context_destroy(ctx);
    ctx = keep;
}

Test(traces, runs_on_their_own_are_noted_and_cannot_be_read_meanwhile)
{
    ppto_event gate;
    char *bytes = NULL;
    size_t n = 0;
    ppto_trace_counts counts = {.size = sizeof counts};
    ppto_event_create_user(ctx, &gate);
    ppto_trace *trace = trace_of(0);
    ppto_program *p = program_on(s, gate, NULL), *q = program_on(t, no_event, NULL);
    cr_assert_eq(ppto_program_trace(p, trace, "first"), PPTO_OK);
    cr_assert_eq(ppto_program_trace(q, trace, "second"), PPTO_OK);
    ppto_run *a = NULL, *b = NULL;
    cr_assert_eq(ppto_program_start(p, NULL, &a), PPTO_OK);
    cr_assert_eq(ppto_program_start(q, NULL, &b), PPTO_OK);
    cr_expect_eq(ppto_run_wait(b, -1), PPTO_OK);
    for (int i = 0; i < 5000 && ppto_trace_count(trace, &counts) == PPTO_OK; i++)
        pause_ms(1); /* it has begun */
    cr_expect_eq(ppto_program_trace(p, NULL, NULL), PPTO_E_BUSY);
    cr_expect_eq(ppto_trace_count(trace, &counts), PPTO_E_BUSY);
    cr_expect_eq(ppto_trace_write(trace, PPTO_TRACE_CHROME, &bytes, &n), PPTO_E_BUSY);
    cr_expect_eq(ppto_trace_steps(trace, true, &bytes), PPTO_E_BUSY);
    ppto_event_signal(gate, PPTO_OK);
    cr_expect_eq(ppto_run_wait(a, -1), PPTO_OK);
    cr_expect_eq(counts_of(trace).runs, 2);
    cr_expect_eq(occurrences(trace, PPTO_TRACE_CHROME, "\"name\": \"wait for event on "), 1);
    cr_expect_eq(occurrences(trace, PPTO_TRACE_CHROME, "\"name\": \"enter stream "), 2);
    cr_expect_eq(occurrences(trace, PPTO_TRACE_TIMELINE, ">enter stream <"), 0, "streams have names");
    cr_expect_eq(occurrences(trace, PPTO_TRACE_CHROME, "\"args\": {\"name\": \"second\"}"), 1);
    ppto_run_release(a);
    ppto_run_release(b);
    ppto_program_destroy(p);
    ppto_program_destroy(q);
    ppto_event_release(gate);
    ppto_trace_destroy(trace);
}

Test(traces, a_program_may_change_its_trace)
{
    ppto_trace *one = trace_of(0), *two = trace_of(0);
    ppto_program *p = program_on(NULL, no_event, NULL);
    run_once(p);
    cr_assert_eq(ppto_program_trace(p, one, NULL), PPTO_OK);
    run_once(p);
    cr_assert_eq(ppto_program_trace(p, two, NULL), PPTO_OK);
    run_once(p);
    run_once(p);
    cr_assert_eq(ppto_program_trace(p, NULL, NULL), PPTO_OK);
    run_once(p);
    cr_expect_eq(counts_of(one).runs, 1);
    cr_expect_eq(counts_of(two).runs, 2);
    cr_assert_eq(ppto_program_trace(p, one, NULL), PPTO_OK);
    ppto_trace_destroy(one); /* the program keeps it */
    run_once(p);
    ppto_program_destroy(p);
    ppto_trace_destroy(two);
}

Test(traces, a_run_that_is_cancelled_is_noted_with_the_reason)
{
    ppto_event never;
    ppto_run *run = NULL;
    ppto_trace_counts counts = {.size = sizeof counts};
    ppto_event_create_user(ctx, &never);
    ppto_trace *trace = trace_of(0);
    ppto_program *p = program_on(s, never, NULL);
    cr_assert_eq(ppto_program_trace(p, trace, NULL), PPTO_OK);
    cr_assert_eq(ppto_program_start(p, NULL, &run), PPTO_OK);
    for (int i = 0; i < 5000 && ppto_trace_count(trace, &counts) == PPTO_OK; i++)
        pause_ms(1); /* until it has begun */
    cr_expect_eq(ppto_run_cancel(run, "enough"), PPTO_OK);
    cr_expect_eq(ppto_run_wait(run, -1), PPTO_E_CANCELLED);
    cr_expect_eq(counts_of(trace).runs, 1);
    cr_expect_eq(occurrences(trace, PPTO_TRACE_CHROME, "\"cat\": \"failure\", \"ph\": \"i\""), 1);
    cr_expect_eq(occurrences(trace, PPTO_TRACE_TIMELINE, "run 0: "), 1);
    ppto_run_release(run);
    ppto_program_destroy(p);
    ppto_event_release(never);
    ppto_trace_destroy(trace);
}

Test(traces, compiling_is_noted_of_programs_made_after_the_trace)
{
    ppto_program *before = program_on(NULL, no_event, NULL);
    ppto_trace *trace = trace_of(0);
    cr_assert_eq(ppto_program_trace(before, trace, NULL), PPTO_OK);
    cr_expect_eq(occurrences(trace, PPTO_TRACE_CHROME, "\"cat\": \"stage\""), 0);
    ppto_program *again = program_on(NULL, no_event, NULL), *other = chain_of(8);
    cr_assert_eq(ppto_program_trace(again, trace, NULL), PPTO_OK);
    cr_expect_eq(occurrences(trace, PPTO_TRACE_CHROME, "plan: hit"), 1);
    cr_expect_eq(occurrences(trace, PPTO_TRACE_CHROME, "\"name\": \"fuse\""), 0, "it was there");
    cr_assert_eq(ppto_program_trace(other, trace, NULL), PPTO_OK);
    cr_expect_eq(occurrences(trace, PPTO_TRACE_CHROME, "plan: miss"), 1);
    cr_expect_eq(occurrences(trace, PPTO_TRACE_CHROME, "\"name\": \"fuse\""), 1);
    cr_expect_geq(occurrences(trace, PPTO_TRACE_CHROME, "\"cache\": \"miss\""), 2);
    run_once(other);
    cr_expect_eq(occurrences(trace, PPTO_TRACE_CHROME, "layout: miss"), 1);
    ppto_program_destroy(before);
    ppto_program_destroy(again);
    ppto_program_destroy(other);
    ppto_trace_destroy(trace);
}

Test(traces, outputs_are_called_by_their_names_in_pictures)
{
    ppto_program *p = program_on(NULL, no_event, NULL);
    char *text = NULL;
    cr_expect_eq(ppto_program_name_output(p, 1, "y"), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_name_output(NULL, 0, "y"), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_name_output(p, 0, "total"), PPTO_OK);
    cr_assert_eq(ppto_program_picture(p, PPTO_PICTURE_SVG, &text), PPTO_OK);
    cr_expect(strstr(text, ">total<") != NULL);
    ppto_text_free(text);
    cr_expect_eq(ppto_program_name_output(p, 0, NULL), PPTO_OK);
    cr_assert_eq(ppto_program_picture(p, PPTO_PICTURE_SVG, &text), PPTO_OK);
    cr_expect(strstr(text, ">result<") != NULL && strstr(text, "total") == NULL);
    ppto_text_free(text);
    ppto_program_destroy(p);
}

Test(traces, an_empty_trace_can_be_written)
{
    ppto_trace *trace = trace_of(0);
    for (int format = PPTO_TRACE_CHROME; format <= PPTO_TRACE_TIMELINE; format++)
        ppto_text_free(written(trace, (ppto_trace_format)format));
    cr_expect_eq(counts_of(trace).runs, 0);
    ppto_trace_destroy(trace);
}

Test(traces, wrong_calls_are_refused)
{
    ppto_trace *trace = NULL, *other_trace;
    ppto_trace_options none = {0, 0};
    ppto_trace_counts counts = {0, 0, 0, 0};
    char *bytes;
    size_t n;
    ppto_context *other = context_with("serial", 0);
    ppto_program *p = program_on(NULL, no_event, NULL);
    cr_expect_eq(ppto_trace_create(NULL, NULL, &trace), PPTO_E_VALUE);
    cr_expect_eq(ppto_trace_create(ctx, &none, &trace), PPTO_E_VALUE);
    cr_expect_eq(ppto_trace_create(ctx, NULL, NULL), PPTO_E_VALUE);
    cr_assert_eq(ppto_trace_create(other, NULL, &other_trace), PPTO_OK);
    cr_expect_eq(ppto_program_trace(NULL, other_trace, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_trace(p, other_trace, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_trace_write(NULL, PPTO_TRACE_CHROME, &bytes, &n), PPTO_E_VALUE);
    cr_expect_eq(ppto_trace_write(other_trace, (ppto_trace_format)9, &bytes, &n), PPTO_E_VALUE);
    cr_expect_eq(ppto_trace_write(other_trace, PPTO_TRACE_CHROME, NULL, &n), PPTO_E_VALUE);
    cr_expect_eq(ppto_trace_steps(NULL, true, &bytes), PPTO_E_VALUE);
    cr_expect_eq(ppto_trace_count(other_trace, &counts), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_picture(NULL, PPTO_PICTURE_SVG, &bytes), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_picture(p, PPTO_PICTURE_SVG, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_picture(p, (ppto_picture_format)7, &bytes), PPTO_E_VALUE);
    ppto_trace_destroy(other_trace);
    ppto_trace_destroy(NULL);
    ppto_program_destroy(p);
    ppto_context_destroy(other);
}
