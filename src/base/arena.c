/* SPDX-License-Identifier: Apache-2.0
 * Bump allocation, freed as a whole.
 *
 * Blocks form a list; only the head is bumped. A request that does not fit opens a new head, twice as large
 * as the last up to a bound; one larger than that bound gets a block of its own behind the head, so that the
 * room left in the head is not lost. Blocks come zeroed and memory is never handed out twice, so results are
 * zeroed. */
#include <string.h>

#include "base/base.h"
#include "base/checked.h"

enum { ALIGNMENT = 16, FIRST_BLOCK = 2048, LARGEST_BLOCK = 256 * 1024 };

struct pp_arena_block {
    pp_arena_block *next;
    _Alignas(ALIGNMENT) unsigned char bytes[];
};

static pp_arena_block *new_block(size_t bytes)
{
    size_t total;
    if (!pp_add_size(sizeof(pp_arena_block), bytes, &total)) return NULL;
    pp_arena_block *block = pp_alloc_aligned(ALIGNMENT, total);
    if (block != NULL) memset(block, 0, total);
    return block;
}

static void *alloc_behind_head(pp_arena *arena, size_t bytes)
{
    pp_arena_block *block = new_block(bytes);
    if (block == NULL) return NULL;
    block->next = arena->head->next;
    arena->head->next = block;
    return block->bytes;
}

static bool open_head(pp_arena *arena, size_t bytes)
{
    size_t size = arena->size < FIRST_BLOCK / 2 ? FIRST_BLOCK : arena->size * 2;
    if (size > LARGEST_BLOCK) size = LARGEST_BLOCK;
    if (size < bytes) size = bytes;
    pp_arena_block *block = new_block(size);
    if (block == NULL) return false;
    block->next = arena->head;
    arena->head = block;
    arena->used = 0;
    arena->size = size;
    return true;
}

void *pp_arena_alloc(pp_arena *arena, size_t bytes)
{
    size_t rounded;
    if (!pp_align_size(bytes != 0 ? bytes : 1, ALIGNMENT, &rounded)) return NULL;
    if (arena->head == NULL || rounded > arena->size - arena->used) {
        if (arena->head != NULL && rounded > LARGEST_BLOCK / 4) return alloc_behind_head(arena, rounded);
        if (!open_head(arena, rounded)) return NULL;
    }
    void *at = arena->head->bytes + arena->used;
    arena->used += rounded;
    return at;
}

void *pp_arena_copy(pp_arena *arena, const void *from, size_t bytes)
{
    void *copy = pp_arena_alloc(arena, bytes);
    if (copy != NULL && bytes != 0) memcpy(copy, from, bytes);
    return copy;
}

char *pp_arena_strndup(pp_arena *arena, const char *text, size_t n)
{
    size_t bytes;
    if (!pp_add_size(n, 1, &bytes)) return NULL;
    char *copy = pp_arena_alloc(arena, bytes);
    if (copy != NULL && n != 0) memcpy(copy, text, n);
    return copy;
}

void pp_arena_free(pp_arena *arena)
{
    pp_arena_block *block = arena->head;
    while (block != NULL) {
        pp_arena_block *next = block->next;
        pp_free(block);
        block = next;
    }
    *arena = (pp_arena){0};
}
