/* SPDX-License-Identifier: Apache-2.0
 * Folds of one primitive whose result does not depend on the order of the elements: the extremes of all
 * numbers, `and` and `or`, and sums of integers, which wrap. The laws fix an order for every fold; these may
 * take any, and so need no lanes, no blocks and no tree.
 *
 * Lanes of four vectors take several elements in one pass. What is left at the end is taken again together
 * with some elements before it, where that changes nothing, else one by one. Floats are compared with one
 * instruction that knows neither NaN nor the sign of zero: a NaN is noted beside it and then is the result,
 * and a result of zero has its sign looked for in a second pass. Sums of narrow integers add up in twice the
 * width (bool in its own), as many at a time as that can hold. */
#include "devices/cpu/blocks_simd.h"

enum { PASS = 8, LINE = 256 }; /* elements of a lane in one pass; bytes of the lanes */
#define LANES(d) (LINE / sizeof(pp_##d))

/* ---- the same element twice changes nothing ------------------------------------------------------------ */

#define IDEMPOTENT(d, name)                                                                                  \
    void PP_REDUCE(name, d)(size_t n, void *out, const void *in)                                             \
    {                                                                                                        \
        const pp_at_##d *x = in;                                                                             \
        const size_t lanes = LANES(d);                                                                       \
        pp_##d s[LANES(d)], best = x[0];                                                                     \
        size_t i = lanes;                                                                                    \
        if (n < lanes) {                                                                                     \
            for (i = 1; i < n; i++) best = pp_op_##name##_##d(best, x[i]);                                   \
            *(pp_at_##d *)out = best;                                                                        \
            return;                                                                                          \
        }                                                                                                    \
        memcpy(s, in, sizeof s);                                                                             \
        for (; i + PASS * lanes <= n; i += PASS * lanes)                                                     \
            for (size_t l = 0; l < LANES(d); l++) {                                                          \
                pp_##d t = s[l];                                                                             \
                for (size_t q = 0; q < PASS; q++) t = pp_op_##name##_##d(t, x[i + q * LANES(d) + l]);        \
                s[l] = t;                                                                                    \
            }                                                                                                \
        for (; i < n; i += lanes) {                                                                          \
            const pp_at_##d *last = x + (n - i < lanes ? n - lanes : i);                                     \
            for (size_t l = 0; l < LANES(d); l++) s[l] = pp_op_##name##_##d(s[l], last[l]);                  \
        }                                                                                                    \
        for (size_t l = 0; l < LANES(d); l++) best = pp_op_##name##_##d(best, s[l]);                         \
        *(pp_at_##d *)out = best;                                                                            \
    }

#define IDEMPOTENT_INT(d, ...) IDEMPOTENT(d, min) IDEMPOTENT(d, max) IDEMPOTENT(d, and) IDEMPOTENT(d, or)
PP_EACH_INT(IDEMPOTENT_INT, )
IDEMPOTENT(b8, and)
IDEMPOTENT(b8, or)

/* ---- extremes of floats -------------------------------------------------------------------------------- */

/* One step of joining lanes, unless there are too few. */
#define HALVE(d, h, better)                                                                                  \
    if (LANES(d) > h)                                                                                        \
        for (size_t l = 0; l < h; l++) s[l] = s[l] better s[(l + h) % LANES(d)] ? s[l] : s[l + h];

/* quick: `a better b ? a : b`, one instruction. Whether an element equal to the pattern of `zero` is there.
 */
#define EXTREME(d, I, name, better, zero)                                                                    \
    static bool holds_##name##_##d(size_t n, const void *in)                                                 \
    {                                                                                                        \
        const pp_at_##I *x = in;                                                                             \
        for (size_t i = 0; i < n; i += 1024) {                                                               \
            const size_t m = n - i < 1024 ? n - i : 1024;                                                    \
            pp_##I found = 0;                                                                                \
            for (size_t l = 0; l < m; l++) found |= x[i + l] == (zero);                                      \
            if (found) return true;                                                                          \
        }                                                                                                    \
        return false;                                                                                        \
    }                                                                                                        \
    void PP_REDUCE(name, d)(size_t n, void *out, const void *in)                                             \
    {                                                                                                        \
        const pp_at_##d *x = in;                                                                             \
        const size_t lanes = LANES(d);                                                                       \
        pp_##d s[LANES(d)], best = x[0];                                                                     \
        pp_##I nan[LANES(d)], any = 0;                                                                       \
        size_t i = lanes;                                                                                    \
        if (n < lanes) {                                                                                     \
            for (i = 1; i < n; i++) best = pp_op_##name##_##d(best, x[i]);                                   \
            *(pp_at_##d *)out = best;                                                                        \
            return;                                                                                          \
        }                                                                                                    \
        for (size_t l = 0; l < LANES(d); l++) {                                                              \
            s[l] = x[l];                                                                                     \
            nan[l] = __builtin_isunordered(x[l], x[l]) ? (pp_##I) - 1 : 0;                                   \
        }                                                                                                    \
        for (; i + PASS * lanes <= n; i += PASS * lanes)                                                     \
            for (size_t l = 0; l < LANES(d); l++) {                                                          \
                pp_##d t = s[l];                                                                             \
                pp_##I u = nan[l];                                                                           \
                for (size_t q = 0; q < PASS; q += 2) {                                                       \
                    const pp_##d a = x[i + q * LANES(d) + l], b = x[i + (q + 1) * LANES(d) + l];             \
                    u |= __builtin_isunordered(a, b) ? (pp_##I) - 1 : 0;                                     \
                    t = a better t ? a : t;                                                                  \
                    t = b better t ? b : t;                                                                  \
                }                                                                                            \
                s[l] = t, nan[l] = u;                                                                        \
            }                                                                                                \
        for (; i < n; i += lanes) {                                                                          \
            const pp_at_##d *last = x + (n - i < lanes ? n - lanes : i);                                     \
            for (size_t l = 0; l < LANES(d); l++) {                                                          \
                nan[l] |= __builtin_isunordered(last[l], last[l]) ? (pp_##I) - 1 : 0;                        \
                s[l] = last[l] better s[l] ? last[l] : s[l];                                                 \
            }                                                                                                \
        }                                                                                                    \
        for (size_t l = 0; l < LANES(d); l++) any |= nan[l];                                                 \
        HALVE(d, 32, better)                                                                                 \
        HALVE(d, 16, better)                                                                                 \
        HALVE(d, 8, better)                                                                                  \
        HALVE(d, 4, better)                                                                                  \
        HALVE(d, 2, better)                                                                                  \
        best = s[0] better s[1] ? s[0] : s[1];                                                               \
        if (best == 0) best = holds_##name##_##d(n, in) == ((zero) == 0) ? 0 : -(pp_##d)0;                   \
        *(pp_at_##d *)out = any != 0 ? (pp_##d)__builtin_nan("") : best;                                     \
    }

EXTREME(f32, u32, max, >, 0)
EXTREME(f64, u64, max, >, 0)
EXTREME(f32, u32, min, <, UINT32_C(1) << 31)
EXTREME(f64, u64, min, <, UINT64_C(1) << 63)

/* ---- sums ---------------------------------------------------------------------------------------------- */

/* A: what `most` elements add up in. */
#define SUM(d, A, most)                                                                                      \
    void PP_REDUCE(add, d)(size_t n, void *out, const void *in)                                              \
    {                                                                                                        \
        const pp_at_##d *x = in;                                                                             \
        pp_u64 sum = 0;                                                                                      \
        size_t i = 0;                                                                                        \
        while (n - i >= 64) {                                                                                \
            A s[64] = {0};                                                                                   \
            size_t left = most;                                                                              \
            for (; left >= PASS && n - i >= PASS * 64; left -= PASS, i += PASS * 64)                         \
                for (size_t l = 0; l < 64; l++) {                                                            \
                    A t = s[l];                                                                              \
                    for (size_t q = 0; q < PASS; q++) t = (A)(t + (A)x[i + q * 64 + l]);                     \
                    s[l] = t;                                                                                \
                }                                                                                            \
            for (; left > 0 && n - i >= 64; left--, i += 64)                                                 \
                for (size_t l = 0; l < 64; l++) s[l] = (A)(s[l] + (A)x[i + l]);                              \
            for (size_t l = 0; l < 64; l++) sum += (pp_u64)s[l];                                             \
        }                                                                                                    \
        for (; i < n; i++) sum += (pp_u64)x[i];                                                              \
        *(pp_at_u64 *)out = sum;                                                                             \
    }

SUM(b8, pp_u8, 255)
SUM(u8, pp_u16, 256)
SUM(i8, pp_i16, 256)
SUM(u16, pp_u32, 65536)
SUM(i16, pp_i32, 65536)
SUM(u32, pp_u64, SIZE_MAX)
SUM(i32, pp_u64, SIZE_MAX)
SUM(u64, pp_u64, SIZE_MAX)
SUM(i64, pp_u64, SIZE_MAX)
