/* SPDX-License-Identifier: Apache-2.0
 * What the tests of graph share: the shipped library, definitions from a text, a graph, an expression
 * recorded. */
#ifndef GRAPH_TEXT_H
#define GRAPH_TEXT_H

#include <criterion/criterion.h>
#include <string.h>

#include "graph/graph.h"
#include "lang/parser.h"

extern const char pp_library_text[], pp_functions_text[];
extern const size_t pp_library_text_size, pp_functions_text_size;

static pp_library *library;
static pp_graph *graph;

/* NULL when unknown. */
static PP_UNUSED const pp_definition *find(const char *name)
{
    const pp_definition *d;
    cr_assert_eq(pp_library_find(library, name, &d, NULL), PPTO_OK);
    return d;
}

static PP_UNUSED ppto_status define(const char *text, size_t n, bool builtin, pp_error *err)
{
    pp_unit *unit;
    PP_TRY(pp_parse(text, n, "test.ppto", PP_PARSE_LIBRARY, &unit, err));
    return pp_library_add(library, unit, pp_unit_destroy, builtin, err);
}

static PP_UNUSED void open_graph(void)
{
    pp_error err = {.code = PPTO_OK};
    cr_assert_eq(pp_library_create(NULL, &library), PPTO_OK);
    cr_assert_eq(define(pp_functions_text, pp_functions_text_size, true, &err), PPTO_OK, "%s", err.text);
    cr_assert_eq(define(pp_library_text, pp_library_text_size, true, &err), PPTO_OK, "%s", err.text);
    cr_assert_eq(pp_graph_create(library, &graph), PPTO_OK);
}

static PP_UNUSED void close_graph(void)
{
    pp_graph_destroy(graph);
    pp_library_destroy(library);
}

static PP_UNUSED pp_ref input(const char *name, ppto_dtype dtype, const char *dims)
{
    pp_ref ref;
    cr_assert_eq(pp_graph_input(graph, name, dtype, false, dims, (ppto_site){0}, &ref), PPTO_OK);
    return ref;
}

/* Records a text; up to 8 results. The message of a failure is the graph's. */
static PP_UNUSED ppto_status record_text(const char *text, pp_ref *out, size_t *n)
{
    pp_unit *unit;
    pp_error err = {.code = PPTO_OK};
    const char **names;
    pp_ref *results;
    pp_error_clear(pp_graph_error(graph));
    cr_assert_eq(pp_parse(text, strlen(text), "<text>", PP_PARSE_PROGRAM, &unit, &err), PPTO_OK, "%s",
                 err.text);
    ppto_status status = pp_graph_text(graph, unit, NULL, 0, NULL, NULL, (ppto_site){0}, &names, &results, n);
    for (size_t i = 0; status == PPTO_OK && i < *n && i < 8; i++) out[i] = results[i];
    pp_unit_destroy(unit);
    return status;
}

static PP_UNUSED void expect_result(const char *text, const char *type)
{
    pp_ref out[8];
    size_t n;
    pp_text shown = {0};
    cr_assert_eq(record_text(text, out, &n), PPTO_OK, "%s: %s", text, pp_graph_error(graph)->text);
    for (size_t i = 0; i < n && i < 8; i++) {
        if (i != 0) pp_text_add(&shown, " ");
        pp_type_print(pp_graph_types(graph), pp_type_get(pp_graph_types(graph), pp_graph_type(graph, out[i])),
                      &shown);
    }
    cr_expect_str_eq(shown.at, type, "%s gives %s, not %s", text, shown.at, type);
    pp_text_free(&shown);
}

static PP_UNUSED void expect_failure(const char *text, ppto_status code, const char *message)
{
    pp_ref out[8];
    size_t n;
    ppto_status status = record_text(text, out, &n);
    const char *got = pp_graph_error(graph)->text;
    cr_expect_eq(status, code, "%s: %s", text, ppto_status_name(status));
    cr_expect(strstr(got, message) != NULL, "%s: `%s` is not in `%s`", text, message, got);
}

/* Records a program text over x: f32[N, 4] and expands it. read: takes what it wants to know of the flat
 * graph, which is gone afterwards; NULL: nothing. Asserts nothing: allocations may fail. */
static PP_UNUSED ppto_status record_and_expand(pp_library *in, const char *text,
                                               uint64_t (*read)(const pp_flat *), uint64_t *out)
{
    pp_unit *unit;
    pp_error err = {.code = PPTO_OK};
    const char **names;
    pp_graph *own;
    pp_ref x, *results;
    size_t n, ops;
    pp_flat flat;
    PP_TRY(pp_graph_create(in, &own));
    ppto_status status = pp_parse(text, strlen(text), "<text>", PP_PARSE_PROGRAM, &unit, &err);
    if (status == PPTO_OK) {
        status = pp_graph_input(own, "x", PPTO_F32, false, "N, 4", (ppto_site){0}, &x);
        if (status == PPTO_OK)
            status = pp_graph_text(own, unit, NULL, 0, NULL, NULL, (ppto_site){0}, &names, &results, &n);
        if (status == PPTO_OK) status = pp_graph_expand(own, results, n, &flat, &ops, &err);
        if (status == PPTO_OK) {
            if (read != NULL) *out = read(&flat);
            pp_flat_free(&flat);
        }
        pp_unit_destroy(unit);
    }
    pp_graph_destroy(own);
    return status;
}

#endif
