/* SPDX-License-Identifier: Apache-2.0
 * Recording a call: arguments are bound, the key of the call (definition, operand types, parameters, literals
 * the definition looks at) finds its expansion or makes one, and a node is added. Everything that can be
 * wrong is wrong here.
 *
 * A call that was seen before costs a hash and a comparison of its key; nothing is allocated but the node. */
#include <string.h>

#include "graph/graph_impl.h"
#include "graph/library_impl.h"

typedef struct call {
    pp_graph *graph;
    const pp_definition *definition;
    const char *called_as;
    bool scan, literal;
    ppto_site site;
    pp_value bound[PP_MAX_BOUND];
    pp_eval ev; /* GRAPH */
} call;

/* ---- literals -------------------------------------------------------------------------------------- */

ppto_status pp_graph_number(pp_graph *graph, const pp_value *value, ppto_site site, pp_value *out)
{
    uint64_t bits = 0;
    int64_t known;
    *out = *value;
    if (value->kind == PP_V_FLOAT)
        memcpy(&bits, &value->u.f, sizeof bits);
    else if (value->kind == PP_V_INT && pp_size_known(pp_types_sizes(graph->types), value->u.size, &known))
        bits = (uint64_t)known;
    else
        return PPTO_OK; /* bool, a wide integer or a size of the run: part of the call */
    pp_ref ref;
    PP_TRY(pp_graph_literal(graph, value->kind == PP_V_FLOAT, bits, site, &ref));
    *out = (pp_value){.kind = PP_V_REF, .u.ref = ref};
    return PPTO_OK;
}

/* The number a literal node stands for. */
static bool literal_value(call *c, const pp_value *value, pp_value *out)
{
    const pp_node *node = &c->graph->nodes.at[value->u.ref.node];
    double f;
    if (node->kind != PP_N_LITERAL) return false;
    memcpy(&f, &node->u.bits, sizeof f);
    bool is_float = pp_type_get(c->graph->types, node->type)->dtype == PPTO_F64;
    *out = is_float ? pp_value_float(f) : pp_eval_number(&c->ev, (int64_t)node->u.bits);
    return true;
}

/* Whether the number fits every dtype of the set; a float fits no integer. */
static bool literal_fits(const pp_eval *ev, const pp_value *value, unsigned dtypes, ppto_dtype *bad)
{
    int64_t i = 0;
    bool is_int = value->kind == PP_V_INT && pp_size_known(ev->sizes, value->u.size, &i);
    for (unsigned d = PPTO_I8; d <= PPTO_U64; d++) {
        *bad = (ppto_dtype)d;
        if (dtypes >> d & 1 && (!is_int || !pp_dtype_holds(*bad, i))) return false;
    }
    return true;
}

static ppto_status check_literals(call *c, const pp_expansion *x)
{
    ppto_dtype bad = PPTO_I8;
    for (uint32_t k = 0; k < x->n_operands; k++) {
        const pp_value operand = {.kind = PP_V_REF, .u.ref = c->graph->refs.at[k]};
        pp_value number;
        if (x->fits[k] == 0 || !literal_value(c, &operand, &number)) continue;
        if (!literal_fits(&c->ev, &number, x->fits[k], &bad)) return pp_eval_no_fit(&c->ev, &number, bad);
    }
    return PPTO_OK;
}

/* ---- keys ------------------------------------------------------------------------------------------ */

/* One operand: its type is in the key, or its value where that decides. Numbers become literals or stay
 * values. */
static ppto_status key_operand(call *c, pp_value *value)
{
    pp_graph *graph = c->graph;
    pp_value number;
    if (value->kind == PP_V_REF && c->literal && literal_value(c, value, &number)) *value = number;
    if (value->kind != PP_V_REF && !c->literal) PP_TRY(pp_graph_number(graph, value, c->site, value));
    if (value->kind != PP_V_REF) return pp_value_key(c->ev.sizes, value, true, &graph->key);
    PP_TRY(pp_vec_push(&graph->refs, value->u.ref));
    return pp_vec_push(&graph->key, UINT64_C(1) << 60 | pp_graph_type(graph, value->u.ref));
}

static ppto_status key_operands(call *c, pp_value *list)
{
    pp_value *items;
    PP_TRY(pp_eval_items(&c->ev, list->n, &items));
    if (list->n != 0) memcpy(items, list->u.items, list->n * sizeof *items);
    list->u.items = items;
    PP_TRY(pp_vec_push(&c->graph->key, UINT64_C(2) << 60 | list->n));
    for (uint32_t i = 0; i < list->n; i++) PP_TRY(key_operand(c, &items[i]));
    return PPTO_OK;
}

static ppto_status make_key(call *c)
{
    pp_graph *graph = c->graph;
    graph->key.n = graph->refs.n = 0;
    PP_TRY(pp_vec_push(&graph->key, (uint64_t)(uintptr_t)c->definition + c->scan));
    for (size_t i = 0; i < pp_eval_params(c->definition); i++) {
        const pp_param *p = pp_eval_param(c->definition, i);
        if (p->spec == PP_SPEC_TENSORS)
            PP_TRY(key_operands(c, &c->bound[i]));
        else if (pp_param_is_tensor(p))
            PP_TRY(key_operand(c, &c->bound[i]));
        else
            PP_TRY(pp_value_key(c->ev.sizes, &c->bound[i], true, &graph->key));
    }
    return PPTO_OK;
}

static uint64_t hash_key(const pp_key *key)
{
    uint64_t hash = 41;
    for (size_t i = 0; i < key->n; i++) hash = pp_hash_mix(hash, key->at[i]);
    return hash;
}

static bool same_key(const void *context, uint32_t value)
{
    const pp_graph *graph = context;
    const pp_expansion *x = graph->expansions.at[value];
    return x->n_key == graph->key.n && memcmp(x->key, graph->key.at, x->n_key * sizeof *x->key) == 0;
}

/* ---- expansions ------------------------------------------------------------------------------------ */

typedef struct expander {
    call *c;
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

/* Operator and parameters as text: what a signature takes from a call. */
static ppto_status describe(call *c, pp_expansion *x)
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
static void show_value(const call *c, const pp_value *value, pp_text *out)
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
static ppto_status show(call *c, pp_expansion *x)
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

static ppto_status fill_expansion(call *c, pp_expansion *x)
{
    pp_graph *graph = c->graph;
    x->n_results = (uint32_t)x->flat.outputs.n;
    pp_type_id *types = pp_arena_alloc(&graph->arena, x->n_results * sizeof *types);
    uint16_t *fits = pp_arena_alloc(&graph->arena, (x->n_operands + 1) * sizeof *fits);
    uint64_t *key = pp_arena_alloc(&graph->arena, graph->key.n * sizeof *key);
    if (types == NULL || fits == NULL || key == NULL) return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < x->n_results; i++)
        types[i] = pp_flat_prim(&x->flat, x->flat.outputs.at[i])->type;
    for (uint32_t id = 0; id < x->flat.prims.n; id++) {
        const pp_prim *p = pp_flat_prim(&x->flat, id);
        if (p->kind != PP_P_MAP || p->op != PP_CAST || !p->weak_cast) continue;
        const pp_prim *of = pp_flat_prim(&x->flat, pp_flat_operands(&x->flat, id)[0]);
        uint8_t dtype = pp_type_get(graph->types, p->type)->dtype;
        if (of->kind == PP_P_INPUT && pp_dtype_is_integer((ppto_dtype)dtype))
            fits[of->number] |= (uint16_t)(1u << dtype);
    }
    memcpy(key, graph->key.at, graph->key.n * sizeof *key);
    x->types = types;
    x->fits = fits;
    x->key = key;
    x->n_key = graph->key.n;
    PP_TRY(show(c, x));
    return describe(c, x);
}

static ppto_status evaluate(expander *x)
{
    pp_value own[PP_MAX_BOUND], result = {0};
    PP_TRY(formals(x, own));
    PP_TRY(pp_eval_apply(&x->ev, x->c->definition, own, x->c->scan, &result));
    PP_TRY(take_results(x, &result));
    return pp_eval_sizes(&x->ev);
}

static ppto_status expand_call(call *c, pp_expansion **out)
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

static ppto_status find_expansion(call *c, const pp_expansion **out)
{
    pp_graph *graph = c->graph;
    uint32_t at;
    uint64_t hash = hash_key(&graph->key);
    if (pp_map_find(&graph->by_key, hash, same_key, graph, &at)) {
        *out = graph->expansions.at[at];
        return PPTO_OK;
    }
    pp_expansion *own;
    PP_TRY(expand_call(c, &own));
    *out = own;
    return pp_map_insert(&graph->by_key, hash, (uint32_t)graph->expansions.n - 1);
}

/* ---- nodes ----------------------------------------------------------------------------------------- */

static ppto_status add_node(call *c, const pp_expansion *x, uint32_t *id)
{
    pp_graph *graph = c->graph;
    pp_node node = {.kind = PP_N_CALL, .site = c->site, .u.expansion = x, .hash = x->hash};
    node.called_as = c->called_as;
    if (graph->streams.n != 0) pp_graph_place(graph, &node, graph->refs.at, graph->refs.n);
    for (size_t i = 0; i < graph->refs.n; i++) {
        node.hash = pp_hash_mix(node.hash, graph->nodes.at[graph->refs.at[i].node].hash);
        node.hash = pp_hash_mix(node.hash, graph->refs.at[i].result);
    }
    PP_TRY(pp_graph_push(graph, &node, graph->refs.at, (uint32_t)graph->refs.n, id));
    if (node.stream != 0) pp_graph_placed(graph, *id);
    return PPTO_OK;
}

/* What the library knows of the definition, and a name that lives as long as the graph. */
static ppto_status look_up(call *c)
{
    pp_recent *r =
        &c->graph->recent[((uintptr_t)c->definition >> 5 ^ (uintptr_t)c->called_as >> 1) % PP_RECENT];
    bool same = r->definition == c->definition && r->given == c->called_as;
    if (!same || strcmp(r->called_as, c->called_as) != 0) {
        r->definition = c->definition;
        r->given = c->called_as;
        r->literal = pp_library_literal(c->graph->library, c->definition);
        r->called_as = pp_graph_word(c->graph, c->called_as);
        if (r->called_as == NULL) {
            r->definition = NULL;
            return PPTO_E_NOMEM;
        }
    }
    c->literal = r->literal;
    c->called_as = r->called_as;
    return PPTO_OK;
}

static ppto_status record(call *c, const pp_given *given, size_t n, uint32_t *node)
{
    const pp_expansion *x;
    PP_TRY(look_up(c));
    PP_TRY(pp_eval_bind(&c->ev, c->definition, given, n, c->bound));
    PP_TRY(make_key(c));
    PP_TRY(find_expansion(c, &x));
    PP_TRY(check_literals(c, x));
    return add_node(c, x, node);
}

ppto_status pp_graph_record(pp_graph *graph, const pp_definition *definition, const char *called_as,
                            const pp_given *given, size_t n_given, bool scan, ppto_site site, pp_error *err,
                            uint32_t *node)
{
    call c;
    pp_arena arena = {0};
    c.graph = graph;
    c.definition = definition;
    c.called_as = called_as != NULL ? called_as : definition->name;
    c.scan = scan;
    c.site = site;
    c.ev = (pp_eval){.mode = PP_EVAL_GRAPH,
                     .library = graph->library,
                     .types = graph->types,
                     .graph = graph,
                     .err = err,
                     .sizes = pp_types_sizes(graph->types),
                     .arena = &arena,
                     .called_as = c.called_as};
    ppto_status status = pp_graph_no_memory(graph, record(&c, given, n_given, node), err);
    if (status != PPTO_OK) {
        pp_fail(err, status, "%s: %s", c.called_as,
                ppto_status_text(status)); /* keeps what was said before */
        pp_graph_name_call(&c.ev, definition, given, n_given, err);
    }
    pp_eval_free(&c.ev);
    pp_arena_free(&arena);
    return status;
}
