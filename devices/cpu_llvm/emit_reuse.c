/* SPDX-License-Identifier: Apache-2.0
 * Rows that were computed before are not computed again: functions of one argument begin alike (sin and cos
 * of x reduce x the same way), and only here, where calls are unfolded, do their texts meet.
 *
 * What was computed is known along a stretch: blocks each of which is reached from the one before alone, so
 * that its values are there. A stretch goes on behind rare code (emit_rare.c) and ends wherever else the
 * builder goes. */
#include "devices/cpu_llvm/emit.h"

static bool same(const pp_emit_row *a, const pp_emit_row *b)
{
    return a->op == b->op && a->from == b->from && a->to == b->to && a->table == b->table &&
           a->operand[0] == b->operand[0] && a->operand[1] == b->operand[1] && a->operand[2] == b->operand[2];
}

bool pp_emit_reuse(pp_emit *e, const pp_emit_row *row, pp_emit_value *out)
{
    if (e->made.block != LLVMGetInsertBlock(e->build)) return false;
    for (size_t i = e->made.rows.n; i-- > 0;)
        if (same(&e->made.rows.at[i].row, row)) return *out = e->made.rows.at[i].value, true;
    return false;
}

void pp_emit_made(pp_emit *e, const pp_emit_row *row, pp_emit_value value)
{
    const LLVMBasicBlockRef block = LLVMGetInsertBlock(e->build);
    if (e->made.block != block) e->made.rows.n = 0;
    e->made.block = block;
    if (pp_vec_push(&e->made.rows, ((pp_emit_made_row){*row, value})) != PPTO_OK)
        pp_emit_fail(e, PPTO_E_NOMEM, "no memory");
}

void pp_emit_made_goes_on(pp_emit *e, LLVMBasicBlockRef from)
{
    if (e->made.block == from) e->made.block = LLVMGetInsertBlock(e->build);
}

pp_emit_stretch pp_emit_made_aside(pp_emit *e)
{
    const pp_emit_stretch kept = e->made;
    e->made = (pp_emit_stretch){0};
    return kept;
}

void pp_emit_made_back(pp_emit *e, pp_emit_stretch kept)
{
    pp_vec_free(&e->made.rows);
    e->made = kept;
}
