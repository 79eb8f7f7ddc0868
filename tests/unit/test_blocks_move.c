/* SPDX-License-Identifier: Apache-2.0
 * devices/cpu/blocks: the loops that move elements, of every set this CPU has: fills, strided and transposing
 * copies, tables, streaming, masks; sizes around the vectors', unaligned buffers, what lies beside the output
 * watched. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "devices/cpu/blocks.h"
#include "tests/support/block_sets.h"

enum { N = 1003, SLACK = 64 };

/* ---- moves -------------------------------------------------------------------------------------- */

static void fill_random(void *out, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) ((char *)out)[i] = (char)random_bits();
}

Test(blocks_move, fill_and_strided_copies)
{
    static char memory[1 + 2 * N * 24], out[1 + N * 8 + SLACK], back[sizeof memory];
    fill_random(memory, sizeof memory);
    FOR_EACH_SET(set)
    for (size_t size = 1; size <= 8; size *= 2)
        for (int64_t stride = -24; stride <= 24; stride++)
            for (size_t n = 0; n < 75; n++) {
                char *base = memory + 1 + (stride < 0 ? N * 24 : 0), *to = back + (base - memory);
                const bool apart = stride >= (int64_t)size || -stride >= (int64_t)size;
                memset(out, 0x5a, sizeof out);
                set->load_strided(n, out + 1, base, stride, size);
                for (size_t i = 0; i < n; i++)
                    cr_assert_arr_eq(out + 1 + i * size, base + (int64_t)i * stride, size,
                                     "%s load: size %zu stride %d n %zu", set->name, size, (int)stride, n);
                cr_assert_eq(out[1 + n * size], 0x5a);
                if (!apart) continue;
                set->store_strided(n, to, stride, out + 1, size);
                for (size_t i = 0; i < n; i++)
                    cr_assert_arr_eq(out + 1 + i * size, to + (int64_t)i * stride, size,
                                     "%s store: size %zu stride %d n %zu", set->name, size, (int)stride, n);
                set->fill(n, out + 1, base, size);
                for (size_t i = 0; i < n; i++) cr_assert_arr_eq(out + 1 + i * size, base, size);
            }
}

Test(blocks_move, strided_stores_leave_what_lies_between)
{
    static char memory[64 * 20], in[64 * 4];
    fill_random(in, sizeof in);
    FOR_EACH_SET(set)
    {
        memset(memory, 7, sizeof memory);
        set->store_strided(64, memory, 20, in, 4);
        for (size_t i = 0; i < sizeof memory; i++)
            cr_assert_eq(memory[i], i % 20 < 4 ? in[i / 20 * 4 + i % 20] : 7);
    }
}

Test(blocks_move, transposed_tiles)
{
    static char in[70 * 600 + 8], out[70 * (70 * 8 + 5) + 1];
    static const size_t lengths[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 67};
    enum { COUNT = sizeof lengths / sizeof *lengths };
    fill_random(in, sizeof in);
    FOR_EACH_SET(set)
    for (size_t size = 1; size <= 8; size *= 2)
        for (size_t a = 0; a < COUNT; a++)
            for (size_t b = 0; b < COUNT; b++)
                for (int sign = -1; sign <= 1; sign += 2) {
                    const size_t rows = lengths[a], n = lengths[b];
                    const int64_t stride = sign * 600;
                    const char *base = sign < 0 ? in + (n - 1) * 600 + 1 : in + 1;
                    const size_t pitch = n * size + (sign < 0 ? 5 : 0);
                    memset(out, 0x5a, sizeof out);
                    set->load_transposed(rows, n, out + 1, pitch, base, stride, size);
                    for (size_t r = 0; r + 1 < rows && sign < 0; r++)
                        cr_assert_arr_eq(out + 1 + r * pitch + n * size, "ZZZZZ", 5);
                    for (size_t r = 0; r < rows; r++)
                        for (size_t c = 0; c < n; c++)
                            cr_assert(memcmp(out + 1 + r * pitch + c * size,
                                             base + (int64_t)(r * size) + (int64_t)c * stride, size) == 0,
                                      "%s: %zu bytes, %zu rows, %zu columns, at %zu, %zu", set->name, size,
                                      rows, n, r, c);
                }
}

Test(blocks_move, tables_of_every_length)
{
    static uint64_t table[256], out[75];
    static uint32_t idx[75];
    fill_random(table, sizeof table);
    fill_random(idx, sizeof idx);
    FOR_EACH_SET(set)
    for (uint32_t length = 1; length <= 256; length *= 2)
        for (size_t size = 4; size <= 8; size *= 2)
            for (size_t n = 0; n < 75; n++) {
                memset(out, 0x33, sizeof out);
                set->table(n, out, table, length, idx, size);
                for (size_t i = 0; i < n; i++)
                    cr_assert_arr_eq((char *)out + i * size, (char *)table + (idx[i] & (length - 1)) * size,
                                     size, "%s: length %u size %zu n %zu", set->name, length, size, n);
                if (n < 75) cr_assert_eq(((char *)out)[n * size], 0x33);
            }
}

Test(blocks_move, stream_copies_any_bytes)
{
    static char in[700], out[700];
    fill_random(in, sizeof in);
    FOR_EACH_SET(set)
    for (size_t start = 0; start < 66; start++)
        for (size_t bytes = 0; bytes < 400; bytes += 1 + bytes / 7) {
            memset(out, 1, sizeof out);
            set->stream(out + start, in + 3, bytes);
            set->fence();
            cr_assert(memcmp(out + start, in + 3, bytes) == 0 && out[start + bytes] == 1);
            for (size_t i = 0; i < start; i++) cr_assert_eq(out[i], 1);
        }
}

Test(blocks_move, any_finds_one_byte)
{
    static uint8_t mask[300];
    FOR_EACH_SET(set)
    {
        cr_expect_not(set->any(0, mask));
        cr_expect_not(set->any(sizeof mask, mask));
        for (size_t i = 0; i < sizeof mask; i++) {
            mask[i] = 1;
            cr_expect(set->any(sizeof mask, mask) && set->any(i + 1, mask) && !set->any(i, mask));
            mask[i] = 0;
        }
    }
}
