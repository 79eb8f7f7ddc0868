/* SPDX-License-Identifier: Apache-2.0
 * What the code of a loop weighs, calls unfolded: decides the vector and how often it is written out. Cold
 * regions count as one, since their code stands elsewhere. */
#include "devices/cpu_llvm/emit.h"

enum { MAX_DEPTH = 64, SCAN_JOINS = 6 };

static void note_dtype(pp_emit_weight *sum, uint8_t dtype)
{
    const unsigned bytes = pp_dtype_width((ppto_dtype)dtype) / 8;
    if (bytes > sum->widest) sum->widest = bytes;
}

static void weigh(const pp_pools *pools, unsigned depth, pp_emit_weight *sum)
{
    for (uint32_t i = 0; i < pools->n_code; i++) {
        const pp_instr *instr = &pools->code[i];
        note_dtype(sum, instr->dtype);
        sum->rows += instr->op < PP_SCALAR_COUNT || instr->op == PP_TABLE;
        sum->cold += instr->op == PP_COLD || instr->op == PP_FMOD;
        if (instr->op != PP_CALL || depth == 0) continue;
        const pp_pools callee = pp_function_pools(pools->callees[instr->imm]);
        weigh(&callee, depth - 1, sum);
    }
}

static void weigh_function(const pp_function *function, pp_emit_weight *sum)
{
    if (function == NULL) return;
    const pp_pools pools = pp_function_pools(function);
    weigh(&pools, MAX_DEPTH, sum);
}

void pp_emit_weigh(const pp_loop *loop, pp_emit_weight *out)
{
    const pp_pools pools = pp_loop_pools(loop);
    *out = (pp_emit_weight){.widest = 1};
    weigh(&pools, MAX_DEPTH, out);
    for (uint32_t i = 0; i < loop->n_folds; i++) {
        const pp_fold *fold = loop->folds[i].fold;
        weigh_function(fold->joined ? NULL : fold->lift, out);
        for (unsigned k = 0; fold->law == PP_LAW_SCAN && k < SCAN_JOINS; k++) weigh_function(fold->join, out);
        weigh_function(fold->step != NULL ? fold->step : fold->join, out);
        for (unsigned s = 0; s < fold->n_states; s++) note_dtype(out, fold->state[s]);
        out->states += fold->n_states;
    }
}
