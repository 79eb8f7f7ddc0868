/* SPDX-License-Identifier: Apache-2.0
 * One run: check what is bound, fix the sizes, find the memory, bind pointers and numbers, dispatch, hand the
 * results over. Read pp_run_program. */
#include <string.h>

#include "base/fault.h"
#include "runtime/sync.h"
#include "runtime/tracing.h"

typedef struct run {
    ppto_program *p;
    pp_plan *plan;
    pp_instance *in;
    ppto_array **inputs;  /* as bound, or packed copies */
    ppto_array **results; /* where kernels write */
    void *slab;
    uint64_t copied;
    const pp_run_control *control;
    pp_ticket *ticket; /* NULL: there is no order of admission */
    bool partly;       /* it failed, but some outputs are there */
    pp_tracing tracing;
    pp_error *err;
} run;

static bool overlap(const ppto_array *a, const ppto_array *b)
{
    const char *alo, *ahi, *blo, *bhi;
    pp_array_extent(a, &alo, &ahi);
    pp_array_extent(b, &blo, &bhi);
    return alo && blo && alo < bhi && blo < ahi;
}

/* Inputs that are read linearly must be row-major: copied when they are not, and the copy is counted and
 * logged. */
static ppto_status pack_inputs(run *r)
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

static ppto_status fix_sizes(run *r)
{
    size_t n = pp_instance_key_size(r->plan);
    PP_TRY(pp_instance_key(r->plan, r->inputs, r->p->key, r->err));
    if (r->p->instance && memcmp(r->p->instance->key, r->p->key, n * sizeof *r->p->key) != 0) {
        pp_instance_put(r->p->instance);
        r->p->instance = NULL;
    }
    if (!r->p->instance) PP_TRY(pp_instance_get(r->plan, r->inputs, r->p->key, n, &r->p->instance, r->err));
    r->in = r->p->instance;
    return PPTO_OK;
}

static uint64_t owned_bytes(ppto_array *const *arrays, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        bool again = false;
        for (size_t j = 0; j < i; j++) again |= arrays[j] == arrays[i];
        if (arrays[i] && arrays[i]->owned && !again) sum += arrays[i]->bytes;
    }
    return sum;
}

/* The first output that is the same value as output i. */
static size_t first_of(const run *r, size_t i)
{
    size_t j = 0;
    while (r->plan->flat.outputs.at[j] != r->plan->flat.outputs.at[i]) j++;
    return j;
}

static bool is_repeated(const run *r, size_t output)
{
    return first_of(r, output) < output;
}

/* May output i take over the memory of donated input k? Only the program may know the array, and nothing else
 * that is bound may lie there. */
static bool may_adopt(const run *r, size_t i, size_t k)
{
    const ppto_array *a = r->p->inputs[k];
    if (!r->p->donated[k] || a != r->inputs[k] || !a->owned || a->number) return false;
    if (a->bytes != r->in->output_bytes[i] || atomic_load_explicit(&a->refs, memory_order_acquire) != 1)
        return false;
    for (size_t j = 0; j < r->plan->inputs.n; j++)
        if (j != k && overlap(a, r->inputs[j])) return false;
    for (size_t j = 0; j < r->plan->flat.outputs.n; j++)
        if (r->p->outputs[j] && overlap(a, r->p->outputs[j])) return false;
    return true;
}

/* The donated input whose memory output i takes over: read by one tensor of one group alone, which stores the
 * output in place of it. PP_NONE: none. */
static uint32_t donor_of(const run *r, size_t i)
{
    uint32_t output = r->plan->flat.outputs.at[i], group = r->plan->fused.stored_in[output], to = 0;
    if (group == PP_NONE || r->p->outputs[i] || is_repeated(r, i)) return PP_NONE;
    const pp_lowered *l = &r->plan->lowered[group];
    while (to < l->tensors.n && !(l->tensors.at[to].prim == output && l->tensors.at[to].output)) to++;
    for (uint32_t t = 0; to < l->tensors.n && t < l->tensors.n; t++) {
        const pp_prim *p = &r->plan->flat.prims.at[l->tensors.at[t].prim];
        if (p->kind != PP_P_INPUT || l->tensors.at[t].output || r->plan->readers[p->number] != 1) continue;
        if (may_adopt(r, i, p->number) && pp_lowered_takes(l, to, t)) return p->number;
    }
    return PP_NONE;
}

/* Results that go where a donated input lies. Two outputs never get one input: the first makes a reference.
 */
static void adopt(run *r)
{
    bool any = false;
    for (size_t k = 0; k < r->plan->inputs.n; k++) any |= r->p->donated[k];
    for (size_t i = 0; any && i < r->plan->flat.outputs.n; i++) {
        uint32_t k = donor_of(r, i);
        if (k != PP_NONE) r->results[i] = pp_array_hold(r->p->inputs[k], PP_HOLD_PENDING, r->control->site);
    }
}

/* For memcheck: its memory holds another value now. */
static void renew(const run *r, size_t i)
{
    if (!r->p->ctx->ledger) return;
    const pp_tag tag = pp_tag_of_output(r->p, i);
    pp_ledger_renew(r->p->ctx->ledger, r->results[i]->data, &tag);
}

/* After the kernels ran: what was adopted is an output, and no input any more. */
static void let_go(run *r)
{
    for (size_t k = 0; k < r->plan->inputs.n; k++)
        for (size_t i = 0; r->p->donated[k] && i < r->plan->flat.outputs.n; i++) {
            if (!r->results[i] || r->results[i] != r->p->inputs[k]) continue;
            const pp_type *type = pp_flat_type(&r->plan->flat, r->plan->flat.outputs.at[i]);
            r->results[i]->dtype = (ppto_dtype)type->dtype;
            renew(r, i);
            pp_array_forget(r->results[i], PP_HOLD_BINDING, r->control->site);
            r->p->inputs[k] = NULL; /* its reference goes with r->inputs */
        }
}

/* Bytes from ppto's pools during the run, as docs/memory.md counts them. */
static void predict(run *r)
{
    uint64_t inputs = owned_bytes(r->inputs, r->plan->inputs.n), outputs = 0;
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++) {
        if (r->results[i]) continue; /* a donated input, counted there */
        if (!is_repeated(r, i) || r->p->outputs[i] || r->p->outputs[first_of(r, i)])
            outputs += r->p->outputs[i] && !r->p->outputs[i]->owned ? 0 : r->in->output_bytes[i];
    }
    uint64_t fixed = inputs + outputs + r->in->scratch_bytes;
    r->p->stats.predicted_peak_bytes = fixed + r->in->layout.bytes;
    r->p->stats.lower_bound_bytes = fixed + r->in->layout.lower_bound;
    r->p->stats.serial_bound_bytes = fixed + r->in->layout.serial_bound;
}

static ppto_status check_limit(run *r)
{
    uint64_t limit = pp_pool_get_limit(r->p->ctx->pool), need = r->p->stats.predicted_peak_bytes;
    if (!limit || need <= limit) return PPTO_OK;
    pp_fail(r->err, PPTO_E_LIMIT,
            "the run needs %llu bytes, the memory limit is %llu; the least limit that would do is %llu",
            (unsigned long long)need, (unsigned long long)limit, (unsigned long long)need);
    pp_memcheck_blame(r->p->ctx, r->err);
    return PPTO_E_LIMIT;
}

/* For memcheck: a donated input would have done for output i, but was not free for it. NULL: none. */
static const char *why_not_adopted(const run *r, size_t i)
{
    for (size_t k = 0; k < r->plan->inputs.n; k++) {
        const ppto_array *a = r->p->inputs[k];
        if (!r->p->donated[k] || !a || a->bytes != r->in->output_bytes[i]) continue;
        return atomic_load_explicit(&a->refs, memory_order_relaxed) != 1
                   ? "the donated input has other holders"
                   : "the donated input is still read when the result is written";
    }
    return NULL;
}

/* Where a result goes: the array the caller gave, unless an input lies there; else a new one. */
static ppto_status find_result(run *r, size_t i)
{
    ppto_array *given = r->p->outputs[i];
    const int64_t *shape = r->in->output_shape + i * PPTO_MAX_RANK;
    const pp_type *type = pp_flat_type(&r->plan->flat, r->plan->flat.outputs.at[i]);
    size_t first = first_of(r, i);
    pp_tag room = {.kind = PP_BLOCK_RESULT}, *tag = NULL;
    if (r->p->ctx->ledger) *(tag = &room) = pp_tag_of_output(r->p, i);
    if (r->results[i] || (first < i && (given || !r->p->outputs[first])))
        return PPTO_OK; /* adopted; copied or shared */
    if (first < i)      /* the first one lies in the caller's array: this one gets memory of its own */
        return pp_array_new(r->p->ctx, tag, (ppto_dtype)type->dtype, type->rank, shape, &r->results[i],
                            r->err);
    if (given) {
        bool fits = given->dtype == type->dtype && given->rank == type->rank;
        for (int d = 0; fits && d < type->rank; d++) fits = given->shape[d] == shape[d];
        if (!fits)
            return pp_fail(r->err, PPTO_E_SHAPE, "output %zu: the array given has another shape or dtype", i);
        bool clash = false;
        for (size_t k = 0; k < r->plan->inputs.n; k++) clash |= overlap(given, r->inputs[k]);
        for (size_t j = 0; j < i; j++) clash |= r->results[j] && overlap(given, r->results[j]);
        if (!clash || pp_fault(PP_FAULT_OVERLAPPING_OUT)) {
            r->results[i] = pp_array_hold(given, PP_HOLD_PENDING, r->control->site);
            return PPTO_OK;
        }
        room.kind = PP_BLOCK_COPY;
        room.reason = "an input lies in the array given for the output";
        r->copied += r->in->output_bytes[i];
    } else if (tag) {
        room.reason = why_not_adopted(r, i);
    }
    return pp_array_new(r->p->ctx, tag, (ppto_dtype)type->dtype, type->rank, shape, &r->results[i], r->err);
}

static void *place_of(run *r, const pp_bound *bound)
{
    if (bound->from == PP_FROM_INPUT) return r->inputs[bound->which]->data;
    if (bound->from == PP_FROM_OUTPUT) return r->results[bound->which]->data;
    return (char *)r->slab + r->in->layout.offset[bound->which];
}

static ppto_status bind_groups(run *r)
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

static ppto_status dispatch(run *r)
{
    ppto_program *p = r->p;
    uint32_t failed = UINT32_MAX;
    pp_error inner = {0};
    pp_run_options options = {.log = p->log_on ? p->log.at : NULL, .log_cap = p->log.cap, .log_n = &p->log_n};
    p->log_n = 0;
    r->in->sync = p->sync;
    options.cancel = r->control->cancel;
    options.deadline_ns = r->control->deadline_ns;
    options.keep_going = r->control->keep_going;
    options.poll_ns = PP_CANCEL_POLL_NS;
    if (r->tracing.source) options.ran = pp_tracing_ran;
    options.ran_arg = &r->tracing;
    if (r->control->run) pp_run_watch(r->control->run, r->in->dispatch);
    ppto_status status = pp_dispatch_run(r->in->dispatch, &options, &failed, &inner);
    if (r->control->run) pp_run_watch(r->control->run, NULL);
    if (status == PPTO_OK) return PPTO_OK;
    r->partly = options.keep_going;
    const pp_origin *origin = pp_plan_step_origin(r->plan, failed);
    const char *text = inner.text[0] ? inner.text : ppto_status_text(status);
    if (!origin) return pp_fail(r->err, status, "%s", text);
    char place[PP_SITE_ROOM];
    if (origin->site.file)
        return pp_fail(r->err, status, "%s: %s\n  recorded at %s", origin->operator_name, text,
                       pp_site_text(&origin->site, place, sizeof place));
    return pp_fail(r->err, status, "%s: %s", origin->operator_name, text);
}

static void count_launches(run *r)
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
}

/* In a run that failed and went on: the step that stores the output did so. */
static bool is_there(const run *r, size_t output)
{
    uint32_t group = r->plan->fused.stored_in[r->plan->flat.outputs.at[output]];
    return !r->partly ||
           (group != PP_NONE && pp_dispatch_succeeded(r->in->dispatch, r->plan->step_of_group[group]));
}

/* Results that are the same value twice, and arrays of the caller that an input lies in. */
static void hand_over(run *r, ppto_array **outputs)
{
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++) {
        if (!is_there(r, i)) continue;
        ppto_array *given = r->p->outputs[i], *written = r->results[first_of(r, i)];
        ppto_array *own = given ? given : r->results[i] ? r->results[i] : written;
        if (!own) continue; /* it went to a file by pieces */
        if (own != written) memcpy(own->data, written->data, (size_t)r->in->output_bytes[i]);
        if (outputs && !r->p->sinks[i]) outputs[i] = pp_array_hold(own, r->control->taker, r->control->site);
    }
}

static bool over_limit(const run *r)
{
    uint64_t limit = pp_pool_get_limit(r->p->ctx->pool);
    return limit != 0 && r->p->stats.predicted_peak_bytes > limit;
}

enum { SMALL_FILES = 4 << 20 }; /* so little is read at once */

static uint64_t file_bytes(const run *r)
{
    uint64_t n = 0;
    for (size_t i = 0; i < r->plan->inputs.n; i++)
        if (r->inputs[i]->file) n += r->inputs[i]->file->reader.info.bytes;
    return n;
}

/* Of a run in one piece: what it loads, computes and saves. */
static uint64_t whole_work(const run *r)
{
    uint64_t n = file_bytes(r) + pp_progress_groups(r->in);
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++)
        if (r->p->sinks[i]) n += r->in->output_bytes[i];
    return n;
}

static bool by_pieces(const run *r)
{
    if (r->p->whole) return false;
    return r->p->ctx->settings.o.chunk != 0 || over_limit(r) || file_bytes(r) > SMALL_FILES;
}

/* What stays in files, into memory: for a run in one piece. */
static ppto_status load_files(run *r)
{
    const pp_files_watch watch = pp_progress_watch(r->p, r->control);
    for (size_t i = 0; i < r->plan->inputs.n; i++)
        if (r->inputs[i]->file) PP_TRY(pp_tracing_load(r->p, r->inputs[i], &r->inputs[i], &watch, r->err));
    return PPTO_OK;
}

static ppto_status save_sinks(run *r)
{
    const pp_files_watch watch = pp_progress_watch(r->p, r->control);
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++) {
        ppto_array *a = r->results[first_of(r, i)];
        if (r->p->sinks[i] && a) PP_TRY(pp_tracing_save(r->p, a, r->p->sinks[i], &watch, r->err));
    }
    return PPTO_OK;
}

/* A later pass may read what an earlier one wrote over: nothing is adopted. */
static void give_back(run *r)
{
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++) {
        pp_array_drop(r->results[i], PP_HOLD_PENDING, r->control->site);
        r->results[i] = NULL;
    }
    predict(r);
}

static ppto_status run_region(run *r, pp_region_run *region, ppto_array **outputs)
{
    ppto_stats *s = &r->p->stats;
    s->predicted_peak_bytes = pp_region_predicted(region);
    if (s->lower_bound_bytes > s->predicted_peak_bytes) s->lower_bound_bytes = s->predicted_peak_bytes;
    if (s->serial_bound_bytes > s->predicted_peak_bytes) s->serial_bound_bytes = s->predicted_peak_bytes;
    pp_pool_counters before;
    pp_pool_count(r->p->ctx->pool, &before);
    uint64_t held =
        owned_bytes(r->inputs, r->plan->inputs.n) + owned_bytes(r->p->outputs, r->plan->flat.outputs.n);
    if (r->ticket)
        PP_TRY(pp_admission_wait(r->p->ctx, r->ticket, s->predicted_peak_bytes, r->control, r->err));
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++)
        if (!pp_region_streams_output(region, i)) PP_TRY(find_result(r, i));
    if (r->p->sync) PP_TRY(pp_sync_pass(r->p->sync, r->control, r->err));
    PP_TRY(pp_region_execute(region, r->results));
    PP_TRY(save_sinks(r));
    s->measured_peak_bytes = pp_region_measured(region) - before.current_bytes + held;
    s->copied_bytes = r->copied;
    hand_over(r, outputs);
    return PPTO_OK;
}

/* Over the limit, and not to be cut: the operator that prevents it, and the limit that would do. */
static ppto_status cannot_be_cut(run *r, uint32_t culprit, const char *why)
{
    uint64_t need = r->p->stats.predicted_peak_bytes;
    const pp_origin *origin = culprit == PP_NONE ? NULL : pp_plan_origin(r->plan, culprit);
    pp_text text = {0};
    char place[PP_SITE_ROOM];
    pp_text_add(&text, "the run needs %llu bytes, the memory limit is %llu; it cannot go piece by piece",
                (unsigned long long)need, (unsigned long long)pp_pool_get_limit(r->p->ctx->pool));
    if (origin && origin->site.file)
        pp_text_add(&text, " because of %s (%s): %s", origin->operator_name,
                    pp_site_text(&origin->site, place, sizeof place), why);
    else if (origin)
        pp_text_add(&text, " because of %s: %s", origin->operator_name, why);
    else
        pp_text_add(&text, ": %s", why);
    pp_text_add(&text, "; the least limit that would do is %llu", (unsigned long long)need);
    ppto_status status = pp_fail(r->err, PPTO_E_LIMIT, "%s", text.at ? text.at : "over the memory limit");
    pp_text_free(&text);
    return status;
}

/* *done: the run was tried piece by piece, and the status is its own. */
static ppto_status try_pieces(run *r, ppto_array **outputs, bool *done)
{
    pp_region_run *region;
    pp_error why = {0};
    uint32_t culprit;
    give_back(r);
    uint64_t fixed = r->p->stats.predicted_peak_bytes - r->in->layout.bytes - r->in->scratch_bytes;
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++) /* the region knows which of these are ever whole */
        if (r->p->sinks[i] && !is_repeated(r, i)) fixed -= r->in->output_bytes[i];
    bool over = over_limit(r);
    pp_dispatch_destroy(r->in->dispatch); /* its workers' scratch is of more use to the pieces */
    r->in->dispatch = NULL;
    ppto_status status = pp_region_open(r->p, r->inputs, r->in->names, fixed, &region, &culprit, &why);
    *done = status != PPTO_E_UNSUPPORTED || over;
    if (status == PPTO_E_UNSUPPORTED && over) cannot_be_cut(r, culprit, why.text);
    if (status == PPTO_OK) status = run_region(r, region, outputs);
    pp_region_close(region);
    pp_instance_destroy(r->in); /* it cannot run any more */
    r->in = r->p->instance = NULL;
    if (!*done) return fix_sizes(r);
    return status == PPTO_OK
               ? status
               : pp_fail(r->err, status, "%s", why.text[0] ? why.text : ppto_status_text(status));
}

ppto_status pp_run_prepare(ppto_program *p, uint64_t *bytes, pp_error *err)
{
    run r = {.p = p, .plan = p->plan, .inputs = p->inputs, .err = err};
    PP_TRY(fix_sizes(&r));
    *bytes = r.in->layout.bytes + r.in->scratch_bytes;
    return PPTO_OK;
}

/* Where the run reads inputs before its first step, their streams must be its own: those of sources if
 * nothing else is read, else all. */
static ppto_status before_reading(const run *r)
{
    bool any = false, others = false;
    for (size_t i = 0; i < r->plan->inputs.n; i++) {
        const ppto_array *a = r->p->inputs[i];
        bool reads = a && (a->file || (r->plan->contiguous[i] && !pp_array_contiguous(a)));
        any |= reads;
        others |= reads && !(a->file && a->file->on_stream);
    }
    if (!any) return PPTO_OK;
    return others ? pp_sync_pass(r->p->sync, r->control, r->err)
                  : pp_sync_pass_loads(r->p->sync, r->control, r->err);
}

/* Does it write results after its last step, beside those whose stream says so? */
static bool writes_after(const run *r)
{
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++) {
        const ppto_array *given = r->p->outputs[i];
        if ((r->p->sinks[i] && !r->p->staged[i]) || (given && given != r->results[first_of(r, i)]))
            return true;
    }
    return false;
}

static ppto_status run_all(run *r, ppto_array **outputs)
{
    pp_pool *pool = r->p->ctx->pool;
    pp_pool_counters before, after;
    if (r->p->sync) PP_TRY(before_reading(r));
    PP_TRY(pack_inputs(r));
    PP_TRY(fix_sizes(r));
    adopt(r);
    predict(r);
    r->p->stats.pieces = 0;
    if (by_pieces(r)) {
        bool done;
        ppto_status status = try_pieces(r, outputs, &done);
        if (done || status != PPTO_OK) return status;
    }
    if (!r->p->whole) pp_progress_begin(&r->p->progress, whole_work(r));
    PP_TRY(load_files(r));
    predict(r);
    PP_TRY(check_limit(r));
    if (r->ticket)
        PP_TRY(pp_admission_wait(r->p->ctx, r->ticket, r->p->stats.predicted_peak_bytes, r->control, r->err));
    PP_TRY(pp_numbers_eval(r->plan, r->in->names, r->inputs, r->p->literals, r->in->value, r->err));
    PP_TRY(pp_tracing_plan(&r->tracing, r->p, r->in->names, r->in->n_names));
    pp_pool_count(pool, &before);
    uint64_t held = owned_bytes(r->inputs, r->plan->inputs.n) +
                    owned_bytes(r->p->outputs, r->plan->flat.outputs.n) + r->in->scratch_bytes;
    pp_pool_reset_peak(pool);
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++) PP_TRY(find_result(r, i));
    PP_TRY(pp_pool_take_as(pool, (size_t)r->in->layout.bytes, &r->in->slab, &r->slab, r->err));
    PP_TRY(bind_groups(r));
    if (r->p->sync) r->p->sync->defers = writes_after(r);
    ppto_status status = dispatch(r);
    let_go(r);
    if (r->partly) hand_over(r, outputs);
    PP_TRY(status);
    PP_TRY(save_sinks(r));
    pp_pool_count(pool, &after);
    r->p->stats.measured_peak_bytes = after.peak_bytes - before.current_bytes + held;
    r->p->stats.copied_bytes = r->copied;
    count_launches(r);
    hand_over(r, outputs);
    return PPTO_OK;
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
    run r = {.p = p,
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
    p->control = NULL;
    if (watched && !p->whole)
        pp_ledger_ran(p->ctx->ledger, p->stats.pieces ? p->stats.launches : p->plan->fused.groups.n);
    if (r.slab) pp_pool_give(p->ctx->pool, r.slab, (size_t)r.in->layout.bytes);
    for (size_t i = 0; i < n_in; i++) {
        if (watched) pp_array_forget(p->inputs[i], PP_HOLD_PENDING, control->site);
        if (r.inputs[i] != p->inputs[i]) pp_array_drop(r.inputs[i], PP_HOLD_PENDING, control->site);
    }
    for (size_t i = 0; i < n_out; i++) pp_array_drop(r.results[i], PP_HOLD_PENDING, control->site);
    if (room != small) pp_free(room);
    pp_tracing_end(&r.tracing, status);
    p->stats.run_seconds = (double)(pp_clock_ns() - start) * 1e-9;
    return status;
}

ppto_status pp_run_program(ppto_program *p, ppto_array **outputs, const pp_run_control *control,
                           pp_ticket *ticket, pp_error *err)
{
    ppto_status status = run_entered(p, outputs, control, ticket, err);
    if (status != PPTO_OK) pp_fail(err, status, "%s", ppto_status_text(status));
    if (ticket) pp_admission_leave(p->ctx, ticket);
    if (p->sync) pp_sync_leave(p->sync, err);
    return status;
}
