/* SPDX-License-Identifier: Apache-2.0
 * safetensors (safetensors.h): the header as text, and whole files. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "files/npy_header.h"
#include "files/safetensors.h"

enum { PREFIX = 8, ALIGNMENT = 64 };

static const char *const type_names[] = {
    [PPTO_BOOL] = "BOOL", [PPTO_I8] = "I8",   [PPTO_I16] = "I16", [PPTO_I32] = "I32",
    [PPTO_I64] = "I64",   [PPTO_U8] = "U8",   [PPTO_U16] = "U16", [PPTO_U32] = "U32",
    [PPTO_U64] = "U64",   [PPTO_F32] = "F32", [PPTO_F64] = "F64",
};

/* An entry to be sorted; name points into text when it was made up. */
typedef struct row {
    const pp_files_entry *entry;
    size_t at, size;
    const char *name;
    char text[24];
} row;

static const char *name_of(const row *r)
{
    return r->name != NULL ? r->name : r->text;
}

static int by_size_and_name(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->size != y->size) return x->size > y->size ? -1 : 1;
    return strcmp(name_of(x), name_of(y));
}

static ppto_status bytes_of(const pp_files_entry *e, size_t *bytes, pp_error *err)
{
    *bytes = pp_npy_dtype_size(e->dtype);
    for (int d = 0; d < e->rank; d++)
        if (e->shape[d] < 0 || !pp_mul_size(*bytes, (size_t)e->shape[d], bytes))
            return pp_fail(err, PPTO_E_SIZE, "the size of the array overflows");
    return PPTO_OK;
}

static ppto_status add_row(const row *r, size_t *offset, const char *comma, pp_text *head, pp_error *err)
{
    size_t bytes, end;
    PP_TRY(bytes_of(r->entry, &bytes, err));
    if (!pp_add_size(*offset, bytes, &end) || end > INT64_MAX)
        return pp_fail(err, PPTO_E_SIZE, "the size of the arrays overflows");
    pp_text_add(head, "%s", comma);
    pp_text_json(head, name_of(r));
    pp_text_add(head, ":{\"dtype\":\"%s\",\"shape\":[", type_names[r->entry->dtype]);
    for (int d = 0; d < r->entry->rank; d++)
        pp_text_add(head, "%s%" PRId64, d != 0 ? "," : "", r->entry->shape[d]);
    pp_text_add(head, "],\"data_offsets\":[%zu,%zu]}", *offset, end);
    *offset = end;
    return PPTO_OK;
}

static ppto_status write_head(row *rows, size_t n, size_t *order, pp_text *head, pp_error *err)
{
    size_t offset = 0;
    qsort(rows, n, sizeof *rows, by_size_and_name);
    pp_text_add(head, "%*s{", PREFIX, "");
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++)
            if (strcmp(name_of(&rows[i]), name_of(&rows[k])) == 0)
                return pp_fail(err, PPTO_E_VALUE, "two arrays have the name %.200s", name_of(&rows[i]));
        PP_TRY(add_row(&rows[i], &offset, i != 0 ? "," : "", head, err));
        order[i] = rows[i].at;
    }
    pp_text_add(head, "}");
    pp_text_add(head, "%*s", (int)((ALIGNMENT - head->n % ALIGNMENT) % ALIGNMENT), "");
    if (head->failed) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    for (int i = 0; i < PREFIX; i++)
        head->at[i] = (char)(unsigned char)((uint64_t)(head->n - PREFIX) >> (8 * i));
    return PPTO_OK;
}

ppto_status pp_safetensors_head(const pp_files_entry *entries, size_t n, size_t *order, pp_text *head,
                                pp_error *err)
{
    row *rows = pp_calloc(n, sizeof *rows);
    if (rows == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        rows[i] = (row){.entry = &entries[i], .at = i, .size = pp_npy_dtype_size(entries[i].dtype)};
        rows[i].name = entries[i].name;
        snprintf(rows[i].text, sizeof rows[i].text, "arr_%zu", i);
    }
    ppto_status status = write_head(rows, n, order, head, err);
    if (status != PPTO_OK) pp_text_free(head);
    pp_free(rows);
    return status;
}

ppto_status pp_safetensors_write(int fd, const pp_files_entry *entries, size_t n, const pp_files_watch *watch,
                                 pp_error *err)
{
    pp_text head = {0};
    size_t *order = pp_calloc(n, sizeof *order);
    if (order == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    ppto_status status = pp_safetensors_head(entries, n, order, &head, err);
    if (status == PPTO_OK) status = pp_files_write_by(watch, fd, head.at, head.n, err);
    for (size_t i = 0; i < n && status == PPTO_OK; i++) {
        size_t bytes;
        status = bytes_of(&entries[order[i]], &bytes, err);
        if (status == PPTO_OK) status = pp_files_write_watched(fd, entries[order[i]].data, bytes, watch, err);
    }
    pp_text_free(&head);
    pp_free(order);
    return status;
}
