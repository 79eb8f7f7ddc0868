/* SPDX-License-Identifier: Apache-2.0
 * src/base: each section of base.h held to its contract. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/base.h"
#include "base/checked.h"

Test(base_status, names_and_texts_of_all)
{
    cr_expect_str_eq(ppto_status_name(PPTO_OK), "PPTO_OK");
    cr_expect_str_eq(ppto_status_name(PPTO_E_SYNTAX), "PPTO_E_SYNTAX");
    cr_expect_str_eq(ppto_status_text(PPTO_E_NOMEM), "out of memory");
    cr_expect_not_null(ppto_status_name((ppto_status)-999));
    cr_expect_not_null(ppto_status_text((ppto_status)5));
}

Test(base_status, first_failure_wins)
{
    pp_error err = {0};
    cr_expect_eq(pp_fail(&err, PPTO_E_SHAPE, "axis %d", 3), PPTO_E_SHAPE);
    cr_expect_eq(pp_fail(&err, PPTO_E_IO, "later"), PPTO_E_IO);
    cr_expect_eq(err.code, PPTO_E_SHAPE);
    cr_expect_str_eq(err.text, "axis 3");
    pp_error_clear(&err);
    cr_expect_eq(err.code, PPTO_OK);
    cr_expect_eq(pp_fail(NULL, PPTO_E_NAME, "nowhere"), PPTO_E_NAME);
}

Test(base_status, long_text_is_cut)
{
    pp_error err = {0};
    (void)pp_fail(&err, PPTO_E_VALUE, "%5000d", 1);
    cr_expect_eq(strlen(err.text), sizeof err.text - 1);
}

Test(base_heap, counts_live_blocks)
{
    pp_heap_counters before = pp_heap_count();
    void *a = pp_alloc(0), *b = pp_calloc(3, 5), *c = pp_alloc_aligned(4096, 10);
    cr_assert(a != NULL && b != NULL && c != NULL);
    cr_expect_eq((uintptr_t)c % 4096, 0);
    b = pp_realloc(b, 1000);
    cr_expect_eq(pp_heap_count().live, before.live + 3);
    pp_free(a), pp_free(b), pp_free(c), pp_free(NULL);
    cr_expect_eq(pp_heap_count().live, before.live);
}

Test(base_heap, fails_at_the_nth_once_or_for_good)
{
    pp_heap_fail_at(2, false);
    void *a = pp_alloc(1), *b = pp_alloc(1), *c = pp_alloc(1);
    cr_expect(a != NULL && b == NULL && c != NULL);
    pp_heap_fail_at(1, true);
    cr_expect_null(pp_calloc(1, 1));
    cr_expect_null(pp_realloc(a, 100));
    cr_expect_null(pp_strdup("x"));
    pp_heap_fail_at(0, false);
    char *d = pp_strdup("x");
    cr_expect_str_eq(d, "x");
    pp_free(a), pp_free(c), pp_free(d);
}

Test(base_heap, calloc_refuses_overflow)
{
    volatile size_t huge = SIZE_MAX / 2;
    cr_expect_null(pp_calloc(huge, 3));
}

Test(base_heap, poison_fills_fresh_blocks)
{
    pp_heap_poison(true);
    unsigned char *a = pp_alloc(64), *z = pp_calloc(1, 64);
    for (int i = 0; i < 64; i++) cr_expect(a[i] != 0 && z[i] == 0);
    pp_free(a), pp_free(z);
    pp_heap_poison(false);
}

Test(base_checked, reports_overflow)
{
    size_t s;
    int64_t i;
    cr_expect(pp_add_size(1, 2, &s) && s == 3);
    cr_expect_not(pp_add_size(SIZE_MAX, 1, &s));
    cr_expect_not(pp_mul_size(SIZE_MAX, 2, &s));
    cr_expect(pp_align_size(17, 16, &s) && s == 32);
    cr_expect_not(pp_align_size(SIZE_MAX - 3, 16, &s));
    cr_expect_not(pp_mul_i64(INT64_MIN, -1, &i));
    cr_expect_not(pp_sub_i64(INT64_MIN, 1, &i));
    cr_expect_not(pp_add_i64(INT64_MAX, 1, &i));
}

Test(base_vec, grows_and_keeps)
{
    PP_VEC(int) v = {0};
    for (int i = 0; i < 1000; i++) cr_assert_eq(pp_vec_push(&v, i), PPTO_OK);
    for (int i = 0; i < 1000; i++) cr_expect_eq(v.at[i], i);
    cr_expect_eq(pp_vec_reserve(&v, SIZE_MAX / 2), PPTO_E_NOMEM);
    cr_expect_eq(v.n, 1000);
    pp_vec_free(&v);
    cr_expect_null(v.at);
}

Test(base_vec, survives_a_failed_push)
{
    PP_VEC(int) v = {0};
    pp_heap_fail_at(1, true);
    cr_expect_eq(pp_vec_push(&v, 1), PPTO_E_NOMEM);
    pp_heap_fail_at(0, false);
    cr_expect_eq(v.n, 0);
}

Test(base_arena, gives_zeroed_aligned_separate_memory)
{
    pp_heap_counters before = pp_heap_count();
    pp_heap_poison(true);
    pp_arena arena = {0};
    for (size_t i = 0; i < 3000; i++) {
        size_t bytes = i % 97 == 0 ? 100000 : i % 50;
        unsigned char *at = pp_arena_alloc(&arena, bytes);
        cr_assert(at != NULL && (uintptr_t)at % 16 == 0);
        for (size_t k = 0; k < bytes; k++) cr_assert_eq(at[k], 0);
        memset(at, 0xff, bytes);
    }
    cr_expect_str_eq(pp_arena_strndup(&arena, "hello world", 5), "hello");
    cr_expect_str_eq((char *)pp_arena_copy(&arena, "hello", 6), "hello");
    cr_expect_not_null(pp_arena_copy(&arena, NULL, 0));
    cr_expect_null(pp_arena_alloc(&arena, SIZE_MAX - 4));
    pp_arena_free(&arena);
    cr_expect_eq(pp_heap_count().live, before.live);
}

static bool same(const void *context, uint32_t value)
{
    return *(const uint32_t *)context == value;
}

Test(base_map, finds_what_was_inserted)
{
    pp_map map = {0};
    uint32_t found = 0;
    cr_expect_not(pp_map_find(&map, 7, NULL, NULL, &found));
    for (uint32_t i = 0; i < 5000; i++) cr_assert_eq(pp_map_insert(&map, i, i), PPTO_OK);
    for (uint32_t i = 2; i < 5000; i++)
        cr_expect(pp_map_find(&map, i, NULL, NULL, &found) && found == i, "hash %u", i);
    cr_expect_not(pp_map_find(&map, 5000, NULL, NULL, &found));
    pp_map_free(&map);
}

Test(base_map, asks_the_caller_about_equal_hashes_in_order)
{
    pp_map map = {0};
    uint32_t found = 0;
    for (uint32_t i = 0; i < 500; i++) cr_assert_eq(pp_map_insert(&map, 0, i), PPTO_OK);
    for (uint32_t i = 0; i < 500; i++) cr_expect(pp_map_find(&map, 0, same, &i, &found) && found == i);
    cr_expect(pp_map_find(&map, 0, NULL, NULL, &found) && found == 0);
    pp_map_free(&map);
}

Test(base_map, a_failed_growth_keeps_the_map)
{
    pp_map map = {0};
    uint32_t found;
    for (uint32_t i = 0; i < 10; i++) cr_assert_eq(pp_map_insert(&map, i + 100, i), PPTO_OK);
    for (uint64_t n = 1; n <= 2; n++) {
        pp_heap_fail_at(n, false);
        cr_expect_eq(pp_map_insert(&map, 999, 1), PPTO_E_NOMEM);
    }
    pp_heap_fail_at(0, false);
    cr_expect(pp_map_find(&map, 109, NULL, NULL, &found) && found == 9);
    pp_map_free(&map);
}

Test(base_map, hash_depends_on_every_byte_length_and_seed)
{
    unsigned char bytes[40] = {0};
    uint64_t plain = pp_hash_bytes(bytes, sizeof bytes, 0);
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = 1;
        cr_expect_neq(pp_hash_bytes(bytes, sizeof bytes, 0), plain);
        bytes[i] = 0;
    }
    cr_expect_neq(pp_hash_bytes(bytes, 39, 0), plain);
    cr_expect_neq(pp_hash_bytes(bytes, 40, 1), plain);
}

Test(base_text, appends_and_grows)
{
    pp_text text = {0};
    for (int i = 0; i < 100; i++) pp_text_add(&text, "%d,", i);
    cr_assert_not(text.failed);
    cr_expect_eq(text.n, strlen(text.at));
    cr_expect_eq(strncmp(text.at, "0,1,2,", 6), 0);
    pp_text_free(&text);
}

Test(base_text, fails_softly)
{
    pp_text text = {0};
    pp_text_add(&text, "kept");
    pp_heap_fail_at(1, true);
    pp_text_add(&text, "%200d", 1);
    pp_heap_fail_at(0, false);
    pp_text_add(&text, "dropped");
    cr_expect(text.failed);
    cr_expect_str_eq(text.at, "kept");
    pp_text_free(&text);
}

Test(base_text, json_is_escaped_and_valid)
{
    pp_text text = {0};
    pp_text_json(&text, "a\"\\\n\x01\xc3\xa9\xff\xed\xa0\x80\xe2\x82");
    cr_expect_str_eq(text.at, "\"a\\\"\\\\\\n\\u0001\xc3\xa9\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
    pp_text_free(&text);
}

Test(base_text, distance_is_of_single_edits)
{
    cr_expect_eq(pp_text_distance("", ""), 0);
    cr_expect_eq(pp_text_distance("softmax", "sofmax"), 1);
    cr_expect_eq(pp_text_distance("kitten", "sitting"), 3);
    cr_expect_eq(pp_text_distance("", "abc"), 3);
    cr_expect_eq(pp_text_distance("sni", "sin"), 1, "two swapped");
    cr_expect_eq(pp_text_distance("ab", "ba"), 1);
    cr_expect_eq(pp_text_distance("ca", "abc"), 3);
}

Test(base_text, nearest_is_near_and_alike_at_the_ends_in_any_order)
{
    static const char *const names[] = {"sinh", "sign", "cos", "sin"};
    enum { N = sizeof names / sizeof *names };
    pp_nearest forward = {.to = "sinn"}, backward = {.to = "sinn"}, none = {.to = "x"};
    for (size_t i = 0; i < N; i++) {
        pp_text_nearer(&forward, names[i]);
        pp_text_nearer(&backward, names[N - 1 - i]);
        pp_text_nearer(&none, names[i]);
    }
    cr_expect_str_eq(forward.name, "sin", "begins and ends like it");
    cr_expect_str_eq(backward.name, "sin");
    cr_expect_null(none.name);
}

Test(base_text, nearest_is_what_begins_with_the_word)
{
    static const char *const names[] = {"sqrt", "sort", "softmax", "log_softmax"};
    pp_nearest soft = {.to = "soft"}, so = {.to = "so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        pp_text_nearer(&soft, names[i]);
        pp_text_nearer(&so, names[i]);
    }
    cr_expect_str_eq(soft.name, "softmax", "not sort, which is one letter away");
    cr_expect_null(so.name, "two letters say little");
}

static void keep_line(void *arg, int level, const char *line)
{
    pp_text_add(arg, "%d:%s;", level, line);
}

Test(base_log, drops_above_the_level_and_cuts_long_lines)
{
    pp_text text = {0};
    pp_log log = {.fn = keep_line, .arg = &text, .level = 1};
    pp_log_line(&log, 1, "a%d", 1);
    pp_log_line(&log, 2, "b");
    cr_expect_str_eq(text.at, "1:a1;");
    pp_log_line(&log, 0, "%9000d", 1);
    cr_expect_str_eq(text.at + text.n - 4, "...;");
    pp_log_line(NULL, 0, "nowhere");
    pp_text_free(&text);
}

Test(base_clock, does_not_go_back)
{
    int64_t last = pp_clock_ns();
    cr_expect_gt(last, 0);
    for (int i = 0; i < 1000; i++) {
        int64_t now = pp_clock_ns();
        cr_expect_geq(now, last);
        last = now;
    }
}

Test(base_text, what_is_no_utf8_is_replaced)
{
    pp_text text = {0};
    cr_expect(pp_text_is_utf8("caf\xc3\xa9") && pp_text_is_utf8("") && !pp_text_is_utf8("caf\xe9") &&
              !pp_text_is_utf8("\xc3"));
    pp_text_utf8(&text, "a\xe9z\xc3\xa9\xed\xa0\x80");
    cr_expect_str_eq(text.at, "a\xef\xbf\xbdz\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    pp_text_free(&text);
}
