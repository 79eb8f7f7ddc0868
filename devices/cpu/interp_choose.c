/* SPDX-License-Identifier: Apache-2.0
 * Values that are chosen by position: concatenations, pads, rolls, stacks.
 *
 * In the program they are selections by guards between loads that are valid on one side each. Computing both
 * sides and a mask of every element would be three passes over what is one copy. So a tree of such
 * selections is one step (planned in interp_plan_choose.c): a rectangle that lies on one side follows that
 * branch alone, one that does not is cut where the guards change. At the leaves are loads, which then are
 * used in place or copied to where the result belongs, and values computed before. */
#include <string.h>

#include "devices/cpu/interp_work.h"

static void choose_rect(pp_work *w, const pp_step *step, const pp_choice *choice, const pp_rect *rect);

/* ---- parts of a rectangle -------------------------------------------------------------------- */

static void choose_part(pp_work *w, const pp_step *step, const pp_choice *choice, const pp_rect *rect,
                        const size_t rows[2], const size_t cols[2])
{
    int64_t coord[PP_AXES];
    pp_rect part = *rect;
    if (rows[0] >= rows[1] || cols[0] >= cols[1]) return;
    memcpy(coord, rect->coord, w->launch->n_axes * sizeof *coord);
    const pp_dim *down = rect->row_dim == PP_DIMS ? NULL : &w->space->dim[rect->row_dim];
    const pp_dim *along = rect->col_dim == PP_DIMS ? NULL : &w->space->dim[rect->col_dim];
    if (down != NULL && down->n > 0) coord[down->axis[down->n - 1]] += (int64_t)rows[0];
    if (along != NULL && along->n > 0) coord[along->axis[along->n - 1]] += (int64_t)cols[0];
    part.coord = coord;
    part.row += rows[0], part.rows = rows[1] - rows[0];
    part.col += cols[0], part.cols = cols[1] - cols[0];
    choose_rect(w, step, choice, &part);
}

/* Inside: one box; outside: what is above, below, left and right of it. */
static void cut_box(pp_work *w, const pp_step *step, const pp_choice *choice, const pp_rect *rect,
                    const size_t rows[2], const size_t cols[2])
{
    const size_t all[2] = {0, rect->cols}, above[2] = {0, rows[0]}, below[2] = {rows[1], rect->rows};
    const size_t left[2] = {0, cols[0]}, right[2] = {cols[1], rect->cols};
    choose_part(w, step, choice->inside, rect, rows, cols);
    choose_part(w, step, choice->outside, rect, above, all);
    choose_part(w, step, choice->outside, rect, below, all);
    choose_part(w, step, choice->outside, rect, rows, left);
    choose_part(w, step, choice->outside, rect, rows, right);
}

static void cut(pp_work *w, const pp_step *step, const pp_choice *choice, const pp_rect *rect)
{
    size_t rows[2], cols[2];
    if (pp_guards_box(w, choice->guards, choice->n_guards, rect, rows, cols)) {
        if (cols[0] == cols[1]) rows[0] = rows[1] = 0;
        cut_box(w, step, choice, rect, rows, cols);
        return;
    }
    for (size_t r = 0; r < rect->rows; r++) {
        const size_t row[2] = {r, r + 1};
        pp_guards_clip(w, choice->guards, choice->n_guards, rect, r, &cols[0], &cols[1]);
        const size_t left[2] = {0, cols[0]}, right[2] = {cols[1], rect->cols};
        choose_part(w, step, choice->inside, rect, row, cols);
        choose_part(w, step, choice->outside, rect, row, left);
        choose_part(w, step, choice->outside, rect, row, right);
    }
}

/* ---- leaves ---------------------------------------------------------------------------------- */

static void copy_value(pp_work *w, const pp_step *step, const pp_choice *choice, const pp_rect *rect,
                       char *out, int64_t pitch)
{
    const pp_view *v = &w->views[choice->view];
    const size_t size = step->size;
    const char *in = v->at + (int64_t)rect->row * v->pitch + (int64_t)(rect->col * size);
    if (!choice->one) {
        pp_copy_rows(out, pitch, in, v->pitch, rect->rows, rect->cols * size);
        return;
    }
    for (size_t r = 0; r < rect->rows; r++, out += pitch) w->set->fill(rect->cols, out, v->at, size);
}

static void choose_rect(pp_work *w, const pp_step *step, const pp_choice *choice, const pp_rect *rect)
{
    while (choice->guards != NULL) {
        const int side = pp_guards_side(w, choice->guards, choice->n_guards, rect);
        if (side < 0) {
            cut(w, step, choice, rect);
            return;
        }
        choice = side == 1 ? choice->inside : choice->outside;
    }
    const pp_view *view = &w->views[step->out];
    char *out = view->at + (int64_t)rect->row * view->pitch + (int64_t)(rect->col * step->size);
    if (choice->access != NULL)
        pp_load_rect(w, choice->access, out, view->pitch, rect);
    else
        copy_value(w, step, choice, rect, out, view->pitch);
}

static void choose_all(pp_work *w, const pp_step *step, const pp_rect *rect)
{
    choose_rect(w, step, step->data, rect);
}

/* ---- the step -------------------------------------------------------------------------------- */

/* A tile on one side whose leaf is a load may need no copy. */
static bool in_place(pp_work *w, const pp_step *step, const pp_area *area)
{
    const pp_rect rect = {w->coord, 0, 0, area->rows, area->cols, area->row_dim, area->col_dim};
    const pp_choice *choice = step->data;
    while (choice->guards != NULL) {
        const int side = pp_guards_side(w, choice->guards, choice->n_guards, &rect);
        if (side < 0) return false;
        choice = side == 1 ? choice->inside : choice->outside;
    }
    return choice->access != NULL && pp_load_in_place(w, step, choice->access, area);
}

void pp_work_choose(pp_work *w, const pp_step *step)
{
    pp_area area;
    if (pp_area_start(&area, w, step->level) && in_place(w, step, &area)) return;
    w->views[step->out] = pp_work_place(w, step);
    pp_area_each(&area, w, step, choose_all);
}
