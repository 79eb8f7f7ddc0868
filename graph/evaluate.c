/* SPDX-License-Identifier: Apache-2.0
 * The walk over expressions and statements. A left-deep chain of binary operators, as long as a text allows,
 * is walked in a loop; everything else nests no deeper than the parser lets it. What a construct means is in
 * the other evaluate_*.c: numbers, builtins, primitives, calls. */
#include "graph/graph_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The functions that call each other through pp_eval_expr keep their own small frames: a text nests 1,000
 * deep, and threads with small stacks evaluate it, too. */
#define OUTLINED __attribute__((noinline))

ppto_status pp_eval_nomem(pp_eval *ev)
{
    return pp_fail(ev->err, PPTO_E_NOMEM, "out of memory");
}

/* Of what is evaluated in a definition of the user's own or called by it, or in a program. */
void pp_eval_place(const pp_eval *ev, char *out, size_t room)
{
    bool inside = ev->definition != NULL && !ev->definition->builtin;
    const pp_definition *d = inside ? ev->definition : ev->own;
    const pp_unit *unit = d != NULL ? d->owner : ev->definition == NULL ? pp_program_unit(ev) : NULL;
    uint32_t at = d == NULL || inside ? ev->at : ev->own_at;
    out[0] = '\0';
    if (unit == NULL || unit->file == NULL) return;
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at && i < unit->length; i++) {
        bool ends = unit->source[i] == '\n';
        line += ends;
        if (((unsigned char)unit->source[i] & 0xc0) != 0x80) column = ends ? 1 : column + 1;
    }
    if (snprintf(out, room, " (%.200s:%zu:%zu)", unit->file, line, column) < 0) out[0] = '\0';
}

/* "OP: what", unless the text names an operator itself. */
ppto_status pp_eval_fail(pp_eval *ev, ppto_status code, const char *format, ...)
{
    char what[1200], place[256];
    va_list args;
    if (ev->err == NULL) return code;
    va_start(args, format);
    if (pp_vsnprintf(what, sizeof what, format, args) < 0) what[0] = '\0';
    va_end(args);
    if (ev->called_as == NULL) return pp_fail(ev->err, code, "%s", what);
    pp_eval_place(ev, place, sizeof place);
    return pp_fail(ev->err, code, "%s: %s%s", ev->called_as, what, place);
}

void pp_eval_free(pp_eval *ev)
{
    pp_scope_free(&ev->scope);
    pp_vec_free(&ev->values);
}

ppto_status pp_eval_items(pp_eval *ev, size_t n, pp_value **out)
{
    *out = NULL;
    if (n > UINT32_MAX / sizeof **out)
        return pp_eval_fail(ev, PPTO_E_LIMIT, "a list of %zu items is too long", n);
    *out = pp_arena_alloc(ev->arena, (n + 1) * sizeof **out);
    return *out != NULL ? PPTO_OK : pp_eval_nomem(ev);
}

/* ---- variables --------------------------------------------------------------------------------------- */

const pp_value *pp_eval_variable(const pp_eval *ev, const char *name)
{
    uint32_t i = pp_scope_find(&ev->scope, name, ev->base);
    return i != PP_SCOPE_NONE ? &ev->values.at[i] : NULL;
}

void pp_eval_cut(pp_eval *ev, size_t n)
{
    pp_scope_cut(&ev->scope, n);
    ev->values.n = n;
}

static ppto_status push_variable(pp_eval *ev, const char *name, const pp_value *value)
{
    if (pp_vec_push(&ev->values, *value) != PPTO_OK) return pp_eval_nomem(ev);
    if (pp_scope_push(&ev->scope, name) == PPTO_OK) return PPTO_OK;
    ev->values.n--;
    return pp_eval_nomem(ev);
}

ppto_status pp_eval_set(pp_eval *ev, const char *name, const pp_value *value)
{
    if (ev->mode == PP_EVAL_GRAPH && ev->definition == NULL) PP_TRY(pp_program_check_name(ev, name));
    if (strcmp(name, "_") != 0 && pp_eval_variable(ev, name) != NULL)
        return pp_eval_fail(ev, PPTO_E_NAME, "`%.60s` is assigned twice, expected another name", name);
    return push_variable(ev, name, value);
}

ppto_status pp_eval_single(pp_eval *ev, pp_value *value)
{
    if (value->kind != PP_V_TUPLE) return PPTO_OK;
    if (value->n != 1)
        return pp_eval_fail(ev, PPTO_E_VALUE, "%u results where one value is expected: assign them to names",
                            value->n);
    *value = value->u.items[0];
    return PPTO_OK;
}

/* ---- expressions ------------------------------------------------------------------------------------- */

static ppto_status eval_single(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    PP_TRY(pp_eval_expr(ev, e, out));
    return pp_eval_single(ev, out);
}

static OUTLINED ppto_status eval_int(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    if (!e->wide) {
        *out = pp_eval_number(ev, e->i);
        return PPTO_OK;
    }
    char *end;
    errno = 0;
    unsigned long long bits = strtoull(e->name, &end, strpbrk(e->name, "xX") != NULL ? 16 : 10);
    if (errno != 0 || *end != '\0')
        *out = (pp_value){.kind = PP_V_BEYOND, .u.text = e->name};
    else
        *out = (pp_value){.kind = PP_V_WIDE, .u.bits = bits};
    return PPTO_OK;
}

static OUTLINED ppto_status eval_name(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    const pp_value *variable = pp_eval_variable(ev, e->name);
    ppto_dtype dtype;
    if (variable != NULL) {
        *out = *variable;
        return PPTO_OK;
    }
    if (pp_dtype_parse(e->name, strlen(e->name), &dtype)) {
        *out = pp_value_of_dtype(dtype);
        return PPTO_OK;
    }
    if (ev->mode == PP_EVAL_GRAPH) return pp_program_name(ev, e, out);
    *out = pp_value_text(e->name);
    return PPTO_OK;
}

static OUTLINED ppto_status eval_list(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    PP_VEC(pp_value) items = {0};
    ppto_status status = PPTO_OK;
    for (const pp_expr *a = e->a; a != NULL && status == PPTO_OK; a = a->next) {
        pp_value value = {0};
        status = eval_single(ev, a->kind == PP_E_STAR ? a->a : a, &value);
        if (status == PPTO_OK && a->kind == PP_E_STAR) {
            if (value.kind != PP_V_LIST) status = pp_eval_fail(ev, PPTO_E_VALUE, "`*` needs a list");
            for (uint32_t i = 0; i < value.n && status == PPTO_OK; i++)
                status = pp_vec_push(&items, value.u.items[i]);
        } else if (status == PPTO_OK) {
            status = pp_vec_push(&items, value);
        }
    }
    pp_value *own = NULL;
    if (status == PPTO_OK) status = pp_eval_items(ev, items.n, &own);
    if (status == PPTO_OK && items.n != 0) memcpy(own, items.at, items.n * sizeof *own);
    *out = (pp_value){
        .kind = e->kind == PP_E_TUPLE ? PP_V_TUPLE : PP_V_LIST, .n = (uint32_t)items.n, .u.items = own};
    pp_vec_free(&items);
    return status;
}

static ppto_status filter(pp_eval *ev, const pp_expr *condition, bool *keep)
{
    pp_value value = {0};
    *keep = true;
    if (condition == NULL) return PPTO_OK;
    PP_TRY(eval_single(ev, condition, &value));
    return pp_eval_choose(ev, &value, keep);
}

static OUTLINED ppto_status eval_comprehension(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    pp_value source = {0}, *items;
    uint32_t n = 0;
    PP_TRY(eval_single(ev, e->b, &source));
    if (source.kind != PP_V_LIST && source.kind != PP_V_TUPLE)
        return pp_eval_fail(ev, PPTO_E_VALUE, "`for %.40s in` needs a list", e->name);
    PP_TRY(pp_eval_items(ev, source.n, &items));
    for (uint32_t i = 0; i < source.n; i++) {
        bool keep;
        size_t before = ev->values.n;
        PP_TRY(push_variable(ev, e->name, &source.u.items[i]));
        PP_TRY(filter(ev, e->c, &keep));
        if (keep) PP_TRY(eval_single(ev, e->a, &items[n++]));
        pp_eval_cut(ev, before);
    }
    *out = (pp_value){.kind = PP_V_LIST, .n = n, .u.items = items};
    return PPTO_OK;
}

/* As a bool. */
static OUTLINED ppto_status eval_condition(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    pp_truth truth;
    PP_TRY(eval_single(ev, e, out));
    PP_TRY(pp_eval_truth(ev, out, &truth));
    if (out->kind != PP_V_BOOL) *out = pp_value_bool(truth);
    return PPTO_OK;
}

static OUTLINED ppto_status eval_logic(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    pp_value a, b;
    PP_TRY(eval_condition(ev, e->a, &a));
    *out = e->kind == PP_E_NOT ? pp_eval_not(ev, &a) : a;
    if (e->kind == PP_E_NOT || a.u.truth == (e->kind == PP_E_AND ? PP_FALSE : PP_TRUE)) return PPTO_OK;
    PP_TRY(eval_condition(ev, e->b, &b));
    *out = pp_eval_both(ev, e->kind == PP_E_OR, &a, &b);
    return PPTO_OK;
}

static OUTLINED ppto_status eval_if(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    bool yes;
    PP_TRY(eval_single(ev, e->c, out));
    PP_TRY(pp_eval_choose(ev, out, &yes));
    return pp_eval_expr(ev, yes ? e->a : e->b, out);
}

static OUTLINED ppto_status eval_unary(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    pp_value a = {0};
    PP_TRY(eval_single(ev, e->a, &a));
    if (!pp_value_is_tensor(&a)) return pp_eval_negate(ev, (pp_infix)e->op, &a, out);
    return pp_eval_call_name(ev, pp_infix_operator((pp_infix)e->op), e->at, &a, NULL, out);
}

static OUTLINED ppto_status combine(pp_eval *ev, const pp_expr *e, const pp_value *a, const pp_value *b,
                                    pp_value *out)
{
    ev->at = e->at;
    if (!pp_value_is_tensor(a) && !pp_value_is_tensor(b)) {
        ppto_status status = pp_eval_infix(ev, (pp_infix)e->op, a, b, out);
        if (status != PPTO_E_UNSUPPORTED) return status;
    }
    return pp_eval_call_name(ev, pp_infix_operator((pp_infix)e->op), e->at, a, b, out);
}

static OUTLINED ppto_status eval_binary(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    PP_VEC(const pp_expr *) spine = {0};
    ppto_status status = PPTO_OK;
    for (; e->kind == PP_E_BINARY && status == PPTO_OK; e = e->a) status = pp_vec_push(&spine, e);
    if (status == PPTO_OK) status = eval_single(ev, e, out);
    for (size_t i = spine.n; i-- > 0 && status == PPTO_OK;) {
        pp_value a = *out, b = {0};
        status = eval_single(ev, spine.at[i]->b, &b);
        if (status == PPTO_OK) status = combine(ev, spine.at[i], &a, &b, out);
        if (status == PPTO_OK) status = pp_eval_single(ev, out);
    }
    pp_vec_free(&spine);
    return status;
}

static OUTLINED ppto_status eval_attribute(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    pp_value base = {0};
    PP_TRY(pp_eval_expr(ev, e->a, &base));
    const pp_definition *fold = ev->definition;
    if (base.kind == PP_V_TUPLE && fold != NULL && fold->is_fold) {
        for (uint32_t i = 0; i < base.n && i < fold->n_states; i++) {
            if (fold->state[i].name == NULL || strcmp(fold->state[i].name, e->name) != 0) continue;
            *out = base.u.items[i];
            return PPTO_OK;
        }
        return pp_eval_fail(ev, PPTO_E_NAME, "the fold `%.60s` has no state `%.60s`", fold->name, e->name);
    }
    PP_TRY(pp_eval_single(ev, &base));
    ev->at = e->at;
    return pp_eval_attribute(ev, e->name, &base, out);
}

static OUTLINED ppto_status eval_index(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    pp_value base = {0};
    PP_TRY(pp_eval_expr(ev, e->a, &base));
    return pp_eval_subscript(ev, e, &base, out);
}

/* A word where a parameter takes no tensor: in a program it is no free name. */
static OUTLINED bool word_argument(const pp_eval *ev, const pp_param *param, const pp_expr *a, pp_value *out)
{
    const pp_value *variable;
    if (ev->mode != PP_EVAL_GRAPH || a->kind != PP_E_NAME || param == NULL || pp_param_is_tensor(param))
        return false;
    variable = pp_eval_variable(ev, a->name);
    ppto_dtype dtype;
    if (variable != NULL && !pp_value_is_tensor(variable)) return false;
    if (pp_dtype_parse(a->name, strlen(a->name), &dtype)) return false;
    pp_ref ref;
    bool number = param->spec >= PP_SPEC_P_INT && param->spec <= PP_SPEC_P_INTS;
    if (number && pp_graph_find_input(ev->graph, a->name, &ref)) return false; /* it says what it got */
    if (pp_sizes_has(ev->sizes, a->name)) return false;
    *out = pp_value_text(a->name);
    return true;
}

static OUTLINED ppto_status eval_arguments(pp_eval *ev, const pp_definition *d, const pp_expr *e,
                                           pp_given **given, size_t *n)
{
    *n = 0;
    for (const pp_expr *a = e->a; a != NULL; a = a->next) ++*n;
    *given = pp_arena_alloc(ev->arena, (*n + 1) * sizeof **given);
    if (*given == NULL) return pp_eval_nomem(ev);
    size_t i = 0;
    for (const pp_expr *a = e->a; a != NULL; a = a->next, i++) {
        pp_given *g = &(*given)[i];
        g->keyword = a->keyword;
        g->at = a->at;
        const pp_param *param = d != NULL ? pp_eval_param_for(d, i, a->keyword) : NULL;
        if (word_argument(ev, param, a, &g->value)) continue;
        PP_TRY(pp_eval_expr(ev, a, &g->value));
        if (param == NULL || param->spec != PP_SPEC_TENSORS) PP_TRY(pp_eval_single(ev, &g->value));
    }
    return PPTO_OK;
}

static OUTLINED ppto_status unknown_operator(pp_eval *ev, const char *name)
{
    const char *nearest = pp_library_nearest(ev->library, name);
    if (nearest == NULL) return pp_eval_fail(ev, PPTO_E_NAME, "no operator `%.60s`", name);
    return pp_eval_fail(ev, PPTO_E_NAME, "no operator `%.60s`: did you mean `%.60s`?", name, nearest);
}

static OUTLINED ppto_status eval_call(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    pp_given *given;
    size_t n;
    bool found = false, scalar = strncmp(e->name, "scalar.", 7) == 0;
    if (scalar || strncmp(e->name, "tensor.", 7) == 0) {
        if (ev->mode == PP_EVAL_GRAPH)
            return pp_eval_fail(ev, PPTO_E_NAME, "`%.60s` stands in definitions of operators only", e->name);
        PP_TRY(eval_arguments(ev, NULL, e, &given, &n));
        return scalar ? pp_eval_scalar(ev, e->name + 7, given, n, out)
                      : pp_eval_primitive(ev, e->name + 7, given, n, out);
    }
    const pp_definition *d;
    PP_TRY(pp_library_find(ev->library, e->name, &d, ev->err));
    PP_TRY(eval_arguments(ev, d, e, &given, &n));
    if (!e->scan) PP_TRY(pp_eval_builtin(ev, e->name, given, n, &found, out));
    if (found) return PPTO_OK;
    ev->at = e->at;
    if (d == NULL) return unknown_operator(ev, e->name);
    return pp_eval_call(ev, d, e->name, e->at, given, n, e->scan, out);
}

ppto_status pp_eval_expr(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    ev->at = e->at;
    switch (e->kind) {
    case PP_E_INT: return eval_int(ev, e, out);
    case PP_E_FLOAT: *out = pp_value_float(e->f); return PPTO_OK;
    case PP_E_BOOL: *out = pp_value_bool(e->i != 0 ? PP_TRUE : PP_FALSE); return PPTO_OK;
    case PP_E_STRING: *out = pp_value_text(e->name); return PPTO_OK;
    case PP_E_NAME:
        if (strcmp(e->name, "none") != 0) return eval_name(ev, e, out);
        *out = (pp_value){.kind = PP_V_NONE};
        return PPTO_OK;
    case PP_E_NONE: *out = (pp_value){.kind = PP_V_NONE}; return PPTO_OK;
    case PP_E_LIST:
    case PP_E_TUPLE: return eval_list(ev, e, out);
    case PP_E_CALL: return eval_call(ev, e, out);
    case PP_E_ATTR: return eval_attribute(ev, e, out);
    case PP_E_UNARY: return eval_unary(ev, e, out);
    case PP_E_BINARY: return eval_binary(ev, e, out);
    case PP_E_NOT:
    case PP_E_AND:
    case PP_E_OR: return eval_logic(ev, e, out);
    case PP_E_IF: return eval_if(ev, e, out);
    case PP_E_INDEX: return eval_index(ev, e, out);
    case PP_E_COMPREHENSION: return eval_comprehension(ev, e, out);
    default: return pp_eval_fail(ev, PPTO_E_SYNTAX, "this has no value here");
    }
}
