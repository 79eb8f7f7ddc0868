/* SPDX-License-Identifier: Apache-2.0
 * One number as text, the same on every machine and in every locale. */
#ifndef PP_NUMBER_H
#define PP_NUMBER_H

#include "ops/scalar.h"

/* Floats as the shortest hex float of exactly these bits ("0x1.8p+1", "-0x0p+0", "inf", "-inf", "nan"),
 * integers in decimal, bool as true and false. */
void pp_number_print(ppto_dtype dtype, uint64_t bits, pp_text *out);

/* The same number as a C99 constant expression of the dtype's C type: "0x1.8p+1f", "UINT32_C(5)",
 * "__builtin_inff()". */
void pp_number_c(ppto_dtype dtype, uint64_t bits, pp_text *out);

#endif
