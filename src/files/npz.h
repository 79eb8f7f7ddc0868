/* SPDX-License-Identifier: Apache-2.0
 * src/files: NPZ, a zip archive of NPY files, by libzip. Archives are not trusted: what an entry claims to
 * hold is checked against its bytes before room is made for it, and its checksum is verified as it is read.
 * Errors name the cause, not the file. Without libzip every call returns E_UNSUPPORTED. */
#ifndef PP_NPZ_H
#define PP_NPZ_H

#include "files/npy.h"
#include "files/source.h"

/* An array to be written. */
typedef struct pp_files_entry {
    const char *name; /* NULL: the format's own */
    ppto_dtype dtype;
    int rank;
    const int64_t *shape;
    const void *data; /* row-major */
} pp_files_entry;

typedef struct pp_npz pp_npz; /* one array of an archive, open */

/* Opens the archive and reads the header of its entry NAME.npy (NULL: of the only array there is).
 * source: a file with offsets, which stays open; *out keeps a descriptor of its own.
 * returns  PPTO_OK; PPTO_E_FORMAT no archive, no such array (the text lists what there is), inconsistent,
 * encrypted; as pp_npy_header_from; PPTO_E_IO; PPTO_E_NOMEM. owns *out: pp_npz_close */
ppto_status pp_npz_open(const pp_source *source, const char *name, pp_npz **out, pp_npy_info *info,
                        pp_error *err);
/* As pp_npy_data_from, once. */
ppto_status pp_npz_read(pp_npz *npz, const pp_npy_info *info, void *dst, const pp_files_watch *watch,
                        pp_error *err);
/* Some of the next n bytes of the data, none at the end, where the checksum is verified. */
ppto_status pp_npz_next(pp_npz *npz, void *bytes, size_t n, size_t *got, pp_error *err);
void pp_npz_close(pp_npz *npz); /* NULL is fine */

/* Writes a whole archive as NumPy's savez does (stored, not compressed) to fd, a regular file that is empty;
 * the same arrays give the same bytes. Entry i without a name is arr_i.
 * returns  PPTO_OK; PPTO_E_VALUE two arrays of one name; as pp_npy_write */
ppto_status pp_npz_write(int fd, const pp_files_entry *entries, size_t n, const pp_files_watch *watch,
                         pp_error *err);
/* The same bytes, of one array whose data are asked for from first to last (from->read, without a watch; it
 * gives 0 at the end). returns  also what from->read fails with */
ppto_status pp_npz_write_from(int fd, const pp_files_entry *entry, const pp_files_from *from, pp_error *err);

#endif
