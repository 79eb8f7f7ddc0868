/* SPDX-License-Identifier: Apache-2.0
 * What a launch should take, and whether workers share it.
 *
 * The work is guessed in ns of an imagined machine, step by step and element by element; the constants of
 * devices/cost_model.h make times of this machine of it. Who compiles machine code is taken to have it: a
 * launch is planned before its code is there, and work that the code makes small is not worth sharing. Beside
 * the work stand the bytes, since loops that compute little wait for memory. */
#include "devices/cpu/interp.h"

static double body_work(const pp_body *body)
{
    double ns = 0.1;
    for (uint32_t i = 0; i < body->n_steps[PP_GROUP_MINOR]; i++)
        ns += body->steps[PP_GROUP_MINOR][i].kind == PP_STEP_CALL ? 0.6 : 0.1;
    return ns;
}

double pp_interp_elements(const pp_launch *launch)
{
    return (double)launch->space.dim[PP_DIM_FIXED].total * (double)launch->space.dim[PP_DIM_ROWS].total *
           (double)launch->space.dim[PP_DIM_COLS].total;
}

/* Of the stages; without products. */
static double steps_work(const pp_launch *launch)
{
    const pp_program *p = launch->variant->program;
    double ns = 100;
    for (uint32_t s = 0; s < p->n_stages; s++) {
        const bool each = p->stages[s].inner || launch->minor.total == 0 || p->frame == PP_FRAME_MAP ||
                          p->frame == PP_FRAME_CONTRACT;
        if (launch->bodies[s].inner || launch->major_dim == PP_DIM_ROWS)
            ns += body_work(&launch->bodies[s]) *
                  (each ? pp_interp_elements(launch) : (double)launch->major.total);
    }
    return ns;
}

static double products_work(const pp_launch *launch)
{
    const pp_contract_at *c = launch->contract;
    if (launch->variant->program->frame != PP_FRAME_CONTRACT) return 0;
    return pp_interp_elements(launch) * (double)c->k * (double)c->size / 160.0;
}

double pp_interp_cost(const pp_launch *launch)
{
    return steps_work(launch) + products_work(launch);
}

/* Distinct bytes of the tensors; a broadcast one counts with what it occupies. */
static double bytes_of(const pp_launch *launch)
{
    double bytes = 0;
    for (uint32_t i = 0; i < launch->variant->program->n_tensors; i++)
        bytes += (double)launch->tensors[i].span;
    return bytes;
}

double pp_interp_predict_products(const pp_launch *launch)
{
    return products_work(launch) * launch->kernel->device->costs.at[PP_COST_PRODUCTS];
}

double pp_interp_predict(const pp_launch *launch, uint32_t workers)
{
    const pp_costs *costs = &launch->kernel->device->costs;
    pp_code_count code = {0};
    pp_interp_count_code(launch, &code, NULL);
    const double steps = steps_work(launch) * costs->at[code.loops > 0 ? PP_COST_CODE : PP_COST_STEPS];
    const double computing = (steps + pp_interp_predict_products(launch)) / workers;
    const double moving = pp_cost_of_bytes(costs, bytes_of(launch) / workers);
    return computing > moving ? computing : moving;
}

uint32_t pp_interp_tasks(const pp_device *device, double alone, double shared, uint32_t workers)
{
    if (workers <= 1 || !pp_cost_shares(&device->costs, alone, shared, 1)) return 1;
    return pp_cost_tasks(&device->costs, alone, workers);
}
