/* SPDX-License-Identifier: Apache-2.0
 * Definitions as people read them: signatures, defaults, the two parts of a documentation text. Needs no
 * library, so that the program that writes ppto/ops.h can use it, too. */
#ifndef PP_SIGNATURE_H
#define PP_SIGNATURE_H

#include "ops/definition.h"

/* Parameters of a call: those written, and for a fold axis and keepdims behind them. */
size_t pp_signature_params(const pp_definition *definition);
const pp_param *pp_signature_param(const pp_definition *definition, size_t i);
/* "num", "dtype", "f32": the word a parameter's spec is written with. */
const char *pp_signature_spec(const pp_param *param);
/* A value as in the language: 1e-5, [0, 1], none, constant. */
void pp_signature_value(const pp_expr *e, pp_text *out);
/* "sum(x: any, axis: axes = all, keepdims: bool = false)". */
void pp_signature_print(const pp_definition *definition, pp_text *out);
/* The documentation before its "Shape:" line, and that line with what follows; both on one line each, "" when
 * absent. */
void pp_signature_doc(const pp_definition *definition, pp_text *doc, pp_text *shape);

#endif
