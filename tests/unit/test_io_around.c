/* SPDX-License-Identifier: Apache-2.0
 * Around the page cache (scheduler/io_around.c): the same bytes, wherever ranges begin and end in blocks,
 * whether the system has the file in its cache or not, and whether it can go around at all. The files lie in
 * the folder of the test, which is on a disk mostly. */
#define _GNU_SOURCE
#include <fcntl.h>

#include "io_wait.h"
#include "scheduler/io_engine.h"

/* Bytes that lie in blocks of memory as they lie in a file at an offset, with room before and behind. */
static unsigned char *lying_as(unsigned char **block, size_t n, int64_t offset)
{
    cr_assert_eq(posix_memalign((void **)block, PP_IO_BLOCK, n + 2 * PP_IO_BLOCK), 0);
    memset(*block, 0xee, n + 2 * PP_IO_BLOCK);
    return *block + offset % PP_IO_BLOCK;
}

static int on_disk(void)
{
    int fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    return fd >= 0 ? fd : temporary();
}

static void cool(int fd)
{
    cr_assert_eq(fsync(fd), 0);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* Writes n bytes at the offset, and reads them back: from the cache, from the disk, with a part in the cache.
 */
static void goes_and_comes(pp_io *io, int fd, size_t n, int64_t offset)
{
    unsigned char *block, *back, *bytes = pattern(n, (unsigned)n), *data = lying_as(&block, n, offset);
    memcpy(data, bytes, n);
    pp_io_request ask = {.op = PP_IO_WRITE, .offset = offset, .data = data, .bytes = n};
    for (int turn = 0; turn < 4; turn++) {
        pp_io_file file = {.fd = fd};
        pp_io_file_go_around(&file, turn == 0);
        ask.file = &file;
        if (turn == 2) cool(fd);
        if (turn == 3) cr_assert_gt(pread(fd, block, n < 9000 ? n : 9000, offset), 0);
        if (turn > 0) memset(data, 0, n);
        pp_io_request got = once(io, ask);
        cr_expect(got.status == PPTO_OK && got.moved == n, "%s, turn %d: %zu at %ld", engine, turn, n,
                  (long)offset);
        cr_expect_eq(memcmp(data, bytes, n), 0, "%s, turn %d: %zu at %ld", engine, turn, n, (long)offset);
        ask.op = PP_IO_READ;
        pp_io_file_let_go(&file);
    }
    back = calloc(n + 1, 1);
    cr_assert_eq((size_t)pread(fd, back, n, offset), n);
    cr_expect_eq(memcmp(back, bytes, n), 0, "%s: %zu at %ld", engine, n, (long)offset);
    free(back);
    free(block);
    free(bytes);
}

Test(io_around, moves_ranges_that_begin_and_end_anywhere)
{
    static const size_t sizes[] = {1, 128, 4095, 4096, 4097, 3 << 20, (9 << 20) + 77};
    static const int64_t offsets[] = {0, 1, 128, 4096, 8191, (4 << 20) - 64};
    const char *name;
    EACH_ENGINE(name)
    for (int disk = 0; disk < 2; disk++) {
        pp_io *io = engine_of(name, (pp_io_options){0});
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t k = 0; k < sizeof offsets / sizeof *offsets; k++) {
                int fd = disk ? on_disk() : temporary();
                goes_and_comes(io, fd, sizes[i], offsets[k]);
                close(fd);
            }
        pp_io_destroy(io);
    }
}

/* Memory that does not lie as the file does goes through the cache, and nothing beside it is touched. */
Test(io_around, takes_memory_that_lies_otherwise)
{
    enum { BYTES = 100000 };
    unsigned char *block, *bytes = pattern(BYTES, 5);
    const char *name;
    EACH_ENGINE(name)
    {
        pp_io *io = engine_of(name, (pp_io_options){0});
        pp_io_file file = {.fd = on_disk()};
        cr_assert_eq(write(file.fd, bytes, BYTES), BYTES);
        cool(file.fd);
        pp_io_file_go_around(&file, false);
        unsigned char *data = lying_as(&block, BYTES, 64);
        pp_io_request got =
            once(io, (pp_io_request){.op = PP_IO_READ, .file = &file, .data = data, .bytes = BYTES - 1});
        cr_expect_eq(got.status, PPTO_OK, "%s", name);
        cr_expect(memcmp(data, bytes, BYTES - 1) == 0 && data[-1] == 0xee && data[BYTES - 1] == 0xee, "%s",
                  name);
        pp_io_file_let_go(&file);
        close(file.fd);
        free(block);
        pp_io_destroy(io);
    }
    free(bytes);
}

Test(io_around, says_where_a_file_ends)
{
    enum { BYTES = 3 * PP_IO_BLOCK + 100 };
    unsigned char *block, *bytes = pattern(BYTES, 7), *data = lying_as(&block, 9 * PP_IO_BLOCK, 128);
    const char *name;
    EACH_ENGINE(name)
    {
        pp_io *io = engine_of(name, (pp_io_options){0});
        pp_io_file file = {.fd = on_disk()};
        cr_assert_eq(write(file.fd, bytes, BYTES), BYTES);
        cool(file.fd);
        pp_io_file_go_around(&file, false);
        pp_io_request ask = {.op = PP_IO_READ,
                             .file = &file,
                             .offset = 128,
                             .data = data,
                             .bytes = 8 * PP_IO_BLOCK,
                             .may_end = true};
        pp_io_request got = once(io, ask);
        cr_expect(got.status == PPTO_OK && got.moved == BYTES - 128, "%s: %zu", name, got.moved);
        cr_expect_eq(memcmp(data, bytes + 128, BYTES - 128), 0, "%s", name);
        ask.may_end = false;
        expect_failure(io, ask, PPTO_E_FORMAT, "the file ends at byte 12388, 32896 were expected");
        pp_io_file_let_go(&file);
        close(file.fd);
        pp_io_destroy(io);
    }
    free(block);
    free(bytes);
}

/* No clock: what a call took is given. */
Test(io_around, asks_a_slow_disk_for_less_at_a_time)
{
    enum { QUICK = 1000000, SLOW = 50000000, MIB = 1 << 20 };
    size_t step = MIB;
    for (int i = 0; i < 9; i++) step = pp_io_around_next(step, step, QUICK);
    cr_expect_eq(step, 4 * MIB);
    cr_expect_eq(pp_io_around_next(step, step, (QUICK + SLOW) / 5), step);
    for (int i = 0; i < 9; i++) step = pp_io_around_next(step, step, SLOW);
    cr_expect_eq(step, MIB / 4);
    cr_expect_eq(pp_io_around_next(step, step / 2, QUICK), step); /* a short call says nothing */
}
