/* SPDX-License-Identifier: Apache-2.0
 * A graph and its track: every call that C makes is first put into words. While the graph is on the track the
 * step of these words is taken, and a row is kept; when there is none the graph leaves, its rows are
 * recorded, and from then on the words of calls are kept instead, until compiling lays them as steps. */
#include <string.h>

#include "runtime/operator_call.h"

enum { MOST_CALLS = 32768, TENSORS = 64, ROOM = 16 /* words of most calls */ };

void pp_track_begin(ppto_graph *g, pp_tracks *tracks)
{
    pp_track *t = &g->track;
    t->rows.n = t->words.n = t->kept = t->n_calls = t->n_literals = 0;
    t->on = tracks != NULL;
    t->at = tracks ? &tracks->start : NULL;
    if (t->tracks == tracks) return;
    pp_tracks_release(t->tracks);
    t->tracks = tracks;
    if (tracks) atomic_fetch_add_explicit(&tracks->refs, 1, memory_order_relaxed);
}

void pp_track_free(pp_track *t)
{
    pp_vec_free(&t->rows);
    pp_vec_free(&t->words);
    pp_tracks_release(t->tracks);
    t->tracks = NULL;
}

/* ---- leaving ------------------------------------------------------------------------------------- */

void pp_track_leave(ppto_graph *g)
{
    pp_track *t = &g->track;
    ppto_status status = PPTO_OK;
    if (!t->on) return;
    t->on = false;
    for (size_t i = 0; i < t->rows.n && status == PPTO_OK; i++)
        status = pp_track_words_record(g, t->rows.at[i].step->words, &t->rows.at[i]);
    t->rows.n = 0;
    if (status == PPTO_OK) return;
    pp_error err = {.code = PPTO_OK};
    pp_fail(&err, status, "%s", ppto_status_text(status));
    pp_tensor_keep_error(g, &err);
}

void pp_track_end(ppto_graph *g)
{
    pp_track_leave(g);
    g->track.at = NULL;
}

/* ---- words of the call at hand ------------------------------------------------------------------- */

/* They begin behind a word that will have their number. */
static ppto_status begin_words(pp_track *t)
{
    if (t->kept + ROOM > t->words.cap) PP_TRY(pp_vec_reserve(&t->words, t->kept + ROOM));
    t->words.n = t->kept + 1;
    return PPTO_OK;
}

static bool literal_of(const ppto_graph *g, uint32_t node, uint64_t *bits)
{
    const pp_track *t = &g->track;
    if (!t->on) return pp_graph_literal_of(g->graph, node, bits);
    *bits = t->rows.at[node].bits;
    return t->rows.at[node].step->is_literal;
}

/* Appends the values of literals among its tensors. False: none, or no room. */
static bool add_values(ppto_graph *g)
{
    pp_track *t = &g->track;
    pp_ref refs[TENSORS];
    uint64_t bits;
    const size_t before = t->words.n;
    const uint32_t n = pp_track_words_tensors(t->words.at + t->kept + 1, refs, TENSORS);
    if (t->n_literals == 0 || n > TENSORS) return false;
    for (uint32_t i = 0; i < n; i++)
        if (literal_of(g, refs[i].node, &bits) && pp_vec_push(&t->words, bits) != PPTO_OK) return false;
    return t->words.n != before;
}

static pp_track_step *find_step(ppto_graph *g)
{
    pp_track *t = &g->track;
    const size_t n = t->words.n;
    pp_track_step *step = pp_tracks_find(t->tracks, t->at, t->words.at + 1, n - 1);
    if (step || !add_values(g)) return step;
    step = pp_tracks_find(t->tracks, t->at, t->words.at + 1, t->words.n - 1);
    t->words.n = n;
    return step;
}

/* False: out of memory. */
static bool push_row(pp_track *t, ppto_site site, uint64_t bits, pp_track_step *step)
{
    if (t->rows.n == t->rows.cap && pp_vec_reserve(&t->rows, t->rows.n + 1) != PPTO_OK) return false;
    t->rows.at[t->rows.n++] = (pp_track_row){site, bits, step};
    return true;
}

/* Takes the step of the words at hand, or leaves the track. */
static bool go_on(ppto_graph *g, ppto_status status, ppto_site site, uint64_t bits)
{
    pp_track *t = &g->track;
    pp_track_step *step = status == PPTO_OK && t->on ? find_step(g) : NULL;
    if (step && push_row(t, site, bits, step)) {
        t->at = step;
        t->n_literals += step->is_literal;
        return true;
    }
    pp_track_leave(g);
    if (status != PPTO_OK) pp_track_end(g); /* there is no memory for tracks */
    return false;
}

/* ---- calls --------------------------------------------------------------------------------------- */

bool pp_track_input(ppto_graph *g, const char *name, ppto_dtype dtype, bool weak, const char *dims,
                    ppto_site site, pp_ref *out)
{
    pp_track *t = &g->track;
    if (!t->at) return false;
    ppto_status status = begin_words(t);
    if (status == PPTO_OK) status = pp_track_words_input(t, name, dtype, weak, dims);
    if (!go_on(g, status, site, 0)) return false;
    *out = (pp_ref){t->at->node, 0};
    return true;
}

bool pp_track_literal(ppto_graph *g, bool is_float, uint64_t bits, ppto_site site, pp_ref *out)
{
    pp_track *t = &g->track;
    if (!t->at) return false;
    ppto_status status = begin_words(t);
    if (status == PPTO_OK) status = pp_track_words_literal(t, is_float);
    if (!go_on(g, status, site, bits)) return false;
    *out = (pp_ref){t->at->node, 0};
    return true;
}

bool pp_track_call(ppto_graph *g, const pp_call *call, pp_ref *out, uint32_t *n)
{
    pp_track *t = &g->track;
    if (!t->at) return false;
    if (!t->on && t->n_literals == 0 && pp_call_is_plain(call)) { /* its name will do */
        t->words.n = t->kept;
        return false;
    }
    ppto_status status = begin_words(t);
    if (status == PPTO_OK) status = pp_track_words_call(t, call);
    if (!go_on(g, status, call->site, 0)) return false;
    *out = (pp_ref){t->at->node, 0};
    *n = t->at->n_results;
    return true;
}

/* ---- laying -------------------------------------------------------------------------------------- */

/* The words of the call at hand, with the values of literals that it looked at. False: no room. */
static bool finish_words(ppto_graph *g, uint32_t node)
{
    pp_track *t = &g->track;
    const uint64_t *words = t->words.at + t->kept + 1;
    t->n_literals += (words[0] & 0xff) == PP_TRACK_LITERAL;
    if ((words[0] & 0xff) == PP_TRACK_CALL && t->n_literals != 0) {
        const uint32_t tensors = pp_track_words_tensors(words, NULL, 0);
        if (!pp_graph_is_open(g->graph, node, tensors) && !add_values(g)) return false;
    }
    t->words.at[t->kept] = t->words.n - t->kept - 1;
    return true;
}

void pp_track_kept(ppto_graph *g, const char *plain)
{
    pp_track *t = &g->track;
    if (!t->at) return;
    const uint32_t node = t->at->node + 1 + (uint32_t)t->n_calls;
    bool good = pp_graph_size(g->graph) == (size_t)node + 1 && t->n_calls < MOST_CALLS;
    if (good && t->words.n == t->kept) {
        good = t->words.n < t->words.cap || pp_vec_reserve(&t->words, t->words.n + 1) == PPTO_OK;
        if (good) t->words.at[t->words.n++] = PP_TRACK_MARK | (uint64_t)(uintptr_t)plain;
    } else if (good) {
        good = finish_words(g, node);
    }
    if (!good) t->at = NULL;
    t->kept = t->words.n;
    t->n_calls++;
}

const pp_track_result *pp_track_result_of(const ppto_graph *g, pp_ref ref)
{
    return &g->track.rows.at[ref.node].step->results[ref.result];
}

static pp_track_step *lay(const ppto_graph *g, pp_track_step *before, const uint64_t *words, size_t n)
{
    pp_track_result results[TENSORS];
    const uint32_t node = before->node + 1, count = pp_graph_results(g->graph, node);
    if (count > TENSORS) return NULL;
    for (uint32_t i = 0; i < count; i++) {
        const pp_type *type =
            pp_type_get(pp_graph_types(g->graph), pp_graph_type(g->graph, (pp_ref){node, i}));
        results[i] = (pp_track_result){type->dtype, type->rank};
    }
    return pp_tracks_add(g->track.tracks, before, words, n, results, count);
}

/* The words of the call kept at *at go to *words; returns how many, or 0. *at: the next one */
static size_t kept_words(const ppto_graph *g, uint32_t node, size_t *at, uint64_t *room,
                         const uint64_t **words)
{
    const uint64_t head = g->track.words.at[(*at)++];
    *words = g->track.words.at + *at;
    if (!(head & PP_TRACK_MARK)) {
        *at += head;
        return head;
    }
    uint32_t n;
    const pp_ref *tensors = pp_graph_operands(g->graph, node, &n);
    if (n > PP_CALL_ARGS) return 0;
    pp_track_words_plain((const char *)(uintptr_t)(head & ~PP_TRACK_MARK), tensors, n, room);
    *words = room;
    return n + 2u;
}

pp_track_step *pp_track_lay(ppto_graph *g)
{
    pp_track *t = &g->track;
    uint64_t room[PP_CALL_ARGS + 2];
    if (t->on || pp_graph_error(g->graph)->code != PPTO_OK) return NULL;
    for (size_t at = 0; t->at && at < t->kept;) {
        const uint64_t *words;
        const size_t n = kept_words(g, t->at->node + 1, &at, room, &words);
        t->at = n != 0 ? lay(g, t->at, words, n) : NULL;
    }
    t->kept = t->n_calls = 0;
    return t->at;
}
