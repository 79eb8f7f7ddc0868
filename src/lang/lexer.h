/* SPDX-License-Identifier: Apache-2.0
 * Text to tokens. A token is a range of the unit's source, never a copy; numbers and strings are read out on
 * demand. Line ends and `;` give one PP_T_LINE however many there are, and none inside ( and [. */
#ifndef PP_LEXER_H
#define PP_LEXER_H

#include "ops/definition.h"

typedef enum pp_token_kind {
    PP_T_END,
    PP_T_LINE, /* one or more line ends or `;` */
    PP_T_NAME,
    PP_T_PASSED, /* $0 */
    PP_T_INT,
    PP_T_FLOAT,
    PP_T_STRING,
    /* reserved words */
    PP_T_IF,
    PP_T_ELSE,
    PP_T_FOR,
    PP_T_IN,
    PP_T_NOT,
    PP_T_AND,
    PP_T_OR,
    PP_T_TRUE,
    PP_T_FALSE,
    PP_T_NONE,
    PP_T_REQUIRE,
    PP_T_OUTPUT,
    /* punctuation */
    PP_T_OPEN,
    PP_T_CLOSE,
    PP_T_OPEN_LIST,
    PP_T_CLOSE_LIST,
    PP_T_OPEN_BLOCK,
    PP_T_CLOSE_BLOCK,
    PP_T_COMMA,
    PP_T_COLON,
    PP_T_DOT,
    PP_T_ELLIPSIS,
    PP_T_ASSIGN,
    PP_T_ARROW,
    PP_T_INFIX /* + a pp_infix; the sign - is PP_I_SUB */
} pp_token_kind;

typedef struct pp_token {
    uint8_t kind;
    uint32_t at, n;        /* bytes of the source */
    uint32_t doc, doc_end; /* the range of `## ` lines just above, empty when there are none */
} pp_token;

typedef struct pp_lexer {
    const pp_unit *unit;
    uint32_t at;
    uint32_t round;        /* open ( and [ */
    uint32_t doc, doc_end; /* pending for the next token */
    bool fresh;            /* nothing but blanks on this line so far */
} pp_lexer;

/* ---- lexer.c
 * -------------------------------------------------------------------------------------------------- */

/* Checks that the source is UTF-8 without NUL and starts before its first token. */
ppto_status pp_lexer_start(pp_lexer *lexer, const pp_unit *unit, pp_error *err);
ppto_status pp_lexer_next(pp_lexer *lexer, pp_token *out, pp_error *err);
/* Whether the token is exactly that word or sign. */
bool pp_token_is(const pp_unit *unit, const pp_token *token, const char *text);
/* The `## ` lines of a token, markers removed, joined by newlines; in the arena, "" when none. NULL: out of
 * memory. */
const char *pp_token_doc(pp_unit *unit, const pp_token *token);

/* ---- literal.c
 * ------------------------------------------------------------------------------------------------ */

/* Reads PP_T_INT or PP_T_FLOAT into i, f and wide of the expression (an integer beyond i64, a float beyond
 * f64). Independent of the locale, correctly rounded. */
void pp_literal_number(const pp_unit *unit, const pp_token *token, pp_expr *out);
/* The text of PP_T_STRING without quotes and escapes; in the arena. NULL: out of memory. */
const char *pp_literal_string(pp_unit *unit, const pp_token *token);

#endif
