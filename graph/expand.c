/* SPDX-License-Identifier: Apache-2.0
 * The user's graph as one flat graph: the expansions of the nodes the outputs need, one behind the other.
 * Linear in what comes out; nothing recurses. Signature, hash and literal values go over the same nodes in
 * the same order. */
#include <string.h>

#include "graph/graph_impl.h"

typedef struct splice {
    pp_graph *graph;
    pp_flat *flat;
    uint32_t *first; /* node -> its first result in `prims` */
    uint32_t *rank;  /* node -> its rank */
    uint32_t n_ranks;
    PP_VEC(uint32_t) prims; /* prims of results */
    PP_VEC(uint32_t) moved; /* prim of the expansion at hand -> prim */
    PP_VEC(uint32_t) operands;
    pp_map conditions; /* margins that are there */
    const pp_cut *cut;
    uint32_t n_literals;
    size_t n_calls;
} splice;

static uint32_t prim_of(const splice *s, pp_ref ref)
{
    return s->prims.at[s->first[ref.node] + ref.result];
}

static ppto_status splice_prim(splice *s, uint32_t node, const pp_flat *from, uint32_t id)
{
    const pp_node *n = &s->graph->nodes.at[node];
    pp_prim p = *pp_flat_prim(from, id);
    if (p.kind == PP_P_INPUT) {
        s->moved.at[id] = prim_of(s, s->graph->operands.at[n->first_operand + p.number]);
        return PPTO_OK;
    }
    PP_TRY(pp_vec_reserve(&s->operands, p.n_operands));
    for (uint32_t k = 0; k < p.n_operands; k++)
        s->operands.at[k] = s->moved.at[pp_flat_operands(from, id)[k]];
    p.origin = s->rank[node];
    if (p.kind > PP_P_IOTA && (n->stream != 0 || n->level != 0)) {
        p.stream = n->stream != 0 ? s->cut->stream[n->stream - 1] : 0;
        p.level = n->level;
    }
    return pp_flat_add(s->flat, &p, s->operands.at, p.n_operands, &s->moved.at[id]);
}

/* The same condition of several calls is kept once, for the first. */
static ppto_status add_conditions(splice *s, uint32_t node, const pp_condition *at, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        pp_condition own = at[i];
        uint64_t hash = pp_hash_mix(19, (uint64_t)own.margin);
        uint32_t found;
        if (pp_map_find(&s->conditions, hash, NULL, NULL, &found)) continue;
        own.origin = node != PP_NONE ? s->rank[node] : PP_NONE;
        PP_TRY(pp_map_insert(&s->conditions, hash, (uint32_t)s->flat->conditions.n));
        PP_TRY(pp_vec_push(&s->flat->conditions, own));
    }
    return PPTO_OK;
}

static ppto_status splice_call(splice *s, uint32_t node)
{
    const pp_expansion *x = s->graph->nodes.at[node].u.expansion;
    PP_TRY(pp_vec_reserve(&s->moved, x->flat.prims.n));
    for (uint32_t id = 0; id < x->flat.prims.n; id++) PP_TRY(splice_prim(s, node, &x->flat, id));
    for (uint32_t i = 0; i < x->n_results; i++)
        PP_TRY(pp_vec_push(&s->prims, s->moved.at[x->flat.outputs.at[i]]));
    s->n_calls++;
    return add_conditions(s, node, x->flat.conditions.at, x->flat.conditions.n);
}

static ppto_status splice_sync(splice *s, uint32_t id)
{
    const pp_node *node = &s->graph->nodes.at[id];
    const pp_graph_sync_row *row = &s->graph->syncs.at[node->u.sync];
    pp_sync sync = {.kind = row->kind,
                    .stream = s->cut->stream[node->stream - 1],
                    .level = node->level,
                    .record = row->record != PP_NONE ? s->cut->sync[row->record] : PP_NONE,
                    .origin = s->rank[id]};
    return pp_vec_push(&s->flat->syncs, sync);
}

static ppto_status splice_node(splice *s, uint32_t id)
{
    const pp_node *node = &s->graph->nodes.at[id];
    uint32_t prim;
    s->first[id] = (uint32_t)s->prims.n;
    s->rank[id] = s->n_ranks++;
    if (node->kind == PP_N_CALL) return splice_call(s, id);
    if (node->kind == PP_N_SYNC) return splice_sync(s, id);
    if (node->kind == PP_N_SAME)
        return pp_vec_push(&s->prims, prim_of(s, s->graph->operands.at[node->first_operand]));
    pp_prim p = {.origin = s->rank[id], .type = node->type};
    if (node->kind == PP_N_INPUT) {
        p.kind = PP_P_INPUT;
        p.number = node->u.input;
    } else {
        p.kind = PP_P_LITERAL;
        p.number = s->n_literals++;
        p.u.bits = node->u.bits;
    }
    PP_TRY(pp_flat_add(s->flat, &p, NULL, 0, &prim));
    return pp_vec_push(&s->prims, prim);
}

/* A weak result becomes i64 or f32. */
static ppto_status add_output(splice *s, pp_ref ref)
{
    uint32_t prim = prim_of(s, ref);
    const pp_type *type = pp_flat_type(s->flat, prim);
    if (type->weak) {
        pp_prim p = {.kind = PP_P_MAP,
                     .op = PP_CAST,
                     .weak_cast = true,
                     .number = PP_NONE,
                     .origin = s->rank[ref.node]};
        p.stream = s->flat->prims.at[prim].stream;
        p.level = s->flat->prims.at[prim].level;
        pp_type to = *type;
        to.weak = false;
        to.dtype = type->dtype == PPTO_F64 ? PPTO_F32 : type->dtype;
        PP_TRY(pp_type_intern(s->graph->types, &to, &p.type));
        PP_TRY(pp_flat_add(s->flat, &p, &prim, 1, &prim));
    }
    return pp_vec_push(&s->flat->outputs, prim);
}

static ppto_status expand(splice *s, const pp_ref *outputs, size_t n)
{
    s->flat->n_streams = s->cut->n_streams;
    for (uint32_t id = 0; id < s->cut->end; id++)
        if (s->cut->needed[id]) PP_TRY(splice_node(s, id));
    for (size_t i = 0; i < s->graph->conditions.n; i++) /* of texts that the outputs come from */
        if (s->graph->conditions.at[i].origin < s->cut->last)
            PP_TRY(add_conditions(s, PP_NONE, &s->graph->conditions.at[i], 1));
    for (size_t i = 0; i < n; i++) PP_TRY(add_output(s, outputs[i]));
    return PPTO_OK;
}

ppto_status pp_graph_expand(pp_graph *graph, const pp_ref *outputs, size_t n, pp_flat *flat,
                            size_t *recorded_ops, pp_error *err)
{
    pp_cut cut;
    splice s = {.graph = graph, .flat = flat, .cut = &cut};
    pp_flat_init(flat, graph->types);
    for (size_t i = 0; i < n; i++)
        if (outputs[i].node == PP_NONE) return pp_fail(err, PPTO_E_VALUE, "an output is no tensor");
    ppto_status status = pp_graph_cut(graph, outputs, n, &cut);
    s.first = pp_calloc(graph->nodes.n + 1, sizeof *s.first);
    s.rank = pp_calloc(graph->nodes.n + 1, sizeof *s.rank);
    if (s.first == NULL || s.rank == NULL) status = PPTO_E_NOMEM;
    if (status == PPTO_OK) status = expand(&s, outputs, n);
    if (recorded_ops != NULL) *recorded_ops = s.n_calls;
    pp_graph_cut_free(&cut);
    pp_free(s.first);
    pp_free(s.rank);
    pp_vec_free(&s.prims);
    pp_vec_free(&s.moved);
    pp_vec_free(&s.operands);
    pp_map_free(&s.conditions);
    if (status != PPTO_OK) pp_flat_free(flat);
    return status == PPTO_OK ? status : pp_fail(err, status, "%s", ppto_status_text(status));
}

/* ---- signatures ------------------------------------------------------------------------------------ */

uint64_t pp_graph_hash(const pp_graph *graph, const pp_ref *outputs, size_t n)
{
    uint64_t hash = 97;
    for (size_t i = 0; i < n; i++)
        hash = pp_hash_mix(pp_hash_mix(hash, graph->nodes.at[outputs[i].node].hash), outputs[i].result);
    return hash;
}

static void sign_sync(const pp_graph *graph, const pp_cut *cut, const pp_node *node, pp_text *out)
{
    const pp_graph_sync_row *row = &graph->syncs.at[node->u.sync];
    uint32_t record = row->record != PP_NONE ? cut->sync[row->record] : PP_NONE;
    pp_text_add(out, "sync %u %u", row->kind, record);
}

static void sign_node(pp_graph *graph, const pp_cut *cut, uint32_t id, const uint32_t *number, pp_text *out)
{
    const pp_node *node = &graph->nodes.at[id];
    bool typed = node->kind == PP_N_INPUT || node->kind == PP_N_LITERAL;
    const pp_type *type = typed ? pp_type_get(graph->types, node->type) : NULL;
    if (node->kind == PP_N_INPUT) {
        pp_text_add(out, "input %s: ", graph->inputs.at[node->u.input].name);
        pp_type_print(graph->types, type, out);
    } else if (node->kind == PP_N_LITERAL) {
        pp_text_add(out, "literal %s", type->dtype == PPTO_F64 ? "f64" : "i64");
    } else if (node->kind == PP_N_SYNC) {
        sign_sync(graph, cut, node, out);
    } else {
        pp_text_add(out, "%s", node->kind == PP_N_SAME ? "same" : node->u.expansion->text);
        for (uint32_t k = 0; k < node->n_operands; k++) {
            pp_ref ref = graph->operands.at[node->first_operand + k];
            pp_text_add(out, " %u.%u", number[ref.node], ref.result);
        }
    }
    if (node->stream != 0 || node->level != 0)
        pp_text_add(out, " @%u.%u", node->stream != 0 ? cut->stream[node->stream - 1] : 0, node->level);
    pp_text_add(out, "\n");
}

ppto_status pp_graph_signature(pp_graph *graph, const pp_ref *outputs, size_t n, pp_text *out)
{
    uint32_t count = 0;
    pp_cut cut;
    ppto_status status = pp_graph_cut(graph, outputs, n, &cut);
    uint32_t *number = pp_calloc(graph->nodes.n + 1, sizeof *number);
    bool ok = status == PPTO_OK && number != NULL;
    for (uint32_t id = 0; ok && id < cut.end; id++) {
        if (!cut.needed[id]) continue;
        number[id] = count++;
        sign_node(graph, &cut, id, number, out);
    }
    pp_text_add(out, "outputs");
    for (size_t i = 0; ok && i < n; i++)
        pp_text_add(out, " %u.%u", number[outputs[i].node], outputs[i].result);
    pp_text_add(out, "\n");
    for (size_t i = 0; ok && i < graph->conditions.n; i++) {
        if (graph->conditions.at[i].origin >= cut.last) continue;
        pp_size_print(pp_types_sizes(graph->types), graph->conditions.at[i].margin, out);
        pp_text_add(out, " >= 0: %s\n", graph->conditions.at[i].message);
    }
    pp_graph_cut_free(&cut);
    pp_free(number);
    return ok && !out->failed ? PPTO_OK : PPTO_E_NOMEM;
}

ppto_status pp_graph_literals(pp_graph *graph, const pp_ref *outputs, size_t n, uint64_t *values, size_t max,
                              size_t *count)
{
    pp_cut cut;
    ppto_status status = pp_graph_cut(graph, outputs, n, &cut);
    *count = 0;
    for (uint32_t id = 0; status == PPTO_OK && id < cut.end; id++) {
        const pp_node *node = &graph->nodes.at[id];
        if (!cut.needed[id] || node->kind != PP_N_LITERAL) continue;
        if (*count < max) values[*count] = node->u.bits;
        ++*count;
    }
    pp_graph_cut_free(&cut);
    if (status == PPTO_OK && values != NULL && *count > max) status = PPTO_E_LIMIT; /* NULL: only counted */
    return status;
}

ppto_status pp_graph_literal_nodes(const pp_graph *graph, const pp_ref *outputs, size_t n, uint32_t *nodes)
{
    pp_cut cut;
    ppto_status status = pp_graph_cut(graph, outputs, n, &cut);
    size_t count = 0;
    for (uint32_t id = 0; status == PPTO_OK && id < cut.end; id++)
        if (cut.needed[id] && graph->nodes.at[id].kind == PP_N_LITERAL) nodes[count++] = id;
    pp_graph_cut_free(&cut);
    return status;
}

bool pp_graph_literal_of(const pp_graph *graph, uint32_t node, uint64_t *bits)
{
    const pp_node *n = &graph->nodes.at[node];
    if (n->kind != PP_N_LITERAL) return false;
    *bits = n->u.bits;
    return true;
}

/* A literal that the definition looks at is no operand; one that must fit a dtype is checked. */
bool pp_graph_is_open(const pp_graph *graph, uint32_t node, uint32_t tensors)
{
    const pp_node *n = &graph->nodes.at[node];
    uint64_t bits;
    if (n->kind != PP_N_CALL) return true;
    if (n->n_operands != tensors) return false;
    for (uint32_t k = 0; k < n->n_operands; k++) {
        const uint32_t operand = graph->operands.at[n->first_operand + k].node;
        if (n->u.expansion->fits[k] != 0 && pp_graph_literal_of(graph, operand, &bits)) return false;
    }
    return true;
}
