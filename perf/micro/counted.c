/* SPDX-License-Identifier: Apache-2.0
 * Programs whose instructions perf/guard.py counts.
 *
 *   counted RUNS PROGRAM [NAME=SPEC...] [-- PROGRAM [NAME=SPEC...]]...
 *
 * SPEC is DTYPE[SIZES]:FILLER, as `ppto bench` has it. One thread, no machine code. Each program is first run
 * once in a context that is thrown away, so that what a process does only once is done: then, in a second
 * one, it is recorded, compiled and run (the first part), and run RUNS times more with its results bound (the
 * second part). Two words stand for programs that are called from C, and are recorded again in every part:
 *
 *   @anew     ten operators on x and y, recorded, evaluated and given back
 *   @record   a thousand nodes on x, recorded alone
 *
 * Before and after each part counted_mark is called: callgrind is told to dump its counters
 * there. On stdout is what ppto_program_explain says of each program, as JSON. Exit status 1 when the library
 * failed. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ppto/ppto.h"

enum { MAX_INPUTS = 16, MAX_OUTPUTS = 8, NAME_ROOM = 32, DIMS_ROOM = 128, NODES = 1000 };

typedef struct input {
    char name[NAME_ROOM], dims[DIMS_ROOM];
    ppto_dtype dtype;
    ppto_array *array;
} input;

typedef struct work {
    const char *text;
    size_t n;
    input inputs[MAX_INPUTS];
} work;

/* A place in the program that callgrind finds by its name. */
void counted_mark(void);
__attribute__((noinline)) void counted_mark(void)
{
    __asm__ volatile("");
}

static void fail(ppto_context *ctx, const char *what)
{
    fprintf(stderr, "counted: %s: %s\n", what, ppto_error_text(ctx));
    exit(1);
}

/* ---- programs ------------------------------------------------------------------------------------------ */

static bool dtype_of(const char *name, ppto_dtype *dtype)
{
    for (int d = 0; d <= PPTO_F64; d++)
        if (strcmp(ppto_dtype_name((ppto_dtype)d), name) == 0) {
            *dtype = (ppto_dtype)d;
            return true;
        }
    return false;
}

/* "x=f32[4,5]:uniform(0,1)" */
static void read_input(ppto_context *ctx, const char *spec, input *in)
{
    char dtype[NAME_ROOM], filler[NAME_ROOM];
    int64_t shape[PPTO_MAX_RANK];
    int rank = 0;
    if (sscanf(spec, "%31[^=]=%31[^[][%127[^]]]:%31s", in->name, dtype, in->dims, filler) != 4 ||
        !dtype_of(dtype, &in->dtype))
        fail(NULL, spec);
    for (char *at = in->dims; rank < PPTO_MAX_RANK; at++) {
        shape[rank++] = strtoll(at, &at, 10);
        if (*at == '\0') break;
    }
    in->array = ppto_array_fill(ctx, in->dtype, rank, shape, filler, in->name);
    if (in->array == NULL) fail(ctx, spec);
}

static input *find(work *w, const char *name)
{
    for (size_t i = 0; i < w->n; i++)
        if (strcmp(w->inputs[i].name, name) == 0) return &w->inputs[i];
    return NULL;
}

static ppto_tensor *declare(void *arg, ppto_graph *graph, const char *name)
{
    const input *in = find(arg, name);
    return in != NULL ? ppto_input(graph, in->name, in->dtype, in->dims) : NULL;
}

static ppto_program *compile(ppto_context *ctx, ppto_graph *graph, work *w)
{
    ppto_tensor **outputs = NULL;
    char **names = NULL;
    size_t n = 0;
    ppto_program *program = NULL;
    if (ppto_parse_program(graph, w->text, strlen(w->text), NULL, declare, w, &n, &outputs, &names) !=
            PPTO_OK ||
        ppto_compile(n, outputs, &program) != PPTO_OK || n > MAX_OUTPUTS)
        fail(ctx, w->text);
    ppto_outputs_free(n, outputs, names);
    for (size_t i = 0; i < ppto_program_inputs(program); i++)
        if (ppto_program_bind(program, i, find(w, ppto_program_input_name(program, i))->array) != PPTO_OK)
            fail(ctx, w->text);
    return program;
}

/* The first run, whose results the program then has bound. */
static void first_run(ppto_context *ctx, ppto_program *program)
{
    ppto_array *results[MAX_OUTPUTS];
    if (ppto_program_run(program, results) != PPTO_OK) fail(ctx, "run");
    for (size_t i = 0; i < ppto_program_outputs(program); i++) {
        if (ppto_program_bind_output(program, i, results[i]) != PPTO_OK) fail(ctx, "bind");
        ppto_array_release(results[i]);
    }
}

static void explain(ppto_context *ctx, ppto_program *program)
{
    char *text = NULL;
    if (ppto_program_explain(program, PPTO_EXPLAIN_SUMMARY, true, &text) != PPTO_OK) fail(ctx, "explain");
    puts(text);
    ppto_text_free(text);
}

static void count(ppto_context *ctx, work *w, int runs, bool marks)
{
    if (marks) counted_mark();
    ppto_graph *graph = ppto_graph_create(ctx);
    ppto_program *program = compile(ctx, graph, w);
    first_run(ctx, program);
    if (marks) counted_mark();
    for (int i = 0; i < runs; i++)
        if (ppto_program_run(program, NULL) != PPTO_OK) fail(ctx, "run");
    if (marks) counted_mark();
    if (marks) explain(ctx, program);
    ppto_program_destroy(program);
    ppto_graph_destroy(graph);
}

/* ---- recorded from C ----------------------------------------------------------------------------------- */

static ppto_tensor *tensor(ppto_graph *graph, work *w, const char *name)
{
    ppto_tensor *t = declare(w, graph, name);
    if (t == NULL) fail(NULL, w->text);
    return t;
}

static ppto_tensor *chain(ppto_graph *graph, work *w)
{
    ppto_tensor *x = tensor(graph, w, "x"), *y = tensor(graph, w, "y");
    ppto_tensor *z = ppto_sub(ppto_mul(ppto_add(ppto_mul(x, y), x), y), x);
    return ppto_abs(ppto_sub(ppto_mul(ppto_add(ppto_mul(z, y), x), y), ppto_sqrt(x)));
}

static void anew(ppto_context *ctx, work *w)
{
    ppto_array *out = NULL;
    ppto_graph *graph = ppto_graph_create(ctx);
    if (ppto_eval(chain(graph, w), &out, "x", find(w, "x")->array, "y", find(w, "y")->array, NULL) != PPTO_OK)
        fail(ctx, w->text);
    ppto_array_release(out);
    ppto_graph_destroy(graph);
}

static void record(ppto_context *ctx, work *w)
{
    ppto_graph *graph = ppto_graph_create(ctx);
    ppto_tensor *x = tensor(graph, w, "x"), *z = x;
    for (int i = 0; i < NODES; i++) z = i % 2 != 0 ? ppto_add(z, x) : ppto_mul(z, x);
    if (z == NULL) fail(ctx, w->text);
    ppto_graph_destroy(graph);
}

static void explain_chain(ppto_context *ctx, work *w)
{
    ppto_graph *graph = ppto_graph_create(ctx);
    ppto_tensor *root = chain(graph, w);
    ppto_program *program = NULL;
    if (ppto_compile(1, &root, &program) != PPTO_OK ||
        ppto_program_bind_name(program, "x", find(w, "x")->array) != PPTO_OK ||
        ppto_program_bind_name(program, "y", find(w, "y")->array) != PPTO_OK)
        fail(ctx, w->text);
    explain(ctx, program);
    ppto_program_destroy(program);
    ppto_graph_destroy(graph);
}

static void count_recorded(ppto_context *ctx, work *w, int runs, bool marks)
{
    const bool evaluated = strcmp(w->text, "@anew") == 0;
    void (*part)(ppto_context *, work *) = evaluated ? anew : record;
    if (marks) counted_mark();
    part(ctx, w);
    if (marks) counted_mark();
    for (int i = 0; i < runs; i++) part(ctx, w);
    if (marks) counted_mark();
    if (marks && evaluated) explain_chain(ctx, w);
    if (marks && !evaluated) puts("{\"kernels\": 0, \"groups\": [], \"predicted_peak_bytes\": 0}");
}

/* ---- the whole list ------------------------------------------------------------------------------------ */

/* What the first run of a context does once: its workers, the proof of the block loops. */
static void warm(ppto_context *ctx)
{
    ppto_graph *graph = ppto_graph_create(ctx);
    ppto_array *two = NULL;
    if (ppto_eval(ppto_expr(graph, "1.0 + 1.0"), &two, NULL) != PPTO_OK) fail(ctx, "1 + 1");
    ppto_array_release(two);
    ppto_graph_destroy(graph);
}

static void count_all(int runs, char **word, bool marks)
{
    ppto_context *ctx = NULL;
    ppto_options options = PPTO_OPTIONS_INIT;
    options.executor = "serial";
    options.tier = "interp";
    if (ppto_context_create(&ctx, &options) != PPTO_OK) fail(NULL, "context");
    warm(ctx);
    while (*word != NULL) {
        work w = {.text = *word++};
        while (*word != NULL && strcmp(*word, "--") != 0 && w.n < MAX_INPUTS)
            read_input(ctx, *word++, &w.inputs[w.n++]);
        word += *word != NULL;
        (w.text[0] == '@' ? count_recorded : count)(ctx, &w, runs, marks);
        for (size_t k = 0; k < w.n; k++) ppto_array_release(w.inputs[k].array);
    }
    (void)ppto_context_destroy(ctx);
}

int main(int argc, char **argv)
{
    const int runs = argc > 2 ? atoi(argv[1]) : 0;
    if (runs < 1) return 2;
    count_all(1, argv + 2, false);
    count_all(runs, argv + 2, true);
    return 0;
}
