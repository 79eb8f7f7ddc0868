/* SPDX-License-Identifier: Apache-2.0
 * The topology of a build without hwloc: what the operating system says. */
#include "devices/cpu/topology.h"

void pp_topology_read(pp_topology *out)
{
    pp_topology_os(out);
}
