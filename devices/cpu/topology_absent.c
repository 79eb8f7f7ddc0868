/* SPDX-License-Identifier: Apache-2.0
 * The topology of a build without hwloc: what the operating system says. */
#include "devices/cpu/machine.h"
#include "devices/cpu/topology.h"

void pp_topology_read(pp_topology *out)
{
    pp_topology_os(out);
}

ppto_status pp_atlas_open(const char *description, PP_UNUSED bool this_system, pp_atlas **out, pp_error *err)
{
    *out = NULL;
    return pp_fail(err, PPTO_E_UNSUPPORTED, "topology \"%s\": built without hwloc", description);
}

void pp_atlas_close(PP_UNUSED pp_atlas *atlas) {}

bool pp_atlas_this_system(PP_UNUSED const pp_atlas *atlas)
{
    return true;
}

uint32_t pp_atlas_nodes(PP_UNUSED pp_atlas *atlas, PP_UNUSED pp_node *nodes, PP_UNUSED uint32_t cap)
{
    return 0;
}

uint32_t pp_atlas_domain_of(PP_UNUSED const pp_atlas *atlas, PP_UNUSED unsigned cpu)
{
    return PP_NO_DOMAIN;
}

int pp_atlas_bind_thread(PP_UNUSED const pp_atlas *atlas, PP_UNUSED uint32_t domain, void **before)
{
    *before = NULL;
    return 0;
}

void pp_atlas_restore(PP_UNUSED const pp_atlas *atlas, PP_UNUSED void *before) {}

bool pp_atlas_thread_is_in(PP_UNUSED const pp_atlas *atlas, PP_UNUSED uint32_t domain)
{
    return true;
}

int pp_atlas_bind_memory(PP_UNUSED const pp_atlas *atlas, PP_UNUSED void *at, PP_UNUSED size_t bytes,
                         PP_UNUSED const uint32_t *nodes, PP_UNUSED uint32_t n, PP_UNUSED bool moves)
{
    return 0;
}
