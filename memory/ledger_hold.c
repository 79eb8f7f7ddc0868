/* SPDX-License-Identifier: Apache-2.0
 * Who holds a block. The hold that a release gives back is not named by its caller. It is taken to be one of
 * the function that releases; so scoped uses cancel out, and what remains is who forgot. Where that does not
 * decide it nothing is guessed (a helper of another file often takes what its caller releases): the block
 * counts how many of its holds are gone, and the report names all that may be left. */
#include <string.h>

#include "memory/ledger_parts.h"

const char *pp_hold_name(pp_hold hold)
{
    static const char *const names[PP_HOLDS] = {"none",        "user_handle",      "binding",
                                                "run_object",  "pending_consumer", "sync_point",
                                                "io_inflight", "plan_cache"};
    return (unsigned)hold < PP_HOLDS ? names[hold] : "none";
}

bool pp_block_holds(const pp_block *block, pp_hold hold)
{
    const pp_hold_row *row = block->holds;
    while (row != NULL && row->kind != hold) row = row->next;
    return row != NULL;
}

void pp_block_add_hold(pp_ledger *l, pp_block *block, pp_hold hold, ppto_site site, uint32_t stack)
{
    uint32_t at = pp_ledger_site(l, site);
    for (pp_hold_row *row = block->holds; row != NULL; row = row->next)
        if (row->kind == hold && row->site == at && row->stack == stack) {
            row->count++;
            return;
        }
    pp_hold_row *row = pp_ledger_hold_row(l);
    if (row == NULL) {
        l->dropped++;
        return;
    }
    *row = (pp_hold_row){.next = block->holds, .site = at, .stack = stack, .count = 1, .kind = (uint8_t)hold};
    block->holds = row;
}

static bool same_text(const char *a, const char *b)
{
    return a != NULL && b != NULL && strcmp(a, b) == 0;
}

/* Was it taken in the function of the site? */
static bool fits(const pp_ledger *l, const pp_hold_row *row, ppto_site site)
{
    const ppto_site *taken = &l->sites.at[row->site];
    return same_text(taken->file, site.file) && same_text(taken->function, site.function);
}

static void free_holds(pp_ledger *l, pp_block *block, pp_hold hold)
{
    for (pp_hold_row **at = &block->holds; *at != NULL;) {
        pp_hold_row *row = *at;
        if (row->kind != hold) {
            at = &row->next;
            continue;
        }
        *at = row->next;
        pp_ledger_free_hold(l, row);
    }
}

/* When all that were taken are gone it does not matter any more which went first. */
static void settle(pp_ledger *l, pp_block *block)
{
    uint32_t taken = 0;
    for (const pp_hold_row *row = block->holds; row != NULL; row = row->next)
        if (row->kind == PP_HOLD_USER) taken += row->count;
    if (block->loose < taken) return;
    free_holds(l, block, PP_HOLD_USER);
    block->loose = 0;
}

/* The latest hold that fits the site, else the latest of the kind, NULL when there is none; *several: there
 * are others, and nothing says which it is. */
static pp_hold_row **find_hold(pp_ledger *l, pp_block *block, pp_hold hold, ppto_site site, bool *several)
{
    pp_hold_row **first = NULL;
    *several = false;
    for (pp_hold_row **at = &block->holds; *at != NULL; at = &(*at)->next) {
        if ((*at)->kind != hold) continue;
        if (fits(l, *at, site)) {
            *several = false;
            return at;
        }
        *several = first != NULL;
        if (first == NULL) first = at;
    }
    return first;
}

void pp_block_drop_hold(pp_ledger *l, pp_block *block, pp_hold hold, ppto_site site)
{
    bool several;
    pp_hold_row **at = find_hold(l, block, hold, site, &several);
    if (at == NULL) return;
    if (hold == PP_HOLD_USER && several) {
        block->loose++; /* any of them may be the one */
    } else if (--(*at)->count == 0) {
        pp_hold_row *row = *at;
        *at = row->next;
        pp_ledger_free_hold(l, row);
    }
    if (block->loose != 0) settle(l, block);
}
