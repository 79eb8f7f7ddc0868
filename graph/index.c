/* SPDX-License-Identifier: Apache-2.0
 * Index maps through views. Start reading at pp_index_through. */
#include "graph/index.h"

#include <string.h>

static pp_sizes *sizes_of(pp_index *ix)
{
    return pp_types_sizes(ix->types);
}

uint32_t pp_axes_add(pp_axes *axes, pp_size size)
{
    if (axes->n == PP_FRAME_MAX_AXES) return PP_NONE;
    axes->size[axes->n] = size;
    axes->first_child[axes->n] = 0;
    axes->n_children[axes->n] = 0;
    axes->order[axes->n_order++] = (uint8_t)axes->n;
    return axes->n++;
}

/* Replaces leaf `axis` by n leaves of the given sizes, at its place in the order. */
static bool split_axis(pp_axes *axes, uint8_t axis, const pp_size *size, uint32_t n)
{
    if (axes->n + n > PP_FRAME_MAX_AXES) return false;
    uint32_t at = 0;
    while (axes->order[at] != axis) at++;
    memmove(axes->order + at + n, axes->order + at + 1, axes->n_order - at - 1);
    axes->first_child[axis] = (uint8_t)axes->n;
    axes->n_children[axis] = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++) {
        axes->size[axes->n] = size[i];
        axes->first_child[axes->n] = 0;
        axes->n_children[axes->n] = 0;
        axes->order[at + i] = (uint8_t)axes->n++;
    }
    axes->n_order += n - 1;
    return true;
}

static pp_imap *new_map(pp_index *ix, uint32_t rank, uint32_t guards)
{
    pp_imap *map = pp_arena_alloc(ix->arena, sizeof *map);
    if (!map) return NULL;
    map->rank = rank;
    map->n_guards = guards;
    map->dim = pp_arena_alloc(ix->arena, (rank + 1) * sizeof *map->dim);
    map->guard = pp_arena_alloc(ix->arena, (guards + 1) * sizeof *map->guard);
    return map->dim && map->guard ? map : NULL;
}

pp_imap *pp_index_plain(pp_index *ix, const uint8_t *axes, uint32_t rank)
{
    pp_imap *map = new_map(ix, rank, 0);
    for (uint32_t i = 0; map && i < rank; i++) {
        map->dim[i].term = pp_arena_alloc(ix->arena, sizeof(pp_iterm));
        if (!map->dim[i].term) return NULL;
        map->dim[i].n = 1;
        map->dim[i].term[0] = (pp_iterm){axes[i], PP_SIZE_1};
    }
    return map;
}

/* e += scale * term, with split axes replaced by their children. e->term has room. */
static void add_term(pp_index *ix, pp_iexpr *e, uint8_t axis, pp_size coef)
{
    pp_sizes *sizes = sizes_of(ix);
    if (ix->axes->n_children[axis]) {
        pp_size inner = coef;
        for (uint32_t i = ix->axes->n_children[axis]; i-- > 0;) {
            uint8_t child = (uint8_t)(ix->axes->first_child[axis] + i);
            add_term(ix, e, child, inner);
            inner = pp_size_mul(sizes, inner, ix->axes->size[child]);
        }
        return;
    }
    uint32_t at = 0;
    while (at < e->n && e->term[at].axis < axis) at++;
    if (at < e->n && e->term[at].axis == axis) {
        e->term[at].coef = pp_size_add(sizes, e->term[at].coef, coef);
        if (e->term[at].coef == PP_SIZE_0) {
            memmove(e->term + at, e->term + at + 1, (e->n - at - 1) * sizeof *e->term);
            e->n--;
        }
        return;
    }
    if (coef == PP_SIZE_0) return;
    memmove(e->term + at + 1, e->term + at, (e->n - at) * sizeof *e->term);
    e->term[at] = (pp_iterm){axis, coef};
    e->n++;
}

static bool start_expr(pp_index *ix, pp_iexpr *e, pp_size base)
{
    e->base = base;
    e->n = 0;
    e->term = pp_arena_alloc(ix->arena, PP_FRAME_MAX_AXES * sizeof *e->term);
    return e->term != NULL;
}

static void add_scaled(pp_index *ix, pp_iexpr *e, const pp_iexpr *x, pp_size scale)
{
    pp_sizes *sizes = sizes_of(ix);
    e->base = pp_size_add(sizes, e->base, pp_size_mul(sizes, x->base, scale));
    for (uint32_t i = 0; i < x->n; i++)
        add_term(ix, e, x->term[i].axis, pp_size_mul(sizes, x->term[i].coef, scale));
}

static bool expr_is_normal(pp_index *ix, const pp_iexpr *e)
{
    for (uint32_t i = 0; i < e->n; i++)
        if (ix->axes->n_children[e->term[i].axis]) return false;
    return true;
}

static bool normal_expr(pp_index *ix, const pp_iexpr *e, pp_iexpr *out)
{
    if (expr_is_normal(ix, e)) {
        *out = *e;
        return true;
    }
    if (!start_expr(ix, out, PP_SIZE_0)) return false;
    add_scaled(ix, out, e, PP_SIZE_1);
    return true;
}

pp_imap *pp_index_normal(pp_index *ix, const pp_imap *map)
{
    pp_imap *out = new_map(ix, map->rank, map->n_guards);
    for (uint32_t i = 0; out && i < map->rank; i++)
        if (!normal_expr(ix, &map->dim[i], &out->dim[i])) return NULL;
    for (uint32_t i = 0; out && i < map->n_guards; i++) {
        out->guard[i] = map->guard[i];
        if (!normal_expr(ix, &map->guard[i].e, &out->guard[i].e)) return NULL;
    }
    return out;
}

static bool expr_equal(const pp_iexpr *a, const pp_iexpr *b)
{
    if (a->base != b->base || a->n != b->n) return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (a->term[i].axis != b->term[i].axis || a->term[i].coef != b->term[i].coef) return false;
    return true;
}

bool pp_index_equal(const pp_imap *a, const pp_imap *b)
{
    if (a->rank != b->rank || a->n_guards != b->n_guards) return false;
    for (uint32_t i = 0; i < a->rank; i++)
        if (!expr_equal(&a->dim[i], &b->dim[i])) return false;
    for (uint32_t i = 0; i < a->n_guards; i++)
        if (!expr_equal(&a->guard[i].e, &b->guard[i].e) || a->guard[i].lo != b->guard[i].lo ||
            a->guard[i].hi != b->guard[i].hi)
            return false;
    return true;
}

bool pp_index_is_axis(pp_index *ix, const pp_iexpr *e, pp_size size, uint8_t *axis)
{
    if (e->base != PP_SIZE_0 || e->n != 1 || e->term[0].coef != PP_SIZE_1) return false;
    *axis = e->term[0].axis;
    return ix->axes->n_children[*axis] == 0 && ix->axes->size[*axis] == size;
}

static bool is_one(pp_index *ix, pp_size size)
{
    int64_t value;
    return pp_size_known(sizes_of(ix), size, &value) && value == 1;
}

/* The reverse of a merge: e is the row-major index over axes that make up the operand dims one by one; a dim
 * may be several axes (it was split itself), innermost first. */
static pp_through unmerge(pp_index *ix, const pp_type *from, const pp_iexpr *e, uint32_t i0, uint32_t i1,
                          pp_imap *out)
{
    pp_sizes *sizes = sizes_of(ix);
    pp_size scale = PP_SIZE_1;
    uint32_t used = 0;
    if (e->base != PP_SIZE_0) return PP_THROUGH_RESHAPE;
    for (uint32_t i = i1; i-- > i0;) {
        pp_size covered = PP_SIZE_1;
        if (!start_expr(ix, &out->dim[i], PP_SIZE_0)) return PP_THROUGH_NOMEM;
        while (covered != from->dim[i]) {
            pp_size coef = pp_size_mul(sizes, scale, covered);
            uint32_t t = 0;
            while (t < e->n && (e->term[t].coef != coef || is_one(ix, ix->axes->size[e->term[t].axis]))) t++;
            if (t == e->n) return PP_THROUGH_RESHAPE;
            add_term(ix, &out->dim[i], e->term[t].axis, covered);
            covered = pp_size_mul(sizes, covered, ix->axes->size[e->term[t].axis]);
            used++;
        }
        scale = pp_size_mul(sizes, scale, from->dim[i]);
    }
    uint32_t ones = 0;
    for (uint32_t t = 0; t < e->n; t++) ones += is_one(ix, ix->axes->size[e->term[t].axis]);
    return used + ones == e->n ? PP_THROUGH_OK : PP_THROUGH_RESHAPE;
}

/* One block of a reshape: result dims [j0, j1) against operand dims [i0, i1), products equal. */
static pp_through reshape_block(pp_index *ix, const pp_type *from, const pp_type *to, const pp_imap *map,
                                uint32_t i0, uint32_t i1, uint32_t j0, uint32_t j1, pp_imap *out)
{
    pp_sizes *sizes = sizes_of(ix);
    if (i1 - i0 <= 1) { /* merge: row-major index over the result dims */
        if (i1 == i0) return PP_THROUGH_OK;
        pp_size scale = PP_SIZE_1;
        if (j1 - j0 == 1) {
            out->dim[i0] = map->dim[j0];
            return PP_THROUGH_OK;
        }
        if (!start_expr(ix, &out->dim[i0], PP_SIZE_0)) return PP_THROUGH_NOMEM;
        for (uint32_t j = j1; j-- > j0;) {
            add_scaled(ix, &out->dim[i0], &map->dim[j], scale);
            scale = pp_size_mul(sizes, scale, to->dim[j]);
        }
        return PP_THROUGH_OK;
    }
    uint8_t axis;
    if (j1 - j0 != 1) return PP_THROUGH_RESHAPE;
    if (!pp_index_is_axis(ix, &map->dim[j0], to->dim[j0], &axis))
        return unmerge(ix, from, &map->dim[j0], i0, i1, out);
    if (!ix->may_split || !split_axis(ix->axes, axis, from->dim + i0, i1 - i0)) return PP_THROUGH_RESHAPE;
    for (uint32_t i = i0; i < i1; i++) {
        if (!start_expr(ix, &out->dim[i], PP_SIZE_0)) return PP_THROUGH_NOMEM;
        add_term(ix, &out->dim[i], (uint8_t)(ix->axes->first_child[axis] + i - i0), PP_SIZE_1);
    }
    return PP_THROUGH_OK;
}

/* No element at all: no index is ever asked for, so any will do. */
static bool is_empty(const pp_type *type)
{
    bool empty = false;
    for (uint32_t i = 0; i < type->rank; i++) empty = empty || type->dim[i] == PP_SIZE_0;
    return empty;
}

/* Blocks of dims with equal products, sizes of 1 skipped. */
static pp_through through_reshape(pp_index *ix, const pp_type *from, const pp_type *to, const pp_imap *map,
                                  pp_imap *out)
{
    pp_sizes *sizes = sizes_of(ix);
    uint8_t a[PPTO_MAX_RANK], b[PPTO_MAX_RANK];
    uint32_t na = 0, nb = 0;
    pp_type squeezed_from = *from, squeezed_to = *to;
    pp_imap *dense = new_map(ix, to->rank, 0), *result = new_map(ix, from->rank, 0);
    if (!dense || !result) return PP_THROUGH_NOMEM;
    if (is_empty(to)) {
        for (uint32_t i = 0; i < from->rank; i++)
            if (!start_expr(ix, &out->dim[i], PP_SIZE_0)) return PP_THROUGH_NOMEM;
        return PP_THROUGH_OK;
    }
    for (uint32_t i = 0; i < from->rank; i++)
        if (!is_one(ix, from->dim[i])) squeezed_from.dim[na] = from->dim[i], a[na++] = (uint8_t)i;
    for (uint32_t j = 0; j < to->rank; j++)
        if (!is_one(ix, to->dim[j]))
            dense->dim[nb] = map->dim[j], squeezed_to.dim[nb] = to->dim[j], b[nb++] = (uint8_t)j;
    (void)b;
    uint32_t i = 0, j = 0;
    while (i < na || j < nb) {
        uint32_t i0 = i, j0 = j;
        if (i == na || j == nb) return PP_THROUGH_RESHAPE;
        pp_size p = squeezed_from.dim[i++], q = squeezed_to.dim[j++];
        while (p != q) {
            int less = pp_size_is_le(sizes, p, q);
            if (less == 1 && i < na)
                p = pp_size_mul(sizes, p, squeezed_from.dim[i++]);
            else if (less == 0 && j < nb)
                q = pp_size_mul(sizes, q, squeezed_to.dim[j++]);
            else if (less < 0 && j < nb && i == na)
                q = pp_size_mul(sizes, q, squeezed_to.dim[j++]);
            else if (less < 0 && i < na && j == nb)
                p = pp_size_mul(sizes, p, squeezed_from.dim[i++]);
            else if (less < 0 && nb > na && j < nb)
                q = pp_size_mul(sizes, q, squeezed_to.dim[j++]);
            else if (less < 0 && i < na)
                p = pp_size_mul(sizes, p, squeezed_from.dim[i++]);
            else
                return PP_THROUGH_RESHAPE;
        }
        pp_through status = reshape_block(ix, &squeezed_from, &squeezed_to, dense, i0, i, j0, j, result);
        if (status != PP_THROUGH_OK) return status;
    }
    for (uint32_t k = 0; k < na; k++) out->dim[a[k]] = result->dim[k];
    return PP_THROUGH_OK;
}

static pp_imap *with_guard(pp_index *ix, const pp_imap *map, uint32_t axis, pp_size lo, pp_size hi)
{
    pp_imap *out = new_map(ix, map->rank, map->n_guards + 1);
    if (!out) return NULL;
    memcpy(out->dim, map->dim, map->rank * sizeof *map->dim);
    memcpy(out->guard, map->guard, map->n_guards * sizeof *map->guard);
    out->guard[map->n_guards] = (pp_iguard){map->dim[axis], lo, hi};
    out->dim[axis].base = pp_size_sub(sizes_of(ix), map->dim[axis].base, lo);
    return out;
}

static pp_through through_gather(pp_index *ix, const pp_flat *flat, const pp_prim *prim, const pp_imap *map,
                                 pp_imap **out)
{
    const pp_type *idx = pp_flat_type(flat, flat->operands.at[prim->first_operand + 1]);
    *out = new_map(ix, idx->rank, map->n_guards);
    if (!*out) return PP_THROUGH_NOMEM;
    memcpy((*out)->dim, map->dim + prim->axis, idx->rank * sizeof *map->dim);
    memcpy((*out)->guard, map->guard, map->n_guards * sizeof *map->guard);
    return PP_THROUGH_OK;
}

pp_through pp_index_through(pp_index *ix, const pp_flat *flat, uint32_t id, const pp_imap *given,
                            uint32_t which, pp_imap **out)
{
    const pp_prim *prim = pp_flat_prim(flat, id);
    const pp_type *from = pp_flat_type(flat, flat->operands.at[prim->first_operand + which]);
    const pp_type *to = pp_flat_type(flat, id);
    pp_sizes *sizes = sizes_of(ix);
    pp_imap *map = pp_index_normal(ix, given);
    if (!map) return PP_THROUGH_NOMEM;
    if (prim->kind == PP_P_GATHER && which == 1) return through_gather(ix, flat, prim, map, out);
    if (prim->kind == PP_P_CONCAT) {
        pp_size lo = PP_SIZE_0;
        for (uint32_t i = 0; i < which; i++)
            lo = pp_size_add(sizes, lo,
                             pp_flat_type(flat, flat->operands.at[prim->first_operand + i])->dim[prim->axis]);
        *out = with_guard(ix, map, prim->axis, lo, pp_size_add(sizes, lo, from->dim[prim->axis]));
        return *out ? PP_THROUGH_OK : PP_THROUGH_NOMEM;
    }
    if (prim->kind == PP_P_PAD && which == 0) {
        pp_size hi = pp_size_add(sizes, prim->u.before, from->dim[prim->axis]);
        *out = with_guard(ix, map, prim->axis, prim->u.before, hi);
        return *out ? PP_THROUGH_OK : PP_THROUGH_NOMEM;
    }
    pp_imap *result = new_map(ix, from->rank, map->n_guards);
    if (!result) return PP_THROUGH_NOMEM;
    memcpy(result->guard, map->guard, map->n_guards * sizeof *map->guard);
    *out = result;
    switch (prim->kind) {
    case PP_P_PERMUTE:
        for (uint32_t i = 0; i < to->rank; i++) result->dim[prim->u.axes[i]] = map->dim[i];
        return PP_THROUGH_OK;
    case PP_P_BROADCAST:
        for (uint32_t i = 0; i < from->rank; i++) {
            uint32_t j = to->rank - from->rank + i;
            if (from->dim[i] == to->dim[j]) result->dim[i] = map->dim[j];
        }
        return PP_THROUGH_OK;
    case PP_P_SLICE:
        memcpy(result->dim, map->dim, map->rank * sizeof *map->dim);
        if (!start_expr(ix, &result->dim[prim->axis], prim->u.slice.start)) return PP_THROUGH_NOMEM;
        add_scaled(ix, &result->dim[prim->axis], &map->dim[prim->axis],
                   pp_size_const(sizes, prim->u.slice.step));
        return PP_THROUGH_OK;
    case PP_P_RESHAPE: {
        pp_through status = through_reshape(ix, from, to, map, result);
        if (status == PP_THROUGH_OK &&
            result->n_guards) { /* a split may have touched the axes of the guards */
            pp_imap *normal = pp_index_normal(ix, result);
            if (!normal) return PP_THROUGH_NOMEM;
            *out = normal;
        }
        return status;
    }
    case PP_P_PAD: /* the value: rank 0 */ return PP_THROUGH_OK;
    default: memcpy(result->dim, map->dim, from->rank * sizeof *map->dim); return PP_THROUGH_OK;
    }
}

bool pp_index_linear(pp_index *ix, const pp_type *type, const pp_imap *map, pp_iexpr *out)
{
    pp_size scale = PP_SIZE_1;
    if (!start_expr(ix, out, PP_SIZE_0)) return false;
    for (uint32_t i = type->rank; i-- > 0;) {
        add_scaled(ix, out, &map->dim[i], scale);
        scale = pp_size_mul(sizes_of(ix), scale, type->dim[i]);
    }
    return true;
}
