/* SPDX-License-Identifier: Apache-2.0
 * Static properties of definitions, found by one walk over the text that goes into what it calls first.
 *   elementwise  made of scalar.* and such operators only: one function of one element
 *   literal      its result may depend on the value of an operand that is a literal: it asks is_literal or
 * turns an operand into a number, or calls one that does Calls among the definitions being walked are
 * recursion. Names are resolved as the evaluator does, but an unknown name is no error here: the branch that
 * holds it may never be taken. */
#include "graph/library_state.h"

#include <string.h>

enum { SCAN_DEPTH = 200 };

typedef struct scan {
    pp_library *library;
    const pp_definition *definition;
    pp_error *err;
    bool elementwise, literal, open;
    unsigned depth;
} scan;

static ppto_status scan_definition(pp_library *library, pp_definition *d, unsigned depth, pp_error *err);
static ppto_status scan_expr(scan *s, const pp_expr *e);

static bool one_of(const char *name, const char *const *list)
{
    for (; *list != NULL; list++)
        if (strcmp(name, *list) == 0) return true;
    return false;
}

static ppto_status scan_callee(scan *s, const char *name, uint32_t at)
{
    pp_traits traits;
    pp_definition *called;
    if (!pp_library_traits(s->library, name, &traits, &called)) {
        s->elementwise = false;
        s->open = true;
        return PPTO_OK;
    }
    if (traits.elementwise == PP_SCAN_OPEN)
        return pp_unit_fail(s->definition->owner, at, s->err, PPTO_E_VALUE,
                            "`%.60s` calls itself, expected no recursion", s->definition->name);
    if (traits.elementwise == PP_SCAN_NEW) {
        PP_TRY(scan_definition(s->library, called, s->depth + 1, s->err));
        traits = called->traits;
    }
    s->elementwise = s->elementwise && traits.elementwise == PP_SCAN_YES;
    s->literal = s->literal || traits.literal == PP_SCAN_YES;
    return PPTO_OK;
}

static ppto_status scan_call(scan *s, const pp_expr *e)
{
    static const char *const placed[] = {"scalar.check", "scalar.index", NULL};
    static const char *const of_shape[] = {"size", "rank", "shape", NULL};
    static const char *const plain[] = {
        "range",   "len",     "is_float",    "is_int",      "is_signed",   "is_bool",   "width",
        "promote", "is_weak", "normal_axis", "normal_axes", "product",     "sorted",    "contains",
        "is_list", "is_none", "is_wide",     "is_beyond",   "is_integers", "is_number", NULL};
    static const char *const of_value[] = {"is_literal", "literal", "int", "float", NULL};
    static const char *const either[] = {"min", "max", NULL};
    for (const pp_expr *a = e->a; a != NULL; a = a->next) PP_TRY(scan_expr(s, a));
    if (strncmp(e->name, "scalar.", 7) == 0) {
        if (one_of(e->name, placed)) s->elementwise = false;
        return PPTO_OK;
    }
    if (strncmp(e->name, "tensor.", 7) == 0 || e->scan) {
        s->elementwise = false;
        return e->scan ? scan_callee(s, e->name, e->at) : PPTO_OK;
    }
    if (one_of(e->name, of_value)) {
        s->literal = true;
    } else if (one_of(e->name, of_shape)) {
        s->elementwise = false;
    } else if (one_of(e->name, either)) {
        /* of two numbers; the reductions of that name make it no less elementwise only when they are not
         * meant */
        s->elementwise = s->elementwise && e->a != NULL && e->a->next != NULL && e->a->next->next == NULL &&
                         e->a->next->keyword == NULL;
    } else if (!one_of(e->name, plain)) {
        return scan_callee(s, e->name, e->at);
    }
    return PPTO_OK;
}

/* Mostly on numbers of record time; the operators behind them are elementwise all but one, and never the
 * text's own. */
static void scan_infix(scan *s, pp_infix op)
{
    s->elementwise = s->elementwise && op != PP_I_MATMUL;
    s->literal = s->literal || op == PP_I_POW;
}

static ppto_status scan_binary(scan *s, const pp_expr *e)
{
    for (; e->kind == PP_E_BINARY; e = e->a) {
        scan_infix(s, (pp_infix)e->op);
        PP_TRY(scan_expr(s, e->b));
    }
    return scan_expr(s, e);
}

static ppto_status scan_expr(scan *s, const pp_expr *e)
{
    if (e == NULL) return PPTO_OK;
    switch (e->kind) {
    case PP_E_CALL: return scan_call(s, e);
    case PP_E_BINARY: return scan_binary(s, e);
    case PP_E_UNARY: return scan_expr(s, e->a);
    case PP_E_ATTR:
        if (strcmp(e->name, "dtype") != 0 && !s->definition->is_fold) s->elementwise = false;
        return scan_expr(s, e->a);
    case PP_E_INDEX: s->elementwise = false; break;
    case PP_E_LIST:
    case PP_E_TUPLE:
        for (const pp_expr *a = e->a; a != NULL; a = a->next) PP_TRY(scan_expr(s, a));
        return PPTO_OK;
    default: break;
    }
    PP_TRY(scan_expr(s, e->a));
    for (const pp_expr *b = e->b; b != NULL; b = b->next) PP_TRY(scan_expr(s, b));
    return scan_expr(s, e->c);
}

static ppto_status scan_block(scan *s, const pp_stmt *stmt)
{
    for (; stmt != NULL; stmt = stmt->next) {
        for (const pp_expr *e = stmt->value; e != NULL; e = e->next) PP_TRY(scan_expr(s, e));
        PP_TRY(scan_block(s, stmt->then));
        PP_TRY(scan_block(s, stmt->otherwise));
    }
    return PPTO_OK;
}

static bool scalar_params(const pp_definition *d)
{
    bool any = false;
    for (size_t i = 0; i < d->n_params; i++) {
        const pp_param *p = &d->param[i];
        if (p->spec == PP_SPEC_TENSORS || p->has_shape) return false;
        any = any || pp_param_is_tensor(p);
    }
    return any;
}

static ppto_status scan_definition(pp_library *library, pp_definition *d, unsigned depth, pp_error *err)
{
    scan s = {library, d, err, !d->is_fold && scalar_params(d), false, false, depth};
    if (depth > SCAN_DEPTH)
        return pp_unit_fail(d->owner, d->at, err, PPTO_E_LIMIT, "operators call each other more than %d deep",
                            SCAN_DEPTH);
    d->traits.elementwise = d->traits.literal = PP_SCAN_OPEN;
    for (size_t i = 0; i < d->n_params; i++) PP_TRY(scan_expr(&s, d->param[i].fallback));
    PP_TRY(scan_block(&s, d->body));
    const pp_fold_part *parts[] = {&d->lift, &d->step, &d->join, &d->finish};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) PP_TRY(scan_block(&s, parts[i]->body));
    d->traits = (pp_traits){.elementwise = s.elementwise ? PP_SCAN_YES : PP_SCAN_NO,
                            .literal = s.literal ? PP_SCAN_YES : PP_SCAN_NO,
                            .open = s.open};
    return PPTO_OK;
}

/* A definition whose traits are to be found here; NULL for an alias and for what came from the shelf. */
static pp_definition *scanned(const pp_library *library, size_t i)
{
    const pp_library_name *row = &library->names.at[i];
    bool shelved = row->definition->builtin && library->shelf.n != 0;
    return row->name == row->definition->name && !shelved ? row->definition : NULL;
}

ppto_status pp_library_check(pp_library *library, pp_error *err)
{
    bool again = false;
    for (size_t i = 0; i < library->names.n; i++) {
        const pp_definition *d = scanned(library, i);
        again = again || (d != NULL && (d->traits.open || d->traits.elementwise == PP_SCAN_OPEN));
    }
    for (size_t i = 0; i < library->names.n; i++) {
        pp_definition *d = scanned(library, i);
        if (d != NULL && again) d->traits = (pp_traits){PP_SCAN_NEW, PP_SCAN_NEW, false};
    }
    for (size_t i = 0; i < library->names.n; i++) {
        pp_definition *d = scanned(library, i);
        if (d != NULL && d->traits.elementwise == PP_SCAN_NEW) PP_TRY(scan_definition(library, d, 0, err));
    }
    return PPTO_OK;
}
