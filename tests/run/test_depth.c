/* SPDX-License-Identifier: Apache-2.0
 * Graphs as deep and as wide as memory allows: recorded, compiled, run, explained and dropped on a thread
 * with a stack of 256 KiB, in time that grows with the number of nodes. Built with a sanitizer the graphs are
 * ten times smaller, for it makes everything slower and every frame larger. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "ppto/ops.h"
#include "ppto/ppto.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifdef SANITIZED
enum { NODES = 100000, STACK = 1024 * 1024 };
#else
enum { NODES = 1000000, STACK = 256 * 1024 };
#endif
enum { SECONDS = 60 /* of processor time; a quadratic step would take hours */, ELEMENTS = 8 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void on_small_stack(void *(*body)(void *))
{
    pthread_attr_t attr;
    pthread_t thread;
    void *what = NULL;
    double start = now();
    cr_assert_eq(pthread_attr_init(&attr), 0);
    cr_assert_eq(pthread_attr_setstacksize(&attr, STACK), 0);
    cr_assert_eq(pthread_create(&thread, &attr, body, NULL), 0);
    cr_assert_eq(pthread_join(thread, &what), 0);
    pthread_attr_destroy(&attr);
    cr_expect(what == NULL, "%s: %s", (const char *)what, ppto_error_text(NULL));
    cr_expect_lt(now() - start, (double)SECONDS);
}

static ppto_context *make_context(const char *executor)
{
    ppto_context *ctx = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = executor;
    ppto_context_create(&ctx, &o);
    return ctx;
}

/* The thread's error is lost with the thread: kept for the message. */
static const char *why(const char *step)
{
    static char text[2300];
    snprintf(text, sizeof text, "%s: %s", step, ppto_error_text(NULL));
    return text;
}

static const char *explain(ppto_program *p)
{
    static const ppto_explain_stage stages[] = {PPTO_EXPLAIN_SUMMARY, PPTO_EXPLAIN_GRAPH,
                                                PPTO_EXPLAIN_SIMPLIFIED, PPTO_EXPLAIN_FUSED,
                                                PPTO_EXPLAIN_PLAN};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        for (int json = 0; json < (i <= 2 ? 2 : 1); json++) {
            char *text = NULL;
            if (ppto_program_explain(p, stages[i], json != 0, &text) != PPTO_OK) return why("explain");
            if (text == NULL || *text == 0) return "explain gave no text";
            ppto_text_free(text);
        }
    return NULL;
}

/* Runs y of x = 0, 1, 2, …; the values go to out. */
static const char *run(ppto_context *ctx, ppto_tensor *y, float *out)
{
    static const int64_t shape[] = {ELEMENTS};
    float data[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) data[i] = (float)i;
    ppto_program *p = NULL;
    ppto_array *x = ppto_array_copy_of(ctx, PPTO_F32, 1, shape, data), *result = NULL;
    const char *failed = NULL;
    if (ppto_compile(1, &y, &p) != PPTO_OK) failed = why("compile");
    if (!failed && ppto_program_bind_name(p, "x", x) != PPTO_OK) failed = why("bind");
    if (!failed && ppto_program_run(p, &result) != PPTO_OK) failed = why("run");
    if (!failed) memcpy(out, ppto_array_data(result), sizeof data);
    if (!failed) failed = explain(p);
    ppto_array_release(result);
    ppto_array_release(x);
    ppto_program_destroy(p);
    return failed;
}

/* x -> x * 0.5 + 1, half a million times: two nodes a step. */
static ppto_tensor *chain(ppto_graph *g, int nodes)
{
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N");
    ppto_tensor *half = ppto_float(g, 0.5), *one = ppto_float(g, 1.0);
    for (int i = 0; i < nodes / 2; i++) x = ppto_add(ppto_mul(x, half), one);
    return x;
}

static void *chain_body(void *executor)
{
    float out[ELEMENTS];
    ppto_context *ctx = make_context(executor ? executor : "serial");
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = chain(g, NODES);
    const char *failed = y ? run(ctx, y, out) : why("record");
    for (int i = 0; !failed && i < ELEMENTS; i++)
        if (out[i] != 2.0f) failed = "a value is wrong";
    ppto_graph_destroy(g);
    ppto_context_destroy(ctx);
    return (void *)(uintptr_t)failed;
}

Test(depth, a_chain_of_a_million_nodes)
{
    on_small_stack(chain_body);
}

static void *chain_parallel_body(void *arg)
{
    (void)arg;
    return chain_body((void *)(uintptr_t) "pthread");
}

Test(depth, a_chain_of_a_million_nodes_on_threads)
{
    on_small_stack(chain_parallel_body);
}

/* ((0 + x) + x) + …: every term is another use of one value that is itself computed. */
static void *sum_body(void *arg)
{
    (void)arg;
    float out[ELEMENTS];
    ppto_context *ctx = make_context("serial");
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N"), *term = ppto_mul(x, ppto_float(g, 0.25)), *sum = term;
    for (int i = 1; i < NODES; i++) sum = ppto_add(sum, term);
    const char *failed = sum ? run(ctx, sum, out) : why("record");
    float expected[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) {
        float t = (float)i * 0.25f, s = t;
        for (int k = 1; k < NODES; k++) s += t;
        expected[i] = s;
    }
    if (!failed && memcmp(out, expected, sizeof out) != 0) failed = "a value is wrong";
    ppto_graph_destroy(g);
    ppto_context_destroy(ctx);
    return (void *)(uintptr_t)failed;
}

Test(depth, a_sum_of_a_million_terms)
{
    on_small_stack(sum_body);
}

/* Terms that are all reductions of one value, added pairwise: wide instead of deep. */
static void *wide_body(void *arg)
{
    (void)arg;
    enum { WIDE = NODES / 50 };
    static ppto_tensor *level[WIDE];
    float out[ELEMENTS];
    ppto_context *ctx = make_context("serial");
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N"), *total = ppto_sum(x);
    for (int i = 0; i < WIDE; i++) level[i] = ppto_mul(ppto_sub(x, total), ppto_float(g, 1.0 + i));
    for (int n = WIDE; n > 1; n = (n + 1) / 2)
        for (int i = 0; i < n / 2; i++) {
            level[i] = ppto_add(level[2 * i], level[2 * i + 1]);
            if (i == n / 2 - 1 && n % 2) level[i + 1] = level[n - 1];
        }
    const char *failed = level[0] ? run(ctx, level[0], out) : why("record");
    ppto_graph_destroy(g);
    ppto_context_destroy(ctx);
    return (void *)(uintptr_t)failed;
}

Test(depth, a_wide_tree_over_one_reduction)
{
    on_small_stack(wide_body);
}

/* Recorded by name, dropped without a run. */
static void *dropped_body(void *arg)
{
    (void)arg;
    ppto_context *ctx = make_context("serial");
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N");
    const char *failed = NULL;
    for (int i = 0; i < NODES / 10 && !failed; i++) {
        ppto_tensor *operands[2] = {x, x};
        if (ppto_opn_at(PPTO_HERE, g, "add", NULL, 2, operands, 1, &x) != PPTO_OK) failed = why("record");
    }
    if (!failed && ppto_graph_size(g) < NODES / 10) failed = "nodes are missing";
    ppto_graph_destroy(g);
    ppto_context_destroy(ctx);
    return (void *)(uintptr_t)failed;
}

Test(depth, recorded_by_name_and_dropped)
{
    on_small_stack(dropped_body);
}

/* A program is compiled and dropped unrun; so is one whose graph is gone. */
static void *unrun_body(void *arg)
{
    (void)arg;
    ppto_context *ctx = make_context("serial");
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = chain(g, NODES / 4);
    ppto_program *p = NULL;
    const char *failed = ppto_compile(1, &y, &p) == PPTO_OK ? NULL : why("compile");
    ppto_graph_destroy(g);
    ppto_program_destroy(p);
    ppto_context_destroy(ctx);
    return (void *)(uintptr_t)failed;
}

Test(depth, compiled_and_dropped_unrun)
{
    on_small_stack(unrun_body);
}

/* The result of `text` applied to itself VIEWS times, on x of n elements, declared with `dims`. */
static ppto_array *repeated(ppto_context *ctx, const char *text, const char *dims, int64_t n)
{
    enum { VIEWS = 1000 };
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *y = ppto_input(g, "x", PPTO_F32, dims);
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, &n, "random(1)", "x"), *out = NULL;
    for (int i = 0; i < VIEWS; i++) y = ppto_exprn(g, text, 1, &y);
    const char *type = ppto_tensor_type(y);
    cr_expect_lt(strlen(type ? type : ""), 60, "%s: %s", text, type);
    ppto_eval(y, &out, "x", x, NULL);
    cr_expect_not_null(out, "%s, [%s] with %d: %s", text, dims, (int)n, ppto_error_text(NULL));
    ppto_array_release(x);
    ppto_graph_destroy(g);
    return out;
}

/* A size that is only a name stays short however often it is cut, and means what the number means. */
Test(depth, views_of_views_on_a_named_size)
{
    static const char *const texts[] = {"$0[1:]",
                                        "$0[:-1]",
                                        "$0[1:-1]",
                                        "$0[::2]",
                                        "$0[::-3]",
                                        "$0[::-1]",
                                        "$0[:900]",
                                        "roll($0, 3)",
                                        "concat([$0[1:], $0[:1]])",
                                        "pad($0, [1, 2])[2:-1]"};
    static const int64_t sizes[] = {0, 1, 5, 1003};
    ppto_context *ctx = make_context("serial");
    double start = now();
    for (size_t t = 0; t < sizeof texts / sizeof *texts; t++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            char dims[24];
            snprintf(dims, sizeof dims, "%d", (int)sizes[s]);
            ppto_array *named = repeated(ctx, texts[t], "N", sizes[s]);
            ppto_array *known = repeated(ctx, texts[t], dims, sizes[s]);
            ppto_comparison c = {0};
            cr_expect(named && known && ppto_compare(named, known, 0, 0, &c) == PPTO_OK && c.equal,
                      "%s of %d", texts[t], (int)sizes[s]);
            ppto_array_release(named);
            ppto_array_release(known);
        }
    cr_expect_lt(now() - start, (double)SECONDS);
    ppto_context_destroy(ctx);
}
