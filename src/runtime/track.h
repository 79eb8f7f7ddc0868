/* SPDX-License-Identifier: Apache-2.0
 * Tracks: graphs that are recorded like one before.
 *
 * A track is how graphs of one structure were recorded, call by call. Each of its steps knows what was
 * called, on which results, and what came of it, so while a graph stays on a track nothing is recorded in
 * graph/ and nothing is inferred: it only keeps what differs from graph to graph, the places of calls and the
 * values of literals. A call that no step is known for leaves the track: what was kept is recorded in full,
 * which gives the graph as if there had been no track, and recording goes on there. Compiling such a graph
 * lays its steps for the next one, and leaves its program behind: a graph that is on the track when it is
 * compiled takes that program, without hash or signature of a graph, since every call was compared when it
 * was made.
 *
 * Calls are compared as *words*: kind, name and arguments without gaps. The value of a literal is not among
 * them, unless the call looked at it (an integer must fit a dtype, an exponent chooses an operator): such a
 * step has the values behind its words. Only calls from C are on tracks: texts, streams and files leave them
 * for good, and where memcheck watches there are none.
 *
 * Steps are found without a lock in a table that only grows; adding takes the lock of the tracks. When there
 * are too many the context begins with new ones, and the old ones go with the last graph on them. Read
 * track_graph.c first. */
#ifndef PP_TRACK_H
#define PP_TRACK_H

#include <pthread.h>
#include <stdatomic.h>

#include "graph/graph.h"
#include "ppto/run.h"

struct pp_call; /* runtime/operator_call.h */

typedef struct pp_track_result {
    uint8_t dtype, rank;
} pp_track_result;

typedef struct pp_track_step {
    const struct pp_track_step *before; /* NULL: nothing is recorded */
    uint64_t hash;
    uint32_t node; /* that it makes: each makes one, in order */
    uint32_t n_words;
    const uint64_t *words;
    bool is_literal;
    uint32_t n_results;
    const pp_track_result *results;
    struct pp_track_program *programs; /* of graphs that were compiled here; under the lock of the context */
} pp_track_step;

typedef struct pp_track_table {
    struct pp_track_table *older; /* readers may still be in it */
    size_t cap;                   /* a power of two */
    _Atomic(pp_track_step *) slot[];
} pp_track_table;

typedef struct pp_tracks {
    atomic_uint refs; /* the context and graphs */
    pthread_mutex_t lock;
    _Atomic(pp_track_table *) table; /* NULL: empty */
    pp_arena arena;                  /* of steps */
    size_t n;
    atomic_bool full;                  /* it is time for new ones */
    pp_track_step start;               /* of all tracks */
    struct pp_track_program *programs; /* all; under the lock of the context */
    size_t n_programs;
} pp_tracks;

typedef struct pp_track_row { /* of a node, on the track */
    ppto_site site;
    uint64_t bits; /* of a literal */
    pp_track_step *step;
} pp_track_row;

/* Of a graph. */
typedef struct pp_track {
    pp_tracks *tracks; /* NULL: there are none */
    pp_track_step *at; /* the last step made; NULL: it left for good */
    bool on;           /* nothing is in the graph yet, all is in rows */
    PP_VEC(pp_track_row) rows;
    size_t n_literals; /* recorded so far */
    /* Calls recorded in full since `at`, each behind the number of its words, or as the name with MARK where
     * the graph knows the rest; then those of the call at hand. */
    PP_VEC(uint64_t) words;
    size_t kept, n_calls; /* words that are kept, and of how many calls */
} pp_track;

/* ---- track_words.c ---- */

enum { PP_TRACK_INPUT = 1, PP_TRACK_LITERAL, PP_TRACK_CALL };
#define PP_TRACK_MARK (UINT64_C(1) << 63) /* in no number of words, address or reference */
/* Each appends to the words. E_NOMEM */
ppto_status pp_track_words_input(pp_track *track, const char *name, ppto_dtype dtype, bool weak,
                                 const char *dims);
ppto_status pp_track_words_literal(pp_track *track, bool is_float);
ppto_status pp_track_words_call(pp_track *track, const struct pp_call *call);
/* The n + 2 words of a call of tensors alone, by position. */
void pp_track_words_plain(const char *name, const pp_ref *tensors, uint32_t n, uint64_t *words);
/* Records the call of these words. The graph keeps the error of a failure. */
ppto_status pp_track_words_record(ppto_graph *graph, const uint64_t *words, const pp_track_row *row);
/* The tensors that a call of these words is given, in order: each to *at. returns  the number of them */
uint32_t pp_track_words_tensors(const uint64_t *words, pp_ref *at, uint32_t room);

/* ---- track_store.c ---- */

pp_tracks *pp_tracks_create(void);         /* NULL: out of memory */
void pp_tracks_release(pp_tracks *tracks); /* one reference; NULL is fine */
/* NULL: there is none. threads: any */
pp_track_step *pp_tracks_find(pp_tracks *tracks, const pp_track_step *before, const uint64_t *words,
                              size_t n);
/* Finds or adds it; the results are of the node it makes. NULL: no room. threads: any */
pp_track_step *pp_tracks_add(pp_tracks *tracks, const pp_track_step *before, const uint64_t *words, size_t n,
                             const pp_track_result *results, uint32_t n_results);

/* ---- track_graph.c ---- */

void pp_track_begin(ppto_graph *graph, pp_tracks *tracks); /* takes a reference; NULL: without */
void pp_track_free(pp_track *track);
/* Is the call a step of the track? If so *out is what it makes (of a call: its first result; *n of them). If
 * not the graph has left the track and may have an error, E_NOMEM; else the caller records the call, and says
 * pp_track_kept when it was. */
bool pp_track_input(ppto_graph *graph, const char *name, ppto_dtype dtype, bool weak, const char *dims,
                    ppto_site site, pp_ref *out);
bool pp_track_literal(ppto_graph *graph, bool is_float, uint64_t bits, ppto_site site, pp_ref *out);
bool pp_track_call(ppto_graph *graph, const struct pp_call *call, pp_ref *out, uint32_t *n);
void pp_track_kept(ppto_graph *graph, const char *plain); /* of a call of tensors alone: its name; NULL */
/* Afterwards graph->graph holds all that was recorded, or the error E_NOMEM. */
void pp_track_leave(ppto_graph *graph);
/* The same for what no track has: the graph lays none either. */
void pp_track_end(ppto_graph *graph);
/* Of a graph on the track: the result of its node. */
const pp_track_result *pp_track_result_of(const ppto_graph *graph, pp_ref ref);
/* After the graph was compiled in full: its last step, laid with those before. NULL: it has none. */
pp_track_step *pp_track_lay(ppto_graph *graph);

/* ---- track_program.c: programs of tracks ---- */

/* An idle program of the same outputs of a graph like this one, with this one's literals; NULL: none. */
ppto_program *pp_track_take(ppto_graph *graph, size_t n, const pp_ref *outputs);
/* The program was compiled in full from these outputs: others may have it when it is destroyed. */
void pp_track_give(ppto_graph *graph, size_t n, const pp_ref *outputs, ppto_program *program);
/* Of a program that its last holder gives up: true when it is kept for the next graph. */
bool pp_track_keep(ppto_program *program);
void pp_track_forget(ppto_program *program); /* it is kept nowhere */
/* The context gives them up, and its reference: they keep no programs any more. NULL is fine */
void pp_tracks_close(ppto_context *ctx, pp_tracks *tracks);
void pp_track_programs_free(struct pp_track_program *first); /* of tracks that nobody has */

/* ---- idle_graphs.c ---- */

/* Puts the graph at the start of the context's tracks; NULL: an idle one, if there is one. */
ppto_graph *pp_graph_begin(ppto_context *ctx, ppto_graph *graph);
bool pp_graph_keep_idle(ppto_graph *graph); /* true: it waits for the next */
void pp_graphs_free_idle(ppto_context *ctx);

#endif
