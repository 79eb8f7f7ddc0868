/* SPDX-License-Identifier: Apache-2.0
 * What run.c, run_memory.c and run_pieces.c share: the state of one run, on the stack of its thread. */
#ifndef PP_RUN_PARTS_H
#define PP_RUN_PARTS_H

#include "runtime/sync.h"
#include "runtime/tracing.h"

typedef struct pp_run_state {
    ppto_program *p;
    pp_plan *plan;
    pp_instance *in;
    ppto_array **inputs;  /* as bound, or packed copies */
    ppto_array **results; /* where kernels write */
    void *slab;
    uint64_t copied;
    uint64_t peak, lower, serial; /* bytes of the run in one piece: pp_run_need */
    const pp_run_control *control;
    pp_ticket *ticket;           /* NULL: there is no order of admission */
    bool dispatched;             /* the steps of the plan were begun */
    bool partly;                 /* it failed, but some outputs are there */
    const pp_region_run *region; /* by pieces: it knows which are lost; NULL */
    pp_tracing tracing;
    pp_error *err;
} pp_run_state;

/* ---- run.c ---- */

/* In a run that failed and went on: the step that makes the output did so. */
bool pp_run_is_there(const pp_run_state *r, size_t output);
/* Results that are the same value twice, and arrays of the caller that an input lies in. */
void pp_run_hand_over(pp_run_state *r, ppto_array **outputs);

/* Memory between kernels: r->slab, which the caller gives back. */
ppto_status pp_run_take_slab(pp_run_state *r);
/* Pointers and numbers, to all launches: r->slab is there, and where results go is known. */
ppto_status pp_run_bind_groups(pp_run_state *r);
ppto_status pp_run_dispatch(pp_run_state *r); /* runs what is bound; tells where it failed */

/* ---- run_again.c ---- */

/* After a run: whether the next one may be pp_run_again. */
void pp_run_settle(const pp_run_state *r);
bool pp_run_is_settled(const ppto_program *p, ppto_array **outputs, const pp_run_control *control,
                       const pp_ticket *ticket);
/* The last run once more; the program is settled. */
ppto_status pp_run_again(ppto_program *p, const pp_run_control *control, pp_error *err);

/* ---- run_memory.c ---- */

/* Bytes of the arrays that ppto owns, each counted once. */
bool pp_arrays_overlap(const ppto_array *a, const ppto_array *b); /* by the bytes between their ends */
uint64_t pp_run_owned_bytes(ppto_array *const *arrays, size_t n);
/* Waits until what the run will take, and the bytes it will load, fits. It has a ticket. */
ppto_status pp_run_admit(pp_run_state *r, uint64_t loads);
/* The first output that is the same value as output i. */
size_t pp_run_first_of(const pp_run_state *r, size_t i);
bool pp_run_is_repeated(const pp_run_state *r, size_t output);
void pp_run_adopt(pp_run_state *r);
void pp_run_let_go(pp_run_state *r);
void pp_run_need(pp_run_state *r);    /* sets the peak and its bounds, without files that are loaded */
void pp_run_predict(pp_run_state *r); /* the same, and tells the program's statistics */
ppto_status pp_run_check_limit(pp_run_state *r); /* E_LIMIT */
ppto_status pp_run_find_result(pp_run_state *r, size_t i);

/* Does it write results after its last step, beside those whose stream says so? */
bool pp_run_writes_after(const pp_run_state *r);

/* ---- run_where.c ---- */

/* After a dispatch that ended early: lines with the last step that completed and the first that did not. */
void pp_run_where(const pp_run_state *r, pp_text *out);
/* Adds these lines to the error of a run that was cancelled or passed its deadline where no dispatch did, as
 * while files were read or written, and the pieces that were completed. */
void pp_run_where_stopped(const pp_run_state *r, ppto_status status);

/* ---- run_pieces.c ---- */

bool pp_run_by_pieces(const pp_run_state *r); /* should it be tried? */
/* Are the other results still wanted when one could not be written? */
bool pp_run_goes_on(const pp_run_state *r, ppto_status status);
bool pp_run_over_limit(const pp_run_state *r);     /* in one piece */
uint64_t pp_run_file_bytes(const pp_run_state *r); /* of inputs that are files */
/* Plans the run by pieces; nothing of it is adopted. whole: bytes in one piece. Failures as pp_region_open.
 */
ppto_status pp_run_open_pieces(pp_run_state *r, uint64_t whole, pp_region_run **region,
                               pp_region_refusal *refusal, pp_error *why);
/* *done: the run was tried piece by piece, and the status is its own. Else it is as if never tried. */
ppto_status pp_run_try_pieces(pp_run_state *r, ppto_array **outputs, bool *done);
/* Of a run in one piece: what it loads, computes and saves. */
uint64_t pp_run_whole_work(const pp_run_state *r);
ppto_status pp_run_load_files(pp_run_state *r);
/* Of the results that are whole in memory and no step stored. returns  the first failure; the others are
 * written all the same where the run goes on */
ppto_status pp_run_save_sinks(pp_run_state *r);
/* After the dispatch, which ended so: the files of a run that succeeded appear, and of one that keeps going
 * those whose values are there. returns  status, or else the first failure */
ppto_status pp_run_keep_files(pp_run_state *r, ppto_status status);

#endif
