/* SPDX-License-Identifier: Apache-2.0
 * Streams of kind IO that several runs may have at once, and what they have in flight. */
#include "async_common.h"
#include "runtime/runtime.h"
#include "scheduler/io.h"

enum { RUNS = 5 };

TestSuite(stream_depth, .init = begin, .fini = end, .timeout = 120);

typedef struct held {
    ppto_event gate, done;
    ppto_program *program;
    ppto_run *run;
} held;

/* Runs that stand on t until their gates open. */
static void start_all(held *all)
{
    for (int i = 0; i < RUNS; i++) {
        cr_assert_eq(ppto_event_create_user(ctx, &all[i].gate), PPTO_OK);
        all[i].program = program_on(t, all[i].gate, &all[i].done);
        all[i].run = start(all[i].program, NULL);
    }
}

static bool is_done(const held *one)
{
    ppto_event_state state = PPTO_EVENT_PENDING;
    cr_expect_eq(ppto_event_query(one->done, &state), PPTO_OK);
    return state == PPTO_EVENT_DONE;
}

static void finish_all(held *all)
{
    for (int i = 0; i < RUNS; i++) {
        expect_two(all[i].run);
        ppto_run_release(all[i].run);
        ppto_event_release(all[i].gate);
        ppto_event_release(all[i].done);
        ppto_program_destroy(all[i].program);
    }
}

Test(stream_depth, so_many_runs_have_the_stream_and_no_more)
{
    held all[RUNS];
    cr_assert_eq(ppto_stream_set_depth(t, 3), PPTO_OK);
    start_all(all);
    for (int i = RUNS - 1; i > 0; i--) ppto_event_signal(all[i].gate, PPTO_OK);
    expect_two(all[1].run);
    expect_two(all[2].run);
    expect_two(all[3].run); /* when one has left, the next one has it */
    expect_two(all[4].run);
    cr_expect(!is_done(&all[0]));
    ppto_event_signal(all[0].gate, PPTO_OK);
    finish_all(all);
}

Test(stream_depth, a_run_passes_nobody_while_the_stream_is_full)
{
    held all[RUNS];
    cr_assert_eq(ppto_stream_set_depth(t, 2), PPTO_OK);
    start_all(all);
    for (int i = 2; i < RUNS; i++) ppto_event_signal(all[i].gate, PPTO_OK);
    pause_ms(5);
    for (int i = 0; i < RUNS; i++) cr_expect(!is_done(&all[i]), "%d", i);
    ppto_event_signal(all[1].gate, PPTO_OK);
    for (int i = 1; i < RUNS; i++) expect_two(all[i].run);
    cr_expect(!is_done(&all[0]));
    ppto_event_signal(all[0].gate, PPTO_OK);
    finish_all(all);
}

Test(stream_depth, a_deeper_stream_lets_those_in_that_wait)
{
    held all[RUNS];
    start_all(all);
    for (int i = 1; i < RUNS; i++) ppto_event_signal(all[i].gate, PPTO_OK);
    pause_ms(5);
    cr_expect(!is_done(&all[1]));
    cr_assert_eq(ppto_stream_set_depth(t, 2), PPTO_OK);
    for (int i = 1; i < RUNS; i++) expect_two(all[i].run);
    cr_assert_eq(ppto_stream_set_depth(t, 1), PPTO_OK);
    ppto_event_signal(all[0].gate, PPTO_OK);
    cr_expect_eq(ppto_sync(t), PPTO_OK);
    for (int i = 0; i < RUNS; i++) cr_expect(is_done(&all[i]), "%d", i);
    finish_all(all);
}

Test(stream_depth, a_cancelled_run_makes_room)
{
    held all[RUNS];
    cr_assert_eq(ppto_stream_set_depth(t, 2), PPTO_OK);
    start_all(all);
    for (int i = 2; i < RUNS; i++) ppto_event_signal(all[i].gate, PPTO_OK);
    cr_expect_eq(ppto_run_cancel(all[1].run, "enough"), PPTO_OK);
    for (int i = 2; i < RUNS; i++) expect_two(all[i].run);
    cr_expect_eq(ppto_run_wait(all[1].run, -1), PPTO_E_CANCELLED);
    ppto_run_release(all[1].run);
    ppto_event_signal(all[0].gate, PPTO_OK);
    ppto_event_signal(all[1].gate, PPTO_OK);
    cr_expect_eq(ppto_run_wait(all[0].run, -1), PPTO_OK);
    cr_expect_eq(ppto_sync(t), PPTO_E_CANCELLED);
    all[1].run = start(all[1].program, NULL);
    finish_all(all);
}

/* y = mean(open(path) + 1), and a copy of it all to a file (NULL: none), with its files on t. */
static ppto_program *moving(const char *path, const char *to)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_stream_push(g, t);
    ppto_tensor *x = ppto_open(g, path);
    ppto_stream_pop(g);
    x = ppto_add(x, ppto_float(g, 1));
    ppto_tensor *y[2] = {ppto_mean(x), NULL};
    ppto_stream_push(g, t);
    if (to) y[1] = ppto_sink(g, x, to);
    ppto_stream_pop(g);
    ppto_program *p = NULL;
    cr_assert_eq(ppto_compile(to ? 2 : 1, y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_graph_destroy(g);
    return p;
}

static pp_io_counters moved(void)
{
    pp_io *engine;
    pp_io_counters now;
    pp_error err = {0};
    cr_assert_eq(pp_context_io(ctx, &engine, &err), PPTO_OK);
    pp_io_count(engine, &now);
    return now;
}

static char folder[] = "/tmp/ppto-depth-XXXXXX";

static const char *file_at(char path[64], int i)
{
    snprintf(path, 64, "%s/%d.npy", folder, i);
    return path;
}

/* Runs that load and store on t, which has a limit of bytes. */
static void keep_the_bytes(bool pieces)
{
    enum { MOST_BYTES = 20000, IN = RUNS };
    const int64_t shape[] = {100000};
    char in[64], out[64];
    ppto_program *programs[RUNS];
    ppto_run *runs[RUNS];
    cr_assert_not_null(mkdtemp(folder));
    ppto_array *ones = ppto_array_fill(ctx, PPTO_F32, 1, shape, "ones", "x");
    cr_assert_eq(ppto_array_save(ones, file_at(in, IN)), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_array_release(ones);
    cr_assert_eq(ppto_stream_set_depth(t, RUNS), PPTO_OK);
    cr_assert_eq(ppto_stream_set_bytes(t, MOST_BYTES), PPTO_OK);
    for (int i = 0; i < RUNS; i++) programs[i] = moving(in, i > 0 ? file_at(out, i) : NULL);
    for (int i = 0; i < RUNS; i++) runs[i] = start(programs[i], NULL);
    for (int i = 0; i < RUNS; i++) expect_two(runs[i]);
    cr_expect_geq(moved().read_bytes, RUNS * 400000);
    cr_expect_geq(moved().written_bytes, (RUNS - 1) * 400000);
    cr_expect_leq(moved().most_bytes_in_flight, MOST_BYTES);
    for (int i = 0; i < RUNS; i++) {
        ppto_stats stats = {.size = sizeof stats};
        cr_expect_eq(ppto_program_stats(programs[i], &stats), PPTO_OK);
        cr_expect_eq(stats.pieces > 1, pieces, "%d", i);
        ppto_run_release(runs[i]);
        ppto_program_destroy(programs[i]);
    }
    for (int i = 1; i <= IN; i++) cr_expect_eq(unlink(file_at(out, i)), 0);
    cr_expect_eq(rmdir(folder), 0);
}

Test(stream_depth, sources_and_sinks_keep_the_bytes_of_their_stream)
{
    keep_the_bytes(false);
}

Test(stream_depth_own, those_of_runs_by_pieces_too, .timeout = 120)
{
    ctx = context_with("pthread", 500000);
    t = ppto_stream_create(ctx, "t", PPTO_STREAM_IO);
    keep_the_bytes(true);
    ppto_stream_destroy(t);
    ppto_context_destroy(ctx);
}

Test(stream_depth, only_streams_of_files_have_one)
{
    cr_expect_eq(ppto_stream_set_depth(s, 2), PPTO_E_VALUE);
    cr_expect_not_null(strstr(ppto_error_text(ctx), "not of kind IO"));
    cr_expect_eq(ppto_stream_set_depth(t, 0), PPTO_E_VALUE);
    cr_expect_eq(ppto_stream_set_depth(t, 65), PPTO_E_VALUE);
    cr_expect_eq(ppto_stream_set_depth(NULL, 2), PPTO_E_VALUE);
    cr_expect_eq(ppto_stream_set_bytes(s, 1 << 20), PPTO_E_VALUE);
    cr_expect_eq(ppto_stream_set_bytes(t, 4095), PPTO_E_VALUE);
    cr_expect_eq(ppto_stream_set_bytes(NULL, 0), PPTO_E_VALUE);
    cr_expect_eq(ppto_stream_set_bytes(t, 4096), PPTO_OK);
    cr_expect_eq(ppto_stream_set_bytes(t, 0), PPTO_OK);
}
