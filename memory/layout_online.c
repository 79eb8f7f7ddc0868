/* SPDX-License-Identifier: Apache-2.0
 * Best fit in program order, for plans too long for the greedy orders. The slab is a list of segments in
 * order of address; the free ones lie in bins too, eight to a doubling of size. A unit takes the best of a
 * bounded number of segments it looks at, so the work is near-linear.
 *
 * A free segment remembers its owner: the unit used last. A new unit may have it when the owner is before the
 * unit; owners before that one need no look, for precedence is transitive. Where the order is not program
 * order, a unit may take several neighbours at once if all their owners are before it; so slivers do not
 * stay. */
#include <stdlib.h>

#include "memory/layout_parts.h"

#define NONE UINT32_MAX
enum { BIN_STEPS_LOG2 = 3, BINS = 64 << BIN_STEPS_LOG2, MOST_LOOKS = 16, MOST_BINS = 32, MOST_WALK = 4096 };

typedef struct segment {
    uint64_t offset, bytes;
    uint32_t lower, higher;      /* neighbours by address */
    uint32_t bin_next, bin_prev; /* while free; bin_next also links unused segments */
    uint32_t owner;              /* unit that has it, or had it last */
    bool free;
} segment;

typedef struct slab {
    const pp_units *units;
    segment *at;
    uint32_t n, unused, lowest, highest;
    uint32_t bins[BINS], bin_last[BINS];
    uint64_t filled[BINS / 64]; /* bit: the bin is not empty */
    uint32_t *segment_of;       /* of a unit */
    uint64_t bytes;
} slab;

/* ---- bins -------------------------------------------------------------------------------------- */

static uint32_t bin_of(uint64_t bytes)
{
    uint32_t top = 63u - (uint32_t)__builtin_clzll(bytes); /* at least 6: sizes are multiples of 64 */
    return (top << BIN_STEPS_LOG2) +
           (uint32_t)((bytes >> (top - BIN_STEPS_LOG2)) & ((1u << BIN_STEPS_LOG2) - 1));
}

/* At the end: the owners of segments free for longest are the likeliest to be before a new unit. */
static void bin_push(slab *of, uint32_t i)
{
    uint32_t bin = bin_of(of->at[i].bytes), last = of->bin_last[bin];
    of->at[i].free = true;
    of->at[i].bin_next = NONE;
    of->at[i].bin_prev = last;
    if (last != NONE)
        of->at[last].bin_next = i;
    else
        of->bins[bin] = i;
    of->bin_last[bin] = i;
    of->filled[bin / 64] |= (uint64_t)1 << (bin % 64);
}

static void bin_remove(slab *of, uint32_t i)
{
    segment *mine = &of->at[i];
    uint32_t bin = bin_of(mine->bytes);
    mine->free = false;
    if (mine->bin_next != NONE)
        of->at[mine->bin_next].bin_prev = mine->bin_prev;
    else
        of->bin_last[bin] = mine->bin_prev;
    if (mine->bin_prev != NONE)
        of->at[mine->bin_prev].bin_next = mine->bin_next;
    else
        of->bins[bin] = mine->bin_next;
    if (of->bins[bin] == NONE) of->filled[bin / 64] &= ~((uint64_t)1 << (bin % 64));
}

/* The first bin from `bin` on that is not empty; BINS: none. */
static uint32_t next_filled(const slab *of, uint32_t bin)
{
    while (bin < BINS) {
        uint64_t rest = of->filled[bin / 64] >> (bin % 64);
        if (rest != 0) return bin + (uint32_t)__builtin_ctzll(rest);
        bin = (bin / 64 + 1) * 64;
    }
    return BINS;
}

/* ---- segments ---------------------------------------------------------------------------------- */

/* A new segment above `lower` (NONE: at the bottom). There are never more than two for every unit. */
static uint32_t add_segment(slab *of, uint32_t lower, uint64_t offset, uint64_t bytes, uint32_t owner)
{
    uint32_t i = of->unused;
    if (i != NONE)
        of->unused = of->at[i].bin_next;
    else
        i = of->n++;
    uint32_t higher = lower != NONE ? of->at[lower].higher : NONE;
    of->at[i] = (segment){.offset = offset, .bytes = bytes, .lower = lower, .higher = higher, .owner = owner};
    if (lower != NONE)
        of->at[lower].higher = i;
    else
        of->lowest = i;
    if (higher != NONE)
        of->at[higher].lower = i;
    else
        of->highest = i;
    return i;
}

/* Joins segment i with the one above it, which then is unused. */
static void absorb(slab *of, uint32_t i)
{
    uint32_t gone = of->at[i].higher, above = of->at[gone].higher;
    of->at[i].bytes += of->at[gone].bytes;
    of->at[i].higher = above;
    if (above != NONE)
        of->at[above].lower = i;
    else
        of->highest = i;
    of->at[gone].bin_next = of->unused;
    of->unused = gone;
}

/* Joins free neighbours only in program order, where whoever may have one may have both: i is released last.
 * Else a large segment free for long would get a fresh owner again and again, and be of no use. */
static void release_unit(slab *of, uint32_t unit)
{
    uint32_t i = of->segment_of[unit], higher = of->at[i].higher, lower = of->at[i].lower;
    if (of->units->order->serial && higher != NONE && of->at[higher].free) {
        bin_remove(of, higher);
        absorb(of, i);
    }
    if (of->units->order->serial && lower != NONE && of->at[lower].free) {
        bin_remove(of, lower);
        absorb(of, lower);
        of->at[lower].owner = unit;
        i = lower;
    }
    bin_push(of, i);
}

static bool usable(const slab *of, uint32_t i, uint32_t unit)
{
    return of->at[i].free && pp_unit_before(of->units, of->at[i].owner, unit);
}

/* The smallest free segment that fits, of those looked at; NONE: none. */
static uint32_t find_segment(const slab *of, uint32_t unit)
{
    uint64_t bytes = of->units->at[unit].bytes;
    uint32_t best = NONE, bin = next_filled(of, bin_of(bytes));
    for (uint32_t bins = 0; bin < BINS && bins < MOST_BINS && best == NONE; bins++) {
        uint32_t i = of->bins[bin];
        for (uint32_t looks = 0; i != NONE && looks < MOST_LOOKS; looks++, i = of->at[i].bin_next) {
            if (of->at[i].bytes < bytes || (best != NONE && of->at[i].bytes >= of->at[best].bytes)) continue;
            if (usable(of, i, unit)) best = i;
        }
        bin = next_filled(of, bin + 1);
    }
    return best;
}

/* The smallest run of free neighbours that fits, made one segment (still in its bin); NONE: none. Only where
 * the order is not program order. */
static uint32_t find_run(slab *of, uint32_t unit)
{
    uint64_t bytes = of->units->at[unit].bytes, sum = 0, best_sum = UINT64_MAX;
    uint32_t first = NONE, best = NONE;
    if (of->units->order->serial) return NONE;
    for (uint32_t i = of->lowest, walked = 0; i != NONE && walked < MOST_WALK;
         i = of->at[i].higher, walked++) {
        if (!usable(of, i, unit)) {
            first = NONE;
            continue;
        }
        sum = first == NONE ? of->at[i].bytes : sum + of->at[i].bytes;
        if (first == NONE) first = i;
        uint32_t higher = of->at[i].higher;
        bool ends = higher == NONE || !usable(of, higher, unit);
        if (!ends || sum < bytes || sum >= best_sum) continue;
        best = first;
        best_sum = sum;
    }
    if (best == NONE) return NONE;
    bin_remove(of, best);
    while (of->at[best].bytes < bytes) {
        uint32_t higher = of->at[best].higher;
        of->at[best].owner =
            of->at[higher].owner; /* what the unit will not need is the end of the last one */
        bin_remove(of, higher);
        absorb(of, best);
    }
    bin_push(of, best);
    return best;
}

/* Room at the top of the slab, over the highest segment when that is free for the unit. */
static bool grow(slab *of, uint32_t unit, uint32_t *out)
{
    uint64_t bytes = of->units->at[unit].bytes, offset = of->bytes;
    uint32_t top = of->highest;
    bool over = top != NONE && usable(of, top, unit) && of->at[top].bytes < bytes;
    if (over) {
        bin_remove(of, top);
        offset = of->at[top].offset;
    }
    if (bytes > UINT64_MAX - offset) return false;
    of->bytes = offset + bytes;
    if (over) {
        of->at[top].bytes = bytes;
        *out = top;
    } else {
        *out = add_segment(of, top, offset, bytes, unit);
    }
    return true;
}

static bool place_unit(slab *of, uint32_t unit)
{
    uint64_t bytes = of->units->at[unit].bytes;
    uint32_t i = find_segment(of, unit);
    if (i == NONE) i = find_run(of, unit);
    if (i != NONE) {
        bin_remove(of, i);
        uint64_t rest = of->at[i].bytes - bytes;
        of->at[i].bytes = bytes;
        if (rest != 0) bin_push(of, add_segment(of, i, of->at[i].offset + bytes, rest, of->at[i].owner));
    } else if (!grow(of, unit, &i)) {
        return false;
    }
    of->at[i].owner = unit;
    of->segment_of[unit] = i;
    return true;
}

/* ---- the walk ---------------------------------------------------------------------------------- */

typedef struct event {
    uint64_t bytes;
    uint32_t step, unit;
} event;

static int by_step(const void *a, const void *b)
{
    const event *x = a, *y = b;
    if (x->step != y->step) return x->step < y->step ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->unit < y->unit ? -1 : x->unit > y->unit;
}

static ppto_status walk(slab *of, const event *begin, const event *end, uint64_t *offset)
{
    uint32_t n = of->units->n, gone = 0;
    for (uint32_t i = 0; i < n; i++) {
        for (; gone < n && end[gone].step < begin[i].step; gone++) release_unit(of, end[gone].unit);
        if (!place_unit(of, begin[i].unit)) return PPTO_E_SIZE;
        offset[begin[i].unit] = of->at[of->segment_of[begin[i].unit]].offset;
    }
    return PPTO_OK;
}

ppto_status pp_pack_online(const pp_units *units, uint64_t *offset, uint64_t *bytes)
{
    uint32_t n = units->n;
    slab *of = pp_calloc(1, sizeof *of);
    event *begin = pp_calloc(n, sizeof *begin), *end = pp_calloc(n, sizeof *end);
    segment *segments = pp_calloc(2 * (size_t)n + 1, sizeof *segments);
    uint32_t *segment_of = pp_calloc(n, sizeof *segment_of);
    ppto_status status = PPTO_E_NOMEM;
    *bytes = 0;
    if (of == NULL || begin == NULL || end == NULL || segments == NULL || segment_of == NULL) goto done;
    *of = (slab){.units = units,
                 .at = segments,
                 .unused = NONE,
                 .lowest = NONE,
                 .highest = NONE,
                 .segment_of = segment_of};
    for (uint32_t i = 0; i < BINS; i++) of->bins[i] = of->bin_last[i] = NONE;
    for (uint32_t i = 0; i < n; i++) {
        begin[i] = (event){.bytes = units->at[i].bytes, .step = units->at[i].defined, .unit = i};
        end[i] = (event){.step = units->at[i].last, .unit = i};
    }
    qsort(begin, n, sizeof *begin, by_step);
    qsort(end, n, sizeof *end, by_step);
    status = walk(of, begin, end, offset);
    *bytes = of->bytes;
done:
    pp_free(of);
    pp_free(begin);
    pp_free(end);
    pp_free(segments);
    pp_free(segment_of);
    return status;
}
