/* SPDX-License-Identifier: Apache-2.0
 * The graph itself: inputs, literals, nodes and their facts. Nodes are only ever added. */
#include <string.h>

#include "graph/graph_impl.h"

ppto_status pp_graph_create(pp_library *library, pp_graph **out)
{
    *out = NULL;
    pp_graph *graph = pp_calloc(1, sizeof *graph);
    if (graph == NULL) return PPTO_E_NOMEM;
    graph->library = library;
    if (pp_types_create(&graph->types) != PPTO_OK) {
        pp_free(graph);
        return PPTO_E_NOMEM;
    }
    *out = graph;
    return PPTO_OK;
}

void pp_graph_destroy(pp_graph *graph)
{
    if (graph == NULL) return;
    for (size_t i = 0; i < graph->expansions.n; i++) pp_flat_free(&graph->expansions.at[i]->flat);
    pp_vec_free(&graph->nodes);
    pp_vec_free(&graph->operands);
    pp_vec_free(&graph->inputs);
    pp_vec_free(&graph->streams);
    pp_vec_free(&graph->syncs);
    pp_vec_free(&graph->pushed);
    pp_map_free(&graph->by_event);
    pp_vec_free(&graph->expansions);
    pp_vec_free(&graph->words);
    pp_vec_free(&graph->conditions);
    pp_vec_free(&graph->key);
    pp_vec_free(&graph->refs);
    pp_map_free(&graph->by_key);
    pp_map_free(&graph->by_input);
    pp_map_free(&graph->by_word);
    pp_types_destroy(graph->types);
    pp_arena_free(&graph->arena);
    pp_free(graph);
}

/* Empties what can be used again. */
static void clear_rows(pp_graph *graph)
{
    graph->nodes.n = graph->operands.n = graph->inputs.n = graph->streams.n = graph->syncs.n = 0;
    graph->pushed.n = graph->expansions.n = graph->words.n = graph->conditions.n = 0;
    graph->key.n = graph->refs.n = 0;
    graph->text_first = 0;
    pp_map_clear(&graph->by_event);
    pp_map_clear(&graph->by_key);
    pp_map_clear(&graph->by_input);
    pp_map_clear(&graph->by_word);
}

bool pp_graph_clear(pp_graph *graph, size_t most)
{
    pp_types *types;
    if (pp_types_create(&types) != PPTO_OK) return false;
    for (size_t i = 0; i < graph->expansions.n; i++) pp_flat_free(&graph->expansions.at[i]->flat);
    clear_rows(graph);
    memset(graph->recent, 0, sizeof graph->recent);
    pp_error_clear(&graph->error);
    pp_types_destroy(graph->types);
    graph->types = types;
    pp_arena_free(&graph->arena);
    if (graph->nodes.cap * sizeof *graph->nodes.at > most) pp_vec_free(&graph->nodes);
    if (graph->operands.cap * sizeof *graph->operands.at > most) pp_vec_free(&graph->operands);
    return true;
}

pp_error *pp_graph_error(pp_graph *graph)
{
    return &graph->error;
}
pp_types *pp_graph_types(pp_graph *graph)
{
    return graph->types;
}
pp_library *pp_graph_library(pp_graph *graph)
{
    return graph->library;
}
size_t pp_graph_size(const pp_graph *graph)
{
    return graph->nodes.n;
}
size_t pp_graph_inputs(const pp_graph *graph)
{
    return graph->inputs.n;
}
pp_ref pp_graph_input_at(const pp_graph *graph, size_t i)
{
    return (pp_ref){graph->inputs.at[i].node, 0};
}

ppto_status pp_graph_keep_error(pp_graph *graph, const pp_error *err)
{
    if (graph->error.code == PPTO_OK) {
        graph->error.code = err->code;
        graph->error.site = err->site;
        memcpy(graph->error.text, err->text, strlen(err->text) + 1);
    }
    return err->code;
}

ppto_status pp_graph_no_memory(pp_graph *graph, ppto_status status, pp_error *err)
{
    if (status == PPTO_OK || pp_sizes_status(pp_types_sizes(graph->types)) != PPTO_E_NOMEM) return status;
    pp_error_clear(err);
    return pp_fail(err, PPTO_E_NOMEM, "out of memory");
}

/* ---- words ----------------------------------------------------------------------------------------- */

typedef struct word_key {
    const pp_graph *graph;
    const char *text;
} word_key;

static bool same_word(const void *context, uint32_t value)
{
    const word_key *key = context;
    return strcmp(key->graph->words.at[value], key->text) == 0;
}

const char *pp_graph_word(pp_graph *graph, const char *text)
{
    uint32_t at;
    size_t n = strlen(text);
    uint64_t hash = pp_hash_bytes(text, n, 3);
    word_key key = {graph, text};
    if (pp_map_find(&graph->by_word, hash, same_word, &key, &at)) return graph->words.at[at];
    const char *copy = pp_arena_strndup(&graph->arena, text, n);
    if (copy == NULL || pp_vec_push(&graph->words, copy) != PPTO_OK) return NULL;
    if (pp_map_insert(&graph->by_word, hash, (uint32_t)graph->words.n - 1) != PPTO_OK) return NULL;
    return copy;
}

/* ---- nodes ----------------------------------------------------------------------------------------- */

void pp_graph_watch(pp_graph *graph, pp_stacks *stacks)
{
    graph->stacks = stacks;
}

ppto_status pp_graph_push(pp_graph *graph, const pp_node *node, const pp_ref *operands, uint32_t n,
                          uint32_t *id)
{
    if (graph->nodes.n >= PP_NONE - 1) return PPTO_E_LIMIT;
    PP_TRY(pp_vec_reserve(&graph->operands, graph->operands.n + n));
    PP_TRY(pp_vec_reserve(&graph->nodes, graph->nodes.n + 1));
    pp_node *own = &graph->nodes.at[graph->nodes.n];
    *own = *node;
    own->first_operand = (uint32_t)graph->operands.n;
    own->n_operands = n;
    own->stack = pp_stacks_here(graph->stacks, 1);
    if (n != 0) memcpy(graph->operands.at + graph->operands.n, operands, n * sizeof *operands);
    graph->operands.n += n;
    *id = (uint32_t)graph->nodes.n++;
    return PPTO_OK;
}

static uint64_t hash_input(const char *name)
{
    return pp_hash_bytes(name, strlen(name), 7);
}

static bool same_input(const void *context, uint32_t value)
{
    const word_key *key = context;
    return strcmp(key->graph->inputs.at[value].name, key->text) == 0;
}

bool pp_graph_find_input(const pp_graph *graph, const char *name, pp_ref *out)
{
    uint32_t at;
    word_key key = {graph, name};
    if (!pp_map_find(&graph->by_input, hash_input(name), same_input, &key, &at)) return false;
    *out = (pp_ref){graph->inputs.at[at].node, 0};
    return true;
}

static ppto_status input_failure(pp_graph *graph, ppto_status code, ppto_site site, const char *format,
                                 const char *name)
{
    pp_error err = {.code = PPTO_OK};
    pp_fail(&err, code, format, name);
    err.site = site;
    return pp_graph_keep_error(graph, &err);
}

static ppto_status add_input(pp_graph *graph, const char *name, const pp_type *type, ppto_site site,
                             pp_ref *out)
{
    pp_node node = {
        .kind = PP_N_INPUT, .called_as = "input", .site = site, .u.input = (uint32_t)graph->inputs.n};
    pp_text text = {0};
    PP_TRY(pp_type_intern(graph->types, type, &node.type));
    pp_graph_input_row row = {pp_graph_word(graph, name), 0};
    if (row.name == NULL) return PPTO_E_NOMEM;
    pp_text_add(&text, "%s: ", name);
    pp_type_print(graph->types, type, &text);
    bool failed = text.failed;
    if (!failed) node.hash = pp_hash_bytes(text.at, text.n, 31);
    pp_text_free(&text);
    if (failed) return PPTO_E_NOMEM;
    PP_TRY(pp_graph_push(graph, &node, NULL, 0, &row.node));
    PP_TRY(pp_vec_push(&graph->inputs, row));
    PP_TRY(pp_map_insert(&graph->by_input, hash_input(name), node.u.input));
    *out = (pp_ref){row.node, 0};
    return PPTO_OK;
}

ppto_status pp_graph_input_type(pp_graph *graph, const char *name, const pp_type *type, ppto_site site,
                                pp_ref *out)
{
    *out = (pp_ref){PP_NONE, 0};
    if (pp_graph_find_input(graph, name, out)) {
        *out = (pp_ref){PP_NONE, 0};
        return input_failure(graph, PPTO_E_NAME, site, "input: the name `%.60s` is taken", name);
    }
    ppto_status status = add_input(graph, name, type, site, out);
    return status == PPTO_OK ? PPTO_OK
                             : input_failure(graph, status, site, "input `%.60s`: out of memory", name);
}

ppto_status pp_graph_input(pp_graph *graph, const char *name, ppto_dtype dtype, bool weak, const char *dims,
                           ppto_site site, pp_ref *out)
{
    pp_type type = {.dtype = (uint8_t)dtype, .weak = weak};
    pp_error err = {.code = PPTO_OK};
    *out = (pp_ref){PP_NONE, 0};
    ppto_status status = pp_type_parse_dims(graph->types, dims, &type, &err);
    if (status != PPTO_OK) {
        pp_fail(&err, status, "input `%.60s`: %s", name, ppto_status_text(status));
        err.site = site;
        return pp_graph_keep_error(graph, &err);
    }
    return pp_graph_input_type(graph, name, &type, site, out);
}

ppto_status pp_graph_literal(pp_graph *graph, bool is_float, uint64_t bits, ppto_site site, pp_ref *out)
{
    const pp_type type = {.dtype = is_float ? PPTO_F64 : PPTO_I64, .weak = true};
    pp_node node = {
        .kind = PP_N_LITERAL, .called_as = "literal", .site = site, .u.bits = bits, .hash = 77u + is_float};
    uint32_t id;
    *out = (pp_ref){PP_NONE, 0};
    PP_TRY(pp_type_intern(graph->types, &type, &node.type));
    PP_TRY(pp_graph_push(graph, &node, NULL, 0, &id));
    *out = (pp_ref){id, 0};
    return PPTO_OK;
}

/* ---- facts ----------------------------------------------------------------------------------------- */

uint32_t pp_graph_results(const pp_graph *graph, uint32_t node)
{
    const pp_node *n = &graph->nodes.at[node];
    return n->kind == PP_N_CALL ? n->u.expansion->n_results : n->kind != PP_N_SYNC;
}

pp_type_id pp_graph_type(const pp_graph *graph, pp_ref ref)
{
    const pp_node *n = &graph->nodes.at[ref.node];
    return n->kind == PP_N_CALL ? n->u.expansion->types[ref.result] : n->type;
}

const pp_ref *pp_graph_operands(const pp_graph *graph, uint32_t node, uint32_t *n)
{
    *n = graph->nodes.at[node].n_operands;
    return graph->operands.at + graph->nodes.at[node].first_operand;
}

pp_node_info pp_graph_node(const pp_graph *graph, uint32_t node)
{
    const pp_node *n = &graph->nodes.at[node];
    pp_node_info info = {.operator_name = n->called_as,
                         .site = n->site,
                         .stack = n->stack,
                         .stream = n->stream,
                         .level = n->level};
    if (n->kind == PP_N_INPUT) info.input_name = graph->inputs.at[n->u.input].name;
    return info;
}
