/* SPDX-License-Identifier: Apache-2.0
 * A run that is not wanted any more: one waits for an event of another library that never comes and is
 * cancelled, one has a deadline. Both end at once, say why, and the program can be run again. */
#include <ppto/ppto.h>
#include <stdio.h>

int main(void)
{
    const int64_t shape[] = {1000};
    ppto_context *ctx = NULL;
    if (ppto_context_create(&ctx, NULL) != PPTO_OK) return 1;
    ppto_stream *stream = ppto_stream_create(ctx, "camera", PPTO_STREAM_IO);
    ppto_event frame; /* signalled by whoever has the frame */
    if (ppto_event_create_user(ctx, &frame) != PPTO_OK) return 1;

    ppto_graph *g = ppto_graph_create(ctx);
    ppto_stream_wait(g, stream, frame);
    ppto_stream_push(g, stream);
    ppto_tensor *y = ppto_sum(ppto_exp(ppto_input(g, "x", PPTO_F32, "N")));
    ppto_stream_pop(g);
    ppto_program *program = NULL;
    if (ppto_compile(1, &y, &program) != PPTO_OK) return 1;
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, shape, "zeros", "x");
    ppto_program_bind(program, 0, x);

    ppto_run *run = NULL;
    if (ppto_program_start(program, NULL, &run) != PPTO_OK) return 1;
    if (ppto_run_wait(run, 1000000) != PPTO_E_TIMEOUT) return 1; /* 1 ms: it waits for the frame */
    ppto_run_cancel(run, "the window was closed");
    if (ppto_run_wait(run, -1) != PPTO_E_CANCELLED) return 1;
    printf("%s\n", ppto_run_error(run));
    ppto_run_release(run);

    ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
    options.deadline_ns = 5000000;
    if (ppto_program_start(program, &options, &run) != PPTO_OK) return 1;
    if (ppto_run_wait(run, -1) != PPTO_E_DEADLINE) return 1;
    printf("%s\n", ppto_run_error(run));
    ppto_run_release(run);

    ppto_event_signal(frame, PPTO_OK);
    ppto_array *total = NULL;
    if (ppto_program_run(program, &total) != PPTO_OK) return 1;
    float value = *(const float *)ppto_array_data(total);
    printf("sum %g\n", (double)value);

    ppto_array_release(total);
    ppto_array_release(x);
    ppto_program_destroy(program);
    ppto_graph_destroy(g);
    ppto_event_release(frame);
    ppto_stream_destroy(stream);
    ppto_context_destroy(ctx);
    return value == 1000.0f ? 0 : 1;
}
