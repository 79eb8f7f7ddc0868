/* SPDX-License-Identifier: Apache-2.0
 * Several threads, one context: each records, compiles (the same structures as the others and its own), runs
 * at changing sizes (0 is refused), explains while others run the same plan, and destroys, so that the
 * library, the plan cache, the idle instances and the kernel cache are met by several at once. Checked: every
 * value, that the caches are hit, that no block is left.
 *
 * A plain program for ThreadSanitizer: 0 = passed. RACE_ROUNDS=N in the environment sets another number of
 * rounds. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "ppto/ops.h"
#include "ppto/ppto.h"

enum { THREADS = 4, ROUNDS = 30, MOST = 96 };

static ppto_context *ctx;
static atomic_int failures;
static atomic_uint hits;
static pthread_barrier_t start;
static int rounds = ROUNDS;

static void complain(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, ppto_error_text(NULL));
    atomic_fetch_add(&failures, 1);
}

/* y = sum over k of (x * a + k), k < depth: every depth is another structure. */
static ppto_tensor *record(ppto_graph *g, int depth)
{
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N, 4"), *a = ppto_input_number(g, "a", true);
    ppto_tensor *y = ppto_mul(x, a);
    for (int k = 1; k < depth; k++) y = ppto_add(y, ppto_add(ppto_mul(x, a), ppto_float(g, k)));
    if (depth % 2 != 0) return ppto_exprn(g, "cumulative_sum(sum($0, axis=1)) + mean($0)", 1, &y);
    return ppto_add(ppto_cumulative_sum(ppto_sum(y, 1)), ppto_mean(y)); /* recorded alike it is on a track */
}

/* x is all ones: row sums are equal, the running sums are multiples of one, the mean is a quarter of it. */
static bool right(const float *y, int64_t n, int depth, double a)
{
    double element = a * depth + depth * (depth - 1) / 2.0;
    for (int64_t i = 0; i < n; i++)
        if (y[i] != (float)(4 * element * (double)(i + 1) + element)) return false;
    return true;
}

static bool run_once(ppto_program *p, int64_t n, int depth, double a)
{
    float ones[MOST * 4];
    const int64_t shape[] = {n, 4};
    for (int64_t i = 0; i < n * 4; i++) ones[i] = 1.0f;
    ppto_array *x = ppto_array_copy_of(ctx, PPTO_F32, 2, shape, ones), *k = ppto_number(ctx, a), *y = NULL;
    bool ok = x && k && ppto_program_bind_name(p, "x", x) == PPTO_OK &&
              ppto_program_bind_name(p, "a", k) == PPTO_OK && ppto_program_run(p, &y) == PPTO_OK;
    if (!ok)
        complain("run");
    else if (!right(ppto_array_data(y), n, depth, a))
        ok = false, complain("a value is wrong");
    ppto_array_release(x);
    ppto_array_release(k);
    ppto_array_release(y);
    return ok;
}

/* Every stage of a plan that others run at this moment. open: no size is bound, so that formulas are printed.
 */
static bool explain(ppto_program *p, bool open)
{
    static const ppto_explain_stage stages[] = {PPTO_EXPLAIN_SUMMARY, PPTO_EXPLAIN_GRAPH,
                                                PPTO_EXPLAIN_FUSED,   PPTO_EXPLAIN_KERNEL,
                                                PPTO_EXPLAIN_PLAN,    PPTO_EXPLAIN_SOURCE};
    bool ok = true;
    for (size_t i = 0; i < sizeof stages / sizeof *stages && ok; i++) {
        char *text = NULL;
        ok = ppto_program_explain(p, stages[i], i == 0, &text) == PPTO_OK || (open && i == 4);
        if (!ok) complain("explain");
        ppto_text_free(text);
    }
    return ok;
}

/* What the sizes of a run break is found by several threads at once, too. */
static bool refuse_nothing(ppto_program *p)
{
    static const int64_t shape[] = {0, 4};
    ppto_array *x = ppto_array_create(ctx, PPTO_F32, 2, shape), *y = NULL;
    bool ok = x && ppto_program_bind_name(p, "x", x) == PPTO_OK && ppto_program_run(p, &y) == PPTO_E_SHAPE;
    if (!ok) complain("a mean of no elements");
    ppto_array_release(x);
    ppto_array_release(y);
    return ok;
}

static bool one_round(int thread, int round)
{
    int depth = round % 3 == 2 ? 10 + thread : 1 + round % 5; /* every third is this thread's own */
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = record(g, depth);
    ppto_program *p = NULL;
    ppto_stats stats = {.size = sizeof stats};
    bool ok = y && ppto_compile(1, &y, &p) == PPTO_OK;
    if (!ok) complain("compile");
    ppto_graph_destroy(g);
    if (ok && round % 3 != 2) ok = explain(p, true);
    for (int i = 0; ok && i < 4; i++) ok = run_once(p, 1 + (thread + round * 4 + i) % (MOST - 1), depth, 2.0);
    if (ok && ppto_program_stats(p, &stats) == PPTO_OK && stats.plan_hit) atomic_fetch_add(&hits, 1);
    if (ok && round % 7 == 0) ok = explain(p, false);
    if (ok) ok = refuse_nothing(p);
    ppto_program_destroy(p);
    return ok;
}

/* Operators are defined and looked up while others record. */
static void define(int thread, int round)
{
    char text[128], *shown = NULL;
    snprintf(text, sizeof text, "op race_%d_%d(x: num) = x * 2 + %d\n", thread, round, round);
    if (ppto_define(ctx, text) != PPTO_OK) complain("define");
    snprintf(text, sizeof text, "race_%d_%d", thread, round);
    if (ppto_show_operator(ctx, text, false, &shown) != PPTO_OK) complain("show");
    ppto_text_free(shown);
}

static void *work(void *arg)
{
    int thread = (int)(intptr_t)arg;
    pthread_barrier_wait(&start);
    for (int round = 0; round < rounds && atomic_load(&failures) < 5; round++) {
        if (!one_round(thread, round)) break;
        if (round % 10 == 5) define(thread, round);
    }
    return NULL;
}

static void with_threads(const char *executor)
{
    pthread_t threads[THREADS];
    int64_t live = pp_heap_count().live;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = executor;
    o.threads = 3;
    if (ppto_context_create(&ctx, &o) != PPTO_OK) {
        complain("context");
        return;
    }
    atomic_store(&hits, 0);
    pthread_barrier_init(&start, NULL, THREADS);
    for (intptr_t t = 0; t < THREADS; t++)
        if (pthread_create(&threads[t], NULL, work, (void *)t) != 0) exit(1);
    for (int t = 0; t < THREADS; t++) pthread_join(threads[t], NULL);
    pthread_barrier_destroy(&start);
    ppto_context_destroy(ctx);
    if (atomic_load(&hits) == 0) complain("the plan cache was never hit");
    if (pp_heap_count().live != live) complain("blocks are left");
}

int main(void)
{
    const char *text = getenv("RACE_ROUNDS");
    if (text) rounds = atoi(text);
    with_threads("pthread");
    with_threads("serial");
    printf("%u plan hits\n", atomic_load(&hits));
    return atomic_load(&failures) ? 1 : 0;
}
