/* SPDX-License-Identifier: Apache-2.0
 * Values of literals. The lexer has checked form and length, so nothing here can fail but memory. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "base/checked.h"
#include "lang/lexer.h"
#include "lang/parser_state.h"

static int digit_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static bool is_hex(const char *text, size_t n)
{
    return n > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
}

static double read_double(const char *text, size_t n)
{
    char own[PP_LIMIT_NUMBER + 1];
    memcpy(own, text, n);
    own[n] = '\0';
    return pp_read_f64(own, NULL);
}

static bool read_int(const char *text, size_t n, int64_t *out)
{
    int base = is_hex(text, n) ? 16 : 10;
    *out = 0;
    for (size_t i = base == 16 ? 2 : 0; i < n; i++)
        if (!pp_mul_i64(*out, base, out) || !pp_add_i64(*out, digit_value(text[i]), out)) return false;
    return true;
}

void pp_literal_number(const pp_unit *unit, const pp_token *token, pp_expr *out)
{
    const char *text = unit->source + token->at;
    if (token->kind == PP_T_INT && read_int(text, token->n, &out->i)) {
        out->f = (double)out->i;
        return;
    }
    out->i = 0;
    out->f = read_double(text, token->n);
    out->wide = token->kind == PP_T_INT || isinf(out->f);
}

const char *pp_literal_string(pp_unit *unit, const pp_token *token)
{
    const char *text = unit->source + token->at;
    char *out = pp_arena_alloc(&unit->arena, token->n);
    size_t n = 0;
    if (out == NULL) return NULL;
    for (size_t i = 1; i + 1 < token->n; i++) {
        char c = text[i];
        if (c == '\\') {
            c = text[++i];
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c;
        }
        out[n++] = c;
    }
    return out;
}
