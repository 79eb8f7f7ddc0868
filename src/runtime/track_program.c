/* SPDX-License-Identifier: Apache-2.0
 * Programs that lie on tracks. One that was compiled in full is known by its step and outputs; when its user
 * destroys it, it is emptied and kept, with its instance, and the next graph that comes to the step takes it:
 * then neither a plan is looked up nor memory asked for. Places and literals are the new graph's, and where
 * the values of literals decided the plan they must be those. */
#include <string.h>

#include "runtime/sync.h"

enum { MOST_IDLE = 4, MOST_PROGRAMS = 128 };

typedef struct pp_track_program {
    pp_tracks *tracks;
    struct pp_track_program *next, *older; /* of the step; of all */
    pp_plan *plan;
    ppto_program *idle;
    uint32_t n_idle;
    bool closed;        /* keeps nothing any more */
    uint32_t *literals; /* nodes, in the order of the program's */
    size_t n_literals;
    uint32_t *nodes; /* by rank */
    size_t n_nodes;
    size_t n;
    pp_ref outputs[];
} pp_track_program;

static bool same_outputs(const pp_track_program *t, size_t n, const pp_ref *outputs)
{
    return t->n == n && memcmp(t->outputs, outputs, n * sizeof *outputs) == 0;
}

/* ---- taking -------------------------------------------------------------------------------------- */

static bool same_literals(const pp_track_program *t, const pp_track_row *rows)
{
    for (size_t i = 0; i < t->n_literals; i++)
        if (t->plan->literal_used[i] && t->plan->literal_value[i] != rows[t->literals[i]].bits) return false;
    return true;
}

static ppto_program *pop(ppto_context *ctx, const ppto_graph *g, size_t n, const pp_ref *outputs)
{
    pp_track_program *t = g->track.at->programs;
    while (t && !(t->idle && same_outputs(t, n, outputs) && same_literals(t, g->track.rows.at))) t = t->next;
    if (!t) return NULL;
    ppto_program *p = t->idle;
    t->idle = p->next;
    t->n_idle--;
    p->next = NULL;
    p->plan->last_use = ++ctx->clock;
    return p;
}

ppto_program *pp_track_take(ppto_graph *g, size_t n, const pp_ref *outputs)
{
    ppto_context *ctx = g->ctx;
    if (!g->track.on || pp_graph_error(g->graph)->code != PPTO_OK) return NULL;
    const int64_t start = pp_clock_ns();
    pthread_mutex_lock(&ctx->lock);
    ppto_program *p = pop(ctx, g, n, outputs);
    pthread_mutex_unlock(&ctx->lock);
    if (!p) return NULL;
    atomic_store_explicit(&p->refs, 1, memory_order_relaxed); /* nobody else has it */
    for (size_t i = 0; i < p->track->n_literals; i++)
        p->literals[i] = g->track.rows.at[p->track->literals[i]].bits;
    for (size_t i = 0; i < p->track->n_nodes; i++)
        p->origins[i].site = g->track.rows.at[p->track->nodes[i]].site;
    p->plan_hit = true;
    pp_program_first_stats(p);
    p->looked_up = (pp_stage_note){PP_PLAN_LOOK_UP, PP_CACHE_HIT, 0, start, start};
    p->compiled = (pp_stage_note){PP_PLAN_COMPILE, PP_CACHE_NONE, 0, start, start};
    return p;
}

/* ---- giving -------------------------------------------------------------------------------------- */

static void free_program(pp_track_program *t)
{
    pp_free(t->literals);
    pp_free(t->nodes);
    pp_free(t);
}

static pp_track_program *new_program(ppto_graph *g, size_t n, const pp_ref *outputs, const ppto_program *p)
{
    pp_track_program *t = pp_calloc(1, sizeof *t + n * sizeof *outputs);
    if (!t) return NULL;
    t->tracks = g->track.tracks;
    t->n = n;
    memcpy(t->outputs, outputs, n * sizeof *outputs);
    t->n_literals = p->n_literals;
    t->literals = pp_calloc(p->n_literals + 1, sizeof *t->literals);
    if (t->literals && pp_graph_literal_nodes(g->graph, outputs, n, t->literals) == PPTO_OK &&
        pp_graph_needed(g->graph, outputs, n, &t->nodes, &t->n_nodes) == PPTO_OK)
        return t;
    free_program(t);
    return NULL;
}

/* With the lock of the context: the one there is, or this one. NULL: no room. */
static pp_track_program *join(pp_track_step *step, pp_track_program *fresh, pp_plan *plan)
{
    pp_tracks *tracks = fresh->tracks;
    for (pp_track_program *t = step->programs; t; t = t->next)
        if (t->plan == plan && same_outputs(t, fresh->n, fresh->outputs)) return t;
    if (tracks->n_programs == MOST_PROGRAMS) {
        atomic_store_explicit(&tracks->full, true, memory_order_relaxed);
        return NULL;
    }
    fresh->plan = plan;
    plan->refs++;
    fresh->next = step->programs;
    step->programs = fresh;
    fresh->older = tracks->programs;
    tracks->programs = fresh;
    tracks->n_programs++;
    return fresh;
}

void pp_track_give(ppto_graph *g, size_t n, const pp_ref *outputs, ppto_program *p)
{
    pp_track_step *step = pp_track_lay(g);
    pp_track_program *fresh = step ? new_program(g, n, outputs, p) : NULL;
    if (!fresh) return;
    pthread_mutex_lock(&g->ctx->lock);
    p->track = g->ctx->tracks == fresh->tracks ? join(step, fresh, p->plan) : NULL;
    pthread_mutex_unlock(&g->ctx->lock);
    if (p->track) atomic_fetch_add_explicit(&p->track->tracks->refs, 1, memory_order_relaxed);
    if (p->track != fresh) free_program(fresh);
}

/* ---- keeping ------------------------------------------------------------------------------------- */

/* Does it hold nothing but arrays? */
static bool is_plain(const ppto_program *p)
{
    for (size_t i = 0; i < p->plan->flat.outputs.n; i++)
        if (p->sinks[i] || p->names[i]) return false;
    return !p->whole && !p->sync && !p->source && !p->log.at && !p->uncounted && !p->ctx->ledger;
}

static void empty(ppto_program *p)
{
    for (size_t i = 0; i < p->plan->inputs.n; i++) {
        pp_array_drop(p->inputs[i], PP_HOLD_BINDING, PPTO_HERE);
        p->inputs[i] = NULL;
        p->donated[i] = false;
    }
    for (size_t i = 0; i < p->plan->flat.outputs.n; i++) {
        pp_array_drop(p->outputs[i], PP_HOLD_BINDING, PPTO_HERE);
        p->outputs[i] = NULL;
    }
    p->settled = p->rebinds = false;
    p->code = (pp_code_count){0};
    pp_progress_begin(&p->progress, 0);
    if (p->instance) p->instance->is_new = false;
}

bool pp_track_keep(ppto_program *p)
{
    pp_track_program *t = p->track;
    if (!t || !is_plain(p)) return false;
    empty(p);
    pthread_mutex_lock(&p->ctx->lock);
    const bool kept = !t->closed && t->n_idle < MOST_IDLE;
    if (kept) {
        p->next = t->idle;
        t->idle = p;
        t->n_idle++;
    }
    pthread_mutex_unlock(&p->ctx->lock);
    return kept;
}

void pp_track_forget(ppto_program *p)
{
    if (p->track) pp_tracks_release(p->track->tracks);
    p->track = NULL;
}

/* ---- closing ------------------------------------------------------------------------------------- */

void pp_tracks_close(ppto_context *ctx, pp_tracks *tracks)
{
    if (!tracks) return;
    for (pp_track_program *t = tracks->programs; t; t = t->older) {
        pthread_mutex_lock(&ctx->lock);
        ppto_program *idle = t->idle;
        pp_plan *plan = t->plan;
        t->idle = NULL;
        t->n_idle = 0;
        t->closed = true;
        pthread_mutex_unlock(&ctx->lock);
        while (idle) {
            ppto_program *next = idle->next;
            pp_program_free(idle);
            idle = next;
        }
        pp_plan_release(plan);
    }
    pp_tracks_release(tracks);
}

void pp_track_programs_free(pp_track_program *first)
{
    while (first) {
        pp_track_program *older = first->older;
        free_program(first);
        first = older;
    }
}
