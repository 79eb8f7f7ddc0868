/* SPDX-License-Identifier: Apache-2.0
 * The steps of a body over one tile. A full value whose rows follow each other is one long vector: one call
 * of the loop for the tile; otherwise one call per row. */
#include <string.h>

#include "devices/cpu/interp_work.h"

static size_t count_at(const pp_work *w, uint8_t level)
{
    switch (level) {
    case PP_LEVEL_ONE: return 1;
    case PP_LEVEL_ROWS: return w->rows;
    case PP_LEVEL_COLS: return w->cols;
    default: return w->rows * w->cols;
    }
}

/* Whether the rows of a view follow each other: then the tile is one vector. An element for all (ONE) fits
 * any form. */
static bool follows(const pp_work *w, const pp_view *v, size_t size)
{
    return v->pitch == (int64_t)(w->cols * size);
}

static bool operand_follows(const pp_work *w, uint32_t view, size_t size)
{
    return view == PP_NONE || follows(w, &w->views[view], size);
}

/* ---- scalar rows ----------------------------------------------------------------------------- */

static const char *at_row(const pp_work *w, uint32_t view, size_t row)
{
    return view == PP_NONE ? NULL : w->views[view].at + (int64_t)row * w->views[view].pitch;
}

static void run_row(pp_work *w, const pp_step *step)
{
    const pp_view out = pp_work_place(w, step);
    if (step->level != PP_LEVEL_FULL || w->rows == 1) {
        step->fn(step->level == PP_LEVEL_FULL ? w->cols : count_at(w, step->level), out.at,
                 at_row(w, step->a, 0), at_row(w, step->b, 0), at_row(w, step->c, 0));
    } else if (!step->per_row && follows(w, &out, step->size) &&
               (step->a_one || operand_follows(w, step->a, step->a_size)) &&
               (step->b_one || operand_follows(w, step->b, step->b_size)) &&
               (step->c_one || operand_follows(w, step->c, step->c_size))) {
        step->fn(w->rows * w->cols, out.at, at_row(w, step->a, 0), at_row(w, step->b, 0),
                 at_row(w, step->c, 0));
    } else {
        for (size_t r = 0; r < w->rows; r++)
            step->fn(w->cols, out.at + (int64_t)r * out.pitch, at_row(w, step->a, r), at_row(w, step->b, r),
                     at_row(w, step->c, r));
    }
    w->views[step->out] = out;
}

enum { FEW = 8 }; /* so few columns of an element per row are written one after the other */

/* ---- spreading ------------------------------------------------------------------------------- */

static void run_spread(pp_work *w, const pp_step *step)
{
    const pp_view out = pp_work_place(w, step), in = w->views[step->a];
    const size_t size = step->size;
    if (step->from == PP_LEVEL_ROWS && w->cols <= FEW) {
        for (size_t c = 0; c < w->cols; c++)
            w->set->store_strided(w->rows, out.at + c * size, out.pitch, in.at, size);
    } else if (step->from == PP_LEVEL_ONE && (step->level != PP_LEVEL_FULL || follows(w, &out, size))) {
        w->set->fill(count_at(w, step->level), out.at, in.at, size);
    } else if (step->from == PP_LEVEL_COLS) {
        pp_copy_rows(out.at, out.pitch, in.at, in.pitch, w->rows, w->cols * size);
    } else {
        for (size_t r = 0; r < w->rows; r++) {
            char *row = out.at + (int64_t)r * out.pitch;
            const char *from = in.at + (int64_t)r * in.pitch;
            w->set->fill(w->cols, row, from, size);
        }
    }
    w->views[step->out] = out;
}

/* ---- calls ----------------------------------------------------------------------------------- */

enum { MAX_PARAMS = 12 };

static bool list_follows(const pp_work *w, const pp_step *step)
{
    const pp_function *f = pp_fcode_function(step->data);
    for (uint32_t i = 0; i < step->n_list; i++)
        if (!follows(w, &w->views[step->list[i]], ppto_dtype_size((ppto_dtype)f->param[i]))) return false;
    return true;
}

static void call_rows(pp_work *w, const pp_step *step, size_t n, size_t row, void *out)
{
    const void *in[MAX_PARAMS + 1] = {NULL};
    void *const outs[1] = {out};
    for (uint32_t i = 0; i < step->n_list && i < MAX_PARAMS; i++) in[i] = at_row(w, step->list[i], row);
    pp_fcode_run(step->data, w->set, w->scratch + w->launch->function_off, n, outs, in);
}

static void run_call(pp_work *w, const pp_step *step)
{
    const pp_view out = pp_work_place(w, step);
    if (step->level != PP_LEVEL_FULL || w->rows == 1 ||
        (follows(w, &out, step->size) && list_follows(w, step))) {
        call_rows(w, step, count_at(w, step->level), 0, out.at);
    } else {
        for (size_t r = 0; r < w->rows; r++) call_rows(w, step, w->cols, r, out.at + (int64_t)r * out.pitch);
    }
    w->views[step->out] = out;
}

/* select(mask, callee(...), hot); without a call where the mask is empty. */
static void cold_run(pp_work *w, const pp_step *step, size_t n, size_t row, char *out)
{
    const char *mask = at_row(w, step->a, row), *hot = at_row(w, step->b, row);
    if (!w->set->any(n, (const uint8_t *)mask)) {
        memcpy(out, hot, n * step->size);
        return;
    }
    char *aside = w->scratch + w->launch->temp_off;
    call_rows(w, step, n, row, aside);
    step->fn(n, out, mask, aside, hot);
}

static void run_cold(pp_work *w, const pp_step *step)
{
    const pp_view out = pp_work_place(w, step);
    const bool flat = step->level != PP_LEVEL_FULL || w->rows == 1 ||
                      (follows(w, &out, step->size) && operand_follows(w, step->a, 1) &&
                       operand_follows(w, step->b, step->size) && list_follows(w, step));
    if (flat) {
        cold_run(w, step, count_at(w, step->level), 0, out.at);
    } else {
        for (size_t r = 0; r < w->rows; r++) cold_run(w, step, w->cols, r, out.at + (int64_t)r * out.pitch);
    }
    w->views[step->out] = out;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void look_up(pp_work *w, const pp_step *step, size_t n, char *out, const char *in)
{
    uint32_t *index = (uint32_t *)(void *)(w->scratch + w->launch->temp_off);
    step->fn(n, index, in, NULL, NULL);
    if (step->size >= 4) {
        w->set->table(n, out, step->data, step->imm, index, step->size);
        return;
    }
    for (size_t i = 0; i < n; i++)
        memcpy(out + i * step->size, (const char *)step->data + (index[i] & (step->imm - 1)) * step->size,
               step->size);
}

static void run_table(pp_work *w, const pp_step *step)
{
    const pp_view out = pp_work_place(w, step);
    if (step->level != PP_LEVEL_FULL || w->rows == 1) {
        look_up(w, step, count_at(w, step->level), out.at, at_row(w, step->a, 0));
    } else {
        for (size_t r = 0; r < w->rows; r++)
            look_up(w, step, w->cols, out.at + (int64_t)r * out.pitch, at_row(w, step->a, r));
    }
    w->views[step->out] = out;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static void note_failure(pp_work *w, const pp_step *step, size_t row, size_t col)
{
    int64_t coord[PP_AXES], position;
    const pp_program *p = w->launch->variant->program;
    pp_work_coords(w, row, col, coord);
    position = pp_lin_at(step->data, w->launch->n_axes, coord);
    const size_t r = step->level == PP_LEVEL_FULL ? row : 0;
    const size_t c = step->level == PP_LEVEL_ROWS ? row : step->level == PP_LEVEL_ONE ? 0 : col;
    if (step->n_list > 0) {
        const ppto_dtype dtype = (ppto_dtype)p->code[p->affines[p->checks[step->imm].position].value].dtype;
        position += pp_value_as_i64(at_row(w, step->list[0], r) + c * ppto_dtype_size(dtype), dtype);
    }
    if (w->failed != PP_NONE &&
        (position > w->failed_at || (position == w->failed_at && step->imm >= w->failed)))
        return;
    w->failed = step->imm;
    w->failed_at = position;
    w->failed_dtype = step->dtype;
    w->failed_value = 0;
    memcpy(&w->failed_value, at_row(w, step->b, r) + c * step->b_size, step->b_size);
}

void pp_work_check(pp_work *w, const pp_step *step)
{
    const bool full = step->level == PP_LEVEL_FULL;
    const size_t rows = full ? w->rows : 1, cols = full ? w->cols : count_at(w, step->level);
    for (size_t r = 0; r < rows; r++) {
        const char *row = at_row(w, step->a, r);
        for (size_t c = 0; c < cols; c++) {
            const char *bad = memchr(row + c, 0, cols - c);
            if (bad == NULL) break;
            c = (size_t)(bad - row);
            note_failure(w, step, step->level == PP_LEVEL_ROWS ? c : r, step->level == PP_LEVEL_ROWS ? 0 : c);
        }
    }
}

/* ---- all steps ------------------------------------------------------------------------------- */

static void run_state(pp_work *w, const pp_step *step)
{
    const pp_launch *launch = w->launch;
    char *base = launch->split ? launch->shared : w->scratch;
    const size_t offset = launch->folds[step->imm].result[step->a] + (size_t)w->major_at * step->size;
    w->views[step->out] = (pp_view){base + offset, step->level == PP_LEVEL_ROWS ? (int64_t)step->size : 0};
}

static void run_step(pp_work *w, const pp_step *step)
{
    switch ((pp_step_kind)step->kind) {
    case PP_STEP_ROW1:
    case PP_STEP_ROW2:
    case PP_STEP_ROW3: run_row(w, step); break;
    case PP_STEP_SPREAD: run_spread(w, step); break;
    case PP_STEP_LOAD: pp_work_load(w, step); break;
    case PP_STEP_STORE: pp_work_store(w, step); break;
    case PP_STEP_CHECK: pp_work_check(w, step); break;
    case PP_STEP_CALL: run_call(w, step); break;
    case PP_STEP_COLD: run_cold(w, step); break;
    case PP_STEP_TABLE: run_table(w, step); break;
    case PP_STEP_INDEX: pp_work_index(w, step); break;
    case PP_STEP_INSIDE: pp_work_inside(w, step); break;
    case PP_STEP_STATE: run_state(w, step); break;
    case PP_STEP_BUFFER: w->views[step->out] = pp_work_buffer(w, step->imm, step->level, step->size); break;
    case PP_STEP_KEEP: pp_work_keep(w, step); break;
    case PP_STEP_SCAN: pp_work_scan(w, step); break;
    case PP_STEP_PRODUCT: w->views[step->out] = w->product; break;
    case PP_STEP_CHOOSE: pp_work_choose(w, step); break;
    }
}

void pp_work_steps(pp_work *w, const pp_body *body, pp_group group)
{
    const uint32_t n = body->n_steps[group];
    const pp_machine *machine = body->machines[group], *end = machine + body->n_machines[group];
    w->steps = body->steps[group];
    for (uint32_t i = 0; i < n;) {
        if (machine < end && machine->first == i && pp_work_machine(w, body, machine)) {
            i += machine++->n;
            continue;
        }
        if (machine < end && machine->first == i) machine++;
        run_step(w, &w->steps[i++]);
    }
}
