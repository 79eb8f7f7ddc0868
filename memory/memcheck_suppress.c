/* SPDX-License-Identifier: Apache-2.0
 * Suppressions: a file of groups that a program is known to hold. A line is a glob of operators and, after
 * blanks, one of places, "file:line"; # begins a comment. A line that is anything else is refused with its
 * place when the context is made: one that silently matches nothing lets a test fail, one that matches too
 * much lets it pass. */
#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "memory/memcheck.h"

enum { MOST_WORD = 256 };

typedef struct line {
    char operator_name[MOST_WORD], place[MOST_WORD]; /* place "": any */
} line;

static size_t word_length(const char *text, size_t n)
{
    size_t k = 0;
    while (k < n && text[k] != ' ' && text[k] != '\t') k++;
    return k;
}

static size_t blanks(const char *text, size_t n)
{
    size_t k = 0;
    while (k < n && (text[k] == ' ' || text[k] == '\t')) k++;
    return k;
}

/* The next word of what is left of a line; false: it is too long. */
static bool take_word(const char **text, size_t *n, char *word)
{
    size_t skip = blanks(*text, *n), length = word_length(*text + skip, *n - skip);
    word[0] = '\0';
    if (length >= MOST_WORD) return false;
    memcpy(word, *text + skip, length);
    word[length] = '\0';
    *text += skip + length;
    *n -= skip + length;
    return true;
}

/* Splits a line of n bytes; why it is none, or NULL. An empty one has no operator. */
static const char *split(const char *text, size_t n, line *out)
{
    char more[MOST_WORD];
    const char *comment = memchr(text, '#', n);
    if (comment != NULL) n = (size_t)(comment - text);
    if (n > 0 && text[n - 1] == '\r') n--;
    *out = (line){"", ""};
    if (!take_word(&text, &n, out->operator_name) || !take_word(&text, &n, out->place) ||
        !take_word(&text, &n, more))
        return "a word is too long";
    return more[0] != '\0' ? "more than a glob of operators and one of places" : NULL;
}

/* ---- checking ---------------------------------------------------------------------------------- */

static bool has_open_bracket(const char *glob)
{
    const char *open = strchr(glob, '[');
    return open != NULL && strchr(open + 1, ']') == NULL;
}

static bool is_operator_glob(const char *glob)
{
    for (const char *c = glob; *c != '\0'; c++)
        if (!isalnum((unsigned char)*c) && strchr("_-.*?[]!^", *c) == NULL) return false;
    return true;
}

static bool is_place_glob(const char *glob)
{
    for (const char *c = glob; *c != '\0'; c++)
        if (iscntrl((unsigned char)*c)) return false;
    return strpbrk(glob, ":*?[") != NULL;
}

static const char *wrong(const line *l)
{
    if (!is_operator_glob(l->operator_name)) return "no glob of operators";
    if (l->place[0] != '\0' && !is_place_glob(l->place)) return "no place: write file:line, or file:*";
    if (has_open_bracket(l->operator_name) || has_open_bracket(l->place)) return "a [ without its ]";
    return NULL;
}

ppto_status pp_memcheck_check_suppressions(const char *text, const char *file, pp_error *err)
{
    for (int number = 1; *text != '\0'; number++) {
        line l;
        size_t n = strcspn(text, "\n");
        const char *why = split(text, n, &l);
        if (why == NULL) why = wrong(&l);
        if (why != NULL)
            return pp_fail(err, PPTO_E_VALUE, "%.500s:%d: %s; a line is OPERATOR [FILE:LINE], both globs",
                           file, number, why);
        text += n + (text[n] == '\n');
    }
    return PPTO_OK;
}

/* ---- matching ---------------------------------------------------------------------------------- */

static bool matches(const line *l, const pp_report_group *g)
{
    char place[512];
    if (l->operator_name[0] == '\0') return false;
    snprintf(place, sizeof place, "%s:%d", g->site.file != NULL ? g->site.file : "", (int)g->site.line);
    return fnmatch(l->operator_name, g->operator_name != NULL ? g->operator_name : "", 0) == 0 &&
           (l->place[0] == '\0' || fnmatch(l->place, place, 0) == 0);
}

bool pp_memcheck_is_suppressed(const char *list, const pp_report_group *g)
{
    while (list != NULL && *list != '\0') {
        line l;
        size_t n = strcspn(list, "\n");
        if (split(list, n, &l) == NULL && matches(&l, g)) return true;
        list += n + (list[n] == '\n');
    }
    return false;
}
