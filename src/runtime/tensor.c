/* SPDX-License-Identifier: Apache-2.0
 * Graphs and tensors as the user holds them: handles over graph/. */
#include <string.h>

#include "lang/parser.h"
#include "runtime/runtime.h"
#include "runtime/sync.h"

/* The error of a recording call goes to the thread and, when it is the first, stays in the graph. */
void pp_tensor_keep_error(ppto_graph *g, pp_error *err)
{
    pp_error *first = pp_graph_error(g->graph);
    if (err->code == PPTO_OK) return;
    if (first->code == PPTO_OK) *first = *err;
    pp_report(err);
}

static ppto_graph *new_graph(ppto_context *ctx)
{
    pp_error err;
    pp_library *library = NULL;
    ppto_graph *g = NULL;
    pp_error_clear(&err);
    ppto_status status = pp_context_library(ctx, &library, &err);
    if (status == PPTO_OK && !(g = pp_calloc(1, sizeof *g)))
        status = pp_fail(&err, PPTO_E_NOMEM, "out of memory");
    if (status == PPTO_OK) status = pp_graph_create(library, &g->graph);
    if (status != PPTO_OK) {
        pp_free(g);
        pp_fail(&err, status, "%s", ppto_status_text(status));
        pp_report(&err);
        return NULL;
    }
    g->ctx = ctx;
    pp_graph_watch(g->graph, ctx->stacks);
    return g;
}

ppto_graph *ppto_graph_create(ppto_context *ctx)
{
    if (!ctx || pp_context_forked(ctx)) return new_graph(ctx); /* it says why not */
    ppto_graph *g = pp_graph_begin(ctx, NULL);
    if (!g && (g = new_graph(ctx))) pp_graph_begin(ctx, g);
    if (g) atomic_fetch_add_explicit(&ctx->graphs, 1, memory_order_relaxed);
    return g;
}

void pp_graph_free(ppto_graph *g)
{
    pp_graph_streams_free(g);
    pp_graph_files_free(g);
    pp_graph_destroy(g->graph);
    pp_track_free(&g->track);
    for (size_t i = 0; i < g->more.n; i++) pp_free(g->more.at[i]);
    pp_vec_free(&g->more);
    pp_arena_free(&g->arena);
    pp_free(g);
}

void ppto_graph_destroy(ppto_graph *g)
{
    if (!g || pp_context_forked(g->ctx)) return;
    atomic_fetch_sub_explicit(&g->ctx->graphs, 1, memory_order_relaxed);
    if (!pp_graph_keep_idle(g)) pp_graph_free(g);
}

ppto_status ppto_graph_error(const ppto_graph *g)
{
    return g ? pp_tensor_status(g) : PPTO_E_VALUE;
}
const char *ppto_graph_error_text(const ppto_graph *g)
{
    if (!g) return "the graph is NULL";
    const pp_error *err = pp_graph_error(g->graph);
    return err->code == PPTO_OK ? "" : err->text;
}
size_t ppto_graph_size(const ppto_graph *g)
{
    return !g ? 0 : g->track.on ? g->track.rows.n : pp_graph_size(g->graph);
}

/* NULL: out of memory. */
static ppto_tensor *more(ppto_graph *g)
{
    const size_t i = g->n_tensors - PP_FEW_TENSORS, chunk = i / PP_MORE_TENSORS;
    if (chunk == g->more.n) {
        if (pp_vec_reserve(&g->more, chunk + 1) != PPTO_OK) return NULL;
        if (!(g->more.at[chunk] = pp_alloc(PP_MORE_TENSORS * sizeof(ppto_tensor)))) return NULL;
        g->more.n++;
    }
    g->n_tensors++;
    return &g->more.at[chunk][i % PP_MORE_TENSORS];
}

ppto_tensor *pp_tensor_handle(ppto_graph *g, pp_ref ref)
{
    if (ref.node == PP_NONE) return NULL;
    ppto_tensor *t = g->n_tensors < PP_FEW_TENSORS ? &g->few[g->n_tensors++] : more(g);
    if (!t) {
        pp_error err = {0};
        pp_fail(&err, PPTO_E_NOMEM, "out of memory");
        pp_tensor_keep_error(g, &err);
        return NULL;
    }
    *t = (ppto_tensor){.graph = g, .ref = ref};
    return t;
}

static ppto_tensor *recorded(ppto_graph *g, ppto_status status, pp_ref ref)
{
    if (status == PPTO_OK) return pp_tensor_handle(g, ref);
    pp_error err = *pp_graph_error(g->graph);
    pp_fail(&err, status, "%s", ppto_status_text(status));
    pp_tensor_keep_error(g, &err);
    return NULL;
}

ppto_status pp_tensor_status(const ppto_graph *g)
{
    if (!g) return pp_report_new(PPTO_E_VALUE, "the graph is NULL");
    PP_TRY(pp_context_refuses(g->ctx));
    return pp_graph_error(g->graph)->code;
}

bool pp_tensor_usable(const ppto_graph *g)
{
    return pp_tensor_status(g) == PPTO_OK;
}

static ppto_tensor *record_input(ppto_graph *g, const char *name, ppto_dtype dtype, bool weak,
                                 const char *dims, ppto_site site)
{
    pp_ref ref = {PP_NONE, 0};
    if (pp_track_input(g, name, dtype, weak, dims, site, &ref)) return pp_tensor_handle(g, ref);
    if (pp_graph_error(g->graph)->code != PPTO_OK) return NULL;
    ppto_status status = pp_graph_input(g->graph, name, dtype, weak, dims, site, &ref);
    if (status == PPTO_OK) pp_track_kept(g, NULL);
    return recorded(g, status, ref);
}

static ppto_tensor *record_literal(ppto_graph *g, bool is_float, uint64_t bits, ppto_site site)
{
    pp_ref ref = {PP_NONE, 0};
    if (pp_track_literal(g, is_float, bits, site, &ref)) return pp_tensor_handle(g, ref);
    if (pp_graph_error(g->graph)->code != PPTO_OK) return NULL;
    ppto_status status = pp_graph_literal(g->graph, is_float, bits, site, &ref);
    if (status == PPTO_OK) pp_track_kept(g, NULL);
    return recorded(g, status, ref);
}

ppto_tensor *ppto_input_at(ppto_site site, ppto_graph *g, const char *name, ppto_dtype dtype,
                           const char *dims)
{
    if (!pp_tensor_usable(g)) return NULL;
    if (!name || !dims) {
        pp_error err = {.site = site};
        pp_fail(&err, PPTO_E_VALUE, "input: the %s is NULL", name ? "shape" : "name");
        pp_tensor_keep_error(g, &err);
        return NULL;
    }
    if ((unsigned)dtype >= PP_DTYPE_COUNT) {
        pp_error err = {.site = site};
        pp_fail(&err, PPTO_E_DTYPE, "input %.60s: unknown dtype %d", name, (int)dtype);
        pp_tensor_keep_error(g, &err);
        return NULL;
    }
    return record_input(g, name, dtype, false, dims, site);
}

ppto_tensor *ppto_input_number_at(ppto_site site, ppto_graph *g, const char *name, bool is_float)
{
    if (!pp_tensor_usable(g) || !name) return NULL;
    return record_input(g, name, is_float ? PPTO_F64 : PPTO_I64, true, "", site);
}

ppto_tensor *ppto_float_at(ppto_site site, ppto_graph *g, double value)
{
    uint64_t bits;
    if (!pp_tensor_usable(g)) return NULL;
    memcpy(&bits, &value, sizeof bits);
    return record_literal(g, true, bits, site);
}

ppto_tensor *ppto_int_at(ppto_site site, ppto_graph *g, int64_t value)
{
    if (!pp_tensor_usable(g)) return NULL;
    return record_literal(g, false, (uint64_t)value, site);
}

/* The tensors' refs; false (with the error kept) when one is NULL or of another graph. */
static bool refs_of(ppto_graph *g, size_t n, ppto_tensor *const *tensors, pp_ref **refs, pp_error *err)
{
    *refs = pp_arena_alloc(&g->arena, (n + 1) * sizeof **refs);
    if (!*refs) return pp_fail(err, PPTO_E_NOMEM, "out of memory"), false;
    for (size_t i = 0; i < n; i++) {
        if (!tensors || !tensors[i]) return pp_fail(err, PPTO_E_VALUE, "operand %zu is NULL", i), false;
        if (tensors[i]->graph != g)
            return pp_fail(err, PPTO_E_VALUE, "operand %zu belongs to another graph", i), false;
        (*refs)[i] = tensors[i]->ref;
    }
    return true;
}

typedef struct declare_context {
    ppto_graph *g;
    ppto_declare_fn declare;
    void *arg;
} declare_context;

static ppto_status declare(void *arg, PP_UNUSED pp_graph *graph, const char *name, pp_ref *out, pp_error *err)
{
    declare_context *c = arg;
    ppto_tensor *t = c->declare(c->arg, c->g, name);
    if (t) {
        *out = t->ref;
        return PPTO_OK;
    }
    const pp_error *first = pp_graph_error(c->g->graph);
    return first->code != PPTO_OK
               ? pp_fail(err, first->code, "%s", first->text)
               : pp_fail(err, PPTO_E_NAME, "unknown name \"%s\": no input is bound to it", name);
}

static ppto_status run_text(ppto_graph *g, const char *text, size_t length, const char *file,
                            const pp_ref *refs, size_t n, declare_context *c, ppto_site site,
                            const char ***names, pp_ref **results, size_t *n_results, pp_error *err)
{
    pp_unit *unit = NULL;
    pp_library *library = pp_graph_library(g->graph);
    bool known = false;
    pp_track_end(g);
    if (pp_graph_error(g->graph)->code != PPTO_OK) {
        *err = *pp_graph_error(g->graph);
        return err->code;
    }
    PP_TRY(pp_parse(text, length, file, PP_PARSE_PROGRAM, &unit, err));
    ppto_status status = pp_library_has(library, unit, &known, err);
    bool kept = status == PPTO_OK && !known; /* the library keeps units that define */
    if (kept) PP_TRY(pp_library_add(library, unit, pp_unit_destroy, false, err));
    if (status == PPTO_OK)
        status =
            pp_graph_text(g->graph, unit, refs, n, c ? declare : NULL, c, site, names, results, n_results);
    if (!kept) pp_unit_destroy(unit);
    if (status != PPTO_OK) {
        const pp_error *first = pp_graph_error(g->graph);
        if (first->code != PPTO_OK) *err = *first;
        pp_fail(err, status, "%s", ppto_status_text(status));
    }
    return status;
}

ppto_tensor *ppto_exprn_at(ppto_site site, ppto_graph *g, const char *text, size_t n,
                           ppto_tensor *const *tensors)
{
    pp_error err = {.site = site};
    pp_ref *refs, *results = NULL;
    const char **names;
    size_t n_results = 0;
    if (!pp_tensor_usable(g)) return NULL;
    ppto_status status = text ? PPTO_OK : pp_fail(&err, PPTO_E_VALUE, "expr: the text is NULL");
    if (status == PPTO_OK && !refs_of(g, n, tensors, &refs, &err)) status = err.code;
    if (status == PPTO_OK)
        status = run_text(g, text, strlen(text), "<text>", refs, n, NULL, site, &names, &results, &n_results,
                          &err);
    if (status == PPTO_OK && n_results != 1)
        status = pp_fail(&err, PPTO_E_VALUE, "expr: the text has %zu results, expected one", n_results);
    pp_tensor_keep_error(g, &err);
    return status == PPTO_OK ? pp_tensor_handle(g, results[0]) : NULL;
}

ppto_status ppto_opn_at(ppto_site site, ppto_graph *g, const char *name, const char *params, size_t n,
                        ppto_tensor *const *tensors, size_t n_results, ppto_tensor **results)
{
    pp_error err = {.site = site};
    pp_text text = {0};
    pp_ref *refs, *out = NULL;
    const char **names;
    size_t count = 0;
    for (size_t i = 0; results && i < n_results; i++) results[i] = NULL;
    PP_TRY(pp_tensor_status(g));
    ppto_status status = name && results ? PPTO_OK : pp_fail(&err, PPTO_E_VALUE, "op: an argument is NULL");
    if (status == PPTO_OK && !refs_of(g, n, tensors, &refs, &err)) status = err.code;
    if (status == PPTO_OK) {
        const pp_definition *d;
        status = pp_library_find(pp_graph_library(g->graph), name, &d, &err);
        bool list =
            d && d->n_params && d->param[0].spec == PP_SPEC_TENSORS; /* all of them are its first argument */
        pp_text_add(&text, "%s(%s", name, list ? "[" : "");
        for (size_t i = 0; i < n; i++) pp_text_add(&text, "%s$%zu", i ? ", " : "", i);
        pp_text_add(&text, "%s%s%s)", list ? "]" : "", n && params && *params ? ", " : "",
                    params ? params : "");
        status = text.failed ? pp_fail(&err, PPTO_E_NOMEM, "out of memory")
                             : run_text(g, text.at, text.n, "<call>", refs, n, NULL, site, &names, &out,
                                        &count, &err);
    }
    if (status == PPTO_OK && count != n_results)
        status = pp_fail(&err, PPTO_E_VALUE, "%s: it has %zu results, expected %zu", name, count, n_results);
    for (size_t i = 0; status == PPTO_OK && i < count; i++) results[i] = pp_tensor_handle(g, out[i]);
    pp_text_free(&text);
    pp_tensor_keep_error(g, &err);
    return status;
}

ppto_tensor *ppto_op_at(ppto_site site, ppto_graph *g, const char *name, const char *params, ppto_tensor *x)
{
    ppto_tensor *y = NULL;
    ppto_opn_at(site, g, name, params, 1, &x, 1, &y);
    return y;
}

ppto_status ppto_parse_program(ppto_graph *g, const char *text, size_t length, const char *file,
                               ppto_declare_fn fn, void *arg, size_t *n, ppto_tensor ***outputs,
                               char ***names)
{
    pp_error err = {0};
    pp_ref *results = NULL;
    const char **given = NULL;
    size_t count = 0;
    declare_context c = {g, fn, arg};
    if (!text || !n || !outputs || !names)
        return pp_report_new(PPTO_E_VALUE, "ppto_parse_program: an argument is NULL");
    *n = 0;
    *outputs = NULL;
    *names = NULL;
    PP_TRY(pp_tensor_status(g));
    ppto_status status = run_text(g, text, length, file ? file : "<text>", NULL, 0, fn ? &c : NULL,
                                  (ppto_site){0}, &given, &results, &count, &err);
    if (status == PPTO_OK) {
        *outputs = pp_calloc(count + 1, sizeof **outputs);
        *names = pp_calloc(count + 1, sizeof **names);
        if (!*outputs || !*names) status = pp_fail(&err, PPTO_E_NOMEM, "out of memory");
    }
    for (size_t i = 0; status == PPTO_OK && i < count; i++) {
        (*outputs)[i] = pp_tensor_handle(g, results[i]);
        (*names)[i] = pp_strdup(given && given[i] ? given[i] : "");
        if (!(*outputs)[i] || !(*names)[i]) status = pp_fail(&err, PPTO_E_NOMEM, "out of memory");
        *n = i + 1;
    }
    if (status != PPTO_OK) {
        ppto_outputs_free(*n, *outputs, *names);
        *n = 0;
        *outputs = NULL;
        *names = NULL;
    }
    pp_tensor_keep_error(g, &err);
    return status;
}

void ppto_outputs_free(size_t n, ppto_tensor **outputs, char **names)
{
    for (size_t i = 0; names && i < n; i++) pp_free(names[i]);
    pp_free(names);
    pp_free(outputs);
}

ppto_dtype ppto_tensor_dtype(const ppto_tensor *t)
{
    if (!t) return PPTO_BOOL;
    if (t->graph->track.on) return (ppto_dtype)pp_track_result_of(t->graph, t->ref)->dtype;
    return (ppto_dtype)pp_type_get(pp_graph_types(t->graph->graph), pp_graph_type(t->graph->graph, t->ref))
        ->dtype;
}

int ppto_tensor_rank(const ppto_tensor *t)
{
    if (!t) return 0;
    if (t->graph->track.on) return pp_track_result_of(t->graph, t->ref)->rank;
    return pp_type_get(pp_graph_types(t->graph->graph), pp_graph_type(t->graph->graph, t->ref))->rank;
}

const char *ppto_tensor_type(const ppto_tensor *t)
{
    if (!t) return "";
    pp_text text = {0};
    pp_types *types = pp_graph_types(t->graph->graph);
    pp_track_leave(t->graph);
    if (pp_graph_error(t->graph->graph)->code == PPTO_E_NOMEM) return "";
    pp_type_print(types, pp_type_get(types, pp_graph_type(t->graph->graph, t->ref)), &text);
    const char *kept = text.failed || !text.at ? NULL : pp_arena_strndup(&t->graph->arena, text.at, text.n);
    pp_text_free(&text);
    return kept ? kept : "";
}

ppto_graph *ppto_tensor_graph(const ppto_tensor *t)
{
    return t ? t->graph : NULL;
}
