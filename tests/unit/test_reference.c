/* SPDX-License-Identifier: Apache-2.0
 * The reference device on small hand-made programs: folds and scans of the laws of meaning as known answers,
 * and the order of joins seen through a join that does not commute. */
#include "reference_run.h"

/* ---- one fold over a vector ------------------------------------------------------------------ */

/* x[n] -> y[]: slot 3 is n. Stage 0 loads and folds, stage 1 stores the state; a scan stores z[n] as well. */
static void run_fold(pp_frame frame, pp_fold fold, ppto_dtype dtype, const void *x, int64_t n, void *y,
                     void *z)
{
    const bool scan = fold.law == PP_LAW_SCAN;
    pp_axis axes[] = {{.size = 3, .role = PP_AXIS_INNER}};
    pp_tensor_slot slots[] = {{.dtype = (uint8_t)dtype, .rank = 1},
                              {.dtype = (uint8_t)dtype, .rank = 0, .output = true, .result = true},
                              {.dtype = (uint8_t)dtype, .rank = 1, .output = true, .result = true}};
    pp_term terms[] = {{0, PP_SLOT_1}};
    pp_affine affines[] = {{.base = PP_SLOT_0, .n_terms = 1, .first_term = 0, .value = PP_NONE}};
    pp_access accesses[] = {{.tensor = 0}, {.tensor = 1}, {.tensor = 2}};
    uint8_t d = (uint8_t)dtype;
    pp_instr code[] = {{.op = PP_LOAD, .dtype = d, .imm = 0},
                       {.op = PP_SCANNED, .dtype = d, .imm = 0, .a = 0},
                       {.op = PP_STORE, .dtype = d, .imm = 2, .a = 1},
                       {.op = PP_STATE, .dtype = d, .imm = 0, .a = 0},
                       {.op = PP_STORE, .dtype = d, .imm = 1, .a = 3}};
    if (!scan) {
        code[1] = code[3];
        code[2] = code[4];
        code[2].a = 1;
    }
    uint32_t first = scan ? 3 : 1;
    pp_stage stages[] = {{.first = 0, .count = first, .inner = true, .first_fold = 0, .n_folds = 1},
                         {.first = first, .count = 2, .first_fold = 1, .n_folds = 0}};
    fold.n_states = fold.n_inputs = 1;
    fold.state[0] = d;
    pp_program program = {.frame = frame,
                          .n_slots = 4,
                          .axes = axes,
                          .n_axes = 1,
                          .tensors = slots,
                          .n_tensors = 3,
                          .terms = terms,
                          .n_terms = 1,
                          .affines = affines,
                          .n_affines = 1,
                          .accesses = accesses,
                          .n_accesses = 3,
                          .code = code,
                          .n_code = first + 2,
                          .folds = &fold,
                          .n_folds = 1,
                          .stages = stages,
                          .n_stages = 2};
    int64_t position, size = (int64_t)ppto_dtype_size(dtype);
    const int64_t values[] = {0, 1, -1, n};
    union {
        const void *from;
        void *to;
    } input = {.from = x};
    const pp_tensor_ref tensors[] = {{input.to, 1, &n, &size}, {y, 0, NULL, NULL}, {z, 1, &n, &size}};
    cr_assert_eq(run(&program, values, tensors, NULL, &position), PPTO_OK, "%s", err.text);
}

static float sum_f32(pp_frame frame, const float *x, int64_t n)
{
    float y = 99;
    pp_fold fold = {.lift = &identity_f32, .join = &add_f32, .finish = &plus_zero};
    run_fold(frame, fold, PPTO_F32, x, n, &y, NULL);
    return y;
}

#define T 0x1p24f

Test(reference_lanes, join_by_halving)
{
    const float v[] = {T, 1, 1, 1, 1};
    cr_expect_eq(sum_f32(PP_FRAME_LANES, v, 5), T + 2);
    cr_expect_eq(sum_f32(PP_FRAME_ROWS, v, 5), T);
}

Test(reference_lanes, finish_makes_a_sum_of_minus_zeros_plus_zero)
{
    const float v[] = {-0.0f, -0.0f};
    float sum = sum_f32(PP_FRAME_LANES, v, 2), product = 0;
    cr_expect(sum == 0 && !__builtin_signbit(sum));
    pp_fold bare = {.lift = &identity_f32, .join = &add_f32};
    run_fold(PP_FRAME_LANES, bare, PPTO_F32, v, 2, &product, NULL);
    cr_expect(__builtin_signbit(product));
}

Test(reference_lanes, results_have_the_canonical_nan)
{
    uint32_t v = 0xffc00123, y = 0;
    pp_fold fold = {.lift = &identity_f32, .join = &add_f32};
    run_fold(PP_FRAME_LANES, fold, PPTO_F32, &v, 1, &y, NULL);
    cr_expect_eq(y, 0x7fc00000);
}

static uint64_t elements[MOST], scanned[MOST];

static void fill_elements(void)
{
    for (uint64_t i = 0; i < MOST; i++) elements[i] = i * 0x9e3779b97f4a7c15u + 5;
}

/* The lane law, written the other way round: the state of a set of lanes, top down. */
static uint64_t lane_tree(const uint64_t *lane, int64_t lanes, int64_t i, int64_t h)
{
    if (h == 64) return lane[i];
    bool right = i + h < lanes;
    uint64_t left = lane_tree(lane, lanes, i, 2 * h);
    return right ? join_trace(left, lane_tree(lane, lanes, i + h, 2 * h)) : left;
}

static uint64_t block_tree(const uint64_t *block, int64_t n)
{
    if (n == 1) return block[0];
    int64_t half = 1;
    while (2 * half < n) half *= 2;
    return join_trace(block_tree(block, half), block_tree(block + half, n - half));
}

static uint64_t lanes_by_hand(const uint64_t *x, int64_t n, bool step)
{
    uint64_t block[8];
    int64_t blocks = 0;
    for (int64_t b = 0; b < n; b += 4096, blocks++) {
        uint64_t lane[64];
        for (int64_t k = b; k < n && k < b + 4096; k++) {
            uint64_t *s = &lane[k % 64], lifted = step ? x[k] + (uint64_t)k : x[k];
            if (k < b + 64)
                *s = lifted;
            else
                *s = step ? 7 * *s + x[k] + (uint64_t)k : join_trace(*s, lifted);
        }
        block[blocks] = lane_tree(lane, n - b < 64 ? n - b : 64, 0, 1);
    }
    return block_tree(block, blocks);
}

static uint64_t rows_by_hand(const uint64_t *x, int64_t n, bool step)
{
    uint64_t block[MOST / 128 + 1];
    for (int64_t k = 0; k < n; k++) {
        uint64_t *s = &block[k / 128], lifted = step ? x[k] + (uint64_t)k : x[k];
        if (k % 128 == 0)
            *s = lifted;
        else
            *s = step ? 7 * *s + x[k] + (uint64_t)k : join_trace(*s, lifted);
    }
    return block_tree(block, (n + 127) / 128);
}

static const int64_t lengths[] = {1,   2,   3,   5,    63,   64,   65,   70,   127,
                                  128, 129, 300, 4095, 4096, 4097, 8192, 8193, MOST};
#define LENGTHS (sizeof lengths / sizeof lengths[0])

Test(reference_lanes, blocks_and_lanes_join_in_order)
{
    const pp_fold plain = {.lift = &identity_u64, .join = &trace};
    const pp_fold stepped = {.lift = &lift_u64, .step = &step_u64, .join = &trace, .position = true};
    fill_elements();
    for (size_t i = 0; i < LENGTHS; i++) {
        uint64_t y = 0;
        run_fold(PP_FRAME_LANES, plain, PPTO_U64, elements, lengths[i], &y, NULL);
        cr_expect_eq(y, lanes_by_hand(elements, lengths[i], false), "n = %d", (int)lengths[i]);
        run_fold(PP_FRAME_LANES, stepped, PPTO_U64, elements, lengths[i], &y, NULL);
        cr_expect_eq(y, lanes_by_hand(elements, lengths[i], true), "n = %d", (int)lengths[i]);
    }
}

Test(reference_rows, blocks_join_in_order)
{
    const pp_fold plain = {.lift = &identity_u64, .join = &trace}, joined = {.joined = true, .join = &trace};
    const pp_fold stepped = {.lift = &lift_u64, .step = &step_u64, .join = &trace, .position = true};
    fill_elements();
    for (size_t i = 0; i < LENGTHS; i++) {
        uint64_t y = 0, z = 0;
        run_fold(PP_FRAME_ROWS, plain, PPTO_U64, elements, lengths[i], &y, NULL);
        cr_expect_eq(y, rows_by_hand(elements, lengths[i], false), "n = %d", (int)lengths[i]);
        run_fold(PP_FRAME_ROWS, joined, PPTO_U64, elements, lengths[i], &z, NULL);
        cr_expect_eq(y, z);
        run_fold(PP_FRAME_ROWS, stepped, PPTO_U64, elements, lengths[i], &y, NULL);
        cr_expect_eq(y, rows_by_hand(elements, lengths[i], true), "n = %d", (int)lengths[i]);
    }
}

Test(reference_lanes, an_empty_fold_is_safe)
{
    uint64_t y = 5;
    const pp_fold plain = {.lift = &identity_u64, .join = &trace},
                  scan = {.lift = &identity_u64, .join = &trace, .law = PP_LAW_SCAN};
    run_fold(PP_FRAME_LANES, plain, PPTO_U64, elements, 0, &y, NULL);
    cr_expect_eq(y, 0);
    run_fold(PP_FRAME_LANES, scan, PPTO_U64, elements, 0, &y, scanned);
}

/* ---- scans ----------------------------------------------------------------------------------- */

Test(reference_scan, cumulative_sum_takes_log_steps)
{
    const float v[] = {T, 1, 1, 1, 1}, want[] = {T, T, T + 2, T + 2, T + 4};
    float y = 0, z[5];
    pp_fold fold = {.lift = &identity_f32, .join = &add_f32, .law = PP_LAW_SCAN};
    run_fold(PP_FRAME_LANES, fold, PPTO_F32, v, 5, &y, z);
    cr_expect_arr_eq(z, want, sizeof want);
    cr_expect_eq(y, T + 4);
}

/* L of element k of a group that begins at g: the state after all log steps, from the definition. */
static uint64_t log_steps(const uint64_t *x, int64_t g, int64_t k, int64_t distance)
{
    if (distance == 0) return x[k];
    uint64_t own = log_steps(x, g, k, distance / 2);
    return k - distance >= g ? join_trace(log_steps(x, g, k - distance, distance / 2), own) : own;
}

static void scan_by_hand(const uint64_t *x, int64_t n, uint64_t *out)
{
    uint64_t c = 0, p = 0;
    for (int64_t b = 0; b < n; b += 4096) {
        uint64_t group = 0;
        for (int64_t k = b; k < n && k < b + 4096; k++) {
            uint64_t own = log_steps(x, k / 16 * 16, k, 8);
            p = k < b + 16 ? own : join_trace(group, own);
            if (k % 16 == 15) group = p;
            out[k] = b == 0 ? p : join_trace(c, p);
        }
        c = b == 0 ? p : join_trace(c, p);
    }
}

Test(reference_scan, groups_and_blocks_carry_in_order)
{
    static uint64_t want[MOST];
    const pp_fold fold = {.lift = &identity_u64, .join = &trace, .law = PP_LAW_SCAN};
    fill_elements();
    for (size_t i = 0; i < LENGTHS; i++) {
        uint64_t y = 0;
        scan_by_hand(elements, lengths[i], want);
        run_fold(PP_FRAME_LANES, fold, PPTO_U64, elements, lengths[i], &y, scanned);
        cr_expect_arr_eq(scanned, want, (size_t)lengths[i] * sizeof want[0], "n = %d", (int)lengths[i]);
        cr_expect_eq(y, want[lengths[i] - 1]);
    }
}

Test(reference_scan, rows_restart_every_128)
{
    uint64_t y = 0, p[300];
    const pp_fold fold = {.lift = &identity_u64, .join = &trace, .law = PP_LAW_SCAN};
    fill_elements();
    for (int k = 0; k < 300; k++) p[k] = k % 128 == 0 ? elements[k] : join_trace(p[k - 1], elements[k]);
    uint64_t c1 = p[127], c2 = join_trace(c1, p[255]);
    run_fold(PP_FRAME_ROWS, fold, PPTO_U64, elements, 300, &y, scanned);
    cr_expect_eq(scanned[100], p[100]);
    cr_expect_eq(scanned[200], join_trace(c1, p[200]));
    cr_expect_eq(scanned[299], join_trace(c2, p[299]));
    cr_expect_eq(y, scanned[299]);
}
