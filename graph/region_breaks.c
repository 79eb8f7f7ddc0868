/* SPDX-License-Identifier: Apache-2.0
 * Which pieces may differ from those beside them, so that nobody has to look at every one of a billion. The
 * rows of a span go on by the same number from piece to piece until something meets an end: the rows that one
 * reader asks for reach the first or the last row of the value, or leave it, or a root has no more rows.
 * Those pieces are listed with their neighbours; between two listed ones all are alike. */
#include <stdlib.h>

#include "base/checked.h"
#include "graph/region.h"

typedef struct finder {
    pp_spans *spans;
    int64_t pieces;
} finder;

static ppto_status note_piece(finder *f, int64_t piece)
{
    for (int64_t i = piece > 2 ? piece - 2 : 0; i <= piece + 2 && i < f->pieces; i++)
        PP_TRY(pp_vec_push(&f->spans->breaks, i * f->spans->rows));
    return PPTO_OK;
}

/* The piece at which slope * start + at is `end`. */
static ppto_status note_end(finder *f, int64_t slope, int64_t at, int64_t end)
{
    int64_t way;
    if (!pp_add_i64(end, -at, &way) || way / slope < 0) return PPTO_OK; /* before the first piece */
    return note_piece(f, way / slope / f->spans->rows);
}

/* Rows that go on by `slope` and are `first` at the first piece, of a value that has n. */
static ppto_status note_rows(finder *f, int64_t slope, pp_rows first, int64_t n)
{
    PP_TRY(note_end(f, slope, first.from, 0));
    PP_TRY(note_end(f, slope, first.from, n));
    PP_TRY(note_end(f, slope, first.to, 0));
    return note_end(f, slope, first.to, n);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static ppto_status note_span(finder *f, const pp_region *region, const pp_span *span)
{
    const pp_prim *p = &region->flat->prims.at[span->prim];
    int64_t n = pp_region_rows(region, span->prim);
    if (span->root) PP_TRY(note_end(f, 1, 0, n));
    PP_TRY(note_rows(f, span->slope, span->first, n));
    for (uint32_t k = 0; k < p->n_operands; k++) {
        const pp_edge *edge = &f->spans->edge.at[span->edges + k];
        int64_t a = edge->start + span->first.from * edge->step, /* in range: it was computed before */
            b = edge->start + (span->first.to - 1) * edge->step;
        pp_rows rows = edge->step > 0 ? (pp_rows){a, b + 1} : (pp_rows){b, a + 1};
        if (edge->span == PP_NONE) continue;
        PP_TRY(note_rows(f, span->slope * edge->step, rows,
                         pp_region_rows(region, pp_flat_operands(region->flat, span->prim)[k])));
    }
    return PPTO_OK;
}

ppto_status pp_spans_find_breaks(const pp_region *region, pp_spans *spans)
{
    finder f = {.spans = spans, .pieces = (spans->total + spans->rows - 1) / spans->rows};
    PP_TRY(note_piece(&f, 0));
    PP_TRY(note_piece(&f, f.pieces - 1));
    for (size_t i = 0; i < spans->at.n; i++) PP_TRY(note_span(&f, region, &spans->at.at[i]));
    size_t n = 0;
    if (spans->breaks.n != 0) qsort(spans->breaks.at, spans->breaks.n, sizeof *spans->breaks.at, by_value);
    for (size_t i = 0; i < spans->breaks.n; i++)
        if (n == 0 || spans->breaks.at[i] != spans->breaks.at[n - 1])
            spans->breaks.at[n++] = spans->breaks.at[i];
    spans->breaks.n = n;
    return PPTO_OK;
}
