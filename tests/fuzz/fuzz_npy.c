/* SPDX-License-Identifier: Apache-2.0
 * Fuzzer of the NPY reader: any bytes, as a file. What is accepted must be consistent and survive a round
 * trip. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool holds)
{
    if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    int fd = memfd_create("npy", 0);
    must(fd >= 0 && write(fd, bytes, n) == (ssize_t)n && lseek(fd, 0, SEEK_SET) == 0);
    pp_npy_info info, copy;
    pp_error err = {0};
    if (pp_npy_read_header(fd, &info, &err) == PPTO_OK) {
        must(info.bytes <= n);
        unsigned char *data = malloc(info.bytes + 1), *back = malloc(info.bytes + 1);
        must(pp_npy_read_data(fd, &info, data, NULL, &err) == PPTO_OK);
        must(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
        must(pp_npy_write(fd, info.dtype, info.rank, info.shape, data, NULL, &err) == PPTO_OK);
        must(lseek(fd, 0, SEEK_SET) == 0 && pp_npy_read_header(fd, &copy, &err) == PPTO_OK);
        must(pp_npy_read_data(fd, &copy, back, NULL, &err) == PPTO_OK);
        must(copy.bytes == info.bytes && memcmp(data, back, info.bytes) == 0);
        free(data);
        free(back);
    } else {
        must(err.code != PPTO_OK && err.text[0] != '\0');
    }
    close(fd);
    return 0;
}
