/* SPDX-License-Identifier: Apache-2.0
 * Chains over files larger than the limit of memory, through the page cache and around it: the bits of the
 * run that has all it wants, no more memory than was predicted, the least limit that is told will do, and a
 * failure leaves no file. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "ppto/ppto.h"

static const char *page_cache; /* of the contexts that are made from now on */
static char folder[64];

static ppto_context *make_limited(const char *executor, uint64_t limit)
{
    ppto_context *ctx = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = executor;
    o.threads = 2;
    o.memory_limit = limit;
    o.page_cache = page_cache;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK, "%s", ppto_error_text(NULL));
    return ctx;
}

static ppto_context *make_context(const char *executor)
{
    return make_limited(executor, 0);
}

static void path_of(char *room, size_t size, const char *name)
{
    snprintf(room, size, "%s/%s", folder, name);
}

/* text over x, a file of [n, m] f32, into a file; stats of the run. */
static ppto_status over_files(ppto_context *ctx, const char *text, const char *to, ppto_stats *stats)
{
    char from[96];
    path_of(from, sizeof from, "x.npy");
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_input(g, "x", PPTO_F32, "N, M");
    ppto_tensor *y = ppto_expr(g, text);
    ppto_program *p = NULL;
    ppto_array *x = ppto_array_open(ctx, from), *out = NULL;
    ppto_status s = x ? ppto_compile(1, &y, &p) : ppto_error_status(ctx);
    if (s == PPTO_OK) s = ppto_program_bind_name(p, "x", x);
    if (s == PPTO_OK) s = ppto_program_bind_sink(p, 0, to);
    if (s == PPTO_OK) s = ppto_program_run(p, &out);
    cr_expect_null(out);
    stats->size = sizeof *stats;
    if (s == PPTO_OK) ppto_program_stats(p, stats);
    ppto_array_release(x);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    return s;
}

/* Out of the page cache, as far as the system has it on a disk. */
static void cool(const char *path)
{
    int fd = open(path, O_RDONLY);
    cr_assert(fd >= 0 && fsync(fd) == 0);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
}

static void make_file(int64_t n, int64_t m)
{
    char path[96];
    snprintf(folder, sizeof folder, "/tmp/ppto-region-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    path_of(path, sizeof path, "x.npy");
    ppto_context *ctx = make_context("serial");
    const int64_t shape[] = {n, m};
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 2, shape, "normal(1)", "x");
    cr_assert_eq(ppto_array_save(x, path), PPTO_OK);
    ppto_array_release(x);
    ppto_context_destroy(ctx);
    cool(path);
}

static int files_left(void)
{
    int n = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        n += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    if (dir) closedir(dir);
    return n;
}

static void remove_files(void)
{
    static const char *const names[] = {"x.npy", "y.npy", "z.npy"};
    char path[96];
    for (size_t i = 0; i < 3; i++) {
        path_of(path, sizeof path, names[i]);
        unlink(path);
    }
    cr_expect_eq(rmdir(folder), 0, "something else is left");
}

static void runs_within_the_limit(void)
{
    static const char *const chains[] = {"exp(x) * 2 + 1",
                                         "softmax(x)",
                                         "mean(x, axis=0)",
                                         "(x - mean(x)) / std(x)",
                                         "x - max(x, axis=0)",
                                         "x @ x[:7].T",
                                         "cumulative_sum(x, axis=0)",
                                         "argmax(x, axis=1)",
                                         "x[1:] - x[:-1]",
                                         "flip(x, axis=0) + x",
                                         "roll(x, 3, axis=0)",
                                         "x[1::2] * 2",
                                         "mean(x[5:] * x[:-5], axis=0)",
                                         "concat([x[60000:], softmax(x)[:70000]], axis=0)"};
    char to[96], other[96];
    make_file(120000, 40);
    path_of(to, sizeof to, "y.npy");
    path_of(other, sizeof other, "z.npy");
    for (size_t k = 0; k < sizeof chains / sizeof *chains; k++) {
        ppto_stats whole = {0}, cut = {0};
        ppto_comparison c = {0};
        bool looks_up = strstr(chains[k], "[:7]") != NULL;
        ppto_context *ctx = make_context("pthread"), *little = make_limited("pthread", 12 << 20);
        cr_assert_eq(over_files(ctx, chains[k], other, &whole), PPTO_OK, "%s", ppto_error_text(ctx));
        ppto_status s = over_files(little, chains[k], to, &cut);
        if (looks_up) { /* a part of the axis that is cut is read: the file does not fit whole */
            cr_expect_eq(s, PPTO_E_LIMIT, "%s", chains[k]);
        } else {
            cr_assert_eq(s, PPTO_OK, "%s: %s", chains[k], ppto_error_text(little));
            cr_expect_gt(cut.pieces, 1);
            cr_expect_leq(cut.measured_peak_bytes, 12 << 20);
            cr_expect_eq(cut.measured_peak_bytes, cut.predicted_peak_bytes);
            ppto_array *a = ppto_array_open(ctx, to), *b = ppto_array_open(ctx, other);
            cr_expect_eq(ppto_compare(a, b, 0, 0, &c), PPTO_OK, "%s", ppto_error_text(ctx));
            cr_expect(c.equal, "%s", chains[k]);
            ppto_array_release(a);
            ppto_array_release(b);
        }
        ppto_context_destroy(ctx);
        ppto_context_destroy(little);
    }
    remove_files();
}

Test(region_files, a_file_larger_than_the_limit_runs_within_it)
{
    runs_within_the_limit();
}

Test(region_files, files_around_the_page_cache_have_the_same_bits_and_keep_the_limit)
{
    page_cache = "around";
    runs_within_the_limit();
}

Test(region_files, a_failure_leaves_no_file)
{
    char to[96], from[96];
    ppto_stats stats = {0};
    make_file(120000, 40);
    path_of(to, sizeof to, "y.npy");
    path_of(from, sizeof from, "x.npy");
    ppto_context *ctx = make_context("pthread");
    cr_expect_eq(over_files(ctx, "x + 1", "/dev/full", &stats), PPTO_E_LIMIT, "%s", ppto_error_text(ctx));
    cr_expect_eq(over_files(ctx, "x + 1", "/nowhere/y.npy", &stats), PPTO_E_IO, "%s", ppto_error_text(ctx));
    cr_expect_not_null(strstr(ppto_error_text(ctx), "/nowhere/y.npy"), "%s", ppto_error_text(ctx));
    cr_expect_eq(files_left(), 1);
    ppto_array *x = ppto_array_open(ctx, from);
    cr_assert_eq(truncate(from, 1000000), 0);
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_input(g, "x", PPTO_F32, "N, M");
    ppto_tensor *y = ppto_expr(g, "x * 2");
    ppto_program *p = NULL;
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK);
    cr_expect_eq(ppto_program_bind(p, 0, x), PPTO_OK);
    cr_expect_eq(ppto_program_bind_sink(p, 0, to), PPTO_OK);
    ppto_status s = ppto_program_run(p, NULL);
    cr_expect(s == PPTO_E_IO || s == PPTO_E_FORMAT, "%d: %s", (int)s, ppto_error_text(ctx));
    cr_expect_not_null(strstr(ppto_error_text(ctx), from), "%s", ppto_error_text(ctx));
    cr_expect_eq(files_left(), 1, "a half file is left");
    ppto_array_release(x);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    ppto_context_destroy(ctx);
    remove_files();
}

static float first_of(ppto_context *ctx, const char *path)
{
    ppto_array *x = ppto_array_load(ctx, path);
    cr_assert_not_null(x, "%s", ppto_error_text(ctx));
    float first = *(float *)ppto_array_data(x);
    ppto_array_release(x);
    return first;
}

/* Every run begins with what the one before has written, by pieces and not. */
Test(region_files, a_run_that_replaces_its_own_source_reads_it_anew)
{
    static const int64_t rows[] = {40, 120000};
    for (int k = 0; k < 2; k++) {
        char path[96];
        ppto_stats stats = {.size = sizeof stats};
        ppto_program *p = NULL;
        make_file(rows[k], 40);
        path_of(path, sizeof path, "x.npy");
        ppto_context *ctx = make_context("pthread");
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_tensor *y = ppto_sink(g, ppto_mul(ppto_open(g, path), ppto_float(g, 2)), path);
        float first = first_of(ctx, path);
        cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
        for (int run = 1; run <= 3; run++) {
            cr_assert_eq(ppto_program_run(p, NULL), PPTO_OK, "%s", ppto_error_text(ctx));
            cr_expect_eq(first_of(ctx, path), first * (float)(1 << run), "%d rows, run %d", (int)rows[k],
                         run);
        }
        ppto_program_stats(p, &stats);
        cr_expect_eq(stats.pieces > 1, k == 1);
        ppto_program_destroy(p);
        ppto_graph_destroy(g);
        ppto_context_destroy(ctx);
        remove_files();
    }
}

/* Told before anything runs, by pieces or not, and for the smallest file too. */
static void the_least_limit_will_do(void)
{
    static const char *const chains[] = {"softmax(x)", "x - mean(x, axis=0)",      "mean(x)", "x @ x.T",
                                         "x.T",        "cumulative_sum(x, axis=0)"};
    static const int64_t rows[] = {40, 3000};
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++) {
        char to[96];
        make_file(rows[n], 40);
        path_of(to, sizeof to, "y.npy");
        for (size_t k = 0; k < sizeof chains / sizeof *chains; k++) {
            ppto_stats stats = {0};
            ppto_context *ctx = make_limited("pthread", 1000);
            cr_assert_eq(over_files(ctx, chains[k], to, &stats), PPTO_E_LIMIT, "%s", chains[k]);
            const char *told = strstr(ppto_error_text(ctx), "the least limit that would do is ");
            cr_assert_not_null(told, "%s: %s", chains[k], ppto_error_text(ctx));
            uint64_t limit = strtoull(told + strlen("the least limit that would do is "), NULL, 10);
            cr_expect_neq(access(to, F_OK), 0, "%s", chains[k]);
            ppto_context_destroy(ctx);
            ctx = make_limited("pthread", limit);
            cr_expect_eq(over_files(ctx, chains[k], to, &stats), PPTO_OK, "%s: %s", chains[k],
                         ppto_error_text(ctx));
            cr_expect_eq(stats.measured_peak_bytes, limit, "%s: %llu of %llu", chains[k],
                         (unsigned long long)stats.measured_peak_bytes,
                         (unsigned long long)stats.predicted_peak_bytes);
            ppto_context_destroy(ctx);
            unlink(to);
        }
        remove_files();
    }
}

Test(region_files, the_least_limit_that_is_told_will_do)
{
    the_least_limit_will_do();
    page_cache = "around";
    the_least_limit_will_do();
}

/* No more windows than pieces. */
Test(region_files, a_file_of_one_piece_takes_its_own_size)
{
    char to[96];
    ppto_stats stats = {0};
    make_file(32768, 40);
    path_of(to, sizeof to, "y.npy");
    ppto_context *ctx = make_context("serial");
    cr_assert_eq(over_files(ctx, "exp(x)", to, &stats), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_expect_eq(stats.pieces, 1);
    cr_expect_leq(stats.measured_peak_bytes, 2 * 32768 * 40 * 4 + (1 << 20));
    ppto_context_destroy(ctx);
    remove_files();
}
