/* SPDX-License-Identifier: Apache-2.0
 * The invariants of a kernel program and of a scalar function, as one pass over everything in it.
 *
 * An executor may rely on all of this without looking again: every number is in the range of its pool, every
 * operand lies earlier in the same region, dtypes agree with the rows of scalar.def, folds agree with the
 * signatures of their functions, and values cross stages only in the ways the header names. A callee is
 * checked by its signature here; its own code is checked by pp_function_verify when it is built. A violation
 * is a mistake of ours: E_INTERNAL. */
#include "kernel/verify.h"

static ppto_status fail_at(const pp_verify *v, uint32_t at, const char *what)
{
    const pp_instr *instr = &v->pools.code[at];
    return pp_fail(v->err, PPTO_E_INTERNAL,
                   "kernel %s: instruction %u (%s, dtype %u, a %u, b %u, c %u, imm %u): %s", v->what, at,
                   pp_op_name((pp_op)instr->op), instr->dtype, instr->a, instr->b, instr->c, instr->imm,
                   what);
}

ppto_status pp_verify_fail(const pp_verify *v, const char *part, uint32_t at, const char *what)
{
    return pp_fail(v->err, PPTO_E_INTERNAL, "kernel %s: %s %u: %s", v->what, part, at, what);
}

#define NEED(condition, what)                                                                                \
    do {                                                                                                     \
        if (!(condition)) return fail_at(v, at, what);                                                       \
    } while (0)

bool pp_verify_bits(ppto_dtype dtype, uint64_t bits)
{
    unsigned width = pp_dtype_width(dtype);
    if (dtype == PPTO_BOOL) return bits <= 1;
    return width == 64 || bits >> width == 0;
}

bool pp_verify_range(uint64_t first, uint64_t count, uint64_t n)
{
    return first <= n && count <= n - first;
}

/* ---- instructions -------------------------------------------------------------------------------------- */

static ppto_status check_scalar(const pp_verify *v, uint32_t at)
{
    const pp_instr *code = v->pools.code, *instr = &code[at];
    const pp_op op = (pp_op)instr->op;
    const unsigned first = op == PP_SELECT ? 1 : 0, arity = pp_scalar_find(op)->arity;
    const ppto_dtype from = pp_instr_operand_dtype(code, instr, first), to = (ppto_dtype)instr->dtype;
    if (op == PP_SELECT)
        NEED(pp_instr_operand_dtype(code, instr, 0) == PPTO_BOOL, "the condition is not bool");
    for (unsigned i = first + 1; i < arity; i++)
        NEED(pp_instr_operand_dtype(code, instr, i) == from, "operands differ in dtype");
    NEED(pp_scalar_accepts(op, from), "the row does not take this dtype");
    if (op == PP_CAST || op == PP_BITCAST)
        NEED(pp_scalar_converts(op, from, to), "no such conversion");
    else
        NEED(pp_scalar_result(op, from) == to, "the result has another dtype");
    return PPTO_OK;
}

static ppto_status check_call(const pp_verify *v, uint32_t at)
{
    const pp_instr *code = v->pools.code, *instr = &code[at];
    const bool cold = instr->op == PP_COLD;
    NEED(instr->imm < v->pools.n_callees, "no such callee");
    const pp_function *callee = v->pools.callees[instr->imm];
    NEED(callee != NULL && callee->n_params <= sizeof callee->param && callee->n_results == 1,
         "a callee has one result");
    const uint32_t first = cold ? instr->c : instr->a, count = cold ? callee->n_params : instr->b;
    NEED(count == callee->n_params, "another number of operands than parameters");
    NEED(pp_verify_range(first, count, v->pools.n_operands), "operands out of range");
    NEED(callee->code[callee->result[0]].dtype == instr->dtype, "the callee's result has another dtype");
    return PPTO_OK;
}

static ppto_status check_call_dtypes(const pp_verify *v, uint32_t at)
{
    const pp_instr *code = v->pools.code, *instr = &code[at];
    const pp_function *callee = v->pools.callees[instr->imm];
    const uint32_t *operand = &v->pools.operands[instr->op == PP_COLD ? instr->c : instr->a];
    for (unsigned i = 0; i < callee->n_params; i++)
        NEED(code[operand[i]].dtype == callee->param[i], "an operand differs from its parameter in dtype");
    if (instr->op == PP_CALL) return PPTO_OK;
    NEED(code[instr->a].dtype == PPTO_BOOL, "the mask is not bool");
    NEED(code[instr->b].dtype == instr->dtype, "the hot value has another dtype");
    return PPTO_OK;
}

static ppto_status check_table(const pp_verify *v, uint32_t at)
{
    const pp_instr *instr = &v->pools.code[at];
    NEED(v->pools.tables[instr->imm].dtype == instr->dtype, "the table has another dtype");
    NEED(pp_dtype_is_integer((ppto_dtype)v->pools.code[instr->a].dtype), "the index is no integer");
    return PPTO_OK;
}

/* Numbers of an instruction that must be in range before anything follows them. */
static ppto_status check_numbers(const pp_verify *v, uint32_t at)
{
    const pp_instr *instr = &v->pools.code[at];
    NEED(instr->op < PP_OP_COUNT, "no such operation");
    NEED(instr->dtype < PPTO_F64 + 1, "no such dtype");
    switch (instr->op) {
    case PP_CONST:
        NEED(instr->imm < v->pools.n_consts, "no such constant");
        NEED(pp_verify_bits((ppto_dtype)instr->dtype, v->pools.consts[instr->imm]),
             "bits beyond the dtype's width");
        return PPTO_OK;
    case PP_TABLE: NEED(instr->imm < v->pools.n_tables, "no such table"); return PPTO_OK;
    case PP_CALL:
    case PP_COLD: return check_call(v, at);
    default: return PPTO_OK;
    }
}

ppto_status pp_verify_instr(const pp_verify *v, uint32_t at, uint32_t first)
{
    const pp_instr *instr = &v->pools.code[at];
    uint32_t operand[PP_MAX_OPERANDS];
    PP_TRY(check_numbers(v, at));
    unsigned n = pp_instr_operands(&v->pools, instr, operand);
    for (unsigned i = 0; i < n; i++) {
        NEED(operand[i] >= first && operand[i] < at, "an operand is not earlier in the same stage");
        NEED(!pp_instr_is_effect((pp_op)v->pools.code[operand[i]].op), "an operand without a value");
    }
    if (instr->op < PP_SCALAR_COUNT) return check_scalar(v, at);
    if (instr->op == PP_CALL || instr->op == PP_COLD) return check_call_dtypes(v, at);
    if (instr->op == PP_TABLE) return check_table(v, at);
    if (v->program != NULL) return pp_verify_kernel_instr(v, at, first);
    NEED(instr->op == PP_CONST || instr->op == PP_PARAM, "not allowed in a function");
    return PPTO_OK;
}

ppto_status pp_verify_tables(const pp_verify *v)
{
    for (uint32_t i = 0; i < v->pools.n_tables; i++) {
        const pp_table *table = &v->pools.tables[i];
        if (table->dtype > PPTO_F64) return pp_verify_fail(v, "table", i, "no such dtype");
        if (table->length == 0 || (table->length & (table->length - 1)) != 0)
            return pp_verify_fail(v, "table", i, "the length is no power of two");
        for (uint32_t k = 0; k < table->length; k++)
            if (!pp_verify_bits((ppto_dtype)table->dtype, table->bits[k]))
                return pp_verify_fail(v, "table", i, "bits beyond the dtype's width");
    }
    return PPTO_OK;
}

ppto_status pp_verify_instr_fail(const pp_verify *v, uint32_t at, const char *what)
{
    return fail_at(v, at, what);
}

ppto_status pp_function_verify(const pp_function *function, pp_error *err)
{
    const pp_verify checked = {.what = function->name, .err = err, .pools = pp_function_pools(function)};
    const pp_verify *v = &checked;
    if (function->n_params > sizeof function->param)
        return pp_verify_fail(v, "function", 0, "too many parameters");
    if (function->n_results == 0 || function->n_results > 4)
        return pp_verify_fail(v, "function", 0, "a function has one to four results");
    for (unsigned i = 0; i < function->n_params; i++)
        if (function->param[i] > PPTO_F64) return pp_verify_fail(v, "parameter", i, "no such dtype");
    PP_TRY(pp_verify_tables(v));
    for (uint32_t at = 0; at < function->n_code; at++) {
        const pp_instr *instr = &function->code[at];
        PP_TRY(pp_verify_instr(v, at, 0));
        if (instr->op != PP_PARAM) continue;
        NEED(instr->imm < function->n_params, "no such parameter");
        NEED(instr->dtype == function->param[instr->imm], "the parameter has another dtype");
    }
    for (unsigned i = 0; i < function->n_results; i++)
        if (function->result[i] >= function->n_code)
            return pp_verify_fail(v, "result", i, "no such instruction");
    if (function->hash != pp_function_hash(function))
        return pp_verify_fail(v, "function", 0, "the hash is not its own");
    return PPTO_OK;
}
