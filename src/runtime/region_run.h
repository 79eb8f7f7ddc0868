/* SPDX-License-Identifier: Apache-2.0
 * A run piece by piece: what the parts of the driver share. */
#ifndef PP_REGION_RUN_H
#define PP_REGION_RUN_H

#include "files/sink.h"
#include "graph/region.h"
#include "runtime/asks.h"
#include "runtime/runtime.h"
#include "scheduler/io.h"

/* ---- region_io.c ----------------------------------------------------------------------------------------
 */

enum { PP_REGION_DEPTH = 3 }; /* windows of a file: one is computed, others are read or written */

typedef struct pp_region_window {
    struct pp_region_stream *stream;
    pp_io_request request;
    void *room, *data; /* a block of the pool, and where in it the rows begin */
    pp_rows rows;
    int64_t kept; /* rows at the front that come from the piece before */
    bool used;    /* a request was made and not yet waited for */
    bool busy;    /* under the lock: it is not done */
} pp_region_window;

/* A place whose pieces are in a file. The caller fills the first part. */
typedef struct pp_region_stream {
    uint32_t place;
    uint32_t of; /* the span that is read, the output's prim that is written */
    bool write;
    struct pp_region_sink *sink; /* that is written; NULL: none */
    uint8_t dtype;
    const pp_npy_info *info; /* of what is read: pp_npy_put_right; borrow */
    const char *path;        /* for messages; borrow */
    pp_io_file file;
    pp_reader reader;             /* of what is read by the engine */
    bool owned;                   /* and it is to be closed */
    pp_io_share *share;           /* of the stream that its source or sink is on; NULL: none */
    struct pp_sequence *sequence; /* reads it from first to last; NULL: the engine, at any place */
    int64_t read_to;              /* sequence: rows before this one were asked for */
    int64_t data_at;              /* offset of row 0 */
    uint64_t row_bytes;
    size_t bytes; /* of a window */
    bool around;  /* the page cache: windows have room for data to lie as in the file */
    bool turns;   /* rows do not lie together in the file: they are put into order in a window of their own */
    void *turned;
    bool dead; /* it is read no more: its windows have zeros */

    struct pp_region_io *io;
    int64_t next; /* piece to read next */
    pp_region_window window[PP_REGION_DEPTH];
} pp_region_stream;

typedef struct pp_region_io {
    pp_region_run *run;
    pp_io *engine;
    const struct pp_run_control *control; /* of the run, which may be told to stop */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
    const pp_region *region;
    const pp_spans *spans;
    pp_rows *ahead; /* of a piece that is to be read */
    int64_t pieces;
    pp_region_stream *streams;
    size_t n_streams;
    _Atomic uint64_t *moved;        /* counts bytes read and written */
    struct pp_trace_source *source; /* where reads and writes are noted; NULL: nowhere */
    pp_error *err;
} pp_region_io;

/* Files of one pass of pieces; io and spans stay in place until it is closed. */
ppto_status pp_region_io_open(pp_region_io *io, pp_io *engine, const pp_region *region, const pp_spans *spans,
                              size_t most_streams, _Atomic uint64_t *moved, pp_error *err);
ppto_status pp_region_io_add(pp_region_io *io, pp_pool *pool, const pp_region_stream *stream);
/* Waits until the piece may be computed: what it reads is there, what it writes may be overwritten. */
ppto_status pp_region_io_before(pp_region_io *io, int64_t piece);
void pp_region_io_after(pp_region_io *io, int64_t piece); /* it is computed */
/* The window of a place, and of the span that reads it. NULL: in no file */
void *pp_region_io_data(const pp_region_io *io, uint32_t place, uint32_t span, int64_t piece);
/* Waits for all that is under way (cancels it after a failure) and gives the windows back; status, or the
 * first failure. Nothing when it is not open. */
ppto_status pp_region_io_close(pp_region_io *io, pp_pool *pool, ppto_status status);

/* ---- region_archive.c -----------------------------------------------------------------------------------
 */

/* An NPZ file that is written from first to last, by a thread of its own. */
typedef struct pp_archive pp_archive;
/* Opens the file, for so many bytes of one array (data NULL; its shape stays in place). owns *sink and *out
 */
ppto_status pp_archive_open(const char *path, const pp_files_entry *entry, size_t bytes,
                            const pp_files_watch *watch, pp_sink *sink, pp_archive **out, pp_error *err);
/* The bytes that follow those before; at most PP_REGION_DEPTH are under way. done is called on the thread, or
 * here where it has failed. */
void pp_archive_submit(pp_archive *archive, pp_io_request *request);
void pp_archive_stop(pp_archive *archive); /* what is under way ends with E_CANCELLED */
ppto_status pp_archive_result(pp_archive *archive, const pp_io_request *request, pp_error *err);
/* All bytes were submitted, or it was stopped: waits for the end. The sink is still open. */
ppto_status pp_archive_close(pp_archive *archive, pp_error *err);

/* ---- region_sinks.c -------------------------------------------------------------------------------------
 */

/* The file of an output that is written by pieces. */
typedef struct pp_region_sink {
    pp_sink file;
    struct pp_archive *archive; /* writes it from first to last; NULL: the engine, at any place */
    bool open;
    bool lost;       /* it could not be written, or made, and the run goes on for the others */
    int64_t data_at; /* offset of row 0 */
} pp_region_sink;

ppto_status pp_region_sinks_open(pp_region_run *run);
/* The file could not be written. returns  PPTO_OK: the run keeps going, and another output is still wanted;
 * else the failure */
ppto_status pp_region_sink_fails(pp_region_run *run, pp_region_sink *sink, ppto_status status,
                                 const pp_error *why);
/* The files appear, or after a failure none does. returns  status, or the first failure that ends the run */
ppto_status pp_region_sinks_close(pp_region_run *run, ppto_status status);

/* ---- region_input.c -------------------------------------------------------------------------------------
 */

/* The file of an input, which why names, could not be read on. returns  PPTO_OK: the run keeps going, with
 * zeros, for results that do not depend on it; else the failure */
ppto_status pp_region_input_fails(pp_region_run *run, uint32_t input, ppto_status status,
                                  const pp_error *why);
bool pp_region_input_lost(const pp_region_run *run, uint32_t input);
/* Opens the file for the stream; one that is lost is read no more. */
ppto_status pp_region_input_open(pp_region_run *run, uint32_t input, pp_region_stream *stream);
ppto_status pp_region_input_load(pp_region_run *run, uint32_t input, ppto_array **out); /* all of it */

/* ---- region_leave.c -------------------------------------------------------------------------------------
 */

/* Decides when the run lets its streams go; nothing where it has none. */
ppto_status pp_region_leave_plan(pp_region_run *run);
void pp_region_leave(pp_region_run *run, uint32_t stage); /* the stage is done */

/* ---- region_sequence.c ----------------------------------------------------------------------------------
 */

/* A file that is read from first to last, by a thread of its own. */
typedef struct pp_sequence pp_sequence;
ppto_status pp_sequence_open(pp_array_file *file, pp_sequence **out, pp_error *err);
/* The request's offset counts bytes of the data, and is not less than the end of the one before; at most
 * PP_REGION_DEPTH are under way. done is called on the thread. */
void pp_sequence_submit(pp_sequence *sequence, pp_io_request *request);
void pp_sequence_stop(pp_sequence *sequence); /* what is under way ends with E_CANCELLED */
ppto_status pp_sequence_result(const pp_sequence *sequence, const pp_io_request *request, pp_error *err);
void pp_sequence_close(pp_sequence *sequence); /* nothing is under way; NULL is fine */

/* ---- region_run.c ---------------------------------------------------------------------------------------
 */

typedef struct pp_place_memory {
    ppto_array *array, *next; /* next: where a carry is written while the old one is read */
    int64_t units;            /* STATES: written so far */
    bool written;             /* CARRY, ROW: the planned pass writes it */
    bool planned;             /* CARRY, ROW: an earlier one did, and its memory is counted */
    bool streamed;            /* its pieces lie in a file, and never all of it in memory */
} pp_place_memory;

/* A part of the region, ready to run: port k of the program is a window of place reads[k] or writes[k]. */
typedef struct pp_region_part {
    ppto_program *program;
    PP_VEC(uint32_t) reads;
    PP_VEC(uint32_t) spans; /* of reads, as in pp_part */
    PP_VEC(uint32_t) writes;
} pp_region_part;

struct pp_region_run {
    ppto_program *p;
    ppto_array *const *inputs;
    pp_region *region;
    pp_place_memory *at;             /* per place */
    int64_t rows;                    /* of a piece */
    int64_t start;                   /* first row of the piece */
    pp_spans spans;                  /* of the pass that runs */
    pp_rows *now;                    /* of its piece */
    pp_region_io io;                 /* of the pass that runs */
    uint32_t *stream_end, *sync_end; /* per stream and sync point: the stage it ends with; NULL: no streams */
    pp_region_sink *sinks;           /* per output */
    uint8_t *lost_input;             /* per input: it could not be read on; NULL: none */
    pp_error lost;                   /* of the first input or output that is lost */
    int64_t *pass_rows;              /* rows of a piece of every pass */
    uint64_t predicted, peak;
    uint64_t whole;    /* what the run would need in one piece */
    uint64_t work;     /* of all passes: progress.c */
    uint64_t row_work; /* of the pass planned last */
    uint32_t culprit;  /* of a failure */
    pp_asks holds;     /* who has the most of what is held while the run is planned */
    pp_asks part;      /* who asks for the most in the parts planned last */
    pp_asks most;      /* of both, at the predicted peak */
    pp_error *err;
};

ppto_status pp_region_part_open(pp_region_run *run, pp_part *take_part, pp_region_part *out);
void pp_region_part_close(pp_region_part *part);
/* The dim of a place along which pieces lie; PPTO_MAX_RANK: it is not cut. */
static inline int pp_region_axis_of(const pp_place *place)
{
    return place->cut ? place->axis : PPTO_MAX_RANK;
}
/* STATES: of one unit; else of one row, when it is cut */
uint64_t pp_region_row_bytes(const pp_place *place);
uint64_t pp_region_bytes(const pp_place *place); /* of all of it; no STATES */

/* ---- region_around.c ------------------------------------------------------------------------------------
 */

/* Does a pass read or write this place, which is a file, around the page cache? */
bool pp_region_goes_around(const pp_region_run *run, uint32_t pass, const pp_place *place);

/* ---- region_plan.c --------------------------------------------------------------------------------------
 */

/* Chooses pass_rows and predicts the peak. fixed: bytes of inputs and results that ppto owns. limit: 0: none;
 * the peak may be over it all the same. */
ppto_status pp_region_plan(pp_region_run *run, uint64_t fixed, uint64_t limit);
/* The files that pieces of a pass read and write: place, of, write and the bytes of rows and windows are set.
 * streams: room for all spans and outputs. returns  how many */
size_t pp_region_streams(pp_region_run *run, uint32_t pass, const pp_spans *spans, const int64_t *longest,
                         pp_region_stream *streams);
int64_t pp_region_pieces(const pp_spans *spans);
bool pp_region_reads_columns(const pp_reader *reader); /* rows of a column-major file can be read */
uint32_t pp_region_place_of_input(const pp_region *region, uint32_t prim); /* of one that is cut */

#endif
