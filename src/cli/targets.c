/* SPDX-License-Identifier: Apache-2.0
 * -o, read and judged. See targets.h. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "targets.h"

static int unknown_result(const cli_targets *targets, const char *name, size_t length)
{
    const cli_recording *r = targets->recording;
    char list[256] = "";
    size_t at = 0;
    for (size_t i = 0; i < r->n && at < sizeof list - 1; ++i) {
        int n = snprintf(list + at, sizeof list - at, "%s%s", i > 0 ? ", " : "", r->names[i]);
        at += n > 0 ? (size_t)n : 0;
    }
    return cli_fail(CLI_USAGE, "-o %.*s=…: no result has this name%s%s", (int)length, name,
                    list[0] != '\0' ? "; there is " : "; the results have no names", list);
}

/* A format of one array, which the end of the name says. */
static bool is_single(const char *path)
{
    static const char *const endings[] = {".npy", ".raw", ".bin"};
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; ++i)
        if (length > 4 && strcmp(path + length - 4, endings[i]) == 0) return true;
    return strcmp(path, "-:raw") == 0;
}

static int read_target(cli_targets *targets, const char *value)
{
    const cli_recording *r = targets->recording;
    cli_target *t = &targets->at[targets->n++];
    size_t length = cli_name_length(value);
    bool named = length > 0 && value[length] == '=';
    *t = (cli_target){.path = named ? value + length + 1 : value};
    t->archive = cli_archive_length(t->path);
    if (t->path[0] == '\0') return cli_fail(CLI_USAGE, "-o %s: a file name is missing", value);
    if (t->archive == 0 && !is_single(t->path) && cli_makes_file(t->path))
        return cli_fail(CLI_USAGE,
                        "-o %s: the end of the name says the format, and this one says none: .npy, .npz, "
                        ".safetensors, .raw (.bin), or - for NPY on standard output, -:raw without a header",
                        value);
    if (!named && r->n != 1)
        return cli_fail(CLI_USAGE, "-o %s: the text has %zu results, say which: -o NAME=%s", value, r->n,
                        value);
    if (!named) return CLI_OK;
    for (t->result = 0; t->result < r->n; ++t->result) {
        const char *name = r->names[t->result];
        if (strlen(name) == length && memcmp(name, value, length) == 0) return CLI_OK;
    }
    return unknown_result(targets, value, length);
}

const char *cli_target_name(const cli_targets *targets, const cli_target *t)
{
    if (t->path[t->archive] == ':') return t->path + t->archive + 1;
    const char *name = targets->recording->names[t->result];
    return name[0] != '\0' ? name : NULL;
}

static bool same_archive(const cli_target *a, const cli_target *b)
{
    return a->archive != 0 && b->archive != 0 && cli_same_file(a->path, a->archive, b->path, b->archive);
}

/* Against the targets before it. */
static int check_target(cli_targets *targets, size_t i)
{
    cli_target *t = &targets->at[i];
    t->first = i;
    for (size_t k = i; k-- > 0;) {
        const cli_target *other = &targets->at[k];
        if (same_archive(t, other)) {
            const char *a = cli_target_name(targets, t), *b = cli_target_name(targets, other);
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
static int check_reports(const cli_targets *targets)
{
    const cli_arguments *a = targets->arguments;
    const char *const reports[] = {a->trace, a->timeline, a->stats_json, a->memcheck_json};
    for (size_t i = 0; i < sizeof reports / sizeof *reports; ++i) {
        const char *path = reports[i];
        for (size_t k = 0; path != NULL && k < targets->n; ++k) {
            const cli_target *t = &targets->at[k];
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

static int read_targets(cli_targets *targets)
{
    const cli_list *outputs = &targets->arguments->outputs;
    size_t pipes = 0;
    targets->at = calloc(outputs->n + 1, sizeof *targets->at);
    if (targets->at == NULL) return cli_fail(CLI_LIMIT, "out of memory");
    for (size_t i = 0; i < outputs->n; ++i) {
        int code = read_target(targets, outputs->at[i]);
        if (code != CLI_OK) return code;
        pipes += cli_is_standard(targets->at[i].path);
        code = check_target(targets, i);
        if (code != CLI_OK) return code;
    }
    if (pipes > 0 && targets->printed)
        return cli_fail(CLI_USAGE, "--json and -o - both want standard output: leave one out");
    return check_reports(targets);
}

/* The results some target wants, in the order of the text; all of them without -o. */
static int choose(cli_targets *targets)
{
    const cli_recording *r = targets->recording;
    targets->chosen = malloc(r->n * sizeof *targets->chosen);
    if (targets->chosen == NULL) return cli_fail(CLI_LIMIT, "out of memory");
    for (size_t i = 0; i < r->n; ++i) {
        bool wanted = targets->n == 0;
        for (size_t k = 0; k < targets->n; ++k) wanted = wanted || targets->at[k].result == i;
        if (wanted) targets->chosen[targets->n_chosen++] = i;
    }
    return CLI_OK;
}

int cli_targets_read(cli_targets *targets, const cli_recording *recording, const cli_arguments *arguments,
                     bool printed)
{
    *targets = (cli_targets){.recording = recording, .arguments = arguments, .printed = printed};
    int code = read_targets(targets);
    return code == CLI_OK ? choose(targets) : code;
}

void cli_targets_free(cli_targets *targets)
{
    free(targets->chosen);
    free(targets->at);
    *targets = (cli_targets){.recording = NULL};
}

/* ---- where they are written ---- */

size_t cli_target_result(const cli_targets *targets, size_t which)
{
    size_t k = 0;
    while (targets->chosen[k] != targets->at[which].result) ++k;
    return k;
}

bool cli_target_by_run(const cli_targets *targets, size_t which)
{
    const cli_target *t = &targets->at[which];
    bool alone = !targets->printed;
    for (size_t i = 0; i < targets->n; ++i)
        alone =
            alone && (i == which || (targets->at[i].result != t->result && targets->at[i].first != t->first));
    return alone;
}

bool cli_targets_whole(const cli_targets *targets, char *why, size_t room)
{
    for (size_t i = 0; i < targets->n; ++i) {
        const cli_target *t = &targets->at[i];
        if (cli_target_by_run(targets, i)) continue;
        size_t k = i + 1;
        while (k < targets->n && targets->at[k].result != t->result) ++k;
        if (k < targets->n)
            snprintf(why, room, "one result goes to two places, %.100s and %.100s, and so is whole in memory",
                     t->path, targets->at[k].path);
        else if (targets->printed)
            snprintf(why, room, "the result for %.100s is printed too, and so is whole in memory", t->path);
        else
            snprintf(why, room, "an archive of several results, %.100s, is written whole", t->path);
        return true;
    }
    return false;
}

/* With the name that the array gets in its archive. NULL: out of memory */
static char *path_with_name(const cli_targets *targets, const cli_target *t)
{
    const char *name = cli_target_name(targets, t);
    if (t->archive == 0 || name == NULL || t->path[t->archive] == ':') return strdup(t->path);
    size_t room = strlen(t->path) + strlen(name) + 2;
    char *path = malloc(room);
    if (path != NULL) snprintf(path, room, "%s:%s", t->path, name);
    return path;
}

static ppto_status bind_target(const cli_targets *targets, size_t which)
{
    char *path = path_with_name(targets, &targets->at[which]);
    if (path == NULL) return PPTO_E_NOMEM;
    ppto_status status =
        ppto_program_bind_sink(targets->recording->program, cli_target_result(targets, which), path);
    free(path);
    return status;
}

ppto_status cli_targets_bind(const cli_targets *targets)
{
    ppto_status status = PPTO_OK;
    for (size_t i = 0; status == PPTO_OK && i < targets->n; ++i)
        if (cli_target_by_run(targets, i)) status = bind_target(targets, i);
    return status;
}
