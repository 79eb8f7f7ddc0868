/* SPDX-License-Identifier: Apache-2.0
 * What the tests of the block interpreter share: a way to write scalar functions down, the functions of a
 * plain sum, and that sum as a fold. Runs and comparisons are in tests/unit/interp_build.h. */
#ifndef TEST_INTERP_FUNCTIONS_H
#define TEST_INTERP_FUNCTIONS_H

#include "kernel/program.h"

#define PARAM(d, i)                                                                                          \
    {                                                                                                        \
        .op = PP_PARAM, .dtype = d, .imm = i                                                                 \
    }
#define FUNCTION(code_, consts_, n, ...)                                                                     \
    {                                                                                                        \
        .name = #code_, .n_params = n, .n_results = 1, .param = {__VA_ARGS__},                               \
        .result = {sizeof code_ / sizeof code_[0] - 1}, .code = code_,                                       \
        .n_code = sizeof code_ / sizeof code_[0], .consts = consts_, .n_consts = 3                           \
    }

static const uint64_t numbers[3] = {0, 3, 0x3f000000};
static const pp_instr same_f32_code[] = {PARAM(PPTO_F32, 0)};
static const pp_instr add_f32_code[] = {
    PARAM(PPTO_F32, 0), PARAM(PPTO_F32, 1), {.op = PP_ADD, .dtype = PPTO_F32, .a = 0, .b = 1}};
static pp_function same_f32 = FUNCTION(same_f32_code, numbers, 1, PPTO_F32);
static pp_function add_f32 = FUNCTION(add_f32_code, numbers, 2, PPTO_F32, PPTO_F32);

static inline void hash_each(pp_function *const *functions, size_t n)
{
    for (size_t i = 0; i < n; i++) functions[i]->hash = pp_function_hash(functions[i]);
}

/* finish: NULL for none. */
static inline pp_fold sum_of(uint32_t input, const pp_function *finish)
{
    return (pp_fold){.n_states = 1,
                     .n_inputs = 1,
                     .state = {PPTO_F32},
                     .input = {input},
                     .lift = &same_f32,
                     .join = &add_f32,
                     .finish = finish};
}

#endif
