/* SPDX-License-Identifier: Apache-2.0
 * Folds that pick the first of a total order (argmax and its like): the loops that follow.
 *
 * The join of such a fold only compares and selects, values with values and positions with positions. What it
 * answers then depends on nothing but the order among its operands, and of that there are few cases for three
 * elements: all are tried when the loops are generated. If the join is commutative and associative in each,
 * and always gives one of its operands whole, it is a total order, and the first of any number of elements is
 * the same in whatever order they are taken: with the bits of the law.
 *
 * So a row may be read against one running state. Whether some element of a piece comes before it is asked of
 * many elements at once, without selecting any; that is rare, and only then is the piece folded by lanes. And
 * short rows may be turned and folded one column after the other, all rows at once. */
#include <inttypes.h>
#include <string.h>

#include "devices/cpu/functions_cut.h"
#include "kernel/function_eval.h"
#include "ops/scalar_text.h"

enum { PIECE_BYTES = 4096, LANES = 64, ROWS = 64 };

/* ---- the proof ----------------------------------------------------------------------------------------- */

typedef struct element {
    uint64_t state[2];
} element;

/* Values of every order: two that are equal, two above them, and NaN. */
static unsigned samples(ppto_dtype dtype, uint64_t *out)
{
    static const uint64_t f32[] = {UINT64_C(0x80000000), 0, UINT64_C(0x3f800000), UINT64_C(0x40000000)};
    static const uint64_t f64[] = {UINT64_C(0x8000000000000000), 0, UINT64_C(0x3ff0000000000000),
                                   UINT64_C(0x4000000000000000)};
    static const uint64_t integer[] = {0, 1, 2};
    if (!pp_dtype_is_float(dtype)) {
        memcpy(out, integer, sizeof integer);
        return 3;
    }
    memcpy(out, dtype == PPTO_F32 ? f32 : f64, sizeof f32);
    out[4] = pp_dtype_canonical_nan(dtype);
    return 5;
}

static bool same(const element *a, const element *b)
{
    return a->state[0] == b->state[0] && a->state[1] == b->state[1];
}

static bool join(const pp_fold *fold, const element *a, const element *b, element *out)
{
    const uint64_t params[4] = {a->state[0], a->state[1], b->state[0], b->state[1]};
    uint64_t results[4];
    if (pp_function_eval(fold->join, params, results) != PPTO_OK) return false;
    memcpy(out->state, results, sizeof out->state);
    return same(out, a) || same(out, b);
}

static bool holds(const pp_fold *fold, const element *e)
{
    element ab, ba, bc, left, right;
    return join(fold, &e[0], &e[1], &ab) && join(fold, &e[1], &e[0], &ba) && same(&ab, &ba) &&
           join(fold, &e[1], &e[2], &bc) && join(fold, &ab, &e[2], &left) && join(fold, &e[0], &bc, &right) &&
           same(&left, &right);
}

bool pp_positions_ordered(const pp_fold *fold, const pp_positions *positions)
{
    static const uint64_t order[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const unsigned p = positions->state, v = 1 - p;
    uint64_t value[5];
    if (fold->n_states != 2 || !pp_positions_compared(fold, v)) return false;
    const unsigned n = samples((ppto_dtype)fold->state[v], value);
    for (unsigned i = 0; i < n * n * n * 6; i++) {
        const unsigned at[3] = {i / 6 % n, i / 6 / n % n, i / 6 / n / n};
        element e[3];
        for (unsigned k = 0; k < 3; k++) e[k].state[v] = value[at[k]], e[k].state[p] = order[i % 6][k];
        if (!holds(fold, e)) return false;
    }
    return true;
}

/* ---- templates ----------------------------------------------------------------------------------------- */

typedef struct writer {
    pp_text *out;
    const pp_fold *fold;
    const pp_positions *positions;
} writer;

static const char *type_of(const writer *w, unsigned s, bool pass)
{
    return pp_scalar_c_type(pass && s == w->positions->state ? w->positions->pass
                                                             : (ppto_dtype)w->fold->state[s]);
}

/* $v, $p: the numbers of the value and of the position; $V, $P: the value's type and that of narrow
 * positions; $K: the key; $X: the elements at index i of all inputs; $L: the join of a state and what comes
 * after it, on narrow positions. */
static void emit(const writer *w, const char *text)
{
    const unsigned p = w->positions->state;
    for (; *text != '\0'; text++) {
        if (*text != '$') {
            pp_text_add(w->out, "%c", *text);
            continue;
        }
        switch (*++text) {
        case 'v': pp_text_add(w->out, "%u", 1 - p); break;
        case 'p': pp_text_add(w->out, "%u", p); break;
        case 'V': pp_text_add(w->out, "%s", type_of(w, 1 - p, false)); break;
        case 'P': pp_text_add(w->out, "%s", type_of(w, p, true)); break;
        case 'K': pp_text_add(w->out, "%016" PRIx64, pp_fold_key(w->fold)); break;
        case 'X':
            for (unsigned x = 0; x < w->fold->n_inputs; x++) pp_text_add(w->out, "x%u[i], ", x);
            break;
        case 'L': {
            pp_function named = *w->fold->join;
            named.hash = pp_positions_hash(w->fold, true);
            pp_render_function_name(&named, w->out);
            break;
        }
        default: pp_text_add(w->out, "$"); break;
        }
    }
}

static void emit_inputs(const writer *w)
{
    for (unsigned x = 0; x < w->fold->n_inputs; x++)
        pp_text_add(w->out, "    const %s *const x%u = in[%u];\n",
                    pp_scalar_c_type((ppto_dtype)w->fold->lift->param[x]), x, x);
}

/* Declares l0, l1: the element at i, lifted; its position is left out. */
static void emit_lift(const writer *w)
{
    for (unsigned s = 0; s < 2; s++) pp_text_add(w->out, "            %s l%u;\n", type_of(w, s, false), s);
    emit(w, "            lift_$K($X&l0, &l1, 0);\n            (void)l$p;\n");
}

/* Declares t0, t1: the state v[r], p[r] joined with l and the position `at`. */
static void emit_later(const writer *w, const char *value, const char *position, const char *at)
{
    const unsigned p = w->positions->state;
    for (unsigned s = 0; s < 2; s++) pp_text_add(w->out, "            %s t%u;\n", type_of(w, s, true), s);
    emit(w, "            $L(");
    for (unsigned s = 0; s < 2; s++) pp_text_add(w->out, "%s, ", s == p ? position : value);
    for (unsigned s = 0; s < 2; s++)
        if (s == p)
            emit(w, "($P)"), pp_text_add(w->out, "%s, ", at);
        else
            pp_text_add(w->out, "l%u, ", s);
    pp_text_add(w->out, "&t0, &t1);\n");
}

/* ---- loops --------------------------------------------------------------------------------------------- */

/* found[l] is set where an element of lane l comes before the state. */
static void emit_ask(const writer *w, unsigned count)
{
    pp_text_add(w->out,
                "        for (; j + %u <= at + m; j += %u)\n            for (size_t l = 0; l < %d; l++) {\n",
                count * LANES, count * LANES, LANES);
    emit(w, "            $P u = found[l];\n            const size_t from = j + l;\n");
    for (unsigned q = 0; q < count; q++) {
        pp_text_add(w->out, "            {\n            const size_t i = from + %u;\n", q * LANES);
        emit_lift(w);
        emit_later(w, "s", "0", "1");
        emit(w, "            (void)t$v;\n            u = ($P)(u | t$p);\n            }\n");
    }
    pp_text_add(w->out, "            found[l] = u;\n            }\n");
}

/* What is left of a piece, less than the lanes, into `any`. */
static void emit_ask_rest(const writer *w)
{
    emit(w, "        $P any = 0;\n        for (; j < at + m; j++) {\n            const size_t i = j;\n");
    emit_lift(w);
    emit_later(w, "s", "0", "1");
    emit(w, "            (void)t$v;\n            any = ($P)(any | t$p);\n        }\n");
    pp_text_add(w->out, "        for (size_t l = 0; l < %d; l++) any |= found[l];\n", LANES);
}

/* The piece by lanes, joined with the state. */
static void emit_taken(const writer *w)
{
    pp_text_add(w->out, "        if (any == 0) continue;\n");
    for (unsigned s = 0; s < 2; s++)
        pp_text_add(w->out, "        %s e%u, o%u, *const s%u = state[%u];\n", type_of(w, s, false), s, s, s,
                    s);
    pp_text_add(w->out, "        void *const part[] = {&e0, &e1};\n        const void *const piece[] = {");
    for (unsigned x = 0; x < w->fold->n_inputs; x++) pp_text_add(w->out, "x%u + at, ", x);
    emit(w, "};\n        PP_NAME(pp_lanes_$K)(m, part, piece, k0 + (int64_t)at);\n"
            "        join_$K(*s0, *s1, e0, e1, &o0, &o1, 0);\n        *s0 = o0, *s1 = o1;\n");
}

void pp_positions_best(pp_text *out, const pp_fold *fold, const pp_positions *positions)
{
    const writer w = {out, fold, positions};
    const unsigned piece = PIECE_BYTES * 8 / pp_dtype_width(positions->pass);
    emit_inputs(&w);
    pp_text_add(out, "    size_t at = 0, m;\n    if (first) {\n        at = n < %u ? n : %u;\n",
                PP_LANE_BLOCK, PP_LANE_BLOCK);
    emit(&w, "        PP_NAME(pp_lanes_$K)(at, state, in, k0);\n    }\n");
    pp_text_add(out, "    for (; at < n; at += m) {\n        m = n - at < %u ? n - at : %u;\n", piece, piece);
    emit(&w, "        const $V s = *(const $V *)state[$v];\n        size_t j = at;\n"
             "        $P found[64];\n        for (size_t l = 0; l < 64; l++) found[l] = 0;\n");
    emit_ask(&w, 8);
    emit_ask(&w, 1);
    emit_ask_rest(&w);
    emit_taken(&w);
    pp_text_add(out, "    }\n}\n\n");
}

void pp_positions_turned(pp_text *out, const pp_fold *fold, const pp_positions *positions)
{
    const writer w = {out, fold, positions};
    emit_inputs(&w);
    emit(&w, "    $V *const values = state[$v];\n    int64_t *const places = state[$p];\n");
    pp_text_add(out,
                "    for (size_t from = 0; from < rows; from += %d) {\n"
                "        const size_t m = rows - from < %d ? rows - from : %d;\n",
                ROWS, ROWS, ROWS);
    emit(&w, "        $V v[64];\n        $P p[64];\n        for (size_t r = 0; r < m; r++) {\n"
             "            const size_t i = from + r;\n");
    emit_lift(&w);
    emit(&w, "            v[r] = l$v, p[r] = 0;\n        }\n        for (size_t k = 1; k < n; k++)\n"
             "        for (size_t r = 0; r < m; r++) {\n            const size_t i = k * rows + from + r;\n");
    emit_lift(&w);
    emit_later(&w, "v[r]", "p[r]", "k");
    emit(&w, "            v[r] = t$v, p[r] = t$p;\n        }\n        for (size_t r = 0; r < m; r++)\n"
             "            values[from + r] = v[r], places[from + r] = k0 + (int64_t)p[r];\n    }\n}\n\n");
}
