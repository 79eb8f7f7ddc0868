/* SPDX-License-Identifier: Apache-2.0
 * The ledger's bookkeeping. Every call costs a few table look-ups and no walk; what a report wants to know
 * about the past is kept up to date as it goes:
 *
 * - Bytes are summed by what they are for. When the current bytes reach a new peak those sums are copied; a
 *   group notes its live bytes at the peak when they first change afterwards.
 * - A block is *at rest* when its last use is over and nothing is known to need it. That is judged again when
 *   it is used after all: what the peak called retained then is counted as needed. */
#include "memory/ledger.h"

#include <string.h>

#include "memory/ledger_parts.h"

enum { LATE_RUNS = 2 };

const char *pp_block_kind_name(pp_block_kind kind)
{
    static const char *const names[PP_BLOCK_KINDS] = {"other",   "data", "result", "value",  "slab",
                                                      "scratch", "copy", "window", "planned"};
    return (unsigned)kind < PP_BLOCK_KINDS ? names[kind] : "other";
}

/* ---- life of the ledger ------------------------------------------------------------------------ */

/* Number 0 of places, groups and plans stands for "not known". */
static bool make_first(pp_ledger *l)
{
    const pp_ledger_group unknown = {.operator_name = "not recorded"};
    const pp_ledger_plan_row none = {.bytes = 0};
    const ppto_site nowhere = {NULL, NULL, 0, 0};
    return pp_vec_push(&l->sites, nowhere) == PPTO_OK && pp_vec_push(&l->groups, unknown) == PPTO_OK &&
           pp_vec_push(&l->plans, none) == PPTO_OK;
}

pp_ledger *pp_ledger_create(int level, pthread_mutex_t *lock)
{
    pp_ledger *l = pp_calloc(1, sizeof *l);
    if (l == NULL) return NULL;
    l->level = level;
    l->lock = lock;
    if (level >= 2) l->lives = pp_calloc(PP_LIVES, sizeof *l->lives);
    if (make_first(l) && (level < 2 || l->lives != NULL)) return l;
    pp_ledger_destroy(l);
    return NULL;
}

void pp_ledger_destroy(pp_ledger *l)
{
    if (l == NULL) return;
    for (size_t i = 0; i < l->plans.n; i++) pp_free(l->plans.at[i].rows);
    pp_vec_free(&l->sites);
    pp_vec_free(&l->groups);
    pp_vec_free(&l->plans);
    pp_vec_free(&l->marks);
    pp_map_free(&l->site_map);
    pp_map_free(&l->group_map);
    pp_map_free(&l->plan_map);
    pp_free(l->table);
    pp_free(l->lives);
    pp_arena_free(&l->arena);
    pp_free(l);
}

void pp_ledger_use_stacks(pp_ledger *l, pp_stacks *stacks)
{
    l->stacks = stacks;
}

void pp_ledger_now(pp_ledger *l)
{
    l->now.tick++;
    l->now.ns = pp_clock_ns();
}

/* ---- what bytes are for ------------------------------------------------------------------------ */

static bool is_at_rest(const pp_block *block)
{
    return block->ever_used && !block->kept && !pp_block_holds(block, PP_HOLD_PENDING) &&
           !pp_block_holds(block, PP_HOLD_BINDING) && !pp_block_holds(block, PP_HOLD_SYNC);
}

static pp_part_kind part_of(const pp_ledger *l, const pp_block *block)
{
    switch ((pp_block_kind)l->groups.at[block->group].kind) {
    case PP_BLOCK_DATA: return is_at_rest(block) ? PP_PART_RETAINED : PP_PART_CONST;
    case PP_BLOCK_RESULT: return is_at_rest(block) ? PP_PART_RETAINED : PP_PART_NEEDED;
    case PP_BLOCK_VALUE:
    case PP_BLOCK_SLAB: return PP_PART_NEEDED;
    case PP_BLOCK_WINDOW: return PP_PART_INFLIGHT;
    default: return PP_PART_WORKSPACE;
    }
}

static void judge(pp_ledger *l, pp_block *block)
{
    pp_part_kind part = part_of(l, block);
    if (part == block->part) return;
    if (block->part == PP_PART_RETAINED && block->rested_at < l->peak_number) {
        l->peak_part[PP_PART_RETAINED] -= block->bytes; /* the peak fell into that rest: it was needed then */
        l->peak_part[part] += block->bytes;
    }
    if (part == PP_PART_RETAINED) block->rested_at = l->peak_number;
    l->part[block->part] -= block->bytes;
    l->part[part] += block->bytes;
    block->part = (uint8_t)part;
}

/* ---- groups ------------------------------------------------------------------------------------ */

uint64_t pp_group_at_peak(const pp_ledger *l, const pp_ledger_group *group)
{
    return group->peak_seen == l->peak_number ? group->at_peak : group->live_bytes;
}

static void change_group(pp_ledger *l, uint32_t number, uint64_t plus, uint64_t minus)
{
    pp_ledger_group *g = &l->groups.at[number];
    g->at_peak = pp_group_at_peak(l, g);
    g->peak_seen = l->peak_number;
    g->live_bytes += plus - minus;
}

static void enter_group(pp_ledger *l, pp_block *block, uint64_t rounded)
{
    pp_ledger_group *g = &l->groups.at[block->group];
    change_group(l, block->group, block->bytes, 0);
    g->live_count++;
    g->total_count++;
    if (block->bytes >= g->largest) {
        g->largest = block->bytes;
        g->rounded = rounded;
    }
}

/* Its value is given up: how long after its last use? */
static void leave_group(pp_ledger *l, const pp_block *block)
{
    pp_ledger_group *g = &l->groups.at[block->group];
    change_group(l, block->group, 0, block->bytes);
    g->live_count--;
    if (l->lives != NULL) {
        l->lives[l->n_lives++ % PP_LIVES] = (pp_life){.group = block->group,
                                                      .id = block->id,
                                                      .generation = block->generation,
                                                      .ever_used = block->ever_used,
                                                      .bytes = block->bytes,
                                                      .born = block->born,
                                                      .used = block->used,
                                                      .died = l->now};
    }
    if (!block->ever_used) return;
    uint64_t nodes = l->now.node - block->used.node;
    int64_t ns = l->now.ns - block->used.ns;
    g->overstay[g->released++ % PP_OVERSTAYS] = nodes;
    if (nodes > g->overstay_max) g->overstay_max = nodes;
    if (ns > g->overstay_ns_max) g->overstay_ns_max = ns;
    if (l->now.run - block->used.run >= LATE_RUNS) g->late++;
    g->byte_seconds += (double)block->bytes * (double)ns * 1e-9;
}

static void use(pp_ledger *l, pp_block *block)
{
    l->now.ns = pp_clock_ns();
    block->ever_used = true;
    block->used = l->now;
}

/* ---- for the pool ------------------------------------------------------------------------------ */

static void new_peak(pp_ledger *l, uint32_t group)
{
    l->peak_bytes = l->current_bytes;
    l->peak_number++;
    l->peak = l->now;
    l->peak_group = group;
    memcpy(l->peak_part, l->part, sizeof l->peak_part);
}

void pp_ledger_took(pp_ledger *l, void *at, uint64_t bytes, uint64_t rounded, const pp_tag *tag)
{
    static const pp_tag unknown = {.kind = PP_BLOCK_OTHER};
    if (tag == NULL) tag = &unknown;
    pp_ledger_now(l);
    pp_block *block = pp_ledger_add(l, at);
    l->current_bytes += bytes;
    if (block == NULL) {
        l->part[PP_PART_WORKSPACE] += bytes;
    } else {
        block->bytes = bytes;
        block->group = pp_ledger_group_of(l, tag, bytes);
        block->id = ++l->next_id;
        block->born = block->used = l->now;
        block->used.run++; /* of the run to come */
        block->born_epoch = l->epoch;
        enter_group(l, block, rounded);
        if (tag->hold != PP_HOLD_NONE) pp_block_add_hold(l, block, tag->hold, tag->taken, tag->taken_stack);
        block->part = (uint8_t)part_of(l, block);
        l->part[block->part] += bytes;
    }
    if (l->current_bytes > l->peak_bytes) new_peak(l, block == NULL ? 0 : block->group);
}

void pp_ledger_gave(pp_ledger *l, void *at, uint64_t bytes)
{
    pp_ledger_now(l);
    pp_block *block = pp_ledger_find(l, at);
    l->current_bytes -= bytes;
    l->part[block == NULL ? PP_PART_WORKSPACE : block->part] -= bytes;
    if (block == NULL) return;
    leave_group(l, block);
    pp_ledger_remove(l, block);
}

/* ---- for everyone ------------------------------------------------------------------------------ */

/* The block, with the lock; NULL without it when there is none. */
static pp_block *enter(pp_ledger *l, const void *at)
{
    if (l == NULL) return NULL;
    pthread_mutex_lock(l->lock);
    pp_block *block = pp_ledger_find(l, at);
    if (block == NULL)
        pthread_mutex_unlock(l->lock);
    else
        l->now.tick++;
    return block;
}

void pp_ledger_hold(pp_ledger *l, const void *at, pp_hold hold, ppto_site site, uint32_t stack)
{
    pp_block *block = enter(l, at);
    if (block == NULL) return;
    pp_block_add_hold(l, block, hold, site, stack);
    judge(l, block);
    pthread_mutex_unlock(l->lock);
}

void pp_ledger_drop(pp_ledger *l, const void *at, pp_hold hold, ppto_site site, uint32_t stack)
{
    pp_block *block = enter(l, at);
    if (block == NULL) return;
    pp_block_drop_hold(l, block, hold, site, stack);
    if (hold == PP_HOLD_PENDING || (hold == PP_HOLD_BINDING && block->ever_used)) use(l, block);
    judge(l, block);
    pthread_mutex_unlock(l->lock);
}

void pp_ledger_renew(pp_ledger *l, const void *at, const pp_tag *tag)
{
    pp_block *block = enter(l, at);
    if (block == NULL) return;
    uint64_t rounded = l->groups.at[block->group].rounded;
    l->now.ns = pp_clock_ns();
    leave_group(l, block);
    block->group = pp_ledger_group_of(l, tag, block->bytes);
    block->generation++;
    block->born = block->used = l->now;
    block->used.run++;
    block->born_epoch = l->epoch;
    block->ever_used = false;
    enter_group(l, block, rounded);
    judge(l, block);
    pthread_mutex_unlock(l->lock);
}

void pp_ledger_keep(pp_ledger *l, const void *at, bool keep)
{
    pp_block *block = enter(l, at);
    if (block == NULL) return;
    block->kept = keep;
    judge(l, block);
    pthread_mutex_unlock(l->lock);
}

/* ---- epochs ------------------------------------------------------------------------------------ */

static void sample(pp_ledger_group *g)
{
    if (g->n_samples == PP_SAMPLES)
        memmove(g->sample, g->sample + 1, (PP_SAMPLES - 1) * sizeof *g->sample);
    else
        g->n_samples++;
    g->sample[g->n_samples - 1] = g->live_bytes;
}

static void end_epoch(pp_ledger *l)
{
    l->epoch++;
    for (size_t i = 0; i < l->groups.n; i++)
        if (l->groups.at[i].total_count != 0) sample(&l->groups.at[i]);
}

void pp_ledger_ran(pp_ledger *l, uint64_t steps)
{
    if (l == NULL) return;
    pthread_mutex_lock(l->lock);
    l->now.run++;
    l->now.node += steps;
    if (l->marks.n == 0) end_epoch(l); /* who marks says what an epoch is; else every run is one */
    pthread_mutex_unlock(l->lock);
}

static void add_mark(pp_ledger *l, const char *name)
{
    pp_mark mark = {.at = l->now, .current_bytes = l->current_bytes};
    mark.name = name != NULL ? pp_arena_strndup(&l->arena, name, strlen(name)) : NULL;
    if (pp_vec_push(&l->marks, mark) != PPTO_OK) l->dropped++;
}

void pp_ledger_mark(pp_ledger *l, const char *name)
{
    if (l == NULL) return;
    pthread_mutex_lock(l->lock);
    pp_ledger_now(l);
    if (l->marks.n == 0) {
        l->epoch = 0;
        for (size_t i = 0; i < l->groups.n; i++) l->groups.at[i].n_samples = 0;
        for (size_t i = 0; i < l->cap; i++)
            if (l->table[i] != NULL) l->table[i]->born_epoch = 0;
    }
    if (l->marks.n < PP_MARKS) add_mark(l, name);
    end_epoch(l);
    pthread_mutex_unlock(l->lock);
}

/* ---- totals ------------------------------------------------------------------------------------ */

void pp_ledger_count(pp_ledger *l, pp_ledger_totals *out)
{
    *out = (pp_ledger_totals){0};
    if (l == NULL) return;
    pthread_mutex_lock(l->lock);
    out->current_bytes = l->current_bytes;
    out->peak_bytes = l->peak_bytes;
    out->blocks = l->n;
    out->dropped = l->dropped;
    for (size_t i = 0; i < l->cap; i++)
        if (l->table[i] != NULL) out->sum_of_blocks += l->table[i]->bytes;
    for (size_t i = 0; i < l->groups.n; i++) out->sum_of_groups += l->groups.at[i].live_bytes;
    for (int i = 0; i < PP_PARTS; i++) {
        out->sum_of_parts += l->part[i];
        out->peak_sum_of_parts += l->peak_part[i];
    }
    out->record_bytes = l->n * (sizeof(pp_block) + sizeof(pp_hold_row)) + l->cap * sizeof(pp_block *);
    pthread_mutex_unlock(l->lock);
}
