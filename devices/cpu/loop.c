/* SPDX-License-Identifier: Apache-2.0
 * Hash, invariants and text of a loop. Code is treated as that of a function: PARAM reads a stream; STORE,
 * which functions lack, is added here. */
#include "devices/cpu/loop.h"

#include "base/fault.h"
#include "kernel/number.h"
#include "kernel/verify.h"

pp_pools pp_loop_pools(const pp_loop *loop)
{
    return (pp_pools){.code = loop->code,
                      .operands = loop->operands,
                      .consts = loop->consts,
                      .tables = loop->tables,
                      .callees = loop->callees,
                      .n_code = loop->n_code,
                      .n_operands = loop->n_operands,
                      .n_consts = loop->n_consts,
                      .n_tables = loop->n_tables,
                      .n_callees = loop->n_callees};
}

/* ---- hash ---------------------------------------------------------------------------------------------- */

static uint64_t hash_stream(uint64_t h, const pp_stream *stream)
{
    h = pp_hash_mix(h, (uint64_t)stream->dtype << 8 | stream->kind);
    return pp_hash_mix(h, (uint64_t)stream->canonical << 1 | stream->around);
}

static uint64_t hash_function(uint64_t h, const pp_function *function)
{
    return pp_hash_mix(h, function != NULL ? function->hash : 0);
}

static uint64_t hash_fold(uint64_t h, const pp_loop_fold *f)
{
    const pp_fold *fold = f->fold;
    h = pp_hash_mix(h, (uint64_t)fold->n_states << 16 | (uint64_t)fold->n_inputs << 8 | fold->position);
    h = pp_hash_mix(h, f->columns ? f->fresh : PP_NONE);
    const bool scan = fold->law == PP_LAW_SCAN;
    h = pp_hash_mix(h, (uint64_t)(scan || fold->position ? f->first : PP_NONE) << 1 | scan);
    for (unsigned s = 0; scan && s < fold->n_states; s++) h = pp_hash_mix(h, f->carry[s]);
    for (unsigned s = 0; s < fold->n_states; s++)
        h = pp_hash_mix(h, (uint64_t)f->out[s] << 8 | fold->state[s]);
    for (unsigned i = 0; i < fold->n_inputs; i++) h = pp_hash_mix(h, f->input[i]);
    h = hash_function(h, fold->joined ? NULL : fold->lift);
    return hash_function(hash_function(h, fold->step), fold->join);
}

uint64_t pp_loop_hash(const pp_loop *loop)
{
    const pp_pools pools = pp_loop_pools(loop);
    uint64_t h = pp_hash_mix(UINT64_C(0x6c6f6f70), (uint64_t)loop->n_in << 32 | loop->n_out);
    for (uint32_t i = 0; i < loop->n_in; i++) h = hash_stream(h, &loop->in[i]);
    for (uint32_t i = 0; i < loop->n_out; i++) h = hash_stream(h, &loop->out[i]);
    h = pp_pools_hash(h, &pools);
    for (uint32_t i = 0; i < loop->n_folds; i++) h = hash_fold(h, &loop->folds[i]);
    if (pp_fault_now() != PP_FAULT_NONE) h = pp_hash_mix(h, (uint64_t)pp_fault_now()); /* other code */
    return h != 0 ? h : 1;
}

/* ---- invariants ---------------------------------------------------------------------------------------- */

#define NEED(condition, at, what)                                                                            \
    do {                                                                                                     \
        if (!(condition)) return pp_verify_instr_fail(v, at, what);                                          \
    } while (0)

static ppto_status check_streams(const pp_verify *v, const pp_stream *stream, uint32_t n, bool output)
{
    const char *part = output ? "output" : "input";
    for (uint32_t i = 0; i < n; i++, stream++) {
        if (stream->dtype > PPTO_F64) return pp_verify_fail(v, part, i, "no such dtype");
        if (stream->kind > (output ? PP_STREAM_COLUMN : PP_STREAM_ROW))
            return pp_verify_fail(v, part, i, "no such kind");
        if (!output && (stream->canonical || stream->around))
            return pp_verify_fail(v, part, i, "marked as an output");
    }
    return PPTO_OK;
}

static ppto_status check_store(const pp_verify *v, const pp_loop *loop, uint32_t at)
{
    const pp_instr *instr = &loop->code[at];
    NEED(instr->imm < loop->n_out && loop->out[instr->imm].kind == PP_STREAM_FULL, at, "no such output");
    NEED(instr->a < at && !pp_instr_is_effect((pp_op)loop->code[instr->a].op), at, "no value before it");
    NEED(instr->dtype == loop->out[instr->imm].dtype && loop->code[instr->a].dtype == instr->dtype, at,
         "the output has another dtype");
    return PPTO_OK;
}

static ppto_status check_scanned(const pp_verify *v, const pp_loop *loop, uint32_t at)
{
    const pp_instr *instr = &loop->code[at];
    NEED(instr->imm < loop->n_folds, at, "no such scan");
    const pp_loop_fold *f = &loop->folds[instr->imm];
    NEED(f->fold != NULL && f->fold->law == PP_LAW_SCAN && instr->a < f->fold->n_states, at, "no such scan");
    NEED(instr->dtype == f->fold->state[instr->a], at, "the state has another dtype");
    for (uint32_t i = 0; i <= instr->imm; i++)
        for (unsigned k = 0; k < loop->folds[i].fold->n_inputs; k++)
            NEED(loop->folds[i].input[k] < at, at, "before what it scans");
    return PPTO_OK;
}

static ppto_status check_instr(const pp_verify *v, const pp_loop *loop, uint32_t at)
{
    const pp_instr *instr = &loop->code[at];
    if (instr->op == PP_STORE) return check_store(v, loop, at);
    if (instr->op == PP_SCANNED) return check_scanned(v, loop, at);
    PP_TRY(pp_verify_instr(v, at, 0));
    if (instr->op != PP_PARAM) return PPTO_OK;
    NEED(instr->imm < loop->n_in, at, "no such input");
    NEED(instr->dtype == loop->in[instr->imm].dtype, at, "the input has another dtype");
    return PPTO_OK;
}

static bool is_stream(const pp_stream *streams, uint32_t n, uint32_t at, uint8_t kind, uint8_t dtype)
{
    return at < n && streams[at].kind == kind && streams[at].dtype == dtype;
}

static bool is_row(const pp_stream *streams, uint32_t n, uint32_t at, uint8_t dtype)
{
    return is_stream(streams, n, at, PP_STREAM_ROW, dtype);
}

static ppto_status check_fold(const pp_verify *v, const pp_loop *loop, uint32_t at)
{
    const pp_loop_fold *f = &loop->folds[at];
    const pp_fold *fold = f->fold;
    if (fold == NULL || fold->law > PP_LAW_SCAN || fold->join == NULL ||
        (fold->lift == NULL && !fold->joined))
        return pp_verify_fail(v, "fold", at, "of no law");
    if (fold->law != loop->folds[0].fold->law || f->columns != loop->folds[0].columns)
        return pp_verify_fail(v, "fold", at, "of another law");
    if (fold->n_states < 1 || fold->n_states > 4 || fold->n_inputs > 4 ||
        (fold->joined ? fold->n_inputs != fold->n_states || fold->position
                      : fold->lift->n_params != fold->n_inputs + (fold->position ? 1u : 0u)))
        return pp_verify_fail(v, "fold", at, "another number of inputs or states");
    for (unsigned i = 0; i < fold->n_inputs; i++) {
        const uint8_t dtype = fold->joined ? fold->state[i] : fold->lift->param[i];
        if (f->input[i] >= loop->n_code || pp_instr_is_effect((pp_op)loop->code[f->input[i]].op) ||
            loop->code[f->input[i]].dtype != dtype)
            return pp_verify_fail(v, "fold", at, "no such value");
    }
    for (unsigned s = 0; s < fold->n_states; s++)
        if (!is_stream(loop->out, loop->n_out, f->out[s], f->columns ? PP_STREAM_COLUMN : PP_STREAM_ROW,
                       fold->state[s]))
            return pp_verify_fail(v, "fold", at, "no such output");
    const bool scan = fold->law == PP_LAW_SCAN;
    if ((scan || fold->position) && !is_row(loop->in, loop->n_in, f->first, PPTO_I64))
        return pp_verify_fail(v, "fold", at, "no such position");
    if (f->columns && (scan || !is_row(loop->in, loop->n_in, f->fresh, PPTO_BOOL)))
        return pp_verify_fail(v, "fold", at, "no word on where its block begins");
    for (unsigned s = 0; scan && s < fold->n_states; s++)
        if (!is_row(loop->in, loop->n_in, f->carry[s], fold->state[s]))
            return pp_verify_fail(v, "fold", at, "no such carry");
    return PPTO_OK;
}

static uint32_t states_to(const pp_loop *loop, uint32_t out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < loop->n_folds; i++)
        for (unsigned s = 0; s < loop->folds[i].fold->n_states; s++) n += loop->folds[i].out[s] == out;
    return n;
}

static ppto_status check_outputs(const pp_verify *v, const pp_loop *loop)
{
    for (uint32_t i = 0; i < loop->n_out; i++) {
        uint32_t stores = states_to(loop, i);
        for (uint32_t at = 0; at < loop->n_code; at++)
            stores += loop->code[at].op == PP_STORE && loop->code[at].imm == i;
        if (stores != 1) return pp_verify_fail(v, "output", i, "not stored exactly once");
    }
    return PPTO_OK;
}

ppto_status pp_loop_verify(const pp_loop *loop, pp_error *err)
{
    const pp_verify checked = {.what = "loop", .err = err, .pools = pp_loop_pools(loop)};
    const pp_verify *v = &checked;
    PP_TRY(check_streams(v, loop->in, loop->n_in, false));
    PP_TRY(check_streams(v, loop->out, loop->n_out, true));
    PP_TRY(pp_verify_tables(v));
    for (uint32_t at = 0; at < loop->n_code; at++) PP_TRY(check_instr(v, loop, at));
    for (uint32_t i = 0; i < loop->n_folds; i++) PP_TRY(check_fold(v, loop, i));
    PP_TRY(check_outputs(v, loop));
    if (loop->hash != pp_loop_hash(loop)) return pp_verify_fail(v, "loop", 0, "the hash is not its own");
    return PPTO_OK;
}

/* ---- text ---------------------------------------------------------------------------------------------- */

static void print_streams(const char *title, const pp_stream *stream, uint32_t n, pp_text *out)
{
    for (uint32_t i = 0; i < n; i++, stream++)
        pp_text_add(out, "%s %u: %s%s%s%s\n", title, i, ppto_dtype_name((ppto_dtype)stream->dtype),
                    stream->kind == PP_STREAM_ROW      ? " a row"
                    : stream->kind == PP_STREAM_COLUMN ? " a column"
                                                       : "",
                    stream->canonical ? " canonical" : "", stream->around ? " around" : "");
}

static void print_fold(const pp_loop_fold *f, pp_text *out)
{
    const pp_fold *fold = f->fold;
    pp_text_add(out, fold->law == PP_LAW_SCAN ? "    scan" : f->columns ? "    fold columns" : "    fold");
    if (!fold->joined) pp_text_add(out, " lift %s", fold->lift->name);
    if (fold->step != NULL) pp_text_add(out, " step %s", fold->step->name);
    pp_text_add(out, " join %s:", fold->join->name);
    for (unsigned i = 0; i < fold->n_inputs; i++) pp_text_add(out, " v%u", f->input[i]);
    if (fold->position || fold->law == PP_LAW_SCAN) pp_text_add(out, " from in %u", f->first);
    if (f->columns) pp_text_add(out, " fresh in %u", f->fresh);
    for (unsigned s = 0; fold->law == PP_LAW_SCAN && s < fold->n_states; s++)
        pp_text_add(out, "%s %u", s == 0 ? " after in" : ",", f->carry[s]);
    for (unsigned s = 0; s < fold->n_states; s++) pp_text_add(out, "%s %u", s == 0 ? " to" : ",", f->out[s]);
    pp_text_add(out, "\n");
}

void pp_loop_print(const pp_loop *loop, pp_text *out)
{
    const pp_pools pools = pp_loop_pools(loop);
    print_streams("in", loop->in, loop->n_in, out);
    print_streams("out", loop->out, loop->n_out, out);
    for (uint32_t at = 0; at < loop->n_code; at++) {
        if (loop->code[at].op == PP_STORE)
            pp_text_add(out, "    store %u v%u\n", loop->code[at].imm, loop->code[at].a);
        else if (loop->code[at].op == PP_SCANNED)
            pp_text_add(out, "    v%u: %s = scanned %u.%u\n", at,
                        ppto_dtype_name((ppto_dtype)loop->code[at].dtype), loop->code[at].imm,
                        loop->code[at].a);
        else
            pp_instr_print(&pools, at, out);
    }
    for (uint32_t i = 0; i < loop->n_folds; i++) print_fold(&loop->folds[i], out);
}
