/* SPDX-License-Identifier: Apache-2.0
 * What the build compiles loops for: the shipped elementwise operators with default parameters in f32 and
 * f64, and the shipped folds in f32, f64, i64, i32 and u8 (other dtypes run primitive by primitive: compile
 * time is spent where numbers are crunched). What does not evaluate for a dtype is left out. */
#include <string.h>

#include "graph/library_impl.h"

typedef struct collect {
    pp_library *library;
    pp_eval ev;
    pp_flat flat;
    pp_arena arena;
    pp_names names;
    PP_VEC(const pp_function *) functions;
    PP_VEC(const pp_monoid *) monoids;
} collect;

/* Formals of one dtype for the tensor parameters, defaults for the rest; false when a parameter has none. */
static ppto_status bind_all(collect *c, const pp_definition *d, ppto_dtype dtype, pp_value *bound,
                            bool *bindable)
{
    pp_given given[PP_MAX_BOUND];
    size_t n = 0;
    *bindable = true;
    for (size_t i = 0; i < d->n_params; i++) {
        const pp_param *p = &d->param[i];
        if (!pp_param_is_tensor(p)) {
            *bindable = *bindable && p->fallback != NULL;
            continue;
        }
        pp_type type = {.dtype = (uint8_t)(p->spec == PP_SPEC_BOOL ? PPTO_BOOL : dtype)};
        pp_prim prim = {.kind = PP_P_INPUT, .number = (uint32_t)n, .origin = PP_NONE};
        uint32_t id;
        PP_TRY(pp_type_intern(c->flat.types, &type, &prim.type));
        PP_TRY(pp_flat_add(&c->flat, &prim, NULL, 0, &id));
        given[n++] = (pp_given){.keyword = p->name, .value = pp_value_tensor(id)};
    }
    if (!*bindable) return PPTO_OK;
    ppto_status status = pp_eval_bind(&c->ev, d, given, n, bound);
    *bindable = status == PPTO_OK;
    return status == PPTO_E_NOMEM ? status : PPTO_OK;
}

static ppto_status add_function(collect *c, const pp_function *function)
{
    bool large;
    for (size_t i = 0; i < c->functions.n; i++)
        if (c->functions.at[i] == function) return PPTO_OK;
    if (pp_function_weight(function, &large) <= 3 && !large) return PPTO_OK;
    return pp_vec_push(&c->functions, function);
}

static ppto_status add_monoid(collect *c, const pp_monoid *monoid)
{
    for (size_t i = 0; i < c->monoids.n; i++)
        if (c->monoids.at[i] == monoid) return PPTO_OK;
    return pp_vec_push(&c->monoids, monoid);
}

static ppto_status collect_for(collect *c, const pp_definition *d, ppto_dtype dtype)
{
    pp_value bound[PP_MAX_BOUND];
    bool bindable;
    pp_built built;
    pp_built_fold fold;
    PP_TRY(bind_all(c, d, dtype, bound, &bindable));
    if (!bindable) return PPTO_OK;
    if (d->is_fold) {
        ppto_status status = pp_library_built_fold(&c->ev, d, bound, &fold);
        if (status != PPTO_OK) return status == PPTO_E_NOMEM ? status : PPTO_OK;
        return add_monoid(c, fold.monoid); /* the emitter adds the fold of its states */
    }
    ppto_status status = pp_library_built(&c->ev, d, bound, &built);
    if (status != PPTO_OK || !built.usable) return status == PPTO_E_NOMEM ? status : PPTO_OK;
    for (unsigned k = 0; k < built.n_results; k++) PP_TRY(add_function(c, built.function[k]));
    return PPTO_OK;
}

static ppto_status collect_all(collect *c)
{
    static const uint8_t of_functions[] = {PPTO_F32, PPTO_F64};
    static const uint8_t of_folds[] = {PPTO_F32, PPTO_F64, PPTO_I64, PPTO_I32, PPTO_U8};
    for (size_t i = 0; i < c->names.n; i++) {
        const pp_definition *d;
        PP_TRY(pp_library_find(c->library, c->names.at[i], &d, NULL));
        if (!d->builtin) continue;
        for (unsigned k = 0; d->is_fold && k < sizeof of_folds; k++)
            PP_TRY(collect_for(c, d, (ppto_dtype)of_folds[k]));
        if (d->is_fold || d->name[0] == '_' || !pp_library_elementwise(c->library, d)) continue;
        for (unsigned k = 0; k < sizeof of_functions; k++)
            PP_TRY(collect_for(c, d, (ppto_dtype)of_functions[k]));
    }
    for (unsigned k = PPTO_F32; k < PP_DTYPE_COUNT; k++) {
        const pp_monoid *dot;
        PP_TRY(pp_library_dot(c->library, (ppto_dtype)k, &dot));
        PP_TRY(add_monoid(c, dot));
    }
    return PPTO_OK;
}

static ppto_status hand_over(collect *c, const pp_function *const **functions, size_t *n_functions,
                             const pp_monoid *const **monoids, size_t *n_monoids)
{
    pp_arena *arena = pp_library_arena(c->library);
    const pp_function **f = pp_arena_alloc(arena, (c->functions.n + 1) * sizeof(pp_function *));
    const pp_monoid **m = pp_arena_alloc(arena, (c->monoids.n + 1) * sizeof(pp_monoid *));
    if (f == NULL || m == NULL) return PPTO_E_NOMEM;
    if (c->functions.n != 0) memcpy(f, c->functions.at, c->functions.n * sizeof(pp_function *));
    if (c->monoids.n != 0) memcpy(m, c->monoids.at, c->monoids.n * sizeof(pp_monoid *));
    *functions = f;
    *n_functions = c->functions.n;
    *monoids = m;
    *n_monoids = c->monoids.n;
    return PPTO_OK;
}

ppto_status pp_library_precompile(pp_library *library, const pp_function *const **functions,
                                  size_t *n_functions, const pp_monoid *const **monoids, size_t *n_monoids,
                                  pp_error *err)
{
    collect c = {.library = library};
    pp_library_lock(library);
    pp_flat_init(&c.flat, pp_library_scratch(library));
    c.ev = (pp_eval){.mode = PP_EVAL_TENSORS,
                     .library = library,
                     .types = c.flat.types,
                     .flat = &c.flat,
                     .sizes = pp_types_sizes(c.flat.types),
                     .arena = &c.arena};
    ppto_status status = pp_library_names(library, &c.names);
    if (status == PPTO_OK) status = collect_all(&c);
    if (status == PPTO_OK) status = hand_over(&c, functions, n_functions, monoids, n_monoids);
    pp_library_unlock(library);
    pp_vec_free(&c.names);
    pp_vec_free(&c.functions);
    pp_vec_free(&c.monoids);
    pp_eval_free(&c.ev);
    pp_flat_free(&c.flat);
    pp_arena_free(&c.arena);
    return status == PPTO_OK ? status : pp_fail(err, status, "%s", ppto_status_text(status));
}

pp_fold pp_library_fold(const pp_monoid *m)
{
    pp_fold fold = {.n_states = m->n_states,
                    .n_inputs = m->n_inputs,
                    .joined = m->joined,
                    .position = m->position,
                    .law = m->ordered ? PP_LAW_SCAN : PP_LAW_FOLD,
                    .lift = m->lift,
                    .step = m->step,
                    .join = m->join,
                    .finish = m->finish};
    for (int i = 0; i < 4; i++) fold.state[i] = m->state[i];
    return fold;
}
