/* SPDX-License-Identifier: Apache-2.0
 * What tests of the reference device share: small functions, and running a hand-made program once. */
#ifndef TEST_REFERENCE_RUN_H
#define TEST_REFERENCE_RUN_H

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

static PP_UNUSED uint64_t join_trace(uint64_t a, uint64_t b)
{
    return 3 * a + b * b;
}

/* ---- running --------------------------------------------------------------------------------- */

enum { MOST = 10000 };

static pp_error err;

/* Tensors are dense; their shapes as given. */
static PP_UNUSED ppto_status run(const pp_program *program, const int64_t *slots,
                                 const pp_tensor_ref *tensors, const uint64_t *args, int64_t *position)
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

#endif
