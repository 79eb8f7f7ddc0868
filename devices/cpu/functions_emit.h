/* SPDX-License-Identifier: Apache-2.0
 * The generator of function and fold loops (build time only): from scalar functions to the C source that is
 * compiled once per instruction set. See blocks.h for what the loops must do. */
#ifndef PP_FUNCTIONS_EMIT_H
#define PP_FUNCTIONS_EMIT_H

#include "kernel/program.h"

/* Writes C sources, n_parts of them (at least one), that together define, for the set named by PP_SIMD
 * (baseline when undefined), const pp_function_entry pp_functions_<set>[], sorted by hash, and const size_t
 * pp_n_functions_<set>; const pp_fold_loops pp_folds_<set>[] and const size_t pp_n_folds_<set>. functions  of
 * one or more results, verified; doubles (by hash) are written once folds      lift, step, join, states,
 * n_inputs and position count; for each the fold of states (no lift, no step) is added out        n_parts
 * texts; the arrays are in the first returns    PPTO_OK; PPTO_E_NOMEM; PPTO_E_UNSUPPORTED for a function that
 * nests too deeply */
ppto_status pp_functions_emit(const pp_function *const *functions, size_t n, const pp_fold *folds,
                              size_t n_folds, pp_text *out, size_t n_parts);

#endif
