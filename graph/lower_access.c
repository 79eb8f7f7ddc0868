/* SPDX-License-Identifier: Apache-2.0
 * What instructions refer to: slots of sizes, affine indices, guards, tensors and accesses of them. Equal
 * slots and tensors are entered once. */
#include "graph/lower_parts.h"

ppto_status pp_lower_slot(pp_lowerer *l, pp_size size, pp_slot *slot)
{
    int64_t value;
    if (pp_size_known(pp_lower_sizes(l), size, &value) && value >= -1 && value <= 1) {
        *slot = value < 0 ? PP_SLOT_M1 : (pp_slot)value;
        return PPTO_OK;
    }
    for (size_t i = PP_SLOT_FIRST; i < l->out->slots.n; i++)
        if (l->out->slots.at[i] == size) {
            *slot = (pp_slot)i;
            return PPTO_OK;
        }
    if (l->out->slots.n >= UINT16_MAX)
        return pp_fail(l->err, PPTO_E_LIMIT, "a kernel needs more than 65535 sizes");
    *slot = (pp_slot)l->out->slots.n;
    return pp_vec_push(&l->out->slots, size);
}

ppto_status pp_lower_affine(pp_lowerer *l, const pp_iexpr *e, uint32_t value, uint32_t *affine)
{
    pp_affine a = {.first_term = (uint32_t)l->terms.n, .n_terms = (uint16_t)e->n, .value = value};
    PP_TRY(pp_lower_slot(l, e->base, &a.base));
    for (uint32_t i = 0; i < e->n; i++) {
        pp_term t = {.axis = l->axis_at[e->term[i].axis]};
        PP_TRY(pp_lower_slot(l, e->term[i].coef, &t.coef));
        PP_TRY(pp_vec_push(&l->terms, t));
    }
    *affine = (uint32_t)l->affines.n;
    return pp_vec_push(&l->affines, a);
}

ppto_status pp_lower_guards(pp_lowerer *l, const pp_imap *map, uint32_t from, uint32_t *first)
{
    uint32_t affine[PP_MOST_GUARDS];
    if (map->n_guards - from > PP_MOST_GUARDS)
        return pp_fail(l->err, PPTO_E_LIMIT, "more than 64 nested pads and concatenations");
    for (uint32_t i = from; i < map->n_guards; i++)
        PP_TRY(pp_lower_affine(l, &map->guard[i].e, PP_NONE, &affine[i - from]));
    *first = (uint32_t)l->guards.n;
    for (uint32_t i = from; i < map->n_guards; i++) {
        pp_guard g = {.affine = affine[i - from]};
        PP_TRY(pp_lower_slot(l, map->guard[i].lo, &g.lo));
        PP_TRY(pp_lower_slot(l, map->guard[i].hi, &g.hi));
        PP_TRY(pp_vec_push(&l->guards, g));
    }
    return PPTO_OK;
}

ppto_status pp_lower_tensor(pp_lowerer *l, uint32_t prim, bool output, bool linear, uint32_t *tensor)
{
    for (size_t i = 0; i < l->out->tensors.n; i++) {
        pp_lowered_tensor *t = &l->out->tensors.at[i];
        if (t->prim == prim && t->output == output && t->linear == linear) {
            *tensor = (uint32_t)i;
            return PPTO_OK;
        }
    }
    const pp_type *type = pp_flat_type(l->flat, prim);
    *tensor = (uint32_t)l->tensors.n;
    PP_TRY(pp_vec_push(&l->out->tensors, ((pp_lowered_tensor){prim, output, linear})));
    return pp_vec_push(&l->tensors, ((pp_tensor_slot){.dtype = type->dtype,
                                                      .rank = linear ? 1 : type->rank,
                                                      .output = output,
                                                      .result = output && l->fused->result[prim]}));
}

ppto_status pp_lower_access(pp_lowerer *l, uint32_t tensor, const pp_imap *map, const uint32_t *values,
                            uint32_t *access)
{
    pp_access a = {.tensor = tensor, .n_guards = (uint16_t)map->n_guards};
    uint32_t last; /* they follow one another */
    PP_TRY(pp_lower_guards(l, map, 0, &a.first_guard));
    a.first_affine = (uint32_t)l->affines.n;
    for (uint32_t i = 0; i < map->rank; i++)
        PP_TRY(pp_lower_affine(l, &map->dim[i], values ? values[i] : PP_NONE, &last));
    *access = (uint32_t)l->accesses.n;
    return pp_vec_push(&l->accesses, a);
}

static bool expr_varies(const pp_lowerer *l, const pp_iexpr *e)
{
    for (uint32_t t = 0; t < e->n; t++)
        if (l->group->role[e->term[t].axis] == PP_AXIS_INNER) return true;
    return false;
}

bool pp_lower_varies(const pp_lowerer *l, const pp_imap *map)
{
    for (uint32_t i = 0; i < map->rank; i++)
        if (expr_varies(l, &map->dim[i])) return true;
    for (uint32_t i = 0; i < map->n_guards; i++)
        if (expr_varies(l, &map->guard[i].e)) return true;
    return false;
}
