/* SPDX-License-Identifier: Apache-2.0
 * Texts become programs here.
 *
 * A name that is free in the text becomes an input when the library asks for it: dtype and shape come from
 * its binding, which is loaded at that moment. A name the text declares is bound after compiling, and judged
 * by the library. So nothing is loaded that the text does not use, except by mistake of the caller, which is
 * an error. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "recording.h"

enum { LONGEST_TEXT = 16 << 20 };

double cli_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- texts ---- */

static int read_failure(const char *path)
{
    int code = errno == ENOMEM ? CLI_LIMIT : CLI_INPUT;
    return cli_fail(code, "%s: %s", path, strerror(errno));
}

static ssize_t read_up_to(int fd, char *text, size_t room)
{
    size_t length = 0;
    while (length < room) {
        ssize_t n = read(fd, text + length, room - length);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        length += (size_t)n;
    }
    return (ssize_t)length;
}

int cli_read_text(const char *path, char **text, size_t *length)
{
    /* One byte more than the language takes: what is too long is told from what just fits. */
    *text = malloc((size_t)LONGEST_TEXT + 2);
    if (*text == NULL) return cli_fail(CLI_LIMIT, "out of memory");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read_up_to(fd, *text, (size_t)LONGEST_TEXT + 1) : -1;
    int code = n < 0 ? read_failure(path) : CLI_OK;
    if (fd >= 0) close(fd);
    if (code != CLI_OK) {
        free(*text);
        *text = NULL;
        return code;
    }
    (*text)[n] = '\0';
    *length = (size_t)n;
    return CLI_OK;
}

static size_t number_length(const char *text)
{
    static const char digits[] = "0123456789";
    size_t length = text[0] >= '0' && text[0] <= '9' ? strspn(text, "0123456789.") : 0;
    if (length == 0 || (text[length] != 'e' && text[length] != 'E')) return length;
    size_t exponent = strspn(text + length + 1, digits);
    return exponent != 0 ? length + 1 + exponent : length;
}

/* The length of a name (NAME.T too) or number at the beginning; 0 for none. */
static size_t operand_length(const char *text)
{
    size_t name = cli_name_length(text);
    if (name == 0) return number_length(text);
    size_t suffix = strncmp(text + name, ".T", 2) == 0 ? 2 : strncmp(text + name, ".mT", 3) == 0 ? 3 : 0;
    return cli_name_length(text + name + suffix) == 0 ? name + suffix : 0;
}

/* Names and numbers parted by slashes, single or double: a division as well as a path. */
static bool is_division(const char *text)
{
    for (const char *c = text;; ++c) {
        c += strspn(c, " ");
        size_t length = operand_length(c);
        if (length == 0) return false;
        c += length;
        c += strspn(c, " ");
        if (*c != '/') return *c == '\0';
        if (c[1] == '/') ++c;
    }
}

/* Ends in .ppto, or holds a / and no operator or line break. What reads as a path and as a division alike is
 * a path when there is such a file. */
static bool is_path(const char *text)
{
    size_t length = strlen(text);
    if (strpbrk(text, "\n\r") != NULL || length == 0) return false;
    if (length >= 5 && strcmp(text + length - 5, ".ppto") == 0) return true;
    if (strchr(text, '/') == NULL) return false;
    if (text[0] == '/' || strncmp(text, "./", 2) == 0 || strncmp(text, "../", 3) == 0) return true;
    if (strpbrk(text, "+-*%@<>=!&|^~()[],:;") != NULL) return false;
    return !is_division(text) || access(text, F_OK) == 0;
}

/* ---- context and definitions ---- */

static void log_line(void *arg, int level, const char *line)
{
    (void)arg;
    (void)level;
    fprintf(stderr, "%s\n", line);
}

static int define_file(ppto_context *ctx, const char *path)
{
    char *text;
    size_t length;
    int code = cli_read_text(path, &text, &length);
    if (code != CLI_OK) return code;
    ppto_status status = ppto_define_named(ctx, text, length, path);
    free(text);
    int last = status == PPTO_OK ? CLI_OK : cli_fail_status(status, NULL);
    return code != CLI_OK ? code : last;
}

int cli_context(const cli_arguments *arguments, ppto_context **ctx)
{
    ppto_options options = arguments->context;
    options.log = log_line;
    if (arguments->memcheck || arguments->memcheck_json != NULL) options.memcheck_level = 2;
    ppto_status status = ppto_context_create(ctx, &options);
    int code = status == PPTO_OK ? CLI_OK : cli_fail_status(status, NULL);
    for (size_t i = 0; i < arguments->defines.n && code == CLI_OK; ++i)
        code = define_file(*ctx, arguments->defines.at[i]);
    if (code != CLI_OK) {
        ppto_context_destroy(*ctx);
        *ctx = NULL;
    }
    return code;
}

/* ---- recording ---- */

/* "4, 512" of an array's shape. */
static void write_dims(const ppto_array *array, char dims[CLI_DIMS_ROOM])
{
    size_t at = 0;
    dims[0] = '\0';
    for (int i = 0; i < ppto_array_rank(array); ++i)
        at += (size_t)snprintf(dims + at, CLI_DIMS_ROOM - at, "%s%" PRId64, i > 0 ? ", " : "",
                               ppto_array_shape(array)[i]);
}

static ppto_tensor *declare(void *arg, ppto_graph *graph, const char *name)
{
    cli_recording *r = arg;
    cli_binding *b = cli_bindings_find(&r->bindings, name);
    if (b == NULL) {
        if (r->missing == NULL) r->missing = strdup(name);
        return NULL;
    }
    b->used = true;
    b->declared = false;
    ppto_site site = {"command line", "", (int32_t)b->position, 0};
    if (b->kind == CLI_NUMBER && b->wide) return ppto_input_at(site, graph, name, PPTO_U64, "");
    if (b->kind == CLI_NUMBER) return ppto_input_number_at(site, graph, name, b->is_float);
    if (b->kind == CLI_SPEC) return ppto_input_at(site, graph, name, b->dtype, b->dims);
    char dims[CLI_DIMS_ROOM];
    r->failed = cli_binding_fetch(b, r->ctx, r->without_data, r->from_files || r->without_data);
    if (r->failed != CLI_OK) return NULL;
    write_dims(b->array, dims);
    return ppto_input_at(site, graph, name, ppto_array_dtype(b->array), dims);
}

static int unused_binding(const cli_recording *r, const cli_binding *b)
{
    if (r->missing != NULL)
        return cli_fail(CLI_USAGE, "%s is bound, but the text has no input %s; did you mean %s?", b->name,
                        b->name, r->missing);
    return cli_fail(CLI_USAGE, "%s: the text has no input of this name", b->name);
}

static int parse_failure(const cli_recording *r, ppto_status status)
{
    if (r->failed != CLI_OK) return r->failed;
    if (r->missing == NULL) return cli_fail_status(status, NULL);
    cli_fail_status(status, NULL);
    for (size_t i = 0; i < r->bindings.n; ++i)
        if (!r->bindings.at[i].used) return unused_binding(r, &r->bindings.at[i]);
    return cli_fail(CLI_USAGE,
                    "an input is bound by NAME=VALUE: %s=FILE.npy, '%s=f32[4,4]:random(7)' or %s=0.5",
                    r->missing, r->missing, r->missing);
}

static int parse_text(cli_recording *r, const char *operand)
{
    char *text = NULL;
    const char *source = operand, *file = "expression";
    size_t length = strlen(operand);
    if (is_path(operand)) {
        int code = cli_read_text(operand, &text, &length);
        if (code != CLI_OK) return code;
        source = text;
        file = operand;
    }
    double start = cli_now();
    ppto_status status =
        ppto_parse_program(r->graph, source, length, file, declare, r, &r->n, &r->outputs, &r->names);
    r->record_seconds = cli_now() - start;
    free(text);
    if (status != PPTO_OK) return parse_failure(r, status);
    return r->n > 0 ? CLI_OK
                    : cli_fail(CLI_USAGE, "the text has no result: end it in an expression or an output");
}

int cli_record(cli_recording *r, const cli_arguments *arguments, bool without_data, bool from_files)
{
    *r = (cli_recording){.without_data = without_data, .from_files = from_files, .arguments = arguments};
    if (arguments->operands.n == 0)
        return cli_fail(CLI_USAGE, "an expression or a program file is missing; see: ppto --help");
    int code = cli_bindings_read(&r->bindings, &arguments->operands, without_data);
    if (code == CLI_OK) code = cli_context(arguments, &r->ctx);
    if (code != CLI_OK) return code;
    r->graph = ppto_graph_create(r->ctx);
    if (r->graph == NULL) return cli_fail_status(ppto_error_status(r->ctx), NULL);
    return parse_text(r, arguments->operands.at[0]);
}

int cli_recording_free(cli_recording *r, int code)
{
    ppto_program_destroy(r->program);
    cli_bindings_free(&r->bindings);
    if (r->n > 0) ppto_outputs_free(r->n, r->outputs, r->names);
    ppto_graph_destroy(r->graph);
    ppto_status status = ppto_context_destroy(r->ctx);
    free((void *)r->missing);
    int last = status == PPTO_OK ? CLI_OK : cli_fail_status(status, NULL);
    return code != CLI_OK ? code : last;
}

/* ---- compiling and binding ---- */

/* An input the text declares has a dtype and a rank of its own; sizes are the library's to judge. */
static int fit_declared(cli_recording *r, cli_binding *b)
{
    const ppto_tensor *input = ppto_expr(r->graph, b->name);
    if (input == NULL) return CLI_OK;
    ppto_dtype dtype = ppto_tensor_dtype(input);
    int rank = ppto_tensor_rank(input);
    if (b->kind == CLI_NUMBER && rank == 0) return cli_binding_number(b, r->ctx, dtype);
    bool open = b->array == NULL;
    ppto_dtype given = open ? b->dtype : ppto_array_dtype(b->array);
    int given_rank = open ? b->rank : ppto_array_rank(b->array);
    if (b->kind != CLI_NUMBER && given == dtype && given_rank == rank) return CLI_OK;
    return cli_fail(b->kind == CLI_FILE ? CLI_INPUT : CLI_USAGE,
                    "%s=%s: input %s is %s, but this is %s of rank %d", b->name, b->value, b->name,
                    ppto_tensor_type(input), ppto_dtype_name(given), given_rank);
}

static int bind_input(cli_recording *r, size_t i)
{
    const char *name = ppto_program_input_name(r->program, i);
    cli_binding *b = cli_bindings_find(&r->bindings, name);
    if (b == NULL)
        return r->without_data ? CLI_OK
                               : cli_fail(CLI_USAGE, "input %s is not bound: give %s=VALUE", name, name);
    b->used = true;
    if (r->without_data && b->kind == CLI_SPEC && !b->declared) return CLI_OK; /* the input has its sizes */
    int code = cli_binding_fetch(b, r->ctx, r->without_data, r->from_files || r->without_data);
    if (code == CLI_OK && b->declared) code = fit_declared(r, b);
    if (code != CLI_OK || b->array == NULL) return code;
    ppto_status status = ppto_program_bind(r->program, i, b->array);
    if (status == PPTO_OK) return CLI_OK;
    return b->kind == CLI_FILE ? cli_fail_file(status, b->name) : cli_fail_status(status, b->name);
}

/* A binding the program did not ask for may still be an input of the text: declared, and not needed for the
 * results that were chosen. An expression over the graph's inputs tells. */
static int check_unused(cli_recording *r)
{
    for (size_t i = 0; i < r->bindings.n; ++i) {
        cli_binding *b = &r->bindings.at[i];
        if (!b->used && ppto_expr(r->graph, b->name) == NULL) return unused_binding(r, b);
    }
    return CLI_OK;
}

/* Nor is the interpreter in place of the machine code that was asked for. */
static void tell_tier(const cli_recording *r)
{
    ppto_stats stats = {.size = sizeof stats};
    if (ppto_program_stats(r->program, &stats) == PPTO_OK && stats.no_code != NULL)
        fprintf(stderr, "note: tier jit: there is no machine code: %s\n", stats.no_code);
}

/* Fewer workers than were asked for are no failure, but somebody may wonder; not where an executor was chosen
 * that has one. */
static void tell_threads(const cli_recording *r)
{
    const ppto_options *o = &r->arguments->context;
    ppto_stats stats = {.size = sizeof stats};
    if (ppto_program_stats(r->program, &stats) != PPTO_OK || o->threads <= stats.threads) return;
    if (o->executor != NULL && stats.threads == 1) return;
    fprintf(stderr, "note: --threads %d: the machine allows %d, as `ppto info` says\n", o->threads,
            stats.threads);
}

int cli_compile(cli_recording *r, const size_t *chosen, size_t n)
{
    ppto_tensor **outputs = malloc(n * sizeof(ppto_tensor *));
    if (outputs == NULL) return cli_fail(CLI_LIMIT, "out of memory");
    for (size_t i = 0; i < n; ++i) outputs[i] = r->outputs[chosen[i]];
    double start = cli_now();
    ppto_status status = ppto_compile(n, outputs, &r->program);
    r->compile_seconds = cli_now() - start;
    free(outputs);
    if (status != PPTO_OK) return cli_fail_status(status, NULL);
    tell_threads(r);
    tell_tier(r);
    size_t inputs = ppto_program_inputs(r->program);
    for (size_t i = 0; i < inputs; ++i) {
        cli_binding *b = cli_bindings_find(&r->bindings, ppto_program_input_name(r->program, i));
        if (b != NULL) b->used = true;
    }
    int code = check_unused(r);
    for (size_t i = 0; i < inputs && code == CLI_OK; ++i) code = bind_input(r, i);
    for (size_t i = 0; i < n && status == PPTO_OK; ++i)
        status = ppto_program_name_output(r->program, i, r->names[chosen[i]]);
    return code != CLI_OK || status == PPTO_OK ? code : cli_fail_status(status, NULL);
}

int cli_fail_run(const cli_recording *r, ppto_status status)
{
    bool file = false;
    for (size_t i = 0; i < r->bindings.n; ++i)
        file = file || (r->bindings.at[i].used && r->bindings.at[i].kind == CLI_FILE);
    if (file && (status == PPTO_E_SHAPE || status == PPTO_E_DTYPE)) return cli_fail_file(status, NULL);
    return cli_fail_status(status, NULL);
}
