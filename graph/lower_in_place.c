/* SPDX-License-Identifier: Apache-2.0
 * Whether a kernel may write a result over one of its inputs. It may when every load of the input is the
 * element that the store writes (the same affine indices, no guards), in no later stage than the store, and
 * every use of a load comes before the stored value is complete, so that a tile that is written holds nothing
 * that is still to be read. */
#include <string.h>

#include "graph/lower.h"

static bool same_affine(const pp_program *p, const pp_affine *a, const pp_affine *b)
{
    if (a->base != b->base || a->n_terms != b->n_terms || a->value != PP_NONE || b->value != PP_NONE)
        return false;
    for (uint32_t i = 0; i < a->n_terms; i++)
        if (p->terms[a->first_term + i].axis != p->terms[b->first_term + i].axis ||
            p->terms[a->first_term + i].coef != p->terms[b->first_term + i].coef)
            return false;
    return true;
}

static bool same_access(const pp_program *p, const pp_access *a, const pp_access *b, uint32_t rank)
{
    if (a->n_guards || b->n_guards) return false;
    for (uint32_t i = 0; i < rank; i++)
        if (!same_affine(p, &p->affines[a->first_affine + i], &p->affines[b->first_affine + i])) return false;
    return true;
}

static bool uses(const pp_program *p, const pp_instr *instr, uint32_t value)
{
    if (instr->op < PP_SCALAR_COUNT) {
        uint32_t n = pp_scalar_find((pp_op)instr->op)->arity;
        return (n > 0 && instr->a == value) || (n > 1 && instr->b == value) || (n > 2 && instr->c == value);
    }
    if (instr->op == PP_STORE || instr->op == PP_KEEP) return instr->a == value;
    if (instr->op == PP_CHECK) return instr->a == value || instr->b == value;
    for (uint32_t k = 0; instr->op == PP_CALL && k < instr->b; k++)
        if (p->operands[instr->a + k] == value) return true;
    return false;
}

/* Input `in` is read only at the stored place and before the value `stored` (instruction of stage s) is
 * complete. */
static bool can_take(const pp_program *p, uint32_t in, const pp_access *store, uint32_t s, uint32_t stored)
{
    bool read = false;
    for (uint32_t i = 0; i < p->n_code; i++) {
        const pp_instr *instr = &p->code[i];
        if (instr->op != PP_LOAD || p->accesses[instr->imm].tensor != in) continue;
        read = true;
        if (!same_access(p, &p->accesses[instr->imm], store, p->tensors[in].rank)) return false;
        if (i >= p->stages[s].first + p->stages[s].count) return false;
        if (i < p->stages[s].first) continue;
        for (uint32_t k = i + 1; k < p->stages[s].first + p->stages[s].count; k++)
            if (k > stored && uses(p, &p->code[k], i) && !(p->code[k].op == PP_STORE && stored == i))
                return false;
        for (uint32_t f = 0; f < p->stages[s].n_folds; f++)
            for (uint32_t k = 0; k < p->folds[p->stages[s].first_fold + f].n_inputs; k++)
                if (p->folds[p->stages[s].first_fold + f].input[k] == i) return false;
    }
    return read;
}

bool pp_lowered_takes(const pp_lowered *lowered, uint32_t output, uint32_t input)
{
    const pp_program *p = lowered->program;
    const pp_tensor_slot *to = &p->tensors[output], *from = &p->tensors[input];
    if (p->frame == PP_FRAME_CONTRACT || p->frame == PP_FRAME_CHAIN || from->output ||
        lowered->tensors.at[input].linear)
        return false;
    if (from->rank != to->rank ||
        ppto_dtype_size((ppto_dtype)from->dtype) != ppto_dtype_size((ppto_dtype)to->dtype))
        return false;
    for (uint32_t s = 0; s < p->n_stages; s++)
        for (uint32_t i = p->stages[s].first; i < p->stages[s].first + p->stages[s].count; i++)
            if (p->code[i].op == PP_STORE && p->accesses[p->code[i].imm].tensor == output)
                return can_take(p, input, &p->accesses[p->code[i].imm], s, p->code[i].a);
    return false;
}

bool pp_lowered_in_place(const pp_lowered *lowered, uint32_t output, uint32_t *input)
{
    for (uint32_t t = 0; t < lowered->program->n_tensors; t++)
        if (pp_lowered_takes(lowered, output, t)) return *input = t, true;
    return false;
}
