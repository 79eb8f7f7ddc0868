/* SPDX-License-Identifier: Apache-2.0
 * The table of sizes: names, atoms, monomials and polynomials, each interned, and the ring operations.
 * The order of terms is graded lexicographic over atoms in order of creation. It is admissible (a product
 * with a monomial keeps the order), so addition is a merge, multiplication a sum of merges, and no sorting is
 * needed. Read size_impl.h first. */
#include "ops/size_impl.h"

#include <string.h>

#include "base/checked.h"

pp_size pp_sizes_fail(pp_sizes *t, ppto_status status)
{
    if (t->status == PPTO_OK) t->status = status;
    return PP_SIZE_0;
}

bool pp_sizes_forgive(pp_sizes *t)
{
    bool had = t->status == PPTO_E_SIZE || t->status == PPTO_E_LIMIT;
    if (had) t->status = PPTO_OK;
    return had;
}

ppto_status pp_sizes_status(const pp_sizes *table)
{
    return table->status;
}

ppto_status pp_sizes_take_status(pp_sizes *table)
{
    ppto_status status = table->status;
    table->status = PPTO_OK;
    return status;
}

/* ---- monomials ------------------------------------------------------------------------------- */

typedef struct mono_key {
    const pp_sizes *t;
    const pp_factor *factors;
    size_t n;
} mono_key;

static bool same_mono(const void *context, uint32_t value)
{
    const mono_key *key = context;
    const pp_mono *m = &key->t->monos.at[value];
    if (m->n != key->n) return false;
    return m->n == 0 || memcmp(key->t->factors.at + m->first, key->factors, m->n * sizeof(pp_factor)) == 0;
}

static bool intern_mono(pp_sizes *t, const pp_factor *factors, size_t n, uint32_t *out)
{
    *out = PP_MONO_1;
    uint64_t hash = pp_hash_bytes(factors, n * sizeof *factors, 1);
    mono_key key = {t, factors, n};
    if (pp_map_find(&t->mono_map, hash, same_mono, &key, out)) return true;
    pp_mono m = {.first = (uint32_t)t->factors.n, .n = (uint32_t)n};
    for (size_t i = 0; i < n; i++) m.degree += factors[i].power;
    if (m.degree > PP_SIZE_MAX_DEGREE) return pp_sizes_fail(t, PPTO_E_LIMIT), false;
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) ok = pp_vec_push(&t->factors, factors[i]) == PPTO_OK;
    ok = ok && pp_vec_push(&t->monos, m) == PPTO_OK;
    ok = ok && pp_map_insert(&t->mono_map, hash, (uint32_t)t->monos.n - 1) == PPTO_OK;
    if (!ok) return pp_sizes_fail(t, PPTO_E_NOMEM), false;
    *out = (uint32_t)t->monos.n - 1;
    return true;
}

int pp_mono_compare(const pp_sizes *t, uint32_t a, uint32_t b)
{
    if (a == b) return 0;
    const pp_mono *x = &t->monos.at[a], *y = &t->monos.at[b];
    if (x->degree != y->degree) return x->degree > y->degree ? 1 : -1;
    const pp_factor *f = t->factors.at + x->first, *g = t->factors.at + y->first;
    while (f->atom == g->atom && f->power == g->power) { /* they differ somewhere: the degrees are equal */
        f++;
        g++;
    }
    if (f->atom != g->atom) return f->atom < g->atom ? 1 : -1;
    return f->power > g->power ? 1 : -1;
}

static int64_t sum_power(int64_t a, int64_t b)
{
    return a + b;
}

static int64_t difference_power(int64_t a, int64_t b)
{
    return a - b;
}

static int64_t common_power(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Goes through the factors of both and gives each atom the combined power; false where one is negative. */
static bool combine_monos(pp_sizes *t, uint32_t a, uint32_t b, int64_t (*combine)(int64_t, int64_t),
                          uint32_t *out)
{
    pp_factor factors[PP_SIZE_MAX_DEGREE * 2];
    const pp_mono *x = &t->monos.at[a], *y = &t->monos.at[b];
    const pp_factor *f = t->factors.at + x->first, *g = t->factors.at + y->first;
    size_t i = 0, j = 0, n = 0;
    *out = PP_MONO_1;
    while (i < x->n || j < y->n) {
        bool left = i < x->n && (j == y->n || f[i].atom <= g[j].atom);
        bool right = j < y->n && (i == x->n || g[j].atom <= f[i].atom);
        uint32_t atom = left ? f[i].atom : g[j].atom;
        int64_t power = combine(left ? f[i].power : 0, right ? g[j].power : 0);
        if (power < 0) return false;
        if (power > 0) factors[n++] = (pp_factor){atom, (uint32_t)power};
        i += left;
        j += right;
    }
    return intern_mono(t, factors, n, out);
}

bool pp_mono_mul(pp_sizes *t, uint32_t a, uint32_t b, uint32_t *out)
{
    *out = a == PP_MONO_1 ? b : a;
    return a == PP_MONO_1 || b == PP_MONO_1 || combine_monos(t, a, b, sum_power, out);
}

bool pp_mono_div(pp_sizes *t, uint32_t a, uint32_t b, uint32_t *out)
{
    return combine_monos(t, a, b, difference_power, out);
}

bool pp_mono_gcd(pp_sizes *t, uint32_t a, uint32_t b, uint32_t *out)
{
    return combine_monos(t, a, b, common_power, out);
}

const pp_atom *pp_mono_atom(const pp_sizes *t, uint32_t mono)
{
    const pp_mono *m = &t->monos.at[mono];
    return m->degree == 1 ? &t->atoms.at[t->factors.at[m->first].atom] : NULL;
}

/* ---- polynomials ----------------------------------------------------------------------------- */

bool pp_poly_load(pp_sizes *t, pp_size a, pp_poly *out)
{
    const pp_poly_row *row = &t->polys.at[a];
    out->n = 0;
    if (pp_vec_reserve(out, row->n + 1u) != PPTO_OK) return pp_sizes_fail(t, PPTO_E_NOMEM), false;
    if (row->n > 0) memcpy(out->at, t->terms.at + row->first, row->n * sizeof(pp_term));
    out->n = row->n;
    return true;
}

bool pp_poly_sum(pp_sizes *t, const pp_poly *a, const pp_poly *b, int64_t scale, uint32_t mono, pp_poly *out)
{
    out->n = 0;
    size_t i = 0, j = 0;
    if (pp_vec_reserve(out, a->n + b->n + 1) != PPTO_OK) return pp_sizes_fail(t, PPTO_E_NOMEM), false;
    while (i < a->n || j < b->n) {
        pp_term x = i < a->n ? a->at[i] : (pp_term){0, 0}, y = {0, 0};
        if (j < b->n) {
            if (!pp_mono_mul(t, mono, b->at[j].mono, &y.mono)) return false;
            if (!pp_mul_i64(scale, b->at[j].coef, &y.coef)) return pp_sizes_fail(t, PPTO_E_SIZE), false;
        }
        int order = i == a->n ? -1 : j == b->n ? 1 : pp_mono_compare(t, x.mono, y.mono);
        pp_term sum = order > 0 ? x : y;
        if (order == 0 && !pp_add_i64(x.coef, y.coef, &sum.coef)) return pp_sizes_fail(t, PPTO_E_SIZE), false;
        i += order >= 0;
        j += order <= 0;
        if (sum.coef != 0) out->at[out->n++] = sum;
    }
    return true;
}

typedef struct poly_key {
    const pp_sizes *t;
    const pp_poly *poly;
} poly_key;

static bool same_poly(const void *context, uint32_t value)
{
    const poly_key *key = context;
    const pp_poly_row *row = &key->t->polys.at[value];
    if (row->n != key->poly->n) return false;
    for (size_t i = 0; i < row->n; i++) {
        const pp_term *x = &key->t->terms.at[row->first + i], *y = &key->poly->at[i];
        if (x->coef != y->coef || x->mono != y->mono) return false;
    }
    return true;
}

static uint8_t mono_depth(const pp_sizes *t, uint32_t mono)
{
    const pp_mono *m = &t->monos.at[mono];
    uint8_t depth = 0;
    for (uint32_t i = 0; i < m->n; i++) {
        uint8_t d = t->atoms.at[t->factors.at[m->first + i].atom].depth;
        if (d > depth) depth = d;
    }
    return depth;
}

pp_size pp_poly_intern(pp_sizes *t, const pp_poly *poly)
{
    uint64_t hash = 2;
    uint32_t found;
    for (size_t i = 0; i < poly->n; i++) {
        hash = pp_hash_mix(pp_hash_mix(hash, (uint64_t)poly->at[i].coef), poly->at[i].mono);
    }
    poly_key key = {t, poly};
    if (pp_map_find(&t->poly_map, hash, same_poly, &key, &found)) return (pp_size)found;
    if (poly->n > PP_SIZE_MAX_TERMS || t->polys.n >= INT32_MAX) return pp_sizes_fail(t, PPTO_E_LIMIT);
    pp_poly_row row = {.first = (uint32_t)t->terms.n, .n = (uint32_t)poly->n};
    bool ok = true;
    for (size_t i = 0; i < poly->n && ok; i++) {
        uint8_t depth = mono_depth(t, poly->at[i].mono);
        if (depth > row.depth) row.depth = depth;
        ok = pp_vec_push(&t->terms, poly->at[i]) == PPTO_OK;
    }
    ok = ok && pp_vec_push(&t->polys, row) == PPTO_OK;
    ok = ok && pp_map_insert(&t->poly_map, hash, (uint32_t)t->polys.n - 1) == PPTO_OK;
    return ok ? (pp_size)(t->polys.n - 1) : pp_sizes_fail(t, PPTO_E_NOMEM);
}

/* coef * mono */
static pp_size intern_term(pp_sizes *t, int64_t coef, uint32_t mono)
{
    pp_term term = {coef, mono};
    pp_poly poly = {.at = &term, .n = coef != 0 ? 1 : 0, .cap = 1}; /* borrowed: only read */
    return pp_poly_intern(t, &poly);
}

/* ---- atoms and names ------------------------------------------------------------------------- */

typedef struct atom_key {
    const pp_sizes *t;
    pp_atom atom;
} atom_key;

static bool same_atom(const void *context, uint32_t value)
{
    const atom_key *key = context;
    const pp_atom *x = &key->t->atoms.at[value];
    return x->kind == key->atom.kind && x->a == key->atom.a && x->b == key->atom.b;
}

static bool add_atom(pp_sizes *t, const pp_atom *atom, uint64_t hash, uint32_t *out)
{
    bool ok = pp_vec_push(&t->atoms, *atom) == PPTO_OK;
    ok = ok && pp_map_insert(&t->atom_map, hash, (uint32_t)t->atoms.n - 1) == PPTO_OK;
    if (!ok) return pp_sizes_fail(t, PPTO_E_NOMEM), false;
    *out = (uint32_t)t->atoms.n - 1;
    return true;
}

static pp_size intern_mono_of(pp_sizes *t, uint32_t atom)
{
    pp_factor factor = {atom, 1};
    uint32_t mono;
    return intern_mono(t, &factor, 1, &mono) ? intern_term(t, 1, mono) : PP_SIZE_0;
}

pp_size pp_atom_intern(pp_sizes *t, pp_atom_kind kind, pp_size a, pp_size b)
{
    uint64_t hash = pp_hash_mix(pp_hash_mix(pp_hash_mix(3, kind), (uint64_t)a), (uint64_t)b);
    atom_key key = {t, {.kind = (uint8_t)kind, .a = a, .b = b}};
    uint32_t atom;
    if (t->status != PPTO_OK) return PP_SIZE_0;
    if (!pp_map_find(&t->atom_map, hash, same_atom, &key, &atom)) {
        uint8_t depth =
            t->polys.at[a].depth > t->polys.at[b].depth ? t->polys.at[a].depth : t->polys.at[b].depth;
        if (depth >= PP_SIZE_MAX_DEPTH) return pp_sizes_fail(t, PPTO_E_LIMIT);
        key.atom.depth = (uint8_t)(depth + 1);
        key.atom.range = pp_atom_range(t, kind, a, b);
        if (!add_atom(t, &key.atom, hash, &atom)) return PP_SIZE_0;
    }
    return intern_mono_of(t, atom);
}

typedef struct name_key {
    const pp_sizes *t;
    const char *name;
    size_t n;
} name_key;

static bool same_name(const void *context, uint32_t value)
{
    const name_key *key = context;
    const pp_atom *x = &key->t->atoms.at[value];
    if (x->kind != PP_ATOM_NAME) return false;
    const char *name = key->t->names.at[x->a];
    return strlen(name) == key->n && memcmp(name, key->name, key->n) == 0;
}

bool pp_sizes_has(const pp_sizes *table, const char *name)
{
    size_t n = strlen(name);
    name_key key = {table, name, n};
    uint32_t atom;
    return pp_map_find(&table->atom_map, pp_hash_bytes(name, n, 4), same_name, &key, &atom);
}

pp_size pp_size_name(pp_sizes *table, const char *name, size_t n)
{
    uint64_t hash = pp_hash_bytes(name, n, 4);
    name_key key = {table, name, n};
    uint32_t atom;
    if (table->status != PPTO_OK) return PP_SIZE_0;
    if (!pp_map_find(&table->atom_map, hash, same_name, &key, &atom)) {
        char *copy = pp_arena_strndup(&table->arena, name, n);
        if (copy == NULL || pp_vec_push(&table->names, copy) != PPTO_OK)
            return pp_sizes_fail(table, PPTO_E_NOMEM);
        pp_atom row = {.kind = PP_ATOM_NAME, .a = (pp_size)(table->names.n - 1), .range = {0, INT64_MAX}};
        if (!add_atom(table, &row, hash, &atom)) return PP_SIZE_0;
    }
    return intern_mono_of(table, atom);
}

/* ---- constants and the ring ------------------------------------------------------------------ */

pp_size pp_size_const(pp_sizes *table, int64_t value)
{
    return table->status == PPTO_OK ? intern_term(table, value, PP_MONO_1) : PP_SIZE_0;
}

static pp_size scaled_sum(pp_sizes *t, pp_size a, pp_size b, int64_t scale)
{
    pp_poly x = {0}, y = {0}, sum = {0};
    pp_size result = PP_SIZE_0;
    if (t->status != PPTO_OK) return PP_SIZE_0;
    if (pp_poly_load(t, a, &x) && pp_poly_load(t, b, &y) && pp_poly_sum(t, &x, &y, scale, PP_MONO_1, &sum)) {
        result = pp_poly_intern(t, &sum);
    }
    pp_vec_free(&x);
    pp_vec_free(&y);
    pp_vec_free(&sum);
    return result;
}

pp_size pp_size_add(pp_sizes *table, pp_size a, pp_size b)
{
    return scaled_sum(table, a, b, 1);
}

pp_size pp_size_sub(pp_sizes *table, pp_size a, pp_size b)
{
    return scaled_sum(table, a, b, -1);
}

pp_size pp_size_mul(pp_sizes *table, pp_size a, pp_size b)
{
    pp_poly x = {0}, y = {0}, sum = {0}, next = {0};
    if (table->status != PPTO_OK) return PP_SIZE_0;
    bool ok = pp_poly_load(table, a, &x) && pp_poly_load(table, b, &y);
    for (size_t i = 0; i < x.n && ok; i++) {
        ok = pp_poly_sum(table, &sum, &y, x.at[i].coef, x.at[i].mono, &next);
        if (next.n > PP_SIZE_MAX_TERMS) ok = (pp_sizes_fail(table, PPTO_E_LIMIT), false);
        pp_poly swap = sum;
        sum = next;
        next = swap;
    }
    pp_size result = ok ? pp_poly_intern(table, &sum) : PP_SIZE_0;
    pp_vec_free(&x);
    pp_vec_free(&y);
    pp_vec_free(&sum);
    pp_vec_free(&next);
    return result;
}

/* ---- life ------------------------------------------------------------------------------------ */

ppto_status pp_sizes_create(pp_sizes **out)
{
    *out = NULL;
    pp_sizes *t = pp_calloc(1, sizeof *t);
    if (t == NULL) return PPTO_E_NOMEM;
    uint32_t one;
    bool ok = intern_mono(t, NULL, 0, &one) && one == PP_MONO_1;
    ok = ok && intern_term(t, 0, PP_MONO_1) == PP_SIZE_0 && intern_term(t, 1, PP_MONO_1) == PP_SIZE_1;
    if (!ok || t->status != PPTO_OK) {
        pp_sizes_destroy(t);
        return PPTO_E_NOMEM;
    }
    *out = t;
    return PPTO_OK;
}

void pp_sizes_destroy(pp_sizes *table)
{
    if (table == NULL) return;
    pp_vec_free(&table->names);
    pp_vec_free(&table->atoms);
    pp_vec_free(&table->factors);
    pp_vec_free(&table->monos);
    pp_vec_free(&table->terms);
    pp_vec_free(&table->polys);
    pp_map_free(&table->atom_map);
    pp_map_free(&table->mono_map);
    pp_map_free(&table->poly_map);
    pp_arena_free(&table->arena);
    pp_free(table);
}
