/* SPDX-License-Identifier: Apache-2.0
 * Where the memory of a context lies on a machine of several nodes: the pool calls `place` for what it maps.
 * The shares are those of the workers, so that a task finds what it writes on its own node. A slab is split
 * tensor by tensor, as its layout has them. What the system refuses stays where it is touched first; `info`
 * and memcheck tell. On one node nothing of this is ever called. */
#include <stdio.h>
#include <string.h>

#include "runtime/domains.h"

enum { LEAST = 1 << 20 /* bytes of a tensor, or of a slab, that is worth a place */ };

/* ---- the pool's calls --------------------------------------------------------------------------- */

typedef struct placed_run {
    pp_machine *machine;
    char *block;
    bool moves;
} placed_run;

static void bind_part(void *arg, size_t offset, size_t bytes, uint32_t domain)
{
    const placed_run *run = arg;
    const uint32_t node = run->machine->node_of[domain];
    (void)pp_machine_bind(run->machine, run->block + offset, bytes, &node, 1, run->moves);
}

/* Once: that some memory is not where it should be. The log's function must not call ppto, so the lock does
 * no harm. */
static void tell_refusal(ppto_context *ctx)
{
    const pp_machine *machine = ctx->machine;
    if (atomic_load_explicit(&machine->memory, memory_order_relaxed) != PP_BIND_REFUSED || ctx->refusal_told)
        return;
    ctx->refusal_told = true;
    pp_log_line(&ctx->log, 1, "memory is not bound to its nodes: %s",
                strerror(atomic_load_explicit(&machine->memory_errno, memory_order_relaxed)));
}

static void place(void *arg, void *block, size_t bytes, size_t mapped, const pp_placement *placement,
                  bool moves)
{
    ppto_context *ctx = arg;
    placed_run run = {.block = block, .moves = moves};
    const pp_pages *pages = placement ? &placement->pages : &ctx->settings.pages;
    uint32_t node;
    if (pp_context_machine(ctx, &run.machine, NULL) != PPTO_OK || !run.machine->atlas) return;
    switch (pages->kind) {
    case PP_PAGES_FIRST_TOUCH: break;
    case PP_PAGES_INTERLEAVE:
        (void)pp_machine_bind(run.machine, block, mapped, run.machine->node_of, run.machine->n_domains,
                              moves);
        break;
    case PP_PAGES_BIND:
        if (pp_machine_find_node(run.machine, pages->node, &node))
            (void)pp_machine_bind(run.machine, block, mapped, &node, 1, moves);
        break;
    case PP_PAGES_SPLIT:
        if (run.machine->n_domains == 1) break;
        pp_placement_split(&ctx->shares, placement ? placement->extents : NULL,
                           placement ? placement->n_extents : 0, bytes, mapped, bind_part, &run);
        break;
    }
    tell_refusal(ctx);
}

static ppto_status check_node(ppto_context *ctx, const char *source, const pp_pages *pages, pp_error *err)
{
    pp_machine *machine;
    uint32_t index;
    if (pages->kind != PP_PAGES_BIND) return PPTO_OK;
    PP_TRY(pp_context_machine(ctx, &machine, err));
    if (pp_machine_find_node(machine, pages->node, &index)) return PPTO_OK;
    return pp_fail(err, PPTO_E_VALUE, "%s: there is no memory node %u", source, pages->node);
}

ppto_status pp_context_place(ppto_context *ctx, pp_error *err)
{
    const pp_placer placer = {place, ctx};
    PP_TRY(check_node(ctx, "placement", &ctx->settings.pages, err));
    ctx->placed = !pp_machine_is_flat(ctx->settings.topology);
    if (ctx->placed) pp_pool_set_placer(ctx->pool, &placer);
    return PPTO_OK;
}

void pp_placing_tell(const ppto_context *ctx, char domain[PP_PAGES_ROOM], bool *bound)
{
    char room[PP_PAGES_ROOM];
    *bound = false;
    domain[0] = '\0';
    if (!ctx->placed) return;
    (void)snprintf(domain, PP_PAGES_ROOM, "%s", pp_pages_text(&ctx->settings.pages, room));
    /* relaxed: what was bound so far */
    *bound =
        ctx->machine && atomic_load_explicit(&ctx->machine->memory, memory_order_relaxed) == PP_BIND_BOUND;
}

/* ---- what is placed by itself ------------------------------------------------------------------- */

const pp_placement pp_scratch_placement = {.key = 1, .pages = {.kind = PP_PAGES_FIRST_TOUCH}};

void pp_instance_place(pp_instance *in, const pp_layout_buffer *rows, size_t n)
{
    const ppto_context *ctx = in->plan->ctx;
    if (!ctx->placed || ctx->settings.pages.kind != PP_PAGES_SPLIT || in->layout.bytes < LEAST) return;
    pp_placement *lies = pp_arena_alloc(&in->arena, sizeof *lies);
    pp_extent *extents = pp_arena_alloc(&in->arena, (n + 1) * sizeof *extents);
    if (!lies || !extents) return; /* as the pool places everything: right, but slower */
    uint32_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (rows[i].bytes >= LEAST) extents[kept++] = (pp_extent){in->layout.offset[i], rows[i].bytes};
    if (kept == 0) return;
    *lies = (pp_placement){.pages = {.kind = PP_PAGES_SPLIT}, .extents = extents, .n_extents = kept};
    lies->key = pp_hash_bytes(extents, kept * sizeof *extents, in->layout.bytes) | 2;
    in->lies = lies;
}

ppto_status ppto_array_place(ppto_array *array, const char *placement)
{
    pp_error err = {0};
    pp_placement wanted = {0};
    if (!array || !placement) return pp_report_new(PPTO_E_VALUE, "ppto_array_place: an argument is NULL");
    ppto_status status = pp_context_check(array->ctx, &err);
    if (status == PPTO_OK && !pp_pages_parse(placement, &wanted.pages))
        status = pp_fail(&err, PPTO_E_VALUE, "ppto_array_place: \"%.50s\" is not " PP_PAGES_WORDS, placement);
    if (status == PPTO_OK) status = check_node(array->ctx, "ppto_array_place", &wanted.pages, &err);
    if (status != PPTO_OK || !array->owned) return pp_report(&err);
    wanted.key = pp_hash_mix((uint64_t)wanted.pages.kind + 1, wanted.pages.node) | 2;
    pp_pool_move(array->ctx->pool, array->data, array->bytes, &wanted);
    return PPTO_OK;
}
