/* SPDX-License-Identifier: Apache-2.0
 * What the files of the ledger share. Everything is under the pool's lock. */
#ifndef PP_LEDGER_PARTS_H
#define PP_LEDGER_PARTS_H

#include "memory/ledger.h"

enum {
    PP_SAMPLES = 8,    /* epochs that growth is measured over */
    PP_OVERSTAYS = 15, /* last releases of a group that its median is of */
    PP_LIVES = 65536,  /* of the history */
    PP_MARKS = 1024,
    PP_RECENT_ROWS = 64,
};

/* When something happened. Ticks count all that happens, nodes the steps of runs that are over. */
typedef struct pp_moment {
    uint64_t tick, node, run;
    int64_t ns;
} pp_moment;

/* What bytes are for: they sum up to the current bytes. */
typedef enum pp_part_kind {
    PP_PART_CONST,    /* data of the user */
    PP_PART_NEEDED,   /* results and buffers that a run works on */
    PP_PART_RETAINED, /* last use over, still held */
    PP_PART_WORKSPACE,
    PP_PART_INFLIGHT,
    PP_PARTS
} pp_part_kind;

typedef struct pp_hold_row {
    struct pp_hold_row *next;
    uint32_t site, stack, count; /* of GIVEN: where it was given back, and in stack the place it is one of */
    uint8_t kind;
} pp_hold_row;

typedef struct pp_block {
    void *at; /* NULL: an empty slot of the table */
    uint64_t bytes;
    uint32_t group, id, generation, born_epoch;
    pp_moment born, used;
    uint64_t rested_at; /* number of the peak when it came to rest */
    pp_hold_row *holds; /* latest first */
    uint32_t loose;     /* so many of the user's are gone, but nobody knows which */
    uint8_t part;
    bool ever_used, kept;
} pp_block;

/* Blocks of one operator, place, dtype and class of size. */
typedef struct pp_ledger_group {
    const char *operator_name, *dtype, *reason;
    uint64_t hash;
    uint32_t site, stack, plan;
    uint8_t kind, size_class;
    uint64_t live_count, live_bytes, total_count, largest, rounded;
    uint64_t at_peak, peak_seen; /* live bytes at that peak; read by pp_group_at_peak */
    uint64_t overstay[PP_OVERSTAYS], overstay_max, released, late; /* nodes; late: whole runs too long */
    int64_t overstay_ns_max;
    double byte_seconds;
    uint64_t sample[PP_SAMPLES];
    uint32_t n_samples;
} pp_ledger_group;

typedef struct pp_ledger_row { /* a buffer of a slab */
    uint64_t offset, bytes;
    uint32_t first, last, group;
} pp_ledger_row;

typedef struct pp_ledger_plan_row {
    uint64_t hash, bytes, needed; /* needed: most that lives at once */
    pp_ledger_row *rows;
    uint32_t n_rows, busiest; /* busiest: step where that is */
    uint32_t steps;
} pp_ledger_plan_row;

/* A block that was given back: one row of the history. */
typedef struct pp_life {
    uint32_t group, id, generation;
    bool ever_used;
    uint64_t bytes;
    pp_moment born, used, died;
} pp_life;

typedef struct pp_mark {
    const char *name;
    pp_moment at;
    uint64_t current_bytes;
} pp_mark;

struct pp_ledger {
    int level;
    pthread_mutex_t *lock;
    pp_stacks *stacks; /* NULL: calls are not captured */
    pp_moment now;     /* its ns is of the last event */
    pp_block **table;  /* by address; cap is a power of two */
    size_t cap, n;
    pp_block *vacant;
    pp_hold_row *vacant_holds;
    uint32_t next_id, epoch;
    uint64_t current_bytes, peak_bytes, peak_number, part[PP_PARTS], peak_part[PP_PARTS];
    pp_moment peak;
    uint32_t peak_group;
    uint32_t recent_sites[PP_RECENT_ROWS], recent_groups[PP_RECENT_ROWS]; /* 0: none */
    PP_VEC(ppto_site) sites;
    pp_map site_map;
    PP_VEC(pp_ledger_group) groups;
    pp_map group_map;
    PP_VEC(pp_ledger_plan_row) plans;
    pp_map plan_map;
    pp_life *lives; /* a ring */
    uint64_t n_lives;
    PP_VEC(pp_mark) marks;
    uint64_t dropped;
    pp_arena arena; /* strings and records */
};

/* ---- ledger_table.c ---- */

uint32_t pp_ledger_site(pp_ledger *ledger, ppto_site site);                        /* 0: none, or no memory */
uint32_t pp_ledger_group_of(pp_ledger *ledger, const pp_tag *tag, uint64_t bytes); /* 0: no memory */
pp_block *pp_ledger_find(const pp_ledger *ledger, const void *block);              /* NULL: it is not known */
pp_block *pp_ledger_add(pp_ledger *ledger, void *block); /* NULL: no memory; counted */
void pp_ledger_remove(pp_ledger *ledger, pp_block *block);
pp_hold_row *pp_ledger_hold_row(pp_ledger *ledger);
void pp_ledger_free_hold(pp_ledger *ledger, pp_hold_row *row);

/* ---- ledger_hold.c ---- */

bool pp_block_holds(const pp_block *block, pp_hold hold);
void pp_block_add_hold(pp_ledger *ledger, pp_block *block, pp_hold hold, ppto_site site, uint32_t stack);
void pp_block_drop_hold(pp_ledger *ledger, pp_block *block, pp_hold hold, ppto_site site, uint32_t stack);

/* ---- ledger.c ---- */

void pp_ledger_now(pp_ledger *ledger); /* one tick more, and the time */
uint64_t pp_group_at_peak(const pp_ledger *ledger, const pp_ledger_group *group);

#endif
