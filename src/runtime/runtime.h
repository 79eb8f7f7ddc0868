/* SPDX-License-Identifier: Apache-2.0
 * src/runtime: the only place that knows everyone. Context, arrays, handles, plans, programs, reports.
 *
 * A *plan* is what a graph's structure decides: simplified, fused, lowered, compiled kernels; immutable,
 * shared, cached in the context. An *instance* fixes the sizes and strides of a plan: slots, launches, buffer
 * offsets, the dispatch object; it serves one run at a time and is kept for the next run of the same sizes. A
 * *program* is a plan with what is bound. */
#ifndef PP_RUNTIME_H
#define PP_RUNTIME_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/stack.h"
#include "devices/device.h"
#include "files/formats.h"
#include "graph/graph.h"
#include "graph/lower.h"
#include "graph/recorded.h"
#include "graph/region.h"
#include "memory/layout.h"
#include "memory/pool.h"
#include "ppto/array.h"
#include "ppto/context.h"
#include "ppto/graph.h"
#include "ppto/run.h"
#include "ppto/stream.h"
#include "runtime/track.h"
#include "scheduler/dispatch.h"

/* ---- options.c
 * ---------------------------------------------------------------------------------------------------- */

typedef struct pp_settings { /* options after the environment was read; strings are static or owned by the
                                context */
    ppto_options o;
    char executor[16], device[16], tier[16], simd[16], memcheck[16], page_cache[16];
    char *memcheck_file, *memcheck_suppress; /* of the environment; NULL: none */
    char *topology;                          /* NULL: this machine */
    pp_pages pages;                          /* where memory lies */
} pp_settings;
/* Free it also after a failure. */
ppto_status pp_settings_read(const ppto_options *options, pp_settings *out, pp_error *err);
void pp_settings_free(pp_settings *settings);

/* ---- context.c
 * ---------------------------------------------------------------------------------------------------- */

typedef struct pp_kernel_entry { /* a compiled program of the context's kernel cache */
    pp_program *program;
    pp_kernel *kernel;
    uint32_t refs;
    uint64_t last_use;
} pp_kernel_entry;

struct ppto_context {
    pp_settings settings;
    pp_library *library; /* made at the first use: pp_context_library */
    pp_pool *pool;
    pp_ledger *ledger;  /* of the pool; NULL: memcheck is off */
    pp_stacks *stacks;  /* NULL: calls are not captured */
    char *suppressions; /* of memcheck; NULL: none */
    ppto_program *held; /* that the user did not destroy yet, where the ledger is; under lock */
    const pp_device_class *device_class;
    pp_device *device;
    pp_executor *executor;
    size_t few;                 /* bytes of a file that a step reads at once; more are moved by io */
    struct pp_io *io;           /* made at the first file that is read or written by pieces: pp_context_io */
    struct pp_machine *machine; /* read at the first use: pp_context_machine */
    pthread_mutex_t machine_lock; /* of it and shares; innermost */
    pp_shares shares;             /* of its domains, for memory */
    bool placed;                  /* there may be several nodes */
    bool refusal_told;            /* under the lock of the pool */
    pp_error no_code;             /* why tier jit, asked for, cannot be had; no text: it can, or was not */
    pp_log log;
    pthread_mutex_t lock; /* library, device, executor creation and both caches; never held while running */
    PP_VEC(pp_kernel_entry *) kernels;
    pp_map kernel_map; /* program hash -> index in kernels */
    PP_VEC(struct pp_plan *) plans;
    uint64_t clock; /* of the caches */
    uint64_t kernel_hits, kernel_misses;
    struct pp_syncs *syncs;             /* streams and events; made under lock */
    struct pp_drivers *_Atomic drivers; /* runs that nobody waits for; made under lock */
    _Atomic uint64_t runs, plans_made;  /* numbers given */
    _Atomic uint64_t graphs;            /* that are not destroyed */
    pp_tracks *tracks;                  /* NULL: none yet, or memcheck is on; under lock */
    ppto_graph *idle_graphs;            /* empty ones, for the next; under lock */
    uint32_t n_idle_graphs;
    uint64_t process; /* base/fork.h */
    uint32_t workers;
};
ppto_status pp_context_library(ppto_context *ctx, pp_library **out, pp_error *err);
ppto_status pp_shipped_library(pp_library **out); /* of the shipped operators, none of them read */
ppto_status pp_context_device(ppto_context *ctx, pp_error *err); /* opens device and executor */
ppto_status pp_context_io(ppto_context *ctx, struct pp_io **out, pp_error *err); /* starts the I/O engine */
/* E_FORKED in a child; E_VALUE for NULL. What is given back in a child stays as it is: locks may be held, and
 * owners count on threads that are not there. */
ppto_status pp_context_check(const ppto_context *ctx, pp_error *err);
bool pp_context_forked(const ppto_context *ctx);
ppto_status pp_context_refuses(const ppto_context *ctx); /* reports E_FORKED; PPTO_OK */
/* The cached kernel of an equal program, or compiles this one. Takes the program. */
ppto_status pp_context_kernel(ppto_context *ctx, pp_program *take_program, pp_kernel_entry **out, bool *hit,
                              pp_error *err);
void pp_context_kernel_release(ppto_context *ctx, pp_kernel_entry *entry);

/* The calling thread's error record; pp_report copies err there and returns its code. */
ppto_status pp_report(const pp_error *err);
ppto_status pp_report_new(ppto_status code, const char *format, ...) PP_PRINTF(2, 3);

/* ---- memcheck.c ---- */

/* The text of a file of suppressions, checked. path NULL: *text is. E_IO, E_VALUE with file:line, E_NOMEM.
 * owns  *text: pp_free */
ppto_status pp_memcheck_suppressions(const char *path, char **text, pp_error *err);

/* All is given back that will be: the report the settings ask for, and in err what leaks or grows if that is
 * to be an error. left: of pp_held_count. */
void pp_memcheck_shutdown(ppto_context *ctx, const uint64_t *left, pp_error *err);
/* Adds to an error for lack of memory who holds the most: with places where memcheck watches, else operators.
 * err may be NULL. */
void pp_memcheck_blame(ppto_context *ctx, pp_error *err);

/* ---- array.c
 * ------------------------------------------------------------------------------------------------------- */

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

/* ---- tensor.c : handles
 * --------------------------------------------------------------------------------------------- */

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

/* ---- plan.c
 * ---------------------------------------------------------------------------------------------------------
 */

/* Programs are verified as they are made; cheap beside compiling. */
#define PP_PLAN_VERIFY 1

typedef struct pp_plan_input {
    char *name;
    pp_type_id type;
    uint32_t prim; /* INPUT prim in flat */
    uint32_t graph_index;
} pp_plan_input;

#define PP_JOINING "pieces joined" /* the operator's name of what no operator recorded */
typedef struct pp_origin {         /* where a prim was recorded */
    const char *operator_name;
    ppto_site site;
    uint32_t stack; /* of calls; 0: not captured */
} pp_origin;

typedef struct pp_plan_step {
    enum { PP_STEP_GROUP, PP_STEP_GATE, PP_STEP_SYNC, PP_STEP_END, PP_STEP_LOAD, PP_STEP_STORE } kind;
    uint32_t which;  /* group, stream - 1, sync point, stream - 1, input, output */
    uint32_t stream; /* 0: none */
} pp_plan_step;

typedef struct pp_schedule { /* schedule.c */
    PP_VEC(pp_plan_step) steps;
    PP_VEC(uint32_t) needs; /* CSR with first_need: steps that a step waits for, all lower */
    uint32_t *first_need, *step_of_group;
} pp_schedule;

typedef enum pp_plan_stage {                  /* what compiling is made of; for traces */
                             PP_PLAN_COMPILE, /* all of it */
                             PP_PLAN_LOOK_UP, /* in the cache of plans */
                             PP_PLAN_EXPAND,
                             PP_PLAN_SIMPLIFY,
                             PP_PLAN_FUSE,
                             PP_PLAN_SCHEDULE,
                             PP_PLAN_LOWER,
                             PP_PLAN_KERNEL, /* from the cache of kernels, or compiled */
                             PP_PLAN_LAYOUT, /* at a run: sizes, launches, places in memory */
                             PP_PLAN_STAGES
} pp_plan_stage;
typedef enum pp_cache_note { PP_CACHE_NONE, PP_CACHE_HIT, PP_CACHE_MISS } pp_cache_note;

typedef struct pp_stage_note { /* when a stage was passed */
    uint8_t stage, cache;      /* pp_plan_stage, pp_cache_note */
    uint32_t group;            /* of LOWER and KERNEL */
    int64_t start_ns, end_ns;
} pp_stage_note;

typedef struct pp_plan {
    ppto_context *ctx;
    uint32_t refs;   /* programs and the cache; under ctx->lock */
    uint64_t serial; /* counts the plans of the context */
    uint64_t hash, last_use;
    pp_text signature;
    pp_recorded recorded; /* empty in the plan of a part */
    pp_types *types;
    pp_flat flat;
    pp_fused fused;
    pp_lowered *lowered;      /* per group */
    pp_kernel_entry **kernel; /* per group */
    PP_VEC(pp_plan_input) inputs;
    PP_VEC(uint32_t) numbers; /* prims known on the host, ascending */
    uint8_t *literal_used;    /* per literal: its value decided the plan */
    uint64_t *literal_value;
    size_t n_literals, recorded_ops;
    pp_origin *origins; /* per graph node up to the highest origin */
    size_t n_origins;
    uint8_t *contiguous;  /* per input: must be row-major (read linearly) */
    uint32_t *readers;    /* per input: how many tensors of groups it is */
    pp_schedule schedule; /* of a run without files */
    double plan_seconds, compile_seconds;
    size_t kernel_hits, kernel_misses;
    PP_VEC(pp_stage_note) stages; /* how it was made, in order */
    pp_arena arena;
    struct pp_instance *idle; /* under ctx->lock */
} pp_plan;
/* Finds or makes the plan of these outputs; looked_up->cache tells which. The caller owns a reference. */
ppto_status pp_plan_get(ppto_graph *graph, const pp_ref *outputs, size_t n, const uint64_t *literals,
                        size_t n_literals, pp_plan **out, pp_stage_note *looked_up, pp_error *err);
/* A plan for one part of a region of `whole`, which must outlive it; takes the part's flat graph and types.
 */
ppto_status pp_plan_of_part(pp_plan *whole, pp_part *part, pp_plan **out, pp_error *err);
void pp_plan_release(pp_plan *plan);
const pp_origin *pp_plan_origin(const pp_plan *plan, uint32_t prim);
/* Names of the program's streams (number from 1); "" for 0. */
const char *pp_program_stream(const ppto_program *program, uint32_t stream);
/* A group that only moves data: it is launched, but is no kernel of the plan's count. */
bool pp_plan_is_copy(const pp_plan *plan, size_t group);
/* The prim to name when a run fails in this group: a check, else what it stores. */
uint32_t pp_plan_culprit(const pp_plan *plan, size_t group);

/* ---- schedule.c : steps, from groups, streams and sync points ---- */

/* Where a file is loaded or stored, as a word of an instance's key: on a stream (0: none), behind `level`
 * sync points. A word of 0: no file. */
static inline int64_t pp_file_word(uint32_t stream, uint32_t level)
{
    return ((int64_t)stream + 1) << 32 | level;
}
static inline uint32_t pp_file_stream(int64_t word)
{
    return word != 0 ? (uint32_t)(word >> 32) - 1 : 0;
}
static inline uint32_t pp_file_level(int64_t word)
{
    return (uint32_t)word;
}
/* files: a word for each input, then for each output; NULL: none. Of a plan with files the groups are
 * lowered. Free it also after a failure. */
ppto_status pp_schedule_make(const pp_plan *plan, const int64_t *files, pp_schedule *out);
void pp_schedule_free(pp_schedule *schedule);
/* needs of all steps as CSR. serial: every group waits for the one before it too. */
ppto_status pp_schedule_needs(const pp_schedule *schedule, bool serial, uint32_t **first, uint32_t **needs);

/* ---- instance.c
 * ------------------------------------------------------------------------------------------------------ */

typedef struct pp_bound { /* one tensor argument of a launch and where its memory comes from */
    enum { PP_FROM_INPUT, PP_FROM_OUTPUT, PP_FROM_SLAB } from;
    uint32_t which; /* plan input, output number, or buffer */
} pp_bound;

typedef struct pp_progress {             /* of a run: progress.c */
    _Atomic uint64_t total, done, moved; /* moved: bytes of files, which are work beside `done` */
} pp_progress;

typedef struct pp_instance_group {
    int64_t *slots;
    pp_tensor_ref *tensors;
    pp_bound *bound;
    uint64_t *args;
    pp_launch *launch;
    pp_geometry geometry;
    uint32_t shared_buffer; /* UINT32_MAX: none */
    const pp_device_class *device;
    atomic_bool ran;       /* in this run */
    pp_progress *progress; /* where its tasks are counted; NULL: nowhere */
} pp_instance_group;

typedef struct pp_sync_step { /* the object of a step of a stream */
    struct pp_instance *instance;
    uint32_t step;
} pp_sync_step;

typedef struct pp_instance {
    pp_plan *plan;
    const pp_placement *lies; /* the slab; NULL: as all memory of the context */
    int64_t *key;             /* sizes of names, strides of inputs, words of files */
    size_t n_key;
    const int64_t *files; /* in the key: of inputs, then of outputs; NULL: there are none */
    pp_schedule own;      /* empty without files */
    const pp_schedule *schedule;
    int64_t *names;
    size_t n_names;
    pp_instance_group *groups;
    int64_t *output_shape; /* [n_outputs][PPTO_MAX_RANK] */
    uint64_t *output_bytes;
    pp_layout layout;
    pp_tag slab; /* what memcheck says of the memory behind the layout */
    uint64_t scratch_bytes;
    bool uncounted; /* the scratch is taken from the heap; pp_instance_count */
    pp_dispatch *dispatch;
    pp_sync_step *sync_steps;        /* per step; NULL without streams */
    struct pp_file_step *file_steps; /* of loads and stores, in the order of steps */
    size_t n_file_steps;
    struct pp_sync_state *sync;     /* of the program that runs */
    struct ppto_program *program;   /* which that is */
    ppto_array **inputs, **results; /* of its run: where files are loaded to, and stored from */
    uint64_t *value;                /* per entry of plan->numbers: its value in this run */
    pp_arena arena;
    bool is_new; /* not yet put back once */
    struct pp_instance *next;
} pp_instance;
/* What fixes an instance: values of the plan's size names, the strides of its inputs, and which of them and
 * of the outputs are files that steps load and store. E_NAME, E_SHAPE, E_DTYPE when the arrays do not agree
 * with the declared inputs. */
size_t pp_instance_key_size(const pp_plan *plan);
ppto_status pp_instance_key(const ppto_program *program, ppto_array *const *inputs, int64_t *key,
                            pp_error *err);
bool pp_input_is_number(const pp_plan *plan,
                        size_t i); /* known before there are steps, so no step loads it */
/* The operator, sync point or file of a step; NULL for the ends of a stream, and where no node of the graph
 * stands for the file. schedule: the plan's or that of the program's instance. */
const pp_origin *pp_step_origin(const ppto_program *program, const pp_schedule *schedule, uint32_t step);
/* An idle instance of that key, or a new one. Give it back with pp_instance_put. */
ppto_status pp_instance_get(pp_plan *plan, ppto_array *const *inputs, const int64_t *key, size_t n_key,
                            pp_instance **out, pp_error *err);
void pp_instance_put(pp_instance *instance); /* back to the plan's idle list */
/* Whether its scratch is taken from the context's pool; what is there is given back. Not while it runs. */
void pp_instance_count(pp_instance *instance, bool counted);
void pp_instance_destroy(pp_instance *instance);
/* Agreement of bound arrays with the declared inputs; names: values of named sizes. */
ppto_status pp_instance_sizes(const pp_plan *plan, ppto_array *const *inputs, int64_t *names, pp_error *err);
/* What recording could not decide: with these sizes every view lies inside its operand, no size is negative,
 * and a reduction of nothing has a unit. E_VALUE, E_SHAPE. */
ppto_status pp_instance_check(const pp_plan *plan, const int64_t *names, pp_error *err);
/* "; N = 3, M = 0" of the named sizes that the text names. */
void pp_instance_add_values(const pp_plan *plan, const int64_t *names, const char *text, pp_text *out);

/* ---- memory_tags.c : what memcheck says of a plan's memory ---- */

/* What the user makes there, and holds. */
pp_tag pp_tag_of_user(const char *what, ppto_site site, ppto_dtype dtype);
pp_tag pp_tag_of_origin(const pp_origin *origin, pp_block_kind kind, ppto_dtype dtype);
/* Output i of the program, held by its run. */
pp_tag pp_tag_of_output(const ppto_program *program, size_t i);
/* Registers the buffers of the instance with the ledger: in->slab. rows: of the layout; of_prim: prim ->
 * buffer, UINT32_MAX none. Nothing is lost but words in a report when memory is short. */
void pp_instance_watch(pp_instance *in, const pp_layout_buffer *rows, size_t n_rows, const uint32_t *of_prim);

/* ---- numbers.c
 * -------------------------------------------------------------------------------------------------------- */

/* Values of plan->numbers, in its order. E_VALUE for a number that does not fit. */
ppto_status pp_numbers_eval(const pp_plan *plan, const int64_t *names, ppto_array *const *inputs,
                            const uint64_t *literals, uint64_t *values, pp_error *err);
uint64_t pp_number_value(const pp_plan *plan, const uint64_t *values, uint32_t prim);

/* ---- compile.c
 * -------------------------------------------------------------------------------------------------------- */

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
    pp_origin *made_by; /* per output, as this program's graph recorded it; NULL: memcheck is off */
    size_t n_made_by;
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

/* ---- region_open.c, region_run.c
 * -------------------------------------------------------------------------------------------------------- */

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
/* The failure of an output that was given up while the run went on for others; NULL: none. */
const pp_error *pp_region_lost(const pp_region_run *run);
uint64_t pp_region_predicted(const pp_region_run *run); /* peak bytes */
uint64_t pp_region_measured(const pp_region_run *run);  /* most bytes of the pool, when it has run */
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

/* ---- run.c
 * ---------------------------------------------------------------------------------------------------------------
 */
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
