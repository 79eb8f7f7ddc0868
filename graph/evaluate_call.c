/* SPDX-License-Identifier: Apache-2.0
 * Calls on bound values: an elementwise operator becomes a scalar function over broadcast operands (or its
 * few instructions), a fold a reduction, anything else its own text. */
#include "graph/library_impl.h"

ppto_status pp_eval_body(pp_eval *ev, const pp_definition *d, const pp_value *bound, pp_value *out)
{
    const pp_definition *outer = ev->definition;
    size_t base = ev->base, before = ev->values.n;
    bool valued = false;
    if (ev->depth >= PP_EVAL_DEPTH)
        return pp_eval_fail(ev, PPTO_E_LIMIT, "calls nest more than %d deep", PP_EVAL_DEPTH);
    ppto_status status = PPTO_OK;
    const pp_definition *own = ev->own;
    uint32_t own_at = ev->own_at;
    if (outer != NULL && !outer->builtin) {
        ev->own = outer;
        ev->own_at = ev->at;
    }
    ev->depth++;
    ev->base = before;
    ev->definition = d;
    for (size_t i = 0; i < d->n_params && status == PPTO_OK; i++)
        status = pp_eval_set(ev, d->param[i].name, &bound[i]);
    if (status == PPTO_OK) status = pp_eval_set_sizes(ev, d, bound);
    if (status == PPTO_OK) status = pp_eval_block(ev, d->body, &valued, out);
    if (status == PPTO_OK && !valued) status = pp_eval_fail(ev, PPTO_E_INTERNAL, "the body has no value");
    ev->definition = outer;
    ev->own = own;
    ev->own_at = own_at;
    ev->base = base;
    pp_eval_cut(ev, before);
    ev->depth--;
    return status;
}

/* One result: operands in the dtypes of the parameters, broadcast, then the function or its few instructions.
 */
static ppto_status apply_function(pp_eval *ev, const pp_built *built, unsigned k, const pp_value *bound,
                                  pp_value *out)
{
    const pp_function *function = built->function[k];
    uint32_t x[PP_MAX_OPERANDS_BUILT], id;
    bool large;
    unsigned weight = pp_function_weight(function, &large), small = ev->mode == PP_EVAL_FUNCTION ? 4 : 3;
    for (unsigned i = 0; i < function->n_params; i++)
        PP_TRY(pp_eval_adopt(ev, &bound[built->bound[k][i]], (ppto_dtype)function->param[i], false, &x[i]));
    PP_TRY(pp_eval_broadcast(ev, x, function->n_params));
    PP_TRY(large || weight > small ? pp_flat_call(ev->flat, function, x, function->n_params, &id)
                                   : pp_function_replay(ev->flat, function, x, &id));
    pp_type type = *pp_flat_type(ev->flat, id);
    if (built->weak[k] && !type.weak) {
        type.weak = true;
        PP_TRY(pp_type_intern(ev->types, &type, &ev->flat->prims.at[id].type));
    }
    *out = pp_value_tensor(id);
    return PPTO_OK;
}

static ppto_status apply_built(pp_eval *ev, const pp_built *built, const pp_value *bound, pp_value *out)
{
    pp_value *items;
    if (built->n_results == 1) return apply_function(ev, built, 0, bound, out);
    PP_TRY(pp_eval_items(ev, built->n_results, &items));
    for (unsigned k = 0; k < built->n_results; k++) PP_TRY(apply_function(ev, built, k, bound, &items[k]));
    *out = (pp_value){.kind = PP_V_TUPLE, .n = built->n_results, .u.items = items};
    return PPTO_OK;
}

static bool any_tensor(const pp_definition *d, const pp_value *bound)
{
    bool yes = false;
    for (size_t i = 0; i < d->n_params && !yes; i++) yes = bound[i].kind == PP_V_TENSOR;
    return yes;
}

ppto_status pp_eval_apply(pp_eval *ev, const pp_definition *d, const pp_value *bound, bool scan,
                          pp_value *out)
{
    pp_built built;
    if (d->is_fold) return pp_eval_fold(ev, d, bound, scan, out);
    if (scan) return pp_eval_fail(ev, PPTO_E_VALUE, "`scan` needs a fold, `%.60s` is none", d->name);
    /* An elementwise operator of several results is inlined in functions, for a function has one. */
    if (any_tensor(d, bound) && pp_library_elementwise(ev->library, d)) {
        ppto_status status = pp_library_built(ev, d, bound, &built);
        if (status == PPTO_E_NOMEM) return pp_eval_nomem(ev);
        bool inlined = ev->mode == PP_EVAL_FUNCTION && built.n_results > 1;
        if (status == PPTO_OK && built.usable && !inlined) return apply_built(ev, &built, bound, out);
    }
    return pp_eval_body(ev, d, bound, out);
}

ppto_status pp_eval_call(pp_eval *ev, const pp_definition *d, const char *called_as, uint32_t at,
                         const pp_given *given, size_t n, bool scan, pp_value *out)
{
    if (ev->mode == PP_EVAL_GRAPH) return pp_program_call(ev, d, called_as, at, given, n, scan, out);
    pp_value *bound;
    PP_TRY(pp_eval_items(ev, pp_eval_params(d), &bound));
    PP_TRY(pp_eval_bind(ev, d, given, n, bound));
    return pp_eval_apply(ev, d, bound, scan, out);
}

ppto_status pp_eval_call_name(pp_eval *ev, const char *name, uint32_t at, const pp_value *a,
                              const pp_value *b, pp_value *out)
{
    const pp_definition *d;
    PP_TRY(pp_library_find(ev->library, name, &d, ev->err));
    if (d == NULL) return pp_eval_fail(ev, PPTO_E_NAME, "no operator `%.60s`", name);
    pp_given given[2] = {{NULL, at, *a}, {NULL, at, {0}}};
    if (b != NULL) given[1].value = *b;
    return pp_eval_call(ev, d, name, at, given, b != NULL ? 2 : 1, false, out);
}
