/* SPDX-License-Identifier: Apache-2.0
 * Where an instance keeps what is neither input nor result, and what it does: buffers with the steps that
 * make and read them go to the layout planner, steps with their needs to the dispatcher. */
#include <string.h>

#include "runtime/domains.h"
#include "runtime/file_steps.h"
#include "runtime/instance_parts.h"

enum { MAX_PARALLEL = 4096 /* steps planned for any order; more run one by one */ };

/* ---- buffers ----------------------------------------------------------------------------------- */

typedef struct buffer_list {
    PP_VEC(pp_layout_buffer) rows;
    PP_VEC(uint32_t) uses; /* steps, of one buffer after the other */
    uint32_t *of_prim;     /* prim -> buffer, UINT32_MAX none */
} buffer_list;

static ppto_status add_buffer(buffer_list *b, uint64_t bytes, uint32_t step, uint32_t *id)
{
    *id = (uint32_t)b->rows.n;
    return pp_vec_push(&b->rows,
                       ((pp_layout_buffer){.bytes = bytes, .defined = step, .in_place_of = UINT32_MAX}));
}

/* One buffer for every stored value that is no result, and for the partial states of every launch. */
static ppto_status list_buffers(pp_instance *in, buffer_list *b, pp_error *err)
{
    pp_plan *plan = in->plan;
    for (uint32_t g = 0; g < plan->fused.groups.n; g++) {
        pp_group *group = &plan->fused.groups.at[g];
        in->groups[g].shared_buffer = UINT32_MAX;
        for (size_t r = 0; r < group->roots.n; r++) {
            uint32_t prim = group->roots.at[r].prim;
            int64_t shape[PPTO_MAX_RANK];
            uint64_t bytes;
            if (plan->fused.result[prim]) continue;
            PP_TRY(pp_instance_shape(plan, in->names, prim, shape, &bytes, err));
            PP_TRY(add_buffer(b, bytes, in->schedule->step_of_group[g], &b->of_prim[prim]));
        }
        if (in->groups[g].geometry.shared_bytes)
            PP_TRY(add_buffer(b, in->groups[g].geometry.shared_bytes, in->schedule->step_of_group[g],
                              &in->groups[g].shared_buffer));
    }
    return PPTO_OK;
}

/* The buffer that a tensor of a group reads; UINT32_MAX: none. */
static uint32_t buffer_read(const buffer_list *b, const pp_lowered_tensor *tensor)
{
    return tensor->output ? UINT32_MAX : b->of_prim[tensor->prim];
}

/* Gives every buffer the place of its uses, which have been counted, and none of them yet. */
static ppto_status place_uses(buffer_list *b)
{
    size_t total = 0;
    for (size_t i = 0; i < b->rows.n; i++) total += b->rows.at[i].n_uses;
    PP_TRY(pp_vec_reserve(&b->uses, total + 1));
    for (size_t i = 0; i < b->rows.n; i++) {
        b->rows.at[i].uses = b->uses.at + b->uses.n;
        b->uses.n += b->rows.at[i].n_uses;
        b->rows.at[i].n_uses = 0;
    }
    return PPTO_OK;
}

/* Which step reads which buffer; counts first, then fills. */
static ppto_status list_uses(pp_instance *in, buffer_list *b)
{
    pp_plan *plan = in->plan;
    for (int fill = 0; fill < 2; fill++) {
        if (fill) PP_TRY(place_uses(b));
        for (uint32_t g = 0; g < plan->fused.groups.n; g++)
            for (size_t t = 0; t < plan->lowered[g].tensors.n; t++) {
                uint32_t buffer = buffer_read(b, &plan->lowered[g].tensors.at[t]);
                if (buffer == UINT32_MAX) continue;
                pp_layout_buffer *row = &b->rows.at[buffer];
                if (fill) b->uses.at[row->uses - b->uses.at + row->n_uses] = in->schedule->step_of_group[g];
                row->n_uses++;
            }
    }
    return PPTO_OK;
}

static void list_in_place(pp_instance *in, buffer_list *b)
{
    pp_plan *plan = in->plan;
    for (uint32_t g = 0; g < plan->fused.groups.n; g++)
        for (size_t t = 0; t < plan->lowered[g].tensors.n; t++) {
            pp_lowered_tensor *out = &plan->lowered[g].tensors.at[t];
            uint32_t own = out->output ? b->of_prim[out->prim] : UINT32_MAX, from;
            if (own == UINT32_MAX || !pp_lowered_in_place(&plan->lowered[g], (uint32_t)t, &from)) continue;
            uint32_t old = b->of_prim[plan->lowered[g].tensors.at[from].prim];
            if (old != UINT32_MAX && b->rows.at[old].bytes == b->rows.at[own].bytes)
                b->rows.at[own].in_place_of = old;
        }
}

static uint32_t output_number(const pp_plan *plan, uint32_t prim)
{
    for (uint32_t i = 0; i < plan->flat.outputs.n; i++)
        if (plan->flat.outputs.at[i] == prim) return i;
    return UINT32_MAX;
}

static void bind_places(pp_instance *in, const buffer_list *b)
{
    pp_plan *plan = in->plan;
    for (uint32_t g = 0; g < plan->fused.groups.n; g++)
        for (size_t t = 0; t < plan->lowered[g].tensors.n; t++) {
            pp_lowered_tensor *tensor = &plan->lowered[g].tensors.at[t];
            const pp_prim *p = &plan->flat.prims.at[tensor->prim];
            pp_bound *bound = &in->groups[g].bound[t];
            if (p->kind == PP_P_INPUT && !tensor->output)
                *bound = (pp_bound){PP_FROM_INPUT, p->number};
            else if (plan->fused.result[tensor->prim])
                *bound = (pp_bound){PP_FROM_OUTPUT, output_number(plan, tensor->prim)};
            else
                *bound = (pp_bound){PP_FROM_SLAB, b->of_prim[tensor->prim]};
        }
}

/* ---- steps ------------------------------------------------------------------------------------- */

static ppto_status run_group(void *object, uint32_t phase, uint32_t task, void *scratch, pp_error *err,
                             int64_t *position)
{
    pp_instance_group *group = object;
    if (!atomic_load_explicit(&group->ran, memory_order_relaxed)) /* only counted, after the run */
        atomic_store_explicit(&group->ran, true, memory_order_relaxed);
    ppto_status status = group->device->run(group->launch, phase, task, scratch, err, position);
    if (group->progress) pp_progress_add(group->progress, pp_progress_group_task(group));
    return status;
}

static ppto_status take(void *arg, size_t bytes, void **out, pp_error *err)
{
    static const pp_tag tag = {.kind = PP_BLOCK_SCRATCH, .hold = PP_HOLD_PLAN};
    const pp_instance *in = arg;
    if (!in->uncounted)
        return pp_pool_take_placed(in->plan->ctx->pool, bytes, &pp_scratch_placement, &tag, out, err);
    *out = pp_alloc_aligned(64, bytes);
    return *out ? PPTO_OK : pp_fail(err, PPTO_E_NOMEM, "no memory for %zu bytes of scratch", bytes);
}

static void give(void *arg, void *block, size_t bytes)
{
    const pp_instance *in = arg;
    if (in->uncounted)
        pp_free(block);
    else
        pp_pool_give(in->plan->ctx->pool, block, bytes);
}

void pp_instance_count(pp_instance *in, bool counted)
{
    pp_dispatch_give_back(in->dispatch);
    in->uncounted = !counted;
}

static void group_step(pp_instance *in, uint32_t g, pp_step *out)
{
    pp_instance_group *group = &in->groups[g];
    const pp_geometry *geometry = &group->geometry;
    *out = (pp_step){.run = run_group,
                     .object = group,
                     .phases = geometry->phases,
                     .scratch_bytes = geometry->scratch_bytes,
                     .task_ns = geometry->task_ns,
                     .task_bytes = pp_group_task_bytes(in->plan, g, group)};
    memcpy(out->tasks, geometry->tasks, sizeof out->tasks);
}

static void fill_step(pp_instance *in, uint32_t step, pp_step *out)
{
    const pp_plan_step *of = &in->schedule->steps.at[step];
    if (of->kind == PP_STEP_GROUP) {
        group_step(in, of->which, out);
        return;
    }
    if (of->kind == PP_STEP_LOAD || of->kind == PP_STEP_STORE) {
        pp_file_step_fill(in, step, out);
        return;
    }
    in->sync_steps[step] = (pp_sync_step){in, step};
    pp_sync_step_fill(&in->sync_steps[step], out);
}

static ppto_status make_steps(pp_instance *in, const uint32_t *first, const uint32_t *needs, pp_error *err)
{
    pp_plan *plan = in->plan;
    uint32_t n = (uint32_t)in->schedule->steps.n;
    PP_TRY(pp_file_steps_make(in, err));
    if (plan->flat.n_streams != 0) {
        in->sync_steps = pp_arena_alloc(&in->arena, n * sizeof *in->sync_steps);
        if (!in->sync_steps) return PPTO_E_NOMEM;
    }
    pp_step *steps = pp_calloc(n + 1u, sizeof *steps);
    if (!steps) return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) fill_step(in, i, &steps[i]);
    pp_memory memory = {take, give, in};
    ppto_status status =
        pp_dispatch_create(steps, n, first, needs, plan->ctx->executor, &memory, &in->dispatch, err);
    pp_free(steps);
    if (status == PPTO_OK) in->scratch_bytes = pp_dispatch_scratch_bytes(in->dispatch);
    return status;
}

/* ---- both -------------------------------------------------------------------------------------- */

static void close_list(buffer_list *b)
{
    pp_free(b->of_prim);
    pp_vec_free(&b->rows);
    pp_vec_free(&b->uses);
}

static ppto_status open_list(pp_instance *in, buffer_list *b, pp_error *err)
{
    size_t n = in->plan->flat.prims.n;
    b->of_prim = pp_alloc((n + 1) * sizeof *b->of_prim);
    if (!b->of_prim) return PPTO_E_NOMEM;
    for (size_t i = 0; i < n; i++) b->of_prim[i] = UINT32_MAX;
    PP_TRY(list_buffers(in, b, err));
    PP_TRY(list_uses(in, b));
    list_in_place(in, b);
    bind_places(in, b);
    return PPTO_OK;
}

static ppto_status lay_out_list(pp_instance *in, const ppto_program *p, const buffer_list *b, bool serial,
                                const uint32_t *first, const uint32_t *needs, pp_error *err)
{
    pp_layout_problem problem = {
        b->rows.at, (uint32_t)b->rows.n, (uint32_t)in->schedule->steps.n, first, needs, serial};
    PP_TRY(pp_layout_plan(&problem, &in->layout));
    if (PP_PLAN_VERIFY && b->rows.n <= 512) PP_TRY(pp_layout_verify(&problem, &in->layout, err));
    pp_instance_watch(in, p, b->rows.at, b->rows.n, b->of_prim);
    pp_instance_place(in, b->rows.at, b->rows.n);
    return make_steps(in, first, needs, err);
}

ppto_status pp_instance_lay_out(pp_instance *in, const ppto_program *p, pp_error *err)
{
    pp_plan *plan = in->plan;
    buffer_list b = {0};
    uint32_t *first = NULL, *needs = NULL;
    /* with streams or files one worker, too, goes on with what is ready while something waits */
    bool waits = plan->flat.n_streams != 0 || in->files;
    bool serial =
        (pp_executor_workers(plan->ctx->executor) == 1 && !waits) || in->schedule->steps.n > MAX_PARALLEL;
    ppto_status status = pp_schedule_needs(in->schedule, serial, &first, &needs);
    if (status == PPTO_OK) status = open_list(in, &b, err);
    if (status == PPTO_OK) status = lay_out_list(in, p, &b, serial, first, needs, err);
    pp_free(first);
    pp_free(needs);
    close_list(&b);
    return status;
}
