/* SPDX-License-Identifier: Apache-2.0
 * For tests of the I/O engine: waiting for requests, whatever engine makes them, and what the cases over
 * every engine share. */
#ifndef IO_WAIT_H
#define IO_WAIT_H

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scheduler/io.h"

typedef struct waiter {
    pthread_mutex_t lock;
    int left; /* requests that are not done; below 0: one was done twice */
} waiter;
#define WAITER(n)                                                                                            \
    {                                                                                                        \
        PTHREAD_MUTEX_INITIALIZER, (n)                                                                       \
    }

static inline void told(pp_io_request *request)
{
    waiter *all = request->owner;
    pthread_mutex_lock(&all->lock);
    all->left--;
    pthread_mutex_unlock(&all->lock);
}

static inline bool is_sim(const pp_io *io)
{
    pp_io_facts facts;
    pp_io_describe(io, &facts);
    return strcmp(facts.name, "sim") == 0;
}

/* A moment of real and, where it is simulated, of virtual time. */
static inline void settle(pp_io *io)
{
    static int64_t now;
    if (is_sim(io)) pp_io_sim_step(io, now += 100000);
    usleep(20);
}

static inline bool ended(waiter *all)
{
    pthread_mutex_lock(&all->lock);
    bool none = all->left <= 0;
    pthread_mutex_unlock(&all->lock);
    return none;
}

/* Ends the process when it takes a minute. */
static inline void wait_for(pp_io *io, waiter *all)
{
    int64_t give_up = pp_clock_ns() + 60000000000;
    while (!ended(all) && pp_clock_ns() < give_up) settle(io);
    if (ended(all)) return;
    fprintf(stderr, "%d requests hang\n", all->left);
    _exit(3);
}

static inline uint64_t moved_by(pp_io *io)
{
    pp_io_counters counters;
    pp_io_count(io, &counters);
    return counters.read_bytes + counters.written_bytes;
}

/* ---- cases over every engine --------------------------------------------------------------------- */

static const char *engine PP_UNUSED; /* of the case, for messages */

static inline pp_io *engine_of(const char *name, pp_io_options options)
{
    pp_io *io = NULL;
    pp_error err = {0};
    engine = name;
    options.sim.most_ns = 1000;
    cr_assert_eq(pp_io_create(name, &options, &io, &err), PPTO_OK, "%s: %s", name, err.text);
    return io;
}

#define EACH_ENGINE(name) for (size_t at_ = 0; (name = pp_io_at(at_)) != NULL; at_++)

static inline unsigned char *pattern(size_t n, unsigned seed)
{
    unsigned char *bytes = malloc(n + 1);
    for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)(i * 131 + (i >> 12) * 7 + seed);
    return bytes;
}

/* Submits one request and waits for it. */
static inline pp_io_request once(pp_io *io, pp_io_request request)
{
    waiter all = WAITER(1);
    request.done = told;
    request.owner = &all;
    pp_io_submit(io, &request);
    wait_for(io, &all);
    return request;
}

static inline int temporary(void)
{
    int fd = memfd_create("io", MFD_CLOEXEC);
    cr_assert_geq(fd, 0);
    return fd;
}

static inline int file_of(const void *bytes, size_t n)
{
    int fd = temporary();
    for (size_t at = 0; at < n;) {
        ssize_t step = write(fd, (const char *)bytes + at, n - at);
        cr_assert_gt(step, 0);
        at += (size_t)step;
    }
    return fd;
}

static inline void round_trip(pp_io *io, size_t n, int64_t offset)
{
    unsigned char *bytes = pattern(n, (unsigned)n), *back = calloc(n + 1, 1);
    pp_io_file file = {.fd = temporary()};
    pp_io_request wrote = once(
        io, (pp_io_request){.op = PP_IO_WRITE, .file = &file, .offset = offset, .data = bytes, .bytes = n});
    pp_io_request got = once(
        io, (pp_io_request){.op = PP_IO_READ, .file = &file, .offset = offset, .data = back, .bytes = n});
    cr_expect(wrote.status == PPTO_OK && wrote.moved == n, "%s writes %zu at %ld", engine, n, (long)offset);
    cr_expect(got.status == PPTO_OK && got.moved == n, "%s reads %zu at %ld", engine, n, (long)offset);
    cr_expect_eq(memcmp(bytes, back, n), 0, "%s %zu", engine, n);
    close(file.fd);
    free(bytes);
    free(back);
}

static inline void expect_failure(pp_io *io, pp_io_request request, ppto_status wanted, const char *part)
{
    pp_error err = {0};
    pp_io_request got = once(io, request);
    cr_expect_eq(pp_io_result(&got, &err), wanted, "%s: %s", engine, err.text);
    cr_expect_not_null(strstr(err.text, part), "%s: %s", engine, err.text);
}

#endif
