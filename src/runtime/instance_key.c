/* SPDX-License-Identifier: Apache-2.0
 * What fixes an instance: the arrays bound must agree with the declared inputs, which gives the named sizes
 * their values; their strides, and which of them stay in files, do the rest. */
#include <stdio.h>

#include "runtime/runtime.h"

static ppto_status mismatch(const ppto_program *p, const pp_plan_input *input, const ppto_array *a,
                            pp_error *err, ppto_status code, const char *why)
{
    const pp_plan *plan = p->plan;
    pp_text want = {0}, have = {0};
    pp_type_print(plan->types, pp_type_get(plan->types, input->type), &want);
    pp_text_add(&have, "%s[", ppto_dtype_name(a->dtype));
    for (int i = 0; i < a->rank; i++) pp_text_add(&have, "%s%lld", i ? ", " : "", (long long)a->shape[i]);
    pp_text_add(&have, "]");
    const pp_origin *origin = input->prim != PP_NONE ? pp_program_origin(p, input->prim) : NULL;
    bool known = origin && origin->site.file;
    char place[PP_SITE_ROOM] = "";
    if (known) pp_site_text(&origin->site, place, sizeof place);
    pp_fail(err, code, "input %s is %s, but %s is bound to it%s%s%s", input->name, want.at ? want.at : "?",
            have.at ? have.at : "?", why, known ? "\n  declared at " : "", place);
    pp_text_free(&want);
    pp_text_free(&have);
    return code;
}

/* A named size takes the first value it meets. */
static ppto_status check_name(const ppto_program *p, const pp_plan_input *input, const ppto_array *a,
                              size_t name, int64_t size, int64_t *names, pp_error *err)
{
    const pp_plan *plan = p->plan;
    char why[160];
    if (names[name] < 0) names[name] = size;
    if (names[name] == size) return PPTO_OK;
    snprintf(why, sizeof why, ": %s is %lld elsewhere", pp_sizes_name_at(pp_types_sizes(plan->types), name),
             (long long)names[name]);
    return mismatch(p, input, a, err, PPTO_E_SHAPE, why);
}

static ppto_status check_input(const ppto_program *p, const pp_plan_input *input, const ppto_array *a,
                               int64_t *names, pp_error *err)
{
    const pp_plan *plan = p->plan;
    const pp_type *type = pp_type_get(plan->types, input->type);
    pp_sizes *sizes = pp_types_sizes(plan->types);
    if (!a) return pp_fail(err, PPTO_E_NAME, "input %s is not bound", input->name);
    if (type->weak && a->rank == 0) return PPTO_OK;
    if (a->rank != type->rank) return mismatch(p, input, a, err, PPTO_E_SHAPE, "");
    if (a->dtype != type->dtype) return mismatch(p, input, a, err, PPTO_E_DTYPE, "");
    for (int i = 0; i < a->rank; i++) {
        int64_t known;
        size_t name;
        if (pp_size_known(sizes, type->dim[i], &known)) {
            if (known != a->shape[i]) return mismatch(p, input, a, err, PPTO_E_SHAPE, "");
        } else if (pp_size_as_name(sizes, type->dim[i], &name)) {
            PP_TRY(check_name(p, input, a, name, a->shape[i], names, err));
        }
    }
    return PPTO_OK;
}

ppto_status pp_instance_sizes(const ppto_program *p, ppto_array *const *inputs, int64_t *names, pp_error *err)
{
    const pp_plan *plan = p->plan;
    size_t n = pp_sizes_names(pp_types_sizes(plan->types));
    for (size_t i = 0; i < n; i++) names[i] = -1;
    for (size_t i = 0; i < plan->inputs.n; i++)
        PP_TRY(check_input(p, &plan->inputs.at[i], inputs[i], names, err));
    for (size_t i = 0; i < n; i++)
        if (names[i] < 0) names[i] = 0; /* a name that nothing of this plan is computed from */
    return PPTO_OK;
}

size_t pp_instance_key_size(const pp_plan *plan)
{
    size_t n = pp_sizes_names(pp_types_sizes(plan->types));
    for (size_t i = 0; i < plan->inputs.n; i++) n += pp_type_get(plan->types, plan->inputs.at[i].type)->rank;
    return n + plan->inputs.n + plan->flat.outputs.n;
}

bool pp_input_is_number(const pp_plan *plan, size_t i)
{
    return pp_type_get(plan->types, plan->inputs.at[i].type)->weak;
}

/* Do steps store it? What flows to a reader is written when all is done, one output after the other, as one
 * reader may read several so; and what cannot be written at offsets. */
static bool is_stored(const ppto_program *p, size_t i)
{
    const char *path = p->sinks[i];
    return path && p->plan->fused.stored_in[p->plan->flat.outputs.at[i]] != PP_NONE &&
           pp_files_by_pieces(path) && !pp_files_flow(path);
}

/* Behind sizes and strides. */
static void add_files(const ppto_program *p, ppto_array *const *inputs, int64_t *words)
{
    const pp_plan *plan = p->plan;
    size_t n = plan->inputs.n;
    for (size_t i = 0; i < n; i++) {
        words[i] = 0;
        if (!inputs[i]->file || pp_input_is_number(plan, i)) continue;
        words[i] = p->file_at[i] != 0 ? p->file_at[i] : pp_file_word(0, 0);
    }
    for (size_t i = 0; i < plan->flat.outputs.n; i++) {
        words[n + i] = 0;
        if (!is_stored(p, i)) continue;
        words[n + i] = p->file_at[n + i] != 0 ? p->file_at[n + i] : pp_file_word(0, 0);
    }
}

ppto_status pp_instance_key(const ppto_program *p, ppto_array *const *inputs, int64_t *key, pp_error *err)
{
    const pp_plan *plan = p->plan;
    PP_TRY(pp_instance_sizes(p, inputs, key, err));
    size_t at = pp_sizes_names(pp_types_sizes(plan->types));
    for (size_t i = 0; i < plan->inputs.n; i++)
        for (int d = 0; d < pp_type_get(plan->types, plan->inputs.at[i].type)->rank; d++)
            key[at++] = inputs[i]->stride[d];
    add_files(p, inputs, key + at);
    return PPTO_OK;
}
