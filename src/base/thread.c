/* SPDX-License-Identifier: Apache-2.0
 * Threads that leave signals to the application, locks, and conditions on the monotonic clock. */
#define _GNU_SOURCE
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

enum { SECOND = 1000000000 };

int pp_thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    int failed = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (failed != 0) return failed;
    failed = pthread_create(thread, NULL, main, arg);
    if (failed == 0) (void)pthread_setname_np(*thread, name);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

int pp_brief_lock_init(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;
    int failed = pthread_mutexattr_init(&attributes);
    if (failed != 0) return failed;
#ifdef __GLIBC__
    (void)pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    failed = pthread_mutex_init(lock, &attributes);
    (void)pthread_mutexattr_destroy(&attributes);
    return failed;
}

int pp_condition_init(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    int failed = pthread_condattr_init(&attributes);
    if (failed != 0) return failed;
    failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    if (failed == 0) failed = pthread_cond_init(condition, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return failed;
}

bool pp_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns)
{
    if (until_ns == 0) {
        (void)pthread_cond_wait(condition, lock);
        return true;
    }
    struct timespec until = {0};
    if (until_ns > 0) until = (struct timespec){.tv_sec = until_ns / SECOND, .tv_nsec = until_ns % SECOND};
    return pthread_cond_timedwait(condition, lock, &until) != ETIMEDOUT;
}
