/* SPDX-License-Identifier: Apache-2.0
 * What tests of the ledger share: a watched pool, blocks with a tag, a report. */
#ifndef TEST_LEDGER_COMMON_H
#define TEST_LEDGER_COMMON_H

#include <criterion/criterion.h>
#include <string.h>

#include "memory/memcheck.h"
#include "memory/pool.h"

static PP_UNUSED const ppto_site nowhere = {NULL, NULL, 0, 0};

static PP_UNUSED pp_pool *watched(int level)
{
    pp_pool *pool;
    cr_assert_eq(pp_pool_create(&pool), PPTO_OK);
    cr_assert_eq(pp_pool_watch(pool, level), PPTO_OK);
    return pool;
}

static PP_UNUSED void *take(pp_pool *pool, size_t bytes, pp_block_kind kind, const char *name, int line,
                            pp_hold hold)
{
    void *block;
    const pp_tag tag = {.kind = kind,
                        .operator_name = name,
                        .site = {"t.c", "f", line, 0},
                        .hold = hold,
                        .taken = {"h.c", "g", line, 0}};
    cr_assert_eq(pp_pool_take_as(pool, bytes, &tag, &block, NULL), PPTO_OK);
    return block;
}

static PP_UNUSED pp_memcheck make(pp_pool *pool, const char *at)
{
    pp_memcheck report;
    cr_assert_eq(pp_memcheck_make(pp_pool_ledger(pool), NULL, at, NULL, &report), PPTO_OK);
    return report;
}

static PP_UNUSED const pp_report_group *group(const pp_memcheck *r, const char *name)
{
    for (size_t i = 0; i < r->groups.n; i++)
        if (strcmp(r->groups.at[i].operator_name, name) == 0) return &r->groups.at[i];
    cr_assert(false, "there is no group %s", name);
    return NULL;
}

#endif
