/* SPDX-License-Identifier: Apache-2.0
 * What an engine is to the queue of requests: a way to make one system call and a thread that pumps. Order,
 * pieces, limits, cancel, failure and counting are in io_queue.c, streams in io_stream.c, for all engines
 * alike.
 *
 * One lock covers everything; it is released around system calls and done callbacks. All pp_io_* functions
 * here want it held. Only one thread pumps: the engine's, or the caller's where there is none. Threads of a
 * pool go from piece to piece by themselves, and tell what ended with one (pp_io_slot_goes_on). */
#ifndef PP_IO_ENGINE_H
#define PP_IO_ENGINE_H

#include <pthread.h>

#include "scheduler/io.h"

enum { PP_IO_IDLE, PP_IO_QUEUED, PP_IO_RUNNING, PP_IO_ENDED }; /* own.state of a request */

/* A piece of a request: its bytes [at, at + bytes); shrinks as calls move bytes. */
typedef struct pp_io_slot {
    pp_io_request *request;  /* NULL: free */
    size_t at, bytes, held;  /* held: what it counts for in bytes_in_flight */
    struct pp_io_slot *next; /* free ones; of the engine while in flight */
    uint32_t index;
} pp_io_slot;

typedef struct pp_io_lanes {
    pp_io_lane *first, *last;
    size_t n;
} pp_io_lanes;

typedef struct pp_io_class {
    const char *name;
    bool single;  /* one call at a time: depth is 1 */
    bool watches; /* streams wait in io->epoll; else they take a slot for each call */
    ppto_status (*open)(pp_io *io, pp_error *err); /* sets io->own */
    void (*close)(pp_io *io);  /* without the lock; pumps until io is idle, ends the thread, frees own */
    void (*let_go)(pp_io *io); /* instead of close in a forked child: frees memory, touches nothing else */
    void (*wake)(pp_io *io);   /* lets the engine's thread pump soon; "blocking" without a thread: pumps */
    void (*begin)(pp_io *io,
                  pp_io_slot *slot); /* one pp_io_call, then pp_io_slot_ended, not before it returns */
    void (*cancel)(pp_io *io, pp_io_slot *slot); /* tries to; the slot ends with -ECANCELED. NULL: cannot */
    void (*describe)(const pp_io *io, pp_io_facts *facts);
    int64_t (*now)(const pp_io *io); /* NULL: pp_clock_ns */
} pp_io_class;

/* Invariants: counters.in_flight == slots with a request <= depth, all others are free but those whose thread
 * is on its way (pp_io_slot_goes_on); a lane with requests is in exactly one
 * list, or its first request is a stream's that has a slot or a call. */
struct pp_io {
    const pp_io_class *class_of;
    void *own; /* of the class */
    pp_io_options options;
    pthread_mutex_t lock;
    uint64_t process; /* base/fork.h */
    int epoll;        /* streams that wait for their peer; -1 where the class does not watch */
    bool closing, pumping, cancelling;
    pp_io_lanes ring;    /* want a slot, served in turn */
    pp_io_lanes arrived; /* streams to be watched */
    pp_io_lanes watched;
    pp_io_request *ended, *last_ended; /* done is to be called */
    pp_io_slot *free;
    uint32_t n_free;
    pp_io_counters counters;
    pp_io_slot slots[];
};

/* ---- io_queue.c -------------------------------------------------------------------------------- */

void pp_io_enqueue(pp_io *io, pp_io_request *request);
void pp_io_withdraw(pp_io *io, pp_io_request *request); /* cancel; the caller wakes */
void pp_io_withdraw_all(pp_io *io);
void pp_io_slot_ended(pp_io *io, pp_io_slot *slot, int64_t result); /* of pp_io_call, or -ECANCELED */
void pp_io_slot_free(pp_io *io, pp_io_slot *slot);                  /* a call may begin in it */
/* For the two below: begin, one result (true: go on with the rest), leave the lane, tell the caller. */
void pp_io_request_begins(pp_io *io, pp_io_request *request);
bool pp_io_account(pp_io *io, pp_io_slot *piece, int64_t result);
void pp_io_unlane(pp_io *io, pp_io_request *request);
bool pp_io_piece_ended(pp_io *io, pp_io_slot *slot); /* true: with it its request, which is not judged yet */
void pp_io_judge(pp_io *io, pp_io_request *request); /* its result; then it is to be told: */
void pp_io_conclude(pp_io *io, pp_io_request *request);  /* judges, and leaves the telling to the pump */
void pp_io_lane_to(pp_io_lanes *list, pp_io_lane *lane); /* from any list, or none; list NULL: to none */

/* ---- io_pump.c --------------------------------------------------------------------------------- */

void pp_io_news(pp_io *io); /* something was submitted or cancelled: somebody is to look */
void pp_io_pump(pp_io *io); /* begins what may begin and calls done for what has ended */
/* pp_io_slot_ended on the thread that made the call, where that is not the engine's own: it tells the end of
 * the request, and takes over the next piece that may begin if it is to have `more`. True: pp_io_call, and
 * here again; false: pp_io_slot_free on the engine's own thread. */
bool pp_io_slot_goes_on(pp_io *io, pp_io_slot *slot, int64_t result, bool more);
bool pp_io_idle(const pp_io *io); /* no request in flight, waiting or to be told */

/* ---- io_stream.c ------------------------------------------------------------------------------- */

void pp_io_watch_arrived(pp_io *io);
void pp_io_unwatch(pp_io *io, pp_io_lane *lane);
/* Waits for peers at most so long (-1: for ever), then moves what can be moved. Unlocks meanwhile. An event
 * of a descriptor that is no stream's (data.ptr NULL) only ends the wait. */
void pp_io_poll(pp_io *io, int timeout_ms);

/* ---- io_call.c --------------------------------------------------------------------------------- */

int64_t pp_io_place(const pp_io_request *request, size_t at); /* of a byte of the data, in the file */
/* Reads or writes: bytes, or -errno; -ECANCELED: it was cancelled before a byte was moved. Without the lock
 */
int64_t pp_io_call(const pp_io_slot *piece);
bool pp_io_ready(const pp_io_request *request); /* a call on its stream would not wait */

/* ---- io_around.c ------------------------------------------------------------------------------- */

/* The bytes from `at` on, n at most, by one call around the page cache: *step were to be moved. -EINVAL: so
 * many are to go through it; *step is as it was, or less. Otherwise as pp_io_call. */
int64_t pp_io_call_around(const pp_io_request *request, size_t at, size_t n, size_t *step);
/* Bytes to ask for next, when it was `step` and a call of `bytes` took so long. */
size_t pp_io_around_next(size_t step, size_t bytes, int64_t ns);

/* ---- io_blocking.c, io_sim.c, io_uv.c or io_uv_absent.c ---------------------------------------- */

extern const pp_io_class pp_io_blocking, pp_io_simulated;
extern const pp_io_class *const pp_io_uv; /* NULL: not built in */

#endif
