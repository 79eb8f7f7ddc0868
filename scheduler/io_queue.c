/* SPDX-License-Identifier: Apache-2.0
 * The queue of the I/O engine: its lists, and what the result of a call means. What begins next is in
 * io_pump.c.
 *
 * Requests of a file stand in its lane; lanes that want a slot stand in the ring. The first lane gives one
 * piece of its first request to a free slot and goes to the end of the ring: requests of a file begin in
 * order, files take turns. A piece keeps its slot until all its bytes are moved, so short results cost no
 * turn. A failure, a cancel or the end of the file stops the request: no further piece begins, and when those
 * in flight are through it is done. What is reported is the failure or end nearest to the start, not the
 * first in time. */
#include <errno.h>

#include "base/checked.h"
#include "scheduler/io_engine.h"

static int64_t now_of(const pp_io *io)
{
    return io->class_of->now != NULL ? io->class_of->now(io) : pp_clock_ns();
}

/* ---- lists ------------------------------------------------------------------------------------- */

void pp_io_lane_to(pp_io_lanes *list, pp_io_lane *lane)
{
    pp_io_lanes *old = lane->in;
    if (old != NULL) {
        *(lane->prev != NULL ? &lane->prev->next : &old->first) = lane->next;
        *(lane->next != NULL ? &lane->next->prev : &old->last) = lane->prev;
        old->n--;
    }
    lane->in = list;
    lane->next = NULL;
    lane->prev = list != NULL ? list->last : NULL;
    if (list == NULL) return;
    *(lane->prev != NULL ? &lane->prev->next : &list->first) = lane;
    list->last = lane;
    list->n++;
}

static pp_io_lane *lane_of(pp_io_request *request)
{
    return &request->file->lane[request->file->stream ? request->op : 0];
}

/* Where a lane that has something to begin waits. */
static pp_io_lanes *list_for(pp_io *io, const pp_io_lane *lane)
{
    bool watch = lane->file->stream && !lane->file->direct && io->class_of->watches;
    return watch ? &io->arrived : &io->ring;
}

void pp_io_unlane(pp_io *io, pp_io_request *request)
{
    pp_io_lane *lane = lane_of(request);
    pp_io_request *before = NULL;
    for (pp_io_request *at = lane->first; at != request; at = at->own.next) before = at;
    *(before != NULL ? &before->own.next : &lane->first) = request->own.next;
    if (lane->last == request) lane->last = before;
    request->own.laned = false;
    if (lane->first != NULL) return;
    if (lane->in == &io->watched) pp_io_unwatch(io, lane);
    pp_io_lane_to(NULL, lane);
}

/* ---- the life of a request --------------------------------------------------------------------- */

static bool stopped(const pp_io_request *request)
{
    return request->own.cancelled || request->own.failed_at != SIZE_MAX || request->own.end != SIZE_MAX;
}

static bool is_range(const pp_io_request *request)
{
    int64_t end;
    if (request->bytes > PTRDIFF_MAX) return false;
    if (request->file->stream) return true;
    if (request->stretch == 0)
        return request->offset >= 0 && pp_add_i64(request->offset, (int64_t)request->bytes, &end);
    return request->offset >= 0 && request->stride >= 0 &&
           pp_mul_i64((int64_t)(request->bytes / request->stretch), request->stride, &end) &&
           pp_add_i64(end, request->offset, &end) && pp_add_i64(end, (int64_t)request->bytes, &end);
}

void pp_io_judge(pp_io *io, pp_io_request *request)
{
    request->status = PPTO_OK;
    if (request->own.end != SIZE_MAX) request->moved = request->own.end;
    if (request->own.cancelled)
        request->status = PPTO_E_CANCELLED;
    else if (!is_range(request))
        request->status = PPTO_E_VALUE;
    else if (request->own.failed_at != SIZE_MAX && request->own.failed_at <= request->own.end)
        request->status = pp_errno_status(request->os_error);
    else if (request->own.end != SIZE_MAX && !request->may_end)
        request->status = PPTO_E_FORMAT;
    request->done_ns = now_of(io);
    request->own.state = PP_IO_ENDED;
    request->own.next = NULL;
    io->counters.done++;
    io->counters.cancelled += request->status == PPTO_E_CANCELLED;
    io->counters.failed += request->status != PPTO_OK && request->status != PPTO_E_CANCELLED;
}

void pp_io_conclude(pp_io *io, pp_io_request *request)
{
    pp_io_judge(io, request);
    *(io->ended != NULL ? &io->last_ended->own.next : &io->ended) = request;
    io->last_ended = request;
}

void pp_io_enqueue(pp_io *io, pp_io_request *request)
{
    request->os_error = 0;
    request->moved = 0;
    request->begun_ns = 0;
    request->submitted_ns = now_of(io);
    request->own.next = NULL;
    request->own.laned = false;
    request->own.pieces = 0;
    request->own.begun = 0;
    request->own.end = request->own.failed_at = SIZE_MAX;
    io->counters.requests++;
    request->own.cancelled = io->closing;
    if (io->closing || request->bytes == 0 || !is_range(request)) {
        pp_io_conclude(io, request);
        return;
    }
    pp_io_lane *lane = lane_of(request);
    bool first = lane->first == NULL;
    lane->file = request->file;
    *(first ? &lane->first : &lane->last->own.next) = request;
    lane->last = request;
    request->own.laned = true;
    request->own.state = PP_IO_QUEUED;
    if (first) pp_io_lane_to(list_for(io, lane), lane);
}

void pp_io_request_begins(pp_io *io, pp_io_request *request)
{
    if (request->own.state == PP_IO_RUNNING) return;
    request->own.state = PP_IO_RUNNING;
    request->begun_ns = now_of(io);
    int64_t wait = request->begun_ns - request->submitted_ns;
    io->counters.wait_ns += wait;
    if (wait > io->counters.longest_wait_ns) io->counters.longest_wait_ns = wait;
}

void pp_io_withdraw(pp_io *io, pp_io_request *request)
{
    if (request->own.state != PP_IO_QUEUED && request->own.state != PP_IO_RUNNING) return;
    __atomic_store_n(&request->own.cancelled, true, __ATOMIC_RELAXED); /* a call looks without the lock */
    bool busy = request->own.pieces != 0;
    if (busy) io->cancelling = true;
    if (busy && request->file->stream) return; /* its place in the lane keeps others from the stream */
    if (request->own.laned) pp_io_unlane(io, request);
    if (!busy) pp_io_conclude(io, request);
}

static void withdraw_lane(pp_io *io, pp_io_lane *lane)
{
    pp_io_request *next;
    for (pp_io_request *request = lane->first; request != NULL; request = next) {
        next = request->own.next;
        pp_io_withdraw(io, request);
    }
}

static void withdraw_list(pp_io *io, pp_io_lanes *list)
{
    pp_io_lane *next;
    for (pp_io_lane *lane = list->first; lane != NULL; lane = next) {
        next = lane->next;
        withdraw_lane(io, lane);
    }
}

void pp_io_withdraw_all(pp_io *io)
{
    withdraw_list(io, &io->ring);
    withdraw_list(io, &io->arrived);
    withdraw_list(io, &io->watched);
    for (uint32_t i = 0; i < io->options.depth; i++) {
        pp_io_request *request = io->slots[i].request;
        if (request == NULL) continue;
        withdraw_lane(io, lane_of(request));
        pp_io_withdraw(io, request);
    }
}

/* ---- results ----------------------------------------------------------------------------------- */

static void fails(pp_io_request *request, size_t at, int number)
{
    if (at >= request->own.failed_at) return;
    request->own.failed_at = at;
    request->os_error = number;
}

/* Pieces in front of a failure or of the end that was met go on: there may be one that is nearer. */
static bool goes_on(const pp_io_slot *piece)
{
    const pp_io_request *request = piece->request;
    return piece->bytes != 0 && !request->own.cancelled && piece->at < request->own.failed_at &&
           piece->at < request->own.end;
}

bool pp_io_account(pp_io *io, pp_io_slot *piece, int64_t result)
{
    pp_io_request *request = piece->request;
    if (result == -EINTR || result == -EAGAIN || result == -EWOULDBLOCK) return goes_on(piece);
    if (result == -ECANCELED) return false;
    io->counters.calls++;
    if (result > 0) {
        if (request->op != PP_IO_CLOSE)
            *(request->op == PP_IO_READ ? &io->counters.read_bytes : &io->counters.written_bytes) +=
                (uint64_t)result;
        request->moved += (size_t)result;
        piece->at += (size_t)result;
        piece->bytes -= (size_t)result;
        return goes_on(piece);
    }
    if (result < 0)
        fails(request, piece->at, (int)-result);
    else if (request->op ==
             PP_IO_WRITE) /* nothing written and no reason: trying again could go on for ever */
        fails(request, piece->at, EIO);
    else if (piece->at < request->own.end)
        request->own.end = piece->at;
    return false;
}

static void release_piece(pp_io *io, pp_io_slot *slot)
{
    if (slot->request->share != NULL) slot->request->share->bytes -= slot->held;
    slot->request->file->running--;
    slot->request->own.pieces--;
    slot->request = NULL;
    io->counters.in_flight--;
    io->counters.bytes_in_flight -= slot->held;
}

/* A stream's lane left the ring for one call; it wants another one, for this request or the next. */
static void stream_goes_on(pp_io *io, pp_io_request *request)
{
    pp_io_lane *lane = lane_of(request);
    request->own.begun = request->moved;
    if (request->own.begun == request->bytes || stopped(request)) {
        pp_io_unlane(io, request);
        pp_io_conclude(io, request);
    }
    if (lane->first != NULL) pp_io_lane_to(list_for(io, lane), lane);
}

bool pp_io_piece_ended(pp_io *io, pp_io_slot *slot)
{
    pp_io_request *request = slot->request;
    release_piece(io, slot);
    if (request->file->stream) {
        stream_goes_on(io, request);
        return false;
    }
    if (stopped(request) && request->own.laned) pp_io_unlane(io, request);
    return request->own.pieces == 0 && !request->own.laned;
}

void pp_io_slot_free(pp_io *io, pp_io_slot *slot)
{
    slot->next = io->free;
    io->free = slot;
    io->n_free++;
}

void pp_io_slot_ended(pp_io *io, pp_io_slot *slot, int64_t result)
{
    pp_io_request *request = slot->request;
    bool on = pp_io_account(io, slot, result);
    if (on && !request->file->stream) {
        io->class_of->begin(io, slot);
        return;
    }
    if (pp_io_piece_ended(io, slot)) pp_io_conclude(io, request);
    pp_io_slot_free(io, slot);
}
