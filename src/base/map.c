/* SPDX-License-Identifier: Apache-2.0
 * Hash map from a 64-bit hash to a 32-bit value; the caller compares keys.
 *
 * Open addressing with linear probing in two parallel arrays, at most two thirds full. Nothing is ever
 * removed alone, so there are no tombstones. Equal hashes may be stored several times (different keys of one
 * hash): find asks the caller about each, in the order of insertion. Not synchronised. */
#include <string.h>

#include "base/base.h"
#include "base/checked.h"

static uint64_t stored(uint64_t hash)
{
    return hash != 0 ? hash : 1;
}

/* The low bits of a caller's hash may be poor: multiply and take high bits. */
static size_t slot_of(uint64_t hash, size_t cap)
{
    return (size_t)((hash * 0x9e3779b97f4a7c15u) >> 32) & (cap - 1);
}

bool pp_map_find(const pp_map *map, uint64_t hash, pp_map_equal equal, const void *context, uint32_t *value)
{
    if (map->n == 0) return false;
    hash = stored(hash);
    for (size_t i = slot_of(hash, map->cap); map->hash[i] != 0; i = (i + 1) & (map->cap - 1)) {
        if (map->hash[i] != hash) continue;
        if (equal != NULL && !equal(context, map->value[i])) continue;
        *value = map->value[i];
        return true;
    }
    return false;
}

static void put(pp_map *map, uint64_t hash, uint32_t value)
{
    size_t i = slot_of(hash, map->cap);
    while (map->hash[i] != 0) i = (i + 1) & (map->cap - 1);
    map->hash[i] = hash;
    map->value[i] = value;
}

static ppto_status grow(pp_map *map)
{
    pp_map larger = {.n = map->n};
    if (map->cap == 0)
        larger.cap = 16;
    else if (!pp_mul_size(map->cap, 2, &larger.cap))
        return PPTO_E_NOMEM;
    larger.hash = pp_calloc(larger.cap, sizeof *larger.hash);
    larger.value = pp_calloc(larger.cap, sizeof *larger.value);
    if (larger.hash == NULL || larger.value == NULL) {
        pp_map_free(&larger);
        return PPTO_E_NOMEM;
    }
    /* Walk from just behind an empty slot, so that entries of one hash keep their order across the wrap. */
    size_t start = 0;
    while (start < map->cap && map->hash[start] != 0) start++;
    for (size_t k = 0; k < map->cap; k++) {
        size_t i = (start + k) & (map->cap - 1);
        if (map->hash[i] != 0) put(&larger, map->hash[i], map->value[i]);
    }
    pp_map_free(map);
    *map = larger;
    return PPTO_OK;
}

ppto_status pp_map_insert(pp_map *map, uint64_t hash, uint32_t value)
{
    if (map->n >= map->cap / 3 * 2) PP_TRY(grow(map));
    put(map, stored(hash), value);
    map->n++;
    return PPTO_OK;
}

void pp_map_clear(pp_map *map)
{
    if (map->n != 0) memset(map->hash, 0, map->cap * sizeof *map->hash);
    map->n = 0;
}

void pp_map_free(pp_map *map)
{
    pp_free(map->hash);
    pp_free(map->value);
    *map = (pp_map){0};
}

/* Eight bytes a step, then the tail and the length. The result depends on the byte order of the machine: it
 * is for tables in memory and caches of this machine, not for exchange. */
uint64_t pp_hash_bytes(const void *bytes, size_t n, uint64_t seed)
{
    const unsigned char *at = bytes;
    uint64_t h = pp_hash_mix(seed, n);
    for (size_t left = n; left != 0;) {
        uint64_t word = 0;
        size_t step = left < sizeof word ? left : sizeof word;
        memcpy(&word, at, step);
        h = pp_hash_mix(h, word);
        at += step;
        left -= step;
    }
    return pp_hash_mix(h, h >> 29);
}
