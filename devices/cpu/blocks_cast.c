/* SPDX-License-Identifier: Apache-2.0
 * Loops that change the dtype: casts and bit casts of every pair that exists, and the copy with canonical NaN
 * that stores to results use. A cast to wider elements whose out starts where its input does goes through a
 * copy of the input, last block first, so that nothing is overwritten before it is read. */
#include "devices/cpu/blocks_simd.h"

#if PP_VECTOR_BYTES > 16
#include <immintrin.h>
#endif

/* loop converts n elements of `from` bytes to `to` bytes each, from < to, in place. */
static void in_place(size_t n, void *out, const void *in, size_t from, size_t to, pp_block_fn loop)
{
    char aside[1024];
    const size_t most = sizeof aside / from;
    while (n > 0) {
        size_t m = n % most ? n % most : most;
        n -= m;
        memcpy(aside, (const char *)in + n * from, m * from);
        loop(m, (char *)out + n * to, aside, NULL, NULL);
    }
}

#define PAIR(from, to, name)                                                                                 \
    void PP_LOOP_PAIR(name, from, to)(PP_BLOCK_ARGS)                                                         \
    {                                                                                                        \
        pp_at_##to *o = out;                                                                                 \
        const pp_at_##from *x = a;                                                                           \
        (void)b, (void)c;                                                                                    \
        if (sizeof *x < sizeof *o && out == a) {                                                             \
            in_place(n, out, a, sizeof *x, sizeof *o, PP_LOOP_PAIR(name, from, to));                         \
            return;                                                                                          \
        }                                                                                                    \
        PP_INDEPENDENT for (size_t i = 0; i < n; i++) o[i] = pp_op_##name##_##from##_##to(x[i]);             \
    }
PP_EACH_CAST(PAIR, cast)
PP_EACH_BITCAST(PAIR, bitcast)

#define CANONICAL(d, ...)                                                                                    \
    void PP_LOOP_CANONICAL(d)(PP_BLOCK_ARGS)                                                                 \
    {                                                                                                        \
        pp_at_##d *o = out;                                                                                  \
        const pp_at_##d *x = a;                                                                              \
        (void)b, (void)c;                                                                                    \
        PP_INDEPENDENT for (size_t i = 0; i < n; i++) o[i] = pp_op_canonical_##d(x[i]);                      \
    }
PP_EACH_FLOAT(CANONICAL, )

/* Most blocks of a result have no NaN: reading them once is all that a result written at its place costs. One
 * comparison takes two vectors: a pair is unordered when either is a NaN. */
#if PP_VECTOR_BYTES == 64
#define FOUND_f32 __mmask16
#define FOUND_f64 __mmask8
#define NO_NAN(d) 0
#define UNORDERED_f32(found, x, y)                                                                           \
    found |= _mm512_cmp_ps_mask(_mm512_loadu_ps((const void *)(x)), _mm512_loadu_ps((const void *)(y)),      \
                                _CMP_UNORD_Q)
#define UNORDERED_f64(found, x, y)                                                                           \
    found |= _mm512_cmp_pd_mask(_mm512_loadu_pd((const void *)(x)), _mm512_loadu_pd((const void *)(y)),      \
                                _CMP_UNORD_Q)
#define ANY_f32(found) (found != 0)
#define ANY_f64(found) (found != 0)
#elif PP_VECTOR_BYTES == 32
#define FOUND_f32 __m256
#define FOUND_f64 __m256d
#define NO_NAN(d)                                                                                            \
    {                                                                                                        \
        0                                                                                                    \
    }
#define UNORDERED_f32(found, x, y)                                                                           \
    found = _mm256_or_ps(found, _mm256_cmp_ps(_mm256_loadu_ps((const void *)(x)),                            \
                                              _mm256_loadu_ps((const void *)(y)), _CMP_UNORD_Q))
#define UNORDERED_f64(found, x, y)                                                                           \
    found = _mm256_or_pd(found, _mm256_cmp_pd(_mm256_loadu_pd((const void *)(x)),                            \
                                              _mm256_loadu_pd((const void *)(y)), _CMP_UNORD_Q))
#define ANY_f32(found) (_mm256_movemask_ps(found) != 0)
#define ANY_f64(found) (_mm256_movemask_pd(found) != 0)
#endif

#ifdef NO_NAN
#define PAIRS(d)                                                                                             \
    enum { W = PP_VECTOR_BYTES / sizeof(pp_##d) };                                                           \
    FOUND_##d one = NO_NAN(d), two = NO_NAN(d);                                                              \
    for (; i + 4 * W <= n; i += 4 * W) {                                                                     \
        UNORDERED_##d(one, x + i, x + i + W);                                                                \
        UNORDERED_##d(two, x + i + 2 * W, x + i + 3 * W);                                                    \
    }                                                                                                        \
    if (ANY_##d(one) || ANY_##d(two)) return true;
#else
#define PAIRS(d)
#endif

#define HAS_NAN(d, ...)                                                                                      \
    bool PP_HAS_NAN(d)(size_t n, const void *in)                                                             \
    {                                                                                                        \
        const pp_at_##d *x = in;                                                                             \
        unsigned found = 0;                                                                                  \
        size_t i = 0;                                                                                        \
        PAIRS(d)                                                                                             \
        for (; i < n; i++) found |= x[i] != x[i];                                                            \
        return found != 0;                                                                                   \
    }
PP_EACH_FLOAT(HAS_NAN, )

#define COPY(d, ...)                                                                                         \
    void PP_LOOP_CANONICAL(d)(PP_BLOCK_ARGS)                                                                 \
    {                                                                                                        \
        (void)b, (void)c;                                                                                    \
        if (out != a && n > 0) memcpy(out, a, n * sizeof(pp_at_##d));                                        \
    }
PP_EACH_INTB(COPY, )
