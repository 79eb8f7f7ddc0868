/* SPDX-License-Identifier: Apache-2.0
 * Values between two products. What a factor needs is computed where it is needed, for every tile of the
 * product anew. Where it is made of another product, which is stored in any case, it may as well be stored in
 * that product's place: computed once while the tile is hot, and read by the factor as it lies. So a value is
 * stored if some product of the same dims, no narrower than it, is used for nothing but this value. */
#include "graph/fuse_parts.h"

enum { MOST_CONE = 48 };

typedef struct cone { /* what a value is made of, back to products and sources; the last is the value */
    uint32_t id[MOST_CONE], n;
} cone;

static uint32_t find(const cone *c, uint32_t id)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (c->id[i] == id) return i;
    return PP_NONE;
}

/* Keeps the ids ascending. False: too many. */
static bool insert(cone *c, uint32_t id)
{
    if (find(c, id) != PP_NONE) return true;
    if (c->n == MOST_CONE) return false;
    uint32_t at = c->n++;
    for (; at > 0 && c->id[at - 1] > id; at--) c->id[at] = c->id[at - 1];
    c->id[at] = id;
    return true;
}

static bool ends_cone(const pp_prim *p)
{
    return p->kind == PP_P_CONTRACT || pp_prim_is_source(p);
}

/* Goes down from the highest id to the lowest: operands have lower ids. */
static bool collect(const pp_fuser *f, uint32_t id, cone *c)
{
    uint32_t below = PP_NONE;
    *c = (cone){.n = 0};
    if (!insert(c, id)) return false;
    for (;;) {
        uint32_t next = PP_NONE;
        for (uint32_t i = 0; i < c->n; i++)
            if (c->id[i] < below) next = c->id[i];
        if (next == PP_NONE) return true;
        below = next;
        const pp_prim *p = pp_flat_prim(f->flat, next);
        for (uint32_t k = 0; k < p->n_operands && !ends_cone(p); k++)
            if (!insert(c, pp_flat_operands(f->flat, next)[k])) return false;
    }
}

static bool same_place(const pp_fuser *f, uint32_t product, uint32_t value)
{
    const pp_type *a = pp_flat_type(f->flat, product), *b = pp_flat_type(f->flat, value);
    const pp_prim *p = pp_flat_prim(f->flat, product), *v = pp_flat_prim(f->flat, value);
    if (p->stream != v->stream || p->level != v->level || a->rank != b->rank) return false;
    for (uint32_t d = 0; d < a->rank; d++)
        if (a->dim[d] != b->dim[d]) return false;
    return ppto_dtype_size(a->dtype) >= ppto_dtype_size(b->dtype);
}

/* Is everything made of the product used for the value alone? */
static bool only_for(const pp_fuser *f, const cone *c, uint32_t product)
{
    bool made[MOST_CONE] = {false};
    uint32_t seen[MOST_CONE] = {0};
    for (uint32_t i = product; i < c->n; i++) {
        const pp_prim *p = pp_flat_prim(f->flat, c->id[i]);
        made[i] = i == product;
        for (uint32_t k = 0; k < p->n_operands && i != product && !ends_cone(p); k++) {
            const uint32_t at = find(c, pp_flat_operands(f->flat, c->id[i])[k]);
            made[i] |= made[at];
            seen[at]++;
        }
    }
    for (uint32_t i = product; i + 1 < c->n; i++)
        if (made[i] && (seen[i] != f->uses[c->id[i]] || (f->flag[c->id[i]] & PP_FUSE_OUTPUT))) return false;
    return true;
}

bool pp_fuse_replaces_product(const pp_fuser *f, uint32_t id, const pp_demand *list)
{
    cone c;
    if (pp_flat_prim(f->flat, id)->kind != PP_P_MAP) return false;
    for (const pp_demand *d = list; d; d = d->next)
        if (!d->side) return false;
    if (!list || !collect(f, id, &c)) return false;
    for (uint32_t i = 0; i + 1 < c.n; i++)
        if (pp_flat_prim(f->flat, c.id[i])->kind == PP_P_CONTRACT && same_place(f, c.id[i], id) &&
            only_for(f, &c, i))
            return true;
    return false;
}
