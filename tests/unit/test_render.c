/* SPDX-License-Identifier: Apache-2.0
 * The prologue of exported C text: every row for every dtype, compiled and held to pp_scalar_eval bit by bit.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>

#include "kernel/number.h"
#include "kernel/render.h"
#include "kernel_build.h"
#include "ops/scalar_text.h"

typedef void row(const uint64_t *a, const uint64_t *b, const uint64_t *c, uint64_t *out);

/* Calls each(op, from, to) for every row, dtype and target there is. */
static void for_all(void (*each)(void *context, pp_op op, ppto_dtype from, ppto_dtype to), void *context)
{
    for (int op = 0; op < PP_SCALAR_COUNT; op++)
        for (int from = 0; from < PP_DTYPE_COUNT; from++)
            for (int to = 0; to < PP_DTYPE_COUNT; to++) {
                char name[PP_SCALAR_NAME_SIZE];
                const bool converts = op == PP_CAST || op == PP_BITCAST;
                if (!pp_scalar_accepts((pp_op)op, (ppto_dtype)from)) continue;
                if (!converts && pp_scalar_result((pp_op)op, (ppto_dtype)from) != (ppto_dtype)to) continue;
                if (pp_scalar_c_name((pp_op)op, (ppto_dtype)from, (ppto_dtype)to, name) == NULL) continue;
                each(context, (pp_op)op, (ppto_dtype)from, (ppto_dtype)to);
            }
}

static void use(void *context, pp_op op, ppto_dtype from, ppto_dtype to)
{
    pp_rows_used *used = context;
    used->row[op][from] |= (uint16_t)(1u << to);
}

static void write_row(void *context, pp_op op, ppto_dtype from, ppto_dtype to)
{
    pp_text *out = context;
    char name[PP_SCALAR_NAME_SIZE];
    const unsigned arity = pp_scalar_find(op)->arity;
    const char *type = pp_scalar_c_type(from);
    pp_text_add(out, "void row_%d_%d_%d(const void *a, const void *b, const void *c, void *out)\n{\n", op,
                from, to);
    pp_text_add(out, "    const %s x = *(const %s *)a;\n    (void)b, (void)c;\n",
                op == PP_SELECT ? "uint8_t" : type, op == PP_SELECT ? "uint8_t" : type);
    pp_text_add(out, "    *(%s *)out = %s(x%s", pp_scalar_c_type(to), pp_scalar_c_name(op, from, to, name),
                arity > 1 ? ", " : "");
    if (arity > 1) pp_text_add(out, "*(const %s *)b", type);
    if (arity > 2) pp_text_add(out, ", *(const %s *)c", type);
    pp_text_add(out, ");\n}\n");
}

static const uint64_t f32_samples[] = {
    0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x3f800000, 0xbf800000,
    0x3f000000, 0xbf000000, 0x40200000, 0x40600000, 0xc0200000, 0x3effffff, 0x4b000000, 0x4b000001,
    0x4a800001, 0x4f000000, 0xcf000000, 0x4effffff, 0x5f000000, 0xdf000000, 0x5f800000, 0x43000000,
    0x42fe0000, 0xc3000000, 0x437f0000, 0x47000000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
    0x7fc00000, 0xffc00001, 0x7f800001, 0x3eaaaaab, 0x40490fdb, 0x00000123, 0x4b7fffff, 0xc1280000};
static const uint64_t f64_samples[] = {0,
                                       UINT64_C(0x8000000000000000),
                                       1,
                                       UINT64_C(0x8000000000000001),
                                       UINT64_C(0x000fffffffffffff),
                                       UINT64_C(0x0010000000000000),
                                       UINT64_C(0x3ff0000000000000),
                                       UINT64_C(0xbff0000000000000),
                                       UINT64_C(0x3fe0000000000000),
                                       UINT64_C(0xbfe0000000000000),
                                       UINT64_C(0x4004000000000000),
                                       UINT64_C(0xc00c000000000000),
                                       UINT64_C(0x4330000000000001),
                                       UINT64_C(0x432fffffffffffff),
                                       UINT64_C(0x41e0000000000000),
                                       UINT64_C(0xc1e0000000200000),
                                       UINT64_C(0x41dfffffffc00000),
                                       UINT64_C(0x43e0000000000000),
                                       UINT64_C(0xc3e0000000000000),
                                       UINT64_C(0x43f0000000000000),
                                       UINT64_C(0x7fefffffffffffff),
                                       UINT64_C(0x7ff0000000000000),
                                       UINT64_C(0xfff0000000000000),
                                       UINT64_C(0x7ff8000000000000),
                                       UINT64_C(0xfff8000000000001),
                                       UINT64_C(0x36a0000000000001),
                                       UINT64_C(0x47efffffefffffff),
                                       UINT64_C(0x3fd5555555555555),
                                       UINT64_C(0x3ff0000010000000)};
static const int64_t int_samples[] = {
    0,    1,     -1,    2,         -2,        3,         7,         8,        31,       32,
    63,   64,    100,   -100,      127,       -128,      255,       32767,    -32768,   65535,
    5000, -5001, 65536, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 16777217, -16777219};

static size_t samples(ppto_dtype dtype, size_t i, uint64_t *bits)
{
    const unsigned width = pp_dtype_width(dtype);
    const size_t n32 = sizeof f32_samples / 8, n64 = sizeof f64_samples / 8, ni = sizeof int_samples / 8;
    if (dtype == PPTO_F32) return *bits = f32_samples[i % n32], n32;
    if (dtype == PPTO_F64) return *bits = f64_samples[i % n64], n64;
    if (dtype == PPTO_BOOL) return *bits = i & 1, 2;
    *bits = (uint64_t)int_samples[i % ni] & (width == 64 ? UINT64_MAX : (UINT64_C(1) << width) - 1);
    return ni;
}

static bool is_nan(ppto_dtype dtype, uint64_t bits)
{
    if (dtype == PPTO_F32) return (bits & 0x7fffffff) > 0x7f800000;
    return dtype == PPTO_F64 && (bits & INT64_MAX) > UINT64_C(0x7ff0000000000000);
}

static void check_row(void *context, pp_op op, ppto_dtype from, ppto_dtype to)
{
    char name[64];
    uint64_t a, b, c;
    const unsigned arity = pp_scalar_find(op)->arity;
    const ppto_dtype first = op == PP_SELECT ? PPTO_BOOL : from;
    snprintf(name, sizeof name, "row_%d_%d_%d", op, from, to);
    row *function;
    *(void **)&function = dlsym(context, name);
    cr_assert(function != NULL, "%s %s", pp_op_name(op), name);
    const size_t na = samples(first, 0, &a), nb = arity > 1 ? samples(from, 0, &b) : 1,
                 nc = arity > 2 ? samples(from, 0, &c) : 1;
    for (size_t i = 0; i < na * nb * nc; i++) {
        uint64_t got = 0;
        samples(first, i % na, &a), samples(from, i / na % nb, &b), samples(from, i / na / nb, &c);
        const uint64_t want = pp_scalar_eval(op, from, to, a, arity > 1 ? b : 0, arity > 2 ? c : 0);
        function(&a, &b, &c, &got);
        cr_assert(got == want || (is_nan(to, got) && is_nan(to, want)),
                  "%s %s -> %s of %llx %llx %llx: %llx, not %llx", pp_op_name(op), ppto_dtype_name(from),
                  ppto_dtype_name(to), (unsigned long long)a, (unsigned long long)b, (unsigned long long)c,
                  (unsigned long long)got, (unsigned long long)want);
    }
}

Test(render, prologue_computes_every_row, .timeout = 120)
{
    pp_rows_used used = {0};
    pp_text text = {0};
    if (!has_compiler()) return;
    for_all(use, &used);
    pp_render_prologue(&used, &text);
    for_all(write_row, &text);
    void *loaded = compile_text(text.at, "-std=c99 -O1 -Wall -Wno-unknown-pragmas");
    cr_assert_not_null(loaded);
    for_all(check_row, loaded);
    pp_text_free(&text);
}

Test(render, prologue_has_only_what_is_used)
{
    pp_rows_used used = {0};
    pp_text text = {0};
    used.row[PP_ADD][PPTO_I32] = 1u << PPTO_I32;
    pp_render_prologue(&used, &text);
    cr_expect_not_null(strstr(text.at, "pp_op_add_i32"));
    cr_expect_null(strstr(text.at, "f32"));
    cr_expect_null(strstr(text.at, "pp_op_sub"));
    pp_text_free(&text);
    used.row[PP_TRUNC][PPTO_F64] = 1u << PPTO_F64;
    pp_render_prologue(&used, &text);
    cr_expect_not_null(strstr(text.at, "pp_op_rint_f64(double a)"));
    pp_text_free(&text);
}

static void expect_number(ppto_dtype dtype, uint64_t bits, const char *plain, const char *c)
{
    pp_text text = {0};
    pp_number_print(dtype, bits, &text);
    cr_expect_str_eq(text.at, plain);
    pp_text_free(&text);
    pp_number_c(dtype, bits, &text);
    cr_expect_str_eq(text.at, c);
    pp_text_free(&text);
}

Test(render, numbers_are_exact_in_any_locale)
{
    expect_number(PPTO_F32, 0x40400000, "0x1.8p+1", "0x1.8p+1f");
    expect_number(PPTO_F32, 1, "0x1p-149", "0x1p-149f");
    expect_number(PPTO_F32, 0x807fffff, "-0x1.fffffcp-127", "-0x1.fffffcp-127f");
    expect_number(PPTO_F32, 0x80000000, "-0x0p+0", "-0x0p+0f");
    expect_number(PPTO_F32, 0x7fc00000, "nan", "__builtin_nanf(\"\")");
    expect_number(PPTO_F64, UINT64_C(0xfff0000000000000), "-inf", "-__builtin_inf()");
    expect_number(PPTO_F64, UINT64_C(0x3ff0000000000001), "0x1.0000000000001p+0", "0x1.0000000000001p+0");
    expect_number(PPTO_I8, 0x80, "-128", "-128");
    expect_number(PPTO_I32, 0x80000000, "-2147483648", "INT32_MIN");
    expect_number(PPTO_I64, UINT64_MAX, "-1", "INT64_C(-1)");
    expect_number(PPTO_U32, 7, "7", "7u");
    expect_number(PPTO_U64, UINT64_MAX, "18446744073709551615", "UINT64_C(18446744073709551615)");
    expect_number(PPTO_BOOL, 1, "true", "1");
}
