/* SPDX-License-Identifier: Apache-2.0
 * One scalar function on one set of values, through pp_scalar_eval: for numbers known on the host. */
#ifndef PP_FUNCTION_EVAL_H
#define PP_FUNCTION_EVAL_H

#include "kernel/program.h"

/* params: n_params values (bits), results: n_results. E_NOMEM. */
ppto_status pp_function_eval(const pp_function *function, const uint64_t *params, uint64_t *results);

#endif
