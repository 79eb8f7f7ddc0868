/* SPDX-License-Identifier: Apache-2.0
 * Who holds a block. The hold that a release gives back is not named by its caller. It is taken to be one of
 * the function that releases; so scoped uses cancel out, and what remains is who forgot. Where that does not
 * decide it nothing is guessed (a helper of another file often takes what its caller releases): a row of its
 * own kind keeps how many are gone and where they were given back, and the report names all that may be left.
 *
 * Stacks of calls only ever tell apart what places do not, so level 2 names the places that level 1 does: of
 * the holds of one place it is the one whose taking has most outer calls in common with the release, if one
 * stands out, since both happened within one call of a common caller. Of two places none is chosen that way:
 * who was called later is not who gave back. If the stack of the hold is not known, the row says of which
 * place it was. */
#include <string.h>

#include "memory/ledger_parts.h"

const char *pp_hold_name(pp_hold hold)
{
    static const char *const names[PP_HOLDS] = {
        "none",       "user_handle", "binding",    "run_object", "pending_consumer",
        "sync_point", "io_inflight", "plan_cache", "program",    "given_back"};
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

/* ---- what was given back, nobody knows which -------------------------------------------------------- */

/* Rows of PP_HOLD_GIVEN have in `stack` the place whose holds they are of; 0: of any. */
static bool is_of(const pp_hold_row *row, pp_hold hold, uint32_t place)
{
    if (row->kind != hold || place == 0) return row->kind == hold;
    return (hold == PP_HOLD_GIVEN ? row->stack : row->site) == place;
}

static uint32_t count(const pp_block *block, pp_hold hold, uint32_t place)
{
    uint32_t n = 0;
    for (const pp_hold_row *row = block->holds; row != NULL; row = row->next)
        if (is_of(row, hold, place)) n += row->count;
    return n;
}

static void free_holds(pp_ledger *l, pp_block *block, pp_hold hold, uint32_t place)
{
    for (pp_hold_row **at = &block->holds; *at != NULL;) {
        pp_hold_row *row = *at;
        if (!is_of(row, hold, place)) {
            at = &row->next;
            continue;
        }
        *at = row->next;
        pp_ledger_free_hold(l, row);
    }
}

/* When all that were taken, at a place or at all, are gone it does not matter any more which went first. */
static void settle(pp_ledger *l, pp_block *block, uint32_t place)
{
    uint32_t gone = place == 0 ? block->loose : count(block, PP_HOLD_GIVEN, place);
    if (gone < count(block, PP_HOLD_USER, place)) return;
    free_holds(l, block, PP_HOLD_USER, place);
    free_holds(l, block, PP_HOLD_GIVEN, place);
    block->loose -= gone < block->loose ? gone : block->loose;
}

/* The only place of all the user's handles; 0: there are several, or it is not known. */
static uint32_t only_place(const pp_block *block)
{
    uint32_t place = 0;
    for (const pp_hold_row *row = block->holds; row != NULL; row = row->next) {
        if (row->kind != PP_HOLD_USER) continue;
        if (place != 0 && row->site != place) return 0;
        place = row->site;
    }
    return place;
}

/* Where one place is left, those that were given back were of it: which place they were of is known now. */
static void narrow(pp_ledger *l, pp_block *block)
{
    uint32_t place = only_place(block);
    for (pp_hold_row *row = block->holds; place != 0 && row != NULL; row = row->next)
        if (row->kind == PP_HOLD_GIVEN && row->stack == 0) row->stack = place;
    if (place != 0) settle(l, block, place);
}

static void give(pp_ledger *l, pp_block *block, ppto_site site, uint32_t place)
{
    uint32_t at = pp_ledger_site(l, site);
    pp_hold_row *row = block->holds;
    while (row != NULL && !(row->kind == PP_HOLD_GIVEN && row->site == at && row->stack == place))
        row = row->next;
    block->loose++;
    if (row != NULL) {
        row->count++;
    } else if ((row = pp_ledger_hold_row(l)) != NULL) {
        *row = (pp_hold_row){
            .next = block->holds, .site = at, .stack = place, .count = 1, .kind = PP_HOLD_GIVEN};
        block->holds = row;
    } else {
        l->dropped++;
    }
    if (place != 0) settle(l, block, place);
}

/* ---- which one ------------------------------------------------------------------------------------- */

static void take_from(pp_ledger *l, pp_block *block, pp_hold_row *row)
{
    pp_hold_row **at = &block->holds;
    if (--row->count != 0) return;
    while (*at != row) at = &(*at)->next;
    *at = row->next;
    pp_ledger_free_hold(l, row);
}

/* What find_hold may choose from: rows of a kind, of the function alone if that has any. */
typedef struct choice {
    pp_hold hold;
    ppto_site site;
    bool own; /* only those that fit the site */
} choice;

static bool is_choice(const pp_ledger *l, const choice *c, const pp_hold_row *row)
{
    return row->kind == c->hold && (!c->own || fits(l, row, c->site));
}

/* The latest; NULL: none. *places: more than one; *ways: more than one by stacks. */
static pp_hold_row *latest(const pp_ledger *l, const pp_block *block, const choice *c, bool *places,
                           bool *ways)
{
    pp_hold_row *first = NULL;
    *places = *ways = false;
    for (pp_hold_row *row = block->holds; row != NULL; row = row->next) {
        if (!is_choice(l, c, row)) continue;
        if (first == NULL) first = row;
        *places |= row->site != first->site;
        *ways |= row != first;
    }
    return first;
}

/* How many outermost calls two stacks have in common. */
static size_t common_calls(const pp_ledger *l, uint32_t a, uint32_t b)
{
    void *const *x, *const *y;
    size_t n = pp_stacks_frames(l->stacks, a, &x), m = pp_stacks_frames(l->stacks, b, &y), k = 0;
    while (k < n && k < m && x[n - 1 - k] == y[m - 1 - k]) k++;
    return k;
}

/* The one with most calls in common with the release; NULL: none stands out, or a stack is not known. */
static pp_hold_row *nearest(const pp_ledger *l, const pp_block *block, const choice *c, uint32_t stack)
{
    pp_hold_row *best = NULL;
    size_t most = 0;
    for (pp_hold_row *row = block->holds; stack != 0 && row != NULL; row = row->next) {
        if (!is_choice(l, c, row)) continue;
        if (row->stack == 0) return NULL;
        size_t n = common_calls(l, row->stack, stack);
        if (n == most) best = NULL;
        if (n <= most) continue;
        most = n;
        best = row;
    }
    return best;
}

void pp_block_drop_hold(pp_ledger *l, pp_block *block, pp_hold hold, ppto_site site, uint32_t stack)
{
    choice c = {hold, site, true};
    bool places, ways;
    pp_hold_row *row = latest(l, block, &c, &places, &ways);
    if (row == NULL) {
        c.own = false;
        row = latest(l, block, &c, &places, &ways);
    }
    if (row == NULL) return;
    pp_hold_row *near = hold == PP_HOLD_USER && ways && !places ? nearest(l, block, &c, stack) : NULL;
    uint32_t place = near != NULL ? near->site : row->site;
    if (near != NULL)
        take_from(l, block, near);
    else if (hold == PP_HOLD_USER && ways && !c.own)
        give(l, block, site, places ? 0 : row->site); /* any of them may be the one */
    else
        take_from(l, block, row);
    if (block->loose != 0 && place != 0) settle(l, block, place);
    if (block->loose != 0) settle(l, block, 0);
    if (block->loose != 0) narrow(l, block);
}
