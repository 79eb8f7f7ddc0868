/* SPDX-License-Identifier: Apache-2.0
 * Arrays: concrete data, reference counted. */
#ifndef PPTO_ARRAY_H
#define PPTO_ARRAY_H

#include "ppto/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ppto_array ppto_array;

/* Constructors return NULL on failure and leave the error to ppto_error_text. Shapes are copied. All arrays
 * are row-major and 64-byte aligned unless wrapped. Free with ppto_array_release. */
PPTO_API ppto_array *ppto_array_create(ppto_context *ctx, ppto_dtype dtype, int rank, const int64_t *shape);
/* A copy of row-major data. */
PPTO_API ppto_array *ppto_array_copy_of(ppto_context *ctx, ppto_dtype dtype, int rank, const int64_t *shape,
                                        const void *data);
/* The caller's memory, not copied: strides in bytes, any sign (NULL: row-major). release(arg, data) is called
 * once, from any thread, when the last use is gone (NULL: never). */
PPTO_API ppto_array *ppto_array_wrap(ppto_context *ctx, void *data, ppto_dtype dtype, int rank,
                                     const int64_t *shape, const int64_t *strides,
                                     void (*release)(void *arg, void *data), void *arg);
/* Reads an array of a file: NPY ("-": from standard input); FILE.npz:NAME or FILE.safetensors:NAME, where
 * NAME may be left out if the file holds one array only; FILE.raw:f32[1000,512] or FILE.bin:f32[N,512]
 * without a header, row-major and in this machine's byte order ("-:f32[4]": from standard input; a word as
 * first size: as many rows as there are). returns NULL: E_VALUE no dtype and sizes; E_IO; E_FORMAT malformed,
 * no such array; E_DTYPE; E_LIMIT, E_NOMEM; E_UNSUPPORTED when the library for the format is not built in */
PPTO_API ppto_array *ppto_array_load(ppto_context *ctx, const char *path);
/* The same as an array that stays in the file: only the header is read. Runs read it, by pieces where the
 * plan allows (docs/memory.md), so it may be larger than memory; the file must stay as it is meanwhile. A run
 * reads the file that has the name when it begins: what a run before it has written there, say, if it holds
 * such an array.
 * ppto_array_data is NULL. What comes from a pipe or a device is there once: a second run that wants it fails
 * with E_VALUE (ppto_array_load keeps it).
 * Opening a named pipe waits for who writes the header, and nothing but the end of the process ends that
 * wait. returns NULL: E_IO, E_FORMAT, E_DTYPE as ppto_array_load; E_VALUE for a pipe, under whatever name, of
 * which an open array has not been read yet */
PPTO_API ppto_array *ppto_array_open(ppto_context *ctx, const char *path);
/* Writes a file, which appears by rename, in the format that its name says, as above (raw files without a
 * TYPE; "-": NPY to standard output, "-:raw": without a header; an archive's array has the name arr_0 when
 * none is given). returns PPTO_OK; E_IO, E_LIMIT (disk full); E_VALUE for NULL and
 * for an ending that is no format (y.txt); E_UNSUPPORTED */
PPTO_API ppto_status ppto_array_save(const ppto_array *array, const char *path);
/* Writes several into one FILE.npz or FILE.safetensors. names: NULL, or one a piece, of which NULL stands for
 * arr_0, arr_1, … by place. returns also E_VALUE for two of one name, and in an NPZ file for one that leads
 * out of the folder where it is unpacked ("../x"); reading takes any name, as nothing is unpacked */
PPTO_API ppto_status ppto_arrays_save(const char *path, size_t n, const char *const *names,
                                      ppto_array *const *arrays);
/* A number, bound to inputs of rank 0; weak: it takes the dtype of what it meets. */
PPTO_API ppto_array *ppto_number(ppto_context *ctx, double value);
PPTO_API ppto_array *ppto_integer(ppto_context *ctx, int64_t value);
/* Filled by name: "zeros", "ones", "random(7)", "uniform(-1,1)", "uniform(-1,1,7)", "normal", "normal(7)",
 * "integers(0,10)". Random values depend on seed, stream name and element only (docs/semantics.md). */
PPTO_API ppto_array *ppto_array_fill(ppto_context *ctx, ppto_dtype dtype, int rank, const int64_t *shape,
                                     const char *filler, const char *stream);

PPTO_API ppto_array *ppto_array_retain(ppto_array *array); /* returns array */
PPTO_API void ppto_array_release(ppto_array *array);       /* NULL is fine */

/* Moves the array's memory to other nodes, as the option "placement" says it for all of a context. What ppto
 * does not own, what is under 1 MiB, and machines of one node stay as they are; what the system refuses
 * stays, too, and ppto_runtime_info tells. returns PPTO_OK; E_VALUE for NULL, other words, a node that is not
 * there; E_FORKED. threads: none may use the array meanwhile */
PPTO_API ppto_status ppto_array_place(ppto_array *array, const char *placement);

PPTO_API ppto_dtype ppto_array_dtype(const ppto_array *array);
PPTO_API int ppto_array_rank(const ppto_array *array);
PPTO_API const int64_t *ppto_array_shape(const ppto_array *array);
PPTO_API const int64_t *ppto_array_strides(const ppto_array *array); /* bytes */
PPTO_API void *ppto_array_data(const ppto_array *array);
PPTO_API int64_t ppto_array_elements(const ppto_array *array);
PPTO_API bool ppto_array_is_number(const ppto_array *array);
/* Readable text: NumPy-like nested brackets; every float prints so that reading it back gives the same bits.
 * json: nested lists, null for NaN and infinities. */
PPTO_API ppto_status ppto_array_text(const ppto_array *array, bool json, char **text);

/* Where two arrays differ. Equal when |a - b| <= atol + rtol * |b|; NaN equals NaN; rtol = atol = 0 compares
 * bits (all NaN are one). Another shape or dtype is a difference. */
typedef struct ppto_comparison {
    bool equal, same_shape, same_dtype;
    int64_t different;    /* how many elements */
    int64_t first, worst; /* row-major positions, -1 when none */
    double worst_difference;
    double first_a, first_b, worst_a, worst_b;
} ppto_comparison;
PPTO_API ppto_status ppto_compare(const ppto_array *a, const ppto_array *b, double rtol, double atol,
                                  ppto_comparison *out);

/* ---- where handles are taken ----
 * The same with the place of the call, for memcheck (ppto/memcheck.h); the macros add it. Called through a
 * pointer, or from another language, the functions above say nothing about the place. */
PPTO_API ppto_array *ppto_array_create_at(ppto_site site, ppto_context *ctx, ppto_dtype dtype, int rank,
                                          const int64_t *shape);
PPTO_API ppto_array *ppto_array_copy_of_at(ppto_site site, ppto_context *ctx, ppto_dtype dtype, int rank,
                                           const int64_t *shape, const void *data);
PPTO_API ppto_array *ppto_array_load_at(ppto_site site, ppto_context *ctx, const char *path);
PPTO_API ppto_array *ppto_number_at(ppto_site site, ppto_context *ctx, double value);
PPTO_API ppto_array *ppto_integer_at(ppto_site site, ppto_context *ctx, int64_t value);
PPTO_API ppto_array *ppto_array_fill_at(ppto_site site, ppto_context *ctx, ppto_dtype dtype, int rank,
                                        const int64_t *shape, const char *filler, const char *stream);
PPTO_API ppto_array *ppto_array_retain_at(ppto_site site, ppto_array *array);
PPTO_API void ppto_array_release_at(ppto_site site, ppto_array *array);
#define ppto_array_create(...) ppto_array_create_at(PPTO_HERE, __VA_ARGS__)
#define ppto_array_copy_of(...) ppto_array_copy_of_at(PPTO_HERE, __VA_ARGS__)
#define ppto_array_load(...) ppto_array_load_at(PPTO_HERE, __VA_ARGS__)
#define ppto_number(...) ppto_number_at(PPTO_HERE, __VA_ARGS__)
#define ppto_integer(...) ppto_integer_at(PPTO_HERE, __VA_ARGS__)
#define ppto_array_fill(...) ppto_array_fill_at(PPTO_HERE, __VA_ARGS__)
#define ppto_array_retain(...) ppto_array_retain_at(PPTO_HERE, __VA_ARGS__)
#define ppto_array_release(...) ppto_array_release_at(PPTO_HERE, __VA_ARGS__)

#ifdef __cplusplus
}
#endif
#endif
