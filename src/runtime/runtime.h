/* SPDX-License-Identifier: Apache-2.0
 * src/runtime: the only place that knows everyone. Context, arrays, handles, plans, programs, reports.
 *
 * A *plan* is what a graph's structure decides: simplified, fused, lowered, compiled kernels; immutable,
 * shared, cached in the context. An *instance* fixes the sizes and strides of a plan: slots, launches, buffer
 * offsets, the dispatch object; it serves one run at a time and is kept for the next run of the same sizes. A
 * *program* is a plan with what is bound.
 * context_state.h, handles.h and plans.h are parts of this header. */
#ifndef PP_RUNTIME_H
#define PP_RUNTIME_H

#include "runtime/context_state.h"
#include "runtime/handles.h"
#include "runtime/plans.h"

/* ---- compile.c ---- */

typedef struct pp_held_program { /* one of the context's list */
    ppto_program *next, *before;
    char *file, *function;
    ppto_site site; /* of ppto_compile */
    uint32_t stack;
    bool is_held;
} pp_held_program;

struct ppto_program {
    ppto_context *ctx;
    pp_plan *plan;
    _Atomic uint32_t refs;                /* the user and a run */
    atomic_bool running;                  /* nobody else may touch it */
    struct pp_sync_state *sync;           /* NULL: the plan has no streams */
    const struct pp_run_control *control; /* of the run that has it, for its pieces */
    bool plan_hit;
    pp_stage_note compiled, looked_up; /* COMPILE, LOOK_UP */
    uint64_t *literals;
    size_t n_literals;
    pp_origin *origins; /* per rank of a node, as this program's graph recorded it; a part's are borrowed */
    size_t n_origins;
    ppto_array **inputs, **outputs;
    char **sinks;     /* per output: the file it goes to, NULL: an array */
    char **names;     /* per output: what the user calls it, NULL: nothing */
    int64_t *file_at; /* per input, then per output: where the graph has its source or sink on a stream */
    pp_origin *file_origin; /* of those of the graph */
    bool *donated;
    pp_progress progress; /* of the run */
    volatile int cancel;  /* set by ppto_program_cancel and ppto_run_cancel; cleared when a run takes it */
    const volatile int *stop; /* its own cancel, or that of the program it is a part of */
    bool whole;               /* never piece by piece: a part of a region */
    bool settled, rebinds; /* run_again.c: the next run is the last one again; it binds anew all the same */
    bool uncounted; /* its scratch is the heap's: it makes data, which takes no more than their array */
    pp_instance *instance;
    ppto_stats stats;
    pp_code_count code; /* by pieces of all parts that ran, and of what is compiled of all runs */
    PP_VEC(pp_task_record) log;
    size_t log_n;
    bool log_on;
    struct pp_trace_source *source; /* where its runs are noted; NULL: nowhere */
    int64_t *key;                   /* room for pp_instance_key */
    char **known_names;             /* all inputs of the graph, needed or not */
    size_t n_known;
    pp_held_program held;           /* held_programs.c */
    struct pp_track_program *track; /* where it goes when it is destroyed; NULL: nowhere */
    ppto_program *next;             /* idle there */
};

ppto_status pp_program_of_plan(pp_plan *take_plan, ppto_program **out);
/* ppto_compile, with the error in err. */
ppto_status pp_program_compile(size_t n, ppto_tensor *const *outputs, ppto_program **out, pp_error *err);
void pp_program_free(ppto_program *program);        /* nobody has it; NULL is fine */
void pp_program_first_stats(ppto_program *program); /* of one that has not run */

/* ---- held_programs.c : for memcheck, programs that are not destroyed ---- */

ppto_status pp_held_add(ppto_program *program, ppto_site site); /* once, from ppto_compile; E_NOMEM */
void pp_held_remove(ppto_program *program);                     /* if it was added */
/* At the end of the context, when nothing runs: the ledger hears what those still there hold. */
void pp_held_tell(ppto_context *ctx);
/* Then too, while streams and events are there: what the user did not give back. By pp_left. */
void pp_held_count(ppto_context *ctx, uint64_t *left);

/* ---- region_open.c, region_run.c ---- */

typedef struct pp_region_run pp_region_run;
typedef struct pp_region_refusal {
    uint32_t culprit;    /* the prim that prevents it; PP_NONE */
    uint64_t least;      /* the least memory limit known to do */
    uint64_t most_bytes; /* where no prim as such prevents it: what the operator with the most asks for */
    uint32_t most_for;   /* its origin in the plan */
} pp_region_refusal;

/* A run piece by piece along the first axis of the largest input: planned, within the memory limit.
 * fixed: bytes of inputs and results that ppto owns. whole: what a run in one piece would need. names: values
 * of named sizes.
 * returns E_UNSUPPORTED and the reason in err when the plan cannot be cut; E_LIMIT; *refusal says more of
 * both. inputs and names must outlive it; close it. */
ppto_status pp_region_open(ppto_program *program, ppto_array *const *inputs, const int64_t *names,
                           uint64_t fixed, uint64_t whole, pp_region_run **out, pp_region_refusal *refusal,
                           pp_error *err);
bool pp_region_streams_output(const pp_region_run *run, size_t number); /* it is never whole in memory */
/* The first failure of a file that was given up while the run went on for others; NULL: none. */
const pp_error *pp_region_lost(const pp_region_run *run);
bool pp_region_output_lost(const pp_region_run *run, size_t number); /* its values are nobody's */
uint64_t pp_region_predicted(const pp_region_run *run);              /* peak bytes */
uint64_t pp_region_measured(const pp_region_run *run); /* most bytes of the pool, when it has run */
ppto_status pp_region_execute(pp_region_run *run, ppto_array *const *results);
void pp_region_close(pp_region_run *run); /* NULL is fine */

/* ---- graph_files.c : sources and sinks of graphs ------------------------------------------------------ */

void pp_graph_files_free(ppto_graph *graph);
/* Binds what the graph says of the program's inputs and outputs. E_VALUE: two outputs go to one file. */
ppto_status pp_graph_files_bind(ppto_program *program, const ppto_graph *graph, const pp_ref *outputs,
                                size_t n, pp_error *err);

/* ---- progress.c : how far a run is ---------------------------------------------------------------- */

void pp_progress_begin(pp_progress *progress, uint64_t total);   /* a run of so much work begins */
void pp_progress_add(pp_progress *progress, uint64_t work);      /* so much more is done */
uint64_t pp_progress_group_task(const pp_instance_group *group); /* work of a task */
uint64_t pp_progress_groups(const pp_instance *instance);        /* work of a run in one piece */
/* Stops the transfers of a run that is to stop, and counts their bytes. */
struct pp_run_control;                                   /* runtime/sync.h */
pp_files_watch pp_progress_watch(ppto_program *program); /* of the run that has it */
/* file_moves.c : pp_files_watch.close and .move of a run. E_LIMIT, E_NOMEM: the engine cannot be had */
void pp_file_close(const pp_files_watch *watch, int fd);
ppto_status pp_file_move(const pp_files_watch *watch, bool write, int fd, void *bytes, size_t n, size_t *got,
                         pp_error *err);

/* ---- run.c ---- */
struct pp_ticket;
/* The program is the caller's (pp_program_take), and so far as it has streams the run has entered them. On
 * failure no output, unless control says keep_going. */
ppto_status pp_run_program(ppto_program *program, ppto_array **outputs, const struct pp_run_control *control,
                           struct pp_ticket *ticket, pp_error *err);
/* Makes the instance for what is bound (data may be NULL); *bytes: its buffers and scratch. */
ppto_status pp_run_prepare(ppto_program *program, uint64_t *bytes, pp_error *err);
void pp_run_count_code(ppto_program *program); /* of its instance, into its statistics */
void pp_run_note_code(ppto_program *program);  /* what program->code says */

#endif
