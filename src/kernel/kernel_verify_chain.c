/* SPDX-License-Identifier: Apache-2.0
 * The invariants of a chain: parts are programs of their own that agree with the chain on its tensors and
 * locals; a local is stored by one part, and read only by later ones. That parts touch a local only at their
 * own rows is held by fusion, and by the fuzzer, which compares with the composition. */
#include "kernel/verify.h"

#define NEED_PART(condition, part, i, what)                                                                  \
    do {                                                                                                     \
        if (!(condition)) return pp_verify_fail(v, part, i, what);                                           \
    } while (0)

static ppto_status check_locals(const pp_verify *v)
{
    const pp_program *p = v->program;
    for (uint32_t i = 0; i < p->n_locals; i++) {
        const pp_local *local = &p->locals[i];
        NEED_PART(local->dtype <= PPTO_F64 && local->rank <= PPTO_MAX_RANK && local->rows <= local->rank,
                  "local", i, "its type");
        NEED_PART(local->place < p->n_locals, "local", i, "no such place");
        for (uint32_t d = 0; d < local->rank; d++)
            NEED_PART(local->dim[d] < p->n_slots, "local", i, "no such slot");
    }
    return PPTO_OK;
}

static ppto_status check_tensor(const pp_verify *v, const pp_chain_part *part, uint32_t t, bool *stored)
{
    const pp_program *p = v->program;
    const pp_tensor_slot *slot = &part->program->tensors[t];
    const uint32_t at = part->tensor[t];
    NEED_PART(at < p->n_tensors + p->n_locals, "part's tensor", t, "no such tensor");
    if (at < p->n_tensors) {
        const pp_tensor_slot *of = &p->tensors[at];
        NEED_PART(of->dtype == slot->dtype && of->rank == slot->rank && of->output == slot->output &&
                      of->result == slot->result,
                  "part's tensor", t, "is another one in the chain");
        return PPTO_OK;
    }
    const pp_local *local = &p->locals[at - p->n_tensors];
    NEED_PART(local->dtype == slot->dtype && local->rank == slot->rank && !slot->result, "part's tensor", t,
              "is another one in the chain");
    NEED_PART(stored[at - p->n_tensors] != slot->output, "part's tensor", t,
              "a local is stored once, before it is read");
    return PPTO_OK;
}

static ppto_status check_part(const pp_verify *v, uint32_t number, bool *stored)
{
    const pp_program *p = v->program;
    const pp_chain_part *part = &p->parts[number];
    const pp_program *q = part->program;
    NEED_PART(q->frame == PP_FRAME_LANES || q->frame == PP_FRAME_CONTRACT, "part", number,
              "its frame has no rows");
    NEED_PART(q->n_slots <= p->n_slots && q->n_args <= p->n_args, "part", number, "more slots or args");
    PP_TRY(pp_program_verify(q, v->err));
    for (uint32_t t = 0; t < q->n_tensors; t++) PP_TRY(check_tensor(v, part, t, stored));
    for (uint32_t t = 0; t < q->n_tensors; t++)
        if (q->tensors[t].output && part->tensor[t] >= p->n_tensors)
            stored[part->tensor[t] - p->n_tensors] = true;
    return PPTO_OK;
}

ppto_status pp_verify_chain(const pp_verify *v)
{
    const pp_program *p = v->program;
    ppto_status status = PPTO_OK;
    NEED_PART(p->n_parts >= 2 && p->n_parts <= PP_MOST_PARTS, "program", 0, "number of parts");
    NEED_PART(p->n_code == 0 && p->n_axes == 0 && p->n_stages == 0, "program", 0, "a chain has no code");
    PP_TRY(check_locals(v));
    bool *stored = pp_calloc(p->n_locals + 1u, sizeof *stored);
    if (stored == NULL) return pp_fail(v->err, PPTO_E_NOMEM, "out of memory");
    for (uint32_t i = 0; status == PPTO_OK && i < p->n_parts; i++) status = check_part(v, i, stored);
    pp_free(stored);
    PP_TRY(status);
    if (p->hash != 0 && p->hash != pp_program_hash(p))
        return pp_verify_fail(v, "program", 0, "the hash is not its own");
    return PPTO_OK;
}
