/* SPDX-License-Identifier: Apache-2.0
 * Bounds that no layout can beat. In program order: the most bytes alive at one step. Under the precedence:
 * the heaviest antichain of units, which equals the weight of all less the greatest flow through "a before b"
 * when every unit may give and take its weight once (Dilworth's theorem with weights).
 *
 * source Dilworth: A decomposition theorem for partially ordered sets, 1950; Dinic's algorithm for the flow
 */
#include <string.h>

#include "memory/layout_parts.h"

ppto_status pp_bound_serial(const pp_units *units, uint32_t n_steps, uint64_t *bound)
{
    uint64_t *change = pp_calloc((size_t)n_steps + 1, sizeof *change); /* modulo 2^64 */
    if (change == NULL) return PPTO_E_NOMEM;
    uint64_t total = 0, live = 0;
    bool fits = true;
    *bound = 0;
    for (uint32_t i = 0; i < units->n; i++) {
        fits = fits && !__builtin_add_overflow(total, units->at[i].bytes, &total);
        change[units->at[i].defined] += units->at[i].bytes;
        change[units->at[i].last + 1] -= units->at[i].bytes;
    }
    for (uint32_t s = 0; s < n_steps; s++) {
        live += change[s];
        if (live > *bound) *bound = live;
    }
    pp_free(change);
    return fits ? PPTO_OK : PPTO_E_SIZE;
}

/* Nodes 0 .. n-1 give (left), n .. 2n-1 take (right). */
typedef struct network {
    const pp_units *units;
    uint32_t n;
    uint64_t *flow;                                       /* flow[left * n + right] */
    uint64_t before[PP_BOUND_UNITS][PP_BOUND_UNITS / 64]; /* bit right of row left */
    uint64_t give[PP_BOUND_UNITS], take[PP_BOUND_UNITS];  /* left over */
    uint32_t level[2 * PP_BOUND_UNITS];                   /* 0: not reached */
    uint32_t arc[2 * PP_BOUND_UNITS];                     /* the next neighbour to try */
    uint32_t queue[2 * PP_BOUND_UNITS];
} network;

static bool has_arc(const network *of, uint32_t left, uint32_t right)
{
    return (of->before[left][right / 64] >> (right % 64) & 1) != 0;
}

/* The room from node to its i-th neighbour, a node of the other side. */
static uint64_t room(const network *of, uint32_t node, uint32_t i)
{
    if (node < of->n) return has_arc(of, node, i) ? UINT64_MAX : 0;
    return of->flow[(size_t)i * of->n + (node - of->n)];
}

/* Levels by breadth; false: no right node with something left to take is reached. */
static bool set_levels(network *of)
{
    uint32_t n = of->n, head = 0, tail = 0;
    bool reached = false;
    memset(of->level, 0, sizeof of->level);
    memset(of->arc, 0, sizeof of->arc);
    for (uint32_t i = 0; i < n; i++)
        if (of->give[i] != 0) {
            of->level[i] = 1;
            of->queue[tail++] = i;
        }
    while (head < tail) {
        uint32_t node = of->queue[head++], other = node < n ? n : 0;
        if (node >= n && of->take[node - n] != 0) reached = true;
        for (uint32_t i = 0; i < n; i++) {
            if (of->level[other + i] != 0 || room(of, node, i) == 0) continue;
            of->level[other + i] = of->level[node] + 1;
            of->queue[tail++] = other + i;
        }
    }
    return reached;
}

/* Sends up to `most` from node onwards; how much went. The depth is at most the number of levels. */
static uint64_t send(network *of, uint32_t node, uint64_t most)
{
    uint32_t n = of->n, other = node < n ? n : 0;
    if (node >= n && of->take[node - n] != 0) {
        uint64_t sent = most < of->take[node - n] ? most : of->take[node - n];
        of->take[node - n] -= sent;
        return sent;
    }
    for (uint32_t *i = &of->arc[node]; *i < n; ++*i) {
        uint64_t limit = room(of, node, *i);
        if (limit == 0 || of->level[other + *i] != of->level[node] + 1) continue;
        uint64_t sent = send(of, other + *i, most < limit ? most : limit);
        if (sent == 0) continue;
        if (node < n)
            of->flow[(size_t)node * n + *i] += sent;
        else
            of->flow[(size_t)*i * n + (node - n)] -= sent;
        return sent;
    }
    return 0;
}

ppto_status pp_bound_antichain(const pp_units *units, uint64_t *bound)
{
    uint32_t n = units->n;
    network *of = pp_calloc(1, sizeof *of);
    uint64_t *flow = pp_calloc((size_t)n * n, sizeof *flow), weight = 0, sent;
    ppto_status status = PPTO_E_NOMEM;
    if (of == NULL || flow == NULL) goto done;
    of->units = units;
    of->n = n;
    of->flow = flow;
    for (uint32_t a = 0; a < n; a++) {
        of->give[a] = of->take[a] = units->at[a].bytes;
        weight += units->at[a].bytes;
        for (uint32_t b = 0; b < n; b++)
            if (pp_unit_before(units, a, b)) of->before[a][b / 64] |= (uint64_t)1 << (b % 64);
    }
    while (set_levels(of))
        for (uint32_t i = 0; i < n; i++)
            while (of->give[i] != 0 && (sent = send(of, i, of->give[i])) != 0) {
                of->give[i] -= sent;
                weight -= sent;
            }
    *bound = weight;
    status = PPTO_OK;
done:
    pp_free(of);
    pp_free(flow);
    return status;
}
