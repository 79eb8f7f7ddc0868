/* SPDX-License-Identifier: Apache-2.0
 * ppto compare: where two NPY files differ; exit 1 when they do. */
#include <inttypes.h>
#include <string.h>

#include "cli.h"
#include "ppto/array.h"

enum { INDEX_ROOM = 512 };

/* "[1, 0, 3]" of a row-major position. */
static void index_text(const ppto_array *array, int64_t position, char text[INDEX_ROOM])
{
    int rank = ppto_array_rank(array);
    int64_t index[PPTO_MAX_RANK];
    for (int d = rank; d-- > 0;) {
        int64_t size = ppto_array_shape(array)[d];
        index[d] = position % size;
        position /= size;
    }
    size_t at = (size_t)snprintf(text, INDEX_ROOM, "[");
    for (int d = 0; d < rank; ++d)
        at += (size_t)snprintf(text + at, INDEX_ROOM - at, "%s%" PRId64, d > 0 ? ", " : "", index[d]);
    snprintf(text + at, INDEX_ROOM - at, "]");
}

static void type_text(const ppto_array *array, char text[INDEX_ROOM])
{
    size_t at = (size_t)snprintf(text, INDEX_ROOM, "%s[", ppto_dtype_name(ppto_array_dtype(array)));
    for (int d = 0; d < ppto_array_rank(array); ++d)
        at += (size_t)snprintf(text + at, INDEX_ROOM - at, "%s%" PRId64, d > 0 ? ", " : "",
                               ppto_array_shape(array)[d]);
    snprintf(text + at, INDEX_ROOM - at, "]");
}

static void print_text(const ppto_array *a, const ppto_array *b, const ppto_comparison *c)
{
    char text[INDEX_ROOM], other[INDEX_ROOM];
    type_text(a, text);
    type_text(b, other);
    if (c->equal) {
        printf("equal: %s\n", text);
        return;
    }
    if (!c->same_shape || !c->same_dtype)
        printf("different %s: %s and %s\n",
               c->same_shape   ? "dtypes"
               : c->same_dtype ? "shapes"
                               : "dtypes and shapes",
               text, other);
    if (c->first < 0 || !c->same_shape) return;
    printf("%" PRId64 " of %" PRId64 " elements differ\n", c->different, ppto_array_elements(a));
    index_text(a, c->first, text);
    printf("first at %s: %.17g and %.17g\n", text, c->first_a, c->first_b);
    if (c->worst < 0) return;
    index_text(a, c->worst, text);
    printf("worst at %s: %.17g and %.17g, by %.9g\n", text, c->worst_a, c->worst_b, c->worst_difference);
}

static void place_json(const char *name, const ppto_array *a, int64_t position, double x, double y)
{
    char index[INDEX_ROOM];
    printf(", \"%s\": ", name);
    if (position < 0) {
        fputs("null", stdout);
        return;
    }
    index_text(a, position, index);
    printf("{\"index\": %s, \"a\": ", index);
    cli_json_number(stdout, x);
    fputs(", \"b\": ", stdout);
    cli_json_number(stdout, y);
    fputs("}", stdout);
}

static void print_json(const ppto_array *a, const ppto_comparison *c)
{
    printf("{\"schema\": \"ppto-compare/1\", \"equal\": %s, \"same_shape\": %s, \"same_dtype\": %s, "
           "\"different\": %" PRId64,
           c->equal ? "true" : "false", c->same_shape ? "true" : "false", c->same_dtype ? "true" : "false",
           c->different);
    bool places = c->same_shape;
    place_json("first", a, places ? c->first : -1, c->first_a, c->first_b);
    place_json("worst", a, places ? c->worst : -1, c->worst_a, c->worst_b);
    fputs(", \"worst_difference\": ", stdout);
    if (places && c->worst >= 0)
        cli_json_number(stdout, c->worst_difference);
    else
        fputs("null", stdout);
    fputs("}\n", stdout);
}

static int compare(ppto_context *ctx, const cli_arguments *arguments, ppto_array *arrays[2])
{
    ppto_comparison result;
    for (int i = 0; i < 2; ++i) {
        arrays[i] = ppto_array_load(ctx, arguments->operands.at[i]);
        if (arrays[i] == NULL) return cli_fail_file(ppto_error_status(ctx), NULL);
    }
    ppto_status status = ppto_compare(arrays[0], arrays[1], arguments->rtol, arguments->atol, &result);
    if (status != PPTO_OK) return cli_fail_status(status, NULL);
    if (arguments->json)
        print_json(arrays[0], &result);
    else
        print_text(arrays[0], arrays[1], &result);
    return result.equal ? CLI_OK : CLI_DIFFERENT;
}

int cli_compare(const cli_arguments *arguments)
{
    ppto_context *ctx = NULL;
    ppto_array *arrays[2] = {NULL, NULL};
    if (arguments->operands.n != 2)
        return cli_fail(CLI_USAGE, "compare takes two files, not %zu; see: ppto compare --help",
                        arguments->operands.n);
    if (strcmp(arguments->operands.at[0], "-") == 0 && strcmp(arguments->operands.at[1], "-") == 0)
        return cli_fail(CLI_USAGE, "standard input (-) can be one of the files only");
    int code = cli_context(arguments, &ctx);
    if (code == CLI_OK) code = compare(ctx, arguments, arrays);
    ppto_array_release(arrays[0]);
    ppto_array_release(arrays[1]);
    ppto_context_destroy(ctx);
    return code;
}
