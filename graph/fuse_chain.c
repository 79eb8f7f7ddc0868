/* SPDX-License-Identifier: Apache-2.0
 * Chains: groups that follow one another row by row, a product among them, become one kernel, so that an
 * executor may keep what passes between them in cache. What attention is (product, softmax, product) follows
 * without a rule that names it.
 *
 * The rows of a group are its outer axes in order, those of a product batch and m. A group joins the only one
 * that reads what it stores, when every value between them has the rows of both as its first dims: then the
 * rows [i, j) of one need only the rows [i, j) of the other. Since nobody else waits for the group, the two
 * cannot come to wait for each other. The parts stay what they were, and so do the bits. */
#include <string.h>

#include "graph/fuse_parts.h"

enum { NO_LINK = UINT32_MAX };

typedef struct chainer {
    pp_fuser *f;
    uint32_t *next;  /* per group: the one it joins, NO_LINK */
    uint32_t *parts; /* per group that joins none: groups that come to it, itself among them */
    uint32_t
        *member; /* per group that joins none: the first of the groups that come to it; of each of these */
} chainer;       /* the next, NO_LINK */

/* ---- rows -------------------------------------------------------------------------------------- */

static bool has_rows(const pp_group *g)
{
    return g->frame == PP_FRAME_CONTRACT || g->frame == PP_FRAME_LANES;
}

static uint32_t list_rows(const pp_fuser *f, const pp_group *g, uint8_t *rows)
{
    static const uint8_t roles[] = {PP_AXIS_OUTER, PP_AXIS_BATCH, PP_AXIS_M};
    uint32_t n = 0;
    for (size_t r = 0; r < sizeof roles; r++)
        for (uint32_t i = 0; i < g->axes.n_order; i++) {
            uint8_t axis = g->axes.order[i];
            if (g->role[axis] == roles[r] && !pp_fuse_is_one(f, g->axes.size[axis])) rows[n++] = axis;
        }
    return n;
}

static bool moves_with(const pp_iexpr *e, const uint8_t *rows, uint32_t n)
{
    for (uint32_t t = 0; t < e->n; t++)
        for (uint32_t i = 0; i < n; i++)
            if (e->term[t].axis == rows[i]) return true;
    return false;
}

/* Do the first dims run along the rows of the group, one by one, and no other dim along any? How many? */
static bool along_rows(pp_fuser *f, pp_group *g, const pp_type *type, const pp_imap *given, uint8_t *n_dims)
{
    uint8_t rows[PP_FRAME_MAX_AXES], axis;
    const uint32_t n = list_rows(f, g, rows);
    uint32_t d = 0, at = 0;
    pp_index ix = pp_group_index(f, g);
    const pp_imap *map = pp_index_normal(&ix, given);
    if (!map) return false;
    for (; d < type->rank && at < n; d++) {
        if (pp_fuse_is_one(f, type->dim[d]) && map->dim[d].n == 0) continue;
        if (!pp_index_is_axis(&ix, &map->dim[d], type->dim[d], &axis) || axis != rows[at++]) return false;
    }
    *n_dims = (uint8_t)d;
    for (; d < type->rank; d++)
        if (moves_with(&map->dim[d], rows, n)) return false;
    return at == n;
}

/* ---- which group joins which ------------------------------------------------------------------- */

static bool checks(const pp_fuser *f, const pp_group *g)
{
    for (size_t m = 0; m < g->members.n; m++)
        if (pp_flat_prim(f->flat, g->members.at[m])->kind == PP_P_CHECK) return true;
    return false;
}

/* The one group that reads the root from memory; NO_LINK: none. False: several do. */
static bool only_reader(const pp_fuser *f, uint32_t prim, uint32_t home, uint32_t *reader)
{
    *reader = NO_LINK;
    for (const pp_demand *d = f->demands[prim]; d; d = d->next) {
        if (d->group == home && d->map) continue;
        if (*reader != NO_LINK && *reader != d->group) return false;
        *reader = d->group;
    }
    return true;
}

/* The root passes from group to group by rows. */
static bool passes(pp_fuser *f, const pp_root *root, uint32_t from, uint32_t to, uint8_t *n_dims)
{
    const pp_type *type = pp_flat_type(f->flat, root->prim);
    uint8_t read_along;
    if (!along_rows(f, &f->out->groups.at[from], type, root->map, n_dims)) return false;
    for (const pp_demand *d = f->demands[root->prim]; d; d = d->next) {
        if (d->group != to) continue;
        if (!d->map || !along_rows(f, &f->out->groups.at[to], type, d->map, &read_along)) return false;
        if (read_along != *n_dims) return false;
    }
    return true;
}

/* The group that this one may join; NO_LINK: none. */
static uint32_t find_link(const chainer *c, uint32_t g)
{
    pp_fuser *f = c->f;
    const pp_group *group = &f->out->groups.at[g];
    uint32_t to = NO_LINK, reader;
    uint8_t n_dims;
    if (!has_rows(group) || checks(f, group)) return NO_LINK;
    for (size_t i = 0; i < group->roots.n; i++) {
        const pp_root *root = &group->roots.at[i];
        if (!only_reader(f, root->prim, g, &reader)) return NO_LINK;
        if (reader == NO_LINK) continue;
        if ((f->flag[root->prim] & PP_FUSE_OUTPUT) || (to != NO_LINK && to != reader)) return NO_LINK;
        to = reader;
        const pp_group *target = &f->out->groups.at[to];
        if (!has_rows(target) || checks(f, target) || !passes(f, root, g, to, &n_dims)) return NO_LINK;
        if (pp_group_apart(f, root->prim, to) != PP_R_NONE) return NO_LINK;
        if (group->frame != PP_FRAME_CONTRACT && target->frame != PP_FRAME_CONTRACT) return NO_LINK;
    }
    return to;
}

static uint32_t end_of(const chainer *c, uint32_t g)
{
    while (c->next[g] != NO_LINK) g = c->next[g];
    return g;
}

static void link_groups(const chainer *c)
{
    const uint32_t n = (uint32_t)c->f->out->groups.n;
    for (uint32_t g = 0; g < n; g++) c->next[g] = NO_LINK, c->parts[g] = 1;
    for (uint32_t g = 0; g < n; g++) {
        const uint32_t to = find_link(c, g);
        if (to == NO_LINK) continue;
        const uint32_t end = end_of(c, to);
        if (end == g || c->parts[end] + c->parts[g] > PP_MOST_PARTS) continue;
        c->next[g] = to;
        c->parts[end] += c->parts[g];
    }
}

/* ---- one group of them ------------------------------------------------------------------------- */

#define APPEND(list, from)                                                                                   \
    do {                                                                                                     \
        for (size_t i_ = 0; i_ < (from).n; i_++) PP_TRY(pp_vec_push(&(list), (from).at[i_]));                \
    } while (0)

/* A value that several parts compute is a member of the chain once. */
static ppto_status add_members(pp_group *chain, const pp_group *part)
{
    for (size_t i = 0; i < part->members.n; i++) {
        size_t k = 0;
        while (k < chain->members.n && chain->members.at[k] != part->members.at[i]) k++;
        if (k == chain->members.n) PP_TRY(pp_vec_push(&chain->members, part->members.at[i]));
    }
    return PPTO_OK;
}

/* What the part stores for others stays a root; the rest is a local. */
static ppto_status add_roots(pp_fuser *f, pp_group *chain, uint32_t id, const pp_group *part, uint32_t from,
                             uint32_t to)
{
    for (size_t i = 0; i < part->roots.n; i++) {
        const pp_root *root = &part->roots.at[i];
        uint32_t reader;
        uint8_t n_dims = 0;
        f->out->stored_in[root->prim] = id;
        (void)only_reader(f, root->prim, from, &reader);
        if (to == NO_LINK || reader == NO_LINK) {
            PP_TRY(pp_vec_push(&chain->roots, *root));
            continue;
        }
        (void)passes(f, root, from, to, &n_dims);
        PP_TRY(pp_vec_push(&chain->locals, ((pp_group_local){root->prim, n_dims})));
    }
    return PPTO_OK;
}

static ppto_status add_part(const chainer *c, pp_group *chain, uint32_t end, uint32_t g)
{
    pp_group *part = &c->f->out->groups.at[g];
    PP_TRY(add_members(chain, part));
    APPEND(chain->heavies, part->heavies);
    for (size_t i = 0; i < part->needs.n; i++) {
        const uint32_t need = part->needs.at[i];
        if (c->next[need] == NO_LINK) PP_TRY(pp_vec_push(&chain->needs, need));
    }
    chain->leaves += part->leaves;
    return add_roots(c->f, chain, end, part, g, c->next[g]);
}

static uint32_t steps_to_end(const chainer *c, uint32_t g)
{
    uint32_t n = 0;
    for (; c->next[g] != NO_LINK; n++) g = c->next[g];
    return n;
}

static void list_members(const chainer *c)
{
    const uint32_t n = (uint32_t)c->f->out->groups.n;
    for (uint32_t g = 0; g < n; g++) c->member[g] = NO_LINK;
    for (uint32_t g = 0; g < n; g++) {
        if (c->next[g] == NO_LINK) continue;
        const uint32_t end = end_of(c, g);
        c->member[g] = c->member[end];
        c->member[end] = g;
    }
}

static void free_lists(pp_group *chain)
{
    pp_vec_free(&chain->roots);
    pp_vec_free(&chain->heavies);
    pp_vec_free(&chain->members);
    pp_vec_free(&chain->needs);
    pp_vec_free(&chain->locals);
}

/* Fills the chain with the groups that come to `end`, the farthest first, and `end` itself. */
static ppto_status gather_parts(const chainer *c, uint32_t end, pp_group *chain)
{
    for (uint32_t steps = PP_MOST_PARTS; steps-- > 0;)
        for (uint32_t g = end; g != NO_LINK; g = c->member[g]) {
            if (steps_to_end(c, g) != steps) continue;
            PP_TRY(add_part(c, chain, end, g));
            chain->parts[chain->n_parts++] = c->f->out->groups.at[g];
        }
    return PPTO_OK;
}

/* The group `end` becomes the chain. */
static ppto_status make_chain(const chainer *c, uint32_t end)
{
    pp_group *groups = c->f->out->groups.at;
    const pp_group *last = &groups[end];
    pp_group chain = {.frame = PP_FRAME_CHAIN,
                      .stream = last->stream,
                      .level = last->level,
                      .axes = last->axes,
                      .n_inner = last->n_inner,
                      .n_domain = last->n_domain};
    memcpy(chain.role, last->role, sizeof chain.role);
    memcpy(chain.inner, last->inner, sizeof chain.inner);
    memcpy(chain.domain, last->domain, sizeof chain.domain);
    chain.parts = pp_arena_alloc(&c->f->out->arena, c->parts[end] * sizeof *chain.parts);
    ppto_status status = chain.parts ? gather_parts(c, end, &chain) : PPTO_E_NOMEM;
    if (status != PPTO_OK) { /* the parts are still where they were */
        free_lists(&chain);
        return status;
    }
    for (uint32_t g = c->member[end]; g != NO_LINK; g = c->member[g])
        groups[g] = (pp_group){.absorbed = true};
    groups[end] = chain;
    return PPTO_OK;
}

static bool is_local(const pp_fused *out, uint32_t prim)
{
    if (out->stored_in[prim] == PP_NONE) return false;
    const pp_group *g = &out->groups.at[out->stored_in[prim]];
    for (size_t i = 0; i < g->locals.n; i++)
        if (g->locals.at[i].prim == prim) return true;
    return false;
}

/* Values that stay inside a chain did merge. */
static void drop_missed(pp_fused *out)
{
    size_t n = 0;
    for (size_t i = 0; i < out->missed.n; i++)
        if (!is_local(out, out->missed.at[i].producer)) out->missed.at[n++] = out->missed.at[i];
    out->missed.n = n;
}

ppto_status pp_fuse_chains(pp_fuser *f)
{
    const size_t n = f->out->groups.n;
    chainer c = {.f = f,
                 .next = pp_alloc((n + 1) * sizeof *c.next),
                 .parts = pp_alloc((n + 1) * sizeof *c.parts),
                 .member = pp_alloc((n + 1) * sizeof *c.member)};
    ppto_status status = c.next && c.parts && c.member ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) {
        link_groups(&c);
        list_members(&c);
    }
    for (uint32_t g = 0; status == PPTO_OK && g < n; g++)
        if (c.next[g] == NO_LINK && c.parts[g] > 1) status = make_chain(&c, g);
    if (status == PPTO_OK) drop_missed(f->out);
    pp_free(c.next);
    pp_free(c.parts);
    pp_free(c.member);
    return status;
}
