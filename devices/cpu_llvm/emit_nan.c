/* SPDX-License-Identifier: Apache-2.0
 * NaN in vectors: found, replaced by the canonical one, taken for zero.
 *
 * AVX-512 sorts numbers into eight kinds and has a table say, kind by kind, what becomes of them: one
 * instruction where others need a comparison and a choice. Every other kind passes bit by bit (subnormals
 * too, since a run does not take them for zero). */
#include <string.h>

#include "devices/cpu_llvm/emit.h"

/* What the table says of each kind, four bits a kind, the two of NaN lowest. */
enum { NAN_TO_FIRST = 0x11111100, NAN_TO_ZERO = 0x11111188 };

typedef struct fixup {
    unsigned width, lanes;
    const char *name;
    bool rounds; /* takes a rounding mode */
} fixup;

static const fixup fixups[] = {{32, 16, "llvm.x86.avx512.mask.fixupimm.ps.512", true},
                               {64, 8, "llvm.x86.avx512.mask.fixupimm.pd.512", true},
                               {32, 8, "llvm.x86.avx512.mask.fixupimm.ps.256", false},
                               {64, 4, "llvm.x86.avx512.mask.fixupimm.pd.256", false},
                               {32, 4, "llvm.x86.avx512.mask.fixupimm.ps.128", false},
                               {64, 2, "llvm.x86.avx512.mask.fixupimm.pd.128", false}};

static const fixup *fixup_for(const pp_emit *e, ppto_dtype dtype)
{
    for (size_t i = 0; i < sizeof fixups / sizeof *fixups && e->target->bytes == 64; i++)
        if (fixups[i].width == pp_dtype_width(dtype) && fixups[i].lanes == e->lanes &&
            LLVMLookupIntrinsicID(fixups[i].name, strlen(fixups[i].name)) != 0)
            return &fixups[i];
    return NULL;
}

/* a, with NaN as the table says; nan: what NAN_TO_FIRST takes. */
static LLVMValueRef fix_up(pp_emit *e, const fixup *by, uint32_t table, LLVMValueRef nan, LLVMValueRef a)
{
    enum { AS_IT_IS = 4 };                                /* rounding mode: unused by the operation */
    const uint64_t kinds = (uint64_t)table << 32 | table; /* 64-bit elements look at the lower half */
    const LLVMTypeRef word = pp_emit_int(e, 32), mask = pp_emit_int(e, by->lanes < 8 ? 8 : by->lanes);
    LLVMValueRef args[6] = {nan,
                            a,
                            pp_emit_constant(e, pp_emit_vector(e, pp_emit_int(e, by->width)), kinds),
                            LLVMConstInt(word, 0, false),
                            LLVMConstAllOnes(mask),
                            LLVMConstInt(word, AS_IT_IS, false)};
    return pp_emit_intrinsic(e, by->name, NULL, 0, args, by->rounds ? 6 : 5);
}

LLVMValueRef pp_emit_is_nan(pp_emit *e, LLVMValueRef a)
{
    return LLVMBuildFCmp(e->build, LLVMRealUNO, a, a, "");
}

LLVMValueRef pp_emit_canonical(pp_emit *e, ppto_dtype dtype, LLVMValueRef a)
{
    if (!pp_dtype_is_float(dtype)) return a;
    const LLVMValueRef nan = pp_emit_constant(e, LLVMTypeOf(a), pp_dtype_canonical_nan(dtype));
    const fixup *by = fixup_for(e, dtype);
    if (by != NULL) return fix_up(e, by, NAN_TO_FIRST, nan, a);
    return LLVMBuildSelect(e->build, pp_emit_is_nan(e, a), nan, a, "");
}

LLVMValueRef pp_emit_zero_for_nan(pp_emit *e, ppto_dtype dtype, LLVMValueRef a)
{
    const LLVMValueRef zero = LLVMConstNull(LLVMTypeOf(a));
    const fixup *by = fixup_for(e, dtype);
    if (by != NULL) return fix_up(e, by, NAN_TO_ZERO, zero, a);
    return LLVMBuildSelect(e->build, pp_emit_is_nan(e, a), zero, a, "");
}
