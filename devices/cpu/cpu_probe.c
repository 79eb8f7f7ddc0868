/* SPDX-License-Identifier: Apache-2.0
 * Known answers on opening: a machine, emulator or compiler that computes a primitive differently is refused
 * before it computes a tensor. Ten samples per dtype, the second and third operands rotated against the
 * first; NaN payloads are free inside a run, so any NaN stands for a NaN. This is part of a process' first
 * result: loops over whole operands are held against pp_scalar_eval, the others against them. */
#include <string.h>

#include "devices/cpu/cpu_probe.h"

enum { SAMPLES = 10 };

static const float samples_f32[SAMPLES] = {0.0f,     -0.0f,      1.5f,  -2.5f,     3.0e38f,
                                           1.0e-40f, 8388608.5f, -1.0f, 0x1.8p-3f, 7.0f};
static const double samples_f64[SAMPLES] = {0.0,  -0.0,     1.5, -2.5, 1.0e308, 1.0e-310, 4503599627370496.5,
                                            -1.0, 0x1.8p-3, 7.0};
static const uint64_t samples_int[SAMPLES] = {
    0, 1, 2, UINT64_MAX, 7, INT64_MAX, (uint64_t)INT64_MIN, 100, 31, 0x8080808080808080u};

/* The samples of every dtype, as bits and as a loop reads them. The first SHIFT stand again behind the last,
 * so that rotated samples are the same memory further on. */
enum { SHIFT = 3 };
typedef struct samples {
    uint64_t bits[PP_DTYPE_COUNT][SAMPLES + SHIFT];
    uint64_t at[PP_DTYPE_COUNT][SAMPLES + SHIFT];
} samples;

static void make_samples(samples *s)
{
    memset(s, 0, sizeof *s);
    for (unsigned t = 0; t < PP_DTYPE_COUNT; t++) {
        const size_t size = ppto_dtype_size((ppto_dtype)t);
        for (unsigned i = 0; i < SAMPLES + SHIFT; i++) {
            uint64_t *bits = &s->bits[t][i];
            if (t == PPTO_F32)
                memcpy(bits, &samples_f32[i % SAMPLES], sizeof samples_f32[0]);
            else if (t == PPTO_F64)
                memcpy(bits, &samples_f64[i % SAMPLES], sizeof samples_f64[0]);
            else if (t == PPTO_BOOL)
                *bits = i % SAMPLES & 1;
            else
                memcpy(bits, &samples_int[i % SAMPLES], size);
            memcpy((char *)s->at[t] + i * size, bits, size);
        }
    }
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
    unsigned shape, turn;
    pp_block_fn fn, whole; /* whole: the proved loop of the same row over whole operands */
} trial;

/* Whether an operand of the loop is a single element. */
static bool is_one(const trial *t, unsigned operand)
{
    const unsigned n = pp_scalar_find(t->op)->arity;
    if (t->shape == PP_VS) return operand == n - 1;
    return t->shape == PP_SV && operand == (n == 3 ? 1u : 0u);
}

static ppto_dtype dtype_of(const trial *t, unsigned operand)
{
    return operand == 0 ? t->first : t->from;
}

static unsigned rotation(const trial *t, unsigned operand)
{
    return operand == 0 ? 0 : operand == 1 ? t->turn : SHIFT;
}

/* What the primitive gives, element by element. */
static void eval_all(const samples *s, const trial *t, char *want)
{
    const ppto_dtype dtype = t->op == PP_SELECT ? t->from : t->first;
    const size_t size = ppto_dtype_size(t->to);
    const uint64_t *a = s->bits[t->first], *b = s->bits[t->from] + t->turn, *c = s->bits[t->from] + SHIFT;
    for (unsigned i = 0; i < SAMPLES; i++) {
        const uint64_t bits = pp_scalar_eval(t->op, dtype, t->to, a[i], b[i], c[i]);
        memcpy(want + i * size, &bits, size);
    }
}

/* The same of a loop with a single operand: that element repeated, in the loop over whole operands. */
static void repeat_all(const char *const operand[3], const trial *t, char *want)
{
    uint64_t repeated[SAMPLES];
    const char *x[3];
    for (unsigned k = 0; k < 3; k++) {
        x[k] = operand[k];
        if (!is_one(t, k)) continue;
        const size_t size = ppto_dtype_size(dtype_of(t, k));
        for (unsigned i = 0; i < SAMPLES; i++) memcpy((char *)repeated + i * size, operand[k], size);
        x[k] = (const char *)repeated;
    }
    t->whole(SAMPLES, want, x[0], x[1], x[2]);
}

/* But for the payloads of NaN. */
static bool same(ppto_dtype dtype, const char *got, const char *want)
{
    const size_t size = ppto_dtype_size(dtype);
    if (memcmp(got, want, SAMPLES * size) == 0) return true;
    for (unsigned i = 0; i < SAMPLES; i++) {
        uint64_t x = 0, y = 0;
        memcpy(&x, got + i * size, size);
        memcpy(&y, want + i * size, size);
        if (x != y && !(is_nan(dtype, x) && is_nan(dtype, y))) return false;
    }
    return true;
}

static bool agrees(const samples *s, const trial *t)
{
    uint64_t got[SAMPLES], want[SAMPLES];
    const char *operand[3];
    for (unsigned k = 0; k < 3; k++)
        operand[k] = (const char *)s->at[dtype_of(t, k)] + rotation(t, k) * ppto_dtype_size(dtype_of(t, k));
    if (t->shape == PP_VV)
        eval_all(s, t, (char *)want);
    else if (t->whole != NULL)
        repeat_all(operand, t, (char *)want);
    else
        return false;
    t->fn(SAMPLES, got, operand[0], operand[1], operand[2]);
    return same(t->to, (const char *)got, (const char *)want);
}

static ppto_status probe(const pp_block_set *set, const samples *s, trial t, pp_error *err)
{
    const unsigned turns = pp_scalar_find(t.op)->arity > 1 ? SHIFT : 1;
    for (t.turn = 1; t.turn <= turns; t.turn++)
        if (!agrees(s, &t))
            return pp_fail(err, PPTO_E_DEVICE, "%s loops: scalar.%s of %s gives a wrong answer", set->name,
                           pp_scalar_find(t.op)->name, ppto_dtype_name(t.from));
    return PPTO_OK;
}

static ppto_status probe_rows(const pp_block_set *set, const samples *s, ppto_dtype dtype, pp_error *err)
{
    for (unsigned op = 0; op < PP_SCALAR_COUNT; op++)
        for (unsigned shape = 0; shape < PP_SHAPES; shape++) {
            const pp_block_fn *fn = set->scalar[op][dtype];
            if (fn[shape] == NULL || op == PP_CAST || op == PP_BITCAST) continue;
            if (shape != PP_VV && pp_scalar_find((pp_op)op)->arity == 1) continue;
            const ppto_dtype first = op == PP_SELECT ? PPTO_BOOL : dtype,
                             to = pp_scalar_result((pp_op)op, dtype);
            PP_TRY(probe(set, s, (trial){(pp_op)op, first, dtype, to, shape, 0, fn[shape], fn[PP_VV]}, err));
        }
    return PPTO_OK;
}

static ppto_status probe_cast(const pp_block_set *set, const samples *s, pp_op op, unsigned from, unsigned to,
                              pp_block_fn fn, pp_error *err)
{
    if (fn == NULL) return PPTO_OK;
    const trial t = {op, (ppto_dtype)from, (ppto_dtype)from, (ppto_dtype)to, PP_VV, 0, fn, NULL};
    return probe(set, s, t, err);
}

ppto_status pp_cpu_probe(const pp_block_set *set, pp_error *err)
{
    pp_fenv saved;
    samples s;
    ppto_status status = PPTO_OK;
    make_samples(&s);
    pp_fenv_enter(&saved);
    for (unsigned from = 0; status == PPTO_OK && from < PP_DTYPE_COUNT; from++) {
        status = probe_rows(set, &s, (ppto_dtype)from, err);
        for (unsigned to = 0; status == PPTO_OK && to < PP_DTYPE_COUNT; to++) {
            status = probe_cast(set, &s, PP_CAST, from, to, set->cast[from][to], err);
            if (status == PPTO_OK)
                status = probe_cast(set, &s, PP_BITCAST, from, to, set->bitcast[from][to], err);
        }
    }
    pp_fenv_leave(&saved);
    return status;
}
