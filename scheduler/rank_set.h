/* SPDX-License-Identifier: Apache-2.0
 * A set of small numbers with the least one at hand: a bit for each number, and above that a bit for each
 * word that is not empty, and so on up to one word. Adding, removing and finding take a few instructions,
 * whatever is in it: a heap of ten thousand steps would cost more than some of them. */
#ifndef PP_RANK_SET_H
#define PP_RANK_SET_H

#include <string.h>

#include "base/base.h"

enum { PP_RANK_LEVELS = 6 }; /* 64 to the 6th */

typedef struct pp_rank_set {
    uint64_t *word[PP_RANK_LEVELS]; /* level 0: the numbers; one block */
    size_t n_words;                 /* of all levels */
    uint32_t levels, n;             /* n: how many are in it */
} pp_rank_set;

/* Room for 0 to n - 1, empty. E_NOMEM */
static inline ppto_status pp_rank_set_make(pp_rank_set *set, uint32_t n)
{
    size_t at[PP_RANK_LEVELS] = {0}, words = n;
    *set = (pp_rank_set){.levels = 0};
    do {
        words = words / 64 + 1;
        at[set->levels++] = set->n_words;
        set->n_words += words;
    } while (words > 1);
    uint64_t *block = pp_calloc(set->n_words, sizeof *block);
    if (block == NULL) return PPTO_E_NOMEM;
    for (uint32_t l = 0; l < set->levels; l++) set->word[l] = block + at[l];
    return PPTO_OK;
}

static inline void pp_rank_set_free(pp_rank_set *set)
{
    pp_free(set->word[0]);
}

static inline void pp_rank_set_clear(pp_rank_set *set)
{
    memset(set->word[0], 0, set->n_words * sizeof *set->word[0]);
    set->n = 0;
}

/* Of the same room. */
static inline void pp_rank_set_copy(pp_rank_set *set, const pp_rank_set *from)
{
    memcpy(set->word[0], from->word[0], set->n_words * sizeof *set->word[0]);
    set->n = from->n;
}

static inline bool pp_rank_set_has(const pp_rank_set *set, uint32_t number)
{
    return (set->word[0][number / 64] >> number % 64 & 1) != 0;
}

/* number is not in it. */
static inline void pp_rank_set_add(pp_rank_set *set, uint32_t number)
{
    bool was_empty = true;
    for (uint32_t l = 0; l < set->levels && was_empty; l++, number /= 64) {
        uint64_t *word = &set->word[l][number / 64];
        was_empty = *word == 0;
        *word |= (uint64_t)1 << number % 64;
    }
    set->n++;
}

/* number is in it. */
static inline void pp_rank_set_remove(pp_rank_set *set, uint32_t number)
{
    bool is_empty = true;
    for (uint32_t l = 0; l < set->levels && is_empty; l++, number /= 64) {
        uint64_t *word = &set->word[l][number / 64];
        *word &= ~((uint64_t)1 << number % 64);
        is_empty = *word == 0;
    }
    set->n--;
}

/* The least of word `at` of level l and what lies below it. */
static inline uint32_t pp_rank_set_below(const pp_rank_set *set, uint32_t l, uint32_t at, uint64_t word)
{
    for (;;) {
        at = at * 64 + (uint32_t)__builtin_ctzll(word);
        if (l == 0) return at;
        word = set->word[--l][at];
    }
}

/* Of a set that is not empty. */
static inline uint32_t pp_rank_set_least(const pp_rank_set *set)
{
    uint32_t top = set->levels - 1;
    return pp_rank_set_below(set, top, 0, set->word[top][0]);
}

/* The least that is not below `from`, or where there is none the least. Of a set that is not empty. */
static inline uint32_t pp_rank_set_next(const pp_rank_set *set, uint32_t from)
{
    for (uint32_t l = 0; l < set->levels; l++, from = from / 64 + 1) {
        uint64_t word = set->word[l][from / 64] & ~(uint64_t)0 << from % 64;
        if (word != 0) return pp_rank_set_below(set, l, from / 64, word);
    }
    return pp_rank_set_least(set);
}

#endif
