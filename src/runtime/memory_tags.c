/* SPDX-License-Identifier: Apache-2.0
 * What memcheck is told of memory: the operator that made it, where that was recorded, and for a slab, the
 * buffers in it. Made once per instance, so that a run only passes a tag along. */
#include "runtime/sync.h"

pp_tag pp_tag_of_user(const char *what, ppto_site site, ppto_dtype dtype)
{
    return (pp_tag){.kind = PP_BLOCK_DATA,
                    .operator_name = what,
                    .site = site,
                    .dtype = ppto_dtype_name(dtype),
                    .hold = PP_HOLD_USER,
                    .taken = site};
}

pp_tag pp_tag_of_origin(const pp_origin *origin, pp_block_kind kind, ppto_dtype dtype)
{
    return (pp_tag){.kind = kind,
                    .operator_name = origin->operator_name,
                    .site = origin->site,
                    .stack = origin->stack,
                    .dtype = ppto_dtype_name(dtype),
                    .hold = PP_HOLD_PENDING};
}

pp_tag pp_tag_of_output(const ppto_program *p, size_t i)
{
    const uint32_t prim = p->plan->flat.outputs.at[i];
    const pp_recorded *recorded = &p->plan->recorded; /* the call that the user took it from */
    const pp_origin *origin =
        i < recorded->outputs.n ? &p->origins[recorded->outputs.at[i].node] : pp_program_origin(p, prim);
    return pp_tag_of_origin(origin, PP_BLOCK_RESULT, (ppto_dtype)pp_flat_type(&p->plan->flat, prim)->dtype);
}

/* ---- a slab ------------------------------------------------------------------------------------ */

static void name_parts(const pp_instance *in, const ppto_program *p, const uint32_t *of_prim,
                       pp_ledger_part *parts)
{
    const pp_plan *plan = in->plan;
    for (uint32_t prim = 0; prim < plan->flat.prims.n; prim++)
        if (of_prim[prim] != UINT32_MAX)
            parts[of_prim[prim]].tag = pp_tag_of_origin(pp_program_origin(p, prim), PP_BLOCK_PLANNED,
                                                        (ppto_dtype)pp_flat_type(&plan->flat, prim)->dtype);
    for (uint32_t g = 0; g < plan->fused.groups.n; g++) {
        uint32_t shared = in->groups[g].shared_buffer;
        if (shared == UINT32_MAX) continue;
        const pp_origin *origin = pp_program_origin(p, pp_plan_culprit(plan, g));
        parts[shared].tag = (pp_tag){.kind = PP_BLOCK_PLANNED,
                                     .operator_name = origin->operator_name,
                                     .site = origin->site,
                                     .stack = origin->stack,
                                     .reason = "partial results of workers"};
    }
}

/* A buffer that another one takes over ends a step earlier: the bytes are counted once. */
static void place_parts(const pp_instance *in, const pp_layout_buffer *rows, size_t n, pp_ledger_part *parts)
{
    for (size_t i = 0; i < n; i++) {
        parts[i].offset = in->layout.offset[i];
        parts[i].bytes = rows[i].bytes;
        parts[i].first = parts[i].last = rows[i].defined;
        for (uint32_t u = 0; u < rows[i].n_uses; u++)
            if (rows[i].uses[u] > parts[i].last) parts[i].last = rows[i].uses[u];
    }
    for (size_t i = 0; i < n; i++) {
        uint32_t old = rows[i].in_place_of;
        if (old == UINT32_MAX || in->layout.offset[old] != in->layout.offset[i]) continue;
        if (parts[old].last == parts[i].first && parts[old].last > parts[old].first) parts[old].last--;
    }
}

void pp_instance_watch(pp_instance *in, const ppto_program *p, const pp_layout_buffer *rows, size_t n,
                       const uint32_t *of_prim)
{
    in->slab = (pp_tag){.kind = PP_BLOCK_SLAB, .hold = PP_HOLD_PENDING};
    if (!in->plan->ctx->ledger || n == 0) return;
    pp_ledger_part *parts = pp_calloc(n, sizeof *parts);
    if (!parts) return;
    name_parts(in, p, of_prim, parts);
    place_parts(in, rows, n, parts);
    size_t largest = 0;
    for (size_t i = 1; i < n; i++)
        if (parts[i].bytes > parts[largest].bytes) largest = i;
    in->slab.operator_name = parts[largest].tag.operator_name;
    in->slab.site = parts[largest].tag.site;
    in->slab.plan = pp_ledger_plan(in->plan->ctx->ledger, in->layout.bytes, parts, n);
    pp_free(parts);
}

/* ---- a run that is started --------------------------------------------------------------------- */

void pp_program_waits(const ppto_program *p, bool waits, ppto_site site)
{
    if (!p->ctx->ledger) return;
    for (size_t i = 0; i < p->plan->inputs.n; i++) {
        if (waits)
            pp_array_note(p->inputs[i], PP_HOLD_SYNC, site);
        else
            pp_array_forget(p->inputs[i], PP_HOLD_SYNC, site);
    }
}
