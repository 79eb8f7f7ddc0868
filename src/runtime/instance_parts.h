/* SPDX-License-Identifier: Apache-2.0
 * What the parts of an instance share: instance.c makes it and keeps idle ones, instance_key.c knows what
 * fixes it, instance_check.c what must hold then, instance_layout.c lays out its buffers and makes its steps.
 */
#ifndef PP_INSTANCE_PARTS_H
#define PP_INSTANCE_PARTS_H

#include "runtime/sync.h"

/* Sizes and bytes of a prim; shape: [PPTO_MAX_RANK]. E_SHAPE, E_SIZE */
ppto_status pp_instance_shape(const pp_plan *plan, const int64_t *names, uint32_t prim, int64_t *shape,
                              uint64_t *bytes, pp_error *err);
/* When the groups are made: their tensors are bound, in->layout and in->dispatch are there afterwards. */
ppto_status pp_instance_lay_out(pp_instance *in, const ppto_program *program, pp_error *err);

#endif
