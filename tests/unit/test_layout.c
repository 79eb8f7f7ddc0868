/* SPDX-License-Identifier: Apache-2.0
 * Layouts of random plans against a brute-force search of lifetimes that can overlap, bounds against each
 * other and against enumeration, in-place reuse, the verifier against broken layouts, and sizes far beyond
 * usual plans. */
#include <criterion/criterion.h>
#include <string.h>

#include "memory/layout.h"

enum { MOST_STEPS = 64, MOST_BUFFERS = 64, MOST_USES = 4, MOST_NEEDS = 3 };

typedef struct plan {
    uint64_t state;
    pp_layout_problem problem;
    pp_layout_buffer buffers[MOST_BUFFERS];
    uint32_t uses[MOST_BUFFERS][MOST_USES], first[MOST_STEPS + 1], needs[4096];
    bool before[MOST_STEPS][MOST_STEPS];
} plan;

static uint32_t draw(plan *of, uint32_t n)
{
    of->state = of->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(of->state >> 33) % n;
}

static void close_order(plan *of)
{
    memset(of->before, 0, sizeof of->before);
    for (uint32_t s = 0; s < of->problem.n_steps; s++) {
        for (uint32_t k = of->first[s]; k < of->first[s + 1]; k++) of->before[of->needs[k]][s] = true;
        if (of->problem.serial)
            for (uint32_t u = 0; u < s; u++) of->before[u][s] = true;
    }
    for (uint32_t m = 0; m < of->problem.n_steps; m++)
        for (uint32_t a = 0; a < m; a++)
            for (uint32_t b = m + 1; b < of->problem.n_steps; b++)
                of->before[a][b] = of->before[a][b] || (of->before[a][m] && of->before[m][b]);
}

/* Step i defines buffer i; a step reads the buffers of steps it needs. */
static void make(plan *of, uint64_t seed, bool serial)
{
    memset(of, 0, sizeof *of);
    of->state = seed;
    uint32_t n = 2 + draw(of, MOST_STEPS - 2);
    for (uint32_t i = 0; i < n; i++) {
        pp_layout_buffer *buffer = &of->buffers[i];
        *buffer = (pp_layout_buffer){.bytes = draw(of, 8) == 0 ? 0 : (1 + draw(of, 6)) * 100,
                                     .defined = i,
                                     .uses = of->uses[i],
                                     .in_place_of = UINT32_MAX};
        of->first[i + 1] = of->first[i];
        for (uint32_t k = i == 0 ? 0 : draw(of, MOST_NEEDS + 1); k > 0; k--) {
            uint32_t need = i - 1 - draw(of, i < 8 ? i : 8);
            if (of->buffers[need].n_uses == MOST_USES) continue;
            of->uses[need][of->buffers[need].n_uses++] = i;
            of->needs[of->first[i + 1]++] = need;
            if (draw(of, 3) == 0) buffer->in_place_of = need;
        }
    }
    of->problem = (pp_layout_problem){.buffers = of->buffers,
                                      .n_buffers = n,
                                      .n_steps = n,
                                      .first_need = of->first,
                                      .needs = of->needs,
                                      .serial = serial};
    close_order(of);
}

/* All uses and the definition of a are before the definition of b, or b takes over where a is read last. */
static bool ends_before(const plan *of, uint32_t a, uint32_t b, bool same_bytes)
{
    bool in_place = same_bytes && of->buffers[b].in_place_of == a;
    if (!of->before[of->buffers[a].defined][of->buffers[b].defined]) return false;
    for (uint32_t k = 0; k < of->buffers[a].n_uses; k++) {
        uint32_t use = of->uses[a][k];
        if (!of->before[use][of->buffers[b].defined] && !(in_place && use == of->buffers[b].defined))
            return false;
    }
    return true;
}

static bool right(const plan *of, const pp_layout *layout)
{
    for (uint32_t a = 0; a < of->problem.n_buffers; a++) {
        uint64_t from = layout->offset[a], to = from + of->buffers[a].bytes;
        if (from % 64 != 0 || to > layout->bytes) return false;
        for (uint32_t b = 0; b < a; b++) {
            uint64_t other = layout->offset[b], end = other + of->buffers[b].bytes;
            bool share = from < to && other < end && from < end && other < to;
            if (share && !ends_before(of, a, b, from == other) && !ends_before(of, b, a, from == other))
                return false;
        }
    }
    return true;
}

static uint64_t rounded(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

Test(memory_layout, is_right_for_random_plans)
{
    static plan of;
    uint64_t bytes = 0, bound = 0, in_place = 0;
    for (uint64_t seed = 0; seed < 2000; seed++) {
        pp_layout layout;
        pp_error err = {0};
        make(&of, seed, seed % 3 == 0);
        cr_assert_eq(pp_layout_plan(&of.problem, &layout), PPTO_OK);
        cr_expect(right(&of, &layout), "seed %d", (int)seed);
        cr_expect_eq(pp_layout_verify(&of.problem, &layout, &err), PPTO_OK, "seed %d: %s", (int)seed,
                     err.text);
        cr_expect(layout.serial_bound <= layout.lower_bound && layout.lower_bound <= layout.bytes, "seed %d",
                  (int)seed);
        bytes += layout.bytes;
        bound += layout.lower_bound;
        in_place += layout.in_place;
        pp_layout_free(&layout);
    }
    cr_expect(bytes * 100 <= bound * 105, "%llu bytes for %llu", (unsigned long long)bytes,
              (unsigned long long)bound);
    cr_expect_gt(in_place, 1000);
}

Test(memory_layout, bound_is_the_heaviest_antichain)
{
    static plan of;
    for (uint64_t seed = 0; seed < 400; seed++) {
        make(&of, seed, false);
        if (of.problem.n_buffers > 14) of.problem.n_buffers = 14;
        for (uint32_t i = 0; i < of.problem.n_buffers; i++) of.buffers[i].in_place_of = UINT32_MAX;
        uint64_t best = 0;
        for (uint32_t set = 0; set < 1u << of.problem.n_buffers; set++) {
            uint64_t weight = 0;
            bool alive = true;
            for (uint32_t a = 0; alive && a < of.problem.n_buffers; a++) {
                if ((set >> a & 1) == 0) continue;
                weight += rounded(of.buffers[a].bytes);
                for (uint32_t b = 0; alive && b < a; b++)
                    alive = (set >> b & 1) == 0 ||
                            (!ends_before(&of, a, b, false) && !ends_before(&of, b, a, false));
            }
            if (alive && weight > best) best = weight;
        }
        pp_layout layout;
        cr_assert_eq(pp_layout_plan(&of.problem, &layout), PPTO_OK);
        cr_expect_eq(layout.lower_bound, best, "seed %d: %llu, %llu by enumeration", (int)seed,
                     (unsigned long long)layout.lower_bound, (unsigned long long)best);
        pp_layout_free(&layout);
    }
}

Test(memory_layout, chain_in_place_is_one_buffer)
{
    enum { N = 10 };
    pp_layout_buffer buffers[N];
    uint32_t uses[N], first[N + 1] = {0}, needs[N];
    for (uint32_t i = 0; i < N; i++) {
        uses[i] = i + 1;
        buffers[i] = (pp_layout_buffer){.bytes = 1000,
                                        .defined = i,
                                        .uses = &uses[i],
                                        .n_uses = i + 1 < N,
                                        .in_place_of = i != 0 ? i - 1 : UINT32_MAX};
        first[i + 1] = i;
        if (i != 0) needs[i - 1] = i - 1;
    }
    first[0] = first[1] = 0;
    for (uint32_t i = 1; i < N; i++) first[i + 1] = i;
    pp_layout_problem problem = {
        .buffers = buffers, .n_buffers = N, .n_steps = N, .first_need = first, .needs = needs};
    pp_layout layout;
    cr_assert_eq(pp_layout_plan(&problem, &layout), PPTO_OK);
    cr_expect_eq(layout.bytes, 1024);
    cr_expect_eq(layout.lower_bound, 1024);
    cr_expect_eq(layout.in_place, N - 1);
    cr_expect_eq(pp_layout_verify(&problem, &layout, NULL), PPTO_OK);
    pp_layout_free(&layout);
    buffers[5].in_place_of = UINT32_MAX;
    cr_assert_eq(pp_layout_plan(&problem, &layout), PPTO_OK);
    cr_expect_eq(layout.bytes, 2048);
    pp_layout_free(&layout);
}

Test(memory_layout, steps_without_order_share_nothing)
{
    /* two independent chains 0 -> 2, 1 -> 3: alive together in some order, though not in program order */
    uint32_t first[] = {0, 0, 0, 1, 2}, needs[] = {0, 1}, uses[] = {2, 3};
    pp_layout_buffer buffers[] = {
        {.bytes = 64, .defined = 0, .uses = &uses[0], .n_uses = 1, .in_place_of = UINT32_MAX},
        {.bytes = 64, .defined = 1, .uses = &uses[1], .n_uses = 1, .in_place_of = UINT32_MAX},
        {.bytes = 64, .defined = 2, .in_place_of = UINT32_MAX},
        {.bytes = 64, .defined = 3, .in_place_of = UINT32_MAX}};
    pp_layout_problem problem = {
        .buffers = buffers, .n_buffers = 4, .n_steps = 4, .first_need = first, .needs = needs};
    pp_layout layout;
    cr_assert_eq(pp_layout_plan(&problem, &layout), PPTO_OK);
    cr_expect_eq(layout.lower_bound, 256);
    cr_expect_eq(layout.bytes, 256);
    cr_expect_eq(layout.serial_bound, 192);
    pp_layout_free(&layout);
    problem.serial = true;
    cr_assert_eq(pp_layout_plan(&problem, &layout), PPTO_OK);
    cr_expect_eq(layout.bytes, 192);
    pp_layout_free(&layout);
}

Test(memory_layout, verifier_finds_broken_layouts)
{
    static plan of;
    int found = 0, broken = 0;
    for (uint64_t seed = 0; seed < 1000; seed++) {
        pp_layout layout;
        pp_error err = {0};
        make(&of, seed, seed % 2 == 0);
        cr_assert_eq(pp_layout_plan(&of.problem, &layout), PPTO_OK);
        layout.offset[draw(&of, of.problem.n_buffers)] = draw(&of, 8) * 64;
        bool is_right = right(&of, &layout);
        ppto_status status = pp_layout_verify(&of.problem, &layout, &err);
        cr_expect_eq(status == PPTO_OK, is_right, "seed %d: %s", (int)seed, err.text);
        broken += !is_right;
        found += status == PPTO_E_INTERNAL;
        pp_layout_free(&layout);
    }
    cr_expect_eq(found, broken);
    cr_expect_gt(broken, 100);
}

Test(memory_layout, refuses_what_has_no_size)
{
    pp_layout_buffer buffers[6];
    for (uint32_t i = 0; i < 6; i++)
        buffers[i] = (pp_layout_buffer){.bytes = (uint64_t)1 << 62, .defined = 0, .in_place_of = UINT32_MAX};
    pp_layout_problem problem = {.buffers = buffers, .n_buffers = 6, .n_steps = 1, .serial = true};
    pp_layout layout;
    cr_expect_eq(pp_layout_plan(&problem, &layout), PPTO_E_SIZE);
    cr_expect_null(layout.offset);
    buffers[0].bytes = UINT64_MAX;
    problem.n_buffers = 1;
    cr_expect_eq(pp_layout_plan(&problem, &layout), PPTO_E_SIZE);
    problem.n_buffers = 0;
    cr_expect_eq(pp_layout_plan(&problem, &layout), PPTO_OK);
    cr_expect_eq(layout.bytes, 0);
    pp_layout_free(&layout);
}

Test(memory_layout, every_failed_allocation_is_a_status)
{
    static plan of;
    for (uint64_t seed = 1; seed < 20; seed++) {
        make(&of, seed, false);
        int64_t live = pp_heap_count().live;
        ppto_status status = PPTO_E_NOMEM;
        for (uint64_t at = 1; status == PPTO_E_NOMEM; at++) {
            pp_layout layout;
            pp_heap_fail_at(at, true);
            status = pp_layout_plan(&of.problem, &layout);
            if (status == PPTO_OK) status = pp_layout_verify(&of.problem, &layout, NULL);
            pp_heap_fail_at(0, false);
            pp_layout_free(&layout);
            cr_expect_eq(pp_heap_count().live, live);
        }
        cr_expect_eq(status, PPTO_OK);
    }
}

/* n steps in rows of `lanes`: step i reads what stands above it and, every other time, a step of the row
 * above. */
static void long_plan(uint32_t n, uint32_t lanes, bool serial, double most_waste)
{
    pp_layout_buffer *buffers = pp_calloc(n, sizeof *buffers);
    uint32_t *uses = pp_calloc(2 * (size_t)n, sizeof *uses), *first = pp_calloc(n + 1, sizeof *first);
    uint32_t *needs = pp_calloc(2 * (size_t)n, sizeof *needs);
    cr_assert(buffers != NULL && uses != NULL && first != NULL && needs != NULL);
    uint64_t state = 1;
    for (uint32_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        buffers[i] = (pp_layout_buffer){.bytes = 64 + (state >> 40) % 4096,
                                        .defined = i,
                                        .uses = uses + 2 * i,
                                        .in_place_of = UINT32_MAX};
        first[i + 1] = first[i];
        uint32_t others[] = {i - lanes, (i / lanes - 1) * lanes + (i + 1) % lanes};
        for (uint32_t k = 0; i >= lanes && k <= state >> 63; k++) {
            if (k == 1 && others[1] == others[0]) continue;
            needs[first[i + 1]++] = others[k];
            uses[2 * (size_t)others[k] + buffers[others[k]].n_uses++] = i;
        }
    }
    pp_layout_problem problem = {.buffers = buffers,
                                 .n_buffers = n,
                                 .n_steps = n,
                                 .first_need = first,
                                 .needs = needs,
                                 .serial = serial};
    pp_layout layout;
    pp_error err = {0};
    int64_t start = pp_clock_ns();
    cr_assert_eq(pp_layout_plan(&problem, &layout), PPTO_OK);
    int64_t planned = pp_clock_ns();
    cr_expect_eq(pp_layout_verify(&problem, &layout, &err), PPTO_OK, "%s", err.text);
    cr_log_info("%u steps, %u lanes: %.1f ms, verified in %.1f ms, %.3f of the bound", n, lanes,
                (double)(planned - start) / 1e6, (double)(pp_clock_ns() - planned) / 1e6,
                (double)layout.bytes / (double)layout.lower_bound);
    cr_expect_leq((double)layout.bytes, most_waste * (double)layout.lower_bound);
    pp_layout_free(&layout);
    pp_free(buffers), pp_free(uses), pp_free(first), pp_free(needs);
}

Test(memory_layout, long_plans)
{
    long_plan(1000, 1, true, 1);
    long_plan(1000, 3, false, 2.5);
    long_plan(100000, 1, true, 1.6);
    long_plan(100000, 50, true, 1.2);
    long_plan(4096, 4, false, 5);
    long_plan(20000, 4, false, 6);
}
