/* SPDX-License-Identifier: Apache-2.0
 * devices/cpu/functions_order: which folds with a position are proved to pick the first of a total order. */
#define _GNU_SOURCE
#include <criterion/criterion.h>

#include "devices/cpu/functions_cut.h"
#include "kernel_build.h"

typedef struct joins {
    builder lift, join;
    uint32_t av, ai, bv, bi;
} joins;

static joins made;

static void start(ppto_dtype dtype)
{
    build_start(&made.lift, "lift");
    build_result(&made.lift, build_param(&made.lift, dtype));
    build_result(&made.lift, build_param(&made.lift, PPTO_I64));
    build_start(&made.join, "join");
    made.av = build_param(&made.join, dtype);
    made.ai = build_param(&made.join, PPTO_I64);
    made.bv = build_param(&made.join, dtype);
    made.bi = build_param(&made.join, PPTO_I64);
}

static uint32_t of_bool(pp_op op, uint32_t x, uint32_t y)
{
    return build_op(&made.join, op, PPTO_BOOL, x, y, 0);
}

/* The join gives (value, position) of a where `left`, of b elsewhere. */
static bool proved(ppto_dtype dtype, uint32_t left, uint32_t left_position)
{
    build_result(&made.join, build_op(&made.join, PP_SELECT, dtype, left, made.av, made.bv));
    build_result(&made.join, build_op(&made.join, PP_SELECT, PPTO_I64, left_position, made.ai, made.bi));
    const pp_fold fold = {.n_states = 2,
                          .n_inputs = 1,
                          .state = {(uint8_t)dtype, PPTO_I64},
                          .position = true,
                          .lift = &made.lift.f,
                          .join = &made.join.f};
    pp_positions positions;
    return pp_positions_find(&fold, &positions) && pp_positions_ordered(&fold, &positions);
}

/* a is less, or as good and nearer to the front (to the end). */
static uint32_t least(bool to_the_end)
{
    const uint32_t first = to_the_end ? of_bool(PP_LT, made.bi, made.ai) : of_bool(PP_LT, made.ai, made.bi);
    const uint32_t equal = of_bool(PP_AND, of_bool(PP_EQ, made.av, made.bv), first);
    return of_bool(PP_OR, of_bool(PP_LT, made.av, made.bv), equal);
}

Test(order, of_integers_is_proved_from_either_end)
{
    for (int end = 0; end < 2; end++) {
        start(PPTO_I32);
        const uint32_t left = least(end);
        cr_assert(proved(PPTO_I32, left, left));
    }
}

Test(order, of_floats_needs_a_place_for_nan)
{
    start(PPTO_F32);
    uint32_t left = least(false);
    cr_assert_not(proved(PPTO_F32, left, left));
    start(PPTO_F64);
    const uint32_t a_nan = of_bool(PP_NE, made.av, made.av), b_number = of_bool(PP_EQ, made.bv, made.bv);
    const uint32_t b_nan = of_bool(PP_NE, made.bv, made.bv), first = of_bool(PP_LT, made.ai, made.bi);
    const uint32_t both = of_bool(PP_AND, of_bool(PP_AND, a_nan, b_nan), first);
    left = of_bool(PP_OR, least(false), of_bool(PP_OR, of_bool(PP_AND, a_nan, b_number), both));
    cr_assert(proved(PPTO_F64, left, left));
}

Test(order, is_refused_where_parts_of_two_elements_are_mixed)
{
    start(PPTO_I32);
    const uint32_t left = least(false);
    cr_assert_not(proved(PPTO_I32, left, of_bool(PP_LT, made.ai, made.bi)));
}

Test(order, is_refused_where_the_order_of_joining_shows)
{
    start(PPTO_I32);
    const uint32_t left = of_bool(PP_EQ, made.av, made.bv);
    cr_assert_not(proved(PPTO_I32, left, left));
    start(PPTO_I32);
    const uint32_t odd = of_bool(PP_XOR, of_bool(PP_LT, made.av, made.bv), of_bool(PP_LT, made.ai, made.bi));
    cr_assert_not(proved(PPTO_I32, odd, odd));
}

Test(order, is_refused_where_a_value_is_computed_with)
{
    start(PPTO_I32);
    const uint32_t sum = build_op(&made.join, PP_ADD, PPTO_I32, made.av, made.bv, 0);
    const uint32_t left = of_bool(PP_LT, sum, made.bv);
    cr_assert_not(proved(PPTO_I32, left, left));
}
