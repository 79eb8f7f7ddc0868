/* SPDX-License-Identifier: Apache-2.0
 * Emitting one value at an index map: what it needs first, then its own instruction. Start reading at
 * pp_lower_emit. */
#include "graph/lower_parts.h"

enum { MAX_DEPTH = 1000, MOST_OPERANDS = 12, MOST_COST = 10000 };

ppto_status pp_lower_add(pp_lowerer *l, pp_instr instr, uint32_t cost, bool varies, uint32_t *id)
{
    pp_lower_code *code = pp_lower_now(l);
    *id = (uint32_t)code->code.n;
    PP_TRY(pp_vec_push(&code->code, instr));
    PP_TRY(pp_vec_push(&code->varies, (uint8_t)varies));
    if (!varies) cost = 0;
    return pp_vec_push(&code->cost, (uint16_t)(cost > MOST_COST ? MOST_COST : cost));
}

/* A number the host gives at every launch. */
static ppto_status emit_number(pp_lowerer *l, uint32_t prim, uint32_t *id)
{
    uint8_t dtype = pp_flat_type(l->flat, prim)->dtype;
    uint32_t arg = 0;
    while (arg < l->out->args.n && (l->out->args.at[arg].prim != prim || l->out->args.at[arg].dtype != dtype))
        arg++;
    if (arg == l->out->args.n) PP_TRY(pp_vec_push(&l->out->args, ((pp_lowered_arg){prim, dtype})));
    return pp_lower_add(l, (pp_instr){.op = PP_ARG, .dtype = dtype, .imm = arg}, 0, false, id);
}

static ppto_status emit_load(pp_lowerer *l, uint32_t prim, const pp_imap *map, bool linear,
                             const uint32_t *values, uint32_t *id)
{
    uint32_t tensor, access;
    PP_TRY(pp_lower_tensor(l, prim, false, linear, &tensor));
    PP_TRY(pp_lower_access(l, tensor, map, values, &access));
    bool varies = pp_lower_varies(l, map);
    for (uint32_t i = 0; values && i < map->rank; i++)
        if (values[i] != PP_NONE) varies |= pp_lower_now(l)->varies.at[values[i]];
    return pp_lower_add(l,
                        (pp_instr){.op = PP_LOAD, .dtype = pp_flat_type(l->flat, prim)->dtype, .imm = access},
                        1, varies, id);
}

/* What a reshape that is no view reads: the stored value, at the row-major index of its own element. */
static ppto_status emit_linear(pp_lowerer *l, uint32_t prim, const pp_imap *map, uint32_t operand,
                               uint32_t *id)
{
    if (!pp_lower_elsewhere(l, operand) && pp_flat_prim(l->flat, operand)->kind != PP_P_INPUT)
        return pp_fail(l->err, PPTO_E_INTERNAL, "lowering: the operand of a reshape is not stored");
    pp_imap linear = {.rank = 1, .n_guards = map->n_guards, .guard = map->guard};
    linear.dim = pp_arena_alloc(l->temp, sizeof *linear.dim);
    if (!linear.dim || !pp_index_linear(&l->ix, pp_flat_type(l->flat, prim), map, linear.dim))
        return PPTO_E_NOMEM;
    return emit_load(l, operand, &linear, true, NULL, id);
}

/* Operand k of a prim that is read at `map`, at the map that follows for it: *through, when it is no number.
 */
static ppto_status emit_operand(pp_lowerer *l, uint32_t prim, pp_imap *map, uint32_t k, pp_imap **through,
                                uint32_t *id)
{
    uint32_t operand = pp_flat_operands(l->flat, prim)[k];
    pp_imap *own = NULL;
    if (l->fused->number[operand]) return emit_number(l, operand, id);
    pp_through how = pp_index_through(&l->ix, l->flat, prim, map, k, &own);
    if (how == PP_THROUGH_NOMEM) return PPTO_E_NOMEM;
    if (through) *through = own;
    return how == PP_THROUGH_OK ? pp_lower_emit(l, operand, own, id) : emit_linear(l, prim, map, operand, id);
}

/* ---- pads and concatenations: one of two values ------------------------------------------------ */

/* Is the element one of operand k? That is the last guard of `through`, which a number does not have yet. */
static ppto_status emit_inside(pp_lowerer *l, uint32_t prim, const pp_imap *map, uint32_t k, pp_imap *through,
                               uint32_t *id)
{
    uint32_t first;
    if (!through && pp_index_through(&l->ix, l->flat, prim, map, k, &through) != PP_THROUGH_OK)
        return PPTO_E_NOMEM;
    PP_TRY(pp_lower_guards(l, through, through->n_guards - 1, &first));
    pp_imap own = {.n_guards = 1, .guard = through->guard + through->n_guards - 1};
    return pp_lower_add(l, (pp_instr){.op = PP_INSIDE, .dtype = PPTO_BOOL, .a = 1, .imm = first}, 1,
                        pp_lower_varies(l, &own), id);
}

static ppto_status emit_select(pp_lowerer *l, uint8_t dtype, uint32_t c, uint32_t a, uint32_t b, uint32_t *id)
{
    pp_lower_code *s = pp_lower_now(l);
    return pp_lower_add(l, (pp_instr){.op = PP_SELECT, .dtype = dtype, .a = c, .b = a, .c = b},
                        1u + s->cost.at[a] + s->cost.at[b],
                        s->varies.at[c] | s->varies.at[a] | s->varies.at[b], id);
}

static ppto_status emit_pad(pp_lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id)
{
    pp_imap *through = NULL;
    uint32_t x, fill, inside;
    PP_TRY(emit_operand(l, prim, map, 0, &through, &x));
    PP_TRY(emit_operand(l, prim, map, 1, NULL, &fill));
    PP_TRY(emit_inside(l, prim, map, 0, through, &inside));
    return emit_select(l, pp_flat_type(l->flat, prim)->dtype, inside, x, fill, id);
}

static ppto_status emit_concat(pp_lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id)
{
    uint32_t last = pp_flat_prim(l->flat, prim)->n_operands - 1;
    PP_TRY(emit_operand(l, prim, map, last, NULL, id));
    for (uint32_t k = last; k-- > 0;) {
        pp_imap *through = NULL;
        uint32_t x, inside;
        PP_TRY(emit_operand(l, prim, map, k, &through, &x));
        PP_TRY(emit_inside(l, prim, map, k, through, &inside));
        PP_TRY(emit_select(l, pp_flat_type(l->flat, prim)->dtype, inside, x, *id, id));
    }
    return PPTO_OK;
}

/* ---- the other prims --------------------------------------------------------------------------- */

static ppto_status emit_gather(pp_lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id)
{
    const pp_prim *p = pp_flat_prim(l->flat, prim);
    const uint32_t *operand = pp_flat_operands(l->flat, prim);
    const pp_type *x = pp_flat_type(l->flat, operand[0]), *idx = pp_flat_type(l->flat, operand[1]);
    uint32_t index, values[PPTO_MAX_RANK];
    PP_TRY(emit_operand(l, prim, map, 1, NULL, &index));
    pp_imap from = {.rank = x->rank, .n_guards = map->n_guards, .guard = map->guard};
    from.dim = pp_arena_alloc(l->temp, (x->rank + 1u) * sizeof *from.dim);
    if (!from.dim) return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < x->rank; i++) {
        values[i] = i == p->axis ? index : PP_NONE;
        if (i < p->axis) from.dim[i] = map->dim[i];
        if (i > p->axis) from.dim[i] = map->dim[i + idx->rank - 1];
    }
    return emit_load(l, operand[0], &from, false, values, id);
}

static ppto_status callee_of(pp_lowerer *l, const pp_function *function, uint32_t *callee)
{
    for (size_t i = 0; i < l->callees.n; i++)
        if (l->callees.at[i] == function) {
            *callee = (uint32_t)i;
            return PPTO_OK;
        }
    *callee = (uint32_t)l->callees.n;
    return pp_vec_push(&l->callees, function);
}

static ppto_status emit_map(pp_lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id)
{
    const pp_prim *p = pp_flat_prim(l->flat, prim);
    uint32_t x[MOST_OPERANDS], cost = pp_prim_cost(p);
    bool varies = false;
    if (p->n_operands > MOST_OPERANDS)
        return pp_fail(l->err, PPTO_E_INTERNAL, "a map of more than 12 operands");
    for (uint32_t k = 0; k < p->n_operands; k++) {
        PP_TRY(emit_operand(l, prim, map, k, NULL, &x[k]));
        cost += pp_lower_now(l)->cost.at[x[k]];
        varies |= pp_lower_now(l)->varies.at[x[k]];
    }
    pp_instr instr = {.op = p->op, .dtype = pp_flat_type(l->flat, prim)->dtype};
    if (p->op == PP_CALL) {
        PP_TRY(callee_of(l, p->u.function, &instr.imm));
        instr.a = (uint32_t)l->operands.n;
        instr.b = p->n_operands;
        for (uint32_t k = 0; k < p->n_operands; k++) PP_TRY(pp_vec_push(&l->operands, x[k]));
    } else {
        instr.a = p->n_operands > 0 ? x[0] : 0;
        instr.b = p->n_operands > 1 ? x[1] : 0;
        instr.c = p->n_operands > 2 ? x[2] : 0;
    }
    return pp_lower_add(l, instr, cost, varies, id);
}

static ppto_status emit_check(pp_lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id)
{
    uint32_t cond, none, affine;
    pp_iexpr linear;
    PP_TRY(emit_operand(l, prim, map, 0, NULL, id));
    PP_TRY(emit_operand(l, prim, map, 1, NULL, &cond));
    if (!pp_index_linear(&l->ix, pp_flat_type(l->flat, prim), map, &linear)) return PPTO_E_NOMEM;
    PP_TRY(pp_lower_affine(l, &linear, PP_NONE, &affine));
    pp_instr instr = {.op = PP_CHECK,
                      .dtype = pp_lower_now(l)->code.at[*id].dtype,
                      .a = cond,
                      .b = *id,
                      .imm = (uint32_t)l->checks.n};
    PP_TRY(pp_vec_push(&l->checks, ((pp_check){pp_flat_prim(l->flat, prim)->u.message, affine})));
    return pp_lower_add(l, instr, 0, pp_lower_now(l)->varies.at[cond], &none);
}

/* ---- one value --------------------------------------------------------------------------------- */

bool pp_lower_known(const pp_lower_code *code, uint32_t prim, const pp_imap *map, uint32_t *id)
{
    for (size_t i = code->values.n; i-- > 0;)
        if (code->values.at[i].prim == prim && pp_index_equal(code->values.at[i].map, map)) {
            *id = code->values.at[i].instr;
            return true;
        }
    return false;
}

static ppto_status emit_iota(pp_lowerer *l, const pp_imap *map, uint32_t *id)
{
    uint32_t affine;
    PP_TRY(pp_lower_affine(l, &map->dim[0], PP_NONE, &affine));
    return pp_lower_add(l, (pp_instr){.op = PP_INDEX, .dtype = PPTO_I64, .imm = affine}, 1,
                        pp_lower_varies(l, map), id);
}

static ppto_status emit_new(pp_lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id)
{
    const pp_prim *p = pp_flat_prim(l->flat, prim);
    if (p->kind == PP_P_INPUT || pp_lower_elsewhere(l, prim)) return emit_load(l, prim, map, false, NULL, id);
    switch (p->kind) {
    case PP_P_IOTA: return emit_iota(l, map, id);
    case PP_P_PERMUTE:
    case PP_P_RESHAPE:
    case PP_P_SLICE:
    case PP_P_BROADCAST: return emit_operand(l, prim, map, 0, NULL, id);
    case PP_P_MAP: return emit_map(l, prim, map, id);
    case PP_P_PAD: return emit_pad(l, prim, map, id);
    case PP_P_CONCAT: return emit_concat(l, prim, map, id);
    case PP_P_GATHER: return emit_gather(l, prim, map, id);
    case PP_P_CHECK: return emit_check(l, prim, map, id);
    case PP_P_CONTRACT:
        return pp_lower_add(l, (pp_instr){.op = PP_PRODUCT, .dtype = pp_flat_type(l->flat, prim)->dtype}, 1,
                            false, id);
    case PP_P_PART: return pp_lower_part(l, prim, map, id);
    default:
        return pp_fail(l->err, PPTO_E_INTERNAL, "lowering: a %s is needed here but not computed",
                       pp_prim_kind_name(p->kind));
    }
}

ppto_status pp_lower_emit(pp_lowerer *l, uint32_t prim, pp_imap *given, uint32_t *id)
{
    bool found;
    pp_imap *map = pp_index_normal(&l->ix, given);
    if (!map) return PPTO_E_NOMEM;
    if (l->fused->number[prim]) return emit_number(l, prim, id);
    if (pp_lower_known(pp_lower_now(l), prim, map, id)) return PPTO_OK;
    PP_TRY(pp_lower_kept(l, prim, map, &found, id));
    if (!found) {
        if (++l->depth > MAX_DEPTH) return pp_fail(l->err, PPTO_E_INTERNAL, "lowering: a kernel is too deep");
        ppto_status status = emit_new(l, prim, map, id);
        l->depth--;
        PP_TRY(status);
    }
    return pp_vec_push(&pp_lower_now(l)->values, ((pp_known_value){prim, *id, map}));
}

ppto_status pp_lower_store(pp_lowerer *l, const pp_root *root)
{
    uint32_t value, none, tensor, access;
    pp_imap *map = pp_index_normal(&l->ix, root->map);
    if (!map) return PPTO_E_NOMEM;
    PP_TRY(pp_lower_emit(l, root->prim, map, &value));
    PP_TRY(pp_lower_tensor(l, root->prim, true, false, &tensor));
    PP_TRY(pp_lower_access(l, tensor, map, NULL, &access));
    uint8_t dtype = pp_flat_type(l->flat, root->prim)->dtype;
    return pp_lower_add(l, (pp_instr){.op = PP_STORE, .dtype = dtype, .a = value, .imm = access}, 0,
                        pp_lower_varies(l, map), &none);
}
