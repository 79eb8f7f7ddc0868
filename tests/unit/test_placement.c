/* SPDX-License-Identifier: Apache-2.0
 * memory/placement: how pages divide over domains; and what the pool does with it: fresh blocks are placed
 * once, reuse keeps to blocks that were placed alike, and without a placer nothing changes. */
#include <criterion/criterion.h>
#include <string.h>

#include "memory/pool.h"

enum { PAGE = 4096, MOST_PARTS = 64 };
#define MIB ((size_t)1 << 20)

/* ---- splitting ---------------------------------------------------------------------------------- */

typedef struct parts {
    size_t n, next; /* next: bytes told of so far */
    size_t from[MOST_PARTS];
    uint32_t domain[MOST_PARTS];
    size_t of_domain[3];
    bool broken;
} parts;

static void note_part(void *arg, size_t offset, size_t bytes, uint32_t domain)
{
    parts *p = arg;
    if (p->n == MOST_PARTS || offset != p->next || bytes == 0 || offset % PAGE != 0) {
        p->broken = true;
        return;
    }
    p->from[p->n] = offset;
    p->domain[p->n++] = domain;
    p->of_domain[domain] += bytes;
    p->next = offset + bytes;
}

static parts split(const uint32_t *weights, const pp_extent *extents, uint32_t n, size_t bytes, size_t mapped)
{
    parts p = {0};
    pp_shares shares = pp_shares_of(weights, 3);
    pp_placement_split(&shares, extents, n, bytes, mapped, note_part, &p);
    cr_expect(!p.broken && p.next == mapped, "%zu of %zu bytes", p.next, mapped);
    return p;
}

static bool near(size_t a, size_t b, size_t by)
{
    return a <= b + by && b <= a + by;
}

Test(placement, a_block_is_split_by_weight_in_whole_pages)
{
    parts even = split((const uint32_t[]){1, 1, 1}, NULL, 0, 3 * MIB, 3 * MIB);
    cr_expect_eq(even.n, 3u);
    for (int d = 0; d < 3; d++) cr_expect(even.of_domain[d] == MIB && even.domain[d] == (uint32_t)d);
    parts odd = split((const uint32_t[]){1, 2, 1}, NULL, 0, 3 * MIB + 100, 4 * MIB);
    cr_expect(near(odd.of_domain[0], 3 * MIB / 4, PAGE) && near(odd.of_domain[1], 3 * MIB / 2, PAGE));
    parts none = split((const uint32_t[]){1, 0, 1}, NULL, 0, 2 * MIB, 2 * MIB);
    cr_expect(none.of_domain[1] == 0 && none.of_domain[0] == MIB);
}

Test(placement, long_parts_end_on_huge_pages)
{
    parts p = split((const uint32_t[]){1, 1, 1}, NULL, 0, 100 * MIB, 104 * MIB);
    for (size_t i = 0; i < p.n; i++) cr_expect_eq(p.from[i] % (2 * MIB), 0u);
    for (int d = 0; d < 2; d++) cr_expect(near(p.of_domain[d], 100 * MIB / 3, 2 * MIB));
}

Test(placement, tensors_of_a_slab_are_split_one_by_one)
{
    const pp_extent apart[] = {{0, 3 * MIB}, {3 * MIB, 3 * MIB}};
    parts p = split((const uint32_t[]){1, 1, 1}, apart, 2, 6 * MIB, 6 * MIB);
    const uint32_t expected[] = {0, 1, 2, 0, 1, 2};
    cr_expect(p.n == 6 && memcmp(p.domain, expected, sizeof expected) == 0);
    const pp_extent over[] = {{0, 6 * MIB}, {4 * MIB, 2 * MIB}, {MIB, MIB}}; /* the largest decides */
    parts q = split((const uint32_t[]){1, 1, 1}, over, 3, 6 * MIB, 6 * MIB);
    cr_expect_eq(q.n, 3u);
}

Test(placement, words_are_read_and_written)
{
    const char *const words[] = {"split", "interleave", "first_touch", "bind:0", "bind:17"};
    const char *const wrong[] = {"",        "bind",    "bind:", "bind:x",
                                 "bind:1x", "bind:-1", "Split", "bind:99999999999"};
    char room[PP_PAGES_ROOM];
    pp_pages pages;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        cr_expect(pp_pages_parse(words[i], &pages), "%s", words[i]);
        cr_expect_str_eq(pp_pages_text(&pages, room), words[i]);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect(!pp_pages_parse(wrong[i], &pages), "%s", wrong[i]);
}

/* ---- the pool ----------------------------------------------------------------------------------- */

typedef struct seen {
    int fresh, moved;
    void *block;
    size_t bytes, mapped;
    uint64_t key;
} seen;

static void see(void *arg, void *block, size_t bytes, size_t mapped, const pp_placement *placement,
                bool moves)
{
    seen *s = arg;
    s->fresh += !moves;
    s->moved += moves;
    s->block = block;
    s->bytes = bytes;
    s->mapped = mapped;
    s->key = placement != NULL ? placement->key : 0;
}

static pp_pool *pool_of(seen *s)
{
    const pp_placer placer = {see, s};
    pp_pool *pool;
    cr_assert_eq(pp_pool_create(&pool), PPTO_OK);
    if (s != NULL) pp_pool_set_placer(pool, &placer);
    return pool;
}

static void *take(pp_pool *pool, size_t bytes, const pp_placement *placement)
{
    void *block;
    cr_assert_eq(pp_pool_take_placed(pool, bytes, placement, NULL, &block, NULL), PPTO_OK);
    memset(block, 1, bytes);
    return block;
}

static const pp_placement one = {.key = 11}, other = {.key = 12};

Test(placement, fresh_mapped_blocks_are_placed_and_no_others)
{
    seen s = {0};
    pp_pool *pool = pool_of(&s);
    pp_pool_give(pool, take(pool, 1000, &one), 1000);
    cr_expect_eq(s.fresh, 0, "small ones are the heap's");
    void *block = take(pool, 5 * MIB - 100, NULL);
    cr_expect(s.fresh == 1 && s.block == block && s.bytes == 5 * MIB - 100 && s.mapped == 5 * MIB &&
              s.key == 0);
    pp_pool_give(pool, block, 5 * MIB - 100);
    cr_expect_eq(take(pool, 5 * MIB, NULL), block);
    cr_expect_eq(s.fresh, 1, "a block that is used again lies where it lay");
    pp_pool_give(pool, block, 5 * MIB);
    pp_pool_destroy(pool);
}

Test(placement, blocks_go_back_to_their_home)
{
    seen s = {0};
    pp_pool *pool = pool_of(&s);
    void *a = take(pool, 2 * MIB, &one), *b = take(pool, 2 * MIB, &other), *c = take(pool, 2 * MIB, NULL);
    cr_expect_eq(s.fresh, 3);
    pp_pool_give(pool, a, 2 * MIB);
    pp_pool_give(pool, b, 2 * MIB);
    pp_pool_give(pool, c, 2 * MIB);
    cr_expect_eq(take(pool, 2 * MIB, &one), a);
    cr_expect_eq(take(pool, 2 * MIB, NULL), c);
    cr_expect_eq(take(pool, 2 * MIB, &other), b);
    cr_expect_eq(s.fresh, 3);
    pp_pool_give(pool, a, 2 * MIB);
    void *d = take(pool, 2 * MIB, &other);
    cr_expect(d != a && s.fresh == 4 && s.key == 12);
    pp_pool_give(pool, b, 2 * MIB);
    pp_pool_give(pool, c, 2 * MIB);
    pp_pool_give(pool, d, 2 * MIB);
    pp_pool_destroy(pool);
    cr_expect_eq(pp_heap_count().live, 0);
}

Test(placement, a_block_that_moves_has_a_new_home)
{
    seen s = {0};
    pp_pool *pool = pool_of(&s);
    void *a = take(pool, 2 * MIB, NULL);
    pp_pool_move(pool, a, 2 * MIB, &one);
    cr_expect(s.moved == 1 && s.block == a && s.key == 11);
    pp_pool_move(pool, a, 2 * MIB, &other);
    pp_pool_give(pool, a, 2 * MIB);
    void *b = take(pool, 2 * MIB, &one), *c = take(pool, 2 * MIB, &other);
    cr_expect(b != a && c == a);
    pp_pool_give(pool, b, 2 * MIB);
    pp_pool_give(pool, c, 2 * MIB);
    pp_pool_destroy(pool);
}

Test(placement, on_one_node_nothing_is_placed_and_all_blocks_are_alike)
{
    pp_pool *pool = pool_of(NULL);
    void *a = take(pool, 2 * MIB, &one);
    pp_pool_move(pool, a, 2 * MIB, &other);
    pp_pool_give(pool, a, 2 * MIB);
    cr_expect_eq(take(pool, 2 * MIB, NULL), a);
    pp_pool_give(pool, a, 2 * MIB);
    pp_pool_counters counters;
    pp_pool_count(pool, &counters);
    cr_expect(counters.maps == 1 && counters.takes == 2);
    pp_pool_destroy(pool);
}

Test(placement, counters_do_not_know_of_homes_and_memory_may_fail)
{
    seen s = {0};
    pp_pool *pool = pool_of(&s);
    pp_pool_counters counters;
    for (uint64_t at = 1;; at++) {
        void *block;
        pp_heap_fail_at(at, false);
        ppto_status status = pp_pool_take_placed(pool, 2 * MIB, &one, NULL, &block, NULL);
        pp_heap_fail_at(0, false);
        if (status != PPTO_OK) continue;
        pp_pool_give(pool, block, 2 * MIB);
        if (at > 4) break;
    }
    pp_pool_count(pool, &counters);
    cr_expect_eq(counters.current_bytes, 0u);
    pp_pool_trim(pool);
    pp_pool_count(pool, &counters);
    cr_expect_eq(counters.held_bytes, 0u);
    pp_pool_destroy(pool);
}
