/* SPDX-License-Identifier: Apache-2.0
 * Bytes by operator on random histories: rows are what a plain list of the blocks that are out sums up to. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "memory/pool.h"

enum { NAMES = 5, BLOCKS = 300, STEPS = 5000 };

typedef struct block {
    void *at;
    size_t bytes;
    int name;
} block;

static unsigned draw(uint64_t *random, unsigned n)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(*random >> 33) % n;
}

static void expect_rows(pp_pool *pool, const block *blocks, size_t n, const uint64_t *peak)
{
    pp_tally_row rows[NAMES + 2];
    uint64_t bytes[NAMES] = {0}, counts[NAMES] = {0}, before = UINT64_MAX;
    size_t holding = 0;
    for (size_t i = 0; i < n; i++) bytes[blocks[i].name] += blocks[i].bytes, counts[blocks[i].name]++;
    for (int i = 0; i < NAMES; i++) holding += bytes[i] != 0;
    cr_assert_eq(pp_pool_operators(pool, rows, NAMES + 2), holding);
    for (size_t i = 0; i < holding; i++) {
        int name = rows[i].operator_name[2] - '0';
        cr_expect_eq(rows[i].current_bytes, bytes[name]);
        cr_expect_eq(rows[i].blocks, counts[name]);
        cr_expect_eq(rows[i].peak_bytes, peak[name]);
        cr_expect_leq(rows[i].current_bytes, before, "the largest first");
        before = rows[i].current_bytes;
    }
    cr_expect_eq(pp_pool_operators(pool, rows, 1), holding != 0);
}

Test(memory_tally, rows_are_the_sums_of_blocks)
{
    pp_pool *pool;
    static block blocks[BLOCKS];
    uint64_t random = 3, now[NAMES] = {0}, peak[NAMES] = {0};
    size_t n = 0;
    cr_assert_eq(pp_pool_create(&pool), PPTO_OK);
    for (int step = 0; step < STEPS; step++) {
        if (n < BLOCKS && (n == 0 || draw(&random, 2) == 0)) {
            char name[8]; /* another address for one name, and one for several */
            block b = {.bytes = 1 + draw(&random, 4000), .name = (int)draw(&random, NAMES)};
            snprintf(name, sizeof name, "op%d", b.name);
            pp_tag tag = {.kind = PP_BLOCK_RESULT, .operator_name = name};
            cr_assert_eq(pp_pool_take_as(pool, b.bytes, &tag, &b.at, NULL), PPTO_OK);
            blocks[n++] = b;
            now[b.name] += b.bytes;
            if (now[b.name] > peak[b.name]) peak[b.name] = now[b.name];
        } else {
            size_t i = draw(&random, (unsigned)n);
            now[blocks[i].name] -= blocks[i].bytes;
            pp_pool_give(pool, blocks[i].at, blocks[i].bytes);
            blocks[i] = blocks[--n];
        }
        if (step % 50 == 0) expect_rows(pool, blocks, n, peak);
    }
    while (n-- > 0) pp_pool_give(pool, blocks[n].at, blocks[n].bytes);
    pp_tally_row row;
    cr_expect_eq(pp_pool_operators(pool, &row, 1), 0);
    pp_pool_destroy(pool);
}

Test(memory_tally, without_memory_blocks_are_nobodys)
{
    pp_pool *pool;
    void *blocks[200];
    cr_assert_eq(pp_pool_create(&pool), PPTO_OK);
    for (int i = 0; i < 200; i++) {
        const pp_tag tag = {.kind = PP_BLOCK_DATA, .operator_name = i % 2 ? "data" : NULL};
        cr_assert_eq(pp_pool_take_as(pool, 64, &tag, &blocks[i], NULL), PPTO_OK);
        pp_pool_give(pool, blocks[i], 64);
        pp_heap_fail_at(1 + (uint64_t)i % 3, false);
        ppto_status status = pp_pool_take_as(pool, 64, &tag, &blocks[i], NULL);
        pp_heap_fail_at(0, false);
        if (status != PPTO_OK) cr_assert_eq(pp_pool_take_as(pool, 64, &tag, &blocks[i], NULL), PPTO_OK);
    }
    for (int i = 0; i < 200; i++) pp_pool_give(pool, blocks[i], 64);
    pp_tally_row row;
    cr_expect_eq(pp_pool_operators(pool, &row, 1), 0);
    pp_pool_destroy(pool);
    cr_expect_eq(pp_heap_count().live, 0);
}
