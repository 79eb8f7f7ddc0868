/* SPDX-License-Identifier: Apache-2.0
 * A program without the library: it calls the C that `ppto explain --stage source` printed for
 * `softmax(x * t)` of x: f32[N, 512], on raw rows from standard input to standard output (export.sh, and
 * docs/export.md). What every slot, tensor and arg is, the comment before the kernel tells. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 100, COLUMNS = 512 };

void kernel_0(const int64_t *slot, void *const *data, const int64_t *const *stride, const uint64_t *arg,
              int64_t *failed);

static float x[ROWS * COLUMNS], y[ROWS * COLUMNS];

static uint64_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

int main(void)
{
    const int64_t slot[] = {0, 1, -1, ROWS, COLUMNS};
    const int64_t rows[] = {COLUMNS, 1}; /* strides count elements */
    void *const data[] = {x, y};
    const int64_t *const stride[] = {rows, rows};
    const uint64_t arg[] = {bits_of(0.5f), bits_of(1)}; /* t, and a literal */
    int64_t failed[3] = {INT64_MAX, 0, 0};
    if (fread(x, sizeof x, 1, stdin) != 1) return 1;
    kernel_0(slot, data, stride, arg, failed);
    if (failed[0] != INT64_MAX) return 1; /* no memory, or a check of an operator */
    return fwrite(y, sizeof y, 1, stdout) == 1 ? 0 : 1;
}
