/* SPDX-License-Identifier: Apache-2.0
 * Where a cut runs: constraints "this prim is cut along this dim", spread from the seed to what reads it and
 * to what is combined with it, until nothing changes. Each kind of prim says how a dim of its result is a dim
 * of an operand (down) and the reverse (up); what cannot be cut there is named with the reason.
 *
 * Iterative: a stack of prims whose cut is new. */
#include <string.h>

#include "base/checked.h"
#include "graph/region.h"

typedef struct tracer {
    const pp_flat *flat;
    pp_trace *t;
    PP_VEC(uint32_t) stack;
    uint32_t *first_user, *users; /* CSR */
    uint32_t culprit;
    pp_error *err;
} tracer;

static ppto_status refuse(tracer *r, uint32_t prim, const char *why)
{
    r->culprit = prim;
    return pp_fail(r->err, PPTO_E_UNSUPPORTED, "%s", why);
}

static const pp_prim *prim_of(const tracer *r, uint32_t id)
{
    return &r->flat->prims.at[id];
}

static uint32_t rank_of(const tracer *r, uint32_t id)
{
    return pp_flat_type(r->flat, id)->rank;
}

/* Demands that a prim is cut along `dim`. */
static ppto_status cut(tracer *r, uint32_t id, uint32_t dim)
{
    if (r->t->cut[id] == dim) return PPTO_OK;
    if (r->t->cut[id] != PP_WHOLE) return refuse(r, id, "it would be cut along two axes");
    if (dim >= rank_of(r, id)) return refuse(r, id, "it has no axis to cut");
    if (pp_trace_dims(r->t, id)[dim] == 0) return refuse(r, id, "nothing of the axis that is cut is left");
    r->t->cut[id] = (uint8_t)dim;
    return pp_vec_push(&r->stack, id);
}

/* Its one row is taken as a whole by `user`, which a later pass computes. */
static ppto_status keep(tracer *r, uint32_t id, uint32_t user)
{
    r->t->kept[id] = 1;
    r->t->takes[user] = 1;
    return PPTO_OK;
}

/* ---- views -------------------------------------------------------------------------------------------- */

/* The dim of `to` with the same size and the same number of elements before it as dim `dim` of `from`. */
static bool reshaped(const tracer *r, uint32_t from, uint32_t to, uint32_t dim, uint32_t *out)
{
    const int64_t *x = pp_trace_dims(r->t, from), *y = pp_trace_dims(r->t, to);
    int64_t before = 1, now = 1;
    for (uint32_t i = 0; i < dim; i++) before *= x[i];
    for (uint32_t i = 0; i < rank_of(r, to); now *= y[i++]) {
        if (now != before || y[i] != x[dim]) continue;
        *out = i;
        return true;
    }
    return false;
}

static ppto_status cut_reshaped(tracer *r, uint32_t view, uint32_t from, uint32_t to, uint32_t dim)
{
    uint32_t other;
    if (!reshaped(r, from, to, dim, &other)) return refuse(r, view, "it reshapes the axis that is cut");
    return cut(r, to, other);
}

/* ---- folds -------------------------------------------------------------------------------------------- */

static uint32_t kept_before(uint32_t axes, uint32_t dim)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < dim; i++) n += !(axes >> i & 1);
    return n;
}

/* The operand dim that is kept dim `kept` of a reduction. */
static uint32_t kept_dim(uint32_t axes, uint32_t kept)
{
    uint32_t dim = 0;
    for (;; dim++)
        if (!(axes >> dim & 1) && kept-- == 0) return dim;
}

static ppto_status cut_operands(tracer *r, uint32_t id, uint32_t dim)
{
    for (uint32_t i = 0; i < prim_of(r, id)->n_operands; i++)
        PP_TRY(cut(r, pp_flat_operands(r->flat, id)[i], dim));
    return PPTO_OK;
}

static ppto_status reduce_up(tracer *r, uint32_t user, uint32_t dim)
{
    const pp_prim *p = prim_of(r, user);
    PP_TRY(cut_operands(r, user, dim));
    if (!(p->u.fold.axes >> dim & 1)) return cut(r, user, kept_before(p->u.fold.axes, dim));
    if (p->u.fold.axes & ((1u << dim) - 1))
        return refuse(r, user, "the axis that is cut is not the first it reduces");
    if (p->u.fold.monoid->ordered) return refuse(r, user, "an ordered fold runs along the axis that is cut");
    if (p->u.fold.monoid->position && p->u.fold.monoid->n_inputs == 4)
        return refuse(r, user,
                      "a fold of four operands that asks for positions runs along the axis that is cut");
    r->t->cross[user] = 1;
    return PPTO_OK;
}

/* ---- products ----------------------------------------------------------------------------------------- */

/* Operand `which` of a contraction is cut along `dim`. */
static ppto_status contract_up(tracer *r, uint32_t user, uint32_t which, uint32_t dim)
{
    const pp_prim *p = prim_of(r, user);
    const uint32_t *x = pp_flat_operands(r->flat, user);
    uint32_t rank = rank_of(r, x[which]), other = rank_of(r, x[1 - which]), free = rank - p->n_batch - p->n_k;
    if (dim < p->n_batch) {
        PP_TRY(cut(r, x[1 - which], dim));
        return cut(r, user, dim);
    }
    if (dim < p->n_batch + free)
        return cut(r, user, which == 0 ? dim : rank_of(r, x[0]) - p->n_k + dim - p->n_batch);
    if (dim != rank - p->n_k) return refuse(r, user, "the axis that is cut is not the first it sums over");
    PP_TRY(cut(r, x[1 - which], other - p->n_k));
    r->t->cross[user] = 1;
    return PPTO_OK;
}

static ppto_status contract_down(tracer *r, uint32_t id, uint32_t dim)
{
    const pp_prim *p = prim_of(r, id);
    const uint32_t *x = pp_flat_operands(r->flat, id);
    uint32_t left = rank_of(r, x[0]) - p->n_k;
    if (dim < p->n_batch) return cut_operands(r, id, dim);
    return dim < left ? cut(r, x[0], dim) : cut(r, x[1], dim - left + p->n_batch);
}

/* ---- one prim ----------------------------------------------------------------------------------------- */

/* The result is cut along `dim`: what that asks of the operands. */
static ppto_status down(tracer *r, uint32_t id, uint32_t dim)
{
    const pp_prim *p = prim_of(r, id);
    const uint32_t *x = pp_flat_operands(r->flat, id);
    uint32_t shift;
    switch (p->kind) {
    case PP_P_MAP:
    case PP_P_CHECK:
    case PP_P_PART: return cut_operands(r, id, dim);
    case PP_P_PERMUTE: return cut(r, x[0], p->u.axes[dim]);
    case PP_P_RESHAPE: return cut_reshaped(r, id, id, x[0], dim);
    case PP_P_SLICE:
    case PP_P_PAD: return cut(r, x[0], dim);
    case PP_P_BROADCAST:
        shift = rank_of(r, id) - rank_of(r, x[0]);
        if (dim < shift || pp_trace_dims(r->t, x[0])[dim - shift] != pp_trace_dims(r->t, id)[dim])
            return PPTO_OK;
        return cut(r, x[0], dim - shift);
    case PP_P_CONCAT: return cut_operands(r, id, dim);
    case PP_P_GATHER:
        shift = rank_of(r, x[1]);
        if (dim >= p->axis && dim < p->axis + shift) return cut(r, x[1], dim - p->axis);
        return cut(r, x[0], dim < p->axis ? dim : dim + 1 - shift);
    case PP_P_REDUCE: return cut_operands(r, id, kept_dim(p->u.fold.axes, dim));
    case PP_P_SCAN: r->t->cross[id] = p->axis == dim; return cut_operands(r, id, dim);
    case PP_P_CONTRACT: return contract_down(r, id, dim);
    default: return PPTO_OK; /* INPUT, IOTA */
    }
}

/* Operand `which` of `user` is cut along `dim`. */
static ppto_status up(tracer *r, uint32_t user, uint32_t which, uint32_t dim)
{
    const pp_prim *p = prim_of(r, user);
    uint32_t from = pp_flat_operands(r->flat, user)[which], to = 0, n = rank_of(r, user);
    switch (p->kind) {
    case PP_P_MAP:
    case PP_P_CHECK: return cut(r, user, dim);
    case PP_P_PART: return r->t->cut[from] == PP_WHOLE ? PPTO_OK : cut(r, user, dim);
    case PP_P_PERMUTE:
        while (p->u.axes[to] != dim) to++;
        return cut(r, user, to);
    case PP_P_RESHAPE:
        if (pp_trace_dims(r->t, from)[dim] == 1 && !reshaped(r, from, user, dim, &to))
            return keep(r, from, user);
        return cut_reshaped(r, user, from, user, dim);
    case PP_P_BROADCAST:
        to = dim + n - rank_of(r, from);
        if (pp_trace_dims(r->t, user)[to] != pp_trace_dims(r->t, from)[dim]) return keep(r, from, user);
        return cut(r, user, to);
    case PP_P_SLICE:
    case PP_P_PAD:
    case PP_P_CONCAT: return cut(r, user, dim);
    case PP_P_GATHER:
        if (which == 1) return cut(r, user, p->axis + dim);
        if (p->axis == dim) return refuse(r, user, "it looks values up along the axis that is cut");
        return cut(r, user, dim < p->axis ? dim : dim + rank_of(r, pp_flat_operands(r->flat, user)[1]) - 1);
    case PP_P_REDUCE: return reduce_up(r, user, dim);
    case PP_P_SCAN: return cut(r, user, dim);
    case PP_P_CONTRACT: return contract_up(r, user, which, dim);
    default: return refuse(r, user, "it cannot be cut");
    }
}

/* ---- all ---------------------------------------------------------------------------------------------- */

static ppto_status list_users(tracer *r)
{
    size_t n = r->flat->prims.n;
    r->first_user = pp_calloc(n + 2, sizeof *r->first_user);
    r->users = pp_calloc(r->flat->operands.n + 1, sizeof *r->users);
    if (!r->first_user || !r->users) return PPTO_E_NOMEM;
    for (uint32_t id = 0; id < n; id++)
        for (uint32_t i = 0; i < prim_of(r, id)->n_operands; i++)
            r->first_user[pp_flat_operands(r->flat, id)[i] + 2]++;
    for (size_t i = 2; i < n + 2; i++) r->first_user[i] += r->first_user[i - 1];
    for (uint32_t id = 0; id < n; id++)
        for (uint32_t i = 0; i < prim_of(r, id)->n_operands; i++)
            r->users[r->first_user[pp_flat_operands(r->flat, id)[i] + 1]++] = id;
    return PPTO_OK;
}

static ppto_status spread(tracer *r)
{
    while (r->stack.n != 0) {
        uint32_t id = r->stack.at[--r->stack.n];
        PP_TRY(down(r, id, r->t->cut[id]));
        for (uint32_t u = r->first_user[id]; u < r->first_user[id + 1]; u++) {
            uint32_t user = r->users[u];
            for (uint32_t i = 0; i < prim_of(r, user)->n_operands; i++)
                if (pp_flat_operands(r->flat, user)[i] == id) PP_TRY(up(r, user, i, r->t->cut[id]));
        }
    }
    return PPTO_OK;
}

static ppto_status know_dims(const pp_flat *flat, const int64_t *names, pp_trace *t)
{
    for (uint32_t id = 0; id < flat->prims.n; id++) {
        const pp_type *type = pp_flat_type(flat, id);
        for (uint32_t d = 0; d < type->rank; d++)
            PP_TRY(pp_size_eval(pp_types_sizes(flat->types), type->dim[d], names,
                                &t->dims[(size_t)id * PPTO_MAX_RANK + d]));
    }
    return PPTO_OK;
}

/* A crossing REDUCE or CONTRACT is one deeper than what it folds, and who takes a row as a whole than the
 * row; a crossing SCAN stays in its pass. */
static void count_depths(const pp_flat *flat, pp_trace *t)
{
    for (uint32_t id = 0; id < flat->prims.n; id++) {
        uint32_t depth = 0;
        const pp_prim *p = &flat->prims.at[id];
        for (uint32_t i = 0; i < p->n_operands; i++) {
            uint32_t own = t->depth[pp_flat_operands(flat, id)[i]] + t->takes[id];
            if (own > depth) depth = own;
        }
        t->depth[id] = depth + (t->cross[id] && p->kind != PP_P_SCAN);
    }
    for (size_t i = 0; i < flat->outputs.n; i++)
        if (t->depth[flat->outputs.at[i]] >= t->depths) t->depths = t->depth[flat->outputs.at[i]] + 1;
}

/* Pieces of an output are written where they belong: its rows must lie together. */
static ppto_status check_outputs(tracer *r)
{
    for (size_t i = 0; i < r->flat->outputs.n; i++) {
        uint32_t id = r->flat->outputs.at[i];
        for (uint32_t d = 0; r->t->cut[id] != PP_WHOLE && d < r->t->cut[id]; d++)
            if (pp_trace_dims(r->t, id)[d] != 1)
                return refuse(r, id, "the axis that is cut is not the first of the result");
    }
    return PPTO_OK;
}

ppto_status pp_trace_cut(const pp_flat *flat, const int64_t *names, uint32_t seed, pp_trace *out,
                         uint32_t *culprit, pp_error *err)
{
    size_t n = flat->prims.n;
    tracer r = {.flat = flat, .t = out, .culprit = PP_NONE, .err = err};
    *out = (pp_trace){.cut = pp_alloc(n + 1), .cross = pp_calloc(n + 1, 1)};
    out->depth = pp_calloc(n + 1, sizeof *out->depth);
    out->kept = pp_calloc(n + 1, 1);
    out->takes = pp_calloc(n + 1, 1);
    out->dims = pp_calloc(n + 1, PPTO_MAX_RANK * sizeof *out->dims);
    ppto_status status =
        out->cut && out->cross && out->depth && out->dims && out->kept && out->takes ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) {
        memset(out->cut, PP_WHOLE, n + 1);
        status = know_dims(flat, names, out);
    }
    if (status == PPTO_OK && pp_trace_dims(out, seed)[0] < 2)
        status = refuse(&r, seed, "its first axis has no second row to cut off");
    if (status == PPTO_OK) status = list_users(&r);
    if (status == PPTO_OK) status = cut(&r, seed, 0);
    if (status == PPTO_OK) status = spread(&r);
    if (status == PPTO_OK) status = check_outputs(&r);
    if (status == PPTO_OK) {
        out->rows = pp_trace_dims(out, seed)[0];
        count_depths(flat, out);
    }
    *culprit = r.culprit;
    pp_vec_free(&r.stack);
    pp_free(r.first_user);
    pp_free(r.users);
    return status;
}

void pp_trace_free(pp_trace *trace)
{
    pp_free(trace->cut);
    pp_free(trace->cross);
    pp_free(trace->depth);
    pp_free(trace->kept);
    pp_free(trace->takes);
    pp_free(trace->dims);
    *trace = (pp_trace){0};
}
