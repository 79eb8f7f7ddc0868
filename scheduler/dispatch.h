/* SPDX-License-Identifier: Apache-2.0
 * Runs the steps of a plan: dependency counters, a ready queue by priority, phases and tasks, one completion
 * entry. Executors (scheduler/executor.h) only run closures. The calling thread helps. */
#ifndef PP_DISPATCH_H
#define PP_DISPATCH_H

#include "base/base.h"
#include "devices/device.h"

typedef struct pp_executor pp_executor;

/* name: "serial", "sim", "pthread", "tbb" (E_UNSUPPORTED when not built in). workers >= 1 is how many tasks
 * may run at once, the calling thread included. No thread is started before the first run that wants one. */
ppto_status pp_executor_create(const char *name, uint32_t workers, uint64_t seed, pp_executor **out,
                               pp_error *err);
void pp_executor_destroy(pp_executor *executor); /* NULL is fine; waits for its threads */
const char *pp_executor_name(const pp_executor *executor);
uint32_t pp_executor_workers(const pp_executor *executor);
const char *pp_executor_at(size_t i); /* names of what is built in; NULL past the last */

typedef struct pp_step {
    /* Runs one task; E_… with text in err; *position as in devices/device.h. Any thread. */
    ppto_status (*run)(void *object, uint32_t phase, uint32_t task, void *scratch, pp_error *err,
                       int64_t *position);
    void *object;
    uint32_t phases;
    uint32_t tasks[PP_MAX_PHASES]; /* 0 tasks: the phase is skipped */
    size_t scratch_bytes;
    double task_ns;
} pp_step;

/* Steps, edges, priorities and the state of one run; reused from run to run. */
typedef struct pp_dispatch pp_dispatch;

/* needs: CSR, steps that step i waits for, all lower than i. Copied. Scratch for every worker is taken
 * through `take`/`give` (a pool) once. */
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

typedef struct pp_task_record {
    uint32_t step, phase, task, worker;
    int64_t start_ns, end_ns;
} pp_task_record;

typedef struct pp_run_options {
    const volatile int *cancel; /* read at task boundaries; non-zero: E_CANCELLED. NULL: none */
    int64_t deadline_ns;        /* pp_clock_ns(); 0: none */
    pp_task_record *log;        /* room for log_cap records; *log_n are written (the rest dropped) */
    size_t log_cap, *log_n;
} pp_run_options;

/* Runs everything and waits. The error is the earliest in program order (step, then position); dependents are
 * skipped, the rest is drained. Never allocates. E_WOULD_DEADLOCK from inside a task; E_FORKED in a child;
 * E_BUSY when it is running. */
ppto_status pp_dispatch_run(pp_dispatch *dispatch, const pp_run_options *options, uint32_t *failed_step,
                            pp_error *err);

#endif
