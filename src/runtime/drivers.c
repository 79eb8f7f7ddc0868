/* SPDX-License-Identifier: Apache-2.0
 * Threads of the context that run programs nobody waits for, and the order in which runs get memory.
 *
 * A run that waits in the queue when its deadline comes, since all drivers have one, is ended by a thread
 * that only watches; it is started when there is such a run.
 *
 * A driver takes the first run of the queue and does what ppto_program_run would; between runs it is parked
 * on a condition. Runs are ordered by priority, then by their start, and none stands before one that it waits
 * for (pp_sync_enter caps its priority). Memory is admitted in that order too: all that a run will take,
 * beside what the pool holds (also for arrays and results that somebody keeps) and what others were promised,
 * and only to the next of those that wait for it, so small runs never starve a large one. Every run has its
 * ticket from the moment it entered its streams. One whose run is still in the queue lets those pass that
 * entered before it (they may hold the driver it wants), but nobody who entered later and may wait for it. A
 * run that waits for another one therefore finds it begun and admitted, and always ends. */
#include "runtime/async_run.h"

/* ---- life ---------------------------------------------------------------------------------------- */

static ppto_status make_drivers(ppto_context *ctx, pp_drivers **out)
{
    pp_drivers *drivers = pp_calloc(1, sizeof *drivers);
    if (!drivers) return PPTO_E_NOMEM;
    drivers->ctx = ctx;
    drivers->process = ctx->process;
    drivers->uses = 1;
    if (pthread_mutex_init(&drivers->lock, NULL) != 0) goto fail_lock;
    if (pthread_cond_init(&drivers->work, NULL) != 0) goto fail_work;
    if (pp_condition_init(&drivers->changed) != 0) goto fail_changed;
    if (pp_condition_init(&drivers->due) != 0) goto fail_due;
    *out = drivers;
    return PPTO_OK;
fail_due:
    pthread_cond_destroy(&drivers->changed);
fail_changed:
    pthread_cond_destroy(&drivers->work);
fail_work:
    pthread_mutex_destroy(&drivers->lock);
fail_lock:
    pp_free(drivers);
    return PPTO_E_NOMEM;
}

ppto_status pp_drivers_get(ppto_context *ctx, pp_drivers **out, pp_error *err)
{
    ppto_status status = pp_context_check(ctx, err);
    *out = status == PPTO_OK ? atomic_load_explicit(&ctx->drivers, memory_order_acquire) : NULL;
    if (status != PPTO_OK || *out) return status;
    pthread_mutex_lock(&ctx->lock);
    *out = atomic_load_explicit(&ctx->drivers, memory_order_relaxed);
    if (!*out) {
        status = make_drivers(ctx, out);
        /* release: pairs with the acquire of whoever finds it without the lock */
        if (status == PPTO_OK) atomic_store_explicit(&ctx->drivers, *out, memory_order_release);
    }
    pthread_mutex_unlock(&ctx->lock);
    return status == PPTO_OK ? status : pp_fail(err, status, "no memory for runs on their own");
}

void pp_drivers_unuse(pp_drivers *drivers)
{
    pthread_mutex_lock(&drivers->lock);
    bool last = --drivers->uses == 0;
    pthread_mutex_unlock(&drivers->lock);
    if (!last) return;
    pthread_cond_destroy(&drivers->due);
    pthread_cond_destroy(&drivers->changed);
    pthread_cond_destroy(&drivers->work);
    pthread_mutex_destroy(&drivers->lock);
    pp_free(drivers);
}

/* ---- the threads --------------------------------------------------------------------------------- */

static void *drive(void *arg)
{
    pp_drivers *drivers = arg;
    pthread_mutex_lock(&drivers->lock);
    for (;;) {
        while (!drivers->queue && !drivers->stop) {
            drivers->idle++;
            pthread_cond_wait(&drivers->work, &drivers->lock);
            drivers->idle--;
        }
        if (!drivers->queue) break;
        ppto_run *run = pp_run_pop(drivers);
        drivers->driving++;
        pthread_mutex_unlock(&drivers->lock);
        pp_run_drive(run);
        pthread_mutex_lock(&drivers->lock);
        drivers->driving--;
    }
    pthread_mutex_unlock(&drivers->lock);
    return NULL;
}

ppto_status pp_drivers_wake(pp_drivers *drivers, size_t queued)
{
    if (queued > drivers->idle && drivers->n_threads < PP_MOST_DRIVERS &&
        pp_thread_start(&drivers->threads[drivers->n_threads], "ppto-run", drive, drivers) == 0)
        drivers->n_threads++;
    if (drivers->n_threads == 0) return PPTO_E_NOMEM;
    pthread_cond_signal(&drivers->work);
    return PPTO_OK;
}

/* ---- deadlines in the queue ---------------------------------------------------------------------- */

/* The queued run whose deadline comes first; NULL: none has one. */
static ppto_run *first_due(const pp_drivers *drivers)
{
    ppto_run *first = NULL;
    for (ppto_run *run = drivers->queue; run; run = run->next)
        if (run->deadline_ns != 0 && (!first || run->deadline_ns < first->deadline_ns)) first = run;
    return first;
}

static void *watch(void *arg)
{
    pp_drivers *drivers = arg;
    pthread_mutex_lock(&drivers->lock);
    while (!drivers->stop) {
        ppto_run *run = first_due(drivers);
        bool due = run && run->deadline_ns <= pp_clock_ns();
        if (!due) {
            (void)pp_condition_wait(&drivers->due, &drivers->lock, run ? run->deadline_ns : 0);
            continue;
        }
        (void)pp_run_dequeue(drivers, run);
        pthread_mutex_unlock(&drivers->lock);
        pp_run_end_unbegun(run, PPTO_E_DEADLINE, "the run passed its deadline before it could begin");
        pthread_mutex_lock(&drivers->lock);
    }
    pthread_mutex_unlock(&drivers->lock);
    return NULL;
}

void pp_drivers_watch(pp_drivers *drivers)
{
    size_t queued = 0;
    for (const ppto_run *run = drivers->queue; run; run = run->next) queued++;
    if (queued <= drivers->n_threads - drivers->driving || !first_due(drivers)) return;
    if (!drivers->has_watch)
        drivers->has_watch = pp_thread_start(&drivers->watch, "ppto-watch", watch, drivers) == 0;
    pthread_cond_signal(&drivers->due);
}

void pp_drivers_close(ppto_context *ctx)
{
    pp_drivers *drivers = atomic_load_explicit(&ctx->drivers, memory_order_acquire);
    if (!drivers) return;
    pthread_mutex_lock(&drivers->lock);
    drivers->stop = true;
    for (ppto_run *run = drivers->live; run; run = run->next_live)
        pp_run_stop(run, "the context is being destroyed");
    pthread_cond_broadcast(&drivers->work);
    pthread_cond_broadcast(&drivers->changed);
    pthread_cond_broadcast(&drivers->due);
    uint32_t n = drivers->n_threads;
    pthread_mutex_unlock(&drivers->lock);
    if (drivers->has_watch) pthread_join(drivers->watch, NULL);
    for (uint32_t i = 0; i < n; i++) pthread_join(drivers->threads[i], NULL);
    pp_runs_leave_programs(drivers);
}

void pp_drivers_destroy(ppto_context *ctx)
{
    pp_drivers *drivers = atomic_load_explicit(&ctx->drivers, memory_order_acquire);
    if (!drivers) return;
    pp_runs_leave_arrays(drivers);
    pp_drivers_unuse(drivers);
}

/* ---- admission ----------------------------------------------------------------------------------- */

void pp_ticket_add(pp_drivers *drivers, pp_ticket *ticket, int priority, uint64_t order, bool begun)
{
    pp_ticket **at = &drivers->tickets;
    *ticket = (pp_ticket){.priority = priority, .order = order, .begun = begun};
    while (*at && ((*at)->priority > priority || ((*at)->priority == priority && (*at)->order < order)))
        at = &(*at)->next;
    ticket->next = *at;
    *at = ticket;
}

ppto_status pp_admission_enter(ppto_program *p, pp_ticket *ticket, pp_error *err)
{
    pp_drivers *drivers = atomic_load_explicit(&p->ctx->drivers, memory_order_acquire);
    pthread_mutex_lock(&drivers->lock);
    ppto_status status = drivers->stop ? pp_fail(err, PPTO_E_CANCELLED, "the context is being destroyed")
                         : p->sync     ? pp_sync_enter(p->sync, 0, err)
                                       : PPTO_OK;
    if (status == PPTO_OK)
        pp_ticket_add(drivers, ticket, p->sync ? p->sync->priority : 0, ++drivers->order, true);
    pthread_mutex_unlock(&drivers->lock);
    return status;
}

/* The first that has begun and entered before all in the queue that stand before it. A driver takes the head
 * of the queue, so what it runs entered before whatever stands before it there: there always is one, or a
 * driver that will make one. */
static bool is_next(const pp_drivers *drivers, const pp_ticket *ticket)
{
    uint64_t queued = UINT64_MAX;
    for (const pp_ticket *t = drivers->tickets; t; t = t->next) {
        if (!t->begun && t->order < queued) queued = t->order;
        if (t->begun && t->order < queued) return t == ticket;
    }
    return false;
}

static void take_ticket(pp_drivers *drivers, pp_ticket *ticket)
{
    pp_ticket **at = &drivers->tickets;
    while (*at != ticket) at = &(*at)->next;
    *at = ticket->next;
    pthread_cond_broadcast(&drivers->changed); /* another one is the first now */
}

ppto_status pp_run_stopped(const pp_run_control *control, pp_error *err)
{
    if (__atomic_load_n(control->cancel, __ATOMIC_RELAXED) != 0)
        return pp_fail(err, PPTO_E_CANCELLED, "the run was cancelled");
    if (control->deadline_ns != 0 && pp_clock_ns() >= control->deadline_ns)
        return pp_fail(err, PPTO_E_DEADLINE, "the run passed its deadline");
    return PPTO_OK;
}

int64_t pp_run_look_again(const pp_run_control *control)
{
    int64_t poll = pp_clock_ns() + PP_CANCEL_POLL_NS;
    return control->deadline_ns == 0 || poll < control->deadline_ns ? poll : control->deadline_ns;
}

/* A run that is alone is let through, to be told what is wrong. */
static bool fits(const pp_drivers *drivers, uint64_t bytes)
{
    uint64_t limit = pp_pool_get_limit(drivers->ctx->pool);
    pp_pool_counters now;
    if (limit == 0 || drivers->n_admitted == 0) return true;
    pp_pool_count(drivers->ctx->pool, &now);
    uint64_t used = now.current_bytes + drivers->promised_bytes;
    return used <= limit && bytes <= limit - used;
}

ppto_status pp_admission_wait(ppto_context *ctx, pp_ticket *ticket, uint64_t bytes,
                              const pp_run_control *control, pp_error *err)
{
    pp_drivers *drivers = atomic_load_explicit(&ctx->drivers, memory_order_acquire);
    ppto_status status = PPTO_OK;
    ticket->bytes = bytes;
    pthread_mutex_lock(&drivers->lock);
    for (;;) {
        status = pp_run_stopped(control, err);
        if (status != PPTO_OK || (is_next(drivers, ticket) && fits(drivers, bytes))) break;
        (void)pp_condition_wait(&drivers->changed, &drivers->lock, pp_run_look_again(control));
    }
    if (status == PPTO_OK) {
        take_ticket(drivers, ticket);
        ticket->admitted = true;
        drivers->n_admitted++;
        drivers->promised_bytes += bytes;
    }
    pthread_mutex_unlock(&drivers->lock);
    return status;
}

/* With the lock. */
static void settle(pp_drivers *drivers, pp_ticket *ticket)
{
    drivers->promised_bytes -= ticket->bytes;
    ticket->bytes = 0;
    pthread_cond_broadcast(&drivers->changed);
}

void pp_admission_settle(ppto_context *ctx, pp_ticket *ticket)
{
    pp_drivers *drivers = atomic_load_explicit(&ctx->drivers, memory_order_acquire);
    pthread_mutex_lock(&drivers->lock);
    settle(drivers, ticket);
    pthread_mutex_unlock(&drivers->lock);
}

void pp_admission_leave(ppto_context *ctx, pp_ticket *ticket)
{
    pp_drivers *drivers = atomic_load_explicit(&ctx->drivers, memory_order_acquire);
    pthread_mutex_lock(&drivers->lock);
    if (ticket->admitted) {
        drivers->n_admitted--;
        settle(drivers, ticket);
    } else {
        take_ticket(drivers, ticket);
    }
    pthread_mutex_unlock(&drivers->lock);
}
