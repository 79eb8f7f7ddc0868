/* SPDX-License-Identifier: Apache-2.0
 * scalar.NAME(…): one primitive on broadcast operands. Operands promote; weak ones adopt the dtype of the
 * others: an integer any number's, a float a float's, beside integers f32. All weak: the result is weak, i64
 * or f64, and computed at once when all are known numbers. */
#include <string.h>

#include "graph/library_impl.h"

static const char *class_name(uint8_t on)
{
    switch (on) {
    case PP_ON_FLOAT: return "floats";
    case PP_ON_INT: return "integers";
    case PP_ON_NUM: return "numbers";
    case PP_ON_INT | PP_ON_BOOL: return "integers or bool";
    default: return "another dtype";
    }
}

static ppto_status no_class(pp_eval *ev, pp_op op, ppto_dtype dtype)
{
    return pp_eval_fail(ev, PPTO_E_DTYPE, "expected %s, got %s", class_name(pp_scalar_find(op)->on),
                        ppto_dtype_name(dtype));
}

static ppto_status no_promotion(pp_eval *ev, ppto_dtype a, ppto_dtype b)
{
    return pp_eval_fail(ev, PPTO_E_DTYPE, "%s and %s have no common dtype: cast one with astype",
                        ppto_dtype_name(a), ppto_dtype_name(b));
}

/* The dtype the operands meet in; *weak when the result is. */
static ppto_status common_dtype(pp_eval *ev, const pp_value *x, unsigned n, ppto_dtype *dtype, bool *weak)
{
    bool any = false, weak_float = false, weak_int = false;
    for (unsigned i = 0; i < n; i++) {
        const pp_type *type = pp_eval_type(ev, &x[i]);
        if (type == NULL) return pp_eval_fail(ev, PPTO_E_VALUE, "expected a tensor or a number");
        ppto_dtype own = (ppto_dtype)type->dtype, both = own;
        if (type->weak) {
            weak_float = weak_float || pp_dtype_is_float(own);
            weak_int = weak_int || !pp_dtype_is_float(own);
            continue;
        }
        if (any && pp_dtype_promote(*dtype, own, &both) != PPTO_OK) return no_promotion(ev, *dtype, own);
        *dtype = both;
        any = true;
    }
    *weak = !any;
    if (!any)
        *dtype = weak_float ? PPTO_F64 : PPTO_I64;
    else if (weak_float && !pp_dtype_is_float(*dtype))
        *dtype = PPTO_F32;
    else if (weak_int && *dtype == PPTO_BOOL)
        *dtype = PPTO_I64;
    return PPTO_OK;
}

/* Computed at record time. */
static ppto_status fold_numbers(pp_eval *ev, pp_op op, ppto_dtype dtype, const pp_value *x, unsigned n,
                                bool *done, pp_value *out)
{
    uint64_t bits[3] = {0};
    int64_t known;
    *done = false;
    for (unsigned i = 0; i < n; i++) {
        bool condition = op == PP_SELECT && i == 0;
        if (!pp_value_is_number(&x[i]) || (x[i].kind == PP_V_BOOL && x[i].u.truth == PP_UNKNOWN))
            return PPTO_OK;
        if (x[i].kind == PP_V_INT && !pp_size_known(ev->sizes, x[i].u.size, &known)) return PPTO_OK;
        PP_TRY(pp_eval_bits(ev, &x[i], condition ? PPTO_BOOL : dtype, &bits[i]));
    }
    ppto_dtype to = pp_scalar_result(op, dtype);
    uint64_t r = pp_scalar_eval(op, dtype, to, bits[0], bits[1], bits[2]);
    double f;
    memcpy(&f, &r, sizeof f);
    *out = to == PPTO_BOOL  ? pp_value_bool(r != 0 ? PP_TRUE : PP_FALSE)
           : to == PPTO_F64 ? pp_value_float(f)
                            : pp_eval_number(ev, (int64_t)r);
    *done = to == PPTO_BOOL || to == PPTO_F64 || to == PPTO_I64;
    return PPTO_OK;
}

static ppto_status apply_row(pp_eval *ev, pp_op op, const pp_value *x, pp_value *out)
{
    unsigned n = pp_scalar_find(op)->arity, first = op == PP_SELECT ? 1 : 0;
    ppto_dtype dtype = PPTO_BOOL;
    bool weak, done;
    uint32_t prims[3], id;
    PP_TRY(common_dtype(ev, x + first, n - first, &dtype, &weak));
    if (weak && !pp_scalar_accepts(op, dtype) && pp_scalar_accepts(op, PPTO_F64)) dtype = PPTO_F64;
    if (!pp_scalar_accepts(op, dtype)) return no_class(ev, op, dtype);
    if (weak || dtype == PPTO_BOOL) PP_TRY(fold_numbers(ev, op, dtype, x, n, &done, out));
    if ((weak || dtype == PPTO_BOOL) && done) return PPTO_OK;
    for (unsigned i = 0; i < n; i++) {
        bool condition = op == PP_SELECT && i == 0;
        const pp_type *type = pp_eval_type(ev, &x[i]);
        if (condition && (type == NULL || type->dtype != PPTO_BOOL))
            return pp_eval_fail(ev, PPTO_E_DTYPE, "the condition is bool, not %s",
                                type != NULL ? ppto_dtype_name((ppto_dtype)type->dtype) : "this");
        PP_TRY(condition ? pp_eval_tensor(ev, &x[i], &prims[i])
                         : pp_eval_adopt(ev, &x[i], dtype, weak, &prims[i]));
    }
    PP_TRY(pp_eval_broadcast(ev, prims, n));
    PP_TRY(pp_flat_map(ev->flat, op, dtype, prims, n, &id));
    *out = pp_value_tensor(id);
    return PPTO_OK;
}

static ppto_status take_dtype(pp_eval *ev, const pp_value *value, ppto_dtype *dtype)
{
    if (value->kind == PP_V_DTYPE) {
        *dtype = (ppto_dtype)value->u.dtype;
        return PPTO_OK;
    }
    if (value->kind == PP_V_STR && pp_dtype_parse(value->u.text, strlen(value->u.text), dtype))
        return PPTO_OK;
    return pp_eval_fail(ev, PPTO_E_VALUE, "expected a dtype such as f32");
}

/* A number becomes a float by rounding, and an integer another integer only where it fits: what wraps is a
 * tensor. It stays a number of the host. */
static bool adopts(const pp_eval *ev, const pp_value *x, ppto_dtype dtype)
{
    const pp_type *type = pp_eval_type(ev, x);
    if (type == NULL || !type->weak || type->rank != 0) return false;
    return pp_dtype_is_float(dtype) || (type->dtype == PPTO_I64 && pp_dtype_is_integer(dtype));
}

/* cast and bitcast: the result is never weak. */
static ppto_status convert(pp_eval *ev, pp_op op, const pp_value *x, const pp_value *target, pp_value *out)
{
    ppto_dtype dtype = PPTO_BOOL;
    uint32_t prim;
    PP_TRY(take_dtype(ev, target, &dtype));
    if (op == PP_CAST && adopts(ev, x, dtype)) {
        PP_TRY(pp_eval_adopt(ev, x, dtype, false, &prim));
        *out = pp_value_tensor(prim);
        return PPTO_OK;
    }
    PP_TRY(pp_eval_tensor(ev, x, &prim));
    const pp_type *type = pp_flat_type(ev->flat, prim);
    ppto_dtype from = (ppto_dtype)type->dtype;
    if (!pp_scalar_converts(op, from, dtype))
        return pp_eval_fail(ev, PPTO_E_DTYPE, "no bitcast from %s to %s", ppto_dtype_name(from),
                            ppto_dtype_name(dtype));
    *out = pp_value_tensor(prim);
    if (from == dtype && !type->weak) return PPTO_OK;
    const pp_prim *p = pp_flat_prim(ev->flat, prim);
    if (op == PP_CAST && p->kind == PP_P_LITERAL && p->number == PP_NONE) {
        uint64_t bits = pp_scalar_eval(PP_CAST, from, dtype, p->u.bits, 0, 0);
        PP_TRY(pp_flat_literal(ev->flat, dtype, false, bits, &prim));
    } else {
        PP_TRY(pp_flat_map(ev->flat, op, dtype, &prim, 1, &prim));
    }
    *out = pp_value_tensor(prim);
    return PPTO_OK;
}

/* ---- table, cold, check, index ----------------------------------------------------------------------- */

static ppto_status table_dtype(pp_eval *ev, const pp_given *given, size_t n, ppto_dtype *dtype)
{
    if (n == 3) return take_dtype(ev, &given[2].value, dtype);
    const pp_value *list = &given[0].value;
    *dtype = PPTO_I32;
    for (uint32_t i = 0; i < list->n; i++)
        if (list->u.items[i].kind == PP_V_FLOAT) *dtype = PPTO_F32;
    return PPTO_OK;
}

/* A look-up outside a function becomes a function of its own. */
static ppto_status call_table(pp_eval *ev, const pp_table *table, uint32_t index, uint32_t *id)
{
    const pp_type *type = pp_flat_type(ev->flat, index);
    const uint8_t param = type->dtype;
    const pp_instr code[2] = {{.op = PP_PARAM, .dtype = param},
                              {.op = PP_TABLE, .dtype = table->dtype, .a = 0, .imm = 0}};
    pp_function function = {.name = "table",
                            .n_params = 1,
                            .n_results = 1,
                            .param = {param},
                            .result = {1},
                            .code = code,
                            .n_code = 2,
                            .tables = table,
                            .n_tables = 1};
    const pp_function *own;
    function.hash = pp_function_hash(&function);
    PP_TRY(pp_library_function(ev->library, &function, &own));
    return pp_flat_call(ev->flat, own, &index, 1, id);
}

static ppto_status look_up(pp_eval *ev, const pp_given *given, size_t n, pp_value *out)
{
    const pp_value *list = &given[0].value;
    ppto_dtype dtype = PPTO_F32;
    uint32_t index, id;
    if (n < 2 || n > 3 || list->kind != PP_V_LIST || list->n == 0 || (list->n & (list->n - 1)) != 0)
        return pp_eval_fail(ev, PPTO_E_VALUE,
                            "table takes a list of a power of two numbers, an index and a dtype");
    PP_TRY(table_dtype(ev, given, n, &dtype));
    uint64_t *bits = pp_arena_alloc(ev->arena, list->n * sizeof *bits);
    if (bits == NULL) return pp_eval_nomem(ev);
    for (uint32_t i = 0; i < list->n; i++) PP_TRY(pp_eval_bits(ev, &list->u.items[i], dtype, &bits[i]));
    pp_table table = {.dtype = (uint8_t)dtype, .length = list->n, .bits = bits};
    const pp_table *own = pp_library_table(ev->library, &table);
    if (own == NULL) return pp_eval_nomem(ev);
    PP_TRY(pp_eval_tensor(ev, &given[1].value, &index));
    pp_type type = *pp_flat_type(ev->flat, index);
    if (!pp_dtype_is_integer((ppto_dtype)type.dtype))
        return pp_eval_fail(ev, PPTO_E_DTYPE, "the index of a table is an integer, not %s",
                            ppto_dtype_name((ppto_dtype)type.dtype));
    if (ev->mode == PP_EVAL_FUNCTION) {
        pp_prim p = {.kind = PP_P_TABLE, .number = PP_NONE, .origin = PP_NONE, .u.table = own};
        type.dtype = (uint8_t)dtype;
        type.weak = false;
        PP_TRY(pp_type_intern(ev->types, &type, &p.type));
        PP_TRY(pp_flat_add(ev->flat, &p, &index, 1, &id));
    } else {
        PP_TRY(call_table(ev, own, index, &id));
    }
    *out = pp_value_tensor(id);
    return PPTO_OK;
}

/* cold(mask, cold, hot): outside a function a plain select. */
static ppto_status cold(pp_eval *ev, const pp_given *given, size_t n, pp_value *out)
{
    ppto_dtype dtype = PPTO_BOOL;
    bool weak;
    uint32_t x[3], id;
    if (n != 3) return pp_eval_fail(ev, PPTO_E_VALUE, "cold takes a mask, a cold value and a hot value");
    const pp_value values[3] = {given[0].value, given[1].value, given[2].value};
    if (ev->mode != PP_EVAL_FUNCTION || given[0].value.kind != PP_V_TENSOR)
        return apply_row(ev, PP_SELECT, values, out);
    PP_TRY(common_dtype(ev, values + 1, 2, &dtype, &weak));
    PP_TRY(pp_eval_tensor(ev, &values[0], &x[0]));
    if (pp_flat_type(ev->flat, x[0])->dtype != PPTO_BOOL)
        return pp_eval_fail(ev, PPTO_E_DTYPE, "the mask is bool");
    PP_TRY(pp_eval_adopt(ev, &values[2], dtype, weak, &x[1]));
    PP_TRY(pp_eval_adopt(ev, &values[1], dtype, weak, &x[2]));
    pp_prim p = {
        .kind = PP_P_COLD, .number = PP_NONE, .origin = PP_NONE, .type = pp_flat_prim(ev->flat, x[1])->type};
    PP_TRY(pp_flat_add(ev->flat, &p, x, 3, &id));
    *out = pp_value_tensor(id);
    return PPTO_OK;
}

static ppto_status check(pp_eval *ev, const pp_given *given, size_t n, pp_value *out)
{
    uint32_t x[2];
    pp_prim p = {.kind = PP_P_CHECK, .number = PP_NONE, .origin = PP_NONE};
    if (ev->mode == PP_EVAL_FUNCTION) return PPTO_E_UNSUPPORTED;
    if (n != 3 || given[2].value.kind != PP_V_STR)
        return pp_eval_fail(ev, PPTO_E_VALUE, "check takes a condition, a value and a message");
    PP_TRY(pp_eval_tensor(ev, &given[1].value, &x[0]));
    PP_TRY(pp_eval_tensor(ev, &given[0].value, &x[1]));
    if (pp_flat_type(ev->flat, x[1])->dtype != PPTO_BOOL)
        return pp_eval_fail(ev, PPTO_E_DTYPE, "the condition is bool");
    PP_TRY(pp_eval_broadcast(ev, x, 2));
    p.type = pp_flat_prim(ev->flat, x[0])->type;
    pp_text text = {0}; /* {value} and {position} are filled in by the run */
    pp_eval_message(ev, given[2].value.u.text, &text, NULL);
    pp_library_lock(ev->library);
    p.u.message = text.failed ? NULL : pp_arena_strndup(pp_library_arena(ev->library), text.at, text.n);
    pp_library_unlock(ev->library);
    pp_text_free(&text);
    if (p.u.message == NULL) return pp_eval_nomem(ev);
    uint32_t id;
    PP_TRY(pp_flat_add(ev->flat, &p, x, 2, &id));
    *out = pp_value_tensor(id);
    return PPTO_OK;
}

/* The coordinate along an axis, in the shape of x. */
static ppto_status coordinate(pp_eval *ev, const pp_given *given, size_t n, pp_value *out)
{
    uint32_t x, axis, id;
    if (ev->mode == PP_EVAL_FUNCTION) return PPTO_E_UNSUPPORTED;
    if (n != 2) return pp_eval_fail(ev, PPTO_E_VALUE, "index takes a tensor and an axis");
    PP_TRY(pp_eval_tensor(ev, &given[0].value, &x));
    const pp_type *type = pp_flat_type(ev->flat, x);
    PP_TRY(pp_eval_axis(ev, &given[1].value, type->rank, &axis));
    pp_prim p = {.kind = PP_P_IOTA, .number = PP_NONE, .origin = PP_NONE};
    pp_type line = {.dtype = PPTO_I64, .rank = 1, .dim = {type->dim[axis]}};
    PP_TRY(pp_type_intern(ev->types, &line, &p.type));
    PP_TRY(pp_flat_add(ev->flat, &p, NULL, 0, &id));
    pp_size dims[PPTO_MAX_RANK];
    for (uint32_t i = 0; i < type->rank; i++) dims[i] = i == axis ? type->dim[i] : PP_SIZE_1;
    PP_TRY(pp_flat_reshape(ev->flat, id, type->rank, dims, &id));
    PP_TRY(pp_flat_broadcast(ev->flat, id, type->rank, type->dim, &id));
    *out = pp_value_tensor(id);
    return PPTO_OK;
}

bool pp_scalar_arity(const char *name, unsigned *least, unsigned *most)
{
    static const struct {
        const char *name;
        uint8_t least, most;
    } own[] = {{"table", 2, 3}, {"cold", 3, 3}, {"check", 3, 3}, {"index", 2, 2}};
    pp_op op;
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (strcmp(own[i].name, name) != 0) continue;
        *least = own[i].least;
        *most = own[i].most;
        return true;
    }
    if (!pp_scalar_parse(name, strlen(name), &op)) return false;
    *least = *most = op == PP_CAST || op == PP_BITCAST ? 2 : pp_scalar_find(op)->arity;
    return true;
}

ppto_status pp_eval_scalar(pp_eval *ev, const char *name, const pp_given *given, size_t n, pp_value *out)
{
    pp_op op;
    for (size_t i = 0; i < n; i++)
        if (given[i].keyword != NULL)
            return pp_eval_fail(ev, PPTO_E_VALUE, "scalar.%.40s takes no named arguments", name);
    if (strcmp(name, "table") == 0) return look_up(ev, given, n, out);
    if (strcmp(name, "cold") == 0) return cold(ev, given, n, out);
    if (strcmp(name, "check") == 0) return check(ev, given, n, out);
    if (strcmp(name, "index") == 0) return coordinate(ev, given, n, out);
    if (!pp_scalar_parse(name, strlen(name), &op))
        return pp_eval_fail(ev, PPTO_E_NAME, "no primitive scalar.%.40s", name);
    bool converts = op == PP_CAST || op == PP_BITCAST;
    unsigned arity = converts ? 2 : pp_scalar_find(op)->arity;
    if (n != arity)
        return pp_eval_fail(ev, PPTO_E_VALUE, "scalar.%.40s takes %u operands, not %zu", name, arity, n);
    if (converts) return convert(ev, op, &given[0].value, &given[1].value, out);
    pp_value x[3] = {{0}};
    for (size_t i = 0; i < n; i++) x[i] = given[i].value;
    return apply_row(ev, op, x, out);
}
