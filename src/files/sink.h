/* SPDX-License-Identifier: Apache-2.0
 * src/files: output files. A file is written without a name in the folder of its target, and gets the name
 * when it is whole: a reader sees the old bytes or the new ones, and a process that is killed leaves the old
 * ones and nothing else. Where a file system has no files without a name, it is .ppto-PID-N.tmp meanwhile.
 * Devices and pipes are written in place; so is what a name stands for that means a descriptor of this
 * process ("-" is standard output; /dev/stdout, /dev/fd/N): from where it stands, with the flags it has.
 *
 * A sink is a descriptor between open and finish: whoever writes may write at offsets, in any order and from
 * several threads, unless `stream` says that bytes can only follow one another. Errors name the cause, not
 * the file: the caller knows its name and puts it in front. */
#ifndef PP_SINK_H
#define PP_SINK_H

#include "files/fdio.h"

typedef struct pp_sink {
    int fd;
    bool stream;               /* no offsets */
    char *temporary, *target;  /* NULL: no name yet; in place */
    struct pp_unfinished *row; /* of the temporary name */
} pp_sink;

/* bytes: the size the file will have; -1: not known. Where it is known, room for it is taken now, in steps
 * between which the watch is asked, so that a full disk is told before anything is computed. Permissions of a
 * replaced file are kept, symbolic links followed. A named pipe that nobody reads yet is waited for; watch:
 * who may end that, NULL: nobody. returns  PPTO_OK; what the watch says; PPTO_E_LIMIT the disk is full;
 * PPTO_E_IO; PPTO_E_NOMEM owns *sink wants pp_sink_finish or pp_sink_abandon, once; after a failure neither
 */
ppto_status pp_sink_open(pp_sink *sink, const char *path, int64_t bytes, const pp_files_watch *watch,
                         pp_error *err);

/* Whether a sink of that name could be opened as things stand, without touching anything: told before work
 * whose result could not be kept. What opening finds still counts. returns  PPTO_OK; PPTO_E_IO */
ppto_status pp_sink_check(const char *path, pp_error *err);

/* Everything is written: closes, and the file appears. sync: first asks the disk to keep it, which also lets
 * it survive a crash of the machine. After a failure there is no new file; only when the folder cannot be
 * synced it is there and may not survive. */
ppto_status pp_sink_finish(pp_sink *sink, bool sync, pp_error *err);

/* Would its bytes go to somebody who reads them as they come: a pipe, a descriptor that is open already? */
bool pp_sink_flows(const char *path);

/* There is no new file; what went to a pipe has gone. watch: by whom it is closed, NULL: here */
void pp_sink_abandon(pp_sink *sink, const pp_files_watch *watch);

/* For the handler of a signal that ends the process: removes every temporary name there is. false: there may
 * be one that it does not know. threads  any, also in a handler */
bool pp_sinks_abandon_all(void);

/* Would what is written to both paths be one file or pipe? Also through symbolic links and names of open
 * descriptors ("-" and "/dev/stdout"), and before there is one; not of devices such as /dev/null. */
bool pp_files_same(const char *a, const char *b);

/* Writes a file's contents to fd, in order. A failure makes the whole output fail. */
typedef ppto_status (*pp_files_writer)(int fd, void *arg, pp_error *err);

/* A sink of unknown size for one writer that waits.
 * returns  PPTO_OK; the writer's failure; as pp_sink_open and pp_sink_finish */
ppto_status pp_files_write_atomic(const char *path, pp_files_writer writer, void *arg,
                                  const pp_files_watch *watch, pp_error *err);

#endif
