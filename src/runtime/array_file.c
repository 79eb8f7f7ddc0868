/* SPDX-License-Identifier: Apache-2.0
 * Arrays and files: read whole, saved by rename, or left in the file until a run reads them. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "files/npy.h"
#include "files/sink.h"
#include "files/source.h"
#include "runtime/runtime.h"

static ppto_status load(ppto_context *ctx, int fd, ppto_array **out, pp_error *err)
{
    pp_npy_info info;
    PP_TRY(pp_npy_read_header(fd, &info, err));
    PP_TRY(pp_array_new(ctx, info.dtype, info.rank, info.shape, out, err));
    ppto_status status = pp_npy_read_data(fd, &info, (*out)->data, NULL, err);
    if (status == PPTO_OK) return PPTO_OK;
    ppto_array_release(*out);
    *out = NULL;
    return status;
}

ppto_array *ppto_array_load(ppto_context *ctx, const char *path)
{
    pp_error err = {0};
    ppto_array *a = NULL;
    ppto_status status = pp_context_check(ctx, &err);
    if (status == PPTO_OK && !path) status = pp_fail(&err, PPTO_E_VALUE, "the path is NULL");
    if (status == PPTO_OK) {
        bool pipe = strcmp(path, "-") == 0;
        int fd = pipe ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
        status = fd < 0 ? pp_fail(&err, PPTO_E_IO, "cannot open %s: %m", path) : load(ctx, fd, &a, &err);
        if (fd >= 0 && !pipe) close(fd);
    }
    if (status != PPTO_OK) {
        pp_error named = {.code = err.code ? err.code : status};
        snprintf(named.text, sizeof named.text, "%.500s: %.1500s", path ? path : "(null)", err.text);
        pp_report(&named);
    }
    return a;
}

typedef struct save_job {
    const ppto_array *array;
    const void *data;
    const pp_files_watch *watch;
} save_job;

static ppto_status write_npy(int fd, void *arg, pp_error *err)
{
    const save_job *job = arg;
    return pp_npy_write(fd, job->array->dtype, job->array->rank, job->array->shape, job->data, job->watch,
                        err);
}

/* An array that is in memory. */
static ppto_status save(const ppto_array *array, const char *path, const pp_files_watch *watch, pp_error *err)
{
    save_job job = {array, array->data, watch};
    void *packed = NULL;
    size_t bytes = (size_t)ppto_array_elements(array) * ppto_dtype_size(array->dtype);
    if (!pp_array_contiguous(array)) {
        PP_TRY(pp_pool_take(array->ctx->pool, bytes, &packed, err));
        pp_array_pack(array, packed);
        job.data = packed;
    }
    ppto_status status = strcmp(path, "-") == 0 ? write_npy(STDOUT_FILENO, &job, err)
                                                : pp_files_write_atomic(path, write_npy, &job, err);
    if (packed) pp_pool_give(array->ctx->pool, packed, bytes);
    return status;
}

ppto_status pp_array_save(const ppto_array *array, const char *path, const pp_files_watch *watch,
                          pp_error *err)
{
    pp_error why = {0};
    ppto_array *loaded = NULL;
    if (array->file) PP_TRY(pp_array_in_memory(array, &loaded, watch, err));
    ppto_status status = save(loaded ? loaded : array, path, watch, &why);
    ppto_array_release(loaded);
    if (status == PPTO_OK) return status;
    return pp_fail(err, status, "%.500s: %.1500s", path, why.text[0] ? why.text : ppto_status_text(status));
}

ppto_status ppto_array_save(const ppto_array *array, const char *path)
{
    pp_error err = {0};
    if (!array || !path)
        return pp_report_new(PPTO_E_VALUE, "ppto_array_save: %s is NULL", array ? "the path" : "the array");
    if (pp_context_check(array->ctx, &err) == PPTO_OK) (void)pp_array_save(array, path, NULL, &err);
    return pp_report(&err);
}

/* ---- arrays that stay in their file -------------------------------------------------------------------- */

void pp_array_file_close(pp_array_file *file)
{
    if (!file) return;
    pp_source_close(&file->source);
    pp_free(file->path);
    pp_free(file);
}

/* The file's name in front of what went wrong. */
static ppto_status name_file(const pp_array_file *file, const pp_error *why, ppto_status status,
                             pp_error *err)
{
    return pp_fail(err, status, "%.500s: %.1500s", file->path,
                   why->text[0] ? why->text : ppto_status_text(status));
}

ppto_status pp_array_in_memory(const ppto_array *array, ppto_array **out, const pp_files_watch *watch,
                               pp_error *err)
{
    const pp_array_file *file = array->file;
    pp_error why = {0};
    ppto_status status = pp_array_new(array->ctx, array->dtype, array->rank, array->shape, out, err);
    if (status != PPTO_OK) return status;
    int fd = open(file->path, O_RDONLY | O_CLOEXEC); /* a position of its own: several runs may read it */
    pp_npy_info info;
    status =
        fd < 0 ? pp_fail(&why, PPTO_E_IO, "cannot be opened again: %m") : pp_npy_read_header(fd, &info, &why);
    if (status == PPTO_OK &&
        (info.count != file->info.count || info.dtype != file->info.dtype || info.rank != file->info.rank ||
         memcmp(info.shape, file->info.shape, sizeof info.shape) != 0))
        status = pp_fail(&why, PPTO_E_FORMAT, "the file holds another array than when it was opened");
    if (status == PPTO_OK) status = pp_npy_read_data(fd, &info, (*out)->data, watch, &why);
    if (fd >= 0) close(fd);
    if (status == PPTO_OK) return status;
    ppto_array_release(*out);
    *out = NULL;
    return name_file(file, &why, status, err);
}

/* Opens and reads the header. *file->in_place: pieces of it can be read as they lie. */
static ppto_status open_file(const char *path, pp_array_file **out, pp_error *err)
{
    pp_error why = {0};
    pp_array_file *file = pp_calloc(1, sizeof *file);
    if (!file || !(file->path = pp_strdup(path))) {
        pp_free(file);
        return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    }
    file->source.fd = -1;
    ppto_status status = pp_source_open(&file->source, path, &why);
    if (status == PPTO_OK && file->source.stream)
        status = pp_fail(&why, PPTO_E_UNSUPPORTED, "a pipe or device has no places to read from: load it");
    if (status == PPTO_OK) status = pp_npy_read_header(file->source.fd, &file->info, &why);
    if (status == PPTO_OK) {
        file->data_at = (int64_t)lseek(file->source.fd, 0, SEEK_CUR);
        file->in_place = !file->info.swap && !file->info.fortran;
        if (file->source.size - file->data_at != (int64_t)file->info.bytes)
            status = pp_fail(&why, PPTO_E_FORMAT, "the file has %lld bytes of data, its array %zu",
                             (long long)(file->source.size - file->data_at), file->info.bytes);
    }
    if (status != PPTO_OK) {
        name_file(file, &why, status, err);
        pp_array_file_close(file);
        return status;
    }
    *out = file;
    return PPTO_OK;
}

ppto_array *ppto_array_open(ppto_context *ctx, const char *path)
{
    pp_error err = {0};
    pp_array_file *file = NULL;
    ppto_array *a = NULL;
    ppto_status status = pp_context_check(ctx, &err);
    if (status == PPTO_OK && !path) status = pp_fail(&err, PPTO_E_VALUE, "the path is NULL");
    if (status == PPTO_OK && strcmp(path, "-") == 0) return ppto_array_load(ctx, path);
    if (status == PPTO_OK) status = open_file(path, &file, &err);
    if (status == PPTO_E_UNSUPPORTED) return ppto_array_load(ctx, path);
    if (status == PPTO_OK)
        status = pp_array_over(ctx, NULL, file->info.dtype, file->info.rank, file->info.shape, &a);
    if (status == PPTO_OK)
        a->file = file;
    else
        pp_array_file_close(file);
    if (status != PPTO_OK) pp_fail(&err, status, "%s", ppto_status_text(status));
    pp_report(&err);
    return a;
}
