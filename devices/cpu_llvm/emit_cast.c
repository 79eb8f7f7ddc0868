/* SPDX-License-Identifier: Apache-2.0
 * Conversions of values and of bits. Floats saturate by comparing with both bounds before the conversion:
 * what is out of range converts 0 instead, as in scalar_inline.h. */
#include "devices/cpu_llvm/emit.h"

typedef struct range {
    uint64_t least, most; /* integers of the dtype */
    double low, high;     /* the first float too low, or exact at the bound; the first too high */
} range;

static range range_of(ppto_dtype to)
{
    const unsigned width = pp_dtype_width(to);
    double whole = 1;
    for (unsigned i = 1; i < width; i++) whole *= 2; /* 2^(width - 1) */
    const uint64_t sign = UINT64_C(1) << (width - 1);
    if (pp_dtype_kind(to) == PP_KIND_INT) return (range){sign, sign - 1, -whole, whole};
    return (range){0, sign | (sign - 1), 0, 2 * whole};
}

static LLVMValueRef float_to_integer(pp_emit *e, ppto_dtype from, ppto_dtype to, LLVMValueRef a)
{
    const range r = range_of(to);
    const LLVMBuilderRef build = e->build;
    const LLVMTypeRef floats = LLVMTypeOf(a), out = pp_emit_type(e, to), element = pp_emit_element(e, from);
    const bool narrow = pp_dtype_width(to) < 32, s = narrow || pp_dtype_kind(to) == PP_KIND_INT;
    const LLVMTypeRef via = narrow ? pp_emit_type(e, PPTO_I32) : out;
    const LLVMValueRef low = pp_emit_splat(e, LLVMConstReal(element, r.low)),
                       high = pp_emit_splat(e, LLVMConstReal(element, r.high));
    const LLVMValueRef inside = LLVMBuildAnd(build, LLVMBuildFCmp(build, LLVMRealOGT, a, low, ""),
                                             LLVMBuildFCmp(build, LLVMRealOLT, a, high, ""), "");
    const LLVMValueRef taken = LLVMBuildSelect(build, inside, a, LLVMConstNull(floats), "");
    LLVMValueRef result = s ? LLVMBuildFPToSI(build, taken, via, "") : LLVMBuildFPToUI(build, taken, via, "");
    if (narrow) result = LLVMBuildTrunc(build, result, out, "");
    const LLVMValueRef below = LLVMBuildFCmp(build, LLVMRealOLE, a, low, ""),
                       above = LLVMBuildFCmp(build, LLVMRealOGE, a, high, "");
    result = LLVMBuildSelect(build, below, pp_emit_constant(e, out, r.least), result, "");
    return LLVMBuildSelect(build, above, pp_emit_constant(e, out, r.most), result, "");
}

static LLVMValueRef integer_to_integer(pp_emit *e, ppto_dtype from, ppto_dtype to, LLVMValueRef a)
{
    const unsigned n = from == PPTO_BOOL ? 1 : pp_dtype_width(from), m = pp_dtype_width(to);
    const LLVMTypeRef type = pp_emit_type(e, to);
    if (n == m) return a;
    if (n > m) return LLVMBuildTrunc(e->build, a, type, "");
    return pp_dtype_kind(from) == PP_KIND_INT ? LLVMBuildSExt(e->build, a, type, "")
                                              : LLVMBuildZExt(e->build, a, type, "");
}

static LLVMValueRef to_float(pp_emit *e, ppto_dtype from, ppto_dtype to, LLVMValueRef a)
{
    const LLVMTypeRef type = pp_emit_type(e, to);
    if (from == to) return a;
    if (from == PPTO_F64) return LLVMBuildFPTrunc(e->build, a, type, "");
    if (from == PPTO_F32) return LLVMBuildFPExt(e->build, a, type, "");
    return pp_dtype_kind(from) == PP_KIND_INT ? LLVMBuildSIToFP(e->build, a, type, "")
                                              : LLVMBuildUIToFP(e->build, a, type, "");
}

LLVMValueRef pp_emit_cast(pp_emit *e, ppto_dtype from, ppto_dtype to, LLVMValueRef a)
{
    const LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(a));
    if (pp_dtype_is_float(to)) return to_float(e, from, to, a);
    if (to == PPTO_BOOL && from == PPTO_BOOL) return a;
    if (to == PPTO_BOOL)
        return pp_dtype_is_float(from) ? LLVMBuildFCmp(e->build, LLVMRealUNE, a, zero, "")
                                       : LLVMBuildICmp(e->build, LLVMIntNE, a, zero, "");
    if (pp_dtype_is_float(from)) return float_to_integer(e, from, to, a);
    return integer_to_integer(e, from, to, a);
}

LLVMValueRef pp_emit_bitcast(pp_emit *e, ppto_dtype from, ppto_dtype to, LLVMValueRef a)
{
    return LLVMBuildBitCast(e->build, pp_emit_canonical(e, from, a), pp_emit_type(e, to), "");
}
