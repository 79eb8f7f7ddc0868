/* SPDX-License-Identifier: Apache-2.0
 * Simplification, one pass in order: every reachable prim is rebuilt on its simplified operands, after the
 * identities below and a look into the table of what is there already. Only rewrites that keep the bits of
 * every input: x * 1, x - 0, -(-x), x / 2^k, a cast to the same dtype, scalar rows of constants. x + 0 and x
 * * 0 are not among them (-0, inf). */
#include "graph/simplify.h"

#include <string.h>

typedef struct simplifier {
    const pp_flat *from;
    pp_flat *to;
    uint32_t *now; /* old id -> new id */
    pp_map seen;
    uint8_t *used;
    size_t n_literals;
} simplifier;

static bool same_prim(const pp_flat *flat, const pp_prim *a, const uint32_t *x, const pp_prim *b)
{
    if (a->kind != b->kind || a->op != b->op || a->axis != b->axis || a->n_batch != b->n_batch ||
        a->n_k != b->n_k || a->rows != b->rows || a->weak_cast != b->weak_cast || a->number != b->number ||
        a->type != b->type || a->stream != b->stream || a->level != b->level ||
        a->n_operands != b->n_operands || memcmp(&a->u, &b->u, sizeof a->u) != 0)
        return false;
    return a->n_operands == 0 ||
           memcmp(x, flat->operands.at + b->first_operand, a->n_operands * sizeof *x) == 0;
}

static uint64_t hash_prim(const pp_prim *p, const uint32_t *x)
{
    uint64_t h = pp_hash_mix(p->kind, p->op);
    h = pp_hash_mix(h, p->type);
    h = pp_hash_mix(h, (uint64_t)p->stream << 32 | p->level);
    h = pp_hash_mix(h, (uint64_t)p->axis << 32 | p->number);
    h = pp_hash_mix(h, (uint64_t)p->n_batch << 24 | (uint64_t)p->n_k << 16 | (uint64_t)p->rows << 8 |
                           p->weak_cast);
    h = pp_hash_bytes(&p->u, sizeof p->u, h);
    return pp_hash_bytes(x, p->n_operands * sizeof *x, h);
}

typedef struct same_context {
    const pp_flat *flat;
    const pp_prim *prim;
    const uint32_t *x;
} same_context;

static bool same_as(const void *context, uint32_t value)
{
    const same_context *c = context;
    return same_prim(c->flat, c->prim, c->x, &c->flat->prims.at[value]);
}

static const uint32_t *operands_of(const simplifier *s, const pp_prim *p)
{
    return s->to->operands.at + p->first_operand;
}

static ppto_dtype dtype_of(const simplifier *s, uint32_t id)
{
    return (ppto_dtype)pp_type_get(s->to->types, pp_flat_prim(s->to, id)->type)->dtype;
}

/* A row whose value says all there is to say: integers may overflow, which is an error, but not by the cast
 * of a literal, which was looked at before. */
static bool is_number_row(const simplifier *s, uint32_t id, const pp_prim *p)
{
    if (p->kind != PP_P_MAP || p->op >= PP_SCALAR_COUNT || p->n_operands == 0 || p->n_operands > 3)
        return false;
    const uint32_t last = operands_of(s, p)[p->n_operands - 1];
    if (p->op == PP_CAST && pp_flat_prim(s->to, last)->kind == PP_P_LITERAL) return true;
    return pp_dtype_is_float(dtype_of(s, id)) && pp_dtype_is_float(dtype_of(s, last));
}

enum { NUMBER_DEPTH = 4 };

/* The value of a number made of literals, in its own dtype. */
static bool number_value(const simplifier *s, uint32_t id, unsigned depth, uint64_t *bits)
{
    const pp_prim *p = pp_flat_prim(s->to, id);
    const uint32_t *x = operands_of(s, p);
    uint64_t v[3] = {0};
    *bits = p->u.bits;
    if (p->kind == PP_P_LITERAL) return p->number == PP_NONE || p->number < s->n_literals;
    if (p->kind == PP_P_BROADCAST || p->kind == PP_P_RESHAPE) return number_value(s, x[0], depth, bits);
    if (depth == 0 || !is_number_row(s, id, p)) return false;
    for (uint32_t k = 0; k < p->n_operands; k++)
        if (!number_value(s, x[k], depth - 1, &v[k])) return false;
    *bits =
        pp_scalar_eval((pp_op)p->op, dtype_of(s, x[p->n_operands - 1]), dtype_of(s, id), v[0], v[1], v[2]);
    return true;
}

/* The same as a value of `dtype`. */
static bool literal_value(const simplifier *s, uint32_t id, ppto_dtype dtype, uint64_t *bits)
{
    return dtype_of(s, id) == dtype && number_value(s, id, NUMBER_DEPTH, bits);
}

/* The user's literals in it were looked at. */
static void note_literal(simplifier *s, uint32_t id)
{
    const pp_prim *p = pp_flat_prim(s->to, id);
    for (uint32_t k = 0; k < p->n_operands; k++) note_literal(s, operands_of(s, p)[k]);
    if (p->kind == PP_P_LITERAL && p->number != PP_NONE) s->used[p->number] = 1;
}

static uint64_t one_of(ppto_dtype dtype)
{
    return pp_scalar_eval(PP_CAST, PPTO_I64, dtype, 1, 0, 0);
}

/* A float power of two whose reciprocal is a normal number. */
static bool exact_reciprocal(ppto_dtype dtype, uint64_t bits, uint64_t *reciprocal)
{
    unsigned mantissa = dtype == PPTO_F32 ? 23 : 52, width = dtype == PPTO_F32 ? 8 : 11;
    uint64_t exponent = bits >> mantissa & ((1u << width) - 1), top = (1u << width) - 2;
    if (!pp_dtype_is_float(dtype) || bits & ((1ull << mantissa) - 1) || exponent < 1 || exponent >= top)
        return false;
    *reciprocal = pp_scalar_eval(PP_DIV, dtype, dtype, one_of(dtype), bits, 0);
    return true;
}

/* An identity that keeps the bits: the prim equals one that is there. */
static bool identity(simplifier *s, const pp_prim *p, const uint32_t *x, uint32_t *same)
{
    uint64_t bits;
    ppto_dtype dtype = (ppto_dtype)pp_type_get(s->to->types, p->type)->dtype;
    if (p->kind != PP_P_MAP) return false;
    if (p->op == PP_CAST && pp_flat_prim(s->to, x[0])->type == p->type) return *same = x[0], true;
    if (p->op == PP_MUL && literal_value(s, x[1], dtype, &bits) && bits == one_of(dtype))
        return note_literal(s, x[1]), *same = x[0], true;
    if (p->op == PP_MUL && literal_value(s, x[0], dtype, &bits) && bits == one_of(dtype))
        return note_literal(s, x[0]), *same = x[1], true;
    if (p->op == PP_SUB && literal_value(s, x[1], dtype, &bits) && bits == 0)
        return note_literal(s, x[1]), *same = x[0], true;
    const pp_prim *inner = p->op == PP_NEG ? pp_flat_prim(s->to, x[0]) : NULL;
    if (inner && inner->kind == PP_P_MAP && inner->op == PP_NEG)
        return *same = s->to->operands.at[inner->first_operand], true;
    return false;
}

/* Scalar rows of a definition's own constants. */
static bool constant(simplifier *s, const pp_prim *p, const uint32_t *x, uint64_t *bits)
{
    uint64_t v[3] = {0};
    const pp_type *type = pp_type_get(s->to->types, p->type);
    if (p->kind != PP_P_MAP || p->op >= PP_SCALAR_COUNT || type->rank || p->n_operands == 0) return false;
    for (uint32_t k = 0; k < p->n_operands; k++) {
        const pp_prim *literal = pp_flat_prim(s->to, x[k]);
        if (literal->kind != PP_P_LITERAL || literal->number != PP_NONE) return false;
        if (p->weak_cast && pp_type_get(s->to->types, literal->type)->dtype != PPTO_F64) return false;
        v[k] = literal->u.bits;
    }
    ppto_dtype from =
        (ppto_dtype)pp_type_get(s->to->types, pp_flat_prim(s->to, x[p->n_operands - 1])->type)->dtype;
    *bits = pp_scalar_eval((pp_op)p->op, from, (ppto_dtype)type->dtype, v[0], v[1], v[2]);
    return true;
}

/* A value of another stream, or from before a sync point, is not the same one. */
static bool apart(const simplifier *s, const pp_prim *p, uint32_t from)
{
    const pp_prim *x = pp_flat_prim(s->to, from);
    return x->kind > PP_P_IOTA && (x->stream != p->stream || x->level != p->level);
}

static ppto_status rebuild(simplifier *s, uint32_t old)
{
    const pp_prim *p = pp_flat_prim(s->from, old);
    const uint32_t *operand = s->from->operands.at + p->first_operand;
    uint32_t small[16], *x = small, found;
    uint64_t bits;
    if (p->n_operands > 16 && !(x = pp_alloc(p->n_operands * sizeof *x))) return PPTO_E_NOMEM;
    for (uint32_t k = 0; k < p->n_operands; k++) x[k] = s->now[operand[k]];
    pp_prim prim = *p;
    ppto_status status = PPTO_OK;
    if (identity(s, p, x, &found) && !apart(s, p, found)) {
        s->now[old] = found;
        goto out;
    }
    const pp_type *type = pp_type_get(s->to->types, p->type);
    if (p->kind == PP_P_MAP && p->op == PP_DIV && literal_value(s, x[1], (ppto_dtype)type->dtype, &bits) &&
        exact_reciprocal((ppto_dtype)type->dtype, bits, &bits)) {
        note_literal(s, x[1]);
        uint32_t literal;
        status = pp_flat_literal(s->to, (ppto_dtype)type->dtype, false, bits, &literal);
        if (status == PPTO_OK) status = pp_flat_broadcast(s->to, literal, type->rank, type->dim, &x[1]);
        if (status == PPTO_OK && x[1] != literal) {
            s->to->prims.at[x[1]].stream = p->stream;
            s->to->prims.at[x[1]].level = p->level;
        }
        prim.op = PP_MUL;
    } else if (constant(s, p, x, &bits)) {
        prim = (pp_prim){.kind = PP_P_LITERAL,
                         .number = PP_NONE,
                         .type = p->type,
                         .origin = p->origin,
                         .u = {.bits = bits}};
    }
    if (status != PPTO_OK) goto out;
    uint64_t hash = hash_prim(&prim, x);
    same_context context = {s->to, &prim, x};
    if (prim.kind != PP_P_CHECK && pp_map_find(&s->seen, hash, same_as, &context, &found)) {
        s->now[old] = found;
        goto out;
    }
    status = pp_flat_add(s->to, &prim, x, prim.n_operands, &s->now[old]);
    if (status == PPTO_OK) status = pp_map_insert(&s->seen, hash, s->now[old]);
out:
    if (x != small) pp_free(x);
    return status;
}

/* Marks what the outputs need; operands have lower ids. */
static void mark(const pp_flat *flat, uint8_t *alive)
{
    for (size_t i = 0; i < flat->outputs.n; i++) alive[flat->outputs.at[i]] = 1;
    for (size_t id = flat->prims.n; id-- > 0;) {
        const pp_prim *p = &flat->prims.at[id];
        for (uint32_t k = 0; alive[id] && k < p->n_operands; k++)
            alive[flat->operands.at[p->first_operand + k]] = 1;
    }
}

ppto_status pp_simplify(const pp_flat *from, pp_flat *to, uint8_t *used, size_t n_literals)
{
    size_t n = from->prims.n;
    simplifier s = {.from = from, .to = to, .used = used, .n_literals = n_literals};
    pp_flat_init(to, from->types);
    uint8_t *alive = pp_calloc(n + 1, 1);
    s.now = pp_alloc((n + 1) * sizeof *s.now);
    ppto_status status = alive && s.now ? PPTO_OK : PPTO_E_NOMEM;
    if (status == PPTO_OK) mark(from, alive);
    for (uint32_t id = 0; status == PPTO_OK && id < n; id++)
        if (alive[id]) status = rebuild(&s, id);
    to->n_streams = from->n_streams;
    for (size_t i = 0; status == PPTO_OK && i < from->syncs.n; i++)
        status = pp_vec_push(&to->syncs, from->syncs.at[i]);
    for (size_t i = 0; status == PPTO_OK && i < from->outputs.n; i++)
        status = pp_vec_push(&to->outputs, s.now[from->outputs.at[i]]);
    for (size_t i = 0; status == PPTO_OK && i < from->conditions.n; i++)
        status = pp_vec_push(&to->conditions, from->conditions.at[i]);
    pp_free(alive);
    pp_free(s.now);
    pp_map_free(&s.seen);
    return status;
}
