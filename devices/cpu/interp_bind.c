/* SPDX-License-Identifier: Apache-2.0
 * Launches: created once, sized when sizes change, bound before each run. A resize with the sizes of the last
 * one compares a key (slots, shapes, strides) and returns; binding copies pointers and args and allocates
 * nothing. */
#include <string.h>

#include "base/checked.h"
#include "devices/cpu/interp_alias.h"

static ppto_status no_memory(pp_error *err)
{
    return pp_fail(err, PPTO_E_NOMEM, "out of memory");
}

ppto_status pp_interp_launch_create(const pp_kernel *kernel, pp_launch **out, pp_error *err)
{
    const pp_program *p = kernel->plain.program;
    *out = NULL;
    pp_launch *launch = pp_calloc(1, sizeof *launch);
    if (launch == NULL) return no_memory(err);
    launch->kernel = kernel;
    launch->n_key = p->n_slots;
    for (uint32_t i = 0; i < p->n_tensors; i++) launch->n_key += 2u * p->tensors[i].rank;
    launch->key = pp_calloc(launch->n_key + 1, sizeof *launch->key);
    launch->args = pp_calloc(p->n_args + 1u, sizeof *launch->args);
    ppto_status status = launch->key != NULL && launch->args != NULL ? PPTO_OK : no_memory(err);
    if (status == PPTO_OK && p->frame == PP_FRAME_CHAIN) status = pp_interp_chain_create(launch, err);
    if (status != PPTO_OK) {
        pp_interp_launch_destroy(launch);
        return status;
    }
    *out = launch;
    return PPTO_OK;
}

void pp_interp_launch_destroy(pp_launch *launch)
{
    if (launch == NULL) return;
    pp_interp_chain_destroy(launch->chained);
    pp_interp_machines_drop(launch);
    pp_arena_free(&launch->arena);
    pp_free(launch->key);
    pp_free(launch->args);
    pp_free(launch);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Takes over slots, shapes and strides; returns whether they are those of the last resize. */
static bool take_key(pp_launch *launch, const pp_binding *binding)
{
    const pp_program *p = launch->kernel->plain.program;
    int64_t *key = launch->key;
    bool same = memcmp(key, binding->slots, p->n_slots * sizeof *key) == 0;
    memcpy(key, binding->slots, p->n_slots * sizeof *key);
    key += p->n_slots;
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        const pp_tensor_ref *ref = &binding->tensors[i];
        for (uint32_t d = 0; d < p->tensors[i].rank; d++, key += 2) {
            same = same && key[0] == ref->shape[d] && key[1] == ref->stride[d];
            key[0] = ref->shape[d];
            key[1] = ref->stride[d];
        }
    }
    return same;
}

static ppto_status size_as(pp_launch *launch, const pp_variant *variant, const pp_binding *binding,
                           uint32_t workers, bool *again, pp_error *err)
{
    pp_interp_machines_drop(launch);
    pp_arena_free(&launch->arena);
    launch->bodies = NULL;
    launch->contract = NULL;
    launch->variant = variant;
    launch->slots = launch->key;
    PP_TRY(pp_interp_shape(launch, binding, err));
    PP_TRY(pp_interp_layout(launch, workers, again, err));
    if (!launch->empty) return PPTO_OK;
    launch->geometry = (pp_geometry){.phases = 1, .tasks = {1}, .task_ns = 50};
    return PPTO_OK;
}

ppto_status pp_interp_resize(pp_launch *launch, const pp_binding *binding, uint32_t workers, pp_geometry *out,
                             pp_error *err)
{
    const bool same = take_key(launch, binding) && launch->sized && launch->workers == workers;
    bool again = false;
    if (!same) {
        launch->sized = false;
        launch->workers = workers;
        launch->geometry = (pp_geometry){0};
        if (launch->chained != NULL) {
            PP_TRY(pp_interp_chain_resize(launch, binding, workers, err));
        } else {
            PP_TRY(size_as(launch, &launch->kernel->plain, binding, workers, &again, err));
            if (again) PP_TRY(size_as(launch, &launch->kernel->bare, binding, workers, &again, err));
            pp_interp_machines_ask(launch);
        }
        launch->sized = true;
    }
    *out = launch->geometry;
    return PPTO_OK;
}

/* ---- pointers -------------------------------------------------------------------------------- */

ppto_status pp_interp_bind(pp_launch *launch, const pp_binding *binding, void *shared)
{
    if (!launch->sized) return PPTO_E_INTERNAL;
    if (launch->chained != NULL) return pp_interp_chain_bind(launch, binding, shared);
    const pp_program *p = launch->kernel->plain.program;
    for (uint32_t i = 0; i < p->n_tensors; i++) launch->tensors[i].data = binding->tensors[i].data;
    if (p->n_args > 0) memcpy(launch->args, binding->args, p->n_args * sizeof *launch->args);
    launch->shared = shared;
    pp_interp_find_aliases(launch);
    pp_interp_count_start(launch);
    return PPTO_OK;
}
