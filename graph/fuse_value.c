/* SPDX-License-Identifier: Apache-2.0
 * Placing a value that is no reduction: computed wherever it is needed, or stored by one group. It is stored
 * when a consumer reads memory, when several groups would compute it, or when one would compute it several
 * times and it is not cheap. */
#include "graph/fuse_parts.h"

enum { STENCIL_COST = 24, DEAR = 16, CHEAP = 8, MOST_MAPS = 64 };

/* ---- siblings ---------------------------------------------------------------------------------- */

/* Over the same domain, reading the same data. */
static bool is_sibling(pp_fuser *f, uint32_t id, uint32_t group, uint8_t *axes)
{
    const pp_group *g = &f->out->groups.at[group];
    return pp_sibling_domain(g, pp_flat_type(f->flat, id), axes) && pp_sibling_shares_data(f, id, group);
}

/* Would the reduction fit the frame of the group, over data that the group reads? */
static bool reduction_fits(const pp_fuser *f, uint32_t id, uint32_t group)
{
    const pp_group *g = &f->out->groups.at[group];
    const pp_prim *p = pp_flat_prim(f->flat, id);
    const pp_type *x = pp_flat_type(f->flat, pp_flat_operands(f->flat, id)[0]);
    uint8_t axes[PPTO_MAX_RANK];
    if (p->rows != (g->frame == PP_FRAME_ROWS) || !pp_sibling_domain(g, x, axes)) return false;
    for (uint32_t d = 0; d < x->rank; d++)
        if ((p->u.fold.axes >> d & 1) != (g->role[axes[d]] == PP_AXIS_INNER)) return false;
    return pp_sibling_shares_data(f, id, group);
}

/* Is `id` computed from such a reduction? */
static bool reduces_alike(const pp_fuser *f, uint32_t id, uint32_t group)
{
    uint32_t stack[64], n = 0, visits = 0;
    stack[n++] = id;
    while (n && visits++ < 48) {
        uint32_t at = stack[--n], n_operands = pp_flat_prim(f->flat, at)->n_operands;
        if (pp_flat_prim(f->flat, at)->kind == PP_P_REDUCE) {
            if (reduction_fits(f, at, group)) return true;
            continue;
        }
        for (uint32_t k = 0; k < n_operands && n < 60; k++) stack[n++] = pp_flat_operands(f->flat, at)[k];
    }
    return false;
}

/* A sibling of the reductions behind a value: the outer axes of the group's domain are the value's dims. */
static bool is_reduced_sibling(pp_fuser *f, uint32_t id, uint32_t group, uint8_t *axes)
{
    const pp_group *g = &f->out->groups.at[group];
    const pp_type *type = pp_flat_type(f->flat, id);
    uint32_t outer = 0;
    if (g->frame != PP_FRAME_LANES && g->frame != PP_FRAME_ROWS) return false;
    for (uint32_t d = 0; d < g->n_domain; d++) {
        uint8_t a = g->domain[d];
        if (g->role[a] == PP_AXIS_INNER) continue;
        if (outer == type->rank || g->axes.size[a] != type->dim[outer]) return false;
        axes[outer++] = a;
    }
    return outer == type->rank && reduces_alike(f, id, group);
}

/* ---- stored ------------------------------------------------------------------------------------ */

/* A group that demands the value at a map that runs through all elements once. */
static uint32_t demanding_home(pp_fuser *f, uint32_t id, const pp_demand *list, pp_imap **map)
{
    for (const pp_demand *d = list; d; d = d->next) {
        pp_group *g = &f->out->groups.at[d->group];
        if (!pp_group_has_room(g) || pp_group_apart(f, id, d->group) != PP_R_NONE) continue;
        *map = pp_demand_map(f, list, d->group);
        if (*map && pp_group_can_store(f, g, pp_flat_type(f->flat, id), *map) &&
            pp_group_no_cycle(f, d->group, list))
            return d->group;
    }
    return PP_NONE;
}

static uint32_t sibling_home(pp_fuser *f, uint32_t id, const pp_demand *list, pp_sibling_fits *fits,
                             pp_imap **map)
{
    uint32_t group = (uint32_t)f->out->groups.n;
    while ((*map = pp_sibling_next(f, id, list, fits, &group)))
        if (pp_group_can_store(f, &f->out->groups.at[group], pp_flat_type(f->flat, id), *map)) return group;
    return PP_NONE;
}

static ppto_status own_home(pp_fuser *f, uint32_t id, uint32_t *group, pp_imap **map)
{
    const pp_type *type = pp_flat_type(f->flat, id);
    PP_TRY(pp_group_over(f, id, type, group));
    pp_group *g = &f->out->groups.at[*group];
    *map = pp_group_plain(f, g, g->domain, type->rank);
    return *map ? PPTO_OK : PPTO_E_NOMEM;
}

ppto_status pp_fuse_store(pp_fuser *f, uint32_t id, const pp_demand *list, pp_reason reason)
{
    uint32_t home = PP_NONE;
    pp_imap *map = NULL;
    if (f->optimise) home = demanding_home(f, id, list, &map);
    if (f->optimise && home == PP_NONE) home = sibling_home(f, id, list, is_sibling, &map);
    if (f->optimise && home == PP_NONE) home = sibling_home(f, id, list, is_reduced_sibling, &map);
    if (home == PP_NONE) PP_TRY(own_home(f, id, &home, &map));
    PP_TRY(pp_group_store(f, id, home, map));
    PP_TRY(pp_demand_readers(f, id, list, home, reason));
    PP_TRY(pp_group_member(f, home, id));
    return pp_demand_operands(f, id, home, map, 0);
}

/* ---- computed where it is needed --------------------------------------------------------------- */

static uint32_t axes_of_map(const pp_imap *map)
{
    uint32_t used = 0;
    for (uint32_t i = 0; i < map->rank; i++)
        for (uint32_t t = 0; t < map->dim[i].n; t++) used |= 1u << map->dim[i].term[t].axis;
    return used;
}

/* Is it needed along the innermost axis but repeated over others? Then every repetition computes it again. */
static bool repeats(pp_fuser *f, const pp_demand *d)
{
    if (d->side) return false;
    const pp_group *g = &f->out->groups.at[d->group];
    uint32_t used = axes_of_map(d->map), missing = 0;
    uint8_t last = PP_NO_AXIS;
    for (uint32_t i = 0; i < g->axes.n_order; i++) {
        uint8_t a = g->axes.order[i];
        if (pp_fuse_is_one(f, g->axes.size[a])) continue;
        last = a;
        if (!(used >> a & 1)) missing |= 1u << a;
    }
    return last != PP_NO_AXIS && (used >> last & 1) && missing;
}

/* Why one demand alone cannot be met by computing the value again. */
static pp_reason why_not_at(pp_fuser *f, uint32_t id, const pp_demand *d)
{
    const pp_prim *p = pp_flat_prim(f->flat, id);
    bool guards = p->kind == PP_P_PAD || p->kind == PP_P_CONCAT;
    if (!d->map) return (pp_reason)d->why;
    pp_reason apart = pp_group_apart(f, id, d->group);
    if (apart != PP_R_NONE) return apart;
    if (!pp_group_has_room(&f->out->groups.at[d->group])) return PP_R_TOO_LARGE;
    if (guards && d->map->n_guards >= PP_MOST_GUARDS) return PP_R_TOO_LARGE;
    return PP_R_NONE;
}

pp_reason pp_fuse_why_not_inline(pp_fuser *f, uint32_t id, pp_demand *list)
{
    bool view = pp_prim_is_view(pp_flat_prim(f->flat, id)), several = false, first;
    uint32_t maps = 0;
    if (!f->optimise) return PP_R_OFF;
    f->kinds_epoch++;
    for (pp_demand *d = list; d; d = d->next) {
        pp_reason why = why_not_at(f, id, d);
        if (why != PP_R_NONE) return why;
        several |= d->group != list->group;
        maps += pp_demand_first(f, d, &first);
        if (maps > MOST_MAPS) return PP_R_RECOMPUTE;
        if (f->cost[id] >= DEAR && !view && repeats(f, d)) return PP_R_RECOMPUTE;
    }
    if (view) return PP_R_NONE;
    if (several && ((f->flag[id] & PP_FUSE_TENSOR) || f->cost[id] > CHEAP)) return PP_R_SHARED;
    if (pp_fuse_replaces_product(f, id, list)) return PP_R_RECOMPUTE;
    if (maps > 1 && f->cost[id] * maps > STENCIL_COST) return PP_R_RECOMPUTE;
    return PP_R_NONE;
}

ppto_status pp_fuse_inline(pp_fuser *f, uint32_t id, pp_demand *list)
{
    f->kinds_epoch++;
    for (pp_demand *d = list; d; d = d->next) {
        bool first;
        if (!pp_demand_first(f, d, &first)) continue;
        if (first) PP_TRY(pp_group_member(f, d->group, id));
        PP_TRY(pp_demand_operands(f, id, d->group, d->map, d->side));
    }
    return PPTO_OK;
}
