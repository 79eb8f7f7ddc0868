/* SPDX-License-Identifier: Apache-2.0
 * The transposing copy: columns whose elements lie together in memory become rows. Sixteen bytes of each of a
 * vector's worth of columns are loaded (as many columns as two lanes of 16 bytes hold), transposed inside the
 * lanes by rounds of interleaving, and stored as pieces of rows: log2(16 / size) rounds, all of them cheap
 * in-lane shuffles. Two lanes also on AVX-512: twice as many columns would be more than the ways of an L1
 * whose sets collide at power-of-two strides. What does not fill a block goes element by element. Consecutive
 * blocks walk down the columns, so that each cache line is read to its end while it is there. */
#include "devices/cpu/blocks_simd.h"

#if defined(__SSE2__)
#include <immintrin.h>

#if PP_VECTOR_BYTES > 16
#define LANES 2u
typedef __m256i vector;
#define INTERLEAVE(half, bits) _mm256_unpack##half##_epi##bits
#else
#define LANES 1u
typedef __m128i vector;
#define INTERLEAVE(half, bits) _mm_unpack##half##_epi##bits
#endif

/* Lane l: 16 bytes of the column l * by after the one at x. */
static inline vector load_lanes(const char *x, int64_t by)
{
    __m128i first = _mm_loadu_si128((const __m128i *)(const void *)x);
#if PP_VECTOR_BYTES > 16
    __m128i second = _mm_loadu_si128((const __m128i *)(const void *)(x + by));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
#else
    (void)by;
    return first;
#endif
}

static inline void store_lanes(void *o, vector v)
{
#if PP_VECTOR_BYTES > 16
    _mm256_storeu_si256(o, v);
#else
    _mm_storeu_si128(o, v);
#endif
}

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* E rows of E * LANES columns. A round puts the elements of v[i] and v[i + E/2] side by side; after log2 E
 * rounds v[r] holds row r. */
#define BLOCK(size, bits, ROUNDS)                                                                            \
    static inline void block_##size(char *o, size_t o_stride, const char *x, int64_t x_stride)               \
    {                                                                                                        \
        enum { E = 16 / size };                                                                              \
        vector v[E], w[E];                                                                                   \
        UNROLL for (int i = 0; i < E; i++) v[i] = load_lanes(x + i * x_stride, E * x_stride);                \
        UNROLL for (int round = 0; round < ROUNDS; round++)                                                  \
        {                                                                                                    \
            UNROLL for (int i = 0; i < E / 2; i++)                                                           \
            {                                                                                                \
                w[2 * i] = INTERLEAVE(lo, bits)(v[i], v[i + E / 2]);                                         \
                w[2 * i + 1] = INTERLEAVE(hi, bits)(v[i], v[i + E / 2]);                                     \
            }                                                                                                \
            UNROLL for (int i = 0; i < E; i++) v[i] = w[i];                                                  \
        }                                                                                                    \
        UNROLL for (int i = 0; i < E; i++) store_lanes(o + (size_t)i * o_stride, v[i]);                      \
    }
#else
#define LANES 1u
#define BLOCK(size, bits, ROUNDS)                                                                            \
    static inline void block_##size(char *o, size_t o_stride, const char *x, int64_t x_stride)               \
    {                                                                                                        \
        enum { E = 16 / size };                                                                              \
        for (int i = 0; i < E; i++)                                                                          \
            for (int j = 0; j < E; j++)                                                                      \
                memcpy(o + (size_t)i * o_stride + j * size, x + j * x_stride + i * size, size);              \
    }
#endif
BLOCK(1, 8, 4)
BLOCK(2, 16, 3)
BLOCK(4, 32, 2)
BLOCK(8, 64, 1)

/* The next columns, a line each, while this block is worked on. */
static inline void prefetch_columns(const char *x, size_t count, int64_t col_stride)
{
    for (size_t i = 0; i < count; i++) __builtin_prefetch(x + (int64_t)i * col_stride);
}

#define TRANSPOSE(size, d)                                                                                   \
    static void transpose_##size(size_t rows, size_t n, char *out, const char *in, int64_t col_stride)       \
    {                                                                                                        \
        const size_t E = 16 / size, width = E * LANES;                                                       \
        const size_t row_end = rows - rows % E, col_end = n - n % width;                                     \
        for (size_t c = 0; c < col_end; c += width)                                                          \
            for (size_t r = 0; r < row_end; r += E) {                                                        \
                const char *x = in + (int64_t)c * col_stride + (int64_t)(r * size);                          \
                if (r * size % 64 == 0)                                                                      \
                    prefetch_columns(x + (int64_t)width * col_stride, width, col_stride);                    \
                block_##size(out + (r * n + c) * size, n * size, x, col_stride);                             \
            }                                                                                                \
        for (size_t c = 0; c < n; c++) {                                                                     \
            const pp_at_##d *x = (const pp_at_##d *)(const void *)(in + (int64_t)c * col_stride);            \
            pp_at_##d *o = (pp_at_##d *)(void *)out + c;                                                     \
            for (size_t r = c < col_end ? row_end : 0; r < rows; r++) o[r * n] = x[r];                       \
        }                                                                                                    \
    }
TRANSPOSE(1, u8)
TRANSPOSE(2, u16)
TRANSPOSE(4, u32)
TRANSPOSE(8, u64)

void PP_NAME(pp_move_load_transposed)(size_t rows, size_t n, void *out, const void *in, int64_t col_stride,
                                      size_t size)
{
    switch (size) {
    case 1: transpose_1(rows, n, out, in, col_stride); break;
    case 2: transpose_2(rows, n, out, in, col_stride); break;
    case 4: transpose_4(rows, n, out, in, col_stride); break;
    default: transpose_8(rows, n, out, in, col_stride); break;
    }
}
