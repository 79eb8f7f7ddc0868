/* SPDX-License-Identifier: Apache-2.0
 * Work of a thread that must not be under way when the process ends: a door that the end closes.
 *
 * A handler of exit runs before those that were registered earlier. A library that another thread loads, or
 * is at work in, at that moment registers thousands of its own meanwhile, which then run first and take its
 * static state from under that thread. Destructors of thread-local objects come before all handlers (ISO C++,
 * [basic.start.term]: those of the thread that calls exit), so one of the main thread's locks the door.
 *
 * The destructor is a function of libc and the door is memory of its own, never given back (one for each time
 * the library is loaded): so this library can be unloaded before the process ends. A process that another
 * thread ends, or a libc without such destructors, is left with the handlers of exit. */
#define _GNU_SOURCE
#include "devices/cpu/loop_exit.h"

#include <pthread.h>
#include <unistd.h>

#include "base/base.h"

/* Of libc. owner: an address in the object that may not be unloaded meanwhile; of none: the program's. */
extern int __cxa_thread_atexit_impl(void (*destructor)(void *), void *object, void *owner)
    __attribute__((weak));

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t *door;      /* NULL: no memory, and always open */
static _Thread_local bool watched; /* by this thread; the child of a fork may have another main thread */

static void make_door(void)
{
    door = pp_alloc_for_good(sizeof *door);
    if (door != NULL && pthread_mutex_init(door, NULL) != 0) door = NULL;
}

void pp_exit_watch(void)
{
    if (watched || gettid() != getpid()) return;
    (void)pthread_once(&once, make_door);
    if (door == NULL || __cxa_thread_atexit_impl == NULL) return;
    watched = true;
    /* not ISO C, which has no such call: every ABI of Linux lets a result be ignored and pointers be alike */
    (void)__cxa_thread_atexit_impl((void (*)(void *))(void (*)(void))pthread_mutex_lock, door, door);
}

bool pp_exit_enter(void)
{
    (void)pthread_once(&once, make_door);
    return door == NULL || pthread_mutex_trylock(door) == 0;
}

void pp_exit_leave(void)
{
    if (door != NULL) (void)pthread_mutex_unlock(door);
}
