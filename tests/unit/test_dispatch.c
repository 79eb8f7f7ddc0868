/* SPDX-License-Identifier: Apache-2.0
 * Every executor on random plans: order of needs and phases, each task once, the earliest failure,
 * cancellation, deadline, no allocation while running; the orders of the simulator; what is refused. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "executor_rows.h"
#include "scheduler/dispatch.h"

enum { MOST_STEPS = 120, MOST_TASKS = 5, MOST_PHASES = 3, MOST_NEEDS = 3 };

typedef struct plan plan;

typedef struct node {
    plan *of;
    uint32_t index;
    _Atomic uint32_t done[MOST_PHASES]; /* tasks of the run */
} node;

struct plan {
    uint64_t state;
    uint32_t n;
    pp_step steps[MOST_STEPS];
    node nodes[MOST_STEPS];
    uint32_t first[MOST_STEPS + 1], needs[MOST_STEPS * MOST_NEEDS];
    bool fails[MOST_STEPS], all_fail; /* else only odd tasks */
    uint32_t cancels;                 /* this step sets cancel */
    _Atomic int cancel;
    _Atomic uint32_t wrong;
    _Atomic uint64_t order; /* hash of the order of the first tasks of steps */
    pp_dispatch *again;     /* run from inside a task */
    _Atomic int inner;      /* what that gave */
    int64_t work_ns;
};

static uint32_t draw(plan *of, uint32_t n)
{
    of->state = of->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(of->state >> 33) % n;
}

static bool complete(const node *mine)
{
    const pp_step *step = &mine->of->steps[mine->index];
    for (uint32_t phase = 0; phase < step->phases; phase++)
        if (mine->done[phase] != step->tasks[phase]) return false;
    return true;
}

static bool in_order(const node *mine, uint32_t phase, uint32_t task, const void *scratch)
{
    const plan *of = mine->of;
    const pp_step *step = &of->steps[mine->index];
    for (uint32_t i = of->first[mine->index]; i < of->first[mine->index + 1]; i++)
        if (!complete(&of->nodes[of->needs[i]])) return false;
    for (uint32_t before = 0; before < phase; before++)
        if (mine->done[before] != step->tasks[before]) return false;
    return task < step->tasks[phase] && (step->scratch_bytes == 0 || (uintptr_t)scratch % 64 == 0);
}

static ppto_status run_node(void *object, uint32_t phase, uint32_t task, void *scratch, pp_error *err,
                            int64_t *position)
{
    node *mine = object;
    plan *of = mine->of;
    if (!in_order(mine, phase, task, scratch)) of->wrong++;
    memset(scratch, (int)task, of->steps[mine->index].scratch_bytes);
    if (mine->done[phase]++ == 0) of->order = pp_hash_mix(of->order, mine->index * 8 + phase);
    for (int64_t end = of->work_ns != 0 ? pp_clock_ns() + of->work_ns : 0; end != 0 && pp_clock_ns() < end;) {
    }
    if (of->cancels == mine->index) of->cancel = 1;
    if (of->again != NULL) of->inner = pp_dispatch_run(of->again, NULL, NULL, NULL);
    if (!of->fails[mine->index] || (task % 2 == 0 && !of->all_fail)) return PPTO_OK;
    *position = 100 - (int64_t)task; /* the last odd task is the earliest failure */
    return pp_fail(err, PPTO_E_VALUE, "step %u position %d", mine->index, 100 - (int)task);
}

static void add_step(plan *of, uint32_t phases, uint32_t tasks)
{
    pp_step *step = &of->steps[of->n];
    of->nodes[of->n].of = of;
    of->nodes[of->n].index = of->n;
    *step = (pp_step){.run = run_node, .object = &of->nodes[of->n], .phases = phases, .scratch_bytes = 128};
    step->task_ns = 30000;
    for (uint32_t phase = 0; phase < phases; phase++) step->tasks[phase] = tasks;
    of->n++;
    of->first[of->n] = of->first[of->n - 1];
}

static void add_need(plan *of, uint32_t need)
{
    of->needs[of->first[of->n]++] = need;
}

static void make(plan *of, uint64_t seed)
{
    memset(of, 0, sizeof *of);
    of->state = seed;
    of->cancels = UINT32_MAX;
    for (uint32_t n = 1 + draw(of, 30); of->n < n;) {
        add_step(of, draw(of, MOST_PHASES + 1), 1);
        pp_step *step = &of->steps[of->n - 1];
        for (uint32_t phase = 0; phase < step->phases; phase++) step->tasks[phase] = draw(of, MOST_TASKS + 1);
        for (uint32_t k = of->n > 1 ? draw(of, MOST_NEEDS + 1) : 0; k > 0; k--)
            add_need(of, draw(of, of->n - 1));
    }
}

/* One step, `wide` steps that need it, one that needs those. */
static void make_diamond(plan *of, uint32_t wide, uint32_t tasks)
{
    memset(of, 0, sizeof *of);
    of->cancels = UINT32_MAX;
    add_step(of, 1, tasks);
    for (uint32_t i = 0; i < wide; i++) {
        add_step(of, 1, tasks);
        add_need(of, 0);
    }
    add_step(of, 1, tasks);
    for (uint32_t i = 0; i < wide && i < MOST_NEEDS; i++) add_need(of, 1 + i);
}

static void clear(plan *of)
{
    for (uint32_t i = 0; i < of->n; i++)
        for (uint32_t phase = 0; phase < MOST_PHASES; phase++) of->nodes[i].done[phase] = 0;
    of->wrong = 0;
    of->order = 0;
    of->cancel = 0;
}

static pp_executor *executor_of(const char *name, uint32_t workers, uint64_t seed)
{
    pp_executor *executor;
    pp_error err = {0};
    cr_assert_eq(pp_executor_create(name, workers, seed, &executor, &err), PPTO_OK, "%s", err.text);
    cr_assert_str_eq(pp_executor_name(executor), name);
    return executor;
}

static pp_dispatch *dispatch_of(plan *of, pp_executor *executor)
{
    pp_dispatch *dispatch;
    pp_error err = {0};
    cr_assert_eq(pp_dispatch_create(of->steps, of->n, of->first, of->needs, executor, NULL, &dispatch, &err),
                 PPTO_OK, "%s", err.text);
    return dispatch;
}

static bool all_complete(const plan *of)
{
    for (uint32_t i = 0; i < of->n; i++)
        if (!complete(&of->nodes[i])) return false;
    return of->wrong == 0;
}

Test(scheduler_dispatch, random_plans_run_in_order_on_all_executors)
{
    static plan of;
    for (size_t e = 0; row_name(e) != NULL; e++) {
        pp_executor *executor = row_executor(e, 4, 7);
        for (uint64_t seed = 0; seed < 150; seed++) {
            make(&of, seed);
            pp_dispatch *dispatch = dispatch_of(&of, executor);
            for (int run = 0; run < 3; run++) {
                clear(&of);
                cr_expect_eq(pp_dispatch_run(dispatch, NULL, NULL, NULL), PPTO_OK);
                cr_expect(all_complete(&of), "%s, seed %d", row_name(e), (int)seed);
            }
            pp_dispatch_destroy(dispatch);
        }
        pp_executor_destroy(executor);
    }
}

/* Steps of one task that are worth less than handing them over, in lines, fans and crowds. */
static void make_singles(plan *of, uint64_t seed)
{
    memset(of, 0, sizeof *of);
    of->state = seed;
    of->cancels = UINT32_MAX;
    uint32_t kind = draw(of, 4), back = 1 + draw(of, 40);
    for (uint32_t i = 0; i < MOST_STEPS; i++) {
        add_step(of, 1 + draw(of, 2), 1);
        of->steps[i].task_ns = 500;
        if (draw(of, 20) == 0) of->steps[i].tasks[0] = draw(of, 4);
        if (kind != 0 && i >= back) add_need(of, i - back);
        if (kind == 2 && i >= 2 && back != 2 && draw(of, 2) == 0) add_need(of, i - 2);
        if (kind == 3 && i > back) add_need(of, back - 1);
    }
}

Test(scheduler_dispatch, small_steps_run_in_order_and_fail_at_the_earliest)
{
    static plan of;
    for (size_t e = 0; pp_executor_at(e) != NULL; e++) {
        pp_executor *executor = executor_of(pp_executor_at(e), 2, 7);
        for (uint64_t seed = 0; seed < 100; seed++) {
            uint32_t failed, fails = UINT32_MAX;
            make_singles(&of, seed);
            of.all_fail = true;
            pp_dispatch *dispatch = dispatch_of(&of, executor);
            for (int run = 0; run < 6; run++) {
                clear(&of);
                memset(of.fails, 0, sizeof of.fails);
                fails = run % 2 != 0 ? draw(&of, MOST_STEPS) : UINT32_MAX;
                if (fails != UINT32_MAX && of.steps[fails].tasks[0] == 0) fails = UINT32_MAX;
                if (fails != UINT32_MAX) of.fails[fails] = true;
                ppto_status status = pp_dispatch_run(dispatch, NULL, &failed, NULL);
                cr_expect_eq(status, fails == UINT32_MAX ? PPTO_OK : PPTO_E_VALUE);
                cr_expect(fails == failed && of.wrong == 0, "%s, seed %d", pp_executor_at(e), (int)seed);
                cr_expect(fails != UINT32_MAX || all_complete(&of), "%s, seed %d", pp_executor_at(e),
                          (int)seed);
            }
            pp_dispatch_destroy(dispatch);
        }
        pp_executor_destroy(executor);
    }
}

/* The step that must be reported: the first that fails and does something that fails (an odd task exists). */
static uint32_t first_failure(const plan *of, char *text, size_t size)
{
    for (uint32_t i = 0; i < of->n; i++)
        for (uint32_t phase = 0; of->fails[i] && phase < of->steps[i].phases; phase++) {
            uint32_t tasks = of->steps[i].tasks[phase];
            if (tasks < 2) continue;
            snprintf(text, size, "step %u position %u", i, 100 - (tasks % 2 == 0 ? tasks - 1 : tasks - 2));
            return i;
        }
    return UINT32_MAX;
}

Test(scheduler_dispatch, reports_the_earliest_failure_whatever_the_timing)
{
    static plan of;
    for (size_t e = 0; row_name(e) != NULL; e++) {
        pp_executor *executor = row_executor(e, 4, 3);
        for (uint64_t seed = 0; seed < 200; seed++) {
            char text[64] = "";
            uint32_t failed;
            pp_error err = {0};
            make(&of, seed);
            for (uint32_t i = 0; i < of.n; i++) of.fails[i] = draw(&of, 4) == 0;
            uint32_t expected = first_failure(&of, text, sizeof text);
            pp_dispatch *dispatch = dispatch_of(&of, executor);
            for (int run = 0; run < 2; run++) {
                clear(&of);
                pp_error_clear(&err);
                ppto_status status = pp_dispatch_run(dispatch, NULL, &failed, &err);
                cr_expect_eq(status, expected == UINT32_MAX ? PPTO_OK : PPTO_E_VALUE);
                cr_expect(failed == expected && strcmp(err.text, text) == 0, "%s, seed %d: %s instead of %s",
                          row_name(e), (int)seed, err.text, text);
                cr_expect_eq(of.wrong, 0);
            }
            memset(of.fails, 0, sizeof of.fails);
            clear(&of);
            cr_expect_eq(pp_dispatch_run(dispatch, NULL, NULL, NULL), PPTO_OK);
            cr_expect(all_complete(&of));
            pp_dispatch_destroy(dispatch);
        }
        pp_executor_destroy(executor);
    }
}

Test(scheduler_dispatch, stops_at_cancel_and_deadline)
{
    static plan of;
    for (size_t e = 0; row_name(e) != NULL; e++) {
        pp_executor *executor = row_executor(e, 3, 1);
        make_diamond(&of, 10, 4);
        of.cancels = 0;
        pp_dispatch *dispatch = dispatch_of(&of, executor);
        pp_run_options options = {.cancel = (const volatile int *)&of.cancel};
        cr_expect_eq(pp_dispatch_run(dispatch, &options, NULL, NULL), PPTO_E_CANCELLED);
        cr_expect_eq(of.nodes[1].done[0], 0);
        cr_expect_eq(of.nodes[11].done[0], 0);
        of.cancels = UINT32_MAX;
        clear(&of);
        cr_expect_eq(pp_dispatch_run(dispatch, &options, NULL, NULL), PPTO_OK);
        of.work_ns = 1000000;
        clear(&of);
        options.deadline_ns = pp_clock_ns() + 3000000;
        cr_expect_eq(pp_dispatch_run(dispatch, &options, NULL, NULL), PPTO_E_DEADLINE);
        cr_expect_eq(of.nodes[11].done[0], 0);
        of.work_ns = 0;
        pp_dispatch_destroy(dispatch);
        pp_executor_destroy(executor);
    }
}

Test(scheduler_dispatch, simulator_draws_many_orders_and_repeats_them)
{
    static plan of;
    uint64_t orders[100];
    size_t n = 0;
    make_diamond(&of, 8, 1);
    for (uint64_t seed = 0; seed < 100; seed++) {
        uint64_t first = 0;
        for (int time = 0; time < 2; time++) {
            pp_executor *executor = executor_of("sim", 4, seed);
            pp_dispatch *dispatch = dispatch_of(&of, executor);
            clear(&of);
            cr_expect_eq(pp_dispatch_run(dispatch, NULL, NULL, NULL), PPTO_OK);
            cr_expect(all_complete(&of));
            if (time == 1) cr_expect_eq(of.order, first);
            first = of.order;
            pp_dispatch_destroy(dispatch);
            pp_executor_destroy(executor);
        }
        bool known = false;
        for (size_t i = 0; i < n; i++) known = known || orders[i] == first;
        if (!known) orders[n++] = first;
    }
    cr_expect_geq(n, 50, "%zu orders", n);
}

Test(scheduler_dispatch, runs_allocate_nothing_and_all_is_freed)
{
    static plan of;
    pp_heap_counters start = pp_heap_count();
    for (size_t e = 0; pp_executor_at(e) != NULL; e++) {
        pp_executor *executor = executor_of(pp_executor_at(e), 2, 1);
        make_diamond(&of, 5, 3);
        pp_dispatch *dispatch = dispatch_of(&of, executor);
        cr_expect_eq(pp_dispatch_reserve(dispatch, NULL), PPTO_OK);
        uint64_t before = pp_heap_count().allocations;
        for (int run = 0; run < 10; run++) cr_expect_eq(pp_dispatch_run(dispatch, NULL, NULL, NULL), PPTO_OK);
        cr_expect_eq(pp_heap_count().allocations, before);
        pp_dispatch_give_back(dispatch);
        cr_expect_eq(pp_dispatch_run(dispatch, NULL, NULL, NULL), PPTO_OK); /* takes it again */
        cr_expect_eq(pp_heap_count().allocations, before + 1);
        pp_dispatch_destroy(dispatch);
        pp_executor_destroy(executor);
    }
    cr_expect_eq(pp_heap_count().live, start.live);
}

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void expect_two_workers(const char *name)
{
    static plan of;
    static pp_task_record log[200];
    size_t logged, by[2] = {0, 0};
    pp_executor *executor = executor_of(name, 2, 0);
    make_diamond(&of, 4, 8);
    of.work_ns = 1000000;
    pp_dispatch *dispatch = dispatch_of(&of, executor);
    cr_expect_eq(pp_dispatch_scratch_bytes(dispatch), 256);
    pp_run_options options = {.log = log, .log_cap = 200, .log_n = &logged};
    cr_expect_eq(pp_dispatch_run(dispatch, &options, NULL, NULL), PPTO_OK);
    cr_expect_eq(logged, 48);
    for (size_t i = 0; i < logged; i++) {
        cr_expect(log[i].worker < 2 && log[i].end_ns > log[i].start_ns && log[i].step < of.n);
        by[log[i].worker % 2]++;
    }
    cr_expect(by[0] > 5 && by[1] > 5, "%s: %zu and %zu tasks", name, by[0], by[1]);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    double before = cpu_seconds();
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    cr_expect_leq(cpu_seconds() - before, 0.005, "%s", name);
    options.log_cap = 10;
    cr_expect_eq(pp_dispatch_run(dispatch, &options, NULL, NULL), PPTO_OK);
    cr_expect_eq(logged, 10);
    pp_dispatch_destroy(dispatch);
    pp_executor_destroy(executor);
}

Test(scheduler_dispatch, both_workers_work_and_an_idle_executor_does_not)
{
    for (size_t e = 0; pp_executor_at(e) != NULL; e++)
        if (strcmp(pp_executor_at(e), "pthread") == 0 || strcmp(pp_executor_at(e), "tbb") == 0)
            expect_two_workers(pp_executor_at(e));
}

Test(scheduler_dispatch, small_plans_stay_on_the_caller)
{
    static plan of;
    static pp_task_record log[20];
    size_t logged;
    pp_executor *executor = executor_of("pthread", 4, 0);
    make_diamond(&of, 6, 1);
    for (uint32_t i = 0; i < of.n; i++) of.steps[i].task_ns = 100;
    pp_dispatch *dispatch = dispatch_of(&of, executor);
    pp_run_options options = {.log = log, .log_cap = 20, .log_n = &logged};
    cr_expect_eq(pp_dispatch_run(dispatch, &options, NULL, NULL), PPTO_OK);
    cr_expect_eq(logged, of.n);
    for (uint32_t i = 0; i < logged; i++) cr_expect(log[i].step == i && log[i].worker == 0);
    cr_expect_eq(pp_dispatch_scratch_bytes(dispatch), 128);
    pp_dispatch_destroy(dispatch);
    pp_executor_destroy(executor);
}

Test(scheduler_dispatch, refuses_to_wait_inside_a_task)
{
    static plan of, other;
    for (size_t e = 0; pp_executor_at(e) != NULL; e++) {
        pp_executor *executor = executor_of(pp_executor_at(e), 2, 0);
        make_diamond(&of, 3, 3);
        make_diamond(&other, 3, 3);
        of.again = dispatch_of(&other, executor);
        pp_dispatch *dispatch = dispatch_of(&of, executor);
        cr_expect_eq(pp_dispatch_run(dispatch, NULL, NULL, NULL), PPTO_OK);
        cr_expect_eq(of.inner, PPTO_E_WOULD_DEADLOCK);
        pp_dispatch_destroy(dispatch);
        pp_dispatch_destroy(of.again);
        pp_executor_destroy(executor);
    }
}

Test(scheduler_dispatch, refuses_a_forked_child)
{
    static plan of;
    for (size_t e = 0; pp_executor_at(e) != NULL; e++) {
        pp_executor *executor = executor_of(pp_executor_at(e), 2, 0);
        make_diamond(&of, 3, 3);
        pp_dispatch *dispatch = dispatch_of(&of, executor);
        cr_expect_eq(pp_dispatch_run(dispatch, NULL, NULL, NULL), PPTO_OK);
        pid_t child = fork();
        cr_assert_geq(child, 0);
        if (child == 0) {
            bool refused = pp_dispatch_run(dispatch, NULL, NULL, NULL) == PPTO_E_FORKED;
            pp_dispatch_destroy(dispatch);
            pp_executor_destroy(executor);
            _exit(refused ? 0 : 1);
        }
        int status;
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s", pp_executor_at(e));
        cr_expect_eq(pp_dispatch_run(dispatch, NULL, NULL, NULL), PPTO_OK);
        pp_dispatch_destroy(dispatch);
        pp_executor_destroy(executor);
    }
}

Test(scheduler_dispatch, refuses_wrong_arguments)
{
    pp_executor *executor;
    pp_error err = {0};
    cr_expect_eq(pp_executor_create("none", 1, 0, &executor, &err), PPTO_E_VALUE);
    cr_expect_null(executor);
    cr_expect_eq(pp_executor_create("serial", 0, 0, &executor, NULL), PPTO_E_VALUE);
    pp_heap_fail_at(1, false);
    cr_expect_eq(pp_executor_create("pthread", 2, 0, &executor, NULL), PPTO_E_NOMEM);
    static plan of;
    pp_dispatch *dispatch;
    executor = executor_of("serial", 4, 0);
    cr_expect_eq(pp_executor_workers(executor), 1);
    cr_expect_eq(pp_dispatch_create(NULL, 0, of.first, of.needs, executor, NULL, &dispatch, NULL), PPTO_OK);
    cr_expect_eq(pp_dispatch_run(dispatch, NULL, NULL, NULL), PPTO_OK);
    pp_dispatch_destroy(dispatch);
    make_diamond(&of, 3, 1);
    of.needs[0] = 1;
    cr_expect_eq(pp_dispatch_create(of.steps, of.n, of.first, of.needs, executor, NULL, &dispatch, NULL),
                 PPTO_E_INTERNAL);
    make_diamond(&of, 3, 1);
    int64_t live = pp_heap_count().live;
    for (uint64_t at = 1;; at++) {
        pp_heap_fail_at(at, false);
        ppto_status status =
            pp_dispatch_create(of.steps, of.n, of.first, of.needs, executor, NULL, &dispatch, NULL);
        pp_heap_fail_at(0, false);
        if (status == PPTO_OK) break;
        cr_expect_eq(status, PPTO_E_NOMEM);
        cr_expect_eq(pp_heap_count().live, live);
    }
    pp_dispatch_destroy(dispatch);
    pp_executor_destroy(executor);
}
