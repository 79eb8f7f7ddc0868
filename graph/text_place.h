/* SPDX-License-Identifier: Apache-2.0
 * Lines and columns of many offsets of one text. A table of every 256 bytes is filled as far as it was asked
 * for, so that a place costs the same whether the text is long or one line. */
#ifndef PP_TEXT_PLACE_H
#define PP_TEXT_PLACE_H

#include "ops/definition.h"

typedef struct pp_text_mark {
    uint32_t line, column; /* from 0, of the first byte of a block */
} pp_text_mark;

typedef struct pp_text_places {
    const pp_unit *unit;
    PP_VEC(pp_text_mark) marks; /* of block i + 1 */
} pp_text_places;               /* zero but for the unit is empty; pp_vec_free(&marks) */

/* Line and column of the byte at `at`, from 1, as pp_unit_fail has them. E_NOMEM */
ppto_status pp_text_place(pp_text_places *places, uint32_t at, uint32_t *line, uint32_t *column);

#endif
