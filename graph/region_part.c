/* SPDX-License-Identifier: Apache-2.0
 * Parts of a region: a flat graph of their own, all sizes known, cut dims as long as the piece. */
#include <string.h>

#include "graph/region_build.h"

ppto_status pp_build_open(pp_build *b, pp_region *region, pp_part *part, pp_error *err)
{
    *b = (pp_build){.region = region, .part = part, .start_prim = PP_NONE, .err = err};
    *part = (pp_part){0};
    PP_TRY(pp_types_create(&part->types));
    pp_flat_init(&part->flat, part->types);
    size_t n = region->flat->prims.n;
    b->made = pp_alloc((n + 1) * sizeof *b->made);
    if (!b->made) return PPTO_E_NOMEM;
    memset(b->made, 0xff, (n + 1) * sizeof *b->made);
    return PPTO_OK;
}

void pp_build_close(pp_build *b)
{
    pp_free(b->made);
    pp_free(b->made_span);
    pp_vec_free(&b->scans);
}

void pp_part_free(pp_part *part)
{
    pp_flat_free(&part->flat);
    pp_types_destroy(part->types);
    pp_vec_free(&part->reads);
    pp_vec_free(&part->spans);
    pp_vec_free(&part->writes);
    *part = (pp_part){0};
}

/* ---- shapes ------------------------------------------------------------------------------------------- */

pp_shape pp_build_dims(const pp_build *b, uint32_t prim)
{
    const pp_trace *t = &b->region->trace;
    pp_shape shape = {.rank = pp_flat_type(b->region->flat, prim)->rank};
    memcpy(shape.dim, pp_trace_dims(t, prim), sizeof shape.dim);
    if (b->spans && t->cut[prim] != PP_WHOLE) shape.dim[t->cut[prim]] = b->rows;
    return shape;
}

pp_shape pp_build_shape(const pp_build *b, uint32_t id)
{
    const pp_type *type = pp_flat_type(&b->part->flat, id);
    pp_shape shape = {.rank = type->rank};
    for (uint32_t i = 0; i < type->rank; i++)
        (void)pp_size_known(pp_types_sizes(b->part->types), type->dim[i], &shape.dim[i]);
    return shape;
}

pp_size pp_build_size(pp_build *b, int64_t value)
{
    return pp_size_const(pp_types_sizes(b->part->types), value);
}

ppto_status pp_build_add(pp_build *b, pp_prim *p, uint8_t dtype, bool weak, const pp_shape *shape,
                         const uint32_t *x, uint32_t n, uint32_t *id)
{
    pp_type type = {.dtype = dtype, .weak = weak, .rank = (uint8_t)shape->rank};
    if (shape->rank > PPTO_MAX_RANK)
        return pp_fail(b->err, PPTO_E_UNSUPPORTED, "a piece would need a tensor of rank %u", shape->rank);
    for (uint32_t i = 0; i < shape->rank; i++) type.dim[i] = pp_build_size(b, shape->dim[i]);
    PP_TRY(pp_sizes_status(pp_types_sizes(b->part->types)));
    PP_TRY(pp_type_intern(b->part->types, &type, &p->type));
    return pp_flat_add(&b->part->flat, p, x, n, id);
}

/* ---- new prims ---------------------------------------------------------------------------------------- */

static pp_prim new_prim(pp_prim_kind kind)
{
    return (pp_prim){.kind = (uint8_t)kind, .number = PP_NONE, .origin = PP_NONE};
}

static bool same_shape(const pp_shape *a, const pp_shape *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof *a->dim) == 0;
}

ppto_status pp_build_reshape(pp_build *b, uint32_t x, const pp_shape *shape, uint32_t *id)
{
    pp_shape own = pp_build_shape(b, x);
    pp_prim p = new_prim(PP_P_RESHAPE);
    *id = x;
    if (same_shape(&own, shape)) return PPTO_OK;
    return pp_build_add(b, &p, pp_flat_type(&b->part->flat, x)->dtype, false, shape, &x, 1, id);
}

ppto_status pp_build_slice(pp_build *b, uint32_t x, uint32_t axis, int64_t start, int64_t length,
                           uint32_t *id)
{
    pp_shape shape = pp_build_shape(b, x);
    pp_prim p = new_prim(PP_P_SLICE);
    *id = x;
    if (start == 0 && length == shape.dim[axis]) return PPTO_OK;
    shape.dim[axis] = length;
    p.axis = (uint8_t)axis;
    p.u.slice.start = pp_build_size(b, start);
    p.u.slice.step = 1;
    return pp_build_add(b, &p, pp_flat_type(&b->part->flat, x)->dtype, false, &shape, &x, 1, id);
}

ppto_status pp_build_concat(pp_build *b, uint32_t axis, const uint32_t *x, uint32_t n, uint32_t *id)
{
    pp_shape shape = pp_build_shape(b, x[0]);
    pp_prim p = new_prim(PP_P_CONCAT);
    *id = x[0];
    if (n == 1) return PPTO_OK;
    for (uint32_t i = 1; i < n; i++) shape.dim[axis] += pp_build_shape(b, x[i]).dim[axis];
    p.axis = (uint8_t)axis;
    return pp_build_add(b, &p, pp_flat_type(&b->part->flat, x[0])->dtype, false, &shape, x, n, id);
}

ppto_status pp_build_broadcast(pp_build *b, uint32_t x, const pp_shape *shape, uint32_t *id)
{
    pp_shape own = pp_build_shape(b, x);
    pp_prim p = new_prim(PP_P_BROADCAST);
    *id = x;
    if (same_shape(&own, shape)) return PPTO_OK;
    return pp_build_add(b, &p, pp_flat_type(&b->part->flat, x)->dtype, false, shape, &x, 1, id);
}

/* REDUCE (results; axis: the one that goes) or SCAN (states) and their parts. */
ppto_status pp_build_fold(pp_build *b, uint8_t kind, const pp_monoid *m, uint32_t axis, bool rows,
                          const uint32_t *x, uint32_t *parts)
{
    pp_shape shape = pp_build_shape(b, x[0]);
    pp_prim p = new_prim((pp_prim_kind)kind);
    const uint8_t *dtypes = kind == PP_P_SCAN ? m->state : m->result;
    uint32_t n = kind == PP_P_SCAN ? m->n_states : m->n_results, fold;
    p.rows = rows;
    p.u.fold.monoid = m;
    p.u.fold.axes = 1u << axis;
    if (kind == PP_P_SCAN) {
        p.axis = (uint8_t)axis;
    } else {
        for (uint32_t i = axis; i + 1 < shape.rank; i++) shape.dim[i] = shape.dim[i + 1];
        shape.rank--;
    }
    PP_TRY(pp_build_add(b, &p, dtypes[0], false, &shape, x, m->n_inputs, &fold));
    for (uint32_t i = 0; i < n; i++) {
        pp_prim part = new_prim(PP_P_PART);
        part.number = i;
        PP_TRY(pp_build_add(b, &part, dtypes[i], false, &shape, &fold, 1, &parts[i]));
    }
    return PPTO_OK;
}

/* ---- places ------------------------------------------------------------------------------------------- */

static ppto_status add_input(pp_build *b, uint32_t place, uint32_t span, uint8_t dtype, bool weak,
                             const pp_shape *shape, uint32_t *id)
{
    pp_prim p = new_prim(PP_P_INPUT);
    p.number = (uint32_t)b->part->reads.n;
    PP_TRY(pp_vec_push(&b->part->reads, place));
    PP_TRY(pp_vec_push(&b->part->spans, span));
    return pp_build_add(b, &p, dtype, weak, shape, NULL, 0, id);
}

ppto_status pp_build_read(pp_build *b, uint32_t place, uint32_t *id)
{
    const pp_place *at = &b->region->places.at[place];
    pp_shape shape = {.rank = at->rank};
    memcpy(shape.dim, at->dim, sizeof shape.dim);
    if (at->kind == PP_AT_STATES) shape.dim[0] = b->units > 1 ? b->units : 1;
    return add_input(b, place, PP_NONE, at->dtype, false, &shape, id);
}

ppto_status pp_build_write(pp_build *b, uint32_t place, uint32_t id)
{
    PP_TRY(pp_vec_push(&b->part->writes, place));
    return pp_vec_push(&b->part->flat.outputs, id);
}

ppto_status pp_build_start(pp_build *b, uint32_t *id)
{
    pp_shape number = {0};
    uint32_t place = 0;
    if (b->start_prim == PP_NONE) {
        pp_prim p = new_prim(PP_P_MAP);
        while (b->region->places.at[place].kind != PP_AT_START) place++;
        PP_TRY(add_input(b, place, PP_NONE, PPTO_I64, true, &number, &b->start_prim));
        p.op = PP_CAST;
        p.weak_cast = true;
        PP_TRY(pp_build_add(b, &p, PPTO_I64, false, &number, &b->start_prim, 1, &b->start_prim));
    }
    *id = b->start_prim;
    return PPTO_OK;
}

ppto_status pp_build_input(pp_build *b, uint32_t id, uint32_t span, uint32_t *made)
{
    const pp_type *type = pp_flat_type(b->region->flat, id);
    uint32_t number = b->region->flat->prims.at[id].number, place = 0;
    bool cut = b->region->trace.cut[id] != PP_WHOLE;
    pp_shape shape = pp_build_dims(b, id);
    for (;; place++) {
        const pp_place *at = &b->region->places.at[place];
        if (at->kind == PP_AT_INPUT && at->number == number && at->cut == cut) break;
    }
    return add_input(b, place, span, type->dtype, type->weak, &shape, made);
}

/* ---- copies ------------------------------------------------------------------------------------------- */

ppto_status pp_build_iota(pp_build *b, uint32_t id, uint32_t *made)
{
    pp_prim p = new_prim(PP_P_IOTA);
    pp_shape shape = pp_build_dims(b, id);
    return pp_build_add(b, &p, PPTO_I64, false, &shape, NULL, 0, made);
}

/* The numbers in a prim that are known now. */
static void settle(pp_build *b, pp_prim *p)
{
    if (p->kind == PP_P_LITERAL && p->number != PP_NONE) {
        p->u.bits = b->region->literals[p->number];
        p->number = PP_NONE;
    } else if (p->kind == PP_P_SIZE) {
        p->u.bits = (uint64_t)pp_region_size(b->region, p->u.size);
        p->kind = PP_P_LITERAL;
        p->number = PP_NONE;
    } else if (p->kind == PP_P_SLICE) {
        p->u.slice.start = pp_build_size(b, pp_region_size(b->region, p->u.slice.start));
    } else if (p->kind == PP_P_PAD) {
        p->u.before = pp_build_size(b, pp_region_size(b->region, p->u.before));
    }
}

ppto_status pp_build_plain(pp_build *b, uint32_t id, const uint32_t *x, uint32_t *made)
{
    pp_prim p = b->region->flat->prims.at[id];
    const pp_type *type = pp_flat_type(b->region->flat, id);
    pp_shape shape = pp_build_dims(b, id);
    settle(b, &p);
    return pp_build_add(b, &p, type->dtype, type->weak, &shape, x, p.n_operands, made);
}

/* Read from a place instead of being computed here. */
static bool is_read(const pp_build *b, uint32_t id)
{
    const pp_region *r = b->region;
    const pp_prim *p = &r->flat->prims.at[id];
    uint32_t place = r->place_of[id];
    if (r->trace.kept[id]) return true; /* it is cut, so only who takes its row asks for all of it */
    if (p->kind == PP_P_CONTRACT && r->trace.cross[id]) return !b->spans || r->trace.depth[id] <= b->now_pass;
    if (place == PP_NONE || r->places.at[place].kind != PP_AT_VALUE) return false;
    return b->spans || r->trace.depth[id] < b->now_pass;
}

static bool is_leaf(const pp_build *b, uint32_t id)
{
    const pp_prim *p = &b->region->flat->prims.at[id];
    return is_read(b, id) || (!b->spans && p->kind == PP_P_REDUCE && b->region->trace.cross[id]);
}

ppto_status pp_build_whole(pp_build *b, uint32_t id)
{
    const pp_flat *flat = b->region->flat;
    const pp_prim *p = &flat->prims.at[id];
    uint32_t few[64], *x = p->n_operands <= 64 ? few : pp_alloc(p->n_operands * sizeof *x);
    if (!x) return PPTO_E_NOMEM;
    for (uint32_t k = 0; k < p->n_operands; k++) x[k] = b->made[pp_flat_operands(flat, id)[k]];
    ppto_status status;
    if (is_read(b, id))
        status = pp_build_read(b, b->region->trace.kept[id] ? b->region->row_of[id] : b->region->place_of[id],
                               &b->made[id]);
    else if (p->kind == PP_P_INPUT)
        status = pp_build_input(b, id, PP_NONE, &b->made[id]);
    else if (p->kind == PP_P_IOTA)
        status = pp_build_iota(b, id, &b->made[id]);
    else if (p->kind == PP_P_REDUCE && b->region->trace.cross[id])
        status = pp_build_joined(b, id, &b->made[id]);
    else
        status = pp_build_plain(b, id, x, &b->made[id]);
    if (x != few) pp_free(x);
    return status;
}

void pp_build_needs(const pp_build *b, uint8_t *need)
{
    const pp_flat *flat = b->region->flat;
    for (uint32_t id = (uint32_t)flat->prims.n; id-- > 0;)
        for (uint32_t k = 0; need[id] && !is_leaf(b, id) && k < flat->prims.at[id].n_operands; k++)
            need[pp_flat_operands(flat, id)[k]] = 1;
}

ppto_status pp_build_copy(pp_build *b, const uint8_t *root)
{
    size_t n = b->region->flat->prims.n;
    uint8_t *need = pp_calloc(n + 1, 1);
    if (!need) return PPTO_E_NOMEM;
    memcpy(need, root, n);
    pp_build_needs(b, need);
    ppto_status status = PPTO_OK;
    for (uint32_t id = 0; status == PPTO_OK && id < n; id++)
        if (need[id]) status = pp_build_whole(b, id);
    pp_free(need);
    return status;
}
