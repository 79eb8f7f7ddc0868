/* SPDX-License-Identifier: Apache-2.0
 * Symbolic sizes: normal form, text, order, division, evaluation, failure. Random expressions are evaluated
 * twice, by the table and by hand, and no simplification may change a value or a decided comparison. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <string.h>

#include "ops/size.h"

static pp_sizes *table;
static pp_size n, m, k;

static void set_up(void)
{
    cr_assert_eq(pp_sizes_create(&table), PPTO_OK);
    n = pp_size_name(table, "N", 1);
    m = pp_size_name(table, "M", 1);
    k = pp_size_name(table, "K", 1);
}

static void tear_down(void)
{
    cr_expect_eq(pp_sizes_status(table), PPTO_OK);
    pp_sizes_destroy(table);
}

TestSuite(ops_size, .init = set_up, .fini = tear_down);

static pp_size num(int64_t value)
{
    return pp_size_const(table, value);
}

static pp_size add(pp_size a, pp_size b)
{
    return pp_size_add(table, a, b);
}

static pp_size sub(pp_size a, pp_size b)
{
    return pp_size_sub(table, a, b);
}

static pp_size mul(pp_size a, pp_size b)
{
    return pp_size_mul(table, a, b);
}

static pp_size divide(pp_size a, pp_size b)
{
    return pp_size_floordiv(table, a, b);
}

static void expect_text(pp_size a, const char *want)
{
    pp_text text = {0};
    pp_size_print(table, a, &text);
    cr_expect_str_eq(text.at, want, "%s, not %s", text.at, want);
    pp_text_free(&text);
}

Test(ops_size, constants_have_their_ids)
{
    cr_expect_eq(num(0), PP_SIZE_0);
    cr_expect_eq(num(1), PP_SIZE_1);
    cr_expect_eq(add(num(3), num(4)), num(7));
    cr_expect_eq(sub(n, n), PP_SIZE_0);
    cr_expect_eq(mul(n, PP_SIZE_0), PP_SIZE_0);
    cr_expect_eq(pp_size_name(table, "N", 1), n);
    int64_t value;
    cr_expect(pp_size_known(table, num(-5), &value) && value == -5);
    cr_expect_not(pp_size_known(table, n, &value));
}

Test(ops_size, different_ways_of_writing_meet)
{
    cr_expect_eq(mul(add(n, m), add(n, m)), add(add(mul(n, n), mul(num(2), mul(m, n))), mul(m, m)));
    cr_expect_eq(sub(add(n, num(3)), num(3)), n);
    cr_expect_eq(mul(mul(n, m), k), mul(k, mul(m, n)));
    cr_expect_eq(pp_size_max(table, n, m), pp_size_max(table, m, n));
    cr_expect_eq(divide(add(n, num(5)), num(4)), add(divide(add(n, num(1)), num(4)), num(1)));
    cr_expect_eq(divide(divide(n, num(2)), num(3)), divide(n, num(6)));
    cr_expect_eq(divide(mul(n, num(2)), num(4)), divide(n, num(2)));
    cr_expect_eq(divide(add(mul(n, num(2)), num(1)), num(4)), divide(n, num(2)));
}

Test(ops_size, text_reads_like_arithmetic)
{
    expect_text(PP_SIZE_0, "0");
    expect_text(add(mul(n, num(512)), num(1)), "N*512 + 1");
    expect_text(sub(n, num(2)), "N - 2");
    expect_text(sub(num(2), n), "2 - N");
    expect_text(sub(PP_SIZE_0, mul(n, num(2))), "-N*2");
    expect_text(sub(add(mul(n, m), num(3)), k), "N*M + 3 - K");
    expect_text(mul(n, n), "N*N");
    expect_text(pp_size_max(table, sub(n, num(2)), PP_SIZE_0), "max(N - 2, 0)");
    expect_text(pp_size_max(table, PP_SIZE_0, sub(n, num(2))), "max(N - 2, 0)");
    expect_text(pp_size_max(table, n, num(2)), "max(N, 2)");
    expect_text(pp_size_min(table, n, num(4)), "min(N, 4)");
    expect_text(pp_size_min(table, n, m), "min(N, M)");
    expect_text(pp_size_max(table, m, n), "max(N, M)");
    expect_text(add(k, pp_size_max(table, sub(n, num(1)), PP_SIZE_0)), "K + max(N - 1, 0)");
    expect_text(divide(add(n, num(1)), num(2)), "floor((N + 1) / 2)");
    expect_text(divide(n, m), "floor(N / M)");
    expect_text(divide(k, mul(n, m)), "floor(K / (N*M))");
    expect_text(num(INT64_MIN), "-9223372036854775808");
}

Test(ops_size, division_that_comes_out_is_simplified)
{
    cr_expect_eq(divide(mul(n, num(6)), num(3)), mul(n, num(2)));
    cr_expect_eq(divide(mul(n, m), m), n);
    cr_expect_eq(divide(sub(mul(n, n), mul(m, m)), sub(n, m)), add(n, m));
    cr_expect_eq(divide(sub(mul(n, n), mul(m, m)), sub(m, n)), sub(PP_SIZE_0, add(n, m)));
    cr_expect_eq(divide(mul(n, k), mul(m, k)), divide(n, m));
    cr_expect_eq(divide(mul(n, num(4)), mul(m, num(6))), divide(mul(n, num(2)), mul(m, num(3))));
    cr_expect_eq(divide(num(-7), num(2)), num(-4));
    cr_expect_eq(divide(num(7), num(-2)), num(-4));
    cr_expect_eq(pp_size_mod(table, num(-7), num(2)), num(1));
    cr_expect_eq(pp_size_mod(table, mul(n, num(4)), num(2)), PP_SIZE_0);
    cr_expect_eq(pp_size_mod(table, mul(n, m), n), PP_SIZE_0);
}

Test(ops_size, order_is_decided_where_it_can_be)
{
    pp_size half = divide(n, num(2)), up = divide(add(n, num(1)), num(2)),
            low = pp_size_max(table, sub(n, num(2)), PP_SIZE_0);
    cr_expect_eq(pp_size_is_le(table, num(2), num(3)), 1);
    cr_expect_eq(pp_size_is_le(table, num(3), num(2)), 0);
    cr_expect_eq(pp_size_is_le(table, PP_SIZE_0, n), 1);
    cr_expect_eq(pp_size_is_le(table, PP_SIZE_1, n), -1);
    cr_expect_eq(pp_size_is_le(table, n, m), -1);
    cr_expect_eq(pp_size_is_le(table, n, add(n, m)), 1);
    cr_expect_eq(pp_size_is_le(table, add(n, PP_SIZE_1), n), 0);
    cr_expect_eq(pp_size_is_le(table, half, n), 1);
    cr_expect_eq(pp_size_is_le(table, up, add(half, PP_SIZE_1)), 1);
    cr_expect_eq(pp_size_is_le(table, half, up), 1);
    cr_expect_eq(pp_size_is_le(table, add(half, up), n), 1);
    cr_expect_eq(pp_size_is_le(table, mul(half, num(2)), n), 1);
    cr_expect_eq(pp_size_is_le(table, low, n), 1);
    cr_expect_eq(pp_size_is_le(table, sub(n, num(2)), low), 1);
    cr_expect_eq(pp_size_is_le(table, pp_size_min(table, n, m), m), 1);
    cr_expect_eq(pp_size_is_le(table, add(pp_size_max(table, n, m), num(1)), n), 0);
    cr_expect_eq(pp_size_max(table, n, add(n, PP_SIZE_1)), add(n, PP_SIZE_1));
    cr_expect_eq(pp_size_min(table, n, low), low);
}

/* What slices of slices make of a size stays short however often they are taken. */
Test(ops_size, repeated_clamps_are_one)
{
    pp_size down = n, half = n, turned = n;
    for (int i = 0; i < 1000; i++) {
        down = pp_size_max(table, sub(pp_size_max(table, down, PP_SIZE_1), num(1)), PP_SIZE_0);
        half = divide(add(half, num(1)), num(2));
        turned = add(pp_size_max(table, sub(turned, num(2)), PP_SIZE_0), pp_size_min(table, turned, num(2)));
    }
    expect_text(down, "max(N - 1000, 0)");
    expect_text(half, "min(N, 1)");
    cr_expect_eq(turned, n);
    cr_expect_eq(pp_size_max(table, sub(mul(num(3), down), num(6)), PP_SIZE_0),
                 pp_size_max(table, sub(mul(num(3), n), num(3006)), PP_SIZE_0));
    cr_expect_eq(add(pp_size_max(table, n, m), pp_size_min(table, m, n)), add(n, m));
}

Test(ops_size, names_keep_their_order)
{
    size_t index;
    cr_expect_eq(pp_sizes_names(table), 3);
    cr_expect_str_eq(pp_sizes_name_at(table, 1), "M");
    cr_expect(pp_size_as_name(table, k, &index) && index == 2);
    cr_expect_not(pp_size_as_name(table, mul(k, num(2)), &index));
    cr_expect_not(pp_size_as_name(table, pp_size_max(table, n, m), &index));
    cr_expect_not(pp_size_as_name(table, PP_SIZE_1, &index));
}

Test(ops_size, evaluation_reports_overflow_and_division_by_zero)
{
    const int64_t big[3] = {INT64_MAX, 2, 0};
    int64_t value = 0;
    cr_expect_eq(pp_size_eval(table, mul(n, m), big, &value), PPTO_E_SIZE);
    cr_expect_eq(pp_size_eval(table, add(n, PP_SIZE_1), big, &value), PPTO_E_SIZE);
    cr_expect_eq(pp_size_eval(table, divide(n, k), big, &value), PPTO_E_VALUE);
    cr_expect_eq(pp_size_eval(table, divide(n, num(0)), big, &value), PPTO_E_VALUE);
    cr_expect_eq(pp_size_eval(table, divide(n, m), big, &value), PPTO_OK);
    cr_expect_eq(value, INT64_MAX / 2);
}

/* ---- random expressions ---------------------------------------------------------------------- */

static uint64_t state = 88172645463325252u;

static uint64_t random_below(uint64_t bound)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (state >> 11) % bound;
}

enum { TRIES = 6 };
static int64_t names[TRIES][3];

/* An expression with its values for each try, computed by hand. */
typedef struct expression {
    pp_size size;
    int64_t value[TRIES];
} expression;

static int64_t floor_of(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q * b > a ? q - 1 : q; /* b > 0 */
}

static expression random_expression(int depth)
{
    expression out;
    uint64_t kind = depth == 0 ? random_below(2) : 2 + random_below(7);
    int64_t number = (int64_t)random_below(9) - 2;
    size_t name = random_below(3);
    if (kind < 2) {
        out.size = kind == 0 ? (name == 0 ? n : name == 1 ? m : k) : num(number);
        for (int i = 0; i < TRIES; i++) out.value[i] = kind == 0 ? names[i][name] : number;
        return out;
    }
    expression a = random_expression(depth - 1), b = random_expression(depth - 1);
    int64_t c = 1 + (int64_t)random_below(6);
    for (int i = 0; i < TRIES; i++) {
        int64_t x = a.value[i], y = b.value[i];
        int64_t results[9] = {
            0, 0, x + y, x - y, x * y, floor_of(x, c), x - floor_of(x, c) * c, x > y ? x : y, x < y ? x : y};
        out.value[i] = results[kind];
    }
    if (kind == 2) out.size = add(a.size, b.size);
    if (kind == 3) out.size = sub(a.size, b.size);
    if (kind == 4) out.size = mul(a.size, b.size);
    if (kind == 5) out.size = divide(a.size, num(c));
    if (kind == 6) out.size = pp_size_mod(table, a.size, num(c));
    if (kind == 7) out.size = pp_size_max(table, a.size, b.size);
    if (kind == 8) out.size = pp_size_min(table, a.size, b.size);
    return out;
}

Test(ops_size, simplification_never_changes_a_value)
{
    for (int i = 0; i < TRIES; i++) {
        for (int j = 0; j < 3; j++) names[i][j] = i == 0 ? 0 : i == 1 ? j : (int64_t)random_below(20);
    }
    for (int round = 0; round < 3000; round++) {
        expression a = random_expression((int)random_below(4)), b = random_expression((int)random_below(3));
        int order = pp_size_is_le(table, a.size, b.size);
        for (int i = 0; i < TRIES; i++) {
            int64_t value = 0;
            pp_text text = {0};
            pp_size_print(table, a.size, &text);
            cr_expect_eq(pp_size_eval(table, a.size, names[i], &value), PPTO_OK);
            cr_expect_eq(value, a.value[i], "%s is %" PRId64 ", not %" PRId64, text.at, value, a.value[i]);
            cr_expect(order < 0 || order == (a.value[i] <= b.value[i]), "%s: order %d", text.at, order);
            cr_expect(a.size != b.size || a.value[i] == b.value[i]);
            pp_text_free(&text);
        }
    }
}

Test(ops_size, exact_division_never_changes_a_value)
{
    const int64_t at[3] = {7, 4, 3};
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < TRIES; i++) memcpy(names[i], at, sizeof at);
        expression a = random_expression(2), b = random_expression(1);
        if (b.value[0] == 0) continue;
        int64_t value = 0,
                want = b.value[0] > 0 ? floor_of(a.value[0], b.value[0]) : floor_of(-a.value[0], -b.value[0]);
        cr_expect_eq(pp_size_eval(table, divide(a.size, b.size), at, &value), PPTO_OK);
        cr_expect_eq(value, want);
        value = 0;
        cr_expect_eq(pp_size_eval(table, divide(mul(a.size, b.size), b.size), at, &value), PPTO_OK);
        cr_expect_eq(value, a.value[0]);
    }
}

/* ---- failure --------------------------------------------------------------------------------- */

Test(ops_size_failure, overflow_makes_the_table_fail_for_good)
{
    pp_sizes *t;
    cr_assert_eq(pp_sizes_create(&t), PPTO_OK);
    pp_size big = pp_size_const(t, INT64_MAX), name = pp_size_name(t, "N", 1);
    cr_expect_eq(pp_size_is_le(t, pp_size_const(t, INT64_MIN), name), -1); /* the difference overflows */
    cr_expect_eq(pp_sizes_status(t), PPTO_OK);
    cr_expect_eq(pp_size_mul(t, big, pp_size_const(t, 2)), PP_SIZE_0);
    cr_expect_eq(pp_sizes_status(t), PPTO_E_SIZE);
    cr_expect_eq(pp_size_add(t, name, name), PP_SIZE_0);
    pp_sizes_destroy(t);
}

Test(ops_size_failure, what_grows_without_end_is_refused)
{
    pp_sizes *t;
    cr_assert_eq(pp_sizes_create(&t), PPTO_OK);
    pp_size x = pp_size_name(t, "N", 1), y = pp_size_name(t, "M", 1);
    for (int i = 0; i < 100; i++)
        x = pp_size_max(t, pp_size_sub(t, pp_size_mul(t, x, y), pp_size_const(t, i)), y);
    cr_expect_eq(pp_sizes_status(t), PPTO_E_LIMIT);
    pp_sizes_destroy(t);
    cr_assert_eq(pp_sizes_create(&t), PPTO_OK);
    x = pp_size_add(t, pp_size_name(t, "N", 1), PP_SIZE_1);
    for (int i = 0; i < 10; i++) x = pp_size_mul(t, x, x);
    cr_expect_neq(pp_sizes_status(t), PPTO_OK);
    pp_sizes_destroy(t);
}

Test(ops_size_failure, every_failed_allocation_is_survived)
{
    int64_t live = pp_heap_count().live;
    bool reached_end = false;
    for (uint64_t fail = 1; fail < 500 && !reached_end; fail++) {
        pp_sizes *t;
        pp_heap_fail_at(fail, false);
        ppto_status status = pp_sizes_create(&t);
        if (status == PPTO_OK) {
            pp_size a = pp_size_name(t, "N", 1), b = pp_size_name(t, "M", 1);
            pp_size c = pp_size_floordiv(t, pp_size_mul(t, pp_size_add(t, a, b), a), pp_size_sub(t, a, b));
            pp_size_max(t, c, pp_size_mod(t, b, pp_size_const(t, 3)));
            status = pp_sizes_status(t);
        }
        cr_expect(status == PPTO_OK || status == PPTO_E_NOMEM);
        pp_sizes_destroy(t);
        reached_end = status == PPTO_OK;
        cr_expect_eq(pp_heap_count().live, live);
    }
    pp_heap_fail_at(0, false);
    cr_expect(reached_end);
}
