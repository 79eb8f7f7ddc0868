/* SPDX-License-Identifier: Apache-2.0
 * The state that the parts of the dispatcher share. dispatch.c makes it and reports; dispatch_task.c runs one
 * task and knows what is skipped; dispatch_ready.c counts needs and keeps what may be begun; the three orders
 * are dispatch_inline.c, dispatch_sim.c and dispatch_threads.c (with dispatch_batch.c).
 *
 * A step is ready when all it needs are complete, and complete when its last phase is done or it is skipped.
 * A ready step lies in a set while it has unclaimed tasks (it may stay a little longer). claim[s] is phase
 * << 32 | next task: adding 1 claims a task, when the task got is below tasks[phase]. Whoever finishes the
 * last task of a phase opens the next one. A worker whose claim fails never touches the step again, so a late
 * claim does no harm; the next run begins only when every worker has left this one.
 *
 * A step of one task, one phase after the other, that does not wait is *single*: under threads a worker takes
 * it whole out of the set, and with it others and those that only it leads to, as many as are worth one visit
 * to the lock (dispatch_batch.c). It has no claim.
 *
 * On an executor with several domains there is a set for what anybody may run, and one for each domain. A
 * phase with enough tasks is *placed*: its tasks divide over the domains as memory does (base/share.h), each
 * part has a claim of its own. A worker takes from the common set and its own; when it has been idle for a
 * while it helps others with tasks that read little. The caller helps with everything, so no task needs a
 * worker of its domain.
 *
 * A task may be completed by somebody else (pp_dispatch_complete): away[s] counts those under way. When the
 * run is over (failed, cancelled) its caller asks the steps to take back what only waits.
 *
 * fail_fast: steps behind the earliest failed one in program order are skipped, tasks of its phase are not.
 * So nothing that could fail earlier is skipped, and the error does not depend on timing; only what waits
 * for the outside is taken back wherever it stands, so that a failed run ends. keep_going: nothing is skipped
 * but this: spoiled[s] is handed from a step that did not complete to those that need it. */
#ifndef PP_DISPATCH_PARTS_H
#define PP_DISPATCH_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/thread.h"
#include "scheduler/dispatch.h"
#include "scheduler/executor.h"
#include "scheduler/rank_set.h"

#define PP_NO_STEP UINT32_MAX
#define PP_NO_PHASE UINT32_MAX
#define PP_SIM_SLOTS 64u /* the most virtual workers */
enum { APART = 64 };     /* a cache line */

/* One place for a worker of a run. One of them is the caller's; the job of the others brings a thread. */
typedef struct pp_slot {
    pp_job job; /* of the slot's domain */
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

typedef struct pp_begun {
    uint32_t worker;
    int64_t start_ns;
} pp_begun;

typedef struct pp_arrival {
    uint32_t step, task;
} pp_arrival;

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
    pp_slot *slots;   /* the domains take turns */
    uint32_t n_sets;  /* 1, or 1 and the domains */
    pp_shares shares; /* of the domains */
    char *scratch;
    size_t scratch_each;
    uint32_t *waiting; /* steps that may wait, n_waiting of them */
    uint32_t n_waiting;
    uint32_t *cost;    /* ns of a single step; 0: it is not single */
    uint32_t *sole;    /* the single step that needs only this one, which leads to nothing else; PP_NO_STEP */
    pp_rank_set first; /* single steps that need nothing */
    uint64_t first_ns; /* what they are worth */
    uint64_t *worth;   /* ns of a single step and of the line of sole ones behind it */

    /* one run */
    atomic_bool running;
    const pp_run_options *options;
    uint64_t runs;                /* begun so far */
    uint32_t home;                /* the caller's slot */
    _Atomic uint64_t *claim;      /* n_sets of each step */
    _Atomic uint32_t *left;       /* tasks of the open phase that are not done */
    _Atomic uint32_t failed_step; /* least so far, PP_NO_STEP: none; written under the lock */
    _Atomic int stop;          /* ppto_status: PPTO_OK, or E_CANCELLED, E_DEADLINE: nothing more is begun */
    _Atomic uint32_t *spoiled; /* per step: why it did not complete: a failed step, itself; PP_NO_STEP */
    _Atomic int *status;       /* per step: of its failure */
    atomic_bool dirty;         /* spoiled and status hold something of the last run */
    _Atomic uint32_t *away;    /* per step: tasks others complete; NULL when no step waits */
    _Atomic uint32_t begun_waits; /* tasks that returned and wait, so far */
    uint32_t *begun_at;           /* per step: its first place in begun */
    pp_begun *begun;              /* per task that may wait: for the log */
    char apart[APART]; /* what follows is written all the time, what stands above read for every task */
    _Atomic size_t logged;
    _Atomic uint32_t epoch; /* changes when there is something to do for an idle worker, and at the end */
    char apart_too[APART];

    pthread_mutex_t lock;   /* of all below and of failure; taken before the executor's */
    pthread_cond_t changed; /* only the caller waits on it */
    pp_failure failure;
    uint32_t *pending;                     /* needs not complete */
    pp_rank_set ready[1 + PP_MAX_DOMAINS]; /* n_sets, of ranks */
    uint32_t singles;                      /* of ready[0] */
    uint64_t singles_ns;                   /* what they are worth, as estimated */
    double pace;                           /* real ns of a single step for each that was estimated */
    uint32_t *stack;                       /* steps that complete without running */
    uint32_t steps_left;
    uint32_t active;                   /* slots submitted */
    uint32_t spinning[PP_MAX_DOMAINS]; /* workers that look at epoch */
    bool caller_waits;
    pp_arrival *arrived; /* sim: completions not yet drawn */
    uint32_t n_arrived;
};

/* ---- dispatch_task.c --------------------------------------------------------------------------- */

bool pp_dispatch_skips(pp_dispatch *dispatch, uint32_t step); /* nothing of the step is begun any more */
bool pp_dispatch_over(pp_dispatch *dispatch);                 /* what only waits is to be taken back */
int64_t pp_dispatch_now(const pp_dispatch *dispatch);         /* real or virtual */
int64_t pp_dispatch_rest_until(const pp_dispatch *dispatch);  /* for pp_condition_wait */
/* The step will not complete because of `origin`; the first reason stays. */
void pp_dispatch_spoil(pp_dispatch *dispatch, uint32_t step, uint32_t origin);
/* What spoiled `step` spoils `next`, which needs it. */
void pp_dispatch_hand_on(pp_dispatch *dispatch, uint32_t step, uint32_t next);
/* Runs a task unless it is skipped. False: somebody else completes it. Any thread, without the lock. */
bool pp_dispatch_task(pp_dispatch *dispatch, uint32_t step, uint32_t phase, uint32_t task, uint32_t slot);
/* Notes failure and end of a task that waited; what follows is the order's business. */
void pp_dispatch_arrive(pp_dispatch *dispatch, uint32_t step, uint32_t task, ppto_status status,
                        const pp_error *error);
/* Takes back tasks of a step that only waits; how many. Without the lock. */
uint32_t pp_dispatch_take_back(pp_dispatch *dispatch, uint32_t step);
/* The first phase with tasks from `from` on; PP_NO_PHASE when the step is through, or failed. */
uint32_t pp_dispatch_phase(pp_dispatch *dispatch, uint32_t step, uint32_t from);
/* The one to open when `phase` is done; PP_NO_PHASE also when the rest of the step is skipped. */
uint32_t pp_dispatch_next_phase(pp_dispatch *dispatch, uint32_t step, uint32_t phase);

/* ---- dispatch_ready.c : under the lock --------------------------------------------------------- */

/* What became claimable, for the decision to wake somebody. */
typedef struct pp_ready {
    uint64_t tasks;
    double ns;
} pp_ready;

double pp_dispatch_task_ns(const pp_step *step);   /* a guess where the device gave none */
void pp_dispatch_reset(pp_dispatch *dispatch);     /* all steps wait again */
pp_ready pp_dispatch_begin(pp_dispatch *dispatch); /* the steps that need nothing are ready */
/* The n steps are complete, and what waited for them. */
pp_ready pp_dispatch_settle(pp_dispatch *dispatch, const uint32_t *steps, uint32_t n);
/* Its tasks may be claimed, a single step may be taken. */
pp_ready pp_dispatch_open(pp_dispatch *dispatch, uint32_t step, uint32_t phase);
void pp_dispatch_take_out(pp_dispatch *dispatch, uint32_t h, uint32_t step); /* of set h */

/* ---- dispatch_batch.c : single steps under threads ---------------------------------------------- */

enum { PP_BATCH = 64 };

typedef struct pp_batch { /* taken by one worker */
    uint32_t n, passed;   /* passed: complete, and the only one that waited for it has run too */
    uint64_t ns, most_ns; /* estimated, of all that ran; where to stop */
    int64_t began_ns;     /* 0: it is not timed */
    uint32_t step[PP_BATCH];
} pp_batch;

void pp_dispatch_singles(pp_dispatch *dispatch); /* which steps are single; once, when the mode is chosen */
/* With the lock: `step` was taken out, and now others with it, if there are enough for everybody. */
void pp_dispatch_batch_take(pp_dispatch *dispatch, uint32_t step, uint32_t domain, pp_batch *out);
void pp_dispatch_batch_run(pp_dispatch *dispatch, pp_batch *batch, uint32_t slot); /* without the lock */
pp_ready pp_dispatch_batch_settle(pp_dispatch *dispatch, const pp_batch *batch);   /* with the lock */

/* ---- domains ------------------------------------------------------------------------------------ */

/* Do the tasks of the phase belong to domains? Not where there are too few, or they are not worth it. */
bool pp_dispatch_placed(const pp_dispatch *dispatch, uint32_t step, uint32_t phase);
/* The tasks of a phase that set h gives out: `first` to before the one returned. */
uint32_t pp_dispatch_part(const pp_dispatch *dispatch, uint32_t step, uint32_t phase, uint32_t h,
                          uint32_t *first);

static inline uint32_t pp_dispatch_end(const pp_dispatch *dispatch, uint32_t step, uint64_t claim, uint32_t h)
{
    uint32_t phase = (uint32_t)(claim >> 32), first;
    if (dispatch->n_sets == 1) return dispatch->steps[step].tasks[phase];
    return pp_dispatch_part(dispatch, step, phase, h, &first);
}

static inline _Atomic uint64_t *pp_dispatch_claim(const pp_dispatch *dispatch, uint32_t step, uint32_t h)
{
    return &dispatch->claim[(size_t)step * dispatch->n_sets + h];
}

/* The phase that is open. */
static inline uint32_t pp_dispatch_at(const pp_dispatch *dispatch, uint32_t step)
{
    return (uint32_t)(atomic_load_explicit(pp_dispatch_claim(dispatch, step, 0), memory_order_relaxed) >> 32);
}

/* The best step of set h, which is not empty. */
static inline uint32_t pp_dispatch_best(const pp_dispatch *dispatch, uint32_t h)
{
    return dispatch->by_rank[pp_rank_set_least(&dispatch->ready[h])];
}

/* ---- one order each: run everything; PP_NO_STEP or failures are in the state ------------------- */

void pp_dispatch_inline(pp_dispatch *dispatch);
void pp_dispatch_sim(pp_dispatch *dispatch);
void pp_dispatch_threads(pp_dispatch *dispatch);
void pp_dispatch_slot_main(pp_job *job); /* a thread of the executor enters the run */
/* A task that waited is done: opens what follows and wakes whoever is to run it. Any thread. */
void pp_dispatch_threads_arrive(pp_dispatch *dispatch, uint32_t step);
void pp_dispatch_sim_arrive(pp_dispatch *dispatch, uint32_t step, uint32_t task);

#endif
