/* SPDX-License-Identifier: Apache-2.0
 * The kernel program: the device-neutral value between lowering and every executor.
 *
 * A program computes over a frame of axes. Everything that varies from run to run is a slot: slots 0, 1, 2
 * hold 0, 1 and -1 always; axis sizes, index bases and coefficients are slots, strides and pointers come with
 * the tensors, numbers with the args. So one program serves all shapes and constants.
 *
 * Frames
 *   MAP       all axes are OUTER. One stage (or several, run one after the other at every point).
 *   LANES     OUTER axes, then INNER axes (the reduced ones, flattened in order are k). Folds follow the lane
 * law, scans the scan law along k. ROWS      the same axes; folds and scans follow the row law (blocks of 128
 * along the flattened INNER axes). The last OUTER axis is the one to vectorise. CONTRACT  BATCH, M, N (outer)
 * and K (inner) axes: first the contraction, then the stages at every (batch, m, n).
 *   CHAIN     no code of its own: programs of the frames LANES and CONTRACT, its parts, run one after the
 * other over the same rows (the outer axes, or batch and m). Tensors that only parts read are its locals: an
 * executor may keep them for as many rows at a time as it likes.
 *
 * A stage is straight-line SSA code over its domain: all outer axes, and the inner ones when `inner`. Its
 * folds (LANES, ROWS) take values of the code at every inner point; their results are read in later stages by
 * PP_STATE. A PP_SCANNED instruction is a value of the same stage, at the same point. Stages of one outer
 * point run in order. A value crosses stages only through PP_STATE, PP_BUFFER (a value kept over O x I by
 * PP_KEEP in an earlier stage) and PP_PRODUCT. Operands are absolute indices into `code` and lie in the same
 * stage, before their use.
 *
 * The order of folds, scans and products is that of the laws of meaning (docs/semantics.md). */
#ifndef PP_PROGRAM_H
#define PP_PROGRAM_H

#include "ops/scalar.h"

#define PP_NONE UINT32_MAX
#define PP_LANES 64u        /* lanes of a block */
#define PP_LANE_BLOCK 4096u /* elements of a block of a lane reduction or of a scan */
#define PP_ROW_BLOCK 128u   /* rows of a block of a row reduction */
#define PP_SCAN_GROUP 16u   /* elements of a group of a scan */
#define PP_K_BLOCK 1024u    /* products of one fma chain of a contraction */

typedef uint16_t pp_slot; /* index into the slots of a binding */
enum { PP_SLOT_0 = 0, PP_SLOT_1 = 1, PP_SLOT_M1 = 2, PP_SLOT_FIRST = 3 };

/* One instruction. Meaning of the fields by op (a, b, c of scalar primitives: operands):
 *   scalar row  a, b, c operands                         dtype: result; operand dtype: that of the operand
 * instruction CONST       imm: index into consts (bits)            ARG      imm: arg number (already of this
 * dtype) INDEX       imm: affine; an i64                      TABLE    imm: table, a: index (any int dtype;
 * masked by length-1) LOAD        imm: access                              STORE    imm: access, a: value (no
 * result) CHECK       a: condition, b: reported value, imm: check (no result) CALL        imm: callee, a:
 * first operand in `operands`, b: how many (functions of one result) COLD        imm: callee, a: mask, b: hot
 * value, c: first operand in `operands` (as many as the callee's parameters); select(mask, callee(...), hot);
 * the callee is skipped where the mask of a whole block is empty PARAM       imm: parameter number (functions
 * only) STATE       imm: fold, a: component of its finished result SCANNED     imm: fold, a: component BUFFER
 * imm: buffer         KEEP  imm: buffer, a: value (no result) INSIDE      imm: first guard, a: how many; bool
 * PRODUCT  the contraction at this point */
typedef struct pp_instr {
    uint8_t op;    /* pp_op */
    uint8_t dtype; /* ppto_dtype of the result (STORE, KEEP, CHECK: of the value) */
    uint16_t reserved;
    uint32_t a, b, c, imm;
} pp_instr;

typedef struct pp_table {
    uint8_t dtype;
    uint32_t length;      /* a power of two */
    const uint64_t *bits; /* one word each */
} pp_table;

/* A scalar function: code without loads, stores or state. Immutable and shared; owned by whoever built it,
 * for longer than any program that refers to it. Same arithmetic, same hash, whatever its name. */
typedef struct pp_function pp_function;
struct pp_function {
    const char *name; /* for people */
    uint64_t hash;    /* of code, dtypes, constants, tables and callees */
    uint8_t n_params, n_results;
    uint8_t param[12];  /* dtypes */
    uint32_t result[4]; /* instructions */
    const pp_instr *code;
    uint32_t n_code;
    const uint32_t *operands;
    uint32_t n_operands;
    const uint64_t *consts;
    uint32_t n_consts;
    const pp_table *tables;
    uint32_t n_tables;
    const pp_function *const *callees;
    uint32_t n_callees;
};

typedef enum pp_axis_role {
    PP_AXIS_OUTER,
    PP_AXIS_INNER,
    PP_AXIS_BATCH,
    PP_AXIS_M,
    PP_AXIS_N,
    PP_AXIS_K
} pp_axis_role;
typedef struct pp_axis {
    pp_slot size;
    uint8_t role; /* pp_axis_role; axes are ordered: outer (batch, m, n) first, inner (k) last */
} pp_axis;

typedef struct pp_term {
    uint8_t axis;
    pp_slot coef;
} pp_term;

/* base + sum of coef * axis, plus an SSA value (i64 or any int, sign-extended) when value != PP_NONE: a
 * gather. */
typedef struct pp_affine {
    pp_slot base;
    uint16_t n_terms;
    uint32_t first_term;
    uint32_t value;
} pp_affine;

/* lo <= affine < hi. */
typedef struct pp_guard {
    uint32_t affine;
    pp_slot lo, hi;
} pp_guard;

/* Element of a tensor: one affine index per dimension. A load outside any of its guards yields `fill` and
 * touches no memory; inside, every index is in bounds. */
typedef struct pp_access {
    uint32_t tensor;
    uint32_t first_affine; /* as many as the tensor's rank */
    uint32_t first_guard;
    uint16_t n_guards;
    uint64_t fill;
} pp_access;

typedef struct pp_tensor_slot {
    uint8_t dtype, rank;
    bool output; /* else input */
    bool result; /* stores make NaN canonical */
} pp_tensor_slot;

typedef enum pp_law { PP_LAW_FOLD, PP_LAW_SCAN } pp_law;

/* A fold (or scan) of one stage. Functions' parameters: lift(inputs…[, i64 k]), step(states…, inputs…[, i64
 * k]), join(states a…, states b…), finish(states…). `joined`: the inputs are states already (no lift, no
 * step). law SCAN in a fold that no SCANNED reads: the last state only (fold ordered). */
typedef struct pp_fold {
    uint8_t n_states, n_inputs;
    uint8_t state[4];      /* dtypes */
    bool joined, position; /* position: lift and step take k, the position in the flattened inner axes */
    uint8_t law;           /* pp_law */
    uint32_t input[4];     /* instructions of the stage */
    const pp_function *lift, *step, *join, *finish; /* step, finish may be NULL; lift NULL when joined */
} pp_fold;

typedef struct pp_buffer { /* a value kept over outer x inner between stages */
    uint8_t dtype;
} pp_buffer;

typedef struct pp_check {
    const char *message; /* "{value}" and "{position}" are filled in */
    uint32_t position;   /* affine: the position; the lowest wins */
} pp_check;

typedef struct pp_stage {
    uint32_t first, count; /* code */
    bool inner;            /* domain outer x inner, else outer */
    uint32_t first_fold, n_folds;
} pp_stage;

/* C[batch, m, n] = sum over k of A * B by the contraction law (chain form): fma from +0 in blocks of 1024,
 * blocks added in order, then + 0 (integers: wrapping). A's code depends on batch, m, k axes, B's on batch,
 * k, n axes. */
typedef struct pp_contract {
    uint8_t dtype;
    uint32_t a_first, a_count, a_value;
    uint32_t b_first, b_count, b_value;
} pp_contract;

/* A row-major tensor between the parts of a chain. Its first `rows` dims are the rows, in order, in every
 * part that stores or loads it, so a part needs of it only the rows it computes. */
typedef struct pp_local {
    uint8_t dtype, rank, rows;
    uint8_t
        place; /* locals of one place: the later takes over the memory of the earlier, element by element */
    pp_slot dim[PPTO_MAX_RANK];
} pp_local;

typedef struct pp_program pp_program;
/* A part of a chain; it shares the chain's slots and args. */
typedef struct pp_chain_part {
    pp_program *program; /* owned by the chain */
    uint32_t *tensor;    /* per tensor of the part: one of the chain, or n_tensors + a local */
} pp_chain_part;
enum { PP_MOST_PARTS = 6 };

typedef enum pp_frame {
    PP_FRAME_MAP,
    PP_FRAME_LANES,
    PP_FRAME_ROWS,
    PP_FRAME_CONTRACT,
    PP_FRAME_CHAIN
} pp_frame;

struct pp_program {
    pp_frame frame;
    uint32_t n_slots, n_args;
    pp_axis *axes;
    uint32_t n_axes;
    pp_tensor_slot *tensors;
    uint32_t n_tensors;
    pp_term *terms;
    uint32_t n_terms;
    pp_affine *affines;
    uint32_t n_affines;
    pp_guard *guards;
    uint32_t n_guards;
    pp_access *accesses;
    uint32_t n_accesses;
    pp_instr *code;
    uint32_t n_code;
    uint32_t *operands;
    uint32_t n_operands;
    uint64_t *consts;
    uint32_t n_consts;
    pp_table *tables;
    uint32_t n_tables;
    const pp_function **callees;
    uint32_t n_callees;
    pp_fold *folds;
    uint32_t n_folds;
    pp_buffer *buffers;
    uint32_t n_buffers;
    pp_check *checks;
    uint32_t n_checks;
    pp_stage *stages;
    uint32_t n_stages;
    pp_contract contract; /* frame CONTRACT */
    pp_chain_part *parts; /* frame CHAIN: all of them but tensors, slots and args is in its parts */
    uint32_t n_parts;
    pp_local *locals;
    uint32_t n_locals;
    uint64_t hash;  /* of the structure: everything above but names and messages */
    pp_arena arena; /* owns the arrays */
};

/* ---- verify.c, print.c, program.c
 * ---------------------------------------------------------------------------- */

void pp_program_destroy(pp_program *program); /* NULL is fine; frees the program and its arena */
uint64_t pp_program_hash(const pp_program *program);
bool pp_program_equal(const pp_program *a, const pp_program *b);
uint64_t pp_function_hash(const pp_function *function);
/* E_INTERNAL with the offending instruction when an invariant is broken. */
ppto_status pp_program_verify(const pp_program *program, pp_error *err);
ppto_status pp_function_verify(const pp_function *function, pp_error *err);
void pp_program_print(const pp_program *program, pp_text *out);
void pp_function_print(const pp_function *function, pp_text *out);
/* For every instruction the set of axes (bit i = axis i) its value depends on, from its operands, accesses
 * and guards; STATE: all outer axes; BUFFER, SCANNED: all; PRODUCT: all outer. masks: n_code entries. At most
 * 32 axes. */
void pp_program_axis_masks(const pp_program *program, uint32_t *masks);
/* Values a function's result depends on … the dtype of an instruction's operand i (0, 1, 2) inside `code`. */
ppto_dtype pp_instr_operand_dtype(const pp_instr *code, const pp_instr *instr, unsigned i);

/* ---- render.c : readable C99 text
 * --------------------------------------------------------------------------------- */

/* A complete C99 translation unit: a prologue of the primitives used, the functions, and
 * `void NAME(const int64_t *slot, void *const *data, const int64_t *const *stride, const uint64_t *arg,
 * int64_t *failed)` (strides in elements) that runs the whole program, one thread, by the laws. failed: three
 * words, failed[0] INT64_MAX on entry; the lowest position where a check failed (INT64_MIN: no memory), its
 * check, the reported value (floats: bits). The program is a verified one. */
ppto_status pp_program_render(const pp_program *program, const char *name, pp_text *out);
/* `static inline T NAME(T0 p0, …)` of one function (callees first, each once). The name
 * is fn_NAME_HASH; several results go through pointers. */
ppto_status pp_function_render(const pp_function *function, pp_text *out);

#endif
