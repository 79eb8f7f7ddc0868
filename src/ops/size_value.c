/* SPDX-License-Identifier: Apache-2.0
 * What a size is worth. Atoms are created after their operands, so evaluation marks the needed ones downwards
 * and computes them upwards in one pass each: no recursion, and shared parts are computed once. */
#include "ops/size_impl.h"

#include <string.h>

#include "base/checked.h"

bool pp_size_known(const pp_sizes *table, pp_size a, int64_t *value)
{
    const pp_poly_row *row = &table->polys.at[a];
    *value = 0;
    if (row->n == 0) return true;
    const pp_term *term = &table->terms.at[row->first];
    if (row->n > 1 || term->mono != PP_MONO_1) return false;
    *value = term->coef;
    return true;
}

size_t pp_sizes_names(const pp_sizes *table)
{
    return table->names.n;
}

const char *pp_sizes_name_at(const pp_sizes *table, size_t i)
{
    return table->names.at[i];
}

bool pp_size_as_name(const pp_sizes *table, pp_size a, size_t *index)
{
    const pp_poly_row *row = &table->polys.at[a];
    *index = 0;
    if (row->n != 1 || table->terms.at[row->first].coef != 1) return false;
    const pp_atom *atom = pp_mono_atom(table, table->terms.at[row->first].mono);
    if (atom == NULL || atom->kind != PP_ATOM_NAME) return false;
    *index = (size_t)atom->a;
    return true;
}

/* ---- evaluation ------------------------------------------------------------------------------ */

typedef struct atom_value {
    int64_t value;
    bool needed;
} atom_value;

static ppto_status eval_mono(const pp_sizes *t, uint32_t mono, const atom_value *atoms, int64_t *product)
{
    const pp_mono *m = &t->monos.at[mono];
    for (uint32_t i = 0; i < m->n; i++) {
        const pp_factor *f = &t->factors.at[m->first + i];
        for (uint32_t k = 0; k < f->power; k++) {
            if (!pp_mul_i64(*product, atoms[f->atom].value, product)) return PPTO_E_SIZE;
        }
    }
    return PPTO_OK;
}

static ppto_status eval_poly(const pp_sizes *t, pp_size a, const atom_value *atoms, int64_t *out)
{
    const pp_poly_row *row = &t->polys.at[a];
    int64_t sum = 0;
    for (uint32_t i = 0; i < row->n; i++) {
        const pp_term *term = &t->terms.at[row->first + i];
        int64_t product = term->coef;
        PP_TRY(eval_mono(t, term->mono, atoms, &product));
        if (!pp_add_i64(sum, product, &sum)) return PPTO_E_SIZE;
    }
    *out = sum;
    return PPTO_OK;
}

static ppto_status eval_atom(const pp_sizes *t, const pp_atom *atom, const atom_value *atoms, int64_t *out)
{
    int64_t p, q;
    PP_TRY(eval_poly(t, atom->a, atoms, &p));
    PP_TRY(eval_poly(t, atom->b, atoms, &q));
    if (atom->kind == PP_ATOM_MAX) *out = p > q ? p : q;
    if (atom->kind != PP_ATOM_FLOOR) return PPTO_OK;
    if (q == 0) return PPTO_E_VALUE;
    if (q == -1) return pp_sub_i64(0, p, out) ? PPTO_OK : PPTO_E_SIZE;
    *out = pp_floor_i64(p, q);
    return PPTO_OK;
}

static void mark_atoms(const pp_sizes *t, pp_size a, atom_value *atoms)
{
    const pp_poly_row *row = &t->polys.at[a];
    for (uint32_t i = 0; i < row->n; i++) {
        const pp_mono *m = &t->monos.at[t->terms.at[row->first + i].mono];
        for (uint32_t j = 0; j < m->n; j++) atoms[t->factors.at[m->first + j].atom].needed = true;
    }
}

/* Everything a is computed from. */
static void mark_all(const pp_sizes *t, pp_size a, atom_value *atoms)
{
    mark_atoms(t, a, atoms);
    for (size_t i = t->atoms.n; i-- > 0;) {
        const pp_atom *atom = &t->atoms.at[i];
        if (!atoms[i].needed || atom->kind == PP_ATOM_NAME) continue;
        mark_atoms(t, atom->a, atoms);
        mark_atoms(t, atom->b, atoms);
    }
}

static ppto_status eval_marked(const pp_sizes *t, pp_size a, const int64_t *names, atom_value *atoms,
                               int64_t *out)
{
    memset(atoms, 0, t->atoms.n * sizeof *atoms);
    mark_all(t, a, atoms);
    for (size_t i = 0; i < t->atoms.n; i++) {
        const pp_atom *atom = &t->atoms.at[i];
        if (!atoms[i].needed) continue;
        if (atom->kind == PP_ATOM_NAME)
            atoms[i].value = names[atom->a];
        else
            PP_TRY(eval_atom(t, atom, atoms, &atoms[i].value));
    }
    return eval_poly(t, a, atoms, out);
}

bool pp_size_uses(const pp_sizes *table, pp_size a, size_t name)
{
    atom_value *atoms = pp_calloc(table->atoms.n + 1, sizeof *atoms);
    bool uses = false;
    if (atoms == NULL) return false;
    mark_all(table, a, atoms);
    for (size_t i = 0; i < table->atoms.n; i++) {
        const pp_atom *atom = &table->atoms.at[i];
        uses = uses || (atoms[i].needed && atom->kind == PP_ATOM_NAME && (size_t)atom->a == name);
    }
    pp_free(atoms);
    return uses;
}

ppto_status pp_size_eval(const pp_sizes *table, pp_size a, const int64_t *names, int64_t *out)
{
    enum { SMALL = 64 };
    atom_value small[SMALL], *atoms = small;
    if (pp_size_known(table, a, out)) return PPTO_OK;
    if (table->atoms.n > SMALL) atoms = pp_calloc(table->atoms.n, sizeof *atoms);
    if (atoms == NULL) return PPTO_E_NOMEM;
    ppto_status status = eval_marked(table, a, names, atoms, out);
    if (atoms != small) pp_free(atoms);
    return status;
}
