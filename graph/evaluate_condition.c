/* SPDX-License-Identifier: Apache-2.0
 * Conditions on sizes that are only names. What recording cannot decide is a margin: a size that is not
 * negative exactly when the condition holds. a <= b is b - a, `and` the minimum, `or` the maximum, `not` is
 * -margin - 1, a == b the minimum of both differences. A `require` that stays open, and a choice that was
 * made although it was open, goes with the graph as a pp_condition and is decided when sizes are bound. */
#include <string.h>

#include "graph/graph_impl.h"

pp_value pp_eval_margin_holds(pp_eval *ev, pp_size margin)
{
    int holds = pp_size_is_le(ev->sizes, PP_SIZE_0, margin);
    if (holds >= 0) return pp_value_bool(holds != 0 ? PP_TRUE : PP_FALSE);
    pp_value open = pp_value_bool(PP_UNKNOWN);
    open.u.margin = margin;
    return open;
}

pp_value pp_eval_is_least(pp_eval *ev, pp_size a, pp_size b)
{
    int le = pp_size_is_le(ev->sizes, a, b);
    if (le >= 0) return pp_value_bool(le != 0 ? PP_TRUE : PP_FALSE);
    return pp_eval_margin_holds(ev, pp_size_sub(ev->sizes, b, a));
}

/* Of two formulas that are not the same; where that stays open, a choice takes them to differ. */
pp_value pp_eval_is_same(pp_eval *ev, pp_size a, pp_size b)
{
    if (pp_size_is_le(ev->sizes, a, b) == 0 || pp_size_is_le(ev->sizes, b, a) == 0)
        return pp_value_bool(PP_FALSE);
    pp_value same = pp_eval_margin_holds(
        ev, pp_size_min(ev->sizes, pp_size_sub(ev->sizes, a, b), pp_size_sub(ev->sizes, b, a)));
    same.u.guess = PP_GUESS_EQUAL;
    return same;
}

static pp_size margin_of(pp_eval *ev, const pp_value *value)
{
    if (value->u.truth == PP_UNKNOWN) return value->u.margin;
    return value->u.truth == PP_TRUE ? PP_SIZE_0 : pp_size_const(ev->sizes, -1);
}

pp_value pp_eval_not(pp_eval *ev, const pp_value *value)
{
    if (value->u.truth != PP_UNKNOWN) return pp_value_bool(value->u.truth == PP_TRUE ? PP_FALSE : PP_TRUE);
    pp_value out =
        pp_eval_margin_holds(ev, pp_size_sub(ev->sizes, pp_size_const(ev->sizes, -1), value->u.margin));
    if (value->u.guess != PP_GUESS_HOLDS)
        out.u.guess = value->u.guess == PP_GUESS_EQUAL ? PP_GUESS_UNEQUAL : PP_GUESS_EQUAL;
    return out;
}

static bool is_doubted(const pp_value *value)
{
    return value->u.truth == PP_FALSE || (value->u.truth == PP_UNKNOWN && value->u.guess == PP_GUESS_EQUAL);
}

pp_value pp_eval_both(pp_eval *ev, bool either, const pp_value *a, const pp_value *b)
{
    pp_size x = margin_of(ev, a), y = margin_of(ev, b);
    pp_value out =
        pp_eval_margin_holds(ev, either ? pp_size_max(ev->sizes, x, y) : pp_size_min(ev->sizes, x, y));
    bool doubt = either ? is_doubted(a) && is_doubted(b) : is_doubted(a) || is_doubted(b);
    out.u.guess = doubt ? PP_GUESS_EQUAL : PP_GUESS_HOLDS;
    return out;
}

pp_size pp_eval_indicator(pp_eval *ev, const pp_value *value)
{
    pp_size above = pp_size_add(ev->sizes, margin_of(ev, value), PP_SIZE_1);
    return pp_size_max(ev->sizes, pp_size_min(ev->sizes, above, PP_SIZE_1), PP_SIZE_0);
}

/* ---- what goes with the graph ------------------------------------------------------------------------ */

static ppto_status push_unique(pp_flat *flat, const pp_condition *condition)
{
    for (size_t i = 0; i < flat->conditions.n; i++)
        if (flat->conditions.at[i].margin == condition->margin) return PPTO_OK;
    return pp_vec_push(&flat->conditions, *condition);
}

ppto_status pp_eval_hold(pp_eval *ev, pp_size margin, ppto_status code, const char *text)
{
    pp_condition condition = {.margin = margin, .code = code, .origin = PP_NONE};
    if (ev->mode == PP_EVAL_FUNCTION) return PPTO_E_UNSUPPORTED; /* functions know no sizes of a run */
    pp_arena *arena = ev->mode == PP_EVAL_GRAPH ? &ev->graph->arena : ev->arena;
    if (ev->mode == PP_EVAL_GRAPH) condition.origin = ev->graph->text_first;
    condition.message = pp_arena_strndup(arena, text, strlen(text));
    if (condition.message == NULL) return pp_eval_nomem(ev);
    ppto_status status = ev->mode == PP_EVAL_GRAPH ? pp_vec_push(&ev->graph->conditions, condition)
                                                   : push_unique(ev->flat, &condition);
    return status == PPTO_OK ? PPTO_OK : pp_eval_nomem(ev);
}

ppto_status pp_eval_need(pp_eval *ev, pp_size margin, ppto_status code, const char *text)
{
    pp_value holds = pp_eval_margin_holds(ev, margin);
    if (holds.u.truth == PP_TRUE) return PPTO_OK;
    if (holds.u.truth == PP_FALSE) return pp_eval_fail(ev, code, "%s", text);
    pp_text named = {0};
    pp_text_add(&named, "%s%s%s", ev->called_as != NULL ? ev->called_as : "",
                ev->called_as != NULL ? ": " : "", text);
    ppto_status status = named.at != NULL ? pp_eval_hold(ev, margin, code, named.at) : pp_eval_nomem(ev);
    pp_text_free(&named);
    return status;
}

ppto_status pp_eval_choose(pp_eval *ev, const pp_value *condition, bool *yes)
{
    pp_truth truth;
    char place[256];
    *yes = true;
    PP_TRY(pp_eval_truth(ev, condition, &truth));
    *yes = truth == PP_TRUE || (truth == PP_UNKNOWN && condition->u.guess != PP_GUESS_EQUAL);
    if (truth != PP_UNKNOWN) return PPTO_OK;
    const pp_value taken = *yes ? *condition : pp_eval_not(ev, condition);
    if (taken.u.truth != PP_UNKNOWN) return PPTO_OK;
    pp_text text = {0};
    pp_eval_place(ev, place, sizeof place);
    if (ev->called_as != NULL) pp_text_add(&text, "%s: ", ev->called_as);
    pp_text_add(&text, "a choice was made for ");
    pp_size_print(ev->sizes, taken.u.margin, &text);
    pp_text_add(&text, " >= 0 when it was recorded%s", place);
    ppto_status status =
        text.at != NULL ? pp_eval_hold(ev, taken.u.margin, PPTO_E_UNSUPPORTED, text.at) : pp_eval_nomem(ev);
    pp_text_free(&text);
    return status;
}
