/* SPDX-License-Identifier: Apache-2.0
 * Which elements an access of a kernel program touches. Where every axis moves one dimension only, the set is
 * a product of one set per dimension: an arithmetic progression where its terms form one, else a set of bits.
 * Guards narrow the dimension whose axes they read. Everything else (a diagonal, a guard across dimensions)
 * is walked point by point. */
#include <string.h>

#include "base/checked.h"
#include "runtime/report.h"

enum { MAX_AXES = 32, UNOWNED = 255 };

typedef struct term { /* that moves: coefficient and size are not trivial */
    uint8_t axis;
    int64_t coef, size;
} term;

typedef struct line { /* an affine with the values of its slots */
    int64_t base;
    uint32_t n;
    term term[MAX_AXES];
} line;

static void read_line(const pp_toucher *t, uint32_t affine, line *out)
{
    const pp_affine *a = &t->program->affines[affine];
    out->base = t->slot[a->base];
    out->n = 0;
    for (uint32_t i = 0; i < a->n_terms && out->n < MAX_AXES; i++) {
        const pp_term *p = &t->program->terms[a->first_term + i];
        int64_t size = t->slot[t->program->axes[p->axis].size], coef = t->slot[p->coef];
        if (coef != 0 && size > 1) out->term[out->n++] = (term){p->axis, coef, size};
    }
}

static void range_of(const line *e, int64_t *lo, int64_t *hi)
{
    *lo = *hi = e->base;
    for (uint32_t i = 0; i < e->n; i++) {
        int64_t far = e->term[i].coef * (e->term[i].size - 1);
        if (far < 0)
            *lo += far;
        else
            *hi += far;
    }
}

/* ---- one dimension
 * ---------------------------------------------------------------------------------------------------- */

static void clip(pp_touch_dim *d)
{
    if (d->step < 0) {
        d->start += d->step * (d->count - 1);
        d->step = -d->step;
    }
    if (d->count <= 1) d->step = 1;
    if (d->start < 0) {
        int64_t skip = (-d->start + d->step - 1) / d->step;
        d->start += skip * d->step;
        d->count -= skip;
    }
    if (d->count > 0 && d->start + d->step * (d->count - 1) >= d->size)
        d->count = d->start >= d->size ? 0 : (d->size - 1 - d->start) / d->step + 1;
    if (d->count < 0) d->count = 0;
}

/* Values a of an axis with lo <= base + coef * a < hi. */
static void narrow(const line *e, int64_t lo, int64_t hi, int64_t *first, int64_t *last)
{
    int64_t c = e->term[0].coef, a = lo - e->base, b = hi - 1 - e->base; /* a <= c * x <= b */
    if (c < 0) {
        int64_t swap = -a;
        a = -b;
        b = swap;
        c = -c;
    }
    int64_t from = a > 0 ? (a + c - 1) / c : -(-a / c), to = b >= 0 ? b / c : -((-b + c - 1) / c);
    if (from > *first) *first = from;
    if (to < *last) *last = to;
}

/* Terms without guards that cover a progression together: a split axis, a window. */
static bool progression(const line *e, pp_touch_dim *d)
{
    term t[MAX_AXES];
    memcpy(t, e->term, e->n * sizeof *t);
    d->start = e->base;
    for (uint32_t i = 0; i < e->n; i++)
        if (t[i].coef < 0) {
            d->start += t[i].coef * (t[i].size - 1);
            t[i].coef = -t[i].coef;
        }
    for (uint32_t i = 1; i < e->n; i++)
        for (uint32_t k = i; k > 0 && t[k].coef < t[k - 1].coef; k--) {
            term swap = t[k];
            t[k] = t[k - 1];
            t[k - 1] = swap;
        }
    d->step = e->n ? t[0].coef : 1;
    d->count = e->n ? t[0].size : 1;
    for (uint32_t i = 1; i < e->n; i++) {
        int64_t gap = t[i].coef / d->step;
        if (t[i].coef % d->step != 0 || gap > d->count) return false;
        d->count += (t[i].size - 1) * gap;
    }
    clip(d);
    return true;
}

typedef struct bound { /* a guard */
    line e;
    int64_t lo, hi;
} bound;

static int64_t value_at(const line *e, const uint8_t *place, const int64_t *at)
{
    int64_t sum = e->base;
    for (uint32_t i = 0; i < e->n; i++) sum += e->term[i].coef * at[place[e->term[i].axis]];
    return sum;
}

/* The axes of some affines as an odometer: place[axis] is its digit. */
typedef struct odometer {
    uint32_t n;
    uint8_t place[256];
    int64_t size[MAX_AXES], at[MAX_AXES];
} odometer;

static void odometer_add(odometer *o, const line *e)
{
    for (uint32_t i = 0; i < e->n; i++) {
        bool known = false;
        for (uint32_t k = 0; k < o->n; k++) known |= o->place[e->term[i].axis] == k && o->size[k] != 0;
        if (known || o->n == MAX_AXES) continue;
        o->place[e->term[i].axis] = (uint8_t)o->n;
        o->size[o->n++] = e->term[i].size;
    }
}

static int64_t odometer_points(const odometer *o)
{
    int64_t points = 1;
    for (uint32_t k = 0; k < o->n; k++)
        if (!pp_mul_i64(points, o->size[k], &points)) return INT64_MAX;
    return points;
}

static bool odometer_next(odometer *o)
{
    for (uint32_t k = o->n; k-- > 0;) {
        if (++o->at[k] < o->size[k]) return true;
        o->at[k] = 0;
    }
    return false;
}

static bool inside(const bound *guard, uint32_t n, const odometer *o)
{
    for (uint32_t g = 0; g < n; g++) {
        int64_t v = value_at(&guard[g].e, o->place, o->at);
        if (v < guard[g].lo || v >= guard[g].hi) return false;
    }
    return true;
}

static void whole_range(const line *e, pp_touch_dim *d)
{
    int64_t hi;
    range_of(e, &d->start, &hi);
    d->step = 1;
    d->count = hi - d->start + 1;
    clip(d);
}

/* By enumeration into bits; the enclosing range when that is too much. */
static ppto_status enumerate(const pp_toucher *t, const line *e, const bound *guard, uint32_t n,
                             pp_touch_dim *d)
{
    odometer o;
    memset(&o, 0, sizeof o);
    memset(o.place, UNOWNED, sizeof o.place);
    odometer_add(&o, e);
    for (uint32_t g = 0; g < n; g++) odometer_add(&o, &guard[g].e);
    if (d->size > PP_TOUCH_LIMIT || odometer_points(&o) > PP_TOUCH_LIMIT) {
        whole_range(e, d);
        return PPTO_OK;
    }
    d->bits = pp_arena_alloc(t->arena, (size_t)d->size + 1);
    if (!d->bits) return PPTO_E_NOMEM;
    d->count = 0;
    do {
        int64_t v = value_at(e, o.place, o.at);
        if (v < 0 || v >= d->size || d->bits[v] || !inside(guard, n, &o)) continue;
        d->bits[v] = 1;
        d->count++;
    } while (odometer_next(&o));
    return PPTO_OK;
}

static ppto_status make_dim(const pp_toucher *t, const line *e, const bound *guard, uint32_t n,
                            pp_touch_dim *d)
{
    bool simple = e->n == 1;
    for (uint32_t g = 0; g < n; g++)
        simple &= guard[g].e.n == 1 && guard[g].e.term[0].axis == e->term[0].axis;
    if (n == 0 && progression(e, d)) return PPTO_OK;
    if (!simple) return enumerate(t, e, guard, n, d);
    int64_t first = 0, last = e->term[0].size - 1;
    for (uint32_t g = 0; g < n; g++) narrow(&guard[g].e, guard[g].lo, guard[g].hi, &first, &last);
    d->start = e->base + e->term[0].coef * first;
    d->step = e->term[0].coef;
    d->count = last >= first ? last - first + 1 : 0;
    clip(d);
    return PPTO_OK;
}

/* ---- an access
 * ----------------------------------------------------------------------------------------------------------
 */

static bool claim(uint8_t *owner, const line *e, uint8_t dim)
{
    bool alone = true;
    for (uint32_t i = 0; i < e->n; i++) {
        alone &= owner[e->term[i].axis] == UNOWNED;
        owner[e->term[i].axis] = dim;
    }
    return alone;
}

/* The one dimension whose axes a guard reads; UNOWNED when it reads none of any. false: several dimensions,
 * or axes that move no dimension beside others. */
static bool dim_of(const uint8_t *owner, const line *e, uint8_t *dim)
{
    *dim = e->n ? owner[e->term[0].axis] : UNOWNED;
    for (uint32_t i = 1; i < e->n; i++)
        if (owner[e->term[i].axis] != *dim || *dim == UNOWNED) return false;
    return true;
}

/* Guards on axes that move no dimension: does each such axis have a place inside all of them? */
static bool satisfiable(const bound *guard, const uint8_t *of, uint32_t n)
{
    for (uint32_t g = 0; g < n; g++) {
        if (of[g] != UNOWNED || guard[g].e.n != 1) continue;
        const term *axis = &guard[g].e.term[0];
        int64_t first = 0, last = axis->size - 1;
        for (uint32_t k = 0; k < n; k++)
            if (of[k] == UNOWNED && guard[k].e.n == 1 && guard[k].e.term[0].axis == axis->axis)
                narrow(&guard[k].e, guard[k].lo, guard[k].hi, &first, &last);
        if (last < first) return false;
    }
    return true;
}

/* Any index may come, but no more than there are points that ask. */
static void by_index(const pp_toucher *t, uint32_t axes, pp_touch_dim *d)
{
    int64_t points = 1;
    for (uint32_t a = 0; a < t->program->n_axes && points < d->size; a++)
        if (axes >> a & 1) points *= t->slot[t->program->axes[a].size];
    d->step = 1;
    d->count = points < d->size ? points : d->size;
}

static ppto_status make_dims(const pp_toucher *t, const pp_access *a, pp_touch *out, const bound *guard,
                             const uint8_t *of)
{
    for (uint32_t d = 0; d < out->rank; d++) {
        const pp_affine *affine = &t->program->affines[a->first_affine + d];
        bound own[64];
        uint32_t n = 0;
        line e;
        if (affine->value != PP_NONE) {
            by_index(t, t->masks[affine->value], &out->dim[d]);
            continue;
        }
        read_line(t, a->first_affine + d, &e);
        for (uint32_t g = 0; out->product && g < a->n_guards; g++)
            if (of[g] == d) own[n++] = guard[g];
        if (out->product)
            PP_TRY(make_dim(t, &e, own, n, &out->dim[d]));
        else
            whole_range(&e, &out->dim[d]);
    }
    return PPTO_OK;
}

ppto_status pp_touch_access(const pp_toucher *t, const pp_access *a, uint32_t rank, const int64_t *shape,
                            pp_touch *out, bool *any)
{
    uint8_t owner[256], of[64];
    bound guard[64];
    line e;
    memset(out, 0, sizeof *out);
    memset(owner, UNOWNED, sizeof owner);
    *any = false;
    out->access = a;
    out->rank = rank;
    out->product = a->n_guards <= 64;
    for (uint32_t d = 0; d < rank; d++) {
        out->dim[d].size = shape[d];
        read_line(t, a->first_affine + d, &e);
        if (!claim(owner, &e, (uint8_t)d)) out->product = false;
    }
    for (uint32_t g = 0; g < a->n_guards && g < 64; g++) {
        const pp_guard *from = &t->program->guards[a->first_guard + g];
        int64_t lo, hi;
        read_line(t, from->affine, &guard[g].e);
        guard[g].lo = t->slot[from->lo];
        guard[g].hi = t->slot[from->hi];
        range_of(&guard[g].e, &lo, &hi);
        if (hi < guard[g].lo || lo >= guard[g].hi) return PPTO_OK;
        if (!dim_of(owner, &guard[g].e, &of[g])) out->product = false;
    }
    if (out->product && !satisfiable(guard, of, a->n_guards)) return PPTO_OK;
    PP_TRY(make_dims(t, a, out, guard, of));
    *any = true;
    for (uint32_t d = 0; d < rank; d++) *any &= out->dim[d].count > 0;
    return PPTO_OK;
}

/* ---- sets together
 * ------------------------------------------------------------------------------------------------------- */

bool pp_touch_same_dim(const pp_touch_dim *a, const pp_touch_dim *b)
{
    if (a->count != b->count || !a->bits != !b->bits) return false;
    return a->bits ? memcmp(a->bits, b->bits, (size_t)a->size) == 0
                   : a->start == b->start && a->step == b->step;
}

static void mark_dim(const pp_touch_dim *d, uint8_t *bits)
{
    for (int64_t i = 0; d->bits && i < d->size; i++) bits[i] |= d->bits[i];
    for (int64_t i = 0; !d->bits && i < d->count; i++) bits[d->start + i * d->step] = 1;
}

/* Intervals without gaps inside: merged by repeatedly taking the lowest that is left. */
static int64_t union_of_intervals(const pp_touch *touch, size_t n, uint32_t dim)
{
    int64_t total = 0, end = 0;
    for (size_t taken = 0; taken < n;) {
        const pp_touch_dim *next = NULL;
        taken = 0;
        for (size_t i = 0; i < n; i++) {
            const pp_touch_dim *d = &touch[i].dim[dim];
            if (d->start + d->count <= end)
                taken++;
            else if (!next || d->start < next->start)
                next = d;
        }
        if (!next) break;
        int64_t from = next->start > end ? next->start : end;
        total += next->start + next->count - from;
        end = next->start + next->count;
    }
    return total;
}

int64_t pp_touch_union(const pp_toucher *t, const pp_touch *touch, size_t n, uint32_t dim)
{
    bool intervals = true;
    for (size_t i = 0; i < n; i++) intervals &= !touch[i].dim[dim].bits && touch[i].dim[dim].step == 1;
    if (intervals) return union_of_intervals(touch, n, dim);
    int64_t size = touch[0].dim[dim].size, total = 0;
    uint8_t *bits = size <= PP_TOUCH_LIMIT ? pp_arena_alloc(t->arena, (size_t)size + 1) : NULL;
    if (!bits) return -1;
    for (size_t i = 0; i < n; i++) mark_dim(&touch[i].dim[dim], bits);
    for (int64_t i = 0; i < size; i++) total += bits[i];
    return total;
}

static void mark_product(const pp_touch *touch, uint32_t dim, int64_t base, uint8_t *bits)
{
    const pp_touch_dim *d = &touch->dim[dim];
    if (dim == touch->rank) {
        bits[base] = 1;
        return;
    }
    for (int64_t i = 0; d->bits && i < d->size; i++)
        if (d->bits[i]) mark_product(touch, dim + 1, base * d->size + i, bits);
    for (int64_t i = 0; !d->bits && i < d->count; i++)
        mark_product(touch, dim + 1, base * d->size + d->start + i * d->step, bits);
}

static bool walk(const pp_toucher *t, const pp_touch *touch, uint8_t *bits)
{
    const pp_access *a = touch->access;
    line e[PPTO_MAX_RANK];
    bound guard[64];
    odometer o;
    memset(&o, 0, sizeof o);
    memset(o.place, UNOWNED, sizeof o.place);
    if (a->n_guards > 64) return false;
    for (uint32_t d = 0; d < touch->rank; d++) {
        if (t->program->affines[a->first_affine + d].value != PP_NONE) return false;
        read_line(t, a->first_affine + d, &e[d]);
        odometer_add(&o, &e[d]);
    }
    for (uint32_t g = 0; g < a->n_guards; g++) {
        const pp_guard *from = &t->program->guards[a->first_guard + g];
        read_line(t, from->affine, &guard[g].e);
        guard[g].lo = t->slot[from->lo];
        guard[g].hi = t->slot[from->hi];
        odometer_add(&o, &guard[g].e);
    }
    if (odometer_points(&o) > PP_TOUCH_LIMIT) return false;
    do {
        int64_t at = 0;
        bool in = inside(guard, a->n_guards, &o);
        for (uint32_t d = 0; in && d < touch->rank; d++) {
            int64_t v = value_at(&e[d], o.place, o.at);
            in = v >= 0 && v < touch->dim[d].size;
            at = at * touch->dim[d].size + v;
        }
        if (in) bits[at] = 1;
    } while (odometer_next(&o));
    return true;
}

bool pp_touch_mark(const pp_toucher *t, const pp_touch *touch, uint8_t *bits)
{
    if (!touch->product) return walk(t, touch, bits);
    mark_product(touch, 0, 0, bits);
    return true;
}
