/* SPDX-License-Identifier: Apache-2.0
 * From instructions to steps.
 *
 * The axes a value moves with (measured, not declared: a broadcast stride moves nothing) give its level; the
 * tiling gives its group. Loops of two and three operands take an element per tile or per row where they can;
 * elsewhere a SPREAD step makes a vector, once per value and level, in the earliest group that allows it.
 * Where rows are short whole tiles are spread, so that one loop runs over the tile instead of one per row. */
#include "devices/cpu/interp_plan.h"

/* ---- views ----------------------------------------------------------------------------------- */

uint8_t pp_plan_level(const pp_planner *p, uint32_t mask)
{
    return (uint8_t)((mask & p->rows_mask ? PP_LEVEL_ROWS : 0) | (mask & p->cols_mask ? PP_LEVEL_COLS : 0));
}

static uint8_t group_of(const pp_planner *p, uint32_t mask)
{
    const pp_space *space = p->request->space;
    const pp_dim_id major = p->request->major, minor = major == PP_DIM_ROWS ? PP_DIM_COLS : PP_DIM_ROWS;
    if (mask & space->dim[minor].mask && !p->request->single[minor]) return PP_GROUP_MINOR;
    if (mask & space->dim[major].mask && !p->request->single[major]) return PP_GROUP_MAJOR;
    return mask & space->dim[PP_DIM_FIXED].mask ? PP_GROUP_MAJOR : PP_GROUP_TASK;
}

static ppto_status new_view(pp_planner *p, uint8_t level, uint8_t group, uint8_t dtype, bool reg,
                            uint32_t *out)
{
    const pp_plan_view view = {.level = level,
                               .group = group,
                               .dtype = dtype,
                               .reg = reg,
                               .size = (uint8_t)ppto_dtype_size((ppto_dtype)dtype),
                               .spread = {PP_NONE, PP_NONE, PP_NONE, PP_NONE},
                               .origin = PP_NONE};
    *out = p->base + (uint32_t)p->views.n;
    if (*out >= p->launch->cap_views) return PPTO_E_INTERNAL;
    return pp_vec_push(&p->views, view);
}

static uint8_t later(uint8_t a, uint8_t b)
{
    return a > b ? a : b;
}

/* The group of a spread: the rows of a full value follow each other at the tile's own width, so it cannot be
 * made before the width is known. */
static uint8_t spread_group(const pp_planner *p, const pp_plan_view *from, uint8_t level)
{
    if (level != PP_LEVEL_FULL || from->level == PP_LEVEL_ONE || p->request->single[PP_DIM_COLS])
        return from->group;
    return later(from->group, p->request->major == PP_DIM_COLS ? PP_GROUP_MAJOR : PP_GROUP_MINOR);
}

static ppto_status spread(pp_planner *p, uint32_t view, uint8_t level, uint32_t *out)
{
    const pp_plan_view from = *pp_plan_view_at(p, view);
    *out = view;
    if (from.level == level) return PPTO_OK;
    *out = from.spread[level];
    if (*out != PP_NONE) return PPTO_OK;
    const uint8_t group = spread_group(p, &from, level);
    PP_TRY(new_view(p, level, group, from.dtype, true, out));
    pp_plan_view_at(p, view)->spread[level] = *out;
    pp_plan_view_at(p, *out)->origin = view;
    const pp_step step = {.kind = PP_STEP_SPREAD,
                          .level = level,
                          .group = group,
                          .size = from.size,
                          .dtype = from.dtype,
                          .from = from.level,
                          .n_out = 1,
                          .out = *out,
                          .a = view,
                          .b = PP_NONE,
                          .c = PP_NONE,
                          .direct = PP_NONE};
    return pp_vec_push(&p->steps, step);
}

/* The value as a vector operand of a loop at `level`: rows of a full tile may all be the same row (pitch 0).
 */
ppto_status pp_plan_vector(pp_planner *p, uint32_t view, uint8_t level, uint32_t *out)
{
    if (level == PP_LEVEL_FULL && p->wide && !(pp_plan_view_at(p, view)->level & PP_LEVEL_ROWS))
        level = PP_LEVEL_COLS;
    return spread(p, view, level, out);
}

/* As an operand that may be one element (per tile, or per row of wide tiles): *one says so. */
static ppto_status element_or_vector(pp_planner *p, uint32_t view, uint8_t level, uint32_t *out, bool *one)
{
    const uint8_t own = pp_plan_view_at(p, view)->level;
    *one = false;
    *out = view;
    if (own == level) return PPTO_OK;
    *one = own == PP_LEVEL_ONE || (own == PP_LEVEL_ROWS && p->wide);
    return *one ? PPTO_OK : pp_plan_vector(p, view, level, out);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static pp_step blank(uint8_t kind, uint8_t level, uint8_t group, uint8_t dtype)
{
    return (pp_step){.kind = kind,
                     .level = level,
                     .group = group,
                     .dtype = dtype,
                     .size = (uint8_t)ppto_dtype_size((ppto_dtype)dtype),
                     .n_out = 1,
                     .out = PP_NONE,
                     .a = PP_NONE,
                     .b = PP_NONE,
                     .c = PP_NONE,
                     .imm = PP_NONE,
                     .direct = PP_NONE};
}

static ppto_status push_with_result(pp_planner *p, pp_step *step)
{
    PP_TRY(new_view(p, step->level, step->group, step->dtype, true, &step->out));
    return pp_vec_push(&p->steps, *step);
}

static ppto_status plan_row(pp_planner *p, const pp_instr *instr, pp_step *step)
{
    const pp_block_set *set = p->launch->kernel->device->set;
    const uint32_t operand[3] = {instr->a, instr->b, instr->c};
    const unsigned n = pp_instr_direct((pp_op)instr->op);
    uint32_t *const view[3] = {&step->a, &step->b, &step->c};
    uint8_t *const size[3] = {&step->a_size, &step->b_size, &step->c_size};
    bool one[3] = {false, false, false};
    unsigned shape = PP_VV;
    for (unsigned i = 0; i < n; i++)
        PP_TRY(element_or_vector(p, pp_plan_view_of(p, operand[i]), step->level, view[i], &one[i]));
    if (n == 3 && instr->op == PP_FMA && one[0] && !one[1]) { /* the product commutes */
        const uint32_t v = step->a;
        step->a = step->b, step->b = v;
        one[0] = false, one[1] = true;
    }
    if (n == 2) shape = one[1] ? PP_VS : one[0] ? PP_SV : PP_VV;
    if (n == 3) shape = one[2] ? PP_VS : one[1] ? PP_SV : PP_VV;
    const bool keep[3] = {n == 2 && shape == PP_SV, shape == (n == 2 ? PP_VS : PP_SV),
                          n == 3 && shape == PP_VS};
    for (unsigned i = 0; i < n; i++) {
        if (one[i] && !keep[i]) PP_TRY(pp_plan_vector(p, *view[i], step->level, view[i]));
        *size[i] = pp_plan_view_at(p, *view[i])->size;
    }
    step->a_one = one[0] && keep[0] && pp_plan_view_at(p, step->a)->level == PP_LEVEL_ONE;
    step->b_one = one[1] && keep[1] && pp_plan_view_at(p, step->b)->level == PP_LEVEL_ONE;
    step->c_one = one[2] && keep[2] && pp_plan_view_at(p, step->c)->level == PP_LEVEL_ONE;
    step->per_row = step->level == PP_LEVEL_FULL &&
                    ((one[0] && keep[0] && !step->a_one) || (one[1] && keep[1] && !step->b_one) ||
                     (one[2] && keep[2] && !step->c_one));
    const unsigned from = p->program->code[instr->op == PP_SELECT ? instr->b : instr->a].dtype;
    step->kind = (uint8_t)(n == 1 ? PP_STEP_ROW1 : n == 2 ? PP_STEP_ROW2 : PP_STEP_ROW3);
    step->op = instr->op;
    step->on = (uint8_t)from;
    step->fn = instr->op == PP_CAST      ? set->cast[from][instr->dtype]
               : instr->op == PP_BITCAST ? set->bitcast[from][instr->dtype]
                                         : set->scalar[instr->op][from][shape];
    if (step->fn == NULL) return PPTO_E_UNSUPPORTED;
    return push_with_result(p, step);
}

static ppto_status plan_cell(pp_planner *p, uint32_t at, char *cell)
{
    uint32_t view;
    PP_TRY(new_view(p, PP_LEVEL_ONE, PP_GROUP_TASK, p->program->code[at].dtype, false, &view));
    p->of[pp_plan_local(p, at)] = view;
    p->launch->views[view] = (pp_view){cell, 0};
    return PPTO_OK;
}

static ppto_status new_list(pp_planner *p, uint32_t n, uint32_t **out)
{
    *out = pp_arena_alloc(&p->launch->arena, (n + 1u) * sizeof **out);
    return *out != NULL ? PPTO_OK : PPTO_E_NOMEM;
}

static ppto_status plan_load(pp_planner *p, const pp_instr *instr, pp_step *step)
{
    const pp_access_at *access = &p->launch->access[instr->imm];
    uint32_t *list, n = 0;
    bool by_row = step->level == PP_LEVEL_FULL && access->n_gathers > 0 && !access->data_guard;
    for (uint32_t g = 0; g < access->n_gathers; g++)
        if (pp_plan_view_at(p, pp_plan_view_of(p, access->gathers[g].value))->level & PP_LEVEL_COLS)
            by_row = false;
    PP_TRY(new_list(p, access->n_gathers + access->n_guards, &list));
    const uint8_t level = by_row ? PP_LEVEL_ROWS : step->level;
    for (uint32_t g = 0; g < access->n_gathers; g++)
        PP_TRY(pp_plan_vector(p, pp_plan_view_of(p, access->gathers[g].value), level, &list[n++]));
    for (uint32_t g = 0; g < access->n_guards; g++)
        if (access->guards[g].value != PP_NONE)
            PP_TRY(pp_plan_vector(p, pp_plan_view_of(p, access->guards[g].value), level, &list[n++]));
    step->kind = PP_STEP_LOAD;
    step->by_row = by_row;
    step->list = list;
    step->n_list = n;
    step->data = access;
    PP_TRY(push_with_result(p, step));
    const int64_t by = pp_dim_step(
        access->lin, &p->request->space->dim[step->level & PP_LEVEL_COLS ? PP_DIM_COLS : PP_DIM_ROWS]);
    pp_plan_view_at(p, step->out)->in_place = n == 0 && access->n_guards == 0 && by == access->size;
    return PPTO_OK;
}

static ppto_status plan_list(pp_planner *p, uint32_t first, uint32_t n, pp_step *step)
{
    uint32_t *list;
    PP_TRY(new_list(p, n, &list));
    for (uint32_t i = 0; i < n; i++)
        PP_TRY(pp_plan_vector(p, pp_plan_view_of(p, p->program->operands[first + i]), step->level, &list[i]));
    step->list = list;
    step->n_list = n;
    return PPTO_OK;
}

static ppto_status plan_call(pp_planner *p, const pp_instr *instr, pp_step *step)
{
    const pp_kernel *kernel = p->launch->kernel;
    step->data = kernel->callee[instr->imm];
    if (instr->op == PP_CALL) {
        step->kind = PP_STEP_CALL;
        PP_TRY(plan_list(p, instr->a, instr->b, step));
        return push_with_result(p, step);
    }
    step->kind = PP_STEP_COLD;
    step->fn = kernel->device->set->scalar[PP_SELECT][instr->dtype][PP_VV];
    PP_TRY(pp_plan_vector(p, pp_plan_view_of(p, instr->a), step->level, &step->a));
    PP_TRY(pp_plan_vector(p, pp_plan_view_of(p, instr->b), step->level, &step->b));
    PP_TRY(plan_list(p, instr->c, p->program->callees[instr->imm]->n_params, step));
    return push_with_result(p, step);
}

static ppto_status plan_table(pp_planner *p, const pp_instr *instr, pp_step *step)
{
    const unsigned from = p->program->code[instr->a].dtype;
    step->kind = PP_STEP_TABLE;
    step->a = pp_plan_view_of(p, instr->a);
    step->a_size = pp_plan_view_at(p, step->a)->size;
    step->fn = p->launch->kernel->device->set->cast[from][PPTO_U32];
    step->data = p->launch->kernel->table[instr->imm];
    step->imm = p->program->tables[instr->imm].length;
    step->table = instr->imm;
    step->on = (uint8_t)from;
    return push_with_result(p, step);
}

/* A coordinate; with a value the form plus the value. */
static ppto_status plan_index(pp_planner *p, const pp_instr *instr, pp_step *step)
{
    const pp_block_set *set = p->launch->kernel->device->set;
    const uint32_t value = p->program->affines[instr->imm].value;
    const uint8_t level = step->level;
    step->kind = PP_STEP_INDEX;
    step->data = p->launch->affine[instr->imm];
    PP_TRY(push_with_result(p, step));
    if (value == PP_NONE) return PPTO_OK;
    const unsigned from = p->program->code[value].dtype;
    pp_step wide = blank(PP_STEP_ROW1, level, step->group, PPTO_I64),
            sum = blank(PP_STEP_ROW2, level, step->group, PPTO_I64);
    PP_TRY(pp_plan_vector(p, pp_plan_view_of(p, value), level, &wide.a));
    wide.a_size = (uint8_t)ppto_dtype_size((ppto_dtype)from);
    wide.fn = set->cast[from][PPTO_I64];
    wide.op = PP_CAST, wide.on = (uint8_t)from;
    PP_TRY(push_with_result(p, &wide));
    sum.a = step->out, sum.b = wide.out;
    sum.a_size = sum.b_size = sizeof(int64_t);
    sum.fn = set->scalar[PP_ADD][PPTO_I64][PP_VV];
    sum.op = PP_ADD, sum.on = PPTO_I64;
    PP_TRY(push_with_result(p, &sum));
    step->out = sum.out;
    return PPTO_OK;
}

static ppto_status plan_inside(pp_planner *p, const pp_instr *instr, pp_step *step)
{
    const pp_guard_at *guards = &p->launch->guards[instr->imm];
    uint32_t *list, n = 0;
    PP_TRY(new_list(p, instr->a, &list));
    for (uint32_t g = 0; g < instr->a; g++)
        if (guards[g].value != PP_NONE)
            PP_TRY(pp_plan_vector(p, pp_plan_view_of(p, guards[g].value), step->level, &list[n++]));
    step->kind = PP_STEP_INSIDE;
    step->imm = instr->a;
    step->list = list;
    step->n_list = n;
    step->data = guards;
    return push_with_result(p, step);
}

static ppto_status plan_check(pp_planner *p, const pp_instr *instr, pp_step *step)
{
    const uint32_t value = p->program->affines[p->program->checks[instr->imm].position].value;
    uint32_t *list;
    PP_TRY(new_list(p, 1, &list));
    step->kind = PP_STEP_CHECK;
    step->imm = instr->imm;
    step->data = p->launch->affine[p->program->checks[instr->imm].position];
    step->dtype = p->program->code[instr->b].dtype;
    PP_TRY(pp_plan_vector(p, pp_plan_view_of(p, instr->a), step->level, &step->a));
    PP_TRY(pp_plan_vector(p, pp_plan_view_of(p, instr->b), step->level, &step->b));
    step->b_size = pp_plan_view_at(p, step->b)->size;
    if (value != PP_NONE)
        PP_TRY(pp_plan_vector(p, pp_plan_view_of(p, value), step->level, &list[step->n_list++]));
    step->list = list;
    return pp_vec_push(&p->steps, *step);
}

static ppto_status plan_store(pp_planner *p, const pp_instr *instr, pp_step *step)
{
    step->kind = PP_STEP_STORE;
    step->imm = instr->imm;
    step->data = &p->launch->access[instr->imm];
    PP_TRY(pp_plan_vector(p, pp_plan_view_of(p, instr->a), step->level, &step->a));
    return pp_vec_push(&p->stores, *step);
}

/* All states of a scan at once, where its first value is asked for (or at the end, for the last state alone).
 */
ppto_status pp_plan_scan(pp_planner *p, uint32_t fold, uint32_t *first)
{
    const pp_fold *f = &p->program->folds[fold];
    uint32_t *list;
    pp_step step = blank(PP_STEP_SCAN, p->all, PP_GROUP_MINOR, f->state[0]);
    PP_TRY(new_list(p, f->n_inputs, &list));
    for (uint32_t i = 0; i < f->n_inputs; i++)
        PP_TRY(pp_plan_vector(p, pp_plan_view_of(p, f->input[i]), p->all, &list[i]));
    step.list = list;
    step.n_list = f->n_inputs;
    step.imm = fold;
    step.n_out = f->n_states;
    for (uint32_t s = 0; s < f->n_states; s++) {
        uint32_t view;
        PP_TRY(new_view(p, p->all, PP_GROUP_MINOR, f->state[s], true, &view));
        if (s == 0) step.out = view;
    }
    *first = step.out;
    return pp_vec_push(&p->steps, step);
}

/* ---- one instruction ------------------------------------------------------------------------- */

static void add_form(const pp_planner *p, const pp_lin *lin, uint32_t *mask)
{
    for (uint32_t i = 0; i < p->launch->n_axes; i++)
        if (lin->coef[i] != 0) *mask |= UINT32_C(1) << i;
}

static void add_value(const pp_planner *p, uint32_t value, uint32_t *mask, uint8_t *group)
{
    if (value == PP_NONE) return;
    *mask |= p->mask[pp_plan_local(p, value)];
    *group = later(*group, p->group[pp_plan_local(p, value)]);
}

/* The axes an instruction moves with, and the group its operands allow. */
static void trace(const pp_planner *p, const pp_instr *instr, uint32_t *mask, uint8_t *group)
{
    uint32_t operand[PP_MAX_OPERANDS];
    const unsigned n = pp_instr_operands(&p->pools, instr, operand);
    for (unsigned i = 0; i < n; i++) add_value(p, operand[i], mask, group);
    if (instr->op == PP_INDEX || instr->op == PP_CHECK) {
        const uint32_t affine = instr->op == PP_INDEX ? instr->imm : p->program->checks[instr->imm].position;
        add_form(p, p->launch->affine[affine], mask);
        add_value(p, p->program->affines[affine].value, mask, group);
    }
    if (instr->op == PP_LOAD || instr->op == PP_STORE) {
        const pp_access_at *access = &p->launch->access[instr->imm];
        *mask |= access->mask;
        for (uint32_t g = 0; g < access->n_gathers; g++) add_value(p, access->gathers[g].value, mask, group);
        for (uint32_t g = 0; g < access->n_guards; g++) add_value(p, access->guards[g].value, mask, group);
    }
    for (uint32_t g = 0; instr->op == PP_INSIDE && g < instr->a; g++) {
        add_form(p, p->launch->guards[instr->imm + g].lin, mask);
        add_value(p, p->launch->guards[instr->imm + g].value, mask, group);
    }
    const pp_space *space = p->request->space;
    const uint32_t major = space->dim[p->request->major].mask;
    if (instr->op == PP_STATE) *mask |= major, *group = later(*group, PP_GROUP_MAJOR);
    if (instr->op == PP_BUFFER || instr->op == PP_SCANNED || instr->op == PP_PRODUCT)
        *mask |= p->rows_mask | p->cols_mask, *group = PP_GROUP_MINOR;
    if (instr->op == PP_KEEP) *mask |= p->rows_mask | p->cols_mask;
    if (instr->op == PP_STORE || instr->op == PP_CHECK || instr->op == PP_KEEP)
        *group = later(*group, PP_GROUP_MAJOR);
    *group = later(*group, group_of(p, *mask));
}

/* Between integers of one width nothing is computed: the operand's view serves both. */
static bool keeps_bits(const pp_planner *p, const pp_instr *instr)
{
    if (instr->op != PP_CAST && instr->op != PP_BITCAST) return false;
    const ppto_dtype from = (ppto_dtype)p->program->code[instr->a].dtype, to = (ppto_dtype)instr->dtype;
    return pp_dtype_is_integer(from) && pp_dtype_is_integer(to) && pp_dtype_width(from) == pp_dtype_width(to);
}

ppto_status pp_plan_instr(pp_planner *p, uint32_t at)
{
    const pp_instr *instr = &p->program->code[at];
    uint32_t mask = 0;
    uint8_t group = PP_GROUP_TASK;
    trace(p, instr, &mask, &group);
    p->mask[pp_plan_local(p, at)] = mask;
    p->group[pp_plan_local(p, at)] = group;
    if (p->folded[pp_plan_local(p, at)]) return PPTO_OK;
    pp_step step = blank(0, pp_plan_level(p, mask), group, instr->dtype);
    uint32_t view;
    switch (instr->op) {
    case PP_CONST: {
        uint64_t *cell = pp_arena_alloc(&p->launch->arena, sizeof *cell);
        if (cell == NULL) return PPTO_E_NOMEM;
        *cell = p->program->consts[instr->imm];
        PP_TRY(plan_cell(p, at, (char *)cell));
        pp_plan_view_at(p, pp_plan_view_of(p, at))->constant = &p->program->consts[instr->imm];
        return PPTO_OK;
    }
    case PP_ARG: return plan_cell(p, at, (char *)&p->launch->args[instr->imm]);
    case PP_LOAD: PP_TRY(plan_load(p, instr, &step)); break;
    case PP_STORE: return plan_store(p, instr, &step);
    case PP_CHECK: return plan_check(p, instr, &step);
    case PP_CALL:
    case PP_COLD: PP_TRY(plan_call(p, instr, &step)); break;
    case PP_TABLE: PP_TRY(plan_table(p, instr, &step)); break;
    case PP_INDEX: PP_TRY(plan_index(p, instr, &step)); break;
    case PP_INSIDE: PP_TRY(plan_inside(p, instr, &step)); break;
    case PP_KEEP:
        step.kind = PP_STEP_KEEP;
        step.imm = instr->imm;
        PP_TRY(pp_plan_vector(p, pp_plan_view_of(p, instr->a), step.level, &step.a));
        return pp_vec_push(&p->steps, step);
    case PP_SCANNED: {
        uint32_t *first = &p->scan[instr->imm - p->request->stage->first_fold];
        if (*first == PP_NONE) PP_TRY(pp_plan_scan(p, instr->imm, first));
        step.out = *first + instr->a;
        break;
    }
    case PP_STATE:
    case PP_BUFFER:
    case PP_PRODUCT:
        step.kind = (uint8_t)(instr->op == PP_STATE    ? PP_STEP_STATE
                              : instr->op == PP_BUFFER ? PP_STEP_BUFFER
                                                       : PP_STEP_PRODUCT);
        step.imm = instr->imm;
        step.a = instr->op == PP_STATE ? instr->a : PP_NONE;
        PP_TRY(new_view(p, step.level, step.group, step.dtype, instr->op == PP_PRODUCT, &view));
        step.out = view;
        PP_TRY(pp_vec_push(&p->steps, step));
        break;
    default:
        if (instr->op >= PP_SCALAR_COUNT) return PPTO_E_INTERNAL;
        if (pp_plan_is_choice(p, instr)) {
            PP_TRY(pp_plan_choice(p, at, &step));
            PP_TRY(push_with_result(p, &step));
        } else if (keeps_bits(p, instr)) {
            step.out = pp_plan_view_of(p, instr->a);
        } else {
            PP_TRY(plan_row(p, instr, &step));
        }
    }
    p->of[pp_plan_local(p, at)] = step.out;
    return PPTO_OK;
}
