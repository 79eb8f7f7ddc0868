/* SPDX-License-Identifier: Apache-2.0
 * Blocks from the system (pool_system.h). From 2 MiB up they are aligned to 2 MiB and huge pages are asked
 * for: a mapping that is wider is made, and what hangs over on both sides is given back. */
#define _GNU_SOURCE
#include "memory/pool_system.h"

#include <sys/mman.h>

#include "base/checked.h"
#include "memory/poison.h"

#define HUGE ((size_t)2 << 20)

static void *map_huge(size_t bytes)
{
    size_t wide;
    if (!pp_add_size(bytes, HUGE, &wide)) return NULL;
    char *raw = mmap(NULL, wide, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return NULL;
    size_t before = (HUGE - ((uintptr_t)raw & (HUGE - 1))) & (HUGE - 1);
    char *block = raw + before;
    if (before != 0) munmap(raw, before);
    if (wide - before > bytes) munmap(block + bytes, wide - before - bytes);
    (void)madvise(block, bytes, MADV_HUGEPAGE); /* a wish: refused where huge pages are switched off */
    return block;
}

void *pp_system_take(size_t bytes)
{
    if (bytes < PP_MAPPED_FROM) return pp_alloc_aligned(PP_POOL_ALIGNMENT, bytes);
    if (pp_heap_refuses()) return NULL;
    if (bytes >= HUGE) return map_huge(bytes);
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

void pp_system_give(void *block, size_t bytes)
{
    pp_poison_forget(block, bytes);
    if (bytes < PP_MAPPED_FROM)
        pp_free(block);
    else
        munmap(block, bytes);
}
