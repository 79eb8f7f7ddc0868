/* SPDX-License-Identifier: Apache-2.0
 * C text of straight-line code and of scalar functions.
 *
 * Every value is one `const` local, so the text reads like the printed program and no compiler sees an order
 * of evaluation of its own. Functions are called by name and hash: two versions of one operator never clash.
 * A COLD region is a conditional call. */
#include "kernel/render.h"

#include <inttypes.h>
#include <stdio.h>

#include "kernel/number.h"
#include "ops/scalar_text.h"

void pp_render_free(pp_render *render)
{
    pp_vec_free(&render->done);
}

bool pp_render_once(pp_render *render, uint64_t hash)
{
    for (size_t i = 0; i < render->done.n; i++)
        if (render->done.at[i] == hash) return false;
    if (render->status == PPTO_OK) render->status = pp_vec_push(&render->done, hash);
    return render->status == PPTO_OK;
}

uint64_t pp_render_table_hash(const pp_table *table)
{
    uint64_t h = pp_hash_mix(pp_hash_mix(UINT64_C(0x7461626c65), table->dtype), table->length);
    for (uint32_t i = 0; i < table->length; i++) h = pp_hash_mix(h, table->bits[i]);
    return h;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

void pp_render_function_name(const pp_function *function, pp_text *out)
{
    pp_text_add(out, "fn_");
    for (const char *c = function->name; *c != '\0'; c++) pp_text_add(out, "%c", is_word(*c) ? *c : '_');
    pp_text_add(out, "_%016" PRIx64, function->hash);
}

void pp_render_table(const pp_table *table, const char *name, uint32_t length, pp_text *out)
{
    pp_text_add(out, "static const %s %s[%u] = {", pp_scalar_c_type((ppto_dtype)table->dtype), name, length);
    for (uint32_t i = 0; i < length; i++) {
        pp_text_add(out, i % 4 == 0 ? "\n    " : " ");
        pp_number_c((ppto_dtype)table->dtype, table->bits[i % table->length], out);
        pp_text_add(out, ",");
    }
    pp_text_add(out, "\n};\n");
}

void pp_render_needs(pp_render *render, const pp_pools *pools)
{
    for (uint32_t i = 0; i < pools->n_code; i++) {
        const pp_instr *instr = &pools->code[i];
        if (instr->op == PP_CALL || instr->op == PP_COLD)
            pp_render_function(render, pools->callees[instr->imm]);
        if (instr->op != PP_TABLE) continue;
        const pp_table *table = &pools->tables[instr->imm];
        const uint64_t hash = pp_render_table_hash(table);
        if (!pp_render_once(render, hash)) continue;
        const bool repeated =
            table->length < render->least_table && pp_dtype_width((ppto_dtype)table->dtype) == 32;
        char name[32];
        snprintf(name, sizeof name, "table_%016" PRIx64, hash);
        pp_render_table(table, name, repeated ? render->least_table : table->length, render->out);
        pp_text_add(render->out, "\n");
    }
}

/* ---- statements ---------------------------------------------------------------------------------------- */

static void add_list(const uint32_t *operand, unsigned n, pp_text *out)
{
    for (unsigned i = 0; i < n; i++) pp_text_add(out, "%sv%u", i > 0 ? ", " : "", operand[i]);
}

static void scalar_call(pp_render *render, const pp_pools *pools, const pp_instr *instr)
{
    char name[PP_SCALAR_NAME_SIZE];
    uint32_t operand[PP_MAX_OPERANDS];
    const unsigned n = pp_instr_operands(pools, instr, operand);
    const ppto_dtype from = pp_instr_operand_dtype(pools->code, instr, instr->op == PP_SELECT ? 1 : 0);
    if (pp_scalar_c_name((pp_op)instr->op, from, (ppto_dtype)instr->dtype, name) == NULL) {
        render->status = PPTO_E_INTERNAL;
        return;
    }
    if (render->rows != NULL) pp_rows_add(render->rows, pools, instr);
    pp_text_add(render->out, "%s(", name);
    add_list(operand, n, render->out);
    pp_text_add(render->out, ")");
}

static void call(pp_render *render, const pp_pools *pools, const pp_instr *instr)
{
    uint32_t operand[PP_MAX_OPERANDS];
    const unsigned n = pp_instr_operands(pools, instr, operand), first = instr->op == PP_COLD ? 2 : 0;
    if (instr->op == PP_COLD) pp_text_add(render->out, "v%u ? ", instr->a);
    pp_render_function_name(pools->callees[instr->imm], render->out);
    pp_text_add(render->out, "(");
    add_list(operand + first, n - first, render->out);
    pp_text_add(render->out, ")");
    if (instr->op == PP_COLD) pp_text_add(render->out, " : v%u", instr->b);
}

void pp_render_statement(pp_render *render, const pp_pools *pools, uint32_t at, unsigned indent)
{
    const pp_instr *instr = &pools->code[at];
    const ppto_dtype dtype = (ppto_dtype)instr->dtype;
    pp_text *out = render->out;
    pp_text_add(out, "%*sconst %s v%u = ", (int)indent, "", pp_scalar_c_type(dtype), at);
    switch (instr->op) {
    case PP_CONST: pp_number_c(dtype, pools->consts[instr->imm], out); break;
    case PP_PARAM: pp_text_add(out, "p%u", instr->imm); break;
    case PP_TABLE:
        pp_text_add(out, "table_%016" PRIx64 "[(uint32_t)v%u & %uu]",
                    pp_render_table_hash(&pools->tables[instr->imm]), instr->a,
                    pools->tables[instr->imm].length - 1);
        break;
    case PP_CALL:
    case PP_COLD: call(render, pools, instr); break;
    default: scalar_call(render, pools, instr); break;
    }
    pp_text_add(out, ";\n");
}

/* ---- functions ----------------------------------------------------------------------------------------- */

static void function_head(const pp_function *function, pp_text *out)
{
    const ppto_dtype first = (ppto_dtype)function->code[function->result[0]].dtype;
    const char *comma = "";
    pp_text_add(out, "static inline %s ", function->n_results == 1 ? pp_scalar_c_type(first) : "void");
    pp_render_function_name(function, out);
    pp_text_add(out, "(");
    for (unsigned i = 0; i < function->n_params; i++, comma = ", ")
        pp_text_add(out, "%s%s p%u", comma, pp_scalar_c_type((ppto_dtype)function->param[i]), i);
    for (unsigned i = 0; function->n_results > 1 && i < function->n_results; i++, comma = ", ")
        pp_text_add(out, "%s%s *r%u", comma,
                    pp_scalar_c_type((ppto_dtype)function->code[function->result[i]].dtype), i);
    pp_text_add(out, "%s)\n{\n", comma[0] == '\0' ? "void" : "");
}

/* Parameters that no instruction reads still are parameters: (void) keeps compilers quiet. */
static void unused_params(const pp_function *function, pp_text *out)
{
    uint32_t seen = 0;
    for (uint32_t i = 0; i < function->n_code; i++)
        if (function->code[i].op == PP_PARAM) seen |= UINT32_C(1) << function->code[i].imm;
    for (unsigned i = 0; i < function->n_params; i++)
        if ((seen >> i & 1) == 0) pp_text_add(out, "    (void)p%u;\n", i);
}

void pp_render_function(pp_render *render, const pp_function *function)
{
    const pp_pools pools = pp_function_pools(function);
    pp_text *out = render->out;
    if (!pp_render_once(render, function->hash)) return;
    bool *needed = pp_calloc(function->n_code + 1u, sizeof *needed);
    if (needed == NULL) {
        render->status = PPTO_E_NOMEM;
        return;
    }
    pp_render_needs(render, &pools);
    function_head(function, out);
    unused_params(function, out);
    for (unsigned i = 0; i < function->n_results; i++) needed[function->result[i]] = true;
    for (uint32_t i = function->n_code; i-- > 0;) {
        uint32_t operand[PP_MAX_OPERANDS];
        const unsigned n = needed[i] ? pp_instr_operands(&pools, &function->code[i], operand) : 0;
        for (unsigned k = 0; k < n; k++) needed[operand[k]] = true;
    }
    for (uint32_t i = 0; i < function->n_code; i++)
        if (needed[i]) pp_render_statement(render, &pools, i, 4);
    if (function->n_results == 1) pp_text_add(out, "    return v%u;\n", function->result[0]);
    for (unsigned i = 0; function->n_results > 1 && i < function->n_results; i++)
        pp_text_add(out, "    *r%u = v%u;\n", i, function->result[i]);
    pp_text_add(out, "}\n\n");
    pp_free(needed);
}

ppto_status pp_function_render(const pp_function *function, pp_text *out)
{
    pp_render render = {.out = out};
    pp_render_function(&render, function);
    pp_render_free(&render);
    if (render.status == PPTO_OK && out->failed) return PPTO_E_NOMEM;
    return render.status;
}
