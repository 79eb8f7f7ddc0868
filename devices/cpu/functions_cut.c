/* SPDX-License-Identifier: Apache-2.0
 * Inlining of calls and the cutting of a function into loops.
 *
 * Compilers turn a look-up inside a vectorised loop into slow gathers and do not vectorise a call; so a
 * look-up or a cold region stands between two loops. A value's place is the latest place where its operands
 * become available. What a later loop needs is stored, unless a few operations on parameters give it again:
 * arrays cost a store and a load. */
#include "devices/cpu/functions_cut.h"

enum { CHEAP = 3, COSTLY = 1000, MAX_DEPTH = 64 };

/* ---- inlining ------------------------------------------------------------------------------------------ */

static ppto_status push_operands(pp_cut *cut, const uint32_t *operand, unsigned n, const uint32_t *map,
                                 uint32_t *first)
{
    *first = (uint32_t)cut->operands.n;
    for (unsigned i = 0; i < n; i++) PP_TRY(pp_vec_push(&cut->operands, map[operand[i]]));
    return PPTO_OK;
}

/* Copies one instruction that is no call and no parameter of an inlined callee. */
static ppto_status push_instr(pp_cut *cut, const pp_pools *pools, const pp_instr *instr, const uint32_t *map)
{
    pp_instr copy = *instr;
    const unsigned direct = pp_instr_direct((pp_op)instr->op);
    uint32_t *const field[3] = {&copy.a, &copy.b, &copy.c};
    for (unsigned i = 0; i < direct; i++) *field[i] = map[*field[i]];
    if (instr->op == PP_CONST) {
        copy.imm = (uint32_t)cut->consts.n;
        PP_TRY(pp_vec_push(&cut->consts, pools->consts[instr->imm]));
    } else if (instr->op == PP_TABLE) {
        copy.imm = (uint32_t)cut->tables.n;
        PP_TRY(pp_vec_push(&cut->tables, pools->tables[instr->imm]));
        cut->has_table = true;
    } else if (instr->op == PP_COLD) {
        const pp_function *callee = pools->callees[instr->imm];
        copy.imm = (uint32_t)cut->callees.n;
        PP_TRY(pp_vec_push(&cut->callees, callee));
        PP_TRY(push_operands(cut, pools->operands + instr->c, callee->n_params, map, &copy.c));
        cut->has_cold = true;
    }
    return pp_vec_push(&cut->code, copy);
}

static ppto_status inline_code(pp_cut *cut, const pp_function *function, const uint32_t *args,
                               uint32_t *results, unsigned depth)
{
    const pp_pools pools = pp_function_pools(function);
    if (depth > MAX_DEPTH) return PPTO_E_UNSUPPORTED;
    uint32_t *map = pp_calloc(pools.n_code + 1u, sizeof *map);
    if (map == NULL) return PPTO_E_NOMEM;
    ppto_status status = PPTO_OK;
    for (uint32_t i = 0; i < pools.n_code && status == PPTO_OK; i++) {
        const pp_instr *instr = &pools.code[i];
        if (instr->op == PP_PARAM && args != NULL) {
            map[i] = args[instr->imm];
        } else if (instr->op == PP_CALL) {
            uint32_t inner[12];
            for (uint32_t k = 0; k < instr->b; k++) inner[k] = map[pools.operands[instr->a + k]];
            status = inline_code(cut, pools.callees[instr->imm], inner, &map[i], depth + 1);
        } else {
            map[i] = (uint32_t)cut->code.n;
            status = push_instr(cut, &pools, instr, map);
        }
    }
    for (unsigned r = 0; r < function->n_results; r++) results[r] = map[function->result[r]];
    pp_free(map);
    return status;
}

/* ---- places -------------------------------------------------------------------------------------------- */

static void find_live(pp_cut *cut)
{
    for (unsigned r = 0; r < cut->function->n_results; r++) cut->live[cut->result[r]] = true;
    for (uint32_t i = cut->pools.n_code; i-- > 0;) {
        uint32_t operand[PP_MAX_OPERANDS];
        const unsigned n = cut->live[i] ? pp_instr_operands(&cut->pools, &cut->pools.code[i], operand) : 0;
        for (unsigned k = 0; k < n; k++) cut->live[operand[k]] = true;
    }
}

static bool is_cast_to_bits(const pp_pools *pools, const pp_instr *instr)
{
    return instr->op == PP_BITCAST && !pp_dtype_is_float((ppto_dtype)instr->dtype) &&
           pp_dtype_is_float((ppto_dtype)pools->code[instr->a].dtype);
}

/* A shift to the left leaves nothing of canonical NaN, which compilers make a masked shift of. */
static void find_hidden(pp_cut *cut)
{
    for (uint32_t i = 0; i < cut->pools.n_code; i++) {
        uint32_t operand[PP_MAX_OPERANDS];
        const pp_instr *instr = &cut->pools.code[i];
        if (!cut->live[i] || instr->op == PP_SHL) continue;
        const unsigned n = pp_instr_operands(&cut->pools, instr, operand);
        for (unsigned k = 0; k < n; k++)
            if (is_cast_to_bits(&cut->pools, &cut->pools.code[operand[k]]))
                cut->hidden[operand[k]] = cut->has_hidden = true;
    }
}

static void find_places(pp_cut *cut)
{
    for (uint32_t i = 0; i < cut->pools.n_code; i++) {
        const uint8_t op = cut->pools.code[i].op;
        uint32_t operand[PP_MAX_OPERANDS], place = 0;
        const unsigned n = pp_instr_operands(&cut->pools, &cut->pools.code[i], operand);
        for (unsigned k = 0; k < n; k++)
            if (cut->from[operand[k]] > place) place = cut->from[operand[k]];
        cut->place[i] = cut->from[i] = place;
        if (op == PP_TABLE) cut->from[i] = place + 1;
        if (op == PP_COLD) cut->from[i] = (place >> 16 << 16) + 0x10000;
        if (cut->live[i] && cut->from[i] > cut->last) cut->last = cut->from[i];
    }
}

bool pp_cut_index_is_stored(const pp_cut *cut, uint32_t index)
{
    const pp_instr *instr = &cut->pools.code[index];
    return instr->dtype == PPTO_U32 && instr->op != PP_PARAM && instr->op != PP_CONST;
}

/* Operations to compute a value again in a later loop, given that look-up indices lie in arrays anyway. */
static void find_costs(pp_cut *cut)
{
    for (uint32_t i = 0; i < cut->pools.n_code; i++) {
        const pp_instr *instr = &cut->pools.code[i];
        if (instr->op == PP_TABLE && cut->live[i] && pp_cut_index_is_stored(cut, instr->a)) {
            cut->stored[instr->a] = true;
            if (cut->pools.code[instr->a].op < PP_SCALAR_COUNT) cut->cost[instr->a] = 0;
        }
    }
    for (uint32_t i = 0; i < cut->pools.n_code; i++) {
        const uint8_t op = cut->pools.code[i].op;
        uint32_t operand[PP_MAX_OPERANDS], cost = 1;
        const unsigned n = pp_instr_operands(&cut->pools, &cut->pools.code[i], operand);
        for (unsigned k = 0; k < n; k++) cost += cut->cost[operand[k]];
        if (op == PP_TABLE || op == PP_COLD || cost > COSTLY) cost = COSTLY;
        if (op == PP_PARAM || op == PP_CONST || (cut->stored[i] && cost < COSTLY)) cost = 0;
        cut->cost[i] = cost;
    }
}

/* Backwards: the last place that reads a value decides whether it is stored, or computed there again, which
 * then reads its operands there. */
static void find_stored(pp_cut *cut)
{
    uint32_t *used = cut->used;
    for (unsigned r = 0; r < cut->function->n_results; r++) used[cut->result[r]] = cut->last;
    for (uint32_t i = cut->pools.n_code; i-- > 0;) {
        const uint8_t op = cut->pools.code[i].op;
        uint32_t operand[PP_MAX_OPERANDS], place = cut->place[i];
        if (!cut->live[i]) continue;
        if (op == PP_TABLE || op == PP_COLD || (place < used[i] && cut->cost[i] > CHEAP))
            cut->stored[i] = true;
        if (cut->stored[i])
            cut->wide[i] = op == PP_COLD || place >> 16 != used[i] >> 16;
        else if (place < used[i])
            place = used[i];
        const unsigned n = pp_instr_operands(&cut->pools, &cut->pools.code[i], operand);
        for (unsigned k = 0; k < n; k++)
            if (used[operand[k]] < place) used[operand[k]] = place;
    }
}

bool pp_cut_is_read(const pp_cut *cut, uint32_t at, uint32_t place)
{
    const uint8_t op = cut->pools.code[at].op;
    return op == PP_TABLE || op == PP_COLD || (cut->stored[at] && cut->place[at] < place);
}

void pp_cut_need(const pp_cut *cut, uint32_t place, bool *needed)
{
    for (uint32_t i = cut->pools.n_code; i-- > 0;) {
        uint32_t operand[PP_MAX_OPERANDS];
        if (!needed[i] || pp_cut_is_read(cut, i, place)) continue;
        const unsigned n = pp_instr_operands(&cut->pools, &cut->pools.code[i], operand);
        for (unsigned k = 0; k < n; k++) needed[operand[k]] = true;
    }
}

ppto_status pp_cut_build(const pp_function *function, pp_cut *cut)
{
    *cut = (pp_cut){.function = function};
    PP_TRY(inline_code(cut, function, NULL, cut->result, 0));
    cut->pools = (pp_pools){cut->code.at,
                            cut->operands.at,
                            cut->consts.at,
                            cut->tables.at,
                            cut->callees.at,
                            (uint32_t)cut->code.n,
                            (uint32_t)cut->operands.n,
                            (uint32_t)cut->consts.n,
                            (uint32_t)cut->tables.n,
                            (uint32_t)cut->callees.n};
    const size_t n = cut->code.n + 1;
    cut->place = pp_calloc(n, sizeof *cut->place);
    cut->from = pp_calloc(n, sizeof *cut->from);
    cut->cost = pp_calloc(n, sizeof *cut->cost);
    cut->used = pp_calloc(n, sizeof *cut->used);
    cut->live = pp_calloc(n, sizeof *cut->live);
    cut->stored = pp_calloc(n, sizeof *cut->stored);
    cut->wide = pp_calloc(n, sizeof *cut->wide);
    cut->hidden = pp_calloc(n, sizeof *cut->hidden);
    if (cut->place == NULL || cut->from == NULL || cut->cost == NULL || cut->used == NULL ||
        cut->live == NULL || cut->stored == NULL || cut->wide == NULL || cut->hidden == NULL)
        return PPTO_E_NOMEM;
    find_live(cut);
    find_hidden(cut);
    find_places(cut);
    find_costs(cut);
    find_stored(cut);
    return PPTO_OK;
}

void pp_cut_free(pp_cut *cut)
{
    pp_vec_free(&cut->code), pp_vec_free(&cut->operands), pp_vec_free(&cut->consts);
    pp_vec_free(&cut->tables), pp_vec_free(&cut->callees);
    pp_free(cut->place), pp_free(cut->from), pp_free(cut->cost), pp_free(cut->used);
    pp_free(cut->live), pp_free(cut->stored), pp_free(cut->wide), pp_free(cut->hidden);
}
