/* SPDX-License-Identifier: Apache-2.0
 * Folds and scans applied to tensors: which axes, which monoid, and the shape of the results. */
#include <string.h>

#include "graph/library_impl.h"

static ppto_status take_inputs(pp_eval *ev, const pp_definition *d, const pp_value *bound, uint32_t *x,
                               uint32_t *n)
{
    *n = 0;
    for (size_t i = 0; i < d->n_params; i++) {
        if (!pp_param_is_tensor(&d->param[i])) continue;
        if (*n == 4) return pp_eval_fail(ev, PPTO_E_LIMIT, "a fold has at most 4 operands");
        PP_TRY(pp_eval_tensor(ev, &bound[i], &x[(*n)++]));
    }
    return pp_eval_broadcast(ev, x, *n);
}

static ppto_status results(pp_eval *ev, const uint32_t *parts, unsigned n, pp_value *out)
{
    pp_value *items;
    PP_TRY(pp_eval_items(ev, n, &items));
    for (unsigned i = 0; i < n; i++) items[i] = pp_value_tensor(parts[i]);
    *out = n == 1 ? items[0] : (pp_value){.kind = PP_V_TUPLE, .n = n, .u.items = items};
    return PPTO_OK;
}

/* Without a unit no reduced axis may be empty: now where sizes are known, else at the run. */
static ppto_status need_elements(pp_eval *ev, uint32_t x, uint32_t set)
{
    const pp_type type = *pp_flat_type(ev->flat, x);
    for (uint32_t i = 0; i < type.rank; i++) {
        pp_text text = {0};
        if (!(set >> i & 1) || pp_size_is_le(ev->sizes, PP_SIZE_1, type.dim[i]) == 1) continue;
        pp_size margin = pp_size_sub(ev->sizes, type.dim[i], PP_SIZE_1);
        pp_text_add(&text, "axis %u of ", i);
        pp_type_print(ev->types, &type, &text);
        pp_text_add(&text, " has size 0, and there is no result over no elements");
        ppto_status status =
            text.failed ? pp_eval_nomem(ev) : pp_eval_need(ev, margin, PPTO_E_SHAPE, text.at);
        pp_text_free(&text);
        PP_TRY(status);
    }
    return PPTO_OK;
}

/* The position of an element in the reduced axes, flattened. */
static ppto_status positions(pp_eval *ev, uint32_t x, uint32_t set, uint32_t *id)
{
    const pp_type *type = pp_flat_type(ev->flat, x);
    pp_size dims[PPTO_MAX_RANK], count = PP_SIZE_1;
    pp_prim p = {.kind = PP_P_IOTA, .number = PP_NONE, .origin = PP_NONE};
    for (uint32_t i = 0; i < type->rank; i++) {
        dims[i] = set >> i & 1 ? type->dim[i] : PP_SIZE_1;
        count = pp_size_mul(ev->sizes, count, dims[i]);
    }
    pp_type line = {.dtype = PPTO_I64, .rank = 1, .dim = {count}};
    PP_TRY(pp_type_intern(ev->types, &line, &p.type));
    PP_TRY(pp_flat_add(ev->flat, &p, NULL, 0, id));
    PP_TRY(pp_flat_reshape(ev->flat, *id, type->rank, dims, id));
    return pp_flat_broadcast(ev->flat, *id, type->rank, type->dim, id);
}

/* Some trailing dims are reduced, and others before a kept one. */
static bool in_two_steps(uint32_t set, uint32_t rank)
{
    if (rank == 0 || !(set >> (rank - 1) & 1)) return false;
    uint32_t trailing = 0;
    for (uint32_t i = rank; i-- > 0 && (set >> i & 1);) trailing |= 1u << i;
    return trailing != set;
}

static ppto_status reduce(pp_eval *ev, const pp_built_fold *fold, uint32_t set, uint32_t *x, uint32_t n,
                          uint32_t *parts)
{
    const pp_monoid *m = fold->monoid, *unfinished = fold->unfinished;
    uint32_t rank = pp_flat_type(ev->flat, x[0])->rank;
    bool several = (set & (set - 1)) != 0;
    if (!m->has_unit) PP_TRY(need_elements(ev, x[0], set));
    if (m->ordered && several && (set >> (rank - 1) == 0 || in_two_steps(set, rank)))
        return pp_eval_fail(ev, PPTO_E_UNSUPPORTED, "an ordered fold goes along one axis, or the last ones");
    if (m->position && in_two_steps(set, rank)) {
        if (fold->placed == NULL) return pp_eval_fail(ev, PPTO_E_LIMIT, "a fold has at most 4 operands");
        PP_TRY(positions(ev, x[0], set, &x[n]));
        return pp_flat_reduce(ev->flat, fold->placed, fold->joined, fold->placed, set, x, n + 1, parts);
    }
    return pp_flat_reduce(ev->flat, m, fold->joined, unfinished, set, x, n, parts);
}

/* Reduced axes come back with size 1. */
static ppto_status keep_dims(pp_eval *ev, uint32_t x, uint32_t set, uint32_t *parts, unsigned n)
{
    const pp_type *type = pp_flat_type(ev->flat, x);
    pp_size dims[PPTO_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++) dims[i] = set >> i & 1 ? PP_SIZE_1 : type->dim[i];
    for (unsigned k = 0; k < n; k++) PP_TRY(pp_flat_reshape(ev->flat, parts[k], type->rank, dims, &parts[k]));
    return PPTO_OK;
}

static ppto_status apply_scan(pp_eval *ev, const pp_built_fold *fold, const pp_value *axis, const uint32_t *x,
                              uint32_t n, pp_value *out)
{
    uint32_t set, along = 0, parts[4];
    uint32_t rank = pp_flat_type(ev->flat, x[0])->rank;
    PP_TRY(pp_eval_axes(ev, axis, rank, &set));
    if (set == 0 || (set & (set - 1)) != 0)
        return pp_eval_fail(ev, PPTO_E_VALUE, "a scan goes along one axis");
    while (!(set >> along & 1)) along++;
    PP_TRY(pp_flat_scan(ev->flat, fold->monoid, along, x, n, parts));
    return results(ev, parts, fold->monoid->n_states, out);
}

ppto_status pp_eval_fold(pp_eval *ev, const pp_definition *d, const pp_value *bound, bool scan, pp_value *out)
{
    uint32_t x[5], n, set, parts[4];
    bool keeps;
    const pp_value *axis = &bound[d->n_params], *keepdims = &bound[d->n_params + 1];
    pp_built_fold fold;
    if (ev->mode == PP_EVAL_FUNCTION)
        return pp_eval_fail(ev, PPTO_E_UNSUPPORTED, "the fold `%.60s` cannot stand in a fold", d->name);
    PP_TRY(take_inputs(ev, d, bound, x, &n));
    ppto_status status = pp_library_built_fold(ev, d, bound, &fold);
    if (status != PPTO_OK)
        return pp_eval_fail(ev, status, "the fold `%.60s` does not take these operands", d->name);
    if (scan) return apply_scan(ev, &fold, axis, x, n, out);
    PP_TRY(pp_eval_axes(ev, axis, pp_flat_type(ev->flat, x[0])->rank, &set));
    uint32_t first = x[0];
    PP_TRY(reduce(ev, &fold, set, x, n, parts));
    PP_TRY(pp_eval_choose(ev, keepdims, &keeps));
    if (keeps) PP_TRY(keep_dims(ev, first, set, parts, fold.monoid->n_results));
    return results(ev, parts, fold.monoid->n_results, out);
}
