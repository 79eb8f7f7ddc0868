/* SPDX-License-Identifier: Apache-2.0
 * Quotients and remainders of blocks by one divisor: a multiplication and a shift for each element.
 *
 * With n below 2^B and a positive d, floor(n / d) = n * m >> (B + l), where l = ceil(log2 d) and
 * m = floor(2^(B + l) / d) + 1: the error of m is at most 2^l / d, too little to reach the next quotient
 * (Granlund and Montgomery 1994). Signed numbers are floored: where a is negative, floor(a / d) = ~(~a / d),
 * and both a and ~a have one bit less than the type, so that m fits the unsigned type; u8 takes a wider one.
 * A divisor below 2 and the other unsigned types, whose m would not fit, take the loops of the rows. */
#include "devices/cpu/blocks_simd.h"

#define NEGATIVE_u8(a) 0
#define NEGATIVE_i8(a) ((a) < 0)
#define NEGATIVE_i16 NEGATIVE_i8
#define NEGATIVE_i32 NEGATIVE_i8
#define NEGATIVE_i64 NEGATIVE_i8

/* U: an unsigned type of width W; D: of twice the width; M: to multiply in; N: bits of the dividend that
 * count. */
#define DIVIDE(d, U, D, M, W, N)                                                                             \
    typedef struct magic_##d {                                                                               \
        U m;                                                                                                 \
        unsigned shift; /* after the upper half of the product */                                            \
    } magic_##d;                                                                                             \
    static magic_##d find_##d(U by)                                                                          \
    {                                                                                                        \
        unsigned l = 0;                                                                                      \
        while (l < N && ((D)1 << l) < by) l++;                                                               \
        const unsigned bits = N + l < W ? W : N + l;                                                         \
        return (magic_##d){(U)(((D)1 << bits) / by + 1), bits - W};                                          \
    }                                                                                                        \
    static inline pp_##d quotient_##d(pp_##d a, magic_##d by)                                                \
    {                                                                                                        \
        const U sign = (U)(NEGATIVE_##d(a) ? -1 : 0), n = (U)((U)a ^ sign);                                  \
        return (pp_##d)((U)((U)((D)n * by.m >> W) >> by.shift) ^ sign);                                      \
    }                                                                                                        \
    void PP_DIVIDE(idiv, d)(PP_BLOCK_ARGS)                                                                   \
    {                                                                                                        \
        pp_at_##d *o = out;                                                                                  \
        const pp_at_##d *x = a;                                                                              \
        const pp_##d by = *(const pp_at_##d *)b;                                                             \
        if (by < 2) {                                                                                        \
            PP_LOOP(idiv, d, vs)(n, out, a, b, c);                                                           \
            return;                                                                                          \
        }                                                                                                    \
        const magic_##d magic = find_##d((U)by);                                                             \
        PP_INDEPENDENT for (size_t i = 0; i < n; i++) o[i] = quotient_##d(x[i], magic);                      \
    }                                                                                                        \
    void PP_DIVIDE(imod, d)(PP_BLOCK_ARGS)                                                                   \
    {                                                                                                        \
        pp_at_##d *o = out;                                                                                  \
        const pp_at_##d *x = a;                                                                              \
        const pp_##d by = *(const pp_at_##d *)b;                                                             \
        if (by < 2) {                                                                                        \
            PP_LOOP(imod, d, vs)(n, out, a, b, c);                                                           \
            return;                                                                                          \
        }                                                                                                    \
        const magic_##d magic = find_##d((U)by);                                                             \
        PP_INDEPENDENT for (size_t i = 0; i < n; i++)                                                        \
        {                                                                                                    \
            const pp_##d q = quotient_##d(x[i], magic);                                                      \
            o[i] = (pp_##d)((M)x[i] - (M)q * (M)by);                                                         \
        }                                                                                                    \
    }
DIVIDE(u8, pp_u16, pp_u32, pp_u32, 16u, 8u)
DIVIDE(i8, pp_u8, pp_u32, pp_u32, 8u, 7u)
DIVIDE(i16, pp_u16, pp_u32, pp_u32, 16u, 15u)
DIVIDE(i32, pp_u32, pp_u64, pp_u32, 32u, 31u)
DIVIDE(i64, pp_u64, pp_u128, pp_u64, 64u, 63u)
