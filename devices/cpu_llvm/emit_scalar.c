/* SPDX-License-Identifier: Apache-2.0
 * The rows of scalar.def as vector code: the same texts as scalar_inline.h, whose comments say why they are
 * right. Shift counts are masked before they are selected, divisors replaced before they divide: what LLVM
 * calls poison is never made. */
#include "devices/cpu_llvm/emit.h"

/* ---- helpers ------------------------------------------------------------------------------------------- */

static unsigned width_of(ppto_dtype dtype)
{
    return pp_dtype_width(dtype);
}

static LLVMTypeRef bits_type(pp_emit *e, ppto_dtype dtype)
{
    return pp_emit_vector(e, pp_emit_int(e, width_of(dtype)));
}

static LLVMValueRef number(pp_emit *e, LLVMTypeRef type, uint64_t bits)
{
    return pp_emit_constant(e, type, bits);
}

static LLVMValueRef as(pp_emit *e, LLVMValueRef value, LLVMTypeRef type)
{
    return LLVMBuildBitCast(e->build, value, type, "");
}

static LLVMValueRef either(pp_emit *e, LLVMValueRef condition, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildSelect(e->build, condition, a, b, "");
}

static LLVMValueRef unary(pp_emit *e, const char *name, LLVMValueRef a)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    return pp_emit_intrinsic(e, name, &type, 1, &a, 1);
}

/* ---- floats -------------------------------------------------------------------------------------------- */

static LLVMValueRef copysign_of(pp_emit *e, ppto_dtype dtype, LLVMValueRef a, LLVMValueRef b)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef args[2] = {a, pp_emit_zero_for_nan(e, dtype, b)};
    return pp_emit_intrinsic(e, "llvm.copysign", &type, 1, args, 2);
}

static LLVMValueRef signbit_of(pp_emit *e, ppto_dtype dtype, LLVMValueRef a)
{
    const LLVMTypeRef bits = bits_type(e, dtype);
    const LLVMValueRef minus = LLVMBuildICmp(e->build, LLVMIntSLT, as(e, a, bits), LLVMConstNull(bits), "");
    return LLVMBuildAnd(e->build, minus, LLVMBuildFCmp(e->build, LLVMRealORD, a, a, ""), "");
}

/* The least or greatest of a and a number k that is no NaN: which of two equal zeros is right decides which
 * operand a tie takes; a NaN in a passes. */
static LLVMValueRef bound_by(pp_emit *e, bool least, LLVMValueRef a, LLVMValueRef k, bool tie_takes_k)
{
    if (!tie_takes_k)
        return either(e, LLVMBuildFCmp(e->build, least ? LLVMRealOLT : LLVMRealOGT, k, a, ""), k, a);
    return either(e, LLVMBuildFCmp(e->build, least ? LLVMRealOGE : LLVMRealOLE, a, k, ""), k, a);
}

static bool is_number(ppto_dtype dtype, const pp_emit_value *v)
{
    return v->known && pp_scalar_eval(PP_EQ, dtype, PPTO_BOOL, v->bits, v->bits, 0) != 0;
}

static LLVMValueRef extremum(pp_emit *e, bool least, ppto_dtype dtype, const pp_emit_value *a,
                             const pp_emit_value *b)
{
    const uint64_t minus_zero = UINT64_C(1) << (width_of(dtype) - 1);
    if (is_number(dtype, b)) return bound_by(e, least, a->at, b->at, b->bits == (least ? minus_zero : 0));
    if (is_number(dtype, a)) return bound_by(e, least, b->at, a->at, a->bits == (least ? minus_zero : 0));
    const LLVMTypeRef type = LLVMTypeOf(a->at), bits = bits_type(e, dtype);
    const LLVMRealPredicate better = least ? LLVMRealOLT : LLVMRealOGT;
    const LLVMValueRef x = either(e, LLVMBuildFCmp(e->build, better, a->at, b->at, ""), a->at, b->at);
    const LLVMValueRef y = either(e, LLVMBuildFCmp(e->build, better, b->at, a->at, ""), b->at, a->at);
    if (least) return as(e, LLVMBuildOr(e->build, as(e, x, bits), as(e, y, bits), ""), type);
    const LLVMValueRef both = as(e, LLVMBuildAnd(e->build, as(e, x, bits), as(e, y, bits), ""), type);
    const LLVMValueRef nan = LLVMBuildFCmp(e->build, LLVMRealUNO, a->at, b->at, "");
    return either(e, nan, number(e, type, pp_dtype_canonical_nan(dtype)), both);
}

static LLVMValueRef fused(pp_emit *e, const pp_emit_value *v)
{
    LLVMTypeRef type = LLVMTypeOf(v[0].at);
    LLVMValueRef args[3] = {v[0].at, v[1].at, v[2].at};
    return pp_emit_intrinsic(e, "llvm.fma", &type, 1, args, 3);
}

static LLVMValueRef emit_float(pp_emit *e, pp_op op, ppto_dtype dtype, const pp_emit_value *v)
{
    const LLVMBuilderRef build = e->build;
    const LLVMValueRef a = v[0].at, b = v[1].at;
    switch ((int)op) {
    case PP_ADD: return LLVMBuildFAdd(build, a, b, "");
    case PP_SUB: return LLVMBuildFSub(build, a, b, "");
    case PP_MUL: return LLVMBuildFMul(build, a, b, "");
    case PP_DIV: return LLVMBuildFDiv(build, a, b, "");
    case PP_FMA: return fused(e, v);
    case PP_SQRT: return unary(e, "llvm.sqrt", a);
    case PP_NEG: return LLVMBuildFNeg(build, a, "");
    case PP_ABS: return unary(e, "llvm.fabs", a);
    case PP_COPYSIGN: return copysign_of(e, dtype, a, b);
    case PP_SIGNBIT: return signbit_of(e, dtype, a);
    case PP_MIN: return extremum(e, true, dtype, &v[0], &v[1]);
    case PP_MAX: return extremum(e, false, dtype, &v[0], &v[1]);
    case PP_RINT: return unary(e, "llvm.roundeven", a);
    case PP_FLOOR: return unary(e, "llvm.floor", a);
    case PP_CEIL: return unary(e, "llvm.ceil", a);
    case PP_TRUNC: return unary(e, "llvm.trunc", a);
    case PP_FMOD: return pp_emit_fmod(e, dtype, a, b);
    case PP_EQ: return LLVMBuildFCmp(build, LLVMRealOEQ, a, b, "");
    case PP_NE: return LLVMBuildFCmp(build, LLVMRealUNE, a, b, "");
    case PP_LT: return LLVMBuildFCmp(build, LLVMRealOLT, a, b, "");
    case PP_LE: return LLVMBuildFCmp(build, LLVMRealOLE, a, b, "");
    default: pp_emit_fail(e, PPTO_E_UNSUPPORTED, pp_op_name(op)); return a;
    }
}

/* ---- integers and bool --------------------------------------------------------------------------------- */

static bool is_signed(ppto_dtype dtype)
{
    return pp_dtype_kind(dtype) == PP_KIND_INT;
}

static LLVMValueRef less(pp_emit *e, ppto_dtype dtype, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildICmp(e->build, is_signed(dtype) ? LLVMIntSLT : LLVMIntULT, a, b, "");
}

static LLVMValueRef equal(pp_emit *e, LLVMValueRef a, uint64_t bits)
{
    return LLVMBuildICmp(e->build, LLVMIntEQ, a, number(e, LLVMTypeOf(a), bits), "");
}

static LLVMValueRef negative(pp_emit *e, LLVMValueRef a)
{
    return LLVMBuildICmp(e->build, LLVMIntSLT, a, LLVMConstNull(LLVMTypeOf(a)), "");
}

static LLVMValueRef shift(pp_emit *e, pp_op op, ppto_dtype dtype, LLVMValueRef a, LLVMValueRef n)
{
    const LLVMTypeRef type = LLVMTypeOf(a);
    const unsigned width = width_of(dtype);
    const LLVMValueRef last = number(e, type, width - 1);
    const LLVMValueRef inside = LLVMBuildICmp(e->build, LLVMIntULE, n, last, "");
    if (op == PP_SHR && is_signed(dtype)) return LLVMBuildAShr(e->build, a, either(e, inside, n, last), "");
    const LLVMValueRef count = LLVMBuildAnd(e->build, n, last, "");
    const LLVMValueRef moved =
        op == PP_SHL ? LLVMBuildShl(e->build, a, count, "") : LLVMBuildLShr(e->build, a, count, "");
    return either(e, inside, moved, LLVMConstNull(type));
}

/* a / b toward zero where b is neither 0 nor, signed, -1. Up to 32 bits it is the truncated quotient in
 * floats of twice the digits. */
static LLVMValueRef quotient(pp_emit *e, ppto_dtype dtype, LLVMValueRef a, LLVMValueRef b)
{
    const bool s = is_signed(dtype);
    if (width_of(dtype) == 64)
        return s ? LLVMBuildSDiv(e->build, a, b, "") : LLVMBuildUDiv(e->build, a, b, "");
    const LLVMTypeRef type = LLVMTypeOf(a), in = pp_emit_type(e, width_of(dtype) == 32 ? PPTO_F64 : PPTO_F32);
    const LLVMValueRef x = s ? LLVMBuildSIToFP(e->build, a, in, "") : LLVMBuildUIToFP(e->build, a, in, "");
    const LLVMValueRef y = s ? LLVMBuildSIToFP(e->build, b, in, "") : LLVMBuildUIToFP(e->build, b, in, "");
    const LLVMValueRef q = LLVMBuildFDiv(e->build, x, y, "");
    return s ? LLVMBuildFPToSI(e->build, q, type, "") : LLVMBuildFPToUI(e->build, q, type, "");
}

static LLVMValueRef divide(pp_emit *e, pp_op op, ppto_dtype dtype, LLVMValueRef a, LLVMValueRef b)
{
    const LLVMBuilderRef build = e->build;
    const LLVMTypeRef type = LLVMTypeOf(a);
    const LLVMValueRef zero = LLVMConstNull(type), by_zero = equal(e, b, 0);
    const LLVMValueRef by_minus = equal(e, b, ~UINT64_C(0));
    const LLVMValueRef replaced = is_signed(dtype) ? LLVMBuildOr(build, by_zero, by_minus, "") : by_zero;
    const LLVMValueRef s = either(e, replaced, number(e, type, 1), b), q = quotient(e, dtype, a, s);
    const LLVMValueRef r = LLVMBuildSub(build, a, LLVMBuildMul(build, q, s, ""), "");
    if (!is_signed(dtype)) return either(e, by_zero, zero, op == PP_IDIV ? q : r);
    const LLVMValueRef below = LLVMBuildAnd(build, LLVMBuildNot(build, equal(e, r, 0), ""),
                                            negative(e, LLVMBuildXor(build, r, s, "")), "");
    if (op == PP_IMOD) return either(e, below, LLVMBuildAdd(build, r, s, ""), r);
    const LLVMValueRef floored = LLVMBuildAdd(build, q, LLVMBuildSExt(build, below, type, ""), "");
    return either(e, by_zero, zero, either(e, by_minus, LLVMBuildNeg(build, a, ""), floored));
}

static LLVMValueRef mulhi(pp_emit *e, ppto_dtype dtype, LLVMValueRef a, LLVMValueRef b)
{
    const unsigned width = width_of(dtype);
    const LLVMTypeRef type = LLVMTypeOf(a), wide = pp_emit_vector(e, pp_emit_int(e, 2 * width));
    const LLVMBuilderRef build = e->build;
    const bool s = is_signed(dtype);
    const LLVMValueRef x = s ? LLVMBuildSExt(build, a, wide, "") : LLVMBuildZExt(build, a, wide, "");
    const LLVMValueRef y = s ? LLVMBuildSExt(build, b, wide, "") : LLVMBuildZExt(build, b, wide, "");
    const LLVMValueRef product = LLVMBuildMul(build, x, y, "");
    return LLVMBuildTrunc(build, LLVMBuildLShr(build, product, number(e, wide, width), ""), type, "");
}

static LLVMValueRef leading_zeros(pp_emit *e, LLVMValueRef a)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    LLVMValueRef args[2] = {a, number(e, pp_emit_int(e, 1), 0)};
    return pp_emit_intrinsic(e, "llvm.ctlz", &type, 1, args, 2);
}

static LLVMValueRef emit_integer(pp_emit *e, pp_op op, ppto_dtype dtype, LLVMValueRef a, LLVMValueRef b,
                                 LLVMValueRef c)
{
    const LLVMBuilderRef build = e->build;
    switch ((int)op) {
    case PP_ADD: return LLVMBuildAdd(build, a, b, "");
    case PP_SUB: return LLVMBuildSub(build, a, b, "");
    case PP_MUL: return LLVMBuildMul(build, a, b, "");
    case PP_FMA: return LLVMBuildAdd(build, LLVMBuildMul(build, a, b, ""), c, "");
    case PP_NEG: return LLVMBuildNeg(build, a, "");
    case PP_ABS: return is_signed(dtype) ? either(e, negative(e, a), LLVMBuildNeg(build, a, ""), a) : a;
    case PP_MIN: return either(e, less(e, dtype, a, b), a, b);
    case PP_MAX: return either(e, less(e, dtype, b, a), a, b);
    case PP_IDIV:
    case PP_IMOD: return divide(e, op, dtype, a, b);
    case PP_MULHI: return mulhi(e, dtype, a, b);
    case PP_AND: return LLVMBuildAnd(build, a, b, "");
    case PP_OR: return LLVMBuildOr(build, a, b, "");
    case PP_XOR: return LLVMBuildXor(build, a, b, "");
    case PP_NOT: return LLVMBuildNot(build, a, "");
    case PP_SHL:
    case PP_SHR: return shift(e, op, dtype, a, b);
    case PP_CLZ: return leading_zeros(e, a);
    case PP_EQ: return LLVMBuildICmp(build, LLVMIntEQ, a, b, "");
    case PP_NE: return LLVMBuildICmp(build, LLVMIntNE, a, b, "");
    case PP_LT: return less(e, dtype, a, b);
    case PP_LE: return LLVMBuildNot(build, less(e, dtype, b, a), "");
    default: pp_emit_fail(e, PPTO_E_UNSUPPORTED, pp_op_name(op)); return a;
    }
}

/* ---- a row --------------------------------------------------------------------------------------------- */

LLVMValueRef pp_emit_scalar(pp_emit *e, pp_op op, ppto_dtype from, ppto_dtype to, const pp_emit_value *v)
{
    if (op == PP_SELECT) return either(e, v[0].at, v[1].at, v[2].at);
    if (op == PP_CAST) return pp_emit_cast(e, from, to, v[0].at);
    if (op == PP_BITCAST) return pp_emit_bitcast(e, from, to, v[0].at);
    if (pp_dtype_is_float(from)) return emit_float(e, op, from, v);
    return emit_integer(e, op, from, v[0].at, v[1].at, v[2].at);
}
