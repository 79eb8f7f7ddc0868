/* SPDX-License-Identifier: Apache-2.0
 * Random plans on threads: every task reads, without any lock, what all it depends on has written. A missing
 * order shows as a race under ThreadSanitizer and as a wrong sum without it. Several application threads
 * share one executor, of one, two and three domains, and one pool, runs fail and are cancelled, dispatches
 * are destroyed right after a run.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "memory/pool.h"
#include "scheduler/dispatch.h"

enum { STEPS = 40, MOST_TASKS = 6, MOST_PHASES = 3, MOST_NEEDS = 4, PLANS = 25, RUNS = 4, THREADS = 3 };

typedef struct plan plan;

typedef struct node {
    plan *of;
    uint32_t index;
    uint64_t cell[MOST_PHASES][MOST_TASKS];
    uint64_t total; /* written by task 0 of the last phase */
} node;

struct plan {
    uint64_t state;
    pp_step steps[STEPS];
    node nodes[STEPS];
    uint32_t first[STEPS + 1], needs[STEPS * MOST_NEEDS];
    uint32_t fails; /* the step that fails; STEPS: none */
    int cancel;
    uint32_t cancels; /* the step that cancels */
};

static uint32_t draw(plan *of, uint32_t n)
{
    of->state = of->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(of->state >> 33) % n;
}

static uint64_t inputs_of(const node *mine)
{
    uint64_t sum = mine->index + 1;
    for (uint32_t i = mine->of->first[mine->index]; i < mine->of->first[mine->index + 1]; i++)
        sum += mine->of->nodes[mine->of->needs[i]].total;
    return sum;
}

static ppto_status run_node(void *object, uint32_t phase, uint32_t task, void *scratch, pp_error *err,
                            int64_t *position)
{
    node *mine = object;
    const pp_step *step = &mine->of->steps[mine->index];
    uint64_t sum = phase == 0 ? inputs_of(mine) : 0;
    memset(scratch, (int)task, step->scratch_bytes);
    for (uint32_t i = 0; phase > 0 && i < step->tasks[phase - 1]; i++) sum += mine->cell[phase - 1][i];
    mine->cell[phase][task] = sum & 0xffffff;
    if (phase + 1 == step->phases) mine->total = mine->cell[phase][0];
    if (mine->of->cancels == mine->index) __atomic_store_n(&mine->of->cancel, 1, __ATOMIC_RELAXED);
    if (mine->of->fails > mine->index || phase != 0) return PPTO_OK;
    *position = task;
    return pp_fail(err, PPTO_E_VALUE, "step %u task %u", mine->index, task);
}

/* A step that another one waits for: a cancel by it comes before that one, however late the step runs. By a
 * step that may be the last to run it could come when all is done, and the run would rightly end well. */
static uint32_t draw_needed(plan *of)
{
    return of->needs[draw(of, of->first[STEPS])];
}

/* The last phase has one task, since it writes the total. */
static void make(plan *of, uint64_t seed)
{
    *of = (plan){.state = seed, .fails = STEPS, .cancels = STEPS};
    for (uint32_t i = 0; i < STEPS; i++) {
        pp_step *step = &of->steps[i];
        of->nodes[i].of = of;
        of->nodes[i].index = i;
        *step = (pp_step){.run = run_node,
                          .object = &of->nodes[i],
                          .phases = 1 + draw(of, MOST_PHASES),
                          .scratch_bytes = 100,
                          .task_ns = seed % 2 == 0 ? 20000 : 2000};
        for (uint32_t phase = 0; phase < step->phases; phase++)
            step->tasks[phase] = phase + 1 == step->phases ? 1 : 1 + draw(of, MOST_TASKS);
        of->first[i + 1] = of->first[i];
        for (uint32_t k = i != 0 ? draw(of, MOST_NEEDS + 1) : 0; k > 0; k--)
            of->needs[of->first[i + 1]++] = draw(of, i);
    }
}

static uint64_t run_once(plan *of, pp_executor *executor, const pp_memory *memory, ppto_status wanted)
{
    pp_dispatch *dispatch;
    pp_error err = {0};
    uint32_t failed;
    uint64_t sum = 0;
    if (pp_dispatch_create(of->steps, STEPS, of->first, of->needs, executor, memory, &dispatch, &err) !=
        PPTO_OK)
        return 0;
    for (int i = 0; i < RUNS; i++) {
        pp_run_options options = {.cancel = &of->cancel};
        pp_error_clear(&err);
        of->cancel = 0;
        ppto_status status = pp_dispatch_run(dispatch, &options, &failed, &err);
        if (status != wanted) fprintf(stderr, "status %d, %d was expected: %s\n", status, wanted, err.text);
        char text[64];
        snprintf(text, sizeof text, "step %u task 0", of->fails);
        if (wanted == PPTO_E_VALUE && (failed != of->fails || strcmp(err.text, text) != 0)) return 0;
        if (status != wanted) return 0;
    }
    pp_dispatch_destroy(dispatch);
    for (uint32_t i = 0; i < STEPS; i++) sum = sum * 31 + of->nodes[i].total;
    return sum | 1;
}

static ppto_status take(void *arg, size_t bytes, void **out, pp_error *err)
{
    return pp_pool_take(arg, bytes, out, err);
}

static void give(void *arg, void *block, size_t bytes)
{
    pp_pool_give(arg, block, bytes);
}

typedef struct user {
    pp_executor *executor;
    pp_pool *pool;
    uint64_t seed;
    int bad;
} user;

static void *use(void *arg)
{
    user *me = arg;
    pp_memory memory = {take, give, me->pool};
    pp_executor *serial;
    plan *of = pp_calloc(1, sizeof *of);
    if (of == NULL || pp_executor_create("serial", 1, 0, &serial, NULL) != PPTO_OK) return NULL;
    for (uint64_t i = 0; i < PLANS; i++) {
        make(of, me->seed + i);
        uint64_t expected = run_once(of, serial, &memory, PPTO_OK);
        make(of, me->seed + i);
        me->bad += run_once(of, me->executor, &memory, PPTO_OK) != expected;
        of->fails = draw(of, STEPS);
        me->bad += run_once(of, me->executor, &memory, PPTO_E_VALUE) == 0;
        of->fails = STEPS;
        of->cancels = draw_needed(of);
        me->bad += run_once(of, me->executor, NULL, PPTO_E_CANCELLED) == 0;
    }
    pp_executor_destroy(serial);
    pp_free(of);
    return NULL;
}

static uint32_t domain_of_caller(void *arg)
{
    return *(const uint32_t *)arg;
}

static int race(pp_domains domains)
{
    user users[THREADS] = {0};
    pthread_t threads[THREADS];
    pp_executor *executor;
    pp_pool *pool;
    int bad = 0;
    if (pp_executor_create_in("pthread", &domains, 0, &executor, NULL) != PPTO_OK ||
        pp_pool_create(&pool) != PPTO_OK)
        return 1;
    for (int i = 0; i < THREADS; i++) {
        users[i] = (user){.executor = executor, .pool = pool, .seed = 1000u * (uint64_t)(i + 1), .bad = 0};
        if (pthread_create(&threads[i], NULL, use, &users[i]) != 0) return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        bad += users[i].bad;
    }
    pp_executor_destroy(executor);
    pp_pool_destroy(pool);
    return bad;
}

int main(void)
{
    uint32_t second = 1;
    int bad = race((pp_domains){.n = 1, .workers = {4}});
    bad += race((pp_domains){.n = 2, .workers = {2, 2}});
    bad += race((pp_domains){.n = 3, .workers = {1, 2, 1}, .here = domain_of_caller, .arg = &second});
    if (pp_heap_count().live != 0) bad++;
    if (bad != 0) fprintf(stderr, "%d bad\n", bad);
    return bad != 0;
}
