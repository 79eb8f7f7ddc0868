/* SPDX-License-Identifier: Apache-2.0
 * Demands: which group needs a value, and at which index map. They are pushed by consumers and looked at when
 * the value's own turn comes, all consumers being done. */
#include "graph/fuse_parts.h"

ppto_status pp_demand_push(pp_fuser *f, uint32_t prim, uint32_t group, pp_imap *map, uint8_t side,
                           uint32_t consumer, pp_reason why)
{
    if (f->flag[prim] & PP_FUSE_NUMBER) return PPTO_OK;
    pp_demand *d = pp_arena_alloc(&f->out->arena, sizeof *d);
    if (!d) return PPTO_E_NOMEM;
    *d = (pp_demand){group, consumer, map, side, (uint8_t)why, f->demands[prim], NULL};
    f->demands[prim] = d;
    if (pp_prim_is_source(pp_flat_prim(f->flat, prim))) f->out->groups.at[group].leaves++;
    return PPTO_OK;
}

/* Axes from number `first` on are children of a split just made: they take the role of their parent. */
static void inherit_roles(pp_group *g, uint32_t first)
{
    for (uint32_t a = 0; a < g->axes.n; a++)
        for (uint32_t c = 0; c < g->axes.n_children[a]; c++)
            if (g->axes.first_child[a] >= first) g->role[g->axes.first_child[a] + c] = g->role[a];
}

ppto_status pp_demand_operands(pp_fuser *f, uint32_t id, uint32_t group, pp_imap *map, uint8_t side)
{
    const pp_prim *p = pp_flat_prim(f->flat, id);
    const uint32_t *operand = pp_flat_operands(f->flat, id);
    pp_group *g = &f->out->groups.at[group];
    for (uint32_t k = 0; k < p->n_operands; k++) {
        if (p->kind == PP_P_GATHER && k == 0) {
            PP_TRY(pp_demand_push(f, operand[k], group, NULL, side, id, PP_R_GATHER));
            continue;
        }
        if (f->flag[operand[k]] & PP_FUSE_NUMBER) continue;
        pp_index ix = pp_group_index(f, g);
        pp_imap *through = NULL;
        uint32_t n_axes = g->axes.n;
        pp_through how = pp_index_through(&ix, f->flat, id, map, k, &through);
        inherit_roles(g, n_axes);
        if (how == PP_THROUGH_NOMEM) return PPTO_E_NOMEM;
        if (how == PP_THROUGH_RESHAPE) through = NULL;
        PP_TRY(pp_demand_push(f, operand[k], group, through, side, id, PP_R_RESHAPE));
    }
    return PPTO_OK;
}

bool pp_demand_first(pp_fuser *f, pp_demand *d, bool *first_of_group)
{
    pp_demand_kinds *kinds = &f->kinds.at[d->group];
    if (kinds->epoch != f->kinds_epoch) *kinds = (pp_demand_kinds){NULL, f->kinds_epoch};
    *first_of_group = kinds->first == NULL;
    for (const pp_demand *e = kinds->first; e; e = e->alike)
        if (e->side == d->side && pp_index_equal(e->map, d->map)) return false;
    d->alike = kinds->first;
    kinds->first = d;
    return true;
}

ppto_status pp_demand_join(pp_fuser *f, const uint32_t *prims, uint32_t n, pp_demand **list)
{
    *list = NULL;
    for (uint32_t i = 0; i < n; i++)
        for (const pp_demand *d = f->demands[prims[i]]; d; d = d->next) {
            pp_demand *copy = pp_arena_alloc(&f->out->arena, sizeof *copy);
            if (!copy) return PPTO_E_NOMEM;
            *copy = *d;
            copy->next = *list;
            *list = copy;
        }
    return PPTO_OK;
}

bool pp_demand_of_group(const pp_demand *list, uint32_t group)
{
    for (const pp_demand *d = list; d; d = d->next)
        if (d->group == group) return true;
    return false;
}

bool pp_demand_of_stored(const pp_demand *list)
{
    for (const pp_demand *d = list; d; d = d->next)
        if (!d->map) return true;
    return false;
}

pp_imap *pp_demand_map(pp_fuser *f, const pp_demand *list, uint32_t group)
{
    pp_imap *map = NULL;
    pp_index ix = pp_group_index(f, &f->out->groups.at[group]);
    for (const pp_demand *d = list; d; d = d->next) {
        if (d->group != group) continue;
        if (!d->map || d->side || d->map->n_guards) return NULL;
        pp_imap *normal = pp_index_normal(&ix, d->map);
        if (!normal || (map && !pp_index_equal(map, normal))) return NULL;
        map = normal;
    }
    return map;
}

ppto_status pp_demand_readers(pp_fuser *f, uint32_t id, const pp_demand *list, uint32_t home,
                              pp_reason reason)
{
    for (const pp_demand *d = list; d; d = d->next) {
        if (d->group == home && d->map) continue;
        pp_group *g = &f->out->groups.at[d->group];
        PP_TRY(pp_vec_push(&g->needs, home));
        g->leaves++;
        pp_reason why = d->map ? reason : (pp_reason)d->why, apart = pp_group_apart(f, id, d->group);
        if (apart != PP_R_NONE && !pp_prim_is_source(pp_flat_prim(f->flat, id))) why = apart;
        PP_TRY(pp_vec_push(&f->out->missed, ((pp_missed){id, d->consumer, f->optimise ? why : PP_R_OFF})));
    }
    return PPTO_OK;
}
