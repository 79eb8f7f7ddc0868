/* SPDX-License-Identifier: Apache-2.0
 * Calls from C: arguments as values, and messages that say where the operands came from. The first line of a
 * message is that of the recorder, with the call itself where it tells not all operands; the second names the
 * site of the call, each operand's operator and site, and the input an operand comes from when only operators
 * lie between that keep all elements (so its shape explains the operand's). */
#include <inttypes.h>
#include <string.h>

#include "graph/graph_impl.h"

enum { WALK_LIMIT = 16, LISTED_OPERANDS = 4, LISTED_ARGUMENTS = 8, LISTED_LENGTH = 100 };

static ppto_status take_list(pp_graph *graph, const pp_arg *arg, pp_arena *arena, pp_value *out)
{
    pp_value *items = pp_arena_alloc(arena, (arg->n + 1) * sizeof *items);
    if (items == NULL || arg->n > UINT32_MAX) return PPTO_E_NOMEM;
    for (size_t i = 0; i < arg->n; i++) {
        if (arg->kind == PP_ARG_TENSORS)
            items[i] = (pp_value){.kind = PP_V_REF, .u.ref = arg->tensors[i]};
        else
            items[i] = pp_value_int(pp_size_const(pp_types_sizes(graph->types), arg->ints[i]));
        if (arg->kind == PP_ARG_TENSORS && arg->tensors[i].node == PP_NONE) return PPTO_E_VALUE;
    }
    *out = (pp_value){.kind = PP_V_LIST, .n = (uint32_t)arg->n, .u.items = items};
    return PPTO_OK;
}

/* E_VALUE: an operand is no tensor, because an earlier call failed. */
static ppto_status take_arg(pp_graph *graph, const pp_arg *arg, pp_arena *arena, pp_value *out)
{
    *out = (pp_value){.kind = PP_V_NONE};
    switch (arg->kind) {
    case PP_ARG_TENSOR:
        *out = (pp_value){.kind = PP_V_REF, .u.ref = arg->tensor};
        return arg->tensor.node != PP_NONE ? PPTO_OK : PPTO_E_VALUE;
    case PP_ARG_TENSORS:
    case PP_ARG_INTS: return take_list(graph, arg, arena, out);
    case PP_ARG_INT: *out = pp_value_int(pp_size_const(pp_types_sizes(graph->types), arg->i)); break;
    case PP_ARG_FLOAT: *out = pp_value_float(arg->f); break;
    case PP_ARG_BOOL: *out = pp_value_bool(arg->i != 0 ? PP_TRUE : PP_FALSE); break;
    case PP_ARG_STR: *out = pp_value_text(arg->text); break;
    case PP_ARG_DTYPE: *out = pp_value_of_dtype((ppto_dtype)arg->i); break;
    case PP_ARG_SIZE: *out = pp_value_int((pp_size)arg->i); break;
    case PP_ARG_VALUE: *out = *arg->value; break;
    default: break;
    }
    return PPTO_OK;
}

/* ---- messages -------------------------------------------------------------------------------------- */

static void add_site(pp_text *text, ppto_site site)
{
    char place[PP_SITE_ROOM];
    if (site.file != NULL) pp_text_add(text, " at %s", pp_site_text(&site, place, sizeof place));
}

static void add_input(pp_graph *graph, pp_text *text, const pp_node *node)
{
    pp_text_add(text, "%s: ", graph->inputs.at[node->u.input].name);
    pp_type_print(graph->types, pp_type_get(graph->types, node->type), text);
    add_site(text, node->site);
}

/* Up the first operands while the number of elements stays. */
static const pp_node *origin(pp_graph *graph, pp_ref ref)
{
    pp_size elements = pp_type_elements(graph->types, pp_type_get(graph->types, pp_graph_type(graph, ref)));
    for (unsigned i = 0; i < WALK_LIMIT; i++) {
        const pp_node *node = &graph->nodes.at[ref.node];
        if (node->kind == PP_N_INPUT) return node;
        if (node->n_operands == 0) return NULL;
        ref = graph->operands.at[node->first_operand];
        if (pp_type_elements(graph->types, pp_type_get(graph->types, pp_graph_type(graph, ref))) != elements)
            return NULL;
    }
    return NULL;
}

static void add_operand(pp_graph *graph, pp_text *text, const char *label, pp_ref ref)
{
    const pp_node *node = &graph->nodes.at[ref.node];
    pp_text_add(text, "; %s: ", label);
    if (node->kind == PP_N_INPUT) {
        add_input(graph, text, node);
        return;
    }
    if (node->kind == PP_N_LITERAL) {
        double f;
        memcpy(&f, &node->u.bits, sizeof f);
        if (pp_type_get(graph->types, node->type)->dtype == PPTO_F64)
            pp_text_add(text, "%.17g", f);
        else
            pp_text_add(text, "%" PRId64, (int64_t)node->u.bits);
        return;
    }
    pp_text_add(text, "%s", node->called_as);
    add_site(text, node->site);
    const pp_node *from = origin(graph, ref);
    if (from == NULL) return;
    pp_text_add(text, ", from ");
    add_input(graph, text, from);
}

static void print_argument(const pp_eval *ev, const pp_param *p, const pp_given *given, pp_text *out)
{
    pp_text value = {0};
    pp_eval_print(ev, &given->value, &value);
    const char *name = given->keyword != NULL                ? given->keyword
                       : p != NULL && !pp_param_is_tensor(p) ? p->name
                                                             : NULL;
    if (name != NULL) pp_text_add(out, "%.40s=", name);
    pp_text_add(out, value.n > LISTED_LENGTH ? "%.*s…" : "%.*s", LISTED_LENGTH,
                value.at != NULL ? value.at : "?");
    pp_text_free(&value);
}

/* Whether the text tells the type of every tensor given (lists: of all in it). */
static bool tells_types(const pp_eval *ev, const pp_value *value, const char *text)
{
    bool told = true;
    if (pp_value_is_list(value))
        for (uint32_t i = 0; i < value->n && told; i++) told = tells_types(ev, &value->u.items[i], text);
    if (!pp_value_is_tensor(value)) return told;
    pp_text type = {0};
    pp_eval_print(ev, value, &type);
    told = type.at != NULL && strstr(text, type.at) != NULL;
    pp_text_free(&type);
    return told;
}

void pp_graph_name_call(const pp_eval *ev, const pp_definition *d, const pp_given *given, size_t n,
                        pp_error *err)
{
    bool told = err == NULL || err->code == PPTO_E_NOMEM, hidden = d->name[0] == '_';
    pp_text text = {0};
    if (told) return;
    told = true;
    for (size_t i = 0; i < n && told; i++) told = tells_types(ev, &given[i].value, err->text);
    if (told) return;
    pp_text_add(&text, "%s, in %s(", err->text, ev->called_as);
    for (size_t i = 0; i < n && i < LISTED_ARGUMENTS; i++) {
        const pp_param *p = pp_eval_param_for(d, i, given[i].keyword);
        if (hidden && !pp_value_is_tensor(&given[i].value)) continue; /* written otherwise in a text */
        if (i != 0) pp_text_add(&text, ", ");
        print_argument(ev, p, &given[i], &text);
    }
    pp_text_add(&text, n > LISTED_ARGUMENTS ? ", …)" : ")");
    if (!text.failed) {
        pp_error before = *err;
        pp_error_clear(err);
        pp_fail(err, before.code, "%s", text.at);
        err->site = before.site;
    }
    pp_text_free(&text);
}

static void explain(pp_graph *graph, const pp_definition *d, const pp_given *given, size_t n, ppto_site site,
                    pp_error *err)
{
    pp_text text = {0};
    pp_ref refs[LISTED_OPERANDS];
    const char *names[LISTED_OPERANDS];
    size_t count = 0;
    for (size_t i = 0; i < n && count < LISTED_OPERANDS; i++) {
        if (given[i].value.kind != PP_V_REF) continue;
        const pp_param *p = pp_eval_param_for(d, i, given[i].keyword);
        names[count] = p != NULL ? p->name : "operand";
        refs[count++] = given[i].value.u.ref;
    }
    pp_text_add(&text, "%s", err->text);
    if (site.file != NULL) {
        pp_text_add(&text, "\n  recorded");
        add_site(&text, site);
        for (size_t i = 0; i < count; i++)
            add_operand(graph, &text, count == 2 ? i == 0 ? "left" : "right" : names[i], refs[i]);
    }
    if (!text.failed) {
        ppto_status code = err->code;
        pp_error_clear(err);
        pp_fail(err, code, "%s", text.at);
    }
    err->site = site;
    pp_text_free(&text);
}

/* ---- the call -------------------------------------------------------------------------------------- */

static ppto_status take_results(pp_graph *graph, uint32_t node, pp_ref **results, size_t *n_results)
{
    size_t n = pp_graph_results(graph, node);
    if (n > 8) {
        *results = pp_arena_alloc(&graph->arena, n * sizeof **results);
        if (*results == NULL) return PPTO_E_NOMEM;
    }
    for (size_t i = 0; i < n; i++) (*results)[i] = (pp_ref){node, (uint32_t)i};
    *n_results = n;
    return PPTO_OK;
}

static ppto_status call_values(pp_graph *graph, const pp_definition *d, const char *called_as,
                               const pp_arg *args, size_t n, ppto_site site, pp_arena *arena, pp_error *err,
                               uint32_t *node)
{
    pp_given given[PP_MAX_BOUND];
    if (n > PP_MAX_BOUND) return pp_fail(err, PPTO_E_LIMIT, "%s: %zu arguments are too many", called_as, n);
    for (size_t i = 0; i < n; i++) {
        given[i].keyword = args[i].keyword;
        given[i].at = 0;
        PP_TRY(take_arg(graph, &args[i], arena, &given[i].value));
    }
    ppto_status status = pp_graph_record(graph, d, called_as, given, n, false, site, err, node);
    if (status != PPTO_OK) explain(graph, d, given, n, site, err);
    return status;
}

ppto_status pp_graph_call(pp_graph *graph, const pp_definition *definition, const char *called_as,
                          const pp_arg *args, size_t n_args, ppto_site site, pp_ref **results,
                          size_t *n_results)
{
    pp_arena arena = {0};
    pp_error err;
    uint32_t node = PP_NONE;
    ppto_status status;
    *n_results = 0;
    if (called_as == NULL) called_as = definition->name;
    pp_error_clear(&err);
    status = call_values(graph, definition, called_as, args, n_args, site, &arena, &err, &node);
    if (status == PPTO_OK) status = take_results(graph, node, results, n_results);
    pp_arena_free(&arena);
    if (status == PPTO_OK) return PPTO_OK;
    if (err.code == PPTO_OK && graph->error.code != PPTO_OK)
        return graph->error.code; /* of an earlier call */
    pp_fail(&err, status, "%s: %s", called_as,
            status == PPTO_E_VALUE ? "an operand is missing" : ppto_status_text(status));
    if (err.site.file == NULL) err.site = site;
    return pp_graph_keep_error(graph, &err);
}
