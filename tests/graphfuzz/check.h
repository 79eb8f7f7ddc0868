/* SPDX-License-Identifier: Apache-2.0
 * Runs a random program on the reference device and on configurations of the CPU device and compares bytes.
 * A configuration is an executor, threads, an instruction set, the optimiser on or off and a chunk grain; the
 * inputs are wrapped with their strides, some donated, and now and then an output lies in the memory of an
 * input. The compiled program runs twice, with other data and other numbers, so that what it remembers shows.
 */
#ifndef GRAPHFUZZ_CHECK_H
#define GRAPHFUZZ_CHECK_H

#include "ppto/array.h"
#include "ppto/context.h"
#include "random_program.h"

enum { FZ_CONFIGS = 29, FZ_VARIANTS = 2 };

typedef struct fz_config {
    const char *executor;
    int threads;
    const char *simd; /* NULL: the best */
    bool no_optimise;
    uint32_t grain;
    uint64_t sim_seed;
    uint32_t chunk; /* rows of a piece, 0: whole */
} fz_config;

extern const fz_config fz_configs[FZ_CONFIGS];

typedef enum fz_verdict { FZ_PASS, FZ_INVALID, FZ_FAIL } fz_verdict;

typedef struct fz_failure {
    int config;     /* row of fz_configs */
    char text[640]; /* what differs, one line */
} fz_failure;

typedef struct fz_checker {
    int fault;                /* the pp_fault_kind that is on during its checks; builds with PP_FAULTS only */
    struct fz_checker *clean; /* without the fault: what fails there, too, is not the fault */
    ppto_context *reference, *context[FZ_CONFIGS];
    bool absent[FZ_CONFIGS]; /* this machine or build cannot */
    bool apart;              /* crashes: fz_reduce checks in processes */
    int age;                 /* programs checked with these contexts */
    char invalid[640];       /* why the last program was FZ_INVALID */
} fz_checker;

/* A context of one configuration; NULL: of the reference. NULL when there is none here (ppto_error_text says
 * why). */
ppto_context *fz_open_context(const fz_config *config);
/* Runs the program on the configurations of the mask (bit per row). FZ_FAIL: *failure says where. FZ_INVALID:
 * it is an error on the reference, and the same one everywhere else. */
fz_verdict fz_check(fz_checker *checker, const fz_program *program, uint64_t mask, fz_failure *failure);
/* Runs the program on the first configuration and writes <seed>.<name>.npy of every input and output
 * statement. False: the library's error is on stderr. */
bool fz_dump(fz_checker *checker, const fz_program *program, const char *folder);
/* Dtype, elements and bytes, those of NaN included. */
bool fz_same_bytes(const ppto_array *a, const ppto_array *b);
/* The same in a process of its own with fresh contexts: a crash is a failure, too. The caller has no contexts
 * open. */
fz_verdict fz_check_apart(const fz_program *program, uint64_t mask, fz_failure *failure);
void fz_checker_close(fz_checker *checker);
/* One line: "executor=sim threads=3 …". */
void fz_config_text(int config, char *room, size_t size);

#endif
