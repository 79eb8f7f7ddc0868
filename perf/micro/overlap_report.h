/* SPDX-License-Identifier: Apache-2.0
 * What the overlap benchmark tells: the medians of its turns beside what the machine gives, and a timeline.
 */
#ifndef PP_OVERLAP_REPORT_H
#define PP_OVERLAP_REPORT_H

#include "overlap_plain.h"

enum { LOAD, COMPUTE, STORE, PARTS, MOST = 64 };

/* Seconds, over all batches; up to `when` nothing but double. */
typedef struct turn {
    double part[PARTS];        /* one after the other */
    double alone[PARTS];       /* each without the others */
    double total;              /* all at once */
    double busy, busy_at_once; /* of the processors: of the parts in turn, and at once */
    plain_times plain;         /* of files */
    double when[MOST][PARTS];  /* until the part of a batch was done, all at once */
} turn;

/* Prints; sorts the turns. files: plain threads did the same */
void overlap_report(turn *all, int turns, int batches, bool files);

#endif
