/* SPDX-License-Identifier: Apache-2.0
 * Types, constants and calls of intrinsics: what LLVM's C interface says in many words, said once. */
#include <string.h>

#include "devices/cpu_llvm/emit.h"

void pp_emit_fail(pp_emit *e, ppto_status status, const char *what)
{
    if (e->status == PPTO_OK) e->status = pp_fail(e->err, status, "machine code: %s", what);
}

/* ---- types --------------------------------------------------------------------------------------------- */

LLVMTypeRef pp_emit_int(const pp_emit *e, unsigned bits)
{
    return LLVMIntTypeInContext(e->context, bits);
}

LLVMTypeRef pp_emit_memory(const pp_emit *e, ppto_dtype dtype)
{
    if (dtype == PPTO_F32) return LLVMFloatTypeInContext(e->context);
    if (dtype == PPTO_F64) return LLVMDoubleTypeInContext(e->context);
    return pp_emit_int(e, pp_dtype_width(dtype));
}

LLVMTypeRef pp_emit_element(const pp_emit *e, ppto_dtype dtype)
{
    return dtype == PPTO_BOOL ? pp_emit_int(e, 1) : pp_emit_memory(e, dtype);
}

LLVMTypeRef pp_emit_vector(const pp_emit *e, LLVMTypeRef element)
{
    return LLVMVectorType(element, e->lanes);
}

LLVMTypeRef pp_emit_type(const pp_emit *e, ppto_dtype dtype)
{
    return pp_emit_vector(e, pp_emit_element(e, dtype));
}

/* ---- constants ----------------------------------------------------------------------------------------- */

static LLVMValueRef element_constant(pp_emit *e, LLVMTypeRef type, uint64_t bits)
{
    const LLVMTypeKind kind = LLVMGetTypeKind(type);
    if (kind == LLVMIntegerTypeKind) return LLVMConstInt(type, bits, false);
    const unsigned width = kind == LLVMFloatTypeKind ? 32 : 64;
    return LLVMConstBitCast(LLVMConstInt(pp_emit_int(e, width), bits, false), type);
}

LLVMValueRef pp_emit_constant(pp_emit *e, LLVMTypeRef type, uint64_t bits)
{
    enum { MOST = 64 };
    LLVMValueRef elements[MOST];
    if (LLVMGetTypeKind(type) != LLVMVectorTypeKind) return element_constant(e, type, bits);
    const unsigned n = LLVMGetVectorSize(type) < MOST ? LLVMGetVectorSize(type) : MOST;
    elements[0] = element_constant(e, LLVMGetElementType(type), bits);
    for (unsigned i = 1; i < n; i++) elements[i] = elements[0];
    return LLVMConstVector(elements, n);
}

LLVMValueRef pp_emit_splat(pp_emit *e, LLVMValueRef element)
{
    const LLVMTypeRef type = pp_emit_vector(e, LLVMTypeOf(element));
    const LLVMValueRef none = LLVMGetPoison(type);
    const LLVMValueRef first =
        LLVMBuildInsertElement(e->build, none, element, pp_emit_constant(e, pp_emit_int(e, 32), 0), "");
    return LLVMBuildShuffleVector(e->build, first, none, LLVMConstNull(pp_emit_vector(e, pp_emit_int(e, 32))),
                                  "");
}

LLVMValueRef pp_emit_first_lanes(pp_emit *e, LLVMValueRef n)
{
    const LLVMTypeRef element = pp_emit_int(e, 8 * e->target->bytes / e->lanes);
    LLVMValueRef lane[PP_LANES];
    for (unsigned i = 0; i < e->lanes; i++) lane[i] = LLVMConstInt(element, i, false);
    const LLVMValueRef narrow = LLVMBuildTrunc(e->build, n, element, "");
    return LLVMBuildICmp(e->build, LLVMIntSLT, LLVMConstVector(lane, e->lanes), pp_emit_splat(e, narrow), "");
}

LLVMValueRef pp_emit_positions(pp_emit *e, LLVMValueRef first, LLVMValueRef c)
{
    LLVMValueRef lane[PP_LANES];
    for (unsigned i = 0; i < e->lanes; i++) lane[i] = LLVMConstInt(LLVMTypeOf(c), i, false);
    const LLVMValueRef lanes = LLVMConstVector(lane, e->lanes);
    return LLVMBuildAdd(e->build, first, LLVMBuildAdd(e->build, pp_emit_splat(e, c), lanes, ""), "");
}

/* ---- calls --------------------------------------------------------------------------------------------- */

LLVMValueRef pp_emit_intrinsic(pp_emit *e, const char *name, LLVMTypeRef *types, unsigned n_types,
                               LLVMValueRef *args, unsigned n_args)
{
    const unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    if (id == 0) {
        pp_emit_fail(e, PPTO_E_UNSUPPORTED, name);
        return args[0];
    }
    const LLVMValueRef function = LLVMGetIntrinsicDeclaration(e->module, id, types, n_types);
    return LLVMBuildCall2(e->build, LLVMGlobalGetValueType(function), function, args, n_args, "");
}

LLVMBasicBlockRef pp_emit_block(pp_emit *e, const char *name)
{
    return LLVMAppendBasicBlockInContext(e->context, e->function, name);
}

/* ---- attributes ---------------------------------------------------------------------------------------- */

void pp_emit_attribute(const pp_emit *e, LLVMValueRef function, const char *name)
{
    const unsigned kind = LLVMGetEnumAttributeKindForName(name, strlen(name));
    if (kind == 0) return;
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(e->context, kind, 0));
}

static void text_attribute(const pp_emit *e, LLVMValueRef function, const char *name, const char *value)
{
    const LLVMAttributeRef attribute =
        LLVMCreateStringAttribute(e->context, name, (unsigned)strlen(name), value, (unsigned)strlen(value));
    LLVMAddAttributeAtIndex(function, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, attribute);
}

void pp_emit_attributes(const pp_emit *e, LLVMValueRef function)
{
    const char *bits = e->target->bytes == 64 ? "512" : "256";
    pp_emit_attribute(e, function, "nounwind");
    text_attribute(e, function, "target-cpu", e->target->cpu);
    text_attribute(e, function, "target-features", e->target->features);
    text_attribute(e, function, "prefer-vector-width", bits);
    text_attribute(e, function, "min-legal-vector-width", bits);
    text_attribute(e, function, "no-builtins", "");
}
