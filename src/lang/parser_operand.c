/* SPDX-License-Identifier: Apache-2.0
 * Expressions where an operand is expected: literals, names, opening brackets, prefix signs, and the tokens
 * that say that there is none, as in `f()`, `[1, ]` and `x[1:, ::2]`. */
#include "lang/parser_frame.h"

static ppto_status parse_literal(pp_parser *p)
{
    static const uint8_t kinds[] = {
        [PP_T_NAME] = PP_E_NAME,   [PP_T_PASSED] = PP_E_NAME,   [PP_T_INT] = PP_E_INT,
        [PP_T_FLOAT] = PP_E_FLOAT, [PP_T_STRING] = PP_E_STRING, [PP_T_TRUE] = PP_E_BOOL,
        [PP_T_FALSE] = PP_E_BOOL,  [PP_T_NONE] = PP_E_NONE,
    };
    pp_expr *e;
    PP_TRY(pp_frame_node(p, kinds[p->token.kind], p->token.at, &e));
    if (p->token.kind == PP_T_STRING) {
        e->name = pp_literal_string(p->unit, &p->token);
        if (e->name == NULL) return pp_fail(p->err, PPTO_E_NOMEM, "out of memory");
    } else {
        PP_TRY(pp_parse_copy(p, &p->token, &e->name));
    }
    if (e->kind == PP_E_BOOL) e->i = p->token.kind == PP_T_TRUE;
    if (e->kind == PP_E_INT || e->kind == PP_E_FLOAT) pp_literal_number(p->unit, &p->token, e);
    if (e->kind == PP_E_FLOAT && e->wide)
        return pp_unit_fail(p->unit, e->at, p->err, PPTO_E_VALUE,
                            "the number %.60s is beyond f64 (up to 1.7976931348623157e308), expected inf for "
                            "infinity",
                            e->name);
    PP_TRY(pp_parse_advance(p));
    return pp_frame_value(p, e, 1);
}

/* pi, inf and nan, which are names to the lexer. */
static bool is_constant(pp_parser *p, double *out)
{
    if (pp_parse_at(p, "pi"))
        *out = 3.14159265358979323846;
    else if (pp_parse_at(p, "inf"))
        *out = (double)__builtin_inff();
    else if (pp_parse_at(p, "nan"))
        *out = (double)__builtin_nanf("");
    else
        return false;
    return true;
}

static ppto_status parse_scan(pp_parser *p)
{
    PP_TRY(pp_parse_advance(p));
    PP_TRY(parse_literal(p));
    if (p->token.kind != PP_T_OPEN) return pp_parse_expected(p, "`(`, as in `scan NAME(x, axis)`");
    p->value->scan = true;
    return PPTO_OK;
}

static ppto_status parse_name(pp_parser *p)
{
    double constant;
    if (pp_frame_in(p, F_CALL) && p->next.kind == PP_T_ASSIGN && pp_frame_top(p)->keyword == NULL) {
        if (pp_parse_reserved(p->unit, &p->token)) return pp_parse_expected(p, "the name of a parameter");
        PP_TRY(pp_parse_copy(p, &p->token, &pp_frame_top(p)->keyword));
        pp_frame_top(p)->named = true;
        PP_TRY(pp_parse_advance(p));
        return pp_parse_advance(p);
    }
    if (pp_parse_at(p, "scan") && p->next.kind == PP_T_NAME) return parse_scan(p);
    if (pp_parse_at(p, "True") || pp_parse_at(p, "False"))
        return pp_parse_fail(p, p->token.at,
                             "`True` and `False` are written in small letters, expected `true` or "
                             "`false`");
    bool is_float = is_constant(p, &constant);
    PP_TRY(parse_literal(p));
    if (is_float) {
        p->value->kind = PP_E_FLOAT;
        p->value->f = constant;
    }
    return PPTO_OK;
}

static ppto_status push_prefix(pp_parser *p, pp_expr_kind kind, pp_frame frame)
{
    frame.at = p->token.at;
    PP_TRY(pp_frame_node(p, kind, p->token.at, &frame.node));
    if (p->token.kind == PP_T_INFIX + PP_I_INVERT) frame.node->op = PP_I_INVERT;
    if (p->token.kind == PP_T_INFIX + PP_I_SUB) frame.node->op = PP_I_NEG;
    PP_TRY(pp_frame_push(p, frame));
    return pp_parse_advance(p);
}

static ppto_status parse_not(pp_parser *p)
{
    if (p->frames.n != 0 && pp_frame_top(p)->level > L_NOT)
        return pp_parse_fail(p, p->token.at,
                             "`not` binds less than the operator before it, expected `(not …)`");
    return push_prefix(p, PP_E_NOT, (pp_frame){.kind = F_NOT, .level = L_NOT, .nests = true});
}

static ppto_status parse_star(pp_parser *p)
{
    if (!pp_frame_in(p, F_LIST) || pp_frame_top(p)->slot != IN_ITEMS) return pp_parse_expected(p, "a value");
    return push_prefix(p, PP_E_STAR, (pp_frame){.kind = F_STAR, .level = L_STAR});
}

static ppto_status open_list(pp_parser *p)
{
    pp_frame frame = {.kind = F_LIST, .nests = true, .at = p->token.at};
    PP_TRY(pp_frame_node(p, PP_E_LIST, p->token.at, &frame.node));
    frame.tail = &frame.node->a;
    PP_TRY(pp_frame_push(p, frame));
    return pp_parse_advance(p);
}

static ppto_status open_paren(pp_parser *p)
{
    PP_TRY(pp_frame_push(p, (pp_frame){.kind = F_PAREN, .nests = true, .at = p->token.at}));
    return pp_parse_advance(p);
}

static ppto_status parse_ellipsis(pp_parser *p)
{
    pp_expr *e;
    if (!pp_frame_in(p, F_INDEX) || pp_frame_top(p)->slice != NULL) return pp_parse_expected(p, "a value");
    if (p->next.kind != PP_T_COMMA && p->next.kind != PP_T_CLOSE_LIST) {
        PP_TRY(pp_parse_advance(p));
        return pp_parse_expected(p, "`,` or `]` after `...`");
    }
    PP_TRY(pp_frame_node(p, PP_E_ELLIPSIS, p->token.at, &e));
    PP_TRY(pp_parse_advance(p));
    return pp_frame_value(p, e, 1);
}

/* Tokens that may come where an operand could: the end of `[1, ]`, `x[1:]`, `f()`, and the parts of `x[:,
 * ::2]`. */
static ppto_status parse_absent(pp_parser *p)
{
    const pp_frame *f = pp_frame_top(p);
    bool closes = p->token.kind == PP_T_CLOSE || p->token.kind == PP_T_CLOSE_LIST;
    if (f == NULL || f->level != L_BRACKET || f->keyword != NULL) return pp_parse_expected(p, "a value");
    if (f->kind == F_INDEX && p->token.kind == PP_T_COLON) return pp_frame_colon(p);
    if (f->kind == F_INDEX && p->token.kind == PP_T_COMMA && f->slice != NULL) return pp_frame_comma(p);
    if (f->kind == F_INDEX && closes && f->slice == NULL && f->node->b == NULL)
        return pp_parse_fail(p, p->token.at, "empty subscripts, expected an index, a slice or `...`");
    if (f->kind == F_PAREN && closes && f->node == NULL) return pp_parse_expected(p, "a value in `( )`");
    if (f->kind == F_LIST && f->slot != IN_ITEMS) return pp_parse_expected(p, "a value");
    return closes ? pp_frame_close(p) : pp_parse_expected(p, "a value");
}

ppto_status pp_parse_operand(pp_parser *p)
{
    const pp_frame *f = pp_frame_top(p);
    bool absent =
        p->token.kind == PP_T_CLOSE || p->token.kind == PP_T_CLOSE_LIST || p->token.kind == PP_T_COMMA;
    bool keyword = p->token.kind == PP_T_NAME && p->next.kind == PP_T_ASSIGN;
    if (pp_frame_in(p, F_CALL) && f->named && f->keyword == NULL && !absent && !keyword)
        return pp_parse_expected(p, "a named argument, for one came before");
    switch (p->token.kind) {
    case PP_T_NAME: return parse_name(p);
    case PP_T_PASSED:
    case PP_T_INT:
    case PP_T_FLOAT:
    case PP_T_STRING:
    case PP_T_TRUE:
    case PP_T_FALSE:
    case PP_T_NONE: return parse_literal(p);
    case PP_T_OPEN: return open_paren(p);
    case PP_T_OPEN_LIST: return open_list(p);
    case PP_T_NOT: return parse_not(p);
    case PP_T_ELLIPSIS: return parse_ellipsis(p);
    case PP_T_INFIX + PP_I_SUB:
    case PP_T_INFIX + PP_I_INVERT:
        return push_prefix(p, PP_E_UNARY, (pp_frame){.kind = F_UNARY, .level = L_SIGN, .nests = true});
    case PP_T_INFIX + PP_I_MUL: return parse_star(p);
    default: return parse_absent(p);
    }
}
