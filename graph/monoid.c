/* SPDX-License-Identifier: Apache-2.0
 * Folds as monoids of scalar functions: lift, step, join and finish of a definition for given dtypes, and the
 * variants a reduction in two steps needs: `unfinished` gives states, `joined` takes them, `placed` takes the
 * position as an operand (so that lanes inside rows know their place in the whole). */
#include <stdio.h>
#include <string.h>

#include "graph/library_impl.h"
#include "kernel/function_eval.h"

typedef struct part_build {
    pp_library *library;
    const pp_definition *definition;
    const pp_value *bound; /* of the definition, in the scratch table */
    pp_flat flat;
    pp_arena arena;
    pp_eval ev;
    uint8_t param[PP_MAX_OPERANDS_BUILT];
    unsigned n_params;
} part_build;

static void open_part(part_build *b, const pp_eval *from, const pp_definition *d, const pp_value *bound)
{
    pp_library *library = from->library;
    *b = (part_build){.library = library, .definition = d, .bound = bound};
    pp_flat_init(&b->flat, pp_library_scratch(library));
    b->ev = (pp_eval){.mode = PP_EVAL_FUNCTION,
                      .library = library,
                      .types = b->flat.types,
                      .flat = &b->flat,
                      .sizes = pp_types_sizes(b->flat.types),
                      .arena = &b->arena,
                      .definition = d,
                      .err = from->err,
                      .called_as = from->called_as};
}

static void close_part(part_build *b)
{
    pp_eval_free(&b->ev);
    pp_flat_free(&b->flat);
    pp_arena_free(&b->arena);
}

static ppto_status formal(part_build *b, uint8_t dtype, pp_value *out)
{
    pp_type type = {.dtype = dtype};
    pp_prim p = {.kind = PP_P_INPUT, .number = b->n_params, .origin = PP_NONE};
    uint32_t id;
    if (b->n_params == PP_MAX_OPERANDS_BUILT) return PPTO_E_LIMIT;
    PP_TRY(pp_type_intern(b->flat.types, &type, &p.type));
    PP_TRY(pp_flat_add(&b->flat, &p, NULL, 0, &id));
    b->param[b->n_params++] = dtype;
    *out = pp_value_tensor(id);
    return PPTO_OK;
}

/* Parameters that are no elements: known in every part. */
static ppto_status set_fixed(part_build *b)
{
    const pp_definition *d = b->definition;
    for (size_t i = 0; i < d->n_params; i++)
        if (!pp_param_is_tensor(&d->param[i])) PP_TRY(pp_eval_set(&b->ev, d->param[i].name, &b->bound[i]));
    return PPTO_OK;
}

/* The state as its name in the part: itself, or a tuple with fields. */
static ppto_status set_state(part_build *b, const pp_monoid *m, const char *name)
{
    pp_value *items;
    PP_TRY(pp_eval_items(&b->ev, m->n_states, &items));
    for (unsigned i = 0; i < m->n_states; i++) PP_TRY(formal(b, m->state[i], &items[i]));
    pp_value tuple = {.kind = PP_V_TUPLE, .n = m->n_states, .u.items = items};
    return pp_eval_set(&b->ev, name, m->n_states == 1 ? &items[0] : &tuple);
}

/* The elements under the names of the part, or of the definition where names is NULL; then the position. */
static ppto_status set_elements(part_build *b, const pp_monoid *m, const uint8_t *input,
                                const pp_fold_part *part, unsigned first_name, bool own_names)
{
    const pp_definition *d = b->definition;
    pp_value value = {0};
    unsigned k = 0;
    for (size_t i = 0; i < d->n_params; i++) {
        if (!pp_param_is_tensor(&d->param[i])) continue;
        const char *name =
            own_names ? (first_name + k < part->n_args ? part->arg[first_name + k] : NULL) : d->param[i].name;
        PP_TRY(formal(b, input[k++], &value));
        if (name != NULL) PP_TRY(pp_eval_set(&b->ev, name, &value));
    }
    if (!m->position) return PPTO_OK;
    PP_TRY(formal(b, PPTO_I64, &value));
    unsigned at = own_names ? first_name + k : 0;
    return at < part->n_args ? pp_eval_set(&b->ev, part->arg[at], &value) : PPTO_OK;
}

/* Evaluates the part; values[*n] are its results. */
static ppto_status run_part(part_build *b, const pp_fold_part *part, const pp_value **values, unsigned *n)
{
    pp_value out = {0}, *one;
    bool valued;
    PP_TRY(pp_eval_block(&b->ev, part->body, &valued, &out));
    if (!valued) return pp_eval_fail(&b->ev, PPTO_E_INTERNAL, "a part of a fold has no value");
    if (pp_value_is_list(&out)) {
        *values = out.u.items;
        *n = out.n;
        return PPTO_OK;
    }
    PP_TRY(pp_eval_items(&b->ev, 1, &one));
    *one = out;
    *values = one;
    *n = 1;
    return PPTO_OK;
}

static ppto_status finish_part(part_build *b, const char *what, const pp_value *values, unsigned n,
                               const uint8_t *dtypes, const pp_function **out)
{
    uint32_t outputs[4];
    char name[96];
    const char *base = b->definition->name;
    while (*base == '_') base++;
    for (unsigned i = 0; i < n; i++)
        PP_TRY(pp_eval_adopt(&b->ev, &values[i], (ppto_dtype)dtypes[i], false, &outputs[i]));
    snprintf(name, sizeof name, "%.60s_%s_%s", base, what, ppto_dtype_name((ppto_dtype)b->param[0]));
    return pp_function_build(b->library, &b->flat, outputs, n, b->param, NULL, b->n_params, name, out);
}

static ppto_status states_expected(part_build *b, const char *what, unsigned n, unsigned wanted)
{
    if (n == wanted) return PPTO_OK;
    return pp_eval_fail(&b->ev, PPTO_E_VALUE, "%s of the fold `%.60s` has %u values for %u states", what,
                        b->definition->name, n, wanted);
}

typedef enum which { LIFT, STEP, JOIN } which;

static ppto_status make_part(part_build *b, const pp_monoid *m, const uint8_t *input, which w,
                             const pp_function **out)
{
    static const char *const names[] = {"lift", "step", "join"};
    const pp_definition *d = b->definition;
    const pp_fold_part *part = w == LIFT ? &d->lift : w == STEP ? &d->step : &d->join;
    const pp_value *values;
    unsigned n;
    PP_TRY(set_fixed(b));
    if (w != LIFT) PP_TRY(set_state(b, m, part->arg[0]));
    if (w == JOIN)
        PP_TRY(set_state(b, m, part->arg[1]));
    else
        PP_TRY(set_elements(b, m, input, part, w == STEP ? 1 : 0, w == STEP));
    PP_TRY(run_part(b, part, &values, &n));
    PP_TRY(states_expected(b, names[w], n, m->n_states));
    return finish_part(b, names[w], values, n, m->state, out);
}

static ppto_status make_finish(part_build *b, pp_monoid *m)
{
    const pp_value *values;
    unsigned n;
    PP_TRY(set_fixed(b));
    PP_TRY(set_state(b, m, b->definition->finish.arg[0]));
    PP_TRY(run_part(b, &b->definition->finish, &values, &n));
    if (n == 0 || n > 4) return pp_eval_fail(&b->ev, PPTO_E_VALUE, "a fold has one to four results");
    m->n_results = (uint8_t)n;
    for (unsigned i = 0; i < n; i++) {
        const pp_type *type = pp_eval_type(&b->ev, &values[i]);
        if (type == NULL) return pp_eval_fail(&b->ev, PPTO_E_VALUE, "finish gives numbers");
        m->result[i] = type->weak ? m->state[0] : type->dtype;
    }
    return finish_part(b, "finish", values, n, m->result, &m->finish);
}

/* The results of an empty axis: finish of the unit. */
static ppto_status make_unit(part_build *b, pp_monoid *m, uint64_t *states)
{
    const pp_definition *d = b->definition;
    pp_value unit = {0};
    PP_TRY(set_fixed(b));
    PP_TRY(pp_eval_expr(&b->ev, d->unit, &unit));
    const pp_value *values = pp_value_is_list(&unit) ? unit.u.items : &unit;
    unsigned n = pp_value_is_list(&unit) ? unit.n : 1;
    PP_TRY(states_expected(b, "unit", n, m->n_states));
    for (unsigned i = 0; i < n; i++)
        PP_TRY(pp_eval_bits(&b->ev, &values[i], (ppto_dtype)m->state[i], &states[i]));
    m->has_unit = true;
    if (m->finish != NULL) return pp_function_eval(m->finish, states, m->unit);
    memcpy(m->unit, states, m->n_states * sizeof *states);
    return PPTO_OK;
}

static uint8_t accumulator(uint8_t dtype)
{
    switch (pp_dtype_kind((ppto_dtype)dtype)) {
    case PP_KIND_FLOAT: return dtype;
    case PP_KIND_UINT: return PPTO_U64;
    default: return PPTO_I64;
    }
}

static void state_dtypes(const pp_definition *d, uint8_t input, pp_monoid *m)
{
    m->n_states = d->n_states;
    for (unsigned i = 0; i < d->n_states; i++)
        m->state[i] = d->state[i].type == 0   ? input
                      : d->state[i].type == 1 ? accumulator(input)
                                              : d->state[i].dtype;
}

/* ---- the whole ------------------------------------------------------------------------------------- */

typedef struct fold_build {
    const pp_eval *from;
    pp_library *library;
    const pp_definition *definition;
    const pp_value *bound;
    uint8_t input[4];
    pp_monoid m;
    uint64_t unit_states[4];
} fold_build;

static ppto_status build_part(fold_build *f, which w, const pp_function **out)
{
    part_build b;
    open_part(&b, f->from, f->definition, f->bound);
    ppto_status status = make_part(&b, &f->m, f->input, w, out);
    close_part(&b);
    return status;
}

static ppto_status build_end(fold_build *f, bool unit)
{
    part_build b;
    open_part(&b, f->from, f->definition, f->bound);
    ppto_status status = unit ? make_unit(&b, &f->m, f->unit_states) : make_finish(&b, &f->m);
    close_part(&b);
    return status;
}

static ppto_status build_parts(fold_build *f)
{
    const pp_definition *d = f->definition;
    pp_monoid *m = &f->m;
    m->ordered = d->ordered;
    m->position = d->lift.n_args != 0;
    state_dtypes(d, f->input[0], m);
    PP_TRY(build_part(f, LIFT, &m->lift));
    if (d->step.body != NULL) PP_TRY(build_part(f, STEP, &m->step));
    PP_TRY(build_part(f, JOIN, &m->join));
    m->n_results = m->n_states;
    memcpy(m->result, m->state, sizeof m->state);
    if (d->finish.body != NULL) PP_TRY(build_end(f, false));
    return d->unit != NULL ? build_end(f, true) : PPTO_OK;
}

static ppto_status intern_variants(fold_build *f, pp_built_fold *out)
{
    const pp_monoid *m = &f->m;
    pp_monoid unfinished = *m, joined = *m;
    PP_TRY(pp_library_monoid(f->library, m, &out->monoid));
    unfinished.finish = NULL;
    unfinished.n_results = m->n_states;
    memcpy(unfinished.result, m->state, sizeof m->state);
    memcpy(unfinished.unit, f->unit_states, sizeof f->unit_states);
    PP_TRY(pp_library_monoid(f->library, &unfinished, &out->unfinished));
    joined.lift = joined.step = NULL;
    joined.joined = true;
    joined.position = false;
    joined.n_inputs = m->n_states;
    PP_TRY(pp_library_monoid(f->library, &joined, &out->joined));
    out->placed = NULL;
    if (!m->position || m->n_inputs == 4) return PPTO_OK;
    unfinished.position = false;
    unfinished.n_inputs++;
    return pp_library_monoid(f->library, &unfinished, &out->placed);
}

/* Values of parameters without symbolic sizes mean the same in every table of sizes but for the ids of
 * constants. */
static ppto_status import_fixed(const pp_eval *ev, const pp_definition *d, pp_eval *scratch,
                                const pp_value *bound, pp_value *own)
{
    for (size_t i = 0; i < d->n_params; i++) {
        int64_t known;
        own[i] = bound[i];
        if (pp_param_is_tensor(&d->param[i])) continue;
        if (bound[i].kind == PP_V_INT) {
            if (!pp_size_known(ev->sizes, bound[i].u.size, &known)) return PPTO_E_UNSUPPORTED;
            own[i] = pp_eval_number(scratch, known);
        } else if (pp_value_is_list(&bound[i])) {
            return PPTO_E_UNSUPPORTED;
        }
    }
    return PPTO_OK;
}

static ppto_status fold_key(const pp_eval *ev, const pp_definition *d, const pp_value *bound, fold_build *f,
                            pp_key *key)
{
    PP_TRY(pp_vec_push(key, (uint64_t)(uintptr_t)d));
    for (size_t i = 0; i < d->n_params; i++) {
        if (!pp_param_is_tensor(&d->param[i])) {
            PP_TRY(pp_value_key(ev->sizes, &bound[i], false, key));
            continue;
        }
        if (f->m.n_inputs == 4) return PPTO_E_LIMIT;
        f->input[f->m.n_inputs++] = pp_eval_type(ev, &bound[i])->dtype;
        PP_TRY(pp_vec_push(key, UINT64_C(1) << 60 | f->input[f->m.n_inputs - 1]));
    }
    return f->m.n_inputs != 0 ? PPTO_OK : PPTO_E_VALUE;
}

ppto_status pp_library_built_fold(pp_eval *ev, const pp_definition *d, const pp_value *bound,
                                  pp_built_fold *out)
{
    pp_key key = {0};
    pp_value own[PP_MAX_BOUND];
    fold_build f = {.from = ev, .library = ev->library, .definition = d, .bound = own};
    const char *name = d->name;
    while (*name == '_') name++;
    f.m.name = name;
    pp_library_lock(ev->library);
    pp_eval scratch = {.sizes = pp_types_sizes(pp_library_scratch(ev->library))};
    ppto_status status = fold_key(ev, d, bound, &f, &key);
    const pp_built_fold *found = status == PPTO_OK ? pp_library_memo_find(ev->library, &key) : NULL;
    if (found != NULL) {
        *out = *found;
    } else if (status == PPTO_OK) {
        status = import_fixed(ev, d, &scratch, bound, own);
        if (status == PPTO_OK) status = build_parts(&f);
        if (status == PPTO_OK) status = intern_variants(&f, out);
        status = pp_library_scratched(ev->library, status);
        if (status == PPTO_OK) status = pp_library_memo_add(ev->library, &key, out, sizeof *out);
    }
    pp_library_unlock(ev->library);
    pp_vec_free(&key);
    return status;
}

/* ---- the fold of a dot product ----------------------------------------------------------------------- */

/* A function of one row: operands by number, 3 standing for the constant 0. */
static ppto_status one_row(pp_library *library, pp_op op, ppto_dtype dtype, unsigned n_params,
                           const uint8_t *operand, const char *name, const pp_function **out)
{
    pp_instr code[5] = {{0}};
    const uint64_t zero = 0;
    uint32_t n = 0, at[4] = {0};
    pp_function function = {.name = name, .n_params = (uint8_t)n_params, .n_results = 1};
    for (unsigned i = 0; i < n_params; i++) {
        function.param[i] = (uint8_t)dtype;
        at[i] = n;
        code[n++] = (pp_instr){.op = PP_PARAM, .dtype = (uint8_t)dtype, .imm = i};
    }
    at[3] = n;
    code[n++] = (pp_instr){.op = PP_CONST, .dtype = (uint8_t)dtype};
    code[n] =
        (pp_instr){.op = (uint8_t)op, .dtype = (uint8_t)dtype, .a = at[operand[0]], .b = at[operand[1]]};
    if (pp_scalar_find(op)->arity == 3) code[n].c = at[operand[2]];
    function.result[0] = n++;
    function.code = code;
    function.n_code = n;
    function.consts = &zero;
    function.n_consts = 1;
    function.hash = pp_function_hash(&function);
    return pp_library_function(library, &function, out);
}

ppto_status pp_library_dot(pp_library *library, ppto_dtype dtype, const pp_monoid **out)
{
    static const uint8_t lift[] = {0, 1, 3}, step[] = {1, 2, 0}, join[] = {0, 1, 0}, finish[] = {0, 3, 0};
    pp_monoid m = {.name = "dot", .n_states = 1, .n_inputs = 2, .n_results = 1, .has_unit = true};
    m.state[0] = m.result[0] = (uint8_t)dtype;
    PP_TRY(one_row(library, PP_FMA, dtype, 2, lift, "dot_lift", &m.lift));
    PP_TRY(one_row(library, PP_FMA, dtype, 3, step, "dot_step", &m.step));
    PP_TRY(one_row(library, PP_ADD, dtype, 2, join, "dot_join", &m.join));
    PP_TRY(one_row(library, PP_ADD, dtype, 1, finish, "dot_finish", &m.finish));
    return pp_library_monoid(library, &m, out);
}
