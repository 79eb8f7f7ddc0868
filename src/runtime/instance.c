/* SPDX-License-Identifier: Apache-2.0
 * Instances: a plan with its sizes and strides fixed. Making one evaluates every slot, asks the device how
 * each launch divides, lays the buffers out and builds the dispatch object; running one again allocates
 * nothing. */
#include <string.h>

#include "base/checked.h"
#include "runtime/domains.h"
#include "runtime/sync.h"

enum { MAX_IDLE = 8, MAX_PARALLEL = 4096 /* steps planned for any order; more run one by one */ };

/* ---- sizes
 * -------------------------------------------------------------------------------------------------------------
 */

static ppto_status mismatch(const pp_plan *plan, const pp_plan_input *input, const ppto_array *a,
                            pp_error *err, ppto_status code, const char *why)
{
    pp_text want = {0}, have = {0};
    pp_type_print(plan->types, pp_type_get(plan->types, input->type), &want);
    pp_text_add(&have, "%s[", ppto_dtype_name(a->dtype));
    for (int i = 0; i < a->rank; i++) pp_text_add(&have, "%s%lld", i ? ", " : "", (long long)a->shape[i]);
    pp_text_add(&have, "]");
    const pp_origin *origin = input->prim != PP_NONE ? pp_plan_origin(plan, input->prim) : NULL;
    bool known = origin && origin->site.file;
    char place[PP_SITE_ROOM] = "";
    if (known) pp_site_text(&origin->site, place, sizeof place);
    pp_fail(err, code, "input %s is %s, but %s is bound to it%s%s%s", input->name, want.at ? want.at : "?",
            have.at ? have.at : "?", why, known ? "\n  declared at " : "", place);
    pp_text_free(&want);
    pp_text_free(&have);
    return code;
}

static ppto_status check_input(const pp_plan *plan, const pp_plan_input *input, const ppto_array *a,
                               int64_t *names, pp_error *err)
{
    const pp_type *type = pp_type_get(plan->types, input->type);
    pp_sizes *sizes = pp_types_sizes(plan->types);
    if (!a) return pp_fail(err, PPTO_E_NAME, "input %s is not bound", input->name);
    if (type->weak && a->rank == 0) return PPTO_OK;
    if (a->rank != type->rank) return mismatch(plan, input, a, err, PPTO_E_SHAPE, "");
    if (a->dtype != type->dtype) return mismatch(plan, input, a, err, PPTO_E_DTYPE, "");
    for (int i = 0; i < a->rank; i++) {
        int64_t known;
        size_t name;
        if (pp_size_known(sizes, type->dim[i], &known)) {
            if (known != a->shape[i]) return mismatch(plan, input, a, err, PPTO_E_SHAPE, "");
        } else if (pp_size_as_name(sizes, type->dim[i], &name)) {
            char why[160];
            if (names[name] < 0) names[name] = a->shape[i];
            snprintf(why, sizeof why, ": %s is %lld elsewhere", pp_sizes_name_at(sizes, name),
                     (long long)names[name]);
            if (names[name] != a->shape[i]) return mismatch(plan, input, a, err, PPTO_E_SHAPE, why);
        }
    }
    return PPTO_OK;
}

ppto_status pp_instance_sizes(const pp_plan *plan, ppto_array *const *inputs, int64_t *names, pp_error *err)
{
    size_t n = pp_sizes_names(pp_types_sizes(plan->types));
    for (size_t i = 0; i < n; i++) names[i] = -1;
    for (size_t i = 0; i < plan->inputs.n; i++)
        PP_TRY(check_input(plan, &plan->inputs.at[i], inputs[i], names, err));
    for (size_t i = 0; i < n; i++)
        if (names[i] < 0) names[i] = 0; /* a name that nothing of this plan is computed from */
    return PPTO_OK;
}

/* ---- making
 * -----------------------------------------------------------------------------------------------------------------
 */

static ppto_status eval_shape(const pp_plan *plan, const int64_t *names, uint32_t prim, int64_t *shape,
                              uint64_t *bytes, pp_error *err)
{
    const pp_type *type = pp_flat_type(&plan->flat, prim);
    int64_t n = (int64_t)ppto_dtype_size((ppto_dtype)type->dtype);
    for (uint32_t i = 0; i < type->rank; i++) {
        PP_TRY(pp_size_eval(pp_types_sizes(plan->types), type->dim[i], names, &shape[i]));
        if (shape[i] < 0) {
            const pp_origin *origin = pp_plan_origin(plan, prim);
            return pp_fail(err, PPTO_E_SHAPE, "%s: axis %u would have the size %lld", origin->operator_name,
                           i, (long long)shape[i]);
        }
        if (!pp_mul_i64(n, shape[i], &n))
            return pp_fail(err, PPTO_E_SIZE, "the size of a tensor overflows 64 bits");
    }
    *bytes = (uint64_t)n;
    return PPTO_OK;
}

static void row_major(int64_t size, uint32_t rank, const int64_t *shape, int64_t *stride)
{
    for (uint32_t i = rank; i-- > 0;) {
        stride[i] = size;
        size *= shape[i] > 0 ? shape[i] : 1;
    }
}

static ppto_status make_tensor(pp_instance *in, ppto_array *const *inputs, const pp_lowered_tensor *t,
                               pp_tensor_ref *ref, pp_error *err)
{
    pp_plan *plan = in->plan;
    const pp_type *type = pp_flat_type(&plan->flat, t->prim);
    int64_t *shape = pp_arena_alloc(&in->arena, PPTO_MAX_RANK * sizeof *shape);
    int64_t *stride = pp_arena_alloc(&in->arena, PPTO_MAX_RANK * sizeof *stride);
    int64_t size = (int64_t)ppto_dtype_size((ppto_dtype)type->dtype);
    uint64_t bytes;
    if (!shape || !stride) return PPTO_E_NOMEM;
    PP_TRY(eval_shape(plan, in->names, t->prim, shape, &bytes, err));
    ref->rank = t->linear ? 1 : type->rank;
    ref->shape = shape;
    ref->stride = stride;
    const pp_prim *p = &plan->flat.prims.at[t->prim];
    if (p->kind == PP_P_INPUT && !t->output && !t->linear) {
        memcpy(stride, inputs[p->number]->stride, type->rank * sizeof *stride);
        return PPTO_OK;
    }
    if (t->linear) shape[0] = (int64_t)(bytes / (uint64_t)size);
    row_major(size, ref->rank, shape, stride);
    return PPTO_OK;
}

static ppto_status make_group(pp_instance *in, uint32_t g, ppto_array *const *inputs, pp_error *err)
{
    pp_plan *plan = in->plan;
    pp_lowered *l = &plan->lowered[g];
    pp_instance_group *group = &in->groups[g];
    group->slots = pp_arena_alloc(&in->arena, (l->slots.n + 1) * sizeof *group->slots);
    group->tensors = pp_arena_alloc(&in->arena, (l->tensors.n + 1) * sizeof *group->tensors);
    group->bound = pp_arena_alloc(&in->arena, (l->tensors.n + 1) * sizeof *group->bound);
    group->args = pp_arena_alloc(&in->arena, (l->args.n + 1) * sizeof *group->args);
    if (!group->slots || !group->tensors || !group->bound || !group->args) return PPTO_E_NOMEM;
    group->device = plan->ctx->device_class;
    group->slots[PP_SLOT_1] = 1;
    group->slots[PP_SLOT_M1] = -1;
    for (size_t s = PP_SLOT_FIRST; s < l->slots.n; s++)
        PP_TRY(pp_size_eval(pp_types_sizes(plan->types), l->slots.at[s], in->names, &group->slots[s]));
    for (size_t t = 0; t < l->tensors.n; t++)
        PP_TRY(make_tensor(in, inputs, &l->tensors.at[t], &group->tensors[t], err));
    PP_TRY(group->device->launch_create(plan->kernel[g]->kernel, &group->launch, err));
    pp_binding binding = {group->slots, group->tensors, group->args};
    return group->device->resize(group->launch, &binding, plan->ctx->workers, &group->geometry, err);
}

/* ---- buffers
 * ------------------------------------------------------------------------------------------------------------------
 */

static uint32_t output_number(const pp_plan *plan, uint32_t prim)
{
    for (uint32_t i = 0; i < plan->flat.outputs.n; i++)
        if (plan->flat.outputs.at[i] == prim) return i;
    return UINT32_MAX;
}

typedef struct buffer_list {
    PP_VEC(pp_layout_buffer) rows;
    PP_VEC(uint32_t) uses; /* of all buffers, in two passes */
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
            PP_TRY(eval_shape(plan, in->names, prim, shape, &bytes, err));
            PP_TRY(add_buffer(b, bytes, plan->step_of_group[g], &b->of_prim[prim]));
        }
        if (in->groups[g].geometry.shared_bytes)
            PP_TRY(add_buffer(b, in->groups[g].geometry.shared_bytes, plan->step_of_group[g],
                              &in->groups[g].shared_buffer));
    }
    return PPTO_OK;
}

/* Which group reads which buffer; counts first, then fills. */
static ppto_status list_uses(pp_instance *in, buffer_list *b)
{
    pp_plan *plan = in->plan;
    uint32_t total = 0;
    for (int fill = 0; fill < 2; fill++) {
        if (fill) {
            PP_TRY(pp_vec_reserve(&b->uses, total + 1u));
            uint32_t at = 0;
            for (size_t i = 0; i < b->rows.n; i++) {
                b->rows.at[i].uses = b->uses.at + at;
                at += b->rows.at[i].n_uses;
                b->rows.at[i].n_uses = 0;
            }
        }
        for (uint32_t g = 0; g < plan->fused.groups.n; g++)
            for (size_t t = 0; t < plan->lowered[g].tensors.n; t++) {
                pp_lowered_tensor *tensor = &plan->lowered[g].tensors.at[t];
                uint32_t buffer = tensor->output ? UINT32_MAX : b->of_prim[tensor->prim];
                if (buffer == UINT32_MAX) continue;
                pp_layout_buffer *row = &b->rows.at[buffer];
                if (fill) ((uint32_t *)(uintptr_t)row->uses)[row->n_uses] = plan->step_of_group[g];
                row->n_uses++;
                total++;
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
    return pp_pool_take_placed(arg, bytes, &pp_scratch_placement, &tag, out, err);
}
static void give(void *arg, void *block, size_t bytes)
{
    pp_pool_give(arg, block, bytes);
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
    const pp_plan_step *of = &in->plan->steps.at[step];
    if (of->kind == PP_STEP_GROUP) {
        group_step(in, of->which, out);
        return;
    }
    in->sync_steps[step] = (pp_sync_step){in, step};
    pp_sync_step_fill(&in->sync_steps[step], out);
}

static ppto_status make_steps(pp_instance *in, const uint32_t *first, const uint32_t *needs, pp_error *err)
{
    pp_plan *plan = in->plan;
    uint32_t n = (uint32_t)plan->steps.n;
    if (plan->flat.n_streams != 0) {
        in->sync_steps = pp_arena_alloc(&in->arena, n * sizeof *in->sync_steps);
        if (!in->sync_steps) return PPTO_E_NOMEM;
    }
    pp_step *steps = pp_calloc(n + 1u, sizeof *steps);
    if (!steps) return PPTO_E_NOMEM;
    for (uint32_t i = 0; i < n; i++) fill_step(in, i, &steps[i]);
    pp_memory memory = {take, give, plan->ctx->pool};
    ppto_status status =
        pp_dispatch_create(steps, n, first, needs, plan->ctx->executor, &memory, &in->dispatch, err);
    pp_free(steps);
    if (status == PPTO_OK) in->scratch_bytes = pp_dispatch_scratch_bytes(in->dispatch);
    return status;
}

static ppto_status lay_out(pp_instance *in, pp_error *err)
{
    pp_plan *plan = in->plan;
    buffer_list b = {0};
    uint32_t *first = NULL, *needs = NULL;
    b.of_prim = pp_alloc((plan->flat.prims.n + 1) * sizeof *b.of_prim);
    /* with streams one worker, too, goes on with what is ready while something waits */
    bool serial = (pp_executor_workers(plan->ctx->executor) == 1 && plan->flat.n_streams == 0) ||
                  plan->steps.n > MAX_PARALLEL;
    ppto_status status = b.of_prim ? pp_plan_needs(plan, serial, &first, &needs) : PPTO_E_NOMEM;
    for (size_t i = 0; b.of_prim && i < plan->flat.prims.n; i++) b.of_prim[i] = UINT32_MAX;
    if (status == PPTO_OK) status = list_buffers(in, &b, err);
    if (status == PPTO_OK) status = list_uses(in, &b);
    if (status == PPTO_OK) {
        list_in_place(in, &b);
        bind_places(in, &b);
        pp_layout_problem problem = {b.rows.at, (uint32_t)b.rows.n, (uint32_t)plan->steps.n, first, needs,
                                     serial};
        status = pp_layout_plan(&problem, &in->layout);
        if (status == PPTO_OK && PP_PLAN_VERIFY && b.rows.n <= 512)
            status = pp_layout_verify(&problem, &in->layout, err);
        if (status == PPTO_OK) {
            pp_instance_watch(in, b.rows.at, b.rows.n, b.of_prim);
            pp_instance_place(in, b.rows.at, b.rows.n);
        }
        if (status == PPTO_OK) status = make_steps(in, first, needs, err);
    }
    pp_free(first);
    pp_free(needs);
    pp_free(b.of_prim);
    pp_vec_free(&b.rows);
    pp_vec_free(&b.uses);
    return status;
}

static ppto_status output_shapes(pp_instance *in, pp_error *err)
{
    pp_plan *plan = in->plan;
    size_t n = plan->flat.outputs.n;
    in->output_shape = pp_arena_alloc(&in->arena, (n + 1) * PPTO_MAX_RANK * sizeof *in->output_shape);
    in->output_bytes = pp_arena_alloc(&in->arena, (n + 1) * sizeof *in->output_bytes);
    if (!in->output_shape || !in->output_bytes) return PPTO_E_NOMEM;
    for (size_t i = 0; i < n; i++)
        PP_TRY(eval_shape(plan, in->names, plan->flat.outputs.at[i], in->output_shape + i * PPTO_MAX_RANK,
                          &in->output_bytes[i], err));
    return PPTO_OK;
}

static size_t key_size(const pp_plan *plan)
{
    size_t n = pp_sizes_names(pp_types_sizes(plan->types));
    for (size_t i = 0; i < plan->inputs.n; i++) n += pp_type_get(plan->types, plan->inputs.at[i].type)->rank;
    return n;
}

static void fill_key(const pp_plan *plan, ppto_array *const *inputs, int64_t *key)
{
    size_t at = pp_sizes_names(pp_types_sizes(plan->types));
    for (size_t i = 0; i < plan->inputs.n; i++)
        for (int d = 0; d < pp_type_get(plan->types, plan->inputs.at[i].type)->rank; d++)
            key[at++] = inputs[i]->stride[d];
}

static ppto_status make(pp_plan *plan, ppto_array *const *inputs, const int64_t *key, size_t n_key,
                        pp_instance **out, pp_error *err)
{
    pp_instance *in = pp_calloc(1, sizeof *in);
    if (!in) return PPTO_E_NOMEM;
    in->plan = plan;
    in->is_new = true;
    in->n_key = n_key;
    in->n_names = pp_sizes_names(pp_types_sizes(plan->types));
    in->key = pp_arena_alloc(&in->arena, (n_key + 1) * sizeof *in->key);
    in->groups = pp_arena_alloc(&in->arena, (plan->fused.groups.n + 1) * sizeof *in->groups);
    in->value = pp_arena_alloc(&in->arena, (plan->numbers.n + 1) * sizeof *in->value);
    ppto_status status = in->key && in->groups && in->value ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) {
        memcpy(in->key, key, n_key * sizeof *key);
        in->names = in->key;
    }
    if (status == PPTO_OK) status = pp_instance_check(plan, in->names, err);
    if (status == PPTO_OK) status = output_shapes(in, err);
    for (uint32_t g = 0; status == PPTO_OK && g < plan->fused.groups.n; g++)
        status = make_group(in, g, inputs, err);
    if (status == PPTO_OK) status = lay_out(in, err);
    if (status != PPTO_OK) {
        pp_instance_destroy(in);
        return status;
    }
    *out = in;
    return PPTO_OK;
}

void pp_instance_destroy(pp_instance *in)
{
    if (!in) return;
    pp_dispatch_destroy(in->dispatch);
    for (size_t g = 0; in->groups && g < in->plan->fused.groups.n; g++)
        if (in->groups[g].launch) in->groups[g].device->launch_destroy(in->groups[g].launch);
    pp_layout_free(&in->layout);
    pp_arena_free(&in->arena);
    pp_free(in);
}

/* ---- the idle list
 * -------------------------------------------------------------------------------------------------------------
 */

ppto_status pp_instance_get(pp_plan *plan, ppto_array *const *inputs, const int64_t *key, size_t n_key,
                            pp_instance **out, pp_error *err)
{
    pthread_mutex_lock(&plan->ctx->lock);
    pp_instance **at = &plan->idle, *found = NULL;
    while (*at && memcmp((*at)->key, key, n_key * sizeof *key) != 0) at = &(*at)->next;
    if (*at) {
        found = *at;
        *at = found->next;
        found->next = NULL;
    }
    pthread_mutex_unlock(&plan->ctx->lock);
    *out = found;
    return found ? PPTO_OK : make(plan, inputs, key, n_key, out, err);
}

void pp_instance_put(pp_instance *in)
{
    if (!in) return;
    pp_plan *plan = in->plan;
    pp_instance *dropped = NULL;
    in->is_new = false;
    pthread_mutex_lock(&plan->ctx->lock);
    in->next = plan->idle;
    plan->idle = in;
    pp_instance **at = &plan->idle;
    for (int i = 0; i < MAX_IDLE && *at; i++) at = &(*at)->next;
    dropped = *at;
    *at = NULL;
    pthread_mutex_unlock(&plan->ctx->lock);
    while (dropped) {
        pp_instance *next = dropped->next;
        pp_instance_destroy(dropped);
        dropped = next;
    }
}

size_t pp_instance_key_size(const pp_plan *plan)
{
    return key_size(plan);
}
ppto_status pp_instance_key(const pp_plan *plan, ppto_array *const *inputs, int64_t *key, pp_error *err)
{
    PP_TRY(pp_instance_sizes(plan, inputs, key, err));
    fill_key(plan, inputs, key);
    return PPTO_OK;
}
