/* SPDX-License-Identifier: Apache-2.0
 * The I/O engine: the same table of cases for every engine that is built in. What only the simulated engine
 * can show (order, limits, faults by number, seeds) is in test_io_sim.c. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io_wait.h"
#include "scheduler/io_engine.h"

/* ---- whole ranges ------------------------------------------------------------------------------ */

Test(io_engine, moves_ranges_of_all_sizes)
{
    static const size_t sizes[] = {0, 1, 4095, 4096, (1 << 20) + 3, 20 << 20};
    static const size_t pieces[] = {0, 4096, 100000, 1 << 20};
    const char *name;
    EACH_ENGINE(name)
    for (size_t p = 0; p < 4; p++) {
        pp_io *io = engine_of(name, (pp_io_options){.piece = pieces[p]});
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            round_trip(io, sizes[i], 0);
            round_trip(io, sizes[i], 128);
        }
        pp_io_destroy(io);
    }
}

/* 3,000 of every 4,096 bytes, from byte 5 on; the last stretch ends with the request. */
Test(io_engine, moves_stretches)
{
    enum { STRETCH = 3000, STRIDE = 4096, N = 500, BYTES = N * STRETCH - 1234 };
    const char *name;
    EACH_ENGINE(name)
    {
        pp_io *io = engine_of(name, (pp_io_options){.piece = 100000});
        unsigned char *bytes = pattern((size_t)N * STRIDE + 5, 3), *back = calloc(1, BYTES);
        pp_io_file file = {.fd = temporary()};
        cr_assert_eq(write(file.fd, bytes, (size_t)N * STRIDE + 5), N * STRIDE + 5);
        waiter one = WAITER(1);
        pp_io_request request = {.op = PP_IO_READ,
                                 .file = &file,
                                 .offset = 5,
                                 .data = back,
                                 .bytes = BYTES,
                                 .stretch = STRETCH,
                                 .stride = STRIDE,
                                 .done = told,
                                 .owner = &one};
        pp_io_submit(io, &request);
        wait_for(io, &one);
        cr_expect_eq(request.status, PPTO_OK, "%s", name);
        for (size_t i = 0; i < BYTES; i++)
            cr_assert_eq(back[i], bytes[5 + i / STRETCH * STRIDE + i % STRETCH], "%s: byte %zu", name, i);
        pp_io_destroy(io);
        close(file.fd);
        free(bytes);
        free(back);
    }
}

Test(io_engine, serves_many_files_within_its_limits)
{
    enum { FILES = 100, EACH = 4, BYTES = 70000 };
    const char *name;
    EACH_ENGINE(name)
    {
        pp_io *io = engine_of(name, (pp_io_options){.depth = 3, .piece = 8192, .max_bytes = 20000});
        unsigned char *bytes = pattern((size_t)BYTES * EACH, 1), *back = calloc(FILES, (size_t)BYTES * EACH);
        pp_io_file *files = calloc(FILES, sizeof *files);
        pp_io_request *requests = calloc((size_t)FILES * EACH, sizeof *requests);
        for (int pass = 0; pass < 2; pass++) {
            waiter all = WAITER(FILES * EACH);
            for (int i = 0; i < FILES * EACH; i++) {
                size_t at = (size_t)(i / FILES) * BYTES;
                pp_io_file *file = &files[i % FILES];
                if (pass == 0 && i < FILES) file->fd = temporary();
                requests[i] = (pp_io_request){
                    .op = pass == 0 ? PP_IO_WRITE : PP_IO_READ,
                    .file = file,
                    .offset = (int64_t)at,
                    .bytes = BYTES,
                    .data = pass == 0 ? bytes + at : back + at + (size_t)(i % FILES) * BYTES * EACH,
                    .done = told,
                    .owner = &all};
                pp_io_submit(io, &requests[i]);
            }
            wait_for(io, &all);
            for (int i = 0; i < FILES * EACH; i++) cr_expect_eq(requests[i].status, PPTO_OK, "%s", name);
        }
        pp_io_counters counters;
        pp_io_count(io, &counters);
        for (size_t i = 0; i < FILES; i++) {
            cr_expect_eq(memcmp(bytes, back + i * BYTES * EACH, (size_t)BYTES * EACH), 0, "%s", name);
            close(files[i].fd);
        }
        cr_expect_eq(counters.requests, 2 * FILES * EACH);
        cr_expect_eq(counters.done, 2 * FILES * EACH);
        cr_expect_eq(counters.read_bytes, (uint64_t)FILES * EACH * BYTES);
        cr_expect_eq(counters.written_bytes, (uint64_t)FILES * EACH * BYTES);
        cr_expect(counters.most_in_flight <= 3 && counters.in_flight == 0 && counters.bytes_in_flight == 0);
        cr_expect_leq(counters.most_bytes_in_flight, 20000);
        pp_io_destroy(io);
        free(bytes);
        free(back);
        free(files);
        free(requests);
    }
}

static void submit_next(pp_io_request *request)
{
    struct {
        waiter *all;
        pp_io *io;
    } *chain = request->owner;
    if (request->offset < 99) {
        request->offset++;
        pp_io_submit(chain->io, request);
    } else {
        request->owner = chain->all;
        told(request);
    }
}

Test(io_engine, lets_done_submit)
{
    const char *name;
    EACH_ENGINE(name)
    {
        pp_io *io = engine_of(name, (pp_io_options){0});
        waiter all = WAITER(1);
        unsigned char *bytes = pattern(200, 3), byte = 0;
        pp_io_file file = {.fd = file_of(bytes, 200)};
        struct {
            waiter *all;
            pp_io *io;
        } chain = {&all, io};
        pp_io_request request = {
            .op = PP_IO_READ, .file = &file, .data = &byte, .bytes = 1, .done = submit_next, .owner = &chain};
        pp_io_submit(io, &request);
        wait_for(io, &all);
        cr_expect(request.status == PPTO_OK && byte == bytes[99], "%s", name);
        pp_io_destroy(io);
        close(file.fd);
        free(bytes);
    }
}

/* ---- ends and failures ------------------------------------------------------------------------- */

Test(io_engine, says_where_a_file_ends)
{
    const char *name;
    EACH_ENGINE(name)
    for (size_t piece = 4096; piece <= 1 << 20; piece <<= 8) {
        pp_io *io = engine_of(name, (pp_io_options){.piece = piece});
        unsigned char *bytes = pattern(50000, 2), *back = calloc(80000, 1);
        pp_io_file file = {.fd = file_of(bytes, 50000)};
        pp_io_request request = {
            .op = PP_IO_READ, .file = &file, .offset = 1000, .data = back, .bytes = 79000};
        pp_error err = {0};
        pp_io_request got = once(io, request);
        cr_expect(got.status == PPTO_E_FORMAT && got.moved == 49000, "%s", name);
        cr_expect_eq(pp_io_result(&got, &err), PPTO_E_FORMAT);
        cr_expect_str_eq(err.text, "the file ends at byte 50000, 80000 were expected");
        request.may_end = true;
        got = once(io, request);
        cr_expect(got.status == PPTO_OK && got.moved == 49000, "%s", name);
        cr_expect_eq(memcmp(back, bytes + 1000, 49000), 0, "%s", name);
        request.offset = 60000;
        got = once(io, request);
        cr_expect(got.status == PPTO_OK && got.moved == 0, "%s", name);
        pp_io_destroy(io);
        close(file.fd);
        free(bytes);
        free(back);
    }
}

Test(io_engine, reports_what_the_system_says)
{
    static unsigned char data[100000];
    const char *name;
    EACH_ENGINE(name)
    {
        pp_io *io = engine_of(name, (pp_io_options){.piece = 8192});
        pp_io_file full = {.fd = open("/dev/full", O_WRONLY), .stream = true};
        pp_io_file null = {.fd = open("/dev/null", O_WRONLY), .stream = true};
        pp_io_file closed = {.fd = 987}, closed_stream = {.fd = 987, .stream = true};
        pp_io_file folder = {.fd = open(".", O_RDONLY)}, readable = {.fd = open("/proc/self/exe", O_RDONLY)};
        pp_io_request request = {.op = PP_IO_WRITE, .file = &full, .data = data, .bytes = sizeof data};
        expect_failure(io, request, PPTO_E_LIMIT, "cannot write: No space left");
        request.file = &closed;
        expect_failure(io, request, PPTO_E_IO, "cannot write: Bad file descriptor");
        request.file = &closed_stream;
        expect_failure(io, request, PPTO_E_IO, "cannot write: Bad file descriptor");
        request.file = &readable;
        expect_failure(io, request, PPTO_E_IO, "cannot write: Bad file descriptor");
        request.op = PP_IO_READ;
        request.file = &folder;
        expect_failure(io, request, PPTO_E_IO, "cannot read: Is a directory");
        request.offset = INT64_MAX - 5;
        expect_failure(io, request, PPTO_E_VALUE, "no range");
        request.offset = -1;
        expect_failure(io, request, PPTO_E_VALUE, "no range");
        request = (pp_io_request){.op = PP_IO_WRITE, .file = &null, .data = data, .bytes = sizeof data};
        pp_io_request got = once(io, request);
        cr_expect(got.status == PPTO_OK && got.moved == sizeof data, "%s", name);
        pp_io_counters counters;
        pp_io_count(io, &counters);
        cr_expect(counters.failed == 7 && counters.done == 8, "%s %d", name, (int)counters.failed);
        pp_io_destroy(io);
        close(full.fd);
        close(null.fd);
        close(folder.fd);
        close(readable.fd);
    }
}

/* ---- creation ---------------------------------------------------------------------------------- */

Test(io_engine, refuses_bad_options_and_names)
{
    pp_io *io;
    pp_error err = {0};
    const char *name;
    cr_expect_eq(pp_io_create("none", &(pp_io_options){0}, &io, &err), PPTO_E_VALUE);
    cr_expect(io == NULL && strcmp(err.text, "there is no I/O engine none") == 0);
    EACH_ENGINE(name)
    {
        cr_expect_eq(pp_io_create(name, &(pp_io_options){.piece = 100}, &io, NULL), PPTO_E_VALUE);
        cr_expect_eq(pp_io_create(name, &(pp_io_options){.depth = 2000}, &io, NULL), PPTO_E_VALUE);
    }
    cr_expect_eq(pp_io_create("sim", &(pp_io_options){.sim.rate = {500, 500}}, &io, NULL), PPTO_E_VALUE);
    pp_io_destroy(NULL);
}

Test(io_engine, describes_itself)
{
    const char *name;
    cr_assert_eq(setenv("UV_THREADPOOL_SIZE", "7", 1), 0);
    EACH_ENGINE(name)
    {
        pp_io *io = engine_of(name, (pp_io_options){0});
        pp_io_facts facts;
        pp_text text = {0};
        pp_io_describe(io, &facts);
        pp_io_facts_text(&facts, &text);
        bool uv = strcmp(name, "uv") == 0, sim = strcmp(name, "sim") == 0;
        cr_expect_eq(facts.depth, uv ? 7 : sim ? 4 : 1, "%s", name);
        cr_expect(facts.thread == !sim && facts.piece == 4 << 20 && facts.pool == (uv ? 7 : !sim), "%s",
                  name);
        cr_expect_eq(strncmp(text.at, name, strlen(name)), 0, "%s", text.at);
        cr_expect_not_null(strstr(text.at, "4194304 bytes in flight"), "%s", text.at);
        pp_text_free(&text);
        pp_io_destroy(io);
    }
}

Test(io_engine, survives_allocation_failure_when_created)
{
    const char *name;
    for (size_t i = 0; i == 0 || pp_io_at(i - 1) != NULL; i++) {
        name = i == 0 ? NULL : pp_io_at(i - 1);
        int64_t live = pp_heap_count().live;
        for (uint64_t n = 1;; n++) {
            pp_io *io;
            pp_error err = {0};
            pp_heap_fail_at(n, true);
            ppto_status status = pp_io_create(name, &(pp_io_options){0}, &io, &err);
            pp_heap_fail_at(0, false);
            pp_io_destroy(io);
            cr_expect_eq(pp_heap_count().live, live);
            if (status == PPTO_OK) break;
            cr_expect(status == PPTO_E_NOMEM || status == PPTO_E_LIMIT, "%s: %s", name, err.text);
            cr_assert(err.text[0] != '\0' && n < 20);
        }
    }
}

/* ---- what cannot be interrupted ---------------------------------------------------------------- */

/* However large a piece is, a cancel is heard after a step of it: counted by the calls of a stream. */
Test(io_engine, hears_a_cancel_between_the_steps_of_a_piece)
{
    enum { STEP = 1 << 20, BYTES = 4 * STEP };
    const char *name;
    unsigned char *bytes = pattern(BYTES, 1);
    pp_io_file file = {.fd = temporary(), .stream = true};
    pp_io_request request = {.op = PP_IO_WRITE, .file = &file, .data = bytes, .bytes = BYTES};
    pp_io_slot piece = {.request = &request, .bytes = BYTES};
    cr_expect_eq(pp_io_call(&piece), STEP);
    file.stream = false;
    cr_expect_eq(pp_io_call(&piece), BYTES);
    request.own.cancelled = true;
    cr_expect_eq(pp_io_call(&piece), -ECANCELED);
    request.stretch = 1000;
    request.stride = 2000;
    cr_expect_eq(pp_io_call(&piece), -ECANCELED);
    EACH_ENGINE(name)
    {
        pp_io *io = engine_of(name, (pp_io_options){.piece = BYTES});
        pp_io_counters counters;
        pp_io_file out = {.fd = temporary(), .stream = true};
        once(io, (pp_io_request){.op = PP_IO_WRITE, .file = &out, .data = bytes, .bytes = BYTES});
        pp_io_count(io, &counters);
        cr_expect_eq(counters.calls, BYTES / STEP, "%s", name);
        close(out.fd);
        pp_io_destroy(io);
    }
    close(file.fd);
    free(bytes);
}

Test(io_engine, closes_a_file_that_is_given_up)
{
    const char *name;
    EACH_ENGINE(name)
    {
        pp_io *io = engine_of(name, (pp_io_options){.piece = 0});
        pp_io_file file = {.fd = temporary()};
        pp_io_request request = once(io, (pp_io_request){.op = PP_IO_CLOSE, .file = &file, .bytes = 1});
        cr_expect(request.status == PPTO_OK && request.moved == 1, "%s", name);
        cr_expect_eq(fcntl(file.fd, F_GETFD), -1, "%s", name);
        cr_expect_eq(moved_by(io), 0, "%s", name);
        pp_io_destroy(io);
    }
}

/* ---- threads of a pool ------------------------------------------------------------------------- */

enum { LINKS = 6 };

typedef struct held {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool holds, is_over; /* the engine's own thread stands in a done; it may leave it */
    int links;           /* requests of the file that are done */
    pp_io *io;
} held;

static void set(held *h, bool *what)
{
    pthread_mutex_lock(&h->lock);
    *what = true;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

static void wait_until(held *h, const bool *what)
{
    pthread_mutex_lock(&h->lock);
    while (!*what) pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
}

static void hold(pp_io_request *request)
{
    held *h = request->owner;
    set(h, &h->holds);
    wait_until(h, &h->is_over);
}

static void link_done(pp_io_request *request)
{
    held *h = request->owner;
    if (h->links == 0) wait_until(h, &h->holds);
    if (++h->links == LINKS)
        set(h, &h->is_over);
    else
        pp_io_submit(h->io, request);
}

/* The engine's own thread tells the end of a stream and comes to nothing else meanwhile; the first request of
 * the file waits for that, and all of the file is read. */
Test(io_engine, goes_on_with_a_file_without_its_own_thread, .timeout = 60)
{
    unsigned char *bytes = pattern(20000, 1), back[20000], byte;
    held h = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false, 0, NULL};
    int ends[2];
    pp_io_facts facts;
    pp_io_describe(NULL, &facts);
    if (facts.pool < 2) cr_skip("the engine has no pool here");
    h.io = engine_of(facts.name, (pp_io_options){.piece = 4096});
    cr_assert_eq(pipe(ends), 0);
    pp_io_file file = {.fd = file_of(bytes, sizeof back)}, end = {.fd = ends[0], .stream = true};
    pp_io_request part = {
        .op = PP_IO_READ, .file = &file, .data = back, .bytes = 4096, .done = link_done, .owner = &h};
    pp_io_request stream = {
        .op = PP_IO_READ, .file = &end, .data = &byte, .bytes = 1, .done = hold, .owner = &h};
    pp_io_submit(h.io, &part);
    pp_io_submit(h.io, &stream);
    cr_assert_eq(write(ends[1], "x", 1), 1);
    wait_until(&h, &h.is_over);
    pp_io_destroy(h.io);
    cr_expect_eq(h.links, LINKS);
    cr_expect_eq(memcmp(bytes, back, 4096), 0);
    close(ends[0]);
    close(ends[1]);
    close(file.fd);
    free(bytes);
}
