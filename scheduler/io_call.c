/* SPDX-License-Identifier: Apache-2.0
 * The one place that reads and writes for the engines, and the words of a result. A call is a few system
 * calls: one for each stretch, and none moves more than a step (of several MiB where it goes around the page
 * cache, io_around.c), between two of which a cancel is heard; a system call is not to be interrupted.
 * Retries and short counts are the queue's, so that every engine treats them alike. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <unistd.h>

#include "scheduler/io_engine.h"

enum { STEP = 1 << 20 }; /* bytes of one system call: a slow disk has them in 10 ms */

int64_t pp_io_place(const pp_io_request *request, size_t at)
{
    if (request->stretch == 0) return request->offset + (int64_t)at;
    return request->offset + (int64_t)(at / request->stretch) * request->stride +
           (int64_t)(at % request->stretch);
}

static int64_t move_once(const pp_io_request *request, size_t at, size_t n)
{
    unsigned char *data = (unsigned char *)request->data + at;
    int fd = request->file->fd;
    off_t position = (off_t)pp_io_place(request, at);
    ssize_t moved;
    if (request->op == PP_IO_CLOSE) {
        (void)close(fd); /* nobody wants its bytes */
        return (int64_t)n;
    }
    if (request->op == PP_IO_READ)
        moved = request->file->stream ? read(fd, data, n) : pread(fd, data, n, position);
    else
        moved = request->file->stream ? write(fd, data, n) : pwrite(fd, data, n, position);
    return moved >= 0 ? moved : -(int64_t)errno;
}

/* Of what lies together in the file from here. */
static size_t next_step(const pp_io_request *request, size_t at, size_t n)
{
    size_t left = request->stretch != 0 ? request->stretch - at % request->stretch : n;
    if (left > n) left = n;
    return left < STEP ? left : STEP;
}

/* One call, for *step bytes; or for less. */
static int64_t move_step(const pp_io_request *request, size_t at, size_t n, size_t *step)
{
    *step = next_step(request, at, n);
    int64_t moved = request->file->goes_around ? pp_io_call_around(request, at, n, step) : -(int64_t)EINVAL;
    if (moved != -(int64_t)EINVAL) return moved;
    if (*step > STEP) *step = STEP;
    return move_once(request, at, *step);
}

static int64_t move_steps(const pp_io_request *request, size_t at, size_t n)
{
    int64_t sum = 0;
    while (n != 0) {
        size_t step = 0;
        bool on = !__atomic_load_n(&request->own.cancelled, __ATOMIC_RELAXED); /* orders nothing */
        int64_t moved = on ? move_step(request, at, n, &step) : -(int64_t)ECANCELED;
        if (moved <= 0) return sum > 0 ? sum : moved;
        sum += moved;
        at += (size_t)moved;
        n -= (size_t)moved;
        if ((size_t)moved < step || request->file->stream) break; /* a second call could wait */
    }
    return sum;
}

int64_t pp_io_call(const pp_io_slot *piece)
{
    const pp_io_request *request = piece->request;
    size_t n = piece->bytes < PP_IO_MOST_PIECE ? piece->bytes : PP_IO_MOST_PIECE;
    return move_steps(request, piece->at, n);
}

bool pp_io_ready(const pp_io_request *request)
{
    struct pollfd wait = {.fd = request->file->fd, .events = request->op == PP_IO_READ ? POLLIN : POLLOUT};
    return poll(&wait, 1, 0) != 0; /* a failure too: the call says which */
}

static ppto_status result_short(const pp_io_request *request, pp_error *err)
{
    if (request->file->stream)
        return pp_fail(err, PPTO_E_FORMAT, "the input ends after %zu bytes, %zu were expected",
                       request->moved, request->bytes);
    return pp_fail(err, PPTO_E_FORMAT, "the file ends at byte %" PRId64 ", %" PRId64 " were expected",
                   pp_io_place(request, request->moved), pp_io_place(request, request->bytes - 1) + 1);
}

ppto_status pp_io_result(const pp_io_request *request, pp_error *err)
{
    const char *what = request->op == PP_IO_READ ? "cannot read" : "cannot write";
    switch (request->status) {
    case PPTO_OK: return PPTO_OK;
    case PPTO_E_CANCELLED: return pp_fail(err, PPTO_E_CANCELLED, "cancelled");
    case PPTO_E_FORKED:
        return pp_fail(err, PPTO_E_FORKED, "%s: the context belongs to the parent of this process", what);
    case PPTO_E_FORMAT: return result_short(request, err);
    case PPTO_E_VALUE:
        return pp_fail(err, PPTO_E_VALUE, "%s: %zu bytes at byte %" PRId64 " are no range of a file", what,
                       request->bytes, request->offset);
    default: return pp_fail_errno(err, what, request->os_error);
    }
}
