/* SPDX-License-Identifier: Apache-2.0
 * Which of several handles a release gave back: by the function, by calls in common, or told as not known;
 * and which groups are known to be held. */
#include "ledger_common.h"
#include "memory/ledger_parts.h"

static const ppto_site helper = {"h.c", "take", 20, 0}, other = {"h.c", "make", 30, 0},
                       elsewhere = {"x.c", "finish", 9, 0};
static volatile int after; /* so that calls are not jumps */

static __attribute__((noinline)) uint32_t one_way(pp_stacks *s)
{
    uint32_t stack = pp_stacks_here(s, 0);
    after = 1;
    return stack;
}

static __attribute__((noinline)) uint32_t other_way(pp_stacks *s)
{
    uint32_t stack = pp_stacks_here(s, 0);
    after = 2;
    return stack;
}

typedef struct world {
    pp_pool *pool;
    pp_stacks *stacks;
    pp_ledger *ledger;
    void *at;
} world;

static world begin(int level)
{
    world w = {.pool = watched(level), .stacks = pp_stacks_create()};
    cr_assert_not_null(w.stacks);
    w.ledger = pp_pool_ledger(w.pool);
    pp_ledger_use_stacks(w.ledger, w.stacks);
    w.at = take(w.pool, 100, PP_BLOCK_RESULT, "exp", 1, PP_HOLD_NONE);
    return w;
}

static void end(world *w)
{
    pp_pool_give(w->pool, w->at, 100);
    pp_pool_destroy(w->pool);
    pp_stacks_destroy(w->stacks);
}

static pp_memcheck report_of(const world *w)
{
    pp_memcheck r;
    cr_assert_eq(pp_memcheck_make(w->ledger, w->stacks, "shutdown", NULL, &r), PPTO_OK);
    return r;
}

static void expect_text(const pp_memcheck *r, const char *word)
{
    pp_text t = {0};
    pp_memcheck_write_text(r, &t);
    cr_expect(strstr(t.at, word) != NULL, "no %s in\n%s", word, t.at);
    pp_text_free(&t);
}

Test(memory_holds, a_release_gives_back_the_hold_of_its_own_function)
{
    pp_pool *pool = watched(1);
    pp_ledger *l = pp_pool_ledger(pool);
    const ppto_site owner = {"a.c", "main", 10, 0}, forgets = {"a.c", "log_step", 20, 0};
    void *at = take(pool, 100, PP_BLOCK_RESULT, "exp", 1, PP_HOLD_NONE);
    pp_ledger_hold(l, at, PP_HOLD_USER, owner, 0);
    pp_ledger_hold(l, at, PP_HOLD_USER, forgets, 0);
    pp_ledger_drop(l, at, PP_HOLD_USER, (ppto_site){"a.c", "main", 30, 0}, 0);
    pp_memcheck r = make(pool, "shutdown");
    cr_assert_eq(r.holders.n, 1);
    cr_expect_str_eq(r.holders.at[0].site.function, "log_step");
    pp_memcheck_free(&r);
    pp_pool_give(pool, at, 100);
    pp_pool_destroy(pool);
}

/* As level 1 tells it, where there is one place and no stack. */
Test(memory_holds, stacks_make_no_place_vaguer)
{
    for (int level = 1; level <= 2; level++) {
        world w = begin(level);
        pp_ledger_hold(w.ledger, w.at, PP_HOLD_USER, helper, level == 2 ? one_way(w.stacks) : 0);
        pp_ledger_hold(w.ledger, w.at, PP_HOLD_USER, helper, level == 2 ? other_way(w.stacks) : 0);
        pp_ledger_drop(w.ledger, w.at, PP_HOLD_USER, elsewhere, level == 2 ? one_way(w.stacks) : 0);
        pp_memcheck r = report_of(&w);
        cr_expect_eq(group(&r, "exp")->retention_count, 1, "level %d", level);
        expect_text(&r, "held by 1 x user_handle taken at h.c:20 take()\n");
        pp_text t = {0};
        pp_memcheck_write_text(&r, &t);
        cr_expect(strstr(t.at, "nothing says which") == NULL, "level %d:\n%s", level, t.at);
        pp_text_free(&t);
        if (level == 2) expect_text(&r, "1 more, taken at h.c:20 take(), was given back at x.c:9 finish()\n");
        pp_memcheck_free(&r);
        pp_ledger_drop(w.ledger, w.at, PP_HOLD_USER, elsewhere, 0);
        r = report_of(&w);
        cr_expect_eq(r.holders.n, 0, "level %d: all are given back", level);
        cr_expect_eq(group(&r, "exp")->loose_count, 0);
        pp_memcheck_free(&r);
        end(&w);
    }
}

Test(memory_holds, where_a_handle_nobody_can_tell_was_given_back_is_told)
{
    world w = begin(1);
    pp_ledger_hold(w.ledger, w.at, PP_HOLD_USER, helper, 0);
    pp_ledger_hold(w.ledger, w.at, PP_HOLD_USER, other, 0);
    pp_ledger_hold(w.ledger, w.at, PP_HOLD_USER, other, 0);
    pp_ledger_drop(w.ledger, w.at, PP_HOLD_USER, elsewhere, 0);
    pp_ledger_drop(w.ledger, w.at, PP_HOLD_USER, elsewhere, 0);
    pp_memcheck r = report_of(&w);
    cr_expect_eq(group(&r, "exp")->loose_count, 2);
    cr_expect_eq(group(&r, "exp")->retention_count, 1);
    expect_text(&r, "held by 2 x user_handle taken at h.c:30 make()");
    expect_text(&r, "2 of these were given back at x.c:9 finish(), and nothing says which\n");
    pp_memcheck_free(&r);
    pp_ledger_drop(w.ledger, w.at, PP_HOLD_USER, elsewhere, 0);
    r = report_of(&w);
    cr_expect_eq(r.holders.n, 0);
    pp_memcheck_free(&r);
    end(&w);
}

/* Scoped uses of a helper beside one that is kept: when the maker's own handle is gone, what is left is of
 * the helper. */
Test(memory_holds, what_one_place_is_left_of_was_given_back_there)
{
    world w = begin(1);
    pp_ledger_hold(w.ledger, w.at, PP_HOLD_USER, other, 0);
    pp_ledger_hold(w.ledger, w.at, PP_HOLD_USER, helper, 0);
    pp_ledger_hold(w.ledger, w.at, PP_HOLD_USER, helper, 0);
    pp_ledger_drop(w.ledger, w.at, PP_HOLD_USER, elsewhere, 0);
    pp_ledger_drop(w.ledger, w.at, PP_HOLD_USER, (ppto_site){"h.c", "make", 40, 0}, 0);
    pp_memcheck r = report_of(&w);
    cr_expect_eq(group(&r, "exp")->retention_count, 1);
    expect_text(&r, "held by 1 x user_handle taken at h.c:20 take()\n");
    expect_text(&r, "1 more, taken at h.c:20 take(), was given back at x.c:9 finish()\n");
    pp_memcheck_free(&r);
    end(&w);
}

/* Takes and gives within one call, each by a function of its own. */
static __attribute__((noinline)) void scope(world *w, ppto_site place)
{
    pp_ledger_hold(w->ledger, w->at, PP_HOLD_USER, place, one_way(w->stacks));
    pp_ledger_drop(w->ledger, w->at, PP_HOLD_USER, elsewhere, other_way(w->stacks));
    after = 3;
}

Test(memory_holds, a_release_gives_back_what_was_taken_within_the_same_call)
{
    world w = begin(2);
    uint32_t before = one_way(w.stacks);
    pp_ledger_hold(w.ledger, w.at, PP_HOLD_USER, helper, before);
    scope(&w, helper);
    const pp_hold_row *left = pp_ledger_find(w.ledger, w.at)->holds;
    cr_expect_eq(left->stack, before);
    cr_expect_null(left->next);
    pp_memcheck r = report_of(&w);
    cr_expect_eq(group(&r, "exp")->loose_count, 0);
    pp_memcheck_free(&r);
    end(&w);
}

/* The maker's handle goes where the caller is done; a handle that was taken on the way stays. Whether stacks
 * are known, of both or of one, says nothing about which of the two it was. */
Test(memory_holds, no_stack_chooses_between_two_places)
{
    for (int known = 0; known < 4; known++) {
        world w = begin(2);
        pp_ledger_hold(w.ledger, w.at, PP_HOLD_USER, other, known & 1 ? one_way(w.stacks) : 0);
        if (known & 2)
            scope(&w, helper);
        else
            pp_ledger_hold(w.ledger, w.at, PP_HOLD_USER, helper, 0);
        if (!(known & 2)) pp_ledger_drop(w.ledger, w.at, PP_HOLD_USER, elsewhere, one_way(w.stacks));
        pp_memcheck r = report_of(&w);
        cr_expect_eq(group(&r, "exp")->retention_count, 1);
        expect_text(&r, "held by 1 x user_handle taken at h.c:30 make()\n");
        expect_text(&r, "held by 1 x user_handle taken at h.c:20 take()\n");
        expect_text(&r, "1 of these was given back at x.c:9 finish(), and nothing says which\n");
        pp_memcheck_free(&r);
        end(&w);
    }
}

/* ---- suppressions ------------------------------------------------------------------------------- */

Test(memory_suppressions, suppressions_are_globs_of_operator_and_place)
{
    static const struct {
        const char *list;
        uint64_t leaked;
    } cases[] = {
        {NULL, 1},          {"", 1},      {"exp", 0},          {"e*\n", 0},        {"exp t.c:5", 0},
        {"exp t.c:6\n", 1}, {"# exp", 1}, {"log\nexp *:5", 0}, {"  exp # why", 0}, {"\texp\t t.c:5 \r\n", 0},
        {"* u.c:*", 1}};
    pp_pool *pool = watched(1);
    void *at = take(pool, 100, PP_BLOCK_RESULT, "exp", 5, PP_HOLD_USER);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pp_memcheck r;
        cr_assert_eq(pp_memcheck_make(pp_pool_ledger(pool), NULL, "shutdown", cases[i].list, &r), PPTO_OK);
        cr_expect_eq(r.count[PP_LEAKED], cases[i].leaked, "%s", cases[i].list);
        cr_expect_eq(r.suppressed, 1 - cases[i].leaked);
        pp_memcheck_free(&r);
    }
    pp_pool_give(pool, at, 100);
    pp_pool_destroy(pool);
}

Test(memory_suppressions, lines_that_are_none_are_refused_with_their_place)
{
    static const struct {
        const char *text, *place; /* NULL: it is fine */
    } cases[] = {{"", NULL},
                 {"# a comment\n\n  \nexp\nlog* *.c:*\n", NULL},
                 {"exp model.c\n", "s.txt:1: no place"},
                 {"exp\nlog a.c:1 b.c:2\n", "s.txt:2: more than"},
                 {"\n\n{\"json\": 1}\n", "s.txt:3: no glob"},
                 {"e[xp\n", "s.txt:1: a [ without"},
                 {"\x7f"
                  "ELF\x02\n",
                  "s.txt:1: no glob"},
                 {"exp a\x01:1", "s.txt:1: no place"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pp_error err = {0};
        ppto_status status = pp_memcheck_check_suppressions(cases[i].text, "s.txt", &err);
        cr_expect_eq(status, cases[i].place == NULL ? PPTO_OK : PPTO_E_VALUE, "case %zu", i);
        cr_expect(cases[i].place == NULL || strstr(err.text, cases[i].place) != NULL, "case %zu: %s", i,
                  err.text);
    }
    static char word[400];
    pp_error err = {0};
    memset(word, 'x', sizeof word - 1);
    cr_expect_eq(pp_memcheck_check_suppressions(word, "s.txt", &err), PPTO_E_VALUE);
}
