/* SPDX-License-Identifier: Apache-2.0
 * Traces inside: who notes what (trace_record.c), and the notes put in order for those who write them down
 * (trace_view.c): trace_chrome.c, trace_perfetto.c, trace_timeline.c, trace_steps.c.
 *
 * A program that is traced has a *source*: a ring for each of its workers, one for what its caller does, one
 * for tasks that somebody else completes. One run of a program at a time, so each ring has one writer; only
 * the last is written under a lock. A note names its plan and step by number; what they are called is copied
 * when a plan first runs, since the plan of a piece does not outlive its run. */
#ifndef PP_TRACING_H
#define PP_TRACING_H

#include "ppto/trace.h"
#include "runtime/runtime.h"
#include "scheduler/io.h"
#include "scheduler/trace_ring.h"

/* ---- trace_record.c ----------------------------------------------------------------------------- */

typedef struct pp_trace_step {
    const char *name;                   /* of its operators, "softmax, mul" */
    const char *kind;                   /* "map", "row", …; "gate", "sync", "end" */
    const char *stream;                 /* "" none */
    ppto_site site;                     /* of its first operator that has one; file NULL: unknown */
    uint64_t reads_bytes, writes_bytes; /* distinct, as explain counts them while sizes are open */
    int64_t predicted_ns;               /* of a launch, by runtime/costs.h; 0: nothing is */
} pp_trace_step;

typedef struct pp_trace_plan {
    uint64_t serial, places; /* of the plan that ran last, of its program */
    int64_t *names;          /* values of its sizes */
    size_t n_names;
    uint32_t n;
    pp_trace_step *steps;
    uint32_t *first_need, *needs; /* CSR, as in pp_plan */
    pp_arena arena;               /* of all of these */
} pp_trace_plan;

typedef struct pp_trace_source {
    ppto_trace *trace;
    char *name;
    uint32_t workers;
    pp_trace_ring *rings; /* per worker; then the caller's; then of tasks completed elsewhere */
    pthread_mutex_t elsewhere;
} pp_trace_source;

struct ppto_trace {
    ppto_context *ctx;
    pthread_mutex_t lock; /* of all below but the rings */
    uint32_t uses;        /* the user and programs */
    uint32_t running;     /* programs whose rings are being written */
    uint32_t runs, parts; /* begun so far; parts of them */
    uint64_t room;        /* of a ring */
    int64_t zero_ns;
    PP_VEC(pp_trace_source *) sources;
    PP_VEC(pp_trace_plan) plans;
    PP_VEC(const char *) texts; /* names of files, and why runs failed */
    pp_arena arena;             /* of texts */
    pp_trace_ring memory;       /* written under the pool's lock */
    pp_pool_listener listener;
    bool listening;
};

/* One run being noted: on the stack of the run. source NULL: it is not. */
typedef struct pp_tracing {
    pp_trace_source *source;
    uint32_t run, plan; /* plan PP_NONE: not known yet */
    bool part;
    int64_t start_ns;
} pp_tracing;

void pp_trace_leave(pp_trace_source *source); /* its program is gone; NULL is fine */
/* Around a run of the program, or of a part of one; begin waits for one who reads. */
void pp_tracing_begin(pp_tracing *t, const ppto_program *p);
/* err: why, when it failed. */
void pp_tracing_end(pp_tracing *t, ppto_status status, const pp_error *err);
/* How its plan was made: of a program that was compiled after its trace was created, or of a part. */
void pp_tracing_compiled(const ppto_program *p);
void pp_tracing_stage(const ppto_program *p, const pp_stage_note *note); /* on the run's caller */
/* Once sizes are fixed: which plan it is. E_NOMEM */
ppto_status pp_tracing_plan(pp_tracing *t, const ppto_program *p, const int64_t *names, size_t n_names);
void pp_tracing_ran(void *arg, const pp_task_record *record, bool elsewhere); /* arg: pp_tracing */
/* pp_array_in_memory and pp_array_save, noted; on the run's caller, like the next. */
ppto_status pp_tracing_load(const ppto_program *p, const ppto_array *file, ppto_array **out,
                            const pp_files_watch *watch, pp_error *err);
ppto_status pp_tracing_save(const ppto_program *p, const ppto_array *array, const char *path,
                            const pp_files_watch *watch, pp_error *err);
/* A file that was read or written; on the run's caller. */
void pp_tracing_file(pp_trace_source *source, const char *path, pp_trace_event event);
/* A request that is done. */
void pp_tracing_request(pp_trace_source *source, const char *path, const pp_io_request *request);

/* ---- trace_plan.c ------------------------------------------------------------------------------- */

/* out: to be freed, also after a failure. E_NOMEM */
ppto_status pp_trace_plan_make(const ppto_program *p, const int64_t *names, size_t n_names,
                               pp_trace_plan *out);
void pp_trace_plan_free(pp_trace_plan *plan);
/* Do they say the same of their steps? Plans of pieces are made anew for every run. */
bool pp_trace_plan_same(const pp_trace_plan *a, const pp_trace_plan *b);

/* ---- trace_view.c ------------------------------------------------------------------------------- */

typedef enum pp_lane_kind {
    PP_LANE_PLANNING,
    PP_LANE_RUNS,
    PP_LANE_WORKER,
    PP_LANE_ELSEWHERE,
    PP_LANE_FILES
} pp_lane_kind;

typedef struct pp_view_lane {
    uint32_t source, kind, number; /* WORKER: its number; FILES: which of those side by side */
    char name[40];
} pp_view_lane;

typedef struct pp_view_step { /* what notes of one name are about: the same name in two plans is one */
    pp_trace_step s;          /* kinds besides: "read", "write", "run", "piece", "stage", "failure" */
    uint32_t colour;          /* of its name, for pictures */
} pp_view_step;

typedef struct pp_view_span {
    pp_trace_event e; /* times from the trace's zero */
    uint32_t lane, step;
} pp_view_span;

typedef struct pp_view_launch { /* all tasks of one step in one run */
    uint32_t step;              /* of the view */
    uint32_t run, plan, plan_step;
    uint32_t first, last; /* spans: the first to begin, the last to end */
    uint32_t tasks;
    int64_t start_ns, end_ns, busy_ns, wait_ns; /* wait: after all it needs was done */
} pp_view_launch;

typedef struct pp_view_arrow { /* the launch of `to` needed what `from` stores */
    uint32_t from, to;         /* spans */
} pp_view_arrow;

typedef struct pp_view_memory {
    int64_t ns;
    uint64_t held_bytes, used_bytes;
} pp_view_memory;

typedef struct pp_trace_view {
    const ppto_trace *trace;
    PP_VEC(pp_view_lane) lanes;
    PP_VEC(pp_view_step) steps;
    PP_VEC(pp_view_span) spans;      /* by lane, then by time, an outer one before those within */
    PP_VEC(pp_view_launch) launches; /* by run, plan, step */
    PP_VEC(pp_view_arrow) arrows;
    PP_VEC(pp_view_memory) memory;
    int64_t end_ns;
    uint64_t dropped, runs;
    pp_map step_of; /* what it is -> steps */
    pp_arena arena; /* of names */
} pp_trace_view;

/* The caller has the trace's lock and nothing of it runs. E_NOMEM; free it also then. */
ppto_status pp_trace_view_make(const ppto_trace *trace, pp_trace_view *view);
void pp_trace_view_free(pp_trace_view *view);
/* Its stream, where its name does not say it already; else "". */
const char *pp_trace_stream_of(const pp_trace_step *step);
/* "hit", "miss" of a stage that asked a cache; NULL of all others. */
const char *pp_trace_cache_name(const pp_trace_event *e);

/* ---- writers: append to out; what fails is in out->failed --------------------------------------- */

void pp_trace_chrome(const pp_trace_view *view, pp_text *out);
void pp_trace_perfetto(const pp_trace_view *view, pp_text *out);
void pp_trace_timeline(const pp_trace_view *view, pp_text *out);
ppto_status pp_trace_steps(const pp_trace_view *view, bool json, pp_text *out);

#endif
