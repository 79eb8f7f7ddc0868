/* SPDX-License-Identifier: Apache-2.0
 * A run of a program to which nothing was bound since its last one: all that was checked then holds still,
 * the instance is the program's own and its launches are bound, so what is left is to dispatch.
 *
 * A run that went the plain way *settles* its program: memory to memory, in one piece, into arrays that the
 * caller gave, with nobody who watches. Whatever may change one of these things unsettles it (another run,
 * bind, donate, traces). Scalars that are bound as arrays are read anew, and memory between kernels is taken
 * anew: then the launches are bound again. Statistics keep what that run said of memory and launches: it was
 * the same run. */
#include "runtime/run_parts.h"

/* Numbers that are bound as arrays may have changed with what is in these. */
static bool has_numbers(const pp_plan *plan)
{
    for (size_t i = 0; i < plan->inputs.n; i++)
        if (pp_input_is_number(plan, i)) return true;
    return false;
}

static bool is_watched(const ppto_program *p)
{
    return p->ctx->ledger || p->source || p->log_on || p->ctx->settings.o.chunk != 0 ||
           pp_pool_get_limit(p->ctx->pool) != 0;
}

static bool is_alone(const ppto_program *p, const pp_run_control *control, const pp_ticket *ticket)
{
    return !p->whole && !p->sync && !p->uncounted && !ticket && !control->run && !control->keep_going;
}

/* Everything lies where it was bound: nothing was packed, copied, adopted or left in a file. */
static bool is_direct(const pp_run_state *r)
{
    for (size_t i = 0; i < r->plan->inputs.n; i++)
        if (r->inputs[i] != r->p->inputs[i] || r->inputs[i]->file || r->p->donated[i]) return false;
    for (size_t i = 0; i < r->plan->flat.outputs.n; i++)
        if (!r->p->outputs[i] || r->results[i] != r->p->outputs[i] || r->p->sinks[i]) return false;
    return !r->in->files && r->copied == 0;
}

void pp_run_settle(const pp_run_state *r)
{
    const ppto_stats *s = &r->p->stats;
    const bool counted =
        s->reads_bytes != 0 || s->writes_bytes != 0; /* the device starts to count when bound */
    r->p->settled = is_alone(r->p, r->control, r->ticket) && !is_watched(r->p) && !counted && is_direct(r);
    r->p->rebinds = r->in->layout.bytes != 0 || has_numbers(r->plan);
}

bool pp_run_is_settled(const ppto_program *p, ppto_array **outputs, const pp_run_control *control,
                       const pp_ticket *ticket)
{
    return p->settled && !outputs && !ticket && !control->run && !p->source && !p->log_on;
}

static ppto_status bind_again(pp_run_state *r)
{
    PP_TRY(pp_numbers_eval(r->plan, r->in->names, r->inputs, r->p->literals, r->in->value, r->err));
    PP_TRY(pp_run_take_slab(r));
    return pp_run_bind_groups(r);
}

ppto_status pp_run_again(ppto_program *p, const pp_run_control *control, pp_error *err)
{
    const int64_t start = pp_clock_ns();
    pp_run_state r = {.p = p,
                      .plan = p->plan,
                      .in = p->instance,
                      .inputs = p->inputs,
                      .results = p->outputs,
                      .control = control,
                      .err = err};
    ppto_status status = p->rebinds ? bind_again(&r) : PPTO_OK;
    if (status == PPTO_OK) status = pp_run_dispatch(&r);
    if (r.slab) pp_pool_give(p->ctx->pool, r.slab, (size_t)r.in->layout.bytes);
    if (status != PPTO_OK) p->settled = false;
    if (p->code.compiled != p->code.loops) pp_run_count_code(p);
    p->stats.run_seconds = (double)(pp_clock_ns() - start) * 1e-9;
    return status;
}
