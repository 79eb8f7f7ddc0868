/* SPDX-License-Identifier: Apache-2.0
 * Shared by the two halves of the verifier: kernel_verify.c (code, functions), kernel_verify_program.c (the
 * rest). */
#ifndef PP_VERIFY_H
#define PP_VERIFY_H

#include "kernel/walk.h"

typedef struct pp_verify {
    const char *what; /* "program", or the function's name */
    pp_error *err;
    pp_pools pools;
    const pp_program *program; /* NULL for a function */
    uint32_t stage;            /* whose code is looked at; PP_VERIFY_FACTOR: a factor of the contraction */
} pp_verify;
#define PP_VERIFY_FACTOR PP_NONE

ppto_status pp_verify_fail(const pp_verify *v, const char *part, uint32_t at, const char *what);
ppto_status pp_verify_instr_fail(const pp_verify *v, uint32_t at, const char *what);
bool pp_verify_bits(ppto_dtype dtype, uint64_t bits); /* no bits beyond the dtype's width */
bool pp_verify_range(uint64_t first, uint64_t count, uint64_t n);
ppto_status pp_verify_tables(const pp_verify *v);
/* One instruction whose region starts at `first`. */
ppto_status pp_verify_instr(const pp_verify *v, uint32_t at, uint32_t first);
/* kernel_verify_chain.c: a program of frame CHAIN, its parts included. */
ppto_status pp_verify_chain(const pp_verify *v);
/* The part of pp_verify_instr for the rows that only programs have. */
ppto_status pp_verify_kernel_instr(const pp_verify *v, uint32_t at, uint32_t first);

#endif
