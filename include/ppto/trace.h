/* SPDX-License-Identifier: Apache-2.0
 * Traces: what ran where and when, what was read and written, how much memory was held; and pictures of what
 * a program will do (docs/traces.md).
 *
 * A trace gathers the runs of the programs it is given, those of ppto_program_start too. Every worker notes
 * what it does in a ring of its own; a program without a trace pays one branch a task. */
#ifndef PPTO_TRACE_H
#define PPTO_TRACE_H

#include "ppto/run.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ppto_trace ppto_trace;

typedef struct ppto_trace_options {
    size_t size;
    uint64_t events; /* the newest so many are kept of every worker, rounded up to a power of two; 0: 32768,
                        which take at most 2 MiB a worker */
} ppto_trace_options;
#define PPTO_TRACE_OPTIONS_INIT                                                                              \
    {                                                                                                        \
        sizeof(ppto_trace_options), 0                                                                        \
    }

/* Begins to note the memory that the context's tensors hold. options  NULL: PPTO_TRACE_OPTIONS_INIT
 * returns  PPTO_OK; E_VALUE; E_NOMEM
 * owns     *trace: ppto_trace_destroy, before the context's */
PPTO_API ppto_status ppto_trace_create(ppto_context *ctx, const ppto_trace_options *options,
                                       ppto_trace **trace);
/* NULL is fine. Programs that note there go on doing so, and keep it until they are gone. */
PPTO_API void ppto_trace_destroy(ppto_trace *trace);

/* From its next run on the program notes its runs there, and at once the stages of its compilation if that
 * began after the trace was created; NULL: nowhere. What it noted before stays. name:
 * what viewers call it; NULL: "program N". returns  PPTO_OK; E_BUSY while it runs; E_VALUE for a trace of
 * another context; E_NOMEM */
PPTO_API ppto_status ppto_program_trace(ppto_program *program, ppto_trace *trace, const char *name);

typedef enum ppto_trace_format {
    PPTO_TRACE_CHROME,   /* JSON of the Trace Event Format: Perfetto, chrome://tracing, speedscope */
    PPTO_TRACE_PERFETTO, /* protobuf of Perfetto's TrackEvent: a fifth of the size, for large traces */
    PPTO_TRACE_TIMELINE  /* SVG: a row for every worker and for files, a curve of memory below */
} ppto_trace_format;

/* All that is kept of the trace. Times count from its creation.
 * returns  PPTO_OK, *bytes (n of them, and a NUL behind) and *n; E_BUSY while a program that notes there
 *          runs; E_VALUE; E_NOMEM
 * owns     *bytes: ppto_text_free
 * threads  any */
PPTO_API ppto_status ppto_trace_write(ppto_trace *trace, ppto_trace_format format, char **bytes, size_t *n);

/* A line for every kernel and file: how often it ran, how long it took (from its first task's begin to its
 * last one's end), how long all workers together, how long it was ready and waited, the distinct bytes it
 * touches and so GB/s. json: "ppto-steps/1". Otherwise as ppto_trace_write. */
PPTO_API ppto_status ppto_trace_steps(ppto_trace *trace, bool json, char **text);

typedef struct ppto_trace_counts {
    size_t size;      /* set by the caller */
    uint64_t runs;    /* whole ones */
    uint64_t events;  /* that are kept */
    uint64_t dropped; /* that were overwritten by newer ones */
} ppto_trace_counts;
PPTO_API ppto_status ppto_trace_count(ppto_trace *trace, ppto_trace_counts *counts);

/* ---- pictures of what will run ---- */

typedef enum ppto_picture_format {
    PPTO_PICTURE_SVG, /* laid out here: nothing else is needed */
    PPTO_PICTURE_DOT  /* for Graphviz */
} ppto_picture_format;
/* Inputs, kernels with the operators fused into them, results, and the values between them with their types;
 * bytes, as far as the sizes of inputs are bound or declared; and why two kernels are not one.
 * returns  PPTO_OK and *text (ppto_text_free); E_VALUE, E_BUSY, E_NOMEM; what ppto_program_explain returns */
PPTO_API ppto_status ppto_program_picture(ppto_program *program, ppto_picture_format format, char **text);

#ifdef __cplusplus
}
#endif
#endif
