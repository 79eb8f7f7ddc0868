/* SPDX-License-Identifier: Apache-2.0
 * comma_locale FOLDER: writes every kind of text with numbers into FOLDER, under the locale of the
 * environment, and prints its decimal point. comma_locale.py compares the files of two locales. */
#include <ppto/ppto.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void good(ppto_status status)
{
    if (status == PPTO_OK) return;
    fprintf(stderr, "%s\n", ppto_error_text(NULL));
    exit(1);
}

static void keep(const char *name, char *text)
{
    FILE *file = fopen(name, "w");
    if (!file || !text || fputs(text, file) < 0 || fclose(file) != 0) exit(1);
    ppto_text_free(text);
}

static void write_arrays(ppto_context *ctx)
{
    static const char *const fillers[] = {"uniform(-1.5, 1.25)", "normal(1)"};
    char *text = NULL, name[32];
    for (int i = 0; i < 4; i++) {
        const ppto_dtype dtype = i & 1 ? PPTO_F64 : PPTO_F32;
        ppto_array *array = ppto_array_fill(ctx, dtype, 1, ((int64_t[]){50}), fillers[i / 2], "x");
        if (!array) good(PPTO_E_VALUE);
        for (int json = 0; json < 2; json++) {
            good(ppto_array_text(array, json, &text));
            snprintf(name, sizeof name, "array%d%d.same", i, json);
            keep(name, text);
        }
        ppto_array_release(array);
    }
}

static void write_program(ppto_program *program)
{
    char *text = NULL, name[32];
    for (int stage = PPTO_EXPLAIN_SUMMARY; stage <= PPTO_EXPLAIN_SOURCE; stage++)
        for (int json = 0; json <= (stage <= PPTO_EXPLAIN_SIMPLIFIED); json++) {
            good(ppto_program_explain(program, (ppto_explain_stage)stage, json, &text));
            snprintf(name, sizeof name, "explain%d%d.same", stage, json);
            keep(name, text);
        }
    good(ppto_program_picture(program, PPTO_PICTURE_SVG, &text));
    keep("picture.same", text);
}

static void write_trace(ppto_context *ctx, ppto_program *program, ppto_array *x)
{
    ppto_trace *trace = NULL;
    ppto_array *result = NULL;
    char *text = NULL;
    size_t n = 0;
    good(ppto_trace_create(ctx, NULL, &trace));
    good(ppto_program_trace(program, trace, NULL));
    good(ppto_program_bind(program, 0, x));
    good(ppto_program_run(program, &result));
    good(ppto_trace_write(trace, PPTO_TRACE_CHROME, &text, &n));
    keep("chrome.json", text);
    good(ppto_trace_write(trace, PPTO_TRACE_TIMELINE, &text, &n));
    keep("timeline.svg", text);
    good(ppto_trace_steps(trace, true, &text));
    keep("steps.json", text);
    good(ppto_runtime_info(ctx, true, &text));
    keep("info.json", text);
    ppto_array_release(result);
    ppto_trace_destroy(trace);
}

int main(int argc, char **argv)
{
    ppto_context *ctx = NULL;
    ppto_program *program = NULL;
    if (argc != 2 || chdir(argv[1]) != 0) return 2;
    setlocale(LC_ALL, "");
    puts(localeconv()->decimal_point);
    good(ppto_context_create(&ctx, NULL));
    write_arrays(ctx);
    ppto_graph *graph = ppto_graph_create(ctx);
    ppto_input(graph, "x", PPTO_F32, "64, 32");
    ppto_tensor *y = ppto_expr(graph, "softmax(x * 0.3125 + 1.5e-3) * 2.75");
    if (!y) good(PPTO_E_VALUE);
    good(ppto_compile(1, &y, &program));
    write_program(program);
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 2, ((int64_t[]){64, 32}), "uniform(0.5, 2.5)", "x");
    write_trace(ctx, program, x);
    ppto_array_release(x);
    ppto_program_destroy(program);
    ppto_graph_destroy(graph);
    good(ppto_context_destroy(ctx));
    return 0;
}
