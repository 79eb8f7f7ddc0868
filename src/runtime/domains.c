/* SPDX-License-Identifier: Apache-2.0
 * The machine of a context: its domains reach the scheduler as functions, and tasks know what they read. A
 * machine of several nodes is read at the first use, unless it was described: then a wrong description is an
 * error of the options. */
#include "runtime/domains.h"

#include <string.h>

/* What the user asked for, else what affinity and quotas allow, divided as the CPUs are. */
static pp_domains divide(const ppto_context *ctx, const pp_machine *machine)
{
    const int asked = ctx->settings.o.threads;
    pp_domains domains = {.n = machine->n_domains};
    for (uint32_t d = 0; d < domains.n; d++) domains.workers[d] = machine->node[machine->node_of[d]].cpus;
    pp_domains_spread(&domains, asked > 0 ? (uint32_t)asked : machine->cpus);
    return domains;
}

ppto_status pp_context_machine(ppto_context *ctx, pp_machine **out, pp_error *err)
{
    pthread_mutex_lock(&ctx->machine_lock);
    ppto_status status = ctx->machine ? PPTO_OK : pp_machine_open(ctx->settings.topology, &ctx->machine, err);
    if (status == PPTO_OK && ctx->shares.n == 0) {
        pp_domains domains = divide(ctx, ctx->machine);
        if (strcmp(ctx->settings.executor, "serial") == 0) pp_domains_spread(&domains, 1);
        ctx->shares = pp_shares_of(domains.workers, domains.n);
    }
    *out = ctx->machine;
    pthread_mutex_unlock(&ctx->machine_lock);
    return status;
}

ppto_status pp_context_domains(ppto_context *ctx, pp_domains *out, pp_error *err)
{
    pp_machine *machine;
    PP_TRY(pp_context_machine(ctx, &machine, err));
    *out = divide(ctx, machine);
    if (out->n == 1) return PPTO_OK;
    out->enter = pp_machine_enter;
    out->leave = pp_machine_leave;
    out->here = pp_machine_here;
    out->arg = machine;
    return PPTO_OK;
}

size_t pp_group_task_bytes(const pp_plan *plan, uint32_t g, const pp_instance_group *group)
{
    uint64_t bytes = 0, tasks = 1;
    for (uint32_t phase = 0; phase < group->geometry.phases; phase++)
        if (group->geometry.tasks[phase] > tasks) tasks = group->geometry.tasks[phase];
    for (size_t t = 0; t < plan->lowered[g].tensors.n; t++) {
        const pp_lowered_tensor *tensor = &plan->lowered[g].tensors.at[t];
        const pp_tensor_ref *ref = &group->tensors[t];
        uint64_t all = ppto_dtype_size((ppto_dtype)pp_flat_type(&plan->flat, tensor->prim)->dtype);
        if (tensor->output) continue;
        for (uint32_t i = 0; i < ref->rank; i++)
            if (ref->stride[i] != 0) all *= (uint64_t)ref->shape[i];
        bytes += all;
    }
    return (size_t)(bytes / tasks);
}
