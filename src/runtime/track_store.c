/* SPDX-License-Identifier: Apache-2.0
 * The steps of all tracks: a tree, whose edges are in one table by the step before and the words of the call.
 * A step never changes once it is in the table, so finding takes no lock. A table that grows is replaced, and
 * kept while the tracks are: who is still reading it only misses what is newer. */
#include <string.h>

#include "runtime/track.h"

enum { FIRST_CAP = 64, MOST_STEPS = 32768 };

pp_tracks *pp_tracks_create(void)
{
    pp_tracks *tracks = pp_calloc(1, sizeof *tracks);
    if (!tracks) return NULL;
    atomic_store_explicit(&tracks->refs, 1, memory_order_relaxed);
    pthread_mutex_init(&tracks->lock, NULL);
    tracks->start.node = UINT32_MAX; /* the next is 0 */
    return tracks;
}

void pp_tracks_release(pp_tracks *tracks)
{
    /* acq_rel: what other graphs added, before it is freed */
    if (!tracks || atomic_fetch_sub_explicit(&tracks->refs, 1, memory_order_acq_rel) > 1) return;
    pp_track_table *table = atomic_load_explicit(&tracks->table, memory_order_relaxed);
    while (table) {
        pp_track_table *older = table->older;
        pp_free(table);
        table = older;
    }
    pp_track_programs_free(tracks->programs);
    pp_arena_free(&tracks->arena);
    pthread_mutex_destroy(&tracks->lock);
    pp_free(tracks);
}

static uint64_t hash_of(const pp_track_step *before, const uint64_t *words, size_t n)
{
    uint64_t hash = before->hash;
    for (size_t i = 0; i < n; i++) hash = pp_hash_mix(hash, words[i]);
    return hash;
}

static bool is_step(const pp_track_step *step, const pp_track_step *before, uint64_t hash,
                    const uint64_t *words, size_t n)
{
    if (step->hash != hash || step->before != before || step->n_words != n) return false;
    for (size_t i = 0; i < n; i++)
        if (step->words[i] != words[i]) return false;
    return true;
}

static size_t slot_of(uint64_t hash, size_t cap)
{
    return (size_t)(hash ^ hash >> 32) & (cap - 1);
}

static pp_track_step *find(const pp_track_table *table, const pp_track_step *before, uint64_t hash,
                           const uint64_t *words, size_t n)
{
    if (!table) return NULL;
    for (size_t i = slot_of(hash, table->cap);; i = (i + 1) & (table->cap - 1)) {
        /* acquire: with it came all of the step */
        pp_track_step *step = atomic_load_explicit(&table->slot[i], memory_order_acquire);
        if (!step || is_step(step, before, hash, words, n)) return step;
    }
}

pp_track_step *pp_tracks_find(pp_tracks *tracks, const pp_track_step *before, const uint64_t *words, size_t n)
{
    return find(atomic_load_explicit(&tracks->table, memory_order_acquire), before, hash_of(before, words, n),
                words, n);
}

/* ---- adding, with the lock ------------------------------------------------------------------------ */

static void put(pp_track_table *table, pp_track_step *step)
{
    size_t i = slot_of(step->hash, table->cap);
    while (atomic_load_explicit(&table->slot[i], memory_order_relaxed)) i = (i + 1) & (table->cap - 1);
    atomic_store_explicit(&table->slot[i], step, memory_order_release);
}

/* A table that is at most half full with one step more; NULL: out of memory. */
static pp_track_table *table_with_room(pp_tracks *tracks)
{
    pp_track_table *old = atomic_load_explicit(&tracks->table, memory_order_relaxed);
    if (old && (tracks->n + 1) * 2 <= old->cap) return old;
    const size_t cap = old ? old->cap * 2 : FIRST_CAP;
    pp_track_table *table = pp_calloc(1, sizeof *table + cap * sizeof table->slot[0]);
    if (!table) return NULL;
    table->cap = cap;
    table->older = old;
    for (size_t i = 0; old && i < old->cap; i++) {
        pp_track_step *step = atomic_load_explicit(&old->slot[i], memory_order_relaxed);
        if (step) put(table, step);
    }
    atomic_store_explicit(&tracks->table, table, memory_order_release);
    return table;
}

static pp_track_step *new_step(pp_tracks *tracks, const pp_track_step *before, const uint64_t *words,
                               size_t n, const pp_track_result *results, uint32_t n_results)
{
    pp_track_step *step = pp_arena_alloc(&tracks->arena, sizeof *step);
    uint64_t *own_words = pp_arena_copy(&tracks->arena, words, n * sizeof *words);
    pp_track_result *own = pp_arena_copy(&tracks->arena, results, n_results * sizeof *results);
    if (!step || !own_words || !own) return NULL;
    step->before = before;
    step->hash = hash_of(before, words, n);
    step->node = before->node + 1;
    step->n_words = (uint32_t)n;
    step->words = own_words;
    step->is_literal = (words[0] & 0xff) == PP_TRACK_LITERAL;
    step->n_results = n_results;
    step->results = own;
    return step;
}

static pp_track_step *add(pp_tracks *tracks, const pp_track_step *before, const uint64_t *words, size_t n,
                          const pp_track_result *results, uint32_t n_results)
{
    pp_track_step *step = pp_tracks_find(tracks, before, words, n);
    if (step) return step;
    const bool full = tracks->n >= MOST_STEPS;
    if (full) atomic_store_explicit(&tracks->full, true, memory_order_relaxed);
    pp_track_table *table = full ? NULL : table_with_room(tracks);
    step = table ? new_step(tracks, before, words, n, results, n_results) : NULL;
    if (!step) return NULL;
    put(table, step);
    tracks->n++;
    return step;
}

pp_track_step *pp_tracks_add(pp_tracks *tracks, const pp_track_step *before, const uint64_t *words, size_t n,
                             const pp_track_result *results, uint32_t n_results)
{
    pthread_mutex_lock(&tracks->lock);
    pp_track_step *step = add(tracks, before, words, n, results, n_results);
    pthread_mutex_unlock(&tracks->lock);
    return step;
}
