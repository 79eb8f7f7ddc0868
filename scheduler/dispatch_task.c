/* SPDX-License-Identifier: Apache-2.0
 * One task: whether it is still wanted, its run, its failure, its record in the log. */
#include "scheduler/dispatch_parts.h"

/* Looks at the cancel flag and the clock; the first that says stop is kept. */
static bool stopped(pp_dispatch *dispatch)
{
    /* relaxed: a flag that orders nothing; results of tasks are published by claims and by the lock */
    if (atomic_load_explicit(&dispatch->stop, memory_order_relaxed) != PPTO_OK) return true;
    const pp_run_options *options = dispatch->options;
    int reason = PPTO_OK;
    if (options->cancel != NULL && __atomic_load_n(options->cancel, __ATOMIC_RELAXED) != 0)
        reason = PPTO_E_CANCELLED;
    else if (options->deadline_ns != 0 && pp_clock_ns() >= options->deadline_ns)
        reason = PPTO_E_DEADLINE;
    if (reason == PPTO_OK) return false;
    int none = PPTO_OK;
    atomic_compare_exchange_strong_explicit(&dispatch->stop, &none, reason, memory_order_relaxed,
                                            memory_order_relaxed);
    return true;
}

static bool behind_failure(pp_dispatch *dispatch, uint32_t step)
{
    /* relaxed: a dependent of the failed step became ready under the lock, after the failure was written
     * there */
    return step > atomic_load_explicit(&dispatch->failed_step, memory_order_relaxed);
}

bool pp_dispatch_skips(pp_dispatch *dispatch, uint32_t step)
{
    return behind_failure(dispatch, step) || stopped(dispatch);
}

static bool earlier(const pp_failure *a, const pp_failure *b)
{
    if (a->step != b->step) return a->step < b->step;
    if (a->position != b->position) return a->position < b->position;
    return a->task < b->task;
}

static void note_failure(pp_dispatch *dispatch, pp_failure *failure, pp_error *error)
{
    if (error->code == PPTO_OK) (void)pp_fail(error, failure->status, "step %u failed", failure->step);
    pthread_mutex_lock(&dispatch->lock);
    pp_failure *first = &dispatch->failure;
    if (earlier(failure, first)) {
        first->step = failure->step;
        first->task = failure->task;
        first->position = failure->position;
        first->status = failure->status;
        first->error = *error;
        atomic_store_explicit(&dispatch->failed_step, failure->step, memory_order_relaxed);
    }
    pthread_mutex_unlock(&dispatch->lock);
}

static void log_task(pp_dispatch *dispatch, const pp_task_record *record)
{
    const pp_run_options *options = dispatch->options;
    size_t at = atomic_fetch_add_explicit(&dispatch->logged, 1, memory_order_relaxed);
    if (at < options->log_cap) options->log[at] = *record;
}

void pp_dispatch_task(pp_dispatch *dispatch, uint32_t step, uint32_t phase, uint32_t task, uint32_t slot)
{
    if (pp_dispatch_skips(dispatch, step)) return;
    const pp_step *of = &dispatch->steps[step];
    pp_error *error = &dispatch->slots[slot].error;
    void *scratch = dispatch->scratch != NULL ? dispatch->scratch + slot * dispatch->scratch_each : NULL;
    bool logs = dispatch->options->log != NULL;
    int64_t start = logs ? pp_clock_ns() : 0, position = INT64_MAX;
    pp_error_clear(error);
    ppto_status status = of->run(of->object, phase, task, scratch, error, &position);
    if (logs)
        log_task(dispatch, &(pp_task_record){.step = step,
                                             .phase = phase,
                                             .task = task,
                                             .worker = slot,
                                             .start_ns = start,
                                             .end_ns = pp_clock_ns()});
    if (status != PPTO_OK)
        note_failure(dispatch,
                     &(pp_failure){.step = step, .task = task, .position = position, .status = status},
                     error);
}

uint32_t pp_dispatch_phase(pp_dispatch *dispatch, uint32_t step, uint32_t from)
{
    if (from > 0 && step >= atomic_load_explicit(&dispatch->failed_step, memory_order_relaxed))
        return PP_NO_PHASE;
    const pp_step *of = &dispatch->steps[step];
    for (uint32_t phase = from; phase < of->phases; phase++)
        if (of->tasks[phase] != 0) return phase;
    return PP_NO_PHASE;
}
