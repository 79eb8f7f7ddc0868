/* SPDX-License-Identifier: Apache-2.0
 * One run: check what is bound, fix the sizes, find the memory, bind pointers and numbers, dispatch, hand the
 * results over. Read pp_run_program. */
#include <string.h>

#include "devices/cpu/loop_store.h"
#include "runtime/file_steps.h"
#include "runtime/run_parts.h"

/* Inputs that are read linearly must be row-major: copied when they are not, and the copy is counted and
 * logged. */
static ppto_status pack_inputs(pp_run_state *r)
{
    for (size_t i = 0; i < r->plan->inputs.n; i++) {
        ppto_array *bound = r->p->inputs[i];
        if (!bound) return pp_fail(r->err, PPTO_E_NAME, "input %s is not bound", r->plan->inputs.at[i].name);
        r->inputs[i] = bound;
        if (bound->file) continue; /* rows, as they will be read */
        if (!r->plan->contiguous[i] || pp_array_contiguous(bound)) continue;
        r->inputs[i] = NULL;
        const pp_tag tag = {.kind = PP_BLOCK_COPY,
                            .operator_name = r->plan->inputs.at[i].name,
                            .dtype = ppto_dtype_name(bound->dtype),
                            .reason = "the input is not row-major, and a reshape needs it so",
                            .hold = PP_HOLD_PENDING};
        PP_TRY(pp_array_new(r->p->ctx, &tag, bound->dtype, bound->rank, bound->shape, &r->inputs[i], r->err));
        pp_array_pack(bound, r->inputs[i]->data);
        r->copied += r->inputs[i]->bytes;
        pp_log_line(&r->p->ctx->log, 2, "copied input %s (%zu bytes): a reshape needs it row-major",
                    r->plan->inputs.at[i].name, r->inputs[i]->bytes);
    }
    return PPTO_OK;
}

static ppto_status get_instance(pp_run_state *r, size_t n_key)
{
    pp_stage_note note = {.stage = PP_PLAN_LAYOUT, .start_ns = r->p->source ? pp_clock_ns() : 0};
    if (r->control) pp_loop_store_until(r->control->cancel, r->control->deadline_ns);
    const ppto_status status = pp_instance_get(r->p, r->inputs, r->p->key, n_key, &r->p->instance, r->err);
    pp_loop_store_until(NULL, 0);
    PP_TRY(status);
    if (!r->p->source) return PPTO_OK;
    note.end_ns = pp_clock_ns();
    note.cache = r->p->instance->is_new ? PP_CACHE_MISS : PP_CACHE_HIT;
    if (r->tracing.source) pp_tracing_stage(r->p, &note);
    return PPTO_OK;
}

/* The instance for the sizes and strides of what is bound. */
static ppto_status fix_sizes(pp_run_state *r)
{
    size_t n = pp_instance_key_size(r->plan);
    PP_TRY(pp_instance_key(r->p, r->inputs, r->p->key, r->err));
    if (r->p->instance && memcmp(r->p->instance->key, r->p->key, n * sizeof *r->p->key) != 0) {
        pp_instance_put(r->p->instance);
        r->p->instance = NULL;
    }
    if (!r->p->instance) PP_TRY(get_instance(r, n));
    r->in = r->p->instance;
    return PPTO_OK;
}

static void *place_of(pp_run_state *r, const pp_bound *bound)
{
    if (bound->from == PP_FROM_INPUT) return r->inputs[bound->which]->data;
    if (bound->from == PP_FROM_OUTPUT) return r->results[bound->which]->data;
    return (char *)r->slab + r->in->layout.offset[bound->which];
}

ppto_status pp_run_bind_groups(pp_run_state *r)
{
    for (size_t g = 0; g < r->plan->fused.groups.n; g++) {
        pp_instance_group *group = &r->in->groups[g];
        pp_lowered *l = &r->plan->lowered[g];
        for (size_t t = 0; t < l->tensors.n; t++) group->tensors[t].data = place_of(r, &group->bound[t]);
        for (size_t a = 0; a < l->args.n; a++)
            group->args[a] = pp_number_value(r->plan, r->in->value, l->args.at[a].prim);
        void *shared = group->shared_buffer == UINT32_MAX
                           ? NULL
                           : (char *)r->slab + r->in->layout.offset[group->shared_buffer];
        pp_binding binding = {group->slots, group->tensors, group->args};
        atomic_store_explicit(&group->ran, false, memory_order_relaxed);
        group->progress = r->control->run && !r->p->whole ? &r->p->progress : NULL;
        PP_TRY(group->device->bind(group->launch, &binding, shared));
    }
    return PPTO_OK;
}

/* A run that nobody watched, or that was stopped, also tells how far it came. */
static void tell_failure(pp_run_state *r, uint32_t step, ppto_status status, const char *text)
{
    char place[PP_SITE_ROOM] = "";
    pp_text where = {0}, values = {0};
    const pp_origin *origin = pp_step_origin(r->p, r->in->schedule, step);
    bool known = origin && origin->site.file;
    if (r->control->run || !origin) pp_run_where(r, &where);
    if (known) pp_site_text(&origin->site, place, sizeof place);
    if (origin) pp_instance_add_values(r->plan, r->in->names, text, &values);
    (void)pp_fail(r->err, status, "%s%s%s%s%s%s%s", origin ? origin->operator_name : "", origin ? ": " : "",
                  text, values.at ? values.at : "", known ? "\n  recorded at " : "", place,
                  where.at && !where.failed ? where.at : "");
    pp_text_free(&values);
    pp_text_free(&where);
}

ppto_status pp_run_dispatch(pp_run_state *r)
{
    ppto_program *p = r->p;
    uint32_t failed = UINT32_MAX;
    pp_error inner;
    pp_run_options options = {.log = p->log_on ? p->log.at : NULL, .log_cap = p->log.cap, .log_n = &p->log_n};
    pp_error_clear(&inner);
    p->log_n = 0;
    r->in->sync = p->sync;
    r->in->program = p;
    r->in->inputs = r->inputs;
    r->in->results = r->results;
    pp_file_steps_begin(r->in);
    options.cancel = r->control->cancel;
    options.deadline_ns = r->control->deadline_ns;
    options.keep_going = r->control->keep_going;
    options.poll_ns = PP_CANCEL_POLL_NS;
    options.number = r->control->run ? ppto_run_number(r->control->run) : 0;
    if (r->tracing.source) options.ran = pp_tracing_ran;
    options.ran_arg = &r->tracing;
    if (r->control->run) pp_run_watch(r->control->run, r->in->dispatch);
    r->dispatched = true;
    ppto_status status = pp_dispatch_run(r->in->dispatch, &options, &failed, &inner);
    if (r->control->run) pp_run_watch(r->control->run, NULL);
    if (status == PPTO_OK) return PPTO_OK;
    r->partly = options.keep_going;
    tell_failure(r, failed, status, inner.text[0] ? inner.text : ppto_status_text(status));
    return status;
}

void pp_run_note_code(ppto_program *p)
{
    const pp_code_count *code = &p->code;
    ppto_stats *s = &p->stats;
    s->tier = code->compiled == 0 ? "interp" : code->compiled == code->loops ? "jit" : "mixed";
    s->loops = code->loops;
    s->compiled_loops = code->compiled;
    s->disk_hits = code->from_disk;
    s->compile_seconds = (p->plan_hit ? 0 : p->plan->compile_seconds) + (double)code->compile_ns * 1e-9;
}

/* What runs as machine code by now; the time goes to the first run that sees it compiled. */
void pp_run_count_code(ppto_program *p)
{
    p->code = (pp_code_count){0};
    for (size_t g = 0; g < p->plan->fused.groups.n; g++) {
        const pp_instance_group *group = &p->instance->groups[g];
        if (group->device->count_code) group->device->count_code(group->launch, &p->code, NULL);
    }
    pp_run_note_code(p);
}

static void count_launches(pp_run_state *r)
{
    ppto_stats *s = &r->p->stats;
    s->launches = 0; /* groups that only copy are no kernels of the plan's count */
    s->reads_bytes = s->writes_bytes = 0;
    for (size_t g = 0; g < r->plan->fused.groups.n; g++) {
        const pp_device_class *device = r->in->groups[g].device;
        uint64_t reads = 0, writes = 0;
        s->launches +=
            atomic_load_explicit(&r->in->groups[g].ran, memory_order_relaxed) && !pp_plan_is_copy(r->plan, g);
        if (device->counted) device->counted(r->in->groups[g].launch, &reads, &writes);
        s->reads_bytes += reads;
        s->writes_bytes += writes;
    }
    pp_run_count_code(r->p);
}

bool pp_run_is_there(const pp_run_state *r, size_t output)
{
    uint32_t group = r->plan->fused.stored_in[r->plan->flat.outputs.at[output]];
    if (r->region && pp_region_output_lost(r->region, output)) return false;
    return !r->partly || (group != PP_NONE &&
                          pp_dispatch_succeeded(r->in->dispatch, r->in->schedule->step_of_group[group]));
}

/* Results that are the same value twice, and arrays of the caller that an input lies in. */
void pp_run_hand_over(pp_run_state *r, ppto_array **outputs)
{
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++) {
        if (!pp_run_is_there(r, i)) continue;
        ppto_array *given = r->p->outputs[i], *written = r->results[pp_run_first_of(r, i)];
        ppto_array *own = given ? given : r->results[i] ? r->results[i] : written;
        if (!own) continue; /* it went to a file by pieces */
        if (own != written) memcpy(own->data, written->data, (size_t)r->in->output_bytes[i]);
        if (outputs && !r->p->sinks[i]) outputs[i] = pp_array_hold(own, r->control->taker, r->control->site);
    }
}

ppto_status pp_run_prepare(ppto_program *p, uint64_t *bytes, pp_error *err)
{
    pp_run_state r = {.p = p, .plan = p->plan, .inputs = p->inputs, .err = err};
    PP_TRY(fix_sizes(&r));
    *bytes = r.in->layout.bytes + r.in->scratch_bytes;
    return PPTO_OK;
}

/* Where the run reads inputs before its first step, its streams must be its own. */
static ppto_status before_reading(const pp_run_state *r)
{
    bool any = false;
    for (size_t i = 0; i < r->plan->inputs.n; i++) {
        const ppto_array *a = r->p->inputs[i];
        any |= a && a->file && pp_input_is_number(r->plan, i);
        any |= a && !a->file && r->plan->contiguous[i] && !pp_array_contiguous(a);
    }
    return any ? pp_sync_pass(r->p->sync, r->control, r->err) : PPTO_OK;
}

bool pp_run_writes_after(const pp_run_state *r)
{
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++) {
        const ppto_array *given = r->p->outputs[i];
        if ((r->p->sinks[i] && r->p->file_at[r->plan->inputs.n + i] == 0) ||
            (given && given != r->results[pp_run_first_of(r, i)]))
            return true;
    }
    return false;
}

/* Of a run that fails as a whole: what could not be stored need not be computed. */
static ppto_status check_sinks(const pp_run_state *r)
{
    for (size_t i = 0; !r->control->keep_going && i < r->plan->flat.outputs.n; i++) {
        pp_file_name name = {0};
        pp_error why = {.code = PPTO_OK};
        if (!r->p->sinks[i]) continue;
        ppto_status status = pp_file_name_read(r->p->sinks[i], &name, &why);
        if (status == PPTO_OK) status = pp_sink_check(name.path, &why);
        pp_file_name_free(&name);
        if (status != PPTO_OK) return pp_fail_of_file(r->err, status, r->p->sinks[i], &why);
    }
    return PPTO_OK;
}

/* Of two results in one place the second would overwrite the first. */
static ppto_status check_outputs(const pp_run_state *r)
{
    ppto_array *const *bound = r->p->outputs;
    for (size_t i = 1; i < r->plan->flat.outputs.n; i++)
        for (size_t k = 0; bound[i] && k < i; k++)
            if (bound[k] && pp_arrays_overlap(bound[i], bound[k]))
                return pp_fail(r->err, PPTO_E_VALUE,
                               "run: outputs %zu and %zu are bound to one array, or to parts that overlap", k,
                               i);
    return PPTO_OK;
}

ppto_status pp_run_take_slab(pp_run_state *r)
{
    ppto_status status = pp_pool_take_placed(r->p->ctx->pool, (size_t)r->in->layout.bytes, r->in->lies,
                                             &r->in->slab, &r->slab, r->err);
    if (status != PPTO_OK) pp_memcheck_blame(r->p->ctx, r->err);
    return status;
}

static ppto_status run_all(pp_run_state *r, ppto_array **outputs)
{
    pp_pool *pool = r->p->ctx->pool;
    pp_pool_counters before, after;
    r->p->settled = false;
    r->p->stats.pieces = 0;
    if (!r->p->whole) PP_TRY(check_sinks(r));
    PP_TRY(check_outputs(r));
    if (r->p->sync) PP_TRY(before_reading(r));
    PP_TRY(pack_inputs(r));
    PP_TRY(fix_sizes(r));
    pp_run_adopt(r);
    pp_run_predict(r);
    if (pp_run_by_pieces(r)) {
        bool done;
        ppto_status status = pp_run_try_pieces(r, outputs, &done);
        if (done || status != PPTO_OK) return status;
    }
    if (!r->p->whole) pp_progress_begin(&r->p->progress, pp_run_whole_work(r));
    PP_TRY(pp_run_check_limit(r));
    if (r->ticket) PP_TRY(pp_run_admit(r, pp_run_file_bytes(r)));
    PP_TRY(pp_run_load_files(r));
    pp_run_predict(r);
    PP_TRY(pp_run_check_limit(r));
    PP_TRY(pp_numbers_eval(r->plan, r->in->names, r->inputs, r->p->literals, r->in->value, r->err));
    PP_TRY(pp_tracing_plan(&r->tracing, r->p, r->in->key, r->in->n_key));
    if (r->p->uncounted) pp_instance_count(r->in, false);
    PP_TRY(pp_dispatch_reserve(r->in->dispatch, r->err));
    pp_pool_count(pool, &before);
    uint64_t held = pp_run_owned_bytes(r->inputs, r->plan->inputs.n) +
                    pp_run_owned_bytes(r->p->outputs, r->plan->flat.outputs.n) + r->in->scratch_bytes;
    pp_pool_reset_peak(pool);
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++) PP_TRY(pp_run_find_result(r, i));
    PP_TRY(pp_run_take_slab(r));
    PP_TRY(pp_run_bind_groups(r));
    if (r->ticket) pp_admission_settle(r->p->ctx, r->ticket);
    if (r->p->sync) r->p->sync->defers = pp_run_writes_after(r);
    ppto_status status = pp_run_dispatch(r);
    pp_run_let_go(r);
    status = pp_run_keep_files(r, status);
    if (r->partly) pp_run_hand_over(r, outputs);
    if (r->partly || (status != PPTO_OK && !pp_run_goes_on(r, status))) return status;
    pp_pool_count(pool, &after);
    r->p->stats.measured_peak_bytes = after.peak_bytes - before.current_bytes + held;
    r->p->stats.copied_bytes = r->copied;
    count_launches(r);
    pp_run_settle(r);
    pp_run_hand_over(r, outputs);
    return status;
}

static ppto_status run_entered(ppto_program *p, ppto_array **outputs, const pp_run_control *control,
                               pp_ticket *ticket, pp_error *err)
{
    enum { SMALL = 16 };
    ppto_array *small[2 * SMALL] = {NULL}, **room = small;
    size_t n_in = p->plan->inputs.n, n_out = p->plan->flat.outputs.n;
    int64_t start = pp_clock_ns();
    for (size_t i = 0; outputs && i < n_out; i++) outputs[i] = NULL;
    for (size_t i = 0; !outputs && i < n_out; i++)
        if (!p->outputs[i] && !p->sinks[i])
            return pp_fail(err, PPTO_E_VALUE, "run: output %zu is not bound and nobody takes it", i);
    if (n_in + n_out > 2 * SMALL && !(room = pp_calloc(n_in + n_out, sizeof *room))) return PPTO_E_NOMEM;
    pp_run_state r = {.p = p,
                      .plan = p->plan,
                      .inputs = room,
                      .results = room + n_in,
                      .control = control,
                      .ticket = ticket,
                      .err = err};
    p->control = control;
    bool watched = p->ctx->ledger != NULL;
    for (size_t i = 0; watched && i < n_in; i++) pp_array_note(p->inputs[i], PP_HOLD_PENDING, control->site);
    pp_tracing_begin(&r.tracing, p);
    ppto_status status = run_all(&r, outputs);
    pp_run_where_stopped(&r, status);
    p->control = NULL;
    if (watched && !p->whole)
        pp_ledger_ran(p->ctx->ledger, p->stats.pieces ? p->stats.launches : p->plan->fused.groups.n);
    if (r.slab) pp_pool_give(p->ctx->pool, r.slab, (size_t)r.in->layout.bytes);
    if (r.in && p->uncounted) pp_instance_count(r.in, true);
    if (r.in && pp_pool_get_limit(p->ctx->pool) != 0) pp_dispatch_give_back(r.in->dispatch);
    for (size_t i = 0; i < n_in; i++) {
        if (watched) pp_array_forget(p->inputs[i], PP_HOLD_PENDING, control->site);
        if (r.inputs[i] != p->inputs[i]) pp_array_drop(r.inputs[i], PP_HOLD_PENDING, control->site);
    }
    for (size_t i = 0; i < n_out; i++) pp_array_drop(r.results[i], PP_HOLD_PENDING, control->site);
    if (room != small) pp_free(room);
    pp_tracing_end(&r.tracing, status, err);
    p->stats.run_seconds = (double)(pp_clock_ns() - start) * 1e-9;
    return status;
}

ppto_status pp_run_program(ppto_program *p, ppto_array **outputs, const pp_run_control *control,
                           pp_ticket *ticket, pp_error *err)
{
    ppto_status status = pp_run_is_settled(p, outputs, control, ticket)
                             ? pp_run_again(p, control, err)
                             : run_entered(p, outputs, control, ticket, err);
    if (status != PPTO_OK) pp_fail(err, status, "%s", ppto_status_text(status));
    if (ticket) pp_admission_leave(p->ctx, ticket);
    if (p->sync) pp_sync_leave(p->sync, err);
    if (!p->whole) pp_executor_left(p->ctx->executor);
    return status;
}
