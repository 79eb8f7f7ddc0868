/* SPDX-License-Identifier: Apache-2.0
 * Inside of the user's graph: nodes in the order of recording, operands before users, and the expansions they
 * share. An expansion is what one operator means for given operand types and parameters: a flat graph whose
 * INPUT k is operand k. */
#ifndef PP_GRAPH_IMPL_H
#define PP_GRAPH_IMPL_H

#include "graph/evaluate.h"

typedef struct pp_expansion {
    const pp_definition *definition;
    const uint64_t *key;
    size_t n_key;
    pp_flat flat;
    uint32_t n_operands, n_results;
    bool listed;             /* its value is a list of results, also when that has one */
    const pp_type_id *types; /* of the results */
    const uint16_t *fits;    /* per operand: integer dtypes a weak integer literal must fit, a bit set */
    const char *text;        /* operator and parameters, for signatures */
    uint64_t hash;           /* of text */
} pp_expansion;

typedef enum pp_node_kind { PP_N_INPUT, PP_N_LITERAL, PP_N_CALL } pp_node_kind;

typedef struct pp_node {
    uint8_t kind; /* pp_node_kind */
    uint32_t first_operand, n_operands;
    pp_type_id type; /* INPUT, LITERAL */
    union {
        uint32_t input;                /* INPUT: which */
        uint64_t bits;                 /* LITERAL */
        const pp_expansion *expansion; /* CALL */
    } u;
    const char *called_as;
    ppto_site site;
    uint64_t hash;
} pp_node;

typedef struct pp_graph_input_row {
    const char *name;
    uint32_t node;
} pp_graph_input_row;

/* Answers of the library about the operators called last. */
enum { PP_RECENT = 64 };
typedef struct pp_recent {
    const pp_definition *definition;
    const char *given, *called_as; /* as the caller gave it, and the graph's own copy */
    bool literal;
} pp_recent;

struct pp_graph {
    pp_recent recent[PP_RECENT];
    pp_library *library;
    pp_types *types;
    pp_error error;
    PP_VEC(pp_node) nodes;
    PP_VEC(pp_ref) operands;
    PP_VEC(pp_graph_input_row) inputs;
    PP_VEC(pp_expansion *) expansions;
    PP_VEC(const char *) words;      /* interned names */
    PP_VEC(pp_condition) conditions; /* of texts, beyond those of expansions; origin: the text's first node */
    uint32_t text_first;             /* first node of the text at hand */
    pp_map by_key, by_input, by_word;
    pp_key key;          /* scratch of a call */
    PP_VEC(pp_ref) refs; /* scratch of a call */
    pp_arena arena;
};

/* ---- store.c ----------------------------------------------------------------------------------------- */

const char *pp_graph_word(pp_graph *graph, const char *text); /* interned; NULL: out of memory */
bool pp_graph_find_input(const pp_graph *graph, const char *name, pp_ref *out);
ppto_status pp_graph_push(pp_graph *graph, const pp_node *node, const pp_ref *operands, uint32_t n,
                          uint32_t *id);
/* The status of a failure: kept as the graph's error unless it has one. */
ppto_status pp_graph_keep_error(pp_graph *graph, const pp_error *err);
/* The status of a failure, or E_NOMEM (also in err) when what failed only saw that sizes ran out of memory.
 */
ppto_status pp_graph_no_memory(pp_graph *graph, ppto_status status, pp_error *err);

/* ---- record.c ---------------------------------------------------------------------------------------- */

/* Records a call of values; err receives the first line only. */
ppto_status pp_graph_record(pp_graph *graph, const pp_definition *definition, const char *called_as,
                            const pp_given *given, size_t n_given, bool scan, ppto_site site, pp_error *err,
                            uint32_t *node);
/* Adds the call as written to the message, unless that names the type of every tensor given. */
void pp_graph_name_call(const pp_eval *ev, const pp_definition *definition, const pp_given *given, size_t n,
                        pp_error *err);
/* A number as a literal node. */
ppto_status pp_graph_number(pp_graph *graph, const pp_value *value, ppto_site site, pp_value *out);

/* ---- expand.c ---------------------------------------------------------------------------------------- */

uint32_t pp_graph_results(const pp_graph *graph, uint32_t node);

#endif
