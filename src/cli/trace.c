/* SPDX-License-Identifier: Apache-2.0
 * What a run is asked to tell of itself: --trace (Chrome JSON, or Perfetto's protobuf by the file's name),
 * --timeline (SVG) and the table of --stats. All of it is the library's; here it gets a file. */
#include <string.h>

#include "recording.h"

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

int cli_trace_begin(const cli_recording *recording, const cli_arguments *arguments, ppto_trace **trace)
{
    *trace = NULL;
    if (arguments->trace == NULL && arguments->timeline == NULL && !arguments->stats &&
        arguments->stats_json == NULL)
        return CLI_OK;
    ppto_status status = ppto_trace_create(recording->ctx, NULL, trace);
    if (status == PPTO_OK) status = ppto_program_trace(recording->program, *trace, "ppto run");
    return status == PPTO_OK ? CLI_OK : cli_fail_status(status, NULL);
}

int cli_trace_write(ppto_trace *trace, const cli_arguments *arguments)
{
    const char *path = arguments->trace;
    bool protobuf = path != NULL && (ends_with(path, ".pftrace") || ends_with(path, ".perfetto-trace"));
    int code = write_as(trace, protobuf ? PPTO_TRACE_PERFETTO : PPTO_TRACE_CHROME, path);
    return code == CLI_OK ? write_as(trace, PPTO_TRACE_TIMELINE, arguments->timeline) : code;
}

int cli_trace_steps(ppto_trace *trace, bool json, char **text)
{
    ppto_status status = ppto_trace_steps(trace, json, text);
    return status == PPTO_OK ? CLI_OK : cli_fail_status(status, NULL);
}
