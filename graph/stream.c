/* SPDX-License-Identifier: Apache-2.0
 * Streams and sync points of a graph.
 *
 * Every call has a stream (or none) and a level: how many sync points at most lie on a way to it, through
 * operands, the order of its stream and events. Levels never fall along a dependence and rise across a sync
 * point; that is all later stages need to keep things apart and to find an order (graph/flat.h).
 *
 * Outputs decide what is computed, and so which sync points an expansion has: an event belongs to those who
 * compute the call recorded last before it on its stream; a wait to those who compute or record anything
 * after it on its stream. */
#include <string.h>

#include "graph/graph_impl.h"

uint32_t pp_graph_stream(pp_graph *graph, void *identity)
{
    for (size_t i = graph->streams.n; i-- > 0;)
        if (graph->streams.at[i].identity == identity) return (uint32_t)i + 1;
    const pp_graph_stream_row row = {identity, 0, PP_NONE};
    return pp_vec_push(&graph->streams, row) == PPTO_OK ? (uint32_t)graph->streams.n : 0;
}

void *pp_graph_stream_of(const pp_graph *graph, uint32_t node)
{
    uint32_t stream = graph->nodes.at[node].stream;
    return stream != 0 ? graph->streams.at[stream - 1].identity : NULL;
}

ppto_status pp_graph_push_stream(pp_graph *graph, uint32_t stream)
{
    return pp_vec_push(&graph->pushed, stream);
}

ppto_status pp_graph_pop_stream(pp_graph *graph)
{
    if (graph->pushed.n == 0) return PPTO_E_VALUE;
    graph->pushed.n--;
    return PPTO_OK;
}

void pp_graph_place(const pp_graph *graph, pp_node *call, const pp_ref *operands, size_t n)
{
    call->stream = graph->pushed.n != 0 ? graph->pushed.at[graph->pushed.n - 1] : 0;
    call->level = call->stream != 0 ? graph->streams.at[call->stream - 1].level : 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t level = graph->nodes.at[operands[i].node].level;
        if (level > call->level) call->level = level;
    }
    if (call->stream != 0 || call->level != 0)
        call->hash = pp_hash_mix(call->hash, (uint64_t)call->level << 1 | (call->stream != 0));
}

void pp_graph_placed(pp_graph *graph, uint32_t node)
{
    const pp_node *call = &graph->nodes.at[node];
    pp_graph_stream_row *row = &graph->streams.at[call->stream - 1];
    row->level = call->level;
    row->last = node;
}

ppto_status pp_graph_same(pp_graph *graph, pp_ref value, const char *name, ppto_site site, pp_ref *out)
{
    pp_node node = {.kind = PP_N_SAME, .called_as = name, .site = site, .type = pp_graph_type(graph, value)};
    node.hash = pp_hash_mix(pp_hash_mix(13, graph->nodes.at[value.node].hash), value.result);
    *out = (pp_ref){PP_NONE, 0};
    pp_graph_place(graph, &node, &value, 1);
    uint32_t id;
    PP_TRY(pp_graph_push(graph, &node, &value, 1, &id));
    if (node.stream != 0) pp_graph_placed(graph, id);
    *out = (pp_ref){id, 0};
    return PPTO_OK;
}

/* ---- sync points ------------------------------------------------------------------------------------- */

typedef struct event_key {
    const pp_graph *graph;
    uint64_t event;
} event_key;

static bool same_event(const void *context, uint32_t value)
{
    const event_key *key = context;
    return key->graph->syncs.at[value].event == key->event;
}

static uint32_t record_of(const pp_graph *graph, uint64_t event)
{
    uint32_t at;
    event_key key = {graph, event};
    return pp_map_find(&graph->by_event, pp_hash_mix(11, event), same_event, &key, &at) ? at : PP_NONE;
}

ppto_status pp_graph_sync(pp_graph *graph, pp_sync_kind kind, uint32_t stream, uint64_t event, ppto_site site)
{
    pp_graph_stream_row *on = &graph->streams.at[stream - 1];
    pp_graph_sync_row row = {.kind = (uint8_t)kind, .last = on->last, .event = event, .record = PP_NONE};
    pp_node node = {.kind = PP_N_SYNC,
                    .called_as = kind == PP_SYNC_RECORD ? "event record" : "stream wait",
                    .site = site,
                    .stream = stream,
                    .level = on->level};
    if (kind == PP_SYNC_WAIT) row.record = record_of(graph, event);
    if (row.record != PP_NONE) {
        uint32_t level = graph->nodes.at[graph->syncs.at[row.record].node].level;
        if (level > node.level) node.level = level;
    }
    if (node.level == UINT32_MAX - 1) return PPTO_E_LIMIT;
    node.level++;
    node.u.sync = (uint32_t)graph->syncs.n;
    PP_TRY(pp_vec_reserve(&graph->syncs, graph->syncs.n + 1));
    PP_TRY(pp_graph_push(graph, &node, NULL, 0, &row.node));
    if (kind == PP_SYNC_RECORD) {
        ppto_status status = pp_map_insert(&graph->by_event, pp_hash_mix(11, event), node.u.sync);
        if (status != PPTO_OK) {
            graph->nodes.n--;
            return status;
        }
    }
    graph->syncs.at[graph->syncs.n++] = row;
    on->level = node.level;
    return PPTO_OK;
}

/* ---- what outputs need ------------------------------------------------------------------------------- */

static void mark_operands(const pp_graph *graph, pp_cut *cut)
{
    for (uint32_t id = cut->end; id-- > 0;) {
        const pp_node *node = &graph->nodes.at[id];
        if (!cut->needed[id]) continue;
        for (uint32_t k = 0; k < node->n_operands; k++)
            cut->needed[graph->operands.at[node->first_operand + k].node] = 1;
    }
}

/* last: per stream, one more than the node taken last. */
static void mark_syncs(const pp_graph *graph, pp_cut *cut, uint32_t *last)
{
    for (uint32_t id = 0; id < cut->end; id++) {
        const pp_node *node = &graph->nodes.at[id];
        if (cut->needed[id] && node->stream != 0) last[node->stream - 1] = id + 1;
    }
    for (size_t i = graph->syncs.n; i-- > 0;) {
        const pp_graph_sync_row *row = &graph->syncs.at[i];
        uint32_t *end = &last[graph->nodes.at[row->node].stream - 1];
        bool taken = row->kind == PP_SYNC_WAIT ? row->node < *end
                     : row->last != PP_NONE    ? cut->needed[row->last] != 0
                                               : *end != 0;
        if (!taken) continue;
        cut->needed[row->node] = 1;
        if (row->node >= *end) *end = row->node + 1;
        if (row->node >= cut->end) cut->end = row->node + 1;
    }
}

static void number_all(const pp_graph *graph, pp_cut *cut)
{
    for (uint32_t id = 0; id < cut->end; id++) {
        const pp_node *node = &graph->nodes.at[id];
        if (!cut->needed[id] || node->stream == 0) continue;
        if (cut->stream[node->stream - 1] == 0) cut->stream[node->stream - 1] = ++cut->n_streams;
        if (node->kind == PP_N_SYNC) cut->sync[node->u.sync] = cut->n_syncs++;
    }
}

static ppto_status cut_streams(const pp_graph *graph, pp_cut *cut)
{
    uint32_t *last = pp_calloc(graph->streams.n, sizeof *last);
    cut->stream = pp_calloc(graph->streams.n, sizeof *cut->stream);
    cut->sync = pp_alloc((graph->syncs.n + 1) * sizeof *cut->sync);
    bool ok = last != NULL && cut->stream != NULL && cut->sync != NULL;
    if (ok) {
        for (size_t i = 0; i < graph->syncs.n; i++) cut->sync[i] = PP_NONE;
        mark_syncs(graph, cut, last);
        number_all(graph, cut);
    }
    pp_free(last);
    return ok ? PPTO_OK : PPTO_E_NOMEM;
}

ppto_status pp_graph_cut(const pp_graph *graph, const pp_ref *outputs, size_t n, pp_cut *cut)
{
    memset(cut, 0, sizeof *cut);
    cut->needed = pp_calloc(graph->nodes.n + 1, 1);
    if (cut->needed == NULL) return PPTO_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        cut->needed[outputs[i].node] = 1;
        if (outputs[i].node >= cut->end) cut->end = outputs[i].node + 1;
    }
    cut->last = cut->end;
    mark_operands(graph, cut);
    return graph->streams.n != 0 ? cut_streams(graph, cut) : PPTO_OK;
}

void pp_graph_cut_free(pp_cut *cut)
{
    pp_free(cut->needed);
    pp_free(cut->stream);
    pp_free(cut->sync);
}

ppto_status pp_graph_needed(const pp_graph *graph, const pp_ref *outputs, size_t n, uint32_t **at,
                            size_t *count)
{
    pp_cut cut;
    *count = 0;
    *at = NULL;
    ppto_status status = pp_graph_cut(graph, outputs, n, &cut);
    if (status == PPTO_OK) *at = pp_alloc((cut.end + 1u) * sizeof **at);
    for (uint32_t id = 0; *at && id < cut.end; id++)
        if (cut.needed[id]) (*at)[(*count)++] = id;
    pp_graph_cut_free(&cut);
    return *at ? PPTO_OK : PPTO_E_NOMEM;
}

ppto_status pp_graph_uses_of(pp_graph *graph, const pp_ref *outputs, size_t n, pp_graph_uses *uses)
{
    pp_cut cut;
    memset(uses, 0, sizeof *uses);
    if (graph->streams.n == 0) return PPTO_OK;
    ppto_status status = pp_graph_cut(graph, outputs, n, &cut);
    if (status == PPTO_OK) status = pp_vec_reserve(&uses->streams, cut.n_streams + 1u);
    if (status == PPTO_OK) status = pp_vec_reserve(&uses->events, cut.n_syncs + 1u);
    if (status == PPTO_OK) {
        uses->streams.n = cut.n_streams;
        uses->events.n = cut.n_syncs;
        for (size_t i = 0; i < graph->streams.n; i++)
            if (cut.stream[i] != 0) uses->streams.at[cut.stream[i] - 1] = graph->streams.at[i].identity;
        for (size_t i = 0; i < graph->syncs.n; i++)
            if (cut.sync[i] != PP_NONE) uses->events.at[cut.sync[i]] = graph->syncs.at[i].event;
    }
    pp_graph_cut_free(&cut);
    if (status != PPTO_OK) pp_graph_uses_free(uses);
    return status;
}

void pp_graph_uses_free(pp_graph_uses *uses)
{
    pp_vec_free(&uses->streams);
    pp_vec_free(&uses->events);
}
