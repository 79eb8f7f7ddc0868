/* SPDX-License-Identifier: Apache-2.0
 * The stack of expressions: frames, their reduction to nodes, and the items of brackets.
 *
 * A frame is reduced when everything to its right that binds more is read. Heights are kept beside the tree,
 * not in it: frames hold the height of their parts, the parser that of the operand in hand. A chain of binary
 * operators grows along its left spine and counts as one, so that sums of a million terms are legal. */
#include "lang/parser_frame.h"

pp_frame *pp_frame_top(pp_parser *p)
{
    return p->frames.n != 0 ? &p->frames.at[p->frames.n - 1] : NULL;
}

bool pp_frame_in(pp_parser *p, unsigned kind)
{
    return p->frames.n != 0 && pp_frame_top(p)->level == L_BRACKET && pp_frame_top(p)->kind == kind;
}

ppto_status pp_frame_node(pp_parser *p, pp_expr_kind kind, uint32_t at, pp_expr **out)
{
    void *node;
    PP_TRY(pp_parse_node(p, sizeof **out, &node));
    *out = node;
    (*out)->kind = (uint8_t)kind;
    (*out)->at = at;
    return PPTO_OK;
}

ppto_status pp_frame_value(pp_parser *p, pp_expr *value, uint32_t height)
{
    if (height > PP_LIMIT_HEIGHT)
        return pp_unit_fail(p->unit, value->at, p->err, PPTO_E_LIMIT,
                            "an expression is nested more than %d deep", PP_LIMIT_HEIGHT);
    p->value = value;
    p->height = height;
    return PPTO_OK;
}

ppto_status pp_frame_push(pp_parser *p, pp_frame frame)
{
    if (frame.nests) PP_TRY(pp_parse_enter(p));
    if (p->value != NULL) {
        bool spine =
            frame.kind == F_BINARY && frame.node->kind == PP_E_BINARY && p->value->kind == PP_E_BINARY;
        frame.height = spine ? p->height - 1 : p->height;
    }
    p->value = NULL;
    if (pp_vec_push(&p->frames, frame) != PPTO_OK) return pp_fail(p->err, PPTO_E_NOMEM, "out of memory");
    return PPTO_OK;
}

pp_frame pp_frame_pop(pp_parser *p)
{
    pp_frame frame = p->frames.at[--p->frames.n];
    if (frame.nests) p->depth--;
    return frame;
}

static ppto_status reduce_one(pp_parser *p)
{
    pp_frame frame = pp_frame_pop(p);
    pp_expr *node = frame.node;
    if (frame.kind == F_IF)
        return pp_parse_fail(p, frame.at, "`if` without `else` in an expression, expected `a if c else b`");
    if (frame.kind == F_ELSE || frame.kind == F_BINARY)
        node->b = p->value;
    else
        node->a = p->value;
    return pp_frame_value(p, node, 1 + pp_frame_higher(frame.height, p->height));
}

ppto_status pp_frame_reduce(pp_parser *p, unsigned level)
{
    while (p->frames.n != 0 && pp_frame_top(p)->level != L_BRACKET && pp_frame_top(p)->level >= level)
        PP_TRY(reduce_one(p));
    return PPTO_OK;
}

/* The operand in hand, if any, becomes an item of the bracket on top. */
static ppto_status end_item(pp_parser *p)
{
    pp_frame *f = pp_frame_top(p);
    pp_expr *item = p->value;
    if (item != NULL) f->height = pp_frame_higher(f->height, p->height);
    if (f->slice != NULL) {
        if (item != NULL) *(f->slot == 1 ? &f->slice->b : &f->slice->c) = item;
        item = f->slice;
        f->slice = NULL;
        f->slot = 0;
    }
    if (item == NULL) return PPTO_OK;
    item->keyword = f->keyword;
    f->keyword = NULL;
    *f->tail = item;
    f->tail = &item->next;
    p->value = NULL;
    return PPTO_OK;
}

ppto_status pp_frame_colon(pp_parser *p)
{
    pp_frame *f = pp_frame_top(p);
    if (f->slice == NULL) {
        PP_TRY(pp_frame_node(p, PP_E_SLICE, p->token.at, &f->slice));
        f->slice->a = p->value;
    } else if (f->slot == 1) {
        f->slice->b = p->value;
    } else {
        return pp_parse_expected(p, "`,` or `]`; a slice is `start:stop:step`");
    }
    if (p->value != NULL) f->height = pp_frame_higher(f->height, p->height);
    f->slot++;
    p->value = NULL;
    return pp_parse_advance(p);
}

ppto_status pp_frame_comma(pp_parser *p)
{
    pp_frame *f = pp_frame_top(p);
    if (f->kind == F_LIST && f->slot != IN_ITEMS) return pp_parse_expected(p, "`]`");
    if (f->kind == F_PAREN && f->node == NULL) {
        PP_TRY(pp_frame_node(p, PP_E_TUPLE, f->at, &f->node));
        f->tail = &f->node->a;
    }
    PP_TRY(end_item(p));
    return pp_parse_advance(p);
}

ppto_status pp_frame_close(pp_parser *p)
{
    const pp_frame *open = pp_frame_top(p);
    bool round = open->kind == F_PAREN || open->kind == F_CALL;
    if (p->token.kind != (round ? PP_T_CLOSE : PP_T_CLOSE_LIST))
        return pp_parse_expected(p, round ? "`)`" : "`]`");
    PP_TRY(pp_parse_advance(p));
    if (open->node == NULL) {
        (void)pp_frame_pop(p);
        return PPTO_OK;
    }
    if (open->kind == F_LIST && open->slot != IN_ITEMS) {
        *(open->slot == IN_RANGE ? &open->node->b : &open->node->c) = p->value;
        uint32_t height = pp_frame_higher(open->height, p->height);
        return pp_frame_value(p, pp_frame_pop(p).node, height + 1);
    }
    PP_TRY(end_item(p));
    pp_frame frame = pp_frame_pop(p);
    return pp_frame_value(p, frame.node, frame.height + (frame.kind == F_INDEX ? 2 : 1));
}
