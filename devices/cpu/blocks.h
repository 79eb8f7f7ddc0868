/* SPDX-License-Identifier: Apache-2.0
 * The loops of the block interpreter: one set per instruction set, compiled from the same sources
 * (blocks_*.c, and the generated functions_N.c) with different flags, picked at run time. Every loop runs n
 * elements in L1; all are exact, so all sets give the same bits. Buffers may be unaligned; out may equal an
 * input exactly (same start, whatever the sizes of the elements) but not overlap otherwise; a scalar operand
 * may lie anywhere. bool is one byte, 0 or 1. */
#ifndef PP_BLOCKS_H
#define PP_BLOCKS_H

#include "kernel/program.h"

/* How operands of a two-operand loop come: both vectors, the second one element, the first one element. Of a
 * three-operand loop: all vectors, the third one element, the second one element. One operand: always a
 * vector. */
enum { PP_VV, PP_VS, PP_SV, PP_SHAPES };

typedef void (*pp_block_fn)(size_t n, void *out, const void *a, const void *b, const void *c);
/* A scalar function over blocks: out[r] result arrays, in[p] parameter arrays (all vectors). position: see
 * folds. */
typedef void (*pp_function_loop)(size_t n, void *const *out, const void *const *in);

/* All of n elements (at least one) in a single result, in any order. */
typedef void (*pp_reduce_fn)(size_t n, void *out, const void *in);

/* Loops of one fold (keyed by the hashes of lift, step, join), states as arrays of structs-of-lanes:
 * lanes: up to PP_LANE_BLOCK elements of one block (in[i]: inputs, first element has position k0) reduced to
 * the block's joined state, written to state[s][0] (one element each; finish not applied). rows:  r rows of n
 * columns: in[i] + row * in_stride[i] bytes; state[s] arrays of n; `first`: the first row is lifted, else all
 * rows are stepped; row r has position k0 + r. join:  n pairs: a[s] = join(a[s], b[s]) elementwise. scan: one
 * block of up to PP_LANE_BLOCK elements by the scan law: out[s][i] = P (carry not joined). */
typedef struct pp_fold_loops {
    uint64_t lift, step, join; /* pp_fold_lift_key; function hashes, 0 where absent */
    void (*lanes)(size_t n, void *const *state, const void *const *in, int64_t k0);
    void (*rows)(size_t rows, size_t n, void *const *state, const void *const *in, const size_t *in_stride,
                 bool first, int64_t k0);
    void (*join_loop)(size_t n, void *const *a, const void *const *b);
    void (*scan)(size_t n, void *const *out, const void *const *in, int64_t k0);
    /* Folds that pick the first of a total order; else NULL. best: any number of elements; unless `first`,
     * they come after those the state stands for. turned: n columns of the same position in[i] + k * rows
     * elements, k < n, n up to PP_TURNED_COLUMNS; state[s]: arrays of `rows`. */
    void (*best)(size_t n, void *const *state, const void *const *in, int64_t k0, bool first);
    void (*turned)(size_t n, size_t rows, void *const *state, const void *const *in, int64_t k0);
} pp_fold_loops;
#define PP_TURNED_COLUMNS 128u

typedef struct pp_function_entry {
    uint64_t hash;
    pp_function_loop loop;
} pp_function_entry;

/* A register tile of the contraction: C[rows][cols] += A * B over k steps, one fma chain per element. Rows
 * and columns at most mr and nr; columns of B are neighbours. Integers: A is packed [k][mr] and B [k][nr],
 * padded. */
typedef struct pp_tile_job {
    size_t k, rows, cols;
    const void *a, *b;
    int64_t a_row, a_step; /* bytes from one row of A to the next, from one k to the next */
    int64_t b_step;
    void *c;
    size_t ldc;       /* elements */
    bool first, last; /* chains start at +0 and do not read C; +0 is added at the end (floats) */
    bool joins;       /* with first: what C holds is added to the chains, before that (floats) */
} pp_tile_job;

typedef struct pp_contract_tile {
    unsigned mr, nr;
    void (*run)(const pp_tile_job *job);
    /* One row of C, n elements, the same chains: C[j] += a of k * B[k][j] for k in order. Steps in bytes from
     * one k to the next. NULL for integers. */
    void (*thin)(size_t kc, size_t n, const void *a, size_t a_step, const void *b, int64_t b_step, void *c);
} pp_contract_tile;

typedef struct pp_block_set {
    const char *name; /* "baseline", "avx2", "avx512" */
    /* By the operands' dtype (select: of its second and third). NULL where the row does not accept the dtype.
     */
    pp_block_fn scalar[PP_SCALAR_COUNT][PP_DTYPE_COUNT][PP_SHAPES];
    pp_block_fn cast[PP_DTYPE_COUNT][PP_DTYPE_COUNT];    /* from, to */
    pp_block_fn bitcast[PP_DTYPE_COUNT][PP_DTYPE_COUNT]; /* NULL where widths differ */
    pp_block_fn canonical[PP_DTYPE_COUNT];               /* floats: copy with canonical NaN; others: copy */
    /* Folds of a row whose result does not depend on the order, by the row and the dtype of the elements;
     * NULL where it does. The result has that dtype; of ADD it is one of 64 bits (i64, u64: they wrap alike).
     */
    pp_reduce_fn reduce[PP_SCALAR_COUNT][PP_DTYPE_COUNT];
    bool (*has_nan[PP_DTYPE_COUNT])(size_t n, const void *in);         /* floats; others: NULL */
    void (*fill)(size_t n, void *out, const void *value, size_t size); /* one element repeated */
    /* out[i] = table[idx[i] & (length - 1)], idx u32; elements of 4 or 8 bytes. Register permutes where they
     * fit. */
    void (*table)(size_t n, void *out, const void *table, uint32_t length, const uint32_t *idx, size_t size);
    /* Strided element copies: out[i] = *(in + i * stride) (bytes), and the reverse. size 1, 2, 4, 8. */
    void (*load_strided)(size_t n, void *out, const void *in, int64_t stride, size_t size);
    void (*store_strided)(size_t n, void *out, int64_t stride, const void *in, size_t size);
    /* Rows `pitch` bytes apart: out row r, column c = *(in + r * size + c * col_stride): a transposing copy.
     */
    void (*load_transposed)(size_t rows, size_t n, void *out, size_t pitch, const void *in,
                            int64_t col_stride, size_t size);
    /* memcpy with non-temporal stores; any alignment; the caller fences once at the end (fence). */
    void (*stream)(void *out, const void *in, size_t bytes);
    void (*fence)(void);
    /* n elements of a bool mask: any set? */
    bool (*any)(size_t n, const uint8_t *mask);
    pp_contract_tile contract[PP_DTYPE_COUNT]; /* bool: run NULL */
    const pp_function_entry *functions;        /* generated, sorted by hash */
    size_t n_functions;
    const pp_fold_loops *folds; /* generated, any order */
    size_t n_folds;
} pp_block_set;

/* What stands for lift in the key of a fold's loops: with a position, lift has one input less for the same
 * parameters. */
static inline uint64_t pp_fold_lift_key(const pp_fold *fold)
{
    if (fold->lift == NULL) return 0;
    return fold->position ? ~fold->lift->hash : fold->lift->hash;
}

/* The set by name (NULL: the best this CPU has); NULL when the name is unknown or the CPU lacks it. */
const pp_block_set *pp_blocks_find(const char *name);
pp_function_loop pp_blocks_function(const pp_block_set *set, uint64_t hash);
const pp_fold_loops *pp_blocks_fold(const pp_block_set *set, const pp_fold *fold);

#endif
