/* SPDX-License-Identifier: Apache-2.0
 * The I/O engine on libuv: a loop of its own on a thread of its own, calls on libuv's pool of threads. Other
 * threads only put requests into the queue and ring (uv_async_send, which coalesces). Pieces are
 * uv_queue_work with our own call rather than uv_fs_read: the same code as the other engines, and never
 * libuv's io_uring, which burns a core in some versions. Streams wait in io->epoll, which the loop watches
 * like any descriptor.
 *
 * Neither the default loop nor the environment is touched. libuv ends the process when the threads of its
 * pool cannot be had, so open first tries whether as many threads can be.
 *
 * At the end of a process libuv ends its pool, and calling that later is fatal: so from then on nothing is
 * begun. It joins the threads also in a forked child, where they are not, and the child would crash in exit:
 * so a child of a process that used the pool makes it anew before that. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <uv.h>

#include "base/fork.h"
#include "scheduler/io_engine.h"

enum { POOL = 4, MOST_POOL = 1024 /* libuv's */, PIECES_A_TURN = 8 };

typedef struct job {
    uv_work_t work;
    pp_io *io;
    pp_io_slot *slot;
} job;

typedef struct crew {
    uv_loop_t loop;
    uv_async_t bell;
    uv_poll_t streams;
    pthread_t thread;
    bool ends; /* the handles are closing */
    job jobs[];
} crew;

/* The size of the pool as libuv reads it. */
static uint32_t pool_size(void)
{
    const char *wanted = getenv("UV_THREADPOOL_SIZE");
    if (wanted == NULL) return POOL;
    int n = atoi(wanted);
    return n <= 0 ? 1 : n > MOST_POOL ? MOST_POOL : (uint32_t)n;
}

/* ---- on the loop's thread ---------------------------------------------------------------------- */

static void pump(pp_io *io)
{
    crew *mine = io->own;
    pp_io_pump(io);
    if (!io->closing || mine->ends || !pp_io_idle(io)) return;
    mine->ends = true;
    uv_close((uv_handle_t *)&mine->bell, NULL);
    uv_close((uv_handle_t *)&mine->streams, NULL);
}

static void rung(uv_async_t *bell)
{
    pp_io *io = bell->data;
    pthread_mutex_lock(&io->lock);
    pump(io);
    pthread_mutex_unlock(&io->lock);
}

static void streams_ready(uv_poll_t *streams, int status, int events)
{
    pp_io *io = streams->data;
    (void)status;
    (void)events;
    pthread_mutex_lock(&io->lock);
    pp_io_poll(io, 0);
    pump(io);
    pthread_mutex_unlock(&io->lock);
}

/* On a thread of the pool: piece after piece, since handing each over wakes two threads, for which a busy
 * system may take longer than for the piece. But others use the pool too. */
static void call(uv_work_t *work)
{
    job *mine = work->data;
    bool on = true;
    for (int n = 1; on; n++) {
        int64_t result = pp_io_call(mine->slot);
        pthread_mutex_lock(&mine->io->lock);
        on = pp_io_slot_goes_on(mine->io, mine->slot, result, n < PIECES_A_TURN);
        pthread_mutex_unlock(&mine->io->lock);
    }
}

static void called(uv_work_t *work, int status)
{
    job *mine = work->data;
    pthread_mutex_lock(&mine->io->lock);
    if (status == UV_ECANCELED)
        pp_io_slot_ended(mine->io, mine->slot, -ECANCELED);
    else
        pp_io_slot_free(mine->io, mine->slot);
    pump(mine->io);
    pthread_mutex_unlock(&mine->io->lock);
}

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER; /* innermost; no fork while it is held */
static bool pool_ends;                                        /* under it */
static _Atomic uint64_t pool_of; /* the process (base/fork.h) that used the pool last; 0: none */

static void uv_begin(pp_io *io, pp_io_slot *slot)
{
    crew *mine = io->own;
    atomic_store_explicit(&pool_of, io->process, memory_order_relaxed);
    job *one = &mine->jobs[slot->index];
    one->work.data = one;
    one->io = io;
    one->slot = slot;
    pthread_mutex_lock(&pool_lock);
    if (!pool_ends) (void)uv_queue_work(&mine->loop, &one->work, call, called); /* fails without call only */
    pthread_mutex_unlock(&pool_lock);
}

static void uv_take_back(pp_io *io, pp_io_slot *slot)
{
    crew *mine = io->own;
    pthread_mutex_lock(&pool_lock);
    if (!pool_ends) (void)uv_cancel((uv_req_t *)&mine->jobs[slot->index].work); /* EBUSY: it runs */
    pthread_mutex_unlock(&pool_lock);
}

static void *live(void *arg)
{
    crew *mine = arg;
    uv_run(&mine->loop, UV_RUN_DEFAULT);
    return NULL;
}

/* ---- life -------------------------------------------------------------------------------------- */

static void uv_wake(pp_io *io)
{
    crew *mine = io->own;
    if (!mine->ends) uv_async_send(&mine->bell);
}

static void *wait_for_all(void *arg)
{
    pthread_mutex_lock(arg);
    pthread_mutex_unlock(arg);
    return NULL;
}

/* As many threads at once as the pool has, for a moment. */
static bool threads_can_be_had(uint32_t n)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *threads = pp_calloc(n, sizeof *threads);
    if (threads == NULL) return false;
    uint32_t started = 0;
    pthread_mutex_lock(&gate);
    while (started < n && pthread_create(&threads[started], NULL, wait_for_all, &gate) == 0) started++;
    pthread_mutex_unlock(&gate);
    for (uint32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    pp_free(threads);
    return started == n;
}

static int start_thread(crew *mine)
{
    int failed = pthread_create(&mine->thread, NULL, live, mine);
    if (failed == 0) (void)pthread_setname_np(mine->thread, "ppto-io");
    return failed;
}

static int open_handles(pp_io *io, crew *mine)
{
    int failed = uv_async_init(&mine->loop, &mine->bell, rung);
    if (failed != 0) return failed;
    mine->bell.data = io;
    failed = uv_poll_init(&mine->loop, &mine->streams, io->epoll);
    if (failed != 0) {
        uv_close((uv_handle_t *)&mine->bell, NULL);
        return failed;
    }
    mine->streams.data = io;
    failed = uv_poll_start(&mine->streams, UV_READABLE, streams_ready);
    if (failed == 0 && (!threads_can_be_had(pool_size()) || start_thread(mine) != 0)) failed = UV_EAGAIN;
    if (failed != 0) {
        uv_close((uv_handle_t *)&mine->bell, NULL);
        uv_close((uv_handle_t *)&mine->streams, NULL);
    }
    return failed;
}

static ppto_status uv_open(pp_io *io, pp_error *err)
{
    crew *mine = pp_calloc(1, sizeof *mine + io->options.depth * sizeof mine->jobs[0]);
    if (mine == NULL) return pp_fail(err, PPTO_E_NOMEM, "no memory for an I/O engine");
    io->own = mine;
    sigset_t all, before; /* the threads are to have every signal blocked */
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = uv_loop_init(&mine->loop);
    if (failed == 0 && (failed = open_handles(io, mine)) != 0) {
        uv_run(&mine->loop, UV_RUN_DEFAULT); /* lets the handles close */
        uv_loop_close(&mine->loop);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed == 0) return PPTO_OK;
    pp_free(mine);
    return pp_fail(err, failed == UV_ENOMEM ? PPTO_E_NOMEM : PPTO_E_LIMIT,
                   "no threads or descriptors for I/O engine uv: %s", uv_strerror(failed));
}

static void nothing(uv_work_t *work)
{
    (void)work;
}

/* libuv notes itself that a child needs new threads, but looks only when there is work. */
static void renew_pool(void)
{
    uv_loop_t loop;
    uv_work_t work;
    if (!threads_can_be_had(pool_size()) || uv_loop_init(&loop) != 0) return;
    (void)uv_queue_work(&loop, &work, nothing, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    uv_loop_close(&loop);
}

static void before_fork(void)
{
    pthread_mutex_lock(&pool_lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&pool_lock);
}

/* A child may have engines of its own, and would find the lock held for ever by a thread it does not have.
 * The handlers go with the library. */
__attribute__((constructor)) static void guard_pool(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork);
}

/* Runs before the destructor of libuv, which this library needs. */
__attribute__((destructor)) static void leave_pool(void)
{
    uint64_t process = atomic_load_explicit(&pool_of, memory_order_relaxed);
    if (process != 0 && !pp_process_is(process)) {
        renew_pool();
        return;
    }
    pthread_mutex_lock(&pool_lock);
    pool_ends = true;
    pthread_mutex_unlock(&pool_lock);
}

static void uv_let_go(pp_io *io)
{
    pp_free(io->own);
}

static void uv_end(pp_io *io)
{
    crew *mine = io->own;
    pthread_mutex_lock(&io->lock);
    uv_wake(io);
    pthread_mutex_unlock(&io->lock);
    pthread_join(mine->thread, NULL);
    uv_loop_close(&mine->loop);
    pp_free(mine);
}

static void uv_describe(const pp_io *io, pp_io_facts *facts)
{
    (void)io;
    facts->pool = pool_size();
    facts->thread = true;
    facts->library = "libuv";
    facts->version = uv_version_string();
}

static const pp_io_class class_of_uv = {.name = "uv",
                                        .watches = true,
                                        .open = uv_open,
                                        .close = uv_end,
                                        .let_go = uv_let_go,
                                        .wake = uv_wake,
                                        .begin = uv_begin,
                                        .cancel = uv_take_back,
                                        .describe = uv_describe};
const pp_io_class *const pp_io_uv = &class_of_uv;
