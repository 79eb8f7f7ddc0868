/* SPDX-License-Identifier: Apache-2.0
 * Every scalar primitive as a typed inline function pp_op_<name>_<dtype>: what block loops call.
 *
 * Branch-free where a vectoriser must see through it: conditions become selects, and both sides are always
 * safe to compute. bool is uint8_t 0 or 1, with the suffix b8. No libm call but fma() of f64 on a machine
 * without hardware fma. NaN payloads are free; what looks at the bits of a float (signbit, copysign, bitcast)
 * treats a NaN as the canonical one. Needs -ffp-contract=off -fno-math-errno -fno-trapping-math.
 *
 * Besides the rows of scalar.def: pp_op_bits_f32 and pp_op_from_f32 (raw bits), pp_op_canonical_f32 (for
 * stores to results), and the same for f64. The independent reference is scalar.c. */
#ifndef PP_SCALAR_INLINE_H
#define PP_SCALAR_INLINE_H

#include <stdint.h>

#ifdef __FAST_MATH__
#error "the scalar primitives are exact: do not compile them with -ffast-math"
#endif

#define PP_OP static inline __attribute__((unused))
/* Functions that are one expression of a (and b). */
#define PP_OP_1(R, op, d, expression)                                                                        \
    PP_OP R pp_op_##op##_##d(pp_##d a)                                                                       \
    {                                                                                                        \
        return expression;                                                                                   \
    }
#define PP_OP_2(R, op, d, expression)                                                                        \
    PP_OP R pp_op_##op##_##d(pp_##d a, pp_##d b)                                                             \
    {                                                                                                        \
        return expression;                                                                                   \
    }

typedef uint8_t pp_b8;
typedef int8_t pp_i8;
typedef int16_t pp_i16;
typedef int32_t pp_i32;
typedef int64_t pp_i64;
typedef uint8_t pp_u8;
typedef uint16_t pp_u16;
typedef uint32_t pp_u32;
typedef uint64_t pp_u64;
typedef float pp_f32;
typedef double pp_f64;
__extension__ typedef __int128 pp_i128;
__extension__ typedef unsigned __int128 pp_u128;

/* ---- every dtype ----------------------------------------------------------------------------- */

#define PP_COMPARE(d)                                                                                        \
    PP_OP_2(pp_b8, eq, d, a == b)                                                                            \
    PP_OP_2(pp_b8, ne, d, a != b)                                                                            \
    PP_OP_2(pp_b8, lt, d, a < b)                                                                             \
    PP_OP_2(pp_b8, le, d, a <= b)                                                                            \
    PP_OP pp_##d pp_op_select_##d(pp_b8 c, pp_##d a, pp_##d b)                                               \
    {                                                                                                        \
        return c ? a : b;                                                                                    \
    }
PP_COMPARE(b8)
PP_COMPARE(i8)
PP_COMPARE(i16)
PP_COMPARE(i32)
PP_COMPARE(i64)
PP_COMPARE(u8)
PP_COMPARE(u16)
PP_COMPARE(u32)
PP_COMPARE(u64)
PP_COMPARE(f32)
PP_COMPARE(f64)

/* ---- integers and bool ----------------------------------------------------------------------- */

PP_OP pp_b8 pp_op_and_b8(pp_b8 a, pp_b8 b)
{
    return a & b;
}
PP_OP pp_b8 pp_op_or_b8(pp_b8 a, pp_b8 b)
{
    return a | b;
}
PP_OP pp_b8 pp_op_xor_b8(pp_b8 a, pp_b8 b)
{
    return a ^ b;
}
PP_OP pp_b8 pp_op_not_b8(pp_b8 a)
{
    return a == 0;
}

/* d: dtype; U: unsigned, at least 32 bits, so that nothing is promoted to int; W: width in bits. */
#define PP_INTEGER(d, U, W)                                                                                  \
    PP_OP_2(pp_##d, add, d, (pp_##d)((U)a + (U)b))                                                           \
    PP_OP_2(pp_##d, sub, d, (pp_##d)((U)a - (U)b))                                                           \
    PP_OP_2(pp_##d, mul, d, (pp_##d)((U)a * (U)b))                                                           \
    PP_OP pp_##d pp_op_fma_##d(pp_##d a, pp_##d b, pp_##d c)                                                 \
    {                                                                                                        \
        return (pp_##d)((U)a * (U)b + (U)c);                                                                 \
    }                                                                                                        \
    PP_OP_1(pp_##d, neg, d, (pp_##d)((U)0 - (U)a))                                                           \
    PP_OP_2(pp_##d, min, d, a < b ? a : b)                                                                   \
    PP_OP_2(pp_##d, max, d, a > b ? a : b)                                                                   \
    PP_OP_2(pp_##d, and, d, (pp_##d)(a & b))                                                                 \
    PP_OP_2(pp_##d, or, d, (pp_##d)(a | b))                                                                  \
    PP_OP_2(pp_##d, xor, d, (pp_##d)(a ^ b))                                                                 \
    PP_OP_1(pp_##d, not, d, (pp_##d) ~a)                                                                     \
    PP_OP pp_##d pp_op_shl_##d(pp_##d a, pp_##d n)                                                           \
    {                                                                                                        \
        pp_##d shifted = (pp_##d)((U)a << ((U)n & (W - 1)));                                                 \
        return (U)n < W ? shifted : (pp_##d)0;                                                               \
    }

/* Q: what a quotient is computed in: floats of twice the digits, which vectorise (a quotient that is no
 * integer is further from the next one than their rounding), or the dtype itself. The guarded divisor is
 * never 0 or -1; those two are answered by themselves. */
#define PP_SIGNED(d, U, W, Q)                                                                                \
    PP_INTEGER(d, U, W)                                                                                      \
    PP_OP_1(pp_##d, abs, d, a < 0 ? pp_op_neg_##d(a) : a)                                                    \
    PP_OP pp_##d pp_op_shr_##d(pp_##d a, pp_##d n)                                                           \
    {                                                                                                        \
        return (pp_##d)(a >> ((U)n < W ? (U)n : W - 1));                                                     \
    }                                                                                                        \
    PP_OP pp_##d pp_op_idiv_##d(pp_##d a, pp_##d b)                                                          \
    {                                                                                                        \
        pp_##d s = ((b == 0) | (b == -1)) ? (pp_##d)1 : b;                                                   \
        pp_##d t = (pp_##d)((Q)a / (Q)s);                                                                    \
        pp_##d r = (pp_##d)((U)a - (U)t * (U)s);                                                             \
        pp_##d q = (pp_##d)(t - ((r != 0) & ((r ^ s) < 0)));                                                 \
        return b == 0 ? (pp_##d)0 : b == -1 ? pp_op_neg_##d(a) : q;                                          \
    }                                                                                                        \
    PP_OP pp_##d pp_op_imod_##d(pp_##d a, pp_##d b)                                                          \
    {                                                                                                        \
        pp_##d s = ((b == 0) | (b == -1)) ? (pp_##d)1 : b;                                                   \
        pp_##d t = (pp_##d)((Q)a / (Q)s);                                                                    \
        pp_##d r = (pp_##d)((U)a - (U)t * (U)s);                                                             \
        return ((r != 0) & ((r ^ s) < 0)) ? (pp_##d)(r + s) : r;                                             \
    }

#define PP_UNSIGNED(d, U, W, Q)                                                                              \
    PP_INTEGER(d, U, W)                                                                                      \
    PP_OP_1(pp_##d, abs, d, a)                                                                               \
    PP_OP pp_##d pp_op_shr_##d(pp_##d a, pp_##d n)                                                           \
    {                                                                                                        \
        pp_##d shifted = (pp_##d)(a >> (n & (W - 1)));                                                       \
        return n < W ? shifted : (pp_##d)0;                                                                  \
    }                                                                                                        \
    PP_OP pp_##d pp_op_idiv_##d(pp_##d a, pp_##d b)                                                          \
    {                                                                                                        \
        pp_##d q = (pp_##d)((Q)a / (Q)(b == 0 ? (pp_##d)1 : b));                                             \
        return b == 0 ? (pp_##d)0 : q;                                                                       \
    }                                                                                                        \
    PP_OP pp_##d pp_op_imod_##d(pp_##d a, pp_##d b)                                                          \
    {                                                                                                        \
        pp_##d s = b == 0 ? (pp_##d)1 : b;                                                                   \
        return (pp_##d)((U)a - (U)(pp_##d)((Q)a / (Q)s) * (U)s);                                             \
    }

PP_SIGNED(i8, uint32_t, 8u, pp_f32)
PP_SIGNED(i16, uint32_t, 16u, pp_f32)
PP_SIGNED(i32, uint32_t, 32u, pp_f64)
PP_SIGNED(i64, uint64_t, 64u, pp_i64)
PP_UNSIGNED(u8, uint32_t, 8u, pp_f32)
PP_UNSIGNED(u16, uint32_t, 16u, pp_f32)
PP_UNSIGNED(u32, uint32_t, 32u, pp_f64)
PP_UNSIGNED(u64, uint64_t, 64u, pp_u64)

PP_OP pp_i32 pp_op_mulhi_i32(pp_i32 a, pp_i32 b)
{
    return (pp_i32)(((pp_i64)a * b) >> 32);
}
PP_OP pp_u32 pp_op_mulhi_u32(pp_u32 a, pp_u32 b)
{
    return (pp_u32)(((pp_u64)a * b) >> 32);
}
PP_OP pp_i64 pp_op_mulhi_i64(pp_i64 a, pp_i64 b)
{
    return (pp_i64)(((pp_i128)a * b) >> 64);
}
PP_OP pp_u64 pp_op_mulhi_u64(pp_u64 a, pp_u64 b)
{
    return (pp_u64)(((pp_u128)a * b) >> 64);
}
PP_OP pp_u32 pp_op_clz_u32(pp_u32 a)
{
    return a ? (pp_u32)__builtin_clz(a) : 32u;
}
PP_OP pp_u64 pp_op_clz_u64(pp_u64 a)
{
    return a ? (pp_u64)__builtin_clzll(a) : 64u;
}

/* ---- floats ---------------------------------------------------------------------------------- */

/* min: with a NaN or two zeros the two selections are the two operands, and or-ing them keeps NaN a NaN and
 * any minus sign; otherwise both are the answer. max: and-ing keeps only a common minus sign; a NaN is or-ed
 * in. Two instructions of x86 and one or three logical ones. */
#define PP_FLOAT(d, B, SIGN, NAN_BITS, suffix)                                                               \
    PP_OP B pp_op_bits_##d(pp_##d a)                                                                         \
    {                                                                                                        \
        union {                                                                                              \
            pp_##d value;                                                                                    \
            B bits;                                                                                          \
        } u;                                                                                                 \
        u.value = a;                                                                                         \
        return u.bits;                                                                                       \
    }                                                                                                        \
    PP_OP pp_##d pp_op_from_##d(B bits)                                                                      \
    {                                                                                                        \
        union {                                                                                              \
            B bits;                                                                                          \
            pp_##d value;                                                                                    \
        } u;                                                                                                 \
        u.bits = bits;                                                                                       \
        return u.value;                                                                                      \
    }                                                                                                        \
    PP_OP_1(B, canonical_bits, d, a == a ? pp_op_bits_##d(a) : NAN_BITS)                                     \
    PP_OP_1(pp_##d, canonical, d, pp_op_from_##d(pp_op_canonical_bits_##d(a)))                               \
    PP_OP_2(pp_##d, add, d, a + b)                                                                           \
    PP_OP_2(pp_##d, sub, d, a - b)                                                                           \
    PP_OP_2(pp_##d, mul, d, a *b)                                                                            \
    PP_OP_2(pp_##d, div, d, a / b)                                                                           \
    PP_OP_1(pp_##d, sqrt, d, __builtin_sqrt##suffix(a))                                                      \
    PP_OP_1(pp_##d, neg, d, -a)                                                                              \
    PP_OP_1(pp_##d, abs, d, pp_op_from_##d(pp_op_bits_##d(a) & ~SIGN))                                       \
    PP_OP pp_##d pp_op_copysign_##d(pp_##d a, pp_##d b)                                                      \
    {                                                                                                        \
        B sign = b == b ? pp_op_bits_##d(b) & SIGN : 0;                                                      \
        return pp_op_from_##d((pp_op_bits_##d(a) & ~SIGN) | sign);                                           \
    }                                                                                                        \
    PP_OP_1(pp_b8, signbit, d, (pp_b8)((a == a) & ((pp_op_bits_##d(a) & SIGN) != 0)))                        \
    PP_OP pp_##d pp_op_min_##d(pp_##d a, pp_##d b)                                                           \
    {                                                                                                        \
        pp_##d x = a < b ? a : b, y = b < a ? b : a;                                                         \
        return pp_op_from_##d(pp_op_bits_##d(x) | pp_op_bits_##d(y));                                        \
    }                                                                                                        \
    PP_OP pp_##d pp_op_max_##d(pp_##d a, pp_##d b)                                                           \
    {                                                                                                        \
        pp_##d x = a > b ? a : b, y = b > a ? b : a;                                                         \
        B nan = ((a != a) | (b != b)) ? ~(B)0 : 0;                                                           \
        return pp_op_from_##d((pp_op_bits_##d(x) & pp_op_bits_##d(y)) | nan);                                \
    }

PP_FLOAT(f32, uint32_t, 0x80000000u, 0x7fc00000u, f)
PP_FLOAT(f64, uint64_t, 0x8000000000000000u, 0x7ff8000000000000u, )

#if defined(__SSE4_1__) || defined(__aarch64__)
#define PP_ROUNDING(d, suffix, BIG)                                                                          \
    PP_OP_1(pp_##d, rint, d, __builtin_rint##suffix(a))                                                      \
    PP_OP_1(pp_##d, floor, d, __builtin_floor##suffix(a))                                                    \
    PP_OP_1(pp_##d, ceil, d, __builtin_ceil##suffix(a))                                                      \
    PP_OP_1(pp_##d, trunc, d, __builtin_trunc##suffix(a))
#else
/* Adding and subtracting 2^p rounds to the nearest integer; what is 2^p or greater is an integer already. */
#define PP_ROUNDING(d, suffix, BIG)                                                                          \
    PP_OP pp_##d pp_op_rint_##d(pp_##d a)                                                                    \
    {                                                                                                        \
        pp_##d t = pp_op_abs_##d(a), r = (t + BIG) - BIG;                                                    \
        return pp_op_copysign_##d(t < BIG ? r : t, a);                                                       \
    }                                                                                                        \
    PP_OP pp_##d pp_op_floor_##d(pp_##d a)                                                                   \
    {                                                                                                        \
        pp_##d r = pp_op_rint_##d(a), down = r - 1;                                                          \
        return pp_op_copysign_##d(r > a ? down : r, a);                                                      \
    }                                                                                                        \
    PP_OP pp_##d pp_op_ceil_##d(pp_##d a)                                                                    \
    {                                                                                                        \
        pp_##d r = pp_op_rint_##d(a), up = r + 1;                                                            \
        return pp_op_copysign_##d(r < a ? up : r, a);                                                        \
    }                                                                                                        \
    PP_OP_1(pp_##d, trunc, d, pp_op_copysign_##d(pp_op_floor_##d(pp_op_abs_##d(a)), a))
#endif
PP_ROUNDING(f32, f, 0x1p23f)
PP_ROUNDING(f64, , 0x1p52)

PP_OP pp_f64 pp_op_fma_f64(pp_f64 a, pp_f64 b, pp_f64 c)
{
    return __builtin_fma(a, b, c);
}

#if defined(__FMA__) || defined(__aarch64__)
PP_OP pp_f32 pp_op_fma_f32(pp_f32 a, pp_f32 b, pp_f32 c)
{
    return __builtin_fmaf(a, b, c);
}
#else
/* The f64 product is exact; the sum is rounded to odd, after which rounding to f32 is right. The error of the
 * sum is found by two-sum; where it is not 0 and the last bit is even, the odd neighbour on the error's side
 * is taken. */
PP_OP pp_f32 pp_op_fma_f32(pp_f32 a, pp_f32 b, pp_f32 c)
{
    double p = (double)a * (double)b, z = (double)c;
    double s = p + z, t = s - p;
    double error = (p - (s - t)) + (z - t);
    uint64_t bits = pp_op_bits_f64(s);
    uint64_t outward = (error < 0) == (s < 0) ? 1u : ~(uint64_t)0;
    uint64_t inexact = ((error < 0) | (error > 0)) ? 1u : 0u;
    uint64_t adjust = (inexact & ~bits) ? outward : 0u;
    return (pp_f32)pp_op_from_f64(bits + adjust);
}
#endif

/* Long division of the significands, STEP bits at a time: the remainder stays below the divisor, so that it
 * can be shifted by STEP bits in 64. P: stored bits of the significand. The last product is exact. */
#define PP_FMOD(d, B, P, EXPONENTS, SIGN, STEP)                                                              \
    PP_OP pp_##d pp_op_fmod_##d(pp_##d a, pp_##d b)                                                          \
    {                                                                                                        \
        const B one = (B)1 << P, inf = (B)EXPONENTS << P;                                                    \
        B x = pp_op_bits_##d(a) & ~SIGN, y = pp_op_bits_##d(b) & ~SIGN;                                      \
        if (x >= inf || y > inf || y == 0) return pp_op_from_##d(inf | one >> 1);                            \
        if (x < y) return a;                                                                                 \
        B ex = x >> P, ey = y >> P;                                                                          \
        uint64_t r = ex ? (x & (one - 1)) | one : x, m = ey ? (y & (one - 1)) | one : y;                     \
        B shift = (ex ? ex : 1) - (ey ? ey : 1), low = ey ? ey : 1;                                          \
        for (r %= m; shift > 0 && r > 0;) {                                                                  \
            B step = shift < STEP ? shift : STEP;                                                            \
            r = (r << step) % m;                                                                             \
            shift -= step;                                                                                   \
        }                                                                                                    \
        pp_##d unit = pp_op_from_##d(low > P ? (low - P) << P : (B)1 << (low - 1));                          \
        return pp_op_copysign_##d((pp_##d)r * unit, a);                                                      \
    }
PP_FMOD(f32, uint32_t, 23, 255, 0x80000000u, 40)
PP_FMOD(f64, uint64_t, 52, 2047, 0x8000000000000000u, 11)

/* ---- casts ----------------------------------------------------------------------------------- */

/* What is out of range or NaN converts 0 instead; the bounds are selected afterwards. LEAST and LIMIT are
 * exact. */
#define PP_CAST_FLOAT(f, d, via, LEAST, LIMIT, MIN, MAX)                                                     \
    PP_OP pp_##d pp_op_cast_##f##_##d(pp_##f a)                                                              \
    {                                                                                                        \
        pp_##f inside = ((a > (pp_##f)LEAST) & (a < (pp_##f)LIMIT)) ? a : (pp_##f)0;                         \
        pp_##d r = (pp_##d)(via)inside;                                                                      \
        r = a <= (pp_##f)LEAST ? (pp_##d)MIN : r;                                                            \
        return a >= (pp_##f)LIMIT ? (pp_##d)MAX : r;                                                         \
    }
#define PP_CAST_FLOATS(d, via, LEAST, LIMIT, MIN, MAX)                                                       \
    PP_CAST_FLOAT(f32, d, via, LEAST, LIMIT, MIN, MAX)                                                       \
    PP_CAST_FLOAT(f64, d, via, LEAST, LIMIT, MIN, MAX)
PP_CAST_FLOATS(i8, int32_t, -0x1p7, 0x1p7, INT8_MIN, INT8_MAX)
PP_CAST_FLOATS(i16, int32_t, -0x1p15, 0x1p15, INT16_MIN, INT16_MAX)
PP_CAST_FLOATS(i32, int32_t, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX)
PP_CAST_FLOATS(i64, int64_t, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)
PP_CAST_FLOATS(u8, int32_t, 0, 0x1p8, 0, UINT8_MAX)
PP_CAST_FLOATS(u16, int32_t, 0, 0x1p16, 0, UINT16_MAX)
PP_CAST_FLOATS(u32, uint32_t, 0, 0x1p32, 0, UINT32_MAX)
PP_CAST_FLOATS(u64, uint64_t, 0, 0x1p64, 0, UINT64_MAX)

#define PP_CAST_PLAIN(from, to)                                                                              \
    PP_OP pp_##to pp_op_cast_##from##_##to(pp_##from a)                                                      \
    {                                                                                                        \
        return (pp_##to)a;                                                                                   \
    }
#define PP_CAST_INT(from)                                                                                    \
    PP_OP pp_b8 pp_op_cast_##from##_b8(pp_##from a)                                                          \
    {                                                                                                        \
        return a != 0;                                                                                       \
    }                                                                                                        \
    PP_CAST_PLAIN(from, i8)                                                                                  \
    PP_CAST_PLAIN(from, i16)                                                                                 \
    PP_CAST_PLAIN(from, i32)                                                                                 \
    PP_CAST_PLAIN(from, i64)                                                                                 \
    PP_CAST_PLAIN(from, u8)                                                                                  \
    PP_CAST_PLAIN(from, u16)                                                                                 \
    PP_CAST_PLAIN(from, u32)                                                                                 \
    PP_CAST_PLAIN(from, u64)                                                                                 \
    PP_CAST_PLAIN(from, f32)                                                                                 \
    PP_CAST_PLAIN(from, f64)
PP_CAST_INT(b8)
PP_CAST_INT(i8)
PP_CAST_INT(i16)
PP_CAST_INT(i32)
PP_CAST_INT(i64)
PP_CAST_INT(u8)
PP_CAST_INT(u16)
PP_CAST_INT(u32)
PP_CAST_INT(u64)
PP_OP pp_b8 pp_op_cast_f32_b8(pp_f32 a)
{
    return a != 0;
}
PP_OP pp_b8 pp_op_cast_f64_b8(pp_f64 a)
{
    return a != 0;
}
PP_CAST_PLAIN(f32, f32)
PP_CAST_PLAIN(f32, f64)
PP_CAST_PLAIN(f64, f32)
PP_CAST_PLAIN(f64, f64)

#define PP_BITCAST_PLAIN(from, to)                                                                           \
    PP_OP pp_##to pp_op_bitcast_##from##_##to(pp_##from a)                                                   \
    {                                                                                                        \
        return (pp_##to)a;                                                                                   \
    }
#define PP_BITCAST_INT(i, u)                                                                                 \
    PP_BITCAST_PLAIN(i, i)                                                                                   \
    PP_BITCAST_PLAIN(i, u)                                                                                   \
    PP_BITCAST_PLAIN(u, i)                                                                                   \
    PP_BITCAST_PLAIN(u, u)
#define PP_BITCAST_FLOAT(i, u, f)                                                                            \
    PP_BITCAST_INT(i, u)                                                                                     \
    PP_OP pp_##f pp_op_bitcast_##i##_##f(pp_##i a)                                                           \
    {                                                                                                        \
        return pp_op_from_##f((pp_##u)a);                                                                    \
    }                                                                                                        \
    PP_OP pp_##f pp_op_bitcast_##u##_##f(pp_##u a)                                                           \
    {                                                                                                        \
        return pp_op_from_##f(a);                                                                            \
    }                                                                                                        \
    PP_OP pp_##i pp_op_bitcast_##f##_##i(pp_##f a)                                                           \
    {                                                                                                        \
        return (pp_##i)pp_op_canonical_bits_##f(a);                                                          \
    }                                                                                                        \
    PP_OP pp_##u pp_op_bitcast_##f##_##u(pp_##f a)                                                           \
    {                                                                                                        \
        return pp_op_canonical_bits_##f(a);                                                                  \
    }                                                                                                        \
    PP_OP pp_##f pp_op_bitcast_##f##_##f(pp_##f a)                                                           \
    {                                                                                                        \
        return pp_op_canonical_##f(a);                                                                       \
    }
PP_BITCAST_INT(i8, u8)
PP_BITCAST_INT(i16, u16)
PP_BITCAST_FLOAT(i32, u32, f32)
PP_BITCAST_FLOAT(i64, u64, f64)

#endif
