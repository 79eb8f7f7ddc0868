/* SPDX-License-Identifier: Apache-2.0
 * Runs over files, by the public interface: how far they are, sources and sinks of graphs. */
#include "async_common.h"
#include "runtime/async_run.h"

TestSuite(files, .init = begin, .fini = end, .timeout = 120);

static char folder[] = "/tmp/ppto-files-XXXXXX";

static const char *path_of(const char *name)
{
    static char path[4][128];
    static int next;
    if (folder[strlen(folder) - 1] == 'X') cr_assert_not_null(mkdtemp(folder));
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

static void remove_all(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

/* A file of f32[rows, 1024]. */
static void make_file(const char *path, int64_t rows)
{
    const int64_t shape[] = {rows, 1024};
    ppto_array *a = ppto_array_fill(ctx, PPTO_F32, 2, shape, "random(3)", "x");
    cr_assert_eq(ppto_array_save(a, path), PPTO_OK);
    ppto_array_release(a);
}

static void run_and_ask(const char *text, const char *in, const char *out, uint64_t file_bytes)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_input(g, "x", PPTO_F32, "N, 1024");
    ppto_tensor *y = ppto_expr(g, text);
    ppto_program *p = NULL;
    ppto_array *x = in ? ppto_array_open(ctx, in)
                       : ppto_array_fill(ctx, PPTO_F32, 2, (int64_t[]){64, 1024}, "zeros", "x");
    ppto_run *run;
    ppto_progress progress = {.size = sizeof progress};
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(ppto_program_bind(p, 0, x), PPTO_OK);
    if (out) cr_assert_eq(ppto_program_bind_sink(p, 0, out), PPTO_OK);
    for (int i = 0; i < 2; i++) {
        double before = 0;
        cr_assert_eq(ppto_program_start(p, NULL, &run), PPTO_OK);
        while (ppto_run_wait(run, 1000000) == PPTO_E_TIMEOUT) {
            cr_assert_eq(ppto_run_progress(run, &progress), PPTO_OK);
            cr_assert(progress.fraction >= before && progress.fraction <= 1, "%s", text);
            before = progress.fraction;
        }
        cr_assert_eq(ppto_run_wait(run, -1), PPTO_OK, "%s", ppto_error_text(ctx));
        cr_assert_eq(ppto_run_progress(run, &progress), PPTO_OK);
        cr_expect_eq(progress.fraction, 1);
        cr_expect_eq(progress.file_bytes, file_bytes, "%s: %llu", text,
                     (unsigned long long)progress.file_bytes);
        ppto_run_release(run);
    }
    ppto_program_destroy(p);
    ppto_array_release(x);
    ppto_graph_destroy(g);
}

Test(files, progress_counts_what_passes_through_files)
{
    enum { ROWS = 4096, BYTES = ROWS * 4096 };
    const char *in = path_of("in.npy"), *out = path_of("out.npy");
    make_file(in, ROWS);
    run_and_ask("x * 2", in, out, 2 * BYTES);               /* by pieces */
    run_and_ask("x - mean(x, axis=0)", in, out, 3 * BYTES); /* twice over the pieces */
    run_and_ask("sum(x)", in, NULL, BYTES);
    run_and_ask("flip(x, axis=0)", in, out, 2 * BYTES); /* whole */
    run_and_ask("flip(x, axis=0)", NULL, NULL, 0);
    remove_all();
}

/* The work that is planned is the work that is done. */
Test(files, a_run_that_is_done_had_come_near_its_end)
{
    const char *in = path_of("in.npy"), *out = path_of("out.npy");
    make_file(in, 4096);
    for (int i = 0; i < 2; i++) {
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_input(g, "x", PPTO_F32, "N, 1024");
        ppto_tensor *y = ppto_expr(g, i ? "flip(x, axis=0) + 1" : "softmax(x - mean(x, axis=0))");
        ppto_program *p = NULL;
        ppto_array *x = ppto_array_open(ctx, in);
        ppto_run *run;
        cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK);
        cr_assert_eq(ppto_program_bind(p, 0, x), PPTO_OK);
        cr_assert_eq(ppto_program_bind_sink(p, 0, out), PPTO_OK);
        cr_assert_eq(ppto_program_start(p, NULL, &run), PPTO_OK);
        cr_assert_eq(ppto_run_wait(run, -1), PPTO_OK);
        cr_expect(run->fraction > 1 - 1e-9, "%d: %.17g", i, run->fraction);
        ppto_run_release(run);
        ppto_program_destroy(p);
        ppto_array_release(x);
        ppto_graph_destroy(g);
    }
    remove_all();
}

Test(files, progress_of_wrong_calls)
{
    ppto_progress progress = {.size = 0};
    cr_expect_eq(ppto_run_progress(NULL, &progress), PPTO_E_VALUE);
}
