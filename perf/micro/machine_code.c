/* SPDX-License-Identifier: Apache-2.0
 * A fused chain of five operators on f32, three ways: the interpreter's loops one after the other over tiles
 * in L1, machine code of the generator, and a loop written by hand with intrinsics. One JSON object per line
 * on stdout.
 *
 *   machine_code MODULE [ELEMENTS]      ELEMENTS: 131072, which lie in L2 with their results
 *
 * Time is that of the thread; ways take turns, and each has the least and the median of its samples in ns an
 * element. The hand-written loop knows what the generator cannot: it has no tail, and its data is aligned.
 * Exit status 1 when the three differ in a bit. */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "devices/cpu/blocks.h"
#include "devices/cpu/loop.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { SAMPLES = 31, TILE = 2048, WAYS = 3 };

/* max(x * 1.5 + 0.25, 0) * x - 0.5 */
static const float factor = 1.5f, shift = 0.25f, least = 0, below = 0.5f;

typedef struct work {
    const pp_block_set *set;
    pp_loop_fn code;
    size_t n;
    float *x, *out[WAYS];
} work;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the three ways ------------------------------------------------------------------------------------ */

static void by_blocks(const work *w)
{
    static float t[TILE];
    const pp_block_set *s = w->set;
    for (size_t i = 0; i < w->n; i += TILE) {
        s->scalar[PP_MUL][PPTO_F32][PP_VS](TILE, t, w->x + i, &factor, NULL);
        s->scalar[PP_ADD][PPTO_F32][PP_VS](TILE, t, t, &shift, NULL);
        s->scalar[PP_MAX][PPTO_F32][PP_VS](TILE, t, t, &least, NULL);
        s->scalar[PP_MUL][PPTO_F32][PP_VV](TILE, t, t, w->x + i, NULL);
        s->scalar[PP_SUB][PPTO_F32][PP_VS](TILE, w->out[0] + i, t, &below, NULL);
    }
}

static void by_code(const work *w)
{
    const pp_stream_at in = {(char *)w->x, 0}, out = {(char *)w->out[1], 0};
    w->code(1, w->n, &in, &out);
}

#if defined(__x86_64__)
__attribute__((target("avx512f,avx512dq"))) static void by_hand_avx512(const work *w)
{
    const __m512 a = _mm512_set1_ps(factor), b = _mm512_set1_ps(shift), c = _mm512_set1_ps(below);
    const __m512 zero = _mm512_setzero_ps();
    for (size_t i = 0; i < w->n; i += 64)
        for (size_t k = i; k < i + 64; k += 16) {
            const __m512 x = _mm512_load_ps(w->x + k), y = _mm512_add_ps(_mm512_mul_ps(x, a), b);
            const __m512 z = _mm512_mask_mov_ps(zero, _mm512_cmp_ps_mask(y, zero, _CMP_NLE_UQ), y);
            _mm512_store_ps(w->out[2] + k, _mm512_sub_ps(_mm512_mul_ps(z, x), c));
        }
}

__attribute__((target("avx2"))) static void by_hand_avx2(const work *w)
{
    const __m256 a = _mm256_set1_ps(factor), b = _mm256_set1_ps(shift), c = _mm256_set1_ps(below);
    const __m256 zero = _mm256_setzero_ps();
    for (size_t i = 0; i < w->n; i += 32)
        for (size_t k = i; k < i + 32; k += 8) {
            const __m256 x = _mm256_load_ps(w->x + k), y = _mm256_add_ps(_mm256_mul_ps(x, a), b);
            const __m256 z = _mm256_and_ps(y, _mm256_cmp_ps(y, zero, _CMP_NLE_UQ));
            _mm256_store_ps(w->out[2] + k, _mm256_sub_ps(_mm256_mul_ps(z, x), c));
        }
}

static void by_hand(const work *w)
{
    if (strcmp(w->set->name, "avx512") == 0)
        by_hand_avx512(w);
    else
        by_hand_avx2(w);
}
#else
static void by_hand(const work *w)
{
    by_blocks(w);
}
#endif

/* ---- the loop ------------------------------------------------------------------------------------------ */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* ms: what compiling took. */
static pp_loop_fn compile(const pp_generator *generator, const char *simd, double *ms)
{
    const uint64_t consts[4] = {bits_of(factor), bits_of(shift), bits_of(least), bits_of(below)};
    const pp_stream in = {.dtype = PPTO_F32}, out = {.dtype = PPTO_F32};
    const pp_instr code[] = {{.op = PP_PARAM, .dtype = PPTO_F32},
                             {.op = PP_CONST, .dtype = PPTO_F32, .imm = 0},
                             {.op = PP_CONST, .dtype = PPTO_F32, .imm = 1},
                             {.op = PP_CONST, .dtype = PPTO_F32, .imm = 2},
                             {.op = PP_CONST, .dtype = PPTO_F32, .imm = 3},
                             {.op = PP_MUL, .dtype = PPTO_F32, .a = 0, .b = 1},
                             {.op = PP_ADD, .dtype = PPTO_F32, .a = 5, .b = 2},
                             {.op = PP_MAX, .dtype = PPTO_F32, .a = 6, .b = 3},
                             {.op = PP_MUL, .dtype = PPTO_F32, .a = 7, .b = 0},
                             {.op = PP_SUB, .dtype = PPTO_F32, .a = 8, .b = 4},
                             {.op = PP_STORE, .dtype = PPTO_F32, .a = 9}};
    pp_loop loop = {.in = &in, .n_in = 1, .out = &out, .n_out = 1, .consts = consts, .n_consts = 4};
    loop.code = code, loop.n_code = sizeof code / sizeof *code;
    loop.hash = pp_loop_hash(&loop);
    pp_error err = {0};
    void *object = NULL, *handle;
    size_t bytes;
    pp_loop_fn fn = NULL;
    const double start = now();
    ppto_status status = generator->open(simd, &err);
    if (status == PPTO_OK) status = generator->compile(&loop, simd, pp_alloc, &object, &bytes, &err);
    if (status == PPTO_OK) status = generator->load(object, bytes, &handle, &fn, &err);
    *ms = (now() - start) * 1e3;
    if (status != PPTO_OK) fprintf(stderr, "machine_code: %s\n", err.text);
    pp_free(object);
    return fn;
}

/* ---- measuring ----------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(const work *w)
{
    static void (*const way[WAYS])(const work *) = {by_blocks, by_code, by_hand};
    static const char *const name[WAYS] = {"blocks", "machine code", "intrinsics"};
    static double sample[WAYS][SAMPLES];
    const size_t times = 4000000 / w->n + 1;
    for (int i = 0; i < SAMPLES * WAYS; i++) {
        const double start = now();
        for (size_t k = 0; k < times; k++) way[i % WAYS](w);
        sample[i % WAYS][i / WAYS] = (now() - start) * 1e9 / (double)(times * w->n);
    }
    for (int i = 0; i < WAYS; i++) {
        qsort(sample[i], SAMPLES, sizeof sample[i][0], by_value);
        printf("{\"benchmark\": \"chain5-f32\", \"way\": \"%s\", \"simd\": \"%s\", \"elements\": %zu, "
               "\"unit\": \"ns/element\", \"min\": %.4f, \"median\": %.4f}\n",
               name[i], w->set->name, w->n, sample[i][0], sample[i][SAMPLES / 2]);
    }
}

static bool prepare(work *w, const pp_generator *generator)
{
    double first, again;
    w->x = pp_alloc_aligned(64, w->n * sizeof *w->x);
    for (int i = 0; i < WAYS; i++) w->out[i] = pp_alloc_aligned(64, w->n * sizeof *w->x);
    if (w->x == NULL || w->out[0] == NULL || w->out[1] == NULL || w->out[2] == NULL) return false;
    for (size_t i = 0; i < w->n; i++) w->x[i] = (float)(i % 1013) / 256 - 2;
    for (int i = 0; i < WAYS; i++) memset(w->out[i], 0, w->n * sizeof *w->x);
    if (compile(generator, w->set->name, &first) == NULL) return false;
    w->code = compile(generator, w->set->name, &again);
    printf("{\"benchmark\": \"compile\", \"unit\": \"ms\", \"first\": %.2f, \"again\": %.2f}\n", first,
           again);
    return w->code != NULL;
}

int main(int argc, char **argv)
{
    void *module = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    const pp_generator *generator = module != NULL ? dlsym(module, "pp_generator_module") : NULL;
    work w = {.set = pp_blocks_find(NULL)};
    const long elements = argc > 2 ? strtol(argv[2], NULL, 10) : 131072;
    if (generator == NULL || elements < TILE || strcmp(w.set->name, "baseline") == 0) {
        fputs("usage: machine_code MODULE [ELEMENTS], on a machine with AVX2\n", stderr);
        return 2;
    }
    w.n = (size_t)elements / TILE * TILE;
    if (!prepare(&w, generator)) return 1;
    measure(&w);
    for (int i = 1; i < WAYS; i++)
        if (memcmp(w.out[0], w.out[i], w.n * sizeof *w.x) != 0) return 1;
    return 0;
}
