/* SPDX-License-Identifier: Apache-2.0
 * Putting a program together: the code of sides and stages one behind the other, operands and folds numbered
 * through, and what it all counts in operations. */
#include <string.h>

#include "graph/lower_parts.h"

static bool is_scalar_op(uint8_t op)
{
    return op < PP_SCALAR_COUNT;
}

/* Operands of an instruction become numbers of the whole program, whose code it follows. */
static void shift(pp_lowerer *l, pp_instr *instr, uint32_t base)
{
    if (is_scalar_op(instr->op)) {
        uint32_t n = pp_scalar_find((pp_op)instr->op)->arity;
        if (n > 0) instr->a += base;
        if (n > 1) instr->b += base;
        if (n > 2) instr->c += base;
    } else if (instr->op == PP_STORE || instr->op == PP_KEEP) {
        instr->a += base;
    } else if (instr->op == PP_CHECK) {
        instr->a += base;
        instr->b += base;
    } else if (instr->op == PP_STATE || instr->op == PP_SCANNED) {
        instr->imm = l->fold_number[instr->imm];
    }
}

/* The same for the operands of a call and the indices of a load, which stand in lists of their own. */
static void shift_lists(pp_lowerer *l, const pp_instr *instr, uint32_t base)
{
    if (instr->op == PP_CALL)
        for (uint32_t k = 0; k < instr->b; k++) l->operands.at[instr->a + k] += base;
    if (instr->op != PP_LOAD) return;
    const pp_access *access = &l->accesses.at[instr->imm];
    for (uint32_t k = 0; k < l->tensors.at[access->tensor].rank; k++) {
        pp_affine *affine = &l->affines.at[access->first_affine + k];
        if (affine->value != PP_NONE) affine->value += base;
    }
}

/* Moves the code of a stage or side behind what is there. */
static void append_code(pp_lowerer *l, uint32_t which, uint32_t *first, uint32_t *count)
{
    pp_program *p = l->program;
    const pp_lower_code *c = &l->stage[which];
    *first = p->n_code;
    *count = (uint32_t)c->code.n;
    for (size_t i = 0; i < c->code.n; i++) {
        pp_instr instr = c->code.at[i];
        shift(l, &instr, *first);
        shift_lists(l, &instr, *first);
        p->code[p->n_code++] = instr;
    }
}

/* Folds are numbered by stage, so that every stage's are consecutive. */
static ppto_status number_folds(pp_lowerer *l)
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

static void assemble_sides(pp_lowerer *l)
{
    pp_contract *c = &l->program->contract;
    c->dtype = pp_flat_type(l->flat, l->group->heavies.at[0].prim)->dtype;
    append_code(l, PP_LOWER_STAGES, &c->a_first, &c->a_count);
    append_code(l, PP_LOWER_STAGES + 1, &c->b_first, &c->b_count);
    c->a_value = c->a_first + l->side_value[0];
    c->b_value = c->b_first + l->side_value[1];
}

static void assemble_stage(pp_lowerer *l, uint32_t which, uint32_t first_fold)
{
    pp_stage *stage = &l->program->stages[l->program->n_stages++];
    append_code(l, which, &stage->first, &stage->count);
    stage->inner = l->stage[which].inner;
    stage->first_fold = first_fold;
    stage->n_folds = (uint32_t)l->stage[which].folds.n;
    for (uint32_t i = 0; i < stage->n_folds; i++) {
        pp_fold *fold = &l->folds.at[first_fold + i];
        for (uint32_t k = 0; k < fold->n_inputs; k++) fold->input[k] += stage->first;
    }
}

static ppto_status assemble_code(pp_lowerer *l)
{
    pp_program *p = l->program;
    uint32_t total = 0, fold = 0;
    for (uint32_t s = 0; s < PP_LOWER_STAGES + 2; s++) total += (uint32_t)l->stage[s].code.n;
    p->frame = l->group->frame;
    p->code = pp_arena_alloc(&p->arena, (total + 1) * sizeof *p->code);
    p->stages = pp_arena_alloc(&p->arena, (l->n_stages + 1) * sizeof *p->stages);
    if (!p->code || !p->stages) return PPTO_E_NOMEM;
    PP_TRY(number_folds(l));
    if (p->frame == PP_FRAME_CONTRACT) assemble_sides(l);
    for (uint32_t s = 0; s < l->n_stages; s++) {
        assemble_stage(l, s, fold);
        fold += p->stages[s].n_folds;
    }
    return PPTO_OK;
}

/* Copies a list of the lowerer into the program. */
#define COPY_ARRAY(field)                                                                                    \
    do {                                                                                                     \
        p->field = pp_arena_alloc(&p->arena, (l->field.n + 1) * sizeof *p->field);                           \
        if (!p->field) return PPTO_E_NOMEM;                                                                  \
        if (l->field.n) memcpy(p->field, l->field.at, l->field.n * sizeof *p->field);                        \
        p->n_##field = (uint32_t)l->field.n;                                                                 \
    } while (0)

ppto_status pp_lower_assemble(pp_lowerer *l)
{
    pp_program *p = l->program;
    PP_TRY(assemble_code(l));
    COPY_ARRAY(tensors);
    COPY_ARRAY(terms);
    COPY_ARRAY(affines);
    COPY_ARRAY(guards);
    COPY_ARRAY(accesses);
    COPY_ARRAY(operands);
    COPY_ARRAY(callees);
    COPY_ARRAY(folds);
    COPY_ARRAY(buffers);
    COPY_ARRAY(checks);
    p->n_slots = (uint32_t)l->out->slots.n;
    p->n_args = (uint32_t)l->out->args.n;
    p->hash = pp_program_hash(p);
    return PPTO_OK;
}

/* ---- operations -------------------------------------------------------------------------------- */

/* How many points the outer axes have, and all of them. */
static void points(pp_lowerer *l, pp_size *outer, pp_size *all)
{
    const pp_axes *axes = &l->group->axes;
    pp_size inner = PP_SIZE_1;
    *outer = PP_SIZE_1;
    for (uint32_t i = 0; i < axes->n_order; i++) {
        uint8_t role = l->group->role[axes->order[i]];
        pp_size *into = role == PP_AXIS_INNER || role == PP_AXIS_K ? &inner : outer;
        *into = pp_size_mul(pp_lower_sizes(l), *into, axes->size[axes->order[i]]);
    }
    *all = pp_size_mul(pp_lower_sizes(l), *outer, inner);
}

/* What a stage counts at every outer point, and at every point. */
static void count_stage(const pp_lower_code *c, int64_t *at_outer, int64_t *at_all)
{
    *at_outer = *at_all = 0;
    for (size_t i = 0; i < c->code.n; i++) {
        if (!is_scalar_op(c->code.at[i].op)) continue;
        int64_t *into = c->inner && c->varies.at[i] ? at_all : at_outer;
        *into += pp_scalar_find((pp_op)c->code.at[i].op)->flops;
    }
    for (size_t i = 0; i < c->folds.n; i++) *at_all += c->folds.at[i].n_states;
}

pp_size pp_lower_flops(pp_lowerer *l)
{
    pp_sizes *sizes = pp_lower_sizes(l);
    pp_size outer, all, sum = PP_SIZE_0;
    points(l, &outer, &all);
    for (uint32_t s = 0; s < l->n_stages; s++) {
        int64_t at_outer, at_all;
        count_stage(&l->stage[s], &at_outer, &at_all);
        sum = pp_size_add(sizes, sum, pp_size_mul(sizes, outer, pp_size_const(sizes, at_outer)));
        if (at_all) sum = pp_size_add(sizes, sum, pp_size_mul(sizes, all, pp_size_const(sizes, at_all)));
    }
    if (l->group->frame == PP_FRAME_CONTRACT)
        sum = pp_size_add(sizes, sum, pp_size_mul(sizes, all, pp_size_const(sizes, 2)));
    return sum;
}
