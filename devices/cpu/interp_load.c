/* SPDX-License-Identifier: Apache-2.0
 * Loads, and what else follows linear forms: coordinates (INDEX) and guards (INSIDE).
 *
 * Where a tile lies in memory in rows of neighbouring elements it is used in place, without a copy: the view
 * points into the tensor. Otherwise it is copied to a register: by rows, by a transposing copy when the
 * elements of a column are neighbours, or strided. Guards leave a range of columns of each row; the rest is
 * filled. Gathers go by rows when the index is one per row, else element by element; an index outside the
 * extent (its CHECK has failed, or will) reads nothing and gives the fill. When an output shares memory with
 * an input and there are several outputs, the input is copied before anything of the tile is stored. */
#include <string.h>

#include "base/fault.h"
#include "devices/cpu/interp_work.h"

/* ---- guards ---------------------------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b) /* b > 0 */
{
    return a / b - (a % b < 0);
}

/* lo <= base + step * c < hi for c of [*from, *to). */
static void clip(int64_t lo, int64_t hi, int64_t base, int64_t step, int64_t *from, int64_t *to)
{
    int64_t first = 0, end = *to;
    if (step == 0) {
        if (base < lo || base >= hi) end = 0;
    } else if (step > 0) {
        first = floor_div(lo - base + step - 1, step);
        end = floor_div(hi - base + step - 1, step);
    } else {
        first = floor_div(base - hi, -step) + 1;
        end = floor_div(base - lo, -step) + 1;
    }
    if (first > *from) *from = first;
    if (end < *to) *to = end;
}

void pp_guards_clip(const pp_work *w, const pp_guard_at *guards, uint32_t n, const pp_rect *rect, size_t row,
                    size_t *from, size_t *to)
{
    int64_t first = 0, end = (int64_t)rect->cols;
    for (uint32_t i = 0; i < n; i++) {
        const pp_guard_at *g = &guards[i];
        if (g->value != PP_NONE) continue;
        const int64_t base = pp_lin_at(g->lin, w->launch->n_axes, rect->coord) +
                             (int64_t)row * pp_rect_step(w, g->lin, rect->row_dim);
        clip(g->lo, g->hi - pp_fault(PP_FAULT_WRONG_GUARD), base, pp_rect_step(w, g->lin, rect->col_dim),
             &first, &end);
    }
    if (end < first) end = first;
    if (first > (int64_t)rect->cols) first = end = (int64_t)rect->cols;
    *from = (size_t)first;
    *to = (size_t)end;
}

int pp_guards_side(const pp_work *w, const pp_guard_at *guards, uint32_t n, const pp_rect *rect)
{
    int side = 1;
    for (uint32_t i = 0; i < n; i++) {
        const pp_guard_at *g = &guards[i];
        if (g->value != PP_NONE) return -1;
        int64_t low = pp_lin_at(g->lin, w->launch->n_axes, rect->coord), high = low;
        const int64_t down = pp_rect_step(w, g->lin, rect->row_dim) * ((int64_t)rect->rows - 1);
        const int64_t along = pp_rect_step(w, g->lin, rect->col_dim) * ((int64_t)rect->cols - 1);
        *(down < 0 ? &low : &high) += down;
        *(along < 0 ? &low : &high) += along;
        if (high < g->lo || low >= g->hi) return 0;
        if (low < g->lo || high >= g->hi) side = -1;
    }
    return side;
}

/* ---- plain rectangles ------------------------------------------------------------------------ */

static char *place_of(const pp_view *out, const pp_step *step, const pp_rect *rect)
{
    return out->at + (int64_t)rect->row * out->pitch + (int64_t)(rect->col * step->size);
}

/* A row of n elements into neighbouring places. */
static void copy_row(const pp_work *w, size_t n, char *out, const char *in, int64_t by, size_t size)
{
    if (pp_fault(PP_FAULT_NEGATIVE_STRIDE) && by < 0 && n > 0) {
        in += (int64_t)(n - 1) * by;
        by = -by;
    }
    if (by == (int64_t)size)
        memcpy(out, in, n * size);
    else
        w->set->load_strided(n, out, in, by, size);
}

static void copy_rect(const pp_work *w, char *out, int64_t pitch, const char *in, const pp_rect *rect,
                      int64_t down, int64_t along, size_t size)
{
    const int64_t row_bytes = (int64_t)(rect->cols * size);
    if (along == (int64_t)size && down == row_bytes && pitch == row_bytes) {
        memcpy(out, in, rect->rows * rect->cols * size);
        return;
    }
    if (down == (int64_t)size && along != (int64_t)size && rect->rows >= 4 && pitch == row_bytes) {
        w->set->load_transposed(rect->rows, rect->cols, out, in, along, size);
        return;
    }
    for (size_t r = 0; r < rect->rows; r++, out += pitch, in += down)
        copy_row(w, rect->cols, out, in, along, size);
}

static void load_guarded(const pp_work *w, const pp_access_at *access, char *out, int64_t pitch,
                         int64_t offset, const pp_rect *rect, int64_t down, int64_t along)
{
    const pp_tensor_at *tensor = &w->launch->tensors[access->tensor];
    const size_t size = access->size;
    for (size_t r = 0; r < rect->rows; r++, out += pitch, offset += down) {
        size_t from, to;
        pp_guards_clip(w, access->guards, access->n_guards, rect, r, &from, &to);
        w->set->fill(from, out, &access->fill, size);
        if (from < to) {
            const char *in = tensor->data + (offset + (int64_t)from * along);
            if (tensor->touched != NULL) pp_work_touch(w, access, in, 1, to - from, 0, along);
            copy_row(w, to - from, out + from * size, in, along, size);
        }
        w->set->fill(rect->cols - to, out + to * size, &access->fill, size);
    }
}

static void load_rect(pp_work *w, const pp_step *step, const pp_rect *rect)
{
    const pp_access_at *access = step->data;
    const pp_tensor_at *tensor = &w->launch->tensors[access->tensor];
    const pp_view *view = &w->views[step->out];
    char *out = place_of(view, step, rect);
    const int64_t offset = pp_lin_at(access->lin, w->launch->n_axes, rect->coord);
    const int64_t down = pp_rect_step(w, access->lin, rect->row_dim),
                  along = pp_rect_step(w, access->lin, rect->col_dim);
    const int side = pp_guards_side(w, access->guards, access->n_guards, rect);
    if (side < 0) {
        load_guarded(w, access, out, view->pitch, offset, rect, down, along);
    } else if (side == 0) {
        for (size_t r = 0; r < rect->rows; r++)
            w->set->fill(rect->cols, out + (int64_t)r * view->pitch, &access->fill, access->size);
    } else {
        const char *in = tensor->data + offset;
        if (tensor->touched != NULL) pp_work_touch(w, access, in, rect->rows, rect->cols, down, along);
        copy_rect(w, out, view->pitch, in, rect, down, along, access->size);
    }
}

/* ---- gathers --------------------------------------------------------------------------------- */

int64_t pp_value_as_i64(const void *at, ppto_dtype dtype)
{
    union {
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        uint8_t u8;
        uint16_t u16;
        uint32_t u32;
        uint64_t u64;
    } x = {.u64 = 0};
    memcpy(&x, at, ppto_dtype_size(dtype));
    switch (dtype) {
    case PPTO_I8: return x.i8;
    case PPTO_I16: return x.i16;
    case PPTO_I32: return x.i32;
    case PPTO_U8:
    case PPTO_BOOL: return x.u8;
    case PPTO_U16: return x.u16;
    case PPTO_U32: return x.u32;
    default: return x.i64;
    }
}

static uint8_t value_dtype(const pp_work *w, uint32_t value)
{
    return w->launch->variant->program->code[value].dtype;
}

static int64_t value_at(const pp_work *w, uint32_t view, uint32_t value, size_t row, size_t col)
{
    const pp_view *v = &w->views[view];
    const ppto_dtype dtype = (ppto_dtype)value_dtype(w, value);
    return pp_value_as_i64(v->at + (int64_t)row * v->pitch + (int64_t)(col * ppto_dtype_size(dtype)), dtype);
}

/* Adds the gathered dimensions' bytes; false when an index lies outside. row, col: of the rectangle. */
static bool add_gathers(const pp_work *w, const pp_step *step, const pp_rect *rect, size_t row, size_t col,
                        bool per_row, int64_t *offset)
{
    const pp_access_at *access = step->data;
    for (uint32_t g = 0; g < access->n_gathers; g++) {
        const pp_gather_at *gather = &access->gathers[g];
        const int64_t value =
            per_row ? value_at(w, step->list[g], gather->value, 0, rect->row + row)
                    : value_at(w, step->list[g], gather->value, rect->row + row, rect->col + col);
        const int64_t index = value + pp_lin_at(gather->lin, w->launch->n_axes, rect->coord) +
                              (int64_t)row * pp_rect_step(w, gather->lin, rect->row_dim) +
                              (int64_t)col * pp_rect_step(w, gather->lin, rect->col_dim);
        if (index < 0 || index >= gather->extent) return false;
        *offset += value * gather->stride;
    }
    return true;
}

static bool guards_hold(const pp_work *w, const pp_guard_at *guards, uint32_t n, const uint32_t *views,
                        const pp_rect *rect, size_t row, size_t col)
{
    for (uint32_t i = 0; i < n; i++) {
        const pp_guard_at *g = &guards[i];
        int64_t at = pp_lin_at(g->lin, w->launch->n_axes, rect->coord) +
                     (int64_t)row * pp_rect_step(w, g->lin, rect->row_dim) +
                     (int64_t)col * pp_rect_step(w, g->lin, rect->col_dim);
        if (g->value != PP_NONE) at += value_at(w, *views++, g->value, rect->row + row, rect->col + col);
        if (at < g->lo || at >= g->hi) return false;
    }
    return true;
}

static void gather_by_element(pp_work *w, const pp_step *step, const pp_rect *rect)
{
    const pp_access_at *access = step->data;
    const pp_tensor_at *tensor = &w->launch->tensors[access->tensor];
    const int64_t base = pp_lin_at(access->lin, w->launch->n_axes, rect->coord);
    const int64_t down = pp_rect_step(w, access->lin, rect->row_dim),
                  along = pp_rect_step(w, access->lin, rect->col_dim);
    const uint32_t *guard_views = step->list + access->n_gathers;
    for (size_t r = 0; r < rect->rows; r++) {
        char *out = place_of(&w->views[step->out], step, rect) + (int64_t)r * w->views[step->out].pitch;
        for (size_t c = 0; c < rect->cols; c++, out += step->size) {
            int64_t offset = base + (int64_t)r * down + (int64_t)c * along;
            if (!guards_hold(w, access->guards, access->n_guards, guard_views, rect, r, c) ||
                !add_gathers(w, step, rect, r, c, false, &offset)) {
                memcpy(out, &access->fill, step->size);
                continue;
            }
            if (tensor->touched != NULL) pp_work_touch(w, access, tensor->data + offset, 1, 1, 0, 0);
            memcpy(out, tensor->data + offset, step->size);
        }
    }
}

static void gather_by_row(pp_work *w, const pp_step *step, const pp_rect *rect)
{
    const pp_access_at *access = step->data;
    const pp_tensor_at *tensor = &w->launch->tensors[access->tensor];
    const pp_view *view = &w->views[step->out];
    const int64_t base = pp_lin_at(access->lin, w->launch->n_axes, rect->coord);
    const int64_t down = pp_rect_step(w, access->lin, rect->row_dim),
                  along = pp_rect_step(w, access->lin, rect->col_dim);
    char *out = place_of(view, step, rect);
    for (size_t r = 0; r < rect->rows; r++, out += view->pitch) {
        int64_t offset = base + (int64_t)r * down;
        size_t from = 0, to = 0;
        /* An index that also moves along the columns is held against the extent at both ends of the row. */
        int64_t unused = 0;
        if (add_gathers(w, step, rect, r, 0, true, &offset) &&
            add_gathers(w, step, rect, r, rect->cols - 1, true, &unused))
            pp_guards_clip(w, access->guards, access->n_guards, rect, r, &from, &to);
        w->set->fill(from, out, &access->fill, step->size);
        if (from < to) {
            const char *in = tensor->data + offset + (int64_t)from * along;
            if (tensor->touched != NULL) pp_work_touch(w, access, in, 1, to - from, 0, along);
            copy_row(w, to - from, out + from * step->size, in, along, step->size);
        }
        w->set->fill(rect->cols - to, out + to * step->size, &access->fill, step->size);
    }
}

/* ---- the load -------------------------------------------------------------------------------- */

static bool in_place(pp_work *w, const pp_step *step, const pp_area *area)
{
    const pp_access_at *access = step->data;
    const pp_tensor_at *tensor = &w->launch->tensors[access->tensor];
    const int64_t down = pp_rect_step(w, access->lin, area->row_dim),
                  along = pp_rect_step(w, access->lin, area->col_dim);
    const int64_t size = access->size, row_bytes = (int64_t)area->cols * size;
    if (tensor->aliased || (along != size && area->cols > 1)) return false;
    if (area->rows > 1 && down != row_bytes && area->cols < 32) return false;
    if (access->n_guards > 0) {
        const pp_rect rect = {w->coord, 0, 0, area->rows, area->cols, area->row_dim, area->col_dim};
        if (pp_guards_side(w, access->guards, access->n_guards, &rect) != 1) return false;
    }
    char *at = tensor->data + pp_lin_at(access->lin, w->launch->n_axes, w->coord);
    if (tensor->touched != NULL) pp_work_touch(w, access, at, area->rows, area->cols, down, along);
    const int64_t pitch = step->level == PP_LEVEL_FULL ? down : step->level == PP_LEVEL_ROWS ? size : 0;
    w->views[step->out] = (pp_view){at, pitch};
    return true;
}

void pp_work_load(pp_work *w, const pp_step *step)
{
    const pp_access_at *access = step->data;
    const bool by_value = access->n_gathers > 0 || access->data_guard;
    pp_area area;
    if (pp_area_start(&area, w, step->level) && !by_value && in_place(w, step, &area)) return;
    w->views[step->out] = pp_work_place(w, step);
    pp_area_each(&area, w, step, step->by_row ? gather_by_row : by_value ? gather_by_element : load_rect);
}

/* ---- coordinates and guards as values -------------------------------------------------------- */

static void index_rect(pp_work *w, const pp_step *step, const pp_rect *rect)
{
    const pp_lin *lin = step->data;
    const int64_t base = pp_lin_at(lin, w->launch->n_axes, rect->coord);
    const int64_t down = pp_rect_step(w, lin, rect->row_dim), along = pp_rect_step(w, lin, rect->col_dim);
    for (size_t r = 0; r < rect->rows; r++) {
        int64_t *out = (int64_t *)(void *)(place_of(&w->views[step->out], step, rect) +
                                           (int64_t)r * w->views[step->out].pitch);
        const int64_t first = base + (int64_t)r * down;
        for (size_t c = 0; c < rect->cols; c++) out[c] = first + (int64_t)c * along;
    }
}

void pp_work_index(pp_work *w, const pp_step *step)
{
    pp_area area;
    pp_area_start(&area, w, step->level);
    w->views[step->out] = pp_work_place(w, step);
    pp_area_each(&area, w, step, index_rect);
}

static void inside_rect(pp_work *w, const pp_step *step, const pp_rect *rect)
{
    const pp_guard_at *guards = step->data;
    const pp_view *view = &w->views[step->out];
    for (size_t r = 0; r < rect->rows; r++) {
        char *out = place_of(view, step, rect) + (int64_t)r * view->pitch;
        size_t from, to;
        pp_guards_clip(w, guards, step->imm, rect, r, &from, &to);
        memset(out, 0, rect->cols);
        if (from < to) memset(out + from, 1, to - from);
        for (size_t c = from; step->n_list > 0 && c < to; c++)
            out[c] = guards_hold(w, guards, step->imm, step->list, rect, r, c);
    }
}

void pp_work_inside(pp_work *w, const pp_step *step)
{
    pp_area area;
    pp_area_start(&area, w, step->level);
    w->views[step->out] = pp_work_place(w, step);
    pp_area_each(&area, w, step, inside_rect);
}
