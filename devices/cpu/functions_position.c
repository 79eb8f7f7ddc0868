/* SPDX-License-Identifier: Apache-2.0
 * The lane loop of folds that carry a position they only compare and select (argmax and its like).
 *
 * The position is an i64 of the element, four or eight times as wide as most values, and a loop over mixed
 * widths is slow or not vectorised at all. Two facts allow a narrower one without another bit in the result.
 * Comparisons and selections commute with every map that keeps the order of positions: inside a lane the
 * number of the pass stands for the position, and inside a block (4096 elements) the offset. And a lane takes
 * its elements in order: the state's position always lies before the new element's, so their comparison is
 * known. `later` is the join with both facts applied, for the passes; `block` with the first one, for the
 * joining of lanes. */
#include <inttypes.h>
#include <string.h>

#include "devices/cpu/functions_cut.h"
#include "ops/scalar_text.h"

enum { ORDERED_MAX = 64 };

static bool only_param(const pp_function *f, uint32_t at, unsigned param)
{
    return f->code[at].op == PP_PARAM && f->code[at].imm == param;
}

/* The state whose lift is the position and nothing else that depends on it; n_states when there is none. */
static unsigned position_state(const pp_fold *fold)
{
    const pp_pools pools = pp_function_pools(fold->lift);
    unsigned found = fold->n_states;
    for (uint32_t i = 0; i < fold->lift->n_code; i++) {
        uint32_t operand[PP_MAX_OPERANDS];
        const unsigned n = pp_instr_operands(&pools, &fold->lift->code[i], operand);
        for (unsigned k = 0; k < n; k++)
            if (only_param(fold->lift, operand[k], fold->n_inputs)) return fold->n_states;
    }
    for (unsigned s = 0; s < fold->n_states; s++) {
        if (!only_param(fold->lift, fold->lift->result[s], fold->n_inputs)) continue;
        if (found < fold->n_states) return fold->n_states;
        found = s;
    }
    return found;
}

static bool compares(pp_op op)
{
    return op == PP_LT || op == PP_LE || op == PP_EQ || op == PP_NE;
}

/* Marks the positions in the join; false when something but a comparison or a selection takes one. */
static bool mark_positions(const pp_fold *fold, unsigned state, bool *position)
{
    const pp_function *f = fold->join;
    const pp_pools pools = pp_function_pools(f);
    for (uint32_t i = 0; i < f->n_code; i++) {
        uint32_t operand[PP_MAX_OPERANDS];
        const pp_instr *instr = &f->code[i];
        const unsigned n = pp_instr_operands(&pools, instr, operand);
        position[i] = only_param(f, i, state) || only_param(f, i, fold->n_states + state);
        if (instr->op == PP_SELECT && position[instr->b] && position[instr->c] && !position[instr->a]) {
            position[i] = true;
            continue;
        }
        unsigned taken = 0;
        for (unsigned k = 0; k < n; k++) taken += position[operand[k]];
        if (taken == 0) continue;
        if (taken != n || !compares((pp_op)instr->op)) return false;
        if (f->code[instr->a].op != PP_PARAM || f->code[instr->b].op != PP_PARAM) return false;
    }
    for (unsigned s = 0; s < fold->n_states; s++)
        if (position[f->result[s]] != (s == state)) return false;
    return true;
}

bool pp_positions_compared(const pp_fold *fold, unsigned state)
{
    bool position[ORDERED_MAX];
    return fold->join->n_code <= ORDERED_MAX && mark_positions(fold, state, position);
}

static unsigned widest(const pp_fold *fold, unsigned but)
{
    unsigned width = 8;
    for (unsigned s = 0; s < fold->n_states; s++) {
        const unsigned own = pp_dtype_width((ppto_dtype)fold->state[s]);
        if (s != but && own > width) width = own;
    }
    return width;
}

static ppto_dtype of_width(unsigned width)
{
    return width <= 8 ? PPTO_U8 : width <= 16 ? PPTO_U16 : width <= 32 ? PPTO_U32 : PPTO_I64;
}

bool pp_positions_find(const pp_fold *fold, pp_positions *out)
{
    bool position[ORDERED_MAX];
    *out = (pp_positions){0};
    if (fold->joined || !fold->position || fold->step != NULL || fold->join->n_code > ORDERED_MAX)
        return false;
    out->state = position_state(fold);
    if (out->state == fold->n_states || !mark_positions(fold, out->state, position)) return false;
    out->pass = of_width(widest(fold, out->state));
    out->offset = out->pass == PPTO_U8 ? PPTO_U16 : out->pass;
    return true;
}

/* ---- the two joins ------------------------------------------------------------------------------------- */

/* The answer of a comparison of positions where the left state's lies before the right one's. */
static bool answer(const pp_fold *fold, const pp_instr *instr)
{
    const pp_instr *code = fold->join->code;
    const bool a_right = code[instr->a].imm >= fold->n_states, b_right = code[instr->b].imm >= fold->n_states;
    if (a_right == b_right) return instr->op == PP_LE || instr->op == PP_EQ;
    return instr->op == PP_NE || (instr->op != PP_EQ && b_right);
}

void pp_positions_join(pp_render *render, const pp_fold *fold, const pp_positions *positions, bool later)
{
    pp_function f = *fold->join;
    pp_instr code[ORDERED_MAX];
    uint64_t consts[ORDERED_MAX + 2];
    bool position[ORDERED_MAX];
    if (f.n_consts > ORDERED_MAX || !mark_positions(fold, positions->state, position)) {
        render->status = PPTO_E_UNSUPPORTED;
        return;
    }
    memcpy(code, f.code, f.n_code * sizeof *code);
    if (f.n_consts > 0) memcpy(consts, f.consts, f.n_consts * sizeof *consts);
    consts[f.n_consts] = 0, consts[f.n_consts + 1] = 1;
    const uint8_t dtype = (uint8_t)(later ? positions->pass : positions->offset);
    for (uint32_t i = 0; i < f.n_code; i++) {
        if (position[i]) code[i].dtype = dtype;
        if (later && compares((pp_op)code[i].op) && position[code[i].a])
            code[i] = (pp_instr){.op = PP_CONST,
                                 .dtype = PPTO_BOOL,
                                 .imm = f.n_consts + (uint32_t)answer(fold, &fold->join->code[i])};
    }
    f.code = code;
    f.consts = consts;
    f.n_consts += 2;
    f.param[positions->state] = f.param[fold->n_states + positions->state] = dtype;
    f.hash = pp_positions_hash(fold, later);
    pp_render_function(render, &f);
}

uint64_t pp_positions_hash(const pp_fold *fold, bool later)
{
    return pp_hash_mix(fold->join->hash, later ? UINT64_C(0x6c61746572) : UINT64_C(0x626c6f636b));
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

typedef struct writer {
    pp_text *out;
    const pp_fold *fold;
    const pp_positions *positions;
    uint64_t key;
} writer;

static const char *type_of(const writer *t, unsigned s, bool later)
{
    if (s != t->positions->state) return pp_scalar_c_type((ppto_dtype)t->fold->state[s]);
    return pp_scalar_c_type(later ? t->positions->pass : t->positions->offset);
}

static void call_join(const writer *t, bool later)
{
    pp_function named = *t->fold->join;
    named.hash = pp_positions_hash(t->fold, later);
    pp_render_function_name(&named, t->out);
}

/* Lifts the element at index `i` of the inputs into l0, l1, …, the position left out. */
static void lift(const writer *t, unsigned indent)
{
    const unsigned n = t->fold->n_states;
    for (unsigned s = 0; s < n; s++)
        pp_text_add(t->out, "%*s%s l%u;\n", (int)indent, "", pp_scalar_c_type((ppto_dtype)t->fold->state[s]),
                    s);
    pp_text_add(t->out, "%*slift_%016" PRIx64 "(", (int)indent, "", t->key);
    for (unsigned x = 0; x < t->fold->n_inputs; x++) pp_text_add(t->out, "x%u[i], ", x);
    for (unsigned s = 0; s < n; s++) pp_text_add(t->out, "&l%u, ", s);
    pp_text_add(t->out, "0);\n");
}

/* Pass j over `lanes` lanes. */
static void pass(const writer *t, const char *lanes)
{
    const unsigned n = t->fold->n_states, p = t->positions->state;
    pp_text_add(t->out,
                "        for (size_t l = 0; l < %s; l++) {\n            const size_t i = j * 64 + l;\n",
                lanes);
    lift(t, 12);
    for (unsigned s = 0; s < n; s++) pp_text_add(t->out, "            %s t%u;\n", type_of(t, s, true), s);
    pp_text_add(t->out, "            ");
    call_join(t, true);
    pp_text_add(t->out, "(");
    for (unsigned s = 0; s < n; s++) pp_text_add(t->out, "s%u[l], ", s);
    for (unsigned s = 0; s < n; s++)
        if (s == p)
            pp_text_add(t->out, "(%s)j, ", type_of(t, s, true));
        else
            pp_text_add(t->out, "l%u, ", s);
    for (unsigned s = 0; s < n; s++) pp_text_add(t->out, "&t%u%s", s, s + 1 < n ? ", " : ");\n");
    for (unsigned s = 0; s < n; s++) pp_text_add(t->out, "            s%u[l] = t%u;\n", s, s);
    pp_text_add(t->out, "        }\n");
}

static void join_lane(const writer *t, const char *h)
{
    const unsigned n = t->fold->n_states;
    for (unsigned s = 0; s < n; s++) pp_text_add(t->out, "            %s t%u;\n", type_of(t, s, false), s);
    pp_text_add(t->out, "            ");
    call_join(t, false);
    pp_text_add(t->out, "(");
    for (unsigned side = 0; side < 2; side++)
        for (unsigned s = 0; s < n; s++)
            pp_text_add(t->out, "%c%u[l%s%s], ", s == t->positions->state ? 'q' : 's', s,
                        side > 0 ? " + " : "", side > 0 ? h : "");
    for (unsigned s = 0; s < n; s++) pp_text_add(t->out, "&t%u%s", s, s + 1 < n ? ", " : ");\n");
    for (unsigned s = 0; s < n; s++)
        pp_text_add(t->out, "            %c%u[l] = t%u;\n", s == t->positions->state ? 'q' : 's', s, s);
}

static void join_lanes(const writer *t)
{
    static const char *const half[] = {"32", "16", "8", "4", "2", "1"};
    pp_text_add(t->out, "    if (m == 64) {\n");
    for (unsigned i = 0; i < 6; i++) {
        pp_text_add(t->out, "        for (size_t l = 0; l < %s; l++) {\n", half[i]);
        join_lane(t, half[i]);
        pp_text_add(t->out, "        }\n");
    }
    pp_text_add(t->out, "    }\n    for (size_t h = m == 64 ? 0 : 32; h > 0; h /= 2) {\n"
                        "        const size_t e = m <= h ? 0 : m - h < h ? m - h : h;\n"
                        "        for (size_t l = 0; l < e; l++) {\n");
    join_lane(t, "h");
    pp_text_add(t->out, "        }\n    }\n");
}

void pp_positions_lanes(pp_text *out, const pp_fold *fold, const pp_positions *positions)
{
    const writer t = {out, fold, positions, pp_fold_key(fold)};
    const unsigned n = fold->n_states, p = positions->state;
    for (unsigned x = 0; x < fold->n_inputs; x++) {
        const char *type = pp_scalar_c_type((ppto_dtype)fold->lift->param[x]);
        pp_text_add(out, "    const %s *const x%u = in[%u];\n", type, x, x);
    }
    for (unsigned s = 0; s < n; s++) pp_text_add(out, "    %s s%u[64];\n", type_of(&t, s, true), s);
    pp_text_add(out, "    %s q%u[64];\n", type_of(&t, p, false), p);
    pp_text_add(out, "    const size_t m = n < 64 ? n : 64, groups = n / 64;\n    size_t j = 1;\n"
                     "    for (size_t l = 0; l < m; l++) {\n        const size_t i = l;\n");
    lift(&t, 8);
    for (unsigned s = 0; s < n; s++)
        if (s == p)
            pp_text_add(out, "        (void)l%u;\n        s%u[l] = 0;\n", s, s);
        else
            pp_text_add(out, "        s%u[l] = l%u;\n", s, s);
    pp_text_add(out, "    }\n    for (; j < groups; j++) {\n");
    pass(&t, "64");
    pp_text_add(out, "    }\n    if (groups > 0) {\n");
    pass(&t, "n % 64");
    pp_text_add(out, "    }\n    for (size_t l = 0; l < m; l++) q%u[l] = (%s)(s%u[l] * 64u + l);\n", p,
                type_of(&t, p, false), p);
    join_lanes(&t);
    for (unsigned s = 0; s < n; s++)
        if (s == p)
            pp_text_add(out, "    *(int64_t *)state[%u] = k0 + (int64_t)q%u[0];\n", s, s);
        else
            pp_text_add(out, "    *(%s *)state[%u] = s%u[0];\n", type_of(&t, s, true), s, s);
    pp_text_add(out, "}\n\n");
}
