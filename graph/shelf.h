/* SPDX-License-Identifier: Apache-2.0
 * Shipped definitions that nobody asked for yet: an index of their names into the texts, written when the
 * library is built. A library made with a shelf parses a definition when it is first looked up, so a process
 * pays for the operators it calls and not for those it could call. What else the library would have to read
 * the texts for (aliases, traits) stands in the index. */
#ifndef PP_SHELF_H
#define PP_SHELF_H

#include "ops/definition.h"

enum { PP_SHELF_TEXTS = 2 };

typedef struct pp_shelf_row {
    const char *name;
    uint16_t target; /* the row of the definition: its own, an alias has another */
    uint8_t text;    /* which one the definition stands in */
    bool elementwise, literal;
    uint32_t at, length; /* of the definition with its documentation */
    uint32_t lines_above;
} pp_shelf_row;

typedef struct pp_shelf {
    const pp_shelf_row *row; /* sorted by name */
    size_t n;
    const char *text[PP_SHELF_TEXTS], *file[PP_SHELF_TEXTS];
    /* A unit of one definition; freed by destroy. */
    ppto_status (*parse)(const char *text, size_t length, const char *file, uint32_t lines_above,
                         pp_unit **out, pp_error *err);
    void (*destroy)(pp_unit *unit);
} pp_shelf;

/* The row of that name; NULL when there is none. */
const pp_shelf_row *pp_shelf_find(const pp_shelf *shelf, const char *name);
/* The row of its definition: itself, but for aliases. */
static inline const pp_shelf_row *pp_shelf_target(const pp_shelf *shelf, const pp_shelf_row *row)
{
    return &shelf->row[row->target];
}

#endif
