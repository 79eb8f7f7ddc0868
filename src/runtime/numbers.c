/* SPDX-License-Identifier: Apache-2.0
 * Numbers known on the host before a launch: literals, sizes, numbers bound at run, and maps of these,
 * evaluated in order with the same scalar functions as everywhere. A weak number that does not fit is an
 * error of the run. */
#include <inttypes.h>
#include <string.h>

#include "base/fault.h"
#include "kernel/function_eval.h"
#include "runtime/runtime.h"

static uint64_t value_of(const pp_plan *plan, const uint64_t *values, uint32_t prim)
{
    size_t lo = 0, hi = plan->numbers.n;
    while (lo + 1 < hi) {
        size_t mid = (lo + hi) / 2;
        if (plan->numbers.at[mid] <= prim)
            lo = mid;
        else
            hi = mid;
    }
    return values[lo];
}

uint64_t pp_number_value(const pp_plan *plan, const uint64_t *values, uint32_t prim)
{
    return value_of(plan, values, prim);
}

static double float_of(uint64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

/* "OP: the number 300 bound to t does not fit u8 (0 to 255)". operand: the prim it is the value of. */
static ppto_status no_fit(const pp_plan *plan, uint32_t prim, uint32_t operand, uint64_t bits, ppto_dtype to,
                          pp_error *err)
{
    const pp_prim *of = &plan->flat.prims.at[operand];
    pp_text text = {0};
    pp_text_add(&text, "%s: the number ", pp_plan_operator(plan, prim));
    if (pp_dtype_is_float((ppto_dtype)pp_flat_type(&plan->flat, operand)->dtype))
        pp_text_add(&text, "%.17g", float_of(bits));
    else
        pp_text_add(&text, "%" PRId64, (int64_t)bits);
    if (of->kind == PP_P_INPUT) pp_text_add(&text, " bound to %s", plan->inputs.at[of->number].name);
    pp_text_add(&text, " does not fit ");
    pp_dtype_range(to, &text);
    ppto_status status = pp_fail(err, PPTO_E_VALUE, "%s", text.failed ? "a number does not fit" : text.at);
    pp_text_free(&text);
    return status;
}

/* A weak i64 or f64 keeps its value in the dtype, or it is an error; floats may round. */
static ppto_status weak_cast(const pp_plan *plan, uint32_t prim, uint32_t operand, uint64_t bits,
                             uint64_t *out, pp_error *err)
{
    ppto_dtype from = (ppto_dtype)pp_flat_type(&plan->flat, operand)->dtype;
    ppto_dtype to = (ppto_dtype)pp_flat_type(&plan->flat, prim)->dtype;
    bool fits = from == PPTO_I64 ? pp_dtype_holds(to, (int64_t)bits) : !pp_dtype_is_integer(to);
    *out = pp_scalar_eval(PP_CAST, from, to, bits, 0, 0);
    return fits || to == PPTO_BOOL ? PPTO_OK : no_fit(plan, prim, operand, bits, to, err);
}

static ppto_status weak_overflow(pp_op op, uint64_t a, uint64_t b, pp_error *err)
{
    int64_t r, x = (int64_t)a, y = (int64_t)b;
    if ((op == PP_NEG || op == PP_ABS) && x == INT64_MIN)
        return pp_fail(err, PPTO_E_VALUE, "%s of the number %" PRId64 " overflows i64",
                       pp_scalar_find(op)->name, x);
    bool over = (op == PP_ADD && __builtin_add_overflow(x, y, &r)) ||
                (op == PP_SUB && __builtin_sub_overflow(x, y, &r)) ||
                (op == PP_MUL && __builtin_mul_overflow(x, y, &r)) ||
                (op == PP_IDIV && x == INT64_MIN && y == -1);
    return over ? pp_fail(err, PPTO_E_VALUE, "%s of the numbers %" PRId64 " and %" PRId64 " overflows i64",
                          pp_scalar_find(op)->name, x, y)
                : PPTO_OK;
}

static ppto_status map_value(const pp_plan *plan, uint32_t id, const uint64_t *values, uint64_t *out,
                             pp_error *err)
{
    const pp_prim *p = &plan->flat.prims.at[id];
    uint64_t x[12] = {0};
    const uint32_t *operand = plan->flat.operands.at + p->first_operand;
    const pp_type *type = pp_type_get(plan->types, p->type);
    for (uint32_t k = 0; k < p->n_operands && k < 12; k++) x[k] = value_of(plan, values, operand[k]);
    if (p->op == PP_CALL) {
        uint64_t results[4] = {0};
        PP_TRY(pp_function_eval(p->u.function, x, results));
        *out = results[0];
        return PPTO_OK;
    }
    ppto_dtype from = (ppto_dtype)pp_flat_type(&plan->flat, operand[p->n_operands - 1])->dtype;
    if (p->op == PP_CAST && p->weak_cast) return weak_cast(plan, id, operand[0], x[0], out, err);
    if (type->weak && type->dtype == PPTO_I64) PP_TRY(weak_overflow((pp_op)p->op, x[0], x[1], err));
    *out = pp_scalar_eval((pp_op)p->op, from, (ppto_dtype)type->dtype, x[0], x[1], x[2]);
    return PPTO_OK;
}

static ppto_status bound_value(const pp_plan *plan, const pp_prim *p, ppto_array *const *inputs,
                               uint64_t *out, pp_error *err)
{
    const ppto_array *a = inputs[p->number];
    ppto_dtype want = (ppto_dtype)pp_type_get(plan->types, p->type)->dtype;
    uint64_t bits = 0;
    memcpy(&bits, a->data, ppto_dtype_size(a->dtype));
    *out = pp_scalar_eval(PP_CAST, a->dtype, want, bits, 0, 0);
    if (want == PPTO_I64 && a->dtype == PPTO_U64 && bits > INT64_MAX)
        return pp_fail(err, PPTO_E_VALUE,
                       "input %s is a number of i64, but %" PRIu64 " is bound to it: declare it as u64",
                       plan->inputs.at[p->number].name, bits);
    if (want == PPTO_I64 && pp_dtype_is_float(a->dtype))
        return pp_fail(err, PPTO_E_DTYPE, "input %s is a whole number, but %g is bound to it",
                       plan->inputs.at[p->number].name, a->dtype == PPTO_F64 ? float_of(bits) : 0.0);
    return PPTO_OK;
}

ppto_status pp_numbers_eval(const pp_plan *plan, const int64_t *names, ppto_array *const *inputs,
                            const uint64_t *literals, uint64_t *values, pp_error *err)
{
    for (size_t i = 0; i < plan->numbers.n; i++) {
        const pp_prim *p = &plan->flat.prims.at[plan->numbers.at[i]];
        int64_t size;
        switch (p->kind) {
        case PP_P_LITERAL:
            values[i] =
                p->number != PP_NONE && p->number < plan->n_literals ? literals[p->number] : p->u.bits;
            break;
        case PP_P_SIZE:
            PP_TRY(pp_size_eval(pp_types_sizes(plan->types), p->u.size, names, &size));
            values[i] = (uint64_t)size;
            break;
        case PP_P_INPUT:
            if (pp_fault(PP_FAULT_STALE_SCALAR) && values[i] != 0) break;
            PP_TRY(bound_value(plan, p, inputs, &values[i], err));
            break;
        default: PP_TRY(map_value(plan, plan->numbers.at[i], values, &values[i], err));
        }
    }
    return PPTO_OK;
}
