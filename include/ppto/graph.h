/* SPDX-License-Identifier: Apache-2.0
 * Graphs: operator calls only record nodes. A tensor is a handle into its graph, which owns it: nested calls
 * free nothing. The first error of a graph is kept; later calls on it return NULL, so a chain is checked
 * once. */
#ifndef PPTO_GRAPH_H
#define PPTO_GRAPH_H

#include "ppto/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ppto_graph ppto_graph;
typedef struct ppto_tensor ppto_tensor;

/* NULL on failure. threads: a graph is used by one thread at a time. */
PPTO_API ppto_graph *ppto_graph_create(ppto_context *ctx);
PPTO_API void ppto_graph_destroy(ppto_graph *graph); /* NULL is fine; its tensors are gone */
/* The first error of the graph; PPTO_OK and "" when none. borrow: text lives as long as the graph. */
PPTO_API ppto_status ppto_graph_error(const ppto_graph *graph);
PPTO_API const char *ppto_graph_error_text(const ppto_graph *graph);
PPTO_API size_t ppto_graph_size(const ppto_graph *graph); /* nodes recorded */

/* A named input; dims "N, 512": names are sizes that must agree when it runs; "" is rank 0. */
PPTO_API ppto_tensor *ppto_input_at(ppto_site site, ppto_graph *graph, const char *name, ppto_dtype dtype,
                                    const char *dims);
#define ppto_input(graph, name, dtype, dims) ppto_input_at(PPTO_HERE, graph, name, dtype, dims)
/* A file as a lazy source: an input that is bound already, to ppto_array_open of the path. Only the header is
 * read now. A run in one piece loads it in a step of the stream that is pushed here (of none: when all its
 * streams are its own), and computes meanwhile what does not need it. A graph with streams runs in one piece
 * unless that would exceed the memory limit; a run that goes by pieces keeps streams longer, and nothing
 * overlaps with it. The name among the inputs is "source1", "source2", … in the order of the calls; a program
 * may bind another array of the type there. returns NULL, with the graph's error: as ppto_array_open; E_VALUE
 * for an empty path */
PPTO_API ppto_tensor *ppto_open_at(ppto_site site, ppto_graph *graph, const char *path);
#define ppto_open(graph, path) ppto_open_at(PPTO_HERE, graph, path)
/* A lazy sink: the value again; a program that has this tensor among its outputs writes it to a file of that
 * name in a step, as by ppto_program_bind_sink, and its place among the outputs of a run is NULL. An event
 * that the stream that is pushed here records after it happens when the file is there. Of a sink of a sink
 * both are to be outputs. returns NULL, with the graph's error: E_VALUE for a NULL, an empty path, one
 * whose ending is no format, a tensor of another graph */
PPTO_API ppto_tensor *ppto_sink_at(ppto_site site, ppto_graph *graph, ppto_tensor *tensor, const char *path);
#define ppto_sink(graph, tensor, path) ppto_sink_at(PPTO_HERE, graph, tensor, path)
/* A number bound at run with ppto_number or ppto_integer; weak. */
PPTO_API ppto_tensor *ppto_input_number_at(ppto_site site, ppto_graph *graph, const char *name,
                                           bool is_float);
#define ppto_input_number(graph, name, is_float) ppto_input_number_at(PPTO_HERE, graph, name, is_float)
/* Literals; weak. */
PPTO_API ppto_tensor *ppto_float_at(ppto_site site, ppto_graph *graph, double value);
PPTO_API ppto_tensor *ppto_int_at(ppto_site site, ppto_graph *graph, int64_t value);
#define ppto_float(graph, value) ppto_float_at(PPTO_HERE, graph, value)
#define ppto_int(graph, value) ppto_int_at(PPTO_HERE, graph, value)

/* An expression of the operator language over the graph's inputs; $0, $1, … are the tensors passed along. One
 * result. */
PPTO_API ppto_tensor *ppto_exprn_at(ppto_site site, ppto_graph *graph, const char *text, size_t n,
                                    ppto_tensor *const *tensors);
#define ppto_expr(graph, text) ppto_exprn_at(PPTO_HERE, graph, text, 0, NULL)
/* ...: n and the tensors, which may be a compound literal. */
#define ppto_exprn(graph, text, ...) ppto_exprn_at(PPTO_HERE, graph, text, __VA_ARGS__)
/* Any operator by name: params "axis=1, keepdims=true" (may be NULL or ""), then n tensors;
 * results[n_results]. */
PPTO_API ppto_status ppto_opn_at(ppto_site site, ppto_graph *graph, const char *name, const char *params,
                                 size_t n, ppto_tensor *const *tensors, size_t n_results,
                                 ppto_tensor **results);
/* One tensor in, one out. */
PPTO_API ppto_tensor *ppto_op_at(ppto_site site, ppto_graph *graph, const char *name, const char *params,
                                 ppto_tensor *x);
#define ppto_op(graph, name, params, x) ppto_op_at(PPTO_HERE, graph, name, params, x)

/* A program text: an expression, or `input`, statements, `output`. Free names are declared by `declare` as it
 * likes: it calls ppto_input… on the graph and returns the tensor, or NULL when there is no such input (then
 * E_NAME). Operators and folds the text defines become known to the context, as by ppto_define; the same text
 * again is no second definition. *n outputs in *outputs, their names in *names ("" for a bare expression);
 * free both arrays with ppto_outputs_free. */
typedef ppto_tensor *(*ppto_declare_fn)(void *arg, ppto_graph *graph, const char *name);
PPTO_API ppto_status ppto_parse_program(ppto_graph *graph, const char *text, size_t length, const char *file,
                                        ppto_declare_fn declare, void *arg, size_t *n, ppto_tensor ***outputs,
                                        char ***names);
PPTO_API void ppto_outputs_free(size_t n, ppto_tensor **outputs, char **names);

/* Facts. NULL is answered by false, 0 or "". */
PPTO_API ppto_dtype ppto_tensor_dtype(const ppto_tensor *tensor);
PPTO_API int ppto_tensor_rank(const ppto_tensor *tensor);
PPTO_API const char *
ppto_tensor_type(const ppto_tensor *tensor); /* "f32[N, 512]"; borrow: lives as long as the graph */
PPTO_API ppto_graph *ppto_tensor_graph(const ppto_tensor *tensor);

/* An argument of the generated operator functions (ppto/ops.h). */
typedef struct ppto_ints {
    size_t n;
    const int64_t *at;
} ppto_ints;

#ifdef __cplusplus
}
#endif
#endif
