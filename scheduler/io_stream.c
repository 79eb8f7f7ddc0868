/* SPDX-License-Identifier: Apache-2.0
 * Streams of the I/O engine: pipes, terminals, sockets. They wait for their peer in an epoll set of the
 * engine, not in a call, and the bytes are moved by short calls on the engine's thread. The descriptor may be
 * shared with other processes, so O_NONBLOCK is not set on it: a read of what is there returns at once
 * anyway, and where a pipe says it has room, PIPE_BUF bytes of it are certain, so a writer takes steps of
 * that size. (A terminal that was stopped by its user can hold such a step, and with it the engine's thread.)
 *
 * What epoll refuses (files, /dev/null) never waits for a peer: it gets slots and calls like a file. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/epoll.h>

#include "scheduler/io_engine.h"

enum { EVENTS = 64, STEPS_A_TURN = 256 };

/* ---- the epoll set ----------------------------------------------------------------------------- */

static uint8_t bit_of(const pp_io_lane *lane)
{
    return (uint8_t)(lane == &lane->file->lane[PP_IO_WRITE] ? 1 << PP_IO_WRITE : 1 << PP_IO_READ);
}

/* Makes the set agree with `wanted` directions. 0 or errno. */
static int set_watch(pp_io *io, pp_io_file *file, uint8_t wanted)
{
    struct epoll_event event = {.data.ptr = file};
    if (wanted & 1 << PP_IO_READ) event.events |= EPOLLIN;
    if (wanted & 1 << PP_IO_WRITE) event.events |= EPOLLOUT;
    int how = file->watched == 0 ? EPOLL_CTL_ADD : wanted != 0 ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
    if (wanted != file->watched && epoll_ctl(io->epoll, how, file->fd, &event) != 0) return errno;
    file->watched = wanted;
    return 0;
}

void pp_io_unwatch(pp_io *io, pp_io_lane *lane)
{
    uint8_t rest = (uint8_t)(lane->file->watched & ~bit_of(lane));
    if (set_watch(io, lane->file, rest) != 0) lane->file->watched = rest; /* closed too early: it is gone */
}

static void fail_lane(pp_io *io, pp_io_lane *lane, int number)
{
    while (lane->first != NULL) {
        pp_io_request *request = lane->first;
        request->own.failed_at = request->moved;
        request->os_error = number;
        pp_io_unlane(io, request);
        pp_io_conclude(io, request);
    }
}

void pp_io_watch_arrived(pp_io *io)
{
    pp_io_lane *lane;
    while ((lane = io->arrived.first) != NULL) {
        int number = set_watch(io, lane->file, lane->file->watched | bit_of(lane));
        lane->file->direct = number == EPERM;
        if (number == 0)
            pp_io_lane_to(&io->watched, lane);
        else if (number == EPERM)
            pp_io_lane_to(&io->ring, lane);
        else
            fail_lane(io, lane, number);
    }
}

/* ---- bytes ------------------------------------------------------------------------------------- */

static size_t step_of(const pp_io *io, const pp_io_request *request)
{
    size_t left = request->bytes - request->moved, most = io->options.piece;
    if (request->op == PP_IO_WRITE) {
        int flags = fcntl(request->file->fd, F_GETFL);
        if (flags < 0 || !(flags & O_NONBLOCK)) most = PIPE_BUF;
    }
    return left < most ? left : most;
}

/* One call for the first request of the lane. False: the peer is not ready. */
static bool move_step(pp_io *io, pp_io_lane *lane)
{
    pp_io_request *request = lane->first;
    pp_io_slot piece = {.request = request, .at = request->moved, .bytes = step_of(io, request)};
    pp_io_request_begins(io, request);
    request->own.pieces = 1;
    pthread_mutex_unlock(&io->lock);
    int64_t result = pp_io_ready(request) ? pp_io_call(&piece) : -EAGAIN;
    pthread_mutex_lock(&io->lock);
    request->own.pieces = 0;
    request->own.begun = request->moved;
    bool on = pp_io_account(io, &piece, result) || (result > 0 && !request->own.cancelled);
    if (!on || request->moved == request->bytes) {
        pp_io_unlane(io, request);
        pp_io_conclude(io, request);
    }
    return result != -EAGAIN && result != -EWOULDBLOCK;
}

static void move(pp_io *io, pp_io_lane *lane)
{
    for (int steps = 0; steps < STEPS_A_TURN && lane->in == &io->watched; steps++)
        if (!move_step(io, lane)) return;
}

void pp_io_poll(pp_io *io, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    pthread_mutex_unlock(&io->lock);
    int n = epoll_wait(io->epoll, events, EVENTS, timeout_ms);
    pthread_mutex_lock(&io->lock);
    /* done is called by this thread only, later: so the files of these events are still there. */
    for (int i = 0; i < n; i++) {
        pp_io_file *file = events[i].data.ptr;
        if (file == NULL) continue;
        uint32_t failing = events[i].events & (EPOLLERR | EPOLLHUP);
        if (events[i].events & EPOLLIN || failing) move(io, &file->lane[PP_IO_READ]);
        if (events[i].events & EPOLLOUT || failing) move(io, &file->lane[PP_IO_WRITE]);
    }
}
