/* SPDX-License-Identifier: Apache-2.0
 * What is common to all who read a parsed text: the names of infix operators and the form of a message.
 *
 * A message is three lines: `file:line:column: what, what was expected`, the source line, and a caret. Lines
 * and columns are counted from the byte offset only when a message is made, so that trees carry one number
 * per node. Columns are code points. A long line is cut to a window around the caret, and control characters
 * are shown as blanks, so that a text cannot speak to the reader's terminal; the shown line is UTF-8 even
 * where the text is not. */
#include <stdio.h>
#include <string.h>

#include "ops/definition.h"

enum { SHOWN_COLUMNS = 100, BEFORE_CARET = 60, SHOWN_FILE = 256 };

static const struct {
    const char *sign, *operator_name;
} infix[PP_INFIX_COUNT] = {
    [PP_I_ADD] = {"+", "add"},
    [PP_I_SUB] = {"-", "subtract"},
    [PP_I_MUL] = {"*", "multiply"},
    [PP_I_DIV] = {"/", "divide"},
    [PP_I_FLOORDIV] = {"//", "floor_divide"},
    [PP_I_MOD] = {"%", "remainder"},
    [PP_I_POW] = {"**", "pow"},
    [PP_I_MATMUL] = {"@", "matmul"},
    [PP_I_SHL] = {"<<", "bitwise_left_shift"},
    [PP_I_SHR] = {">>", "bitwise_right_shift"},
    [PP_I_AND] = {"&", "bitwise_and"},
    [PP_I_XOR] = {"^", "bitwise_xor"},
    [PP_I_OR] = {"|", "bitwise_or"},
    [PP_I_EQ] = {"==", "equal"},
    [PP_I_NE] = {"!=", "not_equal"},
    [PP_I_LT] = {"<", "less"},
    [PP_I_LE] = {"<=", "less_equal"},
    [PP_I_GT] = {">", "greater"},
    [PP_I_GE] = {">=", "greater_equal"},
    [PP_I_NEG] = {"-", "negative"},
    [PP_I_INVERT] = {"~", "bitwise_invert"},
};

const char *pp_infix_operator(pp_infix op)
{
    return (unsigned)op < PP_INFIX_COUNT ? infix[op].operator_name : "?";
}

const char *pp_infix_sign(pp_infix op)
{
    return (unsigned)op < PP_INFIX_COUNT ? infix[op].sign : "?";
}

size_t pp_unit_character(const char *s, size_t room)
{
    unsigned char a = (unsigned char)s[0];
    if (a < 0x80) return a != 0;
    size_t n = a >= 0xc2 && a <= 0xdf ? 2 : (a & 0xf0) == 0xe0 ? 3 : a >= 0xf0 && a <= 0xf4 ? 4 : 0;
    if (n > room) return 0;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)s[i] & 0xc0) != 0x80) return 0;
    unsigned char b = n != 0 ? (unsigned char)s[1] : 0;
    bool overlong = (a == 0xe0 && b < 0xa0) || (a == 0xf0 && b < 0x90);
    bool outside = (a == 0xed && b > 0x9f) || (a == 0xf4 && b > 0x8f);
    return overlong || outside ? 0 : n;
}

/* Copies the characters [first, first + count) of a line; control characters become blanks, malformed bytes
 * `?`. */
static void copy_window(const char *line, size_t length, size_t first, size_t count, char *out)
{
    size_t column = 0, n = 0;
    for (size_t i = 0; i < length && column < first + count; column++) {
        size_t size = pp_unit_character(line + i, length - i);
        unsigned char c = (unsigned char)line[i];
        if (column >= first) {
            if (size <= 1)
                out[n++] = size == 0 && c != 0 ? '?' : c < 0x20 || c == 0x7f ? ' ' : line[i];
            else
                memcpy(out + n, line + i, size), n += size;
        }
        i += size != 0 ? size : 1;
    }
    out[n] = '\0';
}

static size_t characters(const char *text, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; count++) {
        size_t size = pp_unit_character(text + i, n - i);
        i += size != 0 ? size : 1;
    }
    return count;
}

static const char *shown_file(const char *file)
{
    if (file == NULL) return "<text>";
    size_t n = strlen(file);
    return n > SHOWN_FILE ? file + (n - SHOWN_FILE) : file;
}

ppto_status pp_unit_fail(const pp_unit *unit, uint32_t at, pp_error *err, ppto_status code,
                         const char *format, ...)
{
    if (err == NULL || err->code != PPTO_OK) return code;
    char what[1024], shown[4 * SHOWN_COLUMNS + 8];
    va_list args;
    va_start(args, format);
    if (pp_vsnprintf(what, sizeof what, format, args) < 0) what[0] = '\0';
    va_end(args);

    size_t offset = at < unit->length ? at : unit->length, begin = offset, end = offset,
           line = (size_t)unit->lines_above + 1;
    while (begin > 0 && unit->source[begin - 1] != '\n') begin--;
    while (end < unit->length && unit->source[end] != '\n') end++;
    if (end > begin && unit->source[end - 1] == '\r') end--;
    for (size_t i = 0; i < begin; i++) line += unit->source[i] == '\n';

    size_t column = characters(unit->source + begin, offset - begin);
    size_t first = column > BEFORE_CARET && characters(unit->source + begin, end - begin) > SHOWN_COLUMNS
                       ? column - BEFORE_CARET
                       : 0;
    copy_window(unit->source + begin, end - begin, first, SHOWN_COLUMNS, shown);
    return pp_fail(err, code, "%s:%zu:%zu: %s\n%s\n%*s^", shown_file(unit->file), line, column + 1, what,
                   shown, (int)(column - first), "");
}
