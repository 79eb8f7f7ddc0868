/* SPDX-License-Identifier: Apache-2.0
 * Which piece begins next, on which thread, and who is told.
 *
 * The engine's own thread pumps: it begins pieces while there are free slots, and tells what ended. A thread
 * of a pool does not go back to it for every piece. Handing one over wakes two threads, and where all
 * processors are busy each of them may wait for longer than the piece takes; so a thread that has made its
 * call tells the end of the request itself, which lets its owner submit more, and takes the next piece. The
 * pump is woken for what that thread leaves.
 *
 * Start reading at pp_io_pump. */
#include <stdatomic.h>

#include "base/checked.h"
#include "scheduler/io_engine.h"

/* SIZE_MAX: it has none. */
static size_t share_of(const pp_io_request *request)
{
    if (request->share == NULL) return SIZE_MAX;
    /* relaxed: a limit, which orders nothing */
    size_t most = atomic_load_explicit(&request->share->most, memory_order_relaxed);
    return most != 0 ? most : SIZE_MAX;
}

/* Bytes of the next piece of a request: up to the next multiple of a piece in the file, and a little more if
 * that is the end: a header makes no last piece of a few bytes. */
static size_t next_piece(const pp_io *io, const pp_io_request *request)
{
    size_t left = request->bytes - request->own.begun, most = io->options.piece, share = share_of(request);
    if (share < most) most = share;
    if (!request->file->stream && request->stretch == 0)
        most -= (size_t)(request->offset + (int64_t)request->own.begun) % most;
    if (left <= most) return left;
    bool to_end = left - most <= io->options.piece / 8 && left <= share && left <= io->options.max_bytes;
    return to_end ? left : most;
}

static bool fits(const pp_io *io, size_t bytes)
{
    size_t sum;
    if (io->counters.in_flight == 0) return true;
    return pp_add_size(io->counters.bytes_in_flight, bytes, &sum) && sum <= io->options.max_bytes;
}

static bool fits_share(const pp_io_request *request, size_t bytes)
{
    size_t sum, held = request->share != NULL ? request->share->bytes : 0;
    if (held == 0) return true;
    return pp_add_size(held, bytes, &sum) && sum <= share_of(request);
}

/* The slot, which has none, gets the next piece of the lane. */
static void take_piece(pp_io *io, pp_io_lane *lane, size_t bytes, pp_io_slot *slot)
{
    pp_io_request *request = lane->first;
    pp_io_counters *counters = &io->counters;
    *slot = (pp_io_slot){
        .request = request, .at = request->own.begun, .bytes = bytes, .held = bytes, .index = slot->index};
    pp_io_request_begins(io, request);
    request->own.begun += bytes;
    request->own.pieces++;
    lane->file->running++;
    if (request->share != NULL) request->share->bytes += bytes;
    counters->bytes_in_flight += bytes;
    if (++counters->in_flight > counters->most_in_flight) counters->most_in_flight = counters->in_flight;
    if (counters->bytes_in_flight > counters->most_bytes_in_flight)
        counters->most_bytes_in_flight = counters->bytes_in_flight;
    if (lane->file->stream)
        pp_io_lane_to(NULL, lane);
    else if (request->own.begun == request->bytes)
        pp_io_unlane(io, request);
    if (lane->in != NULL) pp_io_lane_to(&io->ring, lane);
}

/* File systems lock a file while it is written: a second write would wait for the first, on a processor. */
static bool has_all_it_may(const pp_io *io, const pp_io_lane *lane)
{
    uint32_t most = lane->first->op == PP_IO_WRITE ? 1 : io->options.per_file;
    return lane->file->running >= most;
}

/* The lane whose turn it is, and how much of it; NULL: nothing may begin now. */
static pp_io_lane *next_lane(pp_io *io, size_t *bytes)
{
    for (size_t full = 0; full < io->ring.n; full++) { /* those whose file or share has all it may have */
        pp_io_lane *lane = io->ring.first;
        *bytes = next_piece(io, lane->first);
        if (!has_all_it_may(io, lane) && fits_share(lane->first, *bytes))
            return fits(io, *bytes) ? lane : NULL;
        pp_io_lane_to(&io->ring, lane);
    }
    return NULL;
}

static void issue(pp_io *io)
{
    pp_io_lane *lane;
    size_t bytes;
    while (io->free != NULL && (lane = next_lane(io, &bytes)) != NULL) {
        pp_io_slot *slot = io->free;
        io->free = slot->next;
        io->n_free--;
        take_piece(io, lane, bytes, slot);
        io->class_of->begin(io, slot);
    }
}

/* On the engine's thread, so that an engine may take back what its library has not started. */
static void cancel_slots(pp_io *io)
{
    if (!io->cancelling) return;
    io->cancelling = false;
    for (uint32_t i = 0; i < io->options.depth && io->class_of->cancel != NULL; i++) {
        pp_io_slot *slot = &io->slots[i];
        if (slot->request != NULL && slot->request->own.cancelled) io->class_of->cancel(io, slot);
    }
}

/* ---- telling ----------------------------------------------------------------------------------- */

static _Thread_local const pp_io *telling; /* the engine whose done this thread is in */

/* Without the lock meanwhile. */
static void tell(pp_io *io, pp_io_request *request)
{
    const pp_io *before = telling;
    telling = io;
    request->own.state = PP_IO_IDLE;
    pthread_mutex_unlock(&io->lock);
    request->done(request);
    pthread_mutex_lock(&io->lock);
    telling = before;
}

static bool tell_ended(pp_io *io)
{
    bool any = io->ended != NULL;
    while (io->ended != NULL) {
        pp_io_request *request = io->ended;
        io->ended = request->own.next;
        tell(io, request);
    }
    return any;
}

/* ---- whose turn it is -------------------------------------------------------------------------- */

void pp_io_pump(pp_io *io)
{
    io->pumping = true;
    do {
        pp_io_watch_arrived(io);
        cancel_slots(io);
        issue(io);
    } while (tell_ended(io)); /* done may have submitted */
    io->pumping = false;
}

void pp_io_news(pp_io *io)
{
    if (!io->pumping && telling != io) io->class_of->wake(io);
}

bool pp_io_slot_goes_on(pp_io *io, pp_io_slot *slot, int64_t result, bool more)
{
    pp_io_request *request = slot->request;
    pp_io_lane *lane = NULL;
    size_t bytes;
    if (pp_io_account(io, slot, result) && !request->file->stream) return true;
    if (pp_io_piece_ended(io, slot)) { /* a file's: only the engine's own thread tells those of streams */
        pp_io_judge(io, request);
        tell(io, request);
    }
    if (more) lane = next_lane(io, &bytes);
    if (lane != NULL) take_piece(io, lane, bytes, slot);
    bool begins = io->free != NULL && next_lane(io, &bytes) != NULL;
    if (begins || io->ended != NULL || io->arrived.n != 0 || io->cancelling) pp_io_news(io);
    return lane != NULL;
}

bool pp_io_idle(const pp_io *io)
{
    return io->n_free == io->options.depth && io->ended == NULL &&
           io->ring.n + io->arrived.n + io->watched.n == 0;
}
