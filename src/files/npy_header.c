/* SPDX-License-Identifier: Apache-2.0
 * The header of an NPY file: magic, version, and a text that is a Python dictionary with the keys descr,
 * fortran_order and shape.
 *
 * The text is read by a small parser of exactly the literals that can occur, never evaluated. Keys may come
 * in any order, each once; unknown ones are an error, for they could change what the data means. Element
 * types that are refused are named: "object" tells a user what to do, "malformed" does not. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "files/npy_header.h"

enum { LARGEST_HEADER = 1 << 16, LONGEST_WORD = 32 };

static const char host_order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? '<' : '>';

static const struct dtype_row {
    char name[3]; /* kind and size in a descr */
    ppto_dtype dtype;
    unsigned size;
} dtype_rows[] = {
    {"b1", PPTO_BOOL, 1}, {"i1", PPTO_I8, 1},  {"i2", PPTO_I16, 2}, {"i4", PPTO_I32, 4},
    {"i8", PPTO_I64, 8},  {"u1", PPTO_U8, 1},  {"u2", PPTO_U16, 2}, {"u4", PPTO_U32, 4},
    {"u8", PPTO_U64, 8},  {"f4", PPTO_F32, 4}, {"f8", PPTO_F64, 8},
};
enum { DTYPE_ROWS = sizeof dtype_rows / sizeof *dtype_rows };

static const struct dtype_row *row_of(ppto_dtype dtype)
{
    for (size_t i = 0; i < DTYPE_ROWS; i++)
        if (dtype_rows[i].dtype == dtype) return &dtype_rows[i];
    return NULL;
}

size_t pp_npy_dtype_size(ppto_dtype dtype)
{
    const struct dtype_row *row = row_of(dtype);
    return row != NULL ? row->size : 0;
}

bool pp_npy_descr(ppto_dtype dtype, char descr[8])
{
    const struct dtype_row *row = row_of(dtype);
    if (row == NULL) return false;
    snprintf(descr, 8, "%c%s", row->size == 1 ? '|' : host_order, row->name);
    return true;
}

/* ---- the parser
 * --------------------------------------------------------------------------------------------- */

typedef struct cursor {
    const char *at, *end;
} cursor;

static char peek(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) c->at++;
    return c->at < c->end ? *c->at : '\0';
}

static bool accept(cursor *c, char wanted)
{
    if (peek(c) != wanted || c->at == c->end) return false;
    c->at++;
    return true;
}

/* A quoted string without escapes, shorter than LONGEST_WORD. */
static bool quoted(cursor *c, char word[LONGEST_WORD])
{
    char quote = peek(c);
    if (quote != '\'' && quote != '"') return false;
    size_t n = 0;
    for (c->at++; c->at < c->end && *c->at != quote; c->at++) {
        if (n + 1 == LONGEST_WORD || (unsigned char)*c->at < ' ' || *c->at == '\\') return false;
        word[n++] = *c->at;
    }
    word[n] = '\0';
    return accept(c, quote);
}

static bool literal(cursor *c, const char *word)
{
    size_t n = strlen(word);
    (void)peek(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return false;
    c->at += n;
    return true;
}

static ppto_status malformed(pp_error *err, const char *what)
{
    return pp_fail(err, PPTO_E_FORMAT, "malformed NPY header: %s", what);
}

static const char *kind_text(char kind)
{
    switch (kind) {
    case 'O': return "Python objects (a pickle, which could run code)";
    case 'c': return "complex numbers";
    case 'S':
    case 'a':
    case 'U': return "text";
    case 'V': return "raw or structured records";
    case 'M':
    case 'm': return "dates or times";
    case 'f': return "floats of that width";
    default: return NULL;
    }
}

static ppto_status refuse(pp_error *err, const char *descr, char kind)
{
    const char *what = kind_text(kind);
    return pp_fail(err, PPTO_E_DTYPE,
                   "the NPY file holds elements of type '%s'%s%s, which is not supported%s", descr,
                   what != NULL ? ": " : "", what != NULL ? what : "",
                   strcmp(descr + (*descr == '<' || *descr == '>'), "f2") == 0
                       ? "; save it as float32 (astype(numpy.float32))"
                       : "");
}

static ppto_status parse_descr(cursor *c, pp_npy_info *info, pp_error *err)
{
    char descr[LONGEST_WORD];
    char first = peek(c);
    if (first == '[' || first == '(' || first == '{')
        return pp_fail(err, PPTO_E_DTYPE, "the NPY file holds structured elements, which are not supported");
    if (!quoted(c, descr)) return malformed(err, "descr is no short string");
    const char *name = descr;
    char order = host_order;
    if (*name != '\0' && strchr("<>|=", *name) != NULL) order = *name++;
    if (order == '=' || order == '|') order = host_order;
    if (strcmp(name, "?") == 0) name = "b1";
    for (size_t i = 0; i < DTYPE_ROWS; i++) {
        if (strcmp(name, dtype_rows[i].name) != 0) continue;
        info->dtype = dtype_rows[i].dtype;
        info->swap = order != host_order && dtype_rows[i].size > 1;
        return PPTO_OK;
    }
    return refuse(err, descr, *name);
}

static ppto_status parse_order(cursor *c, pp_npy_info *info, pp_error *err)
{
    info->fortran = literal(c, "True");
    if (!info->fortran && !literal(c, "False"))
        return malformed(err, "fortran_order is neither True nor False");
    return PPTO_OK;
}

/* A decimal number; the suffix L is Python 2's. */
static bool number(cursor *c, int64_t *value)
{
    char digit = peek(c);
    if (digit < '0' || digit > '9') return false;
    for (*value = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (!pp_mul_i64(*value, 10, value) || !pp_add_i64(*value, *c->at - '0', value)) return false;
    if (c->at < c->end && *c->at == 'L') c->at++;
    return true;
}

static ppto_status parse_shape(cursor *c, pp_npy_info *info, pp_error *err)
{
    if (!accept(c, '(')) return malformed(err, "shape is no tuple");
    bool comma = true;
    while (!accept(c, ')')) {
        if (!comma) return malformed(err, "shape has no comma between sizes");
        if (info->rank == PPTO_MAX_RANK)
            return pp_fail(err, PPTO_E_FORMAT, "the NPY file has more than %d axes", PPTO_MAX_RANK);
        if (!number(c, &info->shape[info->rank]))
            return malformed(err, "shape has a size that is no 64-bit number");
        info->rank++;
        comma = accept(c, ',');
    }
    if (info->rank == 1 && !comma) return malformed(err, "shape is no tuple");
    return PPTO_OK;
}

/* Sizes beside a 0 are multiplied too: code that computes strides must not meet an overflow later. */
static ppto_status count_elements(pp_npy_info *info, pp_error *err)
{
    int64_t product = (int64_t)pp_npy_dtype_size(info->dtype);
    bool empty = false;
    int longer = 0; /* axes that matter to the order */
    for (int axis = 0; axis < info->rank; axis++) {
        int64_t size = info->shape[axis];
        empty |= size == 0;
        longer += size > 1;
        if (size != 0 && !pp_mul_i64(product, size, &product))
            return malformed(err, "the product of the shape overflows");
    }
    info->bytes = empty ? 0 : (size_t)product;
    info->count = (int64_t)(info->bytes / pp_npy_dtype_size(info->dtype));
    if (longer < 2 || empty) info->fortran = false;
    return PPTO_OK;
}

ppto_status pp_npy_parse_header(const char *text, size_t n, pp_npy_info *info, pp_error *err)
{
    static const struct {
        const char *key;
        ppto_status (*parse)(cursor *c, pp_npy_info *info, pp_error *err);
    } fields[] = {{"descr", parse_descr}, {"fortran_order", parse_order}, {"shape", parse_shape}};
    enum { FIELDS = sizeof fields / sizeof *fields };
    unsigned seen = 0;
    cursor c = {text, text + n};
    *info = (pp_npy_info){0};
    if (!accept(&c, '{')) return malformed(err, "no dictionary");
    bool comma = true;
    while (!accept(&c, '}')) {
        char key[LONGEST_WORD];
        size_t i = 0;
        if (!comma || !quoted(&c, key) || !accept(&c, ':')) return malformed(err, "no dictionary");
        while (i < FIELDS && strcmp(key, fields[i].key) != 0) i++;
        if (i == FIELDS) return malformed(err, "an unknown key");
        if ((seen & 1u << i) != 0) return malformed(err, "a key comes twice");
        seen |= 1u << i;
        PP_TRY(fields[i].parse(&c, info, err));
        comma = accept(&c, ',');
    }
    (void)peek(&c);
    if (c.at != c.end) return malformed(err, "text after the dictionary");
    if (seen != (1u << FIELDS) - 1) return malformed(err, "descr, fortran_order or shape is missing");
    return count_elements(info, err);
}

/* ---- the bytes around the text
 * ------------------------------------------------------------------------------ */

static ppto_status read_start(const pp_files_from *from, size_t *length, pp_error *err)
{
    unsigned char b[12] = {0};
    size_t got;
    *length = 0;
    PP_TRY(from->read(from->arg, b, 8, &got, NULL, err));
    if (got < 6 || memcmp(b, "\x93NUMPY", 6) != 0) return pp_fail(err, PPTO_E_FORMAT, "this is no NPY file");
    if (got < 8) return malformed(err, "cut off");
    if (b[6] < 1 || b[6] > 3 || b[7] != 0)
        return pp_fail(err, PPTO_E_FORMAT, "NPY version %d.%d is unknown", b[6], b[7]);
    size_t width = b[6] == 1 ? 2 : 4;
    PP_TRY(from->read(from->arg, b + 8, width, &got, NULL, err));
    if (got < width) return malformed(err, "cut off");
    *length = (size_t)b[8] | (size_t)b[9] << 8 | (size_t)b[10] << 16 | (size_t)b[11] << 24;
    if (*length > LARGEST_HEADER) return malformed(err, "longer than 65536 bytes");
    return PPTO_OK;
}

static ppto_status read_text(const pp_files_from *from, char *text, size_t length, pp_npy_info *info,
                             pp_error *err)
{
    size_t got;
    PP_TRY(from->read(from->arg, text, length, &got, NULL, err));
    if (got < length) return malformed(err, "cut off");
    return pp_npy_parse_header(text, length, info, err);
}

ppto_status pp_npy_header_from(const pp_files_from *from, pp_npy_info *info, pp_error *err)
{
    size_t length;
    *info = (pp_npy_info){0};
    PP_TRY(read_start(from, &length, err));
    char *text = pp_alloc(length);
    if (text == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    ppto_status status = read_text(from, text, length, info, err);
    pp_free(text);
    if (status != PPTO_OK) return status;
    int64_t left = from->left(from->arg);
    if (left >= 0 && (uint64_t)left < info->bytes)
        return pp_fail(err, PPTO_E_FORMAT, "it is cut off: its array has %zu bytes, %" PRId64 " are there",
                       info->bytes, left);
    if (left >= 0 && (uint64_t)left > info->bytes)
        return pp_fail(err, PPTO_E_FORMAT, "bytes follow the array");
    return PPTO_OK;
}

ppto_status pp_npy_read_header(int fd, pp_npy_info *info, pp_error *err)
{
    const pp_files_from from = pp_files_from_fd(&fd);
    return pp_npy_header_from(&from, info, err);
}
