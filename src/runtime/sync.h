/* SPDX-License-Identifier: Apache-2.0
 * Streams and events between runs, and the runs that go on by themselves.
 *
 * One lock of the context (pp_syncs.lock) guards every event and the queue of every stream. Nothing is called
 * under it: whoever ends an event or leaves a stream collects the steps that may go on, lets go of the lock
 * and completes them. A step collected so cannot be taken back, hence its run cannot end before it is
 * completed. A thread that waits has a condition of its own, and only that of what happened is signalled.
 *
 * A run enters all its streams and begins all its events at one moment (pp_sync_enter), so runs wait only for
 * runs that entered before: no circle. Lock order: drivers, syncs, dispatch. */
#ifndef PP_SYNC_H
#define PP_SYNC_H

#include "base/thread.h"
#include "ppto/stream.h"
#include "runtime/runtime.h"
#include "scheduler/io.h"

/* ---- event.c : events and their waits ---------------------------------------------------------- */

/* Somebody who waits for one beginning of an event. */
typedef struct pp_event_wait {
    struct pp_event_wait *next; /* of the event; then of those to be told */
    uint64_t target;            /* the beginning that is meant */
    pthread_cond_t *woken;      /* STEP, CALLER: of a thread that may wait for it */
    enum { PP_WAIT_STEP, PP_WAIT_CALLER, PP_WAIT_CALL } kind;
    bool done;  /* and status is set */
    bool armed; /* STEP: the step waits; whoever ends the wait completes it */
    ppto_status status;
    ppto_poison poison;    /* STEP, CALLER: when status is not OK */
    pp_dispatch *dispatch; /* STEP */
    uint32_t step;
    ppto_event_fn fn; /* CALL: the control thread calls it and frees this */
    void *arg;
} pp_event_wait;

typedef struct pp_event_row {
    uint32_t index, generation;
    uint32_t handles; /* the user's */
    uint32_t uses;    /* graphs, programs and waits */
    bool user;
    int priority;             /* of the run that began it last */
    uint64_t begun, finished; /* beginnings; the latest that ended */
    ppto_status status;       /* of `finished` */
    ppto_poison poison;
    pp_event_wait *waits;
} pp_event_row;

typedef struct pp_stream_entry { /* a run on a stream */
    struct pp_stream_entry *next;
    bool ended, armed; /* armed: the gate waits */
    int priority;
    uint64_t number;       /* ascending along the queue */
    pthread_cond_t *woken; /* of a thread that may wait for the stream */
    pp_dispatch *dispatch;
    uint32_t step;
    struct pp_stream_entry *tell; /* next of those to be told */
} pp_stream_entry;

typedef struct pp_stream_caller { /* of ppto_sync */
    struct pp_stream_caller *next;
    uint64_t number; /* runs up to this one are to leave */
    pthread_cond_t woken;
} pp_stream_caller;

struct ppto_stream {
    ppto_context *ctx;
    struct ppto_stream *next; /* of the context's */
    char *name;
    ppto_stream_kind kind;
    uint32_t uses; /* the user, graphs, programs */
    pp_stream_entry *first, *last;
    uint32_t depth;   /* so many of them have the stream; kind IO: of the user, else 1 */
    uint64_t entered; /* runs so far */
    pp_stream_caller *callers;
    pp_io_share share;  /* kind IO: what its sources and sinks have in flight */
    ppto_status failed; /* the first since ppto_sync */
    char text[256];
};

typedef struct pp_syncs {
    pthread_mutex_t lock;
    PP_VEC(pp_event_row *) rows;
    PP_VEC(uint32_t) vacant;
    ppto_stream *streams;
    uint64_t runs; /* numbers given */
    /* the control thread */
    pthread_cond_t wanted;
    pthread_t control;
    bool has_control, stop;
    pp_event_wait *first_call, *last_call;
} pp_syncs;

/* What is to be told when the lock is open again. */
typedef struct pp_told {
    pp_event_wait *waits;
    pp_stream_entry *gates;
} pp_told;

ppto_status pp_syncs_get(ppto_context *ctx, pp_syncs **out, pp_error *err); /* made at the first use */
void pp_syncs_destroy(pp_syncs *syncs);
/* With the lock: beginning `target` of the event ended. poison: NULL when status is OK */
void pp_event_end(pp_syncs *syncs, pp_event_row *row, uint64_t target, ppto_status status,
                  const ppto_poison *poison, pp_told *told);
void pp_tell(pp_told *told); /* without the lock */
/* The row of a handle, NULL (and E_VALUE in err) when there is none. With the lock. */
pp_event_row *pp_event_row_of(pp_syncs *syncs, uint64_t id, pp_error *err);
ppto_status pp_event_new(pp_syncs *syncs, bool user, pp_event_row **out); /* with the lock */
uint64_t pp_event_id(const pp_event_row *row);
void pp_event_unuse(pp_syncs *syncs, pp_event_row *row); /* with the lock: one use less */

/* ---- stream_queue.c : the queue of a stream, recording on it ------------------------------------- */

void pp_graph_streams_free(ppto_graph *graph); /* what the graph keeps */
void pp_stream_unuse(ppto_stream *stream);     /* without the lock */
void pp_stream_leave(ppto_stream *stream, pp_stream_entry *entry, pp_told *told);
bool pp_stream_has(const ppto_stream *stream, const pp_stream_entry *entry); /* does the run have it? */

/* ---- sync_run.c : the streams and events of a program ------------------------------------------- */

typedef struct pp_sync_state { /* of a program; one run at a time */
    ppto_program *program;
    pp_syncs *syncs;
    size_t n_streams, n_syncs;
    ppto_stream **streams;
    pp_event_row **events; /* per sync point */
    pp_stream_entry *entries;
    pp_event_wait *waits; /* per sync point: where it waits for the outside */
    uint64_t *target;     /* per sync point that records: its beginning in this run */
    bool *ended;
    bool entered;
    bool *passed;         /* per sync point that records: its step was run */
    bool *well;           /* per stream: all steps on it succeeded */
    bool kept;            /* the run failed, but what its steps did counts, and its files are there */
    pthread_cond_t woken; /* pp_sync_pass may go on */
    bool has_woken;       /* it was made */
    bool *stores;         /* per stream: sinks of the graph are on it */
    bool defers; /* all events and streams end after the run's last step: it still writes then; else those of
                    `stores` */
    uint64_t run;
    int priority; /* not above that of any run it waits for */
} pp_sync_state;

ppto_status pp_sync_create(ppto_program *program, ppto_graph *graph, const pp_ref *outputs, size_t n,
                           pp_error *err);
void pp_sync_destroy(pp_sync_state *state); /* NULL is fine */
/* The run takes its place on its streams and begins its events. E_NOT_SCHEDULED */
ppto_status pp_sync_enter(pp_sync_state *state, int priority, pp_error *err);
/* Waits on the caller's thread until all streams are the run's and all events from outside have happened: for
 * a run that does not go by the steps of its plan. */
struct pp_run_control;
/* The share of a stream of the plan (from 1; 0: none) for requests of its sources and sinks; NULL: none. */
pp_io_share *pp_sync_share(const pp_sync_state *state, uint32_t stream);
ppto_status pp_sync_pass(pp_sync_state *state, const struct pp_run_control *control, pp_error *err);
/* A stage of a run that does not go by the steps of its plan is done: ends the events and leaves the streams
 * whose last stage it or an earlier one was, PP_NONE: they have none. Not what waits for the run's last
 * writes. */
void pp_sync_reach(pp_sync_state *state, const uint32_t *stream_end, const uint32_t *sync_end,
                   uint32_t stage);
/* The number of a stream in the plan; 0: none, or not there. state and stream may be NULL. */
uint32_t pp_sync_number(const pp_sync_state *state, const void *stream);
void pp_sync_stores(pp_sync_state *state, uint32_t stream); /* a sink is on it */
void pp_sync_poke(pp_sync_state *state);                    /* pp_sync_pass looks at the cancel flag */
/* Ends whatever the run did not end itself: well when err holds none. */
void pp_sync_leave(pp_sync_state *state, const pp_error *err);
/* The step of a plan for gate, sync point or end; object: one of the instance. */
void pp_sync_step_fill(pp_sync_step *object, pp_step *out);

/* ---- drivers.c : runs on threads of the context -------------------------------------------------- */

typedef struct pp_ticket { /* of a run that wants memory, in the order of admission */
    struct pp_ticket *next;
    int priority;
    uint64_t order, bytes;
    bool begun; /* false: the run is still in the queue */
    bool admitted;
} pp_ticket;

enum { PP_MOST_DRIVERS = 64 };

typedef struct pp_drivers {
    uint64_t process;     /* base/fork.h; the context may be gone */
    pthread_mutex_t lock; /* of all below and of every ppto_run */
    pthread_cond_t work, changed, due;
    uint32_t uses; /* the context, and runs not released */
    ppto_context *ctx;
    ppto_run *queue;                   /* not begun, in order */
    ppto_run *live;                    /* not released or not over */
    uint32_t n_threads, idle, driving; /* driving: have a run */
    pthread_t threads[PP_MOST_DRIVERS];
    pthread_t watch; /* ends queued runs when their time has come */
    bool has_watch;
    bool stop;
    uint64_t order;
    pp_ticket *tickets; /* not admitted, in order; drivers.c says which is next */
    uint32_t n_admitted;
    uint64_t promised_bytes; /* to those admitted, and not taken yet */
} pp_drivers;

enum {
    PP_CANCEL_POLL_NS = 40000000
}; /* ppto_program_cancel only sets a flag: who waits looks at it so often */

typedef struct pp_run_control { /* how a run is stopped, and what it does after a failure */
    ppto_run *run;              /* NULL: the caller waits */
    const volatile int *cancel;
    int64_t deadline_ns;
    bool keep_going;
    pp_hold taker; /* who gets the results, and where that was asked for */
    ppto_site site;
} pp_run_control;

/* For memcheck: a run that is started, not over, holds what is bound to the program. */
void pp_program_waits(const ppto_program *program, bool waits, ppto_site site);

void pp_drivers_close(ppto_context *ctx);   /* cancels, drains, joins */
void pp_drivers_destroy(ppto_context *ctx); /* then: what runs that nobody released still hold */
/* A run on the caller's thread takes part in the order of admission when there are drivers. */
ppto_status pp_admission_enter(ppto_program *program, pp_ticket *ticket, pp_error *err);
/* E_CANCELLED, E_DEADLINE when the run is to stop. */
ppto_status pp_run_stopped(const pp_run_control *control, pp_error *err);
int64_t pp_run_look_again(const pp_run_control *control); /* when, at the latest */
ppto_status pp_admission_wait(ppto_context *ctx, pp_ticket *ticket, uint64_t bytes,
                              const pp_run_control *control, pp_error *err);
/* The run has taken from the pool what it will. */
void pp_admission_settle(ppto_context *ctx, pp_ticket *ticket);
void pp_admission_leave(ppto_context *ctx, pp_ticket *ticket);
/* Which dispatch a cancel wakes; NULL: none any more. */
void pp_run_watch(ppto_run *run, pp_dispatch *dispatch);
bool pp_program_take(ppto_program *program); /* false: it is running */
void pp_program_give(ppto_program *program);

#endif
