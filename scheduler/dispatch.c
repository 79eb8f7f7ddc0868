/* SPDX-License-Identifier: Apache-2.0
 * A dispatch is a plan made ready once: successors, counters, static priority (longest path to a sink, then
 * program order), scratch memory for every worker, and the state of one run. Running it again allocates
 * nothing.
 *
 * Which order it will run in is decided here, once: inline on the caller when the executor is serial, when
 * one worker is all there is, when the steps form a chain of single tasks, or when the whole work would not
 * pay for waking a thread; else by the simulator or by threads. Start reading at dispatch_parts.h. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/fault.h"
#include "base/fork.h"
#include "scheduler/dispatch_parts.h"

#define SMALL_NS 20000.0
enum { ALIGNMENT = 64, MOST_SLOTS = 1024 };

/* The process in which this thread is inside a run; a child is in none. 0: outside. */
static _Thread_local uint64_t inside_in;

bool pp_dispatch_inside(void)
{
    return inside_in != 0 && pp_process_is(inside_in);
}

bool pp_dispatch_mark_inside(bool inside)
{
    bool before = pp_dispatch_inside();
    inside_in = inside ? pp_process_mark() : 0;
    return before;
}

/* ---- the plan ---------------------------------------------------------------------------------- */

static ppto_status check_steps(const pp_step *steps, uint32_t n, const uint32_t *first, const uint32_t *needs,
                               pp_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        if (steps[i].phases > PP_MAX_PHASES)
            return pp_fail(err, PPTO_E_INTERNAL, "step %u has %u phases", i, steps[i].phases);
        if (steps[i].skipped != NULL && (steps[i].phases != 1 || steps[i].tasks[0] != 1))
            return pp_fail(err, PPTO_E_INTERNAL, "step %u is told of a skip, but is not one task", i);
        for (uint32_t k = first[i]; k < first[i + 1]; k++)
            if (needs[k] >= i) return pp_fail(err, PPTO_E_INTERNAL, "step %u waits for step %u", i, needs[k]);
    }
    return PPTO_OK;
}

static void turn_edges(pp_dispatch *dispatch, const uint32_t *first, const uint32_t *needs)
{
    uint32_t n = dispatch->n, *at = dispatch->first_next;
    for (uint32_t i = 0; i < n; i++) {
        dispatch->need_count[i] = first[i + 1] - first[i];
        if (pp_fault(PP_FAULT_LOST_EDGE) && i + 1 == n && dispatch->need_count[i] > 0)
            dispatch->need_count[i]--;
        for (uint32_t k = first[i]; k < first[i + 1]; k++) at[needs[k] + 1]++;
    }
    for (uint32_t i = 0; i < n; i++) at[i + 1] += at[i];
    /* pending is free now: the next place of each list */
    memcpy(dispatch->pending, at, n * sizeof *at);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = first[i]; k < first[i + 1]; k++) dispatch->nexts[dispatch->pending[needs[k]]++] = i;
}

static double step_path_ns(const pp_step *step, uint32_t workers)
{
    double rounds = 0;
    for (uint32_t phase = 0; phase < step->phases; phase++)
        rounds += ((double)step->tasks[phase] + workers - 1) / workers;
    return rounds * pp_dispatch_task_ns(step);
}

typedef struct ranked {
    bool prompt;
    double path;
    uint32_t step;
} ranked;

static int by_path(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->prompt != y->prompt) return x->prompt ? -1 : 1;
    if (x->path != y->path) return x->path > y->path ? -1 : 1;
    return x->step < y->step ? -1 : 1;
}

static ppto_status rank_steps(pp_dispatch *dispatch)
{
    uint32_t n = dispatch->n;
    ranked *order = pp_calloc(n, sizeof *order);
    if (order == NULL) return PPTO_E_NOMEM;
    bool by_program = dispatch->executor->class_of->mode == PP_RUN_INLINE;
    for (uint32_t i = n; i-- > 0 && !by_program;) {
        double longest = 0;
        for (uint32_t k = dispatch->first_next[i]; k < dispatch->first_next[i + 1]; k++)
            if (order[dispatch->nexts[k]].path > longest) longest = order[dispatch->nexts[k]].path;
        order[i].path = longest + step_path_ns(&dispatch->steps[i], pp_executor_workers(dispatch->executor));
    }
    for (uint32_t i = 0; i < n; i++) {
        order[i].prompt = !by_program && dispatch->steps[i].prompt;
        order[i].step = i;
    }
    qsort(order, n, sizeof *order, by_path);
    for (uint32_t rank = 0; rank < n; rank++) {
        dispatch->by_rank[rank] = order[rank].step;
        dispatch->rank[order[rank].step] = rank;
    }
    pp_free(order);
    return PPTO_OK;
}

/* True when a second worker could never help, or would not pay. */
static bool narrow(const pp_dispatch *dispatch, const uint32_t *first, const uint32_t *needs)
{
    bool chain = true;
    double total = 0;
    for (uint32_t i = 0; i < dispatch->n; i++) {
        const pp_step *step = &dispatch->steps[i];
        for (uint32_t phase = 0; phase < step->phases; phase++) {
            chain = chain && step->tasks[phase] <= 1;
            total += step->tasks[phase] * pp_dispatch_task_ns(step);
        }
        bool linked = i == 0;
        for (uint32_t k = first[i]; k < first[i + 1]; k++) linked = linked || needs[k] == i - 1;
        chain = chain && linked;
    }
    return chain || total < SMALL_NS;
}

static void choose_mode(pp_dispatch *dispatch, const uint32_t *first, const uint32_t *needs)
{
    uint32_t workers = pp_executor_workers(dispatch->executor);
    dispatch->mode = dispatch->executor->class_of->mode;
    if (dispatch->mode == PP_RUN_THREADS && (workers == 1 || narrow(dispatch, first, needs)))
        dispatch->mode = PP_RUN_INLINE;
    uint32_t most = dispatch->mode == PP_RUN_SIM ? PP_SIM_SLOTS : MOST_SLOTS;
    if (workers > most) workers = most;
    dispatch->n_slots = dispatch->mode == PP_RUN_INLINE ? 1 : workers;
    if (dispatch->mode == PP_RUN_INLINE && dispatch->n_waiting != 0) dispatch->mode = PP_RUN_THREADS;
    if (dispatch->n_slots == 1) dispatch->n_sets = 1;
}

/* ---- memory ------------------------------------------------------------------------------------ */

static ppto_status size_scratch(pp_dispatch *dispatch, const pp_memory *memory, pp_error *err)
{
    size_t most = 0, all;
    for (uint32_t i = 0; i < dispatch->n; i++)
        if (dispatch->steps[i].scratch_bytes > most) most = dispatch->steps[i].scratch_bytes;
    if (memory != NULL) dispatch->memory = *memory;
    if (!pp_align_size(most, ALIGNMENT, &dispatch->scratch_each) ||
        !pp_mul_size(dispatch->scratch_each, dispatch->n_slots, &all))
        return pp_fail(err, PPTO_E_SIZE, "scratch of %zu bytes for %u workers", most, dispatch->n_slots);
    return PPTO_OK;
}

ppto_status pp_dispatch_reserve(pp_dispatch *dispatch, pp_error *err)
{
    size_t all = dispatch->scratch_each * dispatch->n_slots;
    void *block = NULL;
    if (all == 0 || dispatch->scratch != NULL) return PPTO_OK;
    if (dispatch->memory.take != NULL) {
        PP_TRY(dispatch->memory.take(dispatch->memory.arg, all, &block, err));
    } else {
        block = pp_alloc_aligned(ALIGNMENT, all);
        if (block == NULL) return pp_fail(err, PPTO_E_NOMEM, "no memory for %zu bytes of scratch", all);
    }
    dispatch->scratch = block;
    return PPTO_OK;
}

void pp_dispatch_give_back(pp_dispatch *dispatch)
{
    if (dispatch->scratch != NULL && dispatch->memory.give != NULL)
        dispatch->memory.give(dispatch->memory.arg, dispatch->scratch,
                              dispatch->scratch_each * dispatch->n_slots);
    else
        pp_free(dispatch->scratch);
    dispatch->scratch = NULL;
}

static ppto_status make_slots(pp_dispatch *dispatch)
{
    dispatch->slots = pp_calloc(dispatch->n_slots, sizeof *dispatch->slots);
    if (dispatch->slots == NULL) return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < dispatch->n_slots; i++) {
        dispatch->slots[i].job.fn = pp_dispatch_slot_main;
        dispatch->slots[i].dispatch = dispatch;
        dispatch->slots[i].index = i;
    }
    pp_turn turn = {0};
    for (uint32_t i = 0; i < dispatch->n_slots && dispatch->n_sets != 1; i++)
        dispatch->slots[i].job.domain = pp_domains_next(&dispatch->executor->domains, &turn);
    return PPTO_OK;
}

/* What only plans with steps that wait have. */
static ppto_status make_waiting(pp_dispatch *dispatch)
{
    size_t n = dispatch->n, n_tasks = 0, n_waiting = 0;
    for (uint32_t i = 0; i < n; i++) n_waiting += dispatch->steps[i].waits;
    if (n_waiting == 0) return PPTO_OK;
    dispatch->waiting = pp_calloc(n_waiting, sizeof *dispatch->waiting);
    dispatch->away = pp_calloc(n, sizeof *dispatch->away);
    dispatch->begun_at = pp_calloc(n, sizeof *dispatch->begun_at);
    if (dispatch->waiting == NULL || dispatch->away == NULL || dispatch->begun_at == NULL)
        return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) {
        if (!dispatch->steps[i].waits) continue;
        dispatch->waiting[dispatch->n_waiting++] = i;
        dispatch->begun_at[i] = (uint32_t)n_tasks;
        for (uint32_t phase = 0; phase < dispatch->steps[i].phases; phase++)
            n_tasks += dispatch->steps[i].tasks[phase];
    }
    dispatch->arrived = pp_calloc(n_tasks + 1, sizeof *dispatch->arrived);
    dispatch->begun = pp_calloc(n_tasks + 1, sizeof *dispatch->begun);
    return dispatch->arrived != NULL && dispatch->begun != NULL ? PPTO_OK : PPTO_E_NOMEM;
}

static ppto_status make_arrays(pp_dispatch *dispatch, const pp_step *steps, size_t n_edges)
{
    size_t n = dispatch->n, n_claims = n * dispatch->n_sets;
    uint32_t **words[] = {&dispatch->need_count, &dispatch->rank, &dispatch->by_rank, &dispatch->pending,
                          &dispatch->stack,      &dispatch->cost, &dispatch->sole};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if ((*words[i] = pp_calloc(n, sizeof **words[i])) == NULL) return PPTO_E_NOMEM;
    dispatch->steps = pp_calloc(n, sizeof *steps);
    dispatch->first_next = pp_calloc(n + 1, sizeof *dispatch->first_next);
    dispatch->nexts = pp_calloc(n_edges, sizeof *dispatch->nexts);
    dispatch->claim = pp_calloc(n_claims, sizeof *dispatch->claim);
    dispatch->left = pp_calloc(n, sizeof *dispatch->left);
    dispatch->spoiled = pp_calloc(n, sizeof *dispatch->spoiled);
    dispatch->status = pp_calloc(n, sizeof *dispatch->status);
    dispatch->worth = pp_calloc(n, sizeof *dispatch->worth);
    PP_TRY(pp_rank_set_make(&dispatch->first, dispatch->n));
    for (uint32_t h = 0; h < dispatch->n_sets; h++)
        PP_TRY(pp_rank_set_make(&dispatch->ready[h], dispatch->n));
    if (dispatch->steps == NULL || dispatch->first_next == NULL || dispatch->nexts == NULL ||
        dispatch->claim == NULL || dispatch->left == NULL || dispatch->spoiled == NULL ||
        dispatch->status == NULL || dispatch->worth == NULL)
        return PPTO_E_NOMEM;
    if (n != 0) memcpy(dispatch->steps, steps, n * sizeof *steps);
    atomic_store_explicit(&dispatch->dirty, true, memory_order_relaxed);
    return make_waiting(dispatch);
}

static void release(pp_dispatch *dispatch)
{
    void *const parts[] = {dispatch->steps,          dispatch->first_next,
                           dispatch->nexts,          dispatch->need_count,
                           dispatch->rank,           dispatch->by_rank,
                           dispatch->slots,          (void *)dispatch->claim,
                           dispatch->pending,        dispatch->cost,
                           (void *)dispatch->left,   dispatch->sole,
                           dispatch->stack,          (void *)dispatch->spoiled,
                           (void *)dispatch->status, dispatch->waiting,
                           (void *)dispatch->away,   dispatch->begun,
                           dispatch->begun_at,       dispatch->arrived,
                           dispatch->worth};
    pp_dispatch_give_back(dispatch);
    pp_rank_set_free(&dispatch->first);
    for (size_t h = 0; h < sizeof dispatch->ready / sizeof *dispatch->ready; h++)
        pp_rank_set_free(&dispatch->ready[h]);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) pp_free(parts[i]);
    pp_free(dispatch);
}

static ppto_status fill(pp_dispatch *dispatch, const pp_step *steps, const uint32_t *first,
                        const uint32_t *needs, const pp_memory *memory, pp_error *err)
{
    ppto_status status = make_arrays(dispatch, steps, dispatch->n != 0 ? first[dispatch->n] : 0);
    if (status == PPTO_OK && dispatch->n != 0) {
        turn_edges(dispatch, first, needs);
        status = rank_steps(dispatch);
    }
    if (status == PPTO_OK) {
        choose_mode(dispatch, first, needs);
        pp_dispatch_singles(dispatch);
        status = make_slots(dispatch);
    }
    if (status != PPTO_OK) return pp_fail(err, status, "no memory for a plan of %u steps", dispatch->n);
    return size_scratch(dispatch, memory, err);
}

ppto_status pp_dispatch_create(const pp_step *steps, uint32_t n, const uint32_t *first_need,
                               const uint32_t *needs, pp_executor *executor, const pp_memory *memory,
                               pp_dispatch **out, pp_error *err)
{
    *out = NULL;
    PP_TRY(check_steps(steps, n, first_need, needs, err));
    pp_dispatch *dispatch = pp_calloc(1, sizeof *dispatch);
    if (dispatch == NULL) return pp_fail(err, PPTO_E_NOMEM, "no memory for a plan of %u steps", n);
    dispatch->n = n;
    dispatch->executor = executor;
    dispatch->shares = pp_shares_of(executor->domains.workers, executor->domains.n);
    dispatch->n_sets = executor->domains.n > 1 ? 1 + executor->domains.n : 1;
    ppto_status status = fill(dispatch, steps, first_need, needs, memory, err);
    if (status != PPTO_OK) goto fail_fill;
    status = PPTO_E_NOMEM;
    if (pp_brief_lock_init(&dispatch->lock) != 0) goto fail_lock;
    if (pp_condition_init(&dispatch->changed) != 0) goto fail_condition;
    *out = dispatch;
    return PPTO_OK;
fail_condition:
    pthread_mutex_destroy(&dispatch->lock);
fail_lock:
    (void)pp_fail(err, status, "no lock for a plan");
fail_fill:
    release(dispatch);
    return status;
}

void pp_dispatch_destroy(pp_dispatch *dispatch)
{
    if (dispatch == NULL) return;
    if (!pp_executor_forked(dispatch->executor)) { /* in a child they may look held for ever */
        pthread_cond_destroy(&dispatch->changed);
        pthread_mutex_destroy(&dispatch->lock);
    }
    release(dispatch);
}

uint64_t pp_dispatch_scratch_bytes(const pp_dispatch *dispatch)
{
    return (uint64_t)dispatch->scratch_each * dispatch->n_slots;
}

const void *pp_dispatch_scratch(const pp_dispatch *dispatch)
{
    return dispatch->scratch;
}

/* ---- a run ------------------------------------------------------------------------------------- */

static void forget(pp_dispatch *dispatch)
{
    for (uint32_t i = 0; i < dispatch->n; i++) {
        atomic_store_explicit(&dispatch->spoiled[i], PP_NO_STEP, memory_order_relaxed);
        atomic_store_explicit(&dispatch->status[i], PPTO_OK, memory_order_relaxed);
    }
    atomic_store_explicit(&dispatch->dirty, false, memory_order_relaxed);
}

/* A slot of the domain the caller is in. */
static uint32_t home_of(const pp_dispatch *dispatch)
{
    const pp_domains *domains = &dispatch->executor->domains;
    if (dispatch->n_sets == 1 || domains->here == NULL) return 0;
    uint32_t domain = domains->here(domains->arg);
    for (uint32_t i = 0; i < dispatch->n_slots; i++)
        if (dispatch->slots[i].job.domain == domain) return i;
    return 0;
}

static void start(pp_dispatch *dispatch, const pp_run_options *options)
{
    dispatch->home = home_of(dispatch);
    if (atomic_load_explicit(&dispatch->dirty, memory_order_relaxed)) forget(dispatch);
    dispatch->n_arrived = 0;
    dispatch->options = options;
    dispatch->failure.step = PP_NO_STEP;
    dispatch->failure.status = PPTO_OK;
    /* relaxed: no other thread is inside yet; submitting a job publishes them */
    atomic_store_explicit(&dispatch->failed_step, PP_NO_STEP, memory_order_relaxed);
    atomic_store_explicit(&dispatch->stop, PPTO_OK, memory_order_relaxed);
    atomic_store_explicit(&dispatch->logged, 0, memory_order_relaxed);
}

static void run_in_order(pp_dispatch *dispatch)
{
    if (dispatch->mode == PP_RUN_INLINE)
        pp_dispatch_inline(dispatch);
    else if (dispatch->mode == PP_RUN_SIM)
        pp_dispatch_sim(dispatch);
    else
        pp_dispatch_threads(dispatch);
    dispatch->runs++;
}

void pp_dispatch_complete(pp_dispatch *dispatch, uint32_t step, uint32_t task, ppto_status status,
                          const pp_error *error)
{
    pp_dispatch_arrive(dispatch, step, task, status, error);
    if (dispatch->mode == PP_RUN_SIM)
        pp_dispatch_sim_arrive(dispatch, step, task);
    else
        pp_dispatch_threads_arrive(dispatch, step);
}

void pp_dispatch_wake(pp_dispatch *dispatch)
{
    pthread_mutex_lock(&dispatch->lock);
    if (dispatch->caller_waits) pthread_cond_signal(&dispatch->changed);
    pthread_mutex_unlock(&dispatch->lock);
}

/* A failure of a task counts before a cancellation: it is what the plan itself says. */
static ppto_status outcome(pp_dispatch *dispatch, uint32_t *failed_step, pp_error *err)
{
    const pp_failure *failure = &dispatch->failure;
    if (failure->status != PPTO_OK) {
        if (failed_step != NULL) *failed_step = failure->step;
        if (err != NULL && err->code == PPTO_OK) *err = failure->error;
        return failure->status;
    }
    int stop = atomic_load_explicit(&dispatch->stop, memory_order_relaxed);
    if (stop == PPTO_E_CANCELLED) return pp_fail(err, PPTO_E_CANCELLED, "the run was cancelled");
    if (stop == PPTO_E_DEADLINE) return pp_fail(err, PPTO_E_DEADLINE, "the run passed its deadline");
    return PPTO_OK;
}

ppto_status pp_dispatch_run(pp_dispatch *dispatch, const pp_run_options *options, uint32_t *failed_step,
                            pp_error *err)
{
    static const pp_run_options none;
    if (options == NULL) options = &none;
    if (failed_step != NULL) *failed_step = PP_NO_STEP;
    if (options->log_n != NULL) *options->log_n = 0;
    if (pp_dispatch_inside())
        return pp_fail(err, PPTO_E_WOULD_DEADLOCK, "a task may not run a plan and wait for it");
    if (pp_executor_forked(dispatch->executor))
        return pp_fail(err, PPTO_E_FORKED, "the plan belongs to the process that was forked");
    if (atomic_exchange_explicit(&dispatch->running, true, memory_order_acquire))
        return pp_fail(err, PPTO_E_BUSY, "the plan is running already");
    ppto_status status = pp_dispatch_reserve(dispatch, err);
    if (status != PPTO_OK) {
        atomic_store_explicit(&dispatch->running, false, memory_order_release);
        return status;
    }
    (void)pp_dispatch_mark_inside(true);
    start(dispatch, options);
    run_in_order(dispatch);
    status = outcome(dispatch, failed_step, err);
    if (options->log_n != NULL) {
        size_t logged = atomic_load_explicit(&dispatch->logged, memory_order_relaxed);
        *options->log_n = logged < options->log_cap ? logged : options->log_cap;
    }
    (void)pp_dispatch_mark_inside(false);
    atomic_store_explicit(&dispatch->running, false,
                          memory_order_release); /* pairs with the exchange above */
    return status;
}
