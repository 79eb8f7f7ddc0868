/* SPDX-License-Identifier: Apache-2.0
 * src/files: NPZ and safetensors files well-formed, damaged and hostile. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/formats.h"

static char folder[64];

static void enter(void)
{
    if (!pp_files_reads(PP_FORMAT_NPZ) || !pp_files_reads(PP_FORMAT_SAFETENSORS))
        cr_skip_test("a library for archives is not built in");
    snprintf(folder, sizeof folder, "/tmp/ppto-formats-XXXXXX");
    cr_assert(mkdtemp(folder) != NULL && chdir(folder) == 0);
}

static void leave(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert(chdir("/") == 0 && system(command) == 0);
}

TestSuite(files_formats, .init = enter, .fini = leave, .timeout = 120);

static const char *const archives[] = {"a.npz", "a.safetensors"};
enum { ARCHIVES = 2, ROOM = 4096 };

static void put(const char *path, const void *bytes, size_t n)
{
    unlink(path); /* a file that is cut off and written again is flushed to the disk by some file systems */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    cr_assert_eq(write(fd, bytes, n), (ssize_t)n);
    close(fd);
}

static size_t get(const char *path, unsigned char *bytes)
{
    int fd = open(path, O_RDONLY);
    ssize_t n = read(fd, bytes, ROOM);
    cr_assert(n > 0 && n < ROOM);
    close(fd);
    return (size_t)n;
}

/* The array of that name, up to ROOM bytes. */
static ppto_status read_array(const char *text, pp_npy_info *info, void *dst, pp_error *err)
{
    pp_reader reader;
    pp_error_clear(err);
    ppto_status status = pp_reader_open(&reader, text, err);
    if (status != PPTO_OK) return status;
    *info = reader.info;
    if (info->bytes > ROOM)
        status = PPTO_E_LIMIT;
    else
        status = pp_reader_read(&reader, dst, NULL, err);
    pp_reader_close(&reader);
    return status;
}

static void expect(const char *text, ppto_status status, const char *words)
{
    unsigned char data[ROOM];
    pp_npy_info info;
    pp_error err = {0};
    cr_expect_eq(read_array(text, &info, data, &err), status, "%s: %s", text, err.text);
    cr_expect(strstr(err.text, words) != NULL, "%s: %s", text, err.text);
}

/* ---- both -----------------------------------------------------------------------------------------------
 */

Test(files_formats, archives_round_trip_every_dtype_and_rank)
{
    static const int64_t shape[PPTO_MAX_RANK] = {2, 3, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2};
    unsigned char data[ROOM], back[ROOM];
    for (size_t i = 0; i < sizeof data; i++) data[i] = i & 1;
    for (size_t a = 0; a < ARCHIVES; a++)
        for (int dtype = 0; dtype <= PPTO_F64; dtype++)
            for (int rank = 0; rank <= PPTO_MAX_RANK; rank += rank < 3 ? 1 : 13) {
                const pp_files_entry entry = {"x", (ppto_dtype)dtype, rank, shape, data};
                pp_error err = {0};
                pp_npy_info info;
                cr_expect_eq(pp_files_save(archives[a], &entry, 1, NULL, &err), PPTO_OK, "%s", err.text);
                cr_assert_eq(read_array(archives[a], &info, back, &err), PPTO_OK, "%s: %s", archives[a],
                             err.text);
                cr_expect(info.dtype == (ppto_dtype)dtype && info.rank == rank);
                cr_expect_eq(memcmp(info.shape, shape, (size_t)rank * sizeof *shape), 0);
                cr_expect_eq(memcmp(back, data, info.bytes), 0, "%s, dtype %d, rank %d", archives[a], dtype,
                             rank);
            }
}

static const int64_t shape_of_a[] = {2, 2}, shape_of_b[] = {3}, shape_of_c[] = {0, 5};
static const float a[] = {1, 2, 3, 4};
static const unsigned char b[] = {5, 6, 7};
static const pp_files_entry three[] = {{"b", PPTO_U8, 1, shape_of_b, b},
                                       {"a", PPTO_F32, 2, shape_of_a, a},
                                       {"empty", PPTO_F64, 2, shape_of_c, NULL}};

Test(files_formats, arrays_are_found_by_name)
{
    for (size_t i = 0; i < ARCHIVES; i++) {
        char text[64];
        unsigned char back[ROOM];
        pp_npy_info info;
        pp_error err = {0};
        cr_assert_eq(pp_files_save(archives[i], three, 3, NULL, &err), PPTO_OK, "%s", err.text);
        snprintf(text, sizeof text, "%s:a", archives[i]);
        cr_expect_eq(read_array(text, &info, back, &err), PPTO_OK, "%s", err.text);
        cr_expect(info.rank == 2 && memcmp(back, a, sizeof a) == 0);
        snprintf(text, sizeof text, "%s:b", archives[i]);
        cr_expect_eq(read_array(text, &info, back, &err), PPTO_OK, "%s", err.text);
        cr_expect(info.rank == 1 && memcmp(back, b, sizeof b) == 0);
        snprintf(text, sizeof text, "%s:empty", archives[i]);
        cr_expect_eq(read_array(text, &info, back, &err), PPTO_OK, "%s", err.text);
        cr_expect(info.count == 0 && info.shape[1] == 5);
        expect(archives[i], PPTO_E_FORMAT, "3 arrays, say which by :NAME; there are: ");
        snprintf(text, sizeof text, "%s:c", archives[i]);
        expect(text, PPTO_E_FORMAT, "no array c in it; there are: ");
        snprintf(text, sizeof text, "%s:", archives[i]);
        expect(text, PPTO_E_VALUE, "must follow the :");
    }
    expect("none.npz:a", PPTO_E_IO, "No such file");
}

Test(files_formats, the_same_arrays_give_the_same_bytes_and_names_are_made_up)
{
    for (size_t i = 0; i < ARCHIVES; i++) {
        unsigned char one[ROOM], two[ROOM], back[ROOM];
        char text[64];
        pp_npy_info info;
        pp_error err = {0};
        const pp_files_entry nameless[] = {{NULL, PPTO_U8, 1, shape_of_b, b},
                                           {NULL, PPTO_F32, 2, shape_of_a, a}};
        cr_assert_eq(pp_files_save(archives[i], nameless, 2, NULL, NULL), PPTO_OK);
        size_t n = get(archives[i], one);
        cr_assert_eq(pp_files_save(archives[i], nameless, 2, NULL, NULL), PPTO_OK);
        cr_expect(get(archives[i], two) == n && memcmp(one, two, n) == 0);
        snprintf(text, sizeof text, "%s:arr_1", archives[i]);
        cr_expect_eq(read_array(text, &info, back, &err), PPTO_OK, "%s", err.text);
        cr_expect_eq(memcmp(back, a, sizeof a), 0);
    }
}

Test(files_formats, what_cannot_be_written_leaves_the_old_file)
{
    const pp_files_entry twice[] = {three[0], three[0]};
    pp_error err = {0};
    for (size_t i = 0; i < ARCHIVES; i++) {
        put(archives[i], "old", 3);
        cr_expect_eq(pp_files_save(archives[i], twice, 2, NULL, &err), PPTO_E_VALUE);
        cr_expect(strstr(err.text, "two arrays have the name b"), "%s", err.text);
        pp_error_clear(&err);
        unsigned char old[ROOM];
        cr_expect_eq(get(archives[i], old), 3);
    }
    cr_expect_eq(pp_files_save("a.npy", three, 3, NULL, &err), PPTO_E_VALUE);
    cr_expect_eq(pp_files_save("a.npz:x", three, 3, NULL, NULL), PPTO_E_VALUE);
    cr_expect_eq(pp_files_save("/nowhere/a.npz", three, 3, NULL, NULL), PPTO_E_IO);
    cr_expect_neq(access("a.npy", F_OK), 0);
}

/* Names that no reader would find, or find twice: refused before anything is written, and when bound. */
Test(files_formats, names_that_cannot_be_read_back_are_refused)
{
    static char longest[65532 + 1];
    memset(longest, 'n', sizeof longest - 1);
    const struct {
        const char *path, *name, *words;
    } cases[] = {{"a.npz", "", "is empty"},
                 {"a.safetensors", "", "is empty"},
                 {"a.npz", "k\xff", "no UTF-8"},
                 {"a.safetensors", "k\xff", "no UTF-8"},
                 {"a.safetensors", "__metadata__", "can have the name __metadata__"},
                 {"a.npz", "../../evil", "would write elsewhere"},
                 {"a.npz", "/evil", "would write elsewhere"},
                 {"a.npz", "k/..", "would write elsewhere"},
                 {"a.npz", longest, "more than 65531 bytes"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pp_files_entry entry = {cases[i].name, PPTO_U8, 1, shape_of_b, b};
        static char text[sizeof longest + 32];
        pp_error err = {0};
        cr_expect_eq(pp_files_save(cases[i].path, &entry, 1, NULL, &err), PPTO_E_VALUE);
        cr_expect(strstr(err.text, cases[i].words), "%zu: %s", i, err.text);
        cr_expect_neq(access(cases[i].path, F_OK), 0);
        snprintf(text, sizeof text, "%s:%s", cases[i].path, cases[i].name);
        cr_expect(*cases[i].name == '\0' || pp_files_can_write(text, NULL) == PPTO_E_VALUE, "%zu", i);
    }
    longest[65531] = '\0';
    const pp_files_entry fits = {longest, PPTO_U8, 1, shape_of_b, b};
    cr_expect_eq(pp_files_save("a.npz", &fits, 1, NULL, NULL), PPTO_OK);
    expect("a.npz", PPTO_OK, "");
}

Test(files_formats, a_name_that_is_made_up_counts_as_one)
{
    const pp_files_entry both[] = {{"arr_1", PPTO_U8, 1, shape_of_b, b}, {NULL, PPTO_U8, 1, shape_of_b, b}};
    for (size_t i = 0; i < ARCHIVES; i++) {
        pp_error err = {0};
        cr_expect_eq(pp_files_save(archives[i], both, 2, NULL, &err), PPTO_E_VALUE);
        cr_expect(strstr(err.text, "two arrays have the name arr_1"), "%s", err.text);
    }
}

static ppto_status stop(PP_UNUSED const void *arg, pp_error *err)
{
    return pp_fail(err, PPTO_E_CANCELLED, "enough");
}

Test(files_formats, a_watch_ends_the_writing_of_an_archive)
{
    const pp_files_watch watch = {.stopped = stop};
    for (size_t i = 0; i < ARCHIVES; i++) {
        pp_error err = {0};
        cr_expect_eq(pp_files_save(archives[i], three, 3, &watch, &err), PPTO_E_CANCELLED, "%s", err.text);
        cr_expect_neq(access(archives[i], F_OK), 0);
    }
}

/* No beginning of a file is a file. */
Test(files_formats, no_prefix_is_an_archive)
{
    for (size_t i = 0; i < ARCHIVES; i++) {
        unsigned char file[ROOM], back[ROOM];
        pp_npy_info info;
        pp_error err = {0};
        cr_assert_eq(pp_files_save(archives[i], &three[1], 1, NULL, NULL), PPTO_OK);
        size_t n = get(archives[i], file);
        for (size_t k = 0; k <= n + 1; k++) {
            put(archives[i], file, k);
            ppto_status wanted = k == n ? PPTO_OK : PPTO_E_FORMAT;
            cr_expect_eq(read_array(archives[i], &info, back, &err), wanted, "%s, %zu bytes: %s", archives[i],
                         k, err.text);
            cr_expect(k == n || err.text[0] != '\0');
        }
    }
}

static bool is_refusal(ppto_status status)
{
    return status == PPTO_E_FORMAT || status == PPTO_E_DTYPE || status == PPTO_E_LIMIT ||
           status == PPTO_E_VALUE;
}

/* packed: the data have a checksum, so what is accepted is right. */
static void change_every_byte(const char *path, bool packed)
{
    unsigned char file[ROOM], back[ROOM];
    pp_npy_info info;
    size_t n = get(path, file);
    for (size_t k = 0; k < n; k++)
        for (int value = 0; value < 256; value += k < 64 || value % 16 == 15 ? 1 : 5) {
            unsigned char old = file[k];
            pp_error err = {0};
            file[k] = (unsigned char)value;
            put(path, file, n);
            ppto_status status = read_array(path, &info, back, &err);
            cr_expect(status == PPTO_OK ||
                          (is_refusal(status) && (err.text[0] != '\0' || status == PPTO_E_LIMIT)),
                      "%s, byte %zu is %d: %d %s", path, k, value, status, err.text);
            if (status == PPTO_OK && packed)
                cr_expect(info.bytes == sizeof a && memcmp(back, a, sizeof a) == 0, "byte %zu is %d", k,
                          value);
            file[k] = old;
        }
}

Test(files_formats, npz_survives_every_single_byte_change)
{
    cr_assert_eq(pp_files_save("a.npz", &three[1], 1, NULL, NULL), PPTO_OK);
    change_every_byte("a.npz", true);
}

Test(files_formats, safetensors_survives_every_single_byte_change)
{
    cr_assert_eq(pp_files_save("a.safetensors", &three[1], 1, NULL, NULL), PPTO_OK);
    change_every_byte("a.safetensors", false);
}

Test(files_formats, archives_are_not_read_from_pipes)
{
    cr_assert_eq(mkfifo("p.npz", 0600), 0);
    if (fork() == 0) _exit(open("p.npz", O_WRONLY) < 0);
    expect("p.npz", PPTO_E_FORMAT, "pipe");
    put("empty.safetensors", "", 0);
    expect("empty.safetensors", PPTO_E_FORMAT, "empty");
}

/* ---- NPZ ------------------------------------------------------------------------------------------------
 */

static bool has_numpy(void)
{
    return system("${PPTO_PYTHON:-python3} -c 'import numpy' 2>/dev/null") == 0;
}

Test(files_formats, npz_agrees_with_numpy)
{
    if (!has_numpy()) cr_skip_test("there is no NumPy");
    unsigned char back[ROOM];
    pp_npy_info info;
    pp_error err = {0};
    cr_assert_eq(
        system(
            "${PPTO_PYTHON:-python3} -c \"import numpy as np; x = np.arange(12, dtype='f4').reshape(3, 4); "
            "np.savez('s.npz', x=x, t=x.T); np.savez_compressed('c.npz', x=x, big=x.astype('>f8'))\""),
        0);
    static const char *const texts[] = {"s.npz:x", "c.npz:x"};
    for (size_t i = 0; i < 2; i++) {
        cr_expect_eq(read_array(texts[i], &info, back, &err), PPTO_OK, "%s: %s", texts[i], err.text);
        for (int k = 0; k < 12; k++) cr_expect_eq(((float *)(void *)back)[k], (float)k);
    }
    cr_expect_eq(read_array("s.npz:t", &info, back, &err), PPTO_OK);
    cr_expect(info.shape[0] == 4 && ((float *)(void *)back)[1] == 4);
    cr_expect_eq(read_array("c.npz:big", &info, back, &err), PPTO_OK);
    cr_expect_eq(((double *)(void *)back)[11], 11);
    cr_assert_eq(pp_files_save("ours.npz", three, 3, NULL, NULL), PPTO_OK);
    cr_expect_eq(system("${PPTO_PYTHON:-python3} -c \"import numpy as np; d = np.load('ours.npz'); "
                        "assert d.files == ['b', 'a', 'empty'] and d['a'].tolist() == [[1, 2], [3, 4]] and "
                        "d['empty'].shape == (0, 5)\""),
                 0);
}

/* A few bytes that say they are a terabyte. */
Test(files_formats, npz_that_claims_too_much_costs_nothing)
{
    unsigned char file[ROOM];
    cr_assert_eq(pp_files_save("a.npz", &three[1], 1, NULL, NULL), PPTO_OK);
    size_t n = get("a.npz", file), found = 0;
    for (size_t k = 0; k + 30 < n; k++) { /* sizes of the local and of the central header */
        if (memcmp(file + k, "PK\3\4", 4) == 0) memset(file + k + 22, 0x7f, 4), found++;
        if (memcmp(file + k, "PK\1\2", 4) == 0) memset(file + k + 24, 0x7f, 4), found++;
    }
    cr_assert_eq(found, 2);
    put("a.npz", file, n);
    expect("a.npz", PPTO_E_FORMAT, "");
}

/* ---- safetensors ----------------------------------------------------------------------------------------
 */

static void put_safetensors(const char *header, size_t data)
{
    unsigned char file[ROOM] = {0};
    size_t n = strlen(header);
    file[0] = (unsigned char)(n & 255);
    file[1] = (unsigned char)(n >> 8);
    memcpy(file + 8, header, n);
    put("t.safetensors", file, 8 + n + data);
}

Test(files_formats, safetensors_of_others_are_read)
{
    put_safetensors("{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_"
                    "offsets\":[4,12]},"
                    "\"h\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[0,4]}}   ",
                    12);
    expect("t.safetensors:w", PPTO_OK, "");
    expect("t.safetensors:h", PPTO_E_DTYPE, "BF16, which is not supported");
    expect("t.safetensors", PPTO_E_FORMAT, "2 arrays, say which by :NAME; there are: h, w");
    put_safetensors("{}", 0);
    expect("t.safetensors", PPTO_E_FORMAT, "it holds no array");
}

Test(files_formats, safetensors_that_lie_are_refused)
{
    static const char *const headers[][2] = {
        {"", "begins with no {"},
        {" {}", "begins with no {"},
        {"[1]", "begins with no {"},
        {"{", "malformed"},
        {"{\"x\":1}", "array x: no dtype"},
        {"{\"x\":{\"dtype\":\"F32\"}}", "no shape"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1,-1],\"data_offsets\":[0,4]}}", "no shape"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1.5],\"data_offsets\":[0,4]}}", "no shape"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}",
         "no shape"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}", "no two data_offsets"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", "no two data_offsets"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", "no two data_offsets"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,3]}}", "do not agree"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[0,4611686018427387904],\"data_offsets\":[0,0]}}",
         "the product of its shape overflows"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "behind the end"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905],\"data_offsets\":[0,4]}}",
         "the product of its shape overflows"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,0],\"data_offsets\":[0,4]}}",
         "the product of its shape overflows"},
        {"{\"x\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", "malformed"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", "bytes follow the last array"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[2,4]}}", "do not follow"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"y\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[3,4]}}",
         "do not follow"},
        {"{\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
         "\"x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
         "duplicate"},
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        put_safetensors(headers[i][0], 4);
        expect("t.safetensors", PPTO_E_FORMAT, headers[i][1]);
    }
    put("t.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    expect("t.safetensors", PPTO_E_FORMAT, "longer than 100 MB");
    put("t.safetensors", "\x10\0\0\0\0\0\0\0{}", 10);
    expect("t.safetensors", PPTO_E_FORMAT, "cut off");
}

/* Brackets in brackets: jansson has a limit, and says so. */
Test(files_formats, safetensors_of_great_depth_are_refused)
{
    enum { DEPTH = 100000 };
    char *file = malloc(DEPTH + 16);
    uint64_t n = DEPTH;
    for (int i = 0; i < 8; i++) file[i] = (char)(n >> (8 * i));
    memset(file + 8, '[', DEPTH);
    memcpy(file + 8, "{\"x\":", 5);
    put("t.safetensors", file, DEPTH + 8);
    expect("t.safetensors", PPTO_E_FORMAT, "depth");
    free(file);
}
