/* SPDX-License-Identifier: Apache-2.0
 * Text to definitions: the entry, the statements of a program, and what all parts of the parser share.
 *
 * Words such as `op` and `input` are words only where a statement begins and a name follows, so that tensors
 * may bear these names too; `if else for in not and or true false none require output` are reserved
 * everywhere. Whatever is read lives in the arena of the unit, so a failure frees all of it at once. What a
 * name stands for is not asked here: that is the business of those who evaluate the unit. */
#include <stdio.h>
#include <string.h>

#include "lang/parser_state.h"

ppto_status pp_parse_advance(pp_parser *p)
{
    p->before = p->token.kind;
    p->behind = p->token.at + p->token.n;
    p->token = p->next;
    if (p->token.kind == PP_T_END) return PPTO_OK;
    return pp_lexer_next(&p->lexer, &p->next, p->err);
}

ppto_status pp_parse_fail(pp_parser *p, uint32_t at, const char *format, ...)
{
    char what[512];
    va_list args;
    va_start(args, format);
    if (pp_vsnprintf(what, sizeof what, format, args) < 0) what[0] = '\0';
    va_end(args);
    return pp_unit_fail(p->unit, at, p->err, PPTO_E_SYNTAX, "%s", what);
}

ppto_status pp_parse_unsupported(pp_parser *p, uint32_t at, const char *what)
{
    return pp_unit_fail(p->unit, at, p->err, PPTO_E_UNSUPPORTED, "%s not yet supported", what);
}

ppto_status pp_parse_expected(pp_parser *p, const char *expected)
{
    const char *text = p->unit->source + p->token.at;
    if (p->token.kind == PP_T_END)
        return pp_parse_fail(p, p->token.at, "the text ends here, expected %s", expected);
    if (p->token.kind == PP_T_LINE && *text != ';')
        return pp_parse_fail(p, p->token.at, "the line ends here, expected %s", expected);
    int n = p->token.n < 40 ? (int)p->token.n : 40;
    while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) n--;
    return pp_parse_fail(p, p->token.at, "found `%.*s`, expected %s", n, text, expected);
}

ppto_status pp_parse_take(pp_parser *p, unsigned kind, const char *expected)
{
    if (p->token.kind != kind) return pp_parse_expected(p, expected);
    return pp_parse_advance(p);
}

ppto_status pp_parse_enter(pp_parser *p)
{
    if (p->depth >= PP_LIMIT_NESTING)
        return pp_unit_fail(p->unit, p->token.at, p->err, PPTO_E_LIMIT, "nested more than %d deep",
                            PP_LIMIT_NESTING);
    p->depth++;
    return PPTO_OK;
}

ppto_status pp_parse_node(pp_parser *p, size_t bytes, void **out)
{
    if (p->nodes >= PP_LIMIT_NODES)
        return pp_unit_fail(p->unit, p->token.at, p->err, PPTO_E_LIMIT, "the text has more than %d parts",
                            PP_LIMIT_NODES);
    p->nodes++;
    *out = pp_arena_alloc(&p->unit->arena, bytes);
    return *out != NULL ? PPTO_OK : pp_fail(p->err, PPTO_E_NOMEM, "out of memory");
}

ppto_status pp_parse_copy(pp_parser *p, const pp_token *token, const char **out)
{
    *out = pp_arena_strndup(&p->unit->arena, p->unit->source + token->at, token->n);
    return *out != NULL ? PPTO_OK : pp_fail(p->err, PPTO_E_NOMEM, "out of memory");
}

bool pp_parse_at(const pp_parser *p, const char *word)
{
    return p->token.kind == PP_T_NAME && pp_token_is(p->unit, &p->token, word);
}

bool pp_parse_reserved(const pp_unit *unit, const pp_token *token)
{
    ppto_dtype dtype;
    return pp_token_is(unit, token, "pi") || pp_token_is(unit, token, "inf") ||
           pp_token_is(unit, token, "nan") || pp_dtype_parse(unit->source + token->at, token->n, &dtype);
}

ppto_status pp_parse_name(pp_parser *p, const char **out, const char *expected)
{
    if (p->token.kind != PP_T_NAME) return pp_parse_expected(p, expected);
    if (pp_parse_reserved(p->unit, &p->token))
        return pp_parse_fail(p, p->token.at, "`%.*s` is a word of the language, expected %s", (int)p->token.n,
                             p->unit->source + p->token.at, expected);
    PP_TRY(pp_parse_copy(p, &p->token, out));
    return pp_parse_advance(p);
}

/* output a = e, b = e2: one statement each. */
static ppto_status parse_outputs(pp_parser *p, pp_stmt ***tail)
{
    do {
        PP_TRY(pp_parse_advance(p));
        pp_stmt *stmt;
        PP_TRY(pp_parse_stmt_node(p, PP_S_OUTPUT, p->token.at, &stmt));
        if (p->token.kind == PP_T_NAME && p->next.kind == PP_T_ASSIGN) {
            void *name;
            PP_TRY(pp_parse_node(p, sizeof *stmt->names, &name));
            stmt->names = name;
            stmt->names->at = p->token.at;
            PP_TRY(pp_parse_name(p, &stmt->names->text, "the name of an output"));
            PP_TRY(pp_parse_advance(p));
        }
        PP_TRY(pp_parse_expr(p, &stmt->value));
        **tail = stmt;
        *tail = &stmt->next;
    } while (p->token.kind == PP_T_COMMA);
    return PPTO_OK;
}

typedef struct word {
    const char *text;
    ppto_status (*parse)(pp_parser *p);
    bool library, program; /* where it may stand */
} word;

static const word words[] = {
    {"op", pp_parse_operator, true, true},
    {"fold", pp_parse_fold, true, true},
    {"alias", pp_parse_alias, true, false},
    {"input", pp_parse_input, false, true},
};

static const word *find_word(const pp_parser *p)
{
    if (p->next.kind != PP_T_NAME) return NULL;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (pp_parse_at(p, words[i].text)) return &words[i];
    return NULL;
}

static ppto_status parse_item(pp_parser *p, pp_parse_mode mode, pp_stmt ***tail, bool *valued)
{
    uint32_t at = p->token.at;
    const word *found = find_word(p);
    PP_TRY(pp_parse_no_gradient(p));
    if (found != NULL) {
        if (mode == PP_PARSE_LIBRARY && !found->library)
            return pp_parse_fail(p, at, "`%s` in a library, expected `op`, `fold` or `alias`", found->text);
        if (mode == PP_PARSE_PROGRAM && !found->program)
            return pp_parse_fail(p, at, "`%s` in a program, expected it in a library", found->text);
        return found->parse(p);
    }
    if (mode == PP_PARSE_LIBRARY) return pp_parse_expected(p, "`op`, `fold` or `alias`");
    if (*valued && p->token.kind >= PP_T_INFIX)
        return pp_parse_fail(
            p, at,
            "a line begins with an operator, expected brackets around an expression of several "
            "lines");
    if (*valued)
        return pp_parse_fail(p, at,
                             "a statement after the program's value, expected the value last; "
                             "results before the end are written `output y`");
    if (p->token.kind == PP_T_OUTPUT) return parse_outputs(p, tail);
    pp_stmt *stmt;
    PP_TRY(pp_parse_statement(p, &stmt));
    *valued = p->valued;
    **tail = stmt;
    *tail = &stmt->next;
    return PPTO_OK;
}

static ppto_status parse_items(pp_parser *p, pp_parse_mode mode)
{
    pp_stmt **tail = &p->unit->body;
    bool valued = false;
    for (;;) {
        while (p->token.kind == PP_T_LINE) PP_TRY(pp_parse_advance(p));
        if (p->token.kind == PP_T_END) break;
        PP_TRY(parse_item(p, mode, &tail, &valued));
        if (p->token.kind != PP_T_LINE && p->token.kind != PP_T_END && p->before != PP_T_CLOSE_BLOCK)
            return pp_parse_expected(p, "an operator or the end of the line");
    }
    if (mode == PP_PARSE_PROGRAM && p->unit->body == NULL && p->unit->definitions == NULL &&
        p->unit->inputs == NULL)
        return pp_parse_expected(p, "an expression or a program");
    return PPTO_OK;
}

static ppto_status parse_unit(pp_unit *unit, pp_parse_mode mode, pp_error *err)
{
    pp_parser p = {.unit = unit, .err = err};
    p.definitions = &unit->definitions;
    p.aliases = &unit->aliases;
    p.inputs = &unit->inputs;
    ppto_status status = pp_lexer_start(&p.lexer, unit, err);
    if (status == PPTO_OK) status = pp_lexer_next(&p.lexer, &p.token, err);
    if (status == PPTO_OK && p.token.kind != PP_T_END) status = pp_lexer_next(&p.lexer, &p.next, err);
    if (status == PPTO_OK) status = parse_items(&p, mode);
    pp_vec_free(&p.frames);
    pp_vec_free(&p.blocks);
    return status;
}

ppto_status pp_parse_part(const char *text, size_t length, const char *file, uint32_t lines_above,
                          pp_parse_mode mode, pp_unit **out, pp_error *err)
{
    *out = NULL;
    if (file == NULL) file = "<text>";
    if (length > PP_LIMIT_LENGTH)
        return pp_fail(err, PPTO_E_LIMIT, "%s: the text has %zu bytes, expected at most %d", file, length,
                       PP_LIMIT_LENGTH);
    pp_unit *unit = pp_calloc(1, sizeof *unit);
    if (unit == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    unit->source = pp_arena_strndup(&unit->arena, text, length);
    unit->length = length;
    unit->lines_above = lines_above;
    unit->file = pp_arena_strndup(&unit->arena, file, strlen(file));
    ppto_status status = unit->source != NULL && unit->file != NULL
                             ? parse_unit(unit, mode, err)
                             : pp_fail(err, PPTO_E_NOMEM, "out of memory");
    if (status != PPTO_OK) {
        pp_unit_destroy(unit);
        return status;
    }
    *out = unit;
    return PPTO_OK;
}

ppto_status pp_parse(const char *text, size_t length, const char *file, pp_parse_mode mode, pp_unit **out,
                     pp_error *err)
{
    return pp_parse_part(text, length, file, 0, mode, out, err);
}

void pp_unit_destroy(pp_unit *unit)
{
    if (unit == NULL) return;
    pp_arena_free(&unit->arena);
    pp_free(unit);
}
