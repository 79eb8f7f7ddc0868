/* SPDX-License-Identifier: Apache-2.0
 * Programs and expressions: the evaluator in GRAPH mode, with what only a program has: inputs, free names,
 * what C passed along, outputs. A message carries the place in the text, and so does a node when C does not
 * say where the text stands. */
#include <string.h>

#include "graph/graph_impl.h"
#include "graph/text_place.h"

struct pp_eval_program {
    const pp_unit *unit;
    const pp_ref *dollars;
    size_t n_dollars;
    pp_declare_input declare;
    void *arg;
    ppto_site site; /* file NULL: each node's place in the text */
    pp_text_places places;
    const char *file;
    PP_VEC(const char *) names; /* of results */
    PP_VEC(pp_ref) results;
    pp_scope outputs; /* the names that are given */
};

/* ---- what GRAPH mode asks for ------------------------------------------------------------------------ */

static ppto_status dollar(pp_eval *ev, const char *name, pp_value *out)
{
    size_t i = 0;
    for (const char *p = name + 1; *p >= '0' && *p <= '9' && i < 1000000; p++)
        i = i * 10 + (size_t)(*p - '0');
    if (i >= ev->program->n_dollars)
        return pp_eval_fail(ev, PPTO_E_NAME, "`%.20s`: %zu tensors were passed along", name,
                            ev->program->n_dollars);
    *out = (pp_value){.kind = PP_V_REF, .u.ref = ev->program->dollars[i]};
    return out->u.ref.node != PP_NONE ? PPTO_OK
                                      : pp_eval_fail(ev, PPTO_E_VALUE, "`%.20s` is no tensor", name);
}

static ppto_status site_at(pp_eval *ev, uint32_t at, ppto_site *out)
{
    pp_eval_program *program = ev->program;
    uint32_t line, column;
    *out = program->site;
    if (out->file != NULL) return PPTO_OK;
    PP_TRY(pp_text_place(&program->places, at, &line, &column));
    if (program->file == NULL) program->file = pp_library_file(ev->library, program->unit->file);
    *out = (ppto_site){program->file, "", (int32_t)line, (int32_t)column};
    return program->file != NULL ? PPTO_OK : PPTO_E_NOMEM;
}

static bool named_size(const pp_eval *ev, const char *name, pp_value *out)
{
    if (!pp_sizes_has(ev->sizes, name)) return false;
    *out = pp_value_int(pp_size_name(ev->sizes, name, strlen(name)));
    return true;
}

ppto_status pp_program_name(pp_eval *ev, const pp_expr *e, pp_value *out)
{
    *out = (pp_value){.kind = PP_V_REF};
    if (e->name[0] == '$') return dollar(ev, e->name, out);
    if (pp_graph_find_input(ev->graph, e->name, &out->u.ref)) return PPTO_OK;
    if (named_size(ev, e->name, out)) return PPTO_OK;
    if (pp_library_owner(ev->library, e->name) != PP_NAME_FREE)
        return pp_eval_fail(ev, PPTO_E_NAME, "`%.60s` is an operator, expected its arguments in ( )",
                            e->name);
    if (ev->program->declare == NULL)
        return pp_eval_fail(ev, PPTO_E_NAME, "`%.60s` is no input and no variable", e->name);
    return ev->program->declare(ev->program->arg, ev->graph, e->name, &out->u.ref, ev->err);
}

const pp_unit *pp_program_unit(const pp_eval *ev)
{
    return ev->program != NULL ? ev->program->unit : NULL;
}

ppto_status pp_program_check_name(pp_eval *ev, const char *name)
{
    pp_ref ref;
    if (pp_library_owner(ev->library, name) != PP_NAME_FREE)
        return pp_eval_fail(ev, PPTO_E_NAME, "`%.60s` is an operator, expected another name", name);
    if (pp_graph_find_input(ev->graph, name, &ref))
        return pp_eval_fail(ev, PPTO_E_NAME, "`%.60s` is an input, expected another name", name);
    return PPTO_OK;
}

ppto_status pp_program_call(pp_eval *ev, const pp_definition *definition, const char *called_as, uint32_t at,
                            const pp_given *given, size_t n, bool scan, pp_value *out)
{
    uint32_t node;
    ppto_site site;
    ev->at = at;
    PP_TRY(site_at(ev, at, &site));
    PP_TRY(pp_graph_record(ev->graph, definition, called_as, given, n, scan, site, ev->err, &node));
    uint32_t count = pp_graph_results(ev->graph, node);
    bool listed = ev->graph->nodes.at[node].u.expansion->listed;
    *out = (pp_value){.kind = PP_V_REF, .u.ref = {node, 0}};
    if (count == 1 && !listed) return PPTO_OK;
    pp_value *items;
    PP_TRY(pp_eval_items(ev, count, &items));
    for (uint32_t i = 0; i < count; i++) items[i] = (pp_value){.kind = PP_V_REF, .u.ref = {node, i}};
    *out = (pp_value){.kind = listed ? PP_V_LIST : PP_V_TUPLE, .n = count, .u.items = items};
    return PPTO_OK;
}

/* ---- inputs and outputs ------------------------------------------------------------------------------ */

static ppto_status declared_input(pp_eval *ev, const pp_input_decl *decl)
{
    pp_type type = {.dtype = decl->dtype};
    ppto_site site;
    pp_ref ref;
    pp_type_id id;
    ev->at = decl->at;
    if (pp_library_owner(ev->library, decl->name) != PP_NAME_FREE)
        return pp_eval_fail(ev, PPTO_E_NAME, "`%.60s` is an operator, expected another name", decl->name);
    PP_TRY(pp_type_parse_dims(ev->types, decl->dims, &type, ev->err));
    if (!pp_graph_find_input(ev->graph, decl->name, &ref))
        return site_at(ev, decl->at, &site) == PPTO_OK
                   ? pp_graph_input_type(ev->graph, decl->name, &type, site, &ref)
                   : PPTO_E_NOMEM;
    PP_TRY(pp_type_intern(ev->types, &type, &id));
    if (id == pp_graph_type(ev->graph, ref)) return PPTO_OK;
    pp_text text = {0};
    pp_type_print(ev->types, &type, &text);
    pp_text_add(&text, ", and it is bound as ");
    pp_type_print(ev->types, pp_type_get(ev->types, pp_graph_type(ev->graph, ref)), &text);
    ppto_status status = pp_eval_fail(ev, PPTO_E_SHAPE, "the input `%.60s` is declared as %s", decl->name,
                                      text.at != NULL ? text.at : "?");
    pp_text_free(&text);
    return status;
}

static ppto_status add_result(pp_eval *ev, const char *name, const pp_value *value)
{
    pp_eval_program *program = ev->program;
    pp_value ref = *value;
    ppto_site site;
    if (name != NULL && pp_scope_find(&program->outputs, name, 0) != PP_SCOPE_NONE)
        return pp_eval_fail(ev, PPTO_E_NAME, "the output `%.60s` is given twice", name);
    if (value->kind == PP_V_INT || value->kind == PP_V_FLOAT) {
        PP_TRY(site_at(ev, ev->at, &site));
        PP_TRY(pp_graph_number(ev->graph, value, site, &ref));
    }
    if (pp_value_is_wide(&ref)) return pp_eval_no_fit(ev, value, PPTO_I64);
    if (ref.kind != PP_V_REF) return pp_eval_fail(ev, PPTO_E_VALUE, "a result is a tensor or a number");
    if (name != NULL) PP_TRY(pp_scope_push(&program->outputs, name));
    PP_TRY(pp_vec_push(&program->names, name));
    return pp_vec_push(&program->results, ref.u.ref);
}

static ppto_status add_results(pp_eval *ev, const char *name, const pp_value *value)
{
    if (!pp_value_is_list(value)) return add_result(ev, name, value);
    if (name != NULL && value->n != 1)
        return pp_eval_fail(ev, PPTO_E_VALUE, "%u results for the output `%.60s`", value->n, name);
    for (uint32_t i = 0; i < value->n; i++) PP_TRY(add_result(ev, name, &value->u.items[i]));
    return PPTO_OK;
}

static ppto_status output(pp_eval *ev, const pp_stmt *stmt)
{
    pp_value value = {0};
    const char *name = stmt->names != NULL ? stmt->names->text : NULL;
    PP_TRY(pp_eval_expr(ev, stmt->value, &value));
    if (name == NULL && stmt->value->kind == PP_E_NAME && stmt->value->name[0] != '$')
        name = stmt->value->name;
    bool same = name != NULL && stmt->value->kind == PP_E_NAME && strcmp(name, stmt->value->name) == 0;
    if (stmt->names != NULL && !same && !pp_value_is_list(&value)) PP_TRY(pp_eval_set(ev, name, &value));
    return add_results(ev, name, &value);
}

static ppto_status run(pp_eval *ev)
{
    const pp_unit *unit = ev->program->unit;
    for (const pp_input_decl *decl = unit->inputs; decl != NULL; decl = decl->next)
        PP_TRY(declared_input(ev, decl));
    for (const pp_stmt *stmt = unit->body; stmt != NULL; stmt = stmt->next) {
        pp_value value = {0};
        bool valued = false;
        ev->at = stmt->at;
        if (stmt->kind == PP_S_OUTPUT) {
            PP_TRY(output(ev, stmt));
            continue;
        }
        pp_stmt alone = *stmt;
        alone.next = NULL;
        PP_TRY(pp_eval_block(ev, &alone, &valued, &value));
        if (valued) PP_TRY(add_results(ev, NULL, &value));
    }
    if (ev->program->results.n != 0) return PPTO_OK;
    return pp_eval_fail(ev, PPTO_E_VALUE, "the program has no result, expected a value or `output`");
}

/* ---- entry ----------------------------------------------------------------------------------------- */

static ppto_status hand_over(pp_graph *graph, const pp_eval_program *program, const char ***names,
                             pp_ref **results, size_t *n_results)
{
    size_t n = program->results.n;
    *results = pp_arena_alloc(&graph->arena, n * sizeof **results);
    *names = pp_arena_alloc(&graph->arena, n * sizeof **names);
    if (*results == NULL || *names == NULL) return PPTO_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        (*results)[i] = program->results.at[i];
        if (program->names.at[i] == NULL) continue;
        (*names)[i] = pp_graph_word(graph, program->names.at[i]);
        if ((*names)[i] == NULL) return PPTO_E_NOMEM;
    }
    *n_results = n;
    return PPTO_OK;
}

/* The message with its place, unless it has one already. */
static ppto_status place_error(const pp_unit *unit, const pp_eval *ev, const pp_error *from,
                               ppto_status status, pp_error *err)
{
    const char *what = from->code != PPTO_OK ? from->text : ppto_status_text(status);
    if (strchr(what, '\n') != NULL) return pp_fail(err, status, "%s", what);
    return pp_unit_fail(unit, ev->at, err, status, "%s", what);
}

ppto_status pp_graph_text(pp_graph *graph, const pp_unit *unit, const pp_ref *dollars, size_t n_dollars,
                          pp_declare_input declare, void *arg, ppto_site site, const char ***names,
                          pp_ref **results, size_t *n_results)
{
    pp_arena arena = {0};
    pp_error err, placed;
    pp_error_clear(&err);
    pp_error_clear(&placed);
    pp_eval_program program = {.unit = unit,
                               .dollars = dollars,
                               .n_dollars = n_dollars,
                               .declare = declare,
                               .arg = arg,
                               .site = site,
                               .places = {.unit = unit}};
    pp_eval ev = {.mode = PP_EVAL_GRAPH,
                  .library = graph->library,
                  .types = graph->types,
                  .graph = graph,
                  .err = &err,
                  .sizes = pp_types_sizes(graph->types),
                  .arena = &arena,
                  .program = &program};
    *n_results = 0;
    graph->text_first = (uint32_t)graph->nodes.n;
    ppto_status status = pp_graph_no_memory(graph, run(&ev), &err);
    if (status == PPTO_OK) status = hand_over(graph, &program, names, results, n_results);
    if (status != PPTO_OK) {
        place_error(unit, &ev, &err, status, &placed);
        placed.site = site;
        pp_graph_keep_error(graph, &placed);
    }
    pp_scope_free(&program.outputs);
    pp_vec_free(&program.places.marks);
    pp_vec_free(&program.names);
    pp_vec_free(&program.results);
    pp_eval_free(&ev);
    pp_arena_free(&arena);
    return status;
}
