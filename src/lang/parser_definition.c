/* SPDX-License-Identifier: Apache-2.0
 * Definitions of operators with their parameters, aliases and the inputs of a program.
 *
 * What a spec word means depends on the parameter: with a default or `param` before it, `int` is a number
 * fixed when the node is recorded; without, a tensor of integers. `ints axes str dtype` are always fixed,
 * `tensors` never is. What the language has words for but this version does not read (index notation, loops,
 * gradients) is named. */
#include <string.h>

#include "lang/parser_state.h"

static const struct {
    char word[8];
    uint8_t tensor, fixed; /* pp_spec as a tensor and as a parameter */
    bool always_fixed;
} specs[] = {
    {"any", PP_SPEC_ANY, PP_SPEC_P_ANY, false},
    {"num", PP_SPEC_NUM, PP_SPEC_P_NUM, false},
    {"float", PP_SPEC_FLOAT, PP_SPEC_P_FLOAT, false},
    {"int", PP_SPEC_INT, PP_SPEC_P_INT, false},
    {"bool", PP_SPEC_BOOL, PP_SPEC_P_BOOL, false},
    {"ints", 0, PP_SPEC_P_INTS, true},
    {"axes", 0, PP_SPEC_P_AXES, true},
    {"str", 0, PP_SPEC_P_STR, true},
    {"dtype", 0, PP_SPEC_P_DTYPE, true},
};

static ppto_status limit_dims(pp_parser *p, unsigned n)
{
    if (n < PPTO_MAX_RANK) return PPTO_OK;
    return pp_unit_fail(p->unit, p->token.at, p->err, PPTO_E_LIMIT, "a shape has more than %d axes",
                        PPTO_MAX_RANK);
}

static ppto_status parse_literal_size(pp_parser *p, int64_t *out)
{
    pp_expr number = {0};
    pp_literal_number(p->unit, &p->token, &number);
    if (number.wide) return pp_parse_expected(p, "a size below 2**63");
    *out = number.i;
    return pp_parse_advance(p);
}

/* [n, 4, ...] */
static ppto_status parse_shape(pp_parser *p, pp_param *param)
{
    bool rest = false;
    param->has_shape = true;
    PP_TRY(pp_parse_advance(p));
    while (p->token.kind != PP_T_CLOSE_LIST) {
        PP_TRY(limit_dims(p, param->n_dims));
        pp_spec_dim *dim = &param->dim[param->n_dims++];
        if (p->token.kind == PP_T_INT) {
            PP_TRY(parse_literal_size(p, &dim->literal));
        } else if (p->token.kind == PP_T_ELLIPSIS && !rest) {
            dim->rest = rest = true;
            PP_TRY(pp_parse_advance(p));
        } else {
            PP_TRY(pp_parse_name(p, &dim->name,
                                 rest ? "a named size, a number or `]`; `...` stands once"
                                      : "a named size, a number or `...`"));
        }
        if (p->token.kind != PP_T_COMMA) break;
        PP_TRY(pp_parse_advance(p));
    }
    return pp_parse_take(p, PP_T_CLOSE_LIST, "`,` or `]`");
}

static ppto_status parse_spec_word(pp_parser *p, pp_param *param)
{
    static const char *expected = "a spec: any num float int bool tensors, a dtype, or ints axes str dtype";
    ppto_dtype dtype;
    if (p->token.kind != PP_T_NAME) return pp_parse_expected(p, expected);
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        if (!pp_parse_at(p, specs[i].word)) continue;
        param->spec = specs[i].always_fixed ? specs[i].fixed : specs[i].tensor;
        return pp_parse_advance(p);
    }
    if (pp_parse_at(p, "tensors")) {
        param->spec = PP_SPEC_TENSORS;
    } else if (pp_dtype_parse(p->unit->source + p->token.at, p->token.n, &dtype)) {
        param->spec = PP_SPEC_DTYPE_EXACT;
        param->dtype = (uint8_t)dtype;
    } else {
        return pp_parse_expected(p, expected);
    }
    return pp_parse_advance(p);
}

/* A default or `param` fixes a parameter: the tensor spec becomes the one of the same word. */
static ppto_status fix_spec(pp_parser *p, pp_param *param)
{
    if (!pp_param_is_tensor(param)) return PPTO_OK;
    if (param->has_shape || param->spec == PP_SPEC_TENSORS || param->spec == PP_SPEC_DTYPE_EXACT)
        return pp_parse_fail(p, param->at,
                             "`%.60s` is a tensor and cannot be fixed or have a default, expected a "
                             "spec such as int, float, bool or any",
                             param->name);
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        if (specs[i].always_fixed || specs[i].tensor != param->spec) continue;
        param->spec = specs[i].fixed;
        break;
    }
    return PPTO_OK;
}

static ppto_status parse_param(pp_parser *p, pp_param *param)
{
    bool fixed = pp_parse_at(p, "param") && p->next.kind == PP_T_NAME;
    if (fixed) PP_TRY(pp_parse_advance(p));
    param->at = p->token.at;
    PP_TRY(pp_parse_name(p, &param->name, "the name of a parameter"));
    PP_TRY(pp_parse_take(p, PP_T_COLON, "`: spec` after the parameter's name"));
    PP_TRY(parse_spec_word(p, param));
    if (p->token.kind == PP_T_OPEN_LIST) {
        if (!pp_param_is_tensor(param)) return pp_parse_expected(p, "`,` or `)`; only tensors have shapes");
        PP_TRY(parse_shape(p, param));
    }
    if (p->token.kind == PP_T_ASSIGN) {
        PP_TRY(pp_parse_advance(p));
        PP_TRY(pp_parse_expr(p, &param->fallback));
    }
    return fixed || param->fallback != NULL ? fix_spec(p, param) : PPTO_OK;
}

static ppto_status check_new_param(pp_parser *p, const pp_definition *d, const pp_param *params)
{
    const pp_param *last = &params[d->n_params];
    for (size_t i = 0; i < d->n_params; i++)
        if (strcmp(params[i].name, last->name) == 0)
            return pp_parse_fail(p, last->at, "the parameter `%.60s` is given twice, expected another name",
                                 last->name);
    return PPTO_OK;
}

static ppto_status parse_params(pp_parser *p, pp_definition *d)
{
    pp_param *params = NULL;
    size_t room = 0;
    PP_TRY(pp_parse_take(p, PP_T_OPEN, "`(` and the parameters"));
    while (p->token.kind != PP_T_CLOSE) {
        if (d->n_params == PP_LIMIT_PARAMS)
            return pp_unit_fail(p->unit, p->token.at, p->err, PPTO_E_LIMIT, "more than %d parameters",
                                PP_LIMIT_PARAMS);
        if (d->n_params == room) {
            void *larger;
            room = room == 0 ? 4 : room * 2;
            PP_TRY(pp_parse_node(p, room * sizeof *params, &larger));
            if (d->n_params != 0) memcpy(larger, params, d->n_params * sizeof *params);
            d->param = params = larger;
        }
        PP_TRY(parse_param(p, &params[d->n_params]));
        PP_TRY(check_new_param(p, d, params));
        d->n_params++;
        if (p->token.kind != PP_T_COMMA) break;
        PP_TRY(pp_parse_advance(p));
    }
    return pp_parse_take(p, PP_T_CLOSE, "`,` or `)`");
}

ppto_status pp_parse_head(pp_parser *p, pp_definition **out)
{
    void *node;
    PP_TRY(pp_parse_node(p, sizeof **out, &node));
    pp_definition *d = *out = node;
    d->owner = p->unit;
    d->at = p->token.at;
    PP_TRY(pp_parse_name(p, &d->name, "the name of the definition"));
    return parse_params(p, d);
}

ppto_status pp_parse_no_gradient(pp_parser *p)
{
    if (pp_parse_at(p, "grad") && p->next.kind == PP_T_OPEN_BLOCK)
        return pp_parse_unsupported(p, p->token.at, "a gradient of one's own (`grad { }`) is");
    if (pp_parse_at(p, "loop") && (p->next.kind == PP_T_INT || p->next.kind == PP_T_NAME))
        return pp_parse_unsupported(p, p->token.at, "a loop is");
    return PPTO_OK;
}

/* `: y[i] = …`, or a default for `edge` before it. */
static ppto_status no_index_notation(pp_parser *p)
{
    bool edge = pp_parse_at(p, "edge") && p->next.kind == PP_T_ASSIGN;
    if (edge || p->token.kind == PP_T_COLON) return pp_parse_unsupported(p, p->token.at, "index notation is");
    return PPTO_OK;
}

ppto_status pp_parse_operator(pp_parser *p)
{
    pp_definition *d;
    const char *doc = pp_token_doc(p->unit, &p->token);
    if (doc == NULL) return pp_fail(p->err, PPTO_E_NOMEM, "out of memory");
    PP_TRY(pp_parse_advance(p));
    PP_TRY(pp_parse_head(p, &d));
    d->doc = doc;
    if (p->token.kind == PP_T_LINE) PP_TRY(pp_parse_advance(p));
    PP_TRY(no_index_notation(p));
    if (p->token.kind == PP_T_OPEN_BLOCK) {
        PP_TRY(pp_parse_block(p, &d->body));
        if (!p->valued)
            return pp_parse_fail(p, d->at, "the operator has no result, expected a value at its end");
    } else {
        PP_TRY(pp_parse_take(p, PP_T_ASSIGN, "`=` or `{` after the parameters"));
        PP_TRY(pp_parse_stmt_node(p, PP_S_VALUE, p->token.at, &d->body));
        PP_TRY(pp_parse_exprs(p, &d->body->value));
    }
    PP_TRY(pp_parse_no_gradient(p));
    d->end = p->behind;
    *p->definitions = d;
    p->definitions = &d->next;
    return PPTO_OK;
}

ppto_status pp_parse_alias(pp_parser *p)
{
    do {
        void *node;
        PP_TRY(pp_parse_advance(p));
        PP_TRY(pp_parse_node(p, sizeof(pp_alias), &node));
        pp_alias *alias = node;
        alias->at = p->token.at;
        PP_TRY(pp_parse_name(p, &alias->name, "the new name"));
        PP_TRY(pp_parse_take(p, PP_T_ASSIGN, "`= OPERATOR` after the new name"));
        PP_TRY(pp_parse_name(p, &alias->target, "the name of an operator"));
        *p->aliases = alias;
        p->aliases = &alias->next;
    } while (p->token.kind == PP_T_COMMA);
    return PPTO_OK;
}

/* [N, 512] as the text "N, 512". */
static ppto_status parse_dims(pp_parser *p, pp_input_decl *input)
{
    pp_text text = {0};
    ppto_status status = pp_parse_take(p, PP_T_OPEN_LIST, "`[sizes]` after the dtype; a scalar is `f32[]`");
    while (status == PPTO_OK && p->token.kind != PP_T_CLOSE_LIST) {
        status = limit_dims(p, input->rank);
        const char *name = NULL;
        int64_t size = 0;
        if (status == PPTO_OK && p->token.kind == PP_T_INT)
            status = parse_literal_size(p, &size);
        else if (status == PPTO_OK)
            status = pp_parse_name(p, &name, "a named size or a number");
        if (status != PPTO_OK) break;
        const char *comma = input->rank++ != 0 ? ", " : "";
        if (name != NULL)
            pp_text_add(&text, "%s%s", comma, name);
        else
            pp_text_add(&text, "%s%lld", comma, (long long)size);
        if (p->token.kind != PP_T_COMMA) break;
        status = pp_parse_advance(p);
    }
    if (status == PPTO_OK) status = pp_parse_take(p, PP_T_CLOSE_LIST, "`,` or `]`");
    if (status == PPTO_OK) {
        input->dims = text.failed ? NULL : pp_arena_strndup(&p->unit->arena, text.at, text.n);
        if (input->dims == NULL) status = pp_fail(p->err, PPTO_E_NOMEM, "out of memory");
    }
    pp_text_free(&text);
    return status;
}

ppto_status pp_parse_input(pp_parser *p)
{
    do {
        void *node;
        ppto_dtype dtype = PPTO_BOOL;
        PP_TRY(pp_parse_advance(p));
        PP_TRY(pp_parse_node(p, sizeof(pp_input_decl), &node));
        pp_input_decl *input = node;
        input->at = p->token.at;
        PP_TRY(pp_parse_name(p, &input->name, "the name of an input"));
        PP_TRY(pp_parse_take(p, PP_T_COLON, "`: dtype[sizes]` after the input's name"));
        if (p->token.kind != PP_T_NAME || !pp_dtype_parse(p->unit->source + p->token.at, p->token.n, &dtype))
            return pp_parse_expected(p, "a dtype such as f32");
        input->dtype = (uint8_t)dtype;
        PP_TRY(pp_parse_advance(p));
        PP_TRY(parse_dims(p, input));
        *p->inputs = input;
        p->inputs = &input->next;
    } while (p->token.kind == PP_T_COMMA);
    return PPTO_OK;
}
