/* SPDX-License-Identifier: Apache-2.0
 * Single steps, many to one visit to the lock: a step may take less time than handing it over. A worker takes
 * its share of what is ready, best ranks first: a part of what would be one's in an even division, so that
 * enough remains for everybody and all end together, and never more than BATCH_NS of it, so nothing waits
 * long behind a batch. It runs them without the lock, and goes from a step to the one that it alone leads to,
 * which nobody else could have begun. All that is complete is settled when it comes back to take more.
 *
 * Estimates of small steps may be far off, or there is none; `pace` corrects them by what batches really
 * took, slowly, since a machine may be busy. It decides how much is taken at once and who is woken, nothing
 * else. */
#include "scheduler/dispatch_parts.h"

#define BATCH_NS 10000.0
#define TIMED_NS 2000.0 /* reading the clock twice does not count then */
#define LEAST_PACE 1e-5
#define MOST_PACE 100.0
enum { TIMED_STEPS = 8, MOST_COST = 1000000000, SHARES = 4 };

/* ---- the plan ---------------------------------------------------------------------------------- */

static uint32_t cost_of(const pp_step *step)
{
    uint32_t tasks = 0;
    for (uint32_t phase = 0; phase < step->phases; phase++) {
        if (step->tasks[phase] > 1) return 0;
        tasks += step->tasks[phase];
    }
    double ns = tasks * pp_dispatch_task_ns(step);
    if (step->waits || tasks == 0) return 0;
    return ns < 1 ? 1 : ns > MOST_COST ? MOST_COST : (uint32_t)ns;
}

static uint32_t sole_next(const pp_dispatch *dispatch, uint32_t step)
{
    uint32_t first = dispatch->first_next[step];
    if (dispatch->cost[step] == 0 || dispatch->first_next[step + 1] != first + 1) return PP_NO_STEP;
    uint32_t next = dispatch->nexts[first];
    return dispatch->need_count[next] == 1 && dispatch->cost[next] != 0 ? next : PP_NO_STEP;
}

void pp_dispatch_singles(pp_dispatch *dispatch)
{
    dispatch->pace = 1;
    for (uint32_t i = dispatch->n; i-- > 0;) { /* what follows a step has a higher number */
        if (dispatch->mode == PP_RUN_THREADS) dispatch->cost[i] = cost_of(&dispatch->steps[i]);
        dispatch->sole[i] = sole_next(dispatch, i);
        dispatch->worth[i] = dispatch->cost[i];
        if (dispatch->sole[i] != PP_NO_STEP) dispatch->worth[i] += dispatch->worth[dispatch->sole[i]];
        if (dispatch->cost[i] == 0 || dispatch->need_count[i] != 0) continue;
        pp_rank_set_add(&dispatch->first, dispatch->rank[i]);
        dispatch->first_ns += dispatch->worth[i];
    }
}

/* ---- a batch ----------------------------------------------------------------------------------- */

void pp_dispatch_batch_take(pp_dispatch *dispatch, uint32_t step, uint32_t domain, pp_batch *out)
{
    const pp_rank_set *common = &dispatch->ready[0];
    uint32_t share = common->n / (SHARES * dispatch->n_slots), bound = UINT32_MAX;
    if (dispatch->n_sets != 1 && dispatch->ready[1 + domain].n != 0)
        bound = pp_rank_set_least(&dispatch->ready[1 + domain]); /* comes first */
    out->n = 1;
    out->passed = 0;
    out->step[0] = step;
    out->ns = dispatch->cost[step];
    out->most_ns = (uint64_t)(BATCH_NS / dispatch->pace);
    while (out->n < PP_BATCH && out->n <= share && common->n != 0) {
        uint32_t rank = pp_rank_set_least(common), next = dispatch->by_rank[rank];
        uint64_t cost = dispatch->cost[next];
        if (cost == 0 || rank > bound || out->ns + cost > out->most_ns) break;
        pp_dispatch_take_out(dispatch, 0, next);
        out->step[out->n++] = next;
        out->ns += cost;
    }
    bool timed = out->n >= TIMED_STEPS || (double)out->ns * dispatch->pace >= TIMED_NS;
    out->began_ns = timed ? pp_clock_ns() : 0;
}

static void run_single(pp_dispatch *dispatch, uint32_t step, uint32_t slot)
{
    uint32_t phase = pp_dispatch_phase(dispatch, step, 0);
    while (phase != PP_NO_PHASE) {
        (void)pp_dispatch_task(dispatch, step, phase, 0, slot);
        phase = pp_dispatch_next_phase(dispatch, step, phase);
    }
}

/* The step to go on with; PP_NO_STEP: whatever there is has to be made ready. */
static uint32_t goes_on(pp_dispatch *dispatch, uint32_t step, const pp_batch *batch)
{
    uint32_t next = dispatch->sole[step];
    if (next == PP_NO_STEP || batch->ns + dispatch->cost[next] > batch->most_ns) return PP_NO_STEP;
    if (!pp_dispatch_succeeded(dispatch, step) || pp_dispatch_skips(dispatch, next)) return PP_NO_STEP;
    return next;
}

void pp_dispatch_batch_run(pp_dispatch *dispatch, pp_batch *batch, uint32_t slot)
{
    for (uint32_t i = 0; i < batch->n; i++) {
        uint32_t next;
        run_single(dispatch, batch->step[i], slot);
        while ((next = goes_on(dispatch, batch->step[i], batch)) != PP_NO_STEP) {
            run_single(dispatch, next, slot);
            batch->step[i] = next;
            batch->passed++;
            batch->ns += dispatch->cost[next];
        }
    }
}

static void keep_pace(pp_dispatch *dispatch, const pp_batch *batch)
{
    double real = (double)(pp_clock_ns() - batch->began_ns) / (double)batch->ns, pace = dispatch->pace;
    if (real > 2 * pace) real = 2 * pace;
    if (real < pace / 2) real = pace / 2;
    pace += (real - pace) / 4;
    dispatch->pace = pace < LEAST_PACE ? LEAST_PACE : pace > MOST_PACE ? MOST_PACE : pace;
}

pp_ready pp_dispatch_batch_settle(pp_dispatch *dispatch, const pp_batch *batch)
{
    if (batch->began_ns != 0) keep_pace(dispatch, batch);
    dispatch->steps_left -= batch->passed;
    return pp_dispatch_settle(dispatch, batch->step, batch->n);
}
