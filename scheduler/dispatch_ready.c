/* SPDX-License-Identifier: Apache-2.0
 * Needs counted down, and the heap of steps with unclaimed tasks. Everything here is called under the lock.
 * Steps that have nothing to run, or are skipped, are settled at once, with a stack instead of recursion: a
 * chain may be long. */
#include <string.h>

#include "scheduler/dispatch_parts.h"

enum { UNKNOWN_NS = 20000 };

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

static void push(pp_dispatch *dispatch, uint32_t step)
{
    if (dispatch->in_heap[step]) return;
    dispatch->in_heap[step] = true;
    dispatch->heap[dispatch->n_heap] = dispatch->rank[step];
    if (dispatch->mode != PP_RUN_SIM) sift_up(dispatch->heap, dispatch->n_heap);
    dispatch->n_heap++;
}

/* at is 0 unless the heap is a list. */
void pp_dispatch_pop(pp_dispatch *dispatch, uint32_t at)
{
    dispatch->in_heap[dispatch->by_rank[dispatch->heap[at]]] = false;
    dispatch->heap[at] = dispatch->heap[--dispatch->n_heap];
    if (dispatch->mode != PP_RUN_SIM) sift_down(dispatch->heap, dispatch->n_heap, at);
}

/* ---- needs ------------------------------------------------------------------------------------- */

pp_ready pp_dispatch_open(pp_dispatch *dispatch, uint32_t step, uint32_t phase)
{
    uint32_t tasks = dispatch->steps[step].tasks[phase];
    atomic_store_explicit(&dispatch->left[step], tasks, memory_order_relaxed);
    /* release: what earlier phases wrote, and `left`, before a claim (acquire) of this phase */
    atomic_store_explicit(&dispatch->claim[step], (uint64_t)phase << 32, memory_order_release);
    push(dispatch, step);
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
    memset(dispatch->in_heap, 0, n * sizeof *dispatch->in_heap);
    dispatch->n_heap = 0;
    dispatch->steps_left = dispatch->n;
}
