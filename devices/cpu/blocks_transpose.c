/* SPDX-License-Identifier: Apache-2.0
 * The transposing copy: columns whose elements lie together in memory become rows. Sixteen bytes of each of a
 * vector's worth of columns are loaded (as many columns as two lanes of 16 bytes hold), transposed inside the
 * lanes by rounds of interleaving, and stored as pieces of rows: log2(16 / size) rounds, all of them cheap
 * in-lane shuffles. Two lanes also on AVX-512: twice as many columns would be more than the ways of an L1
 * whose sets collide at power-of-two strides. What does not fill two lanes goes through one, what does not
 * fill that element by element. Consecutive
 * blocks walk down the columns, so that each cache line is read to its end while it is there. */
#include "devices/cpu/blocks_simd.h"

#if defined(__SSE2__)
#include <immintrin.h>

typedef __m128i narrow;
#define NARROW_LOAD(x, by) _mm_loadu_si128((const __m128i *)(const void *)(x))
#define NARROW_STORE(o, v) _mm_storeu_si128((__m128i *)(void *)(o), v)
#define NARROW_lo(bits) _mm_unpacklo_epi##bits
#define NARROW_hi(bits) _mm_unpackhi_epi##bits

#if PP_VECTOR_BYTES > 16
#define LANES 2u
typedef __m256i wide;
/* Lane l: 16 bytes of the column l * by after the one at x. */
#define WIDE_LOAD(x, by)                                                                                     \
    _mm256_inserti128_si256(_mm256_castsi128_si256(NARROW_LOAD(x, 0)), NARROW_LOAD((x) + (by), 0), 1)
#define WIDE_STORE(o, v) _mm256_storeu_si256((__m256i *)(void *)(o), v)
#define WIDE_lo(bits) _mm256_unpacklo_epi##bits
#define WIDE_hi(bits) _mm256_unpackhi_epi##bits
#else
#define LANES 1u
#endif

#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* E rows of E columns for each lane of a vector. A round puts the elements of v[i] and v[i + E/2] side by
 * side; after log2 E rounds v[r] holds row r. */
#define BLOCK_OF(vector, V, size, bits, ROUNDS)                                                              \
    static inline void vector##_##size(char *o, size_t o_stride, const char *x, int64_t x_stride)            \
    {                                                                                                        \
        enum { E = 16 / size };                                                                              \
        vector v[E], w[E];                                                                                   \
        UNROLL for (int i = 0; i < E; i++) v[i] = V##_LOAD(x + i * x_stride, E * x_stride);                  \
        UNROLL for (int round = 0; round < ROUNDS; round++)                                                  \
        {                                                                                                    \
            UNROLL for (int i = 0; i < E / 2; i++)                                                           \
            {                                                                                                \
                w[2 * i] = V##_lo(bits)(v[i], v[i + E / 2]);                                                 \
                w[2 * i + 1] = V##_hi(bits)(v[i], v[i + E / 2]);                                             \
            }                                                                                                \
            UNROLL for (int i = 0; i < E; i++) v[i] = w[i];                                                  \
        }                                                                                                    \
        UNROLL for (int i = 0; i < E; i++) V##_STORE(o + (size_t)i * o_stride, v[i]);                        \
    }
#if PP_VECTOR_BYTES > 16
#define BLOCK(size, bits, ROUNDS)                                                                            \
    BLOCK_OF(wide, WIDE, size, bits, ROUNDS) BLOCK_OF(narrow, NARROW, size, bits, ROUNDS)
#define block(size) wide_##size
#else
#define BLOCK(size, bits, ROUNDS) BLOCK_OF(narrow, NARROW, size, bits, ROUNDS)
#define block(size) narrow_##size
#endif
#else
#define LANES 1u
#define BLOCK(size, bits, ROUNDS)                                                                            \
    static inline void narrow_##size(char *o, size_t o_stride, const char *x, int64_t x_stride)              \
    {                                                                                                        \
        enum { E = 16 / size };                                                                              \
        for (int i = 0; i < E; i++)                                                                          \
            for (int j = 0; j < E; j++)                                                                      \
                memcpy(o + (size_t)i * o_stride + j * size, x + j * x_stride + i * size, size);              \
    }
#define block(size) narrow_##size
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
    static void transpose_##size(size_t rows, size_t n, char *out, size_t pitch, const char *in,             \
                                 int64_t col_stride)                                                         \
    {                                                                                                        \
        const size_t E = 16 / size, width = E * LANES;                                                       \
        const size_t row_end = rows - rows % E, wide_end = n - n % width;                                    \
        size_t c = 0;                                                                                        \
        for (; c < wide_end; c += width)                                                                     \
            for (size_t r = 0; r < row_end; r += E) {                                                        \
                const char *x = in + (int64_t)c * col_stride + (int64_t)(r * size);                          \
                if (r * size % 64 == 0)                                                                      \
                    prefetch_columns(x + (int64_t)width * col_stride, width, col_stride);                    \
                block(size)(out + r * pitch + c * size, pitch, x, col_stride);                               \
            }                                                                                                \
        for (; c + E <= n; c += E)                                                                           \
            for (size_t r = 0; r < row_end; r += E)                                                          \
                narrow_##size(out + r * pitch + c * size, pitch,                                             \
                              in + (int64_t)c * col_stride + (int64_t)(r * size), col_stride);               \
        const size_t col_end = c;                                                                            \
        for (c = 0; c < n; c++) {                                                                            \
            const pp_at_##d *x = (const pp_at_##d *)(const void *)(in + (int64_t)c * col_stride);            \
            char *o = out + c * size;                                                                        \
            for (size_t r = c < col_end ? row_end : 0; r < rows; r++)                                        \
                *(pp_at_##d *)(void *)(o + r * pitch) = x[r];                                                \
        }                                                                                                    \
    }
TRANSPOSE(1, u8)
TRANSPOSE(2, u16)
TRANSPOSE(4, u32)
TRANSPOSE(8, u64)

void PP_NAME(pp_move_load_transposed)(size_t rows, size_t n, void *out, size_t pitch, const void *in,
                                      int64_t col_stride, size_t size)
{
    switch (size) {
    case 1: transpose_1(rows, n, out, pitch, in, col_stride); break;
    case 2: transpose_2(rows, n, out, pitch, in, col_stride); break;
    case 4: transpose_4(rows, n, out, pitch, in, col_stride); break;
    default: transpose_8(rows, n, out, pitch, in, col_stride); break;
    }
}
