/* SPDX-License-Identifier: Apache-2.0
 * Files without a header (raw.h). */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "files/raw.h"

static const char wanted[] = "as in FILE.raw:f32[1000,512] or FILE.raw:f32[N,512]";

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static const char *skip_blanks(const char *c)
{
    while (*c == ' ') c++;
    return c;
}

static ppto_status read_dtype(const char **text, ppto_dtype *dtype, pp_error *err)
{
    size_t n = strcspn(*text, "[");
    for (int d = PPTO_BOOL; d <= PPTO_F64; d++) {
        const char *name = ppto_dtype_name((ppto_dtype)d);
        if (strlen(name) != n || memcmp(name, *text, n) != 0) continue;
        *dtype = (ppto_dtype)d;
        *text += n;
        return PPTO_OK;
    }
    return pp_fail(
        err, PPTO_E_DTYPE,
        "%.*s is no dtype (there are bool, i8 to i64, u8 to u64, f32 and f64); the name says what is "
        "in it, %s",
        (int)(n < 40 ? n : 40), *text, wanted);
}

/* One size; open: a word, of the first axis. */
static ppto_status read_size(const char **text, int rank, int64_t *size, bool *open, pp_error *err)
{
    const char *c = skip_blanks(*text);
    char *end = (char *)(uintptr_t)c;
    if (rank == PPTO_MAX_RANK)
        return pp_fail(err, PPTO_E_VALUE, "at most %d axes are supported", PPTO_MAX_RANK);
    if (is_letter(*c) && rank == 0) {
        while (is_letter(*c) || (*c >= '0' && *c <= '9')) c++;
        *open = true;
        *text = skip_blanks(c);
        return PPTO_OK;
    }
    if (*c < '0' || *c > '9')
        return pp_fail(err, PPTO_E_VALUE, "a size was expected at %.20s, %s", *c ? c : "the end", wanted);
    *size = 0;
    for (; *end >= '0' && *end <= '9'; end++)
        if (!pp_mul_i64(*size, 10, size) || !pp_add_i64(*size, *end - '0', size))
            return pp_fail(err, PPTO_E_SIZE, "a size overflows 64 bits");
    *text = skip_blanks(end);
    return PPTO_OK;
}

static ppto_status read_text(const char *text, pp_npy_info *info, bool *open, pp_error *err)
{
    PP_TRY(read_dtype(&text, &info->dtype, err));
    if (*text++ != '[') return pp_fail(err, PPTO_E_VALUE, "sizes are missing, %s", wanted);
    text = skip_blanks(text);
    while (*text != ']') {
        PP_TRY(read_size(&text, info->rank, &info->shape[info->rank], open, err));
        info->rank++;
        if (*text == ',')
            text = skip_blanks(text + 1);
        else if (*text != ']')
            return pp_fail(err, PPTO_E_VALUE, "expected , or ] at %.20s, %s", *text ? text : "the end",
                           wanted);
    }
    return text[1] == '\0' ? PPTO_OK : pp_fail(err, PPTO_E_VALUE, "%.20s follows the sizes", text + 1);
}

/* The first size is as many as there are. */
static ppto_status close_shape(pp_npy_info *info, int64_t size, pp_error *err)
{
    int64_t row = (int64_t)ppto_dtype_size(info->dtype);
    bool fits = true;
    for (int d = 1; d < info->rank; d++) fits = fits && pp_mul_i64(row, info->shape[d], &row);
    if (!fits) return pp_fail(err, PPTO_E_SIZE, "the size of the array overflows");
    if (size < 0)
        return pp_fail(err, PPTO_E_VALUE, "of a pipe the first size must be a number: it cannot be asked");
    if (row == 0 || size % row != 0)
        return pp_fail(err, PPTO_E_FORMAT,
                       "it has %" PRId64 " bytes, no multiple of the %" PRId64 " of a row", size, row);
    info->shape[0] = size / row;
    return PPTO_OK;
}

ppto_status pp_raw_describe(const char *text, int64_t size, pp_npy_info *info, pp_error *err)
{
    bool open = false;
    *info = (pp_npy_info){.count = 1};
    if (text == NULL)
        return pp_fail(err, PPTO_E_VALUE, "a raw file does not say what is in it, its name must, %s", wanted);
    PP_TRY(read_text(text, info, &open, err));
    if (open) PP_TRY(close_shape(info, size, err));
    for (int d = 0; d < info->rank; d++)
        if (!pp_mul_i64(info->count, info->shape[d], &info->count))
            return pp_fail(err, PPTO_E_SIZE, "the size of the array overflows");
    if (!pp_mul_size((size_t)info->count, ppto_dtype_size(info->dtype), &info->bytes) ||
        info->bytes > INT64_MAX)
        return pp_fail(err, PPTO_E_SIZE, "the size of the array overflows");
    if (size >= 0 && (uint64_t)size != info->bytes)
        return pp_fail(err, PPTO_E_FORMAT, "it has %" PRId64 " bytes, %s are %zu", size, text, info->bytes);
    return PPTO_OK;
}

ppto_status pp_raw_write(int fd, ppto_dtype dtype, int rank, const int64_t *shape, const void *data,
                         const pp_files_watch *watch, pp_error *err)
{
    size_t bytes = ppto_dtype_size(dtype);
    for (int d = 0; d < rank; d++)
        if (!pp_mul_size(bytes, (size_t)shape[d], &bytes))
            return pp_fail(err, PPTO_E_SIZE, "the size of the array overflows");
    return pp_files_write_watched(fd, data, bytes, watch, err);
}
