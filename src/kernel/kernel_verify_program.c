/* SPDX-License-Identifier: Apache-2.0
 * The invariants of a program around its code: frame, places, folds, stages, contraction, and the rows that
 * only programs have (LOAD, STATE, BUFFER, …). Two passes: first every number is checked to be in range,
 * stage by stage in the order of execution, so that the second can compute which axes each value depends on
 * and hold that against the domain of its stage. */
#include "kernel/verify.h"

#define NEED(condition, what)                                                                                \
    do {                                                                                                     \
        if (!(condition)) return pp_verify_instr_fail(v, at, what);                                          \
    } while (0)
#define NEED_PART(condition, part, i, what)                                                                  \
    do {                                                                                                     \
        if (!(condition)) return pp_verify_fail(v, part, i, what);                                           \
    } while (0)

/* ---- places -------------------------------------------------------------------------------------------- */

static bool role_fits(pp_frame frame, uint8_t role)
{
    if (role == PP_AXIS_OUTER) return frame != PP_FRAME_CONTRACT;
    if (role == PP_AXIS_INNER) return frame == PP_FRAME_LANES || frame == PP_FRAME_ROWS;
    return frame == PP_FRAME_CONTRACT && role <= PP_AXIS_K;
}

static ppto_status check_axes(const pp_verify *v)
{
    const pp_program *p = v->program;
    NEED_PART(p->frame <= PP_FRAME_CONTRACT, "program", 0, "no such frame");
    NEED_PART(p->n_slots >= PP_SLOT_FIRST && p->n_slots <= UINT16_MAX + 1u, "program", 0, "number of slots");
    NEED_PART(p->n_axes <= 32, "program", 0, "more than 32 axes");
    for (uint32_t i = 0; i < p->n_axes; i++) {
        NEED_PART(role_fits(p->frame, p->axes[i].role), "axis", i, "its role is not of this frame");
        NEED_PART(p->axes[i].size < p->n_slots, "axis", i, "no such slot");
        if (i > 0) NEED_PART(p->axes[i - 1].role <= p->axes[i].role, "axis", i, "axes are out of order");
    }
    return PPTO_OK;
}

static ppto_status check_affines(const pp_verify *v)
{
    const pp_program *p = v->program;
    for (uint32_t i = 0; i < p->n_terms; i++) {
        NEED_PART(p->terms[i].axis < p->n_axes, "term", i, "no such axis");
        NEED_PART(p->terms[i].coef < p->n_slots, "term", i, "no such slot");
    }
    for (uint32_t i = 0; i < p->n_affines; i++) {
        const pp_affine *a = &p->affines[i];
        NEED_PART(a->base < p->n_slots, "affine", i, "no such slot");
        NEED_PART(pp_verify_range(a->first_term, a->n_terms, p->n_terms), "affine", i, "terms out of range");
        if (a->value == PP_NONE) continue;
        NEED_PART(a->value < p->n_code, "affine", i, "no such value");
        const uint8_t dtype = p->code[a->value].dtype;
        NEED_PART(dtype <= PPTO_F64 && pp_dtype_is_integer((ppto_dtype)dtype), "affine", i,
                  "its value is no integer");
    }
    for (uint32_t i = 0; i < p->n_guards; i++) {
        NEED_PART(p->guards[i].affine < p->n_affines, "guard", i, "no such affine");
        NEED_PART(p->guards[i].lo < p->n_slots && p->guards[i].hi < p->n_slots, "guard", i, "no such slot");
    }
    return PPTO_OK;
}

static ppto_status check_accesses(const pp_verify *v)
{
    const pp_program *p = v->program;
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        NEED_PART(p->tensors[i].dtype <= PPTO_F64, "tensor", i, "no such dtype");
        NEED_PART(p->tensors[i].rank <= PPTO_MAX_RANK, "tensor", i, "the rank is too large");
        NEED_PART(p->tensors[i].output || !p->tensors[i].result, "tensor", i, "an input is no result");
    }
    for (uint32_t i = 0; i < p->n_accesses; i++) {
        const pp_access *a = &p->accesses[i];
        NEED_PART(a->tensor < p->n_tensors, "access", i, "no such tensor");
        const pp_tensor_slot *t = &p->tensors[a->tensor];
        NEED_PART(pp_verify_range(a->first_affine, t->rank, p->n_affines), "access", i,
                  "affines out of range");
        NEED_PART(pp_verify_range(a->first_guard, a->n_guards, p->n_guards), "access", i,
                  "guards out of range");
        NEED_PART(pp_verify_bits((ppto_dtype)t->dtype, a->fill), "access", i,
                  "fill beyond the dtype's width");
    }
    for (uint32_t i = 0; i < p->n_buffers; i++)
        NEED_PART(p->buffers[i].dtype <= PPTO_F64, "buffer", i, "no such dtype");
    for (uint32_t i = 0; i < p->n_checks; i++) {
        NEED_PART(p->checks[i].message != NULL, "check", i, "no message");
        NEED_PART(p->checks[i].position < p->n_affines, "check", i, "no such affine");
    }
    return PPTO_OK;
}

/* ---- folds --------------------------------------------------------------------------------------------- */

struct dtypes {
    uint8_t at[12];
    unsigned n;
};

static void add_dtypes(struct dtypes *list, const uint8_t *dtype, unsigned n)
{
    for (unsigned i = 0; i < n && list->n < sizeof list->at; i++) list->at[list->n++] = dtype[i];
}

static bool takes(const pp_function *function, const struct dtypes *params)
{
    if (function->n_params != params->n) return false;
    for (unsigned i = 0; i < params->n; i++)
        if (function->param[i] != params->at[i]) return false;
    return true;
}

static bool gives_states(const pp_function *function, const pp_fold *fold)
{
    if (function->n_results != fold->n_states) return false;
    for (unsigned i = 0; i < fold->n_states; i++)
        if (function->code[function->result[i]].dtype != fold->state[i]) return false;
    return true;
}

static ppto_status check_fold_functions(const pp_verify *v, uint32_t i, const uint8_t *input)
{
    const pp_fold *fold = &v->program->folds[i];
    const uint8_t k = PPTO_I64;
    struct dtypes lift = {0}, step = {0}, join = {0}, finish = {0};
    add_dtypes(&lift, input, fold->n_inputs);
    add_dtypes(&step, fold->state, fold->n_states);
    add_dtypes(&step, input, fold->n_inputs);
    if (fold->position) add_dtypes(&lift, &k, 1), add_dtypes(&step, &k, 1);
    add_dtypes(&join, fold->state, fold->n_states);
    add_dtypes(&finish, fold->state, fold->n_states);
    add_dtypes(&join, fold->state, fold->n_states);
    NEED_PART(fold->join != NULL, "fold", i, "no join");
    NEED_PART(takes(fold->join, &join) && gives_states(fold->join, fold), "fold", i, "join does not fit");
    NEED_PART(fold->finish == NULL || takes(fold->finish, &finish), "fold", i, "finish does not fit");
    if (fold->joined) {
        NEED_PART(fold->lift == NULL && fold->step == NULL, "fold", i, "lift or step in a fold of states");
        NEED_PART(!fold->position && fold->n_inputs == fold->n_states, "fold", i, "inputs are not states");
        for (unsigned s = 0; s < fold->n_states; s++)
            NEED_PART(input[s] == fold->state[s], "fold", i, "an input is not of its state's dtype");
        return PPTO_OK;
    }
    NEED_PART(fold->lift != NULL, "fold", i, "no lift");
    NEED_PART(takes(fold->lift, &lift) && gives_states(fold->lift, fold), "fold", i, "lift does not fit");
    if (fold->step != NULL)
        NEED_PART(takes(fold->step, &step) && gives_states(fold->step, fold), "fold", i, "step does not fit");
    return PPTO_OK;
}

static ppto_status check_fold(const pp_verify *v, uint32_t i, const pp_stage *stage)
{
    const pp_program *p = v->program;
    const pp_fold *fold = &p->folds[i];
    uint8_t input[4] = {0};
    NEED_PART(stage->inner, "fold", i, "its stage has no inner axes");
    NEED_PART(fold->n_states >= 1 && fold->n_states <= 4, "fold", i, "one to four states");
    NEED_PART(fold->n_inputs >= 1 && fold->n_inputs <= 4, "fold", i, "one to four inputs");
    NEED_PART(fold->law <= PP_LAW_SCAN, "fold", i, "no such law");
    for (unsigned s = 0; s < fold->n_states; s++)
        NEED_PART(fold->state[s] <= PPTO_F64, "fold", i, "no such dtype");
    for (unsigned k = 0; k < fold->n_inputs; k++) {
        NEED_PART(fold->input[k] >= stage->first && fold->input[k] < stage->first + stage->count, "fold", i,
                  "an input is not of its stage");
        const pp_instr *instr = &p->code[fold->input[k]];
        NEED_PART(!pp_instr_is_effect((pp_op)instr->op), "fold", i, "an input without a value");
        input[k] = instr->dtype;
    }
    return check_fold_functions(v, i, input);
}

/* ---- rows of programs ---------------------------------------------------------------------------------- */

static const pp_stage *current_stage(const pp_verify *v)
{
    return v->stage == PP_VERIFY_FACTOR ? NULL : &v->program->stages[v->stage];
}

static bool is_value_affine(const pp_verify *v, uint32_t affine, uint32_t first, uint32_t at)
{
    uint32_t value = v->program->affines[affine].value;
    return value == PP_NONE ||
           (value >= first && value < at && !pp_instr_is_effect((pp_op)v->pools.code[value].op));
}

struct affine_walk {
    const pp_verify *v;
    uint32_t first, at;
    bool ok;
};

static void check_value(void *context, uint32_t affine)
{
    struct affine_walk *walk = context;
    if (!is_value_affine(walk->v, affine, walk->first, walk->at)) walk->ok = false;
}

static ppto_status check_place(const pp_verify *v, uint32_t at, uint32_t first)
{
    const pp_program *p = v->program;
    const pp_instr *instr = &p->code[at];
    const uint32_t n[PP_OP_COUNT] = {[PP_LOAD] = p->n_accesses,
                                     [PP_STORE] = p->n_accesses,
                                     [PP_CHECK] = p->n_checks,
                                     [PP_INDEX] = p->n_affines,
                                     [PP_INSIDE] = p->n_guards + 1};
    NEED(instr->imm < n[instr->op], "no such access, check, affine or guard");
    if (instr->op == PP_INSIDE)
        NEED(pp_verify_range(instr->imm, instr->a, p->n_guards), "guards out of range");
    struct affine_walk walk = {v, first, at, true};
    pp_instr_affines(p, instr, check_value, &walk);
    NEED(walk.ok, "an index value is not earlier in the same stage");
    return PPTO_OK;
}

static ppto_status check_access_dtype(const pp_verify *v, uint32_t at)
{
    const pp_program *p = v->program;
    const pp_instr *instr = &p->code[at];
    const pp_tensor_slot *t = &p->tensors[p->accesses[instr->imm].tensor];
    NEED(instr->dtype == t->dtype, "the tensor has another dtype");
    if (instr->op == PP_LOAD) {
        NEED(!t->output, "a load from an output");
        return PPTO_OK;
    }
    NEED(t->output, "a store to an input");
    NEED(current_stage(v) != NULL, "a store in a factor of the contraction");
    NEED(p->code[instr->a].dtype == t->dtype, "the stored value has another dtype");
    return PPTO_OK;
}

/* The stage a fold belongs to; n_stages when to none. */
static uint32_t stage_of_fold(const pp_program *p, uint32_t fold)
{
    uint32_t s = 0;
    while (s < p->n_stages &&
           (fold < p->stages[s].first_fold || fold >= p->stages[s].first_fold + p->stages[s].n_folds))
        s++;
    return s;
}

static ppto_status check_state(const pp_verify *v, uint32_t at)
{
    const pp_program *p = v->program;
    const pp_instr *instr = &p->code[at];
    NEED(current_stage(v) != NULL, "a state in a factor of the contraction");
    NEED(instr->imm < p->n_folds, "no such fold");
    const pp_fold *fold = &p->folds[instr->imm];
    const uint32_t owner = stage_of_fold(p, instr->imm);
    if (instr->op == PP_STATE) {
        NEED(owner < v->stage, "the fold is not of an earlier stage");
        NEED(instr->a < (fold->finish != NULL ? fold->finish->n_results : fold->n_states),
             "no such component");
        NEED(instr->dtype == (fold->finish != NULL ? fold->finish->code[fold->finish->result[instr->a]].dtype
                                                   : fold->state[instr->a]),
             "the component has another dtype");
        return PPTO_OK;
    }
    NEED(owner == v->stage, "the scan is not of the same stage");
    NEED(fold->law == PP_LAW_SCAN, "the fold is no scan");
    NEED(instr->a < fold->n_states && instr->dtype == fold->state[instr->a],
         "no such component of this dtype");
    for (unsigned k = 0; k < fold->n_inputs; k++) NEED(fold->input[k] < at, "the scan takes a later value");
    return PPTO_OK;
}

/* Whether an instruction before `end` keeps the buffer. */
static bool is_kept(const pp_program *p, uint32_t buffer, uint32_t end)
{
    for (uint32_t i = 0; i < end; i++)
        if (p->code[i].op == PP_KEEP && p->code[i].imm == buffer) return true;
    return false;
}

static ppto_status check_buffer(const pp_verify *v, uint32_t at)
{
    const pp_program *p = v->program;
    const pp_instr *instr = &p->code[at];
    const pp_stage *stage = current_stage(v);
    NEED(stage != NULL && stage->inner, "a buffer outside the inner axes");
    NEED(instr->imm < p->n_buffers, "no such buffer");
    NEED(instr->dtype == p->buffers[instr->imm].dtype, "the buffer has another dtype");
    if (instr->op == PP_BUFFER) {
        NEED(is_kept(p, instr->imm, stage->first), "no earlier stage keeps the buffer");
        return PPTO_OK;
    }
    NEED(p->code[instr->a].dtype == instr->dtype, "the kept value has another dtype");
    NEED(!is_kept(p, instr->imm, at), "the buffer is kept twice");
    return PPTO_OK;
}

ppto_status pp_verify_kernel_instr(const pp_verify *v, uint32_t at, uint32_t first)
{
    const pp_program *p = v->program;
    const pp_instr *instr = &p->code[at];
    switch (instr->op) {
    case PP_CONST: return PPTO_OK;
    case PP_ARG: NEED(instr->imm < p->n_args, "no such arg"); return PPTO_OK;
    case PP_LOAD:
    case PP_STORE: PP_TRY(check_place(v, at, first)); return check_access_dtype(v, at);
    case PP_INDEX:
        PP_TRY(check_place(v, at, first));
        NEED(instr->dtype == PPTO_I64, "an index is an i64");
        return PPTO_OK;
    case PP_INSIDE:
        PP_TRY(check_place(v, at, first));
        NEED(instr->dtype == PPTO_BOOL, "a guard is bool");
        return PPTO_OK;
    case PP_CHECK:
        PP_TRY(check_place(v, at, first));
        NEED(p->code[instr->a].dtype == PPTO_BOOL, "the condition is not bool");
        NEED(p->code[instr->b].dtype == instr->dtype, "the reported value has another dtype");
        return PPTO_OK;
    case PP_STATE:
    case PP_SCANNED: return check_state(v, at);
    case PP_BUFFER:
    case PP_KEEP: return check_buffer(v, at);
    case PP_PRODUCT:
        NEED(p->frame == PP_FRAME_CONTRACT && v->stage != PP_VERIFY_FACTOR, "no product here");
        NEED(instr->dtype == p->contract.dtype, "the contraction has another dtype");
        return PPTO_OK;
    default: NEED(false, "not allowed in a program");
    }
    return PPTO_OK;
}

/* ---- regions ------------------------------------------------------------------------------------------- */

static ppto_status check_code(pp_verify *v, uint32_t stage, uint32_t first, uint32_t count)
{
    v->stage = stage;
    for (uint32_t at = first; at < first + count; at++) PP_TRY(pp_verify_instr(v, at, first));
    return PPTO_OK;
}

static ppto_status check_stages(pp_verify *v)
{
    const pp_program *p = v->program;
    uint32_t code = 0, fold = 0;
    for (uint32_t s = 0; s < p->n_stages; s++) {
        const pp_stage *stage = &p->stages[s];
        NEED_PART(pp_verify_range(stage->first, stage->count, p->n_code), "stage", s, "code out of range");
        NEED_PART(stage->first >= code, "stage", s, "code out of order");
        NEED_PART(stage->first_fold == fold || stage->n_folds == 0, "stage", s, "folds out of order");
        NEED_PART(pp_verify_range(fold, stage->n_folds, p->n_folds), "stage", s, "folds out of range");
        NEED_PART(!stage->inner || p->frame == PP_FRAME_LANES || p->frame == PP_FRAME_ROWS, "stage", s,
                  "an inner stage in a frame without inner axes");
        code = stage->first + stage->count, fold += stage->n_folds;
    }
    NEED_PART(fold == p->n_folds, "program", 0, "a fold without a stage");
    for (uint32_t s = 0; s < p->n_stages; s++) {
        const pp_stage *stage = &p->stages[s];
        for (uint32_t f = 0; f < stage->n_folds; f++) PP_TRY(check_fold(v, stage->first_fold + f, stage));
        PP_TRY(check_code(v, s, stage->first, stage->count));
    }
    return PPTO_OK;
}

static bool overlap(uint32_t a, uint32_t n, uint32_t b, uint32_t m)
{
    return n != 0 && m != 0 && a < b + m && b < a + n;
}

static ppto_status check_contract(pp_verify *v)
{
    const pp_program *p = v->program;
    const pp_contract *c = &p->contract;
    NEED_PART(c->dtype <= PPTO_F64 && c->dtype != PPTO_BOOL, "contraction", 0, "no such dtype");
    NEED_PART(pp_verify_range(c->a_first, c->a_count, p->n_code) &&
                  pp_verify_range(c->b_first, c->b_count, p->n_code),
              "contraction", 0, "code out of range");
    NEED_PART(!overlap(c->a_first, c->a_count, c->b_first, c->b_count), "contraction", 0,
              "the factors' code overlaps");
    for (uint32_t s = 0; s < p->n_stages; s++) {
        const pp_stage *stage = &p->stages[s];
        NEED_PART(!overlap(c->a_first, c->a_count, stage->first, stage->count) &&
                      !overlap(c->b_first, c->b_count, stage->first, stage->count),
                  "contraction", s, "a factor's code overlaps a stage's");
    }
    PP_TRY(check_code(v, PP_VERIFY_FACTOR, c->a_first, c->a_count));
    PP_TRY(check_code(v, PP_VERIFY_FACTOR, c->b_first, c->b_count));
    NEED_PART(c->a_value >= c->a_first && c->a_value < c->a_first + c->a_count && c->b_value >= c->b_first &&
                  c->b_value < c->b_first + c->b_count,
              "contraction", 0, "a factor is not of its code");
    NEED_PART(p->code[c->a_value].dtype == c->dtype && p->code[c->b_value].dtype == c->dtype, "contraction",
              0, "a factor has another dtype");
    return PPTO_OK;
}

/* ---- axes of values ------------------------------------------------------------------------------------ */

static uint32_t axes_of(const pp_program *p, uint32_t roles)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < p->n_axes; i++)
        if (roles >> p->axes[i].role & 1) mask |= UINT32_C(1) << i;
    return mask;
}

static ppto_status check_region_axes(pp_verify *v, const uint32_t *masks, uint32_t first, uint32_t count,
                                     uint32_t allowed)
{
    for (uint32_t at = first; at < first + count; at++)
        if ((masks[at] & ~allowed) != 0)
            return pp_verify_instr_fail(v, at, "depends on an axis its domain lacks");
    return PPTO_OK;
}

static ppto_status check_domains(pp_verify *v, const uint32_t *masks)
{
    const pp_program *p = v->program;
    const uint32_t inner = axes_of(p, 1u << PP_AXIS_INNER | 1u << PP_AXIS_K), all = axes_of(p, ~0u);
    for (uint32_t s = 0; s < p->n_stages; s++) {
        const pp_stage *stage = &p->stages[s];
        PP_TRY(check_region_axes(v, masks, stage->first, stage->count, stage->inner ? all : all & ~inner));
    }
    if (p->frame != PP_FRAME_CONTRACT) return PPTO_OK;
    const pp_contract *c = &p->contract;
    PP_TRY(check_region_axes(v, masks, c->a_first, c->a_count, all & ~axes_of(p, 1u << PP_AXIS_N)));
    return check_region_axes(v, masks, c->b_first, c->b_count, all & ~axes_of(p, 1u << PP_AXIS_M));
}

/* Code outside all regions would never run, and nothing has looked at it. */
static ppto_status check_coverage(const pp_verify *v)
{
    const pp_program *p = v->program;
    uint64_t covered = 0;
    for (uint32_t s = 0; s < p->n_stages; s++) covered += p->stages[s].count;
    if (p->frame == PP_FRAME_CONTRACT) covered += (uint64_t)p->contract.a_count + p->contract.b_count;
    NEED_PART(covered == p->n_code, "program", 0, "code outside every stage");
    return PPTO_OK;
}

ppto_status pp_program_verify(const pp_program *program, pp_error *err)
{
    pp_verify checked = {
        .what = "program", .err = err, .pools = pp_program_pools(program), .program = program};
    pp_verify *v = &checked;
    if (program->frame == PP_FRAME_CHAIN) return pp_verify_chain(v);
    PP_TRY(check_axes(v));
    PP_TRY(check_affines(v));
    PP_TRY(check_accesses(v));
    PP_TRY(pp_verify_tables(v));
    PP_TRY(check_stages(v));
    if (program->frame == PP_FRAME_CONTRACT) PP_TRY(check_contract(v));
    PP_TRY(check_coverage(v));
    uint32_t *masks = pp_calloc(program->n_code, sizeof *masks);
    if (masks == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    pp_program_axis_masks(program, masks);
    ppto_status status = check_domains(v, masks);
    pp_free(masks);
    PP_TRY(status);
    if (program->hash != 0 && program->hash != pp_program_hash(program))
        return pp_verify_fail(v, "program", 0, "the hash is not its own");
    return PPTO_OK;
}
