/* SPDX-License-Identifier: Apache-2.0
 * Arrays and files: read whole, saved by rename, or left in the file until a run reads them. */
#include <string.h>

#include "files/sink.h"
#include "ppto/run.h"
#include "runtime/file_around.h"
#include "runtime/open_pipes.h"

ppto_status pp_fail_of_file(pp_error *err, ppto_status status, const char *path, const pp_error *why)
{
    if (status == PPTO_E_CANCELLED || status == PPTO_E_DEADLINE) /* the run's end, not the file's fault */
        return pp_fail(err, status, "%s", why->text[0] ? why->text : ppto_status_text(status));
    return pp_fail(err, status, "%.500s: %.1500s", path, why->text[0] ? why->text : ppto_status_text(status));
}

/* ---- whole ----------------------------------------------------------------------------------------------
 */

/* What an open reader has, in memory. */
static ppto_status read_whole(ppto_context *ctx, const pp_tag *tag, pp_reader *reader,
                              const pp_files_watch *watch, ppto_array **out, pp_error *err)
{
    const pp_npy_info *info = &reader->info;
    PP_TRY(pp_array_new(ctx, tag, info->dtype, info->rank, info->shape, out, err));
    ppto_status status = pp_reader_read(reader, (*out)->data, watch, err);
    if (status == PPTO_OK) return status;
    ppto_array_release(*out);
    *out = NULL;
    return status;
}

static ppto_status load(ppto_site site, ppto_context *ctx, const char *path, ppto_array **out, pp_error *err)
{
    pp_reader reader;
    pp_error why = {0};
    ppto_status status = pp_open_pipe_check(path, &why);
    if (status == PPTO_OK) status = pp_reader_open(&reader, path, &why);
    if (status == PPTO_OK) {
        const pp_tag tag = pp_tag_of_user("array_load", site, reader.info.dtype);
        status = read_whole(ctx, &tag, &reader, NULL, out, &why);
        pp_reader_close(&reader);
    }
    return status == PPTO_OK ? status : pp_fail_of_file(err, status, path, &why);
}

ppto_array *ppto_array_load_at(ppto_site site, ppto_context *ctx, const char *path)
{
    pp_error err = {0};
    ppto_array *a = NULL;
    ppto_status status = pp_context_check(ctx, &err);
    if (status == PPTO_OK && !path) status = pp_fail(&err, PPTO_E_VALUE, "load: the path is NULL");
    if (status == PPTO_OK) status = load(site, ctx, path, &a, &err);
    if (status != PPTO_OK) pp_report(&err);
    return a;
}

/* An array's data row-major in memory: its own, of its file, or packed; let_go gives back what was made. */
typedef struct packed {
    ppto_array *loaded;
    void *copy;
    size_t bytes;
    const void *data;
} packed;

static ppto_status pack(const ppto_array *a, const pp_files_watch *watch, packed *out, pp_error *err)
{
    *out = (packed){.data = a->data};
    if (a->file) {
        PP_TRY(pp_array_in_memory(a, &out->loaded, watch, err));
        out->data = out->loaded->data;
    } else if (!pp_array_contiguous(a)) {
        out->bytes = (size_t)ppto_array_elements(a) * ppto_dtype_size(a->dtype);
        static const pp_tag tag = {
            .kind = PP_BLOCK_COPY, .reason = "a file is row-major", .hold = PP_HOLD_IO};
        PP_TRY(pp_pool_take_as(a->ctx->pool, out->bytes, &tag, &out->copy, err));
        pp_array_pack(a, out->copy);
        out->data = out->copy;
    }
    return PPTO_OK;
}

static void let_go(const ppto_array *a, packed *p)
{
    ppto_array_release(p->loaded);
    if (p->copy) pp_pool_give(a->ctx->pool, p->copy, p->bytes);
}

static ppto_status save_all(const char *path, size_t n, const char *const *names, ppto_array *const *arrays,
                            const pp_files_watch *watch, pp_error *err)
{
    pp_error why = {0};
    size_t done = 0;
    packed *packs = pp_calloc(n, sizeof *packs);
    pp_files_entry *entries = pp_calloc(n, sizeof *entries);
    ppto_status status = packs && entries ? PPTO_OK : PPTO_E_NOMEM;
    for (; status == PPTO_OK && done < n; done++) {
        const ppto_array *a = arrays[done];
        status = pack(a, watch, &packs[done], &why);
        entries[done] =
            (pp_files_entry){names ? names[done] : NULL, a->dtype, a->rank, a->shape, packs[done].data};
    }
    if (status == PPTO_OK) status = pp_files_save(path, entries, n, watch, &why);
    for (size_t i = 0; i < done; i++) let_go(arrays[i], &packs[i]);
    pp_free(packs);
    pp_free(entries);
    return status == PPTO_OK ? status : pp_fail_of_file(err, status, path, &why);
}

ppto_status pp_array_save(const ppto_array *array, const char *path, const pp_files_watch *watch,
                          pp_error *err)
{
    ppto_array *only = (ppto_array *)(uintptr_t)array; /* only read */
    return save_all(path, 1, NULL, &only, watch, err);
}

ppto_status ppto_array_save(const ppto_array *array, const char *path)
{
    pp_error err = {0};
    if (!array || !path)
        return pp_report_new(PPTO_E_VALUE, "ppto_array_save: %s is NULL", array ? "the path" : "the array");
    if (pp_context_check(array->ctx, &err) == PPTO_OK) (void)pp_array_save(array, path, NULL, &err);
    return pp_report(&err);
}

ppto_status ppto_arrays_save(const char *path, size_t n, const char *const *names, ppto_array *const *arrays)
{
    pp_error err = {0};
    if (!path || !arrays || n == 0)
        return pp_report_new(PPTO_E_VALUE, "ppto_arrays_save: %s",
                             path ? "there is no array" : "the path is NULL");
    for (size_t i = 0; i < n; i++)
        if (!arrays[i]) return pp_report_new(PPTO_E_VALUE, "ppto_arrays_save: array %zu is NULL", i);
    if (pp_context_check(arrays[0]->ctx, &err) == PPTO_OK) (void)save_all(path, n, names, arrays, NULL, &err);
    return pp_report(&err);
}

bool ppto_files_abandon(void)
{
    return pp_sinks_abandon_all();
}

/* ---- arrays that stay in their file -------------------------------------------------------------------- */

void pp_array_file_close(pp_array_file *file)
{
    if (!file) return;
    pp_open_pipe_free(file);
    pp_reader_close(&file->reader);
    pp_free(file->path);
    pp_free(file);
}

static bool same_array(const pp_npy_info *a, const pp_npy_info *b)
{
    return a->count == b->count && a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->shape, b->shape, sizeof a->shape) == 0;
}

ppto_status pp_array_file_reader(pp_array_file *file, pp_reader *reader, bool *owned, pp_error *err)
{
    *owned = false;
    if (file->reader.source.stream) {
        if (atomic_exchange(&file->taken, true))
            return pp_fail(err, PPTO_E_VALUE, "what comes from a pipe can be read only once");
        pp_open_pipe_free(file);
        *reader = file->reader;
        return PPTO_OK;
    }
    if (pp_file_is_standard(file->path)) { /* its position is behind the header: it cannot be opened again */
        *reader = file->reader;
        return PPTO_OK;
    }
    PP_TRY(pp_reader_open(reader, file->path, err));
    if (same_array(&reader->info, &file->reader.info)) {
        *owned = true;
        return PPTO_OK;
    }
    pp_reader_close(reader);
    return pp_fail(err, PPTO_E_FORMAT, "the file holds another array than when it was opened");
}

static pp_tag tag_of_file(const ppto_array *array)
{
    return (pp_tag){.kind = PP_BLOCK_DATA,
                    .operator_name = "read",
                    .site = {.file = array->file->path},
                    .dtype = ppto_dtype_name(array->dtype),
                    .hold = PP_HOLD_PENDING};
}

ppto_status pp_array_for_file(const ppto_array *array, ppto_array **out, pp_error *err)
{
    const pp_reader *reader = &array->file->reader;
    const pp_tag tag = tag_of_file(array);
    bool around = reader->in_place && pp_file_goes_around(array->ctx, reader->info.bytes, false, false);
    *out = NULL;
    return pp_array_new_led(array->ctx, &tag, array->dtype, array->rank, array->shape,
                            around ? pp_file_lead(reader->data_at) : SIZE_MAX, out, err);
}

ppto_status pp_array_in_memory(const ppto_array *array, ppto_array **out, const pp_files_watch *watch,
                               pp_error *err)
{
    pp_array_file *file = array->file;
    pp_reader reader; /* a position of its own: several runs may read the file */
    bool owned;
    pp_error why = {0};
    const pp_tag tag = tag_of_file(array);
    *out = NULL;
    ppto_status status = pp_array_file_reader(file, &reader, &owned, &why);
    if (status == PPTO_OK) status = read_whole(array->ctx, &tag, &reader, watch, out, &why);
    if (owned) pp_reader_close(&reader);
    return status == PPTO_OK ? status : pp_fail_of_file(err, status, file->path, &why);
}

/* Keeps the reader, which then is the array's. */
static ppto_status keep_open(ppto_context *ctx, const char *path, pp_reader *reader, ppto_array **out,
                             pp_error *err)
{
    pp_array_file *file = pp_calloc(1, sizeof *file);
    char *own = pp_strdup(path);
    ppto_status status = file && own ? PPTO_OK : PPTO_E_NOMEM;
    const pp_npy_info *info = &reader->info;
    if (status == PPTO_OK) status = pp_array_over(ctx, NULL, info->dtype, info->rank, info->shape, out);
    if (status == PPTO_OK) {
        file->path = own;
        file->reader = *reader;
        (*out)->file = file;
        status = pp_open_pipe_hold(file);
        if (status == PPTO_OK) return status;
        ppto_array_release(*out);
        *out = NULL;
        return pp_fail(err, status, "%s", ppto_status_text(status));
    }
    pp_reader_close(reader);
    pp_free(file);
    pp_free(own);
    return status == PPTO_OK ? status : pp_fail(err, status, "%s", ppto_status_text(status));
}

ppto_array *ppto_array_open(ppto_context *ctx, const char *path)
{
    pp_error err = {0}, why = {0};
    pp_reader reader;
    ppto_array *a = NULL;
    if (pp_context_check(ctx, &err) == PPTO_OK && !path)
        pp_fail(&err, PPTO_E_VALUE, "open: the path is NULL");
    if (err.code == PPTO_OK) {
        ppto_status status = pp_open_pipe_check(path, &why);
        if (status == PPTO_OK) status = pp_reader_open(&reader, path, &why);
        if (status == PPTO_OK) status = keep_open(ctx, path, &reader, &a, &why);
        if (status != PPTO_OK) pp_fail_of_file(&err, status, path, &why);
    }
    pp_report(&err);
    return a;
}
