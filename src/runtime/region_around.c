/* SPDX-License-Identifier: Apache-2.0
 * Which files a run by pieces reads and writes around the page cache (scheduler/io_around.c): those that are
 * so large beside the memory of the machine that keeping them would push out what others use. What a later
 * pass reads again is kept where half of the memory has room for it: the second reading is then a copy. */
#include "devices/cpu/topology.h"
#include "runtime/region_run.h"

#include <string.h>

enum { NEVER_MUCH = 256 << 20, LARGE_PART = 8, KEPT_PART = 2 };

/* Bytes that the machine, or the control group of the process, has for us and for the cache. */
static uint64_t memory(pp_region_run *r)
{
    if (r->memory != 0) return r->memory;
    uint64_t granted = pp_topology_memory_limit("");
    r->memory = pp_topology_memory();
    if (granted != 0 && granted < r->memory) r->memory = granted;
    return r->memory;
}

static bool is_read_again(const pp_region_run *r, uint32_t pass, const pp_place *place)
{
    uint32_t later = pass + 1;
    while (later < r->region->trace.depths && !r->region->passes[later].any) later++;
    return place->kind == PP_AT_INPUT && later < r->region->trace.depths;
}

static bool is_large(pp_region_run *r, uint32_t pass, const pp_place *place)
{
    uint64_t bytes = pp_region_bytes(place);
    if (bytes < NEVER_MUCH || memory(r) == 0) return false;
    return bytes > memory(r) / (is_read_again(r, pass, place) ? KEPT_PART : LARGE_PART);
}

bool pp_region_goes_around(pp_region_run *r, uint32_t pass, const pp_place *place)
{
    const char *asked = r->p->ctx->settings.page_cache;
    if (strcmp(asked, "through") == 0) return false;
    if (place->kind == PP_AT_INPUT && !r->inputs[place->number]->file->reader.in_place) return false;
    return strcmp(asked, "around") == 0 || is_large(r, pass, place);
}
