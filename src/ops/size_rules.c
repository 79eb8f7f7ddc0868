/* SPDX-License-Identifier: Apache-2.0
 * Division and order of sizes (maximum and minimum: size_extremum.c).
 * floor(a / c) for a constant c > 0: every coefficient of a gives its multiple of c to the quotient, the rest
 * keeps 0 <= coefficient < c; common divisors go; a floor of a floor is one floor. So equal divisions written
 * differently mostly meet in one form. By a polynomial: exact long division, else common factors are
 * cancelled (a divisor of 0 is an error when evaluated, so it may be taken as not 0 here). Order: a <= b is
 * proved by the range of b - a, and by replacing atoms of it with what bounds them. */
#include "ops/size_impl.h"

#include "base/checked.h"

/* ---- ranges ---------------------------------------------------------------------------------- */

static int64_t add_saturated(int64_t a, int64_t b)
{
    int64_t sum;
    if (pp_add_i64(a, b, &sum)) return sum;
    return a < 0 ? INT64_MIN : INT64_MAX;
}

static int64_t mul_saturated(int64_t a, int64_t b)
{
    int64_t product;
    if (pp_mul_i64(a, b, &product)) return product;
    return (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
}

/* Sums in which an infinity of the wanted side wins. */
static pp_size_range add_ranges(pp_size_range x, pp_size_range y)
{
    bool no_lo = x.lo == INT64_MIN || y.lo == INT64_MIN, no_hi = x.hi == INT64_MAX || y.hi == INT64_MAX;
    return (pp_size_range){no_lo ? INT64_MIN : add_saturated(x.lo, y.lo),
                           no_hi ? INT64_MAX : add_saturated(x.hi, y.hi)};
}

static pp_size_range mul_ranges(pp_size_range x, pp_size_range y)
{
    int64_t corner[4] = {mul_saturated(x.lo, y.lo), mul_saturated(x.lo, y.hi), mul_saturated(x.hi, y.lo),
                         mul_saturated(x.hi, y.hi)};
    pp_size_range out = {corner[0], corner[0]};
    for (int i = 1; i < 4; i++) {
        if (corner[i] < out.lo) out.lo = corner[i];
        if (corner[i] > out.hi) out.hi = corner[i];
    }
    bool endless = x.lo == INT64_MIN || y.lo == INT64_MIN || x.hi == INT64_MAX || y.hi == INT64_MAX;
    if (endless && out.hi > INT64_MAX / 2)
        out.hi = INT64_MAX; /* an end times -1 is not quite the other end */
    if (endless && out.lo < INT64_MIN / 2) out.lo = INT64_MIN;
    return out;
}

pp_size_range pp_size_range_of(const pp_sizes *t, pp_size a)
{
    const pp_poly_row *row = &t->polys.at[a];
    pp_size_range sum = {0, 0};
    for (uint32_t i = 0; i < row->n; i++) {
        const pp_term *term = &t->terms.at[row->first + i];
        const pp_mono *m = &t->monos.at[term->mono];
        pp_size_range product = {term->coef, term->coef};
        for (uint32_t j = 0; j < m->n; j++) {
            const pp_factor *f = &t->factors.at[m->first + j];
            for (uint32_t k = 0; k < f->power; k++) product = mul_ranges(product, t->atoms.at[f->atom].range);
        }
        sum = add_ranges(sum, product);
    }
    return sum;
}

static pp_size_range floor_range(pp_size_range p, pp_size_range q)
{
    pp_size_range out = {INT64_MIN, INT64_MAX};
    if (q.lo < 0 || q.hi < 1) return out;
    if (q.lo == 0) q.lo = 1; /* 0 is an error when evaluated */
    if (p.lo != INT64_MIN)
        out.lo = p.lo >= 0 ? (q.hi == INT64_MAX ? 0 : p.lo / q.hi) : pp_floor_i64(p.lo, q.lo);
    if (p.hi != INT64_MAX)
        out.hi = p.hi >= 0 ? p.hi / q.lo : q.hi == INT64_MAX ? -1 : pp_floor_i64(p.hi, q.hi);
    return out;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* With the range of the polynomial when one of its maxima is either of its operands: k * max(p, q) + rest is
 * the larger (k < 0: the smaller) of k * p + rest and k * q + rest. Only a try, one maximum deep. */
static pp_size_range narrow_range(pp_sizes *t, pp_size a)
{
    pp_size_range range = pp_size_range_of(t, a);
    for (uint32_t i = 0; i < t->polys.at[a].n; i++) {
        pp_term term = t->terms.at[t->polys.at[a].first + i];
        const pp_atom *found = pp_mono_atom(t, term.mono);
        if (found == NULL || found->kind != PP_ATOM_MAX) continue;
        pp_atom atom = *found; /* the array may move */
        pp_size k = pp_size_const(t, term.coef), whole = pp_atom_intern(t, PP_ATOM_MAX, atom.a, atom.b);
        pp_size rest = pp_size_sub(t, a, pp_size_mul(t, k, whole));
        pp_size_range x = pp_size_range_of(t, pp_size_add(t, rest, pp_size_mul(t, k, atom.a)));
        pp_size_range y = pp_size_range_of(t, pp_size_add(t, rest, pp_size_mul(t, k, atom.b)));
        if (t->status != PPTO_OK) break;
        bool larger = term.coef > 0;
        int64_t lo = larger ? most(x.lo, y.lo) : least(x.lo, y.lo);
        int64_t hi = larger ? most(x.hi, y.hi) : least(x.hi, y.hi);
        range.lo = most(range.lo, lo);
        range.hi = least(range.hi, hi);
    }
    pp_sizes_forgive(t);
    return range;
}

pp_size_range pp_atom_range(pp_sizes *t, pp_atom_kind kind, pp_size a, pp_size b)
{
    pp_size_range x = narrow_range(t, a), y = narrow_range(t, b);
    if (kind == PP_ATOM_MAX) return (pp_size_range){most(x.lo, y.lo), most(x.hi, y.hi)};
    return floor_range(x, y);
}

/* ---- order ----------------------------------------------------------------------------------- */

static bool is_natural(pp_sizes *t, pp_size d, int *budget);

/* rest + k * atom >= 0, by what bounds the atom from the side that matters. */
static bool is_natural_without(pp_sizes *t, pp_size rest, int64_t k, const pp_atom *atom, int *budget)
{
    pp_size factor = pp_size_const(t, k), p = atom->a, q = atom->b;
    int64_t c;
    if (atom->kind == PP_ATOM_FLOOR) {
        /* c * floor(p / c) lies in p - c + 1 .. p, and an integer above -1 is one from 0 on. */
        if (!pp_size_known(t, q, &c) || c <= 0) return false;
        pp_size edge = k > 0 ? pp_size_add(t, pp_size_sub(t, p, q), PP_SIZE_1) : p;
        pp_size bound = pp_size_add(t, pp_size_mul(t, q, rest), pp_size_mul(t, factor, edge));
        return is_natural(t, pp_size_add(t, bound, pp_size_sub(t, q, PP_SIZE_1)), budget);
    }
    pp_size with_p = pp_size_add(t, rest, pp_size_mul(t, factor, p));
    pp_size with_q = pp_size_add(t, rest, pp_size_mul(t, factor, q));
    bool either = (atom->kind == PP_ATOM_MAX) == (k > 0);
    bool first = is_natural(t, with_p, budget);
    return first == either ? first : is_natural(t, with_q, budget);
}

/* d >= 0 for all values of the names, as far as can be shown within the budget. */
static bool is_natural(pp_sizes *t, pp_size d, int *budget)
{
    if (t->status != PPTO_OK || (*budget)-- <= 0) return false;
    if (pp_size_range_of(t, d).lo >= 0) return true;
    for (uint32_t i = 0; i < t->polys.at[d].n; i++) {
        pp_term term = t->terms.at[t->polys.at[d].first + i];
        const pp_atom *found = pp_mono_atom(t, term.mono);
        if (found == NULL || found->kind == PP_ATOM_NAME) continue;
        pp_atom atom = *found; /* the array may move */
        pp_size whole = pp_atom_intern(t, (pp_atom_kind)atom.kind, atom.a, atom.b);
        pp_size rest = pp_size_sub(t, d, pp_size_mul(t, pp_size_const(t, term.coef), whole));
        if (is_natural_without(t, rest, term.coef, &atom, budget)) return t->status == PPTO_OK;
    }
    return false;
}

int pp_size_is_le(pp_sizes *table, pp_size a, pp_size b)
{
    enum { BUDGET = 64 };
    if (table->status != PPTO_OK) return -1;
    if (a == b) return 1;
    int yes = BUDGET, no = BUDGET, answer = -1;
    pp_size difference = pp_size_sub(table, b, a);
    if (is_natural(table, difference, &yes)) {
        answer = 1;
    } else if (table->status == PPTO_OK) {
        pp_size excess = pp_size_sub(table, pp_size_sub(table, a, b), PP_SIZE_1);
        if (is_natural(table, excess, &no)) answer = 0;
    }
    return pp_sizes_forgive(table) ? -1 : answer; /* an overflow on the way decides nothing */
}

/* ---- division -------------------------------------------------------------------------------- */

/* Not negative; none of both is INT64_MIN. */
static int64_t gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

static bool is_maximum(const pp_sizes *t, uint32_t mono)
{
    const pp_atom *atom = pp_mono_atom(t, mono);
    return atom != NULL && atom->kind == PP_ATOM_MAX;
}

/* Splits a into quotient and rest with 0 <= coefficient < c: a = quotient * c + rest. Coefficients of maxima
 * keep their sign (above -c), since N - max(N - 4, 0) is small only together. */
static bool split_by(pp_sizes *t, const pp_poly *a, int64_t c, pp_poly *quotient, pp_poly *rest)
{
    bool ok = true;
    for (size_t i = 0; i < a->n && ok; i++) {
        int64_t coef = a->at[i].coef;
        int64_t q = is_maximum(t, a->at[i].mono) ? coef / c : pp_floor_i64(coef, c), r = coef - q * c;
        if (q != 0) ok = pp_vec_push(quotient, ((pp_term){q, a->at[i].mono})) == PPTO_OK;
        if (r != 0 && ok) ok = pp_vec_push(rest, ((pp_term){r, a->at[i].mono})) == PPTO_OK;
    }
    return ok || (pp_sizes_fail(t, PPTO_E_NOMEM), false);
}

/* Divides rest and c by what divides c and all terms of rest but the constant: floor((g*x + r) / (g*c)) is
 * floor((x + floor(r / g)) / c). Returns the new c. */
static int64_t cancel_content(pp_poly *rest, int64_t c)
{
    int64_t g = c;
    size_t n = 0;
    for (size_t i = 0; i < rest->n; i++) {
        if (rest->at[i].mono != PP_MONO_1) g = gcd(g, rest->at[i].coef);
    }
    for (size_t i = 0; i < rest->n; i++) {
        rest->at[n] = (pp_term){rest->at[i].coef / g, rest->at[i].mono};
        if (rest->at[n].coef != 0) n++;
    }
    rest->n = n;
    return c / g;
}

/* floor(a / c) where a takes at most two values: a line through both. */
static bool floor_of_two(pp_sizes *t, pp_size a, int64_t c, pp_size *out)
{
    pp_size_range range = narrow_range(t, a);
    if (range.lo == INT64_MIN || range.hi == INT64_MAX || range.hi > range.lo + 1) return false;
    int64_t low = pp_floor_i64(range.lo, c), rise = pp_floor_i64(range.hi, c) - low;
    *out = pp_size_const(t, low);
    if (rise != 0) *out = pp_size_add(t, *out, pp_size_sub(t, a, pp_size_const(t, range.lo)));
    return true;
}

/* floor((p + r*q) / (q*c)) where q*c is beyond 64 bits and 0 <= r < c: p, which is not, reaches it once at
 * most. */
static bool floor_beyond(pp_sizes *t, pp_size p, int64_t r, int64_t q, int64_t c, pp_size *out)
{
    int64_t divisor, missing;
    if (pp_mul_i64(q, c, &divisor) || pp_size_range_of(t, p).lo < 0) return false;
    *out = PP_SIZE_0;
    if (!pp_mul_i64(c - r, q, &missing)) return true;
    pp_size reached = pp_size_add(t, pp_size_sub(t, p, pp_size_const(t, missing)), PP_SIZE_1);
    *out = pp_size_max(t, pp_size_min(t, reached, PP_SIZE_1), PP_SIZE_0);
    return true;
}

/* floor(rest / c) where nothing is common and the constant, too, is below c. */
static pp_size floor_of_rest(pp_sizes *t, const pp_poly *rest, int64_t c)
{
    int64_t inner;
    pp_size whole = pp_poly_intern(t, rest), simple;
    if (rest->n == 0 || rest->at[0].mono == PP_MONO_1) return PP_SIZE_0;
    const pp_atom *first = rest->at[0].coef == 1 ? pp_mono_atom(t, rest->at[0].mono) : NULL;
    bool alone = rest->n == 1 || (rest->n == 2 && rest->at[1].mono == PP_MONO_1);
    if (alone && first != NULL && first->kind == PP_ATOM_FLOOR && pp_size_known(t, first->b, &inner) &&
        inner > 0) {
        pp_size p = first->a, q = first->b; /* floor((floor(p / q) + r) / c) = floor((p + r*q) / (q*c)) */
        int64_t constant = rest->n == 2 ? rest->at[1].coef : 0;
        if (floor_beyond(t, p, constant, inner, c, &simple)) return simple;
        pp_size r = pp_size_const(t, constant);
        pp_size numerator = pp_size_add(t, p, pp_size_mul(t, r, q));
        return pp_size_floordiv(t, numerator, pp_size_mul(t, q, pp_size_const(t, c)));
    }
    return pp_atom_intern(t, PP_ATOM_FLOOR, whole, pp_size_const(t, c));
}

static pp_size divide_by_constant(pp_sizes *t, pp_size a, int64_t c)
{
    if (c == 0 || c == INT64_MIN) return pp_atom_intern(t, PP_ATOM_FLOOR, a, pp_size_const(t, c));
    if (c < 0) return divide_by_constant(t, pp_size_sub(t, PP_SIZE_0, a), -c);
    pp_poly whole = {0}, quotient = {0}, rest = {0};
    pp_size result = PP_SIZE_0;
    if (floor_of_two(t, a, c, &result)) return result;
    if (pp_poly_load(t, a, &whole) && split_by(t, &whole, c, &quotient, &rest)) {
        c = cancel_content(&rest, c);
        result = pp_size_add(t, pp_poly_intern(t, &quotient), floor_of_rest(t, &rest, c));
    }
    pp_vec_free(&whole);
    pp_vec_free(&quotient);
    pp_vec_free(&rest);
    return result;
}

/* Long division by leading terms. True and *out where nothing remains. Only a try: an overflow fails nobody.
 */
static bool divide_exactly(pp_sizes *t, const pp_poly *a, const pp_poly *b, pp_size *out)
{
    pp_poly rest = {0}, next = {0}, zero = {0}, quotient = {0};
    bool ok = pp_poly_sum(t, a, &zero, 1, PP_MONO_1, &rest);
    while (ok && rest.n > 0) {
        pp_term lead = rest.at[0], by = b->at[0], q = {0, 0};
        ok = quotient.n < PP_SIZE_MAX_TERMS && by.coef != -1 && lead.coef % by.coef == 0;
        ok = ok && pp_mono_div(t, lead.mono, by.mono, &q.mono);
        if (!ok) break;
        q.coef = lead.coef / by.coef;
        ok = q.coef != INT64_MIN && pp_poly_sum(t, &rest, b, -q.coef, q.mono, &next);
        if (ok && pp_vec_push(&quotient, q) != PPTO_OK) ok = (pp_sizes_fail(t, PPTO_E_NOMEM), false);
        pp_poly swap = rest;
        rest = next;
        next = swap;
    }
    if (ok) *out = pp_poly_intern(t, &quotient);
    pp_vec_free(&rest);
    pp_vec_free(&next);
    pp_vec_free(&quotient);
    return !pp_sizes_forgive(t) && ok && t->status == PPTO_OK;
}

/* The greatest number and monomial that divide all terms of both. */
static bool common_factor(pp_sizes *t, const pp_poly *a, const pp_poly *b, pp_term *out)
{
    *out = b->at[0];
    for (size_t i = 0; i < a->n + b->n; i++) {
        const pp_term *term = i < a->n ? &a->at[i] : &b->at[i - a->n];
        if (term->coef == INT64_MIN) return false;
        out->coef = gcd(out->coef, term->coef);
        if (!pp_mono_gcd(t, out->mono, term->mono, &out->mono)) return false;
    }
    return true;
}

static bool cancel_factor(pp_sizes *t, pp_poly *poly, pp_term factor)
{
    for (size_t i = 0; i < poly->n; i++) {
        poly->at[i].coef /= factor.coef;
        if (!pp_mono_div(t, poly->at[i].mono, factor.mono, &poly->at[i].mono)) return false;
    }
    return true;
}

static pp_size divide_by_poly(pp_sizes *t, pp_size a, pp_size b)
{
    pp_poly x = {0}, y = {0};
    pp_size result = PP_SIZE_0;
    pp_term factor;
    bool ok = pp_poly_load(t, a, &x) && pp_poly_load(t, b, &y);
    if (ok && !divide_exactly(t, &x, &y, &result) && t->status == PPTO_OK) {
        if (common_factor(t, &x, &y, &factor) && (factor.coef != 1 || factor.mono != PP_MONO_1)) {
            ok = cancel_factor(t, &x, factor) && cancel_factor(t, &y, factor);
            a = ok ? pp_poly_intern(t, &x) : PP_SIZE_0;
            b = ok ? pp_poly_intern(t, &y) : PP_SIZE_1;
            result = pp_size_floordiv(t, a, b);
        } else {
            result = pp_atom_intern(t, PP_ATOM_FLOOR, a, b);
        }
    }
    pp_vec_free(&x);
    pp_vec_free(&y);
    return result;
}

pp_size pp_size_floordiv(pp_sizes *table, pp_size a, pp_size b)
{
    int64_t c;
    if (table->status != PPTO_OK) return PP_SIZE_0;
    if (pp_size_known(table, b, &c)) return divide_by_constant(table, a, c);
    const pp_term *lead = &table->terms.at[table->polys.at[b].first];
    if (lead->coef >= 0) return divide_by_poly(table, a, b);
    pp_size minus_a = pp_size_sub(table, PP_SIZE_0, a), minus_b = pp_size_sub(table, PP_SIZE_0, b);
    return table->status == PPTO_OK ? divide_by_poly(table, minus_a, minus_b) : PP_SIZE_0;
}

pp_size pp_size_mod(pp_sizes *table, pp_size a, pp_size b)
{
    return pp_size_sub(table, a, pp_size_mul(table, pp_size_floordiv(table, a, b), b));
}
