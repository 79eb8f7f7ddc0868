/* SPDX-License-Identifier: Apache-2.0
 * Build-time program: functions_gen FILE... writes the C sources of the loops of every scalar function and
 * fold of the shipped library (functions_emit.h), spread over the files. Runs on the build machine only; it
 * is no part of the library, so it may see graph and language. */
#include <stdio.h>
#include <string.h>

#include "devices/cpu/functions_emit.h"
#include "graph/library.h"
#include "lang/parser.h"

extern const char pp_library_text[], pp_functions_text[];
extern const size_t pp_library_text_size, pp_functions_text_size;

static ppto_status add(pp_library *library, const char *text, size_t n, const char *file, pp_error *err)
{
    pp_unit *unit = NULL;
    PP_TRY(pp_parse(text, n, file, PP_PARSE_LIBRARY, &unit, err));
    return pp_library_add(library, unit, pp_unit_destroy, true, err);
}

static ppto_status generate(pp_text *out, size_t n_parts, pp_error *err)
{
    pp_library *library = NULL;
    const pp_function *const *functions;
    const pp_monoid *const *monoids;
    size_t n_functions, n_monoids;
    PP_TRY(pp_library_create(NULL, &library));
    ppto_status status = add(library, pp_functions_text, pp_functions_text_size, "functions.ppto", err);
    if (status == PPTO_OK) status = add(library, pp_library_text, pp_library_text_size, "library.ppto", err);
    if (status == PPTO_OK)
        status = pp_library_precompile(library, &functions, &n_functions, &monoids, &n_monoids, err);
    pp_fold *folds = status == PPTO_OK ? pp_calloc(n_monoids + 1, sizeof *folds) : NULL;
    if (status == PPTO_OK && !folds) status = PPTO_E_NOMEM;
    for (size_t i = 0; status == PPTO_OK && i < n_monoids; i++) folds[i] = pp_library_fold(monoids[i]);
    if (status == PPTO_OK) status = pp_functions_emit(functions, n_functions, folds, n_monoids, out, n_parts);
    pp_free(folds);
    pp_library_destroy(library);
    return status;
}

/* Whether the file already holds the text: then it stays as old as it is, and nothing is compiled again. */
static bool holds(const char *path, const pp_text *text)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    char *old = pp_alloc(text->n + 1);
    const size_t n = old != NULL ? fread(old, 1, text->n + 1, file) : 0;
    const bool same = old != NULL && n == text->n && memcmp(old, text->at, n) == 0;
    pp_free(old);
    fclose(file);
    return same;
}

static bool write_text(const char *path, const pp_text *text)
{
    if (holds(path, text)) return true;
    FILE *file = fopen(path, "w");
    if (file == NULL) return false;
    const bool written = fwrite(text->at, 1, text->n, file) == text->n;
    return fclose(file) == 0 && written;
}

int main(int argc, char **argv)
{
    enum { MAX_PARTS = 64 };
    pp_text out[MAX_PARTS] = {0};
    pp_error err = {0};
    const size_t n_parts = (size_t)argc - 1;
    if (argc < 2 || n_parts > MAX_PARTS) {
        fprintf(stderr, "usage: functions_gen FILE...\n");
        return 2;
    }
    ppto_status status = generate(out, n_parts, &err);
    if (status != PPTO_OK)
        fprintf(stderr, "functions_gen: %s\n", err.text[0] ? err.text : ppto_status_text(status));
    bool good = status == PPTO_OK;
    for (size_t i = 0; i < n_parts; i++) {
        if (good && !write_text(argv[i + 1], &out[i])) {
            fprintf(stderr, "functions_gen: cannot write %s\n", argv[i + 1]);
            good = false;
        }
        pp_text_free(&out[i]);
    }
    return good ? 0 : 1;
}
