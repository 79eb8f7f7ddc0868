/* SPDX-License-Identifier: Apache-2.0
 * Constructors of flat graphs. Each computes the type of its result; what cannot change a value is not added
 * at all. The law of reductions (docs/semantics.md) is here too: which reduced dims go along lanes and which
 * along rows. */
#include "graph/flat.h"
#include "kernel/function_eval.h"

#include <string.h>

static ppto_status new_type(pp_flat *flat, uint8_t dtype, bool weak, uint32_t rank, const pp_size *dims,
                            pp_type_id *id)
{
    pp_type type = {.dtype = dtype, .weak = weak, .rank = (uint8_t)rank};
    if (rank > PPTO_MAX_RANK) return PPTO_E_INTERNAL;
    if (rank != 0) memcpy(type.dim, dims, rank * sizeof *dims);
    return pp_type_intern(flat->types, &type, id);
}

void pp_flat_init(pp_flat *flat, pp_types *types)
{
    memset(flat, 0, sizeof *flat);
    flat->types = types;
}

void pp_flat_free(pp_flat *flat)
{
    pp_vec_free(&flat->syncs);
    pp_vec_free(&flat->prims);
    pp_vec_free(&flat->operands);
    pp_vec_free(&flat->outputs);
    pp_vec_free(&flat->conditions);
}

ppto_status pp_flat_add(pp_flat *flat, const pp_prim *prim, const uint32_t *operands, uint32_t n,
                        uint32_t *id)
{
    for (uint32_t i = 0; i < n; i++)
        if (operands[i] >= flat->prims.n) return PPTO_E_INTERNAL;
    if (flat->prims.n >= PP_NONE - 1) return PPTO_E_LIMIT;
    PP_TRY(pp_vec_reserve(&flat->operands, flat->operands.n + n));
    PP_TRY(pp_vec_reserve(&flat->prims, flat->prims.n + 1));
    pp_prim *own = &flat->prims.at[flat->prims.n];
    *own = *prim;
    own->first_operand = (uint32_t)flat->operands.n;
    own->n_operands = n;
    if (n != 0) memcpy(flat->operands.at + flat->operands.n, operands, n * sizeof *operands);
    flat->operands.n += n;
    *id = (uint32_t)flat->prims.n++;
    return PPTO_OK;
}

/* ---- views ------------------------------------------------------------------------------------------- */

ppto_status pp_flat_permute(pp_flat *flat, uint32_t x, const uint8_t *axes, uint32_t *id)
{
    const pp_type *type = pp_flat_type(flat, x);
    pp_prim prim = {.kind = PP_P_PERMUTE, .number = PP_NONE, .origin = PP_NONE};
    pp_size dims[PPTO_MAX_RANK];
    uint32_t seen = 0;
    bool same = true;
    for (uint32_t i = 0; i < type->rank; i++) {
        if (axes[i] >= type->rank || (seen >> axes[i] & 1)) return PPTO_E_INTERNAL;
        seen |= 1u << axes[i];
        same = same && axes[i] == i;
        dims[i] = type->dim[axes[i]];
        prim.u.axes[i] = axes[i];
    }
    *id = x;
    if (same) return PPTO_OK;
    PP_TRY(new_type(flat, type->dtype, type->weak, type->rank, dims, &prim.type));
    return pp_flat_add(flat, &prim, &x, 1, id);
}

static bool same_dims(const pp_type *type, uint32_t rank, const pp_size *dims)
{
    return type->rank == rank && (rank == 0 || memcmp(type->dim, dims, rank * sizeof *dims) == 0);
}

ppto_status pp_flat_reshape(pp_flat *flat, uint32_t x, uint32_t rank, const pp_size *dims, uint32_t *id)
{
    const pp_type *type = pp_flat_type(flat, x);
    pp_prim prim = {.kind = PP_P_RESHAPE, .number = PP_NONE, .origin = PP_NONE};
    *id = x;
    if (same_dims(type, rank, dims)) return PPTO_OK;
    PP_TRY(new_type(flat, type->dtype, type->weak, rank, dims, &prim.type));
    if (pp_type_elements(flat->types, type) !=
        pp_type_elements(flat->types, pp_type_get(flat->types, prim.type)))
        return PPTO_E_INTERNAL;
    return pp_flat_add(flat, &prim, &x, 1, id);
}

ppto_status pp_flat_broadcast(pp_flat *flat, uint32_t x, uint32_t rank, const pp_size *dims, uint32_t *id)
{
    const pp_type *type = pp_flat_type(flat, x);
    pp_prim prim = {.kind = PP_P_BROADCAST, .number = PP_NONE, .origin = PP_NONE};
    *id = x;
    if (same_dims(type, rank, dims)) return PPTO_OK;
    if (type->rank > rank) return PPTO_E_INTERNAL;
    for (uint32_t i = 0; i < type->rank; i++) {
        pp_size own = type->dim[i], to = dims[rank - type->rank + i];
        if (own != to && own != PP_SIZE_1) return PPTO_E_INTERNAL;
    }
    PP_TRY(new_type(flat, type->dtype, type->weak, rank, dims, &prim.type));
    return pp_flat_add(flat, &prim, &x, 1, id);
}

ppto_status pp_flat_slice(pp_flat *flat, uint32_t x, uint32_t axis, pp_size start, pp_size length,
                          int64_t step, uint32_t *id)
{
    const pp_type *type = pp_flat_type(flat, x);
    pp_prim prim = {.kind = PP_P_SLICE, .axis = (uint8_t)axis, .number = PP_NONE, .origin = PP_NONE};
    pp_size dims[PPTO_MAX_RANK];
    *id = x;
    if (axis >= type->rank) return PPTO_E_INTERNAL;
    if (step != 1 && pp_size_is_le(pp_types_sizes(flat->types), length, PP_SIZE_1) == 1)
        step = 1; /* at most one element: steps of slices of slices multiply, this one need not */
    if (start == PP_SIZE_0 && length == type->dim[axis] && step == 1) return PPTO_OK;
    memcpy(dims, type->dim, sizeof dims);
    dims[axis] = length;
    prim.u.slice.start = start;
    prim.u.slice.step = step;
    PP_TRY(new_type(flat, type->dtype, type->weak, type->rank, dims, &prim.type));
    return pp_flat_add(flat, &prim, &x, 1, id);
}

/* ---- values ------------------------------------------------------------------------------------------ */

ppto_status pp_flat_literal(pp_flat *flat, ppto_dtype dtype, bool weak, uint64_t bits, uint32_t *id)
{
    pp_prim prim = {.kind = PP_P_LITERAL, .number = PP_NONE, .origin = PP_NONE, .u.bits = bits};
    PP_TRY(new_type(flat, (uint8_t)dtype, weak, 0, NULL, &prim.type));
    return pp_flat_add(flat, &prim, NULL, 0, id);
}

ppto_status pp_flat_map(pp_flat *flat, pp_op op, ppto_dtype to, const uint32_t *x, uint32_t n, uint32_t *id)
{
    pp_prim prim = {.kind = PP_P_MAP, .op = (uint8_t)op, .number = PP_NONE, .origin = PP_NONE};
    const uint32_t first = op == PP_SELECT ? 1 : 0;
    const bool converts = op == PP_CAST || op == PP_BITCAST;
    if (op >= PP_SCALAR_COUNT || n != pp_scalar_find(op)->arity) return PPTO_E_INTERNAL;
    const pp_type *type = pp_flat_type(flat, x[first]);
    ppto_dtype from = (ppto_dtype)type->dtype, dtype = converts ? to : pp_scalar_result(op, from);
    bool weak = !converts && dtype != PPTO_BOOL;
    if (!pp_scalar_accepts(op, from) || (converts && !pp_scalar_converts(op, from, to)))
        return PPTO_E_INTERNAL;
    for (uint32_t i = 0; i < n; i++) {
        const pp_type *own = pp_flat_type(flat, x[i]);
        if (!same_dims(own, type->rank, type->dim)) return PPTO_E_INTERNAL;
        if (i >= first && own->dtype != from) return PPTO_E_INTERNAL;
        if (i >= first) weak = weak && own->weak;
    }
    PP_TRY(new_type(flat, (uint8_t)dtype, weak, type->rank, type->dim, &prim.type));
    return pp_flat_add(flat, &prim, x, n, id);
}

ppto_status pp_flat_call(pp_flat *flat, const pp_function *function, const uint32_t *x, uint32_t n,
                         uint32_t *id)
{
    pp_prim prim = {
        .kind = PP_P_MAP, .op = PP_CALL, .number = PP_NONE, .origin = PP_NONE, .u.function = function};
    if (n == 0 || n != function->n_params || function->n_results != 1) return PPTO_E_INTERNAL;
    const pp_type *type = pp_flat_type(flat, x[0]);
    for (uint32_t i = 0; i < n; i++) {
        const pp_type *own = pp_flat_type(flat, x[i]);
        if (!same_dims(own, type->rank, type->dim) || own->dtype != function->param[i])
            return PPTO_E_INTERNAL;
    }
    PP_TRY(
        new_type(flat, function->code[function->result[0]].dtype, false, type->rank, type->dim, &prim.type));
    return pp_flat_add(flat, &prim, x, n, id);
}

/* ---- folds ------------------------------------------------------------------------------------------- */

static ppto_status add_parts(pp_flat *flat, uint32_t fold, const uint8_t *dtypes, uint32_t n, bool weak,
                             uint32_t rank, const pp_size *dims, uint32_t *parts)
{
    for (uint32_t i = 0; i < n; i++) {
        pp_prim part = {.kind = PP_P_PART, .number = i, .origin = PP_NONE};
        bool own_weak = weak && (dtypes[i] == PPTO_I64 || dtypes[i] == PPTO_F64);
        PP_TRY(new_type(flat, dtypes[i], own_weak, rank, dims, &part.type));
        PP_TRY(pp_flat_add(flat, &part, &fold, 1, &parts[i]));
    }
    return PPTO_OK;
}

static ppto_status check_inputs(const pp_flat *flat, const pp_monoid *monoid, const uint32_t *x, uint32_t n,
                                bool *weak)
{
    if (n == 0 || n != monoid->n_inputs) return PPTO_E_INTERNAL;
    const pp_type *type = pp_flat_type(flat, x[0]);
    *weak = true;
    for (uint32_t i = 0; i < n; i++) {
        const pp_type *own = pp_flat_type(flat, x[i]);
        if (!same_dims(own, type->rank, type->dim)) return PPTO_E_INTERNAL;
        *weak = *weak && own->weak;
    }
    return PPTO_OK;
}

static uint32_t kept_dims(const pp_type *type, uint32_t axes, pp_size *dims)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < type->rank; i++)
        if (!(axes >> i & 1)) dims[rank++] = type->dim[i];
    return rank;
}

/* One fold, all of its reduced dims by one law. */
static ppto_status reduce_by(pp_flat *flat, const pp_monoid *monoid, uint32_t axes, bool rows, bool weak,
                             const uint32_t *x, uint32_t n, uint32_t *parts)
{
    pp_prim prim = {.kind = PP_P_REDUCE, .rows = rows, .number = PP_NONE, .origin = PP_NONE};
    pp_size dims[PPTO_MAX_RANK] = {0};
    uint32_t fold, rank = kept_dims(pp_flat_type(flat, x[0]), axes, dims);
    prim.u.fold.monoid = monoid;
    prim.u.fold.axes = axes;
    PP_TRY(new_type(flat, monoid->result[0], false, rank, dims, &prim.type));
    PP_TRY(pp_flat_add(flat, &prim, x, n, &fold));
    return add_parts(flat, fold, monoid->result, monoid->n_results, weak, rank, dims, parts);
}

static ppto_status reduce_nothing(pp_flat *flat, const pp_monoid *monoid, uint32_t axes, bool weak,
                                  uint32_t x, uint32_t *parts)
{
    pp_size dims[PPTO_MAX_RANK] = {0};
    uint32_t rank = kept_dims(pp_flat_type(flat, x), axes, dims);
    if (!monoid->has_unit) return PPTO_E_SHAPE;
    for (uint32_t i = 0; i < monoid->n_results; i++) {
        ppto_dtype dtype = (ppto_dtype)monoid->result[i];
        bool own_weak = weak && (dtype == PPTO_I64 || dtype == PPTO_F64);
        PP_TRY(pp_flat_literal(flat, dtype, own_weak, monoid->unit[i], &parts[i]));
        PP_TRY(pp_flat_broadcast(flat, parts[i], rank, dims, &parts[i]));
    }
    return PPTO_OK;
}

static bool all_zero(const uint64_t *bits, unsigned n)
{
    bool zero = true;
    for (unsigned i = 0; i < n; i++) zero = zero && bits[i] == 0;
    return zero;
}

/* Whether a kernel gives the unit where it folds nothing. It starts from zeros; behind an empty trailing axis
 * it joins such states. */
static bool empty_is_unit(const pp_monoid *joined, const pp_monoid *unfinished, bool in_two_steps)
{
    uint64_t states[8] = {0}, next[4];
    if (!joined->has_unit) return true; /* the caller sees to it that there are elements */
    if (!all_zero(joined->unit, joined->n_results) || !all_zero(unfinished->unit, unfinished->n_states))
        return false;
    if (!in_two_steps) return true;
    return pp_function_eval(joined->join, states, next) == PPTO_OK && all_zero(next, joined->n_states);
}

/* parts = the unit where one of the reduced axes in `open` is empty at the run. */
static ppto_status choose_unit(pp_flat *flat, const pp_monoid *monoid, uint32_t axes, uint32_t open,
                               bool weak, uint32_t x, uint32_t *parts)
{
    const pp_type type = *pp_flat_type(flat, x);
    pp_prim count = {.kind = PP_P_SIZE, .number = PP_NONE, .origin = PP_NONE, .u.size = PP_SIZE_1};
    uint32_t units[4], pair[2], empty;
    for (uint32_t i = 0; i < type.rank; i++)
        if (open >> i & 1) count.u.size = pp_size_mul(pp_types_sizes(flat->types), count.u.size, type.dim[i]);
    PP_TRY(new_type(flat, PPTO_I64, true, 0, NULL, &count.type));
    PP_TRY(pp_flat_add(flat, &count, NULL, 0, &pair[0]));
    PP_TRY(pp_flat_literal(flat, PPTO_I64, true, 0, &pair[1]));
    PP_TRY(pp_flat_map(flat, PP_EQ, PPTO_BOOL, pair, 2, &empty));
    PP_TRY(reduce_nothing(flat, monoid, axes, weak, x, units));
    for (uint32_t i = 0; i < monoid->n_results; i++) {
        const pp_type result = *pp_flat_type(flat, parts[i]);
        uint32_t select[3] = {0, units[i], parts[i]};
        PP_TRY(pp_flat_broadcast(flat, empty, result.rank, result.dim, &select[0]));
        PP_TRY(pp_flat_map(flat, PP_SELECT, PPTO_BOOL, select, 3, &parts[i]));
    }
    return PPTO_OK;
}

ppto_status pp_flat_reduce(pp_flat *flat, const pp_monoid *monoid, const pp_monoid *joined,
                           const pp_monoid *unfinished, uint32_t axes, const uint32_t *x, uint32_t n,
                           uint32_t *parts)
{
    bool weak;
    PP_TRY(check_inputs(flat, monoid, x, n, &weak));
    const pp_type *type = pp_flat_type(flat, x[0]);
    uint32_t rank = type->rank, trailing = 0, open = 0;
    if (axes >> rank != 0) return PPTO_E_INTERNAL;
    for (uint32_t i = 0; i < rank; i++)
        if ((axes >> i & 1) && type->dim[i] == PP_SIZE_0)
            return reduce_nothing(flat, joined, axes, weak, x[0], parts);
    for (uint32_t i = rank; i-- > 0 && (axes >> i & 1);) trailing |= 1u << i;
    for (uint32_t i = 0; i < rank; i++)
        if ((axes >> i & 1) && pp_size_is_le(pp_types_sizes(flat->types), PP_SIZE_1, type->dim[i]) != 1)
            open |= 1u << i;
    bool both = trailing != 0 && trailing != axes;
    if (both) {
        uint32_t states[4];
        PP_TRY(reduce_by(flat, unfinished, trailing, false, weak, x, n, states));
        PP_TRY(reduce_by(flat, joined, axes & ~trailing, true, weak, states, unfinished->n_results, parts));
    } else {
        PP_TRY(reduce_by(flat, monoid, axes, trailing == 0 && axes != 0, weak, x, n, parts));
    }
    if (open == 0 || empty_is_unit(joined, unfinished, both && (open & trailing))) return PPTO_OK;
    return choose_unit(flat, joined, axes, open, weak, x[0], parts);
}

ppto_status pp_flat_scan(pp_flat *flat, const pp_monoid *monoid, uint32_t axis, const uint32_t *x, uint32_t n,
                         uint32_t *parts)
{
    pp_prim prim = {.kind = PP_P_SCAN, .axis = (uint8_t)axis, .number = PP_NONE, .origin = PP_NONE};
    bool weak;
    uint32_t fold;
    PP_TRY(check_inputs(flat, monoid, x, n, &weak));
    const pp_type *type = pp_flat_type(flat, x[0]);
    if (axis >= type->rank) return PPTO_E_INTERNAL;
    prim.rows = axis + 1 != type->rank;
    prim.u.fold.monoid = monoid;
    prim.u.fold.axes = 1u << axis;
    PP_TRY(new_type(flat, monoid->state[0], false, type->rank, type->dim, &prim.type));
    PP_TRY(pp_flat_add(flat, &prim, x, n, &fold));
    return add_parts(flat, fold, monoid->state, monoid->n_states, weak, type->rank, type->dim, parts);
}

/* a [batch, free a, k], b [batch, free b, k]. */
ppto_status pp_flat_contract(pp_flat *flat, uint32_t a, uint32_t b, uint32_t n_batch, uint32_t n_k,
                             uint32_t *id)
{
    pp_prim prim = {.kind = PP_P_CONTRACT,
                    .n_batch = (uint8_t)n_batch,
                    .n_k = (uint8_t)n_k,
                    .number = PP_NONE,
                    .origin = PP_NONE};
    const pp_type *x = pp_flat_type(flat, a), *y = pp_flat_type(flat, b);
    pp_size dims[PPTO_MAX_RANK];
    uint32_t rank = 0;
    if (x->rank < n_batch + n_k || y->rank < n_batch + n_k || x->dtype != y->dtype) return PPTO_E_INTERNAL;
    if (x->rank + y->rank - n_batch - 2 * n_k > PPTO_MAX_RANK) return PPTO_E_LIMIT;
    for (uint32_t i = 0; i < n_batch; i++)
        if (x->dim[i] != y->dim[i]) return PPTO_E_INTERNAL;
    for (uint32_t i = 1; i <= n_k; i++)
        if (x->dim[x->rank - i] != y->dim[y->rank - i]) return PPTO_E_INTERNAL;
    for (uint32_t i = 0; i + n_k < x->rank; i++) dims[rank++] = x->dim[i];
    for (uint32_t i = n_batch; i + n_k < y->rank; i++) dims[rank++] = y->dim[i];
    PP_TRY(new_type(flat, x->dtype, x->weak && y->weak, rank, dims, &prim.type));
    const uint32_t operands[2] = {a, b};
    return pp_flat_add(flat, &prim, operands, 2, id);
}
