/* SPDX-License-Identifier: Apache-2.0
 * The memory nodes of the machine, and what can be bound to them: threads to a node's CPUs, memory to nodes.
 * A node with CPUs this process may use is a *domain*; others only have memory. A machine of one node costs
 * nothing: then hwloc is not even loaded, there is one domain, and nothing is ever bound.
 *
 * What is described may be another machine (a synthetic or stored description): domains are then as
 * described, and nothing is bound. Refusals, which containers are fond of, are no failure: what was really
 * done is kept and can be asked. machine.c is the logic, topology.c asks hwloc. */
#ifndef PP_MACHINE_H
#define PP_MACHINE_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/share.h"

#define PP_NO_DOMAIN UINT32_MAX

typedef struct pp_node {
    unsigned number; /* the operating system's */
    unsigned cpus;   /* that this process may use and no node before has */
    uint64_t bytes;  /* of memory; 0: unknown */
    uint32_t domain; /* PP_NO_DOMAIN: memory only */
    char list[96];   /* of those CPUs: "0-3,8" */
} pp_node;

typedef enum pp_binding_state {
    PP_BIND_NONE,    /* nothing was tried */
    PP_BIND_BOUND,   /* and found so */
    PP_BIND_FOREIGN, /* it is not this machine: not tried */
    PP_BIND_REFUSED  /* by the system, once or more */
} pp_binding_state;

typedef struct pp_atlas pp_atlas; /* what hwloc has loaded */

typedef struct pp_machine {
    unsigned cpus; /* of this machine that may be used at once: affinity and quota; at least 1 */
    uint32_t n_nodes, n_domains; /* at least 1 */
    pp_node node[PP_MAX_DOMAINS];
    uint32_t node_of[PP_MAX_DOMAINS]; /* of each domain */
    bool this_system;
    pp_atlas *atlas;                         /* NULL: one domain */
    _Atomic int threads, memory;             /* pp_binding_state */
    _Atomic int threads_errno, memory_errno; /* of the first refusal */
} pp_machine;

/* description: NULL or "": this machine; "flat": as if it had one node; a synthetic description of hwloc
 * ("node:2 core:1 pu:1") or the path of an XML file of it (it ends in .xml), after "this-system " if it is to
 * be taken for this machine, and bound to. The calling thread's affinity limits the CPUs of this machine.
 * returns PPTO_OK; E_VALUE when it is no description; E_UNSUPPORTED without hwloc; E_NOMEM */
ppto_status pp_machine_open(const char *description, pp_machine **out, pp_error *err);
void pp_machine_close(pp_machine *machine); /* NULL is fine; no thread is entered */
/* One node, seen without hwloc: opening would find nothing else. Quick. */
bool pp_machine_is_flat(const char *description);

/* For pp_domains of the scheduler; the first argument is the machine. */
void *pp_machine_enter(void *machine, uint32_t domain);
void pp_machine_leave(void *machine, void *entered);
uint32_t pp_machine_here(void *machine);

/* Binds pages, before their first touch, to the nodes of `nodes` (indices in node[], not numbers): one node,
 * or taking turns page by page. Not strict: a full node lends from others. at and bytes are whole pages.
 * moves: what is there already goes along. returns 0; an errno; -1: not this machine */
int pp_machine_bind(pp_machine *machine, void *at, size_t bytes, const uint32_t *nodes, uint32_t n,
                    bool moves);
bool pp_machine_find_node(const pp_machine *machine, unsigned number, uint32_t *index);
/* Tries both bindings on the calling thread and a page, for the states above; then all is as before. */
void pp_machine_probe(pp_machine *machine);
const char *pp_binding_text(int state); /* "bound", "not this system", "refused", "nothing to bind" */

/* ---- topology.c or topology_absent.c ------------------------------------------------------------ */

/* The same description; "" is this machine. this_system: taken for it. */
/* Is it a description that hwloc can be given? E_VALUE says why not: too many CPUs or nodes, no XML, too
 * long.
 */
ppto_status pp_topology_check_synthetic(const char *description, pp_error *err);
ppto_status pp_topology_check_xml(const char *path, pp_error *err);
ppto_status pp_atlas_open(const char *description, bool this_system, pp_atlas **out, pp_error *err);
void pp_atlas_close(pp_atlas *atlas); /* NULL is fine */
bool pp_atlas_this_system(const pp_atlas *atlas);
/* Fills nodes and numbers the domains; how many there are, at most cap. */
uint32_t pp_atlas_nodes(pp_atlas *atlas, pp_node *nodes, uint32_t cap);
uint32_t pp_atlas_domain_of(const pp_atlas *atlas, unsigned cpu); /* PP_NO_DOMAIN: none */
/* Binds the calling thread to the domain. *before: what pp_atlas_restore takes, NULL when it was bound there
 * already. 0 or an errno. */
int pp_atlas_bind_thread(const pp_atlas *atlas, uint32_t domain, void **before);
void pp_atlas_restore(const pp_atlas *atlas, void *before);
bool pp_atlas_thread_is_in(const pp_atlas *atlas, uint32_t domain);
/* Of nodes by their place in what pp_atlas_nodes filled. 0 or an errno. */
int pp_atlas_bind_memory(const pp_atlas *atlas, void *at, size_t bytes, const uint32_t *nodes, uint32_t n,
                         bool moves);

#endif
