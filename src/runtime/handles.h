/* SPDX-License-Identifier: Apache-2.0
 * What users hold while they record: arrays, in memory or in a file, graphs and their tensors. Read through
 * runtime.h. */
#ifndef PP_HANDLES_H
#define PP_HANDLES_H

#include <stdatomic.h>

#include "files/formats.h"
#include "graph/graph.h"
#include "ppto/array.h"
#include "ppto/graph.h"
#include "ppto/stream.h"
#include "runtime/context_state.h"

/* ---- array.c ---- */

/* An array that stays in its file: data is NULL until a run reads it, whole or by pieces. */
typedef struct pp_array_file {
    char *path;        /* as given: formats.h */
    atomic_bool taken; /* a pipe that some run has read, or reads */
    pp_reader reader;
} pp_array_file;

struct ppto_array {
    ppto_context *ctx;
    void *data; /* NULL with file */
    pp_array_file *file;
    int64_t shape[PPTO_MAX_RANK], stride[PPTO_MAX_RANK];
    size_t bytes; /* asked from the pool, when owned */
    bool owned;
    int rank;
    ppto_dtype dtype;
    bool number; /* ppto_number, ppto_integer: weak */
    uint64_t number_bits;
    void (*release)(void *arg, void *data);
    void *release_arg;
    _Atomic uint32_t refs;
};
/* tag: what it is and who holds it, for memcheck. */
ppto_status pp_array_new(ppto_context *ctx, const pp_tag *tag, ppto_dtype dtype, int rank,
                         const int64_t *shape, ppto_array **out, pp_error *err);
/* One reference more or less, and who has it: the library's own; the user's are ppto_array_retain. */
ppto_array *pp_array_hold(ppto_array *array, pp_hold hold, ppto_site site);
void pp_array_drop(ppto_array *array, pp_hold hold, ppto_site site);
/* What the ledger says of its memory, and nothing about references. */
void pp_array_note(const ppto_array *array, pp_hold hold, ppto_site site);
void pp_array_forget(const ppto_array *array, pp_hold hold, ppto_site site);
/* Fails with what went wrong, why->text or else the status, behind the file's name; without it when the run
 * was cancelled or passed its deadline. */
ppto_status pp_fail_of_file(pp_error *err, ppto_status status, const char *path, const pp_error *why);
/* An array in memory for what a file array holds; nothing is read. */
ppto_status pp_array_for_file(const ppto_array *array, ppto_array **out, pp_error *err);
/* A copy of a file array in memory. Errors name the file. watch: may be NULL. */
ppto_status pp_array_in_memory(const ppto_array *array, ppto_array **out, const pp_files_watch *watch,
                               pp_error *err);
/* ppto_array_save; errors name the file. */
ppto_status pp_array_save(const ppto_array *array, const char *path, const pp_files_watch *watch,
                          pp_error *err);
void pp_array_file_close(pp_array_file *file); /* NULL is fine */
/* A reader at the file's header, with a position of its own (*owned: close it); of standard input it is the
 * array's. E_VALUE: a pipe was read before; E_FORMAT: the file holds something else now; what opening says.
 */
ppto_status pp_array_file_reader(pp_array_file *file, pp_reader *reader, bool *owned, pp_error *err);
bool pp_array_contiguous(const ppto_array *array);
/* Lowest and highest byte touched, end exclusive; both NULL when empty. */
void pp_array_extent(const ppto_array *array, const char **lo, const char **hi);
/* Copies elements into row-major memory. */
void pp_array_pack(const ppto_array *array, void *out);
/* A row-major array over memory it does not own. */
ppto_status pp_array_over(ppto_context *ctx, void *data, ppto_dtype dtype, int rank, const int64_t *shape,
                          ppto_array **out);
void pp_fill_random(uint64_t seed, uint64_t stream, ppto_dtype dtype, int64_t n, void *out);

/* ---- tensor.c : handles ---- */

struct ppto_tensor {
    ppto_graph *graph;
    pp_ref ref;
    const char *type_text;
};
typedef struct pp_graph_source { /* an input that is a file */
    const char *name;
    ppto_array *array; /* retained */
    uint32_t node;     /* where it was recorded */
} pp_graph_source;
typedef struct pp_graph_sink { /* a value that goes to a file */
    pp_ref ref;
    const char *path;
    uint32_t over; /* node of the sink whose value it writes; PP_NONE */
} pp_graph_sink;
enum { PP_RECENT_NAMES = 32, PP_FEW_TENSORS = 32, PP_MORE_TENSORS = 512 };

struct ppto_graph {
    ppto_context *ctx;
    pp_graph *graph;
    pp_track track;                  /* on it, `graph` is empty */
    ppto_tensor few[PP_FEW_TENSORS]; /* the first handles */
    PP_VEC(ppto_tensor *) more;      /* the others, PP_MORE_TENSORS in each */
    size_t n_tensors;
    pp_arena arena; /* names */
    struct {
        const char *name; /* static, so that its address is enough; a name never changes its meaning */
        const pp_definition *definition;
    } recent[PP_RECENT_NAMES]; /* operators called last */
    PP_VEC(pp_graph_source) sources;
    PP_VEC(pp_graph_sink) sinks;          /* by node, ascending */
    PP_VEC(ppto_stream *) streams;        /* used once at least */
    PP_VEC(struct pp_event_row *) events; /* recorded or waited for */
    ppto_graph *next;                     /* idle */
};
/* Nothing is recorded on a graph that is NULL or a parent process's (both reported) or has failed. */
bool pp_tensor_usable(const ppto_graph *graph);
ppto_status pp_tensor_status(const ppto_graph *graph); /* why not */
/* The error of a recording call goes to the thread and, when it is the first, stays in the graph. */
void pp_tensor_keep_error(ppto_graph *graph, pp_error *err);
ppto_tensor *pp_tensor_handle(ppto_graph *graph, pp_ref ref); /* NULL when ref is none or out of memory */
void pp_graph_free(ppto_graph *graph);                        /* of nobody any more */

#endif
