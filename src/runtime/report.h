/* SPDX-License-Identifier: Apache-2.0
 * What the reports share: bytes that a kernel touches, and the sizes of a program whose inputs may still be
 * unbound. */
#ifndef PP_REPORT_H
#define PP_REPORT_H

#include "runtime/runtime.h"

/* ---- report_bytes.c
 * -------------------------------------------------------------------------------------------------- */

/* Distinct elements of each tensor that the kernel of a group reads and writes, times their size; names:
 * values of all sizes. Exact for affine accesses, up to tensors of 2^26 elements where several overlap in
 * more than one dimension; the enclosing box beyond. What is gathered by index counts as if no index came
 * twice. returns PPTO_OK; E_NOMEM; E_SIZE */
ppto_status pp_report_bytes(const pp_plan *plan, size_t group, const int64_t *names, uint64_t *reads,
                            uint64_t *writes);

/* The same as formulas over named sizes, in a table of the caller's; where accesses overlap or are guarded,
 * the whole tensor. */
void pp_report_bytes_formula(const pp_plan *plan, size_t group, pp_sizes *sizes, pp_size *reads,
                             pp_size *writes);

/* ---- report_sizes.c
 * -------------------------------------------------------------------------------------------------- */

/* A program with sizes as far as they are bound or declared. Inputs that are not bound but whose sizes are
 * known stand as arrays without data, as if they were loaded. */
typedef struct pp_report_sizes {
    const ppto_program *program;
    bool known;          /* every size is */
    int64_t *names;      /* values of the plan's names */
    ppto_array *absent;  /* per input: one without data */
    ppto_array **inputs; /* as a run takes them: bound, packed or absent */
    bool *packed;        /* per input: bound, and a run copies it first */
    pp_instance *instance;
    uint64_t peak_bytes, lower_bytes, serial_bytes; /* as a run predicts them */
    pp_sizes *formulas;                             /* table of the report's own */
    pp_size peak, lower, serial;                    /* in formulas, when not known: without scratch */
} pp_report_sizes;

/* sizes: initialised here, pp_report_sizes_free also after a failure. Errors are those of binding and
 * planning a run. */
ppto_status pp_report_sizes_read(const ppto_program *program, pp_report_sizes *sizes, pp_error *err);
void pp_report_sizes_free(pp_report_sizes *sizes);

/* ---- report_pieces.c: a run by pieces
 * ---------------------------------------------------------------------------------------------------- */

typedef struct pp_report_pieces {
    const ppto_program *program;
    pp_region_run *region; /* the planned run by pieces; NULL: it goes in one piece, or not at all */
    bool not_cut;          /* it should go by pieces and cannot: */
    pp_error why;
    pp_region_refusal refusal;
    bool over;                   /* in one piece it exceeds the limit */
    uint64_t whole_bytes, limit; /* of the run in one piece; 0: none */
} pp_report_pieces;

/* Decides as a run does, and puts what that run would predict into sizes, which must outlive it. Nothing when
 * sizes are open. pp_report_pieces_free also after a failure. */
ppto_status pp_report_pieces_read(ppto_program *program, pp_report_sizes *sizes, pp_report_pieces *pieces,
                                  pp_error *err);
ppto_status pp_report_pieces_text(const pp_report_pieces *pieces, pp_text *out);
ppto_status pp_report_pieces_json(const pp_report_pieces *pieces, pp_text *out); /* members of an object */
void pp_report_pieces_free(pp_report_pieces *pieces);

/* ---- report_graph.c: the graph as recorded and as simplified
 * ---------------------------------------------------------------- */

void pp_report_recorded(const ppto_program *program, pp_text *out);
void pp_report_recorded_json(const ppto_program *program, pp_text *out);
void pp_report_simplified(const ppto_program *program, pp_text *out);
void pp_report_simplified_json(const ppto_program *program, pp_text *out);

/* ---- report_stages.c: texts of the stages of lowering
 * -------------------------------------------------------------------- */

const char *pp_report_kind(const pp_plan *plan, size_t group); /* "map", "row", … as api names them */
/* Calls visit for every operator of the user in a group, in order, each once. E_NOMEM */
ppto_status pp_report_operators(const ppto_program *program, size_t group,
                                void (*visit)(void *arg, const pp_origin *origin), void *arg);
void pp_report_fused(const ppto_program *program, pp_text *out);
void pp_report_kernels(const ppto_program *program, pp_text *out);
void pp_report_plan(const pp_report_sizes *sizes, pp_text *out); /* sizes->known */
ppto_status pp_report_source(const ppto_program *program, pp_text *out);
/* The sync points of a plan, one a line behind `front` ("" or a comment's start). */
void pp_report_syncs(const ppto_program *program, const char *front, const char *back, pp_text *out);

/* Gives the text to the user, or reports that there is no memory for it. */
ppto_status pp_report_give(pp_text *text, char **out);

/* ---- report_touch.c: the index sets
 * ------------------------------------------------------------------------------------ */

enum { PP_TOUCH_LIMIT = 1 << 26 }; /* elements of a bitmap, points enumerated */

typedef struct pp_touch_dim { /* start, start + step, … (count), or the set bits */
    int64_t size;             /* of the dimension */
    int64_t start, step, count;
    uint8_t *bits; /* one byte per index; NULL: the progression */
} pp_touch_dim;

typedef struct pp_touch { /* elements one access touches */
    const pp_access *access;
    bool product; /* the product of its dims; else only the box around them */
    uint32_t rank;
    pp_touch_dim dim[PPTO_MAX_RANK];
} pp_touch;

typedef struct pp_toucher {
    const pp_program *program;
    const int64_t *slot;   /* values */
    const uint32_t *masks; /* per instruction: axes its value depends on (pp_program_axis_masks) */
    pp_arena *arena;       /* of bits */
} pp_toucher;

/* shape: of the tensor. *any false: nothing is touched. */
ppto_status pp_touch_access(const pp_toucher *toucher, const pp_access *access, uint32_t rank,
                            const int64_t *shape, pp_touch *out, bool *any);
/* Marks the elements of a row-major bitmap. An access whose dims hang together is walked; false: too many
 * points. */
bool pp_touch_mark(const pp_toucher *toucher, const pp_touch *touch, uint8_t *bits);
/* How many indices a dimension has in the union of n accesses; -1: too large to tell. */
int64_t pp_touch_union(const pp_toucher *toucher, const pp_touch *touch, size_t n, uint32_t dim);
bool pp_touch_same_dim(const pp_touch_dim *a, const pp_touch_dim *b);

#endif
