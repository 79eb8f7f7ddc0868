/* SPDX-License-Identifier: Apache-2.0
 * What the parts of lowering share. lower.c lowers a group and places its axes; lower_stage.c goes through
 * the stages; lower_emit.c emits values; lower_access.c enters what instructions refer to; lower_assemble.c
 * makes a program of it all.
 *
 * Instructions are numbered within their stage or side until the program is put together; folds by the heavy
 * they belong to. The value of a prim at a map is emitted once per stage. */
#ifndef PP_LOWER_PARTS_H
#define PP_LOWER_PARTS_H

#include "graph/lower.h"

#define PP_LOWER_STAGES 40u /* the most of one kernel */

typedef struct pp_known_value { /* emitted in this code at this map */
    uint32_t prim, instr;
    pp_imap *map;
} pp_known_value;

typedef struct pp_lower_code { /* under construction: a stage, or a side of a contraction */
    PP_VEC(pp_instr) code;
    PP_VEC(pp_known_value) values;
    PP_VEC(uint16_t) cost;  /* per instruction: of all that is done for each inner element, saturated */
    PP_VEC(uint8_t) varies; /* per instruction: depends on inner axes */
    PP_VEC(pp_fold) folds;
    PP_VEC(uint32_t) fold_of; /* heavy index per fold */
    bool inner;
} pp_lower_code;

typedef struct pp_lowerer {
    const pp_flat *flat;
    const pp_fused *fused;
    pp_group *group;
    uint32_t group_id;
    pp_lowered *out;
    pp_program *program;
    pp_arena *temp;
    pp_index ix;
    pp_lower_code stage[PP_LOWER_STAGES + 2]; /* the last two: sides of a contraction */
    uint32_t n_stages, current;
    uint32_t side_value[2]; /* instruction of each side */
    uint32_t depth;
    uint8_t axis_at[PP_FRAME_MAX_AXES]; /* frame axis -> program axis */
    uint8_t *ready;                     /* per member: first stage in which it is available */
    uint8_t *level;                     /* per heavy: its stage */
    uint8_t *inner_root;                /* per root: it is stored along the inner axes */
    uint32_t *fold_number;              /* per heavy: its fold in the program; from assembling on */
    PP_VEC(pp_term) terms;
    PP_VEC(pp_affine) affines;
    PP_VEC(pp_guard) guards;
    PP_VEC(pp_access) accesses;
    PP_VEC(uint32_t) operands;
    PP_VEC(pp_tensor_slot) tensors;
    PP_VEC(const pp_function *) callees;
    PP_VEC(pp_buffer) buffers;
    PP_VEC(uint64_t) kept; /* per buffer: stage << 32 | instr */
    PP_VEC(pp_check) checks;
    PP_VEC(pp_fold) folds;
    pp_error *err;
} pp_lowerer;

static inline pp_sizes *pp_lower_sizes(const pp_lowerer *l)
{
    return pp_types_sizes(l->flat->types);
}
static inline pp_lower_code *pp_lower_now(pp_lowerer *l)
{
    return &l->stage[l->current];
}

/* Is the value in memory when this program begins, stored by another group or an earlier part of the chain?
 */
bool pp_lower_elsewhere(const pp_lowerer *l, uint32_t prim);
/* lower.c: one program of the group, which is `id` or a part of it, behind the slots and args there are. */
ppto_status pp_lower_program(const pp_flat *flat, const pp_fused *fused, uint32_t id, pp_group *group,
                             pp_lowered *out, pp_error *err);
/* lower_chain.c: a group of parts. */
ppto_status pp_lower_chain(const pp_flat *flat, const pp_fused *fused, uint32_t id, pp_lowered *out,
                           pp_error *err);

/* ---- lower_access.c: enters what is not there yet; gives its number ---------------------------- */

ppto_status pp_lower_slot(pp_lowerer *l, pp_size size, pp_slot *slot);
/* value: an instruction that is added to the index; PP_NONE. */
ppto_status pp_lower_affine(pp_lowerer *l, const pp_iexpr *e, uint32_t value, uint32_t *affine);
/* The guards of the map from number `from` on. */
ppto_status pp_lower_guards(pp_lowerer *l, const pp_imap *map, uint32_t from, uint32_t *first);
/* linear: seen as one dimension of all elements. */
ppto_status pp_lower_tensor(pp_lowerer *l, uint32_t prim, bool output, bool linear, uint32_t *tensor);
/* values: NULL, or per dim an instruction that is its index, or PP_NONE. */
ppto_status pp_lower_access(pp_lowerer *l, uint32_t tensor, const pp_imap *map, const uint32_t *values,
                            uint32_t *access);
bool pp_lower_varies(const pp_lowerer *l, const pp_imap *map); /* along inner axes */

/* ---- lower_emit.c: appends to the current code; gives the instruction -------------------------- */

ppto_status pp_lower_add(pp_lowerer *l, pp_instr instr, uint32_t cost, bool varies, uint32_t *id);
/* The value of a prim at a map, and before it what it needs. */
ppto_status pp_lower_emit(pp_lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id);
ppto_status pp_lower_store(pp_lowerer *l, const pp_root *root);
/* Does the code have the value already? */
bool pp_lower_known(const pp_lower_code *code, uint32_t prim, const pp_imap *map, uint32_t *id);

/* ---- lower_stage.c ----------------------------------------------------------------------------- */

ppto_status pp_lower_stages(pp_lowerer *l); /* emits everything */
/* Looks for a dear value of an earlier stage and keeps it for this one. */
ppto_status pp_lower_kept(pp_lowerer *l, uint32_t prim, const pp_imap *map, bool *found, uint32_t *id);
/* A component of a REDUCE or SCAN of the group. */
ppto_status pp_lower_part(pp_lowerer *l, uint32_t prim, pp_imap *map, uint32_t *id);

/* ---- lower_assemble.c -------------------------------------------------------------------------- */

ppto_status pp_lower_assemble(pp_lowerer *l);
/* What each instruction counts times the size of its domain; products count 2 m n k. */
pp_size pp_lower_flops(pp_lowerer *l);

#endif
