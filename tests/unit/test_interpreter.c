/* SPDX-License-Identifier: Apache-2.0
 * The block interpreter against the reference device: maps over all kinds of layouts, guards, gathers, folds
 * by lanes and by rows, scans, kept values, split reductions, contractions. Same bytes on every instruction
 * set, for every grain, number of workers and order of tasks. */
#include "interp_build.h"
#include "tests/support/interp_functions.h"

/* ---- functions ------------------------------------------------------------------------------- */

static const pp_instr max_f32_code[] = {
    PARAM(PPTO_F32, 0), PARAM(PPTO_F32, 1), {.op = PP_MAX, .dtype = PPTO_F32, .a = 0, .b = 1}};
static const pp_instr zero_f32_code[] = {PARAM(PPTO_F32, 0),
                                         {.op = PP_CONST, .dtype = PPTO_F32, .imm = 0},
                                         {.op = PP_ADD, .dtype = PPTO_F32, .a = 0, .b = 1}};
static pp_function max_f32 = FUNCTION(max_f32_code, numbers, 2, PPTO_F32, PPTO_F32);
static pp_function zero_f32 = FUNCTION(zero_f32_code, numbers, 1, PPTO_F32);

/* 3 * a + b * b, wrapping: tells who joined whom. */
static const pp_instr trace_code[] = {PARAM(PPTO_U64, 0),
                                      PARAM(PPTO_U64, 1),
                                      {.op = PP_CONST, .dtype = PPTO_U64, .imm = 1},
                                      {.op = PP_MUL, .dtype = PPTO_U64, .a = 1, .b = 1},
                                      {.op = PP_FMA, .dtype = PPTO_U64, .a = 0, .b = 2, .c = 3}};
static const pp_instr step_code[] = {PARAM(PPTO_U64, 0),
                                     PARAM(PPTO_U64, 1),
                                     PARAM(PPTO_I64, 2),
                                     {.op = PP_CAST, .dtype = PPTO_U64, .a = 2},
                                     {.op = PP_CONST, .dtype = PPTO_U64, .imm = 1},
                                     {.op = PP_FMA, .dtype = PPTO_U64, .a = 0, .b = 4, .c = 1},
                                     {.op = PP_ADD, .dtype = PPTO_U64, .a = 5, .b = 3}};
static const pp_instr lift_code[] = {PARAM(PPTO_U64, 0),
                                     PARAM(PPTO_I64, 1),
                                     {.op = PP_CAST, .dtype = PPTO_U64, .a = 1},
                                     {.op = PP_ADD, .dtype = PPTO_U64, .a = 0, .b = 2}};
static pp_function trace_u64 = FUNCTION(trace_code, numbers, 2, PPTO_U64, PPTO_U64);
static pp_function step_u64 = FUNCTION(step_code, numbers, 3, PPTO_U64, PPTO_U64, PPTO_I64);
static pp_function lift_u64 = FUNCTION(lift_code, numbers, 2, PPTO_U64, PPTO_I64);

/* argmax: (value, index) of (value) at k. */
static const pp_instr arg_lift_code[] = {PARAM(PPTO_F32, 0), PARAM(PPTO_I64, 1)};
static const pp_instr arg_join_code[] = {PARAM(PPTO_F32, 0),
                                         PARAM(PPTO_I64, 1),
                                         PARAM(PPTO_F32, 2),
                                         PARAM(PPTO_I64, 3),
                                         {.op = PP_MAX, .dtype = PPTO_F32, .a = 0, .b = 2},
                                         {.op = PP_LE, .dtype = PPTO_BOOL, .a = 2, .b = 0},
                                         {.op = PP_NE, .dtype = PPTO_BOOL, .a = 0, .b = 0},
                                         {.op = PP_OR, .dtype = PPTO_BOOL, .a = 5, .b = 6},
                                         {.op = PP_SELECT, .dtype = PPTO_I64, .a = 7, .b = 1, .c = 3}};
static pp_function arg_lift = {.name = "arg_lift",
                               .n_params = 2,
                               .n_results = 2,
                               .param = {PPTO_F32, PPTO_I64},
                               .result = {0, 1},
                               .code = arg_lift_code,
                               .n_code = 2};
static pp_function arg_join = {.name = "arg_join",
                               .n_params = 4,
                               .n_results = 2,
                               .param = {PPTO_F32, PPTO_I64, PPTO_F32, PPTO_I64},
                               .result = {4, 8},
                               .code = arg_join_code,
                               .n_code = 9};

/* half(x) = x * 0.5 where x < 0 (cold), else x + 0.5. */
static const pp_instr cold_code[] = {PARAM(PPTO_F32, 0),
                                     {.op = PP_CONST, .dtype = PPTO_F32, .imm = 2},
                                     {.op = PP_MUL, .dtype = PPTO_F32, .a = 0, .b = 1}};
static pp_function half_cold = FUNCTION(cold_code, numbers, 1, PPTO_F32);
static const pp_function *const half_callees[] = {&half_cold};
static const uint32_t half_operands[] = {0};
static const pp_instr half_code[] = {PARAM(PPTO_F32, 0),
                                     {.op = PP_CONST, .dtype = PPTO_F32, .imm = 2},
                                     {.op = PP_CONST, .dtype = PPTO_F32, .imm = 0},
                                     {.op = PP_ADD, .dtype = PPTO_F32, .a = 0, .b = 1},
                                     {.op = PP_LT, .dtype = PPTO_BOOL, .a = 0, .b = 2},
                                     {.op = PP_COLD, .dtype = PPTO_F32, .a = 4, .b = 3, .c = 0, .imm = 0}};
static pp_function half_f32 = {.name = "half",
                               .n_params = 1,
                               .n_results = 1,
                               .param = {PPTO_F32},
                               .result = {5},
                               .code = half_code,
                               .n_code = 6,
                               .consts = numbers,
                               .n_consts = 3,
                               .callees = half_callees,
                               .n_callees = 1,
                               .operands = half_operands,
                               .n_operands = 1};

static void hash_functions(void)
{
    pp_function *const all[] = {&same_f32, &add_f32,  &max_f32,  &zero_f32,  &trace_u64, &step_u64,
                                &lift_u64, &arg_lift, &arg_join, &half_cold, &half_f32};
    hash_each(all, sizeof all / sizeof all[0]);
}
TestSuite(interpreter, .init = hash_functions, .timeout = 300);

static pp_fold sum_fold(uint32_t input)
{
    return sum_of(input, &zero_f32);
}
static pp_fold max_fold(uint32_t input)
{
    return (pp_fold){.n_states = 1,
                     .n_inputs = 1,
                     .state = {PPTO_F32},
                     .input = {input},
                     .lift = &same_f32,
                     .join = &max_f32};
}

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

Test(interpreter, maps_of_all_layouts)
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
Test(interpreter, maps_of_rank_four)
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
Test(interpreter, guards_fill_and_inside)
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

Test(interpreter, gathers_and_checks)
{
    for (unsigned kind = 0; kind < 3; kind++)
        for (int64_t rows = 1; rows < 300; rows = rows * 5 + 1) {
            gather_case(kind, rows, 9, -1);
            gather_case(kind, rows, 130, -1);
            gather_case(kind, rows + 6, 130, 40 * rows);
        }
}

/* ---- folds ----------------------------------------------------------------------------------- */

static const int64_t lengths[] = {1, 2, 5, 63, 64, 65, 127, 129, 200, 1000, 4095, 4096, 4097, 10000, 40000};
enum { N_LENGTHS = sizeof lengths / sizeof lengths[0] };

/* x[outer, n] (or x[n, outer] in ROWS): sum, max, and a fold with step and position; all in one stage. */
static void fold_case(pp_frame frame, int64_t outer, int64_t n, const char *order, bool step)
{
    static program_builder b;
    const int64_t shape[] = {outer, n};
    prog_start(&b, frame);
    prog_axis(&b, PP_AXIS_OUTER, outer);
    prog_axis(&b, PP_AXIS_INNER, n);
    const uint32_t x = prog_tensor(&b, PPTO_F32, false, order, 2, shape);
    const uint32_t u = prog_tensor(&b, PPTO_U64, false, order, 2, shape);
    const uint32_t out[] = {
        prog_tensor(&b, PPTO_F32, true, NULL, 1, shape), prog_tensor(&b, PPTO_F32, true, NULL, 1, shape),
        prog_tensor(&b, PPTO_U64, true, NULL, 1, shape), prog_tensor(&b, PPTO_I64, true, NULL, 1, shape)};
    prog_fill(&b, x, (uint64_t)n);
    prog_fill(&b, u, (uint64_t)n + 1);
    prog_stage(&b, true);
    const uint32_t v = prog_load(&b, x, "01"), w = prog_load(&b, u, "01");
    prog_fold(&b, sum_fold(v));
    prog_fold(&b, max_fold(prog_op(&b, PP_MUL, PPTO_F32, v, v, 0, 0)));
    prog_fold(&b, (pp_fold){.n_states = 1,
                            .n_inputs = 1,
                            .state = {PPTO_U64},
                            .input = {w},
                            .lift = &lift_u64,
                            .step = step ? &step_u64 : NULL,
                            .join = &trace_u64,
                            .position = true});
    prog_fold(&b, (pp_fold){.n_states = 2,
                            .n_inputs = 1,
                            .state = {PPTO_F32, PPTO_I64},
                            .input = {v},
                            .lift = &arg_lift,
                            .join = &arg_join,
                            .position = true});
    prog_stage_end(&b);
    prog_stage(&b, false);
    prog_store(&b, out[0], "0", prog_op(&b, PP_STATE, PPTO_F32, 0, 0, 0, 0));
    prog_store(&b, out[1], "0", prog_op(&b, PP_STATE, PPTO_F32, 0, 0, 0, 1));
    prog_store(&b, out[2], "0", prog_op(&b, PP_STATE, PPTO_U64, 0, 0, 0, 2));
    prog_store(&b, out[3], "0", prog_op(&b, PP_STATE, PPTO_I64, 1, 0, 0, 3));
    prog_stage_end(&b);
    char name[80];
    snprintf(name, sizeof name, "fold frame %d outer %d n %d %s %d", (int)frame, (int)outer, (int)n, order,
             step);
    prog_compare(&b, name);
    prog_free(&b);
}

Test(interpreter, folds_by_lanes_and_rows)
{
    for (size_t i = 0; i < N_LENGTHS; i++)
        for (unsigned c = 0; c < 8; c++) {
            const int64_t outer = c & 2 ? 1 : lengths[i] > 5000 ? 3 : 70;
            fold_case(c & 1 ? PP_FRAME_ROWS : PP_FRAME_LANES, outer, lengths[i], c & 4 ? "10" : "01", c & 2);
        }
}

/* Reduced axes 1 and 3 of a rank-4 tensor (rows), or the last two of a permuted one (lanes). */
Test(interpreter, folds_of_several_axes)
{
    static const int64_t shape[] = {4, 9, 3, 17};
    static const char *const orders[] = {"0123", "0132", "3120"};
    static program_builder b;
    for (unsigned c = 0; c < 6; c++) {
        const bool lanes = c & 1;
        prog_start(&b, lanes ? PP_FRAME_LANES : PP_FRAME_ROWS);
        prog_axis(&b, PP_AXIS_OUTER, shape[0]);
        prog_axis(&b, PP_AXIS_OUTER, shape[lanes ? 1 : 2]);
        prog_axis(&b, PP_AXIS_INNER, shape[lanes ? 2 : 1]);
        prog_axis(&b, PP_AXIS_INNER, shape[3]);
        const int64_t out_shape[] = {shape[0], shape[lanes ? 1 : 2]};
        const uint32_t x = prog_tensor(&b, PPTO_F32, false, orders[c / 2], 4, shape);
        const uint32_t out = prog_tensor(&b, PPTO_F32, true, NULL, 2, out_shape);
        prog_fill(&b, x, c);
        prog_stage(&b, true);
        prog_fold(&b, sum_fold(prog_load(&b, x, lanes ? "0123" : "0213")));
        prog_stage_end(&b);
        prog_stage(&b, false);
        prog_store(&b, out, "01", prog_op(&b, PP_STATE, PPTO_F32, 0, 0, 0, 0));
        prog_stage_end(&b);
        prog_compare(&b, "several axes");
        prog_free(&b);
    }
}

/* softmax without exp: max; sum of a function of x - max, kept; scaled. */
static void rows_case(pp_frame frame, int64_t outer, int64_t n, const char *order)
{
    static program_builder b;
    const int64_t shape[] = {outer, n};
    prog_start(&b, frame);
    prog_axis(&b, PP_AXIS_OUTER, outer);
    prog_axis(&b, PP_AXIS_INNER, n);
    const uint32_t x = prog_tensor(&b, PPTO_F32, false, order, 2, shape);
    const uint32_t out = prog_tensor(&b, PPTO_F32, true, order, 2, shape);
    prog_fill(&b, x, (uint64_t)n);
    b.buffers[b.p.n_buffers++] = (pp_buffer){PPTO_F32};
    prog_stage(&b, true);
    prog_fold(&b, max_fold(prog_load(&b, x, "01")));
    prog_stage_end(&b);
    prog_stage(&b, true);
    const uint32_t d = prog_op(&b, PP_SUB, PPTO_F32, prog_load(&b, x, "01"),
                               prog_op(&b, PP_STATE, PPTO_F32, 0, 0, 0, 0), 0, 0);
    const uint32_t e = prog_call(&b, &half_f32, 1, &d);
    prog_op(&b, PP_KEEP, PPTO_F32, e, 0, 0, 0);
    prog_fold(&b, sum_fold(e));
    prog_stage_end(&b);
    prog_stage(&b, true);
    const uint32_t one = prog_f32(&b, 1.0f), s = prog_op(&b, PP_STATE, PPTO_F32, 0, 0, 0, 1);
    const uint32_t inverse = prog_op(&b, PP_DIV, PPTO_F32, one, s, 0, 0);
    prog_store(&b, out, "01",
               prog_op(&b, PP_MUL, PPTO_F32, prog_op(&b, PP_BUFFER, PPTO_F32, 0, 0, 0, 0), inverse, 0, 0));
    prog_stage_end(&b);
    char name[80];
    snprintf(name, sizeof name, "rows frame %d outer %d n %d %s", (int)frame, (int)outer, (int)n, order);
    prog_compare(&b, name);
    prog_free(&b);
}

Test(interpreter, kept_rows)
{
    for (size_t i = 0; i < N_LENGTHS; i++)
        for (unsigned c = 0; c < 8; c++) {
            const int64_t outer = c & 2 ? 1 : lengths[i] > 5000 ? 3 : 70;
            rows_case(c & 1 ? PP_FRAME_ROWS : PP_FRAME_LANES, outer, lengths[i], c & 4 ? "10" : "01");
        }
    rows_case(PP_FRAME_LANES, 2, 400000, "01");
    rows_case(PP_FRAME_ROWS, 20, 20000, "10");
}

/* ---- scans ----------------------------------------------------------------------------------- */

static void scan_case(pp_frame frame, int64_t outer, int64_t n, bool trace)
{
    static program_builder b;
    const int64_t shape[] = {outer, n};
    const ppto_dtype dtype = trace ? PPTO_U64 : PPTO_F32;
    prog_start(&b, frame);
    prog_axis(&b, PP_AXIS_OUTER, outer);
    prog_axis(&b, PP_AXIS_INNER, n);
    const uint32_t x = prog_tensor(&b, dtype, false, frame == PP_FRAME_ROWS ? "10" : "01", 2, shape);
    const uint32_t out = prog_tensor(&b, dtype, true, frame == PP_FRAME_ROWS ? "10" : "01", 2, shape);
    const uint32_t last = prog_tensor(&b, dtype, true, NULL, 1, shape);
    prog_fill(&b, x, (uint64_t)n);
    prog_stage(&b, true);
    pp_fold fold = sum_fold(prog_load(&b, x, "01"));
    if (trace)
        fold = (pp_fold){.n_states = 1,
                         .n_inputs = 1,
                         .state = {PPTO_U64},
                         .input = {fold.input[0]},
                         .lift = &lift_u64,
                         .join = &trace_u64,
                         .position = true};
    fold.finish = NULL;
    fold.law = PP_LAW_SCAN;
    prog_fold(&b, fold);
    prog_store(&b, out, "01", prog_op(&b, PP_SCANNED, dtype, 0, 0, 0, 0));
    prog_stage_end(&b);
    prog_stage(&b, false);
    prog_store(&b, last, "0", prog_op(&b, PP_STATE, dtype, 0, 0, 0, 0));
    prog_stage_end(&b);
    char name[80];
    snprintf(name, sizeof name, "scan frame %d outer %d n %d %d", (int)frame, (int)outer, (int)n, trace);
    prog_compare(&b, name);
    prog_free(&b);
}

Test(interpreter, scans)
{
    for (size_t i = 0; i < N_LENGTHS; i++)
        for (unsigned c = 0; c < 8; c++)
            scan_case(c & 1 ? PP_FRAME_ROWS : PP_FRAME_LANES, c & 2 ? 1 : 33, lengths[i], c & 4);
}

/* ---- contractions ---------------------------------------------------------------------------- */

/* relu(a @ b + bias): orders of the factors, several dtypes. */
static void contract_case(ppto_dtype dtype, int64_t batch, int64_t m, int64_t n, int64_t k,
                          const char *order_a, const char *order_b)
{
    static program_builder b;
    const int64_t a_shape[] = {batch, m, k}, b_shape[] = {batch, k, n}, out_shape[] = {batch, m, n};
    prog_start(&b, PP_FRAME_CONTRACT);
    prog_axis(&b, PP_AXIS_BATCH, batch);
    prog_axis(&b, PP_AXIS_M, m);
    prog_axis(&b, PP_AXIS_N, n);
    prog_axis(&b, PP_AXIS_K, k);
    const uint32_t x = prog_tensor(&b, dtype, false, order_a, 3, a_shape);
    const uint32_t w = prog_tensor(&b, dtype, false, order_b, 3, b_shape);
    const uint32_t bias = prog_tensor(&b, dtype, false, NULL, 1, &n);
    const uint32_t out = prog_tensor(&b, dtype, true, NULL, 3, out_shape);
    for (uint32_t t = 0; t < 3; t++) prog_fill(&b, t, t + 9);
    b.p.contract.dtype = (uint8_t)dtype;
    uint32_t v = prog_load(&b, x, "013");
    b.p.contract.a_count = b.p.n_code;
    b.p.contract.a_value = v;
    b.p.contract.b_first = b.p.n_code;
    v = prog_load(&b, w, "032");
    b.p.contract.b_value = prog_op(&b, PP_NEG, dtype, v, 0, 0, 0);
    b.p.contract.b_count = 2;
    prog_stage(&b, false);
    const uint32_t sum = prog_op(&b, PP_ADD, dtype, prog_op(&b, PP_PRODUCT, dtype, 0, 0, 0, 0),
                                 prog_load(&b, bias, "2"), 0, 0);
    const uint32_t zero = prog_const(&b, dtype, 0);
    prog_store(&b, out, "012", prog_op(&b, PP_MAX, dtype, sum, zero, 0, 0));
    prog_stage_end(&b);
    char name[96];
    snprintf(name, sizeof name, "contract %s %d x [%d %d %d] %s %s", ppto_dtype_name(dtype), (int)batch,
             (int)m, (int)n, (int)k, order_a, order_b);
    prog_compare(&b, name);
    prog_free(&b);
}

Test(interpreter, contractions)
{
    static const int64_t sizes[][4] = {{1, 1, 1, 1},      {1, 2, 3, 0},    {2, 13, 33, 7},
                                       {1, 40, 70, 1500}, {3, 25, 1, 300}, {1, 1, 100, 1025},
                                       {1, 130, 50, 260}, {5, 8, 8, 8}};
    static const char *const orders[] = {"012", "021", "120", "-01-2"};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (unsigned c = 0; c < 8; c++) {
            const ppto_dtype dtype = c == 7 ? PPTO_I32 : c == 6 ? PPTO_U8 : c >= 4 ? PPTO_F64 : PPTO_F32;
            contract_case(dtype, sizes[s][0], sizes[s][1], sizes[s][2], sizes[s][3], orders[c % 4],
                          orders[(c + c / 4) % 4]);
        }
}
