/* SPDX-License-Identifier: Apache-2.0
 * Lowering pulls: the roots and heavies of a group are emitted, each value at an index map, once per stage
 * and map; what it needs is emitted before it. Values stored by other groups become loads, views only change
 * the map, numbers become args. A value of an earlier stage that is dear and needed again at the same place
 * is kept in a buffer. Start reading at pp_lower, then emit(). */
#include "graph/lower.h"

#include <string.h>

enum { KEEP_COST = 6, MAX_STAGES = 40, MAX_DEPTH = 1000 };

typedef struct known { /* a value emitted in this code at this map */
    uint32_t prim, instr;
    pp_imap *map;
} known;

typedef struct builder { /* one run of code under construction: a stage, or a side of a contraction */
    PP_VEC(pp_instr) code;
    PP_VEC(known) values;
    PP_VEC(uint16_t) cost;  /* per instruction */
    PP_VEC(uint8_t) varies; /* per instruction: depends on inner axes */
    PP_VEC(pp_fold) folds;
    PP_VEC(uint32_t) fold_of; /* heavy index per fold */
    bool inner;
} builder;

typedef struct lowerer {
    const pp_flat *flat;
    const pp_fused *fused;
    pp_group *group;
    uint32_t group_id;
    pp_lowered *out;
    pp_program *program;
    pp_arena *temp;
    pp_index ix;
    builder stage[MAX_STAGES + 2]; /* the last two: sides of a contraction */
    uint32_t n_stages, current;
    uint32_t depth;
    uint8_t axis_at[PP_FRAME_MAX_AXES]; /* frame axis -> program axis */
    uint8_t *ready, *level; /* per member: first stage in which it is available; per heavy: its stage */
    uint32_t *fold_number;  /* per heavy: fold in the program once emitted */
    PP_VEC(pp_term) terms;
    PP_VEC(pp_affine) affines;
    PP_VEC(pp_guard) guards;
    PP_VEC(pp_access) accesses;
    PP_VEC(uint32_t) operands;
    PP_VEC(pp_tensor_slot) tensors;
    PP_VEC(const pp_function *) callees;
    PP_VEC(pp_buffer) buffers;
    PP_VEC(uint64_t) kept; /* per buffer: stage << 32 | instr */
    PP_VEC(pp_check) checks;
    PP_VEC(pp_fold) folds;
    pp_error *err;
} lowerer;

static pp_sizes *sizes_of(lowerer *l)
{
    return pp_types_sizes(l->flat->types);
}

/* ---- slots, affines, accesses
 * ---------------------------------------------------------------------------------------- */

static ppto_status slot_of(lowerer *l, pp_size size, pp_slot *slot)
{
    int64_t value;
    if (pp_size_known(sizes_of(l), size, &value) && value >= -1 && value <= 1) {
        *slot = value < 0 ? PP_SLOT_M1 : (pp_slot)value;
        return PPTO_OK;
    }
    for (size_t i = PP_SLOT_FIRST; i < l->out->slots.n; i++)
        if (l->out->slots.at[i] == size) {
            *slot = (pp_slot)i;
            return PPTO_OK;
        }
    if (l->out->slots.n >= UINT16_MAX)
        return pp_fail(l->err, PPTO_E_LIMIT, "a kernel needs more than 65535 sizes");
    *slot = (pp_slot)l->out->slots.n;
    return pp_vec_push(&l->out->slots, size);
}

static ppto_status affine_of(lowerer *l, const pp_iexpr *e, uint32_t value, uint32_t *affine)
{
    pp_affine a = {.first_term = (uint32_t)l->terms.n, .n_terms = (uint16_t)e->n, .value = value};
    PP_TRY(slot_of(l, e->base, &a.base));
    for (uint32_t i = 0; i < e->n; i++) {
        pp_term t = {.axis = l->axis_at[e->term[i].axis]};
        PP_TRY(slot_of(l, e->term[i].coef, &t.coef));
        PP_TRY(pp_vec_push(&l->terms, t));
    }
    *affine = (uint32_t)l->affines.n;
    return pp_vec_push(&l->affines, a);
}

static ppto_status guards_of(lowerer *l, const pp_imap *map, uint32_t from, uint32_t *first)
{
    uint32_t affine[PP_MOST_GUARDS];
    if (map->n_guards - from > PP_MOST_GUARDS)
        return pp_fail(l->err, PPTO_E_LIMIT, "more than 64 nested pads and concatenations");
    for (uint32_t i = from; i < map->n_guards; i++)
        PP_TRY(affine_of(l, &map->guard[i].e, PP_NONE, &affine[i - from]));
    *first = (uint32_t)l->guards.n;
    for (uint32_t i = from; i < map->n_guards; i++) {
        pp_guard g = {.affine = affine[i - from]};
        PP_TRY(slot_of(l, map->guard[i].lo, &g.lo));
        PP_TRY(slot_of(l, map->guard[i].hi, &g.hi));
        PP_TRY(pp_vec_push(&l->guards, g));
    }
    return PPTO_OK;
}

static ppto_status tensor_of(lowerer *l, uint32_t prim, bool output, bool linear, uint32_t *tensor)
{
    for (size_t i = 0; i < l->out->tensors.n; i++) {
        pp_lowered_tensor *t = &l->out->tensors.at[i];
        if (t->prim == prim && t->output == output && t->linear == linear) {
            *tensor = (uint32_t)i;
            return PPTO_OK;
        }
    }
    const pp_type *type = pp_flat_type(l->flat, prim);
    *tensor = (uint32_t)l->tensors.n;
    PP_TRY(pp_vec_push(&l->out->tensors, ((pp_lowered_tensor){prim, output, linear})));
    return pp_vec_push(&l->tensors, ((pp_tensor_slot){.dtype = type->dtype,
                                                      .rank = linear ? 1 : type->rank,
                                                      .output = output,
                                                      .result = output && l->fused->result[prim]}));
}

/* values[i]: an instruction that is the index of dim i, or PP_NONE. */
static ppto_status access_of(lowerer *l, uint32_t tensor, const pp_imap *map, const uint32_t *values,
                             uint32_t *access)
{
    pp_access a = {.tensor = tensor, .n_guards = (uint16_t)map->n_guards};
    uint32_t affine[PPTO_MAX_RANK + 1];
    PP_TRY(guards_of(l, map, 0, &a.first_guard));
    a.first_affine = (uint32_t)l->affines.n;
    for (uint32_t i = 0; i < map->rank; i++)
        PP_TRY(affine_of(l, &map->dim[i], values ? values[i] : PP_NONE, &affine[i]));
    *access = (uint32_t)l->accesses.n;
    return pp_vec_push(&l->accesses, a);
}

/* ---- instructions
 * ------------------------------------------------------------------------------------------------------ */

static builder *now(lowerer *l)
{
    return &l->stage[l->current];
}

static bool map_varies(lowerer *l, const pp_imap *map)
{
    for (uint32_t i = 0; i < map->rank; i++)
        for (uint32_t t = 0; t < map->dim[i].n; t++)
            if (l->group->role[map->dim[i].term[t].axis] == PP_AXIS_INNER) return true;
    for (uint32_t i = 0; i < map->n_guards; i++)
        for (uint32_t t = 0; t < map->guard[i].e.n; t++)
            if (l->group->role[map->guard[i].e.term[t].axis] == PP_AXIS_INNER) return true;
    return false;
}

static ppto_status add_instr(lowerer *l, pp_instr instr, uint32_t cost, bool varies, uint32_t *id)
{
    builder *b = now(l);
    *id = (uint32_t)b->code.n;
    PP_TRY(pp_vec_push(&b->code, instr));
    PP_TRY(pp_vec_push(&b->varies, (uint8_t)varies));
    return pp_vec_push(&b->cost, (uint16_t)(cost > 10000 ? 10000 : cost));
}

static ppto_status emit(lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id);

static ppto_status emit_number(lowerer *l, uint32_t prim, uint32_t *id)
{
    uint8_t dtype = pp_flat_type(l->flat, prim)->dtype;
    uint32_t arg = 0;
    while (arg < l->out->args.n && (l->out->args.at[arg].prim != prim || l->out->args.at[arg].dtype != dtype))
        arg++;
    if (arg == l->out->args.n) PP_TRY(pp_vec_push(&l->out->args, ((pp_lowered_arg){prim, dtype})));
    return add_instr(l, (pp_instr){.op = PP_ARG, .dtype = dtype, .imm = arg}, 0, false, id);
}

static ppto_status emit_load(lowerer *l, uint32_t prim, const pp_imap *map, bool linear,
                             const uint32_t *values, uint32_t *id)
{
    uint32_t tensor, access;
    PP_TRY(tensor_of(l, prim, false, linear, &tensor));
    PP_TRY(access_of(l, tensor, map, values, &access));
    bool varies = map_varies(l, map);
    for (uint32_t i = 0; values && i < map->rank; i++)
        if (values[i] != PP_NONE) varies |= now(l)->varies.at[values[i]];
    return add_instr(l, (pp_instr){.op = PP_LOAD, .dtype = pp_flat_type(l->flat, prim)->dtype, .imm = access},
                     1, varies, id);
}

/* An operand of a view-like prim, emitted at its own map; a reshape that is no view reads the stored value
 * linearly. */
static ppto_status emit_operand(lowerer *l, uint32_t prim, pp_imap *map, uint32_t k, pp_imap **through,
                                uint32_t *id)
{
    const pp_prim *p = pp_flat_prim(l->flat, prim);
    uint32_t operand = l->flat->operands.at[p->first_operand + k];
    pp_imap *own = NULL;
    if (l->fused->number[operand]) return emit_number(l, operand, id);
    pp_through how = pp_index_through(&l->ix, l->flat, prim, map, k, &own);
    if (how == PP_THROUGH_NOMEM) return PPTO_E_NOMEM;
    if (through) *through = own;
    if (how == PP_THROUGH_OK) return emit(l, operand, own, id);
    bool stored = l->fused->stored_in[operand] != PP_NONE && l->fused->stored_in[operand] != l->group_id;
    if (!stored && pp_flat_prim(l->flat, operand)->kind != PP_P_INPUT)
        return pp_fail(l->err, PPTO_E_INTERNAL, "lowering: the operand of a reshape is not stored");
    pp_imap linear = {.rank = 1, .n_guards = map->n_guards, .guard = map->guard};
    linear.dim = pp_arena_alloc(l->temp, sizeof *linear.dim);
    if (!linear.dim || !pp_index_linear(&l->ix, pp_flat_type(l->flat, prim), map, linear.dim))
        return PPTO_E_NOMEM;
    return emit_load(l, operand, &linear, true, NULL, id);
}

static ppto_status emit_inside(lowerer *l, const pp_imap *map, uint32_t *id)
{
    uint32_t first;
    PP_TRY(guards_of(l, map, map->n_guards - 1, &first));
    pp_imap own = {.n_guards = 1, .guard = map->guard + map->n_guards - 1};
    return add_instr(l, (pp_instr){.op = PP_INSIDE, .dtype = PPTO_BOOL, .a = 1, .imm = first}, 1,
                     map_varies(l, &own), id);
}

static ppto_status emit_select(lowerer *l, uint8_t dtype, uint32_t c, uint32_t a, uint32_t b, uint32_t *id)
{
    builder *s = now(l);
    return add_instr(l, (pp_instr){.op = PP_SELECT, .dtype = dtype, .a = c, .b = a, .c = b},
                     1u + s->cost.at[a] + s->cost.at[b], s->varies.at[c] | s->varies.at[a] | s->varies.at[b],
                     id);
}

static ppto_status emit_pad(lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id)
{
    pp_imap *through = NULL;
    uint32_t x, fill, inside;
    PP_TRY(emit_operand(l, prim, map, 0, &through, &x));
    PP_TRY(emit_operand(l, prim, map, 1, NULL, &fill));
    if (!through) { /* a number under a pad */
        PP_TRY(pp_index_through(&l->ix, l->flat, prim, map, 0, &through) == PP_THROUGH_OK ? PPTO_OK
                                                                                          : PPTO_E_NOMEM);
    }
    PP_TRY(emit_inside(l, through, &inside));
    return emit_select(l, pp_flat_type(l->flat, prim)->dtype, inside, x, fill, id);
}

static ppto_status emit_concat(lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id)
{
    const pp_prim *p = pp_flat_prim(l->flat, prim);
    for (uint32_t k = p->n_operands; k-- > 0;) {
        pp_imap *through = NULL;
        uint32_t x, inside;
        PP_TRY(emit_operand(l, prim, map, k, &through, &x));
        if (k == p->n_operands - 1) {
            *id = x;
            continue;
        }
        if (!through && pp_index_through(&l->ix, l->flat, prim, map, k, &through) != PP_THROUGH_OK)
            return PPTO_E_NOMEM;
        PP_TRY(emit_inside(l, through, &inside));
        PP_TRY(emit_select(l, pp_flat_type(l->flat, prim)->dtype, inside, x, *id, id));
    }
    return PPTO_OK;
}

static ppto_status emit_gather(lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id)
{
    const pp_prim *p = pp_flat_prim(l->flat, prim);
    const uint32_t *operand = l->flat->operands.at + p->first_operand;
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

static ppto_status callee_of(lowerer *l, const pp_function *function, uint32_t *callee)
{
    for (size_t i = 0; i < l->callees.n; i++)
        if (l->callees.at[i] == function) {
            *callee = (uint32_t)i;
            return PPTO_OK;
        }
    *callee = (uint32_t)l->callees.n;
    return pp_vec_push(&l->callees, function);
}

static ppto_status emit_map(lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id)
{
    const pp_prim *p = pp_flat_prim(l->flat, prim);
    uint32_t x[12], cost = pp_prim_cost(p);
    bool varies = false;
    if (p->n_operands > 12) return pp_fail(l->err, PPTO_E_INTERNAL, "a map of more than 12 operands");
    for (uint32_t k = 0; k < p->n_operands; k++) {
        PP_TRY(emit_operand(l, prim, map, k, NULL, &x[k]));
        cost += now(l)->cost.at[x[k]];
        varies |= now(l)->varies.at[x[k]];
    }
    pp_instr instr = {.op = p->op, .dtype = pp_flat_type(l->flat, prim)->dtype};
    if (p->op == PP_CALL) {
        PP_TRY(callee_of(l, p->u.function, &instr.imm));
        instr.a = (uint32_t)l->operands.n;
        instr.b = p->n_operands;
        for (uint32_t k = 0; k < p->n_operands; k++)
            PP_TRY(pp_vec_push(&l->operands, x[k] | l->current << 24));
    } else {
        instr.a = p->n_operands > 0 ? x[0] : 0;
        instr.b = p->n_operands > 1 ? x[1] : 0;
        instr.c = p->n_operands > 2 ? x[2] : 0;
    }
    return add_instr(l, instr, cost, varies, id);
}

static ppto_status emit_check(lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id)
{
    uint32_t cond, none, affine;
    pp_iexpr linear;
    PP_TRY(emit_operand(l, prim, map, 0, NULL, id));
    PP_TRY(emit_operand(l, prim, map, 1, NULL, &cond));
    if (!pp_index_linear(&l->ix, pp_flat_type(l->flat, prim), map, &linear)) return PPTO_E_NOMEM;
    PP_TRY(affine_of(l, &linear, PP_NONE, &affine));
    pp_instr instr = {.op = PP_CHECK,
                      .dtype = now(l)->code.at[*id].dtype,
                      .a = cond,
                      .b = *id,
                      .imm = (uint32_t)l->checks.n};
    PP_TRY(pp_vec_push(&l->checks, ((pp_check){pp_flat_prim(l->flat, prim)->u.message, affine})));
    return add_instr(l, instr, 0, now(l)->varies.at[cond], &none);
}

/* ---- values of heavies and of earlier stages
 * ------------------------------------------------------------------------- */

static uint32_t heavy_index(lowerer *l, uint32_t prim)
{
    for (uint32_t i = 0; i < l->group->heavies.n; i++)
        if (l->group->heavies.at[i].prim == prim) return i;
    return PP_NONE;
}

static ppto_status emit_fold(lowerer *l, uint32_t heavy)
{
    pp_heavy *h = &l->group->heavies.at[heavy];
    const pp_prim *p = pp_flat_prim(l->flat, h->prim);
    const pp_monoid *m = p->u.fold.monoid;
    pp_fold fold = {.n_states = m->n_states,
                    .n_inputs = (uint8_t)p->n_operands,
                    .joined = m->joined,
                    .position = m->position,
                    .law = p->kind == PP_P_SCAN || m->ordered ? PP_LAW_SCAN : PP_LAW_FOLD,
                    .lift = m->lift,
                    .step = p->kind == PP_P_SCAN || m->ordered ? NULL : m->step,
                    .join = m->join,
                    .finish = p->kind == PP_P_SCAN ? NULL : m->finish};
    memcpy(fold.state, m->state, sizeof fold.state);
    if (m->ordered) fold.finish = NULL;
    for (uint32_t k = 0; k < p->n_operands; k++) {
        pp_imap *own = pp_index_normal(&l->ix, h->operand[0]);
        uint32_t operand = l->flat->operands.at[p->first_operand + k];
        if (!own) return PPTO_E_NOMEM;
        PP_TRY(l->fused->number[operand] ? emit_number(l, operand, &fold.input[k])
                                         : emit(l, operand, own, &fold.input[k]));
    }
    PP_TRY(pp_vec_push(&now(l)->fold_of, heavy));
    return pp_vec_push(&now(l)->folds, fold);
}

/* The component of a scan, kept in a buffer when its stage is past. */
static ppto_status buffer_of(lowerer *l, uint32_t stage, uint32_t instr, uint32_t *id)
{
    uint64_t key = (uint64_t)stage << 32 | instr;
    uint8_t dtype = l->stage[stage].code.at[instr].dtype;
    uint32_t at = 0;
    while (at < l->kept.n && l->kept.at[at] != key) at++;
    if (at == l->kept.n) {
        uint32_t none, here = l->current;
        PP_TRY(pp_vec_push(&l->kept, key));
        PP_TRY(pp_vec_push(&l->buffers, ((pp_buffer){dtype})));
        l->current = stage;
        ppto_status status =
            add_instr(l, (pp_instr){.op = PP_KEEP, .dtype = dtype, .a = instr, .imm = at}, 0, true, &none);
        l->current = here;
        PP_TRY(status);
    }
    return add_instr(l, (pp_instr){.op = PP_BUFFER, .dtype = dtype, .imm = at}, 1, true, id);
}

/* A component of a fold, or of a scan: that is a value of the scan's own stage, and kept from there for later
 * ones. */
static ppto_status emit_part(lowerer *l, uint32_t prim, pp_imap *map, uint32_t heavy, uint32_t *id)
{
    const pp_prim *p = pp_flat_prim(l->flat, prim);
    bool scan = pp_flat_prim(l->flat, l->group->heavies.at[heavy].prim)->kind == PP_P_SCAN;
    uint8_t dtype = pp_flat_type(l->flat, prim)->dtype;
    if (!scan)
        return add_instr(l, (pp_instr){.op = PP_STATE, .dtype = dtype, .a = p->number, .imm = heavy}, 0,
                         false, id);
    if (l->level[heavy] == l->current)
        return add_instr(l, (pp_instr){.op = PP_SCANNED, .dtype = dtype, .a = p->number, .imm = heavy}, 50,
                         true, id);
    uint32_t here = l->current, instr;
    l->current = l->level[heavy];
    ppto_status status = emit(l, prim, map, &instr);
    l->current = here;
    return status == PPTO_OK ? buffer_of(l, l->level[heavy], instr, id) : status;
}

static bool find_known(builder *b, uint32_t prim, const pp_imap *map, uint32_t *id)
{
    for (size_t i = b->values.n; i-- > 0;)
        if (b->values.at[i].prim == prim && pp_index_equal(b->values.at[i].map, map)) {
            *id = b->values.at[i].instr;
            return true;
        }
    return false;
}

static ppto_status find_kept(lowerer *l, uint32_t prim, const pp_imap *map, bool *found, uint32_t *id)
{
    *found = false;
    if (l->group->frame == PP_FRAME_MAP || l->group->frame == PP_FRAME_CONTRACT || !now(l)->inner)
        return PPTO_OK;
    for (uint32_t s = 0; s < l->current; s++) {
        builder *b = &l->stage[s];
        uint32_t instr;
        if (!b->inner || !find_known(b, prim, map, &instr)) continue;
        if (!b->varies.at[instr] || b->cost.at[instr] < KEEP_COST) continue;
        *found = true;
        return buffer_of(l, s, instr, id);
    }
    return PPTO_OK;
}

/* ---- one value
 * -------------------------------------------------------------------------------------------------------- */

static ppto_status emit_new(lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id)
{
    const pp_prim *p = pp_flat_prim(l->flat, prim);
    uint32_t home = l->fused->stored_in[prim], heavy = PP_NONE;
    if (p->kind == PP_P_INPUT || (home != PP_NONE && home != l->group_id))
        return emit_load(l, prim, map, false, NULL, id);
    if (p->kind == PP_P_PART) heavy = heavy_index(l, l->flat->operands.at[p->first_operand]);
    switch (p->kind) {
    case PP_P_IOTA: {
        uint32_t affine;
        PP_TRY(affine_of(l, &map->dim[0], PP_NONE, &affine));
        return add_instr(l, (pp_instr){.op = PP_INDEX, .dtype = PPTO_I64, .imm = affine}, 1,
                         map_varies(l, map), id);
    }
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
        return add_instr(l, (pp_instr){.op = PP_PRODUCT, .dtype = pp_flat_type(l->flat, prim)->dtype}, 1,
                         false, id);
    case PP_P_PART:
        if (heavy != PP_NONE) return emit_part(l, prim, map, heavy, id);
        break;
    default: break;
    }
    return pp_fail(l->err, PPTO_E_INTERNAL, "lowering: a %s is needed here but not computed",
                   pp_prim_kind_name(p->kind));
}

static ppto_status emit(lowerer *l, uint32_t prim, pp_imap *given, uint32_t *id)
{
    bool found;
    pp_imap *map = pp_index_normal(&l->ix, given);
    if (!map) return PPTO_E_NOMEM;
    if (l->fused->number[prim]) return emit_number(l, prim, id);
    if (find_known(now(l), prim, map, id)) return PPTO_OK;
    PP_TRY(find_kept(l, prim, map, &found, id));
    if (!found) {
        if (++l->depth > MAX_DEPTH) return pp_fail(l->err, PPTO_E_INTERNAL, "lowering: a kernel is too deep");
        ppto_status status = emit_new(l, prim, map, id);
        l->depth--;
        PP_TRY(status);
    }
    return pp_vec_push(&now(l)->values, ((known){prim, *id, map}));
}

static ppto_status emit_store(lowerer *l, const pp_root *root)
{
    uint32_t value, none, tensor, access;
    pp_imap *map = pp_index_normal(&l->ix, root->map);
    if (!map) return PPTO_E_NOMEM;
    PP_TRY(emit(l, root->prim, map, &value));
    PP_TRY(tensor_of(l, root->prim, true, false, &tensor));
    PP_TRY(access_of(l, tensor, map, NULL, &access));
    return add_instr(
        l,
        (pp_instr){
            .op = PP_STORE, .dtype = pp_flat_type(l->flat, root->prim)->dtype, .a = value, .imm = access},
        0, map_varies(l, map), &none);
}

/* ---- stages
 * ------------------------------------------------------------------------------------------------------------
 */

static uint32_t member_index(const pp_group *g, uint32_t prim)
{
    size_t lo = 0, hi = g->members.n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (g->members.at[mid] < prim)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < g->members.n && g->members.at[lo] == prim ? (uint32_t)lo : PP_NONE;
}

/* First stage in which a prim's value can be had. */
static uint32_t ready_at(lowerer *l, uint32_t prim)
{
    const pp_prim *p = pp_flat_prim(l->flat, prim);
    uint32_t home = l->fused->stored_in[prim], member;
    if (home != PP_NONE && home != l->group_id) return 0;
    if (p->kind == PP_P_PART) {
        uint32_t heavy = heavy_index(l, l->flat->operands.at[p->first_operand]);
        if (heavy == PP_NONE) return 0;
        bool scan = pp_flat_prim(l->flat, l->group->heavies.at[heavy].prim)->kind == PP_P_SCAN;
        return l->level[heavy] + (scan ? 0u : 1u);
    }
    member = member_index(l->group, prim);
    return member == PP_NONE ? 0 : l->ready[member];
}

/* Members ascend, so operands come first. */
static ppto_status set_levels(lowerer *l)
{
    pp_group *g = l->group;
    l->ready = pp_arena_alloc(l->temp, g->members.n + 1);
    l->level = pp_arena_alloc(l->temp, g->heavies.n + 1);
    if (!l->ready || !l->level) return PPTO_E_NOMEM;
    for (size_t m = 0; m < g->members.n; m++) {
        const pp_prim *p = pp_flat_prim(l->flat, g->members.at[m]);
        uint32_t at = 0;
        for (uint32_t k = 0; k < p->n_operands; k++) {
            uint32_t r = ready_at(l, l->flat->operands.at[p->first_operand + k]);
            if (r > at) at = r;
        }
        if (at >= MAX_STAGES - 1)
            return pp_fail(l->err, PPTO_E_INTERNAL, "lowering: too many stages in one kernel");
        l->ready[m] = (uint8_t)at;
        uint32_t heavy = heavy_index(l, g->members.at[m]);
        if (heavy != PP_NONE) l->level[heavy] = (uint8_t)at;
    }
    return PPTO_OK;
}

static bool is_inner_root(lowerer *l, const pp_root *root)
{
    pp_imap *map = pp_index_normal(&l->ix, root->map);
    return map && map_varies(l, map);
}

static ppto_status emit_reduction_stages(lowerer *l)
{
    pp_group *g = l->group;
    uint32_t last = 0;
    bool outer_roots = false;
    for (size_t i = 0; i < g->heavies.n; i++) last = l->level[i] > last ? l->level[i] : last;
    for (size_t i = 0; i < g->roots.n; i++) {
        bool inner = is_inner_root(l, &g->roots.at[i]);
        uint32_t at = ready_at(l, g->roots.at[i].prim);
        outer_roots |= !inner;
        if (inner && at > last) last = at;
    }
    for (uint32_t s = 0; s <= last; s++) {
        l->current = s;
        l->n_stages = s + 1;
        now(l)->inner = true;
        for (uint32_t h = 0; h < g->heavies.n; h++)
            if (l->level[h] == s) PP_TRY(emit_fold(l, h));
        for (size_t i = 0; i < g->roots.n; i++)
            if (is_inner_root(l, &g->roots.at[i]) && ready_at(l, g->roots.at[i].prim) == s)
                PP_TRY(emit_store(l, &g->roots.at[i]));
    }
    if (!outer_roots) return PPTO_OK;
    l->current = l->n_stages++;
    for (size_t i = 0; i < g->roots.n; i++)
        if (!is_inner_root(l, &g->roots.at[i])) PP_TRY(emit_store(l, &g->roots.at[i]));
    return PPTO_OK;
}

static ppto_status emit_side(lowerer *l, uint32_t side, uint32_t *value)
{
    pp_heavy *h = &l->group->heavies.at[0];
    const pp_prim *p = pp_flat_prim(l->flat, h->prim);
    uint32_t operand = l->flat->operands.at[p->first_operand + side];
    pp_imap *map = pp_index_normal(&l->ix, h->operand[side]);
    if (!map) return PPTO_E_NOMEM;
    l->current = MAX_STAGES + side;
    return emit(l, operand, map, value);
}

static ppto_status emit_flat_stage(lowerer *l)
{
    l->current = 0;
    l->n_stages = 1;
    for (size_t i = 0; i < l->group->roots.n; i++) PP_TRY(emit_store(l, &l->group->roots.at[i]));
    return PPTO_OK;
}

/* ---- axes
 * --------------------------------------------------------------------------------------------------------------
 */

static ppto_status place_axis(lowerer *l, uint8_t axis)
{
    pp_axis a = {.role = l->group->role[axis]};
    PP_TRY(slot_of(l, l->group->axes.size[axis], &a.size));
    l->axis_at[axis] = (uint8_t)l->program->n_axes;
    l->program->axes[l->program->n_axes++] = a;
    return PPTO_OK;
}

static ppto_status place_leaves(lowerer *l, uint8_t axis)
{
    pp_axes *axes = &l->group->axes;
    if (!axes->n_children[axis]) return place_axis(l, axis);
    for (uint32_t c = 0; c < axes->n_children[axis]; c++)
        PP_TRY(place_leaves(l, (uint8_t)(axes->first_child[axis] + c)));
    return PPTO_OK;
}

static ppto_status place_axes(lowerer *l)
{
    static const uint8_t outer[] = {PP_AXIS_OUTER, PP_AXIS_BATCH, PP_AXIS_M, PP_AXIS_N};
    pp_axes *axes = &l->group->axes;
    l->program->axes = pp_arena_alloc(&l->program->arena, PP_FRAME_MAX_AXES * sizeof(pp_axis));
    if (!l->program->axes) return PPTO_E_NOMEM;
    for (size_t r = 0; r < sizeof outer; r++)
        for (uint32_t i = 0; i < axes->n_order; i++)
            if (l->group->role[axes->order[i]] == outer[r]) PP_TRY(place_axis(l, axes->order[i]));
    for (uint32_t i = 0; i < l->group->n_inner; i++) PP_TRY(place_leaves(l, l->group->inner[i]));
    return PPTO_OK;
}

/* ---- putting it together
 * ------------------------------------------------------------------------------------------------ */

static bool is_scalar_op(uint8_t op)
{
    return op < PP_SCALAR_COUNT;
}

/* Moves one builder's code behind what is there; operand numbers become absolute. */
static ppto_status append_code(lowerer *l, uint32_t which, uint32_t *first)
{
    pp_program *p = l->program;
    builder *b = &l->stage[which];
    uint32_t base = p->n_code;
    *first = base;
    for (size_t i = 0; i < b->code.n; i++) {
        pp_instr instr = b->code.at[i];
        if (is_scalar_op(instr.op)) {
            uint32_t n = pp_scalar_find((pp_op)instr.op)->arity;
            if (n > 0) instr.a += base;
            if (n > 1) instr.b += base;
            if (n > 2) instr.c += base;
        } else if (instr.op == PP_STORE || instr.op == PP_KEEP) {
            instr.a += base;
        } else if (instr.op == PP_CHECK) {
            instr.a += base;
            instr.b += base;
        } else if (instr.op == PP_STATE || instr.op == PP_SCANNED) {
            instr.imm = l->fold_number[instr.imm];
        } else if (instr.op == PP_CALL) {
            for (uint32_t k = 0; k < instr.b; k++) {
                uint32_t *operand = &l->operands.at[instr.a + k];
                *operand = (*operand & 0xffffffu) + base;
            }
        }
        if (instr.op == PP_LOAD) {
            const pp_access *access = &l->accesses.at[instr.imm];
            for (uint32_t k = 0; k < l->tensors.at[access->tensor].rank; k++) {
                pp_affine *affine = &l->affines.at[access->first_affine + k];
                if (affine->value != PP_NONE) affine->value += base;
            }
        }
        p->code[p->n_code++] = instr;
    }
    return PPTO_OK;
}

/* Folds are numbered by stage, so that every stage's are consecutive. */
static ppto_status number_folds(lowerer *l)
{
    l->fold_number = pp_arena_alloc(l->temp, (l->group->heavies.n + 1) * sizeof *l->fold_number);
    if (!l->fold_number) return PPTO_E_NOMEM;
    for (uint32_t s = 0; s < l->n_stages; s++)
        for (size_t i = 0; i < l->stage[s].folds.n; i++) {
            l->fold_number[l->stage[s].fold_of.at[i]] = (uint32_t)l->folds.n;
            PP_TRY(pp_vec_push(&l->folds, l->stage[s].folds.at[i]));
        }
    return PPTO_OK;
}

#define COPY_ARRAY(field, vec)                                                                               \
    do {                                                                                                     \
        p->field = pp_arena_alloc(&p->arena, ((vec).n + 1) * sizeof *p->field);                              \
        if (!p->field) return PPTO_E_NOMEM;                                                                  \
        if ((vec).n) memcpy(p->field, (vec).at, (vec).n * sizeof *p->field);                                 \
        p->n_##field = (uint32_t)(vec).n;                                                                    \
    } while (0)

static ppto_status assemble(lowerer *l, uint32_t a_value, uint32_t b_value)
{
    pp_program *p = l->program;
    uint32_t total = 0;
    for (uint32_t s = 0; s < MAX_STAGES + 2; s++) total += (uint32_t)l->stage[s].code.n;
    p->frame = l->group->frame;
    p->code = pp_arena_alloc(&p->arena, (total + 1) * sizeof *p->code);
    p->stages = pp_arena_alloc(&p->arena, (l->n_stages + 1) * sizeof *p->stages);
    if (!p->code || !p->stages) return PPTO_E_NOMEM;
    PP_TRY(number_folds(l));
    if (p->frame == PP_FRAME_CONTRACT) {
        pp_contract *c = &p->contract;
        c->dtype = pp_flat_type(l->flat, l->group->heavies.at[0].prim)->dtype;
        PP_TRY(append_code(l, MAX_STAGES, &c->a_first));
        c->a_count = p->n_code - c->a_first;
        c->a_value = c->a_first + a_value;
        PP_TRY(append_code(l, MAX_STAGES + 1, &c->b_first));
        c->b_count = p->n_code - c->b_first;
        c->b_value = c->b_first + b_value;
    }
    uint32_t fold = 0;
    for (uint32_t s = 0; s < l->n_stages; s++) {
        pp_stage *stage = &p->stages[p->n_stages++];
        PP_TRY(append_code(l, s, &stage->first));
        stage->count = p->n_code - stage->first;
        stage->inner = l->stage[s].inner;
        stage->first_fold = fold;
        stage->n_folds = (uint32_t)l->stage[s].folds.n;
        for (uint32_t i = 0; i < stage->n_folds; i++)
            for (uint32_t k = 0; k < l->folds.at[fold + i].n_inputs; k++)
                l->folds.at[fold + i].input[k] += stage->first;
        fold += stage->n_folds;
    }
    COPY_ARRAY(tensors, l->tensors);
    COPY_ARRAY(terms, l->terms);
    COPY_ARRAY(affines, l->affines);
    COPY_ARRAY(guards, l->guards);
    COPY_ARRAY(accesses, l->accesses);
    COPY_ARRAY(operands, l->operands);
    COPY_ARRAY(callees, l->callees);
    COPY_ARRAY(folds, l->folds);
    COPY_ARRAY(buffers, l->buffers);
    COPY_ARRAY(checks, l->checks);
    p->n_slots = (uint32_t)l->out->slots.n;
    p->n_args = (uint32_t)l->out->args.n;
    p->hash = pp_program_hash(p);
    return PPTO_OK;
}

/* flops: what each instruction counts times the size of its domain; products count 2 m n k. */
static pp_size count_flops(lowerer *l)
{
    pp_sizes *sizes = sizes_of(l);
    pp_size outer = PP_SIZE_1, inner = PP_SIZE_1, sum = PP_SIZE_0;
    pp_axes *axes = &l->group->axes;
    for (uint32_t i = 0; i < axes->n_order; i++) {
        uint8_t role = l->group->role[axes->order[i]];
        pp_size *into = role == PP_AXIS_INNER || role == PP_AXIS_K ? &inner : &outer;
        *into = pp_size_mul(sizes, *into, axes->size[axes->order[i]]);
    }
    pp_size all = pp_size_mul(sizes, outer, inner);
    for (uint32_t s = 0; s < l->n_stages; s++) {
        int64_t at_outer = 0, at_all = 0;
        builder *b = &l->stage[s];
        for (size_t i = 0; i < b->code.n; i++)
            if (is_scalar_op(b->code.at[i].op)) {
                int64_t *into = b->inner && b->varies.at[i] ? &at_all : &at_outer;
                *into += pp_scalar_find((pp_op)b->code.at[i].op)->flops;
            }
        for (size_t i = 0; i < b->folds.n; i++) at_all += b->folds.at[i].n_states;
        sum = pp_size_add(sizes, sum, pp_size_mul(sizes, outer, pp_size_const(sizes, at_outer)));
        if (at_all) sum = pp_size_add(sizes, sum, pp_size_mul(sizes, all, pp_size_const(sizes, at_all)));
    }
    if (l->group->frame == PP_FRAME_CONTRACT)
        sum = pp_size_add(sizes, sum, pp_size_mul(sizes, all, pp_size_const(sizes, 2)));
    return sum;
}

static void free_builders(lowerer *l)
{
    for (uint32_t s = 0; s < MAX_STAGES + 2; s++) {
        builder *b = &l->stage[s];
        pp_vec_free(&b->code);
        pp_vec_free(&b->values);
        pp_vec_free(&b->cost);
        pp_vec_free(&b->varies);
        pp_vec_free(&b->folds);
        pp_vec_free(&b->fold_of);
    }
    pp_vec_free(&l->terms);
    pp_vec_free(&l->affines);
    pp_vec_free(&l->guards);
    pp_vec_free(&l->accesses);
    pp_vec_free(&l->operands);
    pp_vec_free(&l->tensors);
    pp_vec_free(&l->callees);
    pp_vec_free(&l->buffers);
    pp_vec_free(&l->kept);
    pp_vec_free(&l->checks);
    pp_vec_free(&l->folds);
}

static ppto_status lower_group(lowerer *l)
{
    uint32_t a_value = 0, b_value = 0;
    for (int i = 0; i < PP_SLOT_FIRST; i++)
        PP_TRY(pp_vec_push(&l->out->slots, i == 1 ? PP_SIZE_1 : PP_SIZE_0));
    PP_TRY(place_axes(l));
    PP_TRY(set_levels(l));
    if (l->group->frame == PP_FRAME_CONTRACT) {
        PP_TRY(emit_side(l, 0, &a_value));
        PP_TRY(emit_side(l, 1, &b_value));
    }
    if (l->group->frame == PP_FRAME_LANES || l->group->frame == PP_FRAME_ROWS)
        PP_TRY(emit_reduction_stages(l));
    else
        PP_TRY(emit_flat_stage(l));
    PP_TRY(assemble(l, a_value, b_value));
    l->out->flops = count_flops(l);
    return pp_sizes_status(sizes_of(l));
}

ppto_status pp_lower(const pp_flat *flat, const pp_fused *fused, uint32_t group, pp_lowered *out,
                     pp_error *err)
{
    pp_arena temp = {0};
    memset(out, 0, sizeof *out);
    lowerer *l = pp_calloc(1, sizeof *l);
    if (!l) return PPTO_E_NOMEM;
    *l = (lowerer){.flat = flat,
                   .fused = fused,
                   .group = &fused->groups.at[group],
                   .group_id = group,
                   .out = out,
                   .temp = &temp,
                   .err = err};
    l->ix = (pp_index){&temp, flat->types, &l->group->axes, false};
    out->program = l->program = pp_calloc(1, sizeof *l->program);
    ppto_status status = l->program ? lower_group(l) : PPTO_E_NOMEM;
    free_builders(l);
    pp_free(l);
    pp_arena_free(&temp);
    return status == PPTO_OK ? PPTO_OK : pp_fail(err, status, "lowering: %s", ppto_status_text(status));
}

void pp_lowered_free(pp_lowered *lowered)
{
    pp_program_destroy(lowered->program);
    pp_vec_free(&lowered->tensors);
    pp_vec_free(&lowered->slots);
    pp_vec_free(&lowered->args);
    memset(lowered, 0, sizeof *lowered);
}
