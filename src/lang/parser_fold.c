/* SPDX-License-Identifier: Apache-2.0
 * Definitions of folds: fold [ordered] NAME(params) [-> states] { lift = …; step(s, x) …; join(a, b) … }.
 *
 * A part is an expression after `=` or a block that ends in a value; several states are a tuple. Parts are
 * straight lines of assignments, because they become the inner loop of a kernel: `if` and `require` belong in
 * an operator around the fold. That the tuples fit the states is checked by those who evaluate the parts. */
#include "lang/parser_state.h"

#include <string.h>

static const char *const part_names = "`lift`, `step`, `join`, `finish` or `unit`";

/* acc or a dtype. */
static ppto_status parse_state_type(pp_parser *p, pp_fold_state *state)
{
    ppto_dtype dtype;
    if (pp_parse_at(p, "acc")) {
        state->type = 1;
    } else if (p->token.kind == PP_T_NAME &&
               pp_dtype_parse(p->unit->source + p->token.at, p->token.n, &dtype)) {
        state->type = 2;
        state->dtype = (uint8_t)dtype;
    } else {
        return pp_parse_expected(p, "`acc` or a dtype");
    }
    return pp_parse_advance(p);
}

static ppto_status parse_states(pp_parser *p, pp_definition *d)
{
    d->n_states = 1;
    if (p->token.kind != PP_T_ARROW) return PPTO_OK;
    PP_TRY(pp_parse_advance(p));
    if (p->token.kind != PP_T_OPEN) return parse_state_type(p, &d->state[0]);
    PP_TRY(pp_parse_advance(p));
    d->n_states = 0;
    for (;;) {
        if (d->n_states == sizeof d->state / sizeof d->state[0])
            return pp_unit_fail(p->unit, p->token.at, p->err, PPTO_E_LIMIT, "a fold has more than 4 states");
        pp_fold_state *state = &d->state[d->n_states++];
        PP_TRY(pp_parse_name(p, &state->name, "the name of a state"));
        if (p->token.kind == PP_T_COLON) {
            PP_TRY(pp_parse_advance(p));
            PP_TRY(parse_state_type(p, state));
        }
        if (p->token.kind != PP_T_COMMA) break;
        PP_TRY(pp_parse_advance(p));
    }
    return pp_parse_take(p, PP_T_CLOSE, "`,` or `)`");
}

static ppto_status parse_arguments(pp_parser *p, pp_fold_part *part)
{
    PP_TRY(pp_parse_advance(p));
    for (;;) {
        if (part->n_args == sizeof part->arg / sizeof part->arg[0])
            return pp_unit_fail(p->unit, p->token.at, p->err, PPTO_E_LIMIT,
                                "a part of a fold has more than 4 names");
        PP_TRY(pp_parse_name(p, &part->arg[part->n_args++], "a name"));
        if (p->token.kind != PP_T_COMMA) break;
        PP_TRY(pp_parse_advance(p));
    }
    return pp_parse_take(p, PP_T_CLOSE, "`,` or `)`");
}

static ppto_status parse_part_body(pp_parser *p, pp_fold_part *part, uint32_t at)
{
    if (p->token.kind != PP_T_OPEN_BLOCK) {
        PP_TRY(pp_parse_take(p, PP_T_ASSIGN, "`=` or `{`"));
        PP_TRY(pp_parse_stmt_node(p, PP_S_VALUE, p->token.at, &part->body));
        return pp_parse_expr(p, &part->body->value);
    }
    PP_TRY(pp_parse_block(p, &part->body));
    if (!p->valued) return pp_parse_fail(p, at, "this part has no result, expected a value at its end");
    for (const pp_stmt *s = part->body; s != NULL; s = s->next)
        if (s->kind != PP_S_ASSIGN && s->kind != PP_S_VALUE)
            return pp_parse_fail(
                p, s->at, "`if` and `require` cannot stand in a fold, expected assignments and a value");
    return PPTO_OK;
}

/* NAME [(arguments)] = value, with least to most arguments. */
static ppto_status parse_part(pp_parser *p, pp_fold_part *part, const char *form, unsigned least,
                              unsigned most)
{
    uint32_t at = p->token.at;
    if (part->body != NULL) return pp_parse_expected(p, "each part once");
    PP_TRY(pp_parse_advance(p));
    if (p->token.kind == PP_T_OPEN) PP_TRY(parse_arguments(p, part));
    if (part->n_args < least || part->n_args > most)
        return pp_parse_fail(p, at, "%u names in brackets, expected %s", part->n_args, form);
    return parse_part_body(p, part, at);
}

static ppto_status parse_unit_value(pp_parser *p, pp_definition *d)
{
    if (d->unit != NULL) return pp_parse_expected(p, "each part once");
    PP_TRY(pp_parse_advance(p));
    PP_TRY(pp_parse_take(p, PP_T_ASSIGN, "`=`"));
    return pp_parse_expr(p, &d->unit);
}

static ppto_status parse_any_part(pp_parser *p, pp_definition *d)
{
    if (pp_parse_at(p, "lift")) return parse_part(p, &d->lift, "`lift = …` or `lift(i) = …`", 0, 1);
    if (pp_parse_at(p, "step")) return parse_part(p, &d->step, "`step(s, x) = …`", 2, 4);
    if (pp_parse_at(p, "join")) return parse_part(p, &d->join, "`join(a, b) = …`", 2, 2);
    if (pp_parse_at(p, "finish")) return parse_part(p, &d->finish, "`finish(s) = …`", 1, 1);
    if (pp_parse_at(p, "unit")) return parse_unit_value(p, d);
    return pp_parse_expected(p, part_names);
}

static ppto_status parse_parts(pp_parser *p, pp_definition *d)
{
    PP_TRY(pp_parse_take(p, PP_T_OPEN_BLOCK, "`->` and the states, or `{`"));
    for (;;) {
        while (p->token.kind == PP_T_LINE) PP_TRY(pp_parse_advance(p));
        if (p->token.kind == PP_T_CLOSE_BLOCK) break;
        PP_TRY(parse_any_part(p, d));
        if (p->token.kind != PP_T_LINE && p->token.kind != PP_T_CLOSE_BLOCK && p->before != PP_T_CLOSE_BLOCK)
            return pp_parse_expected(p, "an operator, the end of the line or `}`");
    }
    if (d->lift.body == NULL) return pp_parse_fail(p, d->at, "the fold has no `lift`, expected `lift = …`");
    if (d->join.body == NULL)
        return pp_parse_fail(p, d->at, "the fold has no `join`, expected `join(a, b) = …`");
    return pp_parse_advance(p);
}

/* Every call of a fold may give `axis` and `keepdims`, so they are no parameters of its own. */
static ppto_status check_fold_params(pp_parser *p, const pp_definition *d)
{
    for (size_t i = 0; i < d->n_params; i++)
        if (strcmp(d->param[i].name, "axis") == 0 || strcmp(d->param[i].name, "keepdims") == 0)
            return pp_parse_fail(p, d->param[i].at,
                                 "every fold has the parameter `%s`, expected none of its own",
                                 d->param[i].name);
    return PPTO_OK;
}

ppto_status pp_parse_fold(pp_parser *p)
{
    pp_definition *d;
    const char *doc = pp_token_doc(p->unit, &p->token);
    if (doc == NULL) return pp_fail(p->err, PPTO_E_NOMEM, "out of memory");
    PP_TRY(pp_parse_advance(p));
    bool ordered = pp_parse_at(p, "ordered") && p->next.kind == PP_T_NAME;
    if (ordered) PP_TRY(pp_parse_advance(p));
    PP_TRY(pp_parse_head(p, &d));
    PP_TRY(check_fold_params(p, d));
    d->doc = doc;
    d->is_fold = true;
    d->ordered = ordered;
    if (p->token.kind == PP_T_LINE) PP_TRY(pp_parse_advance(p));
    PP_TRY(parse_states(p, d));
    if (p->token.kind == PP_T_LINE) PP_TRY(pp_parse_advance(p));
    PP_TRY(parse_parts(p, d));
    PP_TRY(pp_parse_no_gradient(p));
    d->end = p->behind;
    *p->definitions = d;
    p->definitions = &d->next;
    return PPTO_OK;
}
