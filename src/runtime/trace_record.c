/* SPDX-License-Identifier: Apache-2.0
 * Recording: traces, their programs' sources, and the notes of a run. The public calls are at the end.
 *
 * The lock of a trace is taken when a run begins and ends and when its plan is first seen, never by a task.
 * It is taken before the context's. */
#include <stdio.h>
#include <string.h>

#include "runtime/report.h"
#include "runtime/tracing.h"

enum { DEFAULT_EVENTS = 32768, OF_CALLER = 0, OF_ELSEWHERE = 1, BESIDES_WORKERS = 2, MOST_TEXTS = 65536 };

/* ---- life --------------------------------------------------------------------------------------- */

static void source_free(pp_trace_source *source)
{
    for (uint32_t i = 0; source->rings && i < source->workers + BESIDES_WORKERS; i++)
        pp_trace_ring_free(&source->rings[i]);
    pthread_mutex_destroy(&source->elsewhere);
    pp_free(source->rings);
    pp_free(source->name);
    pp_free(source);
}

static void trace_free(ppto_trace *trace)
{
    if (trace->listening) pp_pool_unlisten(trace->ctx->pool, &trace->listener);
    for (size_t i = 0; i < trace->sources.n; i++) source_free(trace->sources.at[i]);
    for (size_t i = 0; i < trace->plans.n; i++) pp_trace_plan_free(&trace->plans.at[i]);
    pp_vec_free(&trace->sources);
    pp_vec_free(&trace->plans);
    pp_vec_free(&trace->texts);
    pp_trace_ring_free(&trace->memory);
    pp_arena_free(&trace->arena);
    pthread_mutex_destroy(&trace->lock);
    pp_free(trace);
}

static void release(ppto_trace *trace)
{
    pthread_mutex_lock(&trace->lock);
    bool last = --trace->uses == 0;
    pthread_mutex_unlock(&trace->lock);
    if (last) trace_free(trace);
}

void pp_trace_leave(pp_trace_source *source)
{
    if (source) release(source->trace);
}

static void memory_changed(void *arg, const pp_pool_counters *counters)
{
    ppto_trace *trace = arg;
    pp_trace_note(&trace->memory, &(pp_trace_event){.kind = PP_TRACE_MEMORY,
                                                    .start_ns = pp_clock_ns(),
                                                    .bytes = counters->held_bytes,
                                                    .more = counters->current_bytes});
}

static void listen(ppto_trace *trace)
{
    pp_pool_counters now;
    pp_pool_count(trace->ctx->pool, &now);
    memory_changed(trace, &now);
    pp_pool_listen(trace->ctx->pool, &trace->listener);
    trace->listening = true;
}

static ppto_status source_make(ppto_trace *trace, const char *name, pp_trace_source **out)
{
    char numbered[32];
    snprintf(numbered, sizeof numbered, "program %zu", trace->sources.n + 1);
    pp_trace_source *source = pp_calloc(1, sizeof *source);
    if (!source) return PPTO_E_NOMEM;
    if (pthread_mutex_init(&source->elsewhere, NULL) != 0) {
        pp_free(source);
        return PPTO_E_NOMEM;
    }
    source->trace = trace;
    source->workers = pp_executor_workers(trace->ctx->executor);
    source->name = pp_strdup(name ? name : numbered);
    source->rings = pp_calloc(source->workers + BESIDES_WORKERS, sizeof *source->rings);
    ppto_status status = source->name && source->rings ? PPTO_OK : PPTO_E_NOMEM;
    for (uint32_t i = 0; status == PPTO_OK && i < source->workers + BESIDES_WORKERS; i++)
        status = pp_trace_ring_make(&source->rings[i], trace->room);
    if (status == PPTO_OK) status = pp_vec_push(&trace->sources, source);
    if (status != PPTO_OK)
        source_free(source);
    else
        *out = source;
    return status;
}

/* ---- a run -------------------------------------------------------------------------------------- */

static pp_trace_ring *callers_ring(pp_trace_source *source)
{
    return &source->rings[source->workers + OF_CALLER];
}

void pp_tracing_begin(pp_tracing *t, const ppto_program *p)
{
    *t = (pp_tracing){.source = p->source, .plan = PP_NONE, .part = p->whole};
    if (!t->source) return;
    ppto_trace *trace = t->source->trace;
    pthread_mutex_lock(&trace->lock);
    trace->running++;
    t->run = trace->runs++;
    trace->parts += t->part;
    pthread_mutex_unlock(&trace->lock);
    t->start_ns = pp_clock_ns();
}

/* The number of a text; PP_NONE without memory, or when there are very many. */
static uint32_t text_number(ppto_trace *trace, const char *text)
{
    uint32_t found = PP_NONE;
    pthread_mutex_lock(&trace->lock);
    for (size_t i = trace->texts.n; found == PP_NONE && i-- > 0;)
        if (strcmp(trace->texts.at[i], text) == 0) found = (uint32_t)i;
    if (found == PP_NONE && trace->texts.n < MOST_TEXTS) {
        const char *own = pp_arena_strndup(&trace->arena, text, strlen(text));
        if (own && pp_vec_push(&trace->texts, own) == PPTO_OK) found = (uint32_t)trace->texts.n - 1;
    }
    pthread_mutex_unlock(&trace->lock);
    return found;
}

/* The moment at which a run failed or was cancelled, and why. */
static void note_failure(const pp_tracing *t, ppto_status status, const pp_error *err)
{
    const char *why = err && err->text[0] ? err->text : ppto_status_text(status);
    pp_trace_event event = {.kind = PP_TRACE_FAILURE, .run = t->run, .plan = PP_NONE, .failed = true};
    event.start_ns = event.end_ns = pp_clock_ns();
    event.step = text_number(t->source->trace, why);
    if (event.step != PP_NONE) pp_trace_note(callers_ring(t->source), &event);
}

void pp_tracing_end(pp_tracing *t, ppto_status status, const pp_error *err)
{
    if (!t->source) return;
    if (status != PPTO_OK && !t->part) note_failure(t, status, err);
    pp_trace_note(callers_ring(t->source), &(pp_trace_event){.kind = PP_TRACE_RUN,
                                                             .start_ns = t->start_ns,
                                                             .end_ns = pp_clock_ns(),
                                                             .run = t->run,
                                                             .plan = t->plan,
                                                             .task = t->part,
                                                             .failed = status != PPTO_OK});
    ppto_trace *trace = t->source->trace;
    pthread_mutex_lock(&trace->lock);
    trace->running--;
    pthread_mutex_unlock(&trace->lock);
}

static uint32_t find_plan(const ppto_trace *trace, const ppto_program *p, const int64_t *names,
                          size_t n_names)
{
    const uint64_t serial = p->plan->serial, places = pp_program_places(p);
    for (size_t i = trace->plans.n; i-- > 0;) {
        const pp_trace_plan *plan = &trace->plans.at[i];
        if (plan->serial == serial && plan->places == places && plan->n_names == n_names &&
            (n_names == 0 || memcmp(plan->names, names, n_names * sizeof *names) == 0))
            return (uint32_t)i;
    }
    return PP_NONE;
}

/* One that says the same serves it too. Takes the plan. */
static ppto_status add_plan(ppto_trace *trace, pp_trace_plan *take, uint32_t *index)
{
    for (size_t i = 0; i < trace->plans.n; i++) {
        if (!pp_trace_plan_same(&trace->plans.at[i], take)) continue;
        pp_trace_plan_free(&trace->plans.at[i]);
        trace->plans.at[i] = *take;
        *index = (uint32_t)i;
        return PPTO_OK;
    }
    *index = (uint32_t)trace->plans.n;
    ppto_status status = pp_vec_push(&trace->plans, *take);
    if (status != PPTO_OK) pp_trace_plan_free(take);
    return status;
}

ppto_status pp_tracing_plan(pp_tracing *t, const ppto_program *p, const int64_t *names, size_t n_names)
{
    if (!t->source) return PPTO_OK;
    ppto_trace *trace = t->source->trace;
    ppto_status status = PPTO_OK;
    pthread_mutex_lock(&trace->lock);
    t->plan = find_plan(trace, p, names, n_names);
    if (t->plan == PP_NONE) {
        pp_trace_plan plan;
        status = pp_trace_plan_make(p, names, n_names, &plan);
        if (status == PPTO_OK)
            status = add_plan(trace, &plan, &t->plan);
        else
            pp_trace_plan_free(&plan);
    }
    pthread_mutex_unlock(&trace->lock);
    return status;
}

void pp_tracing_ran(void *arg, const pp_task_record *record, bool elsewhere)
{
    const pp_tracing *t = arg;
    pp_trace_source *source = t->source;
    const pp_trace_event event = {.kind = PP_TRACE_TASK,
                                  .start_ns = record->start_ns,
                                  .end_ns = record->end_ns,
                                  .run = t->run,
                                  .plan = t->plan,
                                  .step = record->step,
                                  .task = record->task,
                                  .phase = (uint16_t)record->phase,
                                  .worker = record->worker};
    if (!elsewhere && record->worker < source->workers) {
        pp_trace_note(&source->rings[record->worker], &event);
        return;
    }
    pthread_mutex_lock(&source->elsewhere);
    pp_trace_note(&source->rings[source->workers + OF_ELSEWHERE], &event);
    pthread_mutex_unlock(&source->elsewhere);
}

/* ---- compiling ---------------------------------------------------------------------------------- */

void pp_tracing_stage(const ppto_program *p, const pp_stage_note *note)
{
    if (!p->source) return;
    pp_trace_note(callers_ring(p->source), &(pp_trace_event){.kind = PP_TRACE_STAGE,
                                                             .start_ns = note->start_ns,
                                                             .end_ns = note->end_ns,
                                                             .plan = PP_NONE,
                                                             .step = note->stage,
                                                             .more = note->group,
                                                             .phase = note->cache});
}

void pp_tracing_compiled(const ppto_program *p)
{
    size_t n = p->plan_hit ? 0 : p->plan->stages.n;
    pp_stage_note all = p->compiled;
    if (!p->source) return;
    if (p->whole && n != 0) {
        all = (pp_stage_note){.stage = PP_PLAN_COMPILE, .start_ns = p->plan->stages.at[0].start_ns};
        all.end_ns = p->plan->stages.at[n - 1].end_ns;
    }
    if (all.start_ns < p->source->trace->zero_ns) return; /* long ago, perhaps */
    pp_tracing_stage(p, &all);
    if (!p->whole) pp_tracing_stage(p, &p->looked_up);
    for (size_t i = 0; i < n; i++) pp_tracing_stage(p, &p->plan->stages.at[i]);
}

/* ---- files -------------------------------------------------------------------------------------- */

void pp_tracing_file(pp_trace_source *source, const char *path, pp_trace_event event)
{
    event.step = text_number(source->trace, path);
    event.plan = PP_NONE;
    if (event.step != PP_NONE) pp_trace_note(callers_ring(source), &event);
}

void pp_tracing_request(pp_trace_source *source, const char *path, const pp_io_request *request)
{
    if (request->begun_ns == 0) return;
    pp_tracing_file(source, path,
                    (pp_trace_event){.kind = request->op == PP_IO_READ ? PP_TRACE_READ : PP_TRACE_WRITE,
                                     .start_ns = request->submitted_ns,
                                     .begun_ns = request->begun_ns,
                                     .end_ns = request->done_ns,
                                     .bytes = request->moved,
                                     .more = request->offset > 0 ? (uint64_t)request->offset : 0,
                                     .failed = request->status != PPTO_OK});
}

ppto_status pp_tracing_load(const ppto_program *p, const ppto_array *file, ppto_array **out,
                            const pp_files_watch *watch, pp_error *err)
{
    int64_t start = p->source ? pp_clock_ns() : 0;
    ppto_status status = pp_array_in_memory(file, out, watch, err);
    if (p->source)
        pp_tracing_file(p->source, file->file->path,
                        (pp_trace_event){
                            .kind = PP_TRACE_READ,
                            .start_ns = start,
                            .begun_ns = start,
                            .end_ns = pp_clock_ns(),
                            .bytes = status == PPTO_OK ? file->file->reader.info.bytes : 0,
                            .more = file->file->reader.data_at > 0 ? (uint64_t)file->file->reader.data_at : 0,
                            .failed = status != PPTO_OK});
    return status;
}

ppto_status pp_tracing_save(const ppto_program *p, const ppto_array *array, const char *path,
                            const pp_files_watch *watch, pp_error *err)
{
    int64_t start = p->source ? pp_clock_ns() : 0;
    ppto_status status = pp_array_save(array, path, watch, err);
    if (p->source)
        pp_tracing_file(p->source, path,
                        (pp_trace_event){.kind = PP_TRACE_WRITE,
                                         .start_ns = start,
                                         .begun_ns = start,
                                         .end_ns = pp_clock_ns(),
                                         .bytes = ppto_array_elements(array) * ppto_dtype_size(array->dtype),
                                         .failed = status != PPTO_OK});
    return status;
}

/* ---- public ------------------------------------------------------------------------------------- */

static ppto_status trace_make(ppto_context *ctx, uint64_t events, ppto_trace **out)
{
    ppto_trace *trace = pp_calloc(1, sizeof *trace);
    if (!trace) return PPTO_E_NOMEM;
    if (pthread_mutex_init(&trace->lock, NULL) != 0) {
        pp_free(trace);
        return PPTO_E_NOMEM;
    }
    trace->ctx = ctx;
    trace->uses = 1;
    trace->room = events != 0 ? events : DEFAULT_EVENTS;
    trace->zero_ns = pp_clock_ns();
    trace->listener = (pp_pool_listener){.changed = memory_changed, .arg = trace};
    ppto_status status = pp_trace_ring_make(&trace->memory, trace->room);
    if (status == PPTO_OK)
        listen(trace);
    else
        trace_free(trace);
    *out = status == PPTO_OK ? trace : NULL;
    return status;
}

ppto_status ppto_trace_create(ppto_context *ctx, const ppto_trace_options *options, ppto_trace **trace)
{
    pp_error err = {0};
    if (!trace) return pp_report_new(PPTO_E_VALUE, "trace: the place for it is NULL");
    *trace = NULL;
    if (pp_context_check(ctx, &err) != PPTO_OK) return pp_report(&err);
    if (options && options->size < sizeof *options)
        return pp_report_new(PPTO_E_VALUE, "trace: begin the options with PPTO_TRACE_OPTIONS_INIT");
    ppto_status status = trace_make(ctx, options ? options->events : 0, trace);
    return status == PPTO_OK ? status : pp_report_new(status, "trace: %s", ppto_status_text(status));
}

void ppto_trace_destroy(ppto_trace *trace)
{
    if (trace && !pp_context_forked(trace->ctx)) release(trace);
}

ppto_status ppto_program_trace(ppto_program *p, ppto_trace *trace, const char *name)
{
    if (!p) return pp_report_new(PPTO_E_VALUE, "trace: the program is NULL");
    if (trace && trace->ctx != p->ctx)
        return pp_report_new(PPTO_E_VALUE, "trace: it belongs to another context than the program");
    PP_TRY(pp_context_refuses(p->ctx));
    if (atomic_load_explicit(&p->running, memory_order_acquire))
        return pp_report_new(PPTO_E_BUSY, "trace: the program is running");
    pp_trace_source *source = NULL;
    ppto_status status = PPTO_OK;
    if (trace) {
        pthread_mutex_lock(&trace->lock);
        status = source_make(trace, name, &source);
        trace->uses += status == PPTO_OK;
        pthread_mutex_unlock(&trace->lock);
    }
    if (status != PPTO_OK) return pp_report_new(status, "trace: %s", ppto_status_text(status));
    pp_trace_leave(p->source);
    p->source = source;
    if (!trace) return PPTO_OK;
    pthread_mutex_lock(&trace->lock); /* somebody may be reading */
    pp_tracing_compiled(p);
    pthread_mutex_unlock(&trace->lock);
    return PPTO_OK;
}
