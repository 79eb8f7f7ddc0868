/* SPDX-License-Identifier: Apache-2.0
 * Loops that change the dtype: casts and bit casts of every pair that exists, and the copy with canonical NaN
 * that stores to results use. A cast to wider elements whose out starts where its input does goes through a
 * copy of the input, last block first, so that nothing is overwritten before it is read. */
#include "devices/cpu/blocks_simd.h"

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

#define COPY(d, ...)                                                                                         \
    void PP_LOOP_CANONICAL(d)(PP_BLOCK_ARGS)                                                                 \
    {                                                                                                        \
        (void)b, (void)c;                                                                                    \
        if (out != a && n > 0) memcpy(out, a, n * sizeof(pp_at_##d));                                        \
    }
PP_EACH_INTB(COPY, )
