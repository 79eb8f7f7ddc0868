/* SPDX-License-Identifier: Apache-2.0
 * The pool held to its contract: alignment, counters, reuse of warm blocks, limit, trim, poison, threads. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "memory/poison.h"
#include "memory/pool.h"

static pp_pool *make(void)
{
    pp_pool *pool;
    cr_assert_eq(pp_pool_create(&pool), PPTO_OK);
    return pool;
}

static void *take(pp_pool *pool, size_t bytes)
{
    void *block;
    cr_assert_eq(pp_pool_take(pool, bytes, &block, NULL), PPTO_OK);
    return block;
}

static pp_pool_counters count(pp_pool *pool)
{
    pp_pool_counters counters;
    pp_pool_count(pool, &counters);
    return counters;
}

Test(memory_pool, blocks_are_aligned_and_usable)
{
    static const size_t sizes[] = {
        0, 1, 63, 64, 65, 1000, 100000, 1 << 20, (1 << 20) + 1, 3 << 20, (64 << 20) + 5};
    pp_pool *pool = make();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = take(pool, sizes[i]);
        cr_expect_eq((uintptr_t)block % 64, 0, "%zu bytes", sizes[i]);
        memset(block, 1, sizes[i]);
        pp_pool_counters counters = count(pool);
        cr_expect_eq(counters.current_bytes, sizes[i]);
        cr_expect_geq(counters.held_bytes, sizes[i]);
        pp_pool_give(pool, block, sizes[i]);
        cr_expect_eq(count(pool).current_bytes, 0);
    }
    pp_pool_give(pool, NULL, 10);
    pp_pool_destroy(pool);
    pp_pool_destroy(NULL);
}

Test(memory_pool, waste_is_at_most_an_eighth)
{
    pp_pool *pool = make();
    for (size_t bytes = 512; bytes < (8 << 20); bytes += bytes / 7 + 1) {
        void *block = take(pool, bytes);
        cr_expect_leq(count(pool).held_bytes, bytes + bytes / 8 + 64, "%zu bytes", bytes);
        pp_pool_give(pool, block, bytes);
        pp_pool_trim(pool);
    }
    pp_pool_destroy(pool);
}

Test(memory_pool, same_sizes_come_back_without_the_system)
{
    static const size_t sizes[] = {100, 5000, 3 << 20, 40 << 20};
    pp_pool *pool = make();
    void *blocks[4];
    for (int run = 0; run < 3; run++) {
        for (int i = 0; i < 4; i++) blocks[i] = take(pool, sizes[i]);
        for (int i = 0; i < 4; i++) pp_pool_give(pool, blocks[i], sizes[i]);
    }
    cr_expect_eq(count(pool).maps, 4);
    cr_expect_eq(count(pool).takes, 12);
    pp_pool_destroy(pool);
}

Test(memory_pool, other_sizes_do_not_pile_up)
{
    pp_pool *pool = make();
    for (size_t mib = 70; mib < 400; mib += 30) pp_pool_give(pool, take(pool, mib << 20), mib << 20);
    cr_expect_leq(count(pool).held_bytes, (uint64_t)512 << 20);
    pp_pool_trim(pool);
    cr_expect_eq(count(pool).held_bytes, 0);
    pp_pool_destroy(pool);
}

Test(memory_pool, peak_is_the_most_since_the_reset)
{
    pp_pool *pool = make();
    void *a = take(pool, 1000), *b = take(pool, 3000);
    pp_pool_give(pool, a, 1000);
    cr_expect_eq(count(pool).peak_bytes, 4000);
    pp_pool_reset_peak(pool);
    cr_expect_eq(count(pool).peak_bytes, 3000);
    pp_pool_give(pool, b, 3000);
    cr_expect_eq(count(pool).peak_bytes, 3000);
    pp_pool_destroy(pool);
}

Test(memory_pool, limit_refuses_with_the_sizes)
{
    pp_pool *pool = make();
    pp_error err = {0};
    void *a = take(pool, 600), *b = &err;
    pp_pool_set_limit(pool, 1000);
    cr_expect_eq(pp_pool_get_limit(pool), 1000);
    cr_expect_eq(pp_pool_take(pool, 401, &b, &err), PPTO_E_LIMIT);
    cr_expect_null(b);
    cr_expect(strstr(err.text, "401") && strstr(err.text, "600") && strstr(err.text, "1000"), "%s", err.text);
    b = take(pool, 400);
    pp_pool_give(pool, a, 600);
    pp_pool_give(pool, b, 400);
    pp_pool_destroy(pool);
}

Test(memory_pool, no_memory_is_a_status)
{
    pp_pool *pool = make();
    pp_error err = {0};
    void *block;
    cr_expect_eq(pp_pool_take(pool, SIZE_MAX, &block, &err), PPTO_E_NOMEM);
    cr_expect_null(block);
    cr_expect_eq(pp_pool_take(pool, (size_t)1 << 60, &block, NULL), PPTO_E_NOMEM);
    pp_heap_fail_at(1, false);
    cr_expect_eq(pp_pool_take(pool, 100, &block, NULL), PPTO_E_NOMEM);
    cr_expect_eq(count(pool).current_bytes, 0);
    pp_heap_fail_at(1, false);
    pp_pool *none;
    cr_expect_eq(pp_pool_create(&none), PPTO_E_NOMEM);
    cr_expect_null(none);
    pp_pool_destroy(pool);
}

Test(memory_pool, poison_fills_fresh_and_freed)
{
    pp_pool *pool = make();
    pp_pool_poison(pool, true);
    for (int i = 0; i < 2; i++) {
        unsigned char *block = take(pool, 1000);
        for (int k = 0; k < 1000; k++) cr_assert_eq(block[k], 0xff);
        memset(block, 0, 1000);
        pp_pool_give(pool, block, 1000);
    }
    pp_pool_destroy(pool);
}

#ifdef PP_HAS_ASAN
Test(memory_pool, asan_sees_what_may_be_touched)
{
    static const size_t sizes[] = {1000, 3 << 20};
    pp_pool *pool = make();
    for (int i = 0; i < 2; i++) {
        char *block = take(pool, sizes[i]);
        cr_expect_not(__asan_address_is_poisoned(block + sizes[i] - 1));
        cr_expect_eq(i != 0 || __asan_address_is_poisoned(block + sizes[i]), 1, "behind the end");
        pp_pool_give(pool, block, sizes[i]);
        cr_expect(__asan_address_is_poisoned(block + sizes[i] / 2), "after the release");
        cr_expect_eq(take(pool, sizes[i]), block);
        cr_expect_not(__asan_address_is_poisoned(block + sizes[i] / 2));
        pp_pool_give(pool, block, sizes[i]);
    }
    pp_pool_destroy(pool);
}
#endif

static void *churn(void *arg)
{
    uint64_t state = (uintptr_t)&state;
    for (int i = 0; i < 2000; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        size_t bytes = (size_t)1 << (state >> 59);
        if (bytes > (4 << 20)) bytes = 4 << 20;
        void *block;
        if (pp_pool_take(arg, bytes, &block, NULL) != PPTO_OK) return arg;
        memset(block, 3, bytes < 64 ? bytes : 64);
        pp_pool_give(arg, block, bytes);
        if (i % 100 == 0) pp_pool_trim(arg);
    }
    return NULL;
}

Test(memory_pool, threads_share_it)
{
    pp_pool *pool = make();
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) cr_assert_eq(pthread_create(&threads[i], NULL, churn, pool), 0);
    for (int i = 0; i < 3; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        cr_expect_null(failed);
    }
    cr_expect_eq(count(pool).current_bytes, 0);
    pp_pool_trim(pool);
    cr_expect_eq(count(pool).held_bytes, 0);
    pp_pool_destroy(pool);
    cr_expect_eq(pp_heap_count().live, 0);
}

Test(memory_pool, a_block_for_a_file_lies_as_it_is_to)
{
    static const size_t leads[] = {0, 64, 128, 4032};
    enum { BYTES = (1 << 20) + 192 };
    pp_pool *pool = make();
    for (size_t i = 0; i < sizeof leads / sizeof *leads; i++) {
        void *data;
        cr_assert_eq(pp_pool_take_led(pool, BYTES, leads[i], NULL, &data, NULL), PPTO_OK);
        cr_expect_eq((uintptr_t)data % PP_POOL_PAGE, leads[i]);
        memset((char *)data - leads[i], 1,
               (leads[i] + BYTES + PP_POOL_PAGE - 1) / PP_POOL_PAGE * PP_POOL_PAGE);
        cr_expect_eq(count(pool).current_bytes, BYTES, "the lead is not counted");
        pp_pool_give(pool, data, BYTES);
        cr_expect_eq(count(pool).current_bytes, 0);
    }
    cr_expect_eq(count(pool).maps, 1, "the same block served all");
    pp_pool_destroy(pool);
}

Test(memory_pool, a_lead_of_a_small_block_is_a_wish)
{
    pp_pool *pool = make();
    void *data;
    cr_assert_eq(pp_pool_take_led(pool, 1000, 128, NULL, &data, NULL), PPTO_OK);
    memset(data, 1, 1000);
    pp_pool_give(pool, data, 1000);
    cr_assert_eq(pp_pool_take_led(pool, SIZE_MAX, 128, NULL, &data, NULL), PPTO_E_NOMEM);
    pp_pool_destroy(pool);
}
