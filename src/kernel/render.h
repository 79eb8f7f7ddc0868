/* SPDX-License-Identifier: Apache-2.0
 * C text of code, shared by the renderer of programs and by the generator of the CPU's function loops. Values
 * are called vN by their index; scalar rows are calls of pp_op_<row>_<dtype>, as in ops/scalar_inline.h. */
#ifndef PP_RENDER_H
#define PP_RENDER_H

#include "kernel/walk.h"

/* ---- render_prologue.c --------------------------------------------------------------------------------- */

/* The scalar rows a text uses: bit t of row[op][from] for results of dtype t. canonical: bit per float dtype.
 */
typedef struct pp_rows_used {
    uint16_t row[PP_SCALAR_COUNT][PP_DTYPE_COUNT];
    uint16_t canonical;
} pp_rows_used;

void pp_rows_add(pp_rows_used *used, const pp_pools *pools, const pp_instr *instr);
/* Definitions of the rows used and of what they need, as C99 that includes only <stdint.h>, <string.h> and
 * <math.h>. */
void pp_render_prologue(const pp_rows_used *used, pp_text *out);

/* ---- render_code.c ------------------------------------------------------------------------------------- */

/* What a text has so far: each function and each table is written once, by hash. Zero-initialised; free with
 * pp_render_free. A failure sets `status` and stops further output; check it and out->failed at the end. */
typedef struct pp_render {
    pp_text *out;
    pp_rows_used *rows; /* NULL: do not collect */
    PP_VEC(uint64_t) done;
    ppto_status status;
    uint32_t least_table; /* tables of 32-bit elements are repeated up to this length; 0: as they are */
} pp_render;

void pp_render_free(pp_render *render);
/* True the first time it is asked about the hash. */
bool pp_render_once(pp_render *render, uint64_t hash);
/* `static inline T NAME(T0 p0, …)`, several results through `T *r0, …`; callees and tables first. */
void pp_render_function(pp_render *render, const pp_function *function);
/* Definitions of the tables and callees that the code refers to. */
void pp_render_needs(pp_render *render, const pp_pools *pools);
/* One statement `const T vN = …;` of a row that functions may have, indented by `indent` spaces. */
void pp_render_statement(pp_render *render, const pp_pools *pools, uint32_t at, unsigned indent);
/* "fn_NAME_HASH", an identifier. */
void pp_render_function_name(const pp_function *function, pp_text *out);
uint64_t pp_render_table_hash(const pp_table *table); /* part of the table's name: table_HASH */
/* `static const T NAME[length] = {…};`, the entries repeated up to `length` (at least the table's). */
void pp_render_table(const pp_table *table, const char *name, uint32_t length, pp_text *out);

#endif
