/* SPDX-License-Identifier: Apache-2.0
 * Scalar functions out of rank-0 flat graphs, and back.
 *
 * A value becomes an instruction where it is live. What only the cold side of a COLD needs is found by
 * dominance: a prim belongs to the region when all its users do. It becomes a function of its own whose
 * parameters are the values that cross the border; literals are copied. A region that would need too many
 * parameters is computed always. */
#include <stdio.h>
#include <string.h>

#include "graph/library_impl.h"

typedef struct build {
    pp_library *library;
    const pp_flat *flat;
    const uint8_t *param; /* of the whole function */
    const char *name;
    uint32_t n;      /* prims */
    uint8_t *live;   /* reached from an output */
    uint32_t *users; /* live users, outputs included */
} build;

/* One function under construction: the prims it computes and where they are. */
typedef struct body {
    build *b;
    const uint8_t *member;                   /* prims it may compute */
    uint8_t *inner;                          /* members that belong to a cold region instead */
    uint32_t *at;                            /* prim -> instruction, PP_NONE */
    const pp_function **cold;                /* COLD prim -> its function */
    uint32_t (*args)[PP_MAX_OPERANDS_BUILT]; /* COLD prim -> its operands */
    PP_VEC(pp_instr) code;
    PP_VEC(uint32_t) operands;
    PP_VEC(uint64_t) consts;
    PP_VEC(pp_table) tables;
    PP_VEC(const pp_function *) callees;
} body;

static ppto_status make_function(build *b, const uint8_t *member, const uint32_t *params,
                                 const uint8_t *dtypes, unsigned n_params, const uint32_t *outputs,
                                 unsigned n_outputs, const char *name, const pp_function **out);

static ppto_status push_instr(body *f, pp_instr instr, uint32_t *at)
{
    *at = (uint32_t)f->code.n;
    return pp_vec_push(&f->code, instr);
}

static ppto_status push_const(body *f, uint32_t prim)
{
    const pp_prim *p = pp_flat_prim(f->b->flat, prim);
    uint32_t k = 0;
    while (k < f->consts.n && f->consts.at[k] != p->u.bits) k++;
    if (k == f->consts.n) PP_TRY(pp_vec_push(&f->consts, p->u.bits));
    pp_instr instr = {.op = PP_CONST, .dtype = pp_flat_type(f->b->flat, prim)->dtype, .imm = k};
    return push_instr(f, instr, &f->at[prim]);
}

/* The instruction of an operand; literals are made on demand. */
static ppto_status operand_of(body *f, uint32_t prim, uint32_t *at)
{
    if (f->at[prim] == PP_NONE && pp_flat_prim(f->b->flat, prim)->kind == PP_P_LITERAL)
        PP_TRY(push_const(f, prim));
    *at = f->at[prim];
    return *at != PP_NONE ? PPTO_OK : PPTO_E_INTERNAL;
}

static ppto_status callee_of(body *f, const pp_function *function, uint32_t *imm)
{
    uint32_t k = 0;
    while (k < f->callees.n && f->callees.at[k] != function) k++;
    if (k == f->callees.n) PP_TRY(pp_vec_push(&f->callees, function));
    *imm = k;
    return PPTO_OK;
}

static ppto_status push_operands(body *f, const uint32_t *prims, unsigned n, uint32_t *first)
{
    uint32_t at[PP_MAX_OPERANDS_BUILT];
    for (unsigned i = 0; i < n; i++) PP_TRY(operand_of(f, prims[i], &at[i]));
    *first = (uint32_t)f->operands.n;
    for (unsigned i = 0; i < n; i++) PP_TRY(pp_vec_push(&f->operands, at[i]));
    return PPTO_OK;
}

static ppto_status emit_map(body *f, uint32_t id)
{
    const pp_prim *p = pp_flat_prim(f->b->flat, id);
    const uint32_t *x = pp_flat_operands(f->b->flat, id);
    pp_instr instr = {.op = p->op, .dtype = pp_flat_type(f->b->flat, id)->dtype};
    if (p->op == PP_CALL) {
        PP_TRY(callee_of(f, p->u.function, &instr.imm));
        PP_TRY(push_operands(f, x, p->n_operands, &instr.a));
        instr.b = p->n_operands;
        return push_instr(f, instr, &f->at[id]);
    }
    uint32_t *field[3] = {&instr.a, &instr.b, &instr.c};
    for (unsigned i = 0; i < p->n_operands; i++) PP_TRY(operand_of(f, x[i], field[i]));
    bool same = p->weak_cast && f->code.at[instr.a].dtype == instr.dtype;
    if (same) { /* the parameter has that dtype already */
        f->at[id] = instr.a;
        return PPTO_OK;
    }
    return push_instr(f, instr, &f->at[id]);
}

static ppto_status emit_cold(body *f, uint32_t id)
{
    const uint32_t *x = pp_flat_operands(f->b->flat, id);
    pp_instr instr = {.op = PP_COLD, .dtype = pp_flat_type(f->b->flat, id)->dtype};
    PP_TRY(operand_of(f, x[0], &instr.a));
    PP_TRY(operand_of(f, x[1], &instr.b));
    if (f->cold[id] == NULL) {
        instr.op = PP_SELECT;
        instr.c = instr.b;
        PP_TRY(operand_of(f, x[2], &instr.b));
        return push_instr(f, instr, &f->at[id]);
    }
    PP_TRY(callee_of(f, f->cold[id], &instr.imm));
    PP_TRY(push_operands(f, f->args[id], f->cold[id]->n_params, &instr.c));
    return push_instr(f, instr, &f->at[id]);
}

static ppto_status emit_prim(body *f, uint32_t id)
{
    const pp_prim *p = pp_flat_prim(f->b->flat, id);
    switch (p->kind) {
    case PP_P_LITERAL: return PPTO_OK;
    case PP_P_MAP: return emit_map(f, id);
    case PP_P_COLD: return emit_cold(f, id);
    case PP_P_TABLE: {
        pp_instr instr = {.op = PP_TABLE, .dtype = p->u.table->dtype, .imm = (uint32_t)f->tables.n};
        PP_TRY(pp_vec_push(&f->tables, *p->u.table));
        PP_TRY(operand_of(f, pp_flat_operands(f->b->flat, id)[0], &instr.a));
        return push_instr(f, instr, &f->at[id]);
    }
    default: return f->at[id] != PP_NONE ? PPTO_OK : PPTO_E_UNSUPPORTED;
    }
}

/* ---- cold regions ------------------------------------------------------------------------------------ */

/* region: the members whose users all lie in it, from the cold value of COLD `id` down; false when there is
 * none. */
static bool find_region(body *f, uint32_t id, uint8_t *region, uint32_t *inside)
{
    const build *b = f->b;
    uint32_t cold = pp_flat_operands(b->flat, id)[2];
    memset(region, 0, b->n);
    memset(inside, 0, b->n * sizeof *inside);
    inside[cold] = 1;
    for (uint32_t p = cold + 1; p-- > 0;) {
        const pp_prim *prim = pp_flat_prim(b->flat, p);
        bool computed = prim->kind == PP_P_MAP || prim->kind == PP_P_COLD || prim->kind == PP_P_TABLE;
        if (!computed || !f->member[p] || f->at[p] != PP_NONE || inside[p] == 0 || inside[p] != b->users[p])
            continue;
        region[p] = 1;
        for (uint32_t i = 0; i < prim->n_operands; i++) inside[pp_flat_operands(b->flat, p)[i]]++;
    }
    return region[cold] != 0;
}

/* Values the region reads from outside; false when they are none or too many. */
static bool find_free(const body *f, const uint8_t *region, uint32_t *free_values, uint8_t *dtypes,
                      unsigned *n)
{
    const build *b = f->b;
    *n = 0;
    for (uint32_t p = 0; p < b->n; p++) {
        if (!region[p]) continue;
        for (uint32_t i = 0; i < pp_flat_prim(b->flat, p)->n_operands; i++) {
            uint32_t x = pp_flat_operands(b->flat, p)[i];
            unsigned k = 0;
            if (region[x] || pp_flat_prim(b->flat, x)->kind == PP_P_LITERAL) continue;
            while (k < *n && free_values[k] != x) k++;
            if (k < *n) continue;
            if (*n == PP_MAX_OPERANDS_BUILT) return false;
            free_values[(*n)++] = x;
        }
    }
    for (unsigned k = 0; k < *n; k++) {
        const pp_prim *p = pp_flat_prim(b->flat, free_values[k]);
        dtypes[k] =
            p->kind == PP_P_INPUT ? b->param[p->number] : pp_flat_type(b->flat, free_values[k])->dtype;
    }
    return *n != 0;
}

/* A region of one call is that call. */
static const pp_function *single_call(const build *b, const uint8_t *region, uint32_t cold)
{
    const pp_prim *p = pp_flat_prim(b->flat, cold);
    for (uint32_t i = 0; i < cold; i++)
        if (region[i]) return NULL;
    return p->kind == PP_P_MAP && p->op == PP_CALL ? p->u.function : NULL;
}

static ppto_status plan_cold(body *f, uint32_t id, uint8_t *region, uint32_t *inside)
{
    build *b = f->b;
    uint32_t cold = pp_flat_operands(b->flat, id)[2];
    uint8_t dtypes[PP_MAX_OPERANDS_BUILT];
    unsigned n = 0;
    if (!find_region(f, id, region, inside) || !find_free(f, region, f->args[id], dtypes, &n)) return PPTO_OK;
    const pp_function *call = single_call(b, region, cold);
    if (call != NULL && call->n_params <= PP_MAX_OPERANDS_BUILT) {
        memcpy(f->args[id], pp_flat_operands(b->flat, cold), call->n_params * sizeof f->args[id][0]);
        f->cold[id] = call;
    } else {
        char name[96];
        snprintf(name, sizeof name, "%.80s_cold", b->name);
        uint8_t *copy = pp_alloc(b->n + 1);
        if (copy == NULL) return PPTO_E_NOMEM;
        memcpy(copy, region, b->n);
        ppto_status status = make_function(b, copy, f->args[id], dtypes, n, &cold, 1, name, &f->cold[id]);
        pp_free(copy);
        PP_TRY(status);
    }
    for (uint32_t p = 0; p <= cold; p++) f->inner[p] |= region[p];
    return PPTO_OK;
}

static ppto_status plan_colds(body *f)
{
    build *b = f->b;
    uint8_t *region = pp_alloc(b->n + 1);
    uint32_t *inside = pp_alloc((b->n + 1) * sizeof *inside);
    ppto_status status = region != NULL && inside != NULL ? PPTO_OK : PPTO_E_NOMEM;
    for (uint32_t id = b->n; id-- > 0 && status == PPTO_OK;)
        if (f->member[id] && !f->inner[id] && pp_flat_prim(b->flat, id)->kind == PP_P_COLD)
            status = plan_cold(f, id, region, inside);
    pp_free(region);
    pp_free(inside);
    return status;
}

/* ---- whole functions --------------------------------------------------------------------------------- */

static ppto_status finish_function(body *f, const uint8_t *dtypes, unsigned n_params, const uint32_t *outputs,
                                   unsigned n_outputs, const char *name, const pp_function **out)
{
    pp_function function = {.name = name, .n_params = (uint8_t)n_params, .n_results = (uint8_t)n_outputs};
    if (n_params != 0) memcpy(function.param, dtypes, n_params);
    for (unsigned i = 0; i < n_outputs; i++) PP_TRY(operand_of(f, outputs[i], &function.result[i]));
    function.code = f->code.at;
    function.n_code = (uint32_t)f->code.n;
    function.operands = f->operands.at;
    function.n_operands = (uint32_t)f->operands.n;
    function.consts = f->consts.at;
    function.n_consts = (uint32_t)f->consts.n;
    function.tables = f->tables.at;
    function.n_tables = (uint32_t)f->tables.n;
    function.callees = f->callees.at;
    function.n_callees = (uint32_t)f->callees.n;
    function.hash = pp_function_hash(&function);
    return pp_library_function(f->b->library, &function, out);
}

static ppto_status fill_function(body *f, const uint32_t *params, const uint8_t *dtypes, unsigned n_params)
{
    build *b = f->b;
    for (uint32_t i = 0; i < b->n; i++) f->at[i] = PP_NONE;
    for (unsigned i = 0; i < n_params; i++) {
        uint32_t at;
        PP_TRY(push_instr(f, (pp_instr){.op = PP_PARAM, .dtype = dtypes[i], .imm = i}, &at));
        if (params[i] != PP_NONE) f->at[params[i]] = at;
    }
    PP_TRY(plan_colds(f));
    for (uint32_t id = 0; id < b->n; id++)
        if (f->member[id] && !f->inner[id] && f->at[id] == PP_NONE) PP_TRY(emit_prim(f, id));
    return PPTO_OK;
}

static ppto_status make_function(build *b, const uint8_t *member, const uint32_t *params,
                                 const uint8_t *dtypes, unsigned n_params, const uint32_t *outputs,
                                 unsigned n_outputs, const char *name, const pp_function **out)
{
    body f = {.b = b, .member = member};
    f.inner = pp_calloc(b->n + 1, 1);
    f.at = pp_calloc(b->n + 1, sizeof *f.at);
    f.cold = pp_calloc(b->n + 1, sizeof *f.cold);
    f.args = pp_calloc(b->n + 1, sizeof *f.args);
    ppto_status status = f.inner && f.at && f.cold && f.args ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) status = fill_function(&f, params, dtypes, n_params);
    if (status == PPTO_OK) status = finish_function(&f, dtypes, n_params, outputs, n_outputs, name, out);
    pp_free(f.inner);
    pp_free(f.at);
    pp_free(f.cold);
    pp_free(f.args);
    pp_vec_free(&f.code);
    pp_vec_free(&f.operands);
    pp_vec_free(&f.consts);
    pp_vec_free(&f.tables);
    pp_vec_free(&f.callees);
    return status;
}

static void mark_live(build *b, const uint32_t *outputs, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        b->live[outputs[i]] = 1;
        b->users[outputs[i]]++;
    }
    for (uint32_t id = b->n; id-- > 0;) {
        if (!b->live[id]) continue;
        for (uint32_t i = 0; i < pp_flat_prim(b->flat, id)->n_operands; i++) {
            uint32_t x = pp_flat_operands(b->flat, id)[i];
            b->live[x] = 1;
            b->users[x]++;
        }
    }
}

ppto_status pp_function_build(pp_library *library, const pp_flat *flat, const uint32_t *outputs,
                              unsigned n_outputs, const uint8_t *param, const uint8_t *inputs,
                              unsigned n_params, const char *name, const pp_function **out)
{
    build b = {.library = library, .flat = flat, .param = param, .name = name, .n = (uint32_t)flat->prims.n};
    uint32_t params[PP_MAX_OPERANDS_BUILT];
    uint8_t dtypes[PP_MAX_OPERANDS_BUILT];
    if (n_params > PP_MAX_OPERANDS_BUILT || n_outputs > 4) return PPTO_E_UNSUPPORTED;
    for (unsigned i = 0; i < n_params; i++) {
        uint32_t number = inputs != NULL ? inputs[i] : i;
        dtypes[i] = param[number];
        params[i] = PP_NONE;
        for (uint32_t id = 0; id < b.n; id++)
            if (pp_flat_prim(flat, id)->kind == PP_P_INPUT && pp_flat_prim(flat, id)->number == number)
                params[i] = id;
    }
    b.live = pp_calloc(b.n + 1, 1);
    b.users = pp_calloc(b.n + 1, sizeof *b.users);
    ppto_status status = b.live && b.users ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) {
        mark_live(&b, outputs, n_outputs);
        status = make_function(&b, b.live, params, dtypes, n_params, outputs, n_outputs, name, out);
    }
    pp_free(b.live);
    pp_free(b.users);
    return status;
}

/* ---- back into prims --------------------------------------------------------------------------------- */

unsigned pp_function_weight(const pp_function *function, bool *large)
{
    unsigned weight = 0;
    *large = false;
    for (uint32_t i = 0; i < function->n_code; i++) {
        uint8_t op = function->code[i].op;
        weight += op != PP_PARAM && op != PP_CONST;
        *large = *large || op == PP_CALL || op == PP_COLD || op == PP_TABLE;
    }
    return weight;
}

static ppto_status replay_instr(pp_flat *flat, const pp_function *function, const pp_instr *instr,
                                const uint32_t *at, const pp_type *shape, uint32_t *id)
{
    uint32_t x[PP_MAX_OPERANDS_BUILT] = {0};
    if (instr->op == PP_CONST) {
        PP_TRY(pp_flat_literal(flat, (ppto_dtype)instr->dtype, false, function->consts[instr->imm], id));
        return pp_flat_broadcast(flat, *id, shape->rank, shape->dim, id);
    }
    if (instr->op == PP_CALL) {
        for (uint32_t i = 0; i < instr->b; i++) x[i] = at[function->operands[instr->a + i]];
        return pp_flat_call(flat, function->callees[instr->imm], x, instr->b, id);
    }
    if (instr->op >= PP_SCALAR_COUNT) return PPTO_E_INTERNAL;
    unsigned n = pp_scalar_find((pp_op)instr->op)->arity;
    const uint32_t field[3] = {instr->a, instr->b, instr->c};
    for (unsigned i = 0; i < n; i++) x[i] = at[field[i]];
    return pp_flat_map(flat, (pp_op)instr->op, (ppto_dtype)instr->dtype, x, n, id);
}

ppto_status pp_function_replay(pp_flat *flat, const pp_function *function, const uint32_t *x, uint32_t *out)
{
    uint32_t *at = pp_alloc((function->n_code + 1) * sizeof *at);
    if (at == NULL) return PPTO_E_NOMEM;
    pp_type shape = {0};
    ppto_status status = PPTO_OK;
    if (function->n_params != 0) shape = *pp_flat_type(flat, x[0]);
    for (uint32_t i = 0; i < function->n_code && status == PPTO_OK; i++) {
        const pp_instr *instr = &function->code[i];
        if (instr->op == PP_PARAM)
            at[i] = x[instr->imm];
        else
            status = replay_instr(flat, function, instr, at, &shape, &at[i]);
    }
    for (unsigned i = 0; i < function->n_results && status == PPTO_OK; i++) out[i] = at[function->result[i]];
    pp_free(at);
    return status;
}
