/* SPDX-License-Identifier: Apache-2.0
 * See function_eval.h. Functions nest a few levels at most (pp_function_verify). */
#include "kernel/function_eval.h"

static ppto_status call(const pp_function *f, const pp_function *callee, uint32_t first, uint32_t n,
                        const uint64_t *value, uint64_t *out)
{
    uint64_t params[12], results[4] = {0};
    for (uint32_t k = 0; k < n && k < 12; k++) params[k] = value[f->operands[first + k]];
    PP_TRY(pp_function_eval(callee, params, results));
    *out = results[0];
    return PPTO_OK;
}

static ppto_status step(const pp_function *f, const pp_instr *i, const uint64_t *params, uint64_t *value,
                        uint64_t *out)
{
    const pp_function *callee = i->op == PP_CALL || i->op == PP_COLD ? f->callees[i->imm] : NULL;
    const pp_table *table = i->op == PP_TABLE ? &f->tables[i->imm] : NULL;
    switch (i->op) {
    case PP_CONST: *out = f->consts[i->imm]; return PPTO_OK;
    case PP_PARAM: *out = params[i->imm]; return PPTO_OK;
    case PP_TABLE: *out = table->bits[value[i->a] & (table->length - 1)]; return PPTO_OK;
    case PP_CALL: return call(f, callee, i->a, i->b, value, out);
    case PP_COLD:
        if (value[i->a]) return call(f, callee, i->c, callee->n_params, value, out);
        *out = value[i->b];
        return PPTO_OK;
    default:
        *out = pp_scalar_eval((pp_op)i->op, pp_instr_operand_dtype(f->code, i, i->op == PP_SELECT ? 1 : 0),
                              (ppto_dtype)i->dtype, value[i->a], value[i->b], value[i->c]);
        return PPTO_OK;
    }
}

ppto_status pp_function_eval(const pp_function *f, const uint64_t *params, uint64_t *results)
{
    uint64_t small[128], *value = f->n_code <= 128 ? small : pp_alloc(f->n_code * sizeof *value);
    ppto_status status = value ? PPTO_OK : PPTO_E_NOMEM;
    for (uint32_t i = 0; status == PPTO_OK && i < f->n_code; i++)
        status = step(f, &f->code[i], params, value, &value[i]);
    for (uint32_t r = 0; status == PPTO_OK && r < f->n_results; r++) results[r] = value[f->result[r]];
    if (value != small) pp_free(value);
    return status;
}
