/* SPDX-License-Identifier: Apache-2.0
 * Known answers of the reference of the scalar primitives, dtypes and promotion, the floating-point
 * environment. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <string.h>

#include "ops/scalar.h"

/* ---- known answers --------------------------------------------------------------------------- */

static const struct known {
    pp_op op;
    ppto_dtype from, to;
    uint64_t a, b, c, want;
} knowns[] = {
    {PP_FMA, PPTO_F32, PPTO_F32, 0x3f800800, 0x3f800800, 0xbf801000, 0x33800000}, /* fma(m, m, c) = 2^-24 */
    {PP_FMA, PPTO_F32, PPTO_F32, 0x8d800000, 0x0d800000, 0, 0x80000000}, /* -2^-100 * 2^-100 + 0 = -0 */
    {PP_ADD, PPTO_F32, PPTO_F32, 0x4b800000, 0x3f800000, 0, 0x4b800000}, /* 2^24 + 1 = 2^24 */
    {PP_SUB, PPTO_F32, PPTO_F32, 0x3f800000, 0x3f800000, 0, 0},
    {PP_DIV, PPTO_F32, PPTO_F32, 0, 0, 0, 0x7fc00000},
    {PP_DIV, PPTO_F64, PPTO_F64, 0x3ff0000000000000, 0x8000000000000000, 0, 0xfff0000000000000},
    {PP_SQRT, PPTO_F32, PPTO_F32, 0x80000000, 0, 0, 0x80000000},
    {PP_SQRT, PPTO_F64, PPTO_F64, 0xbff0000000000000, 0, 0, 0x7ff8000000000000},
    {PP_NEG, PPTO_I8, PPTO_I8, 0x80, 0, 0, 0x80},
    {PP_ABS, PPTO_I32, PPTO_I32, 0x80000000, 0, 0, 0x80000000},
    {PP_COPYSIGN, PPTO_F32, PPTO_F32, 0x3f800000, 0xffc00000, 0, 0x3f800000},
    {PP_COPYSIGN, PPTO_F32, PPTO_F32, 0x3f800000, 0x80000000, 0, 0xbf800000},
    {PP_SIGNBIT, PPTO_F32, PPTO_BOOL, 0xffc00000, 0, 0, 0},
    {PP_SIGNBIT, PPTO_F32, PPTO_BOOL, 0x80000000, 0, 0, 1},
    {PP_MIN, PPTO_F32, PPTO_F32, 0, 0x80000000, 0, 0x80000000},
    {PP_MIN, PPTO_F32, PPTO_F32, 0x80000000, 0, 0, 0x80000000},
    {PP_MAX, PPTO_F32, PPTO_F32, 0, 0x80000000, 0, 0},
    {PP_MAX, PPTO_F32, PPTO_F32, 0x80000000, 0, 0, 0},
    {PP_MAX, PPTO_F32, PPTO_F32, 0x7fc00000, 0x3f800000, 0, 0x7fc00000},
    {PP_MAX, PPTO_F32, PPTO_F32, 0x3f800000, 0xffc00001, 0, 0x7fc00000},
    {PP_RINT, PPTO_F32, PPTO_F32, 0x40200000, 0, 0, 0x40000000}, /* 2.5 -> 2 */
    {PP_RINT, PPTO_F32, PPTO_F32, 0x40600000, 0, 0, 0x40800000}, /* 3.5 -> 4 */
    {PP_FLOOR, PPTO_F32, PPTO_F32, 0x80000000, 0, 0, 0x80000000},
    {PP_FLOOR, PPTO_F32, PPTO_F32, 0xbf000000, 0, 0, 0xbf800000},
    {PP_CEIL, PPTO_F32, PPTO_F32, 0xbf000000, 0, 0, 0x80000000},
    {PP_TRUNC, PPTO_F32, PPTO_F32, 0xbfc00000, 0, 0, 0xbf800000},
    {PP_FMOD, PPTO_F32, PPTO_F32, 0xc0f00000, 0x40000000, 0, 0xbfc00000}, /* fmod(-7.5, 2) = -1.5 */
    {PP_FMOD, PPTO_F32, PPTO_F32, 0x3f800000, 0, 0, 0x7fc00000},
    {PP_FMOD, PPTO_F32, PPTO_F32, 0x3f800000, 0xff800000, 0, 0x3f800000},
    {PP_FMOD, PPTO_F64, PPTO_F64, 0x7fefffffffffffff, 0x4008000000000000, 0,
     0x4000000000000000}, /* max mod 3 = 2 */
    {PP_IDIV, PPTO_I32, PPTO_I32, 0x80000000, 0xffffffff, 0, 0x80000000},
    {PP_IDIV, PPTO_I32, PPTO_I32, 0xfffffff9, 2, 0, 0xfffffffc}, /* -7 // 2 = -4 */
    {PP_IMOD, PPTO_I32, PPTO_I32, 0xfffffff9, 2, 0, 1},
    {PP_IMOD, PPTO_I32, PPTO_I32, 7, 0xfffffffe, 0, 0xffffffff}, /* 7 % -2 = -1 */
    {PP_IDIV, PPTO_U8, PPTO_U8, 7, 0, 0, 0},
    {PP_IMOD, PPTO_I64, PPTO_I64, 7, 0, 0, 0},
    {PP_MUL, PPTO_U16, PPTO_U16, 0xffff, 0xffff, 0, 1},
    {PP_MULHI, PPTO_U64, PPTO_U64, 0xffffffffffffffff, 0xffffffffffffffff, 0, 0xfffffffffffffffe},
    {PP_MULHI, PPTO_I32, PPTO_I32, 0xffffffff, 1, 0, 0xffffffff},
    {PP_NOT, PPTO_BOOL, PPTO_BOOL, 1, 0, 0, 0},
    {PP_NOT, PPTO_U8, PPTO_U8, 1, 0, 0, 0xfe},
    {PP_SHL, PPTO_I32, PPTO_I32, 1, 33, 0, 0},
    {PP_SHL, PPTO_I32, PPTO_I32, 1, 0xffffffff, 0, 0},
    {PP_SHR, PPTO_I8, PPTO_I8, 0x80, 9, 0, 0xff},
    {PP_SHR, PPTO_I8, PPTO_I8, 0x80, 0xff, 0, 0xff},
    {PP_SHR, PPTO_U8, PPTO_U8, 0x80, 8, 0, 0},
    {PP_CLZ, PPTO_U32, PPTO_U32, 0, 0, 0, 32},
    {PP_CLZ, PPTO_U64, PPTO_U64, 1, 0, 0, 63},
    {PP_NE, PPTO_F32, PPTO_BOOL, 0x7fc00000, 0x7fc00000, 0, 1},
    {PP_EQ, PPTO_F32, PPTO_BOOL, 0x80000000, 0, 0, 1},
    {PP_LE, PPTO_F32, PPTO_BOOL, 0x7fc00000, 0x7fc00000, 0, 0},
    {PP_LT, PPTO_I8, PPTO_BOOL, 0xff, 0, 0, 1},
    {PP_SELECT, PPTO_F32, PPTO_F32, 1, 0xffc00001, 0, 0xffc00001},
    {PP_CAST, PPTO_F32, PPTO_I32, 0x7fc00000, 0, 0, 0},
    {PP_CAST, PPTO_F32, PPTO_I32, 0x4f000000, 0, 0, 0x7fffffff},
    {PP_CAST, PPTO_F64, PPTO_U8, 0xbff0000000000000, 0, 0, 0},
    {PP_CAST, PPTO_F64, PPTO_I8, 0xc060000000000000, 0, 0, 0x80},
    {PP_CAST, PPTO_F32, PPTO_U64, 0x5f800000, 0, 0, 0xffffffffffffffff},
    {PP_CAST, PPTO_F32, PPTO_BOOL, 0x7fc00000, 0, 0, 1},
    {PP_CAST, PPTO_U64, PPTO_F32, 0x8000008000000001, 0, 0, 0x5f000001}, /* via f64 it would be 5f000000 */
    {PP_CAST, PPTO_I64, PPTO_F64, 0x0020000000000001, 0, 0, 0x4340000000000000},
    {PP_CAST, PPTO_F64, PPTO_F32, 0x47efffffffffffff, 0, 0, 0x7f800000},
    {PP_CAST, PPTO_F64, PPTO_F32, 0x36a0000000000000, 0, 0, 1},
    {PP_CAST, PPTO_I32, PPTO_U8, 0xfffffeff, 0, 0, 0xff},
    {PP_CAST, PPTO_I8, PPTO_U32, 0x80, 0, 0, 0xffffff80},
    {PP_BITCAST, PPTO_F32, PPTO_U32, 0xffc00001, 0, 0, 0x7fc00000},
    {PP_BITCAST, PPTO_U32, PPTO_F32, 0xbf800000, 0, 0, 0xbf800000}};

Test(ops_scalar, known_answers)
{
    for (size_t i = 0; i < sizeof knowns / sizeof knowns[0]; i++) {
        const struct known *k = &knowns[i];
        uint64_t got = pp_scalar_eval(k->op, k->from, k->to, k->a, k->b, k->c);
        cr_expect_eq(got, k->want, "%s %s (%" PRIx64 ", %" PRIx64 "): %" PRIx64 ", not %" PRIx64,
                     pp_scalar_find(k->op)->name, ppto_dtype_name(k->from), k->a, k->b, got, k->want);
    }
}

/* ---- dtypes ---------------------------------------------------------------------------------- */

Test(ops_dtype, names_are_found_both_ways)
{
    ppto_dtype found;
    for (int d = 0; d < PP_DTYPE_COUNT; d++) {
        const char *name = ppto_dtype_name((ppto_dtype)d);
        cr_expect(pp_dtype_parse(name, strlen(name), &found) && (int)found == d, "%s", name);
        cr_expect_eq(ppto_dtype_size((ppto_dtype)d) * 8, pp_dtype_width((ppto_dtype)d));
    }
    cr_expect(pp_dtype_parse("float32", 7, &found) && found == PPTO_F32);
    cr_expect(pp_dtype_parse("uint8", 5, &found) && found == PPTO_U8);
    cr_expect_not(pp_dtype_parse("f3", 2, &found));
    cr_expect_not(pp_dtype_parse("complex64", 9, &found));
}

Test(ops_dtype, promotion_is_symmetric_and_follows_the_rules)
{
    static const struct {
        ppto_dtype a, b, want;
    } table[] = {
        {PPTO_I8, PPTO_U8, PPTO_I16},   {PPTO_I16, PPTO_U8, PPTO_I16},   {PPTO_I8, PPTO_U32, PPTO_I64},
        {PPTO_I64, PPTO_U32, PPTO_I64}, {PPTO_U8, PPTO_U64, PPTO_U64},   {PPTO_I64, PPTO_F32, PPTO_F32},
        {PPTO_U64, PPTO_F32, PPTO_F32}, {PPTO_F32, PPTO_F64, PPTO_F64},  {PPTO_BOOL, PPTO_U64, PPTO_U64},
        {PPTO_BOOL, PPTO_I8, PPTO_I8},  {PPTO_BOOL, PPTO_F32, PPTO_F32}, {PPTO_BOOL, PPTO_BOOL, PPTO_BOOL}};
    ppto_dtype out;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        cr_expect_eq(pp_dtype_promote(table[i].a, table[i].b, &out), PPTO_OK);
        cr_expect_eq(out, table[i].want);
        cr_expect_eq(pp_dtype_promote(table[i].b, table[i].a, &out), PPTO_OK);
        cr_expect_eq(out, table[i].want);
    }
    cr_expect_eq(pp_dtype_promote(PPTO_U64, PPTO_I8, &out), PPTO_E_DTYPE);
    cr_expect_eq(pp_dtype_promote(PPTO_I64, PPTO_U64, &out), PPTO_E_DTYPE);
}

/* ---- environment ----------------------------------------------------------------------------- */

#ifdef __x86_64__
Test(ops_fenv, run_is_shielded_from_the_host_and_the_host_gets_its_own_back)
{
    uint32_t host = 0x1f80 | 0x8040 | 0x6000 | 0x20, seen = 0; /* FTZ, DAZ, toward zero, inexact raised */
    __asm__ volatile("ldmxcsr %0" : : "m"(host));
    pp_fenv saved;
    pp_fenv_enter(&saved);
    volatile float small = 0x1p-126f, third = 3;
    volatile float half = small * 0.5f, quotient = 2 / third;
    pp_fenv_leave(&saved);
    __asm__ volatile("stmxcsr %0" : "=m"(seen));
    uint32_t normal = 0x1f80;
    __asm__ volatile("ldmxcsr %0" : : "m"(normal));
    cr_expect_eq(half, 0x1p-127f);
    cr_expect_eq(quotient, 0x1.555556p-1f);
    cr_expect_eq(seen, host);
}
#endif
