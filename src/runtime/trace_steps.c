/* SPDX-License-Identifier: Apache-2.0
 * The table of a trace: a line for every kernel and file, the longest first. A fused kernel is one line under
 * the names of its operators: its time cannot be divided among them. The time of a line is what a clock on
 * the wall shows while anything of it went on: requests of a file and launches that overlap count once, so no
 * line is longer than the run, and GB/s is what the file really did. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/report.h"
#include "runtime/tracing.h"

typedef struct row {
    uint32_t step; /* of the view */
    uint64_t times, tasks, bytes;
    int64_t wall_ns, busy_ns, wait_ns, predicted_ns;
} row;

/* ---- summing ------------------------------------------------------------------------------------------- */

static void count_launch(const pp_trace_view *view, const pp_view_launch *launch, row *to)
{
    to->times++;
    to->tasks += launch->tasks;
    to->busy_ns += launch->busy_ns;
    to->wait_ns += launch->wait_ns;
    if (launch->plan >= view->trace->plans.n) return;
    const pp_trace_plan *plan = &view->trace->plans.at[launch->plan];
    if (launch->plan_step >= plan->n) return;
    const pp_trace_step *step = &plan->steps[launch->plan_step];
    to->bytes += step->reads_bytes + step->writes_bytes;
    to->predicted_ns += step->predicted_ns;
}

static bool is_file(const pp_view_span *span)
{
    return span->e.kind == PP_TRACE_READ || span->e.kind == PP_TRACE_WRITE;
}

static int64_t begun_at(const pp_trace_event *e)
{
    return e->begun_ns > e->start_ns ? e->begun_ns : e->start_ns;
}

static void count_file(const pp_trace_event *e, row *to)
{
    to->times++;
    to->tasks++;
    to->busy_ns += e->end_ns - begun_at(e);
    to->bytes += e->bytes;
}

/* ---- time on the wall ---------------------------------------------------------------------------------- */

typedef struct interval {
    uint32_t step;
    int64_t from, to;
} interval;

static int by_begin(const void *left, const void *right)
{
    const interval *a = left, *b = right;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    return a->from < b->from ? -1 : a->from > b->from;
}

/* Calls add with what is new of every interval, the lengths of their union by step. */
static void add_union(interval *all, size_t n, row *rows, void (*add)(row *, int64_t))
{
    int64_t end = 0;
    if (n != 0) qsort(all, n, sizeof *all, by_begin);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || all[i].step != all[i - 1].step || all[i].from > end) end = all[i].from;
        if (all[i].to <= end) continue;
        add(&rows[all[i].step], all[i].to - end);
        end = all[i].to;
    }
}

static void add_wall(row *to, int64_t ns)
{
    to->wall_ns += ns;
}

static void add_wait(row *to, int64_t ns)
{
    to->wait_ns += ns;
}

/* all: room for launches and spans. */
static void find_times(const pp_trace_view *view, interval *all, row *rows)
{
    size_t n = 0;
    for (size_t i = 0; i < view->launches.n; i++) {
        const pp_view_launch *launch = &view->launches.at[i];
        all[n++] = (interval){launch->step, launch->start_ns, launch->end_ns};
    }
    for (size_t i = 0; i < view->spans.n; i++) {
        const pp_view_span *span = &view->spans.at[i];
        if (is_file(span)) all[n++] = (interval){span->step, begun_at(&span->e), span->e.end_ns};
    }
    add_union(all, n, rows, add_wall);
    n = 0;
    for (size_t i = 0; i < view->spans.n; i++) {
        const pp_view_span *span = &view->spans.at[i];
        if (is_file(span)) all[n++] = (interval){span->step, span->e.start_ns, begun_at(&span->e)};
    }
    add_union(all, n, rows, add_wait);
}

static int by_wall(const void *left, const void *right)
{
    const row *a = left, *b = right;
    if (a->wall_ns != b->wall_ns) return a->wall_ns > b->wall_ns ? -1 : 1;
    return a->step < b->step ? -1 : a->step > b->step;
}

/* Rows of what was launched, read or written; the longest first. all: room for launches and spans. */
static size_t sum(const pp_trace_view *view, interval *all, row *rows)
{
    size_t n = 0;
    for (uint32_t i = 0; i < view->steps.n; i++) rows[i] = (row){.step = i};
    for (size_t i = 0; i < view->launches.n; i++)
        count_launch(view, &view->launches.at[i], &rows[view->launches.at[i].step]);
    for (size_t i = 0; i < view->spans.n; i++) {
        const pp_view_span *span = &view->spans.at[i];
        if (is_file(span)) count_file(&span->e, &rows[span->step]);
    }
    find_times(view, all, rows);
    for (size_t i = 0; i < view->steps.n; i++)
        if (rows[i].times != 0) rows[n++] = rows[i];
    if (n != 0) qsort(rows, n, sizeof *rows, by_wall);
    return n;
}

/* ---- printing ------------------------------------------------------------------------------------------ */

static double gb_per_s(const row *r)
{
    return r->wall_ns > 0 ? (double)r->bytes / (double)r->wall_ns : 0;
}

static void print_cell(pp_text *out, const char *text)
{
    size_t wide = 0; /* characters: the unit may be "µs" */
    for (const char *c = text; *c; c++) wide += ((unsigned char)*c & 0xc0) != 0x80;
    pp_text_add(out, "%*s%s", wide < 10 ? (int)(10 - wide) : 0, "", text);
}

static void print_time(pp_text *out, int64_t ns)
{
    pp_text text = {0};
    pp_text_time(&text, ns);
    print_cell(out, text.at ? text.at : "");
    pp_text_free(&text);
}

/* Blank where nothing is predicted: files, steps of streams. */
static void print_prediction(pp_text *out, int64_t ns)
{
    if (ns > 0)
        print_time(out, ns);
    else
        print_cell(out, "");
}

static void print_row(const pp_trace_view *view, const row *r, pp_text *out)
{
    const pp_trace_step *step = &view->steps.at[r->step].s;
    char place[PP_SITE_ROOM];
    pp_text bytes = {0};
    print_time(out, r->wall_ns);
    print_prediction(out, r->predicted_ns);
    print_time(out, r->busy_ns);
    print_time(out, r->wait_ns);
    pp_text_bytes(&bytes, r->bytes);
    print_cell(out, bytes.at ? bytes.at : "");
    pp_text_add(out, "%8.2f %6" PRIu64 " %7" PRIu64 "  %-8s %s", gb_per_s(r), r->times, r->tasks, step->kind,
                step->name);
    if (pp_trace_stream_of(step)[0]) pp_text_add(out, ", stream %s", step->stream);
    pp_text_add(out, "%s%s\n", step->site.file ? "  " : "", pp_site_text(&step->site, place, sizeof place));
    pp_text_free(&bytes);
}

static void json_row(const pp_trace_view *view, const row *r, pp_text *out)
{
    const pp_trace_step *step = &view->steps.at[r->step].s;
    char place[PP_SITE_ROOM];
    pp_text_add(out, "{\"ops\": ");
    pp_text_json(out, step->name);
    pp_text_add(out, ", \"kind\": \"%s\", \"stream\": ", step->kind);
    pp_text_json(out, step->stream);
    pp_text_add(out, ", \"site\": ");
    if (step->site.file)
        pp_text_json(out, pp_site_text(&step->site, place, sizeof place));
    else
        pp_text_add(out, "null");
    pp_text_add(out,
                ", \"launches\": %" PRIu64 ", \"tasks\": %" PRIu64 ", \"bytes\": %" PRIu64
                ", \"wall_ns\": %" PRId64 ", \"busy_ns\": %" PRId64 ", \"wait_ns\": %" PRId64
                ", \"gb_per_s\": %.6g, \"predicted_ns\": ",
                r->times, r->tasks, r->bytes, r->wall_ns, r->busy_ns, r->wait_ns, gb_per_s(r));
    if (r->predicted_ns > 0)
        pp_text_add(out, "%" PRId64 "}", r->predicted_ns);
    else
        pp_text_add(out, "null}");
}

ppto_status pp_trace_steps(const pp_trace_view *view, bool json, pp_text *out)
{
    row *rows = pp_calloc(view->steps.n + 1, sizeof *rows);
    interval *all = pp_calloc(view->launches.n + view->spans.n + 1, sizeof *all);
    if (!rows || !all) {
        pp_free(rows);
        pp_free(all);
        return PPTO_E_NOMEM;
    }
    size_t n = sum(view, all, rows);
    pp_free(all);
    if (json)
        pp_text_add(out,
                    "{\"schema\": \"ppto-steps/1\", \"runs\": %" PRIu64 ", \"dropped_events\": %" PRIu64
                    ", \"steps\": [",
                    view->runs, view->dropped);
    else
        pp_text_add(
            out,
            "      time predicted   workers   waiting     bytes    GB/s  times   tasks  kind     what\n");
    for (size_t i = 0; i < n; i++) {
        if (json) pp_text_add(out, i ? ",\n " : "\n ");
        if (json)
            json_row(view, &rows[i], out);
        else
            print_row(view, &rows[i], out);
    }
    if (json)
        pp_text_add(out, "]}\n");
    else
        pp_text_add(
            out, "time is on the wall, of all launches or requests of a line; predicted by the constants of "
                 "ppto tune; workers add up; waiting is before a request or task began\n");
    if (!json && view->dropped != 0)
        pp_text_add(out, "%" PRIu64 " older events were dropped and are not counted\n", view->dropped);
    pp_free(rows);
    return PPTO_OK;
}
