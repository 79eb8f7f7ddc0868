/* SPDX-License-Identifier: Apache-2.0
 * Graphs that were destroyed and wait for the next: empty, with the room they had for what is recorded, so
 * that the next one neither asks for memory nor touches it for the first time. Beginning a graph also renews
 * the tracks of the context when they are full. */
#include "runtime/sync.h"

enum { MOST_IDLE = 4, MOST_ROOM = 2 << 20 /* bytes of each kind */ };

/* With the lock; returns the tracks to close. */
static pp_tracks *renew(ppto_context *ctx)
{
    pp_tracks *old = ctx->tracks;
    if (ctx->ledger || (old && !atomic_load_explicit(&old->full, memory_order_relaxed))) return NULL;
    ctx->tracks = pp_tracks_create(); /* NULL: without */
    return old;
}

ppto_graph *pp_graph_begin(ppto_context *ctx, ppto_graph *g)
{
    pthread_mutex_lock(&ctx->lock);
    pp_tracks *old = renew(ctx);
    if (!g && ctx->idle_graphs) {
        g = ctx->idle_graphs;
        ctx->idle_graphs = g->next;
        ctx->n_idle_graphs--;
        g->next = NULL;
    }
    if (g) pp_track_begin(g, ctx->tracks);
    pthread_mutex_unlock(&ctx->lock);
    pp_tracks_close(ctx, old);
    return g;
}

/* Gives back the room of a large graph. */
static void trim(ppto_graph *g)
{
    while (g->more.n * PP_MORE_TENSORS * sizeof(ppto_tensor) > MOST_ROOM) pp_free(g->more.at[--g->more.n]);
    if (g->track.rows.cap * sizeof *g->track.rows.at > MOST_ROOM) pp_vec_free(&g->track.rows);
    if (g->track.words.cap * sizeof *g->track.words.at > MOST_ROOM) pp_vec_free(&g->track.words);
    pp_arena_free(&g->arena);
}

bool pp_graph_keep_idle(ppto_graph *g)
{
    ppto_context *ctx = g->ctx;
    if (!g->track.tracks) return false;
    pp_graph_streams_free(g);
    pp_graph_files_free(g);
    trim(g);
    const bool touched = !g->track.on || pp_graph_error(g->graph)->code != PPTO_OK;
    if (touched && !pp_graph_clear(g->graph, MOST_ROOM)) return false;
    g->n_tensors = 0;
    pthread_mutex_lock(&ctx->lock);
    const bool kept = ctx->n_idle_graphs < MOST_IDLE;
    if (kept) {
        g->next = ctx->idle_graphs;
        ctx->idle_graphs = g;
        ctx->n_idle_graphs++;
    }
    pthread_mutex_unlock(&ctx->lock);
    return kept;
}

void pp_graphs_free_idle(ppto_context *ctx)
{
    while (ctx->idle_graphs) {
        ppto_graph *g = ctx->idle_graphs;
        ctx->idle_graphs = g->next;
        pp_graph_free(g);
    }
    ctx->n_idle_graphs = 0;
}
