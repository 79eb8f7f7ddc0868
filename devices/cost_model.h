/* SPDX-License-Identifier: Apache-2.0
 * The constants of the cost model: what bytes, arithmetic and other workers cost on this machine.
 *
 * Devices decide by them how a launch divides (interp_cost.c); reports show what they predict. They are those
 * of a usual machine until `ppto tune` has measured this one (runtime/tune.c). Nothing here decides what is
 * computed: the bits are the same for all constants. */
#ifndef PP_COST_MODEL_H
#define PP_COST_MODEL_H

#include "base/base.h"

typedef enum pp_cost {
    PP_COST_LAUNCH_NS, /* a launch on the calling thread */
    PP_COST_WAKE_NS,   /* more, when tasks go to other workers */
    PP_COST_NEAR,      /* GB/s of a worker, up to PP_NEAR_BYTES of it */
    PP_COST_MIDDLE,    /* up to PP_MIDDLE_BYTES */
    PP_COST_FAR,       /* from memory */
    PP_COST_STEPS,     /* of what the device thinks of loops of blocks, a factor */
    PP_COST_CODE,      /* of machine code */
    PP_COST_PRODUCTS,  /* of products */
    PP_COSTS
} pp_cost;

enum { PP_NEAR_BYTES = 1 << 20, PP_MIDDLE_BYTES = 32 << 20 };

typedef struct pp_costs {
    double at[PP_COSTS];
    bool measured; /* on this machine */
} pp_costs;

extern const pp_costs pp_usual_costs;

/* ns in which a worker moves its share of so many bytes. */
double pp_cost_of_bytes(const pp_costs *costs, double bytes_of_worker);
/* Whether work that takes one worker so many ns, and some workers together `shared` ns, is given to them:
 * when that ends by a tenth sooner, with a wake of them for each phase. */
bool pp_cost_shares(const pp_costs *costs, double alone, double shared, uint32_t phases);
/* In how many tasks work of ns is cut, at least 1: as many as are worth handing out, and no more than keep so
 * many workers busy to the end. */
uint32_t pp_cost_tasks(const pp_costs *costs, double ns, uint32_t workers);

#endif
