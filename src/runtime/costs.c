/* SPDX-License-Identifier: Apache-2.0
 * The cost model. Constants are per worker; what workers share (memory) is counted as if it grew with them,
 * which `ppto tune` measures with all of them at once. */
#include "runtime/costs.h"

#include "runtime/report.h"

/* A processor of a few years ago with vectors of 32 bytes or more. */
const pp_costs pp_usual_costs = {.at = {[PP_COST_LAUNCH_NS] = 600,
                                        [PP_COST_WAKE_NS] = 4000,
                                        [PP_COST_NEAR] = 60,
                                        [PP_COST_MIDDLE] = 25,
                                        [PP_COST_FAR] = 12,
                                        [PP_COST_STEPS] = 0.6,
                                        [PP_COST_CODE] = 0.2,
                                        [PP_COST_PRODUCTS] = 0.6}};

const char *pp_cost_name(pp_cost cost)
{
    static const char *const names[PP_COSTS] = {"launch_ns",    "wake_ns", "near_gb_per_s", "middle_gb_per_s",
                                                "far_gb_per_s", "steps",   "code",          "products"};
    return names[cost];
}

double pp_cost_of_work(const pp_geometry *geometry)
{
    double tasks = 0;
    for (uint32_t i = 0; i < geometry->phases; i++) tasks += geometry->tasks[i];
    return geometry->task_ns * tasks;
}

/* How many workers the tasks can occupy. */
static uint32_t occupied(const pp_geometry *geometry, uint32_t workers)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < geometry->phases; i++)
        if (geometry->tasks[i] > most) most = geometry->tasks[i];
    return most < workers ? most : workers;
}

static double bandwidth(const pp_costs *costs, double bytes_of_worker)
{
    const pp_cost level = bytes_of_worker <= PP_NEAR_BYTES     ? PP_COST_NEAR
                          : bytes_of_worker <= PP_MIDDLE_BYTES ? PP_COST_MIDDLE
                                                               : PP_COST_FAR;
    return costs->at[level]; /* GB/s are bytes a ns */
}

/* By what the device's thoughts of this group are multiplied. */
static double factor(const pp_costs *costs, const pp_instance *instance, size_t g)
{
    const pp_instance_group *group = &instance->groups[g];
    pp_code_count code = {0};
    const pp_frame frame = instance->plan->lowered[g].program->frame;
    if (frame == PP_FRAME_CONTRACT || frame == PP_FRAME_CHAIN) return costs->at[PP_COST_PRODUCTS];
    if (group->device->count_code) group->device->count_code(group->launch, &code, NULL);
    return costs->at[code.loops > 0 && code.compiled == code.loops ? PP_COST_CODE : PP_COST_STEPS];
}

double pp_cost_of_group(const pp_costs *costs, const pp_instance *instance, size_t group, uint64_t bytes)
{
    const pp_geometry *geometry = &instance->groups[group].geometry;
    const uint32_t workers = occupied(geometry, instance->plan->ctx->workers);
    const double share = (double)bytes / workers, moving = share / bandwidth(costs, share);
    const double computing = pp_cost_of_work(geometry) * factor(costs, instance, group) / workers;
    return costs->at[PP_COST_LAUNCH_NS] + (workers > 1 ? costs->at[PP_COST_WAKE_NS] : 0) +
           (moving > computing ? moving : computing);
}
