/* SPDX-License-Identifier: Apache-2.0
 * Seeded interleavings on the caller. As many virtual workers as the executor has each hold at most one
 * claimed task; at every turn the generator either lets a free one claim a task of any ready step (ranks are
 * ignored) or lets a busy one run and finish its task. Tasks of a phase are claimed in an order drawn too.
 * The same seed, plan and number of earlier runs give the same order. */
#include "scheduler/dispatch_parts.h"

typedef struct virtual_worker {
    uint32_t slot, step, phase, task;
} virtual_worker;

typedef struct sim {
    pp_dispatch *dispatch;
    uint64_t state; /* of the generator */
    uint64_t key;   /* of the order of tasks */
    virtual_worker busy[PP_SIM_SLOTS];
    uint32_t free_slots[PP_SIM_SLOTS];
    uint32_t n_busy, n_free;
} sim;

/* source Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014 (the mix of SplitMix64) */
static uint64_t draw(sim *of)
{
    uint64_t z = of->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t below(sim *of, uint32_t n)
{
    return (uint32_t)(draw(of) % n);
}

static uint64_t divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The task that the claim `i` of n means: start + i * stride, with a stride that meets every task. */
static uint32_t shuffled(const sim *of, uint32_t step, uint32_t phase, uint32_t i, uint32_t n)
{
    uint64_t h = pp_hash_mix(pp_hash_mix(of->key, step), phase), stride = h % n;
    while (divisor(stride, n) != 1) stride++;
    return (uint32_t)(((h >> 32) % n + i * (stride % n)) % n);
}

static void claim_any(sim *of)
{
    pp_dispatch *dispatch = of->dispatch;
    uint32_t at = below(of, dispatch->n_heap), step = dispatch->by_rank[dispatch->heap[at]];
    uint64_t claim =
        atomic_fetch_add_explicit(&dispatch->claim[step], 1, memory_order_relaxed); /* one thread */
    uint32_t phase = (uint32_t)(claim >> 32), i = (uint32_t)claim, tasks = dispatch->steps[step].tasks[phase];
    if (i + 1 == tasks) pp_dispatch_pop(dispatch, at);
    of->busy[of->n_busy++] = (virtual_worker){.slot = of->free_slots[--of->n_free],
                                              .step = step,
                                              .phase = phase,
                                              .task = shuffled(of, step, phase, i, tasks)};
}

static void finish_any(sim *of)
{
    pp_dispatch *dispatch = of->dispatch;
    uint32_t at = below(of, of->n_busy);
    virtual_worker done = of->busy[at];
    of->busy[at] = of->busy[--of->n_busy];
    of->free_slots[of->n_free++] = done.slot;
    pp_dispatch_task(dispatch, done.step, done.phase, done.task, done.slot);
    if (atomic_fetch_sub_explicit(&dispatch->left[done.step], 1, memory_order_relaxed) != 1) return;
    uint32_t next = pp_dispatch_phase(dispatch, done.step, done.phase + 1);
    if (next != PP_NO_PHASE)
        (void)pp_dispatch_open(dispatch, done.step, next);
    else
        (void)pp_dispatch_complete(dispatch, done.step);
}

void pp_dispatch_sim(pp_dispatch *dispatch)
{
    sim state = {.dispatch = dispatch, .state = pp_hash_mix(dispatch->executor->seed, dispatch->runs)};
    state.key = draw(&state);
    state.n_free = dispatch->n_slots;
    for (uint32_t i = 0; i < state.n_free; i++) state.free_slots[i] = i;
    pp_dispatch_reset(dispatch);
    (void)pp_dispatch_begin(dispatch);
    while (dispatch->steps_left != 0) {
        bool can_claim = state.n_free != 0 && dispatch->n_heap != 0;
        if (can_claim && (state.n_busy == 0 || (draw(&state) & 1) != 0))
            claim_any(&state);
        else
            finish_any(&state);
    }
}
