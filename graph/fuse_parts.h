/* SPDX-License-Identifier: Apache-2.0
 * What the parts of fusion share. fuse.c walks the values and decides; fuse_demand.c keeps what is demanded;
 * fuse_group.c knows groups, their axes and who waits for whom; fuse_value.c, fuse_heavy.c place values and
 * reductions (fuse_reduction.c) or products (fuse_contract.c) into groups; fuse_chain.c makes one kernel of
 * groups that follow one another row by row; fuse_order.c sorts the result.
 *
 * While the walk goes on, groups are numbered consumers first and their lists are unsorted. Whatever an arena
 * gives lives as long as pp_fused. A pp_group pointer is good until a group is added. */
#ifndef PP_FUSE_PARTS_H
#define PP_FUSE_PARTS_H

#include "graph/fuse.h"

#define PP_NO_AXIS UINT8_MAX /* of a dim: none yet, or of size 1 and read at 0 */

typedef struct pp_demand {
    uint32_t group, consumer;
    pp_imap *map; /* NULL: the stored value is read by the group */
    uint8_t side; /* 0; 1, 2: left or right factor of the group's contraction */
    uint8_t why;  /* pp_reason of a NULL map */
    struct pp_demand *next;
    struct pp_demand *alike; /* while a list is looked at: another kind of demand of the same group */
} pp_demand;

typedef struct pp_demand_kinds { /* kinds of demands of a group met since `epoch` began */
    pp_demand *first;
    uint32_t epoch;
} pp_demand_kinds;

enum { PP_FUSE_OUTPUT = 1, PP_FUSE_TENSOR = 2 /* depends on data */, PP_FUSE_NUMBER = 4 };

typedef struct pp_fuser {
    const pp_flat *flat;
    pp_fused *out;
    pp_demand **demands; /* per prim */
    uint8_t *flag;       /* per prim: PP_FUSE_* */
    uint32_t *uses;      /* per prim: operands that it is */
    uint16_t *cost;      /* per prim: operations to compute it once, saturated */
    uint32_t *stamp;     /* per group: visited in the cycle search */
    size_t stamp_cap;
    uint32_t epoch;
    PP_VEC(pp_demand_kinds) kinds; /* per group */
    uint32_t kinds_epoch;
    bool optimise;
} pp_fuser;

static inline bool pp_prim_is_view(const pp_prim *p)
{
    return p->kind >= PP_P_PERMUTE && p->kind <= PP_P_BROADCAST;
}
static inline bool pp_prim_is_heavy(const pp_prim *p)
{
    return p->kind == PP_P_REDUCE || p->kind == PP_P_SCAN || p->kind == PP_P_CONTRACT;
}
static inline bool pp_prim_is_source(const pp_prim *p)
{
    return p->kind <= PP_P_IOTA;
}

/* ---- fuse_demand.c ----------------------------------------------------------------------------- */

/* `group` needs `prim` at `map`, for `consumer`. Numbers are never demanded. */
ppto_status pp_demand_push(pp_fuser *f, uint32_t prim, uint32_t group, pp_imap *map, uint8_t side,
                           uint32_t consumer, pp_reason why);
/* Demands the operands of `id`, computed in `group` at `map`. */
ppto_status pp_demand_operands(pp_fuser *f, uint32_t id, uint32_t group, pp_imap *map, uint8_t side);
/* Is this the first demand of its kind (group, side, map) since f->kinds_epoch was raised? Notes it. */
bool pp_demand_first(pp_fuser *f, pp_demand *d, bool *first_of_group);
/* All demands on several values, as one list of its own. */
ppto_status pp_demand_join(pp_fuser *f, const uint32_t *prims, uint32_t n, pp_demand **list);
bool pp_demand_of_group(const pp_demand *list, uint32_t group); /* is one of the list the group's */
bool pp_demand_of_stored(const pp_demand *list);                /* is the stored value demanded */
/* The map on which all demands of one group agree, without guards; NULL: they do not. */
pp_imap *pp_demand_map(pp_fuser *f, const pp_demand *list, uint32_t group);
/* Groups other than `home` that read the stored value wait for it; each gets its reason. */
ppto_status pp_demand_readers(pp_fuser *f, uint32_t id, const pp_demand *list, uint32_t home,
                              pp_reason reason);

/* ---- fuse_group.c ------------------------------------------------------------------------------ */

/* An empty group for `id` and what may join it. */
ppto_status pp_group_add(pp_fuser *f, uint32_t id, uint32_t *group);
/* The same, with an outer axis for every dim of `type`: its domain. */
ppto_status pp_group_over(pp_fuser *f, uint32_t id, const pp_type *type, uint32_t *group);
/* False: the frame is full. */
bool pp_group_axis(pp_group *g, pp_size size, pp_axis_role role, uint8_t *axis);
ppto_status pp_group_member(pp_fuser *f, uint32_t group, uint32_t id);
ppto_status pp_group_store(pp_fuser *f, uint32_t id, uint32_t group, pp_imap *map);

bool pp_group_has_room(const pp_group *g);
/* The stream or sync point between a value and a group; PP_R_NONE. */
pp_reason pp_group_apart(const pp_fuser *f, uint32_t id, uint32_t group);
/* The group may take a value that others demand too: it would not come to wait for itself. */
bool pp_group_no_cycle(pp_fuser *f, uint32_t group, const pp_demand *list);

bool pp_fuse_is_one(const pp_fuser *f, pp_size size); /* known to be */
pp_index pp_group_index(pp_fuser *f, pp_group *g);
/* A value whose dims are exactly these axes. NULL: out of memory. */
pp_imap *pp_group_plain(pp_fuser *f, pp_group *g, const uint8_t *axes, uint32_t rank);
/* Is every dim an axis of its own? axes[i] is it, PP_NO_AXIS for a dim of size 1 read at 0. */
bool pp_group_plain_axes(pp_fuser *f, pp_group *g, const pp_type *type, const pp_imap *map, uint8_t *axes);
/* Does the map run through every element exactly once? The group's outer (or all) axes are its dims then. */
bool pp_group_covers(pp_fuser *f, pp_group *g, const pp_type *type, const pp_imap *map, bool with_inner);
/* May the value be stored: over all of the frame, or over its outer axes? */
bool pp_group_can_store(pp_fuser *f, pp_group *g, const pp_type *type, const pp_imap *map);

/* ---- fuse_chain.c ------------------------------------------------------------------------------ */

/* Groups that follow one another row by row, a product among them, become one. */
ppto_status pp_fuse_chains(pp_fuser *f);

/* ---- fuse_sibling.c ---------------------------------------------------------------------------- */

/* What makes a group a sibling of `id`: gives the axes of the dims of `id` in its frame. */
typedef bool pp_sibling_fits(pp_fuser *f, uint32_t id, uint32_t group, uint8_t *axes);
/* Of the few groups made last: the next one below *group (at first: f->out->groups.n) that does not demand
 * `id` and could still take it. Gives the map of `id` there; NULL when there is none. */
pp_imap *pp_sibling_next(pp_fuser *f, uint32_t id, const pp_demand *list, pp_sibling_fits *fits,
                         uint32_t *group);
/* Does the domain the group was made for have these sizes? Gives the axes. */
bool pp_sibling_domain(const pp_group *g, const pp_type *type, uint8_t *axes);
/* Is something that `id` is computed from also demanded by the group? Looks a little way down. */
bool pp_sibling_shares_data(const pp_fuser *f, uint32_t id, uint32_t group);

/* ---- fuse_value.c: a value that is no reduction ------------------------------------------------ */

/* Stores it and computes it in its home: a group that demands it, a sibling, or a new one. */
ppto_status pp_fuse_store(pp_fuser *f, uint32_t id, const pp_demand *list, pp_reason reason);
/* NONE: all demands can be met by computing it where it is needed. */
pp_reason pp_fuse_why_not_inline(pp_fuser *f, uint32_t id, pp_demand *list);
ppto_status pp_fuse_inline(pp_fuser *f, uint32_t id, pp_demand *list);

/* ---- fuse_factor.c ----------------------------------------------------------------------------- */

/* Is the value a factor of products only, and made of another product that nothing else needs? Then it is
 * stored in place of that product. */
bool pp_fuse_replaces_product(const pp_fuser *f, uint32_t id, const pp_demand *list);

/* ---- fuse_heavy.c: a reduction, scan or product and its parts (of a product: itself) ----------- */

ppto_status pp_fuse_heavy(pp_fuser *f, uint32_t id, const uint32_t *parts, uint32_t n_parts);

/* ---- fuse_reduction.c, fuse_contract.c: into a group that reads the result at `map`, or has a like domain,
 * or into one of their own. NONE: *heavy is set, with NULL maps when memory ran out; else nothing is changed.
 */

pp_reason pp_reduction_join(pp_fuser *f, uint32_t id, uint32_t group, const pp_imap *map, pp_heavy *heavy);
void pp_reduction_join_sibling(pp_fuser *f, uint32_t id, const pp_demand *list, uint32_t *group,
                               pp_heavy *heavy); /* *group stays when there is none */
ppto_status pp_reduction_own(pp_fuser *f, uint32_t id, uint32_t *group, pp_heavy *heavy);

pp_reason pp_contract_join(pp_fuser *f, uint32_t id, uint32_t group, const pp_imap *map, pp_heavy *heavy);
ppto_status pp_contract_own(pp_fuser *f, uint32_t id, uint32_t *group, pp_heavy *heavy);

/* ---- fuse_order.c ------------------------------------------------------------------------------ */

/* Groups in an order in which everything a group needs comes before it, ties by the first prim; their lists
 * ascend. */
ppto_status pp_fuse_order(pp_fused *out, size_t n_prims);

#endif
