/* SPDX-License-Identifier: Apache-2.0
 * hwloc's view of the machine over that of the operating system; each value it does not know leaves the
 * other. */
#include "devices/cpu/topology.h"

#include <hwloc.h>
#include <stdio.h>

static void cache_size(hwloc_topology_t topology, hwloc_obj_type_t level, size_t *out)
{
    hwloc_obj_t cache = hwloc_get_obj_by_type(topology, level, 0);
    if (cache && cache->attr && cache->attr->cache.size > 0) *out = (size_t)cache->attr->cache.size;
}

static void processor_model(hwloc_topology_t topology, pp_topology *out)
{
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    if (!model) model = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), "CPUModel");
    if (model) (void)snprintf(out->model, sizeof out->model, "%s", model);
}

void pp_topology_read(pp_topology *out)
{
    hwloc_topology_t topology;
    pp_topology_os(out);
    if (hwloc_topology_init(&topology) != 0) return;
    if (hwloc_topology_load(topology) == 0) {
        int nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
        if (nodes > 0) out->nodes = (unsigned)nodes;
        cache_size(topology, HWLOC_OBJ_L1CACHE, &out->l1d);
        cache_size(topology, HWLOC_OBJ_L2CACHE, &out->l2);
        cache_size(topology, HWLOC_OBJ_L3CACHE, &out->l3);
        processor_model(topology, out);
    }
    hwloc_topology_destroy(topology);
}
