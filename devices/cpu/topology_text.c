/* SPDX-License-Identifier: Apache-2.0
 * Descriptions of machines, looked at before hwloc gets them. It takes minutes for a synthetic one of a
 * hundred thousand CPUs, and a damaged XML file can crash it: so what is larger than a machine may be, or is
 * no XML, is refused here. What the elements mean stays hwloc's to say. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "devices/cpu/machine.h"

enum { MOST_PUS = 4096, MOST_DEPTH = 128, MOST_XML_BYTES = 16 << 20 };

static ppto_status too_large(const char *description, const char *what, unsigned long n, int most,
                             pp_error *err)
{
    return pp_fail(err, PPTO_E_VALUE, "topology: \"%.200s\" describes %s%lu %s, at most %d are taken",
                   description, n > MOST_PUS ? "more than " : "", n > MOST_PUS ? (unsigned long)MOST_PUS : n,
                   what, most);
}

/* ---- synthetic: "node:2 core:4 pu:2" --------------------------------------------------------------------
 */

/* What one level multiplies the machine by; *at goes behind its word. */
static unsigned long level_count(const char **at)
{
    const char *word = *at, *colon = word + strcspn(word, ": ([");
    const char *digits = *colon == ':' ? colon + 1 : word;
    unsigned long n = isdigit((unsigned char)*digits) ? strtoul(digits, NULL, 10) : 1;
    *at = word + strcspn(word, " ([");
    return n < MOST_PUS + 1UL ? n : MOST_PUS + 1UL;
}

static bool is_node(const char *word)
{
    return strncasecmp(word, "node", 4) == 0 || strncasecmp(word, "numa", 4) == 0;
}

ppto_status pp_topology_check_synthetic(const char *description, pp_error *err)
{
    unsigned long pus = 1, nodes = 0;
    for (const char *at = description; *at != '\0';) {
        if (*at == '(') at += strcspn(at, ")"); /* attributes */
        if (*at == ' ' || *at == ')') {
            at++;
            continue;
        }
        if (*at == '\0') break;
        if (*at == '[') { /* a node at each of the last level */
            nodes += pus;
            at += strcspn(at, "]");
            at += *at == ']';
            continue;
        }
        bool node = is_node(at);
        pus *= level_count(&at);
        if (node) nodes = pus;
        if (pus > MOST_PUS) return too_large(description, "CPUs", pus, MOST_PUS, err);
        if (nodes > PP_MAX_DOMAINS) return too_large(description, "memory nodes", nodes, PP_MAX_DOMAINS, err);
    }
    return PPTO_OK;
}

/* ---- XML ----------------------------------------------------------------------------------------------- */

typedef struct scan {
    const char *at;
    struct {
        const char *name;
        size_t length;
    } open[MOST_DEPTH]; /* elements */
    size_t depth;
    unsigned long elements, pus;
} scan;

static size_t name_length(const char *at)
{
    size_t n = 0;
    while (isalnum((unsigned char)at[n]) || at[n] == '_' || at[n] == '-' || at[n] == ':' || at[n] == '.') n++;
    return n;
}

static void skip_blanks(scan *s)
{
    s->at += strspn(s->at, " \t\r\n");
}

/* Behind the end of what begins here; false: there is none. */
static bool skip_past(scan *s, const char *end)
{
    const char *found = strstr(s->at, end);
    if (found != NULL) s->at = found + strlen(end);
    return found != NULL;
}

/* NAME="VALUE" */
static bool attribute(scan *s, bool *is_pu)
{
    size_t n = name_length(s->at);
    const char *name = s->at;
    s->at += n;
    skip_blanks(s);
    if (n == 0 || *s->at != '=') return false;
    s->at++;
    skip_blanks(s);
    char quote = *s->at;
    if (quote != '"' && quote != '\'') return false;
    const char *value = s->at + 1, *end = strchr(value, quote);
    if (end == NULL || memchr(value, '<', (size_t)(end - value)) != NULL) return false;
    *is_pu |= n == 4 && memcmp(name, "type", 4) == 0 && end - value == 2 && memcmp(value, "PU", 2) == 0;
    s->at = end + 1;
    return true;
}

/* An element's begin, behind its '<'. */
static bool open_element(scan *s)
{
    bool is_pu = false;
    size_t n = name_length(s->at);
    if (n == 0 || s->depth == MOST_DEPTH || (s->depth == 0 && s->elements > 0)) return false;
    s->open[s->depth].name = s->at;
    s->open[s->depth++].length = n;
    s->elements++;
    s->at += n;
    for (skip_blanks(s); *s->at != '>' && *s->at != '/'; skip_blanks(s))
        if (!attribute(s, &is_pu)) return false;
    s->pus += is_pu;
    if (*s->at == '>') return *s->at++ != '\0';
    s->depth--;
    s->at++;
    return *s->at++ == '>';
}

/* An element's end, behind its "</". */
static bool close_element(scan *s)
{
    size_t n = name_length(s->at);
    if (s->depth == 0 || s->open[--s->depth].length != n || memcmp(s->open[s->depth].name, s->at, n) != 0)
        return false;
    s->at += n;
    skip_blanks(s);
    return *s->at++ == '>';
}

/* What begins with '<'. */
static bool markup(scan *s)
{
    s->at++;
    if (strncmp(s->at, "!--", 3) == 0) return skip_past(s, "-->");
    if (*s->at == '?') return skip_past(s, "?>");
    if (*s->at == '!') return skip_past(s, ">");
    if (*s->at != '/') return open_element(s);
    s->at++;
    return close_element(s);
}

/* One element with all in it, of a machine. */
static bool is_machine(scan *s)
{
    while (*s->at != '\0') {
        if (*s->at != '<' && s->depth == 0 && !isspace((unsigned char)*s->at)) return false;
        if (*s->at != '<')
            s->at += strcspn(s->at, "<");
        else if (!markup(s))
            return false;
        if (s->depth == 1 && s->elements == 1 &&
            (s->open[0].length != 8 || memcmp(s->open[0].name, "topology", 8) != 0))
            return false;
    }
    return s->depth == 0 && s->elements > 0;
}

/* The whole file as a string; NULL and the reason. */
static char *read_file(const char *path, pp_error *err)
{
    FILE *from = fopen(path, "rb");
    if (from == NULL) {
        pp_fail(err, PPTO_E_VALUE, "topology: %.200s: %s", path, strerror(errno));
        return NULL;
    }
    char *text = pp_alloc(MOST_XML_BYTES + 2);
    size_t n = text != NULL ? fread(text, 1, MOST_XML_BYTES + 1, from) : 0;
    bool failed = ferror(from) != 0;
    fclose(from);
    if (text == NULL)
        pp_fail(err, PPTO_E_NOMEM, "no memory for the topology");
    else if (failed || n > MOST_XML_BYTES)
        pp_fail(err, PPTO_E_VALUE, "topology: %.200s cannot be read, or is larger than %d bytes", path,
                MOST_XML_BYTES);
    if (text != NULL && !failed && n <= MOST_XML_BYTES) {
        text[n] = '\0';
        if (strlen(text) == n) return text;
        pp_fail(err, PPTO_E_VALUE, "topology: %.200s is no XML", path);
    }
    pp_free(text);
    return NULL;
}

ppto_status pp_topology_check_xml(const char *path, pp_error *err)
{
    char *text = read_file(path, err);
    if (text == NULL) return err != NULL && err->code != PPTO_OK ? err->code : PPTO_E_VALUE;
    scan s = {.at = text};
    bool fine = is_machine(&s);
    size_t before = (size_t)(s.at - text);
    pp_free(text);
    if (!fine)
        return pp_fail(err, PPTO_E_VALUE,
                       "topology: %.200s is no whole XML file of a machine: it breaks at byte %zu", path,
                       before);
    return s.pus <= MOST_PUS ? PPTO_OK : too_large(path, "CPUs", s.pus, MOST_PUS, err);
}
