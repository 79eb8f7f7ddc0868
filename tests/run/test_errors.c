/* SPDX-License-Identifier: Apache-2.0
 * Mistakes of the caller: every one is a status with a text that says what was asked, which rule broke and
 * where; nothing crashes, leaks or takes long. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ppto/ops.h"
#include "tests/support/context.h"

TestSuite(errors, .init = open_context, .fini = close_context);

/* ---- recording ---- */

/* One mistake a graph: the first error of a graph stays. */
typedef struct mistake {
    const char *text; /* an expression over x: f32[N, 3], y: f32[2, 4], i: i32[5], b: bool[5] */
    ppto_status code;
    const char *words[4];
} mistake;

static const mistake mistakes[] = {
    {"x + y", PPTO_E_SHAPE, {"add", "f32[N, 3]", "f32[2, 4]"}},
    {"y @ y", PPTO_E_SHAPE, {"matmul", "f32[2, 4]"}},
    {"concat([x, y], axis=0)", PPTO_E_SHAPE, {"concat"}},
    {"reshape(y, [3, 3])", PPTO_E_SHAPE, {"reshape"}},
    {"sum(y, axis=2)", PPTO_E_VALUE, {"sum", "axis 2"}},
    {"transpose(y, [0, 0])", PPTO_E_SHAPE, {"transpose"}},
    {"exp(b)", PPTO_E_DTYPE, {"exp", "bool"}},
    {"i & x", PPTO_E_DTYPE, {"i32"}},
    {"i * 5000000000", PPTO_E_VALUE, {"5000000000", "i32"}},
    {"softmix(x)", PPTO_E_NAME, {"softmix", "softmax"}},
    {"softmax(x, axes=1)", PPTO_E_NAME, {"axes", "axis"}},
    {"x + z", PPTO_E_NAME, {"z"}},
    {"x + ", PPTO_E_SYNTAX, {":1:", "^"}},
    {"(x + 1", PPTO_E_SYNTAX, {"^"}},
    {"x ? 1", PPTO_E_SYNTAX, {"^"}},
    {"x < 1 < 2", PPTO_E_SYNTAX, {"&", "^"}},
};

static void declare(ppto_graph *g)
{
    ppto_input(g, "x", PPTO_F32, "N, 3");
    ppto_input(g, "y", PPTO_F32, "2, 4");
    ppto_input(g, "i", PPTO_I32, "5");
    ppto_input(g, "b", PPTO_BOOL, "5");
}

Test(errors, a_text_says_operator_operands_and_rule)
{
    for (size_t k = 0; k < sizeof mistakes / sizeof *mistakes; k++) {
        const mistake *m = &mistakes[k];
        ppto_graph *g = ppto_graph_create(ctx);
        declare(g);
        cr_expect_eq(ppto_graph_error(g), PPTO_OK);
        cr_expect_null(ppto_expr(g, m->text), "%s", m->text);
        ppto_status got = ppto_graph_error(g);
        cr_expect_eq(got, m->code, "%s: %s: %s", m->text, ppto_status_name(got), ppto_graph_error_text(g));
        for (int w = 0; w < 4 && m->words[w]; w++)
            cr_expect(strstr(ppto_graph_error_text(g), m->words[w]) != NULL, "\"%s\" is not in: %s",
                      m->words[w], ppto_graph_error_text(g));
        cr_expect_null(ppto_expr(g, "y + 1"), "a graph that failed records no more");
        cr_expect_eq(ppto_graph_error(g), got);
        ppto_graph_destroy(g);
    }
}

Test(errors, a_call_from_C_says_where)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N, 3"), *y = ppto_input(g, "y", PPTO_F32, "2, 4");
    char place[64];
    snprintf(place, sizeof place, "test_errors.c:%d", __LINE__ + 1);
    ppto_tensor *z = ppto_add(x, y);
    cr_expect_null(z);
    EXPECT_ERROR(ppto_graph_error(g), PPTO_E_SHAPE, "add", "f32[N, 3]", "f32[2, 4]", place);
    cr_expect(strstr(ppto_graph_error_text(g), place) != NULL, "%s", ppto_graph_error_text(g));
    ppto_array *out = NULL;
    EXPECT_ERROR(ppto_eval(ppto_mul(z, x), &out, NULL), PPTO_E_SHAPE, "add");
    cr_expect_null(out);
    ppto_graph_destroy(g);

    g = ppto_graph_create(ctx);
    x = ppto_input(g, "x", PPTO_F32, "N, 3");
    snprintf(place, sizeof place, "test_errors.c:%d", __LINE__ + 1);
    cr_expect_null(ppto_op(g, "softmix", "axis=1", x));
    EXPECT_ERROR(ppto_graph_error(g), PPTO_E_NAME, "softmix", "softmax");
    ppto_graph_destroy(g);
}

Test(errors, inputs_are_checked_when_declared)
{
    static const struct {
        const char *name, *dims;
        ppto_status code;
    } wrong[] = {
        {"x", "N, -3", PPTO_E_SYNTAX},
        {"x", "N,,2", PPTO_E_SYNTAX},
        {"x", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", PPTO_E_SHAPE},
        {"x", "99999999999999999999", PPTO_E_SYNTAX},
        {NULL, "N", PPTO_E_VALUE},
        {"x", NULL, PPTO_E_VALUE},
    };
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        ppto_graph *g = ppto_graph_create(ctx);
        cr_expect_null(ppto_input(g, wrong[k].name, PPTO_F32, wrong[k].dims));
        cr_expect_neq(ppto_graph_error(g), PPTO_OK, "input %zu", k);
        cr_expect_neq(ppto_graph_error(g), PPTO_E_INTERNAL, "input %zu", k);
        cr_expect_neq(*ppto_graph_error_text(g), 0, "input %zu", k);
        ppto_graph_destroy(g);
    }
    ppto_graph *g = ppto_graph_create(ctx);
    cr_expect_null(ppto_input(g, "x", (ppto_dtype)77, "N"), "an unknown dtype");
    cr_expect_eq(ppto_graph_error(g), PPTO_E_DTYPE);
    ppto_graph_destroy(g);
    g = ppto_graph_create(ctx);
    cr_expect_not_null(ppto_input(g, "x", PPTO_F32, "N"));
    cr_expect_null(ppto_input(g, "x", PPTO_F32, "M"));
    EXPECT_ERROR(ppto_graph_error(g), PPTO_E_NAME, "x", "taken");
    ppto_graph_destroy(g);
}

Test(errors, tensors_of_two_graphs_do_not_mix)
{
    ppto_graph *g = ppto_graph_create(ctx), *h = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N"), *y = ppto_input(h, "y", PPTO_F32, "N");
    ppto_tensor *both[2] = {x, y};
    ppto_program *p = NULL;
    EXPECT_ERROR(ppto_compile(2, both, &p), PPTO_E_VALUE, "different graphs");
    cr_expect_null(p);
    cr_expect_null(ppto_add(x, y));
    EXPECT_ERROR(ppto_error_status(NULL), PPTO_E_VALUE, "graph");
    ppto_graph_destroy(g);
    ppto_graph_destroy(h);
}

/* ---- NULL ---- */

Test(errors, NULL_is_answered_everywhere)
{
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N"), *none = NULL, *results[1];
    ppto_program *p = NULL;
    ppto_array *a = NULL;
    char *text = NULL;
    size_t n = 1;
    ppto_tensor **outputs;
    char **names;
    cr_expect_eq(ppto_context_create(NULL, NULL), PPTO_E_VALUE);
    ppto_context_destroy(NULL);
    ppto_graph_destroy(NULL);
    ppto_program_destroy(NULL);
    ppto_array_release(NULL);
    ppto_text_free(NULL);
    ppto_outputs_free(3, NULL, NULL);
    cr_expect_null(ppto_graph_create(NULL));
    cr_expect_eq(ppto_graph_error(NULL), PPTO_E_VALUE);
    cr_expect_neq(*ppto_graph_error_text(NULL), 0);
    cr_expect_eq(ppto_graph_size(NULL), 0);
    cr_expect_null(ppto_input(NULL, "x", PPTO_F32, "N"));
    cr_expect_null(ppto_input_number(NULL, "x", true));
    cr_expect_null(ppto_float(NULL, 1));
    cr_expect_null(ppto_int(NULL, 1));
    cr_expect_null(ppto_expr(NULL, "1"));
    cr_expect_null(ppto_add(none, x));
    cr_expect_null(ppto_add(none, none));
    cr_expect_null(ppto_sum(none));
    cr_expect_eq(ppto_opn_at(PPTO_HERE, NULL, "add", NULL, 0, NULL, 1, results), PPTO_E_VALUE);
    cr_expect_neq(ppto_parse_program(NULL, "1", 1, NULL, NULL, NULL, &n, &outputs, &names), PPTO_OK);
    cr_expect_eq(ppto_tensor_rank(NULL), 0);
    cr_expect_str_eq(ppto_tensor_type(NULL), "");
    cr_expect_null(ppto_tensor_graph(NULL));
    cr_expect_eq(ppto_compile(1, &none, &p), PPTO_E_VALUE);
    cr_expect_eq(ppto_compile(0, NULL, &p), PPTO_E_VALUE);
    cr_expect_eq(ppto_compile(1, &x, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_eval(NULL, &a, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_eval(x, NULL, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_eval(x, &a, "x", NULL, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_evaln(1, &x, NULL, 0, NULL, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_evaln(1, &x, &a, 1, NULL, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_inputs(NULL), 0);
    cr_expect_eq(ppto_program_outputs(NULL), 0);
    cr_expect_null(ppto_program_input_name(NULL, 0));
    cr_expect_eq(ppto_program_bind(NULL, 0, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_bind_name(NULL, "x", NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_bind_output(NULL, 0, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_donate(NULL, 0, true), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_run(NULL, &a), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_stats(NULL, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_explain(NULL, PPTO_EXPLAIN_SUMMARY, false, &text), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_log_tasks(NULL, true), PPTO_E_VALUE);
    cr_expect_eq(ppto_program_task_log(NULL, &text), PPTO_E_VALUE);
    cr_expect_null(ppto_array_create(NULL, PPTO_F32, 0, NULL));
    cr_expect_null(ppto_array_create(ctx, PPTO_F32, 1, NULL));
    cr_expect_null(ppto_array_copy_of(ctx, PPTO_F32, 0, NULL, NULL));
    cr_expect_null(ppto_array_load(ctx, NULL));
    cr_expect_null(ppto_array_load(NULL, "x.npy"));
    cr_expect_null(ppto_number(NULL, 1));
    cr_expect_null(ppto_array_fill(ctx, PPTO_F32, 0, NULL, NULL, NULL));
    cr_expect_null(ppto_array_retain(NULL));
    cr_expect_null(ppto_array_shape(NULL));
    cr_expect_null(ppto_array_strides(NULL));
    cr_expect_null(ppto_array_data(NULL));
    cr_expect_eq(ppto_array_elements(NULL), 0);
    cr_expect_eq(ppto_array_save(NULL, "x.npy"), PPTO_E_VALUE);
    cr_expect_eq(ppto_array_text(NULL, false, &text), PPTO_E_VALUE);
    cr_expect_eq(ppto_compare(NULL, NULL, 0, 0, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_define(ctx, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_define(NULL, "op f(x: num) = x"), PPTO_E_VALUE);
    cr_expect_eq(ppto_list_operators(NULL, NULL, false, &text), PPTO_E_VALUE);
    cr_expect_eq(ppto_show_operator(ctx, NULL, false, &text), PPTO_E_VALUE);
    cr_expect_eq(ppto_runtime_info(NULL, false, &text), PPTO_E_VALUE);
    cr_expect_eq(ppto_runtime_info(ctx, false, NULL), PPTO_E_VALUE);
    cr_expect_eq(ppto_selfcheck(NULL, &text), PPTO_E_VALUE);
    cr_expect_eq(ppto_tune(NULL, &text), PPTO_E_VALUE);
    cr_expect_eq(ppto_tune(ctx, NULL), PPTO_E_VALUE);
    cr_expect_neq(*ppto_status_name((ppto_status)12345), 0);
    cr_expect_eq(ppto_dtype_size((ppto_dtype)99), 0);
    ppto_graph_destroy(g);
}

/* ---- texts ---- */

Test(errors, a_definition_says_line_and_caret_and_adds_nothing)
{
    ppto_status s = ppto_define_named(ctx, "op one(x: num) = x + 1\nop two(x: num) = x +\n", 43, "mine.ppto");
    EXPECT_ERROR(s, PPTO_E_SYNTAX, "mine.ppto:2:", "^");
    char *text = NULL;
    EXPECT_ERROR(ppto_show_operator(ctx, "one", false, &text), PPTO_E_NAME, "one");
    EXPECT_ERROR(ppto_show_operator(ctx, "soft_max", false, &text), PPTO_E_NAME, "softmax");
}

static char *repeated(const char *begin, const char *piece, size_t count, const char *end)
{
    size_t first = strlen(begin), n = strlen(piece);
    char *text = malloc(first + n * count + strlen(end) + 1);
    cr_assert_not_null(text);
    strcpy(text, begin);
    for (size_t i = 0; i < count; i++) memcpy(text + first + i * n, piece, n);
    strcpy(text + first + n * count, end);
    return text;
}

#if !defined(__OPTIMIZE__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SECONDS = 10 };
#else
enum { SECONDS = 1 };
#endif

/* Refused, or accepted: but in under a second of processor time, with memory that is given back (teardown).
 * n: length of the text, which may hold NUL. */
static void hostile_text(char *text, size_t n, bool definition)
{
    ppto_graph *g = ppto_graph_create(ctx);
    declare(g);
    clock_t start = clock();
    ppto_status s;
    if (definition) {
        s = ppto_define_named(ctx, text, n, "hostile");
    } else {
        size_t results = 0;
        ppto_tensor **outputs = NULL;
        char **names = NULL;
        s = ppto_parse_program(g, text, n, "hostile", NULL, NULL, &results, &outputs, &names);
        if (s == PPTO_OK) ppto_outputs_free(results, outputs, names);
    }
    double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    cr_expect_neq(s, PPTO_E_INTERNAL, "%.40s: %s", text, ppto_error_text(NULL));
    cr_expect_neq(s, PPTO_E_NOMEM, "%.40s: %s", text, ppto_error_text(NULL));
    cr_expect(strlen(ppto_error_text(NULL)) < 2048);
    cr_expect_lt(seconds, SECONDS, "%.40s: %s", text, ppto_error_text(NULL));
    ppto_graph_destroy(g);
    free(text);
}

/* A program may define what it uses, before or after; twice the same text is one definition, another is none.
 */
Test(errors, a_program_defines_what_it_uses)
{
    static const char text[] = "y = twice(1) + twice(2)\nop twice(x: any) = x * 2   # once\noutput y";
    static const char same[] = "op twice(x: any) = x * 2\ntwice(3)";
    static const char other[] = "op twice(x: any) = x * 3\ntwice(3)";
    ppto_tensor **outputs;
    char **names;
    size_t n;
    for (int k = 0; k < 3; k++) {
        ppto_graph *g = ppto_graph_create(ctx);
        const char *now = k == 1 ? same : text;
        cr_assert_eq(ppto_parse_program(g, now, strlen(now), NULL, NULL, NULL, &n, &outputs, &names), PPTO_OK,
                     "%s", ppto_error_text(ctx));
        ppto_array *out = NULL;
        cr_assert_eq(ppto_eval(outputs[0], &out, NULL), PPTO_OK, "%s", ppto_error_text(ctx));
        cr_expect_eq(*(const int64_t *)ppto_array_data(out), 6);
        ppto_array_release(out);
        ppto_outputs_free(n, outputs, names);
        ppto_graph_destroy(g);
    }
    ppto_graph *g = ppto_graph_create(ctx);
    cr_expect_eq(ppto_parse_program(g, other, strlen(other), NULL, NULL, NULL, &n, &outputs, &names),
                 PPTO_E_NAME);
    cr_expect_not_null(strstr(ppto_error_text(ctx), "`twice` is taken by another definition"), "%s",
                       ppto_error_text(ctx));
    ppto_graph_destroy(g);
    cr_expect_eq(ppto_define(ctx, "op twice(x: any) = x * 2"), PPTO_OK, "%s", ppto_error_text(ctx));
    cr_expect_eq(ppto_define(ctx, "op twice(x: float) = x * 2"), PPTO_E_NAME);
}

static void hostile(char *text, bool definition)
{
    hostile_text(text, strlen(text), definition);
}

/* `count` pieces, each printed with its number. */
static char *numbered(const char *piece, unsigned count, const char *end)
{
    char *text = malloc((strlen(piece) + 40) * count + strlen(end) + 1), *at = text;
    cr_assert_not_null(text);
    for (unsigned i = 0; i < count; i++) {
        for (const char *p = piece; *p != '\0'; p++)
            if (*p == '#')
                at += sprintf(at, "%u", i);
            else if (*p == '<')
                at += sprintf(at, "%u", i == 0 ? 0 : i - 1);
            else
                *at++ = *p;
    }
    strcpy(at, end);
    return text;
}

Test(errors, hostile_nesting_is_answered_soon)
{
    ppto_define(ctx, "op warm(x: num) = x");
    hostile(repeated("", "(", 100000, ""), false);
    hostile(repeated("", "(", 100000, "x"), false);
    hostile(repeated("", "-", 100000, "y"), false);
    hostile(repeated("", "not ", 100000, "true"), false);
    hostile(repeated("", "y**", 100000, "y"), false);
    hostile(repeated("", "y if true else ", 100000, "y"), false);
    hostile(repeated("", "[", 100000, ""), false);
    hostile(repeated("y", "[", 100000, ""), false);
    hostile(repeated("y", "[0]", 100000, ""), false);
    hostile(repeated("", "exp(", 100000, "y"), false);
    hostile(repeated("", "exp(", 900, "y)"), false);
    hostile(repeated("y", ".T", 100000, ""), false);
    hostile(repeated("y", ".T", 3900, ""), false);
    hostile(repeated("op f(x: num) = ", "(", 100000, ""), true);
    hostile(repeated("op f(x: num) {", "if rank(x) > 0 {", 100000, ""), true);
    hostile(repeated("fold f(x: num) { lift = ", "(", 100000, ""), true);
    hostile(repeated("fold f(x: num) { lift { ", "{", 100000, ""), true);
    hostile(repeated("op f(x: num) = x", ".T", 3900, ""), true);
    hostile(repeated("op f(x: num) = ", "[", 900, "x"), true);
}

Test(errors, hostile_lengths_are_answered_soon)
{
    ppto_define(ctx, "op warm(x: num) = x");
    hostile(repeated("", "y + ", 5000000, "y"), false);
    hostile(repeated("", "y + ", 490000, "y"), false);
    hostile(repeated("", "1 + ", 490000, "1"), false);
    hostile(repeated("", "1,", 2000000, "1"), false);
    hostile(repeated("concat([y", ", y", 100000, "])"), false);
    hostile(repeated("", "9", 100000, ""), false);
    hostile(repeated("", "a", 1000000, ""), false);
    hostile(repeated("op ", "a", 1000000, "(x: num) = x"), true);
    hostile(repeated("op f(x: num) = ", "a", 1000000, "(x)"), true);
    hostile(repeated("\"", "a", 1000000, "\""), false);
    hostile(repeated("", "\n", 5000000, ""), false);
    hostile(repeated("", ";", 5000000, ""), false);
    hostile(repeated("# ", "c", 10000000, ""), false);
    hostile(repeated("", "## doc\n", 1000000, "op f(x: num) = x"), true);
    hostile(repeated("", "\xff\xfe", 1000, ""), true);
    hostile(repeated("y # ", "\xc3\xa9", 1000000, "\xc3"), false);
    hostile_text(memset(malloc(1000000), 0, 1000000), 1000000, false);
    char *late = repeated("y + ", " ", 1000000, "1");
    late[900000] = '\0';
    hostile_text(late, 1000005, false);
}

Test(errors, hostile_numbers_of_names_are_answered_soon)
{
    ppto_define(ctx, "op warm(x: num) = x");
    hostile(repeated("", "op f(x: num) = x\n", 1000000, ""), true);
    hostile(numbered("op f#(x: num) = x\n", 1000000, ""), true);
    hostile(numbered("op g#(x: num) = x\n", 50000, "op f(x: num) = missing(x)\n"), true);
    hostile(numbered("op c#(x: num) = c<(x)\n", 50000, ""), true);
    hostile(numbered("op d#(x: num) = e#(x)\n", 20000, ""), true);
    hostile(numbered("alias a# = exp\n", 200000, "alias b = missing\n"), true);
    hostile(numbered("v# = 1\n", 200000, "v0"), false);
    hostile(numbered("v# = y\n", 200000, "v0"), false);
    hostile(numbered("input in#: f32[N#]\n", 50000, "in7 + in7"), false);
    hostile(numbered("output o# = y\n", 50000, ""), false);
    hostile(numbered("v# = 1\n", 100000, "nosuchname"), false);
    char *body = numbered("  v# = x\n", 100000, "  v7\n}\n");
    char *text = malloc(strlen(body) + 64);
    strcat(strcpy(text, "op long(x: num) {\n"), body);
    free(body);
    hostile(text, true);
}

/* Under a limit of the process, so that no text brings more than a gigabyte. */
Test(errors, hostile_texts_stay_small)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    struct rlimit limit = {1u << 30, 1u << 30};
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
#endif
    hostile(repeated("", "y + ", 3900000, "y"), false);
    hostile(numbered("op f#(x: num) = x\n", 800000, ""), true);
    hostile(numbered("v# = y\n", 200000, "v0"), false);
    hostile(repeated("", "1,", 8000000, "1"), false);
}

Test(errors, a_long_sum_that_is_allowed_records)
{
    char *text = repeated("", "y + ", 100000, "y");
    ppto_graph *g = ppto_graph_create(ctx);
    declare(g);
    ppto_tensor *t = ppto_expr(g, text);
    ppto_status s = ppto_graph_error(g);
    cr_expect(t != NULL || s == PPTO_E_LIMIT || s == PPTO_E_SYNTAX, "%s", ppto_graph_error_text(g));
    ppto_graph_destroy(g);
    free(text);
}
