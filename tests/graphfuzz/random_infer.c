/* SPDX-License-Identifier: Apache-2.0
 * What a node of a random program gives: dtype and sizes from those of its arguments, operator by operator.
 * Written from the semantics, not from the library: a program that is legal here and an error there is a
 * finding, too. */
#include <math.h>
#include <string.h>

#include "random_program.h"

bool fz_is_float(ppto_dtype dtype)
{
    return dtype == PPTO_F32 || dtype == PPTO_F64;
}

bool fz_is_signed(ppto_dtype dtype)
{
    return dtype >= PPTO_I8 && dtype <= PPTO_I64;
}

static int class_of(ppto_dtype dtype)
{
    return dtype == PPTO_BOOL ? FZ_BOOL : fz_is_float(dtype) ? FZ_FLOAT : FZ_INT;
}

int64_t fz_elements(const fz_type *type)
{
    int64_t n = 1;
    for (int i = 0; i < type->rank; i++) n *= type->size[i];
    return n;
}

bool fz_same_type(const fz_type *a, const fz_type *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->size, b->size, (size_t)a->rank * sizeof *a->size) == 0;
}

bool fz_promote(ppto_dtype a, ppto_dtype b, ppto_dtype *out)
{
    if (a == b || b == PPTO_BOOL) return *out = a, true;
    if (a == PPTO_BOOL) return *out = b, true;
    if (fz_is_float(a) || fz_is_float(b)) {
        *out = !fz_is_float(a) ? b : !fz_is_float(b) ? a : PPTO_F64;
        return true;
    }
    if (fz_is_signed(a) == fz_is_signed(b)) return *out = a > b ? a : b, true;
    ppto_dtype s = fz_is_signed(a) ? a : b, u = fz_is_signed(a) ? b : a;
    ppto_dtype room = (ppto_dtype)(u - PPTO_U8 + PPTO_I16); /* the signed one that holds u */
    *out = s > room ? s : room;
    return u != PPTO_U64;
}

bool fz_broadcast(const fz_type *a, const fz_type *b, fz_type *out)
{
    fz_type r = {.dtype = out->dtype, .rank = a->rank > b->rank ? a->rank : b->rank};
    for (int i = 1; i <= r.rank; i++) {
        int64_t x = i <= a->rank ? a->size[a->rank - i] : 1, y = i <= b->rank ? b->size[b->rank - i] : 1;
        if (x != y && x != 1 && y != 1) return false;
        r.size[r.rank - i] = x == 1 ? y : x;
    }
    *out = r;
    return true;
}

static const fz_type *arg(const fz_program *p, const fz_node *n, int i)
{
    return &p->node[n->arg[i]].type;
}

static bool is_number(const fz_program *p, const fz_node *n, int i)
{
    return n->arg[i] >= 0 && p->node[n->arg[i]].op == FZ_NUMBER;
}

static ppto_dtype gives(fz_gives rule, ppto_dtype d)
{
    switch (rule) {
    case FZ_TO_BOOL: return PPTO_BOOL;
    case FZ_TO_FLOAT: return fz_is_float(d) ? d : PPTO_F32;
    case FZ_MEAN: return fz_is_float(d) ? d : PPTO_F32;
    case FZ_TO_I64: return PPTO_I64;
    case FZ_WIDE: return fz_is_float(d) ? d : d >= PPTO_U8 ? PPTO_U64 : PPTO_I64;
    default: return d;
    }
}

/* The dtype of a tensor beside a weak number of one kind. */
static ppto_dtype beside(ppto_dtype d, bool is_float)
{
    if (is_float && !fz_is_float(d)) return PPTO_F32;
    return d == PPTO_BOOL ? PPTO_I64 : d;
}

static bool with_weak(const fz_program *p, fz_node *n, const fz_row *row)
{
    bool literal = n->arg[1] < 0, left = literal && n->flag;
    bool is_float = literal ? n->value != floor(n->value) : p->node[n->arg[1]].type.dtype == PPTO_F32;
    fz_type t = *arg(p, n, 0);
    if (!(class_of(t.dtype) & row->takes) || (is_float && !(row->takes & FZ_FLOAT))) return false;
    if (row->takes == FZ_FLOAT && !is_float && literal) return false; /* a float parameter wants a float */
    if (row->takes == FZ_FLOAT && !is_float) return false;
    if (strncmp(row->name, "logical", 7) == 0 || row->name[0] == '&' || row->name[0] == '|' ||
        row->name[0] == '^')
        if (literal) return false;
    if (strcmp(row->name, "pow") == 0 && left && !is_float && n->value < 0) return false;
    if (row->gives == FZ_TO_FLOAT)
        t.dtype = gives(FZ_TO_FLOAT, t.dtype);
    else
        t.dtype = gives(row->gives, beside(t.dtype, is_float));
    n->type = t;
    return true;
}

static bool infer_binary(const fz_program *p, fz_node *n)
{
    const fz_row *row = &fz_binary[n->variant];
    if (is_number(p, n, 0)) return false;
    if (n->arg[1] < 0 || is_number(p, n, 1)) return with_weak(p, n, row);
    const fz_type *a = arg(p, n, 0), *b = arg(p, n, 1);
    ppto_dtype d;
    if (!(class_of(a->dtype) & row->takes) || !(class_of(b->dtype) & row->takes)) return false;
    if (a->dtype == PPTO_BOOL && b->dtype == PPTO_BOOL && !row->any_bool) return false;
    if (row->gives == FZ_TO_BOOL) {
        d = PPTO_BOOL;
    } else if (row->gives == FZ_TO_FLOAT) {
        d = a->dtype == PPTO_F64 || b->dtype == PPTO_F64 ? PPTO_F64 : PPTO_F32;
    } else {
        if (!fz_promote(a->dtype, b->dtype, &d)) return false;
    }
    if (row->takes == FZ_INT && a->dtype != b->dtype) return false;
    n->type.dtype = d;
    return fz_broadcast(a, b, &n->type);
}

static bool infer_many(const fz_program *p, fz_node *n)
{
    const fz_type *a = arg(p, n, 0), *b = arg(p, n, 1), *c = arg(p, n, 2);
    ppto_dtype d;
    if (n->op == FZ_WHERE) {
        if (a->dtype != PPTO_BOOL || !fz_promote(b->dtype, c->dtype, &d)) return false;
    } else {
        ppto_dtype ab;
        if (a->dtype == PPTO_BOOL || b->dtype == PPTO_BOOL || c->dtype == PPTO_BOOL) return false;
        if (!fz_promote(a->dtype, b->dtype, &ab) || !fz_promote(ab, c->dtype, &d)) return false;
        ppto_dtype ac, bc; /* u64 with signed is an error in every order */
        if (!fz_promote(a->dtype, c->dtype, &ac) || !fz_promote(b->dtype, c->dtype, &bc)) return false;
    }
    fz_type bc = {.dtype = d};
    if (!fz_broadcast(b, c, &bc)) return false;
    n->type.dtype = d;
    return fz_broadcast(a, &bc, &n->type);
}

/* A bit per axis; false where one is out of range or stands twice. */
static bool axis_set(const fz_node *n, int rank, unsigned *set)
{
    *set = 0;
    if (n->n_ints < 0) *set = (1u << rank) - 1;
    for (int i = 0; i < n->n_ints; i++) {
        if (n->ints[i] < 0 || n->ints[i] >= rank || (*set >> n->ints[i] & 1)) return false;
        *set |= 1u << n->ints[i];
    }
    return true;
}

static bool infer_fold(const fz_program *p, fz_node *n)
{
    const fz_row *row = n->op == FZ_REDUCE ? &fz_reduction[n->variant] : &fz_norms[n->variant];
    const fz_type *a = arg(p, n, 0);
    unsigned set;
    int64_t reduced = 1;
    if (!(class_of(a->dtype) & row->takes) || !axis_set(n, a->rank, &set)) return false;
    fz_type t = {.dtype = gives(row->gives, a->dtype)};
    for (int i = 0; i < a->rank; i++) {
        bool gone = set >> i & 1;
        if (gone) reduced *= a->size[i];
        if (n->op == FZ_NORM)
            t.size[t.rank++] = a->size[i];
        else if (!gone || n->flag)
            t.size[t.rank++] = gone ? 1 : a->size[i];
    }
    n->type = t;
    return reduced > 0 || !row->not_empty;
}

static bool infer_slice(const fz_type *a, fz_node *n)
{
    fz_type t = {.dtype = a->dtype};
    for (int i = 0; i < a->rank; i++) {
        const int64_t *s = n->ints + 4 * i;
        if (s[0] == 0) {
            t.size[t.rank++] = a->size[i];
        } else if (s[0] == 2) {
            if (s[1] < 0 || s[1] >= a->size[i]) return false;
        } else {
            int64_t last = s[1] + (s[2] - 1) * s[3];
            if (s[2] < 0 || s[3] == 0) return false;
            if (s[2] > 0 && (s[1] < 0 || s[1] >= a->size[i] || last < 0 || last >= a->size[i])) return false;
            if (s[2] == 0 && (s[1] != 0 || s[3] < 0)) return false;
            t.size[t.rank++] = s[2];
        }
    }
    n->type = t;
    return n->n_ints == 4 * a->rank;
}

static bool infer_pad(const fz_type *a, fz_node *n)
{
    if (n->n_ints != 2 * a->rank || a->rank == 0) return false;
    n->type = *a;
    for (int i = 0; i < a->rank; i++) {
        int64_t before = n->ints[2 * i], after = n->ints[2 * i + 1], most = before > after ? before : after;
        if (n->variant == 1 && most > 0 && a->size[i] < 1) return false;
        if (n->variant == 2 && most >= a->size[i]) return false;
        if (n->variant >= 3 && most > a->size[i]) return false;
        n->type.size[i] += before + after;
    }
    return true;
}

static bool infer_axes(const fz_type *a, fz_node *n)
{
    fz_type t = {.dtype = a->dtype};
    unsigned set;
    int rank = n->op == FZ_EXPAND ? a->rank + n->n_ints : a->rank;
    if (rank > FZ_RANK || n->n_ints < 0 || !axis_set(n, rank, &set)) return false;
    if (n->op == FZ_PERMUTE) {
        if (n->n_ints != a->rank) return false;
        for (int i = 0; i < rank; i++) t.size[i] = a->size[n->ints[i]];
        t.rank = rank;
    } else if (n->op == FZ_FLIP) {
        t = *a;
    } else if (n->op == FZ_EXPAND) {
        for (int i = 0, k = 0; i < rank; i++) t.size[i] = set >> i & 1 ? 1 : a->size[k++];
        t.rank = rank;
    } else {
        for (int i = 0; i < rank; i++) {
            if (!(set >> i & 1))
                t.size[t.rank++] = a->size[i];
            else if (a->size[i] != 1)
                return false;
        }
    }
    n->type = t;
    return true;
}

static bool infer_sizes(const fz_type *a, fz_node *n)
{
    fz_type t = {.dtype = a->dtype, .rank = n->n_ints}, both = t;
    for (int i = 0; i < n->n_ints; i++) t.size[i] = n->ints[i];
    n->type = t;
    if (n->op == FZ_RESHAPE) return fz_elements(&t) == fz_elements(a);
    return fz_broadcast(a, &t, &both) && fz_same_type(&both, &t);
}

static bool infer_join(const fz_program *p, fz_node *n)
{
    fz_type t = *arg(p, n, 0);
    int64_t axis = n->ints[0];
    if (axis < 0 || axis >= t.rank + (n->op == FZ_STACK)) return false;
    for (int i = 1; i < n->n_args; i++) {
        const fz_type *b = arg(p, n, i);
        if (b->rank != t.rank || !fz_promote(t.dtype, b->dtype, &t.dtype)) return false;
        for (int k = 0; k < t.rank; k++)
            if (t.size[k] != b->size[k] && (n->op == FZ_STACK || k != axis)) return false;
        for (int k = 0; k < i; k++)
            if (!fz_promote(arg(p, n, k)->dtype, b->dtype, &(ppto_dtype){0})) return false;
        if (n->op == FZ_CONCAT) t.size[axis] += b->size[axis];
    }
    if (n->op == FZ_STACK) {
        if (t.rank == FZ_RANK) return false;
        memmove(t.size + axis + 1, t.size + axis, (size_t)(t.rank - axis) * sizeof *t.size);
        t.size[axis] = n->n_args;
        t.rank++;
    }
    n->type = t;
    return true;
}

static bool infer_take(const fz_program *p, fz_node *n)
{
    const fz_type *a = arg(p, n, 0), *b = arg(p, n, 1);
    int64_t axis = n->ints[0];
    fz_type t = {.dtype = a->dtype};
    if (class_of(b->dtype) != FZ_INT || axis < 0 || axis >= a->rank || a->rank - 1 + b->rank > FZ_RANK)
        return false;
    if (a->size[axis] == 0 || (ppto_dtype_size(b->dtype) == 1 && a->size[axis] > 127)) return false;
    if (ppto_dtype_size(b->dtype) == 2 && a->size[axis] > 32767) return false;
    for (int i = 0; i < a->rank; i++) {
        if (i != axis)
            t.size[t.rank++] = a->size[i];
        else
            for (int k = 0; k < b->rank; k++) t.size[t.rank++] = b->size[k];
    }
    n->type = t;
    return true;
}

static bool infer_along(const fz_type *a, fz_node *n)
{
    int64_t axis = n->op == FZ_REPEAT || n->op == FZ_ROLL ? n->ints[1] : n->ints[0];
    n->type = *a;
    if (axis < 0 || axis >= a->rank) return false;
    if (n->op == FZ_REPEAT) {
        n->type.size[axis] *= n->ints[0];
    } else if (n->op == FZ_DIFF) {
        n->type.size[axis]--;
        return a->size[axis] >= 1 && a->dtype != PPTO_BOOL;
    } else if (n->op == FZ_SCAN) {
        if (n->variant < 2) n->type.dtype = gives(FZ_WIDE, a->dtype);
        return n->variant < 2 || a->dtype != PPTO_BOOL;
    }
    return true;
}

static bool infer_tile(const fz_type *a, fz_node *n)
{
    n->type = *a;
    for (int i = 0; i < a->rank && i < n->n_ints; i++) n->type.size[i] *= n->ints[i];
    return n->n_ints == a->rank && a->rank > 0;
}

static bool infer_matmul(const fz_type *a, const fz_type *b, fz_node *n)
{
    if (a->rank == 0 || b->rank == 0) return false;
    fz_type x = *a, y = *b, t = {.dtype = n->type.dtype};
    int64_t rows = x.rank > 1 ? x.size[x.rank - 2] : -1, columns = y.rank > 1 ? y.size[y.rank - 1] : -1;
    if (x.size[x.rank - 1] != y.size[y.rank > 1 ? y.rank - 2 : 0]) return false;
    x.rank = x.rank > 2 ? x.rank - 2 : 0;
    y.rank = y.rank > 2 ? y.rank - 2 : 0;
    if (!fz_broadcast(&x, &y, &t) || t.rank + (rows >= 0) + (columns >= 0) > FZ_RANK) return false;
    if (rows >= 0) t.size[t.rank++] = rows;
    if (columns >= 0) t.size[t.rank++] = columns;
    n->type = t;
    return true;
}

static bool infer_product(const fz_program *p, fz_node *n)
{
    const fz_type *a = arg(p, n, 0), *b = arg(p, n, 1);
    ppto_dtype d;
    if (a->dtype == PPTO_BOOL || b->dtype == PPTO_BOOL || !fz_promote(a->dtype, b->dtype, &d)) return false;
    n->type.dtype = d;
    if (n->op == FZ_MATMUL) return infer_matmul(a, b, n);
    if (n->op == FZ_VECDOT) {
        if (a->rank == 0 || b->rank == 0 || a->size[a->rank - 1] != b->size[b->rank - 1]) return false;
        if (!fz_broadcast(a, b, &n->type)) return false;
        n->type.rank--;
        return true;
    }
    fz_type t = {.dtype = d};
    if (n->op == FZ_OUTER) {
        t.rank = 2;
        t.size[0] = fz_elements(a);
        t.size[1] = fz_elements(b);
    } else {
        int k = (int)n->ints[0];
        if (k > a->rank || k > b->rank || a->rank + b->rank - 2 * k > FZ_RANK) return false;
        for (int i = 0; i < k; i++)
            if (a->size[a->rank - k + i] != b->size[i]) return false;
        for (int i = 0; i < a->rank - k; i++) t.size[t.rank++] = a->size[i];
        for (int i = k; i < b->rank; i++) t.size[t.rank++] = b->size[i];
    }
    n->type = t;
    return true;
}

static bool infer_layer_norm(const fz_program *p, fz_node *n)
{
    const fz_type *x = arg(p, n, 0), *w = arg(p, n, 1), *b = arg(p, n, 2);
    if (!fz_is_float(x->dtype) || !fz_is_float(w->dtype) || !fz_is_float(b->dtype)) return false;
    if (x->rank == 0 || w->rank != 1 || b->rank != 1) return false;
    int64_t last = x->size[x->rank - 1];
    n->type = *x;
    if (w->dtype == PPTO_F64 || b->dtype == PPTO_F64) n->type.dtype = PPTO_F64;
    return last > 0 && w->size[0] == last && b->size[0] == last;
}

static bool infer(const fz_program *p, fz_node *n)
{
    const fz_type *a = n->n_args > 0 ? arg(p, n, 0) : NULL;
    if (n->op != FZ_BINARY)
        for (int i = 0; i < n->n_args; i++)
            if (is_number(p, n, i)) return false;
    switch (n->op) {
    case FZ_INPUT:
    case FZ_NUMBER: return true;
    case FZ_UNARY:
        n->type = *a;
        n->type.dtype = gives(fz_unary[n->variant].gives, a->dtype);
        return class_of(a->dtype) & fz_unary[n->variant].takes;
    case FZ_BINARY: return infer_binary(p, n);
    case FZ_WHERE:
    case FZ_FMA: return infer_many(p, n);
    case FZ_CAST: return n->type = *a, n->type.dtype = n->to, true;
    case FZ_CLIP: return n->type = *a, a->dtype != PPTO_BOOL;
    case FZ_PERMUTE:
    case FZ_FLIP:
    case FZ_EXPAND:
    case FZ_SQUEEZE: return infer_axes(a, n);
    case FZ_RESHAPE:
    case FZ_BROADCAST: return infer_sizes(a, n);
    case FZ_SLICE: return infer_slice(a, n);
    case FZ_CONCAT:
    case FZ_STACK: return infer_join(p, n);
    case FZ_PAD: return infer_pad(a, n);
    case FZ_TAKE: return infer_take(p, n);
    case FZ_REPEAT:
    case FZ_ROLL:
    case FZ_DIFF:
    case FZ_SCAN: return infer_along(a, n);
    case FZ_TILE: return infer_tile(a, n);
    case FZ_TRIANGLE: return n->type = *a, a->rank >= 2;
    case FZ_REDUCE:
    case FZ_NORM: return infer_fold(p, n);
    case FZ_LAYER_NORM: return infer_layer_norm(p, n);
    default: return infer_product(p, n);
    }
}

bool fz_infer(const fz_program *program, fz_node *node)
{
    return infer(program, node) && node->type.rank <= FZ_RANK && fz_elements(&node->type) <= FZ_ELEMENTS;
}
