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
    "input x: f32[300, 257]\noutput y = softmax(x * 2) @ (x.T + 1)\n",
    "input x: f32[300, 257]\noutput y = cumulative_sum(exp(x), axis=0)\noutput m = mean(x, axis=1)\n",
    "input x: f32[300, 257]\na = sum(x * x)\noutput y = (x - mean(x, axis=0)) / (a + 1)\n",
    "input x: f32[300, 257]\noutput y = sum(x[:, 7]) + sum(relu(x)) * max(x)\n",
};
enum { TEXTS = sizeof texts / sizeof *texts, MOST = 1 << 20 };

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

/* All outputs of the text, one after the other. */
static size_t run_text(ppto_context *ctx, const char *text, unsigned char *bytes)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor **outputs = NULL;
    ppto_program *p = NULL;
    char **names = NULL;
    size_t n = 0, at = 0;
    ppto_array *out[4] = {NULL};
    const int64_t shape[] = {300, 257};
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
            for (int threads = 1; threads <= 7; threads += 2) {
                ppto_context *ctx = make_context(executors[e], topologies[t], threads);
                for (size_t i = 0; ctx && i < TEXTS; i++) {
                    cr_expect_eq(run_text(ctx, texts[i], found), size[i]);
                    cr_expect_eq(memcmp(found, expected[i], size[i]), 0, "%s, %s, %d threads, text %zu",
                                 topologies[t], executors[e], threads, i);
                }
                ppto_context_destroy(ctx);
            }
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
    ppto_context *ctx = make_context("pthread", "this-system node:2 core:1 pu:1", -1);
    if (ctx) cr_expect_gt(run_text(ctx, texts[0], found), 0u);
    ppto_context_destroy(ctx);
}
