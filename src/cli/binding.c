/* SPDX-License-Identifier: Apache-2.0
 * Reading NAME=VALUE and making the array behind it. See binding.h. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "binding.h"

/* Words a text may not use as names; a binding of one can never be meant. */
static const char *const reserved[] = {"if",     "else", "for",  "in",    "not",     "and",
                                       "or",     "true", "none", "None",  "newaxis", "require",
                                       "output", "inf",  "nan",  "false", "pi"};

typedef struct dtype_word {
    const char *name;
    int dtype; /* -1: known, not supported */
} dtype_word;
static const dtype_word long_names[] = {
    {"float32", PPTO_F32}, {"float64", PPTO_F64}, {"int8", PPTO_I8},  {"int16", PPTO_I16},
    {"int32", PPTO_I32},   {"int64", PPTO_I64},   {"uint8", PPTO_U8}, {"uint16", PPTO_U16},
    {"uint32", PPTO_U32},  {"uint64", PPTO_U64},  {"f16", -1},        {"float16", -1},
    {"bf16", -1},          {"bfloat16", -1},      {"c64", -1},        {"c128", -1},
    {"complex64", -1},     {"complex128", -1},
};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

size_t cli_name_length(const char *text)
{
    size_t n = 0;
    if (!is_letter(text[0])) return 0;
    while (is_letter(text[n]) || is_digit(text[n])) ++n;
    return n;
}

static bool same(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && memcmp(text, word, length) == 0;
}

/* The dtype whose name is text[0..length); -1 for one that is not supported, -2 for no dtype. */
static int find_dtype(const char *text, size_t length)
{
    for (int d = PPTO_BOOL; d <= PPTO_F64; ++d)
        if (same(text, length, ppto_dtype_name((ppto_dtype)d))) return d;
    for (size_t i = 0; i < sizeof long_names / sizeof long_names[0]; ++i)
        if (same(text, length, long_names[i].name)) return long_names[i].dtype;
    return -2;
}

static int wrong_spec(const cli_binding *b, const char *what)
{
    return cli_fail(CLI_USAGE, "%s=%s: %s", b->name, b->value, what);
}

static const char *skip_blanks(const char *c)
{
    while (*c == ' ' || *c == '\t') ++c;
    return c;
}

/* One size; moves *text behind it. */
static int read_size(cli_binding *b, const char **text)
{
    const char *c = *text;
    size_t length = cli_name_length(c);
    if (b->rank == PPTO_MAX_RANK) return wrong_spec(b, "at most 16 axes are supported");
    if (length > 0) {
        b->open = true;
        *text = c + length;
    } else if (is_digit(*c)) {
        char *end;
        errno = 0;
        long long size = strtoll(c, &end, 10);
        if (errno == ERANGE) {
            wrong_spec(b, "a size overflows 64 bits");
            return CLI_LIMIT;
        }
        b->shape[b->rank] = size;
        *text = end;
    } else {
        return wrong_spec(b,
                          *c == '-' ? "a size cannot be negative" : "a size was expected, as in f32[4,512]");
    }
    ++b->rank;
    return CLI_OK;
}

/* What stands behind "dtype[". */
static int read_spec(cli_binding *b, const char *text)
{
    const char *c = skip_blanks(text);
    while (*c != ']') {
        int code = read_size(b, &c);
        if (code != CLI_OK) return code;
        c = skip_blanks(c);
        if (*c == ',')
            c = skip_blanks(c + 1);
        else if (*c != ']')
            return wrong_spec(b, "expected , or ] after a size");
    }
    size_t length = (size_t)(c - text);
    while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == ',')) --length;
    if (length >= CLI_DIMS_ROOM) return wrong_spec(b, "the sizes are too long");
    memcpy(b->dims, text, length);
    b->dims[length] = '\0';
    if (c[1] == ':' && c[2] != '\0')
        b->filler = c + 2;
    else if (c[1] == '\0')
        b->filler = "random(0)";
    else
        return wrong_spec(b, "expected the end or :FILLER after ]");
    return CLI_OK;
}

static const char *skip_digits(const char *c)
{
    while (is_digit(*c)) ++c;
    return c;
}

/* Is all of the text a number of the language, with a sign? */
static bool is_number(const char *text, bool *is_float)
{
    const char *c = text + (*text == '-' || *text == '+');
    *is_float = true;
    if (strcmp(c, "inf") == 0 || strcmp(c, "nan") == 0) return true;
    if (c[0] == '0' && (c[1] == 'x' || c[1] == 'X') && is_hex(c[2])) {
        *is_float = false;
        for (c += 2; is_hex(*c); ++c) continue;
        return *c == '\0';
    }
    const char *end = skip_digits(c);
    size_t digits = (size_t)(end - c);
    *is_float = *end != '\0';
    if (*end == '.') {
        c = end + 1;
        end = skip_digits(c);
        digits += (size_t)(end - c);
    }
    if (digits == 0) return false;
    if (*end == 'e' || *end == 'E') {
        c = end + 1;
        c += *c == '-' || *c == '+';
        end = skip_digits(c);
        if (end == c) return false;
    }
    return *end == '\0';
}

static int read_number(cli_binding *b)
{
    b->kind = CLI_NUMBER;
    errno = 0;
    if (b->is_float) {
        b->number = strtod(b->value, NULL);
        if (isinf(b->number) && strstr(b->value, "inf") == NULL)
            return wrong_spec(b, "the number does not fit f64");
        return CLI_OK;
    }
    const char *digits = b->value + (b->value[0] == '-' || b->value[0] == '+');
    int base = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X') ? 16 : 10;
    b->integer = strtoll(b->value, NULL, base);
    if (errno != ERANGE) return CLI_OK;
    errno = 0;
    b->integer = (int64_t)strtoull(digits, NULL, base);
    b->wide = b->value[0] != '-' && errno != ERANGE;
    return b->wide ? CLI_OK : wrong_spec(b, "the number does not fit i64 or u64");
}

/* "bool, i8, …": all there are. */
static void list_dtypes(char *list, size_t room)
{
    size_t at = 0;
    for (int d = PPTO_BOOL; d <= PPTO_F64 && at < room - 8; ++d)
        at += (size_t)snprintf(list + at, room - at, "%s%s", d > PPTO_BOOL ? ", " : "",
                               ppto_dtype_name((ppto_dtype)d));
}

/* What looks like data made up for the occasion, of a dtype that is none or not supported, and no such file
 * is there. */
static int no_dtype(const cli_binding *b, size_t length, bool known)
{
    char list[128];
    list_dtypes(list, sizeof list);
    if (known)
        return cli_fail(CLI_USAGE, "%s=%s: this dtype is not supported (there are %s)", b->name, b->value,
                        list);
    return cli_fail(CLI_USAGE, "%s=%s: %.*s is no dtype (there are %s), and there is no file of this name",
                    b->name, b->value, (int)length, b->value, list);
}

/* f32, f32(2,3) or f32 [2,3]: a dtype without its sizes in brackets, and no such file is there. */
static bool lacks_brackets(const cli_binding *b, size_t length)
{
    return length > 0 && strchr("( {:", b->value[length]) != NULL && find_dtype(b->value, length) >= 0 &&
           access(b->value, F_OK) != 0;
}

static int read_value(cli_binding *b, bool may_be_open)
{
    size_t length = cli_name_length(b->value);
    int dtype = length > 0 && b->value[length] == '[' ? find_dtype(b->value, length) : -2;
    if (dtype == -1) return no_dtype(b, length, true);
    if (dtype >= 0) {
        b->kind = CLI_SPEC;
        b->dtype = (ppto_dtype)dtype;
        int code = read_spec(b, b->value + length + 1);
        if (code == CLI_OK && b->open && !may_be_open)
            code = wrong_spec(b, "a named size has no value here: give every size as a number");
        return code;
    }
    if (is_number(b->value, &b->is_float)) return read_number(b);
    if (length > 0 && b->value[length] == '[' && access(b->value, F_OK) != 0)
        return no_dtype(b, length, false);
    if (lacks_brackets(b, length))
        return wrong_spec(b, "sizes stand in brackets behind the dtype, as in f32[4,512] (f32[]: one "
                             "element); there is no file of this name");
    b->kind = CLI_FILE;
    return b->value[0] != '\0' ? CLI_OK
                               : wrong_spec(b, "a file, a number or a dtype and shape must follow =");
}

static bool is_reserved(const char *name)
{
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; ++i)
        if (strcmp(name, reserved[i]) == 0) return true;
    return find_dtype(name, strlen(name)) >= 0;
}

static int read_binding(cli_bindings *list, const char *operand, size_t position, bool may_be_open)
{
    size_t length = cli_name_length(operand);
    if (length == 0 || operand[length] != '=')
        return cli_fail(CLI_USAGE,
                        "%s: expected a binding NAME=VALUE; a text of several words stands in quotes, as in "
                        "'x + 1'",
                        operand);
    cli_binding *b = &list->at[list->n];
    *b = (cli_binding){.value = operand + length + 1, .position = position, .filler = "", .declared = true};
    b->name = strndup(operand, length);
    if (b->name == NULL) return cli_fail(CLI_LIMIT, "out of memory");
    if (is_reserved(b->name) || cli_bindings_find(list, b->name) != NULL) {
        cli_fail(CLI_USAGE, is_reserved(b->name) ? "%s: no input can have this name" : "%s: bound twice",
                 b->name);
        free(b->name);
        return CLI_USAGE;
    }
    ++list->n;
    return read_value(b, may_be_open);
}

int cli_bindings_read(cli_bindings *bindings, const cli_list *operands, bool may_be_open)
{
    size_t pipes = 0;
    bindings->n = 0;
    bindings->at = calloc(operands->n + 1, sizeof *bindings->at);
    if (bindings->at == NULL) return cli_fail(CLI_LIMIT, "out of memory");
    for (size_t i = 1; i < operands->n; ++i) {
        int code = read_binding(bindings, operands->at[i], i, may_be_open);
        if (code != CLI_OK) return code;
        pipes += cli_is_standard(bindings->at[bindings->n - 1].value);
    }
    return pipes > 1 ? cli_fail(CLI_USAGE, "standard input (-) can be read by one input only") : CLI_OK;
}

void cli_bindings_free(cli_bindings *bindings)
{
    for (size_t i = 0; i < bindings->n; ++i) {
        ppto_array_release(bindings->at[i].array);
        free(bindings->at[i].name);
    }
    free(bindings->at);
    *bindings = (cli_bindings){0, NULL};
}

cli_binding *cli_bindings_find(const cli_bindings *bindings, const char *name)
{
    for (size_t i = 0; i < bindings->n; ++i)
        if (strcmp(bindings->at[i].name, name) == 0) return &bindings->at[i];
    return NULL;
}

/* The bytes of the number in an integer dtype or bool; false when it does not fit. */
static bool integer_bytes(const cli_binding *b, ppto_dtype dtype, void *bytes)
{
    int64_t value = b->integer;
    if (b->wide && dtype != PPTO_U64) return false;
    int bits = 8 * (int)ppto_dtype_size(dtype);
    bool is_unsigned = dtype >= PPTO_U8 && dtype <= PPTO_U64;
    if (dtype == PPTO_BOOL && value != 0 && value != 1) return false;
    if (is_unsigned && ((value < 0 && !b->wide) || (bits < 64 && value >> bits != 0))) return false;
    if (!is_unsigned && bits < 64 &&
        (value < -((int64_t)1 << (bits - 1)) || value >= (int64_t)1 << (bits - 1)))
        return false;
    switch (bits) {
    case 8: *(uint8_t *)bytes = (uint8_t)value; return true;
    case 16: *(uint16_t *)bytes = (uint16_t)value; return true;
    case 32: *(uint32_t *)bytes = (uint32_t)value; return true;
    default: *(uint64_t *)bytes = (uint64_t)value; return true;
    }
}

int cli_binding_number(cli_binding *b, ppto_context *ctx, ppto_dtype dtype)
{
    uint64_t room = 0; /* aligned for every dtype */
    double whole = b->wide ? (double)(uint64_t)b->integer : (double)b->integer;
    double number = b->is_float ? b->number : whole;
    float single = (float)number;
    bool fits = true;
    if (dtype == PPTO_F64)
        memcpy(&room, &number, sizeof number);
    else if (dtype == PPTO_F32)
        memcpy(&room, &single, sizeof single), fits = isinf(single) == isinf(number);
    else
        fits = !b->is_float && integer_bytes(b, dtype, &room);
    if (!fits)
        return cli_fail(CLI_USAGE, "%s=%s: the number does not fit %s", b->name, b->value,
                        ppto_dtype_name(dtype));
    ppto_array_release(b->array);
    b->array = ppto_array_copy_of(ctx, dtype, 0, NULL, &room);
    return b->array != NULL ? CLI_OK : cli_fail_status(ppto_error_status(ctx), b->name);
}

int cli_binding_fetch(cli_binding *b, ppto_context *ctx, bool without_data, bool from_file)
{
    static _Alignas(64) char nothing[64];
    const ppto_site name = {.file = b->name}, file = {.file = b->value}; /* for memcheck */
    if (b->array != NULL || (b->kind == CLI_SPEC && b->open)) return CLI_OK;
    if (b->kind == CLI_NUMBER && b->wide)
        b->array = ppto_array_copy_of(ctx, PPTO_U64, 0, NULL, &b->integer);
    else if (b->kind == CLI_NUMBER)
        b->array = b->is_float ? ppto_number(ctx, b->number) : ppto_integer(ctx, b->integer);
    else if (b->kind == CLI_FILE)
        b->array = from_file ? ppto_array_open(ctx, b->value) : ppto_array_load_at(file, ctx, b->value);
    else if (without_data)
        b->array = ppto_array_wrap(ctx, nothing, b->dtype, b->rank, b->shape, NULL, NULL, NULL);
    else
        b->array = ppto_array_fill_at(name, ctx, b->dtype, b->rank, b->shape, b->filler, b->name);
    if (b->array != NULL) return CLI_OK;
    return b->kind == CLI_FILE ? cli_fail_file(ppto_error_status(ctx), b->name)
                               : cli_fail_status(ppto_error_status(ctx), b->name);
}
