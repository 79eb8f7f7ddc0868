/* SPDX-License-Identifier: Apache-2.0
 * Recording a call: arguments are bound, the key of the call (definition, operand types, parameters, literals
 * the definition looks at) finds its expansion or makes one, and a node is added. Everything that can be
 * wrong is wrong here.
 *
 * A call that was seen before costs a hash and a comparison of its key; nothing is allocated but the node.
 * One of tensors alone, in order, is not even bound: record_again.c. record_expansion.c makes an expansion.
 */
#include <string.h>

#include "graph/library_impl.h"
#include "graph/record_parts.h"

#define LIST_KEY (UINT64_C(2) << 60) /* a word of a key, beside PP_TENSOR_KEY and those of pp_value_key */

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
static bool literal_value(pp_recording *c, const pp_value *value, pp_value *out)
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

static ppto_status check_literals(pp_recording *c, const pp_expansion *x)
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
static ppto_status key_operand(pp_recording *c, pp_value *value)
{
    pp_graph *graph = c->graph;
    pp_value number;
    if (value->kind == PP_V_REF && c->literal && literal_value(c, value, &number)) *value = number;
    if (value->kind != PP_V_REF && !c->literal) PP_TRY(pp_graph_number(graph, value, c->site, value));
    if (value->kind != PP_V_REF) return pp_value_key(c->ev.sizes, value, true, &graph->key);
    PP_TRY(pp_vec_push(&graph->refs, value->u.ref));
    return pp_vec_push(&graph->key, PP_TENSOR_KEY | pp_graph_type(graph, value->u.ref));
}

static ppto_status key_operands(pp_recording *c, pp_value *list)
{
    pp_value *items;
    PP_TRY(pp_eval_items(&c->ev, list->n, &items));
    if (list->n != 0) memcpy(items, list->u.items, list->n * sizeof *items);
    list->u.items = items;
    PP_TRY(pp_vec_push(&c->graph->key, LIST_KEY | list->n));
    for (uint32_t i = 0; i < list->n; i++) PP_TRY(key_operand(c, &items[i]));
    return PPTO_OK;
}

static ppto_status make_key(pp_recording *c)
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

/* ---- expansions ------------------------------------------------------------------------------------- */

static ppto_status find_expansion(pp_recording *c, const pp_expansion **out)
{
    pp_graph *graph = c->graph;
    uint64_t hash = pp_graph_hash_key(graph);
    if ((*out = pp_graph_by_key(graph, hash)) != NULL) return PPTO_OK;
    pp_expansion *own;
    PP_TRY(pp_record_expand(c, &own));
    *out = own;
    return pp_map_insert(&graph->by_key, hash, (uint32_t)graph->expansions.n - 1);
}

/* ---- definitions ------------------------------------------------------------------------------------ */

/* Does it take tensors alone, one for each parameter? */
static bool takes_tensors(const pp_definition *definition)
{
    bool yes = !definition->is_fold;
    for (size_t i = 0; i < definition->n_params; i++)
        yes =
            yes && pp_param_is_tensor(&definition->param[i]) && definition->param[i].spec != PP_SPEC_TENSORS;
    return yes;
}

/* What the library knows of the definition, and a name that lives as long as the graph. NULL: out of memory.
 */
static pp_recent *look_up(pp_graph *graph, const pp_definition *definition, const char *called_as)
{
    pp_recent *r = pp_graph_recent(graph, definition, called_as);
    bool same = r->definition == definition && r->given == called_as;
    if (same && strcmp(r->called_as, called_as) == 0) return r;
    r->definition = definition;
    r->given = called_as;
    r->literal = pp_library_literal(graph->library, definition);
    r->tensors = takes_tensors(definition) ? (uint32_t)definition->n_params : PP_NONE;
    r->last = NULL;
    r->called_as = pp_graph_word(graph, called_as);
    if (r->called_as != NULL) return r;
    r->definition = NULL;
    return NULL;
}

/* ---- any call ---------------------------------------------------------------------------------------- */

static ppto_status record(pp_recording *c, const pp_given *given, size_t n, uint32_t *node)
{
    const pp_expansion *x;
    const pp_recent *recent = look_up(c->graph, c->definition, c->called_as);
    if (recent == NULL) return PPTO_E_NOMEM;
    c->literal = recent->literal;
    c->called_as = recent->called_as;
    PP_TRY(pp_eval_bind(&c->ev, c->definition, given, n, c->bound));
    PP_TRY(make_key(c));
    PP_TRY(find_expansion(c, &x));
    PP_TRY(check_literals(c, x));
    return pp_graph_push_call(c->graph, c->called_as, c->site, x, c->graph->refs.at,
                              (uint32_t)c->graph->refs.n, node);
}

ppto_status pp_graph_record(pp_graph *graph, const pp_definition *definition, const char *called_as,
                            const pp_given *given, size_t n_given, bool scan, ppto_site site, pp_error *err,
                            uint32_t *node)
{
    pp_recording c;
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
