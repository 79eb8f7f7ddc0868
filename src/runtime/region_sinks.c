/* SPDX-License-Identifier: Apache-2.0
 * Results of a run by pieces that go to files. Each is opened before anything is computed, so that what
 * cannot be written is told at once, and appears when the whole run has succeeded.
 *
 * One that cannot be written on (the reader of a pipe went away, a disk is full) ends the run; unless the run
 * is to keep going and something else is wanted of it: then that output alone is lost, and the run fails at
 * its end. */
#include "runtime/async_run.h"
#include "runtime/region_run.h"

static size_t count(const pp_region_run *r)
{
    return r->p->plan->flat.outputs.n;
}

static bool others_are_wanted(const pp_region_run *r, const pp_region_sink *sink)
{
    for (size_t i = 0; i < count(r); i++)
        if (&r->sinks[i] != sink && !r->sinks[i].lost) return true;
    return false;
}

ppto_status pp_region_sink_fails(pp_region_run *r, pp_region_sink *sink, ppto_status status,
                                 const pp_error *why)
{
    const char *path = r->p->sinks[sink - r->sinks];
    bool stops = status == PPTO_E_CANCELLED || status == PPTO_E_DEADLINE;
    if (sink->lost) return PPTO_OK;
    if (stops || !r->p->control->keep_going || !others_are_wanted(r, sink))
        return pp_fail_of_file(r->err, status, path, why);
    sink->lost = true;
    (void)pp_fail_of_file(&r->lost, status, path, why);
    return PPTO_OK;
}

static ppto_status open_sink(pp_region_run *r, const pp_place *place)
{
    const pp_files_entry entry = {NULL, (ppto_dtype)place->dtype, place->rank, place->dim, NULL};
    const char *path = r->p->sinks[place->number];
    const pp_files_watch watch = pp_progress_watch(r->p);
    pp_region_sink *sink = &r->sinks[place->number];
    pp_error why = {0};
    size_t head = 0;
    size_t bytes = (size_t)pp_region_bytes(place);
    ppto_status status = pp_files_in_order(path)
                             ? pp_archive_open(path, &entry, bytes, &watch, &sink->file, &sink->archive, &why)
                             : pp_files_begin(path, &entry, bytes, &watch, &sink->file, &head, &why);
    sink->open = status == PPTO_OK;
    sink->data_at = (int64_t)head;
    return sink->open ? PPTO_OK : pp_region_sink_fails(r, sink, status, &why);
}

ppto_status pp_region_sinks_open(pp_region_run *r)
{
    for (uint32_t i = 0; i < r->region->places.n; i++) {
        const pp_place *place = &r->region->places.at[i];
        if (place->kind == PP_AT_OUTPUT && r->at[i].streamed) PP_TRY(open_sink(r, place));
    }
    return PPTO_OK;
}

/* good: all of it was submitted. */
static ppto_status end_archive(pp_region_sink *sink, bool good, pp_error *why)
{
    pp_archive *archive = sink->archive;
    sink->archive = NULL;
    if (!archive) return PPTO_OK;
    if (!good) pp_archive_stop(archive);
    return pp_archive_close(archive, why);
}

ppto_status pp_region_sinks_close(pp_region_run *r, ppto_status status)
{
    const pp_files_watch watch = pp_progress_watch(r->p);
    for (size_t i = 0; i < count(r); i++) {
        pp_region_sink *sink = &r->sinks[i];
        pp_error why = {0};
        if (!sink->open) continue;
        sink->open = false;
        bool good = status == PPTO_OK && !sink->lost;
        ppto_status finished = end_archive(sink, good, &why);
        if (!good || finished != PPTO_OK)
            pp_sink_abandon(&sink->file, &watch);
        else
            finished = pp_sink_finish(&sink->file, false, &why);
        if (!good) continue;
        if (finished != PPTO_OK) status = pp_region_sink_fails(r, sink, finished, &why);
    }
    return status;
}
