/* SPDX-License-Identifier: Apache-2.0
 * Who asks for the most memory (asks.h). */
#include "runtime/asks.h"

pp_asks pp_asks_of_prim(const pp_flat *flat, uint32_t prim, uint64_t bytes)
{
    return (pp_asks){bytes, flat->prims.at[prim].origin};
}

static uint64_t tensor_bytes(const pp_plan *plan, const pp_lowered_tensor *of, const pp_tensor_ref *tensor)
{
    uint64_t n = ppto_dtype_size((ppto_dtype)pp_flat_type(&plan->flat, of->prim)->dtype);
    for (uint32_t d = 0; d < tensor->rank; d++) n *= (uint64_t)tensor->shape[d];
    return n;
}

/* What joins pieces is nobody's; the kernel may have members that are somebody's. */
static uint32_t origin_of(const pp_plan *plan, size_t group)
{
    const pp_group *g = &plan->fused.groups.at[group];
    uint32_t origin = plan->flat.prims.at[pp_plan_culprit(plan, group)].origin;
    for (size_t m = g->members.n; origin == PP_NONE && m-- > 0;)
        origin = plan->flat.prims.at[g->members.at[m]].origin;
    return origin;
}

pp_asks pp_asks_of_instance(const pp_instance *in)
{
    const pp_plan *plan = in->plan;
    pp_asks most = {0, PP_NONE};
    for (size_t g = 0; g < plan->fused.groups.n; g++) {
        const pp_instance_group *group = &in->groups[g];
        uint64_t bytes = group->geometry.shared_bytes;
        if (group->geometry.scratch_bytes) bytes += in->scratch_bytes;
        for (size_t t = 0; t < plan->lowered[g].tensors.n; t++)
            if (plan->lowered[g].tensors.at[t].output)
                bytes += tensor_bytes(plan, &plan->lowered[g].tensors.at[t], &group->tensors[t]);
        most = pp_asks_more(most, (pp_asks){bytes, origin_of(plan, g)});
    }
    return most;
}

void pp_asks_text(const ppto_program *p, pp_asks asks, pp_text *out)
{
    char place[PP_SITE_ROOM];
    if (asks.bytes == 0 || asks.origin >= p->n_origins) return;
    const pp_origin *origin = &p->origins[asks.origin];
    pp_text_add(out, "; most is for %s", origin->operator_name);
    if (origin->site.file) pp_text_add(out, " (%s)", pp_site_text(&origin->site, place, sizeof place));
    pp_text_add(out, ", %llu bytes", (unsigned long long)asks.bytes);
}
