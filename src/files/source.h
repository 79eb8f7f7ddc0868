/* SPDX-License-Identifier: Apache-2.0
 * src/files: input files, opened for reading at offsets where they have them. Errors name the cause, not the
 * file: the caller knows its name and puts it in front. */
#ifndef PP_SOURCE_H
#define PP_SOURCE_H

#include "base/base.h"

typedef struct pp_source {
    int fd;
    bool stream;   /* no offsets and no size: a pipe, a terminal, a device */
    bool owned;    /* close closes it */
    int64_t start; /* where to read from: 0, or the position of a descriptor that was given */
    int64_t size;  /* bytes of the whole file when it was opened; -1 for a stream */
} pp_source;

/* Opens a file, pipe or device; waits for the writer of a named pipe.
 * returns  PPTO_OK; PPTO_E_IO it is missing, not allowed, or a directory */
ppto_status pp_source_open(pp_source *source, const char *path, pp_error *err);

/* The same for a descriptor that is open (stdin); close leaves it open. */
ppto_status pp_source_of(pp_source *source, int fd, pp_error *err);

void pp_source_close(pp_source *source);

#endif
