/* SPDX-License-Identifier: Apache-2.0
 * NPZ by libzip (npz.h): writing. libzip would make a temporary file of its own; here it writes through a
 * "source" that is our descriptor, so that archives appear like all other files (sink.h). The entries' bytes
 * are taken from where they lie. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/npz.h"

#ifdef PP_WITH_ZIP
#include "files/npz_zip.h"

/* What libzip sees as the file. */
typedef struct target {
    int fd;
    uint64_t at; /* where the next write goes */
    const pp_files_watch *watch;
    zip_error_t why;
    pp_error error; /* the first of ours */
    bool failed;
} target;

static zip_int64_t fail_target(target *t, const pp_error *err)
{
    if (!t->failed) t->error = *err;
    t->failed = true;
    zip_error_set(&t->why, ZIP_ER_WRITE, 0);
    return -1;
}

static zip_int64_t write_some(target *t, const void *bytes, zip_uint64_t n)
{
    pp_error err = {0};
    if (lseek(t->fd, (off_t)t->at, SEEK_SET) < 0)
        pp_fail_errno(&err, "cannot write", errno);
    else if (pp_files_write_watched(t->fd, bytes, (size_t)n, t->watch, &err) == PPTO_OK)
        t->at += n;
    return err.code == PPTO_OK ? (zip_int64_t)n : fail_target(t, &err);
}

static zip_int64_t seek(target *t, void *data, zip_uint64_t n)
{
    zip_error_t why;
    zip_error_init(&why);
    struct stat facts;
    zip_uint64_t size = fstat(t->fd, &facts) == 0 ? (zip_uint64_t)facts.st_size : 0;
    zip_int64_t to = zip_source_seek_compute_offset(t->at, size, data, n, &why);
    if (to >= 0) t->at = (uint64_t)to;
    zip_error_fini(&why);
    return to >= 0 ? 0 : -1;
}

static zip_int64_t serve(void *arg, void *data, zip_uint64_t n, zip_source_cmd_t command)
{
    target *t = arg;
    switch (command) {
    case ZIP_SOURCE_SUPPORTS: return ZIP_SOURCE_SUPPORTS_WRITABLE;
    case ZIP_SOURCE_STAT: /* there is no archive yet */
        zip_error_set(&t->why, ZIP_ER_READ, ENOENT);
        return -1;
    case ZIP_SOURCE_ERROR: return zip_error_to_data(&t->why, data, n);
    case ZIP_SOURCE_BEGIN_WRITE: t->at = 0; return 0;
    case ZIP_SOURCE_WRITE: return write_some(t, data, n);
    case ZIP_SOURCE_SEEK_WRITE: return seek(t, data, n);
    case ZIP_SOURCE_TELL_WRITE: return (zip_int64_t)t->at;
    case ZIP_SOURCE_COMMIT_WRITE:
    case ZIP_SOURCE_ROLLBACK_WRITE:
    case ZIP_SOURCE_FREE: return 0;
    default: zip_error_set(&t->why, ZIP_ER_OPNOTSUPP, 0); return -1;
    }
}

/* Header and data of an entry, in that order, for libzip to read when it closes the archive. */
typedef struct piece_pair {
    char head[PP_NPY_HEADER];
    zip_buffer_fragment_t part[2];
} piece_pair;

static ppto_status add(zip_t *zip, const pp_files_entry *entry, size_t number, piece_pair *pair,
                       pp_error *err)
{
    size_t head, bytes;
    pp_text name = {0};
    zip_error_t why;
    PP_TRY(pp_npy_make_header(entry->dtype, entry->rank, entry->shape, pair->head, &head, &bytes, err));
    pair->part[0] = (zip_buffer_fragment_t){(zip_uint8_t *)pair->head, head};
    pair->part[1] = (zip_buffer_fragment_t){(zip_uint8_t *)(uintptr_t)entry->data, bytes}; /* only read */
    if (entry->name != NULL)
        pp_text_add(&name, "%s.npy", entry->name);
    else
        pp_text_add(&name, "arr_%zu.npy", number);
    if (name.failed) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    zip_error_init(&why);
    zip_source_t *from = zip_source_buffer_fragment_create(pair->part, bytes != 0 ? 2 : 1, 0, &why);
    zip_int64_t index = from != NULL ? zip_file_add(zip, name.at, from, ZIP_FL_ENC_UTF_8) : -1;
    ppto_status status = PPTO_OK;
    if (from != NULL && index < 0) zip_source_free(from);
    if (index < 0 && from != NULL && zip_error_code_zip(zip_get_error(zip)) == ZIP_ER_EXISTS)
        status = pp_fail(err, PPTO_E_VALUE, "two arrays have the name %.*s",
                         (int)(name.n < 204 ? name.n - 4 : 200), name.at);
    else if (index < 0)
        status = pp_zip_fail(err, from != NULL ? zip_get_error(zip) : &why);
    else if (zip_set_file_compression(zip, (zip_uint64_t)index, ZIP_CM_STORE, 0) != 0 ||
             zip_file_set_mtime(zip, (zip_uint64_t)index, 315532800, 0) != 0) /* 1980: zip's first day */
        status = pp_zip_fail(err, zip_get_error(zip));
    zip_error_fini(&why);
    pp_text_free(&name);
    return status;
}

static ppto_status close_archive(zip_t *zip, target *t, pp_error *err)
{
    if (zip_close(zip) == 0) return PPTO_OK;
    ppto_status status =
        t->failed ? pp_fail(err, t->error.code, "%s", t->error.text) : pp_zip_fail(err, zip_get_error(zip));
    zip_discard(zip);
    return status;
}

ppto_status pp_npz_write(int fd, const pp_files_entry *entries, size_t n, const pp_files_watch *watch,
                         pp_error *err)
{
    target t = {.fd = fd, .watch = watch};
    zip_error_t why;
    zip_error_init(&t.why);
    zip_error_init(&why);
    piece_pair *pairs = pp_calloc(n, sizeof *pairs);
    zip_source_t *to = pairs != NULL ? zip_source_function_create(serve, &t, &why) : NULL;
    zip_t *zip = to != NULL ? zip_open_from_source(to, ZIP_CREATE | ZIP_TRUNCATE, &why) : NULL;
    ppto_status status = PPTO_OK;
    if (zip == NULL)
        status = pairs == NULL ? pp_fail(err, PPTO_E_NOMEM, "out of memory") : pp_zip_fail(err, &why);
    if (zip == NULL && to != NULL) zip_source_free(to);
    for (size_t i = 0; i < n && status == PPTO_OK; i++) status = add(zip, &entries[i], i, &pairs[i], err);
    if (status == PPTO_OK)
        status = close_archive(zip, &t, err);
    else if (zip != NULL)
        zip_discard(zip);
    zip_error_fini(&why);
    zip_error_fini(&t.why);
    pp_free(pairs);
    return status;
}
#endif
