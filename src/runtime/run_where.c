/* SPDX-License-Identifier: Apache-2.0
 * How far a run came that ended early: the words its error gets. Steps count in program order, so the words
 * do not depend on timing more than the run did. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "runtime/run_parts.h"

const pp_origin *pp_step_origin(const ppto_program *p, const pp_schedule *schedule, uint32_t step)
{
    if (step >= schedule->steps.n) return NULL;
    const pp_plan_step *of = &schedule->steps.at[step];
    size_t file = of->kind == PP_STEP_STORE ? p->plan->inputs.n + of->which : of->which;
    switch (of->kind) {
    case PP_STEP_SYNC: return &p->origins[p->plan->flat.syncs.at[of->which].origin];
    case PP_STEP_LOAD:
    case PP_STEP_STORE: return p->file_origin[file].operator_name ? &p->file_origin[file] : NULL;
    case PP_STEP_GROUP:
        if (p->plan->fused.groups.at[of->which].roots.n == 0) return NULL;
        return pp_program_origin(p, pp_plan_culprit(p->plan, of->which));
    default: return NULL;
    }
}

static const pp_schedule *schedule_of(const pp_run_state *r)
{
    return r->in ? r->in->schedule : &r->plan->schedule;
}

static void add_step(const pp_run_state *r, const char *what, uint32_t step, pp_text *out)
{
    char place[PP_SITE_ROOM];
    const pp_origin *origin = pp_step_origin(r->p, schedule_of(r), step);
    if (!origin) {
        pp_text_add(out, "\n  %s: nothing", what);
        return;
    }
    pp_text_add(out, "\n  %s: %s%s%s", what, origin->operator_name, origin->site.file ? " at " : "",
                origin->site.file ? pp_site_text(&origin->site, place, sizeof place) : "");
}

void pp_run_where(const pp_run_state *r, pp_text *out)
{
    uint32_t last = UINT32_MAX, first = UINT32_MAX;
    for (uint32_t i = 0; i < schedule_of(r)->steps.n; i++) {
        if (!pp_step_origin(r->p, schedule_of(r), i)) continue;
        if (r->dispatched && pp_dispatch_succeeded(r->in->dispatch, i))
            last = i;
        else if (first == UINT32_MAX)
            first = i;
    }
    add_step(r, "last completed", last, out);
    add_step(r, "first not completed", first, out);
}

void pp_run_where_stopped(const pp_run_state *r, ppto_status status)
{
    pp_text where = {0};
    if (status != PPTO_E_CANCELLED && status != PPTO_E_DEADLINE) return;
    if (!r->control->run || r->p->whole) return; /* of a part, the run that it belongs to tells */
    if (!strchr(r->err->text, '\n')) pp_run_where(r, &where);
    if (r->p->stats.pieces > 0) pp_text_add(&where, "\n  pieces completed: %" PRIu64, r->p->stats.pieces);
    size_t n = strlen(r->err->text);
    if (where.at && !where.failed) snprintf(r->err->text + n, sizeof r->err->text - n, "%s", where.at);
    pp_text_free(&where);
}
