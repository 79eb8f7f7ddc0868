/* SPDX-License-Identifier: Apache-2.0
 * A transfer: one range of a file, in requests of a few MiB, two of which are under way. The callback of one
 * submits the next, so no thread waits. Of several failures the one nearest to the start is told, whatever
 * the timing.
 *
 * Whoever may still touch the transfer has a hold on it: each request until its callback is through, and who
 * starts it. Whoever gives back the last one ends it. A thread that stops it cancels what is under way; a
 * request that is submitted at that moment is cancelled by who submits it, who looks again afterwards. */
#include <pthread.h>

#include "runtime/file_steps.h"

ppto_status pp_transfer_make(pp_transfer *t)
{
    return pthread_mutex_init(&t->lock, NULL) == 0 ? PPTO_OK : PPTO_E_LIMIT;
}

void pp_transfer_free(pp_transfer *t)
{
    pthread_mutex_destroy(&t->lock);
}

void pp_transfer_ready(pp_transfer *t)
{
    t->stop = false;
    t->holds = 0;
    t->asked = t->done = 0;
    t->failed_at = SIZE_MAX;
    pp_error_clear(&t->error);
    for (int i = 0; i < PP_TRANSFER_DEPTH; i++) t->request[i] = (pp_io_request){.bytes = 0};
}

static size_t all_of(const pp_transfer *t)
{
    return t->bytes + t->to_end;
}

/* ---- the next request ---------------------------------------------------------------------------- */

static void done(pp_io_request *request);

/* With the lock. False: there is nothing to ask for. */
static bool take_next(pp_transfer *t, int i)
{
    if (t->stop || t->failed_at != SIZE_MAX || t->asked == all_of(t)) return false;
    size_t left = t->bytes - t->asked, n = left < PP_FILES_STEP ? left : PP_FILES_STEP;
    t->at[i] = t->asked;
    t->request[i] = (pp_io_request){.op = t->op,
                                    .may_end = t->op == PP_IO_READ,
                                    .file = &t->file,
                                    .offset = t->offset + (int64_t)t->asked,
                                    .data = n != 0 ? (char *)t->data + t->asked : &t->behind,
                                    .bytes = n != 0 ? n : 1,
                                    .share = t->share,
                                    .done = done,
                                    .owner = t};
    t->asked += t->request[i].bytes;
    t->holds++;
    return true;
}

/* The caller has a hold. */
static void issue(pp_transfer *t, int i)
{
    pthread_mutex_lock(&t->lock);
    bool any = take_next(t, i);
    pthread_mutex_unlock(&t->lock);
    if (!any) return;
    pp_io_submit(t->engine, &t->request[i]);
    pthread_mutex_lock(&t->lock);
    bool stop = t->stop;
    pthread_mutex_unlock(&t->lock);
    if (stop) pp_io_cancel(t->engine, &t->request[i]);
}

/* ---- what became of it --------------------------------------------------------------------------- */

static void fails(pp_transfer *t, size_t at, const pp_error *why)
{
    if (at >= t->failed_at) return;
    t->failed_at = at;
    t->error = *why;
}

/* With the lock. */
static void account(pp_transfer *t, int i)
{
    const pp_io_request *request = &t->request[i];
    bool behind = t->at[i] == t->bytes;
    pp_error why = {.code = PPTO_OK};
    if (request->status == PPTO_E_CANCELLED && t->stop) return;
    if (request->status != PPTO_OK)
        (void)pp_io_result(request, &why);
    else if (behind && t->to_end && request->moved != 0)
        pp_fail(&why, PPTO_E_FORMAT, "bytes follow the array");
    else if (!behind && request->moved < request->bytes)
        pp_fail(&why, PPTO_E_FORMAT, "the array is cut off: %zu bytes of data missing",
                t->bytes - t->at[i] - request->moved);
    if (why.code != PPTO_OK)
        fails(t, t->at[i] + request->moved, &why);
    else
        t->done += request->bytes;
}

static void end(pp_transfer *t)
{
    t->status = t->failed_at != SIZE_MAX ? t->error.code : t->done != all_of(t) ? PP_STEP_WITHDRAWN : PPTO_OK;
    t->ended(t);
}

static void let_go(pp_transfer *t)
{
    pthread_mutex_lock(&t->lock);
    bool last = --t->holds == 0;
    pthread_mutex_unlock(&t->lock);
    if (last) end(t);
}

static void done(pp_io_request *request)
{
    pp_transfer *t = request->owner;
    int i = request == &t->request[0] ? 0 : 1;
    if (t->at[i] != t->bytes) /* relaxed: a number to show */
        atomic_fetch_add_explicit(t->moved, request->moved, memory_order_relaxed);
    pthread_mutex_lock(&t->lock);
    account(t, i);
    pthread_mutex_unlock(&t->lock);
    issue(t, i);
    let_go(t);
}

/* ---- start and stop ------------------------------------------------------------------------------ */

void pp_transfer_start(pp_transfer *t)
{
    pthread_mutex_lock(&t->lock);
    t->holds++;
    pthread_mutex_unlock(&t->lock);
    for (int i = 0; i < PP_TRANSFER_DEPTH; i++) issue(t, i);
    let_go(t);
}

void pp_transfer_stop(pp_transfer *t)
{
    pthread_mutex_lock(&t->lock);
    bool under_way = t->holds != 0;
    t->stop = true;
    t->holds += under_way;
    pthread_mutex_unlock(&t->lock);
    if (!under_way) return;
    for (int i = 0; i < PP_TRANSFER_DEPTH; i++) pp_io_cancel(t->engine, &t->request[i]);
    let_go(t);
}
