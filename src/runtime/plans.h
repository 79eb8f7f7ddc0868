/* SPDX-License-Identifier: Apache-2.0
 * Plans, which a graph's structure decides, their schedules, and instances, which sizes and strides decide
 * (runtime.h has the words). Read through runtime.h. */
#ifndef PP_PLANS_H
#define PP_PLANS_H

#include <stdatomic.h>

#include "graph/lower.h"
#include "graph/recorded.h"
#include "graph/region.h"
#include "memory/layout.h"
#include "runtime/context_state.h"

/* ---- plan.c ---- */

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
    const char **operators; /* per rank of a node: its name; where it was recorded, programs know */
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
/* Names of the program's streams (number from 1); "" for 0. */
const char *pp_program_stream(const ppto_program *program, uint32_t stream);
/* A group that only moves data: it is launched, but is no kernel of the plan's count. */
bool pp_plan_is_copy(const pp_plan *plan, size_t group);
/* The prim to name when a run fails in this group: a check, else what it stores. */
uint32_t pp_plan_culprit(const pp_plan *plan, size_t group);

/* ---- origins.c : where what a plan computes was recorded ---- */

const char *pp_plan_operator(const pp_plan *plan, uint32_t prim); /* its name; never NULL */
/* As the graph of this program recorded it; never NULL. */
const pp_origin *pp_program_origin(const ppto_program *program, uint32_t prim);
ppto_status pp_plan_keep_operators(pp_plan *plan, pp_graph *graph, const pp_ref *outputs, size_t n);
/* Of a program that has its plan, once. E_NOMEM; pp_program_free_origins also then */
ppto_status pp_program_keep_origins(ppto_program *program, pp_graph *graph, const pp_ref *outputs, size_t n);
void pp_program_borrow_origins(ppto_program *part, const ppto_program *whole); /* which outlives it */
void pp_program_free_origins(ppto_program *program);
/* A number of the places; other places, another number, but for chance. */
uint64_t pp_program_places(const ppto_program *program);
/* Appends the places, so that graphs recorded at others have another signature. E_NOMEM */
ppto_status pp_places_sign(pp_graph *graph, const pp_ref *outputs, size_t n, pp_text *signature);

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

/* ---- instance.c ---- */

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
ppto_status pp_instance_get(const ppto_program *program, ppto_array *const *inputs, const int64_t *key,
                            size_t n_key, pp_instance **out, pp_error *err);
void pp_instance_put(pp_instance *instance); /* back to the plan's idle list */
/* Whether its scratch is taken from the context's pool; what is there is given back. Not while it runs. */
void pp_instance_count(pp_instance *instance, bool counted);
void pp_instance_destroy(pp_instance *instance);
/* Agreement of bound arrays with the declared inputs; names: values of named sizes. */
ppto_status pp_instance_sizes(const ppto_program *program, ppto_array *const *inputs, int64_t *names,
                              pp_error *err);
/* What recording could not decide: with these sizes every view lies inside its operand, no size is negative,
 * and a reduction of nothing has a unit. E_VALUE, E_SHAPE. */
ppto_status pp_instance_check(const ppto_program *program, const int64_t *names, pp_error *err);
/* "; N = 3, M = 0" of the named sizes that the text names. */
void pp_instance_add_values(const pp_plan *plan, const int64_t *names, const char *text, pp_text *out);

/* ---- memory_tags.c : what memcheck says of a plan's memory ---- */

/* What the user makes there, and holds. */
pp_tag pp_tag_of_user(const char *what, ppto_site site, ppto_dtype dtype);
pp_tag pp_tag_of_origin(const pp_origin *origin, pp_block_kind kind, ppto_dtype dtype);
/* Output i of the program, held by its run. */
pp_tag pp_tag_of_output(const ppto_program *program, size_t i);
/* Registers the buffers of the instance, which is made for the program, with the ledger: in->slab. rows: of
 * the layout; of_prim: prim -> buffer, UINT32_MAX none. Nothing is lost but words in a report when memory is
 * short. */
void pp_instance_watch(pp_instance *in, const ppto_program *program, const pp_layout_buffer *rows,
                       size_t n_rows, const uint32_t *of_prim);

/* ---- numbers.c ---- */

/* Values of plan->numbers, in its order. E_VALUE for a number that does not fit. */
ppto_status pp_numbers_eval(const pp_plan *plan, const int64_t *names, ppto_array *const *inputs,
                            const uint64_t *literals, uint64_t *values, pp_error *err);
uint64_t pp_number_value(const pp_plan *plan, const uint64_t *values, uint32_t prim);

#endif
