/* SPDX-License-Identifier: Apache-2.0
 * Register tiles of the contraction. Every element of C keeps one accumulator that starts from what C holds
 * and takes its products in order of k, one fma each, so the tile's shape does not show in the bits; several
 * rows of two vectors hide the latency of fma. 12 x 2 accumulators, two vectors of B and a broadcast of A
 * fill 27 of the 32 registers of AVX-512, 6 x 2 fill 15 of the 16 of AVX2: what remains per step is two loads
 * of B and an fma with a broadcast each. Without fma in hardware the tile is exact and slow (see
 * pp_op_fma_f32). Integers wrap, so their order is free. */
#include "devices/cpu/blocks_simd.h"

#if PP_VECTOR_BYTES > 16
#include <immintrin.h>
#endif

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#define TILE_ARGS size_t kc, const void *a, const void *b, void *c, size_t ldc
#define THIN_ARGS size_t kc, size_t n, const void *a, size_t a_step, const void *b, int64_t b_step, void *c

#if PP_VECTOR_BYTES == 64
#define VECTOR_f32 __m512
#define VECTOR_f64 __m512d
#define INTRINSIC(name, suffix) _mm512_##name##_##suffix
#elif PP_VECTOR_BYTES == 32
#define VECTOR_f32 __m256
#define VECTOR_f64 __m256d
#define INTRINSIC(name, suffix) _mm256_##name##_##suffix
#endif

#if PP_VECTOR_BYTES > 16
#define TILE_FLOAT(d, suffix)                                                                                \
    void PP_TILE(d)(TILE_ARGS)                                                                               \
    {                                                                                                        \
        enum { MR = PP_TILE_ROWS_FLOAT, NV = 2, W = PP_VECTOR_BYTES / sizeof(pp_##d) };                      \
        const pp_at_##d *pa = a, *pb = b;                                                                    \
        VECTOR_##d acc[MR][NV];                                                                              \
        UNROLL for (size_t i = 0; i < MR; i++) UNROLL for (size_t j = 0; j < NV; j++) acc[i][j] =            \
            INTRINSIC(loadu, suffix)((const void *)((const pp_at_##d *)c + i * ldc + j * W));                \
        for (size_t k = 0; k < kc; k++, pa += MR, pb += NV * W) {                                            \
            VECTOR_##d y[NV];                                                                                \
            UNROLL for (size_t j = 0; j < NV; j++) y[j] =                                                    \
                INTRINSIC(loadu, suffix)((const void *)(pb + j * W));                                        \
            UNROLL for (size_t i = 0; i < MR; i++)                                                           \
            {                                                                                                \
                VECTOR_##d x = INTRINSIC(set1, suffix)(pa[i]);                                               \
                UNROLL for (size_t j = 0; j < NV; j++) acc[i][j] =                                           \
                    INTRINSIC(fmadd, suffix)(x, y[j], acc[i][j]);                                            \
            }                                                                                                \
        }                                                                                                    \
        UNROLL for (size_t i = 0; i < MR; i++) UNROLL for (size_t j = 0; j < NV; j++)                        \
            INTRINSIC(storeu, suffix)((void *)((pp_at_##d *)c + i * ldc + j * W), acc[i][j]);                \
    }
#else
#define TILE_FLOAT(d, suffix)                                                                                \
    void PP_TILE(d)(TILE_ARGS)                                                                               \
    {                                                                                                        \
        enum { MR = PP_TILE_ROWS_FLOAT, NR = 2 * PP_VECTOR_BYTES / sizeof(pp_##d) };                         \
        const pp_at_##d *pa = a, *pb = b;                                                                    \
        pp_##d acc[MR][NR];                                                                                  \
        for (size_t i = 0; i < MR; i++) memcpy(acc[i], (const pp_at_##d *)c + i * ldc, sizeof acc[i]);       \
        for (size_t k = 0; k < kc; k++, pa += MR, pb += NR)                                                  \
            for (size_t i = 0; i < MR; i++)                                                                  \
                PP_INDEPENDENT for (size_t j = 0; j < NR; j++) acc[i][j] =                                   \
                    pp_op_fma_##d(pa[i], pb[j], acc[i][j]);                                                  \
        for (size_t i = 0; i < MR; i++) memcpy((pp_at_##d *)c + i * ldc, acc[i], sizeof acc[i]);             \
    }
#endif

TILE_FLOAT(f32, ps)
TILE_FLOAT(f64, pd)

/* Four products a pass: C goes to and from L1 once for them. */
#define AT_STEP(d, base, step, k)                                                                            \
    ((const pp_at_##d *)(const void *)((const char *)(base) + (int64_t)(k) * (step)))
#define THIN_FLOAT(d)                                                                                        \
    void PP_THIN(d)(THIN_ARGS)                                                                               \
    {                                                                                                        \
        pp_at_##d *const out = c;                                                                            \
        size_t k = 0;                                                                                        \
        for (; k + 4 <= kc; k += 4) {                                                                        \
            const pp_at_##d *const b0 = AT_STEP(d, b, b_step, k), *const b1 = AT_STEP(d, b, b_step, k + 1);  \
            const pp_at_##d *const b2 = AT_STEP(d, b, b_step, k + 2), *const b3 =                            \
                                                                          AT_STEP(d, b, b_step, k + 3);      \
            const pp_##d a0 = *AT_STEP(d, a, (int64_t)a_step, k),                                            \
                         a1 = *AT_STEP(d, a, (int64_t)a_step, k + 1);                                        \
            const pp_##d a2 = *AT_STEP(d, a, (int64_t)a_step, k + 2),                                        \
                         a3 = *AT_STEP(d, a, (int64_t)a_step, k + 3);                                        \
            PP_INDEPENDENT for (size_t j = 0; j < n; j++)                                                    \
            {                                                                                                \
                const pp_##d x = pp_op_fma_##d(a1, b1[j], pp_op_fma_##d(a0, b0[j], out[j]));                 \
                out[j] = pp_op_fma_##d(a3, b3[j], pp_op_fma_##d(a2, b2[j], x));                              \
            }                                                                                                \
        }                                                                                                    \
        for (; k < kc; k++) {                                                                                \
            const pp_at_##d *const b0 = AT_STEP(d, b, b_step, k);                                            \
            const pp_##d a0 = *AT_STEP(d, a, (int64_t)a_step, k);                                            \
            PP_INDEPENDENT for (size_t j = 0; j < n; j++) out[j] = pp_op_fma_##d(a0, b0[j], out[j]);         \
        }                                                                                                    \
    }
THIN_FLOAT(f32)
THIN_FLOAT(f64)

/* U: the unsigned type of the same width, so that products and sums wrap. */
#define TILE_INT(d, U)                                                                                       \
    typedef pp_##U vector_##d __attribute__((vector_size(PP_VECTOR_BYTES), aligned(1), may_alias));          \
    void PP_TILE(d)(TILE_ARGS)                                                                               \
    {                                                                                                        \
        enum { MR = PP_TILE_ROWS_INT, NV = PP_TILE_VECTORS(d), W = PP_VECTOR_BYTES / sizeof(pp_##d) };       \
        const pp_at_##U *pa = a;                                                                             \
        const vector_##d *pb = b;                                                                            \
        vector_##d acc[MR][NV];                                                                              \
        UNROLL for (size_t i = 0; i < MR; i++) UNROLL for (size_t j = 0; j < NV; j++) acc[i][j] =            \
            ((const vector_##d *)(const void *)((const pp_at_##U *)c + i * ldc))[j];                         \
        for (size_t k = 0; k < kc; k++, pa += MR, pb += NV)                                                  \
            UNROLL for (size_t i = 0; i < MR; i++) UNROLL for (size_t j = 0; j < NV; j++) acc[i][j] +=       \
                (pp_##U)pa[i] * pb[j];                                                                       \
        UNROLL for (size_t i = 0; i < MR; i++)                                                               \
            UNROLL for (size_t j = 0; j < NV; j++)((vector_##d *)(void *)((pp_at_##U *)c + i * ldc))[j] =    \
                acc[i][j];                                                                                   \
    }
TILE_INT(i8, u8)
TILE_INT(i16, u16)
TILE_INT(i32, u32)
TILE_INT(i64, u64)
TILE_INT(u8, u8)
TILE_INT(u16, u16)
TILE_INT(u32, u32)
TILE_INT(u64, u64)
