/* SPDX-License-Identifier: Apache-2.0
 * Which domains there are and what was bound. The states only get worse: a machine where one binding was
 * refused stays "refused", with the reason of the first. */
#define _GNU_SOURCE
#include "devices/cpu/machine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __linux__
#include <sched.h>
#endif

#include "devices/cpu/topology.h"

static const char this_system_word[] = "this-system";

/* ---- domains ------------------------------------------------------------------------------------ */

static unsigned usable_cpus(void)
{
    pp_topology topology;
    pp_topology_os(&topology);
    return topology.cpus > 0 ? topology.cpus : 1;
}

static void make_flat(pp_machine *machine)
{
    machine->n_nodes = machine->n_domains = 1;
    machine->node[0] = (pp_node){.cpus = machine->cpus, .bytes = pp_topology_memory()};
    pp_topology_cpus(machine->node[0].list, sizeof machine->node[0].list);
}

static void read_atlas(pp_machine *machine)
{
    machine->n_nodes = pp_atlas_nodes(machine->atlas, machine->node, PP_MAX_DOMAINS);
    machine->n_domains = 0;
    machine->this_system = pp_atlas_this_system(machine->atlas);
    for (uint32_t i = 0; i < machine->n_nodes; i++)
        if (machine->node[i].domain != PP_NO_DOMAIN) machine->node_of[machine->n_domains++] = i;
    if (machine->n_domains == 0)
        make_flat(machine); /* the affinity and the description have nothing common */
}

static bool told(const char *variable)
{
    const char *value = getenv(variable);
    return value != NULL && *value != '\0';
}

bool pp_machine_is_flat(const char *description)
{
    if (description != NULL && *description != '\0') return strcmp(description, "flat") == 0;
    if (told("HWLOC_SYNTHETIC") || told("HWLOC_XMLFILE")) return false;
    return pp_topology_nodes() == 1;
}

/* What follows "this-system", if the description begins so; nothing: the machine as it is. */
static const char *after_this_system(const char *description)
{
    size_t n = sizeof this_system_word - 1;
    if (strncmp(description, this_system_word, n) != 0) return NULL;
    if (description[n] != ' ' && description[n] != '\0') return NULL;
    return description + n + strspn(description + n, " ");
}

ppto_status pp_machine_open(const char *description, pp_machine **out, pp_error *err)
{
    *out = NULL;
    pp_machine *machine = pp_calloc(1, sizeof *machine);
    if (machine == NULL) return pp_fail(err, PPTO_E_NOMEM, "no memory for the topology");
    machine->this_system = true;
    machine->cpus = usable_cpus();
    make_flat(machine);
    if (!pp_machine_is_flat(description)) {
        const char *text = description != NULL ? description : "", *rest = after_this_system(text);
        ppto_status status = pp_atlas_open(rest != NULL ? rest : text, rest != NULL, &machine->atlas, err);
        if (status != PPTO_OK && *text != '\0') {
            pp_machine_close(machine);
            return status;
        }
        pp_error_clear(err); /* this machine, and hwloc cannot read it: one node */
        if (machine->atlas != NULL) read_atlas(machine);
    }
    *out = machine;
    return PPTO_OK;
}

void pp_machine_close(pp_machine *machine)
{
    if (machine == NULL) return;
    pp_atlas_close(machine->atlas);
    pp_free(machine);
}

/* ---- binding ------------------------------------------------------------------------------------ */

static void note(_Atomic int *state, _Atomic int *reason, int result)
{
    int now = result == 0 ? PP_BIND_BOUND : result < 0 ? PP_BIND_FOREIGN : PP_BIND_REFUSED;
    int before = atomic_load_explicit(state, memory_order_relaxed), none = 0;
    if (result > 0)
        atomic_compare_exchange_strong_explicit(reason, &none, result, memory_order_relaxed,
                                                memory_order_relaxed);
    while (before < now && !atomic_compare_exchange_weak_explicit(state, &before, now, memory_order_relaxed,
                                                                  memory_order_relaxed)) {
    }
}

void *pp_machine_enter(void *arg, uint32_t domain)
{
    pp_machine *machine = arg;
    void *before = NULL;
    if (machine->n_domains == 1) return NULL;
    int result = machine->this_system ? pp_atlas_bind_thread(machine->atlas, domain, &before) : -1;
    note(&machine->threads, &machine->threads_errno, result);
    return before;
}

void pp_machine_leave(void *arg, void *entered)
{
    const pp_machine *machine = arg;
    if (entered != NULL) pp_atlas_restore(machine->atlas, entered);
}

uint32_t pp_machine_here(void *arg)
{
    const pp_machine *machine = arg;
    uint32_t domain = 0;
#ifdef __linux__
    int cpu = machine->n_domains > 1 && machine->this_system ? sched_getcpu() : -1;
    if (cpu >= 0) domain = pp_atlas_domain_of(machine->atlas, (unsigned)cpu);
#else
    (void)machine;
#endif
    return domain != PP_NO_DOMAIN ? domain : 0;
}

bool pp_machine_find_node(const pp_machine *machine, unsigned number, uint32_t *index)
{
    for (*index = 0; *index < machine->n_nodes; ++*index)
        if (machine->node[*index].number == number) return true;
    return false;
}

int pp_machine_bind(pp_machine *machine, void *at, size_t bytes, const uint32_t *nodes, uint32_t n,
                    bool moves)
{
    int result = -1;
    if (machine->atlas == NULL) return 0;
    if (machine->this_system) result = pp_atlas_bind_memory(machine->atlas, at, bytes, nodes, n, moves);
    note(&machine->memory, &machine->memory_errno, result);
    return result;
}

static void probe_memory(pp_machine *machine)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *at = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return;
    for (uint32_t i = 0; i < machine->n_nodes; i++) (void)pp_machine_bind(machine, at, page, &i, 1, false);
    munmap(at, page);
}

void pp_machine_probe(pp_machine *machine)
{
    if (machine->atlas == NULL) return;
    for (uint32_t d = 0; d < machine->n_domains && machine->n_domains > 1; d++) {
        void *entered = pp_machine_enter(machine, d);
        if (machine->this_system && !pp_atlas_thread_is_in(machine->atlas, d))
            note(&machine->threads, &machine->threads_errno, EINVAL);
        pp_machine_leave(machine, entered);
    }
    probe_memory(machine);
}

const char *pp_binding_text(int state)
{
    static const char *const text[] = {"nothing to bind", "bound", "not this system", "refused"};
    return text[state];
}
