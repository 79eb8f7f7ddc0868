/* SPDX-License-Identifier: Apache-2.0
 * The scalar primitives: the inline functions against the reference on every row, dtype and pair of samples
 * (NaN compared as one value). The inline functions run in array loops, so that
 * what the vectoriser makes of them is what is tested. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <string.h>

#include "ops/scalar.h"
#include "ops/scalar_each.h"
#include "ops/scalar_inline.h"
#include "ops/scalar_text.h"

/* ---- samples --------------------------------------------------------------------------------- */

enum { MOST = 512 };

static uint64_t random_state = 0x243f6a8885a308d3u;

static uint64_t random_bits(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state * 0x2545f4914f6cdd1du;
}

static const uint64_t integer_samples[] = {0,
                                           1,
                                           2,
                                           3,
                                           5,
                                           7,
                                           8,
                                           9,
                                           15,
                                           16,
                                           17,
                                           31,
                                           32,
                                           33,
                                           63,
                                           64,
                                           65,
                                           100,
                                           127,
                                           128,
                                           129,
                                           255,
                                           256,
                                           257,
                                           32767,
                                           32768,
                                           65535,
                                           65536,
                                           0x00ffffff,
                                           0x01000001,
                                           0x01000002,
                                           0x01000003,
                                           0x7fffff80,
                                           0x7fffffc0,
                                           0x7fffffff,
                                           0x80000000u,
                                           0x80000001u,
                                           0xffffff00u,
                                           0xffffff80u,
                                           0xffffffffu,
                                           0x100000000u,
                                           0x001fffffffffffffu,
                                           0x0020000000000001u,
                                           0x0020000000000003u,
                                           0x4000004000000001u,
                                           0x4000004000000000u,
                                           0x400000c000000000u,
                                           0x8000008000000001u,
                                           0x7fffff4000000000u,
                                           0x7fffffbfffffffffu,
                                           0x7fffffc000000000u,
                                           0x7fffffffffffffffu,
                                           0x8000000000000000u,
                                           0x8000000000000001u,
                                           0x8000000000000400u,
                                           0x8000000000000401u,
                                           0x8000000000000c00u,
                                           0xfffffffffffffbffu,
                                           0xfffffffffffffc00u,
                                           0xffffff7fffffffffu,
                                           0xffffff8000000000u,
                                           (uint64_t)-2,
                                           (uint64_t)-3,
                                           (uint64_t)-5,
                                           (uint64_t)-7,
                                           (uint64_t)-8,
                                           (uint64_t)-100,
                                           (uint64_t)-32768,
                                           (uint64_t)-32769,
                                           0xaaaaaaaaaaaaaaaau,
                                           0x5555555555555555u,
                                           0x0123456789abcdefu,
                                           0xfedcba9876543210u};

static const double float_samples[] = {0,
                                       0x1p-149,
                                       0x1p-148,
                                       0x1.8p-148,
                                       0x1.fffffcp-127,
                                       0x1p-126,
                                       0x1.000002p-126,
                                       0x1p-1074,
                                       0x1.8p-1073,
                                       0x1p-1022,
                                       0x1.fffffffffffffp-1023,
                                       0x1p-150,
                                       0x1.000002p-150,
                                       0x1.8p-150,
                                       0.25,
                                       0x1.fffffep-2,
                                       0.5,
                                       0x1.000002p-1,
                                       0x1.fffffffffffffp-2,
                                       0.75,
                                       0x1.fffffep-1,
                                       1,
                                       0x1.000002p0,
                                       0x1.0000000000001p0,
                                       1.5,
                                       2,
                                       2.5,
                                       3,
                                       3.5,
                                       7,
                                       10,
                                       100.5,
                                       126.5,
                                       127,
                                       127.5,
                                       128,
                                       128.5,
                                       129,
                                       254.5,
                                       255,
                                       255.5,
                                       256,
                                       32767,
                                       32767.5,
                                       32768,
                                       32769,
                                       65535,
                                       65535.75,
                                       65536,
                                       0x1.fffffep21,
                                       0x1.fffffep22,
                                       0x1p22,
                                       0x1p23,
                                       0x1.000002p23,
                                       0x1p24,
                                       0x1.fffffep30,
                                       0x1.fffffffcp30,
                                       0x1.fffffffep30,
                                       0x1.ffffffffp30,
                                       0x1p31,
                                       0x1.000002p31,
                                       0x1.00000002p31,
                                       0x1.fffffep31,
                                       0x1.fffffffep31,
                                       0x1p32,
                                       0x1.000002p32,
                                       0x1.fffffffffffffp51,
                                       0x1p52,
                                       0x1.0000000000001p52,
                                       0x1p53,
                                       0x1.fffffep62,
                                       0x1.fffffffffffffp62,
                                       0x1p63,
                                       0x1.000002p63,
                                       0x1.fffffep63,
                                       0x1.fffffffffffffp63,
                                       0x1p64,
                                       0x1.000002p64,
                                       1e30,
                                       0x1p127,
                                       0x1.fffffep127,
                                       0x1.fffffefffffffp127,
                                       0x1.ffffffp127,
                                       0x1p128,
                                       1e300,
                                       0x1p1023,
                                       0x1.fffffffffffffp1023,
                                       0x1.5bf0a8b145769p1};

static uint64_t float_bits(ppto_dtype dtype, double value)
{
    uint64_t bits = 0;
    float narrow = (float)value;
    if (dtype == PPTO_F32)
        memcpy(&bits, &narrow, sizeof narrow);
    else
        memcpy(&bits, &value, sizeof value);
    return bits;
}

static size_t float_list(ppto_dtype dtype, uint64_t *out, size_t random)
{
    uint64_t sign = dtype == PPTO_F32 ? (uint64_t)1 << 31 : (uint64_t)1 << 63,
             nan = pp_dtype_canonical_nan(dtype);
    uint64_t inf = dtype == PPTO_F32 ? 0x7f800000u : 0x7ff0000000000000u;
    const uint64_t special[] = {inf, inf | sign, nan, nan | sign, nan | 1, inf | 1, inf | 5 | sign};
    size_t n = 0;
    for (size_t i = 0; i < sizeof float_samples / sizeof float_samples[0]; i++) {
        out[n++] = float_bits(dtype, float_samples[i]);
        out[n++] = float_bits(dtype, float_samples[i]) | sign;
    }
    for (size_t i = 0; i < sizeof special / sizeof special[0]; i++) out[n++] = special[i];
    for (size_t i = 0; i < random; i++) out[n++] = random_bits() & (sign | (sign - 1));
    return n;
}

static size_t integer_list(ppto_dtype dtype, uint64_t *out, size_t random)
{
    unsigned width = pp_dtype_width(dtype);
    uint64_t mask = width == 64 ? ~(uint64_t)0 : ((uint64_t)1 << width) - 1;
    size_t n = 0;
    for (size_t i = 0; i < sizeof integer_samples / sizeof integer_samples[0]; i++) {
        uint64_t bits = integer_samples[i];
        if (bits <= mask || -bits <= mask / 2 + 1) out[n++] = bits & mask;
    }
    for (size_t i = 0; i < random; i++) out[n++] = random_bits() & mask;
    return n;
}

static size_t sample_list(ppto_dtype dtype, uint64_t *out, size_t random)
{
    if (pp_dtype_is_float(dtype)) return float_list(dtype, out, random);
    if (dtype != PPTO_BOOL) return integer_list(dtype, out, random);
    out[0] = 0;
    out[1] = 1;
    return 2;
}

/* ---- one generated runner per (row, dtype): n elements at once ------------------------------- */

/* A runner computes out[i] = op(a, b[i], c) for arrays of bits; unary rows look at b only. */
typedef void (*runner)(const uint64_t *a, const uint64_t *b, const uint64_t *c, uint64_t *out, size_t n);

#define TO_BLOCK(d, name, bits)                                                                              \
    pp_##d name[MOST];                                                                                       \
    for (size_t i = 0; i < n; i++) memcpy(&name[i], &bits[i], sizeof name[i]);
#define FROM_BLOCK(r)                                                                                        \
    for (size_t i = 0; i < n; i++) {                                                                         \
        out[i] = 0;                                                                                          \
        memcpy(&out[i], &r[i], sizeof r[i]);                                                                 \
    }
#define TYPE_SAME(d) pp_##d
#define TYPE_BOOL(d) pp_b8
#define TYPE_TARGET(d) pp_##d

#define RUN(call, d, R)                                                                                      \
    {                                                                                                        \
        TO_BLOCK(d, x, a)                                                                                    \
        TO_BLOCK(d, y, b)                                                                                    \
        TO_BLOCK(d, z, c)                                                                                    \
        R r[MOST];                                                                                           \
        for (size_t i = 0; i < n; i++) r[i] = call;                                                          \
        (void)x, (void)y, (void)z;                                                                           \
        FROM_BLOCK(r)                                                                                        \
    }
#define RUNNER(name)                                                                                         \
    static void name(const uint64_t *a, const uint64_t *b, const uint64_t *c, uint64_t *out, size_t n)

#define UNARY(d, op, result) RUNNER(run_##op##_##d) RUN(pp_op_##op##_##d(x[i]), d, TYPE_##result(d))
#define BINARY(d, op, result) RUNNER(run_##op##_##d) RUN(pp_op_##op##_##d(x[i], y[i]), d, TYPE_##result(d))
#define TERNARY(d, op, result)                                                                               \
    RUNNER(run_##op##_##d) RUN(pp_op_##op##_##d(x[i], y[i], z[i]), d, TYPE_##result(d))
#define CONVERSION(from, to, op)                                                                             \
    RUNNER(run_##op##_##from##_##to) RUN(pp_op_##op##_##from##_##to(x[i]), from, pp_##to)
#define CHOICE(d, unused) RUNNER(run_select_##d) RUN(pp_op_select_##d(a[i] != 0, y[i], z[i]), d, pp_##d)

#define KIND_1 UNARY
#define KIND_2 BINARY
#define KIND_3 TERNARY

#define PP_SCALAR(E, op, n, on, result, ...) PP_EACH_##on(KIND_##n, op, result)
#define PP_SCALAR_SELECT(E, op, n, on, ...) PP_EACH_##on(CHOICE, 0)
#define PP_SCALAR_CONVERT(E, op, ...) PP_EACH_##E(CONVERSION, op)
#include "ops/scalar.def"

enum {
#define PP_DTYPE(E, suffix, ...) CODE_##suffix = PPTO_##E,
#include "ops/dtypes.def"
};

static const struct entry {
    const char *name;
    const char *function;
    ppto_dtype from, to; /* to: of the conversions */
    runner run;
} entries[] = {
#define CODE(d) (ppto_dtype) CODE_##d
#define ENTRY(d, op) {#op, "pp_op_" #op "_" #d, CODE(d), CODE(d), run_##op##_##d},
#define PAIR(d, e, op) {#op, "pp_op_" #op "_" #d "_" #e, CODE(d), CODE(e), run_##op##_##d##_##e},
#define PP_SCALAR(E, op, n, on, ...) PP_EACH_##on(ENTRY, op)
#define PP_SCALAR_CONVERT(E, op, ...) PP_EACH_##E(PAIR, op)
#include "ops/scalar.def"
};
#define ENTRIES (sizeof entries / sizeof entries[0])

/* ---- comparing ------------------------------------------------------------------------------- */

static uint64_t one_nan(ppto_dtype dtype, uint64_t bits)
{
    if (!pp_dtype_is_float(dtype)) return bits;
    uint64_t inf = dtype == PPTO_F32 ? 0x7f800000u : 0x7ff0000000000000u;
    uint64_t size = bits & (dtype == PPTO_F32 ? 0x7fffffffu : 0x7fffffffffffffffu);
    return size > inf ? pp_dtype_canonical_nan(dtype) : bits;
}

static ppto_dtype entry_result(pp_op op, const struct entry *e)
{
    return op == PP_CAST || op == PP_BITCAST ? e->to : pp_scalar_result(op, e->from);
}

static size_t compare_block(const struct entry *e, pp_op op, const uint64_t *a, const uint64_t *b,
                            const uint64_t *c, size_t n)
{
    static uint64_t out[MOST];
    size_t wrong = 0;
    ppto_dtype to = entry_result(op, e);
    e->run(a, b, c, out, n);
    for (size_t i = 0; i < n; i++) {
        uint64_t want = pp_scalar_eval(op, e->from, to, a[i], b[i], c[i]);
        if (one_nan(to, want) == one_nan(to, out[i])) continue;
        if (wrong++ > 0) continue;
        cr_log_warn("%s(%" PRIx64 ", %" PRIx64 ", %" PRIx64 "): reference %" PRIx64 ", inline %" PRIx64,
                    e->function, a[i], b[i], c[i], want, out[i]);
    }
    return wrong;
}

/* Every sample as first, second and (a few) third operand. */
static size_t compare_entry(const struct entry *e)
{
    static uint64_t list[MOST], a[MOST], c[MOST];
    pp_op op;
    cr_assert(pp_scalar_parse(e->name, strlen(e->name), &op));
    unsigned arity = pp_scalar_find(op)->arity;
    size_t n = sample_list(e->from, list, arity == 1 ? 200 : 40), wrong = 0;
    if (arity == 1) return compare_block(e, op, list, list, list, n);
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) a[j] = op == PP_SELECT ? j % 3 == 0 : list[i];
        for (size_t k = 0; k < (arity == 3 ? n : 1); k += 1 + k % 3) {
            for (size_t j = 0; j < n; j++) c[j] = list[k];
            wrong += compare_block(e, op, a, list, c, n);
        }
    }
    return wrong;
}

Test(ops_scalar, inline_functions_agree_with_the_reference)
{
    for (size_t i = 0; i < ENTRIES; i++)
        cr_expect_eq(compare_entry(&entries[i]), 0, "%s", entries[i].function);
}

Test(ops_scalar, fma_agrees_on_random_triples_of_near_exponents)
{
    static uint64_t a[MOST], b[MOST], c[MOST];
    for (size_t i = 0; i < ENTRIES; i++) {
        if (strcmp(entries[i].name, "fma") != 0 || !pp_dtype_is_float(entries[i].from)) continue;
        int top = entries[i].from == PPTO_F32 ? 23 : 52;
        uint64_t bias = entries[i].from == PPTO_F32 ? 127 : 1023, wrong = 0;
        for (int round = 0; round < 2000; round++) {
            for (size_t j = 0; j < MOST; j++) {
                uint64_t mask = ((uint64_t)1 << top) - 1, keep = round % 2 ? mask << (top / 2) : mask,
                         sign = (uint64_t)1;
                uint64_t ea = random_bits() % (2 * bias), eb = random_bits() % (2 * bias);
                uint64_t ec = ea + eb - bias + random_bits() % 100 - 50;
                if (ec > 2 * bias) ec = random_bits() % bias;
                unsigned last = entries[i].from == PPTO_F32 ? 31 : 63;
                a[j] = (random_bits() & mask & keep) | ea << top | (random_bits() & sign) << last;
                b[j] = (random_bits() & mask & keep) | eb << top | (random_bits() & sign) << last;
                c[j] = (random_bits() & mask & keep) | ec << top | (random_bits() & sign) << last;
            }
            wrong += compare_block(&entries[i], PP_FMA, a, b, c, MOST);
        }
        cr_expect_eq(wrong, 0, "%s", entries[i].function);
    }
}

Test(ops_scalar, every_row_and_dtype_has_its_function)
{
    char name[PP_SCALAR_NAME_SIZE];
    size_t n = 0;
    for (int op = 0; op < PP_SCALAR_COUNT; op++) {
        for (int from = 0; from < PP_DTYPE_COUNT; from++) {
            bool pairs = op == PP_CAST || op == PP_BITCAST;
            for (int to = pairs ? 0 : from; to < (pairs ? PP_DTYPE_COUNT : from + 1); to++) {
                if (pp_scalar_c_name((pp_op)op, (ppto_dtype)from, (ppto_dtype)to, name) == NULL) continue;
                n++;
                bool found = false;
                for (size_t i = 0; i < ENTRIES && !found; i++) found = strcmp(entries[i].function, name) == 0;
                cr_expect(found, "%s", name);
            }
        }
    }
    cr_expect_eq(n, ENTRIES);
}

Test(ops_scalar, rows_are_complete_and_found_by_name)
{
    pp_op op;
    for (int i = 0; i < PP_OP_COUNT; i++) {
        const pp_scalar_row *row = pp_scalar_find((pp_op)i);
        cr_assert_not_null(row->name, "row %d", i);
        cr_expect_not_null(row->meaning);
        bool found = pp_scalar_parse(row->name, strlen(row->name), &op);
        cr_expect_eq(found, i < PP_SCALAR_COUNT, "%s", row->name);
        cr_expect(!found || (int)op == i, "%s", row->name);
    }
    cr_expect_not(pp_scalar_parse("ad", 2, &op));
    cr_expect_not(pp_scalar_accepts(PP_CLZ, PPTO_I32));
    cr_expect_not(pp_scalar_accepts(PP_ADD, PPTO_BOOL));
    cr_expect(pp_scalar_accepts(PP_MULHI, PPTO_I64));
    cr_expect_eq(pp_scalar_result(PP_SIGNBIT, PPTO_F64), PPTO_BOOL);
    cr_expect_eq(pp_scalar_result(PP_SELECT, PPTO_U16), PPTO_U16);
}
