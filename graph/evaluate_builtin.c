/* SPDX-License-Identifier: Apache-2.0
 * The functions of record time. They look at shapes, dtypes, numbers and lists, never at a tensor's elements.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/evaluate.h"

typedef ppto_status (*builtin_fn)(pp_eval *ev, const pp_value *x, size_t n, pp_value *out);
typedef bool (*question)(const pp_eval *ev, const pp_value *x);

static ppto_status tensor_type(pp_eval *ev, const pp_value *x, const pp_type **type)
{
    *type = pp_eval_type(ev, x);
    return *type != NULL ? PPTO_OK : pp_eval_fail(ev, PPTO_E_VALUE, "expected a tensor");
}

ppto_status pp_eval_axis(pp_eval *ev, const pp_value *axis, int64_t rank, uint32_t *out)
{
    int64_t i;
    PP_TRY(pp_eval_int(ev, axis, "an axis", &i));
    if (i < -rank || i >= rank)
        return pp_eval_fail(ev, PPTO_E_VALUE, "axis %lld is out of range for rank %lld", (long long)i,
                            (long long)rank);
    *out = (uint32_t)(i < 0 ? i + rank : i);
    return PPTO_OK;
}

ppto_status pp_eval_axes(pp_eval *ev, const pp_value *axes, int64_t rank, uint32_t *set)
{
    uint32_t axis;
    *set = 0;
    if (axes->kind == PP_V_STR && strcmp(axes->u.text, "all") == 0) {
        *set = (1u << rank) - 1;
        return PPTO_OK;
    }
    if (!pp_value_is_list(axes)) {
        PP_TRY(pp_eval_axis(ev, axes, rank, &axis));
        *set = 1u << axis;
        return PPTO_OK;
    }
    for (uint32_t i = 0; i < axes->n; i++) {
        PP_TRY(pp_eval_axis(ev, &axes->u.items[i], rank, &axis));
        if (*set >> axis & 1) return pp_eval_fail(ev, PPTO_E_VALUE, "axis %u is given twice", axis);
        *set |= 1u << axis;
    }
    return PPTO_OK;
}

/* ---- tensors --------------------------------------------------------------------------------------- */

static ppto_status do_size(pp_eval *ev, const pp_value *x, size_t n, pp_value *out)
{
    const pp_type *type;
    uint32_t axis;
    PP_TRY(tensor_type(ev, &x[0], &type));
    if (n == 1) {
        *out = pp_value_int(pp_type_elements(ev->types, type));
        return PPTO_OK;
    }
    PP_TRY(pp_eval_axis(ev, &x[1], type->rank, &axis));
    *out = pp_value_int(type->dim[axis]);
    return PPTO_OK;
}

static ppto_status do_rank(pp_eval *ev, const pp_value *x, size_t n, pp_value *out)
{
    const pp_type *type;
    (void)n;
    PP_TRY(tensor_type(ev, &x[0], &type));
    *out = pp_eval_number(ev, type->rank);
    return PPTO_OK;
}

static ppto_status do_shape(pp_eval *ev, const pp_value *x, size_t n, pp_value *out)
{
    const pp_type *type;
    pp_value *items;
    (void)n;
    PP_TRY(tensor_type(ev, &x[0], &type));
    PP_TRY(pp_eval_items(ev, type->rank, &items));
    for (uint32_t i = 0; i < type->rank; i++) items[i] = pp_value_int(type->dim[i]);
    *out = (pp_value){.kind = PP_V_LIST, .n = type->rank, .u.items = items};
    return PPTO_OK;
}

/* ---- what a value is ------------------------------------------------------------------------------- */

static bool is_literal(const pp_eval *ev, const pp_value *x)
{
    int64_t known;
    return x->kind == PP_V_FLOAT || pp_value_is_wide(x) || x->kind == PP_V_BOOL ||
           (x->kind == PP_V_INT && pp_size_known(ev->sizes, x->u.size, &known));
}

/* Of constants only: other weak integers are within i64. */
static bool is_wide(const pp_eval *ev, const pp_value *x)
{
    (void)ev;
    return pp_value_is_wide(x);
}

static bool is_beyond(const pp_eval *ev, const pp_value *x)
{
    (void)ev;
    return x->kind == PP_V_BEYOND;
}

static bool is_list(const pp_eval *ev, const pp_value *x)
{
    (void)ev;
    return pp_value_is_list(x);
}

static bool is_none(const pp_eval *ev, const pp_value *x)
{
    (void)ev;
    return x->kind == PP_V_NONE;
}

static bool is_number(const pp_eval *ev, const pp_value *x)
{
    (void)ev;
    return pp_value_is_number(x);
}

/* An integer or a list of integers. */
static bool is_integers(const pp_eval *ev, const pp_value *x)
{
    (void)ev;
    if (!pp_value_is_list(x)) return x->kind == PP_V_INT;
    for (uint32_t i = 0; i < x->n; i++)
        if (x->u.items[i].kind != PP_V_INT) return false;
    return true;
}

static ppto_status do_literal(pp_eval *ev, const pp_value *x, size_t n, pp_value *out)
{
    (void)n;
    *out = is_literal(ev, x) ? *x : (pp_value){.kind = PP_V_NONE};
    return PPTO_OK;
}

/* ---- dtypes ---------------------------------------------------------------------------------------- */

static ppto_status dtype_of(pp_eval *ev, const pp_value *x, ppto_dtype *out)
{
    if (x->kind == PP_V_DTYPE) {
        *out = (ppto_dtype)x->u.dtype;
        return PPTO_OK;
    }
    if (x->kind == PP_V_STR && pp_dtype_parse(x->u.text, strlen(x->u.text), out)) return PPTO_OK;
    return pp_eval_fail(ev, PPTO_E_VALUE, "expected a dtype such as f32");
}

static ppto_status do_width(pp_eval *ev, const pp_value *x, size_t n, pp_value *out)
{
    ppto_dtype dtype = PPTO_F32;
    (void)n;
    PP_TRY(dtype_of(ev, x, &dtype));
    *out = pp_eval_number(ev, pp_dtype_width(dtype));
    return PPTO_OK;
}

static ppto_status do_promote(pp_eval *ev, const pp_value *x, size_t n, pp_value *out)
{
    ppto_dtype a = PPTO_F32, b = PPTO_F32, both;
    (void)n;
    PP_TRY(dtype_of(ev, &x[0], &a));
    PP_TRY(dtype_of(ev, &x[1], &b));
    if (pp_dtype_promote(a, b, &both) != PPTO_OK)
        return pp_eval_fail(ev, PPTO_E_DTYPE, "%s and %s have no common dtype: cast one with astype",
                            ppto_dtype_name(a), ppto_dtype_name(b));
    *out = pp_value_of_dtype(both);
    return PPTO_OK;
}

/* ---- axes and lists ---------------------------------------------------------------------------------- */

static ppto_status do_normal_axis(pp_eval *ev, const pp_value *x, size_t n, pp_value *out)
{
    int64_t rank;
    uint32_t axis;
    (void)n;
    PP_TRY(pp_eval_int(ev, &x[1], "a rank", &rank));
    PP_TRY(pp_eval_axis(ev, &x[0], rank, &axis));
    *out = pp_eval_number(ev, axis);
    return PPTO_OK;
}

static ppto_status do_normal_axes(pp_eval *ev, const pp_value *x, size_t n, pp_value *out)
{
    int64_t rank;
    uint32_t set, count = 0;
    pp_value *items;
    (void)n;
    PP_TRY(pp_eval_int(ev, &x[1], "a rank", &rank));
    if (rank > PPTO_MAX_RANK)
        return pp_eval_fail(ev, PPTO_E_SHAPE, "rank %lld is above %d", (long long)rank, PPTO_MAX_RANK);
    PP_TRY(pp_eval_axes(ev, &x[0], rank, &set));
    PP_TRY(pp_eval_items(ev, PPTO_MAX_RANK, &items));
    for (uint32_t i = 0; i < PPTO_MAX_RANK; i++)
        if (set >> i & 1) items[count++] = pp_eval_number(ev, i);
    *out = (pp_value){.kind = PP_V_LIST, .n = count, .u.items = items};
    return PPTO_OK;
}

static ppto_status do_range(pp_eval *ev, const pp_value *x, size_t n, pp_value *out)
{
    int64_t first = 0, last, step = 1;
    pp_value *items;
    PP_TRY(pp_eval_int(ev, &x[n == 1 ? 0 : 1], "the end of a range", &last));
    if (n > 1) PP_TRY(pp_eval_int(ev, &x[0], "the start of a range", &first));
    if (n > 2) PP_TRY(pp_eval_int(ev, &x[2], "the step of a range", &step));
    if (step == 0) return pp_eval_fail(ev, PPTO_E_VALUE, "a range needs a step other than 0");
    int64_t count = step > 0 ? (last > first ? (last - first - 1) / step + 1 : 0)
                             : (first > last ? (first - last - 1) / -step + 1 : 0);
    if (count > 1000000)
        return pp_eval_fail(ev, PPTO_E_LIMIT, "a range of %lld items is too long", (long long)count);
    PP_TRY(pp_eval_items(ev, (size_t)count, &items));
    for (int64_t i = 0; i < count; i++) items[i] = pp_eval_number(ev, first + i * step);
    *out = (pp_value){.kind = PP_V_LIST, .n = (uint32_t)count, .u.items = items};
    return PPTO_OK;
}

static ppto_status need_list(pp_eval *ev, const pp_value *x)
{
    return pp_value_is_list(x) ? PPTO_OK : pp_eval_fail(ev, PPTO_E_VALUE, "expected a list");
}

static ppto_status do_len(pp_eval *ev, const pp_value *x, size_t n, pp_value *out)
{
    (void)n;
    PP_TRY(need_list(ev, x));
    *out = pp_eval_number(ev, x->n);
    return PPTO_OK;
}

static ppto_status do_product(pp_eval *ev, const pp_value *x, size_t n, pp_value *out)
{
    pp_value product = pp_value_int(PP_SIZE_1);
    (void)n;
    PP_TRY(need_list(ev, x));
    for (uint32_t i = 0; i < x->n; i++)
        PP_TRY(pp_eval_infix(ev, PP_I_MUL, &product, &x->u.items[i], &product));
    *out = product;
    return PPTO_OK;
}

static ppto_status do_contains(pp_eval *ev, const pp_value *x, size_t n, pp_value *out)
{
    pp_value any = pp_value_bool(PP_FALSE);
    (void)n;
    PP_TRY(need_list(ev, x));
    for (uint32_t i = 0; i < x->n && any.u.truth != PP_TRUE; i++) {
        const pp_value one = pp_eval_equality(ev, &x->u.items[i], &x[1]);
        any = pp_eval_both(ev, true, &any, &one);
    }
    *out = any;
    return any.u.truth == PP_UNKNOWN ? pp_eval_sizes(ev) : PPTO_OK;
}

static ppto_status do_sorted(pp_eval *ev, const pp_value *x, size_t n, pp_value *out)
{
    pp_value *items, less = {0};
    (void)n;
    PP_TRY(need_list(ev, x));
    PP_TRY(pp_eval_items(ev, x->n, &items));
    for (uint32_t i = 0; i < x->n; i++) { /* by insertion: lists of axes */
        uint32_t k = i;
        for (; k > 0; k--) {
            PP_TRY(pp_eval_infix(ev, PP_I_LT, &x->u.items[i], &items[k - 1], &less));
            if (less.u.truth != PP_TRUE) break;
            items[k] = items[k - 1];
        }
        items[k] = x->u.items[i];
    }
    *out = (pp_value){.kind = PP_V_LIST, .n = x->n, .u.items = items};
    return PPTO_OK;
}

/* ---- numbers --------------------------------------------------------------------------------------- */

static ppto_status do_int(pp_eval *ev, const pp_value *x, size_t n, pp_value *out)
{
    (void)n;
    *out = *x;
    if (x->kind == PP_V_INT || pp_value_is_wide(x)) return PPTO_OK;
    if (x->kind == PP_V_BOOL) {
        *out = pp_value_int(pp_eval_indicator(ev, x));
        return PPTO_OK;
    }
    if (x->kind == PP_V_FLOAT && !(fabs(x->u.f) < 0x1p63))
        return pp_eval_fail(ev, PPTO_E_VALUE, "the number is not finite or beyond 64 bits");
    if (x->kind != PP_V_FLOAT)
        return pp_eval_fail(ev, PPTO_E_VALUE, "int() needs a number that is known when recorded");
    *out = pp_eval_number(ev, (int64_t)x->u.f);
    return PPTO_OK;
}

static ppto_status do_float(pp_eval *ev, const pp_value *x, size_t n, pp_value *out)
{
    uint64_t bits;
    double f;
    (void)n;
    PP_TRY(pp_eval_bits(ev, x, PPTO_F64, &bits));
    memcpy(&f, &bits, sizeof f);
    *out = pp_value_float(f);
    return PPTO_OK;
}

static ppto_status extreme(pp_eval *ev, bool greatest, const pp_value *x, pp_value *out)
{
    pp_value less = {0};
    if (x[0].kind == PP_V_INT && x[1].kind == PP_V_INT) {
        pp_size r = greatest ? pp_size_max(ev->sizes, x[0].u.size, x[1].u.size)
                             : pp_size_min(ev->sizes, x[0].u.size, x[1].u.size);
        *out = pp_value_int(r);
        return PPTO_OK;
    }
    PP_TRY(pp_eval_infix(ev, PP_I_LT, &x[0], &x[1], &less));
    *out = (less.u.truth == PP_TRUE) == greatest ? x[1] : x[0];
    return PPTO_OK;
}

static const struct {
    const char *name;
    uint8_t least, most;
    builtin_fn fn;  /* or */
    question ask;   /* is the value so? or */
    unsigned kinds; /* is the dtype of one of these, bits by pp_kind? */
} builtins[] = {
    {"size", 1, 2, .fn = do_size},
    {"rank", 1, 1, .fn = do_rank},
    {"shape", 1, 1, .fn = do_shape},
    {"range", 1, 3, .fn = do_range},
    {"len", 1, 1, .fn = do_len},
    {"is_float", 1, 1, .kinds = 1u << PP_KIND_FLOAT},
    {"is_int", 1, 1, .kinds = 1u << PP_KIND_INT | 1u << PP_KIND_UINT},
    {"is_signed", 1, 1, .kinds = 1u << PP_KIND_INT},
    {"is_bool", 1, 1, .kinds = 1u << PP_KIND_BOOL},
    {"width", 1, 1, .fn = do_width},
    {"promote", 2, 2, .fn = do_promote},
    {"is_weak", 1, 1, .ask = pp_eval_is_weak},
    {"is_literal", 1, 1, .ask = is_literal},
    {"is_wide", 1, 1, .ask = is_wide},
    {"is_beyond", 1, 1, .ask = is_beyond},
    {"literal", 1, 1, .fn = do_literal},
    {"normal_axis", 2, 2, .fn = do_normal_axis},
    {"normal_axes", 2, 2, .fn = do_normal_axes},
    {"product", 1, 1, .fn = do_product},
    {"sorted", 1, 1, .fn = do_sorted},
    {"contains", 2, 2, .fn = do_contains},
    {"is_list", 1, 1, .ask = is_list},
    {"is_none", 1, 1, .ask = is_none},
    {"is_integers", 1, 1, .ask = is_integers},
    {"is_number", 1, 1, .ask = is_number},
    {"int", 1, 1, .fn = do_int},
    {"float", 1, 1, .fn = do_float},
};

bool pp_builtin_arity(const char *name, unsigned *least, unsigned *most)
{
    for (size_t i = 0; i < sizeof builtins / sizeof builtins[0]; i++) {
        if (strcmp(builtins[i].name, name) != 0) continue;
        *least = builtins[i].least;
        *most = builtins[i].most;
        return true;
    }
    return false;
}

/* The answer of row `at` of the table. */
static ppto_status answer(pp_eval *ev, size_t at, const pp_value *x, size_t n, pp_value *out)
{
    ppto_dtype dtype = PPTO_BOOL;
    bool yes;
    if (builtins[at].fn != NULL) return builtins[at].fn(ev, x, n, out);
    if (builtins[at].ask != NULL) {
        yes = builtins[at].ask(ev, x);
    } else {
        PP_TRY(dtype_of(ev, x, &dtype));
        yes = builtins[at].kinds >> pp_dtype_kind(dtype) & 1;
    }
    *out = pp_value_bool(yes ? PP_TRUE : PP_FALSE);
    return PPTO_OK;
}

ppto_status pp_eval_builtin(pp_eval *ev, const char *name, const pp_given *given, size_t n, bool *found,
                            pp_value *out)
{
    pp_value x[3] = {{0}};
    bool named = false, greatest = strcmp(name, "max") == 0;
    *found = false;
    for (size_t i = 0; i < n && i < 3; i++) x[i] = given[i].value;
    for (size_t i = 0; i < n; i++) named = named || given[i].keyword != NULL;
    if (greatest || strcmp(name, "min") == 0) { /* of two numbers; else the reduction */
        *found = n == 2 && !named && pp_value_is_number(&x[0]) && pp_value_is_number(&x[1]);
        return *found ? extreme(ev, greatest, x, out) : PPTO_OK;
    }
    for (size_t i = 0; i < sizeof builtins / sizeof builtins[0]; i++) {
        if (strcmp(builtins[i].name, name) != 0) continue;
        *found = true;
        if (named || n < builtins[i].least || n > builtins[i].most)
            return pp_eval_fail(ev, PPTO_E_VALUE, "%s() takes %u to %u arguments, not named", name,
                                builtins[i].least, builtins[i].most);
        return answer(ev, i, x, n, out);
    }
    return PPTO_OK;
}
