/* SPDX-License-Identifier: Apache-2.0
 * Running a task: the loops over tiles.
 *
 * A task of the usual single phase takes a run of units: tiles of a map, row tiles (strips) with all their
 * stages, macro tiles of a contraction. In a split launch a task folds one chunk, or joins the chunks of one
 * strip. Failed checks are kept, the lowest position first, and reported when the task is done: nothing a
 * failed check guards touches memory out of bounds. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "devices/cpu/interp_work.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Tile number i of a tiling. */
static void take_tile(pp_work *w, pp_dim_id dim, const pp_tiling *t, int64_t i)
{
    const int64_t start = i / t->per_period * t->period, in = i % t->per_period * t->width;
    pp_work_range(w, dim, start + in, (size_t)smaller(t->width, t->period - in));
}

/* Sets both extents to those of the largest tile: what steps of earlier groups must cover. */
static void widen(pp_work *w, pp_dim_id dim)
{
    if (dim == PP_DIM_ROWS) w->rows = w->launch->rows;
    if (dim == PP_DIM_COLS) w->cols = w->launch->cols;
}

/* A stage over inner axes without elements: nothing of it may be touched, also not what moves with no axis.
 */
static bool is_empty(const pp_launch *launch, const pp_body *body)
{
    return body->inner && launch->minor.total == 0;
}

void pp_work_start(pp_work *w, uint32_t first, uint32_t n)
{
    w->space = &w->launch->space;
    w->rows = w->launch->rows;
    w->cols = w->launch->cols;
    for (uint32_t s = first; s < first + n; s++)
        if (!is_empty(w->launch, &w->launch->bodies[s]))
            pp_work_steps(w, &w->launch->bodies[s], PP_GROUP_TASK);
}

/* ---- maps ------------------------------------------------------------------------------------ */

static void run_map(pp_work *w, int64_t from, int64_t to)
{
    const pp_launch *launch = w->launch;
    const uint32_t n_stages = launch->variant->program->n_stages;
    int64_t row = -1;
    for (int64_t unit = from; unit < to; unit++) {
        const int64_t next = unit / launch->minor.count;
        if (next != row) {
            row = next;
            take_tile(w, PP_DIM_ROWS, &launch->major, row);
            widen(w, PP_DIM_COLS);
            for (uint32_t s = 0; s < n_stages; s++) pp_work_steps(w, &launch->bodies[s], PP_GROUP_MAJOR);
        }
        take_tile(w, PP_DIM_COLS, &launch->minor, unit % launch->minor.count);
        for (uint32_t s = 0; s < n_stages; s++) pp_work_steps(w, &launch->bodies[s], PP_GROUP_MINOR);
    }
}

/* ---- lanes and rows -------------------------------------------------------------------------- */

static pp_dim_id minor_dim(const pp_launch *launch)
{
    return launch->major_dim == PP_DIM_ROWS ? PP_DIM_COLS : PP_DIM_ROWS;
}

static void take_major(pp_work *w, int64_t i)
{
    const pp_launch *launch = w->launch;
    take_tile(w, launch->major_dim, &launch->major, i);
    w->major_at = launch->split ? w->at[launch->major_dim] : 0;
}

/* The minor tiles of [first, first + length), and the folds over them. */
static void run_inner(pp_work *w, const pp_body *body, int64_t first, int64_t length)
{
    const pp_launch *launch = w->launch;
    const pp_dim_id minor = minor_dim(launch);
    w->first = first;
    w->length = length;
    for (int64_t at = first; at < first + length; at += launch->minor.width) {
        pp_work_range(w, minor, at, (size_t)smaller(launch->minor.width, first + length - at));
        if (!body->against) pp_work_steps(w, body, PP_GROUP_MINOR);
        if (body->n_folds > 0) pp_work_fold_tile(w, body);
        if (pp_work_fold_settled(w, body)) break;
    }
}

static void run_stage(pp_work *w, const pp_body *body, int64_t first, int64_t length)
{
    const pp_dim_id minor = minor_dim(w->launch);
    w->folded = 0;
    pp_work_range(w, minor, 0, 1);
    widen(w, minor);
    if (!is_empty(w->launch, body)) pp_work_steps(w, body, PP_GROUP_MAJOR);
    if (!body->inner) return;
    run_inner(w, body, first, length);
    if (body->n_folds > 0) pp_work_fold_end(w, body);
}

static void run_majors(pp_work *w, const pp_phase *phase, int64_t from, int64_t to)
{
    const pp_launch *launch = w->launch;
    for (int64_t i = from; i < to; i++) {
        take_major(w, i);
        for (uint32_t s = 0; s < phase->n_stages; s++)
            run_stage(w, &launch->bodies[phase->first_stage + s], 0, launch->minor.total);
    }
}

void pp_work_rows(pp_work *w, int64_t from, int64_t to)
{
    const pp_launch *launch = w->launch;
    const pp_tiling *t = &launch->major;
    while (from < to) {
        const int64_t n = smaller(t->width, smaller(t->period - from % t->period, to - from));
        pp_work_range(w, PP_DIM_ROWS, from, (size_t)n);
        w->major_at = 0;
        for (uint32_t s = 0; s < launch->variant->program->n_stages; s++)
            run_stage(w, &launch->bodies[s], 0, launch->minor.total);
        from += n;
    }
}

static void run_chunk(pp_work *w, const pp_phase *phase, int64_t unit)
{
    const pp_launch *launch = w->launch;
    const int64_t first = unit % launch->chunks * launch->chunk;
    take_major(w, unit / launch->chunks);
    w->chunk = unit % launch->chunks;
    run_stage(w, &launch->bodies[phase->first_stage], first,
              smaller(launch->chunk, launch->minor.total - first));
}

static void run_join(pp_work *w, const pp_phase *phase, int64_t i)
{
    take_major(w, i);
    pp_work_fold_join(w, &w->launch->bodies[phase->first_stage]);
    for (uint32_t s = 1; s < phase->n_stages; s++)
        run_stage(w, &w->launch->bodies[phase->first_stage + s], 0, 0);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void run_split(pp_work *w, const pp_phase *phase, uint32_t task)
{
    switch ((pp_phase_kind)phase->kind) {
    case PP_PHASE_WHOLE: run_majors(w, phase, task, (int64_t)task + 1); break;
    case PP_PHASE_CHUNKS: run_chunk(w, phase, task); break;
    case PP_PHASE_JOIN: run_join(w, phase, task); break;
    }
}

static int64_t share(int64_t units, uint32_t task, uint32_t tasks)
{
    return (int64_t)((__int128)units * task / tasks);
}

static void run_whole(pp_work *w, const pp_phase *phase, uint32_t task)
{
    const pp_launch *launch = w->launch;
    const uint32_t tasks = launch->geometry.tasks[0];
    const pp_contract_at *c = launch->contract;
    int64_t units = launch->major.count, from, to;
    const pp_frame frame = launch->variant->program->frame;
    if (frame == PP_FRAME_MAP) units *= launch->minor.count;
    if (frame == PP_FRAME_CONTRACT) units = c->batches * c->m_tiles * c->n_tiles;
    from = share(units, task, tasks);
    to = share(units, task + 1, tasks);
    switch (frame) {
    case PP_FRAME_MAP: run_map(w, from, to); break;
    case PP_FRAME_LANES:
    case PP_FRAME_ROWS: run_majors(w, phase, from, to); break;
    case PP_FRAME_CHAIN: break; /* has no launch of this kind */
    case PP_FRAME_CONTRACT:
        pp_work_contract_start(w);
        for (; from < to; from++) pp_work_contract(w, from);
        break;
    }
}

static void print_value(char *out, size_t n, uint64_t bits, ppto_dtype dtype)
{
    float f32;
    double f64;
    memcpy(&f32, &bits, sizeof f32);
    memcpy(&f64, &bits, sizeof f64);
    if (dtype == PPTO_F32)
        pp_snprintf(out, n, "%.9g", (double)f32);
    else if (dtype == PPTO_F64)
        pp_snprintf(out, n, "%.17g", f64);
    else if (dtype == PPTO_U64)
        snprintf(out, n, "%" PRIu64, bits);
    else if (dtype == PPTO_BOOL)
        snprintf(out, n, "%s", bits & 1 ? "true" : "false");
    else
        snprintf(out, n, "%" PRId64, pp_value_as_i64(&bits, dtype));
}

/* The check's message with {value} and {position} filled in. */
static ppto_status report(const pp_work *w, pp_error *err, int64_t *position)
{
    const char *in = w->launch->variant->program->checks[w->failed].message;
    char text[1024], value[32], place[32];
    size_t n = 0;
    print_value(value, sizeof value, w->failed_value, (ppto_dtype)w->failed_dtype);
    snprintf(place, sizeof place, "%" PRId64, w->failed_at);
    while (*in != '\0' && n + 1 < sizeof text) {
        const bool is_value = strncmp(in, "{value}", 7) == 0, is_place = strncmp(in, "{position}", 10) == 0;
        if (!is_value && !is_place) {
            text[n++] = *in++;
            continue;
        }
        const int added = snprintf(text + n, sizeof text - n, "%s", is_value ? value : place);
        n += (size_t)added < sizeof text - n ? (size_t)added : sizeof text - n - 1;
        in += is_value ? 7 : 10;
    }
    text[n] = '\0';
    if (position != NULL) *position = w->failed_at;
    return pp_fail(err, PPTO_E_VALUE, "%s", text);
}

void pp_work_open(pp_work *w, const pp_launch *launch, void *scratch)
{
    const pp_kernel *kernel = launch->kernel;
    w->launch = launch;
    w->set = kernel->device->set;
    w->scratch = scratch;
    w->views = scratch;
    w->major_at = 0;
    w->chunk = -1;
    w->failed = PP_NONE;
    w->folded = 0;
    w->kept_batch = -1;
    w->streamed = false;
    memset(w->at, 0, sizeof w->at);
    memset(w->coord, 0, launch->n_axes * sizeof w->coord[0]);
    memcpy(w->views, launch->views, launch->n_views * sizeof *w->views);
    if (kernel->functions.bytes > 0)
        pp_fcode_list_start(&kernel->functions, w->set, w->scratch + launch->function_off);
}

ppto_status pp_interp_run(pp_launch *launch, uint32_t phase, uint32_t task, void *scratch, pp_error *err,
                          int64_t *position)
{
    if (launch->chained != NULL) return pp_interp_chain_run(launch, phase, task, scratch, err, position);
    if (launch->empty) return PPTO_OK;
    const pp_phase *p = &launch->phase[phase];
    pp_work w;
    pp_fenv saved;
    pp_fenv_enter(&saved);
    pp_work_open(&w, launch, scratch);
    pp_work_start(&w, p->first_stage, p->n_stages);
    if (launch->split)
        run_split(&w, p, task);
    else
        run_whole(&w, p, task);
    if (w.streamed) w.set->fence();
    pp_fenv_leave(&saved);
    return w.failed == PP_NONE ? PPTO_OK : report(&w, err, position);
}
