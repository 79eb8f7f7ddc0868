/* SPDX-License-Identifier: Apache-2.0
 * How a whole (tasks, bytes) divides over the domains of a machine: each gets a run of neighbours as long as
 * its weight. Whoever divides by the same shares meets the same domain: a task runs where its output lies. */
#ifndef PP_SHARE_H
#define PP_SHARE_H

#include <stdint.h>

#define PP_MAX_DOMAINS 64u

typedef struct pp_shares {
    uint32_t n;                         /* domains */
    uint32_t upto[PP_MAX_DOMAINS + 1u]; /* sum of the weights of those before; upto[0] == 0 < upto[n] */
} pp_shares;

static inline pp_shares pp_shares_of(const uint32_t *weights, uint32_t n)
{
    pp_shares shares = {.n = n, .upto = {0}};
    for (uint32_t d = 0; d < n; d++) shares.upto[d + 1] = shares.upto[d] + weights[d];
    return shares;
}

/* The first of `total` that is domain d's or a later one's; d == n: total. */
static inline uint64_t pp_share_first(const pp_shares *shares, uint32_t d, uint64_t total)
{
    uint64_t whole = shares->upto[shares->n], part = shares->upto[d];
    return total / whole * part + (total % whole * part + whole - 1) / whole;
}

#endif
