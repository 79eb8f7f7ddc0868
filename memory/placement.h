/* SPDX-License-Identifier: Apache-2.0
 * On which memory nodes the pages of a block lie. What binds them is handed in (pp_placer), so nothing here
 * knows the machine; on one node nobody hands anything in and nothing is done. */
#ifndef PP_PLACEMENT_H
#define PP_PLACEMENT_H

#include "base/base.h"
#include "base/share.h"

typedef enum pp_pages_kind {
    PP_PAGES_SPLIT,      /* neighbours together: domain d has the part that its tasks write (base/share.h) */
    PP_PAGES_INTERLEAVE, /* the nodes take turns page by page: for what all read */
    PP_PAGES_BIND,       /* all on one node */
    PP_PAGES_FIRST_TOUCH /* where the thread is that writes first */
} pp_pages_kind;

typedef struct pp_pages {
    pp_pages_kind kind;
    uint32_t node; /* of PP_PAGES_BIND: the number the operating system gives it */
} pp_pages;

typedef struct pp_extent {
    uint64_t offset, bytes;
} pp_extent;

/* What a block is to be like. Blocks of equal keys are alike, so one is as good as the other for reuse. */
typedef struct pp_placement {
    uint64_t key; /* not 0, which is the pool's own */
    pp_pages pages;
    const pp_extent *extents; /* split: the tensors in it, each split by itself; where some share pages the */
    uint32_t n_extents;       /* largest decides. None: the block is one */
} pp_placement;

/* Called for each fresh block that is mapped, before its first touch, and for one that is to be moved (pages
 * may hold data then). bytes: asked for; mapped: whole pages. placement NULL: the pool's own. Under the
 * pool's lock. */
typedef struct pp_placer {
    void (*place)(void *arg, void *block, size_t bytes, size_t mapped, const pp_placement *placement,
                  bool moves);
    void *arg;
} pp_placer;

/* A split: calls `part` for runs of pages in order; together they are the mapped bytes. extents: see above,
 * with n == 0 the first `bytes`. Boundaries lie on huge pages where every part is long enough for that. */
void pp_placement_split(const pp_shares *shares, const pp_extent *extents, uint32_t n, size_t bytes,
                        size_t mapped, void (*part)(void *arg, size_t offset, size_t bytes, uint32_t domain),
                        void *arg);

#define PP_PAGES_WORDS "split, interleave, first_touch or bind:N"
/* One of these. False: none of them. */
bool pp_pages_parse(const char *text, pp_pages *out);
/* The same text. */
enum { PP_PAGES_ROOM = 24 };
const char *pp_pages_text(const pp_pages *pages, char room[PP_PAGES_ROOM]);

#endif
