/* SPDX-License-Identifier: Apache-2.0
 * Groups under construction: their axes, what they may store, and who waits for whom. */
#include <string.h>

#include "graph/fuse_parts.h"

enum { MAX_MEMBERS = 160, MAX_LEAVES = 48, CYCLE_BUDGET = 2048 };

ppto_status pp_group_add(pp_fuser *f, uint32_t id, uint32_t *group)
{
    pp_group g;
    memset(&g, 0, sizeof g);
    g.frame = PP_FRAME_MAP;
    g.stream = pp_flat_prim(f->flat, id)->stream;
    g.level = pp_flat_prim(f->flat, id)->level;
    *group = (uint32_t)f->out->groups.n;
    PP_TRY(pp_vec_push(&f->kinds, (pp_demand_kinds){0}));
    return pp_vec_push(&f->out->groups, g);
}

bool pp_group_axis(pp_group *g, pp_size size, pp_axis_role role, uint8_t *axis)
{
    uint32_t a = pp_axes_add(&g->axes, size);
    if (a == PP_NONE) return false;
    g->role[a] = (uint8_t)role;
    *axis = (uint8_t)a;
    return true;
}

ppto_status pp_group_over(pp_fuser *f, uint32_t id, const pp_type *type, uint32_t *group)
{
    PP_TRY(pp_group_add(f, id, group));
    pp_group *g = &f->out->groups.at[*group];
    for (uint32_t i = 0; i < type->rank; i++)
        if (!pp_group_axis(g, type->dim[i], PP_AXIS_OUTER, &g->domain[i])) return PPTO_E_LIMIT;
    g->n_domain = type->rank;
    return PPTO_OK;
}

ppto_status pp_group_member(pp_fuser *f, uint32_t group, uint32_t id)
{
    return pp_vec_push(&f->out->groups.at[group].members, id);
}

ppto_status pp_group_store(pp_fuser *f, uint32_t id, uint32_t group, pp_imap *map)
{
    f->out->stored_in[id] = group;
    return pp_vec_push(&f->out->groups.at[group].roots, ((pp_root){id, map}));
}

bool pp_group_has_room(const pp_group *g)
{
    return g->members.n < MAX_MEMBERS && g->leaves < MAX_LEAVES;
}

pp_reason pp_group_apart(const pp_fuser *f, uint32_t id, uint32_t group)
{
    const pp_prim *p = pp_flat_prim(f->flat, id);
    const pp_group *g = &f->out->groups.at[group];
    return p->stream != g->stream ? PP_R_STREAM : p->level != g->level ? PP_R_SYNC : PP_R_NONE;
}

/* ---- who waits for whom ------------------------------------------------------------------------ */

static bool room_for_stamps(pp_fuser *f)
{
    if (f->out->groups.n <= f->stamp_cap) return true;
    size_t cap = f->out->groups.n * 2;
    uint32_t *stamp = pp_realloc(f->stamp, cap * sizeof *stamp);
    if (!stamp) return false;
    memset(stamp + f->stamp_cap, 0, (cap - f->stamp_cap) * sizeof *stamp);
    f->stamp = stamp;
    f->stamp_cap = cap;
    return true;
}

/* Would group `from` (directly or not) wait for `to`? True also when the search would take too long. */
static bool waits_for(pp_fuser *f, uint32_t from, uint32_t to)
{
    if (from == to) return false;
    if (!room_for_stamps(f)) return true;
    uint32_t stack[CYCLE_BUDGET], n = 0, seen = 0;
    f->epoch++;
    stack[n++] = from;
    while (n) {
        const pp_group *g = &f->out->groups.at[stack[--n]];
        for (size_t i = 0; i < g->needs.n; i++) {
            uint32_t next = g->needs.at[i];
            if (next == to) return true;
            if (f->stamp[next] == f->epoch) continue;
            f->stamp[next] = f->epoch;
            if (++seen >= CYCLE_BUDGET - 1) return true;
            stack[n++] = next;
        }
    }
    return false;
}

bool pp_group_no_cycle(pp_fuser *f, uint32_t group, const pp_demand *list)
{
    for (const pp_demand *d = list; d; d = d->next)
        if (d->group != group && waits_for(f, group, d->group)) return false;
    return true;
}

/* ---- maps in terms of a group's axes ----------------------------------------------------------- */

bool pp_fuse_is_one(const pp_fuser *f, pp_size size)
{
    int64_t value;
    return pp_size_known(pp_types_sizes(f->flat->types), size, &value) && value == 1;
}

pp_index pp_group_index(pp_fuser *f, pp_group *g)
{
    return (pp_index){&f->out->arena, f->flat->types, &g->axes, true};
}

pp_imap *pp_group_plain(pp_fuser *f, pp_group *g, const uint8_t *axes, uint32_t rank)
{
    pp_index ix = pp_group_index(f, g);
    pp_imap *map = pp_index_plain(&ix, axes, rank);
    return map ? pp_index_normal(&ix, map) : NULL;
}

bool pp_group_plain_axes(pp_fuser *f, pp_group *g, const pp_type *type, const pp_imap *map, uint8_t *axes)
{
    pp_index ix = pp_group_index(f, g);
    uint32_t used = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        axes[i] = PP_NO_AXIS;
        if (pp_fuse_is_one(f, type->dim[i]) && map->dim[i].n == 0) continue;
        if (!pp_index_is_axis(&ix, &map->dim[i], type->dim[i], &axes[i]) || used >> axes[i] & 1) return false;
        used |= 1u << axes[i];
    }
    return true;
}

bool pp_group_covers(pp_fuser *f, pp_group *g, const pp_type *type, const pp_imap *map, bool with_inner)
{
    uint8_t axes[PPTO_MAX_RANK];
    uint32_t used = 0;
    if (!pp_group_plain_axes(f, g, type, map, axes)) return false;
    for (uint32_t i = 0; i < type->rank; i++)
        if (axes[i] != PP_NO_AXIS) used |= 1u << axes[i];
    for (uint32_t i = 0; i < g->axes.n_order; i++) {
        uint8_t a = g->axes.order[i];
        bool inner = g->role[a] == PP_AXIS_INNER || g->role[a] == PP_AXIS_K;
        if ((used >> a & 1) && inner && (!with_inner || g->role[a] == PP_AXIS_K)) return false;
        if (!(used >> a & 1) && !pp_fuse_is_one(f, g->axes.size[a]) && !(inner && !with_inner)) return false;
    }
    return true;
}

bool pp_group_can_store(pp_fuser *f, pp_group *g, const pp_type *type, const pp_imap *map)
{
    return pp_group_covers(f, g, type, map, false) ||
           ((g->frame == PP_FRAME_LANES || g->frame == PP_FRAME_ROWS) &&
            pp_group_covers(f, g, type, map, true));
}
