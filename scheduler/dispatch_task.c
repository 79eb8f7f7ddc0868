/* SPDX-License-Identifier: Apache-2.0
 * One task: whether it is still wanted, its run, its failure, its record in the log. */
#include "scheduler/dispatch_parts.h"
#include "scheduler/probe.h"

int64_t pp_dispatch_now(const pp_dispatch *dispatch)
{
    const pp_sim_world *world = dispatch->executor->world;
    return world != NULL ? world->now_ns : pp_clock_ns();
}

int64_t pp_dispatch_rest_until(const pp_dispatch *dispatch)
{
    const pp_run_options *options = dispatch->options;
    if (options->poll_ns == 0) return options->deadline_ns;
    int64_t poll = pp_clock_ns() + options->poll_ns;
    return options->deadline_ns == 0 || poll < options->deadline_ns ? poll : options->deadline_ns;
}

/* Looks at the cancel flag and the clock; the first that says stop is kept. */
static bool stopped(pp_dispatch *dispatch)
{
    /* relaxed: a flag that orders nothing; results of tasks are published by claims and by the lock */
    if (atomic_load_explicit(&dispatch->stop, memory_order_relaxed) != PPTO_OK) return true;
    const pp_run_options *options = dispatch->options;
    int reason = PPTO_OK;
    if (options->cancel != NULL && __atomic_load_n(options->cancel, __ATOMIC_RELAXED) != 0)
        reason = PPTO_E_CANCELLED;
    else if (options->deadline_ns != 0 && pp_dispatch_now(dispatch) >= options->deadline_ns)
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

static bool spoiled(const pp_dispatch *dispatch, uint32_t step)
{
    /* relaxed: written before the step became ready, or by the thread that asks */
    return atomic_load_explicit(&dispatch->spoiled[step], memory_order_relaxed) != PP_NO_STEP;
}

/* By something else: the tasks of a phase run though one of them failed. */
static bool poisoned(const pp_dispatch *dispatch, uint32_t step)
{
    uint32_t origin = atomic_load_explicit(&dispatch->spoiled[step], memory_order_relaxed);
    return origin != PP_NO_STEP && origin != step;
}

bool pp_dispatch_skips(pp_dispatch *dispatch, uint32_t step)
{
    if (poisoned(dispatch, step)) return true;
    if (!dispatch->options->keep_going && behind_failure(dispatch, step)) return true;
    return stopped(dispatch);
}

bool pp_dispatch_over(pp_dispatch *dispatch)
{
    return stopped(dispatch) || (!dispatch->options->keep_going && behind_failure(dispatch, PP_NO_STEP));
}

void pp_dispatch_spoil(pp_dispatch *dispatch, uint32_t step, uint32_t origin)
{
    uint32_t none = PP_NO_STEP;
    atomic_store_explicit(&dispatch->dirty, true, memory_order_relaxed);
    atomic_compare_exchange_strong_explicit(&dispatch->spoiled[step], &none, origin, memory_order_relaxed,
                                            memory_order_relaxed);
}

void pp_dispatch_hand_on(pp_dispatch *dispatch, uint32_t step, uint32_t next)
{
    if (!spoiled(dispatch, step)) return;
    uint32_t origin = atomic_load_explicit(&dispatch->spoiled[step], memory_order_relaxed);
    uint32_t before = atomic_load_explicit(&dispatch->spoiled[next], memory_order_relaxed);
    if (before == PP_NO_STEP || origin < before) /* the earliest, whatever the timing */
        atomic_store_explicit(&dispatch->spoiled[next], origin, memory_order_relaxed);
}

bool pp_dispatch_succeeded(const pp_dispatch *dispatch, uint32_t step)
{
    return !spoiled(dispatch, step);
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
    int none = PPTO_OK;
    pp_dispatch_spoil(dispatch, failure->step, failure->step);
    atomic_compare_exchange_strong_explicit(&dispatch->status[failure->step], &none, failure->status,
                                            memory_order_relaxed, memory_order_relaxed);
    if (earlier(failure, first)) {
        first->step = failure->step;
        first->task = failure->task;
        first->position = failure->position;
        first->status = failure->status;
        first->error = *error;
        atomic_store_explicit(&dispatch->failed_step, failure->step, memory_order_relaxed);
    }
    if (dispatch->n_waiting != 0 && dispatch->caller_waits) pthread_cond_signal(&dispatch->changed);
    pthread_mutex_unlock(&dispatch->lock);
}

static bool is_noted(const pp_run_options *options)
{
    return options->log != NULL || options->ran != NULL;
}

static void note_task(pp_dispatch *dispatch, const pp_task_record *record, bool elsewhere)
{
    const pp_run_options *options = dispatch->options;
    if (options->ran != NULL) options->ran(options->ran_arg, record, elsewhere);
    if (options->log == NULL) return;
    size_t at = atomic_fetch_add_explicit(&dispatch->logged, 1, memory_order_relaxed);
    if (at < options->log_cap) options->log[at] = *record;
}

/* Why a step is skipped: the failed step it comes from, or itself. */
static void tell_skipped(pp_dispatch *dispatch, uint32_t step)
{
    const pp_step *of = &dispatch->steps[step];
    pp_dispatch_spoil(dispatch, step, step);
    if (of->skipped == NULL) return;
    uint32_t origin = atomic_load_explicit(&dispatch->spoiled[step], memory_order_relaxed);
    uint32_t failed = atomic_load_explicit(&dispatch->failed_step, memory_order_relaxed);
    int why = atomic_load_explicit(&dispatch->status[origin], memory_order_relaxed);
    if (why == PPTO_OK && failed != PP_NO_STEP && !dispatch->options->keep_going) { /* that ended the run */
        origin = failed;
        why = atomic_load_explicit(&dispatch->status[origin], memory_order_relaxed);
    }
    if (why == PPTO_OK) why = atomic_load_explicit(&dispatch->stop, memory_order_relaxed);
    of->skipped(of->object, why != PPTO_OK ? (ppto_status)why : PPTO_E_CANCELLED, origin);
}

/* Before a task that may wait: from its return on others may complete it, or the whole run. */
static void begin_waiting(pp_dispatch *dispatch, uint32_t step, uint32_t task, pp_begun begun)
{
    dispatch->begun[dispatch->begun_at[step] + task] = begun;
    /* release: `begun`, for the thread that completes the task */
    atomic_fetch_add_explicit(&dispatch->away[step], 1, memory_order_release);
}

bool pp_dispatch_task(pp_dispatch *dispatch, uint32_t step, uint32_t phase, uint32_t task, uint32_t slot)
{
    const pp_step *of = &dispatch->steps[step];
    if (pp_dispatch_skips(dispatch, step)) {
        tell_skipped(dispatch, step);
        return true;
    }
    pp_error *error = &dispatch->slots[slot].error;
    void *scratch = dispatch->scratch != NULL ? dispatch->scratch + slot * dispatch->scratch_each : NULL;
    bool noted = is_noted(dispatch->options);
    int64_t start = noted ? pp_clock_ns() : 0, position = INT64_MAX;
    pp_error_clear(error);
    if (of->waits) begin_waiting(dispatch, step, task, (pp_begun){slot, start});
    PP_PROBE(task_begin, step, phase, task);
    ppto_status status = of->run(of->object, phase, task, scratch, error, &position);
    PP_PROBE(task_end, step, phase, task);
    if (status == PP_STEP_ASYNC && of->waits) {
        /* relaxed: read under the lock, which this thread takes before it leaves the run */
        atomic_fetch_add_explicit(&dispatch->begun_waits, 1, memory_order_relaxed);
        return false;
    }
    if (of->waits) atomic_fetch_sub_explicit(&dispatch->away[step], 1, memory_order_relaxed);
    if (status == PP_STEP_ASYNC) status = PPTO_E_INTERNAL;
    if (noted) note_task(dispatch, &(pp_task_record){step, phase, task, slot, start, pp_clock_ns()}, false);
    if (status != PPTO_OK)
        note_failure(dispatch,
                     &(pp_failure){.step = step, .task = task, .position = position, .status = status},
                     error);
    return true;
}

void pp_dispatch_arrive(pp_dispatch *dispatch, uint32_t step, uint32_t task, ppto_status status,
                        const pp_error *error)
{
    /* acquire: pairs with begin_waiting */
    atomic_fetch_sub_explicit(&dispatch->away[step], 1, memory_order_acquire);
    const pp_begun *begun = &dispatch->begun[dispatch->begun_at[step] + task];
    if (is_noted(dispatch->options))
        note_task(dispatch,
                  &(pp_task_record){step, pp_dispatch_at(dispatch, step), task, begun->worker,
                                    begun->start_ns, pp_clock_ns()},
                  true);
    if (status == PPTO_OK) return;
    if (status == PP_STEP_WITHDRAWN) {
        pp_dispatch_spoil(dispatch, step, step);
        return;
    }
    pp_error own = {.code = PPTO_OK};
    if (error != NULL) own = *error;
    note_failure(dispatch, &(pp_failure){.step = step, .task = task, .position = INT64_MAX, .status = status},
                 &own);
}

uint32_t pp_dispatch_take_back(pp_dispatch *dispatch, uint32_t step)
{
    const pp_step *of = &dispatch->steps[step];
    if (of->withdraw == NULL || atomic_load_explicit(&dispatch->away[step], memory_order_acquire) == 0)
        return 0;
    uint32_t taken = of->withdraw(of->object, !pp_dispatch_skips(dispatch, step));
    if (taken == 0) return 0;
    atomic_fetch_sub_explicit(&dispatch->away[step], taken, memory_order_relaxed);
    pp_dispatch_spoil(dispatch, step, step);
    return taken;
}

uint32_t pp_dispatch_phase(pp_dispatch *dispatch, uint32_t step, uint32_t from)
{
    const pp_step *of = &dispatch->steps[step];
    for (uint32_t phase = from; phase < of->phases; phase++)
        if (of->tasks[phase] != 0) return phase;
    return PP_NO_PHASE;
}

uint32_t pp_dispatch_next_phase(pp_dispatch *dispatch, uint32_t step, uint32_t phase)
{
    uint32_t next = pp_dispatch_phase(dispatch, step, phase + 1);
    if (next == PP_NO_PHASE) return PP_NO_PHASE;
    bool failed = step == atomic_load_explicit(&dispatch->failed_step, memory_order_relaxed);
    if (!failed && !spoiled(dispatch, step) && !pp_dispatch_skips(dispatch, step)) return next;
    pp_dispatch_spoil(dispatch, step, step);
    return PP_NO_PHASE;
}
