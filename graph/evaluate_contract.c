/* SPDX-License-Identifier: Apache-2.0
 * The two forms of a contraction (docs/semantics.md): where one operand has no free axis and the reduced axes
 * are the last ones of the other, in order, it is a reduction along lanes with fma; else a CONTRACT of
 * [batch, free, k] operands. The result has the batch axes, the free axes of a, those of b. */
#include <string.h>

#include "graph/library_impl.h"

typedef struct side {
    uint32_t x;
    uint32_t rank, n_free, n_batch, n_k;
    uint8_t batch[PPTO_MAX_RANK], k[PPTO_MAX_RANK], free_axis[PPTO_MAX_RANK];
} side;

static ppto_status take_axes(pp_eval *ev, const pp_value *list, uint32_t rank, uint32_t *seen, uint8_t *axes,
                             uint32_t *n)
{
    if (!pp_value_is_list(list) || list->n > rank)
        return pp_eval_fail(ev, PPTO_E_VALUE, "a list of axes is expected");
    *n = list->n;
    for (uint32_t i = 0; i < list->n; i++) {
        uint32_t axis;
        PP_TRY(pp_eval_axis(ev, &list->u.items[i], rank, &axis));
        if (*seen >> axis & 1) return pp_eval_fail(ev, PPTO_E_VALUE, "axis %u is given twice", axis);
        *seen |= 1u << axis;
        axes[i] = (uint8_t)axis;
    }
    return PPTO_OK;
}

static ppto_status take_side(pp_eval *ev, uint32_t x, const pp_value *k, const pp_value *batch, side *s)
{
    uint32_t seen = 0;
    *s = (side){.x = x, .rank = pp_flat_type(ev->flat, x)->rank};
    PP_TRY(take_axes(ev, k, s->rank, &seen, s->k, &s->n_k));
    PP_TRY(take_axes(ev, batch, s->rank, &seen, s->batch, &s->n_batch));
    for (uint32_t i = 0; i < s->rank; i++)
        if (!(seen >> i & 1)) s->free_axis[s->n_free++] = (uint8_t)i;
    return PPTO_OK;
}

static ppto_status check_sizes(pp_eval *ev, const side *a, const side *b)
{
    const pp_type *x = pp_flat_type(ev->flat, a->x), *y = pp_flat_type(ev->flat, b->x);
    bool agree = a->n_k == b->n_k && a->n_batch == b->n_batch;
    for (uint32_t i = 0; i < a->n_k && agree; i++) agree = x->dim[a->k[i]] == y->dim[b->k[i]];
    for (uint32_t i = 0; i < a->n_batch && agree; i++) agree = x->dim[a->batch[i]] == y->dim[b->batch[i]];
    if (agree) return PPTO_OK;
    pp_text text = {0};
    pp_type_print(ev->types, x, &text);
    pp_text_add(&text, " and ");
    pp_type_print(ev->types, y, &text);
    ppto_status status = pp_eval_fail(ev, PPTO_E_SHAPE, "cannot contract %s: the axes differ in size",
                                      text.at != NULL ? text.at : "?");
    pp_text_free(&text);
    return status;
}

/* The reduced axes are the last ones, in order. */
static bool k_is_last(const side *s)
{
    bool last = s->n_k > 0;
    for (uint32_t i = 0; i < s->n_k && last; i++) last = s->k[i] == s->rank - s->n_k + i;
    return last;
}

/* The operand without free axes in the shape of the other, axis by axis. */
static ppto_status spread(pp_eval *ev, const side *plain, const side *other, uint32_t *id)
{
    const pp_type *to = pp_flat_type(ev->flat, other->x);
    uint8_t order[PPTO_MAX_RANK];
    pp_size dims[PPTO_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t d = 0; d < other->rank; d++) {
        dims[d] = PP_SIZE_1;
        for (uint32_t i = 0; i < other->n_batch; i++)
            if (other->batch[i] == d) order[n++] = plain->batch[i], dims[d] = to->dim[d];
        for (uint32_t i = 0; i < other->n_k; i++)
            if (other->k[i] == d) order[n++] = plain->k[i], dims[d] = to->dim[d];
    }
    PP_TRY(pp_flat_permute(ev->flat, plain->x, order, id));
    PP_TRY(pp_flat_reshape(ev->flat, *id, other->rank, dims, id));
    return pp_flat_broadcast(ev->flat, *id, to->rank, to->dim, id);
}

static ppto_status by_lanes(pp_eval *ev, const side *plain, const side *other, bool plain_left, uint32_t *out)
{
    const pp_monoid *dot;
    uint32_t x[2], set = 0;
    uint8_t order[PPTO_MAX_RANK];
    PP_TRY(pp_library_dot(ev->library, (ppto_dtype)pp_flat_type(ev->flat, other->x)->dtype, &dot));
    x[plain_left ? 1 : 0] = other->x;
    PP_TRY(spread(ev, plain, other, &x[plain_left ? 0 : 1]));
    for (uint32_t i = 0; i < other->n_k; i++) set |= 1u << other->k[i];
    PP_TRY(pp_flat_reduce(ev->flat, dot, dot, dot, set, x, 2, out));
    for (uint32_t i = 0; i < other->n_batch; i++) order[i] = other->batch[i];
    for (uint32_t i = 0; i < other->n_free; i++) order[other->n_batch + i] = other->free_axis[i];
    return pp_flat_permute(ev->flat, *out, order, out);
}

static ppto_status ordered(pp_eval *ev, const side *s, uint32_t *id)
{
    uint8_t order[PPTO_MAX_RANK];
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_batch; i++) order[n++] = s->batch[i];
    for (uint32_t i = 0; i < s->n_free; i++) order[n++] = s->free_axis[i];
    for (uint32_t i = 0; i < s->n_k; i++) order[n++] = s->k[i];
    return pp_flat_permute(ev->flat, s->x, order, id);
}

ppto_status pp_eval_contract(pp_eval *ev, uint32_t a, uint32_t b, const pp_value *lists, uint32_t *out)
{
    side x, y;
    uint32_t left, right;
    PP_TRY(take_side(ev, a, &lists[0], &lists[2], &x));
    PP_TRY(take_side(ev, b, &lists[1], &lists[3], &y));
    PP_TRY(check_sizes(ev, &x, &y));
    if (x.n_batch + x.n_free + y.n_free > PPTO_MAX_RANK)
        return pp_eval_fail(ev, PPTO_E_SHAPE, "the rank is above %d", PPTO_MAX_RANK);
    if (y.n_free == 0 && k_is_last(&x)) return by_lanes(ev, &y, &x, false, out);
    if (x.n_free == 0 && k_is_last(&y)) return by_lanes(ev, &x, &y, true, out);
    PP_TRY(ordered(ev, &x, &left));
    PP_TRY(ordered(ev, &y, &right));
    return pp_flat_contract(ev->flat, left, right, x.n_batch, x.n_k, out);
}
