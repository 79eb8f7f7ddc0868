/* SPDX-License-Identifier: Apache-2.0
 * A random program of the graph fuzzer: nodes in order of their definition, each an input, a bound number or
 * one statement of the operator language. Types are inferred here, independently of the library, so that a
 * generator can build programs that are legal and a reducer can change them and know whether they still are.
 *
 * Nothing is allocated: a program is one value that is copied by assignment. Node i is named x<i> (input),
 * n<i> (number) or v<i> (statement) in the text. Axes are stored from 0 to rank - 1. */
#ifndef GRAPHFUZZ_PROGRAM_H
#define GRAPHFUZZ_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "ppto/types.h"

enum {
    FZ_RANK = 6,
    FZ_NODES = 320,
    FZ_ARGS = 3,
    FZ_INTS = 4 * FZ_RANK,
    FZ_OUTPUTS = 40,
    FZ_ELEMENTS = 20000, /* of a tensor */
    FZ_WORK = 2000000    /* element operations of a program */
};

typedef struct fz_type {
    ppto_dtype dtype;
    int rank;
    int64_t size[FZ_RANK];
} fz_type;

typedef enum fz_op {
    FZ_INPUT,  /* ints unused; fill, strides, seed */
    FZ_NUMBER, /* weak; dtype I64 or F32; value */
    FZ_UNARY,  /* variant: a row of fz_unary */
    FZ_BINARY, /* variant: a row of fz_binary; arg[1] < 0: the literal `value`, flag: on the left */
    FZ_WHERE,
    FZ_CAST, /* to: the dtype */
    FZ_CLIP, /* ints: low, high */
    FZ_FMA,
    FZ_PERMUTE,   /* ints: the order */
    FZ_RESHAPE,   /* ints: the sizes */
    FZ_SLICE,     /* ints: per axis kind (0 all, 1 range, 2 index), start, length, step */
    FZ_FLIP,      /* ints: axes */
    FZ_EXPAND,    /* ints: axes of the result */
    FZ_SQUEEZE,   /* ints: axes */
    FZ_BROADCAST, /* ints: the sizes */
    FZ_CONCAT,    /* ints: axis */
    FZ_STACK,     /* ints: axis of the result */
    FZ_PAD,       /* variant: the mode; ints: before and after per axis; value */
    FZ_TAKE,      /* ints: axis; positions through remainder */
    FZ_REPEAT,    /* ints: count, axis */
    FZ_TILE,      /* ints: a count per axis */
    FZ_ROLL,      /* ints: shift, axis */
    FZ_DIFF,      /* ints: axis */
    FZ_TRIANGLE,  /* variant: tril, triu; ints: diagonal */
    FZ_REDUCE,    /* variant: a row of fz_reduction; ints: axes; n_ints < 0: all; flag: keepdims */
    FZ_NORM,      /* variant: a row of fz_norms; ints: axes */
    FZ_LAYER_NORM,
    FZ_SCAN, /* variant: sum, prod, max, min; ints: axis */
    FZ_MATMUL,
    FZ_VECDOT,    /* over the last axis */
    FZ_TENSORDOT, /* ints: how many axes */
    FZ_OUTER,
    FZ_OPS
} fz_op;

typedef struct fz_node {
    fz_op op;
    int variant;
    int n_args, arg[FZ_ARGS];
    int n_ints;
    int64_t ints[FZ_INTS];
    bool flag;
    double value;
    ppto_dtype to;
    uint64_t seed;
    int fill, strides;
    fz_type type;
} fz_node;

typedef struct fz_program {
    uint64_t seed;
    int n;
    fz_node node[FZ_NODES];
    int n_outputs, output[FZ_OUTPUTS];
} fz_program;

/* Which dtypes a row takes. */
enum { FZ_FLOAT = 1, FZ_INT = 2, FZ_BOOL = 4, FZ_NUM = 3, FZ_ANY = 7 };
/* What it gives. */
typedef enum fz_gives { FZ_SAME, FZ_TO_BOOL, FZ_TO_FLOAT, FZ_TO_I64, FZ_WIDE, FZ_MEAN } fz_gives;

typedef struct fz_row {
    const char *name; /* a sign or a name */
    int takes;
    fz_gives gives;
    bool any_bool;  /* binary: both operands may be bool */
    bool not_empty; /* reductions: an error over no element */
} fz_row;

extern const fz_row fz_unary[], fz_binary[], fz_reduction[], fz_norms[];
extern const int fz_unary_n, fz_binary_n, fz_reduction_n, fz_norms_n;

bool fz_is_float(ppto_dtype dtype);
bool fz_is_signed(ppto_dtype dtype);
int64_t fz_elements(const fz_type *type);
/* False where two dtypes do not promote (u64 with signed). */
bool fz_promote(ppto_dtype a, ppto_dtype b, ppto_dtype *out);
bool fz_broadcast(const fz_type *a, const fz_type *b, fz_type *out);
bool fz_same_type(const fz_type *a, const fz_type *b);

/* Sets node->type from the types of its arguments. False: it is not legal, or above the limits. */
bool fz_infer(const fz_program *program, fz_node *node);
/* All nodes in order. */
bool fz_infer_all(fz_program *program);
/* Element operations of a node, roughly. */
int64_t fz_work(const fz_program *program, const fz_node *node);
/* Removes nodes that no output needs. */
void fz_prune(fz_program *program);
int fz_statements(const fz_program *program);
bool fz_has_numbers(const fz_program *program);

/* The name of a node, into room for 16. */
const char *fz_name(const fz_program *program, int node, char room[16]);
/* The right side of a statement. */
void fz_print_node(FILE *out, const fz_program *program, const fz_node *node);
/* The whole text: inputs (unless bare), statements, outputs. */
void fz_print(FILE *out, const fz_program *program);
/* The same in memory; free(). */
char *fz_text(const fz_program *program);

#endif
