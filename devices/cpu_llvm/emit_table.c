/* SPDX-License-Identifier: Apache-2.0
 * Look-ups: a permute of registers where the table fits a few of them, else a gather from the object's
 * constants.
 *
 * A permute takes its index modulo the elements it chooses from, so a table is a row of registers; further
 * bits of the index choose between them. */
#include <string.h>

#include "devices/cpu_llvm/emit.h"

enum { MOST_REGISTERS = 4, MOST_LANES = 64 };

typedef struct permute {
    unsigned element, bytes; /* of an element, of a register */
    bool only_512;           /* of the instruction sets, the greater one */
    const char *one, *two;   /* of one register; of two, NULL: two of one and a choice */
} permute;

static const permute permutes[] = {
    {4, 64, true, "llvm.x86.avx512.permvar.si.512", "llvm.x86.avx512.vpermi2var.d.512"},
    {8, 64, true, "llvm.x86.avx512.permvar.di.512", "llvm.x86.avx512.vpermi2var.q.512"},
    {4, 32, true, "llvm.x86.avx2.permd", "llvm.x86.avx512.vpermi2var.d.256"},
    {8, 32, true, "llvm.x86.avx512.permvar.di.256", "llvm.x86.avx512.vpermi2var.q.256"},
    {4, 32, false, "llvm.x86.avx2.permd", NULL},
};

typedef struct look_up {
    pp_emit *e;
    const pp_table *table;
    const permute *by;
    LLVMTypeRef type;   /* integers of the element's width */
    LLVMValueRef index; /* of that type */
} look_up;

static const permute *permute_for(const pp_emit *e, unsigned size)
{
    for (size_t i = 0; i < sizeof permutes / sizeof *permutes; i++) {
        const permute *p = &permutes[i];
        if (p->element == size && p->bytes == size * e->lanes && (!p->only_512 || e->target->bytes == 64) &&
            LLVMLookupIntrinsicID(p->one, strlen(p->one)) != 0 &&
            (p->two == NULL || LLVMLookupIntrinsicID(p->two, strlen(p->two)) != 0))
            return p;
    }
    return NULL;
}

/* Register i of the table; a short one is repeated. */
static LLVMValueRef piece(const look_up *l, unsigned i)
{
    LLVMValueRef element[MOST_LANES];
    const unsigned lanes = l->e->lanes;
    for (unsigned k = 0; k < lanes; k++)
        element[k] = LLVMConstInt(LLVMGetElementType(l->type),
                                  l->table->bits[(i * lanes + k) & (l->table->length - 1)], false);
    return LLVMConstVector(element, lanes);
}

/* Where a bit (a power of two) of the index is set: a mask register, or the sign that a blend looks at. */
static LLVMValueRef has_bit(const look_up *l, unsigned bit)
{
    const LLVMBuilderRef build = l->e->build;
    const LLVMValueRef zero = LLVMConstNull(l->type);
    if (l->e->target->bytes == 64) {
        const LLVMValueRef mask = pp_emit_constant(l->e, l->type, bit);
        return LLVMBuildICmp(build, LLVMIntNE, LLVMBuildAnd(build, l->index, mask, ""), zero, "");
    }
    unsigned up = 8 * l->by->element - 1;
    while (bit >>= 1) up--;
    const LLVMValueRef signs = LLVMBuildShl(build, l->index, pp_emit_constant(l->e, l->type, up), "");
    return LLVMBuildICmp(build, LLVMIntSLT, signs, zero, "");
}

static LLVMValueRef choose(const look_up *l, unsigned first, unsigned n)
{
    pp_emit *e = l->e;
    if (n == 1) {
        LLVMValueRef args[2] = {piece(l, first), l->index};
        return pp_emit_intrinsic(e, l->by->one, NULL, 0, args, 2);
    }
    if (n == 2 && l->by->two != NULL) {
        LLVMValueRef args[3] = {piece(l, first), l->index, piece(l, first + 1)};
        return pp_emit_intrinsic(e, l->by->two, NULL, 0, args, 3);
    }
    const LLVMValueRef upper = has_bit(l, n / 2 * e->lanes);
    return LLVMBuildSelect(e->build, upper, choose(l, first + n / 2, n / 2), choose(l, first, n / 2), "");
}

/* ---- gathers ------------------------------------------------------------------------------------------- */

static LLVMValueRef in_memory(pp_emit *e, const pp_table *table, LLVMTypeRef element)
{
    LLVMValueRef *elements = pp_calloc(table->length, sizeof *elements);
    const LLVMTypeRef type = LLVMArrayType(element, table->length);
    const LLVMValueRef global = LLVMAddGlobal(e->module, type, "table");
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    LLVMSetGlobalConstant(global, true);
    LLVMSetAlignment(global, 64);
    LLVMSetInitializer(global, LLVMConstNull(type));
    if (elements == NULL) {
        pp_emit_fail(e, PPTO_E_NOMEM, "no memory");
        return global;
    }
    for (uint32_t i = 0; i < table->length; i++) elements[i] = LLVMConstInt(element, table->bits[i], false);
    LLVMSetInitializer(global, LLVMConstArray(element, elements, table->length));
    pp_free(elements);
    return global;
}

static LLVMValueRef gather(pp_emit *e, const pp_table *table, LLVMTypeRef element, LLVMValueRef index)
{
    const LLVMTypeRef type = pp_emit_vector(e, element);
    const LLVMTypeRef wide = pp_emit_type(e, PPTO_I64);
    const LLVMValueRef masked =
        LLVMBuildAnd(e->build, index, pp_emit_constant(e, LLVMTypeOf(index), table->length - 1), "");
    LLVMValueRef at = LLVMBuildZExt(e->build, masked, wide, "");
    const LLVMValueRef places = LLVMBuildGEP2(e->build, element, in_memory(e, table, element), &at, 1, "");
    return pp_emit_gather(e, type, places);
}

/* ---- both ---------------------------------------------------------------------------------------------- */

LLVMValueRef pp_emit_table(pp_emit *e, const pp_table *table, ppto_dtype from, LLVMValueRef index)
{
    const ppto_dtype dtype = (ppto_dtype)table->dtype;
    const unsigned width = pp_dtype_width(dtype);
    const LLVMTypeRef element = pp_emit_int(e, width), out = pp_emit_type(e, dtype);
    look_up l = {.e = e, .table = table, .by = permute_for(e, width / 8), .type = pp_emit_vector(e, element)};
    LLVMValueRef bits;
    if (l.by != NULL && table->length <= MOST_REGISTERS * e->lanes) {
        l.index = pp_emit_cast(e, from, width == 64 ? PPTO_U64 : PPTO_U32, index);
        bits = choose(&l, 0, table->length <= e->lanes ? 1 : table->length / e->lanes);
    } else {
        bits = gather(e, table, element, pp_emit_cast(e, from, PPTO_U32, index));
    }
    if (dtype == PPTO_BOOL) return pp_emit_cast(e, PPTO_U8, PPTO_BOOL, bits);
    return LLVMBuildBitCast(e->build, bits, out, "");
}
