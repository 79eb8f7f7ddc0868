/* SPDX-License-Identifier: Apache-2.0
 * The loops of one fold: lanes, rows, join and scan (pp_fold_loops), by the laws of meaning.
 *
 * Each fold gets three inline helpers with results through pointers (lift_KEY, step_KEY, join_KEY), so that
 * one text of loops serves one state or four. The lane loop keeps 64 lanes per state in local arrays; rows
 * and lanes take four elements per lane in one pass where the step is short, so that states move to and from
 * memory once per four (more for narrow states). The scan runs over parts of 512 elements: the log steps go
 * over the whole part at once (join with the element `d` before, kept only where that lies in the same group
 * of 16), which vectorises where a loop over one group would not. */
#include <inttypes.h>
#include <string.h>

#include "devices/cpu/blocks.h"
#include "devices/cpu/functions_cut.h"
#include "kernel/walk.h"
#include "ops/scalar_text.h"

enum { SHORT_STEP = 24 };

typedef struct pp_fold_text {
    pp_text *out;
    const pp_fold *fold;
    uint64_t key;
} pp_fold_text;

uint64_t pp_fold_key(const pp_fold *fold)
{
    uint64_t h = pp_hash_mix(UINT64_C(0x666f6c64), pp_fold_lift_key(fold));
    h = pp_hash_mix(h, fold->step != NULL ? fold->step->hash : 0);
    return pp_hash_mix(h, fold->join->hash);
}

static const char *state_type(const pp_fold_text *t, unsigned s)
{
    return pp_scalar_c_type((ppto_dtype)t->fold->state[s]);
}

static const char *input_type(const pp_fold_text *t, unsigned i)
{
    const pp_fold *fold = t->fold;
    return pp_scalar_c_type((ppto_dtype)(fold->joined ? fold->state[i] : fold->lift->param[i]));
}

/* ---- templates ----------------------------------------------------------------------------------------- */

/* Lists over states or inputs in a template: $s{text} repeats the text for every state, $x{text} for every
 * input, with $i the number, $t its type; $K is the key. Items of $s, $x lists are as written, with their own
 * separators. */
static void fill_in(const pp_fold_text *t, const char *text, size_t n, char list, unsigned item)
{
    for (size_t at = 0; at < n; at++) {
        if (text[at] != '$') {
            pp_text_add(t->out, "%c", text[at]);
            continue;
        }
        const char kind = text[++at];
        if (kind == 'K') {
            pp_text_add(t->out, "%016" PRIx64, t->key);
        } else if (kind == 'i') {
            pp_text_add(t->out, "%u", item);
        } else if (kind == 't') {
            pp_text_add(t->out, "%s", list == 's' ? state_type(t, item) : input_type(t, item));
        } else {
            const char *body = text + at + 2;
            const size_t length = (size_t)((const char *)memchr(body, '}', n - at) - body);
            const unsigned count = kind == 's' ? t->fold->n_states : t->fold->n_inputs;
            for (unsigned i = 0; i < count; i++) fill_in(t, body, length, kind, i);
            at += length + 2;
        }
    }
}

static void emit(const pp_fold_text *t, const char *text)
{
    fill_in(t, text, strlen(text), ' ', 0);
}

/* ---- helpers ------------------------------------------------------------------------------------------- */

static void emit_call(const pp_fold_text *t, const pp_function *function, const char *args, bool position)
{
    pp_text_add(t->out, function->n_results == 1 ? "    *r0 = " : "    ");
    pp_render_function_name(function, t->out);
    pp_text_add(t->out, "(");
    emit(t, args);
    /* Lists end in ", ": whatever follows continues it, else a result pointer does, else it is cut. */
    if (position) pp_text_add(t->out, "k, ");
    for (unsigned r = 0; function->n_results > 1 && r < function->n_results; r++)
        pp_text_add(t->out, "r%u, ", r);
    if (!t->out->failed) t->out->n -= 2, t->out->at[t->out->n] = '\0';
    pp_text_add(t->out, ");\n");
}

static void emit_helpers(const pp_fold_text *t)
{
    const pp_fold *fold = t->fold;
    emit(t, "HELPER void join_$K($s{$t a$i, }$s{$t b$i, }$s{$t *r$i, }int unused)\n{\n    (void)unused;\n");
    emit_call(t, fold->join, "$s{a$i, }$s{b$i, }", false);
    emit(t, "}\n\nHELPER void lift_$K($x{$t x$i, }$s{$t *r$i, }int64_t k)\n{\n    (void)k;\n");
    if (fold->joined)
        emit(t, "$s{    *r$i = x$i;\n}");
    else
        emit_call(t, fold->lift, "$x{x$i, }", fold->position);
    emit(t, "}\n\nHELPER void step_$K($s{$t s$i, }$x{$t x$i, }$s{$t *r$i, }int64_t k)\n{\n    (void)k;\n");
    if (fold->step != NULL)
        emit_call(t, fold->step, "$s{s$i, }$x{x$i, }", fold->position);
    else
        emit(t, "$s{    $t t$i;\n}    lift_$K($x{x$i, }$s{&t$i, }k);\n    join_$K($s{s$i, }$s{t$i, }$s{r$i, "
                "}0);\n");
    emit(t, "}\n\n");
}

/* ---- states that are the same -------------------------------------------------------------------------- */

/* What each result depends on: a bit for every parameter. */
static void depends(const pp_function *f, uint32_t *result)
{
    const pp_pools pools = pp_function_pools(f);
    uint32_t *on = pp_calloc(f->n_code + 1u, sizeof *on);
    for (uint32_t at = 0; at < f->n_code; at++) {
        uint32_t operand[PP_MAX_OPERANDS];
        const unsigned n = pp_instr_operands(&pools, &f->code[at], operand);
        if (on == NULL) break;
        if (f->code[at].op == PP_PARAM) on[at] = UINT32_C(1) << f->code[at].imm;
        for (unsigned i = 0; i < n; i++) on[at] |= on[operand[i]];
    }
    for (unsigned r = 0; r < f->n_results; r++) result[r] = on != NULL ? on[f->result[r]] : UINT32_MAX;
    pp_free(on);
}

/* The states that depend on no element, a bit each: how many there were, say. They are the same in all lanes,
 * or columns, of one step; computed once for all, a division costs nothing. */
static uint32_t same_states(const pp_fold *fold)
{
    uint32_t lifted[4] = {0}, stepped[4] = {0}, same = 0, before;
    const unsigned n = fold->n_states;
    if (fold->joined) return 0;
    depends(fold->lift, lifted);
    depends(fold->step != NULL ? fold->step : fold->join, stepped);
    for (unsigned s = 0; s < n; s++) same |= (uint32_t)(lifted[s] == 0) << s;
    do {
        before = same;
        const uint32_t known = fold->step != NULL ? same : same | same << n;
        for (unsigned s = 0; s < n; s++)
            if ((stepped[s] & ~known) != 0) same &= ~(UINT32_C(1) << s);
    } while (same != before);
    return same;
}

/* ---- loops --------------------------------------------------------------------------------------------- */

#define LANES "void PP_NAME(pp_lanes_$K)(size_t n, void *const *state, const void *const *in, int64_t k0)"
#define ROWS                                                                                                 \
    "void PP_NAME(pp_rows_$K)(size_t rows, size_t n, void *const *state, const void *const *in,\n"           \
    "                      const size_t *in_stride, bool first, int64_t k0)"
#define JOINS "void PP_NAME(pp_joins_$K)(size_t n, void *const *a, const void *const *b)"
#define BEST                                                                                                 \
    "void PP_NAME(pp_best_$K)(size_t n, void *const *state, const void *const *in, int64_t k0, bool first)"
#define TURNED                                                                                               \
    "void PP_NAME(pp_turned_$K)(size_t n, size_t rows, void *const *state, const void *const *in, int64_t "  \
    "k0)"
#define SCAN "void PP_NAME(pp_scan_$K)(size_t n, void *const *out, const void *const *in, int64_t k0)"

/* Steps that select by position become branches when several are chained, and the loop stays scalar; lanes of
 * most of them have a form of their own (functions_position.c). */
static bool is_short(const pp_fold *fold)
{
    if (fold->position) return false;
    const uint32_t lift = fold->lift != NULL ? fold->lift->n_code : 0;
    return (fold->step != NULL ? fold->step->n_code : lift + fold->join->n_code) <= SHORT_STEP;
}

/* The states before the loop over lanes or columns: one element for all of them where they are the same. */
static void emit_same(const pp_fold_text *t, uint32_t same)
{
    for (unsigned s = 0; s < t->fold->n_states; s++)
        if (same >> s & 1) pp_text_add(t->out, "        const %s c%u = s%u[0];\n", state_type(t, s), s, s);
}

static void emit_states(const pp_fold_text *t, uint32_t same, char at)
{
    for (unsigned s = 0; s < t->fold->n_states; s++) {
        pp_text_add(t->out, "            %s t%u = ", state_type(t, s), s);
        if (same >> s & 1)
            pp_text_add(t->out, "c%u;\n", s);
        else
            pp_text_add(t->out, "s%u[%c];\n", s, at);
    }
}

/* for every lane: `count` elements 64 apart from element i on. */
static void emit_lane_pass(const pp_fold_text *t, const char *lanes, unsigned count)
{
    const uint32_t same = same_states(t->fold);
    emit_same(t, same);
    pp_text_add(t->out,
                "        for (size_t l = 0; l < %s; l++) {\n            const size_t i = j * 64 + l;\n",
                lanes);
    emit_states(t, same, 'l');
    for (unsigned q = 0; q < count; q++) {
        emit(t, "            step_$K($s{t$i, }");
        for (unsigned i = 0; i < t->fold->n_inputs; i++) pp_text_add(t->out, "x%u[i + %u], ", i, q * 64);
        emit(t, "$s{&t$i, }");
        pp_text_add(t->out, "k0 + (int64_t)i + %u);\n", q * 64);
    }
    emit(t, "$s{            s$i[l] = t$i;\n}        }\n");
}

/* How many elements a lane takes before its state goes back to memory: the narrower the states, the fewer
 * vectors hide that way, the more. */
static unsigned lane_passes(const pp_fold *fold)
{
    unsigned width = 8;
    for (unsigned s = 0; s < fold->n_states; s++) {
        const unsigned own = pp_dtype_width((ppto_dtype)fold->state[s]);
        if (own > width) width = own;
    }
    return !is_short(fold) ? 1 : width == 8 ? 16 : width == 16 ? 8 : 4;
}

static void emit_join_lane(const pp_fold_text *t)
{
    emit(t, "$s{            $t t$i;\n}            join_$K($s{s$i[l], }$s{s$i[l + h], }$s{&t$i, }0);\n"
            "$s{            s$i[l] = t$i;\n}        }\n");
}

static bool is_ordered(const pp_fold *fold)
{
    pp_positions positions;
    return pp_positions_find(fold, &positions) && pp_positions_ordered(fold, &positions);
}

/* The loops only folds with an order among their elements have. */
static void emit_ordered(const pp_fold_text *t)
{
    pp_positions positions;
    if (!pp_positions_find(t->fold, &positions) || !pp_positions_ordered(t->fold, &positions)) return;
    emit(t, BEST "\n{\n");
    pp_positions_best(t->out, t->fold, &positions);
    emit(t, TURNED "\n{\n");
    pp_positions_turned(t->out, t->fold, &positions);
}

static void emit_lanes(const pp_fold_text *t)
{
    pp_positions positions;
    if (pp_positions_find(t->fold, &positions)) {
        emit(t, LANES "\n{\n");
        pp_positions_lanes(t->out, t->fold, &positions);
        return;
    }
    emit(t,
         LANES "\n{\n"
               "$x{    const $t *const x$i = in[$i];\n}$s{    $t s$i[64];\n}"
               "    const size_t m = n < 64 ? n : 64, groups = n / 64;\n"
               "    size_t j = 1;\n"
               "    (void)k0;\n"
               "    for (size_t l = 0; l < m; l++) {\n$s{        $t t$i;\n}"
               "        lift_$K($x{x$i[l], }$s{&t$i, }k0 + (int64_t)l);\n$s{        s$i[l] = t$i;\n}    }\n");
    const unsigned passes = lane_passes(t->fold);
    if (passes > 1) {
        pp_text_add(t->out, "    for (; j + %u <= groups; j += %u) {\n", passes, passes);
        emit_lane_pass(t, "64", passes);
        pp_text_add(t->out, "    }\n");
    }
    pp_text_add(t->out, "    for (; j < groups; j++) {\n");
    emit_lane_pass(t, "64", 1);
    pp_text_add(t->out, "    }\n    if (groups > 0) {\n");
    emit_lane_pass(t, "n % 64", 1);
    emit(t, "    }\n    if (m == 64) {\n");
    for (unsigned h = 32; h > 0; h /= 2) {
        pp_text_add(t->out, "        for (size_t l = 0, h = %u; l < %u; l++) {\n", h, h);
        emit_join_lane(t);
    }
    emit(t, "    }\n    for (size_t h = m == 64 ? 0 : 32; h > 0; h /= 2) {\n"
            "        const size_t e = m <= h ? 0 : m - h < h ? m - h : h;\n"
            "        for (size_t l = 0; l < e; l++) {\n");
    emit_join_lane(t);
    emit(t, "    }\n$s{    *($t *)state[$i] = s$i[0];\n}}\n\n");
}

/* `count` rows from r on, for every column. */
static void emit_row_pass(const pp_fold_text *t, unsigned count)
{
    for (unsigned q = 0; q < count; q++)
        for (unsigned i = 0; i < t->fold->n_inputs; i++)
            pp_text_add(t->out,
                        "        const %s *const x%u_%u = (const void *)((const char *)in[%u] + (r + %u) * "
                        "in_stride[%u]);\n",
                        input_type(t, i), i, q, i, q, i);
    const uint32_t same = same_states(t->fold);
    emit_same(t, same);
    emit(t, "        PP_INDEPENDENT\n        for (size_t c = 0; c < n; c++) {\n");
    emit_states(t, same, 'c');
    for (unsigned q = 0; q < count; q++) {
        emit(t, "            step_$K($s{t$i, }");
        for (unsigned i = 0; i < t->fold->n_inputs; i++) pp_text_add(t->out, "x%u_%u[c], ", i, q);
        emit(t, "$s{&t$i, }");
        pp_text_add(t->out, "k0 + (int64_t)r + %u);\n", q);
    }
    emit(t, "$s{            s$i[c] = t$i;\n}        }\n");
}

static void emit_rows(const pp_fold_text *t)
{
    emit(t, ROWS
         "\n{\n"
         "$s{    $t *const s$i = state[$i];\n}    size_t r = 0;\n    (void)k0;\n"
         "    if (first && rows > 0) {\n$x{        const $t *const x$i = in[$i];\n}"
         "        PP_INDEPENDENT\n        for (size_t c = 0; c < n; c++) {\n$s{            $t t$i;\n}"
         "            lift_$K($x{x$i[c], }$s{&t$i, }k0);\n$s{            s$i[c] = t$i;\n}        }\n      "
         "  r = 1;\n    }\n");
    if (is_short(t->fold)) {
        pp_text_add(t->out, "    for (; r + 4 <= rows; r += 4) {\n");
        emit_row_pass(t, 4);
        pp_text_add(t->out, "    }\n");
    }
    pp_text_add(t->out, "    for (; r < rows; r++) {\n");
    emit_row_pass(t, 1);
    pp_text_add(t->out, "    }\n}\n\n");
}

static void emit_join(const pp_fold_text *t)
{
    emit(t, JOINS
         "\n{\n"
         "$s{    $t *const a$i = a[$i];\n}$s{    const $t *const b$i = b[$i];\n}"
         "    PP_INDEPENDENT\n    for (size_t i = 0; i < n; i++) {\n$s{        $t t$i;\n}"
         "        join_$K($s{a$i[i], }$s{b$i[i], }$s{&t$i, }0);\n$s{        a$i[i] = t$i;\n}    }\n}\n\n");
}

static void emit_log_step(const pp_fold_text *t, unsigned d, const char *from, const char *to)
{
    pp_text_add(t->out, "        for (size_t i = 0; i < m; i++) {\n");
    emit(t, "$s{            $t t$i;\n}            join_$K(");
    for (unsigned s = 0; s < t->fold->n_states; s++) pp_text_add(t->out, "%s%u[i + %u], ", from, s, 16 - d);
    for (unsigned s = 0; s < t->fold->n_states; s++) pp_text_add(t->out, "%s%u[i + 16], ", from, s);
    emit(t, "$s{&t$i, }0);\n");
    for (unsigned s = 0; s < t->fold->n_states; s++)
        pp_text_add(t->out, "            %s%u[i + 16] = (i & 15) >= %u ? t%u : %s%u[i + 16];\n", to, s, d, s,
                    from, s);
    pp_text_add(t->out, "        }\n");
}

static void emit_scan(const pp_fold_text *t)
{
    emit(t,
         SCAN "\n{\n"
              "$s{    $t *const y$i = out[$i];\n}$x{    const $t *const x$i = in[$i];\n}"
              "$s{    $t u$i[16 + 512], w$i[16 + 512], g$i = 0;\n}"
              "$s{    memset(u$i, 0, 16 * sizeof *u$i), memset(w$i, 0, 16 * sizeof *w$i);\n}"
              "    (void)k0;\n"
              "    for (size_t base = 0; base < n; base += 512) {\n"
              "        const size_t m = n - base < 512 ? n - base : 512;\n"
              "        for (size_t i = 0; i < m; i++) {\n$s{            $t t$i;\n}"
              "            lift_$K($x{x$i[base + i], }$s{&t$i, }k0 + (int64_t)(base + i));\n$s{            "
              "u$i[i + 16] = t$i;\n}        }\n");
    emit_log_step(t, 1, "u", "w");
    emit_log_step(t, 2, "w", "u");
    emit_log_step(t, 4, "u", "w");
    emit_log_step(t, 8, "w", "u");
    emit(t, "        for (size_t o = 0; o < m; o += 16) {\n"
            "            if (base + o > 0)\n                for (size_t l = 0; l < 16; l++) {\n$s{           "
            "         $t t$i;\n}"
            "                    join_$K($s{g$i, }$s{u$i[o + l + 16], }$s{&t$i, }0);\n"
            "$s{                    u$i[o + l + 16] = t$i;\n}                }\n"
            "$s{            g$i = u$i[o + 31];\n}        }\n"
            "$s{        memcpy(y$i + base, u$i + 16, m * sizeof *y$i);\n}    }\n}\n\n");
}

void pp_emit_fold_entry(const pp_fold *fold, pp_text *out)
{
    const pp_fold_text text = {.out = out, .fold = fold, .key = pp_fold_key(fold)};
    pp_text_add(out,
                "    {UINT64_C(0x%016" PRIx64 "), UINT64_C(0x%016" PRIx64 "), UINT64_C(0x%016" PRIx64 "),\n",
                pp_fold_lift_key(fold), fold->step != NULL ? fold->step->hash : 0, fold->join->hash);
    emit(&text, fold->joined ? "     0, " : "     PP_NAME(pp_lanes_$K), ");
    emit(&text, "PP_NAME(pp_rows_$K), PP_NAME(pp_joins_$K),\n");
    emit(&text, fold->joined ? "     0, " : "     PP_NAME(pp_scan_$K), ");
    emit(&text, is_ordered(fold) ? "PP_NAME(pp_best_$K), PP_NAME(pp_turned_$K)},\n" : "0, 0},\n");
}

void pp_emit_fold(pp_render *render, const pp_fold *fold)
{
    const pp_fold_text text = {.out = render->out, .fold = fold, .key = pp_fold_key(fold)};
    const pp_function *const part[] = {fold->lift, fold->step, fold->join};
    for (unsigned i = 0; i < 3; i++)
        if (part[i] != NULL) pp_render_function(render, part[i]);
    pp_positions positions;
    for (unsigned later = 0; later < 2 && pp_positions_find(fold, &positions); later++)
        pp_positions_join(render, fold, &positions, later > 0);
    emit_helpers(&text);
    if (!fold->joined) emit_lanes(&text);
    emit_ordered(&text);
    emit_rows(&text);
    emit_join(&text);
    if (!fold->joined) emit_scan(&text);
}

void pp_emit_fold_declarations(const pp_fold *fold, pp_text *out)
{
    const pp_fold_text text = {.out = out, .fold = fold, .key = pp_fold_key(fold)};
    emit(&text, ROWS ";\n" JOINS ";\n");
    if (!fold->joined) emit(&text, LANES ";\n" SCAN ";\n");
    if (is_ordered(fold)) emit(&text, BEST ";\n" TURNED ";\n");
}
