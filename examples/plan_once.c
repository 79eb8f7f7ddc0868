/* SPDX-License-Identifier: Apache-2.0
 * Plan once, run often: heat in a rod. One program, compiled once, steps in a loop; its input is donated, so
 * that the new temperatures take over the memory of the old ones. Another length of the rod needs no new
 * plan. */
#include <ppto/ppto.h>
#include <stdio.h>

enum { STEPS = 100 };

static const char text[] = "concat([u[:1], u[1:-1] + 0.25 * (u[:-2] - 2 * u[1:-1] + u[2:]), u[-1:]], axis=0)";

/* Steps a rod of n points that is hot in its first half. */
static ppto_status simulate(ppto_context *ctx, ppto_program *step, int64_t n, double *total)
{
    ppto_array *u = ppto_array_fill(ctx, PPTO_F64, 1, &n, "zeros", "u"), *next = NULL;
    ppto_status status = u ? PPTO_OK : ppto_error_status(ctx);
    for (int64_t i = 0; status == PPTO_OK && i < n / 2; i++) ((double *)ppto_array_data(u))[i] = 1;
    for (int i = 0; status == PPTO_OK && i < STEPS; i++) {
        status = ppto_program_bind(step, 0, u);
        ppto_array_release(u); /* the program keeps it until the next is bound */
        if (status == PPTO_OK) status = ppto_program_run(step, &next);
        u = next;
        next = NULL;
    }
    *total = 0;
    for (int64_t i = 0; status == PPTO_OK && i < n; i++) *total += ((const double *)ppto_array_data(u))[i];
    ppto_array_release(u);
    ppto_program_bind(step, 0, NULL);
    return status;
}

int main(void)
{
    ppto_context *ctx = NULL;
    ppto_program *step = NULL;
    ppto_stats stats = {.size = sizeof stats};
    bool right = true;
    if (ppto_context_create(&ctx, NULL) != PPTO_OK) return 1;
    ppto_graph *g = ppto_graph_create(ctx);
    ppto_input(g, "u", PPTO_F64, "N");
    ppto_tensor *next = ppto_expr(g, text);
    ppto_status status = ppto_compile(1, &next, &step);
    ppto_graph_destroy(g); /* a program does not keep its graph */
    if (status == PPTO_OK) status = ppto_program_donate(step, 0, true);
    for (int64_t n = 1000; status == PPTO_OK && n <= 4000; n *= 2) {
        double total;
        status = simulate(ctx, step, n, &total);
        if (status == PPTO_OK) status = ppto_program_stats(step, &stats);
        if (status != PPTO_OK) break;
        right = right && total > 0.499 * (double)n && total < 0.501 * (double)n;
        printf("%5d points: heat %.3f, %zu kernel, %.1f us a step, peak %llu bytes\n", (int)n, total,
               stats.kernels, 1e6 * stats.run_seconds, (unsigned long long)stats.measured_peak_bytes);
    }
    if (status != PPTO_OK) fprintf(stderr, "%s\n", ppto_error_text(ctx));
    ppto_program_destroy(step);
    ppto_context_destroy(ctx);
    return status == PPTO_OK && right ? 0 : 1;
}
