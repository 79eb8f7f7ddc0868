/* SPDX-License-Identifier: Apache-2.0
 * Placing a reduction, scan or product: it joins the group that demands it when the group's axes can be split
 * into outer and inner ones that fit, a reduction also a sibling; else it starts a group of its own. */
#include "graph/fuse_parts.h"

static bool is_contract(const pp_fuser *f, uint32_t id)
{
    return pp_flat_prim(f->flat, id)->kind == PP_P_CONTRACT;
}

static pp_reason join(pp_fuser *f, uint32_t id, uint32_t group, const pp_demand *list, pp_heavy *heavy)
{
    pp_reason apart = pp_group_apart(f, id, group);
    if (!f->optimise) return PP_R_OFF;
    if (apart != PP_R_NONE) return apart;
    if (!pp_group_has_room(&f->out->groups.at[group])) return PP_R_TOO_LARGE;
    pp_imap *map = pp_demand_map(f, list, group);
    if (!map) return PP_R_INDEX;
    if (!pp_group_no_cycle(f, group, list)) return PP_R_CYCLE;
    return is_contract(f, id) ? pp_contract_join(f, id, group, map, heavy)
                              : pp_reduction_join(f, id, group, map, heavy);
}

/* Where it is computed, and why the last group refused that did (SHARED when none did). */
static ppto_status find_home(pp_fuser *f, uint32_t id, const pp_demand *list, uint32_t *home, pp_heavy *heavy,
                             pp_reason *reason)
{
    bool contract = is_contract(f, id);
    *home = PP_NONE;
    *reason = PP_R_SHARED;
    for (const pp_demand *d = list; d && *home == PP_NONE; d = d->next) {
        *reason = d->map ? join(f, id, d->group, list, heavy) : (pp_reason)d->why;
        if (*reason == PP_R_NONE) *home = d->group;
    }
    if (*reason == PP_R_NONE) *reason = PP_R_SHARED;
    if (*home == PP_NONE && !contract && f->optimise) pp_reduction_join_sibling(f, id, list, home, heavy);
    if (*home == PP_NONE)
        PP_TRY(contract ? pp_contract_own(f, id, home, heavy) : pp_reduction_own(f, id, home, heavy));
    return heavy->map && heavy->operand[0] && (heavy->operand[1] || !contract) ? PPTO_OK : PPTO_E_NOMEM;
}

/* Is the part wanted in memory, by the user or by another group? */
static bool is_stored(const pp_fuser *f, uint32_t part, uint32_t home)
{
    if (f->flag[part] & PP_FUSE_OUTPUT) return true;
    for (const pp_demand *d = f->demands[part]; d; d = d->next)
        if (d->group != home || !d->map) return true;
    return false;
}

static ppto_status demand_operands(pp_fuser *f, uint32_t id, uint32_t home, const pp_heavy *heavy)
{
    bool contract = is_contract(f, id);
    uint32_t n_operands = pp_flat_prim(f->flat, id)->n_operands;
    for (uint32_t k = 0; k < n_operands; k++)
        PP_TRY(pp_demand_push(f, pp_flat_operands(f->flat, id)[k], home, heavy->operand[contract ? k : 0],
                              (uint8_t)(contract ? k + 1 : 0), id, PP_R_NONE));
    return PPTO_OK;
}

ppto_status pp_fuse_heavy(pp_fuser *f, uint32_t id, const uint32_t *parts, uint32_t n_parts)
{
    pp_demand *list;
    bool output = false;
    uint32_t home;
    pp_heavy heavy = {.prim = id};
    pp_reason reason;
    PP_TRY(pp_demand_join(f, parts, n_parts, &list));
    for (uint32_t i = 0; i < n_parts; i++) output |= (f->flag[parts[i]] & PP_FUSE_OUTPUT) != 0;
    if (!list && !output) return PPTO_OK;
    PP_TRY(find_home(f, id, list, &home, &heavy, &reason));
    for (uint32_t i = 0; i < n_parts; i++) {
        if (!is_stored(f, parts[i], home)) continue;
        PP_TRY(pp_group_store(f, parts[i], home, heavy.map));
        PP_TRY(pp_demand_readers(f, parts[i], f->demands[parts[i]], home, reason));
    }
    PP_TRY(pp_vec_push(&f->out->groups.at[home].heavies, heavy));
    PP_TRY(pp_group_member(f, home, id));
    return demand_operands(f, id, home, &heavy);
}
