/* SPDX-License-Identifier: Apache-2.0
 * States of folds and scans: their functions, inlined, and where they lie on the stack. What the laws do with
 * them stands in emit_fold.c (lanes of a row), emit_column.c (columns) and emit_scan.c. */
#include "base/fault.h"
#include "devices/cpu_llvm/emit.h"

enum { MAX_PARAM = 12 };

/* ---- functions ----------------------------------------------------------------------------------------- */

void pp_emit_state_lift(pp_emit *e, const pp_loop_fold *f, const pp_emit_value *in, pp_emit_value *out)
{
    const pp_fold *fold = f->fold;
    if (fold->joined)
        for (unsigned s = 0; s < fold->n_states; s++) out[s] = in[s];
    else
        pp_emit_function(e, fold->lift, in, out);
}

void pp_emit_state_join(pp_emit *e, const pp_loop_fold *f, const pp_emit_value *a, const pp_emit_value *b,
                        pp_emit_value *out)
{
    const unsigned n = f->fold->n_states;
    const bool swapped = pp_fault(PP_FAULT_CODE_JOIN);
    pp_emit_value param[MAX_PARAM];
    for (unsigned s = 0; s < n; s++) {
        param[s] = swapped ? b[s] : a[s];
        param[n + s] = swapped ? a[s] : b[s];
    }
    pp_emit_function(e, f->fold->join, param, out);
}

void pp_emit_state_step(pp_emit *e, const pp_loop_fold *f, const pp_emit_value *state,
                        const pp_emit_value *in, pp_emit_value *out)
{
    const pp_fold *fold = f->fold;
    pp_emit_value param[MAX_PARAM], lifted[4];
    if (fold->step == NULL) {
        pp_emit_state_lift(e, f, in, lifted);
        pp_emit_state_join(e, f, state, lifted, out);
        return;
    }
    const unsigned n = fold->n_states, n_in = fold->n_inputs + (fold->position ? 1u : 0u);
    for (unsigned s = 0; s < n; s++) param[s] = state[s];
    for (unsigned i = 0; i < n_in; i++) param[n + i] = in[i];
    pp_emit_function(e, fold->step, param, out);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

ppto_dtype pp_emit_state_dtype(const pp_loop_fold *f, unsigned s)
{
    return (ppto_dtype)f->fold->state[s];
}

void pp_emit_state_room(pp_emit *e, const pp_loop_fold *f, unsigned elements, LLVMValueRef *room)
{
    for (unsigned s = 0; s < f->fold->n_states; s++) {
        const LLVMTypeRef type = LLVMVectorType(pp_emit_memory(e, pp_emit_state_dtype(f, s)), elements);
        room[s] = LLVMBuildAlloca(e->build, type, "");
        LLVMSetAlignment(room[s], e->target->bytes);
    }
}

LLVMValueRef pp_emit_state_at(pp_emit *e, const pp_loop_fold *f, unsigned s, LLVMValueRef base,
                              LLVMValueRef element)
{
    return LLVMBuildGEP2(e->build, pp_emit_memory(e, pp_emit_state_dtype(f, s)), base, &element, 1, "");
}

void pp_emit_store_one(pp_emit *e, const pp_stream *stream, LLVMValueRef at, LLVMValueRef state)
{
    const ppto_dtype dtype = (ppto_dtype)stream->dtype;
    if (stream->canonical && !pp_fault(PP_FAULT_CODE_NAN)) state = pp_emit_canonical(e, dtype, state);
    if (dtype == PPTO_BOOL) state = pp_emit_cast(e, PPTO_BOOL, PPTO_U8, state);
    const LLVMValueRef first =
        LLVMBuildExtractElement(e->build, state, pp_emit_constant(e, pp_emit_int(e, 32), 0), "");
    LLVMSetAlignment(LLVMBuildStore(e->build, first, at), 1);
}
