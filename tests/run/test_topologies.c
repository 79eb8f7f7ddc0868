/* SPDX-License-Identifier: Apache-2.0
 * The same bytes on every machine: executors on topologies this machine does not have, with more and fewer
 * workers than nodes, small grains so that there are many tasks; and what info says of nodes. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "ppto/ppto.h"

static const char *const topologies[] = {
    "node:2 core:1 pu:1",
    "this-system node:2 core:1 pu:1",
    "pack:2 l3:1 [numa] core:1 pu:1",
    "pack:1 [numa][numa] core:2 pu:1",
    "node:3 core:2 pu:2",
    "",
};
static const char *const executors[] = {"serial", "sim", "pthread", "tbb"};
static const char *const texts[] = {
    "input x: f32[120, 257]\noutput y = softmax(x * 2) @ (x.T + 1)\n",
    "input x: f32[120, 257]\noutput y = cumulative_sum(exp(x), axis=0)\noutput m = mean(x, axis=1)\n",
    "input x: f32[120, 257]\na = sum(x * x)\noutput y = (x - mean(x, axis=0)) / (a + 1)\n",
    "input x: f32[120, 257]\noutput y = sum(x[:, 7]) + sum(relu(x)) * max(x)\n",
};
enum { TEXTS = sizeof texts / sizeof *texts, MOST = 8 << 20 };

/* NULL: not built in. */
static ppto_context *make_context(const char *executor, const char *topology, int threads)
{
    ppto_context *ctx = NULL;
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = executor;
    o.topology = topology;
    o.threads = threads;
    o.grain = 1000;
    o.sim_seed = 17;
    ppto_status status = ppto_context_create(&ctx, &o);
    cr_assert(status == PPTO_OK || status == PPTO_E_UNSUPPORTED || strcmp(executor, "tbb") == 0, "%s",
              ppto_error_text(NULL));
    return ctx;
}

static ppto_stats last_stats;
static int64_t shape[2] = {120, 257};

/* All outputs of the text, one after the other. */
static size_t run_text(ppto_context *ctx, const char *text, unsigned char *bytes)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor **outputs = NULL;
    ppto_program *p = NULL;
    char **names = NULL;
    size_t n = 0, at = 0;
    ppto_array *out[4] = {NULL};
    cr_assert_eq(ppto_parse_program(g, text, strlen(text), NULL, NULL, NULL, &n, &outputs, &names), PPTO_OK,
                 "%s", ppto_error_text(NULL));
    cr_assert_eq(ppto_compile(n, outputs, &p), PPTO_OK, "%s", ppto_error_text(NULL));
    ppto_outputs_free(n, outputs, names);
    ppto_graph_destroy(g);
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 2, shape, "uniform(-1, 1)", "x");
    cr_assert_eq(ppto_program_bind(p, 0, x), PPTO_OK);
    for (int run = 0; run < 3; run++) {
        for (size_t i = 0; i < n; i++) ppto_array_release(out[i]);
        cr_assert_eq(ppto_program_run(p, out), PPTO_OK, "%s", ppto_error_text(NULL));
    }
    for (size_t i = 0; i < n; i++) {
        size_t size = ppto_dtype_size(ppto_array_dtype(out[i]));
        for (int d = 0; d < ppto_array_rank(out[i]); d++) size *= (size_t)ppto_array_shape(out[i])[d];
        cr_assert_leq(at + size, (size_t)MOST);
        memcpy(bytes + at, ppto_array_data(out[i]), size);
        at += size;
        ppto_array_release(out[i]);
    }
    last_stats = (ppto_stats){.size = sizeof last_stats};
    ppto_program_stats(p, &last_stats);
    ppto_array_release(x);
    ppto_program_destroy(p);
    return at;
}

static unsigned char expected[TEXTS][MOST], found[MOST];

Test(topologies, results_are_the_same_bytes, .timeout = 300)
{
    size_t size[TEXTS];
    ppto_context *flat = make_context("serial", "flat", 1);
    for (size_t i = 0; i < TEXTS; i++) size[i] = run_text(flat, texts[i], expected[i]);
    ppto_context_destroy(flat);
    for (size_t t = 0; t < sizeof topologies / sizeof *topologies; t++)
        for (size_t e = 0; e < sizeof executors / sizeof *executors; e++)
            for (int threads = 2; threads <= 5; threads += 3) {
                ppto_context *ctx = make_context(executors[e], topologies[t], threads);
                for (size_t i = 0; ctx && i < TEXTS; i++) {
                    cr_expect_eq(run_text(ctx, texts[i], found), size[i]);
                    cr_expect_eq(memcmp(found, expected[i], size[i]), 0, "%s, %s, %d threads, text %zu",
                                 topologies[t], executors[e], threads, i);
                }
                ppto_context_destroy(ctx);
            }
}

/* Everything that may lie somewhere else, on a machine where half of the bindings are refused. */
Test(topologies, placement_changes_neither_bytes_nor_what_is_counted, .timeout = 300)
{
    static const char *const words[] = {"split", "interleave", "first_touch", "bind:0", "bind:1"};
    const char *text =
        "input x: f32[1100, 700]\na = x.T @ x\noutput y = softmax(a @ a) @ (a + 1)\noutput b = a @ x.T\n";
    shape[0] = 1100;
    shape[1] = 700;
    ppto_context *flat = make_context("pthread", "flat", 4);
    size_t size = run_text(flat, text, expected[0]);
    ppto_stats before = last_stats;
    ppto_context_destroy(flat);
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        ppto_context *ctx = NULL;
        ppto_options o = PPTO_OPTIONS_INIT;
        o.topology = "this-system node:2 core:1 pu:1";
        o.placement = words[w];
        o.executor = "pthread";
        o.threads = 4;
        o.grain = 1000;
        if (ppto_context_create(&ctx, &o) == PPTO_E_UNSUPPORTED) cr_skip_test("built without hwloc");
        if (!ctx) continue; /* CPU 1 is not ours: there is no node 1 then */
        cr_expect_eq(run_text(ctx, text, found), size);
        cr_expect_eq(memcmp(found, expected[0], size), 0, "%s", words[w]);
        cr_expect_eq(last_stats.predicted_peak_bytes, before.predicted_peak_bytes, "%s", words[w]);
        cr_expect_eq(last_stats.measured_peak_bytes, before.measured_peak_bytes, "%s", words[w]);
        ppto_context_destroy(ctx);
    }
}

Test(topologies, an_array_is_moved_and_stays_what_it_is)
{
    shape[0] = shape[1] = 1000;
    ppto_context *ctx = make_context("serial", "this-system node:2 core:1 pu:1", 2);
    if (!ctx) cr_skip_test("not built in");
    float numbers[4] = {1, 2, 3, 4};
    ppto_array *a = ppto_array_fill(ctx, PPTO_F32, 2, shape, "random(3)", "x");
    ppto_array *b = ppto_array_copy_of(ctx, PPTO_F32, 2, shape, ppto_array_data(a));
    ppto_array *wrapped = ppto_array_wrap(ctx, numbers, PPTO_F32, 1, (const int64_t[]){4}, NULL, NULL, NULL);
    const void *data = ppto_array_data(a);
    static const char *const words[] = {"interleave", "bind:0", "split", "first_touch"};
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        cr_expect_eq(ppto_array_place(a, words[w]), PPTO_OK, "%s", ppto_error_text(ctx));
        cr_expect(ppto_array_data(a) == data && memcmp(data, ppto_array_data(b), 4000000) == 0, "%s",
                  words[w]);
    }
    cr_expect_eq(ppto_array_place(wrapped, "interleave"), PPTO_OK, "the caller's memory stays");
    cr_expect_eq(ppto_array_place(a, "elsewhere"), PPTO_E_VALUE);
    cr_expect_not_null(strstr(ppto_error_text(ctx), "interleave"));
    cr_expect_eq(ppto_array_place(a, "bind:99"), PPTO_E_VALUE);
    cr_expect_eq(ppto_array_place(NULL, "split"), PPTO_E_VALUE);
    ppto_array_release(a);
    ppto_array_release(b);
    ppto_array_release(wrapped);
    ppto_context_destroy(ctx);
}

static void expect_info(const char *topology, int threads, const char *executor, const char *part)
{
    ppto_context *ctx = make_context(executor, topology, threads);
    char *text = NULL;
    if (!ctx) cr_skip_test("not built in");
    cr_expect_eq(ppto_runtime_info(ctx, true, &text), PPTO_OK);
    cr_expect_not_null(strstr(text, part), "%s: %s", topology, text);
    ppto_text_free(text);
    ppto_context_destroy(ctx);
}

Test(topologies, info_shows_nodes_and_workers)
{
    expect_info("node:2 core:1 pu:1", 5, "pthread", "\"numa_nodes\": 2");
    expect_info("node:2 core:1 pu:1", 5, "pthread",
                "\"cpu_list\": \"1\", \"bytes\": 1073741824, \"workers\": 2");
    expect_info("node:2 core:3 pu:1", 5, "sim", "\"threads\": 5");
    expect_info("node:2 core:1 pu:1", 5, "serial", "\"threads\": 1,\n  \"threads_asked\": 5");
    expect_info("node:2 core:1 pu:1", 2, "pthread", "\"binding\": {\"threads\": \"not this system\"");
    expect_info("pack:1 [numa][numa] core:2 pu:1", 2, "pthread", "\"number\": 1, \"cpus\": 0");
    expect_info("flat", 2, "pthread", "\"binding\": {\"threads\": \"nothing to bind\"");
}

Test(topologies, one_usable_cpu_is_one_worker)
{
    cpu_set_t one, all;
    CPU_ZERO(&one);
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    for (size_t cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; cpu++)
        if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    expect_info("node:2 core:1 pu:1", -1, "pthread", "\"threads\": 1,");
    expect_info("node:2 core:1 pu:1", 4, "tbb", "\"threads\": 1,\n  \"threads_asked\": 4");
    ppto_context *ctx = make_context("pthread", "this-system node:2 core:1 pu:1", -1);
    if (ctx) cr_expect_gt(run_text(ctx, texts[0], found), 0u);
    ppto_context_destroy(ctx);
}
