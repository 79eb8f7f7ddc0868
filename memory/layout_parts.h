/* SPDX-License-Identifier: Apache-2.0
 * What the parts of the layout planner share: the precedence of steps, and units. A unit is a buffer together
 * with those that take over its bytes one after the other; it is what gets an offset. Unit A may share bytes
 * with unit B when A is before B (or B before A): every end of A precedes the step that defines B. Ends are
 * the uses of its last buffer and the step that defines that; ends that precede another end are left out. */
#ifndef PP_LAYOUT_PARTS_H
#define PP_LAYOUT_PARTS_H

#include "memory/layout.h"

#define PP_NO_UNIT UINT32_MAX

/* ---- layout_order.c : u before s, in every order the needs allow ------------------------------- */

/* Serial: program order. Up to PP_ORDER_BITS steps: the closure as bits, exact. Beyond: reachability along at
 * most n_chains paths that cover the steps; what it does not know it denies, so it is safe. */
#define PP_ORDER_BITS 4096u
typedef struct pp_order {
    bool serial;
    uint32_t n;
    size_t words;        /* of a row of bits */
    uint64_t *bits;      /* row s, bit u: u before s */
    uint32_t n_chains;   /* entries of a row of reach */
    uint32_t *chain;     /* of a step; n_chains: none */
    uint32_t *reach;     /* row s, chain c: 1 + the last step of c that is before s; 0: none */
    uint32_t *successor; /* a step right after this one that has a chain; n: none known */
} pp_order;
ppto_status pp_order_make(const pp_layout_problem *problem, pp_order *out);
void pp_order_free(pp_order *order);
bool pp_order_before(const pp_order *order, uint32_t u, uint32_t s);

/* ---- layout.c ---------------------------------------------------------------------------------- */

typedef struct pp_unit {
    uint64_t bytes;             /* a multiple of 64, not 0 */
    uint32_t defined;           /* step of the first buffer */
    uint32_t last;              /* the greatest end */
    uint32_t first_end, n_ends; /* in ends */
} pp_unit;

typedef struct pp_units {
    const pp_order *order;
    pp_unit *at;
    uint32_t n;
    uint32_t *ends;
} pp_units;

bool pp_unit_before(const pp_units *units, uint32_t a, uint32_t b);

/* ---- layout_pack.c, layout_online.c: fill offset[n] and *bytes ------------------------------ */

typedef enum pp_pack_key { PP_PACK_CEILING, PP_PACK_SIZE, PP_PACK_AREA, PP_PACK_KEYS } pp_pack_key;
/* Greedy best fit in the order of the key. bound: the ceiling that PP_PACK_CEILING tries to keep.
 * returns PPTO_OK; E_NOMEM; E_SIZE: no packing, because of a sum above 64 bits or too many units to look at
 */
#define PP_PACK_UNITS 2048u
ppto_status pp_pack_greedy(const pp_units *units, pp_pack_key key, uint64_t bound, uint64_t *offset,
                           uint64_t *bytes);
/* Best fit in program order, with lists of free segments by size; near-linear. */
ppto_status pp_pack_online(const pp_units *units, uint64_t *offset, uint64_t *bytes);

/* ---- layout_bound.c ---------------------------------------------------------------------------- */

ppto_status pp_bound_serial(const pp_units *units, uint32_t n_steps,
                            uint64_t *bound); /* most bytes in program order */
/* The heaviest set of units of which none is before another; n <= PP_BOUND_UNITS. */
#define PP_BOUND_UNITS 256u
ppto_status pp_bound_antichain(const pp_units *units, uint64_t *bound);

#endif
