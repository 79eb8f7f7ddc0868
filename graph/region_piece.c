/* SPDX-License-Identifier: Apache-2.0
 * One piece of a pass: for every span its rows, from the rows of its operands. What moves rows along the cut
 * axis (slices, pads, joins) becomes what it is for these rows: a part of the operand's, with what of the pad
 * falls into the piece, or the operands that have rows there. */
#include <string.h>

#include "graph/region_build.h"

static ppto_status add_number(pp_build *b, int64_t value, uint32_t *id)
{
    pp_prim p = {.kind = PP_P_LITERAL, .number = PP_NONE, .origin = PP_NONE};
    pp_shape number = {0};
    p.u.bits = (uint64_t)value;
    return pp_build_add(b, &p, PPTO_I64, false, &number, NULL, 0, id);
}

static ppto_status add_map(pp_build *b, pp_op op, const pp_shape *shape, uint32_t x, uint32_t y, uint32_t *id)
{
    pp_prim p = {.kind = PP_P_MAP, .op = (uint8_t)op, .number = PP_NONE, .origin = PP_NONE};
    return pp_build_add(b, &p, PPTO_I64, false, shape, (uint32_t[]){x, y}, 2, id);
}

/* Its first number is that of its first row, which goes on with the pieces. */
static ppto_status span_iota(pp_build *b, uint32_t span, uint32_t *made)
{
    const pp_span *s = &b->spans->at.at[span];
    pp_shape shape = pp_build_dims(b, s->prim), number = {0};
    uint32_t first, factor, offset;
    PP_TRY(pp_build_iota(b, s->prim, made));
    PP_TRY(pp_build_start(b, &first));
    PP_TRY(add_number(b, s->slope, &factor));
    PP_TRY(add_number(b, b->now[span].from - s->slope * b->start, &offset));
    PP_TRY(add_map(b, PP_MUL, &number, first, factor, &first));
    PP_TRY(add_map(b, PP_ADD, &number, first, offset, &first));
    PP_TRY(pp_build_broadcast(b, first, &shape, &first));
    return add_map(b, PP_ADD, &shape, *made, first, made);
}

/* ---- along the axis that is cut ----------------------------------------------------------------------- */

static ppto_status along_slice(pp_build *b, uint32_t id, uint32_t x, uint32_t *made)
{
    pp_prim p = b->region->flat->prims.at[id];
    pp_shape shape = pp_build_dims(b, id), all = pp_build_shape(b, x);
    *made = x;
    if (p.u.slice.step == 1) return PPTO_OK;
    p.u.slice.start = pp_build_size(b, p.u.slice.step > 0 ? 0 : all.dim[p.axis] - 1);
    return pp_build_add(b, &p, pp_flat_type(b->region->flat, id)->dtype, false, &shape, &x, 1, made);
}

/* x: its rows, PP_NONE: none; then the value. */
static ppto_status along_pad(pp_build *b, uint32_t span, const uint32_t *x, uint32_t *made)
{
    uint32_t id = b->spans->at.at[span].prim;
    pp_prim p = b->region->flat->prims.at[id];
    pp_shape shape = pp_build_dims(b, id);
    int64_t before = pp_region_size(b->region, p.u.before) - b->now[span].from;
    if (x[0] == PP_NONE) return pp_build_broadcast(b, x[1], &shape, made);
    *made = x[0];
    if (pp_build_shape(b, x[0]).dim[p.axis] == b->rows) return PPTO_OK;
    p.u.before = pp_build_size(b, before > 0 ? before : 0);
    return pp_build_add(b, &p, pp_flat_type(b->region->flat, id)->dtype, false, &shape, x, 2, made);
}

/* Does it move rows? */
static bool goes_along(const pp_build *b, uint32_t id)
{
    const pp_prim *p = &b->region->flat->prims.at[id];
    bool moves = p->kind == PP_P_SLICE || p->kind == PP_P_PAD || p->kind == PP_P_CONCAT;
    return moves && p->axis == b->region->trace.cut[id];
}

static ppto_status copy_along(pp_build *b, uint32_t span, const uint32_t *x, uint32_t *made)
{
    uint32_t id = b->spans->at.at[span].prim, n = 0;
    const pp_prim *p = &b->region->flat->prims.at[id];
    if (p->kind == PP_P_SLICE) return along_slice(b, id, x[0], made);
    if (p->kind == PP_P_PAD) return along_pad(b, span, x, made);
    uint32_t *parts = pp_alloc((p->n_operands + 1) * sizeof *parts);
    if (!parts) return PPTO_E_NOMEM;
    for (uint32_t k = 0; k < p->n_operands; k++)
        if (x[k] != PP_NONE) parts[n++] = x[k];
    ppto_status status = pp_build_concat(b, p->axis, parts, n, made);
    pp_free(parts);
    return status;
}

ppto_status pp_build_take(pp_build *b, uint32_t span, pp_rows rows, uint32_t *id)
{
    uint32_t prim = b->spans->at.at[span].prim, axis = b->region->trace.cut[prim];
    return pp_build_slice(b, b->made_span[span], axis, rows.from - b->now[span].from, rows.to - rows.from,
                          id);
}

/* ---- rows of a span ----------------------------------------------------------------------------------- */

/* The rows of a component of a fold that does not cross; the fold may have more. */
static ppto_status copy_part(pp_build *b, uint32_t span, uint32_t *made)
{
    uint32_t id = b->spans->at.at[span].prim, edge = b->spans->edge.at[b->spans->at.at[span].edges].span;
    pp_rows rows = b->now[span], has = b->now[edge];
    b->rows = has.to - has.from;
    PP_TRY(pp_build_plain(b, id, &b->made_span[edge], made));
    return pp_build_slice(b, *made, b->region->trace.cut[id], rows.from - has.from, rows.to - rows.from,
                          made);
}

/* Of one that crosses. */
static ppto_status copy_scan_part(pp_build *b, uint32_t span, uint32_t *made)
{
    uint32_t id = b->spans->at.at[span].prim, scan = pp_flat_operands(b->region->flat, id)[0];
    pp_rows rows = b->now[span];
    for (size_t i = 0; i < b->scans.n; i++)
        if (b->scans.at[i].prim == scan)
            return pp_build_slice(b, b->scans.at[i].part[b->region->flat->prims.at[id].number],
                                  b->region->trace.cut[id], rows.from - b->start, rows.to - rows.from, made);
    return PPTO_E_INTERNAL;
}

static ppto_status copy_rows(pp_build *b, uint32_t span, const uint32_t *x, uint32_t *made)
{
    uint32_t id = b->spans->at.at[span].prim;
    const pp_flat *flat = b->region->flat;
    const uint8_t *cross = b->region->trace.cross;
    const pp_prim *p = &flat->prims.at[id];
    if (goes_along(b, id)) return copy_along(b, span, x, made);
    switch (p->kind) {
    case PP_P_INPUT: return pp_build_input(b, id, span, made);
    case PP_P_IOTA: return span_iota(b, span, made);
    case PP_P_REDUCE:
        if (!cross[id]) break;
        return pp_build_cross_reduce(b, id, x);
    case PP_P_CONTRACT:
        if (!cross[id]) break;
        return pp_build_cross_contract(b, id, x);
    case PP_P_SCAN:
        if (!cross[id]) break;
        return pp_build_cross_scan(b, id, x);
    case PP_P_PART:
        return cross[pp_flat_operands(flat, id)[0]] ? copy_scan_part(b, span, made)
                                                    : copy_part(b, span, made);
    default: break;
    }
    return pp_build_plain(b, id, x, made);
}

/* Operand k of a span: what is whole, or the rows the span is made of; PP_NONE: none of them. */
static ppto_status take_operand(pp_build *b, uint32_t span, uint32_t k, uint32_t *x)
{
    const pp_span *s = &b->spans->at.at[span];
    uint32_t edge = b->spans->edge.at[s->edges + k].span, id = pp_flat_operands(b->region->flat, s->prim)[k];
    *x = b->made[id];
    if (edge == PP_NONE) return PPTO_OK;
    pp_rows rows = pp_span_operand(b->region, b->spans, span, k, b->now[span]);
    *x = PP_NONE;
    if (rows.from == rows.to || b->region->flat->prims.at[s->prim].kind == PP_P_PART) return PPTO_OK;
    return pp_build_take(b, edge, rows, x);
}

static ppto_status copy_span(pp_build *b, uint32_t span)
{
    const pp_prim *p = &b->region->flat->prims.at[b->spans->at.at[span].prim];
    uint32_t few[64], *x = p->n_operands <= 64 ? few : pp_alloc(p->n_operands * sizeof *x);
    ppto_status status = x ? PPTO_OK : PPTO_E_NOMEM;
    b->rows = b->now[span].to - b->now[span].from;
    for (uint32_t k = 0; status == PPTO_OK && k < p->n_operands; k++)
        status = take_operand(b, span, k, &x[k]);
    if (status == PPTO_OK) status = copy_rows(b, span, x, &b->made_span[span]);
    if (x != few) pp_free(x);
    return status;
}

/* What is whole and read by the spans. */
static void need_of_spans(const pp_build *b, uint8_t *need)
{
    for (uint32_t i = 0; i < b->spans->at.n; i++) {
        const pp_span *span = &b->spans->at.at[i];
        const pp_prim *p = &b->region->flat->prims.at[span->prim];
        if (b->now[i].from == b->now[i].to) continue;
        for (uint32_t k = 0; k < p->n_operands; k++)
            if (b->spans->edge.at[span->edges + k].span == PP_NONE)
                need[pp_flat_operands(b->region->flat, span->prim)[k]] = 1;
    }
}

ppto_status pp_build_copy_piece(pp_build *b)
{
    size_t n = b->region->flat->prims.n;
    uint8_t *need = pp_calloc(n + 1, 1);
    b->made_span = pp_alloc((b->spans->at.n + 1) * sizeof *b->made_span);
    ppto_status status = need && b->made_span ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) {
        memset(b->made_span, 0xff, (b->spans->at.n + 1) * sizeof *b->made_span);
        need_of_spans(b, need);
        pp_build_needs(b, need);
    }
    uint32_t span = (uint32_t)b->spans->at.n; /* they stand by prim, the last first */
    for (uint32_t id = 0; status == PPTO_OK && id < n; id++) {
        if (need[id]) status = pp_build_whole(b, id);
        for (; status == PPTO_OK && span > 0 && b->spans->at.at[span - 1].prim == id; span--)
            if (b->now[span - 1].from < b->now[span - 1].to) status = copy_span(b, span - 1);
    }
    pp_free(need);
    return status;
}
