/* SPDX-License-Identifier: Apache-2.0
 * The I/O engine under virtual time: order, limits, cancel and failure at every point, and thousands of seeds
 * of calls that come back short, interrupted, late, failed or not at all. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io_wait.h"

enum { FILE_BYTES = 100000, MOST = 64 };

static pp_io *simulated(pp_io_options options)
{
    pp_io *io;
    pp_error err = {0};
    cr_assert_eq(pp_io_create("sim", &options, &io, &err), PPTO_OK, "%s", err.text);
    return io;
}

static void finish_all(pp_io *io)
{
    for (int64_t next = 0; next != INT64_MAX;) next = pp_io_sim_step(io, next);
}

static int file_of_ramp(void)
{
    static unsigned char bytes[FILE_BYTES];
    for (size_t i = 0; i < FILE_BYTES; i++) bytes[i] = (unsigned char)(i * 31 + (i >> 8));
    int fd = memfd_create("io", 0);
    cr_assert_eq(write(fd, bytes, FILE_BYTES), FILE_BYTES);
    return fd;
}

static bool is_ramp(const unsigned char *bytes, size_t at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != (unsigned char)((at + i) * 31 + ((at + i) >> 8))) return false;
    return true;
}

/* ---- order and limits -------------------------------------------------------------------------- */

static int order[MOST], ordered;

static void note(pp_io_request *request)
{
    order[ordered++] = (int)(intptr_t)request->owner;
}

Test(io_sim, begins_requests_of_a_file_in_order_and_files_in_turn)
{
    static unsigned char back[FILE_BYTES * 3];
    pp_io *io = simulated((pp_io_options){.depth = 2, .piece = 4096, .sim.least_ns = 10, .sim.most_ns = 10});
    pp_io_file large = {.fd = file_of_ramp()}, small = {.fd = file_of_ramp()};
    pp_io_request requests[5];
    for (int i = 0; i < 5; i++) {
        requests[i] = (pp_io_request){.op = PP_IO_READ,
                                      .file = i < 2 ? &large : &small,
                                      .data = back + FILE_BYTES / 2 * i,
                                      .bytes = i < 2 ? FILE_BYTES : 4096,
                                      .done = note,
                                      .owner = (void *)(intptr_t)i};
        pp_io_submit(io, &requests[i]);
    }
    ordered = 0;
    finish_all(io);
    static const int wanted[] = {2, 3, 4, 0, 1};
    cr_expect_eq(memcmp(order, wanted, sizeof wanted), 0);
    cr_expect(requests[0].begun_ns <= requests[1].begun_ns && requests[2].begun_ns < requests[3].begun_ns);
    cr_expect_eq(requests[2].begun_ns, 0, "a large request does not take every slot");
    pp_io_destroy(io);
    close(large.fd);
    close(small.fd);
}

Test(io_sim, never_has_more_in_flight_than_it_may)
{
    static unsigned char back[8][FILE_BYTES];
    for (uint32_t depth = 1; depth <= 7; depth += 3)
        for (size_t most = 1000; most <= 50000; most += 12000) {
            pp_io *io = simulated((pp_io_options){
                .depth = depth, .piece = 8192, .max_bytes = most, .sim = {.seed = most, .most_ns = 100}});
            pp_io_file files[8] = {{0}};
            pp_io_request requests[8];
            waiter all = WAITER(8);
            for (int i = 0; i < 8; i++) {
                files[i].fd = file_of_ramp();
                requests[i] = (pp_io_request){.op = PP_IO_READ,
                                              .file = &files[i],
                                              .data = back[i],
                                              .bytes = FILE_BYTES,
                                              .done = told,
                                              .owner = &all};
                pp_io_submit(io, &requests[i]);
            }
            pp_io_counters now = {0};
            for (int64_t next = 0; next != INT64_MAX; next = pp_io_sim_step(io, next)) {
                pp_io_count(io, &now);
                cr_expect_leq(now.in_flight, depth);
                cr_expect(now.bytes_in_flight <= most || now.in_flight == 1);
            }
            cr_expect_eq(all.left, 0);
            if (most == 1000) cr_expect_eq(now.most_in_flight, 1); /* every piece is larger */
            for (int i = 0; i < 8; i++) {
                cr_expect(requests[i].status == PPTO_OK && is_ramp(back[i], 0, FILE_BYTES));
                close(files[i].fd);
            }
            pp_io_destroy(io);
        }
}

/* The most pieces in flight at once of one request of a file. */
static uint32_t most_at_once(pp_io_op op)
{
    static unsigned char data[FILE_BYTES];
    pp_io *io = simulated((pp_io_options){.depth = 4, .piece = 8192, .sim.most_ns = 100});
    pp_io_file file = {.fd = file_of_ramp()};
    waiter all = WAITER(1);
    pp_io_request request = {
        .op = op, .file = &file, .data = data, .bytes = FILE_BYTES, .done = told, .owner = &all};
    pp_io_counters counters;
    pp_io_submit(io, &request);
    finish_all(io);
    pp_io_count(io, &counters);
    cr_expect(request.status == PPTO_OK && request.moved == FILE_BYTES);
    pp_io_destroy(io);
    close(file.fd);
    return counters.most_in_flight;
}

Test(io_sim, writes_a_file_by_one_piece_and_reads_it_by_several)
{
    cr_expect_eq(most_at_once(PP_IO_WRITE), 1);
    cr_expect_eq(most_at_once(PP_IO_READ), 3);
}

Test(io_sim, keeps_every_share_and_lets_others_go_on)
{
    enum { MOST_BYTES = 12000 };
    static unsigned char back[6][FILE_BYTES];
    pp_io *io = simulated((pp_io_options){.depth = 6, .piece = 8192, .sim.most_ns = 100});
    pp_io_share shares[2] = {{.most = MOST_BYTES}, {.most = 0}};
    pp_io_file files[6] = {{0}};
    pp_io_request requests[6];
    waiter all = WAITER(6);
    for (int i = 0; i < 6; i++) {
        files[i].fd = file_of_ramp();
        requests[i] = (pp_io_request){.op = PP_IO_READ,
                                      .file = &files[i],
                                      .data = back[i],
                                      .bytes = i == 5 ? 30000 : FILE_BYTES,
                                      .share = i < 4 ? &shares[0] : &shares[i - 4],
                                      .done = told,
                                      .owner = &all};
        if (i == 5) requests[i].share = NULL;
        pp_io_submit(io, &requests[i]);
    }
    size_t seen = 0;
    for (int64_t next = 0; next != INT64_MAX; next = pp_io_sim_step(io, next)) {
        cr_expect_leq(shares[0].bytes, MOST_BYTES);
        if (shares[0].bytes > seen) seen = shares[0].bytes;
    }
    cr_expect_gt(seen, 8192, "more than one piece at once");
    for (int i = 0; i < 6; i++) {
        cr_expect(requests[i].status == PPTO_OK && is_ramp(back[i], 0, requests[i].bytes));
        if (i < 5) cr_expect_lt(requests[5].done_ns, requests[i].done_ns);
        close(files[i].fd);
    }
    cr_expect_eq(shares[0].bytes + shares[1].bytes, 0);
    pp_io_destroy(io);
}

Test(io_sim, cuts_pieces_to_a_share_that_is_smaller)
{
    static unsigned char back[FILE_BYTES];
    pp_io *io = simulated((pp_io_options){.depth = 4, .piece = 65536});
    pp_io_share share = {.most = 5000};
    pp_io_file file = {.fd = file_of_ramp()};
    waiter all = WAITER(1);
    pp_io_request request = {.op = PP_IO_READ,
                             .file = &file,
                             .data = back,
                             .bytes = FILE_BYTES,
                             .share = &share,
                             .done = told,
                             .owner = &all};
    pp_io_counters counters;
    pp_io_submit(io, &request);
    finish_all(io);
    pp_io_count(io, &counters);
    cr_expect(request.status == PPTO_OK && is_ramp(back, 0, FILE_BYTES));
    cr_expect(counters.most_bytes_in_flight <= 5000 && counters.calls == FILE_BYTES / 5000);
    pp_io_destroy(io);
    close(file.fd);
}

Test(io_sim, makes_no_last_piece_of_a_few_bytes)
{
    static const struct {
        size_t offset, bytes, calls;
    } cases[] = {{0, 8192, 1},        {128, 8192, 1},      {128, 8192 - 128, 1},
                 {0, 8192 + 1024, 1}, {0, 8192 + 1025, 2}, {128, 65536, 8},
                 {128, 100, 1},       {8000, 8192, 2},     {8000, 192, 1}};
    static unsigned char back[FILE_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pp_io *io = simulated((pp_io_options){.depth = 4, .piece = 8192});
        pp_io_file file = {.fd = file_of_ramp()};
        pp_io_request request = {.op = PP_IO_READ,
                                 .file = &file,
                                 .offset = (int64_t)cases[i].offset,
                                 .data = back,
                                 .bytes = cases[i].bytes,
                                 .done = note};
        ordered = 0;
        pp_io_submit(io, &request);
        finish_all(io);
        cr_expect(request.status == PPTO_OK && is_ramp(back, cases[i].offset, cases[i].bytes), "%zu", i);
        cr_expect_eq(pp_io_sim_calls(io), cases[i].calls, "%zu: %d calls", i, (int)pp_io_sim_calls(io));
        pp_io_destroy(io);
        close(file.fd);
    }
}

Test(io_sim, takes_no_turns_for_a_piece_that_goes_alone)
{
    static unsigned char back[FILE_BYTES];
    pp_io *io = simulated((pp_io_options){.depth = 4, .piece = 65536, .max_bytes = 10});
    pp_io_file file = {.fd = file_of_ramp()};
    waiter all = WAITER(1);
    pp_io_request request = {
        .op = PP_IO_READ, .file = &file, .data = back, .bytes = FILE_BYTES, .done = told, .owner = &all};
    pp_io_submit(io, &request);
    finish_all(io);
    cr_expect(request.status == PPTO_OK && is_ramp(back, 0, FILE_BYTES));
    pp_io_destroy(io);
    close(file.fd);
}

/* ---- failure and cancel at every point --------------------------------------------------------- */

typedef struct scenario {
    pp_io *io;
    pp_io_file files[3];
    unsigned char back[3][FILE_BYTES];
    pp_io_request requests[6]; /* of each file a read, then a write of another range */
    waiter all;
} scenario;

static scenario *begin(pp_io_options options)
{
    scenario *s = calloc(1, sizeof *s);
    s->io = simulated(options);
    s->all = (waiter)WAITER(6);
    for (int i = 0; i < 6; i++) {
        int f = i % 3;
        if (i < 3) s->files[f].fd = file_of_ramp();
        s->requests[i] = (pp_io_request){.op = i < 3 ? PP_IO_READ : PP_IO_WRITE,
                                         .file = &s->files[f],
                                         .offset = i < 3 ? 0 : FILE_BYTES + 77 * i,
                                         .data = s->back[f],
                                         .bytes = i < 3 ? FILE_BYTES : 30000,
                                         .done = told,
                                         .owner = &s->all};
        pp_io_submit(s->io, &s->requests[i]);
    }
    return s;
}

static void check_good(scenario *s, int i)
{
    pp_io_request *request = &s->requests[i];
    cr_expect_eq(request->moved, request->bytes);
    if (i < 3) cr_expect(is_ramp(s->back[i], 0, FILE_BYTES));
}

static uint64_t end(scenario *s)
{
    uint64_t calls = pp_io_sim_calls(s->io);
    pp_io_destroy(s->io);
    cr_expect_eq(s->all.left, 0);
    for (int f = 0; f < 3; f++) close(s->files[f].fd);
    free(s);
    return calls;
}

Test(io_sim, reports_a_failure_of_every_single_call)
{
    static const ppto_status wanted[] = {PPTO_OK, PPTO_OK, PPTO_OK, PPTO_E_IO, PPTO_E_LIMIT, PPTO_E_FORMAT};
    for (int fault = 0; fault < PP_IO_FAULTS; fault++) {
        pp_io_options options = {
            .depth = 3, .piece = 8192, .sim.most_ns = 50, .sim.fail_with = (pp_io_fault)fault};
        uint64_t calls = 0;
        for (uint64_t n = 0; n <= calls; n++) {
            options.sim.fail_at = n;
            scenario *s = begin(options);
            finish_all(s->io);
            int failed = 0;
            for (int i = 0; i < 6; i++) {
                ppto_status status = s->requests[i].status;
                if (status == PPTO_OK)
                    check_good(s, i);
                else
                    failed++;
                cr_expect(status == PPTO_OK || (n > 0 && status == wanted[fault]), "%d %d", fault, (int)n);
                if (status == PPTO_E_IO) cr_expect_eq(s->requests[i].os_error, EIO);
                if (status == PPTO_E_LIMIT) cr_expect_eq(s->requests[i].os_error, ENOSPC);
            }
            bool applies = fault == PP_IO_EIO || failed != 0; /* ENOSPC wants a write, the end a read */
            cr_expect_eq(failed, n > 0 && wanted[fault] != PPTO_OK && applies, "%d %d", fault, (int)n);
            calls = n == 0 ? end(s) : (end(s), calls);
        }
        cr_expect_geq(calls, 50);
    }
}

Test(io_sim, cancels_at_every_point)
{
    pp_io_options options = {.depth = 3, .piece = 8192, .sim = {.least_ns = 5, .most_ns = 50}};
    for (int victim = 0; victim < 6; victim++)
        for (int64_t when = -1; when < 1200; when += 23) {
            scenario *s = begin(options);
            pp_io_request *request = &s->requests[victim];
            if (when >= 0) pp_io_sim_step(s->io, when);
            bool was_done = request->done_ns != 0, begun = request->begun_ns != 0 || when >= 0;
            pp_io_cancel(s->io, request);
            finish_all(s->io);
            cr_expect_eq(request->status, was_done ? PPTO_OK : PPTO_E_CANCELLED, "%d %d", victim, (int)when);
            if (!begun) cr_expect(request->moved == 0 && request->begun_ns == 0);
            for (int i = 0; i < 6; i++) {
                if (i == victim) continue;
                cr_expect_eq(s->requests[i].status, PPTO_OK);
                check_good(s, i);
            }
            end(s);
        }
}

Test(io_sim, can_be_destroyed_at_every_point)
{
    pp_io_options options = {.depth = 3, .piece = 8192, .sim = {.least_ns = 5, .most_ns = 50}};
    options.sim.rate[PP_IO_SHORT] = options.sim.rate[PP_IO_EAGAIN] = 300;
    for (int64_t when = -1; when < 2000; when += 7) {
        scenario *s = begin(options);
        options.sim.seed++;
        if (when >= 0) pp_io_sim_step(s->io, when);
        pp_io_destroy(s->io);
        cr_expect_eq(s->all.left, 0);
        for (int i = 0; i < 6; i++) {
            cr_expect(s->requests[i].status == PPTO_OK || s->requests[i].status == PPTO_E_CANCELLED);
            if (s->requests[i].status == PPTO_OK) check_good(s, i);
        }
        for (int f = 0; f < 3; f++) close(s->files[f].fd);
        free(s);
    }
}

Test(io_sim, notices_a_file_that_is_truncated_while_it_is_read)
{
    for (int64_t when = 0; when < 500; when += 11) {
        scenario *s =
            begin((pp_io_options){.depth = 3, .piece = 8192, .sim = {.least_ns = 5, .most_ns = 50}});
        pp_io_sim_step(s->io, when);
        cr_assert_eq(ftruncate(s->files[0].fd, 40001), 0);
        for (int i = 3; i < 6; i++) pp_io_cancel(s->io, &s->requests[i]);
        finish_all(s->io);
        pp_io_request *request = &s->requests[0];
        cr_expect(request->status == PPTO_OK || request->status == PPTO_E_FORMAT);
        cr_expect(request->status == PPTO_OK || request->moved >= 40001);
        cr_expect(is_ramp(s->back[0], 0, 40001));
        end(s);
    }
}

/* ---- seeds ------------------------------------------------------------------------------------- */

typedef struct drawn {
    uint64_t state, trace;
    pp_io *io;
    int left;
    struct one {
        pp_io_request request;
        struct drawn *of;
        int times;
        bool cancelled;
    } ones[MOST];
    pp_io_share share; /* of some */
    unsigned char data[MOST][6000];
} drawn;

static uint64_t draw(drawn *d, uint64_t n)
{
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (d->state >> 33) % n;
}

static void one_done(pp_io_request *request)
{
    struct one *mine = request->owner;
    drawn *d = mine->of;
    mine->times++;
    d->left--;
    d->trace = pp_hash_mix(d->trace, (uint64_t)(mine - d->ones) << 8 ^ (uint64_t)-request->status ^
                                         request->moved << 20 ^ (uint64_t)request->done_ns << 40);
}

static void draw_request(drawn *d, int i, pp_io_file *files)
{
    struct one *mine = &d->ones[i];
    int f = (int)draw(d, 5);
    size_t bytes = 1 + draw(d, 6000);
    mine->of = d;
    /* 0-2: files that are read; 3: a file that is written, in ranges of its own; 4: a file as a stream */
    mine->request = (pp_io_request){.op = f == 3 ? PP_IO_WRITE : PP_IO_READ,
                                    .may_end = draw(d, 4) == 0,
                                    .file = &files[f],
                                    .offset = f == 3 ? 6000 * i : (int64_t)draw(d, FILE_BYTES - 4000),
                                    .data = d->data[i],
                                    .bytes = bytes,
                                    .share = draw(d, 3) == 0 ? &d->share : NULL,
                                    .done = one_done,
                                    .owner = mine};
    if (f == 3) memset(d->data[i], i + 1, sizeof d->data[i]);
}

static void check_one(drawn *d, int i, pp_io_file *files, bool faults)
{
    struct one *mine = &d->ones[i];
    pp_io_request *request = &mine->request;
    pp_error err = {0};
    ppto_status status = pp_io_result(request, &err);
    int64_t end = request->offset + (int64_t)request->bytes;
    cr_expect_eq(mine->times, 1);
    cr_expect(status == PPTO_OK || err.text[0] != '\0');
    cr_expect(status != PPTO_E_CANCELLED || mine->cancelled);
    cr_expect_leq(request->moved, request->bytes);
    bool file = !request->file->stream, read = request->op == PP_IO_READ;
    if (!faults && status != PPTO_E_CANCELLED && file)
        cr_expect_eq(status == PPTO_E_FORMAT, read && end > FILE_BYTES && !request->may_end);
    if (!faults && status != PPTO_E_CANCELLED) cr_expect(status == PPTO_OK || status == PPTO_E_FORMAT);
    if (status != PPTO_OK && status != PPTO_E_FORMAT) return;
    if (file && read) cr_expect(is_ramp(d->data[i], (size_t)request->offset, request->moved));
    if (read || status != PPTO_OK) return;
    unsigned char back[6000];
    cr_expect_eq(pread(files[3].fd, back, request->bytes, request->offset), (ssize_t)request->bytes);
    cr_expect_eq(memcmp(back, d->data[i], request->bytes), 0);
}

/* Everything is drawn from the seed; the answer is a hash of what ended when and how. */
static uint64_t run_seed(uint64_t seed)
{
    static drawn d;
    d = (drawn){.state = seed};
    pp_io_options options = {.depth = 1 + (uint32_t)draw(&d, 6), .piece = 4096, .sim.seed = seed};
    options.max_bytes = 1 + draw(&d, 30000);
    options.per_file = (uint32_t)draw(&d, 4);
    d.share.most = draw(&d, 3) * 3000;
    options.sim.least_ns = (int64_t)draw(&d, 20);
    options.sim.most_ns = options.sim.least_ns + (int64_t)draw(&d, 1000);
    bool faults = draw(&d, 2) == 0;
    for (int i = 0; i < PP_IO_FAULTS; i++)
        if (i <= PP_IO_EAGAIN || faults)
            options.sim.rate[i] = (uint16_t)draw(&d, i <= PP_IO_EAGAIN ? 200 : 30);
    d.io = simulated(options);
    pp_io_file files[5] = {{0}};
    for (int f = 0; f < 5; f++) files[f] = (pp_io_file){.fd = file_of_ramp(), .stream = f == 4};
    lseek(files[4].fd, 0, SEEK_SET);
    int n = 1 + (int)draw(&d, MOST), submitted = 0;
    d.left = n;
    int64_t now = 0, next = 0;
    bool quits = draw(&d, 8) == 0;
    while (d.left > 0) {
        for (uint64_t k = draw(&d, 8); k > 0 && submitted < n; k--) {
            draw_request(&d, submitted, files);
            pp_io_submit(d.io, &d.ones[submitted++].request);
        }
        if (submitted > 0 && draw(&d, 6) == 0) {
            int victim = (int)draw(&d, (uint64_t)submitted);
            d.ones[victim].cancelled = true;
            pp_io_cancel(d.io, &d.ones[victim].request);
        }
        if (quits && submitted == n) break;
        next = pp_io_sim_step(d.io, now);
        cr_expect(d.share.most == 0 || d.share.bytes <= d.share.most);
        cr_assert(next != INT64_MAX || submitted < n || d.left == 0, "seed %d hangs", (int)seed);
        now = next != INT64_MAX && draw(&d, 2) == 0 ? next : now + (int64_t)draw(&d, 400);
    }
    for (int i = 0; i < n && quits; i++) d.ones[i].cancelled = true;
    pp_io_destroy(d.io);
    cr_expect(d.left == 0 && d.share.bytes == 0, "seed %d", (int)seed);
    for (int i = 0; i < n; i++) check_one(&d, i, files, faults);
    for (int f = 0; f < 5; f++) close(files[f].fd);
    return d.trace;
}

Test(io_sim, keeps_its_promises_under_every_seed)
{
    for (uint64_t seed = 0; seed < 2000; seed++) {
        uint64_t trace = run_seed(seed);
        if (seed % 20 == 0) cr_expect_eq(trace, run_seed(seed), "seed %d is not repeated", (int)seed);
    }
}
