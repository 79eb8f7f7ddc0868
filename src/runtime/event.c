/* SPDX-License-Identifier: Apache-2.0
 * Events: the table of the context, how they begin and end, and those who wait. An event may begin many times
 * (once in every run that records it); a wait means one beginning, so a late or an early one cannot be taken
 * for it. Handles name a row and its generation: rows are used again, handles never match again. */
#include <stdio.h>
#include <string.h>

#include "runtime/sync.h"

/* ---- the table ----------------------------------------------------------------------------------- */

static ppto_status make_syncs(pp_syncs **out)
{
    pp_syncs *syncs = pp_calloc(1, sizeof *syncs);
    if (!syncs) return PPTO_E_NOMEM;
    if (pthread_mutex_init(&syncs->lock, NULL) != 0) goto fail_lock;
    if (pthread_cond_init(&syncs->wanted, NULL) != 0) goto fail_wanted;
    *out = syncs;
    return PPTO_OK;
fail_wanted:
    pthread_mutex_destroy(&syncs->lock);
fail_lock:
    pp_free(syncs);
    return PPTO_E_NOMEM;
}

ppto_status pp_syncs_get(ppto_context *ctx, pp_syncs **out, pp_error *err)
{
    *out = NULL;
    PP_TRY(pp_context_check(ctx, err));
    pthread_mutex_lock(&ctx->lock);
    ppto_status status = ctx->syncs ? PPTO_OK : make_syncs(&ctx->syncs);
    *out = ctx->syncs;
    pthread_mutex_unlock(&ctx->lock);
    return status == PPTO_OK ? status : pp_fail(err, status, "no memory for streams and events");
}

uint64_t pp_event_id(const pp_event_row *row)
{
    return (uint64_t)(row->index + 1) << 32 | row->generation;
}

pp_event_row *pp_event_row_of(pp_syncs *syncs, uint64_t id, pp_error *err)
{
    uint64_t index = (id >> 32) - 1;
    pp_event_row *row = id >> 32 != 0 && index < syncs->rows.n ? syncs->rows.at[index] : NULL;
    if (row && row->generation == (uint32_t)id && row->handles + row->uses != 0) return row;
    pp_fail(err, PPTO_E_VALUE, "the event was released, or never was");
    return NULL;
}

ppto_status pp_event_new(pp_syncs *syncs, bool user, pp_event_row **out)
{
    pp_event_row *row = NULL;
    if (syncs->vacant.n != 0) {
        row = syncs->rows.at[syncs->vacant.at[--syncs->vacant.n]];
    } else {
        PP_TRY(pp_vec_reserve(&syncs->vacant, syncs->rows.n + 1)); /* giving a row back never fails */
        PP_TRY(pp_vec_reserve(&syncs->rows, syncs->rows.n + 1));
        if (!(row = pp_calloc(1, sizeof *row))) return PPTO_E_NOMEM;
        row->index = (uint32_t)syncs->rows.n;
        syncs->rows.at[syncs->rows.n++] = row;
    }
    *row = (pp_event_row){.index = row->index, .generation = row->generation + 1, .handles = 1};
    row->user = user;
    row->begun = user;
    row->priority = INT32_MAX;
    *out = row;
    return PPTO_OK;
}

static void drop_row(pp_syncs *syncs, pp_event_row *row)
{
    if (row->handles + row->uses == 0) syncs->vacant.at[syncs->vacant.n++] = row->index;
}

void pp_event_unuse(pp_syncs *syncs, pp_event_row *row)
{
    row->uses--;
    drop_row(syncs, row);
}

/* ---- ends ---------------------------------------------------------------------------------------- */

static void queue_call(pp_syncs *syncs, pp_event_wait *wait)
{
    wait->next = NULL;
    if (syncs->last_call)
        syncs->last_call->next = wait;
    else
        syncs->first_call = wait;
    syncs->last_call = wait;
    pthread_cond_signal(&syncs->wanted);
}

static void end_wait(pp_syncs *syncs, pp_event_wait *wait, ppto_status status, const ppto_poison *poison,
                     pp_told *told)
{
    wait->done = true;
    wait->status = status;
    if (status != PPTO_OK) wait->poison = *poison;
    if (wait->kind == PP_WAIT_CALL) queue_call(syncs, wait);
    if (wait->woken) pthread_cond_signal(wait->woken);
    if (wait->kind != PP_WAIT_STEP || !wait->armed) return;
    wait->armed = false;
    wait->next = told->waits;
    told->waits = wait;
}

void pp_event_end(pp_syncs *syncs, pp_event_row *row, uint64_t target, ppto_status status,
                  const ppto_poison *poison, pp_told *told)
{
    if (target > row->finished) { /* cancelled runs end out of order */
        row->finished = target;
        row->status = status;
        if (status != PPTO_OK) row->poison = *poison;
    }
    row->uses++; /* the last wait may be the last use */
    for (pp_event_wait **at = &row->waits; *at;) {
        pp_event_wait *wait = *at;
        if (wait->target != target) {
            at = &wait->next;
            continue;
        }
        *at = wait->next;
        row->uses--;
        end_wait(syncs, wait, status, poison, told);
    }
    pp_event_unuse(syncs, row);
}

void pp_tell(pp_told *told)
{
    while (told->waits) { /* a step completed may be the end of its run, and of this memory */
        pp_event_wait *wait = told->waits;
        told->waits = wait->next;
        pp_error err = {.code = PPTO_OK};
        if (wait->status != PPTO_OK)
            pp_fail(&err, wait->status, "the event is poisoned: %s", wait->poison.text);
        pp_dispatch_complete(wait->dispatch, wait->step, 0, wait->status, &err);
    }
    while (told->gates) {
        pp_stream_entry *entry = told->gates;
        told->gates = entry->tell;
        pp_dispatch_complete(entry->dispatch, entry->step, 0, PPTO_OK, NULL);
    }
}

/* ---- the control thread -------------------------------------------------------------------------- */

static void *control_main(void *arg)
{
    pp_syncs *syncs = arg;
    (void)pp_dispatch_mark_inside(true); /* what a callback would wait for may need this thread */
    pthread_mutex_lock(&syncs->lock);
    while (syncs->first_call || !syncs->stop) {
        pp_event_wait *call = syncs->first_call;
        if (!call) {
            pthread_cond_wait(&syncs->wanted, &syncs->lock);
            continue;
        }
        syncs->first_call = call->next;
        if (!call->next) syncs->last_call = NULL;
        pthread_mutex_unlock(&syncs->lock);
        call->fn(call->arg, call->status);
        pp_free(call);
        pthread_mutex_lock(&syncs->lock);
    }
    pthread_mutex_unlock(&syncs->lock);
    return NULL;
}

static ppto_status start_control(pp_syncs *syncs)
{
    if (syncs->has_control) return PPTO_OK;
    if (pp_thread_start(&syncs->control, "ppto-control", control_main, syncs) != 0) return PPTO_E_NOMEM;
    syncs->has_control = true;
    return PPTO_OK;
}

/* Calls whose event will not end any more. */
static void cancel_calls(pp_syncs *syncs)
{
    for (size_t i = 0; i < syncs->rows.n; i++)
        while (syncs->rows.at[i]->waits) {
            pp_event_wait *wait = syncs->rows.at[i]->waits;
            syncs->rows.at[i]->waits = wait->next;
            wait->done = true;
            wait->status = PPTO_E_CANCELLED;
            if (wait->kind == PP_WAIT_CALL) queue_call(syncs, wait);
        }
}

static void free_calls(pp_syncs *syncs)
{
    while (syncs->first_call) {
        pp_event_wait *next = syncs->first_call->next;
        pp_free(syncs->first_call);
        syncs->first_call = next;
    }
}

void pp_syncs_destroy(pp_syncs *syncs)
{
    if (!syncs) return;
    pthread_mutex_lock(&syncs->lock);
    cancel_calls(syncs);
    syncs->stop = true;
    pthread_cond_signal(&syncs->wanted);
    bool joins = syncs->has_control;
    pthread_mutex_unlock(&syncs->lock);
    if (joins) pthread_join(syncs->control, NULL);
    pthread_cond_destroy(&syncs->wanted);
    pthread_mutex_destroy(&syncs->lock);
    free_calls(syncs);
    while (syncs->streams) {
        ppto_stream *next = syncs->streams->next;
        pp_free(syncs->streams->name);
        pp_free(syncs->streams);
        syncs->streams = next;
    }
    for (size_t i = 0; i < syncs->rows.n; i++) pp_free(syncs->rows.at[i]);
    pp_vec_free(&syncs->rows);
    pp_vec_free(&syncs->vacant);
    pp_free(syncs);
}

/* ---- handles ------------------------------------------------------------------------------------- */

/* The table of a handle's context, locked; NULL with the error reported. */
static pp_syncs *open_table(ppto_event event, pp_event_row **row, ppto_status *status)
{
    pp_error err = {0};
    *status = pp_context_check(event.context, &err);
    pp_syncs *syncs = *status == PPTO_OK ? event.context->syncs : NULL;
    if (*status == PPTO_OK && !syncs) *status = pp_fail(&err, PPTO_E_VALUE, "the event never was");
    if (*status == PPTO_OK) {
        pthread_mutex_lock(&syncs->lock);
        *row = pp_event_row_of(syncs, event.id, &err);
        if (*row) return syncs;
        pthread_mutex_unlock(&syncs->lock);
        *status = err.code;
    }
    pp_report(&err);
    return NULL;
}

ppto_status ppto_event_create_user(ppto_context *ctx, ppto_event *event)
{
    pp_error err = {0};
    pp_syncs *syncs;
    pp_event_row *row = NULL;
    if (!event) return pp_report_new(PPTO_E_VALUE, "event: the place for it is NULL");
    *event = (ppto_event){NULL, 0};
    ppto_status status = pp_syncs_get(ctx, &syncs, &err);
    if (status != PPTO_OK) return pp_report(&err);
    pthread_mutex_lock(&syncs->lock);
    status = pp_event_new(syncs, true, &row);
    if (status == PPTO_OK) *event = (ppto_event){ctx, pp_event_id(row)};
    pthread_mutex_unlock(&syncs->lock);
    return status == PPTO_OK ? status : pp_report_new(status, "no memory for an event");
}

static ppto_poison poison_of_user(ppto_status status, const char *text)
{
    ppto_poison poison = {.status = status};
    snprintf(poison.text, sizeof poison.text, "%s (%s)", text, ppto_status_text(status));
    return poison;
}

ppto_status ppto_event_signal(ppto_event event, ppto_status status)
{
    pp_told told = {NULL, NULL};
    pp_event_row *row;
    ppto_status result;
    pp_syncs *syncs = open_table(event, &row, &result);
    if (!syncs) return result;
    bool user = row->user, fresh = row->finished == 0;
    if (user && fresh) {
        ppto_poison poison = poison_of_user(status, "signalled with a failure");
        pp_event_end(syncs, row, 1, status, &poison, &told);
    }
    pthread_mutex_unlock(&syncs->lock);
    pp_tell(&told);
    if (!user) return pp_report_new(PPTO_E_VALUE, "signal: the event is recorded by a graph");
    return fresh ? PPTO_OK : pp_report_new(PPTO_E_BUSY, "signal: the event was signalled before");
}

ppto_status ppto_event_retain(ppto_event event)
{
    pp_event_row *row;
    ppto_status status;
    pp_syncs *syncs = open_table(event, &row, &status);
    if (!syncs) return status;
    row->handles++;
    pthread_mutex_unlock(&syncs->lock);
    return PPTO_OK;
}

void ppto_event_release(ppto_event event)
{
    pp_told told = {NULL, NULL};
    pp_event_row *row;
    ppto_status status;
    pp_syncs *syncs = event.context ? open_table(event, &row, &status) : NULL;
    if (!syncs) return;
    if (row->handles != 0) row->handles--;
    row->uses++;
    if (row->handles == 0 && row->user && row->finished == 0) {
        ppto_poison poison =
            poison_of_user(PPTO_E_CANCELLED, "the user's event was released before it was signalled");
        pp_event_end(syncs, row, 1, PPTO_E_CANCELLED, &poison, &told);
    }
    pp_event_unuse(syncs, row);
    pthread_mutex_unlock(&syncs->lock);
    pp_tell(&told);
}

ppto_status ppto_event_query(ppto_event event, ppto_event_state *state)
{
    pp_event_row *row;
    ppto_status status;
    if (!state) return pp_report_new(PPTO_E_VALUE, "event: the place for its state is NULL");
    pp_syncs *syncs = open_table(event, &row, &status);
    if (!syncs) return status;
    *state = row->begun == 0               ? PPTO_EVENT_NOT_SCHEDULED
             : row->finished != row->begun ? PPTO_EVENT_PENDING
             : row->status == PPTO_OK      ? PPTO_EVENT_DONE
                                           : PPTO_EVENT_POISONED;
    pthread_mutex_unlock(&syncs->lock);
    return PPTO_OK;
}

ppto_status ppto_event_poison(ppto_event event, ppto_poison *poison)
{
    pp_event_row *row;
    ppto_status status;
    if (!poison) return pp_report_new(PPTO_E_VALUE, "event: the place for its poison is NULL");
    *poison = (ppto_poison){.status = PPTO_OK};
    pp_syncs *syncs = open_table(event, &row, &status);
    if (!syncs) return status;
    bool poisoned = row->begun != 0 && row->finished == row->begun && row->status != PPTO_OK;
    if (poisoned) *poison = row->poison;
    pthread_mutex_unlock(&syncs->lock);
    return poisoned ? PPTO_OK : pp_report_new(PPTO_E_VALUE, "the event is not poisoned");
}

/* ---- waits of the user --------------------------------------------------------------------------- */

static void link_wait(pp_event_row *row, pp_event_wait *wait)
{
    wait->next = row->waits;
    row->waits = wait;
    row->uses++;
}

static void unlink_wait(pp_syncs *syncs, pp_event_row *row, pp_event_wait *wait)
{
    pp_event_wait **at = &row->waits;
    while (*at != wait) at = &(*at)->next;
    *at = wait->next;
    pp_event_unuse(syncs, row);
}

static int64_t time_after(int64_t timeout_ns)
{
    int64_t now = pp_clock_ns();
    return timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
}

static ppto_status wait_for(pp_syncs *syncs, pp_event_row *row, int64_t timeout_ns, pthread_cond_t *woken,
                            ppto_poison *poison)
{
    if (row->begun == 0) return PPTO_E_NOT_SCHEDULED;
    *poison = row->poison;
    if (row->finished == row->begun) return row->status;
    pp_event_wait wait = {.kind = PP_WAIT_CALLER, .target = row->begun, .woken = woken};
    int64_t until = timeout_ns < 0 ? 0 : time_after(timeout_ns);
    bool in_time = true;
    link_wait(row, &wait);
    while (!wait.done && in_time) in_time = pp_condition_wait(woken, &syncs->lock, until);
    *poison = wait.poison;
    if (wait.done) return wait.status;
    unlink_wait(syncs, row, &wait);
    return PPTO_E_TIMEOUT;
}

ppto_status ppto_event_wait(ppto_event event, int64_t timeout_ns)
{
    pp_event_row *row;
    ppto_status status;
    ppto_poison poison;
    pthread_cond_t woken;
    if (pp_dispatch_inside())
        return pp_report_new(PPTO_E_WOULD_DEADLOCK, "event wait: from inside a run or a callback");
    pp_syncs *syncs = open_table(event, &row, &status);
    if (!syncs) return status;
    bool waits = pp_condition_init(&woken) == 0;
    status = waits ? wait_for(syncs, row, timeout_ns, &woken, &poison) : PPTO_E_NOMEM;
    pthread_mutex_unlock(&syncs->lock);
    if (!waits) return pp_report_new(status, "event wait: no lock can be had");
    pthread_cond_destroy(&woken);
    if (status == PPTO_OK) return PPTO_OK;
    if (status == PPTO_E_NOT_SCHEDULED)
        return pp_report_new(status, "event wait: no run has begun the event");
    if (status == PPTO_E_TIMEOUT) return pp_report_new(status, "event wait: the time is over");
    return pp_report_new(status, "the event is poisoned: %s", poison.text);
}

ppto_status ppto_event_then(ppto_event event, ppto_event_fn fn, void *arg)
{
    pp_event_row *row;
    ppto_status status;
    if (!fn) return pp_report_new(PPTO_E_VALUE, "event then: the function is NULL");
    pp_event_wait *wait = pp_calloc(1, sizeof *wait);
    if (!wait) return pp_report_new(PPTO_E_NOMEM, "out of memory");
    *wait = (pp_event_wait){.kind = PP_WAIT_CALL, .fn = fn, .arg = arg};
    pp_syncs *syncs = open_table(event, &row, &status);
    if (!syncs) {
        pp_free(wait);
        return status;
    }
    status = start_control(syncs);
    wait->target = row->begun != 0 ? row->begun : 1;
    wait->status = row->status;
    if (status == PPTO_OK && row->begun != 0 && row->finished == row->begun)
        queue_call(syncs, wait);
    else if (status == PPTO_OK)
        link_wait(row, wait);
    pthread_mutex_unlock(&syncs->lock);
    if (status == PPTO_OK) return PPTO_OK;
    pp_free(wait);
    return pp_report_new(status, "event then: the control thread cannot be started");
}
