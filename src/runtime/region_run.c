/* SPDX-License-Identifier: Apache-2.0
 * A run piece by piece (graph/region.h): every part of the region is a program of its own whose inputs and
 * outputs are windows of the run's memory. Read pp_region_execute: for every pass the whole values, the
 * pieces in order, the trees over their states; then the results that are whole. The length of the pieces is
 * chosen before, in region_plan.c. */
#include "runtime/region_run.h"

#include <string.h>

#include "runtime/sync.h"
#include "runtime/tracing.h"

/* ---- memory of places --------------------------------------------------------------------------------- */

static ppto_status new_memory(pp_region_run *r, const pp_place *place, int64_t units, ppto_array **out)
{
    int64_t shape[PPTO_MAX_RANK];
    memcpy(shape, place->dim, sizeof shape);
    if (place->kind == PP_AT_STATES) shape[0] = units;
    bool crosses = place->kind == PP_AT_STATES || place->kind == PP_AT_CARRY;
    pp_tag tag = {.kind = PP_BLOCK_VALUE, .hold = PP_HOLD_PENDING};
    if (crosses) tag = pp_tag_of_origin(pp_program_origin(r->p, place->number), tag.kind, place->dtype);
    return pp_array_new(r->p->ctx, &tag, (ppto_dtype)place->dtype, place->rank, shape, out, r->err);
}

/* Memory of the places that a part writes, where there is none yet. */
static ppto_status find_memory(pp_region_run *r, const pp_region_part *part)
{
    for (size_t k = 0; k < part->writes.n; k++) {
        uint32_t i = part->writes.at[k];
        const pp_place *place = &r->region->places.at[i];
        pp_place_memory *at = &r->at[i];
        if (place->kind == PP_AT_OUTPUT || place->kind == PP_AT_STATES) continue;
        if (!at->array) PP_TRY(new_memory(r, place, 0, &at->array));
        if (place->kind == PP_AT_CARRY && !at->next) PP_TRY(new_memory(r, place, 0, &at->next));
    }
    return PPTO_OK;
}

/* Inputs that stay in their file although no piece of them can be read alone: read whole. */
static ppto_status load_inputs(pp_region_run *r)
{
    for (uint32_t i = 0; i < r->region->places.n; i++) {
        const pp_place *place = &r->region->places.at[i];
        if (place->kind != PP_AT_INPUT || r->at[i].streamed || !r->at[i].array->file) continue;
        ppto_array *loaded;
        PP_TRY(pp_region_input_load(r, place->number, &loaded));
        pp_array_drop(r->at[i].array, PP_HOLD_PENDING, PPTO_HERE);
        r->at[i].array = loaded;
    }
    return PPTO_OK;
}

/* ---- parts as programs -------------------------------------------------------------------------------- */

void pp_region_part_close(pp_region_part *part)
{
    ppto_program_destroy(part->program);
    pp_vec_free(&part->reads);
    pp_vec_free(&part->spans);
    pp_vec_free(&part->writes);
    *part = (pp_region_part){0};
}

/* A window record for one port; its place in memory is set for every piece. */
static ppto_status open_port(pp_region_run *r, uint32_t i, const pp_type *type, pp_types *types,
                             ppto_array **out)
{
    const pp_place *place = &r->region->places.at[i];
    int64_t shape[PPTO_MAX_RANK];
    for (uint32_t d = 0; d < type->rank; d++)
        if (!pp_size_known(pp_types_sizes(types), type->dim[d], &shape[d])) return PPTO_E_INTERNAL;
    PP_TRY(pp_array_over(r->p->ctx, NULL, (ppto_dtype)type->dtype, type->rank, shape, out));
    if (place->kind == PP_AT_START) {
        (*out)->number = true;
        (*out)->data = &r->start;
    }
    if (place->kind != PP_AT_INPUT) return PPTO_OK;
    memcpy((*out)->stride, r->at[i].array->stride, sizeof(*out)->stride);
    (*out)->dtype = r->at[i].array->dtype;
    (*out)->number = r->at[i].array->number;
    (*out)->number_bits = r->at[i].array->number_bits;
    return PPTO_OK;
}

ppto_status pp_region_part_open(pp_region_run *r, pp_part *take_part, pp_region_part *out)
{
    pp_plan *plan = NULL;
    *out = (pp_region_part){0};
    ppto_status status = pp_plan_of_part(r->p->plan, take_part, &plan, r->err);
    if (status == PPTO_OK) status = pp_program_of_plan(plan, &out->program);
    if (status == PPTO_OK) pp_program_borrow_origins(out->program, r->p);
    if (status == PPTO_OK) out->program->stop = r->p->stop;
    if (status == PPTO_OK) out->program->source = r->p->source; /* it is gone before r->p is */
    if (status == PPTO_OK) pp_tracing_compiled(out->program);
    for (size_t k = 0; status == PPTO_OK && k < take_part->reads.n; k++) {
        const pp_type *type = pp_type_get(out->program->plan->types, out->program->plan->inputs.at[k].type);
        status =
            open_port(r, take_part->reads.at[k], type, out->program->plan->types, &out->program->inputs[k]);
        if (status == PPTO_OK) status = pp_vec_push(&out->reads, take_part->reads.at[k]);
        if (status == PPTO_OK) status = pp_vec_push(&out->spans, take_part->spans.at[k]);
    }
    for (size_t k = 0; status == PPTO_OK && k < take_part->writes.n; k++) {
        const pp_type *type = pp_flat_type(&out->program->plan->flat, out->program->plan->flat.outputs.at[k]);
        status =
            open_port(r, take_part->writes.at[k], type, out->program->plan->types, &out->program->outputs[k]);
        if (status == PPTO_OK) status = pp_vec_push(&out->writes, take_part->writes.at[k]);
    }
    pp_part_free(take_part);
    if (status != PPTO_OK) pp_region_part_close(out);
    return status;
}

/* span: of what is read; else PP_NONE. */
static void aim(pp_region_run *r, uint32_t i, uint32_t span, ppto_array *window, bool write)
{
    const pp_place *place = &r->region->places.at[i];
    pp_place_memory *at = &r->at[i];
    int axis = pp_region_axis_of(place);
    if (place->kind == PP_AT_START) return;
    if (at->streamed) {
        window->data = pp_region_io_data(&r->io, i, span, r->start / r->rows);
        return;
    }
    char *data = write && place->kind == PP_AT_CARRY ? at->next->data : at->array->data;
    int64_t row = span != PP_NONE ? r->now[span].from : r->start;
    if (place->kind == PP_AT_STATES) row = write ? at->units : 0;
    if (axis < PPTO_MAX_RANK) data += row * at->array->stride[axis];
    window->data = data;
}

static ppto_status run_program(pp_region_run *r, ppto_program *program)
{
    pp_pool_counters now;
    pp_code_count *sum = &r->p->code, *part = &program->code;
    const pp_code_count before = *part;
    ppto_status status = pp_run_program(program, NULL, r->p->control, NULL, r->err);
    pp_pool_count(r->p->ctx->pool, &now);
    if (now.peak_bytes > r->peak) r->peak = now.peak_bytes;
    sum->loops += part->loops - before.loops; /* a part is counted once, as it last ran */
    sum->compiled += part->compiled - before.compiled;
    sum->from_disk += part->from_disk - before.from_disk;
    sum->compile_ns += part->compile_ns - before.compile_ns;
    return status;
}

/* Runs the part where the run now stands. */
static ppto_status run_part(pp_region_run *r, pp_region_part *part)
{
    for (size_t k = 0; k < part->reads.n; k++)
        aim(r, part->reads.at[k], part->spans.at[k], part->program->inputs[k], false);
    for (size_t k = 0; k < part->writes.n; k++)
        aim(r, part->writes.at[k], PP_NONE, part->program->outputs[k], true);
    ppto_status status = run_program(r, part->program);
    r->p->stats.launches += part->program->stats.launches;
    for (size_t k = 0; status == PPTO_OK && k < part->writes.n; k++) {
        pp_place_memory *at = &r->at[part->writes.at[k]];
        uint8_t kind = r->region->places.at[part->writes.at[k]].kind;
        if (kind == PP_AT_STATES) at->units += part->program->outputs[k]->shape[0];
        if (kind != PP_AT_CARRY) continue;
        ppto_array *next = at->next;
        at->next = at->array;
        at->array = next;
    }
    return status;
}

static ppto_status run_once(pp_region_run *r, pp_part *take_part)
{
    pp_region_part part;
    if (take_part->writes.n == 0) {
        pp_part_free(take_part);
        return PPTO_OK;
    }
    PP_TRY(pp_region_part_open(r, take_part, &part));
    ppto_status status = find_memory(r, &part);
    if (status == PPTO_OK) status = run_part(r, &part);
    pp_region_part_close(&part);
    return status;
}

/* ---- trees -------------------------------------------------------------------------------------------- */

static ppto_status run_level(pp_region_run *r, const pp_tree *tree, int64_t n)
{
    pp_part part;
    ppto_array *from[4] = {NULL}, *to[4] = {NULL};
    PP_TRY(pp_region_level(r->region, tree, n, &part, r->err));
    pp_region_part level = {0};
    ppto_status status = pp_region_part_open(r, &part, &level);
    for (uint32_t i = 0; status == PPTO_OK && i < tree->n; i++) {
        from[i] = r->at[tree->first + i].array;
        status = new_memory(r, &r->region->places.at[tree->first + i], (n + 1) / 2, &to[i]);
        if (status == PPTO_OK) level.program->inputs[i]->data = from[i]->data;
        if (status == PPTO_OK) level.program->outputs[i]->data = to[i]->data;
    }
    if (status == PPTO_OK) status = run_program(r, level.program);
    for (uint32_t i = 0; i < tree->n; i++) {
        pp_array_drop(status == PPTO_OK ? from[i] : to[i], PP_HOLD_PENDING, PPTO_HERE);
        if (status == PPTO_OK) r->at[tree->first + i].array = to[i];
    }
    pp_region_part_close(&level);
    return status;
}

static ppto_status run_trees(pp_region_run *r, const pp_region_pass *pass)
{
    for (size_t t = 0; t < pass->trees.n; t++)
        for (int64_t n = r->at[pass->trees.at[t].first].units; n > 1; n = (n + 1) / 2)
            PP_TRY(run_level(r, &pass->trees.at[t], n));
    return PPTO_OK;
}

/* ---- pieces ------------------------------------------------------------------------------------------- */

static ppto_status memory_of_states(pp_region_run *r, const pp_region_pass *pass)
{
    for (size_t t = 0; t < pass->trees.n; t++) {
        const pp_tree *tree = &pass->trees.at[t];
        int64_t units = pp_region_units(r->region, tree, r->rows);
        for (uint32_t i = 0; i < tree->n; i++)
            PP_TRY(
                new_memory(r, &r->region->places.at[tree->first + i], units, &r->at[tree->first + i].array));
    }
    return PPTO_OK;
}

/* What the last piece ran by. */
typedef struct built {
    pp_region_part part;
    pp_rows *rows; /* per span */
    int64_t start;
    bool first;
} built;

/* The part for the piece that begins at r->start: made anew where the one before does not serve. */
static ppto_status piece_for(pp_region_run *r, uint32_t pass, bool first, built *b)
{
    pp_part made;
    if (b->part.program && first == b->first &&
        pp_spans_alike(r->region, &r->spans, r->start, r->now, b->start, b->rows))
        return PPTO_OK;
    pp_region_part_close(&b->part);
    PP_TRY(pp_region_piece(r->region, pass, &r->spans, r->now, r->start, first, &made, r->err));
    PP_TRY(pp_region_part_open(r, &made, &b->part));
    memcpy(b->rows, r->now, r->spans.at.n * sizeof *b->rows);
    b->start = r->start;
    b->first = first;
    return find_memory(r, &b->part);
}

static ppto_status add_stream(pp_region_run *r, pp_region_stream s)
{
    const pp_place *place = &r->region->places.at[s.place];
    size_t at = place->number + (s.write ? r->p->plan->inputs.n : 0);
    s.share = pp_sync_share(r->p->sync, pp_file_stream(r->p->file_at[at]));
    if (s.write) {
        s.path = r->p->sinks[place->number];
        s.sink = &r->sinks[place->number];
        s.file.fd = s.sink->file.fd;
        s.file.stream = s.sink->file.stream;
        s.data_at = s.sink->data_at;
    } else {
        pp_array_file *file = r->inputs[place->number]->file;
        s.path = file->path;
        s.info = &file->reader.info;
        PP_TRY(pp_region_input_open(r, place->number, &s));
    }
    if (s.around && !s.dead) pp_io_file_go_around(&s.file, s.write);
    return pp_region_io_add(&r->io, r->p->ctx->pool, &s);
}

static ppto_status open_listed(pp_region_run *r, const pp_region_stream *streams, size_t n)
{
    pp_io *engine;
    if (n == 0) return PPTO_OK;
    PP_TRY(pp_context_io(r->p->ctx, &engine, r->err));
    PP_TRY(pp_region_io_open(&r->io, engine, r->region, &r->spans, n, &r->p->progress.moved, r->err));
    r->io.run = r;
    r->io.source = r->p->source;
    r->io.control = r->p->control;
    for (size_t k = 0; k < n; k++) PP_TRY(add_stream(r, streams[k]));
    return PPTO_OK;
}

/* The files of a pass. */
static ppto_status open_streams(pp_region_run *r, uint32_t pass)
{
    size_t spans = r->spans.at.n, most = spans + r->p->plan->flat.outputs.n;
    pp_region_stream *streams = pp_calloc(most + 1, sizeof *streams);
    int64_t *longest = pp_calloc(spans + 1, sizeof *longest);
    ppto_status status = streams && longest ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) {
        pp_spans_longest(r->region, &r->spans, longest, r->now);
        status = open_listed(r, streams, pp_region_streams(r, pass, &r->spans, longest, streams));
    }
    pp_free(streams);
    pp_free(longest);
    return status;
}

/* Work of a piece beside what is read from files and written to them. */
static uint64_t piece_work(const pp_region_run *r, const pp_region_part *part)
{
    uint64_t n = 0;
    int64_t left = r->spans.total - r->start, rows = left < r->rows ? left : r->rows;
    for (size_t k = 0; k < part->reads.n; k++) {
        const pp_place *place = &r->region->places.at[part->reads.at[k]];
        if (place->cut && !r->at[part->reads.at[k]].streamed) n += pp_region_row_bytes(place);
    }
    for (size_t k = 0; k < part->writes.n; k++) {
        const pp_place *place = &r->region->places.at[part->writes.at[k]];
        if (place->cut && place->kind == PP_AT_OUTPUT && !r->at[part->writes.at[k]].streamed)
            n += pp_region_row_bytes(place);
    }
    return n * (uint64_t)rows;
}

/* A value that was refused: a piece knows sizes by their numbers only, and counts positions from its own
 * first element. So the text gets the values of the names, as that of a whole run has them, and the rows. */
static ppto_status tell_piece(pp_region_run *r, ppto_status status)
{
    if (status != PPTO_E_VALUE || r->err->code != status) return status;
    const pp_error why = *r->err;
    const size_t line = strcspn(why.text, "\n");
    const int64_t rest = r->spans.total - r->start, rows = rest < r->rows ? rest : r->rows;
    pp_text values = {0}, piece = {0};
    pp_instance_add_values(r->p->plan, r->region->names, why.text, &values);
    if (r->spans.total > r->rows)
        pp_text_add(&piece, "\n  in the piece of rows %lld to %lld, where positions count from 0",
                    (long long)r->start, (long long)(r->start + rows - 1));
    pp_error_clear(r->err);
    (void)pp_fail(r->err, status, "%.*s%s%s%s", (int)line, why.text, values.at ? values.at : "",
                  piece.at ? piece.at : "", why.text + line);
    pp_text_free(&values);
    pp_text_free(&piece);
    return status;
}

static ppto_status run_piece(pp_region_run *r, uint32_t pass, built *b)
{
    int64_t number = r->start / r->rows;
    PP_TRY(pp_run_stopped(r->p->control, r->err));
    pp_spans_aim(r->region, &r->spans, r->start, r->now);
    PP_TRY(piece_for(r, pass, r->start == 0 && r->region->passes[pass].carries, b));
    if (r->io.open) PP_TRY(pp_region_io_before(&r->io, number));
    PP_TRY(tell_piece(r, run_part(r, &b->part)));
    if (r->io.open) pp_region_io_after(&r->io, number);
    pp_progress_add(&r->p->progress, piece_work(r, &b->part));
    r->p->stats.pieces++;
    return PPTO_OK;
}

static ppto_status run_pieces(pp_region_run *r, uint32_t number)
{
    const pp_region_pass *pass = &r->region->passes[number];
    uint32_t culprit;
    built b = {0};
    ppto_status status = pp_spans_create(r->region, number, r->rows, &r->spans, &culprit, r->err);
    r->now = pp_calloc(r->spans.at.n + 1, sizeof *r->now);
    b.rows = pp_calloc(r->spans.at.n + 1, sizeof *b.rows);
    if (status == PPTO_OK && (!r->now || !b.rows)) status = PPTO_E_NOMEM;
    if (status == PPTO_OK) status = memory_of_states(r, pass);
    if (status == PPTO_OK) status = open_streams(r, number);
    for (r->start = 0; status == PPTO_OK && r->start < r->spans.total; r->start += r->rows)
        status = run_piece(r, number, &b);
    status = pp_region_io_close(&r->io, r->p->ctx->pool, status);
    pp_region_part_close(&b.part);
    pp_free(b.rows);
    pp_free(r->now);
    pp_spans_free(&r->spans);
    r->now = NULL;
    r->start = 0;
    return status == PPTO_OK ? run_trees(r, pass) : status;
}

/* ---- the whole ---------------------------------------------------------------------------------------- */

static ppto_status run_passes(pp_region_run *r)
{
    for (uint32_t number = 0; number < r->region->trace.depths; number++) {
        pp_region_pass *pass = &r->region->passes[number];
        pp_part whole;
        PP_TRY(pp_region_whole(r->region, number, &whole, r->err));
        PP_TRY(run_once(r, &whole));
        pp_region_leave(r, pp_stage_whole(number));
        if (!pass->any) continue;
        r->rows = r->pass_rows[number];
        PP_TRY(run_pieces(r, number));
        pp_region_leave(r, pp_stage_pieces(number));
    }
    pp_part last;
    PP_TRY(pp_region_last(r->region, &last, r->err));
    return run_once(r, &last);
}

/* ---- results that go to files -------------------------------------------------------------------------- */

bool pp_region_streams_output(const pp_region_run *r, size_t number)
{
    for (uint32_t i = 0; i < r->region->places.n; i++) {
        const pp_place *place = &r->region->places.at[i];
        if (place->kind == PP_AT_OUTPUT && place->number == number) return r->at[i].streamed;
    }
    return false;
}

ppto_status pp_region_execute(pp_region_run *r, ppto_array *const *results)
{
    for (uint32_t i = 0; i < r->region->places.n; i++) {
        const pp_place *place = &r->region->places.at[i];
        if (place->kind == PP_AT_OUTPUT)
            r->at[i].array = pp_array_hold(results[place->number], PP_HOLD_PENDING, PPTO_HERE);
    }
    r->p->stats.launches = 0;
    r->p->code.loops = r->p->code.compiled = 0;
    pp_progress_begin(&r->p->progress, r->work);
    ppto_status status = pp_region_leave_plan(r);
    if (status == PPTO_OK) status = load_inputs(r);
    if (status == PPTO_OK) status = pp_region_sinks_open(r);
    if (status == PPTO_OK) status = run_passes(r);
    pp_run_note_code(r->p);
    return pp_region_sinks_close(r, status);
}
