/* SPDX-License-Identifier: Apache-2.0
 * Which files a run by pieces reads and writes around the page cache (file_around.h). What a later pass reads
 * again is kept where the memory has room for it: the second reading is then a copy. */
#include "runtime/file_around.h"
#include "runtime/region_run.h"

static bool is_read_again(const pp_region_run *r, uint32_t pass, const pp_place *place)
{
    uint32_t later = pass + 1;
    while (later < r->region->trace.depths && !r->region->passes[later].any) later++;
    return place->kind == PP_AT_INPUT && later < r->region->trace.depths;
}

bool pp_region_goes_around(const pp_region_run *r, uint32_t pass, const pp_place *place)
{
    bool write = place->kind != PP_AT_INPUT;
    if (write && pp_files_in_order(r->p->sinks[place->number])) return false;
    if (!write && !r->inputs[place->number]->file->reader.in_place) return false;
    return pp_file_goes_around(r->p->ctx, pp_region_bytes(place), write, is_read_again(r, pass, place));
}
