/* SPDX-License-Identifier: Apache-2.0
 * Kernel programs and functions as text for people and for expected results of tests: one line per thing,
 * values as vN by their index in the code, slots as sN (0, 1 and -1 where fixed), axes as iN. The text shows
 * everything the hash covers, does not depend on addresses or on the order of pools that do not matter
 * (constants, tables, callees appear where they are used), and is the same on every machine. */
#include "kernel/number.h"
#include "kernel/walk.h"

const char *pp_op_name(pp_op op)
{
    static const char *const kernel_rows[] = {
        [PP_CONST - PP_CONST] = "const",   [PP_ARG - PP_CONST] = "arg",
        [PP_INDEX - PP_CONST] = "index",   [PP_TABLE - PP_CONST] = "table",
        [PP_LOAD - PP_CONST] = "load",     [PP_STORE - PP_CONST] = "store",
        [PP_CHECK - PP_CONST] = "check",   [PP_CALL - PP_CONST] = "call",
        [PP_COLD - PP_CONST] = "cold",     [PP_PARAM - PP_CONST] = "param",
        [PP_STATE - PP_CONST] = "state",   [PP_SCANNED - PP_CONST] = "scanned",
        [PP_BUFFER - PP_CONST] = "buffer", [PP_KEEP - PP_CONST] = "keep",
        [PP_INSIDE - PP_CONST] = "inside", [PP_PRODUCT - PP_CONST] = "product",
    };
    if (op >= PP_OP_COUNT) return "?";
    return op < PP_SCALAR_COUNT ? pp_scalar_find(op)->name : kernel_rows[op - PP_CONST];
}

/* ---- places -------------------------------------------------------------------------------------------- */

static void print_slot(pp_slot slot, pp_text *out)
{
    static const char *const fixed[] = {"0", "1", "-1"};
    if (slot < PP_SLOT_FIRST)
        pp_text_add(out, "%s", fixed[slot]);
    else
        pp_text_add(out, "s%u", slot);
}

static void print_affine(const pp_program *p, uint32_t affine, pp_text *out)
{
    const pp_affine *a = &p->affines[affine];
    const char *plus = "";
    if (a->base != PP_SLOT_0 || (a->n_terms == 0 && a->value == PP_NONE))
        print_slot(a->base, out), plus = " + ";
    for (uint32_t i = 0; i < a->n_terms; i++, plus = " + ") {
        const pp_term *term = &p->terms[a->first_term + i];
        pp_text_add(out, "%s", plus);
        if (term->coef != PP_SLOT_1) print_slot(term->coef, out), pp_text_add(out, "*");
        pp_text_add(out, "i%u", term->axis);
    }
    if (a->value != PP_NONE) pp_text_add(out, "%sv%u", plus, a->value);
}

static void print_guards(const pp_program *p, uint32_t first, uint32_t count, pp_text *out)
{
    for (uint32_t i = 0; i < count; i++) {
        const pp_guard *guard = &p->guards[first + i];
        pp_text_add(out, i > 0 ? ", " : "");
        print_slot(guard->lo, out);
        pp_text_add(out, " <= ");
        print_affine(p, guard->affine, out);
        pp_text_add(out, " < ");
        print_slot(guard->hi, out);
    }
}

static void print_access(const pp_program *p, uint32_t access, pp_text *out)
{
    const pp_access *a = &p->accesses[access];
    pp_text_add(out, "t%u[", a->tensor);
    for (uint32_t d = 0; d < p->tensors[a->tensor].rank; d++) {
        pp_text_add(out, d > 0 ? ", " : "");
        print_affine(p, a->first_affine + d, out);
    }
    pp_text_add(out, "]");
    if (a->n_guards == 0) return;
    pp_text_add(out, " if ");
    print_guards(p, a->first_guard, a->n_guards, out);
}

/* ---- code ---------------------------------------------------------------------------------------------- */

static void print_table(const pp_table *table, pp_text *out)
{
    pp_text_add(out, "[");
    for (uint32_t i = 0; i < table->length; i++) {
        pp_text_add(out, i > 0 ? ", " : "");
        pp_number_print((ppto_dtype)table->dtype, table->bits[i], out);
    }
    pp_text_add(out, "]");
}

static void print_operands(const pp_pools *pools, const pp_instr *instr, pp_text *out)
{
    uint32_t operand[PP_MAX_OPERANDS];
    unsigned n = pp_instr_operands(pools, instr, operand);
    for (unsigned i = 0; i < n; i++) pp_text_add(out, " v%u", operand[i]);
}

/* What stands before the operands. */
static void print_subject(const pp_pools *pools, const pp_program *p, const pp_instr *instr, pp_text *out)
{
    switch (instr->op) {
    case PP_CONST:
        pp_text_add(out, " "), pp_number_print((ppto_dtype)instr->dtype, pools->consts[instr->imm], out);
        break;
    case PP_TABLE: pp_text_add(out, " "), print_table(&pools->tables[instr->imm], out); break;
    case PP_CALL:
    case PP_COLD: pp_text_add(out, " %s", pools->callees[instr->imm]->name); break;
    case PP_ARG:
    case PP_PARAM: pp_text_add(out, " %u", instr->imm); break;
    case PP_STATE:
    case PP_SCANNED: pp_text_add(out, " fold%u.%u", instr->imm, instr->a); break;
    case PP_BUFFER:
    case PP_KEEP: pp_text_add(out, " b%u", instr->imm); break;
    case PP_INDEX: pp_text_add(out, " "), print_affine(p, instr->imm, out); break;
    case PP_LOAD:
    case PP_STORE: pp_text_add(out, " "), print_access(p, instr->imm, out); break;
    case PP_INSIDE: pp_text_add(out, " "), print_guards(p, instr->imm, instr->a, out); break;
    case PP_CHECK:
        pp_text_add(out, " ");
        pp_text_json(out, p->checks[instr->imm].message);
        pp_text_add(out, " at "), print_affine(p, p->checks[instr->imm].position, out);
        break;
    default: break;
    }
}

static void print_instr(const pp_pools *pools, const pp_program *p, uint32_t at, pp_text *out)
{
    const pp_instr *instr = &pools->code[at];
    if (pp_instr_is_effect((pp_op)instr->op))
        pp_text_add(out, "    %s", pp_op_name((pp_op)instr->op));
    else
        pp_text_add(out, "    v%u: %s = %s", at, ppto_dtype_name((ppto_dtype)instr->dtype),
                    pp_op_name((pp_op)instr->op));
    print_subject(pools, p, instr, out);
    print_operands(pools, instr, out);
    if (instr->op == PP_LOAD && p->accesses[instr->imm].n_guards > 0) {
        pp_text_add(out, " else ");
        pp_number_print((ppto_dtype)instr->dtype, p->accesses[instr->imm].fill, out);
    }
    pp_text_add(out, "\n");
}

void pp_instr_print(const pp_pools *pools, uint32_t at, pp_text *out)
{
    print_instr(pools, NULL, at, out);
}

static void print_region(const pp_program *p, uint32_t first, uint32_t count, pp_text *out)
{
    const pp_pools pools = pp_program_pools(p);
    for (uint32_t i = 0; i < count; i++) print_instr(&pools, p, first + i, out);
}

/* ---- programs ------------------------------------------------------------------------------------------ */

static void print_part(const char *title, const pp_function *function, pp_text *out)
{
    if (function != NULL) pp_text_add(out, "%s%s", title, function->name);
}

static void print_fold(const pp_program *p, uint32_t i, pp_text *out)
{
    const pp_fold *fold = &p->folds[i];
    pp_text_add(out, "    fold%u: ", i);
    for (unsigned s = 0; s < fold->n_states; s++)
        pp_text_add(out, "%s%s", s > 0 ? ", " : "", ppto_dtype_name((ppto_dtype)fold->state[s]));
    pp_text_add(out, " = %s%s", fold->law == PP_LAW_SCAN ? "scan" : "fold", fold->joined ? " of states" : "");
    for (unsigned k = 0; k < fold->n_inputs; k++) pp_text_add(out, " v%u", fold->input[k]);
    if (fold->position) pp_text_add(out, " position");
    print_part(" lift ", fold->lift, out);
    print_part(" step ", fold->step, out);
    print_part(" join ", fold->join, out);
    print_part(" finish ", fold->finish, out);
    pp_text_add(out, "\n");
}

static void print_head(const pp_program *p, pp_text *out)
{
    static const char *const frame[] = {"map", "lanes", "rows", "contract", "chain"};
    static const char *const role[] = {"outer ", "inner ", "batch ", "m ", "n ", "k "};
    pp_text_add(out, "program %s: %u slots, %u args\n", frame[p->frame], p->n_slots, p->n_args);
    for (uint32_t i = 0; i < p->n_axes; i++) {
        pp_text_add(out, "axis i%u: %s", i, role[p->axes[i].role]);
        print_slot(p->axes[i].size, out);
        pp_text_add(out, "\n");
    }
    for (uint32_t i = 0; i < p->n_tensors; i++) {
        const pp_tensor_slot *t = &p->tensors[i];
        pp_text_add(out, "tensor t%u: %s rank %u %s\n", i, ppto_dtype_name((ppto_dtype)t->dtype), t->rank,
                    t->result   ? "result"
                    : t->output ? "output"
                                : "input");
    }
    for (uint32_t i = 0; i < p->n_buffers; i++)
        pp_text_add(out, "buffer b%u: %s\n", i, ppto_dtype_name((ppto_dtype)p->buffers[i].dtype));
}

static void print_locals(const pp_program *p, pp_text *out)
{
    for (uint32_t i = 0; i < p->n_locals; i++) {
        const pp_local *local = &p->locals[i];
        pp_text_add(out, "local l%u: %s [", i, ppto_dtype_name((ppto_dtype)local->dtype));
        for (uint32_t d = 0; d < local->rank; d++) {
            pp_text_add(out, "%s", d == 0 ? "" : d == local->rows ? "; " : ", ");
            print_slot(local->dim[d], out);
        }
        pp_text_add(out, "], place %u\n", local->place);
    }
}

static void print_chain_part(const pp_program *p, uint32_t number, pp_text *out)
{
    const pp_chain_part *part = &p->parts[number];
    pp_text_add(out, "part %u:", number);
    for (uint32_t t = 0; t < part->program->n_tensors; t++) {
        const bool local = part->tensor[t] >= p->n_tensors;
        pp_text_add(out, " t%u = %c%u", t, local ? 'l' : 't',
                    local ? part->tensor[t] - p->n_tensors : part->tensor[t]);
    }
    pp_text_add(out, "\n");
    pp_program_print(part->program, out);
}

void pp_program_print(const pp_program *p, pp_text *out)
{
    print_head(p, out);
    print_locals(p, out);
    for (uint32_t i = 0; i < p->n_parts; i++) print_chain_part(p, i, out);
    if (p->frame == PP_FRAME_CONTRACT) {
        const pp_contract *c = &p->contract;
        pp_text_add(out, "left v%u\n", c->a_value);
        print_region(p, c->a_first, c->a_count, out);
        pp_text_add(out, "right v%u\n", c->b_value);
        print_region(p, c->b_first, c->b_count, out);
    }
    for (uint32_t s = 0; s < p->n_stages; s++) {
        const pp_stage *stage = &p->stages[s];
        pp_text_add(out, "stage %u: outer%s\n", s, stage->inner ? " x inner" : "");
        print_region(p, stage->first, stage->count, out);
        for (uint32_t f = 0; f < stage->n_folds; f++) print_fold(p, stage->first_fold + f, out);
    }
}

void pp_function_print(const pp_function *function, pp_text *out)
{
    const pp_pools pools = pp_function_pools(function);
    pp_text_add(out, "function %s(", function->name);
    for (unsigned i = 0; i < function->n_params; i++)
        pp_text_add(out, "%s%s", i > 0 ? ", " : "", ppto_dtype_name((ppto_dtype)function->param[i]));
    pp_text_add(out, ")");
    for (unsigned i = 0; i < function->n_results; i++) pp_text_add(out, " v%u", function->result[i]);
    pp_text_add(out, "\n");
    for (uint32_t i = 0; i < function->n_code; i++) pp_instr_print(&pools, i, out);
}
