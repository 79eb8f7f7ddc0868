/* SPDX-License-Identifier: Apache-2.0
 * Files as parts of a graph. A source is an input, a sink is its value again (pp_graph_same); what is special
 * about them is kept beside the graph and bound when a program is made of it. The names of sources are
 * numbers, not paths, so that graphs that differ in their files share a plan. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "files/formats.h"
#include "files/sink.h"
#include "runtime/sync.h"

/* ---- recording ----------------------------------------------------------------------------------------- */

static ppto_tensor *failed(ppto_graph *g, ppto_status status, pp_error *err)
{
    if (err->code == PPTO_OK) *err = *pp_graph_error(g->graph);
    pp_fail(err, status, "%s", ppto_status_text(status));
    pp_tensor_keep_error(g, err);
    return NULL;
}

/* The first name that no input has. */
static const char *new_name(ppto_graph *g)
{
    char name[32];
    for (size_t number = g->sources.n + 1;; number++) {
        bool taken = false;
        snprintf(name, sizeof name, "source%zu", number);
        for (size_t i = 0; i < pp_graph_inputs(g->graph) && !taken; i++) {
            pp_ref input = pp_graph_input_at(g->graph, i);
            taken = strcmp(pp_graph_node(g->graph, input.node).input_name, name) == 0;
        }
        if (!taken) return pp_arena_strndup(&g->arena, name, strlen(name));
    }
}

/* The sink that this very node is; NULL. */
static const pp_graph_sink *sink_of(const ppto_graph *g, pp_ref ref)
{
    for (size_t i = 0; i < g->sinks.n; i++)
        if (g->sinks.at[i].ref.node == ref.node) return &g->sinks.at[i];
    return NULL;
}

static ppto_status record_source(ppto_graph *g, ppto_array *array, ppto_site site, pp_ref *out)
{
    pp_text dims = {0};
    pp_ref input;
    pp_graph_source source = {.name = new_name(g), .array = array};
    for (int d = 0; d < array->rank; d++)
        pp_text_add(&dims, "%s%" PRId64, d > 0 ? ", " : "", array->shape[d]);
    ppto_status status =
        source.name && !dims.failed ? pp_vec_reserve(&g->sources, g->sources.n + 1) : PPTO_E_NOMEM;
    if (status == PPTO_OK)
        status =
            pp_graph_input(g->graph, source.name, array->dtype, false, dims.at ? dims.at : "", site, &input);
    pp_text_free(&dims);
    if (status == PPTO_OK) status = pp_graph_same(g->graph, input, "open", site, out);
    if (status != PPTO_OK) return status;
    source.node = out->node;
    pp_array_hold(array, PP_HOLD_BINDING, site);
    return pp_vec_push(&g->sources, source);
}

ppto_tensor *ppto_open_at(ppto_site site, ppto_graph *g, const char *path)
{
    pp_error err = {.site = site};
    pp_ref ref = {PP_NONE, 0};
    if (!pp_tensor_usable(g)) return NULL;
    pp_track_end(g);
    if (!pp_tensor_usable(g)) return NULL;
    if (!path || !*path) return failed(g, pp_fail(&err, PPTO_E_VALUE, "open: there is no path"), &err);
    ppto_array *array = ppto_array_open(g->ctx, path);
    if (!array)
        return failed(g, pp_fail(&err, ppto_error_status(NULL), "open: %s", ppto_error_text(NULL)), &err);
    ppto_status status = record_source(g, array, site, &ref);
    ppto_array_release(array);
    return status == PPTO_OK ? pp_tensor_handle(g, ref) : failed(g, status, &err);
}

ppto_tensor *ppto_sink_at(ppto_site site, ppto_graph *g, ppto_tensor *tensor, const char *path)
{
    pp_error err = {.site = site};
    pp_graph_sink sink = {{PP_NONE, 0}, NULL, PP_NONE};
    if (!pp_tensor_usable(g)) return NULL;
    pp_track_end(g);
    if (!pp_tensor_usable(g)) return NULL;
    if (!tensor) return failed(g, pp_fail(&err, PPTO_E_VALUE, "sink: the tensor is NULL"), &err);
    if (tensor->graph != g)
        return failed(g, pp_fail(&err, PPTO_E_VALUE, "sink: the tensor belongs to another graph"), &err);
    if (!path || !*path) return failed(g, pp_fail(&err, PPTO_E_VALUE, "sink: there is no path"), &err);
    pp_error why = {.code = PPTO_OK};
    if (pp_files_can_write(path, &why) != PPTO_OK)
        return failed(g, pp_fail(&err, PPTO_E_VALUE, "sink: %.200s: %s", path, why.text), &err);
    if (sink_of(g, tensor->ref)) sink.over = tensor->ref.node;
    sink.path = pp_arena_strndup(&g->arena, path, strlen(path));
    ppto_status status = sink.path ? pp_vec_reserve(&g->sinks, g->sinks.n + 1) : PPTO_E_NOMEM;
    if (status == PPTO_OK) status = pp_graph_same(g->graph, tensor->ref, "sink", site, &sink.ref);
    if (status == PPTO_OK) status = pp_vec_push(&g->sinks, sink);
    return status == PPTO_OK ? pp_tensor_handle(g, sink.ref) : failed(g, status, &err);
}

void pp_graph_files_free(ppto_graph *g)
{
    for (size_t i = 0; i < g->sources.n; i++)
        pp_array_drop(g->sources.at[i].array, PP_HOLD_BINDING, PPTO_HERE);
    pp_vec_free(&g->sources);
    pp_vec_free(&g->sinks);
}

/* ---- programs ------------------------------------------------------------------------------------------ */

/* Where the node of a file stands, for the step that moves it. Returns the stream. */
static uint32_t place(ppto_program *p, const ppto_graph *g, uint32_t node, size_t file)
{
    pp_node_info info = pp_graph_node(g->graph, node);
    uint32_t stream = pp_sync_number(p->sync, pp_graph_stream_of(g->graph, node));
    if (stream != 0) p->file_at[file] = pp_file_word(stream, info.level);
    p->file_origin[file] = (pp_origin){file < p->plan->inputs.n ? "open" : "sink", info.site, info.stack};
    return stream;
}

/* The file is loaded into the program's input of that name. The plan may be an equal graph's. */
static void bind_source(ppto_program *p, const ppto_graph *g, const pp_graph_source *source)
{
    for (size_t i = 0; i < p->plan->inputs.n; i++) {
        if (strcmp(source->name, p->plan->inputs.at[i].name) != 0) continue;
        p->inputs[i] = pp_array_hold(source->array, PP_HOLD_BINDING, PPTO_HERE);
        (void)place(p, g, source->node, i);
    }
}

static ppto_status bind_sink(ppto_program *p, const ppto_graph *g, size_t i, const pp_graph_sink *sink,
                             pp_error *err)
{
    for (size_t k = 0; k < i; k++)
        if (p->sinks[k] && pp_files_same(p->sinks[k], sink->path))
            return pp_fail(err, PPTO_E_VALUE, "compile: outputs %zu and %zu both go to %s", k, i, sink->path);
    uint32_t stream = place(p, g, sink->ref.node, p->plan->inputs.n + i);
    if (stream != 0) pp_sync_stores(p->sync, stream);
    p->sinks[i] = pp_strdup(sink->path);
    return p->sinks[i] ? PPTO_OK : PPTO_E_NOMEM;
}

/* A sink of a sink: who wants the file of the outer one means that of the inner one, too. */
static ppto_status check_inner(const ppto_graph *g, const pp_graph_sink *sink, const pp_ref *outputs,
                               size_t n, pp_error *err)
{
    for (; sink->over != PP_NONE; sink = sink_of(g, (pp_ref){sink->over, 0})) {
        bool output = false;
        for (size_t k = 0; k < n; k++) output |= outputs[k].node == sink->over;
        if (output) continue;
        return pp_fail(
            err, PPTO_E_VALUE,
            "compile: the sink %s writes the value of the sink %s, which is no output and would not "
            "be written: make both outputs",
            sink->path, sink_of(g, (pp_ref){sink->over, 0})->path);
    }
    return PPTO_OK;
}

ppto_status pp_graph_files_bind(ppto_program *p, const ppto_graph *g, const pp_ref *outputs, size_t n,
                                pp_error *err)
{
    for (size_t i = 0; i < g->sources.n; i++) bind_source(p, g, &g->sources.at[i]);
    for (size_t i = 0; i < n; i++) {
        const pp_graph_sink *sink = sink_of(g, outputs[i]);
        if (sink) PP_TRY(check_inner(g, sink, outputs, n, err));
        if (sink) PP_TRY(bind_sink(p, g, i, sink, err));
    }
    return PPTO_OK;
}
