/* SPDX-License-Identifier: Apache-2.0
 * What crosses pieces, written with the prims there are so that every join, add and lift happens where the
 * laws say (docs/laws.md); scans are in region_scan.c.
 *
 * Reductions: a unit of a piece folds to states. It is the piece where that holds a power of two of blocks,
 * whose tree is a subtree of the whole one then, else every block. Products: k-blocks are a batch axis; their
 * results are added in order to the carry. */
#include <string.h>

#include "graph/region_build.h"

enum { MOST_K_BLOCKS = 32, MOST_SCAN_BLOCKS = 64, MOST_ROWS = 1 << 30 };

static bool is_power_of_two(int64_t x)
{
    return x > 0 && (x & (x - 1)) == 0;
}

/* ---- monoids ------------------------------------------------------------------------------------------ */

static ppto_status keep_monoid(pp_region *region, const pp_monoid *m, const pp_monoid **out)
{
    for (size_t i = 0; i < region->monoids.n; i++)
        if (memcmp(region->monoids.at[i], m, sizeof *m) == 0) {
            *out = region->monoids.at[i];
            return PPTO_OK;
        }
    pp_monoid *own = pp_arena_alloc(&region->arena, sizeof *own);
    if (!own) return PPTO_E_NOMEM;
    memcpy(own, m, sizeof *own);
    *out = own;
    return pp_vec_push(&region->monoids, own);
}

static void give_states(pp_monoid *m)
{
    m->finish = NULL;
    m->n_results = m->n_states;
    memcpy(m->result, m->state, sizeof m->state);
    m->has_unit = false;
}

ppto_status pp_region_states(pp_region *region, const pp_monoid *m, const pp_monoid **out)
{
    pp_monoid own;
    memcpy(&own, m, sizeof own);
    give_states(&own);
    if (own.position) {
        own.position = false;
        own.n_inputs++;
    }
    return keep_monoid(region, &own, out);
}

ppto_status pp_region_joined(pp_region *region, const pp_monoid *m, bool finish, const pp_monoid **out)
{
    pp_monoid own;
    memcpy(&own, m, sizeof own);
    if (!finish) give_states(&own);
    own.has_unit = false;
    own.lift = own.step = NULL;
    own.joined = true;
    own.position = false;
    own.n_inputs = own.n_states;
    return keep_monoid(region, &own, out);
}

/* ---- limits ------------------------------------------------------------------------------------------- */

/* Elements of the folded axes at one place of the cut axis. */
static int64_t inner_of(const pp_region *region, uint32_t prim)
{
    const pp_prim *p = &region->flat->prims.at[prim];
    uint32_t x = pp_flat_operands(region->flat, prim)[0], rank = pp_flat_type(region->flat, x)->rank;
    const int64_t *dim = pp_trace_dims(&region->trace, x);
    uint32_t axes = p->kind == PP_P_CONTRACT ? ((1u << p->n_k) - 1) << (rank - p->n_k) : p->u.fold.axes;
    int64_t n = 1;
    for (uint32_t i = 0; i < rank; i++)
        if ((axes >> i & 1) && i != region->trace.cut[x]) n *= dim[i];
    return n;
}

bool pp_region_one_unit(const pp_region *region, uint32_t reduce)
{
    return is_power_of_two(inner_of(region, reduce));
}

/* The least power of two of rows that holds whole blocks. */
static int64_t rows_for(int64_t block, int64_t inner)
{
    int64_t rows = 1;
    while (rows * inner % block != 0) rows *= 2;
    return rows;
}

ppto_status pp_region_limits(const pp_region *region, uint32_t prim, int64_t *least, int64_t *most,
                             pp_error *err)
{
    const pp_prim *p = &region->flat->prims.at[prim];
    int64_t inner = p->kind == PP_P_SCAN ? 1 : inner_of(region, prim), block = PP_LANE_BLOCK;
    *most = MOST_ROWS;
    if (inner == 0) return pp_fail(err, PPTO_E_UNSUPPORTED, "it folds an empty axis");
    if (p->kind == PP_P_REDUCE && p->rows) {
        uint32_t runs = p->u.fold.axes >> region->trace.cut[pp_flat_operands(region->flat, prim)[0]];
        block = PP_ROW_BLOCK;
        if ((runs & (runs + 1)) != 0)
            return pp_fail(err, PPTO_E_UNSUPPORTED, "the axes it reduces do not lie together");
    } else if (p->kind == PP_P_SCAN) {
        uint32_t rank = pp_flat_type(region->flat, prim)->rank;
        block = p->axis + 1u == rank ? PP_LANE_BLOCK : PP_ROW_BLOCK;
        *most = MOST_SCAN_BLOCKS * block;
    } else if (p->kind == PP_P_CONTRACT) {
        block = PP_K_BLOCK;
        for (*most = 1; *most * inner < MOST_K_BLOCKS * block; *most *= 2) continue;
    }
    *least = rows_for(block, inner);
    if (*most < *least) *most = *least;
    return PPTO_OK;
}

/* ---- reductions --------------------------------------------------------------------------------------- */

/* The position of every element in the flattened reduced axes, in the shape of the operand. */
static ppto_status positions(pp_build *b, uint32_t axes, const pp_shape *of, int64_t inner, uint32_t *id)
{
    pp_prim iota = {.kind = PP_P_IOTA, .number = PP_NONE, .origin = PP_NONE};
    pp_prim map = {.kind = PP_P_MAP, .number = PP_NONE, .origin = PP_NONE}, literal = iota;
    pp_shape flat = {.rank = 1, .dim = {1}}, at = *of, number = {0};
    uint32_t x[2];
    for (uint32_t i = 0; i < of->rank; i++) {
        if (axes >> i & 1)
            flat.dim[0] *= of->dim[i];
        else
            at.dim[i] = 1;
    }
    PP_TRY(pp_build_start(b, &x[0]));
    literal.kind = PP_P_LITERAL;
    literal.u.bits = (uint64_t)inner;
    PP_TRY(pp_build_add(b, &literal, PPTO_I64, false, &number, NULL, 0, &x[1]));
    map.op = PP_MUL;
    PP_TRY(pp_build_add(b, &map, PPTO_I64, false, &number, x, 2, &x[1]));
    PP_TRY(pp_build_broadcast(b, x[1], &flat, &x[1]));
    PP_TRY(pp_build_add(b, &iota, PPTO_I64, false, &flat, NULL, 0, &x[0]));
    map.op = PP_ADD;
    PP_TRY(pp_build_add(b, &map, PPTO_I64, false, &flat, x, 2, id));
    PP_TRY(pp_build_reshape(b, *id, &at, id));
    return pp_build_broadcast(b, *id, of, id);
}

static ppto_status write_states(pp_build *b, uint32_t prim, const uint32_t *states, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) PP_TRY(pp_build_write(b, b->region->place_of[prim] + i, states[i]));
    return PPTO_OK;
}

static ppto_status one_unit(pp_build *b, uint32_t prim, const pp_monoid *m, const uint32_t *x)
{
    pp_prim p = b->region->flat->prims.at[prim];
    pp_shape shape = pp_build_dims(b, prim), unit = {.rank = shape.rank + 1, .dim = {1}};
    uint32_t fold, states[4];
    p.u.fold.monoid = m;
    PP_TRY(pp_build_add(b, &p, m->state[0], false, &shape, x, m->n_inputs, &fold));
    memcpy(unit.dim + 1, shape.dim, shape.rank * sizeof *shape.dim);
    for (uint32_t i = 0; i < m->n_states; i++) {
        pp_prim part = {.kind = PP_P_PART, .number = i, .origin = PP_NONE};
        PP_TRY(pp_build_add(b, &part, m->state[i], false, &shape, &fold, 1, &states[i]));
        PP_TRY(pp_build_reshape(b, states[i], &unit, &states[i]));
    }
    return write_states(b, prim, states, m->n_states);
}

/* A reduction as blocks: operands are [before…, all that is folded, after…]. */
typedef struct fold_build {
    pp_build *b;
    const pp_monoid *m;
    uint32_t axis; /* the one that is folded */
    bool rows;
    uint32_t x[5];
} fold_build;

/* Elements [from, from + n * length) of the folded axis as n units. */
static ppto_status fold_blocks(fold_build *f, int64_t from, int64_t n, int64_t length, uint32_t *states)
{
    pp_shape shape = pp_build_shape(f->b, f->x[0]);
    uint32_t blocks[5], axis = f->axis;
    memmove(shape.dim + axis + 2, shape.dim + axis + 1, (shape.rank - axis - 1) * sizeof *shape.dim);
    shape.rank++;
    shape.dim[axis] = n;
    shape.dim[axis + 1] = length;
    for (uint32_t i = 0; i < f->m->n_inputs; i++) {
        PP_TRY(pp_build_slice(f->b, f->x[i], axis, from, n * length, &blocks[i]));
        PP_TRY(pp_build_reshape(f->b, blocks[i], &shape, &blocks[i]));
    }
    PP_TRY(pp_build_fold(f->b, PP_P_REDUCE, f->m, axis + 1, f->rows, blocks, states));
    for (uint32_t i = 0; axis != 0 && i < f->m->n_states; i++) { /* units first */
        pp_prim p = {.kind = PP_P_PERMUTE, .number = PP_NONE, .origin = PP_NONE};
        pp_shape own = pp_build_shape(f->b, states[i]), to = own;
        for (uint32_t d = 0; d < own.rank; d++) {
            p.u.axes[d] = (uint8_t)(d == 0 ? axis : d <= axis ? d - 1 : d);
            to.dim[d] = own.dim[p.u.axes[d]];
        }
        PP_TRY(pp_build_add(f->b, &p, f->m->state[i], false, &to, &states[i], 1, &states[i]));
    }
    return PPTO_OK;
}

static ppto_status many_units(fold_build *f, uint32_t prim)
{
    pp_shape shape = pp_build_shape(f->b, f->x[0]), flat = {.rank = f->axis + 1};
    uint32_t axes = f->b->region->flat->prims.at[prim].u.fold.axes, states[4], rest[4];
    int64_t n = 1, block = f->rows ? PP_ROW_BLOCK : PP_LANE_BLOCK;
    memcpy(flat.dim, shape.dim, f->axis * sizeof *flat.dim);
    for (uint32_t i = f->axis; i < shape.rank; i++) {
        if (axes >> i & 1)
            n *= shape.dim[i];
        else
            flat.dim[flat.rank++] = shape.dim[i];
    }
    flat.dim[f->axis] = n;
    for (uint32_t i = 0; i < f->m->n_inputs; i++) PP_TRY(pp_build_reshape(f->b, f->x[i], &flat, &f->x[i]));
    int64_t blocks = n / block, tail = n % block;
    if (blocks != 0) PP_TRY(fold_blocks(f, 0, blocks, block, states));
    if (tail != 0) PP_TRY(fold_blocks(f, n - tail, 1, tail, blocks != 0 ? rest : states));
    for (uint32_t i = 0; blocks != 0 && tail != 0 && i < f->m->n_states; i++)
        PP_TRY(pp_build_concat(f->b, 0, (uint32_t[]){states[i], rest[i]}, 2, &states[i]));
    return write_states(f->b, prim, states, f->m->n_states);
}

ppto_status pp_build_cross_reduce(pp_build *b, uint32_t prim, const uint32_t *x)
{
    const pp_prim *p = &b->region->flat->prims.at[prim];
    const uint32_t *operands = pp_flat_operands(b->region->flat, prim);
    fold_build f = {.b = b, .axis = b->region->trace.cut[operands[0]], .rows = p->rows};
    for (uint32_t i = 0; i < p->n_operands; i++) f.x[i] = x[i];
    PP_TRY(pp_region_states(b->region, p->u.fold.monoid, &f.m));
    if (p->u.fold.monoid->position) {
        pp_shape shape = pp_build_shape(b, f.x[0]);
        PP_TRY(positions(b, p->u.fold.axes, &shape, inner_of(b->region, prim), &f.x[p->n_operands]));
    }
    return pp_region_one_unit(b->region, prim) ? one_unit(b, prim, f.m, f.x) : many_units(&f, prim);
}

ppto_status pp_build_joined(pp_build *b, uint32_t prim, uint32_t *id)
{
    const pp_monoid *m;
    pp_prim p = b->region->flat->prims.at[prim];
    pp_shape shape = pp_build_dims(b, prim);
    uint32_t x[4];
    PP_TRY(pp_region_joined(b->region, p.u.fold.monoid, true, &m));
    for (uint32_t i = 0; i < m->n_states; i++) PP_TRY(pp_build_read(b, b->region->place_of[prim] + i, &x[i]));
    p.rows = shape.rank != 0;
    p.u.fold.monoid = m;
    p.u.fold.axes = 1;
    return pp_build_add(b, &p, m->result[0], false, &shape, x, m->n_states, id);
}

/* ---- products ----------------------------------------------------------------------------------------- */

typedef struct product_build {
    pp_build *b;
    uint32_t n_batch, free[2], x[2]; /* operands with the summed axes flattened: [batch, free, k] */
    uint8_t dtype;
} product_build;

/* k elements [from, from + n * length) as n blocks: [batch, n, free a, free b]. */
static ppto_status block_products(product_build *q, int64_t from, int64_t n, int64_t length, uint32_t *id)
{
    uint32_t x[2];
    for (int i = 0; i < 2; i++) {
        pp_shape shape = pp_build_shape(q->b, q->x[i]), to;
        pp_prim p = {.kind = PP_P_PERMUTE, .number = PP_NONE, .origin = PP_NONE};
        uint32_t k = shape.rank - 1;
        PP_TRY(pp_build_slice(q->b, q->x[i], k, from, n * length, &x[i]));
        shape.dim[k] = n;
        shape.dim[shape.rank++] = length;
        PP_TRY(pp_build_reshape(q->b, x[i], &shape, &x[i]));
        for (uint32_t d = 0, free = q->n_batch; d < shape.rank; d++)
            p.u.axes[d] = (uint8_t)(d == q->n_batch ? k : d < q->n_batch || d > k ? d : free++);
        to = shape;
        for (uint32_t d = 0; d < shape.rank; d++) to.dim[d] = shape.dim[p.u.axes[d]];
        if (q->free[i] != 0) PP_TRY(pp_build_add(q->b, &p, q->dtype, false, &to, &x[i], 1, &x[i]));
    }
    pp_prim p = {.kind = PP_P_CONTRACT,
                 .n_batch = (uint8_t)(q->n_batch + 1),
                 .n_k = 1,
                 .number = PP_NONE,
                 .origin = PP_NONE};
    pp_shape a = pp_build_shape(q->b, x[0]), y = pp_build_shape(q->b, x[1]);
    a.rank--;
    for (uint32_t d = q->n_batch + 1; d + 1 < y.rank; d++) {
        if (a.rank == PPTO_MAX_RANK)
            return pp_fail(q->b->err, PPTO_E_UNSUPPORTED, "a piece of it has too many axes");
        a.dim[a.rank++] = y.dim[d];
    }
    return pp_build_add(q->b, &p, q->dtype, false, &a, x, 2, id);
}

/* Adds the blocks in order to *sum (PP_NONE: there is nothing yet). */
static ppto_status add_blocks(product_build *q, uint32_t products, const pp_shape *result, uint32_t *sum)
{
    int64_t n = pp_build_shape(q->b, products).dim[q->n_batch];
    for (int64_t i = 0; i < n; i++) {
        pp_prim p = {.kind = PP_P_MAP, .op = PP_ADD, .number = PP_NONE, .origin = PP_NONE};
        uint32_t x[2] = {*sum};
        PP_TRY(pp_build_slice(q->b, products, q->n_batch, i, 1, &x[1]));
        PP_TRY(pp_build_reshape(q->b, x[1], result, &x[1]));
        if (*sum == PP_NONE)
            *sum = x[1];
        else
            PP_TRY(pp_build_add(q->b, &p, q->dtype, false, result, x, 2, sum));
    }
    return PPTO_OK;
}

ppto_status pp_build_cross_contract(pp_build *b, uint32_t prim, const uint32_t *operands)
{
    const pp_prim *p = &b->region->flat->prims.at[prim];
    product_build q = {.b = b, .n_batch = p->n_batch, .dtype = pp_flat_type(b->region->flat, prim)->dtype};
    pp_shape result = pp_build_dims(b, prim);
    uint32_t sum = PP_NONE, products;
    int64_t k = 1;
    for (int i = 0; i < 2; i++) {
        uint32_t x = operands[i];
        pp_shape shape = pp_build_shape(b, x);
        k = 1;
        for (uint32_t d = 0; d < p->n_k; d++) k *= shape.dim[--shape.rank];
        q.free[i] = shape.rank - p->n_batch;
        shape.dim[shape.rank++] = k;
        PP_TRY(pp_build_reshape(b, x, &shape, &q.x[i]));
    }
    if (!b->first) PP_TRY(pp_build_read(b, b->region->place_of[prim], &sum));
    if (k >= PP_K_BLOCK) {
        PP_TRY(block_products(&q, 0, k / PP_K_BLOCK, PP_K_BLOCK, &products));
        PP_TRY(add_blocks(&q, products, &result, &sum));
    }
    if (k % PP_K_BLOCK != 0) {
        PP_TRY(block_products(&q, k - k % PP_K_BLOCK, 1, k % PP_K_BLOCK, &products));
        PP_TRY(add_blocks(&q, products, &result, &sum));
    }
    return pp_build_write(b, b->region->place_of[prim], sum);
}
