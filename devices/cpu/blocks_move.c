/* SPDX-License-Identifier: Apache-2.0
 * Loops that move elements without computing: fill, table look-up, strided copies, streaming stores, and the
 * test of a mask. Elements are handled as unsigned integers of their size, which keeps every bit of a float.
 * Strides that compilers vectorise (0, one element, two elements, reversed) have loops of their own; the rest
 * goes element by element, which is as fast as the gathers of today's machines. */
#include "devices/cpu/blocks_simd.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

/* ---- fill --------------------------------------------------------------------------------------- */

#define FILL(d)                                                                                              \
    static void fill_##d(size_t n, void *out, const void *value)                                             \
    {                                                                                                        \
        pp_at_##d *o = out;                                                                                  \
        const pp_##d x = *(const pp_at_##d *)value;                                                          \
        for (size_t i = 0; i < n; i++) o[i] = x;                                                             \
    }
FILL(u16)
FILL(u32)
FILL(u64)

void PP_NAME(pp_move_fill)(size_t n, void *out, const void *value, size_t size)
{
    if (n == 0) return; /* and the value may lie nowhere */
    switch (size) {
    case 1: memset(out, *(const uint8_t *)value, n); break;
    case 2: fill_u16(n, out, value); break;
    case 4: fill_u32(n, out, value); break;
    default: fill_u64(n, out, value); break;
    }
}

/* ---- tables ------------------------------------------------------------------------------------- */

/* Not vectorised (the empty assembly forbids it): a gather takes twice the time of the loads it stands for.
 */
#define TABLE(d)                                                                                             \
    static void table_##d(size_t n, void *out, const void *table, uint32_t mask, const pp_at_u32 *idx)       \
    {                                                                                                        \
        pp_at_##d *o = out;                                                                                  \
        const pp_at_##d *t = table;                                                                          \
        for (size_t i = 0; i < n; i++) {                                                                     \
            o[i] = t[idx[i] & mask];                                                                         \
            __asm__ volatile("");                                                                            \
        }                                                                                                    \
    }
TABLE(u32)
TABLE(u64)

#if PP_VECTOR_BYTES > 16
/* Repeats a short table until it has `want` elements: then indices may be taken modulo that. */
static void repeat_table(void *out, const void *table, uint32_t length, uint32_t want, size_t size)
{
    for (uint32_t i = 0; i < want; i += length) memcpy((char *)out + i * size, table, length * size);
}
#endif

#if PP_VECTOR_BYTES == 64
static inline unsigned first_bits(size_t count)
{
    return (1u << count) - 1;
}

/* Four registers of table. A permute of two takes the index modulo their 32 (16) elements, the next bit of
 * the index, moved to the sign, chooses between the halves. */
static void permute_u32(size_t n, void *out, const void *table, uint32_t length, const uint32_t *idx)
{
    pp_at_u32 *o = out;
    uint32_t t[64];
    __m512i v[4];
    repeat_table(t, table, length, 64, sizeof *t);
    for (int k = 0; k < 4; k++) v[k] = _mm512_loadu_si512(t + 16 * k);
    for (size_t i = 0; i < n; i += 16) {
        __mmask16 m = (__mmask16)first_bits(n - i < 16 ? n - i : 16);
        __m512i x = _mm512_maskz_loadu_epi32(m, idx + i);
        __m512i low = _mm512_permutex2var_epi32(v[0], x, v[1]),
                high = _mm512_permutex2var_epi32(v[2], x, v[3]);
        __mmask16 upper = _mm512_movepi32_mask(_mm512_slli_epi32(x, 26));
        _mm512_mask_storeu_epi32(o + i, m, _mm512_mask_blend_epi32(upper, low, high));
    }
}

static void permute_u64(size_t n, void *out, const void *table, uint32_t length, const uint32_t *idx)
{
    pp_at_u64 *o = out;
    uint64_t t[32];
    __m512i v[4];
    repeat_table(t, table, length, 32, sizeof *t);
    for (int k = 0; k < 4; k++) v[k] = _mm512_loadu_si512(t + 8 * k);
    for (size_t i = 0; i < n; i += 8) {
        __mmask8 m = (__mmask8)first_bits(n - i < 8 ? n - i : 8);
        __m512i x = _mm512_cvtepu32_epi64(_mm256_maskz_loadu_epi32(m, idx + i));
        __m512i low = _mm512_permutex2var_epi64(v[0], x, v[1]),
                high = _mm512_permutex2var_epi64(v[2], x, v[3]);
        __mmask8 upper = _mm512_movepi64_mask(_mm512_slli_epi64(x, 59));
        _mm512_mask_storeu_epi64(o + i, m, _mm512_mask_blend_epi64(upper, low, high));
    }
}
#define PERMUTE_u32 64u
#define PERMUTE_u64 32u
#elif PP_VECTOR_BYTES == 32
/* Two registers of table; bit 3 of the index, moved to the sign, picks one. What is left at the end goes one
 * by one. */
static void permute_u32(size_t n, void *out, const void *table, uint32_t length, const uint32_t *idx)
{
    pp_at_u32 *o = out;
    uint32_t t[16];
    size_t i = 0;
    repeat_table(t, table, length, 16, sizeof *t);
    const __m256 low = _mm256_loadu_ps((const float *)t), high = _mm256_loadu_ps((const float *)(t + 8));
    for (; i + 8 <= n; i += 8) {
        __m256i x = _mm256_loadu_si256((const __m256i *)(idx + i));
        __m256 a = _mm256_permutevar8x32_ps(low, x), b = _mm256_permutevar8x32_ps(high, x);
        _mm256_storeu_ps((float *)(o + i),
                         _mm256_blendv_ps(a, b, _mm256_castsi256_ps(_mm256_slli_epi32(x, 28))));
    }
    table_u32(n - i, o + i, t, 15, idx + i);
}
#define PERMUTE_u32 16u
#endif

void PP_NAME(pp_move_table)(size_t n, void *out, const void *table, uint32_t length, const uint32_t *idx,
                            size_t size)
{
#ifdef PERMUTE_u32
    if (size == 4 && length <= PERMUTE_u32) {
        permute_u32(n, out, table, length, idx);
        return;
    }
#endif
#ifdef PERMUTE_u64
    if (size == 8 && length <= PERMUTE_u64) {
        permute_u64(n, out, table, length, idx);
        return;
    }
#endif
    if (size == 4)
        table_u32(n, out, table, length - 1, idx);
    else
        table_u64(n, out, table, length - 1, idx);
}

/* ---- strided copies ----------------------------------------------------------------------------- */

#define STRIDED(d)                                                                                           \
    static void load_##d(size_t n, void *out, const void *in, int64_t stride)                                \
    {                                                                                                        \
        pp_at_##d *o = out;                                                                                  \
        const pp_at_##d *x = in;                                                                             \
        const int64_t size = (int64_t)sizeof *o;                                                             \
        if (stride == 2 * size) {                                                                            \
            PP_INDEPENDENT for (size_t i = 0; i < n; i++) o[i] = x[2 * i];                                   \
        } else if (stride == -size) {                                                                        \
            PP_INDEPENDENT for (size_t i = 0; i < n; i++) o[i] = x[-(int64_t)i];                             \
        } else {                                                                                             \
            const char *at = in;                                                                             \
            for (size_t i = 0; i < n; i++, at += stride) o[i] = *(const pp_at_##d *)(const void *)at;        \
        }                                                                                                    \
    }                                                                                                        \
    static void store_##d(size_t n, void *out, int64_t stride, const void *in)                               \
    {                                                                                                        \
        const pp_at_##d *x = in;                                                                             \
        char *at = out;                                                                                      \
        if (stride == -(int64_t)sizeof *x)                                                                   \
            PP_INDEPENDENT for (size_t i = 0; i < n; i++)((pp_at_##d *)out)[-(int64_t)i] = x[i];             \
        else                                                                                                 \
            for (size_t i = 0; i < n; i++, at += stride) *(pp_at_##d *)(void *)at = x[i];                    \
    }
STRIDED(u8)
STRIDED(u16)
STRIDED(u32)
STRIDED(u64)

void PP_NAME(pp_move_load_strided)(size_t n, void *out, const void *in, int64_t stride, size_t size)
{
    if (n == 0) return;
    if (stride == 0) {
        PP_NAME(pp_move_fill)(n, out, in, size);
    } else if (stride == (int64_t)size) {
        memmove(out, in, n * size);
    } else {
        switch (size) {
        case 1: load_u8(n, out, in, stride); break;
        case 2: load_u16(n, out, in, stride); break;
        case 4: load_u32(n, out, in, stride); break;
        default: load_u64(n, out, in, stride); break;
        }
    }
}

void PP_NAME(pp_move_store_strided)(size_t n, void *out, int64_t stride, const void *in, size_t size)
{
    if (n == 0) return;
    if (stride == (int64_t)size) {
        memmove(out, in, n * size);
    } else {
        switch (size) {
        case 1: store_u8(n, out, stride, in); break;
        case 2: store_u16(n, out, stride, in); break;
        case 4: store_u32(n, out, stride, in); break;
        default: store_u64(n, out, stride, in); break;
        }
    }
}

/* ---- streaming stores --------------------------------------------------------------------------- */

/* Whole cache lines go around the caches; the parts of lines at both ends by ordinary stores. */
void PP_NAME(pp_move_stream)(void *out, const void *in, size_t bytes)
{
#if defined(__SSE2__)
    char *o = out;
    const char *x = in;
    size_t head = (size_t)(-(uintptr_t)o & 63);
    if (head > bytes) head = bytes;
    if (head > 0) memcpy(o, x, head);
    for (o += head, x += head, bytes -= head; bytes >= 64; o += 64, x += 64, bytes -= 64) {
#if PP_VECTOR_BYTES == 64
        _mm512_stream_si512((__m512i *)(void *)o, _mm512_loadu_si512(x));
#elif PP_VECTOR_BYTES == 32
        __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)x);
        __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(x + 32));
        _mm256_stream_si256((__m256i *)(void *)o, a);
        _mm256_stream_si256((__m256i *)(void *)(o + 32), b);
#else
        for (int i = 0; i < 64; i += 16)
            _mm_stream_si128((__m128i *)(void *)(o + i),
                             _mm_loadu_si128((const __m128i *)(const void *)(x + i)));
#endif
    }
    if (bytes > 0) memcpy(o, x, bytes);
#else
    if (bytes > 0) memcpy(out, in, bytes);
#endif
}

void PP_NAME(pp_move_fence)(void)
{
#if defined(__SSE2__)
    _mm_sfence();
#endif
}

/* ---- masks -------------------------------------------------------------------------------------- */

bool PP_NAME(pp_move_any)(size_t n, const uint8_t *mask)
{
    size_t i = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t w[8];
        memcpy(w, mask + i, sizeof w);
        if ((w[0] | w[1] | w[2] | w[3] | w[4] | w[5] | w[6] | w[7]) != 0) return true;
    }
    for (; i < n; i++)
        if (mask[i]) return true;
    return false;
}
