/* SPDX-License-Identifier: Apache-2.0
 * Carries a size from one table to another, so that a plan can outlive the graph it was made from. Recursion
 * is bounded by PP_SIZE_MAX_DEPTH, since only atoms in atoms recurse. */
#include "ops/size_impl.h"

#include <string.h>

static pp_size import_atom(pp_sizes *to, const pp_sizes *from, uint32_t atom)
{
    const pp_atom *a = &from->atoms.at[atom];
    if (a->kind == PP_ATOM_NAME) {
        const char *name = from->names.at[a->a];
        return pp_size_name(to, name, strlen(name));
    }
    pp_size x = pp_size_import(to, from, a->a), y = pp_size_import(to, from, a->b);
    if (a->kind == PP_ATOM_MAX) return pp_size_max(to, x, y);
    return a->kind == PP_ATOM_MIN ? pp_size_min(to, x, y) : pp_size_floordiv(to, x, y);
}

static pp_size import_mono(pp_sizes *to, const pp_sizes *from, uint32_t mono)
{
    const pp_mono *m = &from->monos.at[mono];
    pp_size product = PP_SIZE_1;
    for (uint32_t i = 0; i < m->n; i++) {
        const pp_factor *f = &from->factors.at[m->first + i];
        pp_size atom = import_atom(to, from, f->atom);
        for (uint32_t p = 0; p < f->power; p++) product = pp_size_mul(to, product, atom);
    }
    return product;
}

pp_size pp_size_import(pp_sizes *to, const pp_sizes *from, pp_size a)
{
    int64_t value;
    pp_size sum = PP_SIZE_0;
    if (pp_size_known(from, a, &value)) return pp_size_const(to, value);
    const pp_poly_row *row = &from->polys.at[a];
    for (uint32_t i = 0; i < row->n; i++) {
        const pp_term *term = &from->terms.at[row->first + i];
        sum = pp_size_add(to, sum,
                          pp_size_mul(to, pp_size_const(to, term->coef), import_mono(to, from, term->mono)));
    }
    return sum;
}
