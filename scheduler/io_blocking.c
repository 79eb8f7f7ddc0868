/* SPDX-License-Identifier: Apache-2.0
 * The I/O engine without a library: one thread makes one call after the other and waits for streams in epoll
 * in between. Where no thread can be had, the thread that submits does the same until nothing is left; a
 * second one that submits meanwhile leaves its request to the first.
 *
 * SIGPIPE is blocked on the engine's thread; a caller's thread has its own mask back afterwards, and a
 * SIGPIPE that the calls made is taken away. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "scheduler/io_engine.h"

typedef struct crew {
    int bell;            /* an eventfd in io->epoll: something is new */
    pp_io_slot *begun;   /* depth is 1, so there is one at most */
    bool threaded, busy; /* busy: a caller works */
    pthread_t thread;
} crew;

static void ring(crew *mine)
{
    uint64_t one = 1;
    while (write(mine->bell, &one, sizeof one) < 0 && errno == EINTR) {
    }
}

static void hush(crew *mine)
{
    uint64_t count;
    while (read(mine->bell, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

static void call_begun(pp_io *io, crew *mine)
{
    pp_io_slot *slot = mine->begun;
    mine->begun = NULL;
    pthread_mutex_unlock(&io->lock);
    int64_t result = pp_io_call(slot);
    pthread_mutex_lock(&io->lock);
    pp_io_slot_ended(io, slot, result);
}

/* With the lock, until the engine closes or, on a caller's thread, there is nothing left. */
static void work(pp_io *io, crew *mine)
{
    for (;;) {
        pp_io_pump(io);
        bool idle = pp_io_idle(io);
        if (idle && (io->closing || !mine->threaded)) return;
        bool calls = mine->begun != NULL;
        if (calls) call_begun(io, mine);
        if (calls && io->watched.n == 0) continue;
        pp_io_poll(io, calls ? 0 : -1);
        hush(mine);
    }
}

static void *live(void *arg)
{
    pp_io *io = arg;
    pthread_mutex_lock(&io->lock);
    work(io, io->own);
    pthread_mutex_unlock(&io->lock);
    return NULL;
}

static void work_as_caller(pp_io *io, crew *mine)
{
    static const struct timespec at_once;
    sigset_t pipe, before, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    bool was = sigismember(&pending, SIGPIPE) == 1;
    bool masked = pthread_sigmask(SIG_BLOCK, &pipe, &before) == 0;
    mine->busy = true;
    work(io, mine);
    mine->busy = false;
    if (!masked) return;
    if (!was && sigpending(&pending) == 0 && sigismember(&pending, SIGPIPE) == 1)
        (void)sigtimedwait(&pipe, NULL, &at_once);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- class ------------------------------------------------------------------------------------- */

static void blocking_wake(pp_io *io)
{
    crew *mine = io->own;
    if (mine->threaded || mine->busy)
        ring(mine);
    else
        work_as_caller(io, mine);
}

static void blocking_begin(pp_io *io, pp_io_slot *slot)
{
    crew *mine = io->own;
    mine->begun = slot;
}

/* With every signal blocked: those of the process are for its own threads. */
static void start(pp_io *io, crew *mine)
{
    sigset_t all, before;
    sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return;
    mine->threaded = true; /* before the thread reads it */
    if (pthread_create(&mine->thread, NULL, live, io) != 0) mine->threaded = false;
    if (mine->threaded) (void)pthread_setname_np(mine->thread, "ppto-io");
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static ppto_status blocking_open(pp_io *io, pp_error *err)
{
    crew *mine = pp_calloc(1, sizeof *mine);
    if (mine == NULL) return pp_fail(err, PPTO_E_NOMEM, "no memory for an I/O engine");
    struct epoll_event event = {.events = EPOLLIN};
    mine->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (mine->bell < 0 || epoll_ctl(io->epoll, EPOLL_CTL_ADD, mine->bell, &event) != 0) {
        ppto_status status = pp_fail_errno(err, "no descriptor for an I/O engine", errno);
        if (mine->bell >= 0) close(mine->bell);
        pp_free(mine);
        return status;
    }
    io->own = mine;
    start(io, mine);
    return PPTO_OK;
}

static void blocking_let_go(pp_io *io)
{
    crew *mine = io->own;
    close(mine->bell);
    pp_free(mine);
}

static void blocking_close(pp_io *io)
{
    crew *mine = io->own;
    pthread_mutex_lock(&io->lock);
    blocking_wake(io);
    pthread_mutex_unlock(&io->lock);
    if (mine->threaded) pthread_join(mine->thread, NULL);
    blocking_let_go(io);
}

static void blocking_describe(const pp_io *io, pp_io_facts *facts)
{
    const crew *mine = io != NULL ? io->own : NULL;
    facts->pool = 1;
    facts->thread = mine != NULL && mine->threaded;
}

const pp_io_class pp_io_blocking = {.name = "blocking",
                                    .single = true,
                                    .watches = true,
                                    .open = blocking_open,
                                    .close = blocking_close,
                                    .let_go = blocking_let_go,
                                    .wake = blocking_wake,
                                    .begin = blocking_begin,
                                    .describe = blocking_describe};
