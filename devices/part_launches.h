/* SPDX-License-Identifier: Apache-2.0
 * Chains (frame CHAIN) on devices that run their parts: the parts' launches with what lies between them. In
 * this plain form the phases of one part follow those of the one before, and locals lie in the launch's
 * shared area in their full size. A device may have a better form and use only the shapes. */
#ifndef PP_PART_LAUNCHES_H
#define PP_PART_LAUNCHES_H

#include "devices/device.h"
#include "kernel/program.h"

typedef struct pp_local_at {
    int64_t shape[PPTO_MAX_RANK], stride[PPTO_MAX_RANK]; /* strides in bytes */
    int64_t rows;
    size_t row_bytes;
} pp_local_at;

typedef struct pp_chain_launch {
    const pp_program *program;
    const pp_device_class *device; /* whose functions run a part */
    pp_launch *part[PP_MOST_PARTS];
    pp_tensor_ref *tensors[PP_MOST_PARTS];
    pp_local_at *locals;
    size_t *place;                           /* per local: of its memory in the shared area */
    uint32_t first_phase[PP_MOST_PARTS + 1]; /* of each part */
    size_t shared[PP_MOST_PARTS];            /* of each part in the shared area */
    pp_arena arena;
} pp_chain_launch;

/* Launches of the parts' kernels. Destroyed by pp_chain_destroy, also after a failure; NULL is fine. */
ppto_status pp_chain_create(const pp_device_class *device, const pp_program *program,
                            pp_kernel *const *kernels, pp_chain_launch **out, pp_error *err);
void pp_chain_destroy(pp_chain_launch *chain);
/* Shapes of the locals, then tensors of the parts with these shapes and strides. E_SIZE, E_SHAPE */
ppto_status pp_chain_shape(pp_chain_launch *chain, const pp_binding *binding, pp_error *err);
/* Sizes the parts after pp_chain_shape. *fits false: more phases than a launch may have. */
ppto_status pp_chain_resize(pp_chain_launch *chain, const pp_binding *binding, uint32_t workers,
                            pp_geometry *out, bool *fits, pp_error *err);
/* shared NULL: locals have no memory yet. */
ppto_status pp_chain_bind(pp_chain_launch *chain, const pp_binding *binding, void *shared);
ppto_status pp_chain_run(const pp_chain_launch *chain, uint32_t phase, uint32_t task, void *scratch,
                         pp_error *err, int64_t *position);

#endif
