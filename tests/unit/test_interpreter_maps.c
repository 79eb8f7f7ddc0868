/* SPDX-License-Identifier: Apache-2.0
 * The block interpreter against the reference device: maps over all kinds of layouts, guards, gathers. Same
 * bytes on every instruction set, for every grain, number of workers and order of tasks. */
#include "interp_cases.h"

TestSuite(interpreter_maps, .init = hash_functions, .timeout = 300);

/* ---- maps ------------------------------------------------------------------------------------ */

/* out = (a + b * c) with a full, b per column, c per row, and a scalar. */
static void map_case(int64_t rows, int64_t cols, const char *order_a, const char *order_out, const char *name)
{
    static program_builder b;
    const int64_t shape[] = {rows, cols};
    prog_start(&b, PP_FRAME_MAP);
    prog_axis(&b, PP_AXIS_OUTER, rows);
    prog_axis(&b, PP_AXIS_OUTER, cols);
    const uint32_t a = prog_tensor(&b, PPTO_F32, false, order_a, 2, shape);
    const uint32_t col = prog_tensor(&b, PPTO_F32, false, NULL, 1, &cols);
    const uint32_t row = prog_tensor(&b, PPTO_F32, false, NULL, 1, &rows);
    const uint32_t out = prog_tensor(&b, PPTO_F32, true, order_out, 2, shape);
    const uint32_t mask = prog_tensor(&b, PPTO_BOOL, true, order_out, 2, shape);
    for (uint32_t t = 0; t < 3; t++) prog_fill(&b, t, t + 1);
    prog_stage(&b, false);
    const uint32_t x = prog_load(&b, a, "01"), y = prog_load(&b, col, "1"), z = prog_load(&b, row, "0");
    const uint32_t half = prog_f32(&b, 0.5f);
    const uint32_t f = prog_op(&b, PP_FMA, PPTO_F32, z, y, x, 0);
    const uint32_t m = prog_op(&b, PP_MUL, PPTO_F32, f, half, 0, 0);
    const uint32_t r = prog_op(&b, PP_SUB, PPTO_F32, z, m, 0, 0);
    const uint32_t less = prog_op(&b, PP_LT, PPTO_BOOL, y, r, 0, 0);
    const uint32_t pick = prog_op(&b, PP_SELECT, PPTO_F32, less, half, r, 0);
    const uint32_t called = prog_call(&b, &half_f32, 1, &pick);
    prog_store(&b, out, "01", called);
    prog_store(&b, mask, "01", less);
    prog_stage_end(&b);
    prog_compare(&b, name);
    prog_free(&b);
}

Test(interpreter_maps, maps_of_all_layouts)
{
    static const int64_t sizes[][2] = {{1, 1},   {1, 64},    {64, 1},  {3, 5},   {1000, 3},
                                       {7, 300}, {130, 257}, {65, 65}, {2, 9001}};
    static const char *const orders[] = {"01", "10", "0-1", "-10", "1-0"};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t o = 0; o < 5; o++)
            for (size_t q = 0; q < 2; q++) {
                char name[64];
                snprintf(name, sizeof name, "map %dx%d %s %s", (int)sizes[s][0], (int)sizes[s][1], orders[o],
                         orders[q]);
                map_case(sizes[s][0], sizes[s][1], orders[o], orders[q], name);
            }
}

/* Four axes, permuted input, an index, integer dtypes. */
Test(interpreter_maps, maps_of_rank_four)
{
    static program_builder b;
    static const int64_t shape[] = {3, 5, 7, 11};
    static const char *const orders[] = {"0123", "0213", "3210", "0132", "2301", "01-23"};
    for (size_t o = 0; o < 6; o++) {
        prog_start(&b, PP_FRAME_MAP);
        for (unsigned i = 0; i < 4; i++) prog_axis(&b, PP_AXIS_OUTER, shape[i]);
        const uint32_t x = prog_tensor(&b, PPTO_I16, false, orders[o], 4, shape);
        const uint32_t out = prog_tensor(&b, PPTO_I64, true, NULL, 4, shape);
        prog_fill(&b, x, o);
        prog_stage(&b, false);
        const uint32_t v = prog_op(&b, PP_CAST, PPTO_I64, prog_load(&b, x, "0123"), 0, 0, 0);
        const uint32_t at = prog_affine(&b, 4, PP_NONE);
        prog_term(&b, 1, 10);
        prog_term(&b, 3, -3);
        const uint32_t i = prog_op(&b, PP_INDEX, PPTO_I64, 0, 0, 0, at);
        prog_store(&b, out, "0123", prog_op(&b, PP_MUL, PPTO_I64, v, i, 0, 0));
        prog_stage_end(&b);
        prog_compare(&b, orders[o]);
        prog_free(&b);
    }
}

/* pad: out[i, j] = x[i - 2, j - 3] inside, fill outside; and whether inside. */
Test(interpreter_maps, guards_fill_and_inside)
{
    static program_builder b;
    for (int64_t n = 1; n < 400; n = n * 3 + 2) {
        const int64_t in[] = {n, n + 1}, out_shape[] = {n + 5, n + 9};
        prog_start(&b, PP_FRAME_MAP);
        prog_axis(&b, PP_AXIS_OUTER, n + 5);
        prog_axis(&b, PP_AXIS_OUTER, n + 9);
        const uint32_t x = prog_tensor(&b, PPTO_F32, false, n % 2 ? "01" : "10", 2, in);
        const uint32_t out = prog_tensor(&b, PPTO_F32, true, NULL, 2, out_shape);
        const uint32_t is = prog_tensor(&b, PPTO_BOOL, true, NULL, 2, out_shape);
        prog_fill(&b, x, 7);
        prog_stage(&b, false);
        const uint32_t access = prog_access(&b, x, "");
        b.accesses[access].fill = 0x40400000;
        for (uint8_t d = 0; d < 2; d++) {
            const uint32_t at = prog_affine(&b, -2 - d, PP_NONE);
            prog_term(&b, d, 1);
            b.guards[b.p.n_guards++] = (pp_guard){at, PP_SLOT_0, prog_slot(&b, in[d])};
            b.accesses[access].n_guards++;
        }
        prog_store(&b, out, "01", prog_op(&b, PP_LOAD, PPTO_F32, 0, 0, 0, access));
        prog_store(&b, is, "01",
                   prog_op(&b, PP_INSIDE, PPTO_BOOL, b.accesses[access].first_guard, 2, 0,
                           b.accesses[access].first_guard));
        prog_stage_end(&b);
        prog_compare(&b, "pad");
        prog_free(&b);
    }
}

/* out[i, j] = x[idx[i], j] (by_row) or x[i, idx[j]] or x[idx[i, j], j], with a check. */
static void gather_case(unsigned kind, int64_t rows, int64_t cols, int64_t bad)
{
    static program_builder b;
    static const char *const dims[] = {"0", "1", "01"};
    const int64_t shape[] = {rows, cols}, idx_shape[] = {kind == 1 ? cols : rows, cols};
    const int64_t extent = kind == 1 ? cols : rows;
    prog_start(&b, PP_FRAME_MAP);
    prog_axis(&b, PP_AXIS_OUTER, rows);
    prog_axis(&b, PP_AXIS_OUTER, cols);
    const uint32_t x = prog_tensor(&b, PPTO_F64, false, NULL, 2, shape);
    const uint32_t idx = prog_tensor(&b, PPTO_I32, false, NULL, kind == 2 ? 2 : 1, idx_shape);
    const uint32_t out = prog_tensor(&b, PPTO_F64, true, NULL, 2, shape);
    prog_fill(&b, x, 3);
    int32_t *at = b.owned[idx];
    const int64_t n = (int64_t)(b.bytes[idx] / sizeof *at);
    for (int64_t i = 0; i < n; i++) at[i] = (int32_t)(i * 7919 % extent);
    if (bad >= 0) at[bad % n] = (int32_t)extent, at[(bad + 5) % n] = -1;
    prog_stage(&b, false);
    const uint32_t i = prog_load(&b, idx, dims[kind]);
    const uint32_t access = prog_access(&b, x, "");
    for (unsigned d = 0; d < 2; d++) {
        const bool gathered = d == (kind == 1 ? 1 : 0);
        prog_affine(&b, 0, gathered ? i : PP_NONE);
        if (!gathered) prog_term(&b, (uint8_t)d, 1);
    }
    const uint32_t zero = prog_const(&b, PPTO_I32, 0), size = prog_const(&b, PPTO_I32, (uint64_t)extent);
    const uint32_t low = prog_op(&b, PP_LE, PPTO_BOOL, zero, i, 0, 0);
    const uint32_t high = prog_op(&b, PP_LT, PPTO_BOOL, i, size, 0, 0);
    const uint32_t ok = prog_op(&b, PP_AND, PPTO_BOOL, low, high, 0, 0);
    const uint32_t position = prog_affine(&b, 0, PP_NONE);
    if (kind != 1) prog_term(&b, 0, kind == 2 ? cols : 1);
    if (kind != 0) prog_term(&b, 1, 1);
    b.checks[b.p.n_checks++] = (pp_check){"index {value} at {position}", position};
    if (bad >= 0) prog_op(&b, PP_CHECK, PPTO_I32, ok, i, 0, 0);
    prog_store(&b, out, "01", prog_op(&b, PP_LOAD, PPTO_F64, 0, 0, 0, access));
    prog_stage_end(&b);
    if (bad < 0) {
        prog_compare(&b, "gather");
    } else {
        const pp_device_options options = {.grain = 100};
        const run_outcome got = prog_run(&b, &pp_cpu_device, &options, 2, true);
        const int64_t first = bad % n < (bad + 5) % n ? bad % n : (bad + 5) % n;
        char want[64];
        snprintf(want, sizeof want, "index %d at %d", first == bad % n ? (int)extent : -1, (int)first);
        cr_expect_eq(got.status, PPTO_E_VALUE);
        cr_expect_eq(got.position, first, "%d, not %d", (int)got.position, (int)first);
        cr_expect_str_eq(got.text, want);
    }
    prog_free(&b);
}

Test(interpreter_maps, gathers_and_checks)
{
    for (unsigned kind = 0; kind < 3; kind++)
        for (int64_t rows = 1; rows < 300; rows = rows * 5 + 1) {
            gather_case(kind, rows, 9, -1);
            gather_case(kind, rows, 130, -1);
            gather_case(kind, rows + 6, 130, 40 * rows);
        }
}
