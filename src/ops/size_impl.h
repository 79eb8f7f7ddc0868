/* SPDX-License-Identifier: Apache-2.0
 * Inside of the table of sizes, shared by size.c (table, polynomials), size_rules.c (division, order),
 * size_extremum.c (max, min) and size_value.c (evaluation, text). Everything is interned in growing arrays
 * and named by index, so that no pointer into them outlives an insertion: a polynomial that is worked on is
 * copied into a pp_poly first. */
#ifndef PP_SIZE_IMPL_H
#define PP_SIZE_IMPL_H

#include "ops/size.h"

enum {
    PP_SIZE_MAX_TERMS = 512,  /* of one polynomial */
    PP_SIZE_MAX_DEGREE = 256, /* of one monomial */
    PP_SIZE_MAX_DEPTH = 24    /* atoms in atoms: bounds every recursion */
};

/* A range of values; the ends of int64_t stand for infinities, which is also where arithmetic saturates. */
typedef struct pp_size_range {
    int64_t lo, hi;
} pp_size_range;

typedef enum pp_atom_kind { PP_ATOM_NAME, PP_ATOM_MAX, PP_ATOM_FLOOR } pp_atom_kind;

typedef struct pp_atom {
    uint8_t kind, depth; /* depth: 0 for a name, else 1 + the deepest atom of a and b */
    pp_size a, b;        /* operands; of a name: a is its index */
    pp_size_range range;
} pp_atom;

typedef struct pp_factor {
    uint32_t atom, power; /* power >= 1 */
} pp_factor;

typedef struct pp_mono {
    uint32_t first, n, degree; /* factors by ascending atom; degree is the sum of the powers */
} pp_mono;

typedef struct pp_term {
    int64_t coef; /* not 0 */
    uint32_t mono;
} pp_term;

/* Terms in descending order of their monomials (pp_mono_compare), at most one per monomial. */
typedef PP_VEC(pp_term) pp_poly;

typedef struct pp_poly_row {
    uint32_t first, n;
    uint8_t depth;
} pp_poly_row;

struct pp_sizes {
    PP_VEC(char *) names; /* in the arena */
    PP_VEC(pp_atom) atoms;
    PP_VEC(pp_factor) factors;
    PP_VEC(pp_mono) monos; /* 0 is the empty product */
    PP_VEC(pp_term) terms;
    PP_VEC(pp_poly_row) polys; /* index: pp_size */
    pp_map atom_map, mono_map, poly_map;
    pp_arena arena;
    ppto_status status;
};

enum { PP_MONO_1 = 0 };

/* Makes the table failed (the first status stays). Returns PP_SIZE_0. */
pp_size pp_sizes_fail(pp_sizes *t, ppto_status status);
/* After a mere try: a table that failed by an overflow or a limit is as before. True when it had. */
bool pp_sizes_forgive(pp_sizes *t);

/* ---- size.c ---------------------------------------------------------------------------------- */

int pp_mono_compare(const pp_sizes *t, uint32_t a,
                    uint32_t b); /* by degree, then lexicographic: admissible */
bool pp_mono_mul(pp_sizes *t, uint32_t a, uint32_t b, uint32_t *out); /* false: the table has failed */
/* a / b, and false where b does not divide a or the table has failed. */
bool pp_mono_div(pp_sizes *t, uint32_t a, uint32_t b, uint32_t *out);
bool pp_mono_gcd(pp_sizes *t, uint32_t a, uint32_t b, uint32_t *out);

bool pp_poly_load(pp_sizes *t, pp_size a, pp_poly *out); /* a copy; free with pp_vec_free */
/* *out = a + scale * mono * b; out is none of the operands and is replaced. False: the table has failed. */
bool pp_poly_sum(pp_sizes *t, const pp_poly *a, const pp_poly *b, int64_t scale, uint32_t mono, pp_poly *out);
pp_size pp_poly_intern(pp_sizes *t, const pp_poly *poly);

/* The size that is this one atom. */
pp_size pp_atom_intern(pp_sizes *t, pp_atom_kind kind, pp_size a, pp_size b);
/* The atom of a monomial that is one atom to the power 1; NULL for others. */
const pp_atom *pp_mono_atom(const pp_sizes *t, uint32_t mono);

/* ---- size_rules.c ---------------------------------------------------------------------------- */

pp_size_range pp_size_range_of(const pp_sizes *t, pp_size a);
pp_size_range pp_atom_range(pp_sizes *t, pp_atom_kind kind, pp_size a, pp_size b);

/* Quotient toward minus infinity; b is not 0 and not -1. */
static inline int64_t pp_floor_i64(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

#endif
