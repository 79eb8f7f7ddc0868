/* SPDX-License-Identifier: Apache-2.0
 * A report from the ledger. Everything is copied while the ledger is locked, so that the numbers are those of
 * one moment; what can be thought about later (verdicts, replay, order) is done after.
 *
 * A slab counts as what lies in it: at the peak, the buffers of its busiest step are needed and the rest of
 * it is slack. So the shares of all groups add up to the peak, and no byte is told twice. */
#include "memory/memcheck.h"

#include <stdlib.h>
#include <string.h>

#include "memory/ledger_parts.h"

enum { BOUND_RUNS = 16, MOST_OVERSTAYS = 64 };

typedef struct hold_entry { /* one hold of one block, to be summed by group */
    uint32_t group, site, stack, count;
    uint8_t kind;
} hold_entry;

typedef struct build {
    pp_ledger *ledger;
    pp_stacks *stacks;
    pp_memcheck *out;
    bool at_end;
    PP_VEC(hold_entry) holds;
    PP_VEC(uint32_t) stack_of; /* stack of the program -> of the report */
    uint64_t *overstay;        /* per group MOST_OVERSTAYS, and how many */
    uint32_t *n_overstays;
} build;

/* ---- strings and stacks ------------------------------------------------------------------------ */

static const char *copy(build *b, const char *text)
{
    return text == NULL ? NULL : pp_arena_strndup(&b->out->arena, text, strlen(text));
}

static ppto_site copy_site(build *b, uint32_t number)
{
    ppto_site site = b->ledger->sites.at[number];
    const char *function = site.function != NULL && site.function[0] != '\0' ? site.function : NULL;
    return (ppto_site){copy(b, site.file), copy(b, function), site.line, site.column};
}

static ppto_status add_frames(build *b, uint32_t stack)
{
    void *const *at;
    pp_report_stack row = {b->out->frames.n, pp_stacks_frames(b->stacks, stack, &at)};
    for (size_t i = 0; i < row.n_frames; i++) {
        /* a return address is behind its call, which may be the last of a line or function */
        pp_frame_info info = pp_stack_frame((char *)at[i] - 1);
        pp_report_frame frame = {.pc = (uint64_t)(uintptr_t)at[i], .offset = info.offset};
        frame.module = copy(b, info.module);
        frame.function = copy(b, info.function);
        PP_TRY(pp_vec_push(&b->out->frames, frame));
    }
    return pp_vec_push(&b->out->stacks, row);
}

/* The report's number of a stack, which it has from now on. */
static uint32_t stack_of(build *b, uint32_t stack)
{
    if (stack == 0 || b->stacks == NULL) return 0;
    while (b->stack_of.n <= stack)
        if (pp_vec_push(&b->stack_of, 0) != PPTO_OK) return 0;
    if (b->stack_of.at[stack] == 0 && add_frames(b, stack) == PPTO_OK)
        b->stack_of.at[stack] = (uint32_t)b->out->stacks.n;
    return b->stack_of.at[stack];
}

/* ---- blocks ------------------------------------------------------------------------------------ */

/* An array, not memory that runs work in. */
static bool is_array(const build *b, const pp_block *block)
{
    uint8_t kind = b->ledger->groups.at[block->group].kind;
    return kind == PP_BLOCK_DATA || kind == PP_BLOCK_RESULT;
}

static bool is_retained(const build *b, const pp_block *block)
{
    if (b->at_end) return true;
    if (!is_array(b, block)) return false;
    if (block->kept || pp_block_holds(block, PP_HOLD_PENDING) || pp_block_holds(block, PP_HOLD_SYNC))
        return false;
    uint64_t rest = b->ledger->now.run < block->used.run ? 0 : b->ledger->now.run - block->used.run;
    return rest > (pp_block_holds(block, PP_HOLD_BINDING) ? BOUND_RUNS : 0);
}

static bool is_outside(const build *b, const pp_block *block, const pp_hold_row *row)
{
    if (row->kind == PP_HOLD_PROGRAM) return !is_array(b, block); /* of those it is the binding's */
    return row->kind == PP_HOLD_USER || row->kind == PP_HOLD_BINDING || row->kind == PP_HOLD_RUN_OBJECT;
}

static void count_references(const build *b, const pp_block *block, pp_report_group *g)
{
    uint64_t references = 0;
    for (const pp_hold_row *row = block->holds; row != NULL; row = row->next)
        if (is_outside(b, block, row)) references += row->count;
    references -= block->loose < references ? block->loose : references;
    g->retention_count += references;
    if (references > g->retention_max) g->retention_max = references;
}

static void retain_block(build *b, const pp_block *block, pp_report_group *g)
{
    uint64_t nodes = b->ledger->now.node - block->used.node;
    int64_t ns = b->ledger->now.ns - block->used.ns;
    g->retained_count++;
    g->retained_bytes += block->bytes;
    count_references(b, block, g);
    if (!is_array(b, block)) return; /* its last use is not noted */
    if (nodes > g->overstay_nodes_max) g->overstay_nodes_max = nodes;
    if (ns > g->overstay_ns_max) g->overstay_ns_max = ns;
    g->byte_seconds += (double)block->bytes * (double)ns * 1e-9;
    if (b->n_overstays[block->group] < MOST_OVERSTAYS)
        b->overstay[block->group * MOST_OVERSTAYS + b->n_overstays[block->group]++] = nodes;
}

/* It rested at the peak already, as is known only now: nobody came for it. */
static void move_share(build *b, const pp_block *block)
{
    if (block->part == PP_PART_RETAINED || block->used.tick > b->ledger->peak.tick) return;
    b->out->share[block->part] -= block->bytes;
    b->out->share[PP_SHARE_RETAINED] += block->bytes;
}

static ppto_status add_block(build *b, const pp_block *block)
{
    pp_report_group *g = &b->out->groups.at[block->group];
    const uint64_t epochs = b->ledger->epoch - block->born_epoch;
    bool retained = is_retained(b, block), user = pp_block_holds(block, PP_HOLD_USER);
    if (epochs > g->survived_epochs) g->survived_epochs = epochs;
    if (retained && is_array(b, block)) move_share(b, block);
    if (retained)
        retain_block(b, block, g);
    else if (g->verdict == PP_FINE && (block->kept || (user && block->ever_used)))
        g->verdict = PP_KEPT; /* to begin with */
    if (!retained && !user && pp_block_holds(block, PP_HOLD_SYNC)) g->verdict = PP_PINNED_BY_SYNC;
    g->loose_count += block->loose;
    for (const pp_hold_row *row = block->holds; row != NULL; row = row->next) {
        hold_entry entry = {block->group, row->site, row->stack, row->count, row->kind};
        PP_TRY(pp_vec_push(&b->holds, entry));
    }
    return PPTO_OK;
}

static ppto_status add_blocks(build *b)
{
    for (size_t i = 0; i < b->ledger->cap; i++)
        if (b->ledger->table[i] != NULL) PP_TRY(add_block(b, b->ledger->table[i]));
    return PPTO_OK;
}

/* ---- holders ----------------------------------------------------------------------------------- */

static int by_group(const void *a, const void *b)
{
    const hold_entry *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->site != y->site) return x->site < y->site ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static ppto_status add_holders(build *b)
{
    if (b->holds.n > 1) qsort(b->holds.at, b->holds.n, sizeof *b->holds.at, by_group);
    for (size_t i = 0; i < b->holds.n; i++) {
        const hold_entry *entry = &b->holds.at[i];
        pp_report_group *g = &b->out->groups.at[entry->group];
        bool again = i > 0 && by_group(entry - 1, entry) == 0;
        if (again) {
            b->out->holders.at[b->out->holders.n - 1].count += entry->count;
            continue;
        }
        bool given = entry->kind == PP_HOLD_GIVEN;
        pp_report_holder holder = {.kind = pp_hold_name((pp_hold)entry->kind),
                                   .count = entry->count,
                                   .site = copy_site(b, entry->site)};
        if (given)
            holder.of = copy_site(b, entry->stack);
        else
            holder.stack = stack_of(b, entry->stack);
        if (g->n_holders++ == 0) g->first_holder = b->out->holders.n;
        PP_TRY(pp_vec_push(&b->out->holders, holder));
    }
    return PPTO_OK;
}

/* ---- groups ------------------------------------------------------------------------------------ */

static pp_verdict first_verdict(const pp_ledger_group *from)
{
    bool costs = from->kind == PP_BLOCK_COPY || from->kind == PP_BLOCK_RESULT;
    if (costs && from->reason != NULL) return PP_UNPLANNED;
    if (from->kind == PP_BLOCK_WINDOW && from->live_count != 0) return PP_PENDING_IO;
    return from->live_count == 0 && from->late * 2 > from->released ? PP_LATE_FREE : PP_FINE;
}

static ppto_status add_groups(build *b)
{
    size_t n = b->ledger->groups.n;
    PP_TRY(pp_vec_reserve(&b->out->groups, n));
    b->overstay = pp_calloc(n, MOST_OVERSTAYS * sizeof *b->overstay);
    b->n_overstays = pp_calloc(n, sizeof *b->n_overstays);
    if (b->overstay == NULL || b->n_overstays == NULL) return PPTO_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const pp_ledger_group *from = &b->ledger->groups.at[i];
        b->out->groups.at[b->out->groups.n++] =
            (pp_report_group){.operator_name = copy(b, from->operator_name),
                              .kind = pp_block_kind_name((pp_block_kind)from->kind),
                              .dtype = from->dtype,
                              .reason = from->reason,
                              .site = copy_site(b, from->site),
                              .stack = stack_of(b, from->stack),
                              .verdict = first_verdict(from),
                              .allocation_size_bytes = from->largest,
                              .rounded_bytes = from->rounded,
                              .total_count = from->total_count,
                              .live_count = from->live_count,
                              .live_bytes = from->live_bytes,
                              .overstay_nodes_max = from->overstay_max,
                              .overstay_ns_max = from->overstay_ns_max,
                              .byte_seconds = from->byte_seconds,
                              .peak_share_bytes = pp_group_at_peak(b->ledger, from)};
        while (b->n_overstays[i] < from->released && b->n_overstays[i] < PP_OVERSTAYS) {
            b->overstay[i * MOST_OVERSTAYS + b->n_overstays[i]] = from->overstay[b->n_overstays[i]];
            b->n_overstays[i]++;
        }
    }
    return PPTO_OK;
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Growth and the median, when all blocks are seen. */
static void finish_groups(build *b)
{
    for (size_t i = 0; i < b->out->groups.n; i++) {
        pp_report_group *g = &b->out->groups.at[i];
        const pp_ledger_group *from = &b->ledger->groups.at[i];
        uint64_t *overstay = b->overstay + i * MOST_OVERSTAYS;
        uint32_t n = b->n_overstays[i];
        if (n > 1) qsort(overstay, n, sizeof *overstay, by_size);
        if (n > 0) g->overstay_nodes_median = overstay[n / 2];
        bool grows = pp_memcheck_grows(from->sample, from->n_samples, &g->growth_bytes_per_epoch);
        if (g->retained_count == 0) continue;
        g->verdict = grows ? PP_GROWING : b->at_end ? PP_LEAKED : PP_RETAINED;
    }
}

/* ---- slabs ------------------------------------------------------------------------------------- */

static void open_slab(build *b, const pp_ledger_group *from, pp_report_group *slab)
{
    const pp_ledger_plan_row *plan = &b->ledger->plans.at[from->plan];
    uint64_t at_peak = plan->bytes == 0 ? 0 : slab->peak_share_bytes / plan->bytes;
    for (uint32_t r = 0; r < plan->n_rows; r++) {
        const pp_ledger_row *row = &plan->rows[r];
        pp_report_group *g = &b->out->groups.at[row->group];
        g->total_count += from->total_count;
        if (row->bytes > g->allocation_size_bytes) g->allocation_size_bytes = g->rounded_bytes = row->bytes;
        if (row->first <= plan->busiest && plan->busiest <= row->last)
            g->peak_share_bytes += row->bytes * at_peak;
    }
    slab->peak_share_bytes -= plan->needed * at_peak;
    slab->reason = "what lies between the buffers of a run";
    b->out->share[PP_SHARE_SLACK] += slab->peak_share_bytes;
}

static void open_slabs(build *b)
{
    for (size_t i = 0; i < b->ledger->groups.n; i++)
        if (b->ledger->groups.at[i].plan != 0) open_slab(b, &b->ledger->groups.at[i], &b->out->groups.at[i]);
    b->out->share[PP_SHARE_NEEDED] -= b->out->share[PP_SHARE_SLACK];
}

/* ---- history ----------------------------------------------------------------------------------- */

/* A block that nobody knew to need after its last use rested from there on. */
static pp_moment end_of_use(const pp_block *block, const pp_moment *now, bool retained)
{
    return retained ? block->used : *now;
}

static ppto_status add_history(build *b)
{
    const pp_ledger *l = b->ledger;
    uint64_t first = l->n_lives > PP_LIVES ? l->n_lives - PP_LIVES : 0;
    for (uint64_t i = first; i < l->n_lives; i++) {
        const pp_life *life = &l->lives[i % PP_LIVES];
        const pp_moment *used = life->ever_used ? &life->used : &life->died;
        pp_report_buffer row = {.group = life->group, .id = life->id, .generation = life->generation};
        row.bytes = life->bytes;
        row.born = life->born.node, row.used = used->node, row.died = life->died.node;
        row.born_tick = life->born.tick, row.used_tick = used->tick, row.died_tick = life->died.tick;
        PP_TRY(pp_vec_push(&b->out->buffers, row));
    }
    for (size_t i = 0; i < l->cap; i++) {
        const pp_block *block = l->table[i];
        if (block == NULL) continue;
        pp_moment used = end_of_use(block, &l->now, is_array(b, block) && is_retained(b, block));
        pp_report_buffer row = {.group = block->group, .id = block->id, .generation = block->generation};
        row.bytes = block->bytes;
        row.live = true;
        row.born = block->born.node, row.used = used.node, row.died = l->now.node;
        row.born_tick = block->born.tick, row.used_tick = used.tick, row.died_tick = l->now.tick + 1;
        if (row.used_tick == l->now.tick) row.used_tick++; /* alive until after the end */
        PP_TRY(pp_vec_push(&b->out->buffers, row));
    }
    return PPTO_OK;
}

static ppto_status add_marks(build *b)
{
    for (size_t i = 0; i < b->ledger->marks.n; i++) {
        const pp_mark *from = &b->ledger->marks.at[i];
        pp_report_mark mark = {copy(b, from->name), from->at.node, from->at.tick, from->current_bytes};
        PP_TRY(pp_vec_push(&b->out->marks, mark));
    }
    return PPTO_OK;
}

/* ---- the whole --------------------------------------------------------------------------------- */

static void add_totals(build *b, const char *at)
{
    const pp_ledger *l = b->ledger;
    pp_memcheck *out = b->out;
    out->level = l->level;
    out->at = copy(b, at);
    out->runs = l->now.run;
    out->nodes = l->now.node;
    out->epochs = l->epoch;
    out->dropped = l->dropped + (l->n_lives > PP_LIVES ? l->n_lives - PP_LIVES : 0);
    out->current_bytes = l->current_bytes;
    out->peak_bytes = l->peak_bytes;
    out->peak_node = l->peak.node;
    out->peak_operator = copy(b, l->groups.at[l->peak_group].operator_name);
    out->peak_site = copy_site(b, l->groups.at[l->peak_group].site);
    for (int i = 0; i < PP_PARTS; i++) out->share[i] = l->peak_part[i];
    if (l->dropped != 0)
        out->why_incomplete = "there was no memory for some records";
    else if (out->dropped != 0)
        out->why_incomplete = "the history is longer than is kept";
}

static ppto_status fill(build *b, const char *at)
{
    add_totals(b, at);
    PP_TRY(add_groups(b));
    PP_TRY(add_blocks(b));
    PP_TRY(add_holders(b));
    finish_groups(b);
    open_slabs(b);
    PP_TRY(add_marks(b));
    return b->ledger->lives != NULL ? add_history(b) : PPTO_OK;
}

ppto_status pp_memcheck_make(pp_ledger *ledger, pp_stacks *stacks, const char *at, const char *suppressions,
                             pp_memcheck *out)
{
    build b = {.ledger = ledger, .stacks = stacks, .out = out, .at_end = strcmp(at, "shutdown") == 0};
    *out = (pp_memcheck){0};
    pthread_mutex_lock(ledger->lock);
    ppto_status status = fill(&b, at);
    pthread_mutex_unlock(ledger->lock);
    pp_vec_free(&b.holds);
    pp_vec_free(&b.stack_of);
    pp_free(b.overstay);
    pp_free(b.n_overstays);
    if (status == PPTO_OK && ledger->level >= 2) status = pp_memcheck_replay(out);
    if (status == PPTO_OK) pp_memcheck_judge(out, suppressions);
    return status;
}

void pp_memcheck_free(pp_memcheck *report)
{
    pp_vec_free(&report->groups);
    pp_vec_free(&report->holders);
    pp_vec_free(&report->buffers);
    pp_vec_free(&report->marks);
    pp_vec_free(&report->stacks);
    pp_vec_free(&report->frames);
    pp_arena_free(&report->arena);
    *report = (pp_memcheck){0};
}
