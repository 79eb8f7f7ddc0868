/* SPDX-License-Identifier: Apache-2.0
 * How long the pieces of every pass are, and what the run then holds at most: nothing is read or computed
 * before this is known to keep the memory limit. Every part is made once, its memory added up, and let go;
 * the kernels stay in the context's cache.
 *
 * Held at any time: inputs and results that ppto owns, values and carries made so far, states of the pass,
 * the windows of files in flight, and what the running part needs for itself (buffers and scratch). */
#include <string.h>

#include "base/checked.h"
#include "runtime/region_run.h"

enum { PIECE_BYTES = 8 << 20, LEAST_STRETCH = 512, MOST_VARIANTS = 64 };

/* Of a column-major file a piece is a stretch of every column: not worth it for a few bytes each. */
bool pp_region_reads_columns(const pp_reader *reader)
{
    const pp_npy_info *info = &reader->info;
    if (!info->fortran || reader->data_at < 0 || reader->source.stream || info->shape[0] == 0) return false;
    size_t row = info->bytes / (size_t)info->shape[0];
    return row < PIECE_BYTES && PIECE_BYTES / row * ppto_dtype_size(info->dtype) >= LEAST_STRETCH;
}

uint64_t pp_region_row_bytes(const pp_place *place)
{
    uint64_t n = ppto_dtype_size((ppto_dtype)place->dtype);
    for (uint32_t d = 0; d < place->rank; d++)
        if (!place->cut || d != place->axis) n *= (uint64_t)place->dim[d];
    return n;
}

uint64_t pp_region_bytes(const pp_place *place)
{
    return pp_region_row_bytes(place) * (uint64_t)(place->cut ? place->dim[place->axis] : 1);
}

int64_t pp_region_pieces(const pp_spans *spans)
{
    return (spans->total + spans->rows - 1) / spans->rows;
}

/* A part that only joins others is for what it writes. */
static void ask(pp_region_run *r, const pp_region_part *part)
{
    const pp_place *place = &r->region->places.at[part->writes.at[0]];
    uint32_t prim = place->kind == PP_AT_OUTPUT ? r->region->flat->outputs.at[place->number] : place->number;
    pp_asks asks = pp_asks_of_instance(part->program->instance);
    if (asks.origin == PP_NONE) asks = pp_asks_of_prim(r->region->flat, prim, asks.bytes);
    r->part = pp_asks_more(r->part, asks);
}

/* What a part needs beside the places it reads and writes. */
static ppto_status part_bytes(pp_region_run *r, pp_part *take_part, uint64_t *bytes)
{
    pp_region_part part;
    *bytes = 0;
    if (take_part->writes.n == 0) {
        pp_part_free(take_part);
        return PPTO_OK;
    }
    PP_TRY(pp_region_part_open(r, take_part, &part));
    ppto_status status = pp_run_prepare(part.program, bytes, r->err);
    if (status == PPTO_OK) ask(r, &part);
    pp_region_part_close(&part);
    return status;
}

/* Bytes of every row that a part reads and writes: how much work a pass is. */
static uint64_t row_work(const pp_region_run *r, const pp_part *part)
{
    uint64_t n = 0;
    for (size_t k = 0; k < part->reads.n; k++) {
        const pp_place *place = &r->region->places.at[part->reads.at[k]];
        if (place->cut) n += pp_region_row_bytes(place);
    }
    for (size_t k = 0; k < part->writes.n; k++) {
        const pp_place *place = &r->region->places.at[part->writes.at[k]];
        if (place->cut && place->kind == PP_AT_OUTPUT) n += pp_region_row_bytes(place);
    }
    return n;
}

/* ---- files -------------------------------------------------------------------------------------------- */

uint32_t pp_region_place_of_input(const pp_region *region, uint32_t prim)
{
    uint32_t number = region->flat->prims.at[prim].number;
    for (uint32_t i = 0;; i++) {
        const pp_place *place = &region->places.at[i];
        if (place->kind == PP_AT_INPUT && place->number == number && place->cut) return i;
    }
}

static pp_region_stream stream_of(const pp_region *region, uint32_t place, uint32_t of, bool write,
                                  int64_t rows)
{
    const pp_place *at = &region->places.at[place];
    pp_region_stream s = {.place = place, .of = of, .write = write, .dtype = at->dtype};
    s.row_bytes = pp_region_row_bytes(at);
    s.bytes = (size_t)rows * (size_t)s.row_bytes;
    return s;
}

static void leave_room(pp_region_run *r, uint32_t pass, pp_region_stream *s)
{
    s->around = pp_region_goes_around(r, pass, &r->region->places.at[s->place]);
    if (s->around) s->bytes += 2 * PP_IO_BLOCK;
}

size_t pp_region_streams(pp_region_run *r, uint32_t pass, const pp_spans *spans, const int64_t *longest,
                         pp_region_stream *streams)
{
    const pp_region *region = r->region;
    uint32_t outputs = (uint32_t)region->flat->outputs.n, first = (uint32_t)region->places.n - outputs;
    size_t n = 0;
    for (uint32_t i = 0; i < spans->at.n; i++) {
        uint32_t prim = spans->at.at[i].prim;
        if (region->flat->prims.at[prim].kind != PP_P_INPUT || longest[i] == 0) continue;
        uint32_t place = pp_region_place_of_input(region, prim);
        if (!r->at[place].streamed) continue;
        streams[n] = stream_of(region, place, i, false, longest[i]);
        streams[n++].turns = r->inputs[region->places.at[place].number]->file->reader.info.fortran;
    }
    for (uint32_t i = 0; i < outputs; i++) {
        uint32_t prim = region->flat->outputs.at[i];
        if (!r->at[first + i].streamed || region->trace.depth[prim] != pass) continue;
        pp_rows rows = pp_region_root_rows(region, prim, 0, spans->rows);
        streams[n++] = stream_of(region, first + i, prim, true, rows.to);
    }
    for (size_t i = 0; i < n; i++) leave_room(r, pass, &streams[i]);
    return n;
}

/* ---- the variants of a piece -------------------------------------------------------------------------- */

typedef struct variants { /* of a pass with pieces of so many rows */
    pp_region_run *r;
    uint32_t pass;
    pp_spans spans;
    pp_rows *now;
    int64_t *longest;
    PP_VEC(int64_t) starts; /* pieces that differ from those before */
    PP_VEC(pp_rows) rows;   /* theirs */
} variants;

/* Is a piece like one that is listed? The first one may differ in its carry. */
static bool is_listed(const variants *v, int64_t start)
{
    size_t n = v->spans.at.n;
    bool carries = v->r->region->passes[v->pass].carries;
    for (size_t i = v->starts.n; i-- > (carries ? 1 : 0);)
        if (pp_spans_alike(v->r->region, &v->spans, start, v->now, v->starts.at[i], v->rows.at + i * n))
            return true;
    return false;
}

static ppto_status list_variants(variants *v)
{
    for (size_t k = 0; k < v->spans.breaks.n; k++) {
        int64_t start = v->spans.breaks.at[k];
        pp_spans_aim(v->r->region, &v->spans, start, v->now);
        if (is_listed(v, start)) continue;
        if (v->starts.n == MOST_VARIANTS)
            return pp_fail(v->r->err, PPTO_E_UNSUPPORTED, "its pieces would be of too many kinds");
        PP_TRY(pp_vec_push(&v->starts, start));
        for (size_t i = 0; i < v->spans.at.n; i++) PP_TRY(pp_vec_push(&v->rows, v->now[i]));
    }
    return PPTO_OK;
}

/* Windows of all files of the pass. */
static ppto_status window_bytes(variants *v, uint64_t *bytes)
{
    size_t most = v->spans.at.n + v->r->region->flat->outputs.n;
    int64_t pieces = pp_region_pieces(&v->spans);
    pp_region_stream *streams = pp_calloc(most + 1, sizeof *streams);
    if (!streams) return PPTO_E_NOMEM;
    pp_spans_longest(v->r->region, &v->spans, v->longest, v->now);
    size_t n = pp_region_streams(v->r, v->pass, &v->spans, v->longest, streams);
    uint64_t windows = (uint64_t)(pieces < PP_REGION_DEPTH ? pieces : PP_REGION_DEPTH);
    *bytes = 0;
    for (size_t i = 0; i < n; i++) *bytes += streams[i].bytes * (windows + streams[i].turns);
    pp_free(streams);
    return PPTO_OK;
}

static void note_carry(pp_region_run *r, uint32_t place)
{
    uint8_t kind = r->region->places.at[place].kind;
    r->at[place].written |= kind == PP_AT_CARRY || kind == PP_AT_ROW;
}

/* The most that any of them needs for itself. */
static ppto_status most_bytes(variants *v, uint64_t *most)
{
    *most = 0;
    for (size_t i = 0; i < v->starts.n; i++) {
        pp_part part;
        uint64_t bytes;
        bool first = v->starts.at[i] == 0 && v->r->region->passes[v->pass].carries;
        PP_TRY(pp_region_piece(v->r->region, v->pass, &v->spans, v->rows.at + i * v->spans.at.n,
                               v->starts.at[i], first, &part, v->r->err));
        uint64_t work = row_work(v->r, &part);
        if (i == 0 || work > v->r->row_work) v->r->row_work = work;
        for (size_t k = 0; k < part.writes.n; k++) note_carry(v->r, part.writes.at[k]);
        PP_TRY(part_bytes(v->r, &part, &bytes));
        if (bytes > *most) *most = bytes;
    }
    return PPTO_OK;
}

/* What a piece needs for itself, and the windows. */
static ppto_status piece_bytes(pp_region_run *r, uint32_t pass, int64_t rows, uint64_t *bytes)
{
    variants v = {.r = r, .pass = pass};
    uint64_t windows = 0;
    ppto_status status = pp_spans_create(r->region, pass, rows, &v.spans, &r->culprit, r->err);
    v.now = pp_calloc(v.spans.at.n + 1, sizeof *v.now);
    v.longest = pp_calloc(v.spans.at.n + 1, sizeof *v.longest);
    if (status == PPTO_OK && (!v.now || !v.longest)) status = PPTO_E_NOMEM;
    if (status == PPTO_OK) status = list_variants(&v);
    if (status == PPTO_OK) status = window_bytes(&v, &windows);
    if (status == PPTO_OK) status = most_bytes(&v, bytes);
    *bytes += windows;
    pp_vec_free(&v.starts);
    pp_vec_free(&v.rows);
    pp_free(v.now);
    pp_free(v.longest);
    pp_spans_free(&v.spans);
    return status;
}

static void note(pp_region_run *r, uint64_t bytes)
{
    if (bytes <= r->predicted) return;
    r->predicted = bytes;
    r->most = pp_asks_more(r->holds, r->part);
}

static void hold(pp_region_run *r, uint32_t prim, uint64_t bytes)
{
    r->holds = pp_asks_more(r->holds, pp_asks_of_prim(r->region->flat, prim, bytes));
}

/* ---- one pass ----------------------------------------------------------------------------------------- */

/* Of the carries, and rows to keep, that no pass before wrote; its pieces are planned. */
static uint64_t carry_bytes(const pp_region_run *r)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < r->region->places.n; i++)
        if (r->at[i].written && !r->at[i].planned)
            bytes += pp_region_row_bytes(&r->region->places.at[i]) *
                     (r->region->places.at[i].kind == PP_AT_CARRY ? 2 : 1);
    return bytes;
}

static uint64_t state_bytes(const pp_region_run *r, const pp_region_pass *pass, int64_t rows, bool joined)
{
    uint64_t bytes = 0;
    for (size_t t = 0; t < pass->trees.n; t++) {
        const pp_tree *tree = &pass->trees.at[t];
        int64_t units = pp_region_units(r->region, tree, rows);
        for (uint32_t i = 0; i < tree->n; i++)
            bytes +=
                pp_region_row_bytes(&r->region->places.at[tree->first + i]) * (uint64_t)(joined ? 1 : units);
    }
    return bytes;
}

/* The joining of the largest tree: what its first level needs for itself and for its results. */
static ppto_status tree_bytes(pp_region_run *r, const pp_region_pass *pass, int64_t rows, uint64_t *most)
{
    for (size_t t = 0; t < pass->trees.n; t++) {
        const pp_tree *tree = &pass->trees.at[t];
        pp_part part;
        uint64_t bytes;
        int64_t units = pp_region_units(r->region, tree, rows);
        const pp_place *states = &r->region->places.at[tree->first];
        r->part = pp_asks_more(r->part, pp_asks_of_prim(r->region->flat, states->number,
                                                        pp_region_row_bytes(states) * (uint64_t)units));
        if (units < 2) continue;
        PP_TRY(pp_region_level(r->region, tree, units, &part, r->err));
        PP_TRY(part_bytes(r, &part, &bytes));
        for (uint32_t i = 0; i < tree->n; i++)
            bytes +=
                pp_region_row_bytes(&r->region->places.at[tree->first + i]) * (uint64_t)((units + 1) / 2);
        if (bytes > *most) *most = bytes;
    }
    return PPTO_OK;
}

static ppto_status pieces_bytes(pp_region_run *r, uint32_t number, int64_t rows, uint64_t *bytes)
{
    const pp_region_pass *pass = &r->region->passes[number];
    uint64_t part = 0, tree = 0;
    PP_TRY(piece_bytes(r, number, rows, &part));
    PP_TRY(tree_bytes(r, pass, rows, &tree));
    *bytes = state_bytes(r, pass, rows, false) + carry_bytes(r) + (part > tree ? part : tree);
    return PPTO_OK;
}

/* The largest power of two of rows that is allowed and no more than is worth it. */
static int64_t most_rows(const pp_region_run *r, const pp_region_pass *pass)
{
    const ppto_array *seed = r->inputs[r->p->plan->flat.prims.at[r->region->seed].number];
    int64_t wanted = r->p->ctx->settings.o.chunk, rows = 1, bytes = (int64_t)ppto_dtype_size(seed->dtype);
    for (int d = 1; d < seed->rank; d++) bytes *= seed->shape[d];
    if (wanted == 0) wanted = bytes < PIECE_BYTES ? PIECE_BYTES / (bytes > 0 ? bytes : 1) : 1;
    if (wanted < pass->least) wanted = pass->least;
    if (wanted > pass->most) wanted = pass->most;
    while (rows * 2 <= wanted) rows *= 2;
    return rows;
}

static ppto_status plan_pass(pp_region_run *r, uint32_t number, uint64_t limit, uint64_t *held)
{
    const pp_region_pass *pass = &r->region->passes[number];
    uint64_t bytes = 0;
    pp_part whole;
    const pp_asks none = {0, PP_NONE};
    pp_asks asks = none;
    PP_TRY(pp_region_whole(r->region, number, &whole, r->err));
    for (size_t k = 0; k < whole.writes.n; k++) {
        const pp_place *place = &r->region->places.at[whole.writes.at[k]];
        hold(r, place->number, pp_region_row_bytes(place));
        *held += pp_region_row_bytes(place);
    }
    r->part = none;
    PP_TRY(part_bytes(r, &whole, &bytes));
    note(r, *held + bytes);
    if (!pass->any) return PPTO_OK;
    uint64_t least =
        UINT64_MAX; /* if none keeps the limit; a longer piece may need less than a shorter one */
    for (int64_t rows = most_rows(r, pass);; rows /= 2) {
        r->part = none;
        PP_TRY(pieces_bytes(r, number, rows, &bytes));
        if (bytes < least) {
            r->pass_rows[number] = rows;
            asks = r->part;
            least = bytes;
        }
        if (limit == 0 || *held + bytes <= limit || rows / 2 < pass->least) break;
    }
    r->part = asks;
    note(r, *held + least);
    r->work += r->row_work * (uint64_t)pass->rows;
    *held += carry_bytes(r) + state_bytes(r, pass, r->pass_rows[number], true);
    for (size_t i = 0; i < r->region->places.n; i++) r->at[i].planned |= r->at[i].written;
    return PPTO_OK;
}

static bool is_callers(const pp_region_run *r, uint32_t output)
{
    return r->p->outputs[output] && !r->p->outputs[output]->owned;
}

ppto_status pp_region_plan(pp_region_run *r, uint64_t fixed, uint64_t limit)
{
    uint64_t held = fixed, bytes;
    pp_part last;
    r->work = 0;
    r->holds = r->part = r->most = (pp_asks){0, PP_NONE};
    for (size_t i = 0; i < r->region->places.n; i++) {
        /* file arrays that are read whole, results that are saved whole */
        const pp_place *place = &r->region->places.at[i];
        const ppto_array *a = r->at[i].array;
        r->at[i].written = r->at[i].planned = false;
        if (place->kind == PP_AT_INPUT && !r->at[i].streamed && a->file) {
            held += a->file->reader.info.bytes;
            r->work += a->file->reader.info.bytes;
        }
        if (place->kind == PP_AT_OUTPUT && r->p->sinks[place->number] && !r->at[i].streamed &&
            !pp_region_repeats(r->region, place->number)) {
            uint64_t whole = pp_region_bytes(place);
            held += whole;
            r->work += whole;
        }
        if (place->kind == PP_AT_OUTPUT && !r->at[i].streamed && !is_callers(r, place->number))
            hold(r, r->region->flat->outputs.at[place->number], pp_region_bytes(place));
    }
    r->predicted = held;
    r->most = r->holds;
    for (uint32_t number = 0; number < r->region->trace.depths; number++)
        PP_TRY(plan_pass(r, number, limit, &held));
    PP_TRY(pp_region_last(r->region, &last, r->err));
    PP_TRY(part_bytes(r, &last, &bytes));
    note(r, held + bytes);
    return PPTO_OK;
}
