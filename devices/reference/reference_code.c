/* SPDX-License-Identifier: Apache-2.0
 * One instruction at one point. Whatever an instruction means is written here once, for programs and
 * functions alike; arithmetic is pp_scalar_eval. */
#include "devices/reference/reference.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- functions ------------------------------------------------------------------------------- */

static ppto_dtype operand_dtype(const pp_pools *pools, const pp_instr *instr)
{
    return (ppto_dtype)pools->code[instr->op == PP_SELECT ? instr->b : instr->a].dtype;
}

static uint64_t call(const pp_pools *pools, const uint64_t *value, uint32_t callee, uint32_t first,
                     uint64_t *stack)
{
    const pp_function *function = pools->callees[callee];
    uint64_t params[PP_REF_PARAMS], results[PP_REF_STATES];
    for (uint32_t i = 0; i < function->n_params; i++) params[i] = value[pools->operands[first + i]];
    pp_ref_call(function, params, results, stack);
    return results[0];
}

/* Rows that look at nothing but values of the same region. */
static uint64_t plain(const pp_pools *pools, const uint64_t *value, const pp_instr *instr, uint64_t *stack)
{
    uint64_t operand[3] = {0};
    switch ((int)instr->op) {
    case PP_CONST: return pools->consts[instr->imm];
    case PP_TABLE:
        return pools->tables[instr->imm].bits[value[instr->a] & (pools->tables[instr->imm].length - 1)];
    case PP_CALL: return call(pools, value, instr->imm, instr->a, stack);
    case PP_COLD:
        if (value[instr->a] == 0) return value[instr->b];
        return call(pools, value, instr->imm, instr->c, stack);
    default: break;
    }
    const uint32_t at[3] = {instr->a, instr->b, instr->c};
    for (unsigned i = 0; i < pp_scalar_find((pp_op)instr->op)->arity; i++) operand[i] = value[at[i]];
    return pp_scalar_eval((pp_op)instr->op, operand_dtype(pools, instr), (ppto_dtype)instr->dtype, operand[0],
                          operand[1], operand[2]);
}

void pp_ref_call(const pp_function *function, const uint64_t *params, uint64_t *results, uint64_t *stack)
{
    const pp_pools pools = pp_function_pools(function);
    uint64_t *value = stack;
    for (uint32_t i = 0; i < function->n_code; i++) {
        const pp_instr *instr = &function->code[i];
        value[i] = instr->op == PP_PARAM ? params[instr->imm]
                                         : plain(&pools, value, instr, stack + function->n_code);
    }
    for (uint32_t i = 0; i < function->n_results; i++) results[i] = value[function->result[i]];
}

size_t pp_ref_function_words(const pp_function *function)
{
    size_t deepest = 0;
    if (function == NULL) return 0;
    for (uint32_t i = 0; i < function->n_callees; i++) {
        size_t words = pp_ref_function_words(function->callees[i]);
        if (words > deepest) deepest = words;
    }
    return function->n_code + deepest;
}

/* ---- places ---------------------------------------------------------------------------------- */

static int64_t sign_extended(ppto_dtype dtype, uint64_t bits)
{
    return (int64_t)pp_scalar_eval(PP_CAST, dtype, PPTO_I64, bits, 0, 0);
}

/* Wraps where a program wraps: such an index fails its guard or the bounds. */
static int64_t affine_at(const pp_ref_run *run, uint32_t index)
{
    const pp_program *p = run->program;
    const pp_affine *affine = &p->affines[index];
    const int64_t *slot = run->launch->slots;
    uint64_t sum = (uint64_t)slot[affine->base];
    for (uint32_t i = 0; i < affine->n_terms; i++) {
        const pp_term *term = &p->terms[affine->first_term + i];
        sum += (uint64_t)slot[term->coef] * (uint64_t)run->coord[term->axis];
    }
    if (affine->value != PP_NONE) {
        sum += (uint64_t)sign_extended((ppto_dtype)p->code[affine->value].dtype, run->value[affine->value]);
    }
    return (int64_t)sum;
}

static bool guards_hold(const pp_ref_run *run, uint32_t first, uint32_t count)
{
    const int64_t *slot = run->launch->slots;
    for (uint32_t i = 0; i < count; i++) {
        const pp_guard *guard = &run->program->guards[first + i];
        int64_t at = affine_at(run, guard->affine);
        if (at < slot[guard->lo] || at >= slot[guard->hi]) return false;
    }
    return true;
}

/* The element's address; NULL outside the guards, and outside the tensor, which is noted. */
static char *element(pp_ref_run *run, const pp_access *access)
{
    const pp_ref_tensor *tensor = &run->launch->tensors[access->tensor];
    char *at = tensor->data;
    if (!guards_hold(run, access->first_guard, access->n_guards)) return NULL;
    for (uint32_t d = 0; d < run->program->tensors[access->tensor].rank; d++) {
        int64_t index = affine_at(run, access->first_affine + d);
        if (index < 0 || index >= tensor->shape[d]) {
            run->out_of_bounds = true;
            return NULL;
        }
        at += index * tensor->stride[d];
    }
    return at;
}

static uint64_t load(pp_ref_run *run, const pp_access *access)
{
    uint64_t bits = 0;
    const char *at = element(run, access);
    if (at == NULL) return access->fill;
    memcpy(&bits, at, ppto_dtype_size((ppto_dtype)run->program->tensors[access->tensor].dtype));
    return bits;
}

static void store(pp_ref_run *run, const pp_access *access, uint64_t bits)
{
    const pp_tensor_slot *slot = &run->program->tensors[access->tensor];
    ppto_dtype dtype = (ppto_dtype)slot->dtype;
    char *at = element(run, access);
    if (at == NULL) return;
    bool nan = pp_dtype_is_float(dtype) && pp_scalar_eval(PP_NE, dtype, PPTO_BOOL, bits, bits, 0) != 0;
    if (nan && slot->result) bits = pp_dtype_canonical_nan(dtype);
    memcpy(at, &bits, ppto_dtype_size(dtype));
}

/* ---- programs -------------------------------------------------------------------------------- */

static void check(pp_ref_run *run, const pp_instr *instr)
{
    const pp_check *row = &run->program->checks[instr->imm];
    int64_t position = affine_at(run, row->position);
    if (run->value[instr->a] != 0) return;
    if (run->failed != NULL && run->failed_at <= position) return;
    run->failed = row;
    run->failed_at = position;
    run->failed_value = run->value[instr->b];
    run->failed_dtype = (ppto_dtype)instr->dtype;
}

static void effect(pp_ref_run *run, const pp_instr *instr)
{
    uint64_t bits = run->value[instr->a];
    if (instr->op == PP_STORE) store(run, &run->program->accesses[instr->imm], bits);
    if (instr->op == PP_KEEP) run->buffer[instr->imm * run->launch->inner + run->k] = bits;
    if (instr->op == PP_CHECK) check(run, instr);
}

static uint64_t evaluate(pp_ref_run *run, const pp_pools *pools, const pp_instr *instr)
{
    const pp_launch *launch = run->launch;
    switch ((int)instr->op) {
    case PP_ARG: return launch->args[instr->imm];
    case PP_INDEX: return (uint64_t)affine_at(run, instr->imm);
    case PP_LOAD: return load(run, &run->program->accesses[instr->imm]);
    case PP_INSIDE: return guards_hold(run, instr->imm, instr->a);
    case PP_STATE: return run->result[instr->imm * PP_REF_STATES + instr->a];
    case PP_SCANNED:
        return run->scanned[launch->scan_at[instr->imm] + (uint64_t)(instr->a * launch->inner + run->k)];
    case PP_BUFFER: return run->buffer[instr->imm * launch->inner + run->k];
    case PP_PRODUCT: return pp_ref_product(run);
    default: return plain(pools, run->value, instr, run->stack);
    }
}

void pp_ref_code(pp_ref_run *run, uint32_t first, uint32_t count, const bool *only)
{
    const pp_pools pools = pp_program_pools(run->program);
    for (uint32_t i = first; i < first + count; i++) {
        const pp_instr *instr = &run->program->code[i];
        if (only != NULL && !only[i]) continue;
        if (pp_instr_is_effect((pp_op)instr->op))
            effect(run, instr);
        else
            run->value[i] = evaluate(run, &pools, instr);
    }
}

/* ---- the text of a failed check -------------------------------------------------------------- */

static void value_text(ppto_dtype dtype, uint64_t bits, char *out, size_t size)
{
    double number;
    switch (pp_dtype_kind(dtype)) {
    case PP_KIND_BOOL: snprintf(out, size, "%s", bits != 0 ? "true" : "false"); break;
    case PP_KIND_INT: snprintf(out, size, "%" PRId64, sign_extended(dtype, bits)); break;
    case PP_KIND_UINT: snprintf(out, size, "%" PRIu64, bits); break;
    case PP_KIND_FLOAT:
        bits = pp_scalar_eval(PP_CAST, dtype, PPTO_F64, bits, 0, 0);
        memcpy(&number, &bits, sizeof number);
        pp_snprintf(out, size, "%.*g", dtype == PPTO_F32 ? 9 : 17, number);
        break;
    }
}

void pp_ref_check_text(const pp_ref_run *run, char *out, size_t size)
{
    char value[64], position[32];
    size_t n = 0;
    value_text(run->failed_dtype, run->failed_value, value, sizeof value);
    snprintf(position, sizeof position, "%" PRId64, run->failed_at);
    out[0] = '\0';
    for (const char *p = run->failed->message; *p != '\0' && n + 1 < size;) {
        bool is_value = strncmp(p, "{value}", 7) == 0, is_position = strncmp(p, "{position}", 10) == 0;
        int written = is_value      ? snprintf(out + n, size - n, "%s", value)
                      : is_position ? snprintf(out + n, size - n, "%s", position)
                                    : snprintf(out + n, size - n, "%c", *p);
        n += (size_t)written;
        p += is_value ? 7 : is_position ? 10 : 1;
    }
}
