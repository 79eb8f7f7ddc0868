/* SPDX-License-Identifier: Apache-2.0
 * What an instruction refers to: shared by the verifier, the printers, the renderers and the generator of
 * loops. */
#ifndef PP_WALK_H
#define PP_WALK_H

#include "kernel/program.h"

#define PP_MAX_OPERANDS 14u /* COLD: mask, hot value and 12 parameters */

/* The pools an instruction's numbers point into: of a program or of a function. */
typedef struct pp_pools {
    const pp_instr *code;
    const uint32_t *operands;
    const uint64_t *consts;
    const pp_table *tables;
    const pp_function *const *callees;
    uint32_t n_code, n_operands, n_consts, n_tables, n_callees;
} pp_pools;
pp_pools pp_program_pools(const pp_program *program);
pp_pools pp_function_pools(const pp_function *function);

/* h with the whole code in it, and constants, tables and callees by content. */
uint64_t pp_pools_hash(uint64_t h, const pp_pools *pools);

/* One line of an instruction that a function may have. */
void pp_instr_print(const pp_pools *pools, uint32_t at, pp_text *out);

/* The operands that are instructions of `code`, in order: those of scalar rows, TABLE, STORE, KEEP, CHECK,
 * CALL, COLD. Values inside affines are not among them. Returns how many. Ranges must be valid (a verified
 * program or function). */
unsigned pp_instr_operands(const pp_pools *pools, const pp_instr *instr, uint32_t out[PP_MAX_OPERANDS]);

/* Number of operands held in a, b, c directly: scalar rows by arity, TABLE, STORE, KEEP 1, CHECK, COLD 2,
 * others 0. */
unsigned pp_instr_direct(pp_op op);

/* Whether it has no result. */
bool pp_instr_is_effect(pp_op op);

/* Calls visit with every affine the instruction uses: INDEX, the indices and guards of LOAD and STORE,
 * INSIDE, and the position of CHECK. */
typedef void (*pp_affine_visit)(void *context, uint32_t affine);
void pp_instr_affines(const pp_program *program, const pp_instr *instr, pp_affine_visit visit, void *context);

/* Adds to `needed` (n_code entries) all that marked instructions of [first, first + count) depend on, by
 * operands and by values of affines. Dependencies come earlier: one pass from the end. */
void pp_program_need(const pp_program *program, uint32_t first, uint32_t count, bool *needed);

/* Name of an operation: the scalar row's, or that of a row of kernel programs only ("load", "state", …). */
const char *pp_op_name(pp_op op);

#endif
