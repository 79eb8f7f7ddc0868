/* SPDX-License-Identifier: Apache-2.0
 * The block interpreter against the reference device: folds by lanes and by rows, scans, kept values, split
 * reductions, contractions. Same bytes on every instruction set, for every grain, number of workers and order
 * of tasks. */
#include "interp_cases.h"

TestSuite(interpreter, .init = hash_functions, .timeout = 300);

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
