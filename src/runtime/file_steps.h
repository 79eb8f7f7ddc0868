/* SPDX-License-Identifier: Apache-2.0
 * Files as steps of a plan: a load reads a file into the memory of its input, a store writes a result, while
 * other steps compute and other files are moved. The step only begins the transfer; the I/O engine moves the
 * bytes, and when the last is there its thread completes the step (pp_dispatch_complete), so nobody waits
 * inside. What the engine cannot move to its place as it is (archives, the first axis fastest) is decoded by
 * the second phase of the step, on a worker; so are a few bytes of a file, which wait for nothing.
 *
 * When the run is over, the transfer is stopped and still completes the step: its memory and its descriptor
 * are then free. */
#ifndef PP_FILE_STEPS_H
#define PP_FILE_STEPS_H

#include "files/sink.h"
#include "runtime/runtime.h"
#include "scheduler/io.h"

/* ---- file_transfer.c : bytes between memory and a descriptor ------------------------------------- */

enum { PP_TRANSFER_DEPTH = 2 }; /* requests under way, of PP_FILES_STEP bytes at most */

typedef struct pp_transfer {
    /* the caller's; fixed from start to `ended` */
    pp_io *engine;
    pp_io_op op;
    pp_io_file file;
    int64_t offset; /* where it begins; of a stream: wherever it is */
    void *data;     /* bytes of them; only read by PP_IO_WRITE */
    size_t bytes;
    pp_io_share *share;      /* of the stream; NULL: none */
    bool to_end;             /* a read: nothing may follow them */
    _Atomic uint64_t *moved; /* counts bytes */
    /* Called once, by the thread that moved the last byte or by start; t may be gone when it returns. */
    void (*ended)(struct pp_transfer *t);
    void *owner;

    /* in `ended` */
    ppto_status
        status; /* PPTO_OK; PP_STEP_WITHDRAWN: it was stopped; else error has the words, without name */
    pp_error error;

    pthread_mutex_t lock; /* of all below */
    bool stop;
    uint32_t holds;     /* requests under way, and threads inside */
    size_t asked, done; /* bytes, and what stands behind them */
    size_t failed_at;   /* SIZE_MAX: nowhere */
    size_t at[PP_TRANSFER_DEPTH];
    pp_io_request request[PP_TRANSFER_DEPTH];
    char behind;
} pp_transfer;

ppto_status pp_transfer_make(pp_transfer *t); /* zeroed before. E_LIMIT: there is no lock */
void pp_transfer_free(pp_transfer *t);
void pp_transfer_ready(pp_transfer *t); /* before a run: it is not stopped */
void pp_transfer_start(pp_transfer *t);
/* No request more is begun, those under way end soon. Any thread, from ready on; also again. */
void pp_transfer_stop(pp_transfer *t);

/* ---- file_steps.c -------------------------------------------------------------------------------- */

typedef struct pp_file_step {
    pp_instance *instance;
    uint32_t step, which; /* of the schedule; input or output */
    bool store;
    /* of one run */
    bool open;         /* the reader, or the sink, is */
    bool owned, moved; /* the reader is its own; the engine moves it */
    bool ended;        /* well */
    int64_t begun_ns, ended_ns;
    pp_reader reader;
    pp_sink sink;
    size_t bytes; /* that are stored */
    pp_transfer transfer;
} pp_file_step;

ppto_status pp_file_steps_make(pp_instance *in, pp_error *err);
void pp_file_steps_destroy(pp_instance *in); /* NULL steps are fine */
void pp_file_step_fill(pp_instance *in, uint32_t step, pp_step *out);
/* Around a dispatch, on the run's thread. */
void pp_file_steps_begin(pp_instance *in);
void pp_file_steps_end(
    pp_instance *in); /* gives up what is open, and notes the moves where runs are traced */
/* Begins the transfer, whose file and bytes are set; and tells the dispatch that it has ended, as `ended` of
 * the transfer. path: for messages. */
void pp_file_step_start(pp_file_step *f);
void pp_file_step_ended(pp_file_step *f, const char *path);

/* ---- file_stores.c ------------------------------------------------------------------------------- */

void pp_file_store_fill(pp_file_step *f, pp_step *out);
void pp_file_store_end(pp_file_step *f);
/* After a dispatch, before pp_file_steps_end: the files that were stored appear. all: also behind one that
 * cannot. returns  the first failure */
ppto_status pp_file_steps_store(pp_instance *in, bool all, pp_error *err);

#endif
