/* SPDX-License-Identifier: Apache-2.0
 * What the machine gives without the library: three threads that know nothing of each other read files,
 * compute and write files. Their time together, beside the longest of them alone, is as good as an overlap of
 * such parts can be there: two processors, one disk and one memory bus are shared by whoever uses them. */
#ifndef PP_OVERLAP_PLAIN_H
#define PP_OVERLAP_PLAIN_H

#include <stdbool.h>
#include <stddef.h>

enum { PLAIN_READ, PLAIN_COMPUTE, PLAIN_WRITE, PLAIN_PARTS };

typedef struct plain_work {
    int n;                   /* of files, each read and each written whole */
    const char *(*in)(int);  /* path of a file that is there */
    const char *(*out)(int); /* path of a file that is to be made */
    void (*cool)(void);      /* files to read leave the page cache, files written are removed */
    size_t read_bytes, write_bytes;
    bool read_around, write_around; /* the page cache, where the system can */
    double compute_seconds;         /* of processor time */
} plain_work;

typedef struct plain_times {
    double alone[PLAIN_PARTS], together; /* seconds */
    double files;                        /* of the two that move files, at once */
} plain_times;

/* returns  false when memory, a thread or a file cannot be had */
bool plain_measure(const plain_work *work, plain_times *times);

#endif
