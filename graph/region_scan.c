/* SPDX-License-Identifier: Apache-2.0
 * Scans that cross pieces, written with the prims there are so that every join happens where the laws say
 * (docs/laws.md): the blocks of a piece restart; carries run along the rows of [carry, last of block 0, …],
 * which fold in order because a piece has fewer than 128 blocks. */
#include <string.h>

#include "graph/region_build.h"

typedef struct scan_build {
    pp_build *b;
    uint32_t prim, axis, n_states;
    const pp_monoid *m, *joined; /* of elements; of states */
    int64_t block, n;            /* elements along the axis */
    uint32_t carry[4];           /* carries before every block, [.., blocks, ..]; one less when first */
} scan_build;

/* join(a, b) of states of one shape. */
static ppto_status join(scan_build *s, const uint32_t *left, const uint32_t *right, uint32_t *out)
{
    if (s->n_states == 1) {
        pp_prim p = {.kind = PP_P_MAP, .op = PP_CALL, .number = PP_NONE, .origin = PP_NONE};
        pp_shape shape = pp_build_shape(s->b, left[0]);
        p.u.function = s->m->join;
        return pp_build_add(s->b, &p, s->m->state[0], false, &shape, (uint32_t[]){left[0], right[0]}, 2, out);
    }
    pp_shape one = pp_build_shape(s->b, left[0]);
    uint32_t both[4];
    memmove(one.dim + 1, one.dim, one.rank * sizeof *one.dim);
    one.dim[0] = 1;
    one.rank++;
    for (uint32_t i = 0; i < s->n_states; i++) {
        uint32_t x[2];
        PP_TRY(pp_build_reshape(s->b, left[i], &one, &x[0]));
        PP_TRY(pp_build_reshape(s->b, right[i], &one, &x[1]));
        PP_TRY(pp_build_concat(s->b, 0, x, 2, &both[i]));
    }
    return pp_build_fold(s->b, PP_P_REDUCE, s->joined, 0, true, both, out);
}

/* Elements [from, from + count * length) as `count` blocks that start anew: states [.., count, length, ..].
 */
static ppto_status scan_blocks(scan_build *s, const uint32_t *x, int64_t from, int64_t count, int64_t length,
                               uint32_t *states)
{
    pp_shape shape = pp_build_shape(s->b, x[0]);
    uint32_t blocks[5];
    memmove(shape.dim + s->axis + 2, shape.dim + s->axis + 1, (shape.rank - s->axis - 1) * sizeof *shape.dim);
    shape.rank++;
    shape.dim[s->axis] = count;
    shape.dim[s->axis + 1] = length;
    for (uint32_t i = 0; i < s->m->n_inputs; i++) {
        PP_TRY(pp_build_slice(s->b, x[i], s->axis, from, count * length, &blocks[i]));
        PP_TRY(pp_build_reshape(s->b, blocks[i], &shape, &blocks[i]));
    }
    return pp_build_fold(s->b, PP_P_SCAN, s->m, s->axis + 1, s->axis + 2 != shape.rank, blocks, states);
}

/* The last state of every block: [.., count, ..]. */
static ppto_status lasts(scan_build *s, const uint32_t *states, uint32_t *out)
{
    pp_shape shape = pp_build_shape(s->b, states[0]);
    int64_t length = shape.dim[s->axis + 1];
    memmove(shape.dim + s->axis + 1, shape.dim + s->axis + 2, (shape.rank - s->axis - 2) * sizeof *shape.dim);
    shape.rank--;
    for (uint32_t i = 0; i < s->n_states; i++) {
        PP_TRY(pp_build_slice(s->b, states[i], s->axis + 1, length - 1, 1, &out[i]));
        PP_TRY(pp_build_reshape(s->b, out[i], &shape, &out[i]));
    }
    return PPTO_OK;
}

/* Running joins along the axis, in order: a scan of rows with fewer than 128 of them. */
static ppto_status run_carries(scan_build *s, uint32_t *x)
{
    pp_shape shape = pp_build_shape(s->b, x[0]), rows = shape;
    if (shape.dim[s->axis] == 1) return PPTO_OK;
    rows.dim[rows.rank++] = 1;
    for (uint32_t i = 0; i < s->n_states; i++) PP_TRY(pp_build_reshape(s->b, x[i], &rows, &x[i]));
    PP_TRY(pp_build_fold(s->b, PP_P_SCAN, s->joined, s->axis, true, x, x));
    for (uint32_t i = 0; i < s->n_states; i++) PP_TRY(pp_build_reshape(s->b, x[i], &shape, &x[i]));
    return PPTO_OK;
}

/* carry[at, at + count) joined in front of the blocks: [.., count, length, ..] -> the same shape. */
static ppto_status put_in_front(scan_build *s, int64_t at, const uint32_t *states, uint32_t *out)
{
    pp_shape shape = pp_build_shape(s->b, states[0]), one = shape;
    uint32_t front[4];
    one.dim[s->axis + 1] = 1;
    for (uint32_t i = 0; i < s->n_states; i++) {
        PP_TRY(pp_build_slice(s->b, s->carry[i], s->axis, at, shape.dim[s->axis], &front[i]));
        PP_TRY(pp_build_reshape(s->b, front[i], &one, &front[i]));
        PP_TRY(pp_build_broadcast(s->b, front[i], &shape, &front[i]));
    }
    return join(s, front, states, out);
}

/* The finished states of a run of blocks, the first of which is block `at` of the piece. */
static ppto_status finish_blocks(scan_build *s, int64_t at, const uint32_t *states, uint32_t *out)
{
    pp_shape shape = pp_build_shape(s->b, states[0]), flat;
    int64_t count = shape.dim[s->axis], length = shape.dim[s->axis + 1];
    uint32_t later[4], done[4];
    bool alone = s->b->first && at == 0; /* nothing is in front of block 0 */
    memcpy(done, states, sizeof done);
    if (!alone) {
        PP_TRY(put_in_front(s, s->b->first ? at - 1 : at, states, done));
    } else if (count > 1) {
        for (uint32_t i = 0; i < s->n_states; i++)
            PP_TRY(pp_build_slice(s->b, states[i], s->axis, 1, count - 1, &later[i]));
        PP_TRY(put_in_front(s, 0, later, later));
        for (uint32_t i = 0; i < s->n_states; i++) {
            PP_TRY(pp_build_slice(s->b, states[i], s->axis, 0, 1, &done[i]));
            PP_TRY(pp_build_concat(s->b, s->axis, (uint32_t[]){done[i], later[i]}, 2, &done[i]));
        }
    }
    flat = shape;
    flat.dim[s->axis] = count * length;
    memmove(flat.dim + s->axis + 1, flat.dim + s->axis + 2, (flat.rank - s->axis - 2) * sizeof *flat.dim);
    flat.rank--;
    for (uint32_t i = 0; i < s->n_states; i++) PP_TRY(pp_build_reshape(s->b, done[i], &flat, &out[i]));
    return PPTO_OK;
}

static ppto_status scan_piece(scan_build *s, const uint32_t *x)
{
    int64_t blocks = s->n / s->block, tail = s->n % s->block;
    uint32_t full[4], rest[4], last[2][4], out[2][4], place = s->b->region->place_of[s->prim];
    if (blocks != 0) {
        PP_TRY(scan_blocks(s, x, 0, blocks, s->block, full));
        PP_TRY(lasts(s, full, last[0]));
    }
    if (tail != 0) {
        PP_TRY(scan_blocks(s, x, s->n - tail, 1, tail, rest));
        PP_TRY(lasts(s, rest, last[1]));
    }
    for (uint32_t i = 0; i < s->n_states; i++) {
        uint32_t row[3], n = 0;
        if (!s->b->first) PP_TRY(pp_build_read(s->b, place + i, &row[n++]));
        if (blocks != 0) row[n++] = last[0][i];
        if (tail != 0) row[n++] = last[1][i];
        PP_TRY(pp_build_concat(s->b, s->axis, row, n, &s->carry[i]));
    }
    PP_TRY(run_carries(s, s->carry));
    if (blocks != 0) PP_TRY(finish_blocks(s, 0, full, out[0]));
    if (tail != 0) PP_TRY(finish_blocks(s, blocks, rest, out[blocks != 0]));
    pp_scan_parts parts = {.prim = s->prim};
    for (uint32_t i = 0; i < s->n_states; i++) {
        int64_t n = pp_build_shape(s->b, s->carry[i]).dim[s->axis];
        uint32_t end;
        PP_TRY(pp_build_concat(s->b, s->axis, (uint32_t[]){out[0][i], out[1][i]},
                               blocks != 0 && tail != 0 ? 2 : 1, &parts.part[i]));
        PP_TRY(pp_build_slice(s->b, s->carry[i], s->axis, n - 1, 1, &end));
        PP_TRY(pp_build_write(s->b, place + i, end));
    }
    return pp_vec_push(&s->b->scans, parts);
}

ppto_status pp_build_cross_scan(pp_build *b, uint32_t prim, const uint32_t *x)
{
    const pp_prim *p = &b->region->flat->prims.at[prim];
    scan_build s = {.b = b, .prim = prim, .axis = p->axis, .m = p->u.fold.monoid, .n = b->rows};
    s.n_states = s.m->n_states;
    s.block = p->axis + 1u == pp_flat_type(b->region->flat, prim)->rank ? PP_LANE_BLOCK : PP_ROW_BLOCK;
    PP_TRY(pp_region_joined(b->region, s.m, false, &s.joined));
    return scan_piece(&s, x);
}
