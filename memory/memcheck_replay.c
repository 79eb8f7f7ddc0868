/* SPDX-License-Identifier: Apache-2.0
 * What the peak would have been if buffers had been given back when their last use was over: all of them (the
 * ideal peak), or those of one group alone (what that group could have avoided).
 *
 * The history is swept once in the order of its ticks, with two curves: bytes that were held, and of those
 * the bytes at rest. Taking the second from the first is the replay; for one group only its own rests are
 * taken. The history may have lost its beginning; then the saving is that of what is left. */
#include "memory/memcheck.h"

#include <stdlib.h>

typedef struct turn { /* deaths and ends of rest stand before births and rests of the same tick */
    uint64_t tick;
    int64_t held, rest; /* change */
    uint32_t group, order;
} turn;

static int by_tick(const void *a, const void *b)
{
    const turn *x = a, *y = b;
    if (x->tick != y->tick) return x->tick < y->tick ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Room for four turns a buffer. */
static size_t list_turns(const pp_memcheck *report, turn *turns)
{
    size_t n = 0;
    for (size_t i = 0; i < report->buffers.n; i++) {
        const pp_report_buffer *b = &report->buffers.at[i];
        int64_t bytes = (int64_t)b->bytes;
        turns[n++] = (turn){b->born_tick, bytes, 0, b->group, 1};
        turns[n++] = (turn){b->died_tick, -bytes, 0, b->group, 0};
        if (b->used_tick >= b->died_tick) continue;
        turns[n++] = (turn){b->used_tick, 0, bytes, b->group, 2};
        turns[n++] = (turn){b->died_tick, 0, -bytes, b->group, 0};
    }
    if (n > 1) qsort(turns, n, sizeof *turns, by_tick);
    return n;
}

enum { NO_GROUP = UINT32_MAX, ALL_GROUPS = UINT32_MAX - 1 };

/* The highest point when the rests of these are taken away. */
static uint64_t peak_of(const turn *turns, size_t n, uint32_t group)
{
    int64_t held = 0, most = 0;
    for (size_t i = 0; i < n; i++) {
        held += turns[i].held;
        if (group == ALL_GROUPS || group == turns[i].group) held -= turns[i].rest;
        bool last_of_tick = i + 1 == n || turns[i + 1].tick != turns[i].tick;
        if (last_of_tick && held > most) most = held;
    }
    return (uint64_t)most;
}

static uint64_t saved(uint64_t before, uint64_t after)
{
    return before > after ? before - after : 0;
}

ppto_status pp_memcheck_replay(pp_memcheck *report)
{
    turn *turns = pp_calloc(report->buffers.n + 1, 4 * sizeof *turns);
    uint8_t *rests = pp_calloc(report->groups.n + 1, 1);
    if (turns != NULL && rests != NULL) {
        size_t n = list_turns(report, turns);
        uint64_t actual = peak_of(turns, n, NO_GROUP);
        report->has_ideal = true;
        report->avoidable_bytes = saved(actual, peak_of(turns, n, ALL_GROUPS));
        report->ideal_peak_bytes = report->peak_bytes - report->avoidable_bytes;
        for (size_t i = 0; i < n; i++)
            if (turns[i].rest > 0) rests[turns[i].group] = 1;
        for (uint32_t g = 0; g < report->groups.n; g++)
            if (rests[g]) report->groups.at[g].avoidable_bytes = saved(actual, peak_of(turns, n, g));
    }
    ppto_status status = turns != NULL && rests != NULL ? PPTO_OK : PPTO_E_NOMEM;
    pp_free(turns);
    pp_free(rests);
    return status;
}
