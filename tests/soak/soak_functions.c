/* SPDX-License-Identifier: Apache-2.0
 * Functions of one f32 argument over ranges of their 2^32 inputs: every instruction set, by the interpreter
 * and by machine code, must give the bits of the reference device; and the largest error against the C
 * library's function in double precision, whose own error of about one unit of f64 is 2^-29 of what is
 * measured here.
 *
 *   soak_functions [--function NAME] [--from BITS] [--count N] [--every K] [--state FILE]
 *
 * Inputs are the bit patterns from + i * K, i < N (default: all). With a state file each function goes on
 * where the last call stopped, also after a kill; its lines are NAME NEXT ERROR AT, with the bits of the
 * worst input. One line for each function: the error, in units of the last place of the exact result (of the
 * least subnormal below the normal ones), and where; "-" where the C library has no such function. 0 = no bit
 * differs. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ppto/ops.h"
#include "ppto/ppto.h"

enum { PIECE = 1 << 15, FLAVOURS = 7 };

typedef struct subject {
    const char *name;
    double (*exact)(double); /* NULL: nobody knows */
    double most;             /* error that docs/functions.md tells; 0: none of this kind */
    uint64_t next;           /* inputs done */
    double worst;
    uint32_t worst_at;
} subject;

static double exact_rsqrt(double x)
{
    return 1 / sqrt(x);
}

static double exact_sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double exact_softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

static subject subjects[] = {
    {.name = "exp", .exact = exp, .most = 0.9},
    {.name = "exp2", .exact = exp2, .most = 0.88},
    {.name = "expm1", .exact = expm1, .most = 0.96},
    {.name = "log", .exact = log, .most = 0.88},
    {.name = "log2", .exact = log2, .most = 1.1},
    {.name = "log10", .exact = log10, .most = 1.02},
    {.name = "log1p", .exact = log1p, .most = 0.98},
    {.name = "sin", .exact = sin, .most = 0.91},
    {.name = "cos", .exact = cos, .most = 0.88},
    {.name = "tan", .exact = tan, .most = 1.46},
    {.name = "asin", .exact = asin, .most = 1.34},
    {.name = "acos", .exact = acos, .most = 1.34},
    {.name = "atan", .exact = atan, .most = 1.31},
    {.name = "sinh", .exact = sinh, .most = 1.32},
    {.name = "cosh", .exact = cosh, .most = 1.16},
    {.name = "tanh", .exact = tanh, .most = 0.77},
    {.name = "asinh", .exact = asinh, .most = 0.94},
    {.name = "acosh", .exact = acosh, .most = 0.93},
    {.name = "atanh", .exact = atanh, .most = 0.99},
    {.name = "cbrt", .exact = cbrt, .most = 0.51},
    {.name = "sqrt", .exact = sqrt, .most = 0.5},
    {.name = "rsqrt", .exact = exact_rsqrt, .most = 0.51},
    {.name = "erf", .exact = erf, .most = 0.89},
    {.name = "erfc", .exact = erfc, .most = 2.2},
    {.name = "lgamma", .exact = lgamma},
    {.name = "sigmoid", .exact = exact_sigmoid, .most = 1.65},
    {.name = "softplus", .exact = exact_softplus, .most = 1.68},
    {.name = "gelu"},
    {.name = "gelu_tanh"},
    {.name = "silu"},
    {.name = "mish"},
    {.name = "logit"},
    {.name = "logsigmoid"},
    {.name = "sinc"},
    {.name = "tanhshrink"},
};
enum { SUBJECTS = sizeof subjects / sizeof subjects[0] };

/* ---- flavours ---------------------------------------------------------------------------------------- */

typedef struct flavour {
    const char *device, *simd, *tier;
    ppto_context *ctx;
    ppto_graph *graph;
    ppto_program *program;
    ppto_array *x, *y;
    bool there;
} flavour;

/* The first is what the others are compared with. */
static flavour flavours[FLAVOURS] = {
    {.device = "reference"},
    {.device = "cpu", .simd = "baseline", .tier = "interp"},
    {.device = "cpu", .simd = "avx2", .tier = "interp"},
    {.device = "cpu", .simd = "avx512", .tier = "interp"},
    {.device = "cpu", .simd = "baseline", .tier = "jit"},
    {.device = "cpu", .simd = "avx2", .tier = "jit"},
    {.device = "cpu", .simd = "avx512", .tier = "jit"},
};

static void must(bool good, const char *what)
{
    if (good) return;
    fprintf(stderr, "soak_functions: %s: %s\n", what, ppto_error_text(NULL));
    exit(2);
}

static void open_context(flavour *f)
{
    ppto_options o = PPTO_OPTIONS_INIT;
    o.device = f->device;
    o.simd = f->simd;
    o.tier = f->tier;
    must(ppto_context_create(&f->ctx, &o) == PPTO_OK, f->device);
}

static void bind_arrays(flavour *f, const char *name)
{
    const int64_t shape[] = {PIECE};
    ppto_array *one = ppto_number(f->ctx, 1);
    f->x = ppto_array_create(f->ctx, PPTO_F32, 1, shape);
    f->y = ppto_array_create(f->ctx, PPTO_F32, 1, shape);
    must(f->x && f->y && one && ppto_program_bind_name(f->program, "x", f->x) == PPTO_OK &&
             ppto_program_bind_name(f->program, "one", one) == PPTO_OK &&
             ppto_program_bind_output(f->program, 0, f->y) == PPTO_OK,
         name);
    ppto_array_release(one);
}

/* A function alone is a loop of the library; to be machine code it is multiplied by a bound 1, which is
 * exact. Not there: the machine has no such instructions. */
static void open_function(flavour *f, const char *name)
{
    f->graph = ppto_graph_create(f->ctx);
    ppto_tensor *root = ppto_op(f->graph, name, NULL, ppto_input(f->graph, "x", PPTO_F32, "N"));
    ppto_tensor *one = ppto_input_number(f->graph, "one", true);
    if (f->tier && strcmp(f->tier, "jit") == 0) root = ppto_mul(root, one);
    const ppto_status status = ppto_compile(1, &root, &f->program);
    f->there = status != PPTO_E_UNSUPPORTED;
    if (!f->there) return;
    must(status == PPTO_OK, name);
    bind_arrays(f, name);
}

static void close_function(flavour *f)
{
    ppto_program_destroy(f->program);
    ppto_array_release(f->x);
    ppto_array_release(f->y);
    ppto_graph_destroy(f->graph);
    f->program = NULL;
    f->graph = NULL;
    f->x = f->y = NULL;
}

/* ---- errors ------------------------------------------------------------------------------------------ */

/* In units of the last place of f32; INFINITY for a result of the wrong kind. */
static double error_of(float y, double exact)
{
    int exponent;
    if (isnan(exact) || isnan(y)) return isnan(exact) && isnan(y) ? 0 : INFINITY;
    if ((double)y == exact) return 0;
    if (isinf(exact)) return INFINITY;
    (void)frexp(exact, &exponent); /* exact = m * 2^exponent, m in [0.5, 1) */
    if (isinf(y))                  /* as if it were 2^128 */
        return !signbit(y) == !signbit(exact) ? fdim(0x1p128, fabs(exact)) / 0x1p104 : INFINITY;
    if (exponent < -125) exponent = -125;
    return fabs((double)y - exact) / ldexp(1, exponent - 24);
}

static void measure(subject *s, const uint32_t *bits, const float *y, size_t n)
{
    for (size_t i = 0; i < n && s->exact; i++) {
        float x;
        memcpy(&x, &bits[i], sizeof x);
        const double error = error_of(y[i], s->exact((double)x));
        if (error <= s->worst) continue;
        s->worst = error;
        s->worst_at = bits[i];
    }
}

/* Tells the first difference. */
static bool compare(const subject *s, const flavour *f, const uint32_t *bits, const uint32_t *want, size_t n)
{
    const uint32_t *got = ppto_array_data(f->y);
    if (memcmp(want, got, n * sizeof *got) == 0) return true;
    size_t i = 0;
    while (want[i] == got[i]) i++;
    printf("%s(%08" PRIx32 "): %s %s gives %08" PRIx32 ", the reference %08" PRIx32 "\n", s->name, bits[i],
           f->simd, f->tier, got[i], want[i]);
    return false;
}

static bool check_piece(subject *s, const uint32_t *bits, size_t n)
{
    bool same = true;
    for (size_t k = 0; k < FLAVOURS; k++) {
        flavour *f = &flavours[k];
        if (!f->there) continue;
        memcpy(ppto_array_data(f->x), bits, PIECE * sizeof *bits);
        must(ppto_program_run(f->program, NULL) == PPTO_OK, s->name);
        if (k > 0) same = compare(s, f, bits, ppto_array_data(flavours[0].y), n) && same;
    }
    measure(s, bits, ppto_array_data(flavours[0].y), n);
    return same;
}

/* ---- ranges ------------------------------------------------------------------------------------------ */

typedef struct range {
    uint64_t from, count, every;
    const char *state; /* NULL: nothing is kept */
} range;

static void load_state(const char *path)
{
    FILE *file = path ? fopen(path, "r") : NULL;
    char name[32];
    uint64_t next;
    double worst;
    uint32_t at;
    while (file && fscanf(file, "%31s %" SCNu64 " %lf %" SCNx32, name, &next, &worst, &at) == 4)
        for (size_t i = 0; i < SUBJECTS; i++)
            if (strcmp(subjects[i].name, name) == 0) {
                subjects[i].next = next;
                subjects[i].worst = worst;
                subjects[i].worst_at = at;
            }
    if (file) fclose(file);
}

static void save_state(const char *path)
{
    char aside[4096];
    if (!path) return;
    must(snprintf(aside, sizeof aside, "%s.new", path) < (int)sizeof aside, "the name is too long");
    FILE *file = fopen(aside, "w");
    must(file != NULL, aside);
    for (size_t i = 0; i < SUBJECTS; i++)
        fprintf(file, "%s %" PRIu64 " %.17g %08" PRIx32 "\n", subjects[i].name, subjects[i].next,
                subjects[i].worst, subjects[i].worst_at);
    must(fclose(file) == 0 && rename(aside, path) == 0, path);
}

static void report(const subject *s)
{
    unsigned there = 0, compiled = 0;
    for (size_t k = 1; k < FLAVOURS; k++) {
        ppto_stats stats = {.size = sizeof stats};
        if (!flavours[k].there || ppto_program_stats(flavours[k].program, &stats) != PPTO_OK) continue;
        there++;
        compiled += stats.tier && strcmp(stats.tier, "jit") == 0;
    }
    if (s->exact)
        printf("%-12s %.4f at %08" PRIx32, s->name, s->worst, s->worst_at);
    else
        printf("%-12s -", s->name);
    printf(", %u flavours, %u of machine code\n", there, compiled);
    fflush(stdout);
}

static bool check_function(subject *s, const range *r)
{
    static uint32_t bits[PIECE];
    bool same = true;
    for (size_t k = 0; k < FLAVOURS; k++) open_function(&flavours[k], s->name);
    while (s->next < r->count) {
        const uint64_t left = r->count - s->next;
        const size_t n = left < PIECE ? (size_t)left : PIECE;
        for (size_t i = 0; i < PIECE; i++) bits[i] = (uint32_t)(r->from + (s->next + i) * r->every);
        same = check_piece(s, bits, n) && same;
        s->next += n;
        save_state(r->state);
    }
    report(s);
    if (s->most != 0 && s->worst > s->most + 0.005) {
        printf("%s: the error is above %.2f\n", s->name, s->most);
        same = false;
    }
    for (size_t k = 0; k < FLAVOURS; k++) close_function(&flavours[k]);
    return same;
}

int main(int argc, char **argv)
{
    range r = {.every = 1};
    const char *only = NULL;
    bool same = true;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--function") == 0) only = argv[i + 1];
        if (strcmp(argv[i], "--from") == 0) r.from = strtoull(argv[i + 1], NULL, 0);
        if (strcmp(argv[i], "--count") == 0) r.count = strtoull(argv[i + 1], NULL, 0);
        if (strcmp(argv[i], "--every") == 0) r.every = strtoull(argv[i + 1], NULL, 0);
        if (strcmp(argv[i], "--state") == 0) r.state = argv[i + 1];
    }
    must(r.every > 0 && r.from < UINT64_C(1) << 32, "wrong range");
    const uint64_t all = ((UINT64_C(1) << 32) - r.from + r.every - 1) / r.every;
    if (r.count == 0 || r.count > all) r.count = all;
    load_state(r.state);
    for (size_t k = 0; k < FLAVOURS; k++) open_context(&flavours[k]);
    for (size_t i = 0; i < SUBJECTS; i++)
        if (!only || strcmp(only, subjects[i].name) == 0) same = check_function(&subjects[i], &r) && same;
    for (size_t k = 0; k < FLAVOURS; k++) ppto_context_destroy(flavours[k].ctx);
    return same ? 0 : 1;
}
