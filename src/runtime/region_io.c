/* SPDX-License-Identifier: Apache-2.0
 * Pieces of files: inputs that stay in their file are read, outputs that go to a file are written, while
 * other pieces are computed. Every such place has DEPTH windows in a ring: piece i lies in window i mod
 * DEPTH. Reads run ahead as far as windows are free; a window is written out behind the piece and taken again
 * when that is done. The thread that runs the pieces is the only one that waits.
 *
 * A failure of a read or write counts for the piece it belongs to, in order; the first one ends the run,
 * unless that keeps going (region_sinks.c, region_input.c). */
#include <string.h>

#include "runtime/async_run.h"
#include "runtime/region_run.h"
#include "runtime/tracing.h"

static pp_archive *archive_of(const pp_region_stream *s)
{
    return s->sink ? s->sink->archive : NULL;
}

static void done(pp_io_request *request)
{
    pp_region_window *w = request->owner;
    pthread_mutex_lock(&w->stream->io->lock);
    w->busy = false;
    pthread_cond_signal(&w->stream->io->changed);
    pthread_mutex_unlock(&w->stream->io->lock);
}

static pp_rows rows_of(pp_region_stream *s, int64_t piece)
{
    pp_region_io *io = s->io;
    int64_t start = piece * io->spans->rows;
    if (s->write) return pp_region_root_rows(io->region, s->of, start, io->spans->rows);
    pp_spans_aim(io->region, io->spans, start, io->ahead);
    return io->ahead[s->of];
}

/* Where in its window the piece lies: around the page cache as in its file, unless its elements would not be
 * in their places. */
static void aim(pp_region_stream *s, pp_region_window *w, int64_t row)
{
    enum { ALIGNED = 64 };
    int64_t at = s->data_at + row * (int64_t)s->row_bytes;
    w->data = w->room;
    if (!s->around || at % ALIGNED != 0) return;
    size_t before = (size_t)((uintptr_t)w->room % PP_IO_BLOCK);
    w->data = (char *)w->room + (before != 0 ? PP_IO_BLOCK - before : 0) + at % PP_IO_BLOCK;
}

static void clear(const pp_region_stream *s, const pp_region_window *w)
{
    memset(w->room, 0, s->bytes);
    if (s->turned) memset(s->turned, 0, s->bytes);
}

/* Of what is read in order the rows that were asked for before are kept, not read again. */
static void submit(pp_region_stream *s, int64_t piece, pp_io_op op)
{
    pp_region_window *w = &s->window[piece % PP_REGION_DEPTH];
    pp_rows rows = w->rows = rows_of(s, piece);
    if (!s->write) aim(s, w, rows.from);
    w->kept = 0;
    if (s->sequence && s->read_to > rows.from)
        w->kept = (s->read_to < rows.to ? s->read_to : rows.to) - rows.from;
    rows.from += w->kept;
    if (s->dead) clear(s, w);
    if (rows.from == rows.to || s->dead) return; /* this piece needs none, or gets none */
    if (s->read_to < rows.to) s->read_to = rows.to;
    w->request = (pp_io_request){.op = op,
                                 .file = &s->file,
                                 .offset = s->data_at + rows.from * (int64_t)s->row_bytes,
                                 .data = (char *)w->data + (size_t)w->kept * s->row_bytes,
                                 .bytes = (size_t)(rows.to - rows.from) * s->row_bytes,
                                 .share = s->share,
                                 .done = done,
                                 .owner = w};
    if (s->turns) { /* columns, of which the window has the rows */
        size_t size = ppto_dtype_size(s->info->dtype);
        w->request.offset = s->data_at + rows.from * (int64_t)size;
        w->request.stretch = (size_t)(rows.to - rows.from) * size;
        w->request.stride = s->info->shape[0] * (int64_t)size;
    }
    w->busy = true;
    w->used = true;
    if (s->sequence)
        pp_sequence_submit(s->sequence, &w->request);
    else if (archive_of(s))
        pp_archive_submit(archive_of(s), &w->request);
    else
        pp_io_submit(s->io->engine, &w->request);
}

/* control: NULL when the run is to stop already. */
static ppto_status wait_done(pp_region_stream *s, const pp_region_window *w, const pp_run_control *control)
{
    ppto_status stopped = PPTO_OK;
    pthread_mutex_lock(&s->io->lock);
    while (w->busy && stopped == PPTO_OK) {
        (void)pp_condition_wait(&s->io->changed, &s->io->lock, control ? pp_run_look_again(control) : 0);
        if (w->busy && control) stopped = pp_run_stopped(control, s->io->err);
    }
    pthread_mutex_unlock(&s->io->lock);
    return stopped;
}

static ppto_status wait(pp_region_stream *s, pp_region_window *w, const pp_run_control *control)
{
    pp_error why = {0};
    if (!w->used) return PPTO_OK;
    PP_TRY(wait_done(s, w, control));
    w->used = false;
    if (s->io->source) pp_tracing_request(s->io->source, s->path, &w->request);
    ppto_status status = s->sequence     ? pp_sequence_result(s->sequence, &w->request, &why)
                         : archive_of(s) ? pp_archive_result(archive_of(s), &w->request, &why)
                                         : pp_io_result(&w->request, &why);
    if (status == PPTO_OK) {
        atomic_fetch_add_explicit(s->io->moved, w->request.bytes, memory_order_relaxed); /* to be shown */
        if (!s->write)
            pp_npy_put_right(s->info, w->request.data, w->request.bytes / ppto_dtype_size(s->info->dtype));
        if (s->turns && s->turned)
            pp_npy_turn(s->info, w->request.stretch / ppto_dtype_size(s->info->dtype), w->data, s->turned);
        return status;
    }
    if (s->sink) return pp_region_sink_fails(s->io->run, s->sink, status, &why);
    pp_error named = {0};
    (void)pp_fail_of_file(&named, status, s->path, &why);
    PP_TRY(pp_region_input_fails(s->io->run, s->io->region->places.at[s->place].number, status, &named));
    s->dead = true;
    clear(s, w);
    return PPTO_OK;
}

ppto_status pp_region_io_before(pp_region_io *io, int64_t piece)
{
    for (size_t k = 0; k < io->n_streams; k++) {
        pp_region_stream *s = &io->streams[k];
        for (; !s->write && s->next < io->pieces && s->next < piece + PP_REGION_DEPTH; s->next++)
            submit(s, s->next, PP_IO_READ);
        pp_region_window *w = &s->window[piece % PP_REGION_DEPTH];
        PP_TRY(wait(s, w, io->control));
        if (s->write) aim(s, w, rows_of(s, piece).from);
    }
    return PPTO_OK;
}

/* Rows that the next piece keeps go to its window before this one's is read anew. */
static void hand_on(pp_region_stream *s, int64_t piece)
{
    const pp_region_window *w = &s->window[piece % PP_REGION_DEPTH];
    pp_region_window *next = &s->window[(piece + 1) % PP_REGION_DEPTH];
    if (piece + 1 >= s->io->pieces || next->kept == 0) return;
    memcpy(next->data, (char *)w->data + (size_t)(next->rows.from - w->rows.from) * s->row_bytes,
           (size_t)next->kept * s->row_bytes);
}

void pp_region_io_after(pp_region_io *io, int64_t piece)
{
    for (size_t k = 0; k < io->n_streams; k++) {
        pp_region_stream *s = &io->streams[k];
        if (s->write) {
            if (!s->sink->lost) submit(s, piece, PP_IO_WRITE);
            continue;
        }
        hand_on(s, piece);
        if (s->next < io->pieces)
            submit(s, s->next++, PP_IO_READ); /* the window of this piece is free again */
    }
}

void *pp_region_io_data(const pp_region_io *io, uint32_t place, uint32_t span, int64_t piece)
{
    for (size_t k = 0; k < io->n_streams; k++)
        if (io->streams[k].place == place && (io->streams[k].write || io->streams[k].of == span))
            return io->streams[k].turns ? io->streams[k].turned
                                        : io->streams[k].window[piece % PP_REGION_DEPTH].data;
    return NULL;
}

/* ---- opening and closing ------------------------------------------------------------------------------- */

ppto_status pp_region_io_open(pp_region_io *io, pp_io *engine, const pp_region *region, const pp_spans *spans,
                              size_t most_streams, _Atomic uint64_t *moved, pp_error *err)
{
    *io = (pp_region_io){.engine = engine, .region = region, .spans = spans, .moved = moved, .err = err};
    io->pieces = pp_region_pieces(spans);
    io->streams = pp_calloc(most_streams + 1, sizeof *io->streams);
    io->ahead = pp_calloc(spans->at.n + 1, sizeof *io->ahead);
    if (!io->streams || !io->ahead) {
        pp_free(io->streams);
        pp_free(io->ahead);
        return PPTO_E_NOMEM;
    }
    if (pthread_mutex_init(&io->lock, NULL) == 0) {
        if (pp_condition_init(&io->changed) == 0) {
            io->open = true;
            return PPTO_OK;
        }
        pthread_mutex_destroy(&io->lock);
    }
    pp_free(io->streams);
    pp_free(io->ahead);
    return pp_fail(err, PPTO_E_LIMIT, "no lock can be had");
}

ppto_status pp_region_io_add(pp_region_io *io, pp_pool *pool, const pp_region_stream *stream)
{
    pp_region_stream *s = &io->streams[io->n_streams++];
    *s = *stream;
    s->io = io;
    const pp_tag tag = {.kind = PP_BLOCK_WINDOW,
                        .operator_name = s->write ? "write" : "read",
                        .site = {.file = s->path},
                        .dtype = ppto_dtype_name((ppto_dtype)s->dtype),
                        .hold = PP_HOLD_IO};
    for (int i = s->turns ? -1 : 0; i < PP_REGION_DEPTH && i < io->pieces; i++) {
        if (i >= 0) s->window[i].stream = s;
        void **room = i < 0 ? &s->turned : &s->window[i].room;
        ppto_status status = pp_pool_take_as(pool, s->bytes, &tag, room, io->err);
        if (status != PPTO_OK)
            return pp_fail(io->err, status, "no memory for a window of %zu bytes", s->bytes);
    }
    return PPTO_OK;
}

static void cancel(pp_region_stream *s, pp_region_window *w)
{
    if (s->sequence)
        pp_sequence_stop(s->sequence);
    else if (archive_of(s))
        pp_archive_stop(archive_of(s));
    else
        pp_io_cancel(s->io->engine, &w->request);
}

/* Waits for the window as long as the run goes on; what is under way when it ends early is cancelled. */
static ppto_status leave(pp_region_stream *s, pp_region_window *w, ppto_status status)
{
    if (status == PPTO_OK) status = wait(s, w, s->io->control);
    if (!w->used) return status;
    cancel(s, w);
    (void)wait(s, w, NULL);
    return status;
}

ppto_status pp_region_io_close(pp_region_io *io, pp_pool *pool, ppto_status status)
{
    if (!io->open) return status;
    for (size_t k = 0; k < io->n_streams; k++) {
        pp_region_stream *s = &io->streams[k];
        for (int i = 0; i < PP_REGION_DEPTH; i++) {
            pp_region_window *w = &s->window[i];
            status = leave(s, w, status);
            if (w->room) pp_pool_give(pool, w->room, s->bytes);
        }
        if (s->turned) pp_pool_give(pool, s->turned, s->bytes);
        pp_sequence_close(s->sequence);
        pp_io_file_let_go(&s->file);
        if (s->owned) pp_reader_close(&s->reader);
    }
    pp_free(io->streams);
    pp_free(io->ahead);
    pthread_cond_destroy(&io->changed);
    pthread_mutex_destroy(&io->lock);
    io->open = false;
    return status;
}
