/* SPDX-License-Identifier: Apache-2.0
 * The only caller of malloc.
 *
 * Every block of the library passes through here, which gives tests three hooks without wrapping the C
 * library: counters (is a block leaked?), failure of the n-th allocation (is every failure handled?) and
 * poison (is fresh memory read, is freed memory used?). The hooks cost one relaxed load per call when they
 * are off.
 *
 * The counters and hooks are process-wide and may be used from any thread. A reallocation of an existing
 * block counts as one allocation and one free, so that live == allocations - frees always holds. The first
 * threads have counters of their own, which nobody else writes, so counting needs no locked instruction; all
 * others share a pair.
 *
 * Small blocks come from malloc even where they are to be zeroed, or aligned no more than malloc does: calloc
 * and posix_memalign of some C libraries pass by the lists of blocks that a thread has freed. */
#define _DEFAULT_SOURCE
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/checked.h"

enum { FRESH_BYTE = 0xa5, FREED_BYTE = 0xdd, SMALL = 1024, OWNED = 31, LINE = 64 };

typedef struct tally {
    _Alignas(LINE) _Atomic uint64_t allocations;
    _Atomic uint64_t frees;
} tally;

/* All relaxed: the numbers order nothing, they are only counted. */
static tally tallies[OWNED + 1]; /* the last one is shared */
static _Atomic uint64_t threads;
static _Thread_local tally *mine;  /* NULL until the thread counts for the first time */
static _Atomic uint64_t fail_left; /* 0 = off, 1 = the next allocation fails */
static atomic_bool fail_for_good;
static atomic_bool poison;

static uint64_t load(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static tally *my_tally(void)
{
    if (mine == NULL) {
        const uint64_t n = atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
        mine = &tallies[n < OWNED ? n : OWNED];
    }
    return mine;
}

/* One more of a counter of the tally. */
static void count(const tally *of, _Atomic uint64_t *counter)
{
    if (of != &tallies[OWNED])
        atomic_store_explicit(counter, load(counter) + 1, memory_order_relaxed);
    else
        atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

static void count_allocation(void)
{
    tally *of = my_tally();
    count(of, &of->allocations);
}

static void count_free(void)
{
    tally *of = my_tally();
    count(of, &of->frees);
}

/* Takes one step of the countdown; true when this allocation is the one to fail. */
static bool must_fail(void)
{
    uint64_t left = load(&fail_left);
    while (left != 0) {
        if (left == 1 && atomic_load_explicit(&fail_for_good, memory_order_relaxed)) return true;
        if (atomic_compare_exchange_weak_explicit(&fail_left, &left, left - 1, memory_order_relaxed,
                                                  memory_order_relaxed))
            return left == 1;
    }
    return false;
}

static bool poisoned(void)
{
    return atomic_load_explicit(&poison, memory_order_relaxed);
}

static void *account(void *block, size_t poison_bytes)
{
    if (block == NULL) return NULL;
    count_allocation();
    if (poison_bytes != 0 && poisoned()) memset(block, FRESH_BYTE, poison_bytes);
    return block;
}

void *pp_alloc(size_t bytes)
{
    if (must_fail()) return NULL;
    return account(malloc(bytes != 0 ? bytes : 1), bytes);
}

void *pp_calloc(size_t count_of, size_t size)
{
    size_t bytes;
    if (!pp_mul_size(count_of, size, &bytes) || must_fail()) return NULL;
    if (bytes > SMALL) return account(calloc(bytes, 1), 0);
    void *block = malloc(bytes != 0 ? bytes : 1);
    return account(block != NULL ? memset(block, 0, bytes) : NULL, 0);
}

void *pp_realloc(void *p, size_t bytes)
{
    if (p == NULL) return pp_alloc(bytes);
    if (must_fail()) return NULL;
    void *block = realloc(p, bytes != 0 ? bytes : 1);
    if (block != NULL) {
        count_allocation();
        count_free();
    }
    return block;
}

void *pp_alloc_aligned(size_t alignment, size_t bytes)
{
    if (alignment <= _Alignof(max_align_t)) return pp_alloc(bytes);
    if (must_fail()) return NULL;
    void *block = NULL;
    if (posix_memalign(&block, alignment, bytes != 0 ? bytes : 1) != 0) return NULL;
    return account(block, bytes);
}

void *pp_alloc_for_good(size_t bytes)
{
    return malloc(bytes);
}

void pp_free(void *p)
{
    if (p == NULL) return;
    count_free();
    if (poisoned()) memset(p, FREED_BYTE, malloc_usable_size(p));
    free(p);
}

char *pp_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = pp_alloc(bytes);
    if (copy != NULL) memcpy(copy, text, bytes);
    return copy;
}

pp_heap_counters pp_heap_count(void)
{
    pp_heap_counters now = {0};
    for (int i = 0; i <= OWNED; i++) {
        now.allocations += load(&tallies[i].allocations);
        now.frees += load(&tallies[i].frees);
    }
    now.live = (int64_t)(now.allocations - now.frees);
    return now;
}

void pp_heap_fail_at(uint64_t n, bool and_all_after)
{
    atomic_store_explicit(&fail_for_good, and_all_after, memory_order_relaxed);
    atomic_store_explicit(&fail_left, n, memory_order_relaxed);
}

bool pp_heap_refuses(void)
{
    return must_fail();
}

void pp_heap_poison(bool on)
{
    atomic_store_explicit(&poison, on, memory_order_relaxed);
}
