/* SPDX-License-Identifier: Apache-2.0
 * Running: once (ppto_eval), or compiled once and run often (ppto_program). */
#ifndef PPTO_RUN_H
#define PPTO_RUN_H

#include "ppto/array.h"
#include "ppto/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ppto_program ppto_program;

/* Fuses, plans, runs and waits. After `out`: pairs of an input's name and its array, then NULL.
 * returns  PPTO_OK and *out (ppto_array_release); the graph's first error; E_NAME, E_SHAPE, E_DTYPE for
 * bindings; E_LIMIT, E_NOMEM, E_VALUE (a check of an operator), … ; *out is NULL then threads  the graph's
 * thread */
PPTO_API ppto_status ppto_eval(ppto_tensor *tensor, ppto_array **out, ...);
PPTO_API ppto_status ppto_evaln(size_t n_outputs, ppto_tensor *const *tensors, ppto_array **outputs,
                                size_t n_inputs, const char *const *names, ppto_array *const *arrays);

/* A plan for these outputs (all of one graph), for every size its inputs allow. It does not keep the graph.
 * Plans are cached in the context by the structure of the graph. */
PPTO_API ppto_status ppto_compile(size_t n_outputs, ppto_tensor *const *outputs, ppto_program **program);
PPTO_API void ppto_program_destroy(ppto_program *program);
PPTO_API size_t ppto_program_inputs(const ppto_program *program);
PPTO_API const char *ppto_program_input_name(const ppto_program *program, size_t i);
PPTO_API size_t ppto_program_outputs(const ppto_program *program);
/* What pictures and explanations call an output; without it they count. name  copied; NULL or "": none */
PPTO_API ppto_status ppto_program_name_output(ppto_program *program, size_t i, const char *name);
/* Binds input i (retained until replaced; NULL unbinds). donate: its memory may become an output's, its
 * contents are undefined after the run. */
PPTO_API ppto_status ppto_program_bind(ppto_program *program, size_t i, ppto_array *array);
PPTO_API ppto_status ppto_program_bind_name(ppto_program *program, const char *name, ppto_array *array);
PPTO_API ppto_status ppto_program_donate(ppto_program *program, size_t i, bool donate);
/* Output i goes into this array (row-major, of the right dtype and shape; retained; NULL: a new array every
 * run). It may lie over inputs; a run whose outputs lie over each other is refused (E_VALUE). */
PPTO_API ppto_status ppto_program_bind_output(ppto_program *program, size_t i, ppto_array *array);
/* Output i goes to a file (NULL: to an array again) in the format that its name says: FILE.npz and
 * FILE.safetensors, with :NAME behind it or not, FILE.raw and FILE.bin without a header, FILE.npy and names
 * without an ending NPY, "-" NPY to standard output, "-:raw" the same without a header. The file appears
 * when the run has succeeded: the old file stays until then. Its place among the outputs of a run is NULL.
 * Together with inputs of ppto_array_open nothing of it need ever be in memory as a whole. returns PPTO_OK;
 * E_VALUE, also where another output goes to the file, or its ending is no format (y.txt); E_NOMEM. The run
 * adds E_IO (also where the reader of a pipe goes away) and E_LIMIT (disk full), which name the file; under
 * KEEP_GOING the other outputs are there all the same. */
PPTO_API ppto_status ppto_program_bind_sink(ppto_program *program, size_t i, const char *path);
/* Gets all ready for runs with what is bound (every input): memory is planned, and machine code is there when
 * this returns, so that no run of these sizes has to do either. Nothing is required; with tier "auto" the
 * code comes while runs go on. returns PPTO_OK; E_NAME where an input is not bound; what a run says of sizes
 * that do not fit; E_NOMEM */
PPTO_API ppto_status ppto_program_prepare(ppto_program *program);
/* Runs with what is bound and waits. outputs (NULL where every output is bound): room for all results; each
 * is retained for the caller. threads: one program by one thread at a time. */
PPTO_API ppto_status ppto_program_run(ppto_program *program, ppto_array **outputs);

/* Makes the run that is going on end soon with E_CANCELLED (between tasks; reads and writes that are under
 * way end first). Nothing where none is. threads: any, also from a signal handler. */
PPTO_API void ppto_program_cancel(ppto_program *program);
/* For a signal handler that ends the process at once, and with it all runs: removes what unfinished files
 * have as temporary names (most have none). returns false when one may stay; then cancel and wait. threads:
 * any, also from a signal handler */
PPTO_API bool ppto_files_abandon(void);

typedef struct ppto_stats {
    size_t size;
    size_t kernels;  /* of the plan */
    size_t launches; /* the device counted in the last run */
    uint64_t predicted_peak_bytes, measured_peak_bytes, lower_bound_bytes, serial_bound_bytes;
    uint64_t copied_bytes; /* implicit copies of the last run */
    uint64_t kernel_hits, kernel_misses;
    uint64_t reads_bytes, writes_bytes; /* counted (count_bytes), else 0 */
    bool plan_hit;
    const char *executor, *tier; /* static */
    int threads;
    double record_seconds, plan_seconds, compile_seconds, run_seconds; /* compile: in the background too */
    uint64_t pieces;                /* the last run was cut into, over all its passes; 0: it ran whole */
    uint64_t loops, compiled_loops; /* that can be machine code, by pieces of all parts; that were when the
                                       last run or ppto_program_prepare ended. tier: "interp" when none was,
                                       "jit" when all were, else "mixed" */
    uint64_t disk_hits;             /* of those, found on disk, where no other run told of them */
    const char
        *no_code; /* why tier "jit", asked for, cannot be had; else NULL. Lives as long as the context */
} ppto_stats;
PPTO_API ppto_status ppto_program_stats(const ppto_program *program,
                                        ppto_stats *stats); /* stats->size set by the caller */

typedef enum ppto_explain_stage {
    PPTO_EXPLAIN_SUMMARY,    /* kernels, bytes, what was not fused and why */
    PPTO_EXPLAIN_GRAPH,      /* the operator calls as recorded, with types and places */
    PPTO_EXPLAIN_SIMPLIFIED, /* the tensor primitives they mean, simplified */
    PPTO_EXPLAIN_FUSED,      /* groups, and why not more */
    PPTO_EXPLAIN_KERNEL,     /* the kernel programs */
    PPTO_EXPLAIN_PLAN,       /* steps, buffers and offsets; needs sizes */
    PPTO_EXPLAIN_SOURCE      /* C99 text of every kernel */
} ppto_explain_stage;
/* What the plan does. Sizes come from bound inputs, as far as they are bound. json: "ppto-explain/1" (stages
 * SUMMARY, GRAPH and SIMPLIFIED; E_UNSUPPORTED for others). */
PPTO_API ppto_status ppto_program_explain(ppto_program *program, ppto_explain_stage stage, bool json,
                                          char **text);
/* Text of the last run's tasks: step, phase, task, worker, start and end in ns, one per line. Off until asked
 * for. */
PPTO_API ppto_status ppto_program_log_tasks(ppto_program *program, bool on);
PPTO_API ppto_status ppto_program_task_log(const ppto_program *program, char **text);

/* ---- where handles are taken: as in ppto/array.h ---- */
PPTO_API ppto_status ppto_eval_at(ppto_site site, ppto_tensor *tensor, ppto_array **out, ...);
PPTO_API ppto_status ppto_evaln_at(ppto_site site, size_t n_outputs, ppto_tensor *const *tensors,
                                   ppto_array **outputs, size_t n_inputs, const char *const *names,
                                   ppto_array *const *arrays);
PPTO_API ppto_status ppto_compile_at(ppto_site site, size_t n_outputs, ppto_tensor *const *outputs,
                                     ppto_program **program);
PPTO_API ppto_status ppto_program_bind_at(ppto_site site, ppto_program *program, size_t i, ppto_array *array);
PPTO_API ppto_status ppto_program_bind_name_at(ppto_site site, ppto_program *program, const char *name,
                                               ppto_array *array);
PPTO_API ppto_status ppto_program_bind_output_at(ppto_site site, ppto_program *program, size_t i,
                                                 ppto_array *array);
PPTO_API ppto_status ppto_program_run_at(ppto_site site, ppto_program *program, ppto_array **outputs);
#define ppto_eval(...) ppto_eval_at(PPTO_HERE, __VA_ARGS__)
#define ppto_evaln(...) ppto_evaln_at(PPTO_HERE, __VA_ARGS__)
#define ppto_compile(...) ppto_compile_at(PPTO_HERE, __VA_ARGS__)
#define ppto_program_bind(...) ppto_program_bind_at(PPTO_HERE, __VA_ARGS__)
#define ppto_program_bind_name(...) ppto_program_bind_name_at(PPTO_HERE, __VA_ARGS__)
#define ppto_program_bind_output(...) ppto_program_bind_output_at(PPTO_HERE, __VA_ARGS__)
#define ppto_program_run(...) ppto_program_run_at(PPTO_HERE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
