/* SPDX-License-Identifier: Apache-2.0
 * Lowering: one group of a fused graph becomes a kernel program, plus what its slots, tensors and args mean.
 */
#ifndef PP_LOWER_H
#define PP_LOWER_H

#include "graph/fuse.h"

typedef struct pp_lowered_tensor {
    uint32_t prim; /* an INPUT or a stored prim */
    bool output;   /* stored by this group */
    bool linear;   /* seen as one dimension of all elements, row-major: an INPUT must be contiguous */
} pp_lowered_tensor;

/* A number the host gives: the value of `prim` (pp_fused.number), of dtype `dtype`. */
typedef struct pp_lowered_arg {
    uint32_t prim;
    uint8_t dtype;
} pp_lowered_arg;

typedef struct pp_lowered {
    pp_program *program;
    PP_VEC(pp_lowered_tensor) tensors; /* per program tensor */
    PP_VEC(pp_size) slots;       /* per slot: its size expression (the first three: 0, 1, and 0 for -1) */
    PP_VEC(pp_lowered_arg) args; /* per program arg */
    pp_size flops;               /* what explain counts */
} pp_lowered;

/* lowered: initialised here, free it also after a failure. returns PPTO_OK; E_NOMEM; E_LIMIT (too many slots,
 * axes or values for one kernel); E_INTERNAL */
ppto_status pp_lower(const pp_flat *flat, const pp_fused *fused, uint32_t group, pp_lowered *lowered,
                     pp_error *err);
/* May output tensor `output` take over the memory of an input tensor (*input) that no later step reads? Every
 * element is read only where it is written, and before. */
bool pp_lowered_in_place(const pp_lowered *lowered, uint32_t output, uint32_t *input);
/* The same for one input. */
bool pp_lowered_takes(const pp_lowered *lowered, uint32_t output, uint32_t input);
void pp_lowered_free(pp_lowered *lowered);

#endif
