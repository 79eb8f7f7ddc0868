/* SPDX-License-Identifier: Apache-2.0
 * Copies are deep, since loops are compiled behind the back of those who asked: the program may be gone by
 * then, and the operators with it. Functions call functions, never themselves, and never deep: they come from
 * nested definitions. */
#include "devices/cpu/loop_copy.h"

#include <string.h>

#include "kernel/walk.h"

/* n elements in the arena; NULL without memory. */
#define KEEP(arena, array, n) pp_arena_copy((arena), (array), (n) * sizeof *(array))

static const pp_table *keep_tables(pp_arena *arena, const pp_table *tables, uint32_t n)
{
    pp_table *to = KEEP(arena, tables, n);
    for (uint32_t i = 0; to != NULL && i < n; i++) {
        to[i].bits = KEEP(arena, tables[i].bits, tables[i].length);
        if (to[i].bits == NULL) return NULL;
    }
    return to;
}

static const pp_function *keep_function(pp_arena *arena, const pp_function *function);

static const pp_function *const *keep_callees(pp_arena *arena, const pp_function *const *callees, uint32_t n)
{
    const pp_function **to = pp_arena_alloc(arena, (n + 1u) * sizeof *to);
    for (uint32_t i = 0; to != NULL && i < n; i++)
        if ((to[i] = keep_function(arena, callees[i])) == NULL) return NULL;
    return to;
}

static const pp_function *keep_function(pp_arena *arena, const pp_function *function)
{
    pp_function *to = KEEP(arena, function, 1);
    if (to == NULL) return NULL;
    to->name = function->name != NULL ? pp_arena_strndup(arena, function->name, strlen(function->name)) : "";
    to->code = KEEP(arena, function->code, function->n_code);
    to->operands = KEEP(arena, function->operands, function->n_operands);
    to->consts = KEEP(arena, function->consts, function->n_consts);
    to->tables = keep_tables(arena, function->tables, function->n_tables);
    to->callees = keep_callees(arena, function->callees, function->n_callees);
    const bool ok = to->name && to->code && to->operands && to->consts && to->tables && to->callees;
    return ok ? to : NULL;
}

/* A fold without some of its functions is a valid one. */
static const pp_fold *keep_fold(pp_arena *arena, const pp_fold *fold)
{
    pp_fold *to = KEEP(arena, fold, 1);
    if (to == NULL) return NULL;
    const pp_function **const into[] = {&to->lift, &to->step, &to->join, &to->finish};
    for (int i = 0; i < 4; i++)
        if (*into[i] != NULL && (*into[i] = keep_function(arena, *into[i])) == NULL) return NULL;
    return to;
}

static const pp_loop_fold *keep_folds(pp_arena *arena, const pp_loop_fold *folds, uint32_t n)
{
    pp_loop_fold *to = KEEP(arena, folds, n);
    for (uint32_t i = 0; to != NULL && i < n; i++)
        if ((to[i].fold = keep_fold(arena, folds[i].fold)) == NULL) return NULL;
    return to;
}

ppto_status pp_loop_copy(pp_arena *arena, const pp_loop *loop, pp_loop *out)
{
    *out = *loop;
    out->in = KEEP(arena, loop->in, loop->n_in);
    out->out = KEEP(arena, loop->out, loop->n_out);
    out->code = KEEP(arena, loop->code, loop->n_code);
    out->operands = KEEP(arena, loop->operands, loop->n_operands);
    out->consts = KEEP(arena, loop->consts, loop->n_consts);
    out->tables = keep_tables(arena, loop->tables, loop->n_tables);
    out->callees = keep_callees(arena, loop->callees, loop->n_callees);
    out->folds = keep_folds(arena, loop->folds, loop->n_folds);
    const bool ok = out->folds && out->in && out->out && out->code && out->operands && out->consts &&
                    out->tables && out->callees;
    return ok ? PPTO_OK : PPTO_E_NOMEM;
}

/* ---- equality -------------------------------------------------------------------------------- */

static bool same_streams(const pp_stream *a, const pp_stream *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i].dtype != b[i].dtype || a[i].kind != b[i].kind || a[i].canonical != b[i].canonical ||
            a[i].around != b[i].around)
            return false;
    return true;
}

static bool same_tables(const pp_table *a, const pp_table *b)
{
    return a->dtype == b->dtype && a->length == b->length &&
           memcmp(a->bits, b->bits, a->length * sizeof *a->bits) == 0;
}

static bool same_imm(const pp_loop *a, const pp_instr *x, const pp_loop *b, const pp_instr *y)
{
    switch (x->op) {
    case PP_CONST: return a->consts[x->imm] == b->consts[y->imm];
    case PP_TABLE: return same_tables(&a->tables[x->imm], &b->tables[y->imm]);
    case PP_CALL:
    case PP_COLD: return a->callees[x->imm]->hash == b->callees[y->imm]->hash;
    case PP_PARAM:
    case PP_STORE: return x->imm == y->imm;
    case PP_SCANNED: return x->imm == y->imm && x->a == y->a;
    default: return true;
    }
}

static uint64_t hash_of(const pp_function *function)
{
    return function != NULL ? function->hash : 0;
}

static bool same_fold(const pp_fold *a, const pp_fold *b)
{
    return a->n_states == b->n_states && a->n_inputs == b->n_inputs && a->joined == b->joined &&
           a->position == b->position && a->law == b->law && memcmp(a->state, b->state, a->n_states) == 0 &&
           hash_of(a->lift) == hash_of(b->lift) && hash_of(a->step) == hash_of(b->step) &&
           hash_of(a->join) == hash_of(b->join) && hash_of(a->finish) == hash_of(b->finish);
}

static bool same_folds(const pp_loop_fold *a, const pp_loop_fold *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const pp_fold *f = a[i].fold;
        if (!same_fold(f, b[i].fold) || a[i].first != b[i].first || a[i].columns != b[i].columns ||
            (a[i].columns && a[i].fresh != b[i].fresh) ||
            memcmp(a[i].input, b[i].input, f->n_inputs * sizeof a[i].input[0]) != 0 ||
            memcmp(a[i].out, b[i].out, f->n_states * sizeof a[i].out[0]) != 0)
            return false;
        if (f->law == PP_LAW_SCAN && memcmp(a[i].carry, b[i].carry, f->n_states * sizeof a[i].carry[0]) != 0)
            return false;
    }
    return true;
}

bool pp_loop_equal(const pp_loop *a, const pp_loop *b)
{
    const pp_pools left = pp_loop_pools(a), right = pp_loop_pools(b);
    if (a->hash != b->hash || a->n_folds != b->n_folds || a->n_in != b->n_in || a->n_out != b->n_out ||
        a->n_code != b->n_code || !same_streams(a->in, b->in, a->n_in) ||
        !same_streams(a->out, b->out, a->n_out) || !same_folds(a->folds, b->folds, a->n_folds))
        return false;
    for (uint32_t i = 0; i < a->n_code; i++) {
        const pp_instr *x = &a->code[i], *y = &b->code[i];
        uint32_t of_x[PP_MAX_OPERANDS], of_y[PP_MAX_OPERANDS];
        if (x->op != y->op || x->dtype != y->dtype || !same_imm(a, x, b, y)) return false;
        const unsigned n = pp_instr_operands(&left, x, of_x);
        if (n != pp_instr_operands(&right, y, of_y) || memcmp(of_x, of_y, n * sizeof *of_x) != 0)
            return false;
    }
    return true;
}
