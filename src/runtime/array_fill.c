/* SPDX-License-Identifier: Apache-2.0
 * Arrays filled by name. Random words are Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011) of (seed, stream, element), as docs/semantics.md says. */
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

/* Four words of one block: key = seed, counter = (block, stream), low words first. */
static void philox(uint64_t seed, uint64_t stream, uint64_t block, uint32_t out[4])
{
    uint32_t c[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = {(uint32_t)(p1 >> 32) ^ c[1] ^ k0, (uint32_t)p1, (uint32_t)(p0 >> 32) ^ c[3] ^ k1,
                            (uint32_t)p0};
        memcpy(c, next, sizeof next);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}

static uint32_t word_at(uint64_t seed, uint64_t stream, uint64_t i, uint32_t w[4])
{
    if (i % 4 == 0) philox(seed, stream, i / 4, w);
    return w[i % 4];
}

/* Elements [first, first + n) of the stream; first a multiple of 4. */
static void fill_from(uint64_t seed, uint64_t stream, int64_t first, ppto_dtype dtype, int64_t n, void *out)
{
    uint32_t w[4] = {0};
    size_t size = ppto_dtype_size(dtype);
    for (int64_t e = 0; e < n; e++) {
        uint64_t i = (uint64_t)(first + e);
        if (size == 8) {
            uint64_t low = word_at(seed, stream, 2 * i, w),
                     u = low | (uint64_t)word_at(seed, stream, 2 * i + 1, w) << 32;
            double d = (double)(u >> 11) * 0x1p-53;
            if (dtype == PPTO_F64)
                memcpy((double *)out + e, &d, 8);
            else
                memcpy((uint64_t *)out + e, &u, 8);
            continue;
        }
        uint32_t word = word_at(seed, stream, i, w);
        float f = (float)(word >> 8) * 0x1p-24f;
        if (dtype == PPTO_F32)
            memcpy((float *)out + e, &f, 4);
        else if (dtype == PPTO_BOOL)
            ((uint8_t *)out)[e] = (uint8_t)(word >> 31);
        else
            memcpy((char *)out + (size_t)e * size, &word, size); /* little-endian: the low bits */
    }
}

void pp_fill_random(uint64_t seed, uint64_t stream, ppto_dtype dtype, int64_t n, void *out)
{
    fill_from(seed, stream, 0, dtype, n, out);
}

static uint64_t stream_of(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (; name && *name; name++) h = (h ^ (uint8_t)*name) * 0x100000001b3u;
    return name ? h : 0;
}

/* "name(a,b,c)": up to three numbers. */
static bool parse(const char *text, char name[16], double args[3], int *n)
{
    size_t k = strcspn(text, "(");
    if (k >= 16) return false;
    memcpy(name, text, k);
    name[k] = 0;
    *n = 0;
    if (!text[k]) return true;
    const char *p = text + k + 1;
    while (*p && *p != ')') {
        char *end;
        if (*n == 3) return false;
        args[(*n)++] = pp_read_f64(p, &end);
        if (end == p) return false;
        p = end + (*end == ',');
        while (*p == ' ') p++;
    }
    return p[0] == ')' && p[1] == 0;
}

static void scale(ppto_array *a, double lo, double hi)
{
    int64_t n = ppto_array_elements(a);
    for (int64_t i = 0; i < n; i++) {
        if (a->dtype == PPTO_F32)
            ((float *)a->data)[i] = (float)lo + ((float *)a->data)[i] * (float)(hi - lo);
        else
            ((double *)a->data)[i] = lo + ((double *)a->data)[i] * (hi - lo);
    }
}

static bool is_whole(double x)
{
    return x >= -0x1p53 && x <= 0x1p53 && (double)(int64_t)x == x;
}

/* lo, hi and how far they are apart, as scale has them. */
static bool are_finite(ppto_dtype dtype, double lo, double hi)
{
    const double far = hi - lo;
    const float low = (float)lo, high = (float)hi, apart = (float)far;
    if (dtype == PPTO_F32) return low - low == 0 && high - high == 0 && apart - apart == 0;
    return lo - lo == 0 && hi - hi == 0 && far - far == 0;
}

static ppto_status fill_uniform(ppto_array *a, double lo, double hi, uint64_t seed, uint64_t stream,
                                pp_error *err)
{
    if (!pp_dtype_is_float(a->dtype))
        return pp_fail(err, PPTO_E_DTYPE, "uniform fills floats; use integers(lo,hi)");
    if (!(lo < hi) || lo - lo != 0 || hi - hi != 0)
        return pp_fail(err, PPTO_E_VALUE, "uniform(lo,hi): lo and hi must be finite, lo less than hi");
    if (!are_finite(a->dtype, lo, hi))
        return pp_fail(err, PPTO_E_VALUE, "uniform(lo,hi): lo, hi and hi - lo do not fit %s",
                       ppto_dtype_name(a->dtype));
    pp_fill_random(seed, stream, a->dtype, ppto_array_elements(a), a->data);
    scale(a, lo, hi);
    return PPTO_OK;
}

static ppto_status fill_integers(ppto_array *a, double lo, double hi, uint64_t seed, uint64_t stream,
                                 pp_error *err)
{
    if (!(lo < hi) || !is_whole(lo) || !is_whole(hi))
        return pp_fail(err, PPTO_E_VALUE,
                       "integers(lo,hi): lo and hi must be whole numbers below 2^53, lo less than hi");
    if (!pp_dtype_holds(a->dtype, (int64_t)lo) || !pp_dtype_holds(a->dtype, (int64_t)hi - 1))
        return pp_fail(err, PPTO_E_VALUE, "integers(%.0f,%.0f) do not fit %s", lo, hi,
                       ppto_dtype_name(a->dtype));
    uint32_t w[4] = {0};
    int64_t n = ppto_array_elements(a), base = (int64_t)lo;
    uint64_t range = (uint64_t)((int64_t)hi - base);
    size_t size = ppto_dtype_size(a->dtype);
    for (int64_t i = 0; i < n; i++) {
        uint64_t u = word_at(seed, stream, 2 * (uint64_t)i, w);
        u |= (uint64_t)word_at(seed, stream, 2 * (uint64_t)i + 1, w) << 32;
        int64_t value = base + (int64_t)(uint64_t)(((unsigned __int128)u * range) >> 64);
        uint64_t bits = pp_scalar_eval(PP_CAST, PPTO_I64, a->dtype, (uint64_t)value, 0, 0);
        memcpy((char *)a->data + (size_t)i * size, &bits, size);
    }
    return PPTO_OK;
}

enum { NORMAL_BLOCK = 16384 };

/* Block after block through the program: u, v and the result are windows of this many elements. of: room for
 * a block of u and of v. */
static ppto_status normal_blocks(ppto_array *a, ppto_program *p, char *const of[2], uint64_t seed,
                                 uint64_t stream, pp_error *err)
{
    int64_t n = ppto_array_elements(a), size = (int64_t)ppto_dtype_size(a->dtype);
    ppto_status status = PPTO_OK;
    for (int64_t at = 0; status == PPTO_OK && at < n; at += NORMAL_BLOCK) {
        int64_t rows = n - at < NORMAL_BLOCK ? n - at : NORMAL_BLOCK;
        ppto_array *to = NULL;
        const uint64_t streams[] = {stream, stream ^ 0x9e3779b97f4a7c15u};
        for (int k = 0; status == PPTO_OK && k < 2; k++) {
            ppto_array *window = NULL;
            fill_from(seed, streams[k], at, a->dtype, rows, of[k]);
            status = pp_array_over(a->ctx, of[k], a->dtype, 1, &rows, &window);
            if (status == PPTO_OK) status = ppto_program_bind_name(p, k ? "v" : "u", window);
            ppto_array_release(window);
        }
        if (status == PPTO_OK)
            status = pp_array_over(a->ctx, (char *)a->data + at * size, a->dtype, 1, &rows, &to);
        if (status == PPTO_OK) status = ppto_program_bind_output(p, 0, to);
        if (status == PPTO_OK) status = ppto_program_run(p, NULL);
        ppto_array_release(to);
    }
    return status == PPTO_OK ? status : pp_fail(err, status, "%s", ppto_error_text(a->ctx));
}

static ppto_status compile_normal(ppto_graph *g, ppto_dtype dtype, ppto_program **program)
{
    ppto_input(g, "u", dtype, "N");
    ppto_input(g, "v", dtype, "N");
    ppto_tensor *y = ppto_expr(g, "sqrt(-2 * log(1 - u)) * cos(6.283185307179586 * v)");
    PP_TRY(ppto_compile(1, &y, program));
    (*program)->whole = true; /* it works on windows, and is no run of the user's */
    (*program)->uncounted = true;
    return PPTO_OK;
}

/* Box and Muller 1958 on two streams, computed by ppto itself; within a memory limit that has room for the
 * array alone. */
static ppto_status fill_normal(ppto_array *a, uint64_t seed, uint64_t stream, pp_error *err)
{
    if (!pp_dtype_is_float(a->dtype)) return pp_fail(err, PPTO_E_DTYPE, "normal fills floats");
    size_t bytes = NORMAL_BLOCK * ppto_dtype_size(a->dtype);
    char *room = pp_alloc(2 * bytes), *const of[] = {room, room + bytes};
    if (!room) return pp_fail(err, PPTO_E_NOMEM, "no memory to make data");
    ppto_program *program = NULL;
    ppto_graph *g = ppto_graph_create(a->ctx);
    ppto_status status = g ? compile_normal(g, a->dtype, &program) : ppto_error_status(a->ctx);
    if (status == PPTO_OK)
        status = normal_blocks(a, program, of, seed, stream, err);
    else
        pp_fail(err, status, "%s", ppto_error_text(a->ctx));
    ppto_program_destroy(program);
    ppto_graph_destroy(g);
    pp_free(room);
    return status;
}

static ppto_status fill(ppto_array *a, const char *filler, const char *stream_name, pp_error *err)
{
    char name[16];
    double args[3] = {0};
    int n;
    uint64_t stream = stream_of(stream_name);
    int64_t elements = ppto_array_elements(a);
    size_t size = ppto_dtype_size(a->dtype);
    if (!parse(filler, name, args, &n)) name[0] = 0, n = -1;
    int seed = strcmp(name, "random") == 0 || strcmp(name, "normal") == 0 ? 0 : 2;
    if (n > seed && (!is_whole(args[seed]) || args[seed] < 0))
        return pp_fail(err, PPTO_E_VALUE, "%s: a seed is a whole number from 0 to 2^53", filler);
    if (strcmp(name, "zeros") == 0 && n == 0) {
        memset(a->data, 0, (size_t)elements * size);
    } else if (strcmp(name, "ones") == 0 && n == 0) {
        uint64_t one = pp_scalar_eval(PP_CAST, PPTO_I64, a->dtype, 1, 0, 0);
        for (int64_t i = 0; i < elements; i++) memcpy((char *)a->data + (size_t)i * size, &one, size);
    } else if (strcmp(name, "random") == 0 && n == 1) {
        pp_fill_random((uint64_t)args[0], stream, a->dtype, elements, a->data);
    } else if (strcmp(name, "uniform") == 0 && n >= 2) {
        return fill_uniform(a, args[0], args[1], (uint64_t)args[2], stream, err);
    } else if (strcmp(name, "integers") == 0 && n >= 2) {
        return fill_integers(a, args[0], args[1], (uint64_t)args[2], stream, err);
    } else if (strcmp(name, "normal") == 0 && n <= 1) {
        return fill_normal(a, (uint64_t)args[0], stream, err);
    } else {
        return pp_fail(err, PPTO_E_VALUE,
                       "unknown filler \"%s\"; there are zeros, ones, random(seed), uniform(lo,hi[,seed]), "
                       "normal[(seed)], integers(lo,hi[,seed])",
                       filler);
    }
    return PPTO_OK;
}

ppto_array *ppto_array_fill_at(ppto_site site, ppto_context *ctx, ppto_dtype dtype, int rank,
                               const int64_t *shape, const char *filler, const char *stream)
{
    pp_error err = {0};
    ppto_array *a = NULL;
    const pp_tag tag = pp_tag_of_user("array_fill", site, dtype);
    ppto_status status = filler ? pp_array_new(ctx, &tag, dtype, rank, shape, &a, &err)
                                : pp_fail(&err, PPTO_E_VALUE, "the filler is NULL");
    if (status == PPTO_OK) status = fill(a, filler, stream, &err);
    if (status != PPTO_OK) {
        ppto_array_release(a);
        a = NULL;
    }
    pp_report(&err);
    return a;
}
