/* SPDX-License-Identifier: Apache-2.0
 * NPY data: reading in the machine's order, and writing. The header's text is parsed in npy_header.c.
 *
 * Row-major data is read to where it belongs and put right in place, step by step while it is in the cache.
 * Column-major data passes through a small buffer and is scattered element by element: slower than a blocked
 * transposition of a second copy, but it needs no second copy, and such files are rare. source  NumPy
 * Enhancement Proposal 1; numpy.lib.format */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "files/npy.h"
#include "files/npy_header.h"

enum { CHUNK = 1 << 16, ALIGNMENT = 64 };

static void swap_bytes(unsigned char *at, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i++, at += size)
        for (size_t k = 0; k < size / 2; k++) {
            unsigned char low = at[k];
            at[k] = at[size - 1 - k];
            at[size - 1 - k] = low;
        }
}

void pp_npy_put_right(const pp_npy_info *info, void *elements, size_t n)
{
    unsigned char *at = elements;
    if (info->swap) swap_bytes(at, n, pp_npy_dtype_size(info->dtype));
    if (info->dtype == PPTO_BOOL)
        for (size_t i = 0; i < n; i++) at[i] = at[i] != 0;
}

/* behind: bytes that are to follow. */
static ppto_status read_exactly(const pp_files_from *from, void *bytes, size_t n, size_t behind,
                                const pp_files_watch *watch, pp_error *err)
{
    size_t got;
    PP_TRY(pp_files_read_watched(from, bytes, n, &got, watch, err));
    if (got < n)
        return pp_fail(err, PPTO_E_FORMAT, "the array is cut off: %zu bytes of data missing",
                       n - got + behind);
    return PPTO_OK;
}

/* Where the elements of a column-major file go: a counter over the axes, first axis fastest. */
typedef struct walk {
    int64_t index[PPTO_MAX_RANK];
    size_t stride[PPTO_MAX_RANK]; /* bytes in the row-major destination */
    size_t offset;
} walk;

static void walk_start(walk *w, const pp_npy_info *info, size_t size)
{
    memset(w, 0, sizeof *w);
    for (int axis = info->rank - 1; axis >= 0; axis--) {
        w->stride[axis] = size;
        size *= (size_t)info->shape[axis];
    }
}

static void walk_on(walk *w, const pp_npy_info *info)
{
    for (int axis = 0; axis < info->rank; axis++) {
        w->offset += w->stride[axis];
        if (++w->index[axis] < info->shape[axis]) return;
        w->offset -= w->stride[axis] * (size_t)info->shape[axis];
        w->index[axis] = 0;
    }
}

/* One column, which begins at `from`, into rows that are `stride` bytes long. */
static void spread(const unsigned char *from, unsigned char *to, size_t rows, size_t stride, size_t size)
{
    switch (size) { /* copies of a known size are moves */
    case 1:
        for (size_t r = 0; r < rows; r++) to[r * stride] = from[r];
        break;
    case 2:
        for (size_t r = 0; r < rows; r++) memcpy(to + r * stride, from + 2 * r, 2);
        break;
    case 4:
        for (size_t r = 0; r < rows; r++) memcpy(to + r * stride, from + 4 * r, 4);
        break;
    default:
        for (size_t r = 0; r < rows; r++) memcpy(to + r * stride, from + 8 * r, 8);
        break;
    }
}

void pp_npy_turn(const pp_npy_info *info, size_t rows, const void *from, void *to)
{
    enum { BLOCK = 1024 }; /* rows, whose lines stay in the cache from column to column */
    pp_npy_info columns = *info;
    size_t size = pp_npy_dtype_size(info->dtype), stride, n = 1;
    columns.shape[0] = 1;
    for (int axis = 1; axis < info->rank; axis++) n *= (size_t)info->shape[axis];
    stride = n * size;
    for (size_t first = 0; first < rows; first += BLOCK) {
        size_t some = rows - first < BLOCK ? rows - first : BLOCK;
        walk w;
        walk_start(&w, &columns, size);
        for (size_t k = 0; k < n; k++) {
            spread((const unsigned char *)from + (k * rows + first) * size,
                   (unsigned char *)to + first * stride + w.offset, some, stride, size);
            walk_on(&w, &columns);
        }
    }
}

static ppto_status read_rows(const pp_files_from *from, const pp_npy_info *info, unsigned char *dst,
                             size_t size, const pp_files_watch *watch, pp_error *err)
{
    for (size_t at = 0; at < info->bytes;) {
        size_t left = info->bytes - at, step = left < PP_FILES_STEP ? left : PP_FILES_STEP;
        PP_TRY(read_exactly(from, dst + at, step, left - step, watch, err));
        pp_npy_put_right(info, dst + at, step / size);
        at += step;
    }
    return PPTO_OK;
}

static ppto_status read_fortran(const pp_files_from *from, const pp_npy_info *info, unsigned char *dst,
                                size_t size, const pp_files_watch *watch, pp_error *err)
{
    unsigned char *chunk = pp_alloc(CHUNK);
    if (chunk == NULL) return pp_fail(err, PPTO_E_NOMEM, "out of memory");
    walk w;
    walk_start(&w, info, size);
    ppto_status status = PPTO_OK;
    for (size_t left = info->bytes; left != 0 && status == PPTO_OK;) {
        size_t step = left < CHUNK ? left : CHUNK;
        status = read_exactly(from, chunk, step, left - step, watch, err);
        if (status != PPTO_OK) break;
        pp_npy_put_right(info, chunk, step / size);
        for (size_t at = 0; at < step; at += size) {
            memcpy(dst + w.offset, chunk + at, size);
            walk_on(&w, info);
        }
        left -= step;
    }
    pp_free(chunk);
    return status;
}

ppto_status pp_npy_data_from(const pp_files_from *from, const pp_npy_info *info, void *dst,
                             const pp_files_watch *watch, pp_error *err)
{
    size_t size = pp_npy_dtype_size(info->dtype);
    if (info->fortran)
        PP_TRY(read_fortran(from, info, dst, size, watch, err));
    else
        PP_TRY(read_rows(from, info, dst, size, watch, err));
    unsigned char more;
    size_t got;
    PP_TRY(from->read(from->arg, &more, 1, &got, NULL, err));
    if (got != 0) return pp_fail(err, PPTO_E_FORMAT, "bytes follow the array");
    return PPTO_OK;
}

ppto_status pp_npy_read_data(int fd, const pp_npy_info *info, void *dst, const pp_files_watch *watch,
                             pp_error *err)
{
    const pp_files_from from = pp_files_from_fd(&fd);
    return pp_npy_data_from(&from, info, dst, watch, err);
}

/* Length of the padded text; magic, version and length field come before it. */
static size_t format_header(char *out, size_t room, const char *descr, int rank, const int64_t *shape)
{
    enum { BEFORE = 10 };
    size_t n = (size_t)snprintf(out, room, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int axis = 0; axis < rank; axis++)
        n += (size_t)snprintf(out + n, room - n, "%s%" PRId64, axis != 0 ? ", " : "", shape[axis]);
    n += (size_t)snprintf(out + n, room - n, "%s), }", rank == 1 ? "," : "");
    while ((BEFORE + n + 1) % ALIGNMENT != 0) out[n++] = ' ';
    out[n++] = '\n';
    return n;
}

ppto_status pp_npy_make_header(ppto_dtype dtype, int rank, const int64_t *shape, char head[PP_NPY_HEADER],
                               size_t *length, size_t *bytes, pp_error *err)
{
    static const char magic[8] = "\x93NUMPY\x01";
    char descr[8];
    *bytes = pp_npy_dtype_size(dtype);
    if (!pp_npy_descr(dtype, descr)) return pp_fail(err, PPTO_E_DTYPE, "this dtype has no NPY form");
    if (rank < 0 || rank > PPTO_MAX_RANK) return pp_fail(err, PPTO_E_VALUE, "rank %d", rank);
    for (int axis = 0; axis < rank; axis++) {
        if (shape[axis] < 0) return pp_fail(err, PPTO_E_VALUE, "axis %d has a negative size", axis);
        if (!pp_mul_size(*bytes, (size_t)shape[axis], bytes))
            return pp_fail(err, PPTO_E_SIZE, "the size of the array overflows");
    }
    memcpy(head, magic, sizeof magic);
    size_t n = format_header(head + 10, PP_NPY_HEADER - 10 - ALIGNMENT, descr, rank, shape);
    head[8] = (char)(n & 0xff);
    head[9] = (char)(n >> 8);
    *length = n + 10;
    return PPTO_OK;
}

ppto_status pp_npy_write(int fd, ppto_dtype dtype, int rank, const int64_t *shape, const void *data,
                         const pp_files_watch *watch, pp_error *err)
{
    char head[PP_NPY_HEADER];
    size_t n, bytes;
    PP_TRY(pp_npy_make_header(dtype, rank, shape, head, &n, &bytes, err));
    PP_TRY(pp_files_write_by(watch, fd, head, n, err));
    return pp_files_write_watched(fd, data, bytes, watch, err);
}
