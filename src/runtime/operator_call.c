/* SPDX-License-Identifier: Apache-2.0
 * Calls of operators from C: arguments are collected by name, then recorded directly, or as text when one of
 * them is an expression of the language. */
#include "runtime/operator_call.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ops/scalar.h"
#include "ops/scalar_inline.h"

void pp_call_begin(pp_call *c, ppto_site site, ppto_graph *graph, const char *name)
{
    c->name = name; /* the arguments are left as they are: they are set when they are added */
    c->site = site;
    c->graph = graph;
    c->null_tensor = c->other_graph = c->as_text = false;
    c->n = c->n_tensors = 0;
    c->list = NULL;
}

static pp_arg *add(pp_call *c, const char *param, pp_arg_kind kind)
{
    pp_arg *arg = &c->arg[c->n < PP_CALL_ARGS ? c->n++ : PP_CALL_ARGS - 1];
    arg->kind = (uint8_t)kind; /* says which of the others are set */
    arg->keyword = param;
    return arg;
}

static void meet(pp_call *c, const ppto_tensor *x)
{
    if (!x)
        c->null_tensor = true;
    else if (!c->graph)
        c->graph = x->graph;
    else if (c->graph != x->graph)
        c->other_graph = true;
}

void pp_call_tensor(pp_call *c, const char *param, ppto_tensor *x)
{
    bool first = c->n == c->n_tensors; /* nothing but tensors so far: by position */
    pp_arg *arg = add(c, first ? NULL : param, PP_ARG_TENSOR);
    meet(c, x);
    if (x) arg->tensor = x->ref;
    if (c->n_tensors < PP_CALL_ARGS) c->tensor[c->n_tensors++] = x;
}

void pp_call_tensors(pp_call *c, const char *param, size_t n, ppto_tensor *const *xs)
{
    for (size_t i = 0; i < n; i++) meet(c, xs ? xs[i] : NULL);
    add(c, param, PP_ARG_TENSORS)->n = n;
    c->list = xs;
}

void pp_call_int(pp_call *c, const char *param, int64_t value, bool optional)
{
    if (value != PPTO_NONE || !optional) add(c, param, PP_ARG_INT)->i = value;
}

void pp_call_axes(pp_call *c, const char *param, int64_t value, bool optional)
{
    if (value != PPTO_ALL)
        add(c, param, PP_ARG_INT)->i = value;
    else if (!optional)
        add(c, param, PP_ARG_STR)->text = "all";
}

void pp_call_float(pp_call *c, const char *param, double value)
{
    add(c, param, PP_ARG_FLOAT)->f = value;
}

void pp_call_number(pp_call *c, const char *param, double value, bool optional)
{
    if (isnan(value) && optional) return;
    if (value == pp_op_rint_f64(value) && fabs(value) < 0x1p53)
        add(c, param, PP_ARG_INT)->i = (int64_t)value;
    else
        add(c, param, PP_ARG_FLOAT)->f = value;
}

void pp_call_bool(pp_call *c, const char *param, bool value)
{
    add(c, param, PP_ARG_BOOL)->i = value;
}

void pp_call_ints(pp_call *c, const char *param, ppto_ints value, bool optional)
{
    if (value.n == 0 && optional) return;
    pp_arg *arg = add(c, param, PP_ARG_INTS);
    arg->ints = value.at;
    arg->n = value.n;
}

void pp_call_word(pp_call *c, const char *param, const char *value)
{
    if (value) add(c, param, PP_ARG_STR)->text = value;
}

void pp_call_dtype(pp_call *c, const char *param, const char *value)
{
    ppto_dtype dtype;
    if (!value) return;
    if (pp_dtype_parse(value, strlen(value), &dtype))
        add(c, param, PP_ARG_DTYPE)->i = dtype;
    else
        add(c, param, PP_ARG_STR)->text = value; /* the operator says that it is none */
}

void pp_call_text(pp_call *c, const char *param, const char *value)
{
    if (!value) return;
    add(c, param, PP_ARG_VALUE)->text = value;
    c->as_text = true;
}

/* ---- recording
 * -------------------------------------------------------------------------------------------------------- */

static ppto_status fail(const pp_call *c, ppto_status code, const char *text)
{
    pp_error err = {.site = c->site};
    char place[PP_SITE_ROOM];
    if (c->site.file)
        pp_fail(&err, code, "%s: %s\n  recorded at %s", c->name, text,
                pp_site_text(&c->site, place, sizeof place));
    else
        pp_fail(&err, code, "%s: %s", c->name, text);
    pp_error *first = c->graph ? pp_graph_error(c->graph->graph) : NULL;
    if (first && first->code == PPTO_OK) *first = err;
    return pp_report(&err);
}

/* A list of tensors as refs, in the graph's arena. */
static ppto_status take_list(pp_call *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        pp_arg *arg = &c->arg[i];
        if (arg->kind != PP_ARG_TENSORS) continue;
        pp_ref *refs = pp_arena_alloc(&c->graph->arena, (arg->n + 1) * sizeof *refs);
        if (!refs) return PPTO_E_NOMEM;
        for (size_t k = 0; k < arg->n; k++) refs[k] = c->list[k]->ref;
        arg->tensors = refs;
    }
    return PPTO_OK;
}

static void print_float(double value, pp_text *out)
{
    if (isnan(value))
        pp_text_add(out, "nan");
    else if (isinf(value))
        pp_text_add(out, value < 0 ? "-inf" : "inf");
    else
        pp_text_add(out, "%a", value);
}

static void print_argument(const pp_arg *arg, pp_text *out)
{
    pp_text_add(out, "%s%s=", out->n ? ", " : "", arg->keyword);
    switch (arg->kind) {
    case PP_ARG_INT: pp_text_add(out, "%lld", (long long)arg->i); break;
    case PP_ARG_FLOAT: print_float(arg->f, out); break;
    case PP_ARG_BOOL: pp_text_add(out, "%s", arg->i ? "true" : "false"); break;
    case PP_ARG_DTYPE: pp_text_add(out, "%s", ppto_dtype_name((ppto_dtype)arg->i)); break;
    case PP_ARG_INTS:
        pp_text_add(out, "[");
        for (size_t k = 0; k < arg->n; k++)
            pp_text_add(out, "%s%lld", k ? ", " : "", (long long)arg->ints[k]);
        pp_text_add(out, "]");
        break;
    default: pp_text_add(out, "%s", arg->text);
    }
}

static ppto_status record_text(pp_call *c, ppto_tensor **results, size_t n)
{
    pp_text params = {0};
    for (uint32_t i = 0; i < c->n; i++)
        if (c->arg[i].kind != PP_ARG_TENSOR) print_argument(&c->arg[i], &params);
    ppto_status status = params.failed ? fail(c, PPTO_E_NOMEM, "out of memory")
                                       : ppto_opn_at(c->site, c->graph, c->name, params.at, c->n_tensors,
                                                     c->tensor, n, results);
    pp_text_free(&params);
    return status;
}

static ppto_status find(pp_call *c, const pp_definition **out)
{
    *out = NULL;
    const size_t at = ((uintptr_t)c->name ^ (uintptr_t)c->name >> 5) % PP_RECENT_NAMES;
    if (c->graph->recent[at].name != c->name) {
        c->graph->recent[at].name = NULL;
        ppto_status status = pp_library_find(pp_graph_library(c->graph->graph), c->name,
                                             &c->graph->recent[at].definition, NULL);
        if (status != PPTO_OK) return fail(c, status, ppto_status_text(status));
        if (c->graph->recent[at].definition == NULL) return fail(c, PPTO_E_NAME, "there is no such operator");
        c->graph->recent[at].name = c->name;
    }
    *out = c->graph->recent[at].definition;
    return PPTO_OK;
}

/* A call of tensors alone like one before. */
static bool record_again(pp_call *c, const pp_definition *definition, pp_ref *refs, size_t *count)
{
    pp_ref given[PP_CALL_ARGS];
    uint32_t node, n;
    for (uint32_t i = 0; i < c->n; i++) given[i] = c->arg[i].tensor;
    if (!pp_graph_call_again(c->graph->graph, definition, c->name, given, c->n, c->site, &node, &n) ||
        n > PP_CALL_FEW)
        return false;
    for (uint32_t i = 0; i < n; i++) refs[i] = (pp_ref){node, i};
    *count = n;
    return true;
}

ppto_status pp_call_record(pp_call *c, pp_ref **refs, size_t *count)
{
    pp_graph *graph = c->graph->graph;
    const pp_definition *definition;
    PP_TRY(find(c, &definition));
    if (pp_call_is_plain(c) && record_again(c, definition, *refs, count)) return PPTO_OK;
    ppto_status status = pp_graph_call(graph, definition, c->name, c->arg, c->n, c->site, refs, count);
    if (status == PPTO_OK) return status;
    if (pp_graph_error(graph)->code == PPTO_OK) return fail(c, status, ppto_status_text(status));
    pp_report(pp_graph_error(graph));
    return status;
}

static ppto_status give(pp_call *c, const pp_ref *refs, size_t count, ppto_tensor **results, size_t n)
{
    if (count != n) {
        char text[96];
        snprintf(text, sizeof text, "it has %zu results, expected %zu", count, n);
        return fail(c, PPTO_E_VALUE, text);
    }
    for (size_t i = 0; i < n; i++)
        if (!(results[i] = pp_tensor_handle(c->graph, refs[i]))) return PPTO_E_NOMEM;
    return PPTO_OK;
}

static ppto_status give_of_track(pp_call *c, pp_ref first, uint32_t count, ppto_tensor **results, size_t n)
{
    pp_ref refs[PP_CALL_RESULTS];
    if (count == 1) return give(c, &first, 1, results, n);
    for (uint32_t i = 0; i < count && i < PP_CALL_RESULTS; i++) refs[i] = (pp_ref){first.node, i};
    return give(c, refs, count, results, n);
}

static ppto_status record(pp_call *c, ppto_tensor **results, size_t n)
{
    pp_ref room[PP_CALL_FEW], *refs = room, first;
    size_t count = 0;
    uint32_t many;
    if (c->list && take_list(c) != PPTO_OK) return fail(c, PPTO_E_NOMEM, "out of memory");
    if (pp_track_call(c->graph, c, &first, &many)) return give_of_track(c, first, many, results, n);
    PP_TRY(pp_graph_error(c->graph->graph)->code);
    PP_TRY(pp_call_record(c, &refs, &count));
    pp_track_kept(c->graph, pp_call_is_plain(c) ? c->name : NULL);
    return give(c, refs, count, results, n);
}

ppto_status pp_call_many(pp_call *c, ppto_tensor **results, size_t n)
{
    for (size_t i = 0; results && i < n; i++) results[i] = NULL;
    if (!c->graph) /* why a tensor is NULL is known to the thread already */
        return *ppto_error_text(NULL) ? ppto_error_status(NULL)
                                      : fail(c, PPTO_E_VALUE, "its tensors are NULL");
    PP_TRY(pp_tensor_status(c->graph));
    if (!results) return fail(c, PPTO_E_VALUE, "there is no room for its results");
    if (c->null_tensor) return fail(c, PPTO_E_VALUE, "an operand is NULL");
    if (c->other_graph) return fail(c, PPTO_E_VALUE, "its operands belong to different graphs");
    return c->as_text ? record_text(c, results, n) : record(c, results, n);
}

ppto_tensor *pp_call_one(pp_call *c)
{
    ppto_tensor *result = NULL;
    pp_call_many(c, &result, 1);
    return result;
}
