/* SPDX-License-Identifier: Apache-2.0
 * --progress: one line that is written over, a few times a second, on a terminal only: how much of the run is
 * done, what went through files and how fast, how long it may still take. When the run is over the line
 * stays, with the time it took; when it failed the line is taken away, for the error to stand alone. */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <unistd.h>

#include "ppto/stream.h"
#include "recording.h"

enum { INTERVAL_NS = 200000000 };

/* "1.25 GiB" */
static void bytes_text(double bytes, char *text, size_t room)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;
    while (bytes >= 999.5 && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1024;
        ++unit;
    }
    int digits = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
    snprintf(text, room, "%.*f %s", digits, bytes, units[unit]);
}

/* "1:02:03", "2:03" */
static void time_text(double seconds, char *text, size_t room)
{
    uint64_t s = seconds < 360000 ? (uint64_t)(seconds + 0.5) : 360000;
    if (s >= 3600)
        snprintf(text, room, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, room, "%" PRIu64 ":%02" PRIu64, s / 60, s % 60);
}

static void show_line(const ppto_progress *progress, double seconds)
{
    char moved[32], rate[32], time[32];
    double left = progress->fraction > 0 ? seconds / progress->fraction - seconds : 0;
    fprintf(stderr, "\r%3d%%", (int)(progress->fraction * 100));
    if (progress->file_bytes > 0 && seconds > 0) {
        bytes_text((double)progress->file_bytes, moved, sizeof moved);
        bytes_text((double)progress->file_bytes / seconds, rate, sizeof rate);
        fprintf(stderr, "  %s  %s/s", moved, rate);
    }
    bool over = progress->fraction >= 1;
    time_text(over ? seconds : left, time, sizeof time);
    if (progress->fraction > 0) fprintf(stderr, "  %s%s", time, over ? "" : " left");
    fputs("\033[K", stderr); /* the rest of an older line */
    fflush(stderr);
}

ppto_status cli_wait(ppto_run *run, bool show)
{
    ppto_progress progress = {.size = sizeof progress};
    if (!show || isatty(STDERR_FILENO) != 1) return ppto_run_wait(run, -1);
    double start = cli_now();
    do {
        if (ppto_run_progress(run, &progress) == PPTO_OK) show_line(&progress, cli_now() - start);
        (void)ppto_run_wait(run, INTERVAL_NS);
    } while (!ppto_run_over(run, NULL));
    ppto_status status = ppto_run_wait(run, -1); /* once more: the run's own error is the last */
    if (status == PPTO_OK && ppto_run_progress(run, &progress) == PPTO_OK) {
        show_line(&progress, cli_now() - start);
        fputc('\n', stderr);
    } else {
        fputs("\r\033[K", stderr);
    }
    return status;
}
