/* SPDX-License-Identifier: Apache-2.0
 * Drawing the operators that move elements: permutations, slices, joins, padding, positions. */
#include "generate_parts.h"

static void draw_slice(fz_maker *m, fz_node *n, const fz_type *t)
{
    n->n_ints = 4 * t->rank;
    for (int i = 0; i < t->rank; i++) {
        int64_t *s = n->ints + 4 * i, size = t->size[i];
        int k = fz_below(&m->r, 10);
        if (k < 4 || size == 0) continue;
        if (k == 9) {
            s[0] = 2;
            s[1] = fz_below(&m->r, (int)size);
            continue;
        }
        int64_t step = 1 + fz_below(&m->r, 3), first = fz_below(&m->r, (int)size > 4 ? 4 : (int)size);
        int64_t room = (size - first + step - 1) / step;
        int64_t length = fz_chance(m, 60) ? room : 1 + fz_below(&m->r, (int)room);
        s[0] = 1;
        s[1] = fz_chance(m, 50) ? first : first + (length - 1) * step;
        s[2] = length;
        s[3] = s[1] == first ? step : -step;
        if (fz_chance(m, 3)) s[1] = 0, s[2] = 0, s[3] = 1;
    }
}

static void draw_reshape(fz_maker *m, fz_node *n, const fz_type *t)
{
    int64_t left = fz_elements(t);
    if (left == 0) {
        n->n_ints = t->rank;
        for (int i = 0; i < t->rank; i++) n->ints[i] = t->size[t->rank - 1 - i];
        return;
    }
    static const int64_t factors[] = {2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 31, 64, 127};
    int rank = 1 + fz_below(&m->r, 4);
    for (int i = 0; i + 1 < rank; i++) {
        int64_t f = factors[fz_below(&m->r, 13)];
        if (fz_chance(m, 30) && t->rank > 0) f = t->size[fz_below(&m->r, t->rank)];
        if (left % f != 0) f = 1;
        n->ints[n->n_ints++] = f;
        left /= f;
    }
    n->ints[n->n_ints++] = left;
    int k = fz_below(&m->r, n->n_ints); /* the large one anywhere */
    n->ints[n->n_ints - 1] = n->ints[k];
    n->ints[k] = left;
}

int fz_make_movement(fz_maker *m, fz_node *n)
{
    const fz_type *t = fz_type_of(m, n->arg[0]);
    n->n_args = 1;
    switch (n->op) {
    case FZ_PERMUTE: fz_draw_axes(m, n, t->rank, t->rank); break;
    case FZ_FLIP: fz_draw_axes(m, n, t->rank, 1); break;
    case FZ_EXPAND:
        if (t->rank == FZ_RANK) return -1;
        n->n_ints = 1;
        n->ints[0] = fz_below(&m->r, t->rank + 1);
        break;
    case FZ_SQUEEZE:
        for (int i = 0; i < t->rank; i++)
            if (t->size[i] == 1) n->ints[n->n_ints++] = i;
        break;
    case FZ_RESHAPE: draw_reshape(m, n, t); break;
    case FZ_SLICE: draw_slice(m, n, t); break;
    case FZ_BROADCAST: {
        int extra = t->rank < 4 ? fz_below(&m->r, 3) : 0;
        for (int i = 0; i < extra; i++) n->ints[n->n_ints++] = fz_pool_size(m);
        for (int i = 0; i < t->rank; i++)
            n->ints[n->n_ints++] = t->size[i] == 1 ? fz_pool_size(m) : t->size[i];
        break;
    }
    case FZ_TILE:
        for (int i = 0; i < t->rank; i++) n->ints[n->n_ints++] = 1 + fz_below(&m->r, 3);
        break;
    case FZ_PAD:
        n->variant = fz_chance(m, 50) ? 0 : fz_below(&m->r, 5);
        n->value = fz_below(&m->r, 3);
        for (int i = 0; i < 2 * t->rank; i++)
            n->ints[n->n_ints++] = fz_chance(m, 50) ? 0 : fz_below(&m->r, 4);
        break;
    case FZ_REPEAT:
    case FZ_ROLL:
        if (t->rank == 0) return -1;
        n->n_ints = 2;
        n->ints[0] = n->op == FZ_ROLL ? fz_below(&m->r, 9) - 4 : fz_below(&m->r, 4);
        n->ints[1] = fz_below(&m->r, t->rank);
        break;
    case FZ_TRIANGLE:
        n->variant = fz_below(&m->r, 2);
        n->n_ints = 1;
        n->ints[0] = fz_below(&m->r, 5) - 2;
        break;
    default: /* FZ_DIFF */
        if (t->rank == 0) return -1;
        n->n_ints = 1;
        n->ints[0] = fz_below(&m->r, t->rank);
    }
    return n->n_ints == 0 && n->op != FZ_RESHAPE ? -1 : fz_append(m, n);
}

int fz_make_join(fz_maker *m, fz_node *n)
{
    fz_type t = *fz_type_of(m, n->arg[0]);
    n->n_args = 2;
    n->n_ints = 1;
    if (t.rank == 0 && n->op == FZ_CONCAT) return -1;
    n->ints[0] = fz_below(&m->r, t.rank + (n->op == FZ_STACK));
    if (!fz_find(m, n, 1)) {
        if (n->op == FZ_CONCAT) t.size[n->ints[0]] = fz_pool_size(m);
        n->arg[1] = fz_new_input(m, t);
        if (n->arg[1] < 0) return -1;
    }
    if (fz_chance(m, 30)) n->arg[n->n_args++] = n->arg[fz_below(&m->r, 2)];
    return fz_append(m, n);
}

int fz_make_take(fz_maker *m, fz_node *n)
{
    const fz_type *t = fz_type_of(m, n->arg[0]);
    if (t->rank == 0) return -1;
    n->n_args = 2;
    n->n_ints = 1;
    n->ints[0] = fz_below(&m->r, t->rank);
    if (!fz_find(m, n, 1)) {
        fz_type positions = {.dtype = fz_chance(m, 50) ? PPTO_I64 : PPTO_I32, .rank = fz_below(&m->r, 3)};
        for (int i = 0; i < positions.rank; i++) positions.size[i] = 1 + fz_below(&m->r, 9);
        n->arg[1] = fz_new_input(m, positions);
    }
    return n->arg[1] < 0 ? -1 : fz_append(m, n);
}
