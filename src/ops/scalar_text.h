/* SPDX-License-Identifier: Apache-2.0
 * Names of the functions of scalar_inline.h, for whoever writes C text that calls them. */
#ifndef PP_SCALAR_TEXT_H
#define PP_SCALAR_TEXT_H

#include "ops/scalar.h"

enum { PP_SCALAR_NAME_SIZE = 64 };

/* The function that computes the row on operands of `from` ("pp_op_min_f32", "pp_op_cast_f32_i64"), written
 * to buf. returns  buf; NULL where there is no such function (the row does not take the dtype, or the pair of
 * dtypes) */
const char *pp_scalar_c_name(pp_op op, ppto_dtype from, ppto_dtype to, char buf[PP_SCALAR_NAME_SIZE]);

/* The C type of one element: "float", "int64_t"; bool is "uint8_t". */
const char *pp_scalar_c_type(ppto_dtype dtype);

#endif
