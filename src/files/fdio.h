/* SPDX-License-Identifier: Apache-2.0
 * src/files: whole reads and writes on file descriptors.
 *
 * Every read and write that waits goes through here, so that short counts, interruptions, descriptors that do
 * not block, and full disks are handled once (those that do not wait: scheduler/io.h). Errors name the cause,
 * not the file: the caller knows its name and puts it in front. threads  any; two threads on one descriptor
 * need a lock of their own
 *
 * Whole arrays take long: who reads or writes one gives a watch, which is asked every few MiB whether to go
 * on. */
#ifndef PP_FDIO_H
#define PP_FDIO_H

#include "base/base.h"

/* Follows a long transfer. */
typedef struct pp_files_watch {
    ppto_status (*stopped)(const void *arg, pp_error *err); /* no PPTO_OK: the transfer ends with it */
    const void *arg;
    _Atomic uint64_t *moved; /* counts bytes; NULL: nobody asks */
    /* Moves the bytes at the position of fd, and the position, as pp_files_read and pp_files_write do, in
     * their stead; may end with what `stopped` says. NULL: those do it. */
    ppto_status (*move)(const struct pp_files_watch *watch, bool write, int fd, void *bytes, size_t n,
                        size_t *got, pp_error *err);
    /* Closes the descriptor of a file that is given up, and need not wait for that. NULL: close does it */
    void (*close)(const struct pp_files_watch *watch, int fd);
} pp_files_watch;
enum { PP_FILES_STEP = 16 << 20 }; /* bytes from question to question */

/* Reads until n bytes came or the end of the file; *got says how many.
 * returns  PPTO_OK also at the end of the file; PPTO_E_IO */
ppto_status pp_files_read(int fd, void *bytes, size_t n, size_t *got, pp_error *err);

/* The same by watch->move, where there is one. */
ppto_status pp_files_read_by(const pp_files_watch *watch, int fd, void *bytes, size_t n, size_t *got,
                             pp_error *err);

/* Reads what is there, up to n bytes, and waits only where nothing is; *got is 0 at the end of the file. */
ppto_status pp_files_read_some(int fd, void *bytes, size_t n, size_t *got, pp_error *err);

/* Writes all n bytes.
 * returns  PPTO_OK; PPTO_E_LIMIT when the disk is full or a quota or file size limit is reached; PPTO_E_IO */
ppto_status pp_files_write(int fd, const void *bytes, size_t n, pp_error *err);
/* The same by watch->move, where there is one. */
ppto_status pp_files_write_by(const pp_files_watch *watch, int fd, const void *bytes, size_t n,
                              pp_error *err);

/* Whatever bytes come from, in order. */
typedef struct pp_files_from {
    /* as pp_files_read; watch: whose `move` reads where the bytes are those of a descriptor; NULL: none */
    ppto_status (*read)(void *arg, void *bytes, size_t n, size_t *got, const pp_files_watch *watch,
                        pp_error *err);
    int64_t (*left)(void *arg); /* bytes until the end; -1: not known */
    void *arg;
} pp_files_from;
pp_files_from pp_files_from_fd(int *fd); /* which stays in place meanwhile */

/* The same as above, watched (NULL: not). returns  also what the watch says */
ppto_status pp_files_read_watched(const pp_files_from *from, void *bytes, size_t n, size_t *got,
                                  const pp_files_watch *watch, pp_error *err);
ppto_status pp_files_write_watched(int fd, const void *bytes, size_t n, const pp_files_watch *watch,
                                   pp_error *err);

/* Bytes between the position of fd and its end; -1 when it is no regular file (a pipe, a device). */
int64_t pp_files_remaining(int fd);

#endif
