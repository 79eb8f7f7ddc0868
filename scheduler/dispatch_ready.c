/* SPDX-License-Identifier: Apache-2.0
 * Needs counted down, and the heap of steps with unclaimed tasks. Everything here is called under the lock.
 * Steps that have nothing to run, or are skipped, are settled at once, with a stack instead of recursion: a
 * chain may be long. */
#include <string.h>

#include "scheduler/dispatch_parts.h"

enum { UNKNOWN_NS = 20000, PLACED_NS = 20000 /* for each domain, or it is not worth a place */ };

double pp_dispatch_task_ns(const pp_step *step)
{
    return step->task_ns > 0 ? step->task_ns : UNKNOWN_NS;
}

/* ---- heap -------------------------------------------------------------------------------------- */

static void sift_up(uint32_t *heap, uint32_t at)
{
    while (at != 0) {
        uint32_t parent = (at - 1) / 2, keep = heap[at];
        if (heap[parent] <= keep) return;
        heap[at] = heap[parent];
        heap[parent] = keep;
        at = parent;
    }
}

static void sift_down(uint32_t *heap, uint32_t n, uint32_t at)
{
    for (;;) {
        uint32_t least = at, child = 2 * at + 1;
        if (child < n && heap[child] < heap[least]) least = child;
        if (child + 1 < n && heap[child + 1] < heap[least]) least = child + 1;
        if (least == at) return;
        uint32_t keep = heap[at];
        heap[at] = heap[least];
        heap[least] = keep;
        at = least;
    }
}

static void push(pp_dispatch *dispatch, uint32_t step, uint32_t h)
{
    const size_t base = (size_t)h * dispatch->n;
    if (dispatch->in_heap[base + step]) return;
    dispatch->in_heap[base + step] = true;
    dispatch->heap[base + dispatch->n_heap[h]] = dispatch->rank[step];
    if (dispatch->mode != PP_RUN_SIM) sift_up(dispatch->heap + base, dispatch->n_heap[h]);
    dispatch->n_heap[h]++;
}

/* at is 0 unless the heap is a list. */
void pp_dispatch_pop(pp_dispatch *dispatch, uint32_t h, uint32_t at)
{
    const size_t base = (size_t)h * dispatch->n;
    uint32_t *heap = dispatch->heap + base;
    dispatch->in_heap[base + dispatch->by_rank[heap[at]]] = false;
    heap[at] = heap[--dispatch->n_heap[h]];
    if (dispatch->mode != PP_RUN_SIM) sift_down(heap, dispatch->n_heap[h], at);
}

/* ---- domains ----------------------------------------------------------------------------------- */

bool pp_dispatch_placed(const pp_dispatch *dispatch, uint32_t step, uint32_t phase)
{
    const pp_step *of = &dispatch->steps[step];
    uint32_t domains = dispatch->shares.n;
    if (dispatch->n_heaps == 1 || of->tasks[phase] < domains) return false;
    return dispatch->mode == PP_RUN_SIM || of->tasks[phase] * pp_dispatch_task_ns(of) >= domains * PLACED_NS;
}

uint32_t pp_dispatch_part(const pp_dispatch *dispatch, uint32_t step, uint32_t phase, uint32_t h,
                          uint32_t *first)
{
    uint32_t tasks = dispatch->steps[step].tasks[phase];
    bool placed = pp_dispatch_placed(dispatch, step, phase);
    *first = 0;
    if (!placed || h == 0) return placed == (h == 0) ? 0 : tasks;
    *first = (uint32_t)pp_share_first(&dispatch->shares, h - 1, tasks);
    return (uint32_t)pp_share_first(&dispatch->shares, h, tasks);
}

/* ---- needs ------------------------------------------------------------------------------------- */

pp_ready pp_dispatch_open(pp_dispatch *dispatch, uint32_t step, uint32_t phase)
{
    uint32_t tasks = dispatch->steps[step].tasks[phase];
    atomic_store_explicit(&dispatch->left[step], tasks, memory_order_relaxed);
    for (uint32_t h = 0; h < dispatch->n_heaps; h++) {
        uint32_t first = 0, end = tasks;
        if (dispatch->n_heaps != 1) end = pp_dispatch_part(dispatch, step, phase, h, &first);
        /* release: what earlier phases wrote, and `left`, before a claim (acquire) of this phase */
        atomic_store_explicit(pp_dispatch_claim(dispatch, step, h), (uint64_t)phase << 32 | first,
                              memory_order_release);
        if (first != end) push(dispatch, step, h);
    }
    return (pp_ready){.tasks = tasks, .ns = tasks * pp_dispatch_task_ns(&dispatch->steps[step])};
}

/* A step whose needs are complete: opened, or left on the stack of those that complete at once. */
static void make_ready(pp_dispatch *dispatch, uint32_t step, uint32_t *n_stack, pp_ready *sum)
{
    bool skips = pp_dispatch_skips(dispatch, step), told = dispatch->steps[step].skipped != NULL;
    uint32_t phase = skips && !told ? PP_NO_PHASE : pp_dispatch_phase(dispatch, step, 0);
    if (skips) pp_dispatch_spoil(dispatch, step, step);
    if (phase == PP_NO_PHASE) {
        dispatch->stack[(*n_stack)++] = step;
        return;
    }
    pp_ready opened = pp_dispatch_open(dispatch, step, phase);
    sum->tasks += opened.tasks;
    sum->ns += opened.ns;
}

static void drain(pp_dispatch *dispatch, uint32_t n_stack, pp_ready *sum)
{
    while (n_stack != 0) {
        uint32_t step = dispatch->stack[--n_stack];
        dispatch->steps_left--;
        for (uint32_t i = dispatch->first_next[step]; i < dispatch->first_next[step + 1]; i++) {
            uint32_t next = dispatch->nexts[i];
            pp_dispatch_hand_on(dispatch, step, next);
            if (--dispatch->pending[next] == 0) make_ready(dispatch, next, &n_stack, sum);
        }
    }
}

pp_ready pp_dispatch_settle(pp_dispatch *dispatch, uint32_t step)
{
    pp_ready sum = {0};
    dispatch->stack[0] = step;
    drain(dispatch, 1, &sum);
    return sum;
}

pp_ready pp_dispatch_begin(pp_dispatch *dispatch)
{
    pp_ready sum = {0};
    uint32_t n_stack = 0;
    for (uint32_t step = 0; step < dispatch->n; step++)
        if (dispatch->need_count[step] == 0) make_ready(dispatch, step, &n_stack, &sum);
    drain(dispatch, n_stack, &sum);
    return sum;
}

void pp_dispatch_reset(pp_dispatch *dispatch)
{
    size_t n = dispatch->n;
    memcpy(dispatch->pending, dispatch->need_count, n * sizeof *dispatch->pending);
    memset(dispatch->in_heap, 0, dispatch->n_heaps * n * sizeof *dispatch->in_heap);
    memset(dispatch->n_heap, 0, sizeof dispatch->n_heap);
    dispatch->steps_left = dispatch->n;
}
