/* SPDX-License-Identifier: Apache-2.0
 * The ledger held to its invariants on random histories: its totals are the pool's counters, what the peak is
 * made of sums up to it, and the replay equals a simulation that simply lists who lives at every moment. */
#include "ledger_common.h"

/* ---- random histories -------------------------------------------------------------------------- */

enum { STEPS = 300, MOST = 24 };

typedef struct block {
    void *at;
    size_t bytes;
    int life; /* index in lives */
    bool pending;
} block;

typedef struct life { /* moments of the simulation: steps */
    uint64_t bytes;
    int line, born, used, died;
    bool ever_used;
} life;

typedef struct world {
    pp_pool *pool;
    uint64_t random;
    block blocks[MOST];
    size_t n;
    life lives[STEPS];
    int n_lives;
} world;

static unsigned draw(world *w, unsigned n)
{
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(w->random >> 33) % n;
}

static void act(world *w, int step)
{
    pp_ledger *l = pp_pool_ledger(w->pool);
    unsigned what = draw(w, 8);
    if ((what < 4 || w->n == 0) && w->n < MOST) {
        int line = 1 + (int)draw(w, 4);
        size_t bytes = 64 + draw(w, 5000);
        w->lives[w->n_lives] = (life){bytes, line, step, step, STEPS + 1, false};
        void *at =
            take(w->pool, bytes, draw(w, 2) ? PP_BLOCK_RESULT : PP_BLOCK_DATA, "op", line, PP_HOLD_USER);
        w->blocks[w->n++] = (block){at, bytes, w->n_lives++, false};
        return;
    }
    block *b = &w->blocks[draw(w, (unsigned)w->n)];
    if (what < 6 && !b->pending) {
        pp_ledger_hold(l, b->at, PP_HOLD_PENDING, nowhere, 0);
        b->pending = true;
    } else if (b->pending) {
        pp_ledger_drop(l, b->at, PP_HOLD_PENDING, nowhere, 0);
        b->pending = false;
        w->lives[b->life].used = step;
        w->lives[b->life].ever_used = true;
    } else {
        pp_pool_give(w->pool, b->at, b->bytes);
        w->lives[b->life].died = step;
        *b = w->blocks[--w->n];
    }
    if (draw(w, 5) == 0) pp_ledger_ran(l, 1 + draw(w, 3));
}

static void expect_totals(const world *w, uint64_t seed)
{
    pp_pool_counters counters;
    pp_ledger_totals totals;
    pp_pool_count(w->pool, &counters);
    pp_ledger_count(pp_pool_ledger(w->pool), &totals);
    cr_assert_eq(totals.current_bytes, counters.current_bytes, "seed %lu", (unsigned long)seed);
    cr_assert_eq(totals.peak_bytes, counters.peak_bytes, "seed %lu", (unsigned long)seed);
    cr_assert_eq(totals.sum_of_blocks, totals.current_bytes);
    cr_assert_eq(totals.sum_of_groups, totals.current_bytes);
    cr_assert_eq(totals.sum_of_parts, totals.current_bytes);
    cr_assert_eq(totals.peak_sum_of_parts, totals.peak_bytes);
    cr_assert_eq(totals.blocks, w->n);
    cr_assert_eq(totals.dropped, 0);
}

/* The most that lives at the end of a step when lives of `line` (0: none, -1: all) end with their last use.
 */
static uint64_t simulate(const world *w, int line)
{
    uint64_t most = 0;
    for (int step = 0; step <= STEPS; step++) {
        uint64_t now = 0;
        for (int i = 0; i < w->n_lives; i++) {
            const life *x = &w->lives[i];
            bool early = (line == -1 || line == x->line) && x->ever_used;
            int end = early && x->used < x->died ? x->used : x->died;
            if (x->born <= step && step < end) now += x->bytes;
        }
        if (now > most) most = now;
    }
    return most;
}

/* Gives all back, so that every life has an end the simulation knows of. */
static void end_world(world *w)
{
    while (w->n > 0) {
        block *b = &w->blocks[--w->n];
        w->lives[b->life].died = STEPS;
        if (b->pending) {
            w->lives[b->life].used = STEPS;
            w->lives[b->life].ever_used = true;
            pp_ledger_drop(pp_pool_ledger(w->pool), b->at, PP_HOLD_PENDING, nowhere, 0);
        }
        pp_pool_give(w->pool, b->at, b->bytes);
    }
}

static void expect_replay(const world *w, uint64_t seed)
{
    pp_memcheck r = make(w->pool, "now");
    uint64_t actual = simulate(w, 0), sum = 0;
    cr_assert_eq(r.peak_bytes, actual, "seed %lu", (unsigned long)seed);
    cr_assert_eq(r.ideal_peak_bytes, simulate(w, -1), "seed %lu", (unsigned long)seed);
    cr_assert_eq(r.avoidable_bytes, r.peak_bytes - r.ideal_peak_bytes);
    cr_assert_leq(r.avoidable_bytes, r.share[PP_SHARE_RETAINED], "seed %lu", (unsigned long)seed);
    for (int i = 0; i < PP_SHARES; i++) sum += r.share[i];
    cr_assert_eq(sum, r.peak_bytes);
    sum = 0;
    for (size_t i = 0; i < r.groups.n; i++) sum += r.groups.at[i].peak_share_bytes;
    cr_assert_eq(sum, r.peak_bytes);
    for (size_t i = 0; i < r.groups.n; i++) cr_assert_leq(r.groups.at[i].avoidable_bytes, r.avoidable_bytes);
    pp_memcheck_free(&r);
}

Test(memory_ledger, agrees_with_the_pool_and_with_a_simulation)
{
    for (uint64_t seed = 1; seed <= 200; seed++) {
        world w = {.pool = watched(2), .random = seed};
        for (int step = 0; step < STEPS; step++) {
            act(&w, step);
            if (step % 10 == 0) expect_totals(&w, seed);
        }
        end_world(&w);
        expect_totals(&w, seed);
        expect_replay(&w, seed);
        pp_pool_destroy(w.pool);
    }
    cr_expect_eq(pp_heap_count().live, 0);
}

/* One place alone, so that its group is all there is of it. */
Test(memory_ledger, what_a_group_could_avoid_is_its_own_rest)
{
    pp_pool *pool = watched(2);
    pp_ledger *l = pp_pool_ledger(pool);
    void *rests = take(pool, 1000, PP_BLOCK_RESULT, "rests", 1, PP_HOLD_PENDING);
    pp_ledger_drop(l, rests, PP_HOLD_PENDING, nowhere, 0);
    void *needed = take(pool, 3000, PP_BLOCK_RESULT, "needed", 2, PP_HOLD_PENDING);
    pp_ledger_drop(l, needed, PP_HOLD_PENDING, nowhere, 0);
    pp_pool_give(pool, needed, 3000);
    pp_pool_give(pool, rests, 1000);
    pp_memcheck r = make(pool, "now");
    cr_expect_eq(r.peak_bytes, 4000);
    cr_expect_eq(r.ideal_peak_bytes, 3000);
    cr_expect_eq(group(&r, "rests")->avoidable_bytes, 1000);
    cr_expect_eq(group(&r, "needed")->avoidable_bytes, 0);
    pp_memcheck_free(&r);
    pp_pool_destroy(pool);
}

/* ---- what the past was, judged by what came later ---------------------------------------------- */

Test(memory_ledger, what_is_used_again_was_needed_at_the_peak)
{
    pp_pool *pool = watched(1);
    pp_ledger *l = pp_pool_ledger(pool);
    void *weights = take(pool, 1000, PP_BLOCK_DATA, "weights", 1, PP_HOLD_USER);
    pp_ledger_hold(l, weights, PP_HOLD_PENDING, nowhere, 0);
    pp_ledger_drop(l, weights, PP_HOLD_PENDING, nowhere, 0);
    void *other = take(pool, 3000, PP_BLOCK_RESULT, "other", 2, PP_HOLD_PENDING);
    pp_memcheck r = make(pool, "now");
    cr_expect_eq(r.share[PP_SHARE_RETAINED], 1000);
    pp_memcheck_free(&r);
    pp_ledger_hold(l, weights, PP_HOLD_PENDING, nowhere, 0);
    r = make(pool, "now");
    cr_expect_eq(r.share[PP_SHARE_RETAINED], 0);
    cr_expect_eq(r.share[PP_SHARE_CONST], 1000);
    pp_memcheck_free(&r);
    pp_pool_give(pool, other, 3000);
    pp_pool_give(pool, weights, 1000);
    pp_pool_destroy(pool);
}

Test(memory_ledger, a_renewed_block_counts_once)
{
    pp_pool *pool = watched(2);
    pp_ledger *l = pp_pool_ledger(pool);
    void *at = take(pool, 1000, PP_BLOCK_DATA, "input", 1, PP_HOLD_PENDING);
    const pp_tag tag = {.kind = PP_BLOCK_RESULT, .operator_name = "result"};
    pp_ledger_renew(l, at, &tag);
    pp_memcheck r = make(pool, "now");
    cr_expect_eq(r.peak_bytes, 1000);
    cr_expect_eq(group(&r, "input")->live_count, 0);
    cr_expect_eq(group(&r, "result")->live_bytes, 1000);
    pp_memcheck_free(&r);
    pp_pool_give(pool, at, 1000);
    pp_pool_destroy(pool);
}

Test(memory_ledger, growth_wants_three_epochs_and_goes_on)
{
    static const struct {
        uint64_t samples[8];
        uint32_t n;
        bool grows;
    } cases[] = {
        {{1, 2}, 2, false},          {{1, 2, 3}, 3, true},
        {{3, 3, 3}, 3, false},       {{1, 2, 3, 3, 3, 3}, 6, false},
        {{3, 2, 1}, 3, false},       {{1, 1, 2, 2, 3, 3, 4, 4}, 8, true},
        {{0, 9, 1, 2, 3}, 5, false}, {{0, 0, 0, 4, 4}, 5, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double slope;
        cr_expect_eq(pp_memcheck_grows(cases[i].samples, cases[i].n, &slope), cases[i].grows, "case %zu", i);
    }
}

Test(memory_ledger, a_slab_is_told_by_what_lies_in_it)
{
    pp_pool *pool = watched(1);
    pp_ledger *l = pp_pool_ledger(pool);
    const pp_ledger_part parts[] = {{0, 600, 0, 1, {.kind = PP_BLOCK_PLANNED, .operator_name = "exp"}},
                                    {640, 300, 1, 2, {.kind = PP_BLOCK_PLANNED, .operator_name = "sum"}},
                                    {0, 500, 2, 3, {.kind = PP_BLOCK_PLANNED, .operator_name = "log"}}};
    pp_tag tag = {.kind = PP_BLOCK_SLAB, .plan = pp_ledger_plan(l, 1000, parts, 3)};
    cr_expect_neq(tag.plan, 0);
    cr_expect_eq(pp_ledger_plan(l, 1000, parts, 3), tag.plan, "an equal plan is the same");
    void *at;
    cr_assert_eq(pp_pool_take_as(pool, 1000, &tag, &at, NULL), PPTO_OK);
    pp_memcheck r = make(pool, "now");
    cr_expect_eq(group(&r, "exp")->peak_share_bytes, 600);
    cr_expect_eq(group(&r, "sum")->peak_share_bytes, 300);
    cr_expect_eq(group(&r, "log")->peak_share_bytes, 0);
    cr_expect_eq(group(&r, "slab")->peak_share_bytes, 100);
    cr_expect_eq(r.share[PP_SHARE_SLACK], 100);
    cr_expect_eq(r.share[PP_SHARE_NEEDED], 900);
    pp_memcheck_free(&r);
    pp_pool_give(pool, at, 1000);
    pp_pool_destroy(pool);
}

Test(memory_ledger, lack_of_memory_drops_records_and_never_bytes)
{
    pp_pool *pool = watched(1);
    void *blocks[200];
    for (int i = 0; i < 200; i++) {
        blocks[i] = NULL;
        pp_heap_fail_at(2, false); /* the block itself comes first */
        (void)pp_pool_take(pool, 100, &blocks[i], NULL);
        pp_heap_fail_at(0, false);
        pp_pool_counters counters;
        pp_ledger_totals totals;
        pp_pool_count(pool, &counters);
        pp_ledger_count(pp_pool_ledger(pool), &totals);
        cr_expect_eq(totals.current_bytes, counters.current_bytes);
        cr_expect_eq(totals.sum_of_parts, counters.current_bytes);
    }
    for (int i = 0; i < 200; i++) pp_pool_give(pool, blocks[i], 100);
    pp_ledger_totals totals;
    pp_ledger_count(pp_pool_ledger(pool), &totals);
    cr_expect_eq(totals.current_bytes, 0);
    cr_expect_eq(totals.sum_of_parts, 0);
    pp_pool_destroy(pool);
    cr_expect_eq(pp_heap_count().live, 0);
}

Test(memory_ledger, a_long_history_keeps_its_end_and_says_so)
{
    pp_pool *pool = watched(2);
    for (int i = 0; i < 70000; i++)
        pp_pool_give(pool, take(pool, 64, PP_BLOCK_RESULT, "op", 1, PP_HOLD_NONE), 64);
    pp_memcheck r = make(pool, "now");
    cr_expect_eq(r.dropped, 70000 - 65536);
    cr_expect_not_null(r.why_incomplete);
    cr_expect_eq(r.buffers.n, 65536);
    pp_memcheck_free(&r);
    pp_pool_destroy(pool);
}

Test(memory_ledger, a_live_block_costs_at_most_two_hundred_bytes)
{
    pp_pool *pool = watched(1);
    void *blocks[4096];
    for (int i = 0; i < 4096; i++) blocks[i] = take(pool, 64, PP_BLOCK_RESULT, "op", 1, PP_HOLD_USER);
    pp_ledger_totals totals;
    pp_ledger_count(pp_pool_ledger(pool), &totals);
    cr_expect_leq(totals.record_bytes, 4096 * 200, "%lu bytes", (unsigned long)totals.record_bytes);
    for (int i = 0; i < 4096; i++) pp_pool_give(pool, blocks[i], 64);
    pp_pool_destroy(pool);
}

Test(memory_ledger, level_three_gives_every_block_back_at_once)
{
    pp_pool *pool = watched(3);
    pp_pool_counters counters;
    for (int i = 0; i < 10; i++)
        pp_pool_give(pool, take(pool, 5 << 20, PP_BLOCK_DATA, "x", 1, PP_HOLD_USER), 5 << 20);
    pp_pool_count(pool, &counters);
    cr_expect_eq(counters.held_bytes, 0);
    cr_expect_eq(counters.maps, 10);
    pp_pool_destroy(pool);
    cr_expect_eq(pp_heap_count().live, 0);
}

/* ---- the report as a text ---------------------------------------------------------------------- */

Test(memory_ledger, a_report_read_back_says_the_same)
{
    if (!pp_memcheck_reads()) cr_skip_test("built without jansson");
    pp_pool *pool = watched(2);
    pp_ledger *l = pp_pool_ledger(pool);
    world w = {.pool = pool, .random = 7};
    for (int step = 0; step < STEPS; step++) {
        act(&w, step);
        if (step % 50 == 0) pp_ledger_mark(l, step == 0 ? NULL : "mark \"<&>\"");
    }
    pp_memcheck r = make(pool, "now"), again;
    pp_text json = {0}, json_again = {0}, text = {0}, text_again = {0}, svg = {0}, svg_again = {0};
    pp_error err = {0};
    pp_memcheck_write_json(&r, &json);
    cr_assert_eq(pp_memcheck_read(json.at, json.n, &again, &err), PPTO_OK, "%s", err.text);
    pp_memcheck_write_json(&again, &json_again);
    cr_expect_str_eq(json.at, json_again.at);
    pp_memcheck_write_text(&r, &text);
    pp_memcheck_write_text(&again, &text_again);
    cr_expect_str_eq(text.at, text_again.at);
    pp_memcheck_write_svg(&r, &svg);
    pp_memcheck_write_svg(&again, &svg_again);
    cr_expect_str_eq(svg.at, svg_again.at);
    pp_text *all[] = {&json, &json_again, &text, &text_again, &svg, &svg_again};
    for (int i = 0; i < 6; i++) pp_text_free(all[i]);
    pp_memcheck_free(&r);
    pp_memcheck_free(&again);
    end_world(&w);
    pp_pool_destroy(pool);
    cr_expect_eq(pp_heap_count().live, 0);
}

/* Every report that is cut off, or has one byte changed, is read or refused, and nothing is left behind. */
Test(memory_ledger, a_broken_report_is_refused_with_its_place)
{
    if (!pp_memcheck_reads()) cr_skip_test("built without jansson");
    pp_pool *pool = watched(2);
    void *at = take(pool, 100, PP_BLOCK_RESULT, "exp", 5, PP_HOLD_USER);
    pp_ledger_mark(pp_pool_ledger(pool), "m");
    pp_memcheck r = make(pool, "shutdown"), again;
    pp_text json = {0};
    pp_memcheck_write_json(&r, &json);
    for (size_t n = 0; n + 3 < json.n; n++) {
        pp_error err = {0};
        cr_expect_eq(pp_memcheck_read(json.at, n, &again, &err), PPTO_E_FORMAT, "%zu bytes", n);
        cr_expect(strstr(err.text, "byte") != NULL, "%s", err.text);
        pp_memcheck_free(&again);
    }
    for (size_t i = 0; i < json.n; i++)
        for (int k = 0; k < 8; k++) {
            pp_error err = {0};
            json.at[i] = (char)(json.at[i] ^ (1 << k));
            (void)pp_memcheck_read(json.at, json.n, &again, &err);
            pp_memcheck_free(&again);
            json.at[i] = (char)(json.at[i] ^ (1 << k));
        }
    pp_text_free(&json);
    pp_memcheck_free(&r);
    pp_pool_give(pool, at, 100);
    pp_pool_destroy(pool);
    cr_expect_eq(pp_heap_count().live, 0);
}
