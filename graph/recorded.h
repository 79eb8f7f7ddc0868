/* SPDX-License-Identifier: Apache-2.0
 * What the user recorded, as far as some outputs need it, kept apart from the graph: a plan shows it after
 * the graph is gone. One row per input, literal, operator call and sync point, in the order of recording:
 * row k is the node of rank k. Where it was recorded is not here, since graphs share a plan. */
#ifndef PP_RECORDED_H
#define PP_RECORDED_H

#include "graph/graph.h"

typedef enum pp_recorded_kind {
    PP_RECORDED_INPUT,
    PP_RECORDED_LITERAL,
    PP_RECORDED_CALL,
    PP_RECORDED_SYNC
} pp_recorded_kind;

typedef struct pp_recorded_row {
    uint8_t kind;          /* pp_recorded_kind */
    const char *name;      /* of the input, of the operator as called, "event record", "stream wait" */
    const char *arguments; /* CALL: as in the language, a mark for each operand; "" else */
    uint32_t first_operand, n_operands, first_type, n_types;
    uint32_t literal; /* LITERAL: which; SYNC: which */
    uint32_t stream;  /* number in the flat graph, 0: none */
} pp_recorded_row;

typedef struct pp_recorded {
    pp_types *table; /* of its own: a plan's types are those of what is left to compute */
    PP_VEC(pp_recorded_row) rows;
    PP_VEC(pp_ref) operands; /* node: number of the row */
    PP_VEC(pp_type_id) types;
    PP_VEC(pp_ref) outputs;
} pp_recorded; /* zero-initialised is empty */

/* arena: of the texts. out: empty; free it also after a failure. E_NOMEM */
ppto_status pp_graph_recorded(const pp_graph *graph, const pp_ref *outputs, size_t n, pp_arena *arena,
                              pp_recorded *out);
void pp_recorded_free(pp_recorded *recorded);

/* "%3 = softmax(%2, axis=-1) : f32[N, 10]", without place and stream. literals: by number. */
void pp_recorded_print_row(const pp_recorded *recorded, size_t row, const uint64_t *literals, pp_text *out);
/* "softmax(%2, axis=-1)", a number, the name of an input. */
void pp_recorded_print_value(const pp_recorded *recorded, size_t row, const uint64_t *literals, pp_text *out);
/* "%2"; "%2.1" where a row has several results. */
void pp_recorded_print_ref(const pp_recorded *recorded, pp_ref ref, pp_text *out);

#endif
