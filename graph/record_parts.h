/* SPDX-License-Identifier: Apache-2.0
 * The state of one call that is recorded: record.c finds its expansion, record_expansion.c makes one. */
#ifndef PP_RECORD_PARTS_H
#define PP_RECORD_PARTS_H

#include "graph/graph_impl.h"

typedef struct pp_recording {
    pp_graph *graph;
    const pp_definition *definition;
    const char *called_as;
    bool scan, literal;
    ppto_site site;
    pp_value bound[PP_MAX_BOUND];
    pp_eval ev; /* GRAPH */
} pp_recording;

/* Evaluates the definition for the call's key and adds the expansion to the graph, which owns it. bound:
 * operands are references, what decides is a value. The first failure of the definition is in c->ev.err. */
ppto_status pp_record_expand(pp_recording *c, pp_expansion **out);

/* ---- record_again.c ---- */

#define PP_TENSOR_KEY (UINT64_C(1) << 60)          /* with a type, the word of a key for a tensor */
uint64_t pp_graph_hash_key(const pp_graph *graph); /* of graph->key */
const pp_expansion *pp_graph_by_key(const pp_graph *graph, uint64_t hash); /* of graph->key; NULL: none yet */
/* Where the operator has its place, or another one. */
pp_recent *pp_graph_recent(pp_graph *graph, const pp_definition *definition, const char *called_as);
ppto_status pp_graph_push_call(pp_graph *graph, const char *called_as, ppto_site site, const pp_expansion *x,
                               const pp_ref *operands, uint32_t n, uint32_t *id);

#endif
