/* SPDX-License-Identifier: Apache-2.0
 * Contexts: the operators, devices, workers, memory and caches that graphs and programs share.
 *
 * A context and all that belongs to it stay in the process that made them. In a forked child every call that
 * returns a status says E_FORKED, constructors return NULL, giving back does nothing, and only facts of
 * arrays can be read; the child may create contexts of its own. exit may be called while runs are under way;
 * they do not end then. With the last context the library has no thread left, and can be unloaded. */
#ifndef PPTO_CONTEXT_H
#define PPTO_CONTEXT_H

#include "ppto/types.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ppto_context ppto_context;

/* A line of the log, without a newline; level 0 error, 1 warning, 2 information, 3 the lowering stage by
 * stage. Called from any thread that uses the context; must not call ppto. */
typedef void (*ppto_log_fn)(void *arg, int level, const char *line);

/* Start from PPTO_OPTIONS_INIT; zero or NULL means: the environment variable named beside the field, else the
 * default. */
typedef struct ppto_options {
    size_t size;          /* sizeof(ppto_options), so that fields can be added */
    const char *executor; /* PPTO_EXECUTOR: "tbb" (default where built in), "pthread", "serial", "sim" */
    const char *device;   /* PPTO_DEVICE: "cpu" (default), "reference" */
    const char *tier;     /* PPTO_TIER: "auto" (default): machine code as soon as it is compiled, in the
                             background; "interp": never; "jit": before the first run */
    const char *simd;     /* PPTO_SIMD: "baseline", "avx2", "avx512"; default the best there is */
    int threads;   /* PPTO_NUM_THREADS; default all that affinity and cgroup allow; -1: default, ignore the
                      environment */
    int log_level; /* PPTO_LOG_LEVEL 0–3; -1: 0 without looking at the environment */
    uint64_t memory_limit; /* bytes of tensors, scratch and results; 0: none */
    uint64_t sim_seed;     /* of the sim executor */
    uint32_t grain;        /* elements per task, 0: chosen; any value gives the same bits */
    uint32_t chunk;        /* rows of a piece (a power of two): runs go piece by piece along the first axis of
                              their largest input where that is possible. 0: only when the limit or a file asks
                              for it, with a length that is chosen. Any value gives the same bits */
    bool no_optimise;      /* run graphs as recorded */
    bool count_bytes;      /* count the bytes every kernel touches (slow; for tests) */
    ppto_log_fn log;
    void *log_arg;
    const char *memcheck; /* PPTO_MEMCHECK: "off" (default), "report", "error" (ppto/memcheck.h) */
    int memcheck_level; /* PPTO_MEMCHECK_LEVEL 0–3; 0: 1 where memcheck is on, else off; -1: without looking
                           at the environment */
    const char *topology;  /* PPTO_TOPOLOGY: memory nodes and their CPUs: "" this machine (default), "flat" as
                              if it had one node, or a description of another: a synthetic one of hwloc, or the
                              path of an XML file of it; after "this-system " it is taken for this machine */
    const char *placement; /* PPTO_PLACEMENT: on which memory nodes tensors of 1 MiB and more lie: "split"
                              (default): each part with the threads that work on it; "interleave": page by
                              page in turn; "first_touch"; "bind:N": all on node N (docs/memory.md) */
    const char *page_cache; /* PPTO_PAGE_CACHE: whether files go "through" the page cache of the system or
                               "around" it, or "read-around" it and are written through it; "auto" (default):
                               around it where they are large beside the memory of the machine
                               (docs/memory.md) */
} ppto_options;
#define PPTO_OPTIONS_INIT                                                                                    \
    {                                                                                                        \
        sizeof(ppto_options), NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, false, false, NULL, NULL, NULL, 0,   \
            NULL, NULL, NULL                                                                                 \
    }

/* Creates a context; no thread is started before the first run. options NULL: the environment and defaults.
 * returns  PPTO_OK; E_VALUE for a wrong option or environment value (ppto_error_text(NULL) names it); E_NOMEM
 * owns     *out: ppto_context_destroy
 * threads  a context may be used from several threads */
PPTO_API ppto_status ppto_context_create(ppto_context **out, const ppto_options *options);
/* NULL is fine. Graphs, arrays and programs must be gone before. E_FORKED in a child: it is the parent's.
 * With memcheck on the report is written where PPTO_MEMCHECK_FILE says (standard error). returns PPTO_OK;
 * E_VALUE when memcheck is "error" and something leaks or grows, with the operators in the error's text; E_IO
 * when the report cannot be written. The context is gone in any case */
PPTO_API ppto_status ppto_context_destroy(ppto_context *ctx);

/* The last error of the calling thread ("" when none): what was asked, which rule broke, where. ctx may be
 * NULL. borrow: valid until the thread's next call that fails. */
PPTO_API const char *ppto_error_text(const ppto_context *ctx);
/* Its status, for constructors that can only return NULL; PPTO_OK when none. */
PPTO_API ppto_status ppto_error_status(const ppto_context *ctx);

/* Adds operators, folds and aliases written in the operator language (docs/language.md).
 * A definition that is there already with the same text counts as one.
 * returns PPTO_OK; E_SYNTAX, E_NAME, E_VALUE with line and caret; nothing is added on failure */
PPTO_API ppto_status ppto_define(ppto_context *ctx, const char *text);
PPTO_API ppto_status ppto_define_named(ppto_context *ctx, const char *text, size_t length, const char *file);

/* Text made by the library (JSON, explanations): free with ppto_text_free. */
PPTO_API void ppto_text_free(char *text);
/* Every operator, or those whose name matches the glob or contains the word; lines or a JSON list. */
PPTO_API ppto_status ppto_list_operators(ppto_context *ctx, const char *pattern, bool json, char **text);
/* Signature, documentation, shape rule, dtypes of one operator. E_NAME when there is none; proposes the
 * nearest. */
PPTO_API ppto_status ppto_show_operator(ppto_context *ctx, const char *name, bool json, char **text);
/* Threads, executors, devices, instruction sets, caches, limits. */
PPTO_API ppto_status ppto_runtime_info(ppto_context *ctx, bool json, char **text);
/* Runs known answers of the primitives and some chains on the context's device against the reference device.
 * E_DEVICE when something differs; *text says what was checked. */
PPTO_API ppto_status ppto_selfcheck(ppto_context *ctx, char **text);
/* Measures in about two seconds, on an otherwise idle machine, what predictions of time are made from
 * (explain, the table of ppto_trace_steps), and keeps it in the folder of the cache for the processes that
 * come; *text is a table of it, and where it was kept or why it was not. Results do not depend on it. */
PPTO_API ppto_status ppto_tune(ppto_context *ctx, char **text);
PPTO_API const char *ppto_version(void);

#ifdef __cplusplus
}
#endif
#endif
