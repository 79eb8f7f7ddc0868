/* SPDX-License-Identifier: Apache-2.0
 * What the parts of the generator share. A draw_ or fz_make_ function of an operator gets a node with its op
 * and first argument, fills in the rest and appends it; -1: it did not become legal. */
#ifndef GRAPHFUZZ_GENERATE_PARTS_H
#define GRAPHFUZZ_GENERATE_PARTS_H

#include "generate.h"

typedef struct fz_maker {
    fz_random r;
    fz_program *p;
    int64_t pool[5];
    int64_t work;
    int inputs;
    bool used[FZ_NODES];
} fz_maker;

bool fz_chance(fz_maker *m, int percent);
/* A size of the program's pool, or 1. */
int64_t fz_pool_size(fz_maker *m);
/* Appends a node that fz_infer accepts. Returns its index, -1 when it is refused. */
int fz_append(fz_maker *m, fz_node *n);
/* A new input of this type; -1 when there are enough. */
int fz_new_input(fz_maker *m, fz_type type);
const fz_type *fz_type_of(fz_maker *m, int node);
/* Fills arg[k] of n with a node that makes n legal; false after some tries. */
bool fz_find(fz_maker *m, fz_node *n, int k);
/* Some of `rank` axes, in random order; at least `least`. */
void fz_draw_axes(fz_maker *m, fz_node *n, int rank, int least);

int fz_make_movement(fz_maker *m, fz_node *n);
int fz_make_join(fz_maker *m, fz_node *n);
int fz_make_take(fz_maker *m, fz_node *n);
int fz_make_chain(fz_maker *m, fz_node *n);
int fz_make_folded(fz_maker *m, fz_node *n);

#endif
