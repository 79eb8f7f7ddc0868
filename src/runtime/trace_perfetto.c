/* SPDX-License-Identifier: Apache-2.0
 * A trace as a Perfetto protobuf: TracePackets with track descriptors, then begins, ends and counter values
 * in the order of time, names interned. The few messages are written by hand: a field is a tag (number << 3 |
 * wire type) and a varint, eight bytes, or a length and bytes.
 *
 * source   wire format: protobuf.dev/programming-guides/encoding
 *          numbers of fields: protos/perfetto/trace/{trace_packet, interned_data/interned_data,
 *          track_event/{track_event, track_descriptor, counter_descriptor, process_descriptor,
 *          debug_annotation}}.proto of github.com/google/perfetto */
#include <stdlib.h>
#include <string.h>

#include "runtime/tracing.h"

enum { /* field numbers */
       TRACE_PACKET = 1,
       PACKET_TIMESTAMP = 8,
       PACKET_SEQUENCE = 10, /* trusted_packet_sequence_id */
       PACKET_EVENT = 11,
       PACKET_INTERNED = 12,
       PACKET_FLAGS = 13,
       PACKET_TRACK = 60,
       INTERNED_NAME = 2,
       INTERNED_ANNOTATION = 3,
       ENTRY_IID = 1,
       ENTRY_NAME = 2,
       TRACK_UUID = 1,
       TRACK_NAME = 2,
       TRACK_PROCESS = 3,
       TRACK_PARENT = 5,
       TRACK_COUNTER = 8,
       PROCESS_PID = 1,
       PROCESS_NAME = 6,
       COUNTER_UNIT = 3,
       EVENT_ANNOTATION = 4,
       EVENT_TYPE = 9,
       EVENT_NAME_IID = 10,
       EVENT_TRACK = 11,
       EVENT_CATEGORY = 22,
       EVENT_COUNTER = 30,
       EVENT_FLOW = 47,
       EVENT_FLOW_END = 48,
       ANNOTATION_NAME_IID = 1,
       ANNOTATION_UINT = 3,
       ANNOTATION_STRING = 6
};
enum { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3, COUNTER = 4, UNIT_SIZE_BYTES = 3 };
enum { STATE_CLEARED = 1, NEEDS_STATE = 2, SEQUENCE = 1 };
enum { HELD_UUID = 1, USED_UUID = 2, SOURCE_UUID = 1000, LANE_UUID = 1000000 };

/* Names of annotations, interned by their place + 1. */
static const char *const annotations[] = {"run",    "plan step",   "phase",       "task",  "bytes",
                                          "offset", "recorded at", "queued (ns)", "kernel"};
enum { A_RUN = 1, A_STEP, A_PHASE, A_TASK, A_BYTES, A_OFFSET, A_SITE, A_QUEUED, A_KERNEL, A_END };

/* ---- the wire ----------------------------------------------------------------------------------------- */

static void put_varint(pp_text *out, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    do {
        bytes[n++] = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        value >>= 7;
    } while (value != 0);
    pp_text_raw(out, bytes, n);
}

static void put_number(pp_text *out, uint32_t field, uint64_t value)
{
    put_varint(out, (uint64_t)field << 3);
    put_varint(out, value);
}

static void put_fixed(pp_text *out, uint32_t field, uint64_t value)
{
    uint8_t bytes[8];
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)(value >> (8 * i));
    put_varint(out, (uint64_t)field << 3 | 1);
    pp_text_raw(out, bytes, sizeof bytes);
}

static void put_bytes(pp_text *out, uint32_t field, const void *bytes, size_t n)
{
    put_varint(out, (uint64_t)field << 3 | 2);
    put_varint(out, n);
    if (n != 0) pp_text_raw(out, bytes, n);
}

static void put_string(pp_text *out, uint32_t field, const char *text)
{
    pp_text whole = {0};
    if (pp_text_is_utf8(text)) {
        put_bytes(out, field, text, strlen(text));
        return;
    }
    pp_text_utf8(&whole, text); /* protobuf wants it; names of files may be anything */
    put_bytes(out, field, whole.at != NULL ? whole.at : "", whole.n);
    out->failed |= whole.failed;
    pp_text_free(&whole);
}

/* Appends the message and empties it: its room is used again. */
static void put_message(pp_text *out, uint32_t field, pp_text *message)
{
    put_bytes(out, field, message->at, message->n);
    out->failed |= message->failed;
    message->n = 0;
}

/* ---- packets ------------------------------------------------------------------------------------------- */

typedef struct writer {
    const pp_trace_view *view;
    pp_text *out, packet, event, small; /* messages being made: outer, inner, innermost */
} writer;

static void end_packet(writer *w)
{
    put_number(&w->packet, PACKET_SEQUENCE, SEQUENCE);
    put_message(w->out, TRACE_PACKET, &w->packet);
}

static void put_track(writer *w, uint64_t uuid, uint64_t parent, const char *name)
{
    put_number(&w->event, TRACK_UUID, uuid);
    put_number(&w->event, TRACK_PARENT, parent);
    put_string(&w->event, TRACK_NAME, name);
}

static void end_track(writer *w)
{
    put_message(&w->packet, PACKET_TRACK, &w->event);
    end_packet(w);
}

static void put_tracks(writer *w)
{
    const pp_trace_view *view = w->view;
    for (uint32_t s = 0; s < view->trace->sources.n; s++) {
        put_number(&w->event, TRACK_UUID, (uint64_t)SOURCE_UUID + s);
        put_number(&w->small, PROCESS_PID, s + 1);
        put_string(&w->small, PROCESS_NAME, view->trace->sources.at[s]->name);
        put_message(&w->event, TRACK_PROCESS, &w->small);
        end_track(w);
    }
    for (uint32_t i = 0; i < view->lanes.n; i++) {
        put_track(w, (uint64_t)LANE_UUID + i, (uint64_t)SOURCE_UUID + view->lanes.at[i].source,
                  view->lanes.at[i].name);
        end_track(w);
    }
    for (uint64_t uuid = HELD_UUID; uuid <= USED_UUID; uuid++) {
        put_track(w, uuid, 0, uuid == HELD_UUID ? "memory held" : "memory used");
        put_number(&w->small, COUNTER_UNIT, UNIT_SIZE_BYTES);
        put_message(&w->event, TRACK_COUNTER, &w->small);
        end_track(w);
    }
}

static void put_entry(writer *w, uint32_t field, uint64_t iid, const char *name)
{
    put_number(&w->small, ENTRY_IID, iid);
    put_string(&w->small, ENTRY_NAME, name);
    put_message(&w->event, field, &w->small);
}

static void put_names(writer *w)
{
    for (uint32_t i = 0; i < w->view->steps.n; i++)
        put_entry(w, INTERNED_NAME, (uint64_t)i + 1, w->view->steps.at[i].s.name);
    for (uint64_t i = 1; i < A_END; i++) put_entry(w, INTERNED_ANNOTATION, i, annotations[i - 1]);
    put_number(&w->packet, PACKET_FLAGS, STATE_CLEARED);
    put_message(&w->packet, PACKET_INTERNED, &w->event);
    end_packet(w);
}

static void annotate(writer *w, uint64_t name, uint64_t value)
{
    put_number(&w->small, ANNOTATION_NAME_IID, name);
    put_number(&w->small, ANNOTATION_UINT, value);
    put_message(&w->event, EVENT_ANNOTATION, &w->small);
}

static void annotate_site(writer *w, const ppto_site *site)
{
    char place[PP_SITE_ROOM];
    if (!site->file) return;
    put_number(&w->small, ANNOTATION_NAME_IID, A_SITE);
    put_string(&w->small, ANNOTATION_STRING, pp_site_text(site, place, sizeof place));
    put_message(&w->event, EVENT_ANNOTATION, &w->small);
}

static void annotate_span(writer *w, const pp_view_span *span)
{
    const pp_trace_event *e = &span->e;
    if (e->kind == PP_TRACE_READ || e->kind == PP_TRACE_WRITE) {
        annotate(w, A_BYTES, e->bytes);
        annotate(w, A_OFFSET, e->more);
        annotate(w, A_QUEUED, (uint64_t)(e->begun_ns - e->start_ns));
        return;
    }
    if (e->kind == PP_TRACE_STAGE) {
        if (e->step == PP_PLAN_LOWER || e->step == PP_PLAN_KERNEL) annotate(w, A_KERNEL, e->more);
        return;
    }
    annotate(w, A_RUN, e->run);
    if (e->kind != PP_TRACE_TASK) return;
    annotate(w, A_STEP, e->step);
    annotate(w, A_PHASE, e->phase);
    annotate(w, A_TASK, e->task);
    annotate_site(w, &w->view->steps.at[span->step].s.site);
}

static void begin_event(writer *w, int64_t ns, uint64_t type, uint64_t track)
{
    put_number(&w->packet, PACKET_TIMESTAMP, ns > 0 ? (uint64_t)ns : 0);
    put_number(&w->packet, PACKET_FLAGS, NEEDS_STATE);
    put_number(&w->event, EVENT_TYPE, type);
    put_number(&w->event, EVENT_TRACK, track);
}

static void end_event(writer *w)
{
    put_message(&w->packet, PACKET_EVENT, &w->event);
    end_packet(w);
}

/* ---- the order of time -----------------------------------------------------------------------------------
 */

typedef struct moment {
    int64_t ns;
    uint32_t kind; /* at one time: ends first, then memory, then begins and instants */
    uint32_t index;
    int64_t length; /* of a span: at one time the longer begins first and ends last */
} moment;

enum { AT_END, AT_MEMORY, AT_INSTANT, AT_BEGIN };

static int by_moment(const void *left, const void *right)
{
    const moment *a = left, *b = right;
    if (a->ns != b->ns) return a->ns < b->ns ? -1 : 1;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    int64_t la = a->kind == AT_BEGIN ? -a->length : a->length,
            lb = b->kind == AT_BEGIN ? -b->length : b->length;
    if (la != lb) return la < lb ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* A span of no length would end before it begins: it gets a nanosecond. */
static size_t list_moments(const pp_trace_view *view, moment *moments)
{
    size_t n = 0;
    for (uint32_t i = 0; i < view->spans.n; i++) {
        const pp_trace_event *e = &view->spans.at[i].e;
        int64_t length = e->end_ns > e->start_ns ? e->end_ns - e->start_ns : 1;
        if (e->kind == PP_TRACE_FAILURE) {
            moments[n++] = (moment){e->start_ns, AT_INSTANT, i, 0};
            continue;
        }
        moments[n++] = (moment){e->start_ns, AT_BEGIN, i, length};
        moments[n++] = (moment){e->start_ns + length, AT_END, i, length};
    }
    for (uint32_t i = 0; i < view->memory.n; i++)
        moments[n++] = (moment){view->memory.at[i].ns, AT_MEMORY, i, 0};
    qsort(moments, n, sizeof *moments, by_moment);
    return n;
}

/* Arrows by the span they leave (or enter): a list through `next`, PP_NONE ends it. */
typedef struct arrows_of {
    uint32_t *first_from, *first_to; /* per span */
    uint32_t *next_from, *next_to;   /* per arrow */
} arrows_of;

static bool link_arrows(const pp_trace_view *view, arrows_of *a)
{
    size_t spans = view->spans.n, n = view->arrows.n;
    uint32_t *room = pp_alloc((2 * spans + 2 * n + 1) * sizeof *room);
    *a = (arrows_of){room, room ? room + spans : NULL, room ? room + 2 * spans : NULL,
                     room ? room + 2 * spans + n : NULL};
    if (!room) return false;
    memset(room, 0xff, 2 * spans * sizeof *room);
    for (size_t i = n; i-- > 0;) {
        const pp_view_arrow *arrow = &view->arrows.at[i];
        a->next_from[i] = a->first_from[arrow->from];
        a->first_from[arrow->from] = (uint32_t)i;
        a->next_to[i] = a->first_to[arrow->to];
        a->first_to[arrow->to] = (uint32_t)i;
    }
    return true;
}

static void put_begin(writer *w, const arrows_of *arrows, uint32_t i)
{
    const pp_view_span *span = &w->view->spans.at[i];
    uint64_t type = span->e.kind == PP_TRACE_FAILURE ? INSTANT : SLICE_BEGIN;
    begin_event(w, span->e.start_ns, type, (uint64_t)LANE_UUID + span->lane);
    put_number(&w->event, EVENT_NAME_IID, (uint64_t)span->step + 1);
    put_string(&w->event, EVENT_CATEGORY, w->view->steps.at[span->step].s.kind);
    for (uint32_t k = arrows->first_from[i]; k != PP_NONE; k = arrows->next_from[k])
        put_fixed(&w->event, EVENT_FLOW, (uint64_t)k + 1);
    for (uint32_t k = arrows->first_to[i]; k != PP_NONE; k = arrows->next_to[k])
        put_fixed(&w->event, EVENT_FLOW_END, (uint64_t)k + 1);
    annotate_span(w, span);
    end_event(w);
}

static void put_moment(writer *w, const arrows_of *arrows, const moment *m)
{
    if (m->kind == AT_BEGIN || m->kind == AT_INSTANT) {
        put_begin(w, arrows, m->index);
    } else if (m->kind == AT_END) {
        begin_event(w, m->ns, SLICE_END, (uint64_t)LANE_UUID + w->view->spans.at[m->index].lane);
        end_event(w);
    } else {
        const pp_view_memory *memory = &w->view->memory.at[m->index];
        begin_event(w, m->ns, COUNTER, HELD_UUID);
        put_number(&w->event, EVENT_COUNTER, memory->held_bytes);
        end_event(w);
        begin_event(w, m->ns, COUNTER, USED_UUID);
        put_number(&w->event, EVENT_COUNTER, memory->used_bytes);
        end_event(w);
    }
}

void pp_trace_perfetto(const pp_trace_view *view, pp_text *out)
{
    writer w = {.view = view, .out = out};
    arrows_of arrows;
    moment *moments = pp_calloc(2 * view->spans.n + view->memory.n + 1, sizeof *moments);
    if (link_arrows(view, &arrows) && moments) {
        put_names(&w);
        put_tracks(&w);
        size_t n = list_moments(view, moments);
        for (size_t i = 0; i < n; i++) put_moment(&w, &arrows, &moments[i]);
    } else {
        out->failed = true;
    }
    pp_free(arrows.first_from);
    pp_free(moments);
    pp_text_free(&w.packet);
    pp_text_free(&w.event);
    pp_text_free(&w.small);
}
