/* SPDX-License-Identifier: Apache-2.0
 * See part_launches.h. Everything is allocated when the launch is made; sizing and binding only fill it in.
 */
#include "devices/part_launches.h"

#include <string.h>

#include "base/checked.h"

static ppto_status no_memory(pp_error *err)
{
    return pp_fail(err, PPTO_E_NOMEM, "out of memory");
}

static ppto_status create(pp_chain_launch *c, pp_kernel *const *kernels, pp_error *err)
{
    const pp_program *p = c->program;
    c->locals = pp_arena_alloc(&c->arena, (p->n_locals + 1u) * sizeof *c->locals);
    c->place = pp_arena_alloc(&c->arena, (p->n_locals + 1u) * sizeof *c->place);
    if (c->locals == NULL || c->place == NULL) return no_memory(err);
    for (uint32_t i = 0; i < p->n_parts; i++) {
        const uint32_t n = p->parts[i].program->n_tensors;
        c->tensors[i] = pp_arena_alloc(&c->arena, (n + 1u) * sizeof *c->tensors[i]);
        if (c->tensors[i] == NULL) return no_memory(err);
        PP_TRY(c->device->launch_create(kernels[i], &c->part[i], err));
    }
    return PPTO_OK;
}

ppto_status pp_chain_create(const pp_device_class *device, const pp_program *program,
                            pp_kernel *const *kernels, pp_chain_launch **out, pp_error *err)
{
    *out = pp_calloc(1, sizeof **out);
    if (*out == NULL) return no_memory(err);
    (*out)->device = device;
    (*out)->program = program;
    return create(*out, kernels, err);
}

void pp_chain_destroy(pp_chain_launch *c)
{
    if (c == NULL) return;
    for (uint32_t i = 0; i < c->program->n_parts; i++) c->device->launch_destroy(c->part[i]);
    pp_arena_free(&c->arena);
    pp_free(c);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static ppto_status shape_local(const pp_local *local, const int64_t *slots, pp_local_at *at, pp_error *err)
{
    int64_t bytes = (int64_t)ppto_dtype_size((ppto_dtype)local->dtype);
    bool fits = true;
    at->rows = 1;
    for (uint32_t d = local->rank; d-- > 0;) {
        const int64_t size = slots[local->dim[d]];
        if (size < 0) return pp_fail(err, PPTO_E_SHAPE, "a size within a kernel is negative");
        if (d + 1 == local->rows) at->row_bytes = (size_t)bytes;
        at->shape[d] = size;
        at->stride[d] = bytes;
        fits = fits && pp_mul_i64(bytes, size > 0 ? size : 1, &bytes);
        if (d < local->rows) at->rows *= size; /* a part of what has been multiplied */
    }
    if (local->rows == 0) at->row_bytes = (size_t)bytes;
    return fits ? PPTO_OK : pp_fail(err, PPTO_E_SIZE, "the size of a tensor overflows 64 bits");
}

ppto_status pp_chain_shape(pp_chain_launch *c, const pp_binding *binding, pp_error *err)
{
    const pp_program *p = c->program;
    for (uint32_t i = 0; i < p->n_locals; i++)
        PP_TRY(shape_local(&p->locals[i], binding->slots, &c->locals[i], err));
    for (uint32_t i = 0; i < p->n_parts; i++) {
        const pp_chain_part *part = &p->parts[i];
        for (uint32_t t = 0; t < part->program->n_tensors; t++) {
            const uint32_t at = part->tensor[t];
            if (at < p->n_tensors) {
                c->tensors[i][t] = binding->tensors[at];
                continue;
            }
            const pp_local_at *local = &c->locals[at - p->n_tensors];
            c->tensors[i][t] =
                (pp_tensor_ref){NULL, p->locals[at - p->n_tensors].rank, local->shape, local->stride};
        }
    }
    return PPTO_OK;
}

/* ---- phases ---------------------------------------------------------------------------------- */

static bool reserve(size_t *total, size_t bytes, size_t *at)
{
    size_t end;
    *at = *total;
    if (!pp_add_size(*total, bytes, &end) || !pp_add_size(end, 63, &end)) return false;
    *total = end & ~(size_t)63;
    return true;
}

static bool place_locals(pp_chain_launch *c, size_t *total)
{
    const pp_program *p = c->program;
    for (uint32_t i = 0; i < p->n_locals; i++) {
        size_t bytes;
        if (p->locals[i].place != i) continue;
        if (!pp_mul_size((size_t)c->locals[i].rows, c->locals[i].row_bytes, &bytes) ||
            !reserve(total, bytes, &c->place[i]))
            return false;
    }
    return true;
}

static void append_phases(pp_geometry *all, const pp_geometry *part)
{
    memcpy(all->tasks + all->phases, part->tasks, part->phases * sizeof *part->tasks);
    all->phases += part->phases;
    if (part->scratch_bytes > all->scratch_bytes) all->scratch_bytes = part->scratch_bytes;
    if (part->task_ns > all->task_ns) all->task_ns = part->task_ns;
}

ppto_status pp_chain_resize(pp_chain_launch *c, const pp_binding *binding, uint32_t workers, pp_geometry *out,
                            bool *fits, pp_error *err)
{
    size_t shared = 0;
    bool small = true;
    *out = (pp_geometry){0};
    *fits = true;
    for (uint32_t i = 0; i < c->program->n_parts; i++) {
        const pp_binding own = {binding->slots, c->tensors[i], binding->args};
        pp_geometry part;
        PP_TRY(c->device->resize(c->part[i], &own, workers, &part, err));
        c->first_phase[i] = out->phases;
        if (out->phases + part.phases > PP_MAX_PHASES) return *fits = false, PPTO_OK;
        append_phases(out, &part);
        small = small && reserve(&shared, part.shared_bytes, &c->shared[i]);
    }
    c->first_phase[c->program->n_parts] = out->phases;
    if (!small || !place_locals(c, &shared)) return pp_fail(err, PPTO_E_SIZE, "a kernel is too large");
    out->shared_bytes = shared;
    return PPTO_OK;
}

ppto_status pp_chain_bind(pp_chain_launch *c, const pp_binding *binding, void *shared)
{
    const pp_program *p = c->program;
    for (uint32_t i = 0; i < p->n_parts; i++) {
        const pp_chain_part *part = &p->parts[i];
        for (uint32_t t = 0; t < part->program->n_tensors; t++) {
            const uint32_t at = part->tensor[t];
            void **data = &c->tensors[i][t].data;
            if (at < p->n_tensors)
                *data = binding->tensors[at].data;
            else
                *data = shared ? (char *)shared + c->place[p->locals[at - p->n_tensors].place] : NULL;
        }
        const pp_binding own = {binding->slots, c->tensors[i], binding->args};
        PP_TRY(c->device->bind(c->part[i], &own, shared ? (char *)shared + c->shared[i] : NULL));
    }
    return PPTO_OK;
}

ppto_status pp_chain_run(const pp_chain_launch *c, uint32_t phase, uint32_t task, void *scratch,
                         pp_error *err, int64_t *position)
{
    uint32_t i = 0;
    while (phase >= c->first_phase[i + 1]) i++;
    return c->device->run(c->part[i], phase - c->first_phase[i], task, scratch, err, position);
}
