/* SPDX-License-Identifier: Apache-2.0
 * Inside of the user's graph: nodes in the order of recording, operands before users, and the expansions they
 * share. An expansion is what one operator means for given operand types and parameters: a flat graph whose
 * INPUT k is operand k. */
#ifndef PP_GRAPH_IMPL_H
#define PP_GRAPH_IMPL_H

#include "graph/evaluate.h"

enum { PP_OPERAND_MARK = 1 }; /* no character of a text */

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
    const char *arguments;   /* the same for people: "\1, axis=-1", PP_OPERAND_MARK for each operand */
    uint64_t hash;           /* of text */
} pp_expansion;

typedef enum pp_node_kind { PP_N_INPUT, PP_N_LITERAL, PP_N_CALL, PP_N_SYNC, PP_N_SAME } pp_node_kind;

typedef struct pp_node {
    uint8_t kind; /* pp_node_kind */
    uint32_t first_operand, n_operands;
    pp_type_id type; /* INPUT, LITERAL, SAME */
    union {
        uint32_t input;                /* INPUT: which */
        uint64_t bits;                 /* LITERAL */
        const pp_expansion *expansion; /* CALL */
        uint32_t sync;                 /* SYNC: which */
    } u;
    uint32_t stream, level, stack;
    const char *called_as;
    ppto_site site;
    uint64_t hash;
} pp_node;

typedef struct pp_graph_input_row {
    const char *name;
    uint32_t node;
} pp_graph_input_row;

typedef struct pp_graph_stream_row {
    void *identity;
    uint32_t level; /* of what is recorded next, at least */
    uint32_t last;  /* call recorded last; PP_NONE */
} pp_graph_stream_row;

typedef struct pp_graph_sync_row {
    uint8_t kind; /* pp_sync_kind */
    uint32_t node;
    uint32_t last;   /* call recorded last on the stream; PP_NONE */
    uint32_t record; /* WAIT: the sync of this graph that records the event; PP_NONE */
    uint64_t event;
} pp_graph_sync_row;

/* What an expansion takes: nodes that are needed, and its numbers of streams and sync points. */
typedef struct pp_cut {
    uint8_t *needed;
    uint32_t end;     /* all needed nodes are before */
    uint32_t last;    /* the same, without sync points behind */
    uint32_t *stream; /* stream of the graph -> number in the expansion, 0: not used */
    uint32_t *sync;   /* sync of the graph -> number in the expansion, PP_NONE */
    uint32_t n_streams, n_syncs;
} pp_cut;

/* Answers of the library about the operators called last. */
enum { PP_RECENT = 64 };
typedef struct pp_recent {
    const pp_definition *definition;
    const char *given, *called_as; /* as the caller gave it, and the graph's own copy */
    bool literal;
    uint32_t tensors;         /* how many it takes; PP_NONE: something else besides */
    const pp_expansion *last; /* of tensors alone; NULL: none yet */
} pp_recent;

struct pp_graph {
    pp_recent recent[PP_RECENT];
    pp_library *library;
    pp_stacks *stacks; /* NULL: calls are not captured */
    pp_types *types;
    pp_error error;
    PP_VEC(pp_node) nodes;
    PP_VEC(pp_ref) operands;
    PP_VEC(pp_graph_input_row) inputs;
    PP_VEC(pp_graph_stream_row) streams; /* number - 1 */
    PP_VEC(pp_graph_sync_row) syncs;
    PP_VEC(uint32_t) pushed; /* numbers of streams */
    pp_map by_event;         /* RECORD syncs */
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

/* ---- stream.c ---------------------------------------------------------------------------------------- */

/* Gives a call its stream and level, from the stream pushed last and from its operands. */
void pp_graph_place(const pp_graph *graph, pp_node *call, const pp_ref *operands, size_t n);
void pp_graph_placed(pp_graph *graph, uint32_t node); /* the call is recorded */
/* What these outputs need. cut: initialised here, free it also after a failure. E_NOMEM */
ppto_status pp_graph_cut(const pp_graph *graph, const pp_ref *outputs, size_t n, pp_cut *cut);
void pp_graph_cut_free(pp_cut *cut);

#endif
