/* SPDX-License-Identifier: Apache-2.0
 * Streams, events and runs that go on while the caller does something else.
 *
 * A stream is a named order: what a graph records while it is pushed runs one after the other, in one run and
 * from run to run. An event is a point in that order others can wait for. Neither changes a bit of a result;
 * values flow by the graph alone, streams only say what must not overlap, and so what may. Nothing is fused
 * or merged across streams, or across a sync point (an event's record, a wait) of a stream.
 *
 * Calls that wait return E_WOULD_DEADLOCK from a task, a callback or anywhere else inside a run. */
#ifndef PPTO_STREAM_H
#define PPTO_STREAM_H

#include "ppto/run.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- streams ---- */

typedef struct ppto_stream ppto_stream;
typedef enum ppto_stream_kind { PPTO_STREAM_CPU, PPTO_STREAM_IO, PPTO_STREAM_GPU } ppto_stream_kind;

/* returns  the stream; NULL (ppto_error_status): E_VALUE without a name, E_UNSUPPORTED for GPU, E_NOMEM
 * owns     ppto_stream_destroy, before the context's; graphs, programs and runs keep what they use
 * threads  any */
PPTO_API ppto_stream *ppto_stream_create(ppto_context *ctx, const char *name, ppto_stream_kind kind);
PPTO_API void ppto_stream_destroy(ppto_stream *stream);           /* NULL is fine; does not wait */
PPTO_API const char *ppto_stream_name(const ppto_stream *stream); /* borrow: lives as long as the stream */

/* Of a stream of kind IO: how many runs may have it at once (1 to 64; at first 1, one after the other). They
 * get it in the order they entered, but a run need not be done with its sources and sinks on the stream when
 * the next begins its own: so neither may need what the other writes. What is under way goes on.
 * returns  PPTO_OK; E_VALUE another kind, or depth; E_FORKED
 * threads  any, also while runs are on the stream */
PPTO_API ppto_status ppto_stream_set_depth(ppto_stream *stream, int depth);
/* Of a stream of kind IO: how many bytes its sources and sinks may have in flight, of all runs together
 * (4096 or more; 0, as at first: what the context's I/O has room for, which is all of its streams' too). The
 * rest waits, and so do the runs that need it, while other streams go on. Pipes move what their peer takes.
 * returns  and threads as above */
PPTO_API ppto_status ppto_stream_set_bytes(ppto_stream *stream, size_t bytes);

/* Operators the graph records until the pop belong to the stream; pushes nest. Inputs and literals belong to
 * none. Errors are the graph's, like those of recording. threads: the graph's */
PPTO_API ppto_status ppto_stream_push(ppto_graph *graph, ppto_stream *stream);
PPTO_API ppto_status ppto_stream_pop(ppto_graph *graph); /* E_VALUE without a push */

/* Waits for all runs begun so far (ppto_program_start, ppto_program_run) to have left the stream.
 * returns  PPTO_OK; the first failure of a run on the stream since the last ppto_sync, with its text (of a
 * run that keeps going: only where something on this stream failed or was skipped); E_WOULD_DEADLOCK;
 * E_FORKED threads  any, but see above */
PPTO_API ppto_status ppto_sync(ppto_stream *stream);

/* ---- events ---- */

/* A handle: copy it freely. A use after its last release is an error (E_VALUE), never another event. */
typedef struct ppto_event {
    ppto_context *context;
    uint64_t id;
} ppto_event;

/* The event happens when all the stream has recorded so far in this graph is done. It belongs to the programs
 * that compute the operator recorded last before it on the stream; each of their runs begins the event anew,
 * and whoever waits means the run begun last when its own wait began. *event: ppto_event_release */
PPTO_API ppto_status ppto_event_record_at(ppto_site site, ppto_graph *graph, ppto_stream *stream,
                                          ppto_event *event);
#define ppto_event_record(graph, stream, event) ppto_event_record_at(PPTO_HERE, graph, stream, event)
/* What the graph records on the stream from now on begins after the event: of this graph, of another one's
 * run, or the user's. A run fails with E_NOT_SCHEDULED when nobody has begun the event before, and with the
 * status of the event when that is poisoned. */
PPTO_API ppto_status ppto_stream_wait_at(ppto_site site, ppto_graph *graph, ppto_stream *stream,
                                         ppto_event event);
#define ppto_stream_wait(graph, stream, event) ppto_stream_wait_at(PPTO_HERE, graph, stream, event)

/* An event of somebody else's making: pending until it is signalled, once. Released for the last time before
 * that, it is poisoned with E_CANCELLED. */
PPTO_API ppto_status ppto_event_create_user(ppto_context *ctx, ppto_event *event);
/* status PPTO_OK: it happened; else it is poisoned. returns PPTO_OK; E_VALUE when it is no user event, E_BUSY
 * when it was signalled. threads: any, callbacks too */
PPTO_API ppto_status ppto_event_signal(ppto_event event, ppto_status status);

PPTO_API ppto_status ppto_event_retain(ppto_event event); /* one release more */
PPTO_API void ppto_event_release(ppto_event event);       /* {NULL, 0} is fine */

typedef enum ppto_event_state {
    PPTO_EVENT_NOT_SCHEDULED, /* recorded, but no run has begun it */
    PPTO_EVENT_PENDING,
    PPTO_EVENT_DONE,
    PPTO_EVENT_POISONED /* what it stands for failed, was skipped or cancelled */
} ppto_event_state;
/* Never blocks. */
PPTO_API ppto_status ppto_event_query(ppto_event event, ppto_event_state *state);
/* Where poison came from. */
typedef struct ppto_poison {
    ppto_status status;
    uint64_t run;           /* number of the run (ppto_run_number), 0: none */
    char operator_name[64]; /* "" when it was no operator */
    ppto_site site;         /* file NULL when unknown */
    char text[256];
} ppto_poison;
/* E_VALUE when the event is not poisoned. */
PPTO_API ppto_status ppto_event_poison(ppto_event event, ppto_poison *poison);

/* timeout_ns: how long to wait at most; negative: for ever.
 * returns  PPTO_OK; the status of the poison with its text; E_NOT_SCHEDULED; E_TIMEOUT; E_WOULD_DEADLOCK */
PPTO_API ppto_status ppto_event_wait(ppto_event event, int64_t timeout_ns);
/* fn is called exactly once: with the status of the event when it happens or is poisoned, at the latest with
 * E_CANCELLED when the context is destroyed. On the context's control thread (one, started by the first
 * call), in the order in which events ended; it should be short. E_NOMEM: it is not called. */
typedef void (*ppto_event_fn)(void *arg, ppto_status status);
PPTO_API ppto_status ppto_event_then(ppto_event event, ppto_event_fn fn, void *arg);

/* ---- runs ---- */

typedef struct ppto_run ppto_run;
typedef enum ppto_policy {
    PPTO_FAIL_FAST, /* after a failure nothing more begins */
    PPTO_KEEP_GOING /* only what depends on a failure is skipped, and what stands behind it on its stream; the
                       other outputs are there */
} ppto_policy;

typedef struct ppto_run_options {
    size_t size;
    int64_t deadline_ns; /* from the start; then the run is cancelled with E_DEADLINE. 0: none */
    ppto_policy policy;
    int priority; /* higher ones begin first; a run is never put before one that it waits for */
} ppto_run_options;
#define PPTO_RUN_OPTIONS_INIT                                                                                \
    {                                                                                                        \
        sizeof(ppto_run_options), 0, PPTO_FAIL_FAST, 0                                                       \
    }

/* Runs the program, with what is bound now, on a thread of the context; does not wait. Runs begin by
 * priority, then in the order of their starts, as soon as what they will take fits the memory limit beside
 * all that is held, results that are not released too; at most 64 at once. What does not fit though nothing
 * else runs is refused. Until the run is over the program cannot be run, bound or read (E_BUSY); compile
 * another one of the same outputs to have several in flight: they share the plan. options  NULL:
 * PPTO_RUN_OPTIONS_INIT returns  PPTO_OK and *run; E_BUSY; E_NOT_SCHEDULED (a wait of the program); E_NOMEM;
 * E_FORKED owns     *run: ppto_run_release; it does not stop the run threads  any; callbacks, too */
PPTO_API ppto_status ppto_program_start(ppto_program *program, const ppto_run_options *options,
                                        ppto_run **run);
/* timeout_ns as for ppto_event_wait. returns the run's status when it is over; E_TIMEOUT; E_WOULD_DEADLOCK */
PPTO_API ppto_status ppto_run_wait(ppto_run *run, int64_t timeout_ns);
/* Asks the run to stop with E_CANCELLED: what has begun finishes, nothing else begins; reads and writes end
 * after at most a MiB more each. Returns at once; no effect on a run that is over. reason: added to the text,
 * may be NULL. threads: any */
PPTO_API ppto_status ppto_run_cancel(ppto_run *run, const char *reason);
/* *status: of the run when over. Never blocks. */
PPTO_API bool ppto_run_over(ppto_run *run, ppto_status *status);
/* The text of its failure, "" when none or not over; with lines for the last operator that completed and the
 * first that did not, and of a run by pieces that was stopped, how many were completed.
 * borrow: lives as long as the run */
PPTO_API const char *ppto_run_error(ppto_run *run);
/* How far it is. */
typedef struct ppto_progress {
    size_t size;
    double fraction;     /* of the work, 0 to 1, never falling; an estimate. 0: not begun, 1: done */
    uint64_t file_bytes; /* of arrays read from files and written to files so far; a file read twice counts
                            twice */
} ppto_progress;
/* progress->size is set by the caller. Never blocks. returns PPTO_OK; E_VALUE. threads: any */
PPTO_API ppto_status ppto_run_progress(ppto_run *run, ppto_progress *progress);
/* Every output, retained for the caller; NULL where it was not computed (a run that failed has some only
 * under KEEP_GOING). outputs: room for all of the program. returns PPTO_OK; E_BUSY when it is not over */
PPTO_API ppto_status ppto_run_outputs(ppto_run *run, ppto_array **outputs);
PPTO_API uint64_t ppto_run_number(const ppto_run *run); /* counts the runs of the context, from 1 */
PPTO_API void ppto_run_release(ppto_run *run);          /* NULL is fine */

/* ---- where handles are taken: as in ppto/array.h ---- */
PPTO_API ppto_status ppto_program_start_at(ppto_site site, ppto_program *program,
                                           const ppto_run_options *options, ppto_run **run);
PPTO_API ppto_status ppto_run_outputs_at(ppto_site site, ppto_run *run, ppto_array **outputs);
#define ppto_program_start(...) ppto_program_start_at(PPTO_HERE, __VA_ARGS__)
#define ppto_run_outputs(...) ppto_run_outputs_at(PPTO_HERE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
