/* SPDX-License-Identifier: Apache-2.0
 * Parts of a region: a flat graph of their own, all sizes known, cut dims as long as the piece. */
#include <string.h>

#include "graph/region_build.h"

ppto_status pp_build_open(pp_build *b, pp_region *region, pp_part *part, pp_error *err)
{
    *b = (pp_build){.region = region, .part = part, .start = PP_NONE, .err = err};
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
    pp_vec_free(&b->scans);
}

void pp_part_free(pp_part *part)
{
    pp_flat_free(&part->flat);
    pp_types_destroy(part->types);
    pp_vec_free(&part->reads);
    pp_vec_free(&part->writes);
    *part = (pp_part){0};
}

/* ---- shapes ------------------------------------------------------------------------------------------- */

pp_shape pp_build_dims(const pp_build *b, uint32_t prim)
{
    const pp_trace *t = &b->region->trace;
    pp_shape shape = {.rank = pp_flat_type(b->region->flat, prim)->rank};
    memcpy(shape.dim, pp_trace_dims(t, prim), sizeof shape.dim);
    if (b->piece && t->cut[prim] != PP_WHOLE) shape.dim[t->cut[prim]] = b->rows;
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

static pp_size size_of(pp_build *b, int64_t value)
{
    return pp_size_const(pp_types_sizes(b->part->types), value);
}

ppto_status pp_build_add(pp_build *b, pp_prim *p, uint8_t dtype, bool weak, const pp_shape *shape,
                         const uint32_t *x, uint32_t n, uint32_t *id)
{
    pp_type type = {.dtype = dtype, .weak = weak, .rank = (uint8_t)shape->rank};
    if (shape->rank > PPTO_MAX_RANK)
        return pp_fail(b->err, PPTO_E_UNSUPPORTED, "a piece would need a tensor of rank %u", shape->rank);
    for (uint32_t i = 0; i < shape->rank; i++) type.dim[i] = size_of(b, shape->dim[i]);
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
    p.u.slice.start = size_of(b, start);
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

static ppto_status add_input(pp_build *b, uint32_t place, uint8_t dtype, bool weak, const pp_shape *shape,
                             uint32_t *id)
{
    pp_prim p = new_prim(PP_P_INPUT);
    p.number = (uint32_t)b->part->reads.n;
    PP_TRY(pp_vec_push(&b->part->reads, place));
    return pp_build_add(b, &p, dtype, weak, shape, NULL, 0, id);
}

ppto_status pp_build_read(pp_build *b, uint32_t place, uint32_t *id)
{
    const pp_place *at = &b->region->places.at[place];
    pp_shape shape = {.rank = at->rank};
    memcpy(shape.dim, at->dim, sizeof shape.dim);
    if (at->kind == PP_AT_STATES) shape.dim[0] = b->units > 1 ? b->units : 1;
    return add_input(b, place, at->dtype, false, &shape, id);
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
    if (b->start == PP_NONE) {
        pp_prim p = new_prim(PP_P_MAP);
        while (b->region->places.at[place].kind != PP_AT_START) place++;
        PP_TRY(add_input(b, place, PPTO_I64, true, &number, &b->start));
        p.op = PP_CAST;
        p.weak_cast = true;
        PP_TRY(pp_build_add(b, &p, PPTO_I64, false, &number, &b->start, 1, &b->start));
    }
    *id = b->start;
    return PPTO_OK;
}

static ppto_status read_input(pp_build *b, uint32_t id)
{
    const pp_type *type = pp_flat_type(b->region->flat, id);
    uint32_t number = b->region->flat->prims.at[id].number, place = 0;
    bool cut = b->region->trace.cut[id] != PP_WHOLE;
    pp_shape shape = pp_build_dims(b, id);
    for (;; place++) {
        const pp_place *at = &b->region->places.at[place];
        if (at->kind == PP_AT_INPUT && at->number == number && at->cut == cut) break;
    }
    return add_input(b, place, type->dtype, type->weak, &shape, &b->made[id]);
}

/* ---- copies ------------------------------------------------------------------------------------------- */

static ppto_status copy_iota(pp_build *b, uint32_t id)
{
    pp_prim p = new_prim(PP_P_IOTA), add = new_prim(PP_P_MAP);
    pp_shape shape = pp_build_dims(b, id);
    uint32_t x[2];
    PP_TRY(pp_build_add(b, &p, PPTO_I64, false, &shape, NULL, 0, &x[0]));
    b->made[id] = x[0];
    if (!b->piece || b->region->trace.cut[id] == PP_WHOLE) return PPTO_OK;
    PP_TRY(pp_build_start(b, &x[1]));
    PP_TRY(pp_build_broadcast(b, x[1], &shape, &x[1]));
    add.op = PP_ADD;
    return pp_build_add(b, &add, PPTO_I64, false, &shape, x, 2, &b->made[id]);
}

static ppto_status known_size(pp_build *b, pp_size size, int64_t *out)
{
    return pp_size_eval(pp_types_sizes(b->region->flat->types), size, b->region->names, out);
}

static ppto_status copy_plain(pp_build *b, uint32_t id)
{
    const pp_flat *flat = b->region->flat;
    const pp_type *type = pp_flat_type(flat, id);
    pp_prim p = flat->prims.at[id];
    pp_shape shape = pp_build_dims(b, id);
    uint32_t x[64], *operands = p.n_operands <= 64 ? x : pp_alloc(p.n_operands * sizeof *x);
    int64_t size = 0;
    ppto_status status = operands ? PPTO_OK : PPTO_E_NOMEM;
    for (uint32_t i = 0; status == PPTO_OK && i < p.n_operands; i++)
        operands[i] = b->made[pp_flat_operands(flat, id)[i]];
    if (status == PPTO_OK && p.kind == PP_P_LITERAL && p.number != PP_NONE) {
        p.u.bits = b->region->literals[p.number];
        p.number = PP_NONE;
    } else if (status == PPTO_OK && p.kind == PP_P_SIZE) {
        status = known_size(b, p.u.size, &size);
        p.kind = PP_P_LITERAL;
        p.u.bits = (uint64_t)size;
        p.number = PP_NONE;
    } else if (status == PPTO_OK && p.kind == PP_P_SLICE) {
        status = known_size(b, p.u.slice.start, &size);
        p.u.slice.start = size_of(b, size);
    } else if (status == PPTO_OK && p.kind == PP_P_PAD) {
        status = known_size(b, p.u.before, &size);
        p.u.before = size_of(b, size);
    }
    if (status == PPTO_OK)
        status = pp_build_add(b, &p, type->dtype, type->weak, &shape, operands, p.n_operands, &b->made[id]);
    if (operands != x) pp_free(operands);
    return status;
}

/* Read from a place instead of being computed here. */
static bool is_read(const pp_build *b, uint32_t id)
{
    const pp_region *r = b->region;
    const pp_prim *p = &r->flat->prims.at[id];
    uint32_t place = r->place_of[id];
    if (p->kind == PP_P_CONTRACT && r->trace.cross[id]) return !b->piece || r->trace.depth[id] <= b->now;
    if (place == PP_NONE || r->places.at[place].kind != PP_AT_VALUE) return false;
    return b->piece || r->trace.depth[id] < b->now;
}

static bool is_leaf(const pp_build *b, uint32_t id)
{
    const pp_prim *p = &b->region->flat->prims.at[id];
    return is_read(b, id) || (!b->piece && p->kind == PP_P_REDUCE && b->region->trace.cross[id]);
}

static ppto_status copy_scan_part(pp_build *b, uint32_t id)
{
    uint32_t scan = pp_flat_operands(b->region->flat, id)[0];
    for (size_t i = 0; i < b->scans.n; i++)
        if (b->scans.at[i].prim == scan) {
            b->made[id] = b->scans.at[i].part[b->region->flat->prims.at[id].number];
            return PPTO_OK;
        }
    return PPTO_E_INTERNAL;
}

static ppto_status copy_one(pp_build *b, uint32_t id)
{
    const pp_flat *flat = b->region->flat;
    const pp_prim *p = &flat->prims.at[id];
    const uint8_t *cross = b->region->trace.cross;
    if (is_read(b, id)) return pp_build_read(b, b->region->place_of[id], &b->made[id]);
    switch (p->kind) {
    case PP_P_INPUT: return read_input(b, id);
    case PP_P_IOTA: return copy_iota(b, id);
    case PP_P_REDUCE:
        if (!cross[id]) break;
        return b->piece ? pp_build_cross_reduce(b, id) : pp_build_joined(b, id, &b->made[id]);
    case PP_P_CONTRACT:
        if (!cross[id]) break;
        return pp_build_cross_contract(b, id);
    case PP_P_SCAN:
        if (!cross[id]) break;
        return pp_build_cross_scan(b, id);
    case PP_P_PART:
        if (flat->prims.at[pp_flat_operands(flat, id)[0]].kind != PP_P_SCAN ||
            !cross[pp_flat_operands(flat, id)[0]])
            break;
        return copy_scan_part(b, id);
    default: break;
    }
    return copy_plain(b, id);
}

ppto_status pp_build_copy(pp_build *b, const uint8_t *root)
{
    const pp_flat *flat = b->region->flat;
    uint8_t *need = pp_calloc(flat->prims.n + 1, 1);
    if (!need) return PPTO_E_NOMEM;
    for (uint32_t id = (uint32_t)flat->prims.n; id-- > 0;) {
        need[id] |= root[id];
        if (!need[id] || is_leaf(b, id)) continue;
        for (uint32_t i = 0; i < flat->prims.at[id].n_operands; i++) need[pp_flat_operands(flat, id)[i]] = 1;
    }
    ppto_status status = PPTO_OK;
    for (uint32_t id = 0; status == PPTO_OK && id < flat->prims.n; id++)
        if (need[id]) status = copy_one(b, id);
    pp_free(need);
    return status;
}
