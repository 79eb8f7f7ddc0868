/* SPDX-License-Identifier: Apache-2.0
 * Spans: which rows of every cut value a piece needs. A piece is so many rows of what a pass is for, its
 * roots (outputs and crossing prims); from there the rows of operands follow through the maps of slices, pads
 * and joins along the cut axis; everything else reads row for row. So a stencil is a span longer than the
 * piece, and what is turned around is one that goes backwards.
 *
 * One value may be read at several places that move differently: demands of one slope that touch share a
 * span, others get spans of their own, and the value is read or computed once for each. The spans of a pass
 * are found once, for the first piece, as if no value had an end; pp_spans_aim then gives the rows of a
 * piece, which are cut off at the ends. */
#include <string.h>

#include "base/checked.h"
#include "graph/region.h"

enum { MOST_SPANS = 4096 };

typedef struct demand { /* rows of one value that one operand of a span needs */
    uint32_t slot;      /* of edges; PP_NONE: it is a root */
    uint32_t next;      /* of the same prim; PP_NONE */
    int64_t slope;
    pp_rows rows;
} demand;

typedef struct finder {
    const pp_region *region;
    uint32_t pass;
    pp_spans *spans;
    uint32_t *head; /* per prim: its first demand */
    PP_VEC(demand) demands;
    PP_VEC(demand) sorted; /* those of one prim */
    uint32_t culprit;
    pp_error *err;
} finder;

static ppto_status refuse(finder *f, uint32_t prim, const char *why)
{
    f->culprit = prim;
    return pp_fail(f->err, PPTO_E_UNSUPPORTED, "%s", why);
}

static bool is_empty(pp_rows rows)
{
    return rows.from >= rows.to;
}

static pp_rows within(pp_rows rows, int64_t n)
{
    pp_rows in = {rows.from > 0 ? rows.from : 0, rows.to < n ? rows.to : n};
    return is_empty(in) ? (pp_rows){0, 0} : in;
}

static pp_rows hull(pp_rows a, pp_rows b)
{
    if (is_empty(a)) return b;
    if (is_empty(b)) return a;
    return (pp_rows){a.from < b.from ? a.from : b.from, a.to > b.to ? a.to : b.to};
}

int64_t pp_region_rows(const pp_region *region, uint32_t prim)
{
    const pp_trace *t = &region->trace;
    if (t->cut[prim] == PP_WHOLE) prim = pp_flat_operands(region->flat, prim)[0];
    return pp_trace_dims(t, prim)[t->cut[prim]];
}

/* ---- maps --------------------------------------------------------------------------------------------- */

int64_t pp_region_size(const pp_region *region, pp_size size)
{
    int64_t value = 0;
    (void)pp_size_eval(pp_types_sizes(region->flat->types), size, region->names, &value);
    return value;
}

/* How operand k is read; before: rows of a join's operands before it. */
static pp_edge edge_of(const pp_region *region, uint32_t prim, int64_t before)
{
    const pp_prim *p = &region->flat->prims.at[prim];
    pp_edge edge = {.span = PP_NONE, .step = 1};
    if (p->axis != region->trace.cut[prim]) return edge;
    if (p->kind == PP_P_SLICE) {
        edge.start = pp_region_size(region, p->u.slice.start);
        edge.step = p->u.slice.step;
    } else if (p->kind == PP_P_PAD) {
        edge.start = -pp_region_size(region, p->u.before);
    } else if (p->kind == PP_P_CONCAT) {
        edge.start = -before;
    }
    return edge;
}

/* start + row * step; false: beyond all numbers. */
static bool at_step(int64_t start, int64_t row, int64_t step, int64_t *out)
{
    return pp_mul_i64(row, step, out) && pp_add_i64(*out, start, out);
}

static bool operand_rows(const pp_edge *edge, pp_rows rows, pp_rows *out)
{
    int64_t a, b;
    if (!at_step(edge->start, rows.from, edge->step, &a) ||
        !at_step(edge->start, rows.to - 1, edge->step, &b))
        return false;
    *out = edge->step > 0 ? (pp_rows){a, b + 1} : (pp_rows){b, a + 1};
    return true;
}

pp_rows pp_span_operand(const pp_region *region, const pp_spans *spans, uint32_t span, uint32_t k,
                        pp_rows rows)
{
    const pp_span *s = &spans->at.at[span];
    pp_rows out = {0, 0};
    if (is_empty(rows) || !operand_rows(&spans->edge.at[s->edges + k], rows, &out)) return (pp_rows){0, 0};
    return within(out, pp_region_rows(region, pp_flat_operands(region->flat, s->prim)[k]));
}

/* ---- finding them ------------------------------------------------------------------------------------- */

static ppto_status ask(finder *f, uint32_t prim, demand d)
{
    d.next = f->head[prim];
    f->head[prim] = (uint32_t)f->demands.n;
    return pp_vec_push(&f->demands, d);
}

/* The demands of a prim by slope and place. */
static ppto_status sort_demands(finder *f, uint32_t prim)
{
    f->sorted.n = 0;
    for (uint32_t i = f->head[prim]; i != PP_NONE; i = f->demands.at[i].next) {
        demand d = f->demands.at[i];
        PP_TRY(pp_vec_push(&f->sorted, d));
        size_t at = f->sorted.n - 1;
        for (; at > 0; at--) {
            const demand *before = &f->sorted.at[at - 1];
            if (before->slope < d.slope || (before->slope == d.slope && before->rows.from <= d.rows.from))
                break;
            f->sorted.at[at] = *before;
        }
        f->sorted.at[at] = d;
    }
    return PPTO_OK;
}

/* What a span asks of its operands. */
static ppto_status ask_operands(finder *f, const pp_span *span)
{
    const pp_region *region = f->region;
    const pp_prim *p = &region->flat->prims.at[span->prim];
    int64_t before = 0;
    for (uint32_t k = 0; k < p->n_operands; k++) {
        uint32_t x = pp_flat_operands(region->flat, span->prim)[k];
        demand d = {.slot = span->edges + k, .slope = span->slope};
        pp_edge edge = edge_of(region, span->prim, before);
        PP_TRY(pp_vec_push(&f->spans->edge, edge));
        if (region->trace.cut[x] == PP_WHOLE || region->trace.takes[span->prim]) continue;
        before += pp_region_rows(region, x);
        if (!operand_rows(&edge, span->first, &d.rows) || !pp_mul_i64(d.slope, edge.step, &d.slope))
            return refuse(f, span->prim, "it reaches too far along the axis that is cut");
        PP_TRY(ask(f, x, d));
    }
    return PPTO_OK;
}

/* A scan runs in step with the pieces. */
static ppto_status in_step(finder *f, uint32_t prim, pp_span *span)
{
    if (!f->region->trace.cross[prim] || f->region->flat->prims.at[prim].kind != PP_P_SCAN) return PPTO_OK;
    if (span->slope != 1 || span->first.from < 0 || span->first.to > f->spans->rows)
        return refuse(f, prim, "what runs along the axis that is cut is read out of step with it");
    span->first = (pp_rows){0, f->spans->rows};
    return PPTO_OK;
}

/* The spans of one prim: demands of one slope that touch share one. */
static ppto_status make_spans(finder *f, uint32_t prim)
{
    PP_TRY(sort_demands(f, prim));
    for (size_t i = 0, next; i < f->sorted.n; i = next) {
        pp_span span = {.prim = prim,
                        .slope = f->sorted.at[i].slope,
                        .first = f->sorted.at[i].rows,
                        .edges = (uint32_t)f->spans->edge.n};
        for (next = i + 1; next < f->sorted.n && f->sorted.at[next].slope == span.slope &&
                           f->sorted.at[next].rows.from <= span.first.to;
             next++)
            span.first = hull(span.first, f->sorted.at[next].rows);
        for (size_t k = i; k < next; k++) {
            if (f->sorted.at[k].slot == PP_NONE)
                span.root = true;
            else
                f->spans->edge.at[f->sorted.at[k].slot].span = (uint32_t)f->spans->at.n;
        }
        PP_TRY(in_step(f, prim, &span));
        if (f->spans->at.n == MOST_SPANS)
            return refuse(f, prim, "too many places along the axis that is cut are read");
        PP_TRY(pp_vec_push(&f->spans->at, span));
        PP_TRY(ask_operands(f, &span));
    }
    return PPTO_OK;
}

static ppto_status find(finder *f)
{
    const pp_region *region = f->region;
    size_t n = region->flat->prims.n;
    f->head = pp_alloc((n + 1) * sizeof *f->head);
    if (!f->head) return PPTO_E_NOMEM;
    memset(f->head, 0xff, (n + 1) * sizeof *f->head);
    for (uint32_t id = (uint32_t)n; id-- > 0;) {
        if (pp_region_is_root(region, f->pass, id)) {
            int64_t rows = pp_region_rows(region, id);
            if (rows > f->spans->total) f->spans->total = rows;
            PP_TRY(ask(f, id, (demand){.slot = PP_NONE, .slope = 1, .rows = {0, f->spans->rows}}));
        }
        if (f->head[id] != PP_NONE) PP_TRY(make_spans(f, id));
    }
    return PPTO_OK;
}

ppto_status pp_spans_create(const pp_region *region, uint32_t pass, int64_t rows, pp_spans *out,
                            uint32_t *culprit, pp_error *err)
{
    *out = (pp_spans){.rows = rows};
    finder f = {.region = region, .pass = pass, .spans = out, .culprit = PP_NONE, .err = err};
    ppto_status status = find(&f);
    if (status == PPTO_OK) status = pp_spans_find_breaks(region, out);
    if (f.culprit != PP_NONE) *culprit = f.culprit;
    pp_free(f.head);
    pp_vec_free(&f.demands);
    pp_vec_free(&f.sorted);
    return status;
}

void pp_spans_free(pp_spans *spans)
{
    pp_vec_free(&spans->at);
    pp_vec_free(&spans->edge);
    pp_vec_free(&spans->breaks);
    *spans = (pp_spans){0};
}

/* ---- one piece ---------------------------------------------------------------------------------------- */

pp_rows pp_region_root_rows(const pp_region *region, uint32_t root, int64_t start, int64_t rows)
{
    return within((pp_rows){start, start + rows}, pp_region_rows(region, root));
}

void pp_spans_aim(const pp_region *region, const pp_spans *spans, int64_t start, pp_rows *now)
{
    for (size_t i = 0; i < spans->at.n; i++) now[i] = (pp_rows){0, 0};
    for (size_t i = 0; i < spans->at.n; i++) { /* a span's readers stand before it */
        const pp_span *span = &spans->at.at[i];
        const pp_prim *p = &region->flat->prims.at[span->prim];
        bool scan = p->kind == PP_P_SCAN && region->trace.cross[span->prim];
        if (span->root || (scan && !is_empty(now[i])))
            now[i] = hull(now[i], pp_region_root_rows(region, span->prim, start, spans->rows));
        for (uint32_t k = 0; k < p->n_operands; k++) {
            uint32_t edge = spans->edge.at[span->edges + k].span;
            if (edge != PP_NONE)
                now[edge] = hull(now[edge], pp_span_operand(region, spans, (uint32_t)i, k, now[i]));
        }
    }
}

void pp_spans_longest(const pp_region *region, const pp_spans *spans, int64_t *longest, pp_rows *scratch)
{
    for (size_t i = 0; i < spans->at.n; i++) longest[i] = 0;
    for (size_t k = 0; k < spans->breaks.n; k++) {
        pp_spans_aim(region, spans, spans->breaks.at[k], scratch);
        for (size_t i = 0; i < spans->at.n; i++) {
            int64_t rows = scratch[i].to - scratch[i].from;
            if (rows > longest[i]) longest[i] = rows;
        }
    }
}

bool pp_spans_in_order(const pp_region *region, const pp_spans *spans, uint32_t span, pp_rows *scratch)
{
    pp_rows last = {0, 0};
    bool over = false;
    for (size_t k = 0; k < spans->breaks.n; k++) {
        pp_spans_aim(region, spans, spans->breaks.at[k], scratch);
        pp_rows rows = scratch[span];
        if (!is_empty(rows) && (over || rows.from < last.from || rows.to < last.to)) return false;
        over |= is_empty(rows) && !is_empty(last);
        if (!is_empty(rows)) last = rows;
    }
    return true;
}

bool pp_spans_alike(const pp_region *region, const pp_spans *spans, int64_t start, const pp_rows *now,
                    int64_t other_start, const pp_rows *other)
{
    for (size_t i = 0; i < spans->at.n; i++) {
        const pp_span *span = &spans->at.at[i];
        if (now[i].to - now[i].from != other[i].to - other[i].from) return false;
        if (is_empty(now[i])) continue;
        if (now[i].from - other[i].from != span->slope * (start - other_start)) return false;
        if (!span->root) continue;
        pp_rows a = pp_region_root_rows(region, span->prim, start, spans->rows),
                b = pp_region_root_rows(region, span->prim, other_start, spans->rows);
        if (a.to - a.from != b.to - b.from) return false;
    }
    return true;
}
