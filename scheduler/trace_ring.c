/* SPDX-License-Identifier: Apache-2.0
 * Rings of notes: making, freeing, counting. Writing and reading one is inline in the header. */
#include "scheduler/trace_ring.h"

_Static_assert(sizeof(pp_trace_event) == 64, "a note is a cache line");

enum { LEAST_ROOM = 16, MOST_ROOM_LOG2 = 26 };

ppto_status pp_trace_ring_make(pp_trace_ring *ring, uint64_t room)
{
    uint64_t n = LEAST_ROOM;
    while (n < room && n < (uint64_t)1 << MOST_ROOM_LOG2) n *= 2;
    *ring = (pp_trace_ring){.mask = n - 1};
    ring->at = pp_alloc_aligned(sizeof *ring->at, (size_t)n * sizeof *ring->at);
    return ring->at != NULL ? PPTO_OK : PPTO_E_NOMEM;
}

void pp_trace_ring_free(pp_trace_ring *ring)
{
    pp_free(ring->at);
    *ring = (pp_trace_ring){0};
}

uint64_t pp_trace_ring_kept(const pp_trace_ring *ring)
{
    return ring->written > ring->mask ? ring->mask + 1 : ring->written;
}

uint64_t pp_trace_ring_dropped(const pp_trace_ring *ring)
{
    return ring->written - pp_trace_ring_kept(ring);
}
