/* SPDX-License-Identifier: Apache-2.0
 * Splitting by painting: the block is cut into units (pages, or huge pages), the tensors in it paint their
 * parts, the small ones first, and runs of one colour are the result. Units that nobody paints go with what
 * is before them. */
#include "memory/placement.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, FINE = 8 /* units of a part below which huge pages are too coarse */ };
#define HUGE_PAGE ((size_t)2 << 20)
#define UNPAINTED UINT8_MAX

typedef struct canvas {
    const pp_shares *shares;
    size_t unit, n_units;
    uint8_t *color; /* domain of each unit */
} canvas;

static size_t choose_unit(const pp_shares *shares, const pp_extent *extents, uint32_t n, size_t mapped)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < n; i++)
        if (extents[i].bytes > most) most = extents[i].bytes;
    return most / shares->n >= FINE * HUGE_PAGE && mapped % HUGE_PAGE == 0 ? HUGE_PAGE : PAGE;
}

/* A unit belongs to the part that has its middle. */
static size_t unit_at(const canvas *on, uint64_t at)
{
    size_t unit = (size_t)((at + on->unit / 2) / on->unit);
    return unit < on->n_units ? unit : on->n_units;
}

static void paint(canvas *on, const pp_extent *extent)
{
    for (uint32_t d = 0; d < on->shares->n; d++) {
        size_t from = unit_at(on, extent->offset + pp_share_first(on->shares, d, extent->bytes));
        size_t upto = unit_at(on, extent->offset + pp_share_first(on->shares, d + 1, extent->bytes));
        if (from < upto) memset(on->color + from, (int)d, upto - from);
    }
}

static int by_bytes(const void *a, const void *b)
{
    const pp_extent *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static bool paint_all(canvas *on, const pp_extent *extents, uint32_t n)
{
    pp_extent *sorted = pp_alloc(n * sizeof *sorted);
    if (sorted == NULL) return false;
    memcpy(sorted, extents, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_bytes);
    for (uint32_t i = 0; i < n; i++) paint(on, &sorted[i]);
    pp_free(sorted);
    return true;
}

static void tell(const canvas *on, size_t mapped, void (*part)(void *, size_t, size_t, uint32_t), void *arg)
{
    uint8_t color = 0;
    for (size_t from = 0, upto; from < on->n_units; from = upto) {
        if (on->color[from] != UNPAINTED) color = on->color[from];
        for (upto = from + 1; upto < on->n_units; upto++)
            if (on->color[upto] != UNPAINTED && on->color[upto] != color) break;
        size_t end = upto == on->n_units ? mapped : upto * on->unit;
        part(arg, from * on->unit, end - from * on->unit, color);
    }
}

void pp_placement_split(const pp_shares *shares, const pp_extent *extents, uint32_t n, size_t bytes,
                        size_t mapped, void (*part)(void *arg, size_t offset, size_t bytes, uint32_t domain),
                        void *arg)
{
    const pp_extent whole = {0, bytes};
    if (n == 0) extents = &whole;
    if (n == 0) n = 1;
    canvas on = {.shares = shares, .unit = choose_unit(shares, extents, n, mapped)};
    on.n_units = mapped / on.unit;
    on.color = pp_alloc(on.n_units);
    if (on.color == NULL) return; /* where it is touched first is as right */
    memset(on.color, UNPAINTED, on.n_units);
    if (paint_all(&on, extents, n)) tell(&on, mapped, part, arg);
    pp_free(on.color);
}

/* ---- text --------------------------------------------------------------------------------------- */

static const char *const words[] = {"split", "interleave", "bind", "first_touch"};

bool pp_pages_parse(const char *text, pp_pages *out)
{
    char *end;
    *out = (pp_pages){.kind = PP_PAGES_SPLIT};
    for (int kind = PP_PAGES_SPLIT; kind <= PP_PAGES_FIRST_TOUCH; kind++) {
        if (strcmp(text, words[kind]) != 0 || kind == PP_PAGES_BIND) continue;
        out->kind = (pp_pages_kind)kind;
        return true;
    }
    if (strncmp(text, "bind:", 5) != 0 || text[5] < '0' || text[5] > '9') return false;
    unsigned long node = strtoul(text + 5, &end, 10);
    *out = (pp_pages){.kind = PP_PAGES_BIND, .node = (uint32_t)node};
    return *end == '\0' && node < UINT32_MAX;
}

const char *pp_pages_text(const pp_pages *pages, char room[PP_PAGES_ROOM])
{
    if (pages->kind != PP_PAGES_BIND) return words[pages->kind];
    (void)snprintf(room, PP_PAGES_ROOM, "bind:%u", pages->node);
    return room;
}
