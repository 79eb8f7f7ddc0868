/* SPDX-License-Identifier: Apache-2.0
 * fma of f32 without the C library, in the reference and in the inline function of machines without one,
 * against fmaf: hard values in all combinations, and triples made for ties, cancellation, the subnormals and
 * the largest numbers. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "ops/scalar.h"
#include "ops/scalar_inline.h"

static float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return value != value ? 0x7fc00000u : bits;
}

static uint64_t random_word(void)
{
    static uint64_t state = 0x2545f4914f6cdd1du;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state * 0x9e3779b97f4a7c15u;
}

/* The functions are read through here so that no compiler evaluates both sides at once. */
static float (*volatile library_fma)(float, float, float) = fmaf;

static unsigned differ(float a, float b, float c)
{
    const uint32_t want = bits_of(library_fma(a, b, c)), own = bits_of(pp_op_fma_f32(a, b, c));
    const uint32_t reference =
        (uint32_t)pp_scalar_eval(PP_FMA, PPTO_F32, PPTO_F32, bits_of(a), bits_of(b), bits_of(c));
    if (reference == want && own == want) return 0;
    cr_log_error("fma(%a, %a, %a): %08x, reference %08x, inline %08x", a, b, c, want, reference, own);
    return 1;
}

Test(fma, hard_values_in_all_combinations)
{
    static const uint32_t half[] = {0x00000000, 0x00000001, 0x00000002, 0x00000003, 0x00400000, 0x007ffffe,
                                    0x007fffff, 0x00800000, 0x00800001, 0x0d800000, 0x1a000000, 0x1fffffff,
                                    0x20000000, 0x33800000, 0x34000000, 0x3effffff, 0x3f000000, 0x3f000001,
                                    0x3f7fffff, 0x3f800000, 0x3f800001, 0x3f800800, 0x3fc00000, 0x40000000,
                                    0x4b7fffff, 0x4b800000, 0x4b800001, 0x5f800000, 0x7effffff, 0x7f000000,
                                    0x7f7ffffe, 0x7f7fffff, 0x7f800000, 0x7fc00000};
    enum { HALF = sizeof half / sizeof half[0], N = 2 * HALF };
    unsigned failures = 0;
    for (unsigned i = 0; i < N; i++)
        for (unsigned j = 0; j < N; j++)
            for (unsigned k = 0; k < N && failures < 20; k++)
                failures += differ(of_bits(half[i / 2] | (i & 1) << 31), of_bits(half[j / 2] | (j & 1) << 31),
                                   of_bits(half[k / 2] | (k & 1) << 31));
    cr_expect_eq(failures, 0);
}

/* A number of few significant bits: products and sums of such meet ties. */
static float short_number(int exponent)
{
    const uint64_t word = random_word();
    const unsigned bits = 1 + (unsigned)(word >> 32) % 24;
    const float value = (float)((word & 0xffffff) >> (24 - bits) | 1u);
    return ldexpf(word >> 63 ? -value : value, exponent - (int)bits);
}

static float any_number(void)
{
    return of_bits((uint32_t)random_word());
}

Test(fma, random_triples)
{
    unsigned failures = 0;
    for (unsigned i = 0; i < 1000000 && failures < 20; i++)
        failures += differ(any_number(), any_number(), any_number());
    cr_expect_eq(failures, 0);
}

Test(fma, sums_near_a_tie_and_near_zero)
{
    unsigned failures = 0;
    for (unsigned i = 0; i < 1000000 && failures < 20; i++) {
        const int ea = (int)(random_word() % 250) - 125, eb = (int)(random_word() % 250) - 125;
        const float a = short_number(ea), b = short_number(eb);
        const int apart = (int)(random_word() % 100) - 50;
        failures += differ(a, b, short_number(ea + eb + apart));
        failures += differ(a, b, -(a * b));
        failures += differ(a, b, nextafterf(-(a * b), (float)apart));
        failures += differ(a, b, ldexpf(a * b, 24 + apart % 3));
    }
    cr_expect_eq(failures, 0);
}

Test(fma, results_at_both_ends_of_the_range)
{
    unsigned failures = 0;
    for (unsigned i = 0; i < 500000 && failures < 20; i++) {
        const int ea = (int)(random_word() % 200) - 100, low = -149 + (int)(random_word() % 30);
        const float a = short_number(ea);
        failures += differ(a, short_number(low - ea), short_number(low + (int)(random_word() % 40) - 20));
        failures += differ(a, short_number(low - ea - 20), of_bits((uint32_t)random_word() & 0x80ffffffu));
        failures += differ(a, short_number(127 - ea), of_bits((uint32_t)random_word() | 0x7f000000u));
        failures += differ(a, short_number(128 - ea), -FLT_MAX);
    }
    cr_expect_eq(failures, 0);
}
