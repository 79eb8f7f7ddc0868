/* SPDX-License-Identifier: Apache-2.0
 * What tests of src/lang share: trees as text in prefix form, (+ a (* b c)), sum[x axis=1], {x[1:2:_]};
 * errors held to their beginning. */
#ifndef TEST_PARSER_COMMON_H
#define TEST_PARSER_COMMON_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "lang/parser.h"

static void show(const pp_expr *e, pp_text *out);

static void show_all(const pp_expr *e, pp_text *out)
{
    for (; e != NULL; e = e->next) {
        if (e->keyword != NULL) pp_text_add(out, "%s=", e->keyword);
        show(e, out);
        if (e->next != NULL) pp_text_add(out, " ");
    }
}

static void show_node(const char *head, const pp_expr *a, const pp_expr *b, const pp_expr *c, pp_text *out)
{
    const pp_expr *part[] = {a, b, c};
    pp_text_add(out, "(%s", head);
    for (int i = 0; i < 3; i++) {
        if (part[i] == NULL) continue;
        pp_text_add(out, " ");
        show(part[i], out);
    }
    pp_text_add(out, ")");
}

static void show(const pp_expr *e, pp_text *out)
{
    if (e == NULL) {
        pp_text_add(out, "_");
        return;
    }
    switch ((pp_expr_kind)e->kind) {
    case PP_E_INT:
    case PP_E_NAME:
    case PP_E_FLOAT: pp_text_add(out, "%s", e->name); break;
    case PP_E_BOOL: pp_text_add(out, "%s", e->i ? "true" : "false"); break;
    case PP_E_STRING: pp_text_add(out, "\"%s\"", e->name); break;
    case PP_E_NONE: pp_text_add(out, "none"); break;
    case PP_E_ELLIPSIS: pp_text_add(out, "..."); break;
    case PP_E_LIST:
    case PP_E_TUPLE:
        pp_text_add(out, e->kind == PP_E_LIST ? "[" : "<");
        show_all(e->a, out);
        pp_text_add(out, e->kind == PP_E_LIST ? "]" : ">");
        break;
    case PP_E_CALL:
        pp_text_add(out, "%s%s(", e->scan ? "scan " : "", e->name);
        show_all(e->a, out);
        pp_text_add(out, ")");
        break;
    case PP_E_ATTR:
        show(e->a, out);
        pp_text_add(out, ".%s", e->name);
        break;
    case PP_E_UNARY:
    case PP_E_BINARY: show_node(pp_infix_sign((pp_infix)e->op), e->a, e->b, NULL, out); break;
    case PP_E_NOT: show_node("not", e->a, NULL, NULL, out); break;
    case PP_E_AND: show_node("and", e->a, e->b, NULL, out); break;
    case PP_E_OR: show_node("or", e->a, e->b, NULL, out); break;
    case PP_E_IF: show_node("if", e->c, e->a, e->b, out); break;
    case PP_E_INDEX:
        show(e->a, out);
        pp_text_add(out, "{");
        show_all(e->b, out);
        pp_text_add(out, "}");
        break;
    case PP_E_SLICE:
        show(e->a, out);
        pp_text_add(out, ":");
        show(e->b, out);
        pp_text_add(out, ":");
        show(e->c, out);
        break;
    case PP_E_COMPREHENSION:
        pp_text_add(out, "[for %s", e->name);
        show_node("", e->a, e->b, e->c, out);
        pp_text_add(out, "]");
        break;
    case PP_E_STAR: show_node("splice", e->a, NULL, NULL, out); break;
    }
}

static PP_UNUSED void show_stmts(const pp_stmt *s, pp_text *out)
{
    static const char *const kinds[] = {"=", "", "require ", "if ", "output "};
    for (; s != NULL; s = s->next) {
        for (const pp_name *n = s->names; n != NULL; n = n->next) pp_text_add(out, "%s ", n->text);
        pp_text_add(out, "%s", kinds[s->kind]);
        show_all(s->value, out);
        if (s->message != NULL) pp_text_add(out, " \"%s\"", s->message);
        if (s->kind == PP_S_IF) {
            pp_text_add(out, " {");
            show_stmts(s->then, out);
            pp_text_add(out, "} {");
            show_stmts(s->otherwise, out);
            pp_text_add(out, "}");
        }
        if (s->next != NULL) pp_text_add(out, "; ");
    }
}

static PP_UNUSED pp_unit *parse(const char *text, pp_parse_mode mode)
{
    pp_error err = {0};
    pp_unit *unit = NULL;
    ppto_status status = pp_parse(text, strlen(text), "t", mode, &unit, &err);
    cr_assert_eq(status, PPTO_OK, "%s", err.text);
    return unit;
}

static PP_UNUSED void expect_body(const char *text, const char *tree)
{
    pp_unit *unit = parse(text, PP_PARSE_PROGRAM);
    pp_text out = {0};
    pp_text_add(&out, "%s", "");
    show_stmts(unit->body, &out);
    cr_expect_str_eq(out.at, tree, "%s\n  gives    %s\n  expected %s", text, out.at, tree);
    pp_text_free(&out);
    pp_unit_destroy(unit);
}

static PP_UNUSED void expect_error_of(const char *text, size_t n, pp_parse_mode mode, ppto_status code,
                                      const char *begin)
{
    pp_error err = {0};
    pp_unit *unit = NULL;
    ppto_status status = pp_parse(text, n, "t", mode, &unit, &err);
    cr_expect_eq(status, code, "%.80s: %s %s", text, ppto_status_name(status), err.text);
    cr_expect_eq(strncmp(err.text, begin, strlen(begin)), 0, "%.80s\n  says     %s\n  expected %s", text,
                 err.text, begin);
    cr_expect_null(unit);
}

static PP_UNUSED void expect_error(const char *text, const char *begin)
{
    expect_error_of(text, strlen(text), PP_PARSE_PROGRAM, PPTO_E_SYNTAX, begin);
}

static PP_UNUSED void expect_unsupported(const char *text, const char *begin)
{
    expect_error_of(text, strlen(text), PP_PARSE_PROGRAM, PPTO_E_UNSUPPORTED, begin);
}

#endif
