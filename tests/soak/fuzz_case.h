/* SPDX-License-Identifier: Apache-2.0
 * What is recorded for a seed of fuzz_streams, and what must be true of its runs. */
#ifndef FUZZ_CASE_H
#define FUZZ_CASE_H

#include <stdatomic.h>

#include "runtime/sync.h"
#include "scheduler/executor.h"

enum { MOST_STREAMS = 3, MOST_EVENTS = 12, MOST_OUTPUTS = 4, MOST_RUNS = 4 };

extern uint64_t failures_seen, files_seen; /* files_seen: new ones */

typedef struct fuzz_case {
    uint64_t seed;
    ppto_stream *stream[MOST_STREAMS];
    uint32_t n_streams;
    ppto_event event[MOST_EVENTS];
    bool user[MOST_EVENTS], ended[MOST_EVENTS]; /* user events: signalled */
    ppto_status signal[MOST_EVENTS];
    uint32_t n_events;
    uint32_t n_runs, n_outputs[MOST_RUNS];
    bool sink[MOST_RUNS][MOST_OUTPUTS];
    uint32_t behind[MOST_RUNS][MOST_OUTPUTS]; /* the event behind a sink; MOST_EVENTS: none */
    bool relays[MOST_RUNS];                   /* it reads what the first run stored */
    uint32_t relayed;                         /* which output of that; MOST_OUTPUTS: none */
    bool never;                               /* some user event is never signalled */
    uint32_t cancel_after;                    /* turns of the world; UINT32_MAX: never */
    atomic_int called;
    int registered;
    ppto_run *run[MOST_RUNS]; /* NULL: it could not be started */
    atomic_bool started;      /* all of them */
    pp_sim_world world;
} fuzz_case;

typedef struct fuzz_run { /* one of them, and the same without streams */
    ppto_graph *graph, *other;
    ppto_program *p, *q;
    bool wrong; /* an index is out of range */
    ppto_policy policy;
    ppto_status with, without;
    ppto_array *a[MOST_OUTPUTS], *b[MOST_OUTPUTS];
} fuzz_run;

int complain(const fuzz_case *c, const char *what); /* counts; 1 */

/* ---- fuzz_check.c : of run i of the case, when all are over -------------------------------------- */

void check_log(const fuzz_case *c, const ppto_program *p); /* tasks run once, after what they need */
void check_events(const fuzz_case *c, const ppto_program *p);
/* With what the run without streams gave. others: some run fails by itself, and may hand its failure on. */
void compare(const fuzz_case *c, const fuzz_run *r, uint32_t i, bool others);
void check_files(const fuzz_case *c, const fuzz_run *r, uint32_t i);
/* Every callback was called once; waits for other threads that may still be calling. It counts turns and
 * reads no clock: this process may be stopped for a while. */
bool all_called(const fuzz_case *c);

#endif
