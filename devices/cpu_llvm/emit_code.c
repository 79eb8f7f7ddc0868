/* SPDX-License-Identifier: Apache-2.0
 * Instructions: rows, constants, calls and cold regions.
 *
 * What is known of all operands is computed here, by the reference of the rows, so that no other constant
 * folding decides a bit. Calls are inlined; the callee of a cold region is rare code (emit_rare.c). */
#include <string.h>

#include "devices/cpu_llvm/emit.h"

enum { MAX_DEPTH = 64 };

static pp_emit_value constant(pp_emit *e, ppto_dtype dtype, uint64_t bits)
{
    return (pp_emit_value){
        .at = pp_emit_constant(e, pp_emit_type(e, dtype), bits), .known = true, .bits = bits};
}

static pp_emit_value computed(LLVMValueRef at)
{
    return (pp_emit_value){.at = at};
}

/* Something of the right type, after a failure. */
static pp_emit_value nothing(pp_emit *e, ppto_dtype dtype)
{
    return computed(LLVMConstNull(pp_emit_type(e, dtype)));
}

/* ---- functions ----------------------------------------------------------------------------------------- */

void pp_emit_function(pp_emit *e, const pp_function *f, const pp_emit_value *param, pp_emit_value *result)
{
    const pp_pools pools = pp_function_pools(f);
    pp_emit_value *value = e->depth < MAX_DEPTH ? pp_calloc(f->n_code + 1u, sizeof *value) : NULL;
    if (value == NULL) pp_emit_fail(e, PPTO_E_NOMEM, "no memory");
    e->depth++;
    for (uint32_t i = 0; value != NULL && i < f->n_code; i++)
        value[i] = pp_emit_instr(e, &pools, i, value, param);
    e->depth--;
    for (unsigned r = 0; r < f->n_results; r++)
        result[r] = value != NULL ? value[f->result[r]] : nothing(e, (ppto_dtype)f->code[f->result[r]].dtype);
    pp_free(value);
}

static pp_emit_value function_body(pp_emit *e, const pp_function *f, const pp_emit_value *param)
{
    pp_emit_value result[4];
    pp_emit_function(e, f, param, result);
    return result[0];
}

static void take_operands(const pp_pools *pools, uint32_t first, uint32_t n, const pp_emit_value *value,
                          pp_emit_value *out)
{
    for (uint32_t i = 0; i < n; i++) out[i] = value[pools->operands[first + i]];
}

static LLVMValueRef write_cold(pp_emit *e, const void *what, const pp_emit_value *param)
{
    return function_body(e, what, param).at;
}

static pp_emit_value emit_cold(pp_emit *e, const pp_pools *pools, const pp_instr *instr,
                               const pp_emit_value *value)
{
    const pp_function *f = pools->callees[instr->imm];
    pp_emit_rare rare = {.hash = f->hash,
                         .what = f,
                         .body = write_cold,
                         .n_params = f->n_params,
                         .result = (ppto_dtype)instr->dtype};
    pp_emit_value param[sizeof f->param];
    memcpy(rare.param, f->param, sizeof rare.param);
    take_operands(pools, instr->c, f->n_params, value, param);
    return computed(pp_emit_rarely(e, &rare, value[instr->a].at, param, value[instr->b].at));
}

/* ---- instructions -------------------------------------------------------------------------------------- */

static pp_emit_value emit_call(pp_emit *e, const pp_pools *pools, const pp_instr *instr,
                               const pp_emit_value *value)
{
    const pp_function *f = pools->callees[instr->imm];
    pp_emit_value param[sizeof f->param];
    take_operands(pools, instr->a, f->n_params, value, param);
    return function_body(e, f, param);
}

static pp_emit_value bits_of_float(pp_emit *e, ppto_dtype from, ppto_dtype to, LLVMValueRef a)
{
    return (pp_emit_value){.at = pp_emit_bitcast(e, from, to, a),
                           .raw = LLVMBuildBitCast(e->build, a, pp_emit_type(e, to), ""),
                           .nan = pp_emit_is_nan(e, a)};
}

/* Bits of a float to the left: often nothing is left of a canonical NaN, and then it need not be put in
 * first. */
static LLVMValueRef shifted_bits(pp_emit *e, ppto_dtype dtype, const pp_emit_value *a, uint64_t by)
{
    const ppto_dtype number = pp_dtype_width(dtype) == 32 ? PPTO_F32 : PPTO_F64;
    const LLVMTypeRef type = LLVMTypeOf(a->raw);
    const uint64_t left = pp_scalar_eval(PP_SHL, dtype, dtype, pp_dtype_canonical_nan(number), by, 0);
    const bool inside = by < pp_dtype_width(dtype);
    const LLVMValueRef count = pp_emit_constant(e, type, inside ? by : 0);
    const LLVMValueRef moved = LLVMBuildShl(e->build, a->raw, count, "");
    if (!inside) return LLVMConstNull(type);
    return LLVMBuildSelect(e->build, a->nan, pp_emit_constant(e, type, left), moved, "");
}

static pp_emit_value new_row(pp_emit *e, const pp_emit_row *row, const pp_emit_value *operand)
{
    const pp_op op = (pp_op)row->op;
    const ppto_dtype from = (ppto_dtype)row->from, to = (ppto_dtype)row->to;
    if (op == PP_TABLE) return computed(pp_emit_table(e, row->table, from, operand[0].at));
    if (op == PP_SHL && operand[0].raw != NULL && operand[1].known)
        return computed(shifted_bits(e, to, &operand[0], operand[1].bits));
    if (op == PP_BITCAST && pp_dtype_is_float(from) && !pp_dtype_is_float(to))
        return bits_of_float(e, from, to, operand[0].at);
    return computed(pp_emit_scalar(e, op, from, to, operand));
}

/* The row, or what it gave before. fmod looks at the lanes that count, and they may be others by now. */
static pp_emit_value need_row(pp_emit *e, const pp_emit_row *row, const pp_emit_value *operand)
{
    pp_emit_value value;
    if (row->op == PP_FMOD) return new_row(e, row, operand);
    if (pp_emit_reuse(e, row, &value)) return value;
    value = new_row(e, row, operand);
    pp_emit_made(e, row, value);
    return value;
}

static pp_emit_value emit_row(pp_emit *e, const pp_pools *pools, const pp_instr *instr,
                              const pp_emit_value *value)
{
    const pp_op op = (pp_op)instr->op;
    const ppto_dtype to = (ppto_dtype)instr->dtype,
                     from = pp_instr_operand_dtype(pools->code, instr, op == PP_SELECT ? 1 : 0);
    const uint32_t at[3] = {instr->a, instr->b, instr->c};
    pp_emit_row row = {.op = instr->op, .from = (uint8_t)from, .to = instr->dtype};
    pp_emit_value operand[3] = {{0}};
    bool known = true;
    for (unsigned i = 0; i < pp_instr_direct(op); i++) {
        operand[i] = value[at[i]];
        row.operand[i] = operand[i].at;
        known = known && operand[i].known;
    }
    if (known)
        return constant(e, to,
                        pp_scalar_eval(op, from, to, operand[0].bits, operand[1].bits, operand[2].bits));
    return need_row(e, &row, operand);
}

static pp_emit_value emit_look_up(pp_emit *e, const pp_pools *pools, const pp_instr *instr,
                                  const pp_emit_value *value)
{
    const pp_emit_row row = {.op = PP_TABLE,
                             .from = pools->code[instr->a].dtype,
                             .to = instr->dtype,
                             .table = &pools->tables[instr->imm],
                             .operand = {value[instr->a].at}};
    return need_row(e, &row, &value[instr->a]);
}

pp_emit_value pp_emit_instr(pp_emit *e, const pp_pools *pools, uint32_t at, const pp_emit_value *value,
                            const pp_emit_value *param)
{
    const pp_instr *instr = &pools->code[at];
    const ppto_dtype dtype = (ppto_dtype)instr->dtype;
    switch (instr->op) {
    case PP_CONST: return constant(e, dtype, pools->consts[instr->imm]);
    case PP_PARAM: return param[instr->imm];
    case PP_CALL: return emit_call(e, pools, instr, value);
    case PP_COLD: return emit_cold(e, pools, instr, value);
    case PP_TABLE: return emit_look_up(e, pools, instr, value);
    default: break;
    }
    if (instr->op < PP_SCALAR_COUNT) return emit_row(e, pools, instr, value);
    pp_emit_fail(e, PPTO_E_UNSUPPORTED, pp_op_name((pp_op)instr->op));
    return nothing(e, dtype);
}
