/* SPDX-License-Identifier: Apache-2.0
 * Statements and blocks.
 *
 * A statement is first read as a list of expressions; an `=` after it makes its names the left side of an
 * assignment. So nothing has to be guessed ahead, and subscripts on a left side can be told apart as index
 * notation. Open blocks are kept in p->blocks: one loop reads statements into the block on top and closes it
 * at `}`. The else side made of one `else if` is a block of its own that is implied and closes together with
 * that `if`. Whether a block ends in a value is known when it closes, and the two sides of an `if` must agree
 * in it. */
#include "lang/parser_state.h"

ppto_status pp_parse_stmt_node(pp_parser *p, unsigned kind, uint32_t at, pp_stmt **out)
{
    void *node;
    PP_TRY(pp_parse_node(p, sizeof **out, &node));
    *out = node;
    (*out)->kind = (uint8_t)kind;
    (*out)->at = at;
    return PPTO_OK;
}

/* The expressions on the left of `=` as names. */
static ppto_status take_names(pp_parser *p, const pp_expr *left, pp_name **out)
{
    for (const pp_expr *e = left; e != NULL; e = e->next) {
        pp_token text = {.kind = PP_T_NAME, .at = e->at};
        for (const char *c = e->name; c != NULL && *c != '\0'; c++) text.n++;
        if (e->kind == PP_E_INDEX)
            return pp_parse_unsupported(p, e->at, "index notation on the left of `=` is");
        if (e->kind == PP_E_FLOAT || (e->kind == PP_E_NAME && pp_parse_reserved(p->unit, &text)))
            return pp_parse_fail(p, e->at,
                                 "this is a word of the language, expected a name on the left of `=`");
        if (e->kind != PP_E_NAME || e->name[0] == '$')
            return pp_parse_fail(p, e->at, "only a name can be assigned to, expected `name = value`");
        void *node;
        PP_TRY(pp_parse_node(p, sizeof **out, &node));
        *out = node;
        (*out)->text = e->name;
        (*out)->at = e->at;
        out = &(*out)->next;
    }
    return PPTO_OK;
}

static ppto_status parse_assign_or_value(pp_parser *p, pp_stmt **out)
{
    pp_stmt *stmt;
    PP_TRY(pp_parse_stmt_node(p, PP_S_VALUE, p->token.at, &stmt));
    PP_TRY(pp_parse_exprs(p, &stmt->value));
    *out = stmt;
    p->valued = p->token.kind != PP_T_ASSIGN;
    if (p->valued) return PPTO_OK;
    stmt->kind = PP_S_ASSIGN;
    PP_TRY(take_names(p, stmt->value, &stmt->names));
    PP_TRY(pp_parse_advance(p));
    stmt->value = NULL;
    PP_TRY(pp_parse_expr(p, &stmt->value));
    if (p->token.kind == PP_T_ASSIGN) return pp_parse_expected(p, "the end of the line; a line assigns once");
    return PPTO_OK;
}

static ppto_status parse_require(pp_parser *p, pp_stmt **out)
{
    PP_TRY(pp_parse_stmt_node(p, PP_S_REQUIRE, p->token.at, out));
    PP_TRY(pp_parse_advance(p));
    PP_TRY(pp_parse_expr(p, &(*out)->value));
    PP_TRY(pp_parse_take(p, PP_T_COMMA, "`, \"message\"` after the condition"));
    if (p->token.kind != PP_T_STRING) return pp_parse_expected(p, "the message in quotes");
    (*out)->message = pp_literal_string(p->unit, &p->token);
    if ((*out)->message == NULL) return pp_fail(p->err, PPTO_E_NOMEM, "out of memory");
    p->valued = false;
    return pp_parse_advance(p);
}

static ppto_status open_block(pp_parser *p, pp_block block)
{
    PP_TRY(pp_parse_enter(p));
    if (pp_vec_push(&p->blocks, block) != PPTO_OK) return pp_fail(p->err, PPTO_E_NOMEM, "out of memory");
    return PPTO_OK;
}

static pp_block close_block(pp_parser *p)
{
    p->depth--;
    return p->blocks.at[--p->blocks.n];
}

/* if CONDITION { : the statement is appended to *tail and its first block is open. */
static ppto_status open_if(pp_parser *p, pp_stmt **tail)
{
    pp_stmt *stmt;
    PP_TRY(pp_parse_stmt_node(p, PP_S_IF, p->token.at, &stmt));
    PP_TRY(pp_parse_advance(p));
    PP_TRY(pp_parse_expr(p, &stmt->value));
    PP_TRY(pp_parse_take(p, PP_T_OPEN_BLOCK, "`{` after the condition"));
    *tail = stmt;
    return open_block(p, (pp_block){.branch = stmt, .tail = &stmt->then});
}

static ppto_status both_or_neither(pp_parser *p, const pp_block *otherwise)
{
    if (otherwise->then_valued == otherwise->valued) return PPTO_OK;
    return pp_parse_fail(p, otherwise->branch->at,
                         "one side of the `if` ends in a value, expected both to do so or neither");
}

/* An `if` is complete: so are the implied else sides around it. */
static ppto_status finish_if(pp_parser *p, size_t base, bool valued)
{
    while (p->blocks.n > base && p->blocks.at[p->blocks.n - 1].implied) {
        pp_block block = close_block(p);
        block.valued = valued;
        PP_TRY(both_or_neither(p, &block));
    }
    if (p->blocks.n > base) p->blocks.at[p->blocks.n - 1].valued = valued;
    p->valued = valued;
    return PPTO_OK;
}

/* After the `}` of the first side. */
static ppto_status parse_otherwise(pp_parser *p, size_t base, const pp_block *then)
{
    if (p->token.kind == PP_T_LINE && p->next.kind == PP_T_ELSE) PP_TRY(pp_parse_advance(p));
    if (p->token.kind != PP_T_ELSE) {
        if (then->valued)
            return pp_parse_fail(p, then->branch->at,
                                 "the `if` ends in a value and has no `else`, expected one");
        return finish_if(p, base, false);
    }
    PP_TRY(pp_parse_advance(p));
    pp_block block = {.branch = then->branch, .otherwise = true, .then_valued = then->valued};
    block.tail = &then->branch->otherwise;
    block.implied = p->token.kind == PP_T_IF;
    if (!block.implied) PP_TRY(pp_parse_take(p, PP_T_OPEN_BLOCK, "`{` or `if` after `else`"));
    PP_TRY(open_block(p, block));
    return block.implied ? open_if(p, block.tail) : PPTO_OK;
}

static ppto_status parse_close(pp_parser *p, size_t base)
{
    pp_block block = close_block(p);
    PP_TRY(pp_parse_advance(p));
    p->valued = block.valued;
    if (block.branch == NULL) return PPTO_OK;
    if (!block.otherwise) return parse_otherwise(p, base, &block);
    PP_TRY(both_or_neither(p, &block));
    return finish_if(p, base, block.valued);
}

static ppto_status parse_inner(pp_parser *p)
{
    pp_block *block = &p->blocks.at[p->blocks.n - 1];
    pp_stmt **tail = block->tail, *stmt;
    if (block->valued)
        return pp_parse_fail(p, p->token.at, "a statement after the block's value, expected the value last");
    PP_TRY(pp_parse_no_gradient(p));
    if (p->token.kind == PP_T_IF) {
        size_t own = p->blocks.n - 1;
        PP_TRY(open_if(p, tail));
        p->blocks.at[own].tail = &(*tail)->next;
        return PPTO_OK;
    }
    if (p->token.kind == PP_T_REQUIRE)
        PP_TRY(parse_require(p, &stmt));
    else
        PP_TRY(parse_assign_or_value(p, &stmt));
    *tail = stmt;
    block->tail = &stmt->next;
    block->valued = p->valued;
    if (p->token.kind == PP_T_LINE || p->token.kind == PP_T_CLOSE_BLOCK) return PPTO_OK;
    return pp_parse_expected(p, "an operator, the end of the line or `}`");
}

/* Reads until the blocks above `base` are closed. */
static ppto_status run_blocks(pp_parser *p, size_t base)
{
    while (p->blocks.n > base) {
        if (p->token.kind == PP_T_LINE)
            PP_TRY(pp_parse_advance(p));
        else if (p->token.kind == PP_T_CLOSE_BLOCK)
            PP_TRY(parse_close(p, base));
        else if (p->token.kind == PP_T_END)
            return pp_parse_expected(p, "`}`");
        else
            PP_TRY(parse_inner(p));
    }
    return PPTO_OK;
}

ppto_status pp_parse_statement(pp_parser *p, pp_stmt **out)
{
    size_t base = p->blocks.n;
    if (p->token.kind == PP_T_REQUIRE) return parse_require(p, out);
    if (p->token.kind != PP_T_IF) return parse_assign_or_value(p, out);
    PP_TRY(open_if(p, out));
    return run_blocks(p, base);
}

ppto_status pp_parse_block(pp_parser *p, pp_stmt **out)
{
    size_t base = p->blocks.n;
    *out = NULL;
    PP_TRY(pp_parse_take(p, PP_T_OPEN_BLOCK, "`{`"));
    PP_TRY(open_block(p, (pp_block){.tail = out}));
    return run_blocks(p, base);
}
