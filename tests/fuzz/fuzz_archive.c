/* SPDX-License-Identifier: Apache-2.0
 * Fuzzer of the archives: any bytes, as an NPZ and as a safetensors file. What is accepted must be
 * consistent, and read as it says. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "files/formats.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void must(bool holds)
{
    if (!holds) abort();
}

enum { MOST = 1 << 24 }; /* bytes unpacked */

static void check(ppto_status status, const pp_npy_info *info)
{
    if (status != PPTO_OK) return;
    must(info->rank >= 0 && info->rank <= PPTO_MAX_RANK && info->count >= 0);
    must(info->bytes == (size_t)info->count * ppto_dtype_size(info->dtype));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    int fd = memfd_create("archive", 0);
    must(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    const pp_source source = {.fd = fd, .size = (int64_t)n};
    pp_npy_info info;
    pp_error err = {0};
    pp_npz *npz;
    int64_t at;
    ppto_status status = pp_npz_open(&source, NULL, &npz, &info, &err);
    check(status, &info);
    if (status == PPTO_OK && info.bytes <= MOST) {
        void *data = malloc(info.bytes + 1);
        (void)pp_npz_read(npz, &info, data, NULL, &err);
        free(data);
    }
    pp_npz_close(npz);
    pp_error_clear(&err);
    status = pp_safetensors_find(&source, NULL, &info, &at, &err);
    check(status, &info);
    if (status == PPTO_OK) must(at >= 8 && at + (int64_t)info.bytes <= (int64_t)n);
    close(fd);
    return 0;
}
