/* SPDX-License-Identifier: Apache-2.0
 * What the user asked for: a graph of operator calls. Recording infers the result types at once, by
 * evaluating the operator's definition for these operand types into a small flat graph (memoised per
 * definition, operand types and parameters); pp_graph_expand splices those together when a plan is made. One
 * thread at a time. */
#ifndef PP_GRAPH_H
#define PP_GRAPH_H

#include "base/stack.h"
#include "graph/library.h"

typedef struct pp_graph pp_graph;

/* One result of a node. node PP_NONE is "no tensor": an earlier call failed. */
typedef struct pp_ref {
    uint32_t node, result;
} pp_ref;

/* An argument of a call, as C and the language give it. */
typedef enum pp_arg_kind {
    PP_ARG_TENSOR,
    PP_ARG_TENSORS,
    PP_ARG_INT,
    PP_ARG_FLOAT,
    PP_ARG_BOOL,
    PP_ARG_STR,
    PP_ARG_DTYPE,
    PP_ARG_INTS,
    PP_ARG_SIZE,  /* a symbolic size */
    PP_ARG_VALUE, /* any record-time value of the evaluator (struct pp_value) */
    PP_ARG_NONE
} pp_arg_kind;
struct pp_value; /* graph/value.h */
typedef struct pp_arg {
    uint8_t kind;        /* pp_arg_kind */
    const char *keyword; /* NULL: positional */
    pp_ref tensor;
    const pp_ref *tensors; /* n */
    int64_t i;             /* INT, BOOL, DTYPE, SIZE (pp_size) */
    double f;
    const char *text;
    const int64_t *ints; /* n */
    size_t n;
    const struct pp_value *value;
} pp_arg;

ppto_status pp_graph_create(pp_library *library, pp_graph **out);
/* From now on every node knows the stack of the call that recorded it. stacks: borrow; NULL: no more. */
void pp_graph_watch(pp_graph *graph, pp_stacks *stacks);
void pp_graph_destroy(pp_graph *graph);
/* As it was created, but with the memory it has for nodes and operands, `most` bytes of each. False: no
 * memory, and nothing is changed. */
bool pp_graph_clear(pp_graph *graph, size_t most);
pp_error *pp_graph_error(pp_graph *graph); /* the first error; code OK when none */
pp_types *pp_graph_types(pp_graph *graph);
pp_library *pp_graph_library(pp_graph *graph);

/* A named input. dims as in pp_type_parse_dims ("N, 512"). A weak input (rank 0, i64 or f64) is a number
 * bound at run. E_NAME when the name is taken. */
ppto_status pp_graph_input(pp_graph *graph, const char *name, ppto_dtype dtype, bool weak, const char *dims,
                           ppto_site site, pp_ref *out);
ppto_status pp_graph_input_type(pp_graph *graph, const char *name, const pp_type *type, ppto_site site,
                                pp_ref *out);
/* A weak rank-0 literal: i64 or f64 bits. */
ppto_status pp_graph_literal(pp_graph *graph, bool is_float, uint64_t bits, ppto_site site, pp_ref *out);
/* The value again, as something recorded on the stream that is pushed: what happens to the value outside of
 * the graph (a file is read, or written) has its place there. It costs nothing. name: static, for messages.
 */
ppto_status pp_graph_same(pp_graph *graph, pp_ref value, const char *name, ppto_site site, pp_ref *out);
/* Records a call. results: room for 8 (an operator may have more, e.g. split: E_LIMIT beyond 64; then
 * *results is in the graph's arena). Errors are also kept as the graph's first error, with operator, operand
 * types, rule and site. */
ppto_status pp_graph_call(pp_graph *graph, const pp_definition *definition, const char *called_as,
                          const pp_arg *args, size_t n_args, ppto_site site, pp_ref **results,
                          size_t *n_results);
/* The same for a call of tensors alone, one for each parameter, if one like it was recorded before.
 * called_as: static. False: it was not, or has to be looked at closer, or there is no memory; nothing is
 * recorded. */
bool pp_graph_call_again(pp_graph *graph, const pp_definition *definition, const char *called_as,
                         const pp_ref *operands, uint32_t n, ppto_site site, uint32_t *node,
                         uint32_t *n_results);
/* Evaluates a parsed expression or program by recording its calls. dollars: what $0, $1, … stand for. Free
 * names that are no input yet are declared through `declare` (NULL: E_NAME). Inputs declared in the text are
 * created (or matched with existing ones). site: of every node; without a file each has its place in the
 * text. results in the graph's arena; names[i]: of `output NAME`, NULL for a bare expression. */
typedef ppto_status (*pp_declare_input)(void *arg, pp_graph *graph, const char *name, pp_ref *out,
                                        pp_error *err);
ppto_status pp_graph_text(pp_graph *graph, const pp_unit *unit, const pp_ref *dollars, size_t n_dollars,
                          pp_declare_input declare, void *arg, ppto_site site, const char ***names,
                          pp_ref **results, size_t *n_results);

pp_type_id pp_graph_type(const pp_graph *graph, pp_ref ref);
/* Facts of nodes for messages, explain and memcheck. */
typedef struct pp_node_info {
    const char *operator_name; /* "input", "literal" or the operator as called */
    const char *input_name;
    ppto_site site;
    uint32_t stack;         /* of pp_stacks; 0: not captured */
    uint32_t stream, level; /* of the graph's streams, 0: none; sync points before it (graph/stream.c) */
} pp_node_info;
pp_node_info pp_graph_node(const pp_graph *graph, uint32_t node);
size_t pp_graph_size(const pp_graph *graph);                     /* nodes recorded */
uint32_t pp_graph_results(const pp_graph *graph, uint32_t node); /* how many it has */
size_t pp_graph_inputs(const pp_graph *graph);
pp_ref pp_graph_input_at(const pp_graph *graph, size_t i);

/* ---- stream.c: streams and sync points ---- */

/* The number (from 1) of a stream of this graph; 0: out of memory. identity: the caller's, never looked into.
 */
uint32_t pp_graph_stream(pp_graph *graph, void *identity);
/* Calls recorded until the pop belong to the stream. E_NOMEM; E_VALUE for a pop without a push. */
ppto_status pp_graph_push_stream(pp_graph *graph, uint32_t stream);
ppto_status pp_graph_pop_stream(pp_graph *graph);
/* A sync point: RECORD, the event happens when all recorded on the stream so far is done; WAIT, what is
 * recorded on the stream later begins after the event, of this graph or of elsewhere. E_NOMEM, E_LIMIT */
ppto_status pp_graph_sync(pp_graph *graph, pp_sync_kind kind, uint32_t stream, uint64_t event,
                          ppto_site site);
void *pp_graph_stream_of(const pp_graph *graph,
                         uint32_t node); /* the identity of a node's stream; NULL: none */
/* The streams that an expansion of these outputs uses, and the event of every sync point in it: [i] is
 * number i + 1 of flat.syncs' and prims' streams, [k] of flat.syncs[k]. Free with pp_graph_uses_free. */
typedef struct pp_graph_uses {
    PP_VEC(void *) streams;
    PP_VEC(uint64_t) events;
} pp_graph_uses;
ppto_status pp_graph_uses_of(pp_graph *graph, const pp_ref *outputs, size_t n, pp_graph_uses *uses);
void pp_graph_uses_free(pp_graph_uses *uses);

/* The nodes that the outputs need, ascending. *at: free it with pp_free. A node's *rank* is its place in this
 * list: graphs of one signature have the same nodes at the same ranks. E_NOMEM */
ppto_status pp_graph_needed(const pp_graph *graph, const pp_ref *outputs, size_t n, uint32_t **at,
                            size_t *count);
/* Expands what the outputs need. flat: initialised here; prim.origin is the rank of the node; prim.number of
 * an INPUT is the index of the input in the graph. Weak outputs become i64 or f32. Returns the number of
 * operator calls
 * (`recorded_ops`). */
ppto_status pp_graph_expand(pp_graph *graph, const pp_ref *outputs, size_t n, pp_flat *flat,
                            size_t *recorded_ops, pp_error *err);
/* The structure that decides a plan: a canonical byte string of what the outputs need (operators, parameters,
 * types, input names; literal values excluded unless a definition depends on them), and its hash (built while
 * recording). */
uint64_t pp_graph_hash(const pp_graph *graph, const pp_ref *outputs, size_t n);
ppto_status pp_graph_signature(pp_graph *graph, const pp_ref *outputs, size_t n, pp_text *out);
/* Literal values in the order in which pp_graph_expand meets them: prim LITERAL k of an expansion of the same
 * signature corresponds to values[k]. */
ppto_status pp_graph_literals(pp_graph *graph, const pp_ref *outputs, size_t n, uint64_t *values, size_t max,
                              size_t *count);
/* Their nodes, in that order. nodes: room for as many as there are. */
ppto_status pp_graph_literal_nodes(const pp_graph *graph, const pp_ref *outputs, size_t n, uint32_t *nodes);
bool pp_graph_literal_of(const pp_graph *graph, uint32_t node, uint64_t *bits); /* false: it is none */
const pp_ref *pp_graph_operands(const pp_graph *graph, uint32_t node, uint32_t *n);
/* A call that was given so many tensors: is it the same whatever the values of literals among them? */
bool pp_graph_is_open(const pp_graph *graph, uint32_t node, uint32_t tensors);

#endif
