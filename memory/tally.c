/* SPDX-License-Identifier: Apache-2.0
 * A block is found by its address when it comes back: callers give bytes and address, no name. Open
 * addressing, linear probing; a removal moves what comes behind back, as in ledger_table.c. */
#include "memory/tally.h"

#include <string.h>

enum { MOST_ROWS = 512, FIRST_SLOTS = 64 };

/* ---- rows by name ------------------------------------------------------------------------------ */

static uint32_t add_row(pp_tally *t, const char *name)
{
    if (t->rows.n >= MOST_ROWS || pp_vec_reserve(&t->rows, t->rows.n + 1) != PPTO_OK) return 0;
    pp_tally_row row = {.operator_name = pp_arena_strndup(&t->arena, name, strlen(name))};
    if (row.operator_name == NULL) return 0;
    t->rows.at[t->rows.n] = row;
    return (uint32_t)t->rows.n++;
}

static uint32_t search(pp_tally *t, const char *name)
{
    for (uint32_t i = 1; i < t->rows.n; i++)
        if (strcmp(t->rows.at[i].operator_name, name) == 0) return i;
    return add_row(t, name);
}

/* The address of a name says where to look first; what is found there is compared as a text all the same. */
static uint32_t row_of(pp_tally *t, const char *name)
{
    uint32_t *recent = &t->recent[pp_hash_mix((uintptr_t)name, 0) % PP_TALLY_RECENT];
    if (*recent == 0 || strcmp(t->rows.at[*recent].operator_name, name) != 0) *recent = search(t, name);
    return *recent;
}

/* ---- blocks by address ------------------------------------------------------------------------- */

static size_t home_of(const pp_tally *t, const void *at)
{
    return (size_t)(((uint64_t)(uintptr_t)at >> 6) * 0x9e3779b97f4a7c15u >> 32) & (t->cap - 1);
}

static size_t find(const pp_tally *t, const void *at)
{
    size_t i = home_of(t, at);
    while (t->slots[i].at != NULL && t->slots[i].at != at) i = (i + 1) & (t->cap - 1);
    return i;
}

static bool grow(pp_tally *t)
{
    pp_tally larger = {.cap = t->cap == 0 ? FIRST_SLOTS : t->cap * 2};
    larger.slots = pp_calloc(larger.cap, sizeof *larger.slots);
    if (larger.slots == NULL) return false;
    for (size_t i = 0; i < t->cap; i++)
        if (t->slots[i].at != NULL) larger.slots[find(&larger, t->slots[i].at)] = t->slots[i];
    pp_free(t->slots);
    t->slots = larger.slots;
    t->cap = larger.cap;
    return true;
}

static void remove_slot(pp_tally *t, size_t hole)
{
    for (size_t i = (hole + 1) & (t->cap - 1); t->slots[i].at != NULL; i = (i + 1) & (t->cap - 1)) {
        size_t home = home_of(t, t->slots[i].at);
        if (((i - home) & (t->cap - 1)) < ((i - hole) & (t->cap - 1)))
            continue; /* it is nearer to home there */
        t->slots[hole] = t->slots[i];
        hole = i;
    }
    t->slots[hole].at = NULL;
    t->n--;
}

/* ---- interface --------------------------------------------------------------------------------- */

void pp_tally_took(pp_tally *t, const void *block, uint64_t bytes, const pp_tag *tag)
{
    static const pp_tally_row others = {.operator_name = "others"};
    if (t->rows.n == 0 && pp_vec_push(&t->rows, others) != PPTO_OK) return;
    if (t->n * 3 >= t->cap * 2 && !grow(t)) return;
    const char *name = tag == NULL                  ? pp_block_kind_name(PP_BLOCK_OTHER)
                       : tag->operator_name != NULL ? tag->operator_name
                                                    : pp_block_kind_name(tag->kind);
    uint32_t number = row_of(t, name);
    pp_tally_row *row = &t->rows.at[number];
    t->slots[find(t, block)] = (pp_tally_slot){block, number};
    t->n++;
    row->blocks++;
    row->current_bytes += bytes;
    if (row->current_bytes > row->peak_bytes) row->peak_bytes = row->current_bytes;
}

void pp_tally_gave(pp_tally *t, const void *block, uint64_t bytes)
{
    size_t at = t->n == 0 ? 0 : find(t, block);
    if (t->n == 0 || t->slots[at].at == NULL) return;
    pp_tally_row *row = &t->rows.at[t->slots[at].row];
    row->blocks--;
    row->current_bytes -= bytes;
    remove_slot(t, at);
}

size_t pp_tally_most(const pp_tally *t, pp_tally_row *out, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < t->rows.n; i++) {
        const pp_tally_row *row = &t->rows.at[i];
        size_t at = n;
        while (at > 0 && out[at - 1].current_bytes < row->current_bytes) at--;
        if (row->current_bytes == 0 || at >= most) continue;
        if (n < most) n++;
        memmove(out + at + 1, out + at, (n - 1 - at) * sizeof *out);
        out[at] = *row;
    }
    return n;
}

void pp_tally_free(pp_tally *t)
{
    pp_vec_free(&t->rows);
    pp_free(t->slots);
    pp_arena_free(&t->arena);
    *t = (pp_tally){0};
}
