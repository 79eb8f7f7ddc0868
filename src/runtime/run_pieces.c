/* SPDX-License-Identifier: Apache-2.0
 * The files of a run: read and written whole around a run in one piece, or the run goes piece by piece
 * (runtime/region_run.h) because it would exceed the limit or a file is large. */
#include <stdio.h>
#include <string.h>

#include "runtime/asks.h"
#include "runtime/file_steps.h"
#include "runtime/run_parts.h"

enum { SMALL_FILES = 4 << 20 }; /* so little is read at once */

uint64_t pp_run_file_bytes(const pp_run_state *r)
{
    uint64_t n = 0;
    for (size_t i = 0; i < r->plan->inputs.n; i++)
        if (r->inputs[i]->file) n += r->inputs[i]->file->reader.info.bytes;
    return n;
}

/* Of a run in one piece: what it loads, computes and saves. */
uint64_t pp_run_whole_work(const pp_run_state *r)
{
    uint64_t n = pp_run_file_bytes(r) + pp_progress_groups(r->in);
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++)
        if (r->p->sinks[i]) n += r->in->output_bytes[i];
    return n;
}

/* Of a run in one piece, with the files that it loads. */
static uint64_t whole_bytes(const pp_run_state *r)
{
    return r->peak + pp_run_file_bytes(r);
}

bool pp_run_over_limit(const pp_run_state *r)
{
    uint64_t limit = pp_pool_get_limit(r->p->ctx->pool);
    return limit != 0 && whole_bytes(r) > limit;
}

bool pp_run_by_pieces(const pp_run_state *r)
{
    if (r->p->whole) return false;
    if (r->p->ctx->settings.o.chunk != 0 || pp_run_over_limit(r)) return true;
    return pp_run_file_bytes(r) > SMALL_FILES && !r->p->sync; /* with streams the user overlaps whole files */
}

bool pp_run_goes_on(const pp_run_state *r, ppto_status status)
{
    return r->control->keep_going && status != PPTO_E_CANCELLED && status != PPTO_E_DEADLINE;
}

/* For a run in one piece: memory for what stays in files and its steps load; numbers are read now. */
ppto_status pp_run_load_files(pp_run_state *r)
{
    const pp_files_watch watch = pp_progress_watch(r->p);
    for (size_t i = 0; i < r->plan->inputs.n; i++) {
        ppto_array *file = r->inputs[i];
        if (!file->file) continue;
        r->inputs[i] = NULL;
        PP_TRY(r->in->files && r->in->files[i] != 0
                   ? pp_array_for_file(file, &r->inputs[i], r->err)
                   : pp_tracing_load(r->p, file, &r->inputs[i], &watch, r->err));
    }
    return PPTO_OK;
}

static bool is_stored(const pp_run_state *r, size_t output)
{
    return r->dispatched && r->in->files && r->in->files[r->plan->inputs.n + output] != 0;
}

ppto_status pp_run_save_sinks(pp_run_state *r)
{
    const pp_files_watch watch = pp_progress_watch(r->p);
    ppto_status first = PPTO_OK;
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++) {
        ppto_array *a = r->results[pp_run_first_of(r, i)];
        if (!r->p->sinks[i] || !a || is_stored(r, i) || !pp_run_is_there(r, i)) continue;
        ppto_status status = pp_tracing_save(r->p, a, r->p->sinks[i], &watch, r->err);
        if (first == PPTO_OK) first = status;
        if (status != PPTO_OK && !pp_run_goes_on(r, status)) break;
    }
    return first;
}

ppto_status pp_run_keep_files(pp_run_state *r, ppto_status status)
{
    ppto_status saved = PPTO_OK, stored = PPTO_OK;
    if (status == PPTO_OK || pp_run_goes_on(r, status)) saved = pp_run_save_sinks(r);
    if (status == PPTO_OK) status = saved;
    bool goes_on = pp_run_goes_on(r, status);
    if (status == PPTO_OK || goes_on) stored = pp_file_steps_store(r->in, goes_on, r->err);
    if (r->p->sync) r->p->sync->kept = goes_on && saved == PPTO_OK && stored == PPTO_OK;
    pp_file_steps_end(r->in);
    return status == PPTO_OK ? stored : status;
}

/* A later pass may read what an earlier one wrote over: nothing is adopted. */
static void give_back(pp_run_state *r)
{
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++) {
        pp_array_drop(r->results[i], PP_HOLD_PENDING, r->control->site);
        r->results[i] = NULL;
    }
    pp_run_predict(r);
}

/* Of pieces; a run in one piece could not do with less than its bounds. */
static void predict(ppto_stats *s, uint64_t peak)
{
    s->predicted_peak_bytes = peak;
    if (s->lower_bound_bytes > peak) s->lower_bound_bytes = peak;
    if (s->serial_bound_bytes > peak) s->serial_bound_bytes = peak;
}

static ppto_status run_region(pp_run_state *r, pp_region_run *region, ppto_array **outputs)
{
    ppto_stats *s = &r->p->stats;
    predict(s, pp_region_predicted(region));
    pp_pool_counters before;
    pp_pool_count(r->p->ctx->pool, &before);
    uint64_t held = pp_run_owned_bytes(r->inputs, r->plan->inputs.n) +
                    pp_run_owned_bytes(r->p->outputs, r->plan->flat.outputs.n);
    if (r->ticket) PP_TRY(pp_run_admit(r, 0));
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++)
        if (!pp_region_streams_output(region, i)) PP_TRY(pp_run_find_result(r, i));
    if (r->p->sync) {
        PP_TRY(pp_sync_pass(r->p->sync, r->control, r->err));
        r->p->sync->defers = pp_run_writes_after(r);
    }
    PP_TRY(pp_region_execute(region, r->results));
    r->region = region;
    ppto_status status = pp_run_save_sinks(r);
    const pp_error *lost = pp_region_lost(region);
    if (lost) status = pp_fail(r->err, lost->code, "%s", lost->text);
    if (status != PPTO_OK && !pp_run_goes_on(r, status)) return status;
    s->measured_peak_bytes = pp_region_measured(region) - before.current_bytes + held;
    s->copied_bytes = r->copied;
    pp_run_hand_over(r, outputs);
    return status;
}

/* Over the limit, and not to be cut: the operator that prevents it, and the limit that would do. */
static ppto_status cannot_be_cut(pp_run_state *r, const pp_region_refusal *refusal, const char *why)
{
    uint64_t need = refusal->least;
    const pp_origin *origin = refusal->culprit == PP_NONE ? NULL : pp_program_origin(r->p, refusal->culprit);
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

/* No operator prevents it: who needs most of the run in one piece. */
static void name_asks(const pp_run_state *r, pp_region_refusal *refusal, pp_error *why)
{
    size_t n = strlen(why->text);
    pp_text text = {0};
    pp_asks asks = pp_asks_of_instance(r->in);
    refusal->most_bytes = asks.bytes;
    refusal->most_for = asks.origin;
    pp_asks_text(r->p, asks, &text);
    if (text.at) snprintf(why->text + n, sizeof why->text - n, "%s", text.at);
    pp_text_free(&text);
}

ppto_status pp_run_open_pieces(pp_run_state *r, uint64_t whole, pp_region_run **region,
                               pp_region_refusal *refusal, pp_error *why)
{
    uint64_t fixed = r->peak - r->in->layout.bytes - r->in->scratch_bytes;
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++) /* the region knows which of these are ever whole */
        if (r->p->sinks[i] && !pp_run_is_repeated(r, i)) fixed -= r->in->output_bytes[i];
    ppto_status status = pp_region_open(r->p, r->inputs, r->in->names, fixed, whole, region, refusal, why);
    if (status == PPTO_E_UNSUPPORTED && refusal->culprit == PP_NONE) name_asks(r, refusal, why);
    return status;
}

/* *done: the run was tried piece by piece, and the status is its own. */
ppto_status pp_run_try_pieces(pp_run_state *r, ppto_array **outputs, bool *done)
{
    pp_region_run *region;
    pp_error why = {0};
    pp_region_refusal refusal;
    bool over = pp_run_over_limit(r);
    uint64_t whole = whole_bytes(r);
    give_back(r);
    pp_dispatch_give_back(r->in->dispatch); /* its workers' scratch is of more use to the pieces */
    ppto_status status = pp_run_open_pieces(r, whole, &region, &refusal, &why);
    *done = over || (status != PPTO_E_UNSUPPORTED && status != PPTO_E_LIMIT);
    if (over && (status == PPTO_E_UNSUPPORTED || status == PPTO_E_LIMIT))
        predict(&r->p->stats, refusal.least);
    if (status == PPTO_E_UNSUPPORTED && over) cannot_be_cut(r, &refusal, why.text);
    if (status == PPTO_OK) status = run_region(r, region, outputs);
    pp_region_close(region);
    r->region = NULL;
    if (!*done) pp_run_adopt(r);
    if (!*done || status == PPTO_OK) return PPTO_OK;
    return pp_fail(r->err, status, "%s", why.text[0] ? why.text : ppto_status_text(status));
}
