/* SPDX-License-Identifier: Apache-2.0
 * Loads at computed indices.
 *
 * They go by rows when the index is one per row, else element by element. An index outside the extent (its
 * CHECK has failed, or will) reads nothing and gives the fill. The usual case has a loop of its own: one
 * indexed dimension, no guard that looks at a value; the indices of a piece of a row are widened to i64 and
 * turned into places one after the other. Everything else is asked element by element, or row by row. */
#include <string.h>

#include "devices/cpu/interp_work.h"

static char *place_of(const pp_view *out, const pp_step *step, const pp_rect *rect)
{
    return out->at + (int64_t)rect->row * out->pitch + (int64_t)(rect->col * step->size);
}

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

bool pp_guards_hold(const pp_work *w, const pp_guard_at *guards, uint32_t n, const uint32_t *views,
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

static void elements_by_element(pp_work *w, const pp_step *step, const pp_rect *rect)
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
            if (!pp_guards_hold(w, access->guards, access->n_guards, guard_views, rect, r, c) ||
                !add_gathers(w, step, rect, r, c, false, &offset)) {
                memcpy(out, &access->fill, step->size);
                continue;
            }
            if (tensor->touched != NULL) pp_work_touch(w, access, tensor->data + offset, 1, 1, 0, 0);
            memcpy(out, tensor->data + offset, step->size);
        }
    }
}

static void rows_by_row(pp_work *w, const pp_step *step, const pp_rect *rect)
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
            w->set->load_strided(to - from, out + from * step->size, in, along, step->size);
        }
        w->set->fill(rect->cols - to, out + to * step->size, &access->fill, step->size);
    }
}

/* ---- one index ------------------------------------------------------------------------------- */

/* One indexed dimension: the place of column c of a row is in + c * along + value * stride, valid where
 * 0 <= value + first + c * by < extent. */
typedef struct pp_gather_row {
    const char *in;
    int64_t along, stride, first, by, extent;
} pp_gather_row;

static bool is_simple(const pp_work *w, const pp_access_at *access)
{
    return access->n_gathers == 1 && !access->data_guard &&
           w->launch->tensors[access->tensor].touched == NULL;
}

static pp_gather_row row_at(const pp_work *w, const pp_access_at *access, const pp_rect *rect, size_t row)
{
    const pp_gather_at *g = &access->gathers[0];
    const uint32_t n_axes = w->launch->n_axes;
    return (pp_gather_row){.in = w->launch->tensors[access->tensor].data +
                                 pp_lin_at(access->lin, n_axes, rect->coord) +
                                 (int64_t)row * pp_rect_step(w, access->lin, rect->row_dim),
                           .along = pp_rect_step(w, access->lin, rect->col_dim),
                           .stride = g->stride,
                           .first = pp_lin_at(g->lin, n_axes, rect->coord) +
                                    (int64_t)row * pp_rect_step(w, g->lin, rect->row_dim),
                           .by = pp_rect_step(w, g->lin, rect->col_dim),
                           .extent = g->extent};
}

/* plain: neighbouring elements of one place, in an operand of one dimension or along its last. */
#define GATHER(d)                                                                                            \
    static void plain_##d(size_t n, char *out, const int64_t *value, const pp_gather_row *row,               \
                          const void *fill)                                                                  \
    {                                                                                                        \
        d x, none;                                                                                           \
        const char *in = row->in;                                                                            \
        const uint64_t extent = (uint64_t)row->extent;                                                       \
        memcpy(&none, fill, sizeof none);                                                                    \
        for (size_t c = 0; c < n; c++) {                                                                     \
            const uint64_t at = (uint64_t)value[c];                                                          \
            x = none;                                                                                        \
            if (at < extent) memcpy(&x, in + at * sizeof x, sizeof x);                                       \
            memcpy(out + c * sizeof x, &x, sizeof x);                                                        \
        }                                                                                                    \
    }                                                                                                        \
    static void gather_##d(size_t n, char *out, const int64_t *value, const pp_gather_row *row,              \
                           int64_t from, const void *fill)                                                   \
    {                                                                                                        \
        d x, none;                                                                                           \
        const char *in = row->in + from * row->along;                                                        \
        int64_t first = row->first + from * row->by;                                                         \
        const int64_t stride = row->stride, along = row->along, by = row->by;                                \
        const uint64_t extent = (uint64_t)row->extent;                                                       \
        if (along == 0 && by == 0 && first == 0 && stride == (int64_t)sizeof x) {                            \
            plain_##d(n, out, value, row, fill);                                                             \
            return;                                                                                          \
        }                                                                                                    \
        memcpy(&none, fill, sizeof none);                                                                    \
        for (size_t c = 0; c < n; c++, in += along, first += by) {                                           \
            x = none;                                                                                        \
            if ((uint64_t)(value[c] + first) < extent) memcpy(&x, in + value[c] * stride, sizeof x);         \
            memcpy(out + c * sizeof x, &x, sizeof x);                                                        \
        }                                                                                                    \
    }
GATHER(uint8_t)
GATHER(uint16_t)
GATHER(uint32_t)
GATHER(uint64_t)

enum { PIECE = 256 };

/* n indices from v on, as i64: in place where they are, else widened into `room`. */
static const int64_t *widened(const pp_work *w, uint8_t dtype, const char *v, size_t n, int64_t *room)
{
    const pp_block_fn cast = w->set->cast[dtype][PPTO_I64];
    if ((dtype == PPTO_I64 || dtype == PPTO_U64) && (uintptr_t)v % sizeof *room == 0)
        return (const int64_t *)(const void *)v;
    if (cast != NULL)
        cast(n, room, v, NULL, NULL);
    else
        memcpy(room, v, n * sizeof *room);
    return room;
}

static void gather_row(const pp_work *w, const pp_step *step, const pp_gather_row *row, const char *v,
                       char *out, size_t from, size_t to)
{
    const pp_access_at *access = step->data;
    const uint8_t dtype = value_dtype(w, access->gathers[0].value);
    const size_t size = ppto_dtype_size((ppto_dtype)dtype);
    int64_t room[PIECE];
    for (size_t at = from; at < to; at += PIECE) {
        const size_t n = to - at < PIECE ? to - at : PIECE;
        const int64_t *value = widened(w, dtype, v + at * size, n, room);
        char *o = out + at * step->size;
        switch (step->size) {
        case 1: gather_uint8_t(n, o, value, row, (int64_t)at, &access->fill); break;
        case 2: gather_uint16_t(n, o, value, row, (int64_t)at, &access->fill); break;
        case 4: gather_uint32_t(n, o, value, row, (int64_t)at, &access->fill); break;
        default: gather_uint64_t(n, o, value, row, (int64_t)at, &access->fill); break;
        }
    }
}

void pp_gather_elements(pp_work *w, const pp_step *step, const pp_rect *rect)
{
    const pp_access_at *access = step->data;
    const pp_view *view = &w->views[step->out];
    if (!is_simple(w, access)) {
        elements_by_element(w, step, rect);
        return;
    }
    const pp_view *index = &w->views[step->list[0]];
    const size_t size = ppto_dtype_size((ppto_dtype)value_dtype(w, access->gathers[0].value));
    char *out = place_of(view, step, rect);
    for (size_t r = 0; r < rect->rows; r++, out += view->pitch) {
        const pp_gather_row row = row_at(w, access, rect, r);
        const char *v = index->at + (int64_t)(rect->row + r) * index->pitch + (int64_t)(rect->col * size);
        size_t from = 0, to = rect->cols;
        if (access->n_guards > 0) pp_guards_clip(w, access->guards, access->n_guards, rect, r, &from, &to);
        w->set->fill(from, out, &access->fill, step->size);
        gather_row(w, step, &row, v, out, from, to);
        w->set->fill(rect->cols - to, out + to * step->size, &access->fill, step->size);
    }
}

/* n bytes; the lengths of short rows without a call. */
static inline void copy_short(char *out, const char *in, size_t n)
{
    switch (n) {
    case 4: memcpy(out, in, 4); break;
    case 8: memcpy(out, in, 8); break;
    case 16: memcpy(out, in, 16); break;
    case 32: memcpy(out, in, 32); break;
    default: memcpy(out, in, n); break;
    }
}

/* Whole rows of neighbouring elements at one index each. */
static void rows_in_one_piece(pp_work *w, const pp_step *step, const pp_rect *rect)
{
    const pp_access_at *access = step->data;
    const pp_view *view = &w->views[step->out];
    const uint8_t dtype = value_dtype(w, access->gathers[0].value);
    const size_t size = ppto_dtype_size((ppto_dtype)dtype), bytes = rect->cols * step->size;
    const int64_t down = pp_rect_step(w, access->lin, rect->row_dim),
                  by = pp_rect_step(w, access->gathers[0].lin, rect->row_dim);
    const pp_gather_row row = row_at(w, access, rect, 0);
    const char *v = w->views[step->list[0]].at + rect->row * size, *in = row.in;
    char *out = place_of(view, step, rect);
    int64_t room[PIECE], first = row.first;
    for (size_t at = 0; at < rect->rows; at += PIECE) {
        const size_t n = rect->rows - at < PIECE ? rect->rows - at : PIECE;
        const int64_t *value = widened(w, dtype, v + at * size, n, room);
        for (size_t r = 0; r < n; r++, out += view->pitch, in += down, first += by) {
            if ((uint64_t)(value[r] + first) < (uint64_t)row.extent)
                copy_short(out, in + value[r] * row.stride, bytes);
            else
                w->set->fill(rect->cols, out, &access->fill, step->size);
        }
    }
}

void pp_gather_rows(pp_work *w, const pp_step *step, const pp_rect *rect)
{
    const pp_access_at *access = step->data;
    const bool whole = is_simple(w, access) && access->n_guards == 0 &&
                       pp_rect_step(w, access->gathers[0].lin, rect->col_dim) == 0 &&
                       pp_rect_step(w, access->lin, rect->col_dim) == access->size;
    (whole ? rows_in_one_piece : rows_by_row)(w, step, rect);
}
