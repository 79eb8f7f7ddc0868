/* SPDX-License-Identifier: Apache-2.0
 * Chunk regions: a flat graph run piece by piece along one axis of one input, with the bits of the whole run.
 * Start reading at pp_region_create.
 *
 * A dim is *cut* where its elements belong to pieces. The cut dim of one input decides the cut dims of all
 * that is computed from it, and of what is combined with that element by element (region_trace.c). A value
 * without a cut dim is *whole*. Folds, scans and products along the cut axis cross pieces:
 *   REDUCE    every unit (a block of lanes, or a piece of 128 * 2^a rows) gives a state; the states of all
 *             units join by the pairwise tree, then finish
 *   SCAN      blocks of the scan law inside a piece; the carry goes from piece to piece
 *   CONTRACT  k-blocks of 1024 inside a piece are added in order to what the pieces before gave
 * so every operation of the laws happens in its place (docs/laws.md); pieces are powers of two of rows.
 * One row that is used by all (`x - x[0]`) is kept by the pass that computes it, and whole for those behind
 * it.
 *
 * A value that needs a crossing result of the same axis needs another pass over the pieces: `depth` counts
 * the crossings below a value. Pass d computes the cut outputs and the crossings of depth d; before it, the
 * whole values of depth d are computed at once. */
#ifndef PP_REGION_H
#define PP_REGION_H

#include "graph/flat.h"

/* ---- region_trace.c : where the cut runs ----------------------------------------------------------------
 */

enum { PP_WHOLE = 0xff };

typedef struct pp_trace {
    uint8_t *cut;    /* per prim: its cut dim, or PP_WHOLE */
    uint8_t *cross;  /* per prim: 1 when a REDUCE, SCAN or CONTRACT crosses pieces */
    uint32_t *depth; /* per prim: crossings below it */
    uint8_t *kept;   /* per prim: cut, but of one row that somebody takes as a whole */
    uint8_t *takes;  /* per prim: 1 when it takes the row of its operand so */
    int64_t *dims;   /* per prim PPTO_MAX_RANK sizes, all known */
    int64_t rows;    /* of the seed */
    uint32_t depths; /* the largest depth of a root, plus 1 */
} pp_trace;

/* Cuts dim 0 of input prim `seed`; names: values of named sizes.
 * returns PPTO_OK; E_UNSUPPORTED and *culprit: the prim that prevents it, with the reason in err; E_NOMEM;
 * E_SIZE. Free the trace also after a failure. */
ppto_status pp_trace_cut(const pp_flat *flat, const int64_t *names, uint32_t seed, pp_trace *out,
                         uint32_t *culprit, pp_error *err);
void pp_trace_free(pp_trace *trace);
static inline const int64_t *pp_trace_dims(const pp_trace *trace, uint32_t prim)
{
    return trace->dims + (size_t)prim * PPTO_MAX_RANK;
}

/* ---- region.c : the passes ------------------------------------------------------------------------------
 */

typedef enum pp_place_kind {
    PP_AT_INPUT,  /* number: of the flat graph */
    PP_AT_START,  /* a number: index of the piece's first row, of what the pass is for */
    PP_AT_VALUE,  /* whole, computed once */
    PP_AT_STATES, /* dim 0: units of all pieces; after the tree, one */
    PP_AT_CARRY,  /* from piece to piece; absent before the first */
    PP_AT_ROW,    /* the one row of a cut value, kept for those who take it as a whole */
    PP_AT_OUTPUT  /* number: of the flat graph's outputs */
} pp_place_kind;

/* Memory that parts read and write. */
typedef struct pp_place {
    uint8_t kind, dtype, rank;
    bool cut; /* rows of dim `axis` are read or written, else all of it */
    uint8_t axis;
    uint32_t number;            /* STATES, CARRY: the prim that crosses */
    int64_t dim[PPTO_MAX_RANK]; /* STATES: dim 0 is the number of units of all pieces */
} pp_place;

/* One flat graph with types of its own. Its inputs and outputs are places. */
typedef struct pp_part {
    pp_flat flat;
    pp_types *types;
    PP_VEC(uint32_t) reads; /* place of input k */
    PP_VEC(uint32_t)
    spans; /* whose rows of that place it is; PP_NONE: it has no rows, or those of the piece */
    PP_VEC(uint32_t) writes; /* place of output k */
} pp_part;

/* States of one crossing reduction: `n` places from `first` on, joined level by level by the monoid. */
typedef struct pp_tree {
    const pp_monoid *joined; /* gives states */
    uint32_t first, n;
} pp_tree;

typedef struct pp_region_pass {
    PP_VEC(pp_tree) trees;
    bool any;      /* has pieces at all */
    bool carries;  /* the first piece is built without carry */
    int64_t rows;  /* of the longest of what the pass is for */
    uint8_t *runs; /* per prim: rows of it are computed */
    int64_t most;  /* rows of a piece at most (laws of scans and products), a power of two */
    int64_t least; /* and at least */
} pp_region_pass;

typedef struct pp_region {
    const pp_flat *flat;
    const uint64_t *literals; /* values of the user's literals */
    pp_trace trace;
    uint32_t seed;
    PP_VEC(pp_place) places;
    int64_t *names;         /* values of named sizes */
    uint32_t *place_of;     /* per prim: its VALUE, STATES or CARRY place (the first of several), PP_NONE */
    uint32_t *row_of;       /* per prim: its ROW place, PP_NONE */
    pp_region_pass *passes; /* trace.depths */
    PP_VEC(const pp_monoid *) monoids; /* made here */
    pp_arena arena;
} pp_region;

/* ---- region_span.c : the rows of a piece --------------------------------------------------------------
 */

typedef struct pp_rows { /* [from, to); none when they are equal */
    int64_t from, to;
} pp_rows;

typedef struct pp_span { /* rows of one cut value that a pass needs together */
    uint32_t prim;
    int64_t slope;  /* rows that it goes on by, or back, when the piece goes on by one */
    pp_rows first;  /* at the first piece, as if no value had an end */
    uint32_t edges; /* in pp_spans.edge: one for each operand */
    bool root;
} pp_span;

typedef struct pp_edge { /* row r is made of row start + r * step of the operand */
    uint32_t span;       /* of the operand; PP_NONE: it is whole */
    int64_t start, step;
} pp_edge;

typedef struct pp_spans { /* of a pass with pieces of so many rows */
    int64_t rows, total;  /* total: of the longest root */
    PP_VEC(pp_span) at;   /* operands after what reads them */
    PP_VEC(pp_edge) edge;
    PP_VEC(int64_t) breaks; /* starts of pieces, ascending: all others are like the one listed before them */
} pp_spans;

/* returns PPTO_OK; E_UNSUPPORTED and *culprit; E_NOMEM. Free the spans also after a failure. */
ppto_status pp_spans_create(const pp_region *region, uint32_t pass, int64_t rows, pp_spans *out,
                            uint32_t *culprit, pp_error *err);
void pp_spans_free(pp_spans *spans);
/* The rows of every span in the piece that begins at row `start` of the roots; now: room for all spans. */
void pp_spans_aim(const pp_region *region, const pp_spans *spans, int64_t start, pp_rows *now);
/* The most rows of every span in any piece; scratch: room for all spans. */
void pp_spans_longest(const pp_region *region, const pp_spans *spans, int64_t *longest, pp_rows *scratch);
/* Do the rows of a span go on from piece to piece, each from where the one before began or later? */
bool pp_spans_in_order(const pp_region *region, const pp_spans *spans, uint32_t span, pp_rows *scratch);
/* Does the part built for one piece serve the other, too? */
bool pp_spans_alike(const pp_region *region, const pp_spans *spans, int64_t start, const pp_rows *now,
                    int64_t other_start, const pp_rows *other);
/* Rows of operand k that these rows of a span are made of, as far as the operand has them. */
pp_rows pp_span_operand(const pp_region *region, const pp_spans *spans, uint32_t span, uint32_t k,
                        pp_rows rows);
/* ---- region_breaks.c ---- */
ppto_status pp_spans_find_breaks(const pp_region *region, pp_spans *spans);
/* ---- region_span.c ---- */
/* Rows of a root in a piece; all its rows (of a crossing prim: its operands'). */
pp_rows pp_region_root_rows(const pp_region *region, uint32_t root, int64_t start, int64_t rows);
int64_t pp_region_rows(const pp_region *region, uint32_t prim);
int64_t pp_region_size(const pp_region *region, pp_size size); /* with the run's names */
/* Is the prim what the pass is for: an output of it, a crossing that it computes, or a row that it keeps? */
bool pp_region_is_root(const pp_region *region, uint32_t pass, uint32_t prim);

/* ---- region.c ------------------------------------------------------------------------------------------ */

/* flat and literals must outlive the region. E_UNSUPPORTED as above. */
ppto_status pp_region_create(const pp_flat *flat, const int64_t *names, const uint64_t *literals,
                             uint32_t seed, pp_region **out, uint32_t *culprit, pp_error *err);
void pp_region_destroy(pp_region *region); /* NULL is fine */
/* What is whole and computed before the pieces of a pass; nothing when it has no outputs. */
ppto_status pp_region_whole(pp_region *region, uint32_t pass, pp_part *out, pp_error *err);
/* The piece of a pass that begins at row `start`; now: its rows (pp_spans_aim). first: there is no carry yet.
 */
ppto_status pp_region_piece(pp_region *region, uint32_t pass, const pp_spans *spans, const pp_rows *now,
                            int64_t start, bool first, pp_part *out, pp_error *err);
bool pp_region_repeats(const pp_region *region, uint32_t output); /* the value of an earlier output */
/* Rows of states that all pieces of this many rows, and a shorter last one, give for a tree: its dim 0. */
int64_t pp_region_units(const pp_region *region, const pp_tree *tree, int64_t rows);
/* One level of a tree over n >= 2 states: reads the n_states arrays [n, …], writes [(n + 1) / 2, …]. */
ppto_status pp_region_level(pp_region *region, const pp_tree *tree, int64_t n, pp_part *out, pp_error *err);
/* ---- region_stages.c ---- */
static inline uint32_t pp_stage_whole(uint32_t pass) /* of trace.depths: pp_region_last */
{
    return 2 * pass;
}
static inline uint32_t pp_stage_pieces(uint32_t pass)
{
    return 2 * pass + 1;
}
/* Per prim the last stage that computes or reads it; PP_NONE: none does. */
void pp_region_last_stages(const pp_region *region, uint32_t *stage);

/* ---- region.c ---- */
/* After the last pass: whole outputs. Nothing when it has no outputs. */
ppto_status pp_region_last(pp_region *region, pp_part *out, pp_error *err);
void pp_part_free(pp_part *part);

#endif
