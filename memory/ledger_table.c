/* SPDX-License-Identifier: Apache-2.0
 * The tables of the ledger: blocks by address, places and groups by what they are, buffers of slabs.
 *
 * Blocks come and go, so their table is one of its own: open addressing, linear probing, and a removal moves
 * what comes behind back instead of leaving a tombstone. Places, groups and plans are only ever added; their
 * strings are copied, since a shared object that recorded them may be gone when the report is made. */
#include <string.h>

#include "memory/ledger_parts.h"

enum { MOST_PLANS = 4096 };

/* ---- blocks by address ------------------------------------------------------------------------- */

static size_t slot_of(const pp_ledger *l, const void *at)
{
    return (size_t)(((uint64_t)(uintptr_t)at >> 6) * 0x9e3779b97f4a7c15u >> 32) & (l->cap - 1);
}

static size_t find(const pp_ledger *l, const void *at)
{
    size_t i = slot_of(l, at);
    while (l->table[i] != NULL && l->table[i]->at != at) i = (i + 1) & (l->cap - 1);
    return i;
}

pp_block *pp_ledger_find(const pp_ledger *l, const void *at)
{
    return l->n == 0 || at == NULL ? NULL : l->table[find(l, at)];
}

static bool grow(pp_ledger *l)
{
    pp_ledger larger = {.cap = l->cap == 0 ? 64 : l->cap * 2};
    larger.table = pp_calloc(larger.cap, sizeof(pp_block *));
    if (larger.table == NULL) return false;
    for (size_t i = 0; i < l->cap; i++)
        if (l->table[i] != NULL) larger.table[find(&larger, l->table[i]->at)] = l->table[i];
    pp_free(l->table);
    l->table = larger.table;
    l->cap = larger.cap;
    return true;
}

/* A record whose first word links those that are vacant. */
static pp_block *new_block(pp_ledger *l)
{
    pp_block *block = l->vacant;
    if (block == NULL) return pp_arena_alloc(&l->arena, sizeof *block);
    l->vacant = block->at;
    memset(block, 0, sizeof *block);
    return block;
}

pp_block *pp_ledger_add(pp_ledger *l, void *at)
{
    pp_block *block = l->n * 3 >= l->cap * 2 && !grow(l) ? NULL : new_block(l);
    if (block == NULL) {
        l->dropped++;
        return NULL;
    }
    block->at = at;
    l->table[find(l, at)] = block;
    l->n++;
    return block;
}

void pp_ledger_remove(pp_ledger *l, pp_block *block)
{
    size_t hole = find(l, block->at);
    for (size_t i = (hole + 1) & (l->cap - 1); l->table[i] != NULL; i = (i + 1) & (l->cap - 1)) {
        size_t home = slot_of(l, l->table[i]->at);
        if (((i - home) & (l->cap - 1)) < ((i - hole) & (l->cap - 1)))
            continue; /* it is nearer to home there */
        l->table[hole] = l->table[i];
        hole = i;
    }
    l->table[hole] = NULL;
    l->n--;
    while (block->holds != NULL) {
        pp_hold_row *row = block->holds;
        block->holds = row->next;
        pp_ledger_free_hold(l, row);
    }
    block->at = l->vacant;
    l->vacant = block;
}

pp_hold_row *pp_ledger_hold_row(pp_ledger *l)
{
    pp_hold_row *row = l->vacant_holds;
    if (row == NULL) return pp_arena_alloc(&l->arena, sizeof *row);
    l->vacant_holds = row->next;
    memset(row, 0, sizeof *row);
    return row;
}

void pp_ledger_free_hold(pp_ledger *l, pp_hold_row *row)
{
    row->next = l->vacant_holds;
    l->vacant_holds = row;
}

/* ---- places ------------------------------------------------------------------------------------ */

static bool same(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static uint64_t hash_text(const char *text, uint64_t seed)
{
    return text == NULL ? seed : pp_hash_bytes(text, strlen(text), seed);
}

static const char *copy(pp_ledger *l, const char *text)
{
    return text == NULL ? NULL : pp_arena_strndup(&l->arena, text, strlen(text));
}

typedef struct question {
    const pp_ledger *ledger;
    const void *wanted;
} question;

static bool equal_site(const void *context, uint32_t value)
{
    const question *q = context;
    const ppto_site *a = &q->ledger->sites.at[value], *b = q->wanted;
    return a->line == b->line && a->column == b->column && same(a->file, b->file) &&
           same(a->function, b->function);
}

/* Calls of one place follow each other: its address and line say where to look first. What is found there is
 * compared as a text all the same. */
static uint32_t *recent_site(pp_ledger *l, const ppto_site *site)
{
    uint64_t mixed = pp_hash_mix((uintptr_t)site->file, (uint64_t)(uint32_t)site->line);
    return &l->recent_sites[mixed % PP_RECENT_ROWS];
}

static uint32_t find_site(pp_ledger *l, ppto_site site)
{
    uint32_t at = 0;
    uint64_t hash = hash_text(
        site.function, hash_text(site.file, (uint64_t)(uint32_t)site.line << 32 | (uint32_t)site.column));
    if (pp_map_find(&l->site_map, hash, equal_site, &(question){l, &site}, &at)) return at;
    ppto_site own = {copy(l, site.file), copy(l, site.function), site.line, site.column};
    if (own.file == NULL || pp_vec_reserve(&l->sites, l->sites.n + 1) != PPTO_OK ||
        pp_map_insert(&l->site_map, hash, (uint32_t)l->sites.n) != PPTO_OK)
        return 0;
    l->sites.at[l->sites.n] = own;
    return (uint32_t)l->sites.n++;
}

uint32_t pp_ledger_site(pp_ledger *l, ppto_site site)
{
    if (site.file == NULL) return 0;
    uint32_t *recent = recent_site(l, &site);
    if (!equal_site(&(question){l, &site}, *recent)) *recent = find_site(l, site);
    return *recent;
}

/* ---- groups ------------------------------------------------------------------------------------ */

static bool equal_group(const void *context, uint32_t value)
{
    const question *q = context;
    const pp_ledger_group *a = &q->ledger->groups.at[value], *b = q->wanted;
    return a->kind == b->kind && a->site == b->site && a->stack == b->stack && a->plan == b->plan &&
           a->size_class == b->size_class && a->dtype == b->dtype && a->reason == b->reason &&
           same(a->operator_name, b->operator_name);
}

static uint64_t hash_group(const pp_ledger_group *g)
{
    uint64_t hash = hash_text(g->operator_name, g->site);
    hash = pp_hash_mix(hash, (uint64_t)(uintptr_t)g->dtype ^ (uint64_t)(uintptr_t)g->reason << 8 ^
                                 ((uint64_t)g->stack << 32) ^ g->plan);
    return pp_hash_mix(hash, (uint64_t)g->kind << 8 | g->size_class);
}

static uint8_t class_of(uint64_t bytes)
{
    return bytes == 0 ? 0 : (uint8_t)(64 - __builtin_clzll(bytes));
}

static uint32_t find_group(pp_ledger *l, pp_ledger_group *g)
{
    uint32_t at = 0;
    uint64_t hash = hash_group(g);
    if (pp_map_find(&l->group_map, hash, equal_group, &(question){l, g}, &at)) return at;
    g->operator_name = copy(l, g->operator_name);
    if (g->operator_name == NULL || pp_vec_reserve(&l->groups, l->groups.n + 1) != PPTO_OK ||
        pp_map_insert(&l->group_map, hash, (uint32_t)l->groups.n) != PPTO_OK)
        return 0;
    l->groups.at[l->groups.n] = *g;
    return (uint32_t)l->groups.n++;
}

uint32_t pp_ledger_group_of(pp_ledger *l, const pp_tag *tag, uint64_t bytes)
{
    pp_ledger_group g = {.kind = (uint8_t)tag->kind,
                         .operator_name = tag->operator_name,
                         .site = pp_ledger_site(l, tag->site),
                         .stack = tag->stack,
                         .plan = tag->plan,
                         .dtype = tag->dtype,
                         .reason = tag->reason,
                         .size_class = class_of(bytes)};
    if (g.operator_name == NULL) g.operator_name = pp_block_kind_name(tag->kind);
    uint64_t mixed =
        pp_hash_mix((uintptr_t)g.operator_name, (uint64_t)g.site << 16 | g.size_class << 8 | g.kind);
    uint32_t *recent = &l->recent_groups[mixed % PP_RECENT_ROWS];
    if (*recent == 0 || !equal_group(&(question){l, &g}, *recent)) *recent = find_group(l, &g);
    return *recent;
}

/* ---- slabs ------------------------------------------------------------------------------------- */

static bool equal_plan(const void *context, uint32_t value)
{
    const question *q = context;
    const pp_ledger_plan_row *a = &q->ledger->plans.at[value], *b = q->wanted;
    return a->bytes == b->bytes && a->n_rows == b->n_rows &&
           (a->n_rows == 0 || memcmp(a->rows, b->rows, a->n_rows * sizeof *a->rows) == 0);
}

/* The step at which most bytes are needed at once. */
static void measure(pp_ledger_plan_row *plan)
{
    for (uint32_t i = 0; i < plan->n_rows; i++)
        if (plan->rows[i].last >= plan->steps) plan->steps = plan->rows[i].last + 1u;
    int64_t *change = pp_calloc(plan->steps + 1u, sizeof *change), now = 0;
    for (uint32_t i = 0; change != NULL && i < plan->n_rows; i++) {
        change[plan->rows[i].first] += (int64_t)plan->rows[i].bytes;
        change[plan->rows[i].last + 1u] -= (int64_t)plan->rows[i].bytes;
    }
    for (uint32_t s = 0; change != NULL && s < plan->steps; s++) {
        now += change[s];
        if ((uint64_t)now <= plan->needed) continue;
        plan->needed = (uint64_t)now;
        plan->busiest = s;
    }
    pp_free(change);
}

static bool fill_plan(pp_ledger *l, pp_ledger_plan_row *plan, const pp_ledger_part *parts, size_t n)
{
    plan->rows = pp_calloc(n + 1, sizeof *plan->rows); /* zeroed: rows are compared as bytes */
    plan->n_rows = (uint32_t)n;
    plan->hash = pp_hash_mix(plan->bytes, n);
    for (size_t i = 0; plan->rows != NULL && i < n; i++) {
        pp_ledger_row *row = &plan->rows[i];
        row->offset = parts[i].offset;
        row->bytes = parts[i].bytes;
        row->first = parts[i].first;
        row->last = parts[i].last;
        row->group = pp_ledger_group_of(l, &parts[i].tag, parts[i].bytes);
        plan->hash = pp_hash_mix(plan->hash, row->offset ^ (uint64_t)row->group << 32);
    }
    return plan->rows != NULL;
}

uint32_t pp_ledger_plan(pp_ledger *l, uint64_t bytes, const pp_ledger_part *parts, size_t n)
{
    pp_ledger_plan_row plan = {.bytes = bytes};
    uint32_t at = 0;
    if (l == NULL) return 0;
    pthread_mutex_lock(l->lock);
    bool made = l->plans.n < MOST_PLANS && fill_plan(l, &plan, parts, n);
    if (made && !pp_map_find(&l->plan_map, plan.hash, equal_plan, &(question){l, &plan}, &at)) {
        measure(&plan);
        at = (uint32_t)l->plans.n;
        made = pp_vec_push(&l->plans, plan) == PPTO_OK;
        if (made) {
            plan.rows = NULL; /* the ledger's now */
            made = pp_map_insert(&l->plan_map, plan.hash, at) == PPTO_OK;
        }
    }
    pp_free(plan.rows);
    if (!made) l->dropped++;
    pthread_mutex_unlock(l->lock);
    return made ? at : 0;
}
