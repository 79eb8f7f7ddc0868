/* SPDX-License-Identifier: Apache-2.0
 * src/files: NPY, the array file format of NumPy, versions 1 to 3.
 *
 * Read in two steps, so that the caller learns dtype and shape before it makes room. Both work on anything
 * that can be read, pipes included; nothing is read past the array. Files are not trusted: every count is
 * checked against the bytes that remain (where the file has a size), and a file must end where its array
 * ends. */
#ifndef PP_NPY_H
#define PP_NPY_H

#include "base/base.h"
#include "files/fdio.h"

/* What a header says. count == product of shape[0..rank), bytes == count * size of dtype. */
typedef struct pp_npy_info {
    ppto_dtype dtype;
    int rank; /* 0..PPTO_MAX_RANK */
    int64_t shape[PPTO_MAX_RANK];
    int64_t count; /* elements */
    size_t bytes;  /* of the data */
    bool swap;     /* the file has the other byte order */
    bool fortran;  /* the first axis varies fastest in the file, and this matters */
} pp_npy_info;

/* Reads the header; `from` is then at the data.
 * returns  PPTO_OK; PPTO_E_FORMAT malformed, truncated or trailing bytes; PPTO_E_DTYPE an element type that
 * is not supported (object, structured, half, complex, text, dates); PPTO_E_IO; PPTO_E_NOMEM */
ppto_status pp_npy_header_from(const pp_files_from *from, pp_npy_info *info, pp_error *err);
ppto_status pp_npy_read_header(int fd, pp_npy_info *info, pp_error *err);

/* Reads the data into dst (info->bytes bytes) in row-major order and the machine's byte order; bools become 0
 * or 1. Reads on to the end, where more bytes are an error. watch: may be NULL.
 * returns  PPTO_OK; PPTO_E_FORMAT truncated or trailing bytes; PPTO_E_IO; PPTO_E_NOMEM; what the watch says
 */
ppto_status pp_npy_data_from(const pp_files_from *from, const pp_npy_info *info, void *dst,
                             const pp_files_watch *watch, pp_error *err);
ppto_status pp_npy_read_data(int fd, const pp_npy_info *info, void *dst, const pp_files_watch *watch,
                             pp_error *err);

/* Makes n elements that lie as in the file into those of this machine: order of bytes, bools 0 or 1. */
void pp_npy_put_right(const pp_npy_info *info, void *elements, size_t n);

/* Rows of a column-major array that lie as in the file, all elements of the first axis first, into row-major
 * order: `rows` along the first axis. */
void pp_npy_turn(const pp_npy_info *info, size_t rows, const void *from, void *to);

/* The header that pp_npy_write writes: *length bytes, then *bytes of data follow. Errors as there. */
enum { PP_NPY_HEADER = 1024 };
ppto_status pp_npy_make_header(ppto_dtype dtype, int rank, const int64_t *shape, char head[PP_NPY_HEADER],
                               size_t *length, size_t *bytes, pp_error *err);

/* Writes a whole file: version 1.0, row-major, the machine's byte order, data aligned to 64 bytes.
 * returns  PPTO_OK; PPTO_E_DTYPE; PPTO_E_SIZE; PPTO_E_VALUE bad rank or negative size; PPTO_E_IO;
 * PPTO_E_LIMIT; what the watch (may be NULL) says */
ppto_status pp_npy_write(int fd, ppto_dtype dtype, int rank, const int64_t *shape, const void *data,
                         const pp_files_watch *watch, pp_error *err);

#endif
