/* SPDX-License-Identifier: Apache-2.0
 * What can only be written from its first byte to its last: a result in an NPZ file. libzip asks for the
 * bytes of an entry while it closes the archive, so it does that on a thread of its own, which takes them
 * from the windows in the order they are submitted; a window is free again when its last byte was taken. The
 * reverse of region_sequence.c. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <string.h>

#include "base/thread.h"
#include "runtime/region_run.h"

struct pp_archive {
    pp_file_name name;
    pp_files_entry entry;
    int fd;
    size_t left; /* bytes of the data that were not taken; of the thread */
    pthread_t thread;
    pthread_mutex_t lock; /* of all below */
    pthread_cond_t changed;
    pp_io_request *next[PP_REGION_DEPTH]; /* in order; of the first request->moved bytes were taken */
    size_t n;
    bool stop, ended;
    ppto_status status; /* when it has ended */
    pp_error why;
};

/* ---- the thread ---------------------------------------------------------------------------------------- */

static void end_request(pp_io_request *request, ppto_status status)
{
    request->status = status;
    request->done_ns = pp_clock_ns();
    request->done(request);
}

/* The request that is to be taken from; NULL: the run stops. */
static pp_io_request *wait_for_bytes(pp_archive *a)
{
    pthread_mutex_lock(&a->lock);
    while (a->n == 0 && !a->stop) pthread_cond_wait(&a->changed, &a->lock);
    pp_io_request *request = a->stop ? NULL : a->next[0];
    pthread_mutex_unlock(&a->lock);
    return request;
}

static void take_first(pp_archive *a)
{
    pthread_mutex_lock(&a->lock);
    memmove(a->next, a->next + 1, --a->n * sizeof *a->next);
    pthread_mutex_unlock(&a->lock);
}

static ppto_status take_bytes(void *arg, void *bytes, size_t n, size_t *got,
                              PP_UNUSED const pp_files_watch *watch, pp_error *err)
{
    pp_archive *a = arg;
    *got = 0;
    if (a->left == 0 || n == 0) return PPTO_OK;
    pp_io_request *request = wait_for_bytes(a);
    if (!request) return pp_fail(err, PPTO_E_CANCELLED, "cancelled");
    if (request->begun_ns == 0) request->begun_ns = pp_clock_ns();
    *got = request->bytes - request->moved < n ? request->bytes - request->moved : n;
    memcpy(bytes, (const char *)request->data + request->moved, *got);
    request->moved += *got;
    a->left -= *got;
    if (request->moved < request->bytes) return PPTO_OK;
    take_first(a);
    end_request(request, PPTO_OK);
    return PPTO_OK;
}

static void *live(void *arg)
{
    pp_archive *a = arg;
    const pp_files_from from = {.read = take_bytes, .arg = a};
    pp_error why = {0};
    ppto_status status = pp_npz_write_from(a->fd, &a->entry, &from, &why);
    pthread_mutex_lock(&a->lock);
    a->status = status;
    a->why = why;
    a->ended = true;
    pthread_mutex_unlock(&a->lock);
    for (size_t i = 0; i < a->n; i++) end_request(a->next[i], status); /* nobody adds to them any more */
    return NULL;
}

/* ---- for the run --------------------------------------------------------------------------------------- */

void pp_archive_submit(pp_archive *a, pp_io_request *request)
{
    request->submitted_ns = pp_clock_ns();
    pthread_mutex_lock(&a->lock);
    bool ended = a->ended;
    if (!ended) a->next[a->n++] = request;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (ended) end_request(request, a->status != PPTO_OK ? a->status : PPTO_E_INTERNAL);
}

void pp_archive_stop(pp_archive *a)
{
    pthread_mutex_lock(&a->lock);
    a->stop = true;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

/* What the thread was refused, or what the status says. With the lock, or without the thread. */
static ppto_status fail_as_told(const pp_archive *a, ppto_status status, pp_error *err)
{
    return pp_fail(err, status, "%s", a->why.text[0] ? a->why.text : ppto_status_text(status));
}

ppto_status pp_archive_result(pp_archive *a, const pp_io_request *request, pp_error *err)
{
    if (request->status == PPTO_OK) return PPTO_OK;
    pthread_mutex_lock(&a->lock);
    (void)fail_as_told(a, request->status, err);
    pthread_mutex_unlock(&a->lock);
    return request->status;
}

static ppto_status start(pp_archive *a, pp_error *err)
{
    if (pthread_mutex_init(&a->lock, NULL) != 0) return pp_fail(err, PPTO_E_LIMIT, "no lock can be had");
    if (pthread_cond_init(&a->changed, NULL) == 0) {
        if (pp_thread_start(&a->thread, "ppto-write", live, a) == 0) return PPTO_OK;
        pthread_cond_destroy(&a->changed);
    }
    pthread_mutex_destroy(&a->lock);
    return pp_fail(err, PPTO_E_LIMIT, "no thread can be had to write it");
}

ppto_status pp_archive_open(const char *path, const pp_files_entry *entry, size_t bytes,
                            const pp_files_watch *watch, pp_sink *sink, pp_archive **out, pp_error *err)
{
    pp_archive *a = pp_calloc(1, sizeof *a);
    *out = NULL;
    if (!a) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    ppto_status status = pp_files_begin_in_order(path, watch, &a->name, sink, err);
    if (status == PPTO_OK) {
        a->entry = *entry;
        a->entry.name = a->name.name;
        a->fd = sink->fd;
        a->left = bytes;
        status = start(a, err);
        if (status == PPTO_OK) {
            *out = a;
            return status;
        }
        pp_sink_abandon(sink, watch);
        pp_file_name_free(&a->name);
    }
    pp_free(a);
    return status;
}

ppto_status pp_archive_close(pp_archive *a, pp_error *err)
{
    pthread_join(a->thread, NULL);
    ppto_status status = a->status;
    if (status != PPTO_OK) (void)fail_as_told(a, status, err);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    pp_file_name_free(&a->name);
    pp_free(a);
    return status;
}
