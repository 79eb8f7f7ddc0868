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

#define THIN_ARGS size_t kc, size_t n, const void *a, size_t a_step, const void *b, int64_t b_step, void *c
#define AT_STEP(d, base, step, k)                                                                            \
    ((const pp_at_##d *)(const void *)((const char *)(base) + (int64_t)(k) * (step)))

#if PP_VECTOR_BYTES == 64
#define VECTOR_f32 __m512
#define VECTOR_f64 __m512d
#define MASK_f32 __mmask16
#define MASK_f64 __mmask8
#define INTRINSIC(name, suffix) _mm512_##name##_##suffix
#define LOAD_MASKED(suffix, mask, at) _mm512_maskz_loadu_##suffix(mask, at)
#define STORE_MASKED(suffix, mask, at, v) _mm512_mask_storeu_##suffix(at, mask, v)
static inline MASK_f32 mask_f32(size_t n)
{
    return (MASK_f32)((1u << n) - 1);
}
static inline MASK_f64 mask_f64(size_t n)
{
    return (MASK_f64)((1u << n) - 1);
}
#elif PP_VECTOR_BYTES == 32
#define VECTOR_f32 __m256
#define VECTOR_f64 __m256d
#define MASK_f32 __m256i
#define MASK_f64 __m256i
#define INTRINSIC(name, suffix) _mm256_##name##_##suffix
#define LOAD_MASKED(suffix, mask, at) _mm256_maskload_##suffix((const void *)(at), mask)
#define STORE_MASKED(suffix, mask, at, v) _mm256_maskstore_##suffix((void *)(at), mask, v)
static inline MASK_f32 mask_f32(size_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline MASK_f64 mask_f64(size_t n)
{
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x((long long)n), _mm256_setr_epi64x(0, 1, 2, 3));
}
#endif

#if PP_VECTOR_BYTES > 16
#define AHEAD 8 /* rows of a packed B, which comes from the second cache */
#define C_AT(d, suffix, i, j)                                                                                \
    (j + 1 == NV ? LOAD_MASKED(suffix, more, c + i * ldc + j * W)                                            \
                 : INTRINSIC(loadu, suffix)((const void *)(c + i * ldc + j * W)))
/* The tile of MR rows and NV vectors, of which the last has `more` columns. Rows of A are reached from every
 * third one, so that four pointers and one distance are enough. */
#define TILE_SHAPE(d, suffix)                                                                                \
    static inline __attribute__((always_inline)) void shape_##d(const pp_tile_job *job, const size_t MR,     \
                                                                const size_t NV)                             \
    {                                                                                                        \
        enum { W = PP_VECTOR_BYTES / sizeof(pp_##d), MOST = PP_TILE_ROWS_FLOAT };                            \
        const MASK_##d more = mask_##d(job->cols - (NV - 1) * W);                                            \
        const int64_t row = job->a_row, a_step = job->a_step, b_step = job->b_step;                          \
        const size_t ldc = job->ldc;                                                                         \
        const int64_t wide = (int64_t)(NV * PP_VECTOR_BYTES), ahead = b_step > wide ? wide : AHEAD * wide;   \
        pp_at_##d *const c = job->c;                                                                         \
        const char *pa[(MOST + 2) / 3], *pb = job->b;                                                        \
        VECTOR_##d acc[MOST][2];                                                                             \
        UNROLL for (size_t i = 0; i < MR; i += 3) pa[i / 3] = (const char *)job->a + (int64_t)i * row;       \
        UNROLL for (size_t i = 0; i < MR; i++) UNROLL for (size_t j = 0; j < NV; j++) acc[i][j] =            \
            INTRINSIC(setzero, suffix)();                                                                    \
        if (job->first) {                                                                                    \
            UNROLL for (size_t i = 0; i < MR; i++) UNROLL for (size_t j = 0; j < NV; j++)                    \
                __builtin_prefetch(c + i * ldc + j * W, 1);                                                  \
        } else {                                                                                             \
            UNROLL for (size_t i = 0; i < MR; i++) UNROLL for (size_t j = 0; j < NV; j++)                    \
                __builtin_prefetch(c + (MR + i) * ldc + j * W, 1);                                           \
            UNROLL for (size_t i = 0; i < MR; i++) UNROLL for (size_t j = 0; j < NV; j++) acc[i][j] =        \
                C_AT(d, suffix, i, j);                                                                       \
        }                                                                                                    \
        for (size_t k = job->k; k > 0; k--, pb += b_step) {                                                  \
            VECTOR_##d y[2];                                                                                 \
            UNROLL for (size_t j = 0; j < NV; j++) __builtin_prefetch(pb + ahead + j * PP_VECTOR_BYTES);     \
            UNROLL for (size_t j = 0; j < NV; j++) y[j] =                                                    \
                j + 1 == NV ? LOAD_MASKED(suffix, more, AT_STEP(d, pb, PP_VECTOR_BYTES, j))                  \
                            : INTRINSIC(loadu, suffix)((const void *)(pb + j * PP_VECTOR_BYTES));            \
            UNROLL for (size_t i = 0; i < MR; i++)                                                           \
            {                                                                                                \
                const VECTOR_##d x = INTRINSIC(set1, suffix)(*AT_STEP(d, pa[i / 3], row, i % 3));            \
                UNROLL for (size_t j = 0; j < NV; j++) acc[i][j] =                                           \
                    INTRINSIC(fmadd, suffix)(x, y[j], acc[i][j]);                                            \
            }                                                                                                \
            UNROLL for (size_t i = 0; i < MR; i += 3) pa[i / 3] += a_step;                                   \
        }                                                                                                    \
        if (job->joins) {                                                                                    \
            UNROLL for (size_t i = 0; i < MR; i++) UNROLL for (size_t j = 0; j < NV; j++) acc[i][j] =        \
                INTRINSIC(add, suffix)(C_AT(d, suffix, i, j), acc[i][j]);                                    \
        }                                                                                                    \
        if (job->last) {                                                                                     \
            UNROLL for (size_t i = 0; i < MR; i++) UNROLL for (size_t j = 0; j < NV; j++) acc[i][j] =        \
                INTRINSIC(add, suffix)(acc[i][j], INTRINSIC(setzero, suffix)());                             \
        }                                                                                                    \
        UNROLL for (size_t i = 0; i < MR; i++)                                                               \
        {                                                                                                    \
            UNROLL for (size_t j = 0; j + 1 < NV; j++)                                                       \
                INTRINSIC(storeu, suffix)((void *)(c + i * ldc + j * W), acc[i][j]);                         \
            STORE_MASKED(suffix, more, c + i * ldc + (NV - 1) * W, acc[i][NV - 1]);                          \
        }                                                                                                    \
    }
#define TILE_CASE(d, rows)                                                                                   \
    case rows:                                                                                               \
        if (narrow)                                                                                          \
            shape_##d(job, rows, 1);                                                                         \
        else                                                                                                 \
            shape_##d(job, rows, 2);                                                                         \
        break;
#if PP_TILE_ROWS_FLOAT == 12
#define TILE_CASES(d)                                                                                        \
    TILE_CASE(d, 12)                                                                                         \
    TILE_CASE(d, 11)                                                                                         \
    TILE_CASE(d, 10) TILE_CASE(d, 9) TILE_CASE(d, 8) TILE_CASE(d, 7) TILE_CASE(d, 6) TILE_CASES_6(d)
#else
#define TILE_CASES(d) TILE_CASE(d, 6) TILE_CASES_6(d)
#endif
#define TILE_CASES_6(d) TILE_CASE(d, 5) TILE_CASE(d, 4) TILE_CASE(d, 3) TILE_CASE(d, 2) TILE_CASE(d, 1)
#define TILE_FLOAT(d, suffix)                                                                                \
    TILE_SHAPE(d, suffix)                                                                                    \
    void PP_TILE(d)(const pp_tile_job *job)                                                                  \
    {                                                                                                        \
        const bool narrow = job->cols <= PP_VECTOR_BYTES / sizeof(pp_##d);                                   \
        switch (job->rows) {                                                                                 \
            TILE_CASES(d)                                                                                    \
        }                                                                                                    \
    }
#else
#define TILE_FLOAT(d, suffix)                                                                                \
    static inline __attribute__((always_inline)) void shape_##d(const pp_tile_job *job, const size_t rows,   \
                                                                const size_t cols)                           \
    {                                                                                                        \
        enum { MR = PP_TILE_ROWS_FLOAT, NR = 2 * PP_VECTOR_BYTES / sizeof(pp_##d) };                         \
        pp_##d acc[MR][NR];                                                                                  \
        for (size_t i = 0; i < rows; i++)                                                                    \
            for (size_t j = 0; j < cols; j++)                                                                \
                acc[i][j] = job->first ? 0 : ((const pp_at_##d *)job->c + i * job->ldc)[j];                  \
        for (size_t k = 0; k < job->k; k++) {                                                                \
            const pp_at_##d *const y = AT_STEP(d, job->b, job->b_step, k);                                   \
            const char *const x = (const char *)job->a + (int64_t)k * job->a_step;                           \
            for (size_t i = 0; i < rows; i++)                                                                \
                PP_INDEPENDENT for (size_t j = 0; j < cols; j++) acc[i][j] =                                 \
                    pp_op_fma_##d(*AT_STEP(d, x, job->a_row, i), y[j], acc[i][j]);                           \
        }                                                                                                    \
        for (size_t i = 0; i < rows; i++)                                                                    \
            for (size_t j = 0; j < cols; j++) {                                                              \
                pp_at_##d *const at = (pp_at_##d *)job->c + i * job->ldc + j;                                \
                const pp_##d x = job->joins ? *at + acc[i][j] : acc[i][j];                                   \
                *at = job->last ? x + 0 : x;                                                                 \
            }                                                                                                \
    }                                                                                                        \
    void PP_TILE(d)(const pp_tile_job *job)                                                                  \
    {                                                                                                        \
        enum { MR = PP_TILE_ROWS_FLOAT, NR = 2 * PP_VECTOR_BYTES / sizeof(pp_##d) };                         \
        if (job->rows == MR && job->cols == NR)                                                              \
            shape_##d(job, MR, NR);                                                                          \
        else                                                                                                 \
            shape_##d(job, job->rows, job->cols);                                                            \
    }
#endif

TILE_FLOAT(f32, ps)
TILE_FLOAT(f64, pd)

/* Four products a pass: C goes to and from L1 once for them. */
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

/* U: the unsigned type of the same width, so that products and sums wrap. Factors are packed and padded: what
 * lies beyond the rows and columns asked for is computed and left out. */
#define TILE_INT(d, U)                                                                                       \
    typedef pp_##U vector_##d __attribute__((vector_size(PP_VECTOR_BYTES), aligned(1), may_alias));          \
    void PP_TILE(d)(const pp_tile_job *job)                                                                  \
    {                                                                                                        \
        enum { MR = PP_TILE_ROWS_INT, NV = PP_TILE_VECTORS(d) };                                             \
        const pp_at_##U *pa = job->a;                                                                        \
        const vector_##d *pb = job->b;                                                                       \
        vector_##d acc[MR][NV];                                                                              \
        memset(acc, 0, sizeof acc);                                                                          \
        for (size_t i = 0; !job->first && i < job->rows; i++)                                                \
            memcpy(acc[i], (const pp_at_##U *)job->c + i * job->ldc, job->cols * sizeof(pp_##U));            \
        vector_##d sum[MR][NV];                                                                              \
        UNROLL for (size_t i = 0; i < MR; i++) UNROLL for (size_t j = 0; j < NV; j++) sum[i][j] = acc[i][j]; \
        for (size_t k = 0; k < job->k; k++, pa += MR, pb += NV)                                              \
            UNROLL for (size_t i = 0; i < MR; i++) UNROLL for (size_t j = 0; j < NV; j++) sum[i][j] +=       \
                (pp_##U)pa[i] * pb[j];                                                                       \
        UNROLL for (size_t i = 0; i < MR; i++) UNROLL for (size_t j = 0; j < NV; j++) acc[i][j] = sum[i][j]; \
        for (size_t i = 0; i < job->rows; i++)                                                               \
            memcpy((pp_at_##U *)job->c + i * job->ldc, acc[i], job->cols * sizeof(pp_##U));                  \
    }
TILE_INT(i8, u8)
TILE_INT(i16, u16)
TILE_INT(i32, u32)
TILE_INT(i64, u64)
TILE_INT(u8, u8)
TILE_INT(u16, u16)
TILE_INT(u32, u32)
TILE_INT(u64, u64)
