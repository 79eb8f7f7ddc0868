/* SPDX-License-Identifier: Apache-2.0
 * Index maps: where, in terms of the axes of a kernel's frame, an element of a value is needed. A map has one
 * affine expression per dimension and, below pads and concatenations, guards that must hold. Views transform
 * maps; that is the whole of "views are free". Everything is allocated in the arena of the fusion or lowering
 * at hand.
 *
 * A frame axis may be split when a reshape needs it: its children take its place, and older maps that name
 * the parent are rewritten by pp_index_normal. */
#ifndef PP_INDEX_H
#define PP_INDEX_H

#include "graph/flat.h"

#define PP_FRAME_MAX_AXES 32u
#define PP_MOST_GUARDS 64u /* of one access */

typedef struct pp_axes {
    uint32_t n;
    pp_size size[PP_FRAME_MAX_AXES];
    uint8_t first_child[PP_FRAME_MAX_AXES]; /* 0: a leaf (axis 0 is never a child) */
    uint8_t n_children[PP_FRAME_MAX_AXES];
    uint8_t order[PP_FRAME_MAX_AXES]; /* leaves, outermost first */
    uint32_t n_order;
} pp_axes;

typedef struct pp_iterm {
    uint8_t axis;
    pp_size coef;
} pp_iterm;

typedef struct pp_iexpr {
    pp_size base;
    uint32_t n;
    pp_iterm *term; /* by axis, no zero coefficients */
} pp_iexpr;

typedef struct pp_iguard { /* lo <= e < hi */
    pp_iexpr e;
    pp_size lo, hi;
} pp_iguard;

typedef struct pp_imap {
    uint32_t rank, n_guards;
    pp_iexpr *dim;
    pp_iguard *guard;
} pp_imap;

typedef struct pp_index {
    pp_arena *arena;
    pp_types *types;
    pp_axes *axes;
    bool may_split;
} pp_index;

/* Adds a leaf axis at the end; PP_NONE when the frame is full. */
uint32_t pp_axes_add(pp_axes *axes, pp_size size);

/* The map of a value whose dims are exactly these axes. NULL: out of memory (as everywhere here). */
pp_imap *pp_index_plain(pp_index *ix, const uint8_t *axes, uint32_t rank);
pp_imap *pp_index_normal(pp_index *ix, const pp_imap *map);
bool pp_index_equal(const pp_imap *a, const pp_imap *b);
/* Dim d is exactly axis *axis (coefficient 1, base 0, of the same size as `size`). */
bool pp_index_is_axis(pp_index *ix, const pp_iexpr *e, pp_size size, uint8_t *axis);

typedef enum pp_through { PP_THROUGH_OK, PP_THROUGH_RESHAPE, PP_THROUGH_NOMEM } pp_through;
/* The map of operand `which` of a view, pad, concat or map-like prim read at `map`. RESHAPE: sizes do not
 * match dim by dim, or an axis would have to be split and may not. */
pp_through pp_index_through(pp_index *ix, const pp_flat *flat, uint32_t prim, const pp_imap *map,
                            uint32_t which, pp_imap **out);
/* Row-major linear index of an element. */
bool pp_index_linear(pp_index *ix, const pp_type *type, const pp_imap *map, pp_iexpr *out);

#endif
