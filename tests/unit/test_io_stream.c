/* SPDX-License-Identifier: Apache-2.0
 * The I/O engine where something waits: pipes and sockets with a slow peer or none, cancel, destroy, fork.
 * Every engine that is built in. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io_wait.h"

/* ---- streams ----------------------------------------------------------------------------------- */

enum { STREAMED = 3000001 };

typedef struct peer {
    int fd;
    unsigned char *bytes;
    size_t n;
    int pause_us; /* after each chunk */
    bool closes;
} peer;

static void *feed(void *arg)
{
    peer *mine = arg;
    for (size_t at = 0; at < mine->n;) {
        size_t step = mine->n - at < 99991 ? mine->n - at : 99991;
        ssize_t wrote = write(mine->fd, mine->bytes + at, step);
        cr_assert_gt(wrote, 0);
        at += (size_t)wrote;
        usleep((useconds_t)mine->pause_us);
    }
    if (mine->closes) close(mine->fd);
    return NULL;
}

static void *drain(void *arg)
{
    peer *mine = arg;
    for (size_t at = 0; at < mine->n;) {
        ssize_t got = read(mine->fd, mine->bytes + at, mine->n - at < 77777 ? mine->n - at : 77777);
        cr_assert_gt(got, 0);
        at += (size_t)got;
        usleep((useconds_t)mine->pause_us);
    }
    return NULL;
}

Test(io_engine, reads_and_writes_pipes_at_their_pace)
{
    const char *name;
    EACH_ENGINE(name)
    for (int writes = 0; writes < 2; writes++) {
        pp_io *io = engine_of(name, (pp_io_options){.piece = 1 << 20});
        int ends[2];
        pthread_t thread;
        unsigned char *bytes = pattern(STREAMED, 4), *back = calloc(STREAMED, 1);
        cr_assert_eq(pipe(ends), 0);
        peer other = {ends[writes ? 0 : 1], writes ? back : bytes, STREAMED, 300, true};
        cr_assert_eq(pthread_create(&thread, NULL, writes ? drain : feed, &other), 0);
        pp_io_file file = {.fd = ends[writes], .stream = true};
        pp_io_request got = once(io, (pp_io_request){.op = writes ? PP_IO_WRITE : PP_IO_READ,
                                                     .file = &file,
                                                     .data = writes ? bytes : back,
                                                     .bytes = STREAMED});
        pthread_join(thread, NULL);
        cr_expect(got.status == PPTO_OK && got.moved == STREAMED, "%s", name);
        cr_expect_eq(memcmp(bytes, back, STREAMED), 0, "%s", name);
        pp_io_destroy(io);
        close(file.fd);
        if (writes) close(ends[0]);
        free(bytes);
        free(back);
    }
}

Test(io_engine, says_where_a_pipe_ends)
{
    const char *name;
    EACH_ENGINE(name)
    for (int may_end = 0; may_end < 2; may_end++) {
        pp_io *io = engine_of(name, (pp_io_options){0});
        int ends[2];
        char back[100];
        pp_error err = {0};
        cr_assert(pipe(ends) == 0 && write(ends[1], "seven..", 7) == 7 && close(ends[1]) == 0);
        pp_io_file file = {.fd = ends[0], .stream = true};
        pp_io_request got = once(
            io, (pp_io_request){
                    .op = PP_IO_READ, .file = &file, .may_end = may_end, .data = back, .bytes = sizeof back});
        cr_expect(got.moved == 7 && memcmp(back, "seven..", 7) == 0, "%s", name);
        cr_expect_eq(pp_io_result(&got, &err), may_end ? PPTO_OK : PPTO_E_FORMAT, "%s", name);
        cr_expect_str_eq(err.text, may_end ? "" : "the input ends after 7 bytes, 100 were expected");
        pp_io_destroy(io);
        close(ends[0]);
    }
}

Test(io_engine, reports_a_closed_pipe_without_a_signal)
{
    static unsigned char data[1 << 20];
    const char *name;
    EACH_ENGINE(name)
    {
        if (strcmp(name, "sim") == 0) continue; /* calls on the thread of the test */
        pp_io *io = engine_of(name, (pp_io_options){0});
        int ends[2];
        cr_assert(pipe(ends) == 0 && close(ends[0]) == 0);
        pp_io_file file = {.fd = ends[1], .stream = true};
        expect_failure(io,
                       (pp_io_request){.op = PP_IO_WRITE, .file = &file, .data = data, .bytes = sizeof data},
                       PPTO_E_IO, "Broken pipe");
        pp_io_destroy(io);
        close(ends[1]);
    }
}

Test(io_engine, serves_files_while_many_streams_wait)
{
    enum { PIPES = 20 };
    const char *name;
    EACH_ENGINE(name)
    {
        pp_io *io = engine_of(name, (pp_io_options){.depth = 2});
        int ends[PIPES][2];
        char byte[PIPES];
        pp_io_file pipes[PIPES];
        pp_io_request requests[PIPES];
        waiter all = WAITER(PIPES);
        for (int i = 0; i < PIPES; i++) {
            cr_assert_eq(pipe(ends[i]), 0);
            pipes[i] = (pp_io_file){.fd = ends[i][0], .stream = true};
            requests[i] = (pp_io_request){.op = PP_IO_READ,
                                          .file = &pipes[i],
                                          .data = &byte[i],
                                          .bytes = 1,
                                          .done = told,
                                          .owner = &all};
            pp_io_submit(io, &requests[i]);
        }
        round_trip(io, 100000, 5);
        cr_expect_eq(all.left, PIPES);
        for (int i = 0; i < PIPES; i++) cr_assert_eq(write(ends[i][1], "x", 1), 1);
        wait_for(io, &all);
        for (int i = 0; i < PIPES; i++) {
            cr_expect(requests[i].status == PPTO_OK && byte[i] == 'x', "%s", name);
            close(ends[i][0]);
            close(ends[i][1]);
        }
        pp_io_destroy(io);
    }
}

Test(io_engine, reads_and_writes_one_socket_at_once)
{
    enum { N = 500000 };
    const char *name;
    EACH_ENGINE(name)
    {
        if (strcmp(name, "sim") == 0) continue; /* the peer must not wait for a step */
        pp_io *io = engine_of(name, (pp_io_options){0});
        int ends[2];
        pthread_t threads[2];
        unsigned char *bytes = pattern(N, 5), *back = calloc(N, 1), *there = calloc(N, 1);
        cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        pp_io_file file = {.fd = ends[0], .stream = true};
        waiter all = WAITER(2);
        pp_io_request in = {
            .op = PP_IO_READ, .file = &file, .data = back, .bytes = N, .done = told, .owner = &all};
        pp_io_request out = {
            .op = PP_IO_WRITE, .file = &file, .data = bytes, .bytes = N, .done = told, .owner = &all};
        peer from = {ends[1], there, N, 100, false}, to = {ends[1], bytes, N, 100, false};
        pp_io_submit(io, &in);
        pp_io_submit(io, &out);
        cr_assert_eq(pthread_create(&threads[0], NULL, drain, &from), 0);
        cr_assert_eq(pthread_create(&threads[1], NULL, feed, &to), 0);
        wait_for(io, &all);
        pthread_join(threads[0], NULL);
        pthread_join(threads[1], NULL);
        cr_expect(in.status == PPTO_OK && out.status == PPTO_OK, "%s", name);
        cr_expect(memcmp(bytes, back, N) == 0 && memcmp(bytes, there, N) == 0, "%s", name);
        pp_io_destroy(io);
        close(ends[0]);
        close(ends[1]);
        free(bytes);
        free(back);
        free(there);
    }
}

Test(io_engine, keeps_the_order_of_a_stream_that_is_a_file)
{
    enum { REQUESTS = 50, EACH = 20000 };
    const char *name;
    EACH_ENGINE(name)
    {
        pp_io *io = engine_of(name, (pp_io_options){.piece = 4096});
        unsigned char *bytes = pattern((size_t)REQUESTS * EACH, 6), *back = calloc(REQUESTS, EACH);
        pp_io_file file = {.fd = temporary(), .stream = true};
        pp_io_request requests[REQUESTS];
        waiter all = WAITER(REQUESTS);
        for (size_t i = 0; i < REQUESTS; i++) {
            requests[i] = (pp_io_request){.op = PP_IO_WRITE,
                                          .file = &file,
                                          .data = bytes + i * EACH,
                                          .bytes = EACH,
                                          .done = told,
                                          .owner = &all};
            pp_io_submit(io, &requests[i]);
        }
        wait_for(io, &all);
        cr_expect_eq(pread(file.fd, back, (size_t)REQUESTS * EACH, 0), REQUESTS * EACH, "%s", name);
        cr_expect_eq(memcmp(bytes, back, (size_t)REQUESTS * EACH), 0, "%s", name);
        pp_io_destroy(io);
        close(file.fd);
        free(bytes);
        free(back);
    }
}

/* ---- cancel, destroy, fork --------------------------------------------------------------------- */

Test(io_engine, cancels_a_stream_that_waits_and_those_behind_it)
{
    const char *name;
    EACH_ENGINE(name)
    {
        pp_io *io = engine_of(name, (pp_io_options){0});
        int ends[2];
        char back[30];
        cr_assert(pipe(ends) == 0 && write(ends[1], "ab", 2) == 2);
        pp_io_file file = {.fd = ends[0], .stream = true};
        waiter first = WAITER(2), last = WAITER(1);
        pp_io_request requests[3];
        for (int i = 0; i < 3; i++) {
            requests[i] = (pp_io_request){.op = PP_IO_READ,
                                          .file = &file,
                                          .data = back + 10 * i,
                                          .bytes = i == 2 ? 3 : 10,
                                          .done = told,
                                          .owner = i == 2 ? &last : &first};
            pp_io_submit(io, &requests[i]);
        }
        pp_io_cancel(io, &requests[1]);
        for (int tries = 0; tries < 2000 && moved_by(io) < 2; tries++) settle(io);
        pp_io_cancel(io, &requests[0]);
        wait_for(io, &first);
        cr_expect(requests[0].status == PPTO_E_CANCELLED && requests[0].moved == 2, "%s", name);
        cr_expect(requests[1].status == PPTO_E_CANCELLED && requests[1].begun_ns == 0, "%s", name);
        cr_expect_eq(write(ends[1], "cde", 3), 3);
        wait_for(io, &last);
        cr_expect(requests[2].status == PPTO_OK && memcmp(back + 20, "cde", 3) == 0, "%s", name);
        pp_io_cancel(io, &requests[2]); /* done: stays as it is */
        cr_expect_eq(requests[2].status, PPTO_OK);
        pp_io_destroy(io);
        close(ends[0]);
        close(ends[1]);
    }
}

Test(io_engine, ends_every_request_when_destroyed)
{
    enum { FILES = 10, REQUESTS = 200 };
    const char *name;
    EACH_ENGINE(name)
    for (int round = 0; round < 20; round++) {
        pp_io *io = engine_of(name, (pp_io_options){.piece = 65536});
        int ends[2];
        unsigned char *bytes = pattern(1 << 20, 7);
        pp_io_file files[FILES + 1] = {{0}};
        pp_io_request *requests = calloc(REQUESTS, sizeof *requests);
        waiter all = WAITER(REQUESTS);
        cr_assert_eq(pipe(ends), 0);
        for (int i = 0; i < FILES; i++) files[i].fd = temporary();
        files[FILES] = (pp_io_file){.fd = ends[1], .stream = true};
        for (int i = 0; i < REQUESTS; i++) {
            requests[i] = (pp_io_request){.op = PP_IO_WRITE,
                                          .file = &files[i % (FILES + 1)],
                                          .data = bytes,
                                          .bytes = 1 << 20,
                                          .done = told,
                                          .owner = &all};
            pp_io_submit(io, &requests[i]);
        }
        if (round % 2) usleep(500);
        pp_io_destroy(io);
        cr_expect_eq(all.left, 0, "%s", name);
        for (int i = 0; i < REQUESTS; i++) {
            ppto_status status = requests[i].status;
            cr_expect(status == PPTO_E_CANCELLED || (status == PPTO_OK && requests[i].moved == 1 << 20));
        }
        for (int i = 0; i < FILES; i++) close(files[i].fd);
        close(ends[0]);
        close(ends[1]);
        free(bytes);
        free(requests);
    }
}

Test(io_engine, is_told_apart_in_a_forked_child)
{
    const char *name;
    EACH_ENGINE(name)
    {
        pp_io *io = engine_of(name, (pp_io_options){0});
        int ends[2], status = -1;
        char byte = 0;
        cr_assert_eq(pipe(ends), 0);
        pp_io_file file = {.fd = ends[0], .stream = true};
        waiter all = WAITER(1);
        pp_io_request waits = {
            .op = PP_IO_READ, .file = &file, .data = &byte, .bytes = 1, .done = told, .owner = &all};
        pp_io_submit(io, &waits);
        pid_t child = fork();
        if (child == 0) {
            pp_io_counters counters;
            pp_io_request refused = waits;
            waiter one = WAITER(1);
            refused.owner = &one;
            pp_io_submit(io, &refused);
            pp_io_cancel(io, &waits);
            pp_io_count(io, &counters);
            bool good = one.left == 0 && refused.status == PPTO_E_FORKED &&
                        pp_io_result(&refused, NULL) == PPTO_E_FORKED && counters.requests == 0;
            pp_io_destroy(io);
            _exit(good ? 0 : 1);
        }
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_expect_eq(status, 0, "%s", name);
        cr_expect_eq(write(ends[1], "z", 1), 1);
        wait_for(io, &all);
        cr_expect(waits.status == PPTO_OK && byte == 'z', "%s", name);
        round_trip(io, 100000, 0);
        pp_io_destroy(io);
        close(ends[0]);
        close(ends[1]);
    }
}
