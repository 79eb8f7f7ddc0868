/* SPDX-License-Identifier: Apache-2.0
 * A run that goes on by itself: its object, shared by the user and the driver. */
#ifndef PP_ASYNC_RUN_H
#define PP_ASYNC_RUN_H

#include "runtime/sync.h"

struct ppto_run {
    pp_drivers *drivers; /* whose lock guards all below; a use */
    ppto_run *next;      /* of the queue */
    ppto_run *next_live, *before_live;
    ppto_program *program; /* a reference until it is over */
    ppto_run_options options;
    uint32_t uses;  /* the user, and the driver until it is over */
    ppto_site site; /* of its start */
    uint64_t number, order;
    int priority;
    char reason[128];
    int64_t deadline_ns; /* on the clock; 0: none */
    pp_ticket ticket;
    pp_dispatch *dispatch; /* to be woken by a cancel; NULL: none */
    bool over;
    ppto_status status;
    pp_error error;
    double fraction; /* of the work, when last looked at; and bytes of files */
    uint64_t moved;
    size_t n_outputs;
    ppto_array **outputs; /* retained */
};

/* ---- drivers.c ---------------------------------------------------------------------------------- */

ppto_status pp_drivers_get(ppto_context *ctx, pp_drivers **out, pp_error *err);
void pp_drivers_unuse(pp_drivers *drivers);
/* With the lock: somebody looks at the queue. E_NOMEM when there is no thread at all. */
ppto_status pp_drivers_wake(pp_drivers *drivers, size_t queued);
/* With the lock, after a run was queued: its deadline counts although no driver may take it in time. */
void pp_drivers_watch(pp_drivers *drivers);
/* With the lock. begun: it is not in the queue */
void pp_ticket_add(pp_drivers *drivers, pp_ticket *ticket, int priority, uint64_t order, bool begun);

/* ---- progress.c ---------------------------------------------------------------------------------- */

void pp_progress_look(ppto_run *run); /* with the lock, while it has its program */

/* ---- async_run.c ---------------------------------------------------------------------------------- */

ppto_run *pp_run_pop(pp_drivers *drivers); /* with the lock: the first of the queue, begun */
/* A run that was taken out of the queue by nobody who drives it: ends with this. Without the lock. */
void pp_run_end_unbegun(ppto_run *run, ppto_status status, const char *text);
bool pp_run_dequeue(pp_drivers *drivers, const ppto_run *run);    /* with the lock; false: it is not queued */
void pp_run_drive(ppto_run *run);                                 /* on a driver */
ppto_status pp_run_usable(const ppto_run *run, const char *what); /* reports NULL and E_FORKED */
void pp_run_stop(ppto_run *run, const char *reason);              /* with the lock */
/* Of runs that nobody released, when no driver is left: how many; their programs go, then their results. */
uint64_t pp_runs_live(const pp_drivers *drivers);
void pp_runs_leave_programs(pp_drivers *drivers);
void pp_runs_leave_arrays(pp_drivers *drivers);

#endif
