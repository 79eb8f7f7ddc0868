/* SPDX-License-Identifier: Apache-2.0
 * A loop to be compiled: several steps of the block interpreter as one, its values in registers.
 *
 * A loop runs over a tile of [rows][cols] elements: streams in, scalar code as in a kernel program, streams
 * out. It says nothing about sizes, pitches and numbers, so one piece of machine code serves all of them;
 * what it says decides the code, and its hash is the key of caches. The interpreter makes loops of its bodies
 * (interp_loops.c) and can always run the steps instead: both give the same bits. A generator of machine code
 * (devices/cpu_llvm) turns a loop into an object file that defines one function, pp_loop_fn.
 *
 * Code: the scalar rows of ops/scalar.def, CONST (imm: of consts), TABLE, CALL and COLD as in
 * kernel/program.h, and
 *   PARAM  imm: stream of `in`; the element of this place (of its row)
 *   STORE  imm: stream of `out`, a: the value
 *   SCANNED imm: of `folds`, a scan; a: the state, after this element
 * Every output is stored once, in any order, or takes a state of one fold. No two streams of a loop overlap,
 * but an output may be an input exactly (same place and pitch, same element size): an element is read before
 * it is written. */
#ifndef PP_LOOP_H
#define PP_LOOP_H

#include "kernel/walk.h"

typedef enum pp_stream_kind {
    PP_STREAM_FULL, /* columns are neighbours; rows `pitch` bytes apart (0: all rows are the same one) */
    PP_STREAM_ROW,  /* one element a row, `pitch` bytes apart (inputs, 0: one for the tile); outputs: of folds
                     */
    PP_STREAM_COLUMN /* outputs: a state for each column, neighbours; read and written, has no pitch */
} pp_stream_kind;

typedef struct pp_stream {
    uint8_t dtype, kind;
    bool canonical; /* outputs: NaN is written as the canonical pattern */
    bool around;    /* outputs: non-temporal stores where alignment allows; the caller fences */
} pp_stream;

/* A fold of values, or a scan. By the lane law: every row of the tile is one block (at most PP_LANE_BLOCK
 * columns), and its joined state goes to the outputs. By the row law, of all folds of the loop or of none:
 * the rows of the tile are some of a block, one after the other, and go into the state of each column.
 * Nothing goes around the caches in a loop with folds of either law. */
typedef struct pp_loop_fold {
    const pp_fold *fold; /* its own input[] is not looked at */
    uint32_t input[4];   /* instructions */
    uint32_t out[4];     /* outputs of kind ROW (by columns: COLUMN), one per state */
    uint32_t first; /* position: input of kind ROW, i64: that of the first column (by columns: of the first
                       row); else PP_NONE */
    bool columns;   /* by the row law */
    uint32_t fresh; /* by columns: input of kind ROW, bool: the first row begins the block, and is lifted */
    /* Law SCAN, of all folds of the loop or of none: every row is a block of the scan law, its inputs come
     * before what reads it. `out` takes the states after the last column. */
    uint32_t carry[4]; /* inputs of kind ROW: the states of the blocks before, unless `first` (always there)
                          is 0 */
} pp_loop_fold;

typedef struct pp_loop {
    const pp_stream *in, *out;
    uint32_t n_in, n_out;
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
    const pp_loop_fold *folds;
    uint32_t n_folds;
    uint64_t hash; /* pp_loop_hash */
} pp_loop;

/* One stream of a run. Elements may be unaligned. */
typedef struct pp_stream_at {
    char *at;
    int64_t pitch;
} pp_stream_at;

/* The function of a loop: rows, cols at least 1; in[n_in], out[n_out]. Any thread; keeps the floating-point
 * environment of the caller, which is that of a run (nearest, no flush to zero); touches no other memory. */
typedef void (*pp_loop_fn)(size_t rows, size_t cols, const pp_stream_at *in, const pp_stream_at *out);

/* What a generator offers: the only symbol of its module, `pp_generator_module`, is one. All may be called
 * from any thread, open and compile one at a time. A module is never closed. */
#define PP_GENERATOR_ABI 7u
typedef struct pp_generator {
    uint32_t abi;     /* PP_GENERATOR_ABI of the module; others are refused */
    const char *name; /* "LLVM 19.1.7": its text is part of the key of the disk cache */
    /* Whether code of this instruction set ("avx2", "avx512") can be made for the machine at hand; err: why
     * not. */
    ppto_status (*open)(const char *simd, pp_error *err);
    /* An object file of the loop for the instruction set, in memory of `alloc`, the caller's; E_UNSUPPORTED:
     * the interpreter keeps the loop (err says what). Nothing in it refers to a symbol outside. */
    ppto_status (*compile)(const pp_loop *loop, const char *simd, void *(*alloc)(size_t), void **object,
                           size_t *bytes, pp_error *err);
    /* Makes an object runnable: *fn until unload(*handle). A damaged object is E_INTERNAL. */
    ppto_status (*load)(const void *object, size_t bytes, void **handle, pp_loop_fn *fn, pp_error *err);
    void (*unload)(void *handle); /* NULL is fine */
    int *fault; /* the switch of its planted faults (base/fault.h); NULL: it has none, as in every release */
} pp_generator;

pp_pools pp_loop_pools(const pp_loop *loop);
uint64_t pp_loop_hash(const pp_loop *loop); /* of all that decides the code: no names, no addresses */
/* E_INTERNAL with the offending instruction when an invariant is broken: those of code (kernel/walk.h), and
 * that every output is stored once and the hash is the loop's own. Callees are verified functions. */
ppto_status pp_loop_verify(const pp_loop *loop, pp_error *err);
void pp_loop_print(const pp_loop *loop, pp_text *out);

#endif
