/* SPDX-License-Identifier: Apache-2.0
 * Memcheck: what memory is held, by whom, since when, and where it was recorded (docs/memcheck.md).
 *
 * It watches a context whose option `memcheck` or `memcheck_level` asks for it, or any program run with
 * PPTO_MEMCHECK=report. Level 1 knows blocks and holders and costs little; level 2 adds stacks of calls and a
 * history, from which the picture and the ideal peak are made; level 3 gives every block back to the system
 * at once, so that ASan and Valgrind see its bounds. */
#ifndef PPTO_MEMCHECK_H
#define PPTO_MEMCHECK_H

#include <stdio.h>

#include "ppto/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Begins a new epoch: growth is measured from epoch to epoch, from three on. A program without marks has an
 * epoch for every run. name: for reports, copied; NULL: none.
 * returns PPTO_OK, also where memcheck is off; E_VALUE for NULL; E_FORKED. threads: any */
PPTO_API ppto_status ppto_memcheck_mark(ppto_context *ctx, const char *name);
/* The array is meant to stay (a cache, weights): it is told as kept, not as retained. false: no more.
 * returns PPTO_OK, also where memcheck is off; E_VALUE for NULL. threads: any */
PPTO_API ppto_status ppto_memcheck_keep(ppto_array *array, bool keep);

typedef enum ppto_report {
    PPTO_REPORT_TEXT,  /* for a terminal */
    PPTO_REPORT_JSON,  /* "ppto-memcheck/1" */
    PPTO_REPORT_SVG,   /* a picture: time, shares, holders */
    PPTO_REPORT_FOLDED /* lines for flame graphs: who made what the peak is made of */
} ppto_report;

/* The report of this moment. returns PPTO_OK; E_UNSUPPORTED where memcheck is off; E_VALUE; E_NOMEM; E_IO
 * when it cannot be written; E_FORKED. threads: any */
PPTO_API ppto_status ppto_memcheck_report(ppto_context *ctx, ppto_report form, FILE *to);
/* The same as a text: ppto_text_free. */
PPTO_API ppto_status ppto_memcheck_text(ppto_context *ctx, ppto_report form, char **text);

/* Names for a place in a program: fills in what it knows (function, file: "" or 0 for the rest) and returns
 * true, or false when it knows nothing. offset: in the module as a file, of the call. */
typedef struct ppto_symbol {
    char function[256], file[1024];
    int line;
} ppto_symbol;
typedef bool (*ppto_symbol_fn)(void *arg, const char *module, uint64_t offset, ppto_symbol *symbol);
/* A JSON report, of this or another process, in another form. name: finds names for the stacks of calls (the
 * ppto command has one); NULL: those the report holds. Free *text with ppto_text_free.
 * returns PPTO_OK; E_FORMAT when it is no report, with the place; E_VALUE; E_NOMEM. threads: any */
PPTO_API ppto_status ppto_memcheck_convert(const char *json, size_t length, ppto_report form,
                                           ppto_symbol_fn name, void *arg, char **text);

typedef struct ppto_memcheck_summary {
    size_t size; /* set by the caller to sizeof(ppto_memcheck_summary) */
    int level;
    bool complete;
    uint64_t current_bytes, peak_bytes;
    uint64_t ideal_peak_bytes, avoidable_bytes; /* level 2; below that the peak, and 0 */
    uint64_t retained_bytes, retention_max;
    uint64_t leaked, growing, retained, unplanned, late_free, suppressed; /* groups of buffers */
} ppto_memcheck_summary;
typedef struct ppto_operator_memory {
    const char *operator_name; /* borrow: lives as long as the context */
    uint64_t current_bytes, peak_bytes, blocks;
} ppto_operator_memory;
/* What a context counts where memcheck is off (level 0): bytes by operator that are out now, the most there
 * ever were, and blocks that are out. The operators that hold the most come first, those that hold nothing
 * are left out. out: room for `most`. returns how many; 0 also where memcheck is on, whose report says more,
 * for NULL and in a forked child. threads: any */
PPTO_API size_t ppto_memcheck_operators(ppto_context *ctx, ppto_operator_memory *out, size_t most);

/* For tests. returns as ppto_memcheck_report. threads: any */
PPTO_API ppto_status ppto_memcheck_summarise(ppto_context *ctx, ppto_memcheck_summary *out);

#ifdef __cplusplus
}
#endif
#endif
