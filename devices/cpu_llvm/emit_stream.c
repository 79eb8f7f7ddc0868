/* SPDX-License-Identifier: Apache-2.0
 * Vectors to and from memory: whole ones, and the first n lanes of one.
 *
 * Part of a vector is a masked access where the machine has it. Where it does not, for elements below 32
 * bits, the elements are moved one by one through a vector on the stack. Elements may be unaligned; only what
 * goes around the caches is aligned, and the loop sees to it. */
#include "devices/cpu_llvm/emit.h"

#include <string.h>

static LLVMTypeRef vector_in_memory(pp_emit *e, ppto_dtype dtype)
{
    return pp_emit_vector(e, pp_emit_memory(e, dtype));
}

static LLVMValueRef to_register(pp_emit *e, ppto_dtype dtype, LLVMValueRef value)
{
    return dtype == PPTO_BOOL ? pp_emit_cast(e, PPTO_U8, PPTO_BOOL, value) : value;
}

static LLVMValueRef to_memory(pp_emit *e, ppto_dtype dtype, LLVMValueRef value)
{
    return dtype == PPTO_BOOL ? pp_emit_cast(e, PPTO_BOOL, PPTO_U8, value) : value;
}

/* ---- whole vectors ------------------------------------------------------------------------------------- */

static LLVMValueRef load(pp_emit *e, LLVMTypeRef type, LLVMValueRef at)
{
    const LLVMValueRef value = LLVMBuildLoad2(e->build, type, at, "");
    LLVMSetAlignment(value, 1);
    return value;
}

LLVMValueRef pp_emit_load(pp_emit *e, ppto_dtype dtype, LLVMValueRef at)
{
    return to_register(e, dtype, load(e, vector_in_memory(e, dtype), at));
}

LLVMValueRef pp_emit_load_one(pp_emit *e, ppto_dtype dtype, LLVMValueRef at)
{
    return to_register(e, dtype, pp_emit_splat(e, load(e, pp_emit_memory(e, dtype), at)));
}

static void mark_around(pp_emit *e, LLVMValueRef store)
{
    LLVMMetadataRef one = LLVMValueAsMetadata(LLVMConstInt(pp_emit_int(e, 32), 1, false));
    const unsigned kind = LLVMGetMDKindIDInContext(e->context, "nontemporal", strlen("nontemporal"));
    LLVMSetMetadata(store, kind, LLVMMetadataAsValue(e->context, LLVMMDNodeInContext2(e->context, &one, 1)));
}

void pp_emit_store(pp_emit *e, ppto_dtype dtype, LLVMValueRef at, LLVMValueRef value, bool around)
{
    const LLVMValueRef store = LLVMBuildStore(e->build, to_memory(e, dtype, value), at);
    LLVMSetAlignment(store, around ? pp_dtype_width(dtype) / 8 * e->lanes : 1);
    if (around) mark_around(e, store);
}

/* ---- parts of vectors ---------------------------------------------------------------------------------- */

/* The alignment is an operand of these intrinsics up to LLVM 21, later an attribute of the address. */
static LLVMValueRef masked(pp_emit *e, const char *name, LLVMTypeRef *types, LLVMValueRef *args, unsigned n,
                           unsigned place)
{
    LLVMValueRef with[4];
    const unsigned id = LLVMLookupIntrinsicID(name, strlen(name)), bytes = 1;
    if (id == 0) {
        pp_emit_fail(e, PPTO_E_UNSUPPORTED, name);
        return args[0];
    }
    const LLVMValueRef function = LLVMGetIntrinsicDeclaration(e->module, id, types, 2);
    const bool operand = LLVMCountParams(function) == n + 1;
    for (unsigned i = 0, k = 0; i < n; i++) {
        with[k++] = args[i];
        if (operand && i == place) with[k++] = LLVMConstInt(pp_emit_int(e, 32), bytes, false);
    }
    return LLVMBuildCall2(e->build, LLVMGlobalGetValueType(function), function, with, operand ? n + 1 : n,
                          "");
}

LLVMValueRef pp_emit_gather(pp_emit *e, LLVMTypeRef type, LLVMValueRef places)
{
    LLVMTypeRef types[2] = {type, LLVMTypeOf(places)};
    LLVMValueRef args[3] = {places, LLVMConstAllOnes(pp_emit_type(e, PPTO_BOOL)), LLVMConstNull(type)};
    return masked(e, "llvm.masked.gather", types, args, 3, 0);
}

/* Copies n elements, one at a time. */
static void copy(pp_emit *e, LLVMTypeRef element, LLVMValueRef to, LLVMValueRef from, LLVMValueRef n)
{
    const LLVMTypeRef word = pp_emit_int(e, 64);
    const LLVMBasicBlockRef before = LLVMGetInsertBlock(e->build), each = pp_emit_block(e, "each"),
                            after = pp_emit_block(e, "after");
    LLVMValueRef zero = LLVMConstInt(word, 0, false);
    LLVMBuildCondBr(e->build, LLVMBuildICmp(e->build, LLVMIntEQ, n, zero, ""), after, each);
    LLVMPositionBuilderAtEnd(e->build, each);
    LLVMValueRef k = LLVMBuildPhi(e->build, word, "");
    const LLVMValueRef value = load(e, element, LLVMBuildGEP2(e->build, element, from, &k, 1, ""));
    LLVMSetAlignment(LLVMBuildStore(e->build, value, LLVMBuildGEP2(e->build, element, to, &k, 1, "")), 1);
    LLVMValueRef next = LLVMBuildAdd(e->build, k, LLVMConstInt(word, 1, false), "");
    LLVMBuildCondBr(e->build, LLVMBuildICmp(e->build, LLVMIntULT, next, n, ""), each, after);
    LLVMAddIncoming(k, &zero, (LLVMBasicBlockRef[]){before}, 1);
    LLVMAddIncoming(k, &next, (LLVMBasicBlockRef[]){each}, 1);
    LLVMPositionBuilderAtEnd(e->build, after);
}

static bool by_mask(const pp_emit *e, ppto_dtype dtype)
{
    return e->target->masks_of_bytes || pp_dtype_width(dtype) >= 32;
}

LLVMValueRef pp_emit_load_part(pp_emit *e, ppto_dtype dtype, LLVMValueRef at, LLVMValueRef n)
{
    const LLVMTypeRef type = vector_in_memory(e, dtype);
    if (by_mask(e, dtype)) {
        LLVMTypeRef types[2] = {type, LLVMTypeOf(at)};
        LLVMValueRef args[3] = {at, e->active, LLVMConstNull(type)};
        return to_register(e, dtype, masked(e, "llvm.masked.load", types, args, 3, 0));
    }
    LLVMBuildStore(e->build, LLVMConstNull(type), e->aside);
    copy(e, LLVMGetElementType(type), e->aside, at, n);
    return to_register(e, dtype, LLVMBuildLoad2(e->build, type, e->aside, ""));
}

void pp_emit_store_part(pp_emit *e, ppto_dtype dtype, LLVMValueRef at, LLVMValueRef value, LLVMValueRef n)
{
    const LLVMValueRef bits = to_memory(e, dtype, value);
    if (by_mask(e, dtype)) {
        LLVMTypeRef types[2] = {LLVMTypeOf(bits), LLVMTypeOf(at)};
        LLVMValueRef args[3] = {bits, at, e->active};
        masked(e, "llvm.masked.store", types, args, 3, 1);
        return;
    }
    LLVMBuildStore(e->build, bits, e->aside);
    copy(e, LLVMGetElementType(LLVMTypeOf(bits)), at, e->aside, n);
}
