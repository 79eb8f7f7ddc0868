/* SPDX-License-Identifier: Apache-2.0
 * The I/O engine: reads and writes of byte ranges that end later, on threads of the engine. It knows
 * descriptors and offsets only; names, formats and output files that appear by rename are src/files.
 *
 * A request is a struct of the caller and a submit links it in: so submitting allocates nothing and cannot
 * fail, and whatever goes wrong is told by `done`, exactly once. The engine cuts requests into pieces with
 * explicit offsets, keeps at most `depth` of them (and `max_bytes` bytes) in flight, begins the requests of
 * one file in order and serves files in turn, so that neither a large request nor a slow file holds up the
 * others. Pipes, terminals and sockets are streams: no offset, one request at a time in each direction. A
 * stream that waits for its peer occupies neither a slot nor a thread.
 *
 * Engines: "uv" (libuv's pool, own loop on an own thread), "blocking" (one thread, or the submitting thread
 * where none can be had), "sim" (no thread: virtual time, seeded order and faults). io_engine.h is what they
 * implement. */
#ifndef PP_IO_H
#define PP_IO_H

#include "base/base.h"

typedef struct pp_io pp_io;
typedef struct pp_io_file pp_io_file;
typedef struct pp_io_request pp_io_request;

/* CLOSE closes the descriptor of a file that is given up, which takes the system a quarter of a second for
 * each GB of it: a request of one byte without data, the last one of the file. */
typedef enum pp_io_op { PP_IO_READ, PP_IO_WRITE, PP_IO_CLOSE } pp_io_op;

/* Requests of one file in one order; of the engine. */
typedef struct pp_io_lane {
    pp_io_request *first, *last; /* those with bytes that no piece has taken */
    struct pp_io_lane *next, *prev;
    struct pp_io_lanes *in; /* the list that holds it */
    pp_io_file *file;
} pp_io_lane;

/* An open descriptor: the caller sets fd and stream, the rest is zero. It must stay in place, and fd open,
 * until every request on it is done. Two of them on one fd are two files, except that a stream may have only
 * one. The flags of fd, O_NONBLOCK among them, are never changed. */
struct pp_io_file {
    int fd;
    bool stream;                /* no offsets: the position of fd */
    bool goes_around;           /* pp_io_file_go_around */
    int around;                 /* where it does: the descriptor for that */
    _Atomic size_t around_step; /* and bytes of one call there */
    bool direct;                /* of the engine: a stream that cannot be waited for (a device, a file) */
    uint8_t watched;            /* of the engine: directions (1 << op) that wait for the peer */
    uint32_t running;           /* of the engine: pieces in flight */
    pp_io_lane lane[2];         /* of the engine: by direction; without stream only the first */
};

/* What some requests have in flight together, of whatever files: the rest of them waits, while others go on.
 * Of the caller, who sets `most` at any time; in place until every request with it is done. */
typedef struct pp_io_share {
    _Atomic size_t most; /* bytes, at least PP_IO_LEAST_PIECE; 0: whatever the engine has room for */
    size_t bytes;        /* of the engine: in flight */
} pp_io_share;

/* The caller fills the first part (the rest is zero) and leaves it alone until done. */
struct pp_io_request {
    pp_io_op op;
    bool may_end; /* a read that meets the end of the file is no failure: moved < bytes */
    pp_io_file *file;
    int64_t offset; /* ignored for a stream */
    void *data;     /* bytes of them; only read by PP_IO_WRITE */
    size_t bytes;
    size_t stretch; /* not 0: after every so many bytes the file goes on `stride` after where they began */
    int64_t stride;
    pp_io_share *share; /* NULL: only the engine's limits */
    /* On a thread of the engine, those of several requests at once; short, may submit, may free the request
     */
    void (*done)(pp_io_request *request);
    void *owner; /* of the caller */

    /* The result, valid in done. */
    ppto_status status; /* pp_io_result has the words */
    int os_error;       /* errno of the failure, 0: none */
    size_t moved;       /* bytes; after a failure or cancel not always a prefix of the range */
    int64_t submitted_ns, begun_ns, done_ns; /* begun_ns 0: it never began */

    struct { /* of the engine */
        pp_io_request *next;
        uint8_t state;
        bool laned, cancelled;
        uint32_t pieces;  /* in flight */
        size_t begun;     /* bytes taken by pieces */
        size_t end;       /* where the file ended, SIZE_MAX: not met */
        size_t failed_at; /* of the failure nearest to the start, SIZE_MAX: none */
    } own;
};

/* ---- faults of "sim" --------------------------------------------------------------------------- */

typedef enum pp_io_fault {
    PP_IO_SHORT, /* fewer bytes than asked for, at least one */
    PP_IO_EINTR,
    PP_IO_EAGAIN,
    PP_IO_EIO,
    PP_IO_ENOSPC, /* of writes */
    PP_IO_END,    /* of reads: the file ends here */
    PP_IO_FAULTS
} pp_io_fault;

typedef struct pp_io_sim {
    uint64_t seed;
    uint16_t rate[PP_IO_FAULTS]; /* how many of 1,000 calls get it */
    uint64_t fail_at;            /* the call, from 1, that gets fail_with; 0: none */
    pp_io_fault fail_with;
    int64_t least_ns, most_ns; /* how long a call takes */
} pp_io_sim;

/* ---- io.c -------------------------------------------------------------------------------------- */

enum { PP_IO_LEAST_PIECE = 4096, PP_IO_MOST_PIECE = 1 << 30, PP_IO_MOST_DEPTH = 1024, PP_IO_BLOCK = 4096 };

/* Zero is the default of each. */
typedef struct pp_io_options {
    uint32_t depth;    /* pieces in flight; the size of libuv's pool ("blocking" always has 1) */
    uint32_t per_file; /* of one file that is read; depth - 1, so that a slow file leaves a slot to others. A
                          file is written by one piece at a time */
    size_t piece;      /* bytes; 4 MiB; 1 to 16 MiB is sensible. Cuts are at multiples of it in the file */
    size_t max_bytes;  /* in flight; depth * piece. A piece larger than it goes alone */
    pp_io_sim sim;
} pp_io_options;

/* name: "uv", "blocking", "sim"; NULL: uv if it is built in and can be had, else blocking. Starts the thread.
 * returns  PPTO_OK; PPTO_E_VALUE no such engine, bad option; PPTO_E_UNSUPPORTED not built in; PPTO_E_LIMIT no
 * thread or descriptor can be had; PPTO_E_NOMEM */
ppto_status pp_io_create(const char *name, const pp_io_options *options, pp_io **out, pp_error *err);

/* Cancels what has not begun, waits for what is in flight; every request is done before it returns. NULL is
 * fine. In a forked child it only lets go.
 * threads  no other call on io meanwhile; not from done */
void pp_io_destroy(pp_io *io);

/* Takes over the request until done. Never fails and never allocates. done is called before it returns only
 * where the engine has no thread, and in a forked child (PPTO_E_FORKED).
 * threads  any, also from done */
void pp_io_submit(pp_io *io, pp_io_request *request);

/* A request that has not begun ends at once with PPTO_E_CANCELLED and a running one when its system calls
 * have returned, each of at most a MiB (or as much as the disk has in 20 ms), both through done. One that is
 * done, or was never submitted, stays as it is. threads  any; the request must be there (so not after a done
 * that frees it) */
void pp_io_cancel(pp_io *io, pp_io_request *request);

/* The status of a request that is done, with its words in *err: the cause, not the file's name. */
ppto_status pp_io_result(const pp_io_request *request, pp_error *err);

typedef struct pp_io_counters {
    uint64_t requests, done, failed, cancelled; /* done counts all that ended */
    uint64_t read_bytes, written_bytes;
    uint64_t calls;                     /* that moved bytes, met the end or failed */
    uint32_t in_flight, most_in_flight; /* pieces */
    size_t bytes_in_flight, most_bytes_in_flight;
    int64_t wait_ns, longest_wait_ns; /* from submit to begin */
} pp_io_counters;
void pp_io_count(pp_io *io, pp_io_counters *out);

typedef struct pp_io_facts {
    const char *name;              /* of the engine */
    const char *library, *version; /* "libuv", "1.44.2"; NULL: none */
    bool thread;                   /* false: requests run on the thread that submits or steps */
    uint32_t depth, per_file;
    size_t piece, max_bytes;
    uint32_t pool; /* threads that make the calls: UV_THREADPOOL_SIZE or libuv's default; 1 or 0 elsewhere */
} pp_io_facts;
/* io NULL: of the engine that pp_io_create(NULL, …) makes with the defaults, as far as nothing fails. */
void pp_io_describe(const pp_io *io, pp_io_facts *out);
void pp_io_facts_text(const pp_io_facts *facts, pp_text *out); /* one line without a newline */
const char *pp_io_at(size_t i); /* names of what is built in; NULL past the last */

/* ---- io_around.c ------------------------------------------------------------------------------- */

/* Requests go around the page cache where they can: data that lie in blocks of PP_IO_BLOCK bytes of memory as
 * they lie in those of the file (data - offset is a multiple of one). A read may then change the rest of the
 * first and of the last block in memory. Nothing where the system has no such thing: it only saves time.
 * Before the first request; pp_io_file_let_go after the last one. */
void pp_io_file_go_around(pp_io_file *file, bool write);
void pp_io_file_let_go(pp_io_file *file); /* of one that did or did not; fd stays open */

/* ---- io_sim.c ---------------------------------------------------------------------------------- */

/* Makes the calls that are due at now_ns (never back in time), done callbacks included.
 * returns  when the next one is due; INT64_MAX: none is in flight */
int64_t pp_io_sim_step(pp_io *io, int64_t now_ns);
uint64_t pp_io_sim_calls(pp_io *io); /* calls so far, faults included: what fail_at counts */

#endif
