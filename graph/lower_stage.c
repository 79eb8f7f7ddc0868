/* SPDX-License-Identifier: Apache-2.0
 * Stages. A reduction is complete only after a pass over the inner axes, so what needs its result comes in a
 * later stage; a scan gives its values in its own. Values of earlier stages are computed again, or kept in a
 * buffer when they are dear. */
#include <string.h>

#include "graph/lower_parts.h"

enum { KEEP_COST = 6, SCAN_COST = 50 };

/* The heavy that is this prim; PP_NONE. */
static uint32_t heavy_index(const pp_lowerer *l, uint32_t prim)
{
    for (uint32_t i = 0; i < l->group->heavies.n; i++)
        if (l->group->heavies.at[i].prim == prim) return i;
    return PP_NONE;
}

/* ---- in which stage ---------------------------------------------------------------------------- */

static uint32_t member_index(const pp_group *g, uint32_t prim)
{
    size_t lo = 0, hi = g->members.n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (g->members.at[mid] < prim)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < g->members.n && g->members.at[lo] == prim ? (uint32_t)lo : PP_NONE;
}

/* First stage in which a prim's value can be had. */
static uint32_t ready_at(pp_lowerer *l, uint32_t prim)
{
    if (pp_lower_elsewhere(l, prim)) return 0;
    if (pp_flat_prim(l->flat, prim)->kind == PP_P_PART) {
        uint32_t of = pp_flat_operands(l->flat, prim)[0], heavy = heavy_index(l, of);
        if (heavy == PP_NONE) return 0;
        return l->level[heavy] + (pp_flat_prim(l->flat, of)->kind == PP_P_SCAN ? 0u : 1u);
    }
    uint32_t member = member_index(l->group, prim);
    return member == PP_NONE ? 0 : l->ready[member];
}

/* Members ascend, so operands come first. */
static ppto_status set_levels(pp_lowerer *l)
{
    pp_group *g = l->group;
    l->ready = pp_arena_alloc(l->temp, g->members.n + 1);
    l->level = pp_arena_alloc(l->temp, g->heavies.n + 1);
    if (!l->ready || !l->level) return PPTO_E_NOMEM;
    for (size_t m = 0; m < g->members.n; m++) {
        uint32_t at = 0, n_operands = pp_flat_prim(l->flat, g->members.at[m])->n_operands;
        for (uint32_t k = 0; k < n_operands; k++) {
            uint32_t ready = ready_at(l, pp_flat_operands(l->flat, g->members.at[m])[k]);
            if (ready > at) at = ready;
        }
        if (at >= PP_LOWER_STAGES - 1)
            return pp_fail(l->err, PPTO_E_INTERNAL, "lowering: too many stages in one kernel");
        l->ready[m] = (uint8_t)at;
        uint32_t heavy = heavy_index(l, g->members.at[m]);
        if (heavy != PP_NONE) l->level[heavy] = (uint8_t)at;
    }
    return PPTO_OK;
}

static ppto_status look_at_roots(pp_lowerer *l)
{
    const pp_group *g = l->group;
    l->inner_root = pp_arena_alloc(l->temp, g->roots.n + 1);
    if (!l->inner_root) return PPTO_E_NOMEM;
    for (size_t i = 0; i < g->roots.n; i++) {
        pp_imap *map = pp_index_normal(&l->ix, g->roots.at[i].map);
        if (!map) return PPTO_E_NOMEM;
        l->inner_root[i] = pp_lower_varies(l, map);
    }
    return PPTO_OK;
}

/* ---- values of heavies and of earlier stages --------------------------------------------------- */

/* A value of a past stage, kept in a buffer from there. */
static ppto_status buffer_of(pp_lowerer *l, uint32_t stage, uint32_t instr, uint32_t *id)
{
    uint64_t key = (uint64_t)stage << 32 | instr;
    uint8_t dtype = l->stage[stage].code.at[instr].dtype;
    uint32_t at = 0;
    while (at < l->kept.n && l->kept.at[at] != key) at++;
    if (at == l->kept.n) {
        uint32_t none, here = l->current;
        PP_TRY(pp_vec_push(&l->kept, key));
        PP_TRY(pp_vec_push(&l->buffers, ((pp_buffer){dtype})));
        l->current = stage;
        ppto_status status =
            pp_lower_add(l, (pp_instr){.op = PP_KEEP, .dtype = dtype, .a = instr, .imm = at}, 0, true, &none);
        l->current = here;
        PP_TRY(status);
    }
    return pp_lower_add(l, (pp_instr){.op = PP_BUFFER, .dtype = dtype, .imm = at}, 1, true, id);
}

ppto_status pp_lower_kept(pp_lowerer *l, uint32_t prim, const pp_imap *map, bool *found, uint32_t *id)
{
    *found = false;
    if (l->group->frame == PP_FRAME_MAP || l->group->frame == PP_FRAME_CONTRACT || !pp_lower_now(l)->inner)
        return PPTO_OK;
    for (uint32_t s = 0; s < l->current; s++) {
        const pp_lower_code *code = &l->stage[s];
        uint32_t instr;
        if (!code->inner || !pp_lower_known(code, prim, map, &instr)) continue;
        if (!code->varies.at[instr] || code->cost.at[instr] < KEEP_COST) continue;
        *found = true;
        return buffer_of(l, s, instr, id);
    }
    return PPTO_OK;
}

/* A component of a fold is there when the stage is over; one of a scan is a value of the scan's own stage,
 * and kept from there for later ones. */
ppto_status pp_lower_part(pp_lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id)
{
    const pp_prim *p = pp_flat_prim(l->flat, prim);
    uint32_t of = pp_flat_operands(l->flat, prim)[0], heavy = heavy_index(l, of);
    uint8_t dtype = pp_flat_type(l->flat, prim)->dtype;
    if (heavy == PP_NONE)
        return pp_fail(l->err, PPTO_E_INTERNAL, "lowering: a part is needed here but not computed");
    if (pp_flat_prim(l->flat, of)->kind != PP_P_SCAN)
        return pp_lower_add(l, (pp_instr){.op = PP_STATE, .dtype = dtype, .a = p->number, .imm = heavy}, 0,
                            false, id);
    if (l->level[heavy] == l->current)
        return pp_lower_add(l, (pp_instr){.op = PP_SCANNED, .dtype = dtype, .a = p->number, .imm = heavy},
                            SCAN_COST, true, id);
    uint32_t here = l->current, instr;
    l->current = l->level[heavy];
    ppto_status status = pp_lower_emit(l, prim, map, &instr);
    l->current = here;
    PP_TRY(status);
    return buffer_of(l, l->level[heavy], instr, id);
}

static ppto_status emit_fold(pp_lowerer *l, uint32_t heavy)
{
    pp_heavy *h = &l->group->heavies.at[heavy];
    const pp_prim *p = pp_flat_prim(l->flat, h->prim);
    const pp_monoid *m = p->u.fold.monoid;
    bool in_order = p->kind == PP_P_SCAN || m->ordered;
    pp_fold fold = {.n_states = m->n_states,
                    .n_inputs = (uint8_t)p->n_operands,
                    .joined = m->joined,
                    .position = m->position,
                    .law = in_order ? PP_LAW_SCAN : PP_LAW_FOLD,
                    .lift = m->lift,
                    .step = in_order ? NULL : m->step,
                    .join = m->join,
                    .finish = in_order ? NULL : m->finish};
    memcpy(fold.state, m->state, sizeof fold.state);
    for (uint32_t k = 0; k < p->n_operands; k++) {
        uint32_t operand = pp_flat_operands(l->flat, h->prim)[k];
        PP_TRY(pp_lower_emit(l, operand, h->operand[0], &fold.input[k]));
    }
    PP_TRY(pp_vec_push(&pp_lower_now(l)->fold_of, heavy));
    return pp_vec_push(&pp_lower_now(l)->folds, fold);
}

/* ---- all stages of a group --------------------------------------------------------------------- */

/* The last stage that folds something or stores along the inner axes. */
static uint32_t last_inner_stage(pp_lowerer *l)
{
    const pp_group *g = l->group;
    uint32_t last = 0;
    for (size_t i = 0; i < g->heavies.n; i++) last = l->level[i] > last ? l->level[i] : last;
    for (size_t i = 0; i < g->roots.n; i++) {
        uint32_t at = ready_at(l, g->roots.at[i].prim);
        if (at > last && l->inner_root[i]) last = at;
    }
    return last;
}

/* Instructions that take an element into the state. */
static uint32_t weight_of(const pp_fold *fold)
{
    if (fold->step != NULL) return fold->step->n_code;
    return (fold->lift != NULL ? fold->lift->n_code : 0) + fold->join->n_code;
}

/* The heaviest first: the first one waits for memory while it computes, and the others find the elements in
 * cache. */
static void sort_folds(pp_lower_code *code)
{
    for (size_t i = 1; i < code->folds.n; i++)
        for (size_t k = i; k > 0 && weight_of(&code->folds.at[k - 1]) < weight_of(&code->folds.at[k]); k--) {
            const pp_fold fold = code->folds.at[k];
            const uint32_t heavy = code->fold_of.at[k];
            code->folds.at[k] = code->folds.at[k - 1], code->folds.at[k - 1] = fold;
            code->fold_of.at[k] = code->fold_of.at[k - 1], code->fold_of.at[k - 1] = heavy;
        }
}

/* The folds and stores of one stage over the inner axes. */
static ppto_status emit_inner_stage(pp_lowerer *l, uint32_t stage)
{
    const pp_group *g = l->group;
    l->current = stage;
    l->n_stages = stage + 1;
    pp_lower_now(l)->inner = true;
    for (uint32_t h = 0; h < g->heavies.n; h++)
        if (l->level[h] == stage) PP_TRY(emit_fold(l, h));
    sort_folds(pp_lower_now(l));
    for (size_t i = 0; i < g->roots.n; i++)
        if (l->inner_root[i] && ready_at(l, g->roots.at[i].prim) == stage)
            PP_TRY(pp_lower_store(l, &g->roots.at[i]));
    return PPTO_OK;
}

/* Stages over the inner axes, then one for what is stored over the outer ones, if anything is. */
static ppto_status emit_reductions(pp_lowerer *l)
{
    const pp_group *g = l->group;
    uint32_t last = last_inner_stage(l), n_outer = 0;
    for (uint32_t s = 0; s <= last; s++) PP_TRY(emit_inner_stage(l, s));
    for (size_t i = 0; i < g->roots.n; i++) n_outer += !l->inner_root[i];
    if (!n_outer) return PPTO_OK;
    l->current = l->n_stages++;
    for (size_t i = 0; i < g->roots.n; i++)
        if (!l->inner_root[i]) PP_TRY(pp_lower_store(l, &g->roots.at[i]));
    return PPTO_OK;
}

static ppto_status emit_flat(pp_lowerer *l)
{
    l->current = 0;
    l->n_stages = 1;
    for (size_t i = 0; i < l->group->roots.n; i++) PP_TRY(pp_lower_store(l, &l->group->roots.at[i]));
    return PPTO_OK;
}

/* A factor of the group's product. */
static ppto_status emit_side(pp_lowerer *l, uint32_t side)
{
    const pp_heavy *h = &l->group->heavies.at[0];
    l->current = PP_LOWER_STAGES + side;
    return pp_lower_emit(l, pp_flat_operands(l->flat, h->prim)[side], h->operand[side], &l->side_value[side]);
}

ppto_status pp_lower_stages(pp_lowerer *l)
{
    pp_frame frame = l->group->frame;
    PP_TRY(set_levels(l));
    PP_TRY(look_at_roots(l));
    for (uint32_t side = 0; frame == PP_FRAME_CONTRACT && side < 2; side++) PP_TRY(emit_side(l, side));
    return frame == PP_FRAME_LANES || frame == PP_FRAME_ROWS ? emit_reductions(l) : emit_flat(l);
}
