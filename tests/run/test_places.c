/* SPDX-License-Identifier: Apache-2.0
 * Graphs that mean the same share a plan, and on a track a program; what is said of one of them names the
 * places where that one was recorded. Two graphs are recorded at two places, from C and from texts, one after
 * the other in a context, and errors, explain, pictures, traces and refusals of both are looked at. */
#include <stdio.h>

#include "ppto/ops.h"
#include "tests/support/context.h"

enum { PLACES = 2, ROUNDS = 2, ROWS = 4000 };

TestSuite(places, .init = open_context, .fini = close_context);

/* x[i], an operator that fails at the run where an index is too large: recorded at one of two lines. */
typedef struct subject {
    ppto_graph *graph;
    ppto_program *program;
    char here[64], elsewhere[64]; /* of the operator, and of the other graph's */
} subject;

static subject from_c(int place)
{
    subject s = {.graph = ppto_graph_create(ctx)};
    ppto_tensor *y;
    const int first = __LINE__ + 2;
    if (place == 0)
        y = ppto_take(ppto_input(s.graph, "x", PPTO_F32, "N"), ppto_input(s.graph, "i", PPTO_I64, "M"));
    else
        y = ppto_take(ppto_input(s.graph, "x", PPTO_F32, "N"), ppto_input(s.graph, "i", PPTO_I64, "M"));
    snprintf(s.here, sizeof s.here, "test_places.c:%d", first + 2 * place);
    snprintf(s.elsewhere, sizeof s.elsewhere, "test_places.c:%d", first + 2 * !place);
    cr_assert_eq(ppto_compile(1, &y, &s.program), PPTO_OK, "%s", ppto_error_text(NULL));
    return s;
}

static subject from_text(int place)
{
    static const char text[] = "input x: f32[N]\ninput i: i64[M]\noutput y = take(x, i)\n";
    subject s = {.graph = ppto_graph_create(ctx)};
    ppto_tensor **outputs;
    char **names;
    size_t n;
    snprintf(s.here, sizeof s.here, "%c.ppto:3", 'a' + place);
    snprintf(s.elsewhere, sizeof s.elsewhere, "%c.ppto", 'a' + !place);
    const char *file = place == 0 ? "a.ppto" : "b.ppto";
    cr_assert_eq(ppto_parse_program(s.graph, text, strlen(text), file, NULL, NULL, &n, &outputs, &names),
                 PPTO_OK, "%s", ppto_error_text(NULL));
    cr_assert_eq(ppto_compile(n, outputs, &s.program), PPTO_OK, "%s", ppto_error_text(NULL));
    ppto_outputs_free(n, outputs, names);
    return s;
}

static void bind(const subject *s, int64_t rows, int64_t last)
{
    const int64_t n = 10;
    int64_t index[ROWS] = {0};
    index[rows - 1] = last;
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 1, &n, "uniform(0,1)", "x");
    ppto_array *i = ppto_array_copy_of(ctx, PPTO_I64, 1, &rows, index);
    cr_assert_eq(ppto_program_bind_name(s->program, "x", x), PPTO_OK);
    cr_assert_eq(ppto_program_bind_name(s->program, "i", i), PPTO_OK);
    ppto_array_release(x);
    ppto_array_release(i);
}

static void close_subject(subject *s)
{
    ppto_program_destroy(s->program);
    ppto_graph_destroy(s->graph);
}

static void expect_place(const subject *s, const char *text, const char *what)
{
    cr_expect(strstr(text, s->here), "%s does not name %s:\n%s", what, s->here, text);
    cr_expect(!strstr(text, s->elsewhere), "%s names %s:\n%s", what, s->elsewhere, text);
}

static void expect_explained(const subject *s)
{
    static const struct {
        ppto_explain_stage stage;
        bool json;
    } views[] = {{PPTO_EXPLAIN_GRAPH, false}, {PPTO_EXPLAIN_GRAPH, true}, {PPTO_EXPLAIN_SIMPLIFIED, true}};
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        char *text = NULL;
        cr_assert_eq(ppto_program_explain(s->program, views[i].stage, views[i].json, &text), PPTO_OK);
        expect_place(s, text, "explain");
        ppto_text_free(text);
    }
    char *svg = NULL;
    cr_assert_eq(ppto_program_picture(s->program, PPTO_PICTURE_SVG, &svg), PPTO_OK);
    expect_place(s, svg, "the picture");
    ppto_text_free(svg);
}

static void expect_traced(const subject *s, ppto_trace *trace)
{
    ppto_array *out = NULL;
    char *text = NULL;
    bind(s, 5, 9);
    cr_assert_eq(ppto_program_trace(s->program, trace, NULL), PPTO_OK);
    cr_assert_eq(ppto_program_run(s->program, &out), PPTO_OK, "%s", ppto_error_text(NULL));
    ppto_array_release(out);
    cr_assert_eq(ppto_trace_steps(trace, true, &text), PPTO_OK);
    cr_expect(strstr(text, s->here), "the trace does not name %s:\n%s", s->here, text);
    ppto_text_free(text);
}

typedef subject (*maker)(int place);
static const maker makers[] = {from_c, from_text};

/* Twice each: the second time a graph from C finds its program on the track. */
Test(places, an_error_of_a_run_names_the_graph_at_hand)
{
    for (size_t m = 0; m < 2; m++)
        for (int k = 0; k < PLACES * ROUNDS; k++) {
            ppto_array *out = NULL;
            subject s = makers[m](k % PLACES);
            bind(&s, 5, 10);
            cr_expect_eq(ppto_program_run(s.program, &out), PPTO_E_VALUE);
            expect_place(&s, ppto_error_text(ctx), "the error");
            close_subject(&s);
        }
}

/* While both are there, too. */
Test(places, explain_names_the_graph_at_hand)
{
    for (size_t m = 0; m < 2; m++)
        for (int round = 0; round < ROUNDS; round++) {
            subject a = makers[m](0), b = makers[m](1);
            expect_explained(&b);
            expect_explained(&a);
            bind(&a, 5, 1);
            bind(&b, 5, 1);
            expect_explained(&a);
            expect_explained(&b);
            close_subject(&a);
            close_subject(&b);
        }
}

Test(places, a_trace_names_the_graphs_it_is_of)
{
    ppto_trace *trace = NULL;
    cr_assert_eq(ppto_trace_create(ctx, NULL, &trace), PPTO_OK, "%s", ppto_error_text(NULL));
    for (size_t m = 0; m < 2; m++)
        for (int k = 0; k < PLACES; k++) {
            subject s = makers[m](k);
            expect_traced(&s, trace);
            close_subject(&s);
        }
    ppto_trace_destroy(trace);
}

static void limited(uint32_t chunk, uint64_t limit)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    ppto_context_destroy(ctx);
    o.executor = "serial";
    o.chunk = chunk;
    o.memory_limit = limit;
    cr_assert_eq(ppto_context_create(&ctx, &o), PPTO_OK, "%s", ppto_error_text(NULL));
}

/* Every maker's program, at every place in turn, fails so in a context of these sizes. last: as for bind */
static void expect_failures(uint32_t chunk, uint64_t limit, int64_t last, ppto_status status,
                            const char *what)
{
    limited(chunk, limit);
    for (size_t m = 0; m < 2; m++)
        for (int k = 0; k < PLACES * ROUNDS; k++) {
            ppto_array *out = NULL;
            subject s = makers[m](k % PLACES);
            bind(&s, ROWS, last);
            cr_expect_eq(ppto_program_run(s.program, &out), status);
            expect_place(&s, ppto_error_text(ctx), what);
            close_subject(&s);
        }
}

Test(places, so_does_a_run_by_pieces)
{
    expect_failures(256, 0, 10, PPTO_E_VALUE, "the error of a run by pieces");
}

Test(places, so_does_a_refusal_before_the_run)
{
    expect_failures(0, 40000, 1, PPTO_E_LIMIT, "the refusal");
}

/* What recording could not decide: a view that is outside with the sizes bound. */
Test(places, so_does_a_size_that_is_refused)
{
    for (int k = 0; k < PLACES * ROUNDS; k++) {
        const int64_t n = 2;
        ppto_graph *g = ppto_graph_create(ctx);
        ppto_tensor *x = ppto_input(g, "x", PPTO_F32, "N"), *y = NULL;
        const int first = __LINE__ + 1;
        if (k % 2 == 0) y = ppto_exprn(g, "$0[3]", 1, &x);
        if (k % 2 == 1) y = ppto_exprn(g, "$0[3]", 1, &x);
        subject s = {.graph = g};
        snprintf(s.here, sizeof s.here, "test_places.c:%d", first + k % 2);
        snprintf(s.elsewhere, sizeof s.elsewhere, "test_places.c:%d", first + !(k % 2));
        cr_assert_eq(ppto_compile(1, &y, &s.program), PPTO_OK, "%s", ppto_error_text(NULL));
        ppto_array *a = ppto_array_fill(ctx, PPTO_F32, 1, &n, "uniform(0,1)", "x"), *out = NULL;
        cr_assert_eq(ppto_program_bind_name(s.program, "x", a), PPTO_OK);
        cr_expect_eq(ppto_program_run(s.program, &out), PPTO_E_VALUE);
        expect_place(&s, ppto_error_text(ctx), "the error");
        ppto_array_release(a);
        close_subject(&s);
    }
}
