/* SPDX-License-Identifier: Apache-2.0
 * Whole files around the page cache: what is loaded and stored is the same bytes whichever way it goes, its
 * memory lies as in the file, and the numbers of memory are those of the ordinary way. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ppto/ppto.h"
#include "runtime/runtime.h"
#include "scheduler/io.h"

static char folder[] = "ppto-around-XXXXXX"; /* where it is built: a file system that can */

static void begin(void)
{
    cr_assert_not_null(mkdtemp(folder));
}

static void end(void)
{
    cr_assert_eq(rmdir(folder), 0, "a file is left");
}

TestSuite(file_around, .init = begin, .fini = end, .timeout = 120);

static ppto_context *context(const char *page_cache)
{
    ppto_context *ctx = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.threads = 2;
    o.page_cache = page_cache;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK, "%s", ppto_error_text(NULL));
    return ctx;
}

static const char *path_of(const char *name)
{
    static char path[4][96];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
    return path[next];
}

static void make_file(const char *name, int64_t n)
{
    ppto_context *ctx = context("through");
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, &n, "random(7)", "x");
    cr_assert_eq(ppto_array_save(x, path_of(name)), PPTO_OK);
    ppto_array_release(x);
    ppto_context_destroy(ctx);
}

/* Out of the page cache: what is in there is copied from there. */
static void cool(const char *name)
{
    int fd = open(path_of(name), O_RDONLY);
    cr_assert(fd >= 0 && fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
    close(fd);
}

/* How much of it the page cache has. */
static double cached(const char *name)
{
    struct stat facts;
    int fd = open(path_of(name), O_RDONLY);
    cr_assert(fd >= 0 && fstat(fd, &facts) == 0);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = ((size_t)facts.st_size + page - 1) / page, n = 0;
    void *view = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_SHARED, fd, 0);
    unsigned char *in = malloc(pages);
    cr_assert(view != MAP_FAILED && in != NULL && mincore(view, (size_t)facts.st_size, in) == 0);
    for (size_t i = 0; i < pages; i++) n += in[i] & 1;
    free(in);
    munmap(view, (size_t)facts.st_size);
    close(fd);
    return (double)n / (double)pages;
}

/* Can anything go around the page cache here? */
static bool goes_around(void)
{
    enum { BYTES = 1 << 20 };
    void *data = aligned_alloc(PP_IO_BLOCK, BYTES);
    int fd = open(path_of("probe"), O_WRONLY | O_CREAT | O_DIRECT, 0600);
    bool does = false;
    if (fd >= 0) {
        memset(data, 1, BYTES);
        does = write(fd, data, BYTES) == BYTES && cached("probe") == 0;
        close(fd);
    }
    free(data);
    (void)unlink(path_of("probe"));
    return does;
}

/* Loads, computes and stores on two streams. */
static void go(ppto_context *ctx, const char *in, const char *out, ppto_stats *stats)
{
    ppto_stream *s = ppto_stream_create(ctx, "load", PPTO_STREAM_IO),
                *t = ppto_stream_create(ctx, "store", PPTO_STREAM_IO);
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_program *p = NULL;
    ppto_array *y = NULL;
    ppto_stream_push(g, s);
    ppto_tensor *x = ppto_open(g, path_of(in));
    ppto_stream_pop(g);
    x = ppto_add(ppto_mul(x, ppto_float(g, 3)), ppto_float(g, 1));
    ppto_stream_push(g, t);
    x = ppto_sink(g, x, path_of(out));
    ppto_stream_pop(g);
    cr_assert_eq(ppto_compile(1, &x, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_assert_eq(ppto_program_run(p, &y), PPTO_OK, "%s", ppto_error_text(ctx));
    *stats = (ppto_stats){.size = sizeof *stats};
    ppto_program_stats(p, stats);
    ppto_array_release(y);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    ppto_stream_destroy(s);
    ppto_stream_destroy(t);
    ppto_context_destroy(ctx);
}

static bool same_files(const char *a, const char *b)
{
    char command[256];
    snprintf(command, sizeof command, "cmp -s %s %s", path_of(a), path_of(b));
    return system(command) == 0;
}

static void forget(const char *name)
{
    cr_assert_eq(unlink(path_of(name)), 0, "%s", name);
}

Test(file_around, bytes_and_numbers_are_those_through_it)
{
    static const int64_t lengths[] = {1000, 131072, 262144 - 32, 262144 + 7, 1048576, 3000001, 9000000};
    static const char *const ways[] = {"around", "read-around", "auto"};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        ppto_stats plain, stats;
        make_file("x.npy", lengths[i]);
        go(context("through"), "x.npy", "plain.npy", &plain);
        for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
            cool("x.npy");
            go(context(ways[k]), "x.npy", "y.npy", &stats);
            cr_expect(same_files("plain.npy", "y.npy"), "%s, %lld", ways[k], (long long)lengths[i]);
            cr_expect_eq(stats.predicted_peak_bytes, plain.predicted_peak_bytes, "%s", ways[k]);
            cr_expect_eq(stats.measured_peak_bytes, plain.measured_peak_bytes, "%s", ways[k]);
            forget("y.npy");
        }
        forget("plain.npy");
        forget("x.npy");
    }
}

Test(file_around, what_is_loaded_and_stored_is_not_kept)
{
    static const char *const names[] = {"y.npy", "y.safetensors", "y.raw"};
    ppto_stats stats;
    if (!goes_around()) cr_skip_test("this file system has no way around the page cache");
    make_file("x.npy", 3000001);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cool("x.npy");
        go(context("around"), "x.npy", names[i], &stats);
        cr_expect_lt(cached("x.npy"), 0.5, "%s", names[i]);
        cr_expect_lt(cached(names[i]), 0.5, "%s", names[i]);
        forget(names[i]);
    }
    go(context("read-around"), "x.npy", "y.npy", &stats);
    cr_expect_lt(cached("x.npy"), 0.5);
    cr_expect_gt(cached("y.npy"), 0.5);
    forget("x.npy");
    forget("y.npy");
}

Test(file_around, a_file_that_is_cut_off_is_told_and_leaves_the_old_one)
{
    static const off_t sizes[] = {0, 100, 128, 4096, 5000000, 12000131};
    ppto_stats stats;
    make_file("x.npy", 1000);
    go(context("through"), "x.npy", "y.npy", &stats);
    go(context("through"), "x.npy", "old.npy", &stats);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        ppto_program *p = NULL;
        make_file("x.npy", 3000001);
        ppto_context *ctx = context("around");
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_stream *s = ppto_stream_create(ctx, "load", PPTO_STREAM_IO);
        ppto_stream_push(g, s);
        ppto_tensor *x = ppto_sink(g, ppto_open(g, path_of("x.npy")), path_of("y.npy"));
        ppto_stream_pop(g);
        cr_assert_eq(ppto_compile(1, &x, &p), PPTO_OK, "%s", ppto_error_text(ctx));
        cr_assert_eq(truncate(path_of("x.npy"), sizes[i]), 0);
        cr_expect_eq(ppto_program_run(p, NULL), PPTO_E_FORMAT, "%lld bytes", (long long)sizes[i]);
        cr_expect_not_null(strstr(ppto_error_text(ctx), "x.npy"), "%s", ppto_error_text(ctx));
        cr_expect(same_files("old.npy", "y.npy"), "%lld bytes", (long long)sizes[i]);
        ppto_program_destroy(p);
        ppto_graph_destroy(g);
        ppto_stream_destroy(s);
        ppto_context_destroy(ctx);
    }
    forget("x.npy");
    forget("y.npy");
    forget("old.npy");
}
