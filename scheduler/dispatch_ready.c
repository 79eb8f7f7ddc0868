/* SPDX-License-Identifier: Apache-2.0
 * Needs counted down, and the sets of steps with unclaimed tasks. Everything here is called under the lock.
 * Steps that have nothing to run, or are skipped, are settled at once, with a stack instead of recursion: a
 * chain may be long. */
#include <string.h>

#include "scheduler/dispatch_parts.h"

enum { UNKNOWN_NS = 20000, PLACED_NS = 20000 /* for each domain, or it is not worth a place */ };

double pp_dispatch_task_ns(const pp_step *step)
{
    return step->task_ns > 0 ? step->task_ns : UNKNOWN_NS;
}

/* ---- sets -------------------------------------------------------------------------------------- */

static void put_in(pp_dispatch *dispatch, uint32_t h, uint32_t step)
{
    if (pp_rank_set_has(&dispatch->ready[h], dispatch->rank[step])) return;
    pp_rank_set_add(&dispatch->ready[h], dispatch->rank[step]);
    if (dispatch->cost[step] == 0) return;
    dispatch->singles++;
    dispatch->singles_ns += dispatch->worth[step];
}

void pp_dispatch_take_out(pp_dispatch *dispatch, uint32_t h, uint32_t step)
{
    pp_rank_set_remove(&dispatch->ready[h], dispatch->rank[step]);
    if (dispatch->cost[step] == 0) return;
    dispatch->singles--;
    dispatch->singles_ns -= dispatch->worth[step];
}

/* ---- domains ----------------------------------------------------------------------------------- */

bool pp_dispatch_placed(const pp_dispatch *dispatch, uint32_t step, uint32_t phase)
{
    const pp_step *of = &dispatch->steps[step];
    uint32_t domains = dispatch->shares.n;
    if (dispatch->n_sets == 1 || of->tasks[phase] < domains) return false;
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
    if (dispatch->cost[step] != 0) {
        put_in(dispatch, 0, step);
        return (pp_ready){.tasks = 0};
    }
    atomic_store_explicit(&dispatch->left[step], tasks, memory_order_relaxed);
    for (uint32_t h = 0; h < dispatch->n_sets; h++) {
        uint32_t first = 0, end = tasks;
        if (dispatch->n_sets != 1) end = pp_dispatch_part(dispatch, step, phase, h, &first);
        /* release: what earlier phases wrote, and `left`, before a claim (acquire) of this phase */
        atomic_store_explicit(pp_dispatch_claim(dispatch, step, h), (uint64_t)phase << 32 | first,
                              memory_order_release);
        if (first != end) put_in(dispatch, h, step);
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

pp_ready pp_dispatch_settle(pp_dispatch *dispatch, const uint32_t *steps, uint32_t n)
{
    pp_ready sum = {0};
    memcpy(dispatch->stack, steps, n * sizeof *steps);
    drain(dispatch, n, &sum);
    return sum;
}

pp_ready pp_dispatch_begin(pp_dispatch *dispatch)
{
    pp_ready sum = {0};
    uint32_t n_stack = 0;
    bool at_once =
        !pp_dispatch_over(dispatch); /* no step is skipped: all single ones are ready as they are */
    if (at_once) {
        pp_rank_set_copy(&dispatch->ready[0], &dispatch->first);
        dispatch->singles = dispatch->first.n;
        dispatch->singles_ns = dispatch->first_ns;
    }
    for (uint32_t step = 0; step < dispatch->n; step++)
        if (dispatch->need_count[step] == 0 && !(at_once && dispatch->cost[step] != 0))
            make_ready(dispatch, step, &n_stack, &sum);
    drain(dispatch, n_stack, &sum);
    return sum;
}

void pp_dispatch_reset(pp_dispatch *dispatch)
{
    size_t n = dispatch->n;
    memcpy(dispatch->pending, dispatch->need_count, n * sizeof *dispatch->pending);
    for (uint32_t h = 0; h < dispatch->n_sets; h++) pp_rank_set_clear(&dispatch->ready[h]);
    dispatch->singles = 0;
    dispatch->singles_ns = 0;
    dispatch->steps_left = dispatch->n;
}
