/* SPDX-License-Identifier: Apache-2.0
 * Shared by the parts of the renderer of programs: render.c (frames and stages), render_place.c (instructions
 * of programs), render_fold.c (folds, scans, the contraction). */
#ifndef PP_DRAW_H
#define PP_DRAW_H

#include "kernel/render.h"

typedef struct pp_draw {
    const pp_program *program;
    pp_pools pools;
    pp_render *render; /* its `out` is the text of functions and fold helpers, before the main function */
    pp_text *out;      /* the main function */
    unsigned indent;   /* of `out`, in spaces */
} pp_draw;

/* One indented line of the main function, with its line end. */
void pp_draw_line(pp_draw *draw, const char *format, ...) PP_PRINTF(2, 3);
/* Line that opens a block (" {" is added) and its end. */
void pp_draw_open(pp_draw *draw, const char *format, ...) PP_PRINTF(2, 3);
void pp_draw_close(pp_draw *draw);
const char *pp_draw_type(uint8_t dtype);
void pp_draw_use(pp_draw *draw, pp_op op, uint8_t dtype); /* the prologue needs this row */

/* ---- render_place.c ------------------------------------------------------------------------------------ */

void pp_draw_slot(pp_slot slot, pp_text *out);
/* Statements for the instructions of [first, first + count); only those needed unless needed is NULL. */
void pp_draw_code(pp_draw *draw, uint32_t first, uint32_t count, const bool *needed);

/* ---- render_fold.c ------------------------------------------------------------------------------------- */

/* Types and helper functions foldN_… of one fold, to the render's text. */
void pp_draw_fold_helpers(pp_draw *draw, uint32_t fold);
/* Loop over the flattened inner axes that runs the stage with its folds; declares nothing that outlives it
 * but sets the variables foldN (declared by the caller as foldN_state) to the finished states. */
void pp_draw_inner_stage(pp_draw *draw, const pp_stage *stage);
/* Defines `product` at the current (batch, m, n). */
void pp_draw_contract(pp_draw *draw);

/* ---- render_chain.c ------------------------------------------------------------------------------------ */

/* A copy of a part whose folds are numbered from first_fold on, so that the texts of several parts have no
 * name in common; the numbers before are folds without states. It shares what it does not change. */
ppto_status pp_chain_part_alone(const pp_program *part, uint32_t first_fold, pp_arena *arena,
                                pp_program *out);
/* The head of a kernel's function, whose body is open then. */
void pp_draw_head(pp_draw *draw, const char *name);
/* The function of a chain, behind those of its parts, NAME_part0 and so on. */
void pp_draw_chain(pp_draw *draw, const char *name);

#endif
