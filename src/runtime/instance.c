/* SPDX-License-Identifier: Apache-2.0
 * Instances: a plan with its sizes and strides fixed. Making one evaluates every slot, asks the device how
 * each launch divides, lays the buffers out and builds the dispatch object; running one again allocates
 * nothing. */
#include <inttypes.h>
#include <string.h>

#include "base/checked.h"
#include "runtime/file_steps.h"
#include "runtime/instance_parts.h"

enum { MAX_IDLE = 8 };

/* ---- making ------------------------------------------------------------------------------------- */

ppto_status pp_instance_shape(const pp_plan *plan, const int64_t *names, uint32_t prim, int64_t *shape,
                              uint64_t *bytes, pp_error *err)
{
    const pp_type *type = pp_flat_type(&plan->flat, prim);
    int64_t n = (int64_t)ppto_dtype_size((ppto_dtype)type->dtype);
    for (uint32_t i = 0; i < type->rank; i++) {
        PP_TRY(pp_size_eval(pp_types_sizes(plan->types), type->dim[i], names, &shape[i]));
        if (shape[i] < 0) {
            return pp_fail(err, PPTO_E_SHAPE, "%s: axis %u would have the size %lld",
                           pp_plan_operator(plan, prim), i, (long long)shape[i]);
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
    PP_TRY(pp_instance_shape(plan, in->names, t->prim, shape, &bytes, err));
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

/* The loops that may run as machine code. */
static void log_code(const pp_instance *in, uint32_t g)
{
    const pp_log *log = &in->plan->ctx->log;
    const pp_device_class *device = in->groups[g].device;
    pp_code_count count = {0};
    pp_text text = {0};
    if (!log->fn || log->level < 3 || !device->count_code) return;
    device->count_code(in->groups[g].launch, &count, &text);
    if (count.loops > 0)
        pp_log_line(log, 3, "kernel %" PRIu32 ": %" PRIu32 " loop%s, %" PRIu32 " compiled\n%s", g,
                    count.loops, count.loops == 1 ? "" : "s", count.compiled, text.at ? text.at : "");
    pp_text_free(&text);
}

/* What stays inside a kernel has no buffer here, but a shape that is blamed on its operator. */
static ppto_status check_locals(const pp_instance *in, const pp_group *group, pp_error *err)
{
    int64_t shape[PPTO_MAX_RANK];
    uint64_t bytes;
    for (size_t i = 0; i < group->locals.n; i++)
        PP_TRY(pp_instance_shape(in->plan, in->names, group->locals.at[i].prim, shape, &bytes, err));
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
    PP_TRY(check_locals(in, &plan->fused.groups.at[g], err));
    for (size_t t = 0; t < l->tensors.n; t++)
        PP_TRY(make_tensor(in, inputs, &l->tensors.at[t], &group->tensors[t], err));
    PP_TRY(group->device->launch_create(plan->kernel[g]->kernel, &group->launch, err));
    pp_binding binding = {group->slots, group->tensors, group->args};
    PP_TRY(group->device->resize(group->launch, &binding, plan->ctx->plan_workers, &group->geometry, err));
    log_code(in, g);
    return PPTO_OK;
}

static ppto_status output_shapes(pp_instance *in, pp_error *err)
{
    pp_plan *plan = in->plan;
    size_t n = plan->flat.outputs.n;
    in->output_shape = pp_arena_alloc(&in->arena, (n + 1) * PPTO_MAX_RANK * sizeof *in->output_shape);
    in->output_bytes = pp_arena_alloc(&in->arena, (n + 1) * sizeof *in->output_bytes);
    if (!in->output_shape || !in->output_bytes) return PPTO_E_NOMEM;
    for (size_t i = 0; i < n; i++)
        PP_TRY(pp_instance_shape(plan, in->names, plan->flat.outputs.at[i],
                                 in->output_shape + i * PPTO_MAX_RANK, &in->output_bytes[i], err));
    return PPTO_OK;
}

/* The words of files are the end of the key. */
static ppto_status find_schedule(pp_instance *in)
{
    size_t n = in->plan->inputs.n + in->plan->flat.outputs.n;
    const int64_t *files = in->key + in->n_key - n;
    in->schedule = &in->plan->schedule;
    for (size_t i = 0; i < n && !in->files; i++)
        if (files[i] != 0) in->files = files;
    if (!in->files) return PPTO_OK;
    in->schedule = &in->own;
    return pp_schedule_make(in->plan, files, &in->own);
}

static ppto_status make(const ppto_program *p, ppto_array *const *inputs, const int64_t *key, size_t n_key,
                        pp_instance **out, pp_error *err)
{
    pp_plan *plan = p->plan;
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
        status = find_schedule(in);
    }
    if (status == PPTO_OK) status = pp_instance_check(p, in->names, err);
    if (status == PPTO_OK) status = output_shapes(in, err);
    for (uint32_t g = 0; status == PPTO_OK && g < plan->fused.groups.n; g++)
        status = make_group(in, g, inputs, err);
    if (status == PPTO_OK) status = pp_instance_lay_out(in, p, err);
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
    pp_schedule_free(&in->own);
    pp_file_steps_destroy(in);
    pp_arena_free(&in->arena);
    pp_free(in);
}

/* ---- the idle list ------------------------------------------------------------------------------ */

ppto_status pp_instance_get(const ppto_program *p, ppto_array *const *inputs, const int64_t *key,
                            size_t n_key, pp_instance **out, pp_error *err)
{
    pp_plan *plan = p->plan;
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
    return found ? PPTO_OK : make(p, inputs, key, n_key, out, err);
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
