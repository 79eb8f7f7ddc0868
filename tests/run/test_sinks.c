/* SPDX-License-Identifier: Apache-2.0
 * Results that go to files and pipes: what one that cannot be written on means for the others. */
#include <fcntl.h>
#include <sys/stat.h>

#include "async_common.h"

TestSuite(sinks, .init = begin, .fini = end, .timeout = 120);

enum { ROWS = 4096, COLUMNS = 1024 };

static char folder[] = "/tmp/ppto-sinks-XXXXXX";

static void enter(void)
{
    const int64_t shape[] = {ROWS, COLUMNS};
    cr_assert(mkdtemp(folder) && chdir(folder) == 0);
    ppto_array *a = ppto_array_fill(ctx, PPTO_F32, 2, shape, "random(3)", "x");
    cr_assert_eq(ppto_array_save(a, "x.npy"), PPTO_OK);
    ppto_array_release(a);
}

static void leave(void)
{
    cr_assert(chdir("/") == 0 && access(folder, F_OK) == 0);
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

/* An NPY file of f32[rows, COLUMNS] that is all hole. */
static void make_hole(const char *path, int64_t rows)
{
    char head[128];
    memset(head, ' ', sizeof head);
    memcpy(head, "\x93NUMPY\1\0v\0", 10);
    int n =
        snprintf(head + 10, sizeof head - 10,
                 "{'descr': '<f4', 'fortran_order': False, 'shape': (%lld, %d), }", (long long)rows, COLUMNS);
    head[10 + n] = ' ';
    head[sizeof head - 1] = '\n';
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    cr_assert_eq(write(fd, head, sizeof head), sizeof head);
    cr_assert_eq(ftruncate(fd, (off_t)sizeof head + rows * COLUMNS * 4), 0);
    close(fd);
}

/* Results of x by these texts: each goes to its path, or, where that is NULL, to the outputs of the run. */
static ppto_status run(size_t n, const char *const *texts, const char *const *paths, ppto_policy policy,
                       ppto_array *x, ppto_array **outputs)
{
    ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y[4];
    ppto_program *p = NULL;
    ppto_run *started;
    ppto_input(g, "x", PPTO_F32, "N, 1024");
    for (size_t i = 0; i < n; i++) y[i] = ppto_expr(g, texts[i]);
    cr_assert_eq(ppto_compile(n, y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(ppto_program_bind(p, 0, x), PPTO_OK);
    for (size_t i = 0; i < n; i++)
        if (paths[i]) cr_assert_eq(ppto_program_bind_sink(p, i, paths[i]), PPTO_OK);
    options.policy = policy;
    cr_assert_eq(ppto_program_start(p, &options, &started), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_status status = ppto_run_wait(started, -1);
    cr_assert_eq(ppto_run_outputs(started, outputs), PPTO_OK);
    ppto_run_release(started);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    return status;
}

/* A named pipe whose reader went away; keeps it from waiting for one. */
static void *close_the_reader(void *path)
{
    int fd = open(path, O_RDONLY);
    if (fd >= 0) close(fd);
    return NULL;
}

static bool same_bytes(const char *a, const char *b)
{
    char command[64];
    snprintf(command, sizeof command, "cmp -s %s %s", a, b);
    return system(command) == 0;
}

/* The other results are there where the run was to keep going, and else none is: by pieces and whole. */
Test(sinks, a_reader_that_goes_away_takes_the_other_results_along_only_when_the_run_fails_fast)
{
    static const char *const texts[] = {"x * 2", "x + 1", "sum(x)"};
    enter();
    for (int from_file = 0; from_file < 2; from_file++) {
        ppto_array *x = from_file ? ppto_array_open(ctx, "x.npy") : ppto_array_load(ctx, "x.npy");
        const char *paths[] = {"pipe", "want.npy", NULL};
        ppto_array *outputs[3];
        cr_assert_eq(run(2, texts + 1, paths + 1, PPTO_FAIL_FAST, x, outputs), PPTO_OK);
        ppto_array_release(outputs[1]);
        paths[1] = "got.npy";
        for (int keeps = 0; keeps < 2; keeps++) {
            pthread_t reader;
            cr_assert_eq(mkfifo("pipe", 0600), 0);
            cr_assert_eq(pthread_create(&reader, NULL, close_the_reader, "pipe"), 0);
            ppto_policy policy = keeps ? PPTO_KEEP_GOING : PPTO_FAIL_FAST;
            cr_expect_eq(run(3, texts, paths, policy, x, outputs), PPTO_E_IO);
            cr_expect(strstr(ppto_error_text(ctx), "pipe: cannot write: "), "%s", ppto_error_text(ctx));
            pthread_join(reader, NULL);
            cr_expect_eq(access("got.npy", F_OK) == 0, keeps);
            cr_expect(!keeps || same_bytes("got.npy", "want.npy"));
            cr_expect_eq(outputs[2] != NULL, keeps);
            for (int i = 0; i < 3; i++) ppto_array_release(outputs[i]);
            cr_assert(unlink("pipe") == 0 && (!keeps || unlink("got.npy") == 0));
        }
        ppto_array_release(x);
    }
    leave();
}

/* y.npy says the rows of x.npy, and ends too early; y is read by pieces, or whole (flip). */
static void shorten(const char *path)
{
    char text[64];
    snprintf(text, sizeof text, "cp x.npy %s && truncate -s -4096 %s", path, path);
    cr_assert_eq(system(text), 0);
}

static ppto_status run_two(ppto_policy policy, const char *of_y, ppto_array **outputs)
{
    ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_program *p = NULL;
    ppto_run *started;
    ppto_array *arrays[] = {ppto_array_open(ctx, "x.npy"), ppto_array_open(ctx, "y.npy")};
    ppto_input(g, "x", PPTO_F32, "N, 1024");
    ppto_input(g, "y", PPTO_F32, "N, 1024");
    shorten("y.npy");
    ppto_tensor *all[] = {ppto_expr(g, "x * 2"), ppto_expr(g, of_y), ppto_expr(g, "sum(x, axis=0)"),
                          ppto_expr(g, "mean(y, axis=0)"), ppto_expr(g, "x + 1")};
    cr_assert_eq(ppto_compile(5, all, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(ppto_program_bind_name(p, "x", arrays[0]), PPTO_OK);
    cr_assert_eq(ppto_program_bind_name(p, "y", arrays[1]), PPTO_OK);
    cr_assert_eq(ppto_program_bind_sink(p, 0, "got.npy"), PPTO_OK);
    cr_assert_eq(ppto_program_bind_sink(p, 1, "never.npy"), PPTO_OK);
    options.policy = policy;
    cr_assert_eq(ppto_program_start(p, &options, &started), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_status status = ppto_run_wait(started, -1);
    cr_assert_eq(ppto_run_outputs(started, outputs), PPTO_OK);
    ppto_stats stats = {.size = sizeof stats};
    cr_assert_eq(ppto_program_stats(p, &stats), PPTO_OK);
    cr_expect(policy == PPTO_FAIL_FAST || stats.pieces > 0, "%s went in one piece", of_y);
    ppto_run_release(started);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    for (int i = 0; i < 2; i++) ppto_array_release(arrays[i]);
    return status;
}

Test(sinks, a_source_that_ends_too_early_spoils_no_result_that_does_not_need_it)
{
    static const char *const of_y[] = {"y + x", "x + flip(y, 0)"};
    static const char *const texts[] = {"x * 2"}, *const paths[] = {"want.npy"};
    ppto_array *outputs[5];
    enter();
    ppto_array *x = ppto_array_load(ctx, "x.npy");
    cr_assert_eq(run(1, texts, paths, PPTO_FAIL_FAST, x, outputs), PPTO_OK);
    ppto_array_release(x);
    for (int k = 0; k < 4; k++) {
        const bool keeps = k % 2;
        cr_assert_eq(system("cp x.npy y.npy"), 0);
        cr_expect_eq(run_two(keeps ? PPTO_KEEP_GOING : PPTO_FAIL_FAST, of_y[k / 2], outputs), PPTO_E_FORMAT);
        cr_expect(strstr(ppto_error_text(ctx), "y.npy: "), "%s", ppto_error_text(ctx));
        cr_expect(access("never.npy", F_OK) != 0 && (access("got.npy", F_OK) == 0) == keeps);
        cr_expect(!keeps || same_bytes("got.npy", "want.npy"));
        cr_expect((outputs[2] != NULL) == keeps && (outputs[4] != NULL) == keeps && !outputs[3]);
        for (int i = 0; i < 5; i++) ppto_array_release(outputs[i]);
        cr_assert(!keeps || unlink("got.npy") == 0);
    }
    leave();
}

/* Nothing is read for a result that could not be kept; a run that keeps going makes the others. */
Test(sinks, a_folder_that_is_not_there_is_told_before_anything_is_read)
{
    static const char *const texts[] = {"x * 2", "x + 1"}, *const paths[] = {"none/y.npy", "z.npy"};
    ppto_progress done = {.size = sizeof done};
    ppto_array *outputs[2], *x;
    ppto_program *p = NULL;
    ppto_run *started;
    enter();
    cr_assert_not_null(x = ppto_array_open(ctx, "x.npy"));
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = (ppto_input(g, "x", PPTO_F32, "N, 1024"), ppto_expr(g, "x * 2"));
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK);
    cr_assert_eq(ppto_program_bind(p, 0, x), PPTO_OK);
    cr_assert_eq(ppto_program_bind_sink(p, 0, paths[0]), PPTO_OK);
    cr_assert_eq(ppto_program_start(p, NULL, &started), PPTO_OK);
    cr_expect_eq(ppto_run_wait(started, -1), PPTO_E_IO);
    cr_expect(strstr(ppto_error_text(ctx), "none/y.npy: cannot write: "), "%s", ppto_error_text(ctx));
    cr_assert_eq(ppto_run_progress(started, &done), PPTO_OK);
    cr_expect_eq(done.file_bytes, 0);
    ppto_run_release(started);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    cr_expect_eq(run(2, texts, paths, PPTO_KEEP_GOING, x, outputs), PPTO_E_IO);
    cr_expect_eq(access("z.npy", F_OK), 0);
    for (int i = 0; i < 2; i++) ppto_array_release(outputs[i]);
    ppto_array_release(x);
    leave();
}

/* After the cancel no piece begins: what passes through files then is what was under way, at most the windows
 * of the input and the one that the piece under way asks for when it is done. */
Test(sinks, a_cancelled_run_reads_only_what_was_under_way)
{
    enum { LONG = 1 << 21, CHUNK = 256, WINDOW = CHUNK * COLUMNS * 4, WINDOWS = 3 };
    ppto_options o = PPTO_OPTIONS_INIT;
    ppto_array *x;
    ppto_context *other;
    ppto_run *run;
    ppto_program *p = NULL;
    ppto_progress before = {.size = sizeof before}, after = {.size = sizeof after};
    enter();
    o.chunk = CHUNK;
    cr_assert_eq(ppto_context_create(&other, &o), PPTO_OK);
    make_hole("large.npy", LONG);
    cr_assert_not_null(x = ppto_array_open(other, "large.npy"), "%s", ppto_error_text(NULL));
    ppto_graph *g = ppto_graph_create(other);
    ppto_tensor *y = (ppto_input(g, "x", PPTO_F32, "N, 1024"), ppto_expr(g, "sum(x)"));
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK);
    cr_assert_eq(ppto_program_bind(p, 0, x), PPTO_OK);
    cr_assert_eq(ppto_program_start(p, NULL, &run), PPTO_OK);
    while (before.file_bytes == 0) cr_assert_eq(ppto_run_progress(run, &before), PPTO_OK);
    cr_expect_eq(ppto_run_cancel(run, NULL), PPTO_OK);
    cr_assert_eq(ppto_run_progress(run, &before), PPTO_OK);
    cr_expect_eq(ppto_run_wait(run, -1), PPTO_E_CANCELLED);
    cr_assert_eq(ppto_run_progress(run, &after), PPTO_OK);
    cr_expect_leq(after.file_bytes - before.file_bytes, (uint64_t)(WINDOWS + 1) * WINDOW);
    ppto_run_release(run);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    ppto_array_release(x);
    ppto_context_destroy(other);
    leave();
}

/* Lets the run go on: reads what it writes to its end. */
static void *read_all(void *fd)
{
    char *bytes = malloc(1 << 20);
    while (read(*(int *)fd, bytes, 1 << 20) > 0) {
    }
    free(bytes);
    return NULL;
}

/* Two passes: the mean on one stream, what it is taken from on another, whose file is a pipe that nobody
 * reads yet. So the run stands in the second pass while others are served on the first stream. */
Test(sinks, a_run_by_pieces_lets_a_stream_go_when_its_last_piece_is_done)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    ppto_context *other;
    ppto_event done;
    ppto_program *p = NULL;
    ppto_run *run;
    ppto_array *three = NULL;
    pthread_t reader;
    enter();
    o.chunk = 256;
    cr_assert_eq(ppto_context_create(&other, &o), PPTO_OK);
    ppto_stream *first = ppto_stream_create(other, "first", PPTO_STREAM_CPU),
                *second = ppto_stream_create(other, "second", PPTO_STREAM_CPU);
    cr_assert_eq(mkfifo("pipe", 0600), 0);
    int fd = open("pipe", O_RDONLY | O_NONBLOCK);
    ppto_graph *g = ppto_graph_create(other);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N, 1024");
    ppto_stream_push(g, first);
    ppto_tensor *mean = ppto_expr(g, "mean(x, axis=0)");
    ppto_event_record(g, first, &done);
    ppto_stream_push(g, second);
    ppto_tensor *y = ppto_sink(g, ppto_sub(x, mean), "pipe");
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s", ppto_error_text(other));
    ppto_graph_destroy(g);
    ppto_array *file = ppto_array_open(other, "x.npy");
    cr_assert_eq(ppto_program_bind(p, 0, file), PPTO_OK);
    cr_assert_eq(ppto_program_start(p, NULL, &run), PPTO_OK);
    cr_expect_eq(ppto_event_wait(done, 60000000000), PPTO_OK, "%s", ppto_error_text(other));
    g = ppto_graph_create(other);
    ppto_stream_push(g, first);
    cr_expect_eq(ppto_eval(ppto_add(ppto_int(g, 1), ppto_int(g, 2)), &three, NULL), PPTO_OK);
    cr_expect(!ppto_run_over(run, NULL), "nobody has read what it writes");
    ppto_graph_destroy(g);
    cr_assert_eq(fcntl(fd, F_SETFL, 0), 0);
    cr_assert_eq(pthread_create(&reader, NULL, read_all, &fd), 0);
    cr_expect_eq(ppto_run_wait(run, -1), PPTO_OK, "%s", ppto_error_text(other));
    pthread_join(reader, NULL);
    close(fd);
    ppto_array_release(three);
    ppto_array_release(file);
    ppto_event_release(done);
    ppto_run_release(run);
    ppto_program_destroy(p);
    ppto_stream_destroy(first);
    ppto_stream_destroy(second);
    ppto_context_destroy(other);
    leave();
}
