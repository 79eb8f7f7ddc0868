/* SPDX-License-Identifier: Apache-2.0
 * Where a tile lies: positions in a flattened dimension, their coordinates, and the stretches along its last
 * axis. Almost every tile is one stretch each way, so that a linear form describes it by a corner and two
 * steps; a tile that crosses the end of an axis is walked stretch by stretch. */
#include <string.h>

#include "devices/cpu/interp_work.h"

static void decode(const pp_launch *launch, const pp_dim *dim, int64_t at, int64_t *coord)
{
    if (dim->n == 0) return;
    for (uint32_t i = dim->n; i-- > 1;) {
        const int64_t size =
            launch->size[dim->axis[i]]; /* 0 where a fold has nothing to fold: then at is 0 */
        coord[dim->axis[i]] = size > 0 ? at % size : 0;
        at = size > 0 ? at / size : 0;
    }
    coord[dim->axis[0]] = at;
}

void pp_work_range(pp_work *w, pp_dim_id id, int64_t at, size_t n)
{
    w->at[id] = at;
    if (id == PP_DIM_ROWS) w->rows = n;
    if (id == PP_DIM_COLS) w->cols = n;
    decode(w->launch, &w->space->dim[id], at, w->coord);
}

void pp_work_coords(const pp_work *w, size_t row, size_t col, int64_t *coord)
{
    memcpy(coord, w->coord, sizeof w->coord);
    decode(w->launch, &w->space->dim[PP_DIM_ROWS], w->at[PP_DIM_ROWS] + (int64_t)row, coord);
    decode(w->launch, &w->space->dim[PP_DIM_COLS], w->at[PP_DIM_COLS] + (int64_t)col, coord);
}

void pp_walk_start(pp_walk *walk, const pp_work *w, pp_dim_id id, size_t total, int64_t *coord)
{
    const pp_dim *dim = id == PP_DIMS ? NULL : &w->space->dim[id];
    *walk = (pp_walk){.launch = w->launch, .dim = dim, .coord = coord, .n = total, .left = total};
    if (dim == NULL || dim->n == 0) return;
    for (uint32_t i = 0; i < dim->n; i++) coord[dim->axis[i]] = w->coord[dim->axis[i]];
    const uint8_t last = dim->axis[dim->n - 1];
    const int64_t room = w->launch->size[last] - coord[last];
    if (room < (int64_t)total) walk->n = (size_t)room;
}

bool pp_walk_next(pp_walk *walk)
{
    walk->done += walk->n;
    walk->left -= walk->n;
    if (walk->left == 0) return false;
    const pp_dim *dim = walk->dim;
    for (uint32_t i = dim->n - 1; i-- > 0;) {
        if (++walk->coord[dim->axis[i]] < walk->launch->size[dim->axis[i]]) break;
        walk->coord[dim->axis[i]] = 0;
    }
    const uint8_t last = dim->axis[dim->n - 1];
    walk->coord[last] = 0;
    const int64_t size = walk->launch->size[last];
    walk->n = size < (int64_t)walk->left ? (size_t)size : walk->left;
    return true;
}

static bool one_stretch(const pp_work *w, pp_dim_id id, size_t n)
{
    if (id == PP_DIMS) return true;
    const pp_dim *dim = &w->space->dim[id];
    if (dim->n <= 1) return true;
    const uint8_t last = dim->axis[dim->n - 1];
    return w->coord[last] + (int64_t)n <= w->launch->size[last];
}

bool pp_area_start(pp_area *area, const pp_work *w, uint8_t level)
{
    area->row_dim = level == PP_LEVEL_FULL ? PP_DIM_ROWS : PP_DIMS;
    area->col_dim = level & PP_LEVEL_COLS ? PP_DIM_COLS : level & PP_LEVEL_ROWS ? PP_DIM_ROWS : PP_DIMS;
    area->rows = level == PP_LEVEL_FULL ? w->rows : 1;
    area->cols = area->col_dim == PP_DIM_COLS ? w->cols : area->col_dim == PP_DIM_ROWS ? w->rows : 1;
    return one_stretch(w, area->row_dim, area->rows) && one_stretch(w, area->col_dim, area->cols);
}

void pp_area_each(const pp_area *area, pp_work *w, const pp_step *step, pp_rect_fn fn)
{
    int64_t coord[PP_AXES];
    pp_walk rows, cols;
    memcpy(coord, w->coord, w->launch->n_axes * sizeof *coord);
    pp_walk_start(&rows, w, area->row_dim, area->rows, coord);
    do {
        pp_walk_start(&cols, w, area->col_dim, area->cols, coord);
        do {
            const pp_rect rect = {coord, rows.done, cols.done, rows.n, cols.n, area->row_dim, area->col_dim};
            fn(w, step, &rect);
        } while (pp_walk_next(&cols));
    } while (pp_walk_next(&rows));
}

int64_t pp_rect_step(const pp_work *w, const pp_lin *lin, pp_dim_id id)
{
    return id == PP_DIMS ? 0 : pp_dim_step(lin, &w->space->dim[id]);
}
