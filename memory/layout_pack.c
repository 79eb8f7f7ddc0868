/* SPDX-License-Identifier: Apache-2.0
 * Greedy best fit: units in some order; each goes into the smallest gap between the placed units it may not
 * share with. Orders: program order under a ceiling (the bound), where a unit beside the ceiling hangs from
 * it, so that a chain alternates between floor and ceiling; size; size times duration in program order.
 *
 * Quadratic with a cheap inner test: what overlaps in program order is in conflict, and what does not needs
 * one look at the precedence. Under the ceiling, when steps run in program order, units that are over are
 * forgotten: then it is units times units alive.
 *
 * source Pisarchyk, Lee: Efficient memory management for deep neural net inference, 2020 (arXiv 2001.03288)
 */
#include <stdlib.h>
#include <string.h>

#include "memory/layout_parts.h"

typedef struct keyed {
    uint64_t key, bytes;
    uint32_t unit, defined;
} keyed;

static int largest_first(const void *a, const void *b)
{
    const keyed *x = a, *y = b;
    if (x->key != y->key) return x->key > y->key ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    if (x->defined != y->defined) return x->defined < y->defined ? -1 : 1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

static uint64_t key_of(const pp_unit *unit, pp_pack_key key)
{
    uint64_t area, duration = (uint64_t)(unit->last - unit->defined) + 1;
    if (key == PP_PACK_SIZE) return unit->bytes;
    if (key == PP_PACK_CEILING) return UINT32_MAX - unit->defined;
    return __builtin_mul_overflow(unit->bytes, duration, &area) ? UINT64_MAX : area;
}

static void sort_units(const pp_units *units, pp_pack_key key, keyed *order)
{
    for (uint32_t i = 0; i < units->n; i++)
        order[i] = (keyed){.key = key_of(&units->at[i], key),
                           .bytes = units->at[i].bytes,
                           .unit = i,
                           .defined = units->at[i].defined};
    qsort(order, units->n, sizeof *order, largest_first);
}

/* A placed unit; an array of them is sorted by offset. */
typedef struct placed {
    uint64_t from, to;
    uint32_t defined, last, unit;
} placed;

static bool conflict(const pp_units *units, const placed *a, const placed *b)
{
    if (a->last < b->defined) return !units->order->serial && !pp_unit_before(units, a->unit, b->unit);
    if (b->last < a->defined) return !units->order->serial && !pp_unit_before(units, b->unit, a->unit);
    return true;
}

/* Sets from and to of mine. ceiling 0: none. False: no room below 2^64. */
static bool place(const pp_units *units, const placed *others, uint32_t n, placed *mine, uint64_t ceiling)
{
    uint64_t bytes = units->at[mine->unit].bytes, end = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        if (others[i].to <= end || !conflict(units, mine, &others[i])) continue;
        if (others[i].from > end && others[i].from - end >= bytes && others[i].from - end < best_gap) {
            best = end;
            best_gap = others[i].from - end;
        }
        end = others[i].to;
    }
    if (best == UINT64_MAX) best = end;
    if (ceiling > end && ceiling - end >= bytes && ceiling - end < best_gap)
        best = end == 0 ? 0 : ceiling - bytes;
    mine->from = best;
    return !__builtin_add_overflow(best, bytes, &mine->to);
}

static void insert(placed *others, uint32_t n, const placed *mine)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (others[middle].from <= mine->from)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(others + low + 1, others + low, (n - low) * sizeof *others);
    others[low] = *mine;
}

/* Keeps the units that are not over at the step. */
static uint32_t forget(placed *others, uint32_t n, uint32_t step)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++)
        if (others[i].last >= step) others[kept++] = others[i];
    return kept;
}

static ppto_status place_all(const pp_units *units, const keyed *order, bool under_ceiling, uint64_t bound,
                             placed *others, uint64_t *offset, uint64_t *bytes)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < units->n; i++) {
        const pp_unit *unit = &units->at[order[i].unit];
        placed mine = {.defined = unit->defined, .last = unit->last, .unit = order[i].unit};
        if (under_ceiling && units->order->serial) n = forget(others, n, unit->defined);
        if (n >= PP_PACK_UNITS || !place(units, others, n, &mine, under_ceiling ? bound : 0))
            return PPTO_E_SIZE;
        insert(others, n++, &mine);
        offset[mine.unit] = mine.from;
        if (mine.to > *bytes) *bytes = mine.to;
    }
    return PPTO_OK;
}

ppto_status pp_pack_greedy(const pp_units *units, pp_pack_key key, uint64_t bound, uint64_t *offset,
                           uint64_t *bytes)
{
    uint32_t room = units->n < PP_PACK_UNITS ? units->n : PP_PACK_UNITS;
    keyed *order = pp_calloc(units->n, sizeof *order);
    placed *others = pp_calloc(room, sizeof *others);
    ppto_status status = PPTO_E_NOMEM;
    *bytes = 0;
    if (order != NULL && others != NULL) {
        sort_units(units, key, order);
        status = place_all(units, order, key == PP_PACK_CEILING, bound, others, offset, bytes);
    }
    pp_free(order);
    pp_free(others);
    return status;
}
