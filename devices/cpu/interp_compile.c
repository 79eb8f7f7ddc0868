/* SPDX-License-Identifier: Apache-2.0
 * From a program to a kernel: what does not depend on sizes.
 *
 * Functions and folds get their generated loops or are compiled (interp_function.c), constant tables are
 * packed in their own width, dead code is marked, and the form without kept values is built beside the
 * program as given. */
#include <string.h>

#include "devices/cpu/interp.h"
#include "kernel/walk.h"

static ppto_status no_memory(pp_error *err)
{
    return pp_fail(err, PPTO_E_NOMEM, "out of memory");
}

/* ---- folds ----------------------------------------------------------------------------------- */

static void note_results(pp_fold_code *code)
{
    const pp_function *finish = code->fold->finish;
    code->n_results = finish != NULL ? finish->n_results : code->fold->n_states;
    for (unsigned i = 0; i < code->n_results; i++)
        code->result[i] = finish != NULL ? finish->code[finish->result[i]].dtype : code->fold->state[i];
}

/* Whether a fold of this row has the same bits in any order: integers wrap, and the extremes of floats are
 * one of the elements or NaN. */
static bool in_any_order(pp_op row, ppto_dtype dtype)
{
    switch (row) {
    case PP_MIN:
    case PP_MAX: return true;
    case PP_ADD:
    case PP_MUL:
    case PP_AND:
    case PP_OR:
    case PP_XOR: return !pp_dtype_is_float(dtype);
    default: return false;
    }
}

/* From a narrower integer or bool to one of 64 bits. */
static bool widens(const pp_instr *instr, ppto_dtype from)
{
    return instr->op == PP_CAST && pp_dtype_width((ppto_dtype)instr->dtype) == 64 &&
           !pp_dtype_is_float((ppto_dtype)instr->dtype) && !pp_dtype_is_float(from) &&
           pp_dtype_width(from) < 64;
}

static bool lift_widens(const pp_fold *fold)
{
    const pp_function *f = fold->lift;
    return !fold->joined && !fold->position && fold->n_inputs == 1 && f->n_code == 2 &&
           f->code[0].op == PP_PARAM && f->code[1].a == 0 && f->result[0] == 1 &&
           widens(&f->code[1], (ppto_dtype)f->param[0]);
}

uint32_t pp_interp_fold_input(const pp_program *program, const pp_fold_code *codes, uint32_t fold, uint32_t i)
{
    const uint32_t input = program->folds[fold].input[i];
    return codes[fold].uncast ? program->code[input].a : input;
}

/* How a fold that may take its elements in any order does so. Sums of integers take what was widened for
 * them as it was before. */
static void choose_order(const pp_program *p, const pp_block_set *set, pp_op row, pp_fold_code *code)
{
    const pp_fold *fold = code->fold;
    const pp_instr *input = &p->code[fold->input[0]];
    ppto_dtype dtype = (ppto_dtype)input->dtype;
    code->absorbs = 2;
    if (row == PP_OP_COUNT || fold->law != PP_LAW_FOLD || fold->step != NULL || fold->n_states != 1 ||
        !(code->identity || lift_widens(fold)) || !in_any_order(row, (ppto_dtype)fold->state[0]))
        return;
    code->any_order = true;
    if (fold->state[0] == PPTO_BOOL) code->absorbs = row == PP_OR ? 1 : row == PP_AND ? 0 : 2;
    if (p->frame != PP_FRAME_LANES || (row == PP_ADD && pp_dtype_width((ppto_dtype)fold->state[0]) != 64) ||
        (row != PP_ADD && !code->identity))
        return;
    if (row == PP_ADD && code->identity && input->op == PP_CAST)
        code->uncast = widens(input, (ppto_dtype)p->code[input->a].dtype);
    if (code->uncast) dtype = (ppto_dtype)p->code[input->a].dtype;
    code->whole = set->reduce[row][dtype];
}

static ppto_status compile_fold(pp_kernel *kernel, const pp_fold *fold, pp_fold_code *out, pp_error *err)
{
    const pp_block_set *set = kernel->device->set;
    out->fold = fold;
    out->loops = pp_blocks_fold(set, fold);
    PP_TRY(pp_fcode_get(&kernel->functions, set, fold->lift, &out->lift, err));
    PP_TRY(pp_fcode_get(&kernel->functions, set, fold->step, &out->step, err));
    PP_TRY(pp_fcode_get(&kernel->functions, set, fold->join, &out->join, err));
    PP_TRY(pp_fcode_get(&kernel->functions, set, fold->finish, &out->finish, err));
    pp_op row = pp_fcode_as_row(out->join);
    if (row != PP_OP_COUNT) {
        out->row = set->scalar[row][fold->state[0]][PP_VV];
        out->row_sv = set->scalar[row][fold->state[0]][PP_SV];
    }
    out->identity = fold->joined || (out->lift != NULL && !fold->position && fold->n_inputs == 1 &&
                                     pp_fcode_is_identity(out->lift));
    choose_order(kernel->plain.program, set, row, out);
    note_results(out);
    return PPTO_OK;
}

static ppto_status compile_folds(pp_kernel *kernel, pp_error *err)
{
    const pp_program *p = kernel->plain.program;
    kernel->folds = pp_arena_alloc(&kernel->arena, (p->n_folds + 1u) * sizeof *kernel->folds);
    if (kernel->folds == NULL) return no_memory(err);
    for (uint32_t i = 0; i < p->n_folds; i++)
        PP_TRY(compile_fold(kernel, &p->folds[i], &kernel->folds[i], err));
    return PPTO_OK;
}

/* ---- callees, tables ------------------------------------------------------------------------- */

static ppto_status compile_callees(pp_kernel *kernel, pp_error *err)
{
    const pp_program *p = kernel->plain.program;
    kernel->callee = pp_arena_alloc(&kernel->arena, (p->n_callees + 1u) * sizeof *kernel->callee);
    if (kernel->callee == NULL) return no_memory(err);
    for (uint32_t i = 0; i < p->n_callees; i++)
        PP_TRY(pp_fcode_get(&kernel->functions, kernel->device->set, p->callees[i], &kernel->callee[i], err));
    return PPTO_OK;
}

static ppto_status pack_tables(pp_kernel *kernel, pp_error *err)
{
    const pp_program *p = kernel->plain.program;
    kernel->table = pp_arena_alloc(&kernel->arena, (p->n_tables + 1u) * sizeof *kernel->table);
    if (kernel->table == NULL) return no_memory(err);
    for (uint32_t i = 0; i < p->n_tables; i++) {
        const pp_table *table = &p->tables[i];
        const size_t size = ppto_dtype_size((ppto_dtype)table->dtype);
        char *packed = pp_arena_alloc(&kernel->arena, table->length * size);
        if (packed == NULL) return no_memory(err);
        for (uint32_t k = 0; k < table->length; k++) memcpy(packed + k * size, &table->bits[k], size);
        kernel->table[i] = packed;
    }
    return PPTO_OK;
}

/* ---- forms ----------------------------------------------------------------------------------- */

static ppto_status mark_live(pp_kernel *kernel, pp_variant *variant, pp_error *err)
{
    const pp_program *p = variant->program;
    variant->live = pp_arena_alloc(&kernel->arena, p->n_code + 1u);
    if (variant->live == NULL) return no_memory(err);
    for (uint32_t i = 0; i < p->n_code; i++) variant->live[i] = pp_instr_is_effect((pp_op)p->code[i].op);
    for (uint32_t f = 0; f < p->n_folds; f++)
        for (uint32_t i = 0; i < p->folds[f].n_inputs; i++)
            variant->live[pp_interp_fold_input(p, kernel->folds, f, i)] = true;
    if (p->frame == PP_FRAME_CONTRACT) {
        variant->live[p->contract.a_value] = true;
        variant->live[p->contract.b_value] = true;
    }
    pp_program_need(p, 0, p->n_code, variant->live);
    return PPTO_OK;
}

static ppto_status build_bare(pp_kernel *kernel, pp_error *err)
{
    const pp_program *p = kernel->plain.program;
    bool possible;
    if (p->n_buffers == 0) {
        kernel->bare = kernel->plain;
        return PPTO_OK;
    }
    pp_program *bare = pp_arena_alloc(&kernel->arena, sizeof *bare);
    if (bare == NULL || pp_interp_bare(p, &kernel->arena, bare, &possible) != PPTO_OK) return no_memory(err);
    if (!possible) return PPTO_OK;
    kernel->bare.program = bare;
    return mark_live(kernel, &kernel->bare, err);
}

static ppto_status refuse_scatter(const pp_program *p, pp_error *err)
{
    for (uint32_t i = 0; i < p->n_code; i++) {
        if (p->code[i].op != PP_STORE) continue;
        const pp_access *access = &p->accesses[p->code[i].imm];
        for (uint32_t d = 0; d < p->tensors[access->tensor].rank; d++)
            if (p->affines[access->first_affine + d].value != PP_NONE)
                return pp_fail(err, PPTO_E_UNSUPPORTED, "a store at computed indices");
    }
    return PPTO_OK;
}

static ppto_status compile(pp_kernel *kernel, pp_error *err)
{
    PP_TRY(refuse_scatter(kernel->plain.program, err));
    PP_TRY(compile_callees(kernel, err));
    PP_TRY(compile_folds(kernel, err));
    PP_TRY(mark_live(kernel, &kernel->plain, err));
    PP_TRY(pack_tables(kernel, err));
    return build_bare(kernel, err);
}

static ppto_status compile_parts(pp_kernel *kernel, pp_error *err)
{
    const pp_program *p = kernel->plain.program;
    for (uint32_t i = 0; i < p->n_parts; i++)
        PP_TRY(pp_interp_compile(kernel->device, p->parts[i].program, &kernel->part[i], err));
    return PPTO_OK;
}

ppto_status pp_interp_compile(pp_device *device, const pp_program *program, pp_kernel **out, pp_error *err)
{
    *out = NULL;
    pp_kernel *kernel = pp_calloc(1, sizeof *kernel);
    if (kernel == NULL) return no_memory(err);
    kernel->device = device;
    kernel->plain.program = program;
    ppto_status status = program->frame == PP_FRAME_CHAIN ? compile_parts(kernel, err) : compile(kernel, err);
    if (status != PPTO_OK) {
        pp_interp_kernel_destroy(kernel);
        return status;
    }
    *out = kernel;
    return PPTO_OK;
}

void pp_interp_kernel_destroy(pp_kernel *kernel)
{
    if (kernel == NULL) return;
    for (uint32_t i = 0; i < PP_MOST_PARTS; i++) pp_interp_kernel_destroy(kernel->part[i]);
    pp_fcode_list_free(&kernel->functions);
    pp_arena_free(&kernel->arena);
    pp_free(kernel);
}
