/* SPDX-License-Identifier: Apache-2.0
 * What an executor is to the dispatcher: a queue of jobs and a way to get one more thread to look at it. All
 * order, counting and failure is in dispatch.c; an executor promises only that threads look, sooner or later
 * or never: the dispatcher's caller helps, and takes back what nobody began. So no executor has to have a
 * worker (a quota of one CPU leaves none), and nothing is allocated to submit. */
#ifndef PP_EXECUTOR_H
#define PP_EXECUTOR_H

#ifdef __cplusplus
extern "C" {
#endif

#include <pthread.h>

#include "scheduler/dispatch.h"

/* Runs on a thread of the executor. Must not touch the job after it gave it free for reuse. */
typedef struct pp_job {
    void (*fn)(struct pp_job *job);
    struct pp_job *next, *prev; /* in the queue */
    uint32_t domain;            /* whose threads run it */
    bool queued;
} pp_job;

typedef struct pp_sim_turns pp_sim_turns;

typedef enum pp_executor_mode {
    PP_RUN_INLINE, /* everything on the caller, in program order */
    PP_RUN_SIM,    /* everything on the caller, in an order drawn from the seed */
    PP_RUN_THREADS /* jobs are submitted */
} pp_executor_mode;

/* open, close and wake are NULL where mode needs no threads. None may throw. */
typedef struct pp_executor_class {
    const char *name;
    pp_executor_mode mode;
    ppto_status (*open)(pp_executor *executor, pp_error *err); /* sets executor->own */
    void (*close)(pp_executor *executor,
                  bool forked); /* waits for its threads; forked: there are none, only lets go */
    /* Lets one more thread of the domain call pp_executor_work soon, if it can. */
    void (*wake)(pp_executor *executor, uint32_t domain);
    bool (*is_parents)(void); /* its threads belong to a parent process: open fails. NULL: never */
    uint32_t (*most)(void);   /* workers that may run at once, the calling thread included; NULL: no limit */
} pp_executor_class;

/* Jobs of one domain, oldest first. */
typedef struct pp_job_queue {
    pp_job *first, *last;
} pp_job_queue;

struct pp_executor {
    const pp_executor_class *class_of;
    pp_domains domains;
    uint32_t workers; /* of all domains, the calling thread included */
    uint64_t seed;
    pp_sim_world *world;        /* NULL unless simulated */
    struct pp_sim_turns *turns; /* of `sim` */
    void *own;                  /* of the class */
    pthread_mutex_t lock;       /* of the queues; innermost: no other lock is taken under it */
    pp_job_queue queue[PP_MAX_DOMAINS];
    uint64_t process; /* base/fork.h */
};

/* ---- executor.c -------------------------------------------------------------------------------- */

/* The job runs on a thread of job->domain, if it runs. */
void pp_executor_submit(pp_executor *executor, pp_job *job);
bool pp_executor_withdraw(pp_executor *executor, pp_job *job); /* true: it was queued and will not run */
/* Runs queued jobs of the domain until there is none; never throws. */
void pp_executor_work(pp_executor *executor, uint32_t domain);
/* Threads the executor itself must have for a domain. Alone, the domain has the calling thread for one of
 * its workers; of several nobody knows where callers will be, and one place stays empty in each run. */
uint32_t pp_executor_room(const pp_executor *executor, uint32_t domain);
void pp_executor_limit(pp_executor *executor, uint32_t most); /* at least 1; before anything is submitted */
void *pp_executor_enter(const pp_executor *executor, uint32_t domain); /* domains.enter, if there is one */
void pp_executor_leave(const pp_executor *executor, void *entered);
bool pp_executor_forked(const pp_executor *executor); /* in a child of the process that created it */

/* ---- executor_pthread.c, executor_tbb.cpp or executor_tbb_absent.c ----------------------------- */

extern const pp_executor_class pp_executor_pthread;
extern const pp_executor_class *const pp_executor_tbb; /* NULL: not built in */

#ifdef __cplusplus
}
#endif
#endif
