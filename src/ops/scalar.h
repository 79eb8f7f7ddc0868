/* SPDX-License-Identifier: Apache-2.0
 * The scalar primitives and the dtypes: what an operator computes on one element. Data and pure functions.
 * One row each in scalar.def and dtypes.def; enum, type rule, C text, reference function and samples come
 * from there. */
#ifndef PP_SCALAR_H
#define PP_SCALAR_H

#include "base/base.h"

/* ---- dtype.c (rows: dtypes.def)
 * -------------------------------------------------------------------------------- */

#define PP_DTYPE_COUNT 11
typedef enum pp_kind { PP_KIND_BOOL, PP_KIND_INT, PP_KIND_UINT, PP_KIND_FLOAT } pp_kind;

pp_kind pp_dtype_kind(ppto_dtype dtype);
unsigned pp_dtype_width(ppto_dtype dtype);  /* bits: 8 for bool */
bool pp_dtype_is_integer(ppto_dtype dtype); /* i*, u* */
bool pp_dtype_is_float(ppto_dtype dtype);
/* Whether the whole number is a value of the dtype; floats round, bool holds 0 and 1. */
bool pp_dtype_holds(ppto_dtype dtype, int64_t i);
void pp_dtype_range(ppto_dtype dtype, pp_text *out);              /* "u8 (0 to 255)", "f32" */
bool pp_dtype_parse(const char *name, size_t n, ppto_dtype *out); /* "f32", also NumPy's "float32" */
uint64_t pp_dtype_canonical_nan(ppto_dtype dtype);                /* bit pattern; 0 for non-floats */
/* Promotion of two tensor dtypes (semantics.md): same kind: the wider; signed with unsigned: the next wider
 * signed; u64 with signed: PPTO_E_DTYPE; integer with float: the float; bool below every integer. */
ppto_status pp_dtype_promote(ppto_dtype a, ppto_dtype b, ppto_dtype *out);

/* ---- scalar.c (rows: scalar.def)
 * -------------------------------------------------------------------------------- */

typedef enum pp_op {
    PP_ADD,
    PP_SUB,
    PP_MUL,
    PP_DIV,
    PP_FMA,
    PP_SQRT,
    PP_NEG,
    PP_ABS,
    PP_COPYSIGN,
    PP_SIGNBIT,
    PP_MIN,
    PP_MAX,
    PP_RINT,
    PP_FLOOR,
    PP_CEIL,
    PP_TRUNC,
    PP_FMOD,
    PP_IDIV,
    PP_IMOD,
    PP_MULHI,
    PP_AND,
    PP_OR,
    PP_XOR,
    PP_NOT,
    PP_SHL,
    PP_SHR,
    PP_CLZ,
    PP_EQ,
    PP_NE,
    PP_LT,
    PP_LE,
    PP_SELECT,
    PP_CAST,
    PP_BITCAST,
    PP_SCALAR_COUNT,
    /* Rows that only make sense inside a kernel program (kernel/program.h). */
    PP_CONST = PP_SCALAR_COUNT,
    PP_ARG,
    PP_INDEX,
    PP_TABLE,
    PP_LOAD,
    PP_STORE,
    PP_CHECK,
    PP_CALL,
    PP_COLD,
    PP_PARAM,
    PP_STATE,
    PP_SCANNED,
    PP_BUFFER,
    PP_KEEP,
    PP_INSIDE,
    PP_PRODUCT,
    PP_OP_COUNT
} pp_op;

/* Classes of dtypes a row accepts. */
enum { PP_ON_BOOL = 1, PP_ON_INT = 2, PP_ON_FLOAT = 4, PP_ON_NUM = 6, PP_ON_ANY = 7 };

typedef struct pp_scalar_row {
    const char *name;                    /* "add": callable in the library as scalar.add */
    uint8_t arity;                       /* operands */
    uint8_t on;                          /* PP_ON_*: dtype class of the value operands */
    bool gives_bool;                     /* comparisons, signbit */
    bool commutative, associative_exact; /* algebra flags: associative_exact on integers and bool only, or
                                            min, max, and, or, xor */
    uint8_t flops;       /* what explain counts: add 1, fma 2, select 0 … (kernel-program.md) */
    const char *meaning; /* one line for documents */
} pp_scalar_row;

const pp_scalar_row *pp_scalar_find(pp_op op);
bool pp_scalar_parse(const char *name, size_t n, pp_op *out); /* by row name, the arithmetic rows only */
/* Whether the row accepts operands of that dtype (mulhi: i32 u32 i64 u64; clz: u32 u64). */
bool pp_scalar_accepts(pp_op op, ppto_dtype dtype);
/* Whether cast or bitcast goes from one dtype to the other (bitcast: same width, never from or to bool). */
bool pp_scalar_converts(pp_op op, ppto_dtype from, ppto_dtype to);
/* Result dtype for value operands of that dtype (cast, bitcast: the caller's target). */
ppto_dtype pp_scalar_result(pp_op op, ppto_dtype operand);

/* One element, as primitives.md says, bits in and out in the low bytes of a u64 (bool 0/1; smaller ints
 * zero-extended). `from` is the operands' dtype (for select: of the second and third), `to` the result's. The
 * single source of truth of the reference device and of constant folding. Never traps; no libm but fma. */
uint64_t pp_scalar_eval(pp_op op, ppto_dtype from, ppto_dtype to, uint64_t a, uint64_t b, uint64_t c);

/* ---- fenv.c
 * ------------------------------------------------------------------------------------------------------ */

/* Sets round-to-nearest without FTZ/DAZ and returns what was there; restore puts everything back, flags
 * included. */
typedef struct pp_fenv {
    uint64_t word[4];
} pp_fenv;
void pp_fenv_enter(pp_fenv *saved);
void pp_fenv_leave(const pp_fenv *saved);

#endif
