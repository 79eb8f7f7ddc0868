/* SPDX-License-Identifier: Apache-2.0
 * Bytes by operator, always counted where no ledger watches (memory/ledger.h): what is out now, and the most
 * that ever was. Enough to say who fills the memory when there is none left; places, holders and history are
 * the ledger's.
 *
 * Owned by a pool and guarded by its lock. Where memory is short a block is counted as nobody's. */
#ifndef PP_TALLY_H
#define PP_TALLY_H

#include "memory/ledger.h"

typedef struct pp_tally_row {
    const char *operator_name;
    uint64_t current_bytes, peak_bytes, blocks;
} pp_tally_row;

typedef struct pp_tally_slot { /* a block that is out */
    const void *at;            /* NULL: empty */
    uint32_t row;
} pp_tally_slot;

enum { PP_TALLY_RECENT = 32 };
typedef struct pp_tally {
    PP_VEC(pp_tally_row) rows; /* [0]: of those that found no room */
    uint32_t recent[PP_TALLY_RECENT];
    pp_tally_slot *slots; /* by address; cap is a power of two or 0 */
    size_t cap, n;
    pp_arena arena; /* names */
} pp_tally;         /* zero-initialised is empty */

void pp_tally_took(pp_tally *tally, const void *block, uint64_t bytes,
                   const pp_tag *tag); /* tag: may be NULL */
void pp_tally_gave(pp_tally *tally, const void *block, uint64_t bytes);
/* The rows that hold the most now, at most so many, those first; how many. */
size_t pp_tally_most(const pp_tally *tally, pp_tally_row *out, size_t most);
void pp_tally_free(pp_tally *tally);

#endif
