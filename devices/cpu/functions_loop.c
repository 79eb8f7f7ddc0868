/* SPDX-License-Identifier: Apache-2.0
 * The block loop of one scalar function.
 *
 * Without look-ups and cold regions it is one plain loop that compilers vectorise. Otherwise the block is
 * taken in chunks of CHUNK elements: for every segment its phases, then its cold regions. The hot loop only
 * ORs the masks; where one is set, a second loop writes the mask and the marked elements are
 * computed one by one. With look-ups a segment runs in steps of exactly STEP elements, so that the phases are
 * short loops of known length whose arrays compilers keep in registers, and a look-up is a register permute;
 * what is left of a block is padded with copies of its last element. A result that is a cold region is built
 * in place, unless the output is also an input. */
#include "devices/cpu/functions_cut.h"

#include <inttypes.h>
#include <stdarg.h>

#include "ops/scalar_text.h"

typedef struct pp_loop {
    pp_render *render;
    const pp_cut *cut;
    pp_text *out;
    unsigned indent;
    bool *needed;
    bool direct; /* every result is a cold region of the last segment, built in the output */
} pp_loop;

static const char *type_of(const pp_loop *loop, uint32_t at)
{
    return pp_scalar_c_type((ppto_dtype)loop->cut->pools.code[at].dtype);
}

static void line(pp_loop *loop, const char *format, ...) PP_PRINTF(2, 3);
static void line(pp_loop *loop, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pp_text_add(loop->out, "%*s", (int)loop->indent, "");
    pp_text_addv(loop->out, format, args);
    pp_text_add(loop->out, "\n");
    va_end(args);
}

static void open(pp_loop *loop, const char *text)
{
    line(loop, "%s {", text), loop->indent += 4;
}
static void close(pp_loop *loop)
{
    loop->indent -= 4, line(loop, "}");
}

static bool is_op(const pp_loop *loop, uint32_t at, pp_op op)
{
    return loop->cut->live[at] && loop->cut->pools.code[at].op == op;
}

static bool is_result(const pp_loop *loop, uint32_t at)
{
    for (unsigned r = 0; r < loop->cut->function->n_results; r++)
        if (loop->cut->result[r] == at) return true;
    return false;
}

/* ---- code of one loop ---------------------------------------------------------------------------------- */

static void start_need(pp_loop *loop)
{
    for (uint32_t i = 0; i < loop->cut->pools.n_code; i++) loop->needed[i] = false;
}

/* Masks are as wide as the value they are for: vectors of one width need no packing. */
static const char *mask_type(const pp_loop *loop, uint32_t at)
{
    const unsigned width = pp_dtype_width((ppto_dtype)loop->cut->pools.code[at].dtype);
    return width == 64 ? "uint64_t" : width == 32 ? "uint32_t" : "uint8_t";
}

/* Statements for all that is needed. Wide arrays are read at [i], those of one step at [l]. */
static void emit_needed(pp_loop *loop, uint32_t place)
{
    const pp_cut *cut = loop->cut;
    pp_cut_need(cut, place, loop->needed);
    for (uint32_t at = 0; at < cut->pools.n_code; at++) {
        const pp_instr *instr = &cut->pools.code[at];
        if (!loop->needed[at]) continue;
        if (instr->op == PP_PARAM)
            line(loop, "const %s v%u = p%u[i];", type_of(loop, at), at, instr->imm);
        else if (pp_cut_is_read(cut, at, place))
            line(loop, "const %s v%u = a%u[%s];", type_of(loop, at), at, at, cut->wide[at] ? "i" : "l");
        else if (cut->hidden[at])
            line(loop, "const %s v%u = bits_of_%s(v%u, nan_%s);", type_of(loop, at), at,
                 type_of(loop, instr->a), instr->a, type_of(loop, instr->a));
        else
            pp_render_statement(loop->render, &cut->pools, at, loop->indent);
    }
}

static bool needs_array(const pp_loop *loop, uint32_t at)
{
    return loop->cut->live[at] && loop->cut->stored[at] && !(loop->direct && is_result(loop, at));
}

static bool is_param(const pp_loop *loop, uint32_t at)
{
    return loop->cut->pools.code[at].op == PP_PARAM;
}

/* Operand i of a cold region's callee. */
static uint32_t cold_operand(const pp_loop *loop, uint32_t at, unsigned i)
{
    return loop->cut->pools.operands[loop->cut->pools.code[at].c + i];
}

static unsigned cold_params(const pp_loop *loop, uint32_t at)
{
    return loop->cut->pools.callees[loop->cut->pools.code[at].imm]->n_params;
}

static void need_cold(pp_loop *loop, uint32_t at)
{
    loop->needed[loop->cut->pools.code[at].a] = true;
    for (unsigned k = 0; k < cold_params(loop, at); k++)
        if (!is_param(loop, cold_operand(loop, at, k))) loop->needed[cold_operand(loop, at, k)] = true;
}

/* Stores the mask and the callee's operands that are no parameters. */
static void emit_cold_arrays(pp_loop *loop, uint32_t at)
{
    line(loop, "m%u[i] = v%u;", at, loop->cut->pools.code[at].a);
    for (unsigned k = 0; k < cold_params(loop, at); k++)
        if (!is_param(loop, cold_operand(loop, at, k)))
            line(loop, "m%u_%u[i] = v%u;", at, k, cold_operand(loop, at, k));
}

/* Whether the look-up needs an array made for its index, and is the first with this index. */
static bool is_first_lookup(const pp_loop *loop, uint32_t at)
{
    const uint32_t index = loop->cut->pools.code[at].a;
    if (pp_cut_index_is_stored(loop->cut, index)) return false;
    for (uint32_t i = 0; i < at; i++)
        if (is_op(loop, i, PP_TABLE) && loop->cut->pools.code[i].a == index) return false;
    return true;
}

/* The loop of one place: what later places need, look-up indices, hot values and masks; at the last place,
 * results. */
static void emit_phase(pp_loop *loop, uint32_t place, bool stepped)
{
    const pp_cut *cut = loop->cut;
    bool any = false;
    start_need(loop);
    for (uint32_t at = 0; at < cut->pools.n_code; at++) {
        if (!cut->live[at] || cut->place[at] != place) continue;
        const pp_instr *instr = &cut->pools.code[at];
        if (instr->op == PP_TABLE) {
            if (is_first_lookup(loop, at)) loop->needed[instr->a] = any = true;
        } else if (instr->op == PP_COLD)
            loop->needed[instr->a] = loop->needed[instr->b] = any = true;
        else if (cut->stored[at])
            loop->needed[at] = any = true;
        if (instr->op == PP_COLD && stepped) need_cold(loop, at);
    }
    const bool results = place == cut->last && !loop->direct;
    for (unsigned r = 0; results && r < cut->function->n_results; r++)
        loop->needed[cut->result[r]] = any = true;
    if (!any) return;
    line(loop, "PP_INDEPENDENT");
    open(loop, stepped ? "for (size_t l = 0; l < STEP; l++)" : "for (size_t i = 0; i < n; i++)");
    if (stepped) line(loop, "const size_t i = o + l;"), line(loop, "(void)i;");
    emit_needed(loop, place);
    for (uint32_t at = 0; at < cut->pools.n_code; at++) {
        if (!cut->live[at] || cut->place[at] != place) continue;
        const pp_instr *instr = &cut->pools.code[at];
        if (instr->op == PP_TABLE) {
            if (is_first_lookup(loop, at)) line(loop, "x%u[l] = (uint32_t)v%u;", instr->a, instr->a);
        } else if (instr->op == PP_COLD) {
            line(loop, "a%u[i] = v%u;", at, instr->b);
            if (stepped)
                emit_cold_arrays(loop, at);
            else
                line(loop, "any%u |= v%u;", at, instr->a);
        } else if (cut->stored[at]) {
            line(loop, "a%u[%s] = v%u;", at, cut->wide[at] ? "i" : "l", at);
        }
    }
    for (unsigned r = 0; results && r < cut->function->n_results; r++)
        line(loop, "r%u[i] = v%u;", r, cut->result[r]);
    close(loop);
}

/* ---- look-ups ------------------------------------------------------------------------------------------ */

static void emit_lookups(pp_loop *loop, uint32_t place)
{
    const pp_cut *cut = loop->cut;
    for (uint32_t at = 0; at < cut->pools.n_code; at++) {
        if (!is_op(loop, at, PP_TABLE) || cut->place[at] != place) continue;
        const pp_table *table = &cut->pools.tables[cut->pools.code[at].imm];
        const uint32_t index = cut->pools.code[at].a;
        const uint64_t hash = pp_render_table_hash(table);
        const char kind = pp_cut_index_is_stored(cut, index) ? 'a' : 'x';
        const char *offset = cut->wide[at] ? " + o" : "",
                   *from = kind == 'a' && cut->wide[index] ? " + o" : "";
        if (pp_dtype_width((ppto_dtype)table->dtype) == 32 && table->length <= 16)
            line(loop, "permute16(a%u%s, table_%016" PRIx64 ", %c%u%s);", at, offset, hash, kind, index,
                 from);
        else
            line(loop,
                 "for (size_t l = 0; l < STEP; l++) (a%u%s)[l] = table_%016" PRIx64 "[(%c%u%s)[l] & %uu];",
                 at, offset, hash, kind, index, from, table->length - 1);
    }
}

static uint32_t last_phase(const pp_loop *loop, uint32_t segment)
{
    uint32_t last = segment << 16;
    for (uint32_t at = 0; at < loop->cut->pools.n_code; at++) {
        const uint32_t from = loop->cut->from[at], place = loop->cut->place[at];
        if (!loop->cut->live[at]) continue;
        if (from >> 16 == segment && from > last) last = from;
        if (place >> 16 == segment && place > last) last = place;
    }
    return last;
}

static void emit_step_arrays(pp_loop *loop, uint32_t segment)
{
    for (uint32_t at = 0; at < loop->cut->pools.n_code; at++) {
        if (!loop->cut->live[at] || loop->cut->place[at] >> 16 != segment) continue;
        if (is_op(loop, at, PP_TABLE) && is_first_lookup(loop, at))
            line(loop, "uint32_t x%u[STEP];", loop->cut->pools.code[at].a);
        if (needs_array(loop, at) && !loop->cut->wide[at]) line(loop, "%s a%u[STEP];", type_of(loop, at), at);
    }
}

static void emit_steps(pp_loop *loop, uint32_t segment)
{
    const uint32_t last = last_phase(loop, segment);
    open(loop, "for (size_t o = 0; o < n; o += STEP)");
    emit_step_arrays(loop, segment);
    for (uint32_t place = segment << 16; place <= last; place++) {
        emit_phase(loop, place, true);
        emit_lookups(loop, place);
    }
    close(loop);
}

/* ---- cold regions -------------------------------------------------------------------------------------- */

static void emit_cold_declarations(pp_loop *loop, uint32_t at)
{
    line(loop, "%s any%u = 0;", mask_type(loop, at), at);
    line(loop, "%s m%u[CHUNK];", mask_type(loop, at), at);
    for (unsigned k = 0; k < cold_params(loop, at); k++)
        if (!is_param(loop, cold_operand(loop, at, k)))
            line(loop, "%s m%u_%u[CHUNK];", type_of(loop, cold_operand(loop, at, k)), at, k);
}

static void emit_cold_call(pp_loop *loop, uint32_t at)
{
    const pp_instr *instr = &loop->cut->pools.code[at];
    pp_text_add(loop->out, "%*sif (m%u[i]) a%u[i] = ", (int)loop->indent, "", at, at);
    pp_render_function_name(loop->cut->pools.callees[instr->imm], loop->out);
    for (unsigned k = 0; k < cold_params(loop, at); k++) {
        const uint32_t operand = cold_operand(loop, at, k);
        pp_text_add(loop->out, "%s", k > 0 ? ", " : "(");
        if (is_param(loop, operand))
            pp_text_add(loop->out, "p%u[i]", loop->cut->pools.code[operand].imm);
        else
            pp_text_add(loop->out, "m%u_%u[i]", at, k);
    }
    pp_text_add(loop->out, "%s);\n", cold_params(loop, at) == 0 ? "(" : "");
}

static void emit_cold(pp_loop *loop, uint32_t at, bool stepped)
{
    if (stepped) line(loop, "for (size_t i = 0; i < n; i++) any%u |= m%u[i];", at, at);
    pp_text_add(loop->out, "%*sif (any%u) {\n", (int)loop->indent, "", at);
    loop->indent += 4;
    if (!stepped) {
        start_need(loop);
        need_cold(loop, at);
        line(loop, "PP_INDEPENDENT");
        open(loop, "for (size_t i = 0; i < n; i++)");
        emit_needed(loop, loop->cut->place[at]);
        emit_cold_arrays(loop, at);
        close(loop);
    }
    line(loop, "for (size_t i = 0; i < n; i++)");
    loop->indent += 4;
    emit_cold_call(loop, at);
    loop->indent -= 4;
    close(loop);
}

static bool segment_has_table(const pp_loop *loop, uint32_t segment)
{
    for (uint32_t at = 0; at < loop->cut->pools.n_code; at++)
        if (is_op(loop, at, PP_TABLE) && loop->cut->place[at] >> 16 == segment) return true;
    return false;
}

static void emit_segment(pp_loop *loop, uint32_t segment)
{
    const bool stepped = segment_has_table(loop, segment);
    for (uint32_t at = 0; at < loop->cut->pools.n_code; at++)
        if (is_op(loop, at, PP_COLD) && loop->cut->place[at] >> 16 == segment)
            emit_cold_declarations(loop, at);
    if (stepped)
        emit_steps(loop, segment);
    else
        emit_phase(loop, segment << 16, false);
    for (uint32_t at = 0; at < loop->cut->pools.n_code; at++)
        if (is_op(loop, at, PP_COLD) && loop->cut->place[at] >> 16 == segment) emit_cold(loop, at, stepped);
}

/* ---- the chunk ----------------------------------------------------------------------------------------- */

/* All results are different cold regions that nothing else uses, available at the last place. */
static bool results_are_cold(const pp_loop *loop)
{
    const pp_cut *cut = loop->cut;
    for (unsigned r = 0; r < cut->function->n_results; r++) {
        const uint32_t result = cut->result[r];
        if (cut->pools.code[result].op != PP_COLD || cut->from[result] != cut->last) return false;
        for (unsigned q = 0; q < r; q++)
            if (cut->result[q] == result) return false;
    }
    for (uint32_t at = 0; at < cut->pools.n_code; at++)
        if (cut->live[at] && cut->place[at] >= cut->last) return false;
    return true;
}

static const char *result_type(const pp_loop *loop, unsigned r)
{
    return type_of(loop, loop->cut->result[r]);
}

static void emit_head(pp_loop *loop, const char *prefix)
{
    const pp_function *function = loop->cut->function;
    pp_text_add(loop->out, "static inline void %s_%016" PRIx64 "(size_t n", prefix, function->hash);
    for (unsigned r = 0; r < function->n_results; r++)
        pp_text_add(loop->out, ", %s *r%u", result_type(loop, r), r);
    for (unsigned p = 0; p < function->n_params; p++)
        pp_text_add(loop->out, ", const %s *p%u", pp_scalar_c_type((ppto_dtype)function->param[p]), p);
    pp_text_add(loop->out, ")\n{\n");
    loop->indent = 4;
    for (unsigned p = 0; p < function->n_params; p++) line(loop, "(void)p%u;", p);
}

static void emit_direct(pp_loop *loop)
{
    const pp_function *function = loop->cut->function;
    pp_text_add(loop->out, "    const int shared = 0");
    for (unsigned r = 0; r < function->n_results; r++)
        for (unsigned p = 0; p < function->n_params; p++)
            pp_text_add(loop->out, " | ((const void *)r%u == (const void *)p%u)", r, p);
    pp_text_add(loop->out, ";\n");
    for (unsigned r = 0; r < function->n_results; r++) {
        line(loop, "%s hot%u[CHUNK];", result_type(loop, r), r);
        line(loop, "%s *const a%u = shared ? hot%u : r%u;", result_type(loop, r), loop->cut->result[r], r, r);
    }
}

static void emit_chunk(pp_loop *loop)
{
    const pp_cut *cut = loop->cut;
    emit_head(loop, "chunk");
    if (cut->has_hidden) line(loop, "HIDDEN_NANS");
    if (loop->direct) emit_direct(loop);
    for (uint32_t at = 0; at < cut->pools.n_code; at++)
        if (needs_array(loop, at) && cut->wide[at]) line(loop, "%s a%u[CHUNK];", type_of(loop, at), at);
    const uint32_t segments = cut->last >> 16;
    for (uint32_t s = 0; s < segments + (loop->direct ? 0 : 1); s++) emit_segment(loop, s);
    for (unsigned r = 0; loop->direct && r < cut->function->n_results; r++)
        line(loop, "if (shared) memcpy(r%u, hot%u, n * sizeof *r%u);", r, r, r);
    pp_text_add(loop->out, "}\n\n");
}

/* ---- the block ----------------------------------------------------------------------------------------- */

static void emit_pointers(pp_loop *loop)
{
    const pp_function *function = loop->cut->function;
    for (unsigned r = 0; r < function->n_results; r++)
        line(loop, "%s *const r%u = out[%u];", result_type(loop, r), r, r);
    for (unsigned p = 0; p < function->n_params; p++) {
        const char *type = pp_scalar_c_type((ppto_dtype)function->param[p]);
        line(loop, "const %s *const p%u = in[%u];", type, p, p);
    }
    line(loop, "(void)in;");
}

/* Operands are named BEFORErN AFTER: "tail_" and "", or "" and " + i". */
static void emit_chunk_call(pp_loop *loop, const char *count, const char *before, const char *after)
{
    const pp_function *function = loop->cut->function;
    pp_text_add(loop->out, "%*schunk_%016" PRIx64 "(%s", (int)loop->indent, "", function->hash, count);
    for (unsigned r = 0; r < function->n_results; r++) pp_text_add(loop->out, ", %sr%u%s", before, r, after);
    for (unsigned p = 0; p < function->n_params; p++) pp_text_add(loop->out, ", %sp%u%s", before, p, after);
    pp_text_add(loop->out, ");\n");
}

static void emit_tail(pp_loop *loop)
{
    const pp_function *function = loop->cut->function;
    open(loop, "if (whole < n)");
    for (unsigned r = 0; r < function->n_results; r++)
        line(loop, "%s tail_r%u[STEP];", result_type(loop, r), r);
    for (unsigned p = 0; p < function->n_params; p++)
        line(loop, "%s tail_p%u[STEP];", pp_scalar_c_type((ppto_dtype)function->param[p]), p);
    open(loop, "for (size_t l = 0; l < STEP; l++)");
    line(loop, "const size_t i = whole + l < n ? whole + l : n - 1;");
    for (unsigned p = 0; p < function->n_params; p++) line(loop, "tail_p%u[l] = p%u[i];", p, p);
    line(loop, "(void)i;");
    close(loop);
    emit_chunk_call(loop, "STEP", "tail_", "");
    for (unsigned r = 0; r < function->n_results; r++)
        line(loop, "memcpy(r%u + whole, tail_r%u, (n - whole) * sizeof *r%u);", r, r, r);
    close(loop);
}

static void emit_block(pp_loop *loop)
{
    const pp_cut *cut = loop->cut;
    pp_text_add(loop->out,
                "void PP_NAME(pp_loop_%016" PRIx64
                ")(size_t n, void *const *out, const void *const *in)\n{\n",
                cut->function->hash);
    loop->indent = 4;
    emit_pointers(loop);
    if (!cut->has_table && !cut->has_cold) {
        if (cut->has_hidden) line(loop, "HIDDEN_NANS");
        emit_phase(loop, 0, false);
    } else {
        line(loop, "const size_t whole = n%s;", cut->has_table ? " / STEP * STEP" : "");
        line(loop, "for (size_t i = 0; i < whole; i += CHUNK)");
        loop->indent += 4;
        emit_chunk_call(loop, "whole - i < CHUNK ? whole - i : CHUNK", "", " + i");
        loop->indent -= 4;
        if (cut->has_table) emit_tail(loop);
    }
    pp_text_add(loop->out, "}\n\n");
}

ppto_status pp_emit_loop(pp_render *render, const pp_function *function)
{
    pp_cut cut;
    ppto_status status = pp_cut_build(function, &cut);
    pp_loop loop = {.render = render, .cut = &cut, .out = render->out};
    if (status == PPTO_OK) {
        loop.needed = pp_calloc(cut.code.n + 1, sizeof *loop.needed);
        loop.direct = cut.has_cold && results_are_cold(&loop);
        status = loop.needed != NULL ? PPTO_OK : PPTO_E_NOMEM;
    }
    if (status == PPTO_OK) {
        if (cut.has_table || cut.has_cold) emit_chunk(&loop);
        emit_block(&loop);
    }
    pp_free(loop.needed);
    pp_cut_free(&cut);
    return status;
}
