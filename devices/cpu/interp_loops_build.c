/* SPDX-License-Identifier: Apache-2.0
 * From a run of steps to a loop (loop.h), and the machine that stands for both.
 *
 * Streams in are what other steps made, taken before it was spread: an element for the tile or for each of
 * its rows is no vector. Constants of the program are constants of the loop, its numbers are not, so that the
 * same code serves them all. Streams out are what anybody else reads, in the order they are made. */
#include "base/fault.h"
#include "devices/cpu/interp_plan.h"
#include "devices/cpu/interp_work.h"

typedef struct builder {
    pp_planner *p;
    const pp_plan_run *run;
    uint32_t *value; /* per view of the body: its instruction in the loop, PP_NONE */
    bool *inside;    /* per view: made by the run */
    PP_VEC(pp_stream) in;
    PP_VEC(uint32_t) in_view;
    PP_VEC(pp_stream) out;
    PP_VEC(pp_machine_out) out_step;
    PP_VEC(pp_instr) code;
    PP_VEC(uint32_t) operands;
    PP_VEC(uint64_t) consts;
    PP_VEC(pp_table) tables;
    PP_VEC(const pp_function *) callees;
    PP_VEC(pp_loop_fold) folds;
    uint32_t folded;     /* folds of the body that are the loop's, a bit each */
    uint32_t first_fold; /* of the body */
    bool scans;          /* the loop's folds are scans, of SCAN steps */
    bool columns;        /* they are by columns */
} builder;

static uint32_t *value_of(const builder *b, uint32_t view)
{
    return &b->value[view - b->p->base];
}

static ppto_status emit(builder *b, pp_instr instr, uint32_t *at)
{
    *at = (uint32_t)b->code.n;
    return pp_vec_push(&b->code, instr);
}

/* ---- streams in ------------------------------------------------------------------------------ */

static ppto_status add_constant(builder *b, uint32_t view)
{
    const pp_plan_view *v = pp_plan_view_at(b->p, view);
    const pp_instr instr = {.op = PP_CONST, .dtype = v->dtype, .imm = (uint32_t)b->consts.n};
    PP_TRY(pp_vec_push(&b->consts, *v->constant));
    return emit(b, instr, value_of(b, view));
}

static ppto_status add_input(builder *b, uint32_t view)
{
    const pp_plan_view *v = pp_plan_view_at(b->p, view);
    const bool vector = (v->level & PP_LEVEL_COLS) || v->level == b->p->all;
    const pp_stream stream = {.dtype = v->dtype, .kind = vector ? PP_STREAM_FULL : PP_STREAM_ROW};
    const pp_instr instr = {.op = PP_PARAM, .dtype = v->dtype, .imm = (uint32_t)b->in.n};
    PP_TRY(pp_vec_push(&b->in, stream));
    PP_TRY(pp_vec_push(&b->in_view, view));
    return emit(b, instr, value_of(b, view));
}

static ppto_status add_inputs(builder *b)
{
    uint32_t view;
    for (uint32_t i = b->run->first; i < b->run->first + b->run->n; i++) {
        const pp_step *step = &b->p->steps.at[i];
        for (uint32_t k = 0; pp_plan_reads(step, k, &view); k++) {
            if (view == PP_NONE || b->inside[pp_plan_source(b->p, view) - b->p->base]) continue;
            view = pp_plan_source(b->p, view);
            if (*value_of(b, view) != PP_NONE) continue;
            PP_TRY(pp_plan_view_at(b->p, view)->constant != NULL ? add_constant(b, view)
                                                                 : add_input(b, view));
        }
    }
    return PPTO_OK;
}

/* ---- code ------------------------------------------------------------------------------------ */

/* The value of a view as `dtype`: integers of one width share views. */
static ppto_status operand(builder *b, uint32_t view, uint8_t dtype, uint32_t *at)
{
    *at = *value_of(b, pp_plan_source(b->p, view));
    if (*at == PP_NONE) return PPTO_E_INTERNAL;
    if (b->code.at[*at].dtype == dtype) return PPTO_OK;
    return emit(b, (pp_instr){.op = PP_CAST, .dtype = dtype, .a = *at}, at);
}

static ppto_status add_row(builder *b, const pp_step *step, uint32_t *at)
{
    pp_instr instr = {.op = step->op, .dtype = step->dtype};
    const uint8_t first = step->op == PP_SELECT ? PPTO_BOOL : step->on;
    PP_TRY(operand(b, step->a, first, &instr.a));
    if (step->kind != PP_STEP_ROW1) PP_TRY(operand(b, step->b, step->on, &instr.b));
    if (step->kind == PP_STEP_ROW3) PP_TRY(operand(b, step->c, step->on, &instr.c));
    return emit(b, instr, at);
}

static ppto_status add_arguments(builder *b, const pp_step *step, uint32_t *first, uint32_t *callee)
{
    const pp_function *f = pp_fcode_function(step->data);
    uint32_t argument[PP_MAX_OPERANDS];
    if (step->n_list > PP_MAX_OPERANDS) return PPTO_E_INTERNAL;
    for (uint32_t i = 0; i < step->n_list; i++) PP_TRY(operand(b, step->list[i], f->param[i], &argument[i]));
    *first = (uint32_t)b->operands.n;
    *callee = (uint32_t)b->callees.n;
    for (uint32_t i = 0; i < step->n_list; i++) PP_TRY(pp_vec_push(&b->operands, argument[i]));
    return pp_vec_push(&b->callees, f);
}

static ppto_status add_call(builder *b, const pp_step *step, uint32_t *at)
{
    pp_instr instr = {.op = PP_CALL, .dtype = step->dtype, .b = step->n_list};
    PP_TRY(add_arguments(b, step, &instr.a, &instr.imm));
    return emit(b, instr, at);
}

static ppto_status add_cold(builder *b, const pp_step *step, uint32_t *at)
{
    pp_instr instr = {.op = PP_COLD, .dtype = step->dtype};
    PP_TRY(operand(b, step->a, PPTO_BOOL, &instr.a));
    PP_TRY(operand(b, step->b, step->dtype, &instr.b));
    PP_TRY(add_arguments(b, step, &instr.c, &instr.imm));
    return emit(b, instr, at);
}

static ppto_status add_table(builder *b, const pp_step *step, uint32_t *at)
{
    pp_instr instr = {.op = PP_TABLE, .dtype = step->dtype, .imm = (uint32_t)b->tables.n};
    PP_TRY(operand(b, step->a, step->on, &instr.a));
    PP_TRY(pp_vec_push(&b->tables, b->p->program->tables[step->table]));
    return emit(b, instr, at);
}

/* The position, and what stands in for states of the launch (interp_machine.c). */
static ppto_status add_stand_in(builder *b, uint8_t dtype, uint32_t *stream)
{
    *stream = (uint32_t)b->in.n;
    PP_TRY(pp_vec_push(&b->in_view, PP_NONE));
    return pp_vec_push(&b->in, ((pp_stream){.dtype = dtype, .kind = PP_STREAM_ROW}));
}

static ppto_status add_state_output(builder *b, const pp_fold *fold, uint8_t f, uint8_t s, uint32_t *stream)
{
    *stream = (uint32_t)b->out.n;
    const uint8_t kind = b->columns ? PP_STREAM_COLUMN : PP_STREAM_ROW;
    PP_TRY(pp_vec_push(&b->out, ((pp_stream){.dtype = fold->state[s], .kind = kind})));
    return pp_vec_push(&b->out_step, ((pp_machine_out){.fold = f, .state = s, .view = PP_NONE}));
}

static ppto_status add_scan(builder *b, const pp_step *step)
{
    const pp_fold *fold = &b->p->program->folds[step->imm];
    const uint32_t number = (uint32_t)b->folds.n;
    pp_loop_fold out = {.fold = fold, .first = PP_NONE};
    for (uint32_t i = 0; i < fold->n_inputs; i++)
        PP_TRY(operand(b, step->list[i], fold->lift->param[i], &out.input[i]));
    PP_TRY(add_stand_in(b, PPTO_I64, &out.first));
    for (uint8_t s = 0; s < fold->n_states; s++) {
        PP_TRY(add_stand_in(b, fold->state[s], &out.carry[s]));
        PP_TRY(add_state_output(b, fold, (uint8_t)(step->imm - b->first_fold), s, &out.out[s]));
        const pp_instr state = {.op = PP_SCANNED, .dtype = fold->state[s], .imm = number, .a = s};
        PP_TRY(emit(b, state, value_of(b, step->out + s)));
    }
    b->scans = true;
    return pp_vec_push(&b->folds, out);
}

static ppto_status add_step(builder *b, const pp_step *step)
{
    uint32_t *at = value_of(b, step->out);
    switch (step->kind) {
    case PP_STEP_SPREAD: return PPTO_OK; /* readers take the source */
    case PP_STEP_CALL: return add_call(b, step, at);
    case PP_STEP_COLD: return add_cold(b, step, at);
    case PP_STEP_TABLE: return add_table(b, step, at);
    case PP_STEP_SCAN: return add_scan(b, step);
    default: return add_row(b, step, at);
    }
}

/* ---- streams out ----------------------------------------------------------------------------- */

static bool reads(const pp_step *step, uint32_t view)
{
    uint32_t read;
    for (uint32_t k = 0; pp_plan_reads(step, k, &read); k++)
        if (read == view) return true;
    return false;
}

static bool read_by_body(const builder *b, const pp_body *body, uint32_t view)
{
    for (uint32_t f = 0; f < body->n_folds; f++) {
        const pp_fold *fold = &b->p->program->folds[body->first_fold + f];
        const bool ours = f < PP_MOST_FOLDED && (b->folded >> f & 1);
        for (uint32_t i = 0; fold->law == PP_LAW_FOLD && !ours && i < fold->n_inputs; i++)
            if (body->input[f][i] == view) return true;
    }
    return body->value == view;
}

static bool read_outside(const builder *b, const pp_body *body, uint32_t view)
{
    const pp_plan_run *run = b->run;
    for (uint32_t i = 0; i < b->p->steps.n; i++)
        if ((i < run->first || i >= run->first + run->n) && reads(&b->p->steps.at[i], view)) return true;
    return read_by_body(b, body, view);
}

/* The store of the run that takes the view. */
static uint32_t store_of(const builder *b, uint32_t view)
{
    const uint32_t first = b->run->first + b->run->n;
    for (uint32_t i = first; i < first + b->run->stores; i++)
        if (b->p->steps.at[i].a == view) return i;
    return PP_NONE;
}

static ppto_status add_output(builder *b, uint32_t view, const pp_step *steps, const uint32_t *place,
                              uint32_t at)
{
    const uint32_t store = store_of(b, view);
    const uint8_t dtype = pp_plan_view_at(b->p, view)->dtype;
    pp_stream stream = {.dtype = dtype, .kind = PP_STREAM_FULL};
    pp_machine_out out = {.step = &steps[place[at]], .view = view};
    pp_instr instr = {.op = PP_STORE, .dtype = dtype, .imm = (uint32_t)b->out.n};
    PP_TRY(operand(b, view, dtype, &instr.a));
    if (store != PP_NONE) {
        const pp_access_at *access = b->p->steps.at[store].data;
        const pp_tensor_at *tensor = &b->p->launch->tensors[access->tensor];
        stream.canonical = pp_store_is_canonical(tensor);
        stream.around = tensor->stream && access->n_guards == 0;
        out.store = &steps[place[store]];
    }
    PP_TRY(pp_vec_push(&b->out, stream));
    PP_TRY(pp_vec_push(&b->out_step, out));
    return emit(b, instr, &at);
}

static ppto_status add_outputs(builder *b, const uint32_t *place, const pp_body *body)
{
    const pp_step *steps = body->steps[b->p->steps.at[b->run->first].group];
    for (uint32_t i = b->run->first; i < b->run->first + b->run->n; i++)
        for (uint32_t k = 0; k < b->p->steps.at[i].n_out; k++) {
            const uint32_t view = b->p->steps.at[i].out + k;
            if (read_outside(b, body, view)) PP_TRY(add_output(b, view, steps, place, i));
        }
    return PPTO_OK;
}

/* ---- folds ----------------------------------------------------------------------------------- */

bool pp_plan_folds(const pp_planner *p)
{
    if (p->program->frame == PP_FRAME_ROWS) return p->all == PP_LEVEL_FULL && p->request->cols >= PP_LANES;
    return p->program->frame == PP_FRAME_LANES && (p->all & PP_LEVEL_COLS);
}

static unsigned widest(const uint8_t *dtype, unsigned n)
{
    unsigned width = 0;
    for (unsigned i = 0; i < n; i++)
        if (pp_dtype_width((ppto_dtype)dtype[i]) > width) width = pp_dtype_width((ppto_dtype)dtype[i]);
    return width;
}

/* By the lane law, and where the interpreter has no better form of its own: all at once in its own dtype, or
 * the first of an order with positions narrower than the loop's, which would make its vectors short. */
static bool folds_lanes(const pp_fold_code *code)
{
    const pp_fold *fold = code->fold;
    const bool ordered = code->loops != NULL && code->loops->best != NULL;
    if (ordered && widest(fold->lift->param, fold->n_inputs) < widest(fold->state, fold->n_states))
        return false;
    return !code->uncast && (code->whole == NULL || code->row != NULL);
}

/* Whether the loop may fold: values it makes. */
static bool folds_here(const builder *b, const pp_body *body, uint32_t f)
{
    const pp_planner *p = b->p;
    const pp_fold_code *code = &p->launch->kernel->folds[body->first_fold + f];
    const unsigned group = p->steps.at[b->run->first].group;
    if (code->fold->law != PP_LAW_FOLD || f >= PP_MOST_FOLDED || group == PP_GROUP_TASK) return false;
    if (b->columns ? group != PP_GROUP_MINOR : !folds_lanes(code)) return false;
    for (uint32_t i = 0; i < code->fold->n_inputs; i++)
        if (!b->inside[pp_plan_source(p, body->input[f][i]) - p->base]) return false;
    return code->fold->n_inputs > 0;
}

static ppto_status add_fold(builder *b, const pp_body *body, uint32_t f)
{
    const pp_fold *fold = &b->p->program->folds[body->first_fold + f];
    pp_loop_fold out = {.fold = fold, .first = PP_NONE, .columns = b->columns};
    for (uint32_t i = 0; i < fold->n_inputs; i++)
        PP_TRY(operand(b, body->input[f][i], fold->joined ? fold->state[i] : fold->lift->param[i],
                       &out.input[i]));
    for (uint8_t s = 0; s < fold->n_states; s++)
        PP_TRY(add_state_output(b, fold, (uint8_t)f, s, &out.out[s]));
    if (fold->position) PP_TRY(add_stand_in(b, PPTO_I64, &out.first));
    if (b->columns) PP_TRY(add_stand_in(b, PPTO_BOOL, &out.fresh));
    return pp_vec_push(&b->folds, out);
}

static ppto_status add_folds(builder *b, const pp_body *body)
{
    b->columns = b->p->program->frame == PP_FRAME_ROWS;
    for (uint32_t f = 0; f < body->n_folds && !b->scans && pp_plan_folds(b->p); f++) {
        if (!folds_here(b, body, f)) continue;
        b->folded |= UINT32_C(1) << f;
        PP_TRY(add_fold(b, body, f));
    }
    return PPTO_OK;
}

/* ---- machines -------------------------------------------------------------------------------- */

#define KEEP_ARRAY(b, vec, to)                                                                               \
    do {                                                                                                     \
        (to) = pp_arena_copy(&(b)->p->launch->arena, (b)->vec.at, (b)->vec.n * sizeof *(b)->vec.at);         \
        if ((to) == NULL) return PPTO_E_NOMEM;                                                               \
    } while (0)

static ppto_status keep(builder *b, pp_machine *out)
{
    pp_loop *loop = &out->loop;
    KEEP_ARRAY(b, in, loop->in);
    KEEP_ARRAY(b, in_view, out->in);
    KEEP_ARRAY(b, out, loop->out);
    KEEP_ARRAY(b, out_step, out->out);
    KEEP_ARRAY(b, code, loop->code);
    KEEP_ARRAY(b, operands, loop->operands);
    KEEP_ARRAY(b, consts, loop->consts);
    KEEP_ARRAY(b, tables, loop->tables);
    KEEP_ARRAY(b, callees, loop->callees);
    KEEP_ARRAY(b, folds, loop->folds);
    loop->n_in = (uint32_t)b->in.n;
    loop->n_out = (uint32_t)b->out.n;
    loop->n_code = (uint32_t)b->code.n;
    loop->n_operands = (uint32_t)b->operands.n;
    loop->n_consts = (uint32_t)b->consts.n;
    loop->n_tables = (uint32_t)b->tables.n;
    loop->n_callees = (uint32_t)b->callees.n;
    loop->n_folds = (uint32_t)b->folds.n;
    loop->hash = pp_loop_hash(loop);
    return PPTO_OK;
}

static ppto_status build(builder *b, const uint32_t *place, const pp_body *body, pp_machine *out)
{
    const pp_plan_run *run = b->run;
    for (size_t v = 0; v < b->p->views.n; v++) b->value[v] = PP_NONE;
    b->first_fold = body->first_fold;
    for (uint32_t i = run->first; i < run->first + run->n; i++)
        for (uint32_t k = 0; k < b->p->steps.at[i].n_out; k++)
            b->inside[b->p->steps.at[i].out + k - b->p->base] = true;
    PP_TRY(add_inputs(b));
    for (uint32_t i = run->first; i < run->first + run->n; i++) PP_TRY(add_step(b, &b->p->steps.at[i]));
    PP_TRY(add_folds(b, body));
    PP_TRY(add_outputs(b, place, body));
    out->first = place[run->first];
    out->n = run->n + run->stores;
    out->scans = b->scans;
    out->columns = b->columns && b->folds.n > 0;
    if (b->in.n + b->out.n > PP_MACHINE_STREAMS || b->out.n == 0) return PPTO_OK;
    return keep(b, out);
}

static void free_builder(builder *b)
{
    pp_free(b->value);
    pp_free(b->inside);
    pp_vec_free(&b->in);
    pp_vec_free(&b->in_view);
    pp_vec_free(&b->out);
    pp_vec_free(&b->out_step);
    pp_vec_free(&b->code);
    pp_vec_free(&b->operands);
    pp_vec_free(&b->consts);
    pp_vec_free(&b->tables);
    pp_vec_free(&b->callees);
    pp_vec_free(&b->folds);
}

ppto_status pp_plan_machines(pp_planner *p, const uint32_t *place, pp_body *out)
{
    ppto_status status = PPTO_OK;
    if (p->launch->trial || p->runs.n == 0) return status;
    for (unsigned g = 0; g < PP_GROUPS; g++) {
        out->machines[g] = pp_arena_alloc(&p->launch->arena, p->runs.n * sizeof *out->machines[g]);
        if (out->machines[g] == NULL) return PPTO_E_NOMEM;
    }
    for (size_t r = 0; status == PPTO_OK && r < p->runs.n; r++) {
        const unsigned group = p->steps.at[p->runs.at[r].first].group;
        builder b = {.p = p,
                     .run = &p->runs.at[r],
                     .value = pp_calloc(p->views.n + 1, sizeof *b.value),
                     .inside = pp_calloc(p->views.n + 1, sizeof *b.inside)};
        status = b.value != NULL && b.inside != NULL ? PPTO_OK : PPTO_E_NOMEM;
        if (status == PPTO_OK) status = build(&b, place, out, &out->machines[group][out->n_machines[group]]);
        out->n_machines[group] += status == PPTO_OK;
        free_builder(&b);
    }
    return status;
}
