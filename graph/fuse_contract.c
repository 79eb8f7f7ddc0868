/* SPDX-License-Identifier: Apache-2.0
 * Products in groups: one a group, of its own frame. The axes of its result become batch, m and n; axes k are
 * new ones of the frame. */
#include <string.h>

#include "graph/fuse_parts.h"

typedef struct contract_dims { /* of a [batch, free a, k], b [batch, free b, k], result [batch, free a, free
                                  b] */
    const pp_type *a, *b;
    uint32_t batch, k, free_a, free_b;
} contract_dims;

static contract_dims dims_of(const pp_fuser *f, uint32_t id)
{
    const pp_prim *p = pp_flat_prim(f->flat, id);
    const uint32_t *operand = pp_flat_operands(f->flat, id);
    contract_dims d = {
        pp_flat_type(f->flat, operand[0]), pp_flat_type(f->flat, operand[1]), p->n_batch, p->n_k, 0, 0};
    d.free_a = d.a->rank - d.batch - d.k;
    d.free_b = d.b->rank - d.batch - d.k;
    return d;
}

/* Makes the group, whose axes result[] are the result's dims, a frame of this product. It has room for k. */
static void frame_of(pp_fuser *f, uint32_t id, pp_group *g, const uint8_t *result, pp_heavy *heavy)
{
    contract_dims d = dims_of(f, id);
    uint32_t n_left = d.batch + d.free_a, n_result = n_left + d.free_b;
    uint8_t left[PPTO_MAX_RANK], right[PPTO_MAX_RANK];
    for (uint32_t i = 0; i < n_result; i++)
        g->role[result[i]] = i < d.batch ? PP_AXIS_BATCH : i < n_left ? PP_AXIS_M : PP_AXIS_N;
    memcpy(left, result, n_left);
    memcpy(right, result, d.batch);
    memcpy(right + d.batch, result + n_left, d.free_b);
    for (uint32_t i = 0; i < d.k; i++) {
        pp_group_axis(g, d.a->dim[n_left + i], PP_AXIS_K, &g->inner[i]);
        left[n_left + i] = right[d.batch + d.free_b + i] = g->inner[i];
    }
    g->n_inner = d.k;
    g->frame = PP_FRAME_CONTRACT;
    heavy->map = pp_group_plain(f, g, result, n_result);
    heavy->operand[0] = pp_group_plain(f, g, left, d.a->rank);
    heavy->operand[1] = pp_group_plain(f, g, right, d.b->rank);
}

/* A product joins a map group that reads it at every point once. */
pp_reason pp_contract_join(pp_fuser *f, uint32_t id, uint32_t group, const pp_imap *map, pp_heavy *heavy)
{
    pp_group *g = &f->out->groups.at[group];
    const pp_type *type = pp_flat_type(f->flat, id);
    uint8_t axes[PPTO_MAX_RANK];
    uint32_t n_new = pp_flat_prim(f->flat, id)->n_k;
    if (g->frame != PP_FRAME_MAP) return PP_R_CONTRACT;
    if (!pp_group_covers(f, g, type, map, true) || !pp_group_plain_axes(f, g, type, map, axes))
        return PP_R_INDEX;
    for (uint32_t i = 0; i < type->rank; i++) n_new += axes[i] == PP_NO_AXIS;
    if (g->axes.n + n_new > PP_FRAME_MAX_AXES) return PP_R_TOO_LARGE;
    for (uint32_t i = 0; i < type->rank; i++)
        if (axes[i] == PP_NO_AXIS) pp_group_axis(g, type->dim[i], PP_AXIS_OUTER, &axes[i]);
    /* Axes of size 1 that no dim reads stay outer: the batch. */
    memset(g->role, PP_AXIS_BATCH, g->axes.n);
    frame_of(f, id, g, axes, heavy);
    return PP_R_NONE;
}

ppto_status pp_contract_own(pp_fuser *f, uint32_t id, uint32_t *group, pp_heavy *heavy)
{
    uint8_t axes[PPTO_MAX_RANK];
    PP_TRY(pp_group_over(f, id, pp_flat_type(f->flat, id), group));
    pp_group *g = &f->out->groups.at[*group];
    memcpy(axes, g->domain, sizeof axes);
    frame_of(f, id, g, axes, heavy);
    return PPTO_OK;
}
