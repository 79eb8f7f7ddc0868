/* SPDX-License-Identifier: Apache-2.0
 * What tests of block loops share: the loops that this machine has, and bits to feed them. */
#ifndef TEST_BLOCK_SETS_H
#define TEST_BLOCK_SETS_H

#include "base/base.h"
#include "devices/cpu/blocks.h"

static const char *const set_names[] = {"baseline", "avx2", "avx512"};

/* Two of the three are absent on some machines: loops over those that are here. */
#define FOR_EACH_SET(set)                                                                                    \
    for (size_t at_ = 0; at_ < sizeof set_names / sizeof *set_names; at_++)                                  \
        for (const pp_block_set *set = pp_blocks_find(set_names[at_]); set; set = NULL)

/* SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014. The same bits in
 * every run. */
static PP_UNUSED uint64_t random_bits(void)
{
    static PP_UNUSED uint64_t state = 42;
    state += 0x9e3779b97f4a7c15u;
    uint64_t z = (state ^ (state >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
