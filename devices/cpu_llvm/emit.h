/* SPDX-License-Identifier: Apache-2.0
 * From a loop to LLVM's intermediate code: what the files of the generator share.
 *
 * Every value is a vector of `lanes` elements, also one that is the same in all of them, so code reads as on
 * one element. Vectors are our decision (emit_loop.c), not that of an optimiser: LLVM only selects
 * instructions and registers. bool is a bit a lane in registers and a byte in memory. No fast-math flag is
 * ever set, and nothing that has undefined results is: what a compiler may assume here is what
 * scalar_inline.h promises.
 *
 * The first failure wins and is kept in `status`; after it values are still made, of the right type, so that
 * callers need not look each time. */
#ifndef PP_EMIT_H
#define PP_EMIT_H

#include <llvm-c/Core.h>

#include "devices/cpu/loop.h"
#include "kernel/walk.h"

typedef struct pp_emit_target {
    const char *simd; /* "avx2" */
    const char *triple, *cpu, *features;
    unsigned bytes;      /* of a vector register */
    unsigned registers;  /* vectors */
    bool masks_of_bytes; /* masked loads and stores of elements below 32 bits */
    bool (*here)(void);  /* whether this machine runs it */
} pp_emit_target;

/* A vector; when known the same constant in every lane. */
typedef struct pp_emit_value {
    LLVMValueRef at;
    bool known;
    uint64_t bits;
    LLVMValueRef raw,
        nan; /* bits of a float: before a NaN was made canonical, and where there was one; or NULL */
} pp_emit_value;

typedef struct pp_emit_callee { /* a function of its own */
    uint64_t hash;
    LLVMValueRef at;
    LLVMTypeRef type;
} pp_emit_callee;

typedef struct pp_emit_row { /* a row or a look-up, and its operands */
    uint16_t op;
    uint8_t from, to; /* dtypes */
    const pp_table *table;
    LLVMValueRef operand[3];
} pp_emit_row;

typedef struct pp_emit_made_row {
    pp_emit_row row;
    pp_emit_value value;
} pp_emit_made_row;

typedef struct pp_emit_stretch { /* what was computed up to here: emit_reuse.c */
    LLVMBasicBlockRef block;
    PP_VEC(pp_emit_made_row) rows;
} pp_emit_stretch;

typedef struct pp_emit {
    const pp_emit_target *target;
    const pp_loop *loop;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef build;
    LLVMValueRef function; /* being written */
    unsigned lanes;
    LLVMValueRef active; /* lanes that count (bool vector); NULL: all */
    LLVMValueRef aside;  /* a vector on the stack */
    unsigned depth;      /* of calls */
    PP_VEC(pp_emit_callee) callees;
    pp_emit_stretch made;
    ppto_status status;
    pp_error *err;
} pp_emit;

/* Keeps the first failure. */
void pp_emit_fail(pp_emit *e, ppto_status status, const char *what);

/* ---- emit_value.c: types, constants and small helpers ----------------------------------------------------
 */

LLVMTypeRef pp_emit_element(const pp_emit *e, ppto_dtype dtype);   /* in registers: bool is i1 */
LLVMTypeRef pp_emit_memory(const pp_emit *e, ppto_dtype dtype);    /* in memory: bool is i8 */
LLVMTypeRef pp_emit_int(const pp_emit *e, unsigned bits);          /* one element */
LLVMTypeRef pp_emit_vector(const pp_emit *e, LLVMTypeRef element); /* of `lanes` */
LLVMTypeRef pp_emit_type(const pp_emit *e, ppto_dtype dtype);      /* vector of the dtype */
LLVMValueRef pp_emit_constant(pp_emit *e, LLVMTypeRef type,
                              uint64_t bits); /* vector or element, by its bits */
LLVMValueRef pp_emit_splat(pp_emit *e, LLVMValueRef element);
/* A bool vector: lanes 0 to n - 1 (an i64, -PP_LANES to `lanes`), compared in integers that make one
 * register. */
LLVMValueRef pp_emit_first_lanes(pp_emit *e, LLVMValueRef n);
/* first (i64s) + c (an i64) + the lane. */
LLVMValueRef pp_emit_positions(pp_emit *e, LLVMValueRef first, LLVMValueRef c);
/* Calls an intrinsic overloaded on `types`. */
LLVMValueRef pp_emit_intrinsic(pp_emit *e, const char *name, LLVMTypeRef *types, unsigned n_types,
                               LLVMValueRef *args, unsigned n_args);
LLVMBasicBlockRef pp_emit_block(pp_emit *e, const char *name); /* at the end of the function */
void pp_emit_attributes(const pp_emit *e, LLVMValueRef function);
void pp_emit_attribute(const pp_emit *e, LLVMValueRef function, const char *name);

/* ---- emit_scalar.c, emit_cast.c: the rows of scalar.def --------------------------------------------------
 */

/* from: dtype of the value operands (of select: of the second and third). */
LLVMValueRef pp_emit_scalar(pp_emit *e, pp_op op, ppto_dtype from, ppto_dtype to,
                            const pp_emit_value *operand);
LLVMValueRef pp_emit_cast(pp_emit *e, ppto_dtype from, ppto_dtype to, LLVMValueRef a);
LLVMValueRef pp_emit_bitcast(pp_emit *e, ppto_dtype from, ppto_dtype to, LLVMValueRef a);
LLVMValueRef pp_emit_fmod(pp_emit *e, ppto_dtype dtype, LLVMValueRef a, LLVMValueRef b); /* emit_fmod.c */

/* ---- emit_nan.c ------------------------------------------------------------------------------------------
 */

LLVMValueRef pp_emit_is_nan(pp_emit *e, LLVMValueRef a);                         /* bool vector */
LLVMValueRef pp_emit_canonical(pp_emit *e, ppto_dtype dtype, LLVMValueRef a);    /* other dtypes: a itself */
LLVMValueRef pp_emit_zero_for_nan(pp_emit *e, ppto_dtype dtype, LLVMValueRef a); /* +0 in place of NaN */

/* ---- emit_stream.c: memory -------------------------------------------------------------------------------
 */

LLVMValueRef pp_emit_load(pp_emit *e, ppto_dtype dtype, LLVMValueRef at);     /* `lanes` elements */
LLVMValueRef pp_emit_load_one(pp_emit *e, ppto_dtype dtype, LLVMValueRef at); /* one element in every lane */
/* around: past the caches; `at` is aligned to the vector then. */
void pp_emit_store(pp_emit *e, ppto_dtype dtype, LLVMValueRef at, LLVMValueRef value, bool around);
/* The first n (an i64, 0 to `lanes`) elements, which are the lanes of e->active; the others load as 0. */
LLVMValueRef pp_emit_load_part(pp_emit *e, ppto_dtype dtype, LLVMValueRef at, LLVMValueRef n);
void pp_emit_store_part(pp_emit *e, ppto_dtype dtype, LLVMValueRef at, LLVMValueRef value, LLVMValueRef n);
LLVMValueRef pp_emit_gather(pp_emit *e, LLVMTypeRef type, LLVMValueRef places); /* a vector of addresses */

/* ---- emit_table.c ----------------------------------------------------------------------------------------
 */

/* table[index modulo its length]; from: the index's dtype. */
LLVMValueRef pp_emit_table(pp_emit *e, const pp_table *table, ppto_dtype from, LLVMValueRef index);

/* ---- emit_rare.c -----------------------------------------------------------------------------------------
 */

/* A function out of line: told apart by its hash; body writes it and gives its result. */
typedef struct pp_emit_rare {
    uint64_t hash;
    const void *what; /* for body */
    LLVMValueRef (*body)(pp_emit *e, const void *what, const pp_emit_value *param);
    unsigned n_params;
    uint8_t param[12]; /* dtypes */
    ppto_dtype result;
} pp_emit_rare;

/* hot, but in lanes of the mask (of those that count) what the function gives. */
LLVMValueRef pp_emit_rarely(pp_emit *e, const pp_emit_rare *rare, LLVMValueRef mask,
                            const pp_emit_value *param, LLVMValueRef hot);

/* ---- emit_code.c: instructions, functions ----------------------------------------------------------------
 */

/* The instruction at `at` of the pools (no STORE); value[] holds what is before it, param[] what PARAM reads.
 */
pp_emit_value pp_emit_instr(pp_emit *e, const pp_pools *pools, uint32_t at, const pp_emit_value *value,
                            const pp_emit_value *param);

/* All results of a function, inlined. */
void pp_emit_function(pp_emit *e, const pp_function *f, const pp_emit_value *param, pp_emit_value *result);

/* ---- emit_reuse.c ----------------------------------------------------------------------------------------
 */

bool pp_emit_reuse(pp_emit *e, const pp_emit_row *row, pp_emit_value *out); /* whether it was made before */
void pp_emit_made(pp_emit *e, const pp_emit_row *row, pp_emit_value value);
/* The builder stands in a block that is reached through `from` alone. */
void pp_emit_made_goes_on(pp_emit *e, LLVMBasicBlockRef from);
/* Around the writing of another function; the caller gives back what it got. */
pp_emit_stretch pp_emit_made_aside(pp_emit *e);
void pp_emit_made_back(pp_emit *e, pp_emit_stretch kept);

/* ---- emit_state.c ----------------------------------------------------------------------------------------
 */

/* Lift, join and step of a fold or a scan, of states in registers. in: its inputs, then the positions if it
 * takes them. */
void pp_emit_state_lift(pp_emit *e, const pp_loop_fold *f, const pp_emit_value *in, pp_emit_value *out);
void pp_emit_state_join(pp_emit *e, const pp_loop_fold *f, const pp_emit_value *a, const pp_emit_value *b,
                        pp_emit_value *out);
void pp_emit_state_step(pp_emit *e, const pp_loop_fold *f, const pp_emit_value *state,
                        const pp_emit_value *in, pp_emit_value *out);
ppto_dtype pp_emit_state_dtype(const pp_loop_fold *f, unsigned s);
/* In the entry block: room on the stack for so many elements of each state; the place of one of them. */
void pp_emit_state_room(pp_emit *e, const pp_loop_fold *f, unsigned elements, LLVMValueRef *room);
LLVMValueRef pp_emit_state_at(pp_emit *e, const pp_loop_fold *f, unsigned s, LLVMValueRef base,
                              LLVMValueRef element);
/* The first lane of a state to an output of kind ROW. */
void pp_emit_store_one(pp_emit *e, const pp_stream *stream, LLVMValueRef at, LLVMValueRef state);

/* ---- emit_fold.c -----------------------------------------------------------------------------------------
 */

typedef struct pp_emit_fold {
    const pp_loop_fold *at;
    LLVMValueRef lanes[4]; /* per state: its PP_LANES lanes on the stack (by columns: a vector, of a part) */
} pp_emit_fold;

void pp_emit_fold_start(pp_emit *e, const pp_loop_fold *at, pp_emit_fold *out); /* in the entry block */
/* The states of lanes `lane` (an i64) and following, a vector of them. */
void pp_emit_fold_load(pp_emit *e, const pp_emit_fold *f, LLVMValueRef lane, pp_emit_value *out);
void pp_emit_fold_store(pp_emit *e, const pp_emit_fold *f, LLVMValueRef lane, const pp_emit_value *state);
/* A vector of elements into the lanes on the stack. c: the column of the first, a multiple of the vector.
 * Whole ones, from column PP_LANES on; or the lanes of e->active, anywhere. */
void pp_emit_fold_vector(pp_emit *e, const pp_emit_fold *f, LLVMValueRef c, const pp_emit_value *in);
void pp_emit_fold_part(pp_emit *e, const pp_emit_fold *f, LLVMValueRef c, const pp_emit_value *in);
/* Joins the lanes (an i64: how many exist) and stores the states at to[s]. */
void pp_emit_fold_end(pp_emit *e, const pp_emit_fold *f, LLVMValueRef lanes, const LLVMValueRef *to);
/* The same of PP_LANES lanes in registers, state[vector of them]. */
void pp_emit_fold_end_all(pp_emit *e, const pp_emit_fold *f, pp_emit_value (*state)[4],
                          const LLVMValueRef *to);

/* ---- emit_scan.c ------------------------------------------------------------------------------------------
 */

enum { PP_EMIT_SCAN_STEPS = 4, PP_EMIT_SCAN_VECTORS = 16 };
typedef struct pp_emit_scan {
    const pp_loop_fold *at;
    unsigned vectors; /* of a group */
    /* Of the row, set by the caller: the state of the blocks before, and whether there are none (a bit). */
    pp_emit_value carry[4];
    LLVMValueRef alone;
    LLVMValueRef before[4], last[4]; /* on the stack: of the groups before; the results of the last group */
    pp_emit_value running[4];        /* of the groups before, in every lane */
    LLVMValueRef turned[4];
    pp_emit_value result[4]; /* of the vector */
    pp_emit_value stage[PP_EMIT_SCAN_STEPS + 1][PP_EMIT_SCAN_VECTORS][4];
} pp_emit_scan;

void pp_emit_scan_start(pp_emit *e, const pp_loop_fold *at, pp_emit_scan *out); /* in the entry block */
/* Vector v of its group, those before it are written: sets result, and running after the last. first: a bit,
 * whether no group comes before; NULL: one does. */
void pp_emit_scan_vector(pp_emit *e, pp_emit_scan *f, unsigned v, LLVMValueRef first,
                         const pp_emit_value *in);
/* `running` between registers and stack; to the head of a loop, as pp_emit_turn_states. */
void pp_emit_scan_load(pp_emit *e, pp_emit_scan *f);
void pp_emit_scan_store(pp_emit *e, const pp_emit_scan *f);
void pp_emit_scan_turn(pp_emit *e, pp_emit_scan *f, LLVMBasicBlockRef from, bool first);
/* The states of the last of `cols` elements to to[s]. */
void pp_emit_scan_end(pp_emit *e, const pp_emit_scan *f, LLVMValueRef cols, const LLVMValueRef *to);

/* ---- emit_weight.c ---------------------------------------------------------------------------------------
 */

typedef struct pp_emit_weight {
    unsigned widest; /* bytes of the widest element */
    unsigned rows;   /* scalar rows and look-ups of one element, calls unfolded */
    unsigned cold;   /* cold regions */
    unsigned states; /* of all folds */
} pp_emit_weight;
void pp_emit_weigh(const pp_loop *loop, pp_emit_weight *out);

/* ---- emit_loop.c ----------------------------------------------------------------------------------------
 */

#define PP_EMIT_NAME "pp_loop" /* the function of the object */
/* Writes the function into e->module; lanes are chosen. */
void pp_emit_loop(pp_emit *e);

#endif
