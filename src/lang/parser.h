/* SPDX-License-Identifier: Apache-2.0
 * Text to definitions (ops/definition.h). Grammar: docs/language.md. Nothing here knows a graph. */
#ifndef PP_PARSER_H
#define PP_PARSER_H

#include "ops/definition.h"

typedef enum pp_parse_mode {
    PP_PARSE_LIBRARY, /* definitions and aliases only */
    PP_PARSE_PROGRAM  /* an expression, or inputs, statements, outputs and definitions in any order */
} pp_parse_mode;

/* Parses `length` bytes of text (need not be NUL-terminated; a NUL or invalid UTF-8 inside is an error).
 * returns  PPTO_OK and *out (destroy with pp_unit_destroy); PPTO_E_SYNTAX, PPTO_E_LIMIT, PPTO_E_UNSUPPORTED
 * with a message that holds file:line:column, the line and a caret; PPTO_E_NOMEM threads  any */
ppto_status pp_parse(const char *text, size_t length, const char *file, pp_parse_mode mode, pp_unit **out,
                     pp_error *err);
/* The same for a part of a file, below so many of its lines. */
ppto_status pp_parse_part(const char *text, size_t length, const char *file, uint32_t lines_above,
                          pp_parse_mode mode, pp_unit **out, pp_error *err);
void pp_unit_destroy(pp_unit *unit);

#endif
