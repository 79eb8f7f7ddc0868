/* SPDX-License-Identifier: Apache-2.0
 * NPZ by libzip (npz.h): writing. libzip would make a temporary file of its own; here it writes through a
 * "source" that is our descriptor, so that archives appear like all other files (sink.h). The entries' bytes
 * are taken from where they lie, or asked for while they are written. */
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

/* An entry whose data come piece by piece while the archive is closed. */
typedef struct pulled {
    char head[PP_NPY_HEADER];
    size_t head_bytes, at; /* of the header, given so far */
    size_t bytes;          /* of the data */
    const pp_files_from *from;
    target *to; /* has the error */
} pulled;

static zip_int64_t pull_some(pulled *p, void *data, zip_uint64_t n)
{
    pp_error err = {0};
    size_t got = 0, left = p->head_bytes - p->at;
    if (left != 0) {
        got = left < n ? left : (size_t)n;
        memcpy(data, p->head + p->at, got);
        p->at += got;
        return (zip_int64_t)got;
    }
    if (p->from->read(p->from->arg, data, (size_t)n, &got, NULL, &err) == PPTO_OK) return (zip_int64_t)got;
    return fail_target(p->to, &err);
}

static zip_int64_t tell_size(const pulled *p, void *data)
{
    zip_stat_t *facts = data;
    zip_stat_init(facts);
    facts->size = facts->comp_size = p->head_bytes + p->bytes;
    facts->comp_method = ZIP_CM_STORE;
    facts->encryption_method = ZIP_EM_NONE;
    facts->valid = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD | ZIP_STAT_ENCRYPTION_METHOD;
    return sizeof *facts;
}

static zip_int64_t pull(void *arg, void *data, zip_uint64_t n, zip_source_cmd_t command)
{
    pulled *p = arg;
    switch (command) {
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE,
                                              ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, -1);
    case ZIP_SOURCE_STAT: return tell_size(p, data);
    case ZIP_SOURCE_READ: return pull_some(p, data, n);
    case ZIP_SOURCE_ERROR: return zip_error_to_data(&p->to->why, data, n);
    case ZIP_SOURCE_OPEN:
    case ZIP_SOURCE_CLOSE:
    case ZIP_SOURCE_FREE: return 0;
    default: zip_error_set(&p->to->why, ZIP_ER_OPNOTSUPP, 0); return -1;
    }
}

/* from: the source of its bytes, given away; NULL: why says that there is none. */
static ppto_status add_source(zip_t *zip, const pp_files_entry *entry, size_t number, zip_source_t *from,
                              zip_error_t *why, pp_error *err)
{
    pp_text name = {0};
    if (entry->name != NULL)
        pp_text_add(&name, "%s.npy", entry->name);
    else
        pp_text_add(&name, "arr_%zu.npy", number);
    zip_int64_t index =
        from != NULL && !name.failed ? zip_file_add(zip, name.at, from, ZIP_FL_ENC_UTF_8) : -1;
    ppto_status status = PPTO_OK;
    if (from != NULL && index < 0) zip_source_free(from);
    if (name.failed)
        status = pp_fail(err, PPTO_E_NOMEM, "out of memory");
    else if (index < 0 && from != NULL && zip_error_code_zip(zip_get_error(zip)) == ZIP_ER_EXISTS)
        status = pp_fail(err, PPTO_E_VALUE, "two arrays have the name %.*s",
                         (int)(name.n < 204 ? name.n - 4 : 200), name.at);
    else if (index < 0)
        status = pp_zip_fail(err, from != NULL ? zip_get_error(zip) : why);
    else if (zip_set_file_compression(zip, (zip_uint64_t)index, ZIP_CM_STORE, 0) != 0 ||
             zip_file_set_mtime(zip, (zip_uint64_t)index, 315532800, 0) != 0) /* 1980: zip's first day */
        status = pp_zip_fail(err, zip_get_error(zip));
    pp_text_free(&name);
    return status;
}

static ppto_status add(zip_t *zip, const pp_files_entry *entry, size_t number, piece_pair *pair,
                       pp_error *err)
{
    size_t head, bytes;
    zip_error_t why;
    PP_TRY(pp_npy_make_header(entry->dtype, entry->rank, entry->shape, pair->head, &head, &bytes, err));
    pair->part[0] = (zip_buffer_fragment_t){(zip_uint8_t *)pair->head, head};
    pair->part[1] = (zip_buffer_fragment_t){(zip_uint8_t *)(uintptr_t)entry->data, bytes}; /* only read */
    zip_error_init(&why);
    zip_source_t *from = zip_source_buffer_fragment_create(pair->part, bytes != 0 ? 2 : 1, 0, &why);
    ppto_status status = add_source(zip, entry, number, from, &why, err);
    zip_error_fini(&why);
    return status;
}

static ppto_status add_pulled(zip_t *zip, const pp_files_entry *entry, pulled *p, pp_error *err)
{
    zip_error_t why;
    PP_TRY(
        pp_npy_make_header(entry->dtype, entry->rank, entry->shape, p->head, &p->head_bytes, &p->bytes, err));
    zip_error_init(&why);
    ppto_status status = add_source(zip, entry, 0, zip_source_function_create(pull, p, &why), &why, err);
    zip_error_fini(&why);
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

static ppto_status open_archive(target *t, zip_t **zip, pp_error *err)
{
    zip_error_t why;
    zip_error_init(&t->why);
    zip_error_init(&why);
    zip_source_t *to = zip_source_function_create(serve, t, &why);
    *zip = to != NULL ? zip_open_from_source(to, ZIP_CREATE | ZIP_TRUNCATE, &why) : NULL;
    ppto_status status = *zip != NULL ? PPTO_OK : pp_zip_fail(err, &why);
    if (*zip == NULL && to != NULL) zip_source_free(to);
    zip_error_fini(&why);
    return status;
}

/* status: of what was done since it was opened */
static ppto_status finish(zip_t *zip, target *t, ppto_status status, pp_error *err)
{
    if (status == PPTO_OK)
        status = close_archive(zip, t, err);
    else if (zip != NULL)
        zip_discard(zip);
    zip_error_fini(&t->why);
    return status;
}

ppto_status pp_npz_write(int fd, const pp_files_entry *entries, size_t n, const pp_files_watch *watch,
                         pp_error *err)
{
    target t = {.fd = fd, .watch = watch};
    zip_t *zip = NULL;
    piece_pair *pairs = pp_calloc(n, sizeof *pairs);
    if (pairs == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    ppto_status status = open_archive(&t, &zip, err);
    for (size_t i = 0; i < n && status == PPTO_OK; i++) status = add(zip, &entries[i], i, &pairs[i], err);
    status = finish(zip, &t, status, err);
    pp_free(pairs);
    return status;
}

ppto_status pp_npz_write_from(int fd, const pp_files_entry *entry, const pp_files_from *from, pp_error *err)
{
    target t = {.fd = fd};
    pulled p = {.from = from, .to = &t};
    zip_t *zip = NULL;
    ppto_status status = open_archive(&t, &zip, err);
    if (status == PPTO_OK) status = add_pulled(zip, entry, &p, err);
    return finish(zip, &t, status, err);
}
#endif
