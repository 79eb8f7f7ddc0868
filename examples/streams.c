/* SPDX-License-Identifier: Apache-2.0
 * Two streams and an event: batch i + 1 is prepared on one stream while batch i is summed on the other. Every
 * batch is a pair of programs; the second waits for the event the first records. Runs on one stream keep
 * their order, the rest may overlap, and the values are those of running everything in turn. */
#include <ppto/ppto.h>
#include <stdio.h>

enum { BATCHES = 4, ELEMENTS = 100000 };

static int fail(ppto_context *ctx, const char *what)
{
    fprintf(stderr, "%s: %s\n", what, ppto_error_text(ctx));
    return 1;
}

/* ready = x * 2 on `prepare`, and an event when it is there. */
static ppto_program *prepare_batch(ppto_context *ctx, ppto_stream *prepare, ppto_event *done)
{
    ppto_program *program = NULL;
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N");
    ppto_stream_push(g, prepare);
    ppto_tensor *ready = ppto_mul(x, ppto_float(g, 2));
    ppto_stream_pop(g);
    ppto_event_record(g, prepare, done);
    ppto_compile(1, &ready, &program);
    ppto_graph_destroy(g);
    return program;
}

/* sum(x) on `compute`, after the event. */
static ppto_program *sum_batch(ppto_context *ctx, ppto_stream *compute, ppto_event ready)
{
    ppto_program *program = NULL;
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_stream_wait(g, compute, ready);
    ppto_stream_push(g, compute);
    ppto_tensor *total = ppto_sum(ppto_input(g, "x", PPTO_F32, "N"));
    ppto_stream_pop(g);
    ppto_compile(1, &total, &program);
    ppto_graph_destroy(g);
    return program;
}

int main(void)
{
    const int64_t shape[] = {ELEMENTS};
    ppto_context *ctx = NULL;
    if (ppto_context_create(&ctx, NULL) != PPTO_OK) return fail(NULL, "context");
    ppto_stream *prepare = ppto_stream_create(ctx, "prepare", PPTO_STREAM_CPU);
    ppto_stream *compute = ppto_stream_create(ctx, "compute", PPTO_STREAM_CPU);
    ppto_program *programs[2 * BATCHES] = {NULL};
    ppto_run *runs[2 * BATCHES] = {NULL};
    ppto_event done[BATCHES];
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, shape, "ones", "x");

    for (int i = 0; i < BATCHES; i++) {
        ppto_array *between = ppto_array_create(ctx, PPTO_F32, 1, shape);
        programs[2 * i] = prepare_batch(ctx, prepare, &done[i]);
        programs[2 * i + 1] = sum_batch(ctx, compute, done[i]);
        ppto_program_bind(programs[2 * i], 0, x);
        ppto_program_bind_output(programs[2 * i], 0, between);
        ppto_program_bind(programs[2 * i + 1], 0, between);
        ppto_array_release(between);
        for (int k = 2 * i; k < 2 * i + 2; k++)
            if (ppto_program_start(programs[k], NULL, &runs[k]) != PPTO_OK) return fail(ctx, "start");
    }
    if (ppto_sync(compute) != PPTO_OK) return fail(ctx, "sync");

    for (int i = 0; i < BATCHES; i++) {
        ppto_array *total = NULL;
        if (ppto_run_wait(runs[2 * i + 1], -1) != PPTO_OK) return fail(ctx, "run");
        ppto_run_outputs(runs[2 * i + 1], &total);
        float value = *(const float *)ppto_array_data(total);
        printf("batch %d: %g\n", i, (double)value);
        if (value != 2.0f * ELEMENTS) return 1;
        ppto_array_release(total);
        ppto_event_release(done[i]);
    }
    for (int k = 0; k < 2 * BATCHES; k++) {
        ppto_run_release(runs[k]);
        ppto_program_destroy(programs[k]);
    }
    ppto_array_release(x);
    ppto_stream_destroy(prepare);
    ppto_stream_destroy(compute);
    ppto_context_destroy(ctx);
    return 0;
}
