/* SPDX-License-Identifier: Apache-2.0
 * The cost model where it is the same for all devices. Constants are per worker; what workers share (memory)
 * is counted as if it grew with them, which `ppto tune` measures with all of them at once. */
#include "devices/cost_model.h"

#define LEAST_GAIN 1.1     /* by so much alone is longer, or the work is not shared */
#define WAKES_PER_TASK 2.0 /* a task should be worth more than handing it out */
#define TASKS_PER_WORKER 4 /* so that all end together */

/* A processor of a few years ago with vectors of 32 bytes or more. */
const pp_costs pp_usual_costs = {.at = {[PP_COST_LAUNCH_NS] = 600,
                                        [PP_COST_WAKE_NS] = 4000,
                                        [PP_COST_NEAR] = 60,
                                        [PP_COST_MIDDLE] = 25,
                                        [PP_COST_FAR] = 12,
                                        [PP_COST_STEPS] = 0.6,
                                        [PP_COST_CODE] = 0.2,
                                        [PP_COST_PRODUCTS] = 0.6}};

double pp_cost_of_bytes(const pp_costs *costs, double bytes_of_worker)
{
    const pp_cost level = bytes_of_worker <= PP_NEAR_BYTES     ? PP_COST_NEAR
                          : bytes_of_worker <= PP_MIDDLE_BYTES ? PP_COST_MIDDLE
                                                               : PP_COST_FAR;
    return bytes_of_worker / costs->at[level]; /* GB/s are bytes a ns */
}

bool pp_cost_shares(const pp_costs *costs, double alone, double shared, uint32_t phases)
{
    return alone > (shared + phases * costs->at[PP_COST_WAKE_NS]) * LEAST_GAIN;
}

uint32_t pp_cost_tasks(const pp_costs *costs, double ns, uint32_t workers)
{
    const double most = (double)workers * TASKS_PER_WORKER,
                 tasks = ns / (WAKES_PER_TASK * costs->at[PP_COST_WAKE_NS]);
    return tasks < 1 ? 1 : (uint32_t)(tasks < most ? tasks : most);
}
