/* SPDX-License-Identifier: Apache-2.0
 * The machine as the operating system shows it: the affinity of the process, the CPU quotas of its control
 * groups, cache sizes from the C library, memory nodes and the processor's name from /sys and /proc. A
 * group's quota binds all groups below it, so every directory from the group of the process up to the mount
 * counts; inside a container the path may not exist below the mount, and the mount itself is then the group.
 */
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "devices/cpu/topology.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#endif

/* The start of a file as text, at most cap - 1 bytes; false when it cannot be read. */
static bool read_text(const char *path, char *text, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    if (fd < 0) return false;
    while (n < cap - 1) {
        ssize_t got = read(fd, text + n, cap - 1 - n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        n += (size_t)got;
    }
    (void)close(fd);
    text[n] = '\0';
    return n > 0;
}

/* ---- control groups ----------------------------------------------------------------------------- */

/* What a controller may limit, in either version of control groups; a limit of 0 is none. */
typedef struct controller {
    const char *name;
    uint64_t (*v1)(const char *directory), (*v2)(const char *directory);
} controller;

static uint64_t whole_cpus(long long quota, long long period)
{
    if (quota <= 0 || period <= 0) return 0;
    long long cpus = quota / period + (quota % period != 0);
    return cpus > INT32_MAX ? 0 : (uint64_t)cpus;
}

/* CPUs that one directory grants. */
static uint64_t cpus_v2(const char *directory)
{
    char path[4352], text[128];
    long long quota, period;
    (void)snprintf(path, sizeof path, "%s/cpu.max", directory);
    if (!read_text(path, text, sizeof text) || sscanf(text, "%lld %lld", &quota, &period) != 2) return 0;
    return whole_cpus(quota, period);
}

static uint64_t cpus_v1(const char *directory)
{
    char path[4352], text[64];
    (void)snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", directory);
    if (!read_text(path, text, sizeof text)) return 0;
    long long quota = strtoll(text, NULL, 10);
    (void)snprintf(path, sizeof path, "%s/cpu.cfs_period_us", directory);
    if (!read_text(path, text, sizeof text)) return 0;
    return whole_cpus(quota, strtoll(text, NULL, 10));
}

/* Bytes that one directory grants; version 1 says none by a number that no memory has. */
static uint64_t bytes_in(const char *directory, const char *name)
{
    char path[4352], text[64];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    if (!read_text(path, text, sizeof text) || *text < '0' || *text > '9') return 0;
    uint64_t bytes = strtoull(text, NULL, 10);
    return bytes < UINT64_C(1) << 60 ? bytes : 0;
}

static uint64_t bytes_v2(const char *directory)
{
    return bytes_in(directory, "memory.max");
}

static uint64_t bytes_v1(const char *directory)
{
    return bytes_in(directory, "memory.limit_in_bytes");
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a == 0 ? b : b == 0 || a < b ? a : b;
}

/* The least limit of mount/group and every directory above it, down to the mount itself. */
static uint64_t limit_upwards(const char *mount, const char *group, uint64_t (*limit)(const char *))
{
    char directory[4224];
    const size_t least = strlen(mount);
    uint64_t found = 0;
    int n = snprintf(directory, sizeof directory, "%s%s", mount, group);
    if (n < 0 || (size_t)n >= sizeof directory) return limit(mount);
    for (;;) {
        found = lesser(found, limit(directory));
        char *slash = strrchr(directory, '/');
        if (!slash || (size_t)(slash - directory) < least) return found;
        *slash = '\0';
    }
}

/* Whether a comma-separated list of controllers has this one. */
static bool lists(const char *controllers, const char *wanted)
{
    for (const char *at = controllers; at;) {
        size_t n = strcspn(at, ",");
        if (n == strlen(wanted) && strncmp(at, wanted, n) == 0) return true;
        at = at[n] ? at + n + 1 : NULL;
    }
    return false;
}

/* One line of /proc/self/cgroup, "id:controllers:/group"; no controllers: the unified hierarchy. */
static uint64_t limit_of_line(const char *root, char *line, const controller *of)
{
    static const char *const v2[] = {"", "/unified"};
    char mount[256];
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    uint64_t found = 0;
    if (!group) return 0;
    controllers++;
    *group++ = '\0';
    if (*controllers == '\0') {
        for (size_t i = 0; i < 2; i++) {
            (void)snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s", root, v2[i]);
            found = lesser(found, limit_upwards(mount, group, of->v2));
        }
    } else if (lists(controllers, of->name)) {
        const char *const v1[] = {controllers, of->name};
        for (size_t i = 0; i < 2; i++) {
            (void)snprintf(mount, sizeof mount, "%s/sys/fs/cgroup/%s", root, v1[i]);
            found = lesser(found, limit_upwards(mount, group, of->v1));
        }
    }
    return found;
}

static uint64_t limit_of(const char *root, const controller *of)
{
    char path[256], text[8192];
    uint64_t found = 0;
    int n = snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (n < 0 || (size_t)n >= sizeof path || !read_text(path, text, sizeof text)) return 0;
    for (char *line = text; line && *line;) {
        char *end = strchr(line, '\n');
        if (end) *end = '\0';
        found = lesser(found, limit_of_line(root, line, of));
        line = end ? end + 1 : NULL;
    }
    return found;
}

unsigned pp_topology_quota(const char *root)
{
    static const controller cpu = {"cpu", cpus_v1, cpus_v2};
    return (unsigned)limit_of(root, &cpu);
}

uint64_t pp_topology_memory_limit(const char *root)
{
    static const controller memory = {"memory", bytes_v1, bytes_v2};
    return limit_of(root, &memory);
}

/* ---- cpusets ------------------------------------------------------------------------------------ */

/* The list of the nearest group, from mount/group up to the mount, that has one. */
static bool list_upwards(const char *mount, const char *group, const char *const names[2], char *text,
                         size_t cap)
{
    char directory[4224], path[4352];
    const size_t least = strlen(mount);
    int n = snprintf(directory, sizeof directory, "%s%s", mount, group);
    if (n < 0 || (size_t)n >= sizeof directory) return false;
    for (;;) {
        for (int i = 0; i < 2; i++) {
            (void)snprintf(path, sizeof path, "%s/%s", directory, names[i]);
            if (read_text(path, text, cap) && *text >= '0' && *text <= '9') return true;
        }
        char *slash = strrchr(directory, '/');
        if (!slash || (size_t)(slash - directory) < least) return false;
        *slash = '\0';
    }
}

static bool cpuset_of_line(const char *root, char *line, const char *what, char *text, size_t cap)
{
    char mount[256], name[2][48];
    char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) return false;
    controllers++;
    *group++ = '\0';
    bool v2 = *controllers == '\0';
    if (!v2 && !lists(controllers, "cpuset")) return false;
    (void)snprintf(name[0], sizeof name[0], v2 ? "cpuset.%s.effective" : "cpuset.effective_%s", what);
    (void)snprintf(name[1], sizeof name[1], "cpuset.%s", what);
    (void)snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root, v2 ? "" : "/", controllers);
    return list_upwards(mount, group, (const char *const[]){name[0], name[1]}, text, cap);
}

bool pp_topology_cpuset(const char *root, const char *what, char *text, size_t cap)
{
    char path[256], lines[8192];
    bool found = false;
    int n = snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (n < 0 || (size_t)n >= sizeof path || !read_text(path, lines, sizeof lines)) return false;
    for (char *line = lines; line && *line && !found;) {
        char *end = strchr(line, '\n');
        if (end) *end = '\0';
        found = cpuset_of_line(root, line, what, text, cap);
        line = end ? end + 1 : NULL;
    }
    if (found) text[strcspn(text, "\n")] = '\0';
    return found;
}

/* ---- the rest ----------------------------------------------------------------------------------- */

#ifdef __linux__
/* The affinity of the calling thread, to be freed, of *most CPUs. NULL: unknown. */
static cpu_set_t *affinity(int *most, size_t *bytes)
{
    for (*most = 1024; *most <= 1 << 20; *most *= 4) {
        cpu_set_t *set = CPU_ALLOC((size_t)*most);
        *bytes = CPU_ALLOC_SIZE((size_t)*most);
        if (!set) return NULL;
        if (sched_getaffinity(0, *bytes, set) == 0) return set;
        int reason = errno;
        CPU_FREE(set);
        if (reason != EINVAL) return NULL;
    }
    return NULL;
}
#endif

static unsigned affinity_cpus(void)
{
#ifdef __linux__
    int most;
    size_t bytes;
    cpu_set_t *set = affinity(&most, &bytes);
    int count = set ? CPU_COUNT_S(bytes, set) : 0;
    if (set) CPU_FREE(set);
    if (count > 0) return (unsigned)count;
#endif
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}

void pp_topology_cpus(char *text, size_t cap)
{
    *text = '\0';
#ifdef __linux__
    int most;
    size_t bytes, at = 0;
    cpu_set_t *set = affinity(&most, &bytes);
    for (int first = 0, last; set && first < most && at < cap; first = last + 1) {
        last = first;
        if (!CPU_ISSET_S((size_t)first, bytes, set)) continue;
        while (last + 1 < most && CPU_ISSET_S((size_t)last + 1, bytes, set)) last++;
        at += (size_t)snprintf(text + at, cap - at, last > first ? "%s%d-%d" : "%s%d", at ? "," : "", first,
                               last);
    }
    if (set) CPU_FREE(set);
#else
    (void)cap;
#endif
}

uint64_t pp_topology_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

static size_t positive(long value)
{
    return value > 0 ? (size_t)value : 0;
}

size_t pp_topology_l2(void)
{
#ifdef _SC_LEVEL2_CACHE_SIZE
    return positive(sysconf(_SC_LEVEL2_CACHE_SIZE));
#else
    return 0;
#endif
}

size_t pp_topology_l3(void)
{
#ifdef _SC_LEVEL3_CACHE_SIZE
    return positive(sysconf(_SC_LEVEL3_CACHE_SIZE));
#else
    return 0;
#endif
}

static void cache_sizes(pp_topology *out)
{
#ifdef _SC_LEVEL1_DCACHE_SIZE
    out->l1d = positive(sysconf(_SC_LEVEL1_DCACHE_SIZE));
#else
    (void)positive;
#endif
    out->l2 = pp_topology_l2();
    out->l3 = pp_topology_l3();
}

/* How many numbers a list like "0-3,8" has; at least 1. */
static unsigned list_length(const char *list)
{
    unsigned long count = 0;
    for (const char *at = list; *at >= '0' && *at <= '9';) {
        char *end;
        unsigned long first = strtoul(at, &end, 10), last = first;
        if (*end == '-') last = strtoul(end + 1, &end, 10);
        if (last >= first && last - first < 65536) count += last - first + 1;
        at = *end == ',' ? end + 1 : end;
    }
    return count > 0 ? (unsigned)count : 1;
}

static void processor_model(pp_topology *out)
{
    char text[4096];
    if (!read_text("/proc/cpuinfo", text, sizeof text)) return;
    char *line = strstr(text, "model name"), *colon = line ? strchr(line, ':') : NULL;
    if (!colon) return;
    colon += strspn(colon, ": \t");
    colon[strcspn(colon, "\n")] = '\0';
    (void)snprintf(out->model, sizeof out->model, "%s", colon);
}

unsigned pp_topology_nodes(void)
{
    char text[4096];
    return read_text("/sys/devices/system/node/online", text, sizeof text) ? list_length(text) : 1;
}

void pp_topology_os(pp_topology *out)
{
    *out =
        (pp_topology){.cpus = lesser(affinity_cpus(), pp_topology_quota("")), .nodes = pp_topology_nodes()};
    cache_sizes(out);
    processor_model(out);
}
