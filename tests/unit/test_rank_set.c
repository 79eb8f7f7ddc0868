/* SPDX-License-Identifier: Apache-2.0
 * Sets of ranks beside a plain table, for sizes around every border of a level. */
#include <criterion/criterion.h>

#include "scheduler/rank_set.h"

enum { MOST = 64 * 64 * 64 + 2 };

static uint64_t state = 1;

static uint32_t draw(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

/* The least from `from` on, else the least; n: none. */
static uint32_t next_of(const bool *in, uint32_t n, uint32_t from)
{
    for (uint32_t i = 0; i < n; i++)
        if (in[(from + i) % n]) return (from + i) % n;
    return n;
}

static void check(uint32_t n, const char *what)
{
    static bool in[MOST];
    pp_rank_set set;
    uint32_t count = 0;
    memset(in, 0, sizeof in);
    cr_assert_eq(pp_rank_set_make(&set, n), PPTO_OK);
    for (int turn = 0; turn < 400; turn++) {
        uint32_t i = turn % 8 == 0 ? n - 1 - draw(n < 70 ? n : 70) : draw(n), from = draw(n);
        cr_expect_eq(pp_rank_set_has(&set, i), in[i]);
        if (in[i])
            pp_rank_set_remove(&set, i);
        else
            pp_rank_set_add(&set, i);
        in[i] = !in[i];
        count += in[i] ? 1u : UINT32_MAX;
        cr_assert_eq(set.n, count);
        if (count == 0) continue;
        cr_assert_eq(pp_rank_set_least(&set), next_of(in, n, 0), "%s, size %u", what, n);
        cr_assert_eq(pp_rank_set_next(&set, from), next_of(in, n, from), "%s, size %u", what, n);
    }
    pp_rank_set_clear(&set);
    cr_expect_eq(set.n, 0);
    for (uint32_t i = 0; i < n; i += 1 + n / 100) cr_expect(!pp_rank_set_has(&set, i));
    pp_rank_set_free(&set);
}

Test(rank_set, agrees_with_a_table_at_every_size)
{
    static const uint32_t sizes[] = {
        1,   2, 63, 64, 65, 127, 128, 4031, 4032, 4095, 4096, 4097, 10000, 64 * 64 * 64 - 1, 64 * 64 * 64,
        MOST};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check(sizes[i], "random");
}
