/* SPDX-License-Identifier: Apache-2.0
 * The tiles of a launch, its bodies, and its scratch.
 *
 * A trial plan tells how many bytes of registers a tile needs per element; the tile is then as large as L1
 * allows. In MAP tiles are wide (columns first), or square where some tensor is read against its layout. In
 * LANES a tile is one block of a long row, or several short rows. In ROWS it is some rows of a strip of
 * columns. Kept values bound the rows (the width of the strip); where even the smallest tile keeps too much,
 * or where the reduction shall be split over workers, the form without buffers is taken and all is planned
 * again. */
#include <string.h>

#include "base/checked.h"
#include "devices/cpu/interp.h"

#define TRIAL_ROWS 16u
#define TRIAL_COLS 256u
#define STRIP 512         /* columns of a strip of ROWS; more, so that memory is read in longer pieces, */
#define STRIP_ROWS 4      /* where so many rows of it still are a tile */
#define STRIP_STATES 4096 /* and its states take no more bytes */
#define STRIP_LEAST 16
#define LINE 16          /* rows of a tile of LANES that turns a tensor */
#define MAP_BYTES 16384  /* of a tile of an output of MAP: it is looked at once more for NaN */
#define WHOLE_MAX 16384  /* elements of a tile of LANES whose folds take any length; */
#define LANES_MAX 8192   /* of others: machine code does some thousand while a tile is set up */
#define AGAINST_ROWS 128 /* of a tile that is folded as it lies against the lanes: its states lie in L1, */
#define AGAINST_COLS 256 /* and its columns are a share of a block */
#define SQUARE 64        /* side of a tile that turns a tensor */
#define GUARD_LEAST 256  /* columns of a tile that ends where guards change */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}
static int64_t last_size(const pp_launch *launch, const pp_dim *dim)
{
    return dim->n > 0 ? launch->size[dim->axis[dim->n - 1]] : 1;
}

size_t pp_interp_reserve(size_t *total, size_t bytes)
{
    size_t at = *total, end;
    if (*total == SIZE_MAX || !pp_add_size(at, bytes, &end) || !pp_align_size(end, 64, &end)) {
        *total = SIZE_MAX;
        return 0;
    }
    *total = end;
    return at;
}

/* ---- dimensions ------------------------------------------------------------------------------ */

/* MAP: the last axis is the columns, the others are the rows. */
static void map_dims(pp_launch *launch)
{
    pp_dim *rows = &launch->space.dim[PP_DIM_ROWS], *cols = &launch->space.dim[PP_DIM_COLS];
    pp_interp_dim(launch, 1u << PP_AXIS_OUTER, rows);
    *cols = (pp_dim){.total = 1};
    if (rows->n == 0) return;
    const uint8_t last = rows->axis[--rows->n];
    rows->mask &= ~(UINT32_C(1) << last);
    rows->total = 1;
    for (uint32_t i = 0; i < rows->n; i++) rows->total *= launch->size[rows->axis[i]];
    *cols = (pp_dim){.n = 1, .mask = UINT32_C(1) << last, .axis = {last}, .total = launch->size[last]};
}

static void set_dims(pp_launch *launch)
{
    pp_dim *fixed = &launch->space.dim[PP_DIM_FIXED], *rows = &launch->space.dim[PP_DIM_ROWS];
    pp_dim *cols = &launch->space.dim[PP_DIM_COLS];
    const uint32_t outer = 1u << PP_AXIS_OUTER, inner = 1u << PP_AXIS_INNER;
    *fixed = (pp_dim){.total = 1};
    launch->major_dim = PP_DIM_ROWS;
    switch (launch->variant->program->frame) {
    case PP_FRAME_MAP: map_dims(launch); break;
    case PP_FRAME_LANES:
        pp_interp_dim(launch, outer, rows);
        pp_interp_dim(launch, inner, cols);
        break;
    case PP_FRAME_ROWS:
        pp_interp_dim(launch, inner, rows);
        pp_interp_dim(launch, outer, cols);
        launch->major_dim = PP_DIM_COLS;
        break;
    case PP_FRAME_CONTRACT:
        pp_interp_dim(launch, 1u << PP_AXIS_BATCH, fixed);
        pp_interp_dim(launch, 1u << PP_AXIS_M, rows);
        pp_interp_dim(launch, 1u << PP_AXIS_N, cols);
        break;
    case PP_FRAME_CHAIN: break; /* has no launch of this kind */
    }
}

static bool outer_empty(const pp_launch *launch)
{
    for (uint32_t i = 0; i < launch->n_axes; i++)
        if (launch->size[i] == 0 && launch->role[i] != PP_AXIS_INNER && launch->role[i] != PP_AXIS_K)
            return true;
    return false;
}

/* Whether some tensor's elements are neighbours along the rows and not along the columns. */
static bool turns(const pp_launch *launch)
{
    for (uint32_t i = 0; i < launch->variant->program->n_accesses; i++) {
        const pp_access_at *at = &launch->access[i];
        if (!at->used) continue;
        const int64_t along = pp_dim_step(at->lin, &launch->space.dim[PP_DIM_COLS]);
        const int64_t down = pp_dim_step(at->lin, &launch->space.dim[PP_DIM_ROWS]);
        if (along != at->size && along != 0 && down == at->size) return true;
    }
    return false;
}

/* ---- tiles ----------------------------------------------------------------------------------- */

ppto_status pp_interp_plan_stage(pp_launch *launch, uint32_t stage, size_t *minor_bytes, size_t *hot_bytes)
{
    const pp_program *p = launch->variant->program;
    const pp_dim_id minor = launch->major_dim == PP_DIM_ROWS ? PP_DIM_COLS : PP_DIM_ROWS;
    const bool contract = p->frame == PP_FRAME_CONTRACT;
    pp_plan_request r = {.variant = launch->variant,
                         .space = &launch->space,
                         .first = p->stages[stage].first,
                         .count = p->stages[stage].count,
                         .stage = &p->stages[stage],
                         .value = PP_NONE,
                         .major = launch->major_dim,
                         .rows = launch->rows,
                         .cols = launch->cols};
    r.single[launch->major_dim] = !contract && launch->near == NULL && launch->major.count == 1;
    r.single[minor] = !contract && launch->minor.count == 1 &&
                      (p->frame != PP_FRAME_LANES || launch->minor.total <= PP_LANE_BLOCK); /* no chunks */
    return pp_interp_plan(launch, &r, &launch->bodies[stage], minor_bytes, hot_bytes);
}

static ppto_status plan_stages(pp_launch *launch, size_t *minor_bytes, size_t *hot_bytes)
{
    *minor_bytes = *hot_bytes = 0;
    for (uint32_t s = 0; s < launch->variant->program->n_stages; s++) {
        size_t minor, hot;
        PP_TRY(pp_interp_plan_stage(launch, s, &minor, &hot));
        if (minor > *minor_bytes) *minor_bytes = minor;
        if (hot > *hot_bytes) *hot_bytes = hot;
    }
    return PPTO_OK;
}

/* Whether every fold takes a row at once, however long: then a tile may be longer than a block. */
static bool all_whole(const pp_launch *launch)
{
    const pp_program *p = launch->variant->program;
    bool whole = p->frame == PP_FRAME_LANES && p->n_folds > 0;
    for (uint32_t f = 0; f < p->n_folds; f++) {
        const pp_fold_code *code = &launch->kernel->folds[f];
        const bool best = code->loops != NULL && code->loops->best != NULL;
        whole = whole && code->fold->law == PP_LAW_FOLD && (code->whole != NULL || best);
    }
    return whole;
}

/* Whether all inner stages fold what lies against the lanes as it lies. */
static bool all_against(const pp_launch *launch)
{
    const pp_program *p = launch->variant->program;
    bool against = p->frame == PP_FRAME_LANES && p->n_buffers == 0 && p->n_folds > 0;
    for (uint32_t s = 0; s < p->n_stages; s++)
        against = against && (!p->stages[s].inner || pp_interp_against(launch, &launch->bodies[s]));
    return against;
}

static int64_t stored_size(const pp_launch *launch)
{
    int64_t size = 1;
    for (uint32_t i = 0; i < launch->variant->program->n_tensors; i++)
        if (launch->tensors[i].output) size = larger(size, launch->tensors[i].size);
    return size;
}

/* Elements of a tile, by a plan for a tile of known size. */
static ppto_status tile_elements(pp_launch *launch, int64_t *out)
{
    size_t minor, hot;
    launch->rows = TRIAL_ROWS;
    launch->cols = TRIAL_COLS;
    launch->major.count = launch->minor.count = 2;
    launch->trial = true;
    const ppto_status status = plan_stages(launch, &minor, &hot);
    launch->trial = false;
    PP_TRY(status);
    launch->n_views = 0;
    launch->fixed_bytes = 0;
    const size_t per_element = hot / (TRIAL_ROWS * TRIAL_COLS);
    const pp_frame frame = launch->variant->program->frame;
    const int64_t most = frame == PP_FRAME_MAP     ? MAP_BYTES / stored_size(launch)
                         : all_whole(launch)       ? WHOLE_MAX
                         : frame == PP_FRAME_LANES ? LANES_MAX
                                                   : PP_TILE_MAX;
    *out = per_element == 0 ? most : (int64_t)(PP_TILE_BYTES / per_element);
    *out = larger(512, smaller(*out, most)) & ~(int64_t)63;
    return PPTO_OK;
}

static int64_t buffer_row_bytes(const pp_program *p)
{
    int64_t bytes = 0;
    for (uint32_t b = 0; b < p->n_buffers; b++)
        bytes += (int64_t)ppto_dtype_size((ppto_dtype)p->buffers[b].dtype);
    return bytes;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* The greatest width such that no tile so wide lies on both sides of a place along the columns where a guard
 * changes; a tile on one side is read in place, or not at all. */
static int64_t guard_width(const pp_launch *launch)
{
    const pp_dim *cols = &launch->space.dim[PP_DIM_COLS];
    int64_t width = cols->total;
    for (uint32_t i = 0; i < launch->variant->program->n_accesses; i++) {
        const pp_access_at *at = &launch->access[i];
        for (uint32_t g = 0; at->used && g < at->n_guards; g++) {
            const pp_guard_at *guard = &at->guards[g];
            if (guard->value != PP_NONE || pp_dim_step(guard->lin, cols) != 1) continue;
            const int64_t from = guard->lo - guard->lin->base, to = guard->hi - guard->lin->base;
            if (from > 0 && from < cols->total) width = common_divisor(width, from);
            if (to > 0 && to < cols->total) width = common_divisor(width, to);
        }
    }
    return width;
}

static void map_tiles(pp_launch *launch, int64_t elements, int64_t *rows, int64_t *cols)
{
    const int64_t total = launch->space.dim[PP_DIM_COLS].total, guarded = guard_width(launch);
    *cols = smaller(total, elements);
    if (turns(launch) && total > SQUARE) /* wider where there are few rows */
        *cols = smaller(total, larger(SQUARE, elements / larger(1, launch->space.dim[PP_DIM_ROWS].total)));
    else if (total > elements) { /* equal pieces */
        const int64_t pieces = (total + elements - 1) / elements;
        *cols = ((total + pieces - 1) / pieces + 63) & ~(int64_t)63;
    }
    if (guarded >= GUARD_LEAST && guarded < *cols) *cols = guarded;
    *rows = smaller(launch->space.dim[PP_DIM_ROWS].total, larger(1, elements / *cols));
}

/* A scan carries one row on from block to block. */
static bool scans(const pp_launch *launch)
{
    const pp_program *p = launch->variant->program;
    for (uint32_t f = 0; f < p->n_folds; f++)
        if (launch->kernel->folds[f].fold->law == PP_LAW_SCAN) return true;
    return false;
}

static void lanes_tiles(pp_launch *launch, int64_t elements, int64_t *rows, int64_t *cols)
{
    const int64_t k = launch->space.dim[PP_DIM_COLS].total,
                  kept = buffer_row_bytes(launch->variant->program) * k;
    const int64_t block = all_whole(launch) ? elements : PP_LANE_BLOCK;
    *cols = larger(1, smaller(k, block));
    *rows = k > block ? 1 : larger(1, elements / *cols);
    if (k <= (int64_t)PP_TURNED_COLUMNS && *rows > LINE) *rows &= ~(int64_t)(LINE - 1);
    if (turns(launch) && !(k > block && scans(launch)))
        *rows = larger(*rows, LINE); /* whole cache lines of what lies against the lanes */
    if (kept > 0) *rows = larger(1, smaller(*rows, PP_BUFFER_BYTES / kept));
    if (all_against(launch)) *rows = AGAINST_ROWS, *cols = smaller(k, AGAINST_COLS);
    *rows = smaller(*rows, launch->space.dim[PP_DIM_ROWS].total);
}

/* Of one column, all folds together. */
static int64_t state_bytes(const pp_launch *launch)
{
    const pp_program *p = launch->variant->program;
    int64_t bytes = 0;
    for (uint32_t f = 0; f < p->n_folds; f++)
        for (unsigned s = 0; s < p->folds[f].n_states; s++)
            bytes += (int64_t)ppto_dtype_size((ppto_dtype)p->folds[f].state[s]);
    return larger(1, bytes);
}

static void rows_tiles(pp_launch *launch, int64_t elements, uint32_t workers, int64_t *rows, int64_t *cols)
{
    const pp_dim *strip = &launch->space.dim[PP_DIM_COLS];
    const int64_t k = launch->space.dim[PP_DIM_ROWS].total,
                  kept = buffer_row_bytes(launch->variant->program) * k;
    const int64_t last = last_size(launch, strip);
    const int64_t most =
        larger(STRIP, smaller(elements / STRIP_ROWS, STRIP_STATES / state_bytes(launch)) & ~(int64_t)63);
    int64_t width = smaller(most, last >= 64 ? last : strip->total);
    const int64_t share = (strip->total / (int64_t)workers + 15) & ~(int64_t)15;
    if (turns(launch)) width = smaller(width, SQUARE);
    if (workers > 1 && share >= 64) width = smaller(width, share);
    if (kept > 0) width = smaller(width, larger(STRIP_LEAST, (PP_BUFFER_BYTES / kept) & ~(int64_t)15));
    *cols = larger(1, width);
    *rows = PP_ROW_BLOCK;
    while (*rows > 1 && *rows * *cols > elements) *rows /= 2;
    while (*rows > 1 && *rows / 2 >= k) *rows /= 2;
}

static ppto_status set_tiles(pp_launch *launch, uint32_t workers)
{
    const pp_dim_id minor = launch->major_dim == PP_DIM_ROWS ? PP_DIM_COLS : PP_DIM_ROWS;
    int64_t elements, rows = 1, cols = 1;
    PP_TRY(tile_elements(launch, &elements));
    switch (launch->variant->program->frame) {
    case PP_FRAME_MAP: map_tiles(launch, elements, &rows, &cols); break;
    case PP_FRAME_LANES: lanes_tiles(launch, elements, &rows, &cols); break;
    default: rows_tiles(launch, elements, workers, &rows, &cols); break;
    }
    launch->major =
        pp_interp_tiling(launch, &launch->space.dim[launch->major_dim], minor == PP_DIM_COLS ? rows : cols);
    launch->minor = pp_interp_tiling(launch, &launch->space.dim[minor], minor == PP_DIM_COLS ? cols : rows);
    if (launch->variant->program->frame != PP_FRAME_MAP) { /* blocks go by the position alone */
        const int64_t total = launch->space.dim[minor].total, width = minor == PP_DIM_COLS ? cols : rows;
        launch->minor = (pp_tiling){total, larger(1, total), width, (total + width - 1) / width,
                                    (total + width - 1) / width};
    }
    const size_t across = (size_t)launch->major.width,
                 along = (size_t)larger(1, smaller(launch->minor.width, launch->minor.total));
    launch->rows = minor == PP_DIM_COLS ? across : along;
    launch->cols = minor == PP_DIM_COLS ? along : across;
    launch->width = (size_t)launch->major.width;
    return PPTO_OK;
}

/* ---- scratch --------------------------------------------------------------------------------- */

static bool needs_temp(const pp_launch *launch, const pp_fold_code *code)
{
    const pp_fold_loops *loops = code->loops;
    const bool lanes = launch->variant->program->frame == PP_FRAME_LANES;
    const bool joins = code->row != NULL || (loops != NULL && loops->join_loop != NULL);
    if (!joins || loops == NULL) return true;
    if (code->fold->law == PP_LAW_SCAN)
        return !(lanes ? loops->scan != NULL && code->row != NULL : code->identity);
    return lanes ? loops->lanes == NULL : loops->rows == NULL;
}

static int64_t temp_width(pp_launch *launch)
{
    int64_t width = all_against(launch) ? (int64_t)(launch->rows * PP_LANES) : 0;
    for (uint32_t f = 0; f < launch->variant->program->n_folds; f++) {
        const pp_fold_code *code = &launch->kernel->folds[f];
        if (launch->cols <= pp_fold_turned_columns(code))
            width = larger(width, (int64_t)(launch->rows * launch->cols));
        if (!needs_temp(launch, code)) continue;
        width = larger(width, PP_LANES);
        if (launch->variant->program->frame == PP_FRAME_ROWS)
            width = larger(width, (int64_t)launch->width);
        else if (code->fold->law == PP_LAW_SCAN)
            width = larger(width, (int64_t)launch->cols);
    }
    return width;
}

static void fold_scratch(pp_launch *launch, uint32_t f, size_t *scratch, size_t *shared)
{
    const pp_fold_code *code = &launch->kernel->folds[f];
    const int64_t block = launch->variant->program->frame == PP_FRAME_LANES ? PP_LANE_BLOCK : PP_ROW_BLOCK;
    const size_t outer = (size_t)launch->major.total;
    pp_fold_at *at = &launch->folds[f];
    size_t levels = 2;
    for (int64_t n = launch->minor.total / block + launch->chunks; n > 0; n /= 2) levels++;
    for (unsigned s = 0; s < code->fold->n_states; s++) {
        const size_t size = ppto_dtype_size((ppto_dtype)code->fold->state[s]), bytes = launch->width * size;
        at->raw[s] = pp_interp_reserve(scratch, bytes);
        at->state[s] = pp_interp_reserve(scratch, bytes);
        at->carry[s] = pp_interp_reserve(scratch, bytes);
        at->counter[s] = pp_interp_reserve(scratch, levels * ((bytes + 63) & ~(size_t)63));
        if (launch->split) at->partial[s] = pp_interp_reserve(shared, (size_t)launch->chunks * outer * size);
    }
    for (unsigned i = 0; i < code->n_results; i++) {
        const size_t size = ppto_dtype_size((ppto_dtype)code->result[i]);
        at->result[i] = launch->split                ? pp_interp_reserve(shared, outer * size)
                        : code->fold->finish == NULL ? at->raw[i]
                                                     : pp_interp_reserve(scratch, launch->width * size);
    }
}

static void buffer_scratch(pp_launch *launch, size_t *total)
{
    const pp_program *p = launch->variant->program;
    launch->buffer_off = *total;
    for (uint32_t b = 0; b < p->n_buffers; b++) {
        size_t bytes;
        if (!pp_mul_size(launch->width * ppto_dtype_size((ppto_dtype)p->buffers[b].dtype),
                         (size_t)launch->minor.total, &bytes))
            *total = bytes = SIZE_MAX;
        launch->buffers[b] = pp_interp_reserve(total, bytes) - launch->buffer_off;
    }
}

static ppto_status set_scratch(pp_launch *launch, size_t minor_bytes, size_t temp_elements, pp_error *err)
{
    const pp_program *p = launch->variant->program;
    size_t total = 0, shared = 0;
    pp_interp_reserve(&total, launch->n_views * sizeof(pp_view));
    launch->fixed_off = pp_interp_reserve(&total, launch->fixed_bytes);
    launch->minor_off = pp_interp_reserve(&total, minor_bytes);
    for (uint32_t v = 0; v < launch->n_views; v++)
        launch->reg[v] += launch->reg_minor[v] ? launch->minor_off : launch->fixed_off;
    launch->function_off = pp_interp_reserve(&total, launch->kernel->functions.bytes);
    launch->temp_bytes = 2 * ((temp_elements * sizeof(uint64_t) + 63) & ~(size_t)63);
    launch->temp_off = pp_interp_reserve(&total, launch->temp_bytes);
    const int64_t vector = p->frame == PP_FRAME_LANES || p->frame == PP_FRAME_ROWS ? temp_width(launch) : 0;
    launch->fold_vector = (size_t)vector;
    launch->folded_off = pp_interp_reserve(&total, pp_folded_bytes(launch));
    if (vector > 0) launch->fold_temp_off = pp_interp_reserve(&total, pp_fold_temp_bytes(vector));
    for (uint32_t f = 0; f < p->n_folds; f++) fold_scratch(launch, f, &total, &shared);
    buffer_scratch(launch, &total);
    if (p->frame == PP_FRAME_CONTRACT) pp_interp_contract_scratch(launch, &total);
    if (total == SIZE_MAX || shared == SIZE_MAX)
        return pp_fail(err, PPTO_E_SIZE, "scratch of a kernel overflows");
    launch->geometry.scratch_bytes = total;
    launch->geometry.shared_bytes = shared;
    return PPTO_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static ppto_status allocate(pp_launch *launch)
{
    const pp_program *p = launch->variant->program;
    pp_arena *arena = &launch->arena;
    launch->n_views = 0;
    launch->fixed_bytes = 0;
    launch->cap_views = 12 * p->n_code + 16 * p->n_folds + 16;
    launch->bodies = pp_arena_alloc(arena, (p->n_stages + 1u) * sizeof *launch->bodies);
    launch->reg = pp_arena_alloc(arena, launch->cap_views * sizeof *launch->reg);
    launch->reg_minor = pp_arena_alloc(arena, launch->cap_views);
    launch->views = pp_arena_alloc(arena, launch->cap_views * sizeof *launch->views);
    launch->folds = pp_arena_alloc(arena, (p->n_folds + 1u) * sizeof *launch->folds);
    launch->buffers = pp_arena_alloc(arena, (p->n_buffers + 1u) * sizeof *launch->buffers);
    const bool ok = launch->bodies != NULL && launch->reg != NULL && launch->reg_minor != NULL &&
                    launch->views != NULL && launch->folds != NULL && launch->buffers != NULL;
    return ok ? PPTO_OK : PPTO_E_NOMEM;
}

static bool keeps_too_much(const pp_launch *launch)
{
    const int64_t kept = buffer_row_bytes(launch->variant->program) * launch->minor.total;
    return kept * (launch->major_dim == PP_DIM_COLS ? smaller(STRIP_LEAST, launch->major.total) : 1) >
           (int64_t)(2 * PP_BUFFER_BYTES);
}

static ppto_status layout(pp_launch *launch, uint32_t workers, bool *again, pp_error *err)
{
    const pp_program *p = launch->variant->program;
    size_t minor_bytes = 0, hot_bytes, factor_bytes = 0, temp_elements = 0;
    launch->split = false;
    launch->chunks = 0;
    PP_TRY(allocate(launch));
    set_dims(launch);
    launch->empty = outer_empty(launch);
    if (launch->empty) return PPTO_OK;
    if (p->frame == PP_FRAME_CONTRACT)
        PP_TRY(pp_interp_contract_tiles(launch, workers, &temp_elements, &factor_bytes));
    else
        PP_TRY(set_tiles(launch, workers));
    PP_TRY(plan_stages(launch, &minor_bytes, &hot_bytes));
    const bool against = all_against(launch);
    for (uint32_t s = 0; s < p->n_stages; s++) launch->bodies[s].against = against && p->stages[s].inner;
    if (factor_bytes > minor_bytes) minor_bytes = factor_bytes;
    if (temp_elements < launch->rows * launch->cols) temp_elements = launch->rows * launch->cols;
    pp_interp_phases(launch, workers);
    const bool bare = launch->kernel->bare.program != NULL && launch->kernel->bare.program != p;
    *again = bare && launch->variant != &launch->kernel->bare && (launch->to_split || keeps_too_much(launch));
    return *again ? PPTO_OK : set_scratch(launch, minor_bytes, temp_elements, err);
}

ppto_status pp_interp_layout(pp_launch *launch, uint32_t workers, bool *again, pp_error *err)
{
    *again = false;
    ppto_status status = layout(launch, workers, again, err);
    if (status == PPTO_OK) return PPTO_OK;
    return pp_fail(err, status, status == PPTO_E_NOMEM ? "out of memory" : "a kernel cannot be laid out");
}
