/* SPDX-License-Identifier: Apache-2.0
 * The state that the parts of the dispatcher share. dispatch.c makes it and reports; dispatch_task.c runs one
 * task and knows what is skipped; dispatch_ready.c counts needs and keeps what may be begun; the three orders
 * are dispatch_inline.c, dispatch_sim.c and dispatch_threads.c.
 *
 * A step is ready when all it needs are complete, and complete when its last phase is done or it is skipped.
 * A ready step lies in the heap while it has unclaimed tasks (it may stay a little longer). claim[s] is phase
 * << 32 | next task: adding 1 claims a task, when the task got is below tasks[phase]. Whoever finishes the
 * last task of a phase opens the next one. A worker whose claim fails never touches the step again, so a late
 * claim does no harm; the next run begins only when every worker has left this one.
 *
 * fail_fast: steps behind the earliest failed one in program order are skipped, tasks of its phase are not.
 * So nothing that could fail earlier is skipped, and the error does not depend on timing. Dependents lie
 * behind what they need, so no other poison is kept. */
#ifndef PP_DISPATCH_PARTS_H
#define PP_DISPATCH_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "scheduler/dispatch.h"
#include "scheduler/executor.h"

#define PP_NO_STEP UINT32_MAX
#define PP_NO_PHASE UINT32_MAX
#define PP_SIM_SLOTS 64u /* the most virtual workers */

/* One place for a worker of a run. Slot 0 is the caller's; the job of the others brings a thread. */
typedef struct pp_slot {
    pp_job job;
    pp_dispatch *dispatch;
    uint32_t index;
    bool submitted; /* job is queued or running; under the lock */
    pp_error error; /* of the task it runs */
} pp_slot;

/* The earliest failure so far, in the order step, position, task. */
typedef struct pp_failure {
    uint32_t step, task;
    int64_t position;
    ppto_status status;
    pp_error error;
} pp_failure;

struct pp_dispatch {
    /* the plan; fixed */
    pp_step *steps;
    uint32_t n;
    uint32_t *first_next, *nexts; /* CSR: steps that wait for step i */
    uint32_t *need_count;
    uint32_t *rank, *by_rank; /* static priority: rank 0 first; each is the inverse of the other */
    pp_executor *executor;
    pp_memory memory;
    pp_executor_mode mode; /* of the runs: a small or narrow plan runs inline on any executor */
    uint32_t n_slots;
    pp_slot *slots;
    char *scratch;
    size_t scratch_each;

    /* one run */
    atomic_bool running;
    const pp_run_options *options;
    uint64_t runs; /* begun so far */
    _Atomic uint64_t *claim;
    _Atomic uint32_t *left;       /* tasks of the open phase that are not done */
    _Atomic uint32_t failed_step; /* least so far, PP_NO_STEP: none; written under the lock */
    _Atomic int stop; /* ppto_status: PPTO_OK, or E_CANCELLED, E_DEADLINE: nothing more is begun */
    _Atomic size_t logged;
    _Atomic uint32_t epoch; /* changes when there is something to do for an idle worker, and at the end */

    pthread_mutex_t lock;   /* of all below and of failure; taken before the executor's */
    pthread_cond_t changed; /* only the caller waits on it */
    pp_failure failure;
    uint32_t *pending; /* needs not complete */
    bool *in_heap;
    uint32_t *heap; /* ranks, least first; an unordered list under sim */
    uint32_t n_heap;
    uint32_t *stack; /* steps that complete without running */
    uint32_t steps_left;
    uint32_t active;   /* slots submitted */
    uint32_t spinning; /* workers that look at epoch */
    bool caller_waits;
};

/* ---- dispatch_task.c --------------------------------------------------------------------------- */

bool pp_dispatch_skips(pp_dispatch *dispatch, uint32_t step); /* nothing of the step is begun any more */
/* Runs a task unless it is skipped. Any thread, without the lock. */
void pp_dispatch_task(pp_dispatch *dispatch, uint32_t step, uint32_t phase, uint32_t task, uint32_t slot);
/* The first phase with tasks from `from` on; PP_NO_PHASE when the step is through, or failed. */
uint32_t pp_dispatch_phase(pp_dispatch *dispatch, uint32_t step, uint32_t from);

/* ---- dispatch_ready.c : under the lock --------------------------------------------------------- */

/* What became claimable, for the decision to wake somebody. */
typedef struct pp_ready {
    uint64_t tasks;
    double ns;
} pp_ready;

double pp_dispatch_task_ns(const pp_step *step);   /* a guess where the device gave none */
void pp_dispatch_reset(pp_dispatch *dispatch);     /* all steps wait again */
pp_ready pp_dispatch_begin(pp_dispatch *dispatch); /* the steps that need nothing are ready */
pp_ready pp_dispatch_complete(pp_dispatch *dispatch, uint32_t step); /* and what waited only for it */
pp_ready pp_dispatch_open(pp_dispatch *dispatch, uint32_t step,
                          uint32_t phase);                /* its tasks may be claimed */
void pp_dispatch_pop(pp_dispatch *dispatch, uint32_t at); /* takes entry `at` out of the heap */

/* ---- one order each: run everything; PP_NO_STEP or failures are in the state ------------------- */

void pp_dispatch_inline(pp_dispatch *dispatch);
void pp_dispatch_sim(pp_dispatch *dispatch);
void pp_dispatch_threads(pp_dispatch *dispatch);
void pp_dispatch_slot_main(pp_job *job); /* a thread of the executor enters the run */

/* ---- dispatch.c -------------------------------------------------------------------------------- */

/* Marks the calling thread as inside a run: returns what it was before. */
bool pp_dispatch_mark_inside(bool inside);

#endif
