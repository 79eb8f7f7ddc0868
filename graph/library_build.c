/* SPDX-License-Identifier: Apache-2.0
 * Elementwise definitions as scalar functions. The body is evaluated once per definition, dtypes and
 * parameters on rank-0 operands. A weak operand whose only uses are casts to one dtype becomes a parameter of
 * that dtype, so that a literal beside an f32 tensor brings no f64 into the function. Numbers are parameters
 * too, unless the definition depends on literal values or they are integers beyond i64, which have no weak
 * dtype: then they are part of the function. */
#include <stdio.h>
#include <string.h>

#include "graph/library_impl.h"

typedef struct build {
    pp_library *library;
    const pp_definition *definition;
    pp_flat flat;
    pp_arena arena;
    pp_eval ev;
    uint8_t param[PP_MAX_OPERANDS_BUILT]; /* dtypes by number of INPUT */
    uint8_t bound[PP_MAX_OPERANDS_BUILT]; /* which bound value each INPUT is */
    unsigned n_inputs;
} build;

/* Words that decide the functions; E_UNSUPPORTED when they cannot be built for such values. */
static ppto_status make_key(const pp_eval *ev, const pp_definition *d, const pp_value *bound, bool literal,
                            pp_key *key)
{
    PP_TRY(pp_vec_push(key, (uint64_t)(uintptr_t)d));
    for (size_t i = 0; i < d->n_params; i++) {
        const pp_type *type = pp_param_is_tensor(&d->param[i]) ? pp_eval_type(ev, &bound[i]) : NULL;
        int64_t known;
        bool symbolic = bound[i].kind == PP_V_INT && !pp_size_known(ev->sizes, bound[i].u.size, &known);
        bool by_value = type == NULL || pp_value_is_wide(&bound[i]) ||
                        (literal && pp_value_is_number(&bound[i]) && !symbolic);
        if (by_value) {
            PP_TRY(pp_value_key(ev->sizes, &bound[i], false, key));
            continue;
        }
        PP_TRY(pp_vec_push(key, UINT64_C(1) << 60 | (uint64_t)type->dtype << 1 | type->weak));
    }
    return PPTO_OK;
}

/* A record-time value in the scratch table of sizes: only constants come here. */
static ppto_status import_value(build *b, const pp_eval *from, const pp_value *value, pp_value *out)
{
    int64_t known;
    *out = *value;
    if (value->kind == PP_V_INT) {
        if (!pp_size_known(from->sizes, value->u.size, &known)) return PPTO_E_UNSUPPORTED;
        *out = pp_eval_number(&b->ev, known);
    } else if (pp_value_is_list(value)) {
        pp_value *items;
        PP_TRY(pp_eval_items(&b->ev, value->n, &items));
        for (uint32_t i = 0; i < value->n; i++) PP_TRY(import_value(b, from, &value->u.items[i], &items[i]));
        out->u.items = items;
    } else if (value->kind == PP_V_STR || value->kind == PP_V_BEYOND) {
        out->u.text = pp_arena_strndup(&b->arena, value->u.text, strlen(value->u.text));
        if (out->u.text == NULL) return PPTO_E_NOMEM;
    }
    return PPTO_OK;
}

static ppto_status add_formal(build *b, unsigned number, const pp_type *type, pp_value *out)
{
    pp_type own = {.dtype = type->dtype, .weak = type->weak};
    pp_prim p = {.kind = PP_P_INPUT, .number = number, .origin = PP_NONE};
    uint32_t id;
    PP_TRY(pp_type_intern(b->flat.types, &own, &p.type));
    PP_TRY(pp_flat_add(&b->flat, &p, NULL, 0, &id));
    b->param[number] = type->dtype;
    *out = pp_value_tensor(id);
    return PPTO_OK;
}

static ppto_status import_bound(build *b, const pp_eval *from, const pp_value *bound, bool literal,
                                pp_value *own)
{
    const pp_definition *d = b->definition;
    for (size_t i = 0; i < d->n_params; i++) {
        const pp_type *type = pp_param_is_tensor(&d->param[i]) ? pp_eval_type(from, &bound[i]) : NULL;
        int64_t known;
        bool symbolic = bound[i].kind == PP_V_INT && !pp_size_known(from->sizes, bound[i].u.size, &known);
        if (type == NULL || pp_value_is_wide(&bound[i]) ||
            (literal && pp_value_is_number(&bound[i]) && !symbolic)) {
            PP_TRY(import_value(b, from, &bound[i], &own[i]));
            continue;
        }
        if (b->n_inputs == PP_MAX_OPERANDS_BUILT) return PPTO_E_UNSUPPORTED;
        b->bound[b->n_inputs] = (uint8_t)i;
        PP_TRY(add_formal(b, b->n_inputs++, type, &own[i]));
    }
    return PPTO_OK;
}

/* Weak formals that are only ever cast to one dtype. */
static void adopt_formals(build *b, const uint32_t *outputs, unsigned n_outputs)
{
    int adopted[PP_MAX_OPERANDS_BUILT]; /* -1: no use yet, -2: several */
    for (unsigned i = 0; i < PP_MAX_OPERANDS_BUILT; i++) adopted[i] = -1;
    for (uint32_t id = 0; id < b->flat.prims.n; id++) {
        const pp_prim *p = pp_flat_prim(&b->flat, id);
        for (uint32_t k = 0; k < p->n_operands; k++) {
            const pp_prim *x = pp_flat_prim(&b->flat, pp_flat_operands(&b->flat, id)[k]);
            if (x->kind != PP_P_INPUT) continue;
            int to = p->kind == PP_P_MAP && p->op == PP_CAST && p->weak_cast
                         ? pp_flat_type(&b->flat, id)->dtype
                         : -2;
            adopted[x->number] = adopted[x->number] == -1 || adopted[x->number] == to ? to : -2;
        }
    }
    for (unsigned i = 0; i < n_outputs; i++) {
        const pp_prim *x = pp_flat_prim(&b->flat, outputs[i]);
        if (x->kind == PP_P_INPUT) adopted[x->number] = -2;
    }
    for (uint32_t id = 0; id < b->flat.prims.n; id++) {
        const pp_prim *x = pp_flat_prim(&b->flat, id);
        if (x->kind == PP_P_INPUT && pp_flat_type(&b->flat, id)->weak && adopted[x->number] >= 0)
            b->param[x->number] = (uint8_t)adopted[x->number];
    }
}

/* The inputs an output depends on, ascending. */
static ppto_status used_inputs(const build *b, uint32_t output, uint8_t *inputs, unsigned *n)
{
    uint8_t *live = pp_calloc(output + 1, 1);
    bool used[PP_MAX_OPERANDS_BUILT] = {false};
    if (live == NULL) return PPTO_E_NOMEM;
    live[output] = 1;
    for (uint32_t id = output + 1; id-- > 0;) {
        const pp_prim *p = pp_flat_prim(&b->flat, id);
        if (!live[id]) continue;
        if (p->kind == PP_P_INPUT) used[p->number] = true;
        for (uint32_t k = 0; k < p->n_operands; k++) live[pp_flat_operands(&b->flat, id)[k]] = 1;
    }
    pp_free(live);
    *n = 0;
    for (unsigned i = 0; i < PP_MAX_OPERANDS_BUILT; i++)
        if (used[i]) inputs[(*n)++] = (uint8_t)i;
    return PPTO_OK;
}

static ppto_status make_one(build *b, uint32_t output, unsigned k, const char *suffix, pp_built *built)
{
    uint8_t inputs[PP_MAX_OPERANDS_BUILT];
    char name[96];
    unsigned n;
    const char *base = b->definition->name;
    while (*base == '_') base++;
    PP_TRY(used_inputs(b, output, inputs, &n));
    if (n == 0) return PPTO_E_UNSUPPORTED; /* a constant has no shape to be computed in */
    for (unsigned i = 0; i < n; i++) built->bound[k][i] = b->bound[inputs[i]];
    snprintf(name, sizeof name, "%.60s_%s%s", base, ppto_dtype_name((ppto_dtype)b->param[inputs[0]]), suffix);
    return pp_function_build(b->library, &b->flat, &output, 1, b->param, inputs, n, name,
                             &built->function[k]);
}

static ppto_status make_functions(build *b, const pp_value *result, pp_built *built)
{
    static const char *const suffix[] = {"_0", "_1", "_2", "_3"};
    uint32_t outputs[4];
    unsigned n = result->kind == PP_V_TUPLE ? result->n : 1;
    if (n == 0 || n > 4) return PPTO_E_UNSUPPORTED;
    for (unsigned k = 0; k < n; k++) {
        const pp_value *value = result->kind == PP_V_TUPLE ? &result->u.items[k] : result;
        if (value->kind != PP_V_TENSOR) return PPTO_E_UNSUPPORTED; /* a number stays one: in place */
        outputs[k] = value->u.prim;
        built->weak[k] = pp_flat_type(&b->flat, outputs[k])->weak;
    }
    adopt_formals(b, outputs, n);
    for (unsigned k = 0; k < n; k++) PP_TRY(make_one(b, outputs[k], k, n > 1 ? suffix[k] : "", built));
    built->n_results = (uint8_t)n;
    built->usable = true;
    return PPTO_OK;
}

static ppto_status build_functions(const pp_eval *from, const pp_definition *d, const pp_value *bound,
                                   bool literal, pp_built *built)
{
    build b = {.library = from->library, .definition = d};
    pp_value own[PP_MAX_BOUND], result = {0};
    pp_flat_init(&b.flat, pp_library_scratch(from->library));
    b.ev = (pp_eval){.mode = PP_EVAL_FUNCTION,
                     .library = from->library,
                     .types = b.flat.types,
                     .flat = &b.flat,
                     .sizes = pp_types_sizes(b.flat.types),
                     .arena = &b.arena,
                     .depth = from->depth + 1};
    ppto_status status = import_bound(&b, from, bound, literal, own);
    if (status == PPTO_OK && b.n_inputs == 0) status = PPTO_E_UNSUPPORTED;
    if (status == PPTO_OK) status = pp_eval_body(&b.ev, d, own, &result);
    if (status == PPTO_OK) status = make_functions(&b, &result, built);
    pp_eval_free(&b.ev);
    pp_flat_free(&b.flat);
    pp_arena_free(&b.arena);
    return status;
}

ppto_status pp_library_built(pp_eval *ev, const pp_definition *d, const pp_value *bound, pp_built *out)
{
    pp_key key = {0};
    *out = (pp_built){.usable = false};
    bool literal = pp_library_literal(ev->library, d);
    pp_library_lock(ev->library);
    ppto_status status = make_key(ev, d, bound, literal, &key);
    const pp_built *found = status == PPTO_OK ? pp_library_memo_find(ev->library, &key) : NULL;
    if (found != NULL) {
        *out = *found;
    } else if (status == PPTO_OK) {
        status = pp_library_scratched(ev->library, build_functions(ev, d, bound, literal, out));
        if (status == PPTO_E_UNSUPPORTED) {
            *out = (pp_built){.usable = false};
            status = PPTO_OK;
        }
        /* What is wrong is found again in place, with the types the user knows. */
        if (status == PPTO_OK) status = pp_library_memo_add(ev->library, &key, out, sizeof *out);
    }
    pp_library_unlock(ev->library);
    pp_vec_free(&key);
    return status;
}
