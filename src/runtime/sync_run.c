/* SPDX-License-Identifier: Apache-2.0
 * The streams and events of a program's run. Entering takes a place on every stream and begins every event
 * the plan records, all at once; the steps of the plan then pass the gates, wait, end events and leave
 * streams; leaving ends whatever the run did not come to. */
#include <stdio.h>
#include <string.h>

#include "runtime/sync.h"

/* ---- life ---------------------------------------------------------------------------------------- */

static ppto_status make_room(pp_sync_state *state)
{
    state->streams = pp_calloc(state->n_streams + 1, sizeof(ppto_stream *));
    state->events = pp_calloc(state->n_syncs + 1, sizeof(pp_event_row *));
    state->entries = pp_calloc(state->n_streams + 1, sizeof *state->entries);
    state->waits = pp_calloc(state->n_syncs + 1, sizeof *state->waits);
    state->target = pp_calloc(state->n_syncs + 1, sizeof *state->target);
    state->ended = pp_calloc(state->n_syncs + 1, sizeof *state->ended);
    state->stores = pp_calloc(state->n_streams + 1, sizeof *state->stores);
    state->passed = pp_calloc(state->n_syncs + 1, sizeof *state->passed);
    state->well = pp_calloc(state->n_streams + 1, sizeof *state->well);
    bool ok = state->streams && state->events && state->entries && state->waits && state->target &&
              state->ended && state->stores && state->passed && state->well;
    return ok ? PPTO_OK : PPTO_E_NOMEM;
}

/* The graph keeps what its numbers stand for until this has taken uses of its own. */
static void take_uses(pp_sync_state *state, const pp_graph_uses *uses)
{
    pthread_mutex_lock(&state->syncs->lock);
    for (size_t i = 0; i < state->n_streams; i++) {
        state->streams[i] = uses->streams.at[i];
        state->streams[i]->uses++;
    }
    for (size_t i = 0; i < state->n_syncs; i++) {
        state->events[i] = pp_event_row_of(state->syncs, uses->events.at[i], NULL);
        if (state->events[i]) state->events[i]->uses++;
    }
    pthread_mutex_unlock(&state->syncs->lock);
}

ppto_status pp_sync_create(ppto_program *program, ppto_graph *graph, const pp_ref *outputs, size_t n,
                           pp_error *err)
{
    const pp_flat *flat = &program->plan->flat;
    pp_graph_uses uses;
    if (flat->n_streams == 0) return PPTO_OK;
    pp_sync_state *state = pp_calloc(1, sizeof *state);
    if (!state) return PPTO_E_NOMEM;
    program->sync = state;
    state->program = program;
    ppto_status status = pp_syncs_get(program->ctx, &state->syncs, err);
    if (status == PPTO_OK) status = pp_graph_uses_of(graph->graph, outputs, n, &uses);
    if (status != PPTO_OK) return status;
    if (uses.streams.n != flat->n_streams || uses.events.n != flat->syncs.n) status = PPTO_E_INTERNAL;
    state->n_streams = flat->n_streams;
    state->n_syncs = flat->syncs.n;
    if (status == PPTO_OK) status = make_room(state);
    if (status == PPTO_OK) state->has_woken = pp_condition_init(&state->woken) == 0;
    if (status == PPTO_OK && !state->has_woken) status = PPTO_E_NOMEM;
    if (status == PPTO_OK) take_uses(state, &uses);
    pp_graph_uses_free(&uses);
    return status;
}

void pp_sync_destroy(pp_sync_state *state)
{
    pp_error none = {0};
    if (!state) return;
    bool here = pp_context_check(state->program->ctx, &none) == PPTO_OK;
    if (here && state->events) {
        pthread_mutex_lock(&state->syncs->lock);
        for (size_t i = 0; i < state->n_syncs; i++)
            if (state->events[i]) pp_event_unuse(state->syncs, state->events[i]);
        pthread_mutex_unlock(&state->syncs->lock);
    }
    for (size_t i = 0; here && state->streams && i < state->n_streams; i++)
        if (state->streams[i]) pp_stream_unuse(state->streams[i]);
    if (here && state->has_woken) pthread_cond_destroy(&state->woken);
    pp_free(state->streams);
    pp_free(state->events);
    pp_free(state->entries);
    pp_free(state->waits);
    pp_free(state->target);
    pp_free(state->ended);
    pp_free(state->stores);
    pp_free(state->passed);
    pp_free(state->well);
    pp_free(state);
}

uint32_t pp_sync_number(const pp_sync_state *state, const void *stream)
{
    for (uint32_t i = 0; state && stream && i < state->n_streams; i++)
        if (state->streams[i] == stream) return i + 1;
    return 0;
}

void pp_sync_stores(pp_sync_state *state, uint32_t stream)
{
    state->stores[stream - 1] = true;
}

pp_io_share *pp_sync_share(const pp_sync_state *state, uint32_t stream)
{
    return state && stream != 0 ? &state->streams[stream - 1]->share : NULL;
}

const char *pp_program_stream(const ppto_program *program, uint32_t stream)
{
    return stream != 0 && program->sync ? program->sync->streams[stream - 1]->name : "";
}

/* ---- entering, with the lock --------------------------------------------------------------------- */

static const pp_sync *sync_at(const pp_sync_state *state, size_t i)
{
    return &state->program->plan->flat.syncs.at[i];
}

/* Does it wait for an event that this run does not record itself? */
static bool is_foreign(const pp_sync_state *state, size_t i)
{
    return sync_at(state, i)->kind == PP_SYNC_WAIT && sync_at(state, i)->record == PP_NONE;
}

static ppto_status check_waits(const pp_sync_state *state, pp_error *err)
{
    for (size_t i = 0; i < state->n_syncs; i++) {
        if (!is_foreign(state, i) || state->events[i]->begun != 0) continue;
        const pp_origin *origin = &state->program->origins[sync_at(state, i)->origin];
        char place[PP_SITE_ROOM];
        return pp_fail(
            err, PPTO_E_NOT_SCHEDULED, "stream wait: stream %s waits for an event that no run has begun%s%s",
            state->streams[sync_at(state, i)->stream - 1]->name, origin->site.file ? "\n  recorded at " : "",
            pp_site_text(&origin->site, place, sizeof place));
    }
    return PPTO_OK;
}

static void begin_wait(pp_sync_state *state, size_t i)
{
    pp_event_row *row = state->events[i];
    pp_event_wait *wait = &state->waits[i];
    *wait = (pp_event_wait){.kind = PP_WAIT_STEP, .target = row->begun, .woken = &state->woken};
    if (row->finished == row->begun) {
        wait->done = true;
        wait->status = row->status;
        if (wait->status != PPTO_OK) wait->poison = row->poison;
        return;
    }
    if (row->priority < state->priority) state->priority = row->priority;
    wait->next = row->waits;
    row->waits = wait;
    row->uses++;
}

static void enter_stream(pp_sync_state *state, size_t i)
{
    ppto_stream *stream = state->streams[i];
    pp_stream_entry *entry = &state->entries[i];
    *entry =
        (pp_stream_entry){.number = ++stream->entered, .priority = state->priority, .woken = &state->woken};
    if (stream->last)
        stream->last->next = entry;
    else
        stream->first = entry;
    stream->last = entry;
}

ppto_status pp_sync_enter(pp_sync_state *state, int priority, pp_error *err)
{
    pthread_mutex_lock(&state->syncs->lock);
    ppto_status status = check_waits(state, err);
    if (status != PPTO_OK) {
        pthread_mutex_unlock(&state->syncs->lock);
        return status;
    }
    state->priority = priority;
    state->defers = state->kept = false;
    memset(state->passed, 0, state->n_syncs * sizeof *state->passed);
    memset(state->well, 0, state->n_streams * sizeof *state->well);
    state->run = atomic_fetch_add(&state->program->ctx->runs, 1) + 1;
    for (size_t i = 0; i < state->n_syncs; i++)
        if (is_foreign(state, i)) begin_wait(state, i);
    for (size_t i = 0; i < state->n_streams; i++) {
        const pp_stream_entry *before = state->streams[i]->last;
        if (before && before->priority < state->priority) state->priority = before->priority;
    }
    for (size_t i = 0; i < state->n_streams; i++) enter_stream(state, i);
    for (size_t i = 0; i < state->n_syncs; i++) {
        state->ended[i] = sync_at(state, i)->kind != PP_SYNC_RECORD;
        if (state->ended[i]) continue;
        state->target[i] = ++state->events[i]->begun;
        state->events[i]->priority = state->priority;
    }
    state->entered = true;
    pthread_mutex_unlock(&state->syncs->lock);
    return PPTO_OK;
}

static bool has_passed(const pp_sync_state *state, ppto_status *status, pp_error *err)
{
    for (size_t i = 0; i < state->n_streams; i++)
        if (!pp_stream_has(state->streams[i], &state->entries[i])) return false;
    for (size_t i = 0; i < state->n_syncs; i++) {
        if (!is_foreign(state, i)) continue;
        if (!state->waits[i].done) return false;
        if (state->waits[i].status != PPTO_OK && *status == PPTO_OK)
            *status = pp_fail(err, state->waits[i].status, "stream wait: the event is poisoned: %s",
                              state->waits[i].poison.text);
    }
    return true;
}

ppto_status pp_sync_pass(pp_sync_state *state, const pp_run_control *control, pp_error *err)
{
    ppto_status status = PPTO_OK;
    pthread_mutex_lock(&state->syncs->lock);
    while (!has_passed(state, &status, err) && status == PPTO_OK) {
        status = pp_run_stopped(control, err);
        if (status != PPTO_OK) break;
        (void)pp_condition_wait(&state->woken, &state->syncs->lock, pp_run_look_again(control));
    }
    pthread_mutex_unlock(&state->syncs->lock);
    return status;
}

void pp_sync_poke(pp_sync_state *state)
{
    pthread_mutex_lock(&state->syncs->lock);
    pthread_cond_signal(&state->woken);
    pthread_mutex_unlock(&state->syncs->lock);
}

/* ---- leaving ------------------------------------------------------------------------------------- */

static void end_record(pp_sync_state *state, size_t i, ppto_status status, const ppto_poison *poison,
                       pp_told *told)
{
    if (state->ended[i]) return;
    state->ended[i] = true;
    pp_event_end(state->syncs, state->events[i], state->target[i], status, poison, told);
}

static void drop_wait(pp_sync_state *state, size_t i)
{
    pp_event_wait *wait = &state->waits[i], **at = &state->events[i]->waits;
    if (wait->done) return;
    while (*at != wait) at = &(*at)->next;
    *at = wait->next;
    pp_event_unuse(state->syncs, state->events[i]);
}

static void note_failure(ppto_stream *stream, const pp_error *err)
{
    if (stream->failed != PPTO_OK) return;
    stream->failed = err->code;
    snprintf(stream->text, sizeof stream->text, "%.255s", err->text);
}

void pp_sync_leave(pp_sync_state *state, const pp_error *err)
{
    pp_told told = {NULL, NULL};
    ppto_status status = err->code;
    ppto_poison poison = {.status = status, .run = state->run};
    snprintf(poison.text, sizeof poison.text, "%.255s", err->text);
    pthread_mutex_lock(&state->syncs->lock);
    for (size_t i = 0; i < state->n_syncs; i++) {
        if (is_foreign(state, i)) drop_wait(state, i);
        bool well = state->kept && state->passed[i];
        end_record(state, i, well ? PPTO_OK : status, &poison, &told);
    }
    for (size_t i = 0; i < state->n_streams; i++) {
        if (err->code != PPTO_OK && !(state->kept && state->well[i])) note_failure(state->streams[i], err);
        pp_stream_leave(state->streams[i], &state->entries[i], &told);
    }
    state->entered = false;
    pthread_mutex_unlock(&state->syncs->lock);
    pp_tell(&told);
}

void pp_sync_reach(pp_sync_state *state, const uint32_t *stream_end, const uint32_t *sync_end, uint32_t stage)
{
    pp_told told = {NULL, NULL};
    if (state->defers) return;
    pthread_mutex_lock(&state->syncs->lock);
    for (size_t i = 0; i < state->n_syncs; i++)
        if (!state->stores[sync_at(state, i)->stream - 1] && (sync_end[i] == PP_NONE || sync_end[i] <= stage))
            end_record(state, i, PPTO_OK, NULL, &told);
    for (size_t i = 0; i < state->n_streams; i++)
        if (!state->stores[i] && (stream_end[i] == PP_NONE || stream_end[i] <= stage))
            pp_stream_leave(state->streams[i], &state->entries[i], &told);
    pthread_mutex_unlock(&state->syncs->lock);
    pp_tell(&told);
}

/* ---- steps --------------------------------------------------------------------------------------- */

static ppto_status run_gate(void *object, PP_UNUSED uint32_t phase, PP_UNUSED uint32_t task,
                            PP_UNUSED void *scratch, PP_UNUSED pp_error *err, PP_UNUSED int64_t *position)
{
    const pp_sync_step *step = object;
    pp_sync_state *state = step->instance->sync;
    uint32_t which = step->instance->schedule->steps.at[step->step].which;
    pp_stream_entry *entry = &state->entries[which];
    pthread_mutex_lock(&state->syncs->lock);
    bool passes = pp_stream_has(state->streams[which], entry);
    if (!passes) {
        entry->dispatch = step->instance->dispatch;
        entry->step = step->step;
        entry->armed = true;
    }
    pthread_mutex_unlock(&state->syncs->lock);
    return passes ? PPTO_OK : PP_STEP_ASYNC;
}

static uint32_t withdraw_gate(void *object, PP_UNUSED bool counts)
{
    const pp_sync_step *step = object;
    pp_sync_state *state = step->instance->sync;
    pp_stream_entry *entry = &state->entries[step->instance->schedule->steps.at[step->step].which];
    pthread_mutex_lock(&state->syncs->lock);
    bool armed = entry->armed;
    entry->armed = false;
    pthread_mutex_unlock(&state->syncs->lock);
    return armed;
}

/* well: all that the run did on it succeeded. */
static void leave_stream(const pp_sync_step *step, bool well)
{
    pp_told told = {NULL, NULL};
    pp_sync_state *state = step->instance->sync;
    uint32_t which = step->instance->schedule->steps.at[step->step].which;
    state->well[which] = well;
    if (state->defers || state->stores[which]) return;
    pthread_mutex_lock(&state->syncs->lock);
    pp_stream_leave(state->streams[which], &state->entries[which], &told);
    pthread_mutex_unlock(&state->syncs->lock);
    pp_tell(&told);
}

static ppto_status run_end(void *object, PP_UNUSED uint32_t phase, PP_UNUSED uint32_t task,
                           PP_UNUSED void *scratch, PP_UNUSED pp_error *err, PP_UNUSED int64_t *position)
{
    leave_stream(object, true);
    return PPTO_OK;
}

static void skipped_end(void *object, PP_UNUSED ppto_status why, PP_UNUSED uint32_t origin)
{
    leave_stream(object, false);
}

static void record_ends(const pp_sync_step *step, ppto_status status, const ppto_poison *poison)
{
    pp_told told = {NULL, NULL};
    pp_sync_state *state = step->instance->sync;
    uint32_t which = step->instance->schedule->steps.at[step->step].which;
    state->passed[which] = status == PPTO_OK;
    if (state->defers || state->stores[sync_at(state, which)->stream - 1]) return;
    pthread_mutex_lock(&state->syncs->lock);
    end_record(state, which, status, poison, &told);
    pthread_mutex_unlock(&state->syncs->lock);
    pp_tell(&told);
}

static ppto_status run_record(void *object, PP_UNUSED uint32_t phase, PP_UNUSED uint32_t task,
                              PP_UNUSED void *scratch, PP_UNUSED pp_error *err, PP_UNUSED int64_t *position)
{
    record_ends(object, PPTO_OK, NULL);
    return PPTO_OK;
}

/* The poison that a wait of this run met. */
static bool poison_met(const pp_sync_state *state, uint32_t sync, ppto_poison *poison)
{
    const pp_event_wait *wait = &state->waits[sync];
    if (!is_foreign(state, sync)) return false;
    pthread_mutex_lock(&state->syncs->lock);
    bool met = wait->done && wait->status != PPTO_OK;
    if (met) *poison = wait->poison;
    pthread_mutex_unlock(&state->syncs->lock);
    return met;
}

/* The poison of a wait that failed is handed on; else the step where it began is named. */
static void skipped_record(void *object, ppto_status why, uint32_t origin)
{
    const pp_sync_step *step = object;
    const pp_schedule *schedule = step->instance->schedule;
    const pp_sync_state *state = step->instance->sync;
    const pp_plan_step *from = &schedule->steps.at[origin];
    ppto_poison poison = {.status = why, .run = state->run};
    if (from->kind != PP_STEP_SYNC || !poison_met(state, from->which, &poison)) {
        const pp_origin *at = origin != step->step ? pp_step_origin(state->program, schedule, origin) : NULL;
        if (at) {
            snprintf(poison.operator_name, sizeof poison.operator_name, "%s", at->operator_name);
            poison.site = at->site;
        }
        snprintf(poison.text, sizeof poison.text, "%s%s%s in run %llu", at ? at->operator_name : "",
                 at ? ": " : "", ppto_status_text(why), (unsigned long long)state->run);
    }
    record_ends(step, poison.status, &poison);
}

static ppto_status run_wait(void *object, PP_UNUSED uint32_t phase, PP_UNUSED uint32_t task,
                            PP_UNUSED void *scratch, pp_error *err, PP_UNUSED int64_t *position)
{
    const pp_sync_step *step = object;
    pp_sync_state *state = step->instance->sync;
    uint32_t which = step->instance->schedule->steps.at[step->step].which;
    pp_event_wait *wait = &state->waits[which];
    if (!is_foreign(state, which)) return PPTO_OK; /* the record is a step before this one */
    pthread_mutex_lock(&state->syncs->lock);
    bool done = wait->done;
    if (!done) {
        wait->dispatch = step->instance->dispatch;
        wait->step = step->step;
        wait->armed = true;
    }
    pthread_mutex_unlock(&state->syncs->lock);
    if (!done) return PP_STEP_ASYNC;
    if (wait->status == PPTO_OK) return PPTO_OK;
    return pp_fail(err, wait->status, "the event is poisoned: %s", wait->poison.text);
}

static uint32_t withdraw_wait(void *object, PP_UNUSED bool counts)
{
    const pp_sync_step *step = object;
    pp_sync_state *state = step->instance->sync;
    pp_event_wait *wait = &state->waits[step->instance->schedule->steps.at[step->step].which];
    pthread_mutex_lock(&state->syncs->lock);
    bool armed = wait->armed;
    wait->armed = false;
    pthread_mutex_unlock(&state->syncs->lock);
    return armed;
}

void pp_sync_step_fill(pp_sync_step *object, pp_step *out)
{
    const pp_plan *plan = object->instance->plan;
    const pp_plan_step *of = &object->instance->schedule->steps.at[object->step];
    *out = (pp_step){.object = object, .phases = 1, .tasks = {1}, .task_ns = 1000, .prompt = true};
    if (of->kind == PP_STEP_END) {
        out->run = run_end;
        out->skipped = skipped_end;
    } else if (of->kind == PP_STEP_GATE) {
        out->run = run_gate;
        out->withdraw = withdraw_gate;
        out->waits = true;
    } else if (plan->flat.syncs.at[of->which].kind == PP_SYNC_RECORD) {
        out->run = run_record;
        out->skipped = skipped_record;
    } else {
        out->run = run_wait;
        out->withdraw = withdraw_wait;
        out->waits = true;
    }
}
