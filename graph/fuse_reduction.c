/* SPDX-License-Identifier: Apache-2.0
 * Reductions and scans in groups. The dims of the operand are outer (the result has them) or inner. Joining
 * means to give every one of them an axis of the group, the result being read at a map that runs along the
 * outer ones. A map group becomes a frame of lanes or rows by it. */
#include <string.h>

#include "graph/fuse_parts.h"

typedef struct operand_dims {
    const pp_prim *p;
    const pp_type *type;
    uint8_t inner[PPTO_MAX_RANK], outer[PPTO_MAX_RANK]; /* dims, ascending */
    uint32_t n_inner, n_outer;
    uint8_t axis[PPTO_MAX_RANK]; /* per dim: of the group; PP_NO_AXIS: it gets a new one */
} operand_dims;

static operand_dims dims_of(const pp_fuser *f, uint32_t id)
{
    operand_dims d = {.p = pp_flat_prim(f->flat, id),
                      .type = pp_flat_type(f->flat, pp_flat_operands(f->flat, id)[0])};
    for (uint32_t i = 0; i < d.type->rank; i++) {
        bool inner = d.p->kind == PP_P_SCAN ? i == d.p->axis : d.p->u.fold.axes >> i & 1;
        if (inner)
            d.inner[d.n_inner++] = (uint8_t)i;
        else
            d.outer[d.n_outer++] = (uint8_t)i;
    }
    memset(d.axis, PP_NO_AXIS, sizeof d.axis);
    return d;
}

/* ---- joining ----------------------------------------------------------------------------------- */

/* The outer dims (of a scan: all) get the axes along which the result is read. */
static bool read_along(pp_fuser *f, uint32_t id, pp_group *g, const pp_imap *map, operand_dims *d)
{
    uint8_t read[PPTO_MAX_RANK];
    if (!pp_group_plain_axes(f, g, pp_flat_type(f->flat, id), map, read)) return false;
    if (d->p->kind == PP_P_SCAN) {
        memcpy(d->axis, read, d->type->rank);
        return read[d->p->axis] != PP_NO_AXIS;
    }
    for (uint32_t i = 0; i < d->n_outer; i++) d->axis[d->outer[i]] = read[i];
    return true;
}

/* The axes that no outer dim runs along: those of size 1 and the inner ones of the frame aside. False: an
 * outer dim runs along an inner axis. */
static bool axes_left(const pp_fuser *f, const pp_group *g, const operand_dims *d, uint8_t *left, uint32_t *n)
{
    uint32_t used = 0;
    *n = 0;
    for (uint32_t i = 0; i < d->n_outer; i++)
        if (d->axis[d->outer[i]] != PP_NO_AXIS) used |= 1u << d->axis[d->outer[i]];
    for (uint32_t i = 0; i < g->axes.n_order; i++) {
        uint8_t a = g->axes.order[i];
        if (g->frame != PP_FRAME_MAP && g->role[a] == PP_AXIS_INNER) {
            if (used >> a & 1) return false;
        } else if (!(used >> a & 1) && !pp_fuse_is_one(f, g->axes.size[a])) {
            left[(*n)++] = a;
        }
    }
    return true;
}

/* The frame is set: the same inner axes, and no outer axis is left. */
static bool fits_frame(const pp_group *g, operand_dims *d, uint32_t n_left)
{
    if (n_left || g->n_inner != d->n_inner || (g->frame == PP_FRAME_ROWS) != d->p->rows) return false;
    for (uint32_t i = 0; i < d->n_inner; i++) {
        uint8_t *axis = &d->axis[d->inner[i]];
        if (g->axes.size[g->inner[i]] != d->type->dim[d->inner[i]]) return false;
        if (d->p->kind == PP_P_SCAN && *axis != g->inner[i]) return false;
        *axis = g->inner[i];
    }
    return true;
}

/* A map group: what is left becomes the inner axes one by one. When nothing is, all of them are new. */
static bool fits_left(const pp_fuser *f, const pp_group *g, operand_dims *d, const uint8_t *left, uint32_t n)
{
    uint32_t at = 0;
    if (d->p->kind == PP_P_SCAN) return n == 1 && left[0] == d->axis[d->p->axis];
    for (uint32_t i = 0; n && i < d->n_inner; i++) {
        pp_size size = d->type->dim[d->inner[i]];
        if (pp_fuse_is_one(f, size)) continue;
        if (at == n || g->axes.size[left[at]] != size) return false;
        d->axis[d->inner[i]] = left[at++];
    }
    return at == n;
}

/* Gives dims without an axis a new one, and a map group its frame. The group has room for them. */
static void settle(pp_group *g, operand_dims *d)
{
    for (uint32_t i = 0; i < d->n_outer; i++) {
        uint8_t *axis = &d->axis[d->outer[i]];
        if (*axis == PP_NO_AXIS) pp_group_axis(g, d->type->dim[d->outer[i]], PP_AXIS_OUTER, axis);
    }
    for (uint32_t i = 0; i < d->n_inner; i++) {
        uint8_t *axis = &d->axis[d->inner[i]];
        if (*axis == PP_NO_AXIS) pp_group_axis(g, d->type->dim[d->inner[i]], PP_AXIS_INNER, axis);
    }
    if (g->frame != PP_FRAME_MAP) return;
    g->frame = d->p->rows ? PP_FRAME_ROWS : PP_FRAME_LANES;
    g->n_inner = d->n_inner;
    for (uint32_t i = 0; i < d->n_inner; i++) {
        g->inner[i] = d->axis[d->inner[i]];
        g->role[g->inner[i]] = PP_AXIS_INNER;
    }
    memcpy(g->domain, d->axis, d->type->rank);
    g->n_domain = d->type->rank;
}

pp_reason pp_reduction_join(pp_fuser *f, uint32_t id, uint32_t group, const pp_imap *map, pp_heavy *heavy)
{
    pp_group *g = &f->out->groups.at[group];
    operand_dims d = dims_of(f, id);
    uint8_t left[PP_FRAME_MAX_AXES];
    uint32_t n_left;
    if (g->frame == PP_FRAME_CONTRACT) return PP_R_CONTRACT;
    if (!read_along(f, id, g, map, &d)) return PP_R_INDEX;
    if (!axes_left(f, g, &d, left, &n_left)) return PP_R_FRAME;
    if (!(g->frame == PP_FRAME_MAP ? fits_left(f, g, &d, left, n_left) : fits_frame(g, &d, n_left)))
        return PP_R_FRAME;
    if (g->axes.n + d.type->rank > PP_FRAME_MAX_AXES) return PP_R_TOO_LARGE;
    settle(g, &d);
    pp_index ix = pp_group_index(f, g);
    heavy->map = pp_index_normal(&ix, map);
    heavy->operand[0] = pp_group_plain(f, g, d.axis, d.type->rank);
    return PP_R_NONE;
}

/* ---- siblings, and a group of its own ---------------------------------------------------------- */

/* The axes of the result's dims, those of the operand being given. */
static void result_axes(const operand_dims *d, const uint8_t *axis, uint8_t *result)
{
    if (d->p->kind == PP_P_SCAN)
        memcpy(result, axis, d->type->rank);
    else
        for (uint32_t i = 0; i < d->n_outer; i++) result[i] = axis[d->outer[i]];
}

/* A group whose domain is that of the operand. */
static bool is_sibling(pp_fuser *f, uint32_t id, uint32_t group, uint8_t *axes)
{
    operand_dims d = dims_of(f, id);
    if (!pp_sibling_domain(&f->out->groups.at[group], d.type, d.axis)) return false;
    result_axes(&d, d.axis, axes);
    return pp_sibling_shares_data(f, id, group);
}

void pp_reduction_join_sibling(pp_fuser *f, uint32_t id, const pp_demand *list, uint32_t *group,
                               pp_heavy *heavy)
{
    uint32_t at = (uint32_t)f->out->groups.n;
    for (pp_imap *map; (map = pp_sibling_next(f, id, list, is_sibling, &at));)
        if (pp_reduction_join(f, id, at, map, heavy) == PP_R_NONE) {
            *group = at;
            return;
        }
}

ppto_status pp_reduction_own(pp_fuser *f, uint32_t id, uint32_t *group, pp_heavy *heavy)
{
    operand_dims d = dims_of(f, id);
    uint8_t result[PPTO_MAX_RANK];
    PP_TRY(pp_group_over(f, id, d.type, group));
    pp_group *g = &f->out->groups.at[*group];
    memcpy(d.axis, g->domain, d.type->rank);
    settle(g, &d);
    result_axes(&d, d.axis, result);
    heavy->operand[0] = pp_group_plain(f, g, d.axis, d.type->rank);
    heavy->map = pp_group_plain(f, g, result, pp_flat_type(f->flat, id)->rank);
    return PPTO_OK;
}
