/* SPDX-License-Identifier: Apache-2.0
 * The last step of fusion: groups in an order that can be run, and their lists ascending. */
#include <stdlib.h>
#include <string.h>

#include "graph/fuse_parts.h"

#define ACTIVE UINT32_MAX

typedef struct search { /* depth first, along needs */
    pp_group *sorted;
    uint32_t *place; /* per group: 0 not met, ACTIVE on the stack, else 1 + where it stands in sorted */
    uint32_t *stack;
    size_t *at; /* per group: needs looked at */
    uint32_t done;
} search;

/* Places a group behind everything it needs. */
static void place_group(const pp_fused *out, search *s, uint32_t first)
{
    uint32_t depth = 0;
    s->stack[depth++] = first;
    s->place[first] = ACTIVE;
    while (depth) {
        uint32_t g = s->stack[depth - 1];
        const pp_group *group = &out->groups.at[g];
        if (s->at[g] < group->needs.n) {
            uint32_t need = group->needs.at[s->at[g]++];
            if (!s->place[need]) s->place[need] = ACTIVE, s->stack[depth++] = need;
            continue;
        }
        s->sorted[s->done++] = *group;
        s->place[g] = s->done;
        depth--;
    }
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Sorts a list whose items begin with a uint32_t. */
#define ASCEND(list)                                                                                         \
    do {                                                                                                     \
        if ((list).n > 1) qsort((list).at, (list).n, sizeof *(list).at, by_number);                          \
    } while (0)

_Static_assert(offsetof(pp_root, prim) == 0 && offsetof(pp_heavy, prim) == 0 &&
                   offsetof(pp_group_local, prim) == 0,
               "ASCEND sorts by prim");

/* What lowering looks at. */
static void tidy_part(pp_group *part)
{
    ASCEND(part->members);
    ASCEND(part->roots);
    ASCEND(part->heavies);
}

/* Needs are renumbered. returns E_INTERNAL when one does not come before its group */
static ppto_status tidy(pp_fused *out, const uint32_t *place)
{
    ppto_status status = PPTO_OK;
    for (size_t i = 0; i < out->groups.n; i++) {
        pp_group *g = &out->groups.at[i];
        for (size_t k = 0; k < g->needs.n; k++) {
            g->needs.at[k] = place[g->needs.at[k]] - 1;
            if (g->needs.at[k] >= i) status = PPTO_E_INTERNAL;
        }
        ASCEND(g->needs);
        ASCEND(g->members);
        ASCEND(g->roots);
        ASCEND(g->heavies);
        ASCEND(g->locals);
        for (uint32_t k = 0; k < g->n_parts; k++) tidy_part(&g->parts[k]);
    }
    return status;
}

ppto_status pp_fuse_order(pp_fused *out, size_t n_prims)
{
    size_t n = out->groups.n;
    search s = {.sorted = pp_alloc((n + 1) * sizeof *s.sorted),
                .place = pp_calloc(n + 1, sizeof *s.place),
                .stack = pp_alloc((n + 1) * sizeof *s.stack),
                .at = pp_calloc(n + 1, sizeof *s.at)};
    ppto_status status = s.sorted && s.place && s.stack && s.at ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) {
        for (size_t i = n; i-- > 0;) /* groups were made consumers first */
            if (!s.place[i] && !out->groups.at[i].absorbed) place_group(out, &s, (uint32_t)i);
        out->groups.n = s.done;
        if (s.done) memcpy(out->groups.at, s.sorted, s.done * sizeof *s.sorted);
        for (size_t p = 0; p < n_prims; p++)
            if (out->stored_in[p] != PP_NONE) out->stored_in[p] = s.place[out->stored_in[p]] - 1;
        status = tidy(out, s.place);
    }
    pp_free(s.sorted);
    pp_free(s.place);
    pp_free(s.stack);
    pp_free(s.at);
    return status;
}
