/* SPDX-License-Identifier: Apache-2.0
 * The rows of scalar.def as a table, and the reference of every row on one element.
 * The evaluator is meant to be obviously right and stays dumb: integers are worked on as two's complement in
 * 64 bits and cut to their width; rounding, fmod and conversions are spelled out on significand and exponent
 * with integers; an f32 is widened wherever the operation is exact anyway. It shares nothing with
 * scalar_inline.h, which the fast executors use: tests compare the two. Float results with NaN are canonical,
 * except where bits only move (select). */
#include "ops/scalar.h"

#include <string.h>

/* ---- the table ------------------------------------------------------------------------------- */

#define ON_FLOAT PP_ON_FLOAT
#define ON_INT PP_ON_INT
#define ON_NUM PP_ON_NUM
#define ON_INTB (PP_ON_INT | PP_ON_BOOL)
#define ON_ANY PP_ON_ANY
#define ON_WIDE PP_ON_INT
#define ON_WIDEU PP_ON_INT
#define RESULT_SAME false
#define RESULT_TARGET false
#define RESULT_BOOL true
#define EXACT_0 false
#define EXACT_1 true
#define EXACT_I true

static const pp_scalar_row rows[PP_OP_COUNT] = {
#define PP_SCALAR(E, op, n, on, result, commutative, exact, flops, meaning)                                  \
    [PP_##E] = {#op, n, ON_##on, RESULT_##result, commutative, EXACT_##exact, flops, meaning},
#define PP_KERNEL(E, op, n, meaning) [PP_##E] = {#op, n, PP_ON_ANY, false, false, false, 0, meaning},
#include "ops/scalar.def"
};

const pp_scalar_row *pp_scalar_find(pp_op op)
{
    return &rows[op];
}

bool pp_scalar_parse(const char *name, size_t n, pp_op *out)
{
    for (int i = 0; i < PP_SCALAR_COUNT; i++) {
        if (strlen(rows[i].name) != n || memcmp(rows[i].name, name, n) != 0) continue;
        *out = (pp_op)i;
        return true;
    }
    *out = PP_ADD;
    return false;
}

bool pp_scalar_accepts(pp_op op, ppto_dtype dtype)
{
    unsigned width = pp_dtype_width(dtype);
    if (op == PP_CLZ) return pp_dtype_kind(dtype) == PP_KIND_UINT && width >= 32;
    if (op == PP_MULHI) return pp_dtype_is_integer(dtype) && width >= 32;
    unsigned class = pp_dtype_is_float(dtype) ? PP_ON_FLOAT : dtype == PPTO_BOOL ? PP_ON_BOOL : PP_ON_INT;
    return (rows[op].on & class) != 0;
}

bool pp_scalar_converts(pp_op op, ppto_dtype from, ppto_dtype to)
{
    if (op == PP_CAST) return true;
    return op == PP_BITCAST && from != PPTO_BOOL && to != PPTO_BOOL &&
           pp_dtype_width(from) == pp_dtype_width(to);
}

ppto_dtype pp_scalar_result(pp_op op, ppto_dtype operand)
{
    return rows[op].gives_bool ? PPTO_BOOL : operand;
}

/* ---- bits <-> values ------------------------------------------------------------------------- */

static double as_f64(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_f64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float as_f32(uint64_t bits)
{
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return value;
}

static uint64_t bits_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double load_float(ppto_dtype dtype, uint64_t bits)
{
    return dtype == PPTO_F32 ? (double)as_f32(bits) : as_f64(bits);
}

/* value is exact in dtype. */
static uint64_t store_float(ppto_dtype dtype, double value)
{
    if (value != value) return pp_dtype_canonical_nan(dtype);
    return dtype == PPTO_F32 ? bits_f32((float)value) : bits_f64(value);
}

static uint64_t cut(ppto_dtype dtype, uint64_t value)
{
    unsigned width = pp_dtype_width(dtype);
    return width == 64 ? value : value & (((uint64_t)1 << width) - 1);
}

/* Two's complement of an integer in 64 bits: sign-extended where signed. */
static uint64_t extend(ppto_dtype dtype, uint64_t bits)
{
    bits = cut(dtype, bits);
    unsigned width = pp_dtype_width(dtype);
    bool negative = pp_dtype_kind(dtype) == PP_KIND_INT && (bits >> (width - 1)) != 0;
    return negative && width < 64 ? bits | ~(uint64_t)0 << width : bits;
}

static int64_t to_signed(uint64_t x)
{
    int64_t value;
    memcpy(&value, &x, sizeof value);
    return value;
}

/* ---- integers and bool ----------------------------------------------------------------------- */

static bool integer_less(bool is_signed, uint64_t a, uint64_t b)
{
    return is_signed ? to_signed(a) < to_signed(b) : a < b;
}

/* Quotient toward minus infinity and its remainder; both 0 for b = 0. */
static void floor_divide(bool is_signed, uint64_t a, uint64_t b, uint64_t *quotient, uint64_t *remainder)
{
    *quotient = *remainder = 0;
    if (b == 0) return;
    bool a_negative = is_signed && to_signed(a) < 0, b_negative = is_signed && to_signed(b) < 0;
    uint64_t x = a_negative ? 0 - a : a, y = b_negative ? 0 - b : b; /* magnitudes */
    uint64_t q = x / y, r = x % y;
    if (a_negative == b_negative) {
        *quotient = q;
    } else {
        *quotient = 0 - q - (r != 0 ? 1 : 0);
        if (r != 0) r = y - r;
    }
    *remainder = b_negative ? 0 - r : r;
}

static uint64_t multiply_high(bool is_signed, unsigned width, uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide x = a, y = b;
    if (is_signed && to_signed(a) < 0) x |= ~(wide)0 << 64;
    if (is_signed && to_signed(b) < 0) y |= ~(wide)0 << 64;
    return (uint64_t)(x * y >> width);
}

static uint64_t shift(bool is_signed, unsigned width, uint64_t a, uint64_t n, bool left)
{
    bool negative = is_signed && to_signed(a) < 0;
    if (n >= width) return left || !negative ? 0 : ~(uint64_t)0; /* a negative count is a great one */
    if (left) return a << n;
    return negative ? ~(~a >> n) : a >> n;
}

static uint64_t count_leading_zeros(unsigned width, uint64_t a)
{
    uint64_t n = 0;
    for (unsigned bit = width; bit-- > 0 && (a >> bit & 1) == 0;) n++;
    return n;
}

static uint64_t eval_division(pp_op op, bool is_signed, uint64_t a, uint64_t b)
{
    uint64_t quotient, remainder;
    floor_divide(is_signed, a, b, &quotient, &remainder);
    return op == PP_IDIV ? quotient : remainder;
}

static uint64_t eval_integer(pp_op op, ppto_dtype dtype, uint64_t a, uint64_t b, uint64_t c)
{
    bool is_signed = pp_dtype_kind(dtype) == PP_KIND_INT;
    unsigned width = pp_dtype_width(dtype);
    switch ((int)op) {
    case PP_ADD: return a + b;
    case PP_SUB: return a - b;
    case PP_MUL: return a * b;
    case PP_FMA: return a * b + c;
    case PP_NEG: return 0 - a;
    case PP_ABS: return is_signed && to_signed(a) < 0 ? 0 - a : a;
    case PP_MIN: return integer_less(is_signed, a, b) ? a : b;
    case PP_MAX: return integer_less(is_signed, b, a) ? a : b;
    case PP_IDIV:
    case PP_IMOD: return eval_division(op, is_signed, a, b);
    case PP_MULHI: return multiply_high(is_signed, width, a, b);
    case PP_AND: return a & b;
    case PP_OR: return a | b;
    case PP_XOR: return a ^ b;
    case PP_NOT: return dtype == PPTO_BOOL ? a ^ 1 : ~a;
    case PP_SHL: return shift(is_signed, width, a, b, true);
    case PP_SHR: return shift(is_signed, width, a, b, false);
    case PP_CLZ: return count_leading_zeros(width, a);
    case PP_EQ: return a == b;
    case PP_NE: return a != b;
    case PP_LT: return integer_less(is_signed, a, b);
    case PP_LE: return !integer_less(is_signed, b, a);
    default: return 0;
    }
}

/* ---- floats ---------------------------------------------------------------------------------- */

static bool has_minus(double a)
{
    return a == a && bits_f64(a) >> 63 != 0;
}

static double with_sign(double a, bool minus)
{
    uint64_t magnitude = bits_f64(a) & ~(uint64_t)0 >> 1;
    return as_f64(magnitude | (uint64_t)minus << 63);
}

static double smaller(double a, double b)
{
    if (a != a) return a;
    if (b != b) return b;
    if (a == b) return has_minus(a) ? a : b;
    return a < b ? a : b;
}

static double greater(double a, double b)
{
    if (a != a) return a;
    if (b != b) return b;
    if (a == b) return has_minus(a) ? b : a;
    return a > b ? a : b;
}

/* Clears the bits of the significand that stand for less than 1. */
static double integer_part(double a)
{
    uint64_t bits = bits_f64(a);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    if (exponent < 0) return with_sign(0, has_minus(a));
    if (exponent >= 52) return a; /* an integer, infinite or NaN */
    return as_f64(bits & ~(((uint64_t)1 << (52 - exponent)) - 1));
}

static double round_up_or_down(pp_op op, double a)
{
    double whole = integer_part(a), rest = a - whole; /* exact; NaN for infinities, which is no rest below */
    double away = whole + (has_minus(a) ? -1.0 : 1.0);
    bool up = false;
    if (op == PP_FLOOR) up = rest < 0;
    if (op == PP_CEIL) up = rest > 0;
    if (op == PP_RINT) {
        double size = with_sign(rest, false), half = integer_part(whole * 0.5) * 2;
        up = size > 0.5 || (size == 0.5 && half != whole); /* ties to even */
    }
    return with_sign(up ? away : whole, has_minus(a));
}

/* A finite |a| = significand * 2^exponent. */
static uint64_t take_apart(double a, int *exponent)
{
    uint64_t bits = bits_f64(a) & ~(uint64_t)0 >> 1, field = bits >> 52,
             fraction = bits & (((uint64_t)1 << 52) - 1);
    *exponent = (int)(field == 0 ? 1 : field) - 1075;
    return field == 0 ? fraction : fraction | (uint64_t)1 << 52;
}

/* significand * 2^exponent, exact in f64. */
static double put_together(uint64_t significand, int exponent)
{
    double value = (double)significand;
    for (; exponent > 0; exponent--) value *= 2;
    for (; exponent < 0; exponent++) value *= 0.5;
    return value;
}

static bool is_finite(double a)
{
    return a - a == 0;
}

/* Division by hand, one bit at a time. */
static double remainder_of(double a, double b)
{
    if (!is_finite(a) || b == 0 || b != b) return as_f64(pp_dtype_canonical_nan(PPTO_F64));
    if (!is_finite(b)) return a;
    if (with_sign(a, false) < with_sign(b, false)) return a;
    int ea, eb; /* ea >= eb now */
    uint64_t r = take_apart(a, &ea), m = take_apart(b, &eb);
    r %= m;
    for (; ea > eb; ea--) r = (r << 1) % m;
    return with_sign(put_together(r, eb), has_minus(a));
}

/* a * b + c rounded once, without fmaf of the C library: Boldo and Melquiond, "Emulation of FMA and correctly
 * rounded sums: proved algorithms using rounding to odd", IEEE Transactions on Computers 57(4), 2008. In f64
 * the product of two f32 is exact. The sum is rounded to odd: one that is not exact is to have a last bit of
 * 1, and takes the neighbour on the side of its error (by two-sum) where it has none. With 53 bits for 24 the
 * second rounding then sees on which side of a tie the sum lies, among the subnormals too. */
static float fma_of(float a, float b, float c)
{
    double product = (double)a * (double)b, sum = product + (double)c, back = sum - product;
    double error = (product - (sum - back)) + ((double)c - back);
    if (!is_finite(sum) || error == 0 || (bits_f64(sum) & 1) != 0) return (float)sum;
    return (float)as_f64(bits_f64(sum) + (has_minus(error) == has_minus(sum) ? 1u : ~(uint64_t)0));
}

static uint64_t eval_rounded_f32(pp_op op, float a, float b, float c)
{
    float r = a;
    if (op == PP_ADD) r = a + b;
    if (op == PP_SUB) r = a - b;
    if (op == PP_MUL) r = a * b;
    if (op == PP_DIV) r = a / b;
    if (op == PP_FMA) r = fma_of(a, b, c);
    if (op == PP_SQRT) r = __builtin_sqrtf(a);
    return r == r ? bits_f32(r) : pp_dtype_canonical_nan(PPTO_F32);
}

static uint64_t eval_rounded_f64(pp_op op, double a, double b, double c)
{
    double r = a;
    if (op == PP_ADD) r = a + b;
    if (op == PP_SUB) r = a - b;
    if (op == PP_MUL) r = a * b;
    if (op == PP_DIV) r = a / b;
    if (op == PP_FMA) r = __builtin_fma(a, b, c);
    if (op == PP_SQRT) r = __builtin_sqrt(a);
    return r == r ? bits_f64(r) : pp_dtype_canonical_nan(PPTO_F64);
}

/* Operations whose result is exact in the operands' dtype. */
static double eval_exact(pp_op op, double a, double b)
{
    switch ((int)op) {
    case PP_NEG: return with_sign(a, !has_minus(a));
    case PP_ABS: return with_sign(a, false);
    case PP_COPYSIGN: return with_sign(a, has_minus(b));
    case PP_MIN: return smaller(a, b);
    case PP_MAX: return greater(a, b);
    case PP_TRUNC: return integer_part(a);
    case PP_RINT:
    case PP_FLOOR:
    case PP_CEIL: return is_finite(a) ? round_up_or_down(op, a) : a;
    case PP_FMOD: return remainder_of(a, b);
    default: return 0;
    }
}

static uint64_t eval_float(pp_op op, ppto_dtype dtype, uint64_t abits, uint64_t bbits, uint64_t cbits)
{
    double a = load_float(dtype, abits), b = load_float(dtype, bbits);
    switch ((int)op) {
    case PP_ADD:
    case PP_SUB:
    case PP_MUL:
    case PP_DIV:
    case PP_FMA:
    case PP_SQRT:
        if (dtype == PPTO_F32) return eval_rounded_f32(op, as_f32(abits), as_f32(bbits), as_f32(cbits));
        return eval_rounded_f64(op, a, b, as_f64(cbits));
    case PP_SIGNBIT: return has_minus(a);
    case PP_EQ: return a == b;
    case PP_NE: return a != b;
    case PP_LT: return a < b;
    case PP_LE: return a <= b;
    default: return store_float(dtype, eval_exact(op, a, b));
    }
}

/* ---- casts ----------------------------------------------------------------------------------- */

/* magnitude rounded to `precision` significant bits, ties to even, as a double (exact for up to 53). */
static double round_integer(uint64_t magnitude, int precision)
{
    int length = 64 - (int)count_leading_zeros(64, magnitude), dropped = length - precision;
    if (dropped <= 0) return (double)magnitude;
    uint64_t kept = magnitude >> dropped, rest = magnitude & (((uint64_t)1 << dropped) - 1);
    uint64_t half = (uint64_t)1 << (dropped - 1);
    if (rest > half || (rest == half && (kept & 1) != 0)) kept++;
    return put_together(kept, dropped);
}

static uint64_t integer_to_float(ppto_dtype from, ppto_dtype to, uint64_t a)
{
    bool minus = pp_dtype_kind(from) == PP_KIND_INT && to_signed(a) < 0;
    double size = round_integer(minus ? 0 - a : a, to == PPTO_F32 ? 24 : 53);
    return store_float(to, minus ? -size : size);
}

static uint64_t float_to_integer(ppto_dtype to, double a)
{
    unsigned width = pp_dtype_width(to);
    bool is_signed = pp_dtype_kind(to) == PP_KIND_INT, minus = has_minus(a);
    uint64_t most = ~(uint64_t)0 >> (64 - width + (is_signed ? 1 : 0));
    uint64_t limit = minus ? (is_signed ? most + 1 : 0) : most; /* greatest magnitude */
    if (a != a) return 0;
    double whole = with_sign(integer_part(a), false);
    if (whole >= 0x1p64) return minus ? 0 - limit : limit;
    int exponent;
    uint64_t size = take_apart(whole, &exponent);
    for (; exponent < 0; exponent++) size >>= 1;
    for (; exponent > 0; exponent--) size <<= 1;
    if (size > limit) size = limit;
    return minus ? 0 - size : size;
}

static uint64_t eval_cast(ppto_dtype from, ppto_dtype to, uint64_t bits)
{
    if (pp_dtype_is_float(from)) {
        double a = load_float(from, bits);
        if (to == PPTO_BOOL) return a != 0;
        if (!pp_dtype_is_float(to)) return cut(to, float_to_integer(to, a));
        return store_float(to, a); /* the one rounding of f64 to f32 is C's */
    }
    uint64_t a = extend(from, bits);
    if (to == PPTO_BOOL) return a != 0;
    return pp_dtype_is_float(to) ? integer_to_float(from, to, a) : cut(to, a);
}

static uint64_t eval_bitcast(ppto_dtype from, ppto_dtype to, uint64_t bits)
{
    bool nan = pp_dtype_is_float(from) && load_float(from, bits) != load_float(from, bits);
    return cut(to, nan ? pp_dtype_canonical_nan(from) : bits);
}

uint64_t pp_scalar_eval(pp_op op, ppto_dtype from, ppto_dtype to, uint64_t a, uint64_t b, uint64_t c)
{
    if (op == PP_SELECT) return cut(to, a != 0 ? b : c);
    if (op == PP_CAST) return eval_cast(from, to, a);
    if (op == PP_BITCAST) return eval_bitcast(from, to, a);
    if (pp_dtype_is_float(from)) return eval_float(op, from, a, b, c);
    return cut(to, eval_integer(op, from, extend(from, a), extend(from, b), extend(from, c)));
}
