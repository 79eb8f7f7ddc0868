/* SPDX-License-Identifier: Apache-2.0
 * ppto run: a text over files, pipes and made-up data; results to files or, small ones, to standard output.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ppto/stream.h"
#include "recording.h"
#include "targets.h"

enum { MOST_PRINTED = 1000 };

typedef struct job {
    const cli_arguments *arguments;
    cli_recording recording;
    cli_targets targets;
    ppto_array **results;
    ppto_trace *trace; /* NULL: nobody asks for it */
} job;

/* ---- which results ---- */

static int too_large(const char *type)
{
    return cli_fail(CLI_USAGE,
                    "the result is %s, more than %d elements: write it with -o FILE.npy, or -o - for a pipe",
                    type, MOST_PRINTED);
}

/* Before the run, where every size of the results is known; a named size counts as 1. */
static int check_printable(const job *j)
{
    if (j->targets.n > 0) return CLI_OK;
    for (size_t i = 0; i < j->targets.n_chosen; ++i) {
        const char *type = ppto_tensor_type(j->recording.outputs[j->targets.chosen[i]]);
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

/* Was all of it computed that goes where this target does? Not of a run that failed. */
static bool is_there(const job *j, size_t which)
{
    for (size_t i = which; i < j->targets.n; ++i)
        if (j->targets.at[i].first == which && j->results[cli_target_result(&j->targets, i)] == NULL)
            return false;
    return true;
}

/* All that goes to the archive of this target. */
static ppto_status save_archive(const job *j, size_t which)
{
    const cli_target *t = &j->targets.at[which];
    const char **names = calloc(j->targets.n, sizeof *names);
    ppto_array **arrays = calloc(j->targets.n, sizeof(ppto_array *));
    char *path = strndup(t->path, t->archive);
    size_t n = 0;
    for (size_t i = which; names != NULL && arrays != NULL && i < j->targets.n; ++i) {
        if (j->targets.at[i].first != which) continue;
        names[n] = cli_target_name(&j->targets, &j->targets.at[i]);
        arrays[n++] = j->results[cli_target_result(&j->targets, i)];
    }
    ppto_status status = n > 0 && path != NULL ? ppto_arrays_save(path, n, names, arrays) : PPTO_E_NOMEM;
    free(path);
    free((void *)names);
    free((void *)arrays);
    return status;
}

/* What is left to be written; a failure does not keep the others from it. */
static int save(const job *j)
{
    int code = CLI_OK;
    for (size_t i = 0; i < j->targets.n; ++i) {
        const cli_target *t = &j->targets.at[i];
        if (cli_target_by_run(&j->targets, i) || t->first != i || !is_there(j, i)) continue;
        bool makes_file = cli_makes_file(t->path);
        if (makes_file) cli_uninterrupted_begin();
        ppto_status status = t->archive != 0
                                 ? save_archive(j, i)
                                 : ppto_array_save(j->results[cli_target_result(&j->targets, i)], t->path);
        if (makes_file) cli_uninterrupted_end();
        int failed = status != PPTO_OK ? cli_fail_file(status, t->path) : CLI_OK;
        if (code == CLI_OK) code = failed;
    }
    return code;
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
    const char *name = j->recording.names[j->targets.chosen[i]],
               *dtype = ppto_dtype_name(ppto_array_dtype(array));
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
    if (j->targets.n_chosen > 1) printf("%s%s%s%s:\n", name, name[0] != '\0' ? ": " : "", dtype, shape);
    cli_print_text(text);
    return CLI_OK;
}

static int print(const job *j)
{
    for (size_t i = 0; i < j->targets.n_chosen; ++i) {
        char shape[512];
        shape_text(j->results[i], shape, sizeof shape);
        if (j->targets.n == 0 && ppto_array_elements(j->results[i]) > MOST_PRINTED) return too_large(shape);
    }
    for (size_t i = 0; i < j->targets.n_chosen; ++i) {
        int code = print_result(j, i);
        if (code != CLI_OK) return code;
    }
    if (j->arguments->json) fputs("]\n", stdout);
    return CLI_OK;
}

/* ---- the verb ---- */

static ppto_status run_program(job *j)
{
    ppto_run *run;
    ppto_run_options options = PPTO_RUN_OPTIONS_INIT;
    if (j->targets.n > 1) options.policy = PPTO_KEEP_GOING; /* what cannot be written spoils no other file */
    cli_cancel_begin(j->recording.program, cli_reports(j->arguments));
    ppto_status status = ppto_program_start(j->recording.program, &options, &run);
    if (status == PPTO_OK) {
        cli_cancel_begun();
        status = cli_wait(run, j->arguments->progress);
        bool written = status == PPTO_OK || status == PPTO_E_IO || status == PPTO_E_LIMIT;
        if (written && ppto_run_outputs(run, j->results) != PPTO_OK) status = PPTO_E_INTERNAL;
        ppto_run_release(run);
    }
    if (cli_reports(j->arguments)) cli_uninterrupted_begin();
    cli_cancel_end();
    return status;
}

/* Over the memory limit, results that the run could not write as it went are named first. */
static int fail_run(const job *j, ppto_status status)
{
    char why[512];
    ppto_stats stats = {.size = sizeof stats};
    uint64_t limit = j->arguments->context.memory_limit;
    if (status == PPTO_E_LIMIT && limit != 0 && ppto_program_stats(j->recording.program, &stats) == PPTO_OK &&
        stats.predicted_peak_bytes > limit && cli_targets_whole(&j->targets, why, sizeof why))
        return cli_fail_status(status, why);
    return cli_fail_run(&j->recording, status);
}

/* What was asked to be told of the run, also when it failed or was interrupted: that is when it is read. */
static int tell(const job *j, int code)
{
    int told = cli_report_run(&j->recording, j->arguments, j->trace);
    cli_uninterrupted_end();
    return code != CLI_OK ? code : told;
}

static int run_job(job *j)
{
    int code = cli_record(&j->recording, j->arguments, false, true);
    if (code == CLI_OK) code = cli_targets_read(&j->targets, &j->recording, j->arguments, j->arguments->json);
    if (code == CLI_OK) code = check_printable(j);
    if (code == CLI_OK) code = cli_trace_begin(&j->recording, j->arguments, &j->trace);
    if (code == CLI_OK) code = cli_compile(&j->recording, j->targets.chosen, j->targets.n_chosen);
    if (code == CLI_OK) code = cli_trace_follow(&j->recording, j->trace);
    if (code != CLI_OK) return code;
    j->results = calloc(j->targets.n_chosen, sizeof(ppto_array *));
    if (j->results == NULL) return cli_fail(CLI_LIMIT, "out of memory");
    cli_broken_pipes(true);
    ppto_status status = cli_targets_bind(&j->targets);
    if (status == PPTO_OK) status = run_program(j);
    if (status != PPTO_OK && !cli_interrupted()) code = fail_run(j, status);
    int saved = status != PPTO_OK && cli_interrupted() ? CLI_INTERRUPTED : save(j);
    cli_broken_pipes(false);
    code = tell(j, code != CLI_OK ? code : saved);
    if (code == CLI_OK && (j->targets.n == 0 || j->arguments->json)) code = print(j);
    return code;
}

int cli_run(const cli_arguments *arguments)
{
    job j = {.arguments = arguments};
    int code = run_job(&j);
    for (size_t i = 0; j.results != NULL && i < j.targets.n_chosen; ++i) ppto_array_release(j.results[i]);
    free((void *)j.results);
    ppto_trace_destroy(j.trace);
    cli_targets_free(&j.targets);
    return cli_recording_free(&j.recording, code);
}
