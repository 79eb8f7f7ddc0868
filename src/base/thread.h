/* SPDX-License-Identifier: Apache-2.0
 * Threads, locks, and conditions whose waits may end at a time of pp_clock_ns(), which a change of the wall
 * clock does not move.
 */
#ifndef PP_CONDITION_H
#define PP_CONDITION_H

#include <pthread.h>

#include "base/base.h"

/* Starts a thread that gets no signal of the process. name: at most 15 bytes. 0 or an errno. */
int pp_thread_start(pthread_t *thread, const char *name, void *(*main)(void *), void *arg);

/* A lock that is held for moments only: who wants it looks a few times before it sleeps. 0 or an errno */
int pp_brief_lock_init(pthread_mutex_t *lock);

int pp_condition_init(pthread_cond_t *condition); /* 0 or an errno */
/* Waits, with the lock, for a signal. until_ns: false when that time has come; 0: never. */
bool pp_condition_wait(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t until_ns);

#endif
