/* SPDX-License-Identifier: Apache-2.0
 * A run piece by piece: what the parts of the driver share. */
#ifndef PP_REGION_RUN_H
#define PP_REGION_RUN_H

#include "graph/region.h"
#include "runtime/runtime.h"

typedef struct pp_place_memory {
    ppto_array *array, *next; /* next: where a carry is written while the old one is read */
    int64_t units;            /* STATES: written so far */
    bool planned;             /* CARRY: its memory is counted */
} pp_place_memory;

/* A part of the region, ready to run: port k of the program is a window of place reads[k] or writes[k]. */
typedef struct pp_region_part {
    ppto_program *program;
    PP_VEC(uint32_t) reads;
    PP_VEC(uint32_t) writes;
} pp_region_part;

struct pp_region_run {
    ppto_program *p;
    ppto_array *const *inputs;
    pp_region *region;
    pp_place_memory *at; /* per place */
    int64_t total, rows; /* of the cut axis; of a piece */
    int64_t start;       /* first row of the piece */
    int64_t *pass_rows;  /* rows of a piece of every pass */
    uint64_t predicted, peak;
    pp_error *err;
};

/* ---- region_run.c ---------------------------------------------------------------------------------------
 */

ppto_status pp_region_part_open(pp_region_run *run, pp_part *take_part, pp_region_part *out);
void pp_region_part_close(pp_region_part *part);
/* ---- region_plan.c --------------------------------------------------------------------------------------
 */

/* Chooses pass_rows and predicts the peak. fixed: bytes of inputs and results that ppto owns. */
ppto_status pp_region_plan(pp_region_run *run, uint64_t fixed);

#endif
