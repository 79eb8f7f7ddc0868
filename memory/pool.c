/* SPDX-License-Identifier: Apache-2.0
 * Size classes (eight to a doubling, so at most an eighth is wasted), each with a list of free blocks. Blocks
 * below 1 MiB come from the heap, larger ones from mmap; from 2 MiB up they are aligned to 2 MiB and huge
 * pages are asked for.
 *
 * A free block keeps its pages, so a run that takes what the last run gave back neither calls the system nor
 * faults. Blocks go back when the sizes change: before a new block is mapped, those free for longest are
 * unmapped until at most KEPT_FREE bytes stay free. (Decay by time was the alternative: it needs a clock or a
 * thread, and would drop warm pages of a program that runs once a minute.) The header of a free block lies in
 * the block.
 *
 * On a machine of several memory nodes (pp_pool_set_placer) mapped blocks are bound before they are touched.
 * Reuse would defeat that, so every placement is a home of its own: a block that was placed for one purpose
 * goes back there, and serves no other.
 *
 * A block for the data of a file begins inside of its first page (pp_pool_take_led). Mapped blocks begin with
 * a page and only they may do so, so the address of the data tells where the block begins.
 *
 * One lock; filling with poison and unmapping of what is trimmed happen outside or are rare. */
#include "memory/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/checked.h"
#include "memory/poison.h"
#include "memory/pool_system.h"
#include "memory/tally.h"

enum {
    STEPS_LOG2 = 3, /* classes to a doubling: 8 */
    CLASSES = 64 << STEPS_LOG2,
    POISON_BYTE = 0xff,
};
#define KEPT_FREE ((uint64_t)64 << 20)
#define LARGEST ((size_t)1 << 62)

/* Lies at the start of a free block. In two lists: of its class (newest first) and of all (oldest first). */
typedef struct free_block {
    struct free_block *class_next, *class_prev;
    struct free_block *newer, *older;
    size_t bytes;  /* rounded */
    uint64_t home; /* key of its placement */
} free_block;

/* A block in use that has a placement of its own. */
typedef struct placed_block {
    void *block;
    uint64_t home;
} placed_block;

struct pp_pool {
    pthread_mutex_t lock; /* of everything below; no other lock is taken under it */
    free_block *classes[CLASSES];
    free_block *oldest, *newest;
    pp_pool_counters counters; /* held_bytes == bytes taken (rounded) + free_bytes */
    uint64_t free_bytes;
    _Atomic uint64_t limit; /* 0: none; read without the lock, too */
    bool poison;
    bool listened;     /* a tool is told which bytes may be touched (memory/poison.h) */
    bool direct;       /* nothing is kept: every block is one of the heap */
    pp_ledger *ledger; /* NULL: not watched; then */
    pp_tally tally;    /* counts by operator */
    pp_pool_listener *listeners;
    pp_placer placer; /* place NULL: one node */
    PP_VEC(placed_block) placed;
};

/* Rounds up to the size of a class and names the class: 8 sizes between one power of two and the next. */
static bool class_of(size_t bytes, size_t *rounded, size_t *index)
{
    if (bytes > LARGEST) return false;
    if (bytes < PP_POOL_ALIGNMENT) bytes = PP_POOL_ALIGNMENT;
    size_t top = 63u - (size_t)__builtin_clzll(bytes);
    size_t step = (size_t)1 << (top - STEPS_LOG2);
    if (step < PP_POOL_ALIGNMENT) step = PP_POOL_ALIGNMENT;
    if (!pp_align_size(bytes, step, rounded)) return false;
    top = 63u - (size_t)__builtin_clzll(*rounded);
    *index = (top << STEPS_LOG2) + ((*rounded >> (top - STEPS_LOG2)) & ((1u << STEPS_LOG2) - 1));
    return true;
}

/* ---- lists of free blocks; under the lock ------------------------------------------------------ */

static void push_free(pp_pool *pool, void *memory, size_t bytes, size_t index, uint64_t home)
{
    free_block *block = memory;
    if (pool->listened) pp_poison_given(pool, block, bytes, sizeof *block);
    *block =
        (free_block){.class_next = pool->classes[index], .older = pool->newest, .bytes = bytes, .home = home};
    if (block->class_next != NULL) block->class_next->class_prev = block;
    pool->classes[index] = block;
    if (block->older != NULL)
        block->older->newer = block;
    else
        pool->oldest = block;
    pool->newest = block;
    pool->free_bytes += bytes;
}

static void unlink_free(pp_pool *pool, free_block *block, size_t index)
{
    if (block->class_next != NULL) block->class_next->class_prev = block->class_prev;
    if (block->class_prev != NULL)
        block->class_prev->class_next = block->class_next;
    else
        pool->classes[index] = block->class_next;
    if (block->newer != NULL)
        block->newer->older = block->older;
    else
        pool->newest = block->older;
    if (block->older != NULL)
        block->older->newer = block->newer;
    else
        pool->oldest = block->newer;
    pool->free_bytes -= block->bytes;
}

/* Gives the blocks free for longest back to the system until at most `keep` bytes are free. */
static void shed(pp_pool *pool, uint64_t keep)
{
    while (pool->free_bytes > keep) {
        free_block *block = pool->oldest;
        size_t bytes, index;
        if (!class_of(block->bytes, &bytes, &index)) return;
        unlink_free(pool, block, index);
        pp_system_give(block, bytes);
        pool->counters.held_bytes -= bytes;
    }
}

/* ---- homes; under the lock ---------------------------------------------------------------------- */

static uint64_t home_of(const pp_pool *pool, size_t rounded, const pp_placement *placement)
{
    bool counts =
        placement != NULL && pool->placer.place != NULL && rounded >= PP_MAPPED_FROM && !pool->direct;
    return counts ? placement->key : 0;
}

/* Without memory for it the block goes back to the pool's own: a wrong place, but no failure. */
static void remember(pp_pool *pool, void *block, uint64_t home)
{
    if (home != 0) (void)!pp_vec_push(&pool->placed, ((placed_block){block, home}));
}

static uint64_t forget(pp_pool *pool, const void *block)
{
    for (size_t i = 0; i < pool->placed.n; i++) {
        if (pool->placed.at[i].block != block) continue;
        uint64_t home = pool->placed.at[i].home;
        pool->placed.at[i] = pool->placed.at[--pool->placed.n];
        return home;
    }
    return 0;
}

/* ---- taking; under the lock --------------------------------------------------------------------- */

static void *take_new(pp_pool *pool, size_t bytes)
{
    const uint64_t limit = pp_pool_get_limit(pool);
    bool above = limit != 0 && pool->counters.held_bytes + bytes > limit;
    shed(pool, above ? 0 : KEPT_FREE);
    void *block = pp_system_take(bytes);
    if (block == NULL && pool->free_bytes != 0) {
        shed(pool, 0);
        block = pp_system_take(bytes);
    }
    if (block == NULL) return NULL;
    pool->counters.maps++;
    pool->counters.held_bytes += bytes;
    return block;
}

static void *take_direct(pp_pool *pool, size_t bytes)
{
    void *block = pp_alloc_aligned(PP_POOL_ALIGNMENT, bytes);
    if (block == NULL) return NULL;
    pool->counters.maps++;
    pool->counters.held_bytes += bytes;
    return block;
}

static void give_direct(pp_pool *pool, void *block, size_t bytes)
{
    pp_free(block);
    pool->counters.held_bytes -= bytes;
}

/* asked: the bytes of `rounded` that will be used. */
static void *take_any(pp_pool *pool, size_t asked, size_t rounded, size_t index,
                      const pp_placement *placement)
{
    if (pool->direct) return take_direct(pool, rounded);
    uint64_t home = home_of(pool, rounded, placement);
    free_block *block = pool->classes[index];
    while (block != NULL && block->home != home) block = block->class_next;
    void *taken = block;
    if (block != NULL) {
        unlink_free(pool, block, index);
    } else {
        taken = take_new(pool, rounded);
        if (taken != NULL && pool->placer.place != NULL && rounded >= PP_MAPPED_FROM)
            pool->placer.place(pool->placer.arg, taken, asked, rounded, placement, false);
    }
    if (taken != NULL) remember(pool, taken, home);
    return taken;
}

bool pp_pool_leads(const pp_pool *pool, size_t bytes)
{
    return !pool->direct && bytes >= PP_MAPPED_FROM && bytes < LARGEST;
}

/* Bytes between the start of the block and what was handed out of it. */
static size_t lead_of(const pp_pool *pool, const void *data, size_t bytes)
{
    return pp_pool_leads(pool, bytes) ? (uintptr_t)data % PP_POOL_PAGE : 0;
}

/* ---- interface --------------------------------------------------------------------------------- */

ppto_status pp_pool_create(pp_pool **out)
{
    *out = NULL;
    pp_pool *pool = pp_calloc(1, sizeof *pool);
    if (pool == NULL) return PPTO_E_NOMEM;
    if (pthread_mutex_init(&pool->lock, NULL) != 0) {
        pp_free(pool);
        return PPTO_E_NOMEM;
    }
    pool->listened = pp_poison_open(pool);
    *out = pool;
    return PPTO_OK;
}

void pp_pool_destroy(pp_pool *pool)
{
    if (pool == NULL) return;
    shed(pool, 0);
    pp_poison_close(pool);
    pp_ledger_destroy(pool->ledger);
    pp_tally_free(&pool->tally);
    pp_vec_free(&pool->placed);
    pthread_mutex_destroy(&pool->lock);
    pp_free(pool);
}

static void tell(const pp_pool *pool)
{
    for (const pp_pool_listener *at = pool->listeners; at != NULL; at = at->next)
        at->changed(at->arg, &pool->counters);
}

/* What is asked for: `bytes`, `lead` bytes behind the start of a block of which `used` may be touched. */
typedef struct asked {
    size_t bytes, lead, used, rounded, index;
    const pp_placement *placement;
    const pp_tag *tag;
} asked;

static ppto_status take_locked(pp_pool *pool, const asked *a, void **out, pp_error *err)
{
    const size_t bytes = a->bytes;
    pp_pool_counters *counters = &pool->counters;
    uint64_t after = counters->current_bytes + bytes;
    const uint64_t limit = pp_pool_get_limit(pool);
    if (limit != 0 && after > limit)
        return pp_fail(err, PPTO_E_LIMIT, "%zu bytes asked for, %llu in use, the limit is %llu", bytes,
                       (unsigned long long)counters->current_bytes, (unsigned long long)limit);
    char *block = take_any(pool, a->used, a->rounded, a->index, a->placement);
    if (block == NULL) return pp_fail(err, PPTO_E_NOMEM, "no memory for a block of %zu bytes", bytes);
    counters->takes++;
    counters->current_bytes = after;
    if (after > counters->peak_bytes) counters->peak_bytes = after;
    if (pool->listened && !pool->direct) pp_poison_taken(pool, block, a->used, a->rounded);
    *out = block + a->lead;
    if (pool->ledger != NULL)
        pp_ledger_took(pool->ledger, *out, bytes, a->rounded, a->tag);
    else
        pp_tally_took(&pool->tally, *out, bytes, a->tag);
    tell(pool);
    return PPTO_OK;
}

static ppto_status take(pp_pool *pool, asked a, void **out, pp_error *err)
{
    *out = NULL;
    if (!class_of(a.used, &a.rounded, &a.index))
        return pp_fail(err, PPTO_E_NOMEM, "no memory for %zu bytes", a.bytes);
    pthread_mutex_lock(&pool->lock);
    ppto_status status = take_locked(pool, &a, out, err);
    bool poison = pool->poison;
    pthread_mutex_unlock(&pool->lock);
    if (status == PPTO_OK && poison) memset(*out, POISON_BYTE, a.bytes);
    return status;
}

ppto_status pp_pool_take(pp_pool *pool, size_t bytes, void **out, pp_error *err)
{
    return pp_pool_take_as(pool, bytes, NULL, out, err);
}

ppto_status pp_pool_take_as(pp_pool *pool, size_t bytes, const pp_tag *tag, void **out, pp_error *err)
{
    return pp_pool_take_placed(pool, bytes, NULL, tag, out, err);
}

ppto_status pp_pool_take_placed(pp_pool *pool, size_t bytes, const pp_placement *placement, const pp_tag *tag,
                                void **out, pp_error *err)
{
    return take(pool, (asked){.bytes = bytes, .used = bytes, .placement = placement, .tag = tag}, out, err);
}

ppto_status pp_pool_take_led(pp_pool *pool, size_t bytes, size_t lead, const pp_tag *tag, void **out,
                             pp_error *err)
{
    asked a = {.bytes = bytes, .used = bytes, .tag = tag};
    if (pp_pool_leads(pool, bytes)) {
        a.lead = lead % PP_POOL_PAGE;
        a.used = (a.lead + bytes + PP_POOL_PAGE - 1) / PP_POOL_PAGE * PP_POOL_PAGE;
    }
    return take(pool, a, out, err);
}

void pp_pool_give(pp_pool *pool, void *data, size_t bytes)
{
    size_t rounded, index, lead = lead_of(pool, data, bytes);
    if (data == NULL || !class_of(lead + bytes, &rounded, &index)) return;
    void *block = (char *)data - lead;
    pthread_mutex_lock(&pool->lock);
    bool poison = pool->poison;
    pthread_mutex_unlock(&pool->lock);
    if (poison) memset(data, POISON_BYTE, bytes);
    pthread_mutex_lock(&pool->lock);
    if (pool->ledger != NULL)
        pp_ledger_gave(pool->ledger, data, bytes);
    else
        pp_tally_gave(&pool->tally, data, bytes);
    if (pool->direct)
        give_direct(pool, block, rounded);
    else
        push_free(pool, block, rounded, index, pool->placed.n != 0 ? forget(pool, block) : 0);
    pool->counters.current_bytes -= bytes;
    tell(pool);
    pthread_mutex_unlock(&pool->lock);
}

void pp_pool_move(pp_pool *pool, void *data, size_t bytes, const pp_placement *placement)
{
    size_t rounded, index, lead = lead_of(pool, data, bytes);
    if (data == NULL || !class_of(lead + bytes, &rounded, &index)) return;
    void *block = (char *)data - lead;
    pthread_mutex_lock(&pool->lock);
    uint64_t home = home_of(pool, rounded, placement);
    if (home != 0) {
        (void)forget(pool, block);
        remember(pool, block, home);
        pool->placer.place(pool->placer.arg, block, lead + bytes, rounded, placement, true);
    }
    pthread_mutex_unlock(&pool->lock);
}

void pp_pool_set_placer(pp_pool *pool, const pp_placer *placer)
{
    pool->placer = *placer;
}

ppto_status pp_pool_watch(pp_pool *pool, int level)
{
    if (level <= 0) return PPTO_OK;
    pool->ledger = pp_ledger_create(level, &pool->lock);
    pool->direct = pool->poison = level >= 3;
    return pool->ledger != NULL ? PPTO_OK : PPTO_E_NOMEM;
}

pp_ledger *pp_pool_ledger(const pp_pool *pool)
{
    return pool->ledger;
}

size_t pp_pool_operators(pp_pool *pool, pp_tally_row *out, size_t most)
{
    pthread_mutex_lock(&pool->lock);
    size_t n = pp_tally_most(&pool->tally, out, most);
    pthread_mutex_unlock(&pool->lock);
    return n;
}

void pp_pool_set_limit(pp_pool *pool, uint64_t bytes)
{
    pthread_mutex_lock(&pool->lock);
    atomic_store_explicit(&pool->limit, bytes, memory_order_relaxed);
    pthread_mutex_unlock(&pool->lock);
}

/* relaxed: a number of its own; who takes memory reads it with the lock */
uint64_t pp_pool_get_limit(const pp_pool *pool)
{
    return atomic_load_explicit(&pool->limit, memory_order_relaxed);
}

void pp_pool_count(pp_pool *pool, pp_pool_counters *out)
{
    pthread_mutex_lock(&pool->lock);
    *out = pool->counters;
    pthread_mutex_unlock(&pool->lock);
}

void pp_pool_reset_peak(pp_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->counters.peak_bytes = pool->counters.current_bytes;
    pthread_mutex_unlock(&pool->lock);
}

void pp_pool_trim(pp_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    shed(pool, 0);
    pthread_mutex_unlock(&pool->lock);
}

void pp_pool_poison(pp_pool *pool, bool on)
{
    pthread_mutex_lock(&pool->lock);
    pool->poison = on;
    pthread_mutex_unlock(&pool->lock);
}

void pp_pool_listen(pp_pool *pool, pp_pool_listener *listener)
{
    pthread_mutex_lock(&pool->lock);
    listener->next = pool->listeners;
    pool->listeners = listener;
    pthread_mutex_unlock(&pool->lock);
}

void pp_pool_unlisten(pp_pool *pool, pp_pool_listener *listener)
{
    pthread_mutex_lock(&pool->lock);
    pp_pool_listener **at = &pool->listeners;
    while (*at != NULL && *at != listener) at = &(*at)->next;
    if (*at != NULL) *at = listener->next;
    pthread_mutex_unlock(&pool->lock);
}
