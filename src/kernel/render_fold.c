/* SPDX-License-Identifier: Apache-2.0
 * C text of folds, scans and the contraction, by the laws of meaning (docs/semantics.md).
 *
 * A fold becomes a few helper functions over a struct of its states: elements are put one by one; lanes (64,
 * or 1 for rows) hold the current block, and finished blocks go into a binary counter of partial states,
 * which is the pairwise tree: at the end what is left is joined from the right. A scan takes groups of up to
 * 16 elements, because its law joins inside groups first; the code of the stage is run once per scan to get
 * its inputs and once more with all effects. */
#include "kernel/draw.h"

/* ---- helpers ------------------------------------------------------------------------------------------- */

/* `r.x0 = fn(args);` or `fn(args, &r.x0, &r.x1);` */
static void draw_call(pp_draw *draw, const pp_function *function, const char *args)
{
    pp_text *out = draw->render->out;
    if (function->n_results == 1)
        pp_text_add(out, "    r.x0 = ");
    else
        pp_text_add(out, "    ");
    pp_render_function_name(function, out);
    pp_text_add(out, "(%s", args);
    for (unsigned i = 0; function->n_results > 1 && i < function->n_results; i++)
        pp_text_add(out, ", &r.x%u", i);
    pp_text_add(out, ");\n");
}

static void add_states(pp_text *text, const char *name, unsigned n)
{
    for (unsigned s = 0; s < n; s++) pp_text_add(text, "%s%s.x%u", text->n > 0 ? ", " : "", name, s);
}

static void add_inputs(pp_text *text, const pp_fold *fold)
{
    for (unsigned i = 0; i < fold->n_inputs; i++) pp_text_add(text, "%sx%u", text->n > 0 ? ", " : "", i);
    if (fold->position) pp_text_add(text, ", k");
}

static void draw_params(pp_draw *draw, const pp_fold *fold)
{
    for (unsigned i = 0; i < fold->n_inputs; i++)
        pp_text_add(draw->render->out, "%s%s x%u", i > 0 ? ", " : "",
                    pp_draw_type(draw->pools.code[fold->input[i]].dtype), i);
    pp_text_add(draw->render->out, ", int64_t k)\n{\n    (void)k;\n");
}

static void draw_state_struct(pp_draw *draw, const char *name, const pp_function *of, const pp_fold *fold,
                              uint32_t f)
{
    const unsigned n = of != NULL ? of->n_results : fold->n_states;
    pp_text_add(draw->render->out, "typedef struct fold%u_%s {\n", f, name);
    for (unsigned s = 0; s < n; s++)
        pp_text_add(draw->render->out, "    %s x%u;\n",
                    pp_draw_type(of != NULL ? of->code[of->result[s]].dtype : fold->state[s]), s);
    pp_text_add(draw->render->out, "} fold%u_%s;\n\n", f, name);
}

static void draw_lift_step(pp_draw *draw, const pp_fold *fold, uint32_t f)
{
    pp_text *out = draw->render->out;
    pp_text lift = {0}, step = {0};
    add_inputs(&lift, fold);
    add_states(&step, "s", fold->n_states);
    add_inputs(&step, fold);
    pp_text_add(out, "static inline fold%u_state fold%u_lift(", f, f);
    draw_params(draw, fold);
    pp_text_add(out, "    fold%u_state r;\n", f);
    for (unsigned s = 0; fold->joined && s < fold->n_states; s++)
        pp_text_add(out, "    r.x%u = x%u;\n", s, s);
    if (!fold->joined) draw_call(draw, fold->lift, lift.at != NULL ? lift.at : "");
    pp_text_add(out, "    return r;\n}\n\nstatic inline fold%u_state fold%u_step(fold%u_state s, ", f, f, f);
    draw_params(draw, fold);
    if (fold->step != NULL) {
        pp_text_add(out, "    fold%u_state r;\n", f);
        draw_call(draw, fold->step, step.at != NULL ? step.at : "");
        pp_text_add(out, "    return r;\n}\n\n");
    } else {
        pp_text_add(out, "    return fold%u_join(s, fold%u_lift(", f, f);
        for (unsigned i = 0; i < fold->n_inputs; i++) pp_text_add(out, "x%u, ", i);
        pp_text_add(out, "k));\n}\n\n");
    }
    out->failed |= lift.failed || step.failed;
    pp_text_free(&lift), pp_text_free(&step);
}

static void draw_join_finish(pp_draw *draw, const pp_fold *fold, uint32_t f)
{
    pp_text *out = draw->render->out;
    pp_text args = {0};
    add_states(&args, "a", fold->n_states);
    add_states(&args, "b", fold->n_states);
    pp_text_add(
        out,
        "static inline fold%u_state fold%u_join(fold%u_state a, fold%u_state b)\n{\n    fold%u_state r;\n", f,
        f, f, f, f);
    draw_call(draw, fold->join, args.at != NULL ? args.at : "");
    pp_text_add(out, "    return r;\n}\n\n");
    pp_text_free(&args);
    draw_state_struct(draw, "result", fold->finish, fold, f);
    pp_text_add(out, "static inline fold%u_result fold%u_finish(fold%u_state s)\n{\n    fold%u_result r;\n",
                f, f, f, f);
    add_states(&args, "s", fold->n_states);
    if (fold->finish != NULL) draw_call(draw, fold->finish, args.at != NULL ? args.at : "");
    for (unsigned s = 0; fold->finish == NULL && s < fold->n_states; s++)
        pp_text_add(out, "    r.x%u = s.x%u;\n", s, s);
    pp_text_add(out, "    return r;\n}\n\n");
    pp_text_free(&args);
}

/* $ is the number of the fold, $L its lanes, $B its block. */
static const char fold_text[] =
    "typedef struct fold$ {\n"
    "    fold$_state lane[$L]; /* of the current block */\n"
    "    fold$_state part[64]; /* part[d]: of 2^d joined blocks */\n"
    "    int64_t n, blocks;\n"
    "} fold$_type;\n\n"
    "static void fold$_close(fold$_type *f)\n{\n"
    "    int level = 0;\n"
    "    for (int64_t h = $L / 2; h > 0; h /= 2)\n"
    "        for (int64_t i = 0; i < h && i + h < f->n; i++) f->lane[i] = fold$_join(f->lane[i], f->lane[i + "
    "h]);\n"
    "    fold$_state block = f->lane[0];\n"
    "    for (; (f->blocks >> level & 1) != 0; level++) block = fold$_join(f->part[level], block);\n"
    "    f->part[level] = block;\n"
    "    f->blocks++;\n"
    "    f->n = 0;\n}\n\n"
    "static fold$_state fold$_end(fold$_type *f)\n{\n"
    "    fold$_state all = f->part[0];\n"
    "    int level = 0;\n"
    "    if (f->n > 0) fold$_close(f);\n"
    "    while (level < 63 && (f->blocks >> level & 1) == 0) level++;\n"
    "    for (all = f->part[level++]; level < 63; level++)\n"
    "        if ((f->blocks >> level & 1) != 0) all = fold$_join(f->part[level], all);\n"
    "    return all;\n}\n\n";

static const char scan_type_text[] =
    "typedef struct fold$ {\n"
    "    fold$_state inside, carry; /* running state of the block; of the blocks before it */\n"
    "    int has_inside, has_carry;\n"
    "} fold$_type;\n\n"
    "static void fold$_next_block(fold$_type *f)\n{\n"
    "    if (f->has_inside) f->carry = f->has_carry ? fold$_join(f->carry, f->inside) : f->inside, "
    "f->has_carry = 1;\n"
    "    f->has_inside = 0;\n}\n\n"
    "/* n lifted elements from position k on become the running states. */\n";

static const char scan_lanes_text[] =
    "static void fold$_scan(fold$_type *f, int n, fold$_state y[16], int64_t k)\n{\n"
    "    if (k % $B == 0) fold$_next_block(f);\n"
    "    for (int d = 1; d < 16; d *= 2)\n"
    "        for (int i = n - 1; i >= d; i--) y[i] = fold$_join(y[i - d], y[i]);\n"
    "    for (int i = 0; f->has_inside && i < n; i++) y[i] = fold$_join(f->inside, y[i]);\n"
    "    f->inside = y[n - 1];\n"
    "    f->has_inside = 1;\n"
    "    for (int i = 0; f->has_carry && i < n; i++) y[i] = fold$_join(f->carry, y[i]);\n}\n\n";

static const char scan_rows_text[] =
    "static void fold$_scan(fold$_type *f, int n, fold$_state y[16], int64_t k)\n{\n"
    "    for (int i = 0; i < n; i++) {\n"
    "        if ((k + i) % $B == 0) fold$_next_block(f);\n"
    "        f->inside = f->has_inside ? fold$_join(f->inside, y[i]) : y[i];\n"
    "        f->has_inside = 1;\n"
    "        y[i] = f->has_carry ? fold$_join(f->carry, f->inside) : f->inside;\n"
    "    }\n}\n\n";

static void draw_template(pp_draw *draw, const char *text, uint32_t f)
{
    const bool rows = draw->program->frame == PP_FRAME_ROWS;
    for (; *text != '\0'; text++) {
        if (*text != '$')
            pp_text_add(draw->render->out, "%c", *text);
        else if (text[1] == 'L')
            pp_text_add(draw->render->out, "%u", rows ? 1 : PP_LANES), text++;
        else if (text[1] == 'B')
            pp_text_add(draw->render->out, "%u", rows ? PP_ROW_BLOCK : PP_LANE_BLOCK), text++;
        else
            pp_text_add(draw->render->out, "%u", f);
    }
}

static void draw_put(pp_draw *draw, const pp_fold *fold, uint32_t f)
{
    pp_text *out = draw->render->out;
    const unsigned lanes = draw->program->frame == PP_FRAME_ROWS ? 1 : PP_LANES;
    const unsigned block = draw->program->frame == PP_FRAME_ROWS ? PP_ROW_BLOCK : PP_LANE_BLOCK;
    pp_text_add(out, "static inline void fold%u_put(fold%u_type *f, ", f, f);
    draw_params(draw, fold);
    pp_text_add(out, "    fold%u_state *lane = &f->lane[f->n %% %u];\n    *lane = f->n < %u ? fold%u_lift(",
                f, lanes, lanes, f);
    for (unsigned i = 0; i < fold->n_inputs; i++) pp_text_add(out, "x%u, ", i);
    pp_text_add(out, "k) : fold%u_step(*lane, ", f);
    for (unsigned i = 0; i < fold->n_inputs; i++) pp_text_add(out, "x%u, ", i);
    pp_text_add(out, "k);\n    if (++f->n == %u) fold%u_close(f);\n}\n\n", block, f);
}

void pp_draw_fold_helpers(pp_draw *draw, uint32_t f)
{
    const pp_fold *fold = &draw->program->folds[f];
    const pp_function *const part[] = {fold->lift, fold->step, fold->join, fold->finish};
    for (unsigned i = 0; i < 4; i++)
        if (part[i] != NULL) pp_render_function(draw->render, part[i]);
    draw_state_struct(draw, "state", NULL, fold, f);
    draw_join_finish(draw, fold, f);
    draw_lift_step(draw, fold, f);
    if (fold->law == PP_LAW_FOLD) {
        draw_template(draw, fold_text, f);
        draw_put(draw, fold, f);
    } else {
        draw_template(draw, scan_type_text, f);
        draw_template(draw, draw->program->frame == PP_FRAME_ROWS ? scan_rows_text : scan_lanes_text, f);
    }
}

/* ---- inner stages -------------------------------------------------------------------------------------- */

/* The inner (k) axes from their flattened position. */
static void draw_positions(pp_draw *draw)
{
    const pp_program *p = draw->program;
    pp_text below = {0};
    bool first = true;
    for (uint32_t i = p->n_axes; i-- > 0;) {
        if (p->axes[i].role != PP_AXIS_INNER && p->axes[i].role != PP_AXIS_K) continue;
        const bool outermost = i == 0 || p->axes[i - 1].role != p->axes[i].role;
        pp_text line = {0};
        if (first)
            pp_text_add(&line, "k");
        else
            pp_text_add(&line, "k / (%s)", below.at != NULL ? below.at : "");
        if (!outermost) pp_text_add(&line, " %% "), pp_draw_slot(p->axes[i].size, &line);
        pp_draw_line(draw, "const int64_t i%u = %s;", i, line.at != NULL ? line.at : "");
        if (!first) pp_text_add(&below, " * ");
        pp_draw_slot(p->axes[i].size, &below);
        draw->out->failed |= line.failed || below.failed;
        pp_text_free(&line);
        first = false;
    }
    pp_text_free(&below);
}

static void draw_inputs(pp_draw *draw, const pp_fold *fold)
{
    for (unsigned i = 0; i < fold->n_inputs; i++) pp_text_add(draw->out, "v%u, ", fold->input[i]);
    pp_text_add(draw->out, "k);\n");
}

static void draw_puts(pp_draw *draw, const pp_stage *stage)
{
    for (uint32_t f = stage->first_fold; f < stage->first_fold + stage->n_folds; f++) {
        if (draw->program->folds[f].law != PP_LAW_FOLD) continue;
        pp_text_add(draw->out, "%*sfold%u_put(&fold%u_now, ", (int)draw->indent, "", f, f);
        draw_inputs(draw, &draw->program->folds[f]);
    }
}

/* Runs the code that the scan's inputs need at the n points of a group, then the scan over them. */
static void draw_scan(pp_draw *draw, const pp_stage *stage, uint32_t f)
{
    const pp_fold *fold = &draw->program->folds[f];
    bool *needed = pp_calloc(draw->pools.n_code + 1u, sizeof *needed);
    if (needed == NULL) {
        draw->render->status = PPTO_E_NOMEM;
        return;
    }
    for (unsigned i = 0; i < fold->n_inputs; i++) needed[fold->input[i]] = true;
    pp_program_need(draw->program, stage->first, stage->count, needed);
    pp_draw_line(draw, "fold%u_state fold%u_run[16] = {{0}};", f, f);
    pp_draw_open(draw, "for (int j = 0; j < n; j++)");
    pp_draw_line(draw, "const int64_t k = k0 + j;");
    draw_positions(draw);
    pp_draw_code(draw, stage->first, stage->count, needed);
    pp_text_add(draw->out, "%*sfold%u_run[j] = fold%u_lift(", (int)draw->indent, "", f, f);
    draw_inputs(draw, fold);
    pp_draw_close(draw);
    pp_draw_line(draw, "fold%u_scan(&fold%u_now, n, fold%u_run, k0);", f, f, f);
    pp_draw_line(draw, "fold%u_last = fold%u_run[n - 1];", f, f);
    pp_free(needed);
}

static bool has_scan(const pp_draw *draw, const pp_stage *stage)
{
    for (uint32_t f = stage->first_fold; f < stage->first_fold + stage->n_folds; f++)
        if (draw->program->folds[f].law == PP_LAW_SCAN) return true;
    return false;
}

static void draw_groups(pp_draw *draw, const pp_stage *stage)
{
    pp_draw_open(draw, "for (int64_t k0 = 0; k0 < count; k0 += %u)", PP_SCAN_GROUP);
    pp_draw_line(draw, "const int n = count - k0 < %u ? (int)(count - k0) : %u;", PP_SCAN_GROUP,
                 PP_SCAN_GROUP);
    for (uint32_t f = stage->first_fold; f < stage->first_fold + stage->n_folds; f++)
        if (draw->program->folds[f].law == PP_LAW_SCAN) draw_scan(draw, stage, f);
    pp_draw_open(draw, "for (int j = 0; j < n; j++)");
    pp_draw_line(draw, "const int64_t k = k0 + j;");
    draw_positions(draw);
    pp_draw_code(draw, stage->first, stage->count, NULL);
    draw_puts(draw, stage);
    pp_draw_close(draw);
    pp_draw_close(draw);
}

void pp_draw_inner_stage(pp_draw *draw, const pp_stage *stage)
{
    const uint32_t end = stage->first_fold + stage->n_folds;
    for (uint32_t f = stage->first_fold; f < end; f++) {
        pp_draw_line(draw, "fold%u_type fold%u_now;", f, f);
        pp_draw_line(draw, "memset(&fold%u_now, 0, sizeof fold%u_now);", f, f);
        if (draw->program->folds[f].law == PP_LAW_SCAN)
            pp_draw_line(draw, "fold%u_state fold%u_last = fold%u_now.inside;", f, f, f);
    }
    if (has_scan(draw, stage)) {
        draw_groups(draw, stage);
    } else {
        pp_draw_open(draw, "for (int64_t k = 0; k < count; k++)");
        draw_positions(draw);
        pp_draw_code(draw, stage->first, stage->count, NULL);
        draw_puts(draw, stage);
        pp_draw_close(draw);
    }
    for (uint32_t f = stage->first_fold; f < end; f++) {
        if (draw->program->folds[f].law == PP_LAW_SCAN)
            pp_draw_line(draw, "fold%u = fold%u_finish(fold%u_last);", f, f, f);
        else
            pp_draw_line(draw, "fold%u = fold%u_finish(fold%u_end(&fold%u_now));", f, f, f, f);
    }
}

/* ---- contraction --------------------------------------------------------------------------------------- */

void pp_draw_contract(pp_draw *draw)
{
    const pp_contract *c = &draw->program->contract;
    const char *type = pp_draw_type(c->dtype), *name = ppto_dtype_name((ppto_dtype)c->dtype);
    pp_draw_use(draw, PP_FMA, c->dtype);
    pp_draw_use(draw, PP_ADD, c->dtype);
    pp_draw_line(draw, "%s product = 0;", type);
    pp_draw_open(draw, "for (int64_t k0 = 0; k0 < count; k0 += %u)", PP_K_BLOCK);
    pp_draw_line(draw, "const int64_t end = count - k0 < %u ? count : k0 + %u;", PP_K_BLOCK, PP_K_BLOCK);
    pp_draw_line(draw, "%s chain = 0;", type);
    pp_draw_open(draw, "for (int64_t k = k0; k < end; k++)");
    draw_positions(draw);
    pp_draw_code(draw, c->a_first, c->a_count, NULL);
    pp_draw_code(draw, c->b_first, c->b_count, NULL);
    pp_draw_line(draw, "chain = pp_op_fma_%s(v%u, v%u, chain);", name, c->a_value, c->b_value);
    pp_draw_close(draw);
    pp_draw_line(draw, "product = k0 == 0 ? chain : pp_op_add_%s(product, chain);", name);
    pp_draw_close(draw);
    pp_draw_line(draw, "product = pp_op_add_%s(product, 0);", name);
}
