/* SPDX-License-Identifier: Apache-2.0
 * What the cost model predicts of the groups of a planned instance, for reports. */
#include "runtime/costs.h"

#include "runtime/report.h"

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

/* So many workers, each with its share. */
static double of_workers(const pp_costs *costs, const pp_instance *instance, size_t group, uint64_t bytes,
                         uint32_t workers)
{
    const double work = pp_cost_of_work(&instance->groups[group].geometry);
    const double computing = work * factor(costs, instance, group) / workers;
    const double moving = pp_cost_of_bytes(costs, (double)bytes / workers);
    return costs->at[PP_COST_LAUNCH_NS] + (moving > computing ? moving : computing);
}

double pp_cost_alone(const pp_costs *costs, const pp_instance *instance, size_t group, uint64_t bytes)
{
    return of_workers(costs, instance, group, bytes, 1);
}

double pp_cost_of_group(const pp_costs *costs, const pp_instance *instance, size_t group, uint64_t bytes)
{
    const uint32_t workers = occupied(&instance->groups[group].geometry, instance->plan->ctx->plan_workers);
    return of_workers(costs, instance, group, bytes, workers) +
           (workers > 1 ? costs->at[PP_COST_WAKE_NS] : 0);
}
