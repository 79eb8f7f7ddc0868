/* SPDX-License-Identifier: Apache-2.0
 * What the tests of runs on their own share: a context with two streams, and programs on them. */
#ifndef ASYNC_COMMON_H
#define ASYNC_COMMON_H

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "ppto/ops.h"
#include "ppto/ppto.h"

static ppto_context *ctx;
static ppto_stream *s, *t;
static const int64_t small[] = {1000};

PP_UNUSED static ppto_context *context_with(const char *executor, uint64_t limit)
{
    ppto_context *made = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = executor;
    o.threads = 2;
    o.memory_limit = limit;
    cr_assert_eq(ppto_context_create(&made, &o), PPTO_OK);
    return made;
}

PP_UNUSED static void begin(void)
{
    ctx = context_with("pthread", 0);
    s = ppto_stream_create(ctx, "s", PPTO_STREAM_CPU);
    t = ppto_stream_create(ctx, "t", PPTO_STREAM_IO);
}

PP_UNUSED static void end(void)
{
    ppto_stream_destroy(s);
    ppto_stream_destroy(t);
    ppto_context_destroy(ctx);
}

PP_UNUSED static int64_t now(void)
{
    return pp_clock_ns();
}

PP_UNUSED static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* A program x -> x + 1 on a stream (NULL: none), which first waits for an event (context NULL: none) and at
 * last records one (NULL: none). */
PP_UNUSED static ppto_program *program_on(ppto_stream *stream, ppto_event before, ppto_event *after)
{
    ppto_graph *g = ppto_graph_create(ctx);
    if (before.context) cr_assert_eq(ppto_stream_wait(g, stream, before), PPTO_OK);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N");
    if (stream) ppto_stream_push(g, stream);
    ppto_tensor *y = ppto_add(x, ppto_float(g, 1));
    if (stream) ppto_stream_pop(g);
    if (after) cr_assert_eq(ppto_event_record(g, stream, after), PPTO_OK);
    ppto_program *p = NULL;
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_array *ax = ppto_array_fill(ctx, PPTO_F32, 1, small, "ones", "x");
    cr_assert_eq(ppto_program_bind(p, 0, ax), PPTO_OK);
    ppto_array_release(ax);
    ppto_graph_destroy(g);
    return p;
}

PP_UNUSED static const ppto_event no_event = {NULL, 0};

PP_UNUSED static ppto_run *start(ppto_program *p, const ppto_run_options *options)
{
    ppto_run *run = NULL;
    cr_assert_eq(ppto_program_start(p, options, &run), PPTO_OK, "%s", ppto_error_text(ctx));
    return run;
}

/* Of one output, and perhaps one that went to a file. */
PP_UNUSED static void expect_two(ppto_run *run)
{
    ppto_array *y[2] = {NULL, NULL};
    cr_expect_eq(ppto_run_wait(run, -1), PPTO_OK, "%s", ppto_run_error(run));
    cr_expect_eq(ppto_run_outputs(run, y), PPTO_OK);
    cr_assert_not_null(y[0]);
    cr_expect_eq(*(const float *)ppto_array_data(y[0]), 2.0f);
    ppto_array_release(y[0]);
}

#endif
