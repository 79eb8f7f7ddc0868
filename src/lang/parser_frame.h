/* SPDX-License-Identifier: Apache-2.0
 * What the files that read expressions share: the kinds of frames, how they bind, and the stack of them. */
#ifndef PP_PARSER_FRAME_H
#define PP_PARSER_FRAME_H

#include "lang/parser_state.h"

/* pp_frame.kind */
enum { F_PAREN, F_LIST, F_CALL, F_INDEX, F_STAR, F_IF, F_ELSE, F_NOT, F_BINARY, F_UNARY };

/* pp_frame.level: how strongly a frame binds; brackets not at all */
enum {
    L_BRACKET,
    L_STAR,
    L_IF,
    L_OR,
    L_AND,
    L_NOT,
    L_COMPARE,
    L_BIT_OR,
    L_BIT_XOR,
    L_BIT_AND,
    L_SHIFT,
    L_SUM,
    L_PRODUCT,
    L_SIGN,
    L_POWER
};

/* pp_frame.slot of a list: [items], [… for i in RANGE if FILTER] */
enum { IN_ITEMS, IN_RANGE, IN_FILTER };

static inline uint32_t pp_frame_higher(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* ---- parser_frame.c */

pp_frame *pp_frame_top(pp_parser *p);          /* NULL when nothing is open */
bool pp_frame_in(pp_parser *p, unsigned kind); /* that bracket is on top: an item begins */
ppto_status pp_frame_node(pp_parser *p, pp_expr_kind kind, uint32_t at, pp_expr **out);
/* Makes `value` the operand in hand, or fails when it is too high. */
ppto_status pp_frame_value(pp_parser *p, pp_expr *value, uint32_t height);
/* Pushes a frame whose left part, if any, is the operand in hand, and expects an operand. */
ppto_status pp_frame_push(pp_parser *p, pp_frame frame);
pp_frame pp_frame_pop(pp_parser *p);
/* Reduces operators that bind at least as strongly as `level`, down to the bracket on top. */
ppto_status pp_frame_reduce(pp_parser *p, unsigned level);
/* `,`, `:` of a slice and the closing sign of the bracket on top, with or without an operand in hand. */
ppto_status pp_frame_comma(pp_parser *p);
ppto_status pp_frame_colon(pp_parser *p);
ppto_status pp_frame_close(pp_parser *p);

/* ---- parser_operand.c */

/* Reads an operand, or one token before it: a sign, an opening bracket, the name of an argument. */
ppto_status pp_parse_operand(pp_parser *p);

#endif
