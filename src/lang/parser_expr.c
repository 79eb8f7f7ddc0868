/* SPDX-License-Identifier: Apache-2.0
 * Expressions, by an operator-precedence parser with its own stack.
 *
 * Two states take turns. Where an operand is expected, pp_parse_operand reads one or pushes a prefix sign or
 * an opening bracket; with an operand in hand, `operation` reads what may follow it. A binary operator pushes
 * a frame that holds its left side; a frame is reduced to a node when an operator that binds less, a comma or
 * a closing bracket comes. Python's precedences: comparisons bind less than |, `**` binds right and more than
 * a sign on its left. */
#include <string.h>

#include "lang/parser_frame.h"

static const uint8_t level_of[PP_INFIX_COUNT] = {
    [PP_I_ADD] = L_SUM,          [PP_I_SUB] = L_SUM,     [PP_I_MUL] = L_PRODUCT, [PP_I_DIV] = L_PRODUCT,
    [PP_I_FLOORDIV] = L_PRODUCT, [PP_I_MOD] = L_PRODUCT, [PP_I_POW] = L_POWER,   [PP_I_MATMUL] = L_PRODUCT,
    [PP_I_SHL] = L_SHIFT,        [PP_I_SHR] = L_SHIFT,   [PP_I_AND] = L_BIT_AND, [PP_I_XOR] = L_BIT_XOR,
    [PP_I_OR] = L_BIT_OR,        [PP_I_EQ] = L_COMPARE,  [PP_I_NE] = L_COMPARE,  [PP_I_LT] = L_COMPARE,
    [PP_I_LE] = L_COMPARE,       [PP_I_GT] = L_COMPARE,  [PP_I_GE] = L_COMPARE,
};

static ppto_status push_infix(pp_parser *p, pp_expr_kind kind, unsigned level, bool nests)
{
    pp_frame frame = {.kind = F_BINARY, .level = (uint8_t)level, .nests = nests, .at = p->token.at};
    PP_TRY(pp_frame_node(p, kind, p->token.at, &frame.node));
    frame.node->a = p->value;
    if (kind == PP_E_BINARY) frame.node->op = (uint8_t)(p->token.kind - PP_T_INFIX);
    PP_TRY(pp_frame_push(p, frame));
    return pp_parse_advance(p);
}

static ppto_status parse_binary(pp_parser *p)
{
    unsigned op = (unsigned)p->token.kind - PP_T_INFIX, level = level_of[op];
    PP_TRY(pp_frame_reduce(p, level == L_POWER || level == L_COMPARE ? level + 1 : level));
    if (level == L_COMPARE && p->frames.n != 0 && pp_frame_top(p)->level == L_COMPARE) {
        const char *before = pp_infix_sign(pp_frame_top(p)->node->op), *now = pp_infix_sign((pp_infix)op);
        return pp_parse_fail(p, p->token.at, "comparisons do not chain, expected (a %s b) & (b %s c)", before,
                             now);
    }
    return push_infix(p, PP_E_BINARY, level, level == L_POWER);
}

static ppto_status parse_and_or(pp_parser *p)
{
    bool is_and = p->token.kind == PP_T_AND;
    PP_TRY(pp_frame_reduce(p, is_and ? L_AND : L_OR));
    return push_infix(p, is_and ? PP_E_AND : PP_E_OR, is_and ? L_AND : L_OR, false);
}

static ppto_status parse_if(pp_parser *p)
{
    PP_TRY(pp_frame_reduce(p, L_OR));
    pp_frame *f = pp_frame_top(p);
    if (pp_frame_in(p, F_LIST) && f->slot != IN_ITEMS) {
        if (f->slot == IN_FILTER) return pp_parse_expected(p, "`]`; conditions are joined by `and`");
        f->node->b = p->value;
        f->height = pp_frame_higher(f->height, p->height);
        f->slot = IN_FILTER;
        p->value = NULL;
        return pp_parse_advance(p);
    }
    if (f != NULL && f->kind == F_IF && f->level == L_IF)
        return pp_parse_fail(p, p->token.at,
                             "`if` within a condition, expected `else`, or brackets around the condition");
    pp_frame frame = {.kind = F_IF, .level = L_IF, .nests = true, .at = p->token.at};
    PP_TRY(pp_frame_node(p, PP_E_IF, p->token.at, &frame.node));
    frame.node->a = p->value;
    PP_TRY(pp_frame_push(p, frame));
    return pp_parse_advance(p);
}

static ppto_status parse_else(pp_parser *p)
{
    PP_TRY(pp_frame_reduce(p, L_OR));
    pp_frame *f = pp_frame_top(p);
    if (f == NULL || f->kind != F_IF || f->level != L_IF)
        return pp_parse_fail(p, p->token.at, "`else` without `if`, expected `a if c else b`");
    f->node->c = p->value;
    f->height = pp_frame_higher(f->height, p->height);
    f->kind = F_ELSE;
    p->value = NULL;
    return pp_parse_advance(p);
}

/* [e for NAME in …: the list turns into a comprehension. */
static ppto_status parse_for(pp_parser *p)
{
    PP_TRY(pp_frame_reduce(p, L_IF));
    pp_frame *f = pp_frame_top(p);
    if (!pp_frame_in(p, F_LIST) || f->node->a != NULL || f->slot != IN_ITEMS)
        return pp_parse_expected(p, "`for` only in a list, as in `[e for i in range(n)]`");
    f->node->kind = PP_E_COMPREHENSION;
    f->node->a = p->value;
    f->height = p->height;
    f->slot = IN_RANGE;
    p->value = NULL;
    PP_TRY(pp_parse_advance(p));
    PP_TRY(pp_parse_name(p, &f->node->name, "a name after `for`"));
    return pp_parse_take(p, PP_T_IN, "`in`");
}

/* A comma, colon or closing bracket after an operand: it belongs to the bracket on top, or ends the
 * expression. */
static ppto_status parse_punctuation(pp_parser *p, bool *done)
{
    PP_TRY(pp_frame_reduce(p, L_STAR));
    *done = p->frames.n == 0;
    if (*done) return PPTO_OK;
    if (p->token.kind == PP_T_COMMA) return pp_frame_comma(p);
    if (p->token.kind != PP_T_COLON) return pp_frame_close(p);
    return pp_frame_in(p, F_INDEX) ? pp_frame_colon(p) : pp_parse_expected(p, "`,` or a closing bracket");
}

static ppto_status parse_end(pp_parser *p, bool *done)
{
    PP_TRY(pp_frame_reduce(p, L_STAR));
    *done = p->frames.n == 0;
    if (*done) return PPTO_OK;
    bool round = pp_frame_top(p)->kind == F_PAREN || pp_frame_top(p)->kind == F_CALL;
    return pp_parse_expected(p, round ? "an operator, `,` or `)`" : "an operator, `,` or `]`");
}

/* The callee's name: a name, or scalar.NAME and tensor.NAME. */
static ppto_status callee_name(pp_parser *p, const char **out)
{
    pp_expr *e = p->value;
    *out = e->name;
    if (e->kind == PP_E_NAME && p->before == PP_T_NAME) return PPTO_OK;
    if (e->kind == PP_E_INDEX) return pp_parse_unsupported(p, e->at, "index notation is");
    if (e->kind != PP_E_ATTR || p->before != PP_T_NAME)
        return pp_parse_fail(p, p->token.at, "this cannot be called, expected an operator's name before `(`");
    const char *of = e->a->kind == PP_E_NAME ? e->a->name : "";
    if (strcmp(of, "scalar") != 0 && strcmp(of, "tensor") != 0)
        return pp_parse_fail(p, e->at, "tensors have no methods: operators are called by name, `%.60s(x, …)`",
                             e->name);
    size_t n = strlen(e->name);
    char *name = pp_arena_alloc(&p->unit->arena, n + 8);
    if (name == NULL) return pp_fail(p->err, PPTO_E_NOMEM, "out of memory");
    memcpy(name, of, 6);
    name[6] = '.';
    memcpy(name + 7, e->name, n);
    *out = name;
    return PPTO_OK;
}

static ppto_status open_call(pp_parser *p)
{
    pp_frame frame = {.kind = F_CALL, .nests = true, .at = p->token.at};
    const char *name;
    PP_TRY(callee_name(p, &name));
    uint32_t at = p->value->kind == PP_E_ATTR ? p->value->a->at : p->value->at;
    PP_TRY(pp_frame_node(p, PP_E_CALL, at, &frame.node));
    frame.node->name = name;
    frame.node->scan = p->value->scan;
    frame.tail = &frame.node->a;
    p->value = NULL;
    PP_TRY(pp_frame_push(p, frame));
    return pp_parse_advance(p);
}

static ppto_status open_index(pp_parser *p)
{
    pp_frame frame = {.kind = F_INDEX, .nests = true, .at = p->token.at};
    PP_TRY(pp_frame_node(p, PP_E_INDEX, p->token.at, &frame.node));
    frame.node->a = p->value;
    frame.tail = &frame.node->b;
    PP_TRY(pp_frame_push(p, frame));
    return pp_parse_advance(p);
}

static ppto_status parse_attribute(pp_parser *p)
{
    pp_expr *e;
    PP_TRY(pp_parse_advance(p));
    bool word = p->token.kind == PP_T_AND || p->token.kind == PP_T_OR || p->token.kind == PP_T_NOT;
    if (word) p->token.kind = PP_T_NAME; /* scalar.and, scalar.or, scalar.not are names of primitives */
    if (p->token.kind != PP_T_NAME)
        return pp_parse_expected(p, "a name such as `T`, `mT` or `dtype` after `.`");
    PP_TRY(pp_frame_node(p, PP_E_ATTR, p->token.at, &e));
    PP_TRY(pp_parse_copy(p, &p->token, &e->name));
    e->a = p->value;
    PP_TRY(pp_parse_advance(p));
    return pp_frame_value(p, e, p->height + 1);
}

static ppto_status operation(pp_parser *p, bool *done)
{
    switch (p->token.kind) {
    case PP_T_OPEN: return open_call(p);
    case PP_T_OPEN_LIST: return open_index(p);
    case PP_T_DOT: return parse_attribute(p);
    case PP_T_AND:
    case PP_T_OR: return parse_and_or(p);
    case PP_T_IF: return parse_if(p);
    case PP_T_ELSE: return parse_else(p);
    case PP_T_FOR: return parse_for(p);
    case PP_T_COMMA:
    case PP_T_COLON:
    case PP_T_CLOSE:
    case PP_T_CLOSE_LIST: return parse_punctuation(p, done);
    default: break;
    }
    if (p->token.kind >= PP_T_INFIX && p->token.kind != PP_T_INFIX + PP_I_INVERT) return parse_binary(p);
    return parse_end(p, done);
}

ppto_status pp_parse_expr(pp_parser *p, pp_expr **out)
{
    bool done = false;
    p->value = NULL;
    while (!done) PP_TRY(p->value == NULL ? pp_parse_operand(p) : operation(p, &done));
    *out = p->value;
    return PPTO_OK;
}

ppto_status pp_parse_exprs(pp_parser *p, pp_expr **out)
{
    PP_TRY(pp_parse_expr(p, out));
    while (p->token.kind == PP_T_COMMA) {
        out = &(*out)->next;
        PP_TRY(pp_parse_advance(p));
        PP_TRY(pp_parse_expr(p, out));
    }
    return PPTO_OK;
}
