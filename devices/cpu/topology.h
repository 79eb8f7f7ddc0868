/* SPDX-License-Identifier: Apache-2.0
 * What the machine offers this process: usable CPUs, cache sizes, memory nodes, the name of the processor.
 * Read once when a context or a pool of workers is made. hwloc knows caches and nodes best (topology.c, the
 * only file that uses it; topology_absent.c where it is missing; domains and binding: machine.h); the
 * operating system is asked first and what it says stays where hwloc fails (topology_os.c). The number of
 * CPUs never comes from hwloc: its topology may be synthetic or another machine's. */
#ifndef PP_TOPOLOGY_H
#define PP_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pp_topology {
    unsigned cpus;  /* may be used at once: affinity, limited by the control group's quota (rounded up); at
                       least 1 */
    unsigned nodes; /* memory nodes; at least 1 */
    size_t l1d, l2, l3; /* bytes of the first cache of each level; 0: unknown or absent */
    char model[96];     /* "" when unknown */
} pp_topology;

/* Never fails: what cannot be found out keeps its least value. Reads files; takes milliseconds. */
void pp_topology_read(pp_topology *out);

/* ---- topology_os.c ------------------------------------------------------------------------------ */

/* The same without hwloc. */
void pp_topology_os(pp_topology *out);
unsigned pp_topology_nodes(void); /* memory nodes, at least 1: one small file is read */
/* Bytes of the second and the last cache; 0: unknown. Quick: read no file. */
size_t pp_topology_l2(void);
size_t pp_topology_l3(void);
/* CPUs granted by the CPU quotas of the control groups (v1 and v2) above this process: the least of quota /
 * period, rounded up; 0: no limit. root: prefix of /proc and /sys ("" but in tests). */
unsigned pp_topology_quota(const char *root);
/* Bytes of memory that they grant at most; 0: no limit. root: as above. */
uint64_t pp_topology_memory_limit(const char *root);
uint64_t pp_topology_memory(void);             /* bytes of the whole machine; 0: unknown */
void pp_topology_cpus(char *text, size_t cap); /* those that this thread may run on, "0-3,8"; "": unknown */
/* The CPUs (what = "cpus") or memory nodes ("mems") that the cpusets of the control groups leave this
 * process, as the kernel lists them: "0-3,8". False: no cpuset says. root: as above. */
bool pp_topology_cpuset(const char *root, const char *what, char *text, size_t cap);

#endif
