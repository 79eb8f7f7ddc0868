/* SPDX-License-Identifier: Apache-2.0
 * The order of threads: each takes the ready step of the best rank, claims its tasks one by one without the
 * lock, and completes what it finished last; single steps (dispatch_parts.h) it takes in batches, and
 * completes them when it comes back to the lock for more. The caller works too, and only it waits; a worker
 * without work spins for a moment (a phase is often about to open) and then leaves the run, so that other
 * runs of the executor get it.
 *
 * Of several domains (dispatch_parts.h) a worker prefers what is common or its own.
 *
 * Somebody is woken only for work that pays for it: one worker for each WAKE_NS of what just became ready and
 * of all single steps that are, less what the thread that made it ready takes itself; one that looks for work
 * is told from LOOK_NS on. A thread that makes something ready goes on to claim, so no wake is needed for
 * progress, and none is lost that matters. */
#include "scheduler/dispatch_parts.h"

#define WAKE_NS 10000.0
#define LOOK_NS 2000.0
/* HELP_BYTES: what a task may read and still be taken over by a worker of another domain. */
enum { SPIN_NS = 10000, SPIN_LOOKS = 32, HELP_BYTES = 8 << 20 };

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- under the lock ---------------------------------------------------------------------------- */

typedef struct claimed {
    uint32_t step, set;
    uint64_t claim;
} claimed;

/* Claims a task of the best step of set h, or takes a single step, unless a task of it reads more than
 * `most`.
 */
static bool claim_from(pp_dispatch *dispatch, uint32_t h, size_t most, claimed *out)
{
    while (dispatch->ready[h].n != 0) {
        out->set = h;
        out->step = pp_dispatch_best(dispatch, h);
        if (dispatch->steps[out->step].task_bytes > most) return false;
        if (dispatch->cost[out->step] != 0) {
            pp_dispatch_take_out(dispatch, h, out->step);
            return true;
        }
        /* acquire: pairs with the release of pp_dispatch_open */
        out->claim =
            atomic_fetch_add_explicit(pp_dispatch_claim(dispatch, out->step, h), 1, memory_order_acquire);
        uint32_t end = pp_dispatch_end(dispatch, out->step, out->claim, h);
        if ((uint32_t)out->claim + 1 >= end) pp_dispatch_take_out(dispatch, h, out->step);
        if ((uint32_t)out->claim < end) return true;
    }
    return false;
}

/* From the common set or the domain's own, whichever has the better rank on top. */
static bool take_ready(pp_dispatch *dispatch, uint32_t domain, claimed *out)
{
    if (dispatch->n_sets == 1) return claim_from(dispatch, 0, SIZE_MAX, out);
    uint32_t own = 1 + domain;
    const pp_rank_set *common = &dispatch->ready[0], *mine = &dispatch->ready[own];
    bool first = mine->n != 0 && (common->n == 0 || pp_rank_set_least(mine) < pp_rank_set_least(common));
    return claim_from(dispatch, first ? own : 0, SIZE_MAX, out) ||
           claim_from(dispatch, first ? 0 : own, SIZE_MAX, out);
}

/* Of the other domains. */
static bool take_foreign(pp_dispatch *dispatch, uint32_t domain, size_t most, claimed *out)
{
    for (uint32_t i = 1; i + 1 < dispatch->n_sets; i++)
        if (claim_from(dispatch, 1 + (domain + i) % dispatch->shares.n, most, out)) return true;
    return false;
}

static bool any_ready(const pp_dispatch *dispatch)
{
    for (uint32_t h = 0; h < dispatch->n_sets; h++)
        if (dispatch->ready[h].n != 0) return true;
    return false;
}

/* For workers of the domain. */
static bool ready_for(const pp_dispatch *dispatch, uint32_t domain)
{
    return dispatch->ready[0].n != 0 || (dispatch->n_sets != 1 && dispatch->ready[1 + domain].n != 0);
}

/* Workers that look already and will find something. */
static uint32_t looking(const pp_dispatch *dispatch)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d + 1 < dispatch->n_sets || d == 0; d++)
        if (ready_for(dispatch, d)) n += dispatch->spinning[d];
    return n;
}

static void submit_slots(pp_dispatch *dispatch, uint64_t wanted)
{
    for (uint32_t i = 0; i < dispatch->n_slots && wanted != 0; i++) {
        pp_slot *slot = &dispatch->slots[i];
        if (slot->submitted || i == dispatch->home || !ready_for(dispatch, slot->job.domain)) continue;
        slot->submitted = true;
        dispatch->active++;
        wanted--;
        pp_executor_submit(dispatch->executor, &slot->job);
    }
}

/* ready: what is new, single steps apart. taken: how many of those the calling thread takes itself. stays:
 * it goes on to claim; otherwise somebody else must. */
static void wake(pp_dispatch *dispatch, pp_ready ready, uint32_t taken, bool stays)
{
    bool over = dispatch->steps_left == 0;
    uint64_t wanted = (ready.tasks > taken ? ready.tasks - taken : 0) + dispatch->singles;
    double ns = ready.ns + (double)dispatch->singles_ns * dispatch->pace;
    if (ns / WAKE_NS < (double)wanted) {
        bool looks = ns >= LOOK_NS && wanted != 0 && looking(dispatch) != 0;
        bool none = !stays && wanted != 0;
        wanted = (uint64_t)(ns / WAKE_NS);
        if (wanted == 0 && (looks || none)) wanted = 1;
    }
    if (over || wanted != 0) atomic_fetch_add_explicit(&dispatch->epoch, 1, memory_order_relaxed);
    if ((over || wanted != 0) && dispatch->caller_waits) {
        dispatch->caller_waits = false; /* it is on its way: not to be counted on twice */
        pthread_cond_signal(&dispatch->changed);
        if (wanted != 0) wanted--;
    }
    if (wanted == 0) return;
    uint32_t already = looking(dispatch);
    if (wanted > already) submit_slots(dispatch, wanted - already);
}

/* Looks for a change without the lock for a moment: true when there was one. */
static bool spin(pp_dispatch *dispatch, uint32_t domain)
{
    uint32_t epoch = atomic_load_explicit(&dispatch->epoch, memory_order_relaxed);
    bool changed = false;
    dispatch->spinning[domain]++;
    pthread_mutex_unlock(&dispatch->lock);
    int64_t end = pp_clock_ns() + SPIN_NS;
    do {
        for (int i = 0; i < SPIN_LOOKS && !changed; i++) {
            relax();
            /* relaxed: only a hint, what changed is read under the lock */
            changed = atomic_load_explicit(&dispatch->epoch, memory_order_relaxed) != epoch;
        }
    } while (!changed && pp_clock_ns() < end);
    pthread_mutex_lock(&dispatch->lock);
    dispatch->spinning[domain]--;
    return changed || ready_for(dispatch, domain) || dispatch->steps_left == 0;
}

/* ---- without the lock -------------------------------------------------------------------------- */

/* After the last task of a phase. True: the next phase is open. stays: as for wake. */
static bool advance(pp_dispatch *dispatch, uint32_t step, uint32_t phase, bool stays)
{
    pthread_mutex_lock(&dispatch->lock);
    uint32_t next = pp_dispatch_next_phase(dispatch, step, phase);
    pp_ready ready;
    if (next != PP_NO_PHASE)
        ready = pp_dispatch_open(dispatch, step, next);
    else
        ready = pp_dispatch_settle(dispatch, &step, 1);
    wake(dispatch, ready, stays, stays);
    pthread_mutex_unlock(&dispatch->lock);
    return next != PP_NO_PHASE;
}

static void tasks_done(pp_dispatch *dispatch, uint32_t step, uint32_t n)
{
    uint32_t phase = pp_dispatch_at(dispatch, step);
    /* as in run_claims; after it the run may be over, unless this was the last task of the phase */
    if (atomic_fetch_sub_explicit(&dispatch->left[step], n, memory_order_acq_rel) == n)
        (void)advance(dispatch, step, phase, false);
}

void pp_dispatch_threads_arrive(pp_dispatch *dispatch, uint32_t step)
{
    tasks_done(dispatch, step, 1);
}

/* Runs the claimed task and as many more of the step as it can claim from that set; of another domain's only
 * this one: there may be something of its own meanwhile. */
static void run_claims(pp_dispatch *dispatch, const claimed *got, uint32_t slot)
{
    const uint32_t step = got->step, own = 1 + dispatch->slots[slot].job.domain;
    _Atomic uint64_t *counter = pp_dispatch_claim(dispatch, step, got->set);
    uint64_t claim = got->claim;
    while ((uint32_t)claim < pp_dispatch_end(dispatch, step, claim, got->set)) {
        uint32_t phase = (uint32_t)(claim >> 32);
        bool done = pp_dispatch_task(dispatch, step, phase, (uint32_t)claim, slot);
        /* release: what this task wrote; acquire: what the others wrote, for the one that opens what follows
         */
        if (done && atomic_fetch_sub_explicit(&dispatch->left[step], 1, memory_order_acq_rel) == 1 &&
            !advance(dispatch, step, phase, true))
            return;
        if (got->set != 0 && got->set != own) return;
        claim = atomic_fetch_add_explicit(counter, 1, memory_order_acquire); /* as in claim_from */
    }
}

/* Takes back all that only waits. With the lock, before and after. True: look again, something was taken or
 * began to wait meanwhile; what begins later wakes a caller that rests, when its worker leaves. */
static bool take_back(pp_dispatch *dispatch)
{
    bool any = false;
    uint32_t begun = atomic_load_explicit(&dispatch->begun_waits, memory_order_relaxed);
    pthread_mutex_unlock(&dispatch->lock);
    for (uint32_t i = 0; i < dispatch->n_waiting; i++) {
        uint32_t n = pp_dispatch_take_back(dispatch, dispatch->waiting[i]);
        if (n == 0) continue;
        tasks_done(dispatch, dispatch->waiting[i], n);
        any = true;
    }
    pthread_mutex_lock(&dispatch->lock);
    return any || begun != atomic_load_explicit(&dispatch->begun_waits, memory_order_relaxed);
}

/* The caller has nothing to run. With the lock. */
static void rest(pp_dispatch *dispatch)
{
    bool over = dispatch->n_waiting != 0 && pp_dispatch_over(dispatch);
    if (over && (take_back(dispatch) || any_ready(dispatch) || dispatch->steps_left == 0)) return;
    dispatch->caller_waits = true;
    bool timed = dispatch->n_waiting != 0 && !over;
    (void)pp_condition_wait(&dispatch->changed, &dispatch->lock,
                            timed ? pp_dispatch_rest_until(dispatch) : 0);
    dispatch->caller_waits = false;
}

/* What was claimed, and with a single step others. With the lock, before and after. Returns what is ready now
 * and has woken nobody yet. */
static pp_ready run_claimed(pp_dispatch *dispatch, const claimed *got, pp_ready ready, uint32_t slot)
{
    const bool single = dispatch->cost[got->step] != 0;
    pp_batch batch;
    if (single) pp_dispatch_batch_take(dispatch, got->step, dispatch->slots[slot].job.domain, &batch);
    wake(dispatch, ready, !single, true);
    pthread_mutex_unlock(&dispatch->lock);
    if (single)
        pp_dispatch_batch_run(dispatch, &batch, slot);
    else
        run_claims(dispatch, got, slot);
    pthread_mutex_lock(&dispatch->lock);
    return single ? pp_dispatch_batch_settle(dispatch, &batch) : (pp_ready){.tasks = 0};
}

/* Works until there is nothing to do (a worker) or nothing left (the caller). ready: has woken nobody yet.
 * With the lock, before and after. */
static void work(pp_dispatch *dispatch, pp_ready ready, uint32_t slot)
{
    const uint32_t domain = dispatch->slots[slot].job.domain;
    const bool caller = slot == dispatch->home;
    while (dispatch->steps_left != 0) {
        claimed got;
        bool found = take_ready(dispatch, domain, &got);
        if (!found) wake(dispatch, ready, 0, false);
        if (!found) ready = (pp_ready){.tasks = 0};
        if (!found && dispatch->n_slots != 1 && spin(dispatch, domain)) continue;
        if (found || take_foreign(dispatch, domain, caller ? SIZE_MAX : HELP_BYTES, &got)) {
            ready = run_claimed(dispatch, &got, ready, slot);
        } else if (!caller) {
            return;
        } else {
            rest(dispatch);
        }
    }
    wake(dispatch, ready, 0, true); /* it is over: others may wait for that */
}

void pp_dispatch_slot_main(pp_job *job)
{
    pp_slot *slot = (pp_slot *)job; /* its first member */
    pp_dispatch *dispatch = slot->dispatch;
    bool before = pp_dispatch_mark_inside(true);
    pthread_mutex_lock(&dispatch->lock);
    work(dispatch, (pp_ready){.tasks = 0}, slot->index);
    slot->submitted = false;
    dispatch->active--;
    /* A caller that rests looks again where tasks may wait: one may have begun to, in a run that is over; and
     * where there are some that this worker may not take. */
    if (dispatch->caller_waits && (dispatch->active == 0 || dispatch->n_waiting != 0 || any_ready(dispatch)))
        pthread_cond_signal(&dispatch->changed);
    pthread_mutex_unlock(&dispatch->lock);
    (void)pp_dispatch_mark_inside(before);
}

/* Takes back what no thread began and waits for those that are inside. */
static void collect(pp_dispatch *dispatch)
{
    for (uint32_t i = 0; i < dispatch->n_slots; i++) {
        pp_slot *slot = &dispatch->slots[i];
        if (!slot->submitted || !pp_executor_withdraw(dispatch->executor, &slot->job)) continue;
        slot->submitted = false;
        dispatch->active--;
    }
    while (dispatch->active != 0) {
        dispatch->caller_waits = true; /* whoever ended the run may have told, and not left yet */
        pthread_cond_wait(&dispatch->changed, &dispatch->lock);
    }
    dispatch->caller_waits = false;
}

void pp_dispatch_threads(pp_dispatch *dispatch)
{
    pthread_mutex_lock(&dispatch->lock);
    pp_dispatch_reset(dispatch);
    work(dispatch, pp_dispatch_begin(dispatch), dispatch->home);
    collect(dispatch);
    pthread_mutex_unlock(&dispatch->lock);
}
