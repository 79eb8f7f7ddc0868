/* SPDX-License-Identifier: Apache-2.0
 * src/files: NPY files well-formed, damaged and hostile. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/npy.h"

static int file_of(const void *bytes, size_t n)
{
    int fd = memfd_create("npy", 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, bytes, n), (ssize_t)n);
    lseek(fd, 0, SEEK_SET);
    return fd;
}

static int pipe_of(const void *bytes, size_t n)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(write(ends[1], bytes, n), (ssize_t)n);
    close(ends[1]);
    return ends[0];
}

/* A version 1 file with this dictionary and n bytes of data; the whole length. */
static size_t make(unsigned char *out, const char *dictionary, const void *data, size_t n)
{
    size_t length = strlen(dictionary);
    memcpy(out, "\x93NUMPY\x01", 8);
    out[8] = (unsigned char)(length & 255);
    out[9] = (unsigned char)(length >> 8);
    memcpy(out + 10, dictionary, length);
    if (n != 0) memcpy(out + 10 + length, data, n);
    return 10 + length + n;
}

static ppto_status header_of(const char *dictionary, size_t data, pp_npy_info *info, pp_error *err)
{
    static unsigned char file[4096], zeros[1024];
    int fd = file_of(file, make(file, dictionary, zeros, data));
    ppto_status status = pp_npy_read_header(fd, info, err);
    close(fd);
    return status;
}

/* Reads everything the header promises, from a file or a pipe; data up to 4096 bytes. */
static ppto_status read_all(int fd, pp_npy_info *info, void *dst)
{
    pp_error err = {0};
    ppto_status status = pp_npy_read_header(fd, info, &err);
    if (status == PPTO_OK && info->bytes > 4096) status = PPTO_E_LIMIT;
    if (status == PPTO_OK) status = pp_npy_read_data(fd, info, dst, NULL, &err);
    close(fd);
    return status;
}

Test(files_npy, round_trips_every_dtype_and_rank)
{
    static const int64_t shape[PPTO_MAX_RANK] = {2, 1, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2};
    static const size_t size[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 4, 8};
    unsigned char data[96], back[4096];
    for (size_t i = 0; i < sizeof data; i++) data[i] = i % 3 == 0;
    for (int dtype = PPTO_BOOL; dtype <= PPTO_F64; dtype++)
        for (int rank = 0; rank <= PPTO_MAX_RANK; rank++) {
            int fd = memfd_create("npy", 0);
            pp_npy_info info;
            cr_expect_eq(pp_npy_write(fd, (ppto_dtype)dtype, rank, shape, data, NULL, NULL), PPTO_OK);
            lseek(fd, 0, SEEK_SET);
            cr_expect_eq(read_all(fd, &info, back), PPTO_OK, "dtype %d rank %d", dtype, rank);
            cr_expect(info.dtype == (ppto_dtype)dtype && info.rank == rank);
            cr_expect_eq(info.bytes, (size_t)info.count * size[dtype]);
            cr_expect_eq(memcmp(info.shape, shape, (size_t)rank * sizeof *shape), 0);
            cr_expect_eq(memcmp(back, data, info.bytes), 0);
        }
}

Test(files_npy, reads_big_endian_and_fortran_order)
{
    static const unsigned char data[12] = {0, 1, 0, 4, 0, 2, 0, 5, 0, 3, 0, 6};
    unsigned char file[256];
    int16_t back[2048];
    pp_npy_info info;
    size_t n = make(file, "{'shape': (2, 3), 'fortran_order': True, 'descr': '>i2'}", data, sizeof data);
    for (int piped = 0; piped < 2; piped++) {
        cr_assert_eq(read_all(piped ? pipe_of(file, n) : file_of(file, n), &info, back), PPTO_OK);
        for (int16_t i = 0; i < 6; i++) cr_expect_eq(back[i], i + 1);
    }
}

Test(files_npy, scatters_fortran_order_over_many_chunks)
{
    enum { A = 37, B = 41, C = 43 };
    static int32_t data[A * B * C], back[A * B * C];
    for (int a = 0, at = 0; a < A; a++)
        for (int b = 0; b < B; b++)
            for (int c = 0; c < C; c++) data[a + A * (b + B * c)] = at++;
    static unsigned char file[sizeof data + 256];
    size_t n =
        make(file, "{'descr': '=i4', 'fortran_order': True, 'shape': (37, 41, 43)}", data, sizeof data);
    pp_npy_info info;
    int fd = file_of(file, n);
    cr_assert_eq(pp_npy_read_header(fd, &info, NULL), PPTO_OK);
    cr_assert_eq(pp_npy_read_data(fd, &info, back, NULL, NULL), PPTO_OK);
    for (int i = 0; i < A * B * C; i++) cr_assert_eq(back[i], i);
    close(fd);
}

/* Rows 5 to 15 of [37, 3, 7], in every size of element. */
Test(files_npy, turns_rows_of_a_fortran_file)
{
    enum { FIRST = 5, ROWS = 10, B = 3, C = 7 };
    static const ppto_dtype dtypes[] = {PPTO_U8, PPTO_I16, PPTO_F32, PPTO_F64};
    for (size_t k = 0; k < 4; k++) {
        const pp_npy_info info = {.dtype = dtypes[k], .rank = 3, .shape = {37, B, C}, .fortran = true};
        unsigned char from[ROWS * B * C * 8], to[sizeof from] = {0};
        size_t size = (size_t)1 << k;
        for (size_t c = 0, at = 0; c < C; c++)
            for (size_t b = 0; b < B; b++)
                for (size_t a = 0; a < ROWS; a++, at += size)
                    memset(from + at, (int)(a * 21 + b * 7 + c), size);
        pp_npy_turn(&info, ROWS, from, to);
        for (size_t i = 0; i < ROWS * B * C * size; i++) cr_assert_eq(to[i], i / size, "%zu bytes", size);
    }
}

Test(files_npy, makes_bools_zero_or_one)
{
    unsigned char file[256], back[4096];
    pp_npy_info info;
    size_t n = make(file, "{'descr': '|b1', 'fortran_order': False, 'shape': (3,)}", "\x00\x02\xff", 3);
    cr_assert_eq(read_all(file_of(file, n), &info, back), PPTO_OK);
    cr_expect_eq(memcmp(back, "\x00\x01\x01", 3), 0);
}

Test(files_npy, refuses_element_types_with_a_reason)
{
    static const char *const descr[][2] = {
        {"'|O'", "pickle"},
        {"'<f2'", "float32"},
        {"'<c8'", "complex"},
        {"'<U4'", "text"},
        {"'<M8'", "dates"},
        {"[('a', '<f4')]", "structured"},
        {"'|V2'", "records"},
        {"'<f16'", "width"},
        {"'zz'", "supported"},
        {"''", "supported"},
        {"('<f4', (2,))", "structured"},
    };
    for (size_t i = 0; i < sizeof descr / sizeof *descr; i++) {
        char text[128];
        pp_npy_info info;
        pp_error err = {0};
        snprintf(text, sizeof text, "{'descr': %s, 'fortran_order': False, 'shape': (1,)}", descr[i][0]);
        cr_expect_eq(header_of(text, 8, &info, &err), PPTO_E_DTYPE, "%s", descr[i][0]);
        cr_expect_not_null(strstr(err.text, descr[i][1]), "%s: %s", descr[i][0], err.text);
    }
}

Test(files_npy, refuses_malformed_headers)
{
    static const char *const text[] = {
        "",
        "{",
        "{}",
        "x",
        "{'descr': '<f4'}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 0)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4' 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", /* data is 4 bytes: cut off */
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0,)}", /* 4 bytes follow */
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        pp_npy_info info;
        pp_error err = {0};
        cr_expect_eq(header_of(text[i], 4, &info, &err), PPTO_E_FORMAT, "%s", text[i]);
        cr_expect_neq(err.text[0], '\0');
    }
}

Test(files_npy, reads_versions_2_and_3_and_caps_the_header)
{
    static const char text[] = "{'descr': '<f4', 'fortran_order': False, 'shape': ()}";
    unsigned char file[128] = "\x93NUMPY\x02\x00", back[4096];
    uint32_t length = sizeof text - 1;
    pp_npy_info info;
    memcpy(file + 8, &length, 4);
    memcpy(file + 12, text, length);
    for (unsigned char version = 0; version < 6; version++) {
        file[6] = version;
        ppto_status wanted = version == 2 || version == 3 ? PPTO_OK : PPTO_E_FORMAT;
        cr_expect_eq(read_all(pipe_of(file, 12 + length + 4), &info, back), wanted, "version %d", version);
    }
    memcpy(file, "\x93NUMPY\x02\x00\xff\xff\xff\xff", 12);
    pp_heap_counters before = pp_heap_count();
    cr_expect_eq(read_all(pipe_of(file, 12), &info, back), PPTO_E_FORMAT);
    cr_expect_eq(pp_heap_count().allocations, before.allocations);
}

static size_t small_file(unsigned char *file)
{
    static const float data[6] = {1, 2, 3, 4, 5, 6};
    return make(file, "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", data, sizeof data);
}

Test(files_npy, no_prefix_is_a_file)
{
    unsigned char file[256], back[4096];
    pp_npy_info info;
    size_t n = small_file(file);
    cr_expect_eq(read_all(file_of(file, n), &info, back), PPTO_OK);
    for (size_t k = 0; k < n; k++) {
        cr_expect_eq(read_all(file_of(file, k), &info, back), PPTO_E_FORMAT, "%zu bytes", k);
        cr_expect_eq(read_all(pipe_of(file, k), &info, back), PPTO_E_FORMAT, "%zu bytes piped", k);
    }
    cr_expect_eq(read_all(file_of(file, n + 1), &info, back), PPTO_E_FORMAT);
    cr_expect_eq(read_all(pipe_of(file, n + 1), &info, back), PPTO_E_FORMAT);
}

Test(files_npy, survives_every_single_byte_change, .timeout = 120)
{
    unsigned char file[256], back[4096];
    pp_npy_info info;
    size_t n = small_file(file);
    for (size_t k = 0; k < n; k++)
        for (int value = 0; value < 256; value++) {
            unsigned char old = file[k];
            file[k] = (unsigned char)value;
            ppto_status status = read_all(file_of(file, n), &info, back);
            cr_expect_eq(read_all(pipe_of(file, n), &info, back), status, "byte %zu is %d", k, value);
            bool refused = status == PPTO_E_FORMAT || status == PPTO_E_DTYPE || status == PPTO_E_LIMIT;
            cr_expect(status == PPTO_OK || (refused && k < n - 24), "byte %zu is %d", k, value);
            file[k] = old;
        }
}

Test(files_npy, frees_everything_when_memory_is_out)
{
    unsigned char file[256], back[4096];
    pp_npy_info info;
    size_t n = small_file(file);
    pp_heap_counters before = pp_heap_count();
    for (uint64_t k = 1; k <= 2; k++) {
        pp_heap_fail_at(k, false);
        cr_expect_eq(read_all(file_of(file, n), &info, back), PPTO_E_NOMEM);
    }
    pp_heap_fail_at(0, false);
    cr_expect_eq(pp_heap_count().live, before.live);
}

static ppto_status stop_at(const void *arg, pp_error *err)
{
    int *left = *(int *const *)arg;
    return --*left > 0 ? PPTO_OK : pp_fail(err, PPTO_E_CANCELLED, "enough");
}

Test(files_npy, a_watch_counts_what_is_moved_and_ends_it)
{
    enum { N = 2 * PP_FILES_STEP + (1 << 20) };
    const int64_t shape[] = {N};
    char *data = calloc(N, 1);
    _Atomic uint64_t moved = 0;
    for (int last = 1; last <= 4; last++) {
        int left = last, *arg = &left;
        pp_files_watch watch = {.stopped = stop_at, .arg = &arg, .moved = &moved};
        pp_npy_info info;
        int fd = memfd_create("npy", 0);
        moved = 0;
        ppto_status expected = last <= 3 ? PPTO_E_CANCELLED : PPTO_OK;
        uint64_t expected_bytes = last <= 2 ? (uint64_t)last * PP_FILES_STEP : N;
        cr_expect_eq(pp_npy_write(fd, PPTO_U8, 1, shape, data, &watch, NULL), expected);
        cr_expect_eq(moved, expected_bytes);
        ftruncate(fd, 0);
        lseek(fd, 0, SEEK_SET);
        cr_assert_eq(pp_npy_write(fd, PPTO_U8, 1, shape, data, NULL, NULL), PPTO_OK);
        lseek(fd, 0, SEEK_SET);
        moved = 0;
        left = last;
        cr_assert_eq(pp_npy_read_header(fd, &info, NULL), PPTO_OK);
        cr_expect_eq(pp_npy_read_data(fd, &info, data, &watch, NULL), expected);
        cr_expect_eq(moved, expected_bytes);
        close(fd);
    }
    free(data);
}

Test(files_npy, agrees_with_numpy, .timeout = 120)
{
    const char *python = getenv("PPTO_PYTHON");
    char command[1024], folder[] = "npy_numpyXXXXXX";
    if (python == NULL) python = "python3";
    snprintf(command, sizeof command, "%s -c 'import numpy' 2>/dev/null", python);
    if (system(command) != 0) cr_skip_test("no NumPy");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(command, sizeof command,
             "cd %s && %s -c \"import numpy as n\n"
             "for i, d in enumerate('? i1 i2 i4 i8 u1 u2 u4 u8 f4 f8'.split()):\n"
             "  a = n.arange(24).reshape(2, 3, 4).astype(d)\n"
             "  n.save('%%d.npy' %% (2 * i), a.astype(a.dtype.newbyteorder('>')))\n"
             "  n.save('%%d.npy' %% (2 * i + 1), n.asfortranarray(a))\"",
             folder, python);
    cr_assert_eq(system(command), 0);
    for (int i = 0; i < 22; i++) {
        unsigned char back[4096];
        char name[64];
        pp_npy_info info;
        snprintf(name, sizeof name, "%s/%d.npy", folder, i);
        cr_expect_eq(read_all(open(name, O_RDONLY), &info, back), PPTO_OK, "file %d", i);
        cr_expect(info.count == 24 && info.dtype == (ppto_dtype)(i / 2));
        int fd = open(name, O_WRONLY | O_TRUNC);
        cr_expect_eq(pp_npy_write(fd, info.dtype, info.rank, info.shape, back, NULL, NULL), PPTO_OK);
        close(fd);
    }
    snprintf(command, sizeof command,
             "cd %s && %s -c \"import numpy as n\n"
             "for i, d in enumerate('? i1 i2 i4 i8 u1 u2 u4 u8 f4 f8'.split()):\n"
             "  a = n.arange(24).reshape(2, 3, 4).astype(d)\n"
             "  for k in 0, 1:\n"
             "    b = n.load('%%d.npy' %% (2 * i + k))\n"
             "    assert b.dtype == a.dtype and b.shape == a.shape and (a == b).all()\"",
             folder, python);
    cr_expect_eq(system(command), 0);
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}
