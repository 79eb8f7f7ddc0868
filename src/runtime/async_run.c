/* SPDX-License-Identifier: Apache-2.0
 * Run objects: start, wait, cancel, outputs. The lock of the drivers guards them, which outlives the context
 * while a run is not released. */
#include <stdio.h>
#include <string.h>

#include "base/fork.h"
#include "runtime/async_run.h"

/* ---- the queue, with the lock -------------------------------------------------------------------- */

static size_t enqueue(pp_drivers *drivers, ppto_run *run)
{
    ppto_run **at = &drivers->queue;
    size_t n = 1;
    for (const ppto_run *other = *at; other; other = other->next) n++;
    while (*at && (*at)->priority >= run->priority) at = &(*at)->next;
    run->next = *at;
    *at = run;
    return n;
}

bool pp_run_dequeue(pp_drivers *drivers, const ppto_run *run)
{
    ppto_run **at = &drivers->queue;
    while (*at && *at != run) at = &(*at)->next;
    if (!*at) return false;
    *at = run->next;
    return true;
}

ppto_run *pp_run_pop(pp_drivers *drivers)
{
    ppto_run *run = drivers->queue;
    drivers->queue = run->next;
    run->ticket.begun = true;
    return run;
}

static void link_live(ppto_run *run)
{
    run->next_live = run->drivers->live;
    if (run->next_live) run->next_live->before_live = run;
    run->drivers->live = run;
}

static void unlink_live(ppto_run *run)
{
    if (run->before_live)
        run->before_live->next_live = run->next_live;
    else
        run->drivers->live = run->next_live;
    if (run->next_live) run->next_live->before_live = run->before_live;
}

/* ---- life ---------------------------------------------------------------------------------------- */

static void free_run(ppto_run *run)
{
    pp_drivers *drivers = run->drivers;
    for (size_t i = 0; i < run->n_outputs; i++) pp_array_drop(run->outputs[i], PP_HOLD_RUN_OBJECT, run->site);
    pp_free(run->outputs);
    pp_free(run);
    pp_drivers_unuse(drivers);
}

static void unuse(ppto_run *run)
{
    pthread_mutex_lock(&run->drivers->lock);
    bool last = --run->uses == 0;
    if (last) unlink_live(run);
    pthread_mutex_unlock(&run->drivers->lock);
    if (last) free_run(run);
}

/* The run is over; the driver's use goes. */
static void finish(ppto_run *run, const pp_error *err)
{
    ppto_program *program = run->program;
    pthread_mutex_lock(&run->drivers->lock);
    pp_progress_look(run);
    run->program = NULL; /* nobody stops it any more */
    pthread_mutex_unlock(&run->drivers->lock);
    pp_program_waits(program, false, run->site);
    pp_program_give(program);
    ppto_program_destroy(program);
    pthread_mutex_lock(&run->drivers->lock);
    run->status = err->code;
    run->error.code = err->code;
    memcpy(run->error.text, err->text, strlen(err->text) + 1);
    int line = (int)strcspn(err->text, "\n"); /* the reason goes to the first one */
    if (err->code == PPTO_E_CANCELLED && run->reason[0])
        snprintf(run->error.text, sizeof run->error.text, "%.*s: %s%.1500s", line < 400 ? line : 400,
                 err->text, run->reason, err->text + line);
    run->over = true;
    pthread_cond_broadcast(&run->drivers->changed);
    pthread_mutex_unlock(&run->drivers->lock);
    unuse(run);
}

void pp_run_end_unbegun(ppto_run *run, ppto_status status, const char *text)
{
    pp_error err = {.code = PPTO_OK};
    pp_fail(&err, status, "%s", text);
    pp_admission_leave(run->program->ctx, &run->ticket);
    if (run->program->sync) pp_sync_leave(run->program->sync, &err);
    finish(run, &err);
}

void pp_run_drive(ppto_run *run)
{
    pp_error err = {.code = PPTO_OK};
    const pp_run_control control = {.run = run,
                                    .cancel = run->program->stop,
                                    .deadline_ns = run->deadline_ns,
                                    .keep_going = run->options.policy == PPTO_KEEP_GOING,
                                    .taker = PP_HOLD_RUN_OBJECT,
                                    .site = run->site};
    (void)pp_run_program(run->program, run->outputs, &control, &run->ticket, &err);
    finish(run, &err);
}

void pp_run_watch(ppto_run *run, pp_dispatch *dispatch)
{
    pthread_mutex_lock(&run->drivers->lock);
    run->dispatch = dispatch;
    pthread_mutex_unlock(&run->drivers->lock);
}

void pp_run_stop(ppto_run *run, const char *reason)
{
    if (run->over) return;
    if (run->reason[0] == '\0' && reason) snprintf(run->reason, sizeof run->reason, "%.120s", reason);
    if (!run->program) return; /* it is over but for this object */
    ppto_program_cancel(run->program);
    if (run->dispatch) pp_dispatch_wake(run->dispatch);
    if (run->program->sync) pp_sync_poke(run->program->sync);
    pthread_cond_broadcast(&run->drivers->changed); /* it may wait for memory */
}

uint64_t pp_runs_live(const pp_drivers *drivers)
{
    uint64_t n = 0;
    for (const ppto_run *run = drivers->live; run; run = run->next_live) n++;
    return n;
}

void pp_runs_leave_programs(pp_drivers *drivers)
{
    for (ppto_run *run = drivers->live; run; run = run->next_live) {
        if (!run->program) continue;
        ppto_program_destroy(run->program);
        run->program = NULL;
    }
}

void pp_runs_leave_arrays(pp_drivers *drivers)
{
    for (ppto_run *run = drivers->live; run; run = run->next_live) {
        for (size_t i = 0; i < run->n_outputs; i++)
            pp_array_drop(run->outputs[i], PP_HOLD_RUN_OBJECT, run->site);
        run->n_outputs = 0;
    }
    drivers->ctx = NULL;
}

/* ---- starting ------------------------------------------------------------------------------------ */

static ppto_status read_options(const ppto_run_options *given, ppto_run_options *out, pp_error *err)
{
    static const ppto_run_options defaults = PPTO_RUN_OPTIONS_INIT;
    *out = defaults;
    if (!given) return PPTO_OK;
    if (given->size == 0 || given->size > sizeof *given)
        return pp_fail(err, PPTO_E_VALUE, "start: begin the options with PPTO_RUN_OPTIONS_INIT");
    memcpy(out, given, given->size);
    if (out->deadline_ns < 0)
        return pp_fail(err, PPTO_E_VALUE, "start: a deadline of %lld ns", (long long)out->deadline_ns);
    if (out->policy != PPTO_FAIL_FAST && out->policy != PPTO_KEEP_GOING)
        return pp_fail(err, PPTO_E_VALUE, "start: unknown policy %d", (int)out->policy);
    return PPTO_OK;
}

static ppto_status make_run(ppto_program *program, const ppto_run_options *options, ppto_run **out)
{
    ppto_run *run = pp_calloc(1, sizeof *run);
    size_t n = program->plan->flat.outputs.n;
    ppto_array **outputs = pp_calloc(n + 1, sizeof *outputs);
    if (!run || !outputs) {
        pp_free(run);
        pp_free(outputs);
        return PPTO_E_NOMEM;
    }
    int64_t now = options->deadline_ns != 0 ? pp_clock_ns() : 0;
    pp_progress_begin(&program->progress, 0);
    run->program = program;
    run->options = *options;
    run->outputs = outputs;
    run->n_outputs = n;
    run->uses = 2;
    if (options->deadline_ns != 0)
        run->deadline_ns = options->deadline_ns > INT64_MAX - now ? INT64_MAX : now + options->deadline_ns;
    *out = run;
    return PPTO_OK;
}

/* With the lock: takes its place on its streams and in the queue. */
static ppto_status submit(pp_drivers *drivers, ppto_run *run, pp_error *err)
{
    if (drivers->stop) return pp_fail(err, PPTO_E_CANCELLED, "the context is being destroyed");
    pp_sync_state *sync = run->program->sync;
    size_t queued = 1;
    for (const ppto_run *other = drivers->queue; other; other = other->next) queued++;
    PP_TRY(pp_drivers_wake(drivers, queued)); /* it looks when this lock is open */
    if (sync) PP_TRY(pp_sync_enter(sync, run->options.priority, err));
    run->priority = sync ? sync->priority : run->options.priority;
    run->number = sync ? sync->run : atomic_fetch_add(&drivers->ctx->runs, 1) + 1;
    run->order = ++drivers->order;
    run->drivers = drivers;
    drivers->uses++;
    atomic_fetch_add_explicit(&run->program->refs, 1, memory_order_relaxed);
    link_live(run);
    enqueue(drivers, run);
    pp_ticket_add(drivers, &run->ticket, run->priority, run->order, false);
    pp_drivers_watch(drivers);
    return PPTO_OK;
}

static ppto_status start(ppto_site site, ppto_program *program, const ppto_run_options *given, ppto_run **out,
                         pp_error *err)
{
    pp_drivers *drivers = NULL;
    ppto_run_options options;
    ppto_run *run = NULL;
    PP_TRY(read_options(given, &options, err));
    PP_TRY(pp_drivers_get(program->ctx, &drivers, err));
    if (!pp_program_take(program))
        return pp_fail(err, PPTO_E_BUSY,
                       "start: the program is running; wait for its run, or compile another of its outputs");
    ppto_status status = make_run(program, &options, &run);
    if (status == PPTO_OK) {
        run->site = site;
        pp_program_waits(program, true, site);
        pthread_mutex_lock(&drivers->lock);
        status = submit(drivers, run, err);
        pthread_mutex_unlock(&drivers->lock);
    }
    if (status == PPTO_OK) {
        *out = run;
        return PPTO_OK;
    }
    if (run) pp_program_waits(program, false, site);
    pp_program_give(program);
    if (run) pp_free(run->outputs);
    pp_free(run);
    return pp_fail(err, status, "start: %s", ppto_status_text(status));
}

ppto_status ppto_program_start_at(ppto_site site, ppto_program *program, const ppto_run_options *options,
                                  ppto_run **run)
{
    pp_error err = {0};
    if (!program || !run) return pp_report_new(PPTO_E_VALUE, "start: an argument is NULL");
    *run = NULL;
    (void)start(site, program, options, run, &err);
    return pp_report(&err);
}

/* ---- what the user asks -------------------------------------------------------------------------- */

static bool is_forked(const ppto_run *run)
{
    return !pp_process_is(run->drivers->process);
}

ppto_status pp_run_usable(const ppto_run *run, const char *what)
{
    if (!run) return pp_report_new(PPTO_E_VALUE, "%s: the run is NULL", what);
    if (is_forked(run))
        return pp_report_new(PPTO_E_FORKED, "%s: the run belongs to the parent process", what);
    return PPTO_OK;
}

ppto_status ppto_run_wait(ppto_run *run, int64_t timeout_ns)
{
    PP_TRY(pp_run_usable(run, "run wait"));
    if (pp_dispatch_inside())
        return pp_report_new(PPTO_E_WOULD_DEADLOCK, "run wait: from inside a run or a callback");
    int64_t now = pp_clock_ns(), until = 0;
    if (timeout_ns >= 0) until = timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
    bool in_time = true;
    pthread_mutex_lock(&run->drivers->lock);
    while (!run->over && in_time)
        in_time = pp_condition_wait(&run->drivers->changed, &run->drivers->lock, until);
    bool over = run->over;
    pthread_mutex_unlock(&run->drivers->lock);
    return over ? pp_report(&run->error) : pp_report_new(PPTO_E_TIMEOUT, "run wait: the time is over");
}

ppto_status ppto_run_cancel(ppto_run *run, const char *reason)
{
    PP_TRY(pp_run_usable(run, "run cancel"));
    pthread_mutex_lock(&run->drivers->lock);
    bool waited = pp_run_dequeue(run->drivers, run); /* then no driver has it, and it ends here */
    pp_run_stop(run, reason);
    pthread_mutex_unlock(&run->drivers->lock);
    if (waited) pp_run_end_unbegun(run, PPTO_E_CANCELLED, "the run was cancelled");
    return PPTO_OK;
}

bool ppto_run_over(ppto_run *run, ppto_status *status)
{
    if (pp_run_usable(run, "run over") != PPTO_OK) return false;
    pthread_mutex_lock(&run->drivers->lock);
    bool over = run->over;
    if (over && status) *status = run->status;
    pthread_mutex_unlock(&run->drivers->lock);
    return over;
}

const char *ppto_run_error(ppto_run *run)
{
    return ppto_run_over(run, NULL) && run->error.code != PPTO_OK ? run->error.text : "";
}

ppto_status ppto_run_outputs_at(ppto_site site, ppto_run *run, ppto_array **outputs)
{
    PP_TRY(pp_run_usable(run, "run outputs"));
    if (!outputs) return pp_report_new(PPTO_E_VALUE, "run outputs: the place for them is NULL");
    if (!ppto_run_over(run, NULL)) return pp_report_new(PPTO_E_BUSY, "run outputs: the run is not over");
    for (size_t i = 0; i < run->n_outputs; i++)
        outputs[i] = pp_array_hold(run->outputs[i], PP_HOLD_USER, site);
    return PPTO_OK;
}

uint64_t ppto_run_number(const ppto_run *run)
{
    return run ? run->number : 0;
}

/* The user wants them no more, even if the driver still holds the run for a moment. */
static void release_outputs(ppto_run *run)
{
    pthread_mutex_lock(&run->drivers->lock);
    size_t n = run->over ? run->n_outputs : 0;
    if (run->over) run->n_outputs = 0;
    pthread_mutex_unlock(&run->drivers->lock);
    for (size_t i = 0; i < n; i++) pp_array_drop(run->outputs[i], PP_HOLD_RUN_OBJECT, run->site);
}

void ppto_run_release(ppto_run *run)
{
    if (!run || is_forked(run)) return;
    release_outputs(run);
    unuse(run);
}
