/* SPDX-License-Identifier: Apache-2.0
 * Runs the steps of a plan: dependency counters, a ready queue by priority, phases and tasks, one completion
 * entry. Executors (scheduler/executor.h) only run closures. The calling thread helps. */
#ifndef PP_DISPATCH_H
#define PP_DISPATCH_H

#include "base/base.h"
#include "base/share.h"
#include "devices/device.h"

typedef struct pp_executor pp_executor;

/* name: "serial", "sim", "pthread", "tbb" (E_UNSUPPORTED when not built in). workers >= 1 is how many tasks
 * may run at once, the calling thread included. No thread is started before the first run that wants one. */
ppto_status pp_executor_create(const char *name, uint32_t workers, uint64_t seed, pp_executor **out,
                               pp_error *err);

/* Where workers live: domains of CPUs that have memory of their own near. A thread works for one domain at a
 * time. The functions may be NULL: threads stay where they are, and callers are in domain 0. */
typedef struct pp_domains {
    uint32_t n; /* 1 to PP_MAX_DOMAINS */
    uint32_t workers[PP_MAX_DOMAINS];
    void *(*enter)(void *arg, uint32_t domain); /* binds the calling thread; returns what leave wants */
    void (*leave)(void *arg, void *entered);    /* binds it as it was before; entered may be NULL */
    uint32_t (*here)(void *arg);                /* the domain the calling thread is in now; below n */
    void *arg;
} pp_domains;
/* Divides `workers` over the domains in proportion to what they have now; every one gets a worker if there
 * are enough. */
void pp_domains_spread(pp_domains *domains, uint32_t workers);
/* Workers are numbered so that domains take turns. Gives the domain of the first worker when *turn is zero,
 * and of the next one with each call. */
typedef struct pp_turn {
    uint32_t round, domain;
} pp_turn;
uint32_t pp_domains_next(const pp_domains *domains, pp_turn *turn);
/* The same as pp_executor_create, on these domains (copied; arg must outlive it). In total at least one
 * worker. */
ppto_status pp_executor_create_in(const char *name, const pp_domains *domains, uint64_t seed,
                                  pp_executor **out, pp_error *err);
/* As they are: an executor may have been allowed fewer workers. */
const pp_domains *pp_executor_domains(const pp_executor *executor);
void pp_executor_destroy(pp_executor *executor); /* NULL is fine; waits for its threads */
const char *pp_executor_name(const pp_executor *executor);
uint32_t pp_executor_workers(const pp_executor *executor);
/* How many of them may run at once now: the program, too, may set limits that the library of threads obeys.
 */
uint32_t pp_executor_width(const pp_executor *executor);
const char *pp_executor_at(size_t i);  /* names of what is built in; NULL past the last */
const char *pp_executor_default(void); /* the best that can be had in this process */

/* What lies outside the runs of a `sim` executor: time, and whatever completes tasks that wait. */
typedef struct pp_sim_world {
    /* Called at drawn turns, and when nothing else can happen: may complete tasks, cancel, signal. False: it
     * did nothing. */
    bool (*turn)(void *arg, uint64_t draw);
    void *arg;
    int64_t now_ns; /* virtual; every task takes its task_ns; deadlines are read on it */
    uint32_t runs;  /* not 0: so many (at most 8) will take part, each on its thread; they begin when all have
                       come, and take turns. `turn` is called by one of them at a time */
} pp_sim_world;
void pp_executor_simulate(pp_executor *executor, pp_sim_world *world); /* NULL: the real clock */
/* The calling thread's run is over with all that belongs to it, or never came to its first step. */
void pp_executor_left(pp_executor *executor);

/* What a task returns that somebody else completes, with pp_dispatch_complete. */
#define PP_STEP_ASYNC ((ppto_status)1)
/* It is completed with this when it was asked to withdraw and did: no failure, but what needs it is skipped.
 */
#define PP_STEP_WITHDRAWN ((ppto_status)2)

typedef struct pp_step {
    /* Runs one task; E_… with text in err; *position as in devices/device.h. Any thread. */
    ppto_status (*run)(void *object, uint32_t phase, uint32_t task, void *scratch, pp_error *err,
                       int64_t *position);
    void *object;
    uint32_t phases;
    uint32_t tasks[PP_MAX_PHASES]; /* 0 tasks: the phase is skipped */
    size_t scratch_bytes;
    double task_ns;
    size_t task_bytes; /* what one task reads, about; 0: little */
    bool prompt;       /* takes no time, and others outside may wait for it: before all that compute */
    bool waits;        /* run may return PP_STEP_ASYNC; then it is completed exactly once, or withdrawn */
    /* The run is over: how many tasks that wait will not be completed any more (those are taken back); the
     * others still will be. counts: a failure of the step would be that of the run, as it stands before the
     * one that ended it; so only what may never come must be given up. May be called again. NULL: none.
     * Called without a lock, on the run's caller, also while the step begins. */
    uint32_t (*withdraw)(void *object, bool counts);
    /* Called instead of run when the step (one phase, one task) is skipped. origin: the step that failed, or
     * this one when the run was cancelled. NULL: nothing is called. */
    void (*skipped)(void *object, ppto_status why, uint32_t origin);
} pp_step;

/* Steps, edges, priorities and the state of one run; reused from run to run. */
typedef struct pp_dispatch pp_dispatch;

/* needs: CSR, steps that step i waits for, all lower than i. Copied. Scratch for every worker is taken
 * through `take`/`give` (a pool) when it is first reserved, and kept. */
typedef struct pp_memory {
    ppto_status (*take)(void *arg, size_t bytes, void **out, pp_error *err);
    void (*give)(void *arg, void *block, size_t bytes);
    void *arg;
} pp_memory;
ppto_status pp_dispatch_create(const pp_step *steps, uint32_t n, const uint32_t *first_need,
                               const uint32_t *needs, pp_executor *executor, const pp_memory *memory,
                               pp_dispatch **out, pp_error *err);
void pp_dispatch_destroy(pp_dispatch *dispatch);                 /* NULL is fine */
uint64_t pp_dispatch_scratch_bytes(const pp_dispatch *dispatch); /* of all workers together */
const void *pp_dispatch_scratch(const pp_dispatch *dispatch);    /* NULL: it is not taken */
/* Takes the scratch, unless it is there; the first run does so too. E_NOMEM, or what `take` says. Not while
 * it runs, nor is giving it back. */
ppto_status pp_dispatch_reserve(pp_dispatch *dispatch, pp_error *err);
void pp_dispatch_give_back(pp_dispatch *dispatch);

typedef struct pp_task_record {
    uint32_t step, phase, task, worker;
    int64_t start_ns, end_ns;
} pp_task_record;

typedef struct pp_run_options {
    const volatile int *cancel; /* read at task boundaries; non-zero: E_CANCELLED. NULL: none */
    int64_t deadline_ns;        /* pp_clock_ns(); 0: none */
    int64_t poll_ns;            /* a caller that only waits looks at cancel so often; 0: pp_dispatch_wake */
    uint64_t number;            /* orders runs that are simulated together */
    bool keep_going;            /* only what depends on a failed step is skipped */
    pp_task_record *log;        /* room for log_cap records; *log_n are written (the rest dropped) */
    size_t log_cap, *log_n;
    /* Told of every task that ran, by the thread that ran it; elsewhere: by the one that completed it. NULL:
     * nobody is. */
    void (*ran)(void *arg, const pp_task_record *record, bool elsewhere);
    void *ran_arg;
} pp_run_options;

/* Runs everything and waits. The error is the earliest in program order (step, then position); dependents are
 * skipped, the rest is drained. Allocates nothing once the scratch is there. E_WOULD_DEADLOCK from inside a
 * task; E_FORKED in a child; E_BUSY when it is running. */
ppto_status pp_dispatch_run(pp_dispatch *dispatch, const pp_run_options *options, uint32_t *failed_step,
                            pp_error *err);

/* Completes a task that returned PP_STEP_ASYNC (it may come before that return). error: may be NULL. Any
 * thread, with no lock that a task or `withdraw` takes. */
void pp_dispatch_complete(pp_dispatch *dispatch, uint32_t step, uint32_t task, ppto_status status,
                          const pp_error *error);
/* After cancel was set: a caller that only waits looks at it now. Any thread, while the run cannot end. */
void pp_dispatch_wake(pp_dispatch *dispatch);
/* After a run: the step ran to its end. */
bool pp_dispatch_succeeded(const pp_dispatch *dispatch, uint32_t step);

/* Is the calling thread inside a run, where waiting for another could never end? mark: returns what it was
 * before. */
bool pp_dispatch_inside(void);
bool pp_dispatch_mark_inside(bool inside);

#endif
