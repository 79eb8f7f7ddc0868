/* SPDX-License-Identifier: Apache-2.0
 * Loads, and what else follows linear forms: coordinates (INDEX) and guards (INSIDE).
 *
 * Where a tile lies in memory in rows of neighbouring elements it is used in place, without a copy: the view
 * points into the tensor. Otherwise it is copied to a register: by rows, by a transposing copy when the
 * elements of a column are neighbours, or strided. Guards leave a range of columns of each row; the rest is
 * filled. Loads at indices are in interp_gather.c. When an output shares memory with
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

bool pp_guards_box(const pp_work *w, const pp_guard_at *guards, uint32_t n, const pp_rect *rect,
                   size_t rows[2], size_t cols[2])
{
    int64_t range[2][2] = {{0, (int64_t)rect->rows}, {0, (int64_t)rect->cols}};
    for (uint32_t i = 0; i < n; i++) {
        const pp_guard_at *g = &guards[i];
        const int64_t base = pp_lin_at(g->lin, w->launch->n_axes, rect->coord);
        const int64_t down = pp_rect_step(w, g->lin, rect->row_dim),
                      along = pp_rect_step(w, g->lin, rect->col_dim);
        if (g->value != PP_NONE || (down != 0 && along != 0)) return false;
        int64_t *r = range[down == 0];
        clip(g->lo, g->hi - pp_fault(PP_FAULT_WRONG_GUARD), base, down == 0 ? along : down, &r[0], &r[1]);
    }
    for (unsigned i = 0; i < 2; i++) {
        const bool empty = range[i][0] >= range[i][1];
        (i == 0 ? rows : cols)[0] = empty ? 0 : (size_t)range[i][0];
        (i == 0 ? rows : cols)[1] = empty ? 0 : (size_t)range[i][1];
    }
    return true;
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

enum { FEW = 4 }; /* so few columns are moved one after the other */

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
    w->set->load_strided(n, out, in, by, size);
}

#define MOVE(d)                                                                                              \
    static void move_##d(size_t n, char *out, int64_t to, const char *in, int64_t by)                        \
    {                                                                                                        \
        for (size_t i = 0; i < n; i++, out += to, in += by) memcpy(out, in, sizeof(d));                      \
    }
MOVE(uint8_t)
MOVE(uint16_t)
MOVE(uint32_t)
MOVE(uint64_t)

/* A column: n elements `by` bytes apart to places `to` bytes apart. */
static void move_column(size_t n, char *out, int64_t to, const char *in, int64_t by, size_t size)
{
    switch (size) {
    case 1: move_uint8_t(n, out, to, in, by); break;
    case 2: move_uint16_t(n, out, to, in, by); break;
    case 4: move_uint32_t(n, out, to, in, by); break;
    default: move_uint64_t(n, out, to, in, by); break;
    }
}

/* n bytes as two overlapping pieces of known length; up to 64. */
static inline void copy_short(char *out, const char *in, size_t n)
{
    if (n >= 32) {
        memcpy(out, in, 32);
        memcpy(out + n - 32, in + n - 32, 32);
    } else if (n >= 16) {
        memcpy(out, in, 16);
        memcpy(out + n - 16, in + n - 16, 16);
    } else if (n >= 8) {
        memcpy(out, in, 8);
        memcpy(out + n - 8, in + n - 8, 8);
    } else if (n >= 4) {
        memcpy(out, in, 4);
        memcpy(out + n - 4, in + n - 4, 4);
    } else {
        for (size_t i = 0; i < n; i++) out[i] = in[i];
    }
}

void pp_copy_rows(char *out, int64_t pitch, const char *in, int64_t down, size_t rows, size_t bytes)
{
    if (down == (int64_t)bytes && pitch == down)
        memcpy(out, in, rows * bytes);
    else if (bytes <= 64)
        for (size_t r = 0; r < rows; r++, out += pitch, in += down) copy_short(out, in, bytes);
    else
        for (size_t r = 0; r < rows; r++, out += pitch, in += down) memcpy(out, in, bytes);
}

static void copy_rect(const pp_work *w, char *out, int64_t pitch, const char *in, const pp_rect *rect,
                      int64_t down, int64_t along, size_t size)
{
    const bool faulty = pp_fault(PP_FAULT_NEGATIVE_STRIDE);
    if (along != (int64_t)size && down == (int64_t)size && rect->rows >= 4 && rect->cols > 1 && !faulty) {
        w->set->load_transposed(rect->rows, rect->cols, out, (size_t)pitch, in, along, size);
    } else if (rect->cols < FEW && rect->rows > FEW && !faulty) {
        for (size_t c = 0; c < rect->cols; c++, out += size, in += along)
            move_column(rect->rows, out, pitch, in, down, size);
    } else if (along == (int64_t)size) {
        pp_copy_rows(out, pitch, in, down, rect->rows, rect->cols * size);
    } else {
        for (size_t r = 0; r < rect->rows; r++, out += pitch, in += down)
            copy_row(w, rect->cols, out, in, along, size);
    }
}

static void fill_rows(const pp_work *w, char *out, int64_t pitch, size_t rows, size_t cols, const void *value,
                      size_t size)
{
    if (cols == 0) return;
    for (size_t r = 0; r < rows; r++, out += pitch) w->set->fill(cols, out, value, size);
}

static void load_guarded(const pp_work *w, const pp_access_at *access, char *out, int64_t pitch,
                         int64_t offset, const pp_rect *rect, int64_t down, int64_t along)
{
    const pp_tensor_at *tensor = &w->launch->tensors[access->tensor];
    const size_t size = access->size;
    for (size_t r = 0; r < rect->rows; r++, out += pitch, offset += down) {
        size_t from, to;
        pp_guards_clip(w, access->guards, access->n_guards, rect, r, &from, &to);
        fill_rows(w, out, 0, 1, from, &access->fill, size);
        if (from < to) {
            const char *in = tensor->data + (offset + (int64_t)from * along);
            if (tensor->touched != NULL) pp_work_touch(w, access, in, 1, to - from, 0, along);
            copy_row(w, to - from, out + from * size, in, along, size);
        }
        fill_rows(w, out + to * size, 0, 1, rect->cols - to, &access->fill, size);
    }
}

void pp_load_rect(const pp_work *w, const pp_access_at *access, char *out, int64_t pitch, const pp_rect *rect)
{
    const pp_tensor_at *tensor = &w->launch->tensors[access->tensor];
    const int64_t offset = pp_lin_at(access->lin, w->launch->n_axes, rect->coord);
    const int64_t down = pp_rect_step(w, access->lin, rect->row_dim),
                  along = pp_rect_step(w, access->lin, rect->col_dim);
    const int side = pp_guards_side(w, access->guards, access->n_guards, rect);
    if (side < 0) {
        load_guarded(w, access, out, pitch, offset, rect, down, along);
    } else if (side == 0) {
        fill_rows(w, out, pitch, rect->rows, rect->cols, &access->fill, access->size);
    } else {
        const char *in = tensor->data + offset;
        if (tensor->touched != NULL) pp_work_touch(w, access, in, rect->rows, rect->cols, down, along);
        copy_rect(w, out, pitch, in, rect, down, along, access->size);
    }
}

static void load_rect(pp_work *w, const pp_step *step, const pp_rect *rect)
{
    const pp_view *view = &w->views[step->out];
    pp_load_rect(w, step->data, place_of(view, step, rect), view->pitch, rect);
}

/* ---- the load -------------------------------------------------------------------------------- */

bool pp_load_in_place(pp_work *w, const pp_step *step, const pp_access_at *access, const pp_area *area)
{
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
    if (pp_area_start(&area, w, step->level) && !by_value && pp_load_in_place(w, step, access, &area)) return;
    w->views[step->out] = pp_work_place(w, step);
    pp_area_each(&area, w, step, step->by_row ? pp_gather_rows : by_value ? pp_gather_elements : load_rect);
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
            out[c] = pp_guards_hold(w, guards, step->imm, step->list, rect, r, c);
    }
}

void pp_work_inside(pp_work *w, const pp_step *step)
{
    pp_area area;
    pp_area_start(&area, w, step->level);
    w->views[step->out] = pp_work_place(w, step);
    pp_area_each(&area, w, step, inside_rect);
}
