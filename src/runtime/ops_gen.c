/* SPDX-License-Identifier: Apache-2.0
 * Build-time program: ops_gen header|source writes ppto/ops.h or its functions from the shipped library, one
 * function and one macro for every public operator and every alias: ppto_tensor *ppto_NAME_at(ppto_site site,
 * tensors…, every parameter…) ppto_NAME(…)       adds the site, fills omitted trailing parameters, counts a
 * trailing list An operator without tensors takes its graph first; one with several results gives a status
 * and takes room for them last. It only parses: nothing is evaluated here. Start reading at main. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lang/parser.h"
#include "runtime/signature.h"

extern const char pp_library_text[], pp_functions_text[];
extern const size_t pp_library_text_size, pp_functions_text_size;

typedef struct entry { /* a name to write functions for */
    const char *name;
    const pp_definition *definition;
} entry;

static pp_unit *unit[2];
static PP_VEC(entry) entries;

static const pp_definition *find(const char *name)
{
    for (size_t u = 0; u < 2; u++)
        for (const pp_definition *d = unit[u]->definitions; d; d = d->next)
            if (strcmp(d->name, name) == 0) return d;
    return NULL;
}

/* ---- several results?
 * --------------------------------------------------------------------------------------------- */

static bool value_is_many(const pp_expr *e, unsigned depth);

static bool block_is_many(const pp_stmt *s, unsigned depth)
{
    for (; s; s = s->next) {
        if (s->kind == PP_S_VALUE && (s->value->next || value_is_many(s->value, depth))) return true;
        if (s->kind == PP_S_IF && (block_is_many(s->then, depth) || block_is_many(s->otherwise, depth)))
            return true;
    }
    return false;
}

static bool definition_is_many(const pp_definition *d, unsigned depth)
{
    if (!d || depth > 20) return false;
    return d->is_fold ? d->n_states > 1 && !d->finish.body : block_is_many(d->body, depth + 1);
}

static bool value_is_many(const pp_expr *e, unsigned depth)
{
    switch (e->kind) {
    case PP_E_LIST:
    case PP_E_TUPLE:
    case PP_E_COMPREHENSION: return true;
    case PP_E_IF: return value_is_many(e->a, depth) || value_is_many(e->b, depth);
    case PP_E_CALL: return definition_is_many(find(e->name), depth);
    default: return false;
    }
}

/* ---- parameters
 * ------------------------------------------------------------------------------------------------------ */

/* A parameter's name as C and C++ allow it. */
static const char *c_name(const char *name)
{
    static const char *const taken[] = {
        "auto",   "bool",     "case",   "catch",  "char",     "class",    "const",  "default",  "do",
        "double", "else",     "enum",   "extern", "false",    "float",    "for",    "goto",     "if",
        "inline", "int",      "long",   "new",    "operator", "private",  "public", "register", "return",
        "short",  "signed",   "static", "struct", "switch",   "template", "this",   "true",     "typedef",
        "union",  "unsigned", "using",  "void",   "while",    "site",     "graph",  "results"};
    static char room[80];
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (strcmp(name, taken[i]) == 0) {
            snprintf(room, sizeof room, "%s_", name);
            return room;
        }
    return name;
}

/* An operator's name behind "ppto_": other functions and types of the library keep theirs. */
static const char *function_name(const char *name)
{
    static const char *const taken[] = {"array",   "compare", "compile", "context", "define", "dtype",
                                        "eval",    "expr",    "float",   "graph",   "input",  "int",
                                        "integer", "ints",    "list",    "number",  "op",     "options",
                                        "program", "site",    "stats",   "status",  "tensor", "version"};
    static char room[80];
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (strcmp(name, taken[i]) == 0) {
            snprintf(room, sizeof room, "%s_", name);
            return room;
        }
    return name;
}

static bool has_tensors(const pp_definition *d)
{
    for (size_t i = 0; i < pp_signature_params(d); i++)
        if (pp_param_is_tensor(pp_signature_param(d, i))) return true;
    return false;
}

static bool is_none(const pp_expr *e)
{
    return e->kind == PP_E_NONE || (e->kind == PP_E_NAME && strcmp(e->name, "none") == 0);
}

static void declare_param(const pp_param *p, pp_text *out)
{
    const char *name = c_name(p->name);
    switch (p->spec) {
    case PP_SPEC_TENSORS: pp_text_add(out, "size_t n_%s, ppto_tensor *const *%s", p->name, name); break;
    case PP_SPEC_P_INT:
    case PP_SPEC_P_AXES: pp_text_add(out, "int64_t %s", name); break;
    case PP_SPEC_P_FLOAT:
    case PP_SPEC_P_NUM: pp_text_add(out, "double %s", name); break;
    case PP_SPEC_P_BOOL: pp_text_add(out, "bool %s", name); break;
    case PP_SPEC_P_INTS: pp_text_add(out, "ppto_ints %s", name); break;
    case PP_SPEC_P_STR:
    case PP_SPEC_P_DTYPE:
    case PP_SPEC_P_ANY: pp_text_add(out, "const char *%s", name); break;
    default: pp_text_add(out, "ppto_tensor *%s", name);
    }
}

/* The default of a parameter as a C expression. */
static void default_value(const pp_param *p, pp_text *out)
{
    bool none = is_none(p->fallback);
    pp_text value = {0};
    pp_signature_value(p->fallback, &value);
    switch (p->spec) {
    case PP_SPEC_P_INT: pp_text_add(out, "%s", none ? "PPTO_NONE" : value.at); break;
    case PP_SPEC_P_AXES:
        pp_text_add(out, "%s",
                    p->fallback->kind == PP_E_INT || p->fallback->kind == PP_E_UNARY ? value.at : "PPTO_ALL");
        break;
    case PP_SPEC_P_FLOAT:
    case PP_SPEC_P_NUM: pp_text_add(out, "%s", none ? "NAN" : value.at); break;
    case PP_SPEC_P_INTS:
        if (p->fallback->kind == PP_E_LIST && p->fallback->a)
            pp_text_add(out, "PPTO_INTS(%.*s)", (int)value.n - 2, value.at + 1);
        else
            pp_text_add(out, "PPTO_NO_INTS");
        break;
    case PP_SPEC_P_BOOL: pp_text_add(out, "%s", value.at); break;
    default:
        if (none)
            pp_text_add(out, "NULL");
        else
            pp_text_json(out, value.at);
    }
    pp_text_free(&value);
}

/* ---- the header
 * ----------------------------------------------------------------------------------------------------- */

static void declare(const entry *e, bool many, pp_text *out)
{
    const pp_definition *d = e->definition;
    pp_text_add(out, "%sppto_%s_at(ppto_site site", many ? "ppto_status " : "ppto_tensor *",
                function_name(e->name));
    if (!has_tensors(d)) pp_text_add(out, ", ppto_graph *graph");
    for (size_t i = 0; i < pp_signature_params(d); i++) {
        pp_text_add(out, ", ");
        declare_param(pp_signature_param(d, i), out);
    }
    pp_text_add(out, "%s)", many ? ", ppto_tensor **results, size_t n_results" : "");
}

/* Text inside a comment. */
static void comment(const char *text, pp_text *out)
{
    for (; *text; text++)
        pp_text_add(out,
                    (text[0] == '*' && text[1] == '/') || (text[0] == '/' && text[1] == '*') ? "%c " : "%c",
                    *text);
}

static void document(const entry *e, pp_text *out)
{
    pp_text doc = {0}, shape = {0}, signature = {0};
    pp_signature_print(e->definition, &signature);
    pp_text_add(out, "\n/* ");
    comment(signature.at, out);
    if (strcmp(e->name, e->definition->name) == 0) {
        pp_signature_doc(e->definition, &doc, &shape);
        pp_text_add(out, "\n * ");
        comment(doc.at, out);
        if (shape.n) pp_text_add(out, "\n * shapes   ");
        comment(shape.at, out);
    }
    pp_text_add(out, " */\n");
    pp_text_free(&doc);
    pp_text_free(&shape);
    pp_text_free(&signature);
}

/* One C argument of a macro, of which an operator's list of tensors has two. */
typedef struct argument {
    const pp_param *param; /* NULL: the graph, or the number of a list */
    char name[80];
} argument;

static size_t list_arguments(const entry *e, bool many, argument *out)
{
    const pp_definition *d = e->definition;
    size_t n = 0;
    if (!has_tensors(d)) strcpy(out[n++].name, "graph");
    for (size_t i = 0; i < pp_signature_params(d); i++) {
        const pp_param *p = pp_signature_param(d, i);
        if (p->spec == PP_SPEC_TENSORS) snprintf(out[n++].name, sizeof out->name, "n_%s", p->name);
        out[n].param = p;
        snprintf(out[n++].name, sizeof out->name, "%s", c_name(p->name));
    }
    if (many) {
        strcpy(out[n++].name, "results");
        strcpy(out[n++].name, "n_results");
    }
    return n;
}

/* #define PREFIX(first `given` arguments) ppto_NAME_at(PPTO_HERE, all, the others by default) */
static void define_for(const char *prefix, const char *name, const argument *a, size_t n, size_t given,
                       pp_text *out)
{
    pp_text_add(out, "#define %s(", prefix);
    for (size_t i = 0; i < given; i++) pp_text_add(out, "%s%s", i ? ", " : "", a[i].name);
    pp_text_add(out, ") ppto_%s_at(PPTO_HERE", name);
    for (size_t i = 0; i < n; i++) {
        pp_text_add(out, ", ");
        if (i < given)
            pp_text_add(out, "%s", a[i].name);
        else
            default_value(a[i].param, out);
    }
    pp_text_add(out, ")\n");
}

static void define_list(const char *name, const argument *a, size_t n, pp_text *out)
{
    pp_text head = {0};
    for (size_t i = 0; i + 1 < n; i++) pp_text_add(&head, "%s%s", i ? ", " : "", a[i].name);
    pp_text_add(out, "#define PPTO_ARGS_%s_1(%s) ppto_%s_at(PPTO_HERE, %s, PPTO_NO_INTS)\n", name, head.at,
                name, head.at);
    pp_text_add(out, "#define PPTO_ARGS_%s_N(%s, ...) ppto_%s_at(PPTO_HERE, %s, PPTO_INTS(__VA_ARGS__))\n",
                name, head.at, name, head.at);
    pp_text_add(out,
                "#define ppto_%s(...) PPTO_JOIN(PPTO_ARGS_%s_, PPTO_ONE_OR_N(__VA_ARGS__))(__VA_ARGS__)\n",
                name, name);
    pp_text_free(&head);
}

static void define_macros(const entry *e, bool many, pp_text *out)
{
    argument a[80] = {{0}};
    char name[80], prefix[200];
    size_t n = list_arguments(e, many, a), required = n;
    snprintf(name, sizeof name, "%s", function_name(e->name));
    while (required > 0 && a[required - 1].param && a[required - 1].param->fallback) required--;
    if (!many && n == 2 && a[1].param && a[1].param->spec == PP_SPEC_P_INTS) {
        define_list(name, a, n, out);
        return;
    }
    if (required == n) {
        snprintf(prefix, sizeof prefix, "ppto_%s", name);
        define_for(prefix, name, a, n, n, out);
        return;
    }
    for (size_t given = required; given <= n; given++) {
        snprintf(prefix, sizeof prefix, "PPTO_ARGS_%s_%zu", name, given);
        define_for(prefix, name, a, n, given, out);
    }
    pp_text_add(out, "#define ppto_%s(...) PPTO_JOIN(PPTO_ARGS_%s_, PPTO_COUNT(__VA_ARGS__))(__VA_ARGS__)\n",
                name, name);
}

static void write_header(pp_text *out)
{
    pp_text_add(out, "/* SPDX-License-Identifier: Apache-2.0\n"
                     " * The operators, one function and one macro each. Written when the library is built, "
                     "from the operators' own\n"
                     " * texts. The macros add the place of the call, fill in omitted trailing parameters "
                     "and count a trailing\n"
                     " * list: ppto_sum(x), ppto_sum(x, 1), ppto_transpose(y, 1, 0). axis takes one axis or "
                     "PPTO_ALL; several go\n"
                     " * through ppto_op. Texts are dtypes (\"f32\"), words of options, and expressions of "
                     "the operator language.\n"
                     " * An operator with several results fills results[n_results]. */\n"
                     "#ifndef PPTO_OPS_H\n#define PPTO_OPS_H\n\n#include \"ppto/arguments.h\"\n\n"
                     "#ifdef __cplusplus\nextern \"C\" {\n#endif\n");
    for (size_t i = 0; i < entries.n; i++) {
        bool many = definition_is_many(entries.at[i].definition, 0);
        document(&entries.at[i], out);
        pp_text_add(out, "PPTO_API ");
        declare(&entries.at[i], many, out);
        pp_text_add(out, ";\n");
        define_macros(&entries.at[i], many, out);
    }
    pp_text_add(out, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

/* ---- the source
 * ------------------------------------------------------------------------------------------------------- */

static void pass(const pp_param *p, pp_text *out)
{
    const char *name = c_name(p->name), *optional = p->fallback ? "true" : "false";
    bool keeps_none = p->fallback && is_none(p->fallback);
    switch (p->spec) {
    case PP_SPEC_TENSORS:
        pp_text_add(out, "    pp_call_tensors(&call, \"%s\", n_%s, %s);\n", p->name, p->name, name);
        break;
    case PP_SPEC_P_INT:
        pp_text_add(out, "    pp_call_int(&call, \"%s\", %s, %s);\n", p->name, name, optional);
        break;
    case PP_SPEC_P_AXES:
        pp_text_add(out, "    pp_call_axes(&call, \"%s\", %s, %s);\n", p->name, name,
                    keeps_none ? "true" : "false");
        break;
    case PP_SPEC_P_FLOAT: pp_text_add(out, "    pp_call_float(&call, \"%s\", %s);\n", p->name, name); break;
    case PP_SPEC_P_NUM:
        pp_text_add(out, "    pp_call_number(&call, \"%s\", %s, %s);\n", p->name, name, optional);
        break;
    case PP_SPEC_P_BOOL: pp_text_add(out, "    pp_call_bool(&call, \"%s\", %s);\n", p->name, name); break;
    case PP_SPEC_P_INTS:
        pp_text_add(out, "    pp_call_ints(&call, \"%s\", %s, %s);\n", p->name, name, optional);
        break;
    case PP_SPEC_P_STR: pp_text_add(out, "    pp_call_word(&call, \"%s\", %s);\n", p->name, name); break;
    case PP_SPEC_P_DTYPE: pp_text_add(out, "    pp_call_dtype(&call, \"%s\", %s);\n", p->name, name); break;
    case PP_SPEC_P_ANY: pp_text_add(out, "    pp_call_text(&call, \"%s\", %s);\n", p->name, name); break;
    default: pp_text_add(out, "    pp_call_tensor(&call, \"%s\", %s);\n", p->name, name);
    }
}

static void write_source(pp_text *out)
{
    pp_text_add(out, "/* SPDX-License-Identifier: Apache-2.0\n"
                     " * The functions of ppto/ops.h. Written when the library is built. */\n"
                     "#include \"ppto/ops.h\"\n#include \"runtime/operator_call.h\"\n");
    for (size_t i = 0; i < entries.n; i++) {
        const pp_definition *d = entries.at[i].definition;
        bool many = definition_is_many(d, 0);
        pp_text_add(out, "\n");
        declare(&entries.at[i], many, out);
        pp_text_add(out, "\n{\n    pp_call call;\n    pp_call_begin(&call, site, %s, \"%s\");\n",
                    has_tensors(d) ? "NULL" : "graph", entries.at[i].name);
        for (size_t k = 0; k < pp_signature_params(d); k++) pass(pp_signature_param(d, k), out);
        pp_text_add(out, "    return %s;\n}\n",
                    many ? "pp_call_many(&call, results, n_results)" : "pp_call_one(&call)");
    }
}

/* ---- main
 * --------------------------------------------------------------------------------------------------------------
 */

static ppto_status list_entries(void)
{
    for (size_t u = 0; u < 2; u++) {
        for (const pp_definition *d = unit[u]->definitions; d; d = d->next)
            if (d->name[0] != '_') PP_TRY(pp_vec_push(&entries, ((entry){d->name, d})));
        for (const pp_alias *a = unit[u]->aliases; a; a = a->next) {
            const pp_definition *d = find(a->target);
            if (d && a->name[0] != '_') PP_TRY(pp_vec_push(&entries, ((entry){a->name, d})));
        }
    }
    return PPTO_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}

int main(int argc, char **argv)
{
    pp_error err = {0};
    pp_text out = {0};
    bool header = argc == 2 && strcmp(argv[1], "header") == 0;
    if (!header && !(argc == 2 && strcmp(argv[1], "source") == 0)) {
        fprintf(stderr, "usage: ops_gen header|source\n");
        return 2;
    }
    ppto_status status = pp_parse(pp_functions_text, pp_functions_text_size, "functions.ppto",
                                  PP_PARSE_LIBRARY, &unit[0], &err);
    if (status == PPTO_OK)
        status =
            pp_parse(pp_library_text, pp_library_text_size, "library.ppto", PP_PARSE_LIBRARY, &unit[1], &err);
    if (status == PPTO_OK) status = list_entries();
    if (status != PPTO_OK) {
        fprintf(stderr, "ops_gen: %s\n", err.code ? err.text : ppto_status_text(status));
        return 1;
    }
    qsort(entries.at, entries.n, sizeof *entries.at, by_name);
    if (header)
        write_header(&out);
    else
        write_source(&out);
    bool bad = out.failed || fwrite(out.at, 1, out.n, stdout) != out.n || fflush(stdout) != 0;
    pp_text_free(&out);
    pp_vec_free(&entries);
    pp_unit_destroy(unit[0]);
    pp_unit_destroy(unit[1]);
    return bad;
}
