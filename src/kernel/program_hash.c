/* SPDX-License-Identifier: Apache-2.0
 * Hash and equality of programs and functions.
 *
 * Hashes go field by field, never over raw structs (padding), and take constants, tables and callees by
 * content, so that the numbering of a pool does not matter. A function's hash takes its code in order: two
 * functions are the same when they were written the same way, whatever their names. Equality of programs also
 * compares the messages of checks, because a cached program reports its own. */
#include <string.h>

#include "kernel/walk.h"

static uint64_t mix2(uint64_t h, uint64_t a, uint64_t b)
{
    return pp_hash_mix(pp_hash_mix(h, a), b);
}

static uint64_t hash_table(uint64_t h, const pp_table *table)
{
    h = mix2(h, table->dtype, table->length);
    for (uint32_t i = 0; i < table->length; i++) h = pp_hash_mix(h, table->bits[i]);
    return h;
}

/* What imm stands for, by content. */
static uint64_t hash_imm(uint64_t h, const pp_pools *pools, const pp_instr *instr)
{
    switch (instr->op) {
    case PP_CONST: return pp_hash_mix(h, pools->consts[instr->imm]);
    case PP_TABLE: return hash_table(h, &pools->tables[instr->imm]);
    case PP_CALL:
    case PP_COLD: return pp_hash_mix(h, pools->callees[instr->imm]->hash);
    default: return pp_hash_mix(h, instr->imm);
    }
}

/* Operands count from the code's start; fields without meaning for the op are left out. */
uint64_t pp_pools_hash(uint64_t h, const pp_pools *pools)
{
    for (uint32_t i = 0; i < pools->n_code; i++) {
        const pp_instr *instr = &pools->code[i];
        uint32_t operand[PP_MAX_OPERANDS];
        unsigned n = pp_instr_operands(pools, instr, operand);
        h = mix2(h, (uint64_t)instr->op << 8 | instr->dtype, n);
        for (unsigned k = 0; k < n; k++) h = pp_hash_mix(h, operand[k]);
        if (instr->op >= PP_SCALAR_COUNT) h = hash_imm(h, pools, instr);
        if (instr->op == PP_STATE || instr->op == PP_SCANNED || instr->op == PP_INSIDE)
            h = pp_hash_mix(h, instr->a);
    }
    return h;
}

uint64_t pp_function_hash(const pp_function *function)
{
    const pp_pools pools = pp_function_pools(function);
    uint64_t h = mix2(UINT64_C(0x66756e6374696f6e), function->n_params, function->n_results);
    for (unsigned i = 0; i < function->n_params; i++) h = pp_hash_mix(h, function->param[i]);
    for (unsigned i = 0; i < function->n_results; i++) h = pp_hash_mix(h, function->result[i]);
    h = pp_pools_hash(h, &pools);
    return h != 0 ? h : 1;
}

static uint64_t function_key(const pp_function *function)
{
    return function != NULL ? function->hash : 0;
}

static uint64_t hash_fold(uint64_t h, const pp_fold *fold)
{
    h = mix2(h, fold->n_states, fold->n_inputs);
    h = mix2(h, (uint64_t)fold->joined << 1 | fold->position, fold->law);
    for (unsigned i = 0; i < fold->n_states; i++) h = pp_hash_mix(h, fold->state[i]);
    for (unsigned i = 0; i < fold->n_inputs; i++) h = pp_hash_mix(h, fold->input[i]);
    h = mix2(h, function_key(fold->lift), function_key(fold->step));
    return mix2(h, function_key(fold->join), function_key(fold->finish));
}

static uint64_t hash_places(uint64_t h, const pp_program *p)
{
    for (uint32_t i = 0; i < p->n_axes; i++) h = mix2(h, p->axes[i].size, p->axes[i].role);
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        const pp_tensor_slot *t = &p->tensors[i];
        h = mix2(h, t->dtype, (uint64_t)t->rank << 2 | (uint64_t)t->output << 1 | t->result);
    }
    for (uint32_t i = 0; i < p->n_terms; i++) h = mix2(h, p->terms[i].axis, p->terms[i].coef);
    for (uint32_t i = 0; i < p->n_affines; i++) {
        const pp_affine *a = &p->affines[i];
        h = mix2(mix2(h, a->base, a->n_terms), a->first_term, a->value);
    }
    for (uint32_t i = 0; i < p->n_guards; i++)
        h = mix2(h, p->guards[i].affine, (uint64_t)p->guards[i].lo << 16 | p->guards[i].hi);
    for (uint32_t i = 0; i < p->n_accesses; i++) {
        const pp_access *a = &p->accesses[i];
        h = mix2(mix2(h, a->tensor, a->first_affine), a->first_guard, a->n_guards);
        h = pp_hash_mix(h, a->fill);
    }
    return h;
}

static uint64_t hash_part(uint64_t h, const pp_chain_part *part)
{
    h = pp_hash_mix(h, part->program->hash);
    for (uint32_t t = 0; t < part->program->n_tensors; t++) h = pp_hash_mix(h, part->tensor[t]);
    return h;
}

static uint64_t hash_local(uint64_t h, const pp_local *local)
{
    h = mix2(h, (uint64_t)local->dtype << 32 | local->rank, (uint64_t)local->rows << 32 | local->place);
    for (uint32_t d = 0; d < local->rank; d++) h = pp_hash_mix(h, local->dim[d]);
    return h;
}

uint64_t pp_program_hash(const pp_program *p)
{
    const pp_pools pools = pp_program_pools(p);
    uint64_t h = mix2(UINT64_C(0x70726f6772616d), p->frame, (uint64_t)p->n_slots << 32 | p->n_args);
    h = mix2(h, (uint64_t)p->n_axes << 32 | p->n_tensors, (uint64_t)p->n_code << 32 | p->n_folds);
    h = hash_places(h, p);
    h = pp_pools_hash(h, &pools);
    for (uint32_t i = 0; i < p->n_folds; i++) h = hash_fold(h, &p->folds[i]);
    for (uint32_t i = 0; i < p->n_buffers; i++) h = pp_hash_mix(h, p->buffers[i].dtype);
    for (uint32_t i = 0; i < p->n_checks; i++) h = pp_hash_mix(h, p->checks[i].position);
    for (uint32_t i = 0; i < p->n_stages; i++) {
        const pp_stage *s = &p->stages[i];
        h = mix2(mix2(h, s->first, s->count), (uint64_t)s->inner << 32 | s->first_fold, s->n_folds);
    }
    if (p->frame == PP_FRAME_CONTRACT) {
        const pp_contract *c = &p->contract;
        h = mix2(pp_hash_mix(h, c->dtype), (uint64_t)c->a_first << 32 | c->a_count, c->a_value);
        h = mix2(h, (uint64_t)c->b_first << 32 | c->b_count, c->b_value);
    }
    for (uint32_t i = 0; i < p->n_parts; i++) h = hash_part(h, &p->parts[i]);
    for (uint32_t i = 0; i < p->n_locals; i++) h = hash_local(h, &p->locals[i]);
    return h != 0 ? h : 1;
}

/* ---- equality ------------------------------------------------------------------------------------------ */

static bool same_tables(const pp_table *a, const pp_table *b)
{
    return a->dtype == b->dtype && a->length == b->length &&
           memcmp(a->bits, b->bits, a->length * sizeof *a->bits) == 0;
}

static bool same_imm(const pp_pools *a, const pp_instr *x, const pp_pools *b, const pp_instr *y)
{
    switch (x->op) {
    case PP_CONST: return a->consts[x->imm] == b->consts[y->imm];
    case PP_TABLE: return same_tables(&a->tables[x->imm], &b->tables[y->imm]);
    case PP_CALL:
    case PP_COLD: return a->callees[x->imm]->hash == b->callees[y->imm]->hash;
    case PP_STATE:
    case PP_SCANNED:
    case PP_INSIDE: return x->imm == y->imm && x->a == y->a;
    default: return x->imm == y->imm;
    }
}

static bool same_code(const pp_program *p, const pp_program *q)
{
    const pp_pools a = pp_program_pools(p), b = pp_program_pools(q);
    if (p->n_code != q->n_code) return false;
    for (uint32_t i = 0; i < p->n_code; i++) {
        const pp_instr *x = &p->code[i], *y = &q->code[i];
        uint32_t left[PP_MAX_OPERANDS], right[PP_MAX_OPERANDS];
        if (x->op != y->op || x->dtype != y->dtype) return false;
        if (x->op >= PP_SCALAR_COUNT && !same_imm(&a, x, &b, y)) return false;
        unsigned n = pp_instr_operands(&a, x, left);
        if (n != pp_instr_operands(&b, y, right) || memcmp(left, right, n * sizeof *left) != 0) return false;
    }
    return true;
}

static bool same_folds(const pp_fold *a, const pp_fold *b)
{
    return a->n_states == b->n_states && a->n_inputs == b->n_inputs && a->joined == b->joined &&
           a->position == b->position && a->law == b->law && memcmp(a->state, b->state, a->n_states) == 0 &&
           memcmp(a->input, b->input, a->n_inputs * sizeof *a->input) == 0 &&
           function_key(a->lift) == function_key(b->lift) && function_key(a->step) == function_key(b->step) &&
           function_key(a->join) == function_key(b->join) &&
           function_key(a->finish) == function_key(b->finish);
}

static bool same_affines(const pp_program *p, const pp_program *q)
{
    for (uint32_t i = 0; i < p->n_axes; i++)
        if (p->axes[i].size != q->axes[i].size || p->axes[i].role != q->axes[i].role) return false;
    for (uint32_t i = 0; i < p->n_terms; i++)
        if (p->terms[i].axis != q->terms[i].axis || p->terms[i].coef != q->terms[i].coef) return false;
    for (uint32_t i = 0; i < p->n_affines; i++) {
        const pp_affine *a = &p->affines[i], *b = &q->affines[i];
        if (a->base != b->base || a->n_terms != b->n_terms || a->value != b->value) return false;
        if (a->n_terms != 0 && a->first_term != b->first_term) return false;
    }
    for (uint32_t i = 0; i < p->n_guards; i++) {
        const pp_guard *a = &p->guards[i], *b = &q->guards[i];
        if (a->affine != b->affine || a->lo != b->lo || a->hi != b->hi) return false;
    }
    return true;
}

static bool same_accesses(const pp_program *p, const pp_program *q)
{
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        const pp_tensor_slot *a = &p->tensors[i], *b = &q->tensors[i];
        if (a->dtype != b->dtype || a->rank != b->rank || a->output != b->output || a->result != b->result)
            return false;
    }
    for (uint32_t i = 0; i < p->n_accesses; i++) {
        const pp_access *a = &p->accesses[i], *b = &q->accesses[i];
        if (a->tensor != b->tensor || a->first_affine != b->first_affine || a->n_guards != b->n_guards ||
            a->first_guard != b->first_guard || a->fill != b->fill)
            return false;
    }
    return true;
}

static bool same_stages(const pp_program *p, const pp_program *q)
{
    for (uint32_t i = 0; i < p->n_folds; i++)
        if (!same_folds(&p->folds[i], &q->folds[i])) return false;
    for (uint32_t i = 0; i < p->n_buffers; i++)
        if (p->buffers[i].dtype != q->buffers[i].dtype) return false;
    for (uint32_t i = 0; i < p->n_checks; i++)
        if (p->checks[i].position != q->checks[i].position ||
            strcmp(p->checks[i].message, q->checks[i].message) != 0)
            return false;
    for (uint32_t i = 0; i < p->n_stages; i++) {
        const pp_stage *a = &p->stages[i], *b = &q->stages[i];
        if (a->first != b->first || a->count != b->count || a->inner != b->inner ||
            a->first_fold != b->first_fold || a->n_folds != b->n_folds)
            return false;
    }
    return true;
}

static bool same_contract(const pp_contract *a, const pp_contract *b)
{
    return a->dtype == b->dtype && a->a_first == b->a_first && a->a_count == b->a_count &&
           a->a_value == b->a_value && a->b_first == b->b_first && a->b_count == b->b_count &&
           a->b_value == b->b_value;
}

static bool same_counts(const pp_program *p, const pp_program *q)
{
    return p->frame == q->frame && p->n_slots == q->n_slots && p->n_args == q->n_args &&
           p->n_axes == q->n_axes && p->n_tensors == q->n_tensors && p->n_terms == q->n_terms &&
           p->n_affines == q->n_affines && p->n_guards == q->n_guards && p->n_accesses == q->n_accesses &&
           p->n_code == q->n_code && p->n_folds == q->n_folds && p->n_buffers == q->n_buffers &&
           p->n_checks == q->n_checks && p->n_stages == q->n_stages;
}

static bool same_locals(const pp_program *p, const pp_program *q)
{
    if (p->n_locals != q->n_locals) return false;
    for (uint32_t i = 0; i < p->n_locals; i++) {
        const pp_local *a = &p->locals[i], *b = &q->locals[i];
        if (a->dtype != b->dtype || a->rank != b->rank || a->rows != b->rows || a->place != b->place ||
            memcmp(a->dim, b->dim, a->rank * sizeof *a->dim) != 0)
            return false;
    }
    return true;
}

static bool same_parts(const pp_program *p, const pp_program *q)
{
    if (p->n_parts != q->n_parts || !same_locals(p, q)) return false;
    for (uint32_t i = 0; i < p->n_parts; i++) {
        const pp_chain_part *a = &p->parts[i], *b = &q->parts[i];
        if (!pp_program_equal(a->program, b->program) ||
            memcmp(a->tensor, b->tensor, a->program->n_tensors * sizeof *a->tensor) != 0)
            return false;
    }
    return true;
}

bool pp_program_equal(const pp_program *a, const pp_program *b)
{
    if (a == b) return true;
    return same_counts(a, b) && same_affines(a, b) && same_accesses(a, b) && same_code(a, b) &&
           same_stages(a, b) &&
           (a->frame != PP_FRAME_CONTRACT || same_contract(&a->contract, &b->contract)) && same_parts(a, b);
}
