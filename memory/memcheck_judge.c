/* SPDX-License-Identifier: Apache-2.0
 * Growth, suppressions, and the order in which groups are told: the worst verdict first, and of equal ones
 * what holds most.
 *
 * A group grows when its live bytes rose over at least three epochs, and did so in the later half too: a
 * cache that fills and then stays is no leak. A line of suppressions is a glob of operators and, after
 * blanks, one of places ("exp model.c:*"); a '#' begins a comment. What it meets is listed, but is no leak.
 */
#include "memory/memcheck.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_SAMPLES = 3 };

const char *pp_verdict_name(pp_verdict verdict)
{
    static const char *const names[PP_VERDICTS] = {"growing",    "leaked",    "retained",
                                                   "unplanned",  "late_free", "pinned_by_sync",
                                                   "pending_io", "kept",      "ok"};
    return (unsigned)verdict < PP_VERDICTS ? names[verdict] : "ok";
}

const char *pp_share_name(pp_share share)
{
    static const char *const names[PP_SHARES] = {"const",     "needed",   "retained",
                                                 "workspace", "inflight", "slack"};
    return (unsigned)share < PP_SHARES ? names[share] : "slack";
}

const char *pp_left_name(pp_left left)
{
    static const char *const names[PP_LEFTS] = {"programs", "runs", "graphs", "streams", "events"};
    return (unsigned)left < PP_LEFTS ? names[left] : "events";
}

/* Least squares over the samples, one epoch apart. What rises once and stays is kept, but does not grow. */
bool pp_memcheck_grows(const uint64_t *samples, uint32_t n, double *slope)
{
    double middle = (n - 1.0) / 2, mean = 0, above = 0, below = 0;
    *slope = 0;
    if (n < LEAST_SAMPLES) return false;
    for (uint32_t i = 0; i < n; i++) mean += (double)samples[i] / n;
    for (uint32_t i = 0; i < n; i++) {
        above += (i - middle) * ((double)samples[i] - mean);
        below += (i - middle) * (i - middle);
    }
    *slope = above / below;
    uint64_t most = samples[0];
    uint32_t rises = 0;
    for (uint32_t i = 0; i < n; i++) {
        rises += samples[i] > most;
        if (samples[i] > most) most = samples[i];
    }
    return *slope > 0 && rises > 1 && samples[n - 1] == most && samples[n / 2] < most;
}

/* ---- order ------------------------------------------------------------------------------------- */

typedef struct ranked {
    pp_report_group group;
    uint32_t was;
} ranked;

static int compare(uint64_t x, uint64_t y) /* more stands first */
{
    return x > y ? -1 : x < y;
}

static int by_rank(const void *a, const void *b)
{
    const pp_report_group *x = &((const ranked *)a)->group, *y = &((const ranked *)b)->group;
    if (x->suppressed != y->suppressed) return x->suppressed ? 1 : -1;
    if (x->verdict != y->verdict) return x->verdict < y->verdict ? -1 : 1;
    int by = compare(x->retained_bytes, y->retained_bytes);
    if (by == 0) by = compare(x->peak_share_bytes, y->peak_share_bytes);
    if (by == 0) by = x->byte_seconds > y->byte_seconds ? -1 : x->byte_seconds < y->byte_seconds;
    if (by == 0) by = compare(x->allocation_size_bytes, y->allocation_size_bytes);
    return by != 0 ? by : ((const ranked *)a)->was < ((const ranked *)b)->was ? -1 : 1;
}

/* Without the groups that never had a buffer. On a lack of memory the order stays. */
static void sort(pp_memcheck *report)
{
    size_t n = 0;
    ranked *rows = pp_calloc(report->groups.n + 1, sizeof *rows);
    uint32_t *now = pp_calloc(report->groups.n + 1, sizeof *now);
    for (size_t i = 0; rows != NULL && now != NULL && i < report->groups.n; i++)
        if (report->groups.at[i].total_count != 0) rows[n++] = (ranked){report->groups.at[i], (uint32_t)i};
    if (rows != NULL && now != NULL) {
        if (n > 1) qsort(rows, n, sizeof *rows, by_rank);
        for (size_t i = 0; i < n; i++) {
            report->groups.at[i] = rows[i].group;
            now[rows[i].was] = (uint32_t)i;
        }
        report->groups.n = n;
        for (size_t i = 0; i < report->buffers.n; i++)
            report->buffers.at[i].group = now[report->buffers.at[i].group];
    }
    pp_free(rows);
    pp_free(now);
}

void pp_memcheck_judge(pp_memcheck *report, const char *suppressions)
{
    for (size_t i = 0; i < report->groups.n; i++) {
        pp_report_group *g = &report->groups.at[i];
        if (g->total_count == 0) continue;
        g->suppressed = g->verdict <= PP_LATE_FREE && pp_memcheck_is_suppressed(suppressions, g);
        if (g->suppressed)
            report->suppressed++;
        else
            report->count[g->verdict]++;
    }
    sort(report);
}
