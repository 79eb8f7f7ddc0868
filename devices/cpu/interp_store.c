/* SPDX-License-Identifier: Apache-2.0
 * Stores, kept values, and where results go.
 *
 * A value is written where it belongs by the step that computes it (direct), if the tile lies in one piece
 * and shares no memory with an input; for a float result the store then only looks for NaN to make canonical.
 * Otherwise the store copies the tile to the tensor, in runs as long as the memory allows, around the caches
 * when the output is too large to be read back from them, by way of a transposed copy when the columns of the
 * tile are neighbours in memory. */
#include <string.h>

#include "base/fault.h"
#include "devices/cpu/interp_work.h"

#define AROUND_LEAST 256 /* bytes of a row that goes around the caches */

bool pp_store_is_canonical(const pp_tensor_at *tensor)
{
    return tensor->result && !pp_fault(PP_FAULT_NAN_RULE) && pp_dtype_is_float((ppto_dtype)tensor->dtype);
}

/* n neighbouring elements. */
static void put_run(pp_work *w, const pp_tensor_at *tensor, char *out, const char *in, size_t n)
{
    if (pp_fault(PP_FAULT_DROPPED_TAIL) && n % 8 == 7) n--;
    const size_t bytes = n * tensor->size;
    if (in == out) { /* written here at once, or a donated input */
        if (pp_store_is_canonical(tensor) && w->set->has_nan[tensor->dtype](n, in))
            w->set->canonical[tensor->dtype](n, out, in, NULL, NULL);
        return;
    }
    if (!tensor->stream || bytes < AROUND_LEAST) {
        if (pp_store_is_canonical(tensor))
            w->set->canonical[tensor->dtype](n, out, in, NULL, NULL);
        else
            memcpy(out, in, bytes);
        return;
    }
    w->streamed = true;
    if (pp_store_is_canonical(tensor) && w->set->has_nan[tensor->dtype](n, in)) {
        char *aside = w->scratch + w->launch->temp_off;
        w->set->canonical[tensor->dtype](n, aside, in, NULL, NULL);
        in = aside;
    }
    w->set->stream(out, in, bytes);
}

static void put_strided(pp_work *w, const pp_tensor_at *tensor, char *out, int64_t by, const char *in,
                        size_t n)
{
    if (pp_store_is_canonical(tensor)) {
        char *aside = w->scratch + w->launch->temp_off;
        w->set->canonical[tensor->dtype](n, aside, in, NULL, NULL);
        in = aside;
    }
    w->set->store_strided(n, out, by, in, tensor->size);
}

/* The columns of the tile are runs in memory: turn it and put runs. */
static void put_turned(pp_work *w, const pp_tensor_at *tensor, char *out, int64_t along, const char *in,
                       int64_t pitch, size_t rows, size_t cols)
{
    char *turned = w->scratch + w->launch->temp_off + w->launch->temp_bytes / 2;
    w->set->load_transposed(cols, rows, turned, rows * tensor->size, in, pitch, tensor->size);
    for (size_t c = 0; c < cols; c++)
        put_run(w, tensor, out + (int64_t)c * along, turned + c * rows * tensor->size, rows);
}

static void put_guarded(pp_work *w, const pp_access_at *access, char *base, int64_t offset, const char *in,
                        int64_t pitch, const pp_rect *rect, int64_t down, int64_t along)
{
    const pp_tensor_at *tensor = &w->launch->tensors[access->tensor];
    for (size_t r = 0; r < rect->rows; r++, offset += down, in += pitch) {
        size_t from, to;
        pp_guards_clip(w, access->guards, access->n_guards, rect, r, &from, &to);
        if (from >= to) continue;
        char *out = base + (offset + (int64_t)from * along);
        if (tensor->touched != NULL) pp_work_touch(w, access, out, 1, to - from, 0, along);
        if (along == tensor->size)
            put_run(w, tensor, out, in + from * tensor->size, to - from);
        else
            put_strided(w, tensor, out, along, in + from * tensor->size, to - from);
    }
}

static void store_rect(pp_work *w, const pp_step *step, const pp_rect *rect)
{
    const pp_access_at *access = step->data;
    const pp_tensor_at *tensor = &w->launch->tensors[access->tensor];
    const pp_view *view = &w->views[step->a];
    const int64_t size = tensor->size, row_bytes = (int64_t)rect->cols * size;
    const int64_t down = pp_rect_step(w, access->lin, rect->row_dim),
                  along = pp_rect_step(w, access->lin, rect->col_dim);
    const int64_t offset = pp_lin_at(access->lin, w->launch->n_axes, rect->coord);
    const int64_t pitch = rect->row_dim == PP_DIMS ? 0 : view->pitch;
    const char *in = view->at + (int64_t)rect->row * pitch + (int64_t)rect->col * size;
    const int side = pp_guards_side(w, access->guards, access->n_guards, rect);
    if (side <= 0) {
        if (side < 0) put_guarded(w, access, tensor->data, offset, in, pitch, rect, down, along);
        return;
    }
    char *out = tensor->data + offset;
    if (tensor->touched != NULL) pp_work_touch(w, access, out, rect->rows, rect->cols, down, along);
    if (along == size || rect->cols == 1) {
        if (rect->rows == 1 || (down == row_bytes && pitch == row_bytes)) {
            put_run(w, tensor, out, in, rect->rows * rect->cols);
            return;
        }
        if (rect->cols > 1) {
            for (size_t r = 0; r < rect->rows; r++, out += down, in += pitch)
                put_run(w, tensor, out, in, rect->cols);
            return;
        }
    }
    if (down == size && rect->rows >= 8) {
        put_turned(w, tensor, out, along, in, pitch, rect->rows, rect->cols);
        return;
    }
    for (size_t r = 0; r < rect->rows; r++, out += down, in += pitch)
        put_strided(w, tensor, out, along, in, rect->cols);
}

void pp_work_store(pp_work *w, const pp_step *step)
{
    pp_area area;
    pp_area_start(&area, w, step->level);
    pp_area_each(&area, w, step, store_rect);
}

/* ---- where results go ------------------------------------------------------------------------ */

bool pp_work_direct(pp_work *w, const pp_step *store, bool around, pp_view *out)
{
    const pp_access_at *access = store->data;
    const pp_tensor_at *tensor = &w->launch->tensors[access->tensor];
    pp_area area;
    if (tensor->aliased || access->n_guards > 0 || !pp_area_start(&area, w, store->level)) return false;
    const int64_t down = pp_rect_step(w, access->lin, area.row_dim),
                  along = pp_rect_step(w, access->lin, area.col_dim);
    const int64_t row_bytes = (int64_t)area.cols * tensor->size;
    if (tensor->stream && (!around || row_bytes < AROUND_LEAST)) return false;
    if (along != tensor->size || (area.rows > 1 && down != row_bytes && area.cols < 32)) return false;
    out->at = tensor->data + pp_lin_at(access->lin, w->launch->n_axes, w->coord);
    out->pitch = store->level == PP_LEVEL_FULL ? down : store->level == PP_LEVEL_ROWS ? tensor->size : 0;
    return true;
}

/* A buffer holds [rows of the tile][inner] or, when the inner axes are the rows, [inner][columns of the
 * tile]. */
pp_view pp_work_buffer(const pp_work *w, uint32_t buffer, uint8_t level, size_t size)
{
    const pp_launch *launch = w->launch;
    const bool lanes = launch->variant->program->frame == PP_FRAME_LANES;
    const int64_t inner = lanes ? w->at[PP_DIM_COLS] : w->at[PP_DIM_ROWS];
    const int64_t row = (int64_t)size * (lanes ? launch->minor.total : (int64_t)w->cols);
    char *at = w->scratch + launch->buffer_off + launch->buffers[buffer];
    at += lanes ? inner * (int64_t)size : inner * row;
    return (pp_view){at, level == PP_LEVEL_FULL ? row : level == PP_LEVEL_ROWS ? (int64_t)size : 0};
}

void pp_work_keep(pp_work *w, const pp_step *step)
{
    const pp_view to = pp_work_buffer(w, step->imm, step->level, step->size), from = w->views[step->a];
    if (to.at == from.at) return;
    pp_area area;
    pp_area_start(&area, w, step->level);
    for (size_t r = 0; r < area.rows; r++)
        memcpy(to.at + (int64_t)r * to.pitch, from.at + (int64_t)r * from.pitch, area.cols * step->size);
}

pp_view pp_work_place(pp_work *w, const pp_step *step)
{
    pp_view view;
    if (step->direct != PP_NONE) {
        const pp_step *sink = w->steps + step->direct;
        if (sink->kind == PP_STEP_KEEP) return pp_work_buffer(w, sink->imm, step->level, step->size);
        if (pp_work_direct(w, sink, false, &view)) return view;
    }
    view.at = w->scratch + w->launch->reg[step->out];
    view.pitch = step->level == PP_LEVEL_FULL   ? (int64_t)(w->cols * step->size)
                 : step->level == PP_LEVEL_ROWS ? (int64_t)step->size
                                                : 0;
    return view;
}
