/* SPDX-License-Identifier: Apache-2.0
 * ppto bench: a plan already built, inputs bound, outputs bound and reused, as a program in a loop calls it.
 *
 * The very first result is timed by itself, from text to array with nothing cached; machine code may not be
 * there yet. From then on it is. Bytes are the compulsory ones: every input read once, every output written
 * once. Operations are those the plan counts. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "recording.h"

typedef struct result {
    double first, median, least, mean, deviation;
    uint64_t bytes;
    double flops;
    ppto_stats stats;
} result;

static uint64_t bytes_of(const ppto_array *array)
{
    return (uint64_t)ppto_array_elements(array) * ppto_dtype_size(ppto_array_dtype(array));
}

/* The sum of all "flops" the plan states; 0 when it states none. */
static double count_flops(ppto_program *program)
{
    static const char key[] = "\"flops\":";
    char *text = NULL;
    double sum = 0;
    if (ppto_program_explain(program, PPTO_EXPLAIN_SUMMARY, true, &text) != PPTO_OK) return 0;
    for (const char *c = strstr(text, key); c != NULL; c = strstr(c, key)) {
        c += sizeof key - 1;
        sum += strtod(c, NULL); /* null reads as 0 */
    }
    ppto_text_free(text);
    return sum;
}

static int compare_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void summarise(result *r, double *times, size_t n)
{
    double sum = 0, squares = 0;
    qsort(times, n, sizeof *times, compare_times);
    for (size_t i = 0; i < n; ++i) sum += times[i];
    r->mean = sum / (double)n;
    for (size_t i = 0; i < n; ++i) squares += (times[i] - r->mean) * (times[i] - r->mean);
    r->deviation = n > 1 ? sqrt(squares / (double)(n - 1)) : 0;
    r->least = times[0];
    r->median = n % 2 == 1 ? times[n / 2] : (times[n / 2 - 1] + times[n / 2]) / 2;
}

/* The first run makes the outputs; from then on they are bound. Returns 0 or an exit code. */
static int first_run(cli_recording *recording, result *r)
{
    size_t n = recording->n;
    ppto_array **outputs = calloc(n, sizeof(ppto_array *));
    if (outputs == NULL) return cli_fail(CLI_LIMIT, "out of memory");
    double start = cli_now();
    ppto_status status = ppto_program_run(recording->program, outputs);
    r->first = cli_now() - start + recording->record_seconds + recording->compile_seconds;
    for (size_t i = 0; i < n && status == PPTO_OK; ++i) {
        r->bytes += bytes_of(outputs[i]);
        status = ppto_program_bind_output(recording->program, i, outputs[i]);
    }
    int code = status == PPTO_OK ? CLI_OK : cli_fail_run(recording, status);
    for (size_t i = 0; i < n; ++i) ppto_array_release(outputs[i]);
    free((void *)outputs);
    for (size_t i = 0; i < recording->bindings.n; ++i) {
        const cli_binding *b = &recording->bindings.at[i];
        if (b->array != NULL && b->kind != CLI_NUMBER) r->bytes += bytes_of(b->array);
    }
    return code;
}

/* Runs that have all their machine code; the statistics are those of the last one. */
static int measure(cli_recording *recording, const cli_arguments *arguments, result *r)
{
    size_t n = (size_t)arguments->repeats;
    double *times = malloc(n * sizeof *times);
    if (times == NULL) return cli_fail(CLI_LIMIT, "out of memory");
    ppto_status status = ppto_program_prepare(recording->program);
    for (uint64_t i = 0; i < arguments->warmup && status == PPTO_OK; ++i)
        status = ppto_program_run(recording->program, NULL);
    for (size_t i = 0; i < n && status == PPTO_OK; ++i) {
        double start = cli_now();
        status = ppto_program_run(recording->program, NULL);
        times[i] = cli_now() - start;
    }
    r->stats.size = sizeof r->stats;
    if (status == PPTO_OK) status = ppto_program_stats(recording->program, &r->stats);
    if (status == PPTO_OK) summarise(r, times, n);
    free(times);
    return status == PPTO_OK ? CLI_OK : cli_fail_run(recording, status);
}

static double rate(double amount, double seconds)
{
    return seconds > 0 ? amount / seconds * 1e-9 : 0;
}

static void key(const char *name, double value)
{
    printf("\"%s\": ", name);
    cli_json_number(stdout, value);
    fputs(", ", stdout);
}

static void print_json(const cli_arguments *arguments, const result *r)
{
    fputs("{\"schema\": \"ppto-bench/1\", ", stdout);
    key("median_seconds", r->median);
    key("min_seconds", r->least);
    key("mean_seconds", r->mean);
    key("std_seconds", r->deviation);
    key("first_seconds", r->first);
    key("compile_seconds", r->stats.compile_seconds);
    printf("\"repeats\": %" PRIu64 ", \"warmup\": %" PRIu64 ", \"threads\": %d, ", arguments->repeats,
           arguments->warmup, r->stats.threads);
    printf("\"executor\": \"%s\", \"tier\": \"%s\", \"kernels\": %zu, \"bytes\": %" PRIu64 ", ",
           r->stats.executor, r->stats.tier, r->stats.kernels, r->bytes);
    printf("\"loops\": %" PRIu64 ", \"compiled_loops\": %" PRIu64 ", \"disk_hits\": %" PRIu64 ", ",
           r->stats.loops, r->stats.compiled_loops, r->stats.disk_hits);
    printf("\"predicted_peak_bytes\": %" PRIu64 ", \"measured_peak_bytes\": %" PRIu64
           ", \"lower_bound_bytes\": %" PRIu64 ", ",
           r->stats.predicted_peak_bytes, r->stats.measured_peak_bytes, r->stats.lower_bound_bytes);
    key("gb_per_s", rate((double)r->bytes, r->median));
    printf("\"flops\": %.0f, \"gflop_per_s\": ", r->flops);
    cli_json_number(stdout, rate(r->flops, r->median));
    fputs("}\n", stdout);
}

static void print_text(const cli_arguments *arguments, const result *r)
{
    printf("median  %.9f s   min %.9f s   mean %.9f s   std %.9f s   (%" PRIu64 " runs after %" PRIu64 ")\n",
           r->median, r->least, r->mean, r->deviation, arguments->repeats, arguments->warmup);
    printf("first   %.9f s   compile %.9f s\n", r->first, r->stats.compile_seconds);
    printf("rate    %.3f GB/s", rate((double)r->bytes, r->median));
    if (r->flops > 0) /* what functions do inside is not counted */
        printf("   %.3f GFLOP/s   (%" PRIu64 " bytes, %.0f operations)\n", rate(r->flops, r->median),
               r->bytes, r->flops);
    else
        printf("   (%" PRIu64 " bytes)\n", r->bytes);
    printf("plan    %zu kernels, tier %s, executor %s, %d threads", r->stats.kernels, r->stats.tier,
           r->stats.executor, r->stats.threads);
    cli_print_loops(stdout, &r->stats);
    fputs("\n", stdout);
}

static int bench(cli_recording *recording, const cli_arguments *arguments)
{
    result r = {0};
    size_t *all = malloc(recording->n * sizeof *all);
    if (all == NULL) return cli_fail(CLI_LIMIT, "out of memory");
    for (size_t i = 0; i < recording->n; ++i) all[i] = i;
    int code = cli_compile(recording, all, recording->n);
    free(all);
    if (code == CLI_OK) code = first_run(recording, &r);
    if (code == CLI_OK) code = measure(recording, arguments, &r);
    if (code != CLI_OK) return code;
    r.flops = count_flops(recording->program);
    if (arguments->json)
        print_json(arguments, &r);
    else
        print_text(arguments, &r);
    return CLI_OK;
}

int cli_bench(const cli_arguments *arguments)
{
    cli_recording recording;
    int code = cli_record(&recording, arguments, false, false);
    if (code == CLI_OK) code = bench(&recording, arguments);
    return cli_recording_free(&recording, code);
}
