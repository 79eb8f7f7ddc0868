/* SPDX-License-Identifier: Apache-2.0
 * The ledger of a pool: for every block that is out, what it is, which operator made it and where that was
 * recorded, who holds it and where the hold was taken, and when it was used last. memory/memcheck.h makes
 * reports of it.
 *
 * A pool that is not watched has none, and every call here accepts NULL and a block it does not know. The
 * pool tells it about blocks under the pool's own lock, so its totals are the pool's counters at any time;
 * everyone else calls the functions below, which take that lock. Never allocates for longer than the ledger
 * lives; where memory is short it counts what it had to drop. */
#ifndef PP_LEDGER_H
#define PP_LEDGER_H

#include <pthread.h>

#include "base/base.h"
#include "base/stack.h"

typedef struct pp_ledger pp_ledger;

typedef enum pp_block_kind {
    PP_BLOCK_OTHER,   /* nobody said */
    PP_BLOCK_DATA,    /* an array the user made, loaded or filled */
    PP_BLOCK_RESULT,  /* of an operator */
    PP_BLOCK_VALUE,   /* between the parts of a run by pieces */
    PP_BLOCK_SLAB,    /* the planned buffers of a run */
    PP_BLOCK_SCRATCH, /* of workers, kept with a plan */
    PP_BLOCK_COPY,    /* one that a run could not do without */
    PP_BLOCK_WINDOW,  /* a piece of a file on its way */
    PP_BLOCK_PLANNED, /* a buffer inside a slab: never a block of its own */
    PP_BLOCK_KINDS
} pp_block_kind;
const char *pp_block_kind_name(pp_block_kind kind);

/* Who keeps a block. Names as in reports: "user_handle", … */
typedef enum pp_hold {
    PP_HOLD_NONE,
    PP_HOLD_USER,       /* a handle of the user */
    PP_HOLD_BINDING,    /* a program it is bound to */
    PP_HOLD_RUN_OBJECT, /* a ppto_run that is not released */
    PP_HOLD_PENDING,    /* a run that reads or writes it */
    PP_HOLD_SYNC,       /* a started run that waits for its turn: a stream, an event, memory */
    PP_HOLD_IO,         /* a read or write under way */
    PP_HOLD_PLAN,       /* the plan cache */
    PP_HOLD_PROGRAM,    /* a program that is not destroyed; only told at the end of a context */
    PP_HOLD_GIVEN,      /* nobody: a release that did not say which of the user's it was */
    PP_HOLDS
} pp_hold;
const char *pp_hold_name(pp_hold hold);

/* What a block is when it is taken. Strings are copied. */
typedef struct pp_tag {
    pp_block_kind kind;
    const char *operator_name; /* NULL: the kind's name */
    ppto_site site;            /* where it was recorded */
    uint32_t stack;            /* pp_stacks; 0: none */
    const char *dtype;         /* static, or NULL */
    const char *reason;        /* static: why the planner could not do without; NULL */
    uint32_t plan;             /* pp_ledger_plan, for a slab; 0: none */
    pp_hold hold;              /* the first holder */
    ppto_site taken;           /* where that was */
    uint32_t taken_stack;
} pp_tag;

/* level 1: blocks and holders; 2: also a bounded history. lock: the pool's. NULL when out of memory. */
pp_ledger *pp_ledger_create(int level, pthread_mutex_t *lock);
void pp_ledger_destroy(pp_ledger *ledger); /* NULL is fine */
/* What numbers of stacks mean; it must outlive the ledger's use. */
void pp_ledger_use_stacks(pp_ledger *ledger, pp_stacks *stacks);

/* ---- for the pool, with its lock ---- */

void pp_ledger_took(pp_ledger *ledger, void *block, uint64_t bytes, uint64_t rounded, const pp_tag *tag);
void pp_ledger_gave(pp_ledger *ledger, void *block, uint64_t bytes);

/* ---- for everyone, without it ---- */

void pp_ledger_hold(pp_ledger *ledger, const void *block, pp_hold hold, ppto_site site, uint32_t stack);
/* One hold of the kind less. Which one of several of the user's: ledger_hold.c. stack: of the release, or 0.
 */
void pp_ledger_drop(pp_ledger *ledger, const void *block, pp_hold hold, ppto_site site, uint32_t stack);
/* The block holds another value now: its old group loses it, the tag's gets it. */
void pp_ledger_renew(pp_ledger *ledger, const void *block, const pp_tag *tag);
void pp_ledger_keep(pp_ledger *ledger, const void *block, bool keep); /* the user means to hold it */

/* A buffer of a slab, live from one step to another of the plan's order, both included. */
typedef struct pp_ledger_part {
    uint64_t offset, bytes;
    uint32_t first, last;
    pp_tag tag; /* operator and place */
} pp_ledger_part;
/* Registers the buffers of a slab of so many bytes; the number of an equal plan when there is one.
 * 0: none (no ledger, or out of memory). */
uint32_t pp_ledger_plan(pp_ledger *ledger, uint64_t bytes, const pp_ledger_part *parts, size_t n);

/* A run of the user's is over, and so many steps with it. */
void pp_ledger_ran(pp_ledger *ledger, uint64_t steps);
void pp_ledger_mark(pp_ledger *ledger, const char *name); /* a new epoch; NULL: no name */

typedef struct pp_ledger_totals {
    uint64_t current_bytes, peak_bytes, blocks;
    uint64_t sum_of_blocks; /* == current_bytes while nothing was dropped */
    uint64_t sum_of_groups, sum_of_parts, peak_sum_of_parts;
    uint64_t dropped;
    uint64_t record_bytes; /* of its own memory */
} pp_ledger_totals;
void pp_ledger_count(pp_ledger *ledger, pp_ledger_totals *out);

#endif
