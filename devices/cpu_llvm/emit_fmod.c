/* SPDX-License-Identifier: Apache-2.0
 * fmod in vectors, exact.
 *
 * Where x / s, rounded, is below 2^STEP (STEP is two less than the digits), q = trunc(x / s) is the true
 * integer quotient or, where rounding reached the next integer, one more; x - q s is exact by fma either way,
 * and s is added where it fell below 0. Farther quotients are reduced first, by s = y 2^(k STEP) for k from
 * the greatest down: each leaves a remainder below the next s times 2^STEP. A multiple of y that overflows is
 * infinite and leaves x as it is. */
#include "devices/cpu_llvm/emit.h"

typedef struct format { /* of a float */
    ppto_dtype dtype;
    unsigned digits, bias;
    unsigned steps;  /* of STEP powers of two: from the least number to the greatest */
    unsigned factor; /* the greatest power of two multiplied by at once */
} format;

static const format formats[] = {{PPTO_F32, 24, 127, 12, 100}, {PPTO_F64, 53, 1023, 41, 1000}};

static unsigned step_of(const format *f)
{
    return f->digits - 2;
}

static uint64_t power_bits(const format *f, unsigned exponent)
{
    return (uint64_t)(exponent + f->bias) << (f->digits - 1);
}

static LLVMValueRef call1(pp_emit *e, const char *name, LLVMValueRef a)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    return pp_emit_intrinsic(e, name, &type, 1, &a, 1);
}

/* x mod s for x and s at least 0, where *quotient is below 2^STEP; x where it is below s. */
static LLVMValueRef reduce(pp_emit *e, LLVMValueRef x, LLVMValueRef s, LLVMValueRef *quotient)
{
    LLVMTypeRef type = LLVMTypeOf(x);
    *quotient = LLVMBuildFDiv(e->build, x, s, "");
    LLVMValueRef args[3] = {LLVMBuildFNeg(e->build, call1(e, "llvm.trunc", *quotient), ""), s, x};
    const LLVMValueRef rest = pp_emit_intrinsic(e, "llvm.fma", &type, 1, args, 3);
    const LLVMValueRef below = LLVMBuildFCmp(e->build, LLVMRealOLT, rest, LLVMConstNull(type), "");
    const LLVMValueRef whole =
        LLVMBuildSelect(e->build, below, LLVMBuildFAdd(e->build, rest, s, ""), rest, "");
    return LLVMBuildSelect(e->build, LLVMBuildFCmp(e->build, LLVMRealOLT, x, s, ""), x, whole, "");
}

/* ---- far quotients ------------------------------------------------------------------------------------- */

/* y 2^exponent (an integer of y's width), in three factors. */
static LLVMValueRef scaled(pp_emit *e, const format *f, LLVMValueRef y, LLVMValueRef exponent)
{
    const LLVMTypeRef word = LLVMTypeOf(exponent);
    const LLVMValueRef most = LLVMConstInt(word, f->factor, false);
    for (int i = 0; i < 3; i++) {
        const LLVMValueRef small = LLVMBuildICmp(e->build, LLVMIntULT, exponent, most, "");
        const LLVMValueRef part = LLVMBuildSelect(e->build, small, exponent, most, "");
        const LLVMValueRef biased = LLVMBuildAdd(e->build, part, LLVMConstInt(word, f->bias, false), "");
        const LLVMValueRef bits =
            LLVMBuildShl(e->build, biased, LLVMConstInt(word, f->digits - 1, false), "");
        const LLVMValueRef power = LLVMBuildBitCast(e->build, pp_emit_splat(e, bits), LLVMTypeOf(y), "");
        y = LLVMBuildFMul(e->build, y, power, "");
        exponent = LLVMBuildSub(e->build, exponent, part, "");
    }
    return y;
}

static LLVMValueRef write_far(pp_emit *e, const void *what, const pp_emit_value *param)
{
    const format *f = what;
    const LLVMTypeRef word = pp_emit_int(e, pp_dtype_width(f->dtype));
    LLVMBasicBlockRef entry = LLVMGetInsertBlock(e->build), each = pp_emit_block(e, "each");
    const LLVMBasicBlockRef end = pp_emit_block(e, "end");
    LLVMValueRef x = param[0].at, from = LLVMConstInt(word, f->steps * step_of(f), false), quotient;
    const LLVMValueRef zero = LLVMConstInt(word, 0, false);
    LLVMBuildBr(e->build, each);
    LLVMPositionBuilderAtEnd(e->build, each);
    const LLVMValueRef rest = LLVMBuildPhi(e->build, LLVMTypeOf(x), ""),
                       exponent = LLVMBuildPhi(e->build, word, "");
    LLVMAddIncoming(rest, &x, &entry, 1), LLVMAddIncoming(exponent, &from, &entry, 1);
    LLVMValueRef less = reduce(e, rest, scaled(e, f, param[1].at, exponent), &quotient);
    LLVMValueRef next = LLVMBuildSub(e->build, exponent, LLVMConstInt(word, step_of(f), false), "");
    LLVMBuildCondBr(e->build, LLVMBuildICmp(e->build, LLVMIntEQ, exponent, zero, ""), end, each);
    LLVMAddIncoming(rest, &less, &each, 1), LLVMAddIncoming(exponent, &next, &each, 1);
    LLVMPositionBuilderAtEnd(e->build, end);
    return less;
}

/* ---- all of it ----------------------------------------------------------------------------------------- */

LLVMValueRef pp_emit_fmod(pp_emit *e, ppto_dtype dtype, LLVMValueRef a, LLVMValueRef b)
{
    const format *f = &formats[dtype == PPTO_F64];
    const LLVMBuilderRef build = e->build;
    const LLVMTypeRef type = LLVMTypeOf(a);
    const pp_emit_rare far = {.hash = 0x666d6f64u + dtype,
                              .what = f,
                              .body = write_far,
                              .n_params = 2,
                              .param = {(uint8_t)dtype, (uint8_t)dtype},
                              .result = dtype};
    const pp_emit_value param[2] = {{.at = call1(e, "llvm.fabs", a)}, {.at = call1(e, "llvm.fabs", b)}};
    const LLVMValueRef x = param[0].at, y = param[1].at;
    LLVMValueRef quotient;
    const LLVMValueRef near = reduce(e, x, y, &quotient);
    const LLVMValueRef limit = pp_emit_constant(e, type, power_bits(f, step_of(f)));
    const LLVMValueRef infinite = pp_emit_constant(e, type, power_bits(f, f->bias + 1));
    const LLVMValueRef is_far = LLVMBuildFCmp(build, LLVMRealUGE, quotient, limit, "");
    const LLVMValueRef none = LLVMBuildOr(build, LLVMBuildFCmp(build, LLVMRealUGE, x, infinite, ""),
                                          LLVMBuildFCmp(build, LLVMRealULE, y, LLVMConstNull(type), ""), "");
    const LLVMValueRef where = LLVMBuildAnd(build, is_far, LLVMBuildNot(build, none, ""), "");
    LLVMValueRef args[2] = {pp_emit_rarely(e, &far, where, param, near), a};
    const LLVMValueRef result = pp_emit_intrinsic(e, "llvm.copysign", (LLVMTypeRef[]){type}, 1, args, 2);
    const LLVMValueRef nan = pp_emit_constant(e, type, pp_dtype_canonical_nan(dtype));
    return LLVMBuildSelect(build, none, nan, result, "");
}
