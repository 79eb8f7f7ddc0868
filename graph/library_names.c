/* SPDX-License-Identifier: Apache-2.0
 * Names in a definition, looked up when it is defined: callees and what they are given, variables,
 * parameters, states of folds. One walk over the text with the scope the evaluator would have.
 *
 * A name that is no variable may be a word (mode=edge), but only where a word can be meant: given to a
 * parameter that takes words, or compared with one. After an `if` the names of both its sides count as known,
 * because which side is taken is not known here; what only a side lacks is found when it is taken. */
#include "graph/library_scan.h"

#include <stdio.h>
#include <string.h>

/* Which unknown names are words: none, the word all, any. */
typedef enum words { NO_WORD, WORD_ALL, ANY_WORD } words;

typedef struct names {
    pp_library *library;
    const pp_definition *definition;
    pp_error *err;
    pp_scope scope;
    PP_VEC(uint8_t) fixed; /* of each row of the scope: assigned on every path */
    uint64_t used;         /* parameters, which come first in the scope of an operator */
    size_t n_params;       /* how many of the rows are parameters */
} names;

static ppto_status walk(names *w, const pp_expr *e, words allowed);
static ppto_status walk_block(names *w, const pp_stmt *stmt);

static ppto_status no_memory(names *w)
{
    return pp_fail(w->err, PPTO_E_NOMEM, "out of memory");
}

static ppto_status push(names *w, const char *name, bool fixed)
{
    if (pp_vec_push(&w->fixed, fixed) != PPTO_OK) return no_memory(w);
    return pp_scope_push(&w->scope, name) == PPTO_OK ? PPTO_OK : no_memory(w);
}

static void cut(names *w, size_t n)
{
    pp_scope_cut(&w->scope, n);
    w->fixed.n = n;
}

/* A variable, which counts as used. */
static bool is_variable(names *w, const char *name)
{
    uint32_t i = pp_scope_find(&w->scope, name, 0);
    if (i == PP_SCOPE_NONE) return false;
    if (i < w->n_params) w->used |= UINT64_C(1) << i;
    return true;
}

/* ---- messages -------------------------------------------------------------------------------------- */

#define FAIL(w, at, code, ...) pp_unit_fail((w)->definition->owner, at, (w)->err, code, __VA_ARGS__)

static ppto_status unknown_callee(names *w, const pp_expr *e)
{
    const char *nearest = pp_library_nearest(w->library, e->name);
    if (nearest == NULL) return FAIL(w, e->at, PPTO_E_NAME, "no operator `%.60s`", e->name);
    return FAIL(w, e->at, PPTO_E_NAME, "no operator `%.60s`: did you mean `%.60s`?", e->name, nearest);
}

static ppto_status unknown_name(names *w, const pp_expr *e)
{
    pp_nearest nearest = {.to = e->name};
    if (pp_library_owner(w->library, e->name) != PP_NAME_FREE)
        return FAIL(w, e->at, PPTO_E_NAME, "`%.60s` is an operator, expected its arguments in ( )", e->name);
    for (size_t i = w->scope.rows.n; i > 0 && i + 1000 > w->scope.rows.n; i--)
        pp_text_nearer(&nearest, w->scope.rows.at[i - 1].name);
    return FAIL(w, e->at, PPTO_E_NAME, "`%.60s` is no parameter and no variable here%s%.60s%s", e->name,
                nearest.name != NULL ? ": did you mean `" : "", nearest.name != NULL ? nearest.name : "",
                nearest.name != NULL ? "`?" : "");
}

/* ---- calls ----------------------------------------------------------------------------------------- */

static ppto_status check_count(names *w, const pp_expr *e, unsigned least, unsigned most)
{
    unsigned n = 0;
    for (const pp_expr *a = e->a; a != NULL; a = a->next) {
        n++;
        if (a->keyword != NULL)
            return FAIL(w, a->at, PPTO_E_NAME, "%.60s() takes no named arguments", e->name);
        PP_TRY(walk(w, a, strcmp(e->name, "contains") == 0 ? ANY_WORD : NO_WORD));
    }
    if (n >= least && n <= most) return PPTO_OK;
    if (least == most)
        return FAIL(w, e->at, PPTO_E_VALUE, "%.60s() takes %u arguments, not %u", e->name, least, n);
    return FAIL(w, e->at, PPTO_E_VALUE, "%.60s() takes %u to %u arguments, not %u", e->name, least, most, n);
}

static words words_of(const pp_param *p)
{
    if (p->spec == PP_SPEC_P_STR || p->spec == PP_SPEC_P_ANY) return ANY_WORD;
    return p->spec == PP_SPEC_P_AXES ? WORD_ALL : NO_WORD;
}

static size_t place_of(const pp_definition *d, const char *keyword)
{
    size_t i = 0, n = pp_eval_params(d);
    while (i < n && strcmp(pp_eval_param(d, i)->name, keyword) != 0) i++;
    return i;
}

static ppto_status unknown_parameter(names *w, const pp_expr *e, const pp_expr *a, const pp_definition *d)
{
    pp_text text = {0};
    pp_eval_unknown_param(d, a->keyword, &text);
    ppto_status status = FAIL(w, a->at, PPTO_E_NAME, "%.60s has %.600s", e->name,
                              text.at != NULL ? text.at : "no such parameter");
    pp_text_free(&text);
    return status;
}

static ppto_status check_arguments(names *w, const pp_expr *e, const pp_definition *d)
{
    size_t n = pp_eval_params(d), i = 0;
    uint8_t given[PP_MAX_BOUND] = {0};
    for (const pp_expr *a = e->a; a != NULL; a = a->next, i++) {
        size_t at = a->keyword != NULL ? place_of(d, a->keyword) : i;
        if (at >= n && a->keyword != NULL) return unknown_parameter(w, e, a, d);
        if (at >= n) return FAIL(w, a->at, PPTO_E_VALUE, "%.60s takes at most %zu arguments", e->name, n);
        const pp_param *p = pp_eval_param(d, at);
        if (given[at]) return FAIL(w, a->at, PPTO_E_VALUE, "`%.60s` is given twice", p->name);
        given[at] = 1;
        PP_TRY(walk(w, a, words_of(p)));
    }
    for (i = 0; i < d->n_params; i++)
        if (!given[i] && d->param[i].fallback == NULL)
            return FAIL(w, e->at, PPTO_E_VALUE, "%.60s: the argument `%.60s` is missing", e->name,
                        d->param[i].name);
    return PPTO_OK;
}

/* max and min of two numbers, else the reductions. */
static bool of_two(const pp_expr *e)
{
    const pp_expr *a = e->a;
    bool named = strcmp(e->name, "max") == 0 || strcmp(e->name, "min") == 0;
    return named && a != NULL && a->next != NULL && a->next->next == NULL && a->next->keyword == NULL;
}

static ppto_status walk_call(names *w, const pp_expr *e)
{
    unsigned least, most;
    bool scalar = strncmp(e->name, "scalar.", 7) == 0, tensor = strncmp(e->name, "tensor.", 7) == 0;
    if (scalar || tensor) {
        if (scalar ? pp_scalar_arity(e->name + 7, &least, &most)
                   : pp_primitive_arity(e->name + 7, &least, &most))
            return check_count(w, e, least, most);
        return FAIL(w, e->at, PPTO_E_NAME, "no primitive %.60s", e->name);
    }
    if (!e->scan && pp_builtin_arity(e->name, &least, &most)) return check_count(w, e, least, most);
    if (of_two(e)) {
        PP_TRY(walk(w, e->a, NO_WORD));
        return walk(w, e->a->next, WORD_ALL);
    }
    const pp_definition *d;
    PP_TRY(pp_library_find(w->library, e->name, &d, w->err));
    if (d == NULL) return unknown_callee(w, e);
    if (e->scan && !d->is_fold)
        return FAIL(w, e->at, PPTO_E_VALUE, "`scan` needs a fold, `%.60s` is none", e->name);
    return check_arguments(w, e, d);
}

/* ---- expressions ------------------------------------------------------------------------------------- */

/* {name} in the message of a require or check. */
static void use_holes(names *w, const char *message)
{
    char name[64];
    for (const char *p = message; (p = strchr(p, '{')) != NULL; p++) {
        size_t n = strcspn(p + 1, "}");
        if (n >= sizeof name || p[1 + n] == '\0') continue;
        memcpy(name, p + 1, n);
        name[n] = '\0';
        is_variable(w, name);
    }
}

static ppto_status walk_name(names *w, const pp_expr *e, words allowed)
{
    ppto_dtype dtype;
    if (is_variable(w, e->name) || strcmp(e->name, "none") == 0 || allowed == ANY_WORD) return PPTO_OK;
    if (allowed == WORD_ALL && strcmp(e->name, "all") == 0) return PPTO_OK;
    if (e->name[0] == '$')
        return FAIL(w, e->at, PPTO_E_NAME, "`%.20s` stands in texts that C passes tensors to only", e->name);
    return pp_dtype_parse(e->name, strlen(e->name), &dtype) ? PPTO_OK : unknown_name(w, e);
}

static bool is_word(names *w, const pp_expr *e)
{
    return e->kind == PP_E_NAME && pp_scope_find(&w->scope, e->name, 0) == PP_SCOPE_NONE;
}

/* A comparison may have a word on one side. */
static ppto_status walk_binary(names *w, const pp_expr *e)
{
    for (; e->kind == PP_E_BINARY; e = e->a) {
        bool compares = e->op == PP_I_EQ || e->op == PP_I_NE;
        if (compares) {
            PP_TRY(walk(w, e->b, ANY_WORD));
            if (e->a->kind != PP_E_BINARY) return walk(w, e->a, is_word(w, e->b) ? NO_WORD : ANY_WORD);
        } else {
            PP_TRY(walk(w, e->b, NO_WORD));
        }
    }
    return walk(w, e, NO_WORD);
}

static ppto_status walk_attribute(names *w, const pp_expr *e)
{
    const pp_definition *d = w->definition;
    bool known = strcmp(e->name, "T") == 0 || strcmp(e->name, "mT") == 0 || strcmp(e->name, "dtype") == 0;
    for (unsigned i = 0; d->is_fold && i < d->n_states && !known; i++)
        known = d->state[i].name != NULL && strcmp(d->state[i].name, e->name) == 0;
    if (known) return PPTO_OK;
    if (d->is_fold)
        return FAIL(w, e->at, PPTO_E_NAME, "the fold `%.60s` has no state `%.60s`", d->name, e->name);
    return FAIL(w, e->at, PPTO_E_NAME, "no attribute `.%.40s`, expected `.T`, `.mT` or `.dtype`", e->name);
}

static ppto_status walk_comprehension(names *w, const pp_expr *e, words allowed)
{
    size_t before = w->scope.rows.n;
    PP_TRY(walk(w, e->b, NO_WORD));
    PP_TRY(push(w, e->name, true));
    if (e->c != NULL) PP_TRY(walk(w, e->c, NO_WORD));
    PP_TRY(walk(w, e->a, allowed));
    cut(w, before);
    return PPTO_OK;
}

static ppto_status walk_items(names *w, const pp_expr *e, words allowed)
{
    for (; e != NULL; e = e->next) PP_TRY(walk(w, e, allowed));
    return PPTO_OK;
}

static ppto_status walk_slice(names *w, const pp_expr *e)
{
    if (e->a != NULL) PP_TRY(walk(w, e->a, NO_WORD));
    if (e->b != NULL) PP_TRY(walk(w, e->b, NO_WORD));
    return e->c != NULL ? walk(w, e->c, NO_WORD) : PPTO_OK;
}

/* Chains of signs, attributes and subscripts are walked in a loop, so that depth is that of brackets. */
static ppto_status walk(names *w, const pp_expr *e, words allowed)
{
    for (;;) {
        switch (e->kind) {
        case PP_E_NAME: return walk_name(w, e, allowed);
        case PP_E_STRING: use_holes(w, e->name); return PPTO_OK;
        case PP_E_CALL: return walk_call(w, e);
        case PP_E_BINARY: return walk_binary(w, e);
        case PP_E_LIST:
        case PP_E_TUPLE: return walk_items(w, e->a, allowed);
        case PP_E_COMPREHENSION: return walk_comprehension(w, e, allowed);
        case PP_E_SLICE: return walk_slice(w, e);
        case PP_E_AND:
        case PP_E_OR:
            PP_TRY(walk(w, e->b, NO_WORD));
            allowed = NO_WORD;
            break;
        case PP_E_IF:
            PP_TRY(walk(w, e->c, NO_WORD));
            PP_TRY(walk(w, e->b, allowed));
            break;
        case PP_E_INDEX:
            PP_TRY(walk_items(w, e->b, NO_WORD));
            allowed = NO_WORD;
            break;
        case PP_E_ATTR:
            PP_TRY(walk_attribute(w, e));
            allowed = NO_WORD;
            break;
        case PP_E_UNARY:
        case PP_E_NOT: allowed = NO_WORD; break;
        case PP_E_STAR: break;
        default: return PPTO_OK;
        }
        e = e->a;
    }
}

/* ---- statements -------------------------------------------------------------------------------------- */

static ppto_status assign(names *w, const pp_stmt *stmt)
{
    PP_TRY(walk(w, stmt->value, NO_WORD));
    for (const pp_name *name = stmt->names; name != NULL; name = name->next) {
        uint32_t i = pp_scope_find(&w->scope, name->text, 0);
        if (i != PP_SCOPE_NONE && w->fixed.at[i] && strcmp(name->text, "_") != 0)
            return FAIL(w, name->at, PPTO_E_NAME, "`%.60s` is assigned twice, expected another name",
                        name->text);
        PP_TRY(push(w, name->text, true));
    }
    return PPTO_OK;
}

/* Both sides begin with the same names; afterwards those of both are known, perhaps. */
static ppto_status walk_if(names *w, const pp_stmt *stmt)
{
    size_t before = w->scope.rows.n, n;
    PP_VEC(const char *) sides = {0};
    ppto_status status = walk(w, stmt->value, NO_WORD);
    for (const pp_stmt *side = stmt->then; status == PPTO_OK; side = stmt->otherwise) {
        status = walk_block(w, side);
        for (size_t i = before; i < w->scope.rows.n && status == PPTO_OK; i++)
            if (pp_vec_push(&sides, w->scope.rows.at[i].name) != PPTO_OK) status = no_memory(w);
        cut(w, before);
        if (side == stmt->otherwise) break;
    }
    n = sides.n;
    for (size_t i = 0; i < n && status == PPTO_OK; i++) status = push(w, sides.at[i], false);
    pp_vec_free(&sides);
    return status;
}

static ppto_status walk_block(names *w, const pp_stmt *stmt)
{
    for (; stmt != NULL; stmt = stmt->next) {
        switch (stmt->kind) {
        case PP_S_ASSIGN: PP_TRY(assign(w, stmt)); break;
        case PP_S_IF: PP_TRY(walk_if(w, stmt)); break;
        default: PP_TRY(walk_items(w, stmt->value, NO_WORD)); break;
        }
        if (stmt->kind == PP_S_REQUIRE) use_holes(w, stmt->message);
    }
    return PPTO_OK;
}

/* ---- definitions ------------------------------------------------------------------------------------- */

/* Defaults know no other parameter. */
static ppto_status walk_defaults(names *w)
{
    const pp_definition *d = w->definition;
    for (size_t i = 0; i < d->n_params; i++)
        if (d->param[i].fallback != NULL) PP_TRY(walk(w, d->param[i].fallback, words_of(&d->param[i])));
    return PPTO_OK;
}

/* The named sizes of the parameters' shapes. */
static ppto_status push_sizes(names *w)
{
    const pp_definition *d = w->definition;
    for (size_t i = 0; i < d->n_params; i++) {
        const pp_param *p = &d->param[i];
        for (unsigned k = 0; k < p->n_dims; k++) {
            const char *name = p->dim[k].name;
            uint32_t at = name != NULL ? pp_scope_find(&w->scope, name, 0) : w->n_params;
            if (at < w->n_params)
                return FAIL(w, p->at, PPTO_E_NAME,
                            "`%.60s` is a parameter and a named size, expected two names", name);
            if (at == PP_SCOPE_NONE) PP_TRY(push(w, name, true));
        }
    }
    return PPTO_OK;
}

/* A shape is a contract even where the tensor is not read; a name that begins with _ says that it is not. */
static ppto_status check_used(names *w)
{
    const pp_definition *d = w->definition;
    for (size_t i = 0; i < d->n_params; i++)
        if (!(w->used >> i & 1) && !d->param[i].has_shape && d->param[i].name[0] != '_')
            return FAIL(w, d->param[i].at, PPTO_E_NAME,
                        "the parameter `%.60s` is never used, expected it in the text or a name that begins "
                        "with _",
                        d->param[i].name);
    return PPTO_OK;
}

static ppto_status walk_operator(names *w)
{
    const pp_definition *d = w->definition;
    for (size_t i = 0; i < d->n_params; i++) PP_TRY(push(w, d->param[i].name, true));
    w->n_params = d->n_params;
    PP_TRY(push_sizes(w));
    PP_TRY(walk_block(w, d->body));
    return check_used(w);
}

/* The elements bear the parameters' names in lift only. */
static ppto_status walk_part(names *w, const pp_fold_part *part, bool elements)
{
    const pp_definition *d = w->definition;
    for (size_t i = 0; i < d->n_params; i++)
        if (elements || !pp_param_is_tensor(&d->param[i])) PP_TRY(push(w, d->param[i].name, true));
    for (unsigned i = 0; i < part->n_args; i++) {
        if (pp_scope_find(&w->scope, part->arg[i], 0) != PP_SCOPE_NONE)
            return FAIL(w, d->at, PPTO_E_NAME, "`%.60s` stands for two things in a part, expected two names",
                        part->arg[i]);
        PP_TRY(push(w, part->arg[i], true));
    }
    return walk_block(w, part->body);
}

static ppto_status walk_fold(names *w)
{
    const pp_definition *d = w->definition;
    const pp_fold_part *parts[] = {&d->lift, &d->step, &d->join, &d->finish};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        PP_TRY(walk_part(w, parts[i], i == 0));
        cut(w, 0);
    }
    return d->unit != NULL ? walk(w, d->unit, NO_WORD) : PPTO_OK;
}

ppto_status pp_library_check_names(pp_library *library, const pp_definition *definition, pp_error *err)
{
    names w = {.library = library, .definition = definition, .err = err};
    ppto_status status = walk_defaults(&w);
    if (status == PPTO_OK) status = definition->is_fold ? walk_fold(&w) : walk_operator(&w);
    pp_scope_free(&w.scope);
    pp_vec_free(&w.fixed);
    return status;
}
