/* SPDX-License-Identifier: Apache-2.0
 * Instructions: rows, constants, calls and cold regions.
 *
 * What is known of all operands is computed here, by the reference of the rows, so that no other constant
 * folding decides a bit. Calls are inlined. A cold region is a branch on any lane of its mask around a call
 * of a function of its own, which computes all lanes: rare code stays out of the loop, and its registers are
 * saved where it is called. */
#include <string.h>

#include "devices/cpu_llvm/emit.h"

enum { MAX_DEPTH = 64 };

static pp_emit_value constant(pp_emit *e, ppto_dtype dtype, uint64_t bits)
{
    return (pp_emit_value){pp_emit_constant(e, pp_emit_type(e, dtype), bits), true, bits};
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

/* ---- cold regions -------------------------------------------------------------------------------------- */

static LLVMTypeRef callee_type(pp_emit *e, const pp_function *f)
{
    LLVMTypeRef param[sizeof f->param];
    for (unsigned i = 0; i < f->n_params; i++) param[i] = pp_emit_type(e, (ppto_dtype)f->param[i]);
    return LLVMFunctionType(pp_emit_type(e, (ppto_dtype)f->code[f->result[0]].dtype), param, f->n_params,
                            false);
}

static void write_callee(pp_emit *e, const pp_emit_callee *callee, const pp_function *f)
{
    const LLVMBasicBlockRef back = LLVMGetInsertBlock(e->build);
    const LLVMValueRef function = e->function, active = e->active;
    pp_emit_value param[sizeof f->param];
    e->function = callee->at, e->active = NULL;
    LLVMPositionBuilderAtEnd(e->build, pp_emit_block(e, "entry"));
    for (unsigned i = 0; i < f->n_params; i++) param[i] = computed(LLVMGetParam(callee->at, i));
    LLVMBuildRet(e->build, function_body(e, f, param).at);
    e->function = function, e->active = active;
    LLVMPositionBuilderAtEnd(e->build, back);
}

/* The function out of line: written when first wanted. */
static pp_emit_callee callee_of(pp_emit *e, const pp_function *f)
{
    for (size_t i = 0; i < e->callees.n; i++)
        if (e->callees.at[i].hash == f->hash) return e->callees.at[i];
    const LLVMTypeRef type = callee_type(e, f);
    const pp_emit_callee callee = {f->hash, LLVMAddFunction(e->module, "cold", type), type};
    LLVMSetLinkage(callee.at, LLVMInternalLinkage);
    LLVMSetFunctionCallConv(callee.at, LLVMFastCallConv);
    pp_emit_attributes(e, callee.at);
    pp_emit_attribute(e, callee.at, "noinline");
    pp_emit_attribute(e, callee.at, "cold");
    if (pp_vec_push(&e->callees, callee) != PPTO_OK) pp_emit_fail(e, PPTO_E_NOMEM, "no memory");
    write_callee(e, &callee, f);
    return callee;
}

static LLVMValueRef call_cold(pp_emit *e, const pp_function *f, const pp_emit_value *param)
{
    const pp_emit_callee callee = callee_of(e, f);
    LLVMValueRef args[sizeof f->param];
    for (unsigned i = 0; i < f->n_params; i++) args[i] = param[i].at;
    const LLVMValueRef call = LLVMBuildCall2(e->build, callee.type, callee.at, args, f->n_params, "");
    LLVMSetInstructionCallConv(call, LLVMFastCallConv);
    return call;
}

static void mark_unlikely(pp_emit *e, LLVMValueRef branch)
{
    const LLVMTypeRef word = pp_emit_int(e, 32);
    LLVMMetadataRef parts[3] = {
        LLVMMDStringInContext2(e->context, "branch_weights", strlen("branch_weights")),
        LLVMValueAsMetadata(LLVMConstInt(word, 1, false)),
        LLVMValueAsMetadata(LLVMConstInt(word, 2000, false))};
    const LLVMMetadataRef node = LLVMMDNodeInContext2(e->context, parts, 3);
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(e->context, "prof", 4),
                    LLVMMetadataAsValue(e->context, node));
}

static LLVMValueRef any_lane(pp_emit *e, LLVMValueRef mask)
{
    const LLVMTypeRef bits = pp_emit_int(e, e->lanes);
    return LLVMBuildICmp(e->build, LLVMIntNE, LLVMBuildBitCast(e->build, mask, bits, ""), LLVMConstNull(bits),
                         "");
}

static pp_emit_value emit_cold(pp_emit *e, const pp_pools *pools, const pp_instr *instr,
                               const pp_emit_value *value)
{
    const pp_function *f = pools->callees[instr->imm];
    pp_emit_value param[sizeof f->param];
    LLVMValueRef mask = value[instr->a].at, hot = value[instr->b].at;
    take_operands(pools, instr->c, f->n_params, value, param);
    if (e->active != NULL) mask = LLVMBuildAnd(e->build, mask, e->active, "");
    const LLVMBasicBlockRef rare = pp_emit_block(e, "rare"), join = pp_emit_block(e, "join");
    LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(e->build), rare};
    mark_unlikely(e, LLVMBuildCondBr(e->build, any_lane(e, mask), rare, join));
    LLVMPositionBuilderAtEnd(e->build, rare);
    LLVMValueRef result[2] = {hot, LLVMBuildSelect(e->build, mask, call_cold(e, f, param), hot, "")};
    LLVMBuildBr(e->build, join);
    LLVMPositionBuilderAtEnd(e->build, join);
    const LLVMValueRef phi = LLVMBuildPhi(e->build, LLVMTypeOf(hot), "");
    LLVMAddIncoming(phi, result, from, 2);
    return computed(phi);
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

static pp_emit_value emit_row(pp_emit *e, const pp_pools *pools, const pp_instr *instr,
                              const pp_emit_value *value)
{
    const pp_op op = (pp_op)instr->op;
    const ppto_dtype to = (ppto_dtype)instr->dtype,
                     from = pp_instr_operand_dtype(pools->code, instr, op == PP_SELECT ? 1 : 0);
    const uint32_t at[3] = {instr->a, instr->b, instr->c};
    pp_emit_value operand[3] = {{0}};
    bool known = true;
    for (unsigned i = 0; i < pp_instr_direct(op); i++) {
        operand[i] = value[at[i]];
        known = known && operand[i].known;
    }
    if (known)
        return constant(e, to,
                        pp_scalar_eval(op, from, to, operand[0].bits, operand[1].bits, operand[2].bits));
    return computed(pp_emit_scalar(e, op, from, to, operand));
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
    case PP_TABLE:
        return computed(pp_emit_table(e, &pools->tables[instr->imm], (ppto_dtype)pools->code[instr->a].dtype,
                                      value[instr->a].at));
    default: break;
    }
    if (instr->op < PP_SCALAR_COUNT) return emit_row(e, pools, instr, value);
    pp_emit_fail(e, PPTO_E_UNSUPPORTED, pp_op_name((pp_op)instr->op));
    return nothing(e, dtype);
}
