/* SPDX-License-Identifier: Apache-2.0
 * Kernels as C, each behind a comment that says what whoever calls it must give: the formula of every slot,
 * what every tensor is, and the value of every arg (docs/export.md). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kernel/number.h"
#include "kernel/program.h"
#include "runtime/report.h"

enum { DEEPEST = 8 }; /* of the formula of a number */

/* Floats in decimal, for people. */
static void add_bits(ppto_dtype dtype, uint64_t bits, pp_text *out)
{
    float f;
    double d;
    memcpy(&f, &bits, sizeof f);
    memcpy(&d, &bits, sizeof d);
    if (dtype == PPTO_F32)
        pp_text_add(out, "%.9g", (double)f);
    else if (dtype == PPTO_F64)
        pp_text_add(out, "%.17g", d);
    else
        pp_number_print(dtype, bits, out);
}

/* A number that is known before a launch: a literal's value, a name, a formula over such. */
static void add_number(const ppto_program *program, uint32_t id, int depth, pp_text *out)
{
    const pp_plan *plan = program->plan;
    const pp_prim *p = &plan->flat.prims.at[id];
    const uint32_t *operand = plan->flat.operands.at + p->first_operand;
    bool users = p->kind == PP_P_LITERAL && p->number != PP_NONE && p->number < program->n_literals;
    switch (p->kind) {
    case PP_P_LITERAL:
        add_bits((ppto_dtype)pp_flat_type(&plan->flat, id)->dtype,
                 users ? program->literals[p->number] : p->u.bits, out);
        return;
    case PP_P_INPUT: pp_text_add(out, "%s", plan->inputs.at[p->number].name); return;
    case PP_P_SIZE: pp_size_print(pp_types_sizes(plan->types), p->u.size, out); return;
    default: break;
    }
    bool cast = p->op == PP_CAST && p->n_operands == 1, call = p->op == PP_CALL;
    if (!cast) pp_text_add(out, "%s(", call ? "function" : pp_scalar_find((pp_op)p->op)->name);
    for (uint32_t k = 0; k < p->n_operands; k++) {
        pp_text_add(out, "%s", k > 0 ? ", " : "");
        if (depth < DEEPEST)
            add_number(program, operand[k], depth + 1, out);
        else
            pp_text_add(out, "...");
    }
    if (!cast) pp_text_add(out, ")");
}

/* The result of the program that a prim is; PP_NONE. */
static uint32_t result_of(const pp_plan *plan, uint32_t prim)
{
    for (size_t i = 0; i < plan->flat.outputs.n; i++)
        if (plan->flat.outputs.at[i] == prim) return (uint32_t)i;
    return PP_NONE;
}

static void add_tensor(const pp_plan *plan, size_t group, uint32_t t, pp_text *out)
{
    const pp_lowered_tensor *tensor = &plan->lowered[group].tensors.at[t];
    const pp_prim *p = &plan->flat.prims.at[tensor->prim];
    uint32_t result = result_of(plan, tensor->prim);
    pp_text_add(out, " * data[%" PRIu32 "], stride[%" PRIu32 "]: %s ", t, t,
                tensor->output ? "written," : "read,");
    if (!tensor->output && p->kind == PP_P_INPUT)
        pp_text_add(out, "input %s, ", plan->inputs.at[p->number].name);
    else if (result != PP_NONE)
        pp_text_add(out, "result %" PRIu32 ", ", result);
    else
        pp_text_add(out, "value %" PRIu32 " of kernel_%" PRIu32 ", ", tensor->prim,
                    plan->fused.stored_in[tensor->prim]);
    pp_type_print(plan->types, pp_flat_type(&plan->flat, tensor->prim), out);
    pp_text_add(out, "%s\n", tensor->linear ? ", as one axis of all its elements" : "");
}

static void add_legend(const ppto_program *program, size_t group, pp_text *out)
{
    const pp_plan *plan = program->plan;
    const pp_lowered *l = &plan->lowered[group];
    pp_text_add(out, "/* what kernel_%zu is called with; slot[0], slot[1], slot[2] = 0, 1, -1\n", group);
    for (uint32_t s = PP_SLOT_FIRST; s < l->slots.n; s++) {
        pp_text_add(out, " * slot[%" PRIu32 "] = ", s);
        pp_size_print(pp_types_sizes(plan->types), l->slots.at[s], out);
        pp_text_add(out, "\n");
    }
    for (uint32_t t = 0; t < l->tensors.n; t++) add_tensor(plan, group, t, out);
    for (uint32_t a = 0; a < l->args.n; a++) {
        pp_text_add(out, " * arg[%" PRIu32 "] = bits of %s: ", a,
                    ppto_dtype_name((ppto_dtype)l->args.at[a].dtype));
        add_number(program, l->args.at[a].prim, 0, out);
        pp_text_add(out, "\n");
    }
    pp_text_add(out, " */\n");
}

ppto_status pp_report_source(const ppto_program *program, pp_text *out)
{
    const pp_plan *plan = program->plan;
    pp_report_syncs(program, "/* ", " */", out);
    for (size_t g = 0; g < plan->fused.groups.n; g++) {
        char name[40];
        snprintf(name, sizeof name, "kernel_%zu", g);
        pp_text_add(out, "%s/* ---- %s (%s) ---- */\n", g ? "\n" : "", name, pp_report_kind(plan, g));
        add_legend(program, g, out);
        PP_TRY(pp_program_render(plan->lowered[g].program, name, out));
    }
    return PPTO_OK;
}
