/* SPDX-License-Identifier: Apache-2.0
 * What can only be read from its first byte to its last: an array in an archive, a pipe. A thread of its own
 * reads ahead and serves requests in order; their offsets count bytes of the data and never go back, and what
 * lies between two of them is read and thrown away. A pipe is waited for in short turns, so that an end is
 * heard although nobody writes. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "base/thread.h"
#include "runtime/region_run.h"

enum { STEP = 256 << 10, TURN_MS = 20 };

struct pp_sequence {
    pp_reader reader;
    bool owned; /* the reader: else the array's, which is a pipe's */
    int64_t at; /* bytes of the data that were read */
    char *dump;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pp_io_request *next[PP_REGION_DEPTH]; /* in order */
    size_t n;
    atomic_bool stop;
    pp_error why; /* of the first failure; the thread's until a request with it is done */
};

/* ---- the thread ---------------------------------------------------------------------------------------- */

/* Waits until something can be read; false: the end has come. */
static bool is_there(pp_sequence *s)
{
    struct pollfd wait = {.fd = s->reader.source.fd, .events = POLLIN};
    while (!atomic_load_explicit(&s->stop, memory_order_acquire))
        if (!s->reader.source.stream || poll(&wait, 1, TURN_MS) != 0) return true;
    return false;
}

static ppto_status read_bytes(pp_sequence *s, char *to, size_t n, size_t *moved)
{
    for (*moved = 0; *moved < n;) {
        size_t got, step = n - *moved < STEP ? n - *moved : STEP;
        if (!is_there(s)) return PPTO_E_CANCELLED;
        PP_TRY(pp_reader_next(&s->reader, to + *moved, step, &got, &s->why));
        if (got == 0) return pp_fail(&s->why, PPTO_E_FORMAT, "the data end too early");
        *moved += got;
        s->at += (int64_t)got;
    }
    return PPTO_OK;
}

static ppto_status serve(pp_sequence *s, pp_io_request *request)
{
    size_t moved;
    while (s->at < request->offset) {
        int64_t gap = request->offset - s->at;
        PP_TRY(read_bytes(s, s->dump, gap < STEP ? (size_t)gap : STEP, &moved));
    }
    PP_TRY(read_bytes(s, request->data, request->bytes, &request->moved));
    return s->at == (int64_t)s->reader.info.bytes ? pp_reader_end(&s->reader, &s->why) : PPTO_OK;
}

static void *live(void *arg)
{
    pp_sequence *s = arg;
    ppto_status status = PPTO_OK;
    pthread_mutex_lock(&s->lock);
    for (;;) {
        while (s->n == 0 && !atomic_load_explicit(&s->stop, memory_order_relaxed))
            pthread_cond_wait(&s->changed, &s->lock);
        if (s->n == 0) break;
        pp_io_request *request = s->next[0];
        memmove(s->next, s->next + 1, --s->n * sizeof *s->next);
        pthread_mutex_unlock(&s->lock);
        request->begun_ns = pp_clock_ns();
        if (status == PPTO_OK) status = serve(s, request); /* after a failure there is nothing to read */
        request->status = status;
        request->done_ns = pp_clock_ns();
        request->done(request);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ---- for the run --------------------------------------------------------------------------------------- */

void pp_sequence_submit(pp_sequence *s, pp_io_request *request)
{
    request->submitted_ns = pp_clock_ns();
    pthread_mutex_lock(&s->lock);
    s->next[s->n++] = request;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void pp_sequence_stop(pp_sequence *s)
{
    pthread_mutex_lock(&s->lock);
    atomic_store_explicit(&s->stop, true, memory_order_release);
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

ppto_status pp_sequence_result(const pp_sequence *s, const pp_io_request *request, pp_error *err)
{
    if (request->status == PPTO_OK) return PPTO_OK;
    return pp_fail(err, request->status, "%s",
                   s->why.text[0] ? s->why.text : ppto_status_text(request->status));
}

static ppto_status start(pp_sequence *s, pp_error *err)
{
    if (pthread_mutex_init(&s->lock, NULL) != 0) return pp_fail(err, PPTO_E_LIMIT, "no lock can be had");
    if (pthread_cond_init(&s->changed, NULL) == 0) {
        if (pp_thread_start(&s->thread, "ppto-read", live, s) == 0) return PPTO_OK;
        pthread_cond_destroy(&s->changed);
    }
    pthread_mutex_destroy(&s->lock);
    return pp_fail(err, PPTO_E_LIMIT, "no thread can be had to read it");
}

static void let_go(pp_sequence *s)
{
    if (s->owned) pp_reader_close(&s->reader);
    pp_free(s->dump);
    pp_free(s);
}

ppto_status pp_sequence_open(pp_array_file *file, pp_sequence **out, pp_error *err)
{
    pp_sequence *s = pp_calloc(1, sizeof *s);
    *out = NULL;
    if (!s) return PPTO_E_NOMEM;
    s->dump = pp_alloc(STEP);
    ppto_status status = s->dump ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) status = pp_array_file_reader(file, &s->reader, &s->owned, err);
    if (status == PPTO_OK) status = start(s, err);
    if (status == PPTO_OK)
        *out = s;
    else
        let_go(s);
    return status;
}

void pp_sequence_close(pp_sequence *s)
{
    if (!s) return;
    pp_sequence_stop(s);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    let_go(s);
}
