/* SPDX-License-Identifier: Apache-2.0
 * Files without a header: what their names say, round trips, what is refused. */
#define _XOPEN_SOURCE 700
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "files/formats.h"
#include "files/raw.h"

static const int64_t shape[PPTO_MAX_RANK] = {2, 3, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 2};

static void said(const char *text, int64_t size, ppto_status status, const char *words)
{
    pp_npy_info info;
    pp_error err = {0};
    cr_expect_eq(pp_raw_describe(text, size, &info, &err), status, "%s: %s", text ? text : "", err.text);
    cr_expect(strstr(err.text, words) != NULL, "%s: %s", text ? text : "", err.text);
}

Test(files_raw, the_name_says_what_is_in_it)
{
    pp_npy_info info;
    cr_assert_eq(pp_raw_describe("f32[N, 3]", 24, &info, NULL), PPTO_OK);
    cr_expect(info.dtype == PPTO_F32 && info.rank == 2 && info.shape[0] == 2 && info.shape[1] == 3 &&
              info.count == 6 && info.bytes == 24);
    cr_assert_eq(pp_raw_describe("i16[]", 2, &info, NULL), PPTO_OK);
    cr_expect(info.rank == 0 && info.count == 1);
    cr_assert_eq(pp_raw_describe("u8[rows]", 0, &info, NULL), PPTO_OK);
    cr_expect(info.shape[0] == 0 && info.count == 0);
    cr_assert_eq(pp_raw_describe("bool[0,5]", -1, &info, NULL), PPTO_OK);
    cr_expect_eq(info.bytes, 0);
}

Test(files_raw, other_names_are_refused)
{
    said(NULL, 4, PPTO_E_VALUE, "does not say what is in it");
    said("", 4, PPTO_E_DTYPE, "is no dtype");
    said("f33[1]", 4, PPTO_E_DTYPE, "f33 is no dtype (there are bool, i8 to i64");
    said("f32", 4, PPTO_E_VALUE, "sizes are missing");
    said("f32[", 4, PPTO_E_VALUE, "a size was expected");
    said("f32[1", 4, PPTO_E_VALUE, "expected , or ]");
    said("f32[1]x", 4, PPTO_E_VALUE, "x follows the sizes");
    said("f32[-1]", 4, PPTO_E_VALUE, "a size was expected at -1]");
    said("f32[2,N]", 8, PPTO_E_VALUE, "a size was expected at N]");
    said("f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", 4, PPTO_E_VALUE, "16 axes");
    said("f32[99999999999999999999]", 4, PPTO_E_SIZE, "overflows");
    said("f32[4611686018427387904,4]", 4, PPTO_E_SIZE, "overflows");
    said("f64[1152921504606846976]", 4, PPTO_E_SIZE, "overflows");
    said("f32[N,4611686018427387904]", 4, PPTO_E_SIZE, "overflows");
    said("f32[3]", 16, PPTO_E_FORMAT, "it has 16 bytes, f32[3] are 12");
    said("f32[N,3]", 16, PPTO_E_FORMAT, "no multiple of the 12");
    said("f32[N,0]", 0, PPTO_E_FORMAT, "no multiple of the 0");
    said("f32[N]", -1, PPTO_E_VALUE, "of a pipe");
}

Test(files_raw, every_dtype_and_rank_comes_back)
{
    unsigned char data[512], back[512];
    char folder[] = "raw_XXXXXX";
    cr_assert(mkdtemp(folder) && chdir(folder) == 0);
    for (size_t i = 0; i < sizeof data; i++) data[i] = i & 1;
    for (int dtype = 0; dtype <= PPTO_F64; dtype++)
        for (int rank = 0; rank <= PPTO_MAX_RANK; rank += rank < 3 ? 1 : 13) {
            const pp_files_entry entry = {NULL, (ppto_dtype)dtype, rank, shape, data};
            pp_text name = {0};
            pp_reader reader;
            pp_error err = {0};
            pp_text_add(&name, "a.bin:%s[", ppto_dtype_name((ppto_dtype)dtype));
            for (int d = 0; d < rank; d++) pp_text_add(&name, "%s%d", d ? "," : "", (int)shape[d]);
            pp_text_add(&name, "]");
            cr_assert_eq(pp_files_save("a.bin", &entry, 1, NULL, &err), PPTO_OK, "%s", err.text);
            cr_assert_eq(pp_reader_open(&reader, name.at, &err), PPTO_OK, "%s: %s", name.at, err.text);
            cr_assert_eq(pp_reader_read(&reader, back, NULL, &err), PPTO_OK, "%s: %s", name.at, err.text);
            cr_expect(reader.in_place && reader.data_at == 0 && reader.info.rank == rank);
            cr_expect_eq(memcmp(back, data, reader.info.bytes), 0, "%s", name.at);
            pp_reader_close(&reader);
            pp_text_free(&name);
        }
    cr_assert(unlink("a.bin") == 0 && chdir("..") == 0 && rmdir(folder) == 0);
}

Test(files_raw, only_the_result_says_what_is_written)
{
    const float one = 1;
    const pp_files_entry entry = {NULL, PPTO_F32, 0, NULL, &one};
    pp_error err = {0};
    pp_file_name file;
    pp_text head = {0};
    cr_expect_eq(pp_files_save("a.raw:f32[]", &entry, 1, NULL, &err), PPTO_E_VALUE);
    cr_expect(strstr(err.text, ":f32[] has no meaning"), "%s", err.text);
    const pp_files_entry two[] = {entry, entry};
    cr_expect_eq(pp_files_save("a.raw", two, 2, NULL, NULL), PPTO_E_VALUE);
    cr_expect_neq(access("a.raw", F_OK), 0);
    cr_expect(pp_files_by_pieces("a.raw") && pp_files_by_pieces("-:raw") && !pp_files_by_pieces("a.npz"));
    cr_assert_eq(pp_files_head("a.raw", &entry, &file, &head, NULL), PPTO_OK);
    cr_expect_eq(head.n, 0);
    pp_text_free(&head);
    pp_file_name_free(&file);
    cr_expect_eq(pp_files_head("a.raw:x", &entry, &file, &head, NULL), PPTO_E_VALUE);
}
