/* SPDX-License-Identifier: Apache-2.0
 * The tasks of a run as a Chrome trace, which Perfetto opens: a row per worker, a bar per task.
 *
 * The library's task log has six numbers a line: step, phase, task, worker, start and end in nanoseconds. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "recording.h"

typedef struct task {
    unsigned step, phase, number, worker;
    int64_t start, end;
} task;

static bool read_task(const char *line, task *t)
{
    return sscanf(line, "%u %u %u %u %" SCNd64 " %" SCNd64, &t->step, &t->phase, &t->number, &t->worker,
                  &t->start, &t->end) == 6;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end != NULL ? end + 1 : line + strlen(line);
}

static void write_tasks(FILE *to, const char *log)
{
    task t;
    int64_t zero = INT64_MAX;
    for (const char *line = log; *line != '\0'; line = next_line(line))
        if (read_task(line, &t) && t.start < zero) zero = t.start;
    fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n", to);
    fputs("{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": {\"name\": \"ppto run\"}}", to);
    for (const char *line = log; *line != '\0'; line = next_line(line)) {
        if (!read_task(line, &t)) continue;
        fprintf(to,
                ",\n{\"name\": \"step %u.%u\", \"cat\": \"task\", \"ph\": \"X\", \"pid\": 1, \"tid\": %u, ",
                t.step, t.phase, t.worker);
        fprintf(to, "\"ts\": %.3f, \"dur\": %.3f, \"args\": {\"step\": %u, \"phase\": %u, \"task\": %u}}",
                (double)(t.start - zero) * 1e-3, (double)(t.end - t.start) * 1e-3, t.step, t.phase, t.number);
    }
    fputs("\n]}\n", to);
}

int cli_write_trace(const cli_recording *recording, const char *path)
{
    char *log = NULL, *text = NULL;
    size_t length = 0;
    ppto_status status = ppto_program_task_log(recording->program, &log);
    if (status != PPTO_OK) return cli_fail_status(status, NULL);
    FILE *to = open_memstream(&text, &length);
    bool fine = to != NULL;
    if (fine) write_tasks(to, log);
    if (to != NULL && fclose(to) != 0) fine = false;
    int code = fine ? cli_write_text(path, text, length) : cli_fail(CLI_LIMIT, "out of memory");
    free(text);
    ppto_text_free(log);
    return code;
}
