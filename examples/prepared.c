/* SPDX-License-Identifier: Apache-2.0
 * Machine code before the first run: a program is prepared for what is bound to it, so that no run waits for
 * a plan or a compiler. The statistics tell what came of it; without a generator of code (`ppto info`) the
 * same bits come from loops that are interpreted. */
#include <ppto/ppto.h>
#include <stdio.h>

static void show(const char *when, const ppto_stats *s)
{
    printf("%-8s tier %-6s %d of %d loops are machine code (%d from disk), compiled for %.1f ms\n", when,
           s->tier, (int)s->compiled_loops, (int)s->loops, (int)s->disk_hits, 1e3 * s->compile_seconds);
}

int main(void)
{
    ppto_context *ctx = NULL;
    ppto_program *program = NULL;
    ppto_array *out = NULL;
    ppto_stats first = {.size = sizeof first}, last = {.size = sizeof last};
    const int64_t shape[] = {512, 256};
    if (ppto_context_create(&ctx, NULL) != PPTO_OK) return 1; /* tier "auto" */
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_input(g, "x", PPTO_F32, "N, 256");
    ppto_tensor *y = ppto_expr(g, "tanh(x) * x + exp(-x) * sqrt(abs(x))");
    ppto_array *x = ppto_array_fill(ctx, PPTO_F32, 2, shape, "normal(1)", "x");
    ppto_status status = ppto_compile(1, &y, &program);
    ppto_graph_destroy(g);

    if (status == PPTO_OK) status = ppto_program_bind_name(program, "x", x);
    if (status == PPTO_OK) status = ppto_program_prepare(program); /* plans, compiles, waits */
    if (status == PPTO_OK) status = ppto_program_run(program, &out);
    if (status == PPTO_OK) status = ppto_program_stats(program, &first);
    for (int i = 0; status == PPTO_OK && i < 10; i++) {
        ppto_array_release(out);
        out = NULL;
        status = ppto_program_run(program, &out);
    }
    if (status == PPTO_OK) status = ppto_program_stats(program, &last);
    if (status != PPTO_OK) fprintf(stderr, "%s\n", ppto_error_text(ctx));
    if (status == PPTO_OK) show("first", &first), show("last", &last);

    /* all of it was ready before the first run, or nothing can be compiled here; none came later */
    bool ready = first.compiled_loops == 0 || first.compiled_loops == first.loops;
    bool right = ready && first.compiled_loops == last.compiled_loops && first.loops == last.loops;
    ppto_array_release(out);
    ppto_array_release(x);
    ppto_program_destroy(program);
    ppto_context_destroy(ctx);
    return status == PPTO_OK && right ? 0 : 1;
}
