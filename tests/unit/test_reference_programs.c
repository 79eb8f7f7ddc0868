/* SPDX-License-Identifier: Apache-2.0
 * The reference device on products, programs of several stages, guarded loads and checks. */
#include "reference_run.h"

/* ---- contraction ----------------------------------------------------------------------------- */

/* y[m, n] = a[m, k] @ b[k, n]; slots 3, 4, 5 are m, n, k. */
static void matmul(ppto_dtype dtype, const void *a, const void *b, void *y, int64_t m, int64_t n, int64_t k)
{
    uint8_t d = (uint8_t)dtype;
    pp_axis axes[] = {{3, PP_AXIS_M}, {4, PP_AXIS_N}, {5, PP_AXIS_K}};
    pp_tensor_slot slots[] = {{.dtype = d, .rank = 2},
                              {.dtype = d, .rank = 2},
                              {.dtype = d, .rank = 2, .output = true, .result = true}};
    pp_term terms[] = {{0, PP_SLOT_1}, {1, PP_SLOT_1}, {2, PP_SLOT_1}};
    pp_affine affines[] = {
        {0, 1, 0, PP_NONE}, {0, 1, 2, PP_NONE}, {0, 1, 1, PP_NONE}, {0, 1, 0, PP_NONE}, {0, 1, 1, PP_NONE}};
    pp_access accesses[] = {
        {.tensor = 0, .first_affine = 0}, {.tensor = 1, .first_affine = 1}, {.tensor = 2, .first_affine = 3}};
    pp_instr code[] = {{.op = PP_LOAD, .dtype = d, .imm = 0},
                       {.op = PP_LOAD, .dtype = d, .imm = 1},
                       {.op = PP_PRODUCT, .dtype = d},
                       {.op = PP_STORE, .dtype = d, .imm = 2, .a = 2}};
    pp_stage stages[] = {{.first = 2, .count = 2}};
    pp_program program = {.frame = PP_FRAME_CONTRACT,
                          .n_slots = 6,
                          .axes = axes,
                          .n_axes = 3,
                          .tensors = slots,
                          .n_tensors = 3,
                          .terms = terms,
                          .n_terms = 3,
                          .affines = affines,
                          .n_affines = 5,
                          .accesses = accesses,
                          .n_accesses = 3,
                          .code = code,
                          .n_code = 4,
                          .stages = stages,
                          .n_stages = 1,
                          .contract = {d, 0, 1, 0, 1, 1, 1}};
    int64_t position, size = (int64_t)ppto_dtype_size(dtype);
    const int64_t values[] = {0, 1, -1, m, n, k}, sa[] = {m, k}, sb[] = {k, n}, sy[] = {m, n};
    const int64_t ta[] = {k * size, size}, tb[] = {n * size, size};
    union {
        const void *from;
        void *to;
    } left = {.from = a}, right = {.from = b};
    const pp_tensor_ref tensors[] = {{left.to, 2, sa, ta}, {right.to, 2, sb, tb}, {y, 2, sy, tb}};
    cr_assert_eq(run(&program, values, tensors, NULL, &position), PPTO_OK, "%s", err.text);
}

Test(reference_contract, one_chain_of_fma)
{
    const float h = 0x1p-12f, a[] = {-1, 1 + h}, b[] = {1 + 2 * h, 1 + h}, tiny[] = {-0x1p-100f, 0x1p-100f};
    float y = 9;
    matmul(PPTO_F32, a, b, &y, 1, 1, 2);
    cr_expect_eq(y, 0x1p-24f);
    matmul(PPTO_F32, tiny, tiny + 1, &y, 1, 1, 1);
    cr_expect(y == 0 && !__builtin_signbit(y));
    matmul(PPTO_F32, a, b, &y, 1, 1, 0);
    cr_expect(y == 0 && !__builtin_signbit(y));
}

Test(reference_contract, blocks_of_1024_are_added_in_order)
{
    static float a[1500], b[1500];
    float c0 = 0, c1 = 0, y = 0, whole = 0;
    for (int k = 0; k < 1500; k++) {
        a[k] = 1.0f / (float)(k + 3);
        b[k] = (float)(k % 7) - 2.5f;
        float *c = k < 1024 ? &c0 : &c1;
        *c = __builtin_fmaf(a[k], b[k], *c);
        whole = __builtin_fmaf(a[k], b[k], whole);
    }
    matmul(PPTO_F32, a, b, &y, 1, 1, 1500);
    cr_expect_eq(y, c0 + c1);
    cr_expect_neq(whole, c0 + c1);
}

Test(reference_contract, integers_wrap)
{
    const int32_t a[] = {0x7fffffff, 2, 1, 1}, b[] = {2, 0, 5, 1};
    int32_t y[4];
    const int32_t want[] = {8, 2, 7, 1};
    matmul(PPTO_I32, a, b, y, 2, 2, 2);
    cr_expect_arr_eq(y, want, sizeof want);
}

/* ---- stages, places, checks ------------------------------------------------------------------ */

/* y[r, c] = x[r, c] - max over c of x[r, ...], the value of the first stage kept for the second. */
Test(reference_stages, later_stages_read_states_and_kept_values)
{
    pp_axis axes[] = {{3, PP_AXIS_OUTER}, {4, PP_AXIS_INNER}};
    pp_tensor_slot slots[] = {{.dtype = PPTO_F32, .rank = 2}, {.dtype = PPTO_F32, .rank = 2, .output = true}};
    pp_term terms[] = {{0, PP_SLOT_1}, {1, PP_SLOT_1}};
    pp_affine affines[] = {{0, 1, 0, PP_NONE}, {0, 1, 1, PP_NONE}};
    pp_access accesses[] = {{.tensor = 0}, {.tensor = 1}};
    pp_instr code[] = {{.op = PP_LOAD, .dtype = PPTO_F32, .imm = 0},
                       {.op = PP_KEEP, .dtype = PPTO_F32, .imm = 0, .a = 0},
                       {.op = PP_BUFFER, .dtype = PPTO_F32, .imm = 0},
                       {.op = PP_STATE, .dtype = PPTO_F32, .imm = 0, .a = 0},
                       {.op = PP_SUB, .dtype = PPTO_F32, .a = 2, .b = 3},
                       {.op = PP_STORE, .dtype = PPTO_F32, .imm = 1, .a = 4}};
    pp_fold fold = {
        .n_states = 1, .n_inputs = 1, .state = {PPTO_F32}, .lift = &identity_f32, .join = &max_f32};
    pp_buffer buffer = {PPTO_F32};
    pp_stage stages[] = {{.first = 0, .count = 2, .inner = true, .n_folds = 1},
                         {.first = 2, .count = 4, .inner = true, .first_fold = 1}};
    pp_program program = {.frame = PP_FRAME_LANES,
                          .n_slots = 5,
                          .axes = axes,
                          .n_axes = 2,
                          .tensors = slots,
                          .n_tensors = 2,
                          .terms = terms,
                          .n_terms = 2,
                          .affines = affines,
                          .n_affines = 2,
                          .accesses = accesses,
                          .n_accesses = 2,
                          .code = code,
                          .n_code = 6,
                          .folds = &fold,
                          .n_folds = 1,
                          .buffers = &buffer,
                          .n_buffers = 1,
                          .stages = stages,
                          .n_stages = 2};
    float x[] = {1, 5, 2, 9, 8, 7}, y[6];
    const float want[] = {-4, 0, -3, 0, -1, -2};
    const int64_t values[] = {0, 1, -1, 2, 3}, shape[] = {2, 3}, stride[] = {12, 4};
    const pp_tensor_ref tensors[] = {{x, 2, shape, stride}, {y, 2, shape, stride}};
    int64_t position;
    cr_assert_eq(run(&program, values, tensors, NULL, &position), PPTO_OK, "%s", err.text);
    cr_expect_arr_eq(y, want, sizeof want);
}

/* y[i] = x[t[i] - 1] where 0 <= t[i] - 1 < size of x, else the fill; a check that t[i] >= limit, an arg. */
static ppto_status gather(int64_t n, int32_t *t, int32_t limit, int32_t *y, int64_t *position)
{
    static int32_t x[] = {10, 20, 30};
    pp_axis axes[] = {{3, PP_AXIS_OUTER}};
    pp_tensor_slot slots[] = {{.dtype = PPTO_I32, .rank = 1},
                              {.dtype = PPTO_I32, .rank = 1},
                              {.dtype = PPTO_I32, .rank = 1, .output = true}};
    pp_term terms[] = {{0, PP_SLOT_1}};
    pp_affine affines[] = {{0, 1, 0, PP_NONE}, {PP_SLOT_M1, 0, 0, 0}};
    pp_guard guards[] = {{1, PP_SLOT_0, 4}};
    pp_access accesses[] = {{.tensor = 0, .first_affine = 0},
                            {.tensor = 1, .first_affine = 1, .n_guards = 1, .fill = 77},
                            {.tensor = 2, .first_affine = 0}};
    pp_instr code[] = {{.op = PP_LOAD, .dtype = PPTO_I32, .imm = 0},
                       {.op = PP_ARG, .dtype = PPTO_I32, .imm = 0},
                       {.op = PP_LE, .dtype = PPTO_BOOL, .a = 1, .b = 0},
                       {.op = PP_CHECK, .dtype = PPTO_I32, .imm = 0, .a = 2, .b = 0},
                       {.op = PP_LOAD, .dtype = PPTO_I32, .imm = 1},
                       {.op = PP_STORE, .dtype = PPTO_I32, .imm = 2, .a = 4}};
    pp_check check = {"index {value} at {position} is too small", 0};
    pp_stage stages[] = {{.first = 0, .count = 6}};
    pp_program program = {.frame = PP_FRAME_MAP,
                          .n_slots = 5,
                          .n_args = 1,
                          .axes = axes,
                          .n_axes = 1,
                          .tensors = slots,
                          .n_tensors = 3,
                          .terms = terms,
                          .n_terms = 1,
                          .affines = affines,
                          .n_affines = 2,
                          .guards = guards,
                          .n_guards = 1,
                          .accesses = accesses,
                          .n_accesses = 3,
                          .code = code,
                          .n_code = 6,
                          .checks = &check,
                          .n_checks = 1,
                          .stages = stages,
                          .n_stages = 1};
    const int64_t values[] = {0, 1, -1, n, 3}, three_long[] = {3}, stride[] = {4};
    const pp_tensor_ref tensors[] = {{t, 1, &n, stride}, {x, 1, three_long, stride}, {y, 1, &n, stride}};
    const uint64_t args[] = {(uint32_t)limit};
    return run(&program, values, tensors, args, position);
}

Test(reference_places, a_load_outside_its_guards_yields_the_fill)
{
    int32_t t[] = {1, 3, 0, 4, 2}, y[5];
    const int32_t want[] = {10, 30, 77, 77, 20};
    int64_t position;
    cr_assert_eq(gather(5, t, -9, y, &position), PPTO_OK, "%s", err.text);
    cr_expect_arr_eq(y, want, sizeof want);
}

Test(reference_checks, the_lowest_position_is_reported)
{
    int32_t t[] = {1, -5, 0, -7}, y[4];
    int64_t position = 0;
    cr_expect_eq(gather(4, t, 0, y, &position), PPTO_E_VALUE);
    cr_expect_eq(position, 1);
    cr_expect_str_eq(err.text, "index -5 at 1 is too small");
}
