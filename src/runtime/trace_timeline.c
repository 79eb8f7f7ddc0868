/* SPDX-License-Identifier: Apache-2.0
 * A trace as one picture: a row for every lane, bars coloured by what ran, the memory of the pool as a curve
 * below on the same axis of time, and a legend by total time. Every bar has a tooltip. Bars too narrow to be
 * seen alone are drawn as one, so that the picture stays small however long the trace is. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/svg.h"
#include "runtime/tracing.h"

enum {
    WIDTH = 1200,
    LEFT = 150, /* names of rows */
    RIGHT = 24,
    TOP = 64,
    ROW = 26,
    BAR = 20,
    SOURCE = 24, /* a program's name */
    AXIS = 30,
    CURVE = 120,
    LEGEND_ROW = 20,
    MOST_LEGEND = 24
};

typedef struct picture {
    const pp_trace_view *view;
    pp_text *out;
    int64_t from_ns, to_ns;
    double y; /* of the next row */
} picture;

static double x_of(const picture *p, int64_t ns)
{
    if (ns < p->from_ns) ns = p->from_ns;
    if (ns > p->to_ns) ns = p->to_ns;
    double part = (double)(ns - p->from_ns) / (double)(p->to_ns - p->from_ns);
    return LEFT + part * (WIDTH - LEFT - RIGHT);
}

/* ---- bars -------------------------------------------------------------------------------------------- */

typedef struct bar { /* one span, or several that are too narrow to be told apart */
    const pp_view_span *span;
    double x1, x2;
    uint32_t spans;
    int64_t busy_ns;
} bar;

static void tell_bytes(const pp_view_span *span, pp_text *tip)
{
    const pp_trace_event *e = &span->e;
    pp_text_bytes(tip, e->bytes);
    pp_text_add(tip, " at offset %" PRIu64 "%s", e->more, e->failed ? ", failed" : "");
    if (e->begun_ns <= e->start_ns) return;
    pp_text_add(tip, ", queued for ");
    pp_text_time(tip, e->begun_ns - e->start_ns);
}

static void tell_task(const picture *p, const pp_view_span *span, pp_text *tip)
{
    char place[PP_SITE_ROOM];
    const pp_trace_step *step = &p->view->steps.at[span->step].s;
    pp_text_add(tip, "run %u, step %u, phase %u, task %u", span->e.run, span->e.step, span->e.phase,
                span->e.task);
    if (step->stream[0]) pp_text_add(tip, "\nstream %s", step->stream);
    if (step->reads_bytes + step->writes_bytes != 0) {
        pp_text_add(tip, "\nthe kernel reads ");
        pp_text_bytes(tip, step->reads_bytes);
        pp_text_add(tip, " and writes ");
        pp_text_bytes(tip, step->writes_bytes);
    }
    if (step->site.file) pp_text_add(tip, "\nrecorded at %s", pp_site_text(&step->site, place, sizeof place));
}

static void tell_stage(const pp_view_span *span, pp_text *tip)
{
    bool kernel = span->e.step == PP_PLAN_LOWER || span->e.step == PP_PLAN_KERNEL;
    if (kernel) pp_text_add(tip, "kernel %" PRIu64, span->e.more);
}

static void make_tip(const picture *p, const bar *b, pp_text *tip)
{
    const pp_view_span *span = b->span;
    pp_text_add(tip, "%s (%s)\n", p->view->steps.at[span->step].s.name, p->view->steps.at[span->step].s.kind);
    if (b->spans > 1) {
        pp_text_add(tip, "%u bars, together ", b->spans);
        pp_text_time(tip, b->busy_ns);
    } else {
        pp_text_time(tip, b->busy_ns);
    }
    pp_text_add(tip, " from ");
    pp_text_time(tip, span->e.start_ns - p->from_ns);
    if (b->spans > 1) return;
    pp_text_add(tip, "\n");
    if (span->e.kind == PP_TRACE_READ || span->e.kind == PP_TRACE_WRITE)
        tell_bytes(span, tip);
    else if (span->e.kind == PP_TRACE_TASK)
        tell_task(p, span, tip);
    else if (span->e.kind == PP_TRACE_STAGE)
        tell_stage(span, tip);
    else
        pp_text_add(tip, "run %u%s", span->e.run, span->e.failed ? ", failed" : "");
}

/* What others lie within: it is grey, and no part of the sums. */
static bool is_outer(const pp_view_span *span)
{
    return span->e.kind == PP_TRACE_RUN ||
           (span->e.kind == PP_TRACE_STAGE && span->e.step == PP_PLAN_COMPILE);
}

static void draw_bar(const picture *p, const bar *b)
{
    if (!b->span) return;
    const pp_view_step *step = &p->view->steps.at[b->span->step];
    bool outer = is_outer(b->span), piece = b->span->e.kind == PP_TRACE_RUN && b->span->e.task != 0;
    double inset = piece ? 5 : 0, width = b->x2 - b->x1;
    pp_text tip = {0};
    make_tip(p, b, &tip);
    if (width > 3) width -= 0.6; /* neighbours are told apart */
    if (width < 0.6) width = 0.6;
    pp_svg_box(p->out, b->x1, p->y + (ROW - BAR) / 2.0 + inset, width, BAR - 2 * inset, width > 4 ? 2 : 0,
               !outer  ? pp_svg_colour(step->colour)
               : piece ? "#9aa5b1"
                       : "#d7dce2",
               tip.at);
    if (tip.failed) p->out->failed = true;
    pp_text_free(&tip);
    if (!piece && b->spans == 1)
        pp_svg_text_in(p->out, b->x1 + 4, p->y + ROW / 2.0 + 4, width - 8, PP_SVG_INSIDE, step->s.name);
}

/* Would nobody see a gap or another colour between them? */
static bool melts(const bar *b, const pp_view_span *span, double x1, double x2)
{
    if (!b->span) return false;
    if (x2 - b->x2 < 0.25) return true;
    return b->span->step == span->step && x1 - b->x2 < 0.4 && (b->x2 - b->x1 < 2 || x2 - x1 < 2);
}

static void draw_lane(picture *p, uint32_t lane, size_t *at)
{
    const pp_trace_view *view = p->view;
    bar b = {0};
    pp_svg_text(p->out, LEFT - 10, p->y + ROW / 2.0 + 4, PP_SVG_PLAIN, PP_SVG_END, view->lanes.at[lane].name);
    for (; *at < view->spans.n && view->spans.at[*at].lane == lane; ++*at) {
        const pp_view_span *span = &view->spans.at[*at];
        double x1 = x_of(p, span->e.start_ns), x2 = x_of(p, span->e.end_ns);
        int64_t ns = span->e.end_ns - span->e.start_ns;
        bool within = b.span && is_outer(b.span) && x2 <= b.x2 && x2 - x1 > 0.25;
        if (span->e.kind == PP_TRACE_FAILURE) continue;
        if (!within && melts(&b, span, x1, x2)) {
            b.spans++;
            b.busy_ns += ns;
            if (x2 > b.x2) b.x2 = x2;
            continue;
        }
        draw_bar(p, &b);
        b = (bar){span, x1, x2, 1, ns};
    }
    draw_bar(p, &b);
    p->y += ROW;
}

static void draw_lanes(picture *p)
{
    const pp_trace_view *view = p->view;
    size_t at = 0;
    for (uint32_t lane = 0; lane < view->lanes.n; lane++) {
        uint32_t source = view->lanes.at[lane].source;
        if (lane == 0 || source != view->lanes.at[lane - 1].source) {
            pp_svg_text(p->out, 16, p->y + 16, PP_SVG_BOLD, PP_SVG_START,
                        view->trace->sources.at[source]->name);
            p->y += SOURCE;
        }
        draw_lane(p, lane, &at);
    }
}

/* A dashed line through all rows at each failure, and why above it where there is room. */
static void draw_failures(const picture *p, double top, double bottom)
{
    double free_from = 0;
    for (size_t i = 0; i < p->view->spans.n; i++) {
        const pp_view_span *span = &p->view->spans.at[i];
        const char *why = p->view->steps.at[span->step].s.name;
        char line[200];
        if (span->e.kind != PP_TRACE_FAILURE) continue;
        double x = x_of(p, span->e.start_ns);
        pp_svg_mark(p->out, x, top, x, bottom, why);
        snprintf(line, sizeof line, "run %u: %.*s", span->e.run, (int)strcspn(why, "\n"), why);
        double width = pp_svg_text_width(PP_SVG_WARN, line);
        double from = x + width > WIDTH - RIGHT ? WIDTH - RIGHT - width : x;
        if (from < LEFT) from = LEFT;
        if (from < free_from) continue;
        pp_svg_text_in(p->out, from, top - 4, WIDTH - RIGHT - from, PP_SVG_WARN, line);
        free_from = from + width + 12;
    }
}

/* ---- axis and memory ----------------------------------------------------------------------------------- */

static void draw_axis(const picture *p, double top, double bottom)
{
    double range = (double)(p->to_ns - p->from_ns), tick = pp_svg_tick(range, 10);
    for (double ns = 0; ns <= range; ns += tick) {
        pp_text text = {0};
        double x = x_of(p, p->from_ns + (int64_t)ns);
        pp_svg_rule(p->out, x, top, x, bottom);
        if (ns == 0)
            pp_text_add(&text, "0");
        else
            pp_text_time(&text, (int64_t)ns);
        pp_svg_text(p->out, x, bottom + 14, PP_SVG_SMALL, PP_SVG_MIDDLE, text.at ? text.at : "");
        pp_text_free(&text);
    }
}

static uint64_t most_memory(const picture *p)
{
    uint64_t most = 0;
    for (size_t i = 0; i < p->view->memory.n; i++)
        if (p->view->memory.at[i].held_bytes > most) most = p->view->memory.at[i].held_bytes;
    return most;
}

/* The curve as steps, one point a pixel: the most of it. */
static void draw_curve(const picture *p, bool held, double top, uint64_t most, const char *style)
{
    const pp_trace_view *view = p->view;
    double bottom = top + CURVE, x_before = LEFT, y_before = bottom;
    pp_text_add(p->out, "<path %s d=\"M%.1f %.1f", style, x_before, bottom);
    for (size_t i = 0; i < view->memory.n;) {
        double x = x_of(p, view->memory.at[i].ns);
        uint64_t bytes = 0, last = 0;
        for (; i < view->memory.n && x_of(p, view->memory.at[i].ns) < x + 0.5; i++) {
            last = held ? view->memory.at[i].held_bytes : view->memory.at[i].used_bytes;
            if (last > bytes) bytes = last;
        }
        double high = bottom - CURVE * (double)bytes / (double)most;
        y_before = bottom - CURVE * (double)last / (double)most;
        pp_text_add(p->out, "H%.1fV%.1fV%.1f", x, high, y_before);
    }
    pp_text_add(p->out, "H%dV%.1fZ\"/>\n", WIDTH - RIGHT, bottom);
}

static void draw_memory(picture *p)
{
    uint64_t most = most_memory(p);
    pp_text text = {0};
    double top = p->y + 8;
    pp_text_bytes(&text, most);
    pp_svg_text(p->out, LEFT - 10, top + 8, PP_SVG_SMALL, PP_SVG_END, text.at ? text.at : "");
    pp_svg_text(p->out, LEFT - 10, top + 60, PP_SVG_PLAIN, PP_SVG_END, "memory");
    pp_svg_text(p->out, LEFT - 10, top + 74, PP_SVG_SMALL, PP_SVG_END, "held by the pool, light;");
    pp_svg_text(p->out, LEFT - 10, top + 87, PP_SVG_SMALL, PP_SVG_END, "used by tensors, dark");
    pp_svg_text(p->out, LEFT - 10, top + CURVE, PP_SVG_SMALL, PP_SVG_END, "0");
    if (most == 0) most = 1;
    draw_curve(p, true, top, most, "fill=\"#7cb5ec\" fill-opacity=\"0.35\"");
    draw_curve(p, false, top, most, "fill=\"#3b82c4\" fill-opacity=\"0.75\"");
    pp_svg_rule(p->out, LEFT, top, WIDTH - RIGHT, top);
    pp_svg_rule(p->out, LEFT, top + CURVE, WIDTH - RIGHT, top + CURVE);
    pp_text_free(&text);
    p->y = top + CURVE;
}

/* ---- legend, title ------------------------------------------------------------------------------------- */

typedef struct share {
    uint32_t step;
    int64_t ns;
} share;

static int by_time(const void *left, const void *right)
{
    const share *a = left, *b = right;
    if (a->ns != b->ns) return a->ns > b->ns ? -1 : 1;
    return a->step < b->step ? -1 : a->step > b->step;
}

static bool is_in_legend(const pp_view_span *span)
{
    return !is_outer(span) && span->e.kind != PP_TRACE_FAILURE;
}

static size_t sum_shares(const picture *p, share *shares)
{
    size_t n = 0;
    for (uint32_t i = 0; i < p->view->steps.n; i++) shares[i] = (share){i, 0};
    for (size_t i = 0; i < p->view->spans.n; i++) {
        const pp_view_span *span = &p->view->spans.at[i];
        if (is_in_legend(span)) shares[span->step].ns += span->e.end_ns - span->e.start_ns + 1;
    }
    if (p->view->steps.n) qsort(shares, p->view->steps.n, sizeof *shares, by_time);
    while (n < p->view->steps.n && n < MOST_LEGEND && shares[n].ns != 0) n++;
    return n;
}

static void draw_legend(picture *p, const share *shares, size_t n)
{
    double column = (WIDTH - 32) / 2.0;
    for (size_t i = 0; i < n; i++) {
        const pp_view_step *step = &p->view->steps.at[shares[i].step];
        double x = 16 + (double)(i % 2) * column, y = p->y + (double)(i / 2) * LEGEND_ROW;
        pp_text time = {0}, name = {0};
        pp_svg_box(p->out, x, y, 12, 12, 2, pp_svg_colour(step->colour), NULL);
        pp_text_time(&time, shares[i].ns);
        pp_svg_text(p->out, x + 80, y + 10.5, PP_SVG_SMALL, PP_SVG_END, time.at ? time.at : "");
        pp_text_add(&name, "%s", step->s.name);
        const char *stream = pp_trace_stream_of(&step->s);
        if (stream[0]) pp_text_add(&name, " (stream %s)", stream);
        pp_svg_text_in(p->out, x + 90, y + 11, column - 110, PP_SVG_PLAIN, name.at ? name.at : "");
        pp_text_free(&time);
        pp_text_free(&name);
    }
    p->y += (double)((n + 1) / 2) * LEGEND_ROW;
}

static void draw_title(const picture *p)
{
    pp_text line = {0};
    pp_svg_text(p->out, 16, 28, PP_SVG_HEAD, PP_SVG_START, "What ran when");
    pp_text_add(&line, "%" PRIu64 " run%s, %zu bars, ", p->view->runs, p->view->runs == 1 ? "" : "s",
                p->view->spans.n);
    pp_text_time(&line, p->to_ns - p->from_ns);
    if (p->view->dropped != 0)
        pp_text_add(&line, "; %" PRIu64 " older events were dropped", p->view->dropped);
    pp_svg_text(p->out, 16, 46, PP_SVG_SMALL, PP_SVG_START, line.at ? line.at : "");
    pp_text_free(&line);
}

static void find_range(picture *p)
{
    p->from_ns = p->view->spans.n ? INT64_MAX : 0;
    p->to_ns = p->view->end_ns;
    for (size_t i = 0; i < p->view->spans.n; i++)
        if (p->view->spans.at[i].e.start_ns < p->from_ns) p->from_ns = p->view->spans.at[i].e.start_ns;
    if (p->to_ns <= p->from_ns) p->to_ns = p->from_ns + 1;
}

void pp_trace_timeline(const pp_trace_view *view, pp_text *out)
{
    picture p = {.view = view, .out = out, .y = TOP};
    share *shares = pp_calloc(view->steps.n + 1, sizeof *shares);
    if (!shares) {
        out->failed = true;
        return;
    }
    find_range(&p);
    size_t n = sum_shares(&p, shares), sources = 0;
    for (size_t i = 0; i < view->lanes.n; i++)
        sources += i == 0 || view->lanes.at[i].source != view->lanes.at[i - 1].source;
    double rows = (double)(view->lanes.n * ROW + sources * SOURCE), bottom = TOP + rows + 8 + CURVE;
    pp_svg_begin(out, WIDTH, bottom + AXIS + (double)((n + 1) / 2) * LEGEND_ROW + 20, "ppto timeline");
    draw_axis(&p, TOP, bottom);
    draw_title(&p);
    draw_lanes(&p);
    draw_failures(&p, TOP, bottom);
    draw_memory(&p);
    p.y = bottom + AXIS;
    draw_legend(&p, shares, n);
    pp_svg_end(out);
    pp_free(shares);
}
