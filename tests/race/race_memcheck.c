/* SPDX-License-Identifier: Apache-2.0
 * Threads that record, run, hold and release, on their own and through run objects, while another one marks
 * and reports. Checked: every report is whole (its shares make up its peak), and at the end nothing is held.
 *
 * A plain program for ThreadSanitizer: 0 = passed. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "memory/memcheck.h"
#include "ppto/ops.h"
#include "ppto/ppto.h"
#include "runtime/runtime.h"

enum { THREADS = 3, ROUNDS = 40, REPORTS = 60, N = 32 };

static ppto_context *ctx;
static atomic_int failures, working;

static void complain(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, ppto_error_text(NULL));
    atomic_fetch_add(&failures, 1);
}

static bool by_run_object(ppto_program *p, ppto_array **out)
{
    ppto_run *run;
    if (ppto_program_start(p, NULL, &run) != PPTO_OK) return false;
    bool ok = ppto_run_wait(run, -1) == PPTO_OK && ppto_run_outputs(run, out) == PPTO_OK;
    ppto_run_release(run);
    return ok;
}

static bool work_once(int round, ppto_array **held)
{
    const int64_t shape[] = {N, N};
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "32, 32"), *y = ppto_exp(ppto_matmul(x, x));
    ppto_array *a = ppto_array_fill(ctx, PPTO_F32, 2, shape, "uniform(0,1)", "x"), *out = NULL;
    ppto_program *p = NULL;
    bool ok = ppto_compile(1, &y, &p) == PPTO_OK && ppto_program_bind(p, 0, a) == PPTO_OK;
    if (ok) ok = round % 2 ? by_run_object(p, &out) : ppto_program_run(p, &out) == PPTO_OK;
    ppto_array_release(held[round % 4]);
    held[round % 4] = ppto_array_retain(out);
    ppto_array_release(out);
    ppto_array_release(a);
    ppto_program_destroy(p);
    ppto_graph_destroy(g);
    return ok;
}

static void *work(void *arg)
{
    ppto_array *held[4] = {NULL};
    for (int i = 0; i < ROUNDS; i++)
        if (!work_once(i, held)) complain("work");
    for (int i = 0; i < 4; i++) ppto_array_release(held[i]);
    atomic_fetch_sub(&working, 1);
    return arg;
}

static void report_once(void)
{
    pp_memcheck r;
    uint64_t shares = 0, groups = 0;
    if (pp_memcheck_make(ctx->ledger, ctx->stacks, "now", NULL, &r) != PPTO_OK) complain("report");
    for (int i = 0; i < PP_SHARES; i++) shares += r.share[i];
    for (size_t i = 0; i < r.groups.n; i++) groups += r.groups.at[i].peak_share_bytes;
    if (shares != r.peak_bytes || groups != r.peak_bytes) complain("the shares are not the peak");
    pp_memcheck_free(&r);
    if (ppto_memcheck_mark(ctx, "report") != PPTO_OK) complain("mark");
}

int main(void)
{
    pthread_t threads[THREADS];
    ppto_options options = PPTO_OPTIONS_INIT;
    pp_ledger_totals totals;
    options.memcheck_level = 2;
    options.executor = "pthread";
    options.threads = 2;
    if (ppto_context_create(&ctx, &options) != PPTO_OK) return 1;
    atomic_store(&working, THREADS);
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0) return 1;
    for (int i = 0; i < REPORTS || atomic_load(&working) > 0; i++) report_once();
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    ppto_memcheck_summary summary = {.size = sizeof summary};
    pp_ledger_count(ctx->ledger, &totals);
    if (ppto_memcheck_summarise(ctx, &summary) != PPTO_OK || summary.retained_bytes != 0)
        complain("retained");
    if (totals.sum_of_blocks != totals.current_bytes || totals.dropped != 0) complain("totals");
    if (ppto_context_destroy(ctx) != PPTO_OK) complain("destroy");
    return atomic_load(&failures) != 0;
}
