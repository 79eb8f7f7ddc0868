/* SPDX-License-Identifier: Apache-2.0
 * The factors of a contraction, slice by slice: packed into panels, or read where they lie.
 *
 * A panel holds, for each k, as many rows of A (columns of B) as the register tile takes. Packing pays when
 * each element is used by many register tiles; a factor that is a plain load and used by few is read in place
 * (interp_contract_plan.c decides, `direct`). */
#include <string.h>

#include "devices/cpu/interp_work.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

pp_view pp_factor_tile(pp_work *w, const pp_factor_at *f, int64_t row, size_t rows, int64_t col, size_t cols)
{
    pp_work_range(w, PP_DIM_ROWS, row, rows);
    pp_work_range(w, PP_DIM_COLS, col, cols);
    pp_work_steps(w, &f->body, PP_GROUP_MAJOR);
    pp_work_steps(w, &f->body, PP_GROUP_MINOR);
    return w->views[f->body.value];
}

/* Panels from tiles [x][k]: each panel is a turned tile. */
static void pack_by_x(pp_work *w, const pp_factor_at *f, char *out, int64_t x0, int64_t nx, int64_t k0,
                      size_t depth)
{
    const size_t size = w->launch->contract->size, width = f->width;
    for (int64_t x = 0; x < nx; x += (int64_t)width, out += width * depth * size) {
        const size_t n = (size_t)smaller(nx - x, (int64_t)width);
        const pp_view v = pp_factor_tile(w, f, x0 + x, n, k0, depth);
        if (n == width) {
            w->set->load_transposed(depth, width, out, width * size, v.at, v.pitch, size);
            continue;
        }
        memset(out, 0, width * depth * size);
        for (size_t i = 0; i < n; i++)
            w->set->store_strided(depth, out + i * size, (int64_t)(width * size), v.at + (int64_t)i * v.pitch,
                                  size);
    }
}

/* Rows from tiles [x][k], as they are: for few register tiles each, whose work does not pay for turning. */
static void pack_rows(pp_work *w, const pp_factor_at *f, char *out, int64_t x0, int64_t nx, int64_t k0,
                      size_t depth)
{
    const size_t bytes = depth * w->launch->contract->size;
    const int64_t pitch = pp_factor_pitch(w->launch->contract, depth);
    for (int64_t x = 0; x < nx; x += (int64_t)f->width) {
        const size_t n = (size_t)smaller(nx - x, (int64_t)f->width);
        const pp_view v = pp_factor_tile(w, f, x0 + x, n, k0, depth);
        pp_copy_rows(out + x * pitch, pitch, v.at, v.pitch, n, bytes);
    }
}

/* A row of a panel; its usual lengths without a call. */
static inline void copy_piece(char *out, const char *in, size_t n)
{
    switch (n) {
    case 48: memcpy(out, in, 48); break;
    case 64: memcpy(out, in, 64); break;
    case 96: memcpy(out, in, 96); break;
    case 128: memcpy(out, in, 128); break;
    default: memcpy(out, in, n);
    }
}

static void pack_row(const pp_factor_at *f, char *out, size_t panel_bytes, const char *in, size_t nx,
                     size_t size)
{
    const size_t whole = nx / f->width, bytes = f->width * size, left = nx % f->width * size;
    for (size_t p = 0; p < whole; p++) copy_piece(out + p * panel_bytes, in + p * bytes, bytes);
    if (left > 0) pp_copy_rows(out + whole * panel_bytes, 0, in + whole * bytes, 0, 1, left);
}

/* Panels from tiles [k][x]: pieces of each row. */
static void pack_by_k(pp_work *w, const pp_factor_at *f, char *out, int64_t x0, int64_t nx, int64_t k0,
                      size_t depth)
{
    const size_t size = w->launch->contract->size, panel_bytes = f->width * depth * size;
    if (nx % (int64_t)f->width > 0) memset(out + (size_t)nx / f->width * panel_bytes, 0, panel_bytes);
    for (size_t k = 0; k < depth; k += f->rows) {
        const size_t rows = depth - k < f->rows ? depth - k : f->rows;
        const pp_view v = pp_factor_tile(w, f, k0 + (int64_t)k, rows, x0, (size_t)nx);
        for (size_t r = 0; r < rows; r++)
            pack_row(f, out + (k + r) * f->width * size, panel_bytes, v.at + (int64_t)r * v.pitch, (size_t)nx,
                     size);
    }
}

/* ---- in place -------------------------------------------------------------------------------- */

/* Where the slice lies in memory; false where it is not one piece without guards. */
static bool in_place(pp_work *w, const pp_factor_at *f, int64_t x0, int64_t nx, int64_t k0, size_t depth,
                     pp_operand *out)
{
    const pp_access_at *access = f->body.steps[PP_GROUP_MINOR][0].data;
    const pp_tensor_at *tensor = &w->launch->tensors[access->tensor];
    const pp_dim_id x = f->by_k ? PP_DIM_COLS : PP_DIM_ROWS, k = f->by_k ? PP_DIM_ROWS : PP_DIM_COLS;
    pp_area area;
    pp_work_range(w, x, x0, (size_t)nx);
    pp_work_range(w, k, k0, depth);
    if (tensor->aliased || !pp_area_start(&area, w, PP_LEVEL_FULL)) return false;
    const pp_rect rect = {w->coord, 0, 0, area.rows, area.cols, area.row_dim, area.col_dim};
    if (pp_guards_side(w, access->guards, access->n_guards, &rect) != 1) return false;
    const int64_t row = pp_rect_step(w, access->lin, x), step = pp_rect_step(w, access->lin, k);
    const char *at = tensor->data + pp_lin_at(access->lin, w->launch->n_axes, w->coord);
    if (f->neighbours && row != tensor->size && nx > 1) return false;
    if (tensor->touched != NULL)
        pp_work_touch(w, access, at, area.rows, area.cols, f->by_k ? step : row, f->by_k ? row : step);
    const int64_t tiles = (nx + f->width - 1) / f->width,
                  width = f->neighbours ? f->width : (nx + tiles - 1) / tiles;
    *out = (pp_operand){at, row, step, width * row, width};
    return true;
}

pp_operand pp_factor_slice(pp_work *w, const pp_factor_at *f, int64_t x0, int64_t nx, int64_t k0,
                           size_t depth)
{
    char *packed = w->scratch + f->packed;
    const int64_t size = (int64_t)w->launch->contract->size, step = f->width * size;
    pp_operand out = {packed, size, step, step * (int64_t)depth, f->width};
    w->space = &f->space;
    if (f->direct && in_place(w, f, x0, nx, k0, depth, &out)) return out;
    if (f->by_rows) {
        const int64_t pitch = pp_factor_pitch(w->launch->contract, depth);
        pack_rows(w, f, packed, x0, nx, k0, depth);
        return (pp_operand){packed, pitch, size, f->width * pitch, f->width};
    }
    (f->by_k ? pack_by_k : pack_by_x)(w, f, packed, x0, nx, k0, depth);
    return out;
}

pp_operand pp_factor_kept(pp_work *w, const pp_factor_at *f, int64_t nx, int64_t k0, size_t depth, bool there)
{
    const int64_t size = (int64_t)w->launch->contract->size, step = f->width * size;
    const int64_t panels = (nx + f->width - 1) / f->width;
    char *packed = w->scratch + f->packed + panels * step * k0;
    w->space = &f->space;
    if (!there) (f->by_k ? pack_by_k : pack_by_x)(w, f, packed, 0, nx, k0, depth);
    return (pp_operand){packed, size, step, step * (int64_t)depth, f->width};
}
