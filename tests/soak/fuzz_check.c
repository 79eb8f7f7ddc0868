/* SPDX-License-Identifier: Apache-2.0
 * What must be true of simulated runs when they are over (fuzz_streams.c lists it): their logs, their events,
 * their results and their files. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "fuzz_case.h"
#include "fuzz_files.h"

uint64_t failures_seen, files_seen;

int complain(const fuzz_case *c, const char *what)
{
    fprintf(stderr, "seed %llu: %s (%s)\n", (unsigned long long)c->seed, what, ppto_error_text(NULL));
    failures_seen++;
    return 1;
}

/* ---- what must be true ---- */

void check_log(const fuzz_case *c, const ppto_program *p)
{
    static uint32_t seen[256], done_at[256];
    const pp_schedule *steps = p->instance ? p->instance->schedule : &p->plan->schedule;
    if (steps->steps.n > 256) return;
    memset(seen, 0, sizeof seen);
    for (size_t i = 0; i < p->log_n; i++) {
        const pp_task_record *r = &p->log.at[i];
        for (size_t k = 0; k < i; k++)
            if (p->log.at[k].step == r->step && p->log.at[k].phase == r->phase &&
                p->log.at[k].task == r->task)
                complain(c, "a task ran twice");
        for (uint32_t k = steps->first_need[r->step]; k < steps->first_need[r->step + 1]; k++)
            if (seen[steps->needs.at[k]] == 0 || done_at[steps->needs.at[k]] > i)
                complain(c, "a task ran before what it needs");
        seen[r->step]++;
        done_at[r->step] = (uint32_t)i;
    }
}

static bool is_recorded_here(const ppto_program *p, ppto_event event)
{
    for (size_t i = 0; p->sync && i < p->sync->n_syncs; i++)
        if (pp_event_id(p->sync->events[i]) == event.id && p->plan->flat.syncs.at[i].kind == PP_SYNC_RECORD)
            return true;
    return false;
}

void check_events(const fuzz_case *c, const ppto_program *p)
{
    for (uint32_t i = 0; i < c->n_events; i++) {
        ppto_event_state at;
        ppto_poison poison;
        if (ppto_event_query(c->event[i], &at) != PPTO_OK) complain(c, "query");
        if (!c->user[i] && is_recorded_here(p, c->event[i]) && at != PPTO_EVENT_DONE &&
            at != PPTO_EVENT_POISONED)
            complain(c, "an event did not end");
        if (at == PPTO_EVENT_POISONED && (ppto_event_poison(c->event[i], &poison) != PPTO_OK ||
                                          poison.status == PPTO_OK || !poison.text[0]))
            complain(c, "a poison without origin");
    }
    for (uint32_t i = 0; i < c->n_streams; i++)
        if (c->stream[i]->first || c->stream[i]->share.bytes != 0) complain(c, "a stream is still taken");
}

static bool same_bits(const ppto_array *a, const ppto_array *b)
{
    ppto_comparison difference;
    return ppto_compare(a, b, 0, 0, &difference) == PPTO_OK && difference.equal;
}

void compare(const fuzz_case *c, const fuzz_run *r, uint32_t i, bool others)
{
    if (!c->run[i]) return;
    if (r->with > PPTO_OK) complain(c, "a status that is none");
    if (!others && r->with == PPTO_E_VALUE) complain(c, "a failure without a reason");
    if (r->without != PPTO_OK && r->with == PPTO_OK) complain(c, "a failure was lost");
    for (uint32_t k = 0; k < c->n_outputs[i]; k++) {
        if (r->with == PPTO_OK && !r->a[k] && !c->sink[i][k]) complain(c, "an output is missing");
        if (r->a[k] && r->b[k] && !same_bits(r->a[k], r->b[k]))
            complain(c, "other bits than without streams");
    }
}

static void check_file(const fuzz_case *c, const fuzz_run *r, uint32_t i, uint32_t k)
{
    ppto_event_state event = PPTO_EVENT_PENDING;
    file_state at = files_look(i, k, r->b[k]);
    if (c->behind[i][k] != MOST_EVENTS) (void)ppto_event_query(c->event[c->behind[i][k]], &event);
    if (at == FILE_WRONG) complain(c, "a file is neither the old one nor the right one");
    if (at == FILE_RIGHT) files_seen++;
    if (r->with == PPTO_OK && at != FILE_RIGHT) complain(c, "a file is not there");
    if (event == PPTO_EVENT_DONE && at != FILE_RIGHT) complain(c, "an event says that a file is there");
    if (r->with != PPTO_OK && r->policy == PPTO_FAIL_FAST && at != FILE_OLD)
        complain(c, "a file of a run that failed");
}

void check_files(const fuzz_case *c, const fuzz_run *r, uint32_t i)
{
    ppto_stats stats = {.size = sizeof stats};
    for (uint32_t k = 0; k < c->n_outputs[i]; k++)
        if (c->sink[i][k]) check_file(c, r, i, k);
    if (c->n_runs != 1 || r->with != PPTO_OK) return;
    ppto_program_stats(r->p, &stats);
    if (stats.measured_peak_bytes > stats.predicted_peak_bytes) complain(c, "more memory than planned");
}

bool all_called(const fuzz_case *c)
{
    const struct timespec turn = {.tv_nsec = 1000000};
    for (int i = 0; i < 60000 && atomic_load(&c->called) < c->registered; i++)
        if (i > 1000) nanosleep(&turn, NULL);
    return atomic_load(&c->called) == c->registered;
}
