/* SPDX-License-Identifier: Apache-2.0
 * Programs rendered as C and run: guards, checks, tables and calls, and the worked examples of the laws
 * (lanes, rows, scan, contraction). */
#define _GNU_SOURCE
#include <criterion/criterion.h>

#include "kernel_hand.h"

TestSuite(kernel_run, .init = functions);

/* ---- rendered programs --------------------------------------------------------------------------------- */

typedef void rendered(const int64_t *slot, void *const *data, const int64_t *const *stride,
                      const uint64_t *arg, int64_t *failed);

static rendered *compile(hand *h, const char *what)
{
    pp_text text = {0};
    pp_error err = {0};
    cr_assert_eq(pp_program_verify(&h->p, &err), PPTO_OK, "%s: %s", what, err.text);
    cr_assert_eq(pp_program_render(&h->p, "run", &text), PPTO_OK);
    void *loaded = compile_text(
        text.at, "-std=c99 -pedantic -O1 -Wall -Werror -Wno-unused-variable -Wno-unused-function "
                 "-Wno-unknown-pragmas");
    cr_assert_not_null(loaded, "%s\n%s", what, text.at);
    pp_text_free(&text);
    rendered *run;
    *(void **)&run = dlsym(loaded, "run");
    return run;
}

static const int64_t one[] = {1}, unused[] = {1, 1};

Test(kernel_run, map_runs_guards_checks_tables_and_calls, .timeout = 60)
{
    hand h;
    if (!has_compiler()) return;
    build_map(&h);
    rendered *run = compile(&h, "map");
    float x[4] = {1, 5, 2, -1}, y[4] = {0};
    const int64_t slot[] = {0, 1, -1, 4, 1, 0}, *stride[] = {one, one};
    void *data[] = {x, y};
    const uint64_t arg[] = {bits_of_f32(0.5f)};
    int64_t failed[3] = {INT64_MAX, 0, 0};
    run(slot, data, stride, arg, failed);
    cr_expect(y[0] == 5.5f && y[1] == 5.0f && y[2] == -1.5f && y[3] == 3.0f, "%g %g %g %g", (double)y[0],
              (double)y[1], (double)y[2], (double)y[3]);
    cr_expect(failed[0] == 0 && failed[1] == 0 && failed[2] == (int64_t)bits_of_f32(5), "%d", (int)failed[0]);
}

static float run_sum(rendered *run, const float *x, int64_t n, int64_t rows, int64_t row_stride,
                     int64_t k_stride, float *y)
{
    const int64_t slot[] = {0, 1, -1, rows, n}, sx[] = {row_stride, k_stride}, *stride[] = {sx, one};
    void *data[] = {(void *)(uintptr_t)x, y};
    int64_t failed[3] = {INT64_MAX, 0, 0};
    run(slot, data, stride, NULL, failed);
    return y[0];
}

#define T 0x1p24f

Test(kernel_run, sums_follow_lanes_and_rows, .timeout = 60)
{
    hand h;
    if (!has_compiler()) return;
    build_sum(&h, PP_FRAME_LANES);
    rendered *lanes = compile(&h, "lanes");
    build_sum(&h, PP_FRAME_ROWS);
    rendered *rows = compile(&h, "rows");
    static float x[30000], y[8];
    const float five[] = {T, 1, 1, 1, 1}, zeros[] = {-0.0f, -0.0f};
    cr_expect_eq(run_sum(lanes, five, 5, 1, 5, 1, y), T + 2);
    cr_expect_eq(run_sum(rows, five, 5, 1, 5, 1, y), T);
    cr_expect_eq(bits_of_f32(run_sum(lanes, zeros, 2, 1, 2, 1, y)), 0);
    /* seven blocks of lanes: one element T, then ones placed so that the tree shows */
    for (size_t i = 0; i < 30000; i++) x[i] = 0;
    x[0] = T, x[4096] = 1, x[2 * 4096] = 1, x[3 * 4096] = 1, x[4 * 4096] = 1, x[5 * 4096] = 1,
    x[6 * 4096] = 1;
    const float tree = ((T + 1) + (1.0f + 1)) + ((1.0f + 1) + 1);
    cr_expect_eq(run_sum(lanes, x, 6 * 4096 + 1, 1, 0, 1, y), tree);
    /* 200 rows: block 0 is T + 1 + 1 ... = T, block 1 is 72 */
    for (size_t i = 0; i < 200; i++) x[i] = i == 0 ? T : 1;
    cr_expect_eq(run_sum(rows, x, 200, 1, 0, 1, y), T + 72);
    run_sum(lanes, five, 2, 3, 1, 1, y);
    cr_expect(y[0] == T + 1 && y[1] == 2 && y[2] == 2);
}

Test(kernel_run, scans_follow_groups_and_rows, .timeout = 60)
{
    hand h;
    if (!has_compiler()) return;
    build_scan(&h, PP_FRAME_LANES);
    rendered *lanes = compile(&h, "scan");
    build_scan(&h, PP_FRAME_ROWS);
    rendered *rows = compile(&h, "row scan");
    static float x[5000], y[5000], w[1], p[5000];
    const int64_t line[] = {0, 1}, *stride[] = {line, line, one};
    void *data[] = {x, y, w};
    int64_t failed[3] = {INT64_MAX, 0, 0}, slot[] = {0, 1, -1, 1, 5};
    const float want[] = {T, T, T + 2, T + 2, T + 4};
    x[0] = T, x[1] = x[2] = x[3] = x[4] = 1;
    lanes(slot, data, stride, NULL, failed);
    for (int i = 0; i < 5; i++) cr_expect_eq(y[i], want[i], "%d: %a", i, (double)y[i]);
    cr_expect_eq(w[0], T + 4);
    /* two blocks, against the law written out */
    for (int i = 0; i < 5000; i++) x[i] = (float)(i % 97) * 0.1f;
    float group = 0, carry = 0;
    for (int g = 0; g < 5000; g += 16) {
        const int m = 5000 - g < 16 ? 5000 - g : 16;
        for (int i = 0; i < m; i++) p[g + i] = x[g + i];
        for (int d = 1; d < 16; d *= 2)
            for (int i = m; i-- > d;) p[g + i] = p[g + i - d] + p[g + i];
        if (g == 4096) carry = group;
        for (int i = 0; i < m && g % 4096 != 0; i++) p[g + i] = group + p[g + i];
        group = p[g + m - 1];
        for (int i = 0; i < m && g >= 4096; i++) p[g + i] = carry + p[g + i];
    }
    slot[4] = 5000;
    lanes(slot, data, stride, NULL, failed);
    for (int i = 0; i < 5000; i++) cr_assert_eq(y[i], p[i], "%d: %a, not %a", i, (double)y[i], (double)p[i]);
    /* 300 rows: P restarts at 128 and 256 */
    slot[4] = 300;
    rows(slot, data, stride, NULL, failed);
    float inside = 0;
    carry = 0;
    for (int i = 0; i < 300; i++) {
        if (i > 0 && i % 128 == 0) carry = i == 128 ? inside : carry + inside;
        inside = i % 128 == 0 ? x[i] : inside + x[i];
        const float out = i < 128 ? inside : carry + inside;
        cr_assert_eq(y[i], out, "row %d", i);
    }
}

Test(kernel_run, buffers_cross_stages, .timeout = 60)
{
    hand h;
    if (!has_compiler()) return;
    build_buffer(&h);
    rendered *run = compile(&h, "buffer");
    float x[6] = {1, 2, 3, 4, 5, 6}, y[6];
    const int64_t square[] = {3, 1}, *stride[] = {square, square}, slot[] = {0, 1, -1, 2, 3};
    void *data[] = {x, y};
    int64_t failed[3] = {INT64_MAX, 0, 0};
    run(slot, data, stride, NULL, failed);
    const float want[] = {3 - 18, 6 - 18, 9 - 18, 12 - 45, 15 - 45, 18 - 45};
    for (int i = 0; i < 6; i++) cr_expect_eq(y[i], want[i]);
}

Test(kernel_run, contraction_is_chained_in_blocks, .timeout = 60)
{
    hand h;
    if (!has_compiler()) return;
    build_contract(&h);
    rendered *run = compile(&h, "contract");
    static float a[1500], b[1500];
    const float e = 0x1p-12f;
    float y[1];
    int64_t failed[3] = {INT64_MAX, 0, 0}, slot[] = {0, 1, -1, 1, 1, 2};
    const int64_t sa[] = {1500, 1}, sb[] = {1, 1}, *stride[] = {sa, sb, unused};
    void *data[] = {a, b, y};
    a[0] = -1, a[1] = 1 + e, b[0] = 1 + 2 * e, b[1] = 1 + e;
    run(slot, data, stride, NULL, failed);
    cr_expect_eq(y[0], 0x1p-24f);
    for (int i = 0; i < 1500; i++) a[i] = 1, b[i] = 1;
    b[0] = T, slot[5] = 1500; /* block 0 stays T; block 1 is 476 */
    run(slot, data, stride, NULL, failed);
    cr_expect_eq(y[0], T + 476);
    slot[5] = 0;
    run(slot, data, stride, NULL, failed);
    cr_expect_eq(bits_of_f32(y[0]), 0);
    slot[5] = 1, a[0] = -0x1p-100f, b[0] = 0x1p-100f;
    run(slot, data, stride, NULL, failed);
    cr_expect_eq(bits_of_f32(y[0]), 0, "the final + 0");
}
