/* SPDX-License-Identifier: Apache-2.0
 * The generator: draws an operator, arguments among the nodes so far and parameters, keeps what fz_infer
 * finds legal. An operand that does not fit is replaced by a new input, a literal or a bound number, so that
 * most draws succeed. Sizes come from a small pool per program, so that shapes meet; the pool comes from the
 * list of sizes at which loops change (vector tails, blocks, empty). */
#include "generate_parts.h"

#include <string.h>

static const int64_t sizes[] = {0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 64, 65, 127, 1000};
static const double reals[] = {0.5, -1.25, 0.1, 1.5, -0.75, 1e-3, 2.5, -3.5, 1e10 + 0.5};

bool fz_chance(fz_maker *m, int percent)
{
    return fz_below(&m->r, 100) < percent;
}

int64_t fz_pool_size(fz_maker *m)
{
    return fz_chance(m, 12) ? 1 : m->pool[fz_below(&m->r, 5)];
}

static ppto_dtype draw_dtype(fz_maker *m)
{
    int k = fz_below(&m->r, 100);
    return k < 45 ? PPTO_F32 : k < 60 ? PPTO_F64 : k < 70 ? PPTO_I32 : (ppto_dtype)fz_below(&m->r, 9);
}

static fz_type draw_type(fz_maker *m)
{
    static const int ranks[] = {0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 5, 5, 6};
    fz_type t = {.dtype = draw_dtype(m), .rank = ranks[fz_below(&m->r, 20)]};
    for (int i = 0; i < t.rank; i++) {
        t.size[i] = fz_pool_size(m);
        for (int k = 0; fz_elements(&t) == 0 && k <= i; k++)
            if (fz_chance(m, 80) && t.size[k] == 0) t.size[k] = 2;
        fz_type head = t;
        head.rank = i + 1;
        if (fz_elements(&head) > FZ_ELEMENTS / 4) t.size[i] = 1 + fz_below(&m->r, 3);
        if (fz_elements(&head) > FZ_ELEMENTS) t.size[i] = 1;
    }
    while (fz_elements(&t) > FZ_ELEMENTS) t.rank--;
    return t;
}

/* Appends a node that fz_infer accepts. Returns its index, -1 when it is refused. */
int fz_append(fz_maker *m, fz_node *n)
{
    if (m->p->n == FZ_NODES || !fz_infer(m->p, n)) return -1;
    int64_t work = fz_work(m->p, n);
    if (m->work + work > FZ_WORK) return -1;
    m->work += work;
    for (int k = 0; k < n->n_args; k++)
        if (n->arg[k] >= 0) m->used[n->arg[k]] = true;
    m->used[m->p->n] = false;
    m->p->node[m->p->n] = *n;
    return m->p->n++;
}

int fz_new_input(fz_maker *m, fz_type type)
{
    static const int fills[] = {FZ_SMALL,   FZ_SMALL,      FZ_UNIFORM, FZ_UNIFORM,
                                FZ_UNIFORM, FZ_WIDE_RANGE, FZ_SPECIAL};
    fz_node n = {.op = FZ_INPUT, .type = type, .seed = fz_next(&m->r), .fill = fills[fz_below(&m->r, 7)]};
    if (fz_chance(m, 30)) n.strides = 1 + fz_below(&m->r, FZ_STRIDES - 1);
    if (fz_elements(&type) > FZ_ELEMENTS || type.rank > FZ_RANK || m->inputs >= 40) return -1;
    m->inputs++;
    return fz_append(m, &n);
}

/* A tensor so far, rather a recent one, rather one that is not used yet. */
static int any_node(fz_maker *m)
{
    int n = m->p->n, i;
    for (int tries = fz_chance(m, 60) ? 4 : 0; tries > 0; tries--) {
        i = fz_below(&m->r, n);
        if (!m->used[i] && m->p->node[i].op > FZ_NUMBER) return i;
    }
    do {
        int near = n < 6 ? n : 6;
        i = fz_chance(m, 65) ? n - 1 - fz_below(&m->r, near) : fz_below(&m->r, n);
    } while (m->p->node[i].op == FZ_NUMBER);
    return i;
}

const fz_type *fz_type_of(fz_maker *m, int node)
{
    return &m->p->node[node].type;
}

/* Fills arg[k] of n with a node that makes n legal; false after some tries. */
bool fz_find(fz_maker *m, fz_node *n, int k)
{
    for (int tries = 0; tries < 6; tries++) {
        n->arg[k] = any_node(m);
        if (fz_infer(m->p, n)) return true;
    }
    return false;
}

/* A type that broadcasts with t: leading axes left out, axes of size 1. */
static fz_type beside(fz_maker *m, fz_type t)
{
    int drop = t.rank > 0 && fz_chance(m, 40) ? fz_below(&m->r, t.rank) + (t.rank == 1) : 0;
    t.rank -= drop;
    memmove(t.size, t.size + drop, (size_t)t.rank * sizeof *t.size);
    for (int i = 0; i < t.rank; i++)
        if (fz_chance(m, 25)) t.size[i] = 1;
    return t;
}

static int draw_binary(fz_maker *m, fz_node *n)
{
    n->variant = fz_below(&m->r, fz_binary_n);
    if (fz_chance(m, 40)) n->variant = fz_below(&m->r, 4); /* + - * / */
    n->n_args = 2;
    if (fz_chance(m, 22)) { /* a literal */
        n->arg[1] = -1;
        n->flag = fz_chance(m, 30);
        n->value = fz_chance(m, 50) ? reals[fz_below(&m->r, 9)] : fz_below(&m->r, 6);
        if (n->value > 0 && fz_chance(m, 20) && fz_is_signed(fz_type_of(m, n->arg[0])->dtype))
            n->value = -n->value;
        return fz_append(m, n);
    }
    if (fz_chance(m, 8)) { /* a number bound at run */
        fz_node number = {.op = FZ_NUMBER, .type = {.dtype = fz_chance(m, 60) ? PPTO_F32 : PPTO_I64}};
        number.value = number.type.dtype == PPTO_I64 ? fz_below(&m->r, 6) : reals[fz_below(&m->r, 8)];
        n->arg[1] = fz_append(m, &number);
        int made = n->arg[1] < 0 ? -1 : fz_append(m, n);
        if (made < 0 && n->arg[1] >= 0) m->p->n--;
        return made;
    }
    if (fz_find(m, n, 1)) return fz_append(m, n);
    fz_type t = beside(m, *fz_type_of(m, n->arg[0]));
    n->arg[1] = fz_new_input(m, t);
    return n->arg[1] < 0 ? -1 : fz_append(m, n);
}

static int draw_many(fz_maker *m, fz_node *n)
{
    n->n_args = 3;
    fz_type t = *fz_type_of(m, n->arg[0]);
    if (n->op == FZ_WHERE && t.dtype != PPTO_BOOL) {
        fz_type c = beside(m, t);
        c.dtype = PPTO_BOOL;
        n->arg[1] = n->arg[0];
        n->arg[0] = fz_new_input(m, c);
        if (n->arg[0] < 0) return -1;
    } else {
        if (n->op == FZ_WHERE) t.dtype = draw_dtype(m);
        n->arg[1] = fz_new_input(m, beside(m, t));
        if (n->arg[1] < 0) return -1;
    }
    n->arg[2] = n->arg[1];
    if (fz_find(m, n, 2)) return fz_append(m, n);
    n->arg[2] = fz_chance(m, 50) ? n->arg[1] : fz_new_input(m, beside(m, *fz_type_of(m, n->arg[1])));
    return n->arg[2] < 0 ? -1 : fz_append(m, n);
}

/* Some of `rank` axes, in random order; at least `least`. */
void fz_draw_axes(fz_maker *m, fz_node *n, int rank, int least)
{
    int64_t order[FZ_RANK];
    for (int i = 0; i < rank; i++) {
        int k = fz_below(&m->r, i + 1);
        order[i] = i;
        order[i] = order[k];
        order[k] = i;
    }
    n->n_ints = rank <= least ? rank : least + fz_below(&m->r, rank - least + 1);
    if (n->n_ints > 2 && fz_chance(m, 50)) n->n_ints = 1;
    memcpy(n->ints, order, sizeof order);
}

static int draw_fold(fz_maker *m, fz_node *n)
{
    const fz_type *t = fz_type_of(m, n->arg[0]);
    n->n_args = 1;
    if (n->op == FZ_SCAN) {
        if (t->rank == 0) return -1;
        n->variant = fz_below(&m->r, 4);
        n->n_ints = 1;
        n->ints[0] = fz_below(&m->r, t->rank);
    } else if (n->op == FZ_NORM) {
        n->variant = fz_below(&m->r, fz_norms_n);
        fz_draw_axes(m, n, t->rank, 1);
        if (t->rank > 0 && fz_chance(m, 60)) n->n_ints = 1, n->ints[0] = t->rank - 1;
    } else {
        n->variant = fz_chance(m, 50) ? fz_below(&m->r, 5) : fz_below(&m->r, fz_reduction_n);
        n->flag = fz_chance(m, 40);
        fz_draw_axes(m, n, t->rank, fz_chance(m, 97) ? 1 : 0);
        if (fz_chance(m, 20)) n->n_ints = -1;
    }
    return fz_append(m, n);
}

static int draw_layer_norm(fz_maker *m, fz_node *n)
{
    const fz_type *t = fz_type_of(m, n->arg[0]);
    n->n_args = 3;
    if (t->rank == 0 || !fz_is_float(t->dtype)) return -1;
    fz_type w = {.dtype = t->dtype, .rank = 1, .size = {t->size[t->rank - 1]}};
    if ((n->arg[1] = fz_new_input(m, w)) < 0 || (n->arg[2] = fz_new_input(m, w)) < 0) return -1;
    return fz_append(m, n);
}

static int draw_product(fz_maker *m, fz_node *n)
{
    fz_type t = *fz_type_of(m, n->arg[0]), b = {.dtype = t.dtype};
    n->n_args = 2;
    if (t.rank == 0 || t.dtype == PPTO_BOOL) return -1;
    if (n->op == FZ_TENSORDOT) {
        n->n_ints = 1;
        n->ints[0] = 1 + fz_below(&m->r, t.rank < 3 ? t.rank : 3);
    }
    if (fz_find(m, n, 1)) return fz_append(m, n);
    if (n->op == FZ_VECDOT) {
        b = t;
        if (t.rank > 1 && fz_chance(m, 50)) b.size[0] = 1;
    } else if (n->op == FZ_MATMUL) {
        if (fz_chance(m, 20) && t.rank > 2) b.size[b.rank++] = fz_chance(m, 50) ? 1 : t.size[t.rank - 3];
        b.size[b.rank++] = t.size[t.rank - 1];
        if (b.rank == 2 || fz_chance(m, 75))
            b.size[b.rank++] = fz_chance(m, 60) ? fz_pool_size(m) : 1 + fz_below(&m->r, 9);
    } else if (n->op == FZ_TENSORDOT) {
        for (int i = 0; i < n->ints[0]; i++) b.size[b.rank++] = t.size[t.rank - (int)n->ints[0] + i];
        if (fz_chance(m, 70)) b.size[b.rank++] = fz_pool_size(m);
    } else {
        b.rank = 1;
        b.size[0] = fz_pool_size(m);
    }
    n->arg[1] = fz_new_input(m, b);
    return n->arg[1] < 0 ? -1 : fz_append(m, n);
}

/* Three blocks of 1024 products and more: two axes of sizes of the list. */
static int draw_long(fz_maker *m, fz_node *n)
{
    fz_type a = {
        .dtype = fz_chance(m, 70) ? PPTO_F32 : PPTO_F64, .rank = 3, .size = {1 + fz_below(&m->r, 3), 64, 65}};
    fz_type b = {.dtype = a.dtype, .rank = 3, .size = {64, 65, 1 + fz_below(&m->r, 4)}};
    n->n_args = 2;
    n->n_ints = 1;
    n->ints[0] = 2;
    if ((n->arg[0] = fz_new_input(m, a)) < 0 || (n->arg[1] = fz_new_input(m, b)) < 0) return -1;
    return fz_append(m, n);
}

static int draw_unary(fz_maker *m, fz_node *n)
{
    n->variant = fz_below(&m->r, fz_unary_n);
    n->n_args = 1;
    return fz_append(m, n);
}

static int draw_cast(fz_maker *m, fz_node *n)
{
    n->n_args = 1;
    n->to = draw_dtype(m);
    if (n->op == FZ_CLIP) {
        n->n_ints = 2;
        n->ints[0] = fz_below(&m->r, 2);
        n->ints[1] = 2 + fz_below(&m->r, 5);
    }
    return fz_append(m, n);
}

static int draw(fz_maker *m)
{
    static const struct {
        int weight;
        fz_op op;
        int (*make)(fz_maker *, fz_node *);
    } table[] = {
        {22, FZ_UNARY, draw_unary},
        {34, FZ_BINARY, draw_binary},
        {5, FZ_WHERE, draw_many},
        {2, FZ_FMA, draw_many},
        {7, FZ_CAST, draw_cast},
        {2, FZ_CLIP, draw_cast},
        {6, FZ_PERMUTE, fz_make_movement},
        {5, FZ_RESHAPE, fz_make_movement},
        {9, FZ_SLICE, fz_make_movement},
        {4, FZ_FLIP, fz_make_movement},
        {2, FZ_EXPAND, fz_make_movement},
        {2, FZ_SQUEEZE, fz_make_movement},
        {3, FZ_BROADCAST, fz_make_movement},
        {5, FZ_CONCAT, fz_make_join},
        {2, FZ_STACK, fz_make_join},
        {4, FZ_PAD, fz_make_movement},
        {3, FZ_TAKE, fz_make_take},
        {2, FZ_REPEAT, fz_make_movement},
        {2, FZ_TILE, fz_make_movement},
        {2, FZ_ROLL, fz_make_movement},
        {2, FZ_DIFF, fz_make_movement},
        {2, FZ_TRIANGLE, fz_make_movement},
        {22, FZ_REDUCE, draw_fold},
        {4, FZ_NORM, draw_fold},
        {2, FZ_LAYER_NORM, draw_layer_norm},
        {5, FZ_SCAN, draw_fold},
        {7, FZ_MATMUL, draw_product},
        {2, FZ_VECDOT, draw_product},
        {2, FZ_TENSORDOT, draw_product},
        {1, FZ_OUTER, draw_product},
        {1, FZ_TENSORDOT, draw_long},
        {4, FZ_MATMUL, fz_make_chain},
        {4, FZ_REDUCE, fz_make_folded},
    };
    int sum = 0, k, i = 0, before = m->p->n;
    for (size_t t = 0; t < sizeof table / sizeof *table; t++) sum += table[t].weight;
    for (k = fz_below(&m->r, sum); k >= table[i].weight; i++) k -= table[i].weight;
    fz_node n = {.op = table[i].op};
    n.arg[0] = any_node(m);
    int made = table[i].make(m, &n);
    if (made < 0) m->p->n = before; /* inputs made for it go, too */
    return made;
}

static void draw_outputs(fz_maker *m)
{
    fz_program *p = m->p;
    bool used[FZ_NODES] = {false};
    for (int i = 0; i < p->n; i++)
        for (int k = 0; k < p->node[i].n_args; k++)
            if (p->node[i].arg[k] >= 0) used[p->node[i].arg[k]] = true;
    for (int i = p->n - 1; i >= 0 && p->n_outputs < FZ_OUTPUTS - 2; i--)
        if (!used[i] && p->node[i].op > FZ_NUMBER) p->output[p->n_outputs++] = i;
    for (int tries = 0; tries < 2; tries++)
        if (fz_chance(m, 25)) p->output[p->n_outputs++] = any_node(m);
}

void fz_generate(uint64_t seed, fz_program *out)
{
    fz_maker m = {.r = {seed * 0x2545f4914f6cdd1du + 77}, .p = out};
    memset(out, 0, sizeof *out);
    out->seed = seed;
    for (int i = 0; i < 5; i++) m.pool[i] = sizes[1 + fz_below(&m.r, fz_chance(&m, 60) ? 8 : 14)];
    if (fz_chance(&m, 12)) m.pool[4] = 0;
    int k = fz_below(&m.r, 100);
    int target = 1 + fz_below(&m.r, k < 50 ? 8 : k < 85 ? 30 : k < 97 ? 80 : 200), statements = 0;
    fz_new_input(&m, draw_type(&m));
    if (fz_chance(&m, 70)) fz_new_input(&m, draw_type(&m));
    for (int tries = 0; statements < target && tries < 8 * target + 40; tries++) {
        if (draw(&m) >= 0) statements++;
        if (fz_chance(&m, 6)) fz_new_input(&m, draw_type(&m));
    }
    draw_outputs(&m);
    if (out->n_outputs == 0) out->output[out->n_outputs++] = 0;
    fz_prune(out);
}
