/* SPDX-License-Identifier: Apache-2.0
 * What the generated operator functions are made of: a call collects its arguments, then records itself. An
 * argument that is not given (INT64_MIN, NAN, NULL, an empty list) is left out where the operator has a
 * default for it. NULL tensors are accepted: the call records nothing, and the first error stays in the
 * graph. */
#ifndef PP_OPERATOR_CALL_H
#define PP_OPERATOR_CALL_H

#include "ppto/arguments.h"
#include "runtime/runtime.h"

enum { PP_CALL_ARGS = 20, PP_CALL_RESULTS = 64, PP_CALL_FEW = 8 };

typedef struct pp_call {
    const char *name; /* as the user called it; static */
    ppto_site site;
    ppto_graph *graph; /* the given one, else that of the first tensor */
    bool null_tensor, other_graph;
    bool as_text; /* an argument is text of the language: the call goes through the parser */
    uint32_t n;
    pp_arg arg[PP_CALL_ARGS];
    uint32_t n_tensors;
    ppto_tensor *tensor[PP_CALL_ARGS]; /* single ones in order */
    ppto_tensor *const *list;          /* of the one PP_ARG_TENSORS */
} pp_call;

/* Tensors by position, and nothing else? */
static inline bool pp_call_is_plain(const pp_call *call)
{
    return call->n == call->n_tensors && call->n != 0;
}
void pp_call_begin(pp_call *call, ppto_site site, ppto_graph *graph, const char *name);
void pp_call_tensor(pp_call *call, const char *param, ppto_tensor *x);
void pp_call_tensors(pp_call *call, const char *param, size_t n, ppto_tensor *const *xs);
/* optional: the operator has a default, so that "not given" is left out. */
void pp_call_int(pp_call *call, const char *param, int64_t value, bool optional);
void pp_call_axes(pp_call *call, const char *param, int64_t value,
                  bool optional); /* else PPTO_ALL is the word all */
void pp_call_float(pp_call *call, const char *param, double value);
/* A whole number is passed as an integer, else a float. */
void pp_call_number(pp_call *call, const char *param, double value, bool optional);
void pp_call_bool(pp_call *call, const char *param, bool value);
void pp_call_ints(pp_call *call, const char *param, ppto_ints value, bool optional);
void pp_call_word(pp_call *call, const char *param, const char *value);  /* an option; NULL: left out */
void pp_call_dtype(pp_call *call, const char *param, const char *value); /* "f32" */
void pp_call_text(pp_call *call, const char *param, const char *value);  /* an expression */

/* Record. One result, NULL on failure; or exactly n. */
ppto_tensor *pp_call_one(pp_call *call);
ppto_status pp_call_many(pp_call *call, ppto_tensor **results, size_t n);
/* Records it in call->graph->graph, with references for tensors. *refs: room for PP_CALL_FEW results; it and
 * count as in pp_graph_call. The graph keeps the error, and the thread. */
ppto_status pp_call_record(pp_call *call, pp_ref **refs, size_t *count);

#endif
