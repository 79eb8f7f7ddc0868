/* SPDX-License-Identifier: Apache-2.0
 * Where the operators of a program were recorded. Graphs of one signature share a plan, so the plan knows
 * only the *ranks* of nodes (graph/graph.h) and what they are called; each program keeps the places of the
 * graph it was compiled from, by rank. A part of a run by pieces borrows those of the program it is a part
 * of, and one that a track hands on takes those of the next graph (track_program.c). */
#include <string.h>

#include "runtime/runtime.h"

const char *pp_plan_operator(const pp_plan *plan, uint32_t prim)
{
    const uint32_t rank = plan->flat.prims.at[prim].origin;
    return rank < plan->n_origins ? plan->operators[rank] : PP_JOINING;
}

const pp_origin *pp_program_origin(const ppto_program *p, uint32_t prim)
{
    /* what the library adds by itself: the joining of what the pieces of a run gave */
    static const pp_origin joining = {PP_JOINING, {NULL, NULL, 0, 0}, 0};
    const uint32_t rank = p->plan->flat.prims.at[prim].origin;
    return rank < p->n_origins ? &p->origins[rank] : &joining;
}

/* ---- keeping ------------------------------------------------------------------------------------- */

static const char *name_of(const pp_node_info *info)
{
    return info->operator_name ? info->operator_name : "input";
}

ppto_status pp_plan_keep_operators(pp_plan *plan, pp_graph *graph, const pp_ref *outputs, size_t n)
{
    uint32_t *nodes;
    size_t count;
    PP_TRY(pp_graph_needed(graph, outputs, n, &nodes, &count));
    plan->operators = pp_arena_alloc(&plan->arena, (count + 1) * sizeof *plan->operators);
    bool good = plan->operators != NULL;
    for (size_t i = 0; good && i < count; i++) {
        const pp_node_info info = pp_graph_node(graph, nodes[i]);
        const char *name = name_of(&info);
        plan->operators[i] = pp_arena_strndup(&plan->arena, name, strlen(name));
        good = plan->operators[i] != NULL;
    }
    plan->n_origins = good ? count : 0;
    pp_free(nodes);
    return good ? PPTO_OK : PPTO_E_NOMEM;
}

/* An operator may have been called by another of its names: then the origin has a copy. */
static ppto_status keep_one(ppto_program *p, const pp_node_info *info)
{
    const char *name = name_of(info), *known = p->plan->operators[p->n_origins];
    if (strcmp(name, known) != 0 && !(known = pp_strdup(name))) return PPTO_E_NOMEM;
    p->origins[p->n_origins++] = (pp_origin){known, info->site, info->stack};
    return PPTO_OK;
}

ppto_status pp_program_keep_origins(ppto_program *p, pp_graph *graph, const pp_ref *outputs, size_t n)
{
    uint32_t *nodes;
    size_t count;
    PP_TRY(pp_graph_needed(graph, outputs, n, &nodes, &count));
    p->origins = pp_calloc(count + 1, sizeof *p->origins);
    ppto_status status = p->origins ? PPTO_OK : PPTO_E_NOMEM;
    for (size_t i = 0; status == PPTO_OK && i < count; i++) {
        const pp_node_info info = pp_graph_node(graph, nodes[i]);
        status = keep_one(p, &info);
    }
    pp_free(nodes);
    return status;
}

void pp_program_borrow_origins(ppto_program *part, const ppto_program *whole)
{
    part->origins = whole->origins;
    part->n_origins = whole->n_origins;
}

void pp_program_free_origins(ppto_program *p)
{
    const bool borrowed = p->plan && !p->plan->recorded.table; /* nobody recorded the plan of a part */
    if (borrowed) return;
    for (size_t i = 0; i < p->n_origins; i++)
        if (p->origins[i].operator_name != p->plan->operators[i])
            pp_free((char *)(uintptr_t)p->origins[i].operator_name);
    pp_free(p->origins);
}

/* ---- telling programs apart ---------------------------------------------------------------------- */

uint64_t pp_program_places(const ppto_program *p)
{
    uint64_t hash = 71;
    for (size_t i = 0; i < p->n_origins; i++) {
        const ppto_site *site = &p->origins[i].site;
        hash = pp_hash_mix(hash, (uint64_t)(uintptr_t)site->file);
        hash = pp_hash_mix(hash, (uint64_t)(uint32_t)site->line << 32 | (uint32_t)site->column);
    }
    return hash;
}

ppto_status pp_places_sign(pp_graph *graph, const pp_ref *outputs, size_t n, pp_text *signature)
{
    uint32_t *nodes;
    size_t count;
    PP_TRY(pp_graph_needed(graph, outputs, n, &nodes, &count));
    for (size_t i = 0; i < count; i++) {
        const pp_node_info info = pp_graph_node(graph, nodes[i]);
        pp_text_add(signature, "%s at %s:%d:%d %u\n", name_of(&info), info.site.file ? info.site.file : "",
                    (int)info.site.line, (int)info.site.column, (unsigned)info.stack);
    }
    pp_free(nodes);
    return signature->failed ? PPTO_E_NOMEM : PPTO_OK;
}
