/* SPDX-License-Identifier: Apache-2.0
 * A trace as JSON of the Trace Event Format, which Perfetto, chrome://tracing and speedscope open: a process
 * per program, a thread per worker, complete events for tasks, asynchronous ones (b, e) for files since they
 * overlap, flows (s, f) for the edges of the graph, a counter for memory, an instant (i) for a failure. Times
 * are microseconds.
 *
 * source   "Trace Event Format", docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU */
#include <inttypes.h>

#include "runtime/tracing.h"

static double us(int64_t ns)
{
    return (double)ns * 1e-3;
}

static uint32_t pid_of(const pp_trace_view *view, uint32_t lane)
{
    return view->lanes.at[lane].source + 1;
}

static void add_names(const pp_trace_view *view, pp_text *out)
{
    for (uint32_t s = 0; s < view->trace->sources.n; s++) {
        pp_text_add(
            out, ",\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %u, \"args\": {\"name\": ", s + 1);
        pp_text_json(out, view->trace->sources.at[s]->name);
        pp_text_add(out, "}}");
    }
    for (uint32_t i = 0; i < view->lanes.n; i++)
        pp_text_add(out,
                    ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %u, \"tid\": %u, \"args\": "
                    "{\"name\": \"%s\"}},\n{\"name\": \"thread_sort_index\", \"ph\": \"M\", \"pid\": %u, "
                    "\"tid\": %u, \"args\": {\"sort_index\": %u}}",
                    pid_of(view, i), i, view->lanes.at[i].name, pid_of(view, i), i, i);
}

static void begin_event(const pp_trace_view *view, const pp_view_span *span, char phase, pp_text *out)
{
    pp_text_add(out, ",\n{\"name\": ");
    pp_text_json(out, view->steps.at[span->step].s.name);
    pp_text_add(out, ", \"cat\": \"%s\", \"ph\": \"%c\", \"pid\": %u, \"tid\": %u",
                view->steps.at[span->step].s.kind, phase, pid_of(view, span->lane), span->lane);
}

static void add_site(const ppto_site *site, pp_text *out)
{
    char place[PP_SITE_ROOM];
    if (!site->file) return;
    pp_text_add(out, ", \"recorded_at\": ");
    pp_text_json(out, pp_site_text(site, place, sizeof place));
}

static void add_task(const pp_trace_view *view, const pp_view_span *span, pp_text *out)
{
    const pp_trace_event *e = &span->e;
    const pp_trace_step *step = &view->steps.at[span->step].s;
    begin_event(view, span, 'X', out);
    pp_text_add(out, ", \"ts\": %.3f, \"dur\": %.3f, \"args\": {\"run\": %u", us(e->start_ns),
                us(e->end_ns - e->start_ns), e->run);
    if (e->kind == PP_TRACE_RUN && e->failed) pp_text_add(out, ", \"failed\": true");
    if (e->kind == PP_TRACE_TASK) {
        pp_text_add(out, ", \"step\": %u, \"phase\": %u, \"task\": %u", e->step, e->phase, e->task);
        if (step->stream[0]) pp_text_add(out, ", \"stream\": ");
        if (step->stream[0]) pp_text_json(out, step->stream);
        add_site(&step->site, out);
    }
    pp_text_add(out, "}}");
}

static void add_stage(const pp_trace_view *view, const pp_view_span *span, pp_text *out)
{
    const pp_trace_event *e = &span->e;
    const char *cache = pp_trace_cache_name(e);
    begin_event(view, span, 'X', out);
    pp_text_add(out, ", \"ts\": %.3f, \"dur\": %.3f, \"args\": {", us(e->start_ns),
                us(e->end_ns - e->start_ns));
    if (e->step == PP_PLAN_LOWER || e->step == PP_PLAN_KERNEL)
        pp_text_add(out, "\"kernel\": %" PRIu64 "%s", e->more, cache ? ", " : "");
    if (cache) pp_text_add(out, "\"cache\": \"%s\"", cache);
    pp_text_add(out, "}}");
}

/* A moment, marked through all threads of its process. */
static void add_failure(const pp_trace_view *view, const pp_view_span *span, pp_text *out)
{
    begin_event(view, span, 'i', out);
    pp_text_add(out, ", \"ts\": %.3f, \"s\": \"p\", \"args\": {\"run\": %u}}", us(span->e.start_ns),
                span->e.run);
}

static void add_file(const pp_trace_view *view, uint32_t i, pp_text *out)
{
    const pp_view_span *span = &view->spans.at[i];
    const pp_trace_event *e = &span->e;
    begin_event(view, span, 'b', out);
    pp_text_add(out,
                ", \"id\": %u, \"ts\": %.3f, \"args\": {\"bytes\": %" PRIu64 ", \"offset\": %" PRIu64
                ", \"queued_us\": %.3f, \"failed\": %s}}",
                i, us(e->start_ns), e->bytes, e->more, us(e->begun_ns - e->start_ns),
                e->failed ? "true" : "false");
    begin_event(view, span, 'e', out);
    pp_text_add(out, ", \"id\": %u, \"ts\": %.3f}", i, us(e->end_ns));
}

static void add_flow(const pp_trace_view *view, size_t i, pp_text *out)
{
    const pp_view_span *from = &view->spans.at[view->arrows.at[i].from],
                       *to = &view->spans.at[view->arrows.at[i].to];
    pp_text_add(out,
                ",\n{\"name\": \"needs\", \"cat\": \"edge\", \"ph\": \"s\", \"id\": %zu, \"pid\": %u, "
                "\"tid\": %u, \"ts\": %.3f}",
                i, pid_of(view, from->lane), from->lane, us(from->e.start_ns));
    pp_text_add(out,
                ",\n{\"name\": \"needs\", \"cat\": \"edge\", \"ph\": \"f\", \"bp\": \"e\", \"id\": %zu, "
                "\"pid\": %u, \"tid\": %u, \"ts\": %.3f}",
                i, pid_of(view, to->lane), to->lane, us(to->e.start_ns));
}

/* Two counters: viewers pile up the values of one. */
static void add_memory(const pp_view_memory *m, pp_text *out)
{
    static const char *const names[] = {"memory held", "memory used"};
    const uint64_t bytes[] = {m->held_bytes, m->used_bytes};
    for (int i = 0; i < 2; i++)
        pp_text_add(
            out,
            ",\n{\"name\": \"%s\", \"ph\": \"C\", \"pid\": 0, \"ts\": %.3f, \"args\": {\"bytes\": %" PRIu64
            "}}",
            names[i], us(m->ns), bytes[i]);
}

static void add_span(const pp_trace_view *view, uint32_t i, pp_text *out)
{
    const pp_view_span *span = &view->spans.at[i];
    switch ((pp_trace_kind)span->e.kind) {
    case PP_TRACE_READ:
    case PP_TRACE_WRITE: add_file(view, i, out); break;
    case PP_TRACE_STAGE: add_stage(view, span, out); break;
    case PP_TRACE_FAILURE: add_failure(view, span, out); break;
    default: add_task(view, span, out);
    }
}

void pp_trace_chrome(const pp_trace_view *view, pp_text *out)
{
    pp_text_add(
        out,
        "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"schema\": \"ppto-trace/1\", \"runs\": %" PRIu64
        ", \"dropped_events\": %" PRIu64 "},\n\"traceEvents\": [\n"
        "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 0, \"args\": {\"name\": \"memory\"}}",
        view->runs, view->dropped);
    add_names(view, out);
    for (uint32_t i = 0; i < view->spans.n; i++) add_span(view, i, out);
    for (size_t i = 0; i < view->arrows.n; i++) add_flow(view, i, out);
    for (size_t i = 0; i < view->memory.n; i++) add_memory(&view->memory.at[i], out);
    pp_text_add(out, "\n]}\n");
}
