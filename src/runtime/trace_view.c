/* SPDX-License-Identifier: Apache-2.0
 * The notes of a trace in the order in which all writers want them: lanes with spans that nest or follow each
 * other but never overlap, tasks gathered into launches of their steps, and the edges of the graph as arrows
 * from the last task of one launch to the first of the next. Read pp_trace_view_make. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/tracing.h"

/* ---- steps: the same name in two plans is one ------------------------------------------------------ */

typedef struct step_key {
    const pp_trace_view *view;
    const pp_trace_step *step;
} step_key;

static bool same_site(const ppto_site *a, const ppto_site *b)
{
    return a->line == b->line && a->column == b->column &&
           strcmp(a->file ? a->file : "", b->file ? b->file : "") == 0;
}

static bool is_step(const void *context, uint32_t value)
{
    const step_key *key = context;
    const pp_trace_step *a = key->step, *b = &key->view->steps.at[value].s;
    return strcmp(a->name, b->name) == 0 && strcmp(a->kind, b->kind) == 0 &&
           strcmp(a->stream, b->stream) == 0 && same_site(&a->site, &b->site);
}

static ppto_status find_step(pp_trace_view *view, const pp_trace_step *step, uint32_t *out)
{
    step_key key = {view, step};
    uint64_t hash = pp_hash_bytes(step->name, strlen(step->name),
                                  (uint64_t)step->site.line << 16 ^ (uint64_t)step->site.column);
    if (pp_map_find(&view->step_of, hash, is_step, &key, out)) return PPTO_OK;
    *out = (uint32_t)view->steps.n;
    PP_TRY(pp_vec_push(&view->steps, ((pp_view_step){.s = *step, .colour = *out})));
    return pp_map_insert(&view->step_of, hash, *out);
}

const char *pp_trace_stream_of(const pp_trace_step *step)
{
    static const char *const named[] = {"gate", "sync", "end"}; /* trace_plan.c */
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcmp(step->kind, named[i]) == 0) return "";
    return step->stream;
}

const char *pp_trace_cache_name(const pp_trace_event *e)
{
    if (e->kind != PP_TRACE_STAGE || e->phase == PP_CACHE_NONE) return NULL;
    return e->phase == PP_CACHE_HIT ? "hit" : "miss";
}

static const char *stage_name(const pp_trace_event *e)
{
    static const char *const names[PP_PLAN_STAGES][3] = {/* by pp_cache_note */
                                                         {"compile"},
                                                         {"find plan", "plan: hit", "plan: miss"},
                                                         {"expand"},
                                                         {"simplify"},
                                                         {"fuse"},
                                                         {"schedule"},
                                                         {"lower"},
                                                         {"find kernel", "kernel: hit", "kernel: miss"},
                                                         {"lay out", "layout: hit", "layout: miss"}};
    const char *name = e->step < PP_PLAN_STAGES && e->phase < 3 ? names[e->step][e->phase] : NULL;
    return name ? name : "stage";
}

/* The step a note is about. */
static ppto_status step_of(pp_trace_view *view, const pp_trace_event *e, uint32_t *out)
{
    const ppto_trace *trace = view->trace;
    pp_trace_step step = {.name = "run", .kind = "run", .stream = ""};
    if (e->kind == PP_TRACE_RUN && e->task != 0) step.name = step.kind = "piece";
    if (e->kind == PP_TRACE_TASK && e->plan < trace->plans.n && e->step < trace->plans.at[e->plan].n)
        step = trace->plans.at[e->plan].steps[e->step];
    if (e->kind == PP_TRACE_STAGE)
        step = (pp_trace_step){.name = stage_name(e), .kind = "stage", .stream = ""};
    if (e->kind == PP_TRACE_FAILURE)
        step = (pp_trace_step){.name = trace->texts.at[e->step], .kind = "failure", .stream = ""};
    if (e->kind == PP_TRACE_READ || e->kind == PP_TRACE_WRITE) {
        const char *file = trace->texts.at[e->step];
        size_t room = strlen(file) + 8;
        char *name = pp_arena_alloc(&view->arena, room);
        if (!name) return PPTO_E_NOMEM;
        step.kind = e->kind == PP_TRACE_READ ? "read" : "write";
        snprintf(name, room, "%s %s", step.kind, file);
        step.name = name;
    }
    return find_step(view, &step, out);
}

/* ---- lanes and spans -------------------------------------------------------------------------------- */

/* Of several domains any worker's place may be the caller's. */
static void name_worker(const pp_trace_view *view, uint32_t number, char *name, size_t room)
{
    const pp_domains *domains = pp_executor_domains(view->trace->ctx->executor);
    pp_turn turn = {0};
    uint32_t domain = 0;
    for (uint32_t i = 0; i <= number && domains->n > 1; i++) domain = pp_domains_next(domains, &turn);
    if (domains->n > 1)
        snprintf(name, room, "worker %u (domain %u)", number, domain);
    else
        snprintf(name, room, number == 0 ? "worker 0 (caller)" : "worker %u", number);
}

static ppto_status add_lane(pp_trace_view *view, uint32_t source, pp_lane_kind kind, uint32_t number)
{
    static const char *const names[] = {"planning", "runs", "worker", "streams", "files"};
    pp_view_lane lane = {source, kind, number, ""};
    if (kind == PP_LANE_WORKER)
        name_worker(view, number, lane.name, sizeof lane.name);
    else if (number != 0)
        snprintf(lane.name, sizeof lane.name, "%s %u", names[kind], number);
    else
        snprintf(lane.name, sizeof lane.name, "%s", names[kind]);
    return pp_vec_push(&view->lanes, lane);
}

static ppto_status add_span(pp_trace_view *view, uint32_t lane, const pp_trace_event *e)
{
    pp_view_span span = {*e, lane, 0};
    PP_TRY(step_of(view, e, &span.step));
    span.e.start_ns -= view->trace->zero_ns;
    span.e.end_ns -= view->trace->zero_ns;
    span.e.begun_ns -= view->trace->zero_ns;
    if (span.e.end_ns > view->end_ns) view->end_ns = span.e.end_ns;
    view->runs += e->kind == PP_TRACE_RUN && e->task == 0;
    return pp_vec_push(&view->spans, span);
}

static bool is_of(pp_lane_kind lane, const pp_trace_event *e)
{
    switch (lane) {
    case PP_LANE_PLANNING: return e->kind == PP_TRACE_STAGE;
    case PP_LANE_RUNS: return e->kind == PP_TRACE_RUN || e->kind == PP_TRACE_FAILURE;
    case PP_LANE_FILES: return e->kind == PP_TRACE_READ || e->kind == PP_TRACE_WRITE;
    default: return true;
    }
}

/* Notes of one ring that the kind of lane takes, in one lane. */
static ppto_status add_ring(pp_trace_view *view, uint32_t source, const pp_trace_ring *ring,
                            pp_lane_kind kind, uint32_t number)
{
    uint64_t n = pp_trace_ring_kept(ring);
    bool any = false;
    for (uint64_t i = 0; i < n; i++) {
        const pp_trace_event *e = pp_trace_ring_get(ring, i);
        if (!is_of(kind, e)) continue;
        if (!any) PP_TRY(add_lane(view, source, kind, number));
        any = true;
        PP_TRY(add_span(view, (uint32_t)view->lanes.n - 1, e));
    }
    return PPTO_OK;
}

static int by_start(const void *left, const void *right)
{
    const pp_trace_event *a = *(const pp_trace_event *const *)left,
                         *b = *(const pp_trace_event *const *)right;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return a->end_ns != b->end_ns ? (a->end_ns < b->end_ns ? -1 : 1) : 0;
}

enum { MOST_SIDE_BY_SIDE = 32 };

/* Notes that may overlap: each goes to the first of several lanes that is free; the last takes the rest. */
static ppto_status pack(pp_trace_view *view, uint32_t source, pp_lane_kind kind,
                        const pp_trace_event **events, size_t n)
{
    int64_t until[MOST_SIDE_BY_SIDE];
    uint32_t first = (uint32_t)view->lanes.n, lanes = 0;
    if (n != 0) qsort(events, n, sizeof(*events), by_start);
    for (size_t i = 0; i < n; i++) {
        uint32_t lane = 0;
        while (lane < lanes && until[lane] > events[i]->start_ns) lane++;
        if (lane == MOST_SIDE_BY_SIDE) lane--;
        if (lane == lanes) PP_TRY(add_lane(view, source, kind, lanes++));
        until[lane] = events[i]->end_ns;
        PP_TRY(add_span(view, first + lane, events[i]));
    }
    return PPTO_OK;
}

static ppto_status add_packed(pp_trace_view *view, uint32_t source, const pp_trace_ring *ring,
                              pp_lane_kind kind)
{
    uint64_t kept = pp_trace_ring_kept(ring);
    size_t n = 0;
    const pp_trace_event **events = pp_calloc(kept + 1, sizeof(*events));
    if (!events) return PPTO_E_NOMEM;
    for (uint64_t i = 0; i < kept; i++) {
        const pp_trace_event *e = pp_trace_ring_get(ring, i);
        if (is_of(kind, e)) events[n++] = e;
    }
    ppto_status status = pack(view, source, kind, events, n);
    pp_free(events);
    return status;
}

static ppto_status add_source(pp_trace_view *view, uint32_t s)
{
    const pp_trace_source *source = view->trace->sources.at[s];
    const pp_trace_ring *caller = &source->rings[source->workers], *elsewhere = caller + 1;
    PP_TRY(add_ring(view, s, caller, PP_LANE_PLANNING, 0));
    PP_TRY(add_ring(view, s, caller, PP_LANE_RUNS, 0));
    for (uint32_t w = 0; w < source->workers; w++)
        PP_TRY(add_ring(view, s, &source->rings[w], PP_LANE_WORKER, w));
    PP_TRY(add_packed(view, s, elsewhere, PP_LANE_ELSEWHERE));
    PP_TRY(add_packed(view, s, caller, PP_LANE_FILES));
    for (uint32_t i = 0; i < source->workers + 2; i++)
        view->dropped += pp_trace_ring_dropped(&source->rings[i]);
    return PPTO_OK;
}

static int by_lane(const void *left, const void *right)
{
    const pp_view_span *a = left, *b = right;
    if (a->lane != b->lane) return a->lane < b->lane ? -1 : 1;
    if (a->e.start_ns != b->e.start_ns) return a->e.start_ns < b->e.start_ns ? -1 : 1;
    if (a->e.end_ns != b->e.end_ns) return a->e.end_ns > b->e.end_ns ? -1 : 1;
    return 0;
}

static ppto_status add_memory(pp_trace_view *view)
{
    const pp_trace_ring *ring = &view->trace->memory;
    uint64_t n = pp_trace_ring_kept(ring);
    PP_TRY(pp_vec_reserve(&view->memory, n));
    for (uint64_t i = 0; i < n; i++) {
        const pp_trace_event *e = pp_trace_ring_get(ring, i);
        int64_t at = e->start_ns - view->trace->zero_ns;
        PP_TRY(pp_vec_push(&view->memory, ((pp_view_memory){at > 0 ? at : 0, e->bytes, e->more})));
    }
    view->dropped += pp_trace_ring_dropped(ring);
    return PPTO_OK;
}

/* ---- launches and arrows ----------------------------------------------------------------------------- */

typedef struct task_at {
    uint32_t run, step, span;
    int64_t start_ns;
} task_at;

static int by_run(const void *left, const void *right)
{
    const task_at *a = left, *b = right;
    if (a->run != b->run) return a->run < b->run ? -1 : 1;
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    if (a->start_ns != b->start_ns) return a->start_ns < b->start_ns ? -1 : 1;
    return 0;
}

static void count_in(pp_trace_view *view, pp_view_launch *launch, uint32_t span)
{
    const pp_trace_event *e = &view->spans.at[span].e;
    launch->tasks++;
    launch->busy_ns += e->end_ns - e->start_ns;
    if (e->end_ns < launch->end_ns) return;
    launch->end_ns = e->end_ns;
    launch->last = span;
}

static ppto_status gather(pp_trace_view *view, const task_at *tasks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const pp_view_span *span = &view->spans.at[tasks[i].span];
        pp_view_launch *last = view->launches.n ? &view->launches.at[view->launches.n - 1] : NULL;
        if (!last || last->run != tasks[i].run || last->plan_step != tasks[i].step) {
            PP_TRY(pp_vec_push(&view->launches, ((pp_view_launch){.step = span->step,
                                                                  .run = tasks[i].run,
                                                                  .plan = span->e.plan,
                                                                  .plan_step = tasks[i].step,
                                                                  .first = tasks[i].span,
                                                                  .last = tasks[i].span,
                                                                  .start_ns = span->e.start_ns})));
            last = &view->launches.at[view->launches.n - 1];
        }
        count_in(view, last, tasks[i].span);
    }
    return PPTO_OK;
}

static ppto_status add_launches(pp_trace_view *view)
{
    size_t n = 0;
    task_at *tasks = pp_calloc(view->spans.n + 1, sizeof *tasks);
    if (!tasks) return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < view->spans.n; i++) {
        const pp_trace_event *e = &view->spans.at[i].e;
        if (e->kind == PP_TRACE_TASK) tasks[n++] = (task_at){e->run, e->step, i, e->start_ns};
    }
    qsort(tasks, n, sizeof *tasks, by_run);
    ppto_status status = gather(view, tasks, n);
    pp_free(tasks);
    return status;
}

/* The launch of a step in the run whose launches begin at `first`; NULL: none is kept. */
static const pp_view_launch *launch_of(const pp_trace_view *view, size_t first, uint32_t run, uint32_t step)
{
    for (size_t lo = first, hi = view->launches.n; lo < hi;) {
        size_t mid = lo + (hi - lo) / 2;
        const pp_view_launch *at = &view->launches.at[mid];
        if (at->run == run && at->plan_step == step) return at;
        if (at->run < run || (at->run == run && at->plan_step < step))
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static ppto_status add_arrows_to(pp_trace_view *view, size_t first, pp_view_launch *to, int64_t run_start)
{
    if (to->plan >= view->trace->plans.n) return PPTO_OK;
    const pp_trace_plan *plan = &view->trace->plans.at[to->plan];
    int64_t ready = run_start;
    for (uint32_t k = plan->first_need[to->plan_step]; k < plan->first_need[to->plan_step + 1]; k++) {
        const pp_view_launch *from = launch_of(view, first, to->run, plan->needs[k]);
        if (!from) continue;
        if (from->end_ns > ready) ready = from->end_ns;
        PP_TRY(pp_vec_push(&view->arrows, ((pp_view_arrow){from->last, to->first})));
    }
    to->wait_ns = to->start_ns > ready ? to->start_ns - ready : 0;
    return PPTO_OK;
}

static ppto_status add_arrows(pp_trace_view *view)
{
    size_t first = 0;
    int64_t start = 0;
    for (size_t i = 0; i < view->launches.n; i++) {
        pp_view_launch *launch = &view->launches.at[i];
        if (i == 0 || launch->run != view->launches.at[first].run) {
            first = i;
            start = launch->start_ns;
            for (size_t k = i; k < view->launches.n && view->launches.at[k].run == launch->run; k++)
                if (view->launches.at[k].start_ns < start) start = view->launches.at[k].start_ns;
        }
        PP_TRY(add_arrows_to(view, first, launch, start));
    }
    return PPTO_OK;
}

/* ---- the whole ---------------------------------------------------------------------------------------- */

ppto_status pp_trace_view_make(const ppto_trace *trace, pp_trace_view *view)
{
    *view = (pp_trace_view){.trace = trace};
    for (uint32_t s = 0; s < trace->sources.n; s++) PP_TRY(add_source(view, s));
    if (view->spans.n) qsort(view->spans.at, view->spans.n, sizeof *view->spans.at, by_lane);
    PP_TRY(add_memory(view));
    PP_TRY(add_launches(view));
    return add_arrows(view);
}

void pp_trace_view_free(pp_trace_view *view)
{
    pp_vec_free(&view->lanes);
    pp_vec_free(&view->steps);
    pp_vec_free(&view->spans);
    pp_vec_free(&view->launches);
    pp_vec_free(&view->arrows);
    pp_vec_free(&view->memory);
    pp_map_free(&view->step_of);
    pp_arena_free(&view->arena);
}
