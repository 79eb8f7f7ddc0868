/* SPDX-License-Identifier: Apache-2.0
 * The memory of a run: what it will take, where results go, and which of them take over the memory of an
 * input that was donated. */
#include <string.h>

#include "base/fault.h"
#include "runtime/file_around.h"
#include "runtime/run_parts.h"

bool pp_arrays_overlap(const ppto_array *a, const ppto_array *b)
{
    const char *alo, *ahi, *blo, *bhi;
    pp_array_extent(a, &alo, &ahi);
    pp_array_extent(b, &blo, &bhi);
    return alo && blo && alo < bhi && blo < ahi;
}

uint64_t pp_run_owned_bytes(ppto_array *const *arrays, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        bool again = false;
        for (size_t j = 0; j < i; j++) again |= arrays[j] == arrays[i];
        if (arrays[i] && arrays[i]->owned && !again) sum += arrays[i]->bytes;
    }
    return sum;
}

ppto_status pp_run_admit(pp_run_state *r, uint64_t loads)
{
    uint64_t there = pp_run_owned_bytes(r->inputs, r->plan->inputs.n) +
                     pp_run_owned_bytes(r->p->outputs, r->plan->flat.outputs.n);
    uint64_t peak = r->p->stats.predicted_peak_bytes, takes = peak > there ? peak - there : 0;
    return pp_admission_wait(r->p->ctx, r->ticket, takes + loads, r->control, r->err);
}

/* The first output that is the same value as output i. */
size_t pp_run_first_of(const pp_run_state *r, size_t i)
{
    size_t j = 0;
    while (r->plan->flat.outputs.at[j] != r->plan->flat.outputs.at[i]) j++;
    return j;
}

bool pp_run_is_repeated(const pp_run_state *r, size_t output)
{
    return pp_run_first_of(r, output) < output;
}

/* May output i take over the memory of donated input k? Only the program may know the array, and nothing else
 * that is bound may lie there. */
static bool may_adopt(const pp_run_state *r, size_t i, size_t k)
{
    const ppto_array *a = r->p->inputs[k];
    if (!r->p->donated[k] || a != r->inputs[k] || !a->owned || a->number) return false;
    if (a->bytes != r->in->output_bytes[i] || atomic_load_explicit(&a->refs, memory_order_acquire) != 1)
        return false;
    for (size_t j = 0; j < r->plan->inputs.n; j++)
        if (j != k && pp_arrays_overlap(a, r->inputs[j])) return false;
    for (size_t j = 0; j < r->plan->flat.outputs.n; j++)
        if (r->p->outputs[j] && pp_arrays_overlap(a, r->p->outputs[j])) return false;
    return true;
}

/* The donated input whose memory output i takes over: read by one tensor of one group alone, which stores the
 * output in place of it. PP_NONE: none. */
static uint32_t donor_of(const pp_run_state *r, size_t i)
{
    uint32_t output = r->plan->flat.outputs.at[i], group = r->plan->fused.stored_in[output], to = 0;
    if (group == PP_NONE || r->p->outputs[i] || pp_run_is_repeated(r, i)) return PP_NONE;
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
void pp_run_adopt(pp_run_state *r)
{
    bool any = false;
    for (size_t k = 0; k < r->plan->inputs.n; k++) any |= r->p->donated[k];
    for (size_t i = 0; any && i < r->plan->flat.outputs.n; i++) {
        uint32_t k = donor_of(r, i);
        if (k != PP_NONE) r->results[i] = pp_array_hold(r->p->inputs[k], PP_HOLD_PENDING, r->control->site);
    }
}

/* For memcheck: its memory holds another value now. */
static void renew(const pp_run_state *r, size_t i)
{
    if (!r->p->ctx->ledger) return;
    const pp_tag tag = pp_tag_of_output(r->p, i);
    pp_ledger_renew(r->p->ctx->ledger, r->results[i]->data, &tag);
}

/* After the kernels ran: what was adopted is an output, and no input any more. */
void pp_run_let_go(pp_run_state *r)
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
void pp_run_need(pp_run_state *r)
{
    uint64_t inputs = pp_run_owned_bytes(r->inputs, r->plan->inputs.n), outputs = 0;
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++) {
        if (r->results[i]) continue; /* a donated input, counted there */
        if (!pp_run_is_repeated(r, i) || r->p->outputs[i] || r->p->outputs[pp_run_first_of(r, i)])
            outputs += r->p->outputs[i] && !r->p->outputs[i]->owned ? 0 : r->in->output_bytes[i];
    }
    uint64_t fixed = inputs + outputs + (r->p->uncounted ? 0 : r->in->scratch_bytes);
    r->peak = fixed + r->in->layout.bytes;
    r->lower = fixed + r->in->layout.lower_bound;
    r->serial = fixed + r->in->layout.serial_bound;
}

void pp_run_predict(pp_run_state *r)
{
    pp_run_need(r);
    r->p->stats.predicted_peak_bytes = r->peak;
    r->p->stats.lower_bound_bytes = r->lower;
    r->p->stats.serial_bound_bytes = r->serial;
}

ppto_status pp_run_check_limit(pp_run_state *r)
{
    uint64_t limit = pp_pool_get_limit(r->p->ctx->pool), need = r->peak;
    if (!limit || need <= limit) return PPTO_OK;
    pp_fail(r->err, PPTO_E_LIMIT,
            "the run needs %llu bytes, the memory limit is %llu; the least limit that would do is %llu",
            (unsigned long long)need, (unsigned long long)limit, (unsigned long long)need);
    pp_memcheck_blame(r->p->ctx, r->err);
    return PPTO_E_LIMIT;
}

/* For memcheck: a donated input would have done for output i, but was not free for it. NULL: none. */
static const char *why_not_adopted(const pp_run_state *r, size_t i)
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
ppto_status pp_run_find_result(pp_run_state *r, size_t i)
{
    ppto_array *given = r->p->outputs[i];
    const int64_t *shape = r->in->output_shape + i * PPTO_MAX_RANK;
    const pp_type *type = pp_flat_type(&r->plan->flat, r->plan->flat.outputs.at[i]);
    size_t first = pp_run_first_of(r, i);
    pp_tag tag = pp_tag_of_output(r->p, i);
    if (r->results[i] || (first < i && (given || !r->p->outputs[first])))
        return PPTO_OK; /* adopted; copied or shared */
    if (first < i)      /* the first one lies in the caller's array: this one gets memory of its own */
        return pp_array_new(r->p->ctx, &tag, (ppto_dtype)type->dtype, type->rank, shape, &r->results[i],
                            r->err);
    if (given) {
        bool fits = given->dtype == type->dtype && given->rank == type->rank;
        for (int d = 0; fits && d < type->rank; d++) fits = given->shape[d] == shape[d];
        if (!fits)
            return pp_fail(r->err, PPTO_E_SHAPE, "output %zu: the array given has another shape or dtype", i);
        bool clash = false;
        for (size_t k = 0; k < r->plan->inputs.n; k++) clash |= pp_arrays_overlap(given, r->inputs[k]);
        for (size_t j = 0; j < i; j++) clash |= r->results[j] && pp_arrays_overlap(given, r->results[j]);
        if (!clash || pp_fault(PP_FAULT_OVERLAPPING_OUT)) {
            r->results[i] = pp_array_hold(given, PP_HOLD_PENDING, r->control->site);
            return PPTO_OK;
        }
        tag.kind = PP_BLOCK_COPY;
        tag.reason = "an input lies in the array given for the output";
        r->copied += r->in->output_bytes[i];
    } else if (r->p->ctx->ledger) {
        tag.reason = why_not_adopted(r, i);
    }
    const char *path = first == i ? r->p->sinks[i] : NULL;
    size_t lead = pp_file_lead_of_result(r->p->ctx, path, (ppto_dtype)type->dtype, type->rank, shape,
                                         r->in->output_bytes[i]);
    return pp_array_new_led(r->p->ctx, &tag, (ppto_dtype)type->dtype, type->rank, shape, lead, &r->results[i],
                            r->err);
}
