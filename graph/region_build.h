/* SPDX-License-Identifier: Apache-2.0
 * Building one part of a region: new prims with known sizes. region_part.c has the plain ones and copies of
 * what is whole, region_piece.c the rows of a piece, region_cross.c what crosses pieces, scans in
 * region_scan.c. */
#ifndef PP_REGION_BUILD_H
#define PP_REGION_BUILD_H

#include "graph/region.h"

typedef struct pp_scan_parts { /* of a crossing scan: its components, whole along the piece */
    uint32_t prim, part[4];
} pp_scan_parts;

typedef struct pp_build {
    pp_region *region;
    pp_part *part;
    const pp_spans *spans; /* of a piece; NULL: cut prims do not appear */
    const pp_rows *now;    /* per span */
    int64_t start;         /* row of the piece */
    bool first;            /* there is no carry */
    int64_t rows;          /* of the span that is built */
    uint32_t now_pass;     /* whole values of less depth (in a piece: of this depth too) may be read */
    int64_t units;         /* rows of STATES that are read; 0 and 1: joined to one */
    uint32_t *made;        /* per prim, of what is whole */
    uint32_t *made_span;   /* per span */
    uint32_t start_prim;   /* of PP_AT_START; PP_NONE */
    PP_VEC(pp_scan_parts) scans;
    pp_error *err;
} pp_build;

typedef struct pp_shape {
    uint32_t rank;
    int64_t dim[PPTO_MAX_RANK];
} pp_shape;

/* ---- region_part.c --------------------------------------------------------------------------------------
 */

ppto_status pp_build_open(pp_build *b, pp_region *region, pp_part *part, pp_error *err);
void pp_build_close(pp_build *b);

/* Dims of a prim of the region's flat graph in this part; what is cut has b->rows rows. */
pp_shape pp_build_dims(const pp_build *b, uint32_t prim);
pp_shape pp_build_shape(const pp_build *b, uint32_t id); /* of a prim of the part */
pp_size pp_build_size(pp_build *b, int64_t value);
/* Adds *p with this type; its operands are prims of the part. */
ppto_status pp_build_add(pp_build *b, pp_prim *p, uint8_t dtype, bool weak, const pp_shape *shape,
                         const uint32_t *x, uint32_t n, uint32_t *id);
ppto_status pp_build_reshape(pp_build *b, uint32_t x, const pp_shape *shape, uint32_t *id);
ppto_status pp_build_slice(pp_build *b, uint32_t x, uint32_t axis, int64_t start, int64_t length,
                           uint32_t *id);
ppto_status pp_build_concat(pp_build *b, uint32_t axis, const uint32_t *x, uint32_t n, uint32_t *id);
ppto_status pp_build_broadcast(pp_build *b, uint32_t x, const pp_shape *shape, uint32_t *id);
ppto_status pp_build_fold(pp_build *b, uint8_t kind, const pp_monoid *m, uint32_t axis, bool rows,
                          const uint32_t *x, uint32_t *parts);
ppto_status pp_build_read(pp_build *b, uint32_t place, uint32_t *id);
ppto_status pp_build_write(pp_build *b, uint32_t place, uint32_t id);
ppto_status pp_build_start(pp_build *b, uint32_t *id); /* i64, rank 0 */
/* Reads rows of an input, or all of it (PP_NONE). */
ppto_status pp_build_input(pp_build *b, uint32_t prim, uint32_t span, uint32_t *id);
ppto_status pp_build_iota(pp_build *b, uint32_t prim, uint32_t *id); /* from 0 on */
/* The prim again, on these operands. */
ppto_status pp_build_plain(pp_build *b, uint32_t prim, const uint32_t *x, uint32_t *id);
ppto_status pp_build_whole(pp_build *b, uint32_t prim); /* b->made */
/* Marks what whole prims need; whole prims are computed from whole ones. */
void pp_build_needs(const pp_build *b, uint8_t *need);
/* Copies all the roots need; a root is a prim of the region's flat graph, and whole. */
ppto_status pp_build_copy(pp_build *b, const uint8_t *root);
/* The same for a piece: its spans have rows. */
ppto_status pp_build_copy_piece(pp_build *b);
/* These rows of a span. */
ppto_status pp_build_take(pp_build *b, uint32_t span, pp_rows rows, uint32_t *id);

/* ---- region_cross.c -------------------------------------------------------------------------------------
 */

/* Forms of a monoid that a reduction in two steps needs; kept by the region. */
ppto_status pp_region_states(pp_region *region, const pp_monoid *m,
                             const pp_monoid **out); /* placed, no finish */
ppto_status pp_region_joined(pp_region *region, const pp_monoid *m, bool finish, const pp_monoid **out);
bool pp_region_one_unit(const pp_region *region, uint32_t reduce); /* a piece gives one state */
/* Limits of the rows of a piece for one crossing prim; E_UNSUPPORTED when there is none. */
ppto_status pp_region_limits(const pp_region *region, uint32_t prim, int64_t *least, int64_t *most,
                             pp_error *err);
/* Places of a crossing prim are made by region.c; these write (and read) them. x: the operands, b->rows long.
 */
ppto_status pp_build_cross_reduce(pp_build *b, uint32_t prim, const uint32_t *x);
ppto_status pp_build_cross_contract(pp_build *b, uint32_t prim, const uint32_t *x);
ppto_status pp_build_joined(pp_build *b, uint32_t prim, uint32_t *id); /* REDUCE of its states: the result */

/* ---- region_scan.c --------------------------------------------------------------------------------------
 */

ppto_status pp_build_cross_scan(pp_build *b, uint32_t prim, const uint32_t *x); /* as the others */

#endif
