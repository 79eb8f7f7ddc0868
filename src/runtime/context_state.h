/* SPDX-License-Identifier: Apache-2.0
 * What a context holds: settings, caches of kernels and plans, and how errors are reported. Read through
 * runtime.h. */
#ifndef PP_CONTEXT_STATE_H
#define PP_CONTEXT_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/stack.h"
#include "devices/device.h"
#include "memory/pool.h"
#include "ppto/context.h"
#include "ppto/run.h"
#include "runtime/track.h"
#include "scheduler/dispatch.h"

/* ---- options.c ---- */

typedef struct pp_settings { /* options after the environment was read; strings are static or owned by the
                                context */
    ppto_options o;
    char executor[16], device[16], tier[16], simd[16], memcheck[16], page_cache[16];
    char *memcheck_file, *memcheck_suppress; /* of the environment; NULL: none */
    char *topology;                          /* NULL: this machine */
    pp_pages pages;                          /* where memory lies */
} pp_settings;
/* Free it also after a failure. */
ppto_status pp_settings_read(const ppto_options *options, pp_settings *out, pp_error *err);
void pp_settings_free(pp_settings *settings);

/* ---- context.c ---- */

typedef struct pp_kernel_entry { /* a compiled program of the context's kernel cache */
    pp_program *program;
    pp_kernel *kernel;
    uint32_t refs;
    uint64_t last_use;
} pp_kernel_entry;

struct ppto_context {
    pp_settings settings;
    pp_library *library; /* made at the first use: pp_context_library */
    pp_pool *pool;
    pp_ledger *ledger;  /* of the pool; NULL: memcheck is off */
    pp_stacks *stacks;  /* NULL: calls are not captured */
    char *suppressions; /* of memcheck; NULL: none */
    ppto_program *held; /* that the user did not destroy yet, where the ledger is; under lock */
    const pp_device_class *device_class;
    pp_device *device;
    pp_executor *executor;
    size_t few;                 /* bytes of a file that a step reads at once; more are moved by io */
    struct pp_io *io;           /* made at the first file that is read or written by pieces: pp_context_io */
    struct pp_machine *machine; /* read at the first use: pp_context_machine */
    pthread_mutex_t machine_lock; /* of it and shares; innermost */
    pp_shares shares;             /* of its domains, for memory */
    bool placed;                  /* there may be several nodes */
    bool tunes;                   /* its device divides work by the usual costs, which it measures */
    bool refusal_told;            /* under the lock of the pool */
    pp_error no_code;             /* why tier jit, asked for, cannot be had; no text: it can, or was not */
    pp_log log;
    pthread_mutex_t lock; /* library, device, executor creation and both caches; never held while running */
    PP_VEC(pp_kernel_entry *) kernels;
    pp_map kernel_map; /* program hash -> index in kernels */
    PP_VEC(struct pp_plan *) plans;
    uint64_t clock; /* of the caches */
    uint64_t kernel_hits, kernel_misses;
    struct pp_syncs *syncs;             /* streams and events; made under lock */
    struct pp_drivers *_Atomic drivers; /* runs that nobody waits for; made under lock */
    _Atomic uint64_t runs, plans_made;  /* numbers given */
    _Atomic uint64_t graphs;            /* that are not destroyed */
    pp_tracks *tracks;                  /* NULL: none yet, or memcheck is on; under lock */
    ppto_graph *idle_graphs;            /* empty ones, for the next; under lock */
    uint32_t n_idle_graphs;
    uint64_t process; /* base/fork.h */
    uint32_t workers;
    uint32_t plan_workers; /* that launches are divided for: 1 where the executor has one */
};
ppto_status pp_context_library(ppto_context *ctx, pp_library **out, pp_error *err);
ppto_status pp_shipped_library(pp_library **out); /* of the shipped operators, none of them read */
ppto_status pp_context_device(ppto_context *ctx, pp_error *err); /* opens device and executor */
ppto_status pp_context_io(ppto_context *ctx, struct pp_io **out, pp_error *err); /* starts the I/O engine */
/* E_FORKED in a child; E_VALUE for NULL. What is given back in a child stays as it is: locks may be held, and
 * owners count on threads that are not there. */
ppto_status pp_context_check(const ppto_context *ctx, pp_error *err);
bool pp_context_forked(const ppto_context *ctx);
ppto_status pp_context_refuses(const ppto_context *ctx); /* reports E_FORKED; PPTO_OK */
/* The cached kernel of an equal program, or compiles this one. Takes the program. */
ppto_status pp_context_kernel(ppto_context *ctx, pp_program *take_program, pp_kernel_entry **out, bool *hit,
                              pp_error *err);
void pp_context_kernel_release(ppto_context *ctx, pp_kernel_entry *entry);

/* The calling thread's error record; pp_report copies err there and returns its code. */
ppto_status pp_report(const pp_error *err);
ppto_status pp_report_new(ppto_status code, const char *format, ...) PP_PRINTF(2, 3);

/* ---- memcheck.c ---- */

/* The text of a file of suppressions, checked. path NULL: *text is. E_IO, E_VALUE with file:line, E_NOMEM.
 * owns  *text: pp_free */
ppto_status pp_memcheck_suppressions(const char *path, char **text, pp_error *err);

/* All is given back that will be: the report the settings ask for, and in err what leaks or grows if that is
 * to be an error. left: of pp_held_count. */
void pp_memcheck_shutdown(ppto_context *ctx, const uint64_t *left, pp_error *err);
/* Adds to an error for lack of memory who holds the most: with places where memcheck watches, else operators.
 * err may be NULL. */
void pp_memcheck_blame(ppto_context *ctx, pp_error *err);

#endif
