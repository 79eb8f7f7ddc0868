/* SPDX-License-Identifier: Apache-2.0
 * tensor.NAME(…): views, padding, concatenation, gathering, creation, contraction. These are exact: no
 * clamping, no negative positions; shapes are checked here, with messages, so that the constructors of flat
 * graphs need not. */
#include <string.h>

#include "graph/evaluate.h"

typedef struct shape {
    uint32_t rank;
    pp_size dim[PPTO_MAX_RANK];
} shape;

static ppto_status take_shape(pp_eval *ev, const pp_value *list, shape *out)
{
    const pp_value *items = pp_value_is_list(list) ? list->u.items : list;
    *out = (shape){.rank = pp_value_is_list(list) ? list->n : 1};
    if (out->rank > PPTO_MAX_RANK)
        return pp_eval_fail(ev, PPTO_E_SHAPE, "rank %u is above %d", out->rank, PPTO_MAX_RANK);
    for (uint32_t i = 0; i < out->rank; i++) {
        int64_t known;
        PP_TRY(pp_eval_size(ev, &items[i], "a size", &out->dim[i]));
        if (pp_size_known(ev->sizes, out->dim[i], &known) && known < 0)
            return pp_eval_fail(ev, PPTO_E_SHAPE, "the size %lld is negative", (long long)known);
    }
    return PPTO_OK;
}

static void print_shape(const pp_eval *ev, const shape *s, pp_text *out)
{
    pp_text_add(out, "[");
    for (uint32_t i = 0; i < s->rank; i++) {
        if (i != 0) pp_text_add(out, ", ");
        pp_size_print(ev->sizes, s->dim[i], out);
    }
    pp_text_add(out, "]");
}

/* "cannot WHAT f32[3, 4] to [5]". */
static ppto_status cannot(pp_eval *ev, const char *what, uint32_t x, const shape *to)
{
    pp_text text = {0};
    pp_type_print(ev->types, pp_flat_type(ev->flat, x), &text);
    pp_text_add(&text, " to ");
    print_shape(ev, to, &text);
    ppto_status status = pp_eval_fail(ev, PPTO_E_SHAPE, "cannot %s %s", what, text.at != NULL ? text.at : "");
    pp_text_free(&text);
    return status;
}

static ppto_status do_reshape(pp_eval *ev, const pp_given *g, size_t n, uint32_t *id)
{
    uint32_t x;
    shape to;
    (void)n;
    PP_TRY(pp_eval_tensor(ev, &g[0].value, &x));
    PP_TRY(take_shape(ev, &g[1].value, &to));
    pp_type target = {.rank = (uint8_t)to.rank};
    memcpy(target.dim, to.dim, sizeof to.dim);
    if (pp_type_elements(ev->types, &target) != pp_type_elements(ev->types, pp_flat_type(ev->flat, x)))
        return cannot(ev, "reshape", x, &to);
    return pp_flat_reshape(ev->flat, x, to.rank, to.dim, id);
}

static ppto_status do_permute(pp_eval *ev, const pp_given *g, size_t n, uint32_t *id)
{
    uint32_t x, seen = 0;
    uint8_t axes[PPTO_MAX_RANK];
    (void)n;
    PP_TRY(pp_eval_tensor(ev, &g[0].value, &x));
    uint32_t rank = pp_flat_type(ev->flat, x)->rank;
    const pp_value *list = &g[1].value;
    if (!pp_value_is_list(list) || list->n != rank)
        return pp_eval_fail(ev, PPTO_E_VALUE, "an order of %u axes is expected", rank);
    for (uint32_t i = 0; i < rank; i++) {
        uint32_t axis;
        PP_TRY(pp_eval_axis(ev, &list->u.items[i], rank, &axis));
        if (seen >> axis & 1) return pp_eval_fail(ev, PPTO_E_VALUE, "axis %u is given twice", axis);
        seen |= 1u << axis;
        axes[i] = (uint8_t)axis;
    }
    return pp_flat_permute(ev->flat, x, axes, id);
}

static ppto_status do_broadcast(pp_eval *ev, const pp_given *g, size_t n, uint32_t *id)
{
    uint32_t x;
    shape to;
    (void)n;
    PP_TRY(pp_eval_tensor(ev, &g[0].value, &x));
    PP_TRY(take_shape(ev, &g[1].value, &to));
    const pp_type *type = pp_flat_type(ev->flat, x);
    if (type->rank > to.rank) return cannot(ev, "broadcast", x, &to);
    for (uint32_t i = 0; i < type->rank; i++)
        if (type->dim[i] != PP_SIZE_1 && type->dim[i] != to.dim[to.rank - type->rank + i])
            return cannot(ev, "broadcast", x, &to);
    return pp_flat_broadcast(ev->flat, x, to.rank, to.dim, id);
}

/* Positions that are known must lie in the axis. */
static bool outside(pp_eval *ev, pp_size size, pp_size start, pp_size length, int64_t step)
{
    int64_t s, n, d;
    if (!pp_size_known(ev->sizes, length, &n)) return false;
    if (n < 0) return true;
    if (n == 0 || !pp_size_known(ev->sizes, start, &s)) return false;
    if (s < 0) return true;
    if (!pp_size_known(ev->sizes, size, &d)) return false;
    int64_t last = s + (n - 1) * step;
    return s >= d || last < 0 || last >= d;
}

static ppto_status do_slice(pp_eval *ev, const pp_given *g, size_t n, uint32_t *id)
{
    uint32_t x, axis;
    pp_size start, length;
    int64_t step;
    (void)n;
    PP_TRY(pp_eval_tensor(ev, &g[0].value, &x));
    const pp_type *type = pp_flat_type(ev->flat, x);
    PP_TRY(pp_eval_axis(ev, &g[1].value, type->rank, &axis));
    PP_TRY(pp_eval_size(ev, &g[2].value, "the start of a slice", &start));
    PP_TRY(pp_eval_size(ev, &g[3].value, "the length of a slice", &length));
    PP_TRY(pp_eval_int(ev, &g[4].value, "the step of a slice", &step));
    if (outside(ev, type->dim[axis], start, length, step)) {
        pp_text text = {0};
        pp_type_print(ev->types, type, &text);
        ppto_status status = pp_eval_fail(ev, PPTO_E_SHAPE, "a slice leaves axis %u of %s", axis,
                                          text.at != NULL ? text.at : "?");
        pp_text_free(&text);
        return status;
    }
    if (length == PP_SIZE_0) start = PP_SIZE_0;
    return pp_flat_slice(ev->flat, x, axis, start, length, step, id);
}

/* A scalar in the dtype of x. */
static ppto_status scalar_like(pp_eval *ev, const pp_value *value, const pp_type *type, uint32_t *id)
{
    PP_TRY(pp_eval_adopt(ev, value, (ppto_dtype)type->dtype, type->weak, id));
    return pp_flat_type(ev->flat, *id)->rank == 0 ? PPTO_OK
                                                  : pp_eval_fail(ev, PPTO_E_SHAPE, "the value has rank 0");
}

static ppto_status do_pad(pp_eval *ev, const pp_given *g, size_t n, uint32_t *id)
{
    uint32_t x[2], axis;
    pp_size before, after;
    int64_t known;
    (void)n;
    pp_prim p = {.kind = PP_P_PAD, .number = PP_NONE, .origin = PP_NONE};
    PP_TRY(pp_eval_tensor(ev, &g[0].value, &x[0]));
    pp_type type = *pp_flat_type(ev->flat, x[0]);
    PP_TRY(pp_eval_axis(ev, &g[1].value, type.rank, &axis));
    PP_TRY(pp_eval_size(ev, &g[2].value, "a width", &before));
    PP_TRY(pp_eval_size(ev, &g[3].value, "a width", &after));
    PP_TRY(scalar_like(ev, &g[4].value, &type, &x[1]));
    if ((pp_size_known(ev->sizes, before, &known) && known < 0) ||
        (pp_size_known(ev->sizes, after, &known) && known < 0))
        return pp_eval_fail(ev, PPTO_E_VALUE, "a width is negative");
    *id = x[0];
    if (before == PP_SIZE_0 && after == PP_SIZE_0) return PPTO_OK;
    type.dim[axis] = pp_size_add(ev->sizes, type.dim[axis], pp_size_add(ev->sizes, before, after));
    p.axis = (uint8_t)axis;
    p.u.before = before;
    PP_TRY(pp_type_intern(ev->types, &type, &p.type));
    return pp_flat_add(ev->flat, &p, x, 2, id);
}

static ppto_status concat_type(pp_eval *ev, const pp_value *list, pp_type *type)
{
    bool any = false, weak_float = false;
    *type = *pp_eval_type(ev, &list->u.items[0]);
    for (uint32_t i = 0; i < list->n; i++) {
        const pp_type *own = pp_eval_type(ev, &list->u.items[i]);
        ppto_dtype both = own != NULL ? (ppto_dtype)own->dtype : PPTO_BOOL;
        if (own == NULL || own->rank != type->rank)
            return pp_eval_fail(ev, PPTO_E_SHAPE, "the tensors differ in rank");
        weak_float = weak_float || (own->weak && pp_dtype_is_float(both));
        if (own->weak) continue;
        if (any && pp_dtype_promote((ppto_dtype)type->dtype, both, &both) != PPTO_OK)
            return pp_eval_fail(ev, PPTO_E_DTYPE, "the tensors have no common dtype: cast some with astype");
        type->dtype = (uint8_t)both;
        any = true;
    }
    type->weak = !any;
    if (!any)
        type->dtype = weak_float ? PPTO_F64 : PPTO_I64;
    else if (weak_float && !pp_dtype_is_float((ppto_dtype)type->dtype))
        type->dtype = PPTO_F32;
    return PPTO_OK;
}

static ppto_status differ_beside(pp_eval *ev, const pp_type *a, const pp_type *b, uint32_t axis)
{
    pp_text text = {0};
    pp_type_print(ev->types, a, &text);
    pp_text_add(&text, " and ");
    pp_type_print(ev->types, b, &text);
    ppto_status status =
        pp_eval_fail(ev, PPTO_E_SHAPE, "%s differ beside axis %u", text.at != NULL ? text.at : "?", axis);
    pp_text_free(&text);
    return status;
}

static ppto_status do_concat(pp_eval *ev, const pp_given *g, size_t n, uint32_t *id)
{
    const pp_value *list = &g[0].value;
    pp_prim p = {.kind = PP_P_CONCAT, .number = PP_NONE, .origin = PP_NONE};
    pp_type type;
    uint32_t axis;
    (void)n;
    if (!pp_value_is_list(list) || list->n == 0 || pp_eval_type(ev, &list->u.items[0]) == NULL)
        return pp_eval_fail(ev, PPTO_E_VALUE, "a list of tensors is expected");
    PP_TRY(concat_type(ev, list, &type));
    PP_TRY(pp_eval_axis(ev, &g[1].value, type.rank, &axis));
    uint32_t *x = pp_arena_alloc(ev->arena, list->n * sizeof *x);
    if (x == NULL) return pp_eval_nomem(ev);
    pp_size total = PP_SIZE_0;
    for (uint32_t i = 0; i < list->n; i++) {
        PP_TRY(pp_eval_adopt(ev, &list->u.items[i], (ppto_dtype)type.dtype, type.weak, &x[i]));
        const pp_type *own = pp_flat_type(ev->flat, x[i]);
        for (uint32_t k = 0; k < type.rank; k++)
            if (k != axis && own->dim[k] != type.dim[k])
                return differ_beside(ev, pp_flat_type(ev->flat, x[0]), own, axis);
        total = pp_size_add(ev->sizes, total, own->dim[axis]);
    }
    *id = x[0];
    if (list->n == 1) return PPTO_OK;
    type.dim[axis] = total;
    p.axis = (uint8_t)axis;
    PP_TRY(pp_type_intern(ev->types, &type, &p.type));
    return pp_flat_add(ev->flat, &p, x, list->n, id);
}

static ppto_status do_gather(pp_eval *ev, const pp_given *g, size_t n, uint32_t *id)
{
    uint32_t x[2], axis;
    pp_prim p = {.kind = PP_P_GATHER, .number = PP_NONE, .origin = PP_NONE};
    (void)n;
    PP_TRY(pp_eval_tensor(ev, &g[0].value, &x[0]));
    PP_TRY(pp_eval_tensor(ev, &g[1].value, &x[1]));
    const pp_type *from = pp_flat_type(ev->flat, x[0]), *idx = pp_flat_type(ev->flat, x[1]);
    PP_TRY(pp_eval_axis(ev, &g[2].value, from->rank, &axis));
    if (!pp_dtype_is_integer((ppto_dtype)idx->dtype))
        return pp_eval_fail(ev, PPTO_E_DTYPE, "positions are integers");
    pp_type type = {.dtype = from->dtype, .weak = from->weak};
    if (from->rank - 1 + idx->rank > PPTO_MAX_RANK)
        return pp_eval_fail(ev, PPTO_E_SHAPE, "the rank is above %d", PPTO_MAX_RANK);
    for (uint32_t i = 0; i < axis; i++) type.dim[type.rank++] = from->dim[i];
    for (uint32_t i = 0; i < idx->rank; i++) type.dim[type.rank++] = idx->dim[i];
    for (uint32_t i = axis + 1; i < from->rank; i++) type.dim[type.rank++] = from->dim[i];
    p.axis = (uint8_t)axis;
    PP_TRY(pp_type_intern(ev->types, &type, &p.type));
    return pp_flat_add(ev->flat, &p, x, 2, id);
}

static ppto_status take_dtype(pp_eval *ev, const pp_value *value, ppto_dtype *dtype)
{
    if (value->kind != PP_V_DTYPE) return pp_eval_fail(ev, PPTO_E_VALUE, "expected a dtype such as f32");
    *dtype = (ppto_dtype)value->u.dtype;
    return PPTO_OK;
}

/* The value in a dtype: numbers adopt it (bool: nonzero), tensors are cast. */
static ppto_status value_in(pp_eval *ev, const pp_value *value, ppto_dtype dtype, uint32_t *id)
{
    int64_t known;
    if (dtype == PPTO_BOOL && value->kind == PP_V_INT && pp_size_known(ev->sizes, value->u.size, &known)) {
        pp_value truth = pp_value_bool(known != 0 ? PP_TRUE : PP_FALSE);
        return pp_eval_adopt(ev, &truth, dtype, false, id);
    }
    return pp_eval_adopt(ev, value, dtype, false, id);
}

static ppto_status do_full(pp_eval *ev, const pp_given *g, size_t n, uint32_t *id)
{
    shape to;
    ppto_dtype dtype = PPTO_F32;
    PP_TRY(take_shape(ev, &g[0].value, &to));
    if (n == 3 && g[2].value.kind != PP_V_NONE) {
        PP_TRY(take_dtype(ev, &g[2].value, &dtype));
        PP_TRY(value_in(ev, &g[1].value, dtype, id));
    } else {
        PP_TRY(pp_eval_tensor(ev, &g[1].value, id));
    }
    if (pp_flat_type(ev->flat, *id)->rank != 0) return pp_eval_fail(ev, PPTO_E_SHAPE, "the value has rank 0");
    return pp_flat_broadcast(ev->flat, *id, to.rank, to.dim, id);
}

static ppto_status do_iota(pp_eval *ev, const pp_given *g, size_t n, uint32_t *id)
{
    pp_prim p = {.kind = PP_P_IOTA, .number = PP_NONE, .origin = PP_NONE};
    pp_type type = {.dtype = PPTO_I64, .rank = 1, .weak = n == 1 || g[1].value.kind == PP_V_NONE};
    ppto_dtype dtype = PPTO_I64;
    shape to;
    if (!type.weak) PP_TRY(take_dtype(ev, &g[1].value, &dtype));
    PP_TRY(take_shape(ev, &g[0].value, &to));
    if (to.rank != 1) return pp_eval_fail(ev, PPTO_E_VALUE, "one size is expected");
    type.dim[0] = to.dim[0];
    PP_TRY(pp_type_intern(ev->types, &type, &p.type));
    PP_TRY(pp_flat_add(ev->flat, &p, NULL, 0, id));
    return dtype == PPTO_I64 ? PPTO_OK : pp_flat_map(ev->flat, PP_CAST, dtype, id, 1, id);
}

static ppto_status do_contract(pp_eval *ev, const pp_given *g, size_t n, uint32_t *id)
{
    const pp_type *a = pp_eval_type(ev, &g[0].value), *b = pp_eval_type(ev, &g[1].value);
    pp_value lists[4];
    uint32_t x, y;
    (void)n;
    if (a == NULL || b == NULL) return pp_eval_fail(ev, PPTO_E_VALUE, "two tensors are expected");
    ppto_dtype dtype = (ppto_dtype)(a->weak ? b->dtype : a->dtype);
    bool weak = a->weak && b->weak;
    if (weak && a->dtype != b->dtype) dtype = PPTO_F64;
    if (!a->weak && !b->weak &&
        pp_dtype_promote((ppto_dtype)a->dtype, (ppto_dtype)b->dtype, &dtype) != PPTO_OK)
        return pp_eval_fail(ev, PPTO_E_DTYPE, "the operands have no common dtype: cast one with astype");
    bool leaves = (a->weak && pp_dtype_is_float((ppto_dtype)a->dtype)) ||
                  (b->weak && pp_dtype_is_float((ppto_dtype)b->dtype));
    if (!weak && leaves && !pp_dtype_is_float(dtype)) dtype = PPTO_F32;
    if (dtype == PPTO_BOOL) return pp_eval_fail(ev, PPTO_E_DTYPE, "expected numbers, got bool");
    PP_TRY(pp_eval_adopt(ev, &g[0].value, dtype, weak, &x));
    PP_TRY(pp_eval_adopt(ev, &g[1].value, dtype, weak, &y));
    for (unsigned i = 0; i < 4; i++) lists[i] = g[2 + i].value;
    return pp_eval_contract(ev, x, y, lists, id);
}

static const struct {
    const char *name;
    uint8_t least, most;
    ppto_status (*fn)(pp_eval *ev, const pp_given *given, size_t n, uint32_t *id);
} primitives[] = {
    {"reshape", 2, 2, do_reshape},   {"permute", 2, 2, do_permute}, {"broadcast_to", 2, 2, do_broadcast},
    {"slice", 5, 5, do_slice},       {"pad", 5, 5, do_pad},         {"concat", 2, 2, do_concat},
    {"gather", 3, 3, do_gather},     {"full", 2, 3, do_full},       {"iota", 1, 2, do_iota},
    {"contract", 6, 6, do_contract},
};

bool pp_primitive_arity(const char *name, unsigned *least, unsigned *most)
{
    *least = *most = 2;
    if (strcmp(name, "subscript") == 0) return true;
    for (size_t i = 0; i < sizeof primitives / sizeof primitives[0]; i++) {
        if (strcmp(primitives[i].name, name) != 0) continue;
        *least = primitives[i].least;
        *most = primitives[i].most;
        return true;
    }
    return false;
}

ppto_status pp_eval_primitive(pp_eval *ev, const char *name, const pp_given *given, size_t n, pp_value *out)
{
    uint32_t id, x;
    if (ev->mode == PP_EVAL_FUNCTION) /* folds and elementwise operators: rank 0 only */
        return pp_eval_fail(ev, PPTO_E_UNSUPPORTED, "tensor.%.40s cannot stand in a fold", name);
    for (size_t i = 0; i < n; i++)
        if (given[i].keyword != NULL)
            return pp_eval_fail(ev, PPTO_E_VALUE, "tensor.%.40s takes no named arguments", name);
    if (strcmp(name, "subscript") == 0 && n == 2) {
        PP_TRY(pp_eval_tensor(ev, &given[0].value, &x));
        return pp_eval_view(ev, x, &given[1].value, out);
    }
    for (size_t i = 0; i < sizeof primitives / sizeof primitives[0]; i++) {
        if (strcmp(primitives[i].name, name) != 0) continue;
        if (n < primitives[i].least || n > primitives[i].most)
            return pp_eval_fail(ev, PPTO_E_VALUE, "tensor.%.40s takes %u arguments, not %zu", name,
                                primitives[i].most, n);
        PP_TRY(primitives[i].fn(ev, given, n, &id));
        *out = pp_value_tensor(id);
        return pp_eval_sizes(ev);
    }
    return pp_eval_fail(ev, PPTO_E_NAME, "no primitive tensor.%.40s", name);
}
