/* SPDX-License-Identifier: Apache-2.0
 * Programs the user did not destroy. Where memcheck watches, the context has a list of those that
 * ppto_compile gave out, each with the place of that call; what is on it when the context goes is told to
 * the ledger as the holder of what is bound to it and of the scratch that is kept with its plan. Other
 * objects that were not given back are only counted: events and streams hold no arrays. */
#include "memory/memcheck.h"
#include "runtime/async_run.h"

/* The caller's file may be unloaded before the context goes. */
static bool keep_place(pp_held_program *held, ppto_site site)
{
    held->file = site.file ? pp_strdup(site.file) : NULL;
    held->function = site.function ? pp_strdup(site.function) : NULL;
    held->site = (ppto_site){held->file, held->function, site.line, site.column};
    return (held->file || !site.file) && (held->function || !site.function);
}

ppto_status pp_held_add(ppto_program *p, ppto_site site)
{
    ppto_context *ctx = p->ctx;
    pp_held_program *held = &p->held;
    if (!ctx->ledger) return PPTO_OK;
    if (!keep_place(held, site)) return PPTO_E_NOMEM; /* the caller destroys it */
    held->stack = pp_stacks_here(ctx->stacks, 1);
    pthread_mutex_lock(&ctx->lock);
    held->next = ctx->held;
    if (held->next) held->next->held.before = p;
    ctx->held = p;
    held->is_held = true;
    pthread_mutex_unlock(&ctx->lock);
    return PPTO_OK;
}

void pp_held_remove(ppto_program *p)
{
    pp_held_program *held = &p->held;
    if (held->is_held) {
        pthread_mutex_lock(&p->ctx->lock);
        *(held->before ? &held->before->held.next : &p->ctx->held) = held->next;
        if (held->next) held->next->held.before = held->before;
        pthread_mutex_unlock(&p->ctx->lock);
    }
    pp_free(held->file);
    pp_free(held->function);
}

static void tell_arrays(const ppto_program *p, ppto_array *const *arrays, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (arrays[i] && arrays[i]->owned)
            pp_ledger_hold(p->ctx->ledger, arrays[i]->data, PP_HOLD_PROGRAM, p->held.site, p->held.stack);
}

/* The plan cache does not hold it any more. */
static void tell_scratch(const ppto_program *p, const pp_instance *in)
{
    const void *scratch = in ? pp_dispatch_scratch(in->dispatch) : NULL;
    if (!scratch) return;
    pp_ledger_hold(p->ctx->ledger, scratch, PP_HOLD_PROGRAM, p->held.site, p->held.stack);
    pp_ledger_drop(p->ctx->ledger, scratch, PP_HOLD_PLAN, PPTO_HERE, 0);
}

void pp_held_tell(ppto_context *ctx)
{
    for (const ppto_program *p = ctx->held; p; p = p->held.next) {
        tell_arrays(p, p->inputs, p->plan->inputs.n);
        tell_arrays(p, p->outputs, p->plan->flat.outputs.n);
        tell_scratch(p, p->instance);
        for (const pp_instance *in = p->plan->idle; in; in = in->next) tell_scratch(p, in);
    }
}

void pp_held_count(ppto_context *ctx, uint64_t *left)
{
    const pp_drivers *drivers = atomic_load_explicit(&ctx->drivers, memory_order_acquire);
    const pp_syncs *syncs = ctx->syncs;
    for (const ppto_program *p = ctx->held; p; p = p->held.next) left[PP_LEFT_PROGRAMS]++;
    left[PP_LEFT_RUNS] = drivers ? pp_runs_live(drivers) : 0;
    left[PP_LEFT_GRAPHS] = atomic_load_explicit(&ctx->graphs, memory_order_relaxed);
    for (const ppto_stream *s = syncs ? syncs->streams : NULL; s; s = s->next) left[PP_LEFT_STREAMS]++;
    for (size_t i = 0; syncs && i < syncs->rows.n; i++)
        left[PP_LEFT_EVENTS] += syncs->rows.at[i] && syncs->rows.at[i]->handles != 0;
}
