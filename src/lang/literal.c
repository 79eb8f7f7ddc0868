/* SPDX-License-Identifier: Apache-2.0
 * Values of literals.
 *
 * strtod rounds correctly but takes its decimal point from the locale, and a library may not change the
 * locale. So the point is taken out first: 1.5e3 is read as 15e2 and 0x1.8p23 as 0x18p19, which every locale
 * reads alike. The lexer has checked form and length, so nothing here can fail but memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "lang/lexer.h"
#include "lang/parser_state.h"

enum { LARGEST_EXPONENT = 1000000 };

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

/* [+-]digits, saturating. */
static long read_exponent(const char *text, size_t n)
{
    bool negative = n > 0 && text[0] == '-';
    long value = 0;
    for (size_t i = negative || (n > 0 && text[0] == '+') ? 1 : 0; i < n; i++) {
        value = value * 10 + (text[i] - '0');
        if (value > LARGEST_EXPONENT) value = LARGEST_EXPONENT;
    }
    return negative ? -value : value;
}

static double read_double(const char *text, size_t n)
{
    char plain[PP_LIMIT_NUMBER + 32];
    bool hex = is_hex(text, n), point = false;
    size_t length = 0, i = 0;
    long exponent = 0;
    for (; i < n; i++) {
        char c = text[i];
        if (hex ? c == 'p' || c == 'P' : c == 'e' || c == 'E') break;
        if (c == '.') {
            point = true;
            continue;
        }
        plain[length++] = c;
        if (point) exponent -= hex ? 4 : 1;
    }
    if (i < n) exponent += read_exponent(text + i + 1, n - i - 1);
    snprintf(plain + length, sizeof plain - length, "%c%ld", hex ? 'p' : 'e', exponent);
    return strtod(plain, NULL);
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
