/* SPDX-License-Identifier: Apache-2.0
 * Lowering pulls: the roots and heavies of a group are emitted, each value at an index map, once per stage
 * and map; what it needs is emitted before it. Values stored by other groups become loads, views only change
 * the map, numbers become args. A value of an earlier stage that is dear and needed again at the same place
 * is kept in a buffer. Start reading at lower_group(), then pp_lower_stages() and pp_lower_emit();
 * lower_parts.h lists the parts. */
#include <string.h>

#include "graph/lower_parts.h"

/* ---- axes of the program: outer ones, then inner ones in flattened order, split ones as their children ---
 */

static ppto_status place_axis(pp_lowerer *l, uint8_t axis)
{
    pp_axis a = {.role = l->group->role[axis]};
    PP_TRY(pp_lower_slot(l, l->group->axes.size[axis], &a.size));
    l->axis_at[axis] = (uint8_t)l->program->n_axes;
    l->program->axes[l->program->n_axes++] = a;
    return PPTO_OK;
}

static ppto_status place_leaves(pp_lowerer *l, uint8_t axis)
{
    pp_axes *axes = &l->group->axes;
    if (!axes->n_children[axis]) return place_axis(l, axis);
    for (uint32_t c = 0; c < axes->n_children[axis]; c++)
        PP_TRY(place_leaves(l, (uint8_t)(axes->first_child[axis] + c)));
    return PPTO_OK;
}

static ppto_status place_axes(pp_lowerer *l)
{
    static const uint8_t outer[] = {PP_AXIS_OUTER, PP_AXIS_BATCH, PP_AXIS_M, PP_AXIS_N};
    pp_axes *axes = &l->group->axes;
    l->program->axes = pp_arena_alloc(&l->program->arena, PP_FRAME_MAX_AXES * sizeof(pp_axis));
    if (!l->program->axes) return PPTO_E_NOMEM;
    for (size_t r = 0; r < sizeof outer; r++)
        for (uint32_t i = 0; i < axes->n_order; i++)
            if (l->group->role[axes->order[i]] == outer[r]) PP_TRY(place_axis(l, axes->order[i]));
    for (uint32_t i = 0; i < l->group->n_inner; i++) PP_TRY(place_leaves(l, l->group->inner[i]));
    return PPTO_OK;
}

/* ---- a group ----------------------------------------------------------------------------------- */

static ppto_status lower_group(pp_lowerer *l)
{
    for (int i = (int)l->out->slots.n; i < PP_SLOT_FIRST; i++)
        PP_TRY(pp_vec_push(&l->out->slots, i == 1 ? PP_SIZE_1 : PP_SIZE_0));
    PP_TRY(place_axes(l));
    PP_TRY(pp_lower_stages(l));
    PP_TRY(pp_lower_assemble(l));
    l->out->flops = pp_lower_flops(l);
    return pp_sizes_status(pp_lower_sizes(l));
}

static void free_lists(pp_lowerer *l)
{
    for (uint32_t s = 0; s < PP_LOWER_STAGES + 2; s++) {
        pp_lower_code *code = &l->stage[s];
        pp_vec_free(&code->code);
        pp_vec_free(&code->values);
        pp_vec_free(&code->cost);
        pp_vec_free(&code->varies);
        pp_vec_free(&code->folds);
        pp_vec_free(&code->fold_of);
    }
    pp_vec_free(&l->terms);
    pp_vec_free(&l->affines);
    pp_vec_free(&l->guards);
    pp_vec_free(&l->accesses);
    pp_vec_free(&l->operands);
    pp_vec_free(&l->tensors);
    pp_vec_free(&l->callees);
    pp_vec_free(&l->buffers);
    pp_vec_free(&l->kept);
    pp_vec_free(&l->checks);
    pp_vec_free(&l->folds);
}

bool pp_lower_elsewhere(const pp_lowerer *l, uint32_t prim)
{
    const uint32_t home = l->fused->stored_in[prim];
    if (home != l->group_id) return home != PP_NONE;
    for (size_t i = 0; i < l->group->roots.n; i++)
        if (l->group->roots.at[i].prim == prim) return false;
    return true;
}

ppto_status pp_lower_program(const pp_flat *flat, const pp_fused *fused, uint32_t id, pp_group *group,
                             pp_lowered *out, pp_error *err)
{
    pp_arena temp = {0};
    pp_lowerer *l = pp_calloc(1, sizeof *l);
    if (!l) return PPTO_E_NOMEM;
    *l = (pp_lowerer){
        .flat = flat, .fused = fused, .group = group, .group_id = id, .out = out, .temp = &temp, .err = err};
    l->ix = (pp_index){&temp, flat->types, &l->group->axes, false};
    out->program = l->program = pp_calloc(1, sizeof *l->program);
    ppto_status status = l->program ? lower_group(l) : PPTO_E_NOMEM;
    free_lists(l);
    pp_free(l);
    pp_arena_free(&temp);
    return status;
}

ppto_status pp_lower(const pp_flat *flat, const pp_fused *fused, uint32_t group, pp_lowered *out,
                     pp_error *err)
{
    pp_group *g = &fused->groups.at[group];
    memset(out, 0, sizeof *out);
    ppto_status status = g->frame == PP_FRAME_CHAIN ? pp_lower_chain(flat, fused, group, out, err)
                                                    : pp_lower_program(flat, fused, group, g, out, err);
    return status == PPTO_OK ? PPTO_OK : pp_fail(err, status, "lowering: %s", ppto_status_text(status));
}

void pp_lowered_free(pp_lowered *lowered)
{
    pp_program_destroy(lowered->program);
    pp_vec_free(&lowered->tensors);
    pp_vec_free(&lowered->slots);
    pp_vec_free(&lowered->args);
    memset(lowered, 0, sizeof *lowered);
}
