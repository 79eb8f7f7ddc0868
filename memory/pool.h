/* SPDX-License-Identifier: Apache-2.0
 * A pool of large blocks: everything a context's tensors live in. Blocks are 64-byte aligned; big ones are
 * mapped with huge pages asked for and stay warm for reuse until trimmed. Thread-safe.
 *
 * A pool can be watched: then a ledger (memory/ledger.h) knows what every block is and who holds it. */
#ifndef PP_POOL_H
#define PP_POOL_H

#include "base/base.h"
#include "memory/ledger.h"
#include "memory/placement.h"
#include "memory/tally.h"

typedef struct pp_pool pp_pool;

typedef struct pp_pool_counters {
    uint64_t current_bytes; /* asked for and not given back */
    uint64_t peak_bytes;    /* most of it since the last reset */
    uint64_t held_bytes;    /* from the system, free blocks included */
    uint64_t takes, maps;   /* calls of pp_pool_take; of mmap or the heap */
} pp_pool_counters;

ppto_status pp_pool_create(pp_pool **out);
void pp_pool_destroy(pp_pool *pool); /* NULL is fine */
/* At least `bytes` (0: a valid block). returns PPTO_OK; E_LIMIT with sizes in err; E_NOMEM. Contents are
 * undefined. */
ppto_status pp_pool_take(pp_pool *pool, size_t bytes, void **out, pp_error *err);
/* The same, and the ledger is told what it is (NULL: nobody says). */
ppto_status pp_pool_take_as(pp_pool *pool, size_t bytes, const pp_tag *tag, void **out, pp_error *err);
/* The same, with pages of its own where that counts (mapped blocks, on a machine of several nodes): a free
 * block is taken only if it was placed alike. NULL: as the pool places everything. */
ppto_status pp_pool_take_placed(pp_pool *pool, size_t bytes, const pp_placement *placement, const pp_tag *tag,
                                void **out, pp_error *err);
/* The same, for the data of a file: *out is `lead` bytes (a multiple of 64) behind a multiple of
 * PP_POOL_PAGE, and the bytes before it and up to the next multiple behind the block may be overwritten. A
 * wish: small blocks, and those of a pool that is watched at level 3, lie as all others. As with what is
 * rounded up, those bytes are not counted. */
enum { PP_POOL_PAGE = 4096 };
ppto_status pp_pool_take_led(pp_pool *pool, size_t bytes, size_t lead, const pp_tag *tag, void **out,
                             pp_error *err);
/* Whether it grants that wish to a block of so many bytes. */
bool pp_pool_leads(const pp_pool *pool, size_t bytes);
/* Moves the pages of a block that is held. */
void pp_pool_move(pp_pool *pool, void *block, size_t bytes, const pp_placement *placement);
/* Before the first take. */
void pp_pool_set_placer(pp_pool *pool, const pp_placer *placer);
void pp_pool_give(pp_pool *pool, void *block, size_t bytes); /* the bytes asked for; NULL is fine */
void pp_pool_set_limit(pp_pool *pool, uint64_t bytes);       /* of current_bytes; 0: none */
uint64_t pp_pool_get_limit(const pp_pool *pool);
void pp_pool_count(pp_pool *pool, pp_pool_counters *out);
void pp_pool_reset_peak(pp_pool *pool);
/* Told of the counters after every take and give, under the pool's lock: short, and calls nothing of the
 * pool. It stays in place until unlisten; not twice in one pool. */
typedef struct pp_pool_listener {
    void (*changed)(void *arg, const pp_pool_counters *counters);
    void *arg;
    struct pp_pool_listener *next; /* of the pool */
} pp_pool_listener;
void pp_pool_listen(pp_pool *pool, pp_pool_listener *listener);
void pp_pool_unlisten(pp_pool *pool, pp_pool_listener *listener); /* from then on it is not called */
void pp_pool_trim(pp_pool *pool);                                 /* free blocks go back to the system */
void pp_pool_poison(pp_pool *pool, bool on); /* fresh and freed bytes are filled with 0xff (NaN) */
/* Before the first take. level 0: nothing; 1: a ledger; 2: with history; 3: besides, every block comes from
 * the heap and goes back at once, poisoned, so that ASan and Valgrind see each one. returns PPTO_OK; E_NOMEM
 */
ppto_status pp_pool_watch(pp_pool *pool, int level);
pp_ledger *pp_pool_ledger(const pp_pool *pool); /* NULL: it is not watched */
/* Of a pool that is not watched: the operators whose blocks hold the most now, at most so many; how many.
 * Their names live as long as the pool. */
size_t pp_pool_operators(pp_pool *pool, pp_tally_row *out, size_t most);

#endif
