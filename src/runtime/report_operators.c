/* SPDX-License-Identifier: Apache-2.0
 * The operators of a context as people and machines read them. Everything comes from the definitions: there
 * is no table of operators beside the library. */
#include <fnmatch.h>
#include <string.h>

#include "runtime/report.h"
#include "runtime/signature.h"

enum { MAX_ALIASES = 16 };

/* ---- facts
 * --------------------------------------------------------------------------------------------------------------
 */

static bool takes(const pp_param *p, ppto_dtype dtype)
{
    bool is_float = dtype == PPTO_F32 || dtype == PPTO_F64;
    switch (p->spec) {
    case PP_SPEC_ANY:
    case PP_SPEC_TENSORS: return true;
    case PP_SPEC_NUM: return dtype != PPTO_BOOL;
    case PP_SPEC_FLOAT: return is_float;
    case PP_SPEC_INT: return !is_float && dtype != PPTO_BOOL;
    case PP_SPEC_BOOL: return dtype == PPTO_BOOL;
    case PP_SPEC_DTYPE_EXACT: return dtype == (ppto_dtype)p->dtype;
    default: return false;
    }
}

/* Dtypes that some tensor of the operator may have. */
static bool accepts(const pp_definition *d, ppto_dtype dtype)
{
    for (size_t i = 0; i < d->n_params; i++)
        if (takes(&d->param[i], dtype)) return true;
    return false;
}

static void print_names(const char *const *names, size_t n, bool json, pp_text *out)
{
    for (size_t i = 0; i < n; i++) {
        if (i) pp_text_add(out, ", ");
        if (json)
            pp_text_json(out, names[i]);
        else
            pp_text_add(out, "%s", names[i]);
    }
}

static void print_dtypes(const pp_definition *d, bool json, pp_text *out)
{
    const char *names[PPTO_F64 + 1];
    size_t n = 0;
    for (int t = PPTO_BOOL; t <= PPTO_F64; t++)
        if (accepts(d, (ppto_dtype)t)) names[n++] = ppto_dtype_name((ppto_dtype)t);
    print_names(names, n, json, out);
}

static void print_devices(bool json, pp_text *out)
{
    const char *names[16];
    size_t n = 0;
    for (; n < 16 && pp_device_at(n); n++) names[n] = pp_device_at(n)->name;
    print_names(names, n, json, out);
}

static size_t print_aliases(pp_library *library, const pp_definition *d, bool json, pp_text *out)
{
    const char *names[MAX_ALIASES];
    size_t n = pp_library_aliases(library, d->name, names, MAX_ALIASES);
    print_names(names, n < MAX_ALIASES ? n : MAX_ALIASES, json, out);
    return n;
}

/* ---- one operator
 * -----------------------------------------------------------------------------------------------------------
 */

static void json_operator(pp_library *library, const pp_definition *d, pp_text *out)
{
    pp_text signature = {0}, doc = {0}, shape = {0};
    pp_signature_print(d, &signature);
    pp_signature_doc(d, &doc, &shape);
    pp_text_add(out, "{\"name\": ");
    pp_text_json(out, d->name);
    pp_text_add(out, ", \"signature\": ");
    pp_text_json(out, signature.at ? signature.at : "");
    pp_text_add(out, ", \"doc\": ");
    pp_text_json(out, doc.at ? doc.at : "");
    pp_text_add(out, ", \"shape_rule\": ");
    pp_text_json(out, shape.at ? shape.at : "");
    pp_text_add(out, ", \"dtypes\": [");
    print_dtypes(d, true, out);
    pp_text_add(out, "], \"gradient\": \"none yet\", \"devices\": [");
    print_devices(true, out);
    pp_text_add(out, "], \"aliases\": [");
    print_aliases(library, d, true, out);
    pp_text_add(out, "]}");
    out->failed |= signature.failed || doc.failed || shape.failed;
    pp_text_free(&signature);
    pp_text_free(&doc);
    pp_text_free(&shape);
}

/* Where the line of the definition's name begins. */
static size_t source_begin(const pp_definition *d)
{
    size_t at = d->at;
    while (at > 0 && d->owner->source[at - 1] != '\n') at--;
    return at;
}

static uint32_t line_of(const pp_definition *d)
{
    uint32_t line = d->owner->lines_above + 1;
    for (size_t i = 0; i < d->at; i++) line += d->owner->source[i] == '\n';
    return line;
}

/* The definition as it was written, moved to the right. */
static void print_source(const pp_definition *d, pp_text *out)
{
    size_t at = source_begin(d), end = d->end;
    while (at < end) {
        const char *line = d->owner->source + at, *stop = memchr(line, '\n', end - at);
        size_t n = stop != NULL ? (size_t)(stop - line) : end - at;
        if (n != 0) pp_text_add(out, "    %.*s", (int)n, line);
        pp_text_add(out, "\n");
        at += n + 1;
    }
}

static void text_operator(pp_library *library, const pp_definition *d, pp_text *out)
{
    pp_text doc = {0}, shape = {0}, aliases = {0};
    pp_signature_print(d, out);
    pp_signature_doc(d, &doc, &shape);
    if (doc.n) pp_text_add(out, "\n  %s", doc.at);
    if (shape.n) pp_text_add(out, "\n  shape     %s", shape.at);
    pp_text_add(out, "\n  dtypes    ");
    print_dtypes(d, false, out);
    pp_text_add(out, "\n  gradient  none yet\n  devices   ");
    print_devices(false, out);
    if (print_aliases(library, d, false, &aliases)) pp_text_add(out, "\n  also      %s", aliases.at);
    pp_text_add(out, "\n  text      %s:%u\n", d->owner->file, line_of(d));
    print_source(d, out);
    out->failed |= doc.failed || shape.failed || aliases.failed;
    pp_text_free(&doc);
    pp_text_free(&shape);
    pp_text_free(&aliases);
}

/* A line of the list: the name and the first sentence. */
static void text_line(const pp_definition *d, pp_text *out)
{
    pp_text doc = {0}, shape = {0};
    pp_signature_doc(d, &doc, &shape);
    size_t n = 0;
    while (doc.at && doc.at[n] && !(doc.at[n] == '.' && (doc.at[n + 1] == ' ' || !doc.at[n + 1]))) n++;
    pp_text_add(out, "%-20s  %.*s\n", d->name, (int)n, doc.at ? doc.at : "");
    out->failed |= doc.failed || shape.failed;
    pp_text_free(&doc);
    pp_text_free(&shape);
}

/* ---- calls
 * --------------------------------------------------------------------------------------------------------------------
 */

static bool name_matches(const char *pattern, const char *name)
{
    return strpbrk(pattern, "*?[") ? fnmatch(pattern, name, 0) == 0 : strstr(name, pattern) != NULL;
}

/* By its own name or one of its aliases. */
static bool matches(pp_library *library, const char *pattern, const char *name)
{
    const char *names[MAX_ALIASES];
    if (!pattern || !*pattern || name_matches(pattern, name)) return true;
    size_t n = pp_library_aliases(library, name, names, MAX_ALIASES);
    for (size_t i = 0; i < n && i < MAX_ALIASES; i++)
        if (name_matches(pattern, names[i])) return true;
    return false;
}

/* Reads only what it shows. */
static ppto_status list(pp_library *library, const char *pattern, bool json, pp_text *out, pp_error *err)
{
    pp_names names;
    size_t listed = 0;
    ppto_status status = pp_library_names(library, &names);
    for (size_t i = 0; i < names.n && status == PPTO_OK; i++) {
        const pp_definition *d;
        if (names.at[i][0] == '_' || !matches(library, pattern, names.at[i])) continue;
        status = pp_library_find(library, names.at[i], &d, err);
        if (status != PPTO_OK) break;
        if (json) {
            pp_text_add(out, "%s", listed++ ? ",\n " : "");
            json_operator(library, d, out);
        } else {
            text_line(d, out);
        }
    }
    pp_vec_free(&names);
    return status;
}

ppto_status ppto_list_operators(ppto_context *ctx, const char *pattern, bool json, char **text)
{
    pp_error err = {0};
    pp_library *library;
    pp_text out = {0};
    if (!text) return pp_report_new(PPTO_E_VALUE, "ppto_list_operators: text is NULL");
    *text = NULL;
    if (pp_context_library(ctx, &library, &err) != PPTO_OK) return pp_report(&err);
    if (json) pp_text_add(&out, "[");
    ppto_status status = list(library, pattern, json, &out, &err);
    if (json) pp_text_add(&out, "]\n");
    if (status == PPTO_OK) return pp_report_give(&out, text);
    pp_text_free(&out);
    pp_fail(&err, status, "%s", ppto_status_text(status));
    return pp_report(&err);
}

ppto_status ppto_show_operator(ppto_context *ctx, const char *name, bool json, char **text)
{
    pp_error err = {0};
    pp_library *library;
    pp_text out = {0};
    if (!name || !text) return pp_report_new(PPTO_E_VALUE, "ppto_show_operator: an argument is NULL");
    *text = NULL;
    if (pp_context_library(ctx, &library, &err) != PPTO_OK) return pp_report(&err);
    const pp_definition *d;
    if (pp_library_find(library, name, &d, &err) != PPTO_OK) return pp_report(&err);
    if (!d) {
        const char *near = pp_library_nearest(library, name);
        return pp_report_new(PPTO_E_NAME,
                             near ? "there is no operator \"%s\"; did you mean %s?"
                                  : "there is no operator \"%s\"",
                             name, near);
    }
    if (json)
        json_operator(library, d, &out);
    else
        text_operator(library, d, &out);
    if (json) pp_text_add(&out, "\n");
    return pp_report_give(&out, text);
}
