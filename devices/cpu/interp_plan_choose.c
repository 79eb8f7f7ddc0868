/* SPDX-License-Identifier: Apache-2.0
 * Finds selections by guards and plans each tree of them as one step (run by interp_choose.c).
 *
 * A load, a selection or a mask of guards that only such a selection reads has no step of its own: it is
 * `folded` into the tree. What else is a branch (computed, or read elsewhere too) is a leaf that copies. */
#include <string.h>

#include "devices/cpu/interp_plan.h"

static const pp_instr *instr_at(const pp_planner *p, uint32_t at)
{
    return &p->program->code[at];
}

/* Guards that follow from coordinates alone. */
static bool is_static(const pp_planner *p, const pp_instr *inside)
{
    for (uint32_t g = 0; g < inside->a; g++)
        if (p->launch->guards[inside->imm + g].value != PP_NONE) return false;
    return inside->a > 0;
}

bool pp_plan_is_choice(const pp_planner *p, const pp_instr *instr)
{
    if (instr->op != PP_SELECT) return false;
    const pp_instr *mask = instr_at(p, instr->a);
    return mask->op == PP_INSIDE && is_static(p, mask);
}

static bool is_branch(const pp_planner *p, const pp_instr *instr)
{
    if (pp_plan_is_choice(p, instr)) return true;
    if (instr->op != PP_LOAD) return false;
    const pp_access_at *access = &p->launch->access[instr->imm];
    return access->n_gathers == 0 && !access->data_guard;
}

/* ---- uses ------------------------------------------------------------------------------------ */

typedef struct uses {
    const pp_planner *p;
    uint32_t *other, *branch; /* per instruction: reads by anything else, as a branch or mask of a choice */
} uses;

static void note(const uses *u, uint32_t *count, uint32_t at)
{
    if (at != PP_NONE && at >= u->p->request->first && at < u->p->request->first + u->p->request->count)
        count[pp_plan_local(u->p, at)]++;
}

static void note_affine(void *context, uint32_t affine)
{
    const uses *u = context;
    note(u, u->other, u->p->program->affines[affine].value);
}

static void count_uses(const uses *u)
{
    const pp_plan_request *r = u->p->request;
    uint32_t operand[PP_MAX_OPERANDS];
    for (uint32_t i = r->first; i < r->first + r->count; i++) {
        const pp_instr *instr = instr_at(u->p, i);
        if (!r->variant->live[i]) continue;
        const bool choice = pp_plan_is_choice(u->p, instr);
        const unsigned n = pp_instr_operands(&u->p->pools, instr, operand);
        for (unsigned k = 0; k < n; k++) note(u, choice ? u->branch : u->other, operand[k]);
        pp_instr_affines(u->p->program, instr, note_affine, (void *)u);
    }
    for (uint32_t f = 0; r->stage != NULL && f < r->stage->n_folds; f++) {
        const uint32_t at = r->stage->first_fold + f;
        for (uint32_t i = 0; i < u->p->program->folds[at].n_inputs; i++)
            note(u, u->other, pp_plan_fold_input(u->p, at, i));
    }
    note(u, u->other, r->value);
}

ppto_status pp_plan_find_choices(pp_planner *p)
{
    const pp_plan_request *r = p->request;
    const uses u = {p, pp_calloc(r->count + 1u, sizeof(uint32_t)),
                    pp_calloc(r->count + 1u, sizeof(uint32_t))};
    const bool ok = u.other != NULL && u.branch != NULL;
    if (ok) count_uses(&u);
    for (uint32_t i = 0; ok && i < r->count; i++) {
        const pp_instr *instr = instr_at(p, r->first + i);
        const bool mask = instr->op == PP_INSIDE && u.branch[i] > 0;
        p->folded[i] = u.other[i] == 0 && (mask || (u.branch[i] == 1 && is_branch(p, instr)));
    }
    pp_free(u.other);
    pp_free(u.branch);
    return ok ? PPTO_OK : PPTO_E_NOMEM;
}

/* ---- the tree -------------------------------------------------------------------------------- */

typedef struct leaves {
    uint32_t *list, n, room;
} leaves;

static ppto_status build(pp_planner *p, uint32_t at, uint8_t level, leaves *values, const pp_choice **out)
{
    const pp_instr *instr = instr_at(p, at);
    pp_choice *choice = pp_arena_alloc(&p->launch->arena, sizeof *choice);
    if (choice == NULL) return PPTO_E_NOMEM;
    *choice = (pp_choice){.view = PP_NONE};
    *out = choice;
    if (!p->folded[pp_plan_local(p, at)]) {
        uint32_t view = pp_plan_view_of(p, at);
        choice->one = pp_plan_view_at(p, view)->level == PP_LEVEL_ONE;
        if (!choice->one) PP_TRY(pp_plan_vector(p, view, level, &view));
        choice->view = view;
        if (values->n == values->room) return PPTO_E_INTERNAL;
        values->list[values->n++] = view;
        return PPTO_OK;
    }
    if (instr->op == PP_LOAD) {
        choice->access = &p->launch->access[instr->imm];
        return PPTO_OK;
    }
    const pp_instr *mask = instr_at(p, instr->a);
    choice->guards = &p->launch->guards[mask->imm];
    choice->n_guards = mask->a;
    PP_TRY(build(p, instr->b, level, values, &choice->inside));
    return build(p, instr->c, level, values, &choice->outside);
}

static uint32_t count_leaves(const pp_planner *p, uint32_t at)
{
    const pp_instr *instr = instr_at(p, at);
    if (!p->folded[pp_plan_local(p, at)] || instr->op == PP_LOAD) return 1;
    return count_leaves(p, instr->b) + count_leaves(p, instr->c);
}

ppto_status pp_plan_choice(pp_planner *p, uint32_t at, pp_step *step)
{
    const pp_instr *instr = instr_at(p, at), *mask = instr_at(p, instr->a);
    leaves values = {.room = count_leaves(p, instr->b) + count_leaves(p, instr->c)};
    pp_choice *root = pp_arena_alloc(&p->launch->arena, sizeof *root);
    values.list = pp_arena_alloc(&p->launch->arena, (values.room + 1u) * sizeof *values.list);
    if (root == NULL || values.list == NULL) return PPTO_E_NOMEM;
    *root = (pp_choice){.guards = &p->launch->guards[mask->imm], .n_guards = mask->a, .view = PP_NONE};
    PP_TRY(build(p, instr->b, step->level, &values, &root->inside));
    PP_TRY(build(p, instr->c, step->level, &values, &root->outside));
    step->kind = PP_STEP_CHOOSE;
    step->data = root;
    step->list = values.list;
    step->n_list = values.n;
    return PPTO_OK;
}
