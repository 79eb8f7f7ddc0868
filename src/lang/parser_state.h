/* SPDX-License-Identifier: Apache-2.0
 * The state the parts of the parser share, and its limits. Nothing outside src/lang includes this.
 *
 * Nothing here recurses: expressions keep their open brackets and operators in `frames`, statements their
 * open blocks in `blocks`, both on the heap, so the deepest text the limits allow costs a fixed amount of
 * stack. `depth` counts what nests over both. `height` is how deep a tree is for a walker that recurses
 * everywhere but along the left spine of binary operators (definition.h); it is limited too, because
 * precedence levels and postfix chains such as x.T.T deepen a tree without a bracket. Every function returns
 * a status and leaves a message in p->err when it fails. */
#ifndef PP_PARSER_STATE_H
#define PP_PARSER_STATE_H

#include "lang/lexer.h"
#include "lang/parser.h"

enum {
    PP_LIMIT_LENGTH = 16 << 20, /* bytes of a text */
    PP_LIMIT_NODES = 1000000,   /* expressions, statements and names of a text */
    PP_LIMIT_NESTING = 1000,    /* brackets, calls, unary signs, **, if else, not, blocks */
    PP_LIMIT_HEIGHT = 4000,     /* of a tree */
    PP_LIMIT_NUMBER = 1000,     /* characters of a number */
    PP_LIMIT_PARAMS = 64        /* of a definition */
};

/* An open bracket or an operator that waits for its right side. */
typedef struct pp_frame {
    uint8_t kind, level; /* parser_frame.h: what it is, how strongly it binds */
    uint8_t slot;        /* subscripts: the slice part that comes next; lists: the part of a comprehension */
    bool nests;          /* counted in depth */
    bool named;          /* calls: a named argument was seen */
    uint32_t at, height; /* of the parts so far */
    pp_expr *node, *slice;
    pp_expr **tail;      /* brackets: where the next item goes */
    const char *keyword; /* calls: of the item that is being read */
} pp_frame;

/* An open { } of statements. */
typedef struct pp_block {
    pp_stmt *branch;  /* the `if` it belongs to, NULL for a body */
    pp_stmt **tail;   /* where the next statement goes */
    bool otherwise;   /* the else side */
    bool implied;     /* the else side made of one `else if`: closes with it */
    bool valued;      /* ends in a value */
    bool then_valued; /* the other side did */
} pp_block;

typedef struct pp_parser {
    pp_unit *unit;
    pp_error *err;
    pp_lexer lexer;
    pp_token token, next; /* the current one and the one after */
    uint8_t before;       /* kind of the last token consumed */
    uint32_t behind;      /* where it ends */
    uint32_t depth, nodes;
    PP_VEC(pp_frame) frames;
    PP_VEC(pp_block) blocks;
    pp_expr *value; /* operand in hand; NULL where one is expected */
    uint32_t height;
    bool valued; /* whether the last block or `if` read ended in a value */
    pp_definition **definitions;
    pp_alias **aliases;
    pp_input_decl **inputs;
} pp_parser;

/* ---- parser.c
 * -------------------------------------------------------------------------------------------------- */

ppto_status pp_parse_advance(pp_parser *p);
/* Consumes a token of that kind, or fails with "expected `sign`". */
ppto_status pp_parse_take(pp_parser *p, unsigned kind, const char *expected);
/* Consumes the current token, a name that may be given to something, into the arena. */
ppto_status pp_parse_name(pp_parser *p, const char **out, const char *expected);
/* Whether that text may not be a variable's, parameter's or operator's name: pi, inf, nan and the dtypes. */
bool pp_parse_reserved(const pp_unit *unit, const pp_token *token);
/* Fails with "found X, expected `expected`" at the current token. */
ppto_status pp_parse_expected(pp_parser *p, const char *expected);
ppto_status pp_parse_fail(pp_parser *p, uint32_t at, const char *format, ...)
    PP_PRINTF(3, 4); /* PPTO_E_SYNTAX */
ppto_status pp_parse_unsupported(pp_parser *p, uint32_t at, const char *what);
ppto_status pp_parse_enter(pp_parser *p); /* one level of nesting; left by p->depth-- */
/* Zeroed memory of the unit, counted as a node. */
ppto_status pp_parse_node(pp_parser *p, size_t bytes, void **out);
ppto_status pp_parse_copy(pp_parser *p, const pp_token *token, const char **out);
bool pp_parse_at(const pp_parser *p, const char *word); /* the current token is that name */

/* ---- parser_expr.c
 * --------------------------------------------------------------------------------------------- */

/* Reads one expression and stops at the first token that cannot go on with it. */
ppto_status pp_parse_expr(pp_parser *p, pp_expr **out);
/* Reads expressions separated by commas, chained by next. */
ppto_status pp_parse_exprs(pp_parser *p, pp_expr **out);

/* ---- parser_block.c
 * -------------------------------------------------------------------------------------------- */

/* Reads a statement that may stand in a block: an assignment, a value, require, if. p->valued: it is or ends
 * in a value. */
ppto_status pp_parse_statement(pp_parser *p, pp_stmt **out);
/* Reads { statements }. p->valued: the block ends in a value. */
ppto_status pp_parse_block(pp_parser *p, pp_stmt **out);
ppto_status pp_parse_stmt_node(pp_parser *p, unsigned kind, uint32_t at, pp_stmt **out);

/* ---- parser_definition.c
 * --------------------------------------------------------------------------------------- */

ppto_status pp_parse_operator(pp_parser *p); /* op NAME … */
ppto_status pp_parse_alias(pp_parser *p);    /* alias NAME = OPERATOR */
ppto_status pp_parse_input(pp_parser *p);    /* input NAME: dtype[dims] */
/* NAME ( params ), and the words both kinds of definition share. */
ppto_status pp_parse_head(pp_parser *p, pp_definition **out);
/* Fails when a gradient follows. */
ppto_status pp_parse_no_gradient(pp_parser *p);

/* ---- parser_fold.c
 * --------------------------------------------------------------------------------------------- */

ppto_status pp_parse_fold(pp_parser *p); /* fold [ordered] NAME … */

#endif
