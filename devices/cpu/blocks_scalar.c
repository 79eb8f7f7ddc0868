/* SPDX-License-Identifier: Apache-2.0
 * The loops of the scalar rows: for each row of ops/scalar.def and each of its dtypes one plain loop per
 * shape of operands over the inline function of the row, left to the compiler's vectoriser. A scalar operand
 * is read before the first element is written, so it may lie anywhere in out. Only select reads elements
 * narrower than those it writes: where its mask shares its start with out, blocks of the mask are copied
 * aside, last block first, so that no mask byte is overwritten before it is read. */
#include "devices/cpu/blocks_simd.h"

#define LOOP_1(d, name, R)                                                                                   \
    void PP_LOOP(name, d, vv)(PP_BLOCK_ARGS)                                                                 \
    {                                                                                                        \
        pp_at_##R *o = out;                                                                                  \
        const pp_at_##d *x = a;                                                                              \
        (void)b, (void)c;                                                                                    \
        PP_INDEPENDENT for (size_t i = 0; i < n; i++) o[i] = pp_op_##name##_##d(x[i]);                       \
    }

#define LOOP_2(d, name, R)                                                                                   \
    void PP_LOOP(name, d, vv)(PP_BLOCK_ARGS)                                                                 \
    {                                                                                                        \
        pp_at_##R *o = out;                                                                                  \
        const pp_at_##d *x = a, *y = b;                                                                      \
        (void)c;                                                                                             \
        PP_INDEPENDENT for (size_t i = 0; i < n; i++) o[i] = pp_op_##name##_##d(x[i], y[i]);                 \
    }                                                                                                        \
    void PP_LOOP(name, d, vs)(PP_BLOCK_ARGS)                                                                 \
    {                                                                                                        \
        pp_at_##R *o = out;                                                                                  \
        const pp_at_##d *x = a;                                                                              \
        const pp_##d y = *(const pp_at_##d *)b;                                                              \
        (void)c;                                                                                             \
        PP_INDEPENDENT for (size_t i = 0; i < n; i++) o[i] = pp_op_##name##_##d(x[i], y);                    \
    }                                                                                                        \
    void PP_LOOP(name, d, sv)(PP_BLOCK_ARGS)                                                                 \
    {                                                                                                        \
        pp_at_##R *o = out;                                                                                  \
        const pp_##d x = *(const pp_at_##d *)a;                                                              \
        const pp_at_##d *y = b;                                                                              \
        (void)c;                                                                                             \
        PP_INDEPENDENT for (size_t i = 0; i < n; i++) o[i] = pp_op_##name##_##d(x, y[i]);                    \
    }

/* F: dtype of the first operand. */
#define LOOP_3(d, name, F)                                                                                   \
    void PP_LOOP(name, d, vv)(PP_BLOCK_ARGS)                                                                 \
    {                                                                                                        \
        pp_at_##d *o = out;                                                                                  \
        const pp_at_##F *x = a;                                                                              \
        const pp_at_##d *y = b, *z = c;                                                                      \
        if (sizeof *x < sizeof *o && out == a) {                                                             \
            in_place(n, out, a, b, c, sizeof *o, sizeof *o, sizeof *o, PP_LOOP(name, d, vv));                \
            return;                                                                                          \
        }                                                                                                    \
        PP_INDEPENDENT for (size_t i = 0; i < n; i++) o[i] = pp_op_##name##_##d(x[i], y[i], z[i]);           \
    }                                                                                                        \
    void PP_LOOP(name, d, vs)(PP_BLOCK_ARGS)                                                                 \
    {                                                                                                        \
        pp_at_##d *o = out;                                                                                  \
        const pp_at_##F *x = a;                                                                              \
        const pp_at_##d *y = b;                                                                              \
        const pp_##d z = *(const pp_at_##d *)c;                                                              \
        if (sizeof *x < sizeof *o && out == a) {                                                             \
            in_place(n, out, a, b, &z, sizeof *o, sizeof *o, 0, PP_LOOP(name, d, vs));                       \
            return;                                                                                          \
        }                                                                                                    \
        PP_INDEPENDENT for (size_t i = 0; i < n; i++) o[i] = pp_op_##name##_##d(x[i], y[i], z);              \
    }                                                                                                        \
    void PP_LOOP(name, d, sv)(PP_BLOCK_ARGS)                                                                 \
    {                                                                                                        \
        pp_at_##d *o = out;                                                                                  \
        const pp_at_##F *x = a;                                                                              \
        const pp_##d y = *(const pp_at_##d *)b;                                                              \
        const pp_at_##d *z = c;                                                                              \
        if (sizeof *x < sizeof *o && out == a) {                                                             \
            in_place(n, out, a, &y, c, sizeof *o, 0, sizeof *o, PP_LOOP(name, d, sv));                       \
            return;                                                                                          \
        }                                                                                                    \
        PP_INDEPENDENT for (size_t i = 0; i < n; i++) o[i] = pp_op_##name##_##d(x[i], y, z[i]);              \
    }

/* A loop with a mask of bytes that starts where out does. by_*: bytes from one element to the next. */
static void in_place(size_t n, void *out, const void *mask, const void *b, const void *c, size_t by_out,
                     size_t by_b, size_t by_c, pp_block_fn loop)
{
    uint8_t aside[512];
    while (n > 0) {
        size_t m = n % sizeof aside ? n % sizeof aside : sizeof aside;
        n -= m;
        memcpy(aside, (const uint8_t *)mask + n, m);
        loop(m, (char *)out + n * by_out, aside, (const char *)b + n * by_b, (const char *)c + n * by_c);
    }
}

#define FIRST_FMA(d) d
#define FIRST_SELECT(d) b8
#define LOOP_3_OF(d, name, F) LOOP_3(d, name, F)

#define LOOP_1_SAME(d, name, E) LOOP_1(d, name, d)
#define LOOP_1_BOOL(d, name, E) LOOP_1(d, name, b8)
#define LOOP_1_TARGET(d, name, E)
#define LOOP_2_SAME(d, name, E) LOOP_2(d, name, d)
#define LOOP_2_BOOL(d, name, E) LOOP_2(d, name, b8)
#define LOOP_3_SAME(d, name, E) LOOP_3_OF(d, name, FIRST_##E(d))

#define PP_SCALAR(E, name, n, on, result, ...) PP_EACH_##on(LOOP_##n##_##result, name, E)
#define PP_KERNEL(...)
#include "ops/scalar.def"
