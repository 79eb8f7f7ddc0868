/* SPDX-License-Identifier: Apache-2.0
 * NPZ by libzip (npz.h): reading one entry. Writing is npz_write.c.
 *
 * libzip unpacks as we read, so memory is that of the array alone. It tells a wrong checksum when the end of
 * an entry is read, which pp_npy_data_from does. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "files/npz.h"

#ifdef PP_WITH_ZIP
#include "files/npz_zip.h"

enum { DEFLATED_AT_MOST = 1032 }; /* bytes that one byte of deflate can stand for */

struct pp_npz {
    zip_t *zip;
    zip_file_t *entry;
    uint64_t left; /* bytes of the entry not yet read */
};

ppto_status pp_zip_fail(pp_error *err, zip_error_t *why)
{
    int code = zip_error_code_zip(why), number = zip_error_code_system(why);
    ppto_status status = PPTO_E_FORMAT;
    if (code == ZIP_ER_MEMORY) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    if (code == ZIP_ER_NOZIP) return pp_fail(err, status, "this is no NPZ file (a zip archive)");
    if ((code == ZIP_ER_READ || code == ZIP_ER_WRITE || code == ZIP_ER_SEEK) && number != 0)
        return pp_fail_errno(err, code == ZIP_ER_WRITE ? "cannot write" : "cannot read", number);
    return pp_fail(err, status, "the zip archive cannot be used: %s", zip_error_strerror(why));
}

static ppto_status open_archive(const pp_source *source, zip_t **out, pp_error *err)
{
    zip_error_t why;
    int code, fd = fcntl(source->fd, F_DUPFD_CLOEXEC, 3);
    if (fd < 0) return pp_fail_errno(err, "cannot read", errno);
    if ((*out = zip_fdopen(fd, ZIP_CHECKCONS, &code)) != NULL) return PPTO_OK;
    zip_error_init_with_code(&why, code);
    ppto_status status = pp_zip_fail(err, &why);
    zip_error_fini(&why);
    close(fd);
    return status;
}

/* The length of an entry's name without ".npy"; 0 for other files. */
static size_t array_name(const char *name)
{
    size_t n = name != NULL ? strlen(name) : 0;
    return n > 4 && strcmp(name + n - 4, ".npy") == 0 ? n - 4 : 0;
}

static ppto_status no_such_array(zip_t *zip, const char *name, uint64_t arrays, pp_error *err)
{
    pp_text text = {0};
    const char *comma = "";
    if (name != NULL) pp_text_add(&text, "there is no array %.200s in it", name);
    if (name == NULL && arrays != 0)
        pp_text_add(&text, "it holds %llu arrays, say which by :NAME", (unsigned long long)arrays);
    pp_text_add(&text, arrays != 0    ? "; there are: "
                       : name != NULL ? "; there are none"
                                      : "it holds no array");
    for (zip_int64_t i = 0; i < zip_get_num_entries(zip, 0) && text.n < 1000; i++) {
        const char *own = zip_get_name(zip, (zip_uint64_t)i, 0);
        size_t n = array_name(own);
        if (n == 0) continue;
        pp_text_add(&text, "%s%.*s", comma, n < 100 ? (int)n : 100, own);
        comma = ", ";
    }
    ppto_status status = pp_fail(err, PPTO_E_FORMAT, "%s", text.at != NULL ? text.at : "no such array");
    pp_text_free(&text);
    return status;
}

static ppto_status find(zip_t *zip, const char *name, zip_uint64_t *index, pp_error *err)
{
    uint64_t arrays = 0, found = 0;
    for (zip_int64_t i = 0; i < zip_get_num_entries(zip, 0); i++) {
        const char *own = zip_get_name(zip, (zip_uint64_t)i, 0);
        size_t n = array_name(own);
        if (n == 0) continue;
        arrays++;
        if (name != NULL && (strlen(name) != n || memcmp(own, name, n) != 0)) continue;
        found++;
        *index = (zip_uint64_t)i;
    }
    return found == 1 ? PPTO_OK : no_such_array(zip, name, arrays, err);
}

/* An entry that says it holds more than its bytes can be unpacked to is refused before it costs anything. */
static ppto_status check_claim(const zip_stat_t *facts, const pp_source *source, pp_error *err)
{
    const zip_uint64_t wanted = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
    uint64_t packed = facts->comp_size, most = packed;
    bool plausible = (facts->valid & wanted) == wanted && packed <= (uint64_t)source->size;
    if (plausible && facts->comp_method != ZIP_CM_STORE) most = packed * DEFLATED_AT_MOST + 64;
    if (plausible && facts->size <= most) return PPTO_OK;
    return pp_fail(err, PPTO_E_FORMAT, "the entry cannot hold the %llu bytes it claims",
                   (unsigned long long)facts->size);
}

static ppto_status read_entry(void *arg, void *bytes, size_t n, size_t *got,
                              PP_UNUSED const pp_files_watch *watch, pp_error *err)
{
    pp_npz *npz = arg;
    *got = 0;
    while (*got < n) {
        zip_int64_t step = zip_fread(npz->entry, (char *)bytes + *got, n - *got);
        if (step < 0) return pp_zip_fail(err, zip_file_get_error(npz->entry));
        if (step == 0) break;
        *got += (size_t)step;
        npz->left -= (uint64_t)step < npz->left ? (uint64_t)step : npz->left;
    }
    return PPTO_OK;
}

static int64_t left_in_entry(void *arg)
{
    uint64_t left = ((pp_npz *)arg)->left;
    return left <= INT64_MAX ? (int64_t)left : INT64_MAX;
}

static ppto_status open_entry(pp_npz *npz, const pp_source *source, const char *name, pp_npy_info *info,
                              pp_error *err)
{
    zip_uint64_t index = 0;
    zip_stat_t facts;
    PP_TRY(find(npz->zip, name, &index, err));
    if (zip_stat_index(npz->zip, index, 0, &facts) != 0) return pp_zip_fail(err, zip_get_error(npz->zip));
    PP_TRY(check_claim(&facts, source, err));
    npz->entry = zip_fopen_index(npz->zip, index, 0);
    if (npz->entry == NULL) return pp_zip_fail(err, zip_get_error(npz->zip));
    npz->left = facts.size;
    const pp_files_from from = {read_entry, left_in_entry, npz};
    return pp_npy_header_from(&from, info, err);
}

ppto_status pp_npz_open(const pp_source *source, const char *name, pp_npz **out, pp_npy_info *info,
                        pp_error *err)
{
    *out = NULL;
    pp_npz *npz = pp_calloc(1, sizeof *npz);
    if (npz == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    ppto_status status = open_archive(source, &npz->zip, err);
    if (status == PPTO_OK) status = open_entry(npz, source, name, info, err);
    if (status == PPTO_OK)
        *out = npz;
    else
        pp_npz_close(npz);
    return status;
}

ppto_status pp_npz_read(pp_npz *npz, const pp_npy_info *info, void *dst, const pp_files_watch *watch,
                        pp_error *err)
{
    const pp_files_from from = {read_entry, left_in_entry, npz};
    return pp_npy_data_from(&from, info, dst, watch, err);
}

ppto_status pp_npz_next(pp_npz *npz, void *bytes, size_t n, size_t *got, pp_error *err)
{
    return read_entry(npz, bytes, n, got, NULL, err);
}

void pp_npz_close(pp_npz *npz)
{
    if (npz == NULL) return;
    if (npz->entry != NULL) (void)zip_fclose(npz->entry);
    if (npz->zip != NULL) zip_discard(npz->zip);
    pp_free(npz);
}

#else

static ppto_status missing(pp_error *err)
{
    return pp_fail(err, PPTO_E_UNSUPPORTED, "NPZ files need libzip, which this build has not");
}

ppto_status pp_npz_open(PP_UNUSED const pp_source *source, PP_UNUSED const char *name, pp_npz **out,
                        PP_UNUSED pp_npy_info *info, pp_error *err)
{
    *out = NULL;
    return missing(err);
}

ppto_status pp_npz_read(PP_UNUSED pp_npz *npz, PP_UNUSED const pp_npy_info *info, PP_UNUSED void *dst,
                        PP_UNUSED const pp_files_watch *watch, pp_error *err)
{
    return missing(err);
}

ppto_status pp_npz_next(PP_UNUSED pp_npz *npz, PP_UNUSED void *bytes, PP_UNUSED size_t n,
                        PP_UNUSED size_t *got, pp_error *err)
{
    return missing(err);
}

void pp_npz_close(PP_UNUSED pp_npz *npz) {}

ppto_status pp_npz_write(PP_UNUSED int fd, PP_UNUSED const pp_files_entry *entries, PP_UNUSED size_t n,
                         PP_UNUSED const pp_files_watch *watch, pp_error *err)
{
    return missing(err);
}

ppto_status pp_npz_write_from(PP_UNUSED int fd, PP_UNUSED const pp_files_entry *entry,
                              PP_UNUSED const pp_files_from *from, pp_error *err)
{
    return pp_npz_write(fd, entry, 1, NULL, err);
}

#endif
