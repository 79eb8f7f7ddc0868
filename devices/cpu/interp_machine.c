/* SPDX-License-Identifier: Apache-2.0
 * Runs of steps as machine code: where the tile's streams lie, and the call.
 *
 * The code appears while tasks run; a tile takes it or does not, and the bits are the same. A value that is
 * only stored goes to its tensor at once where the tile lies there in one piece, past the caches if the
 * output is large; else to its register, and the store copies it as ever. */
#include <string.h>

#include "base/fault.h"
#include "devices/cpu/interp_work.h"
#include "devices/cpu/loop_store.h"

/* Whether the value lands in its tensor at once. */
static bool lands(pp_work *w, const pp_machine_out *out, pp_view *at)
{
    return out->store != NULL && !pp_fault(PP_FAULT_DROPPED_TAIL) && pp_work_direct(w, out->store, true, at);
}

typedef struct call {
    size_t rows, cols;
    bool flat; /* every stream is one row */
    pp_stream_at in[PP_MACHINE_STREAMS], out[PP_MACHINE_STREAMS];
    bool landed[PP_MACHINE_STREAMS];
    bool fresh[PP_MOST_FOLDED]; /* by columns, per fold of the loop: its block begins here */
} call;

static void add_stream(call *c, const pp_stream *stream, const pp_view *view, pp_stream_at *at)
{
    const size_t row = c->cols * ppto_dtype_size((ppto_dtype)stream->dtype);
    *at = (pp_stream_at){view->at, view->pitch};
    if (view->pitch != (stream->kind == PP_STREAM_FULL ? (int64_t)row : 0)) c->flat = false;
}

/* Where the states of the tile go: those of a scan are the launch's own, and those of columns go on. */
static char *state_of(const pp_work *w, const pp_machine *machine, const pp_machine_out *out,
                      const pp_body *body)
{
    void *state[4];
    if (machine->columns) return pp_work_fold_state(w, body, out->fold, state), state[out->state];
    if (!machine->scans) return pp_work_folded(w, out->fold, out->state);
    return w->scratch + w->launch->folds[body->first_fold + out->fold].raw[out->state];
}

/* false where the interpreter does it better: what is written past the caches cannot be copied from there. */
static bool find_outs(pp_work *w, const pp_body *body, const pp_machine *machine, call *c)
{
    for (uint32_t i = 0; i < machine->loop.n_out; i++) {
        const pp_stream *stream = &machine->loop.out[i];
        const pp_machine_out *out = &machine->out[i];
        pp_view view;
        if (out->step == NULL) {
            const size_t size = ppto_dtype_size((ppto_dtype)stream->dtype);
            c->out[i] = (pp_stream_at){state_of(w, machine, out, body), (int64_t)size};
            continue;
        }
        c->landed[i] = lands(w, out, &view);
        if (!c->landed[i] && stream->around) return false;
        if (!c->landed[i])
            view = out->step->kind == PP_STEP_SCAN ? pp_work_scanned(w, out->step, out->view - out->step->out)
                                                   : pp_work_place(w, out->step);
        add_stream(c, stream, &view, &c->out[i]);
        if (stream->around) w->streamed = true;
    }
    return true;
}

/* Short rows fold and scan better all at once (interp_fold.c, interp_scan.c), a few columns as one long row,
 * and a planted fault is not in the code. */
static bool may_fold(const pp_work *w, const pp_machine *machine, const call *c)
{
    enum { LEAST_ALONG = PP_LANES / 4, LEAST_DOWN = 8 };
    if (c->rows != w->rows || pp_fault(PP_FAULT_SWAPPED_JOIN)) return false;
    if (machine->columns) return c->cols >= LEAST_DOWN;
    return machine->scans ? !pp_work_scans_turned(w) : c->cols >= LEAST_ALONG;
}

/* What tells folds by columns how their tile begins. */
static void find_fresh(const pp_work *w, const pp_body *body, const pp_machine *machine, call *c)
{
    for (uint32_t i = 0; machine->columns && i < machine->loop.n_folds; i++) {
        const pp_loop_fold *fold = &machine->loop.folds[i];
        void *state[4];
        c->fresh[i] = pp_work_fold_state(w, body, machine->out[fold->out[0]].fold, state);
        c->in[fold->fresh] = (pp_stream_at){(char *)&c->fresh[i], 0};
    }
}

static void find_ins(pp_work *w, const pp_body *body, const pp_machine *machine, call *c)
{
    const pp_dim_id along = machine->columns ? PP_DIM_ROWS : PP_DIM_COLS;
    for (uint32_t i = 0; i < machine->loop.n_in; i++) {
        const pp_view position = {(char *)&w->at[along], 0};
        const uint32_t view = machine->in[i];
        add_stream(c, &machine->loop.in[i], view != PP_NONE ? &w->views[view] : &position, &c->in[i]);
    }
    find_fresh(w, body, machine, c);
    for (uint32_t i = 0; machine->scans && i < machine->loop.n_folds; i++) {
        const pp_loop_fold *scan = &machine->loop.folds[i];
        const pp_fold_at *at = &w->launch->folds[body->first_fold + machine->out[scan->out[0]].fold];
        for (unsigned s = 0; s < scan->fold->n_states; s++)
            c->in[scan->carry[s]] = (pp_stream_at){w->scratch + at->carry[s], 0};
    }
}

/* The last states are what the next block goes on from. */
static void keep_carries(const pp_machine *machine, const call *c)
{
    for (uint32_t i = 0; i < machine->loop.n_folds; i++) {
        const pp_loop_fold *scan = &machine->loop.folds[i];
        for (unsigned s = 0; s < scan->fold->n_states; s++)
            memcpy(c->in[scan->carry[s]].at, c->out[scan->out[s]].at,
                   ppto_dtype_size((ppto_dtype)scan->fold->state[s]));
    }
}

/* Values are where their readers look for them, and states are there. */
static void note_outs(pp_work *w, const pp_machine *machine, const call *c)
{
    for (uint32_t i = 0; i < machine->loop.n_out; i++) {
        const pp_machine_out *out = &machine->out[i];
        if (out->step == NULL) {
            if (!machine->scans) w->folded |= UINT32_C(1) << out->fold;
            continue;
        }
        w->views[out->view] = (pp_view){c->out[i].at, c->out[i].pitch};
        if (out->store != NULL && !c->landed[i]) pp_work_store(w, out->store);
    }
}

bool pp_work_machine(pp_work *w, const pp_body *body, const pp_machine *machine)
{
    const pp_loop_fn fn = machine->code != NULL ? pp_loop_code_fn(machine->code) : NULL;
    call c;
    if (fn == NULL) return false;
    c.rows = body->level == PP_LEVEL_FULL ? w->rows : 1;
    c.cols = body->level == PP_LEVEL_ROWS ? w->rows : w->cols;
    c.flat = c.rows > 1 && machine->loop.n_folds == 0;
    if (machine->loop.n_folds > 0 && !may_fold(w, machine, &c)) return false;
    if (!find_outs(w, body, machine, &c)) return false;
    find_ins(w, body, machine, &c);
    if (c.flat) c.cols *= c.rows, c.rows = 1;
    fn(c.rows, c.cols, c.in, c.out);
    if (machine->scans) keep_carries(machine, &c);
    note_outs(w, machine, &c);
    return true;
}

/* ---- the code of a launch -------------------------------------------------------------------- */

typedef void (*machine_fn)(const pp_launch *launch, pp_machine *machine, void *arg);

static void each_machine(const pp_launch *launch, const pp_body *body, machine_fn fn, void *arg)
{
    for (unsigned g = 0; g < PP_GROUPS; g++)
        for (uint32_t m = 0; m < body->n_machines[g]; m++)
            if (body->machines[g][m].loop.n_code > 0) fn(launch, &body->machines[g][m], arg);
}

static void each_body(const pp_launch *launch, machine_fn fn, void *arg)
{
    const uint32_t n = launch->variant != NULL ? launch->variant->program->n_stages : 0;
    if (launch->kernel->device->tier == PP_TIER_INTERP) return;
    for (uint32_t s = 0; launch->bodies != NULL && s < n; s++)
        each_machine(launch, &launch->bodies[s], fn, arg);
    if (launch->contract == NULL) return;
    each_machine(launch, &launch->contract->a.body, fn, arg);
    each_machine(launch, &launch->contract->b.body, fn, arg);
}

static void ask(const pp_launch *launch, pp_machine *machine, void *arg)
{
    const pp_device *device = launch->kernel->device;
    (void)arg;
    machine->claims = false;
    machine->code = pp_loop_store_get(&machine->loop, device->set->name, device->tier == PP_TIER_JIT, NULL);
}

static void drop(const pp_launch *launch, pp_machine *machine, void *arg)
{
    (void)launch;
    (void)arg;
    pp_loop_store_put(machine->code);
    machine->code = NULL;
}

void pp_interp_machines_ask(pp_launch *launch)
{
    if (!launch->empty) each_body(launch, ask, NULL);
}

void pp_interp_machines_drop(pp_launch *launch)
{
    each_body(launch, drop, NULL);
}

typedef struct counting {
    pp_code_count *count;
    pp_text *text;
} counting;

/* One compilation is told of by one launch, the first that is counted when it is there: that one ran with it,
 * others may have been sized for a plan only. */
static bool claims(pp_machine *machine)
{
    if (!machine->claims)
        machine->claims = !atomic_exchange_explicit(&machine->code->claimed, true, memory_order_relaxed);
    return machine->claims;
}

static void count_one(const pp_launch *launch, pp_machine *machine, void *arg)
{
    const counting *c = arg;
    (void)launch;
    c->count->loops++;
    if (machine->code != NULL && pp_loop_code_fn(machine->code) != NULL) {
        c->count->compiled++;
        if (c->text == NULL && claims(machine)) {
            c->count->from_disk += machine->code->from_disk;
            c->count->compile_ns += machine->code->compile_ns;
        }
    }
    if (c->text != NULL) pp_loop_print(&machine->loop, c->text);
}

void pp_interp_count_code(const pp_launch *launch, pp_code_count *count, pp_text *text)
{
    if (launch->chained != NULL)
        pp_interp_chain_count_code(launch, count, text);
    else
        each_body(launch, count_one, &(counting){count, text});
}
