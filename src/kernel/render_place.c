/* SPDX-License-Identifier: Apache-2.0
 * C text of the instructions that only programs have: loads and stores at affine places, guards, checks,
 * args, and the values that come from folds, buffers and the contraction. Axes are iN, slots sN, tensors tN
 * with strides dN. */
#include <inttypes.h>

#include "kernel/draw.h"
#include "kernel/number.h"

void pp_draw_slot(pp_slot slot, pp_text *out)
{
    static const char *const fixed[] = {"0", "1", "-1"};
    if (slot < PP_SLOT_FIRST)
        pp_text_add(out, "%s", fixed[slot]);
    else
        pp_text_add(out, "s%u", slot);
}

static void draw_affine(const pp_program *p, uint32_t affine, pp_text *out)
{
    const pp_affine *a = &p->affines[affine];
    const char *plus = "";
    if (a->base != PP_SLOT_0 || (a->n_terms == 0 && a->value == PP_NONE))
        pp_draw_slot(a->base, out), plus = " + ";
    for (uint32_t i = 0; i < a->n_terms; i++, plus = " + ") {
        const pp_term *term = &p->terms[a->first_term + i];
        pp_text_add(out, "%s", plus);
        if (term->coef != PP_SLOT_1) pp_draw_slot(term->coef, out), pp_text_add(out, " * ");
        pp_text_add(out, "i%u", term->axis);
    }
    if (a->value != PP_NONE) pp_text_add(out, "%s(int64_t)v%u", plus, a->value);
}

static void draw_guards(const pp_program *p, uint32_t first, uint32_t count, pp_text *out)
{
    if (count == 0) pp_text_add(out, "1");
    for (uint32_t i = 0; i < count; i++) {
        const pp_guard *guard = &p->guards[first + i];
        pp_text_add(out, i > 0 ? " && " : "");
        pp_draw_slot(guard->lo, out);
        pp_text_add(out, " <= ");
        draw_affine(p, guard->affine, out);
        pp_text_add(out, " && ");
        draw_affine(p, guard->affine, out);
        pp_text_add(out, " < ");
        pp_draw_slot(guard->hi, out);
    }
}

static void draw_element(const pp_program *p, const pp_access *access, pp_text *out)
{
    const unsigned rank = p->tensors[access->tensor].rank;
    pp_text_add(out, "t%u[%s", access->tensor, rank == 0 ? "0" : "");
    for (unsigned d = 0; d < rank; d++) {
        pp_text_add(out, "%s(", d > 0 ? " + " : "");
        draw_affine(p, access->first_affine + d, out);
        pp_text_add(out, ") * d%u[%u]", access->tensor, d);
    }
    pp_text_add(out, "]");
}

static void draw_load(const pp_program *p, const pp_instr *instr, pp_text *out)
{
    const pp_access *access = &p->accesses[instr->imm];
    if (access->n_guards == 0) {
        draw_element(p, access, out);
        return;
    }
    pp_text_add(out, "(");
    draw_guards(p, access->first_guard, access->n_guards, out);
    pp_text_add(out, ") ? ");
    draw_element(p, access, out);
    pp_text_add(out, " : ");
    pp_number_c((ppto_dtype)instr->dtype, access->fill, out);
}

static void draw_bits(pp_draw *draw, const pp_instr *instr, pp_text *out)
{
    const ppto_dtype dtype = (ppto_dtype)instr->dtype;
    if (!pp_dtype_is_float(dtype)) {
        pp_text_add(out, "(%s)arg[%u]", pp_draw_type(instr->dtype), instr->imm);
        return;
    }
    draw->render->rows->canonical |= (uint16_t)(1u << dtype);
    pp_text_add(out, "pp_op_from_%s((uint%u_t)arg[%u])", ppto_dtype_name(dtype), pp_dtype_width(dtype),
                instr->imm);
}

/* The value of an instruction that functions do not have. */
static void draw_value(pp_draw *draw, const pp_instr *instr)
{
    const pp_program *p = draw->program;
    pp_text *out = draw->out;
    switch (instr->op) {
    case PP_ARG: draw_bits(draw, instr, out); break;
    case PP_INDEX: draw_affine(p, instr->imm, out); break;
    case PP_LOAD: draw_load(p, instr, out); break;
    case PP_INSIDE: draw_guards(p, instr->imm, instr->a, out); break;
    case PP_STATE: pp_text_add(out, "fold%u.x%u", instr->imm, instr->a); break;
    case PP_SCANNED: pp_text_add(out, "fold%u_run[j].x%u", instr->imm, instr->a); break;
    case PP_BUFFER: pp_text_add(out, "b%u[k]", instr->imm); break;
    case PP_PRODUCT: pp_text_add(out, "product"); break;
    default: break;
    }
}

static void draw_store(pp_draw *draw, const pp_instr *instr)
{
    const pp_program *p = draw->program;
    const pp_access *access = &p->accesses[instr->imm];
    const pp_tensor_slot *tensor = &p->tensors[access->tensor];
    const ppto_dtype dtype = (ppto_dtype)tensor->dtype;
    if (access->n_guards > 0) {
        pp_text_add(draw->out, "if (");
        draw_guards(p, access->first_guard, access->n_guards, draw->out);
        pp_text_add(draw->out, ") ");
    }
    draw_element(p, access, draw->out);
    if (tensor->result && pp_dtype_is_float(dtype)) {
        draw->render->rows->canonical |= (uint16_t)(1u << dtype);
        pp_text_add(draw->out, " = pp_op_canonical_%s(v%u);\n", ppto_dtype_name(dtype), instr->a);
    } else {
        pp_text_add(draw->out, " = v%u;\n", instr->a);
    }
}

static void draw_check(pp_draw *draw, const pp_instr *instr)
{
    const pp_program *p = draw->program;
    const ppto_dtype dtype = (ppto_dtype)instr->dtype;
    pp_text_add(draw->out, "if (!v%u && ", instr->a);
    draw_affine(p, p->checks[instr->imm].position, draw->out);
    pp_text_add(draw->out, " < failed[0]) failed[0] = ");
    draw_affine(p, p->checks[instr->imm].position, draw->out);
    pp_text_add(draw->out, ", failed[1] = %u, failed[2] = (int64_t)", instr->imm);
    if (pp_dtype_is_float(dtype)) {
        draw->render->rows->canonical |= (uint16_t)(1u << dtype);
        pp_text_add(draw->out, "pp_op_bits_%s(v%u);\n", ppto_dtype_name(dtype), instr->b);
    } else {
        pp_text_add(draw->out, "v%u;\n", instr->b);
    }
}

static void draw_effect(pp_draw *draw, const pp_instr *instr)
{
    pp_text_add(draw->out, "%*s", (int)draw->indent, "");
    if (instr->op == PP_STORE) draw_store(draw, instr);
    if (instr->op == PP_CHECK) draw_check(draw, instr);
    if (instr->op == PP_KEEP) pp_text_add(draw->out, "b%u[k] = v%u;\n", instr->imm, instr->a);
}

static bool is_of_functions(pp_op op)
{
    return op < PP_SCALAR_COUNT || op == PP_CONST || op == PP_TABLE || op == PP_CALL || op == PP_COLD;
}

void pp_draw_code(pp_draw *draw, uint32_t first, uint32_t count, const bool *needed)
{
    pp_text *functions = draw->render->out;
    for (uint32_t at = first; at < first + count; at++) {
        const pp_instr *instr = &draw->pools.code[at];
        if (needed != NULL && !needed[at]) continue;
        if (pp_instr_is_effect((pp_op)instr->op)) {
            draw_effect(draw, instr);
        } else if (is_of_functions((pp_op)instr->op)) {
            draw->render->out = draw->out;
            pp_render_statement(draw->render, &draw->pools, at, draw->indent);
            draw->render->out = functions;
        } else {
            pp_text_add(draw->out, "%*sconst %s v%u = ", (int)draw->indent, "", pp_draw_type(instr->dtype),
                        at);
            draw_value(draw, instr);
            pp_text_add(draw->out, ";\n");
        }
    }
}
