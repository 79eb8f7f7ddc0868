/* SPDX-License-Identifier: Apache-2.0
 * Rewrites of a flat graph that keep every bit: dead prims, common subexpressions, constants, algebraic
 * identities. */
#ifndef PP_SIMPLIFY_H
#define PP_SIMPLIFY_H

#include "graph/flat.h"

/* from -> to (initialised here, same types, outputs in the same order). A user's literal whose value was used
 * by a rewrite is noted in `used` (by its number; room for n_literals, set to 1): with another value the
 * result is another. */
ppto_status pp_simplify(const pp_flat *from, pp_flat *to, uint8_t *used, size_t n_literals);

#endif
