/* SPDX-License-Identifier: Apache-2.0
 * Programs: a plan and what is bound to it. */
#include <string.h>

#include "devices/cpu/loop_store.h"
#include "files/formats.h"
#include "files/sink.h"
#include "runtime/sync.h"
#include "runtime/tracing.h"

static ppto_status check_outputs(size_t n, ppto_tensor *const *outputs, pp_error *err)
{
    if (n == 0 || !outputs) return pp_fail(err, PPTO_E_VALUE, "compile: there are no outputs");
    for (size_t i = 0; i < n; i++)
        if (outputs[i]) {
            const pp_error *first = pp_graph_error(outputs[i]->graph->graph);
            if (first->code != PPTO_OK) return pp_fail(err, first->code, "%s", first->text);
        }
    for (size_t i = 0; i < n; i++) {
        if (!outputs[i]) {
            ppto_status why = ppto_error_status(NULL); /* why it is NULL, when this thread knows */
            if (why == PPTO_OK) return pp_fail(err, PPTO_E_VALUE, "compile: an output is NULL");
            return pp_fail(err, why, "%s", ppto_error_text(NULL));
        }
        if (outputs[i]->graph != outputs[0]->graph)
            return pp_fail(err, PPTO_E_VALUE, "compile: outputs belong to different graphs");
    }
    return PPTO_OK;
}

/* Every input of the graph may be bound by name, also those the outputs do not need. */
static ppto_status keep_names(ppto_program *p, pp_graph *graph)
{
    size_t n = pp_graph_inputs(graph);
    p->known_names = pp_calloc(n + 1, sizeof *p->known_names);
    if (!p->known_names) return PPTO_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const char *name = pp_graph_node(graph, pp_graph_input_at(graph, i).node).input_name;
        if (!(p->known_names[i] = pp_strdup(name ? name : ""))) return PPTO_E_NOMEM;
        p->n_known = i + 1;
    }
    return PPTO_OK;
}

static ppto_status keep_literals(ppto_program *p, pp_graph *graph, const pp_ref *refs, size_t n)
{
    PP_TRY(pp_graph_literals(graph, refs, n, NULL, 0, &p->n_literals));
    p->literals = pp_calloc(p->n_literals + 1, sizeof *p->literals);
    if (!p->literals) return PPTO_E_NOMEM;
    size_t count;
    return pp_graph_literals(graph, refs, n, p->literals, p->n_literals, &count);
}

static ppto_status room(ppto_program *p)
{
    p->inputs = pp_calloc(p->plan->inputs.n + 1, sizeof(ppto_array *));
    p->outputs = pp_calloc(p->plan->flat.outputs.n + 1, sizeof(ppto_array *));
    p->donated = pp_calloc(p->plan->inputs.n + 1, sizeof *p->donated);
    p->sinks = pp_calloc(p->plan->flat.outputs.n + 1, sizeof *p->sinks);
    p->names = pp_calloc(p->plan->flat.outputs.n + 1, sizeof *p->names);
    size_t n_files = p->plan->inputs.n + p->plan->flat.outputs.n;
    p->file_at = pp_calloc(n_files + 1, sizeof *p->file_at);
    p->file_origin = pp_calloc(n_files + 1, sizeof *p->file_origin);
    p->key = pp_calloc(pp_instance_key_size(p->plan) + 1, sizeof *p->key);
    return p->inputs && p->outputs && p->donated && p->sinks && p->names && p->file_at && p->file_origin &&
                   p->key
               ? PPTO_OK
               : PPTO_E_NOMEM;
}

void pp_program_first_stats(ppto_program *p)
{
    ppto_context *ctx = p->ctx;
    p->stats = (ppto_stats){.size = sizeof p->stats,
                            .plan_hit = p->plan_hit,
                            .executor = pp_executor_name(ctx->executor),
                            .tier = "interp",
                            .no_code = ctx->no_code.text[0] ? ctx->no_code.text : NULL,
                            .threads = (int)pp_executor_workers(ctx->executor),
                            .kernel_hits = p->plan->kernel_hits,
                            .kernel_misses = p->plan_hit ? 0 : p->plan->kernel_misses,
                            .plan_seconds = p->plan_hit ? 0 : p->plan->plan_seconds,
                            .compile_seconds = p->plan_hit ? 0 : p->plan->compile_seconds};
    for (size_t g = 0; g < p->plan->fused.groups.n; g++) p->stats.kernels += !pp_plan_is_copy(p->plan, g);
    if (p->plan_hit) p->stats.kernel_hits = p->stats.kernels;
}

ppto_status pp_program_of_plan(pp_plan *take_plan, ppto_program **out)
{
    ppto_program *p = pp_calloc(1, sizeof *p);
    if (!p) {
        pp_plan_release(take_plan);
        return PPTO_E_NOMEM;
    }
    p->ctx = take_plan->ctx;
    p->plan = take_plan;
    p->refs = 1;
    p->whole = true;
    p->stop = &p->cancel;
    p->literals = pp_calloc(1, sizeof *p->literals);
    ppto_status status = p->literals ? room(p) : PPTO_E_NOMEM;
    if (status == PPTO_OK) pp_program_first_stats(p);
    if (status != PPTO_OK) {
        ppto_program_destroy(p);
        return status;
    }
    *out = p;
    return PPTO_OK;
}

/* Of a graph on its track. NULL: it is to be compiled in full, or refused. */
static ppto_program *take(size_t n, ppto_tensor *const *outputs)
{
    enum { FEW = 16 };
    pp_ref refs[FEW];
    if (n > FEW) return NULL;
    for (size_t i = 0; i < n; i++) {
        if (!outputs[i] || outputs[i]->graph != outputs[0]->graph) return NULL;
        refs[i] = outputs[i]->ref;
    }
    return pp_track_take(outputs[0]->graph, n, refs);
}

ppto_status pp_program_compile(size_t n, ppto_tensor *const *outputs, ppto_program **out, pp_error *err)
{
    if (n != 0 && outputs && outputs[0]) {
        PP_TRY(pp_context_check(outputs[0]->graph->ctx, err));
        if ((*out = take(n, outputs))) return PPTO_OK;
        pp_track_leave(outputs[0]->graph);
    }
    PP_TRY(check_outputs(n, outputs, err));
    int64_t start = pp_clock_ns();
    ppto_graph *graph = outputs[0]->graph;
    pp_ref small[16], *refs = n <= 16 ? small : pp_alloc(n * sizeof *refs);
    ppto_program *p = pp_calloc(1, sizeof *p);
    ppto_status status = refs && p ? PPTO_OK : PPTO_E_NOMEM;
    for (size_t i = 0; status == PPTO_OK && i < n; i++) refs[i] = outputs[i]->ref;
    if (status == PPTO_OK) {
        p->ctx = graph->ctx;
        p->stop = &p->cancel;
        p->refs = 1;
        status = keep_literals(p, graph->graph, refs, n);
    }
    if (status == PPTO_OK) status = keep_names(p, graph->graph);
    if (status == PPTO_OK)
        status = pp_plan_get(graph, refs, n, p->literals, p->n_literals, &p->plan, &p->looked_up, err);
    if (status == PPTO_OK) p->plan_hit = p->looked_up.cache == PP_CACHE_HIT;
    if (status == PPTO_OK) status = pp_program_keep_origins(p, graph->graph, refs, n);
    if (status == PPTO_OK) status = room(p);
    if (status == PPTO_OK) status = pp_sync_create(p, graph, refs, n, err);
    if (status == PPTO_OK) status = pp_graph_files_bind(p, graph, refs, n, err);
    if (status == PPTO_OK) pp_program_first_stats(p);
    if (status == PPTO_OK) pp_track_give(graph, n, refs, p);
    if (refs != small) pp_free(refs);
    if (status != PPTO_OK) {
        ppto_program_destroy(p);
        return pp_fail(err, status, "%s", ppto_status_text(status));
    }
    p->compiled = (pp_stage_note){.stage = PP_PLAN_COMPILE, .start_ns = start, .end_ns = pp_clock_ns()};
    *out = p;
    return PPTO_OK;
}

ppto_status ppto_compile_at(ppto_site site, size_t n, ppto_tensor *const *outputs, ppto_program **program)
{
    pp_error err;
    if (!program) return pp_report_new(PPTO_E_VALUE, "ppto_compile: program is NULL");
    pp_error_clear(&err);
    *program = NULL;
    if (pp_program_compile(n, outputs, program, &err) == PPTO_OK && pp_held_add(*program, site) != PPTO_OK) {
        ppto_program_destroy(*program);
        *program = NULL;
        pp_fail(&err, PPTO_E_NOMEM, "out of memory");
    }
    return pp_report(&err);
}

void ppto_program_destroy(ppto_program *p)
{
    /* acq_rel: what a run on another thread did with it, before it is freed */
    if (!p || pp_context_forked(p->ctx)) return;
    if (atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) > 1) return;
    if (!pp_track_keep(p)) pp_program_free(p);
}

void pp_program_free(ppto_program *p)
{
    if (!p) return;
    pp_held_remove(p);
    pp_instance_put(p->instance);
    pp_sync_destroy(p->sync);
    for (size_t i = 0; p->plan && p->inputs && i < p->plan->inputs.n; i++)
        pp_array_drop(p->inputs[i], PP_HOLD_BINDING, PPTO_HERE);
    for (size_t i = 0; p->plan && p->outputs && i < p->plan->flat.outputs.n; i++)
        pp_array_drop(p->outputs[i], PP_HOLD_BINDING, PPTO_HERE);
    for (size_t i = 0; p->plan && p->sinks && i < p->plan->flat.outputs.n; i++) pp_free(p->sinks[i]);
    for (size_t i = 0; p->plan && p->names && i < p->plan->flat.outputs.n; i++) pp_free(p->names[i]);
    for (size_t i = 0; i < p->n_known; i++) pp_free(p->known_names[i]);
    pp_free(p->sinks);
    pp_free(p->names);
    pp_free(p->file_at);
    pp_free(p->file_origin);
    pp_program_free_origins(p);
    pp_plan_release(p->plan);
    pp_free(p->known_names);
    pp_free(p->inputs);
    pp_free(p->outputs);
    pp_free(p->donated);
    pp_free(p->key);
    pp_free(p->literals);
    pp_vec_free(&p->log);
    if (!p->whole) pp_trace_leave(p->source); /* a part borrows it */
    pp_track_forget(p);
    pp_free(p);
}

size_t ppto_program_inputs(const ppto_program *p)
{
    return p ? p->plan->inputs.n : 0;
}
size_t ppto_program_outputs(const ppto_program *p)
{
    return p ? p->plan->flat.outputs.n : 0;
}
const char *ppto_program_input_name(const ppto_program *p, size_t i)
{
    return p && i < p->plan->inputs.n ? p->plan->inputs.at[i].name : NULL;
}

bool pp_program_take(ppto_program *p)
{
    if (atomic_exchange_explicit(&p->running, true, memory_order_acquire)) return false;
    __atomic_store_n(&p->cancel, 0, __ATOMIC_RELAXED);
    return true;
}

void pp_program_give(ppto_program *p)
{
    atomic_store_explicit(&p->running, false, memory_order_release); /* pairs with the exchange above */
}

/* While a run has the program it is not to be changed or read. */
static bool is_busy(const ppto_program *p)
{
    return atomic_load_explicit(&p->running, memory_order_acquire);
}

static ppto_status busy(const char *what)
{
    return pp_report_new(
        PPTO_E_BUSY, "%s: the program is running; wait for its run, or compile another of its outputs", what);
}

static ppto_status free_to_use(const ppto_program *p, const char *what)
{
    PP_TRY(pp_context_refuses(p->ctx));
    return is_busy(p) ? busy(what) : PPTO_OK;
}

/* ---- binding
 * ---------------------------------------------------------------------------------------------------------
 */

static void replace(ppto_site site, ppto_array **slot, ppto_array *array)
{
    if (*slot == array) return;
    pp_array_hold(array, PP_HOLD_BINDING, site);
    pp_array_drop(*slot, PP_HOLD_BINDING, site);
    *slot = array;
}

ppto_status ppto_program_bind_at(ppto_site site, ppto_program *p, size_t i, ppto_array *array)
{
    if (!p || i >= p->plan->inputs.n) return pp_report_new(PPTO_E_VALUE, "bind: there is no input %zu", i);
    if (array && array->ctx != p->ctx)
        return pp_report_new(PPTO_E_VALUE, "bind: the array belongs to another context");
    PP_TRY(free_to_use(p, "bind"));
    p->settled = false;
    replace(site, &p->inputs[i], array);
    return PPTO_OK;
}

ppto_status ppto_program_bind_name_at(ppto_site site, ppto_program *p, const char *name, ppto_array *array)
{
    if (!p || !name) return pp_report_new(PPTO_E_VALUE, "bind: an argument is NULL");
    for (size_t i = 0; i < p->plan->inputs.n; i++)
        if (strcmp(p->plan->inputs.at[i].name, name) == 0) return ppto_program_bind_at(site, p, i, array);
    for (size_t i = 0; i < p->n_known; i++)
        if (strcmp(p->known_names[i], name) == 0) return PPTO_OK;
    return pp_report_new(PPTO_E_NAME, "bind: there is no input named \"%s\"", name);
}

ppto_status ppto_program_donate(ppto_program *p, size_t i, bool donate)
{
    if (!p || i >= p->plan->inputs.n) return pp_report_new(PPTO_E_VALUE, "donate: there is no input %zu", i);
    PP_TRY(free_to_use(p, "donate"));
    p->settled = false;
    p->donated[i] = donate;
    return PPTO_OK;
}

/* What goes there now is not the graph's. */
static void forget_sink(ppto_program *p, size_t i)
{
    p->file_at[p->plan->inputs.n + i] = 0;
    p->file_origin[p->plan->inputs.n + i] = (pp_origin){NULL, {NULL, NULL, 0, 0}, 0};
}

ppto_status ppto_program_bind_output_at(ppto_site site, ppto_program *p, size_t i, ppto_array *array)
{
    if (!p || i >= p->plan->flat.outputs.n)
        return pp_report_new(PPTO_E_VALUE, "bind: there is no output %zu", i);
    if (array && (array->ctx != p->ctx || !pp_array_contiguous(array)))
        return pp_report_new(PPTO_E_VALUE,
                             "bind: an output must be a row-major array of the program's context");
    PP_TRY(free_to_use(p, "bind"));
    p->settled = false;
    replace(site, &p->outputs[i], array);
    if (array) {
        pp_free(p->sinks[i]);
        p->sinks[i] = NULL;
        forget_sink(p, i);
    }
    return PPTO_OK;
}

ppto_status ppto_program_bind_sink(ppto_program *p, size_t i, const char *path)
{
    if (!p || i >= p->plan->flat.outputs.n)
        return pp_report_new(PPTO_E_VALUE, "bind: there is no output %zu", i);
    PP_TRY(free_to_use(p, "bind"));
    for (size_t k = 0; path && k < p->plan->flat.outputs.n; k++)
        if (k != i && p->sinks[k] && pp_files_same(p->sinks[k], path))
            return pp_report_new(PPTO_E_VALUE, "bind: outputs %zu and %zu both go to %s", k, i, path);
    pp_error why = {.code = PPTO_OK};
    if (path && pp_files_can_write(path, &why) != PPTO_OK)
        return pp_report_new(PPTO_E_VALUE, "bind: %.200s: %s", path, why.text);
    char *own = path ? pp_strdup(path) : NULL;
    if (path && !own) return pp_report_new(PPTO_E_NOMEM, "out of memory");
    p->settled = false;
    pp_free(p->sinks[i]);
    p->sinks[i] = own;
    forget_sink(p, i);
    if (own) replace(PPTO_HERE, &p->outputs[i], NULL);
    return PPTO_OK;
}

/* ---- running
 * ------------------------------------------------------------------------------------------------------------
 */

ppto_status ppto_program_prepare(ppto_program *p)
{
    pp_error err = {0};
    uint64_t bytes;
    if (!p) return pp_report_new(PPTO_E_VALUE, "prepare: the program is NULL");
    PP_TRY(pp_context_refuses(p->ctx));
    for (size_t i = 0; i < p->plan->inputs.n; i++)
        if (!p->inputs[i])
            return pp_report_new(PPTO_E_NAME, "prepare: input %s is not bound", p->plan->inputs.at[i].name);
    if (!pp_program_take(p)) return busy("prepare");
    if (pp_run_prepare(p, &bytes, &err) == PPTO_OK) {
        pp_loop_store_settle();
        pp_run_count_code(p);
    }
    pp_program_give(p);
    return pp_report(&err);
}

void ppto_program_cancel(ppto_program *p)
{
    if (p) __atomic_store_n(&p->cancel, 1, __ATOMIC_RELAXED); /* a flag that orders nothing */
}

/* Its place among the runs of the context: on its streams, and for memory when others run by themselves. */
static ppto_status enter(ppto_program *p, pp_ticket **ticket, pp_error *err)
{
    if (atomic_load_explicit(&p->ctx->drivers, memory_order_acquire))
        return pp_admission_enter(p, *ticket, err);
    *ticket = NULL;
    return p->sync ? pp_sync_enter(p->sync, 0, err) : PPTO_OK;
}

ppto_status ppto_program_run_at(ppto_site site, ppto_program *p, ppto_array **outputs)
{
    pp_error err;
    pp_ticket own, *ticket = &own;
    pp_error_clear(&err);
    if (!p) return pp_report_new(PPTO_E_VALUE, "run: the program is NULL");
    if (p->sync && pp_dispatch_inside())
        return pp_report_new(PPTO_E_WOULD_DEADLOCK, "run: from inside a run or a callback");
    PP_TRY(pp_context_refuses(p->ctx));
    if (!pp_program_take(p)) return busy("run");
    ppto_status status = enter(p, &ticket, &err);
    const pp_run_control control = {.cancel = p->stop, .taker = PP_HOLD_USER, .site = site};
    if (status == PPTO_OK) status = pp_run_program(p, outputs, &control, ticket, &err);
    pp_program_give(p);
    return pp_report(&err);
}

ppto_status ppto_program_stats(const ppto_program *p, ppto_stats *stats)
{
    if (!p || !stats || stats->size == 0)
        return pp_report_new(PPTO_E_VALUE, "stats: set stats->size to sizeof(ppto_stats)");
    PP_TRY(free_to_use(p, "stats"));
    size_t size = stats->size < sizeof *stats ? stats->size : sizeof *stats;
    memcpy(stats, &p->stats, size);
    stats->size = size;
    return PPTO_OK;
}

/* ---- task log
 * --------------------------------------------------------------------------------------------------------------
 */

ppto_status ppto_program_log_tasks(ppto_program *p, bool on)
{
    if (!p) return pp_report_new(PPTO_E_VALUE, "the program is NULL");
    PP_TRY(free_to_use(p, "task log"));
    if (on && pp_vec_reserve(&p->log, 65536) != PPTO_OK) return pp_report_new(PPTO_E_NOMEM, "out of memory");
    p->log_on = on;
    p->log_n = 0;
    return PPTO_OK;
}

ppto_status ppto_program_task_log(const ppto_program *p, char **text)
{
    pp_text out = {0};
    if (!p || !text) return pp_report_new(PPTO_E_VALUE, "an argument is NULL");
    PP_TRY(free_to_use(p, "task log"));
    pp_text_add(&out, "%s", "");
    for (size_t i = 0; i < p->log_n; i++) {
        const pp_task_record *r = &p->log.at[i];
        pp_text_add(&out, "%u %u %u %u %lld %lld\n", r->step, r->phase, r->task, r->worker,
                    (long long)r->start_ns, (long long)r->end_ns);
    }
    *text = out.failed ? NULL : out.at;
    if (!out.failed) return PPTO_OK;
    pp_text_free(&out);
    return pp_report_new(PPTO_E_NOMEM, "out of memory");
}
