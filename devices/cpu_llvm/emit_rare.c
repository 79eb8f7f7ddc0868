/* SPDX-License-Identifier: Apache-2.0
 * Rare code: a branch on any lane of a mask around the call of a function of its own, which computes all
 * lanes. So it stays out of the loop, and its registers are saved only where it is called. Equal code is
 * written once. */
#include <string.h>

#include "devices/cpu_llvm/emit.h"

static LLVMTypeRef type_of(pp_emit *e, const pp_emit_rare *rare)
{
    LLVMTypeRef param[sizeof rare->param];
    for (unsigned i = 0; i < rare->n_params; i++) param[i] = pp_emit_type(e, (ppto_dtype)rare->param[i]);
    return LLVMFunctionType(pp_emit_type(e, rare->result), param, rare->n_params, false);
}

static void write_callee(pp_emit *e, const pp_emit_callee *callee, const pp_emit_rare *rare)
{
    const LLVMBasicBlockRef back = LLVMGetInsertBlock(e->build);
    const LLVMValueRef function = e->function, active = e->active;
    const pp_emit_stretch made = pp_emit_made_aside(e);
    pp_emit_value param[sizeof rare->param];
    e->function = callee->at, e->active = NULL;
    LLVMPositionBuilderAtEnd(e->build, pp_emit_block(e, "entry"));
    for (unsigned i = 0; i < rare->n_params; i++)
        param[i] = (pp_emit_value){.at = LLVMGetParam(callee->at, i)};
    LLVMBuildRet(e->build, rare->body(e, rare->what, param));
    e->function = function, e->active = active;
    pp_emit_made_back(e, made);
    LLVMPositionBuilderAtEnd(e->build, back);
}

/* The function: written when first wanted. */
static pp_emit_callee callee_of(pp_emit *e, const pp_emit_rare *rare)
{
    for (size_t i = 0; i < e->callees.n; i++)
        if (e->callees.at[i].hash == rare->hash) return e->callees.at[i];
    const LLVMTypeRef type = type_of(e, rare);
    const pp_emit_callee callee = {rare->hash, LLVMAddFunction(e->module, "rare", type), type};
    LLVMSetLinkage(callee.at, LLVMInternalLinkage);
    LLVMSetFunctionCallConv(callee.at, LLVMFastCallConv);
    pp_emit_attributes(e, callee.at);
    pp_emit_attribute(e, callee.at, "noinline");
    pp_emit_attribute(e, callee.at, "cold");
    if (pp_vec_push(&e->callees, callee) != PPTO_OK) pp_emit_fail(e, PPTO_E_NOMEM, "no memory");
    write_callee(e, &callee, rare);
    return callee;
}

static LLVMValueRef call(pp_emit *e, const pp_emit_rare *rare, const pp_emit_value *param)
{
    const pp_emit_callee callee = callee_of(e, rare);
    LLVMValueRef args[sizeof rare->param];
    for (unsigned i = 0; i < rare->n_params; i++) args[i] = param[i].at;
    const LLVMValueRef result = LLVMBuildCall2(e->build, callee.type, callee.at, args, rare->n_params, "");
    LLVMSetInstructionCallConv(result, LLVMFastCallConv);
    return result;
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

LLVMValueRef pp_emit_rarely(pp_emit *e, const pp_emit_rare *rare, LLVMValueRef mask,
                            const pp_emit_value *param, LLVMValueRef hot)
{
    if (e->active != NULL) mask = LLVMBuildAnd(e->build, mask, e->active, "");
    const LLVMBasicBlockRef out = pp_emit_block(e, "rare"), join = pp_emit_block(e, "join");
    LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(e->build), out};
    mark_unlikely(e, LLVMBuildCondBr(e->build, any_lane(e, mask), out, join));
    LLVMPositionBuilderAtEnd(e->build, out);
    LLVMValueRef result[2] = {hot, LLVMBuildSelect(e->build, mask, call(e, rare, param), hot, "")};
    LLVMBuildBr(e->build, join);
    LLVMPositionBuilderAtEnd(e->build, join);
    pp_emit_made_goes_on(e, from[0]);
    const LLVMValueRef phi = LLVMBuildPhi(e->build, LLVMTypeOf(hot), "");
    LLVMAddIncoming(phi, result, from, 2);
    return phi;
}
