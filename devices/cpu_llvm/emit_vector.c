/* SPDX-License-Identifier: Apache-2.0
 * The code of one vector of a loop: loads, rows, folds and scans, stores. */
#include "base/fault.h"
#include "devices/cpu_llvm/emit_writer.h"

/* ---- what the code says -------------------------------------------------------------------------------- */

/* Long code overlaps enough by itself; branches of cold regions cut it anyway. With folds, a copy of the code
 * for every vector of lanes keeps all states in registers, where both are few enough. By columns rows are
 * taken together, not vectors: their states go to registers and back once for all of them. */
void pp_emit_choose_unroll(pp_emit_writer *w, const pp_emit_weight *sum)
{
    enum { MOST_ROWS = 128 };
    const unsigned vectors = PP_LANES / w->e->lanes;
    w->unroll = sum->cold > 0 || sum->rows > 40 ? 1 : sum->rows > 12 ? 2 : 4;
    w->together = w->scans != NULL ? PP_SCAN_GROUP / w->e->lanes : 1;
    if (w->unroll < w->together) w->unroll = w->together;
    if (sum->states == 0 || w->scans != NULL) return;
    if (w->columns) {
        w->down = sum->cold > 0 || sum->rows > 40 ? 1 : sum->rows > 12 ? 2 : 4;
        w->unroll = 1;
        return;
    }
    w->registers = sum->cold == 0 && sum->rows * vectors <= MOST_ROWS &&
                   sum->states * vectors <= w->e->target->registers / 2;
    if (w->registers || w->unroll > vectors) w->unroll = vectors;
}

void pp_emit_find_varying(pp_emit_writer *w)
{
    for (uint32_t at = 0; at < w->loop->n_code; at++) {
        const pp_instr *instr = &w->loop->code[at];
        uint32_t operand[PP_MAX_OPERANDS];
        const unsigned n = pp_instr_operands(&w->pools, instr, operand);
        if (instr->op == PP_PARAM) {
            w->varies[at] = w->loop->in[instr->imm].kind == PP_STREAM_FULL;
            w->read[instr->imm] = true;
        }
        if (instr->op == PP_SCANNED) w->varies[at] = true;
        for (unsigned i = 0; i < n; i++) w->varies[at] = w->varies[at] || w->varies[operand[i]];
    }
    for (uint32_t i = 0; i < w->loop->n_folds; i++) {
        const pp_loop_fold *f = &w->loop->folds[i];
        if (f->first != PP_NONE) w->read[f->first] = true;
        for (unsigned s = 0; w->scans != NULL && s < f->fold->n_states; s++) w->read[f->carry[s]] = true;
    }
}

/* ---- one vector ---------------------------------------------------------------------------------------- */

static LLVMValueRef element_at(const pp_emit_writer *w, const pp_emit_place *p, uint8_t dtype, LLVMValueRef c)
{
    return LLVMBuildGEP2(w->e->build, pp_emit_memory(w->e, (ppto_dtype)dtype), p->row, &c, 1, "");
}

static void load_params(pp_emit_writer *w, LLVMValueRef c, LLVMValueRef part)
{
    for (uint32_t i = 0; i < w->loop->n_in; i++) {
        const pp_stream *stream = &w->loop->in[i];
        if (!w->read[i] || stream->kind != PP_STREAM_FULL) continue;
        const LLVMValueRef at = element_at(w, &w->in[i], stream->dtype, c);
        w->param[i].at = part != NULL ? pp_emit_load_part(w->e, (ppto_dtype)stream->dtype, at, part)
                                      : pp_emit_load(w->e, (ppto_dtype)stream->dtype, at);
    }
}

/* A planted fault: of seven elements, or seven more than eights, the last is not written. */
static LLVMValueRef without_last(const pp_emit *e, LLVMValueRef part)
{
    const LLVMValueRef odd = LLVMBuildAnd(e->build, part, pp_emit_count(e, 7), "");
    const LLVMValueRef drop = LLVMBuildICmp(e->build, LLVMIntEQ, odd, pp_emit_count(e, 7), "");
    return LLVMBuildSub(e->build, part, LLVMBuildZExt(e->build, drop, LLVMTypeOf(part), ""), "");
}

static void store_results(pp_emit_writer *w, LLVMValueRef c, LLVMValueRef part)
{
    const LLVMValueRef all = w->e->active;
    if (pp_fault(PP_FAULT_CODE_TAIL) && part != NULL) {
        part = without_last(w->e, part);
        w->e->active = pp_emit_first_lanes(w->e, part);
    }
    for (uint32_t at = 0; at < w->loop->n_code; at++) {
        const pp_instr *instr = &w->loop->code[at];
        if (instr->op != PP_STORE) continue;
        const pp_stream *stream = &w->loop->out[instr->imm];
        const ppto_dtype dtype = (ppto_dtype)stream->dtype;
        const LLVMValueRef to = element_at(w, &w->out[instr->imm], stream->dtype, c);
        LLVMValueRef value = w->value[instr->a].at;
        if (stream->canonical && !pp_fault(PP_FAULT_CODE_NAN)) value = pp_emit_canonical(w->e, dtype, value);
        if (part != NULL)
            pp_emit_store_part(w->e, dtype, to, value, part);
        else
            pp_emit_store(w->e, dtype, to, value, stream->around && w->around);
    }
    w->e->active = all;
}

/* ---- folds --------------------------------------------------------------------------------------------- */

static void fold_inputs(const pp_emit_writer *w, const pp_loop_fold *at, LLVMValueRef c, pp_emit_value *in)
{
    for (unsigned i = 0; i < at->fold->n_inputs; i++) in[i] = w->value[at->input[i]];
    if (!at->fold->position) return;
    const LLVMValueRef first = w->param[at->first].at;
    in[at->fold->n_inputs].at = w->columns ? LLVMBuildAdd(w->e->build, first, pp_emit_splat(w->e, w->r), "")
                                           : pp_emit_positions(w->e, first, c);
}

static pp_emit_value *state_of(const pp_emit_writer *w, uint32_t fold, unsigned vector)
{
    return w->state[fold * w->unroll + vector];
}

static void write_folds(pp_emit_writer *w, LLVMValueRef c, LLVMValueRef part, unsigned vector)
{
    for (uint32_t i = 0; w->scans == NULL && i < w->loop->n_folds; i++) {
        pp_emit_value in[5] = {{0}};
        fold_inputs(w, w->folds[i].at, c, in);
        if (w->columns)
            pp_emit_step_columns(w, i, in);
        else if (part != NULL)
            pp_emit_fold_part(w->e, &w->folds[i], c, in);
        else if (w->registers && w->lifts)
            pp_emit_state_lift(w->e, w->folds[i].at, in, state_of(w, i, vector));
        else if (w->registers)
            pp_emit_state_step(w->e, w->folds[i].at, state_of(w, i, vector), in, state_of(w, i, vector));
        else
            pp_emit_fold_vector(w->e, &w->folds[i], c, in);
    }
}

/* ---- scans --------------------------------------------------------------------------------------------- */

static LLVMValueRef is_zero(const pp_emit_writer *w, LLVMValueRef c)
{
    return LLVMBuildICmp(w->e->build, LLVMIntEQ, c, pp_emit_count(w->e, 0), "");
}

/* Of scan i, once for the vector: in the masked parts a row may begin. */
static void write_scan(pp_emit_writer *w, uint32_t i, LLVMValueRef c, LLVMValueRef part, unsigned vector)
{
    pp_emit_scan *scan = &w->scans[i];
    const unsigned v = vector % scan->vectors;
    pp_emit_value in[5] = {{0}};
    LLVMValueRef first = NULL;
    fold_inputs(w, scan->at, c, in);
    if (part != NULL) {
        const LLVMValueRef start =
            LLVMBuildSub(w->e->build, c, pp_emit_count(w->e, (uint64_t)v * w->e->lanes), "");
        first = is_zero(w, start);
        if (v == 0) pp_emit_scan_load(w->e, scan);
    }
    pp_emit_scan_vector(w->e, scan, v, first, in);
    if (part != NULL && v == scan->vectors - 1) pp_emit_scan_store(w->e, scan);
}

void pp_emit_start_scans(pp_emit_writer *w)
{
    for (uint32_t i = 0; w->scans != NULL && i < w->loop->n_folds; i++) {
        pp_emit_scan *scan = &w->scans[i];
        const LLVMValueRef zero = pp_emit_constant(w->e, pp_emit_int(w->e, 32), 0);
        for (unsigned s = 0; s < scan->at->fold->n_states; s++) scan->carry[s] = w->param[scan->at->carry[s]];
        scan->alone =
            is_zero(w, LLVMBuildExtractElement(w->e->build, w->param[scan->at->first].at, zero, ""));
    }
}

/* ---- states -------------------------------------------------------------------------------------------- */

void pp_emit_move_states(pp_emit_writer *w, bool load)
{
    for (uint32_t i = 0; w->scans != NULL && i < w->loop->n_folds; i++) {
        if (load)
            pp_emit_scan_load(w->e, &w->scans[i]);
        else
            pp_emit_scan_store(w->e, &w->scans[i]);
    }
}

void pp_emit_spill_lanes(pp_emit_writer *w)
{
    for (uint32_t i = 0; i < w->loop->n_folds; i++)
        for (unsigned v = 0; v < w->unroll; v++)
            pp_emit_fold_store(w->e, &w->folds[i], pp_emit_count(w->e, (uint64_t)v * w->e->lanes),
                               state_of(w, i, v));
}

void pp_emit_turn_states(pp_emit_writer *w, LLVMBasicBlockRef from, bool first)
{
    for (uint32_t i = 0; w->scans != NULL && i < w->loop->n_folds; i++)
        pp_emit_scan_turn(w->e, &w->scans[i], from, first);
    for (uint32_t i = 0; w->registers && i < w->loop->n_folds; i++)
        for (unsigned v = 0; v < w->unroll; v++)
            for (unsigned s = 0; s < w->loop->folds[i].fold->n_states; s++) {
                pp_emit_value *state = &state_of(w, i, v)[s];
                LLVMValueRef *at = &w->turned[i * w->unroll + v][s].at;
                if (first) *at = LLVMBuildPhi(w->e->build, LLVMTypeOf(state->at), "");
                LLVMAddIncoming(*at, &state->at, &from, 1);
                if (first) *state = (pp_emit_value){.at = *at};
            }
}

void pp_emit_end_folds(pp_emit_writer *w, bool registers)
{
    const LLVMValueRef lanes = pp_emit_at_most(w->e, w->cols, pp_emit_count(w->e, PP_LANES));
    for (uint32_t i = 0; i < w->loop->n_folds; i++) {
        const pp_loop_fold *at = &w->loop->folds[i];
        LLVMValueRef to[4];
        for (unsigned s = 0; s < at->fold->n_states; s++) to[s] = w->out[at->out[s]].row;
        if (w->scans != NULL)
            pp_emit_scan_end(w->e, &w->scans[i], w->cols, to);
        else if (registers)
            pp_emit_fold_end_all(w->e, &w->folds[i], &w->state[i * w->unroll], to);
        else
            pp_emit_fold_end(w->e, &w->folds[i], lanes, to);
    }
}

/* ---- a vector with all of it --------------------------------------------------------------------------- */

void pp_emit_write_vector(pp_emit_writer *w, LLVMValueRef c, LLVMValueRef part, unsigned vector)
{
    uint32_t scanned = 0; /* scans that are written, in order */
    load_params(w, c, part);
    for (uint32_t at = 0; at < w->loop->n_code; at++) {
        const pp_instr *instr = &w->loop->code[at];
        if (instr->op == PP_STORE) continue;
        for (; instr->op == PP_SCANNED && scanned <= instr->imm; scanned++)
            write_scan(w, scanned, c, part, vector);
        w->value[at] = instr->op == PP_SCANNED ? w->scans[instr->imm].result[instr->a]
                       : w->varies[at]         ? pp_emit_instr(w->e, &w->pools, at, w->value, w->param)
                                               : w->row[at];
    }
    for (; w->scans != NULL && scanned < w->loop->n_folds; scanned++) write_scan(w, scanned, c, part, vector);
    store_results(w, c, part);
    write_folds(w, c, part, vector);
}
