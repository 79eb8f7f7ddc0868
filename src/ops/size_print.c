/* SPDX-License-Identifier: Apache-2.0
 * Sizes as text: "N*512 + 1", "max(N - 2, 0)", "min(N, 4)". The text is bounded, since what is shared in the
 * table is repeated in it. */
#include "ops/size_impl.h"

#include <inttypes.h>

#include "base/checked.h"

enum { MOST_TEXT = 4000 }; /* bytes of one size; what goes beyond is "..." */

typedef struct span { /* the terms of a polynomial */
    const pp_term *at;
    size_t n;
} span;

static void print_span(const pp_sizes *t, span poly, pp_text *out, size_t limit);

static span span_of(const pp_sizes *t, pp_size a)
{
    const pp_poly_row *row = &t->polys.at[a];
    return (span){t->terms.at + row->first, row->n};
}

/* A number or a single atom: needs no parentheses behind a division. */
static bool is_plain(const pp_sizes *t, pp_size a)
{
    span poly = span_of(t, a);
    if (poly.n != 1) return poly.n == 0;
    return poly.at->mono == PP_MONO_1 || (poly.at->coef == 1 && pp_mono_atom(t, poly.at->mono) != NULL);
}

static void print_pair(const pp_sizes *t, const char *word, span a, span b, pp_text *out, size_t limit)
{
    pp_text_add(out, "%s(", word);
    print_span(t, a, out, limit);
    pp_text_add(out, ", ");
    print_span(t, b, out, limit);
    pp_text_add(out, ")");
}

static void print_atom(const pp_sizes *t, const pp_atom *atom, pp_text *out, size_t limit)
{
    if (atom->kind == PP_ATOM_NAME) {
        pp_text_add(out, "%s", t->names.at[atom->a]);
        return;
    }
    if (atom->kind == PP_ATOM_MAX) {
        print_pair(t, "max", span_of(t, atom->a), span_of(t, atom->b), out, limit);
        return;
    }
    bool wide = t->polys.at[atom->a].n > 1, grouped = !is_plain(t, atom->b);
    pp_text_add(out, wide ? "floor((" : "floor(");
    print_span(t, span_of(t, atom->a), out, limit);
    pp_text_add(out, wide ? ") / " : " / ");
    if (grouped) pp_text_add(out, "(");
    print_span(t, span_of(t, atom->b), out, limit);
    pp_text_add(out, grouped ? "))" : ")");
}

/* |coef| * mono, the number last */
static void print_term(const pp_sizes *t, const pp_term *term, pp_text *out, size_t limit)
{
    const pp_mono *m = &t->monos.at[term->mono];
    uint64_t size = term->coef < 0 ? 0 - (uint64_t)term->coef : (uint64_t)term->coef;
    const char *separator = "";
    for (uint32_t i = 0; i < m->n; i++) {
        const pp_factor *f = &t->factors.at[m->first + i];
        for (uint32_t k = 0; k < f->power; k++) {
            pp_text_add(out, "%s", separator);
            print_atom(t, &t->atoms.at[f->atom], out, limit);
            separator = "*";
        }
    }
    if (size != 1 || m->n == 0) pp_text_add(out, "%s%" PRIu64, separator, size);
}

/* What is added comes first, then what is taken away. */
static void print_sum(const pp_sizes *t, span poly, pp_text *out, size_t limit)
{
    bool first = true;
    if (poly.n == 0) pp_text_add(out, "0");
    for (int minus = 0; minus < 2; minus++) {
        for (size_t i = 0; i < poly.n; i++) {
            const pp_term *term = &poly.at[i];
            if ((term->coef < 0) != (minus == 1)) continue;
            if (out->n > limit || out->failed) {
                pp_text_add(out, "...");
                return;
            }
            pp_text_add(out, "%s", first ? (minus ? "-" : "") : minus ? " - " : " + ");
            print_term(t, term, out, limit);
            first = false;
        }
    }
}

/* *rest is poly without term `at`, *with is rest + sign * u. False where that is not possible. */
static bool take_apart(const pp_sizes *t, span poly, size_t at, span u, pp_poly *rest, pp_poly *with)
{
    int64_t sign = poly.at[at].coef;
    if (pp_vec_reserve(rest, poly.n) != PPTO_OK || pp_vec_reserve(with, poly.n + u.n) != PPTO_OK)
        return false;
    for (size_t i = 0; i < poly.n; i++)
        if (i != at) rest->at[rest->n++] = poly.at[i];
    size_t i = 0, j = 0;
    while (i < rest->n || j < u.n) {
        int order = i == rest->n ? -1 : j == u.n ? 1 : pp_mono_compare(t, rest->at[i].mono, u.at[j].mono);
        pp_term sum = order >= 0 ? rest->at[i] : (pp_term){0, u.at[j].mono};
        if (order <= 0 && !(sign > 0 ? pp_add_i64(sum.coef, u.at[j].coef, &sum.coef)
                                     : pp_sub_i64(sum.coef, u.at[j].coef, &sum.coef)))
            return false;
        i += order >= 0;
        j += order <= 0;
        if (sum.coef != 0) with->at[with->n++] = sum;
    }
    return true;
}

/* rest + max(u, 0) as max(rest + u, rest), rest - max(u, 0) as min(rest - u, rest), where that is shorter. */
static bool print_extremum(const pp_sizes *t, span poly, pp_text *out, size_t limit)
{
    bool done = false;
    for (size_t i = 0; i < poly.n && !done; i++) {
        int64_t sign = poly.at[i].coef;
        const pp_atom *atom = pp_mono_atom(t, poly.at[i].mono);
        if (atom == NULL || atom->kind != PP_ATOM_MAX || poly.n < 2 || (sign != 1 && sign != -1)) continue;
        pp_poly rest = {0}, with = {0};
        span u = span_of(t, atom->a);
        if (take_apart(t, poly, i, u, &rest, &with) && with.n < u.n + 1 && out->n <= limit) {
            span whole = {with.at, with.n}, left = {rest.at, rest.n};
            if (sign > 0)
                print_pair(t, "max", whole, left, out, limit);
            else
                print_pair(t, "min", left, whole, out, limit);
            done = true;
        }
        pp_vec_free(&rest);
        pp_vec_free(&with);
    }
    return done;
}

static void print_span(const pp_sizes *t, span poly, pp_text *out, size_t limit)
{
    if (!print_extremum(t, poly, out, limit)) print_sum(t, poly, out, limit);
}

void pp_size_print(const pp_sizes *table, pp_size a, pp_text *out)
{
    print_span(table, span_of(table, a), out, out->n + MOST_TEXT);
}
