/* SPDX-License-Identifier: Apache-2.0
 * The sizes behind a report: what a run with these bindings would plan, without running it. Where a named
 * size is open, formulas over the names stand for the numbers: stored values as if each had memory of its
 * own, scratch left out. */
#include <string.h>

#include "base/checked.h"
#include "runtime/report.h"

/* Sizes that bound inputs and declared types give; names without a value stay -1. */
static bool read_names(pp_report_sizes *s)
{
    const pp_plan *plan = s->program->plan;
    pp_sizes *sizes = pp_types_sizes(plan->types);
    size_t n = pp_sizes_names(sizes), name;
    bool known = true;
    for (size_t i = 0; i < n; i++) s->names[i] = -1;
    for (size_t i = 0; i < plan->inputs.n; i++) {
        const ppto_array *a = s->program->inputs[i];
        const pp_type *type = pp_type_get(plan->types, plan->inputs.at[i].type);
        for (uint32_t d = 0; a && a->rank == type->rank && d < type->rank; d++)
            if (pp_size_as_name(sizes, type->dim[d], &name)) s->names[name] = a->shape[d];
    }
    for (size_t i = 0; i < plan->inputs.n; i++) {
        const pp_type *type = pp_type_get(plan->types, plan->inputs.at[i].type);
        for (uint32_t d = 0; d < type->rank; d++)
            if (pp_size_as_name(sizes, type->dim[d], &name) && s->names[name] < 0) known = false;
    }
    for (size_t i = 0; known && i < n; i++)
        if (s->names[i] < 0) s->names[i] = 0;
    return known;
}

/* Input i as a row-major array without data. */
static ppto_status make_absent(pp_report_sizes *s, size_t i, pp_error *err)
{
    const pp_plan *plan = s->program->plan;
    const pp_type *type = pp_type_get(plan->types, plan->inputs.at[i].type);
    ppto_array *a = &s->absent[i];
    *a = (ppto_array){
        .ctx = plan->ctx, .rank = type->rank, .dtype = (ppto_dtype)type->dtype, .owned = !type->weak};
    atomic_init(&a->refs, 1); /* those of a plan by pieces come and go */
    int64_t bytes = (int64_t)ppto_dtype_size(a->dtype);
    for (int d = type->rank; d-- > 0;) {
        PP_TRY(pp_size_eval(pp_types_sizes(plan->types), type->dim[d], s->names, &a->shape[d]));
        a->stride[d] = bytes;
        if (!pp_mul_i64(bytes, a->shape[d] > 0 ? a->shape[d] : 1, &bytes))
            return pp_fail(err, PPTO_E_SIZE, "the size of input %s overflows 64 bits",
                           plan->inputs.at[i].name);
    }
    a->bytes = a->owned ? (size_t)bytes : 0;
    for (int d = 0; d < a->rank; d++)
        if (a->shape[d] == 0) a->bytes = 0;
    s->inputs[i] = a;
    return PPTO_OK;
}

static ppto_status choose_inputs(pp_report_sizes *s, pp_error *err)
{
    const pp_plan *plan = s->program->plan;
    for (size_t i = 0; i < plan->inputs.n; i++) {
        ppto_array *bound = s->program->inputs[i];
        s->packed[i] = bound && plan->contiguous[i] && !pp_array_contiguous(bound);
        if (bound && !s->packed[i])
            s->inputs[i] = bound;
        else
            PP_TRY(make_absent(s, i, err));
    }
    return PPTO_OK;
}

static uint64_t input_bytes(const pp_report_sizes *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->program->plan->inputs.n; i++) {
        bool again = false;
        for (size_t j = 0; j < i; j++) again |= s->inputs[j] == s->inputs[i];
        if (s->inputs[i]->owned && !again) sum += s->inputs[i]->bytes;
    }
    return sum;
}

static bool earlier_output(const pp_plan *plan, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (plan->flat.outputs.at[j] == plan->flat.outputs.at[i]) return true;
    return false;
}

static void predict(pp_report_sizes *s)
{
    const pp_plan *plan = s->program->plan;
    uint64_t fixed = input_bytes(s) + s->instance->scratch_bytes;
    for (size_t i = 0; i < plan->flat.outputs.n; i++) {
        const ppto_array *given = s->program->outputs[i];
        if ((given || !earlier_output(plan, i)) && (!given || given->owned))
            fixed += s->instance->output_bytes[i];
    }
    s->peak_bytes = fixed + s->instance->layout.bytes;
    s->lower_bytes = fixed + s->instance->layout.lower_bound;
    s->serial_bytes = fixed + s->instance->layout.serial_bound;
}

/* ---- formulas
 * -----------------------------------------------------------------------------------------------------------
 */

static pp_size bytes_of(pp_report_sizes *s, const pp_type *type)
{
    const pp_sizes *from = pp_types_sizes(s->program->plan->types);
    pp_size n = pp_size_const(s->formulas, (int64_t)ppto_dtype_size((ppto_dtype)type->dtype));
    for (uint32_t d = 0; d < type->rank; d++)
        n = pp_size_mul(s->formulas, n, pp_size_import(s->formulas, from, type->dim[d]));
    return n;
}

static void make_formulas(pp_report_sizes *s)
{
    const pp_plan *plan = s->program->plan;
    pp_size fixed = PP_SIZE_0, stored = PP_SIZE_0, largest = PP_SIZE_0;
    for (size_t i = 0; i < plan->inputs.n; i++) {
        const pp_type *type = pp_type_get(plan->types, plan->inputs.at[i].type);
        if (!type->weak) fixed = pp_size_add(s->formulas, fixed, bytes_of(s, type));
    }
    for (size_t i = 0; i < plan->flat.outputs.n; i++)
        if (!earlier_output(plan, i))
            fixed = pp_size_add(s->formulas, fixed,
                                bytes_of(s, pp_flat_type(&plan->flat, plan->flat.outputs.at[i])));
    for (size_t g = 0; g < plan->fused.groups.n; g++) {
        const pp_group *group = &plan->fused.groups.at[g];
        for (size_t r = 0; r < group->roots.n; r++) {
            uint32_t prim = group->roots.at[r].prim;
            if (plan->fused.result[prim]) continue;
            pp_size bytes = bytes_of(s, pp_flat_type(&plan->flat, prim));
            stored = pp_size_add(s->formulas, stored, bytes);
            largest = pp_size_max(s->formulas, largest, bytes);
        }
    }
    s->peak = pp_size_add(s->formulas, fixed, stored);
    s->lower = s->serial = pp_size_add(s->formulas, fixed, largest);
}

/* ---- both
 * -----------------------------------------------------------------------------------------------------------------
 */

static ppto_status read(pp_report_sizes *s, pp_error *err)
{
    pp_plan *plan = s->program->plan;
    size_t n = plan->inputs.n + 1, n_key = pp_instance_key_size(plan);
    PP_TRY(pp_sizes_create(&s->formulas));
    s->names = pp_calloc(pp_sizes_names(pp_types_sizes(plan->types)) + 1, sizeof *s->names);
    s->absent = pp_calloc(n, sizeof *s->absent);
    s->inputs = pp_calloc(n, sizeof *s->inputs);
    s->packed = pp_calloc(n, sizeof *s->packed);
    if (!s->names || !s->absent || !s->inputs || !s->packed) return PPTO_E_NOMEM;
    s->known = read_names(s);
    if (!s->known) {
        make_formulas(s);
        return PPTO_OK;
    }
    PP_TRY(choose_inputs(s, err));
    int64_t *key = pp_calloc(n_key + 1, sizeof *key);
    if (!key) return PPTO_E_NOMEM;
    ppto_status status = pp_instance_key(s->program, s->inputs, key, err);
    if (status == PPTO_OK) status = pp_instance_get(s->program, s->inputs, key, n_key, &s->instance, err);
    pp_free(key);
    if (status == PPTO_OK) predict(s);
    return status;
}

ppto_status pp_report_sizes_read(const ppto_program *program, pp_report_sizes *s, pp_error *err)
{
    *s = (pp_report_sizes){.program = program};
    ppto_status status = read(s, err);
    return status == PPTO_OK ? status : pp_fail(err, status, "explain: %s", ppto_status_text(status));
}

void pp_report_sizes_free(pp_report_sizes *s)
{
    pp_instance_put(s->instance);
    pp_sizes_destroy(s->formulas);
    pp_free(s->names);
    pp_free(s->absent);
    pp_free(s->inputs);
    pp_free(s->packed);
}
