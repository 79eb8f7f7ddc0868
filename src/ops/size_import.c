/* SPDX-License-Identifier: Apache-2.0
 * Carries a size from one table to another, so that a plan can outlive the graph it was made from. Atoms are
 * created after their operands: the needed ones are marked downwards and carried over upwards, each once. */
#include "ops/size_impl.h"

#include <string.h>

typedef struct carried {
    pp_size size; /* in the other table */
    bool needed;
} carried;

static void mark(const pp_sizes *from, pp_size a, carried *atoms)
{
    const pp_poly_row *row = &from->polys.at[a];
    for (uint32_t i = 0; i < row->n; i++) {
        const pp_mono *m = &from->monos.at[from->terms.at[row->first + i].mono];
        for (uint32_t j = 0; j < m->n; j++) atoms[from->factors.at[m->first + j].atom].needed = true;
    }
}

static pp_size import_mono(pp_sizes *to, const pp_sizes *from, uint32_t mono, const carried *atoms)
{
    const pp_mono *m = &from->monos.at[mono];
    pp_size product = PP_SIZE_1;
    for (uint32_t i = 0; i < m->n; i++) {
        const pp_factor *f = &from->factors.at[m->first + i];
        for (uint32_t p = 0; p < f->power; p++) product = pp_size_mul(to, product, atoms[f->atom].size);
    }
    return product;
}

static pp_size import_poly(pp_sizes *to, const pp_sizes *from, pp_size a, const carried *atoms)
{
    const pp_poly_row *row = &from->polys.at[a];
    pp_size sum = PP_SIZE_0;
    for (uint32_t i = 0; i < row->n; i++) {
        const pp_term *term = &from->terms.at[row->first + i];
        pp_size mono = import_mono(to, from, term->mono, atoms);
        sum = pp_size_add(to, sum, pp_size_mul(to, pp_size_const(to, term->coef), mono));
    }
    return sum;
}

static pp_size import_atom(pp_sizes *to, const pp_sizes *from, const pp_atom *atom, const carried *atoms)
{
    if (atom->kind == PP_ATOM_NAME) {
        const char *name = from->names.at[atom->a];
        return pp_size_name(to, name, strlen(name));
    }
    pp_size x = import_poly(to, from, atom->a, atoms), y = import_poly(to, from, atom->b, atoms);
    return atom->kind == PP_ATOM_MAX ? pp_size_max(to, x, y) : pp_size_floordiv(to, x, y);
}

static pp_size import_marked(pp_sizes *to, const pp_sizes *from, pp_size a, carried *atoms)
{
    memset(atoms, 0, from->atoms.n * sizeof *atoms);
    mark(from, a, atoms);
    for (size_t i = from->atoms.n; i-- > 0;) {
        const pp_atom *atom = &from->atoms.at[i];
        if (!atoms[i].needed || atom->kind == PP_ATOM_NAME) continue;
        mark(from, atom->a, atoms);
        mark(from, atom->b, atoms);
    }
    for (size_t i = 0; i < from->atoms.n; i++)
        if (atoms[i].needed) atoms[i].size = import_atom(to, from, &from->atoms.at[i], atoms);
    return import_poly(to, from, a, atoms);
}

pp_size pp_size_import(pp_sizes *to, const pp_sizes *from, pp_size a)
{
    enum { SMALL = 64 };
    carried small[SMALL], *atoms = small;
    int64_t value;
    if (pp_size_known(from, a, &value)) return pp_size_const(to, value);
    if (from->atoms.n > SMALL) atoms = pp_calloc(from->atoms.n, sizeof *atoms);
    if (atoms == NULL) return pp_sizes_fail(to, PPTO_E_NOMEM);
    pp_size size = import_marked(to, from, a, atoms);
    if (atoms != small) pp_free(atoms);
    return size;
}
