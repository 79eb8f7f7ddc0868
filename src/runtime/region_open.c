/* SPDX-License-Identifier: Apache-2.0
 * Which input a run is cut along, and whether it can be: the largest is tried first. Read pp_region_open. */
#include "runtime/region_run.h"
#include "runtime/sync.h"

/* The next input to try to cut: the largest that has rows to cut and was not tried. PP_NONE: none is left. */
static uint32_t next_seed(const ppto_program *p, ppto_array *const *inputs, uint8_t *tried)
{
    size_t best = p->plan->inputs.n;
    int64_t most = 0;
    for (size_t i = 0; i < p->plan->inputs.n; i++) {
        int64_t n = (int64_t)ppto_dtype_size(inputs[i]->dtype);
        for (int d = 0; d < inputs[i]->rank; d++) n *= inputs[i]->shape[d];
        if (tried[i] || p->plan->inputs.at[i].prim == PP_NONE || n <= most) continue;
        if (inputs[i]->rank == 0 || inputs[i]->shape[0] < 2) continue;
        most = n;
        best = i;
    }
    if (best == p->plan->inputs.n) return PP_NONE;
    tried[best] = 1;
    return p->plan->inputs.at[best].prim;
}

static void clear(pp_region_run *r)
{
    for (size_t i = 0; r->at && i < r->region->places.n; i++) {
        pp_array_drop(r->at[i].array, PP_HOLD_PENDING, PPTO_HERE);
        pp_array_drop(r->at[i].next, PP_HOLD_PENDING, PPTO_HERE);
    }
    pp_free(r->at);
    pp_free(r->pass_rows);
    pp_free(r->sinks);
    pp_free(r->lost_input);
    pp_free(r->stream_end);
    pp_region_destroy(r->region);
    r->at = NULL;
    r->pass_rows = NULL;
    r->sinks = NULL;
    r->lost_input = NULL;
    r->stream_end = r->sync_end = NULL;
    r->region = NULL;
}

/* Is the output the first of those whose bytes somebody reads as they come? The next one is written when it
 * is whole: its reader may be waiting for the end of the first. */
static bool flows_first(const ppto_program *p, uint32_t number)
{
    for (uint32_t k = 0; k < number; k++)
        if (p->sinks[k] && pp_files_flow(p->sinks[k])) return false;
    return true;
}

static bool goes_by_pieces(const ppto_program *p, uint32_t number)
{
    const char *path = p->sinks[number];
    if (!path || pp_files_in_order(path)) return path != NULL;
    return pp_files_by_pieces(path) && (!pp_files_flow(path) || flows_first(p, number));
}

static bool is_wanted_once(const pp_region_run *r, uint32_t output)
{
    const pp_flat *flat = &r->p->plan->flat;
    size_t same = 0;
    for (size_t k = 0; k < flat->outputs.n; k++) same += flat->outputs.at[k] == flat->outputs.at[output];
    return same == 1;
}

/* Which places have their pieces in files. A result that is wanted twice is in memory. */
static void find_streams(pp_region_run *r)
{
    for (uint32_t i = 0; i < r->region->places.n; i++) {
        const pp_place *place = &r->region->places.at[i];
        if (place->kind == PP_AT_INPUT) {
            const pp_array_file *file = r->inputs[place->number]->file;
            r->at[i].streamed =
                file &&
                (file->reader.in_place || file->reader.in_order || pp_region_reads_columns(&file->reader)) &&
                pp_region_axis_of(place) == 0;
        } else if (place->kind == PP_AT_OUTPUT) {
            r->at[i].streamed = pp_region_axis_of(place) == 0 && goes_by_pieces(r->p, place->number) &&
                                is_wanted_once(r, place->number);
        }
    }
}

/* What is read from first to last serves one span of a pass, if its rows go on; a pipe one pass only. Else it
 * is read whole. uses: per place; any: something is. */
static ppto_status check_order(pp_region_run *r, const pp_spans *spans, uint32_t *uses, bool *any)
{
    pp_rows *scratch = pp_calloc(spans->at.n + 1, sizeof *scratch);
    if (!scratch) return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < spans->at.n; i++) {
        const pp_prim *p = &r->region->flat->prims.at[spans->at.at[i].prim];
        if (p->kind != PP_P_INPUT) continue;
        uint32_t place = pp_region_place_of_input(r->region, spans->at.at[i].prim);
        const pp_array_file *file = r->inputs[p->number]->file;
        if (!r->at[place].streamed || !file->reader.in_order) continue;
        bool once = ++uses[place] > 1 && file->reader.source.stream;
        if (!once && pp_spans_in_order(r->region, spans, i, scratch)) continue;
        r->at[place].streamed = false;
        *any = true;
    }
    pp_free(scratch);
    return PPTO_OK;
}

static ppto_status read_whole_what_must_be(pp_region_run *r, bool *any)
{
    uint32_t *uses = pp_calloc(r->region->places.n + 1, sizeof *uses);
    ppto_status status = uses ? PPTO_OK : PPTO_E_NOMEM;
    *any = false;
    for (uint32_t pass = 0; status == PPTO_OK && pass < r->region->trace.depths; pass++) {
        pp_spans spans;
        if (!r->region->passes[pass].any) continue;
        status = pp_spans_create(r->region, pass, r->pass_rows[pass], &spans, &r->culprit, r->err);
        if (status == PPTO_OK) status = check_order(r, &spans, uses, any);
        pp_spans_free(&spans);
    }
    pp_free(uses);
    return status;
}

/* The run as it would go under a limit: what is read by pieces depends on their lengths. */
static ppto_status plan_within(pp_region_run *r, uint64_t fixed, uint64_t limit)
{
    bool again = true;
    find_streams(r);
    while (again) {
        PP_TRY(pp_region_plan(r, fixed, limit));
        PP_TRY(read_whole_what_must_be(r, &again));
    }
    return PPTO_OK;
}

/* The least limit of this seed, or that of the whole run. Planned over the limit, every pass that is over it
 * takes what it needs at least, so the peak is the limit to ask for; unless, with it, the lengths of pieces
 * that fit let other files be read by pieces. */
static ppto_status least_limit(pp_region_run *r, uint64_t fixed, uint64_t *least)
{
    enum { TRIES = 8 };
    uint64_t limit = r->predicted;
    *least = r->whole;
    for (int i = 0; i < TRIES && limit < *least; i++) {
        PP_TRY(plan_within(r, fixed, limit));
        if (r->predicted <= limit) *least = limit;
        if (r->predicted == limit) break;
        limit = r->predicted;
    }
    return PPTO_OK;
}

/* Why a result that goes to a file is whole. */
static const char *why_written_whole(const pp_region_run *r, const pp_place *place)
{
    const char *path = r->p->sinks[place->number];
    if (!pp_files_by_pieces(path) && !pp_files_in_order(path)) return "its archive is written whole";
    if (!goes_by_pieces(r->p, place->number)) return "of several pipes the first is written by pieces";
    return is_wanted_once(r, place->number) ? "its rows do not lie together"
                                            : "it is wanted twice, and computed once";
}

/* Files that are whole in memory, and why. Returns the bytes of the largest. */
static uint64_t name_whole_files(const pp_region_run *r, pp_text *out)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < r->region->places.n; i++) {
        const pp_place *place = &r->region->places.at[i];
        if (r->at[i].streamed) continue;
        if (place->kind == PP_AT_INPUT && r->inputs[place->number]->file) {
            const pp_array_file *file = r->inputs[place->number]->file;
            const char *why = !place->cut                  ? "all of it is needed at once"
                              : file->reader.source.stream ? "a pipe is read once and in order"
                              : file->reader.npz           ? "an archive is read in order"
                                                           : "its rows do not lie together";
            pp_text_add(out, "; %.200s is read whole: %s", file->path, why);
            if (file->reader.info.bytes > most) most = file->reader.info.bytes;
        } else if (place->kind == PP_AT_OUTPUT && place->cut && r->p->sinks[place->number]) {
            pp_text_add(out, "; %.200s is written whole: %s", r->p->sinks[place->number],
                        why_written_whole(r, place));
            if (pp_region_bytes(place) > most) most = pp_region_bytes(place);
        }
    }
    return most;
}

/* What is to blame, the largest first: an operator is not named beside a file that is larger than all it
 * asks for. */
static void name_causes(const pp_region_run *r, pp_region_refusal *refusal, pp_asks most, pp_text *first,
                        pp_text *last)
{
    uint64_t files = name_whole_files(r, first);
    if (most.bytes < files) return;
    refusal->most_bytes = most.bytes;
    refusal->most_for = most.origin;
    pp_asks_text(r->p, most, last);
    if (most.bytes == files) return;
    pp_text_add(last, "%s", first->at ? first->at : "");
    pp_text_free(first);
}

static ppto_status within_limit(pp_region_run *r, uint64_t fixed, uint64_t limit, pp_region_refusal *refusal)
{
    uint64_t need = r->predicted;
    if (limit == 0 || need <= limit) return PPTO_OK;
    pp_text first = {0}, last = {0};
    pp_asks most = r->most;
    PP_TRY(least_limit(r, fixed, &refusal->least));
    name_causes(r, refusal, most, &first, &last);
    ppto_status status =
        pp_fail(r->err, PPTO_E_LIMIT,
                "piece by piece the run needs %llu bytes, the memory limit is %llu%s; the least limit "
                "that would do is %llu%s",
                (unsigned long long)need, (unsigned long long)limit, first.at ? first.at : "",
                (unsigned long long)refusal->least, last.at ? last.at : "");
    pp_text_free(&first);
    pp_text_free(&last);
    return status;
}

static void memory_of_inputs(pp_region_run *r)
{
    for (uint32_t i = 0; i < r->region->places.n; i++) {
        const pp_place *place = &r->region->places.at[i];
        if (place->kind == PP_AT_INPUT)
            r->at[i].array = pp_array_hold(r->inputs[place->number], PP_HOLD_PENDING, PPTO_HERE);
    }
}

static ppto_status open_at(pp_region_run *r, const int64_t *names, uint64_t fixed, uint32_t seed,
                           pp_region_refusal *refusal)
{
    PP_TRY(pp_region_create(&r->p->plan->flat, names, r->p->literals, seed, &r->region, &refusal->culprit,
                            r->err));
    r->at = pp_calloc(r->region->places.n + 1, sizeof *r->at);
    r->pass_rows = pp_calloc(r->region->trace.depths, sizeof *r->pass_rows);
    size_t n = r->p->plan->flat.outputs.n;
    r->sinks = pp_calloc(n + 1, sizeof *r->sinks);
    if (!r->at || !r->pass_rows || !r->sinks) return PPTO_E_NOMEM;
    memory_of_inputs(r);
    uint64_t limit = pp_pool_get_limit(r->p->ctx->pool);
    r->culprit = PP_NONE;
    ppto_status status = plan_within(r, fixed, limit);
    if (status != PPTO_OK) refusal->culprit = r->culprit;
    PP_TRY(status);
    return within_limit(r, fixed, limit, refusal);
}

/* What one input does not allow another may: the first that keeps the limit is cut. Else the refusal with the
 * least limit is told, the first of several. */
static ppto_status try_seeds(pp_region_run *r, const int64_t *names, uint64_t fixed, uint8_t *tried,
                             pp_region_refusal *refusal)
{
    uint32_t seed;
    pp_error *keep = r->err;
    ppto_status told = PPTO_OK;
    while ((seed = next_seed(r->p, r->inputs, tried)) != PP_NONE) {
        pp_error err = {0};
        pp_region_refusal why = {.culprit = PP_NONE, .least = r->whole};
        r->err = &err;
        ppto_status status = open_at(r, names, fixed, seed, &why);
        r->err = keep;
        if (status == PPTO_OK) return status;
        clear(r);
        bool refused = status == PPTO_E_UNSUPPORTED || status == PPTO_E_LIMIT;
        if (told == PPTO_OK || !refused || why.least < refusal->least) {
            *refusal = why;
            *keep = err;
            told = status;
        }
        if (!refused) break;
    }
    if (told == PPTO_OK)
        return pp_fail(r->err, PPTO_E_UNSUPPORTED, "no input has an axis to cut into pieces");
    return told;
}

ppto_status pp_region_open(ppto_program *p, ppto_array *const *inputs, const int64_t *names, uint64_t fixed,
                           uint64_t whole, pp_region_run **out, pp_region_refusal *refusal, pp_error *err)
{
    *out = NULL;
    *refusal = (pp_region_refusal){.culprit = PP_NONE, .least = whole};
    uint8_t *tried = pp_calloc(p->plan->inputs.n + 1, 1);
    pp_region_run *r = pp_calloc(1, sizeof *r);
    ppto_status status = r && tried ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) {
        *r = (pp_region_run){.p = p, .inputs = inputs, .whole = whole, .err = err};
        status = try_seeds(r, names, fixed, tried, refusal);
    }
    pp_free(tried);
    if (status == PPTO_OK) {
        pp_error_clear(err);
        *out = r;
    } else {
        pp_region_close(r);
    }
    return status;
}

uint64_t pp_region_measured(const pp_region_run *r)
{
    return r->peak;
}

const pp_error *pp_region_lost(const pp_region_run *r)
{
    return r->lost.code != PPTO_OK ? &r->lost : NULL;
}

uint64_t pp_region_predicted(const pp_region_run *r)
{
    return r->predicted;
}

void pp_region_close(pp_region_run *r)
{
    if (!r) return;
    clear(r);
    pp_free(r);
}
