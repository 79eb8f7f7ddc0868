/* SPDX-License-Identifier: Apache-2.0
 * Log lines go to a sink that the host gave; without one they are dropped, unformatted. The library never
 * prints.
 *
 * A line is formatted into fixed storage: logging cannot fail and does not allocate, so it works when memory
 * is out. A longer line is cut and ends in "...". The sink is called on the thread that logs. */
#include <stdio.h>
#include <string.h>

#include "base/base.h"

void pp_log_line(const pp_log *log, int level, const char *format, ...)
{
    if (log == NULL || log->fn == NULL || level > log->level) return;
    char line[4096];
    va_list args;
    va_start(args, format);
    int length = pp_vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (length < 0) return;
    if ((size_t)length >= sizeof line) memcpy(line + sizeof line - 4, "...", 4);
    log->fn(log->arg, level, line);
}
