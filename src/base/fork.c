/* SPDX-License-Identifier: Apache-2.0
 * The mark of the process lies in a page that the kernel wipes in every child, whatever call made that: no
 * handler has to run, and asking is a load. A child that wants a mark of its own finds 0 there and counts one
 * further than all its ancestors. Where the kernel cannot wipe the page the mark is the number of the
 * process.
 *
 * The page is part of the library's zeroed memory, so that it comes and goes with the library. */
#define _GNU_SOURCE
#include "base/fork.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

static union {
    _Atomic uint64_t mark; /* of this process; 0: a child that has none yet, or nobody asked */
    char page[PAGE];
} wiped __attribute__((aligned(PAGE)));

static _Atomic uint64_t marks; /* given to this process and its ancestors */
static atomic_int how;         /* 0: not tried; 1: the page is wiped; -1: it cannot be */

uint64_t pp_process_mark(void)
{
    int known = atomic_load_explicit(&how, memory_order_acquire);
    if (known == 0) {
        known = madvise(&wiped, PAGE, MADV_WIPEONFORK) == 0 ? 1 : -1;
        atomic_store_explicit(&how, known, memory_order_release); /* two at once find the same */
    }
    if (known < 0) return (uint64_t)getpid();
    uint64_t none = 0, fresh;
    if ((fresh = atomic_load_explicit(&wiped.mark, memory_order_relaxed)) != 0) return fresh;
    fresh = atomic_fetch_add_explicit(&marks, 1, memory_order_relaxed) + 1;
    bool first = atomic_compare_exchange_strong_explicit(&wiped.mark, &none, fresh, memory_order_relaxed,
                                                         memory_order_relaxed);
    return first ? fresh : none;
}

bool pp_process_is(uint64_t mark)
{
    if (atomic_load_explicit(&how, memory_order_relaxed) < 0) return mark == (uint64_t)getpid();
    return mark == atomic_load_explicit(&wiped.mark, memory_order_relaxed);
}
