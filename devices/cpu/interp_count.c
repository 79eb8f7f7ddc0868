/* SPDX-License-Identifier: Apache-2.0
 * Counting mode: which elements of each tensor a launch touched, as a bitmap per tensor. Slow, for tests.
 * Tasks may mark the same word at once, so marks are atomic; relaxed, as the counts are read after the run.
 */
#include <stdatomic.h>

#include "devices/cpu/interp_work.h"

static void touch(const pp_tensor_at *tensor, const char *at)
{
    const uint64_t element = (uint64_t)(at - (tensor->data + tensor->lowest)) / tensor->size;
    atomic_fetch_or_explicit(&tensor->touched[element / 64], UINT64_C(1) << element % 64,
                             memory_order_relaxed);
}

void pp_work_touch(const pp_work *w, const pp_access_at *access, const char *at, size_t rows, size_t cols,
                   int64_t row_step, int64_t col_step)
{
    const pp_tensor_at *tensor = &w->launch->tensors[access->tensor];
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) touch(tensor, at + (int64_t)r * row_step + (int64_t)c * col_step);
}

static size_t words(const pp_tensor_at *tensor)
{
    return (size_t)(tensor->span / tensor->size) / 64 + 1;
}

void pp_interp_count_start(pp_launch *launch)
{
    if (!launch->kernel->device->count_bytes) return;
    for (uint32_t i = 0; i < launch->variant->program->n_tensors; i++)
        for (size_t k = 0; launch->tensors[i].touched != NULL && k < words(&launch->tensors[i]); k++)
            atomic_store_explicit(&launch->tensors[i].touched[k], 0, memory_order_relaxed);
}

void pp_interp_counted_of(const pp_launch *launch, uint32_t tensor, uint64_t *sum)
{
    if (!launch->kernel->device->count_bytes || !launch->sized || launch->empty) return;
    const pp_tensor_at *at = &launch->tensors[tensor];
    uint64_t n = 0;
    for (size_t k = 0; at->touched != NULL && k < words(at); k++)
        n += (uint64_t)__builtin_popcountll(atomic_load_explicit(&at->touched[k], memory_order_relaxed));
    *sum += n * at->size;
}

void pp_interp_counted(const pp_launch *launch, uint64_t *reads, uint64_t *writes)
{
    *reads = *writes = 0;
    if (launch->chained != NULL) {
        pp_interp_chain_counted(launch, reads, writes);
        return;
    }
    for (uint32_t i = 0; i < launch->kernel->plain.program->n_tensors; i++)
        pp_interp_counted_of(launch, i, launch->kernel->plain.program->tensors[i].output ? writes : reads);
}
