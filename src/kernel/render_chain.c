/* SPDX-License-Identifier: Apache-2.0
 * A chain as C text: its parts are functions of their own, its function calls them one after the other, the
 * locals in memory of their full size. */
#include <string.h>

#include "kernel/draw.h"

ppto_status pp_chain_part_alone(const pp_program *part, uint32_t first_fold, pp_arena *arena, pp_program *out)
{
    const uint32_t n_folds = first_fold + part->n_folds;
    pp_fold *folds = pp_arena_alloc(arena, (n_folds + 1u) * sizeof *folds);
    pp_instr *code = pp_arena_alloc(arena, (part->n_code + 1u) * sizeof *code);
    pp_stage *stages = pp_arena_alloc(arena, (part->n_stages + 1u) * sizeof *stages);
    if (folds == NULL || code == NULL || stages == NULL) return PPTO_E_NOMEM;
    memset(folds, 0, first_fold * sizeof *folds);
    if (part->n_folds > 0) memcpy(folds + first_fold, part->folds, part->n_folds * sizeof *folds);
    for (uint32_t i = 0; i < part->n_code; i++) {
        code[i] = part->code[i];
        if (code[i].op == PP_STATE || code[i].op == PP_SCANNED) code[i].imm += first_fold;
    }
    for (uint32_t i = 0; i < part->n_stages; i++) {
        stages[i] = part->stages[i];
        stages[i].first_fold += first_fold;
    }
    *out = *part;
    out->folds = folds, out->n_folds = n_folds;
    out->code = code, out->stages = stages;
    return PPTO_OK;
}

static void draw_product(const pp_local *local, uint32_t first, pp_text *out)
{
    pp_text_add(out, "1");
    for (uint32_t d = first; d < local->rank; d++) pp_text_add(out, " * slot[%u]", local->dim[d]);
}

/* The memory of a local, its own or that of an earlier one, and its strides. */
static void draw_local(pp_draw *draw, uint32_t i)
{
    const pp_program *p = draw->program;
    const pp_local *local = &p->locals[i];
    pp_text size = {0}, strides = {0};
    draw_product(local, 0, &size);
    for (uint32_t d = 0; d < local->rank; d++) {
        pp_text_add(&strides, "%s", d > 0 ? ", " : "");
        draw_product(local, d + 1, &strides);
    }
    if (local->place == i)
        pp_draw_line(draw, "void *const l%u = malloc((size_t)(%s) * sizeof(%s) + 1);", i, size.at,
                     pp_draw_type(local->dtype));
    else
        pp_draw_line(draw, "void *const l%u = l%u;", i, local->place);
    pp_draw_line(draw, "const int64_t m%u[] = {%s};", i, local->rank > 0 ? strides.at : "0");
    draw->out->failed |= size.failed || strides.failed;
    pp_text_free(&size), pp_text_free(&strides);
}

static void draw_call(pp_draw *draw, const char *name, uint32_t number)
{
    const pp_program *p = draw->program;
    const pp_chain_part *part = &p->parts[number];
    pp_text data = {0}, strides = {0};
    for (uint32_t t = 0; t < part->program->n_tensors; t++) {
        const char *comma = t > 0 ? ", " : "";
        const bool local = part->tensor[t] >= p->n_tensors;
        const uint32_t at = local ? part->tensor[t] - p->n_tensors : part->tensor[t];
        pp_text_add(&data, local ? "%sl%u" : "%sdata[%u]", comma, at);
        pp_text_add(&strides, local ? "%sm%u" : "%sstride[%u]", comma, at);
    }
    pp_draw_open(draw, "if (failed[0] != INT64_MIN)");
    pp_draw_line(draw, "void *const d[] = {%s};", data.at);
    pp_draw_line(draw, "const int64_t *const s[] = {%s};", strides.at);
    pp_draw_line(draw, "%s_part%u(slot, d, s, arg, failed);", name, number);
    pp_draw_close(draw);
    draw->out->failed |= data.failed || strides.failed;
    pp_text_free(&data), pp_text_free(&strides);
}

void pp_draw_chain(pp_draw *draw, const char *name)
{
    const pp_program *p = draw->program;
    pp_draw_head(draw, name);
    for (uint32_t i = 0; i < p->n_locals; i++) draw_local(draw, i);
    for (uint32_t i = 0; i < p->n_locals; i++)
        if (p->locals[i].place == i) pp_draw_line(draw, "if (l%u == NULL) failed[0] = INT64_MIN;", i);
    for (uint32_t i = 0; i < p->n_parts; i++) draw_call(draw, name, i);
    for (uint32_t i = 0; i < p->n_locals; i++)
        if (p->locals[i].place == i) pp_draw_line(draw, "free(l%u);", i);
    pp_draw_close(draw);
}
