/* SPDX-License-Identifier: Apache-2.0
 * The functions that take or give handles, without a place: for calls through a pointer and from other
 * languages, where no macro can add one. */
#include "runtime/runtime.h"

static const ppto_site nowhere = {NULL, NULL, 0, 0};

ppto_array *(ppto_array_create)(ppto_context *ctx, ppto_dtype dtype, int rank, const int64_t *shape)
{
    return ppto_array_create_at(nowhere, ctx, dtype, rank, shape);
}

ppto_array *(ppto_array_copy_of)(ppto_context *ctx, ppto_dtype dtype, int rank, const int64_t *shape,
                                 const void *data)
{
    return ppto_array_copy_of_at(nowhere, ctx, dtype, rank, shape, data);
}

ppto_array *(ppto_array_load)(ppto_context *ctx, const char *path)
{
    return ppto_array_load_at(nowhere, ctx, path);
}

ppto_array *(ppto_number)(ppto_context *ctx, double value)
{
    return ppto_number_at(nowhere, ctx, value);
}

ppto_array *(ppto_integer)(ppto_context *ctx, int64_t value)
{
    return ppto_integer_at(nowhere, ctx, value);
}

ppto_array *(ppto_array_fill)(ppto_context *ctx, ppto_dtype dtype, int rank, const int64_t *shape,
                              const char *filler, const char *stream)
{
    return ppto_array_fill_at(nowhere, ctx, dtype, rank, shape, filler, stream);
}

ppto_array *(ppto_array_retain)(ppto_array *array)
{
    return ppto_array_retain_at(nowhere, array);
}

void(ppto_array_release)(ppto_array *array)
{
    ppto_array_release_at(nowhere, array);
}

ppto_status(ppto_evaln)(size_t n, ppto_tensor *const *tensors, ppto_array **outputs, size_t n_inputs,
                        const char *const *names, ppto_array *const *arrays)
{
    return ppto_evaln_at(nowhere, n, tensors, outputs, n_inputs, names, arrays);
}

ppto_status(ppto_compile)(size_t n, ppto_tensor *const *outputs, ppto_program **program)
{
    return ppto_compile_at(nowhere, n, outputs, program);
}

ppto_status(ppto_program_bind)(ppto_program *program, size_t i, ppto_array *array)
{
    return ppto_program_bind_at(nowhere, program, i, array);
}

ppto_status(ppto_program_bind_name)(ppto_program *program, const char *name, ppto_array *array)
{
    return ppto_program_bind_name_at(nowhere, program, name, array);
}

ppto_status(ppto_program_bind_output)(ppto_program *program, size_t i, ppto_array *array)
{
    return ppto_program_bind_output_at(nowhere, program, i, array);
}

ppto_status(ppto_program_run)(ppto_program *program, ppto_array **outputs)
{
    return ppto_program_run_at(nowhere, program, outputs);
}

ppto_status(ppto_program_start)(ppto_program *program, const ppto_run_options *options, ppto_run **run)
{
    return ppto_program_start_at(nowhere, program, options, run);
}

ppto_status(ppto_run_outputs)(ppto_run *run, ppto_array **outputs)
{
    return ppto_run_outputs_at(nowhere, run, outputs);
}
