/* SPDX-License-Identifier: Apache-2.0
 * From a seed to a program and its data. Everything is a pure function of the seed. */
#ifndef GRAPHFUZZ_GENERATE_H
#define GRAPHFUZZ_GENERATE_H

#include <stddef.h>

#include "ppto/array.h"
#include "random_program.h"

typedef struct fz_random {
    uint64_t state;
} fz_random;
uint64_t fz_next(fz_random *r);
/* From 0 to n - 1. */
int fz_below(fz_random *r, int n);

/* 1 to 200 statements, every tensor at most FZ_ELEMENTS, the whole at most FZ_WORK. */
void fz_generate(uint64_t seed, fz_program *out);

/* How the memory of an input lies: fz_node.strides. */
enum { FZ_PLAIN, FZ_REVERSED, FZ_REPEATED, FZ_SCATTERED, FZ_STRIDES };
/* What it holds: fz_node.fill. */
enum { FZ_ONES, FZ_SMALL, FZ_UNIFORM, FZ_WIDE_RANGE, FZ_SPECIAL, FZ_FILLS };

/* The elements of an input in row-major order, for one of several variants of the data; malloc, free(). */
void *fz_data(const fz_node *input, int variant);
/* The value of a number in a variant. */
double fz_number(const fz_node *number, int variant);
/* The array of an input or a number; wrapped with its strides, or row-major when plain. NULL: the library's
 * error. */
ppto_array *fz_array(ppto_context *ctx, const fz_node *node, int variant, bool plain);

#endif
