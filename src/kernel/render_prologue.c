/* SPDX-License-Identifier: Apache-2.0
 * The scalar primitives as C99 text for exported programs: only those used, each a small function.
 *
 * One template per row and kind of dtype. Placeholders:
 *   $T type, $d suffix ("f32"), $U unsigned type for wrapping arithmetic (at least 32 bits), $w width, $B
 * unsigned type of the same width, $S sign bit, $N bits of the canonical NaN, $F bits of infinity, $p
 * fraction bits, $P 2^p as a float, $s suffix of builtins (f or nothing), $V the type twice as wide casts: $R
 * type, $r suffix of the result; $L, $M bounds as floats, $I, $X least and greatest result
 * ops/scalar_inline.h defines the same functions for the library's own loops, written for vectorisers; this
 * text is written to be read, and tests compare both with pp_scalar_eval. */
#include "kernel/render.h"
#include "ops/scalar_text.h"

#include <stdio.h>
#include <string.h>

/* ---- templates ----------------------------------------------------------------------------------------- */

#define HEAD1 "static inline $T pp_op_"
#define ONE(name) HEAD1 #name "_$d($T a)"
#define TWO(name) HEAD1 #name "_$d($T a, $T b)"

static const char float_base[] =
    "static inline $B pp_op_bits_$d($T a) { $B u; memcpy(&u, &a, sizeof u); return u; }\n"
    "static inline $T pp_op_from_$d($B u) { $T a; memcpy(&a, &u, sizeof a); return a; }\n"
    "static inline $B pp_op_canonical_bits_$d($T a) { return a == a ? pp_op_bits_$d(a) : $N; }\n"
    "static inline $T pp_op_canonical_$d($T a) { return pp_op_from_$d(pp_op_canonical_bits_$d(a)); }\n";

static const char *const any_row[PP_SCALAR_COUNT] = {
    [PP_EQ] = "static inline uint8_t pp_op_eq_$d($T a, $T b) { return a == b; }\n",
    [PP_NE] = "static inline uint8_t pp_op_ne_$d($T a, $T b) { return a != b; }\n",
    [PP_LT] = "static inline uint8_t pp_op_lt_$d($T a, $T b) { return a < b; }\n",
    [PP_LE] = "static inline uint8_t pp_op_le_$d($T a, $T b) { return a <= b; }\n",
    [PP_SELECT] = "static inline $T pp_op_select_$d(uint8_t c, $T a, $T b) { return c ? a : b; }\n",
    [PP_AND] = TWO(and) " { return ($T)(a & b); }\n",
    [PP_OR] = TWO(or) " { return ($T)(a | b); }\n",
    [PP_XOR] = TWO(xor) " { return ($T)(a ^ b); }\n",
};

static const char *const float_row[PP_SCALAR_COUNT] = {
    [PP_ADD] = TWO(add) " { return a + b; }\n",
    [PP_SUB] = TWO(sub) " { return a - b; }\n",
    [PP_MUL] = TWO(mul) " { return a * b; }\n",
    [PP_DIV] = TWO(div) " { return a / b; }\n",
    [PP_FMA] = HEAD1 "fma_$d($T a, $T b, $T c) { return __builtin_fma$s(a, b, c); }\n",
    [PP_SQRT] = ONE(sqrt) " { return __builtin_sqrt$s(a); }\n",
    [PP_NEG] = ONE(neg) " { return -a; }\n",
    [PP_ABS] = ONE(abs) " { return pp_op_from_$d(pp_op_bits_$d(a) & ~$S); }\n",
    [PP_COPYSIGN] = TWO(copysign) "\n{\n"
                                  "    const $B sign = b == b ? pp_op_bits_$d(b) & $S : 0;\n"
                                  "    return pp_op_from_$d((pp_op_bits_$d(a) & ~$S) | sign);\n}\n",
    [PP_SIGNBIT] =
        "static inline uint8_t pp_op_signbit_$d($T a) { return a == a && (pp_op_bits_$d(a) & $S) != 0; }\n",
    [PP_MIN] = TWO(
        min) "\n{\n    if (a != a) return a;\n    if (b != b) return b;\n"
             "    return a < b ? a : b < a ? b : pp_op_from_$d(pp_op_bits_$d(a) | pp_op_bits_$d(b));\n}\n",
    [PP_MAX] = TWO(
        max) "\n{\n    if (a != a) return a;\n    if (b != b) return b;\n"
             "    return a > b ? a : b > a ? b : pp_op_from_$d(pp_op_bits_$d(a) & pp_op_bits_$d(b));\n}\n",
    [PP_RINT] = ONE(rint) "\n{\n    const $T t = pp_op_abs_$d(a);\n"
                          "    return pp_op_copysign_$d(t < $P ? (t + $P) - $P : t, a);\n}\n",
    [PP_FLOOR] = ONE(floor) "\n{\n    const $T r = pp_op_rint_$d(a);\n"
                            "    return pp_op_copysign_$d(r > a ? r - 1 : r, a);\n}\n",
    [PP_CEIL] = ONE(ceil) "\n{\n    const $T r = pp_op_rint_$d(a);\n"
                          "    return pp_op_copysign_$d(r < a ? r + 1 : r, a);\n}\n",
    [PP_TRUNC] = ONE(trunc) " { return pp_op_copysign_$d(pp_op_floor_$d(pp_op_abs_$d(a)), a); }\n",
    [PP_FMOD] = TWO(
        fmod) "\n{\n"
              "    const $B x = pp_op_bits_$d(a) & ~$S, y = pp_op_bits_$d(b) & ~$S, hidden = ($B)1 << $p;\n"
              "    if (x >= $F || y > $F || y == 0) return pp_op_from_$d($N);\n"
              "    if (x < y) return a;\n"
              "    int ex = (int)(x >> $p), ey = (int)(y >> $p);\n"
              "    $B m = ex ? (x & (hidden - 1)) | hidden : x, n = ey ? (y & (hidden - 1)) | hidden : y;\n"
              "    ex += ex == 0, ey += ey == 0;\n"
              "    for (m %= n; ex > ey; ex--) m = (m << 1) - ((m << 1) >= n ? n : 0);\n"
              "    if (m == 0) return pp_op_from_$d(pp_op_bits_$d(a) & $S);\n"
              "    for (; ey > 1 && m < hidden; ey--) m <<= 1;\n"
              "    return pp_op_from_$d(((($B)(ey - 1) << $p) + m) | (pp_op_bits_$d(a) & $S));\n}\n",
};

static const char *const int_row[PP_SCALAR_COUNT] = {
    [PP_ADD] = TWO(add) " { return ($T)(($U)a + ($U)b); }\n",
    [PP_SUB] = TWO(sub) " { return ($T)(($U)a - ($U)b); }\n",
    [PP_MUL] = TWO(mul) " { return ($T)(($U)a * ($U)b); }\n",
    [PP_FMA] = HEAD1 "fma_$d($T a, $T b, $T c) { return ($T)(($U)a * ($U)b + ($U)c); }\n",
    [PP_NEG] = ONE(neg) " { return ($T)(($U)0 - ($U)a); }\n",
    [PP_ABS] = ONE(abs) " { return a > 0 ? a : ($T)(($U)0 - ($U)a); }\n",
    [PP_MIN] = TWO(min) " { return a < b ? a : b; }\n",
    [PP_MAX] = TWO(max) " { return a > b ? a : b; }\n",
    [PP_NOT] = ONE(not ) " { return ($T)~a; }\n",
    [PP_SHL] = TWO(shl) " { return ($U)b < $w ? ($T)(($U)a << ($U)b) : ($T)0; }\n",
    [PP_MULHI] = TWO(mulhi) " { return ($T)((($V)a * b) >> $w); }\n",
    [PP_CLZ] = ONE(
        clz) "\n{\n    $T n = 0;\n    while (n < $w && (a >> ($w - 1 - n)) == 0) n++;\n    return n;\n}\n",
};

static const char *const signed_row[PP_SCALAR_COUNT] = {
    [PP_SHR] = TWO(shr) " { return ($T)(a >> (($U)b < $w ? ($U)b : $w - 1)); }\n",
    [PP_IDIV] = TWO(idiv) "\n{\n    const $T s = b == 0 || b == -1 ? ($T)1 : b, r = ($T)(a % s);\n"
                          "    if (b == 0 || b == -1) return b == 0 ? ($T)0 : ($T)(($U)0 - ($U)a);\n"
                          "    return ($T)(a / s - (r != 0 && (r ^ s) < 0));\n}\n",
    [PP_IMOD] = TWO(imod) "\n{\n    const $T s = b == 0 || b == -1 ? ($T)1 : b, r = ($T)(a % s);\n"
                          "    return r != 0 && (r ^ s) < 0 ? ($T)(r + s) : r;\n}\n",
};

static const char *const unsigned_row[PP_SCALAR_COUNT] = {
    [PP_SHR] = TWO(shr) " { return ($U)b < $w ? ($T)(a >> b) : ($T)0; }\n",
    [PP_IDIV] = TWO(idiv) " { return b == 0 ? ($T)0 : ($T)(a / b); }\n",
    [PP_IMOD] = TWO(imod) " { return b == 0 ? ($T)0 : ($T)(a % b); }\n",
};

static const char bool_not[] = ONE(not ) " { return a == 0; }\n";

#define CONVERT(name) "static inline $R pp_op_" #name "_$d_$r($T a)"
static const char cast_plain[] = CONVERT(cast) " { return ($R)a; }\n";
static const char cast_bool[] = CONVERT(cast) " { return a != 0; }\n";
static const char cast_float_int[] =
    CONVERT(cast) " { return a != a ? 0 : a <= $L ? $I : a >= $M ? $X : ($R)a; }\n";
static const char bits_plain[] = CONVERT(bitcast) " { return ($R)a; }\n";
static const char bits_float_int[] = CONVERT(bitcast) " { return ($R)pp_op_canonical_bits_$d(a); }\n";
static const char bits_int_float[] = CONVERT(bitcast) " { return pp_op_from_$r(($B)a); }\n";
static const char bits_float[] = CONVERT(bitcast) " { return pp_op_canonical_$d(a); }\n";

/* ---- filling in ---------------------------------------------------------------------------------------- */

/* Bounds of casts from floats to integers. */
static const struct bounds {
    const char *least, *limit, *min, *max;
} bounds[PP_DTYPE_COUNT] = {
    [PPTO_I8] = {"-0x1p7f", "0x1p7f", "INT8_MIN", "INT8_MAX"},
    [PPTO_I16] = {"-0x1p15f", "0x1p15f", "INT16_MIN", "INT16_MAX"},
    [PPTO_I32] = {"-0x1p31f", "0x1p31f", "INT32_MIN", "INT32_MAX"},
    [PPTO_I64] = {"-0x1p63f", "0x1p63f", "INT64_MIN", "INT64_MAX"},
    [PPTO_U8] = {"0", "0x1p8f", "0", "UINT8_MAX"},
    [PPTO_U16] = {"0", "0x1p16f", "0", "UINT16_MAX"},
    [PPTO_U32] = {"0", "0x1p32f", "0", "UINT32_MAX"},
    [PPTO_U64] = {"0", "0x1p64f", "0", "UINT64_MAX"},
};

/* The suffix of the functions' names, "f32" or "b8". */
static void suffix_of(ppto_dtype dtype, char out[8])
{
    char name[PP_SCALAR_NAME_SIZE];
    const char *found = pp_scalar_c_name(PP_SELECT, dtype, dtype, name);
    snprintf(out, 8, "%s", found != NULL ? strrchr(found, '_') + 1 : "");
}

static const char *unsigned_type(unsigned width)
{
    return width == 64 ? "uint64_t" : width == 32 ? "uint32_t" : width == 16 ? "uint16_t" : "uint8_t";
}

static void add_float_place(char key, ppto_dtype from, pp_text *out)
{
    const bool wide = from == PPTO_F64;
    switch (key) {
    case 'S': pp_text_add(out, wide ? "UINT64_C(0x8000000000000000)" : "UINT32_C(0x80000000)"); break;
    case 'N': pp_text_add(out, wide ? "UINT64_C(0x7ff8000000000000)" : "UINT32_C(0x7fc00000)"); break;
    case 'F': pp_text_add(out, wide ? "UINT64_C(0x7ff0000000000000)" : "UINT32_C(0x7f800000)"); break;
    case 'p': pp_text_add(out, wide ? "52" : "23"); break;
    case 'P': pp_text_add(out, wide ? "0x1p52" : "0x1p23f"); break;
    case 's': pp_text_add(out, wide ? "" : "f"); break;
    default: break;
    }
}

static void add_place(char key, ppto_dtype from, ppto_dtype to, pp_text *out)
{
    const unsigned width = pp_dtype_width(from);
    char suffix[8];
    switch (key) {
    case 'T': pp_text_add(out, "%s", pp_scalar_c_type(from)); break;
    case 'R': pp_text_add(out, "%s", pp_scalar_c_type(to)); break;
    case 'd': suffix_of(from, suffix), pp_text_add(out, "%s", suffix); break;
    case 'r': suffix_of(to, suffix), pp_text_add(out, "%s", suffix); break;
    case 'U': pp_text_add(out, width == 64 ? "uint64_t" : "uint32_t"); break;
    case 'B': pp_text_add(out, "%s", unsigned_type(width)); break;
    case 'w': pp_text_add(out, "%uu", width); break;
    case 'V':
        pp_text_add(out, "%s%s", pp_dtype_kind(from) == PP_KIND_UINT ? "unsigned " : "",
                    width == 64 ? "__int128" : "long long");
        break;
    case 'L': pp_text_add(out, "%s", bounds[to].least); break;
    case 'M': pp_text_add(out, "%s", bounds[to].limit); break;
    case 'I': pp_text_add(out, "%s", bounds[to].min); break;
    case 'X': pp_text_add(out, "%s", bounds[to].max); break;
    default: add_float_place(key, from, out); break;
    }
}

static void fill_in(const char *text, ppto_dtype from, ppto_dtype to, pp_text *out)
{
    while (*text != '\0') {
        const size_t plain = strcspn(text, "$");
        pp_text_add(out, "%.*s", (int)plain, text);
        text += plain;
        if (*text == '$') add_place(text[1], from, to, out), text += 2;
    }
}

/* ---- choice -------------------------------------------------------------------------------------------- */

static const char *convert_template(pp_op op, ppto_dtype from, ppto_dtype to)
{
    const bool from_float = pp_dtype_is_float(from), to_float = pp_dtype_is_float(to);
    if (op == PP_CAST) {
        if (to == PPTO_BOOL) return cast_bool;
        return from_float && !to_float ? cast_float_int : cast_plain;
    }
    if (from_float) return to_float ? bits_float : bits_float_int;
    return to_float ? bits_int_float : bits_plain;
}

static const char *row_template(pp_op op, ppto_dtype dtype)
{
    const pp_kind kind = pp_dtype_kind(dtype);
    if (any_row[op] != NULL) return any_row[op];
    if (kind == PP_KIND_FLOAT) return float_row[op];
    if (kind == PP_KIND_BOOL) return op == PP_NOT ? bool_not : NULL;
    if (int_row[op] != NULL) return int_row[op];
    return kind == PP_KIND_INT ? signed_row[op] : unsigned_row[op];
}

void pp_rows_add(pp_rows_used *used, const pp_pools *pools, const pp_instr *instr)
{
    if (instr->op >= PP_SCALAR_COUNT) return;
    const ppto_dtype from = pp_instr_operand_dtype(pools->code, instr, instr->op == PP_SELECT ? 1 : 0);
    used->row[instr->op][from] |= (uint16_t)(1u << instr->dtype);
}

/* Rows that the templates of other rows call; users come later in the enumeration. */
static void add_rows_of_rows(pp_rows_used *used)
{
    for (int d = PPTO_F32; d <= PPTO_F64; d++) {
        const uint16_t bit = (uint16_t)(1u << d);
        if (used->row[PP_TRUNC][d] != 0) used->row[PP_FLOOR][d] |= bit;
        if (used->row[PP_FLOOR][d] != 0 || used->row[PP_CEIL][d] != 0) used->row[PP_RINT][d] |= bit;
        if (used->row[PP_RINT][d] != 0) used->row[PP_ABS][d] |= bit, used->row[PP_COPYSIGN][d] |= bit;
    }
}

static bool uses_float(const pp_rows_used *used, ppto_dtype dtype)
{
    bool found = (used->canonical >> dtype & 1) != 0;
    for (int op = 0; op < PP_SCALAR_COUNT; op++) {
        found = found || used->row[op][dtype] != 0;
        for (int from = 0; from < PP_DTYPE_COUNT; from++)
            found = found || (used->row[op][from] >> dtype & 1) != 0;
    }
    return found;
}

static void add_row(pp_op op, ppto_dtype from, uint16_t results, pp_text *out)
{
    if (op != PP_CAST && op != PP_BITCAST) {
        const char *text = row_template(op, from);
        if (text != NULL) fill_in(text, from, from, out);
        return;
    }
    for (int to = 0; to < PP_DTYPE_COUNT; to++)
        if (results >> to & 1) fill_in(convert_template(op, from, (ppto_dtype)to), from, (ppto_dtype)to, out);
}

void pp_render_prologue(const pp_rows_used *rows, pp_text *out)
{
    pp_rows_used used = *rows;
    add_rows_of_rows(&used);
    pp_text_add(
        out,
        "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n\n"
        "#ifdef __FAST_MATH__\n#error \"exact arithmetic: do not compile this with -ffast-math\"\n#endif\n"
        "#if defined(__clang__)\n#pragma STDC FP_CONTRACT OFF\n"
        "#elif defined(__GNUC__)\n#pragma GCC optimize(\"fp-contract=off\")\n#endif\n\n");
    for (int d = PPTO_F32; d <= PPTO_F64; d++)
        if (uses_float(&used, (ppto_dtype)d)) fill_in(float_base, (ppto_dtype)d, (ppto_dtype)d, out);
    for (int op = 0; op < PP_SCALAR_COUNT; op++)
        for (int from = 0; from < PP_DTYPE_COUNT; from++)
            if (used.row[op][from] != 0) add_row((pp_op)op, (ppto_dtype)from, used.row[op][from], out);
    pp_text_add(out, "\n");
}
