/* SPDX-License-Identifier: Apache-2.0
 * Steps that somebody else completes, under every executor: order of needs whatever the order of completions,
 * failures that arrive, cancel and deadline of a run that only waits, the policy keep_going, and the
 * simulator with a world of its own, whose every turn is drawn from the seed. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "executor_rows.h"
#include "scheduler/dispatch.h"

enum { MOST_STEPS = 30, MOST_NEEDS = 3, MOST_TASKS = 4 };

typedef struct plan plan;

typedef struct node {
    plan *of;
    uint32_t index;
    uint32_t waits; /* tasks that wait; bit set */
    atomic_uint done, told;
    atomic_uint open; /* tasks that wait now, bit set */
} node;

struct plan {
    uint64_t state;
    uint32_t n;
    pp_step steps[MOST_STEPS];
    node nodes[MOST_STEPS];
    uint32_t first[MOST_STEPS + 1], needs[MOST_STEPS * MOST_NEEDS];
    bool fails[MOST_STEPS];
    atomic_uint wrong;
    pp_dispatch *dispatch;
    bool early; /* tasks are completed before they return */
    bool never; /* nobody completes a task */
    _Atomic uint64_t order;
};

static uint32_t draw(plan *of, uint32_t n)
{
    of->state = of->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(of->state >> 33) % n;
}

/* ---- the completer: a queue and a thread that takes from it in another order ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wanted = PTHREAD_COND_INITIALIZER;
static struct {
    node *at[MOST_STEPS * MOST_TASKS];
    uint32_t task[MOST_STEPS * MOST_TASKS];
    size_t n;
    bool stop;
    uint64_t state;
} queue;

static void complete(node *mine, uint32_t task)
{
    plan *of = mine->of;
    ppto_status status = of->fails[mine->index] && task == 0 ? PPTO_E_IO : PPTO_OK;
    pp_error err = {.code = PPTO_OK};
    if (status != PPTO_OK) pp_fail(&err, status, "arrival of step %u", mine->index);
    atomic_fetch_add(&mine->done, 1);
    pp_dispatch_complete(of->dispatch, mine->index, task, status, status != PPTO_OK ? &err : NULL);
}

static void *completer(PP_UNUSED void *arg)
{
    pthread_mutex_lock(&lock);
    while (!queue.stop) {
        if (queue.n == 0) {
            pthread_cond_wait(&wanted, &lock);
            continue;
        }
        queue.state = queue.state * 6364136223846793005u + 1;
        size_t at = (size_t)(queue.state >> 33) % queue.n;
        node *mine = queue.at[at];
        uint32_t task = queue.task[at];
        queue.at[at] = queue.at[--queue.n];
        queue.task[at] = queue.task[queue.n];
        pthread_mutex_unlock(&lock);
        complete(mine, task);
        pthread_mutex_lock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static pthread_t start_completer(void)
{
    pthread_t thread;
    queue.n = 0;
    queue.stop = false;
    cr_assert_eq(pthread_create(&thread, NULL, completer, NULL), 0);
    return thread;
}

static void stop_completer(pthread_t thread)
{
    pthread_mutex_lock(&lock);
    queue.stop = true;
    pthread_cond_signal(&wanted);
    pthread_mutex_unlock(&lock);
    pthread_join(thread, NULL);
}

/* ---- steps ---- */

static bool ready(const node *mine)
{
    const plan *of = mine->of;
    for (uint32_t i = of->first[mine->index]; i < of->first[mine->index + 1]; i++) {
        const node *need = &of->nodes[of->needs[i]];
        if (need->done != of->steps[need->index].tasks[0]) return false;
    }
    return true;
}

static ppto_status run_node(void *object, PP_UNUSED uint32_t phase, uint32_t task, PP_UNUSED void *scratch,
                            pp_error *err, PP_UNUSED int64_t *position)
{
    node *mine = object;
    plan *of = mine->of;
    if (!ready(mine)) of->wrong++;
    of->order = pp_hash_mix(of->order, mine->index * 16 + task);
    if ((mine->waits >> task & 1) == 0) {
        atomic_fetch_add(&mine->done, 1);
        return of->fails[mine->index] && task == 0 ? pp_fail(err, PPTO_E_VALUE, "step %u", mine->index)
                                                   : PPTO_OK;
    }
    atomic_fetch_or(&mine->open, 1u << task);
    if (of->never) return PP_STEP_ASYNC;
    if (of->early) {
        complete(mine, task);
        return PP_STEP_ASYNC;
    }
    pthread_mutex_lock(&lock);
    queue.at[queue.n] = mine;
    queue.task[queue.n++] = task;
    pthread_cond_signal(&wanted);
    pthread_mutex_unlock(&lock);
    return PP_STEP_ASYNC;
}

static uint32_t withdraw_node(void *object, PP_UNUSED bool counts)
{
    node *mine = object;
    if (!mine->of->never) return 0; /* a thread completes them */
    return (uint32_t)__builtin_popcount(atomic_exchange(&mine->open, 0));
}

/* The step is completed, as something that was not done. */
static uint32_t withdraw_later(void *object, bool counts)
{
    node *mine = object;
    if (!counts || mine->index != 0) mine->of->wrong++; /* it stands before what failed */
    if (atomic_exchange(&mine->open, 0) != 0)
        pp_dispatch_complete(mine->of->dispatch, mine->index, 0, PP_STEP_WITHDRAWN, NULL);
    return 0;
}

static void told_node(void *object, PP_UNUSED ppto_status why, PP_UNUSED uint32_t origin)
{
    node *mine = object;
    if (why == PPTO_OK) mine->of->wrong++;
    atomic_fetch_add(&mine->told, 1);
}

static void make(plan *of, uint64_t seed)
{
    memset(of, 0, sizeof *of);
    of->state = seed;
    of->n = 1 + draw(of, MOST_STEPS);
    for (uint32_t i = 0; i < of->n; i++) {
        pp_step *step = &of->steps[i];
        of->nodes[i].of = of;
        of->nodes[i].index = i;
        *step = (pp_step){.run = run_node, .object = &of->nodes[i], .phases = 1, .task_ns = 30000};
        step->tasks[0] = draw(of, 3) == 0 ? 1 + draw(of, MOST_TASKS) : 1;
        step->waits = draw(of, 2) == 0;
        if (step->waits) of->nodes[i].waits = 1 + draw(of, 15);
        if (step->waits) step->withdraw = withdraw_node;
        if (step->tasks[0] == 1 && draw(of, 2) == 0) step->skipped = told_node;
        of->first[i + 1] = of->first[i];
        for (uint32_t k = i > 0 ? draw(of, MOST_NEEDS + 1) : 0; k > 0; k--)
            of->needs[of->first[i + 1]++] = draw(of, i);
    }
}

static void clear(plan *of)
{
    for (uint32_t i = 0; i < of->n; i++) of->nodes[i].done = of->nodes[i].told = of->nodes[i].open = 0;
    of->wrong = 0;
    of->order = 0;
}

static pp_executor *executor_of(const char *name, uint32_t workers, uint64_t seed)
{
    pp_executor *executor;
    pp_error err = {0};
    cr_assert_eq(pp_executor_create(name, workers, seed, &executor, &err), PPTO_OK, "%s", err.text);
    return executor;
}

static void dispatch_of(plan *of, pp_executor *executor)
{
    pp_error err = {0};
    cr_assert_eq(
        pp_dispatch_create(of->steps, of->n, of->first, of->needs, executor, NULL, &of->dispatch, &err),
        PPTO_OK, "%s", err.text);
}

static void expect_whole(const plan *of, const char *name, uint64_t seed)
{
    for (uint32_t i = 0; i < of->n; i++) {
        cr_expect_eq(of->nodes[i].done, of->steps[i].tasks[0], "%s, seed %d, step %u", name, (int)seed, i);
        cr_expect(pp_dispatch_succeeded(of->dispatch, i) && of->nodes[i].told == 0);
    }
    cr_expect_eq(of->wrong, 0, "%s, seed %d", name, (int)seed);
}

Test(dispatch_wait, completions_in_any_order_keep_the_order_of_needs)
{
    static plan of;
    pthread_t thread = start_completer();
    for (size_t e = 0; row_name(e) != NULL; e++) {
        pp_executor *executor = row_executor(e, 3, 5);
        for (uint64_t seed = 0; seed < 150; seed++) {
            make(&of, seed);
            of.early = seed % 4 == 0;
            dispatch_of(&of, executor);
            uint64_t before = pp_heap_count().allocations;
            for (int run = 0; run < 3; run++) {
                clear(&of);
                cr_expect_eq(pp_dispatch_run(of.dispatch, NULL, NULL, NULL), PPTO_OK);
                expect_whole(&of, row_name(e), seed);
            }
            cr_expect_eq(pp_heap_count().allocations, before);
            pp_dispatch_destroy(of.dispatch);
        }
        pp_executor_destroy(executor);
    }
    stop_completer(thread);
}

/* Which steps depend on a failed one: the oracle of keep_going. */
static bool poisoned(const plan *of, uint32_t step, const bool *bad)
{
    for (uint32_t i = of->first[step]; i < of->first[step + 1]; i++)
        if (bad[of->needs[i]]) return true;
    return false;
}

static void expect_spoiled(const plan *of, bool keep_going, const char *name, uint64_t seed)
{
    bool bad[MOST_STEPS];
    uint32_t first = UINT32_MAX;
    for (uint32_t i = 0; i < of->n; i++) {
        bool skipped = keep_going ? poisoned(of, i, bad) : i > first;
        bad[i] = skipped || of->fails[i];
        if (bad[i] && !skipped && first == UINT32_MAX) first = i;
        bool waited = !keep_going && of->steps[i].waits; /* may be taken back, or be done before */
        if (!keep_going && skipped && of->nodes[i].done == of->steps[i].tasks[0]) continue; /* was earlier */
        if (!waited)
            cr_expect_eq(pp_dispatch_succeeded(of->dispatch, i), !bad[i], "%s %d: %u", name, (int)seed, i);
        if (keep_going && skipped && of->steps[i].skipped != NULL) cr_expect_eq(of->nodes[i].told, 1);
        if (of->nodes[i].done != 0) cr_expect_eq(of->nodes[i].told, 0);
    }
    cr_expect_eq(of->wrong, 0, "%s, seed %d", name, (int)seed);
}

Test(dispatch_wait, failures_spoil_what_needs_them_and_all_else_finishes)
{
    static plan of;
    pthread_t thread = start_completer();
    for (size_t e = 0; row_name(e) != NULL; e++) {
        pp_executor *executor = row_executor(e, 3, 5);
        for (uint64_t seed = 0; seed < 200; seed++) {
            make(&of, seed);
            for (uint32_t i = 0; i < of.n; i++) of.fails[i] = draw(&of, 6) == 0;
            dispatch_of(&of, executor);
            for (int keep_going = 0; keep_going < 2; keep_going++) {
                uint32_t failed, expected = 0;
                pp_run_options options = {.keep_going = keep_going != 0};
                while (expected < of.n && !of.fails[expected]) expected++;
                clear(&of);
                ppto_status status = pp_dispatch_run(of.dispatch, &options, &failed, NULL);
                cr_expect_eq(status == PPTO_OK, expected == of.n);
                if (expected < of.n) cr_expect_eq(failed, expected, "%s, seed %d", row_name(e), (int)seed);
                expect_spoiled(&of, options.keep_going, row_name(e), seed);
            }
            pp_dispatch_destroy(of.dispatch);
        }
        pp_executor_destroy(executor);
    }
    stop_completer(thread);
}

typedef struct canceller {
    pp_dispatch *dispatch;
    int cancel;
} canceller;

static void *cancel_soon(void *arg)
{
    canceller *me = arg;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    __atomic_store_n(&me->cancel, 1, __ATOMIC_RELAXED);
    pp_dispatch_wake(me->dispatch);
    return NULL;
}

Test(dispatch_wait, cancel_and_deadline_end_a_run_that_only_waits)
{
    static plan of;
    for (size_t e = 0; row_name(e) != NULL; e++) {
        pp_executor *executor = row_executor(e, 3, 5);
        for (uint64_t seed = 1; seed < 8; seed++) {
            do make(&of, seed++);
            while (of.nodes[0].waits == 0);
            of.never = true;
            dispatch_of(&of, executor);
            canceller me = {.dispatch = of.dispatch};
            pthread_t thread;
            pp_run_options options = {.cancel = &me.cancel};
            cr_assert_eq(pthread_create(&thread, NULL, cancel_soon, &me), 0);
            cr_expect_eq(pp_dispatch_run(of.dispatch, &options, NULL, NULL), PPTO_E_CANCELLED);
            pthread_join(thread, NULL);
            clear(&of);
            me.cancel = 0;
            options.deadline_ns = pp_clock_ns() + 10000000;
            cr_expect_eq(pp_dispatch_run(of.dispatch, &options, NULL, NULL), PPTO_E_DEADLINE);
            cr_expect_geq(pp_clock_ns(), options.deadline_ns);
            pp_dispatch_destroy(of.dispatch);
        }
        pp_executor_destroy(executor);
    }
}

static void expect_taken_back(pp_executor *executor, const char *name, bool later)
{
    static plan of;
    uint32_t failed;
    memset(&of, 0, sizeof of);
    of.n = 4;
    of.never = true;
    for (uint32_t i = 0; i < of.n; i++) {
        of.nodes[i].of = &of;
        of.nodes[i].index = i;
        of.steps[i] = (pp_step){.run = run_node, .object = &of.nodes[i], .phases = 1, .tasks = {1}};
    }
    of.steps[0].waits = true;
    of.steps[0].withdraw = later ? withdraw_later : withdraw_node;
    of.nodes[0].waits = 1;
    of.first[2] = of.first[3] = of.first[4] = 1; /* step 1 needs step 0 */
    of.fails[2] = true;
    of.steps[3].skipped = told_node;
    dispatch_of(&of, executor);
    cr_expect_eq(pp_dispatch_run(of.dispatch, NULL, &failed, NULL), PPTO_E_VALUE);
    cr_expect_eq(failed, 2, "%s: the failure is that of step 2, whatever step 0 says", name);
    cr_expect(!pp_dispatch_succeeded(of.dispatch, 0));
    cr_expect(of.nodes[1].done == 0 && !pp_dispatch_succeeded(of.dispatch, 1), "%s", name);
    cr_expect_eq(of.wrong, 0);
    pp_dispatch_destroy(of.dispatch);
}

Test(dispatch_wait, a_failure_takes_back_what_only_waits)
{
    for (size_t e = 0; row_name(e) != NULL; e++) {
        pp_executor *executor = row_executor(e, 2, 5);
        expect_taken_back(executor, row_name(e), false);
        expect_taken_back(executor, row_name(e), true);
        pp_executor_destroy(executor);
    }
}

/* ---- a world: completes what waits when it is its turn ---- */

typedef struct universe {
    pp_sim_world world;
    plan *of;
    uint32_t turns;
} universe;

static bool turn(void *arg, uint64_t drawn)
{
    universe *u = arg;
    u->turns++;
    for (uint32_t i = 0; i < u->of->n; i++) {
        node *mine = &u->of->nodes[(i + drawn) % u->of->n];
        uint32_t open = mine->open;
        if (open == 0) continue;
        uint32_t task = (uint32_t)__builtin_ctz(open);
        atomic_fetch_and(&mine->open, ~(1u << task));
        u->world.now_ns += 1000;
        complete(mine, task);
        return true;
    }
    return false;
}

Test(dispatch_wait, a_simulated_world_gives_many_orders_and_repeats_them)
{
    static plan of;
    uint64_t orders[60];
    size_t n = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        uint64_t first = 0;
        int64_t time = 0;
        for (int again = 0; again < 2; again++) {
            make(&of, 17);
            of.never = true;
            universe u = {.world = {.turn = turn, .arg = &u, .now_ns = 1}, .of = &of};
            pp_executor *executor = executor_of("sim", 4, seed);
            pp_executor_simulate(executor, &u.world);
            dispatch_of(&of, executor);
            cr_expect_eq(pp_dispatch_run(of.dispatch, NULL, NULL, NULL), PPTO_OK);
            expect_whole(&of, "sim", seed);
            if (again) cr_expect(of.order == first && u.world.now_ns == time);
            first = of.order;
            time = u.world.now_ns;
            pp_dispatch_destroy(of.dispatch);
            pp_executor_destroy(executor);
        }
        bool known = false;
        for (size_t i = 0; i < n; i++) known = known || orders[i] == first;
        if (!known) orders[n++] = first;
    }
    cr_expect_geq(n, 30, "%zu orders", n);
}

static bool idle_world(PP_UNUSED void *arg, PP_UNUSED uint64_t drawn)
{
    return false;
}

Test(dispatch_wait, virtual_time_passes_to_the_deadline_at_once)
{
    static plan of;
    make(&of, 3);
    of.never = true;
    of.steps[0].waits = true;
    of.steps[0].withdraw = withdraw_node;
    of.nodes[0].waits = 15;
    pp_sim_world world = {.turn = idle_world, .now_ns = 1};
    pp_executor *executor = executor_of("sim", 4, 1);
    pp_executor_simulate(executor, &world);
    dispatch_of(&of, executor);
    int64_t start = pp_clock_ns(), hour = INT64_C(3600) * 1000000000;
    pp_run_options options = {.deadline_ns = hour};
    cr_expect_eq(pp_dispatch_run(of.dispatch, &options, NULL, NULL), PPTO_E_DEADLINE);
    cr_expect(world.now_ns >= hour && pp_clock_ns() - start < 1000000000);
    pp_dispatch_destroy(of.dispatch);
    pp_executor_destroy(executor);
}
