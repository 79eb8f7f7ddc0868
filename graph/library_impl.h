/* SPDX-License-Identifier: Apache-2.0
 * The parts of the library that evaluator and recorder share: scalar functions and folds made of definitions,
 * memoised by definition, dtypes and parameters. */
#ifndef PP_LIBRARY_IMPL_H
#define PP_LIBRARY_IMPL_H

#include "graph/evaluate.h"

enum { PP_MAX_OPERANDS_BUILT = 12 };

/* An elementwise definition as functions, one per result; each takes only the operands its result depends on.
 */
typedef struct pp_built {
    bool usable; /* false: evaluate the text in place */
    uint8_t n_results;
    uint8_t bound[4][PP_MAX_OPERANDS_BUILT]; /* which bound value each parameter takes */
    const pp_function *function[4];
    bool weak[4]; /* the result is weak */
} pp_built;

/* A fold: the whole, the variants of a reduction in two steps, and those that take the position as an
 * operand. */
typedef struct pp_built_fold {
    const pp_monoid *monoid, *joined, *unfinished, *placed;
} pp_built_fold;

void pp_library_lock(pp_library *library); /* recursive */
void pp_library_unlock(pp_library *library);
/* Whether a result depends on the value of an operand that is a literal (is_literal, int of an operand, calls
 * of such). */
bool pp_library_literal(pp_library *library, const pp_definition *definition);

/* out: a copy. types: those bound values have (ev). */
ppto_status pp_library_built(pp_eval *ev, const pp_definition *definition, const pp_value *bound,
                             pp_built *out);
ppto_status pp_library_built_fold(pp_eval *ev, const pp_definition *definition, const pp_value *bound,
                                  pp_built_fold *out);
/* The fold of a contraction that goes by lanes: two inputs, fma from +0. */
ppto_status pp_library_dot(pp_library *library, ppto_dtype dtype, const pp_monoid **out);

/* ---- function.c -------------------------------------------------------------------------------------- */

/* A rank-0 flat graph as a scalar function. param: dtypes by number of INPUT; where that differs from the
 * input's, the input's weak casts are the parameter. inputs: which INPUT each parameter is (NULL: 0 …
 * n_params - 1). COLD prims have operands mask, hot, cold and no function yet: what only the cold value needs
 * becomes one. The result is the library's. */
ppto_status pp_function_build(pp_library *library, const pp_flat *flat, const uint32_t *outputs,
                              unsigned n_outputs, const uint8_t *param, const uint8_t *inputs,
                              unsigned n_params, const char *name, const pp_function **out);
/* Instructions that are no parameters; calls, tables and cold regions make it `large`. */
unsigned pp_function_weight(const pp_function *function, bool *large);
/* Adds the function's instructions as prims over operands of one shape. */
ppto_status pp_function_replay(pp_flat *flat, const pp_function *function, const uint32_t *x, uint32_t *out);

/* The scratch types of the library; lock it while they are used. */
pp_types *pp_library_scratch(pp_library *library);
/* The status of what was built with them: numbers that there was no memory for stand as 0 until then. The
 * next build begins anew. */
ppto_status pp_library_scratched(pp_library *library, ppto_status status);
const void *pp_library_memo_find(pp_library *library, const pp_key *key);
ppto_status pp_library_memo_add(pp_library *library, const pp_key *key, const void *value, size_t bytes);
pp_arena *pp_library_arena(pp_library *library);

#endif
