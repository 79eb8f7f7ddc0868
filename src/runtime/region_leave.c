/* SPDX-License-Identifier: Apache-2.0
 * Streams in a run by pieces. It waits for all of them before it begins, but lets each go, and ends the
 * events recorded on it, after the last stage (graph/region_stages.c) that works for it: others that wait for
 * a stream need not wait for passes that have nothing to do with it. Where it writes a file of the stream, or
 * all streams wait for its last writes, they go at the end as always (pp_sync_leave). */
#include "runtime/region_run.h"
#include "runtime/sync.h"

/* The later of two stages; PP_NONE: none. */
static uint32_t later(uint32_t a, uint32_t b)
{
    if (a == PP_NONE || b == PP_NONE) return a == PP_NONE ? b : a;
    return a > b ? a : b;
}

/* After which stage a stream has done what stands before this level. */
static uint32_t done_before(const pp_region_run *r, const uint32_t *stage, uint32_t stream, uint32_t level)
{
    const pp_flat *flat = r->region->flat;
    uint32_t last = PP_NONE;
    for (uint32_t id = 0; id < flat->prims.n; id++) {
        const pp_prim *p = &flat->prims.at[id];
        int64_t file = p->kind == PP_P_INPUT ? r->p->file_at[p->number] : 0;
        uint32_t on = file != 0 ? pp_file_stream(file) : p->stream;
        if (on == stream && (file != 0 ? pp_file_level(file) : p->level) < level)
            last = later(last, stage[id]);
    }
    return last;
}

/* Sync points stand in the order of recording: what one waits for comes before it. */
static void find_ends(pp_region_run *r, const uint32_t *stage)
{
    const pp_flat *flat = r->region->flat;
    for (uint32_t i = 0; i < flat->syncs.n; i++) {
        const pp_sync *sync = &flat->syncs.at[i];
        uint32_t last = done_before(r, stage, sync->stream, sync->level);
        for (uint32_t k = 0; k < i; k++)
            if (flat->syncs.at[k].stream == sync->stream) last = later(last, r->sync_end[k]);
        if (sync->kind == PP_SYNC_WAIT && sync->record != PP_NONE)
            last = later(last, r->sync_end[sync->record]);
        r->sync_end[i] = last;
    }
    for (uint32_t s = 1; s <= flat->n_streams; s++) {
        uint32_t last = done_before(r, stage, s, UINT32_MAX);
        for (uint32_t i = 0; i < flat->syncs.n; i++)
            if (flat->syncs.at[i].stream == s) last = later(last, r->sync_end[i]);
        r->stream_end[s - 1] = last;
    }
}

ppto_status pp_region_leave_plan(pp_region_run *r)
{
    const pp_flat *flat = r->region->flat;
    if (!r->p->sync) return PPTO_OK;
    uint32_t *stage = pp_alloc((flat->prims.n + 1) * sizeof *stage);
    r->stream_end = pp_alloc((flat->n_streams + flat->syncs.n + 1) * sizeof *r->stream_end);
    r->sync_end = r->stream_end + flat->n_streams;
    if (stage && r->stream_end) {
        pp_region_last_stages(r->region, stage);
        find_ends(r, stage);
    }
    pp_free(stage);
    return stage && r->stream_end ? PPTO_OK : PPTO_E_NOMEM;
}

void pp_region_leave(pp_region_run *r, uint32_t stage)
{
    if (r->p->sync) pp_sync_reach(r->p->sync, r->stream_end, r->sync_end, stage);
}
