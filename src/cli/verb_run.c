/* SPDX-License-Identifier: Apache-2.0
 * ppto run: a text over files, pipes and made-up data; results to files or, small ones, to standard output.
 *
 * Every -o is matched with a result before anything is compiled, so that only what is asked for is computed.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ppto/memcheck.h"
#include "ppto/stream.h"
#include "recording.h"

enum { MOST_PRINTED = 1000 };

/* One -o: a result and where it goes. Those of one archive are written together, with the first of them. */
typedef struct target {
    size_t result; /* of the text */
    const char *path;
    size_t archive; /* bytes of path that name the archive; 0: it is none */
    size_t first;   /* the first target of the same archive; itself */
} target;

typedef struct job {
    const cli_arguments *arguments;
    cli_recording recording;
    size_t n_targets;
    target *targets;
    size_t n; /* results computed */
    size_t *chosen;
    ppto_array **results;
    ppto_trace *trace; /* NULL: nobody asks for it */
} job;

/* ---- which results, and where to ---- */

static int unknown_result(const job *j, const char *name, size_t length)
{
    const cli_recording *r = &j->recording;
    char list[256] = "";
    size_t at = 0;
    for (size_t i = 0; i < r->n && at < sizeof list - 1; ++i) {
        int n = snprintf(list + at, sizeof list - at, "%s%s", i > 0 ? ", " : "", r->names[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    return cli_fail(CLI_USAGE, "-o %.*s=…: no result has this name%s%s", (int)length, name,
                    list[0] != '\0' ? "; there is " : "; the results have no names", list);
}

static int read_target(job *j, const char *value)
{
    const cli_recording *r = &j->recording;
    target *t = &j->targets[j->n_targets++];
    size_t length = cli_name_length(value);
    bool named = length > 0 && value[length] == '=';
    *t = (target){.path = named ? value + length + 1 : value};
    t->archive = cli_archive_length(t->path);
    if (t->path[0] == '\0') return cli_fail(CLI_USAGE, "-o %s: a file name is missing", value);
    if (!named && r->n != 1)
        return cli_fail(CLI_USAGE, "-o %s: the text has %zu results, say which: -o NAME=%s", value, r->n,
                        value);
    if (!named) return CLI_OK;
    for (t->result = 0; t->result < r->n; ++t->result) {
        const char *name = r->names[t->result];
        if (strlen(name) == length && memcmp(name, value, length) == 0) return CLI_OK;
    }
    return unknown_result(j, value, length);
}

/* The name in its archive: what follows the colon, else the result's own; NULL when it has none. */
static const char *name_in_archive(const job *j, const target *t)
{
    if (t->path[t->archive] == ':') return t->path + t->archive + 1;
    const char *name = j->recording.names[t->result];
    return name[0] != '\0' ? name : NULL;
}

static bool same_archive(const target *a, const target *b)
{
    return a->archive != 0 && b->archive != 0 && cli_same_file(a->path, a->archive, b->path, b->archive);
}

/* Against the targets before it. */
static int check_target(job *j, size_t i)
{
    target *t = &j->targets[i];
    t->first = i;
    for (size_t k = i; k-- > 0;) {
        const target *other = &j->targets[k];
        if (same_archive(t, other)) {
            const char *a = name_in_archive(j, t), *b = name_in_archive(j, other);
            t->first = other->first;
            if (strcmp(a != NULL ? a : "", b != NULL ? b : "") != 0) continue;
            return cli_fail(CLI_USAGE, "-o %s: two results of one name cannot go to one file", t->path);
        }
        if (strcmp(t->path, other->path) == 0 ||
            cli_same_file(t->path, strlen(t->path), other->path, strlen(other->path)))
            return cli_fail(CLI_USAGE, "-o %s: two results cannot go to one file", t->path);
    }
    return CLI_OK;
}

/* Reports do not take the place of results, nor of one another. */
static int check_reports(const job *j)
{
    const cli_arguments *a = j->arguments;
    const char *const reports[] = {a->trace, a->timeline, a->stats_json, a->memcheck_json};
    for (size_t i = 0; i < sizeof reports / sizeof *reports; ++i) {
        const char *path = reports[i];
        for (size_t k = 0; path != NULL && k < j->n_targets; ++k) {
            const target *t = &j->targets[k];
            size_t length = t->archive != 0 ? t->archive : strlen(t->path);
            if (cli_same_file(path, strlen(path), t->path, length))
                return cli_fail(CLI_USAGE, "%s: a result goes there already", path);
        }
        for (size_t k = 0; path != NULL && k < i; ++k)
            if (reports[k] != NULL && cli_same_file(path, strlen(path), reports[k], strlen(reports[k])))
                return cli_fail(CLI_USAGE, "%s: two reports cannot go to one file", path);
    }
    return CLI_OK;
}

static int read_targets(job *j)
{
    const cli_list *outputs = &j->arguments->outputs;
    size_t pipes = 0;
    j->targets = calloc(outputs->n + 1, sizeof *j->targets);
    if (j->targets == NULL) return cli_fail(CLI_LIMIT, "out of memory");
    for (size_t i = 0; i < outputs->n; ++i) {
        int code = read_target(j, outputs->at[i]);
        if (code != CLI_OK) return code;
        pipes += strcmp(j->targets[i].path, "-") == 0;
        code = check_target(j, i);
        if (code != CLI_OK) return code;
    }
    if (pipes > 0 && j->arguments->json)
        return cli_fail(CLI_USAGE, "--json and -o - both want standard output: leave one out");
    return check_reports(j);
}

/* The results some target wants, in the order of the text; all of them without -o. */
static int choose(job *j)
{
    const cli_recording *r = &j->recording;
    j->chosen = malloc(r->n * sizeof *j->chosen);
    if (j->chosen == NULL) return cli_fail(CLI_LIMIT, "out of memory");
    for (size_t i = 0; i < r->n; ++i) {
        bool wanted = j->n_targets == 0;
        for (size_t k = 0; k < j->n_targets; ++k) wanted = wanted || j->targets[k].result == i;
        if (wanted) j->chosen[j->n++] = i;
    }
    return CLI_OK;
}

static int too_large(const char *type)
{
    return cli_fail(CLI_USAGE,
                    "the result is %s, more than %d elements: write it with -o FILE.npy, or -o - for a pipe",
                    type, MOST_PRINTED);
}

/* Before the run, where every size of the results is known; a named size counts as 1. */
static int check_printable(const job *j)
{
    if (j->n_targets > 0) return CLI_OK;
    for (size_t i = 0; i < j->n; ++i) {
        const char *type = ppto_tensor_type(j->recording.outputs[j->chosen[i]]);
        const char *c = strchr(type, '[');
        double elements = 1;
        while (c != NULL && *c != '\0' && *c != ']') {
            c += 1 + strspn(c + 1, " ");
            size_t digits = strspn(c, "0123456789");
            if (digits > 0 && (c[digits] == ',' || c[digits] == ']')) elements *= strtod(c, NULL);
            c = strpbrk(c, ",]");
        }
        if (elements > MOST_PRINTED) return too_large(type);
    }
    return CLI_OK;
}

/* ---- results ---- */

static size_t result_of(const job *j, size_t which)
{
    size_t k = 0;
    while (j->chosen[k] != j->targets[which].result) ++k;
    return k;
}

/* The run writes a file as it goes, unless the result is wanted elsewhere too. */
static bool written_by_run(const job *j, size_t which)
{
    const target *t = &j->targets[which];
    bool alone = !j->arguments->json &&
                 (t->archive == 0 || name_in_archive(j, t) == NULL || t->path[t->archive] == ':');
    for (size_t i = 0; i < j->n_targets; ++i)
        alone =
            alone && (i == which || (j->targets[i].result != t->result && j->targets[i].first != t->first));
    return alone && cli_makes_file(j->targets[which].path);
}

static ppto_status bind_sinks(const job *j)
{
    ppto_status status = PPTO_OK;
    for (size_t i = 0; status == PPTO_OK && i < j->n_targets; ++i)
        if (written_by_run(j, i))
            status = ppto_program_bind_sink(j->recording.program, result_of(j, i), j->targets[i].path);
    return status;
}

/* All that goes to the archive of this target. */
static ppto_status save_archive(const job *j, size_t which)
{
    const target *t = &j->targets[which];
    const char **names = calloc(j->n_targets, sizeof *names);
    ppto_array **arrays = calloc(j->n_targets, sizeof(ppto_array *));
    char *path = strndup(t->path, t->archive);
    size_t n = 0;
    for (size_t i = which; names != NULL && arrays != NULL && i < j->n_targets; ++i) {
        if (j->targets[i].first != which) continue;
        names[n] = name_in_archive(j, &j->targets[i]);
        arrays[n++] = j->results[result_of(j, i)];
    }
    ppto_status status = n > 0 && path != NULL ? ppto_arrays_save(path, n, names, arrays) : PPTO_E_NOMEM;
    free(path);
    free((void *)names);
    free((void *)arrays);
    return status;
}

static int save(const job *j)
{
    for (size_t i = 0; i < j->n_targets; ++i) {
        const target *t = &j->targets[i];
        if (written_by_run(j, i) || t->first != i) continue;
        bool makes_file = cli_makes_file(t->path);
        if (makes_file) cli_uninterrupted_begin();
        ppto_status status =
            t->archive != 0 ? save_archive(j, i) : ppto_array_save(j->results[result_of(j, i)], t->path);
        if (makes_file) cli_uninterrupted_end();
        if (status != PPTO_OK) return cli_fail_file(status, t->path);
    }
    return CLI_OK;
}

static void shape_text(const ppto_array *array, char *text, size_t room)
{
    size_t at = (size_t)snprintf(text, room, "[");
    for (int d = 0; d < ppto_array_rank(array); ++d)
        at += (size_t)snprintf(text + at, room - at, "%s%" PRId64, d > 0 ? ", " : "",
                               ppto_array_shape(array)[d]);
    snprintf(text + at, room - at, "]");
}

static int print_result(const job *j, size_t i)
{
    const ppto_array *array = j->results[i];
    const char *name = j->recording.names[j->chosen[i]], *dtype = ppto_dtype_name(ppto_array_dtype(array));
    bool json = j->arguments->json;
    char *text, shape[512];
    ppto_status status = ppto_array_text(array, json, &text);
    if (status != PPTO_OK) return cli_fail_status(status, NULL);
    shape_text(array, shape, sizeof shape);
    if (json) {
        fputs(i > 0 ? ", {\"name\": " : "[{\"name\": ", stdout);
        cli_json_string(stdout, name);
        printf(", \"dtype\": \"%s\", \"shape\": %s, \"data\": %s}", dtype, shape, text);
        ppto_text_free(text);
        return CLI_OK;
    }
    if (j->n > 1) printf("%s%s%s%s:\n", name, name[0] != '\0' ? ": " : "", dtype, shape);
    cli_print_text(text);
    return CLI_OK;
}

static int print(const job *j)
{
    for (size_t i = 0; i < j->n; ++i) {
        char shape[512];
        shape_text(j->results[i], shape, sizeof shape);
        if (j->n_targets == 0 && ppto_array_elements(j->results[i]) > MOST_PRINTED) return too_large(shape);
    }
    for (size_t i = 0; i < j->n; ++i) {
        int code = print_result(j, i);
        if (code != CLI_OK) return code;
    }
    if (j->arguments->json) fputs("]\n", stdout);
    return CLI_OK;
}

/* ---- statistics ---- */

static int stats_json(const job *j, const ppto_stats *s, const char *steps)
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
            " \"lower_bound_bytes\": %" PRIu64 ", \"serial_bound_bytes\": %" PRIu64 ", \"launches\": %zu,\n",
            s->lower_bound_bytes, s->serial_bound_bytes, s->launches);
    fprintf(to,
            " \"plan_cache\": \"%s\", \"kernel_cache\": {\"hits\": %" PRIu64 ", \"misses\": %" PRIu64
            ", \"disk_hits\": 0},\n",
            s->plan_hit ? "hit" : "miss", s->kernel_hits, s->kernel_misses);
    fputs(" \"record_seconds\": ", to);
    cli_json_number(to, j->recording.record_seconds);
    fputs(", \"plan_seconds\": ", to);
    cli_json_number(to, s->plan_seconds);
    fputs(", \"compile_seconds\": ", to);
    cli_json_number(to, s->compile_seconds);
    fputs(", \"run_seconds\": ", to);
    cli_json_number(to, s->run_seconds);
    fprintf(to, ",\n \"operators\": %s}\n", steps);
    int code = fclose(to) == 0 ? cli_write_text(j->arguments->stats_json, text, length)
                               : cli_fail(CLI_LIMIT, "out of memory");
    free(text);
    return code;
}

static void stats_text(const job *j, const ppto_stats *s, const char *steps)
{
    fprintf(stderr,
            "%zu kernels, tier %s, executor %s, %d threads; plan cache %s, kernel cache %" PRIu64
            " hits, %" PRIu64 " misses\n",
            s->kernels, s->tier, s->executor, s->threads, s->plan_hit ? "hit" : "miss", s->kernel_hits,
            s->kernel_misses);
    fprintf(stderr, "peak %" PRIu64 " bytes predicted, %" PRIu64 " measured; %" PRIu64 " bytes copied\n",
            s->predicted_peak_bytes, s->measured_peak_bytes, s->copied_bytes);
    fprintf(stderr, "record %.6f s, plan %.6f s, compile %.6f s, run %.6f s\n%s", j->recording.record_seconds,
            s->plan_seconds, s->compile_seconds, s->run_seconds, steps);
}

static int report_stats(const job *j, const ppto_stats *stats, bool json)
{
    char *steps = NULL;
    int code = cli_trace_steps(j->trace, json, &steps);
    if (code != CLI_OK) return code;
    if (json)
        code = stats_json(j, stats, steps);
    else
        stats_text(j, stats, steps);
    ppto_text_free(steps);
    return code;
}

/* While inputs and results are still there. */
static int report_memory(const job *j)
{
    ppto_context *ctx = j->recording.ctx;
    char *text;
    if (j->arguments->memcheck) {
        ppto_status status = ppto_memcheck_report(ctx, PPTO_REPORT_TEXT, stderr);
        if (status != PPTO_OK) return cli_fail_status(status, NULL);
    }
    if (j->arguments->memcheck_json == NULL) return CLI_OK;
    ppto_status status = ppto_memcheck_text(ctx, PPTO_REPORT_JSON, &text);
    if (status != PPTO_OK) return cli_fail_status(status, NULL);
    int code = cli_write_text(j->arguments->memcheck_json, text, strlen(text));
    ppto_text_free(text);
    return code;
}

static int report(const job *j)
{
    ppto_stats stats = {.size = sizeof stats};
    int code = j->trace != NULL ? cli_trace_write(j->trace, j->arguments) : CLI_OK;
    if (code == CLI_OK) code = report_memory(j);
    if (code != CLI_OK || j->trace == NULL) return code;
    ppto_status status = ppto_program_stats(j->recording.program, &stats);
    if (status != PPTO_OK) return cli_fail_status(status, NULL);
    if (j->arguments->stats) code = report_stats(j, &stats, false);
    return code == CLI_OK && j->arguments->stats_json != NULL ? report_stats(j, &stats, true) : code;
}

/* ---- the verb ---- */

static ppto_status run_program(job *j)
{
    ppto_run *run;
    cli_cancel_begin(j->recording.program);
    ppto_status status = ppto_program_start(j->recording.program, NULL, &run);
    if (status == PPTO_OK) {
        cli_cancel_begun();
        status = cli_wait(run, j->arguments->progress);
        if (status == PPTO_OK) status = ppto_run_outputs(run, j->results);
        ppto_run_release(run);
    }
    cli_cancel_end();
    return status;
}

static int run_job(job *j)
{
    int code = cli_record(&j->recording, j->arguments, false, true);
    if (code == CLI_OK) code = read_targets(j);
    if (code == CLI_OK) code = choose(j);
    if (code == CLI_OK) code = check_printable(j);
    if (code == CLI_OK) code = cli_compile(&j->recording, j->chosen, j->n);
    if (code != CLI_OK) return code;
    j->results = calloc(j->n, sizeof(ppto_array *));
    if (j->results == NULL) return cli_fail(CLI_LIMIT, "out of memory");
    code = cli_trace_begin(&j->recording, j->arguments, &j->trace);
    if (code != CLI_OK) return code;
    ppto_status status = bind_sinks(j);
    if (status == PPTO_OK) status = run_program(j);
    if (status != PPTO_OK) return cli_fail_run(&j->recording, status);
    code = save(j);
    if (code == CLI_OK) code = report(j);
    if (code == CLI_OK && (j->n_targets == 0 || j->arguments->json)) code = print(j);
    return code;
}

int cli_run(const cli_arguments *arguments)
{
    job j = {.arguments = arguments};
    int code = run_job(&j);
    for (size_t i = 0; j.results != NULL && i < j.n; ++i) ppto_array_release(j.results[i]);
    free((void *)j.results);
    ppto_trace_destroy(j.trace);
    free(j.chosen);
    free(j.targets);
    return cli_recording_free(&j.recording, code);
}
