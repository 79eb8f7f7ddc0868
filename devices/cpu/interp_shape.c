/* SPDX-License-Identifier: Apache-2.0
 * What slots and strides say about a program: its axes, linear forms, accesses and tensors.
 *
 * An access has one affine index per dimension of its tensor; with the strides they add up to one linear form
 * in bytes. Axes of size 1 fall away. Two neighbours of one role become one axis when in every form the outer
 * one steps exactly over the inner one, coef(outer) = coef(inner) * size(inner): most launches end with one
 * or two axes, whatever the rank. Dimensions indexed by values keep the form of their index, so that the
 * value can be held against the extent. */
#include <string.h>

#include "base/checked.h"
#include "devices/cpu/interp.h"
#include "kernel/walk.h"

typedef struct shaper {
    pp_launch *launch;
    const pp_program *program;
    const pp_binding *binding;
    int64_t size[PP_AXES];  /* of the program's axes */
    PP_VEC(pp_lin *) forms; /* over the program's axes until collapsed */
    bool overflow;
} shaper;

static pp_lin *new_form(shaper *s)
{
    pp_lin *lin =
        pp_arena_alloc(&s->launch->arena, sizeof *lin + (s->program->n_axes + 1u) * sizeof lin->coef[0]);
    if (lin == NULL || pp_vec_push(&s->forms, lin) != PPTO_OK) return NULL;
    return lin;
}

/* lin += factor * affine. */
static void add_affine(shaper *s, pp_lin *lin, uint32_t affine, int64_t factor)
{
    const pp_affine *a = &s->program->affines[affine];
    const int64_t *slots = s->launch->slots;
    int64_t product;
    for (uint32_t i = 0; i < a->n_terms; i++)
        if (s->size[s->program->terms[a->first_term + i].axis] == 0) return; /* never read: it need not fit */
    if (!pp_mul_i64(slots[a->base], factor, &product) || !pp_add_i64(lin->base, product, &lin->base))
        s->overflow = true;
    for (uint32_t i = 0; i < a->n_terms; i++) {
        const pp_term *term = &s->program->terms[a->first_term + i];
        int64_t *coef = &lin->coef[term->axis];
        if (s->size[term->axis] <= 1) continue; /* never stepped along */
        if (!pp_mul_i64(slots[term->coef], factor, &product) || !pp_add_i64(*coef, product, coef))
            s->overflow = true;
    }
}

/* The form of an affine in elements, made on first use. */
static ppto_status need_form(shaper *s, uint32_t affine)
{
    pp_lin **at = &s->launch->affine[affine];
    if (*at != NULL) return PPTO_OK;
    *at = new_form(s);
    if (*at == NULL) return PPTO_E_NOMEM;
    add_affine(s, *at, affine, 1);
    return PPTO_OK;
}

static ppto_status need_guards(shaper *s, uint32_t first, uint32_t n)
{
    for (uint32_t i = first; i < first + n; i++) {
        const pp_guard *guard = &s->program->guards[i];
        PP_TRY(need_form(s, guard->affine));
        s->launch->guards[i] =
            (pp_guard_at){s->launch->affine[guard->affine], s->launch->slots[guard->lo],
                          s->launch->slots[guard->hi], s->program->affines[guard->affine].value};
    }
    return PPTO_OK;
}

static ppto_status need_gathers(shaper *s, pp_access_at *at, const pp_access *access,
                                const pp_tensor_ref *ref)
{
    const uint32_t rank = s->program->tensors[access->tensor].rank;
    pp_gather_at *gathers = pp_arena_alloc(&s->launch->arena, (at->n_gathers + 1u) * sizeof *gathers);
    if (gathers == NULL) return PPTO_E_NOMEM;
    at->gathers = gathers;
    for (uint32_t d = 0; d < rank; d++) {
        const uint32_t affine = access->first_affine + d, value = s->program->affines[affine].value;
        if (value == PP_NONE) continue;
        PP_TRY(need_form(s, affine));
        *gathers++ = (pp_gather_at){s->launch->affine[affine], value, ref->stride[d], ref->shape[d]};
    }
    return PPTO_OK;
}

static ppto_status need_access(shaper *s, uint32_t index)
{
    const pp_access *access = &s->program->accesses[index];
    const pp_tensor_slot *tensor = &s->program->tensors[access->tensor];
    const pp_tensor_ref *ref = &s->binding->tensors[access->tensor];
    pp_access_at *at = &s->launch->access[index];
    if (at->used) return PPTO_OK;
    pp_lin *lin = new_form(s);
    if (lin == NULL) return PPTO_E_NOMEM;
    *at = (pp_access_at){.tensor = access->tensor,
                         .dtype = tensor->dtype,
                         .n_guards = access->n_guards,
                         .lin = lin,
                         .size = (uint8_t)ppto_dtype_size((ppto_dtype)tensor->dtype),
                         .fill = access->fill,
                         .guards = s->launch->guards + access->first_guard,
                         .used = true};
    for (uint32_t d = 0; d < tensor->rank; d++) {
        add_affine(s, lin, access->first_affine + d, ref->stride[d]);
        if (s->program->affines[access->first_affine + d].value != PP_NONE) at->n_gathers++;
    }
    PP_TRY(need_guards(s, access->first_guard, access->n_guards));
    for (uint32_t g = 0; g < at->n_guards; g++)
        if (at->guards[g].value != PP_NONE) at->data_guard = true;
    return need_gathers(s, at, access, ref);
}

static ppto_status need_forms(shaper *s)
{
    const pp_program *p = s->program;
    for (uint32_t i = 0; i < p->n_code; i++) {
        const pp_instr *instr = &p->code[i];
        if (!s->launch->variant->live[i]) continue;
        if (instr->op == PP_INDEX) PP_TRY(need_form(s, instr->imm));
        if (instr->op == PP_CHECK) PP_TRY(need_form(s, p->checks[instr->imm].position));
        if (instr->op == PP_INSIDE) PP_TRY(need_guards(s, instr->imm, instr->a));
        if (instr->op == PP_LOAD || instr->op == PP_STORE) PP_TRY(need_access(s, instr->imm));
    }
    return PPTO_OK;
}

/* ---- axes ------------------------------------------------------------------------------------ */

static bool steps_over(const shaper *s, uint32_t outer, uint32_t inner, int64_t size)
{
    for (size_t i = 0; i < s->forms.n; i++) {
        int64_t over;
        const pp_lin *lin = s->forms.at[i];
        if (!pp_mul_i64(lin->coef[inner], size, &over) || lin->coef[outer] != over) return false;
    }
    return true;
}

/* Leaves the launch's axes, and in every form the coefficients of those. */
static void collapse(shaper *s)
{
    const pp_program *p = s->program;
    pp_launch *launch = s->launch;
    uint32_t kept[PP_AXES], n = 0; /* from the last axis to the first */
    int64_t size[PP_AXES];
    for (uint32_t a = p->n_axes; a-- > 0;) {
        int64_t product;
        if (s->size[a] == 1) continue;
        if (n > 0 && p->axes[kept[n - 1]].role == p->axes[a].role &&
            steps_over(s, a, kept[n - 1], size[n - 1]) && pp_mul_i64(size[n - 1], s->size[a], &product)) {
            size[n - 1] = product;
            continue;
        }
        kept[n] = a;
        size[n++] = s->size[a];
    }
    launch->n_axes = n;
    for (uint32_t i = 0; i < n; i++) {
        launch->size[i] = size[n - 1 - i];
        launch->role[i] = p->axes[kept[n - 1 - i]].role;
    }
    for (size_t f = 0; f < s->forms.n; f++)
        for (uint32_t i = 0; i < n; i++) s->forms.at[f]->coef[i] = s->forms.at[f]->coef[kept[n - 1 - i]];
}

static uint32_t form_mask(const pp_launch *launch, const pp_lin *lin)
{
    uint32_t mask = 0;
    for (uint32_t i = 0; i < launch->n_axes; i++)
        if (lin->coef[i] != 0) mask |= UINT32_C(1) << i;
    return mask;
}

static void note_masks(pp_launch *launch)
{
    for (uint32_t i = 0; i < launch->variant->program->n_accesses; i++) {
        pp_access_at *at = &launch->access[i];
        if (!at->used) continue;
        at->mask = form_mask(launch, at->lin);
        for (uint32_t g = 0; g < at->n_guards; g++) at->mask |= form_mask(launch, at->guards[g].lin);
        for (uint32_t g = 0; g < at->n_gathers; g++) at->mask |= form_mask(launch, at->gathers[g].lin);
    }
}

void pp_interp_dim(const pp_launch *launch, uint32_t roles, pp_dim *out)
{
    *out = (pp_dim){.total = 1};
    for (uint32_t i = 0; i < launch->n_axes; i++) {
        if (!(roles >> launch->role[i] & 1)) continue;
        out->axis[out->n++] = (uint8_t)i;
        out->mask |= UINT32_C(1) << i;
        out->total *= launch->size[i];
    }
}

pp_tiling pp_interp_tiling(const pp_launch *launch, const pp_dim *dim, int64_t width)
{
    pp_tiling t = {.total = dim->total, .period = dim->total};
    const int64_t last = dim->n > 0 ? launch->size[dim->axis[dim->n - 1]] : 1;
    if (width < 1) width = 1;
    if (last >= width)
        t.period = last; /* tiles end with the last axis: their rows are one stretch */
    else if (last > 1)
        width -= width % last;
    if (t.period < 1) t.period = 1;
    t.width = width < t.period ? width : t.period;
    t.per_period = (t.period + t.width - 1) / t.width;
    t.count = dim->total / t.period * t.per_period;
    return t;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static ppto_status shape_tensor(shaper *s, uint32_t index)
{
    const pp_tensor_slot *slot = &s->program->tensors[index];
    const pp_tensor_ref *ref = &s->binding->tensors[index];
    pp_tensor_at *at = &s->launch->tensors[index];
    const int64_t size = (int64_t)ppto_dtype_size((ppto_dtype)slot->dtype);
    int64_t highest = 0, elements = 1;
    *at = (pp_tensor_at){
        .dtype = slot->dtype, .size = (uint8_t)size, .output = slot->output, .result = slot->result};
    for (uint32_t d = 0; d < slot->rank; d++) {
        int64_t reach;
        if (!pp_mul_i64(ref->shape[d] - 1, ref->stride[d], &reach) ||
            !pp_mul_i64(elements, ref->shape[d], &elements) ||
            !pp_add_i64(reach < 0 ? at->lowest : highest, reach, reach < 0 ? &at->lowest : &highest)) {
            s->overflow = true;
            return PPTO_OK;
        }
    }
    at->span = elements == 0 ? 0 : highest - at->lowest + size;
    const bool near = s->launch->near != NULL && s->launch->near[index];
    at->stream = slot->output && !near && elements >= (int64_t)s->launch->kernel->device->stream_bytes / size;
    if (!s->launch->kernel->device->count_bytes || near) return PPTO_OK;
    at->touched =
        pp_arena_alloc(&s->launch->arena, ((size_t)(at->span / size) / 64 + 1) * sizeof *at->touched);
    return at->touched != NULL ? PPTO_OK : PPTO_E_NOMEM;
}

static ppto_status shape(shaper *s)
{
    const pp_program *p = s->program;
    pp_launch *launch = s->launch;
    launch->affine = pp_arena_alloc(&launch->arena, (p->n_affines + 1u) * sizeof *launch->affine);
    launch->guards = pp_arena_alloc(&launch->arena, (p->n_guards + 1u) * sizeof *launch->guards);
    launch->access = pp_arena_alloc(&launch->arena, (p->n_accesses + 1u) * sizeof *launch->access);
    launch->tensors = pp_arena_alloc(&launch->arena, (p->n_tensors + 1u) * sizeof *launch->tensors);
    if (launch->affine == NULL || launch->guards == NULL || launch->access == NULL || launch->tensors == NULL)
        return PPTO_E_NOMEM;
    int64_t product = 1;
    for (uint32_t i = 0; i < p->n_axes; i++) {
        s->size[i] = launch->slots[p->axes[i].size];
        if (s->size[i] < 0 || !pp_mul_i64(product, s->size[i] > 0 ? s->size[i] : 1, &product))
            s->overflow = true;
    }
    for (uint32_t i = 0; i < p->n_tensors; i++) PP_TRY(shape_tensor(s, i));
    PP_TRY(need_forms(s));
    if (s->overflow) return PPTO_E_SIZE;
    collapse(s);
    note_masks(launch);
    return PPTO_OK;
}

ppto_status pp_interp_shape(pp_launch *launch, const pp_binding *binding, pp_error *err)
{
    shaper s = {.launch = launch, .program = launch->variant->program, .binding = binding};
    ppto_status status = shape(&s);
    pp_vec_free(&s.forms);
    if (status == PPTO_E_NOMEM) return pp_fail(err, status, "out of memory");
    if (status != PPTO_OK) return pp_fail(err, status, "a size or an offset of a kernel overflows");
    return PPTO_OK;
}
