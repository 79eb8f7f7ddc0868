/* SPDX-License-Identifier: Apache-2.0
 * Scans by the law of meaning: a prefix inside each block, then the carry of the blocks before joined on its
 * left.
 *
 * Lanes: blocks of 4096 along the columns of the tile; inside, prefixes of groups of 16 by steps of 1, 2, 4,
 * 8, then the running join of the groups' last elements; short rows go all at once. Rows: the running
 * join inside blocks of 128 rows, as wide as the tile. The carry stays in scratch from tile to tile: a scan
 * runs along its axis in one task. */
#include <string.h>

#include "devices/cpu/interp_work.h"

enum { MAX_STATES = 4, TURNED_ROWS = 8 };

static size_t state_size(const pp_fold *fold, unsigned s)
{
    return ppto_dtype_size((ppto_dtype)fold->state[s]);
}

static void at_element(const pp_fold *fold, void *const *base, size_t i, void **out)
{
    for (unsigned s = 0; s < fold->n_states; s++) out[s] = (char *)base[s] + i * state_size(fold, s);
}

static void copy_elements(const pp_fold *fold, size_t n, void *const *to, const void *const *from)
{
    for (unsigned s = 0; s < fold->n_states; s++) memcpy(to[s], from[s], n * state_size(fold, s));
}

/* ---- lanes: a block by functions ------------------------------------------------------------- */

/* y[i] = join(y[i - d], y[i]) for i >= d in every group, all at once. */
static void log_step(const pp_work *w, const pp_fold_code *code, size_t n, size_t d, const pp_fold_temp *temp)
{
    const pp_fold *fold = code->fold;
    void *right[MAX_STATES];
    if (n <= d) return;
    at_element(fold, temp->lifted, d, right);
    copy_elements(fold, n - d, temp->copy, (const void *const *)temp->lifted);
    pp_fold_join(w, code, n - d, temp->copy, (const void *const *)right);
    for (size_t group = 0; group + d < n; group += PP_SCAN_GROUP) {
        const size_t end = n - group < PP_SCAN_GROUP ? n : group + PP_SCAN_GROUP;
        void *to[MAX_STATES], *from[MAX_STATES];
        at_element(fold, temp->lifted, group + d, to);
        at_element(fold, temp->copy, group, from);
        copy_elements(fold, end - group - d, to, (const void *const *)from);
    }
}

/* Joins to every group the last of what came before; the copy holds that value for each element. */
static void join_groups(const pp_work *w, const pp_fold_code *code, size_t n, const pp_fold_temp *temp)
{
    const pp_fold *fold = code->fold;
    void *before[MAX_STATES], *last[MAX_STATES], *from[MAX_STATES];
    if (n <= PP_SCAN_GROUP) return;
    at_element(fold, temp->lifted, PP_SCAN_GROUP - 1, last);
    copy_elements(fold, 1, temp->lanes, (const void *const *)last);
    for (size_t group = PP_SCAN_GROUP; group < n; group += PP_SCAN_GROUP) {
        const size_t m = n - group < PP_SCAN_GROUP ? n - group : PP_SCAN_GROUP;
        at_element(fold, temp->copy, group, before);
        for (unsigned s = 0; s < fold->n_states; s++)
            w->set->fill(m, before[s], temp->lanes[s], state_size(fold, s));
        at_element(fold, temp->lifted, group + m - 1, last);
        pp_fold_join(w, code, 1, temp->lanes, (const void *const *)last);
    }
    at_element(fold, temp->copy, PP_SCAN_GROUP, before);
    at_element(fold, temp->lifted, PP_SCAN_GROUP, from);
    pp_fold_join(w, code, n - PP_SCAN_GROUP, before, (const void *const *)from);
    copy_elements(fold, n - PP_SCAN_GROUP, from, (const void *const *)before);
}

static void scan_by_functions(const pp_work *w, const pp_fold_code *code, size_t n, void *const *out,
                              const void *const *in, int64_t k0)
{
    pp_fold_temp temp;
    pp_fold_temp_at(w, &temp);
    pp_fold_lift(w, code, n, temp.lifted, in, k0, 1);
    for (size_t d = 1; d < PP_SCAN_GROUP; d *= 2) log_step(w, code, n, d, &temp);
    join_groups(w, code, n, &temp);
    copy_elements(code->fold, n, out, (const void *const *)temp.lifted);
}

/* ---- lanes: a row ---------------------------------------------------------------------------- */

/* out = join(carry, out). */
static void join_carry(const pp_work *w, const pp_fold_code *code, size_t n, void *const *out,
                       void *const *carry)
{
    pp_fold_temp temp;
    if (code->row_sv != NULL) {
        code->row_sv(n, out[0], carry[0], out[0], NULL);
        return;
    }
    pp_fold_temp_at(w, &temp);
    for (unsigned s = 0; s < code->fold->n_states; s++)
        w->set->fill(n, temp.copy[s], carry[s], state_size(code->fold, s));
    pp_fold_join(w, code, n, temp.copy, (const void *const *)out);
    copy_elements(code->fold, n, out, (const void *const *)temp.copy);
}

static void scan_lanes(pp_work *w, const pp_fold_code *code, const pp_fold_at *at, const pp_step *step,
                       size_t row)
{
    const pp_fold *fold = code->fold;
    const size_t n = w->cols;
    const void *in[MAX_STATES] = {NULL};
    void *out[MAX_STATES], *carry[MAX_STATES], *last[MAX_STATES], *raw[MAX_STATES];
    for (uint32_t i = 0; i < step->n_list; i++)
        in[i] = w->views[step->list[i]].at + (int64_t)row * w->views[step->list[i]].pitch;
    for (unsigned s = 0; s < fold->n_states; s++) {
        out[s] = w->views[step->out + s].at + (int64_t)row * w->views[step->out + s].pitch;
        carry[s] = w->scratch + at->carry[s];
        raw[s] = w->scratch + at->raw[s] + row * state_size(fold, s);
    }
    if (code->loops != NULL && code->loops->scan != NULL)
        code->loops->scan(n, out, in, w->at[PP_DIM_COLS]);
    else
        scan_by_functions(w, code, n, out, in, w->at[PP_DIM_COLS]);
    if (w->at[PP_DIM_COLS] > 0) join_carry(w, code, n, out, carry);
    at_element(fold, out, n - 1, last);
    copy_elements(fold, 1, carry, (const void *const *)last);
    copy_elements(fold, 1, raw, (const void *const *)last);
}

/* ---- lanes: short rows ----------------------------------------------------------------------- */

/* y = join(x, y) */
static void join_left(const pp_work *w, const pp_fold_code *code, size_t n, void *const *x, void *const *y)
{
    pp_fold_temp temp;
    if (code->row != NULL) {
        code->row(n, y[0], x[0], y[0], NULL);
        return;
    }
    pp_fold_temp_at(w, &temp);
    copy_elements(code->fold, n, temp.copy, (const void *const *)x);
    pp_fold_join(w, code, n, temp.copy, (const void *const *)y);
    copy_elements(code->fold, n, y, (const void *const *)temp.copy);
}

/* Element k of every row has element `left` joined on its left. */
static void join_element(const pp_work *w, const pp_fold_code *code, const pp_fold_temp *temp, size_t left,
                         size_t k)
{
    void *a[MAX_STATES], *b[MAX_STATES];
    at_element(code->fold, temp->lifted, left * w->rows, a);
    at_element(code->fold, temp->lifted, k * w->rows, b);
    join_left(w, code, w->rows, a, b);
}

/* The tile is turned to [element][row], so that a step joins all rows at once. */
static void scan_turned(pp_work *w, const pp_fold_code *code, const pp_fold_at *at, const pp_step *step)
{
    const pp_fold *fold = code->fold;
    const pp_instr *instr = w->launch->kernel->plain.program->code;
    const size_t rows = w->rows, n = w->cols;
    void *in[MAX_STATES];
    pp_fold_temp temp;
    pp_fold_temp_at(w, &temp);
    for (uint32_t i = 0; i < step->n_list; i++) {
        const pp_view *v = &w->views[step->list[i]];
        const size_t size = ppto_dtype_size((ppto_dtype)instr[fold->input[i]].dtype);
        in[i] = code->identity ? temp.lifted[i] : temp.copy[i];
        w->set->load_transposed(n, rows, in[i], rows * size, v->at, v->pitch, size);
    }
    for (size_t k = 0; !code->identity && k < n; k++) {
        const void *from[MAX_STATES];
        void *to[MAX_STATES];
        for (uint32_t i = 0; i < step->n_list; i++)
            from[i] = (char *)in[i] + k * rows * ppto_dtype_size((ppto_dtype)instr[fold->input[i]].dtype);
        at_element(fold, temp.lifted, k * rows, to);
        pp_fold_lift(w, code, rows, to, from, (int64_t)k, 0);
    }
    for (size_t d = 1; d < PP_SCAN_GROUP; d *= 2)
        for (size_t k = n; k-- > d;)
            if (k % PP_SCAN_GROUP >= d) join_element(w, code, &temp, k - d, k);
    for (size_t k = PP_SCAN_GROUP; k < n; k++)
        join_element(w, code, &temp, k / PP_SCAN_GROUP * PP_SCAN_GROUP - 1, k);
    for (unsigned s = 0; s < fold->n_states; s++) {
        const size_t size = state_size(fold, s);
        const pp_view *v = &w->views[step->out + s];
        w->set->load_transposed(rows, n, v->at, (size_t)v->pitch, temp.lifted[s], (int64_t)(rows * size),
                                size);
        memcpy(w->scratch + at->raw[s], (char *)temp.lifted[s] + (n - 1) * rows * size, rows * size);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void scan_row(pp_work *w, const pp_fold_code *code, const pp_fold_at *at, const pp_step *step,
                     size_t row)
{
    const pp_fold *fold = code->fold;
    const size_t n = w->cols;
    const int64_t k = w->at[PP_DIM_ROWS] + (int64_t)row, block = k / PP_ROW_BLOCK;
    const void *in[MAX_STATES] = {NULL};
    void *out[MAX_STATES], *carry[MAX_STATES], *running[MAX_STATES], *raw[MAX_STATES];
    pp_fold_temp temp;
    pp_fold_temp_at(w, &temp);
    for (uint32_t i = 0; i < step->n_list; i++)
        in[i] = w->views[step->list[i]].at + (int64_t)row * w->views[step->list[i]].pitch;
    for (unsigned s = 0; s < fold->n_states; s++) {
        out[s] = w->views[step->out + s].at + (int64_t)row * w->views[step->out + s].pitch;
        carry[s] = w->scratch + at->carry[s];
        running[s] = w->scratch + at->state[s];
        raw[s] = w->scratch + at->raw[s];
    }
    if (k % PP_ROW_BLOCK == 0) {
        if (block == 1) copy_elements(fold, n, carry, (const void *const *)running);
        if (block > 1) pp_fold_join(w, code, n, carry, (const void *const *)running);
        pp_fold_lift(w, code, n, running, in, k, 0);
    } else {
        if (!code->identity) pp_fold_lift(w, code, n, temp.lifted, in, k, 0);
        pp_fold_join(w, code, n, running, code->identity ? in : (const void *const *)temp.lifted);
    }
    copy_elements(fold, n, out, (const void *const *)(block > 0 ? carry : running));
    if (block > 0) pp_fold_join(w, code, n, out, (const void *const *)running);
    if (k + 1 == w->length) copy_elements(fold, n, raw, (const void *const *)out);
}

pp_view pp_work_scanned(const pp_work *w, const pp_step *step, unsigned s)
{
    const size_t size = state_size(w->launch->kernel->folds[step->imm].fold, s);
    pp_view view = {.at = w->scratch + w->launch->reg[step->out + s]};
    view.pitch = step->level == PP_LEVEL_FULL   ? (int64_t)(w->cols * size)
                 : step->level == PP_LEVEL_ROWS ? (int64_t)size
                                                : 0;
    return view;
}

bool pp_work_scans_turned(const pp_work *w)
{
    return w->launch->minor.total <= (int64_t)PP_LANES && w->rows >= TURNED_ROWS;
}

void pp_work_scan(pp_work *w, const pp_step *step)
{
    const pp_fold_code *code = &w->launch->kernel->folds[step->imm];
    const pp_fold_at *at = &w->launch->folds[step->imm];
    const bool lanes = w->launch->variant->program->frame == PP_FRAME_LANES;
    for (unsigned s = 0; s < code->fold->n_states; s++) w->views[step->out + s] = pp_work_scanned(w, step, s);
    if (lanes && pp_work_scans_turned(w)) {
        scan_turned(w, code, at, step);
        return;
    }
    for (size_t r = 0; r < w->rows; r++) {
        if (lanes)
            scan_lanes(w, code, at, step, r);
        else
            scan_row(w, code, at, step, r);
    }
}
