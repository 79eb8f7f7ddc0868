/* SPDX-License-Identifier: Apache-2.0
 * Products with row stages behind them and further products behind those: rare where every operator is drawn
 * by itself, and one kernel (graph/fuse_chain.c). What is drawn between them is whatever keeps the rows:
 * operators by element, with broadcast operands, and softmax, norms, folds and scans along the last axis.
 * And folds and scans of matrices behind operators by element, along either axis: wide enough for the forms
 * that short rows and few columns do not take. */
#include "generate_parts.h"

static int64_t draw_size(fz_maker *m, int most)
{
    return fz_chance(m, 60) ? fz_pool_size(m) : 1 + fz_below(&m->r, most);
}

/* node @ a new matrix of its own, shared by or of each batch; turned: on the other side. */
static int add_product(fz_maker *m, int node)
{
    const fz_type *t = fz_type_of(m, node);
    fz_type b = {.dtype = t->dtype};
    fz_node n = {.op = FZ_MATMUL, .n_args = 2};
    if (fz_chance(m, 50))
        for (int i = 0; i + 2 < t->rank; i++) b.size[b.rank++] = t->size[i];
    b.size[b.rank++] = t->size[t->rank - 1];
    b.size[b.rank++] = draw_size(m, 40);
    n.arg[0] = node;
    n.arg[1] = fz_new_input(m, b);
    return n.arg[1] < 0 ? -1 : fz_append(m, &n);
}

static int add_map(fz_maker *m, int node)
{
    fz_node n = {.op = FZ_BINARY, .variant = fz_below(&m->r, 4), .n_args = 2};
    fz_type beside = *fz_type_of(m, node);
    n.arg[0] = node;
    for (int i = 0; i < beside.rank; i++)
        if (fz_chance(m, 40)) beside.size[i] = 1;
    n.arg[1] = fz_chance(m, 40) ? -1 : fz_new_input(m, beside);
    n.value = 0.5 + fz_below(&m->r, 3);
    return fz_append(m, &n);
}

static int add_row_stage(fz_maker *m, int node)
{
    const int last = fz_type_of(m, node)->rank - 1;
    fz_node n = {.n_args = 1, .n_ints = 1, .ints = {last}};
    const int k = fz_below(&m->r, 10);
    n.arg[0] = node;
    n.op = k < 6 ? FZ_NORM : k < 8 ? FZ_REDUCE : FZ_SCAN;
    n.flag = true; /* the axis stays, so that rows do */
    n.variant = n.op == FZ_NORM ? fz_below(&m->r, fz_norms_n) : fz_below(&m->r, 4);
    return fz_append(m, &n);
}

int fz_make_chain(fz_maker *m, fz_node *unused)
{
    static int (*const stage[])(fz_maker *, int) = {add_map, add_row_stage, add_row_stage, add_product};
    fz_type t = {.dtype = fz_chance(m, 75) ? PPTO_F32 : PPTO_F64, .rank = 2 + fz_below(&m->r, 3)};
    (void)unused;
    for (int i = 0; i < t.rank; i++) t.size[i] = i + 2 < t.rank ? 1 + fz_below(&m->r, 3) : draw_size(m, 70);
    if (fz_elements(&t) > FZ_ELEMENTS / 4) t.size[t.rank - 1] = 1 + fz_below(&m->r, 9);
    int node = fz_new_input(m, t), made = -1;
    if (node >= 0) made = fz_chance(m, 85) ? add_product(m, node) : add_row_stage(m, node);
    for (int left = fz_below(&m->r, 6); made >= 0 && left > 0; left--) {
        node = made;
        made = stage[fz_below(&m->r, 4)](m, node);
        if (made < 0) return node;
    }
    return made;
}

static int add_fold(fz_maker *m, int node)
{
    fz_node n = {.op = fz_chance(m, 85) ? FZ_REDUCE : FZ_SCAN, .n_args = 1, .n_ints = 1};
    n.arg[0] = node;
    n.ints[0] = fz_below(&m->r, 2);
    n.variant = fz_below(&m->r, n.op == FZ_SCAN ? 4 : fz_reduction_n);
    return fz_append(m, &n);
}

int fz_make_folded(fz_maker *m, fz_node *unused)
{
    static const ppto_dtype dtypes[] = {PPTO_F32, PPTO_F32, PPTO_F64, PPTO_I32};
    fz_type t = {.dtype = dtypes[fz_below(&m->r, 4)], .rank = 2};
    (void)unused;
    t.size[0] = 1 + fz_below(&m->r, 150);
    t.size[1] = 20 + fz_below(&m->r, 110);
    int node = fz_new_input(m, t), made = node;
    for (int left = 1 + fz_below(&m->r, 3); made >= 0 && left > 0; left--) {
        made = add_map(m, node);
        if (made >= 0) node = made;
    }
    if (node < 0) return -1;
    made = add_fold(m, node);
    return made >= 0 ? made : node;
}
