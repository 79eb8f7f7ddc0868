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

#endif
