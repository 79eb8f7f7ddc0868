/* SPDX-License-Identifier: Apache-2.0
 * Bytes a kernel must move: for each of its tensors the elements that its accesses touch together, once per
 * kernel. */
#include <string.h>

#include "base/checked.h"
#include "runtime/report.h"

typedef PP_VEC(pp_touch) touches;

/* Has the code at this place points to run at? Outer axes always; inner ones for an inner stage, k for
 * operands of the contraction. */
static bool runs(const pp_toucher *t, uint32_t at)
{
    const pp_program *p = t->program;
    bool inner = p->frame == PP_FRAME_CONTRACT;
    for (uint32_t s = 0; s < p->n_stages; s++)
        if (at >= p->stages[s].first && at < p->stages[s].first + p->stages[s].count)
            inner = p->stages[s].inner;
    for (uint32_t a = 0; a < p->n_axes; a++) {
        bool is_inner = p->axes[a].role == PP_AXIS_INNER || p->axes[a].role == PP_AXIS_K;
        if (t->slot[p->axes[a].size] <= 0 && (!is_inner || inner)) return false;
    }
    return true;
}

/* tensor: of the program. */
static ppto_status collect(const pp_toucher *t, uint32_t tensor, uint32_t rank, const int64_t *shape,
                           touches *out)
{
    const pp_program *p = t->program;
    for (uint32_t i = 0; i < p->n_code; i++) {
        if ((p->code[i].op != PP_LOAD && p->code[i].op != PP_STORE) || !runs(t, i)) continue;
        const pp_access *access = &p->accesses[p->code[i].imm];
        pp_touch touch;
        bool any;
        if (access->tensor != tensor) continue;
        PP_TRY(pp_touch_access(t, access, rank, shape, &touch, &any));
        if (any) PP_TRY(pp_vec_push(out, touch));
    }
    return PPTO_OK;
}

static int64_t product_but(const pp_touch *touch, uint32_t left_out)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < touch->rank; d++)
        if (d != left_out) n *= touch->dim[d].count;
    return n;
}

/* The box around all of them. */
static int64_t enclosing_box(const touches *v)
{
    int64_t n = 1;
    for (uint32_t d = 0; d < v->at[0].rank; d++) {
        int64_t lo = INT64_MAX, hi = -1;
        for (size_t i = 0; i < v->n; i++) {
            const pp_touch_dim *dim = &v->at[i].dim[d];
            int64_t first = dim->bits ? 0 : dim->start,
                    last = dim->bits ? dim->size - 1 : dim->start + dim->step * (dim->count - 1);
            if (first < lo) lo = first;
            if (last > hi) hi = last;
        }
        n *= hi - lo + 1;
    }
    return n;
}

static int64_t by_bitmap(const pp_toucher *t, const touches *v, int64_t elements)
{
    int64_t n = 0;
    uint8_t *bits = elements <= PP_TOUCH_LIMIT ? pp_calloc((size_t)elements + 1, 1) : NULL;
    bool known = bits != NULL;
    for (size_t i = 0; known && i < v->n; i++) known = pp_touch_mark(t, &v->at[i], bits);
    for (int64_t i = 0; known && i < elements; i++) n += bits[i];
    pp_free(bits);
    return known ? n : enclosing_box(v);
}

static int64_t count_elements(const pp_toucher *t, const touches *v, int64_t elements)
{
    uint32_t differ = 0, which = PP_NONE;
    bool products = true;
    if (v->n == 0) return 0;
    for (size_t i = 0; i < v->n; i++) products &= v->at[i].product;
    for (uint32_t d = 0; products && d < v->at[0].rank; d++) {
        bool same = true;
        for (size_t i = 1; i < v->n; i++) same &= pp_touch_same_dim(&v->at[0].dim[d], &v->at[i].dim[d]);
        if (same) continue;
        differ++;
        which = d;
    }
    if (products && differ == 0) return product_but(&v->at[0], PP_NONE);
    if (products && differ == 1) {
        int64_t n = pp_touch_union(t, v->at, v->n, which);
        if (n >= 0) return n * product_but(&v->at[0], which);
    }
    return by_bitmap(t, v, elements);
}

static ppto_status shape_of(const pp_plan *plan, const pp_lowered_tensor *tensor, const int64_t *names,
                            uint32_t *rank, int64_t *shape, int64_t *elements)
{
    const pp_type *type = pp_flat_type(&plan->flat, tensor->prim);
    *elements = 1;
    for (uint32_t d = 0; d < type->rank; d++) {
        PP_TRY(pp_size_eval(pp_types_sizes(plan->types), type->dim[d], names, &shape[d]));
        if (!pp_mul_i64(*elements, shape[d], elements)) return PPTO_E_SIZE;
    }
    *rank = type->rank;
    if (tensor->linear) {
        *rank = 1;
        shape[0] = *elements;
    }
    return PPTO_OK;
}

/* ---- one tensor, in all programs of a kernel --------------------------------------------------- */

/* The program itself, or a part of a chain. */
typedef struct looker {
    pp_toucher toucher;
    touches touches;
    uint32_t *masks;
} looker;

typedef struct looking {
    looker at[PP_MOST_PARTS];
    uint32_t n;
    pp_arena arena;
} looking;

static uint32_t n_programs(const pp_program *p)
{
    return p->frame == PP_FRAME_CHAIN ? p->n_parts : 1;
}

static const pp_program *program_at(const pp_program *p, uint32_t i)
{
    return p->frame == PP_FRAME_CHAIN ? p->parts[i].program : p;
}

/* The kernel's tensor in one of its programs; PP_NONE: it is not there. */
static uint32_t tensor_in(const pp_program *p, uint32_t program, uint32_t tensor)
{
    if (p->frame != PP_FRAME_CHAIN) return tensor;
    for (uint32_t t = 0; t < p->parts[program].program->n_tensors; t++)
        if (p->parts[program].tensor[t] == tensor) return t;
    return PP_NONE;
}

static ppto_status look(looking *l, const pp_program *p, const int64_t *slot, uint32_t tensor, uint32_t rank,
                        const int64_t *shape)
{
    for (uint32_t i = 0; i < n_programs(p); i++) {
        const pp_program *q = program_at(p, i);
        const uint32_t own = tensor_in(p, i, tensor);
        looker *at = &l->at[l->n];
        if (own == PP_NONE) continue;
        at->masks = pp_arena_alloc(&l->arena, (q->n_code + 1u) * sizeof *at->masks);
        if (!at->masks) return PPTO_E_NOMEM;
        pp_program_axis_masks(q, at->masks);
        at->toucher = (pp_toucher){q, slot, at->masks, &l->arena};
        l->n++;
        PP_TRY(collect(&at->toucher, own, rank, shape, &at->touches));
    }
    return PPTO_OK;
}

/* What several programs touch together; where that cannot be told, what one of them touches at most. */
static int64_t count_together(const looking *l, int64_t elements)
{
    int64_t n = 0, most = 0;
    uint8_t *bits = elements <= PP_TOUCH_LIMIT ? pp_calloc((size_t)elements + 1, 1) : NULL;
    bool known = bits != NULL;
    for (uint32_t i = 0; i < l->n; i++) {
        const looker *at = &l->at[i];
        const int64_t own = count_elements(&at->toucher, &at->touches, elements);
        most = own > most ? own : most;
        for (size_t k = 0; known && k < at->touches.n; k++)
            known = pp_touch_mark(&at->toucher, &at->touches.at[k], bits);
    }
    for (int64_t i = 0; known && i < elements; i++) n += bits[i];
    pp_free(bits);
    return known ? n : most;
}

static ppto_status count_tensor(const pp_program *p, const int64_t *slot, uint32_t tensor, uint32_t rank,
                                const int64_t *shape, int64_t elements, int64_t *out)
{
    looking l = {.n = 0};
    ppto_status status = look(&l, p, slot, tensor, rank, shape);
    if (status == PPTO_OK)
        *out = l.n == 1 ? count_elements(&l.at[0].toucher, &l.at[0].touches, elements)
                        : count_together(&l, elements);
    for (uint32_t i = 0; i < l.n; i++) pp_vec_free(&l.at[i].touches);
    pp_arena_free(&l.arena);
    return status;
}

ppto_status pp_report_bytes(const pp_plan *plan, size_t group, const int64_t *names, uint64_t *reads,
                            uint64_t *writes)
{
    const pp_lowered *l = &plan->lowered[group];
    int64_t *slot = pp_calloc(l->slots.n + PP_SLOT_FIRST, sizeof *slot);
    if (!slot) return PPTO_E_NOMEM;
    ppto_status status = PPTO_OK;
    slot[PP_SLOT_1] = 1;
    slot[PP_SLOT_M1] = -1;
    for (size_t s = PP_SLOT_FIRST; status == PPTO_OK && s < l->slots.n; s++)
        status = pp_size_eval(pp_types_sizes(plan->types), l->slots.at[s], names, &slot[s]);
    *reads = *writes = 0;
    for (uint32_t i = 0; status == PPTO_OK && i < l->tensors.n; i++) {
        const pp_type *type = pp_flat_type(&plan->flat, l->tensors.at[i].prim);
        int64_t shape[PPTO_MAX_RANK], elements, n = 0;
        uint32_t rank;
        status = shape_of(plan, &l->tensors.at[i], names, &rank, shape, &elements);
        if (status == PPTO_OK) status = count_tensor(l->program, slot, i, rank, shape, elements, &n);
        *(l->tensors.at[i].output ? writes : reads) += (uint64_t)n * ppto_dtype_size((ppto_dtype)type->dtype);
    }
    pp_free(slot);
    return status;
}

/* ---- formulas
 * ------------------------------------------------------------------------------------------------------------
 */

static pp_size elements_of(const pp_plan *plan, pp_sizes *sizes, uint32_t prim)
{
    const pp_type *type = pp_flat_type(&plan->flat, prim);
    pp_size n = PP_SIZE_1;
    for (uint32_t d = 0; d < type->rank; d++)
        n = pp_size_mul(sizes, n, pp_size_import(sizes, pp_types_sizes(plan->types), type->dim[d]));
    return n;
}

/* What one access without guards covers: per dimension nothing moves, one axis does, or all of it is taken.
 */
static pp_size covered(const pp_plan *plan, const pp_lowered *l, const pp_lowered_tensor *tensor,
                       const pp_program *p, const pp_access *a, pp_sizes *sizes)
{
    const pp_sizes *from = pp_types_sizes(plan->types);
    const pp_type *type = pp_flat_type(&plan->flat, tensor->prim);
    pp_size n = PP_SIZE_1;
    if (tensor->linear) return elements_of(plan, sizes, tensor->prim);
    for (uint32_t d = 0; d < type->rank; d++) {
        const pp_affine *e = &p->affines[a->first_affine + d];
        pp_size extent = type->dim[d];
        if (e->value == PP_NONE && e->n_terms == 0) extent = PP_SIZE_1;
        if (e->value == PP_NONE && e->n_terms == 1)
            extent = l->slots.at[p->axes[p->terms[e->first_term].axis].size];
        n = pp_size_mul(sizes, n, pp_size_import(sizes, from, extent));
    }
    return n;
}

/* The only access of the kernel's tensor that has no guards, and its program; NULL: all of it is taken. */
static const pp_access *only_access(const pp_program *p, uint32_t tensor, const pp_program **of)
{
    const pp_access *only = NULL;
    for (uint32_t k = 0; k < n_programs(p); k++) {
        const pp_program *q = program_at(p, k);
        const uint32_t own = tensor_in(p, k, tensor);
        for (uint32_t i = 0; own != PP_NONE && i < q->n_code; i++) {
            if (q->code[i].op != PP_LOAD && q->code[i].op != PP_STORE) continue;
            const pp_access *a = &q->accesses[q->code[i].imm];
            if (a->tensor != own || a == only) continue;
            if (only != NULL || a->n_guards > 0) return NULL;
            only = a;
            *of = q;
        }
    }
    return only;
}

void pp_report_bytes_formula(const pp_plan *plan, size_t group, pp_sizes *sizes, pp_size *reads,
                             pp_size *writes)
{
    const pp_lowered *l = &plan->lowered[group];
    *reads = *writes = PP_SIZE_0;
    for (uint32_t t = 0; t < l->tensors.n; t++) {
        const pp_lowered_tensor *tensor = &l->tensors.at[t];
        const pp_program *of = NULL;
        const pp_access *only = only_access(l->program, t, &of);
        pp_size n = only ? covered(plan, l, tensor, of, only, sizes) : elements_of(plan, sizes, tensor->prim);
        int64_t size = (int64_t)ppto_dtype_size((ppto_dtype)pp_flat_type(&plan->flat, tensor->prim)->dtype);
        pp_size *sum = tensor->output ? writes : reads;
        *sum = pp_size_add(sizes, *sum, pp_size_mul(sizes, n, pp_size_const(sizes, size)));
    }
}
