/* SPDX-License-Identifier: Apache-2.0
 * Fusion, consumers first. Every value collects the demands on it: which group needs it, at which index map.
 * When its turn comes (all consumers are done) it is
 *   - passed on: its operands are demanded where it was (inlined), or
 *   - stored: by a group that demands it at a map that runs through all elements once, by a sibling over the
 * same frame that reads the same data, or by a new group. Reductions, scans and products join the group that
 * demands them when its axes can be split into outer and inner ones that fit; else they start their own. A
 * join is refused when the group would come to wait for itself. The result never depends on known sizes other
 * than 1. Start reading at visit(). */
#include "graph/fuse.h"

#include <string.h>

enum { MAX_MEMBERS = 160, MAX_LEAVES = 48, STENCIL_COST = 24, DEAR = 16, CYCLE_BUDGET = 2048, SIBLINGS = 4 };

typedef struct demand {
    uint32_t group, consumer;
    pp_imap *map; /* NULL: the stored value is read by the group */
    uint8_t side; /* 0; 1, 2: left or right factor of the group's contraction */
    uint8_t why;  /* pp_reason of a NULL map */
    struct demand *next;
    struct demand *alike; /* while a list is looked at: another kind of demand of the same group */
} demand;

typedef struct group_kinds { /* kinds of demands of a group met since `epoch` began */
    demand *first;
    uint32_t epoch;
} group_kinds;

typedef struct fuser {
    const pp_flat *flat;
    pp_fused *out;
    demand **demands; /* per prim */
    uint8_t *flag;    /* per prim: F_* */
    uint16_t *cost;   /* per prim: operations to compute it once, saturated */
    uint32_t *stamp;  /* per group: visited in the cycle search */
    size_t stamp_cap;
    uint32_t epoch;
    PP_VEC(group_kinds) kinds; /* per group */
    uint32_t kinds_epoch;
    bool optimise;
} fuser;

enum { F_OUTPUT = 1, F_TENSOR = 2 /* depends on data */, F_NUMBER = 4 };

static const struct {
    const char *code, *text;
} reasons[PP_REASON_COUNT] = {
    [PP_R_NONE] = {"none", "merged"},
    [PP_R_OUTPUT] = {"output", "it is a result of the program"},
    [PP_R_FRAME] = {"frame", "the axes of the two differ: another reduction or another shape"},
    [PP_R_INDEX] = {"index", "a reduced value is read at a shifted, strided or repeated place"},
    [PP_R_RESHAPE] = {"reshape", "the sizes of a reshape neither split nor merge axis by axis"},
    [PP_R_RECOMPUTE] = {"recompute", "it would be computed several times and is not cheap"},
    [PP_R_SHARED] = {"shared", "several kernels that cannot merge use it"},
    [PP_R_CYCLE] = {"cycle", "the kernels would wait for each other"},
    [PP_R_TOO_LARGE] = {"too_large", "the kernel has reached its size limit"},
    [PP_R_CONTRACT] = {"contract", "a product is computed by a kernel of its own frame"},
    [PP_R_GATHER] = {"gather", "the source of a gather is read from memory"},
    [PP_R_OFF] = {"off", "the optimiser is off"},
    [PP_R_STREAM] = {"stream", "the two are recorded on different streams"},
    [PP_R_SYNC] = {"sync", "a sync point lies between them"},
};
const char *pp_reason_code(pp_reason reason)
{
    return reasons[reason].code;
}
const char *pp_reason_text(pp_reason reason)
{
    return reasons[reason].text;
}

/* Operands come first, so theirs are known. */
static bool is_number(const pp_flat *flat, const uint8_t *number, const pp_prim *p)
{
    const pp_type *type = pp_type_get(flat->types, p->type);
    if (type->rank) return false;
    if (p->kind == PP_P_LITERAL || p->kind == PP_P_SIZE) return true;
    if (p->kind == PP_P_INPUT) return type->weak;
    if (p->kind != PP_P_MAP) return false;
    for (uint32_t k = 0; k < p->n_operands; k++)
        if (!number[flat->operands.at[p->first_operand + k]]) return false;
    return true;
}

static bool is_view(const pp_prim *p)
{
    return p->kind >= PP_P_PERMUTE && p->kind <= PP_P_BROADCAST;
}
static bool is_heavy(const pp_prim *p)
{
    return p->kind == PP_P_REDUCE || p->kind == PP_P_SCAN || p->kind == PP_P_CONTRACT;
}
static bool is_source(const pp_prim *p)
{
    return p->kind <= PP_P_IOTA;
}
static bool is_one(const fuser *f, pp_size size)
{
    int64_t value;
    return pp_size_known(pp_types_sizes(f->flat->types), size, &value) && value == 1;
}
static pp_index index_of(fuser *f, pp_group *g)
{
    return (pp_index){&f->out->arena, f->flat->types, &g->axes, true};
}

/* Costs and flags of every prim, operands first. */
static void measure(fuser *f)
{
    const pp_flat *flat = f->flat;
    for (uint32_t id = 0; id < flat->prims.n; id++) {
        const pp_prim *p = pp_flat_prim(flat, id);
        uint32_t cost = p->kind == PP_P_MAP ? (p->op == PP_CALL                      ? 20
                                               : p->op == PP_DIV || p->op == PP_SQRT ? 4
                                                                                     : 1)
                                            : 0;
        uint8_t flag = p->kind == PP_P_INPUT ? F_TENSOR : 0;
        for (uint32_t k = 0; k < p->n_operands; k++) {
            uint32_t operand = flat->operands.at[p->first_operand + k];
            cost += f->cost[operand];
            flag |= f->flag[operand] & F_TENSOR;
        }
        if (p->kind == PP_P_PART) cost = 0;
        f->out->number[id] = is_number(flat, f->out->number, p);
        if (f->out->number[id]) flag = F_NUMBER, cost = 0;
        f->flag[id] |= flag;
        f->cost[id] = (uint16_t)(cost > 10000 ? 10000 : cost);
    }
}

static ppto_status push_demand(fuser *f, uint32_t prim, uint32_t group, pp_imap *map, uint8_t side,
                               uint32_t consumer, pp_reason why)
{
    if (f->flag[prim] & F_NUMBER) return PPTO_OK;
    demand *d = pp_arena_alloc(&f->out->arena, sizeof *d);
    if (!d) return PPTO_E_NOMEM;
    *d = (demand){group, consumer, map, side, (uint8_t)why, f->demands[prim], NULL};
    f->demands[prim] = d;
    if (is_source(pp_flat_prim(f->flat, prim))) f->out->groups.at[group].leaves++;
    return PPTO_OK;
}

/* Axes from number `first` on are children of a split just made: they take the role of their parent. */
static void inherit_roles(pp_group *g, uint32_t first)
{
    for (uint32_t a = 0; a < g->axes.n; a++)
        for (uint32_t c = 0; c < g->axes.n_children[a]; c++)
            if (g->axes.first_child[a] >= first) g->role[g->axes.first_child[a] + c] = g->role[a];
}

/* Demands the operands of `id`, computed in `group` at `map`. */
static ppto_status pass_on(fuser *f, uint32_t id, uint32_t group, pp_imap *map, uint8_t side)
{
    const pp_prim *p = pp_flat_prim(f->flat, id);
    for (uint32_t k = 0; k < p->n_operands; k++) {
        uint32_t operand = f->flat->operands.at[p->first_operand + k];
        pp_group *g = &f->out->groups.at[group];
        if (p->kind == PP_P_GATHER && k == 0) {
            PP_TRY(push_demand(f, operand, group, NULL, side, id, PP_R_GATHER));
            continue;
        }
        if (f->flag[operand] & F_NUMBER) continue;
        pp_index ix = index_of(f, g);
        pp_imap *through = NULL;
        uint32_t n_axes = g->axes.n;
        pp_through how = pp_index_through(&ix, f->flat, id, map, k, &through);
        inherit_roles(g, n_axes);
        if (how == PP_THROUGH_NOMEM) return PPTO_E_NOMEM;
        if (how == PP_THROUGH_RESHAPE) through = NULL;
        PP_TRY(push_demand(f, operand, group, through, side, id, PP_R_RESHAPE));
    }
    return PPTO_OK;
}

static ppto_status add_member(fuser *f, uint32_t group, uint32_t id)
{
    return pp_vec_push(&f->out->groups.at[group].members, id);
}

/* Streams and sync points keep a value and a group apart. */
static pp_reason kept_apart(const fuser *f, uint32_t id, uint32_t group)
{
    const pp_prim *p = pp_flat_prim(f->flat, id);
    const pp_group *g = &f->out->groups.at[group];
    return p->stream != g->stream ? PP_R_STREAM : p->level != g->level ? PP_R_SYNC : PP_R_NONE;
}

/* A group for `id` and what may join it. */
static ppto_status new_group(fuser *f, uint32_t id, uint32_t *group)
{
    pp_group g;
    memset(&g, 0, sizeof g);
    g.frame = PP_FRAME_MAP;
    g.stream = pp_flat_prim(f->flat, id)->stream;
    g.level = pp_flat_prim(f->flat, id)->level;
    *group = (uint32_t)f->out->groups.n;
    PP_TRY(pp_vec_push(&f->kinds, (group_kinds){0}));
    return pp_vec_push(&f->out->groups, g);
}

/* Is this the first demand of its kind (group, side, map) since f->kinds_epoch was raised? Notes it. */
static bool first_of_kind(fuser *f, demand *d, bool *first_of_group)
{
    group_kinds *kinds = &f->kinds.at[d->group];
    if (kinds->epoch != f->kinds_epoch) *kinds = (group_kinds){NULL, f->kinds_epoch};
    *first_of_group = kinds->first == NULL;
    for (const demand *e = kinds->first; e; e = e->alike)
        if (e->side == d->side && pp_index_equal(e->map, d->map)) return false;
    d->alike = kinds->first;
    kinds->first = d;
    return true;
}

static bool add_axis(pp_group *g, pp_size size, pp_axis_role role, uint8_t *axis)
{
    uint32_t a = pp_axes_add(&g->axes, size);
    if (a == PP_NONE) return false;
    g->role[a] = (uint8_t)role;
    *axis = (uint8_t)a;
    return true;
}

/* Would group `from` (directly or not) wait for `to`? True also when the search would take too long. */
static bool waits_for(fuser *f, uint32_t from, uint32_t to)
{
    if (from == to) return false;
    if (f->out->groups.n > f->stamp_cap) {
        size_t cap = f->out->groups.n * 2;
        uint32_t *stamp = pp_realloc(f->stamp, cap * sizeof *stamp);
        if (!stamp) return true;
        memset(stamp + f->stamp_cap, 0, (cap - f->stamp_cap) * sizeof *stamp);
        f->stamp = stamp;
        f->stamp_cap = cap;
    }
    uint32_t stack[CYCLE_BUDGET], n = 0, seen = 0;
    f->epoch++;
    stack[n++] = from;
    while (n) {
        pp_group *g = &f->out->groups.at[stack[--n]];
        for (size_t i = 0; i < g->needs.n; i++) {
            uint32_t next = g->needs.at[i];
            if (next == to) return true;
            if (f->stamp[next] == f->epoch) continue;
            f->stamp[next] = f->epoch;
            if (++seen >= CYCLE_BUDGET - 1) return true;
            stack[n++] = next;
        }
    }
    return false;
}

/* The group may take `id`, which others demand too. */
static bool no_cycle(fuser *f, uint32_t group, const demand *list)
{
    for (const demand *d = list; d; d = d->next)
        if (d->group != group && waits_for(f, group, d->group)) return false;
    return true;
}

static bool has_room(const pp_group *g)
{
    return g->members.n < MAX_MEMBERS && g->leaves < MAX_LEAVES;
}

/* All demands of one group on a value, when they agree on one map without guards. */
static pp_imap *single_map(fuser *f, const demand *list, uint32_t group)
{
    pp_imap *map = NULL;
    pp_index ix = index_of(f, &f->out->groups.at[group]);
    for (const demand *d = list; d; d = d->next) {
        if (d->group != group) continue;
        if (!d->map || d->side || d->map->n_guards) return NULL;
        pp_imap *normal = pp_index_normal(&ix, d->map);
        if (!normal || (map && !pp_index_equal(map, normal))) return NULL;
        map = normal;
    }
    return map;
}

/* Every dim is an axis of its own; outer[i] is it (a fresh one for dims of size 1 read at 0). */
static bool plain_axes(fuser *f, pp_group *g, const pp_type *type, const pp_imap *map, uint8_t *axes)
{
    pp_index ix = index_of(f, g);
    uint32_t used = 0;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (is_one(f, type->dim[i]) && map->dim[i].n == 0) {
            axes[i] = UINT8_MAX;
            continue;
        }
        if (!pp_index_is_axis(&ix, &map->dim[i], type->dim[i], &axes[i]) || used >> axes[i] & 1) return false;
        used |= 1u << axes[i];
    }
    return true;
}

/* The map runs through every element exactly once: the group's outer (or all) axes are exactly its dims. */
static bool covers(fuser *f, pp_group *g, const pp_type *type, const pp_imap *map, bool with_inner)
{
    uint8_t axes[PPTO_MAX_RANK];
    uint32_t used = 0;
    if (!plain_axes(f, g, type, map, axes)) return false;
    for (uint32_t i = 0; i < type->rank; i++)
        if (axes[i] != UINT8_MAX) used |= 1u << axes[i];
    for (uint32_t i = 0; i < g->axes.n_order; i++) {
        uint8_t a = g->axes.order[i];
        bool inner = g->role[a] == PP_AXIS_INNER || g->role[a] == PP_AXIS_K;
        if ((used >> a & 1) && inner && (!with_inner || g->role[a] == PP_AXIS_K)) return false;
        if (!(used >> a & 1) && !is_one(f, g->axes.size[a]) && !(inner && !with_inner)) return false;
    }
    return true;
}

/* A stored value of a group: over all of its frame, or over its outer axes. */
static bool can_store(fuser *f, pp_group *g, const pp_type *type, const pp_imap *map)
{
    return covers(f, g, type, map, false) ||
           ((g->frame == PP_FRAME_LANES || g->frame == PP_FRAME_ROWS) && covers(f, g, type, map, true));
}

static pp_imap *plain_map(fuser *f, pp_group *g, const uint8_t *axes, uint32_t rank)
{
    pp_index ix = index_of(f, g);
    return pp_index_plain(&ix, axes, rank);
}

static ppto_status store_in(fuser *f, uint32_t id, uint32_t group, pp_imap *map)
{
    f->out->stored_in[id] = group;
    return pp_vec_push(&f->out->groups.at[group].roots, ((pp_root){id, map}));
}

/* Groups that read the stored value wait for its group; each gets its reason. */
static ppto_status readers(fuser *f, uint32_t id, const demand *list, uint32_t home, pp_reason reason)
{
    for (const demand *d = list; d; d = d->next) {
        if (d->group == home && d->map) continue;
        PP_TRY(pp_vec_push(&f->out->groups.at[d->group].needs, home));
        f->out->groups.at[d->group].leaves++;
        pp_reason why = d->map ? reason : (pp_reason)d->why, apart = kept_apart(f, id, d->group);
        if (apart != PP_R_NONE && !is_source(pp_flat_prim(f->flat, id))) why = apart;
        PP_TRY(pp_vec_push(&f->out->missed, ((pp_missed){id, d->consumer, f->optimise ? why : PP_R_OFF})));
    }
    return PPTO_OK;
}

/* Is something that `id` is computed from also demanded by the group? Looks a little way down. */
static bool shares_data(fuser *f, uint32_t id, uint32_t group)
{
    uint32_t stack[64], n = 0, visits = 0;
    stack[n++] = id;
    while (n && visits++ < 48) {
        const pp_prim *p = pp_flat_prim(f->flat, stack[--n]);
        for (uint32_t k = 0; k < p->n_operands; k++) {
            uint32_t operand = f->flat->operands.at[p->first_operand + k], looked = 0;
            if (f->flag[operand] & F_NUMBER) continue;
            for (const demand *d = f->demands[operand]; d && looked < 8; d = d->next, looked++)
                if (d->group == group && d->map) return true;
            if (n < 63 && !is_heavy(pp_flat_prim(f->flat, operand))) stack[n++] = operand;
        }
    }
    return false;
}

/* Does the domain the group was made for have these sizes? Gives the axes. */
static bool same_domain(const pp_group *g, const pp_type *type, uint8_t *axes)
{
    if (g->n_domain != type->rank || g->frame == PP_FRAME_CONTRACT) return false;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (g->axes.size[g->domain[i]] != type->dim[i]) return false;
        axes[i] = g->domain[i];
    }
    return true;
}

/* ---- values that are not reductions
 * ------------------------------------------------------------------------------- */

/* A sibling: a recent group over the same domain that reads the same data. */
static bool find_sibling(fuser *f, uint32_t id, const demand *list, uint32_t *group, pp_imap **map)
{
    const pp_type *type = pp_flat_type(f->flat, id);
    size_t n = f->out->groups.n;
    for (size_t back = 0; back < SIBLINGS && back < n; back++) {
        uint32_t at = (uint32_t)(n - 1 - back);
        pp_group *g = &f->out->groups.at[at];
        uint8_t axes[PPTO_MAX_RANK];
        if (!has_room(g) || kept_apart(f, id, at) || !same_domain(g, type, axes)) continue;
        bool reads = false;
        for (const demand *d = list; d; d = d->next) reads |= d->group == at;
        if (reads || !shares_data(f, id, at) || !no_cycle(f, at, list)) continue;
        pp_index ix = index_of(f, g);
        pp_imap *plain = plain_map(f, g, axes, type->rank);
        *map = plain ? pp_index_normal(&ix, plain) : NULL;
        if (!*map || !can_store(f, g, type, *map)) continue;
        *group = at;
        return true;
    }
    return false;
}

/* Is `id` computed from a reduction that would fit the frame of the group, over data that the group reads? */
static bool reduces_alike(fuser *f, uint32_t id, uint32_t group)
{
    const pp_group *g = &f->out->groups.at[group];
    uint32_t stack[64], n = 0, visits = 0;
    stack[n++] = id;
    while (n && visits++ < 48) {
        uint32_t at = stack[--n];
        const pp_prim *p = pp_flat_prim(f->flat, at);
        if (p->kind == PP_P_REDUCE) {
            uint8_t axes[PPTO_MAX_RANK];
            const pp_type *x = pp_flat_type(f->flat, f->flat->operands.at[p->first_operand]);
            bool fits = p->rows == (g->frame == PP_FRAME_ROWS) && same_domain(g, x, axes);
            for (uint32_t d = 0; fits && d < x->rank; d++)
                fits = (p->u.fold.axes >> d & 1) == (g->role[axes[d]] == PP_AXIS_INNER);
            if (fits && shares_data(f, at, group)) return true;
            continue;
        }
        for (uint32_t k = 0; k < p->n_operands && n < 60; k++)
            stack[n++] = f->flat->operands.at[p->first_operand + k];
    }
    return false;
}

/* A sibling of the reductions behind a value: a group over the same frame whose outer axes are the value's
 * dims. */
static bool find_reduced_sibling(fuser *f, uint32_t id, const demand *list, uint32_t *group, pp_imap **map)
{
    const pp_type *type = pp_flat_type(f->flat, id);
    size_t n = f->out->groups.n;
    for (size_t back = 0; back < SIBLINGS && back < n; back++) {
        uint32_t at = (uint32_t)(n - 1 - back), outer = 0;
        pp_group *g = &f->out->groups.at[at];
        uint8_t axes[PPTO_MAX_RANK];
        if (!has_room(g) || kept_apart(f, id, at)) continue;
        if (g->frame != PP_FRAME_LANES && g->frame != PP_FRAME_ROWS) continue;
        bool fits = true, reads = false;
        for (uint32_t d = 0; d < g->n_domain; d++) {
            if (g->role[g->domain[d]] == PP_AXIS_INNER) continue;
            fits = fits && outer < type->rank && g->axes.size[g->domain[d]] == type->dim[outer];
            if (fits) axes[outer++] = g->domain[d];
        }
        for (const demand *d = list; d; d = d->next) reads |= d->group == at;
        if (!fits || reads || outer != type->rank || !reduces_alike(f, id, at) || !no_cycle(f, at, list))
            continue;
        pp_index ix = index_of(f, g);
        pp_imap *plain = plain_map(f, g, axes, type->rank);
        *map = plain ? pp_index_normal(&ix, plain) : NULL;
        if (!*map || !can_store(f, g, type, *map)) continue;
        *group = at;
        return true;
    }
    return false;
}

static ppto_status map_group(fuser *f, uint32_t id, uint32_t *group, pp_imap **map)
{
    const pp_type *type = pp_flat_type(f->flat, id);
    PP_TRY(new_group(f, id, group));
    pp_group *g = &f->out->groups.at[*group];
    for (uint32_t i = 0; i < type->rank; i++)
        if (!add_axis(g, type->dim[i], PP_AXIS_OUTER, &g->domain[i])) return PPTO_E_LIMIT;
    g->n_domain = type->rank;
    *map = plain_map(f, g, g->domain, type->rank);
    return *map ? PPTO_OK : PPTO_E_NOMEM;
}

/* Stores a value and computes it in its home group. */
static ppto_status store_value(fuser *f, uint32_t id, const demand *list, pp_reason reason)
{
    uint32_t home = PP_NONE;
    pp_imap *map = NULL;
    if (f->optimise) {
        for (const demand *d = list; d && home == PP_NONE; d = d->next) {
            pp_group *g = &f->out->groups.at[d->group];
            map = has_room(g) && !kept_apart(f, id, d->group) ? single_map(f, list, d->group) : NULL;
            if (map && can_store(f, g, pp_flat_type(f->flat, id), map) && no_cycle(f, d->group, list))
                home = d->group;
        }
        if (home == PP_NONE && !find_sibling(f, id, list, &home, &map))
            find_reduced_sibling(f, id, list, &home, &map);
    }
    if (home == PP_NONE) PP_TRY(map_group(f, id, &home, &map));
    PP_TRY(store_in(f, id, home, map));
    PP_TRY(readers(f, id, list, home, reason));
    PP_TRY(add_member(f, home, id));
    return pass_on(f, id, home, map, 0);
}

/* Is it needed along the innermost axis but repeated over others? Then every repetition computes it again. */
static bool repeats(fuser *f, const demand *d)
{
    pp_group *g = &f->out->groups.at[d->group];
    uint32_t used = 0, missing = 0;
    uint8_t last = UINT8_MAX;
    for (uint32_t i = 0; i < d->map->rank; i++)
        for (uint32_t t = 0; t < d->map->dim[i].n; t++) used |= 1u << d->map->dim[i].term[t].axis;
    if (d->side) return false;
    for (uint32_t i = 0; i < g->axes.n_order; i++) {
        uint8_t a = g->axes.order[i];
        if (is_one(f, g->axes.size[a])) continue;
        last = a;
        if (!(used >> a & 1)) missing |= 1u << a;
    }
    return last != UINT8_MAX && (used >> last & 1) && missing;
}

/* Whether all demands on a value can be met by computing it where it is needed; else why not. */
static pp_reason why_not_inline(fuser *f, uint32_t id, demand *list)
{
    const pp_prim *p = pp_flat_prim(f->flat, id);
    uint32_t group = list->group, maps = 0;
    bool several = false, first, guards = p->kind == PP_P_PAD || p->kind == PP_P_CONCAT;
    if (!f->optimise) return PP_R_OFF;
    f->kinds_epoch++;
    for (demand *d = list; d; d = d->next) {
        if (!d->map) return (pp_reason)d->why;
        pp_reason apart = kept_apart(f, id, d->group);
        if (apart != PP_R_NONE) return apart;
        if (!has_room(&f->out->groups.at[d->group])) return PP_R_TOO_LARGE;
        if (guards && d->map->n_guards >= PP_MOST_GUARDS) return PP_R_TOO_LARGE;
        several |= d->group != group;
        maps += first_of_kind(f, d, &first);
        if (maps > 64) return PP_R_RECOMPUTE;
        if (f->cost[id] >= DEAR && !is_view(p) && repeats(f, d)) return PP_R_RECOMPUTE;
    }
    if (is_view(p)) return PP_R_NONE;
    if (several && ((f->flag[id] & F_TENSOR) || f->cost[id] > 8)) return PP_R_SHARED;
    if (maps > 1 && f->cost[id] * maps > STENCIL_COST) return PP_R_RECOMPUTE;
    return PP_R_NONE;
}

static ppto_status inline_value(fuser *f, uint32_t id, demand *list)
{
    f->kinds_epoch++;
    for (demand *d = list; d; d = d->next) {
        bool first;
        if (!first_of_kind(f, d, &first)) continue;
        if (first) PP_TRY(add_member(f, d->group, id));
        PP_TRY(pass_on(f, id, d->group, d->map, d->side));
    }
    return PPTO_OK;
}

/* ---- reductions, scans, products
 * ------------------------------------------------------------------------------------ */

/* All demands on the parts of a heavy prim, as one list; results[part] is the prim of each part or PP_NONE.
 */
static ppto_status demands_of_parts(fuser *f, uint32_t id, const uint32_t *parts, uint32_t n, demand **list)
{
    (void)id;
    *list = NULL;
    for (uint32_t i = 0; i < n; i++)
        for (const demand *d = f->demands[parts[i]]; d; d = d->next) {
            demand *copy = pp_arena_alloc(&f->out->arena, sizeof *copy);
            if (!copy) return PPTO_E_NOMEM;
            *copy = *d;
            copy->next = *list;
            *list = copy;
        }
    return PPTO_OK;
}

static void make_inner(pp_group *g, const uint8_t *axes, uint32_t n, bool rows)
{
    g->frame = rows ? PP_FRAME_ROWS : PP_FRAME_LANES;
    g->n_inner = n;
    for (uint32_t i = 0; i < n; i++) {
        g->inner[i] = axes[i];
        g->role[axes[i]] = PP_AXIS_INNER;
    }
}

/* Splits the dims of a reduction's operand: dim i is outer (result dim number) or inner. */
static void split_dims(const pp_flat *flat, uint32_t id, uint8_t *inner_dim, uint32_t *n_inner,
                       uint8_t *outer_dim, uint32_t *n_outer)
{
    const pp_prim *p = pp_flat_prim(flat, id);
    const pp_type *x = pp_flat_type(flat, flat->operands.at[p->first_operand]);
    *n_inner = *n_outer = 0;
    for (uint32_t i = 0; i < x->rank; i++) {
        bool inner = p->kind == PP_P_SCAN ? i == p->axis : p->u.fold.axes >> i & 1;
        if (inner)
            inner_dim[(*n_inner)++] = (uint8_t)i;
        else
            outer_dim[(*n_outer)++] = (uint8_t)i;
    }
}

/* Tries to give the reduction's operand dims axes of the group, its result being read at `map`. NONE: joined.
 */
static pp_reason join_reduction(fuser *f, uint32_t id, pp_group *g, const pp_imap *map, pp_heavy *heavy)
{
    const pp_prim *p = pp_flat_prim(f->flat, id);
    const pp_type *x = pp_flat_type(f->flat, f->flat->operands.at[p->first_operand]);
    const pp_type *result = pp_flat_type(f->flat, id);
    uint8_t inner_dim[PPTO_MAX_RANK], outer_dim[PPTO_MAX_RANK], read[PPTO_MAX_RANK],
        axes[PPTO_MAX_RANK] = {0};
    uint32_t n_inner, n_outer, used = 0, rest[PPTO_MAX_RANK * 2], n_rest = 0;
    if (g->frame == PP_FRAME_CONTRACT) return PP_R_CONTRACT;
    if (!plain_axes(f, g, result, map, read)) return PP_R_INDEX;
    split_dims(f->flat, id, inner_dim, &n_inner, outer_dim, &n_outer);
    if (p->kind == PP_P_SCAN) { /* the result has the operand's dims */
        for (uint32_t i = 0; i < x->rank; i++) axes[i] = read[i];
        if (read[p->axis] == UINT8_MAX) return PP_R_INDEX;
    } else {
        for (uint32_t i = 0; i < n_outer; i++) axes[outer_dim[i]] = read[i];
    }
    for (uint32_t i = 0; i < n_outer; i++)
        if (axes[outer_dim[i]] != UINT8_MAX) used |= 1u << axes[outer_dim[i]];
    for (uint32_t i = 0; i < g->axes.n_order; i++) {
        uint8_t a = g->axes.order[i];
        if (g->frame != PP_FRAME_MAP && g->role[a] == PP_AXIS_INNER) {
            if (used >> a & 1) return PP_R_FRAME;
        } else if (!(used >> a & 1) && !is_one(f, g->axes.size[a])) {
            if (n_rest < PPTO_MAX_RANK * 2) rest[n_rest++] = a;
        }
    }
    bool fresh = false;
    if (g->frame != PP_FRAME_MAP) { /* the frame is set: the same inner axes, no outer axis left over */
        if (n_rest || g->n_inner != n_inner || (g->frame == PP_FRAME_ROWS) != p->rows) return PP_R_FRAME;
        for (uint32_t i = 0; i < n_inner; i++) {
            if (g->axes.size[g->inner[i]] != x->dim[inner_dim[i]]) return PP_R_FRAME;
            if (p->kind == PP_P_SCAN && axes[inner_dim[i]] != g->inner[i]) return PP_R_FRAME;
            axes[inner_dim[i]] = g->inner[i];
        }
    } else if (p->kind == PP_P_SCAN) {
        if (n_rest != 1 || rest[0] != axes[p->axis]) return PP_R_FRAME;
    } else if (n_rest == 0) {
        fresh = true;
    } else {
        uint32_t at = 0;
        for (uint32_t i = 0; i < n_inner; i++) {
            if (is_one(f, x->dim[inner_dim[i]])) {
                axes[inner_dim[i]] = UINT8_MAX;
                continue;
            }
            if (at == n_rest || g->axes.size[rest[at]] != x->dim[inner_dim[i]]) return PP_R_FRAME;
            axes[inner_dim[i]] = (uint8_t)rest[at++];
        }
        if (at != n_rest) return PP_R_FRAME;
    }
    if (g->axes.n + x->rank > PP_FRAME_MAX_AXES) return PP_R_TOO_LARGE;
    uint8_t inner_axes[PPTO_MAX_RANK];
    for (uint32_t i = 0; i < n_outer; i++)
        if (axes[outer_dim[i]] == UINT8_MAX)
            add_axis(g, x->dim[outer_dim[i]], PP_AXIS_OUTER, &axes[outer_dim[i]]);
    for (uint32_t i = 0; i < n_inner; i++) {
        uint8_t *a = &axes[inner_dim[i]];
        if (fresh || *a == UINT8_MAX) add_axis(g, x->dim[inner_dim[i]], PP_AXIS_INNER, a);
        inner_axes[i] = *a;
    }
    if (g->frame == PP_FRAME_MAP) {
        make_inner(g, inner_axes, n_inner, p->rows);
        memcpy(g->domain, axes, x->rank);
        g->n_domain = x->rank;
    }
    pp_imap *operand = plain_map(f, g, axes, x->rank);
    pp_index ix = index_of(f, g);
    heavy->prim = id;
    heavy->map = pp_index_normal(&ix, map);
    heavy->operand[0] = operand ? pp_index_normal(&ix, operand) : NULL;
    return PP_R_NONE;
}

/* A group of its own for a reduction or scan, axes in the order of the operand's dims. */
static ppto_status reduction_group(fuser *f, uint32_t id, uint32_t *group, pp_heavy *heavy)
{
    const pp_prim *p = pp_flat_prim(f->flat, id);
    const pp_type *x = pp_flat_type(f->flat, f->flat->operands.at[p->first_operand]);
    uint8_t inner_dim[PPTO_MAX_RANK], outer_dim[PPTO_MAX_RANK], inner_axes[PPTO_MAX_RANK],
        result[PPTO_MAX_RANK];
    uint32_t n_inner, n_outer;
    PP_TRY(new_group(f, id, group));
    pp_group *g = &f->out->groups.at[*group];
    for (uint32_t i = 0; i < x->rank; i++)
        if (!add_axis(g, x->dim[i], PP_AXIS_OUTER, &g->domain[i])) return PPTO_E_LIMIT;
    g->n_domain = x->rank;
    split_dims(f->flat, id, inner_dim, &n_inner, outer_dim, &n_outer);
    for (uint32_t i = 0; i < n_inner; i++) inner_axes[i] = g->domain[inner_dim[i]];
    for (uint32_t i = 0; i < n_outer; i++) result[i] = g->domain[outer_dim[i]];
    make_inner(g, inner_axes, n_inner, p->rows);
    heavy->prim = id;
    heavy->operand[0] = plain_map(f, g, g->domain, x->rank);
    heavy->map = p->kind == PP_P_SCAN ? heavy->operand[0] : plain_map(f, g, result, n_outer);
    return heavy->map && heavy->operand[0] ? PPTO_OK : PPTO_E_NOMEM;
}

/* A sibling whose domain is that of the reduction's operand. */
static bool join_sibling(fuser *f, uint32_t id, const demand *list, uint32_t *group, pp_heavy *heavy)
{
    const pp_prim *p = pp_flat_prim(f->flat, id);
    const pp_type *x = pp_flat_type(f->flat, f->flat->operands.at[p->first_operand]);
    size_t n = f->out->groups.n;
    for (size_t back = 0; back < SIBLINGS && back < n; back++) {
        uint32_t at = (uint32_t)(n - 1 - back);
        pp_group *g = &f->out->groups.at[at];
        uint8_t axes[PPTO_MAX_RANK], result[PPTO_MAX_RANK], inner_dim[PPTO_MAX_RANK],
            outer_dim[PPTO_MAX_RANK];
        uint32_t n_inner, n_outer;
        if (!has_room(g) || kept_apart(f, id, at) || !same_domain(g, x, axes)) continue;
        bool reads = false;
        for (const demand *d = list; d; d = d->next) reads |= d->group == at;
        if (reads || !shares_data(f, id, at) || !no_cycle(f, at, list)) continue;
        split_dims(f->flat, id, inner_dim, &n_inner, outer_dim, &n_outer);
        for (uint32_t i = 0; i < n_outer; i++) result[i] = axes[outer_dim[i]];
        pp_imap *map =
            p->kind == PP_P_SCAN ? plain_map(f, g, axes, x->rank) : plain_map(f, g, result, n_outer);
        pp_index ix = index_of(f, g);
        pp_imap *normal = map ? pp_index_normal(&ix, map) : NULL;
        if (!normal || join_reduction(f, id, g, normal, heavy) != PP_R_NONE) continue;
        *group = at;
        return true;
    }
    return false;
}

static bool contract_axes(fuser *f, uint32_t id, pp_group *g, const uint8_t *result, pp_heavy *heavy)
{
    const pp_prim *p = pp_flat_prim(f->flat, id);
    const pp_type *a = pp_flat_type(f->flat, f->flat->operands.at[p->first_operand]);
    const pp_type *b = pp_flat_type(f->flat, f->flat->operands.at[p->first_operand + 1]);
    uint32_t free_a = (uint32_t)a->rank - p->n_batch - p->n_k,
             free_b = (uint32_t)b->rank - p->n_batch - p->n_k;
    uint8_t left[PPTO_MAX_RANK], right[PPTO_MAX_RANK];
    if (g->axes.n + p->n_k > PP_FRAME_MAX_AXES) return false;
    for (uint32_t i = 0; i < p->n_batch + free_a + free_b; i++)
        g->role[result[i]] = i < p->n_batch ? PP_AXIS_BATCH : i < p->n_batch + free_a ? PP_AXIS_M : PP_AXIS_N;
    for (uint32_t i = 0; i < p->n_batch + free_a; i++) left[i] = result[i];
    for (uint32_t i = 0; i < p->n_batch; i++) right[i] = result[i];
    for (uint32_t i = 0; i < free_b; i++) right[p->n_batch + i] = result[p->n_batch + free_a + i];
    for (uint32_t i = 0; i < p->n_k; i++) {
        add_axis(g, a->dim[p->n_batch + free_a + i], PP_AXIS_K, &g->inner[i]);
        left[p->n_batch + free_a + i] = right[p->n_batch + free_b + i] = g->inner[i];
    }
    g->n_inner = p->n_k;
    g->frame = PP_FRAME_CONTRACT;
    heavy->prim = id;
    pp_imap *maps[3] = {plain_map(f, g, result, (uint32_t)p->n_batch + free_a + free_b),
                        plain_map(f, g, left, a->rank), plain_map(f, g, right, b->rank)};
    pp_index ix = index_of(f, g);
    heavy->map = maps[0] ? pp_index_normal(&ix, maps[0]) : NULL;
    heavy->operand[0] = maps[1] ? pp_index_normal(&ix, maps[1]) : NULL;
    heavy->operand[1] = maps[2] ? pp_index_normal(&ix, maps[2]) : NULL;
    return heavy->map && heavy->operand[0] && heavy->operand[1];
}

/* A product joins a map group that reads it at every point once. */
static pp_reason join_contract(fuser *f, uint32_t id, pp_group *g, const pp_imap *map, pp_heavy *heavy)
{
    const pp_type *type = pp_flat_type(f->flat, id);
    uint8_t axes[PPTO_MAX_RANK];
    if (g->frame != PP_FRAME_MAP) return PP_R_CONTRACT;
    if (!covers(f, g, type, map, true) || !plain_axes(f, g, type, map, axes)) return PP_R_INDEX;
    for (uint32_t i = 0; i < type->rank; i++)
        if (axes[i] == UINT8_MAX && !add_axis(g, type->dim[i], PP_AXIS_OUTER, &axes[i]))
            return PP_R_TOO_LARGE;
    /* Axes of size 1 that no dim reads stay outer: the batch. */
    for (uint32_t i = 0; i < g->axes.n; i++) g->role[i] = PP_AXIS_BATCH;
    return contract_axes(f, id, g, axes, heavy) ? PP_R_NONE : PP_R_TOO_LARGE;
}

static ppto_status contract_group(fuser *f, uint32_t id, uint32_t *group, pp_heavy *heavy)
{
    pp_imap *map;
    PP_TRY(map_group(f, id, group, &map));
    pp_group *g = &f->out->groups.at[*group];
    uint8_t axes[PPTO_MAX_RANK];
    memcpy(axes, g->domain, sizeof axes);
    return contract_axes(f, id, g, axes, heavy) ? PPTO_OK : PPTO_E_NOMEM;
}

static pp_reason join_heavy(fuser *f, uint32_t id, uint32_t group, const demand *list, pp_heavy *heavy)
{
    pp_group *g = &f->out->groups.at[group];
    pp_reason apart = kept_apart(f, id, group);
    if (!f->optimise) return PP_R_OFF;
    if (apart != PP_R_NONE) return apart;
    if (!has_room(g)) return PP_R_TOO_LARGE;
    pp_imap *map = single_map(f, list, group);
    if (!map) return PP_R_INDEX;
    if (!no_cycle(f, group, list)) return PP_R_CYCLE;
    if (pp_flat_prim(f->flat, id)->kind == PP_P_CONTRACT) return join_contract(f, id, g, map, heavy);
    return join_reduction(f, id, g, map, heavy);
}

static ppto_status place_heavy(fuser *f, uint32_t id, const uint32_t *parts, uint32_t n_parts)
{
    demand *list;
    bool output = false;
    uint32_t home = PP_NONE;
    pp_heavy heavy = {0};
    pp_reason reason = PP_R_SHARED;
    PP_TRY(demands_of_parts(f, id, parts, n_parts, &list));
    for (uint32_t i = 0; i < n_parts; i++) output |= (f->flag[parts[i]] & F_OUTPUT) != 0;
    if (!list && !output) return PPTO_OK;
    for (const demand *d = list; d && home == PP_NONE; d = d->next) {
        reason = d->map ? join_heavy(f, id, d->group, list, &heavy) : (pp_reason)d->why;
        if (reason == PP_R_NONE) home = d->group;
    }
    bool contract = pp_flat_prim(f->flat, id)->kind == PP_P_CONTRACT;
    if (home == PP_NONE && !contract && f->optimise) join_sibling(f, id, list, &home, &heavy);
    if (home == PP_NONE)
        PP_TRY(contract ? contract_group(f, id, &home, &heavy) : reduction_group(f, id, &home, &heavy));
    if (reason == PP_R_NONE) reason = PP_R_SHARED;
    for (uint32_t i = 0; i < n_parts; i++) {
        bool elsewhere = (f->flag[parts[i]] & F_OUTPUT) != 0;
        for (const demand *d = f->demands[parts[i]]; d; d = d->next) elsewhere |= d->group != home || !d->map;
        if (elsewhere) {
            PP_TRY(store_in(f, parts[i], home, heavy.map));
            PP_TRY(readers(f, parts[i], f->demands[parts[i]], home, reason));
        }
    }
    PP_TRY(pp_vec_push(&f->out->groups.at[home].heavies, heavy));
    PP_TRY(add_member(f, home, id));
    const pp_prim *p = pp_flat_prim(f->flat, id);
    for (uint32_t k = 0; k < p->n_operands; k++)
        PP_TRY(push_demand(f, f->flat->operands.at[p->first_operand + k], home,
                           heavy.operand[contract ? k : 0], (uint8_t)(contract ? k + 1 : 0), id, PP_R_NONE));
    return PPTO_OK;
}

/* ---- the walk
 * ------------------------------------------------------------------------------------------------------- */

static ppto_status visit(fuser *f, uint32_t id, const uint32_t *parts, uint32_t n_parts)
{
    const pp_prim *p = pp_flat_prim(f->flat, id);
    demand *list = f->demands[id];
    bool output = (f->flag[id] & F_OUTPUT) != 0;
    if (p->kind == PP_P_CONTRACT) return place_heavy(f, id, &id, 1);
    if (is_heavy(p)) return place_heavy(f, id, parts, n_parts);
    if (p->kind == PP_P_PART || (!list && !output)) return PPTO_OK;
    if (f->flag[id] & F_NUMBER) return output ? store_value(f, id, list, PP_R_OUTPUT) : PPTO_OK;
    if (is_source(p)) {
        bool gathered = false; /* an iota that is gathered from must exist in memory */
        for (const demand *d = list; d && p->kind == PP_P_IOTA; d = d->next) gathered |= !d->map;
        return output || gathered ? store_value(f, id, p->kind == PP_P_INPUT ? NULL : list, PP_R_OUTPUT)
                                  : PPTO_OK;
    }
    if (output) return store_value(f, id, list, PP_R_OUTPUT);
    bool of_numbers = is_view(p) && (f->flag[f->flat->operands.at[p->first_operand]] & F_NUMBER);
    bool readers_only = false;
    for (const demand *d = list; d; d = d->next) readers_only |= !d->map;
    pp_reason why = of_numbers && !readers_only ? PP_R_NONE : why_not_inline(f, id, list);
    return why == PP_R_NONE ? inline_value(f, id, list) : store_value(f, id, list, why);
}

/* PARTs of every heavy prim follow it closely; parts of prim id are gathered in a table. */
static ppto_status walk(fuser *f)
{
    const pp_flat *flat = f->flat;
    size_t n = flat->prims.n;
    uint32_t *next = pp_alloc((n + 1) * sizeof *next), *head = pp_alloc((n + 1) * sizeof *head);
    ppto_status status = next && head ? PPTO_OK : PPTO_E_NOMEM;
    for (size_t i = 0; status == PPTO_OK && i < n; i++) head[i] = PP_NONE;
    for (uint32_t i = 0; status == PPTO_OK && i < n; i++) {
        if (pp_flat_prim(flat, i)->kind != PP_P_PART) continue;
        uint32_t heavy = flat->operands.at[flat->prims.at[i].first_operand];
        next[i] = head[heavy];
        head[heavy] = i;
    }
    for (uint32_t id = (uint32_t)n; status == PPTO_OK && id-- > 0;) {
        uint32_t parts[16], n_parts = 0;
        for (uint32_t p = head[id]; p != PP_NONE && n_parts < 16; p = next[p]) parts[n_parts++] = p;
        status = visit(f, id, parts, n_parts);
    }
    pp_free(next);
    pp_free(head);
    return status;
}

static void sort_ids(uint32_t *at, size_t n)
{
    for (size_t i = 1; i < n; i++) /* nearly sorted, descending: reverse first */
        for (size_t j = i; j > 0 && at[j - 1] > at[j]; j--) {
            uint32_t t = at[j];
            at[j] = at[j - 1];
            at[j - 1] = t;
        }
}
static void sort_roots(pp_root *at, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && at[j - 1].prim > at[j].prim; j--) {
            pp_root t = at[j];
            at[j] = at[j - 1];
            at[j - 1] = t;
        }
}

static void sort_heavies(pp_heavy *at, size_t n)
{
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j > 0 && at[j - 1].prim > at[j].prim; j--) {
            pp_heavy t = at[j];
            at[j] = at[j - 1];
            at[j - 1] = t;
        }
}

/* Groups in an order in which everything a group needs comes before it; ties by the first prim. */
static ppto_status order_groups(fuser *f)
{
    size_t n = f->out->groups.n;
    uint32_t *place = pp_calloc(n + 1, sizeof *place), *stack = pp_alloc((n + 1) * sizeof *stack);
    size_t *at = pp_calloc(n + 1, sizeof *at);
    pp_group *sorted = pp_alloc((n + 1) * sizeof *sorted);
    uint32_t done = 0;
    ppto_status status = place && stack && at && sorted ? PPTO_OK : PPTO_E_NOMEM;
    enum { ACTIVE = 0x80000000u };
    for (size_t i = n; status == PPTO_OK && i-- > 0;) { /* groups were made consumers first */
        uint32_t depth = 0;
        if (place[i]) continue;
        stack[depth++] = (uint32_t)i;
        place[i] = ACTIVE;
        while (depth) {
            uint32_t g = stack[depth - 1];
            pp_group *group = &f->out->groups.at[g];
            if (at[g] < group->needs.n) {
                uint32_t need = group->needs.at[at[g]++];
                if (!place[need]) place[need] = ACTIVE, stack[depth++] = need;
                continue;
            }
            place[g] = done + 1;
            sorted[done++] = *group;
            depth--;
        }
    }
    for (size_t i = 0; status == PPTO_OK && i < n; i++) {
        for (size_t k = 0; k < sorted[i].needs.n; k++) {
            sorted[i].needs.at[k] = place[sorted[i].needs.at[k]] - 1;
            if (sorted[i].needs.at[k] >= i) status = PPTO_E_INTERNAL;
        }
        sort_ids(sorted[i].needs.at, sorted[i].needs.n);
        sort_ids(sorted[i].members.at, sorted[i].members.n);
        sort_roots(sorted[i].roots.at, sorted[i].roots.n);
        sort_heavies(sorted[i].heavies.at, sorted[i].heavies.n);
    }
    if (status == PPTO_OK || status == PPTO_E_INTERNAL) {
        memcpy(f->out->groups.at, sorted, n * sizeof *sorted);
        for (size_t p = 0; p < f->flat->prims.n; p++)
            if (f->out->stored_in[p] != PP_NONE) f->out->stored_in[p] = place[f->out->stored_in[p]] - 1;
    }
    pp_free(place);
    pp_free(stack);
    pp_free(at);
    pp_free(sorted);
    return status;
}

ppto_status pp_fuse(const pp_flat *flat, bool optimise, pp_fused *out)
{
    size_t n = flat->prims.n;
    memset(out, 0, sizeof *out);
    fuser f = {.flat = flat, .out = out, .optimise = optimise};
    out->stored_in = pp_alloc((n + 1) * sizeof *out->stored_in);
    out->result = pp_calloc(n + 1, 1);
    out->number = pp_calloc(n + 1, 1);
    f.demands = pp_calloc(n + 1, sizeof *f.demands);
    f.flag = pp_calloc(n + 1, 1);
    f.cost = pp_calloc(n + 1, sizeof *f.cost);
    ppto_status status = out->stored_in && out->result && out->number && f.demands && f.flag && f.cost
                             ? PPTO_OK
                             : PPTO_E_NOMEM;
    if (status == PPTO_OK) {
        for (size_t i = 0; i < n; i++) out->stored_in[i] = PP_NONE;
        for (size_t i = 0; i < flat->outputs.n; i++) {
            f.flag[flat->outputs.at[i]] |= F_OUTPUT;
            out->result[flat->outputs.at[i]] = 1;
        }
        measure(&f);
        status = walk(&f);
    }
    if (status == PPTO_OK) status = order_groups(&f);
    if (status == PPTO_OK) status = pp_sizes_status(pp_types_sizes(flat->types));
    pp_free(f.demands);
    pp_free(f.flag);
    pp_free(f.cost);
    pp_free(f.stamp);
    pp_vec_free(&f.kinds);
    return status;
}

void pp_fused_free(pp_fused *fused)
{
    for (size_t i = 0; i < fused->groups.n; i++) {
        pp_group *g = &fused->groups.at[i];
        pp_vec_free(&g->roots);
        pp_vec_free(&g->heavies);
        pp_vec_free(&g->members);
        pp_vec_free(&g->needs);
    }
    pp_vec_free(&fused->groups);
    pp_vec_free(&fused->missed);
    pp_free(fused->stored_in);
    pp_free(fused->result);
    pp_free(fused->number);
    pp_arena_free(&fused->arena);
    memset(fused, 0, sizeof *fused);
}
