/* SPDX-License-Identifier: Apache-2.0
 * Where buffers lie in one slab, planned before a run from lifetimes under the precedence of the steps: two
 * buffers may share bytes only when every use of one precedes the definition of the other in every order the
 * steps may take. */
#ifndef PP_LAYOUT_H
#define PP_LAYOUT_H

#include "base/base.h"

typedef struct pp_layout_buffer {
    uint64_t bytes;
    uint32_t defined;     /* step that writes it first */
    const uint32_t *uses; /* steps that read it */
    uint32_t n_uses;
    uint32_t in_place_of; /* buffer whose bytes it may take over: read last by `defined`; UINT32_MAX: none */
} pp_layout_buffer;

typedef struct pp_layout_problem {
    const pp_layout_buffer *buffers;
    uint32_t n_buffers;
    uint32_t n_steps;
    const uint32_t *first_need, *needs; /* CSR: steps that step i waits for; all lower than i */
    bool serial; /* steps run one after the other in their order: plan for that order alone */
} pp_layout_problem;

typedef struct pp_layout {
    uint64_t *offset;      /* per buffer, multiples of 64 */
    uint64_t bytes;        /* of the slab */
    uint64_t lower_bound;  /* heaviest set of buffers that may live at once under the precedence */
    uint64_t serial_bound; /* the same for program order */
    uint32_t in_place;     /* how many took over another's bytes */
} pp_layout;

/* returns PPTO_OK; E_NOMEM; E_SIZE. layout: initialised here, pp_layout_free also after a failure. */
ppto_status pp_layout_plan(const pp_layout_problem *problem, pp_layout *layout);
void pp_layout_free(pp_layout *layout);
/* E_INTERNAL naming the two buffers when live ranges can overlap, a read can precede its write, or an offset
 * is not aligned or outside the slab. */
ppto_status pp_layout_verify(const pp_layout_problem *problem, const pp_layout *layout, pp_error *err);

#endif
