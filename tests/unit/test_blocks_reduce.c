/* SPDX-License-Identifier: Apache-2.0
 * devices/cpu/blocks: the folds that take their elements in any order, of every set this CPU has, against the
 * primitives one after the other: lengths around the vectors' and past what narrow sums can hold, NaN, zeros
 * of both signs, extreme values, unaligned buffers. */
#include <criterion/criterion.h>
#include <string.h>

#include "devices/cpu/blocks.h"
#include "tests/support/block_sets.h"

enum { N = 150001, COUNT = 14 };

static const size_t lengths[COUNT] = {1, 2, 31, 32, 33, 63, 64, 65, 129, 500, 1003, 4096, 16384, N};
static const pp_op rows[] = {PP_MIN, PP_MAX, PP_AND, PP_OR, PP_ADD};
static char memory[1 + N * 8];

static uint64_t read_at(const char *base, ppto_dtype dtype, size_t i)
{
    uint64_t bits = 0;
    memcpy(&bits, base + i * ppto_dtype_size(dtype), ppto_dtype_size(dtype));
    return bits;
}

static void write_at(char *base, ppto_dtype dtype, size_t i, uint64_t bits)
{
    memcpy(base + i * ppto_dtype_size(dtype), &bits, ppto_dtype_size(dtype));
}

static uint64_t as_bits(ppto_dtype dtype, double value)
{
    uint64_t bits = 0;
    const float narrow = (float)value;
    if (dtype == PPTO_F32)
        memcpy(&bits, &narrow, sizeof narrow);
    else
        memcpy(&bits, &value, sizeof value);
    return bits;
}

/* Kinds of data: 0 any; of floats 1 finite and above 0, 2 not above 0, 3 zeros only, 4 zeros of both signs;
 * of others 1 all bits set, 2 all clear but one. */
static void fill_kind(ppto_dtype dtype, int kind, size_t n)
{
    const size_t one = (size_t)(random_bits() % n);
    for (size_t i = 0; i < n; i++) {
        const uint64_t r = random_bits();
        const double x = (double)(r >> 40) * 0x1p-20;
        uint64_t bits = dtype == PPTO_BOOL ? r & 1 : r;
        if (pp_dtype_is_float(dtype) && kind == 1) bits = as_bits(dtype, x + 0x1p-9);
        if (pp_dtype_is_float(dtype) && kind == 2) bits = as_bits(dtype, i % 3 ? -x : i == one ? 0.0 : -0.0);
        if (pp_dtype_is_float(dtype) && kind == 3) bits = as_bits(dtype, n % 2 ? 0.0 : -0.0);
        if (pp_dtype_is_float(dtype) && kind == 4) bits = as_bits(dtype, i == one ? 0.0 : -0.0);
        if (!pp_dtype_is_float(dtype) && kind == 1) bits = dtype == PPTO_BOOL ? 1 : UINT64_MAX;
        if (!pp_dtype_is_float(dtype) && kind == 2) bits = i == one;
        write_at(memory + 1, dtype, i, bits);
    }
}

static ppto_dtype result_of(pp_op row, ppto_dtype dtype)
{
    return row == PP_ADD ? PPTO_I64 : dtype;
}

static uint64_t expected(pp_op row, ppto_dtype dtype, size_t n)
{
    const ppto_dtype to = result_of(row, dtype);
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t x = pp_scalar_eval(PP_CAST, dtype, to, read_at(memory + 1, dtype, i), 0, 0);
        all = i == 0 ? x : pp_scalar_eval(row, to, to, all, x, 0);
    }
    return all;
}

static bool is_nan(ppto_dtype dtype, uint64_t bits)
{
    return pp_dtype_is_float(dtype) && pp_scalar_eval(PP_NE, dtype, PPTO_BOOL, bits, bits, 0) != 0;
}

static void check_row(pp_op row, ppto_dtype dtype, int kind, size_t n)
{
    const uint64_t want = expected(row, dtype, n);
    FOR_EACH_SET(set)
    {
        char out[1 + 8 + 1];
        memset(out, 0x5a, sizeof out);
        set->reduce[row][dtype](n, out + 1, memory + 1);
        const uint64_t got = read_at(out + 1, result_of(row, dtype), 0);
        cr_assert(got == want || (is_nan(dtype, got) && is_nan(dtype, want)),
                  "%s: row %d of dtype %d, kind %d, n %zu: %llx, not %llx", set->name, (int)row, (int)dtype,
                  kind, n, (unsigned long long)got, (unsigned long long)want);
        cr_assert_eq(out[1 + ppto_dtype_size(result_of(row, dtype))], 0x5a);
    }
}

Test(blocks_reduce, any_order_gives_the_bits_of_the_primitive)
{
    const pp_block_set *const base = pp_blocks_find("baseline");
    for (int d = 0; d < PP_DTYPE_COUNT; d++)
        for (int kind = 0; kind < 5; kind++)
            for (size_t k = 0; k < COUNT; k++) {
                fill_kind((ppto_dtype)d, kind, lengths[k]);
                for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
                    if (base->reduce[rows[r]][d] != NULL) check_row(rows[r], (ppto_dtype)d, kind, lengths[k]);
            }
}

Test(blocks_reduce, one_nan_wins_wherever_it_stands)
{
    static const ppto_dtype floats[] = {PPTO_F32, PPTO_F64};
    for (size_t f = 0; f < 2; f++)
        for (size_t k = 0; k < COUNT; k++)
            for (size_t at = 0; at < lengths[k]; at += 1 + lengths[k] / 7) {
                fill_kind(floats[f], 1, lengths[k]);
                write_at(memory + 1, floats[f], at, pp_dtype_canonical_nan(floats[f]));
                check_row(PP_MIN, floats[f], 1, lengths[k]);
                check_row(PP_MAX, floats[f], 1, lengths[k]);
            }
}

Test(blocks_reduce, sums_of_floats_have_an_order)
{
    FOR_EACH_SET(set)
    for (int d = PPTO_F32; d <= PPTO_F64; d++) {
        cr_assert_null(set->reduce[PP_ADD][d]);
        cr_assert_null(set->reduce[PP_MUL][d]);
    }
}
