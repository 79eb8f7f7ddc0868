/* SPDX-License-Identifier: Apache-2.0
 * Executors with several domains: how workers and tasks divide over them, who runs what, that threads are
 * bound and let go, and that nothing waits for a worker that never comes. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "executor_rows.h"
#include "scheduler/dispatch.h"

enum { TASKS = 24, STEPS = 6, LOG = TASKS * STEPS };

/* ---- division ----------------------------------------------------------------------------------- */

static void expect_spread(const uint32_t *weights, uint32_t n, uint32_t workers, const uint32_t *expected)
{
    pp_domains domains = {.n = n};
    memcpy(domains.workers, weights, n * sizeof *weights);
    pp_domains_spread(&domains, workers);
    for (uint32_t d = 0; d < n; d++)
        cr_expect_eq(domains.workers[d], expected[d], "%u workers, domain %u: %u", workers, d,
                     domains.workers[d]);
}

Test(domains, workers_spread_in_proportion)
{
    expect_spread((const uint32_t[]){4, 4}, 2, 5, (const uint32_t[]){3, 2});
    expect_spread((const uint32_t[]){4, 4}, 2, 1, (const uint32_t[]){1, 0});
    expect_spread((const uint32_t[]){1, 7}, 2, 8, (const uint32_t[]){1, 7});
    expect_spread((const uint32_t[]){1, 7}, 2, 2, (const uint32_t[]){1, 1});
    expect_spread((const uint32_t[]){2, 2, 4}, 3, 16, (const uint32_t[]){4, 4, 8});
    expect_spread((const uint32_t[]){0, 0, 0}, 3, 4, (const uint32_t[]){2, 1, 1});
}

Test(domains, shares_cover_the_whole_in_order)
{
    const uint32_t weights[][3] = {{1, 1, 1}, {1, 7, 0}, {3, 1, 2}};
    for (size_t i = 0; i < 3; i++) {
        pp_shares shares = pp_shares_of(weights[i], 3);
        for (uint64_t total = 0; total < 40; total++) {
            cr_expect_eq(pp_share_first(&shares, 0, total), 0u);
            cr_expect_eq(pp_share_first(&shares, 3, total), total);
            for (uint32_t d = 0; d < 3; d++) {
                uint64_t n = pp_share_first(&shares, d + 1, total) - pp_share_first(&shares, d, total);
                cr_expect_leq(n, total * weights[i][d] / shares.upto[3] + 1);
            }
        }
        cr_expect_eq(pp_share_first(&shares, 1, UINT64_MAX / 4) > 0, true, "no overflow");
    }
}

/* ---- a machine of two domains ------------------------------------------------------------------- */

static _Thread_local uint32_t bound_to; /* 1 + domain; 0: free */
static atomic_int entered, left;
static atomic_uint misplaced;
static uint32_t caller_is_in;
static pthread_mutex_t closed = PTHREAD_MUTEX_INITIALIZER; /* held: domain 1 gets no thread */

static void *enter(void *arg, uint32_t domain)
{
    (void)arg;
    if (domain == 1) {
        pthread_mutex_lock(&closed);
        pthread_mutex_unlock(&closed);
    }
    if (bound_to != 0) misplaced++;
    bound_to = 1 + domain;
    entered++;
    return &entered;
}

static void leave(void *arg, void *what)
{
    (void)arg;
    if (what != &entered) misplaced++;
    bound_to = 0;
    left++;
}

static uint32_t here(void *arg)
{
    (void)arg;
    return caller_is_in;
}

static pp_executor *two_domains(const char *name, uint32_t each, uint64_t seed)
{
    const pp_domains domains = {
        .n = 2, .workers = {each, each}, .enter = enter, .leave = leave, .here = here};
    pp_executor *executor;
    cr_assert_eq(pp_executor_create_in(name, &domains, seed, &executor, NULL), PPTO_OK);
    return executor;
}

/* The domain of slot i when both have the same number of workers. */
static uint32_t domain_of(uint32_t slot)
{
    return slot % 2;
}

static void check_place(void *arg, const pp_task_record *record, bool elsewhere)
{
    (void)arg, (void)elsewhere;
    if (bound_to != 0 && bound_to != 1 + domain_of(record->worker)) misplaced++;
}

static atomic_uint ran;

static ppto_status run_task(void *object, uint32_t phase, uint32_t task, void *scratch, pp_error *err,
                            int64_t *position)
{
    (void)object, (void)phase, (void)task, (void)scratch, (void)err, (void)position;
    ran++;
    return PPTO_OK;
}

/* STEPS steps in a row, of TASKS tasks each. */
static pp_dispatch *wide_plan(pp_executor *executor, size_t task_bytes)
{
    pp_step steps[STEPS];
    uint32_t first[STEPS + 1] = {0}, needs[STEPS];
    pp_dispatch *dispatch;
    for (uint32_t i = 0; i < STEPS; i++) {
        steps[i] = (pp_step){.run = run_task, .phases = 1, .tasks = {TASKS}, .task_ns = 50000};
        steps[i].task_bytes = task_bytes;
        if (i > 0) needs[i - 1] = i - 1;
        first[i + 1] = i;
    }
    cr_assert_eq(pp_dispatch_create(steps, STEPS, first, needs, executor, NULL, &dispatch, NULL), PPTO_OK);
    return dispatch;
}

Test(domains, simulated_workers_prefer_their_own_tasks)
{
    pp_task_record log[LOG];
    size_t own = 0, all = 0;
    for (uint64_t seed = 0; seed < 20; seed++) {
        pp_executor *executor = two_domains("sim", 2, seed);
        pp_dispatch *dispatch = wide_plan(executor, 0);
        size_t n;
        pp_run_options options = {.log = log, .log_cap = LOG, .log_n = &n};
        cr_expect_eq(pp_dispatch_run(dispatch, &options, NULL, NULL), PPTO_OK);
        cr_expect_eq(n, LOG);
        for (size_t i = 0; i < n; i++) own += domain_of(log[i].worker) == (log[i].task >= TASKS / 2);
        all += n;
        pp_dispatch_destroy(dispatch);
        pp_executor_destroy(executor);
    }
    cr_expect(own > all * 3 / 4 && own < all, "%zu of %zu tasks ran in their domain", own, all);
}

Test(domains, threads_are_bound_to_their_domain_and_let_go)
{
    for (size_t e = 0; pp_executor_at(e) != NULL; e++) {
        pp_executor *executor = two_domains(pp_executor_at(e), 2, 3);
        pp_dispatch *dispatch = wide_plan(executor, 0);
        pp_run_options options = {.ran = check_place};
        for (int run = 0; run < 50; run++) {
            ran = 0;
            caller_is_in = (uint32_t)run % 2;
            cr_expect_eq(pp_dispatch_run(dispatch, &options, NULL, NULL), PPTO_OK);
            cr_expect_eq(ran, (unsigned)LOG);
            cr_expect_eq(bound_to, 0u, "the caller stays where it is");
        }
        pp_dispatch_destroy(dispatch);
        pp_executor_destroy(executor);
        cr_expect_eq(misplaced, 0u, "%s", pp_executor_at(e));
        cr_expect_eq(entered, left, "%s", pp_executor_at(e));
    }
}

Test(domains, no_task_waits_for_a_worker_that_never_comes, .timeout = 60)
{
    static const char *const names[] = {"pthread", "tbb"};
    for (size_t e = 0; e < 2; e++) {
        if (strcmp(names[e], "tbb") == 0 && pp_executor_at(3) == NULL) continue;
        pp_executor *executor = two_domains(names[e], 2, 3);
        pp_dispatch *dispatch = wide_plan(executor, (size_t)1 << 40); /* no other worker takes them over */
        pthread_mutex_lock(&closed);
        for (int run = 0; run < 5; run++) {
            ran = 0;
            cr_expect_eq(pp_dispatch_run(dispatch, NULL, NULL, NULL), PPTO_OK);
            cr_expect_eq(ran, (unsigned)LOG);
        }
        pthread_mutex_unlock(&closed);
        pp_dispatch_destroy(dispatch);
        pp_executor_destroy(executor);
    }
}

Test(domains, an_executor_may_have_fewer_workers_than_domains)
{
    for (size_t i = 0; row_name(i) != NULL; i++) {
        pp_executor *executor = row_executor(i, 2, 1);
        pp_dispatch *dispatch = wide_plan(executor, 0);
        ran = 0;
        cr_expect_eq(pp_dispatch_run(dispatch, NULL, NULL, NULL), PPTO_OK);
        cr_expect_eq(ran, (unsigned)LOG, "%s, %u domains", row_name(i), row_domains(i));
        pp_dispatch_destroy(dispatch);
        pp_executor_destroy(executor);
    }
}

Test(domains, refuses_none)
{
    const pp_domains none = {.n = 2};
    pp_executor *executor;
    cr_expect_eq(pp_executor_create_in("sim", &none, 0, &executor, NULL), PPTO_E_VALUE);
}
