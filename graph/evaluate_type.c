/* SPDX-License-Identifier: Apache-2.0
 * Values as typed operands: types, literals that adopt a dtype, broadcasting, and values in messages. */
#include "graph/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/scalar_inline.h"

static const pp_type weak_int = {.dtype = PPTO_I64, .weak = true},
                     weak_float = {.dtype = PPTO_F64, .weak = true}, plain_bool = {.dtype = PPTO_BOOL};

const pp_type *pp_eval_type(const pp_eval *ev, const pp_value *value)
{
    switch (value->kind) {
    case PP_V_INT:
    case PP_V_WIDE:
    case PP_V_BEYOND: return &weak_int;
    case PP_V_FLOAT: return &weak_float;
    case PP_V_BOOL: return &plain_bool;
    case PP_V_TENSOR: return pp_flat_type(ev->flat, value->u.prim);
    case PP_V_REF: return pp_type_get(ev->types, pp_graph_type(ev->graph, value->u.ref));
    default: return NULL;
    }
}

bool pp_eval_is_weak(const pp_eval *ev, const pp_value *value)
{
    const pp_type *type = pp_eval_type(ev, value);
    return type != NULL && type->weak;
}

pp_value pp_eval_number(pp_eval *ev, int64_t value)
{
    return pp_value_int(pp_size_const(ev->sizes, value));
}

ppto_status pp_eval_sizes(pp_eval *ev)
{
    ppto_status status = pp_sizes_status(ev->sizes);
    if (status == PPTO_OK) return status;
    return pp_eval_fail(ev, status, "%s",
                        status == PPTO_E_LIMIT
                            ? "the sizes of the result are too long a formula of the named sizes"
                        : status == PPTO_E_SIZE ? "the sizes of the result overflow 64 bits"
                                                : "out of memory");
}

/* ---- messages -------------------------------------------------------------------------------------- */

void pp_eval_print(const pp_eval *ev, const pp_value *value, pp_text *out)
{
    if (pp_value_is_tensor(value)) {
        pp_type_print(ev->types, pp_eval_type(ev, value), out);
    } else if (pp_value_is_list(value)) {
        pp_text_add(out, "[");
        for (uint32_t i = 0; i < value->n; i++) {
            if (i != 0) pp_text_add(out, ", ");
            pp_eval_print(ev, &value->u.items[i], out);
        }
        pp_text_add(out, "]");
    } else {
        pp_value_print(ev->sizes, value, out);
    }
}

ppto_status pp_eval_size(pp_eval *ev, const pp_value *value, const char *what, pp_size *out)
{
    double f;
    *out = value->u.size;
    if (value->kind == PP_V_INT) return PPTO_OK;
    f = value->kind == PP_V_FLOAT ? value->u.f : 0.5;
    if (f == pp_op_rint_f64(f) && fabs(f) < 0x1p62) {
        *out = pp_size_const(ev->sizes, (int64_t)f);
        return PPTO_OK;
    }
    pp_text text = {0};
    pp_eval_print(ev, value, &text);
    ppto_status status =
        pp_eval_fail(ev, PPTO_E_VALUE, "%s is an integer, not %s", what, text.at != NULL ? text.at : "?");
    pp_text_free(&text);
    return status;
}

ppto_status pp_eval_int(pp_eval *ev, const pp_value *value, const char *what, int64_t *out)
{
    pp_size size;
    PP_TRY(pp_eval_size(ev, value, what, &size));
    if (pp_size_known(ev->sizes, size, out)) return PPTO_OK;
    pp_text text = {0};
    pp_size_print(ev->sizes, size, &text);
    ppto_status status =
        pp_eval_fail(ev, PPTO_E_UNSUPPORTED, "%s needs a number that is known when recorded, not %s", what,
                     text.at != NULL ? text.at : "?");
    pp_text_free(&text);
    return status;
}

/* ---- literals -------------------------------------------------------------------------------------- */

ppto_status pp_eval_no_fit(pp_eval *ev, const pp_value *value, ppto_dtype dtype)
{
    pp_text text = {0};
    if (ev->err == NULL) return PPTO_E_VALUE;
    pp_value_print(ev->sizes, value, &text);
    pp_text_add(&text, " does not fit ");
    pp_dtype_range(dtype, &text);
    ppto_status status =
        pp_eval_fail(ev, PPTO_E_VALUE, "the number %s", text.at != NULL ? text.at : "does not fit");
    pp_text_free(&text);
    return status;
}

static uint64_t float_bits(double f)
{
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

ppto_status pp_eval_bits(pp_eval *ev, const pp_value *value, ppto_dtype dtype, uint64_t *bits)
{
    int64_t i = 0;
    double f;
    switch (value->kind) {
    case PP_V_BOOL:
        *bits = pp_scalar_eval(PP_CAST, PPTO_BOOL, dtype, value->u.truth == PP_TRUE, 0, 0);
        return PPTO_OK;
    case PP_V_INT:
        PP_TRY(pp_eval_int(ev, value, "a number", &i));
        if (pp_dtype_is_integer(dtype) && !pp_dtype_holds(dtype, i)) return pp_eval_no_fit(ev, value, dtype);
        *bits = pp_scalar_eval(PP_CAST, PPTO_I64, dtype, (uint64_t)i, 0, 0);
        return PPTO_OK;
    case PP_V_WIDE:
        if (!pp_dtype_is_float(dtype) && dtype != PPTO_U64) return pp_eval_no_fit(ev, value, dtype);
        *bits = pp_scalar_eval(PP_CAST, PPTO_U64, dtype, value->u.bits, 0, 0);
        return PPTO_OK;
    case PP_V_BEYOND:
    case PP_V_FLOAT:
        f = value->kind == PP_V_FLOAT ? value->u.f : strtod(value->u.text, NULL);
        if (!pp_dtype_is_float(dtype) || (value->kind == PP_V_BEYOND && isinf(f)))
            return pp_eval_no_fit(ev, value, dtype);
        *bits = pp_scalar_eval(PP_CAST, PPTO_F64, dtype, float_bits(f), 0, 0);
        return PPTO_OK;
    default: return pp_eval_fail(ev, PPTO_E_VALUE, "this is no number");
    }
}

/* ---- operands -------------------------------------------------------------------------------------- */

static ppto_status size_prim(pp_eval *ev, pp_size size, uint32_t *prim)
{
    pp_prim p = {.kind = PP_P_SIZE, .number = PP_NONE, .origin = PP_NONE, .u.size = size};
    PP_TRY(pp_type_intern(ev->types, &weak_int, &p.type));
    return pp_flat_add(ev->flat, &p, NULL, 0, prim);
}

static ppto_status cast_prim(pp_eval *ev, uint32_t x, ppto_dtype dtype, bool weak_cast, bool weak,
                             uint32_t *prim)
{
    pp_prim p = {
        .kind = PP_P_MAP, .op = PP_CAST, .weak_cast = weak_cast, .number = PP_NONE, .origin = PP_NONE};
    pp_type type = *pp_flat_type(ev->flat, x);
    type.dtype = (uint8_t)dtype;
    type.weak = weak;
    PP_TRY(pp_type_intern(ev->types, &type, &p.type));
    return pp_flat_add(ev->flat, &p, &x, 1, prim);
}

ppto_status pp_eval_tensor(pp_eval *ev, const pp_value *value, uint32_t *prim)
{
    const pp_type *type = pp_eval_type(ev, value);
    uint64_t bits;
    int64_t known;
    if (value->kind == PP_V_TENSOR) {
        *prim = value->u.prim;
        return PPTO_OK;
    }
    if (type == NULL || value->kind == PP_V_REF)
        return pp_eval_fail(ev, PPTO_E_VALUE, "expected a tensor or a number");
    if (value->kind == PP_V_INT && !pp_size_known(ev->sizes, value->u.size, &known))
        return size_prim(ev, value->u.size, prim);
    if (value->kind == PP_V_BOOL && value->u.truth == PP_UNKNOWN) {
        PP_TRY(size_prim(ev, pp_eval_indicator(ev, value), prim));
        return cast_prim(ev, *prim, PPTO_BOOL, false, false, prim);
    }
    PP_TRY(pp_eval_bits(ev, value, (ppto_dtype)type->dtype, &bits));
    return pp_flat_literal(ev->flat, (ppto_dtype)type->dtype, type->weak, bits, prim);
}

ppto_status pp_eval_adopt(pp_eval *ev, const pp_value *value, ppto_dtype dtype, bool weak, uint32_t *prim)
{
    int64_t known;
    uint64_t bits;
    bool symbolic = value->kind == PP_V_BOOL
                        ? value->u.truth == PP_UNKNOWN
                        : value->kind == PP_V_INT && !pp_size_known(ev->sizes, value->u.size, &known);
    if (pp_value_is_number(value) && !symbolic) {
        PP_TRY(pp_eval_bits(ev, value, dtype, &bits));
        return pp_flat_literal(ev->flat, dtype, weak, bits, prim);
    }
    PP_TRY(pp_eval_tensor(ev, value, prim));
    const pp_type *type = pp_flat_type(ev->flat, *prim);
    if (type->dtype == dtype && type->weak == weak) return PPTO_OK;
    if (type->dtype == dtype && !type->weak) return PPTO_OK;
    return cast_prim(ev, *prim, dtype, type->weak, weak && type->weak, prim);
}

static ppto_status broadcast_failure(pp_eval *ev, const uint32_t *prims, size_t n, int axis, pp_size left,
                                     pp_size right)
{
    pp_text text = {0};
    if (ev->err == NULL) return PPTO_E_SHAPE;
    pp_text_add(&text, "cannot broadcast ");
    for (size_t i = 0; i < n; i++) {
        if (i != 0) pp_text_add(&text, i + 1 == n ? " with " : ", ");
        pp_type_print(ev->types, pp_flat_type(ev->flat, prims[i]), &text);
    }
    pp_text_add(&text, " (axis %d: ", axis);
    pp_size_print(ev->sizes, left, &text);
    pp_text_add(&text, " against ");
    pp_size_print(ev->sizes, right, &text);
    pp_text_add(&text, ")");
    ppto_status status = pp_eval_fail(ev, PPTO_E_SHAPE, "%s", text.at != NULL ? text.at : "cannot broadcast");
    pp_text_free(&text);
    return status;
}

ppto_status pp_eval_broadcast(pp_eval *ev, uint32_t *prims, size_t n)
{
    const pp_type *types[16] = {NULL};
    pp_type shape = {0};
    int axis;
    pp_size left, right;
    if (n == 0 || n > sizeof types / sizeof types[0]) return PPTO_E_INTERNAL;
    for (size_t i = 0; i < n; i++) types[i] = pp_flat_type(ev->flat, prims[i]);
    if (pp_type_broadcast(ev->types, types, n, &shape, &axis, &left, &right) != PPTO_OK)
        return broadcast_failure(ev, prims, n, axis, left, right);
    for (size_t i = 0; i < n; i++)
        PP_TRY(pp_flat_broadcast(ev->flat, prims[i], shape.rank, shape.dim, &prims[i]));
    return PPTO_OK;
}
