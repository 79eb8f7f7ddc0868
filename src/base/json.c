/* SPDX-License-Identifier: Apache-2.0
 * The reader of json.h: one cursor over the text. Strings may hold any escape but a zero; surrogates become
 * what their halves say, since nothing we write needs them. */
#include "base/json.h"

#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 32 };

void pp_json_fail(pp_json *json, ppto_status status, const char *what)
{
    if (json->status != PPTO_OK) return;
    json->status = pp_fail(json->err, status, "%s, at byte %zu", what, (size_t)(json->at - json->start));
    json->at = json->end;
}

static void malformed(pp_json *json, const char *what)
{
    pp_json_fail(json, PPTO_E_FORMAT, what);
}

/* The next byte that is no blank; 0 at the end. */
static char look(pp_json *json)
{
    while (json->at < json->end && strchr(" \t\r\n", *json->at) != NULL && *json->at != '\0') json->at++;
    return json->at < json->end ? *json->at : '\0';
}

static bool take(pp_json *json, char c)
{
    if (look(json) != c || c == '\0') return false;
    json->at++;
    return true;
}

static void add_code(pp_text *t, unsigned code)
{
    if (code < 0x80)
        pp_text_add(t, "%c", (int)code);
    else if (code < 0x800)
        pp_text_add(t, "%c%c", (int)(0xc0 | code >> 6), (int)(0x80 | (code & 0x3f)));
    else
        pp_text_add(t, "%c%c%c", (int)(0xe0 | code >> 12), (int)(0x80 | (code >> 6 & 0x3f)),
                    (int)(0x80 | (code & 0x3f)));
}

/* What follows a backslash. */
static void read_escape(pp_json *json, pp_text *t)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = json->at < json->end ? *json->at++ : '\0';
    const char *known = c != '\0' ? strchr(from, c) : NULL;
    if (known != NULL) {
        pp_text_add(t, "%c", to[known - from]);
        return;
    }
    unsigned code = 0;
    for (int i = 0; c == 'u' && i < 4 && json->at < json->end; i++, json->at++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF",
                   *d = *json->at ? strchr(digits, *json->at) : NULL;
        if (d == NULL) break;
        code = code * 16 + (unsigned)(d - digits) % 16;
    }
    if (c != 'u' || code == 0) malformed(json, "a wrong escape in a string");
    add_code(t, code);
}

static void read_text(pp_json *json, pp_text *t)
{
    if (!take(json, '"')) malformed(json, "a string is missing");
    while (json->at < json->end && *json->at != '"') {
        const char *plain = json->at;
        while (json->at < json->end && *json->at != '"' && *json->at != '\\') json->at++;
        pp_text_add(t, "%.*s", (int)(json->at - plain), plain);
        if (json->at < json->end && *json->at == '\\') {
            json->at++;
            read_escape(json, t);
        }
    }
    if (json->at >= json->end)
        malformed(json, "a string does not end");
    else
        json->at++;
    if (t->failed) pp_json_fail(json, PPTO_E_NOMEM, "out of memory");
}

const char *pp_json_string(pp_json *json)
{
    pp_text t = {0};
    read_text(json, &t);
    const char *own = t.at != NULL ? pp_arena_strndup(json->arena, t.at, t.n) : "";
    if (own == NULL) pp_json_fail(json, PPTO_E_NOMEM, "out of memory");
    pp_text_free(&t);
    return own != NULL ? own : "";
}

double pp_json_real(pp_json *json)
{
    char word[64] = "";
    size_t n = 0;
    (void)look(json);
    while (json->at < json->end && n < sizeof word - 1 && *json->at != '\0' &&
           strchr("+-.0123456789eE", *json->at) != NULL)
        word[n++] = *json->at++;
    char *end = word;
    double value = strtod(word, &end);
    if (n == 0 || *end != '\0') malformed(json, "a number is missing");
    return value;
}

uint64_t pp_json_number(pp_json *json)
{
    uint64_t value = 0;
    bool any = false;
    (void)look(json);
    for (; json->at < json->end && *json->at >= '0' && *json->at <= '9'; json->at++, any = true) {
        uint64_t digit = (uint64_t)(*json->at - '0');
        if (value > (UINT64_MAX - digit) / 10) malformed(json, "a number is too large");
        value = json->status == PPTO_OK ? value * 10 + digit : 0;
    }
    if (!any) malformed(json, "a whole number is missing");
    return value;
}

bool pp_json_boolean(pp_json *json)
{
    (void)look(json);
    bool is = (size_t)(json->end - json->at) >= 4 && memcmp(json->at, "true", 4) == 0;
    while (json->at < json->end && *json->at >= 'a' && *json->at <= 'z') json->at++;
    return is;
}

/* Goes to the next element of a list or object; false: it has ended. */
bool pp_json_next(pp_json *json, bool *first, char end)
{
    if (json->status != PPTO_OK) return false;
    if (take(json, end)) return false;
    if (!*first && !take(json, ',')) malformed(json, "a comma is missing");
    *first = false;
    return json->status == PPTO_OK;
}

bool pp_json_key(pp_json *json, bool *first, char key[PP_JSON_KEY])
{
    pp_text t = {0};
    if (!pp_json_next(json, first, '}')) return false;
    read_text(json, &t);
    if (!take(json, ':')) malformed(json, "a colon is missing");
    size_t n = t.n < PP_JSON_KEY - 1 ? t.n : PP_JSON_KEY - 1;
    memset(key, 0, PP_JSON_KEY);
    if (t.at != NULL) memcpy(key, t.at, n);
    pp_text_free(&t);
    return json->status == PPTO_OK;
}

void pp_json_begin(pp_json *json, char c)
{
    if (!take(json, c)) malformed(json, c == '{' ? "an object is missing" : "a list is missing");
}

static void skip(pp_json *json, int depth)
{
    bool first = true;
    char key[PP_JSON_KEY];
    char c = look(json);
    if (depth > DEEPEST) {
        malformed(json, "it is nested too deeply");
    } else if (c == '{') {
        pp_json_begin(json, '{');
        while (pp_json_key(json, &first, key)) skip(json, depth + 1);
    } else if (c == '[') {
        pp_json_begin(json, '[');
        while (pp_json_next(json, &first, ']')) skip(json, depth + 1);
    } else if (c == '"') {
        pp_text t = {0};
        read_text(json, &t);
        pp_text_free(&t);
    } else if (c >= 'a' && c <= 'z') {
        (void)pp_json_boolean(json);
    } else {
        (void)pp_json_real(json);
    }
}

void pp_json_skip(pp_json *json)
{
    skip(json, 0);
}

void pp_json_open(pp_json *json, const char *text, size_t n, pp_arena *arena, pp_error *err)
{
    *json = (pp_json){text, text, text + n, arena, err, PPTO_OK};
}

void pp_json_end(pp_json *json)
{
    (void)look(json);
    if (json->at < json->end) malformed(json, "something follows the end");
}
