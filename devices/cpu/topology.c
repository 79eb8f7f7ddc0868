/* SPDX-License-Identifier: Apache-2.0
 * hwloc's view of the machine over that of the operating system; each value it does not know leaves the
 * other. And its atlas: nodes, their CPUs, and binding to them (machine.h).
 *
 * Memory is always bound by node sets, never by sets of CPUs: hwloc takes both, and a set of the wrong kind
 * binds to the wrong place without a word. */
#include "devices/cpu/topology.h"

#include <errno.h>
#include <hwloc.h>
#include <stdio.h>
#include <string.h>

#include "devices/cpu/machine.h"

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

/* ---- atlas -------------------------------------------------------------------------------------- */

struct pp_atlas {
    hwloc_topology_t topology;
    uint32_t n_nodes, n_domains;
    unsigned number[PP_MAX_DOMAINS];    /* of each node */
    hwloc_bitmap_t set[PP_MAX_DOMAINS]; /* CPUs of each domain */
};

static ppto_status describe(hwloc_topology_t topology, const char *description, pp_error *err)
{
    const size_t n = strlen(description);
    bool stored = n > 4 && strcmp(description + n - 4, ".xml") == 0;
    if (n == 0) return PPTO_OK;
    PP_TRY((stored ? pp_topology_check_xml : pp_topology_check_synthetic)(description, err));
    int failed = stored ? hwloc_topology_set_xml(topology, description)
                        : hwloc_topology_set_synthetic(topology, description);
    if (!failed) return PPTO_OK;
    return pp_fail(
        err, PPTO_E_VALUE,
        "topology: \"%.200s\" is neither \"flat\" nor a description of a machine (hwloc: a synthetic "
        "one, or an XML file)",
        description);
}

static ppto_status load(pp_atlas *atlas, const char *description, bool this_system, pp_error *err)
{
    if (hwloc_topology_init(&atlas->topology) != 0)
        return pp_fail(err, PPTO_E_NOMEM, "no memory for the topology");
    ppto_status status = describe(atlas->topology, description, err);
    unsigned long flags = this_system ? HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM : 0;
    if (status == PPTO_OK &&
        (hwloc_topology_set_flags(atlas->topology, flags) != 0 || hwloc_topology_load(atlas->topology) != 0))
        status = pp_fail(err, PPTO_E_VALUE, "topology: hwloc cannot load \"%.200s\"", description);
    if (status != PPTO_OK) hwloc_topology_destroy(atlas->topology);
    return status;
}

ppto_status pp_atlas_open(const char *description, bool this_system, pp_atlas **out, pp_error *err)
{
    *out = NULL;
    pp_atlas *atlas = pp_calloc(1, sizeof *atlas);
    if (atlas == NULL) return pp_fail(err, PPTO_E_NOMEM, "no memory for the topology");
    ppto_status status = load(atlas, description, this_system, err);
    if (status != PPTO_OK) {
        pp_free(atlas);
        return status;
    }
    *out = atlas;
    return PPTO_OK;
}

void pp_atlas_close(pp_atlas *atlas)
{
    if (atlas == NULL) return;
    for (uint32_t d = 0; d < atlas->n_domains; d++) hwloc_bitmap_free(atlas->set[d]);
    hwloc_topology_destroy(atlas->topology);
    pp_free(atlas);
}

bool pp_atlas_this_system(const pp_atlas *atlas)
{
    return hwloc_topology_is_thissystem(atlas->topology) != 0;
}

/* CPUs of the atlas that this process may use. NULL: no memory. */
static hwloc_bitmap_t usable(const pp_atlas *atlas)
{
    hwloc_bitmap_t all = hwloc_bitmap_dup(hwloc_topology_get_allowed_cpuset(atlas->topology));
    hwloc_bitmap_t mask = hwloc_bitmap_alloc();
    if (all != NULL && mask != NULL && pp_atlas_this_system(atlas) &&
        hwloc_get_cpubind(atlas->topology, mask, HWLOC_CPUBIND_THREAD) == 0)
        hwloc_bitmap_and(all, all, mask);
    hwloc_bitmap_free(mask);
    return all;
}

/* Takes the node's CPUs out of `left`; if there are any it becomes a domain. */
static void add_node(pp_atlas *atlas, hwloc_obj_t node, hwloc_bitmap_t left, pp_node *out)
{
    hwloc_bitmap_t own = hwloc_bitmap_alloc();
    *out = (pp_node){.number = node->os_index, .domain = PP_NO_DOMAIN};
    if (node->attr != NULL) out->bytes = node->attr->numanode.local_memory;
    atlas->number[atlas->n_nodes++] = node->os_index;
    if (own == NULL) return;
    hwloc_bitmap_and(own, node->cpuset, left);
    hwloc_bitmap_andnot(left, left, own);
    (void)hwloc_bitmap_list_snprintf(out->list, sizeof out->list, own);
    int cpus = hwloc_bitmap_weight(own);
    if (cpus <= 0) {
        hwloc_bitmap_free(own);
        return;
    }
    out->cpus = (unsigned)cpus;
    out->domain = atlas->n_domains;
    atlas->set[atlas->n_domains++] = own;
}

uint32_t pp_atlas_nodes(pp_atlas *atlas, pp_node *nodes, uint32_t cap)
{
    hwloc_bitmap_t left = usable(atlas);
    hwloc_obj_t node = NULL;
    if (left == NULL) return 0;
    while (atlas->n_nodes < cap &&
           (node = hwloc_get_next_obj_by_type(atlas->topology, HWLOC_OBJ_NUMANODE, node)) != NULL)
        add_node(atlas, node, left, &nodes[atlas->n_nodes]);
    hwloc_bitmap_free(left);
    return atlas->n_nodes;
}

uint32_t pp_atlas_domain_of(const pp_atlas *atlas, unsigned cpu)
{
    for (uint32_t d = 0; d < atlas->n_domains; d++)
        if (hwloc_bitmap_isset(atlas->set[d], cpu)) return d;
    return PP_NO_DOMAIN;
}

int pp_atlas_bind_thread(const pp_atlas *atlas, uint32_t domain, void **before)
{
    hwloc_bitmap_t now = hwloc_bitmap_alloc();
    *before = NULL;
    if (now == NULL) return ENOMEM;
    int failed = hwloc_get_cpubind(atlas->topology, now, HWLOC_CPUBIND_THREAD);
    bool there = !failed && hwloc_bitmap_isincluded(now, atlas->set[domain]);
    if (!failed && !there)
        failed = hwloc_set_cpubind(atlas->topology, atlas->set[domain], HWLOC_CPUBIND_THREAD);
    int reason = failed ? (errno != 0 ? errno : ENOSYS) : 0;
    if (failed || there)
        hwloc_bitmap_free(now);
    else
        *before = now;
    return reason;
}

void pp_atlas_restore(const pp_atlas *atlas, void *before)
{
    (void)hwloc_set_cpubind(atlas->topology, before, HWLOC_CPUBIND_THREAD);
    hwloc_bitmap_free(before);
}

bool pp_atlas_thread_is_in(const pp_atlas *atlas, uint32_t domain)
{
    hwloc_bitmap_t now = hwloc_bitmap_alloc();
    bool in = now != NULL && hwloc_get_cpubind(atlas->topology, now, HWLOC_CPUBIND_THREAD) == 0 &&
              hwloc_bitmap_isincluded(now, atlas->set[domain]);
    hwloc_bitmap_free(now);
    return in;
}

int pp_atlas_bind_memory(const pp_atlas *atlas, void *at, size_t bytes, const uint32_t *nodes, uint32_t n,
                         bool moves)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    if (set == NULL) return ENOMEM;
    for (uint32_t i = 0; i < n; i++) hwloc_bitmap_set(set, atlas->number[nodes[i]]);
    hwloc_membind_policy_t policy = n > 1 ? HWLOC_MEMBIND_INTERLEAVE : HWLOC_MEMBIND_BIND;
    int flags = HWLOC_MEMBIND_BYNODESET | (moves ? HWLOC_MEMBIND_MIGRATE : 0);
    int failed = hwloc_set_area_membind(atlas->topology, at, bytes, set, policy, flags);
    int reason = failed ? (errno != 0 ? errno : ENOSYS) : 0;
    hwloc_bitmap_free(set);
    return reason;
}
