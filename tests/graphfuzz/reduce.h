/* SPDX-License-Identifier: Apache-2.0
 * Shrinks a program that fails while it still fails. */
#ifndef GRAPHFUZZ_REDUCE_H
#define GRAPHFUZZ_REDUCE_H

#include "check.h"

/* *program fails on configuration failure->config; afterwards it is smaller, and *failure says how it fails.
 */
void fz_reduce(fz_checker *checker, fz_program *program, fz_failure *failure);

#endif
