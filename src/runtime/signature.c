/* SPDX-License-Identifier: Apache-2.0
 * Signatures and documentation of definitions as text. Defaults are printed from their expression, not copied
 * from the source, so that every default reads the same way. */
#include "runtime/signature.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 16 };

static const char *const spec_words[] = {
    [PP_SPEC_ANY] = "any",     [PP_SPEC_NUM] = "num",       [PP_SPEC_FLOAT] = "float",
    [PP_SPEC_INT] = "int",     [PP_SPEC_BOOL] = "bool",     [PP_SPEC_TENSORS] = "tensors",
    [PP_SPEC_P_INT] = "int",   [PP_SPEC_P_FLOAT] = "float", [PP_SPEC_P_NUM] = "num",
    [PP_SPEC_P_BOOL] = "bool", [PP_SPEC_P_INTS] = "ints",   [PP_SPEC_P_AXES] = "axes",
    [PP_SPEC_P_STR] = "str",   [PP_SPEC_P_DTYPE] = "dtype", [PP_SPEC_P_ANY] = "any",
};

/* What every fold takes behind its own parameters. */
static pp_expr every_axis = {.kind = PP_E_NAME, .name = "all"};
static pp_expr no = {.kind = PP_E_BOOL, .i = 0};
static const pp_param of_folds[] = {
    {.name = "axis", .spec = PP_SPEC_P_AXES, .fallback = &every_axis},
    {.name = "keepdims", .spec = PP_SPEC_P_BOOL, .fallback = &no},
};

size_t pp_signature_params(const pp_definition *d)
{
    return d->n_params + (d->is_fold ? 2u : 0u);
}

const pp_param *pp_signature_param(const pp_definition *d, size_t i)
{
    return i < d->n_params ? &d->param[i] : &of_folds[i - d->n_params];
}

const char *pp_signature_spec(const pp_param *p)
{
    return p->spec == PP_SPEC_DTYPE_EXACT ? ppto_dtype_name((ppto_dtype)p->dtype) : spec_words[p->spec];
}

/* The shortest decimal that reads back to the same value, without zeros before the exponent. */
static void print_float(double value, pp_text *out)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        pp_snprintf(text, sizeof text, "%.*g", digits, value);
        if (pp_read_f64(text, NULL) == value) break;
    }
    char *e = strchr(text, 'e');
    if (e) {
        char *digit = e[1] == '-' || e[1] == '+' ? e + 2 : e + 1;
        while (digit[0] == '0' && digit[1]) memmove(digit, digit + 1, strlen(digit));
        if (e[1] == '+') memmove(e + 1, e + 2, strlen(e + 1));
    }
    pp_text_add(out, "%s%s", text, strpbrk(text, ".einf") ? "" : ".0");
}

static void print_value(const pp_expr *e, unsigned depth, pp_text *out)
{
    if (depth > MAX_NESTING) {
        pp_text_add(out, "...");
        return;
    }
    switch (e->kind) {
    case PP_E_INT:
        if (e->wide)
            print_float(e->f, out);
        else
            pp_text_add(out, "%lld", (long long)e->i);
        break;
    case PP_E_FLOAT: print_float(e->f, out); break;
    case PP_E_BOOL: pp_text_add(out, "%s", e->i ? "true" : "false"); break;
    case PP_E_NONE: pp_text_add(out, "none"); break;
    case PP_E_STRING:
    case PP_E_NAME: pp_text_add(out, "%s", e->name); break;
    case PP_E_UNARY:
        pp_text_add(out, "%s", e->op == PP_I_NEG ? "-" : "~");
        print_value(e->a, depth + 1, out);
        break;
    case PP_E_LIST:
        pp_text_add(out, "[");
        for (const pp_expr *item = e->a; item; item = item->next) {
            print_value(item, depth + 1, out);
            if (item->next) pp_text_add(out, ", ");
        }
        pp_text_add(out, "]");
        break;
    default: pp_text_add(out, "...");
    }
}

void pp_signature_value(const pp_expr *e, pp_text *out)
{
    print_value(e, 0, out);
}

static void print_shape(const pp_param *p, pp_text *out)
{
    pp_text_add(out, "[");
    for (unsigned i = 0; i < p->n_dims; i++) {
        const pp_spec_dim *dim = &p->dim[i];
        if (i) pp_text_add(out, ", ");
        if (dim->rest)
            pp_text_add(out, "...");
        else if (dim->name)
            pp_text_add(out, "%s", dim->name);
        else
            pp_text_add(out, "%lld", (long long)dim->literal);
    }
    pp_text_add(out, "]");
}

void pp_signature_print(const pp_definition *d, pp_text *out)
{
    pp_text_add(out, "%s(", d->name);
    for (size_t i = 0; i < pp_signature_params(d); i++) {
        const pp_param *p = pp_signature_param(d, i);
        bool marked = !p->fallback && p->spec >= PP_SPEC_P_INT && p->spec != PP_SPEC_P_INTS &&
                      p->spec != PP_SPEC_P_AXES && p->spec != PP_SPEC_P_STR && p->spec != PP_SPEC_P_DTYPE;
        pp_text_add(out, "%s%s%s: %s", i ? ", " : "", marked ? "param " : "", p->name, pp_signature_spec(p));
        if (p->has_shape) print_shape(p, out);
        if (p->fallback) {
            pp_text_add(out, " = ");
            pp_signature_value(p->fallback, out);
        }
    }
    pp_text_add(out, ")");
}

static void add_line(const char *line, size_t n, pp_text *out)
{
    while (n && line[n - 1] == ' ') n--;
    if (n) pp_text_add(out, "%s%.*s", out->n ? " " : "", (int)n, line);
}

void pp_signature_doc(const pp_definition *d, pp_text *doc, pp_text *shape)
{
    static const char mark[] = "Shape:";
    pp_text *out = doc;
    pp_text_add(doc, "%s", "");
    pp_text_add(shape, "%s", "");
    for (const char *line = d->doc ? d->doc : ""; *line;) {
        size_t n = strcspn(line, "\n");
        const char *next = line + n + (line[n] ? 1 : 0);
        if (strncmp(line, mark, sizeof mark - 1) == 0) {
            out = shape;
            line += sizeof mark - 1;
            n -= sizeof mark - 1;
        }
        while (n && *line == ' ') line++, n--;
        add_line(line, n, out);
        line = next;
    }
}
