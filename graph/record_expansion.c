/* SPDX-License-Identifier: Apache-2.0
 * The expansion of a call that was not seen before: the definition is evaluated on formal operands of the
 * call's types, what the results need is kept, and what every later call of that key asks of it is written
 * down. Start reading at pp_record_expand. */
#include <string.h>

#include "graph/record_parts.h"

/* ---- evaluating ------------------------------------------------------------------------------------- */

typedef struct expander {
    pp_recording *c;
    pp_flat flat;
    pp_eval ev; /* TENSORS */
    uint32_t n_operands;
    bool listed;
} expander;

static ppto_status formal(expander *x, const pp_value *value, pp_value *out)
{
    *out = *value;
    if (value->kind != PP_V_REF) return PPTO_OK;
    pp_prim p = {.kind = PP_P_INPUT, .number = x->n_operands++, .origin = PP_NONE};
    uint32_t id;
    p.type = pp_graph_type(x->c->graph, value->u.ref);
    PP_TRY(pp_flat_add(&x->flat, &p, NULL, 0, &id));
    *out = pp_value_tensor(id);
    return PPTO_OK;
}

static ppto_status formals(expander *x, pp_value *own)
{
    const pp_definition *d = x->c->definition;
    for (size_t i = 0; i < pp_eval_params(d); i++) {
        const pp_value *value = &x->c->bound[i];
        own[i] = *value;
        if (pp_eval_param(d, i)->spec == PP_SPEC_TENSORS) {
            pp_value *items;
            PP_TRY(pp_eval_items(&x->ev, value->n, &items));
            for (uint32_t k = 0; k < value->n; k++) PP_TRY(formal(x, &value->u.items[k], &items[k]));
            own[i].u.items = items;
        } else {
            PP_TRY(formal(x, value, &own[i]));
        }
    }
    return PPTO_OK;
}

static ppto_status take_results(expander *x, const pp_value *result)
{
    const pp_value *items = pp_value_is_list(result) ? result->u.items : result;
    uint32_t n = pp_value_is_list(result) ? result->n : 1;
    x->listed = result->kind == PP_V_LIST;
    if (n == 0 || n > PP_MAX_RESULTS)
        return pp_eval_fail(&x->ev, PPTO_E_LIMIT, "%u results, expected 1 to %d", n, PP_MAX_RESULTS);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id;
        PP_TRY(pp_eval_tensor(&x->ev, &items[i], &id));
        PP_TRY(pp_vec_push(&x->flat.outputs, id));
    }
    return PPTO_OK;
}

static ppto_status evaluate(expander *x)
{
    pp_value own[PP_MAX_BOUND], result = {0};
    PP_TRY(formals(x, own));
    PP_TRY(pp_eval_apply(&x->ev, x->c->definition, own, x->c->scan, &result));
    PP_TRY(take_results(x, &result));
    return pp_eval_sizes(&x->ev);
}

/* ---- what the results need -------------------------------------------------------------------------- */

/* Copies what the outputs need. */
static ppto_status compact(const pp_flat *from, pp_flat *to, uint8_t *live, uint32_t *moved)
{
    for (size_t i = 0; i < from->outputs.n; i++) live[from->outputs.at[i]] = 1;
    for (uint32_t id = (uint32_t)from->prims.n; id-- > 0;) {
        if (!live[id]) continue;
        for (uint32_t k = 0; k < pp_flat_prim(from, id)->n_operands; k++)
            live[pp_flat_operands(from, id)[k]] = 1;
    }
    for (uint32_t id = 0; id < from->prims.n; id++) {
        uint32_t x[64], *operands = x, n = pp_flat_prim(from, id)->n_operands;
        if (!live[id]) continue;
        if (n > 64 && (operands = pp_alloc(n * sizeof *operands)) == NULL) return PPTO_E_NOMEM;
        for (uint32_t k = 0; k < n; k++) operands[k] = moved[pp_flat_operands(from, id)[k]];
        ppto_status status = pp_flat_add(to, pp_flat_prim(from, id), operands, n, &moved[id]);
        if (operands != x) pp_free(operands);
        PP_TRY(status);
    }
    for (size_t i = 0; i < from->outputs.n; i++)
        PP_TRY(pp_vec_push(&to->outputs, moved[from->outputs.at[i]]));
    return PPTO_OK;
}

static ppto_status keep_live(const pp_flat *from, pp_flat *to)
{
    uint8_t *live = pp_calloc(from->prims.n + 1, 1);
    uint32_t *moved = pp_calloc(from->prims.n + 1, sizeof *moved);
    ppto_status status = live != NULL && moved != NULL ? compact(from, to, live, moved) : PPTO_E_NOMEM;
    pp_free(live);
    pp_free(moved);
    return status;
}

/* What must hold for the sizes of a run, needed or not. */
static ppto_status keep_conditions(pp_graph *graph, const pp_flat *from, pp_flat *to)
{
    for (size_t i = 0; i < from->conditions.n; i++) {
        pp_condition own = from->conditions.at[i];
        own.message = pp_arena_strndup(&graph->arena, own.message, strlen(own.message));
        if (own.message == NULL) return PPTO_E_NOMEM;
        PP_TRY(pp_vec_push(&to->conditions, own));
    }
    return PPTO_OK;
}

/* ---- as text ---------------------------------------------------------------------------------------- */

/* Operator and parameters as text: what a signature takes from a call. */
static ppto_status describe(pp_recording *c, pp_expansion *x)
{
    pp_text text = {0};
    pp_text_add(&text, "%s%s(", c->scan ? "scan " : "", c->definition->name);
    for (size_t i = 0; i < pp_eval_params(c->definition); i++) {
        const pp_value *value = &c->bound[i];
        if (i != 0) pp_text_add(&text, ";");
        if (pp_eval_param(c->definition, i)->spec == PP_SPEC_TENSORS) {
            pp_text_add(&text, "%u:", value->n);
            for (uint32_t k = 0; k < value->n; k++) {
                if (value->u.items[k].kind != PP_V_REF)
                    pp_value_print(c->ev.sizes, &value->u.items[k], &text);
                pp_text_add(&text, ",");
            }
        } else if (value->kind != PP_V_REF) {
            pp_text_add(&text, "%u:", value->kind);
            pp_value_print(c->ev.sizes, value, &text);
        }
    }
    pp_text_add(&text, ")");
    if (!text.failed) x->text = pp_arena_strndup(&c->graph->arena, text.at, text.n);
    if (x->text != NULL) x->hash = pp_hash_bytes(text.at, text.n, 13);
    pp_text_free(&text);
    return x->text != NULL ? PPTO_OK : PPTO_E_NOMEM;
}

/* One value of a parameter; what stands for an operand in `arguments` stands for nothing else. */
static void show_value(const pp_recording *c, const pp_value *value, pp_text *out)
{
    size_t before = out->n;
    if (value->kind == PP_V_REF) {
        pp_text_add(out, "%c", PP_OPERAND_MARK);
        return;
    }
    pp_value_print(c->ev.sizes, value, out);
    for (size_t i = before; !out->failed && i < out->n; i++)
        if (out->at[i] == PP_OPERAND_MARK) out->at[i] = '?';
}

/* The call as people read it: tensors by place, parameters by name. */
static ppto_status show(pp_recording *c, pp_expansion *x)
{
    pp_text text = {0};
    for (size_t i = 0; i < pp_eval_params(c->definition); i++) {
        const pp_param *p = pp_eval_param(c->definition, i);
        const pp_value *value = &c->bound[i];
        pp_text_add(&text, "%s", i != 0 ? ", " : "");
        if (!pp_param_is_tensor(p)) pp_text_add(&text, "%s=", p->name);
        if (p->spec != PP_SPEC_TENSORS) {
            show_value(c, value, &text);
            continue;
        }
        for (uint32_t k = 0; k < value->n; k++) {
            pp_text_add(&text, k == 0 ? "[" : ", ");
            show_value(c, &value->u.items[k], &text);
        }
        pp_text_add(&text, value->n == 0 ? "[]" : "]");
    }
    x->arguments = text.failed ? NULL : pp_arena_strndup(&c->graph->arena, text.n ? text.at : "", text.n);
    pp_text_free(&text);
    return x->arguments != NULL ? PPTO_OK : PPTO_E_NOMEM;
}

/* ---- putting it together ---------------------------------------------------------------------------- */

/* Per operand: the integer dtypes that its value must fit when it is a number. */
static void note_fits(const pp_flat *flat, uint16_t *fits)
{
    for (uint32_t id = 0; id < flat->prims.n; id++) {
        const pp_prim *p = pp_flat_prim(flat, id);
        if (p->kind != PP_P_MAP || p->op != PP_CAST || !p->weak_cast) continue;
        const pp_prim *of = pp_flat_prim(flat, pp_flat_operands(flat, id)[0]);
        uint8_t dtype = pp_flat_type(flat, id)->dtype;
        if (of->kind == PP_P_INPUT && pp_dtype_is_integer((ppto_dtype)dtype))
            fits[of->number] |= (uint16_t)(1u << dtype);
    }
}

static ppto_status fill_expansion(pp_recording *c, pp_expansion *x)
{
    pp_graph *graph = c->graph;
    x->n_results = (uint32_t)x->flat.outputs.n;
    pp_type_id *types = pp_arena_alloc(&graph->arena, x->n_results * sizeof *types);
    uint16_t *fits = pp_arena_alloc(&graph->arena, (x->n_operands + 1) * sizeof *fits);
    uint64_t *key = pp_arena_alloc(&graph->arena, graph->key.n * sizeof *key);
    if (types == NULL || fits == NULL || key == NULL) return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < x->n_results; i++)
        types[i] = pp_flat_prim(&x->flat, x->flat.outputs.at[i])->type;
    note_fits(&x->flat, fits);
    memcpy(key, graph->key.at, graph->key.n * sizeof *key);
    x->types = types;
    x->fits = fits;
    x->key = key;
    x->n_key = graph->key.n;
    PP_TRY(show(c, x));
    return describe(c, x);
}

ppto_status pp_record_expand(pp_recording *c, pp_expansion **out)
{
    pp_graph *graph = c->graph;
    pp_arena arena = {0};
    expander x = {.c = c};
    pp_expansion *own = pp_arena_alloc(&graph->arena, sizeof *own);
    if (own == NULL) return PPTO_E_NOMEM;
    pp_flat_init(&x.flat, graph->types);
    pp_flat_init(&own->flat, graph->types);
    x.ev = (pp_eval){.mode = PP_EVAL_TENSORS,
                     .library = graph->library,
                     .types = graph->types,
                     .sizes = c->ev.sizes,
                     .flat = &x.flat,
                     .err = c->ev.err,
                     .arena = &arena,
                     .called_as = c->called_as};
    ppto_status status = evaluate(&x);
    own->definition = c->definition;
    own->n_operands = x.n_operands;
    own->listed = x.listed;
    if (status == PPTO_OK) status = keep_live(&x.flat, &own->flat);
    if (status == PPTO_OK) status = keep_conditions(graph, &x.flat, &own->flat);
    if (status == PPTO_OK) status = fill_expansion(c, own);
    if (status == PPTO_OK) status = pp_vec_push(&graph->expansions, own);
    if (status != PPTO_OK) pp_flat_free(&own->flat);
    pp_eval_free(&x.ev);
    pp_flat_free(&x.flat);
    pp_arena_free(&arena);
    *out = own;
    return status;
}
