/* SPDX-License-Identifier: Apache-2.0
 * Lowering a chain: every part becomes a program of its own, all behind one list of slots and one of args;
 * then their tensors become those of the chain, or its locals. A local may take over the memory of one that
 * is read for the last time, where a part writes each element of it after it has read the same one. */
#include <string.h>

#include "graph/lower_parts.h"

typedef struct chain_lowerer {
    const pp_flat *flat;
    const pp_fused *fused;
    pp_group *group;
    uint32_t id;
    pp_lowered *out;
    pp_program *program;
    PP_VEC(pp_tensor_slot) tensors;
    pp_error *err;
} chain_lowerer;

static uint32_t local_number(const pp_group *g, uint32_t prim)
{
    for (uint32_t i = 0; i < g->locals.n; i++)
        if (g->locals.at[i].prim == prim) return i;
    return PP_NONE;
}

/* ---- tensors and locals ------------------------------------------------------------------------ */

static ppto_status chain_tensor(chain_lowerer *l, const pp_lowered_tensor *t, const pp_tensor_slot *slot,
                                uint32_t *number)
{
    for (uint32_t i = 0; i < l->out->tensors.n; i++) {
        const pp_lowered_tensor *of = &l->out->tensors.at[i];
        if (of->prim != t->prim || of->output != t->output || of->linear != t->linear) continue;
        *number = i;
        return PPTO_OK;
    }
    *number = (uint32_t)l->out->tensors.n;
    PP_TRY(pp_vec_push(&l->out->tensors, *t));
    return pp_vec_push(&l->tensors, *slot);
}

/* Locals are numbered from 1 << 31 on until all tensors are known. */
enum { LOCAL_BIT = 31 };

static ppto_status map_tensors(chain_lowerer *l, const pp_lowered *part, pp_chain_part *out)
{
    const pp_program *p = part->program;
    out->tensor = pp_arena_alloc(&l->program->arena, (p->n_tensors + 1u) * sizeof *out->tensor);
    if (!out->tensor) return PPTO_E_NOMEM;
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        const uint32_t local = local_number(l->group, part->tensors.at[t].prim);
        if (local == PP_NONE)
            PP_TRY(chain_tensor(l, &part->tensors.at[t], &p->tensors[t], &out->tensor[t]));
        else
            out->tensor[t] = local | UINT32_C(1) << LOCAL_BIT;
    }
    return PPTO_OK;
}

static void number_locals(pp_program *chain)
{
    for (uint32_t i = 0; i < chain->n_parts; i++)
        for (uint32_t t = 0; t < chain->parts[i].program->n_tensors; t++) {
            uint32_t *at = &chain->parts[i].tensor[t];
            if (*at >> LOCAL_BIT) *at = chain->n_tensors + (*at ^ UINT32_C(1) << LOCAL_BIT);
        }
}

static ppto_status describe_locals(chain_lowerer *l)
{
    pp_group *g = l->group;
    pp_program *p = l->program;
    pp_lowerer *slots = pp_calloc(1, sizeof *slots); /* only its slots are used */
    if (!slots) return PPTO_E_NOMEM;
    slots->flat = l->flat;
    slots->out = l->out;
    slots->err = l->err;
    ppto_status status = PPTO_OK;
    for (uint32_t i = 0; i < g->locals.n; i++) {
        const pp_type *type = pp_flat_type(l->flat, g->locals.at[i].prim);
        pp_local *local = &p->locals[i];
        *local = (pp_local){
            .dtype = type->dtype, .rank = type->rank, .rows = g->locals.at[i].rows, .place = (uint8_t)i};
        for (uint32_t d = 0; status == PPTO_OK && d < type->rank; d++)
            status = pp_lower_slot(slots, type->dim[d], &local->dim[d]);
    }
    pp_free(slots);
    return status;
}

/* ---- memory of locals -------------------------------------------------------------------------- */

static bool same_size(const pp_local *a, const pp_local *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, a->rank * sizeof *a->dim) == 0 &&
           ppto_dtype_size((ppto_dtype)a->dtype) == ppto_dtype_size((ppto_dtype)b->dtype);
}

/* Every local is read by one part alone, so what a part reads it may take over; each of them once. */
static void share_places(chain_lowerer *l, const pp_lowered *part, const pp_chain_part *at)
{
    const pp_program *p = part->program;
    for (uint32_t o = 0; o < p->n_tensors; o++) {
        if (!p->tensors[o].output || !(at->tensor[o] >> LOCAL_BIT)) continue;
        pp_local *to = &l->program->locals[at->tensor[o] ^ UINT32_C(1) << LOCAL_BIT];
        for (uint32_t t = 0; t < p->n_tensors; t++) {
            if (p->tensors[t].output || !(at->tensor[t] >> LOCAL_BIT)) continue;
            const pp_local *from = &l->program->locals[at->tensor[t] ^ UINT32_C(1) << LOCAL_BIT];
            bool taken = false;
            for (uint32_t i = 0; i < o; i++)
                taken |= p->tensors[i].output && (at->tensor[i] >> LOCAL_BIT) &&
                         l->program->locals[at->tensor[i] ^ UINT32_C(1) << LOCAL_BIT].place == from->place;
            if (taken || !same_size(to, from) || !pp_lowered_takes(part, o, t)) continue;
            to->place = from->place;
            break;
        }
    }
}

/* ---- parts ------------------------------------------------------------------------------------- */

static ppto_status lower_part(chain_lowerer *l, uint32_t number)
{
    pp_lowered part = {.slots = l->out->slots, .args = l->out->args};
    pp_chain_part *at = &l->program->parts[number];
    ppto_status status = pp_lower_program(l->flat, l->fused, l->id, &l->group->parts[number], &part, l->err);
    l->out->slots = part.slots;
    l->out->args = part.args;
    at->program = part.program;
    if (part.program) l->program->n_parts = number + 1;
    if (status == PPTO_OK) status = map_tensors(l, &part, at);
    if (status == PPTO_OK) share_places(l, &part, at);
    if (status == PPTO_OK)
        l->out->flops =
            number == 0 ? part.flops : pp_size_add(pp_types_sizes(l->flat->types), l->out->flops, part.flops);
    pp_vec_free(&part.tensors);
    return status;
}

static ppto_status lower_parts(chain_lowerer *l)
{
    pp_program *p = l->program;
    p->frame = PP_FRAME_CHAIN;
    p->n_locals = (uint32_t)l->group->locals.n;
    p->parts = pp_arena_alloc(&p->arena, l->group->n_parts * sizeof *p->parts);
    p->locals = pp_arena_alloc(&p->arena, (p->n_locals + 1u) * sizeof *p->locals);
    if (!p->parts || !p->locals) return PPTO_E_NOMEM;
    for (int i = 0; i < PP_SLOT_FIRST; i++)
        PP_TRY(pp_vec_push(&l->out->slots, i == 1 ? PP_SIZE_1 : PP_SIZE_0));
    PP_TRY(describe_locals(l));
    for (uint32_t i = 0; i < l->group->n_parts; i++) PP_TRY(lower_part(l, i));
    p->n_tensors = (uint32_t)l->tensors.n;
    p->tensors = pp_arena_alloc(&p->arena, (p->n_tensors + 1u) * sizeof *p->tensors);
    if (!p->tensors) return PPTO_E_NOMEM;
    memcpy(p->tensors, l->tensors.at, p->n_tensors * sizeof *p->tensors);
    number_locals(p);
    p->n_slots = (uint32_t)l->out->slots.n;
    p->n_args = (uint32_t)l->out->args.n;
    p->hash = pp_program_hash(p);
    return pp_sizes_status(pp_types_sizes(l->flat->types));
}

ppto_status pp_lower_chain(const pp_flat *flat, const pp_fused *fused, uint32_t id, pp_lowered *out,
                           pp_error *err)
{
    chain_lowerer l = {
        .flat = flat, .fused = fused, .group = &fused->groups.at[id], .id = id, .out = out, .err = err};
    out->program = l.program = pp_calloc(1, sizeof *l.program);
    ppto_status status = l.program ? lower_parts(&l) : PPTO_E_NOMEM;
    pp_vec_free(&l.tensors);
    return status;
}
