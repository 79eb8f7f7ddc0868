/* SPDX-License-Identifier: Apache-2.0
 * Growing text.
 *
 * Printers append without checking each call: the first failed append sets `failed`, later ones do nothing,
 * and the text up to the failure stays readable. JSON strings are always valid: bytes that are no UTF-8
 * become U+FFFD. Where names are suggested ("did you mean"), distance is Levenshtein's on bytes. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/checked.h"

static bool reserve(pp_text *text, size_t more)
{
    size_t want, grown;
    if (text->failed) return false;
    if (!pp_add_size(text->n, more, &want) || !pp_add_size(want, 1, &want)) {
        text->failed = true;
        return false;
    }
    if (want <= text->cap) return true;
    if (!pp_mul_size(text->cap, 2, &grown) || grown < want) grown = want;
    if (grown < 64) grown = 64;
    char *at = pp_realloc(text->at, grown);
    if (at == NULL) {
        text->failed = true;
        return false;
    }
    if (text->at == NULL) at[0] = '\0';
    text->at = at;
    text->cap = grown;
    return true;
}

static void add_bytes(pp_text *text, const char *bytes, size_t n)
{
    if (!reserve(text, n)) return;
    memcpy(text->at + text->n, bytes, n);
    text->n += n;
    text->at[text->n] = '\0';
}

static void add_number(pp_text *text, unsigned value)
{
    char digits[16];
    size_t at = sizeof digits;
    do digits[--at] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    add_bytes(text, digits + at, sizeof digits - at);
}

typedef struct arguments { /* so that they can be passed on and come back read */
    va_list at;
} arguments;

/* What most formats are made of: text, %s, %c and %u. Gives where it stopped: at the end, or before a
 * directive that is left to vsnprintf, with its arguments next. */
static const char *add_plain(pp_text *text, const char *format, arguments *args)
{
    for (;; format += 2) {
        const char *next = strchr(format, '%');
        const size_t n = next != NULL ? (size_t)(next - format) : strlen(format);
        add_bytes(text, format, n);
        format += n;
        if (format[0] == '\0') return format;
        if (format[1] == 's') {
            const char *word = va_arg(args->at, const char *);
            if (word == NULL) word = "(null)";
            add_bytes(text, word, strlen(word));
        } else if (format[1] == 'c') {
            const char byte = (char)va_arg(args->at, int);
            add_bytes(text, &byte, 1);
        } else if (format[1] == 'u') {
            add_number(text, va_arg(args->at, unsigned));
        } else {
            return format;
        }
    }
}

static void add_formatted(pp_text *text, const char *format, va_list args)
{
    if (!reserve(text, 0)) return;
    va_list again;
    va_copy(again, args);
    size_t room = text->cap - text->n;
    int length = pp_vsnprintf(text->at + text->n, room, format, args);
    if (length < 0) {
        text->failed = true;
    } else if ((size_t)length >= room) {
        text->at[text->n] = '\0';
        if (reserve(text, (size_t)length))
            pp_vsnprintf(text->at + text->n, (size_t)length + 1, format, again);
    }
    if (!text->failed) text->n += (size_t)length;
    text->at[text->n] = '\0';
    va_end(again);
}

void pp_text_addv(pp_text *text, const char *format, va_list args)
{
    arguments rest;
    va_copy(rest.at, args);
    format = add_plain(text, format, &rest);
    if (*format != '\0') add_formatted(text, format, rest.at);
    va_end(rest.at);
}

void pp_text_add(pp_text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pp_text_addv(text, format, args);
    va_end(args);
}

/* Length of the UTF-8 sequence at s (NUL-terminated), 0 when it is malformed, overlong or a surrogate. */
static size_t utf8_length(const unsigned char *s)
{
    if (s[0] < 0x80) return 1;
    size_t length = s[0] >= 0xc2 && s[0] <= 0xdf   ? 2
                    : (s[0] & 0xf0) == 0xe0        ? 3
                    : s[0] >= 0xf0 && s[0] <= 0xf4 ? 4
                                                   : 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    if (s[0] == 0xe0 && s[1] < 0xa0) return 0;
    if (s[0] == 0xed && s[1] > 0x9f) return 0;
    if (s[0] == 0xf0 && s[1] < 0x90) return 0;
    if (s[0] == 0xf4 && s[1] > 0x8f) return 0;
    return length;
}

static void add_json_ascii(pp_text *text, unsigned char c)
{
    static const char plain[] = "\"\\\b\f\n\r\t", letter[] = "\"\\bfnrt";
    const char *found = memchr(plain, c, sizeof plain - 1);
    char byte = (char)c;
    if (found != NULL)
        pp_text_add(text, "\\%c", letter[found - plain]);
    else if (c < 0x20 || c == 0x7f)
        pp_text_add(text, "\\u%04x", c);
    else
        add_bytes(text, &byte, 1);
}

void pp_text_json(pp_text *text, const char *string)
{
    const unsigned char *s = (const unsigned char *)string;
    add_bytes(text, "\"", 1);
    while (*s != 0) {
        size_t length = utf8_length(s);
        if (length == 0)
            add_bytes(text, "\\ufffd", 6);
        else if (length == 1)
            add_json_ascii(text, *s);
        else
            add_bytes(text, (const char *)s, length);
        s += length != 0 ? length : 1;
    }
    add_bytes(text, "\"", 1);
}

bool pp_text_is_utf8(const char *string)
{
    size_t length = 1;
    for (const unsigned char *s = (const unsigned char *)string; *s != 0 && length != 0; s += length)
        length = utf8_length(s);
    return length != 0;
}

void pp_text_utf8(pp_text *text, const char *string)
{
    for (const unsigned char *s = (const unsigned char *)string; *s != 0;) {
        size_t length = utf8_length(s);
        add_bytes(text, length != 0 ? (const char *)s : "\xef\xbf\xbd", length != 0 ? length : 3);
        s += length != 0 ? length : 1;
    }
}

void pp_text_raw(pp_text *text, const void *bytes, size_t n)
{
    add_bytes(text, bytes, n);
}

/* Characters that XML 1.0 does not allow at all: most controls, U+FFFE and U+FFFF. */
static bool in_no_xml(const unsigned char *s, size_t length)
{
    if (length == 1) return s[0] < 0x20 && s[0] != '\t' && s[0] != '\n' && s[0] != '\r';
    return length == 3 && s[0] == 0xef && s[1] == 0xbf && s[2] >= 0xbe;
}

void pp_text_xml(pp_text *text, const char *string)
{
    for (const unsigned char *s = (const unsigned char *)string; *s != 0;) {
        size_t length = utf8_length(s);
        if (length == 0 || in_no_xml(s, length))
            add_bytes(text, "\xef\xbf\xbd", 3);
        else if (*s == '<' || *s == '>')
            pp_text_add(text, *s == '<' ? "&lt;" : "&gt;");
        else if (*s == '&' || *s == '"')
            pp_text_add(text, *s == '&' ? "&amp;" : "&quot;");
        else
            add_bytes(text, (const char *)s, length);
        s += length != 0 ? length : 1;
    }
}

void pp_text_bytes(pp_text *text, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes / 1024;
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) value /= 1024;
    if (bytes < 1024)
        pp_text_add(text, "%u B", (unsigned)bytes);
    else
        pp_text_add(text, "%.*f %s", value < 10 ? 2 : value < 100 ? 1 : 0, value, units[unit]);
}

void pp_text_time(pp_text *text, int64_t ns)
{
    static const char *const units[] = {"\xc2\xb5s", "ms", "s"};
    double value = (double)ns / 1000;
    size_t unit = 0;
    for (; value >= 1000 && unit + 1 < sizeof units / sizeof *units; unit++) value /= 1000;
    if (ns < 1000)
        pp_text_add(text, "%d ns", (int)ns);
    else
        pp_text_add(text, "%.*f %s", value < 10 ? 2 : value < 100 ? 1 : 0, value, units[unit]);
}

void pp_text_free(pp_text *text)
{
    pp_free(text->at);
    *text = (pp_text){0};
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned ab = a < b ? a : b;
    return ab < c ? ab : c;
}

unsigned pp_text_distance(const char *a, const char *b)
{
    enum { LIMIT = 64 };
    size_t na = strnlen(a, LIMIT), nb = strnlen(b, LIMIT);
    unsigned rows[3][LIMIT + 1]; /* rows[i % 3][j]: distance of the first i bytes of a to the first j of b */
    for (size_t j = 0; j <= nb; j++) rows[0][j] = (unsigned)j;
    for (size_t i = 1; i <= na; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = least(above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && second[j - 2] + 1 < row[j]) row[j] = second[j - 2] + 1;
        }
    }
    return rows[na % 3][nb];
}

/* Bytes at the beginning and at the end that are the same. */
static size_t common_ends(const char *a, const char *b)
{
    size_t n = 0, m = 0, na = strlen(a), nb = strlen(b);
    while (n < na && a[n] == b[n]) n++;
    while (m < na && m < nb && a[na - 1 - m] == b[nb - 1 - m]) m++;
    return n + m;
}

/* Who wrote the beginning of a long name is not far from it. */
static unsigned distance_to(const char *word, const char *name)
{
    enum { LEAST_BEGINNING = 3 };
    const size_t n = strlen(word);
    const unsigned distance = pp_text_distance(word, name);
    return n >= LEAST_BEGINNING && distance > 1 && strncmp(word, name, n) == 0 ? 1 : distance;
}

void pp_text_nearer(pp_nearest *nearest, const char *name)
{
    unsigned limit = strlen(nearest->to) < 4 ? 1 : 2, distance = distance_to(nearest->to, name);
    size_t ends = common_ends(nearest->to, name);
    if (distance > limit) return;
    if (nearest->name != NULL && distance > nearest->distance) return;
    if (nearest->name != NULL && distance == nearest->distance && ends <= nearest->ends) return;
    *nearest = (pp_nearest){nearest->to, name, distance, ends};
}
