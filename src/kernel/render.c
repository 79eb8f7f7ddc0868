/* SPDX-License-Identifier: Apache-2.0
 * A whole program as one readable C99 translation unit: prologue, functions, helpers of the folds, then one
 * function with plain loops over the axes. It runs on one thread, recomputes rather than caches, and follows
 * the laws of meaning to the bit, so it is both an export and a way to check other executors.
 *
 * The prologue is known only at the end (it has only the rows used), so three texts are written and then
 * joined. */
#include <stdarg.h>

#include "kernel/draw.h"
#include "ops/scalar_text.h"

/* ---- lines --------------------------------------------------------------------------------------------- */

static void add_line(pp_draw *draw, const char *format, va_list args, const char *end)
{
    pp_text_add(draw->out, "%*s", (int)draw->indent, "");
    pp_text_addv(draw->out, format, args);
    pp_text_add(draw->out, "%s\n", end);
}

void pp_draw_line(pp_draw *draw, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_line(draw, format, args, "");
    va_end(args);
}

void pp_draw_open(pp_draw *draw, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_line(draw, format, args, " {");
    va_end(args);
    draw->indent += 4;
}

void pp_draw_close(pp_draw *draw)
{
    draw->indent -= 4;
    pp_draw_line(draw, "}");
}

const char *pp_draw_type(uint8_t dtype)
{
    return pp_scalar_c_type((ppto_dtype)dtype);
}

void pp_draw_use(pp_draw *draw, pp_op op, uint8_t dtype)
{
    draw->render->rows->row[op][dtype] |= (uint16_t)(1u << dtype);
}

/* ---- the function -------------------------------------------------------------------------------------- */

static bool is_inner(uint8_t role)
{
    return role == PP_AXIS_INNER || role == PP_AXIS_K;
}

static void draw_names(pp_draw *draw)
{
    const pp_program *p = draw->program;
    for (uint32_t s = PP_SLOT_FIRST; s < p->n_slots; s++)
        pp_draw_line(draw, "const int64_t s%u = slot[%u];", s, s);
    for (uint32_t t = 0; t < p->n_tensors; t++) {
        const char *type = pp_draw_type(p->tensors[t].dtype),
                   *constant = p->tensors[t].output ? "" : "const ";
        pp_draw_line(draw, "%s%s *const t%u = (%s%s *)data[%u];", constant, type, t, constant, type, t);
        pp_draw_line(draw, "const int64_t *const d%u = stride[%u];", t, t);
    }
    pp_text count = {0};
    for (uint32_t i = 0; i < p->n_axes; i++)
        if (is_inner(p->axes[i].role)) pp_text_add(&count, " * "), pp_draw_slot(p->axes[i].size, &count);
    pp_draw_line(draw, "const int64_t count = 1%s;", count.at != NULL ? count.at : "");
    draw->out->failed |= count.failed;
    pp_text_free(&count);
    pp_draw_line(draw, "(void)slot, (void)data, (void)stride, (void)arg, (void)failed, (void)count;");
}

static void draw_buffers(pp_draw *draw)
{
    const pp_program *p = draw->program;
    for (uint32_t b = 0; b < p->n_buffers; b++) {
        const char *type = pp_draw_type(p->buffers[b].dtype);
        pp_draw_line(draw, "%s *const b%u = (%s *)malloc((size_t)count * sizeof(%s) + 1);", type, b, type,
                     type);
    }
    for (uint32_t b = 0; b < p->n_buffers; b++)
        pp_draw_line(draw, "if (b%u == NULL) failed[0] = INT64_MIN;", b);
    if (p->n_buffers > 0) pp_draw_open(draw, "if (failed[0] != INT64_MIN)");
}

static void draw_buffers_end(pp_draw *draw)
{
    if (draw->program->n_buffers > 0) pp_draw_close(draw);
    for (uint32_t b = 0; b < draw->program->n_buffers; b++) pp_draw_line(draw, "free(b%u);", b);
}

static void draw_stage(pp_draw *draw, const pp_stage *stage)
{
    for (uint32_t f = stage->first_fold; f < stage->first_fold + stage->n_folds; f++)
        pp_draw_line(draw, "fold%u_result fold%u;", f, f);
    pp_text_add(draw->out, "%*s{\n", (int)draw->indent, "");
    draw->indent += 4;
    if (stage->inner)
        pp_draw_inner_stage(draw, stage);
    else
        pp_draw_code(draw, stage->first, stage->count, NULL);
    pp_draw_close(draw);
}

void pp_draw_head(pp_draw *draw, const char *name)
{
    pp_draw_line(draw,
                 "void %s(const int64_t *slot, void *const *data, const int64_t *const *stride, "
                 "const uint64_t *arg, int64_t *failed)",
                 name);
    pp_text_add(draw->out, "{\n");
    draw->indent = 4;
}

static void draw_body(pp_draw *draw, const char *name)
{
    const pp_program *p = draw->program;
    unsigned loops = 0;
    pp_draw_head(draw, name);
    draw_names(draw);
    draw_buffers(draw);
    for (uint32_t i = 0; i < p->n_axes; i++) {
        pp_text size = {0};
        if (is_inner(p->axes[i].role)) continue;
        pp_draw_slot(p->axes[i].size, &size);
        pp_draw_open(draw, "for (int64_t i%u = 0; i%u < %s; i%u++)", i, i, size.at != NULL ? size.at : "0",
                     i);
        draw->out->failed |= size.failed;
        pp_text_free(&size);
        loops++;
    }
    if (p->frame == PP_FRAME_CONTRACT) pp_draw_contract(draw);
    for (uint32_t s = 0; s < p->n_stages; s++) draw_stage(draw, &p->stages[s]);
    while (loops-- > 0) pp_draw_close(draw);
    draw_buffers_end(draw);
    pp_draw_close(draw);
}

static const char head[] =
    "/* slot: sizes, bases and coefficients; data, stride (in elements), one each per tensor; arg: bits of "
    "the bound\n"
    " * numbers; failed: int64_t[3], failed[0] = INT64_MAX on entry: lowest position where a check failed "
    "(INT64_MIN: no\n"
    " * memory), the number of the check, the value it reports (bits of a float). */\n";

/* The function of one program, what it needs before it. */
static void draw_program(const pp_program *program, const char *name, pp_render *render, pp_text *body)
{
    pp_draw draw = {.program = program, .pools = pp_program_pools(program), .render = render, .out = body};
    pp_render_needs(render, &draw.pools);
    for (uint32_t f = 0; f < program->n_folds; f++)
        if (program->folds[f].n_states > 0) pp_draw_fold_helpers(&draw, f);
    draw_body(&draw, name);
}

static ppto_status draw_parts(const pp_program *chain, const char *name, pp_render *render, pp_text *body)
{
    uint32_t first_fold = 0;
    for (uint32_t i = 0; i < chain->n_parts; i++) {
        pp_program part;
        pp_arena arena = {0};
        pp_text own = {0};
        pp_text_add(&own, "%s_part%u", name, i);
        ppto_status status = pp_chain_part_alone(chain->parts[i].program, first_fold, &arena, &part);
        if (status == PPTO_OK && !own.failed) draw_program(&part, own.at, render, body);
        first_fold += chain->parts[i].program->n_folds;
        body->failed |= own.failed;
        pp_text_free(&own);
        pp_arena_free(&arena);
        PP_TRY(status);
        pp_text_add(body, "\n");
    }
    pp_draw draw = {.program = chain, .render = render, .out = body};
    pp_draw_chain(&draw, name);
    return PPTO_OK;
}

static bool needs_memory(const pp_program *program)
{
    return program->n_buffers > 0 || program->frame == PP_FRAME_CHAIN;
}

ppto_status pp_program_render(const pp_program *program, const char *name, pp_text *out)
{
    pp_text functions = {0}, body = {0};
    pp_rows_used rows = {0};
    pp_render render = {.out = &functions, .rows = &rows};
    ppto_status status = PPTO_OK;
    if (program->frame == PP_FRAME_CHAIN)
        status = draw_parts(program, name, &render, &body);
    else
        draw_program(program, name, &render, &body);
    if (needs_memory(program)) pp_text_add(out, "#include <stdlib.h>\n");
    pp_render_prologue(&rows, out);
    pp_text_add(out, "%s%s%s", functions.at != NULL ? functions.at : "", head,
                body.at != NULL ? body.at : "");
    const bool failed = functions.failed || body.failed || out->failed;
    pp_text_free(&functions), pp_text_free(&body);
    pp_render_free(&render);
    PP_TRY(status);
    if (render.status != PPTO_OK) return render.status;
    return failed ? PPTO_E_NOMEM : PPTO_OK;
}
