/* SPDX-License-Identifier: Apache-2.0
 * The functions that tests of the block interpreter call and fold with. */
#ifndef TEST_INTERP_CASES_H
#define TEST_INTERP_CASES_H

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

static PP_UNUSED pp_fold sum_fold(uint32_t input)
{
    return sum_of(input, &zero_f32);
}
static PP_UNUSED pp_fold max_fold(uint32_t input)
{
    return (pp_fold){.n_states = 1,
                     .n_inputs = 1,
                     .state = {PPTO_F32},
                     .input = {input},
                     .lift = &same_f32,
                     .join = &max_f32};
}

#endif
