/* SPDX-License-Identifier: Apache-2.0
 * ppto explain: what the plan of a text does. All words and numbers come from the library. Pictures go to
 * files beside the text; one that goes to standard output (-) takes its place. */
#include <string.h>

#include "recording.h"
#include "targets.h"

static const char *const stages[] = {/* by ppto_explain_stage */
                                     "summary", "graph", "simplified", "fused", "kernel", "plan", "source"};
enum { N_STAGES = sizeof stages / sizeof stages[0] };

static int find_stage(const cli_arguments *arguments, ppto_explain_stage *stage)
{
    *stage = PPTO_EXPLAIN_SUMMARY;
    if (arguments->stage == NULL) return CLI_OK;
    for (int i = 0; i < N_STAGES; ++i) {
        if (strcmp(arguments->stage, stages[i]) != 0) continue;
        *stage = (ppto_explain_stage)i;
        if (arguments->json && i > PPTO_EXPLAIN_SIMPLIFIED)
            return cli_fail(CLI_USAGE, "--stage %s is text only: leave out --json", stages[i]);
        return CLI_OK;
    }
    return cli_fail(CLI_USAGE,
                    "--stage %s: expected summary, graph, simplified, fused, kernel, plan or source",
                    arguments->stage);
}

static bool is_pipe(const char *path)
{
    return path != NULL && strcmp(path, "-") == 0;
}

static int draw(const cli_recording *recording, ppto_picture_format format, const char *path)
{
    char *text = NULL;
    if (path == NULL) return CLI_OK;
    ppto_status status = ppto_program_picture(recording->program, format, &text);
    if (status != PPTO_OK) return cli_fail_run(recording, status);
    int code = cli_write_text(path, text, strlen(text));
    ppto_text_free(text);
    return code;
}

/* The results that -o names, and their files, as run takes them. */
static int compile(cli_recording *recording, const cli_arguments *arguments)
{
    cli_targets targets;
    int code = cli_targets_read(&targets, recording, arguments, false);
    if (code == CLI_OK) code = cli_compile(recording, targets.chosen, targets.n_chosen);
    ppto_status status = code == CLI_OK ? cli_targets_bind(&targets) : PPTO_OK;
    cli_targets_free(&targets);
    return status == PPTO_OK ? code : cli_fail_status(status, NULL);
}

static int explain(cli_recording *recording, const cli_arguments *arguments, ppto_explain_stage stage)
{
    int code = compile(recording, arguments);
    if (code != CLI_OK) return code;
    code = draw(recording, PPTO_PICTURE_SVG, arguments->svg);
    if (code == CLI_OK) code = draw(recording, PPTO_PICTURE_DOT, arguments->dot);
    if (code != CLI_OK || is_pipe(arguments->svg) || is_pipe(arguments->dot)) return code;
    char *text = NULL;
    ppto_status status = ppto_program_explain(recording->program, stage, arguments->json, &text);
    if (status != PPTO_OK) return cli_fail_run(recording, status);
    cli_print_text(text);
    return CLI_OK;
}

int cli_explain(const cli_arguments *arguments)
{
    cli_recording recording = {0};
    ppto_explain_stage stage;
    int code = find_stage(arguments, &stage);
    if (code == CLI_OK && is_pipe(arguments->svg) && is_pipe(arguments->dot))
        code = cli_fail(CLI_USAGE, "--svg - and --dot - both want standard output: give one a file");
    if (code == CLI_OK) code = cli_record(&recording, arguments, true, false);
    if (code == CLI_OK) code = explain(&recording, arguments, stage);
    return cli_recording_free(&recording, code);
}
