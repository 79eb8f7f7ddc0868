/* SPDX-License-Identifier: Apache-2.0
 * The reference device on small hand-made programs: the worked examples of the laws of meaning as known
 * answers, and the order of joins seen through a join that does not commute. */
#include <criterion/criterion.h>
#include <string.h>

#include "devices/device.h"
#include "kernel/program.h"

/* ---- functions ------------------------------------------------------------------------------- */

#define PARAM(d, i)                                                                                          \
    {                                                                                                        \
        .op = PP_PARAM, .dtype = d, .imm = i                                                                 \
    }
#define FUNCTION(n_in, code_, consts_, ...)                                                                  \
    {                                                                                                        \
        .name = "f", .n_params = n_in, .n_results = 1, .param = {__VA_ARGS__},                               \
        .result = {sizeof code_ / sizeof code_[0] - 1}, .code = code_,                                       \
        .n_code = sizeof code_ / sizeof code_[0], .consts = consts_, .n_consts = 2                           \
    }

static const uint64_t zero_one[2] = {0, 1};
static const pp_instr identity_f32_code[] = {PARAM(PPTO_F32, 0)};
static const pp_instr add_f32_code[] = {
    PARAM(PPTO_F32, 0), PARAM(PPTO_F32, 1), {.op = PP_ADD, .dtype = PPTO_F32, .a = 0, .b = 1}};
static const pp_instr max_f32_code[] = {
    PARAM(PPTO_F32, 0), PARAM(PPTO_F32, 1), {.op = PP_MAX, .dtype = PPTO_F32, .a = 0, .b = 1}};
static const pp_instr plus_zero_code[] = {PARAM(PPTO_F32, 0),
                                          {.op = PP_CONST, .dtype = PPTO_F32, .imm = 0},
                                          {.op = PP_ADD, .dtype = PPTO_F32, .a = 0, .b = 1}};
static const pp_function identity_f32 = FUNCTION(1, identity_f32_code, zero_one, PPTO_F32);
static const pp_function add_f32 = FUNCTION(2, add_f32_code, zero_one, PPTO_F32, PPTO_F32);
static const pp_function max_f32 = FUNCTION(2, max_f32_code, zero_one, PPTO_F32, PPTO_F32);
static const pp_function plus_zero = FUNCTION(1, plus_zero_code, zero_one, PPTO_F32);

/* 3 * a + b * b, wrapping: neither commutative nor associative, so that it tells who joined whom. */
static const uint64_t three[2] = {3, 0};
static const pp_instr trace_code[] = {PARAM(PPTO_U64, 0),
                                      PARAM(PPTO_U64, 1),
                                      {.op = PP_CONST, .dtype = PPTO_U64, .imm = 0},
                                      {.op = PP_MUL, .dtype = PPTO_U64, .a = 1, .b = 1},
                                      {.op = PP_FMA, .dtype = PPTO_U64, .a = 0, .b = 2, .c = 3}};
static const pp_function trace = FUNCTION(2, trace_code, three, PPTO_U64, PPTO_U64);
static const pp_instr identity_u64_code[] = {PARAM(PPTO_U64, 0)};
static const pp_function identity_u64 = FUNCTION(1, identity_u64_code, zero_one, PPTO_U64);
/* 7 * s + x + k: a step that is no join. */
static const uint64_t seven[2] = {7, 0};
static const pp_instr step_code[] = {PARAM(PPTO_U64, 0),
                                     PARAM(PPTO_U64, 1),
                                     PARAM(PPTO_I64, 2),
                                     {.op = PP_CAST, .dtype = PPTO_U64, .a = 2},
                                     {.op = PP_CONST, .dtype = PPTO_U64, .imm = 0},
                                     {.op = PP_FMA, .dtype = PPTO_U64, .a = 0, .b = 4, .c = 1},
                                     {.op = PP_ADD, .dtype = PPTO_U64, .a = 5, .b = 3}};
static const pp_function step_u64 = FUNCTION(3, step_code, seven, PPTO_U64, PPTO_U64, PPTO_I64);
static const pp_instr lift_code[] = {PARAM(PPTO_U64, 0),
                                     PARAM(PPTO_I64, 1),
                                     {.op = PP_CAST, .dtype = PPTO_U64, .a = 1},
                                     {.op = PP_ADD, .dtype = PPTO_U64, .a = 0, .b = 2}};
static const pp_function lift_u64 = FUNCTION(2, lift_code, zero_one, PPTO_U64, PPTO_I64);

static uint64_t join_trace(uint64_t a, uint64_t b)
{
    return 3 * a + b * b;
}

/* ---- running --------------------------------------------------------------------------------- */

enum { MOST = 10000 };

static pp_error err;

/* Tensors are dense; their shapes as given. */
static ppto_status run(const pp_program *program, const int64_t *slots, const pp_tensor_ref *tensors,
                       const uint64_t *args, int64_t *position)
{
    pp_device *device;
    pp_kernel *kernel;
    pp_launch *launch;
    pp_geometry geometry;
    const pp_device_class *class = &pp_reference_device;
    const pp_binding binding = {slots, tensors, args};
    pp_error_clear(&err);
    cr_assert_eq(class->open(NULL, &device, &err), PPTO_OK, "%s", err.text);
    cr_assert_eq(class->compile(device, program, &kernel, &err), PPTO_OK, "%s", err.text);
    cr_assert_eq(class->launch_create(kernel, &launch, &err), PPTO_OK);
    cr_assert_eq(class->resize(launch, &binding, 1, &geometry, &err), PPTO_OK);
    cr_assert_eq(geometry.phases, 1);
    cr_assert_eq(class->bind(launch, &binding, NULL), PPTO_OK);
    void *scratch = pp_alloc_aligned(64, geometry.scratch_bytes + 64);
    ppto_status status = class->run(launch, 0, 0, scratch, &err, position);
    pp_free(scratch);
    class->launch_destroy(launch);
    class->kernel_destroy(kernel);
    class->close(device);
    return status;
}

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
