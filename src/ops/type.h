/* SPDX-License-Identifier: Apache-2.0
 * Tensor types: dtype, weakness and symbolic shape; interned, so that equal types have equal ids. */
#ifndef PP_TYPE_H
#define PP_TYPE_H

#include "ops/scalar.h"
#include "ops/size.h"

typedef struct pp_type {
    uint8_t dtype; /* ppto_dtype; for weak types i64 or f64 */
    uint8_t rank;
    bool weak; /* laws.md "Weak scalars" */
    pp_size dim[PPTO_MAX_RANK];
} pp_type; /* dims beyond rank are 0, so that bytes can be compared */

typedef uint32_t pp_type_id;
typedef struct pp_types pp_types;

ppto_status pp_types_create(pp_types **out); /* owns a pp_sizes */
void pp_types_destroy(pp_types *types);
pp_sizes *pp_types_sizes(pp_types *types);
ppto_status pp_type_intern(pp_types *types, const pp_type *type, pp_type_id *out);
const pp_type *pp_type_get(const pp_types *types, pp_type_id id); /* borrow: valid until types is destroyed */

void pp_type_print(const pp_types *types, const pp_type *type,
                   pp_text *out); /* "f32[N, 512]"; a weak one is "constant i64[]" */
/* "N, 512", "4", "" -> dims; names may be sums like N + 1? no: a name or a non-negative integer each. */
ppto_status pp_type_parse_dims(pp_types *types, const char *text, pp_type *type, pp_error *err);

/* Right-aligned broadcast of n shapes (only rank and dim are read). A named size goes with itself and with
 * literal 1. On failure *axis is the negative axis and *left, *right the two sizes that disagree. */
ppto_status pp_type_broadcast(pp_types *types, const pp_type *const *shapes, size_t n, pp_type *out,
                              int *axis, pp_size *left, pp_size *right);
/* Product of all dims. */
pp_size pp_type_elements(pp_types *types, const pp_type *type);

#endif
