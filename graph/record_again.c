/* SPDX-License-Identifier: Apache-2.0
 * Calls like one that was recorded before: where an operator takes tensors alone, and gets them in order, the
 * key of the call is known from their types, and the operator called last has it at hand. Nothing is bound
 * then, and nothing is looked up. A literal whose value the call looks at, or is to check, goes the long way
 * (record.c). The nodes of all calls are added here. */
#include <string.h>

#include "graph/record_parts.h"

/* ---- keys ------------------------------------------------------------------------------------------ */

uint64_t pp_graph_hash_key(const pp_graph *graph)
{
    uint64_t hash = 41;
    for (size_t i = 0; i < graph->key.n; i++) hash = pp_hash_mix(hash, graph->key.at[i]);
    return hash;
}

static bool same_key(const void *context, uint32_t value)
{
    const pp_graph *graph = context;
    const pp_expansion *x = graph->expansions.at[value];
    return x->n_key == graph->key.n && memcmp(x->key, graph->key.at, x->n_key * sizeof *x->key) == 0;
}

const pp_expansion *pp_graph_by_key(const pp_graph *graph, uint64_t hash)
{
    uint32_t at;
    return pp_map_find(&graph->by_key, hash, same_key, graph, &at) ? graph->expansions.at[at] : NULL;
}

/* ---- nodes ----------------------------------------------------------------------------------------- */

/* Room for one node with so many operands. */
static ppto_status make_room(pp_graph *graph, uint32_t n)
{
    if (graph->nodes.n >= PP_NONE - 1) return PPTO_E_LIMIT;
    if (graph->nodes.n == graph->nodes.cap) PP_TRY(pp_vec_reserve(&graph->nodes, graph->nodes.n + 1));
    return graph->operands.n + n <= graph->operands.cap
               ? PPTO_OK
               : pp_vec_reserve(&graph->operands, graph->operands.n + n);
}

ppto_status pp_graph_push_call(pp_graph *graph, const char *called_as, ppto_site site, const pp_expansion *x,
                               const pp_ref *operands, uint32_t n, uint32_t *id)
{
    PP_TRY(make_room(graph, n));
    pp_node *node = &graph->nodes.at[graph->nodes.n];
    pp_ref *own = graph->operands.at + graph->operands.n;
    *node = (pp_node){.kind = PP_N_CALL,
                      .first_operand = (uint32_t)graph->operands.n,
                      .n_operands = n,
                      .u.expansion = x,
                      .called_as = called_as,
                      .site = site};
    uint64_t hash = x->hash;
    for (uint32_t i = 0; i < n; i++) {
        own[i] = operands[i];
        hash = pp_hash_mix(pp_hash_mix(hash, graph->nodes.at[own[i].node].hash), own[i].result);
    }
    node->hash = hash;
    if (graph->stacks != NULL) node->stack = pp_stacks_here(graph->stacks, 1);
    if (graph->streams.n != 0) pp_graph_place(graph, node, own, n);
    graph->operands.n += n;
    *id = (uint32_t)graph->nodes.n++;
    if (node->stream != 0) pp_graph_placed(graph, *id);
    return PPTO_OK;
}

/* ---- the call -------------------------------------------------------------------------------------- */

pp_recent *pp_graph_recent(pp_graph *graph, const pp_definition *definition, const char *called_as)
{
    return &graph->recent[((uintptr_t)definition >> 5 ^ (uintptr_t)called_as >> 1) % PP_RECENT];
}

static inline uint64_t key_of(const pp_graph *graph, pp_ref ref)
{
    const pp_node *node = &graph->nodes.at[ref.node];
    return PP_TENSOR_KEY | (node->kind == PP_N_CALL ? node->u.expansion->types[ref.result] : node->type);
}

static inline bool is_for(const pp_graph *graph, const pp_expansion *x, const pp_ref *operands, uint32_t n)
{
    bool same = true;
    for (uint32_t k = 0; k < n; k++) same &= x->key[k + 1] == key_of(graph, operands[k]);
    return same;
}

/* NULL: there is none yet. */
static const pp_expansion *find(pp_graph *graph, pp_recent *recent, const pp_ref *operands, uint32_t n)
{
    graph->key.n = 0;
    if (pp_vec_reserve(&graph->key, n + 1u) != PPTO_OK) return NULL;
    graph->key.at[graph->key.n++] = (uint64_t)(uintptr_t)recent->definition;
    for (uint32_t k = 0; k < n; k++) graph->key.at[graph->key.n++] = key_of(graph, operands[k]);
    const pp_expansion *x = pp_graph_by_key(graph, pp_graph_hash_key(graph));
    if (x != NULL) recent->last = x;
    return x;
}

static inline bool looks_at_literals(const pp_graph *graph, const pp_recent *recent, const pp_expansion *x,
                                     const pp_ref *operands, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++)
        if (graph->nodes.at[operands[k].node].kind == PP_N_LITERAL && (recent->literal || x->fits[k] != 0))
            return true;
    return false;
}

bool pp_graph_call_again(pp_graph *graph, const pp_definition *definition, const char *called_as,
                         const pp_ref *operands, uint32_t n, ppto_site site, uint32_t *node,
                         uint32_t *n_results)
{
    pp_recent *recent = pp_graph_recent(graph, definition, called_as);
    if (recent->definition != definition || recent->given != called_as || recent->tensors != n) return false;
    const pp_expansion *x = recent->last;
    if (x == NULL || !is_for(graph, x, operands, n)) x = find(graph, recent, operands, n);
    if (x == NULL || looks_at_literals(graph, recent, x, operands, n)) return false;
    if (pp_graph_push_call(graph, recent->called_as, site, x, operands, n, node) != PPTO_OK) return false;
    *n_results = x->n_results;
    return true;
}
