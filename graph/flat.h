/* SPDX-License-Identifier: Apache-2.0
 * The flat graph: tensor primitives only, in topological order. Described operators are expanded into it;
 * simplify, fuse and lower read it; the reference device runs it node by node. Ids are indices; operands have
 * lower ids.
 *
 * Every MAP operand has the shape of the result (BROADCAST views are explicit). REDUCE and SCAN are read
 * through PART. */
#ifndef PP_FLAT_H
#define PP_FLAT_H

#include "kernel/program.h"
#include "ops/type.h"

typedef enum pp_prim_kind {
    PP_P_INPUT,   /* number: which input */
    PP_P_LITERAL, /* rank 0; bits of its dtype (weak: i64 or f64) */
    PP_P_SIZE,    /* rank 0 weak i64: the value of `size`, known when sizes are bound */
    PP_P_IOTA,    /* i64 [n]: 0 .. n-1 */
    PP_P_MAP,     /* op (a scalar row) or function on operands of the result's shape; op CAST, BITCAST: to the
                     type's     dtype; weak_cast: a weak number adopts a dtype (a rank-0 value must fit, else
                     E_VALUE)
                   */
    PP_P_COLD,    /* operands mask, hot, args…; function: the cold one (inside scalar functions only) */
    PP_P_TABLE,   /* operand: index; table (inside scalar functions only) */
    PP_P_PERMUTE, /* result dim i is operand dim axes[i] */
    PP_P_RESHAPE, /* row-major */
    PP_P_SLICE,   /* along `axis`: element i is operand element start + i * step */
    PP_P_BROADCAST, /* right-aligned; operand dims of size 1 (the constant) or missing repeat */
    PP_P_PAD,    /* operands x, value (rank 0): `before` elements of value first along axis, the rest after */
    PP_P_CONCAT, /* along axis */
    PP_P_GATHER, /* operands x, idx (any int dtype): result dims: x before axis, idx dims, x after axis */
    PP_P_REDUCE, /* fold over operands of one shape; see pp_flat_reduce */
    PP_P_SCAN,   /* fold kept along `axis` (lanes: the last axis) */
    PP_P_CONTRACT, /* operands a [batch, free a, k], b [batch, free b, k]; n_batch, n_k; result [batch, free
                      a, free b] */
    PP_P_PART,     /* component `number` of a REDUCE or SCAN */
    PP_P_CHECK     /* operands x, cond (bool, same shape): x, and an error of the run where cond is false */
} pp_prim_kind;

/* The scalar part of a fold: shared, immutable, owned by the library. */
typedef struct pp_monoid {
    const char *name;
    uint8_t n_states, n_inputs, n_results;
    uint8_t state[4], result[4]; /* dtypes */
    bool joined, position, ordered;
    const pp_function *lift, *step, *join, *finish;
    bool has_unit;
    uint64_t unit[4]; /* results of an empty axis, bits of result dtypes */
} pp_monoid;

typedef struct pp_prim {
    uint8_t kind; /* pp_prim_kind */
    uint8_t op;   /* pp_op of MAP; PP_CALL when function is set */
    uint8_t axis;
    uint8_t n_batch, n_k; /* CONTRACT */
    bool rows;            /* REDUCE, SCAN: row law, else lanes */
    bool weak_cast;
    uint32_t
        number; /* INPUT, PART; LITERAL: its place in pp_graph_literals, PP_NONE for a definition's own */
    pp_type_id type;
    uint32_t first_operand, n_operands;
    uint32_t origin;        /* the node it came from, as its rank (graph.h); PP_NONE */
    uint32_t stream, level; /* 0: none; sync points before it; 0 of sources, which belong to no stream */
    union {
        uint64_t bits;               /* LITERAL */
        pp_size size;                /* SIZE */
        const pp_function *function; /* MAP with op PP_CALL, COLD */
        const pp_table *table;       /* TABLE */
        uint8_t axes[PPTO_MAX_RANK]; /* PERMUTE */
        struct {
            pp_size start;
            int64_t step;
        } slice;
        pp_size before; /* PAD */
        struct {
            const pp_monoid *monoid;
            uint32_t axes;
        } fold;              /* REDUCE: bit set of reduced dims of the operand */
        const char *message; /* CHECK */
    } u;
} pp_prim;

/* What must hold for the sizes of a run: a rule of an operator that recording could not decide. */
typedef struct pp_condition {
    pp_size margin;      /* it holds when this is not negative */
    ppto_status code;    /* else the run fails with this */
    uint32_t origin;     /* rank of a node; PP_NONE */
    const char *message; /* borrowed */
} pp_condition;

/* A point in the order of a stream that nothing is fused or merged across. Its level is above that of all
 * before it on its stream, and of the record a WAIT waits for; what comes later on the stream has its level
 * or a higher one. So every dependence goes to the same or a higher level, and one across a sync point to a
 * higher one: prims of one stream and level may be put together without making a circle. */
typedef enum pp_sync_kind { PP_SYNC_RECORD, PP_SYNC_WAIT } pp_sync_kind;
typedef struct pp_sync {
    uint8_t kind; /* pp_sync_kind */
    uint32_t stream, level;
    uint32_t record; /* WAIT: the sync that records the event; PP_NONE: it comes from outside */
    uint32_t origin; /* rank of its node */
} pp_sync;

typedef struct pp_flat {
    pp_types *types; /* borrowed */
    uint32_t n_streams;
    PP_VEC(pp_sync) syncs; /* in the order of recording */
    PP_VEC(pp_prim) prims;
    PP_VEC(uint32_t) operands;
    PP_VEC(uint32_t) outputs; /* prim ids */
    PP_VEC(pp_condition) conditions;
} pp_flat;

/* Each constructor appends a prim and gives its id; E_NOMEM, or E_INTERNAL when the contract above is broken
 * (callers check shapes and dtypes with user-level messages before). Cheap identities are folded at once: a
 * permute that is the identity, a broadcast or reshape to the same shape, a full slice return the operand. */
void pp_flat_init(pp_flat *flat, pp_types *types);
void pp_flat_free(pp_flat *flat);
ppto_status pp_flat_add(pp_flat *flat, const pp_prim *prim, const uint32_t *operands, uint32_t n,
                        uint32_t *id);
ppto_status pp_flat_permute(pp_flat *flat, uint32_t x, const uint8_t *axes, uint32_t *id);
ppto_status pp_flat_reshape(pp_flat *flat, uint32_t x, uint32_t rank, const pp_size *dims, uint32_t *id);
ppto_status pp_flat_broadcast(pp_flat *flat, uint32_t x, uint32_t rank, const pp_size *dims, uint32_t *id);
ppto_status pp_flat_slice(pp_flat *flat, uint32_t x, uint32_t axis, pp_size start, pp_size length,
                          int64_t step, uint32_t *id);
ppto_status pp_flat_literal(pp_flat *flat, ppto_dtype dtype, bool weak, uint64_t bits, uint32_t *id);
/* MAP of a scalar row on operands that already have one shape; to: result dtype of CAST, BITCAST (else
 * ignored). */
ppto_status pp_flat_map(pp_flat *flat, pp_op op, ppto_dtype to, const uint32_t *x, uint32_t n, uint32_t *id);
ppto_status pp_flat_call(pp_flat *flat, const pp_function *function, const uint32_t *x, uint32_t n,
                         uint32_t *id);
/* Reduces `axes` (a set of dims of the operands) by the law of reductions: lanes when the reduced dims are
 * the last ones (or there are none), else rows; trailing reduced dims of a row reduction become a lane
 * reduction of states first, joined by rows afterwards. parts[n_results] receive the ids of the components,
 * reduced dims dropped. */
ppto_status pp_flat_reduce(pp_flat *flat, const pp_monoid *monoid, const pp_monoid *joined,
                           const pp_monoid *unfinished, uint32_t axes, const uint32_t *x, uint32_t n,
                           uint32_t *parts);
ppto_status pp_flat_scan(pp_flat *flat, const pp_monoid *monoid, uint32_t axis, const uint32_t *x, uint32_t n,
                         uint32_t *parts);
ppto_status pp_flat_contract(pp_flat *flat, uint32_t a, uint32_t b, uint32_t n_batch, uint32_t n_k,
                             uint32_t *id);

static inline const pp_prim *pp_flat_prim(const pp_flat *flat, uint32_t id)
{
    return &flat->prims.at[id];
}
static inline const pp_type *pp_flat_type(const pp_flat *flat, uint32_t id)
{
    return pp_type_get(flat->types, flat->prims.at[id].type);
}
static inline const uint32_t *pp_flat_operands(const pp_flat *flat, uint32_t id)
{
    return flat->operands.at + flat->prims.at[id].first_operand;
}
const char *pp_prim_kind_name(pp_prim_kind kind);
void pp_flat_print(const pp_flat *flat, pp_text *out);
void pp_flat_print_prim(const pp_flat *flat, uint32_t id, pp_text *out); /* "map.add %1 %2" */
ppto_status pp_flat_verify(const pp_flat *flat, pp_error *err);

#endif
