/* SPDX-License-Identifier: Apache-2.0
 * What tests of memcheck share: a watched context, its report by way of the JSON, and an answer to hold it
 * to. */
#ifndef TEST_MEMCHECK_COMMON_H
#define TEST_MEMCHECK_COMMON_H

#include <stdlib.h>
#include <unistd.h>

#include "memory/memcheck.h"
#include "ppto/memcheck.h"
#include "runtime/runtime.h"
#include "tests/support/context.h"

enum { N = 64, BYTES = N * N * 4 };
static const int64_t square[] = {N, N};

static PP_UNUSED void open_watched(void)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    o.executor = "serial";
    o.memcheck_level = 2;
    live = pp_heap_count().live;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK, "%s", ppto_error_text(NULL));
}

/* The report, through its JSON, and the ledger held to the pool. */
static PP_UNUSED pp_memcheck report_now(void)
{
    char *json;
    pp_memcheck r;
    pp_error err = {0};
    pp_pool_counters counters;
    pp_ledger_totals totals;
    uint64_t shares = 0;
    pp_pool_count(ctx->pool, &counters);
    pp_ledger_count(ctx->ledger, &totals);
    cr_expect_eq(totals.current_bytes, counters.current_bytes);
    cr_expect_eq(totals.sum_of_blocks, counters.current_bytes);
    cr_expect_eq(totals.sum_of_groups, counters.current_bytes);
    cr_expect_eq(totals.sum_of_parts, counters.current_bytes);
    cr_expect_eq(totals.dropped, 0);
    cr_assert_eq(ppto_memcheck_text(ctx, PPTO_REPORT_JSON, &json), PPTO_OK, "%s", ppto_error_text(ctx));
    ppto_status status = pp_memcheck_reads() ? pp_memcheck_read(json, strlen(json), &r, &err)
                                             : pp_memcheck_make(ctx->ledger, ctx->stacks, "now", NULL, &r);
    cr_assert_eq(status, PPTO_OK, "%s", err.text);
    ppto_text_free(json);
    for (size_t i = 0; i < r.groups.n; i++) shares += r.groups.at[i].peak_share_bytes;
    cr_expect_eq(shares, r.peak_bytes, "the shares of the groups");
    for (int i = 0; i < PP_SHARES; i++) shares -= r.share[i];
    cr_expect_eq(shares, 0, "what the peak is made of");
    cr_expect_leq(r.avoidable_bytes, r.share[PP_SHARE_RETAINED]);
    cr_expect_leq(r.ideal_peak_bytes, r.peak_bytes);
    return r;
}

/* The group of an operator that was recorded at the line. */
static PP_UNUSED const pp_report_group *find(const pp_memcheck *r, const char *name, int line)
{
    for (size_t i = 0; i < r->groups.n; i++)
        if (strcmp(r->groups.at[i].operator_name, name) == 0 && r->groups.at[i].site.line == line &&
            strcmp(r->groups.at[i].kind, "planned") != 0)
            return &r->groups.at[i];
    cr_assert(false, "nothing of %s at line %d", name, line);
    return NULL;
}

typedef struct answer {
    pp_verdict verdict;
    const char *operator_name;
    int line;
    const char *holder, *function;
    int holder_line;
} answer;

static PP_UNUSED void expect(answer want)
{
    pp_memcheck r = report_now();
    const pp_report_group *g = find(&r, want.operator_name, want.line);
    cr_expect_eq(g->verdict, want.verdict, "%s is %s", want.operator_name, pp_verdict_name(g->verdict));
    cr_expect(strstr(g->site.file, "test_memcheck.c") != NULL);
    bool found = want.holder == NULL;
    for (size_t i = 0; i < g->n_holders; i++) {
        const pp_report_holder *h = &r.holders.at[g->first_holder + i];
        found |= want.holder != NULL && strcmp(h->kind, want.holder) == 0 &&
                 h->site.line == want.holder_line && h->site.function != NULL &&
                 strcmp(h->site.function, want.function) == 0;
    }
    cr_expect(found, "%s is not held by %s at line %d", want.operator_name, want.holder, want.holder_line);
    for (size_t i = 0; i < r.groups.n; i++) /* and nothing else is blamed */
        cr_expect(&r.groups.at[i] == g || r.groups.at[i].verdict > PP_RETAINED, "%s is blamed too",
                  r.groups.at[i].operator_name);
    pp_memcheck_free(&r);
}

static PP_UNUSED void expect_nothing_retained(void)
{
    pp_memcheck r = report_now();
    cr_expect_eq(r.count[PP_GROWING] + r.count[PP_LEAKED] + r.count[PP_RETAINED], 0);
    pp_memcheck_free(&r);
}

static PP_UNUSED ppto_array *data(void)
{
    return ppto_array_fill(ctx, PPTO_F32, 2, square, "uniform(0,1)", "x");
}

static PP_UNUSED ppto_array *eval(ppto_tensor *y, ppto_array *x)
{
    ppto_array *out = NULL;
    cr_assert_eq(ppto_eval(y, &out, "x", x, NULL), PPTO_OK, "%s", ppto_error_text(ctx));
    return out;
}

static PP_UNUSED ppto_program *compile(ppto_tensor *y)
{
    ppto_program *p;
    cr_assert_eq(ppto_compile(1, &y, &p), PPTO_OK, "%s", ppto_error_text(ctx));
    return p;
}

#endif
