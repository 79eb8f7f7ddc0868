/* SPDX-License-Identifier: Apache-2.0
 * Memory and bytes: the peak that was predicted is the one that is measured and lies near the bound that no
 * layout beats; memory is taken over in place and from donated inputs; a limit refuses before anything runs;
 * the bytes that kernels touch are those that explain says; a run seen before allocates nothing. */
#include <criterion/criterion.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "ppto/ops.h"
#include "ppto/ppto.h"

static ppto_context *make_context(const char *executor, int threads, uint64_t limit, bool count)
{
    ppto_context *ctx = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = executor;
    o.threads = threads;
    o.memory_limit = limit;
    o.count_bytes = count;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK, "%s", ppto_error_text(NULL));
    return ctx;
}

/* A program with every input bound to a filled array. Sizes are in the text: inputs have no names in dims. */
typedef struct prepared {
    ppto_context *ctx;
    ppto_program *p;
    ppto_array *out[8];
} prepared;

static void bind_all(prepared *r, const char *text)
{
    for (size_t i = 0; i < ppto_program_inputs(r->p); i++) {
        const char *name = ppto_program_input_name(r->p, i);
        char declared[64];
        snprintf(declared, sizeof declared, " %s: f32[", name);
        const char *at = strstr(text, declared);
        cr_assert_not_null(at, "%s", name);
        int64_t shape[PPTO_MAX_RANK];
        int rank = 0;
        for (at += strlen(declared); *at != ']';) {
            char *end;
            shape[rank++] = strtoll(at, &end, 10);
            at = end + strspn(end, ", ");
        }
        ppto_array *a = ppto_array_fill(r->ctx, PPTO_F32, rank, shape, "uniform(-1, 1)", name);
        cr_assert_not_null(a, "%s", ppto_error_text(NULL));
        cr_assert_eq(ppto_program_bind(r->p, i, a), PPTO_OK);
        ppto_array_release(a);
    }
}

static prepared prepare(ppto_context *ctx, const char *text)
{
    prepared r = {.ctx = ctx};
    ppto_graph *g = ppto_graph_create(ctx);
    size_t n = 0;
    ppto_tensor **outputs = NULL;
    char **names = NULL;
    ppto_status s = ppto_parse_program(g, text, strlen(text), NULL, NULL, NULL, &n, &outputs, &names);
    cr_assert_eq(s, PPTO_OK, "%s\n%s", text, ppto_error_text(NULL));
    s = ppto_compile(n, outputs, &r.p);
    cr_assert_eq(s, PPTO_OK, "%s\n%s", text, ppto_error_text(NULL));
    ppto_outputs_free(n, outputs, names);
    ppto_graph_destroy(g);
    bind_all(&r, text);
    return r;
}

static ppto_stats run(prepared *r)
{
    ppto_stats stats = {.size = sizeof stats};
    cr_assert_eq(ppto_program_run(r->p, r->out), PPTO_OK, "%s", ppto_error_text(NULL));
    ppto_program_stats(r->p, &stats);
    return stats;
}

static void release(prepared *r)
{
    for (size_t i = 0; i < ppto_program_outputs(r->p); i++) {
        ppto_array_release(r->out[i]);
        r->out[i] = NULL;
    }
}

static void finish(prepared *r)
{
    release(r);
    ppto_program_destroy(r->p);
}

/* ---- graphs: the programs of perf/graphs, which perf/peaks.py lists ---- */

#define X "input x: f32[64, 96]\n"
#define W "input w: f32[96, 96]\n"
#define BLOCK(in, out) out " = " in " + relu(" in " @ w) @ w\n"
#define SCAN(in, out) out " = cumulative_sum(" in " * 1.5, axis=1)\n"
#define DOWN(in, out) out " = cumulative_sum(" in " * 1.5, axis=0)\n"

enum { MAX_GRAPHS = 64, MAX_TEXT = 4096 };
static char graphs[MAX_GRAPHS][MAX_TEXT];
static size_t n_graphs;

static void read_graphs(void)
{
    glob_t found;
    cr_assert_eq(glob(GRAPHS "/*.ppto", 0, NULL, &found), 0, "no graphs in " GRAPHS);
    cr_assert_leq(found.gl_pathc, MAX_GRAPHS);
    for (n_graphs = 0; n_graphs < found.gl_pathc; n_graphs++) {
        FILE *file = fopen(found.gl_pathv[n_graphs], "r");
        cr_assert_not_null(file);
        size_t n = fread(graphs[n_graphs], 1, MAX_TEXT - 1, file);
        cr_assert_lt(n, MAX_TEXT - 1, "%s is too long", found.gl_pathv[n_graphs]);
        fclose(file);
    }
    globfree(&found);
    cr_assert_geq(n_graphs, 20);
}

static void peaks(const char *executor, int threads)
{
    read_graphs();
    for (size_t i = 0; i < n_graphs; i++) {
        ppto_context *ctx = make_context(executor, threads, 0, false);
        prepared r = prepare(ctx, graphs[i]);
        for (int again = 0; again < 2; again++) {
            ppto_stats s = run(&r);
            release(&r);
            cr_expect_eq(s.predicted_peak_bytes, s.measured_peak_bytes,
                         "%s\npredicted %" PRIu64 ", measured %" PRIu64, graphs[i], s.predicted_peak_bytes,
                         s.measured_peak_bytes);
            cr_expect_leq(s.lower_bound_bytes, s.predicted_peak_bytes, "%s", graphs[i]);
            cr_expect_leq(s.serial_bound_bytes, s.lower_bound_bytes, "%s", graphs[i]);
            cr_expect((double)s.predicted_peak_bytes <= 1.05 * (double)s.lower_bound_bytes,
                      "%s\npredicted %" PRIu64 ", bound %" PRIu64, graphs[i], s.predicted_peak_bytes,
                      s.lower_bound_bytes);
            cr_expect_eq(s.launches, s.kernels, "%s", graphs[i]);
        }
        finish(&r);
        ppto_context_destroy(ctx);
    }
}

Test(memory, predicted_is_measured_one_after_the_other)
{
    peaks("serial", 1);
}
Test(memory, predicted_is_measured_on_threads)
{
    peaks("pthread", 3);
}

/* A value that ends where the next one begins: two buffers would be alive at once, one is enough. */
Test(memory, scans_take_over_memory)
{
    enum { BYTES = 64 * 96 * 4 };
    ppto_context *ctx = make_context("serial", 1, 0, false);
    prepared one = prepare(ctx, X SCAN("x", "a") DOWN("a", "b") "output y = b");
    prepared many = prepare(ctx, X SCAN("x", "a") DOWN("a", "b") SCAN("b", "c") DOWN("c", "d") SCAN("d", "e")
                                     DOWN("e", "f") "output y = f");
    ppto_stats a = run(&one), b = run(&many);
    cr_expect_eq(b.kernels, 6);
    uint64_t more = b.measured_peak_bytes - a.measured_peak_bytes;
    cr_expect_lt(more, BYTES, "%" PRIu64 " bytes more for four more steps", more);
    finish(&one);
    finish(&many);
    ppto_context_destroy(ctx);
}

/* ---- the limit ---- */

Test(memory, a_limit_refuses_before_the_run)
{
    static const char text[] = X SCAN("x", "a") "output y = flip(a, axis=0) @ a.T"; /* cannot go by pieces */
    ppto_context *ctx = make_context("serial", 1, 0, false);
    prepared r = prepare(ctx, text);
    uint64_t need = run(&r).predicted_peak_bytes;
    finish(&r);
    ppto_context_destroy(ctx);
    for (int enough = 0; enough < 2; enough++) {
        ctx = make_context("serial", 1, enough ? need : need - 1, false);
        r = prepare(ctx, text);
        char least[32];
        snprintf(least, sizeof least, "%" PRIu64, need);
        ppto_status s = ppto_program_run(r.p, r.out);
        cr_expect_eq(s, enough ? PPTO_OK : PPTO_E_LIMIT, "%s", ppto_error_text(NULL));
        if (!enough) {
            cr_expect(strstr(ppto_error_text(NULL), least) != NULL, "%s", ppto_error_text(NULL));
            cr_expect_null(r.out[0]);
        }
        finish(&r);
        ppto_context_destroy(ctx);
    }
}

Test(memory, under_a_limit_no_scratch_is_kept_for_runs_to_come)
{
    static const char text[] = X SCAN("x", "a") "output y = flip(a, axis=0) @ a.T";
    static const char other[] = "input z: f32[8, 100]\noutput w = softmax(z)";
    ppto_context *ctx = make_context("serial", 1, 0, false);
    prepared r = prepare(ctx, text);
    uint64_t need = run(&r).predicted_peak_bytes;
    finish(&r);
    ppto_context_destroy(ctx);
    ctx = make_context("serial", 1, need, false);
    for (int i = 0; i < 2; i++) { /* what ran leaves its plan in the context, and no memory */
        r = prepare(ctx, i == 0 ? other : text);
        cr_expect_eq(ppto_program_run(r.p, r.out), PPTO_OK, "%s", ppto_error_text(NULL));
        finish(&r);
    }
    ppto_context_destroy(ctx);
}

/* ---- bytes ---- */

static uint64_t sum_of(const char *json, const char *key, size_t *count)
{
    uint64_t sum = 0;
    *count = 0;
    for (const char *at = json; (at = strstr(at, key)) != NULL; ++*count) {
        at += strlen(key);
        sum += strtoull(at, NULL, 10);
    }
    return sum;
}

Test(memory, counted_bytes_are_those_of_explain)
{
    ppto_context *ctx = make_context("serial", 1, 0, true);
    read_graphs();
    for (size_t i = 0; i < n_graphs; i++) {
        prepared r = prepare(ctx, graphs[i]);
        ppto_stats s = run(&r);
        char *json = NULL;
        size_t groups, kernels;
        cr_assert_eq(ppto_program_explain(r.p, PPTO_EXPLAIN_SUMMARY, true, &json), PPTO_OK);
        uint64_t reads = sum_of(json, "\"reads_bytes\": ", &groups);
        uint64_t writes = sum_of(json, "\"writes_bytes\": ", &groups);
        bool by_value = strstr(graphs[i], "take(") != NULL; /* which elements are read depends on the data */
        cr_expect(by_value ? reads >= s.reads_bytes : reads == s.reads_bytes,
                  "%s\nexplained %" PRIu64 ", counted %" PRIu64, graphs[i], reads, s.reads_bytes);
        cr_expect_eq(writes, s.writes_bytes, "%s\nexplained %" PRIu64 ", counted %" PRIu64, graphs[i], writes,
                     s.writes_bytes);
        cr_expect_eq(sum_of(json, "\"kernels\": ", &kernels), s.kernels, "%s", graphs[i]);
        cr_expect_eq(sum_of(json, "\"predicted_peak_bytes\": ", &kernels), s.predicted_peak_bytes, "%s",
                     graphs[i]);
        cr_expect_eq(s.launches, s.kernels, "%s", graphs[i]);
        ppto_text_free(json);
        finish(&r);
    }
    ppto_context_destroy(ctx);
}

/* ---- donated inputs ---- */

static void *data_of_input(prepared *r, const char *text)
{
    enum { N = 64 * 96 };
    static const int64_t shape[] = {64, 96};
    ppto_array *x = ppto_array_fill(r->ctx, PPTO_F32, 2, shape, "uniform(-1, 1)", "x");
    cr_assert_not_null(x, "%s", text);
    cr_assert_eq(ppto_program_bind_name(r->p, "x", x), PPTO_OK);
    void *data = ppto_array_data(x);
    ppto_array_release(x);
    return data;
}

/* `taken`: an output lies where the donated input lay; the values are the same either way. */
static void donate(const char *text, bool taken)
{
    ppto_context *ctx = make_context("pthread", 2, 0, false);
    prepared plain = prepare(ctx, text), given = prepare(ctx, text);
    void *data = data_of_input(&given, text);
    data_of_input(&plain, text);
    size_t x = 0;
    while (strcmp(ppto_program_input_name(given.p, x), "x") != 0) x++;
    cr_assert_eq(ppto_program_donate(given.p, x, true), PPTO_OK);
    ppto_stats a = run(&plain), b = run(&given);
    ppto_comparison c = {0};
    for (size_t i = 0; i < ppto_program_outputs(plain.p); i++) {
        cr_assert_eq(ppto_compare(plain.out[i], given.out[i], 0, 0, &c), PPTO_OK);
        cr_expect(c.equal && c.same_dtype && c.same_shape, "%s", text);
    }
    bool there = false;
    for (size_t i = 0; i < ppto_program_outputs(given.p); i++) there |= ppto_array_data(given.out[i]) == data;
    cr_expect_eq(there, taken, "%s", text);
    cr_expect_eq(b.predicted_peak_bytes, b.measured_peak_bytes, "%s", text);
    if (taken) {
        cr_expect_eq(a.measured_peak_bytes - b.measured_peak_bytes, 64 * 96 * 4, "%s", text);
        ppto_array *again[8] = {NULL};
        cr_expect_eq(ppto_program_run(given.p, again), PPTO_E_NAME, "%s", text);
    }
    finish(&plain);
    finish(&given);
    ppto_context_destroy(ctx);
}

Test(memory, a_donated_input_becomes_the_output)
{
    donate(X "output y = exp(x) * 2", true);
    donate(X "output y = softmax(x, axis=1)", true);
    donate(X "output y = cumulative_sum(x, axis=1)", false);
    donate(X "input r: f32[64, 96]\noutput y = x * r + sum(r)", true);
    donate(X "output y = astype(x * 10, i32)", true);
    donate(X "output y = x.T + 1", false);
    donate(X "output y = x[::-1] + 1", false);
    donate(X W "output y = x @ w", false);
    donate(X "output y = sum(x, axis=1)", false);
    donate(X W "output y = x + 1, z = x @ w", false);
    donate(X "output y = x * 2, z = x * 3", true);
}

Test(memory, an_input_that_others_hold_is_not_taken)
{
    ppto_context *ctx = make_context("serial", 1, 0, false);
    prepared r = prepare(ctx, X "output y = x + 1");
    static const int64_t shape[] = {64, 96};
    ppto_array *x = ppto_array_create(ctx, PPTO_F32, 2, shape);
    static float memory[64 * 96];
    ppto_array *wrapped = ppto_array_wrap(ctx, memory, PPTO_F32, 2, shape, NULL, NULL, NULL);
    cr_assert_eq(ppto_program_donate(r.p, 0, true), PPTO_OK);
    ppto_array *const held[] = {x, wrapped};
    for (int k = 0; k < 2; k++) {
        cr_assert_eq(ppto_program_bind(r.p, 0, held[k]), PPTO_OK);
        run(&r);
        cr_expect_neq(ppto_array_data(r.out[0]), ppto_array_data(held[k]));
        cr_expect_eq(*(float *)ppto_array_data(held[k]), 0.0f);
        release(&r);
    }
    ppto_array_release(x);
    ppto_array_release(wrapped);
    finish(&r);
    ppto_context_destroy(ctx);
}

/* ---- runs seen before ---- */

Test(memory, a_cached_run_allocates_nothing)
{
    static const char *const texts[] = {
        "input x: f32[64, 64]\noutput y = exp(x) * 2 + 1",
        "input x: f32[64, 64]\noutput y = softmax(x, axis=1)",
        "input x: f32[64, 64]\noutput y = sum(x)",
        "input x: f32[64, 64]\noutput y = cumulative_sum(x @ x, axis=0)",
        "input x: f32[64, 64], b: f32[64]\noutput y = relu(x @ x + b), m = mean(x, axis=0)",
        "input x: f32[4, 4]\noutput y = x * 2",
    };
    static const char *const executors[] = {"serial", "pthread"};
    for (size_t e = 0; e < 2; e++)
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
            ppto_context *ctx = make_context(executors[e], 2, 0, false);
            prepared r = prepare(ctx, texts[i]);
            run(&r);
            for (size_t k = 0; k < ppto_program_outputs(r.p); k++) {
                cr_assert_eq(ppto_program_bind_output(r.p, k, r.out[k]), PPTO_OK);
                ppto_array_release(r.out[k]);
                r.out[k] = NULL;
            }
            cr_assert_eq(ppto_program_run(r.p, NULL), PPTO_OK);
            uint64_t before = pp_heap_count().allocations;
            for (int k = 0; k < 5; k++) cr_assert_eq(ppto_program_run(r.p, NULL), PPTO_OK);
            cr_expect_eq(pp_heap_count().allocations, before, "%s on %s", texts[i], executors[e]);
            finish(&r);
            ppto_context_destroy(ctx);
        }
}
