/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of this machine, as JSON on stdout: memory bandwidth by working set and peak fma rate.
 *
 *   cc -O3 -march=native -fopenmp limits.c -o limits && OMP_NUM_THREADS=2 ./limits
 *
 * triad   a[i] = b[i] + s*c[i] with ordinary stores, 3*8*n bytes counted (McCalpin, STREAM)
 * stream  the same with non-temporal stores where the compiler has them
 * read    sum of b, 8*n bytes counted
 * Each is the best of several repeats; the working set is the total size of the arrays touched.
 * Pages are touched by the thread that uses them and are asked to be huge. */
#define _GNU_SOURCE
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { ALIGN = 2 << 20, REPEATS = 9 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double *array(size_t n)
{
    size_t bytes = (n * sizeof(double) + ALIGN - 1) / ALIGN * ALIGN;
    double *p = aligned_alloc(ALIGN, bytes);
    if (!p) exit(1);
    madvise(p, bytes, MADV_HUGEPAGE);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; i++) p[i] = 1.0;
    return p;
}

static void triad(double *restrict a, const double *restrict b, const double *restrict c, size_t n)
{
#pragma omp parallel for simd schedule(static)
    for (size_t i = 0; i < n; i++) a[i] = b[i] + 3.0 * c[i];
}

typedef double vec __attribute__((vector_size(64)));

static void stream(double *a, const double *b, const double *c, size_t n)
{
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n / 8; i++) {
        vec v = ((const vec *)b)[i] + 3.0 * ((const vec *)c)[i];
#ifdef __AVX512F__
        __builtin_ia32_movntpd512(a + 8 * i, v);
#else
        ((vec *)a)[i] = v;
#endif
    }
}

static double read_sum(const double *b, size_t n)
{
    double sum = 0;
#pragma omp parallel reduction(+ : sum)
    {
        vec s[8] = {{0}};
#pragma omp for schedule(static)
        for (size_t i = 0; i < n / 64; i++)
            for (int k = 0; k < 8; k++) s[k] += ((const vec *)b)[8 * i + (size_t)k];
        for (int k = 0; k < 8; k++)
            for (int l = 0; l < 8; l++) sum += s[k][l];
    }
    return sum;
}

static volatile double sink;

/* Best GB/s of a kernel over n doubles per array; short kernels are repeated to fill about 10 ms. */
static double bandwidth(int kind, double *a, double *b, double *c, size_t n)
{
    double bytes = (kind == 2 ? 8.0 : 24.0) * (double)n, best = 1e30;
    int inner = (int)(1e8 / bytes) + 1;
    for (int r = 0; r < REPEATS; r++) {
        double start = now();
        for (int k = 0; k < inner; k++) {
            if (kind == 0) triad(a, b, c, n);
            if (kind == 1) stream(a, b, c, n);
            if (kind == 2) sink = read_sum(b, n);
        }
        double t = (now() - start) / inner;
        if (r > 0 && t < best) best = t;
    }
    return bytes / best * 1e-9;
}

#define PEAK(name, type)                                                                                     \
    static double name(void)                                                                                 \
    {                                                                                                        \
        enum { CHAINS = 16, LANES = 64 / sizeof(type) };                                                     \
        typedef type lanes __attribute__((vector_size(64)));                                                 \
        const long steps = 20000000;                                                                         \
        double best = 1e30;                                                                                  \
        for (int r = 0; r < 3; r++) {                                                                        \
            double start = now();                                                                            \
            _Pragma("omp parallel")                                                                          \
            {                                                                                                \
                lanes x[CHAINS], m = (lanes){0} + (type)0.999, q = (lanes){0} + (type)0.001;                 \
                for (int k = 0; k < CHAINS; k++) x[k] = m * (type)k;                                         \
                for (long i = 0; i < steps; i++) {                                                           \
                    for (int k = 0; k < CHAINS; k++) x[k] = x[k] * m + q;                                    \
                    __asm__ volatile("");                                                                    \
                }                                                                                            \
                for (int k = 1; k < CHAINS; k++) x[0] += x[k];                                               \
                sink = (double)x[0][0];                                                                      \
            }                                                                                                \
            double t = now() - start;                                                                        \
            if (t < best) best = t;                                                                          \
        }                                                                                                    \
        return 2.0 * CHAINS * LANES * (double)steps * omp_get_max_threads() / best * 1e-9;                   \
    }

PEAK(peak_f32, float)
PEAK(peak_f64, double)

int main(void)
{
    static const double mib[] = {0.0625, 1, 4, 16, 64, 192, 512, 2048};
    enum { SIZES = sizeof mib / sizeof *mib };
    static const char *const names[] = {"triad", "stream", "read"};
    size_t most = (size_t)(mib[SIZES - 1] * 1048576 / 8);
    double *a = array(most / 3), *b = array(most), *c = array(most / 3);
    printf("{\"threads\": %d, \"fma_f32_gflops\": %.1f, \"fma_f64_gflops\": %.1f", omp_get_max_threads(),
           peak_f32(), peak_f64());
    for (int kind = 0; kind < 3; kind++) {
        printf(", \"%s_gbps\": {", names[kind]);
        for (int s = 0; s < SIZES; s++) {
            size_t n = (size_t)(mib[s] * 1048576 / 8 / (kind == 2 ? 1 : 3)) / 64 * 64;
            printf("%s\"%.0f\": %.2f", s ? ", " : "", mib[s] * 1048576, bandwidth(kind, a, b, c, n));
        }
        printf("}");
    }
    printf("}\n");
    free(a);
    free(b);
    free(c);
    return 0;
}
