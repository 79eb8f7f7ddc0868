/* SPDX-License-Identifier: Apache-2.0
 * What a run is asked to tell of itself: --trace (Chrome JSON, or Perfetto's protobuf by the file's name),
 * --timeline (SVG), the table of --stats, and --memcheck. All of it is the library's; here it gets a file. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ppto/memcheck.h"
#include "recording.h"

/* ---- traces ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static int write_as(ppto_trace *trace, ppto_trace_format format, const char *path)
{
    char *bytes = NULL;
    size_t n = 0;
    if (path == NULL) return CLI_OK;
    ppto_status status = ppto_trace_write(trace, format, &bytes, &n);
    if (status != PPTO_OK) return cli_fail_status(status, NULL);
    int code = cli_write_text(path, bytes, n);
    ppto_text_free(bytes);
    return code;
}

static bool is_traced(const cli_arguments *arguments)
{
    return arguments->trace != NULL || arguments->timeline != NULL || arguments->stats ||
           arguments->stats_json != NULL;
}

int cli_trace_begin(const cli_recording *recording, const cli_arguments *arguments, ppto_trace **trace)
{
    *trace = NULL;
    if (!is_traced(arguments)) return CLI_OK;
    ppto_status status = ppto_trace_create(recording->ctx, NULL, trace);
    return status == PPTO_OK ? CLI_OK : cli_fail_status(status, NULL);
}

int cli_trace_follow(const cli_recording *recording, ppto_trace *trace)
{
    if (trace == NULL) return CLI_OK;
    ppto_status status = ppto_program_trace(recording->program, trace, "ppto run");
    return status == PPTO_OK ? CLI_OK : cli_fail_status(status, NULL);
}

static int write_trace(ppto_trace *trace, const cli_arguments *arguments)
{
    const char *path = arguments->trace;
    bool protobuf = path != NULL && (ends_with(path, ".pftrace") || ends_with(path, ".perfetto-trace"));
    int code = write_as(trace, protobuf ? PPTO_TRACE_PERFETTO : PPTO_TRACE_CHROME, path);
    return code == CLI_OK ? write_as(trace, PPTO_TRACE_TIMELINE, arguments->timeline) : code;
}

/* ---- statistics ---- */

static int stats_json(const cli_recording *r, const char *path, const ppto_stats *s, const char *steps)
{
    char *text = NULL;
    size_t length = 0;
    FILE *to = open_memstream(&text, &length);
    if (to == NULL) return cli_fail(CLI_LIMIT, "out of memory");
    fprintf(to,
            "{\"schema\": \"ppto-stats/1\", \"kernels\": %zu, \"tier\": \"%s\", \"executor\": \"%s\", "
            "\"threads\": %d,\n",
            s->kernels, s->tier, s->executor, s->threads);
    fprintf(to,
            " \"predicted_peak_bytes\": %" PRIu64 ", \"measured_peak_bytes\": %" PRIu64
            ", \"copied_bytes\": %" PRIu64 ",\n",
            s->predicted_peak_bytes, s->measured_peak_bytes, s->copied_bytes);
    fprintf(to,
            " \"lower_bound_bytes\": %" PRIu64 ", \"serial_bound_bytes\": %" PRIu64
            ", \"launches\": %zu, \"pieces\": %" PRIu64 ",\n",
            s->lower_bound_bytes, s->serial_bound_bytes, s->launches, s->pieces);
    fprintf(to,
            " \"plan_cache\": \"%s\", \"kernel_cache\": {\"hits\": %" PRIu64 ", \"misses\": %" PRIu64
            ", \"disk_hits\": %" PRIu64 "}, \"loops\": %" PRIu64 ", \"compiled_loops\": %" PRIu64 ",\n",
            s->plan_hit ? "hit" : "miss", s->kernel_hits, s->kernel_misses, s->disk_hits, s->loops,
            s->compiled_loops);
    fputs(" \"record_seconds\": ", to);
    cli_json_number(to, r->record_seconds);
    fputs(", \"plan_seconds\": ", to);
    cli_json_number(to, s->plan_seconds);
    fputs(", \"compile_seconds\": ", to);
    cli_json_number(to, s->compile_seconds);
    fputs(", \"run_seconds\": ", to);
    cli_json_number(to, s->run_seconds);
    fprintf(to, ",\n \"operators\": %s}\n", steps);
    int code = fclose(to) == 0 ? cli_write_text(path, text, length) : cli_fail(CLI_LIMIT, "out of memory");
    free(text);
    return code;
}

void cli_print_loops(FILE *to, const ppto_stats *s)
{
    if (s->loops == 0) return;
    fprintf(to, "; %" PRIu64 " of %" PRIu64 " loop%s compiled, %" PRIu64 " from disk", s->compiled_loops,
            s->loops, s->loops == 1 ? "" : "s", s->disk_hits);
}

static void stats_text(const cli_recording *r, const ppto_stats *s, int threads, const char *steps)
{
    char asked[48] = "", pieces[48] = "";
    if (threads > s->threads) snprintf(asked, sizeof asked, " (of %d asked for)", threads);
    if (s->pieces > 0)
        snprintf(pieces, sizeof pieces, " in %" PRIu64 " piece%s", s->pieces, s->pieces == 1 ? "" : "s");
    fprintf(stderr,
            "%zu kernel%s, tier %s, executor %s, %d thread%s%s; plan cache %s, kernel cache %" PRIu64
            " hits, %" PRIu64 " misses",
            s->kernels, s->kernels == 1 ? "" : "s", s->tier, s->executor, s->threads,
            s->threads == 1 ? "" : "s", asked, s->plan_hit ? "hit" : "miss", s->kernel_hits,
            s->kernel_misses);
    cli_print_loops(stderr, s);
    fprintf(stderr, "\npeak %" PRIu64 " bytes predicted, %" PRIu64 " measured; %" PRIu64 " bytes copied\n",
            s->predicted_peak_bytes, s->measured_peak_bytes, s->copied_bytes);
    fprintf(stderr, "record %.6f s, plan %.6f s, compile %.6f s, run %.6f s%s\n%s", r->record_seconds,
            s->plan_seconds, s->compile_seconds, s->run_seconds, pieces, steps);
}

/* path NULL: as text on standard error. */
static int report_stats(const cli_recording *r, const cli_arguments *arguments, ppto_trace *trace,
                        const char *path)
{
    ppto_stats stats = {.size = sizeof stats};
    char *steps = NULL;
    ppto_status status = ppto_program_stats(r->program, &stats);
    if (status == PPTO_OK) status = ppto_trace_steps(trace, path != NULL, &steps);
    if (status != PPTO_OK) return cli_fail_status(status, NULL);
    int code = path != NULL ? stats_json(r, path, &stats, steps) : CLI_OK;
    if (path == NULL) stats_text(r, &stats, arguments->context.threads, steps);
    ppto_text_free(steps);
    return code;
}

/* ---- memory ---- */

/* While inputs and results are still there. */
static int report_memory(const cli_recording *r, const cli_arguments *arguments)
{
    char *text;
    if (arguments->memcheck) {
        ppto_status status = ppto_memcheck_report(r->ctx, PPTO_REPORT_TEXT, stderr);
        if (status != PPTO_OK) return cli_fail_status(status, NULL);
    }
    if (arguments->memcheck_json == NULL) return CLI_OK;
    ppto_status status = ppto_memcheck_text(r->ctx, PPTO_REPORT_JSON, &text);
    if (status != PPTO_OK) return cli_fail_status(status, NULL);
    int code = cli_write_text(arguments->memcheck_json, text, strlen(text));
    ppto_text_free(text);
    return code;
}

/* ---- all of it ---- */

bool cli_reports(const cli_arguments *arguments)
{
    const char *const paths[] = {arguments->trace, arguments->timeline, arguments->stats_json,
                                 arguments->memcheck_json};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; ++i)
        if (paths[i] != NULL && !cli_makes_file(paths[i])) return false;
    return is_traced(arguments) || arguments->memcheck || arguments->memcheck_json != NULL;
}

int cli_report_run(const cli_recording *recording, const cli_arguments *arguments, ppto_trace *trace)
{
    int code = trace != NULL ? write_trace(trace, arguments) : CLI_OK;
    if (code == CLI_OK) code = report_memory(recording, arguments);
    if (code == CLI_OK && arguments->stats) code = report_stats(recording, arguments, trace, NULL);
    if (code == CLI_OK && arguments->stats_json != NULL)
        code = report_stats(recording, arguments, trace, arguments->stats_json);
    return code;
}
