/* SPDX-License-Identifier: Apache-2.0
 * Files at the pace of a device: named pipes that a thread feeds, and others that a thread empties, so many
 * bytes a second. They cost next to no processor time, so what overlaps badly between them is the library's
 * doing, on whatever machine. */
#ifndef PP_OVERLAP_PACED_H
#define PP_OVERLAP_PACED_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum { PACED_MOST = 64 };

typedef struct paced {
    int n;                              /* of each kind */
    const char *const *in, *const *out; /* paths, of the caller */
    size_t bytes;                       /* that come out of every pipe; what goes in is counted as it comes */
    double seconds;                     /* that so many bytes take */
    int in_end[PACED_MOST], out_end[PACED_MOST];
    pthread_t feeder, drain;
    bool well;
} paced;

/* Makes the pipes and starts the threads: one pipe after the other, as they are read and written. The first
 * fields are set. false: a pipe or a thread cannot be had */
bool paced_begin(paced *p);
/* When all have been read to their ends and written. false: some transfer failed */
bool paced_end(paced *p);

#endif
