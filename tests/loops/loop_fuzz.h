/* SPDX-License-Identifier: Apache-2.0
 * Random loops and their data, for the test of the generator of machine code. All of it follows from a seed.
 */
#ifndef LOOP_FUZZ_H
#define LOOP_FUZZ_H

#include "devices/cpu/loop.h"

enum { LF_MAX_STREAMS = 16, LF_MAX_CODE = 80, LF_MAX_TABLES = 2, LF_MAX_FOLDS = 2 };

typedef struct lf_random {
    uint64_t state;
} lf_random;
uint64_t lf_next(lf_random *random);
uint32_t lf_below(lf_random *random, uint32_t n); /* n at least 1 */
/* Bits of one element: often a special value or a small one. */
uint64_t lf_element(lf_random *random, ppto_dtype dtype);

/* A loop with the arrays it points to. Functions are borrowed. */
typedef struct lf_loop {
    pp_loop loop;
    unsigned widest; /* bits of its dtypes, where they are kept narrow: then vectors have more elements */
    pp_stream in[LF_MAX_STREAMS], out[LF_MAX_STREAMS];
    pp_instr code[LF_MAX_CODE];
    uint32_t operands[LF_MAX_CODE * 4];
    uint64_t consts[LF_MAX_CODE];
    pp_table tables[LF_MAX_TABLES];
    uint64_t table_bits[LF_MAX_TABLES][64];
    const pp_function *callees[LF_MAX_CODE];
    pp_loop_fold folds[LF_MAX_FOLDS];
    pp_fold own[LF_MAX_FOLDS]; /* by the law of this loop */
    uint8_t law;
    bool columns; /* folds are by columns */
} lf_loop;

/* What loops may call and fold by, borrowed. */
typedef struct lf_library {
    const pp_function *const *functions;
    size_t n_functions;
    const pp_fold *folds;
    size_t n_folds;
} lf_library;
void lf_make(lf_random *random, const lf_library *library, lf_loop *out);

/* Runs fn over data of the sizes and compares with the rows' reference, element by element. NULL, or what is
 * wrong (in `text`, 256 bytes). */
const char *lf_compare(lf_random *random, const pp_loop *loop, pp_loop_fn fn, char *text);

#endif
