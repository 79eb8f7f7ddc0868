/* SPDX-License-Identifier: Apache-2.0
 * fuzz_loops MODULE [--loops N] [--seed S] [--simd NAME]
 *
 * Random loops through the generator of machine code, beside the reference of the rows; for every instruction
 * set the machine has, or one. Prints TAP; a loop that differs is printed with its seed. None may be
 * refused: all rows can be machine code. Damaged objects must be refused without a crash. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/library.h"
#include "lang/parser.h"
#include "loop_fuzz.h"

extern const char pp_library_text[], pp_functions_text[];
extern const size_t pp_library_text_size, pp_functions_text_size;

typedef struct sums {
    long loops, refused, wrong;
    double seconds; /* of compiling and loading */
} sums;

typedef struct functions {
    pp_library *library;
    lf_library at;
} functions;

static ppto_status add(pp_library *library, const char *text, size_t n, const char *file, pp_error *err)
{
    pp_unit *unit = NULL;
    PP_TRY(pp_parse(text, n, file, PP_PARSE_LIBRARY, &unit, err));
    return pp_library_add(library, unit, pp_unit_destroy, true, err);
}

/* Every scalar function and fold of the shipped library. */
static ppto_status read_functions(functions *out, pp_error *err)
{
    const pp_monoid *const *monoids;
    size_t n;
    PP_TRY(pp_library_create(NULL, &out->library));
    PP_TRY(add(out->library, pp_functions_text, pp_functions_text_size, "functions.ppto", err));
    PP_TRY(add(out->library, pp_library_text, pp_library_text_size, "library.ppto", err));
    PP_TRY(pp_library_precompile(out->library, &out->at.functions, &out->at.n_functions, &monoids, &n, err));
    pp_fold *folds = pp_calloc(n + 1, sizeof *folds);
    if (folds == NULL) return PPTO_E_NOMEM;
    for (size_t i = 0; i < n; i++) folds[i] = pp_library_fold(monoids[i]);
    out->at.folds = folds, out->at.n_folds = n;
    return PPTO_OK;
}

static void report(const lf_loop *l, uint64_t seed, const char *what)
{
    pp_text text = {0};
    pp_loop_print(&l->loop, &text);
    printf("# seed %llu: %s\n", (unsigned long long)seed, what);
    for (const char *at = text.at, *end; at != NULL && *at != '\0'; at = end + 1) {
        end = strchr(at, '\n');
        printf("#   %.*s\n", (int)(end - at), at);
    }
    fflush(stdout);
    pp_text_free(&text);
}

/* Damaged copies of the object load, or are refused; nothing else. NULL, or what went wrong. */
static const char *damage(lf_random *random, const pp_generator *generator, const char *object, size_t bytes)
{
    char *copy = pp_alloc(bytes);
    const char *wrong = NULL;
    for (int i = 0; i < 20 && copy != NULL && wrong == NULL; i++) {
        pp_error err = {0};
        void *handle;
        pp_loop_fn fn;
        memcpy(copy, object, bytes);
        const uint32_t room = i % 2 ? 64 : (uint32_t)bytes; /* the head, or anywhere */
        for (uint32_t k = lf_below(random, 3); k < 3; k++)
            copy[lf_below(random, room)] ^= (char)(1u << lf_below(random, 8));
        const size_t n = lf_below(random, 4) == 0 ? lf_below(random, (uint32_t)bytes) : bytes;
        const ppto_status status = generator->load(copy, n, &handle, &fn, &err);
        if (status == PPTO_OK)
            generator->unload(handle);
        else if (status != PPTO_E_INTERNAL && status != PPTO_E_UNSUPPORTED)
            wrong = "a damaged object gives another error";
    }
    pp_free(copy);
    return wrong;
}

static void one(const pp_generator *generator, const char *simd, const functions *f, uint64_t seed, sums *sum)
{
    lf_random random = {seed};
    lf_loop l;
    pp_error err = {0};
    void *object = NULL, *handle = NULL;
    size_t bytes = 0;
    pp_loop_fn fn = NULL;
    char text[256];
    lf_make(&random, &f->at, &l);
    const int64_t start = pp_clock_ns();
    ppto_status status = generator->compile(&l.loop, simd, pp_alloc, &object, &bytes, &err);
    if (status == PPTO_OK) status = generator->load(object, bytes, &handle, &fn, &err);
    sum->seconds += (double)(pp_clock_ns() - start) * 1e-9;
    sum->loops++;
    const char *wrong = NULL;
    if (status == PPTO_E_UNSUPPORTED) {
        sum->refused++;
        if (getenv("PPTO_LOOPS_REFUSED") != NULL) printf("# %s\n", err.text);
    } else if (status != PPTO_OK) {
        wrong = err.text;
    } else {
        for (int i = 0; i < 3 && wrong == NULL; i++) wrong = lf_compare(&random, &l.loop, fn, text);
        if (wrong == NULL) wrong = damage(&random, generator, object, bytes);
    }
    if (wrong != NULL && sum->wrong++ < 3) report(&l, seed, wrong);
    generator->unload(handle);
    pp_free(object);
}

static bool run(const pp_generator *generator, const char *simd, const functions *f, uint64_t seed,
                long loops)
{
    pp_error err = {0};
    sums sum = {0};
    if (generator->open(simd, &err) != PPTO_OK) {
        printf("ok - %s # SKIP %s\n", simd, err.text);
        return true;
    }
    for (long i = 0; i < loops; i++) one(generator, simd, f, seed + (uint64_t)i, &sum);
    const bool good = sum.wrong == 0 && sum.refused == 0;
    printf("%sok - %s: %ld loops, %ld refused, %ld differ; %.2f ms each to compile\n", good ? "" : "not ",
           simd, sum.loops, sum.refused, sum.wrong,
           sum.seconds * 1e3 / (double)(sum.loops > 0 ? sum.loops : 1));
    fflush(stdout);
    return good;
}

static const char *option(int argc, char **argv, const char *name, const char *otherwise)
{
    for (int i = 2; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0) return argv[i + 1];
    return otherwise;
}

int main(int argc, char **argv)
{
    static const char *const sets[] = {"avx2", "avx512"};
    functions f = {0};
    pp_error err = {0};
    const long loops = strtol(option(argc, argv, "--loops", "1000"), NULL, 10);
    const uint64_t seed = strtoull(option(argc, argv, "--seed", "1"), NULL, 10);
    const char *only = option(argc, argv, "--simd", NULL);
    void *module = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    const pp_generator *generator = module != NULL ? dlsym(module, "pp_generator_module") : NULL;
    if (generator == NULL || generator->abi != PP_GENERATOR_ABI) {
        printf("1..1\nnot ok - the module: %s\n",
               argc > 1 ? dlerror() : "usage: fuzz_loops MODULE [OPTIONS]");
        return 1;
    }
    bool good = read_functions(&f, &err) == PPTO_OK;
    printf("1..%d\n", only != NULL ? 1 : 2);
    for (int i = 0; i < 2; i++)
        if (only == NULL || strcmp(only, sets[i]) == 0)
            good = run(generator, sets[i], &f, seed, loops) && good;
    pp_free((void *)f.at.folds);
    pp_library_destroy(f.library);
    return good ? 0 : 1;
}
