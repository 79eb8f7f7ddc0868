/* SPDX-License-Identifier: Apache-2.0
 * Reports of memory: what a ledger (memory/ledger.h) knows at one moment, as a value. It is made of the
 * ledger, or read back from the JSON it was written as; text, JSON, picture and folded stacks are written
 * from it, so a saved report shows what the program itself would have shown. Meanings: docs/memcheck.md. */
#ifndef PP_MEMCHECK_H
#define PP_MEMCHECK_H

#include "base/base.h"
#include "base/stack.h"
#include "memory/ledger.h"

typedef enum pp_verdict { /* the worst first */
                          PP_GROWING,
                          PP_LEAKED,
                          PP_RETAINED,
                          PP_UNPLANNED,
                          PP_LATE_FREE,
                          PP_PINNED_BY_SYNC,
                          PP_PENDING_IO,
                          PP_KEPT,
                          PP_FINE,
                          PP_VERDICTS
} pp_verdict;
const char *pp_verdict_name(pp_verdict verdict);

typedef enum pp_share { /* what the peak is made of */
                        PP_SHARE_CONST,
                        PP_SHARE_NEEDED,
                        PP_SHARE_RETAINED,
                        PP_SHARE_WORKSPACE,
                        PP_SHARE_INFLIGHT,
                        PP_SHARE_SLACK,
                        PP_SHARES
} pp_share;
const char *pp_share_name(pp_share share);

typedef enum pp_left { /* objects that the user did not give back before the end; memory or not */
                       PP_LEFT_PROGRAMS,
                       PP_LEFT_RUNS,
                       PP_LEFT_GRAPHS,
                       PP_LEFT_STREAMS,
                       PP_LEFT_EVENTS,
                       PP_LEFTS
} pp_left;
const char *pp_left_name(pp_left left);

typedef struct pp_report_holder {
    const char *kind;
    uint64_t count;
    ppto_site site;
    uint32_t stack; /* of the report, from 1; 0: none */
    ppto_site of;   /* of "given_back": the place whose handles it is one of; file NULL: of any */
} pp_report_holder;

typedef struct pp_report_group { /* buffers of one operator, place, dtype and class of size */
    const char *operator_name, *kind, *dtype, *reason;
    ppto_site site;
    uint32_t stack;
    pp_verdict verdict;
    bool suppressed;
    uint64_t allocation_size_bytes, rounded_bytes; /* of the largest */
    uint64_t total_count, live_count, live_bytes;
    uint64_t retained_count, retained_bytes, retention_count, retention_max;
    uint64_t overstay_nodes_median, overstay_nodes_max, survived_epochs;
    int64_t overstay_ns_max;
    double byte_seconds, growth_bytes_per_epoch;
    uint64_t peak_share_bytes, avoidable_bytes; /* avoidable: where the report knows its ideal peak */
    uint64_t loose_count; /* of the holders' handles so many were given back, but it is not known which */
    size_t first_holder, n_holders;
} pp_report_group;

typedef struct pp_report_buffer { /* one life, of the history */
    uint32_t group, id, generation;
    uint64_t bytes, born, used, died; /* nodes; used: last, where it rested after */
    uint64_t born_tick, used_tick, died_tick;
    bool live;
} pp_report_buffer;

typedef struct pp_report_mark {
    const char *name; /* NULL: none */
    uint64_t node, tick, current_bytes;
} pp_report_mark;

typedef struct pp_report_frame {
    uint64_t pc, offset;
    const char *module, *function, *file; /* NULL: unknown */
    int32_t line;
} pp_report_frame;

typedef struct pp_report_stack {
    size_t first_frame, n_frames;
} pp_report_stack;

typedef struct pp_memcheck {
    int level;
    const char *at, *why_incomplete; /* NULL: it is complete */
    char domain[24]; /* where memory lies: "" the only node of the machine, or a word of memory/placement.h */
    bool bound;      /* and the system did so */
    uint64_t runs, nodes, epochs, dropped;
    uint64_t current_bytes, peak_bytes, ideal_peak_bytes, avoidable_bytes, peak_node;
    bool has_ideal; /* level 2 */
    const char *peak_operator;
    ppto_site peak_site;
    uint64_t share[PP_SHARES];
    uint64_t count[PP_VERDICTS], suppressed; /* groups */
    uint64_t left[PP_LEFTS];                 /* at the end of a context */
    PP_VEC(pp_report_group) groups;          /* the worst first */
    PP_VEC(pp_report_holder) holders;
    PP_VEC(pp_report_buffer) buffers; /* level 2, by birth; group: index in groups */
    PP_VEC(pp_report_mark) marks;
    PP_VEC(pp_report_stack) stacks; /* number - 1 */
    PP_VEC(pp_report_frame) frames;
    pp_arena arena; /* strings */
} pp_memcheck;

/* ---- making ---- */

/* at: "now", "shutdown" (what is live then leaks). stacks: NULL where none were captured. suppressions: lines
 * of globs, may be NULL (memcheck_suppress.c). returns PPTO_OK; E_NOMEM. Free it also after a failure. */
ppto_status pp_memcheck_make(pp_ledger *ledger, pp_stacks *stacks, const char *at, const char *suppressions,
                             pp_memcheck *out);
void pp_memcheck_free(pp_memcheck *report);
/* Of pp_memcheck_write_json's text. returns PPTO_OK; E_FORMAT with the place in err; E_NOMEM; E_UNSUPPORTED
 * where the build has no jansson */
ppto_status pp_memcheck_read(const char *json, size_t n, pp_memcheck *out, pp_error *err);
bool pp_memcheck_reads(void); /* is it built in? */

/* ---- steps of making ---- */

/* Verdicts, suppressions, counts and order of the groups; `growing` has been judged by samples. */
void pp_memcheck_judge(pp_memcheck *report, const char *suppressions);
/* Of a file's text: E_VALUE with file:line for a line that is no suppression. */
ppto_status pp_memcheck_check_suppressions(const char *text, const char *file, pp_error *err);
bool pp_memcheck_is_suppressed(const char *suppressions, const pp_report_group *group);
bool pp_memcheck_grows(const uint64_t *samples, uint32_t n, double *slope);
/* From buffers: ideal_peak_bytes, avoidable_bytes of all and of each group. E_NOMEM */
ppto_status pp_memcheck_replay(pp_memcheck *report);

/* ---- writing ---- */

void pp_memcheck_write_text(const pp_memcheck *report, pp_text *text);
void pp_memcheck_write_json(const pp_memcheck *report, pp_text *text);
void pp_memcheck_write_svg(const pp_memcheck *report, pp_text *text);
void pp_memcheck_write_folded(const pp_memcheck *report, pp_text *text); /* for flame graphs */

#endif
