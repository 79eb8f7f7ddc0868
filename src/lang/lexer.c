/* SPDX-License-Identifier: Apache-2.0
 * Text to tokens.
 *
 * The source is checked once to be UTF-8 without NUL; after that only strings and comments may hold bytes
 * beyond ASCII. Line ends count only outside ( and [, which the lexer counts itself, so that a token of
 * lookahead never depends on what the parser does. A run of line ends, `;` and comments is one token: a text
 * of nothing but separators costs one. `## ` lines with nothing before them collect until the next token; an
 * empty line drops them. */
#include <string.h>

#include "lang/lexer.h"
#include "lang/parser_state.h"

static const struct {
    char text[9];
    uint8_t kind;
} words[] = {
    {"if", PP_T_IF},           {"else", PP_T_ELSE},     {"for", PP_T_FOR},   {"in", PP_T_IN},
    {"not", PP_T_NOT},         {"and", PP_T_AND},       {"or", PP_T_OR},     {"true", PP_T_TRUE},
    {"false", PP_T_FALSE},     {"none", PP_T_NONE},     {"None", PP_T_NONE}, {"newaxis", PP_T_NONE},
    {"require", PP_T_REQUIRE}, {"output", PP_T_OUTPUT},
};

/* Longest first where one begins another. */
static const struct {
    char text[4];
    uint8_t n, kind;
} signs[] = {
    {"(", 1, PP_T_OPEN},
    {")", 1, PP_T_CLOSE},
    {"[", 1, PP_T_OPEN_LIST},
    {"]", 1, PP_T_CLOSE_LIST},
    {"{", 1, PP_T_OPEN_BLOCK},
    {"}", 1, PP_T_CLOSE_BLOCK},
    {",", 1, PP_T_COMMA},
    {":", 1, PP_T_COLON},
    {"...", 3, PP_T_ELLIPSIS},
    {".", 1, PP_T_DOT},
    {"==", 2, PP_T_INFIX + PP_I_EQ},
    {"=", 1, PP_T_ASSIGN},
    {"!=", 2, PP_T_INFIX + PP_I_NE},
    {"<<", 2, PP_T_INFIX + PP_I_SHL},
    {"<=", 2, PP_T_INFIX + PP_I_LE},
    {"<", 1, PP_T_INFIX + PP_I_LT},
    {">>", 2, PP_T_INFIX + PP_I_SHR},
    {">=", 2, PP_T_INFIX + PP_I_GE},
    {">", 1, PP_T_INFIX + PP_I_GT},
    {"->", 2, PP_T_ARROW},
    {"-", 1, PP_T_INFIX + PP_I_SUB},
    {"+", 1, PP_T_INFIX + PP_I_ADD},
    {"**", 2, PP_T_INFIX + PP_I_POW},
    {"*", 1, PP_T_INFIX + PP_I_MUL},
    {"//", 2, PP_T_INFIX + PP_I_FLOORDIV},
    {"/", 1, PP_T_INFIX + PP_I_DIV},
    {"%", 1, PP_T_INFIX + PP_I_MOD},
    {"@", 1, PP_T_INFIX + PP_I_MATMUL},
    {"&", 1, PP_T_INFIX + PP_I_AND},
    {"^", 1, PP_T_INFIX + PP_I_XOR},
    {"|", 1, PP_T_INFIX + PP_I_OR},
    {"~", 1, PP_T_INFIX + PP_I_INVERT},
};

/* Signs of other languages, and what is written here. */
static const struct {
    char text[3];
    const char *hint;
} foreign[] = {
    {"&&", "`&&` is not an operator, use `&` on tensors and `and` on parameters"},
    {"||", "`||` is not an operator, use `|` on tensors and `or` on parameters"},
    {"!", "`!` is not an operator, use `~` on tensors and `not` on parameters"},
    {"?", "`?` is not an operator, use `a if c else b` on parameters and where(c, a, b) on tensors"},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex_digit(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

ppto_status pp_lexer_start(pp_lexer *lexer, const pp_unit *unit, pp_error *err)
{
    const char *s = unit->source;
    for (size_t i = 0; i < unit->length;) {
        size_t n = pp_unit_character(s + i, unit->length - i);
        if (n == 0)
            return pp_unit_fail(unit, (uint32_t)i, err, PPTO_E_SYNTAX,
                                "the byte 0x%02x is not text, expected UTF-8", (unsigned char)s[i]);
        i += n;
    }
    *lexer = (pp_lexer){.unit = unit, .fresh = true};
    if (unit->length >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0) lexer->at = 3;
    return PPTO_OK;
}

/* Skips a comment up to its line end; a `## ` line that stands alone joins the pending documentation. */
static void skip_comment(pp_lexer *lexer)
{
    const char *s = lexer->unit->source;
    uint32_t begin = lexer->at;
    while (s[lexer->at] != '\n' && lexer->at < lexer->unit->length) lexer->at++;
    if (lexer->fresh && s[begin + 1] == '#' && s[begin + 2] != '#') {
        if (lexer->doc == lexer->doc_end) lexer->doc = begin;
        lexer->doc_end = lexer->at;
    }
    lexer->fresh = false;
}

/* Skips blanks, comments, line ends and separators. True when a line ended; *where is the first such place.
 */
static bool skip_blanks(pp_lexer *lexer, uint32_t *where)
{
    const char *s = lexer->unit->source;
    bool ended = false;
    for (;; lexer->at++) {
        while (s[lexer->at] == '#') skip_comment(lexer);
        char c = s[lexer->at];
        bool line = c == '\n', separator = c == ';' && lexer->round == 0;
        if (line && lexer->fresh) lexer->doc = lexer->doc_end = 0;
        if (line) lexer->fresh = true;
        if ((line || separator) && lexer->round == 0) {
            if (!ended) *where = lexer->at;
            ended = true;
        } else if (!line && c != ' ' && c != '\t' && !(c == '\r' && s[lexer->at + 1] == '\n')) {
            return ended;
        }
    }
}

static uint32_t skip_digits(const char *s, uint32_t at, bool hex)
{
    while (hex ? is_hex_digit(s[at]) : is_digit(s[at])) at++;
    return at;
}

/* The end of a number; *is_float is set. 0 when it is malformed. */
static uint32_t scan_number(const char *s, uint32_t at, bool *is_float)
{
    bool hex = s[at] == '0' && (s[at + 1] == 'x' || s[at + 1] == 'X');
    uint32_t begin = hex ? at + 2 : at;
    at = skip_digits(s, begin, hex);
    uint32_t digits = at - begin;
    bool point = s[at] == '.' && s[at + 1] != '.';
    if (point) {
        begin = at + 1;
        at = skip_digits(s, begin, hex);
        digits += at - begin;
    }
    bool exponent = hex ? s[at] == 'p' || s[at] == 'P' : s[at] == 'e' || s[at] == 'E';
    if (digits == 0 || (hex && point && !exponent)) return 0;
    if (exponent) {
        at += s[at + 1] == '+' || s[at + 1] == '-' ? 2 : 1;
        if (!is_digit(s[at])) return 0;
        at = skip_digits(s, at, false);
    }
    if (is_letter(s[at]) || is_digit(s[at]) || (s[at] == '.' && is_digit(s[at + 1]))) return 0;
    *is_float = point || exponent;
    return at;
}

static ppto_status lex_number(pp_lexer *lexer, pp_token *out, pp_error *err)
{
    bool is_float = false;
    uint32_t end = scan_number(lexer->unit->source, out->at, &is_float);
    if (end == 0)
        return pp_unit_fail(lexer->unit, out->at, err, PPTO_E_SYNTAX,
                            "malformed number, expected one like 12, 1.5, 1e-5, 0xff or 0x1.8p3");
    if (end - out->at > PP_LIMIT_NUMBER)
        return pp_unit_fail(lexer->unit, out->at, err, PPTO_E_LIMIT, "a number has more than %d characters",
                            PP_LIMIT_NUMBER);
    out->kind = is_float ? PP_T_FLOAT : PP_T_INT;
    lexer->at = end;
    return PPTO_OK;
}

static ppto_status lex_string(pp_lexer *lexer, pp_token *out, pp_error *err)
{
    const char *s = lexer->unit->source;
    char quote = s[out->at];
    uint32_t at = out->at + 1;
    for (; s[at] != quote; at++) {
        if (at >= lexer->unit->length || s[at] == '\n')
            return pp_unit_fail(lexer->unit, out->at, err, PPTO_E_SYNTAX,
                                "the string does not end on its line, expected %c", quote);
        if (s[at] != '\\') continue;
        at++;
        if (s[at] == '\0' || strchr("\"'\\nt", s[at]) == NULL)
            return pp_unit_fail(lexer->unit, at - 1, err, PPTO_E_SYNTAX,
                                "unknown escape in a string, expected \\\" \\' \\\\ \\n or \\t");
    }
    out->kind = PP_T_STRING;
    lexer->at = at + 1;
    return PPTO_OK;
}

static void lex_name(pp_lexer *lexer, pp_token *out)
{
    const char *s = lexer->unit->source;
    while (is_letter(s[lexer->at]) || is_digit(s[lexer->at])) lexer->at++;
    out->n = lexer->at - out->at;
    out->kind = PP_T_NAME;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (pp_token_is(lexer->unit, out, words[i].text)) out->kind = words[i].kind;
}

static ppto_status lex_sign(pp_lexer *lexer, pp_token *out, pp_error *err)
{
    const char *s = lexer->unit->source + out->at;
    for (size_t i = 0; i < sizeof foreign / sizeof foreign[0]; i++)
        if (strncmp(s, foreign[i].text, strlen(foreign[i].text)) == 0 && strncmp(s, "!=", 2) != 0)
            return pp_unit_fail(lexer->unit, out->at, err, PPTO_E_SYNTAX, "%s", foreign[i].hint);
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (s[0] != signs[i].text[0] || strncmp(s, signs[i].text, signs[i].n) != 0) continue;
        out->kind = signs[i].kind;
        lexer->at += signs[i].n;
        if (out->kind == PP_T_OPEN || out->kind == PP_T_OPEN_LIST) lexer->round++;
        if ((out->kind == PP_T_CLOSE || out->kind == PP_T_CLOSE_LIST) && lexer->round > 0) lexer->round--;
        return PPTO_OK;
    }
    if (s[0] == ';')
        return pp_unit_fail(lexer->unit, out->at, err, PPTO_E_SYNTAX,
                            "found `;` inside brackets, expected `)` or `]`");
    return pp_unit_fail(lexer->unit, out->at, err, PPTO_E_SYNTAX,
                        "unexpected character, expected a name, a number or an operator");
}

ppto_status pp_lexer_next(pp_lexer *lexer, pp_token *out, pp_error *err)
{
    const char *s = lexer->unit->source;
    *out = (pp_token){0};
    if (skip_blanks(lexer, &out->at)) {
        out->kind = PP_T_LINE;
        out->n = 1;
        return PPTO_OK;
    }
    *out = (pp_token){.at = lexer->at, .doc = lexer->doc, .doc_end = lexer->doc_end};
    lexer->doc = lexer->doc_end = 0;
    lexer->fresh = false;
    if (lexer->at >= lexer->unit->length) return PPTO_OK;
    char c = s[lexer->at];
    if (is_letter(c)) {
        lex_name(lexer, out);
    } else if (is_digit(c) || (c == '.' && is_digit(s[lexer->at + 1]))) {
        PP_TRY(lex_number(lexer, out, err));
    } else if (c == '"' || c == '\'') {
        PP_TRY(lex_string(lexer, out, err));
    } else if (c == '$' && is_digit(s[lexer->at + 1])) {
        lexer->at = skip_digits(s, lexer->at + 1, false);
        out->kind = PP_T_PASSED;
    } else {
        PP_TRY(lex_sign(lexer, out, err));
    }
    out->n = lexer->at - out->at;
    return PPTO_OK;
}

bool pp_token_is(const pp_unit *unit, const pp_token *token, const char *text)
{
    const char *s = unit->source + token->at;
    return token->n != 0 && s[0] == text[0] && strlen(text) == token->n && memcmp(s, text, token->n) == 0;
}

const char *pp_token_doc(pp_unit *unit, const pp_token *token)
{
    const char *s = unit->source;
    char *out = pp_arena_alloc(&unit->arena, (size_t)(token->doc_end - token->doc) + 1);
    size_t n = 0;
    if (out == NULL) return NULL;
    for (uint32_t at = token->doc; at < token->doc_end; at++) {
        uint32_t end = at;
        while (end < token->doc_end && s[end] != '\n') end++;
        while (at < end && (s[at] == ' ' || s[at] == '\t')) at++;
        if (end - at >= 2 && s[at] == '#' && s[at + 1] == '#') {
            at += s[at + 2] == ' ' && at + 2 < end ? 3 : 2;
            uint32_t stop = end;
            while (stop > at && (s[stop - 1] == ' ' || s[stop - 1] == '\r')) stop--;
            if (n != 0) out[n++] = '\n';
            memcpy(out + n, s + at, stop - at);
            n += stop - at;
        }
        at = end;
    }
    return out;
}
