/* SPDX-License-Identifier: Apache-2.0
 * What happened when, noted by the thread that did it: rings of fixed size, each with one writer at a time. A
 * note is one copy into the ring; there is no lock, no allocation and no call. When a ring is full the oldest
 * note goes, and how many went is known.
 *
 * Who may read: whoever knows that no writer is under way, and has what it wrote made visible to itself by a
 * lock or a join. Names and meanings of the numbers are the owner's (src/runtime/tracing.h). */
#ifndef PP_TRACE_RING_H
#define PP_TRACE_RING_H

#include "base/base.h"

typedef enum pp_trace_kind {
    PP_TRACE_TASK,   /* step, phase, task */
    PP_TRACE_RUN,    /* a whole run, or a piece of one */
    PP_TRACE_READ,   /* step: the file, bytes; begun_ns: when it left the queue */
    PP_TRACE_WRITE,  /* the same */
    PP_TRACE_MEMORY, /* bytes held by the pool, and asked for by tensors; start_ns alone */
    PP_TRACE_STAGE,  /* of compiling; step: which, more: kernel, phase: what a cache had */
    PP_TRACE_FAILURE /* a moment: a run failed or was cancelled; step: the text */
} pp_trace_kind;

/* One cache line, so that neighbours' writers do not share one. */
typedef struct pp_trace_event {
    int64_t start_ns, end_ns; /* of pp_clock_ns() */
    int64_t begun_ns;
    uint64_t bytes, more; /* MEMORY: more is asked for; READ, WRITE: the offset in the file */
    uint32_t run, plan;   /* as the owner numbers them */
    uint32_t step, task;
    uint32_t worker; /* TASK */
    uint16_t phase;
    uint8_t kind;   /* pp_trace_kind */
    uint8_t failed; /* READ, WRITE, RUN */
} pp_trace_event;

typedef struct pp_trace_ring {
    pp_trace_event *at; /* mask + 1 of them */
    uint64_t mask;
    uint64_t written; /* notes so far; at[(written - 1) & mask] is the newest */
} pp_trace_ring;

/* room: rounded up to a power of two. Pages that are never written are never touched.
 * returns  PPTO_OK; E_NOMEM
 * owns     pp_trace_ring_free */
ppto_status pp_trace_ring_make(pp_trace_ring *ring, uint64_t room);
void pp_trace_ring_free(pp_trace_ring *ring);

/* threads  the ring's one writer */
static inline void pp_trace_note(pp_trace_ring *ring, const pp_trace_event *event)
{
    ring->at[ring->written++ & ring->mask] = *event;
}

uint64_t pp_trace_ring_kept(const pp_trace_ring *ring);
uint64_t pp_trace_ring_dropped(const pp_trace_ring *ring);
/* The i-th of those kept, oldest first. */
static inline const pp_trace_event *pp_trace_ring_get(const pp_trace_ring *ring, uint64_t i)
{
    uint64_t first = ring->written > ring->mask ? ring->written - ring->mask - 1 : 0;
    return &ring->at[(first + i) & ring->mask];
}

#endif
