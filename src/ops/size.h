/* SPDX-License-Identifier: Apache-2.0
 * Sizes: known integers or expressions over named sizes, kept in normal form and interned, so that two sizes
 * are known to be equal exactly when their ids are equal. Normal form: a polynomial with integer coefficients
 * over atoms; an atom is a name, max(p, 0) or floor(p / q) of polynomials (max(p, q) is q + max(p - q, 0),
 * min(p, q) is p - max(p - q, 0)). Names are non-negative integers. A failed allocation, an overflow or an
 * expression beyond the limits of size_impl.h makes the table `failed` and yields size 0: check once at the
 * end. */
#ifndef PP_SIZE_H
#define PP_SIZE_H

#include "base/base.h"

typedef int32_t pp_size; /* id in the table; 0 is the constant 0, 1 the constant 1 */
typedef struct pp_sizes pp_sizes;

enum { PP_SIZE_0 = 0, PP_SIZE_1 = 1 };

ppto_status pp_sizes_create(pp_sizes **out);
void pp_sizes_destroy(pp_sizes *table);
ppto_status pp_sizes_status(const pp_sizes *table); /* OK, NOMEM, E_SIZE or E_LIMIT (sticky) */
/* The status, which is OK from here on. Unless it was, nothing made since the last call may be used. */
ppto_status pp_sizes_take_status(pp_sizes *table);

pp_size pp_size_const(pp_sizes *table, int64_t value);
pp_size pp_size_name(pp_sizes *table, const char *name, size_t n); /* the same id for the same name */
pp_size pp_size_add(pp_sizes *table, pp_size a, pp_size b);
pp_size pp_size_sub(pp_sizes *table, pp_size a, pp_size b);
pp_size pp_size_mul(pp_sizes *table, pp_size a, pp_size b);
pp_size pp_size_floordiv(pp_sizes *table, pp_size a,
                         pp_size b);                        /* exact division of polynomials is simplified */
pp_size pp_size_mod(pp_sizes *table, pp_size a, pp_size b); /* a - floordiv(a, b) * b */
pp_size pp_size_max(pp_sizes *table, pp_size a, pp_size b);
pp_size pp_size_min(pp_sizes *table, pp_size a, pp_size b);

bool pp_size_known(const pp_sizes *table, pp_size a, int64_t *value); /* true for a constant */
/* Three-valued comparison: 1 certainly, 0 certainly not, -1 cannot be decided (names are any integer >= 0).
 */
int pp_size_is_le(pp_sizes *table, pp_size a, pp_size b);

/* Names in order of first use; values for evaluation are given in that order. */
bool pp_sizes_has(const pp_sizes *table, const char *name); /* whether a size of that name was made */
size_t pp_sizes_names(const pp_sizes *table);
const char *pp_sizes_name_at(const pp_sizes *table, size_t i);
bool pp_size_as_name(const pp_sizes *table, pp_size a, size_t *index); /* a is exactly one name */
bool pp_size_uses(const pp_sizes *table, pp_size a, size_t name);      /* a depends on the name */
ppto_status pp_size_eval(const pp_sizes *table, pp_size a, const int64_t *names,
                         int64_t *out);                             /* E_SIZE on overflow */
void pp_size_print(const pp_sizes *table, pp_size a, pp_text *out); /* "N*512 + 1", "max(N - 2, 0)" */

/* The same size in another table, names by their text. */
pp_size pp_size_import(pp_sizes *to, const pp_sizes *from, pp_size a);

#endif
