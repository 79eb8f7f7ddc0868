/* SPDX-License-Identifier: Apache-2.0
 * Numbers known on the host before a launch: literals, sizes, numbers bound at run, and maps of these,
 * evaluated in order with the same scalar functions as everywhere. A weak number that does not fit is an
 * error of the run. */
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

/* Does a weak i64 or f64 keep its value in dtype? Floats may round. */
static ppto_status weak_cast(ppto_dtype from, ppto_dtype to, uint64_t bits, uint64_t *out, pp_error *err)
{
    *out = pp_scalar_eval(PP_CAST, from, to, bits, 0, 0);
    if (from != PPTO_I64 || !pp_dtype_is_integer(to)) return PPTO_OK;
    int64_t value = (int64_t)bits, back = (int64_t)pp_scalar_eval(PP_CAST, to, PPTO_I64, *out, 0, 0);
    if (back == value && !(to == PPTO_U64 && value < 0)) return PPTO_OK;
    return pp_fail(err, PPTO_E_VALUE, "the number %lld does not fit %s", (long long)value,
                   ppto_dtype_name(to));
}

static ppto_status weak_overflow(pp_op op, uint64_t a, uint64_t b, pp_error *err)
{
    int64_t r;
    bool over = (op == PP_ADD && __builtin_add_overflow((int64_t)a, (int64_t)b, &r)) ||
                (op == PP_SUB && __builtin_sub_overflow((int64_t)a, (int64_t)b, &r)) ||
                (op == PP_MUL && __builtin_mul_overflow((int64_t)a, (int64_t)b, &r));
    return over ? pp_fail(err, PPTO_E_VALUE, "%s of the numbers %lld and %lld overflows",
                          pp_scalar_find(op)->name, (long long)a, (long long)b)
                : PPTO_OK;
}

static ppto_status map_value(const pp_plan *plan, const pp_prim *p, const uint64_t *values, uint64_t *out,
                             pp_error *err)
{
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
    if (p->op == PP_CAST && p->weak_cast) return weak_cast(from, (ppto_dtype)type->dtype, x[0], out, err);
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
        default: PP_TRY(map_value(plan, p, values, &values[i], err));
        }
    }
    return PPTO_OK;
}
