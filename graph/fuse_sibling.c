/* SPDX-License-Identifier: Apache-2.0
 * Siblings: a group that does not demand a value may compute it all the same when it runs over the same frame
 * and reads the same data, which is then read once. Only the groups made last are looked at: they were made
 * for the neighbours of the value. */
#include "graph/fuse_parts.h"

enum { SIBLINGS = 4 };

pp_imap *pp_sibling_next(pp_fuser *f, uint32_t id, const pp_demand *list, pp_sibling_fits *fits,
                         uint32_t *group)
{
    size_t n = f->out->groups.n;
    while (*group > 0 && n - *group < SIBLINGS) {
        uint32_t at = --*group;
        pp_group *g = &f->out->groups.at[at];
        uint8_t axes[PPTO_MAX_RANK];
        if (!pp_group_has_room(g) || pp_group_apart(f, id, at) != PP_R_NONE) continue;
        if (pp_demand_of_group(list, at) || !fits(f, id, at, axes) || !pp_group_no_cycle(f, at, list))
            continue;
        pp_imap *map = pp_group_plain(f, g, axes, pp_flat_type(f->flat, id)->rank);
        if (map) return map;
    }
    return NULL;
}

bool pp_sibling_domain(const pp_group *g, const pp_type *type, uint8_t *axes)
{
    if (g->n_domain != type->rank || g->frame == PP_FRAME_CONTRACT) return false;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (g->axes.size[g->domain[i]] != type->dim[i]) return false;
        axes[i] = g->domain[i];
    }
    return true;
}

static bool demands(const pp_fuser *f, uint32_t group, uint32_t prim)
{
    uint32_t looked = 0;
    for (const pp_demand *d = f->demands[prim]; d && looked < 8; d = d->next, looked++)
        if (d->group == group && d->map) return true;
    return false;
}

bool pp_sibling_shares_data(const pp_fuser *f, uint32_t id, uint32_t group)
{
    uint32_t stack[64], n = 0, visits = 0;
    stack[n++] = id;
    while (n && visits++ < 48) {
        uint32_t at = stack[--n], n_operands = pp_flat_prim(f->flat, at)->n_operands;
        const uint32_t *operand = pp_flat_operands(f->flat, at);
        for (uint32_t k = 0; k < n_operands; k++) {
            if (f->flag[operand[k]] & PP_FUSE_NUMBER) continue;
            if (demands(f, group, operand[k])) return true;
            if (n < 63 && !pp_prim_is_heavy(pp_flat_prim(f->flat, operand[k]))) stack[n++] = operand[k];
        }
    }
    return false;
}
