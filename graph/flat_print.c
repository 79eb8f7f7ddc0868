/* SPDX-License-Identifier: Apache-2.0
 * Flat graphs as text, one prim a line, and the check of what every reader of a flat graph relies on. */
#include <inttypes.h>

#include "graph/flat.h"

static const char *const kind_names[] = {
    [PP_P_INPUT] = "input",
    [PP_P_LITERAL] = "literal",
    [PP_P_SIZE] = "size",
    [PP_P_IOTA] = "iota",
    [PP_P_MAP] = "map",
    [PP_P_COLD] = "cold",
    [PP_P_TABLE] = "table",
    [PP_P_PERMUTE] = "permute",
    [PP_P_RESHAPE] = "reshape",
    [PP_P_SLICE] = "slice",
    [PP_P_BROADCAST] = "broadcast",
    [PP_P_PAD] = "pad",
    [PP_P_CONCAT] = "concat",
    [PP_P_GATHER] = "gather",
    [PP_P_REDUCE] = "reduce",
    [PP_P_SCAN] = "scan",
    [PP_P_CONTRACT] = "contract",
    [PP_P_PART] = "part",
    [PP_P_CHECK] = "check",
};

const char *pp_prim_kind_name(pp_prim_kind kind)
{
    return (unsigned)kind <= PP_P_CHECK ? kind_names[kind] : "?";
}

static void print_axes(uint32_t axes, pp_text *out)
{
    const char *comma = "";
    pp_text_add(out, " axes [");
    for (unsigned i = 0; i < PPTO_MAX_RANK; i++) {
        if (!(axes >> i & 1)) continue;
        pp_text_add(out, "%s%u", comma, i);
        comma = ", ";
    }
    pp_text_add(out, "]");
}

static void print_details(const pp_flat *flat, const pp_prim *p, pp_text *out)
{
    pp_sizes *sizes = pp_types_sizes(flat->types);
    switch (p->kind) {
    case PP_P_INPUT:
    case PP_P_PART: pp_text_add(out, " %u", p->number); break;
    case PP_P_LITERAL:
        pp_text_add(out, " 0x%" PRIx64, p->u.bits);
        if (p->number != PP_NONE) pp_text_add(out, " number %u", p->number);
        break;
    case PP_P_SIZE:
        pp_text_add(out, " ");
        pp_size_print(sizes, p->u.size, out);
        break;
    case PP_P_MAP:
    case PP_P_COLD:
        pp_text_add(out, ".%s%s",
                    p->op == PP_CALL || p->kind == PP_P_COLD ? p->u.function ? p->u.function->name : "?"
                                                             : pp_scalar_find((pp_op)p->op)->name,
                    p->weak_cast ? " weak" : "");
        break;
    case PP_P_PERMUTE:
        pp_text_add(out, " axes [");
        for (unsigned i = 0; i < pp_type_get(flat->types, p->type)->rank; i++)
            pp_text_add(out, "%s%u", i != 0 ? ", " : "", p->u.axes[i]);
        pp_text_add(out, "]");
        break;
    case PP_P_SLICE:
        pp_text_add(out, " axis %u start ", p->axis);
        pp_size_print(sizes, p->u.slice.start, out);
        pp_text_add(out, " step %" PRId64, p->u.slice.step);
        break;
    case PP_P_PAD:
        pp_text_add(out, " axis %u before ", p->axis);
        pp_size_print(sizes, p->u.before, out);
        break;
    case PP_P_CONCAT:
    case PP_P_GATHER: pp_text_add(out, " axis %u", p->axis); break;
    case PP_P_REDUCE:
    case PP_P_SCAN:
        pp_text_add(out, ".%s %s", p->u.fold.monoid->name, p->rows ? "rows" : "lanes");
        print_axes(p->u.fold.axes, out);
        break;
    case PP_P_CONTRACT: pp_text_add(out, " batch %u k %u", p->n_batch, p->n_k); break;
    default: break;
    }
}

void pp_flat_print_prim(const pp_flat *flat, uint32_t id, pp_text *out)
{
    const pp_prim *p = pp_flat_prim(flat, id);
    pp_text_add(out, "%s", pp_prim_kind_name((pp_prim_kind)p->kind));
    print_details(flat, p, out);
    for (uint32_t i = 0; i < p->n_operands; i++) pp_text_add(out, " %%%u", pp_flat_operands(flat, id)[i]);
}

void pp_flat_print(const pp_flat *flat, pp_text *out)
{
    for (uint32_t id = 0; id < flat->prims.n; id++) {
        const pp_prim *p = pp_flat_prim(flat, id);
        pp_text_add(out, "%%%u = ", id);
        pp_flat_print_prim(flat, id, out);
        pp_text_add(out, " : ");
        pp_type_print(flat->types, pp_flat_type(flat, id), out);
        if (p->stream != 0) pp_text_add(out, " on stream %u", p->stream);
        if (p->level != 0) pp_text_add(out, " level %u", p->level);
        pp_text_add(out, "\n");
    }
    for (size_t i = 0; i < flat->syncs.n; i++) {
        const pp_sync *s = &flat->syncs.at[i];
        pp_text_add(out, "sync %zu = %s on stream %u level %u", i,
                    s->kind == PP_SYNC_RECORD ? "record" : "wait", s->stream, s->level);
        if (s->record != PP_NONE) pp_text_add(out, " for sync %u", s->record);
        pp_text_add(out, "\n");
    }
    for (size_t i = 0; i < flat->conditions.n; i++) {
        pp_text_add(out, "require ");
        pp_size_print(pp_types_sizes(flat->types), flat->conditions.at[i].margin, out);
        pp_text_add(out, " >= 0: %s\n", flat->conditions.at[i].message);
    }
    pp_text_add(out, "outputs");
    for (size_t i = 0; i < flat->outputs.n; i++) pp_text_add(out, " %%%u", flat->outputs.at[i]);
    pp_text_add(out, "\n");
}

/* ---- verification ------------------------------------------------------------------------------------ */

#define NEED(condition, what)                                                                                \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            return pp_fail(err, PPTO_E_INTERNAL, "flat graph: %%%u (%s): %s", id,                            \
                           pp_prim_kind_name((pp_prim_kind)flat->prims.at[id].kind), what);                  \
    } while (0)

static bool same_shape(const pp_type *a, const pp_type *b)
{
    bool same = a->rank == b->rank;
    for (int i = 0; i < a->rank && same; i++) same = a->dim[i] == b->dim[i];
    return same;
}

static ppto_status verify_map(const pp_flat *flat, uint32_t id, pp_error *err)
{
    const pp_prim *p = pp_flat_prim(flat, id);
    const pp_type *type = pp_flat_type(flat, id);
    NEED(p->n_operands > 0, "no operands");
    for (uint32_t i = 0; i < p->n_operands; i++)
        NEED(same_shape(type, pp_flat_type(flat, pp_flat_operands(flat, id)[i])),
             "an operand of another shape");
    if (p->op == PP_CALL) {
        NEED(p->u.function != NULL && p->u.function->n_params == p->n_operands,
             "another number of parameters");
        for (uint32_t i = 0; i < p->n_operands; i++)
            NEED(pp_flat_type(flat, pp_flat_operands(flat, id)[i])->dtype == p->u.function->param[i],
                 "parameter dtype");
        return PPTO_OK;
    }
    NEED(p->op < PP_SCALAR_COUNT && pp_scalar_find((pp_op)p->op)->arity == p->n_operands, "another arity");
    ppto_dtype from = (ppto_dtype)pp_flat_type(flat, pp_flat_operands(flat, id)[p->op == PP_SELECT])->dtype;
    NEED(pp_scalar_accepts((pp_op)p->op, from), "the row does not take the dtype");
    if (p->op != PP_CAST && p->op != PP_BITCAST)
        NEED(pp_scalar_result((pp_op)p->op, from) == (ppto_dtype)type->dtype, "another result dtype");
    return PPTO_OK;
}

static ppto_status verify_fold(const pp_flat *flat, uint32_t id, pp_error *err)
{
    const pp_prim *p = pp_flat_prim(flat, id);
    const pp_monoid *m = p->u.fold.monoid;
    NEED(m != NULL && p->n_operands == m->n_inputs, "another number of inputs");
    for (uint32_t i = 0; i < p->n_operands; i++) {
        const pp_type *own = pp_flat_type(flat, pp_flat_operands(flat, id)[i]);
        NEED(same_shape(own, pp_flat_type(flat, pp_flat_operands(flat, id)[0])), "inputs of several shapes");
        ppto_dtype wanted = (ppto_dtype)(m->joined ? m->state[i] : m->lift->param[i]);
        NEED(own->dtype == wanted, "an input's dtype");
    }
    return PPTO_OK;
}

static ppto_status verify_prim(const pp_flat *flat, uint32_t id, pp_error *err)
{
    const pp_prim *p = pp_flat_prim(flat, id);
    NEED(p->kind <= PP_P_CHECK, "no such kind");
    for (uint32_t i = 0; i < p->n_operands; i++)
        NEED(pp_flat_operands(flat, id)[i] < id, "an operand is not earlier");
    switch (p->kind) {
    case PP_P_MAP: return verify_map(flat, id, err);
    case PP_P_REDUCE:
    case PP_P_SCAN: return verify_fold(flat, id, err);
    case PP_P_PART: {
        const pp_prim *of = pp_flat_prim(flat, pp_flat_operands(flat, id)[0]);
        NEED(of->kind == PP_P_REDUCE || of->kind == PP_P_SCAN, "part of no fold");
        NEED(p->number < (of->kind == PP_P_SCAN ? of->u.fold.monoid->n_states : of->u.fold.monoid->n_results),
             "no such component");
        return PPTO_OK;
    }
    case PP_P_COLD:
    case PP_P_TABLE: NEED(false, "stands outside a scalar function"); return PPTO_OK;
    case PP_P_RESHAPE:
        NEED(pp_type_elements(flat->types, pp_flat_type(flat, id)) ==
                 pp_type_elements(flat->types, pp_flat_type(flat, pp_flat_operands(flat, id)[0])),
             "another number of elements");
        return PPTO_OK;
    default: return PPTO_OK;
    }
}

ppto_status pp_flat_verify(const pp_flat *flat, pp_error *err)
{
    for (uint32_t id = 0; id < flat->prims.n; id++) PP_TRY(verify_prim(flat, id, err));
    for (size_t i = 0; i < flat->outputs.n; i++)
        if (flat->outputs.at[i] >= flat->prims.n)
            return pp_fail(err, PPTO_E_INTERNAL, "flat graph: no such output");
    return PPTO_OK;
}
