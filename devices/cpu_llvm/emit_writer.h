/* SPDX-License-Identifier: Apache-2.0
 * A loop while it is written: shared by the files that write the code of a vector, of a row, and of columns.
 */
#ifndef PP_EMIT_WRITER_H
#define PP_EMIT_WRITER_H

#include "devices/cpu_llvm/emit.h"

typedef struct pp_emit_place { /* a stream */
    LLVMValueRef at, pitch;
    LLVMValueRef row; /* its place in this row */
} pp_emit_place;

typedef struct pp_emit_writer {
    pp_emit *e;
    const pp_loop *loop;
    pp_pools pools;
    pp_emit_place *in, *out;
    pp_emit_value *row;   /* per instruction: the value where it does not vary, */
    pp_emit_value *value; /* and of the vector being written */
    pp_emit_value *param; /* per input */
    bool *varies;         /* per instruction: within a row */
    bool *read;           /* per input */
    bool around;          /* some output goes around the caches */
    unsigned unroll;
    pp_emit_fold *folds;
    bool registers;               /* lanes of folds stay in registers while whole vectors are taken: */
    bool lifts;                   /* they begin with the vectors that are written now */
    pp_emit_value (*state)[4];    /* [fold][vector], */
    pp_emit_value (*turned)[4];   /* and what they are at the head of the loop */
    pp_emit_scan *scans;          /* per fold, where they are scans */
    unsigned together;            /* vectors that masks take at once: those of a group of a scan, or one */
    bool columns;                 /* folds are by columns: */
    struct pp_emit_writer *lines; /* of the rows that are taken at once, each its own streams and values; */
    unsigned down;                /* so many. Else it is this one alone. */
    LLVMValueRef r;               /* the row of a line */
    LLVMValueRef *begins; /* per fold: whether the row begins a block (a bool vector); NULL: none does */
    LLVMValueRef rows, cols;
    LLVMValueRef fast_end; /* whole vectors end here, at the latest */
} pp_emit_writer;

static inline LLVMValueRef pp_emit_count(const pp_emit *e, uint64_t n)
{
    return LLVMConstInt(pp_emit_int(e, 64), n, false);
}

static inline LLVMValueRef pp_emit_at_most(const pp_emit *e, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildSelect(e->build, LLVMBuildICmp(e->build, LLVMIntULT, a, b, ""), a, b, "");
}

/* ---- emit_vector.c ---------------------------------------------------------------------------------------
 */

/* How many vectors are taken together, and whether states stay in registers. */
void pp_emit_choose_unroll(pp_emit_writer *w, const pp_emit_weight *sum);
/* What differs within a row, and which streams are read. */
void pp_emit_find_varying(pp_emit_writer *w);
/* The elements from c on: a vector, the `vector`-th of those taken together, or as many as `part` says, the
 * lanes of e->active. Everything is read before anything is written. */
void pp_emit_write_vector(pp_emit_writer *w, LLVMValueRef c, LLVMValueRef part, unsigned vector);
/* At the start of a row: what scans go on from. */
void pp_emit_start_scans(pp_emit_writer *w);
/* States of scans between registers and stack. */
void pp_emit_move_states(pp_emit_writer *w, bool load);
/* Lanes of folds in registers to the stack. */
void pp_emit_spill_lanes(pp_emit_writer *w);
/* The registers come to the head of the loop `from` a block, the first one of which makes their names. */
void pp_emit_turn_states(pp_emit_writer *w, LLVMBasicBlockRef from, bool first);
/* At the end of a row: its states go to their outputs. registers: all lanes are there, none on the stack. */
void pp_emit_end_folds(pp_emit_writer *w, bool registers);

/* ---- emit_loop.c -----------------------------------------------------------------------------------------
 */

/* Row r, or `down` rows from r on, where the builder stands; leaves it where they end. */
void pp_emit_write_row(pp_emit_writer *w, LLVMValueRef r);

/* What is the same in row r, or in `down` rows from r on. */
void pp_emit_start_rows(pp_emit_writer *w, LLVMValueRef r);

/* ---- emit_lanes.c ----------------------------------------------------------------------------------------
 */

/* Row r of a loop with lanes in registers, states and all. */
void pp_emit_write_lanes(pp_emit_writer *w, LLVMValueRef r);

/* ---- emit_column.c ---------------------------------------------------------------------------------------
 */

/* All rows of a loop that folds by columns, where the builder stands; leaves it behind them. */
void pp_emit_write_columns(pp_emit_writer *w, pp_arena *arena);
/* The states of the columns from c on to registers and back; of a loop without such folds: nothing. */
void pp_emit_load_columns(pp_emit_writer *w, LLVMValueRef c, LLVMValueRef part);
void pp_emit_store_columns(const pp_emit_writer *w, LLVMValueRef c, LLVMValueRef part);
/* An element of each column into the states in registers. in: of fold `fold`, its inputs and positions. */
void pp_emit_step_columns(pp_emit_writer *w, uint32_t fold, const pp_emit_value *in);

#endif
