/* SPDX-License-Identifier: Apache-2.0
 * The reference device: kernels, launches, and the walk over points and stages. See reference.h. */
#include "devices/reference/reference.h"

#include <string.h>

#include "base/checked.h"

/* ---- device ---------------------------------------------------------------------------------- */

/* What the machine's own arithmetic must do; all else in pp_scalar_eval is integers. */
static const struct probe {
    pp_op op;
    ppto_dtype dtype;
    uint64_t a, b, c, want;
} probes[] = {
    {PP_ADD, PPTO_F32, 0x4b800000, 0x3f800000, 0, 0x4b800000},
    {PP_SUB, PPTO_F32, 0x00800000, 0x00000001, 0, 0x007fffff},
    {PP_MUL, PPTO_F32, 0x00800000, 0x3f000000, 0, 0x00400000},
    {PP_DIV, PPTO_F32, 0x3f800000, 0x40400000, 0, 0x3eaaaaab},
    {PP_SQRT, PPTO_F32, 0x40000000, 0, 0, 0x3fb504f3},
    {PP_FMA, PPTO_F32, 0x3f800800, 0x3f800800, 0xbf801000, 0x33800000},
    {PP_FMA, PPTO_F64, 0x3ff0000000000001, 0x3ff0000000000001, 0xbff0000000000002, 0x3970000000000000},
    {PP_DIV, PPTO_F64, 0x3ff0000000000000, 0x4008000000000000, 0, 0x3fd5555555555555},
    {PP_SQRT, PPTO_F64, 0x4000000000000000, 0, 0, 0x3ff6a09e667f3bcd},
};

static ppto_status prove(pp_error *err)
{
    for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++) {
        const struct probe *p = &probes[i];
        if (pp_scalar_eval(p->op, p->dtype, p->dtype, p->a, p->b, p->c) == p->want) continue;
        return pp_fail(err, PPTO_E_DEVICE, "this machine's %s of %s is not exact",
                       pp_scalar_find(p->op)->name, ppto_dtype_name(p->dtype));
    }
    return PPTO_OK;
}

static ppto_status reference_open(const pp_device_options *options, pp_device **out, pp_error *err)
{
    *out = NULL;
    (void)options; /* nothing to choose */
    pp_fenv host;
    pp_fenv_enter(&host);
    ppto_status status = prove(err);
    pp_fenv_leave(&host);
    PP_TRY(status);
    pp_device *device = pp_calloc(1, sizeof *device);
    if (device == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    device->open = true;
    *out = device;
    return PPTO_OK;
}

static void reference_close(pp_device *device)
{
    pp_free(device);
}

static const char *reference_describe(const pp_device *device)
{
    (void)device;
    return "reference evaluator, one element at a time";
}

/* ---- kernels --------------------------------------------------------------------------------- */

static void kernel_destroy(pp_kernel *kernel)
{
    if (kernel == NULL) return;
    for (uint32_t i = 0; i < PP_MOST_PARTS; i++) kernel_destroy(kernel->part[i]);
    pp_free(kernel->needed);
    pp_free(kernel->order);
    pp_free(kernel);
}

static uint32_t last_input(const pp_fold *fold)
{
    uint32_t last = 0;
    for (unsigned i = 0; i < fold->n_inputs; i++) {
        if (fold->input[i] > last) last = fold->input[i];
    }
    return last;
}

/* An insertion sort of a stage's folds: what a SCANNED reads lies before it, hence so do the inputs of its
 * fold. */
static void order_folds(const pp_program *p, const pp_stage *stage, uint32_t *order)
{
    for (uint32_t i = 0; i < stage->n_folds; i++) {
        uint32_t fold = stage->first_fold + i, at = fold;
        for (; at > stage->first_fold && last_input(&p->folds[order[at - 1]]) > last_input(&p->folds[fold]);
             at--) {
            order[at] = order[at - 1];
        }
        order[at] = fold;
    }
}

static void find_needed(const pp_program *p, const pp_stage *stage, uint32_t fold, bool *needed)
{
    for (unsigned i = 0; i < p->folds[fold].n_inputs; i++) needed[p->folds[fold].input[i]] = true;
    pp_program_need(p, stage->first, stage->count, needed);
}

static size_t deepest_call(const pp_program *p)
{
    size_t words = 0;
    for (uint32_t i = 0; i < p->n_callees; i++) {
        size_t own = pp_ref_function_words(p->callees[i]);
        if (own > words) words = own;
    }
    for (uint32_t i = 0; i < p->n_folds; i++) {
        const pp_function *functions[] = {p->folds[i].lift, p->folds[i].step, p->folds[i].join,
                                          p->folds[i].finish};
        for (int k = 0; k < 4; k++) {
            size_t own = pp_ref_function_words(functions[k]);
            if (own > words) words = own;
        }
    }
    return words;
}

static ppto_status reference_compile(pp_device *device, const struct pp_program *program, pp_kernel **out,
                                     pp_error *err)
{
    size_t cells;
    *out = NULL;
    (void)device;
    PP_TRY(pp_program_verify(program, err));
    pp_kernel *kernel = pp_calloc(1, sizeof *kernel);
    if (kernel == NULL || !pp_mul_size(program->n_folds, program->n_code, &cells)) goto no_memory;
    kernel->program = program;
    kernel->function_words = deepest_call(program);
    kernel->needed = pp_calloc(cells, sizeof(bool));
    kernel->order = pp_calloc(program->n_folds, sizeof(uint32_t));
    if (kernel->needed == NULL || kernel->order == NULL) goto no_memory;
    for (uint32_t s = 0; s < program->n_stages; s++) {
        const pp_stage *stage = &program->stages[s];
        order_folds(program, stage, kernel->order);
        for (uint32_t i = 0; i < stage->n_folds; i++) {
            uint32_t fold = stage->first_fold + i;
            find_needed(program, stage, fold, kernel->needed + (size_t)fold * program->n_code);
        }
    }
    *out = kernel;
    for (uint32_t i = 0; i < program->n_parts; i++) {
        ppto_status status = reference_compile(device, program->parts[i].program, &kernel->part[i], err);
        if (status == PPTO_OK) continue;
        kernel_destroy(kernel);
        *out = NULL;
        return status;
    }
    return PPTO_OK;

no_memory:
    kernel_destroy(kernel);
    return pp_fail(err, PPTO_E_NOMEM, "out of memory");
}

/* ---- launches -------------------------------------------------------------------------------- */

static void launch_destroy(pp_launch *launch)
{
    if (launch == NULL) return;
    pp_chain_destroy(launch->chain);
    pp_free(launch->slots);
    pp_free(launch->args);
    pp_free(launch->tensors);
    pp_free(launch->scan_at);
    pp_free(launch);
}

static ppto_status launch_create(const pp_kernel *kernel, pp_launch **out, pp_error *err)
{
    const pp_program *p = kernel->program;
    *out = NULL;
    pp_launch *launch = pp_calloc(1, sizeof *launch);
    if (launch == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    launch->kernel = kernel;
    launch->slots = pp_calloc(p->n_slots, sizeof *launch->slots);
    launch->args = pp_calloc(p->n_args, sizeof *launch->args);
    launch->tensors = pp_calloc(p->n_tensors, sizeof *launch->tensors);
    launch->scan_at = pp_calloc(p->n_folds, sizeof *launch->scan_at);
    if (!launch->slots || !launch->args || !launch->tensors || !launch->scan_at) {
        launch_destroy(launch);
        return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    }
    ppto_status status = PPTO_OK;
    if (p->frame == PP_FRAME_CHAIN)
        status = pp_chain_create(&pp_reference_device, p, kernel->part, &launch->chain, err);
    if (status != PPTO_OK) {
        launch_destroy(launch);
        return status;
    }
    *out = launch;
    return PPTO_OK;
}

static bool has_role(const pp_axis *axis, uint32_t roles)
{
    return (roles >> axis->role & 1) != 0;
}

static int64_t axis_size(const pp_launch *launch, const pp_axis *axis)
{
    int64_t size = launch->slots[axis->size];
    return size > 0 ? size : 0;
}

static bool count_points(const pp_launch *launch, uint32_t roles, int64_t *out)
{
    const pp_program *p = launch->kernel->program;
    bool fits = true;
    *out = 1;
    for (uint32_t i = 0; i < p->n_axes; i++) {
        if (!has_role(&p->axes[i], roles)) continue;
        int64_t size = axis_size(launch, &p->axes[i]);
        if (size == 0) return *out = 0, true;
        fits = fits && pp_mul_i64(*out, size, out);
    }
    return fits;
}

void pp_ref_point(pp_ref_run *run, uint32_t roles, int64_t index)
{
    for (uint32_t i = run->program->n_axes; i-- > 0;) {
        const pp_axis *axis = &run->program->axes[i];
        if (!has_role(axis, roles)) continue;
        int64_t size = axis_size(run->launch, axis);
        run->coord[i] = index % size;
        index /= size;
    }
}

static void take_binding(pp_launch *launch, const pp_binding *binding)
{
    const pp_program *p = launch->kernel->program;
    memcpy(launch->slots, binding->slots, p->n_slots * sizeof *launch->slots);
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        const pp_tensor_ref *from = &binding->tensors[i];
        pp_ref_tensor *to = &launch->tensors[i];
        to->data = from->data;
        for (uint32_t d = 0; d < p->tensors[i].rank; d++) {
            to->shape[d] = from->shape[d];
            to->stride[d] = from->stride[d];
        }
    }
}

/* Adds count * inner words to the layout. */
static bool place(size_t *words, size_t count, size_t inner, size_t *at)
{
    size_t n;
    *at = *words;
    return pp_mul_size(count, inner, &n) && pp_add_size(*words, n, words);
}

static bool lay_out(pp_launch *launch)
{
    const pp_program *p = launch->kernel->program;
    pp_ref_layout *at = &launch->at;
    size_t inner = p->frame == PP_FRAME_CONTRACT ? 1 : (size_t)launch->inner, words = 0;
    bool fits = place(&words, p->n_code, 1, &at->value);
    fits = fits && place(&words, launch->kernel->function_words, 1, &at->stack);
    fits = fits && place(&words, p->n_folds > 0 ? PP_REF_STATES : 0, inner, &at->input);
    fits = fits && place(&words, p->n_buffers, inner, &at->buffer);
    at->scanned = words;
    for (uint32_t i = 0; i < p->n_folds && fits; i++) {
        fits = place(&words, p->folds[i].law == PP_LAW_SCAN ? p->folds[i].n_states : 0, inner,
                     &launch->scan_at[i]);
        launch->scan_at[i] -= at->scanned;
    }
    fits = fits && place(&words, p->n_folds, PP_REF_STATES, &at->result);
    fits = fits && place(&words, PP_LANES, PP_REF_STATES, &at->lane);
    fits = fits && place(&words, inner / PP_ROW_BLOCK + 1, PP_REF_STATES, &at->block);
    at->words = words;
    return fits;
}

static ppto_status reference_resize(pp_launch *launch, const pp_binding *binding, uint32_t workers,
                                    pp_geometry *out, pp_error *err)
{
    bool fits;
    memset(out, 0, sizeof *out);
    if (launch->chain != NULL) {
        PP_TRY(pp_chain_shape(launch->chain, binding, err));
        return pp_chain_resize(launch->chain, binding, workers, out, &fits, err); /* a phase each: they fit */
    }
    take_binding(launch, binding);
    fits = count_points(launch, ~PP_REF_INNER, &launch->outer) &&
           count_points(launch, PP_REF_INNER, &launch->inner);
    fits = fits && lay_out(launch) && pp_mul_size(launch->at.words, sizeof(uint64_t), &out->scratch_bytes);
    if (!fits) return pp_fail(err, PPTO_E_SIZE, "the kernel's sizes overflow 64 bits");
    out->phases = 1;
    out->tasks[0] = 1;
    out->task_ns =
        20.0 * (double)launch->outer * (double)launch->inner * (double)launch->kernel->program->n_code;
    return PPTO_OK;
}

static ppto_status reference_bind(pp_launch *launch, const pp_binding *binding, void *shared)
{
    if (launch->chain != NULL) return pp_chain_bind(launch->chain, binding, shared);
    take_binding(launch, binding);
    for (uint32_t i = 0; i < launch->kernel->program->n_args; i++) launch->args[i] = binding->args[i];
    return PPTO_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

static void run_folds(pp_ref_run *run, const pp_stage *stage)
{
    const pp_kernel *kernel = run->launch->kernel;
    for (uint32_t i = 0; i < stage->n_folds; i++) {
        uint32_t index = kernel->order[stage->first_fold + i];
        const pp_fold *fold = &run->program->folds[index];
        for (int64_t k = 0; k < run->launch->inner; k++) {
            pp_ref_point(run, PP_REF_INNER, k);
            run->k = k;
            pp_ref_code(run, stage->first, stage->count,
                        kernel->needed + (size_t)index * run->program->n_code);
            for (unsigned n = 0; n < fold->n_inputs; n++) {
                run->input[n * run->launch->inner + k] = run->value[fold->input[n]];
            }
        }
        pp_ref_fold(run, index);
    }
}

static void run_stage(pp_ref_run *run, const pp_stage *stage)
{
    run->k = 0;
    if (!stage->inner) {
        pp_ref_code(run, stage->first, stage->count, NULL);
        return;
    }
    run_folds(run, stage);
    for (int64_t k = 0; k < run->launch->inner; k++) {
        pp_ref_point(run, PP_REF_INNER, k);
        run->k = k;
        pp_ref_code(run, stage->first, stage->count, NULL);
    }
}

static void run_points(pp_ref_run *run)
{
    for (int64_t point = 0; point < run->launch->outer; point++) {
        pp_ref_point(run, ~PP_REF_INNER, point);
        for (uint32_t s = 0; s < run->program->n_stages; s++) run_stage(run, &run->program->stages[s]);
    }
}

static ppto_status outcome(const pp_ref_run *run, pp_error *err, int64_t *position)
{
    char text[512];
    if (run->failed != NULL) {
        pp_ref_check_text(run, text, sizeof text);
        *position = run->failed_at;
        return pp_fail(err, PPTO_E_VALUE, "%s", text);
    }
    if (run->out_of_bounds) return pp_fail(err, PPTO_E_INTERNAL, "an access of a kernel is out of bounds");
    return PPTO_OK;
}

static ppto_status reference_run(pp_launch *launch, uint32_t phase, uint32_t task, void *scratch,
                                 pp_error *err, int64_t *position)
{
    if (launch->chain != NULL) return pp_chain_run(launch->chain, phase, task, scratch, err, position);
    uint64_t *words = scratch;
    const pp_ref_layout *at = &launch->at;
    pp_ref_run run = {.launch = launch,
                      .program = launch->kernel->program,
                      .value = words + at->value,
                      .stack = words + at->stack,
                      .input = words + at->input,
                      .buffer = words + at->buffer,
                      .scanned = words + at->scanned,
                      .result = words + at->result,
                      .lane = words + at->lane,
                      .block = words + at->block};
    (void)phase, (void)task; /* one of each */
    *position = 0;
    pp_fenv host;
    pp_fenv_enter(&host);
    run_points(&run);
    pp_fenv_leave(&host);
    return outcome(&run, err, position);
}

const pp_device_class pp_reference_device = {
    .name = "reference",
    .open = reference_open,
    .close = reference_close,
    .describe = reference_describe,
    .compile = reference_compile,
    .kernel_destroy = kernel_destroy,
    .launch_create = launch_create,
    .launch_destroy = launch_destroy,
    .resize = reference_resize,
    .bind = reference_bind,
    .run = reference_run,
};
