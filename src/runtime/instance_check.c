/* SPDX-License-Identifier: Apache-2.0
 * What recording could not decide because a size was only a name: once the sizes are known and before
 * anything is laid out or run, every view must lie inside its operand, no size may be negative, and a
 * reduction over an axis of size 0 needs a unit. Without this a kernel would read beyond a buffer. */
#include "base/checked.h"
#include "runtime/runtime.h"

typedef struct shape {
    int64_t dim[PPTO_MAX_RANK];
    bool empty;
} shape;

static ppto_status shape_of(const pp_plan *plan, const int64_t *names, uint32_t prim, shape *out,
                            pp_error *err)
{
    const pp_type *type = pp_flat_type(&plan->flat, prim);
    out->empty = false;
    for (uint32_t i = 0; i < type->rank; i++) {
        PP_TRY(pp_size_eval(pp_types_sizes(plan->types), type->dim[i], names, &out->dim[i]));
        if (out->dim[i] < 0)
            return pp_fail(err, PPTO_E_SHAPE, "%s: axis %u would have the size %lld",
                           pp_plan_origin(plan, prim)->operator_name, i, (long long)out->dim[i]);
        out->empty = out->empty || out->dim[i] == 0;
    }
    return PPTO_OK;
}

static ppto_status outside(const pp_plan *plan, uint32_t prim, int64_t at, const shape *x, pp_error *err)
{
    uint32_t axis = plan->flat.prims.at[prim].axis;
    return pp_fail(err, PPTO_E_VALUE, "%s: %lld is out of range for axis %u of size %lld",
                   pp_plan_origin(plan, prim)->operator_name, (long long)at, axis, (long long)x->dim[axis]);
}

static ppto_status check_slice(const pp_plan *plan, const int64_t *names, uint32_t id, const shape *x,
                               const shape *y, pp_error *err)
{
    const pp_prim *p = &plan->flat.prims.at[id];
    int64_t start, last;
    PP_TRY(pp_size_eval(pp_types_sizes(plan->types), p->u.slice.start, names, &start));
    if (!pp_mul_i64(y->dim[p->axis] - 1, p->u.slice.step, &last) || !pp_add_i64(start, last, &last))
        return pp_fail(err, PPTO_E_SIZE, "a size overflows 64 bits");
    if (start < 0 || start >= x->dim[p->axis]) return outside(plan, id, start, x, err);
    return last < 0 || last >= x->dim[p->axis] ? outside(plan, id, last, x, err) : PPTO_OK;
}

static ppto_status check_pad(const pp_plan *plan, const int64_t *names, uint32_t id, const shape *x,
                             const shape *y, pp_error *err)
{
    const pp_prim *p = &plan->flat.prims.at[id];
    int64_t before;
    PP_TRY(pp_size_eval(pp_types_sizes(plan->types), p->u.before, names, &before));
    if (before >= 0 && before <= y->dim[p->axis] - x->dim[p->axis]) return PPTO_OK;
    return pp_fail(err, PPTO_E_VALUE, "%s: a width is negative", pp_plan_origin(plan, id)->operator_name);
}

static ppto_status check_reduce(const pp_plan *plan, uint32_t id, const shape *x, pp_error *err)
{
    const pp_prim *p = &plan->flat.prims.at[id];
    const pp_type *type = pp_flat_type(&plan->flat, pp_flat_operands(&plan->flat, id)[0]);
    bool nothing = false, results = true;
    for (uint32_t i = 0; i < type->rank; i++) {
        bool reduced = p->u.fold.axes >> i & 1;
        nothing = nothing || (reduced && x->dim[i] == 0);
        results = results && (reduced || x->dim[i] != 0);
    }
    if (!nothing || !results) return PPTO_OK;
    const pp_monoid *monoid = p->u.fold.monoid;
    const char *name = pp_plan_origin(plan, id)->operator_name;
    if (!monoid->has_unit) return pp_fail(err, PPTO_E_SHAPE, "%s: an axis of size 0 has no result", name);
    for (uint32_t i = 0; i < monoid->n_results; i++) /* kernels leave 0 where they fold nothing */
        if (monoid->unit[i] != 0)
            return pp_fail(err, PPTO_E_UNSUPPORTED,
                           "%s: an axis whose size was a name when it was recorded has the size 0", name);
    return PPTO_OK;
}

ppto_status pp_instance_check(const pp_plan *plan, const int64_t *names, pp_error *err)
{
    for (uint32_t id = 0; id < plan->flat.prims.n; id++) {
        const pp_prim *p = &plan->flat.prims.at[id];
        shape x = {{0}, false}, y;
        PP_TRY(shape_of(plan, names, id, &y, err));
        if (p->n_operands == 0) continue;
        PP_TRY(shape_of(plan, names, pp_flat_operands(&plan->flat, id)[0], &x, err));
        if (p->kind == PP_P_SLICE && !y.empty) PP_TRY(check_slice(plan, names, id, &x, &y, err));
        if (p->kind == PP_P_PAD) PP_TRY(check_pad(plan, names, id, &x, &y, err));
        if (p->kind == PP_P_REDUCE) PP_TRY(check_reduce(plan, id, &x, err));
    }
    return PPTO_OK;
}
