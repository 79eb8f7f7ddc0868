/* SPDX-License-Identifier: Apache-2.0
 * Streams: the queue of the runs on each, and what a graph records on them. A run leaves the queue from
 * wherever it stands; the one at its head has the stream, or the first few of a deeper one. */
#include <stdio.h>
#include <string.h>

#include "runtime/sync.h"

enum { MOST_DEPTH = 64 };

/* ---- life ---------------------------------------------------------------------------------------- */

ppto_stream *ppto_stream_create(ppto_context *ctx, const char *name, ppto_stream_kind kind)
{
    pp_error err = {0};
    pp_syncs *syncs = NULL;
    ppto_status status = pp_context_check(ctx, &err);
    if (status == PPTO_OK && (!name || !*name))
        status = pp_fail(&err, PPTO_E_VALUE, "stream: it needs a name");
    if (status == PPTO_OK && kind == PPTO_STREAM_GPU)
        status = pp_fail(&err, PPTO_E_UNSUPPORTED, "stream %.60s: no GPU device is built in", name);
    if (status == PPTO_OK && kind != PPTO_STREAM_CPU && kind != PPTO_STREAM_IO)
        status = pp_fail(&err, PPTO_E_VALUE, "stream %.60s: unknown kind %d", name, (int)kind);
    if (status == PPTO_OK) status = pp_syncs_get(ctx, &syncs, &err);
    ppto_stream *stream = status == PPTO_OK ? pp_calloc(1, sizeof *stream) : NULL;
    if (status == PPTO_OK && (!stream || !(stream->name = pp_strdup(name))))
        status = pp_fail(&err, PPTO_E_NOMEM, "no memory for a stream");
    if (status != PPTO_OK) {
        pp_free(stream);
        pp_report(&err);
        return NULL;
    }
    stream->ctx = ctx;
    stream->kind = kind;
    stream->depth = 1;
    stream->uses = 1;
    pthread_mutex_lock(&syncs->lock);
    stream->next = syncs->streams;
    syncs->streams = stream;
    pthread_mutex_unlock(&syncs->lock);
    return stream;
}

void pp_stream_unuse(ppto_stream *stream)
{
    pp_syncs *syncs = stream->ctx->syncs;
    pthread_mutex_lock(&syncs->lock);
    bool last = --stream->uses == 0;
    ppto_stream **at = &syncs->streams;
    while (last && *at != stream) at = &(*at)->next;
    if (last) *at = stream->next;
    pthread_mutex_unlock(&syncs->lock);
    if (!last) return;
    pp_free(stream->name);
    pp_free(stream);
}

void ppto_stream_destroy(ppto_stream *stream)
{
    pp_error none = {0};
    if (stream && pp_context_check(stream->ctx, &none) == PPTO_OK) pp_stream_unuse(stream);
}

const char *ppto_stream_name(const ppto_stream *stream)
{
    return stream ? stream->name : "";
}

/* ---- the queue ----------------------------------------------------------------------------------- */

bool pp_stream_has(const ppto_stream *stream, const pp_stream_entry *entry)
{
    const pp_stream_entry *at = stream->first;
    for (uint32_t i = 0; i < stream->depth && at; i++, at = at->next)
        if (at == entry) return true;
    return false;
}

/* Those that have the stream go on, if they waited for it. */
static void admit(ppto_stream *stream, pp_told *told)
{
    pp_stream_entry *at = stream->first;
    for (uint32_t i = 0; i < stream->depth && at; i++, at = at->next) {
        pthread_cond_signal(at->woken);
        if (!at->armed) continue;
        at->armed = false;
        at->tell = told->gates;
        told->gates = at;
    }
}

static bool have_left(const ppto_stream *stream, uint64_t entered)
{
    return !stream->first || stream->first->number > entered;
}

void pp_stream_leave(ppto_stream *stream, pp_stream_entry *entry, pp_told *told)
{
    pp_stream_entry **at = &stream->first, *before = NULL;
    if (entry->ended) return;
    bool had = pp_stream_has(stream, entry);
    while (*at != entry) {
        before = *at;
        at = &(*at)->next;
    }
    *at = entry->next;
    if (stream->last == entry) stream->last = before;
    entry->ended = true;
    if (had) admit(stream, told);
    for (pp_stream_caller *caller = stream->callers; caller; caller = caller->next)
        if (have_left(stream, caller->number)) pthread_cond_signal(&caller->woken);
}

static ppto_status of_files(const ppto_stream *stream, const char *what, pp_error *err)
{
    if (!stream) return pp_fail(err, PPTO_E_VALUE, "stream %s: the stream is NULL", what);
    PP_TRY(pp_context_check(stream->ctx, err));
    if (stream->kind == PPTO_STREAM_IO) return PPTO_OK;
    return pp_fail(err, PPTO_E_VALUE, "stream %s: %s is not of kind IO", what, stream->name);
}

ppto_status ppto_stream_set_depth(ppto_stream *stream, int depth)
{
    pp_error err = {0};
    pp_told told = {NULL, NULL};
    if (of_files(stream, "depth", &err) != PPTO_OK) return pp_report(&err);
    if (depth < 1 || depth > MOST_DEPTH)
        return pp_report_new(PPTO_E_VALUE, "stream depth: %d of 1 to %d for %s", depth, MOST_DEPTH,
                             stream->name);
    pthread_mutex_lock(&stream->ctx->syncs->lock);
    stream->depth = (uint32_t)depth;
    admit(stream, &told);
    pthread_mutex_unlock(&stream->ctx->syncs->lock);
    pp_tell(&told);
    return PPTO_OK;
}

ppto_status ppto_stream_set_bytes(ppto_stream *stream, size_t bytes)
{
    pp_error err = {0};
    if (of_files(stream, "bytes", &err) != PPTO_OK) return pp_report(&err);
    if (bytes != 0 && bytes < PP_IO_LEAST_PIECE)
        return pp_report_new(PPTO_E_VALUE, "stream bytes: %zu in flight are too few for %s, at least %d",
                             bytes, stream->name, PP_IO_LEAST_PIECE);
    /* relaxed: a limit, which orders nothing */
    atomic_store_explicit(&stream->share.most, bytes, memory_order_relaxed);
    return PPTO_OK;
}

/* With the lock. */
static void wait_until_left(ppto_stream *stream, pp_stream_caller *caller, pthread_mutex_t *lock)
{
    pp_stream_caller **at = &stream->callers;
    caller->number = stream->entered;
    caller->next = stream->callers;
    stream->callers = caller;
    while (!have_left(stream, caller->number)) pthread_cond_wait(&caller->woken, lock);
    while (*at != caller) at = &(*at)->next;
    *at = caller->next;
}

ppto_status ppto_sync(ppto_stream *stream)
{
    pp_error err = {0};
    if (!stream) return pp_report_new(PPTO_E_VALUE, "sync: the stream is NULL");
    if (pp_dispatch_inside())
        return pp_report_new(PPTO_E_WOULD_DEADLOCK, "sync: from inside a run or a callback");
    if (pp_context_check(stream->ctx, &err) != PPTO_OK) return pp_report(&err);
    pp_syncs *syncs = stream->ctx->syncs;
    pp_stream_caller caller;
    if (pp_condition_init(&caller.woken) != 0) return pp_report_new(PPTO_E_NOMEM, "sync: no lock can be had");
    pthread_mutex_lock(&syncs->lock);
    stream->uses++;
    wait_until_left(stream, &caller, &syncs->lock);
    if (stream->failed != PPTO_OK) pp_fail(&err, stream->failed, "stream %s: %s", stream->name, stream->text);
    stream->failed = PPTO_OK;
    pthread_mutex_unlock(&syncs->lock);
    pthread_cond_destroy(&caller.woken);
    pp_stream_unuse(stream);
    return pp_report(&err);
}

/* ---- recording ----------------------------------------------------------------------------------- */

static ppto_status record_check(ppto_graph *graph, const ppto_stream *stream, const char *what, pp_error *err)
{
    if (!graph) return pp_fail(err, PPTO_E_VALUE, "%s: the graph is NULL", what);
    if (!stream) return pp_fail(err, PPTO_E_VALUE, "%s: the stream is NULL", what);
    if (stream->ctx != graph->ctx)
        return pp_fail(err, PPTO_E_VALUE, "%s: stream %s belongs to another context", what, stream->name);
    PP_TRY(pp_context_check(graph->ctx, err));
    pp_track_end(graph);
    const pp_error *first = pp_graph_error(graph->graph);
    return first->code == PPTO_OK ? PPTO_OK : pp_fail(err, first->code, "%s", first->text);
}

/* The graph's number of a stream; keeps the stream at its first use. 0: out of memory. */
static uint32_t number_of(ppto_graph *graph, ppto_stream *stream)
{
    bool kept = false;
    for (size_t i = 0; i < graph->streams.n && !kept; i++) kept = graph->streams.at[i] == stream;
    if (!kept) {
        if (pp_vec_push(&graph->streams, stream) != PPTO_OK) return 0;
        pthread_mutex_lock(&stream->ctx->syncs->lock);
        stream->uses++;
        pthread_mutex_unlock(&stream->ctx->syncs->lock);
    }
    return pp_graph_stream(graph->graph, stream);
}

static ppto_status record_failed(ppto_graph *graph, ppto_status status, pp_error *err)
{
    if (status == PPTO_OK) return PPTO_OK;
    pp_fail(err, status, "%s", ppto_status_text(status));
    if (graph) pp_tensor_keep_error(graph, err);
    return pp_report(err);
}

ppto_status ppto_stream_push(ppto_graph *graph, ppto_stream *stream)
{
    pp_error err = {0};
    ppto_status status = record_check(graph, stream, "stream push", &err);
    uint32_t number = status == PPTO_OK ? number_of(graph, stream) : 0;
    if (status == PPTO_OK) status = number != 0 ? pp_graph_push_stream(graph->graph, number) : PPTO_E_NOMEM;
    return record_failed(graph, status, &err);
}

ppto_status ppto_stream_pop(ppto_graph *graph)
{
    pp_error err = {0};
    if (!graph) return pp_report_new(PPTO_E_VALUE, "stream pop: the graph is NULL");
    pp_track_end(graph);
    ppto_status status = pp_graph_pop_stream(graph->graph);
    if (status != PPTO_OK) pp_fail(&err, status, "stream pop: no stream is pushed");
    return record_failed(graph, status, &err);
}

/* Keeps the event's row for the graph. */
static ppto_status keep_event(ppto_graph *graph, pp_event_row *row)
{
    PP_TRY(pp_vec_push(&graph->events, row));
    row->uses++;
    return PPTO_OK;
}

ppto_status ppto_event_record_at(ppto_site site, ppto_graph *graph, ppto_stream *stream, ppto_event *event)
{
    pp_error err = {.site = site};
    pp_event_row *row = NULL;
    if (event) *event = (ppto_event){NULL, 0};
    ppto_status status = record_check(graph, stream, "event record", &err);
    if (status == PPTO_OK && !event)
        status = pp_fail(&err, PPTO_E_VALUE, "event record: the place for the event is NULL");
    uint32_t number = status == PPTO_OK ? number_of(graph, stream) : 0;
    if (status == PPTO_OK && number == 0) status = PPTO_E_NOMEM;
    if (status != PPTO_OK) return record_failed(graph, status, &err);
    pp_syncs *syncs = graph->ctx->syncs;
    pthread_mutex_lock(&syncs->lock);
    status = pp_event_new(syncs, false, &row);
    if (status == PPTO_OK) {
        status = keep_event(graph, row);
        if (status != PPTO_OK) {
            row->handles = 0;
            row->uses = 1;
            pp_event_unuse(syncs, row);
        }
    }
    pthread_mutex_unlock(&syncs->lock);
    if (status == PPTO_OK)
        status = pp_graph_sync(graph->graph, PP_SYNC_RECORD, number, pp_event_id(row), site);
    if (status == PPTO_OK)
        *event = (ppto_event){graph->ctx, pp_event_id(row)};
    else if (row)
        ppto_event_release((ppto_event){graph->ctx, pp_event_id(row)});
    return record_failed(graph, status, &err);
}

ppto_status ppto_stream_wait_at(ppto_site site, ppto_graph *graph, ppto_stream *stream, ppto_event event)
{
    pp_error err = {.site = site};
    ppto_status status = record_check(graph, stream, "stream wait", &err);
    if (status == PPTO_OK && event.context != graph->ctx)
        status = pp_fail(&err, PPTO_E_VALUE, "stream wait: the event belongs to another context");
    uint32_t number = status == PPTO_OK ? number_of(graph, stream) : 0;
    if (status == PPTO_OK && number == 0) status = PPTO_E_NOMEM;
    if (status != PPTO_OK) return record_failed(graph, status, &err);
    pp_syncs *syncs = graph->ctx->syncs;
    pthread_mutex_lock(&syncs->lock);
    pp_event_row *row = pp_event_row_of(syncs, event.id, &err);
    status = row ? keep_event(graph, row) : err.code;
    pthread_mutex_unlock(&syncs->lock);
    if (status == PPTO_OK) status = pp_graph_sync(graph->graph, PP_SYNC_WAIT, number, event.id, site);
    return record_failed(graph, status, &err);
}

void pp_graph_streams_free(ppto_graph *graph)
{
    pp_error none = {0};
    bool here = pp_context_check(graph->ctx, &none) == PPTO_OK;
    for (size_t i = 0; here && i < graph->streams.n; i++) pp_stream_unuse(graph->streams.at[i]);
    pp_syncs *syncs = graph->ctx->syncs;
    if (here && graph->events.n != 0) {
        pthread_mutex_lock(&syncs->lock);
        for (size_t i = 0; i < graph->events.n; i++) pp_event_unuse(syncs, graph->events.at[i]);
        pthread_mutex_unlock(&syncs->lock);
    }
    pp_vec_free(&graph->streams);
    pp_vec_free(&graph->events);
}
