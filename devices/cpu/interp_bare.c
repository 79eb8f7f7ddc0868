/* SPDX-License-Identifier: Apache-2.0
 * The form of a program without buffers.
 *
 * A value kept by PP_KEEP for a later stage can also be computed again there: the code it depends on is
 * copied in front of the later stage, where loads, states and args mean the same. That costs arithmetic and
 * saves the buffer, so it is the form for rows too long to keep and for a reduction split over workers.
 * Copies are made stage by stage with one map from old to new instructions; everything that names an
 * instruction (operands, gathered indices, guards, positions, inputs of folds) is renamed on the way, in
 * copies of the affines, accesses, guards and checks that need it. A value that depends on a scan cannot be
 * had again without the scan: then there is no such form. Nor is there one when an inner stage stores before
 * the last read of a buffer, as the output may share memory with what would be read again. */
#include <string.h>

#include "devices/cpu/interp.h"
#include "kernel/walk.h"

typedef struct bare {
    const pp_program *from;
    pp_pools pools;
    uint32_t *kept; /* per buffer: the instruction whose value it holds, PP_NONE */
    uint32_t *map;  /* old instruction to new one in the stage at work, PP_NONE */
    bool *needed;
    PP_VEC(pp_instr) code;
    PP_VEC(uint32_t) operands;
    PP_VEC(pp_affine) affines;
    PP_VEC(pp_guard) guards;
    PP_VEC(pp_access) accesses;
    PP_VEC(pp_check) checks;
} bare;

static bool has_value(const bare *b, uint32_t affine)
{
    return b->from->affines[affine].value != PP_NONE;
}

static ppto_status push_affine(bare *b, uint32_t affine)
{
    pp_affine copy = b->from->affines[affine];
    if (copy.value != PP_NONE) copy.value = b->map[copy.value];
    return pp_vec_push(&b->affines, copy);
}

static ppto_status push_guards(bare *b, uint32_t first, uint32_t n, uint32_t *out)
{
    *out = (uint32_t)b->guards.n;
    for (uint32_t i = 0; i < n; i++) {
        pp_guard copy = b->from->guards[first + i];
        if (has_value(b, copy.affine)) {
            PP_TRY(push_affine(b, copy.affine));
            copy.affine = (uint32_t)b->affines.n - 1;
        }
        PP_TRY(pp_vec_push(&b->guards, copy));
    }
    return PPTO_OK;
}

struct seen {
    const bare *b;
    bool found;
};

static void note_value(void *context, uint32_t affine)
{
    struct seen *seen = context;
    if (has_value(seen->b, affine)) seen->found = true;
}

static ppto_status rename_affines(bare *b, pp_instr *instr)
{
    struct seen seen = {b, false};
    pp_instr_affines(b->from, instr, note_value, &seen);
    if (!seen.found) return PPTO_OK;
    if (instr->op == PP_INDEX) {
        PP_TRY(push_affine(b, instr->imm));
        instr->imm = (uint32_t)b->affines.n - 1;
    } else if (instr->op == PP_CHECK) {
        pp_check copy = b->from->checks[instr->imm];
        PP_TRY(push_affine(b, copy.position));
        copy.position = (uint32_t)b->affines.n - 1;
        instr->imm = (uint32_t)b->checks.n;
        return pp_vec_push(&b->checks, copy);
    } else if (instr->op == PP_INSIDE) {
        uint32_t first;
        PP_TRY(push_guards(b, instr->imm, instr->a, &first));
        instr->imm = first;
    } else {
        pp_access copy = b->from->accesses[instr->imm];
        const uint32_t rank = b->from->tensors[copy.tensor].rank, first = copy.first_affine;
        copy.first_affine = (uint32_t)b->affines.n;
        for (uint32_t d = 0; d < rank; d++) PP_TRY(push_affine(b, first + d));
        PP_TRY(push_guards(b, copy.first_guard, copy.n_guards, &copy.first_guard));
        instr->imm = (uint32_t)b->accesses.n;
        return pp_vec_push(&b->accesses, copy);
    }
    return PPTO_OK;
}

static ppto_status rename_operands(bare *b, pp_instr *instr)
{
    const pp_instr old = *instr;
    uint32_t operand[PP_MAX_OPERANDS];
    const unsigned direct = pp_instr_direct((pp_op)old.op), n = pp_instr_operands(&b->pools, &old, operand);
    uint32_t *const field[3] = {&instr->a, &instr->b, &instr->c};
    for (unsigned i = 0; i < direct; i++) *field[i] = b->map[operand[i]];
    if (n == direct) return PPTO_OK;
    *(old.op == PP_CALL ? &instr->a : &instr->c) = (uint32_t)b->operands.n;
    for (unsigned i = direct; i < n; i++) PP_TRY(pp_vec_push(&b->operands, b->map[operand[i]]));
    return PPTO_OK;
}

static ppto_status copy_instr(bare *b, uint32_t at)
{
    pp_instr instr = b->from->code[at];
    if (instr.op == PP_BUFFER) {
        b->map[at] = b->map[b->kept[instr.imm]];
        return PPTO_OK;
    }
    if (instr.op == PP_KEEP) return PPTO_OK;
    PP_TRY(rename_operands(b, &instr));
    PP_TRY(rename_affines(b, &instr));
    b->map[at] = (uint32_t)b->code.n;
    return pp_vec_push(&b->code, instr);
}

/* Marks what the buffers read by a stage depend on in earlier stages. False: it depends on a scan. */
static bool mark_earlier(bare *b, const pp_stage *stage)
{
    const pp_program *p = b->from;
    memset(b->needed, 0, p->n_code * sizeof *b->needed);
    for (uint32_t i = stage->first; i < stage->first + stage->count; i++)
        if (p->code[i].op == PP_BUFFER) b->needed[b->kept[p->code[i].imm]] = true;
    for (uint32_t i = stage->first; i-- > 0;) {
        if (!b->needed[i]) continue;
        if (p->code[i].op == PP_SCANNED) return false;
        if (p->code[i].op == PP_BUFFER) b->needed[b->kept[p->code[i].imm]] = true;
        pp_program_need(p, i, 1, b->needed);
    }
    return true;
}

static bool can_be_bare(bare *b)
{
    const pp_program *p = b->from;
    bool stored = false;
    for (uint32_t i = 0; i < p->n_buffers; i++) b->kept[i] = PP_NONE;
    for (uint32_t s = 0; s < p->n_stages; s++) {
        const pp_stage *stage = &p->stages[s];
        bool reads = false, stores = false;
        for (uint32_t i = stage->first; i < stage->first + stage->count; i++) {
            const pp_instr *instr = &p->code[i];
            if (instr->op == PP_KEEP) b->kept[instr->imm] = instr->a;
            if (instr->op == PP_STORE && stage->inner) stores = true;
            if (instr->op != PP_BUFFER) continue;
            if (b->kept[instr->imm] == PP_NONE) return false;
            reads = true;
        }
        if (reads && (stored || !mark_earlier(b, stage))) return false;
        stored = stored || stores;
    }
    return true;
}

static ppto_status rebuild(bare *b, pp_program *out)
{
    const pp_program *p = b->from;
    for (uint32_t i = 0; i < p->n_affines; i++) PP_TRY(pp_vec_push(&b->affines, p->affines[i]));
    for (uint32_t i = 0; i < p->n_guards; i++) PP_TRY(pp_vec_push(&b->guards, p->guards[i]));
    for (uint32_t i = 0; i < p->n_accesses; i++) PP_TRY(pp_vec_push(&b->accesses, p->accesses[i]));
    for (uint32_t i = 0; i < p->n_checks; i++) PP_TRY(pp_vec_push(&b->checks, p->checks[i]));
    for (uint32_t s = 0; s < p->n_stages; s++) {
        const pp_stage *stage = &p->stages[s];
        mark_earlier(b, stage);
        for (uint32_t i = 0; i < p->n_code; i++) b->map[i] = PP_NONE;
        out->stages[s].first = (uint32_t)b->code.n;
        for (uint32_t i = 0; i < stage->first + stage->count; i++)
            if (i >= stage->first || b->needed[i]) PP_TRY(copy_instr(b, i));
        out->stages[s].count = (uint32_t)b->code.n - out->stages[s].first;
        for (uint32_t f = stage->first_fold; f < stage->first_fold + stage->n_folds; f++)
            for (uint32_t i = 0; i < p->folds[f].n_inputs; i++)
                out->folds[f].input[i] = b->map[p->folds[f].input[i]];
    }
    return PPTO_OK;
}

static ppto_status finish(bare *b, pp_arena *arena, pp_program *out)
{
    out->n_code = (uint32_t)b->code.n;
    out->n_operands = (uint32_t)b->operands.n;
    out->n_affines = (uint32_t)b->affines.n;
    out->n_guards = (uint32_t)b->guards.n;
    out->n_accesses = (uint32_t)b->accesses.n;
    out->n_checks = (uint32_t)b->checks.n;
    out->n_buffers = 0;
    out->code = pp_arena_copy(arena, b->code.at, b->code.n * sizeof *b->code.at);
    out->operands = pp_arena_copy(arena, b->operands.at, b->operands.n * sizeof *b->operands.at);
    out->affines = pp_arena_copy(arena, b->affines.at, b->affines.n * sizeof *b->affines.at);
    out->guards = pp_arena_copy(arena, b->guards.at, b->guards.n * sizeof *b->guards.at);
    out->accesses = pp_arena_copy(arena, b->accesses.at, b->accesses.n * sizeof *b->accesses.at);
    out->checks = pp_arena_copy(arena, b->checks.at, b->checks.n * sizeof *b->checks.at);
    bool ok = out->code != NULL && out->operands != NULL && out->affines != NULL && out->guards != NULL &&
              out->accesses != NULL && out->checks != NULL;
    return ok ? PPTO_OK : PPTO_E_NOMEM;
}

ppto_status pp_interp_bare(const pp_program *program, pp_arena *arena, pp_program *out, bool *possible)
{
    bare b = {.from = program, .pools = pp_program_pools(program)};
    ppto_status status = PPTO_E_NOMEM;
    *possible = false;
    *out = *program;
    out->arena = (pp_arena){0};
    out->stages = pp_arena_copy(arena, program->stages, program->n_stages * sizeof *program->stages);
    out->folds = pp_arena_copy(arena, program->folds, program->n_folds * sizeof *program->folds);
    b.kept = pp_calloc(program->n_buffers + 1u, sizeof *b.kept);
    b.map = pp_calloc(program->n_code + 1u, sizeof *b.map);
    b.needed = pp_calloc(program->n_code + 1u, sizeof *b.needed);
    if (out->stages == NULL || out->folds == NULL || b.kept == NULL || b.map == NULL || b.needed == NULL)
        goto done;
    *possible = can_be_bare(&b);
    status = *possible ? rebuild(&b, out) : PPTO_OK;
    if (status == PPTO_OK && *possible) status = finish(&b, arena, out);
done:
    pp_free(b.kept);
    pp_free(b.map);
    pp_free(b.needed);
    pp_vec_free(&b.code);
    pp_vec_free(&b.operands);
    pp_vec_free(&b.affines);
    pp_vec_free(&b.guards);
    pp_vec_free(&b.accesses);
    pp_vec_free(&b.checks);
    return status;
}
