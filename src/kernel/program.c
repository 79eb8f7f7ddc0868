/* SPDX-License-Identifier: Apache-2.0
 * The kernel program as a value: destroying it, walking what its instructions refer to, and the axes a value
 * depends on.
 *
 * All walks go over the code in order, once: operands lie before their use, so one pass forwards spreads
 * facts from operands to users, and one pass backwards from users to operands. */
#include "kernel/walk.h"

void pp_program_destroy(pp_program *program)
{
    if (program == NULL) return;
    for (uint32_t i = 0; i < program->n_parts; i++) pp_program_destroy(program->parts[i].program);
    pp_arena arena = program->arena;
    pp_free(program);
    pp_arena_free(&arena);
}

/* ---- walking ------------------------------------------------------------------------------------------- */

pp_pools pp_program_pools(const pp_program *program)
{
    return (pp_pools){program->code,     program->operands, program->consts,     program->tables,
                      program->callees,  program->n_code,   program->n_operands, program->n_consts,
                      program->n_tables, program->n_callees};
}

pp_pools pp_function_pools(const pp_function *function)
{
    return (pp_pools){function->code,     function->operands, function->consts,     function->tables,
                      function->callees,  function->n_code,   function->n_operands, function->n_consts,
                      function->n_tables, function->n_callees};
}

unsigned pp_instr_direct(pp_op op)
{
    if (op < PP_SCALAR_COUNT) return pp_scalar_find(op)->arity;
    switch (op) {
    case PP_TABLE:
    case PP_STORE:
    case PP_KEEP: return 1;
    case PP_CHECK:
    case PP_COLD: return 2;
    default: return 0;
    }
}

bool pp_instr_is_effect(pp_op op)
{
    return op == PP_STORE || op == PP_CHECK || op == PP_KEEP;
}

unsigned pp_instr_operands(const pp_pools *pools, const pp_instr *instr, uint32_t out[PP_MAX_OPERANDS])
{
    unsigned n = pp_instr_direct((pp_op)instr->op);
    const uint32_t direct[3] = {instr->a, instr->b, instr->c};
    for (unsigned i = 0; i < n; i++) out[i] = direct[i];
    uint32_t first = 0, count = 0;
    if (instr->op == PP_CALL) first = instr->a, count = instr->b;
    if (instr->op == PP_COLD) first = instr->c, count = pools->callees[instr->imm]->n_params;
    for (uint32_t i = 0; i < count && n < PP_MAX_OPERANDS; i++) out[n++] = pools->operands[first + i];
    return n;
}

static void visit_guards(const pp_program *program, uint32_t first, uint32_t count, pp_affine_visit visit,
                         void *context)
{
    for (uint32_t i = 0; i < count; i++) visit(context, program->guards[first + i].affine);
}

void pp_instr_affines(const pp_program *program, const pp_instr *instr, pp_affine_visit visit, void *context)
{
    switch (instr->op) {
    case PP_INDEX: visit(context, instr->imm); break;
    case PP_CHECK: visit(context, program->checks[instr->imm].position); break;
    case PP_INSIDE: visit_guards(program, instr->imm, instr->a, visit, context); break;
    case PP_LOAD:
    case PP_STORE: {
        const pp_access *access = &program->accesses[instr->imm];
        for (uint32_t d = 0; d < program->tensors[access->tensor].rank; d++)
            visit(context, access->first_affine + d);
        visit_guards(program, access->first_guard, access->n_guards, visit, context);
        break;
    }
    default: break;
    }
}

struct need {
    const pp_program *program;
    bool *needed;
};

static void need_affine(void *context, uint32_t affine)
{
    const struct need *need = context;
    uint32_t value = need->program->affines[affine].value;
    if (value != PP_NONE) need->needed[value] = true;
}

void pp_program_need(const pp_program *program, uint32_t first, uint32_t count, bool *needed)
{
    const pp_pools pools = pp_program_pools(program);
    struct need need = {program, needed};
    for (uint32_t i = first + count; i-- > first;) {
        uint32_t operand[PP_MAX_OPERANDS];
        if (!needed[i]) continue;
        unsigned n = pp_instr_operands(&pools, &program->code[i], operand);
        for (unsigned k = 0; k < n; k++) needed[operand[k]] = true;
        pp_instr_affines(program, &program->code[i], need_affine, &need);
    }
}

ppto_dtype pp_instr_operand_dtype(const pp_instr *code, const pp_instr *instr, unsigned i)
{
    const uint32_t operand[3] = {instr->a, instr->b, instr->c};
    if (i >= pp_instr_direct((pp_op)instr->op)) return PPTO_BOOL;
    return (ppto_dtype)code[operand[i]].dtype;
}

/* ---- axes ---------------------------------------------------------------------------------------------- */

struct axis_walk {
    const pp_program *program;
    const uint32_t *masks;
    uint32_t mask;
};

static void add_affine_axes(void *context, uint32_t affine)
{
    struct axis_walk *walk = context;
    const pp_affine *at = &walk->program->affines[affine];
    for (uint32_t i = 0; i < at->n_terms; i++)
        walk->mask |= UINT32_C(1) << walk->program->terms[at->first_term + i].axis;
    if (at->value != PP_NONE) walk->mask |= walk->masks[at->value];
}

static uint32_t all_axes(const pp_program *program, bool inner_too)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < program->n_axes; i++) {
        uint8_t role = program->axes[i].role;
        if (inner_too || (role != PP_AXIS_INNER && role != PP_AXIS_K)) mask |= UINT32_C(1) << i;
    }
    return mask;
}

void pp_program_axis_masks(const pp_program *program, uint32_t *masks)
{
    const pp_pools pools = pp_program_pools(program);
    const uint32_t outer = all_axes(program, false), all = all_axes(program, true);
    for (uint32_t i = 0; i < program->n_code; i++) {
        const pp_instr *instr = &program->code[i];
        uint32_t operand[PP_MAX_OPERANDS];
        struct axis_walk walk = {program, masks, 0};
        if (instr->op == PP_STATE || instr->op == PP_PRODUCT) walk.mask = outer;
        if (instr->op == PP_BUFFER || instr->op == PP_SCANNED) walk.mask = all;
        unsigned n = pp_instr_operands(&pools, instr, operand);
        for (unsigned k = 0; k < n; k++) walk.mask |= masks[operand[k]];
        pp_instr_affines(program, instr, add_affine_axes, &walk);
        masks[i] = walk.mask;
    }
}
