/* SPDX-License-Identifier: Apache-2.0
 * devices/cpu/topology: sane values on this machine whatever hwloc is told, and CPU quotas from invented
 * files. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "devices/cpu/topology.h"

static void check_sane(void)
{
    pp_topology machine;
    memset(&machine, 0xff, sizeof machine);
    pp_topology_read(&machine);
    cr_expect_geq(machine.cpus, 1u);
    cr_expect_leq(machine.cpus, (unsigned)sysconf(_SC_NPROCESSORS_CONF));
    cr_expect_geq(machine.nodes, 1u);
    cr_expect_lt(machine.l1d, (size_t)1 << 30);
    cr_expect_not_null(memchr(machine.model, '\0', sizeof machine.model));
}

Test(topology, is_sane)
{
    check_sane();
}

Test(topology, survives_a_synthetic_machine)
{
    setenv("HWLOC_SYNTHETIC", "pack:2 numa:2 l3:1 l2:4 l1d:1 core:1 pu:2", 1);
    check_sane();
}

Test(topology, survives_nonsense)
{
    setenv("HWLOC_SYNTHETIC", "no such thing", 1);
    setenv("HWLOC_XMLFILE", "/nowhere.xml", 1);
    setenv("HWLOC_COMPONENTS", "-all", 1);
    check_sane();
}

Test(topology, affinity_counts)
{
    cpu_set_t one, all;
    CPU_ZERO(&one);
    cr_assert_eq(sched_getaffinity(0, sizeof all, &all), 0);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &all)) {
            CPU_SET(cpu, &one);
            break;
        }
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
    pp_topology machine;
    pp_topology_read(&machine);
    cr_expect_eq(machine.cpus, 1u);
}

/* ---- quotas ------------------------------------------------------------------------------------- */

static char root[] = "topology-XXXXXX";

/* Writes a file below the root and makes the directories that lead to it. */
static void put(const char *path, const char *text)
{
    char at[PATH_MAX];
    int n = snprintf(at, sizeof at, "%s%s", root, path);
    cr_assert(n > 0 && (size_t)n < sizeof at);
    for (char *slash = strchr(at, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(at, 0700);
        *slash = '/';
    }
    FILE *file = fopen(at, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

static void make_root(void)
{
    cr_assert_not_null(mkdtemp(root));
}

static void remove_root(void)
{
    char command[64];
    (void)snprintf(command, sizeof command, "rm -r %s", root);
    cr_expect_eq(system(command), 0);
}

Test(topology_quota, none_without_files, .init = make_root, .fini = remove_root)
{
    cr_expect_eq(pp_topology_quota(root), 0u);
    put("/proc/self/cgroup", "0::/a\n");
    cr_expect_eq(pp_topology_quota(root), 0u);
    put("/proc/self/cgroup", "garbage\n::\n1:cpu\n");
    cr_expect_eq(pp_topology_quota(root), 0u);
}

Test(topology_quota, version_two_takes_the_least_on_the_way_up, .init = make_root, .fini = remove_root)
{
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    cr_expect_eq(pp_topology_quota(root), 0u);
    put("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    cr_expect_eq(pp_topology_quota(root), 3u, "2.5 CPUs are 3");
    put("/sys/fs/cgroup/a/b/cpu.max", "700000 100000\n");
    cr_expect_eq(pp_topology_quota(root), 3u);
    put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    cr_expect_eq(pp_topology_quota(root), 1u);
}

Test(topology_quota, bytes_of_both_versions, .init = make_root, .fini = remove_root)
{
    cr_expect_eq(pp_topology_memory_limit(root), 0u);
    put("/proc/self/cgroup", "4:memory:/x\n0::/y/z\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("/sys/fs/cgroup/y/z/memory.max", "max\n");
    cr_expect_eq(pp_topology_memory_limit(root), 0u);
    put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "8589934592\n");
    cr_expect_eq(pp_topology_memory_limit(root), UINT64_C(8) << 30);
    put("/sys/fs/cgroup/y/memory.max", "4096\n");
    cr_expect_eq(pp_topology_memory_limit(root), 4096u, "the least counts");
}

Test(topology_quota, version_one_by_controller, .init = make_root, .fini = remove_root)
{
    put("/proc/self/cgroup", "3:cpuset:/x\n2:cpu,cpuacct:/docker/x\n0::/y\n");
    put("/sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "400000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    cr_expect_eq(pp_topology_quota(root), 4u, "the mount itself, when the group is not below it");
    put("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n");
    cr_expect_eq(pp_topology_quota(root), 4u, "-1 is no limit");
    put("/sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "200000\n");
    cr_expect_eq(pp_topology_quota(root), 2u);
}

/* ---- cpusets ------------------------------------------------------------------------------------ */

Test(topology_cpuset, nearest_group_that_says, .init = make_root, .fini = remove_root)
{
    char text[64];
    cr_expect(!pp_topology_cpuset(root, "cpus", text, sizeof text));
    put("/proc/self/cgroup", "0::/a/b\n");
    cr_expect(!pp_topology_cpuset(root, "cpus", text, sizeof text));
    put("/sys/fs/cgroup/cpuset.cpus.effective", "0-7\n");
    cr_expect(pp_topology_cpuset(root, "cpus", text, sizeof text));
    cr_expect_str_eq(text, "0-7");
    put("/sys/fs/cgroup/a/cpuset.cpus.effective", "0-3,6\n");
    put("/sys/fs/cgroup/a/cpuset.mems.effective", "1\n");
    put("/sys/fs/cgroup/a/b/cpuset.cpus", "\n");
    cr_expect(pp_topology_cpuset(root, "cpus", text, sizeof text));
    cr_expect_str_eq(text, "0-3,6", "an empty one says nothing");
    cr_expect(pp_topology_cpuset(root, "mems", text, sizeof text));
    cr_expect_str_eq(text, "1");
}

Test(topology_cpuset, version_one_by_controller, .init = make_root, .fini = remove_root)
{
    char text[64];
    put("/proc/self/cgroup", "3:cpuset:/x\n2:cpu,cpuacct:/x\n");
    put("/sys/fs/cgroup/cpu,cpuacct/x/cpuset.cpus", "9\n");
    put("/sys/fs/cgroup/cpuset/x/cpuset.cpus", "2-3\n");
    put("/sys/fs/cgroup/cpuset/cpuset.mems", "0\n");
    cr_expect(pp_topology_cpuset(root, "cpus", text, sizeof text));
    cr_expect_str_eq(text, "2-3");
    cr_expect(pp_topology_cpuset(root, "mems", text, sizeof text));
    cr_expect_str_eq(text, "0");
}
