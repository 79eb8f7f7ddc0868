/* SPDX-License-Identifier: Apache-2.0
 * The precedence of steps. Steps are numbered so that needs point backwards, so one pass in program order
 * builds either form: a row of the closure is the union of the rows of its needs and the needs themselves.
 *
 * source (chains) Jagadish: A compression technique to materialize transitive closure, 1990 */
#include <string.h>

#include "base/checked.h"
#include "memory/layout_parts.h"

enum { REACH_ENTRIES = 1 << 24, MOST_CHAINS = 64, LEAST_CHAINS = 8 };

static ppto_status make_bits(const pp_layout_problem *problem, pp_order *out)
{
    uint32_t n = out->n;
    out->words = ((size_t)n + 63) / 64;
    out->bits = pp_calloc((size_t)n * out->words, sizeof *out->bits);
    if (out->bits == NULL) return PPTO_E_NOMEM;
    for (uint32_t s = 0; s < n; s++) {
        uint64_t *row = out->bits + s * out->words;
        for (uint32_t k = problem->first_need[s]; k < problem->first_need[s + 1]; k++) {
            uint32_t u = problem->needs[k];
            const uint64_t *other = out->bits + u * out->words;
            for (size_t w = 0; w <= u / 64; w++) row[w] |= other[w];
            row[u / 64] |= (uint64_t)1 << (u % 64);
        }
    }
    return PPTO_OK;
}

/* Appends s to a chain whose end is before it, or to a new one. */
static void choose_chain(pp_order *out, uint32_t s, uint32_t *end, uint32_t *used)
{
    const uint32_t *row = out->reach + (size_t)s * out->n_chains;
    out->chain[s] = out->n_chains;
    for (uint32_t c = 0; c < *used && out->chain[s] == out->n_chains; c++)
        if (row[c] == end[c]) out->chain[s] = c;
    if (out->chain[s] == out->n_chains && *used < out->n_chains) out->chain[s] = (*used)++;
    if (out->chain[s] != out->n_chains) end[out->chain[s]] = s + 1;
}

static void reach_step(const pp_layout_problem *problem, pp_order *out, uint32_t s)
{
    uint32_t *row = out->reach + (size_t)s * out->n_chains;
    for (uint32_t k = problem->first_need[s]; k < problem->first_need[s + 1]; k++) {
        uint32_t u = problem->needs[k];
        const uint32_t *other = out->reach + (size_t)u * out->n_chains;
        for (uint32_t c = 0; c < out->n_chains; c++)
            if (other[c] > row[c]) row[c] = other[c];
        uint32_t c = out->chain[u];
        if (c != out->n_chains && u + 1 > row[c]) row[c] = u + 1;
    }
}

static ppto_status make_chains(const pp_layout_problem *problem, pp_order *out)
{
    uint32_t n = out->n, end[MOST_CHAINS] = {0}, used = 0;
    out->n_chains = REACH_ENTRIES / n;
    if (out->n_chains > MOST_CHAINS) out->n_chains = MOST_CHAINS;
    if (out->n_chains < LEAST_CHAINS) out->n_chains = LEAST_CHAINS;
    out->chain = pp_calloc(n, sizeof *out->chain);
    out->successor = pp_calloc(n, sizeof *out->successor);
    out->reach = pp_calloc((size_t)n * out->n_chains, sizeof *out->reach);
    if (out->chain == NULL || out->successor == NULL || out->reach == NULL) return PPTO_E_NOMEM;
    for (uint32_t s = 0; s < n; s++) {
        reach_step(problem, out, s);
        choose_chain(out, s, end, &used);
        out->successor[s] = n;
        if (out->chain[s] == out->n_chains) continue;
        for (uint32_t k = problem->first_need[s]; k < problem->first_need[s + 1]; k++)
            if (out->successor[problem->needs[k]] == n) out->successor[problem->needs[k]] = s;
    }
    return PPTO_OK;
}

ppto_status pp_order_make(const pp_layout_problem *problem, pp_order *out)
{
    *out = (pp_order){.serial = problem->serial, .n = problem->n_steps};
    ppto_status status = PPTO_OK;
    if (!out->serial && out->n != 0)
        status = out->n <= PP_ORDER_BITS ? make_bits(problem, out) : make_chains(problem, out);
    if (status != PPTO_OK) pp_order_free(out);
    return status;
}

void pp_order_free(pp_order *order)
{
    pp_free(order->bits);
    pp_free(order->chain);
    pp_free(order->reach);
    pp_free(order->successor);
    *order = (pp_order){0};
}

bool pp_order_before(const pp_order *order, uint32_t u, uint32_t s)
{
    if (u >= s) return false;
    if (order->serial) return true;
    if (order->bits != NULL) return (order->bits[s * order->words + u / 64] >> (u % 64) & 1) != 0;
    if (order->chain[u] == order->n_chains) {
        u = order->successor[u];
        if (u >= order->n) return false;
        if (u == s) return true;
    }
    return order->reach[(size_t)s * order->n_chains + order->chain[u]] > u;
}
