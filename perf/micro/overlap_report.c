/* SPDX-License-Identifier: Apache-2.0
 * The report of the overlap benchmark (overlap_report.h). Every number is the median of its own: a disk that
 * writes back what others left takes ten times as long now and then, in one part of one turn. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "overlap_report.h"

enum { WIDTH = 72, MOST_TURNS = 64 };
static const char *const names[PARTS] = {"load", "compute", "store"};

static double longest(const double part[PARTS])
{
    double most = part[LOAD] > part[COMPUTE] ? part[LOAD] : part[COMPUTE];
    return most > part[STORE] ? most : part[STORE];
}

/* What the first and the last batch do beside the longest part. */
static double start_up(const double part[PARTS], int batches)
{
    return (part[LOAD] + part[COMPUTE] + part[STORE] - longest(part)) / batches;
}

/* ---- medians ------------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int by_total(const void *a, const void *b)
{
    return by_size(&((const turn *)a)->total, &((const turn *)b)->total);
}

static turn medians(const turn *all, int turns)
{
    turn mid = all[turns / 2];
    for (size_t at = 0; at < offsetof(turn, when); at += sizeof(double)) {
        double each[MOST_TURNS];
        for (int i = 0; i < turns; i++) memcpy(&each[i], (const char *)&all[i] + at, sizeof *each);
        qsort(each, (size_t)turns, sizeof *each, by_size);
        memcpy((char *)&mid + at, &each[turns / 2], sizeof *each);
    }
    return mid;
}

/* ---- the timeline ------------------------------------------------------------------------------- */

static void draw(char *line, double from, double to, double total, char letter)
{
    int first = (int)(from / total * WIDTH), last = (int)(to / total * WIDTH);
    for (int i = first < 0 ? 0 : first; i <= last && i < WIDTH; i++) line[i] = letter;
}

/* A part begins when the one before it is done, of the batch and on its stream. */
static void timeline(const turn *of, int batches)
{
    for (int i = 0; i < batches; i++) {
        char line[WIDTH + 1];
        memset(line, '.', WIDTH);
        line[WIDTH] = '\0';
        for (int part = 0; part < PARTS; part++) {
            double from = part > 0 ? of->when[i][part - 1] : 0;
            if (i > 0 && of->when[i - 1][part] > from) from = of->when[i - 1][part];
            draw(line, from, of->when[i][part], of->total, "lcs"[part]);
        }
        printf("%3d %s\n", i, line);
    }
}

/* ---- what is said ------------------------------------------------------------------------------- */

/* What is above a part alone and is not the library's doing: one disk serves both kinds of files, and the
 * processors have to find room for all that is work. */
static double machine_limit(const turn *r, bool files)
{
    double most = longest(r->alone), cpus = r->busy / (double)sysconf(_SC_NPROCESSORS_ONLN);
    if (files && r->plain.files > most) most = r->plain.files;
    return most > cpus ? most : cpus;
}

static void tell_plain(const turn *r)
{
    printf("three plain threads %.2f ms, %.2f of the longest part; two that load and store %.2f ms\n",
           1e3 * r->plain.together, r->plain.together / longest(r->alone), 1e3 * r->plain.files);
}

void overlap_report(turn *all, int turns, int batches, bool files)
{
    qsort(all, (size_t)turns, sizeof *all, by_total);
    const turn r = medians(all, turns);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    double start = start_up(r.alone, batches), most = longest(r.alone), limit = machine_limit(&r, files);
    for (int i = 0; i < PARTS; i++)
        printf("%-8s %8.2f ms alone for %d batches, %.2f in turn\n", names[i], 1e3 * r.alone[i], batches,
               1e3 * r.part[i]);
    printf("in turn  %8.2f ms, %.2f ms of processor time: %ld CPUs need %.2f of the longest part for it\n",
           1e3 * (r.part[LOAD] + r.part[COMPUTE] + r.part[STORE]), 1e3 * r.busy, cpus,
           r.busy / (double)cpus / most);
    printf("overlap  %8.2f ms (%.2f to %.2f), %.2f ms of processor time\n", 1e3 * r.total, 1e3 * all[0].total,
           1e3 * all[turns - 1].total, 1e3 * r.busy_at_once);
    if (files) tell_plain(&r);
    printf("the overlap is %.2f of the longest part and the start-up (%.2f ms); %.2f of what the machine "
           "allows (%.2f ms: the longest part, both kinds of files, or the processors) and the start-up\n",
           r.total / (most + start), 1e3 * start, r.total / (limit + start), 1e3 * limit);
    timeline(&all[turns / 2], batches);
}
