/* SPDX-License-Identifier: Apache-2.0
 * safetensors by jansson (safetensors.h): the header is read as a whole and every array in it is checked, not
 * only the one that is wanted: sizes against shapes, and that the arrays cover the data without gap or
 * overlap. Writing is safetensors_write.c. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "files/safetensors.h"

#ifdef PP_WITH_JANSSON
#include <jansson.h>

#include "base/checked.h"

enum { LARGEST_HEADER = 100000000, PREFIX = 8, NOT_OURS = -1 };

/* Names of element types; those not ours have a size all the same, to check the others by. */
static const struct {
    const char *name;
    int dtype;
    size_t size;
} types[] = {
    {"BOOL", PPTO_BOOL, 1}, {"U8", PPTO_U8, 1},       {"I8", PPTO_I8, 1},       {"I16", PPTO_I16, 2},
    {"U16", PPTO_U16, 2},   {"I32", PPTO_I32, 4},     {"U32", PPTO_U32, 4},     {"I64", PPTO_I64, 8},
    {"U64", PPTO_U64, 8},   {"F32", PPTO_F32, 4},     {"F64", PPTO_F64, 8},     {"F16", NOT_OURS, 2},
    {"BF16", NOT_OURS, 2},  {"F8_E5M2", NOT_OURS, 1}, {"F8_E4M3", NOT_OURS, 1}, {"C64", NOT_OURS, 8},
};
enum { N_TYPES = sizeof types / sizeof types[0] };

/* One array of the header. */
typedef struct entry {
    const char *name, *type_name; /* the JSON's */
    size_t type;                  /* N_TYPES: unknown */
    int rank;
    int64_t shape[PPTO_MAX_RANK];
    uint64_t begin, end; /* in the data */
} entry;

typedef struct header {
    json_t *root;
    entry *entries;
    size_t n;
    uint64_t data; /* bytes behind the header */
} header;

static ppto_status malformed(pp_error *err, const char *name, const char *what)
{
    if (name == NULL) return pp_fail(err, PPTO_E_FORMAT, "malformed safetensors header: %s", what);
    return pp_fail(err, PPTO_E_FORMAT, "malformed safetensors header: array %.200s: %s", name, what);
}

/* ---- bytes to JSON --------------------------------------------------------------------------------------
 */

static ppto_status read_at(int fd, void *bytes, size_t n, int64_t at, pp_error *err)
{
    for (size_t got = 0; got < n;) {
        ssize_t step = pread(fd, (char *)bytes + got, n - got, (off_t)at + (off_t)got);
        if (step == 0) return malformed(err, NULL, "cut off");
        if (step > 0)
            got += (size_t)step;
        else if (errno != EINTR)
            return pp_fail_errno(err, "cannot read", errno);
    }
    return PPTO_OK;
}

static ppto_status parse(const char *text, size_t n, header *h, pp_error *err)
{
    json_error_t why;
    h->root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (h->root == NULL && json_error_code(&why) == json_error_out_of_memory)
        return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    if (h->root == NULL) return malformed(err, NULL, why.text);
    return json_is_object(h->root) ? PPTO_OK : malformed(err, NULL, "it is no JSON object");
}

static ppto_status read_text(const pp_source *source, header *h, pp_error *err)
{
    unsigned char prefix[PREFIX];
    uint64_t n = 0;
    PP_TRY(read_at(source->fd, prefix, PREFIX, 0, err));
    for (int i = PREFIX; i-- > 0;) n = n << 8 | prefix[i];
    if (n > LARGEST_HEADER)
        return malformed(err, NULL, "it is longer than 100 MB, or this is no safetensors file");
    if ((int64_t)n > source->size - PREFIX) return malformed(err, NULL, "cut off");
    h->data = (uint64_t)source->size - PREFIX - n;
    char *text = pp_alloc((size_t)n + 1);
    if (text == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    ppto_status status = read_at(source->fd, text, (size_t)n, PREFIX, err);
    if (status == PPTO_OK && (n == 0 || text[0] != '{')) status = malformed(err, NULL, "it begins with no {");
    if (status == PPTO_OK) status = parse(text, (size_t)n, h, err);
    pp_free(text);
    return status;
}

/* ---- JSON to arrays -------------------------------------------------------------------------------------
 */

/* A list of integers that are not negative. */
static bool read_numbers(const json_t *list, size_t most, int64_t *out, size_t *n)
{
    if (!json_is_array(list) || json_array_size(list) > most) return false;
    *n = json_array_size(list);
    for (size_t i = 0; i < *n; i++) {
        const json_t *value = json_array_get(list, i);
        if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
        out[i] = json_integer_value(value);
    }
    return true;
}

/* Sizes beside a 0 are multiplied too: code that computes strides must not meet an overflow later. */
static bool size_of(const entry *e, uint64_t *bytes)
{
    int64_t product = (int64_t)types[e->type].size;
    bool empty = false;
    for (int d = 0; d < e->rank; d++) {
        empty = empty || e->shape[d] == 0;
        if (e->shape[d] != 0 && !pp_mul_i64(product, e->shape[d], &product)) return false;
    }
    *bytes = empty ? 0 : (uint64_t)product;
    return true;
}

static ppto_status read_entry(const header *h, const char *name, const json_t *value, entry *e, pp_error *err)
{
    int64_t offsets[2] = {0};
    size_t n = 0, rank = 0;
    const json_t *type = json_object_get(value, "dtype");
    *e = (entry){.name = name, .type = N_TYPES};
    if (!json_is_string(type)) return malformed(err, name, "no dtype");
    e->type_name = json_string_value(type);
    for (size_t i = N_TYPES; i-- > 0;)
        if (strcmp(types[i].name, e->type_name) == 0) e->type = i;
    if (!read_numbers(json_object_get(value, "shape"), PPTO_MAX_RANK, e->shape, &rank))
        return malformed(err, name, "no shape of up to 16 sizes");
    if (!read_numbers(json_object_get(value, "data_offsets"), 2, offsets, &n) || n != 2 ||
        offsets[0] > offsets[1])
        return malformed(err, name, "no two data_offsets");
    e->rank = (int)rank;
    e->begin = (uint64_t)offsets[0];
    e->end = (uint64_t)offsets[1];
    if (e->end > h->data) return malformed(err, name, "its data lie behind the end of the file");
    uint64_t bytes = e->end - e->begin;
    if (e->type < N_TYPES && !size_of(e, &bytes))
        return malformed(err, name, "the product of its shape overflows");
    if (bytes != e->end - e->begin) return malformed(err, name, "data_offsets and shape do not agree");
    return PPTO_OK;
}

static int by_offset(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return x->end < y->end ? -1 : x->end > y->end;
}

static ppto_status read_entries(header *h, pp_error *err)
{
    const char *name;
    json_t *value;
    h->entries = pp_calloc(json_object_size(h->root) + 1, sizeof *h->entries);
    if (h->entries == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    json_object_foreach(h->root, name, value)
    {
        if (strcmp(name, "__metadata__") == 0) continue;
        PP_TRY(read_entry(h, name, value, &h->entries[h->n], err));
        h->n++;
    }
    uint64_t at = 0;
    qsort(h->entries, h->n, sizeof *h->entries, by_offset);
    for (size_t i = 0; i < h->n; i++) {
        if (h->entries[i].begin != at)
            return malformed(err, h->entries[i].name, "its data do not follow those of the array before");
        at = h->entries[i].end;
    }
    return at == h->data ? PPTO_OK : malformed(err, NULL, "bytes follow the last array");
}

/* ---- the one that is wanted -----------------------------------------------------------------------------
 */

static ppto_status no_such_array(const header *h, const char *name, pp_error *err)
{
    pp_text text = {0};
    if (name != NULL) pp_text_add(&text, "there is no array %.200s in it", name);
    if (name == NULL && h->n != 0) pp_text_add(&text, "it holds %zu arrays, say which by :NAME", h->n);
    pp_text_add(&text, h->n != 0 ? "; there are: " : name != NULL ? "; there are none" : "it holds no array");
    for (size_t i = 0; i < h->n && text.n < 1000; i++)
        pp_text_add(&text, "%s%.100s", i != 0 ? ", " : "", h->entries[i].name);
    ppto_status status = pp_fail(err, PPTO_E_FORMAT, "%s", text.at != NULL ? text.at : "no such array");
    pp_text_free(&text);
    return status;
}

static ppto_status choose(const header *h, const char *name, int64_t size, pp_npy_info *info,
                          int64_t *data_at, pp_error *err)
{
    const uint16_t one = 1;
    const entry *e = NULL;
    for (size_t i = 0; i < h->n; i++)
        if (name != NULL ? strcmp(h->entries[i].name, name) == 0 : h->n == 1) e = &h->entries[i];
    if (e == NULL) return no_such_array(h, name, err);
    if (e->type == N_TYPES || types[e->type].dtype == NOT_OURS)
        return pp_fail(err, PPTO_E_DTYPE, "array %.200s has elements of type %.40s, which is not supported",
                       e->name, e->type_name);
    info->dtype = (ppto_dtype)types[e->type].dtype;
    info->rank = e->rank;
    memcpy(info->shape, e->shape, sizeof info->shape);
    info->bytes = (size_t)(e->end - e->begin);
    info->count = (int64_t)(info->bytes / types[e->type].size);
    info->swap = *(const unsigned char *)&one == 0 && types[e->type].size > 1;
    *data_at = size - (int64_t)h->data + (int64_t)e->begin;
    return PPTO_OK;
}

ppto_status pp_safetensors_find(const pp_source *source, const char *name, pp_npy_info *info,
                                int64_t *data_at, pp_error *err)
{
    header h = {.root = NULL};
    *info = (pp_npy_info){0};
    ppto_status status = read_text(source, &h, err);
    if (status == PPTO_OK) status = read_entries(&h, err);
    if (status == PPTO_OK) status = choose(&h, name, source->size, info, data_at, err);
    pp_free(h.entries);
    json_decref(h.root);
    return status;
}

#else

ppto_status pp_safetensors_find(PP_UNUSED const pp_source *source, PP_UNUSED const char *name,
                                PP_UNUSED pp_npy_info *info, PP_UNUSED int64_t *data_at, pp_error *err)
{
    return pp_fail(err, PPTO_E_UNSUPPORTED, "safetensors files need jansson, which this build has not");
}

#endif
