/* SPDX-License-Identifier: Apache-2.0
 * Arithmetic of record time: sizes (symbolic integers), floats, bools, words, dtypes, lists. Integers are
 * exact or an error; floats are f64 without libm, so that no result depends on the machine: a power with
 * another than an integer exponent is left to the operator pow (PPTO_E_UNSUPPORTED without a message).
 *
 * What sizes leave open is unknown and decided at the run (evaluate_condition.c). Only in the shipped texts
 * is
 * == a question of names: a named size agrees with itself only, so their rules broadcast by name. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "graph/evaluate.h"
#include "ops/scalar_inline.h"

static bool known(const pp_eval *ev, const pp_value *v, int64_t *out)
{
    return v->kind == PP_V_INT && pp_size_known(ev->sizes, v->u.size, out);
}

/* "`A OP B` is beyond i64 (…)". a NULL: of a sign. */
static ppto_status overflow(pp_eval *ev, pp_infix op, const pp_value *a, const pp_value *b)
{
    pp_text text = {0};
    if (ev->err == NULL) return PPTO_E_SIZE;
    if (a != NULL) pp_eval_print(ev, a, &text);
    pp_text_add(&text, a != NULL ? " %s " : "%s(", pp_infix_sign(op));
    pp_eval_print(ev, b, &text);
    pp_text_add(&text, a != NULL ? "` is beyond " : ")` is beyond ");
    pp_dtype_range(PPTO_I64, &text);
    ppto_status status =
        pp_eval_fail(ev, PPTO_E_SIZE, "`%s", text.at != NULL ? text.at : "an integer is beyond 64 bits");
    pp_text_free(&text);
    return status;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static bool int_power(int64_t base, int64_t exponent, int64_t *out)
{
    *out = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1 && !pp_mul_i64(*out, base, out)) return false;
        if (exponent > 1 && !pp_mul_i64(base, base, &base)) return false;
    }
    return true;
}

static double float_power(double base, int64_t exponent)
{
    double out = 1;
    uint64_t n = exponent < 0 ? 0 - (uint64_t)exponent : (uint64_t)exponent;
    for (; n > 0; n >>= 1) {
        if (n & 1) out *= base;
        base *= base;
    }
    return exponent < 0 ? 1 / out : out;
}

/* Both known. *handled false: leave it to floats. */
static ppto_status known_ints(pp_eval *ev, pp_infix op, int64_t a, int64_t b, bool *handled, pp_value *out)
{
    const pp_value x = pp_eval_number(ev, a), y = pp_eval_number(ev, b);
    int64_t r = 0;
    bool ok = true;
    *handled = true;
    if ((op == PP_I_FLOORDIV || op == PP_I_MOD) && (b == 0 || (b == -1 && a == INT64_MIN)))
        return b == 0 ? pp_eval_fail(ev, PPTO_E_VALUE, "a division by zero") : overflow(ev, op, &x, &y);
    switch (op) {
    case PP_I_ADD: ok = pp_add_i64(a, b, &r); break;
    case PP_I_SUB: ok = pp_sub_i64(a, b, &r); break;
    case PP_I_MUL: ok = pp_mul_i64(a, b, &r); break;
    case PP_I_FLOORDIV: r = floor_div(a, b); break;
    case PP_I_MOD: r = a - floor_div(a, b) * b; break;
    case PP_I_AND: r = a & b; break;
    case PP_I_OR: r = a | b; break;
    case PP_I_XOR: r = a ^ b; break;
    case PP_I_SHL: r = b < 0 || b > 63 ? 0 : (int64_t)((uint64_t)a << b); break;
    case PP_I_SHR: r = a >> (b < 0 || b > 63 ? 63 : b); break;
    case PP_I_POW:
        *handled = b >= 0;
        ok = b < 0 || int_power(a, b, &r);
        break;
    default: *handled = false; break;
    }
    if (!ok) return overflow(ev, op, &x, &y);
    if (*handled) *out = pp_eval_number(ev, r);
    return PPTO_OK;
}

static ppto_status symbolic_ints(pp_eval *ev, pp_infix op, pp_size a, pp_size b, bool *handled, pp_value *out)
{
    pp_size r = PP_SIZE_0;
    *handled = true;
    switch (op) {
    case PP_I_ADD: r = pp_size_add(ev->sizes, a, b); break;
    case PP_I_SUB: r = pp_size_sub(ev->sizes, a, b); break;
    case PP_I_MUL: r = pp_size_mul(ev->sizes, a, b); break;
    case PP_I_FLOORDIV: r = pp_size_floordiv(ev->sizes, a, b); break;
    case PP_I_MOD: r = pp_size_mod(ev->sizes, a, b); break;
    default: *handled = false; return PPTO_OK;
    }
    *out = pp_value_int(r);
    const pp_value x = pp_value_int(a), y = pp_value_int(b);
    ppto_status status = pp_sizes_status(ev->sizes);
    return status == PPTO_OK ? PPTO_OK : status == PPTO_E_SIZE ? overflow(ev, op, &x, &y) : pp_eval_sizes(ev);
}

static double float_mod(double a, double b)
{
    double m = pp_op_fmod_f64(a, b);
    if (m != 0 && (b < 0) != (m < 0)) m += b;
    return m;
}

static ppto_status floats(pp_eval *ev, pp_infix op, double a, double b, const pp_value *exponent,
                          pp_value *out)
{
    int64_t n;
    switch (op) {
    case PP_I_ADD: *out = pp_value_float(a + b); return PPTO_OK;
    case PP_I_SUB: *out = pp_value_float(a - b); return PPTO_OK;
    case PP_I_MUL: *out = pp_value_float(a * b); return PPTO_OK;
    case PP_I_DIV: *out = pp_value_float(a / b); return PPTO_OK;
    case PP_I_MOD: *out = pp_value_float(float_mod(a, b)); return PPTO_OK;
    case PP_I_FLOORDIV:
        *out = pp_value_float(b == 0 ? a / b : pp_op_rint_f64((a - float_mod(a, b)) / b));
        return PPTO_OK;
    case PP_I_POW:
        if (!known(ev, exponent, &n)) return PPTO_E_UNSUPPORTED;
        *out = pp_value_float(float_power(a, n));
        return PPTO_OK;
    case PP_I_LT: *out = pp_value_bool(a < b ? PP_TRUE : PP_FALSE); return PPTO_OK;
    case PP_I_LE: *out = pp_value_bool(a <= b ? PP_TRUE : PP_FALSE); return PPTO_OK;
    case PP_I_GT: *out = pp_value_bool(a > b ? PP_TRUE : PP_FALSE); return PPTO_OK;
    case PP_I_GE: *out = pp_value_bool(a >= b ? PP_TRUE : PP_FALSE); return PPTO_OK;
    default: return pp_eval_fail(ev, PPTO_E_VALUE, "`%s` needs integers", pp_infix_sign(op));
    }
}

/* ---- comparisons ------------------------------------------------------------------------------------- */

static bool is_integer(const pp_value *v)
{
    return v->kind == PP_V_INT || pp_value_is_wide(v);
}

/* An integer beyond f64, too. */
static bool is_infinite(const pp_value *v)
{
    return v->kind == PP_V_BEYOND && isinf(strtod(v->u.text, NULL));
}

static bool as_float(const pp_eval *ev, const pp_value *v, double *out)
{
    int64_t i;
    if (v->kind == PP_V_FLOAT)
        *out = v->u.f;
    else if (v->kind == PP_V_WIDE)
        *out = (double)v->u.bits;
    else if (v->kind == PP_V_BEYOND)
        *out = strtod(v->u.text, NULL); /* digits: every locale reads them alike */
    else if (known(ev, v, &i))
        *out = (double)i;
    else
        return false;
    return true;
}

static bool same_word(const pp_value *a, const pp_value *b)
{
    ppto_dtype dtype;
    const pp_value *word = a->kind == PP_V_STR ? a : b, *other = word == a ? b : a;
    if (other->kind == PP_V_STR) return strcmp(word->u.text, other->u.text) == 0;
    if (other->kind != PP_V_DTYPE || !pp_dtype_parse(word->u.text, strlen(word->u.text), &dtype))
        return false;
    return dtype == (ppto_dtype)other->u.dtype;
}

/* Of values that are not both integers or lists of one length. */
static bool is_equal(const pp_eval *ev, const pp_value *a, const pp_value *b)
{
    double x, y;
    bool same = a->kind == b->kind;
    if (pp_value_is_wide(a) && same) {
        same = a->kind == PP_V_WIDE ? a->u.bits == b->u.bits : strcmp(a->u.text, b->u.text) == 0;
    } else if (a->kind == PP_V_STR || b->kind == PP_V_STR) {
        same = same_word(a, b);
    } else if (same && a->kind == PP_V_DTYPE) {
        same = a->u.dtype == b->u.dtype;
    } else if (same && a->kind == PP_V_BOOL) {
        same = a->u.truth == b->u.truth && (a->u.truth != PP_UNKNOWN || a->u.margin == b->u.margin);
    } else if (pp_value_is_list(a) && pp_value_is_list(b)) {
        same = false;
    } else if (as_float(ev, a, &x) && as_float(ev, b, &y)) {
        same = x == y && !(is_integer(a) && is_integer(b));
    }
    return same;
}

/* Both may be sizes of the run. */
static pp_value equal_sizes(pp_eval *ev, pp_size a, pp_size b)
{
    bool shipped = ev->definition != NULL && ev->definition->builtin;
    if (a == b) return pp_value_bool(PP_TRUE);
    return shipped ? pp_value_bool(PP_FALSE) : pp_eval_is_same(ev, a, b);
}

pp_value pp_eval_equality(pp_eval *ev, const pp_value *a, const pp_value *b)
{
    if (a->kind == PP_V_INT && b->kind == PP_V_INT) return equal_sizes(ev, a->u.size, b->u.size);
    if (!pp_value_is_list(a) || !pp_value_is_list(b) || a->n != b->n)
        return pp_value_bool(is_equal(ev, a, b) ? PP_TRUE : PP_FALSE);
    pp_value all = pp_value_bool(PP_TRUE);
    for (uint32_t i = 0; i < a->n && all.u.truth != PP_FALSE; i++) {
        const pp_value one = pp_eval_equality(ev, &a->u.items[i], &b->u.items[i]);
        all = pp_eval_both(ev, false, &all, &one);
    }
    return all;
}

static ppto_status order(pp_eval *ev, pp_infix op, const pp_value *a, const pp_value *b, pp_value *out)
{
    bool swap = op == PP_I_GT || op == PP_I_GE, strict = op == PP_I_LT || op == PP_I_GT;
    pp_size x = swap ? b->u.size : a->u.size, y = swap ? a->u.size : b->u.size;
    *out = strict ? pp_eval_is_least(ev, y, x) : pp_eval_is_least(ev, x, y);
    if (strict) *out = pp_eval_not(ev, out);
    return pp_eval_sizes(ev);
}

/* ---- entry points ------------------------------------------------------------------------------------ */

static ppto_status join_lists(pp_eval *ev, const pp_value *a, const pp_value *b, pp_value *out)
{
    pp_value *items;
    PP_TRY(pp_eval_items(ev, (size_t)a->n + b->n, &items));
    if (a->n != 0) memcpy(items, a->u.items, a->n * sizeof *items);
    if (b->n != 0) memcpy(items + a->n, b->u.items, b->n * sizeof *items);
    *out = (pp_value){.kind = PP_V_LIST, .n = a->n + b->n, .u.items = items};
    return PPTO_OK;
}

static ppto_status bad_operands(pp_eval *ev, pp_infix op, const pp_value *a, const pp_value *b)
{
    pp_text text = {0};
    pp_value_print(ev->sizes, a, &text);
    pp_text_add(&text, " %s ", pp_infix_sign(op));
    pp_value_print(ev->sizes, b, &text);
    ppto_status status =
        pp_eval_fail(ev, PPTO_E_VALUE, "`%s` has no meaning", text.at != NULL ? text.at : "?");
    pp_text_free(&text);
    return status;
}

ppto_status pp_eval_infix(pp_eval *ev, pp_infix op, const pp_value *a, const pp_value *b, pp_value *out)
{
    int64_t i, j;
    double x, y;
    bool handled = false;
    if (op == PP_I_EQ || op == PP_I_NE) {
        *out = pp_eval_equality(ev, a, b);
        if (op == PP_I_NE) *out = pp_eval_not(ev, out);
        return out->u.truth == PP_UNKNOWN ? pp_eval_sizes(ev) : PPTO_OK;
    }
    if (op == PP_I_ADD && a->kind == PP_V_LIST && b->kind == PP_V_LIST) return join_lists(ev, a, b, out);
    if (a->kind == PP_V_INT && b->kind == PP_V_INT) {
        if (op >= PP_I_LT && op <= PP_I_GE) return order(ev, op, a, b, out);
        if (known(ev, a, &i) && known(ev, b, &j))
            PP_TRY(known_ints(ev, op, i, j, &handled, out));
        else
            PP_TRY(symbolic_ints(ev, op, a->u.size, b->u.size, &handled, out));
        if (handled) return PPTO_OK;
    }
    if (op < PP_I_EQ && op != PP_I_DIV && is_integer(a) && is_integer(b)) return overflow(ev, op, a, b);
    if (op < PP_I_EQ && is_infinite(a)) return pp_eval_no_fit(ev, a, PPTO_F64);
    if (op < PP_I_EQ && is_infinite(b)) return pp_eval_no_fit(ev, b, PPTO_F64);
    if (op >= PP_I_LT && op <= PP_I_GE && a->kind == PP_V_WIDE && b->kind == PP_V_WIDE) {
        bool less = a->u.bits<b->u.bits, more = a->u.bits> b->u.bits;
        bool yes = op == PP_I_LT ? less : op == PP_I_LE ? !more : op == PP_I_GT ? more : !less;
        *out = pp_value_bool(yes ? PP_TRUE : PP_FALSE);
        return PPTO_OK;
    }
    if (op == PP_I_MATMUL || op == PP_I_NEG || op == PP_I_INVERT) return bad_operands(ev, op, a, b);
    if (as_float(ev, a, &x) && as_float(ev, b, &y)) return floats(ev, op, x, y, b, out);
    if (pp_value_is_number(a) && pp_value_is_number(b) && a->kind != PP_V_BOOL && b->kind != PP_V_BOOL)
        return PPTO_E_UNSUPPORTED; /* a size and a float: a tensor of the run */
    return bad_operands(ev, op, a, b);
}

static bool literal_u64(const char *digits, uint64_t *out)
{
    char *end;
    errno = 0;
    unsigned long long bits = strtoull(digits, &end, strpbrk(digits, "xX") != NULL ? 16 : 10);
    if (errno != 0 || *end != '\0') return false;
    *out = bits;
    return true;
}

/* Below i64, so beyond every integer dtype: it keeps its digits, and is a u64 again with another sign. */
static ppto_status negate_wide(pp_eval *ev, const pp_value *a, pp_value *out)
{
    pp_text text = {0};
    bool negative = a->kind == PP_V_BEYOND && a->u.text[0] == '-';
    if (negative && literal_u64(a->u.text + 1, &out->u.bits)) {
        out->kind = PP_V_WIDE;
        return PPTO_OK;
    }
    if (!negative) pp_text_add(&text, "-");
    pp_value_print(ev->sizes, a, &text);
    const char *digits = text.failed ? NULL : pp_arena_strndup(ev->arena, text.at, text.n);
    pp_text_free(&text);
    if (digits == NULL) return pp_eval_nomem(ev);
    *out = (pp_value){.kind = PP_V_BEYOND, .u.text = digits + negative};
    return PPTO_OK;
}

ppto_status pp_eval_negate(pp_eval *ev, pp_infix op, const pp_value *a, pp_value *out)
{
    int64_t i;
    if (op == PP_I_INVERT) {
        if (pp_value_is_wide(a)) return overflow(ev, op, NULL, a);
        if (!known(ev, a, &i)) return bad_operands(ev, op, a, a);
        *out = pp_eval_number(ev, ~i);
        return PPTO_OK;
    }
    pp_value zero = pp_value_int(PP_SIZE_0);
    if (a->kind == PP_V_INT && known(ev, a, &i) && i == INT64_MIN) return overflow(ev, op, NULL, a);
    if (a->kind == PP_V_WIDE && a->u.bits == UINT64_C(1) << 63) {
        *out = pp_eval_number(ev, INT64_MIN);
        return PPTO_OK;
    }
    if (a->kind == PP_V_FLOAT) {
        *out = pp_value_float(-a->u.f);
        return PPTO_OK;
    }
    if (pp_value_is_wide(a)) return negate_wide(ev, a, out);
    return pp_eval_infix(ev, PP_I_SUB, &zero, a, out);
}

ppto_status pp_eval_truth(pp_eval *ev, const pp_value *value, pp_truth *out)
{
    int64_t i;
    if (value->kind == PP_V_BOOL) {
        *out = (pp_truth)value->u.truth;
        return PPTO_OK;
    }
    if (known(ev, value, &i)) {
        *out = i != 0 ? PP_TRUE : PP_FALSE;
        return PPTO_OK;
    }
    if (pp_value_is_tensor(value))
        return pp_eval_fail(
            ev, PPTO_E_VALUE,
            "a choice on a tensor's value, expected `where(condition, a, b)`; for elements, `&`, `|` "
            "and `~` stand for `and`, `or` and `not`, as in `(x > 0) & (x < 1)`");
    return pp_eval_fail(ev, PPTO_E_VALUE, "this is no condition, expected true or false");
}
