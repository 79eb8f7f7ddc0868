/* SPDX-License-Identifier: Apache-2.0
 * Known answers on opening: a machine, emulator or compiler that computes a primitive differently is refused
 * before it computes a tensor. Ten samples per dtype, the second and third operands rotated against the
 * first; NaN payloads are free inside a run, so any NaN stands for a NaN. */
#include <string.h>

#include "devices/cpu/cpu_probe.h"

enum { SAMPLES = 10 };

static const float samples_f32[SAMPLES] = {0.0f,     -0.0f,      1.5f,  -2.5f,     3.0e38f,
                                           1.0e-40f, 8388608.5f, -1.0f, 0x1.8p-3f, 7.0f};
static const double samples_f64[SAMPLES] = {0.0,  -0.0,     1.5, -2.5, 1.0e308, 1.0e-310, 4503599627370496.5,
                                            -1.0, 0x1.8p-3, 7.0};
static const uint64_t samples_int[SAMPLES] = {
    0, 1, 2, UINT64_MAX, 7, INT64_MAX, (uint64_t)INT64_MIN, 100, 31, 0x8080808080808080u};

static uint64_t sample(ppto_dtype dtype, unsigned i)
{
    uint64_t bits = 0;
    i %= SAMPLES;
    if (dtype == PPTO_F32)
        memcpy(&bits, &samples_f32[i], sizeof samples_f32[i]);
    else if (dtype == PPTO_F64)
        memcpy(&bits, &samples_f64[i], sizeof samples_f64[i]);
    else if (dtype == PPTO_BOOL)
        bits = i & 1;
    else
        memcpy(&bits, &samples_int[i], ppto_dtype_size(dtype));
    return bits;
}

static bool is_nan(ppto_dtype dtype, uint64_t bits)
{
    const uint64_t nan = pp_dtype_canonical_nan(dtype),
                   infinity = dtype == PPTO_F32 ? 0x7f800000u : 0x7ff0000000000000u;
    return nan != 0 && (bits & (dtype == PPTO_F32 ? 0x7fffffffu : INT64_MAX)) > infinity;
}

typedef struct trial {
    pp_op op;
    ppto_dtype first, from, to; /* of the first operand, of the others, of the result */
    pp_block_fn fn;
    unsigned shape;
} trial;

static void fill(char *out, ppto_dtype dtype, unsigned turn)
{
    const size_t size = ppto_dtype_size(dtype);
    for (unsigned i = 0; i < SAMPLES; i++) {
        const uint64_t bits = sample(dtype, i + turn);
        memcpy(out + i * size, &bits, size);
    }
}

/* Whether an operand of the loop is a single element. */
static bool is_one(const trial *t, unsigned operand)
{
    const unsigned n = pp_scalar_find(t->op)->arity;
    if (t->shape == PP_VS) return operand == n - 1;
    return t->shape == PP_SV && operand == (n == 3 ? 1u : 0u);
}

static uint64_t operand_of(const trial *t, unsigned operand, unsigned i, unsigned turn)
{
    const ppto_dtype dtype = operand == 0 ? t->first : t->from;
    const unsigned by = operand == 0 ? 0 : operand == 1 ? turn : 3;
    return sample(dtype, (is_one(t, operand) ? 0 : i) + by);
}

static bool agrees(const trial *t, unsigned turn)
{
    uint64_t a[SAMPLES], b[SAMPLES], c[SAMPLES], out[SAMPLES];
    const size_t size = ppto_dtype_size(t->to);
    fill((char *)a, t->first, 0);
    fill((char *)b, t->from, turn);
    fill((char *)c, t->from, 3);
    t->fn(SAMPLES, out, a, b, c);
    for (unsigned i = 0; i < SAMPLES; i++) {
        uint64_t got = 0;
        const uint64_t want =
            pp_scalar_eval(t->op, t->op == PP_SELECT ? t->from : t->first, t->to, operand_of(t, 0, i, turn),
                           operand_of(t, 1, i, turn), operand_of(t, 2, i, turn));
        memcpy(&got, (char *)out + i * size, size);
        if (got != want && !(is_nan(t->to, got) && is_nan(t->to, want))) return false;
    }
    return true;
}

static ppto_status probe(const pp_block_set *set, const trial *t, pp_error *err)
{
    const unsigned turns = pp_scalar_find(t->op)->arity > 1 ? 3 : 1;
    for (unsigned turn = 1; turn <= turns; turn++)
        if (!agrees(t, turn))
            return pp_fail(err, PPTO_E_DEVICE, "%s loops: scalar.%s of %s gives a wrong answer", set->name,
                           pp_scalar_find(t->op)->name, ppto_dtype_name(t->from));
    return PPTO_OK;
}

static ppto_status probe_rows(const pp_block_set *set, ppto_dtype dtype, pp_error *err)
{
    for (unsigned op = 0; op < PP_SCALAR_COUNT; op++)
        for (unsigned shape = 0; shape < PP_SHAPES; shape++) {
            const pp_block_fn fn = set->scalar[op][dtype][shape];
            if (fn == NULL || op == PP_CAST || op == PP_BITCAST) continue;
            if (shape != PP_VV && pp_scalar_find((pp_op)op)->arity == 1) continue;
            const trial t = {(pp_op)op, op == PP_SELECT ? PPTO_BOOL : dtype,
                             dtype,     pp_scalar_result((pp_op)op, dtype),
                             fn,        shape};
            PP_TRY(probe(set, &t, err));
        }
    return PPTO_OK;
}

ppto_status pp_cpu_probe(const pp_block_set *set, pp_error *err)
{
    pp_fenv saved;
    ppto_status status = PPTO_OK;
    pp_fenv_enter(&saved);
    for (unsigned from = 0; status == PPTO_OK && from < PP_DTYPE_COUNT; from++) {
        status = probe_rows(set, (ppto_dtype)from, err);
        for (unsigned to = 0; status == PPTO_OK && to < PP_DTYPE_COUNT; to++) {
            const trial cast = {PP_CAST,        (ppto_dtype)from,    (ppto_dtype)from,
                                (ppto_dtype)to, set->cast[from][to], PP_VV};
            const trial bits = {PP_BITCAST,     (ppto_dtype)from,       (ppto_dtype)from,
                                (ppto_dtype)to, set->bitcast[from][to], PP_VV};
            if (cast.fn != NULL) status = probe(set, &cast, err);
            if (status == PPTO_OK && bits.fn != NULL) status = probe(set, &bits, err);
        }
    }
    pp_fenv_leave(&saved);
    return status;
}
