/* SPDX-License-Identifier: Apache-2.0
 * Seeded interleavings on the caller. As many virtual workers as the executor has each hold at most one
 * claimed task; at every turn the generator either lets a free one claim a task of any ready step (ranks are
 * ignored) or lets a busy one run and finish its task. Tasks of a phase are claimed in an order drawn too.
 * The same seed, plan and number of earlier runs give the same order. Of several domains a worker takes what
 * is common or its own, and now and then, or when there is nothing else, what is another's.
 *
 * Tasks that somebody else completes arrive in a list; taking one from it is a turn, too. With a world
 * (pp_executor_simulate) so is a turn of the world, time is virtual, and nothing here depends on a clock.
 * Several runs of one world hand the turn to one another (sim_turns.c). */
#include "scheduler/dispatch_parts.h"
#include "scheduler/sim_turns.h"

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
    bool together; /* with other runs */
    bool did;      /* something, in its turn */
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

/* The task that the claim `i` of n means: start + i * stride, with a stride that meets every one. */
static uint32_t shuffled(const sim *of, uint32_t step, uint32_t phase, uint32_t i, uint32_t n)
{
    uint64_t h = pp_hash_mix(pp_hash_mix(of->key, step), phase), stride = h % n;
    while (divisor(stride, n) != 1) stride++;
    return (uint32_t)(((h >> 32) % n + i * (stride % n)) % n);
}

/* How many entries a worker may draw from: of set 0 and its own, or of all. */
static uint32_t entries(const pp_dispatch *dispatch, uint32_t own, bool all)
{
    uint32_t n = 0;
    for (uint32_t h = 0; h < dispatch->n_sets; h++)
        if (all || h == 0 || h == own) n += dispatch->ready[h].n;
    return n;
}

/* The set of entry `at` of those. */
static uint32_t set_at(const pp_dispatch *dispatch, uint32_t own, bool all, uint32_t at)
{
    for (uint32_t h = 0;; h++) {
        if (!all && h != 0 && h != own) continue;
        if (at < dispatch->ready[h].n) return h;
        at -= dispatch->ready[h].n;
    }
}

static void claim_any(sim *of)
{
    pp_dispatch *dispatch = of->dispatch;
    uint32_t slot = of->free_slots[--of->n_free], own = 1 + dispatch->slots[slot].job.domain, first;
    bool all = dispatch->n_sets != 1 && (draw(of) & 3) == 0;
    if (entries(dispatch, own, all) == 0) all = true;
    uint32_t h = set_at(dispatch, own, all, below(of, entries(dispatch, own, all)));
    uint32_t step = dispatch->by_rank[pp_rank_set_next(&dispatch->ready[h], below(of, dispatch->n))];
    uint64_t claim = atomic_fetch_add_explicit(pp_dispatch_claim(dispatch, step, h), 1,
                                               memory_order_relaxed); /* one thread */
    uint32_t phase = (uint32_t)(claim >> 32), i = (uint32_t)claim;
    uint32_t end = pp_dispatch_part(dispatch, step, phase, h, &first);
    if (i + 1 == end) pp_dispatch_take_out(dispatch, h, step);
    uint32_t task = first + shuffled(of, step, phase, i - first, end - first);
    of->busy[of->n_busy++] = (virtual_worker){.slot = slot, .step = step, .phase = phase, .task = task};
}

static void task_done(pp_dispatch *dispatch, uint32_t step, uint32_t phase, uint32_t n)
{
    if (atomic_fetch_sub_explicit(&dispatch->left[step], n, memory_order_relaxed) != n) return;
    uint32_t next = pp_dispatch_next_phase(dispatch, step, phase);
    if (next != PP_NO_PHASE)
        (void)pp_dispatch_open(dispatch, step, next);
    else
        (void)pp_dispatch_settle(dispatch, &step, 1);
}

static void finish_any(sim *of)
{
    pp_dispatch *dispatch = of->dispatch;
    uint32_t at = below(of, of->n_busy);
    virtual_worker done = of->busy[at];
    of->busy[at] = of->busy[--of->n_busy];
    of->free_slots[of->n_free++] = done.slot;
    bool whole = pp_dispatch_task(dispatch, done.step, done.phase, done.task, done.slot);
    pp_sim_world *world = dispatch->executor->world;
    if (world != NULL) world->now_ns += (int64_t)pp_dispatch_task_ns(&dispatch->steps[done.step]);
    if (whole) task_done(dispatch, done.step, done.phase, 1);
}

/* ---- what happens outside ---------------------------------------------------------------------- */

void pp_dispatch_sim_arrive(pp_dispatch *dispatch, uint32_t step, uint32_t task)
{
    pthread_mutex_lock(&dispatch->lock);
    dispatch->arrived[dispatch->n_arrived++] = (pp_arrival){step, task};
    if (dispatch->caller_waits) pthread_cond_signal(&dispatch->changed);
    pthread_mutex_unlock(&dispatch->lock);
}

static bool arrive_any(sim *of)
{
    pp_dispatch *dispatch = of->dispatch;
    pthread_mutex_lock(&dispatch->lock);
    bool any = dispatch->n_arrived != 0;
    pp_arrival arrival = {0};
    if (any) {
        uint32_t at = below(of, dispatch->n_arrived);
        arrival = dispatch->arrived[at];
        dispatch->arrived[at] = dispatch->arrived[--dispatch->n_arrived];
    }
    pthread_mutex_unlock(&dispatch->lock);
    if (any) task_done(dispatch, arrival.step, pp_dispatch_at(dispatch, arrival.step), 1);
    return any;
}

static bool take_back(pp_dispatch *dispatch)
{
    bool any = false;
    for (uint32_t i = 0; i < dispatch->n_waiting; i++) {
        uint32_t step = dispatch->waiting[i], n = pp_dispatch_take_back(dispatch, step);
        if (n == 0) continue;
        task_done(dispatch, step, pp_dispatch_at(dispatch, step), n);
        any = true;
    }
    return any;
}

/* Nothing can be claimed or finished: all that is left waits for the outside. */
static void rest(sim *of)
{
    pp_dispatch *dispatch = of->dispatch;
    pp_sim_world *world = dispatch->executor->world;
    int64_t deadline = dispatch->options->deadline_ns;
    bool over = pp_dispatch_over(dispatch), did = of->did;
    of->did = true; /* unless the turn was others' */
    if (over && take_back(dispatch)) return;
    if (of->together && pp_sim_turns_rest(dispatch->executor->turns, did)) {
        of->did = false;
        return;
    }
    if (world != NULL && world->turn(world->arg, draw(of))) return;
    if (of->together) deadline = pp_sim_turns_deadline(dispatch->executor->turns, world->now_ns);
    if (world != NULL && (!over || of->together) && deadline > world->now_ns && deadline != INT64_MAX) {
        world->now_ns = deadline;
        return;
    }
    pthread_mutex_lock(&dispatch->lock);
    dispatch->caller_waits = true;
    if (dispatch->n_arrived == 0 && over == pp_dispatch_over(dispatch))
        (void)pp_condition_wait(&dispatch->changed, &dispatch->lock,
                                over ? 0 : pp_dispatch_rest_until(dispatch));
    dispatch->caller_waits = false;
    pthread_mutex_unlock(&dispatch->lock);
}

static bool turn_outside(sim *of)
{
    pp_sim_world *world = of->dispatch->executor->world;
    if ((draw(of) & 1) != 0 && arrive_any(of)) return true;
    return world != NULL && world->turn(world->arg, draw(of));
}

void pp_dispatch_sim(pp_dispatch *dispatch)
{
    const pp_sim_world *world = dispatch->executor->world;
    sim state = {.dispatch = dispatch, .together = world != NULL && world->runs != 0};
    uint64_t which = dispatch->runs;
    if (state.together)
        which = pp_sim_turns_enter(dispatch->executor->turns, dispatch->options->number,
                                   dispatch->options->deadline_ns);
    state.state = pp_hash_mix(dispatch->executor->seed, which);
    state.key = draw(&state);
    state.n_free = dispatch->n_slots;
    for (uint32_t i = 0; i < state.n_free; i++) state.free_slots[i] = i;
    pp_dispatch_reset(dispatch);
    (void)pp_dispatch_begin(dispatch);
    while (dispatch->steps_left != 0) {
        if (state.together && (draw(&state) & 3) == 0) {
            pp_sim_turns_next(dispatch->executor->turns, state.did);
            state.did = false;
        }
        bool can_claim = state.n_free != 0 && entries(dispatch, 0, true) != 0;
        bool outside = dispatch->n_waiting != 0 && (draw(&state) & 3) == 0;
        if (outside && turn_outside(&state)) {
            state.did = true;
            continue;
        }
        if (can_claim && (state.n_busy == 0 || (draw(&state) & 1) != 0))
            claim_any(&state);
        else if (state.n_busy != 0)
            finish_any(&state);
        else if (!arrive_any(&state)) {
            rest(&state);
            continue;
        }
        state.did = true;
    }
}
