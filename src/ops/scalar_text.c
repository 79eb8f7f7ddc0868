/* SPDX-License-Identifier: Apache-2.0
 * C names of the scalar functions. The C text of a row is a function, not an expression: guards, selections
 * and the bits of floats take several statements, and one definition serves block loops, exported text and
 * tests alike. */
#include "ops/scalar_text.h"

#include <stdio.h>

static const struct c_row {
    const char *suffix, *type;
} c_rows[PP_DTYPE_COUNT] = {
#define PP_DTYPE(E, suffix, name, numpy, kind, width, type, nan) [PPTO_##E] = {#suffix, #type},
#include "ops/dtypes.def"
};

const char *pp_scalar_c_type(ppto_dtype dtype)
{
    return c_rows[dtype].type;
}

const char *pp_scalar_c_name(pp_op op, ppto_dtype from, ppto_dtype to, char buf[PP_SCALAR_NAME_SIZE])
{
    buf[0] = '\0';
    if (op >= PP_SCALAR_COUNT || !pp_scalar_accepts(op, from)) return NULL;
    const char *name = pp_scalar_find(op)->name, *operand = c_rows[from].suffix;
    if (op == PP_CAST || op == PP_BITCAST) {
        if (!pp_scalar_converts(op, from, to)) return NULL;
        snprintf(buf, PP_SCALAR_NAME_SIZE, "pp_op_%s_%s_%s", name, operand, c_rows[to].suffix);
    } else {
        snprintf(buf, PP_SCALAR_NAME_SIZE, "pp_op_%s_%s", name, operand);
    }
    return buf;
}
