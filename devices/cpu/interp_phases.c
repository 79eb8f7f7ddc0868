/* SPDX-License-Identifier: Apache-2.0
 * How a launch divides into phases and tasks.
 *
 * Usually one phase: its tasks are runs of units (tiles, strips, macro tiles), as many as the cost model
 * finds worth handing out (interp_cost.c). A reduction with little outer work and long inner axes is split:
 * stage by stage, the inner axes are cut into chunks of a power of two of blocks, tasks fold a chunk each,
 * and one more phase joins the chunks by the same tree. The chunks do not show in the bits, so their size is
 * free. Scans run along their axis in one task. */
#include "devices/cpu/interp.h"

#define CHUNKS_PER_WORKER 4
#define CHUNK_LEAST 4 /* blocks */

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t units(const pp_launch *launch)
{
    switch (launch->variant->program->frame) {
    case PP_FRAME_MAP: return launch->major.count * launch->minor.count;
    case PP_FRAME_CONTRACT:
        return launch->contract->batches * launch->contract->m_tiles * launch->contract->n_tiles;
    default: return launch->major.count;
    }
}

/* Tasks for n units. */
static uint32_t task_count(const pp_launch *launch, uint32_t workers, int64_t n)
{
    const uint32_t grain = launch->kernel->device->grain;
    int64_t tasks = 1;
    if (grain > 0)
        tasks = (int64_t)(pp_interp_elements(launch) / grain) + 1;
    else if (workers > 1)
        tasks = pp_interp_tasks(launch->kernel->device, pp_interp_predict(launch, 1),
                                pp_interp_predict(launch, workers), workers);
    tasks = larger(1, smaller(tasks, n));
    return (uint32_t)smaller(tasks, UINT32_MAX);
}

/* ---- splitting ------------------------------------------------------------------------------- */

static bool has_scan(const pp_program *p, const pp_stage *stage)
{
    for (uint32_t f = stage->first_fold; f < stage->first_fold + stage->n_folds; f++)
        if (p->folds[f].law == PP_LAW_SCAN) return true;
    return false;
}

/* Length of a chunk, 0: no split. */
static int64_t chunk_length(const pp_launch *launch, uint32_t workers)
{
    const bool lanes = launch->variant->program->frame == PP_FRAME_LANES;
    const int64_t block = lanes ? PP_LANE_BLOCK : PP_ROW_BLOCK,
                  blocks = (launch->minor.total + block - 1) / block;
    const uint32_t grain = launch->kernel->device->grain;
    int64_t want = CHUNK_LEAST, chunk = 1;
    if (grain > 0) {
        want = larger(1, (int64_t)grain / (block * (int64_t)launch->width));
    } else {
        if (workers <= 1 || launch->major.count >= (int64_t)workers * 2) return 0;
        const int64_t pieces =
            ((int64_t)workers * CHUNKS_PER_WORKER + launch->major.count - 1) / launch->major.count;
        want = larger(lanes ? CHUNK_LEAST : 1, blocks / pieces);
    }
    while (chunk * 2 <= want) chunk *= 2;
    return chunk < blocks ? chunk * block : 0;
}

/* Fills in the phases; false when they are too many or nothing would be split. */
static bool split_phases(pp_launch *launch, uint32_t *n_phases)
{
    const pp_program *p = launch->variant->program;
    uint32_t n = 0;
    bool any = false;
    for (uint32_t s = 0; s < p->n_stages; s++) {
        const pp_stage *stage = &p->stages[s];
        const bool chunks = stage->inner && !has_scan(p, stage);
        if (!chunks && n > 0 && launch->phase[n - 1].kind != PP_PHASE_CHUNKS &&
            (launch->phase[n - 1].kind == PP_PHASE_WHOLE || !stage->inner)) {
            launch->phase[n - 1].n_stages++;
            continue;
        }
        if (n + 2 > PP_MAX_PHASES) return false;
        launch->phase[n++] = (pp_phase){(uint8_t)(chunks ? PP_PHASE_CHUNKS : PP_PHASE_WHOLE), s, 1};
        if (chunks && stage->n_folds > 0) launch->phase[n++] = (pp_phase){PP_PHASE_JOIN, s, 1};
        any = any || chunks;
    }
    *n_phases = n;
    return any;
}

/* Whether the model says so; always where tests choose the grain. */
static bool split_pays(const pp_launch *launch, uint32_t workers, uint32_t n_phases)
{
    const pp_device *device = launch->kernel->device;
    return device->grain > 0 || pp_cost_shares(&device->costs, pp_interp_predict(launch, 1),
                                               pp_interp_predict(launch, workers), n_phases);
}

static bool try_split(pp_launch *launch, uint32_t workers)
{
    const pp_program *p = launch->variant->program;
    uint32_t n_phases;
    launch->to_split = false;
    if (launch->whole) return false;
    if (p->frame != PP_FRAME_LANES && p->frame != PP_FRAME_ROWS) return false;
    launch->chunk = chunk_length(launch, workers);
    if (launch->chunk == 0 || !split_phases(launch, &n_phases) || !split_pays(launch, workers, n_phases))
        return false;
    launch->to_split = true;
    if (p->n_buffers > 0) return false; /* planned again without them, if that can be */
    launch->split = true;
    launch->chunks = (launch->minor.total + launch->chunk - 1) / launch->chunk;
    launch->geometry.phases = n_phases;
    for (uint32_t i = 0; i < n_phases; i++) {
        const int64_t n = launch->phase[i].kind == PP_PHASE_CHUNKS ? launch->major.count * launch->chunks
                                                                   : launch->major.count;
        launch->geometry.tasks[i] = (uint32_t)smaller(n, UINT32_MAX);
    }
    return true;
}

void pp_interp_phases(pp_launch *launch, uint32_t workers)
{
    const double ns = pp_interp_cost(launch);
    launch->geometry.task_ns = ns;
    if (!try_split(launch, workers)) {
        launch->phase[0] = (pp_phase){PP_PHASE_WHOLE, 0, launch->variant->program->n_stages};
        launch->geometry.phases = 1;
        launch->geometry.tasks[0] = task_count(launch, workers, units(launch));
    }
    launch->geometry.task_ns = ns / launch->geometry.tasks[0] / launch->geometry.phases;
}
