/* SPDX-License-Identifier: Apache-2.0
 * The reference device: runs a kernel program element by element, in the simplest way that follows the laws
 * of meaning. It is what the fast executors are compared with, so it must be right by reading and stays dumb
 * for ever: one task, no vectors, no sharing of work between points. At every outer point the stages run in
 * order; a stage over the inner axes keeps the inputs of its folds in plain arrays first, folds them, then
 * runs its code at every inner point for what it stores. Every value is a word with its bits in the low bytes
 * (pp_scalar_eval). Read reference.c (points and stages), reference_code.c (instructions), reference_laws.c
 * (folds, scans, products). */
#ifndef PP_REFERENCE_H
#define PP_REFERENCE_H

#include "devices/part_launches.h"
#include "kernel/walk.h"

enum { PP_REF_AXES = 32, PP_REF_STATES = 4, PP_REF_PARAMS = 12 };

struct pp_device {
    bool open;
};

struct pp_kernel {
    const pp_program *program;
    bool *needed;          /* [n_folds][n_code]: what the inputs of a fold depend on in their stage */
    uint32_t *order;       /* folds of each stage by their last input: a scan comes before what reads it */
    size_t function_words; /* of the deepest chain of calls */
    pp_kernel *part[PP_MOST_PARTS]; /* of a chain */
};

typedef struct pp_ref_tensor {
    char *data;
    int64_t shape[PPTO_MAX_RANK], stride[PPTO_MAX_RANK]; /* stride in bytes */
} pp_ref_tensor;

/* Offsets into the scratch area, in words. inner: number of inner points. */
typedef struct pp_ref_layout {
    size_t value;   /* [n_code] */
    size_t stack;   /* values of called functions */
    size_t input;   /* [4][inner]: inputs of the fold at hand */
    size_t buffer;  /* [n_buffers][inner] */
    size_t scanned; /* [n_folds][4][inner], scans only: others have 0 words */
    size_t result;  /* [n_folds][4] */
    size_t lane;    /* [PP_LANES][4] */
    size_t block;   /* [blocks][4] */
    size_t words;
} pp_ref_layout;

struct pp_launch {
    const pp_kernel *kernel;
    pp_chain_launch *chain; /* NULL: a plain program, which all that follows is about */
    int64_t *slots;
    uint64_t *args;
    pp_ref_tensor *tensors;
    size_t *scan_at; /* per fold: its words in `scanned` */
    int64_t outer, inner;
    pp_ref_layout at;
};

/* One run: pointers into the scratch area, the current point, and what went wrong so far. */
typedef struct pp_ref_run {
    const pp_launch *launch;
    const pp_program *program;
    int64_t coord[PP_REF_AXES];
    int64_t k; /* position of the current inner point */
    uint64_t *value, *stack, *input, *buffer, *scanned, *result, *lane, *block;
    const pp_check *failed; /* the failed check of the lowest position; NULL: none */
    int64_t failed_at;
    uint64_t failed_value;
    ppto_dtype failed_dtype;
    bool out_of_bounds; /* an index inside its guards but outside the tensor; nothing was touched */
} pp_ref_run;

/* ---- reference_code.c ------------------------------------------------------------------------ */

/* Runs code [first, first + count) at the current point into run->value. only: which instructions (per
 * instruction of the program), NULL for all; effects (STORE, KEEP, CHECK) happen with NULL alone. */
void pp_ref_code(pp_ref_run *run, uint32_t first, uint32_t count, const bool *only);
/* Calls a function: params and results may be the same array. stack: pp_ref_function_words words. */
void pp_ref_call(const pp_function *function, const uint64_t *params, uint64_t *results, uint64_t *stack);
size_t pp_ref_function_words(const pp_function *function);
/* The text of the failed check. */
void pp_ref_check_text(const pp_ref_run *run, char *out, size_t size);

/* ---- reference_laws.c ------------------------------------------------------------------------ */

/* Folds run->input over the inner points by the law of the frame into run->result. */
void pp_ref_fold(pp_ref_run *run, uint32_t fold);
/* The contraction at the current batch, m, n. Needs the coordinates of the outer axes only. */
uint64_t pp_ref_product(pp_ref_run *run);

/* ---- reference.c ----------------------------------------------------------------------------- */

/* Sets the coordinates of the axes of those roles (bit i: role i) from a flat index, the last axis fastest.
 */
void pp_ref_point(pp_ref_run *run, uint32_t roles, int64_t index);

#define PP_REF_INNER (1u << PP_AXIS_INNER | 1u << PP_AXIS_K)

#endif
