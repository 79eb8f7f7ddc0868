/* SPDX-License-Identifier: Apache-2.0
 * Fusion: a flat graph becomes groups, one kernel program each. Every value that crosses groups is stored by
 * one of them; everything else is computed where it is used. Where a producer and its consumer did not merge
 * there is a reason.
 *
 * A group has a frame of axes (kernel/program.h), roots (values it stores, each with the index map of its
 * elements) and heavies (folds, scans, the contraction). Lowering pulls everything else from these. */
#ifndef PP_FUSE_H
#define PP_FUSE_H

#include "graph/index.h"

/* Why two did not merge: stable codes of `explain`. */
typedef enum pp_reason {
    PP_R_NONE,
    PP_R_OUTPUT,
    PP_R_FRAME,
    PP_R_INDEX,
    PP_R_RESHAPE,
    PP_R_RECOMPUTE,
    PP_R_SHARED,
    PP_R_CYCLE,
    PP_R_TOO_LARGE,
    PP_R_CONTRACT,
    PP_R_GATHER,
    PP_R_OFF,
    PP_R_STREAM,
    PP_R_SYNC,
    PP_REASON_COUNT
} pp_reason;
const char *pp_reason_code(pp_reason reason); /* "frame" */
const char *pp_reason_text(pp_reason reason); /* a sentence */

uint32_t pp_prim_cost(const pp_prim *p); /* operations an element of a MAP takes, about; 0 of others */

typedef struct pp_missed {       /* producer's value is stored for consumer, and why */
    uint32_t producer, consumer; /* prim ids */
    pp_reason reason;
} pp_missed;

typedef struct pp_root {
    uint32_t prim;
    pp_imap *map; /* its dims in terms of the frame's axes */
} pp_root;

typedef struct pp_heavy { /* a REDUCE, SCAN or CONTRACT computed inside */
    uint32_t prim;
    pp_imap *map;        /* of its result */
    pp_imap *operand[2]; /* of its operands (REDUCE, SCAN: [0] for all) */
} pp_heavy;

typedef struct pp_group_local { /* a value that only parts of a chain read */
    uint32_t prim;
    uint8_t rows; /* its first so many dims are the rows of the chain */
} pp_group_local;

typedef struct pp_group pp_group;
struct pp_group {
    pp_frame
        frame; /* CHAIN: what follows up to `leaves` is that of its parts together, the axes the last one's */
    uint32_t stream, level; /* of all it computes */
    pp_axes axes;
    uint8_t role[PP_FRAME_MAX_AXES]; /* pp_axis_role of every axis */
    uint8_t inner[PPTO_MAX_RANK]; /* inner axes in flattened order (as created; they may have been split) */
    uint32_t n_inner;
    uint8_t domain[PPTO_MAX_RANK]; /* axes of the dims it was made for, for siblings */
    uint32_t n_domain;
    PP_VEC(pp_root) roots;    /* ascending prim after fusion */
    PP_VEC(pp_heavy) heavies; /* ascending prim after fusion */
    PP_VEC(uint32_t) members; /* compute prims inside, ascending after fusion */
    PP_VEC(uint32_t) needs;   /* groups whose stored values it reads */
    uint32_t leaves;          /* how many loads it may need */
    pp_group *parts;          /* of a CHAIN, in an order that can be run; in the arena of the fused graph */
    uint32_t n_parts;
    PP_VEC(pp_group_local) locals; /* ascending prim */
    bool absorbed;                 /* while fusing: it is part of another group */
};

typedef struct pp_fused {
    PP_VEC(pp_group) groups; /* in an order that can be run */
    PP_VEC(pp_missed) missed;
    uint32_t *stored_in; /* per prim: the group that stores it, or PP_NONE */
    uint8_t *result;     /* per prim: is it an output of the graph */
    uint8_t *number; /* per prim: of rank 0 and known on the host before a launch: literals, sizes, numbers
                        bound at run, and maps of these */
    pp_arena arena;
} pp_fused;

/* optimise false: one group per prim, the graph as recorded. fused: initialised here, free it also after a
 * failure. returns PPTO_OK; E_NOMEM; E_SIZE */
ppto_status pp_fuse(const pp_flat *flat, bool optimise, pp_fused *fused);
void pp_fused_free(pp_fused *fused);
#endif
